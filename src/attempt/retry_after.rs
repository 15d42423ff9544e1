//! What a server asks us to wait: the `Retry-After` header, read. Pure; whether and how long we do wait is decided elsewhere.

use crate::answer::Head;
use std::time::Duration;

/// The longest wait that is passed on. A year says "not now" as well as a million years do, and can be added to any moment.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The wait asked for in whole seconds (RFC 9110, section 10.2.3). Anything else is no wait: half-understood advice is worse than none,
/// and our own pace is kind enough.
pub(crate) fn wait(head: &Head) -> Option<Duration> {
    let text = head.header("retry-after")?.trim_matches([' ', '\t']);
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Digits only, so the one way to fail is to be too large.
    let seconds = text.parse().unwrap_or(u64::MAX);
    Some(Duration::from_secs(seconds).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue, StatusCode};

    #[test]
    fn only_whole_seconds_are_a_wait() {
        let year = LONGEST.as_secs();
        for (text, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("007", Some(7)),
            (" 3\t", Some(3)),
            ("31536000", Some(year)),
            ("31536001", Some(year)),
            ("18446744073709551615", Some(year)),
            ("18446744073709551616", Some(year)),
            ("99999999999999999999999999999999", Some(year)),
            ("", None),
            ("  ", None),
            ("+5", None),
            ("-1", None),
            ("1.5", None),
            ("1e3", None),
            ("0x10", None),
            ("soon", None),
            ("12 0", None),
            ("120, 60", None),
            ("120;", None),
            ("\u{b2}", None),
            ("\u{663}", None),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", HeaderValue::from_str(text).unwrap());
            let head = Head::new(StatusCode::SERVICE_UNAVAILABLE, headers);
            assert_eq!(wait(&head), seconds.map(Duration::from_secs), "{text:?}");
        }
        assert_eq!(wait(&Head::new(StatusCode::OK, HeaderMap::new())), None);
    }
}
