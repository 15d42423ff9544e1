//! How long something took, and how much of the processor: to the nanosecond, which `/proc` would not tell of a thread that runs.

use std::time::{Duration, Instant};

pub(crate) const KNOWS_THE_PROCESSOR: bool = cfg!(unix);

pub(crate) struct Stopwatch {
    began: Instant,
    cpu: f64,
    cpu_of_all: f64,
}

/// Times of the processor in microseconds: this thread's, and all of this process's.
pub(crate) struct Took {
    pub(crate) whole: Duration,
    pub(crate) cpu: f64,
    pub(crate) cpu_of_all: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch {
            cpu_of_all: cpu_of_all(),
            cpu: cpu(),
            began: now(),
        }
    }

    pub(crate) fn stop(&self) -> Took {
        Took {
            whole: self.began.elapsed(),
            cpu: cpu() - self.cpu,
            cpu_of_all: cpu_of_all() - self.cpu_of_all,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(unix)]
fn cpu() -> f64 {
    read(rustix::time::ClockId::ThreadCPUTime)
}

#[cfg(unix)]
fn cpu_of_all() -> f64 {
    read(rustix::time::ClockId::ProcessCPUTime)
}

#[cfg(unix)]
fn read(clock: rustix::time::ClockId) -> f64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

#[cfg(not(unix))]
fn cpu() -> f64 {
    f64::NAN
}

#[cfg(not(unix))]
fn cpu_of_all() -> f64 {
    f64::NAN
}

/// The median; of none, nothing that could pass for a figure.
pub(crate) fn middle(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
