//! Where each order's records stand in the log, in tens of bytes an order: its key, its place, and a few bits of what it is found by. What the
//! bits point at is read and compared in full by whoever asks, so that no answer rests on them.

use crate::{clock::Timestamp, ids::IdempotencyKey, intent::Columns, journal::store::Standing, origin::Hash};
use std::collections::{BTreeSet, HashMap};

/// A record's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) at: u64,
    pub(super) len: usize,
}

/// An order's place in the order of the claims.
pub(super) type Ordinal = u32;

/// Where an order's records stand: somewhere in one stretch, with those of others between them, and each of `more`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Places<'a> {
    pub(super) at: u64,
    pub(super) span: usize,
    pub(super) more: &'a [Place],
}

/// A stretch, packed: 46 bits say where it begins (a log of 64 TiB), 18 how long it is. A record that would make it longer stands in `more`.
#[derive(Clone, Copy, Debug)]
struct Stretch([u32; 2]);

impl Stretch {
    const LONGEST: u64 = (1 << 18) - 1;

    fn new(at: u64, len: u64) -> Self {
        let packed = at << 18 | len.min(Self::LONGEST);
        Stretch([(packed >> 32) as u32, packed as u32])
    }

    fn packed(self) -> u64 {
        let [high, low] = self.0;
        u64::from(high) << 32 | u64::from(low)
    }

    fn at(self) -> u64 {
        self.packed() >> 18
    }

    fn len(self) -> u64 {
        self.packed() & Self::LONGEST
    }
}

/// A few bits of what a claim is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) source: Option<u32>,
    pub(super) repeat: u32,
    pub(super) date: u32,
}

impl Bits {
    pub(super) fn of(columns: &Columns, at: Timestamp) -> Self {
        Bits {
            source: columns.source.as_ref().map(bits),
            repeat: bits(&columns.repeat),
            date: date(at.to_string().as_bytes()),
        }
    }
}

/// The date of a time in its text form, as one number: 20261201. What is no date is later than all, so that nobody passes it by.
pub(super) fn date(text: &[u8]) -> u32 {
    let digits = text.iter().take(10).filter(|byte| byte.is_ascii_digit());
    match digits.clone().count() {
        8 => digits.fold(0, |number: u32, digit| {
            number.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
        }),
        _ => u32::MAX,
    }
}

/// One order: 36 bytes.
#[derive(Clone, Copy, Debug)]
struct Row {
    key: IdempotencyKey,
    stretch: Stretch,
    source: u32,
    repeat: u32,
    /// The one before with the same repeat bits: there can be thousands of equal orders.
    equal_before: Ordinal,
}

#[derive(Debug)]
pub(super) struct Index {
    /// The order that was heard of last: the next record is often its own.
    last: Option<(IdempotencyKey, Ordinal)>,
    rows: Vec<Row>,
    by_key: Table,
    by_source: Table,
    by_repeat: Table,
    more: HashMap<Ordinal, Vec<Place>>,
    unsettled: BTreeSet<Ordinal>,
    /// The latest date on which one of so many orders was claimed ([`BLOCK`]): whoever looks for those of today passes the others by.
    latest: Vec<u32>,
}

/// So many orders share one date in the index.
const BLOCK: usize = 256;

fn bits(hash: &Hash) -> u32 {
    let [a, b, c, d, ..] = *hash;
    u32::from_be_bytes([a, b, c, d])
}

/// A key's first bytes are as random as a hash.
fn key_bits(key: &IdempotencyKey) -> u32 {
    let [a, b, c, d, ..] = key.to_bytes();
    u32::from_be_bytes([a, b, c, d])
}

impl Index {
    pub(super) fn new() -> Self {
        Index {
            last: None,
            rows: Vec::new(),
            by_key: Table::new(),
            by_source: Table::new(),
            by_repeat: Table::new(),
            more: HashMap::new(),
            unsettled: BTreeSet::new(),
            latest: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Makes room for so many orders in all, so that a log that is being read does not have its index moved again and again.
    pub(super) fn expect(&mut self, orders: usize) {
        self.rows.reserve_exact(orders.saturating_sub(self.rows.len()));
        let rows = &self.rows;
        let bits = |of: fn(&Row) -> u32| move |n: Ordinal| rows.get(n as usize).map_or(0, of);
        self.by_key.make_room(orders, bits(|row| key_bits(&row.key)));
        self.by_source.make_room(orders, bits(|row| row.source));
        self.by_repeat.make_room(
            self.by_repeat.used.saturating_mul(orders) / self.rows.len().max(1),
            bits(|row| row.repeat),
        );
    }

    /// Learns of a record behind all that are known.
    pub(super) fn add(&mut self, key: IdempotencyKey, standing: Standing, claim: Option<Bits>, place: Place) {
        let known = match self.last {
            Some((last, ordinal)) if last == key => Some(ordinal),
            _ => self.ordinal(&key),
        };
        let ordinal = match known {
            Some(ordinal) => {
                self.lengthen(ordinal, place);
                ordinal
            }
            None => self.begin(key, place),
        };
        self.last = Some((key, ordinal));
        if let Some(claim) = claim {
            self.add_claim(ordinal, claim);
        }
        match standing {
            Standing::Done => self.unsettled.remove(&ordinal),
            Standing::Open | Standing::Wait | Standing::Look => self.unsettled.insert(ordinal),
        };
    }

    fn row(&self, ordinal: Ordinal) -> Option<&Row> {
        self.rows.get(ordinal as usize)
    }

    fn ordinal(&self, key: &IdempotencyKey) -> Option<Ordinal> {
        // As a number: two words are compared faster than sixteen bytes.
        let number = u128::from_ne_bytes(key.to_bytes());
        self.by_key.find(key_bits(key), |n| {
            self.row(n).is_some_and(|row| u128::from_ne_bytes(row.key.to_bytes()) == number)
        })
    }

    fn begin(&mut self, key: IdempotencyKey, place: Place) -> Ordinal {
        // Four thousand million orders in one log: by then it has been compacted.
        let ordinal = Ordinal::try_from(self.rows.len()).unwrap_or(NONE);
        let len = place.len as u64;
        let whole = len <= Stretch::LONGEST;
        if !whole {
            self.more.insert(ordinal, vec![place]);
        }
        if self.rows.len() == self.rows.capacity() {
            // By an eighth: a list that doubles wastes half of what it has.
            self.rows.reserve_exact((self.rows.len() / 8).max(64));
        }
        self.rows.push(Row {
            key,
            stretch: Stretch::new(place.at, if whole { len } else { 0 }),
            source: 0,
            repeat: 0,
            equal_before: NONE,
        });
        let rows = &self.rows;
        self.by_key.add(key_bits(&key), ordinal, |n| {
            rows.get(n as usize).map_or(0, |row| key_bits(&row.key))
        });
        ordinal
    }

    fn lengthen(&mut self, ordinal: Ordinal, place: Place) {
        let Some(row) = self.rows.get_mut(ordinal as usize) else { return };
        let stretch = row.stretch;
        let len = place.at.saturating_add(place.len as u64).saturating_sub(stretch.at());
        if len <= Stretch::LONGEST && stretch.len() > 0 && !self.more.contains_key(&ordinal) {
            row.stretch = Stretch::new(stretch.at(), len);
        } else {
            self.more.entry(ordinal).or_default().push(place);
        }
    }

    fn add_claim(&mut self, ordinal: Ordinal, Bits { source, repeat, date }: Bits) {
        self.keep_date(ordinal, date);
        let Some(row) = self.rows.get_mut(ordinal as usize) else { return };
        // A claim in excess: the first one stands, and a list that led back to itself would have no end.
        if row.repeat != 0 {
            return;
        }
        (row.source, row.repeat) = (source.unwrap_or(0), repeat);
        let rows = &self.rows;
        let bits = |of: fn(&Row) -> u32| move |n: Ordinal| rows.get(n as usize).map_or(0, of);
        if let Some(source) = source {
            self.by_source.add(source, ordinal, bits(|row| row.source));
        }
        let before = self.by_repeat.put(repeat, ordinal, bits(|row| row.repeat));
        if let Some(row) = self.rows.get_mut(ordinal as usize) {
            row.equal_before = before.unwrap_or(NONE);
        }
    }

    pub(super) fn key(&self, ordinal: Ordinal) -> Option<IdempotencyKey> {
        self.row(ordinal).map(|row| row.key)
    }

    /// Every order, in the order in which it was first heard of.
    pub(super) fn ordinals(&self) -> impl Iterator<Item = (Ordinal, IdempotencyKey)> {
        (0..).zip(self.rows.iter().map(|row| row.key))
    }

    /// Where an order's first record stands.
    pub(super) fn first(&self, ordinal: Ordinal) -> Option<u64> {
        self.row(ordinal).map(|row| row.stretch.at())
    }

    pub(super) fn places(&self, key: &IdempotencyKey) -> Option<Places<'_>> {
        let ordinal = self.ordinal(key)?;
        let stretch = self.row(ordinal)?.stretch;
        Some(Places {
            at: stretch.at(),
            span: usize::try_from(stretch.len()).unwrap_or(0),
            more: self.more.get(&ordinal).map(Vec::as_slice).unwrap_or_default(),
        })
    }

    /// Where an order's newest record ends.
    pub(super) fn end(&self, key: &IdempotencyKey) -> Option<u64> {
        let places = self.places(key)?;
        let stretch = places.at.saturating_add(places.span as u64);
        Some(
            places
                .more
                .last()
                .map_or(stretch, |place| place.at.saturating_add(place.len as u64)),
        )
    }

    /// Orders whose claims may have this source, newest first.
    pub(super) fn maybe_source(&self, source: &Hash) -> Vec<Ordinal> {
        let (bits, mut found) = (bits(source), Vec::new());
        // None of them is the last one: all that may be are looked at.
        self.by_source.find(bits, |n| {
            found.extend(self.row(n).filter(|row| row.source == bits).map(|_| n));
            false
        });
        found.sort_unstable_by(|a, b| b.cmp(a));
        found
    }

    /// Orders whose claims may have this repeat, newest first.
    pub(super) fn maybe_repeat(&self, repeat: &Hash) -> impl Iterator<Item = Ordinal> + use<'_> {
        let bits = bits(repeat);
        let newest = self.by_repeat.find(bits, |n| self.row(n).is_some_and(|row| row.repeat == bits));
        std::iter::successors(newest, |n| self.row(*n).map(|row| row.equal_before).filter(|n| *n != NONE))
    }

    fn keep_date(&mut self, ordinal: Ordinal, date: u32) {
        let block = ordinal as usize / BLOCK;
        if self.latest.len() <= block {
            self.latest.resize(block.saturating_add(1), 0);
        }
        if let Some(latest) = self.latest.get_mut(block) {
            *latest = date.max(*latest);
        }
    }

    /// Orders behind `after`, or all where that is not known, that may have been claimed on that date or later; in the order of their claims.
    pub(super) fn maybe_since(&self, after: Option<IdempotencyKey>, date: u32) -> Vec<Ordinal> {
        // Of an order whose claim was moved out, what came later stands far behind those that were claimed since.
        let is_claim = |n: &Ordinal| self.row(*n).is_some_and(|row| row.repeat != 0);
        let known = after.and_then(|key| self.ordinal(&key)).filter(is_claim);
        let from = known.map_or(0, |n| (n as usize).saturating_add(1));
        let mut found = Vec::new();
        for block in from / BLOCK..self.latest.len() {
            if self.latest.get(block).is_some_and(|latest| *latest >= date) {
                let begin = block.saturating_mul(BLOCK);
                let end = begin.saturating_add(BLOCK).min(self.rows.len());
                found.extend((begin.max(from)..end).filter_map(|n| Ordinal::try_from(n).ok()));
            }
        }
        found
    }

    pub(super) fn is_done(&self, ordinal: Ordinal) -> bool {
        !self.unsettled.contains(&ordinal)
    }

    pub(super) fn unsettled(&self, after: Option<IdempotencyKey>, limit: usize) -> Vec<IdempotencyKey> {
        let from = match after {
            None => 0,
            Some(key) => self.ordinal(&key).map_or(0, |n| n.saturating_add(1)),
        };
        self.unsettled.range(from..).take(limit).filter_map(|n| self.key(*n)).collect()
    }

    /// How many orders are done.
    pub(super) fn settled(&self) -> usize {
        self.rows.len().saturating_sub(self.unsettled.len())
    }

    /// Keys of everything that is not done.
    pub(super) fn all_unsettled(&self) -> impl Iterator<Item = IdempotencyKey> {
        self.unsettled.iter().filter_map(|n| self.key(*n))
    }
}

const NONE: Ordinal = Ordinal::MAX;

/// Ordinals found by 32 bits. Open addressing over a list of ordinals only: the bits themselves are kept by whoever asks.
#[derive(Debug)]
struct Table {
    slots: Vec<Ordinal>,
    used: usize,
}

impl Table {
    fn new() -> Self {
        Table {
            slots: Vec::new(),
            used: 0,
        }
    }

    /// Looks at one ordinal after another from where these bits belong: the slot of the first that `is` it, or the free one behind them.
    fn slot(&self, bits: u32, mut is: impl FnMut(Ordinal) -> bool) -> (usize, Option<Ordinal>) {
        let mut slot = (u64::from(bits).saturating_mul(self.slots.len() as u64) >> 32) as usize;
        loop {
            match self.slots.get(slot).copied() {
                Some(NONE) => return (slot, None),
                Some(ordinal) if is(ordinal) => return (slot, Some(ordinal)),
                Some(_) => slot = slot.wrapping_add(1),
                // Around; one of five is free.
                None if slot > 0 => slot = 0,
                None => return (0, None),
            }
        }
    }

    fn find(&self, bits: u32, is: impl FnMut(Ordinal) -> bool) -> Option<Ordinal> {
        self.slot(bits, is).1
    }

    fn add(&mut self, bits: u32, ordinal: Ordinal, bits_of: impl Fn(Ordinal) -> u32) {
        if self.is_full() {
            // By half.
            let larger = self.used.saturating_add(self.used / 2).max(48);
            self.make_room(larger, bits_of);
        }
        self.take_free(bits, ordinal);
        self.used = self.used.saturating_add(1);
    }

    fn take_free(&mut self, bits: u32, ordinal: Ordinal) {
        let (slot, _) = self.slot(bits, |_| false);
        if let Some(free) = self.slots.get_mut(slot) {
            *free = ordinal;
        }
    }

    /// In the place of the one with the same bits, which it answers with.
    fn put(&mut self, bits: u32, ordinal: Ordinal, bits_of: impl Fn(Ordinal) -> u32) -> Option<Ordinal> {
        let (slot, before) = self.slot(bits, |n| n != ordinal && bits_of(n) == bits);
        match (before, self.slots.get_mut(slot)) {
            (Some(before), Some(taken)) => {
                *taken = ordinal;
                Some(before)
            }
            _ => {
                self.add(bits, ordinal, bits_of);
                None
            }
        }
    }

    /// At most four of five slots are taken.
    fn is_full(&self) -> bool {
        self.used.saturating_add(1).saturating_mul(5) > self.slots.len().saturating_mul(4)
    }

    /// Room for so many in all, with a fifth and a little to spare.
    fn make_room(&mut self, ordinals: usize, bits_of: impl Fn(Ordinal) -> u32) {
        let larger = (ordinals.saturating_mul(5) / 4).saturating_add(4);
        if larger <= self.slots.len() {
            return;
        }
        let old = std::mem::replace(&mut self.slots, vec![NONE; larger]);
        for ordinal in old.into_iter().filter(|n| *n != NONE) {
            self.take_free(bits_of(ordinal), ordinal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> IdempotencyKey {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{:08x}-0000-4000-8000-{n:012x}", mixed >> 32).parse().unwrap()
    }

    fn claim(n: u64, repeat: u8) -> Columns {
        let mut source = [0; 32];
        source[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        Columns {
            origin: Some(source),
            source: Some(source),
            repeat: [repeat; 32],
        }
    }

    fn place(at: u64) -> Place {
        Place { at, len: 100 }
    }

    #[test]
    fn what_was_added_is_found_and_nothing_else() {
        let mut index = Index::new();
        for n in 0..20_000 {
            index.add(
                key(n),
                Standing::Open,
                Some(Bits::of(&claim(n, 1), Timestamp::from_millis(n as i64 * 60_000))),
                place(n * 200),
            );
            index.add(key(n), Standing::Done, None, place(n * 200 + 100));
        }
        for n in 0..20_000 {
            let places = index.places(&key(n)).unwrap();
            assert_eq!((places.at, places.span, places.more), (n * 200, 200, &[][..]));
            assert_eq!(index.maybe_source(&claim(n, 1).source.unwrap()), [n as u32]);
        }
        assert!(index.places(&key(20_000)).is_none());
        assert!(index.maybe_repeat(&[2; 32]).next().is_none());
        assert!(index.all_unsettled().next().is_none());
        assert_eq!(index.maybe_repeat(&[1; 32]).take(3).collect::<Vec<_>>(), [19_999, 19_998, 19_997]);
        assert_eq!(index.maybe_repeat(&[1; 32]).count(), 20_000);
    }

    #[test]
    fn a_record_far_away_and_a_large_one_keep_their_own_place() {
        let mut index = Index::new();
        let (far, large) = (Place { at: 1 << 30, len: 9 }, Place { at: 50, len: 1 << 20 });
        index.add(key(1), Standing::Open, None, place(7));
        index.add(key(1), Standing::Look, None, far);
        index.add(key(1), Standing::Look, None, Place { at: 107, len: 9 });
        index.add(key(2), Standing::Open, None, large);
        let places = index.places(&key(1)).unwrap();
        assert_eq!(
            (places.at, places.span, places.more),
            (7, 100, &[far, Place { at: 107, len: 9 }][..])
        );
        let places = index.places(&key(2)).unwrap();
        assert_eq!((places.span, places.more), (0, &[large][..]));
    }

    #[test]
    fn a_claim_in_excess_changes_nothing() {
        let mut index = Index::new();
        for n in [1, 2, 1, 2, 1] {
            index.add(
                key(n),
                Standing::Open,
                Some(Bits::of(&claim(n, 1), Timestamp::from_millis(n as i64 * 60_000))),
                place(n * 100),
            );
        }
        assert_eq!(index.maybe_repeat(&[1; 32]).take(9).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(index.maybe_source(&claim(1, 1).source.unwrap()), [0]);
    }

    #[test]
    fn claims_of_a_day_are_found_behind_any_of_them_and_blocks_of_older_ones_are_passed_by() {
        let mut index = Index::new();
        for n in 0..20_000 {
            let at = Timestamp::from_millis(n as i64 * 60_000);
            index.add(key(n), Standing::Done, Some(Bits::of(&claim(n, 1), at)), place(n * 200));
        }
        // Minute 14,400 begins the eleventh day of 1970.
        let eleventh = index.maybe_since(None, date(b"1970-01-11T"));
        assert!(eleventh.len() < 5_600 + BLOCK && eleventh.ends_with(&[19_998, 19_999]) && eleventh.contains(&14_400));
        assert_eq!(index.maybe_since(Some(key(19_997)), 19_700_111), [19_998, 19_999]);
        assert_eq!(
            index.maybe_since(Some(key(20_000)), 19_700_111),
            eleventh,
            "its key is gone: all anew"
        );
        assert!(index.maybe_since(None, 19_700_201).is_empty());
        assert_eq!((date(b"no date"), date(b"2026-12-01T09:00")), (u32::MAX, 20_261_201));
    }

    #[test]
    fn pages_of_what_is_not_done_go_on_where_the_last_ended() {
        let mut index = Index::new();
        for n in 0..10 {
            let standing = if n % 2 == 0 { Standing::Wait } else { Standing::Done };
            index.add(key(n), standing, None, place(n * 100));
        }
        assert_eq!(index.unsettled(None, 2), [key(0), key(2)]);
        assert_eq!(index.unsettled(Some(key(2)), 9), [key(4), key(6), key(8)]);
    }
}
