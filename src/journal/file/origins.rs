//! `origins/`: every order that compaction moved out of the log, found by its origin and by its key (R5). Sorted files of fixed-size entries,
//! searched where they lie, not loaded; each compaction adds one and melts the small ones into it, so that there are few.
//!
//! ```text
//! origins/<after>.run    4096 bytes of header: "uketsuke-origins", version, how many of both kinds, which older runs count beside it; crc
//!                        128 bytes a claim, by (source, seq); then 48 bytes a stretch of the archive, by (key, archive)
//! ```
//! The newest run is named after the log's first record, so that log and runs change hands in one rename.

use super::{frame, lines::Lines};
use crate::{
    disk::{Disk, DiskFile, How},
    ids::IdempotencyKey,
    journal::store::{Record, StoreError, StoreErrorKind},
    origin::Hash,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

const MAGIC: &[u8; 16] = b"uketsuke-origins";
const VERSION: u32 = 1;
const HEADER: u64 = 4096;
/// Written and synced in pieces: one large sync would hold up everybody else's.
const PIECE: usize = 4 << 20;

/// A claim that stands in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OldClaim {
    pub(super) source: Hash,
    pub(super) seq: u64,
    pub(super) origin: Hash,
    /// Of (api, fingerprint).
    pub(super) repeat: Hash,
    pub(super) key: IdempotencyKey,
}

/// Where records of an order stand in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OldStretch {
    pub(super) key: IdempotencyKey,
    /// Which file: the number of the first record that belongs to it.
    pub(super) archive: u64,
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) ended: Ended,
}

/// An order that stands in the archive, and the number of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OldOrder {
    pub(super) key: IdempotencyKey,
    pub(super) seq: u64,
}

/// How an order ended, for the day on which its archive is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Succeeded = 1,
    Rejected = 2,
    Denied = 3,
    Abandoned = 4,
    Withdrawn = 5,
    Refused = 6,
    Otherwise = 0,
}

impl Ended {
    const ALL: [Ended; 7] = [
        Ended::Otherwise,
        Ended::Succeeded,
        Ended::Rejected,
        Ended::Denied,
        Ended::Abandoned,
        Ended::Withdrawn,
        Ended::Refused,
    ];

    /// What a record says of the end; `None` where it says nothing.
    pub(super) fn said_by(event: &[u8], data: &[u8]) -> Option<Self> {
        match event {
            b"settled" if data.starts_with(b"{\"succeeded\"") => Some(Ended::Succeeded),
            b"settled" if data.starts_with(b"{\"rejected\"") => Some(Ended::Rejected),
            b"settled" if data.starts_with(b"{\"denied\"") => Some(Ended::Denied),
            b"settled" | b"abandoned" => Some(Ended::Abandoned),
            b"withdrawn" => Some(Ended::Withdrawn),
            b"refused" => Some(Ended::Refused),
            b"reconciled" => Some(Ended::Otherwise),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Ended::Succeeded => "it succeeded",
            Ended::Rejected => "the server refused it",
            Ended::Denied => "policy denied it",
            Ended::Abandoned => "it was abandoned",
            Ended::Withdrawn => "it was taken back before it was sent",
            Ended::Refused => "a person refused it",
            Ended::Otherwise => "a person closed it",
        }
    }
}

/// An entry as bytes, whose order is the order they are sorted in.
pub(super) trait Entry: Sized {
    const LEN: usize;
    fn write(&self, out: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Option<Self>;
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// The checksum over what was written since `from`, behind it; and blanks up to the entry's length.
fn seal(out: &mut Vec<u8>, from: usize, len: usize) {
    let crc = crc32fast::hash(out.get(from..).unwrap_or_default());
    out.extend_from_slice(&crc.to_be_bytes());
    out.resize(from.saturating_add(len), 0);
}

/// What the checksum covers, if it is right.
fn sealed(bytes: &[u8], covered: usize) -> Option<&[u8]> {
    let (body, mut crc) = bytes.split_at_checked(covered)?;
    (u32::from_be_bytes(take(&mut crc)?) == crc32fast::hash(body)).then_some(body)
}

impl Entry for OldClaim {
    const LEN: usize = 128;

    fn write(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(&self.source);
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.origin);
        out.extend_from_slice(&self.repeat);
        out.extend_from_slice(&self.key.to_bytes());
        seal(out, from, Self::LEN);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut body = sealed(bytes, 120)?;
        Some(OldClaim {
            source: take(&mut body)?,
            seq: u64::from_be_bytes(take(&mut body)?),
            origin: take(&mut body)?,
            repeat: take(&mut body)?,
            key: IdempotencyKey::from_bytes(take(&mut body)?)?,
        })
    }
}

impl Entry for OldStretch {
    const LEN: usize = 48;

    fn write(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(&self.key.to_bytes());
        for number in [self.archive, self.at, self.len] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.push(self.ended as u8);
        seal(out, from, Self::LEN);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut body = sealed(bytes, 41)?;
        Some(OldStretch {
            key: IdempotencyKey::from_bytes(take(&mut body)?)?,
            archive: u64::from_be_bytes(take(&mut body)?),
            at: u64::from_be_bytes(take(&mut body)?),
            len: u64::from_be_bytes(take(&mut body)?),
            ended: Ended::ALL.into_iter().find(|ended| [*ended as u8] == *body)?,
        })
    }
}

/// One sorted file.
#[derive(Debug)]
struct Run {
    after: u64,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    claims: u64,
    stretches: u64,
}

/// Where one kind of entries begins in a run, and how many there are.
#[derive(Clone, Copy)]
struct Section {
    at: u64,
    count: u64,
}

impl Run {
    /// Opens the run, and says which older ones count beside it.
    fn open(folder: &Path, after: u64, disk: &Arc<dyn Disk>) -> Result<(Run, Vec<u64>), StoreError> {
        let path = path_of(folder, after);
        let mut file = match disk.open(&path, How::Append) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let text = format!(
                    "{} is gone: it says which orders this journal has had, so nothing is sent; restore it",
                    path.display()
                );
                return Err(StoreError::new(StoreErrorKind::Missing, text));
            }
            Err(e) => return Err(StoreError::io("opening", &path, e)),
        };
        let header = file.read_at(0, HEADER as usize).map_err(|e| StoreError::io("reading", &path, e))?;
        let read = || {
            let mut body = sealed(&header, HEADER as usize - 4)?;
            (take(&mut body)? == *MAGIC && u32::from_be_bytes(take(&mut body)?) == VERSION).then_some(())?;
            let (claims, stretches) = (u64::from_be_bytes(take(&mut body)?), u64::from_be_bytes(take(&mut body)?));
            let older = u64::from_be_bytes(take(&mut body)?);
            let older: Option<Vec<u64>> = (0..older).map(|_| take(&mut body).map(u64::from_be_bytes)).collect();
            Some((claims, stretches, older?))
        };
        let Some((claims, stretches, older)) = read() else {
            return Err(damaged(&path, "its beginning"));
        };
        let run = Run {
            after,
            path,
            file,
            claims,
            stretches,
        };
        Ok((run, older))
    }

    fn claims(&self) -> Section {
        Section {
            at: HEADER,
            count: self.claims,
        }
    }

    fn stretches(&self) -> Section {
        Section {
            at: HEADER.saturating_add(self.claims.saturating_mul(OldClaim::LEN as u64)),
            count: self.stretches,
        }
    }

    fn bytes(&mut self, section: Section, n: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        let at = section.at.saturating_add(n.saturating_mul(len as u64));
        self.file.read_at(at, len).map_err(|e| StoreError::io("reading", &self.path, e))
    }

    /// Whatever an entry is read for, it is sound: a search that a damaged one leads astray would call an origin new.
    fn entry<E: Entry>(&mut self, section: Section, n: u64) -> Result<(Vec<u8>, E), StoreError> {
        let bytes = self.bytes(section, n, E::LEN)?;
        let entry = E::read(&bytes).ok_or_else(|| damaged(&self.path, "an entry"))?;
        Ok((bytes, entry))
    }

    /// All entries that begin like that, in their order.
    fn find<E: Entry>(&mut self, section: Section, begins: &[u8]) -> Result<Vec<E>, StoreError> {
        let mut found = Vec::new();
        for n in self.first_from::<E>(section, begins)?..section.count {
            let (bytes, entry) = self.entry::<E>(section, n)?;
            if !bytes.starts_with(begins) {
                break;
            }
            found.push(entry);
        }
        Ok(found)
    }

    /// The first entry that is not before `begins`. What is sorted is as good as random, so a guess by its first bits is near; every second step
    /// halves, so that nothing depends on that.
    fn first_from<E: Entry>(&mut self, section: Section, begins: &[u8]) -> Result<u64, StoreError> {
        let bits = |bytes: &[u8]| u128::from(bytes.first_chunk::<8>().map_or(0, |head| u64::from_be_bytes(*head)));
        let wanted = bits(begins);
        let (mut low, mut high) = (0, section.count);
        let (mut low_bits, mut high_bits) = (0, u128::from(u64::MAX));
        let mut halve = false;
        while low < high {
            let between = u128::from(high.saturating_sub(low));
            let guess = match high_bits.saturating_sub(low_bits) {
                0 => between / 2,
                _ if halve => between / 2,
                range => wanted.saturating_sub(low_bits).saturating_mul(between) / range,
            };
            let at = low
                .saturating_add(u64::try_from(guess).unwrap_or(u64::MAX))
                .min(high.saturating_sub(1));
            let (there, _) = self.entry::<E>(section, at)?;
            if there.as_slice() < begins {
                (low, low_bits) = (at.saturating_add(1), bits(&there));
            } else {
                (high, high_bits) = (at, bits(&there));
            }
            halve = !halve;
        }
        Ok(low)
    }
}

fn damaged(path: &Path, what: &str) -> StoreError {
    let text = format!(
        "{} is damaged: {what} can't be read. Nothing was changed and nothing will be sent; restore the file",
        path.display()
    );
    StoreError::new(StoreErrorKind::Corrupt, text)
}

fn path_of(folder: &Path, after: u64) -> PathBuf {
    folder.join("origins").join(format!("{after:012}.run"))
}

/// What of the journal stands in its archive.
#[derive(Debug)]
pub(super) struct Origins {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    /// Newest first.
    runs: Vec<Run>,
}

impl Origins {
    /// The runs of a log that begins behind record `after`; none where nothing was moved out yet.
    pub(super) fn open(folder: &Path, disk: &Arc<dyn Disk>, after: u64) -> Result<Self, StoreError> {
        let mut runs = Vec::new();
        if after > 0 {
            let (newest, older) = Run::open(folder, after, disk)?;
            runs.push(newest);
            for after in older {
                runs.push(Run::open(folder, after, disk)?.0);
            }
        }
        Ok(Origins {
            folder: folder.to_owned(),
            disk: Arc::clone(disk),
            runs,
        })
    }

    /// The newest claim of this origin among the old ones.
    pub(super) fn by_origin(&mut self, origin: &Hash, source: &Hash) -> Result<Option<IdempotencyKey>, StoreError> {
        for run in &mut self.runs {
            let claims = run.find::<OldClaim>(run.claims(), source)?;
            if let Some(claim) = claims.iter().rev().find(|claim| claim.origin == *origin) {
                return Ok(Some(claim.key));
            }
        }
        Ok(None)
    }

    /// The old claims of this source, newest first.
    pub(super) fn by_source(&mut self, source: &Hash) -> Result<Vec<IdempotencyKey>, StoreError> {
        let mut keys = Vec::new();
        for run in &mut self.runs {
            let claims = run.find::<OldClaim>(run.claims(), source)?;
            keys.extend(claims.iter().rev().map(|claim| claim.key));
        }
        Ok(keys)
    }

    /// Every order that stands here, sorted by key, each once.
    ///
    /// An order with an origin has a claim in a run, which has its record's number. One without has its stretches alone: its number is read where the
    /// oldest of them begins, file by file and forwards. Of a file that is gone, all that is known is the number of its first record.
    pub(super) fn orders(&mut self) -> Result<Vec<OldOrder>, StoreError> {
        let mut orders = Vec::new();
        self.each(Run::claims, |claim: OldClaim| {
            orders.push(OldOrder {
                key: claim.key,
                seq: claim.seq,
            });
        })?;
        orders.sort_unstable();
        orders.dedup_by_key(|order| order.key);
        let mut others = Vec::new();
        self.each(Run::stretches, |stretch: OldStretch| {
            if orders.binary_search_by_key(&stretch.key, |order| order.key).is_err() {
                others.push(stretch);
            }
        })?;
        others.sort_unstable_by_key(|stretch| (stretch.key, stretch.archive, stretch.at));
        others.dedup_by_key(|stretch| stretch.key);
        others.sort_unstable_by_key(|stretch| (stretch.archive, stretch.at));
        for file in others.chunk_by(|one, next| one.archive == next.archive) {
            let mut archive = file.first().and_then(|stretch| self.opened(stretch));
            // The number alone, unchecked: only the list's order rests on it, and each record is checked when it is told.
            let mut seq = |at| frame::seq(&archive.as_mut()?.read_at(at, frame::SEQ_END).ok()?);
            orders.extend(file.iter().map(|stretch| OldOrder {
                key: stretch.key,
                seq: seq(stretch.at).unwrap_or(stretch.archive),
            }));
        }
        orders.sort_unstable();
        Ok(orders)
    }

    /// The file in which a stretch stands; `None` where it is gone or can't be opened: whoever reads the story is told why.
    fn opened(&self, stretch: &OldStretch) -> Option<Box<dyn DiskFile>> {
        self.disk.open(&self.archive(stretch).ok()?, How::Append).ok()
    }

    /// Every entry of one kind, run by run.
    fn each<E: Entry>(&mut self, section: fn(&Run) -> Section, mut work: impl FnMut(E)) -> Result<(), StoreError> {
        for run in &mut self.runs {
            let mut ahead = Ahead::new(section(run), run, E::LEN);
            loop {
                ahead.step()?;
                let Some(bytes) = ahead.next.take() else { break };
                work(E::read(&bytes).ok_or_else(|| damaged(&ahead.run.path, "an entry"))?);
            }
        }
        Ok(())
    }

    /// The old records of one order, oldest first.
    pub(super) fn story(&mut self, key: IdempotencyKey) -> Result<Vec<Record>, StoreError> {
        let mut stretches = Vec::new();
        for run in self.runs.iter_mut().rev() {
            stretches.extend(run.find::<OldStretch>(run.stretches(), &key.to_bytes())?);
        }
        stretches.sort_by_key(|stretch| stretch.archive);
        // What came after its end says nothing of it.
        let said = stretches
            .iter()
            .rev()
            .map(|stretch| stretch.ended)
            .find(|ended| *ended != Ended::Otherwise);
        let mut story = Vec::new();
        for mut stretch in stretches {
            stretch.ended = said.unwrap_or(Ended::Otherwise);
            self.read_stretch(&stretch, &mut story)?;
        }
        Ok(story)
    }

    fn read_stretch(&self, stretch: &OldStretch, story: &mut Vec<Record>) -> Result<(), StoreError> {
        let path = self.archive(stretch)?;
        let reading = |e| StoreError::io("reading", &path, e);
        let mut file = self.disk.open(&path, How::Append).map_err(reading)?;
        let (mut lines, end) = (Lines::from(stretch.at), stretch.at.saturating_add(stretch.len));
        let name = stretch.key.to_string();
        while lines.place() < end {
            let Some((_, line)) = lines.next(file.as_mut()).map_err(reading)? else {
                return Err(damaged(&path, &format!("a record of order {name}")));
            };
            let damage = |_| damaged(&path, &format!("a record of order {name}, or one beside it,"));
            match frame::names_key(line, name.as_bytes()) {
                true => story.push(frame::record(line).map_err(damage)?),
                // What can't be read may be one of this order's, whatever it seems to name.
                false => drop(frame::decode(line).map_err(damage)?),
            }
        }
        Ok(())
    }

    fn archive(&self, stretch: &OldStretch) -> Result<PathBuf, StoreError> {
        let archive = self.folder.join("archive");
        let listed = self.disk.list(&archive).map_err(|e| StoreError::io("reading", &archive, e))?;
        let begins = format!("{:012}-", stretch.archive);
        let named = |path: &PathBuf| {
            path.extension().is_some_and(|kind| kind == "jsonl")
                && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begins))
        };
        // The longest: a stale copy of one that was never put in place may stand beside it.
        listed.into_iter().filter(named).max().ok_or_else(|| {
            let text = format!(
                "the records of order {} were moved to {}…jsonl, which is gone. All that is known of it here: {}. Nothing is sent for it; \
                 restore the file",
                stretch.key,
                archive.join(begins).display(),
                stretch.ended.word()
            );
            StoreError::new(StoreErrorKind::Missing, text)
        })
    }

    /// Writes a run of these entries, and melts into it the newest runs that are not much larger; durable when it answers.
    pub(super) fn add(
        folder: &Path,
        disk: &Arc<dyn Disk>,
        (before, after): (u64, u64),
        claims: Vec<OldClaim>,
        stretches: Vec<OldStretch>,
    ) -> Result<(), StoreError> {
        let Origins { mut runs, .. } = Origins::open(folder, disk, before)?;
        let (mut melted, mut size) = (Vec::new(), stretches.len() as u64);
        while runs.first().is_some_and(|run| run.stretches <= size.saturating_mul(2)) || runs.len() > MANY {
            let run = runs.remove(0);
            size = size.saturating_add(run.stretches);
            melted.push(run);
        }
        let path = path_of(folder, after);
        let writing = |e| StoreError::io("writing", &path, e);
        let origins = folder.join("origins");
        disk.make_dir(&origins).map_err(writing)?;
        // Left over from a compaction that was cut short.
        drop(disk.remove(&path));
        let mut out = Pieces::new(disk.open(&path, How::CreateNew).map_err(writing)?);
        let count = |of: fn(&Run) -> u64, fresh: usize| melted.iter().map(of).fold(fresh as u64, u64::saturating_add);
        let counts = (count(|run| run.claims, claims.len()), count(|run| run.stretches, stretches.len()));
        out.header(counts, runs.iter().map(|run| run.after)).map_err(writing)?;
        melt(&mut out, claims, &mut melted, Run::claims)?;
        melt(&mut out, stretches, &mut melted, Run::stretches)?;
        out.end().map_err(writing)?;
        disk.sync_dir(&origins).map_err(writing)?;
        disk.sync_dir(folder).map_err(writing)
    }

    /// Removes the runs that no longer count.
    pub(super) fn sweep(&self) {
        let origins = self.folder.join("origins");
        let counts = |path: &PathBuf| self.runs.iter().any(|run| run.path == *path);
        for path in self.disk.list(&origins).unwrap_or_default() {
            if !counts(&path) && path.extension().is_some_and(|kind| kind == "run") {
                drop(self.disk.remove(&path));
            }
        }
    }
}

/// More runs than a header names are never left standing.
const MANY: usize = 64;

/// Buffers what is written, and syncs as it goes.
struct Pieces {
    file: Box<dyn DiskFile>,
    buffer: Vec<u8>,
}

impl Pieces {
    fn new(file: Box<dyn DiskFile>) -> Self {
        Pieces { file, buffer: Vec::new() }
    }

    fn header(&mut self, (claims, stretches): (u64, u64), older: impl ExactSizeIterator<Item = u64>) -> io::Result<()> {
        self.buffer.extend_from_slice(MAGIC);
        self.buffer.extend_from_slice(&VERSION.to_be_bytes());
        for number in [claims, stretches, older.len() as u64].into_iter().chain(older) {
            self.buffer.extend_from_slice(&number.to_be_bytes());
        }
        self.buffer.resize(HEADER as usize - 4, 0);
        seal(&mut self.buffer, 0, HEADER as usize);
        self.file.append_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.end()?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.file.append_all(&self.buffer)?;
        self.buffer.clear();
        self.file.sync()
    }
}

/// One kind of entries, from memory and from older runs, in one order.
fn melt<E: Entry>(out: &mut Pieces, fresh: Vec<E>, runs: &mut [Run], section: fn(&Run) -> Section) -> Result<(), StoreError> {
    let mut bytes = Vec::with_capacity(fresh.len().saturating_mul(E::LEN));
    fresh.iter().for_each(|entry| entry.write(&mut bytes));
    drop(fresh);
    let mut fresh: Vec<&[u8]> = bytes.chunks_exact(E::LEN).collect();
    fresh.sort_unstable();
    let mut fresh = fresh.into_iter().peekable();
    let mut olds: Vec<Ahead<'_>> = runs.iter_mut().map(|run| Ahead::new(section(run), run, E::LEN)).collect();
    for old in &mut olds {
        old.step()?;
    }
    loop {
        let oldest = olds.iter_mut().filter(|old| old.next.is_some()).min_by(|a, b| a.next.cmp(&b.next));
        let from_run = match (&oldest, fresh.peek()) {
            (Some(old), Some(bytes)) => old.next.as_deref() < Some(*bytes),
            (oldest, _) => oldest.is_some(),
        };
        let written = match oldest.filter(|_| from_run) {
            Some(old) => {
                let bytes = old.next.take().unwrap_or_default();
                E::read(&bytes).ok_or_else(|| damaged(&old.run.path, "an entry"))?;
                old.step()?;
                out.push(&bytes)
            }
            None => match fresh.next() {
                Some(bytes) => out.push(bytes),
                None => return Ok(()),
            },
        };
        written.map_err(|e| StoreError::io("writing to", Path::new("origins"), e))?;
    }
}

/// The entries of a run one after another, read a piece at a time.
struct Ahead<'a> {
    run: &'a mut Run,
    section: Section,
    len: usize,
    n: u64,
    piece: Vec<u8>,
    at: usize,
    next: Option<Vec<u8>>,
}

impl<'a> Ahead<'a> {
    const AT_ONCE: u64 = 1024;

    fn new(section: Section, run: &'a mut Run, len: usize) -> Self {
        Ahead {
            run,
            section,
            len,
            n: 0,
            piece: Vec::new(),
            at: 0,
            next: None,
        }
    }

    fn step(&mut self) -> Result<(), StoreError> {
        if self.at >= self.piece.len() {
            let many = self.section.count.saturating_sub(self.n).min(Self::AT_ONCE);
            let len = usize::try_from(many).unwrap_or(0).saturating_mul(self.len);
            let at = self.section.at.saturating_add(self.n.saturating_mul(self.len as u64));
            let run = &mut self.run;
            self.piece = run.file.read_at(at, len).map_err(|e| StoreError::io("reading", &run.path, e))?;
            (self.at, self.n) = (0, self.n.saturating_add(many));
        }
        let end = self.at.saturating_add(self.len);
        self.next = self.piece.get(self.at..end).map(<[u8]>::to_vec);
        self.at = end;
        Ok(())
    }
}
