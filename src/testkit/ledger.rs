//! The server's book of keys: one row per key, claimed under one lock, apart from HTTP.
//!
//! The order of questions is the promise: other contents first (422), then still processing (409), then the stored
//! answer. Whoever asked "still processing?" first would tell a client to wait for an order that is not its own.

use crate::clock::{Clock as _, SystemClock, Timestamp};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::compare::Contents;
use super::reply::Reply;

/// A ledger in memory. Safe to share between threads: of any number that claim one key at the same time, one gets it.
///
/// ```
/// use uketsuke::testkit::{Claimed, Contents, MemoryLedger, Reply};
///
/// let ledger = MemoryLedger::new();
/// let order = Contents::read("POST", "/orders", br#"{"sku":"A-1"}"#)?;
/// let Claimed::New(claim) = ledger.claim("key-1", &order) else { unreachable!("nobody had the key") };
/// assert_eq!(ledger.claim("key-1", &order), Claimed::InFlight);
/// ledger.complete(claim, &Reply::status(201));
/// assert_eq!(ledger.claim("key-1", &order), Claimed::Known(Reply::status(201)));
/// # Ok::<(), uketsuke::testkit::Unreadable>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryLedger {
    rows: Mutex<Vec<Row>>,
}

impl MemoryLedger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a key on behalf of a request.
    ///
    /// Other contents under a known key are written down as a row of their own, [`RowState::Rejected`], and leave the
    /// first row as it is.
    pub fn claim(&self, key: &str, contents: &Contents) -> Claimed {
        let mut rows = self.lock();
        let Some(row) = rows.iter().find(|row| row.is_original_of(key)) else {
            rows.push(Row::new(key, contents, RowState::Processing));
            return Claimed::New(Claim { key: key.to_owned() });
        };
        if row.contents != *contents {
            rows.push(Row::new(key, contents, RowState::Rejected));
            return Claimed::Conflict;
        }
        match (row.state, row.status) {
            (RowState::Succeeded | RowState::Failed, Some(status)) => {
                Claimed::Known(Reply::stored(status, row.headers.clone(), row.body.clone()))
            }
            _ => Claimed::InFlight,
        }
    }

    /// Ends a claim: stores status, body and the headers `Content-Type`, `ETag` and `Location` for every replay.
    ///
    /// A status from 400 upward makes the row [`RowState::Failed`], any other [`RowState::Succeeded`].
    pub fn complete(&self, claim: Claim, reply: &Reply) {
        let mut rows = self.lock();
        if let Some(row) = rows.iter_mut().find(|row| row.is_original_of(&claim.key)) {
            row.state = if reply.code() >= 400 {
                RowState::Failed
            } else {
                RowState::Succeeded
            };
            row.status = Some(reply.code());
            row.headers = reply.kept_headers();
            row.body = reply.bytes().to_vec();
            row.updated = SystemClock.now();
        }
    }

    /// Gives a claim back: the work provably did not happen, and the next request of that key does it.
    pub fn release(&self, claim: Claim) {
        self.lock().retain(|row| !row.is_original_of(&claim.key));
    }

    /// The row of a key; not what was rejected under it.
    pub fn row(&self, key: &str) -> Option<Row> {
        self.lock().iter().find(|row| row.is_original_of(key)).cloned()
    }

    /// All rows in the order they were written, rejected ones included.
    pub fn rows(&self) -> Vec<Row> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Row>> {
        // Every change under the lock is a single assignment or push, so a panicking thread leaves no half row.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a ledger says to a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The key is new and now taken. Do the work, then [`MemoryLedger::complete`].
    New(Claim),
    /// The work was done before; this was the answer, as stored.
    Known(Reply),
    /// The work is still going on.
    InFlight,
    /// The key is known with other contents.
    Conflict,
}

/// The right to do the work of one key, and to store its answer. There is never more than one of a key.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is dropped leaves its key processing for ever; complete or release it"]
pub struct Claim {
    key: String,
}

impl Claim {
    /// The key that was claimed.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The idempotency key.
    pub key: String,
    /// The request, as it is compared.
    pub contents: Contents,
    /// How far it got.
    pub state: RowState,
    /// The stored status, once there is an answer.
    pub status: Option<u16>,
    /// The stored body, byte for byte.
    pub body: Vec<u8>,
    /// The stored headers: `Content-Type`, `ETag` and `Location`, as far as the answer had them.
    pub headers: Vec<(String, String)>,
    /// When the row was written.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
}

impl Row {
    fn new(key: &str, contents: &Contents, state: RowState) -> Self {
        let now = SystemClock.now();
        Self {
            key: key.to_owned(),
            contents: contents.clone(),
            state,
            status: None,
            body: Vec::new(),
            headers: Vec::new(),
            created: now,
            updated: now,
        }
    }

    fn is_original_of(&self, key: &str) -> bool {
        self.state != RowState::Rejected && self.key == key
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
