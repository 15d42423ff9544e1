//! The bytes of one record: a line of JSON whose first members stand in fixed places and whose last are two checksums. No I/O.
//!
//! ```text
//! {"v":1,"seq":"000000000042","at":"2026-12-01T09:00:00.000Z","key":"8e03978e-…","now":"open","ev":"sent",
//!  "data":{…},"synced":"000000012345","prev":"77aa01c2","crc":"9a3f01bc"}
//! ```
//! `claimed` has `"origin"`, `"source"` and `"repeat"`, 64 hex digits each, before its data. `docs/journal-format.md` draws all of it.

use crate::{
    clock::Timestamp,
    ids::IdempotencyKey,
    intent::Columns,
    journal::store::{Record, Standing},
    origin::Hash,
};
use bytes::Bytes;

/// The version of every record this code writes, and the only one it reads.
const VERSION: u64 = 1;
/// A record larger than this is refused before it is written, and a line longer than this is no record.
pub(super) const RECORD_CAP: usize = 16 << 20;
const NO_KEY: &str = "00000000-0000-0000-0000-000000000000";
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const NO_STANDING: &str = "none";
/// `,"synced":"000000012345","prev":"77aa01c2","crc":"9a3f01bc"}`
const TAIL: usize = 60;
/// `9a3f01bc"}`: what the checksum does not cover.
const CRC_AND_END: usize = 10;

/// What a line says besides its checksums.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Something happened to an order.
    Order(Record),
    /// The book's own: its birth (`journal`), a mended hole (`hole`), a word that what stands before it is durable (`witness`).
    Book { name: &'static str, at: Timestamp, data: String },
}

/// One line, read.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) seq: u64,
    pub(super) body: Body,
    /// The offset its writer knew to be durable.
    pub(super) synced: u64,
    pub(super) prev: u32,
    pub(super) crc: u32,
}

/// Why a line is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// Written by a newer version.
    Version(u64),
    /// Torn or damaged.
    Broken,
}

/// Writes a line, its line break included; and its checksum.
pub(super) fn encode(seq: u64, body: &Body, synced: u64, prev: u32) -> (Vec<u8>, u32) {
    let (at, key, standing, name, columns, data) = match body {
        Body::Order(r) => (
            r.at,
            r.key.to_string(),
            r.standing.word(),
            r.name.as_str(),
            r.columns.as_ref(),
            &r.data[..],
        ),
        Body::Book { name, at, data } => (*at, NO_KEY.to_owned(), NO_STANDING, *name, None, data.as_bytes()),
    };
    let mut line =
        format!("{{\"v\":{VERSION},\"seq\":\"{seq:012}\",\"at\":\"{at}\",\"key\":\"{key}\",\"now\":\"{standing}\",\"ev\":\"{name}\"")
            .into_bytes();
    if let Some(columns) = columns {
        for (name, hash) in [
            ("origin", columns.origin.as_ref()),
            ("source", columns.source.as_ref()),
            ("repeat", Some(&columns.repeat)),
        ] {
            line.extend_from_slice(format!(",\"{name}\":\"{}\"", hash.map_or(NO_HASH.to_owned(), hex)).as_bytes());
        }
    }
    line.extend_from_slice(b",\"data\":");
    line.extend_from_slice(data);
    line.extend_from_slice(format!(",\"synced\":\"{synced:012}\",\"prev\":\"{prev:08x}\",\"crc\":\"").as_bytes());
    let crc = crc32fast::hash(&line);
    line.extend_from_slice(format!("{crc:08x}\"}}\n").as_bytes());
    (line, crc)
}

/// Reads a line, without its line break. Never returns a record that was not written.
pub(super) fn decode(line: &[u8]) -> Result<Frame, Bad> {
    match version(line) {
        Some(VERSION) => {}
        Some(newer) if line.ends_with(b"}") => return Err(Bad::Version(newer)),
        _ => return Err(Bad::Broken),
    }
    sound(line).ok_or(Bad::Broken)
}

fn version(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"v\":")?;
    let end = rest.iter().position(|b| *b == b',')?;
    let digits = std::str::from_utf8(rest.get(..end)?).ok()?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn sound(line: &[u8]) -> Option<Frame> {
    let covered = line.get(..line.len().checked_sub(CRC_AND_END)?)?;
    let (front, tail) = line.split_at_checked(line.len().checked_sub(TAIL)?)?;

    let mut tail = Cursor(tail);
    tail.literal(b",\"synced\":\"")?;
    let synced = tail.text(12)?.parse().ok()?;
    tail.literal(b"\",\"prev\":\"")?;
    let prev = u32::from_str_radix(tail.text(8)?, 16).ok()?;
    tail.literal(b"\",\"crc\":\"")?;
    let crc = crc32fast::hash(covered);
    // As text: `A` for `a` is a flipped bit too.
    tail.literal(format!("{crc:08x}\"}}").as_bytes())?;

    let mut front = Cursor(front);
    front.literal(b"{\"v\":1,\"seq\":\"")?;
    let seq = front.text(12)?.parse().ok()?;
    front.literal(b"\",\"at\":\"")?;
    let at = front.text(24)?.parse().ok()?;
    front.literal(b"\",\"key\":\"")?;
    let key = front.text(36)?;
    front.literal(b"\",\"now\":\"")?;
    let standing = front.text(4)?;
    front.literal(b"\",\"ev\":\"")?;
    let name = front.until(b'"')?;
    let columns = front.columns()?;
    front.literal(b",\"data\":")?;
    let body = match Standing::from_word(standing) {
        Some(standing) => Body::Order(Record {
            key: key.parse::<IdempotencyKey>().ok()?,
            name: name.to_owned(),
            at,
            standing,
            columns,
            data: Bytes::copy_from_slice(front.0),
        }),
        None if standing == NO_STANDING && key == NO_KEY => Body::Book {
            name: ["journal", "hole", "witness"].into_iter().find(|known| *known == name)?,
            at,
            data: std::str::from_utf8(front.0).ok()?.to_owned(),
        },
        None => return None,
    };
    Some(Frame {
        seq,
        body,
        synced,
        prev,
        crc,
    })
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn literal(&mut self, expected: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    fn text(&mut self, len: usize) -> Option<&'a str> {
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn until(&mut self, end: u8) -> Option<&'a str> {
        let len = self.0.iter().position(|b| *b == end)?;
        let text = self.text(len)?;
        self.0 = self.0.get(1..)?;
        Some(text)
    }

    /// `Some(None)`: this record has none.
    fn columns(&mut self) -> Option<Option<Columns>> {
        if !self.0.starts_with(b",\"origin\":\"") {
            return Some(None);
        }
        let mut hash = |name: &[u8]| {
            self.literal(name)?;
            let hash = from_hex(self.text(64)?)?;
            self.literal(b"\"")?;
            Some(hash)
        };
        let origin = hash(b",\"origin\":\"")?;
        let source = hash(b",\"source\":\"")?;
        let repeat = hash(b",\"repeat\":\"")?;
        let named = |hash: Hash| (hash != Hash::default()).then_some(hash);
        Some(Some(Columns {
            origin: named(origin),
            source: named(source),
            repeat,
        }))
    }
}

pub(super) fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn from_hex(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed() -> Body {
        Body::Order(Record {
            key: "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap(),
            name: "claimed".to_owned(),
            at: Timestamp::from_millis(1_796_083_366_123),
            standing: Standing::Open,
            columns: Some(Columns {
                origin: None,
                source: Some([7; 32]),
                repeat: [255; 32],
            }),
            data: Bytes::from(r#"{"note":"é } \" ,\"synced\":\""}"#),
        })
    }

    #[test]
    fn what_is_written_is_read() {
        let (line, crc) = encode(42, &claimed(), 12_345, 0x77aa_01c2);
        let line = line.strip_suffix(b"\n").unwrap();
        let frame = decode(line).unwrap();
        assert_eq!((frame.seq, frame.synced, frame.prev, frame.crc), (42, 12_345, 0x77aa_01c2, crc));
        let (Body::Order(read), Body::Order(written)) = (frame.body, claimed()) else {
            panic!("not an order's record")
        };
        assert_eq!(read.columns, written.columns);
        assert_eq!(read.data, written.data);
        assert!(serde_json::from_slice::<serde_json::Value>(line).is_ok(), "not JSON");
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_no_record() {
        let (line, _) = encode(1, &claimed(), 0, 0);
        let line = line.strip_suffix(b"\n").unwrap();
        for at in 0..line.len() {
            assert!(decode(&line[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut flipped = line.to_vec();
                flipped[at] ^= 1 << bit;
                assert!(decode(&flipped).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        assert_eq!(decode(br#"{"v":99,"key":"x"}"#).unwrap_err(), Bad::Version(99));
        assert_eq!(decode(br#"{"v":99,"key":"x"#).unwrap_err(), Bad::Broken);
        assert_eq!(decode(b"").unwrap_err(), Bad::Broken);
        assert_eq!(decode(br#"{"v":1}"#).unwrap_err(), Bad::Broken);
    }
}
