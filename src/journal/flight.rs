//! Who is sending what in this process. One table per journal, shared by every client and every opening of it.
//!
//! A seat is taken under the store's turn and left however its holder ends: done, panicked, or dropped with its runtime. A landing tells
//! everyone who waits; a seat left without one tells them to look at the journal and board again.

use crate::{
    ids::{IdempotencyKey, OwnerId},
    intent::Intent,
    journal::JournalError,
    lifecycle::State,
};
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};
use tokio::sync::watch;

/// What a flight came to: the order as it stands, or a journal that could not write it down.
#[derive(Clone, Debug)]
pub(crate) enum Landing {
    Written(Intent, Box<State>),
    Unwritten(JournalError),
}

#[derive(Debug, Default)]
pub(crate) struct Flights {
    seats: Mutex<HashMap<IdempotencyKey, Waiting>>,
}

/// For those who wait for somebody else's flight.
#[derive(Clone, Debug)]
pub(crate) struct Waiting(watch::Receiver<Option<Landing>>);

impl Waiting {
    /// The landing; `None` when the seat was left without one.
    pub(crate) async fn landing(mut self) -> Option<Landing> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}

/// One order's place in the table. At most one lives per key and process.
#[derive(Debug)]
pub(crate) struct Seat {
    flights: Arc<Flights>,
    key: IdempotencyKey,
    tell: watch::Sender<Option<Landing>>,
}

impl Flights {
    /// The one table of this journal in this process.
    pub(crate) fn of(journal: OwnerId) -> Arc<Flights> {
        static TABLES: LazyLock<Mutex<HashMap<OwnerId, Weak<Flights>>>> = LazyLock::new(Mutex::default);
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|_, table| table.strong_count() > 0);
        if let Some(table) = tables.get(&journal).and_then(Weak::upgrade) {
            return table;
        }
        let table = Arc::new(Flights::default());
        tables.insert(journal, Arc::downgrade(&table));
        table
    }

    /// A seat, unless somebody has it.
    pub(crate) fn take(self: &Arc<Self>, key: IdempotencyKey) -> Result<Seat, Waiting> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = seats.get(&key) {
            return Err(waiting.clone());
        }
        let (tell, told) = watch::channel(None);
        seats.insert(key, Waiting(told));
        Ok(Seat {
            flights: Arc::clone(self),
            key,
            tell,
        })
    }

    /// Everyone in the air now.
    pub(crate) fn all(&self) -> Vec<Waiting> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.values().cloned().collect()
    }
}

impl Seat {
    /// For those who wait for this very flight.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting(self.tell.subscribe())
    }

    /// Tells everyone, and leaves.
    pub(crate) fn land(self, landing: Landing) {
        self.leave();
        self.tell.send_replace(Some(landing));
    }

    fn leave(&self) {
        let mut seats = self.flights.seats.lock().unwrap_or_else(PoisonError::into_inner);
        // Only our own seat: after `leave`, another flight of this key may already have boarded.
        if seats.get(&self.key).is_some_and(|w| w.0.same_channel(&self.tell.subscribe())) {
            seats.remove(&self.key);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}
