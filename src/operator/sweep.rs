//! Resuming all that can be resumed without a second thought; and what is left out, with the reason.

use super::{Entry, Operator, entry::each};
use crate::{
    ids::IdempotencyKey,
    lifecycle::{ReviewReason, Stage},
    outcome::{Error, Outcome, Raw},
};
use std::fmt;

/// What a sweep over all orders takes up, and what it leaves out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Sweep {
    /// What is to be resumed.
    pub due: Vec<Entry>,
    /// What is left out, and why.
    pub skipped: Vec<Skipped>,
    /// What became of what was resumed; empty where nothing was.
    pub resumed: Vec<(IdempotencyKey, Result<Outcome<Raw>, Error>)>,
}

/// An order that a sweep leaves out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// The order.
    pub entry: Entry,
    /// Why it is left out.
    pub why: Skip,
}

/// Why a sweep leaves an order out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skip {
    /// A person's yes or no is awaited.
    AwaitingApproval,
    /// A person has to look.
    UnderReview(ReviewReason),
    /// It may have been sent, and sending it again could be a second order.
    HeldBack(ReviewReason),
    /// Somebody is sending it.
    InFlight,
    /// Its api is not known here.
    UnknownApi(String),
    /// It is approved, and the policy that weighs it once more is not known here.
    NoPolicy,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skip::AwaitingApproval => f.write_str("a person's yes or no is awaited"),
            Skip::UnderReview(reason) => write!(f, "a person has to look: {}", reason.sentence()),
            Skip::HeldBack(reason) => write!(f, "sending it again could be a second order: {}", reason.sentence()),
            Skip::InFlight => f.write_str("somebody is sending it"),
            Skip::UnknownApi(name) => write!(f, "its api {name} is not known here"),
            Skip::NoPolicy => {
                f.write_str("it is approved, and the policy that weighs it once more is not known here: a client's resume sends it")
            }
        }
    }
}

pub(super) async fn survey(operator: &Operator) -> Result<Sweep, Error> {
    let mut found = Vec::new();
    let orders = operator.journal.all_unsettled().await?;
    each(&operator.journal, orders, |intent, state| {
        found.push((intent.clone(), state.clone()))
    })
    .await?;
    let mut sweep = Sweep::default();
    for (intent, state) in found {
        let now = operator.journal.now();
        let why = match (operator.journal.stage_now(&state), operator.engine(&intent)) {
            (Stage::Settled(_), _) => continue,
            (Stage::AwaitingApproval { .. }, _) => Some(Skip::AwaitingApproval),
            (Stage::NeedsReview(reason), _) if !state.is_open() => Some(Skip::UnderReview(reason)),
            (_, None) => Some(Skip::UnknownApi(intent.api().to_owned())),
            _ if operator.journal.is_flying(intent.key()).await? => Some(Skip::InFlight),
            (Stage::Approved { .. }, _) => operator.policy.is_none().then_some(Skip::NoPolicy),
            (_, Some(engine)) => engine.held_back(&intent, &state).map(Skip::HeldBack),
        };
        let entry = Entry::of(&intent, &state, now);
        match why {
            None => sweep.due.push(entry),
            Some(why) => sweep.skipped.push(Skipped { entry, why }),
        }
    }
    Ok(sweep)
}
