//! The desk's log: every request with its contents, when it came and when its answer was due. Only ever written at
//! the end, and once more when the answer is decided.

use crate::clock::monotonic;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

use super::compare::Contents;
use super::dialect::Facts;
use super::reply::Reply;
use super::seen::{Did, Seen};

/// All requests, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: Mutex<Vec<Entry>>,
}

/// One request and what the judge of suspicions needs beside it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) seen: Seen,
    pub(crate) kind: Kind,
    /// The comparison form, if the request carries an order and its body can be read.
    pub(crate) contents: Option<Contents>,
    pub(crate) arrived: Instant,
    /// When the answer left or will leave; `None` while undecided and when there was none.
    pub(crate) answered: Option<Instant>,
}

/// What sort of request it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It asks for something to be done once.
    Order,
    /// It asks for an order to be cancelled by its key, which is its own.
    Withdrawal,
    /// It asks for something to be told.
    Lookup,
    /// It is for no endpoint of the desk.
    Stray,
}

/// What the desk decided about a request.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) did: Did,
    /// `None`: close the connection without an answer.
    pub(crate) reply: Option<Reply>,
    /// Whether `reply` is a replay and carries the marker.
    pub(crate) replayed: bool,
    pub(crate) delay: Duration,
}

impl Decision {
    /// An answer given at once, by whatever the ledger did.
    pub(crate) fn answer(did: Did, reply: Reply) -> Self {
        Self {
            did,
            reply: Some(reply),
            replayed: false,
            delay: Duration::ZERO,
        }
    }

    /// The connection is closed without an answer.
    pub(crate) fn lost(did: Did) -> Self {
        Self {
            did,
            reply: None,
            replayed: false,
            delay: Duration::ZERO,
        }
    }
}

impl Log {
    /// Writes a request down as it arrives and numbers it.
    pub(crate) fn arrive(&self, request: &wiremock::Request, facts: &Facts) -> Seen {
        let mut entries = self.lock();
        let seen = Seen::arrived(entries.len() + 1, request, facts);
        entries.push(Entry {
            seen: seen.clone(),
            kind: Kind::Stray,
            contents: None,
            arrived: monotonic(),
            answered: None,
        });
        seen
    }

    /// Adds what the request turned out to be.
    pub(crate) fn identify(&self, number: usize, kind: Kind, contents: Option<Contents>) {
        self.change(number, |entry| {
            entry.kind = kind;
            entry.contents = contents;
        });
    }

    /// Adds what became of the request, which is now known whole.
    pub(crate) fn settle(&self, number: usize, decision: &Decision) -> Option<Seen> {
        self.change(number, |entry| {
            // Slow work may be done by now, and have said so.
            if entry.seen.did == Did::Nothing {
                entry.seen.did = decision.did;
            }
            entry.seen.status = decision.reply.as_ref().map(Reply::code);
            entry.seen.replayed = decision.replayed;
            // A delay beyond the end of time is no answer.
            entry.answered = monotonic().checked_add(decision.delay).filter(|_| decision.reply.is_some());
            entry.seen.clone()
        })
    }

    /// Adds which steps of the script were played on the request.
    pub(crate) fn played(&self, number: usize, played: Option<String>) {
        self.change(number, |entry| entry.seen.played = played);
    }

    /// Corrects what the ledger did, once that is known.
    pub(crate) fn did(&self, number: usize, did: Did) {
        self.change(number, |entry| entry.seen.did = did);
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    fn change<T>(&self, number: usize, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut entries = self.lock();
        // Numbered from 1, in the order they stand.
        entries.get_mut(number.checked_sub(1)?).map(change)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
