//! The book: the open files, and all that is known of what stands in them. Blocking; whoever holds it decides, one after another, under the
//! folder's lock, writes what was decided in one call, and syncs without holding the lock.
//!
//! After any failed write or sync it is poisoned: a second sync after a failed one lies, so every later call says so until the journal is
//! opened anew.

use super::{
    Options,
    birth::{self, Birth},
    compact::Copied,
    frame::{self, Body, RECORD_CAP, What},
    index::{Bits, Index, Place},
    origins::Origins,
    recover::Chain,
    turn::FileTurn,
};
use crate::{
    clock::{Clock, Timestamp},
    disk::{Disk, DiskFile, Identity},
    ids::OwnerId,
    journal::{
        memory::{closed, decide_now},
        store::{Decide, Mark, StoreError, StoreErrorKind, TornReport},
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
    /// Until it could not be given up.
    pub(super) lock: Option<Box<dyn DiskFile>>,
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
    pub(super) torn_origins: HashMap<Hash, u64>,
    pub(super) chain: Chain,
    /// How much of the log is known: it stands in the file.
    pub(super) len: u64,
    /// Decided and known, about to be written behind it.
    pub(super) staged: Vec<u8>,
    /// Everything before it is durable by our own sync (R21).
    pub(super) synced: u64,
    /// The highest offset that a record in the log says is durable.
    pub(super) witnessed: u64,
    /// The last record that was read without the lock, and its checksum: not yet known to have stayed.
    pub(super) ahead: Option<(Place, u32)>,
    /// How long the log was when it was compacted; 0: it never was, or that is not known.
    pub(super) compacted: u64,
    /// What a mark is more than an offset in the present log, since compaction makes logs shorter and marks only grow.
    pub(super) before: u64,
    /// What was found unfinished and set aside.
    pub(super) torn: Vec<TornReport>,
    poison: Option<StoreError>,
}

impl Book {
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

    pub(super) fn take_torn(&mut self) -> Vec<TornReport> {
        std::mem::take(&mut self.torn)
    }

    /// Everything before it has been written.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.before.saturating_add(self.end()))
    }

    /// Where the next record will stand.
    pub(super) fn end(&self) -> u64 {
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
                    self.unlock()?;
                    let had = self.len;
                    self.read_ahead()?;
                    if self.len == had {
                        far = u64::MAX;
                    }
                }
                Ok(Some(there)) => {
                    let result = self.catch_up(there).and_then(|()| work(self));
                    // What was written stands, whatever came of the lock.
                    drop(self.unlock());
                    return result;
                }
                // Somebody compacted. The new log is read without the lock.
                Ok(None) => {
                    let (before, turned) = (self.mark(), self.turn_the_page());
                    self.unlock()?;
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
        let lock = self.files.lock.as_mut().ok_or_else(closed)?;
        lock.lock().map_err(|e| StoreError::io("locking", &path, e))?;
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

    /// A lock that can't be given up is closed with its file, or everybody waited for as long as this book is about. Nothing more is written then.
    pub(super) fn unlock(&mut self) -> Result<(), StoreError> {
        let Some(lock) = &mut self.files.lock else { return Ok(()) };
        lock.unlock().map_err(|e| {
            self.files.lock = None;
            let error = StoreError::io("unlocking", &self.files.folder.join("lock"), e);
            self.poisoned(error)
        })
    }

    /// How long the log is; `None` where another one has taken its place. Removed or cut under us: never a record into a file that is not at
    /// the path.
    fn log_at_the_path(&mut self) -> Result<Option<u64>, StoreError> {
        let len = match self.files.disk.look(&self.files.path) {
            Ok((there, _)) if there != self.files.log_is => return Ok(None),
            Ok((_, len)) => len,
            Err(_) => return Err(self.gone("removed")),
        };
        let looking = |e| StoreError::io("looking at", &self.files.path, e);
        let there = match len {
            Some(there) => there,
            None => self.files.log.size().map_err(looking)?,
        };
        self.make_sure_of_what_was_read_ahead(there)?;
        if there < self.len {
            return Err(self.gone("cut"));
        }
        Ok(Some(there))
    }

    pub(super) fn gone(&mut self, what: &str) -> StoreError {
        let text = format!(
            "journal at {} was {what} while it was open: nothing is sent; restore it and open it anew",
            self.files.path.display()
        );
        self.poisoned(StoreError::new(StoreErrorKind::Replaced, text))
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
            chain = chain.then(seq, crc);
            let at = self.len.saturating_add(start as u64);
            known.push((body, Place { at, len }));
        }
        self.chain = chain;
        for (body, place) in known {
            match body {
                Body::Order(record) => {
                    let claim = record.columns.as_ref().map(|columns| Bits::of(columns, record.at));
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

    pub(super) fn append_raw(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.files.log.append_all(bytes).map_err(|e| {
            let error = StoreError::io("writing to", &self.files.path, e);
            self.poisoned(error)
        })?;
        self.len = self.len.saturating_add(bytes.len() as u64);
        Ok(())
    }
}
