//! Bar 5: compacting 600 MB to a tenth, against writing and syncing that tenth; and how long a writer in another process stands still meanwhile.

use crate::{
    Place, Result,
    base::{Patience, compare, middle, timed},
    child::{self, Running},
    log::{self, Growth},
    ours::Ours,
    report::{Report, Side::AtMost},
};
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Two records of 600 bytes each. What lives on is spread evenly among what does not: the newest in one piece would be copied in one piece.
const GROWTH: Growth = Growth {
    orders: 500_000,
    unsettled: 100,
    fresh: 50_000,
};
const LIVE: usize = GROWTH.fresh * 2 * crate::base::RECORD;
/// The fresh ones are minutes old, the others years.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// The writer is watched for so long before and after.
const AROUND: Duration = Duration::from_millis(200);

pub(crate) fn run(place: &Place, report: &mut Report) -> Result<()> {
    let base = place.folder("compact-base")?;
    let patience = Patience {
        rounds: 5,
        at_most: Duration::from_secs(60),
    };
    let (mut left, mut still, mut usual, mut took) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let ratios = compare(
        &mut || write_and_sync(&base),
        &mut [
            ("alone", Box::new(|| grown(place, |folder| alone(folder, &mut left, &mut took)))),
            ("beside", Box::new(|| grown(place, |folder| beside(folder, &mut still, &mut usual)))),
        ],
        patience,
    )?;
    report.control("compact", ratios.control(), ratios.rounds());
    println!(
        "compacted 600 MB to {:.1} MB; {:.1} MB were written as the base",
        middle(left) / 1e6,
        LIVE as f64 / 1e6
    );
    report.bar_with(
        "compaction_per_write_and_sync",
        ratios.times_base("alone").recip(),
        AtMost,
        2.7,
        "2.3",
    );
    report.info("compaction", middle(took), "s");
    report.bar("writer_stands_still_ms", middle(still), AtMost, 40.0);
    report.info(
        "compaction_beside_a_writer",
        ratios.times_base("beside").recip(),
        "x write and sync",
    );
    report.info("writers_longest_wait_otherwise", middle(usual), "ms");
    Ok(())
}

/// Each round on a log of its own, which is gone afterwards.
fn grown(place: &Place, work: impl FnOnce(&Path) -> Result<f64>) -> Result<f64> {
    place.fresh(|folder| {
        log::grow(folder, GROWTH)?;
        let rate = work(folder)?;
        fs::remove_dir_all(folder)?;
        Ok(rate)
    })
}

/// The base: as many bytes as stay, written and durable.
fn write_and_sync(folder: &Path) -> Result<f64> {
    let (path, part) = (folder.join("live"), vec![b'x'; 1 << 20]);
    let (took, ()) = timed(|| {
        let mut file = File::create(&path)?;
        let mut left = LIVE;
        while left > 0 {
            let now = part.get(..left.min(part.len())).unwrap_or_default();
            file.write_all(now)?;
            left -= now.len();
        }
        Ok(file.sync_data()?)
    })?;
    fs::remove_file(&path)?;
    Ok(took.as_secs_f64().recip())
}

fn alone(folder: &Path, left: &mut Vec<f64>, times: &mut Vec<f64>) -> Result<f64> {
    let mut ours = Ours::open(folder)?;
    let (took, ()) = timed(|| ours.compact(KEEP))?;
    times.push(took.as_secs_f64());
    left.push(fs::metadata(folder.join("log.jsonl"))?.len() as f64);
    Ok(took.as_secs_f64().recip())
}

/// With a writer in another process, that says what its longest wait was, around the compaction and otherwise.
fn beside(folder: &Path, still: &mut Vec<f64>, usual: &mut Vec<f64>) -> Result<f64> {
    let mut ours = Ours::open(folder)?;
    let mut writer = Running::start("compact", folder, "", false)?;
    writer.await_ready()?;
    writer.tell("go")?;
    std::thread::sleep(AROUND);
    writer.tell("it begins")?;
    let (took, ()) = timed(|| ours.compact(KEEP))?;
    writer.tell("it is over")?;
    std::thread::sleep(AROUND);
    writer.tell("stop")?;
    let waits = <[f64; 2]>::try_from(writer.figures()?).map_err(|_| "the writer's figures are two")?;
    still.push(waits[0]);
    usual.push(waits[1]);
    Ok(took.as_secs_f64().recip())
}

/// How far the parent is: before, during, after, and done.
const DURING: usize = 1;
const AFTER: usize = 2;
const STOP: usize = 3;
/// The first claims afterwards count as during: they are the ones that meet the new file.
const MEET_THE_NEW: usize = 2;

/// In the child: claims, one after the other, until it is told to stop. Its longest waits: those that touch the compaction, and the others.
pub(crate) fn write_until_told(folder: &Path) -> Result<()> {
    let mut ours = Ours::open(folder)?;
    child::ready()?;
    let phase = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&phase);
    std::thread::spawn(move || {
        while child::hear().is_ok_and(|line| !line.is_empty()) {
            told.fetch_add(1, Ordering::SeqCst);
        }
        told.store(STOP, Ordering::SeqCst);
    });
    let (mut still, mut usual, mut after) = (Duration::ZERO, Duration::ZERO, 0);
    loop {
        let began = phase.load(Ordering::SeqCst);
        if began >= STOP {
            break;
        }
        let (wait, _) = timed(|| ours.claim())?;
        after += usize::from(began == AFTER);
        let touches = began <= DURING && phase.load(Ordering::SeqCst) >= DURING || began == AFTER && after <= MEET_THE_NEW;
        let longest = if touches { &mut still } else { &mut usual };
        *longest = wait.max(*longest);
    }
    child::say(&format!("{} {}", still.as_secs_f64() * 1e3, usual.as_secs_f64() * 1e3))
}
