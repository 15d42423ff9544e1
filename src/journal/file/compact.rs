//! Compaction: what is settled and old moves out of the log (R5, R6), while everybody goes on writing.
//!
//! - `plan`, under the lock: what is not done stays.
//! - `copy`, without it, on a thread of its own: the living records into `log.compact`, the origins of the others into a run.
//! - `swap`, under the lock: what was written meanwhile is copied too; the old log gets a second name in `archive/`; the new one takes its place.
//!
//! A kill anywhere leaves the old log or the new one, each whole, and the runs that belong to it.

use super::{
    birth::Birth,
    book::Book,
    frame::{self, Frame, Line, What},
    index::{Index, Place},
    lines::Lines,
    origins::{Ended, OldClaim, OldStretch, Origins},
    recover::{Chain, Mended},
};
use crate::{
    clock::{Boot, Clock, Timestamp},
    disk::{Disk, DiskFile, How, Identity},
    ids::IdempotencyKey,
    journal::store::{Compaction, StoreError, StoreErrorKind},
    origin::Hash,
};
use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Written in pieces and synced after each: one large sync would hold up everybody else's.
const PIECE: usize = 4 << 20;
/// What was written meanwhile is copied without the lock as long as it is more than this.
const SHORT: u64 = 64 << 10;
/// ... and this often at most: writers may be faster.
const ROUNDS: usize = 16;
/// What lies between two records of one order is read over, unless it is more than this.
const FAR: u64 = 256 << 10;

/// What is to be copied, decided under the lock.
pub(super) struct Plan {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    /// One process compacts at a time.
    held: Option<Held>,
    old: Box<dyn DiskFile>,
    len: u64,
    birth: Birth,
    /// The last record that belongs to the archive's new file.
    last: u64,
    living: HashSet<IdempotencyKey>,
    /// Origins of what stays. Later orders of the same origin stay too: the newest is found first, and the log is asked before the archive (R17).
    staying: HashSet<Hash>,
    keep: Keep,
}

/// The file `compacting`, locked until all is over, what is cleared away afterwards included.
struct Held {
    path: PathBuf,
    file: Box<dyn DiskFile>,
}

impl Held {
    fn take(folder: &Path, disk: &Arc<dyn Disk>) -> Result<Held, StoreError> {
        let path = folder.join("compacting");
        let mut file = disk.open(&path, How::Lock).map_err(failed(folder))?;
        let free = file.try_lock().map_err(failed(folder))?;
        let held = Held { path, file };
        match free && held.is_ours(disk) {
            true => Ok(held),
            false => Err(busy(folder)),
        }
    }

    /// Removed or replaced, by whatever cleans up old files, it is a lock of our own only: others hold the new one, and compact.
    fn is_ours(&self, disk: &Arc<dyn Disk>) -> bool {
        same_file(disk, &self.path, self.file.as_ref())
    }
}

/// Given up by word, not by closing: a child process that is being started holds the open file a moment longer than we do.
impl Drop for Held {
    fn drop(&mut self) {
        drop(self.file.unlock());
    }
}

fn same_file(disk: &Arc<dyn Disk>, path: &Path, file: &dyn DiskFile) -> bool {
    file.identity()
        .is_ok_and(|ours| disk.identity(path).is_ok_and(|there| there == ours))
}

/// Which settled orders stay because they are young: the repeat guard asks for them.
struct Keep {
    within: Duration,
    since: Timestamp,
    boot: Option<Boot>,
    this_boot: Option<memchr::memmem::Finder<'static>>,
}

/// The copy, as far as it is made, and what is known of it.
pub(super) struct Copied {
    plan: Plan,
    pub(super) birth: Birth,
    pub(super) log: Box<dyn DiskFile>,
    pub(super) log_is: Identity,
    unwritten: Vec<u8>,
    /// How much of the old log was read, and where its chain stands there.
    read: u64,
    old: Chain,
    pub(super) index: Index,
    /// Origins closed by holes.
    pub(super) closed: Vec<(Hash, u64)>,
    pub(super) chain: Chain,
    pub(super) len: u64,
    synced: u64,
    /// What its last record says is durable.
    pub(super) witnessed: u64,
    moved: u64,
}

pub(super) fn busy(folder: &Path) -> StoreError {
    let text = format!("{} is being compacted already: nothing to do", folder.display());
    StoreError::new(StoreErrorKind::Busy, text)
}

/// There was nothing to move.
pub(super) fn nothing(book: &Book) -> Compaction {
    Compaction {
        before: book.len,
        after: book.len,
        moved: 0,
        archive: None,
    }
}

fn failed(folder: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let folder = folder.to_owned();
    move |e| StoreError::io("compacting", &folder, e)
}

/// `None`: nothing in the log is settled.
pub(super) fn plan(book: &mut Book) -> Result<Option<Plan>, StoreError> {
    let folder = book.files.folder.clone();
    let disk = Arc::clone(&book.files.disk);
    let held = Held::take(&folder, &disk)?;
    let within = book.files.options.keep.now();
    let since = book.locked(|book| Ok(book.now()))?.minus(within);
    // The archive must not say less than this process has told.
    book.durable(book.mark())?;
    forget_half_done(book);
    if book.index.settled() == 0 {
        return Ok(None);
    }
    Ok(Some(Plan {
        old: disk.open(&book.files.path, How::Append).map_err(failed(&folder))?,
        clock: Arc::clone(&book.files.clock),
        len: book.len,
        birth: book.birth.clone(),
        last: book.chain.seq,
        living: book.index.all_unsettled().collect(),
        staying: HashSet::new(),
        keep: Keep::of(within, since, book.files.clock.boot()),
        held: Some(held),
        folder,
        disk,
    }))
}

/// A second name of the present log, or a run, that a compaction left behind when it was cut short.
fn forget_half_done(book: &Book) {
    let disk = &book.files.disk;
    for path in disk.list(&book.files.folder.join("archive")).unwrap_or_default() {
        if path.extension().is_some_and(|kind| kind == "jsonl") && disk.identity(&path).is_ok_and(|there| there == book.files.log_is) {
            drop(disk.remove(&path));
        }
    }
    book.origins.sweep();
}

/// Without the lock, and off the journal's thread.
pub(super) fn copy(plan: Plan) -> Result<Copied, StoreError> {
    let path = plan.folder.join("log.compact");
    let failing = failed(&plan.folder);
    drop(plan.disk.remove(&path));
    let log = plan.disk.open(&path, How::CreateNew).map_err(&failing)?;
    let log_is = log.identity().map_err(&failing)?;
    let birth = Birth {
        compactions: plan.birth.compactions.saturating_add(1),
        after: plan.last,
        ..plan.birth.clone()
    };
    let mut copied = Copied {
        plan,
        birth,
        log,
        log_is,
        unwritten: Vec::new(),
        read: 0,
        old: Chain::START,
        index: Index::new(),
        closed: Vec::new(),
        chain: Chain::START,
        len: 0,
        synced: 0,
        witnessed: 0,
        moved: 0,
    };
    let done = copied.begin().and_then(|()| copied.all());
    match done {
        Ok(()) => Ok(copied),
        Err(error) => {
            copied.forget();
            Err(error)
        }
    }
}

impl Copied {
    fn begin(&mut self) -> Result<(), StoreError> {
        let body = self.birth.body(&self.plan.clock)?;
        let crc = frame::encode(&mut self.unwritten, 1, &body, 0, 0);
        self.chain = Chain {
            seq: 1,
            prev: crc,
            lines: 1,
        };
        self.len = self.unwritten.len() as u64;
        Ok(())
    }

    fn all(&mut self) -> Result<(), StoreError> {
        let mut out = Out::default();
        self.each_line(self.plan.len, |copied, at, line, frame| match copied.stays(line, frame, &out) {
            true => copied.take(line, frame),
            false => out.add(at, line, frame),
        })?;
        if self.read < self.plan.len {
            return Err(self.cut_short());
        }
        self.moved = out.known.len() as u64;
        // This archive's file is named by its first record.
        let archive = self.first();
        out.stretches.iter_mut().for_each(|stretch| stretch.archive = archive);
        let plan = &self.plan;
        Origins::add(&plan.folder, &plan.disk, (plan.birth.after, plan.last), out.claims, out.stretches)?;
        for _ in 0..ROUNDS {
            let there = self.plan.old.size().map_err(failed(&self.plan.folder))?;
            self.meanwhile(there)?;
            self.write_and_sync()?;
            if self.plan.old.size().is_ok_and(|there| there.saturating_sub(self.read) <= SHORT) {
                break;
            }
        }
        Ok(())
    }

    /// What was written since the plan was made: all of it is copied. A record of an order that moves out stands alone in the new log; its story
    /// is read from both.
    fn meanwhile(&mut self, upto: u64) -> Result<(), StoreError> {
        self.each_line(upto, |copied, _, line, frame| copied.take(line, frame))
    }

    /// Removes the copy, unless somebody else's stands in its place.
    fn forget(&self) {
        let path = self.plan.folder.join("log.compact");
        if same_file(&self.plan.disk, &path, self.log.as_ref()) {
            drop(self.plan.disk.remove(&path));
        }
    }

    /// Whole records of the old log, from where it was read to there. Half a line is left for later.
    fn each_line(&mut self, upto: u64, mut work: impl FnMut(&mut Self, u64, &Whole<'_>, &Frame)) -> Result<(), StoreError> {
        let failing = failed(&self.plan.folder);
        let mut lines = Lines::from(self.read);
        while self.read < upto {
            let Some((at, line)) = lines.next(self.plan.old.as_mut()).map_err(&failing)? else {
                break;
            };
            // Half-written just now; under the lock it will be whole, or mended. Or what was read before it has been cut back since.
            let Ok(read) = Line::read(line) else { break };
            let Some(frame) = read.frame().filter(|frame| self.old.follow(frame)) else {
                break;
            };
            work(self, at, &Whole { line, read }, &frame);
            self.read = lines.place();
            if self.unwritten.len() >= PIECE {
                self.write_and_sync()?;
            }
        }
        Ok(())
    }

    fn cut_short(&self) -> StoreError {
        failed(&self.plan.folder)(io::Error::other("the log could not be read to its end; nothing was changed"))
    }

    fn stays(&mut self, line: &Whole<'_>, frame: &Frame, out: &Out) -> bool {
        match &frame.what {
            What::Order { key, claim, .. } => {
                let plan = &mut self.plan;
                let origin = || line.read.columns().and_then(|columns| columns.origin);
                let stays = plan.living.contains(key)
                    || claim.is_some() && !plan.staying.is_empty() && origin().is_some_and(|origin| plan.staying.contains(&origin))
                    || claim.is_some() && !out.knows(key) && plan.keep.is_young(&line.read);
                if stays {
                    plan.living.insert(*key);
                    plan.staying.extend(origin());
                }
                stays
            }
            // Closed origins stay closed until a person looks.
            What::Book { name, data } => {
                *name == "hole" && serde_json::from_str::<Mended>(data).is_ok_and(|mended| !mended.origins.is_empty())
            }
        }
    }

    fn take(&mut self, line: &Whole<'_>, frame: &Frame) {
        let from = self.unwritten.len();
        let crc = match &frame.what {
            What::Order { key, standing, claim } => {
                let crc = frame::rechain(&mut self.unwritten, line.line, 0, self.chain.prev);
                let place = Place {
                    at: self.len,
                    len: self.unwritten.len().saturating_sub(from),
                };
                self.index.add(*key, *standing, *claim, place);
                crc
            }
            What::Book { name: "hole", data } => match self.take_hole(frame, data) {
                Some(crc) => crc,
                None => return,
            },
            What::Book { .. } => return,
        };
        self.chain = self.chain.then(frame.seq, crc);
        self.len = self.len.saturating_add(self.unwritten.len().saturating_sub(from) as u64);
    }

    /// The origins it closes; what it stood for is not behind it any more.
    fn take_hole(&mut self, frame: &Frame, data: &str) -> Option<u32> {
        let mended = serde_json::from_str::<Mended>(data)
            .ok()
            .filter(|mended| !mended.origins.is_empty())?;
        let mended = Mended { after: None, ..mended };
        let hashes = mended.origins.iter().filter_map(|hex| frame::from_hex(hex));
        self.closed.extend(hashes.map(|hash| (hash, self.len)));
        let body = frame::Body::Book {
            name: "hole",
            at: self.plan.clock.now(),
            data: serde_json::to_string(&mended).ok()?,
        };
        Some(frame::encode(&mut self.unwritten, frame.seq, &body, 0, self.chain.prev))
    }

    fn write_and_sync(&mut self) -> Result<(), StoreError> {
        let failing = failed(&self.plan.folder);
        let written = self.log.append_all(&self.unwritten).and_then(|()| self.log.sync());
        written.map_err(failing)?;
        self.unwritten.clear();
        self.synced = self.len;
        Ok(())
    }

    /// The first record that belongs to the archive's new file.
    fn first(&self) -> u64 {
        self.plan.birth.after.saturating_add(1)
    }
}

/// A line, and what was read of it.
struct Whole<'a> {
    line: &'a [u8],
    read: Line<'a>,
}

impl Keep {
    fn of(within: Duration, since: Timestamp, boot: Option<Boot>) -> Self {
        let this_boot = boot.as_ref().map(|boot| memchr::memmem::Finder::new(&boot.id).into_owned());
        Keep {
            within,
            since,
            boot,
            this_boot,
        }
    }

    /// By either clock: a wall clock that leapt makes nothing old.
    fn is_young(&self, claim: &Line<'_>) -> bool {
        claim.written_at().is_none_or(|at| at >= self.since) || self.is_young_by_boot(claim.data).unwrap_or(false)
    }

    fn is_young_by_boot(&self, data: &[u8]) -> Option<bool> {
        #[derive(serde::Deserialize)]
        struct Claimed {
            boot: Option<Boot>,
        }
        let now = self.boot.as_ref()?;
        // Where they are of another boot, or say nothing of theirs, nothing is parsed.
        self.this_boot.as_ref()?.find(data)?;
        let then = serde_json::from_slice::<Claimed>(data).ok()?.boot?;
        let ago = Duration::from_millis(now.up_ms.saturating_sub(then.up_ms));
        Some(now.id == then.id && ago < self.within)
    }
}

/// What moves out.
#[derive(Default)]
struct Out {
    claims: Vec<OldClaim>,
    stretches: Vec<OldStretch>,
    known: HashMap<IdempotencyKey, usize>,
}

impl Out {
    fn knows(&self, key: &IdempotencyKey) -> bool {
        self.known.contains_key(key)
    }

    fn add(&mut self, at: u64, line: &Whole<'_>, frame: &Frame) {
        let What::Order { key, claim, .. } = &frame.what else { return };
        let end = at.saturating_add(line.line.len() as u64).saturating_add(1);
        let fresh = self.stretches.len();
        let n = self.known.entry(*key).or_insert(fresh);
        if self
            .stretches
            .get(*n)
            .is_some_and(|last| at.saturating_sub(last.at.saturating_add(last.len)) > FAR)
        {
            *n = fresh;
        }
        let n = *n;
        if n == fresh {
            self.stretches.push(OldStretch {
                key: *key,
                archive: 0,
                at,
                len: 0,
                ended: Ended::Otherwise,
            });
        }
        if let Some(stretch) = self.stretches.get_mut(n) {
            stretch.len = end.saturating_sub(stretch.at);
            stretch.ended = Ended::said_by(line.read.name, line.read.data).unwrap_or(stretch.ended);
        }
        if claim.is_some()
            && let Some(columns) = line.read.columns()
            && let (Some(origin), Some(source)) = (columns.origin, columns.source)
        {
            self.claims.push(OldClaim {
                source,
                seq: frame.seq,
                origin,
                repeat: columns.repeat,
                key: *key,
            });
        }
    }
}

/// Under the lock: the rest is copied, and the new log takes its place.
pub(super) fn swap(book: &mut Book, mut copied: Copied) -> Result<Compaction, StoreError> {
    let held = copied.plan.held.take();
    let placed = book.locked(|book| {
        let archived = ready(book, &mut copied, held.as_ref())?;
        place(book, &copied, archived)
    });
    let (done, origins) = placed.inspect_err(|_| copied.forget())?;
    book.change_over(copied, origins);
    // While it is held: who compacts next writes a run that this process does not know.
    if held.as_ref().is_some_and(|held| held.is_ours(&book.files.disk)) {
        book.origins.sweep();
    }
    drop(held);
    Ok(done)
}

/// Everything is durable, and the old log has its second name; nothing has changed yet.
fn ready(book: &mut Book, copied: &mut Copied, held: Option<&Held>) -> Result<PathBuf, StoreError> {
    let failing = failed(&book.files.folder);
    if book.birth.compactions != copied.plan.birth.compactions {
        return Err(failing(io::Error::other("another log has taken its place meanwhile")));
    }
    copied.meanwhile(book.len)?;
    // What was read without the lock may have been cut back since by a writer whose disk was full, and something else stands in its place.
    if copied.read != book.len || copied.old.prev != book.chain.prev {
        return Err(copied.cut_short());
    }
    let unborn = copied.plan.folder.join("log.compact");
    if !held.is_some_and(|held| held.is_ours(&book.files.disk)) || !same_file(&book.files.disk, &unborn, copied.log.as_ref()) {
        return Err(failing(io::Error::other(
            "somebody removed its files meanwhile; nothing was changed",
        )));
    }
    // Everything up to the last sync without the lock is witnessed as durable, so that damage to it is told from a torn write (R12).
    let from = copied.unwritten.len();
    // Numbers go on from the old log's, also where nothing of it lives on.
    let seq = copied.chain.seq.max(copied.plan.last).saturating_add(1);
    copied.witnessed = copied.synced;
    let crc = frame::encode(&mut copied.unwritten, seq, &book.witness(), copied.witnessed, copied.chain.prev);
    copied.chain = copied.chain.then(seq, crc);
    copied.len = copied.len.saturating_add(copied.unwritten.len().saturating_sub(from) as u64);
    copied.write_and_sync()?;

    let archive = book.files.folder.join("archive");
    let archived = archive.join(format!("{:012}-{:012}.jsonl", copied.first(), copied.plan.last));
    let disk = &book.files.disk;
    disk.make_dir(&archive).map_err(&failing)?;
    disk.link(&book.files.path, &archived).map_err(&failing)?;
    let named = disk.sync_dir(&archive).and_then(|()| disk.sync_dir(&book.files.folder));
    if let Err(e) = named {
        drop(disk.remove(&archived));
        return Err(failing(e));
    }
    Ok(archived)
}

/// From the rename on there is no way back: what fails then poisons.
fn place(book: &mut Book, copied: &Copied, archived: PathBuf) -> Result<(Compaction, Origins), StoreError> {
    let failing = failed(&book.files.folder);
    let disk = Arc::clone(&book.files.disk);
    let placed = disk
        .rename(&copied.plan.folder.join("log.compact"), &book.files.path)
        .and_then(|()| disk.sync_dir(&book.files.folder))
        .map_err(failing)
        .and_then(|()| Origins::open(&book.files.folder, &disk, copied.birth.after));
    let origins = placed.map_err(|error| book.poisoned(error))?;
    let done = Compaction {
        before: book.len,
        after: copied.len,
        moved: copied.moved,
        archive: Some(archived),
    };
    Ok((done, origins))
}
