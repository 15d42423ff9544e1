//! What a stranger tried on the journal for many: interleavings that no timer finds, since the disk itself says when the others act; and damage
//! where nobody looked.

use crate::kit::{Folder, brisk};
use bytes::Bytes;
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};
use uketsuke::{
    Actor, Clock, Columns, Error, IdempotencyKey, Journal, OrderClient, OrderReceipt, Origin, Outcome, PlaceOrder, Receipt, Timestamp,
    journal::{
        core::{self, Core},
        disk::{Disk, DiskFile, How, Identity, RealDisk},
        store::{Decide, Mark, Record, Standing, StoreError, StoreErrorKind},
    },
    testkit::{Desk, Reply, Script},
};

// ---- a disk that says when ---------------------------------------------------------------------------------------------

type Hook = Arc<Mutex<dyn FnMut(&str, &str) + Send>>;

/// The operating system's disk; before each call somebody is told which one, on which file.
#[derive(Clone)]
struct Told {
    hook: Hook,
    /// How many more calls go well; none fails where it is negative.
    until: Arc<AtomicI64>,
}

impl Told {
    fn by(hook: impl FnMut(&str, &str) + Send + 'static) -> Self {
        Told {
            hook: Arc::new(Mutex::new(hook)),
            until: Arc::new(AtomicI64::new(-1)),
        }
    }

    fn tell(&self, call: &str, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (self.hook.lock().unwrap())(call, &name);
        match self.until.load(Ordering::SeqCst) {
            ..0 => Ok(()),
            0 => {
                self.until.store(-1, Ordering::SeqCst);
                Err(io::Error::other("the disk said no, once"))
            }
            more => {
                self.until.store(more - 1, Ordering::SeqCst);
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}

impl Disk for Told {
    fn make_dir(&self, folder: &Path) -> io::Result<()> {
        RealDisk.make_dir(folder)
    }
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>> {
        self.tell(if how == How::CreateNew { "create" } else { "open" }, path)?;
        let file = RealDisk.open(path, how)?;
        Ok(Box::new(ToldFile(self.clone(), path.to_owned(), file)))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.tell("rename", to)?;
        RealDisk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.tell("link", from)?;
        RealDisk.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.tell("remove", path)?;
        RealDisk.remove(path)
    }
    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        self.tell("sync_dir", folder)?;
        RealDisk.sync_dir(folder)
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.tell("list", folder)?;
        RealDisk.list(folder)
    }
    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.tell("identity", path)?;
        RealDisk.identity(path)
    }
}

#[derive(Debug)]
struct ToldFile(Told, PathBuf, Box<dyn DiskFile>);

impl DiskFile for ToldFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.tell("append", &self.1)?;
        self.2.append(bytes)
    }
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.tell("write_at", &self.1)?;
        self.2.write_at(at, bytes)
    }
    fn read_from(&mut self, at: u64) -> io::Result<Vec<u8>> {
        self.0.tell("read_from", &self.1)?;
        self.2.read_from(at)
    }
    fn read_at(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        self.0.tell("read_at", &self.1)?;
        self.2.read_at(at, len)
    }
    fn read_some(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.tell("read_some", &self.1)?;
        self.2.read_some(at, into)
    }
    fn uncache(&mut self, from: u64) -> io::Result<()> {
        self.0.tell("uncache", &self.1)?;
        self.2.uncache(from)
    }
    fn size(&self) -> io::Result<u64> {
        self.0.tell("size", &self.1)?;
        self.2.size()
    }
    fn truncate(&mut self, to: u64) -> io::Result<()> {
        self.0.tell("truncate", &self.1)?;
        self.2.truncate(to)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.0.tell("sync", &self.1)?;
        self.2.sync()
    }
    fn identity(&self) -> io::Result<Identity> {
        self.0.tell("identity", &self.1)?;
        self.2.identity()
    }
    fn lock(&mut self) -> io::Result<()> {
        self.0.tell("lock", &self.1)?;
        self.2.lock()
    }
    fn try_lock(&mut self) -> io::Result<bool> {
        self.0.tell("try_lock", &self.1)?;
        self.2.try_lock()
    }
    fn unlock(&mut self) -> io::Result<()> {
        self.0.tell("unlock", &self.1)?;
        self.2.unlock()
    }
}

// ---- records of our own ------------------------------------------------------------------------------------------------

fn key(n: u32) -> IdempotencyKey {
    format!("{:08x}-0000-4000-8000-{n:012x}", n.wrapping_mul(0x9e37_79b9))
        .parse()
        .unwrap()
}

/// Spread, as hashes are.
fn hash(n: u32) -> [u8; 32] {
    let mut hash = [n as u8 | 1; 32];
    hash[..4].copy_from_slice(&n.wrapping_mul(0x9e37_79b9).to_be_bytes());
    hash
}

fn record(n: u32, name: &str, standing: Standing) -> Record {
    Record {
        key: key(n),
        name: name.to_owned(),
        at: Timestamp::from_millis(1_700_000_000_000),
        standing,
        columns: (name == "claimed").then(|| Columns {
            origin: Some(hash(n)),
            source: Some(hash(n)),
            repeat: hash(n),
        }),
        data: Bytes::from_static(b"{\"text\":\"as long as any other\"}"),
    }
}

fn appending(records: Vec<Record>) -> Decide {
    Box::new(move |turn| {
        records.into_iter().for_each(|record| turn.append(record));
        Box::pin(std::future::ready(Ok(())))
    })
}

fn claim(n: u32) -> Decide {
    appending(vec![record(n, "claimed", Standing::Open)])
}

fn done(n: u32) -> Decide {
    appending(vec![record(n, "claimed", Standing::Open), record(n, "settled", Standing::Done)])
}

/// Another process: it opens the folder, does one thing, durably, and is gone.
fn another(folder: &Path, decide: Decide) {
    let mut core = Core::open(folder).unwrap();
    let mark = core.turn(decide).unwrap();
    core.durable(mark).unwrap();
}

/// Whose claim an origin has.
fn found(core: &mut Core, n: u32) -> Result<Option<IdempotencyKey>, StoreError> {
    let (tell, told) = std::sync::mpsc::channel();
    let asking: Decide = Box::new(move |turn| {
        Box::pin(async move {
            tell.send(turn.by_origin(hash(n), hash(n)).await?).ok();
            Ok(())
        })
    });
    core.turn(asking)?;
    Ok(told.recv().unwrap())
}

/// As a fresh opening sees it.
fn claimant(folder: &Path, n: u32) -> Option<IdempotencyKey> {
    found(&mut Core::open(folder).unwrap(), n).unwrap()
}

fn log_len(folder: &Path) -> u64 {
    fs::metadata(folder.join("log.jsonl")).unwrap().len()
}

fn cut_log(folder: &Path, to: u64) {
    fs::OpenOptions::new()
        .write(true)
        .open(folder.join("log.jsonl"))
        .unwrap()
        .set_len(to)
        .unwrap();
}

async fn journal_on(folder: &Path, disk: impl Disk + 'static) -> Journal {
    let builder = Journal::builder().compact_at(u64::MAX).keep(Duration::ZERO).disk(disk);
    builder.open(folder).await.unwrap()
}

// ---- a write that is cut back ------------------------------------------------------------------------------------------

/// A full disk takes part of a batch, and its writer cuts back what it wrote. Whole lines of it may have been read meanwhile by one who compacts
/// without the lock; the line that then takes their place, of the same length, is no less a claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_in_the_place_of_one_that_was_cut_back_survives_compaction() {
    // An idle writer's witness may get between the two writers: then it is played once more.
    for _ in 0..50 {
        let folder = Folder::new();
        let path = folder.path();
        another(&path, done(1));
        let played = Arc::new(AtomicBool::new(false));
        let (there, told, mut step, mut from, mut to) = (path.clone(), Arc::clone(&played), 0, 0, 0);
        let disk = Told::by(move |call, name| match (call, name, step) {
            // The plan is made. Another writes a record that is about to be cut back.
            ("create", "log.compact", 0) => {
                (step, from) = (1, log_len(&there));
                another(&there, claim(2));
                to = log_len(&there);
            }
            // It was copied.
            ("sync", "log.compact", 1) if log_len(&there) == to => {
                step = 2;
                cut_log(&there, from);
                another(&there, claim(3));
                assert_eq!(log_len(&there), to, "of the same length");
                told.store(true, Ordering::SeqCst);
            }
            _ => {}
        });
        let journal = journal_on(&path, disk).await;
        drop(journal.compact().await);
        drop(journal);
        if played.load(Ordering::SeqCst) {
            assert_eq!(claimant(&path, 3), Some(key(3)), "a durable claim was forgotten");
            assert_eq!(claimant(&path, 2), None, "what was cut back was never written");
            assert_eq!(claimant(&path, 1), Some(key(1)));
            return;
        }
    }
    panic!("a witness came between them fifty times");
}

/// The same, read ahead without the lock by one who opens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_in_the_place_of_one_that_was_cut_back_is_seen_by_who_opens() {
    let folder = Folder::new();
    let path = folder.path();
    another(&path, done(1));
    let before = log_len(&path);
    another(&path, claim(2));
    let after = log_len(&path);
    let (there, mut step) = (path.clone(), 0);
    let disk = Told::by(move |call, name| match (call, name, step) {
        ("uncache", "log.jsonl", 0) => step = 1,
        // All was read ahead; the lock is about to be taken.
        ("lock", "lock", 1) => {
            step = 2;
            cut_log(&there, before);
            another(&there, claim(3));
            assert_eq!(log_len(&there), after, "of the same length");
        }
        _ => {}
    });
    let journal = journal_on(&path, disk).await;
    let agent = OrderClient::new(journal, brisk("http://127.0.0.1:9").build().unwrap(), Actor::agent("test-agent"));
    let seen: Vec<IdempotencyKey> = agent.resume_pending().await.unwrap().left_alone.iter().map(|one| one.key).collect();
    assert_eq!(
        seen,
        [key(3)],
        "a durable claim was forgotten, or one that was never written was seen"
    );
}

/// ... and nothing is poisoned where nothing took its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_cut_back_while_it_was_read_ahead_poisons_nobody() {
    let folder = Folder::new();
    let path = folder.path();
    another(&path, done(1));
    let before = log_len(&path);
    another(&path, claim(2));
    let (there, mut step) = (path.clone(), 0);
    let disk = Told::by(move |call, name| match (call, name, step) {
        ("uncache", "log.jsonl", 0) => step = 1,
        ("lock", "lock", 1) => {
            step = 2;
            cut_log(&there, before);
        }
        _ => {}
    });
    let journal = journal_on(&path, disk).await;
    journal.compact().await.unwrap();
}

// ---- compactions of several --------------------------------------------------------------------------------------------

/// One who has compacted clears away old runs. Whoever compacts next must not lose the run that it has just written: without it no process ever
/// opens the journal again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clearing_away_old_runs_takes_nobody_elses_new_one() {
    let folder = Folder::new();
    let path = folder.path();
    another(&path, done(1));
    let (there, mut step) = (path.clone(), 0);
    let disk = Told::by(move |call, name| match (call, name, step) {
        ("rename", "log.jsonl", 0) => step = 1,
        ("list", "origins", 1) => {
            step = 2;
            // This process stands still here; another goes on, for as long as it can without waiting for this one.
            let (there, (tell, told)) = (there.clone(), std::sync::mpsc::channel());
            std::thread::spawn(move || {
                let mut core = Core::open(&there).unwrap();
                core.turn(done(2)).unwrap();
                drop(core.compact(Duration::ZERO));
                tell.send(()).ok();
            });
            told.recv_timeout(Duration::from_secs(2)).ok();
        }
        _ => {}
    });
    let journal = journal_on(&path, disk).await;
    journal.compact().await.unwrap();
    journal.close().await.unwrap();
    std::thread::sleep(Duration::from_millis(300));
    for n in [1, 2] {
        assert_eq!(claimant(&path, n), Some(key(n)));
    }
}

/// The file that is held while one compacts was cleaned away, and another began to compact: its half-made log is not put in place by the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_made_log_of_somebody_else_is_never_put_in_place() {
    let folder = Folder::new();
    let path = folder.path();
    another(&path, done(1));
    another(&path, claim(2));
    let (there, mut step, mut held) = (path.clone(), 0, None);
    let disk = Told::by(move |call, name| {
        if (call, name, step) == ("sync", "log.compact", 0) {
            step = 1;
            fs::remove_file(there.join("compacting")).unwrap();
            let other = RealDisk.open(&there.join("compacting"), How::Lock).and_then(|mut file| {
                assert!(file.try_lock()?);
                Ok(file)
            });
            held = Some(other.unwrap());
            let copy = fs::read(there.join("log.compact")).unwrap();
            let first = copy.iter().position(|b| *b == b'\n').unwrap() + 1;
            fs::remove_file(there.join("log.compact")).unwrap();
            fs::write(there.join("log.compact"), &copy[..first]).unwrap();
        }
        let _ = &held;
    });
    let journal = journal_on(&path, disk).await;
    journal.compact().await.unwrap_err();
    assert!(journal.close().await.is_ok(), "it is as it was, and goes on");
    assert_eq!(claimant(&path, 2), Some(key(2)), "a durable claim was forgotten");
    assert_eq!(claimant(&path, 1), Some(key(1)));
}

/// Short lives: each opens the journal, writes one order, and is gone. The log is compacted by itself all the same, more than once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_many_short_lives_is_compacted_again_and_again() {
    let folder = Folder::new();
    let path = folder.path();
    let mut longest = 0;
    for n in 0..60 {
        another(&path, done(n));
        longest = longest.max(log_len(&path));
        let builder = Journal::builder().compact_at(8 << 10).keep(Duration::ZERO);
        let journal = builder.open(&path).await.unwrap();
        let agent = OrderClient::new(journal, brisk("http://127.0.0.1:9").build().unwrap(), Actor::agent("test-agent"));
        agent.resume_pending().await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(longest < 4 * (8 << 10), "{longest} bytes");
}

// ---- clocks ------------------------------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
struct Hand(Arc<AtomicI64>);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

fn receipt(outcome: Result<Outcome<OrderReceipt>, Error>) -> Receipt<OrderReceipt> {
    outcome.unwrap().receipt().unwrap()
}

/// R17: an origin means its newest generation. A refused order that was written while the clock stood far ahead looks young for long, and its
/// correction, written by the right time, moves out before it: it is the correction that a further mail finds, not the no.
#[tokio::test]
async fn a_no_that_a_clock_keeps_young_does_not_hide_its_correction() {
    let clock = Hand(Arc::new(AtomicI64::new(1_800_000_000_000)));
    let (desk, folder) = (Desk::builder().dates(clock.clone()).start().await.unwrap(), Folder::new());
    let builder = Journal::builder()
        .clock(clock.clone())
        .compact_at(u64::MAX)
        .keep(Duration::from_secs(3600));
    let journal = builder.open(folder.path()).await.unwrap();
    let api = brisk(&desk.url()).name("shop").build().unwrap();
    let agent = OrderClient::builder(journal.clone(), api, Actor::agent("test-agent"));
    let agent = agent.repeat_window(Duration::ZERO).build();
    let with = |quantity| PlaceOrder::new("C-100").item("SKU-1", quantity);
    let mail = || Origin::mail("<1@example.com>");
    desk.script(Script::new().reply(Reply::status(422)).then_ok());

    clock.0.fetch_add(30 * 24 * 3_600_000, Ordering::SeqCst);
    let refused = agent.submit(mail(), &with(1)).await.unwrap();
    assert!(matches!(refused, Outcome::Rejected(_)), "{refused:?}");
    clock.0.fetch_sub(30 * 24 * 3_600_000, Ordering::SeqCst);
    let corrected = receipt(agent.submit(mail(), &with(2)).await);
    clock.0.fetch_add(24 * 3_600_000, Ordering::SeqCst);
    journal.compact().await.unwrap();

    let again = receipt(agent.submit(mail(), &with(2)).await);
    assert_eq!(again.key, corrected.key, "a second order");
    assert_eq!(desk.requests().len(), 2);
}

// ---- damage ------------------------------------------------------------------------------------------------------------

/// Damage to an entry of a run is told, whatever it hits: an origin that can't be found any more would be a new one.
#[tokio::test]
async fn damage_to_a_run_is_told_and_never_read_as_an_origin_that_is_new() {
    let folder = Folder::new();
    let path = folder.path();
    let mut core = Core::open(&path).unwrap();
    for n in 0..40 {
        core.turn(done(n)).unwrap();
    }
    core.compact(Duration::ZERO).unwrap();
    drop(core);
    let run = fs::read_dir(path.join("origins")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&run).unwrap();
    let mut forgotten = Vec::new();
    for entry in 0..40 {
        let mut harmed = whole.clone();
        let at = 4096 + entry * 128;
        harmed[at..at + 128].fill(0);
        fs::write(&run, &harmed).unwrap();
        for n in 0..40 {
            match found(&mut Core::open(&path).unwrap(), n) {
                Ok(claim) if claim == Some(key(n)) => {}
                Ok(_) => forgotten.push((entry, n)),
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}"),
            }
        }
    }
    assert!(forgotten.is_empty(), "{} times an origin was forgotten", forgotten.len());
}

/// A journal that was copied after a kill between an archive's name and the change-over has a stale copy there, which is no other name of the
/// log any more: it is not taken for the archive that came of it.
#[tokio::test]
async fn a_stale_copy_in_the_archive_is_not_read_for_the_whole_one() {
    let folder = Folder::new();
    let path = folder.path();
    another(&path, done(1));
    fs::create_dir_all(path.join("archive")).unwrap();
    for last in 3..20 {
        let stale = format!("archive/000000000001-{last:012}.jsonl");
        fs::copy(path.join("log.jsonl"), path.join(stale)).unwrap();
    }
    let mut core = Core::open(&path).unwrap();
    for n in 2..40 {
        core.turn(done(n)).unwrap();
    }
    core.compact(Duration::ZERO).unwrap();
    drop(core);
    let store = core::store(&path).await.unwrap();
    for n in 1..40 {
        assert_eq!(store.story(key(n)).await.unwrap().len(), 2, "{n}");
    }
}

// ---- durable in time ---------------------------------------------------------------------------------------------------

/// What is written without being waited for is durable within a moment, also while somebody waits for news and looks again and again.
#[tokio::test]
async fn who_waits_for_news_keeps_nothing_from_the_disk() {
    let folder = Folder::new();
    let store = core::store(&folder.path()).await.unwrap();
    store.turn(done(1)).await.unwrap();
    let looking = store.changed(Mark(u64::MAX), Duration::from_secs(1));
    looking.await.unwrap();
    let witnesses = folder.events("witness").len();
    assert!(witnesses > 0, "a whole second, and not synced");
}

// ---- holes -------------------------------------------------------------------------------------------------------------

/// One line break, damaged in the middle of the log: the claim before it was whole when the one behind it was written, and is not forgotten.
#[tokio::test]
async fn a_claim_whose_line_break_alone_is_damaged_does_not_free_its_origin() {
    for bit in 0..8 {
        let folder = Folder::new();
        let path = folder.path();
        let mut core = Core::open(&path).unwrap();
        let mark = core.turn(appending(vec![
            record(1, "claimed", Standing::Open),
            record(2, "claimed", Standing::Open),
        ]));
        core.durable(mark.unwrap()).unwrap();
        drop(core);
        let mut bytes = fs::read(path.join("log.jsonl")).unwrap();
        let last = bytes[..bytes.len() - 1].iter().rposition(|b| *b == b'\n').unwrap();
        bytes[last] ^= 1 << bit;
        fs::write(path.join("log.jsonl"), &bytes).unwrap();
        for _ in 0..2 {
            let Ok(mut core) = Core::open(&path) else { continue };
            for n in [1, 2] {
                let free = found(&mut core, n).is_ok_and(|claim| claim != Some(key(n)));
                assert!(!free, "bit {bit}: the origin of claim {n} is free");
            }
        }
    }
}

/// A hole may be larger than any record: a power cut takes several large ones that were written at once, and leaves what stands behind them. What
/// closes it is read again by every later opening.
#[tokio::test]
async fn a_hole_larger_than_any_record_is_mended_for_good() {
    let folder = Folder::new();
    let path = folder.path();
    let large = |n| {
        let mut record = record(n, "claimed", Standing::Open);
        record.data = Bytes::from(format!("\"{}\"", "x".repeat(9 << 20)));
        record
    };
    let mut core = Core::open(&path).unwrap();
    let before = log_len(&path);
    core.turn(appending(vec![large(1), large(2), record(3, "claimed", Standing::Open)]))
        .unwrap();
    drop(core);
    let mut bytes = fs::read(path.join("log.jsonl")).unwrap();
    let last = bytes[..bytes.len() - 1].iter().rposition(|b| *b == b'\n').unwrap();
    bytes[before as usize + 500..last].fill(0);
    fs::write(path.join("log.jsonl"), &bytes).unwrap();
    for n in 4..7 {
        another(&path, done(n));
        assert_eq!(claimant(&path, 3), Some(key(3)));
    }
    let mut core = Core::open(&path).unwrap();
    core.compact(Duration::ZERO).unwrap();
    drop(core);
    let mut core = Core::open(&path).unwrap();
    assert_eq!(found(&mut core, 1).unwrap_err().kind(), StoreErrorKind::Corrupt, "it stays closed");
}

// ---- compaction, cut short or refused ----------------------------------------------------------------------------------

/// Two runs, an order that is open, one that is fresh, and a word about one that moved out.
fn lived_in(folder: &Path) {
    for n in 1..4 {
        another(folder, done(n));
    }
    let mut core = Core::open(folder).unwrap();
    core.compact(Duration::ZERO).unwrap();
    core.turn(claim(4)).unwrap();
    core.turn(done(5)).unwrap();
    let mark = core.turn(appending(vec![record(1, "joined", Standing::Done)])).unwrap();
    core.durable(mark).unwrap();
}

fn all_there(folder: &Path, when: &str) {
    let mut core = Core::open(folder).unwrap_or_else(|error| panic!("{when}: {error}"));
    for n in 1..6 {
        assert_eq!(found(&mut core, n).unwrap(), Some(key(n)), "{when}: origin {n}");
        let (tell, told) = std::sync::mpsc::channel();
        let asking: Decide = Box::new(move |turn| {
            Box::pin(async move {
                tell.send(turn.story(key(n)).await?.len()).ok();
                Ok(())
            })
        });
        core.turn(asking).unwrap();
        assert_eq!(told.recv().unwrap(), [0, 3, 2, 2, 1, 2][n as usize], "{when}: the story of {n}");
    }
}

/// A kill before any call of a compaction leaves a folder in which all is found, and which is compacted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_anywhere_in_a_compaction_loses_nothing() {
    let (folder, copies) = (Folder::new(), tempfile::tempdir().unwrap());
    let path = folder.path();
    lived_in(&path);
    let (from, to, kills) = (path.clone(), copies.path().to_owned(), Arc::new(Mutex::new(Vec::new())));
    let (seen, mut last) = (Arc::clone(&kills), String::new());
    let disk = Told::by(move |call, name| {
        // Reading changes nothing: one picture is enough.
        let here = format!("before {call} {name}");
        let reads = ["read_at", "read_some", "size", "identity", "list", "open", "try_lock"].contains(&call);
        if !reads || here != last {
            let copy = to.join(seen.lock().unwrap().len().to_string());
            let copied = std::process::Command::new("cp").arg("-a").arg(&from).arg(&copy).status();
            assert!(copied.unwrap().success());
            seen.lock().unwrap().push((copy, here.clone()));
            last = here;
        }
    });
    journal_on(&path, disk).await.compact().await.unwrap();
    let kills = std::mem::take(&mut *kills.lock().unwrap());
    assert!(kills.iter().any(|(_, when)| when == "before rename log.jsonl"));
    for (copy, when) in kills {
        all_there(&copy, &when);
        Core::open(&copy).unwrap().compact(Duration::ZERO).unwrap();
        all_there(&copy, &format!("{when}, compacted"));
    }
}

/// A child process that is being started holds every open file until it is another program: closing gives no lock up then, a word does.
#[tokio::test]
async fn a_compaction_gives_its_lock_up_by_word() {
    let folder = Folder::new();
    lived_in(&folder.path());
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let disk = Told::by(move |call, name| seen.lock().unwrap().push(format!("{call} {name}")));
    let journal = journal_on(&folder.path(), disk).await;
    journal.compact().await.unwrap();
    let calls = calls.lock().unwrap().clone();
    let times = |call: &str| calls.iter().filter(|one| *one == call).count();
    assert_eq!((times("try_lock compacting"), times("unlock compacting")), (1, 1), "{calls:#?}");
}

/// Whichever call of a compaction fails, once: nothing is lost, and it is compacted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_call_of_a_compaction_fails_nothing_is_lost() {
    let mut failed = 0;
    for n in 0.. {
        let folder = Folder::new();
        let path = folder.path();
        lived_in(&path);
        let what = Arc::new(Mutex::new(String::new()));
        let told = Arc::clone(&what);
        let until = Arc::new(AtomicI64::new(-1));
        let armed = Arc::clone(&until);
        let mut disk = Told::by(move |call, name| {
            if armed.load(Ordering::SeqCst) == 0 {
                *told.lock().unwrap() = format!("{call} {name}");
            }
        });
        disk.until = Arc::clone(&until);
        let journal = journal_on(&path, disk).await;
        until.store(n, Ordering::SeqCst);
        let compacted = journal.compact().await;
        let spared = until.swap(-1, Ordering::SeqCst) >= 0;
        failed += u32::from(compacted.is_err());
        let when = format!("call {n}, {}", what.lock().unwrap());
        // Not poisoned: then it goes on.
        let agent = OrderClient::new(
            journal.clone(),
            brisk("http://127.0.0.1:9").build().unwrap(),
            Actor::agent("test-agent"),
        );
        if let Ok(resumption) = agent.resume_pending().await {
            assert_eq!(resumption.left_alone.len(), 1, "{when}");
            let mut again = journal.compact().await;
            // Closed without a word: a process that is just being started by another test may hold the open file a moment longer.
            while what.lock().unwrap().as_str() == "unlock compacting" && again.as_ref().is_err_and(|e| e.kind() == StoreErrorKind::Busy) {
                tokio::task::yield_now().await;
                again = journal.compact().await;
            }
            assert!(again.is_ok(), "{when}, and then {again:?}");
        }
        drop((agent, journal));
        all_there(&path, &when);
        another(&path, done(9));
        Core::open(&path).unwrap().compact(Duration::ZERO).unwrap();
        all_there(&path, &when);
        if spared {
            assert!(failed > 20, "{failed}");
            return;
        }
    }
}

/// Words about an order that come after it moved out are moved after it; how it ended is told all the same, when an archive is gone.
#[tokio::test]
async fn how_an_order_ended_is_told_whatever_was_said_about_it_since() {
    let folder = Folder::new();
    let path = folder.path();
    let mut settled = record(1, "settled", Standing::Done);
    settled.data = Bytes::from_static(b"{\"succeeded\":{}}");
    another(&path, appending(vec![record(1, "claimed", Standing::Open), settled]));
    let mut core = Core::open(&path).unwrap();
    core.compact(Duration::ZERO).unwrap();
    core.turn(appending(vec![record(1, "joined", Standing::Done)])).unwrap();
    let archive = core.compact(Duration::ZERO).unwrap().archive.unwrap();
    drop(core);
    fs::remove_file(archive).unwrap();
    let store = core::store(&path).await.unwrap();
    let told = store.story(key(1)).await.unwrap_err().to_string();
    assert!(told.contains("it succeeded"), "{told}");
}

/// An order whose records stand far apart is read where they stand, in the archive too: what lies between is not read over.
#[tokio::test]
async fn what_lies_between_two_records_in_the_archive_is_not_read() {
    let folder = Folder::new();
    let path = folder.path();
    another(&path, done(1));
    let mut large = record(2, "claimed", Standing::Open);
    large.data = Bytes::from(format!("\"{}\"", "x".repeat(8 << 20)));
    another(&path, appending(vec![large, record(2, "settled", Standing::Done)]));
    another(&path, appending(vec![record(1, "joined", Standing::Done)]));
    let reads = Arc::new(AtomicI64::new(0));
    let counted = Arc::clone(&reads);
    let disk = Told::by(move |call, name| {
        if call == "read_some" && name.ends_with(".jsonl") {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let journal = journal_on(&path, disk).await;
    assert_eq!(journal.compact().await.unwrap().moved, 2);
    let agent = OrderClient::new(journal, brisk("http://127.0.0.1:9").build().unwrap(), Actor::agent("test-agent"));
    reads.store(0, Ordering::SeqCst);
    // What it says is no order of ours; that it was read is what counts.
    agent.known(key(1)).await.unwrap_err();
    let reads = reads.load(Ordering::SeqCst);
    assert!((1..8).contains(&reads), "{reads} reads");
    let store = core::store(&path).await.unwrap();
    assert_eq!(store.story(key(1)).await.unwrap().len(), 3);
}

/// A process that slept while much was written reads it before it takes the lock.
#[tokio::test]
async fn what_was_written_while_a_process_slept_is_read_without_the_lock() {
    let folder = Folder::new();
    let path = folder.path();
    let late = Arc::new(AtomicI64::new(0));
    let counted = Arc::clone(&late);
    let disk = Told::by(move |call, name| {
        if (call, name) == ("read_from", "log.jsonl") {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let journal = journal_on(&path, disk).await;
    late.store(0, Ordering::SeqCst);
    let mut large = record(2, "claimed", Standing::Open);
    large.data = Bytes::from(format!("\"{}\"", "x".repeat(4 << 20)));
    another(&path, appending(vec![large]));
    let agent = OrderClient::new(journal, brisk("http://127.0.0.1:9").build().unwrap(), Actor::agent("test-agent"));
    assert_eq!(agent.resume_pending().await.unwrap().left_alone.len(), 1);
    assert_eq!(late.load(Ordering::SeqCst), 0);
}

/// A copy of torn bytes from a log before the last compaction says nothing about the same place in the present one.
#[tokio::test]
async fn a_torn_copy_of_an_earlier_log_closes_nothing_in_this_one() {
    let folder = Folder::new();
    let path = folder.path();
    another(&path, done(5));
    let before = fs::read(path.join("log.jsonl")).unwrap();
    Core::open(&path).unwrap().compact(Duration::ZERO).unwrap();
    let at = log_len(&path);
    fs::write(path.join(format!("archive/torn-{at}")), [b"\0", &before[..]].concat()).unwrap();
    let mut log = fs::OpenOptions::new().append(true).open(path.join("log.jsonl")).unwrap();
    io::Write::write_all(&mut log, b"\0\0\0\0").unwrap();
    assert_eq!(claimant(&path, 5), Some(key(5)));
    let copies = fs::read_dir(path.join("archive")).unwrap();
    let torn = copies.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("torn-"));
    assert_eq!(torn.count(), 2, "what was cut was copied all the same");
}

/// A story in the archive is told whole, or it is told that it is damaged: a `settled` that can't be found any more would make an order open again.
#[tokio::test]
async fn damage_to_an_archive_never_shortens_a_story() {
    let folder = Folder::new();
    let path = folder.path();
    another(&path, claim(1));
    another(&path, claim(2));
    another(&path, appending(vec![record(1, "settled", Standing::Done)]));
    another(&path, appending(vec![record(2, "settled", Standing::Done)]));
    let archive = Core::open(&path).unwrap().compact(Duration::ZERO).unwrap().archive.unwrap();
    let store = core::store(&path).await.unwrap();
    let whole = fs::read(&archive).unwrap();
    for at in 0..whole.len() {
        let mut harmed = whole.clone();
        harmed[at] ^= 1;
        fs::write(&archive, &harmed).unwrap();
        for n in [1, 2] {
            match store.story(key(n)).await {
                Ok(story) => assert_eq!(story.len(), 2, "byte {at}: a shorter story of order {n}"),
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}"),
            }
        }
    }
}
