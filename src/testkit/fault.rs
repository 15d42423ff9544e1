//! The script: what goes wrong, in the order the desk meets requests.

use std::collections::VecDeque;
use std::time::Duration;

use super::reply::Reply;

/// What the desk does to the requests to come, one situation per request.
///
/// ```
/// use std::time::Duration;
/// use uketsuke::testkit::{Reply, Script};
///
/// let rough_morning = Script::new()
///     .commit_then_lose_reply()
///     .status(503).times(2)
///     .reply(Reply::status(429).retry_after("3"))
///     .reply_after(Duration::from_millis(200))
///     .then_ok();
/// # let _ = rough_morning;
/// ```
///
/// A situation is used up by each request that carries an order: the order endpoints that write, and the endpoints you
/// [serve](super::Desk::serve) unless their method is GET or HEAD. Lookups and strays use up none. After the last
/// situation the desk is honest.
///
/// The ledger keeps its word in every situation that reaches it: if the request's key is known already, "commit" means
/// that the stored answer is brought out (or 409, or 422), and only what the client hears of it is the script's.
#[derive(Clone, Debug, Default)]
pub struct Script {
    situations: VecDeque<Situation>,
}

/// Situations that you can string together.
impl Script {
    /// An empty script: every request is served honestly.
    pub fn new() -> Self {
        Self::default()
    }

    /// **Commits and answers honestly.** Also a good last word: it says that the trouble is over.
    #[must_use]
    pub fn then_ok(self) -> Self {
        self.then(Situation::Honest)
    }

    /// Makes the situation before it happen `n` times in all: `.status(503).times(2)` is two of them.
    ///
    /// `times(0)` takes it out. On an empty script there is nothing to repeat.
    #[must_use]
    pub fn times(mut self, n: u32) -> Self {
        if let Some(last) = self.situations.pop_back() {
            self.situations.extend((0..n).map(|_| last.clone()));
        }
        self
    }

    fn then(mut self, situation: Situation) -> Self {
        self.situations.push_back(situation);
        self
    }
}

/// Situations before the ledger: **nothing is committed**, and the key stays unknown.
impl Script {
    /// Answers with this status and a problem+json body whose code is `scripted`. Nothing is committed.
    #[must_use]
    pub fn status(self, code: u16) -> Self {
        self.reply(code)
    }

    /// Answers with this reply. Nothing is committed.
    #[must_use]
    pub fn reply(self, reply: impl Into<Reply>) -> Self {
        self.then(Situation::Instead(reply.into()))
    }

    /// Answers 401 with `WWW-Authenticate: Bearer`. Nothing is committed; the next request is let in.
    #[must_use]
    pub fn unauthorized(self) -> Self {
        let refusal = Reply::problem(401, "unauthorized", "the credential is not valid (any more)");
        self.reply(refusal.header("WWW-Authenticate", "Bearer"))
    }

    /// Answers with this redirect status (302, 307, …) and `Location`. Nothing is committed.
    #[must_use]
    pub fn redirect(self, code: u16, location: &str) -> Self {
        self.reply(Reply::status(code).header("Location", location))
    }

    /// Reads the whole request, does nothing and closes the connection. Nothing is committed, nothing is answered.
    ///
    /// To the client it looks exactly like [`Script::commit_then_lose_reply`].
    #[must_use]
    pub fn lose_request(self) -> Self {
        self.then(Situation::LoseRequest)
    }
}

/// Situations behind the ledger: **the order is committed**, and the client hears something else, or late, or nothing.
impl Script {
    /// Commits, then closes the connection without an answer.
    #[must_use]
    pub fn commit_then_lose_reply(self) -> Self {
        self.then(Situation::CommitThenLose)
    }

    /// Commits, then answers with this status instead of the real one, as a gateway does with its 504.
    ///
    /// The true answer is what is stored: the next request under the key gets it as a replay.
    #[must_use]
    pub fn commit_then_status(self, code: u16) -> Self {
        self.commit_then_reply(code)
    }

    /// Commits, then answers with this reply instead of the real one. The real one is stored.
    #[must_use]
    pub fn commit_then_reply(self, reply: impl Into<Reply>) -> Self {
        self.then(Situation::CommitThenReply(reply.into()))
    }

    /// Commits, but answers 202 with `{"status":"processing"}` and `Retry-After: 1`, as if the work still went on. By
    /// the next request under the key it is done: that one gets the stored 201 as a replay.
    #[must_use]
    pub fn accepted(self) -> Self {
        let body = serde_json::json!({"status": "processing"});
        self.commit_then_reply(Reply::json(202, body).retry_after("1"))
    }

    /// Commits at once and answers honestly, but only after `delay`. Other requests are served meanwhile.
    ///
    /// A client that hangs up earlier changes nothing: the order is in the book.
    #[must_use]
    pub fn reply_after(self, delay: Duration) -> Self {
        self.then(Situation::Late(delay))
    }
}

/// Situations in the ledger: **the key is taken and the order is not placed**.
impl Script {
    /// Claims the key and never finishes; closes the connection without an answer. Every further request under the key
    /// is answered 409 with `Retry-After: 1`, until [`Desk::finish`](super::Desk::finish).
    #[must_use]
    pub fn get_stuck(self) -> Self {
        self.then(Situation::Stuck)
    }

    /// Refuses the order for good: 422 with the code `order_refused`, stored under the key and replayed. No order is
    /// placed; the row is FAILED.
    #[must_use]
    pub fn refuse(self) -> Self {
        self.store_reply(Reply::problem(422, "order_refused", "the shop does not take this order"))
    }

    /// Stores this status under the key and answers with it, and again as a replay to every further request: a 500
    /// that never gets better, as some servers keep it. No order is placed.
    #[must_use]
    pub fn store_status(self, code: u16) -> Self {
        self.store_reply(code)
    }

    /// Stores this reply under the key and answers with it; further requests get it as a replay. No order is placed.
    #[must_use]
    pub fn store_reply(self, reply: impl Into<Reply>) -> Self {
        self.then(Situation::Store(reply.into()))
    }
}

impl Script {
    /// The next situation; honest when there is none left.
    pub(crate) fn next(&mut self) -> Situation {
        self.situations.pop_front().unwrap_or(Situation::Honest)
    }

    /// How many situations are left.
    pub(crate) fn left(&self) -> usize {
        self.situations.len()
    }
}

/// What happens to one request.
#[derive(Clone, Debug)]
pub(crate) enum Situation {
    Honest,
    Instead(Reply),
    LoseRequest,
    CommitThenLose,
    CommitThenReply(Reply),
    Late(Duration),
    Stuck,
    Store(Reply),
}
