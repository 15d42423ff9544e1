//! The ledger of one server: rows behind one lock.

use super::{Ask, Claim, Claimed, Ledger, LedgerError, Row, RowState, Terms};
use crate::clock::{Clock as _, SystemClock, Timestamp};
use crate::future::BoxFuture;
use crate::testkit::reply::Reply;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
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
#[derive(Debug, Default)]
pub struct MemoryLedger {
    book: Mutex<Book>,
    /// How far the clock was turned, in milliseconds.
    turned: AtomicI64,
}

#[derive(Debug, Default)]
struct Book {
    rows: Vec<Entry>,
    /// Where each key's own row is; what was rejected under it is elsewhere.
    places: HashMap<String, usize>,
}

#[derive(Clone, Debug)]
struct Entry {
    row: Row,
    terms: Terms,
    leased_until: Option<Timestamp>,
    /// Given back or forgotten: as if it had never been.
    gone: bool,
}

impl MemoryLedger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    fn now(&self) -> Timestamp {
        let real = SystemClock.now().as_millis();
        Timestamp::from_millis(real.saturating_add(self.turned.load(Ordering::SeqCst)))
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        // Every change under the lock is over before anything can panic.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim_now(&self, ask: Ask) -> Claimed {
        let (mut book, now) = (self.lock(), self.now());
        let Some(entry) = book.standing(&ask.key, now) else {
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
                row.fence += 1;
                row.updated = now;
                entry.leased_until = ask.terms.lease.map(|lease| now.plus(lease));
                Claimed::New(entry.claim())
            }
            (RowState::Processing, _) => Claimed::InFlight,
            _ => row.answer().map_or(Claimed::ResultGone, Claimed::Known),
        }
    }

    /// Changes the row of a claim that still is the key's own.
    fn with<T>(&self, claim: &Claim, change: impl FnOnce(&mut Entry, Timestamp) -> T) -> Result<T, LedgerError> {
        let (mut book, now) = (self.lock(), self.now());
        let own = book.standing(&claim.key, now);
        let own = own.filter(|entry| entry.row.state == RowState::Processing && entry.row.fence == claim.fence);
        let entry = own.ok_or_else(|| LedgerError::fenced(claim))?;
        Ok(change(entry, now))
    }
}

impl Book {
    /// The key's own row; brings it up to date with the clock.
    fn standing(&mut self, key: &str, now: Timestamp) -> Option<&mut Entry> {
        let entry = self.rows.get_mut(*self.places.get(key)?)?;
        entry.age(now);
        (!entry.gone).then_some(entry)
    }

    fn claim_new(&mut self, ask: Ask, now: Timestamp) -> Claimed {
        // A key that was given back or forgotten goes on with its fence, so that whoever had it before stays outside.
        let before = self.places.get(&ask.key).and_then(|place| self.rows.get(*place));
        let fence = before.map_or(0, |entry| entry.row.fence) + 1;
        let entry = Entry {
            row: Row::new(&ask.key, Some(ask.contents), RowState::Processing, fence, now),
            terms: ask.terms,
            leased_until: ask.terms.lease.map(|lease| now.plus(lease)),
            gone: false,
        };
        let claim = entry.claim();
        self.places.insert(ask.key, self.rows.len());
        self.rows.push(entry);
        Claimed::New(claim)
    }

    fn reject(&mut self, ask: Ask, now: Timestamp) {
        self.rows.push(Entry {
            row: Row::new(&ask.key, Some(ask.contents), RowState::Rejected, 0, now),
            terms: ask.terms,
            leased_until: None,
            gone: false,
        });
    }
}

impl Entry {
    fn claim(&self) -> Claim {
        Claim {
            key: self.row.key.clone(),
            owner: String::new(),
            fence: self.row.fence,
        }
    }

    /// What passes by time alone. PROCESSING never passes.
    fn age(&mut self, now: Timestamp) {
        let over = |kept: Option<Duration>| kept.is_some_and(|kept| now >= self.row.created.plus(kept));
        match self.row.state {
            RowState::Processing | RowState::Rejected => {}
            RowState::Succeeded | RowState::Failed if over(self.terms.forget_after) => self.gone = true,
            RowState::Succeeded | RowState::Failed if over(self.terms.result_for) => self.row.body = None,
            RowState::Succeeded | RowState::Failed => {}
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

impl Row {
    fn new(key: &str, contents: Option<String>, state: RowState, fence: u64, now: Timestamp) -> Self {
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
        ready(self.with(claim, |entry, _| entry.gone = true))
    }

    fn read(&self, key: &str) -> BoxFuture<'_, Result<Option<Row>, LedgerError>> {
        let (mut book, now) = (self.lock(), self.now());
        ready(Ok(book.standing(key, now).map(|entry| entry.row.clone())))
    }

    fn tombstone(&self, key: &str, answer: &Reply, terms: Terms) -> BoxFuture<'_, Result<Option<Row>, LedgerError>> {
        let (mut book, now) = (self.lock(), self.now());
        let there = book.standing(key, now).map(|entry| entry.row.clone());
        if there.is_none() {
            book.claim_new(Ask::new(key, "").on(terms), now);
            if let Some(entry) = book.standing(key, now) {
                entry.row.contents = None;
                entry.finish(answer, now);
            }
        }
        ready(Ok(there))
    }

    fn overrule(&self, key: &str, answer: &Reply) -> BoxFuture<'_, Result<bool, LedgerError>> {
        let (mut book, now) = (self.lock(), self.now());
        let processing = book.standing(key, now).filter(|entry| entry.row.state == RowState::Processing);
        let overruled = processing.map(|entry| {
            entry.row.fence += 1;
            entry.finish(answer, now);
        });
        ready(Ok(overruled.is_some()))
    }

    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, LedgerError>> {
        let (mut book, now) = (self.lock(), self.now());
        book.rows.iter_mut().for_each(|entry| entry.age(now));
        let there = book.rows.iter().filter(|entry| !entry.gone);
        ready(Ok(there.map(|entry| entry.row.clone()).collect()))
    }

    fn turn_clock(&self, millis: i64) {
        self.turned.fetch_add(millis, Ordering::SeqCst);
    }
}
