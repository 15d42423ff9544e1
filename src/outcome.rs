//! Everything a caller can be told: `Outcome`, `Error`, `NextStep`, `ToolReply`. Worded so that a person or a model acts right on it; nothing
//! here says "try again with a new order", since that is how the second order comes about.

use crate::{
    answer::Answer,
    clock::Timestamp,
    ids::IdempotencyKey,
    intent::Intent,
    invalid::{Invalid, InvalidConfig},
    journal::JournalError,
    lifecycle::{Effect, Rest, ReviewReason, Settled, Sighting, Stage, State},
    operation::{Operation, Unreadable},
    origin::Origin,
    ruling::{Because, Change},
};
use serde::Serialize;
use serde_json::Value;
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

/// A success: the server's receipt, and how it came.
#[derive(Clone, Debug)]
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
            Outcome::Rejected(_) => NextStep::FixInput,
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
                (Some(status), Some(code)) => format!("the server refused the order ({status} {code}); nothing was registered"),
                (Some(status), None) => format!("the server refused the order ({status}); nothing was registered"),
                (None, _) => "a person established that the server has no such order".to_owned(),
            },
            Outcome::Denied(it) => format!("not sent: {}", it.because.reason),
            Outcome::AwaitingApproval(it) => format!("not sent yet: {}", it.because.reason),
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

/// We do not know, or never tried. A server's or a policy's no is an [`Outcome`].
///
/// Answers three questions: [`effect`](Error::effect) (may the order have been processed?), [`key`](Error::key), and
/// [`next_step`](Error::next_step). Shows no secret, no body, and no URL. Cheap to clone: everyone who shares a flight gets the same.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    text: String,
    effect: Effect,
    key: Option<IdempotencyKey>,
    next: NextStep,
    attempts: u32,
    existing: Option<Existing>,
    changes: Vec<Change>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Inner {
    fn new(kind: ErrorKind, effect: Effect, next: NextStep, text: String) -> Self {
        Inner {
            kind,
            text,
            effect,
            key: None,
            next,
            attempts: 0,
            existing: None,
            changes: Vec::new(),
            source: None,
        }
    }
}

/// What kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The order can never be right as it stands. Nothing was written or sent.
    InvalidInput,
    /// A setting can never be right as it stands. Nothing was sent.
    InvalidConfig,
    /// The origin is known with other contents. Nothing of these contents was sent.
    Drift,
    /// It looks like an order that is known under another origin or another api's name. Nothing was sent.
    LikelyRepeat,
    /// The journal could not do its work. With a key: the order is written and lives. Without: nothing was written; this call sent nothing.
    Journal,
    /// Nothing of it can have been processed; the order is written, and resume will send it.
    NotSent,
    /// It may have been processed; resume finds out.
    InDoubt,
    /// The server, or another flight, is still at work on it.
    StillProcessing,
    /// The server refuses the credential. The order stays open.
    Unauthorized,
    /// The server redirects; never followed. The order stays open.
    UnexpectedRedirect,
    /// A success status with something that is no JSON, such as a sign-in page. The order stays open.
    UnexpectedContent,
    /// The answer is larger than the cap. The order stays open.
    ResponseTooLarge,
    /// No trusted TLS connection. Nothing was sent; the order stays open.
    Tls,
    /// The order was processed, but its answer does not fit the caller's type.
    UnreadableReceipt,
}

/// Another order that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Existing {
    /// Its key.
    pub key: IdempotencyKey,
    /// Its origin.
    pub origin: Origin,
    /// The api it goes to.
    pub api: String,
    /// What became of it: `succeeded`, `rejected`, `denied`, `abandoned`, `awaiting approval`, `under review` or `open`.
    pub standing: &'static str,
    /// Whether it may have been processed.
    pub effect: Effect,
}

impl Error {
    /// What kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the order, not merely this call, may have been processed.
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// The order's key, where it has one.
    pub fn key(&self) -> Option<IdempotencyKey> {
        self.0.key
    }

    /// What to do now.
    pub fn next_step(&self) -> NextStep {
        self.0.next
    }

    /// How many attempts were made, over all runs.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// For `Drift` and `LikelyRepeat`: the order that stands in the way.
    pub fn existing(&self) -> Option<&Existing> {
        self.0.existing.as_ref()
    }

    /// For `Drift`: what differs, field by field, where both are JSON. These are contents of orders: not for logs.
    pub fn changes(&self) -> &[Change] {
        &self.0.changes
    }

    fn unreadable(key: IdempotencyKey, why: Unreadable) -> Self {
        let text = format!("{key} was processed, but {why}; the journal keeps the answer");
        Error(Arc::new(Inner {
            key: Some(key),
            source: Some(Box::new(why)),
            ..Inner::new(ErrorKind::UnreadableReceipt, Effect::Certain, NextStep::Nothing, text)
        }))
    }

    /// The origin is known with other contents.
    pub(crate) fn drift(intent: &Intent, state: &State, now: Timestamp, changes: Vec<Change>) -> Self {
        let fields: Vec<&str> = changes.iter().map(|c| c.field.as_str()).take(5).collect();
        let existing = Existing::of(intent, state, now);
        let text = format!(
            "{} of {} is known as {} ({}) with other contents{}: nothing was sent; a second order from the same source needs its own line",
            intent.operation(),
            intent.origin(),
            existing.key,
            existing.standing,
            if fields.is_empty() {
                String::new()
            } else {
                format!(", at {}", fields.join(", "))
            },
        );
        Error(Arc::new(Inner {
            existing: Some(existing),
            changes,
            ..Inner::new(ErrorKind::Drift, Effect::None, NextStep::AskHuman, text)
        }))
    }

    /// The same contents are known under another origin, or the same origin under another api's name.
    pub(crate) fn likely_repeat(intent: &Intent, state: &State, now: Timestamp) -> Self {
        let existing = Existing::of(intent, state, now);
        let text = format!(
            "this looks like {} {} of {} at {} ({}): nothing was sent; if a person says it is another order, give it its own origin, or \
             Origin::distinct with the reason",
            intent.operation(),
            existing.key,
            existing.origin,
            existing.api,
            existing.standing,
        );
        Error(Arc::new(Inner {
            existing: Some(existing),
            ..Inner::new(ErrorKind::LikelyRepeat, Effect::None, NextStep::AskHuman, text)
        }))
    }

    /// The journal could not write, or make durable, what a flight did.
    pub(crate) fn journal(error: &JournalError) -> Self {
        let (next, rest) = match error.key() {
            Some(key) if error.effect() == Effect::None => (
                NextStep::Resume { not_before: None },
                format!("; {key} is not sent yet: resume will send it unless it is withdrawn"),
            ),
            Some(key) => (
                NextStep::Resume { not_before: None },
                format!("; {key} may have been processed: resume finds out"),
            ),
            None => (
                NextStep::FixSetup,
                "; this call wrote and sent nothing, and whether an earlier call did can't be read".to_owned(),
            ),
        };
        Error(Arc::new(Inner {
            key: error.key(),
            source: Some(Box::new(error.clone())),
            ..Inner::new(ErrorKind::Journal, error.effect(), next, format!("{error}{rest}"))
        }))
    }

    /// The caller's time is up; the flight goes on without it.
    pub(crate) fn still_flying(key: Option<IdempotencyKey>) -> Self {
        let what = key.map_or_else(|| "the order".to_owned(), |key| key.to_string());
        let text =
            format!("{what} is still being sent; the work goes on, and resume or a further call with the same origin learns the outcome");
        Error(Arc::new(Inner {
            key,
            ..Inner::new(
                ErrorKind::StillProcessing,
                Effect::Possible,
                NextStep::Resume { not_before: None },
                text,
            )
        }))
    }

    /// No order stands under this key.
    pub(crate) fn no_such_key(key: IdempotencyKey) -> Self {
        let what = Invalid::new("key", "must be one that this journal knows");
        Error(Arc::new(Inner {
            text: format!("{key} is not in this journal"),
            ..Inner::new(ErrorKind::InvalidInput, Effect::None, NextStep::FixInput, what.to_string())
        }))
    }

    /// The order goes to another api than this client's.
    pub(crate) fn other_api(intent: &Intent, state: &State) -> Self {
        let key = intent.key();
        let text = format!(
            "{key} goes to the api {}, which this client does not speak for: left alone",
            intent.api()
        );
        Error(Arc::new(Inner {
            key: Some(key),
            attempts: state.attempts(),
            ..Inner::new(ErrorKind::InvalidConfig, state.effect(), NextStep::FixSetup, text)
        }))
    }

    /// An open order, told by everything written down of it.
    fn open(intent: &Intent, state: &State) -> Self {
        let effect = state.effect();
        let kind = open_kind(state, effect);
        let next = match (kind, state.rest()) {
            (_, Some(Rest::AttemptsSpent { retry_at } | Rest::TimeSpent { retry_at })) => NextStep::Resume { not_before: *retry_at },
            (ErrorKind::InDoubt | ErrorKind::NotSent | ErrorKind::StillProcessing, _) => NextStep::Resume { not_before: None },
            _ => NextStep::FixSetup,
        };
        Error(Arc::new(Inner {
            key: Some(intent.key()),
            attempts: state.attempts(),
            ..Inner::new(kind, effect, next, open_text(intent, state, kind, next))
        }))
    }
}

fn open_kind(state: &State, effect: Effect) -> ErrorKind {
    match state.rest() {
        Some(Rest::Unauthorized { .. }) => ErrorKind::Unauthorized,
        Some(Rest::Redirected { .. }) => ErrorKind::UnexpectedRedirect,
        Some(Rest::UnexpectedContent { .. }) => ErrorKind::UnexpectedContent,
        Some(Rest::TooLarge {}) => ErrorKind::ResponseTooLarge,
        Some(Rest::Tls {}) => ErrorKind::Tls,
        None => ErrorKind::StillProcessing,
        Some(Rest::AttemptsSpent { .. } | Rest::TimeSpent { .. } | Rest::Interrupted {}) => match (effect, state.last_seen()) {
            (Effect::None, _) => ErrorKind::NotSent,
            (
                _,
                Some(Sighting::Answered {
                    status: 102 | 202 | 208 | 409,
                    ..
                }),
            ) => ErrorKind::StillProcessing,
            _ => ErrorKind::InDoubt,
        },
    }
}

fn open_text(intent: &Intent, state: &State, kind: ErrorKind, next: NextStep) -> String {
    let what = format!("{} {}", intent.operation(), intent.key());
    let attempts = match state.attempts() {
        0 => "no attempt".to_owned(),
        1 => "1 attempt".to_owned(),
        n => format!("{n} attempts"),
    };
    let seen = state.last_seen().map(|seen| format!(", last seen: {seen}")).unwrap_or_default();
    let doubt = state
        .first_doubt()
        .map(|doubt| match doubt.attempt {
            0 => format!("; an earlier run may have sent it ({})", doubt.seen),
            n => format!("; attempt {n} may have been processed ({})", doubt.seen),
        })
        .unwrap_or_default();
    let head = match kind {
        ErrorKind::NotSent => format!("{what} was not processed ({attempts}{seen})"),
        ErrorKind::StillProcessing => format!("{what} is still being processed ({attempts}{seen})"),
        ErrorKind::Unauthorized => format!("{what}: the server does not accept the credential ({attempts}{seen})"),
        ErrorKind::UnexpectedRedirect => format!("{what}: the server redirects, which is never followed ({attempts}{seen})"),
        ErrorKind::UnexpectedContent => format!("{what}: a success status with something that is no JSON ({attempts}{seen})"),
        ErrorKind::ResponseTooLarge => format!("{what}: the answer is larger than the cap ({attempts}{seen})"),
        ErrorKind::Tls => format!("{what}: no trusted TLS connection ({attempts})"),
        _ => format!("outcome unknown: {what} ({attempts}{seen})"),
    };
    format!("{head}{doubt}; {next}")
}

impl Existing {
    fn of(intent: &Intent, state: &State, now: Timestamp) -> Self {
        Existing {
            key: intent.key(),
            origin: intent.origin().clone(),
            api: intent.api().to_owned(),
            standing: match state.at(now) {
                Stage::Settled(Settled::Succeeded { .. }) => "succeeded",
                Stage::Settled(Settled::Rejected { .. }) => "rejected",
                Stage::Settled(Settled::Denied { .. }) => "denied",
                Stage::Settled(Settled::Abandoned { .. }) => "abandoned",
                Stage::AwaitingApproval { .. } | Stage::Approved { .. } => "awaiting approval",
                Stage::NeedsReview(_) => "under review",
                Stage::Open => "open",
            },
            effect: state.effect(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("effect", &self.0.effect)
            .field("key", &self.0.key)
            .field("text", &self.0.text)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<Invalid> for Error {
    fn from(what: Invalid) -> Self {
        let text = format!("{what}; nothing was written or sent");
        Error(Arc::new(Inner {
            source: Some(Box::new(what)),
            ..Inner::new(ErrorKind::InvalidInput, Effect::None, NextStep::FixInput, text)
        }))
    }
}

impl From<InvalidConfig> for Error {
    fn from(what: InvalidConfig) -> Self {
        let text = format!("{what}; nothing was sent");
        Error(Arc::new(Inner {
            source: Some(Box::new(what)),
            ..Inner::new(ErrorKind::InvalidConfig, Effect::None, NextStep::FixSetup, text)
        }))
    }
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        Error::journal(&error)
    }
}

/// What an order as it stands tells its caller. The one way from the journal to a caller: submit, join, wait and resume all end here.
pub(crate) fn tell(intent: &Intent, state: &State, now: Timestamp) -> Result<Outcome<Raw>, Error> {
    let key = intent.key();
    Ok(match state.at(now) {
        Stage::Open => return Err(Error::open(intent, state)),
        Stage::AwaitingApproval { until } | Stage::Approved { until } => Outcome::AwaitingApproval(Ticket {
            key,
            because: state
                .ruling()
                .map(|r| r.because().clone())
                .unwrap_or_else(|| Because::rule("", "", "")),
            expires: until,
        }),
        Stage::NeedsReview(reason) => Outcome::NeedsReview(Review {
            key,
            reason,
            effect: state.effect(),
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

/// What a language model is told: one shape for every end, errors too, so that no framework retries on its own.
///
/// `next_step` is an imperative sentence; none of them asks for a new order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolReply {
    /// `succeeded`, `rejected`, `denied`, `needs_approval`, `needs_review`, `abandoned`, `in_progress`, `unknown`, `not_sent`, `conflict`,
    /// `invalid` or `failed`.
    pub status: &'static str,
    /// `none`, `possible` or `certain`: may the order have been processed?
    pub effect: Effect,
    /// The order's key.
    pub key: Option<IdempotencyKey>,
    /// What happened.
    pub message: String,
    /// What to do now.
    pub next_step: String,
    /// When resuming is worth trying.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The receipt of a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Value>,
}

impl ToolReply {
    /// The reply for what `submit` or `resume` gave.
    pub fn of<R: Serialize>(result: &Result<Outcome<R>, Error>) -> Self {
        match result {
            Ok(outcome) => ToolReply {
                status: match outcome {
                    Outcome::Succeeded(_) => "succeeded",
                    Outcome::Rejected(_) => "rejected",
                    Outcome::Denied(_) => "denied",
                    Outcome::AwaitingApproval(_) => "needs_approval",
                    Outcome::NeedsReview(_) => "needs_review",
                    Outcome::Abandoned(_) => "abandoned",
                },
                effect: outcome.effect(),
                key: Some(outcome.key()),
                message: outcome.sentence(),
                next_step: outcome.next_step().to_string(),
                not_before: None,
                order: match outcome {
                    Outcome::Succeeded(receipt) => serde_json::to_value(&receipt.value).ok(),
                    _ => None,
                },
            },
            Err(error) => ToolReply {
                status: match error.kind() {
                    ErrorKind::InvalidInput => "invalid",
                    ErrorKind::Drift | ErrorKind::LikelyRepeat => "conflict",
                    ErrorKind::NotSent => "not_sent",
                    ErrorKind::StillProcessing => "in_progress",
                    ErrorKind::InDoubt => "unknown",
                    ErrorKind::UnreadableReceipt => "succeeded",
                    _ if error.effect() == Effect::Possible => "unknown",
                    _ => "failed",
                },
                effect: error.effect(),
                key: error.key(),
                message: error.to_string(),
                next_step: error.next_step().to_string(),
                not_before: match error.next_step() {
                    NextStep::Resume { not_before } => not_before,
                    _ => None,
                },
                order: None,
            },
        }
    }
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
