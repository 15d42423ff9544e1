//! Reading a log's bytes: which lines are records, what is torn, what is damaged. Pure; `writer.rs` mends what this finds.
//!
//! A hole that a later record witnesses as synced is damage: something durable is gone, and nothing may be sent. A hole nobody witnesses is
//! torn: its writer never heard that it was durable, so nobody acted on it (R12).

use super::frame::{self, Bad, Frame, RECORD_CAP, What, decode};
use crate::{
    journal::store::{StoreError, StoreErrorKind},
    origin::Hash,
};
use std::{ops::Range, path::Path};

/// Where the chain of checksums stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    /// The last record's number; 0 before the first.
    pub(super) seq: u64,
    /// What the next record must name as its predecessor's checksum.
    pub(super) prev: u32,
    /// How many lines were read.
    pub(super) lines: u64,
}

impl Chain {
    pub(super) const START: Chain = Chain { seq: 0, prev: 0, lines: 0 };

    /// A missing, doubled or swapped record shows here: no power cut takes whole lines out of the middle.
    fn goes_on_with(&self, frame: &Frame) -> bool {
        frame.prev == self.prev && frame.seq > self.seq
    }

    /// A line further: behind a record of this number, whose successor must name this checksum.
    pub(super) fn then(self, seq: u64, prev: u32) -> Chain {
        Chain {
            seq,
            prev,
            lines: self.lines.saturating_add(1),
        }
    }

    /// With the record of a line that is plainly the next; `None` where it needs a closer look.
    pub(super) fn step(&mut self, line: &[u8]) -> Option<Frame> {
        decode(line).ok().filter(|frame| self.follow(frame))
    }

    /// Goes on to this record, if it is plainly the next.
    pub(super) fn follow(&mut self, frame: &Frame) -> bool {
        let next = self.goes_on_with(frame);
        if next {
            *self = self.then(frame.seq, next_prev(frame));
        }
        next
    }
}

/// A record and where it stands.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) frame: Frame,
    pub(super) at: u64,
    pub(super) len: usize,
}

/// Bytes that are no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) at: u64,
    pub(super) len: u64,
    /// 1-based.
    line: u64,
    newer: Option<u64>,
}

/// What was read.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) records: Vec<Placed>,
    /// Torn, with valid records behind them.
    pub(super) holes: Vec<Hole>,
    /// Torn, with nothing behind it.
    pub(super) tail: Option<Hole>,
    /// The last record is whole but for its line break.
    pub(super) unended: bool,
    pub(super) chain: Chain,
}

/// Reads `bytes`, which stand at `base` in the log at `path`, behind `chain`.
pub(super) fn scan(path: &Path, bytes: &[u8], base: u64, chain: Chain) -> Result<Scan, StoreError> {
    let mut found = Scan {
        records: Vec::new(),
        holes: Vec::new(),
        tail: None,
        unended: false,
        chain,
    };
    let mut open: Option<Hole> = None;
    for (place, ended) in lines(bytes) {
        found.chain.lines = found.chain.lines.saturating_add(1);
        let line = bytes.get(place.clone()).unwrap_or_default();
        match record_in(line) {
            Ok((skipped, frame)) => {
                let start = place.start.saturating_add(skipped);
                if skipped > 0 {
                    grow(&mut open, base, place.start..start, found.chain.lines, None);
                }
                if open.is_none() && !found.chain.goes_on_with(&frame) {
                    return Err(corrupt(
                        path,
                        found.chain.lines,
                        "a record before it is missing, doubled or out of place",
                    ));
                }
                found.chain.seq = frame.seq;
                found.chain.prev = next_prev(&frame);
                found.unended = !ended;
                found.holes.extend(open.take());
                let len = place.end.saturating_sub(start).saturating_add(usize::from(ended));
                found.records.push(Placed {
                    frame,
                    at: base.saturating_add(start as u64),
                    len,
                });
            }
            Err(bad) => {
                let newer = match bad {
                    Bad::Version(n) => Some(n),
                    Bad::Broken => None,
                };
                let end = place.end.saturating_add(usize::from(ended));
                grow(&mut open, base, place.start..end, found.chain.lines, newer);
            }
        }
    }
    if let Some(tail) = &open {
        found.chain.lines = tail.line.saturating_sub(1);
    }
    found.tail = open;
    judge(path, &found)?;
    Ok(found)
}

/// The lines, without their breaks; and whether a break stood there.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (Range<usize>, bool)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let (end, ended) = match memchr::memchr(b'\n', rest) {
            Some(at) => (start.saturating_add(at), true),
            None => (bytes.len(), false),
        };
        let place = start..end;
        start = end.saturating_add(usize::from(ended));
        Some((place, ended))
    })
}

/// The record in a line; where the line's front is torn (lost sectors read as zero bytes and hold no line break, and a line break can be
/// damaged like any byte), the one at its end.
fn record_in(line: &[u8]) -> Result<(usize, Frame), Bad> {
    if line.len() > RECORD_CAP {
        return Err(Bad::Broken);
    }
    let whole = decode(line);
    if let Err(Bad::Broken) = whole {
        const START: &[u8] = b"{\"v\":1,\"seq\":\"";
        let starts = || line.windows(START.len()).enumerate().skip(1).filter(|(_, window)| *window == START);
        // Between these two only an order's own contents could look like a record, and theirs does not reach the line's end.
        for (start, _) in starts().next().into_iter().chain(starts().next_back()) {
            if let Some(Ok(frame)) = line.get(start..).map(decode) {
                return Ok((start, frame));
            }
        }
    }
    whole.map(|frame| (0, frame))
}

fn grow(open: &mut Option<Hole>, base: u64, range: Range<usize>, line: u64, newer: Option<u64>) {
    let end = base.saturating_add(range.end as u64);
    match open {
        Some(hole) => hole.len = end.saturating_sub(hole.at),
        None => {
            let at = base.saturating_add(range.start as u64);
            let len = end.saturating_sub(at);
            *open = Some(Hole { at, len, line, newer });
        }
    }
}

/// What the record behind this one must name. A `hole` record stands for lost ones and says what their last would have been.
pub(super) fn next_prev(frame: &Frame) -> u32 {
    if let What::Book { name: "hole", data } = &frame.what
        && let Ok(Mended { after: Some(after), .. }) = serde_json::from_str::<Mended>(data)
        && let Ok(after) = u32::from_str_radix(&after, 16)
    {
        return after;
    }
    frame.crc
}

/// Torn or damaged?
fn judge(path: &Path, found: &Scan) -> Result<(), StoreError> {
    for hole in found.holes.iter().chain(&found.tail) {
        if let Some(version) = hole.newer {
            let text = format!(
                "journal at {} holds a record of version {version} in line {}: it was written by a newer uketsuke. Nothing was changed; \
                 use that version",
                path.display(),
                hole.line
            );
            return Err(StoreError::new(StoreErrorKind::UnsupportedVersion, text));
        }
        let witnessed = found.records.iter().any(|r| r.at > hole.at && r.frame.synced > hole.at);
        if witnessed {
            return Err(corrupt(path, hole.line, "it had been durable, and can't be read"));
        }
    }
    Ok(())
}

fn corrupt(path: &Path, line: u64, what: &str) -> StoreError {
    let text = format!(
        "journal at {} is damaged in line {line}: {what}. Nothing was changed and nothing will be sent; restore the file, or have a person \
         look",
        path.display()
    );
    StoreError::new(StoreErrorKind::Corrupt, text)
}

/// What a `hole` record says. With `after` alone it is no longer than any record, so that it fits into the place of each.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mended {
    /// The checksum that the record behind it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
    /// Origins whose claims stood in it and may have been acted on: closed until a person looks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) origins: Vec<String>,
    /// Where the torn bytes were copied to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) copy: Option<String>,
}

/// Origins still readable in torn bytes. An unfinished write (one line's front, ended by nothing) never returned to its writer, so nobody acted
/// on it: its origin stays free. With records behind it, it was finished: what follows was written after it, and its line break alone is lost.
pub(super) fn closed_origins(torn: &[u8], followed: bool) -> Vec<String> {
    let unfinished = !followed && torn.starts_with(b"{\"v\":1,\"seq\":\"") && !torn.iter().any(|b| matches!(b, 0 | b'\n'));
    if unfinished {
        return Vec::new();
    }
    after_each(torn, b"\"origin\":\"", 64)
        .filter(|hash| frame::from_hex(hash).is_some_and(|hash| hash != Hash::default()))
        .map(str::to_owned)
        .collect()
}

fn after_each<'a>(bytes: &'a [u8], mark: &'a [u8], len: usize) -> impl Iterator<Item = &'a str> {
    bytes
        .windows(mark.len())
        .enumerate()
        .filter(move |(_, window)| *window == mark)
        .filter_map(move |(at, _)| {
            let start = at.checked_add(mark.len())?;
            std::str::from_utf8(bytes.get(start..start.checked_add(len)?)?).ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Timestamp, journal::file::frame::Body};

    fn log(records: usize, synced: impl Fn(usize, u64) -> u64) -> (Vec<u8>, Vec<u64>) {
        let (mut bytes, mut starts, mut prev) = (Vec::new(), Vec::new(), 0);
        for n in 0..records {
            starts.push(bytes.len() as u64);
            let body = Body::Book {
                name: "witness",
                at: Timestamp::from_millis(n as i64),
                data: format!("{{\"n\":{n}}}"),
            };
            let at = bytes.len() as u64;
            prev = frame::encode(&mut bytes, n as u64 + 1, &body, synced(n, at), prev);
        }
        (bytes, starts)
    }

    fn read(bytes: &[u8]) -> Result<Scan, StoreError> {
        scan(Path::new("log.jsonl"), bytes, 0, Chain::START)
    }

    #[test]
    fn cut_at_every_byte_a_log_opens_with_exactly_the_records_before_the_cut() {
        let (bytes, starts) = log(4, |_, at| at);
        for cut in 0..=bytes.len() {
            let found = read(&bytes[..cut]).unwrap();
            let whole = starts.iter().skip(1).filter(|start| **start <= cut as u64 + 1).count() + usize::from(cut + 1 >= bytes.len());
            let expected = if cut == 0 { 0 } else { whole };
            assert_eq!(found.records.len(), expected, "cut at {cut}");
            assert!(found.holes.is_empty());
        }
    }

    #[test]
    fn a_witnessed_hole_is_damage_and_an_unwitnessed_one_is_torn() {
        let (mut bytes, starts) = log(4, |n, at| if n == 3 { at } else { 0 });
        bytes[starts[1] as usize + 20] ^= 1;
        assert_eq!(read(&bytes).unwrap_err().kind(), StoreErrorKind::Corrupt);
        let (mut bytes, starts) = log(4, |_, _| 0);
        bytes[starts[1] as usize + 20] ^= 1;
        let found = read(&bytes).unwrap();
        assert_eq!(found.records.len(), 3);
        assert_eq!((found.holes[0].at, found.holes[0].len), (starts[1], starts[2] - starts[1]));
    }

    #[test]
    fn lost_sectors_that_swallow_a_line_break_do_not_swallow_the_record_behind() {
        let (mut bytes, starts) = log(3, |_, _| 0);
        for byte in &mut bytes[starts[1] as usize..starts[2] as usize] {
            *byte = 0;
        }
        let found = read(&bytes).unwrap();
        assert_eq!(found.records.len(), 2);
        assert_eq!(found.records[1].at, starts[2]);
        assert_eq!((found.holes[0].at, found.holes[0].len), (starts[1], starts[2] - starts[1]));
    }

    #[test]
    fn a_missing_or_doubled_record_is_damage() {
        let (bytes, starts) = log(4, |_, _| 0);
        let (one, two, three) = (starts[1] as usize, starts[2] as usize, starts[3] as usize);
        let missing = [&bytes[..one], &bytes[two..]].concat();
        let doubled = [&bytes[..two], &bytes[one..]].concat();
        let swapped = [&bytes[..one], &bytes[two..three], &bytes[one..two], &bytes[three..]].concat();
        for bytes in [missing, doubled, swapped] {
            assert_eq!(read(&bytes).unwrap_err().kind(), StoreErrorKind::Corrupt);
        }
    }
}
