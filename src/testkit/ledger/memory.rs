//! The ledger of one server: rows behind one lock.

use super::turned::Turned;
use super::{Ask, Claim, Claimed, Ledger, LedgerError, Row, RowState, Terms};
use crate::clock::Timestamp;
use crate::future::BoxFuture;
use crate::testkit::reply::Reply;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A ledger in memory. Safe to share between threads and tasks.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use uketsuke::testkit::{Ask, Claimed, Contents, Ledger, MemoryLedger, Reply};
///
/// let ledger = MemoryLedger::new();
/// let order = Contents::read("POST", "/orders", br#"{"sku":"A-1"}"#)?;
/// let ask = Ask::new("key-1", order.digest());
/// let Claimed::New(claim) = ledger.claim(ask.clone()).await? else { unreachable!("nobody had the key") };
/// assert_eq!(ledger.claim(ask.clone()).await?, Claimed::InFlight);
/// ledger.complete(&claim, &Reply::status(201)).await?;
/// assert_eq!(ledger.claim(ask).await?, Claimed::Known(Reply::status(201)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryLedger {
    book: Mutex<Book>,
    clock: Turned,
}

/// How many refused requests are remembered.
const REJECTED_MAX: usize = 1000;

#[derive(Debug)]
struct Book {
    /// This ledger among all of the process: a claim of another, with the same key and fence, is not ours.
    owner: String,
    /// By the order in which they came.
    rows: BTreeMap<u64, Entry>,
    keys: HashMap<String, Place>,
    rejected: VecDeque<u64>,
    next: u64,
}

/// What is known of a key: its fence, which outlives its row, and where its own row is. What was rejected under it is elsewhere.
#[derive(Debug, Default)]
struct Place {
    fence: u64,
    row: Option<u64>,
}

#[derive(Clone, Debug)]
struct Entry {
    row: Row,
    terms: Terms,
    leased_until: Option<Timestamp>,
}

impl Default for MemoryLedger {
    fn default() -> Self {
        static LEDGERS: AtomicU64 = AtomicU64::new(0);
        let book = Book {
            owner: format!("memory-{}", LEDGERS.fetch_add(1, Ordering::Relaxed)),
            rows: BTreeMap::new(),
            keys: HashMap::new(),
            rejected: VecDeque::new(),
            next: 0,
        };
        Self {
            book: Mutex::new(book),
            clock: Turned::default(),
        }
    }
}

impl MemoryLedger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        // Every change under the lock is over before anything can panic.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim_now(&self, ask: Ask) -> Claimed {
        let mut book = self.lock();
        let now = self.clock.now();
        let owner = book.owner.clone();
        let Some((entry, fence)) = book.standing(&ask.key, now) else {
            return book.claim_new(ask, now);
        };
        if entry.row.contents.as_ref().is_some_and(|contents| *contents != ask.contents) {
            book.reject(ask, now);
            return Claimed::Conflict;
        }
        let row = &mut entry.row;
        match (row.state, entry.leased_until) {
            (RowState::Processing, Some(until)) if now >= until && row.begun => Claimed::Uncertain,
            (RowState::Processing, Some(until)) if now >= until => {
                *fence += 1;
                row.fence = *fence;
                row.updated = now;
                entry.leased_until = ask.terms.lease.map(|lease| now.plus(lease));
                Claimed::New(Claim {
                    key: ask.key,
                    owner,
                    fence: *fence,
                })
            }
            (RowState::Processing, _) => Claimed::InFlight,
            _ => row.answer().map_or(Claimed::ResultGone, Claimed::Known),
        }
    }

    /// Changes the row of a claim that still is the key's own.
    fn with<T>(&self, claim: &Claim, change: impl FnOnce(&mut Entry, Timestamp) -> T) -> Result<T, LedgerError> {
        let mut book = self.lock();
        let now = self.clock.now();
        let entry = book.own(claim, now).ok_or_else(|| LedgerError::fenced(claim))?;
        Ok(change(entry, now))
    }
}

impl Book {
    /// The key's own row and its fence; brings the row up to date with the clock.
    fn standing(&mut self, key: &str, now: Timestamp) -> Option<(&mut Entry, &mut u64)> {
        let place = self.keys.get_mut(key)?;
        let at = place.row?;
        if self.rows.get(&at).is_none_or(|entry| entry.forgotten(now)) {
            self.rows.remove(&at);
            place.row = None;
            return None;
        }
        let entry = self.rows.get_mut(&at)?;
        entry.age(now);
        Some((entry, &mut place.fence))
    }

    /// The row of a claim, as long as it is the claim's own.
    fn own(&mut self, claim: &Claim, now: Timestamp) -> Option<&mut Entry> {
        if self.owner != claim.owner {
            return None;
        }
        let (entry, _) = self.standing(&claim.key, now)?;
        (entry.row.state == RowState::Processing && entry.row.fence == claim.fence).then_some(entry)
    }

    fn claim_new(&mut self, ask: Ask, now: Timestamp) -> Claimed {
        // A key that was given back or forgotten goes on with its fence, so that whoever had it before stays outside.
        let place = self.keys.entry(ask.key.clone()).or_default();
        place.fence += 1;
        place.row = Some(self.next);
        let fence = place.fence;
        self.push(Entry {
            row: Row::new(&ask.key, Some(ask.contents), RowState::Processing, fence, now),
            terms: ask.terms,
            leased_until: ask.terms.lease.map(|lease| now.plus(lease)),
        });
        Claimed::New(Claim {
            key: ask.key,
            owner: self.owner.clone(),
            fence,
        })
    }

    fn reject(&mut self, ask: Ask, now: Timestamp) {
        self.rejected.push_back(self.next);
        self.push(Entry {
            row: Row::new(&ask.key, Some(ask.contents), RowState::Rejected, 0, now),
            terms: ask.terms,
            leased_until: None,
        });
        if self.rejected.len() > REJECTED_MAX {
            let oldest = self.rejected.pop_front();
            oldest.and_then(|oldest| self.rows.remove(&oldest));
        }
    }

    fn close(&mut self, key: &str, answer: &Reply, terms: Terms, now: Timestamp) {
        let place = self.keys.entry(key.to_owned()).or_default();
        place.row = Some(self.next);
        let mut entry = Entry {
            row: Row::new(key, None, RowState::Processing, place.fence, now),
            terms,
            leased_until: None,
        };
        entry.finish(answer, now);
        self.push(entry);
    }

    fn push(&mut self, entry: Entry) {
        self.rows.insert(self.next, entry);
        self.next += 1;
    }
}

impl Entry {
    fn over(&self, kept: Option<Duration>, now: Timestamp) -> bool {
        let finished = matches!(self.row.state, RowState::Succeeded | RowState::Failed);
        finished && kept.is_some_and(|kept| now >= self.row.created.plus(kept))
    }

    fn forgotten(&self, now: Timestamp) -> bool {
        self.over(self.terms.forget_after, now)
    }

    /// What passes by time alone. PROCESSING never passes.
    fn age(&mut self, now: Timestamp) {
        if self.over(self.terms.result_for, now) {
            self.row.body = None;
        }
    }

    fn finish(&mut self, answer: &Reply, now: Timestamp) {
        let row = &mut self.row;
        row.state = RowState::of(answer);
        row.status = Some(answer.code());
        row.headers = answer.kept_headers();
        let fits = self.terms.body_max.is_none_or(|max| answer.bytes().len() <= max);
        row.body = fits.then(|| answer.bytes().to_vec());
        row.updated = now;
        self.leased_until = None;
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Ledger for MemoryLedger {
    fn claim(&self, ask: Ask) -> BoxFuture<'_, Result<Claimed, LedgerError>> {
        ready(Ok(self.claim_now(ask)))
    }

    fn begin(&self, claim: &Claim) -> BoxFuture<'_, Result<(), LedgerError>> {
        ready(self.with(claim, |entry, now| {
            entry.row.begun = true;
            entry.row.updated = now;
        }))
    }

    fn complete(&self, claim: &Claim, answer: &Reply) -> BoxFuture<'_, Result<(), LedgerError>> {
        ready(self.with(claim, |entry, now| entry.finish(answer, now)))
    }

    fn release(&self, claim: &Claim) -> BoxFuture<'_, Result<(), LedgerError>> {
        let mut book = self.lock();
        let now = self.clock.now();
        if book.own(claim, now).is_none() {
            return ready(Err(LedgerError::fenced(claim)));
        }
        if let Some(at) = book.keys.get_mut(&claim.key).and_then(|place| place.row.take()) {
            book.rows.remove(&at);
        }
        ready(Ok(()))
    }

    fn read(&self, key: &str) -> BoxFuture<'_, Result<Option<Row>, LedgerError>> {
        let mut book = self.lock();
        let now = self.clock.now();
        ready(Ok(book.standing(key, now).map(|(entry, _)| entry.row.clone())))
    }

    fn tombstone(&self, key: &str, answer: &Reply, terms: Terms) -> BoxFuture<'_, Result<Option<Row>, LedgerError>> {
        let mut book = self.lock();
        let now = self.clock.now();
        let there = book.standing(key, now).map(|(entry, _)| entry.row.clone());
        if there.is_none() {
            book.close(key, answer, terms, now);
        }
        ready(Ok(there))
    }

    fn overrule(&self, key: &str, answer: &Reply) -> BoxFuture<'_, Result<bool, LedgerError>> {
        let mut book = self.lock();
        let now = self.clock.now();
        let standing = book.standing(key, now);
        let overruled = standing
            .filter(|(entry, _)| entry.row.state == RowState::Processing)
            .map(|(entry, fence)| {
                *fence += 1;
                entry.row.fence = *fence;
                entry.finish(answer, now);
            });
        ready(Ok(overruled.is_some()))
    }

    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, LedgerError>> {
        let mut book = self.lock();
        let now = self.clock.now();
        // A row that goes here leaves its key's place behind, which `standing` clears.
        book.rows.retain(|_, entry| !entry.forgotten(now));
        book.rows.values_mut().for_each(|entry| entry.age(now));
        ready(Ok(book.rows.values().map(|entry| entry.row.clone()).collect()))
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn turn_clock(&self, millis: i64) {
        self.clock.turn(millis);
    }
}
