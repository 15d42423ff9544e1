//! The journal's own thread: it alone touches the files, one turn at a time, under the folder's lock.
//!
//! It reads what others appended before it decides, writes what was decided in one call, and syncs without holding the lock. After any failed
//! write or sync it is poisoned: a second sync after a failed one lies, so every later call says so until the journal is opened anew.

use super::{
    frame::{self, Body, RECORD_CAP},
    recover::{self, Chain, Mended},
};
use crate::{
    clock::{Clock, Timestamp},
    disk::{Disk, DiskFile, How},
    future::BoxFuture,
    ids::{IdempotencyKey, OwnerId},
    journal::{
        index::{Index, Line},
        memory::{closed, decide_now, ready},
        store::{Decide, Mark, Record, StoreError, StoreErrorKind, TornReport, Turn},
    },
    origin::Hash,
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};
use tokio::sync::{oneshot, watch};

/// What is written but not yet durable waits no longer than this for the disk.
const SYNC_WITHIN: Duration = Duration::from_millis(100);

/// Says what it is for, and is long enough for a `hole` to take its place.
const WITNESS: &str = r#"{"durable":"before"}"#;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the thread is asked to do.
pub(super) enum Job {
    Turn(Decide, Reply<Mark>),
    Durable(Mark, Reply<()>),
    Story(IdempotencyKey, Reply<Vec<Record>>),
    Unsettled(Option<IdempotencyKey>, usize, Reply<Vec<IdempotencyKey>>),
    /// Read what others appended.
    Look(Reply<Mark>),
    Close(Reply<()>),
}

/// Where a record stands in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) at: u64,
    pub(super) len: usize,
}

/// The open files, and who has them open.
pub(super) struct Files {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) folder: PathBuf,
    pub(super) path: PathBuf,
    pub(super) lock: Box<dyn DiskFile>,
    pub(super) log: Box<dyn DiskFile>,
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
    index: Index<Place>,
    /// Origins whose claims were torn and may have been acted on.
    torn_origins: HashMap<Hash, u64>,
    pub(super) chain: Chain,
    pub(super) len: u64,
    /// Everything before it is durable by our own sync (R21).
    pub(super) synced: u64,
    /// The highest offset that a record in the log says is durable.
    witnessed: u64,
    poison: Option<StoreError>,
    /// The last peace and quiet ended in an error: not tried again before there is something to do.
    vexed: bool,
}

impl Book {
    /// Under the folder's lock: reads the whole log and mends what is torn.
    pub(super) fn read(files: Files) -> Result<(Book, Vec<TornReport>), StoreError> {
        let mut book = Book {
            files,
            index: Index::new(),
            torn_origins: HashMap::new(),
            chain: Chain::START,
            len: 0,
            synced: 0,
            witnessed: 0,
            poison: None,
            vexed: false,
        };
        // Pages that a failed sync of an earlier process left behind look healthy and are not on disk: sync before believing them.
        let failed = |e| StoreError::io("syncing", &book.files.path, e);
        book.files.log.sync().map_err(failed)?;
        book.files
            .disk
            .sync_dir(&book.files.folder)
            .map_err(|e| StoreError::io("syncing", &book.files.folder, e))?;
        let torn = book.catch_up()?;
        // What stood in the log was synced above; what mending wrote is synced here.
        book.durable(Mark(book.len))?;
        book.files
            .lock
            .unlock()
            .map_err(|e| StoreError::io("unlocking", &book.files.folder.join("lock"), e))?;
        Ok((book, torn))
    }

    /// The thread's life: until nobody is left who could ask.
    pub(super) fn serve(mut self, jobs: &Receiver<Job>) {
        loop {
            // Nothing to make durable: nothing to wake up for.
            let next = match self.settled() {
                true => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => jobs.recv_timeout(SYNC_WITHIN),
            };
            match next {
                Ok(job) => self.work(job),
                Err(RecvTimeoutError::Timeout) => self.rest(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.rest();
        self.give_up_ownership();
    }

    fn work(&mut self, job: Job) {
        self.vexed = false;
        // Nobody waits for an answer any more: the work stands all the same.
        match job {
            Job::Turn(decide, reply) => drop(reply.send(self.turn(decide))),
            Job::Durable(mark, reply) => drop(reply.send(self.durable(mark))),
            Job::Story(key, reply) => {
                let story = self.sound().and_then(|()| self.story(key));
                drop(reply.send(story));
            }
            Job::Unsettled(after, limit, reply) => {
                let keys = self.look().map(|_| self.index.unsettled(after, limit));
                drop(reply.send(keys));
            }
            Job::Look(reply) => drop(reply.send(self.look())),
            Job::Close(reply) => drop(reply.send(self.close())),
        }
    }

    /// Everything is durable and witnessed, or nothing can be any more.
    fn settled(&self) -> bool {
        self.poison.is_some() || self.vexed || self.synced >= self.len && self.witnessed >= self.len
    }

    /// Nothing to do: make durable what is not, and leave a word that it is, so that damage to it can be told from a torn write (R12).
    fn rest(&mut self) {
        if self.settled() {
            return;
        }
        let settled = self.durable(Mark(self.len)).and_then(|()| {
            self.locked(|book| {
                book.catch_up()?;
                if book.witnessed < book.synced {
                    let witness = Body::Book {
                        name: "witness",
                        at: book.files.clock.now(),
                        data: WITNESS.to_owned(),
                    };
                    book.append(vec![witness])?;
                    // Nobody needs the witness itself to be durable.
                    book.witnessed = book.len;
                }
                Ok(())
            })
        });
        if let Err(error) = settled {
            self.vexed = true;
            tracing::error!(%error, "the journal could not be made durable");
        }
    }

    /// The last sync; from here on the process owns nothing, and the next opening starts anew.
    fn close(&mut self) -> Result<(), StoreError> {
        self.durable(Mark(self.len))?;
        self.poisoned(closed());
        Ok(())
    }

    fn sound(&self) -> Result<(), StoreError> {
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
    fn poisoned(&mut self, error: StoreError) -> StoreError {
        self.poison.get_or_insert(error.clone());
        self.files.spent.store(true, Ordering::Release);
        self.give_up_ownership();
        error
    }

    fn give_up_ownership(&mut self) {
        if let Some(mut own) = self.files.own.take() {
            let path = self.files.folder.join("owners").join(self.files.owner.to_string());
            // A file that stays behind unlocked says the same as one that is gone.
            drop(self.files.disk.remove(&path));
            drop(own.unlock());
        }
    }

    fn locked<T>(&mut self, work: impl FnOnce(&mut Book) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.sound()?;
        let lock_path = self.files.folder.join("lock");
        self.files.lock.lock().map_err(|e| StoreError::io("locking", &lock_path, e))?;
        let result = self.locked_where_others_look().and_then(|()| work(self));
        let unlocked = self.files.lock.unlock().map_err(|e| StoreError::io("unlocking", &lock_path, e));
        result.and_then(|value| unlocked.map(|()| value))
    }

    /// A lock file that was removed, by whatever cleans up old files, is a lock of our own only: others lock the new one at the path.
    fn locked_where_others_look(&mut self) -> Result<(), StoreError> {
        let path = self.files.folder.join("lock");
        let ours = self.files.lock.identity().map_err(|e| StoreError::io("looking at", &path, e))?;
        if self.files.disk.identity(&path).is_ok_and(|there| there == ours) {
            return Ok(());
        }
        let text = format!(
            "{} was removed or replaced while the journal was open: nothing is sent; open it anew",
            path.display()
        );
        Err(self.poisoned(StoreError::new(StoreErrorKind::Replaced, text)))
    }

    fn turn(&mut self, decide: Decide) -> Result<Mark, StoreError> {
        self.locked(|book| {
            book.catch_up()?;
            let mut turn = FileTurn { book, fresh: Vec::new() };
            decide_now(decide, &mut turn)?;
            let FileTurn { book, fresh } = turn;
            book.append(fresh.into_iter().map(Body::Order).collect())?;
            Ok(Mark(book.len))
        })
    }

    /// What is there now; reads it if it is more than we know. Without the lock a half-written line could be met, and that is not ours to mend.
    fn look(&mut self) -> Result<Mark, StoreError> {
        self.sound()?;
        let there = self
            .files
            .log
            .size()
            .map_err(|e| StoreError::io("looking at", &self.files.path, e))?;
        if there != self.len {
            self.locked(|book| book.catch_up().map(drop))?;
        }
        Ok(Mark(self.len))
    }

    pub(super) fn durable(&mut self, upto: Mark) -> Result<(), StoreError> {
        self.sound()?;
        if upto.0 <= self.synced {
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

    /// One write call for all of it. What could only be written in part is cut back.
    pub(super) fn append(&mut self, bodies: Vec<Body>) -> Result<(), StoreError> {
        if bodies.is_empty() {
            return Ok(());
        }
        let (mut bytes, mut chain, mut placed) = (Vec::new(), self.chain, Vec::new());
        for body in bodies {
            let seq = chain.seq.saturating_add(1);
            let (line, crc) = frame::encode(seq, &body, self.synced, chain.prev);
            if line.len() > RECORD_CAP {
                let text = format!(
                    "a record of {} bytes is over the journal's cap of {RECORD_CAP}: nothing was written",
                    line.len()
                );
                return Err(StoreError::new(StoreErrorKind::TooLarge, text));
            }
            let place = Place {
                at: self.len.saturating_add(bytes.len() as u64),
                len: line.len(),
            };
            bytes.extend_from_slice(&line);
            chain = Chain {
                seq,
                prev: crc,
                lines: chain.lines.saturating_add(1),
            };
            placed.push((body, place));
        }
        if let Err(e) = self.files.log.append_all(&bytes) {
            let error = StoreError::io("writing to", &self.files.path, e);
            let error = self.poisoned(error);
            // Under the lock nobody else can have appended behind the stump. If this fails too, the next opening sets it aside.
            drop(self.files.log.truncate(self.len));
            return Err(error);
        }
        self.len = self.len.saturating_add(bytes.len() as u64);
        self.chain = chain;
        for (body, place) in placed {
            self.witnessed = self.witnessed.max(self.synced);
            self.learn(&body, place);
        }
        self.files.written.send_replace(self.len);
        Ok(())
    }

    pub(super) fn learn(&mut self, body: &Body, place: Place) {
        match body {
            Body::Order(record) => self.index.add(&Line::from(record), place),
            Body::Book { name: "hole", data, .. } => {
                if let Ok(mended) = serde_json::from_str::<Mended>(data) {
                    let hashes = mended.origins.iter().filter_map(|hex| frame::from_hex(hex));
                    self.torn_origins.extend(hashes.map(|hash| (hash, place.at)));
                }
            }
            Body::Book { .. } => {}
        }
    }

    /// Under the lock: reads what others appended, and mends what one that died left unfinished.
    fn catch_up(&mut self) -> Result<Vec<TornReport>, StoreError> {
        let there = self.still_ours()?;
        if there == self.len {
            return Ok(Vec::new());
        }
        let bytes = self
            .files
            .log
            .read_from(self.len)
            .map_err(|e| StoreError::io("reading", &self.files.path, e))?;
        let before = self.chain;
        let found = recover::scan(&self.files.path, &bytes, self.len, before)?;
        for placed in &found.records {
            let place = Place {
                at: placed.at,
                len: placed.len,
            };
            self.witnessed = self.witnessed.max(placed.frame.synced);
            self.learn(&placed.frame.body, place);
        }
        self.chain = found.chain;
        self.len = match &found.tail {
            Some(tail) => tail.at,
            None => self.len.saturating_add(bytes.len() as u64),
        };
        // Half-mended, the next turn would go past what is torn.
        let torn = self.mend(before, &found).map_err(|error| self.poisoned(error))?;
        self.files.written.send_replace(self.len);
        Ok(torn)
    }

    fn mend(&mut self, before: Chain, found: &recover::Scan) -> Result<Vec<TornReport>, StoreError> {
        if found.unended && found.tail.is_none() {
            self.append_raw(b"\n")?;
        }
        let mut torn = Vec::new();
        for hole in &found.holes {
            torn.push(self.fill(hole, before, &found.records)?);
        }
        if let Some(tail) = &found.tail {
            torn.push(self.cut(tail)?);
        }
        Ok(torn)
    }

    /// Deleted, replaced or cut under us: never a record into a file that is not at the path.
    fn still_ours(&mut self) -> Result<u64, StoreError> {
        let gone = |what: &str, path: &Path| {
            let text = format!(
                "journal at {} was {what} while it was open: nothing is sent; restore it and open it anew",
                path.display()
            );
            StoreError::new(StoreErrorKind::Replaced, text)
        };
        let at_path = self.files.disk.identity(&self.files.path).ok();
        let ours = self
            .files
            .log
            .identity()
            .map_err(|e| StoreError::io("looking at", &self.files.path, e))?;
        let there = self
            .files
            .log
            .size()
            .map_err(|e| StoreError::io("looking at", &self.files.path, e))?;
        let error = match at_path {
            None => gone("removed", &self.files.path),
            Some(identity) if identity != ours => gone("replaced", &self.files.path),
            Some(_) if there < self.len => gone("cut", &self.files.path),
            Some(_) => return Ok(there),
        };
        Err(self.poisoned(error))
    }

    fn append_raw(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.files.log.append_all(bytes).map_err(|e| {
            let error = StoreError::io("writing to", &self.files.path, e);
            self.poisoned(error)
        })?;
        self.len = self.len.saturating_add(bytes.len() as u64);
        Ok(())
    }

    fn story(&mut self, key: IdempotencyKey) -> Result<Vec<Record>, StoreError> {
        let places = self.index.places(&key);
        places.into_iter().map(|place| self.record(place)).collect()
    }

    fn record(&mut self, place: Place) -> Result<Record, StoreError> {
        let bytes = self
            .files
            .log
            .read_at(place.at, place.len)
            .map_err(|e| StoreError::io("reading", &self.files.path, e))?;
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        match frame::decode(line).map(|frame| frame.body) {
            Ok(Body::Order(record)) => Ok(record),
            _ => {
                let text = format!(
                    "journal at {}: the record at byte {} can no longer be read: nothing is sent",
                    self.files.path.display(),
                    place.at
                );
                let error = StoreError::new(StoreErrorKind::Corrupt, text);
                Err(self.poisoned(error))
            }
        }
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
    fn by_origin(&mut self, origin: Hash) -> BoxFuture<'_, Result<Option<IdempotencyKey>, StoreError>> {
        if let Some(offset) = self.book.torn_origins.get(&origin) {
            let text = format!(
                "the claim of this origin was torn at byte {offset} of the journal, and may have been acted on: nothing is sent; a copy \
                 stands in the archive folder, and a person must look"
            );
            return answered(Err(StoreError::new(StoreErrorKind::Corrupt, text)));
        }
        ready(self.book.index.by_origin(&origin))
    }

    fn by_source(&mut self, source: Hash) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>> {
        ready(self.book.index.by_source(&source))
    }

    fn by_repeat(&mut self, repeat: Hash, since: Timestamp) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>> {
        ready(self.book.index.by_repeat(&repeat, since))
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
