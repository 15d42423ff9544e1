//! Closing what is torn: under the folder's lock, never without a copy, and with a record left that says so (R12).

use super::{
    book::Book,
    frame::{self, Body, Frame},
    recover::{self, Chain, Hole, Mended},
};
use crate::{
    disk::How,
    journal::store::{Mark, StoreError, StoreErrorKind, TornReport},
};

impl Book {
    /// A torn tail: copied aside, cut, and a record left that says so.
    pub(super) fn cut(&mut self, tail: &Hole) -> Result<TornReport, StoreError> {
        let (mended, report) = self.set_aside(tail, None)?;
        if mended.origins.is_empty() {
            let path = self.files.path.clone();
            self.files.log.truncate(tail.at).map_err(|e| StoreError::io("mending", &path, e))?;
            self.append(self.hole_record(&mended, 0)?)?;
        } else {
            self.close_over(tail, &mended)?;
        }
        self.durable(Mark(self.len))?;
        Ok(report)
    }

    /// A torn tail that closes origins: the record that says so is there before anything is cut, however this ends.
    fn close_over(&mut self, tail: &Hole, mended: &Mended) -> Result<(), StoreError> {
        let body = self.hole_record(mended, 0)?;
        let seq = self.chain.seq.saturating_add(1);
        let mut line = Vec::new();
        let crc = frame::encode(&mut line, seq, &body, self.synced, self.chain.prev);
        let end = tail.at.saturating_add(line.len() as u64);
        let path = self.files.path.clone();
        let failed = move |e| StoreError::io("mending", &path, e);
        let mut log = self.files.disk.open(&self.files.path, How::Mend).map_err(&failed)?;
        log.write_at(tail.at, &line).map_err(&failed)?;
        log.sync().map_err(&failed)?;
        log.truncate(end).map_err(&failed)?;
        log.sync().map_err(&failed)?;
        self.len = end;
        self.chain = Chain {
            seq,
            prev: crc,
            lines: self.chain.lines.saturating_add(1),
        };
        self.close_origins(mended, tail.at);
        Ok(())
    }

    /// A torn place with records behind it: copied aside, and overwritten, to the byte, by a record that says so.
    pub(super) fn fill(&mut self, hole: &Hole, known: Chain, records: &[recover::Placed]) -> Result<TornReport, StoreError> {
        let before = records.iter().rev().find(|r| r.at < hole.at).map(|r| &r.frame);
        let behind = records.iter().find(|r| r.at > hole.at).map(|r| &r.frame);
        let (mut mended, report) = self.set_aside(hole, behind)?;
        let seq = before.map_or(known.seq, |f| f.seq).saturating_add(1);
        let prev = before.map_or(known.prev, recover::next_prev);
        let room = usize::try_from(hole.len).unwrap_or(usize::MAX);
        let encoded = |book: &Book, mended: &Mended, blanks| {
            let body = book.hole_record(mended, blanks)?;
            let mut line = Vec::new();
            frame::encode(&mut line, seq, &body, book.synced, prev);
            Ok::<_, StoreError>((line, body))
        };
        if encoded(self, &mended, 0)?.0.len() > room {
            // The copy's name is a courtesy; without it the record is no longer than any that can have stood here.
            mended.copy = None;
        }
        let Some(blanks) = room.checked_sub(encoded(self, &mended, 0)?.0.len()) else {
            let text = format!(
                "journal at {} has {room} bytes at {} that were never a record: nothing is sent; a person must look",
                self.files.path.display(),
                hole.at
            );
            return Err(StoreError::new(StoreErrorKind::Corrupt, text));
        };
        let (line, _) = encoded(self, &mended, blanks)?;
        let path = self.files.path.clone();
        let failed = move |e| StoreError::io("mending", &path, e);
        let mut log = self.files.disk.open(&self.files.path, How::Mend).map_err(&failed)?;
        log.write_at(hole.at, &line).map_err(&failed)?;
        log.sync().map_err(&failed)?;
        self.close_origins(&mended, hole.at);
        Ok(report)
    }

    /// Blanks behind the data are JSON too: they fill a hole to the byte.
    fn hole_record(&self, mended: &Mended, blanks: usize) -> Result<Body, StoreError> {
        let data = serde_json::to_string(mended).map_err(|e| StoreError::new(StoreErrorKind::Refused, e.to_string()))?;
        Ok(Body::Book {
            name: "hole",
            at: self.files.clock.now(),
            data: data + &" ".repeat(blanks),
        })
    }

    /// Nothing is ever cut without a copy.
    fn set_aside(&mut self, hole: &Hole, behind: Option<&Frame>) -> Result<(Mended, TornReport), StoreError> {
        let len = usize::try_from(hole.len).unwrap_or(usize::MAX);
        let bytes = self
            .files
            .log
            .read_at(hole.at, len)
            .map_err(|e| StoreError::io("reading", &self.files.path, e))?;
        let archive = self.files.folder.join("archive");
        let failed = |e| StoreError::io("setting a torn record aside in", &archive, e);
        self.files.disk.make_dir(&archive).map_err(failed)?;
        let mut origins = recover::closed_origins(&bytes);
        let mut names = (0u32..).map(|n| match n {
            0 => archive.join(format!("torn-{}", hole.at)),
            n => archive.join(format!("torn-{}-{n}", hole.at)),
        });
        let (copy, mut file) = loop {
            let Some(copy) = names.next() else {
                return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
            };
            match self.files.disk.open(&copy, How::CreateNew) {
                Ok(file) => break (copy, file),
                // Mending was cut short here once: what it has overwritten stands in its copy.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                    let earlier = self.files.disk.open(&copy, How::Append).and_then(|mut file| file.read_from(0));
                    origins.extend(recover::closed_origins(&earlier.map_err(failed)?));
                }
                Err(e) => return Err(failed(e)),
            }
        };
        origins.sort();
        origins.dedup();
        file.append_all(&bytes).map_err(failed)?;
        file.sync().map_err(failed)?;
        self.files.disk.sync_dir(&archive).map_err(failed)?;
        self.files.disk.sync_dir(&self.files.folder).map_err(failed)?;
        let mended = Mended {
            after: behind.map(|frame| format!("{:08x}", frame.prev)),
            origins,
            copy: Some(copy.strip_prefix(&self.files.folder).unwrap_or(&copy).display().to_string()),
        };
        let report = TornReport {
            offset: hole.at,
            bytes: hole.len,
            copy,
        };
        Ok((mended, report))
    }
}
