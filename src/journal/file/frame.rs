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
const NO_STANDING: &str = "none";
/// `,"synced":"000000012345","prev":"77aa01c2","crc":"9a3f01bc"}`
const TAIL: usize = 60;
/// Where the key stands in a line of this version.
const KEY_AT: usize = 67;
/// `9a3f01bc"}`: what the checksum does not cover.
const CRC_AND_END: usize = 10;

/// What is to be written.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Something happened to an order.
    Order(Record),
    /// The book's own: its birth (`journal`), a mended hole (`hole`), a word that what stands before it is durable (`witness`).
    Book { name: &'static str, at: Timestamp, data: String },
}

/// What of a line a reader of the log has to know.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) seq: u64,
    pub(super) what: What,
    /// The offset its writer knew to be durable.
    pub(super) synced: u64,
    pub(super) prev: u32,
    pub(super) crc: u32,
}

/// What a line is about, without its contents.
#[derive(Clone, Debug)]
pub(super) enum What {
    Order {
        key: IdempotencyKey,
        standing: Standing,
        /// With `claimed` only.
        columns: Option<Columns>,
    },
    Book {
        name: &'static str,
        data: String,
    },
}

/// Why a line is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// Written by a newer version.
    Version(u64),
    /// Torn or damaged.
    Broken,
}

/// Writes a line, its line break included, behind what stands in `out`; and says its checksum.
pub(super) fn encode(out: &mut Vec<u8>, seq: u64, body: &Body, synced: u64, prev: u32) -> u32 {
    let from = out.len();
    let data = match body {
        Body::Order(r) => {
            front(out, seq, r.at, &r.key.to_string(), r.standing.word(), &r.name);
            r.columns.iter().for_each(|columns| push_columns(out, columns));
            &r.data[..]
        }
        Body::Book { name, at, data } => {
            front(out, seq, *at, NO_KEY, NO_STANDING, name);
            data.as_bytes()
        }
    };
    out.extend_from_slice(b",\"data\":");
    out.extend_from_slice(data);
    close(out, from, synced, prev)
}

/// The same record at another place of another chain: only what says where it stands is new.
pub(super) fn rechain(out: &mut Vec<u8>, line: &[u8], synced: u64, prev: u32) -> u32 {
    let from = out.len();
    out.extend_from_slice(line.get(..line.len().saturating_sub(TAIL)).unwrap_or_default());
    close(out, from, synced, prev)
}

fn front(out: &mut Vec<u8>, seq: u64, at: Timestamp, key: &str, standing: &str, name: &str) {
    let text = format!("{{\"v\":{VERSION},\"seq\":\"{seq:012}\",\"at\":\"{at}\",\"key\":\"");
    for piece in [&text, key, "\",\"now\":\"", standing, "\",\"ev\":\"", name, "\""] {
        out.extend_from_slice(piece.as_bytes());
    }
}

fn push_columns(out: &mut Vec<u8>, columns: &Columns) {
    let none = Hash::default();
    let named = [
        ("origin", columns.origin.as_ref()),
        ("source", columns.source.as_ref()),
        ("repeat", Some(&columns.repeat)),
    ];
    for (name, hash) in named {
        for piece in [",\"", name, "\":\""] {
            out.extend_from_slice(piece.as_bytes());
        }
        push_hex(out, hash.unwrap_or(&none));
        out.push(b'"');
    }
}

/// The members that say where the line stands; `from` is where it begins.
fn close(out: &mut Vec<u8>, from: usize, synced: u64, prev: u32) -> u32 {
    out.extend_from_slice(format!(",\"synced\":\"{synced:012}\",\"prev\":\"").as_bytes());
    push_hex(out, &prev.to_be_bytes());
    out.extend_from_slice(b"\",\"crc\":\"");
    let crc = crc32fast::hash(out.get(from..).unwrap_or_default());
    push_hex(out, &crc.to_be_bytes());
    out.extend_from_slice(b"\"}\n");
    crc
}

/// Reads a line, without its line break. Never returns a record that was not written.
pub(super) fn decode(line: &[u8]) -> Result<Frame, Bad> {
    read(line, |parts| parts.frame())
}

/// The whole record in a line.
pub(super) fn record(line: &[u8]) -> Result<Record, Bad> {
    read(line, |parts| parts.record())
}

/// Whose record a line is, at first sight: nothing is checked but the key's place. For finding the lines of one order among many.
pub(super) fn names_key(line: &[u8], key: &[u8]) -> bool {
    line.get(KEY_AT..).is_some_and(|rest| rest.starts_with(key))
}

/// What a sound line says happened, and its data.
pub(super) fn event(line: &[u8]) -> (&[u8], &[u8]) {
    Parts::of(line).map_or((b"", b""), |parts| (parts.name.as_bytes(), parts.data))
}

fn read<T>(line: &[u8], how: impl FnOnce(&Parts<'_>) -> Option<T>) -> Result<T, Bad> {
    match version(line) {
        Some(VERSION) => {}
        Some(newer) if line.ends_with(b"}") => return Err(Bad::Version(newer)),
        _ => return Err(Bad::Broken),
    }
    Parts::of(line).as_ref().and_then(how).ok_or(Bad::Broken)
}

fn version(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"v\":")?;
    let end = rest.iter().position(|b| *b == b',')?;
    let digits = std::str::from_utf8(rest.get(..end)?).ok()?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// A line whose checksum is right, taken apart where it stands.
struct Parts<'a> {
    seq: u64,
    at: &'a str,
    key: &'a str,
    standing: &'a str,
    name: &'a str,
    columns: Option<Columns>,
    data: &'a [u8],
    synced: u64,
    prev: u32,
    crc: u32,
}

impl<'a> Parts<'a> {
    fn of(line: &'a [u8]) -> Option<Self> {
        let covered = line.get(..line.len().checked_sub(CRC_AND_END)?)?;
        let (front, tail) = line.split_at_checked(line.len().checked_sub(TAIL)?)?;

        let mut tail = Cursor(tail);
        tail.literal(b",\"synced\":\"")?;
        let synced = tail.text(12)?.parse().ok()?;
        tail.literal(b"\",\"prev\":\"")?;
        let prev = u32::from_be_bytes(tail.hex()?);
        tail.literal(b"\",\"crc\":\"")?;
        // Digit for digit: `A` for `a` is a flipped bit too.
        let crc = u32::from_be_bytes(tail.hex()?);
        tail.literal(b"\"}")?;
        if crc32fast::hash(covered) != crc {
            return None;
        }

        let mut front = Cursor(front);
        front.literal(b"{\"v\":1,\"seq\":\"")?;
        let seq = front.text(12)?.parse().ok()?;
        front.literal(b"\",\"at\":\"")?;
        let at = front.text(24)?;
        front.literal(b"\",\"key\":\"")?;
        let key = front.text(36)?;
        front.literal(b"\",\"now\":\"")?;
        let standing = front.text(4)?;
        front.literal(b"\",\"ev\":\"")?;
        let name = front.until(b'"')?;
        let columns = front.columns()?;
        front.literal(b",\"data\":")?;
        Some(Parts {
            seq,
            at,
            key,
            standing,
            name,
            columns,
            data: front.0,
            synced,
            prev,
            crc,
        })
    }

    fn order(&self) -> Option<(IdempotencyKey, Standing)> {
        Some((self.key.parse().ok()?, Standing::from_word(self.standing)?))
    }

    fn record(&self) -> Option<Record> {
        let (key, standing) = self.order()?;
        Some(Record {
            key,
            name: self.name.to_owned(),
            at: self.at.parse().ok()?,
            standing,
            columns: self.columns,
            data: Bytes::copy_from_slice(self.data),
        })
    }

    fn frame(&self) -> Option<Frame> {
        let own = self.standing == NO_STANDING && self.key == NO_KEY;
        let what = match own {
            true => What::Book {
                name: ["journal", "hole", "witness"].into_iter().find(|known| *known == self.name)?,
                data: std::str::from_utf8(self.data).ok()?.to_owned(),
            },
            false => {
                let (key, standing) = self.order()?;
                What::Order {
                    key,
                    standing,
                    columns: self.columns,
                }
            }
        };
        Some(Frame {
            seq: self.seq,
            what,
            synced: self.synced,
            prev: self.prev,
            crc: self.crc,
        })
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn literal(&mut self, expected: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self, len: usize) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(len)?).ok()
    }

    fn hex<const N: usize>(&mut self) -> Option<[u8; N]> {
        unhex(self.bytes(N.saturating_mul(2))?)
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
            let hash: Hash = self.hex()?;
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

fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).map_or(b'0', |digit| digit as u8);
    for byte in bytes {
        out.push(digit(byte >> 4));
        out.push(digit(byte & 15));
    }
}

/// Lower-case digits only: there is one spelling of everything in a record.
fn unhex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit & 15),
        b'a'..=b'f' => Some((digit & 15).wrapping_add(9)),
        _ => None,
    };
    let mut bytes = [0; N];
    let pairs = digits.chunks_exact(2);
    if pairs.len() != N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let [high, low] = pair else { return None };
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(bytes)
}

pub(super) fn from_hex(text: &str) -> Option<Hash> {
    unhex(text.as_bytes())
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
        let mut line = Vec::new();
        let crc = encode(&mut line, 42, &claimed(), 12_345, 0x77aa_01c2);
        let line = line.strip_suffix(b"\n").unwrap();
        let frame = decode(line).unwrap();
        assert_eq!((frame.seq, frame.synced, frame.prev, frame.crc), (42, 12_345, 0x77aa_01c2, crc));
        let (What::Order { key, standing, columns }, Body::Order(written)) = (frame.what, claimed()) else {
            panic!("not an order's record")
        };
        assert_eq!((key, standing, columns), (written.key, written.standing, written.columns));
        let read = record(line).unwrap();
        assert_eq!((read.at, read.columns, read.data), (written.at, written.columns, written.data));
        assert!(names_key(line, written.key.to_string().as_bytes()));
        assert!(serde_json::from_slice::<serde_json::Value>(line).is_ok(), "not JSON");
    }

    #[test]
    fn a_record_that_moves_is_the_same_record() {
        let (mut line, mut moved, mut at_once) = (Vec::new(), b"before".to_vec(), Vec::new());
        encode(&mut line, 7, &claimed(), 1, 2);
        let crc = rechain(&mut moved, line.strip_suffix(b"\n").unwrap(), 3, 4);
        assert_eq!(crc, encode(&mut at_once, 7, &claimed(), 3, 4));
        assert_eq!(moved.strip_prefix(b"before").unwrap(), at_once);
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_no_record() {
        let mut line = Vec::new();
        encode(&mut line, 1, &claimed(), 0, 0);
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
