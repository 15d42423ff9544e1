//! What can happen to one request, and how each of it is written.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::testkit::reply::Reply;

/// A situation in its place. Shared, because a reply of any size may be repeated thousands of times.
pub(crate) type Step = Arc<Situation>;

/// What happens to one request; `TurnClock` happens between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Situation {
    Honest,
    Instead(Reply),
    LoseRequest,
    ExpireCredential,
    CommitThenLose,
    CommitThenReply(Reply),
    CommitUnstored(Reply),
    Late(Duration),
    Slow(Duration),
    Stuck,
    Store(Reply),
    TurnClock(i64),
}

pub(crate) fn unauthorized() -> Reply {
    let refusal = Reply::problem(401, "unauthorized", "the credential is not valid (any more)");
    refusal.header("WWW-Authenticate", "Bearer")
}

pub(super) fn redirection(code: u16, location: &str) -> Reply {
    Reply::status(code).header("Location", location)
}

pub(super) fn accepted() -> Reply {
    Reply::json(202, json!({"status": "processing"})).retry_after("1")
}

pub(super) fn refusal() -> Reply {
    Reply::problem(422, "order_refused", "the shop does not take this order")
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Honest => f.write_str("ok"),
            Self::Instead(reply) => f.write_str(&instead(reply)),
            Self::LoseRequest => f.write_str("lose request"),
            Self::ExpireCredential => f.write_str("expire credential"),
            Self::CommitThenLose => f.write_str("lose reply"),
            Self::CommitThenReply(reply) if *reply == accepted() => f.write_str("accepted"),
            Self::CommitThenReply(reply) => write!(f, "commit {}", answer(reply)),
            Self::CommitUnstored(reply) => write!(f, "commit {} unstored", answer(reply)),
            Self::Late(delay) => write!(f, "late {}", span(*delay)),
            Self::Slow(work) => write!(f, "slow {}", span(*work)),
            Self::Stuck => f.write_str("stuck"),
            Self::Store(reply) if *reply == refusal() => f.write_str("refuse"),
            Self::Store(reply) => write!(f, "store {}", answer(reply)),
            Self::TurnClock(millis) => {
                let sign = if *millis < 0 { '-' } else { '+' };
                write!(f, "clock {sign}{}", span(Duration::from_millis(millis.unsigned_abs())))
            }
        }
    }
}

fn instead(reply: &Reply) -> String {
    if *reply == unauthorized() {
        return "unauthorized".to_owned();
    }
    let code = reply.code();
    match reply.line("Location") {
        Some(to) if *reply == redirection(code, to) => format!("redirect {code} {}", value(to)),
        _ => answer(reply),
    }
}

/// A status, with `Retry-After` if that is all there is besides; anything else in full.
fn answer(reply: &Reply) -> String {
    let code = reply.code();
    if *reply == Reply::status(code) {
        return code.to_string();
    }
    match reply.line("Retry-After") {
        Some(after) if *reply == Reply::status(code).retry_after(after) => format!("{code} retry-after {}", value(after)),
        _ => format!("reply {}", reply.written()),
    }
}

/// Bare if it can't be taken for anything else, in quotes otherwise.
pub(super) fn value(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./?&=%+@,~".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        json!(text).to_string()
    }
}

/// The biggest unit that comes out whole; milliseconds with decimals for what is finer.
fn span(of: Duration) -> String {
    let (seconds, nanos) = (of.as_secs(), of.subsec_nanos());
    match (seconds, nanos) {
        (0, 0) => "0ms".to_owned(),
        (_, 0) if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        (_, 0) if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        (_, 0) => format!("{seconds}s"),
        (_, _) if nanos.is_multiple_of(1_000_000) => format!("{}ms", of.as_millis()),
        (_, _) => format!("{}.{:06}ms", of.as_millis(), nanos % 1_000_000),
    }
}
