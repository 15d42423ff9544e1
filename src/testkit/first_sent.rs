//! When a repeatable request was first sent, by its own word, and whether that is too long ago to be run.

use std::time::Duration;

use super::reply::Reply;
use super::seen::Seen;
use crate::clock::Timestamp;

const HEADER: &str = "repeatability-first-sent";

/// Why a request is not taken that was first sent outside of the window, or does not say when. It is not run, whether its key is known or
/// not: the record may be gone already.
pub(crate) fn out_of(window: Duration, seen: &Seen, now: Timestamp) -> Option<Reply> {
    let [line] = seen.headers_named(HEADER)[..] else {
        let why = "the request does not say once when it was first sent, in Repeatability-First-Sent";
        return Some(Reply::problem(400, "first_sent_missing", why));
    };
    let Some(first) = imf_fixdate(line) else {
        let why = "Repeatability-First-Sent is no date such as `Sun, 06 Nov 1994 08:49:37 GMT`";
        return Some(Reply::problem(400, "first_sent_invalid", why));
    };
    // The header has no fraction of a second: what was first sent this second is not in the future.
    let gone_by = now >= first.plus(window);
    gone_by.then(|| Reply::problem(412, "first_sent_too_old", "first sent too long ago to be tracked; not executed"))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, and nothing like it.
fn imf_fixdate(line: &str) -> Option<Timestamp> {
    if line.len() != 29 || !line.ends_with(" GMT") {
        return None;
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(line).ok()?;
    Some(Timestamp::from_millis(date.as_millisecond()))
}
