//! Whole lines of a file, a piece of it at a time: a log of any size is read with a few hundred kilobytes of memory.

use super::frame::RECORD_CAP;
use crate::disk::DiskFile;
use std::io;

const PIECE: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Lines {
    /// Where the buffer's first byte stands in the file.
    at: u64,
    buffer: Vec<u8>,
    /// What of the buffer was read, and not given out yet.
    start: usize,
    end: usize,
}

impl Lines {
    /// The lines from here on; the first begins here.
    pub(super) fn from(at: u64) -> Self {
        Lines {
            at,
            buffer: Vec::new(),
            start: 0,
            end: 0,
        }
    }

    /// Where the next line begins.
    pub(super) fn place(&self) -> u64 {
        self.at.saturating_add(self.start as u64)
    }

    /// The next line, without its line break, and where it begins; `None` where no whole line is left, or one that is too long to be a record.
    pub(super) fn next(&mut self, file: &mut dyn DiskFile) -> io::Result<Option<(u64, &[u8])>> {
        let mut looked = self.start;
        let end = loop {
            let rest = self.buffer.get(looked..self.end).unwrap_or_default();
            if let Some(len) = memchr::memchr(b'\n', rest) {
                break looked.saturating_add(len);
            }
            let had = self.end.saturating_sub(self.start);
            if had > RECORD_CAP || !self.read_more(file)? {
                return Ok(None);
            }
            looked = self.start.saturating_add(had);
        };
        let (at, line) = (self.place(), self.start..end);
        self.start = end.saturating_add(1);
        Ok(Some((at, self.buffer.get(line).unwrap_or_default())))
    }

    /// Behind what is left over, moved to the front. Says whether anything came.
    fn read_more(&mut self, file: &mut dyn DiskFile) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.at = self.place();
        (self.start, self.end) = (0, self.end.saturating_sub(self.start));
        let room = self.end.saturating_add(PIECE);
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        let from = self.at.saturating_add(self.end as u64);
        loop {
            let into = self.buffer.get_mut(self.end..).unwrap_or_default();
            match file.read_some(from, into) {
                Ok(n) => {
                    self.end = self.end.saturating_add(n);
                    return Ok(n > 0);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}
