//! What a store finds orders by: which claims an origin has, which orders are not done, where an order's records stand. In memory only; made
//! anew from the records at open. Generic over what "where" means: an offset in a file, or the record itself.

use super::store::{Record, Standing};
use crate::{clock::Timestamp, ids::IdempotencyKey, intent::Columns, origin::Hash};
use std::collections::{BTreeMap, HashMap};

#[derive(Debug)]
pub(crate) struct Index<P> {
    orders: HashMap<IdempotencyKey, Entry<P>>,
    by_origin: HashMap<Hash, IdempotencyKey>,
    by_source: HashMap<Hash, Vec<IdempotencyKey>>,
    by_repeat: HashMap<Hash, Vec<(Timestamp, IdempotencyKey)>>,
    /// Claims in their order.
    by_time: Vec<(Timestamp, IdempotencyKey)>,
    /// Not done, by the order of their claims.
    unsettled: BTreeMap<u64, IdempotencyKey>,
    claims: u64,
}

#[derive(Debug)]
struct Entry<P> {
    ordinal: u64,
    standing: Standing,
    places: Vec<P>,
}

/// What of a record the index needs.
pub(crate) struct Line {
    pub(crate) key: IdempotencyKey,
    pub(crate) at: Timestamp,
    pub(crate) standing: Standing,
    pub(crate) columns: Option<Columns>,
}

impl From<&Record> for Line {
    fn from(record: &Record) -> Self {
        Line {
            key: record.key,
            at: record.at,
            standing: record.standing,
            columns: record.columns,
        }
    }
}

impl<P: Clone> Index<P> {
    pub(crate) fn new() -> Self {
        Index {
            orders: HashMap::new(),
            by_origin: HashMap::new(),
            by_source: HashMap::new(),
            by_repeat: HashMap::new(),
            by_time: Vec::new(),
            unsettled: BTreeMap::new(),
            claims: 0,
        }
    }

    pub(crate) fn add(&mut self, line: &Line, place: P) {
        let ordinal = self.claims;
        let entry = self.orders.entry(line.key).or_insert_with(|| Entry {
            ordinal,
            standing: line.standing,
            places: Vec::new(),
        });
        if entry.places.is_empty() {
            self.claims = self.claims.saturating_add(1);
        }
        entry.standing = line.standing;
        entry.places.push(place);
        match line.standing {
            Standing::Done => self.unsettled.remove(&entry.ordinal),
            Standing::Open | Standing::Wait | Standing::Look => self.unsettled.insert(entry.ordinal, line.key),
        };
        if let Some(columns) = &line.columns {
            self.add_claim(line, columns);
        }
    }

    fn add_claim(&mut self, line: &Line, columns: &Columns) {
        if let Some(origin) = columns.origin {
            self.by_origin.insert(origin, line.key);
        }
        if let Some(source) = columns.source {
            self.by_source.entry(source).or_default().push(line.key);
        }
        self.by_repeat.entry(columns.repeat).or_default().push((line.at, line.key));
        self.by_time.push((line.at, line.key));
    }

    pub(crate) fn by_origin(&self, origin: &Hash) -> Option<IdempotencyKey> {
        self.by_origin.get(origin).copied()
    }

    pub(crate) fn by_source(&self, source: &Hash) -> Vec<IdempotencyKey> {
        let keys = self.by_source.get(source).into_iter().flatten();
        keys.rev().copied().collect()
    }

    pub(crate) fn by_repeat(&self, repeat: &Hash, since: Timestamp) -> Vec<IdempotencyKey> {
        let claims = self.by_repeat.get(repeat).into_iter().flatten();
        claims
            .rev()
            .filter(|(at, key)| *at >= since || !self.is_done(key))
            .map(|(_, key)| *key)
            .collect()
    }

    /// Every order, oldest claim first.
    pub(crate) fn orders(&self) -> Vec<IdempotencyKey> {
        let mut orders: Vec<_> = self.orders.iter().map(|(key, entry)| (entry.ordinal, *key)).collect();
        orders.sort_unstable();
        orders.into_iter().map(|(_, key)| key).collect()
    }

    pub(crate) fn claimed_since(&self, after: Option<IdempotencyKey>, since: Timestamp) -> Vec<IdempotencyKey> {
        // From the end: whoever asks knows nearly all of them.
        let unknown = self.by_time.iter().rev().take_while(|(_, key)| Some(*key) != after).count();
        let behind = self.by_time.iter().skip(self.by_time.len().saturating_sub(unknown));
        behind.filter(|(at, _)| *at >= since).map(|(_, key)| *key).collect()
    }

    fn is_done(&self, key: &IdempotencyKey) -> bool {
        self.orders.get(key).is_some_and(|entry| entry.standing == Standing::Done)
    }

    pub(crate) fn places(&self, key: &IdempotencyKey) -> Vec<P> {
        self.orders.get(key).map(|entry| entry.places.clone()).unwrap_or_default()
    }

    pub(crate) fn unsettled(&self, after: Option<IdempotencyKey>, limit: usize) -> Vec<IdempotencyKey> {
        let from = match after {
            None => 0,
            Some(key) => self.orders.get(&key).map_or(0, |entry| entry.ordinal.saturating_add(1)),
        };
        self.unsettled.range(from..).take(limit).map(|(_, key)| *key).collect()
    }
}
