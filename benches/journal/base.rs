//! What everything is measured against: one append of 600 bytes and one fdatasync, by one thread, in the same run. And the way of comparing:
//! base, other, base, other; a ratio for each pair; the median of those.

use crate::Result;
use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

/// A record's line, its line break included. Ours, SQLite's rows and the bare append all carry this much.
pub(crate) const RECORD: usize = 600;

/// Fewer pairs than this are no median.
const ROUNDS_AT_LEAST: usize = 3;

#[expect(clippy::disallowed_methods, reason = "a stopwatch")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// How long it took, and what came of it.
pub(crate) fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(Duration, T)> {
    let began = now();
    let value = work()?;
    Ok((began.elapsed(), value))
}

/// Does it `times` over, and says how many that is in a second.
pub(crate) fn rate(times: usize, one: impl FnMut() -> Result<()>) -> Result<f64> {
    rate_and_times(times, &mut Vec::with_capacity(times), one)
}

/// The same; each one's time goes to `each`.
pub(crate) fn rate_and_times(times: usize, each: &mut Vec<Duration>, mut one: impl FnMut() -> Result<()>) -> Result<f64> {
    let began = now();
    let mut before = began;
    for _ in 0..times {
        one()?;
        let after = now();
        each.push(after.duration_since(before));
        before = after;
    }
    Ok(times as f64 / began.elapsed().as_secs_f64())
}

/// The bare append and fdatasync.
pub(crate) struct Base {
    file: File,
    record: Vec<u8>,
    block: usize,
    pub(crate) times: Vec<Duration>,
}

impl Base {
    /// Measured `block` appends at a time.
    pub(crate) fn new(folder: &Path, block: usize) -> Result<Base> {
        let mut record = vec![b'x'; RECORD];
        if let Some(end) = record.last_mut() {
            *end = b'\n';
        }
        Ok(Base {
            file: OpenOptions::new().create(true).append(true).open(folder.join("base"))?,
            record,
            block,
            times: Vec::new(),
        })
    }

    /// One of them.
    pub(crate) fn one(&mut self) -> Result<()> {
        self.file.write_all(&self.record)?;
        self.file.sync_data()?;
        Ok(())
    }

    /// How many in a second. A few that don't count come first: what was measured before leaves the disk busy with what it wrote and removed.
    pub(crate) fn rate(&mut self) -> Result<f64> {
        for _ in 0..self.block / 2 {
            self.one()?;
        }
        let mut times = std::mem::take(&mut self.times);
        let rate = rate_and_times(self.block, &mut times, || self.one());
        self.times = times;
        rate
    }
}

/// Something to compare: its name, and how it finds its rate.
pub(crate) type Contender<'a> = (&'static str, Box<dyn FnMut() -> Result<f64> + 'a>);

/// How long to go on comparing.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) rounds: usize,
    /// However slow the machine is today; three rounds are made all the same.
    pub(crate) at_most: Duration,
}

/// The rounds' ratios to the base.
pub(crate) struct Ratios(Vec<(&'static str, Vec<f64>)>);

impl Ratios {
    pub(crate) fn rounds(&self) -> usize {
        self.0.first().map_or(0, |(_, rounds)| rounds.len())
    }

    fn of(&self, name: &str) -> &[f64] {
        self.0.iter().find(|(known, _)| *known == name).map_or(&[], |(_, rounds)| rounds)
    }

    /// So many times the base's rate.
    pub(crate) fn times_base(&self, name: &str) -> f64 {
        middle(self.of(name).to_vec())
    }

    /// So many times another's rate, round by round.
    pub(crate) fn times(&self, name: &str, other: &str) -> f64 {
        let pairs = self.of(name).iter().zip(self.of(other));
        middle(pairs.map(|(ours, theirs)| ours / theirs).collect())
    }

    /// The base against itself, as if it were one of the others.
    pub(crate) fn control(&self) -> f64 {
        self.times_base(CONTROL)
    }
}

const CONTROL: &str = "control";

/// Each contender between two blocks of the base, round after round. The first round warms up and is thrown away. The base is a contender too:
/// the control.
pub(crate) fn compare(base: &mut dyn FnMut() -> Result<f64>, contenders: &mut [Contender<'_>], patience: Patience) -> Result<Ratios> {
    let began = now();
    let names = std::iter::once(CONTROL).chain(contenders.iter().map(|(name, _)| *name));
    let mut ratios = Ratios(names.map(|name| (name, Vec::new())).collect());
    let mut before = base()?;
    for round in 0..=patience.rounds {
        if round > ROUNDS_AT_LEAST && began.elapsed() > patience.at_most {
            break;
        }
        for (at, (_, found)) in ratios.0.iter_mut().enumerate() {
            let contender = at.checked_sub(1).and_then(|at| contenders.get_mut(at));
            let rate = match contender {
                Some((_, measure)) => measure()?,
                None => base()?,
            };
            let after = base()?;
            if round > 0 {
                // The mean of their times, not of their rates: time is what was spent.
                found.push(rate * (before.recip() + after.recip()) / 2.0);
            }
            before = after;
        }
    }
    Ok(ratios)
}

/// The median; of none, nothing that could pass for a figure.
pub(crate) fn middle(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    let upper = of.get(of.len() / 2);
    let lower = of.len().checked_sub(1).and_then(|last| of.get(last / 2));
    match (lower, upper) {
        (Some(lower), Some(upper)) => (lower + upper) / 2.0,
        _ => f64::NAN,
    }
}

/// The median in milliseconds.
pub(crate) fn p50_ms(times: &[Duration]) -> f64 {
    middle(times.iter().map(|time| time.as_secs_f64() * 1e3).collect())
}
