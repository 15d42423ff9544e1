//! Every open client that has met a parked order sends it once a person says yes (R13): one task a client, which looks once a second at what was
//! written of all of them.

use super::Engine;
use crate::{
    clock::Timestamp,
    ids::IdempotencyKey,
    journal::{Heard, Parked},
    lifecycle::Stage,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Parked orders that a client has met, and whether somebody looks at them.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<Watch>);

#[derive(Debug, Default)]
struct Watch {
    orders: HashMap<IdempotencyKey, Parked>,
    running: bool,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to look at; nothing, and whoever looks ends. Both under one lock: an order that is added meanwhile is looked at.
    fn orders(&self) -> Option<Vec<(IdempotencyKey, Parked)>> {
        let mut watch = self.lock();
        watch.running = !watch.orders.is_empty();
        watch
            .running
            .then(|| watch.orders.iter().map(|(key, parked)| (*key, *parked)).collect())
    }
}

impl Engine {
    /// Looks out for a person's word about this order.
    pub(super) fn watch(self: &Arc<Self>, key: IdempotencyKey, until: Timestamp) {
        let mut watch = self.watched.lock();
        watch.orders.insert(key, Parked { until, known_to: None });
        if !std::mem::replace(&mut watch.running, true) {
            let looking = Looking(Arc::downgrade(self));
            tokio::spawn(async move { looking.on().await });
        }
    }

    /// One look: what was approved is sent, what has its end is looked at no more.
    async fn look_out(self: &Arc<Self>, parked: Vec<(IdempotencyKey, Parked)>) {
        let heard = match self.journal.heard_of(parked).await {
            Ok(heard) => heard,
            // A journal that is closed, or can't be read, has no news.
            Err(error) => return tracing::debug!(%error, "parked orders can't be looked at"),
        };
        for Heard { key, stage, known_to } in heard {
            if let Some(Stage::AwaitingApproval { until }) = stage {
                self.watched.lock().orders.insert(key, Parked { until, known_to });
                continue;
            }
            self.watched.lock().orders.remove(&key);
            if let Some(Stage::Approved { .. }) = stage {
                let engine = Arc::clone(self);
                // What comes of it stands in the journal.
                tokio::spawn(async move { drop(engine.resume(key).await) });
            }
        }
    }
}

/// Whoever looks. However that ends (a runtime that goes away, a panic), the next order that is met has somebody look again.
struct Looking(Weak<Engine>);

impl Looking {
    async fn on(mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            // Held for a look only: a client that is gone keeps no journal open, and sends nothing.
            let Some(engine) = self.0.upgrade() else { return };
            let Some(parked) = engine.watched.orders() else {
                // It was said that nobody looks, and somebody else may be by now.
                self.0 = Weak::new();
                return;
            };
            engine.look_out(parked).await;
        }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        if let Some(engine) = self.0.upgrade() {
            engine.watched.lock().running = false;
        }
    }
}
