//! Time, and the house's only door to the machine's clocks.
//!
//! Wall time stands in records and is compared with what a server promises to remember; it is never used to order records (the journal's
//! sequence does that) or to wait (tokio's timers do that). Boot time stands beside it, so that a later reader can tell a clock step from an
//! age.

use serde::{Deserialize, Serialize};
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A moment of wall time: milliseconds since the Unix epoch, UTC. Shown and journalled as RFC 3339 with three decimals and `Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Year 0001 to 9999, the range in which the text form has a fixed width.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_207_200_000;

impl Timestamp {
    /// From milliseconds since the Unix epoch; kept within the years 1 to 9999.
    pub fn from_millis(millis: i64) -> Self {
        Timestamp(millis.clamp(*RANGE.start(), *RANGE.end()))
    }

    /// Milliseconds since the Unix epoch.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// This moment and `after` more; stops at the end of the year 9999.
    #[must_use]
    pub fn plus(self, after: Duration) -> Self {
        let millis = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(self.0.saturating_add(millis))
    }

    /// This moment and `before` less; stops at the start of the year 1.
    #[must_use]
    pub fn minus(self, before: Duration) -> Self {
        let millis = i64::try_from(before.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(self.0.saturating_sub(millis))
    }

    /// As HTTP writes a moment (IMF-fixdate, RFC 9110 section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`. Fractions of a second are cut off.
    pub(crate) fn http_date(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
            // Unreachable by construction; a header is no place for a guess.
            Err(_) => String::new(),
        }
    }

    /// A moment as HTTP writes it, in any of its three spellings (RFC 9110 section 5.6.7): of a real day, under its own weekday.
    pub(crate) fn of_http_date(text: &str) -> Option<Self> {
        let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_millis()).ok().map(Timestamp::from_millis)
    }

    /// How long ago `earlier` was, or `None` when it lies in the future.
    pub fn since(self, earlier: Timestamp) -> Option<Duration> {
        u64::try_from(self.0.checked_sub(earlier.0)?).ok().map(Duration::from_millis)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            // Unreachable by construction; the number is still the truth.
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Timestamp {
    type Err = crate::invalid::Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>()
            .map(|at| Timestamp::from_millis(at.as_millisecond()))
            .map_err(|_| crate::invalid::Invalid::new("time", "must be RFC 3339, such as 2026-12-01T09:00:00Z"))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Which boot of the machine this is, and how long it has run. Within one boot, ages can be counted without trusting the wall clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// The kernel's name for this boot.
    pub id: String,
    /// Milliseconds since the machine started, time asleep included.
    pub up_ms: u64,
}

/// Where the time comes from. Implement it to test what days do; production uses [`SystemClock`].
pub trait Clock: Send + Sync + fmt::Debug {
    /// Wall time now.
    fn now(&self) -> Timestamp;

    /// Boot and time since, where the platform tells.
    fn boot(&self) -> Option<Boot> {
        None
    }
}

/// Now, for limits and durations: never steps. Tests of pure code may pause it; tests with sockets don't.
pub(crate) fn monotonic() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map(|ms| -ms).unwrap_or(i64::MIN),
        };
        Timestamp::from_millis(millis)
    }

    /// Linux only: `/proc/uptime` counts time asleep, as `CLOCK_BOOTTIME` does. Opened once: each attempt asks, and a read is made anew each time.
    #[cfg(target_os = "linux")]
    fn boot(&self) -> Option<Boot> {
        static ID: OnceLock<Option<String>> = OnceLock::new();
        static UPTIME: OnceLock<Option<std::fs::File>> = OnceLock::new();
        let id = ID
            .get_or_init(|| {
                let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
                Some(id.trim().to_owned())
            })
            .clone()?;
        let uptime = UPTIME.get_or_init(|| std::fs::File::open("/proc/uptime").ok()).as_ref()?;
        let mut text = [0; 64];
        let len = std::os::unix::fs::FileExt::read_at(uptime, &mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        let (seconds, hundredths) = text.split_whitespace().next()?.split_once('.')?;
        let up_ms = seconds
            .parse::<u64>()
            .ok()?
            .saturating_mul(1000)
            .saturating_add(hundredths.parse::<u64>().ok()?.saturating_mul(10));
        Some(Boot { id, up_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_has_one_width_and_reads_back() {
        for millis in [0, 1, 999, 1_796_083_366_123, *RANGE.start(), *RANGE.end()] {
            let at = Timestamp::from_millis(millis);
            let text = at.to_string();
            assert_eq!(text.len(), 24, "{text}");
            assert_eq!(text.parse::<Timestamp>().unwrap(), at);
        }
    }

    #[test]
    fn arithmetic_stops_at_the_ends_instead_of_overflowing() {
        let end = Timestamp::from_millis(i64::MAX);
        assert_eq!(end.plus(Duration::MAX), end);
        assert_eq!(end.minus(Duration::MAX).to_string(), "0001-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(0).since(end), None);
    }
}
