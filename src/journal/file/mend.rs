//! Closing what is torn: under the folder's lock, never without a copy, and with a record left that says so (R12).

use super::{
    book::Book,
    frame::{self, Body, Frame, RECORD_CAP},
    recover::{self, Chain, Hole, Mended},
};
use crate::{
    disk::How,
    journal::store::{StoreError, StoreErrorKind, TornReport},
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
        // A mark, not an offset: in a log that was followed they differ.
        self.durable(self.mark())?;
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
        self.chain = self.chain.then(seq, crc);
        self.close_origins(mended, tail.at);
        Ok(())
    }

    /// A torn place with records behind it: copied aside, and overwritten, to the byte, by a record that says so; by several, where several large
    /// records were lost, since a line longer than any record would be none itself.
    pub(super) fn fill(&mut self, hole: &Hole, known: Chain, records: &[recover::Placed]) -> Result<TornReport, StoreError> {
        let before = records.iter().rev().find(|r| r.at < hole.at).map(|r| &r.frame);
        let behind = records.iter().find(|r| r.at > hole.at).map(|r| &r.frame);
        let (mended, report) = self.set_aside(hole, behind)?;
        let mut seq = before.map_or(known.seq, |f| f.seq);
        let mut prev = before.map_or(known.prev, recover::next_prev);
        let room = usize::try_from(hole.len).unwrap_or(usize::MAX);
        let parts = room.div_ceil(RECORD_CAP).max(1);
        let share = room / parts;
        let mut filling = Vec::new();
        for part in 1..=parts {
            seq = seq.saturating_add(1);
            let mut said = Mended {
                after: mended.after.clone().filter(|_| part == parts),
                origins: if part == 1 { mended.origins.clone() } else { Vec::new() },
                copy: mended.copy.clone().filter(|_| part == 1),
            };
            let room_here = if part == parts { room.saturating_sub(filling.len()) } else { share };
            let mut made = self.as_long_as(room_here, &said, seq, prev)?;
            if made.is_none() {
                // The copy's name is a courtesy; without it the record is no longer than any that can have stood here.
                said.copy = None;
                made = self.as_long_as(room_here, &said, seq, prev)?;
            }
            let Some((line, crc)) = made else {
                let text = format!(
                    "journal at {} has {room} bytes at {} that were never a record: nothing is sent; a person must look",
                    self.files.path.display(),
                    hole.at
                );
                return Err(StoreError::new(StoreErrorKind::Corrupt, text));
            };
            filling.extend_from_slice(&line);
            prev = crc;
        }
        let path = self.files.path.clone();
        let failed = move |e| StoreError::io("mending", &path, e);
        let mut log = self.files.disk.open(&self.files.path, How::Mend).map_err(&failed)?;
        log.write_at(hole.at, &filling).map_err(&failed)?;
        log.sync().map_err(&failed)?;
        self.close_origins(&mended, hole.at);
        Ok(report)
    }

    /// The line of a `hole` record, and its checksum; `None` where it is longer than that.
    fn as_long_as(&self, room: usize, said: &Mended, seq: u64, prev: u32) -> Result<Option<(Vec<u8>, u32)>, StoreError> {
        let line = |blanks| {
            let mut line = Vec::new();
            let crc = frame::encode(&mut line, seq, &self.hole_record(said, blanks)?, self.synced, prev);
            Ok::<_, StoreError>((line, crc))
        };
        let blanks = room.checked_sub(line(0)?.0.len());
        blanks.map(line).transpose()
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
        let mut origins = recover::closed_origins(&bytes, behind.is_some());
        // Each compaction begins a log anew, and its offsets.
        let name = match self.birth.compactions {
            0 => format!("torn-{}", hole.at),
            log => format!("torn-log{log}-{}", hole.at),
        };
        let mut names = (0u32..).map(|n| match n {
            0 => archive.join(&name),
            n => archive.join(format!("{name}-{n}")),
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
                    origins.extend(recover::closed_origins(&earlier.map_err(failed)?, behind.is_some()));
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
