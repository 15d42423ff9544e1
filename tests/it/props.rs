//! What tests of the journal hold in their hands: a disk that fails on command, a clock set by hand, a log that is read and remade by
//! code of its own, and children that play a role.

use crate::kit::{Folder, brisk, order};
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs,
    io::{self, BufRead as _},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
};
use uketsuke::{
    Actor, ApiBuilder, Because, Clock, Encoding, Error, Journal, JournalError, OrderClient, Origin, Outcome, PlaceOrder, Proposal, Route,
    Ruling, Timestamp,
    journal::{
        disk::{Disk, DiskFile, How, Identity, RealDisk},
        store::StoreErrorKind,
    },
    testkit::Desk,
};

// ---- limits and policies -------------------------------------------------------------------------------------------

/// `kit::brisk` with a single attempt a flight and time to wait for it.
pub(crate) fn single(url: &str) -> ApiBuilder {
    let mut pacing = uketsuke::Pacing::default();
    pacing.attempts = 1;
    let mut timeouts = uketsuke::Timeouts::default();
    timeouts.connect = Duration::from_millis(250);
    timeouts.attempt = Duration::from_secs(10);
    timeouts.total = Duration::from_secs(20);
    brisk(url).pacing(pacing).timeouts(timeouts)
}

/// Nobody listens on port 9 (discard) of this machine: no byte ever leaves.
pub(crate) const NOBODY: &str = "http://127.0.0.1:9";

pub(crate) fn actor() -> Actor {
    Actor::agent("test-agent")
}

pub(crate) fn mail(n: usize) -> Origin {
    Origin::mail(format!("<{n}@example.com>"))
}

pub(crate) fn because() -> Because {
    Because::rule("test-1", "test", "the test says so")
}

pub(crate) fn denies(_: &Proposal<'_>) -> Ruling {
    Ruling::Deny(because())
}

pub(crate) fn asks(_: &Proposal<'_>) -> Ruling {
    Ruling::Ask(because())
}

/// What the journal said, below an error of ours.
pub(crate) fn journal_kind(error: &Error) -> Option<StoreErrorKind> {
    let source = std::error::Error::source(error)?;
    Some(source.downcast_ref::<JournalError>()?.kind())
}

#[track_caller]
pub(crate) fn receipt<R: fmt::Debug>(told: Result<Outcome<R>, Error>) -> uketsuke::Receipt<R> {
    match told {
        Ok(Outcome::Succeeded(receipt)) => receipt,
        other => panic!("no receipt: {other:?}"),
    }
}

// ---- a clock set by hand -------------------------------------------------------------------------------------------

/// Wall time that moves when a test says so; clones are one clock. It knows no boot, so nothing but its wall time counts.
#[derive(Clone, Debug)]
pub(crate) struct Hands(Arc<AtomicI64>);

pub(crate) const MINUTE: i64 = 60_000;
pub(crate) const HOUR: i64 = 60 * MINUTE;

impl Hands {
    /// The first of December 2026, nine in the morning.
    pub(crate) fn new() -> Self {
        Hands(Arc::new(AtomicI64::new(1_796_115_600_000)))
    }

    pub(crate) fn turn(&self, by_ms: i64) {
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// A desk on the same clock.
    pub(crate) async fn desk(&self) -> Desk {
        Desk::builder().dates(self.clone()).start().await.unwrap()
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

// ---- a disk that fails on command ----------------------------------------------------------------------------------

/// One call a journal makes to its disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The method's name; `file.` before those of an open file.
    pub(crate) what: &'static str,
    /// Its place among all calls, from 1.
    pub(crate) nth: usize,
    /// What is to be written.
    pub(crate) bytes: &'a [u8],
}

/// What happens instead of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// An error of the operating system, by its number.
    Os(i32),
    /// Only so many bytes are written, and the call says so.
    Short(usize),
    /// A sync that syncs nothing.
    Skipped,
}

pub(crate) const EIO: Fault = Fault::Os(5);
pub(crate) const ENOSPC: Fault = Fault::Os(28);

type Decide = dyn Fn(Call<'_>) -> Option<Fault> + Send + Sync;

/// The real disk, behind a test that is asked before each call.
#[derive(Clone)]
pub(crate) struct Moody {
    decide: Arc<Decide>,
    calls: Arc<AtomicUsize>,
}

impl Moody {
    pub(crate) fn new(decide: impl Fn(Call<'_>) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Moody {
            decide: Arc::new(decide),
            calls: Arc::new(AtomicUsize::new(0)),
        }
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn ask(&self, what: &'static str, bytes: &[u8]) -> io::Result<Option<usize>> {
        let nth = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        match (self.decide)(Call { what, nth, bytes }) {
            None => Ok(None),
            Some(Fault::Os(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(Fault::Short(len)) => Ok(Some(len)),
            Some(Fault::Skipped) => Ok(Some(0)),
        }
    }
}

impl fmt::Debug for Moody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moody({} calls)", self.calls())
    }
}

impl Disk for Moody {
    fn make_dir(&self, folder: &Path) -> io::Result<()> {
        self.ask("make_dir", b"")?;
        RealDisk.make_dir(folder)
    }

    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>> {
        self.ask("open", b"")?;
        Ok(Box::new(MoodyFile {
            disk: self.clone(),
            file: RealDisk.open(path, how)?,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask("rename", b"")?;
        RealDisk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask("link", b"")?;
        RealDisk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask("remove", b"")?;
        RealDisk.remove(path)
    }

    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        match self.ask("sync_dir", b"")? {
            None => RealDisk.sync_dir(folder),
            Some(_) => Ok(()),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.ask("list", b"")?;
        RealDisk.list(folder)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.ask("identity", b"")?;
        RealDisk.identity(path)
    }
}

#[derive(Debug)]
struct MoodyFile {
    disk: Moody,
    file: Box<dyn DiskFile>,
}

impl MoodyFile {
    fn ask(&self, what: &'static str) -> io::Result<()> {
        self.disk.ask(what, b"").map(drop)
    }
}

impl DiskFile for MoodyFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.disk.ask("file.append", bytes)?.unwrap_or(bytes.len());
        self.file.append(&bytes[..len.min(bytes.len())])
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.ask("file.write_at", bytes)?;
        self.file.write_at(at, bytes)
    }

    fn read_from(&mut self, at: u64) -> io::Result<Vec<u8>> {
        self.ask("file.read_from")?;
        self.file.read_from(at)
    }

    fn read_at(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        self.ask("file.read_at")?;
        self.file.read_at(at, len)
    }

    fn read_some(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.ask("file.read_some")?;
        self.file.read_some(at, into)
    }

    fn size(&self) -> io::Result<u64> {
        self.ask("file.size")?;
        self.file.size()
    }

    fn truncate(&mut self, to: u64) -> io::Result<()> {
        self.ask("file.truncate")?;
        self.file.truncate(to)
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.disk.ask("file.sync", b"")? {
            None => self.file.sync(),
            Some(_) => Ok(()),
        }
    }

    fn identity(&self) -> io::Result<Identity> {
        self.ask("file.identity")?;
        self.file.identity()
    }

    fn lock(&mut self) -> io::Result<()> {
        self.ask("file.lock")?;
        self.file.lock()
    }

    fn try_lock(&mut self) -> io::Result<bool> {
        self.ask("file.try_lock")?;
        self.file.try_lock()
    }

    fn unlock(&mut self) -> io::Result<()> {
        self.file.unlock()
    }
}

/// A disk that syncs nothing: for tables of thousands of openings, where no power is cut.
pub(crate) fn unsynced() -> Moody {
    Moody::new(|call| matches!(call.what, "file.sync" | "sync_dir").then_some(Fault::Skipped))
}

/// A disk whose first sync after a record named like that fails, once; then all is well again, which is what makes it dangerous.
pub(crate) fn sync_fails_once_after(event: &'static str) -> Moody {
    let armed = Mutex::new((false, false));
    Moody::new(move |call| {
        let (seen, done) = &mut *armed.lock().unwrap();
        *seen |= call.what == "file.append" && has(call.bytes, format!("\"ev\":\"{event}\"").as_bytes());
        if call.what == "file.sync" && *seen && !*done {
            *done = true;
            return Some(EIO);
        }
        None
    })
}

pub(crate) fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

// ---- the log, read by code of our own ------------------------------------------------------------------------------

/// One record's line as the format says: a front, and the three last members.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Everything before `,"synced":`.
    pub(crate) front: Vec<u8>,
    pub(crate) synced: u64,
}

impl Line {
    pub(crate) fn says(&self, event: &str) -> bool {
        has(&self.front, format!("\"ev\":\"{event}\"").as_bytes())
    }

    fn encode(&self, prev: u32) -> (Vec<u8>, u32) {
        let mut line = self.front.clone();
        line.extend_from_slice(format!(",\"synced\":\"{:012}\",\"prev\":\"{prev:08x}\",\"crc\":\"", self.synced).as_bytes());
        let crc = crc32fast::hash(&line);
        line.extend_from_slice(format!("{crc:08x}\"}}\n").as_bytes());
        (line, crc)
    }
}

/// Reads a sound log, and asserts that it is sound: every line is JSON, its checksum holds, and it names its predecessor's.
#[track_caller]
pub(crate) fn read_log(path: &Path) -> Vec<Line> {
    let bytes = log_bytes(path);
    assert!(bytes.ends_with(b"\n"), "the log does not end with a line break");
    let (mut lines, mut prev, mut seq) = (Vec::new(), 0, 0);
    for (at, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let number = at + 1;
        let value: serde_json::Value = serde_json::from_slice(line).unwrap_or_else(|e| panic!("line {number}: {e}"));
        let text = |name: &str| {
            value[name]
                .as_str()
                .unwrap_or_else(|| panic!("line {number} has no {name}"))
                .to_owned()
        };
        let hex = |name: &str| u32::from_str_radix(&text(name), 16).unwrap();
        assert_eq!(
            crc32fast::hash(&line[..line.len() - 11]),
            hex("crc"),
            "the checksum of line {number}"
        );
        assert_eq!(hex("prev"), prev, "the predecessor of line {number}");
        prev = hex("crc");
        // A mended hole stands for lost records, and says what the last of them was called.
        if value["ev"] == "hole" {
            match value["data"]["after"].as_str() {
                Some(after) => prev = u32::from_str_radix(after, 16).unwrap(),
                None => prev = next_prev(&bytes, number).unwrap_or(prev),
            }
        }
        let this: u64 = text("seq").parse().unwrap();
        assert!(this > seq, "the number of line {number}");
        seq = this;
        let end = line.len() - 61;
        lines.push(Line {
            front: line[..end].to_vec(),
            synced: text("synced").parse().unwrap(),
        });
    }
    lines
}

/// The log's bytes while nobody writes: an idle journal still adds a word that all before it is durable.
pub(crate) fn log_bytes(path: &Path) -> Vec<u8> {
    let lock = fs::File::open(path.with_file_name("lock"));
    if let Ok(lock) = &lock {
        lock.lock_shared().unwrap();
    }
    fs::read(path).unwrap()
}

/// The log once its journal is idle, without the words it added while idle: what a power cut a moment earlier would have left.
pub(crate) async fn idle_log(folder: &Folder) -> Vec<Line> {
    loop {
        let mut lines = read_log(&folder.log());
        if lines.last().unwrap().says("witness") {
            // On a slow machine one may stand in the middle too.
            lines.retain(|line| !line.says("witness"));
            return lines;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn next_prev(bytes: &[u8], line: usize) -> Option<u32> {
    let next = bytes.split(|b| *b == b'\n').nth(line).filter(|next| !next.is_empty())?;
    let value: serde_json::Value = serde_json::from_slice(next).ok()?;
    u32::from_str_radix(value["prev"].as_str()?, 16).ok()
}

/// The bytes of a log of these records, and where each begins.
pub(crate) fn write_log(lines: &[Line]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut starts, mut prev) = (Vec::new(), Vec::new(), 0);
    for line in lines {
        starts.push(bytes.len());
        let (text, crc) = line.encode(prev);
        bytes.extend_from_slice(&text);
        prev = crc;
    }
    (bytes, starts)
}

/// A folder that holds nothing but this log.
pub(crate) fn folder_with(log: &[u8]) -> Folder {
    let folder = Folder::new();
    fs::create_dir(folder.path()).unwrap();
    fs::write(folder.log(), log).unwrap();
    folder
}

/// A log's records of orders, by name.
pub(crate) fn order_events(folder: &Folder) -> Vec<String> {
    let names = folder.lines().into_iter().map(|line| line["ev"].as_str().unwrap().to_owned());
    names
        .filter(|name| !matches!(name.as_str(), "journal" | "witness" | "hole"))
        .collect()
}

// ---- children that play a role -------------------------------------------------------------------------------------

/// A child of this very binary: how it is started, and what it is told by its environment.
pub(crate) struct Role {
    command: Command,
}

impl Role {
    pub(crate) fn new(role: &str, url: &str, folder: &Path) -> Self {
        Role::under(None, role, url, folder)
    }

    /// Behind a shell that sets limits first: `umask 000`.
    pub(crate) fn behind(limits: &str, role: &str, url: &str, folder: &Path) -> Self {
        Role::under(Some(limits), role, url, folder)
    }

    fn under(limits: Option<&str>, role: &str, url: &str, folder: &Path) -> Self {
        let own = std::env::current_exe().unwrap();
        let mut command = match limits {
            None => Command::new(own),
            Some(limits) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("{limits}; exec \"$0\" \"$@\"")).arg(own);
                shell
            }
        };
        command
            .args(["--exact", "props::play", "--nocapture", "--test-threads", "1"])
            .env("UKETSUKE_ROLE", role)
            .env("UKETSUKE_URL", url)
            .env("UKETSUKE_FOLDER", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        Role { command }
    }

    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.command.env(format!("UKETSUKE_{name}"), value.to_string());
        self
    }

    pub(crate) fn start(mut self) -> Child {
        self.command.spawn().unwrap()
    }

    /// Plays to its end; gives what it told, and whether it ended well.
    pub(crate) async fn play(self) -> (Vec<String>, bool) {
        finish(self.start()).await
    }
}

/// Lets a child that waits behind its `ready` go on, and plays it to its end.
pub(crate) async fn finish(mut child: Child) -> (Vec<String>, bool) {
    if let Some(mut stdin) = child.stdin.take() {
        // A child that does not wait may be gone already.
        drop(stdin.write_all(b"go\n").await);
    }
    let output = child.wait_with_output().await.unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let told = told
        .lines()
        .filter_map(|line| line.split_once("told: "))
        .map(|(_, what)| what.to_owned());
    (told.collect(), output.status.success())
}

fn told<R>(result: &Result<Outcome<R>, Error>) -> String {
    match result {
        Ok(Outcome::Succeeded(receipt)) => format!("succeeded {}", receipt.key),
        Ok(other) => format!("outcome {} {:?}", other.key(), other.effect()),
        Err(error) => {
            let key = error.key().map_or("none".to_owned(), |key| key.to_string());
            format!("error {:?} {key} {:?}", error.kind(), error.effect())
        }
    }
}

fn env(name: &str) -> Option<String> {
    std::env::var(format!("UKETSUKE_{name}")).ok()
}

/// The other process. Started by hand, it has nothing to do.
#[tokio::test]
async fn play() {
    let Some(role) = env("ROLE") else { return };
    let url = env("URL").unwrap();
    let folder = PathBuf::from(env("FOLDER").unwrap());
    let dies_at: usize = env("DIES_AT").map_or(usize::MAX, |n| n.parse().unwrap());
    let disk = Moody::new(move |call| {
        if call.nth == dies_at {
            std::process::abort();
        }
        None
    });
    let journal = match Journal::builder().disk(disk).open(&folder).await {
        Ok(journal) => journal,
        Err(error) => return println!("told: unopened {error}"),
    };
    let client = |journal| {
        let client = OrderClient::builder(
            journal,
            brisk(&url).bearer("SEKRET-TOKEN").build().unwrap(),
            Actor::agent("child-agent"),
        );
        match env("RULING").as_deref() {
            Some("deny") => client.policy(denies).build(),
            Some("ask") => client.policy(asks).build(),
            _ => client.build(),
        }
    };
    let client = client(journal);
    if env("WAITS").is_some() {
        io::stdin().lock().read_line(&mut String::new()).unwrap();
    }
    match role.as_str() {
        "submit" => println!("told: {}", told(&client.submit(mail(1), &order()).await)),
        "big" => {
            let big = order().note("x".repeat(64 << 10));
            println!("told: {}", told(&client.submit(mail(1), &big).await));
            println!("told: {}", told(&client.submit(mail(2), &order()).await));
        }
        "many" => {
            let from: usize = env("FROM").unwrap().parse().unwrap();
            let orders = (from..from + 40).map(|n| {
                let client = client.clone();
                tokio::spawn(async move {
                    let order = PlaceOrder::new(format!("C-{n}")).item("SKU-1", 1);
                    told(&client.submit(mail(n), &order).await)
                })
            });
            for order in orders.collect::<Vec<_>>() {
                println!("told: {}", order.await.unwrap());
            }
        }
        "book" => {
            let form = env("FORM").is_some();
            println!(
                "told: {}",
                told(&client.submit(Origin::custom("ticket", "T-1"), &BookRoom::new(form)).await)
            );
        }
        other => panic!("no role {other}"),
    }
    client.drain(Duration::from_secs(5)).await;
}

/// A user's own operation, with all that can stand in a route: the process that resumes never makes one.
#[derive(Serialize)]
pub(crate) struct BookRoom {
    #[serde(skip)]
    hotel: &'static str,
    #[serde(skip)]
    form: bool,
    nights: u32,
    guest: &'static str,
    rate: f64,
}

impl BookRoom {
    fn new(form: bool) -> Self {
        BookRoom {
            hotel: "Grand Hôtel/2",
            form,
            nights: 2,
            guest: "Zoë & Co",
            rate: 99.5,
        }
    }
}

#[derive(Debug, Deserialize, PartialEq)]
pub(crate) struct Booking {
    pub(crate) reference: String,
}

impl uketsuke::Operation for BookRoom {
    type Receipt = Booking;
    const NAME: &'static str = "book_room";
    const RECEIPT_HAS: &'static [&'static str] = &["/reference"];

    fn route(&self) -> Route {
        let route = Route::post("hotels").segment(self.hotel).then("bookings");
        let route = route.query("dry run", "no & never").query("lang", "fr");
        route.if_match("\"v7\"").header("Prefer", "return=representation")
    }

    fn encoding(&self) -> Encoding {
        if self.form { Encoding::Form } else { Encoding::Json }
    }
}
