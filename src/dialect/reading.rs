//! `Reading`: what an answer says, before the order's history is weighed.

use crate::lifecycle::Says;
use http::StatusCode;

/// What a server's answer says, before the order's history is weighed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reading {
    /// The status code says all there is.
    ByStatus,
    /// A success, whatever the status: some servers replay the first answer's body under 409.
    Succeeded,
    /// The first request of this key is still running.
    InProgress,
    /// The key was used for other contents.
    Mismatch,
    /// Such an order exists already, the server says: perhaps this one, placed by an attempt of which nothing is known. It is looked up and
    /// compared.
    Exists {
        /// The server's own name for it, where the answer has one.
        named: Option<String>,
    },
    /// A refusal of this order.
    Refused,
    /// The server itself does not know, or no longer says, what became of the first request.
    Uncertain,
    /// The order was first sent outside of the time that the server looks back, so it was not run now.
    OutOfWindow,
}

/// What an answer says of the attempts before it, by its reading or by its status: 102, 202 and 208 mean "not yet" at every server that uses
/// them, and none of them means done.
pub(crate) fn says_of_earlier(reading: &Reading, status: StatusCode) -> Option<Says> {
    match reading {
        Reading::InProgress => Some(Says::Running),
        Reading::ByStatus => matches!(status.as_u16(), 102 | 202 | 208).then_some(Says::Running),
        Reading::Succeeded | Reading::Mismatch | Reading::Exists { .. } | Reading::Uncertain | Reading::OutOfWindow => Some(Says::Earlier),
        Reading::Refused => None,
    }
}
