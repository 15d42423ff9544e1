//! Where a submit's time goes: a disk that notes when it was called cuts each submit into phases.

use crate::{
    Result, client,
    floor::Floor,
    stopwatch::{middle, now},
    submit,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use uketsuke::{
    Journal,
    journal::disk::{Disk, DiskFile, FileSystem, How, Identity, RealDisk},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Lock,
    Unlock,
    Sync,
}

#[derive(Clone, Copy, Debug)]
struct Noted {
    call: Call,
    at: Instant,
}

type Notes = Arc<Mutex<Vec<Noted>>>;

/// A submit's phases, in their order.
const PHASES: [&str; 8] = [
    "to the claim's turn",
    "the claim's turn",
    "its sync",
    "to the turn of `sent`",
    "the turn of `sent`",
    "connect, send, answer",
    "the turn of the outcome",
    "to the caller",
];

pub(crate) async fn print(url: &str, folder: &Path, floor: &mut Floor, times: usize) -> Result<()> {
    let disk = TimedDisk::default();
    let notes = Arc::clone(&disk.0);
    let journal = Journal::builder().disk(disk).open(folder.join("phases")).await?;
    let client = client(journal, url)?;
    let mut phases: [Vec<f64>; 8] = Default::default();
    let (mut plain, mut disturbed): ([Vec<f64>; 3], usize) = Default::default();
    for n in 0..times {
        let began = now();
        floor.append()?;
        let written = now();
        floor.sync()?;
        let synced = now();
        floor.post().await?;
        let ended = now();
        for (times, (from, to)) in plain.iter_mut().zip([(began, written), (written, synced), (synced, ended)]) {
            times.push((to - from).as_secs_f64() * 1e6);
        }

        notes.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let began = now();
        submit(&client, n).await?;
        let ended = now();
        let noted = notes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match cut(&noted, began, ended) {
            Some(cut) => phases.iter_mut().zip(cut).for_each(|(times, time)| times.push(time)),
            None => disturbed += 1,
        }
    }
    println!("p50 in us of {times} each; {disturbed} submits left out, since the journal's background fell into them");
    for (name, times) in ["append", "sync", "connect, send, answer"].iter().zip(plain) {
        println!("floor   {name:24} {:7.0}", middle(times));
    }
    for (name, times) in PHASES.iter().zip(phases) {
        println!("submit  {name:24} {:7.0}", middle(times));
    }
    Ok(())
}

/// `None` where something else was done meanwhile.
fn cut(noted: &[Noted], began: Instant, ended: Instant) -> Option<[f64; 8]> {
    use Call::{Lock, Sync, Unlock};
    let calls: Vec<Call> = noted.iter().map(|noted| noted.call).collect();
    if calls != [Lock, Unlock, Sync, Lock, Unlock, Lock, Unlock] {
        return None;
    }
    let edges: Vec<Instant> = [began]
        .into_iter()
        .chain(noted.iter().map(|noted| noted.at))
        .chain([ended])
        .collect();
    let lengths: Vec<f64> = edges
        .windows(2)
        .filter_map(|edge| Some((*edge.last()? - *edge.first()?).as_secs_f64() * 1e6))
        .collect();
    lengths.try_into().ok()
}

/// The operating system's, with a note of each lock as it is asked for, and of each unlock and sync as it is over.
#[derive(Clone, Debug, Default)]
struct TimedDisk(Notes);

#[derive(Debug)]
struct TimedFile(Box<dyn DiskFile>, Notes);

fn note(notes: &Notes, call: Call) {
    notes.lock().unwrap_or_else(PoisonError::into_inner).push(Noted { call, at: now() });
}

impl Disk for TimedDisk {
    fn make_dir(&self, folder: &Path) -> io::Result<()> {
        RealDisk.make_dir(folder)
    }
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(TimedFile(RealDisk.open(path, how)?, Arc::clone(&self.0))))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        RealDisk.sync_dir(folder)
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(folder)
    }
    fn identity(&self, path: &Path) -> io::Result<Identity> {
        RealDisk.identity(path)
    }
    fn look(&self, path: &Path) -> io::Result<(Identity, Option<u64>)> {
        RealDisk.look(path)
    }
    fn file_system(&self, folder: &Path) -> io::Result<FileSystem> {
        RealDisk.file_system(folder)
    }
}

impl DiskFile for TimedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)
    }
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(at, bytes)
    }
    fn read_from(&mut self, at: u64) -> io::Result<Vec<u8>> {
        self.0.read_from(at)
    }
    fn read_at(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        self.0.read_at(at, len)
    }
    fn read_some(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_some(at, into)
    }
    fn uncache(&mut self, from: u64) -> io::Result<()> {
        self.0.uncache(from)
    }
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn truncate(&mut self, to: u64) -> io::Result<()> {
        self.0.truncate(to)
    }
    fn sync(&mut self) -> io::Result<()> {
        let done = self.0.sync();
        note(&self.1, Call::Sync);
        done
    }
    fn identity(&self) -> io::Result<Identity> {
        self.0.identity()
    }
    fn lock(&mut self) -> io::Result<()> {
        note(&self.1, Call::Lock);
        self.0.lock()
    }
    fn try_lock(&mut self) -> io::Result<bool> {
        note(&self.1, Call::Lock);
        self.0.try_lock()
    }
    fn unlock(&mut self) -> io::Result<()> {
        let done = self.0.unlock();
        note(&self.1, Call::Unlock);
        done
    }
}
