//! What the link saw: one [`Passage`] per connection, written on while the connection lives.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::breaks::Break;

/// One connection, and what became of it.
///
/// Counts run ahead of the wire by a hair: they are written down before the bytes go out, so that they are never behind what the other side
/// has seen. Its `Display` is one line of the link's story.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Passage {
    /// Its place among all connections, from 1.
    pub number: usize,
    /// How many whole requests were given to the server. If this is 0, no order can have been placed over this connection.
    pub requests: usize,
    /// How many bytes were given to the server.
    pub up: u64,
    /// How many bytes were given to the client.
    pub down: u64,
    /// What became of it.
    pub fate: Fate,
    planned: Break,
}

impl Passage {
    /// What was to be done to it.
    pub(super) fn planned(&self) -> &Break {
        &self.planned
    }
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            requests,
            up,
            down,
            fate,
            planned,
        } = self;
        write!(
            f,
            "#{number} to {planned} | {fate} | {requests} whole requests, {up} bytes up, {down} bytes down"
        )
    }
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// Nothing has been done to it so far, and it is open.
    Open,
    /// What was planned for it was done to it. Whether it is open is another matter: after a stall it is.
    Broken,
    /// It ended unharmed. If something else was planned for it, that never came up.
    Passed,
    /// The link found no server behind it and reset the connection.
    NoServer,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open, nothing done so far",
            Self::Broken => "done",
            Self::Passed => "ended unharmed",
            Self::NoServer => "no server was there",
        })
    }
}

/// All connections, in the order they came.
#[derive(Debug, Default)]
pub(super) struct Log {
    passages: Mutex<Vec<Passage>>,
}

impl Log {
    /// Opens the record of a new connection.
    pub(super) fn arrive(self: &Arc<Self>, planned: Break) -> Record {
        let mut passages = self.lock();
        let number = passages.len() + 1;
        passages.push(Passage {
            number,
            requests: 0,
            up: 0,
            down: 0,
            fate: Fate::Open,
            planned,
        });
        Record {
            log: Arc::clone(self),
            number,
        }
    }

    pub(super) fn passages(&self) -> Vec<Passage> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Passage>> {
        self.passages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pen for one connection's passage.
#[derive(Debug)]
pub(super) struct Record {
    log: Arc<Log>,
    number: usize,
}

impl Record {
    pub(super) fn up(&self, bytes: usize) {
        self.change(|passage| passage.up = passage.up.saturating_add(bytes as u64));
    }

    pub(super) fn down(&self, bytes: usize) {
        self.change(|passage| passage.down = passage.down.saturating_add(bytes as u64));
    }

    pub(super) fn whole_request(&self) {
        self.change(|passage| passage.requests += 1);
    }

    pub(super) fn broken(&self) {
        self.change(|passage| passage.fate = Fate::Broken);
    }

    pub(super) fn no_server(&self) {
        self.change(|passage| passage.fate = Fate::NoServer);
    }

    /// The connection has ended; unharmed, if nothing else was noted before.
    pub(super) fn ended(&self) {
        self.change(|passage| {
            if passage.fate == Fate::Open {
                passage.fate = Fate::Passed;
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Passage)) {
        if let Some(passage) = self.log.lock().iter_mut().find(|passage| passage.number == self.number) {
            change(passage);
        }
    }
}
