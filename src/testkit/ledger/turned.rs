//! The clock of a ledger: this machine's, and how far it was turned.

use crate::clock::{Clock as _, SystemClock, Timestamp};
use std::sync::atomic::{AtomicI64, Ordering};

/// In milliseconds, forward or back.
#[derive(Debug, Default)]
pub(super) struct Turned(AtomicI64);

impl Turned {
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millis(SystemClock.now().as_millis().saturating_add(self.by()))
    }

    pub(super) fn by(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(super) fn turn(&self, millis: i64) {
        let turn = |turned: i64| Some(turned.saturating_add(millis));
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, turn).ok();
    }
}
