//! What a server asks us to wait: the `Retry-After` header, read. Pure; whether and how long we do wait is decided elsewhere.

use crate::{answer::Head, clock::Timestamp};
use std::time::Duration;

/// The longest wait that is passed on. A year says "not now" as well as a million years do, and can be added to any moment.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The wait asked for (RFC 9110, section 10.2.3): whole seconds, or a date in any of HTTP's three spellings. A date gone by asks for no wait.
/// Anything else is no wait: half-understood advice is worse than none, and our own pace is kind enough.
///
/// A date is counted from the answer's own `Date`, since whoever wrote the one wrote the other: how wrong that clock is, or ours, does not
/// matter. Without one it is counted from `now`.
pub(crate) fn wait(head: &Head, now: Timestamp) -> Option<Duration> {
    let text = head.header("retry-after")?.trim_matches([' ', '\t']);
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // Digits only, so the one way to fail is to be too large.
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(LONGEST));
    }
    let until = Timestamp::of_http_date(text)?;
    let from = head.date().unwrap_or(now);
    Some(until.since(from).unwrap_or_default().min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
    use proptest::prelude::*;

    const YEAR: Option<Duration> = Some(LONGEST);

    fn head(headers: &[(&'static str, &str)]) -> Head {
        let pairs = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
        Head::new(StatusCode::SERVICE_UNAVAILABLE, HeaderMap::from_iter(pairs))
    }

    fn asked(text: &str, now: &str) -> Option<Duration> {
        wait(&head(&[("retry-after", text)]), now.parse().unwrap())
    }

    fn secs(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn whole_seconds_are_a_wait_and_nonsense_is_none() {
        for (text, wanted) in [
            ("0", secs(0)),
            ("120", secs(120)),
            ("007", secs(7)),
            (" 3\t", secs(3)),
            ("31536000", YEAR),
            ("31536001", YEAR),
            ("18446744073709551615", YEAR),
            ("18446744073709551616", YEAR),
            ("99999999999999999999999999999999", YEAR),
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
        ] {
            assert_eq!(asked(text, "2026-12-01T09:00:00Z"), wanted, "{text:?}");
        }
        assert_eq!(wait(&head(&[]), Timestamp::from_millis(0)), None);
    }

    #[test]
    fn a_date_is_read_in_three_spellings_and_one_gone_by_is_no_wait() {
        let now = "2026-12-01T09:00:00.250Z";
        for (text, wanted) in [
            ("Tue, 01 Dec 2026 09:00:30 GMT", Some(Duration::from_millis(29_750))),
            ("Tuesday, 01-Dec-26 09:00:30 GMT", Some(Duration::from_millis(29_750))),
            ("Tue Dec  1 09:00:30 2026", Some(Duration::from_millis(29_750))),
            ("\tTue, 01 Dec 2026 09:00:30 GMT ", Some(Duration::from_millis(29_750))),
            ("Wed, 21 Oct 2015 07:28:00 GMT", secs(0)),
            ("Tue, 01 Dec 2026 09:00:00 GMT", secs(0)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", secs(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", YEAR),
            // Another zone, another day of the week, no such day or second, another standard, another case: not what HTTP says.
            ("Tue, 01 Dec 2026 09:00:30 UTC", None),
            ("Tue, 01 Dec 2026 09:00:30 +0000", None),
            ("Tue, 01 Dec 2026 09:00:30", None),
            ("Mon, 01 Dec 2026 09:00:30 GMT", None),
            ("Mon, 30 Feb 2026 09:00:30 GMT", None),
            ("Tue, 01 Dec 2026 09:00:60 GMT", None),
            ("Tue, 1 Dec 2026 09:00:30 GMT", None),
            ("tue, 01 dec 2026 09:00:30 gmt", None),
            ("Wed, 31 Dec 1969 23:59:59 GMT", None),
            ("2026-12-01T09:00:30Z", None),
        ] {
            assert_eq!(asked(text, now), wanted, "{text:?}");
        }
    }

    #[test]
    fn a_date_is_read_against_the_answers_own_clock() {
        let now = "2026-12-01T09:00:00Z".parse().unwrap();
        let until = |date: &str| wait(&head(&[("retry-after", "Tue, 01 Dec 2026 09:00:30 GMT"), ("date", date)]), now);
        assert_eq!(until("Tue, 01 Dec 2026 09:00:00 GMT"), secs(30));
        // Ten years behind or an hour ahead, as long as it is one clock.
        assert_eq!(until("Tue Dec  1 08:59:50 2026"), secs(40));
        assert_eq!(until("Tuesday, 01-Dec-26 10:00:00 GMT"), secs(0));
        assert_eq!(until("Thu, 01 Dec 2016 09:00:00 GMT"), YEAR);
        // A date of no use leaves our own.
        assert_eq!(until("yesterday"), secs(30));
        // Seconds need no clock.
        let seconds = head(&[("retry-after", "5"), ("date", "Thu, 01 Dec 2016 09:00:00 GMT")]);
        assert_eq!(wait(&seconds, now), secs(5));
    }

    /// Published ones, read from beside the project; they are not ours to carry along. Where they are missing this says so and is no proof.
    #[test]
    fn the_published_cases_are_read_as_they_say() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/vectors/http-date-retry-after/cases.json");
        if !path.is_file() {
            eprintln!("!! SKIPPED: the published vectors http-date-retry-after are not here; nothing was checked against them");
            return;
        }
        let cases: Vec<serde_json::Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert!(cases.len() > 20);
        for case in cases {
            let (now, text) = (case["now"].as_str().unwrap(), case["retry_after"].as_str().unwrap());
            let found = asked(text, now);
            match &case["delay_s"] {
                serde_json::Value::Null => assert_eq!(found, None, "{case}"),
                serde_json::Value::Number(seconds) => assert_eq!(found, secs(seconds.as_u64().unwrap()), "{case}"),
                capped if capped == "cap" => assert_eq!(found, YEAR, "{case}"),
                // They leave it to us, and we refuse what contradicts itself.
                free if free == "lenient" => assert_eq!(found, None, "{case}"),
                other => panic!("{other}"),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_a_header_holds_the_wait_can_be_added_to_any_moment(
            text in "[ -~\u{80}-\u{ff}\t]{0,40}|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT|[+-]?[0-9]{0,30}",
            date in "[ -~]{0,40}|(Mon|Tue|Wed), [0-9]{2} Dec [0-9]{4} [0-9]{2}:00:00 GMT",
            now in any::<i64>(),
        ) {
            let found = wait(&head(&[("retry-after", &text), ("date", &date)]), Timestamp::from_millis(now));
            prop_assert!(found <= YEAR, "{text:?} {date:?}: {found:?}");
        }
    }
}
