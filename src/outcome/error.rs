//! `Error`: we do not know, or never tried. Answers whether the order may have been processed before anything else.

use super::NextStep;
use crate::{
    clock::Timestamp,
    ids::IdempotencyKey,
    intent::Intent,
    invalid::{Invalid, InvalidConfig},
    journal::JournalError,
    lifecycle::{Effect, Rest, Settled, Stage, State, TurnedAway, Verb},
    operation::{Placed, Unreadable},
    origin::Origin,
    ruling::Change,
};
use std::{fmt, sync::Arc};

/// We do not know, or never tried. A server's or a policy's no is an [`Outcome`](super::Outcome).
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
    turned_away: Option<TurnedAway>,
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
            turned_away: None,
            source: None,
        }
    }

    /// Of an order as it stands: its key, its effect and its attempts.
    fn about(intent: &Intent, state: &State, kind: ErrorKind, next: NextStep, text: String) -> Self {
        Inner {
            key: Some(intent.key()),
            attempts: state.attempts(),
            ..Inner::new(kind, state.effect(), next, text)
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
    /// It acts on an order whose own outcome is not known, so nothing of it was sent. [`key`](Error::key), [`effect`](Error::effect) and
    /// [`next_step`](Error::next_step) speak of that order: once it has its outcome, submit this one again.
    OrderPending,
    /// A person may not do that with this order, as it stands: nothing was changed, and the attempt is on record. See
    /// [`turned_away`](Error::turned_away).
    TurnedAway,
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

    /// For `Drift`, `LikelyRepeat` and `OrderPending`: the order that stands in the way.
    pub fn existing(&self) -> Option<&Existing> {
        self.0.existing.as_ref()
    }

    /// For `Drift`: what differs, field by field, where both are JSON. These are contents of orders: not for logs.
    pub fn changes(&self) -> &[Change] {
        &self.0.changes
    }

    /// For `TurnedAway`: why.
    pub fn turned_away(&self) -> Option<&TurnedAway> {
        self.0.turned_away.as_ref()
    }

    /// A person was not let.
    pub(crate) fn not_let(intent: &Intent, state: &State, verb: Verb, why: TurnedAway) -> Self {
        let text = format!("{verb} {}: not done, since {why}; nothing was sent by this", intent.key());
        Error(Arc::new(Inner {
            turned_away: Some(why),
            ..Inner::about(intent, state, ErrorKind::TurnedAway, NextStep::AskHuman, text)
        }))
    }

    fn misconfigured(intent: &Intent, state: &State, next: NextStep, text: String) -> Self {
        Error(Arc::new(Inner::about(intent, state, ErrorKind::InvalidConfig, next, text)))
    }

    /// There is no api here by which the server of this order could be reached.
    pub(crate) fn unreachable_api(intent: &Intent, state: &State) -> Self {
        let text = format!(
            "{} goes to the api {}, which this operator was given no way to: give it by Operator::with_api",
            intent.key(),
            intent.api()
        );
        Error::misconfigured(intent, state, NextStep::FixSetup, text)
    }

    /// An approved order is weighed by the policy once more, and there is none here.
    pub(crate) fn no_policy(intent: &Intent, state: &State) -> Self {
        let text = format!(
            "{} is approved and weighed by the policy once more before it is sent, which this operator was not given: the next resume by a \
             client sends it, or give the policy by Operator::with_policy",
            intent.key()
        );
        Error::misconfigured(intent, state, NextStep::FixSetup, text)
    }

    pub(super) fn unreadable(key: IdempotencyKey, why: Unreadable) -> Self {
        let text = format!("{key} was processed, but {why}; the journal keeps the answer");
        Error(Arc::new(Inner {
            key: Some(key),
            source: Some(Box::new(why)),
            ..Inner::new(ErrorKind::UnreadableReceipt, Effect::Certain, NextStep::Nothing, text)
        }))
    }

    /// The origin is known with other contents.
    pub(crate) fn drift(intent: &Intent, state: &State, now: Timestamp, changes: Vec<Change>) -> Self {
        // Members of a map may be data: only what looks like a field's name is shown.
        let plain = |field: &&str| field.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.[]".contains(&b)) && field.len() <= 64;
        let fields: Vec<&str> = changes.iter().map(|c| c.field.as_str()).filter(plain).take(5).collect();
        let existing = Existing::of(intent, state, now);
        let text = format!(
            "{} of {} is known as {} ({}) with other contents{}: nothing of these was sent; if a person says it is a second order from the \
             same source, give it its own line",
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
        let effect = existing.effect_if_it_is_this_one();
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
            ..Inner::new(ErrorKind::LikelyRepeat, effect, NextStep::AskHuman, text)
        }))
    }

    /// The order that it acts on has no outcome yet.
    pub(crate) fn pending(intent: &Intent, state: &State, now: Timestamp) -> Self {
        let existing = Existing::of(intent, state, now);
        let next = match state.at(now) {
            Stage::Open => resumed(state),
            _ => NextStep::AskHuman,
        };
        let text = format!(
            "nothing was sent: it acts on the {} of {} ({}), which is {}; {next}; then submit this one again, with the same origin",
            intent.operation(),
            intent.origin(),
            existing.key,
            existing.standing,
        );
        Error(Arc::new(Inner {
            existing: Some(existing),
            ..Inner::about(intent, state, ErrorKind::OrderPending, next, text)
        }))
    }

    /// The order that it acts on came to nothing.
    pub(crate) fn not_placed(intent: &Intent, state: &State, now: Timestamp) -> Self {
        let existing = Existing::of(intent, state, now);
        let text = format!(
            "nothing was sent: it acts on the {} of {} ({}), which was {}: there is no such order at the server",
            intent.operation(),
            intent.origin(),
            existing.key,
            existing.standing,
        );
        Error(Arc::new(Inner {
            existing: Some(existing),
            ..Inner::new(ErrorKind::InvalidInput, Effect::None, NextStep::FixInput, text)
        }))
    }

    /// The order that it acts on is not in this journal.
    pub(crate) fn nothing_placed(to: &Placed) -> Self {
        let text = format!(
            "nothing was sent: this journal knows no {} of {} at this api; name the order by the server's name for it",
            to.operation, to.origin
        );
        Error(Arc::new(Inner::new(
            ErrorKind::InvalidInput,
            Effect::None,
            NextStep::FixInput,
            text,
        )))
    }

    /// The receipt of the order that it acts on does not say what the server calls it.
    pub(crate) fn nameless(intent: &Intent, state: &State, now: Timestamp) -> Self {
        let text = format!(
            "nothing was sent: the receipt of the {} of {} ({}) names no order at /order_id or /id; name it by the server's name for it",
            intent.operation(),
            intent.origin(),
            intent.key(),
        );
        Error(Arc::new(Inner {
            existing: Some(Existing::of(intent, state, now)),
            ..Inner::new(ErrorKind::InvalidInput, Effect::None, NextStep::FixInput, text)
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
        let text = format!("{what} is still being sent; the work goes on, and resume learns the outcome");
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
        // Mistyped, torn, or in another journal: whether an order stands under it, this journal can't say.
        let text = format!("{key} is not in this journal: nothing was sent by this call, and whether it was by another can't be told");
        Error(Arc::new(Inner::new(
            ErrorKind::InvalidInput,
            Effect::Possible,
            NextStep::AskHuman,
            text,
        )))
    }

    /// The order goes to another api than this client's.
    pub(crate) fn other_api(intent: &Intent, state: &State) -> Self {
        let key = intent.key();
        let text = format!(
            "{key} goes to the api {}, which this client does not speak for: left alone",
            intent.api()
        );
        Error::misconfigured(intent, state, NextStep::FixSetup, text)
    }

    /// The dialect has no lookup that could find the order: none at all, or none for one that acts on another.
    pub(crate) fn no_lookup(intent: &Intent, state: &State, dialect: &str) -> Self {
        let key = intent.key();
        let text = format!(
            "{key} can't be looked up: the dialect `{dialect}` has no lookup for it; say one by Dialect::lookup, or have a person look at the server"
        );
        Error::misconfigured(intent, state, NextStep::AskHuman, text)
    }

    /// An open order, told by everything written down of it.
    pub(super) fn open(intent: &Intent, state: &State) -> Self {
        let effect = state.effect();
        let kind = open_kind(state, effect);
        let next = match kind {
            ErrorKind::InDoubt | ErrorKind::NotSent | ErrorKind::StillProcessing => resumed(state),
            _ => NextStep::FixSetup,
        };
        Error(Arc::new(Inner {
            key: Some(intent.key()),
            attempts: state.attempts(),
            ..Inner::new(kind, effect, next, open_text(intent, state, kind, next))
        }))
    }
}

/// What to do with an open order, and when.
fn resumed(state: &State) -> NextStep {
    let not_before = match state.rest() {
        Some(Rest::AttemptsSpent { retry_at } | Rest::TimeSpent { retry_at } | Rest::BudgetSpent { retry_at }) => *retry_at,
        _ => None,
    };
    NextStep::Resume { not_before }
}

fn open_kind(state: &State, effect: Effect) -> ErrorKind {
    match state.rest() {
        Some(Rest::Unauthorized { .. }) => ErrorKind::Unauthorized,
        Some(Rest::Redirected { .. }) => ErrorKind::UnexpectedRedirect,
        Some(Rest::UnexpectedContent { .. }) => ErrorKind::UnexpectedContent,
        Some(Rest::TooLarge {}) => ErrorKind::ResponseTooLarge,
        Some(Rest::Tls {}) => ErrorKind::Tls,
        None => ErrorKind::StillProcessing,
        Some(Rest::AttemptsSpent { .. } | Rest::TimeSpent { .. } | Rest::BudgetSpent { .. } | Rest::Unseen {} | Rest::Interrupted {}) => {
            match (effect, state.last_seen()) {
                (Effect::None, _) => ErrorKind::NotSent,
                (_, Some(seen)) if seen.says_in_progress() => ErrorKind::StillProcessing,
                _ => ErrorKind::InDoubt,
            }
        }
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

    /// Whether it is that order is what nobody knows; if it is, that order's effect is this one's (R15).
    fn effect_if_it_is_this_one(&self) -> Effect {
        match self.effect {
            Effect::None => Effect::None,
            Effect::Possible | Effect::Certain => Effect::Possible,
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
