//! The one file that knows how the journal is called: what a claim and an outcome are, on the caller's own thread and through the store's.

use crate::Result;
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    path::Path,
    sync::Arc,
    time::Duration,
};
use uketsuke::{
    Clock, Columns, IdempotencyKey, SystemClock, Timestamp,
    journal::{
        core,
        store::{Decide, Record, Standing, Store, StoreError, StoreErrorKind},
    },
};

/// So long is a claim's data, and an outcome's, in a line of 600 bytes.
const CLAIMED: usize = 171;
const SETTLED: usize = 399;

/// Orders that nobody has met before, in this process or another.
pub(crate) struct Orders {
    seed: u64,
    next: u64,
}

/// One of them: everything that a journal finds it by.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    pub(crate) words: [u64; 4],
}

impl Orders {
    pub(crate) fn new() -> Orders {
        Orders {
            // The standard library's own randomness: a bench mints nothing that anybody would send.
            seed: RandomState::new().build_hasher().finish(),
            next: 0,
        }
    }

    pub(crate) fn next(&mut self) -> Order {
        self.next += 1;
        let word = |n: u64| mixed(self.seed ^ mixed(self.next.wrapping_mul(4).wrapping_add(n)));
        Order {
            words: [word(0), word(1), word(2), word(3)],
        }
    }
}

/// Spreads a number over all bits (splitmix64).
fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

impl Order {
    /// A UUID of version 4 by its looks.
    pub(crate) fn key_text(&self) -> String {
        let [high, low, ..] = self.words;
        let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
        let (d, e) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
        format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
    }

    /// The hash that stands for its origin (0), its source (1) or its contents (2).
    pub(crate) fn hash(&self, which: u64) -> [u8; 32] {
        let mut hash = [0; 32];
        for (place, word) in hash.chunks_mut(8).zip(self.words) {
            place.copy_from_slice(&mixed(word ^ which).to_be_bytes());
        }
        hash
    }

    fn columns(&self) -> Columns {
        Columns {
            origin: Some(self.hash(0)),
            source: Some(self.hash(1)),
            repeat: self.hash(2),
        }
    }

    fn key(&self) -> Result<IdempotencyKey> {
        Ok(self.key_text().parse()?)
    }

    fn record(&self, name: &str, at: Timestamp, columns: Option<Columns>) -> Result<Record> {
        let (standing, size) = match columns {
            Some(_) => (Standing::Open, CLAIMED),
            None => (Standing::Done, SETTLED),
        };
        Ok(Record {
            key: self.key()?,
            name: name.to_owned(),
            at,
            standing,
            columns,
            data: data(self.words[0], size).into(),
        })
    }
}

/// JSON of that many bytes about order `n`.
fn data(n: u64, size: usize) -> String {
    let front = format!("{{\"order\":{{\"customer\":\"C-{n:020}\",\"note\":\"");
    let end = "\"}}";
    let room = size.saturating_sub(front.len() + end.len());
    front + &"x".repeat(room) + end
}

/// What a claim does: asks whether anybody knows the order, by its origin and under another api's name, and writes it down.
fn claim(order: Order) -> Result<Decide> {
    let columns = order.columns();
    let record = order.record("claimed", SystemClock.now(), Some(columns))?;
    Ok(Box::new(move |turn| {
        Box::pin(async move {
            let [origin, source] = [columns.origin, columns.source].map(Option::unwrap_or_default);
            if turn.by_origin(origin, source).await?.is_some() || !turn.by_source(source).await?.is_empty() {
                return Err(StoreError::new(StoreErrorKind::Refused, "the bench met an order twice"));
            }
            turn.append(record);
            Ok(())
        })
    }))
}

fn outcome(order: Order) -> Result<Decide> {
    let record = order.record("settled", SystemClock.now(), None)?;
    Ok(Box::new(move |turn| {
        Box::pin(async move {
            turn.append(record);
            Ok(())
        })
    }))
}

/// The blocking core, on the caller's thread.
pub(crate) struct Ours {
    core: core::Core,
    orders: Orders,
}

impl Ours {
    pub(crate) fn open(folder: &Path) -> Result<Ours> {
        Ok(Ours {
            core: core::Core::open(folder)?,
            orders: Orders::new(),
        })
    }

    /// Written, and durable.
    pub(crate) fn claim(&mut self) -> Result<Order> {
        let order = self.orders.next();
        let mark = self.core.turn(claim(order)?)?;
        self.core.durable(mark)?;
        Ok(order)
    }

    /// The claim durable, its outcome written: what one order costs before its receipt is told.
    pub(crate) fn claim_and_outcome(&mut self) -> Result<()> {
        let order = self.claim()?;
        self.core.turn(outcome(order)?)?;
        Ok(())
    }

    /// Keeps what is unsettled, or settled within that time.
    pub(crate) fn compact(&mut self, keep: Duration) -> Result<()> {
        self.core.compact(keep)?;
        Ok(())
    }
}

/// The store with its own thread, as clients have it.
#[derive(Clone)]
pub(crate) struct Shared(Arc<dyn Store>);

impl Shared {
    pub(crate) async fn open(folder: &Path) -> Result<Shared> {
        Ok(Shared(core::store(folder).await?))
    }

    /// A claim, handed over; answered when it is durable.
    pub(crate) async fn claim(&self, order: Order) -> Result<()> {
        Ok(self.0.commit(claim(order)?).await?.durable?)
    }

    /// How many orders are not done; `limit` where there are more.
    pub(crate) async fn unsettled(&self, limit: usize) -> Result<usize> {
        Ok(self.0.unsettled(None, limit).await?.len())
    }
}
