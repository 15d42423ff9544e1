//! `Entry`: one order as a person sees it in a list.

use crate::{
    clock::Timestamp,
    ids::IdempotencyKey,
    intent::Intent,
    journal::Journal,
    lifecycle::{Effect, Settled, Stage, State},
    origin::Origin,
    outcome::Error,
    visible::visible,
};
use serde::Serialize;
use std::fmt;

/// Which orders to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shelf {
    /// Everything that a person has to do something about: it waits for their yes or no, or for a look.
    NeedsYou,
    /// A yes or no is awaited.
    AwaitingApproval,
    /// Approved, and not sent yet.
    Approved,
    /// A person has to look.
    Review,
    /// Open: in the air, or resting until somebody resumes it.
    Open,
    /// All of these.
    Unsettled,
    /// It has its end: it succeeded, or was rejected, denied or abandoned. Reads the whole journal, the archive too.
    Ended,
    /// Every order of the journal.
    All,
}

/// One order, in a line. `Display` is that line; whatever its names hold, it stays one.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Entry {
    /// Its key.
    pub key: IdempotencyKey,
    /// Where it stands: `open`, `awaiting_approval`, `approved`, `review`, `succeeded`, `rejected`, `denied` or `abandoned`.
    pub standing: &'static str,
    /// Its operation's name.
    pub operation: String,
    /// The logical name of the server it goes to.
    pub api: String,
    /// What it came from.
    pub origin: Origin,
    /// The agent that asked for it.
    pub agent: String,
    /// When it got its key.
    pub claimed_at: Option<Timestamp>,
    /// How many attempts were made.
    pub attempts: u32,
    /// Whether it may have been processed.
    pub effect: Effect,
    /// Why it stands there, in a sentence, where that can be said.
    pub why: String,
    /// Silence until then is a no.
    pub expires: Option<Timestamp>,
}

impl Entry {
    pub(super) fn of(intent: &Intent, state: &State, now: Timestamp) -> Self {
        let stage = state.at(now);
        Entry {
            key: intent.key(),
            standing: stage.word(),
            operation: intent.operation().to_owned(),
            api: intent.api().to_owned(),
            origin: intent.origin().clone(),
            agent: intent.actor().agent.clone(),
            claimed_at: state.claimed_at(),
            attempts: state.attempts(),
            effect: state.effect(),
            why: why(&stage, state),
            expires: match stage {
                Stage::AwaitingApproval { until } | Stage::Approved { until } => Some(until),
                Stage::Open | Stage::NeedsReview(_) | Stage::Settled(_) => None,
            },
        }
    }
}

fn why(stage: &Stage, state: &State) -> String {
    match stage {
        Stage::AwaitingApproval { .. } => state.ruling().map(|ruling| ruling.because().reason.clone()).unwrap_or_default(),
        Stage::Approved { .. } => state
            .approval()
            .map(|given| format!("approved by {}", given.by))
            .unwrap_or_default(),
        Stage::NeedsReview(reason) => reason.sentence().to_owned(),
        Stage::Open => state.last_seen().map(|seen| format!("last seen: {seen}")).unwrap_or_default(),
        Stage::Settled(Settled::Denied { because }) => because.reason.clone(),
        Stage::Settled(Settled::Abandoned { by, why }) => format!("{by}: {why}"),
        Stage::Settled(_) => String::new(),
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.claimed_at.map(|at| at.to_string()).unwrap_or_default();
        let origin = self.origin.to_string();
        write!(
            f,
            "{since:<24}  {}  {:<17}  {:<14}  {}, {}",
            self.key,
            self.standing,
            visible(&self.operation),
            visible(&origin),
            visible(&self.agent)
        )?;
        match self.why.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", visible(&self.why)),
        }
    }
}

impl Shelf {
    fn holds(self, stage: &Stage) -> bool {
        match (self, stage) {
            (Shelf::All, _) | (Shelf::Ended, Stage::Settled(_)) => true,
            (_, Stage::Settled(_)) => false,
            (Shelf::Unsettled, _) => true,
            (Shelf::NeedsYou, Stage::AwaitingApproval { .. } | Stage::NeedsReview(_)) => true,
            (Shelf::AwaitingApproval, Stage::AwaitingApproval { .. }) => true,
            (Shelf::Approved, Stage::Approved { .. }) => true,
            (Shelf::Review, Stage::NeedsReview(_)) => true,
            (Shelf::Open, Stage::Open) => true,
            _ => false,
        }
    }
}

pub(super) async fn list(journal: &Journal, shelf: Shelf) -> Result<Vec<Entry>, Error> {
    let orders = match shelf {
        Shelf::Ended | Shelf::All => journal.orders().await?,
        _ => journal.all_unsettled().await?,
    };
    let mut found = Vec::new();
    each(journal, orders, |intent, state| {
        let now = journal.now();
        if shelf.holds(&journal.stage_now(state)) {
            found.push(Entry::of(intent, state, now));
        }
    })
    .await?;
    Ok(found)
}

/// These orders, as far as they can be read.
pub(super) async fn each(journal: &Journal, orders: Vec<IdempotencyKey>, mut look: impl FnMut(&Intent, &State)) -> Result<(), Error> {
    for key in orders {
        match journal.order(key).await {
            Ok(Some((intent, state))) => look(&intent, &state),
            Ok(None) => {}
            Err(error) => tracing::error!(%key, %error, "an order can't be read; nothing is sent under it, and a person must look"),
        }
    }
    Ok(())
}
