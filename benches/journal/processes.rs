//! Bar 3: eight processes that write to one folder in a tight loop, against one; what each gets of it, and how long the unluckiest waits.

use crate::{
    Place, Result,
    base::{Base, compare, middle, now, p50_ms},
    child::{self, Running},
    report::{
        Report,
        Side::{AtLeast, AtMost},
    },
};
use std::{path::Path, time::Duration};

const WRITERS: usize = 8;

/// What one round of several processes came to.
struct Shares {
    /// Claims a second, all together.
    rate: f64,
    /// The smallest part over the largest.
    fairness: f64,
    worst_ms: f64,
}

pub(crate) fn run(place: &Place, report: &mut Report) -> Result<()> {
    let mut base = Base::new(&place.folder("processes-base")?, 120)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let ratios = compare(
        &mut || base.rate(),
        &mut [
            ("1", Box::new(|| Ok(place.fresh(|folder| round("ours", folder, 1))?.rate))),
            (
                "8",
                Box::new(|| kept(&mut ours, place.fresh(|folder| round("ours", folder, WRITERS))?)),
            ),
            ("sqlite_1", Box::new(|| Ok(place.fresh(|folder| round("sqlite", folder, 1))?.rate))),
            (
                "sqlite_8",
                Box::new(|| kept(&mut theirs, place.fresh(|folder| round("sqlite", folder, WRITERS))?)),
            ),
        ],
        place.patience,
    )?;
    let base_p50 = p50_ms(&base.times);
    let of = |rounds: &[Shares], figure: fn(&Shares) -> f64| middle(rounds.iter().map(figure).collect());
    report.control("processes", ratios.control(), ratios.rounds());
    report.bar("8_processes_per_one", ratios.times("8", "1"), AtLeast, 2.0);
    report.bar("8_processes_smallest_share", of(&ours, |round| round.fairness), AtLeast, 0.9);
    report.bar(
        "8_processes_worst_wait_per_base",
        of(&ours, |round| round.worst_ms) / base_p50,
        AtMost,
        30.0,
    );
    let base = "x append + fdatasync";
    report.info("8_processes", ratios.times_base("8"), base);
    report.info("sqlite_8_processes", ratios.times_base("sqlite_8"), base);
    report.info("sqlite_8_processes_per_one", ratios.times("sqlite_8", "sqlite_1"), "");
    report.info("sqlite_8_processes_smallest_share", of(&theirs, |round| round.fairness), "");
    report.info(
        "sqlite_8_processes_worst_wait_per_base",
        of(&theirs, |round| round.worst_ms) / base_p50,
        "",
    );
    Ok(())
}

fn kept(rounds: &mut Vec<Shares>, round: Shares) -> Result<f64> {
    let rate = round.rate;
    rounds.push(round);
    Ok(rate)
}

fn round(role: &str, folder: &Path, writers: usize) -> Result<Shares> {
    // The folder is made by the first, so that none meets it half made.
    let mut running = vec![Running::start(role, folder, RUN_FOR_MS, false)?];
    for one in &mut running {
        one.await_ready()?;
    }
    for _ in 1..writers {
        running.push(Running::start(role, folder, RUN_FOR_MS, false)?);
    }
    for one in running.iter_mut().skip(1) {
        one.await_ready()?;
    }
    for one in &mut running {
        one.tell("go")?;
    }
    let (mut rates, mut worst_ms) = (Vec::new(), 0.0_f64);
    for one in running {
        let [rate, worst] = <[f64; 2]>::try_from(one.figures()?).map_err(|_| "a writer's figures are two")?;
        rates.push(rate);
        worst_ms = worst_ms.max(worst);
    }
    let (least, most) = (
        rates.iter().copied().fold(f64::MAX, f64::min),
        rates.iter().copied().fold(0.0, f64::max),
    );
    Ok(Shares {
        rate: rates.iter().sum(),
        fairness: least / most,
        worst_ms,
    })
}

/// Long enough that the eight start within a hundredth of it.
const RUN_FOR_MS: &str = "600";

/// In the child: claims for so many milliseconds; then its rate and its worst wait.
pub(crate) fn write_for_a_while(millis: &str, one: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let run_for = Duration::from_millis(millis.parse()?);
    child::ready()?;
    let began = now();
    let (mut last, mut worst, mut done) = (began, Duration::ZERO, 0_u32);
    while last.duration_since(began) < run_for {
        one()?;
        let after = now();
        worst = worst.max(after.duration_since(last));
        last = after;
        done += 1;
    }
    let rate = f64::from(done) / last.duration_since(began).as_secs_f64();
    child::say(&format!("{rate} {}", worst.as_secs_f64() * 1e3))
}
