//! Resuming what a crash, a lost reply or a closed laptop left open: which orders, how many at once. What is done with each is `engine.rs`.

use crate::{
    engine::Engine,
    ids::{IdempotencyKey, dice},
    journal::Journal,
    lifecycle::Stage,
    origin::Origin,
    outcome::{Error, Outcome, Raw, tell},
};

use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

/// Orders are read from the journal in pages.
const PAGE: usize = 256;
/// Each start is put off by up to this much, so that a fleet that restarts together does not knock together.
const JITTER_MS: u64 = 100;

/// One order that was open, and what it came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resumed {
    /// Its key.
    pub key: IdempotencyKey,
    /// Its operation's name.
    pub operation: String,
    /// What it came from.
    pub origin: Origin,
    /// What it came to.
    pub result: Result<Outcome<Raw>, Error>,
}

/// One order that resume did not touch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeftAlone {
    /// Its key.
    pub key: IdempotencyKey,
    /// Why not.
    pub why: Why,
}

/// Why resume leaves an order alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It goes to another api than this client's.
    OtherApi(String),
    /// It waits for a person's yes or no.
    AwaitingApproval,
    /// A person has to look.
    UnderReview,
    /// Its record can't be read; nothing is sent under it.
    Unreadable(String),
}

/// What resuming found: the orders it took up, with what they came to, and those it left alone. Iterates over the former.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Resumption {
    /// Taken up.
    pub resumed: Vec<Resumed>,
    /// Left alone.
    pub left_alone: Vec<LeftAlone>,
}

impl IntoIterator for Resumption {
    type Item = Resumed;
    type IntoIter = std::vec::IntoIter<Resumed>;

    fn into_iter(self) -> Self::IntoIter {
        self.resumed.into_iter()
    }
}

/// Open orders as they come to an end, one by one. Dropping it stops nothing that is in flight.
#[derive(Debug)]
pub struct Resuming {
    ended: mpsc::Receiver<Resumed>,
    left_alone: Vec<LeftAlone>,
}

impl Resuming {
    /// The next order to come to an end; `None` after the last.
    pub async fn next(&mut self) -> Option<Resumed> {
        self.ended.recv().await
    }

    /// The orders that were left alone.
    pub fn left_alone(&self) -> &[LeftAlone] {
        &self.left_alone
    }
}

/// What is to be resumed, and who it is.
struct Found {
    key: IdempotencyKey,
    operation: String,
    origin: Origin,
}

/// Starts resuming everything of the engine's api that is open. One order that fails never holds up another.
pub(crate) async fn resume_each(engine: Arc<Engine>) -> Result<Resuming, Error> {
    let (found, left_alone) = survey(&engine).await?;
    let (tell, ended) = mpsc::channel(found.len().max(1));
    let gate = Arc::new(Semaphore::new(engine.resume_at_once.min(Semaphore::MAX_PERMITS)));
    tokio::spawn(async move {
        let mut tasks = JoinSet::new();
        for Found { key, operation, origin } in found {
            // Waits here, not in a task each: an order nobody has begun costs nothing.
            let Ok(turn) = Arc::clone(&gate).acquire_owned().await else {
                return;
            };
            let (engine, tell) = (Arc::clone(&engine), tell.clone());
            tasks.spawn(async move {
                tokio::time::sleep(Duration::from_millis(dice(JITTER_MS))).await;
                let result = engine.resume(key).await;
                drop(turn);
                let resumed = Resumed {
                    key,
                    operation,
                    origin,
                    result,
                };
                // Nobody listens any more: the journal has it.
                drop(tell.send(resumed).await);
            });
        }
        while tasks.join_next().await.is_some() {}
    });
    Ok(Resuming { ended, left_alone })
}

pub(crate) async fn resume_pending(engine: Arc<Engine>) -> Result<Resumption, Error> {
    let mut resuming = resume_each(engine).await?;
    let mut resumed = Vec::new();
    while let Some(one) = resuming.next().await {
        resumed.push(one);
    }
    Ok(Resumption {
        resumed,
        left_alone: resuming.left_alone,
    })
}

/// One order by its key.
pub(crate) async fn resume_one(engine: Arc<Engine>, key: IdempotencyKey) -> Result<Outcome<Raw>, Error> {
    let Some((intent, state)) = engine.journal.order(key).await? else {
        return Err(Error::no_such_key(key));
    };
    if intent.api() != engine.api.name() {
        return Err(Error::other_api(&intent, &state));
    }
    engine.resume(key).await
}

/// One order as the journal has it, without sending.
pub(crate) async fn known(journal: &Journal, key: IdempotencyKey) -> Result<Option<Outcome<Raw>>, Error> {
    let found = journal.order(key).await?;
    found.map(|(intent, state)| tell(&intent, &state, journal.now())).transpose()
}

async fn survey(engine: &Engine) -> Result<(Vec<Found>, Vec<LeftAlone>), Error> {
    let (mut found, mut left_alone) = (Vec::new(), Vec::new());
    let (mut after, mut met) = (None, HashSet::new());
    loop {
        let page = engine.journal.unsettled(after, PAGE).await?;
        let known = met.len();
        for key in &page {
            // The order a page ended with may have moved to the archive since: then the list begins anew.
            if !met.insert(*key) {
                continue;
            }
            match look(engine, *key).await {
                Ok(one) => found.extend(one),
                Err(why) => left_alone.push(LeftAlone { key: *key, why }),
            }
        }
        after = page.last().copied();
        if page.len() < PAGE || met.len() == known {
            return Ok((found, left_alone));
        }
    }
}

/// `Ok(None)`: settled meanwhile.
async fn look(engine: &Engine, key: IdempotencyKey) -> Result<Option<Found>, Why> {
    let order = engine.journal.order(key).await.map_err(|e| Why::Unreadable(e.to_string()))?;
    let Some((intent, state)) = order else { return Ok(None) };
    if intent.api() != engine.api.name() {
        return Err(Why::OtherApi(intent.api().to_owned()));
    }
    match state.at(engine.journal.now()) {
        Stage::Open => Ok(Some(Found {
            key,
            operation: intent.operation().to_owned(),
            origin: intent.origin().clone(),
        })),
        Stage::AwaitingApproval { .. } | Stage::Approved { .. } => Err(Why::AwaitingApproval),
        Stage::NeedsReview(_) => Err(Why::UnderReview),
        Stage::Settled(_) => Ok(None),
    }
}
