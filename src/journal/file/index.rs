//! Where each order's records stand in the log, in tens of bytes an order: its key, its place, and a few bits of what it is found by. What the
//! bits point at is read and compared in full by whoever asks, so that no answer rests on them.

use crate::{ids::IdempotencyKey, intent::Columns, journal::store::Standing, origin::Hash};
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
struct Stretch(u64);

impl Stretch {
    const LONGEST: u64 = (1 << 18) - 1;

    fn new(at: u64, len: u64) -> Self {
        Stretch(at << 18 | len.min(Self::LONGEST))
    }

    fn at(self) -> u64 {
        self.0 >> 18
    }

    fn len(self) -> u64 {
        self.0 & Self::LONGEST
    }
}

#[derive(Debug)]
pub(super) struct Index {
    keys: Vec<IdempotencyKey>,
    stretches: Vec<Stretch>,
    sources: Vec<u32>,
    repeats: Vec<u32>,
    /// The one before with the same repeat bits: there can be thousands of equal orders.
    repeat_before: Vec<Ordinal>,
    by_key: Table,
    by_source: Table,
    by_repeat: Table,
    more: HashMap<Ordinal, Vec<Place>>,
    unsettled: BTreeSet<Ordinal>,
}

fn bits(hash: &Hash) -> u32 {
    let [a, b, c, d, ..] = *hash;
    u32::from_be_bytes([a, b, c, d])
}

/// A key's first bytes are as random as a hash.
fn key_bits(key: &IdempotencyKey) -> u32 {
    let [a, b, c, d, ..] = key.to_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Grows by an eighth: a list that doubles wastes half of what it has.
fn push<T>(list: &mut Vec<T>, value: T) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 8).max(64));
    }
    list.push(value);
}

impl Index {
    pub(super) fn new() -> Self {
        Index {
            keys: Vec::new(),
            stretches: Vec::new(),
            sources: Vec::new(),
            repeats: Vec::new(),
            repeat_before: Vec::new(),
            by_key: Table::new(),
            by_source: Table::new(),
            by_repeat: Table::new(),
            more: HashMap::new(),
            unsettled: BTreeSet::new(),
        }
    }

    /// Learns of a record behind all that are known.
    pub(super) fn add(&mut self, key: IdempotencyKey, standing: Standing, columns: Option<&Columns>, place: Place) {
        let ordinal = match self.ordinal(&key) {
            Some(ordinal) => {
                self.lengthen(ordinal, place);
                ordinal
            }
            None => self.begin(key, place),
        };
        if let Some(columns) = columns {
            self.add_claim(ordinal, columns);
        }
        match standing {
            Standing::Done => self.unsettled.remove(&ordinal),
            Standing::Open | Standing::Wait | Standing::Look => self.unsettled.insert(ordinal),
        };
    }

    fn ordinal(&self, key: &IdempotencyKey) -> Option<Ordinal> {
        self.by_key.find(key_bits(key)).find(|n| self.key(*n).as_ref() == Some(key))
    }

    fn begin(&mut self, key: IdempotencyKey, place: Place) -> Ordinal {
        // Four thousand million orders in one log: by then it has been compacted.
        let ordinal = Ordinal::try_from(self.keys.len()).unwrap_or(NONE);
        let len = place.len as u64;
        push(&mut self.keys, key);
        push(&mut self.sources, 0);
        push(&mut self.repeats, 0);
        push(&mut self.repeat_before, NONE);
        let whole = len <= Stretch::LONGEST;
        push(&mut self.stretches, Stretch::new(place.at, if whole { len } else { 0 }));
        if !whole {
            self.more.insert(ordinal, vec![place]);
        }
        let keys = &self.keys;
        self.by_key
            .add(key_bits(&key), ordinal, |n| keys.get(n as usize).map_or(0, key_bits));
        ordinal
    }

    fn lengthen(&mut self, ordinal: Ordinal, place: Place) {
        let Some(stretch) = self.stretches.get_mut(ordinal as usize) else {
            return;
        };
        let len = place.at.saturating_add(place.len as u64).saturating_sub(stretch.at());
        if len <= Stretch::LONGEST && stretch.len() > 0 && !self.more.contains_key(&ordinal) {
            *stretch = Stretch::new(stretch.at(), len);
        } else {
            self.more.entry(ordinal).or_default().push(place);
        }
    }

    fn add_claim(&mut self, ordinal: Ordinal, columns: &Columns) {
        let at = ordinal as usize;
        if let (Some(source), Some(kept)) = (&columns.source, self.sources.get_mut(at)) {
            *kept = bits(source);
            let sources = &self.sources;
            self.by_source
                .add(bits(source), ordinal, |n| sources.get(n as usize).copied().unwrap_or(0));
        }
        let repeat = bits(&columns.repeat);
        if let Some(kept) = self.repeats.get_mut(at) {
            *kept = repeat;
        }
        let repeats = &self.repeats;
        let same = |n: Ordinal| repeats.get(n as usize).copied().unwrap_or(0);
        let before = self.by_repeat.put(repeat, ordinal, same);
        if let Some(link) = self.repeat_before.get_mut(at) {
            *link = before.unwrap_or(NONE);
        }
    }

    pub(super) fn key(&self, ordinal: Ordinal) -> Option<IdempotencyKey> {
        self.keys.get(ordinal as usize).copied()
    }

    /// Where an order's first record stands.
    pub(super) fn first(&self, ordinal: Ordinal) -> Option<u64> {
        self.stretches.get(ordinal as usize).map(|stretch| stretch.at())
    }

    pub(super) fn places(&self, key: &IdempotencyKey) -> Option<Places<'_>> {
        let ordinal = self.ordinal(key)?;
        let stretch = self.stretches.get(ordinal as usize)?;
        Some(Places {
            at: stretch.at(),
            span: usize::try_from(stretch.len()).unwrap_or(0),
            more: self.more.get(&ordinal).map(Vec::as_slice).unwrap_or_default(),
        })
    }

    /// Orders whose claims may have this source, newest first.
    pub(super) fn maybe_source(&self, source: &Hash) -> Vec<Ordinal> {
        let bits = bits(source);
        let mut found: Vec<Ordinal> = self
            .by_source
            .find(bits)
            .filter(|n| self.sources.get(*n as usize) == Some(&bits))
            .collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        found
    }

    /// Orders whose claims may have this repeat, newest first.
    pub(super) fn maybe_repeat(&self, repeat: &Hash) -> impl Iterator<Item = Ordinal> + use<'_> {
        let bits = bits(repeat);
        let newest = self.by_repeat.find(bits).find(|n| self.repeats.get(*n as usize) == Some(&bits));
        std::iter::successors(newest, |n| self.repeat_before.get(*n as usize).copied().filter(|n| *n != NONE))
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

    /// The slots from where these bits belong, around once.
    fn from(&self, bits: u32) -> impl Iterator<Item = usize> + use<> {
        let len = self.slots.len();
        let start = (u64::from(bits).saturating_mul(len as u64) >> 32) as usize;
        (start..len).chain(0..start)
    }

    /// Whatever may have these bits.
    fn find(&self, bits: u32) -> impl Iterator<Item = Ordinal> {
        self.from(bits)
            .filter_map(|slot| self.slots.get(slot).copied())
            .take_while(|ordinal| *ordinal != NONE)
    }

    fn add(&mut self, bits: u32, ordinal: Ordinal, bits_of: impl Fn(Ordinal) -> u32) {
        self.make_room(bits_of);
        let free = self.from(bits).find(|slot| self.slots.get(*slot) == Some(&NONE));
        if let Some(slot) = free.and_then(|slot| self.slots.get_mut(slot)) {
            *slot = ordinal;
            self.used = self.used.saturating_add(1);
        }
    }

    /// In the place of the one with the same bits, which it answers with.
    fn put(&mut self, bits: u32, ordinal: Ordinal, bits_of: impl Fn(Ordinal) -> u32) -> Option<Ordinal> {
        let taken = self
            .from(bits)
            .map(|slot| (slot, self.slots.get(slot).copied().unwrap_or(NONE)))
            .take_while(|(_, there)| *there != NONE)
            .find(|(_, there)| bits_of(*there) == bits);
        match taken.and_then(|(slot, there)| Some((self.slots.get_mut(slot)?, there))) {
            Some((slot, before)) => {
                *slot = ordinal;
                Some(before)
            }
            None => {
                self.add(bits, ordinal, bits_of);
                None
            }
        }
    }

    /// At most four of five slots are taken; grows by half.
    fn make_room(&mut self, bits_of: impl Fn(Ordinal) -> u32) {
        if self.used.saturating_add(1).saturating_mul(5) <= self.slots.len().saturating_mul(4) {
            return;
        }
        let larger = (self.slots.len() / 2).saturating_mul(3).max(64);
        let old = std::mem::replace(&mut self.slots, vec![NONE; larger]);
        for ordinal in old.into_iter().filter(|n| *n != NONE) {
            let free = self.from(bits_of(ordinal)).find(|slot| self.slots.get(*slot) == Some(&NONE));
            if let Some(slot) = free.and_then(|slot| self.slots.get_mut(slot)) {
                *slot = ordinal;
            }
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
            index.add(key(n), Standing::Open, Some(&claim(n, 1)), place(n * 200));
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
