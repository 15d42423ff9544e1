//! What a decision may ask under its turn, of the log and of the archive; and what it appends.

use super::{
    book::Book,
    frame::{self, Line},
    index::{Ordinal, Place, date},
};
use crate::{
    clock::Timestamp,
    disk::How,
    future::BoxFuture,
    ids::{IdempotencyKey, OwnerId},
    intent::Columns,
    journal::store::{Mark, Record, StoreError, StoreErrorKind, Turn},
    origin::Hash,
};

impl Book {
    /// All records of one order, oldest first: what compaction moved out, and what stands in the log.
    pub(super) fn story(&mut self, key: IdempotencyKey) -> Result<Vec<Record>, StoreError> {
        let mut places = Vec::new();
        if let Some(found) = self.index.places(&key) {
            places.push(Place {
                at: found.at,
                len: found.span,
            });
            places.extend_from_slice(found.more);
        }
        let mut story = Vec::new();
        for place in places {
            let bytes = self.bytes(place)?;
            self.records_of(key, &bytes, place.at, &mut story)?;
        }
        // A claim in the log: then all of it is there.
        if story.first().is_none_or(|first| first.columns.is_none()) {
            let mut whole = self.origins.story(key)?;
            whole.append(&mut story);
            return Ok(whole);
        }
        Ok(story)
    }

    fn records_of(&mut self, key: IdempotencyKey, bytes: &[u8], at: u64, story: &mut Vec<Record>) -> Result<(), StoreError> {
        let name = key.to_string();
        let lines = bytes.split_inclusive(|b| *b == b'\n');
        for line in lines.filter(|line| frame::names_key(line, name.as_bytes())) {
            let record = frame::record(line.strip_suffix(b"\n").unwrap_or(line));
            story.push(record.map_err(|_| self.rotten(at))?);
        }
        Ok(())
    }

    /// Every order, oldest claim first. Records keep their numbers when they are moved, so the archive's orders and the log's are merged by them.
    /// What compaction left in the log is young or not done: few of its claims are older than the archive's newest, and only those are read.
    pub(super) fn orders(&mut self) -> Result<Vec<IdempotencyKey>, StoreError> {
        let mut old = self.origins.orders()?;
        // An order of the archive of which the log has later records is listed once, by its claim.
        let in_log = self
            .index
            .ordinals()
            .filter(|(_, key)| old.binary_search_by_key(key, |old| old.key).is_err());
        let in_log: Vec<_> = in_log.collect();
        old.sort_unstable_by_key(|old| old.seq);
        let (mut old, mut orders) = (old.into_iter().peekable(), Vec::with_capacity(in_log.len()));
        for (ordinal, key) in in_log {
            if old.peek().is_some() {
                let seq = self.seq_at(self.index.first(ordinal).unwrap_or(u64::MAX))?;
                while let Some(older) = old.next_if(|old| old.seq < seq) {
                    orders.push(older.key);
                }
            }
            orders.push(key);
        }
        orders.extend(old.map(|old| old.key));
        Ok(orders)
    }

    /// The claim that stands at a place, as far as it is found by; with when it was written.
    fn claim_at(&mut self, at: u64) -> Result<(Timestamp, Columns), StoreError> {
        match self.claim_if_any(at)? {
            (at, Some(columns)) => Ok((at, columns)),
            _ => Err(self.rotten(at)),
        }
    }

    /// When the record at a place was written, and what it is found by if it is a claim.
    fn claim_if_any(&mut self, at: u64) -> Result<(Timestamp, Option<Columns>), StoreError> {
        self.line_at(at, |line| Some((line.written_at()?, line.columns())))
    }

    /// The number of the record that stands at a place.
    fn seq_at(&mut self, at: u64) -> Result<u64, StoreError> {
        self.line_at(at, |line| Some(line.seq))
    }

    /// What is read of the record that stands at a place.
    fn line_at<T>(&mut self, at: u64, of: impl Fn(&Line<'_>) -> Option<T>) -> Result<T, StoreError> {
        let mut len = 4096_usize;
        loop {
            let there = usize::try_from(self.end().saturating_sub(at)).unwrap_or(usize::MAX);
            let bytes = self.bytes(Place { at, len: len.min(there) })?;
            match memchr::memchr(b'\n', &bytes) {
                Some(end) => {
                    let line = Line::read(bytes.get(..end).unwrap_or_default());
                    return line.ok().and_then(|line| of(&line)).ok_or_else(|| self.rotten(at));
                }
                None if len >= there => return Err(self.rotten(at)),
                None => len = len.saturating_mul(8),
            }
        }
    }

    /// Bytes of the log, those included that are staged.
    fn bytes(&mut self, place: Place) -> Result<Vec<u8>, StoreError> {
        let in_file = usize::try_from(self.len.saturating_sub(place.at))
            .unwrap_or(usize::MAX)
            .min(place.len);
        let mut bytes = match in_file {
            0 => Vec::new(),
            len => self.files.log.read_at(place.at, len).map_err(|e| self.unreadable(e))?,
        };
        if in_file < place.len {
            let from = usize::try_from(place.at.saturating_sub(self.len)).unwrap_or(usize::MAX);
            let to = from.saturating_add(place.len.saturating_sub(in_file));
            bytes.extend_from_slice(self.staged.get(from..to).unwrap_or_default());
        }
        Ok(bytes)
    }

    fn rotten(&mut self, at: u64) -> StoreError {
        let text = format!(
            "journal at {}: the record at byte {at} can no longer be read: nothing is sent",
            self.files.path.display()
        );
        self.poisoned(StoreError::new(StoreErrorKind::Corrupt, text))
    }

    fn by_origin(&mut self, origin: Hash, source: Hash) -> Result<Option<IdempotencyKey>, StoreError> {
        if let Some(offset) = self.torn_origins.get(&origin) {
            let text = format!(
                "the claim of this origin was torn at byte {offset} of the journal, and may have been acted on: nothing is sent; a copy \
                 stands in the archive folder, and a person must look"
            );
            return Err(StoreError::new(StoreErrorKind::Corrupt, text));
        }
        for ordinal in self.index.maybe_source(&source) {
            let (_, columns) = self.claim_of(ordinal)?;
            if columns.origin == Some(origin) {
                return Ok(self.index.key(ordinal));
            }
        }
        self.origins.by_origin(&origin, &source)
    }

    fn by_source(&mut self, source: Hash) -> Result<Vec<IdempotencyKey>, StoreError> {
        let mut found = Vec::new();
        for ordinal in self.index.maybe_source(&source) {
            let (_, columns) = self.claim_of(ordinal)?;
            if columns.source == Some(source) {
                found.extend(self.index.key(ordinal));
            }
        }
        found.extend(self.origins.by_source(&source)?);
        Ok(found)
    }

    fn by_repeat(&mut self, repeat: Hash, since: Timestamp) -> Result<Vec<IdempotencyKey>, StoreError> {
        let mut found = Vec::new();
        for ordinal in self.index.maybe_repeat(&repeat).collect::<Vec<_>>() {
            let (at, columns) = self.claim_of(ordinal)?;
            if columns.repeat == repeat && (at >= since || !self.index.is_done(ordinal)) {
                found.extend(self.index.key(ordinal));
            }
        }
        Ok(found)
    }

    fn claimed_since(&mut self, after: Option<IdempotencyKey>, since: Timestamp) -> Result<Vec<IdempotencyKey>, StoreError> {
        let mut found = Vec::new();
        for ordinal in self.index.maybe_since(after, date(since.to_string().as_bytes())) {
            // The first record of an order whose claim was moved out, or torn, is none.
            let first = self.index.first(ordinal).unwrap_or(u64::MAX);
            if let (at, Some(_)) = self.claim_if_any(first)?
                && at >= since
            {
                found.extend(self.index.key(ordinal));
            }
        }
        Ok(found)
    }

    fn claim_of(&mut self, ordinal: Ordinal) -> Result<(Timestamp, Columns), StoreError> {
        let at = self.index.first(ordinal).unwrap_or(u64::MAX);
        self.claim_at(at)
    }

    /// A living process holds its file's lock; a dead one can't.
    fn alive(&mut self, owner: OwnerId) -> Result<bool, StoreError> {
        if owner == self.files.owner {
            return Ok(self.files.own.is_some());
        }
        let path = self.files.folder.join("owners").join(owner.to_string());
        match self.files.disk.open(&path, How::Append) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(StoreError::io("looking at", &path, e)),
            Ok(mut file) => {
                let free = file.try_lock().map_err(|e| StoreError::io("looking at", &path, e))?;
                if free {
                    drop(file.unlock());
                }
                Ok(!free)
            }
        }
    }
}

/// One decision's turn.
pub(super) struct FileTurn<'a> {
    pub(super) book: &'a mut Book,
    pub(super) fresh: Vec<Record>,
}

fn answered<'a, T: Send + 'a>(result: Result<T, StoreError>) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(result))
}

impl Turn for FileTurn<'_> {
    fn by_origin(&mut self, origin: Hash, source: Hash) -> BoxFuture<'_, Result<Option<IdempotencyKey>, StoreError>> {
        answered(self.book.by_origin(origin, source))
    }

    fn by_source(&mut self, source: Hash) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>> {
        answered(self.book.by_source(source))
    }

    fn by_repeat(&mut self, repeat: Hash, since: Timestamp) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>> {
        answered(self.book.by_repeat(repeat, since))
    }

    fn claimed_since(&mut self, after: Option<IdempotencyKey>, since: Timestamp) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>> {
        answered(self.book.claimed_since(after, since))
    }

    fn story(&mut self, key: IdempotencyKey) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        let mut story = self.book.story(key);
        if let Ok(story) = &mut story {
            story.extend(self.fresh.iter().filter(|r| r.key == key).cloned());
        }
        answered(story)
    }

    fn known_to(&mut self, key: IdempotencyKey) -> Option<Mark> {
        // What this turn wrote has no place yet.
        match self.fresh.is_empty() {
            true => self.book.index.end(&key).map(|end| Mark(self.book.before.saturating_add(end))),
            false => None,
        }
    }

    fn alive(&mut self, owner: OwnerId) -> BoxFuture<'_, Result<bool, StoreError>> {
        answered(self.book.alive(owner))
    }

    fn append(&mut self, record: Record) {
        self.fresh.push(record);
    }
}
