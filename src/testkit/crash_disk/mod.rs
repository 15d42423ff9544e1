//! A disk that crashes: what a test holds, the calls it counts, and what goes wrong with which of them.

mod platter;

pub use platter::Kept;

use crate::disk::{Disk, DiskFile, FileSystem, How, Identity};
use platter::{Number, Platter};
use std::{
    collections::BTreeMap,
    fmt,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// A disk for tests of crashes: it counts calls, dies or fails at the one you choose, and loses at a power cut what was not synced.
///
/// ```
/// use uketsuke::{Actor, Api, Journal, OrderClient, Origin, PlaceOrder};
/// use uketsuke::testkit::{CrashDisk, Desk, Fault, Kept};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// for disk in CrashDisk::new().every_call(Fault::Dies) {
///     let desk = Desk::start().await;
///     let order = PlaceOrder::new("C-100").item("SKU-1", 2);
///     let api = Api::at(desk.url())?;
///     // Your agent, until the machine goes dark at one of its calls.
///     if let Ok(journal) = Journal::builder().disk(disk.clone()).open("/journal").await {
///         let client = OrderClient::new(journal, api.clone(), Actor::agent("mine"));
///         let _ = client.submit(Origin::mail("<1@example.com>"), &order).await;
///     }
///     // The power is back, and what nobody had synced is gone.
///     let journal = Journal::builder().disk(disk.after_power_cut(Kept::Nothing)).open("/journal").await?;
///     let client = OrderClient::new(journal, api, Actor::agent("mine"));
///     client.resume_pending().await?;
///     client.submit(Origin::mail("<1@example.com>"), &order).await?.receipt()?;
///     desk.assert_one_order(|order| order["customer"] == "C-100");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # What it is
///
/// Wholly in memory, because only then is it known, byte by byte and name by name, what a sync has covered; over a real folder the operating
/// system would keep that to itself. So no other process can share it, and no path of it exists outside: give a path that does not exist on the
/// machine either, as `/journal`, since a journal looks there whether it has that folder open already. Clones are one disk, and its locks hold
/// between all openings on it. For other processes and real disks, kill children.
///
/// # What a power cut leaves
///
/// What a sync covered stays. Of the rest, by a choice that a seed repeats ([`Kept`]):
///
/// - **contents**: each 512-byte sector of each unsynced write is there or not, whatever became of those before it. A file may have grown over
///   sectors that are not there (they read as zero), or not have grown. A cut ([`truncate`](DiskFile::truncate)) happened or did not.
/// - **entries**: a file or folder that was made, linked, renamed or removed, without a sync of the folder it stands in since, is as before or
///   as after, each for itself; a rename whole or not at all, and nothing about a name without what was done to that name before.
///   A file's sync makes its contents durable and no entry. This is less than most file systems give, and all that POSIX promises.
///
/// Sectors are written whole; a disk that damages what it had already is not played.
///
/// # What a failed sync leaves
///
/// As on Linux: the file reads as if all were well, every later sync says so, and what the failed one did not write is never written. Only
/// [`uncache`](DiskFile::uncache) brings it to light. A folder's failed sync may be repeated.
#[derive(Clone)]
pub struct CrashDisk {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// A lock was given up, or the disk died.
    freed: Condvar,
    device: u64,
}

struct State {
    platter: Platter,
    calls: Vec<String>,
    plan: Vec<Planned>,
    struck: Vec<usize>,
    dead: bool,
    lie: Lie,
    /// Who has a file locked, by the number of the opening.
    locks: BTreeMap<Number, u64>,
    openings: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lie {
    files: bool,
    folders: bool,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    from: usize,
    for_good: bool,
    fault: Fault,
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The process is killed, or the machine goes dark: the call is not done (an append gets half way), nor is any later one. Go on with
    /// [`CrashDisk::after_kill`] or [`CrashDisk::after_power_cut`].
    Dies,
    /// The call is not done, and answers with the operating system's error of this number: 5 is `EIO` nearly everywhere.
    ///
    /// An append that is interrupted (4, `EINTR`) is done again, here as on any disk: for good, it would never end.
    Os(i32),
    /// The call is not done, and answers with an error of this kind.
    Kind(ErrorKind),
    /// An append writes at most so many bytes, and says so. Other calls are done as always.
    Short(usize),
}

impl Fault {
    /// What a call answers that is not done; `None` where it is.
    fn error(self) -> Option<io::Error> {
        match self {
            Fault::Dies => Some(gone()),
            Fault::Os(number) => Some(io::Error::from_raw_os_error(number)),
            Fault::Kind(kind) => Some(kind.into()),
            Fault::Short(_) => None,
        }
    }
}

/// Who makes so many calls goes round in circles, over an error that says "again" for ever: the disk dies, before the memory does.
const MOST_CALLS: usize = 1_000_000;

fn gone() -> io::Error {
    io::Error::other("the disk has died")
}

/// Making one, and planning what goes wrong.
impl CrashDisk {
    /// An empty disk, on which nothing goes wrong yet.
    pub fn new() -> Self {
        Self::with(Platter::blank())
    }

    fn with(platter: Platter) -> Self {
        static DEVICES: AtomicU64 = AtomicU64::new(1);
        CrashDisk {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    platter,
                    calls: Vec::new(),
                    plan: Vec::new(),
                    struck: Vec::new(),
                    dead: false,
                    lie: Lie::default(),
                    locks: BTreeMap::new(),
                    openings: 0,
                }),
                freed: Condvar::new(),
                device: DEVICES.fetch_add(1, Ordering::Relaxed),
            }),
        }
    }

    /// The disk dies at its `n`-th call, counted from 1.
    pub fn dies_at(&self, n: usize) {
        self.fail_from(n, Fault::Dies);
    }

    /// The `n`-th call goes wrong like that, and later ones do not.
    pub fn fail_once(&self, n: usize, fault: Fault) {
        self.plan(n, fault, fault == Fault::Dies);
    }

    /// The `n`-th call and all after it go wrong like that.
    pub fn fail_from(&self, n: usize, fault: Fault) {
        self.plan(n, fault, true);
    }

    /// From here on nothing goes wrong any more: there is room again, the cable is back. What has died stays dead.
    pub fn heal(&self) {
        self.state().plan.clear();
    }

    fn plan(&self, from: usize, fault: Fault, for_good: bool) {
        self.state().plan.push(Planned { from, for_good, fault });
    }

    /// From now on a file's sync does nothing, and says that it was done. For a test of your test: with it, a power cut has to lose something.
    pub fn lie_about_files(&self) {
        self.state().lie.files = true;
    }

    /// From now on a folder's sync does nothing, and says that it was done.
    pub fn lie_about_folders(&self) {
        self.state().lie.folders = true;
    }

    /// A disk of the same contents for each call in turn, on which that call goes wrong, once. It ends when a disk was given back on which
    /// nothing had gone wrong, since fewer calls were made. [`EveryCall::for_good`] has all later calls go wrong too.
    pub fn every_call(&self, fault: Fault) -> EveryCall {
        EveryCall {
            start: self.state().platter.clone(),
            fault,
            for_good: false,
            n: 0,
            last: None,
        }
    }
}

/// Crashing.
impl CrashDisk {
    /// The disk after the process was killed: all that it wrote is read, and what was not synced is still not durable. This one is dead from
    /// here on, so that nobody who lives on is believed; the new one counts its calls from 1, and nothing goes wrong on it yet.
    pub fn after_kill(&self) -> CrashDisk {
        CrashDisk::with(self.die())
    }

    /// The disk after the power went and came back, with what is `kept` of the unsynced: a seed, or a [`Kept`]. This one is dead from here on.
    pub fn after_power_cut(&self, kept: impl Into<Kept>) -> CrashDisk {
        CrashDisk::with(self.die().after_cut(kept.into()))
    }

    fn die(&self) -> Platter {
        let mut state = self.state();
        state.dead = true;
        self.shared.freed.notify_all();
        state.platter.clone()
    }
}

/// Looking.
impl CrashDisk {
    /// How many calls were made while it lived.
    pub fn calls(&self) -> usize {
        self.state().calls.len()
    }

    /// What the `n`-th call was, such as `append log.jsonl`, for messages.
    pub fn nth(&self, n: usize) -> Option<String> {
        self.state().calls.get(n.checked_sub(1)?).cloned()
    }

    /// The calls that went wrong as planned, by number.
    pub fn struck(&self) -> Vec<usize> {
        self.state().struck.clone()
    }

    /// Whether it has died.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// A file's bytes as a process would read them; `None` where there is no such file. No call is counted.
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.state();
        let file = state.platter.find(path.as_ref()).ok()?;
        state.platter.read(file).ok().map(<[u8]>::to_vec)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and does it unless it goes wrong.
    fn call<T>(&self, name: String, work: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        match self.meets(&mut state, name).and_then(Fault::error) {
            Some(error) => Err(error),
            None => work(&mut state),
        }
    }

    /// Counts a call; answers with what goes wrong.
    fn meets(&self, state: &mut State, name: String) -> Option<Fault> {
        if state.dead {
            return Some(Fault::Dies);
        }
        state.calls.push(name);
        let n = state.calls.len();
        if n >= MOST_CALLS {
            state.dead = true;
        }
        let planned = state.plan.iter().find(|plan| plan.from == n || plan.for_good && plan.from < n);
        let fault = planned?.fault;
        state.struck.push(n);
        if fault == Fault::Dies {
            state.dead = true;
            self.shared.freed.notify_all();
        }
        Some(fault)
    }
}

impl Default for CrashDisk {
    fn default() -> Self {
        CrashDisk::new()
    }
}

impl fmt::Debug for CrashDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let struck = state.struck.iter().filter_map(|n| Some((*n, state.calls.get(n.checked_sub(1)?)?)));
        f.debug_struct("CrashDisk")
            .field("calls", &state.calls.len())
            .field("struck", &struck.collect::<Vec<_>>())
            .field("dead", &state.dead)
            .finish_non_exhaustive()
    }
}

/// Disks on which the first call goes wrong, then the second, and so on; from [`CrashDisk::every_call`].
#[derive(Debug)]
pub struct EveryCall {
    start: Platter,
    fault: Fault,
    for_good: bool,
    n: usize,
    last: Option<CrashDisk>,
}

impl EveryCall {
    /// All calls after it go wrong too.
    #[must_use]
    pub fn for_good(mut self) -> Self {
        self.for_good = true;
        self
    }
}

impl Iterator for EveryCall {
    type Item = CrashDisk;

    fn next(&mut self) -> Option<CrashDisk> {
        if self.last.as_ref().is_some_and(|last| last.struck().is_empty()) {
            return None;
        }
        self.n = self.n.saturating_add(1);
        let disk = CrashDisk::with(self.start.clone());
        disk.plan(self.n, self.fault, self.for_good || self.fault == Fault::Dies);
        self.last = Some(disk.clone());
        Some(disk)
    }
}

fn last(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl Disk for CrashDisk {
    fn make_dir(&self, folder: &Path) -> io::Result<()> {
        self.call(format!("make_dir {}", last(folder)), |state| state.platter.make_dir(folder))
    }

    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>> {
        self.call(format!("open {} {how:?}", last(path)), |state| {
            let number = state.platter.open(path, how)?;
            state.openings = state.openings.saturating_add(1);
            Ok(Box::new(CrashFile {
                disk: self.clone(),
                number,
                how,
                opening: state.openings,
                name: last(path),
            }) as Box<dyn DiskFile>)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(format!("rename {} {}", last(from), last(to)), |state| {
            state.platter.rename(from, to)
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(format!("link {} {}", last(from), last(to)), |state| state.platter.link(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(format!("remove {}", last(path)), |state| state.platter.remove(path))
    }

    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        self.call(format!("sync_dir {}", last(folder)), |state| match state.lie.folders {
            true => Ok(()),
            false => state.platter.sync_dir(folder),
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.call(format!("list {}", last(folder)), |state| state.platter.list(folder))
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let device = self.shared.device;
        self.call(format!("identity {}", last(path)), |state| Ok((device, state.platter.find(path)?)))
    }

    fn file_system(&self, folder: &Path) -> io::Result<FileSystem> {
        self.call(format!("file_system {}", last(folder)), |_| Ok(FileSystem::Local))
    }
}

/// One opening of a file.
#[derive(Debug)]
struct CrashFile {
    disk: CrashDisk,
    number: Number,
    how: How,
    opening: u64,
    name: String,
}

impl CrashFile {
    fn call<T>(&self, what: &str, work: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.disk.call(format!("{what} {}", self.name), work)
    }

    fn read(&self, what: &str, at: u64) -> io::Result<Vec<u8>> {
        self.call(what, |state| {
            let bytes = state.platter.read(self.number)?;
            Ok(bytes.get(place(at)?..).unwrap_or_default().to_vec())
        })
    }
}

/// Where in memory a place of a file is.
fn place(at: u64) -> io::Result<usize> {
    usize::try_from(at).map_err(|_| ErrorKind::FileTooLarge.into())
}

fn opened_for_something_else() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "the file was opened for something else")
}

impl DiskFile for CrashFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let alive = !state.dead;
        let fault = self.disk.meets(&mut state, format!("append {}", self.name));
        if self.how == How::Mend {
            return Err(opened_for_something_else());
        }
        let len = match fault {
            None => bytes.len(),
            Some(Fault::Short(len)) => len.min(bytes.len()),
            Some(Fault::Dies) if alive => bytes.len() / 2,
            Some(_) => 0,
        };
        state.platter.append(self.number, bytes.get(..len).unwrap_or_default());
        fault.and_then(Fault::error).map_or(Ok(len), Err)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mend = self.how == How::Mend;
        self.call("write_at", |state| {
            if !mend {
                return Err(opened_for_something_else());
            }
            state.platter.write_at(self.number, place(at)?, bytes);
            Ok(())
        })
    }

    fn read_from(&mut self, at: u64) -> io::Result<Vec<u8>> {
        self.read("read_from", at)
    }

    fn read_at(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = self.read("read_at", at)?;
        if bytes.len() < len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    fn read_some(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.read("read_some", at)?;
        let len = bytes.len().min(into.len());
        if let (Some(into), Some(bytes)) = (into.get_mut(..len), bytes.get(..len)) {
            into.copy_from_slice(bytes);
        }
        Ok(len)
    }

    fn uncache(&mut self, from: u64) -> io::Result<()> {
        self.call("uncache", |state| {
            state.platter.uncache(self.number, place(from)?);
            Ok(())
        })
    }

    fn size(&self) -> io::Result<u64> {
        self.call("size", |state| Ok(state.platter.read(self.number)?.len() as u64))
    }

    fn truncate(&mut self, to: u64) -> io::Result<()> {
        self.call("truncate", |state| {
            state.platter.truncate(self.number, place(to)?);
            Ok(())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        let lie = state.lie.files;
        match self.disk.meets(&mut state, format!("sync {}", self.name)) {
            None | Some(Fault::Short(_)) if lie => Ok(()),
            None | Some(Fault::Short(_)) => {
                state.platter.sync(self.number);
                Ok(())
            }
            Some(Fault::Dies) => Err(gone()),
            Some(fault) => {
                state.platter.fail_sync(self.number);
                fault.error().map_or(Ok(()), Err)
            }
        }
    }

    fn identity(&self) -> io::Result<Identity> {
        let device = self.disk.shared.device;
        self.call("identity of", |_| Ok((device, self.number)))
    }

    fn lock(&mut self) -> io::Result<()> {
        self.call("lock", |_| Ok(()))?;
        let mut state = self.disk.state();
        while !state.dead && state.locks.get(&self.number).is_some_and(|holder| *holder != self.opening) {
            state = self.disk.shared.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.dead {
            return Err(gone());
        }
        state.locks.insert(self.number, self.opening);
        Ok(())
    }

    fn try_lock(&mut self) -> io::Result<bool> {
        self.call("try_lock", |state| {
            Ok(*state.locks.entry(self.number).or_insert(self.opening) == self.opening)
        })
    }

    fn unlock(&mut self) -> io::Result<()> {
        self.call("unlock", |state| {
            state.give_up(self.number, self.opening);
            Ok(())
        })?;
        self.disk.shared.freed.notify_all();
        Ok(())
    }
}

impl State {
    fn give_up(&mut self, file: Number, opening: u64) {
        if self.locks.get(&file) == Some(&opening) {
            self.locks.remove(&file);
        }
    }
}

/// A closed file is an unlocked one.
impl Drop for CrashFile {
    fn drop(&mut self) {
        self.disk.state().give_up(self.number, self.opening);
        self.disk.shared.freed.notify_all();
    }
}
