//! The file store without its thread, for measuring: what a journal costs on the caller's own thread, and what the hand-over adds.

use super::{FileStore, Keep, Options, birth::unusable, book::Book, compact, open_book};
use crate::{
    clock::SystemClock,
    disk::{Disk as _, RealDisk},
    journal::store::{Compaction, Decide, Mark, Store, StoreError},
};
use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// A folder's book on the caller's own thread. Blocking. For benches; programs use [`Journal`](crate::Journal).
pub struct Core {
    book: Book,
}

/// What the cores and stores that are measured compact: by call only.
fn by_call(keep: Duration) -> Options {
    Options {
        compact_at: u64::MAX,
        keep: Keep::of(keep),
        ..Options::default()
    }
}

impl Core {
    /// Opens, or makes, the folder, and reads all of it.
    ///
    /// # Errors
    /// As [`Journal::open`](crate::Journal::open).
    pub fn open(folder: &Path) -> Result<Core, StoreError> {
        RealDisk.make_dir(folder).map_err(|e| unusable(folder, e))?;
        let spent = Arc::new(AtomicBool::new(false));
        let (book, _) = open_book(folder, Arc::new(RealDisk), Arc::new(SystemClock), by_call(Duration::ZERO), spent)?;
        Ok(Core { book })
    }

    /// One turn: written, not durable.
    ///
    /// # Errors
    /// The decision's own, and the disk's.
    pub fn turn(&mut self, decide: Decide) -> Result<Mark, StoreError> {
        let mut decided = self.book.turns(vec![decide])?;
        decided.pop().unwrap_or_else(|| Err(crate::journal::memory::closed()))
    }

    /// Everything before the mark survives a power cut.
    ///
    /// # Errors
    /// The sync failed, or an earlier one did.
    pub fn durable(&mut self, upto: Mark) -> Result<(), StoreError> {
        self.book.durable(upto)
    }

    /// Moves what is settled and older than `keep` to the archive, from beginning to end on this thread.
    ///
    /// # Errors
    /// As [`Journal::compact`](crate::Journal::compact).
    pub fn compact(&mut self, keep: Duration) -> Result<Compaction, StoreError> {
        self.book.files.options.keep = Keep::of(keep);
        match compact::plan(&mut self.book)? {
            None => Ok(compact::nothing(&self.book)),
            Some(plan) => compact::swap(&mut self.book, compact::copy(plan)?),
        }
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Core")
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.book.give_up_ownership();
    }
}

/// The file store with its own thread, as [`Journal::open`](crate::Journal::open) makes it; compacted by call only, and then of everything that is
/// settled.
///
/// # Errors
/// As [`Journal::open`](crate::Journal::open).
pub async fn store(folder: &Path) -> Result<Arc<dyn Store>, StoreError> {
    let opened = FileStore::open(
        folder.to_owned(),
        Arc::new(RealDisk),
        Arc::new(SystemClock),
        by_call(Duration::ZERO),
    )
    .await?;
    Ok(opened)
}
