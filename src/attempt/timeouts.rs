//! How long to wait for what: three limits with three names. Plain numbers; no timer runs here.

use crate::invalid::Invalid;
use std::time::Duration;

/// Longer waiting is `resume`'s work, and a day can still be added to any moment without an overflow.
const TOTAL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long to wait for what. Every limit is set; none of them says what became of the order when it runs out.
///
/// ```
/// use std::time::Duration;
/// use uketsuke::Timeouts;
///
/// let patient = Timeouts { attempt: Duration::from_secs(60), ..Timeouts::default() };
/// assert_eq!(patient.connect, Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection stands: name, TCP and TLS together. When it runs out, nothing was sent. 5 s, since a server that does not even
    /// answer the door is better asked again later. Must be shorter than `attempt`.
    pub connect: Duration,
    /// Until one attempt's whole answer is here, connecting and the body included. When it runs out, the order may have been processed.
    /// 30 s: give more than the server takes in its slowest hour, for each attempt given up early is one in doubt.
    pub attempt: Duration,
    /// Until a submit answers its caller, all attempts and the waiting between them together. 120 s. At least `attempt`.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(5),
            attempt: Duration::from_secs(30),
            total: Duration::from_secs(120),
        }
    }
}

impl Timeouts {
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let refuse = |field: &str, cure: &str| Err(Invalid::new(format!("timeouts.{field}"), cure));
        if self.connect.is_zero() {
            return refuse("connect", "must be longer than zero");
        }
        if self.connect >= self.attempt {
            return refuse(
                "connect",
                "must be shorter than `attempt`: a connect limit that is not shorter than the attempt's makes \
                 'never left' indistinguishable from 'no answer'",
            );
        }
        // Not allowed although it would do no harm: nobody means it, and who mixed up the two fields should hear of it.
        if self.attempt > self.total {
            return refuse("attempt", "must not be longer than `total`, which contains it");
        }
        if self.total > TOTAL_MAX {
            return refuse("total", "must be at most 24 hours: what takes longer is for `resume`");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_blur_what_was_sent_are_refused() {
        let limits = |connect, attempt, total| {
            let [connect, attempt, total] = [connect, attempt, total].map(Duration::from_secs);
            Timeouts { connect, attempt, total }.check().map_err(|e| e.field)
        };
        assert_eq!(Timeouts::default().check(), Ok(()));
        assert_eq!(limits(1, 2, 2), Ok(()));
        assert_eq!(limits(0, 2, 2), Err("timeouts.connect".into()));
        assert_eq!(limits(0, 0, 0), Err("timeouts.connect".into()));
        assert_eq!(limits(2, 2, 9), Err("timeouts.connect".into()));
        assert_eq!(limits(1, 3, 2), Err("timeouts.attempt".into()));
        assert_eq!(limits(1, 2, u64::MAX), Err("timeouts.total".into()));
    }
}
