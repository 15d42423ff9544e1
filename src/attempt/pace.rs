//! Patience: whether there is a next attempt, and how long to wait before it. Pure: it asks no clock, does not sleep and looks at no answer; it
//! is told what is left and what was asked for.
//!
//! The only file that names the `backoff` crate. That crate gives numbers and nothing else: its `retry` starts the next attempt before the
//! wait, knows no limit of attempts, and lets a server's `Retry-After` switch its time limit off.

use super::budget::{Account, Bucket};
use crate::{clock::Timestamp, ids::dice, invalid::Invalid, lifecycle::Rest};
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

/// What one flight may still do: attempts of its own, time of its call, and what the budget of all flights has left. Each of the three holds
/// whatever a server asks for.
pub(crate) struct Patience<'a, D = fn(u64) -> u64> {
    pace: Pace<D>,
    attempts: u32,
    made: u32,
    account: Account<'a>,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(pacing: Pacing, budget: &'a Bucket) -> Self {
        Patience::rolling(pacing, budget, dice)
    }
}

impl<'a, D: FnMut(u64) -> u64> Patience<'a, D> {
    /// With another source of chance: a number below the one it is given.
    fn rolling(pacing: Pacing, budget: &'a Bucket, dice: D) -> Self {
        Patience {
            pace: Pace::new(pacing.base, pacing.cap, dice),
            attempts: pacing.attempts,
            made: 0,
            account: budget.account(),
        }
    }

    /// After an attempt: how long to wait for the next one, at least as long as the server asked; or why there is none. `cost`: what it takes
    /// from the budget. `left`: of the call's time.
    pub(crate) fn next(&mut self, not_before: Option<Duration>, cost: u32, left: Duration) -> Result<Duration, Spent> {
        let wait = self.pace.next(not_before);
        self.weigh(wait, not_before.is_some(), cost, left)
    }

    /// After an attempt that a fresh credential can mend: there is nothing to wait for.
    pub(crate) fn at_once(&mut self, cost: u32, left: Duration) -> Result<Duration, Spent> {
        self.weigh(Duration::ZERO, false, cost, left)
    }

    fn weigh(&mut self, wait: Duration, asked: bool, cost: u32, left: Duration) -> Result<Duration, Spent> {
        self.made = self.made.saturating_add(1);
        // Where our own patience ended, only the server's word is worth waiting for.
        let its_word = Some(wait).filter(|_| asked);
        if self.made >= self.attempts {
            return Err(Spent::Attempts(its_word));
        }
        // Never sleep past the limit: whoever resumes finds when it is worth trying.
        if wait >= left {
            return Err(Spent::Time(wait));
        }
        // Last, so that nothing is taken for an attempt that is not made.
        match self.account.take(cost) {
            true => Ok(wait),
            false => Err(Spent::Budget(its_word)),
        }
    }

    /// The attempt that was due was not made: its order was settled meanwhile.
    pub(crate) fn not_made(self) {
        self.account.not_made();
    }

    /// The flight ended in a success.
    pub(crate) fn succeeded(self) {
        self.account.succeeded();
    }
}

/// Why there is no next attempt, and how long from now it is worth waiting for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    Attempts(Option<Duration>),
    Time(Duration),
    Budget(Option<Duration>),
}

impl Spent {
    pub(crate) fn rest(self, now: Timestamp) -> Rest {
        let at = |wait: Duration| now.plus(wait);
        match self {
            Spent::Attempts(wait) => Rest::AttemptsSpent { retry_at: wait.map(at) },
            Spent::Time(wait) => Rest::TimeSpent { retry_at: Some(at(wait)) },
            Spent::Budget(wait) => Rest::BudgetSpent { retry_at: wait.map(at) },
        }
    }
}

/// The delays of one flight, one after the other; it never ends by itself.
struct Pace<D> {
    ceilings: Ceilings,
    dice: D,
}

impl<D: FnMut(u64) -> u64> Pace<D> {
    fn new(base: Duration, cap: Duration, dice: D) -> Self {
        let cap = cap.min(LONGEST);
        let ceilings = Ceilings::new(base.min(cap), cap);
        Pace { ceilings, dice }
    }

    /// The next delay: somewhere in `0..=ceiling` ("full jitter"). What the server asked for is a lower bound, and the jitter goes on top:
    /// those who were all told "in 30 seconds" must not all come in 30 seconds.
    fn next(&mut self, at_least: Option<Duration>) -> Duration {
        // A year of nanoseconds is about 2^55.
        let ceiling = u64::try_from(self.ceilings.next().as_nanos()).unwrap_or(u64::MAX);
        let jitter = Duration::from_nanos((self.dice)(ceiling.saturating_add(1)));
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
    use super::{
        super::{budget::RetryBudget, retry_after},
        *,
    };
    use crate::answer::Head;
    use http::{HeaderMap, HeaderValue, StatusCode};
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

    /// Chance at its kindest and at its worst.
    fn lowest(_: u64) -> u64 {
        0
    }

    fn highest(below: u64) -> u64 {
        below - 1
    }

    /// 300 delays of both series, whatever was asked for.
    fn keeps_its_promises(base: Duration, cap: Duration) {
        let mut used = Pace::new(base, cap, dice);
        let mut pace = Pace::new(base, cap, dice);
        let (mut least, mut most) = (Pace::new(base, cap, lowest), Pace::new(base, cap, highest));
        let cap = cap.min(LONGEST);
        let mut ceilings = ours::Ceilings::new(base.min(cap), cap);
        let mut before = Duration::ZERO;
        for n in 0..=300 {
            let (theirs, ours) = (used.ceilings.next(), ceilings.next());
            let slack = Duration::from_millis(1).max(ours / 1000);
            assert!(
                theirs.abs_diff(ours) <= slack,
                "{n}: {theirs:?}, not {ours:?}, of {base:?} to {cap:?}"
            );
            assert!(theirs <= cap && ours <= cap, "{n}: {theirs:?} and {ours:?} of {base:?} to {cap:?}");
            assert!(theirs >= before, "{n}: {theirs:?} after {before:?}");
            before = theirs;
            let delay = pace.next(None);
            assert!(delay <= theirs, "{n}: {delay:?} is more than {theirs:?}");
            assert_eq!((least.next(None), most.next(None)), (Duration::ZERO, theirs), "{n}");
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

    /// What a flight meets: how long each attempt takes, what the answer asks for, and what its retry costs.
    fn meets() -> impl Strategy<Value = Vec<(Duration, String, u32)>> {
        let took = (0..40_000_u64).prop_map(Duration::from_millis);
        let asks = prop_oneof![
            Just("-".to_owned()),
            "[0-9]{1,3}",
            "[0-9]{1,30}",
            "[ -~]{0,30}",
            "(Thu|Fri), 0[12] Jan 1970 00:[0-5][0-9]:[0-5][0-9] GMT",
            "(Monday|Friday), [0-3][0-9]-(Jan|Dec)-[0-9]{2} 23:59:59 GMT",
        ];
        prop::collection::vec((took, asks, prop_oneof![Just(5_u32), Just(10)]), 40)
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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        /// A flight from its first attempt to its rest, without a clock and without a server: the time that it would take is added up.
        #[test]
        fn attempts_time_and_budget_hold_whatever_a_server_asks_for(
            base in 1..5_000_u64, more in 0..30_000_u64, attempts in 1..40_u32, total in 1..300_u64, tokens in 0..200_u32,
            meets in meets(), rolls in prop::collection::vec(any::<u64>(), 40),
        ) {
            let pacing = Pacing {
                base: Duration::from_millis(base),
                cap: Duration::from_millis(base + more),
                attempts,
            };
            prop_assert!(pacing.check().is_ok());
            let total = Duration::from_secs(total);
            let bucket = Bucket::new(RetryBudget::new(tokens));
            let mut rolls = rolls.into_iter();
            let mut patience = Patience::rolling(pacing, &bucket, |below| rolls.next().unwrap() % below);
            let (mut made, mut spent, mut paid, mut slept_until) = (0, Duration::ZERO, 0, Duration::ZERO);
            let start = Timestamp::from_millis(0);
            for (took, asks, cost) in meets {
                prop_assert!(made < attempts && slept_until < total, "attempt {made}");
                made += 1;
                spent += took;
                let now = start.plus(spent);
                let header = HeaderValue::from_str(&asks).unwrap();
                let head = Head::new(StatusCode::TOO_MANY_REQUESTS, HeaderMap::from_iter([(http::header::RETRY_AFTER, header)]));
                let asked = retry_after::wait(&head, now);
                match patience.next(asked, cost, total.saturating_sub(spent)) {
                    Ok(wait) => {
                        prop_assert!(wait >= asked.unwrap_or_default(), "{wait:?} of {asked:?}");
                        prop_assert!(wait <= asked.unwrap_or_default() + pacing.cap, "{wait:?} of {asked:?}");
                        spent += wait;
                        slept_until = spent;
                        paid += cost;
                        prop_assert!(paid <= tokens);
                    }
                    Err(why) => {
                        let retry_at = match why.rest(now) {
                            Rest::AttemptsSpent { retry_at } => {
                                prop_assert_eq!(made, attempts);
                                retry_at
                            }
                            Rest::TimeSpent { retry_at } => {
                                prop_assert!(made < attempts && retry_at.unwrap() >= start.plus(total));
                                retry_at
                            }
                            Rest::BudgetSpent { retry_at } => {
                                prop_assert!(made < attempts && paid + cost > tokens);
                                retry_at
                            }
                            other => panic!("{other:?}"),
                        };
                        // The server's word is passed on, never made shorter.
                        prop_assert!(asked.is_none_or(|asked| retry_at >= Some(now.plus(asked))), "{retry_at:?}, asked for {asked:?}");
                        return Ok(());
                    }
                }
            }
            prop_assert!(false, "it never rests");
        }
    }

    #[test]
    fn ceilings_double_up_to_the_cap() {
        let mut pace = Pace::new(Duration::from_millis(200), Duration::from_secs(1), highest);
        let millis = [(); 5].map(|()| pace.next(None).as_millis());
        assert_eq!(millis, [200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn the_servers_wait_is_a_lower_bound_with_jitter_on_top() {
        let (asked, base) = (Duration::from_secs(30), Duration::from_secs(10));
        let roll = |dice: fn(u64) -> u64, at_least| Pace::new(base, base, dice).next(at_least);
        let ask = Some(asked);
        assert_eq!([lowest, highest].map(|dice| roll(dice, ask)), [asked, asked + base]);
        assert_eq!(roll(|below| below / 4, ask), Duration::from_millis(32_500));
        assert_eq!([lowest, highest].map(|dice| roll(dice, None)), [Duration::ZERO, base]);
        assert_eq!(roll(highest, Some(Duration::MAX)), Duration::MAX);
    }

    /// BUG-27: equal delays made all clients come back at once.
    #[test]
    fn twenty_clients_roll_twenty_delays() {
        let base = Duration::from_millis(200);
        for asked in [None, Some(Duration::from_secs(30))] {
            let mut delays = (0..20).map(|_| Pace::new(base, base, dice).next(asked)).collect::<Vec<_>>();
            delays.sort();
            let (first, last) = (delays[0], delays[19]);
            // That all of them fall so close together by chance happens once in some 10^18 runs.
            assert!(last - first >= Duration::from_millis(20), "in step: {delays:?}");
            let at_least = asked.unwrap_or_default();
            assert!(first >= at_least && last <= at_least + base, "{delays:?}");
            delays.dedup();
            assert_eq!(delays.len(), 20);
        }
    }

    #[test]
    fn the_last_attempt_asks_for_no_retry_and_a_fresh_credential_waits_for_nothing() {
        let bucket = Bucket::new(RetryBudget::new(5));
        let pacing = Pacing {
            attempts: 2,
            ..Pacing::default()
        };
        let flight = || Patience::rolling(pacing, &bucket, highest);
        let (ample, wait) = (Duration::from_secs(60), Some(Duration::from_secs(3)));
        let mut first = flight();
        assert_eq!(first.at_once(5, ample), Ok(Duration::ZERO));
        assert_eq!(first.next(wait, 5, ample), Err(Spent::Attempts(Some(Duration::from_millis(3200)))));
        first.not_made();
        // One token less than it would take, and a wait that ends with the call.
        assert_eq!(flight().next(None, 6, ample), Err(Spent::Budget(None)));
        assert_eq!(flight().next(wait, 6, ample), Err(Spent::Budget(Some(Duration::from_millis(3200)))));
        let just = Duration::from_millis(3200);
        assert_eq!(flight().next(wait, 5, just), Err(Spent::Time(just)));
        assert_eq!(flight().at_once(5, Duration::ZERO), Err(Spent::Time(Duration::ZERO)));
        let nearly = just + Duration::from_nanos(1);
        assert_eq!(
            flight().next(wait, 5, nearly),
            Ok(just),
            "nothing was taken for those that were not made"
        );
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
