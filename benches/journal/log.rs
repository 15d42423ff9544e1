//! Long logs, quickly: the journal itself writes one order, and its two lines are written again and again with other numbers, keys, hashes and
//! checksums. Whatever the journal's lines look like, these look the same; that the journal reads them all is checked where they are used.

use crate::{
    Result,
    base::RECORD,
    ours::{Order, Orders, Ours},
};
use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{BufWriter, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
};

/// Long past every retention.
const LONG_AGO: &str = "2025-01-01T00:00:00.000Z";
/// The journal's own records behind an order's are short.
const END: u64 = 64 << 10;
/// So many orders are claimed and not yet settled at any time.
const IN_FLIGHT: usize = 8;

/// What to write.
#[derive(Clone, Copy)]
pub(crate) struct Growth {
    pub(crate) orders: usize,
    /// Spread evenly among them: claimed, and nothing more.
    pub(crate) unsettled: usize,
    /// Spread evenly among them: claimed and settled just now, not long ago.
    pub(crate) fresh: usize,
}

/// Grows the log in `folder`; how many bytes and records were added. Durable, so that nobody measures our writing.
pub(crate) fn grow(folder: &Path, by: Growth) -> Result<(u64, usize)> {
    let mut maker = Maker::on(folder)?;
    let spread = |of: usize, n: usize| n * of / by.orders != (n + 1) * of / by.orders;
    let (mut orders, mut in_flight, mut records) = (Orders::new(), VecDeque::new(), 0);
    for n in 0..by.orders {
        let (order, fresh) = (orders.next(), spread(by.fresh, n));
        maker.claimed(order, fresh)?;
        records += 1;
        if !spread(by.unsettled, n) {
            in_flight.push_back((order, fresh));
        }
        if in_flight.len() > IN_FLIGHT || n + 1 == by.orders {
            let landing = if n + 1 == by.orders { in_flight.len() } else { 1 };
            for (order, fresh) in in_flight.drain(..landing) {
                maker.settled(order, fresh)?;
                records += 1;
            }
        }
    }
    Ok((maker.close()?, records))
}

struct Maker {
    claimed: Template,
    settled: Template,
    seq: u64,
    prev: u32,
    at: u64,
    began: u64,
    log: BufWriter<File>,
}

impl Maker {
    /// Has the journal write one order into the folder, and learns from it.
    fn on(folder: &Path) -> Result<Maker> {
        let mut ours = Ours::open(folder)?;
        ours.claim_and_outcome()?;
        drop(ours);
        let mut log = OpenOptions::new().read(true).append(true).open(folder.join("log.jsonl"))?;
        let at = log.seek(SeekFrom::End(0))?;
        log.seek(SeekFrom::Start(at.saturating_sub(END)))?;
        let mut end = Vec::new();
        log.read_to_end(&mut end)?;
        let lines = || end.split_inclusive(|b| *b == b'\n').rev();
        let last = Template::of(lines().next().ok_or("an empty log")?)?;
        let of = |event: &str| {
            let line = lines().find(|line| find(line, event).is_some());
            Template::of(line.ok_or("the journal wrote no such line")?)
        };
        let maker = Maker {
            claimed: of("\"ev\":\"claimed\"")?,
            settled: of("\"ev\":\"settled\"")?,
            seq: last.text(&last.seq)?.parse()?,
            prev: u32::from_str_radix(last.text(&last.crc)?, 16)?,
            at,
            began: at,
            log: BufWriter::with_capacity(1 << 20, log),
        };
        match (maker.claimed.line.len(), maker.settled.line.len()) {
            (RECORD, RECORD) => Ok(maker),
            (claimed, settled) => Err(format!("lines of {claimed} and {settled} bytes where {RECORD} are compared: see ours.rs").into()),
        }
    }

    fn claimed(&mut self, order: Order, fresh: bool) -> Result<()> {
        let mut hashes = [[0; 64]; 3];
        for (which, text) in hashes.iter_mut().enumerate() {
            write_hex(text, &order.hash(which as u64));
        }
        for (place, hash) in self.claimed.hashes.clone().into_iter().zip(&hashes) {
            self.claimed.put(&place, hash);
        }
        self.write(order, fresh, true)
    }

    fn settled(&mut self, order: Order, fresh: bool) -> Result<()> {
        self.write(order, fresh, false)
    }

    fn write(&mut self, order: Order, fresh: bool, claimed: bool) -> Result<()> {
        self.seq += 1;
        let template = if claimed { &mut self.claimed } else { &mut self.settled };
        template.fill(order, fresh, [self.seq, self.at], self.prev);
        self.log.write_all(&template.line)?;
        self.prev = template.checksum;
        self.at += template.line.len() as u64;
        Ok(())
    }

    fn close(self) -> Result<u64> {
        let log = self.log.into_inner().map_err(|e| e.into_error())?;
        log.sync_all()?;
        Ok(self.at - self.began)
    }
}

/// A line, and where in it stands what differs from line to line.
struct Template {
    line: Vec<u8>,
    seq: Range<usize>,
    at: Range<usize>,
    key: Range<usize>,
    hashes: Vec<Range<usize>>,
    synced: Range<usize>,
    prev: Range<usize>,
    crc: Range<usize>,
    /// When the journal wrote it: just now.
    now: Vec<u8>,
    checksum: u32,
}

impl Template {
    fn of(line: &[u8]) -> Result<Template> {
        let first = |name: &str| member(line, name, find(line, name));
        let last = |name: &str| member(line, name, find_last(line, name));
        let at = first("\"at\":\"")?;
        let names = ["\"origin\":\"", "\"source\":\"", "\"repeat\":\""];
        Ok(Template {
            line: line.to_owned(),
            seq: first("\"seq\":\"")?,
            now: line.get(at.clone()).unwrap_or_default().to_owned(),
            at,
            key: first("\"key\":\"")?,
            hashes: names.into_iter().filter_map(|name| first(name).ok()).collect(),
            synced: last("\"synced\":\"")?,
            prev: last("\"prev\":\"")?,
            crc: last("\"crc\":\"")?,
            checksum: 0,
        })
    }

    fn text(&self, place: &Range<usize>) -> Result<&str> {
        Ok(std::str::from_utf8(self.line.get(place.clone()).unwrap_or_default())?)
    }

    fn put(&mut self, place: &Range<usize>, text: &[u8]) {
        if let Some(there) = self.line.get_mut(place.clone()).filter(|there| there.len() == text.len()) {
            there.copy_from_slice(text);
        }
    }

    fn fill(&mut self, order: Order, fresh: bool, [seq, synced]: [u64; 2], prev: u32) {
        let (seq_at, synced_at) = (self.seq.clone(), self.synced.clone());
        self.count(seq_at, seq);
        self.count(synced_at, synced);
        let at = if fresh { self.now.clone() } else { LONG_AGO.as_bytes().to_vec() };
        self.put(&self.at.clone(), &at);
        self.put(&self.key.clone(), order.key_text().as_bytes());
        let mut text = [0; 8];
        write_hex(&mut text, &prev.to_be_bytes());
        self.put(&self.prev.clone(), &text);
        self.checksum = crc32fast::hash(self.line.get(..self.crc.start).unwrap_or_default());
        write_hex(&mut text, &self.checksum.to_be_bytes());
        self.put(&self.crc.clone(), &text);
    }

    /// A number in as many digits as there is room for.
    fn count(&mut self, place: Range<usize>, mut n: u64) {
        for digit in self.line.get_mut(place).into_iter().flatten().rev() {
            *digit = b'0' + (n % 10) as u8;
            n /= 10;
        }
    }
}

fn find(line: &[u8], name: &str) -> Option<usize> {
    line.windows(name.len()).position(|window| window == name.as_bytes())
}

fn find_last(line: &[u8], name: &str) -> Option<usize> {
    line.windows(name.len()).rposition(|window| window == name.as_bytes())
}

/// Where the text of the member begins and ends.
fn member(line: &[u8], name: &str, at: Option<usize>) -> Result<Range<usize>> {
    let start = at.ok_or_else(|| format!("a line without {name}"))? + name.len();
    let text = line.get(start..).unwrap_or_default();
    let end = text.iter().position(|b| *b == b'"').ok_or("an open string")?;
    Ok(start..start + end)
}

pub(crate) fn write_hex(text: &mut [u8], bytes: &[u8]) {
    let digit = |n: u8| if n < 10 { b'0' + n } else { b'a' + n - 10 };
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
}
