//! The book: the open files, and all that is known of what stands in them. Blocking; whoever holds it decides, one after another, under the
//! folder's lock, writes what was decided in one call, and syncs without holding the lock.
//!
//! After any failed write or sync it is poisoned: a second sync after a failed one lies, so every later call says so until the journal is
//! opened anew.

use super::{
    Options,
    birth::{self, Birth},
    compact::Copied,
    frame::{self, Body, Line, RECORD_CAP, What},
    index::{Bits, Index, Place},
    origins::Origins,
    recover::{self, Chain, Mended},
};
use crate::{
    clock::{Clock, Timestamp},
    disk::{Disk, DiskFile, How, Identity},
    future::BoxFuture,
    ids::{IdempotencyKey, OwnerId},
    intent::Columns,
    journal::{
        memory::{closed, decide_now},
        store::{Decide, Mark, Record, StoreError, StoreErrorKind, TornReport, Turn},
    },
    origin::Hash,
};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::watch;

/// How much of a log is read before its index is given room for all of it.
const SAMPLE: u64 = 1 << 20;
/// More than this is not read under the lock, if it can be helped.
const FAR: u64 = 1 << 20;
/// A buffer larger than this is not kept.
const KEPT: usize = 1 << 20;

/// The open files, and who has them open.
pub(super) struct Files {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: Options,
    pub(super) folder: PathBuf,
    pub(super) path: PathBuf,
    pub(super) lock: Box<dyn DiskFile>,
    pub(super) log: Box<dyn DiskFile>,
    /// Which files these two are: others may come to stand at their paths.
    pub(super) lock_is: Identity,
    pub(super) log_is: Identity,
    /// Held under an OS lock while this process lives and its book is sound.
    pub(super) own: Option<Box<dyn DiskFile>>,
    pub(super) owner: OwnerId,
    /// Raised with the poison: the next opening of the folder starts anew.
    pub(super) spent: Arc<AtomicBool>,
    pub(super) written: watch::Sender<u64>,
}

/// The files, and all that is known of what stands in them.
pub(super) struct Book {
    pub(super) files: Files,
    pub(super) birth: Birth,
    pub(super) index: Index,
    /// What compaction moved out.
    pub(super) origins: Origins,
    /// Origins whose claims were torn and may have been acted on.
    torn_origins: HashMap<Hash, u64>,
    pub(super) chain: Chain,
    /// How much of the log is known: it stands in the file.
    pub(super) len: u64,
    /// Decided and known, about to be written behind it.
    staged: Vec<u8>,
    /// Everything before it is durable by our own sync (R21).
    pub(super) synced: u64,
    /// The highest offset that a record in the log says is durable.
    pub(super) witnessed: u64,
    /// The last record that was read without the lock, and its checksum: not yet known to have stayed.
    ahead: Option<(Place, u32)>,
    /// How long the log was when it was compacted; 0: it never was, or that is not known.
    pub(super) compacted: u64,
    /// What a mark is more than an offset in the present log, since compaction makes logs shorter and marks only grow.
    before: u64,
    /// What was found unfinished and set aside.
    torn: Vec<TornReport>,
    poison: Option<StoreError>,
}

impl Book {
    /// Reads the whole log, and mends what is torn under the folder's lock.
    pub(super) fn read(&mut self) -> Result<(), StoreError> {
        self.sync_what_is_there()?;
        self.read_ahead()?;
        self.distrust_the_cache()?;
        self.locked(|_| Ok(()))?;
        // What stood in the log was synced before it was read; what mending wrote is synced here.
        self.durable(self.mark())
    }

    /// Pages that a failed sync of an earlier process left behind look healthy and are not on disk: a sync comes before belief.
    fn sync_what_is_there(&mut self) -> Result<(), StoreError> {
        let files = &mut self.files;
        files.log.sync().map_err(|e| StoreError::io("syncing", &files.path, e))?;
        let synced = files.disk.sync_dir(&files.folder);
        synced.map_err(|e| StoreError::io("syncing", &files.folder, e))
    }

    /// Under the folder's lock: the log, and the runs that belong to it. Once they are open, a compaction may take them from their paths.
    pub(super) fn unread(mut files: Files) -> Result<Book, StoreError> {
        let birth = birth::read(&files.path, files.log.as_mut())?;
        let origins = Origins::open(&files.folder, &files.disk, birth.after)?;
        Ok(Book {
            files,
            birth,
            index: Index::new(),
            origins,
            torn_origins: HashMap::new(),
            chain: Chain::START,
            len: 0,
            staged: Vec::new(),
            synced: 0,
            witnessed: 0,
            ahead: None,
            compacted: 0,
            before: 0,
            torn: Vec::new(),
            poison: None,
        })
    }

    /// Without the lock, so that nobody stands still meanwhile: reads as long as each line is plainly the next record. What is not is left to
    /// [`catch_up`](Book::catch_up), since without the lock a half-written line could be met, and that is not ours to mend.
    fn read_ahead(&mut self) -> Result<(), StoreError> {
        let mut lines = super::lines::Lines::from(self.len);
        let there = self.files.log.size().map_err(|e| self.unreadable(e))?;
        let mut sample = SAMPLE;
        while let Some((at, line)) = lines.next(self.files.log.as_mut()).map_err(|e| self.unreadable(e))? {
            let Some(frame) = self.chain.step(line) else { break };
            let len = line.len().saturating_add(1);
            self.witnessed = self.witnessed.max(frame.synced);
            self.len = at.saturating_add(len as u64);
            self.learn(&frame.what, Place { at, len });
            self.ahead = Some((Place { at, len }, frame.crc));
            if self.len > sample {
                // As the beginning is, so is the rest, more or less.
                let orders = u128::from(there).saturating_mul(self.index.len() as u128) / u128::from(self.len);
                self.index.expect(usize::try_from(orders).unwrap_or(0));
                sample = u64::MAX;
            }
        }
        Ok(())
    }

    /// Under the lock: what was read ahead without it stands there still. A writer whose disk was full cuts back what it wrote of a batch, and
    /// whole lines of it may have been read; then all is read anew.
    fn make_sure_of_what_was_read_ahead(&mut self, there: u64) -> Result<(), StoreError> {
        let Some((place, crc)) = self.ahead.take() else { return Ok(()) };
        let stands = self.len <= there && {
            let line = self.files.log.read_at(place.at, place.len).map_err(|e| self.unreadable(e))?;
            frame::decode(line.strip_suffix(b"\n").unwrap_or(&line)).is_ok_and(|frame| frame.crc == crc)
        };
        if !stands {
            self.forget();
            self.read_ahead()?;
            self.ahead = None;
        }
        Ok(())
    }

    /// As before anything of the log was read.
    fn forget(&mut self) {
        (self.index, self.chain) = (Index::new(), Chain::START);
        (self.len, self.synced, self.witnessed, self.compacted) = (0, 0, 0, 0);
        self.torn_origins.clear();
        self.ahead = None;
    }

    /// What no record witnesses as durable is read once more, past the page cache; where the disk holds something else, everything is.
    fn distrust_the_cache(&mut self) -> Result<(), StoreError> {
        let from = self.witnessed.min(self.len);
        let len = usize::try_from(self.len.saturating_sub(from)).unwrap_or(usize::MAX);
        let log = &mut self.files.log;
        let cached = log.read_at(from, len);
        // A wish that not every file system grants.
        drop(log.uncache(from));
        let on_disk = log.read_at(from, len);
        let (cached, on_disk) = cached.and_then(|cached| Ok((cached, on_disk?))).map_err(|e| self.unreadable(e))?;
        if cached != on_disk {
            tracing::warn!(path = %self.files.path.display(), "the page cache showed what is not on disk: the journal is read anew");
            self.forget();
            self.read_ahead()?;
        }
        Ok(())
    }

    fn unreadable(&self, error: std::io::Error) -> StoreError {
        StoreError::io("reading", &self.files.path, error)
    }

    pub(super) fn take_torn(&mut self) -> Vec<TornReport> {
        std::mem::take(&mut self.torn)
    }

    /// Everything before it has been written.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.before.saturating_add(self.end()))
    }

    /// Where the next record will stand.
    fn end(&self) -> u64 {
        self.len.saturating_add(self.staged.len() as u64)
    }

    /// Everything is durable and witnessed, or nothing can be any more.
    pub(super) fn settled(&self) -> bool {
        self.poison.is_some() || self.synced >= self.len && self.witnessed >= self.len
    }

    /// Makes durable what is not, and leaves a word that it is, so that damage to it can be told from a torn write (R12).
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        self.durable(self.mark())?;
        self.locked(|book| {
            if book.witnessed < book.synced {
                book.append(book.witness())?;
                // Nobody needs the witness itself to be durable.
                book.witnessed = book.len;
            }
            Ok(())
        })
    }

    pub(super) fn witness(&self) -> Body {
        Body::Book {
            name: "witness",
            at: self.now(),
            // Says what it is for, and is long enough for a `hole` to take its place.
            data: r#"{"durable":"before"}"#.to_owned(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.files.clock.now()
    }

    /// The last sync; from here on the process owns nothing, and the next opening starts anew.
    pub(super) fn close(&mut self) -> Result<(), StoreError> {
        self.durable(self.mark())?;
        self.poisoned(closed());
        Ok(())
    }

    pub(super) fn sound(&self) -> Result<(), StoreError> {
        match &self.poison {
            None => Ok(()),
            Some(first) if first.kind() == StoreErrorKind::Closed => Err(first.clone()),
            Some(first) => Err(StoreError::new(
                StoreErrorKind::Poisoned,
                format!("an earlier write to the journal failed ({first}): nothing is sent until it is opened anew"),
            )),
        }
    }

    /// From here on nothing can be called durable. The owner's lock goes at once, so that another process may take over (R16).
    pub(super) fn poisoned(&mut self, error: StoreError) -> StoreError {
        self.poison.get_or_insert(error.clone());
        self.files.spent.store(true, Ordering::Release);
        self.give_up_ownership();
        error
    }

    pub(super) fn give_up_ownership(&mut self) {
        if let Some(mut own) = self.files.own.take() {
            let path = self.files.folder.join("owners").join(self.files.owner.to_string());
            // A file that stays behind unlocked says the same as one that is gone.
            drop(self.files.disk.remove(&path));
            drop(own.unlock());
        }
    }

    /// Works under the folder's lock, on all that anybody has written.
    pub(super) fn locked<T>(&mut self, work: impl FnOnce(&mut Book) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut far = FAR;
        loop {
            self.sound()?;
            self.lock()?;
            match self.log_at_the_path() {
                // Much was written while this process slept: it is read without the lock, so that nobody stands still meanwhile.
                Ok(Some(there)) if there.saturating_sub(self.len) > far => {
                    self.unlock().map_err(|error| self.poisoned(error))?;
                    let had = self.len;
                    self.read_ahead()?;
                    if self.len == had {
                        far = u64::MAX;
                    }
                }
                Ok(Some(there)) => {
                    let result = self.catch_up(there).and_then(|()| work(self));
                    // What was written stands, whatever came of the lock.
                    if let Err(error) = self.unlock() {
                        self.poisoned(error);
                    }
                    return result;
                }
                // Somebody compacted. The new log is read without the lock.
                Ok(None) => {
                    let (before, turned) = (self.mark(), self.turn_the_page());
                    self.unlock().map_err(|error| self.poisoned(error))?;
                    turned.and_then(|()| self.read_anew(before)).map_err(|error| self.poisoned(error))?;
                }
                Err(error) => {
                    drop(self.unlock());
                    return Err(error);
                }
            }
        }
    }

    fn lock(&mut self) -> Result<(), StoreError> {
        let path = self.files.folder.join("lock");
        self.files.lock.lock().map_err(|e| StoreError::io("locking", &path, e))?;
        // A lock file that was removed, by whatever cleans up old files, is a lock of our own only: others lock the new one at the path.
        match self.files.disk.identity(&path).is_ok_and(|there| there == self.files.lock_is) {
            true => Ok(()),
            false => {
                drop(self.unlock());
                let text = format!(
                    "{} was removed or replaced while the journal was open: nothing is sent; open it anew",
                    path.display()
                );
                Err(self.poisoned(StoreError::new(StoreErrorKind::Replaced, text)))
            }
        }
    }

    pub(super) fn unlock(&mut self) -> Result<(), StoreError> {
        let path = self.files.folder.join("lock");
        self.files.lock.unlock().map_err(|e| StoreError::io("unlocking", &path, e))
    }

    /// How long the log is; `None` where another one has taken its place. Removed or cut under us: never a record into a file that is not at
    /// the path.
    fn log_at_the_path(&mut self) -> Result<Option<u64>, StoreError> {
        let path = self.files.path.clone();
        let looking = |e| StoreError::io("looking at", &path, e);
        match self.files.disk.identity(&self.files.path) {
            Ok(there) if there != self.files.log_is => return Ok(None),
            Ok(_) => {}
            Err(_) => return Err(self.gone("removed")),
        }
        let there = self.files.log.size().map_err(looking)?;
        self.make_sure_of_what_was_read_ahead(there)?;
        if there < self.len {
            return Err(self.gone("cut"));
        }
        Ok(Some(there))
    }

    fn gone(&mut self, what: &str) -> StoreError {
        let text = format!(
            "journal at {} was {what} while it was open: nothing is sent; restore it and open it anew",
            self.files.path.display()
        );
        self.poisoned(StoreError::new(StoreErrorKind::Replaced, text))
    }

    /// Another log stands at the path. If it is ours, compacted by somebody, goes on with that one.
    /// Under the lock, so that log and runs belong together.
    fn turn_the_page(&mut self) -> Result<(), StoreError> {
        let (path, folder, disk) = (&self.files.path, &self.files.folder, &self.files.disk);
        let mut log = disk.open(path, How::Append).map_err(|e| StoreError::io("opening", path, e))?;
        let birth = birth::read(path, log.as_mut())?;
        if birth.id != self.birth.id || birth.compactions <= self.birth.compactions {
            return Err(self.gone("replaced"));
        }
        let origins = Origins::open(folder, disk, birth.after)?;
        let is = log.identity().map_err(|e| StoreError::io("looking at", path, e))?;
        (self.files.log, self.files.log_is) = (log, is);
        (self.birth, self.origins) = (birth, origins);
        Ok(())
    }

    /// What this process knew to be written is in the new log, or in the archive, and durable there, once it is synced: whoever compacted had
    /// synced it before it took its place. Marks go on from where they were.
    fn read_anew(&mut self, before: Mark) -> Result<(), StoreError> {
        self.sync_what_is_there()?;
        self.before = before.0;
        self.forget();
        self.read_ahead()?;
        self.files.written.send_replace(self.mark().0);
        Ok(())
    }

    /// The new log is at the path, and durable: goes on with it. Marks go on from where they were.
    pub(super) fn change_over(&mut self, to: Copied, origins: Origins) {
        self.before = self.mark().0;
        (self.files.log, self.files.log_is) = (to.log, to.log_is);
        (self.birth, self.origins) = (to.birth, origins);
        (self.index, self.chain) = (to.index, to.chain);
        self.torn_origins = to.closed.into_iter().collect();
        (self.len, self.synced, self.witnessed, self.compacted) = (to.len, to.len, to.witnessed, to.len);
        self.ahead = None;
        self.files.written.send_replace(self.mark().0);
    }

    /// Decides one after another under one turn; what all of them wrote is written in one call.
    pub(super) fn turns(&mut self, decisions: Vec<Decide>) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        self.locked(|book| {
            let decided = decisions.into_iter().map(|decide| book.decide(decide)).collect();
            book.flush()?;
            Ok(decided)
        })
    }

    fn decide(&mut self, decide: Decide) -> Result<Mark, StoreError> {
        let mut turn = FileTurn {
            book: self,
            fresh: Vec::new(),
        };
        decide_now(decide, &mut turn)?;
        let fresh = turn.fresh;
        self.stage(fresh.into_iter().map(Body::Order))?;
        Ok(self.mark())
    }

    /// What is there now; reads it if it is more than we know, or elsewhere.
    pub(super) fn look(&mut self) -> Result<Mark, StoreError> {
        self.sound()?;
        let looking = |e| StoreError::io("looking at", &self.files.path, e);
        let there = self.files.log.size().map_err(looking)?;
        let elsewhere = self.files.disk.identity(&self.files.path).ok() != Some(self.files.log_is);
        if there != self.len || elsewhere {
            self.locked(|_| Ok(()))?;
        }
        Ok(self.mark())
    }

    /// One sync covers all that was written before it. Never says yes after a failed one.
    pub(super) fn durable(&mut self, upto: Mark) -> Result<(), StoreError> {
        self.sound()?;
        if upto.0 <= self.before.saturating_add(self.synced) {
            return Ok(());
        }
        let covered = self.len;
        match self.files.log.sync() {
            Ok(()) => {
                self.synced = self.synced.max(covered);
                Ok(())
            }
            Err(e) => {
                let error = StoreError::io("syncing", &self.files.path, e);
                Err(self.poisoned(error))
            }
        }
    }

    /// The book's own record, written at once.
    pub(super) fn append(&mut self, body: Body) -> Result<(), StoreError> {
        self.stage(std::iter::once(body))?;
        self.flush()
    }

    /// Makes the records' lines and learns of them; all or, where one is too large, none.
    fn stage(&mut self, bodies: impl Iterator<Item = Body>) -> Result<(), StoreError> {
        let (from, mut chain, mut known) = (self.staged.len(), self.chain, Vec::new());
        for body in bodies {
            let start = self.staged.len();
            let seq = chain.seq.saturating_add(1);
            let crc = frame::encode(&mut self.staged, seq, &body, self.synced, chain.prev);
            let len = self.staged.len().saturating_sub(start);
            if len > RECORD_CAP {
                self.staged.truncate(from);
                let text = format!("a record of {len} bytes is over the journal's cap of {RECORD_CAP}: nothing was written");
                return Err(StoreError::new(StoreErrorKind::TooLarge, text));
            }
            chain = Chain {
                seq,
                prev: crc,
                lines: chain.lines.saturating_add(1),
            };
            let at = self.len.saturating_add(start as u64);
            known.push((body, Place { at, len }));
        }
        self.chain = chain;
        for (body, place) in known {
            match body {
                Body::Order(record) => {
                    let claim = record.columns.as_ref().map(Bits::of);
                    self.index.add(record.key, record.standing, claim, place);
                }
                Body::Book { name, data, .. } => self.learn(&What::Book { name, data }, place),
            }
            self.witnessed = self.witnessed.max(self.synced);
        }
        Ok(())
    }

    /// One write call for all that is staged. What could only be written in part is cut back.
    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        self.sound()?;
        let staged = std::mem::take(&mut self.staged);
        if let Err(e) = self.files.log.append_all(&staged) {
            let error = StoreError::io("writing to", &self.files.path, e);
            let error = self.poisoned(error);
            // Under the lock nobody else can have appended behind the stump. If this fails too, the next opening sets it aside.
            drop(self.files.log.truncate(self.len));
            return Err(error);
        }
        self.len = self.len.saturating_add(staged.len() as u64);
        // The buffer is kept for the next batch, unless it was a rare large one.
        if staged.capacity() <= KEPT {
            self.staged = staged;
            self.staged.clear();
        }
        self.files.written.send_replace(self.mark().0);
        Ok(())
    }

    pub(super) fn learn(&mut self, what: &What, place: Place) {
        match what {
            What::Order { key, standing, claim } => self.index.add(*key, *standing, *claim, place),
            What::Book { name: "hole", data } => {
                if let Ok(mended) = serde_json::from_str::<Mended>(data) {
                    self.close_origins(&mended, place.at);
                }
            }
            // Compaction ends with one, and copies none.
            What::Book { name: "witness", .. } if self.birth.compactions > 0 && self.compacted == 0 => {
                self.compacted = place.at.saturating_add(place.len as u64);
            }
            What::Book { .. } => {}
        }
    }

    pub(super) fn close_origins(&mut self, mended: &Mended, at: u64) {
        let hashes = mended.origins.iter().filter_map(|hex| frame::from_hex(hex));
        self.torn_origins.extend(hashes.map(|hash| (hash, at)));
    }

    /// Under the lock: reads what others appended, and mends what one that died left unfinished.
    fn catch_up(&mut self, there: u64) -> Result<(), StoreError> {
        if there == self.len {
            return Ok(());
        }
        let bytes = self.files.log.read_from(self.len).map_err(|e| self.unreadable(e))?;
        let before = self.chain;
        let found = recover::scan(&self.files.path, &bytes, self.len, before)?;
        for placed in &found.records {
            let place = Place {
                at: placed.at,
                len: placed.len,
            };
            self.witnessed = self.witnessed.max(placed.frame.synced);
            // Nobody needs a word that somebody's last word is durable: two who wait for news would tell each other for ever.
            if matches!(placed.frame.what, What::Book { name: "witness", .. }) && placed.frame.synced == placed.at {
                self.witnessed = placed.at.saturating_add(placed.len as u64);
            }
            self.learn(&placed.frame.what, place);
        }
        self.chain = found.chain;
        self.len = match &found.tail {
            Some(tail) => tail.at,
            None => self.len.saturating_add(bytes.len() as u64),
        };
        // Half-mended, the next turn would go past what is torn.
        self.mend(before, &found).map_err(|error| self.poisoned(error))?;
        self.files.written.send_replace(self.mark().0);
        Ok(())
    }

    fn mend(&mut self, before: Chain, found: &recover::Scan) -> Result<(), StoreError> {
        if found.unended && found.tail.is_none() {
            self.append_raw(b"\n")?;
        }
        for hole in &found.holes {
            let report = self.fill(hole, before, &found.records)?;
            self.torn.push(report);
        }
        if let Some(tail) = &found.tail {
            let report = self.cut(tail)?;
            self.torn.push(report);
        }
        Ok(())
    }

    fn append_raw(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.files.log.append_all(bytes).map_err(|e| {
            let error = StoreError::io("writing to", &self.files.path, e);
            self.poisoned(error)
        })?;
        self.len = self.len.saturating_add(bytes.len() as u64);
        Ok(())
    }

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

    /// The claim that stands at a place, as far as it is found by; with when it was written.
    fn claim_at(&mut self, at: u64) -> Result<(Timestamp, Columns), StoreError> {
        let mut len = 4096_usize;
        loop {
            let there = usize::try_from(self.end().saturating_sub(at)).unwrap_or(usize::MAX);
            let bytes = self.bytes(Place { at, len: len.min(there) })?;
            match memchr::memchr(b'\n', &bytes) {
                Some(end) => {
                    let line = Line::read(bytes.get(..end).unwrap_or_default());
                    let claim = line.ok().and_then(|line| Some((line.written_at()?, line.columns()?)));
                    return claim.ok_or_else(|| self.rotten(at));
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

    fn claim_of(&mut self, ordinal: super::index::Ordinal) -> Result<(Timestamp, Columns), StoreError> {
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

struct FileTurn<'a> {
    book: &'a mut Book,
    fresh: Vec<Record>,
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

    fn story(&mut self, key: IdempotencyKey) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        let mut story = self.book.story(key);
        if let Ok(story) = &mut story {
            story.extend(self.fresh.iter().filter(|r| r.key == key).cloned());
        }
        answered(story)
    }

    fn alive(&mut self, owner: OwnerId) -> BoxFuture<'_, Result<bool, StoreError>> {
        answered(self.book.alive(owner))
    }

    fn append(&mut self, record: Record) {
        self.fresh.push(record);
    }
}
