//! Works whose keys are taken and which are not done: stuck ones, that end when a test says so, and slow ones, that end at their time.
//!
//! Nobody wakes up for a slow one. Whoever is about to look, a request or a test, first has done what is due.

use std::time::Duration;
use tokio::time::Instant;

use super::counter::Effect;
use super::ledger::Claim;
use super::reply::Reply;
use super::route::Work;
use super::seen::Seen;

/// Work that is done when a test says so.
pub(crate) struct StuckWork {
    pub(crate) claim: Claim,
    pub(crate) seen: Seen,
    pub(crate) work: Work,
}

/// Work that is done at its time, with what it will have come to.
pub(crate) struct SlowWork {
    /// None on a desk that is deaf to keys.
    pub(crate) claim: Option<Claim>,
    pub(crate) number: usize,
    pub(crate) reply: Reply,
    pub(crate) effect: Option<Effect>,
    /// None: beyond the end of time.
    pub(crate) due: Option<Instant>,
}

/// All works under way, oldest first.
#[derive(Default)]
pub(crate) struct Underway {
    stuck: Vec<StuckWork>,
    slow: Vec<SlowWork>,
}

impl Underway {
    pub(crate) fn stick(&mut self, work: StuckWork) {
        self.stuck.push(work);
    }

    pub(crate) fn slow_down(&mut self, work: SlowWork) {
        self.slow.push(work);
    }

    pub(crate) fn take_stuck(&mut self, key: &str) -> Option<StuckWork> {
        let place = self.stuck.iter().position(|work| work.is_under(key))?;
        Some(self.stuck.remove(place))
    }

    pub(crate) fn take_slow(&mut self, key: &str) -> Option<SlowWork> {
        let place = self.slow.iter().position(|work| work.is_under(key))?;
        Some(self.slow.remove(place))
    }

    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<SlowWork> {
        self.slow.extract_if(.., |work| work.due.is_some_and(|due| due <= now)).collect()
    }

    /// What the slow work under this key will have come to, and in how long.
    pub(crate) fn coming(&self, key: &str, now: Instant) -> Option<(Reply, Duration)> {
        let work = self.slow.iter().find(|work| work.is_under(key))?;
        Some((work.reply.clone(), work.due?.saturating_duration_since(now)))
    }
}

/// By the ledger's key, which may be scoped, or by the key as it came.
impl StuckWork {
    fn is_under(&self, key: &str) -> bool {
        self.claim.key() == key || self.seen.key.as_deref() == Some(key)
    }
}

impl SlowWork {
    fn is_under(&self, key: &str) -> bool {
        let by_effect = || self.effect.as_ref().is_some_and(|effect| effect.key.as_deref() == Some(key));
        self.claim.as_ref().is_some_and(|claim| claim.key() == key || by_effect())
    }
}
