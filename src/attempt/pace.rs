//! Patience: how long to wait before the next attempt, as a series of delays. It does not sleep, count attempts or look at answers.
//!
//! The only file that names the `backoff` crate. That crate gives numbers and nothing else: its `retry` starts the next attempt before the
//! wait, knows no limit of attempts, and lets a server's `Retry-After` switch its time limit off.

use crate::{ids::dice, invalid::Invalid};
use std::time::Duration;

#[cfg(not(feature = "backoff"))]
use ours::Ceilings;
#[cfg(feature = "backoff")]
use theirs::Ceilings;

/// No wait between two attempts is planned longer than a year, so that sums of waits and moments can't overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How the attempts at one order are spread over time.
///
/// The wait before attempt n + 1 is drawn evenly between zero and min(`cap`, `base` · 2ⁿ⁻¹): many clients that failed together don't come
/// back together. A server's `Retry-After` is honoured on top of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// The longest first wait. 200 ms: a lost connection is usually a moment's matter.
    pub base: Duration,
    /// The longest wait of all, unless the server asks for more. 20 s: long enough for a restart, short enough for several within
    /// `Timeouts::total`.
    pub cap: Duration,
    /// How often one order is sent before the caller hears that it is in doubt. 4; a later resume may send it again, under the same key.
    pub attempts: u32,
}

impl Default for Pacing {
    fn default() -> Self {
        Pacing {
            base: Duration::from_millis(200),
            cap: Duration::from_secs(20),
            attempts: 4,
        }
    }
}

impl Pacing {
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let refuse = |field: &str, cure: &str| Err(Invalid::new(format!("pacing.{field}"), cure));
        if self.base.is_zero() {
            return refuse("base", "must be longer than zero: a retry at once meets the same trouble");
        }
        if self.base > self.cap {
            return refuse("base", "must not be longer than `cap`");
        }
        if self.cap > LONGEST {
            return refuse("cap", "must be at most a year");
        }
        if self.attempts == 0 {
            return refuse("attempts", "must be at least 1");
        }
        Ok(())
    }
}

/// The delays of one flight, one after the other; it never ends by itself.
pub(crate) struct Pace(Ceilings);

impl Pace {
    pub(crate) fn new(base: Duration, cap: Duration) -> Self {
        let cap = cap.min(LONGEST);
        Pace(Ceilings::new(base.min(cap), cap))
    }

    /// The next delay: somewhere in `0..=ceiling` ("full jitter"). What the server asked for is a lower bound, and the jitter goes on top:
    /// those who were all told "in 30 seconds" must not all come in 30 seconds.
    pub(crate) fn next(&mut self, at_least: Option<Duration>) -> Duration {
        // A year of nanoseconds is about 2^55.
        let ceiling = u64::try_from(self.0.next().as_nanos()).unwrap_or(u64::MAX);
        let jitter = Duration::from_nanos(dice(ceiling.saturating_add(1)));
        at_least.unwrap_or_default().saturating_add(jitter)
    }
}

/// The ceilings as `backoff` counts them, its own randomness and time limit switched off.
#[cfg(feature = "backoff")]
mod theirs {
    use backoff::{ExponentialBackoff, ExponentialBackoffBuilder, backoff::Backoff};
    use std::time::Duration;

    pub(super) struct Ceilings(ExponentialBackoff);

    impl Ceilings {
        /// `base` at most `cap`, and `cap` at most a year: beyond that its floating-point nanoseconds lose more than they keep.
        pub(super) fn new(base: Duration, cap: Duration) -> Self {
            let series = ExponentialBackoffBuilder::new()
                .with_initial_interval(base)
                .with_max_interval(cap)
                .with_multiplier(2.0)
                .with_randomization_factor(0.0)
                .with_max_elapsed_time(None)
                .build();
            Ceilings(series)
        }

        /// The interval is read before the step: what `next_backoff` returns is the interval plus up to a nanosecond, which its conversion
        /// from floating point can round up to a second.
        pub(super) fn next(&mut self) -> Duration {
            let ceiling = self.0.current_interval.min(self.0.max_interval);
            self.0.next_backoff();
            ceiling
        }
    }
}

/// The same ceilings in whole numbers.
#[cfg(any(test, not(feature = "backoff")))]
mod ours {
    use std::time::Duration;

    pub(super) struct Ceilings {
        next: Duration,
        cap: Duration,
    }

    impl Ceilings {
        pub(super) fn new(base: Duration, cap: Duration) -> Self {
            Ceilings { next: base, cap }
        }

        pub(super) fn next(&mut self) -> Duration {
            let ceiling = self.next;
            self.next = ceiling.saturating_mul(2).min(self.cap);
            ceiling
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EDGES: [Duration; 9] = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_nanos(999_999_999),
        Duration::from_millis(200),
        Duration::from_secs(20),
        Duration::from_nanos(u64::MAX),
        LONGEST,
        Duration::from_secs(u64::MAX),
        Duration::MAX,
    ];

    /// 300 delays of both series, whatever was asked for.
    fn keeps_its_promises(base: Duration, cap: Duration) {
        let mut used = Pace::new(base, cap);
        let cap = cap.min(LONGEST);
        let mut ceilings = ours::Ceilings::new(base.min(cap), cap);
        let mut pace = Pace::new(base, cap);
        for n in 0..=300 {
            let (theirs, ours) = (used.0.next(), ceilings.next());
            let slack = Duration::from_millis(1).max(ours / 1000);
            assert!(
                theirs.abs_diff(ours) <= slack,
                "{n}: {theirs:?}, not {ours:?}, of {base:?} to {cap:?}"
            );
            assert!(theirs <= cap && ours <= cap, "{n}: {theirs:?} and {ours:?} of {base:?} to {cap:?}");
            let delay = pace.next(None);
            assert!(delay <= theirs, "{n}: {delay:?} is more than {theirs:?}");
        }
    }

    /// BUG-26: no delay overflows, however many there were.
    #[test]
    fn both_series_agree_and_stay_below_the_cap_at_the_edges() {
        for base in EDGES {
            for cap in EDGES {
                keeps_its_promises(base, cap);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn both_series_agree_and_stay_below_the_cap(
            base in 0..u64::MAX, base_shift in 0..64_u32, cap in 0..u64::MAX, cap_shift in 0..64_u32,
        ) {
            // Shifted, so that every order of magnitude comes up, from nanoseconds to centuries.
            keeps_its_promises(Duration::from_nanos(base >> base_shift), Duration::from_nanos(cap >> cap_shift));
        }
    }

    #[test]
    fn ceilings_double_up_to_the_cap() {
        let mut ceilings = Pace::new(Duration::from_millis(200), Duration::from_secs(1)).0;
        let millis = [(); 5].map(|()| ceilings.next().as_millis());
        assert_eq!(millis, [200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn the_servers_wait_is_a_lower_bound_with_jitter_on_top() {
        let asked = Duration::from_secs(30);
        let mut delays = (0..20).map(|_| Pace::new(asked, asked).next(Some(asked))).collect::<Vec<_>>();
        assert!(delays.iter().all(|delay| (asked..=asked * 2).contains(delay)), "{delays:?}");
        delays.dedup();
        assert!(delays.len() > 1, "everybody comes at once: {delays:?}");
        assert_eq!(Pace::new(asked, asked).next(Some(Duration::MAX)), Duration::MAX);
    }

    #[test]
    fn a_pacing_that_hammers_or_never_sends_is_refused() {
        let refused = |change: fn(&mut Pacing)| {
            let mut pacing = Pacing::default();
            change(&mut pacing);
            pacing.check().map_err(|e| e.field)
        };
        assert_eq!(refused(|_| ()), Ok(()));
        assert_eq!(refused(|p| p.base = Duration::ZERO), Err("pacing.base".into()));
        assert_eq!(refused(|p| p.base = p.cap * 2), Err("pacing.base".into()));
        assert_eq!(refused(|p| p.cap = Duration::MAX), Err("pacing.cap".into()));
        assert_eq!(refused(|p| p.attempts = 0), Err("pacing.attempts".into()));
    }
}
