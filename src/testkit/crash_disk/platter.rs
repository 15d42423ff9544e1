//! What stands on a [`CrashDisk`](super::CrashDisk): for each file and folder what every process reads now, what is durable, and the changes in
//! between, which a power cut takes or leaves. Pure: no locks, no faults, no errors but a file system's own.

use crate::disk::How;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    io::{self, ErrorKind},
    path::{Component, Path, PathBuf},
};

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Which of the unsynced changes a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kept {
    /// None: the disk holds what was synced, and nothing else.
    Nothing,
    /// All, as if everything had been synced at the last moment.
    Everything,
    /// Some, by a seeded choice: the same seed on the same state gives the same disk.
    Some(u64),
}

impl From<u64> for Kept {
    fn from(seed: u64) -> Self {
        Kept::Some(seed)
    }
}

/// A file's or a folder's number.
pub(super) type Number = u64;

/// The root folder.
const ROOT: Number = 0;

#[derive(Clone, Debug)]
pub(super) struct Platter {
    things: BTreeMap<Number, Thing>,
    /// Changes to folders that no sync of a folder has covered, oldest first.
    edits: Vec<Edit>,
    next: Number,
}

#[derive(Clone, Debug)]
enum Thing {
    Folder { now: Entries, durable: Entries },
    File(Contents),
}

type Entries = BTreeMap<OsString, Number>;

/// One entry's name: the folder, and what it is called there.
type Name = (Number, OsString);

/// A change to folders that happens whole or not at all: a rename takes one name away and gives another.
#[derive(Clone, Debug)]
struct Edit(Vec<(Name, Option<Number>)>);

#[derive(Clone, Debug, Default)]
struct Contents {
    now: Vec<u8>,
    durable: Vec<u8>,
    loose: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Cut(usize),
}

impl Platter {
    /// A root folder, and nothing in it.
    pub(super) fn blank() -> Self {
        Platter {
            things: BTreeMap::from([(ROOT, Thing::folder())]),
            edits: Vec::new(),
            next: ROOT + 1,
        }
    }

    // ---- folders -----------------------------------------------------------------------------------------------------

    /// The number of what stands at the path.
    pub(super) fn find(&self, path: &Path) -> io::Result<Number> {
        names(path).into_iter().try_fold(ROOT, |folder, name| self.entry(folder, name))
    }

    fn entry(&self, folder: Number, name: &OsStr) -> io::Result<Number> {
        self.entries(folder)?.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn entries(&self, folder: Number) -> io::Result<&Entries> {
        match self.things.get(&folder) {
            Some(Thing::Folder { now, .. }) => Ok(now),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// The folder that a path stands in, which must be there, and the path's last name.
    fn place(&self, path: &Path) -> io::Result<Name> {
        let mut names = names(path);
        let last = names.pop().ok_or(ErrorKind::InvalidInput)?;
        let folder = names.into_iter().try_fold(ROOT, |folder, name| self.entry(folder, name))?;
        self.entries(folder)?;
        Ok((folder, last.to_owned()))
    }

    pub(super) fn make_dir(&mut self, path: &Path) -> io::Result<()> {
        let mut folder = ROOT;
        for name in names(path) {
            folder = match self.entry(folder, name) {
                Err(e) if e.kind() == ErrorKind::NotFound => self.add((folder, name.to_owned()), Thing::folder()),
                found => found?,
            };
            self.entries(folder)?;
        }
        Ok(())
    }

    pub(super) fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = self.entries(self.find(folder)?)?;
        Ok(entries.keys().map(|name| folder.join(name)).collect())
    }

    pub(super) fn open(&mut self, path: &Path, how: How) -> io::Result<Number> {
        let place = self.place(path)?;
        match (self.entry(place.0, &place.1), how) {
            (Ok(_), How::CreateNew) => Err(ErrorKind::AlreadyExists.into()),
            (Ok(there), _) => self.contents(there).map(|_| there),
            (Err(e), How::CreateNew | How::Lock) if e.kind() == ErrorKind::NotFound => {
                Ok(self.add(place, Thing::File(Contents::default())))
            }
            (Err(e), _) => Err(e),
        }
    }

    fn add(&mut self, place: Name, thing: Thing) -> Number {
        let number = self.next;
        self.next = number.saturating_add(1);
        self.things.insert(number, thing);
        self.edit(vec![(place, Some(number))]);
        number
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        let moved = self.entry(from.0, &from.1)?;
        // Two names of one file: POSIX has it that nothing happens, and both stay.
        if self.entry(to.0, &to.1).is_ok_and(|there| there == moved) {
            return Ok(());
        }
        self.edit(vec![(from, None), (to, Some(moved))]);
        Ok(())
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (file, to) = (self.find(from)?, self.place(to)?);
        self.contents(file)?;
        if self.entry(to.0, &to.1).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.edit(vec![(to, Some(file))]);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let place = self.place(path)?;
        let file = self.entry(place.0, &place.1)?;
        self.contents(file)?;
        self.edit(vec![(place, None)]);
        Ok(())
    }

    fn edit(&mut self, steps: Vec<(Name, Option<Number>)>) {
        let edit = Edit(steps);
        edit.write(&mut self.things, |folder| match folder {
            Thing::Folder { now, .. } => Some(now),
            Thing::File(_) => None,
        });
        self.edits.push(edit);
    }

    /// Makes durable what was done in this folder, and no more: neither the contents of its files nor its own entry in the folder above.
    pub(super) fn sync_dir(&mut self, folder: &Path) -> io::Result<()> {
        let folder = self.find(folder)?;
        self.entries(folder)?;
        // An edit of this folder goes in whole, and with it whatever was done earlier to a name it touches in another folder.
        let mut names: BTreeSet<Name> = BTreeSet::new();
        let mut covered: Vec<bool> = self.edits.iter().rev().map(|edit| edit.goes_along(folder, &mut names)).collect();
        covered.reverse();
        let mut left = Vec::new();
        for (edit, covered) in std::mem::take(&mut self.edits).into_iter().zip(covered) {
            match covered {
                true => edit.write(&mut self.things, Thing::durable_entries),
                false => left.push(edit),
            }
        }
        self.edits = left;
        Ok(())
    }

    // ---- files -------------------------------------------------------------------------------------------------------

    fn contents(&self, file: Number) -> io::Result<&Contents> {
        match self.things.get(&file) {
            Some(Thing::File(contents)) => Ok(contents),
            Some(Thing::Folder { .. }) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn change(&mut self, file: Number, work: impl FnOnce(&mut Contents)) {
        if let Some(Thing::File(contents)) = self.things.get_mut(&file) {
            work(contents);
        }
    }

    /// What every process reads.
    pub(super) fn read(&self, file: Number) -> io::Result<&[u8]> {
        Ok(&self.contents(file)?.now)
    }

    pub(super) fn append(&mut self, file: Number, bytes: &[u8]) {
        self.change(file, |contents| {
            let at = contents.now.len();
            contents.apply(Change::Write { at, bytes: bytes.to_vec() });
        });
    }

    pub(super) fn write_at(&mut self, file: Number, at: usize, bytes: &[u8]) {
        self.change(file, |contents| contents.apply(Change::Write { at, bytes: bytes.to_vec() }));
    }

    pub(super) fn truncate(&mut self, file: Number, to: usize) {
        self.change(file, |contents| contents.apply(Change::Cut(to)));
    }

    pub(super) fn sync(&mut self, file: Number) {
        self.change(file, |contents| {
            for change in std::mem::take(&mut contents.loose) {
                change.write(&mut contents.durable);
            }
        });
    }

    /// As Linux has it: what a failed sync did not write is thought clean. It is still read, no later sync writes it, and it is gone with the
    /// cache.
    pub(super) fn fail_sync(&mut self, file: Number) {
        self.change(file, |contents| contents.loose.clear());
    }

    /// The length is not among what is forgotten: what the disk does not have reads as zero.
    pub(super) fn uncache(&mut self, file: Number, from: usize) {
        self.change(file, |contents| {
            let mut asked = contents.durable.clone();
            for change in &contents.loose {
                change.write(&mut asked);
            }
            asked.resize(contents.now.len(), 0);
            contents.now.truncate(from);
            contents.now.extend_from_slice(asked.get(contents.now.len()..).unwrap_or_default());
        });
    }

    // ---- the cut -----------------------------------------------------------------------------------------------------

    /// The disk as it is found when the power is back.
    pub(super) fn after_cut(&self, kept: Kept) -> Platter {
        let mut dice = Dice(kept, 0);
        let mut after = self.clone();
        let mut lost: BTreeSet<Name> = BTreeSet::new();
        for edit in std::mem::take(&mut after.edits) {
            // What an entry said later is not there without what it said before.
            if edit.names().any(|name| lost.contains(name)) || !dice.keeps() {
                lost.extend(edit.names().cloned());
            } else {
                edit.write(&mut after.things, Thing::durable_entries);
            }
        }
        for thing in after.things.values_mut() {
            match thing {
                Thing::Folder { now, durable } => *now = durable.clone(),
                Thing::File(contents) => contents.cut(&mut dice),
            }
        }
        after
    }
}

impl Thing {
    fn folder() -> Self {
        Thing::Folder {
            now: Entries::new(),
            durable: Entries::new(),
        }
    }

    fn durable_entries(&mut self) -> Option<&mut Entries> {
        match self {
            Thing::Folder { durable, .. } => Some(durable),
            Thing::File(_) => None,
        }
    }
}

impl Edit {
    fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.iter().map(|(name, _)| name)
    }

    fn write(&self, things: &mut BTreeMap<Number, Thing>, side: impl Fn(&mut Thing) -> Option<&mut Entries>) {
        for ((folder, name), number) in &self.0 {
            let Some(entries) = things.get_mut(folder).and_then(&side) else {
                continue;
            };
            match number {
                Some(number) => entries.insert(name.clone(), *number),
                None => entries.remove(name),
            };
        }
    }

    /// Whether a sync of this folder covers it, given the names that later edits which it covers have touched.
    fn goes_along(&self, folder: Number, names: &mut BTreeSet<Name>) -> bool {
        let covered = self.names().any(|name| name.0 == folder || names.contains(name));
        if covered {
            names.extend(self.names().cloned());
        }
        covered
    }
}

impl Contents {
    fn apply(&mut self, change: Change) {
        change.write(&mut self.now);
        self.loose.push(change);
    }

    /// Sector by sector, in any order: a later one may be there and an earlier one not. The length may have grown over sectors that were
    /// never written, which read as zero, or not have grown over some that were.
    fn cut(&mut self, dice: &mut Dice) {
        let (grown, mut found) = (self.now.len(), self.durable.clone());
        for change in std::mem::take(&mut self.loose) {
            for piece in change.pieces() {
                if dice.keeps() {
                    piece.write(&mut found);
                }
            }
        }
        match dice.length() {
            Length::AsFound => {}
            Length::Grown => found.resize(found.len().max(grown), 0),
            Length::Old => found.truncate(self.durable.len()),
        }
        self.durable = found.clone();
        self.now = found;
    }
}

impl Change {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Cut(to) => bytes.resize(*to, 0),
            Change::Write { at, bytes: new } => {
                let end = at.saturating_add(new.len());
                bytes.resize(bytes.len().max(end), 0);
                if let Some(place) = bytes.get_mut(*at..end) {
                    place.copy_from_slice(new);
                }
            }
        }
    }

    /// What of it is written whole or not at all.
    fn pieces(self) -> Vec<Change> {
        let Change::Write { mut at, bytes } = self else { return vec![self] };
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
            pieces.push(Change::Write { at, bytes: piece.to_vec() });
            at = at.saturating_add(piece.len());
            rest = behind;
        }
        pieces
    }
}

/// How long a file is found to be.
enum Length {
    AsFound,
    Grown,
    Old,
}

/// Chance that can be had again: SplitMix64 (Steele, Lea, Flood 2014) on seed and throw.
struct Dice(Kept, u64);

impl Dice {
    fn throw(&mut self, seed: u64) -> u64 {
        self.1 = self.1.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(self.1);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn keeps(&mut self) -> bool {
        match self.0 {
            Kept::Nothing => false,
            Kept::Everything => true,
            Kept::Some(seed) => self.throw(seed).is_multiple_of(2),
        }
    }

    fn length(&mut self) -> Length {
        match self.0 {
            Kept::Nothing | Kept::Everything => Length::AsFound,
            Kept::Some(seed) => match self.throw(seed) % 4 {
                0 => Length::Old,
                1 => Length::Grown,
                _ => Length::AsFound,
            },
        }
    }
}

/// A path's names from the root down; a relative one begins there too.
fn names(path: &Path) -> Vec<&OsStr> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => drop(names.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "/journal/log";

    /// A folder that is durable, with a file in it that is durable and holds so many bytes of `a`.
    fn durable(len: usize) -> (Platter, Number) {
        let mut disk = Platter::blank();
        disk.make_dir(Path::new("/journal")).unwrap();
        let file = disk.open(Path::new(LOG), How::CreateNew).unwrap();
        disk.append(file, &vec![b'a'; len]);
        disk.sync(file);
        disk.sync_dir(Path::new("/")).unwrap();
        disk.sync_dir(Path::new("/journal")).unwrap();
        (disk, file)
    }

    fn read(disk: &Platter, path: &str) -> Option<Vec<u8>> {
        let file = disk.find(Path::new(path)).ok()?;
        Some(disk.read(file).unwrap().to_vec())
    }

    #[test]
    fn what_was_synced_is_there_after_any_cut() {
        let (mut disk, file) = durable(700);
        disk.append(file, &[b'b'; 900]);
        for seed in 0..200 {
            let found = read(&disk.after_cut(seed.into()), LOG).unwrap();
            assert_eq!(found[..700], [b'a'; 700], "seed {seed}");
        }
        assert_eq!(read(&disk.after_cut(Kept::Nothing), LOG).unwrap().len(), 700);
        assert_eq!(read(&disk.after_cut(Kept::Everything), LOG), read(&disk, LOG));
    }

    #[test]
    fn a_cut_takes_whole_sectors_in_any_order() {
        let (mut disk, file) = durable(512);
        disk.append(file, &[b'b'; 1024]);
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let found = read(&disk.after_cut(seed.into()), LOG).unwrap();
            let sectors = found[512..].chunks(512).map(|sector| {
                assert!(sector.len() == 512 && sector.iter().all(|byte| *byte == sector[0]), "seed {seed}");
                sector[0]
            });
            seen.insert(sectors.collect::<Vec<u8>>());
        }
        // Not grown; half; both; the later one alone; grown over nothing, and over the first alone.
        let all: [&[u8]; 6] = [b"", b"b", b"bb", b"\0b", b"\0\0", b"b\0"];
        assert_eq!(seen, all.map(<[u8]>::to_vec).into());
    }

    #[test]
    fn the_same_seed_gives_the_same_disk() {
        let (mut disk, file) = durable(10);
        disk.append(file, &[b'b'; 9000]);
        assert_eq!(read(&disk.after_cut(7.into()), LOG), read(&disk.after_cut(7.into()), LOG));
        assert_ne!(read(&disk.after_cut(7.into()), LOG), read(&disk.after_cut(8.into()), LOG));
    }

    #[test]
    fn an_entry_is_durable_by_a_sync_of_its_own_folder_only() {
        let mut disk = Platter::blank();
        disk.make_dir(Path::new("/journal")).unwrap();
        let file = disk.open(Path::new(LOG), How::CreateNew).unwrap();
        disk.append(file, b"abc");
        disk.sync(file);
        disk.sync_dir(Path::new("/journal")).unwrap();
        assert_eq!(
            read(&disk.after_cut(Kept::Nothing), LOG),
            None,
            "its folder is not in the folder above"
        );
        disk.sync_dir(Path::new("/")).unwrap();
        assert_eq!(read(&disk.after_cut(Kept::Nothing), LOG).unwrap(), b"abc");
    }

    #[test]
    fn a_rename_is_the_old_or_the_new_and_never_neither() {
        let (mut disk, _) = durable(3);
        let new = disk.open(Path::new("/journal/new"), How::CreateNew).unwrap();
        disk.append(new, b"new");
        disk.sync(new);
        disk.sync_dir(Path::new("/journal")).unwrap();
        disk.rename(Path::new("/journal/new"), Path::new(LOG)).unwrap();
        let mut seen = BTreeSet::new();
        for seed in 0..50 {
            let after = disk.after_cut(seed.into());
            seen.insert((read(&after, LOG).unwrap(), read(&after, "/journal/new")));
        }
        let (old, new) = (b"aaa".to_vec(), b"new".to_vec());
        assert_eq!(seen, [(old, Some(new.clone())), (new, None)].into());
    }

    #[test]
    fn links_and_removals_come_and_go_like_any_entry() {
        let (mut disk, file) = durable(3);
        disk.link(Path::new(LOG), Path::new("/journal/second")).unwrap();
        assert_eq!(
            disk.link(Path::new(LOG), Path::new("/journal/second")).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(disk.find(Path::new("/journal/second")).unwrap(), file);
        // Two names of one file: a rename of one to the other does nothing.
        disk.rename(Path::new(LOG), Path::new("/journal/second")).unwrap();
        assert!(read(&disk, LOG).is_some());
        disk.remove(Path::new(LOG)).unwrap();
        assert_eq!(read(&disk, LOG), None);
        let after = disk.after_cut(Kept::Nothing);
        assert_eq!((read(&after, LOG).is_some(), read(&after, "/journal/second")), (true, None));
        // A link that is durable keeps what it names, whatever becomes of the first name.
        disk.sync_dir(Path::new("/journal")).unwrap();
        let after = disk.after_cut(Kept::Nothing);
        assert_eq!((read(&after, LOG), read(&after, "/journal/second").is_some()), (None, true));
    }

    #[test]
    fn a_folder_that_is_lost_takes_what_is_in_it_along() {
        let (mut disk, _) = durable(3);
        disk.make_dir(Path::new("/journal/a/b")).unwrap();
        disk.sync_dir(Path::new("/journal/a")).unwrap();
        assert!(disk.after_cut(Kept::Nothing).find(Path::new("/journal/a/b")).is_err());
        disk.sync_dir(Path::new("/journal")).unwrap();
        assert!(disk.after_cut(Kept::Nothing).find(Path::new("/journal/a/b")).is_ok());
    }

    #[test]
    fn what_a_failed_sync_left_in_the_cache_is_never_durable() {
        let (mut disk, file) = durable(3);
        disk.append(file, b"bbb");
        disk.fail_sync(file);
        assert_eq!(read(&disk, LOG).unwrap(), b"aaabbb", "it is still read");
        let mut asked = disk.clone();
        asked.uncache(file, 0);
        assert_eq!(read(&asked, LOG).unwrap(), b"aaa\0\0\0", "the length is still known");
        assert_eq!(
            read(&asked.after_cut(Kept::Everything), LOG).unwrap(),
            b"aaa",
            "and is gone with the power"
        );
        disk.append(file, b"ccc");
        disk.sync(file);
        assert_eq!(read(&disk.after_cut(Kept::Everything), LOG).unwrap(), b"aaa\0\0\0ccc");
        disk.uncache(file, 5);
        assert_eq!(read(&disk, LOG).unwrap(), b"aaabb\0ccc", "the disk is asked from there on");
        disk.uncache(file, 0);
        assert_eq!(read(&disk, LOG).unwrap(), b"aaa\0\0\0ccc", "the disk is asked");
    }

    #[test]
    fn forgetting_the_cache_keeps_what_is_still_to_be_written() {
        let (mut disk, file) = durable(3);
        disk.append(file, b"bbb");
        disk.truncate(file, 4);
        disk.uncache(file, 0);
        assert_eq!(read(&disk, LOG).unwrap(), b"aaab");
    }

    #[test]
    fn a_file_is_no_folder_and_a_folder_no_file() {
        let (mut disk, _) = durable(3);
        let kind = |result: io::Result<Number>| result.unwrap_err().kind();
        assert_eq!(kind(disk.open(Path::new("/journal/log/x"), How::Lock)), ErrorKind::NotADirectory);
        assert_eq!(kind(disk.open(Path::new("/journal"), How::Append)), ErrorKind::IsADirectory);
        assert_eq!(kind(disk.open(Path::new("/journal/none"), How::Append)), ErrorKind::NotFound);
        assert_eq!(kind(disk.open(Path::new(LOG), How::CreateNew)), ErrorKind::AlreadyExists);
        assert_eq!(
            disk.make_dir(Path::new("/journal/log")).unwrap_err().kind(),
            ErrorKind::NotADirectory
        );
        assert_eq!(disk.list(Path::new("journal")).unwrap(), [Path::new("journal/log")]);
    }
}
