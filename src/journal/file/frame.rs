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
    journal::{
        file::index::{Bits, date},
        store::{Record, Standing},
    },
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
/// Where the number ends in a line of this version.
pub(super) const SEQ_END: usize = 26;
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
        claim: Option<Bits>,
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
    Line::read(line)?.frame().ok_or(Bad::Broken)
}

/// The whole record in a line.
pub(super) fn record(line: &[u8]) -> Result<Record, Bad> {
    Line::read(line)?.record().ok_or(Bad::Broken)
}

/// The number of a record that begins like that, at first sight: nothing is checked. For putting orders in a row.
pub(super) fn seq(head: &[u8]) -> Option<u64> {
    let digits = head.strip_prefix(br#"{"v":1,"seq":""#)?;
    std::str::from_utf8(digits.get(..12)?).ok()?.parse().ok()
}

/// Whose record a line is, at first sight: nothing is checked but the key's place. For finding the lines of one order among many.
pub(super) fn names_key(line: &[u8], key: &[u8]) -> bool {
    line.get(KEY_AT..).is_some_and(|rest| rest.starts_with(key))
}

/// A line whose checksum is right, taken apart where it stands: nothing is copied, and nothing is understood that nobody asked for.
pub(super) struct Line<'a> {
    pub(super) seq: u64,
    at: &'a [u8],
    key: &'a [u8],
    standing: &'a [u8],
    pub(super) name: &'a [u8],
    /// The three hashes' members, with `claimed` only.
    hashes: Option<&'a [u8; HASHES]>,
    pub(super) data: &'a [u8],
    synced: u64,
    prev: u32,
    crc: u32,
}

/// `,"origin":"…64…","source":"…64…","repeat":"…64…"`
const HASHES: usize = 228;
const HASH_AT: [usize; 3] = [11, 87, 163];

impl<'a> Line<'a> {
    pub(super) fn read(line: &'a [u8]) -> Result<Self, Bad> {
        match version(line) {
            Some(VERSION) => Line::apart(line).ok_or(Bad::Broken),
            Some(newer) if line.ends_with(b"}") => Err(Bad::Version(newer)),
            _ => Err(Bad::Broken),
        }
    }

    fn apart(line: &'a [u8]) -> Option<Self> {
        let covered = line.get(..line.len().checked_sub(CRC_AND_END)?)?;
        let (front, tail) = line.split_at_checked(line.len().checked_sub(TAIL)?)?;

        let mut tail = Cursor(tail);
        tail.literal(b",\"synced\":\"")?;
        let synced = number(tail.bytes(12)?)?;
        tail.literal(b"\",\"prev\":\"")?;
        let prev = u32::from_be_bytes(unhex(tail.bytes(8)?)?);
        tail.literal(b"\",\"crc\":\"")?;
        // Digit for digit: `A` for `a` is a flipped bit too.
        let crc = u32::from_be_bytes(unhex(tail.bytes(8)?)?);
        tail.literal(b"\"}")?;
        if crc32fast::hash(covered) != crc {
            return None;
        }

        let mut front = Cursor(front);
        front.literal(b"{\"v\":1,\"seq\":\"")?;
        let seq = number(front.bytes(12)?)?;
        front.literal(b"\",\"at\":\"")?;
        let at = front.bytes(24)?;
        front.literal(b"\",\"key\":\"")?;
        let key = front.bytes(36)?;
        front.literal(b"\",\"now\":\"")?;
        let standing = front.bytes(4)?;
        front.literal(b"\",\"ev\":\"")?;
        let name = front.until(b'"')?;
        let hashes = front.hashes()?;
        front.literal(b",\"data\":")?;
        Some(Line {
            seq,
            at,
            key,
            standing,
            name,
            hashes,
            data: front.0,
            synced,
            prev,
            crc,
        })
    }

    fn order(&self) -> Option<(IdempotencyKey, Standing)> {
        let standing = match self.standing {
            b"open" => Standing::Open,
            b"done" => Standing::Done,
            other => Standing::from_word(std::str::from_utf8(other).ok()?)?,
        };
        Some((key(self.key)?, standing))
    }

    /// What a claim is found by; `None` where it is no claim.
    pub(super) fn columns(&self) -> Option<Columns> {
        let hashes = self.hashes?;
        let hash = |at: usize| unhex::<32>(hashes.get(at..at.checked_add(64)?)?);
        let named = |hash: Hash| (hash != Hash::default()).then_some(hash);
        let [origin, source, repeat] = HASH_AT;
        Some(Columns {
            origin: named(hash(origin)?),
            source: named(hash(source)?),
            repeat: hash(repeat)?,
        })
    }

    fn bits(&self) -> Option<Bits> {
        let hashes = self.hashes?;
        let digits = |at: usize| hashes.get(at..at.checked_add(64)?);
        let bits = |digits: &[u8]| Some(u32::from_be_bytes(unhex(digits.get(..8)?)?));
        let [_, source, repeat] = HASH_AT;
        let (source, repeat) = (digits(source)?, digits(repeat)?);
        let named = source.iter().any(|digit| *digit != b'0');
        Some(Bits {
            source: if named { Some(bits(source)?) } else { None },
            repeat: bits(repeat)?,
            date: date(self.at),
        })
    }

    pub(super) fn written_at(&self) -> Option<Timestamp> {
        std::str::from_utf8(self.at).ok()?.parse().ok()
    }

    pub(super) fn record(&self) -> Option<Record> {
        let (key, standing) = self.order()?;
        Some(Record {
            key,
            name: std::str::from_utf8(self.name).ok()?.to_owned(),
            at: self.written_at()?,
            standing,
            columns: match self.hashes {
                Some(_) => Some(self.columns()?),
                None => None,
            },
            data: Bytes::copy_from_slice(self.data),
        })
    }

    pub(super) fn frame(&self) -> Option<Frame> {
        let own = self.standing == NO_STANDING.as_bytes() && self.key == NO_KEY.as_bytes();
        let what = match own {
            true => What::Book {
                name: ["journal", "hole", "witness"]
                    .into_iter()
                    .find(|known| known.as_bytes() == self.name)?,
                data: std::str::from_utf8(self.data).ok()?.to_owned(),
            },
            false => {
                let (key, standing) = self.order()?;
                What::Order {
                    key,
                    standing,
                    claim: match self.hashes {
                        Some(_) => Some(self.bits()?),
                        None => None,
                    },
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

fn version(line: &[u8]) -> Option<u64> {
    if line.starts_with(b"{\"v\":1,") {
        return Some(VERSION);
    }
    let rest = line.strip_prefix(b"{\"v\":")?;
    let end = rest.iter().position(|b| *b == b',')?;
    number(rest.get(..end)?)
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

    fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let len = self.0.iter().position(|b| *b == end)?;
        let bytes = self.bytes(len)?;
        self.0 = self.0.get(1..)?;
        Some(bytes)
    }

    /// `Some(None)`: this record has none.
    fn hashes(&mut self) -> Option<Option<&'a [u8; HASHES]>> {
        let Some((hashes, rest)) = self
            .0
            .split_first_chunk::<HASHES>()
            .filter(|(hashes, _)| hashes.starts_with(b",\"origin\":\""))
        else {
            // Cut short, it is not the data that must follow either.
            return Some(None);
        };
        let mut members = Cursor(hashes);
        for name in [b",\"origin\":\"", b",\"source\":\"", b",\"repeat\":\""] {
            members.literal(name)?;
            members.bytes(64)?;
            members.literal(b"\"")?;
        }
        self.0 = rest;
        Some(Some(hashes))
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let digit = |number: u64, digit: &u8| {
        let value = digit.wrapping_sub(b'0');
        (value < 10).then_some(())?;
        number.checked_mul(10)?.checked_add(u64::from(value))
    };
    (!digits.is_empty()).then_some(())?;
    digits.iter().try_fold(0, digit)
}

/// A key in its one spelling: five groups of lower-case digits.
fn key(text: &[u8]) -> Option<IdempotencyKey> {
    let text: &[u8; 36] = text.try_into().ok()?;
    let [
        a @ ..,
        b'-',
        _,
        _,
        _,
        _,
        b'-',
        _,
        _,
        _,
        _,
        b'-',
        _,
        _,
        _,
        _,
        b'-',
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
    ] = text
    else {
        return None;
    };
    let group = |from: usize, to: usize| text.get(from..to);
    let mut digits = [0; 32];
    let groups = [a.get(..8)?, group(9, 13)?, group(14, 18)?, group(19, 23)?, group(24, 36)?];
    let mut free = digits.as_mut_slice();
    for group in groups {
        let (place, rest) = free.split_at_mut_checked(group.len())?;
        place.copy_from_slice(group);
        free = rest;
    }
    IdempotencyKey::from_bytes(unhex(&digits)?)
}

fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

/// What a byte is worth as a lower-case digit; 255 where it is none.
fn worth(digit: u8) -> u8 {
    match (digit.wrapping_sub(b'0'), digit.wrapping_sub(b'a')) {
        (n @ 0..=9, _) => n,
        (_, n @ 0..=5) => n.wrapping_add(10),
        _ => 255,
    }
}

/// Lower-case digits only: there is one spelling of everything in a record.
fn unhex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let pairs = digits.chunks_exact(2);
    if pairs.len() != N {
        return None;
    }
    let mut wrong = 0;
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let [high, low] = pair else { return None };
        let (high, low) = (worth(*high), worth(*low));
        wrong |= high | low;
        *byte = high << 4 | low & 15;
    }
    (wrong < 16).then_some(bytes)
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
        let (What::Order { key, standing, claim }, Body::Order(written)) = (frame.what, claimed()) else {
            panic!("not an order's record")
        };
        let bits = written.columns.as_ref().map(|columns| Bits::of(columns, written.at));
        assert_eq!((key, standing, claim), (written.key, written.standing, bits));
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
