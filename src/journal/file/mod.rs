//! `FileStore`: a journal in a folder, shared by every process on the machine.
//!
//! ```text
//! journal/            0700
//!   log.jsonl         0600  append-only, one record a line
//!   lock              0600  the writers' lock; never renamed, never removed
//!   made              0600  says that a log was made here: one that is gone is missing, not new (R6)
//!   owners/<uuid>     0600  one per living process, held under its lock
//!   compacting        0600  held by whoever compacts
//!   origins/<n>.run   0600  every order that was moved out, by origin and by key
//!   archive/<a>-<b>.jsonl   the log as it was before it was compacted: records a to b
//!   archive/torn-<at>       copies of what was torn; torn-log<n>-<at> after n compactions
//! ```

mod birth;
mod book;
mod compact;
#[cfg(feature = "testkit")]
pub(super) mod core;
mod frame;
mod index;
mod lines;
mod mend;
mod origins;
#[cfg(test)]
mod reader_tests;
mod reading;
mod recover;
mod turn;
mod writer;

use book::Book;

use super::{
    memory::closed,
    store::{Committed, Compaction, Decide, Mark, Record, Store, StoreError, StoreErrorKind, TornReport},
};
use crate::{
    clock::Clock,
    disk::{Disk, FileSystem, How, Identity, RealDisk},
    future::BoxFuture,
    ids::{IdempotencyKey, OwnerId},
};
use birth::unusable;
use book::Files;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};
use tokio::sync::{oneshot, watch};
use writer::{Desk, Job, Reply};

/// How often another process's writing is looked for while somebody waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How a folder is kept.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// The log's length in bytes at which it is compacted by itself.
    pub(super) compact_at: u64,
    /// How long settled orders stay in the log.
    pub(super) keep: Keep,
    /// File systems that are allowed although their locks may hold on one machine only.
    pub(super) networks: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            compact_at: 64 << 20,
            keep: Keep::of(Duration::from_secs(30 * 24 * 3600)),
            networks: Vec::new(),
        }
    }
}

/// How long settled orders stay in the log: what was asked for, or the longest repeat window of this process, if that is longer.
#[derive(Clone, Debug)]
pub(super) struct Keep(Arc<AtomicU64>);

impl Keep {
    pub(super) fn of(settled: Duration) -> Self {
        Keep(Arc::new(AtomicU64::new(millis(settled))))
    }

    fn at_least(&self, settled: Duration) {
        self.0.fetch_max(millis(settled), Ordering::Relaxed);
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Debug)]
pub(super) struct FileStore {
    id: OwnerId,
    owner: OwnerId,
    jobs: Arc<mpsc::Sender<Job>>,
    written: watch::Receiver<u64>,
    torn: Arc<[TornReport]>,
    keep: Keep,
    /// Poisoned: the next opening starts anew instead of joining this one.
    spent: Arc<AtomicBool>,
}

impl FileStore {
    /// Opens or makes the folder. One opening per folder and process: the second joins the first, so that they share its owner.
    pub(super) async fn open(
        folder: PathBuf,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Arc<FileStore>, StoreError> {
        let made = (Arc::clone(&disk), folder.clone());
        let made = tokio::task::spawn_blocking(move || made.0.make_dir(&made.1)).await;
        made.map_err(|_| closed())?.map_err(|e| unusable(&folder, e))?;
        // A disk of another kind has no folder there, and nobody to share it with.
        let Ok(identity) = RealDisk.identity(&folder) else {
            return Ok(Arc::new(FileStore::start(folder, disk, clock, options).await?));
        };
        // Held for this folder alone: whoever waits here for a stopped process's lock keeps nobody from another folder.
        let opening = opening(identity);
        let mut open = opening.lock().await;
        if let Some(store) = open.upgrade()
            && !store.spent.load(Ordering::Acquire)
        {
            return Ok(store);
        }
        let store = Arc::new(FileStore::start(folder, disk, clock, options).await?);
        *open = Arc::downgrade(&store);
        Ok(store)
    }

    async fn start(folder: PathBuf, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: Options) -> Result<FileStore, StoreError> {
        let (jobs, work) = mpsc::channel();
        let jobs = Arc::new(jobs);
        let own_jobs = Arc::downgrade(&jobs);
        let (tell, told) = oneshot::channel();
        let spent = Arc::new(AtomicBool::new(false));
        let keep = options.keep.clone();
        let (raised, gone) = (Arc::clone(&spent), Gone(Arc::clone(&spent)));
        let thread = std::thread::Builder::new().name("uketsuke-journal".to_owned());
        let started = thread.spawn(move || {
            let _gone = gone;
            match open_book(&folder, disk, clock, options, raised) {
                Ok((mut book, written)) => {
                    let opened = Opened {
                        id: book.birth.id,
                        owner: book.files.owner,
                        torn: book.take_torn(),
                        written,
                    };
                    let waited_for = tell.send(Ok(opened)).is_ok();
                    if waited_for {
                        Desk::new(book, own_jobs).serve(&work);
                    }
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
        started.map_err(|e| StoreError::io("starting the thread of", Path::new("the journal"), e))?;
        let opened = told.await.map_err(|_| closed())??;
        Ok(FileStore {
            id: opened.id,
            owner: opened.owner,
            jobs,
            written: opened.written,
            torn: opened.torn.into(),
            keep,
            spent,
        })
    }

    pub(super) fn torn(&self) -> Arc<[TornReport]> {
        Arc::clone(&self.torn)
    }

    /// Handed over by the call; the future only waits for the answer.
    fn ask<T: Send + 'static>(&self, job: impl FnOnce(Reply<T>) -> Job) -> BoxFuture<'static, Result<T, StoreError>> {
        let (tell, told) = oneshot::channel();
        let handed_over = self.jobs.send(job(tell));
        Box::pin(async move {
            handed_over.map_err(|_| closed())?;
            told.await.map_err(|_| closed())?
        })
    }
}

impl Store for FileStore {
    fn id(&self) -> OwnerId {
        self.id
    }

    fn owner(&self) -> OwnerId {
        self.owner
    }

    fn turn(&self, decide: Decide) -> BoxFuture<'static, Result<Mark, StoreError>> {
        self.ask(|reply| Job::Turn(decide, reply))
    }

    fn commit(&self, decide: Decide) -> BoxFuture<'_, Result<Committed, StoreError>> {
        self.ask(|reply| Job::Commit(decide, reply))
    }

    fn durable(&self, upto: Mark) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ask(|reply| Job::Durable(upto, reply))
    }

    fn story(&self, key: IdempotencyKey) -> BoxFuture<'static, Result<Vec<Record>, StoreError>> {
        self.ask(|reply| Job::Story(key, reply))
    }

    fn unsettled(&self, after: Option<IdempotencyKey>, limit: usize) -> BoxFuture<'static, Result<Vec<IdempotencyKey>, StoreError>> {
        self.ask(|reply| Job::Unsettled(after, limit, reply))
    }

    fn orders(&self) -> BoxFuture<'static, Result<Vec<IdempotencyKey>, StoreError>> {
        self.ask(Job::Orders)
    }

    fn changed(&self, seen: Mark, at_most: Duration) -> BoxFuture<'static, Result<Mark, StoreError>> {
        let jobs = mpsc::Sender::clone(&self.jobs);
        let mut written = self.written.clone();
        let wait = async move {
            loop {
                let (tell, told) = oneshot::channel();
                jobs.send(Job::Look(tell)).map_err(|_| closed())?;
                let mark = told.await.map_err(|_| closed())??;
                if mark > seen {
                    return Ok(mark);
                }
                // Our own writing wakes us at once, another process's within a look.
                drop(tokio::time::timeout(LOOK_EVERY, written.wait_for(|len| *len > seen.0)).await);
            }
        };
        let now = Mark(*self.written.borrow());
        Box::pin(async move { tokio::time::timeout(at_most, wait).await.unwrap_or(Ok(now.max(seen))) })
    }

    fn compact(&self) -> BoxFuture<'static, Result<Compaction, StoreError>> {
        self.ask(Job::Compact)
    }

    fn keep_at_least(&self, settled: Duration) {
        self.keep.at_least(settled);
    }

    fn close(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ask(Job::Close)
    }
}

/// The thread is gone, however it ended (a caller's clock may panic on it): the next opening of the folder starts anew.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

type Opening = Arc<tokio::sync::Mutex<Weak<FileStore>>>;

/// The process's one opening of that folder, and the right to make it.
fn opening(folder: Identity) -> Opening {
    static OPENINGS: LazyLock<Mutex<HashMap<Identity, Opening>>> = LazyLock::new(Default::default);
    let mut openings = OPENINGS.lock().unwrap_or_else(PoisonError::into_inner);
    // Nobody is at it, and nobody has it open.
    openings.retain(|_, opening| Arc::strong_count(opening) > 1 || opening.try_lock().map_or(true, |store| store.strong_count() > 0));
    Arc::clone(openings.entry(folder).or_default())
}

/// What the opener is told.
struct Opened {
    id: OwnerId,
    owner: OwnerId,
    torn: Vec<TornReport>,
    written: watch::Receiver<u64>,
}

/// Opens or makes the journal in a folder that is there, and reads all of it.
fn open_book(
    folder: &Path,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: Options,
    spent: Arc<AtomicBool>,
) -> Result<(Book, watch::Receiver<u64>), StoreError> {
    let at = |path: &str| folder.join(path);
    check_file_system(folder, &disk, &options)?;
    let mut lock = disk.open(&at("lock"), How::Lock).map_err(|e| unusable(folder, e))?;
    lock.lock().map_err(|e| StoreError::io("locking", &at("lock"), e))?;
    // Removed while we waited for it: others would lock another.
    let lock_is = lock.identity().map_err(|e| StoreError::io("looking at", &at("lock"), e))?;
    if disk.identity(&at("lock")).ok() != Some(lock_is) {
        return Err(unusable(&at("lock"), std::io::ErrorKind::NotFound.into()));
    }

    let path = at("log.jsonl");
    let mut log = birth::existing_or_new_log(folder, &path, &disk, &clock)?;
    // Before anything is written for it: a folder of a newer version is left as it is.
    birth::read(&path, log.as_mut())?;
    let owner = OwnerId::mint().map_err(|e| StoreError::new(StoreErrorKind::Refused, e.to_string()))?;
    let own = birth::own_file(&at("owners"), owner, &disk)?;
    let (written, told) = watch::channel(0);
    let own_path = at("owners").join(owner.to_string());
    let files = Files {
        disk: Arc::clone(&disk),
        clock,
        options,
        folder: folder.to_owned(),
        path,
        lock: Some(lock),
        log_is: log.identity().map_err(|e| StoreError::io("looking at", &at("log.jsonl"), e))?,
        log,
        lock_is,
        own: Some(own),
        owner,
        spent,
        written,
    };
    // A folder that can't be opened is left as it is.
    let read = Book::unread(files).and_then(|mut book| {
        book.unlock()?;
        book.read()?;
        // What was there already is no news.
        book.files.written.send_replace(book.mark().0);
        Ok(book)
    });
    Ok((read.inspect_err(|_| drop(disk.remove(&own_path)))?, told))
}

/// Where locks may hold on one machine only, two machines would each think the journal theirs.
fn check_file_system(folder: &Path, disk: &Arc<dyn Disk>, options: &Options) -> Result<(), StoreError> {
    match disk.file_system(folder).map_err(|e| StoreError::io("looking at", folder, e))? {
        FileSystem::Network(name) if !options.networks.iter().any(|allowed| allowed == name) => {
            let text = format!(
                "{} is on a network file system ({name}), where locks and syncs may mean less than they say: give a folder on a local disk, \
                 or allow it by name with JournalBuilder::allow_network(\"{name}\") if one machine alone uses it",
                folder.display()
            );
            Err(StoreError::new(StoreErrorKind::BadPath, text))
        }
        FileSystem::Memory(name) => {
            tracing::warn!(
                folder = %folder.display(),
                file_system = name,
                "this journal is gone with the machine or its container: keys do not outlive that. Give a folder on a disk, or a volume"
            );
            Ok(())
        }
        FileSystem::Network(_) | FileSystem::Local => Ok(()),
    }
}
