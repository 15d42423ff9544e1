//! One list of what happened in which order, on the disk and at the desk; and the checks over it, which are pure, so that a test can show
//! that they are able to fail.

use serde_json::Value;
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use uketsuke::{
    Journal,
    journal::disk::{Disk, DiskFile, How, Identity, RealDisk},
    testkit::Desk,
};

/// One thing that was done, written down when it was done and not before.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    /// Bytes were appended to the file.
    Append { file: String, text: String },
    /// The file's contents are durable.
    Sync { file: String },
    /// A file took this place.
    Rename { to: String },
    /// The folder's entries are durable.
    SyncDir { folder: String },
    /// A request is at the desk; nothing of it was looked at yet.
    Arrived { key: String },
    /// The caller has an outcome.
    Told { key: String },
}

const LOG: &str = "log.jsonl";

impl Entry {
    /// Whether it appended a record of that event, of that key if one is given, to the log.
    pub(crate) fn is_record(&self, event: &str, key: Option<&str>) -> bool {
        let Entry::Append { file, text } = self else { return false };
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        file == LOG
            && records
                .into_iter()
                .any(|r| r["ev"] == event && key.is_none_or(|key| r["key"] == key))
    }

    pub(crate) fn is_log_sync(&self) -> bool {
        *self == Entry::Sync { file: LOG.to_owned() }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tape(Arc<Mutex<Vec<Entry>>>);

impl Tape {
    pub(crate) fn push(&self, entry: Entry) {
        self.0.lock().unwrap().push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }

    /// Writes each request down as it arrives.
    pub(crate) fn listen_at(&self, desk: &Desk) {
        let tape = self.clone();
        desk.on_request(move |seen| {
            tape.push(Entry::Arrived {
                key: seen.key.clone().unwrap_or_default(),
            });
        });
    }

    /// A journal whose disk writes everything down and syncs the log as `syncing` says.
    pub(crate) async fn journal(&self, folder: &Path, syncing: impl Fn(&[Entry]) -> Syncing + Send + Sync + 'static) -> Journal {
        let disk = TapedDisk {
            tape: self.clone(),
            syncing: Arc::new(syncing),
        };
        Journal::builder().disk(disk).open(folder).await.unwrap()
    }
}

/// What a sync of the log does, decided on what happened so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syncing {
    Honest,
    /// Nothing, and says that it was done.
    Skipped,
    Fails,
}

/// Before each request: the order's claim was written, and made durable after that; and the log's place in its folder is durable. Answers with
/// how many requests there were.
pub(crate) fn claims_are_durable_before_they_leave(list: &[Entry]) -> Result<usize, String> {
    let mut arrived = 0;
    for (at, entry) in list.iter().enumerate() {
        let Entry::Arrived { key } = entry else { continue };
        arrived += 1;
        let before = &list[..at];
        let claim = before.iter().position(|e| e.is_record("claimed", Some(key)));
        let claim = claim.ok_or(format!("{key} arrived before its claim was written"))?;
        if !before[claim..].iter().any(Entry::is_log_sync) {
            return Err(format!("{key} arrived before its claim was synced"));
        }
        let placed = before.iter().position(|e| *e == Entry::Rename { to: LOG.to_owned() });
        let placed = placed.ok_or("no log took its place")?;
        let folder = Entry::SyncDir {
            folder: "journal".to_owned(),
        };
        if !before[placed..].contains(&folder) {
            return Err(format!("{key} arrived before the log's place in its folder was synced"));
        }
    }
    Ok(arrived)
}

/// Before each request: as many attempts of its order were written as arrived. Answers with how many requests there were.
pub(crate) fn attempts_are_written_before_they_leave(list: &[Entry]) -> Result<usize, String> {
    let mut arrived = 0;
    for (at, entry) in list.iter().enumerate() {
        let Entry::Arrived { key } = entry else { continue };
        arrived += 1;
        let requests = list[..=at].iter().filter(|e| *e == entry).count();
        let written = list[..at].iter().filter(|e| e.is_record("sent", Some(key))).count();
        if written < requests {
            return Err(format!("request {requests} of {key} arrived with {written} attempts written"));
        }
    }
    Ok(arrived)
}

/// R7: before the caller hears of it, the outcome was written, and made durable after that. Answers with how many were told.
pub(crate) fn outcomes_are_durable_before_they_are_told(list: &[Entry]) -> Result<usize, String> {
    let mut told = 0;
    for (at, entry) in list.iter().enumerate() {
        let Entry::Told { key } = entry else { continue };
        told += 1;
        let before = &list[..at];
        let settled = before.iter().position(|e| e.is_record("settled", Some(key)));
        let settled = settled.ok_or(format!("{key} was told before it was written"))?;
        if !before[settled..].iter().any(Entry::is_log_sync) {
            return Err(format!("{key} was told before it was synced"));
        }
    }
    Ok(told)
}

type Choice = Arc<dyn Fn(&[Entry]) -> Syncing + Send + Sync>;

/// The operating system's disk, with everything written down.
#[derive(Clone)]
struct TapedDisk {
    tape: Tape,
    syncing: Choice,
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl fmt::Debug for TapedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TapedDisk")
    }
}

impl Disk for TapedDisk {
    fn make_dir(&self, folder: &Path) -> io::Result<()> {
        RealDisk.make_dir(folder)
    }

    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(TapedFile {
            name: name(path),
            file: RealDisk.open(path, how)?,
            disk: self.clone(),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)?;
        self.tape.push(Entry::Rename { to: name(to) });
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        RealDisk.sync_dir(folder)?;
        self.tape.push(Entry::SyncDir { folder: name(folder) });
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(folder)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        RealDisk.identity(path)
    }
}

#[derive(Debug)]
struct TapedFile {
    name: String,
    file: Box<dyn DiskFile>,
    disk: TapedDisk,
}

impl DiskFile for TapedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.append(bytes)?;
        self.disk.tape.push(Entry::Append {
            file: self.name.clone(),
            text: String::from_utf8_lossy(&bytes[..written]).into_owned(),
        });
        Ok(written)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(at, bytes)
    }

    fn read_from(&mut self, at: u64) -> io::Result<Vec<u8>> {
        self.file.read_from(at)
    }

    fn read_at(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        self.file.read_at(at, len)
    }

    fn read_some(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_some(at, into)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn truncate(&mut self, to: u64) -> io::Result<()> {
        self.file.truncate(to)
    }

    fn sync(&mut self) -> io::Result<()> {
        let choice = match self.name == LOG {
            true => (self.disk.syncing)(&self.disk.tape.entries()),
            false => Syncing::Honest,
        };
        match choice {
            Syncing::Honest => {
                self.file.sync()?;
                self.disk.tape.push(Entry::Sync { file: self.name.clone() });
                Ok(())
            }
            Syncing::Skipped => Ok(()),
            Syncing::Fails => Err(io::Error::other("the disk is on fire")),
        }
    }

    fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }

    fn lock(&mut self) -> io::Result<()> {
        self.file.lock()
    }

    fn try_lock(&mut self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn unlock(&mut self) -> io::Result<()> {
        self.file.unlock()
    }
}
