//! `MemoryStore`: a journal that is gone with the process. For tests; an order must not depend on it.

use super::{
    index::{Index, Line},
    store::{Decide, Mark, Record, Store, StoreError, StoreErrorKind, Turn},
};
use crate::{
    clock::Timestamp,
    future::BoxFuture,
    ids::{IdempotencyKey, NoRandomness, OwnerId},
    origin::Hash,
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub(crate) struct MemoryStore {
    id: OwnerId,
    owner: OwnerId,
    book: Arc<Mutex<Book>>,
    written: Arc<watch::Sender<u64>>,
}

#[derive(Debug)]
struct Book {
    index: Index<Record>,
    count: u64,
    closed: bool,
}

impl MemoryStore {
    pub(crate) fn new() -> Result<Self, NoRandomness> {
        Ok(MemoryStore {
            id: OwnerId::mint()?,
            owner: OwnerId::mint()?,
            book: Arc::new(Mutex::new(Book {
                index: Index::new(),
                count: 0,
                closed: false,
            })),
            written: Arc::new(watch::Sender::new(0)),
        })
    }

    fn with<T>(&self, ask: impl FnOnce(&mut Book) -> T) -> Result<T, StoreError> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.closed {
            return Err(closed());
        }
        Ok(ask(&mut book))
    }
}

/// A store in memory, as [`Journal::memory`](crate::Journal::memory) makes it.
///
/// # Errors
/// The operating system gave no randomness.
#[cfg(feature = "testkit")]
pub fn memory() -> Result<Arc<dyn Store>, StoreError> {
    let store = MemoryStore::new().map_err(|e| StoreError::new(StoreErrorKind::Refused, e.to_string()))?;
    Ok(Arc::new(store))
}

pub(super) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Closed, "the journal is closed: open it anew")
}

/// Runs a decision that asks nothing but its turn: there is nothing it could wait for.
pub(super) fn decide_now(decide: Decide, turn: &mut dyn Turn) -> Result<(), StoreError> {
    let mut decision = decide(turn);
    match decision.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(StoreError::new(
            StoreErrorKind::Refused,
            "a decision waited for something outside its turn: nothing was written",
        )),
    }
}

struct MemoryTurn<'a> {
    book: &'a mut Book,
    owner: OwnerId,
    fresh: Vec<Record>,
}

impl MemoryTurn<'_> {
    fn story_now(&self, key: IdempotencyKey) -> Vec<Record> {
        let mut story = self.book.index.places(&key);
        story.extend(self.fresh.iter().filter(|r| r.key == key).cloned());
        story
    }
}

impl Turn for MemoryTurn<'_> {
    fn by_origin(&mut self, origin: Hash, _source: Hash) -> BoxFuture<'_, Result<Option<IdempotencyKey>, StoreError>> {
        ready(self.book.index.by_origin(&origin))
    }

    fn by_source(&mut self, source: Hash) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>> {
        ready(self.book.index.by_source(&source))
    }

    fn by_repeat(&mut self, repeat: Hash, since: Timestamp) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>> {
        ready(self.book.index.by_repeat(&repeat, since))
    }

    fn claimed_since(&mut self, after: Option<IdempotencyKey>, since: Timestamp) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>> {
        ready(self.book.index.claimed_since(after, since))
    }

    fn story(&mut self, key: IdempotencyKey) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        ready(self.story_now(key))
    }

    fn alive(&mut self, owner: OwnerId) -> BoxFuture<'_, Result<bool, StoreError>> {
        ready(owner == self.owner)
    }

    fn append(&mut self, record: Record) {
        self.fresh.push(record);
    }
}

pub(super) fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

fn done<T: Send + 'static>(result: Result<T, StoreError>) -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(std::future::ready(result))
}

impl Store for MemoryStore {
    fn id(&self) -> OwnerId {
        self.id
    }

    fn owner(&self) -> OwnerId {
        self.owner
    }

    fn turn(&self, decide: Decide) -> BoxFuture<'static, Result<Mark, StoreError>> {
        let owner = self.owner;
        let result = self.with(|book| {
            let mut turn = MemoryTurn {
                book,
                owner,
                fresh: Vec::new(),
            };
            decide_now(decide, &mut turn)?;
            let MemoryTurn { book, fresh, .. } = turn;
            for record in fresh {
                book.count = book.count.saturating_add(1);
                book.index.add(&Line::from(&record), record);
            }
            Ok(Mark(book.count))
        });
        let mark = result.and_then(|mark| mark);
        if let Ok(Mark(count)) = mark {
            self.written.send_replace(count);
        }
        done(mark)
    }

    fn durable(&self, _upto: Mark) -> BoxFuture<'static, Result<(), StoreError>> {
        done(self.with(|_| ()))
    }

    fn story(&self, key: IdempotencyKey) -> BoxFuture<'static, Result<Vec<Record>, StoreError>> {
        done(self.with(|book| book.index.places(&key)))
    }

    fn unsettled(&self, after: Option<IdempotencyKey>, limit: usize) -> BoxFuture<'static, Result<Vec<IdempotencyKey>, StoreError>> {
        done(self.with(|book| book.index.unsettled(after, limit)))
    }

    fn orders(&self) -> BoxFuture<'static, Result<Vec<IdempotencyKey>, StoreError>> {
        done(self.with(|book| book.index.orders()))
    }

    fn changed(&self, seen: Mark, at_most: Duration) -> BoxFuture<'static, Result<Mark, StoreError>> {
        let mut written = self.written.subscribe();
        Box::pin(async move {
            // Time running out is an answer too: the present mark.
            drop(tokio::time::timeout(at_most, written.wait_for(|count| *count > seen.0)).await);
            Ok(Mark(*written.borrow()))
        })
    }

    fn close(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        done(self.with(|book| book.closed = true))
    }
}
