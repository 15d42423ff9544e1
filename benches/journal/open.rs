//! Bar 4: opening. A log of a million records against reading it and checking a checksum a line, what its orders cost in memory, and a folder
//! that has seen ten million orders.

use crate::{
    Place, Result,
    base::{Patience, compare, middle, now, timed},
    child::{self, Running},
    log::{self, Growth},
    ours::{Ours, Shared},
    report::{Report, Side::AtMost},
};
use std::{
    fs::{self, File},
    io::{BufRead, Read},
    path::Path,
    time::Duration,
};

const UNSETTLED: usize = 100;
/// With 100 of them unsettled, a million records.
const ORDERS: usize = 500_050;
/// Ten million orders, a million at a time.
const STEPS: usize = 10;
const A_STEP: usize = 1_000_000;
/// Ask a child for it, and it counts the unsettled after all else is measured.
const COUNT: &str = "count";

pub(crate) fn run(place: &Place, report: &mut Report) -> Result<()> {
    let folder = place.folder("open")?;
    let growth = Growth {
        orders: ORDERS,
        unsettled: UNSETTLED,
        fresh: 0,
    };
    let (took, (bytes, records)) = timed(|| log::grow(&folder, growth))?;
    println!("a log of {records} records and {bytes} bytes, made in {:.1} s", took.as_secs_f64());
    let found = opened(&folder, COUNT, true)?;
    if found.unsettled != UNSETTLED as f64 {
        return Err(format!("{} unsettled where {UNSETTLED} were written", found.unsettled).into());
    }
    let patience = Patience {
        rounds: 7,
        at_most: Duration::from_secs(30),
    };
    let path = folder.join("log.jsonl");
    let mut opening = Vec::new();
    let ratios = compare(
        &mut || read_and_check(&path, records),
        &mut [(
            "open",
            Box::new(|| {
                let found = opened(&folder, "", false)?;
                opening.push(found.seconds);
                Ok(found.seconds.recip())
            }),
        )],
        patience,
    )?;
    report.control("open", ratios.control(), ratios.rounds());
    report.bar_with(
        "open_per_read_and_crc",
        ratios.times_base("open").recip(),
        AtMost,
        3.5,
        "3.2; 1.7 on two threads",
    );
    report.info("open", middle(opening), "s");
    memory(&folder, report)?;
    fs::remove_dir_all(&folder)?;
    ten_million(place, report)
}

fn memory(folder: &Path, report: &mut Report) -> Result<()> {
    let entries = (ORDERS - UNSETTLED) as f64;
    let an_entry = |settled| -> Result<f64> {
        let found: Vec<_> = (0..3).map(|_| opened(folder, "", settled)).collect::<Result<_>>()?;
        Ok(middle(found.iter().map(|found| found.grown_by / entries).collect()))
    };
    let (settled, unsettled) = (an_entry(true)?, an_entry(false)?);
    report.bar_with("bytes_a_settled_entry", settled, AtMost, 64.0, "48");
    report.info("bytes_a_settled_entry_with_what_malloc_keeps", unsettled, "bytes");
    Ok(())
}

/// Ten million orders in ten steps: a million settled ones and ten that stay, and a compaction that keeps nothing settled. What was archived is
/// deleted in between, or it would fill the disk.
fn ten_million(place: &Place, report: &mut Report) -> Result<()> {
    let folder = place.folder("ten-million")?;
    let began = now();
    let (mut compacting, mut written) = (Duration::ZERO, 0);
    for _ in 0..STEPS {
        let growth = Growth {
            orders: A_STEP,
            unsettled: UNSETTLED / STEPS,
            fresh: 0,
        };
        written += log::grow(&folder, growth)?.0;
        let mut ours = Ours::open(&folder)?;
        compacting += timed(|| ours.compact(Duration::ZERO))?.0;
        drop(ours);
        if folder.join("archive").exists() {
            fs::remove_dir_all(folder.join("archive"))?;
            fs::create_dir(folder.join("archive"))?;
        }
    }
    println!(
        "ten million orders: {STEPS} times {A_STEP} orders ({written} bytes in all) and a compaction, in {:.0} s, {:.1} s of it compacting",
        began.elapsed().as_secs_f64(),
        compacting.as_secs_f64()
    );
    let found: Vec<_> = (0..7).map(|_| opened(&folder, COUNT, false)).collect::<Result<_>>()?;
    if let Some(wrong) = found.iter().find(|found| found.unsettled != UNSETTLED as f64) {
        return Err(format!("{} unsettled where {UNSETTLED} were written", wrong.unsettled).into());
    }
    let ms = middle(found.iter().map(|found| found.seconds * 1e3).collect());
    report.bar("open_after_ten_million_ms", ms, AtMost, 20.0);
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// What reading a log costs at least: its bytes, from the page cache, and a checksum a line. As a rate: so many times a second.
fn read_and_check(path: &Path, records: usize) -> Result<f64> {
    let (took, lines) = timed(|| {
        let (mut log, mut part, mut lines) = (File::open(path)?, vec![0; 1 << 20], 0);
        let mut kept = 0;
        loop {
            let read = log.read(part.get_mut(kept..).unwrap_or_default())?;
            if read == 0 {
                return Ok(lines);
            }
            let there = kept + read;
            let used = check_lines(part.get(..there).unwrap_or_default(), &mut lines)?;
            part.copy_within(used..there, 0);
            kept = there - used;
        }
    })?;
    match lines < records {
        true => Err("a line does not check".into()),
        false => Ok(took.as_secs_f64().recip()),
    }
}

/// `9a3f01bc"}` and the line's end: what the checksum does not cover.
const UNCOVERED: usize = 11;

/// Counts the whole lines whose checksum is right; how many bytes they had.
fn check_lines(bytes: &[u8], good: &mut usize) -> Result<usize> {
    let mut rest = bytes;
    loop {
        let before = rest;
        let len = rest.skip_until(b'\n')?;
        let line = before.get(..len).unwrap_or_default();
        if !line.ends_with(b"\n") {
            return Ok(bytes.len() - before.len());
        }
        let (covered, end) = line.split_at_checked(line.len().saturating_sub(UNCOVERED)).unwrap_or_default();
        *good += usize::from(end.starts_with(&hex(crc32fast::hash(covered))));
    }
}

fn hex(crc: u32) -> [u8; 8] {
    let mut text = [0; 8];
    log::write_hex(&mut text, &crc.to_be_bytes());
    text
}

/// What a child found.
struct Opened {
    seconds: f64,
    /// By so many bytes its memory grew.
    grown_by: f64,
    unsettled: f64,
}

fn opened(folder: &Path, given: &str, settled: bool) -> Result<Opened> {
    let found = Running::start("open", folder, given, settled)?.figures()?;
    let [seconds, grown_by, unsettled] = <[f64; 3]>::try_from(found).map_err(|_| "an opening's figures are three")?;
    Ok(Opened {
        seconds,
        grown_by,
        unsettled,
    })
}

/// In the child: opens, and says how long it took and what it holds.
pub(crate) fn open_and_say(folder: &Path, given: &str) -> Result<()> {
    let before = resident()?;
    let (took, ours) = timed(|| Ours::open(folder))?;
    let grown_by = resident()? - before;
    drop(ours);
    let unsettled = match given {
        COUNT => crate::runtime()?.block_on(async { Shared::open(folder).await?.unsettled(2 * UNSETTLED).await })?,
        _ => 0,
    };
    child::say(&format!("{} {grown_by} {unsettled}", took.as_secs_f64()))
}

/// This process's memory, in bytes, as Linux counts it.
fn resident() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: f64 = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0)
}
