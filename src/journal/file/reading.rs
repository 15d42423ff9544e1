//! What the book learns from the log: at an opening, of what others append, and of a log that another process compacted.

use super::{
    birth,
    book::Book,
    frame::{self, What},
    index::{Index, Place},
    lines::Lines,
    origins::Origins,
    recover::{self, Chain, Mended},
};
use crate::{
    disk::How,
    journal::store::{Mark, StoreError},
};

/// How much of a log is read before its index is given room for all of it.
const SAMPLE: u64 = 1 << 20;

impl Book {
    /// Reads the whole log, and mends what is torn under the folder's lock.
    pub(super) fn read(&mut self) -> Result<(), StoreError> {
        self.sync_what_is_there()?;
        self.read_ahead()?;
        self.distrust_the_cache()?;
        self.locked(|_| Ok(()))?;
        // What stood in the log was synced before it was read; what mending wrote is synced here.
        self.durable(self.mark())
    }

    /// Pages that a failed sync of an earlier process left behind look healthy and are not on disk: a sync comes before belief.
    fn sync_what_is_there(&mut self) -> Result<(), StoreError> {
        let files = &mut self.files;
        files.log.sync().map_err(|e| StoreError::io("syncing", &files.path, e))?;
        let synced = files.disk.sync_dir(&files.folder);
        synced.map_err(|e| StoreError::io("syncing", &files.folder, e))
    }

    /// Without the lock, so that nobody stands still meanwhile: reads as long as each line is plainly the next record. What is not is left to
    /// [`catch_up`](Book::catch_up), since without the lock a half-written line could be met, and that is not ours to mend.
    pub(super) fn read_ahead(&mut self) -> Result<(), StoreError> {
        let mut lines = Lines::from(self.len);
        let there = self.files.log.size().map_err(|e| self.unreadable(e))?;
        let mut sample = SAMPLE;
        while let Some((at, line)) = lines.next(self.files.log.as_mut()).map_err(|e| self.unreadable(e))? {
            let Some(frame) = self.chain.step(line) else { break };
            let len = line.len().saturating_add(1);
            self.witnessed = self.witnessed.max(frame.synced);
            self.len = at.saturating_add(len as u64);
            self.learn(&frame.what, Place { at, len });
            self.ahead = Some((Place { at, len }, frame.crc));
            if self.len > sample {
                // As the beginning is, so is the rest, more or less.
                let orders = u128::from(there).saturating_mul(self.index.len() as u128) / u128::from(self.len);
                self.index.expect(usize::try_from(orders).unwrap_or(0));
                sample = u64::MAX;
            }
        }
        Ok(())
    }

    /// Under the lock: what was read ahead without it stands there still. A writer whose disk was full cuts back what it wrote of a batch, and
    /// whole lines of it may have been read; then all is read anew.
    pub(super) fn make_sure_of_what_was_read_ahead(&mut self, there: u64) -> Result<(), StoreError> {
        let Some((place, crc)) = self.ahead.take() else { return Ok(()) };
        let stands = self.len <= there && {
            let line = self.files.log.read_at(place.at, place.len).map_err(|e| self.unreadable(e))?;
            frame::decode(line.strip_suffix(b"\n").unwrap_or(&line)).is_ok_and(|frame| frame.crc == crc)
        };
        if !stands {
            self.forget();
            self.read_ahead()?;
            self.ahead = None;
        }
        Ok(())
    }

    /// As before anything of the log was read.
    fn forget(&mut self) {
        (self.index, self.chain) = (Index::new(), Chain::START);
        (self.len, self.synced, self.witnessed, self.compacted) = (0, 0, 0, 0);
        self.torn_origins.clear();
        self.ahead = None;
    }

    /// What no record witnesses as durable is read once more, past the page cache; where the disk holds something else, everything is.
    fn distrust_the_cache(&mut self) -> Result<(), StoreError> {
        let from = self.witnessed.min(self.len);
        let len = usize::try_from(self.len.saturating_sub(from)).unwrap_or(usize::MAX);
        let log = &mut self.files.log;
        let cached = log.read_at(from, len);
        // A wish that not every file system grants.
        drop(log.uncache(from));
        let on_disk = log.read_at(from, len);
        let (cached, on_disk) = cached.and_then(|cached| Ok((cached, on_disk?))).map_err(|e| self.unreadable(e))?;
        if cached != on_disk {
            tracing::warn!(path = %self.files.path.display(), "the page cache showed what is not on disk: the journal is read anew");
            self.forget();
            self.read_ahead()?;
        }
        Ok(())
    }

    pub(super) fn unreadable(&self, error: std::io::Error) -> StoreError {
        StoreError::io("reading", &self.files.path, error)
    }

    /// Another log stands at the path. If it is ours, compacted by somebody, goes on with that one; under the lock, so that log and runs belong
    /// together.
    pub(super) fn turn_the_page(&mut self) -> Result<(), StoreError> {
        let (path, folder, disk) = (&self.files.path, &self.files.folder, &self.files.disk);
        let mut log = disk.open(path, How::Append).map_err(|e| StoreError::io("opening", path, e))?;
        let birth = birth::read(path, log.as_mut())?;
        if birth.id != self.birth.id || birth.compactions <= self.birth.compactions {
            return Err(self.gone("replaced"));
        }
        let origins = Origins::open(folder, disk, birth.after)?;
        let is = log.identity().map_err(|e| StoreError::io("looking at", path, e))?;
        (self.files.log, self.files.log_is) = (log, is);
        (self.birth, self.origins) = (birth, origins);
        Ok(())
    }

    /// What this process knew to be written is in the new log, or in the archive, and durable there, once it is synced: whoever compacted had
    /// synced it before it took its place. Marks go on from where they were.
    pub(super) fn read_anew(&mut self, before: Mark) -> Result<(), StoreError> {
        self.sync_what_is_there()?;
        self.before = before.0;
        self.forget();
        self.read_ahead()?;
        self.files.written.send_replace(self.mark().0);
        Ok(())
    }

    pub(super) fn learn(&mut self, what: &What, place: Place) {
        match what {
            What::Order { key, standing, claim } => self.index.add(*key, *standing, *claim, place),
            What::Book { name: "hole", data } => {
                if let Ok(mended) = serde_json::from_str::<Mended>(data) {
                    self.close_origins(&mended, place.at);
                }
            }
            // Compaction ends with one, and copies none.
            What::Book { name: "witness", .. } if self.birth.compactions > 0 && self.compacted == 0 => {
                self.compacted = place.at.saturating_add(place.len as u64);
            }
            What::Book { .. } => {}
        }
    }

    pub(super) fn close_origins(&mut self, mended: &Mended, at: u64) {
        let hashes = mended.origins.iter().filter_map(|hex| frame::from_hex(hex));
        self.torn_origins.extend(hashes.map(|hash| (hash, at)));
    }

    /// Under the lock: reads what others appended, and mends what one that died left unfinished.
    pub(super) fn catch_up(&mut self, there: u64) -> Result<(), StoreError> {
        if there == self.len {
            return Ok(());
        }
        let bytes = self.files.log.read_from(self.len).map_err(|e| self.unreadable(e))?;
        let before = self.chain;
        let found = recover::scan(&self.files.path, &bytes, self.len, before)?;
        for placed in &found.records {
            let place = Place {
                at: placed.at,
                len: placed.len,
            };
            self.witnessed = self.witnessed.max(placed.frame.synced);
            // Nobody needs a word that somebody's last word is durable: two who wait for news would tell each other for ever.
            if matches!(placed.frame.what, What::Book { name: "witness", .. }) && placed.frame.synced == placed.at {
                self.witnessed = placed.at.saturating_add(placed.len as u64);
            }
            self.learn(&placed.frame.what, place);
        }
        self.chain = found.chain;
        self.len = match &found.tail {
            Some(tail) => tail.at,
            None => self.len.saturating_add(bytes.len() as u64),
        };
        // Half-mended, the next turn would go past what is torn.
        self.mend(before, &found).map_err(|error| self.poisoned(error))?;
        self.files.written.send_replace(self.mark().0);
        Ok(())
    }

    fn mend(&mut self, before: Chain, found: &recover::Scan) -> Result<(), StoreError> {
        if found.unended && found.tail.is_none() {
            self.append_raw(b"\n")?;
        }
        for hole in &found.holes {
            let report = self.fill(hole, before, &found.records)?;
            self.torn.push(report);
        }
        if let Some(tail) = &found.tail {
            let report = self.cut(tail)?;
            self.torn.push(report);
        }
        Ok(())
    }
}
