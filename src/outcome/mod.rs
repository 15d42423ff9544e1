//! Everything a caller can be told: `Outcome`, `Error`, `NextStep`, `ToolReply`. Worded so that a person or a model acts right on it; nothing
//! here says "try again with a new order", since that is how the second order comes about.

mod error;
mod reply;

pub use error::{Error, ErrorKind, Existing};
pub use reply::ToolReply;

use crate::{
    answer::Answer,
    clock::Timestamp,
    ids::IdempotencyKey,
    intent::Intent,
    lifecycle::{Effect, ReviewReason, Settled, Sighting, Stage, State},
    operation::Operation,
    policy::preview,
    ruling::{Because, Change, Preview, changes},
};
use serde::Serialize;
use std::{fmt, sync::Arc};

/// What an order came to.
#[must_use = "an order may have been refused, denied or parked: look"]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome<R> {
    /// The server processed it. Effect: certain.
    Succeeded(Receipt<R>),
    /// The server's definite no: nothing was registered, and nothing that was sent can still be. Effect: none.
    Rejected(Refusal),
    /// Policy's or a person's no: nothing was sent. Effect: none.
    Denied(Denial),
    /// A person is asked; nothing was sent. Effect: none.
    AwaitingApproval(Ticket),
    /// A person has to look; nothing more is sent. Effect: as it says.
    NeedsReview(Review),
    /// A person stopped it. Effect: as it says.
    Abandoned(Stopped),
}

/// A success: the server's receipt, and how it came. `Debug` hides the value: it is what the server said of the order.
#[derive(Clone)]
#[non_exhaustive]
pub struct Receipt<R> {
    /// What the server says of the order.
    pub value: R,
    /// The order's key.
    pub key: IdempotencyKey,
    /// Whether the server says that it had processed the order earlier and answered from its store.
    pub replayed: bool,
    /// How many attempts it took, over all runs.
    pub attempts: u32,
}

impl<R> fmt::Debug for Receipt<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt")
            .field("key", &self.key)
            .field("replayed", &self.replayed)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

/// The server's definite no.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The order's key.
    pub key: IdempotencyKey,
    /// The server's status; `None` where a person established the no.
    pub status: Option<u16>,
    /// The server's error code, where it names one that is short and plain.
    pub code: Option<String>,
    answer: Option<Answer>,
}

impl Refusal {
    /// The server's answer, for reading. It holds what the server chose to say: do not log it blindly.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }
}

/// A no from this side: nothing was sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Denial {
    /// The order's key.
    pub key: IdempotencyKey,
    /// Which rule, or who, and why.
    pub because: Because,
}

/// An order that waits for a person. Plain data: it may be stored, sent and shown; it can't approve anything.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Ticket {
    /// The order's key.
    pub key: IdempotencyKey,
    /// What asked for a person.
    pub because: Because,
    /// Silence until then is a no.
    pub expires: Timestamp,
    /// What a person is shown: field by field, what would change. `None`: the order that it acts on could not be read yet, and nobody can
    /// approve it before; resume reads it.
    pub preview: Option<Box<Preview>>,
    /// Who has said yes, where somebody has: resume sends it.
    pub approved_by: Option<String>,
}

/// An order that a person has to look at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Review {
    /// The order's key.
    pub key: IdempotencyKey,
    /// Why.
    pub reason: ReviewReason,
    /// Whether it may have been processed.
    pub effect: Effect,
    /// For an order that differs at the server: what differs, field by field, where both name the field; `before` is what was meant, `after`
    /// what the server shows. These are contents of orders: not for logs.
    pub changes: Vec<Change>,
    answer: Option<Answer>,
}

impl Review {
    /// The server's answer that raised it, where one did. It holds what the server chose to say: do not log it blindly.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }
}

/// An order that a person stopped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stopped {
    /// The order's key.
    pub key: IdempotencyKey,
    /// Who.
    pub by: String,
    /// Why.
    pub why: String,
    /// Whether it may have been processed all the same.
    pub effect: Effect,
}

/// The stored answer of an order whose type the caller did not name: what resume gives. [`Outcome::read`] brings the type back.
#[derive(Clone, Debug)]
pub struct Raw {
    operation: Arc<str>,
    answer: Answer,
}

impl Raw {
    /// The operation's name.
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// The server's answer.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }
}

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.answer.json().serialize(serializer)
    }
}

impl<R> Outcome<R> {
    /// The order's key.
    pub fn key(&self) -> IdempotencyKey {
        match self {
            Outcome::Succeeded(it) => it.key,
            Outcome::Rejected(it) => it.key,
            Outcome::Denied(it) => it.key,
            Outcome::AwaitingApproval(it) => it.key,
            Outcome::NeedsReview(it) => it.key,
            Outcome::Abandoned(it) => it.key,
        }
    }

    /// Whether the order, not merely this call, may have been processed.
    pub fn effect(&self) -> Effect {
        match self {
            Outcome::Succeeded(_) => Effect::Certain,
            Outcome::Rejected(_) | Outcome::Denied(_) | Outcome::AwaitingApproval(_) => Effect::None,
            Outcome::NeedsReview(it) => it.effect,
            Outcome::Abandoned(it) => it.effect,
        }
    }

    /// What to do now.
    pub fn next_step(&self) -> NextStep {
        match self {
            Outcome::Succeeded(_) => NextStep::Nothing,
            // What a person established lets nothing follow until a person frees the origin.
            Outcome::Rejected(it) if it.status.is_none() => NextStep::AskHuman,
            Outcome::Rejected(_) => NextStep::FixInput,
            // Somebody said yes, and it was not sent yet.
            Outcome::AwaitingApproval(it) if it.approved_by.is_some() => NextStep::Resume { not_before: None },
            // Policy's no is not a riddle for a model to solve.
            Outcome::Denied(_) | Outcome::AwaitingApproval(_) | Outcome::NeedsReview(_) | Outcome::Abandoned(_) => NextStep::AskHuman,
        }
    }

    /// The receipt, or an error that says why there is none: for callers with one happy path.
    ///
    /// # Errors
    /// Anything but a success.
    pub fn receipt(self) -> Result<Receipt<R>, NotPlaced> {
        let (key, effect, next_step, why) = (self.key(), self.effect(), self.next_step(), self.sentence());
        match self {
            Outcome::Succeeded(receipt) => Ok(receipt),
            _ => Err(NotPlaced {
                key,
                effect,
                next_step,
                why,
            }),
        }
    }

    /// What happened, in a sentence for people and models. Holds no contents of the order.
    fn sentence(&self) -> String {
        match self {
            Outcome::Succeeded(it) if it.replayed => "the order was processed; the server answered from its store".to_owned(),
            Outcome::Succeeded(_) => "the order was processed".to_owned(),
            Outcome::Rejected(it) => match (it.status, &it.code) {
                (Some(412), _) => {
                    "the server refused the order (412, precondition failed): the order that it acts on has changed since; read that \
                                   one anew; nothing was registered"
                        .to_owned()
                }
                (Some(status), Some(code)) => format!("the server refused the order ({status} {code}); nothing was registered"),
                (Some(status), None) => format!("the server refused the order ({status}); nothing was registered"),
                (None, _) => "a person established that the server has no such order".to_owned(),
            },
            Outcome::Denied(it) => format!("not sent: {}", it.because.reason),
            Outcome::AwaitingApproval(it) => match &it.approved_by {
                Some(by) => format!("approved by {by}, and not sent yet"),
                None => format!("not sent yet: {}", it.because.reason),
            },
            Outcome::NeedsReview(it) => format!("a person has to look: {}", it.reason.sentence()),
            Outcome::Abandoned(it) => format!("{} stopped it: {}", it.by, it.why),
        }
    }
}

impl Outcome<Raw> {
    /// Brings the caller's type back. The journal does not change when it can't.
    ///
    /// # Errors
    /// `UnreadableReceipt`: the order was processed (effect: certain), but its answer does not fit the type.
    pub fn read<O: Operation>(self) -> Result<Outcome<O::Receipt>, Error> {
        Ok(match self {
            Outcome::Succeeded(it) => {
                let value = O::receipt(&it.value.answer).map_err(|why| Error::unreadable(it.key, why))?;
                Outcome::Succeeded(Receipt {
                    value,
                    key: it.key,
                    replayed: it.replayed,
                    attempts: it.attempts,
                })
            }
            Outcome::Rejected(it) => Outcome::Rejected(it),
            Outcome::Denied(it) => Outcome::Denied(it),
            Outcome::AwaitingApproval(it) => Outcome::AwaitingApproval(it),
            Outcome::NeedsReview(it) => Outcome::NeedsReview(it),
            Outcome::Abandoned(it) => Outcome::Abandoned(it),
        })
    }
}

/// Why there is no receipt.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{key}: {why}")]
#[non_exhaustive]
pub struct NotPlaced {
    /// The order's key.
    pub key: IdempotencyKey,
    /// Whether it may have been processed.
    pub effect: Effect,
    /// What to do now.
    pub next_step: NextStep,
    why: String,
}

/// What a caller should do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextStep {
    /// Resume this order: the same key and the same bytes go out again, or the outcome is learnt.
    Resume {
        /// Not worth trying before.
        not_before: Option<Timestamp>,
    },
    /// Ask a person.
    AskHuman,
    /// Correct the order's contents.
    FixInput,
    /// Mend the set-up (address, credential, disk); then resume.
    FixSetup,
    /// Nothing.
    Nothing,
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NextStep::Resume { not_before: None } => f.write_str("resume it under the same key; do not place it as a new order"),
            NextStep::Resume { not_before: Some(at) } => {
                write!(f, "resume it under the same key, not before {at}; do not place it as a new order")
            }
            NextStep::AskHuman => f.write_str("ask a person; do not place it as a new order"),
            NextStep::FixInput => f.write_str("correct the order's contents and submit them with the same origin"),
            NextStep::FixSetup => f.write_str("have the set-up mended, then resume it under the same key"),
            NextStep::Nothing => f.write_str("nothing; it is done"),
        }
    }
}

/// What an order as it stands tells its caller. The one way from the journal to a caller: submit, join, wait and resume all end here.
pub(crate) fn tell(intent: &Intent, state: &State, now: Timestamp) -> Result<Outcome<Raw>, Error> {
    let key = intent.key();
    Ok(match state.at(now) {
        Stage::Open => return Err(Error::open(intent, state)),
        ref stage @ (Stage::AwaitingApproval { until } | Stage::Approved { until }) => Outcome::AwaitingApproval(Ticket {
            key,
            because: asked_because(intent, state),
            expires: until,
            preview: preview(intent, state, now).map(Box::new),
            approved_by: state
                .approval()
                .filter(|_| matches!(stage, Stage::Approved { .. }))
                .map(|approval| approval.by.clone()),
        }),
        Stage::NeedsReview(reason) => Outcome::NeedsReview(Review {
            key,
            reason,
            effect: state.effect(),
            changes: match reason {
                ReviewReason::OtherOrderReturned => differences(intent, state.shown()),
                _ => Vec::new(),
            },
            answer: state.shown().cloned(),
        }),
        Stage::Settled(Settled::Succeeded { answer, replayed }) => Outcome::Succeeded(Receipt {
            value: Raw {
                operation: intent.operation().into(),
                answer,
            },
            key,
            replayed,
            attempts: state.attempts(),
        }),
        Stage::Settled(Settled::Rejected { answer }) => Outcome::Rejected(Refusal {
            key,
            status: answer.as_ref().map(|a| a.status().as_u16()),
            code: match state.last_seen() {
                Some(Sighting::Answered { code, .. }) => code.clone(),
                _ => None,
            },
            answer,
        }),
        Stage::Settled(Settled::Denied { because }) => Outcome::Denied(Denial { key, because }),
        Stage::Settled(Settled::Abandoned { by, why }) => Outcome::Abandoned(Stopped {
            key,
            by,
            why,
            effect: state.effect(),
        }),
    })
}

/// Why a person is asked, by the policy that asked last.
fn asked_because(intent: &Intent, state: &State) -> Because {
    let shown = state.preview(intent).map(|shown| shown.because);
    let ruled = || state.ruling().map(|ruling| ruling.because().clone());
    shown.or_else(ruled).unwrap_or_else(|| Because::rule("", "", ""))
}

/// What a server's order says otherwise than ours, where both name the field.
fn differences(intent: &Intent, shown: Option<&Answer>) -> Vec<Change> {
    let (Some(asked), Some(shown)) = (intent.json(), shown.and_then(Answer::json)) else {
        return Vec::new();
    };
    let mut differences = changes(&asked, shown);
    differences.retain(|change| change.before.is_some() && change.after.is_some());
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_next_step_ever_asks_for_a_new_order() {
        let at = Some(Timestamp::from_millis(0));
        for step in [
            NextStep::Resume { not_before: None },
            NextStep::Resume { not_before: at },
            NextStep::AskHuman,
            NextStep::FixInput,
            NextStep::FixSetup,
            NextStep::Nothing,
        ] {
            let text = step.to_string();
            let asked = text.contains("new order") && !text.contains("do not place it as a new order");
            assert!(!asked, "{text}");
        }
    }
}
