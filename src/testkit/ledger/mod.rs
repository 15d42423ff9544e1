//! The server's book of keys, apart from HTTP: one row per key, claimed by one atomic step.
//!
//! The order of questions is the promise: other contents first (422), then still processing (409), then the stored
//! answer. Whoever asked "still processing?" first would tell a client to wait for an order that is not its own.

mod memory;
#[cfg(feature = "redis")]
mod redis;
mod turned;
mod wait;

pub use memory::MemoryLedger;
#[cfg(feature = "redis")]
pub use redis::RedisLedger;
pub(crate) use wait::wait;

use crate::clock::{Clock as _, SystemClock, Timestamp};
use crate::future::BoxFuture;
use std::fmt;
use std::time::Duration;

use super::reply::Reply;

/// A book of keys. [`MemoryLedger`] is one server's; `RedisLedger` (feature `redis`) is shared by as many as like.
///
/// A key's life:
///
/// ```text
///            claim                begin                  complete, below 400
/// unknown ----------> PROCESSING ------> PROCESSING, ------------------------> SUCCEEDED
///    ^                 |   |              effect begun   complete, 400 and up
///    |     release     |   |                        \--------------------------> FAILED
///    +-----------------+   | lease over: the next claim takes it over
///    +---------------------+
/// ```
///
/// With the effect begun nobody takes over when a lease is over: whether there was an effect is [unknown](Claimed::Uncertain)
/// until the work is completed after all or an operator [overrules](Ledger::overrule) it. SUCCEEDED and FAILED are forgotten
/// [`Terms::forget_after`] after the key was first claimed; PROCESSING never is.
///
/// After [`LedgerError::Unreachable`] the same call with the same [`Claim`] may be made again: what of it had been done is this call's own.
/// A ledger that loses the answer to a claim asks once more itself, and that is the same claim; asked for by a new call, it is another
/// request, which finds the first one in flight until its lease is over.
pub trait Ledger: fmt::Debug + Send + Sync {
    /// Asks for a key on behalf of a request. One atomic step: of any number that ask for one key at the same time, one gets it.
    fn claim(&self, ask: Ask) -> BoxFuture<'_, Result<Claimed, LedgerError>>;

    /// Says that the effect of this work begins now, so that nobody else does it when the lease is over.
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] if the key is somebody else's by now: the work must not be done.
    fn begin(&self, claim: &Claim) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Ends a claim: stores status, body and the headers `Content-Type`, `ETag` and `Location` for every replay.
    ///
    /// A status from 400 upward makes the row [`RowState::Failed`], any other [`RowState::Succeeded`].
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] if the key is somebody else's by now: nothing was stored, theirs stands.
    fn complete(&self, claim: &Claim, answer: &Reply) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Gives a claim back: the work provably did not happen, and the next request of that key does it.
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] if the key is somebody else's by now.
    fn release(&self, claim: &Claim) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// The row of a key as it stands now; not what was rejected under it, and nothing once it is forgotten.
    fn read(&self, key: &str) -> BoxFuture<'_, Result<Option<Row>, LedgerError>>;

    /// Closes a key that nobody has claimed: a request that arrives late is answered with this, whatever its contents.
    /// Where there is a row already it stays, and is the answer.
    fn tombstone(&self, key: &str, answer: &Reply, terms: Terms) -> BoxFuture<'_, Result<Option<Row>, LedgerError>>;

    /// An operator's word on a key that is PROCESSING: its work gets this answer, and whoever still works on it is fenced out. Says
    /// whether there was anything to overrule.
    fn overrule(&self, key: &str, answer: &Reply) -> BoxFuture<'_, Result<bool, LedgerError>>;

    /// All rows, oldest first; of the rejected, the last thousand.
    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, LedgerError>>;

    /// What the ledger's clock shows. Default: what this machine's does, for a ledger whose clock is not turned.
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Turns the ledger's clock, by milliseconds, forward or back. Whatever was forgotten or taken over meanwhile stays so.
    fn turn_clock(&self, millis: i64);
}

/// A request for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The key, scoped as the server scopes it.
    pub key: String,
    /// The request as it is compared: [`Contents::digest`](super::Contents::digest).
    pub contents: String,
    /// How long things are kept.
    pub terms: Terms,
}

impl Ask {
    /// Asks for a key, on the default [`Terms`].
    pub fn new(key: impl Into<String>, contents: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            contents: contents.into(),
            terms: Terms::default(),
        }
    }

    /// The same on other terms.
    #[must_use]
    pub fn on(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }
}

/// How long a ledger keeps what, as of the claim. Default: for ever, and without a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// A finished key is forgotten this long after it was first claimed, and the next request under it is a new one.
    pub forget_after: Option<Duration>,
    /// The stored answer is dropped this long after the key was first claimed; the key itself stays ([`Claimed::ResultGone`]).
    pub result_for: Option<Duration>,
    /// How long a claim stands before another may take over. `None`: until it is completed, released or overruled.
    pub lease: Option<Duration>,
    /// A longer body is not stored: the key then stands without its answer.
    pub body_max: Option<usize>,
}

/// What a ledger says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claimed {
    /// The key is new, or was left by whoever had it, and is now taken. Do the work, then [`Ledger::complete`].
    New(Claim),
    /// The work was done before; this was the answer, as stored.
    Known(Reply),
    /// The work is still going on.
    InFlight,
    /// The work's effect was begun, and whoever did it has not been heard of since its lease was over.
    Uncertain,
    /// The work was done before, and its answer is not kept any more, or never was.
    ResultGone,
    /// The key is known with other contents.
    Conflict,
}

/// The right to do the work of one key, and to store its answer: an owner and a fence, both of which have to be the row's own
/// when it is used. There is never more than one that works.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a claim that is dropped leaves its key processing for ever; complete or release it"]
pub struct Claim {
    pub(crate) key: String,
    pub(crate) owner: String,
    pub(crate) fence: u64,
}

impl Claim {
    /// The key that was claimed.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its fence: higher with every take-over of this key.
    pub fn fence(&self) -> u64 {
        self.fence
    }
}

/// Why a ledger gives no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The ledger can't be reached. What was asked may have been done all the same.
    #[error("the ledger can't be reached: {0}")]
    Unreachable(String),
    /// The key is somebody else's by now, or finished.
    #[error("the claim on {key} with fence {fence} is not the key's own any more")]
    Fenced {
        /// The key.
        key: String,
        /// The fence that was shown.
        fence: u64,
    },
    /// What is stored under the key can't be read.
    #[error("the ledger's row of {key} can't be read: {why}")]
    Corrupt {
        /// The key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
}

impl LedgerError {
    pub(crate) fn fenced(claim: &Claim) -> Self {
        Self::Fenced {
            key: claim.key.clone(),
            fence: claim.fence,
        }
    }
}

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The idempotency key, scoped as the server scopes it.
    pub key: String,
    /// The request as it is compared. `None` for a tombstone, which is like any request.
    pub contents: Option<String>,
    /// How far it got.
    pub state: RowState,
    /// Whether the effect was begun.
    pub begun: bool,
    /// The stored status, once there is an answer.
    pub status: Option<u16>,
    /// The stored body, byte for byte; `None` if there is none yet, or none any more.
    pub body: Option<Vec<u8>>,
    /// The stored headers: `Content-Type`, `ETag` and `Location`, as far as the answer had them.
    pub headers: Vec<(String, String)>,
    /// The fence of the last claim, a tombstone's included; 0 where there never was one.
    pub fence: u64,
    /// When the key was first claimed.
    pub created: Timestamp,
    /// When the row last changed.
    pub updated: Timestamp,
}

impl Row {
    pub(super) fn new(key: &str, contents: Option<String>, state: RowState, fence: u64, now: Timestamp) -> Self {
        Self {
            key: key.to_owned(),
            contents,
            state,
            begun: false,
            status: None,
            body: None,
            headers: Vec::new(),
            fence,
            created: now,
            updated: now,
        }
    }

    /// The stored answer, if it is still there.
    pub fn answer(&self) -> Option<Reply> {
        Some(Reply::stored(self.status?, self.headers.clone(), self.body.clone()?))
    }
}

/// How far a row got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RowState {
    /// Claimed, and not finished.
    Processing,
    /// Finished with a stored answer below 400.
    Succeeded,
    /// Finished with a stored answer of 400 or more. It is replayed all the same.
    Failed,
    /// Refused, because the key stood there with other contents.
    Rejected,
}

impl RowState {
    pub(crate) fn of(answer: &Reply) -> Self {
        match answer.code() {
            ..400 => Self::Succeeded,
            _ => Self::Failed,
        }
    }
}

impl fmt::Display for RowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Processing => "PROCESSING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Rejected => "REJECTED",
        })
    }
}
