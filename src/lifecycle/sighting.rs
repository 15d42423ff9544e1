//! `Sighting`: what was seen of one attempt, in the form the journal keeps: enough to judge doubt, without a body.

use crate::answer::{Answer, Half, NeverLeft, NoAnswer, Observed};
use serde::{Deserialize, Serialize};

/// What was seen of one attempt, as the journal keeps it: enough to judge doubt, without a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sighting {
    /// No byte left.
    NeverLeft(NeverLeft),
    /// Nothing came back.
    NoAnswer(NoAnswer),
    /// A head without a whole body.
    HalfAnswer {
        /// The status seen.
        status: u16,
        /// What was wrong with the body.
        half: Half,
    },
    /// A whole answer.
    Answered {
        /// Its status.
        status: u16,
        /// Whether it carried the replay marker.
        replayed: bool,
        /// The server's error code, where it is short and plain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// What it said of an earlier attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        says: Option<Says>,
    },
}

/// What an answer, in whatever status, says of the attempts before it. One that says anything proves nothing of its own attempt either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Says {
    /// "Not yet": the first one still runs.
    Running,
    /// That there is an order, or may be: "there is one", "other contents", "nobody knows".
    Earlier,
}

impl Sighting {
    pub(crate) fn of(seen: &Observed) -> Self {
        match seen {
            Observed::NeverLeft(why) => Sighting::NeverLeft(*why),
            Observed::NoAnswer(why) => Sighting::NoAnswer(*why),
            Observed::HalfAnswer(head, half) => Sighting::HalfAnswer {
                status: head.status().as_u16(),
                half: *half,
            },
            // What only a dialect can tell of an answer, it tells: `Dialect::sighting`.
            Observed::Answered(answer) => Sighting::answered(answer, answer.head().replayed(), None),
        }
    }

    /// A whole answer, and what it was read as.
    pub(crate) fn answered(answer: &Answer, replayed: bool, says: Option<Says>) -> Self {
        Sighting::Answered {
            status: answer.status().as_u16(),
            replayed,
            code: plain_code(answer),
            says,
        }
    }

    /// Whether this attempt cannot have had, and cannot yet have, an effect: it never left, or the server answered it in a way that comes
    /// before any execution (R1). A replayed answer tells of an earlier attempt, so it proves nothing.
    pub(crate) fn proves_no_execution(&self) -> bool {
        match self {
            Sighting::NeverLeft(_) => true,
            Sighting::NoAnswer(_) | Sighting::HalfAnswer { .. } => false,
            Sighting::Answered {
                status, replayed, says, ..
            } => !replayed && says.is_none() && matches!(status, 401 | 403 | 425 | 429),
        }
    }

    /// Whether the server said "not yet".
    pub(crate) fn says_in_progress(&self) -> bool {
        matches!(
            self,
            Sighting::Answered {
                says: Some(Says::Running),
                ..
            }
        )
    }
}

impl std::fmt::Display for Sighting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Sighting::NeverLeft(NeverLeft::Connect) => "no connection",
            Sighting::NeverLeft(NeverLeft::Dns) => "the server's name does not resolve",
            Sighting::NeverLeft(NeverLeft::Tls) => "no trusted TLS connection",
            Sighting::NoAnswer(NoAnswer::TimedOut) => "no answer in time",
            Sighting::NoAnswer(NoAnswer::Closed) => "connection closed before a reply",
            Sighting::NoAnswer(NoAnswer::Reset) => "connection reset before a reply",
            Sighting::NoAnswer(NoAnswer::Garbage) => "a reply that is not HTTP",
            Sighting::NoAnswer(NoAnswer::NotWritten) => "the process that sent it went away",
            Sighting::HalfAnswer { status, .. } => return write!(f, "status {status} without a whole body"),
            Sighting::Answered {
                status, code: Some(code), ..
            } => return write!(f, "status {status} {code}"),
            Sighting::Answered { status, .. } => return write!(f, "status {status}"),
        };
        f.write_str(text)
    }
}

/// A server's error code, if it looks like one: it is shown and logged, so it must not be able to carry anything else.
fn plain_code(answer: &Answer) -> Option<String> {
    let code = ["/code", "/error/code", "/error/type"].iter().find_map(|p| answer.code(p))?;
    let plain = !code.is_empty() && code.len() <= 64 && code.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    plain.then(|| code.to_owned())
}
