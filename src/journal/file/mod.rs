//! `FileStore`: a journal in a folder, shared by every process on the machine.
//!
//! ```text
//! journal/            0700
//!   log.jsonl         0600  append-only, one record a line
//!   lock              0600  the writers' lock; never renamed, never removed
//!   made              0600  says that a log was made here: one that is gone is missing, not new (R6)
//!   owners/<uuid>     0600  one per living process, held under its lock
//!   archive/torn-<at>       copies of what was torn
//! ```

mod frame;
mod mend;
mod recover;
mod writer;

use super::{
    memory::closed,
    store::{Decide, Mark, Record, Store, StoreError, StoreErrorKind, TornReport},
};
use crate::{
    clock::Clock,
    disk::{Disk, DiskFile, How, Identity, RealDisk},
    future::BoxFuture,
    ids::{IdempotencyKey, OwnerId},
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};
use tokio::sync::{oneshot, watch};
use writer::{Book, Files, Job, Reply};

/// How often another process's writing is looked for while somebody waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct FileStore {
    id: OwnerId,
    owner: OwnerId,
    jobs: mpsc::Sender<Job>,
    written: watch::Receiver<u64>,
    torn: Arc<[TornReport]>,
    /// Poisoned: the next opening starts anew instead of joining this one.
    spent: Arc<AtomicBool>,
}

impl FileStore {
    /// Opens or makes the folder. One opening per folder and process: the second joins the first, so that they share its owner.
    pub(super) async fn open(folder: PathBuf, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Result<Arc<FileStore>, StoreError> {
        static OPEN: LazyLock<tokio::sync::Mutex<HashMap<Identity, Weak<FileStore>>>> = LazyLock::new(Default::default);
        let mut open = OPEN.lock().await;
        open.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = RealDisk.identity(&folder).ok().and_then(|id| open.get(&id)?.upgrade())
            && !store.spent.load(Ordering::Acquire)
        {
            return Ok(store);
        }
        let store = Arc::new(FileStore::start(folder.clone(), disk, clock).await?);
        if let Ok(identity) = RealDisk.identity(&folder) {
            open.insert(identity, Arc::downgrade(&store));
        }
        Ok(store)
    }

    async fn start(folder: PathBuf, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Result<FileStore, StoreError> {
        let (jobs, work) = mpsc::channel();
        let (tell, told) = oneshot::channel();
        let spent = Arc::new(AtomicBool::new(false));
        let (raised, gone) = (Arc::clone(&spent), Gone(Arc::clone(&spent)));
        let thread = std::thread::Builder::new().name("uketsuke-journal".to_owned());
        let started = thread.spawn(move || {
            let _gone = gone;
            match open_book(&folder, &disk, &clock, raised) {
                Ok((book, opened)) => {
                    let waited_for = tell.send(Ok(opened)).is_ok();
                    if waited_for {
                        book.serve(&work);
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

    fn durable(&self, upto: Mark) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ask(|reply| Job::Durable(upto, reply))
    }

    fn story(&self, key: IdempotencyKey) -> BoxFuture<'static, Result<Vec<Record>, StoreError>> {
        self.ask(|reply| Job::Story(key, reply))
    }

    fn unsettled(&self, after: Option<IdempotencyKey>, limit: usize) -> BoxFuture<'static, Result<Vec<IdempotencyKey>, StoreError>> {
        self.ask(|reply| Job::Unsettled(after, limit, reply))
    }

    fn changed(&self, seen: Mark, at_most: Duration) -> BoxFuture<'static, Result<Mark, StoreError>> {
        let jobs = self.jobs.clone();
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

/// What the opener is told.
struct Opened {
    id: OwnerId,
    owner: OwnerId,
    torn: Vec<TornReport>,
    written: watch::Receiver<u64>,
}

/// The first record is far shorter than this.
const FIRST_RECORD_CAP: u64 = 4096;

/// The first record of a log.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Birth {
    id: OwnerId,
    format: u32,
}

fn open_book(folder: &Path, disk: &Arc<dyn Disk>, clock: &Arc<dyn Clock>, spent: Arc<AtomicBool>) -> Result<(Book, Opened), StoreError> {
    let at = |path: &str| folder.join(path);
    disk.make_dir(folder).map_err(|e| unusable(folder, e))?;
    let mut lock = disk.open(&at("lock"), How::Lock).map_err(|e| unusable(folder, e))?;
    lock.lock().map_err(|e| StoreError::io("locking", &at("lock"), e))?;
    // Removed while we waited for it: others would lock another.
    if disk.identity(&at("lock")).ok() != lock.identity().ok() {
        return Err(unusable(&at("lock"), std::io::ErrorKind::NotFound.into()));
    }

    let path = at("log.jsonl");
    let mut log = existing_or_new_log(folder, &path, disk, clock)?;
    let id = birth(&path, log.as_mut())?;
    let owner = OwnerId::mint().map_err(|e| StoreError::new(StoreErrorKind::Refused, e.to_string()))?;
    let own = own_file(&at("owners"), owner, disk)?;
    let (written, told) = watch::channel(0);
    let files = Files {
        disk: Arc::clone(disk),
        clock: Arc::clone(clock),
        folder: folder.to_owned(),
        path,
        lock,
        log,
        own: Some(own),
        owner,
        spent,
        written,
    };
    // A folder that can't be opened is left as it is.
    let own_path = at("owners").join(owner.to_string());
    let read = Book::read(files).inspect_err(|_| drop(disk.remove(&own_path)));
    let (book, torn) = read?;
    let opened = Opened {
        id,
        owner,
        torn,
        written: told,
    };
    Ok((book, opened))
}

fn unusable(folder: &Path, error: std::io::Error) -> StoreError {
    let text = format!(
        "{} can't hold a journal ({error}): give a folder that can be made and written to, on a local disk",
        folder.display()
    );
    StoreError::new(StoreErrorKind::BadPath, text)
}

/// R6: a log is made only in a folder that bears no sign of an earlier one. It is written and synced under another name, then the mark is made,
/// then it takes its place: a kill in between leaves a folder that the next opening can finish.
fn existing_or_new_log(folder: &Path, path: &Path, disk: &Arc<dyn Disk>, clock: &Arc<dyn Clock>) -> Result<Box<dyn DiskFile>, StoreError> {
    let failed = |e| StoreError::io("making", path, e);
    // What can't be looked at is not missing: a log that is there would be replaced.
    let there = |path: &Path| match disk.identity(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io("looking at", path, e)),
    };
    if there(path)? {
        return disk.open(path, How::Append).map_err(|e| StoreError::io("opening", path, e));
    }
    let (unborn, mark) = (folder.join("log.new"), folder.join("made"));
    let marked = there(&mark)?;
    let mut traces = false;
    for sign in ["archive", "owners", "origins"] {
        traces |= there(&folder.join(sign))?;
    }
    let half_made = there(&unborn)?;
    if traces || marked && !half_made {
        let text = format!(
            "{} had a journal once, and its log.jsonl is gone: nothing was made and nothing is sent, since every key would be minted anew. \
             Restore the file, or give another folder",
            folder.display()
        );
        return Err(StoreError::new(StoreErrorKind::Missing, text));
    }
    if !marked {
        if half_made {
            disk.remove(&unborn).map_err(failed)?;
        }
        let id = OwnerId::mint().map_err(|e| StoreError::new(StoreErrorKind::Refused, e.to_string()))?;
        let data = serde_json::to_string(&Birth { id, format: 1 }).map_err(|e| StoreError::new(StoreErrorKind::Refused, e.to_string()))?;
        let body = frame::Body::Book {
            name: "journal",
            at: clock.now(),
            data,
        };
        let (line, _) = frame::encode(1, &body, 0, 0);
        write_new(&unborn, &line, disk).map_err(failed)?;
        write_new(&mark, format!("{id}\n").as_bytes(), disk).map_err(failed)?;
        disk.sync_dir(folder).map_err(failed)?;
    }
    disk.rename(&unborn, path).map_err(failed)?;
    disk.sync_dir(folder).map_err(failed)?;
    if let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty()) {
        disk.sync_dir(above).map_err(failed)?;
    }
    disk.open(path, How::Append).map_err(failed)
}

fn write_new(path: &Path, bytes: &[u8], disk: &Arc<dyn Disk>) -> std::io::Result<()> {
    let mut file = disk.open(path, How::CreateNew)?;
    file.append_all(bytes)?;
    file.sync()
}

/// The journal's own name, from its first record.
fn birth(path: &Path, log: &mut dyn DiskFile) -> Result<OwnerId, StoreError> {
    let failed = |e| StoreError::io("reading", path, e);
    let len = log.size().map_err(failed)?.min(FIRST_RECORD_CAP);
    let bytes = log.read_at(0, usize::try_from(len).unwrap_or(0)).map_err(failed)?;
    let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let named = match frame::decode(first) {
        Ok(frame::Frame {
            body: frame::Body::Book { name: "journal", data, .. },
            ..
        }) => serde_json::from_str::<Birth>(&data).ok(),
        Err(frame::Bad::Version(version)) => {
            let text = format!(
                "journal at {} is of version {version}: nothing was changed; use the uketsuke that wrote it",
                path.display()
            );
            return Err(StoreError::new(StoreErrorKind::UnsupportedVersion, text));
        }
        _ => None,
    };
    named.map(|birth| birth.id).ok_or_else(|| {
        let text = format!(
            "{} does not begin as a journal does: nothing was changed and nothing will be sent; restore the file",
            path.display()
        );
        StoreError::new(StoreErrorKind::Corrupt, text)
    })
}

/// This process's own file, locked while it lives. Under the folder's lock, so nobody sees it unlocked; the dead ones' are cleared away.
fn own_file(owners: &Path, owner: OwnerId, disk: &Arc<dyn Disk>) -> Result<Box<dyn DiskFile>, StoreError> {
    let failed = |e| StoreError::io("keeping an owner's file in", owners, e);
    disk.make_dir(owners).map_err(failed)?;
    for path in disk.list(owners).map_err(failed)? {
        if let Ok(mut file) = disk.open(&path, How::Append)
            && file.try_lock().unwrap_or(false)
        {
            drop(disk.remove(&path));
        }
    }
    let mut own = disk.open(&owners.join(owner.to_string()), How::CreateNew).map_err(failed)?;
    match own.try_lock() {
        Ok(true) => Ok(own),
        Ok(false) => Err(failed(std::io::ErrorKind::WouldBlock.into())),
        Err(e) => Err(failed(e)),
    }
}
