//! `Disk`: the few calls a journal makes to a file system. A trait, so that a test can record them, fail the n-th, or lose what was not synced;
//! and `RealDisk`, which is the operating system.
//!
//! Blocking on purpose: called on the journal's own thread only.

use std::{
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Read and append; it exists.
    Append,
    /// Read and write at a place; it exists. For closing a hole.
    Mend,
    /// Read and append; it must not exist (mode 0600).
    CreateNew,
    /// To be locked; made if missing (mode 0600).
    Lock,
}

/// Which file it is, whatever it is called: device and inode, where the platform has them.
pub type Identity = (u64, u64);

/// What kind of file system a folder is on. It decides what a lock and a sync are worth there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileSystem {
    /// A local disk, or one that we know nothing against.
    Local,
    /// Shared over a network, by this name (`nfs`, `smb`, `9p`): locks may hold on this machine only, and a sync may promise less.
    Network(&'static str),
    /// Gone with the machine or the container, by this name (`tmpfs`, `ramfs`, `overlay`): a sync does nothing there, or for nothing.
    Memory(&'static str),
}

/// A file system as the journal uses it.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a folder and those above it (mode 0700); fine if it is there.
    fn make_dir(&self, folder: &Path) -> io::Result<()>;
    /// Opens a file. A symbolic link in its place is refused.
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>>;
    /// Renames, over what was there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name; fails where that name is taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the folder's entries durable.
    fn sync_dir(&self, folder: &Path) -> io::Result<()>;
    /// The folder's entries.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
    /// Which file stands at the path.
    fn identity(&self, path: &Path) -> io::Result<Identity>;
    /// Which file stands at the path; and its length, where the same look tells it. Default: [`identity`](Disk::identity) alone.
    fn look(&self, path: &Path) -> io::Result<(Identity, Option<u64>)> {
        Ok((self.identity(path)?, None))
    }
    /// What kind of file system this is. Default: a local one.
    fn file_system(&self, folder: &Path) -> io::Result<FileSystem> {
        let _ = folder;
        Ok(FileSystem::Local)
    }
}

/// One open file.
pub trait DiskFile: Send + fmt::Debug {
    /// One write at the end; may be short.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Writes all of it at the end, by as many writes as it takes; goes on after a signal.
    fn append_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.append(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
    /// Overwrites at a place, whole. With [`How::Mend`] only.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads everything from `at` to the end.
    fn read_from(&mut self, at: u64) -> io::Result<Vec<u8>>;
    /// Reads exactly `len` bytes at `at`.
    fn read_at(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>>;
    /// One read into a buffer; how many bytes came, 0 at the end.
    fn read_some(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Has what is cached of the file from there on forgotten, so that the next read asks the disk. A wish: pages not yet written stay.
    /// Default: nothing.
    fn uncache(&mut self, from: u64) -> io::Result<()> {
        let _ = from;
        Ok(())
    }
    /// The length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Cuts to a length.
    fn truncate(&mut self, to: u64) -> io::Result<()>;
    /// Makes contents and length durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Which file it is.
    fn identity(&self) -> io::Result<Identity>;
    /// Waits for the exclusive lock.
    fn lock(&mut self) -> io::Result<()>;
    /// Takes the exclusive lock if nobody has it.
    fn try_lock(&mut self) -> io::Result<bool>;
    /// Gives the lock up.
    fn unlock(&mut self) -> io::Result<()>;
}

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn identity_of(meta: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

/// Without inodes, the time a file was made has to do.
#[cfg(not(unix))]
fn identity_of(meta: &fs::Metadata) -> Identity {
    let made = meta.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    (0, made.map_or(0, |d| d.as_nanos() as u64))
}

impl Disk for RealDisk {
    fn make_dir(&self, folder: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)
    }

    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>> {
        let symbolic = || io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link");
        if fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_symlink()) {
            return Err(symbolic());
        }
        let mut options = OpenOptions::new();
        options.read(true);
        // One that was put there since the look is refused by the system itself.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        match how {
            How::Append => options.append(true),
            How::Mend => options.write(true),
            How::CreateNew => private(&mut options).append(true).create_new(true),
            How::Lock => private(&mut options).append(true).create(true),
        };
        Ok(Box::new(RealFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    #[cfg(unix)]
    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    /// A folder can't be synced here; its entries are made durable with their files.
    #[cfg(not(unix))]
    fn sync_dir(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        Ok(identity_of(&fs::metadata(path)?))
    }

    fn look(&self, path: &Path) -> io::Result<(Identity, Option<u64>)> {
        let meta = fs::metadata(path)?;
        Ok((identity_of(&meta), Some(meta.len())))
    }

    #[cfg(target_os = "linux")]
    fn file_system(&self, folder: &Path) -> io::Result<FileSystem> {
        // Linux, include/uapi/linux/magic.h; CIFS and SMB2 from fs/smb; the widths differ by platform, the low 32 bits do not.
        let magic = rustix::fs::statfs(folder)?.f_type as u32;
        Ok(match magic {
            0x6969 => FileSystem::Network("nfs"),
            0x517b | 0xff53_4d42 | 0xfe53_4d42 => FileSystem::Network("smb"),
            0x0102_1997 => FileSystem::Network("9p"),
            0x0102_1994 => FileSystem::Memory("tmpfs"),
            0x8584_58f6 => FileSystem::Memory("ramfs"),
            0x794c_7630 => FileSystem::Memory("overlay"),
            _ => FileSystem::Local,
        })
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(at))?;
        self.0.write_all(bytes)
    }

    fn read_from(&mut self, at: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.seek(SeekFrom::Start(at))?;
        self.0.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_at(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut have = 0;
        while let Some(rest) = bytes.get_mut(have..).filter(|rest| !rest.is_empty()) {
            match self.read_some(at.saturating_add(have as u64), rest) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => have = have.saturating_add(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(bytes)
    }

    #[cfg(unix)]
    fn read_some(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, into, at)
    }

    #[cfg(not(unix))]
    fn read_some(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.seek(SeekFrom::Start(at))?;
        self.0.read(into)
    }

    #[cfg(target_os = "linux")]
    fn uncache(&mut self, from: u64) -> io::Result<()> {
        // A piece of the cache is dropped whole or not at all, and pieces may be as large as this.
        const PIECE: u64 = 4 << 20;
        let from = from - from % PIECE;
        Ok(rustix::fs::fadvise(&self.0, from, None, rustix::fs::Advice::DontNeed)?)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn truncate(&mut self, to: u64) -> io::Result<()> {
        self.0.set_len(to)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn identity(&self) -> io::Result<Identity> {
        Ok(identity_of(&self.0.metadata()?))
    }

    /// std does not go on waiting after a signal; we do.
    fn lock(&mut self) -> io::Result<()> {
        loop {
            match self.0.lock() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn try_lock(&mut self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn unlock(&mut self) -> io::Result<()> {
        self.0.unlock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes at a time what it is told to, and says no as it is told to.
    #[derive(Debug)]
    struct Moody {
        taken: Vec<u8>,
        moods: Vec<io::Result<usize>>,
    }

    impl DiskFile for Moody {
        fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = self.moods.pop().unwrap_or(Ok(bytes.len()))?.min(bytes.len());
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }
        fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
            unreachable!()
        }
        fn read_from(&mut self, _: u64) -> io::Result<Vec<u8>> {
            unreachable!()
        }
        fn read_at(&mut self, _: u64, _: usize) -> io::Result<Vec<u8>> {
            unreachable!()
        }
        fn read_some(&mut self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            unreachable!()
        }
        fn size(&self) -> io::Result<u64> {
            unreachable!()
        }
        fn truncate(&mut self, _: u64) -> io::Result<()> {
            unreachable!()
        }
        fn sync(&mut self) -> io::Result<()> {
            unreachable!()
        }
        fn identity(&self) -> io::Result<Identity> {
            unreachable!()
        }
        fn lock(&mut self) -> io::Result<()> {
            unreachable!()
        }
        fn try_lock(&mut self) -> io::Result<bool> {
            unreachable!()
        }
        fn unlock(&mut self) -> io::Result<()> {
            unreachable!()
        }
    }

    #[test]
    fn all_of_it_is_written_or_the_caller_is_told() {
        let file = |moods| Moody { taken: Vec::new(), moods };
        let signal = || Err(io::ErrorKind::Interrupted.into());
        let mut short = file(vec![Ok(2), signal(), Ok(1)]);
        short.append_all(b"record").unwrap();
        assert_eq!(short.taken, b"record");
        // A write that takes nothing must not lose a byte, nor go on for ever.
        let mut stuck = file(vec![Ok(0), Ok(3)]);
        assert_eq!(stuck.append_all(b"record").unwrap_err().kind(), io::ErrorKind::WriteZero);
        assert_eq!(stuck.taken, b"rec");
        let mut full = file(vec![Err(io::ErrorKind::StorageFull.into())]);
        assert_eq!(full.append_all(b"record").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
