//! The script: what goes wrong, in the order the desk meets requests. Here it is put together; `situation.rs` has the
//! words, `rules.rs` plays them, `grammar.rs` reads and writes them as text.

mod grammar;
mod rules;
mod situation;

pub use grammar::BadScript;
pub(crate) use rules::{Performance, Turn};
pub(crate) use situation::{Situation, unauthorized};

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use self::rules::{Rule, When};
use self::situation::{Step, accepted, redirection, refusal};
use super::reply::Reply;

/// How often a situation may come in a row: no test wants more, and a slip of the pen should not fill the memory.
const TIMES_MAX: u32 = 10_000;

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
/// The same as text, for a command line or a file; `Display` writes it, and it reads back as the same script:
///
/// ```
/// use uketsuke::testkit::Script;
///
/// let text = r#"
///     order 3: (lose reply; 503 x2)     # the third key that comes has a bad time of its own
///     20%: 429 retry-after 1            # one request in five, the same ones in every run
///     seed 42
///     lose reply
///     (503; ok) x3                      # flapping
///     clock +24h; ok
/// "#;
/// let script: Script = text.parse()?;
/// assert_eq!(script.to_string().parse::<Script>()?, script);
/// # Ok::<(), uketsuke::testkit::BadScript>(())
/// ```
///
/// Steps end with `;` or the line, `#` begins a comment:
///
/// | step | builder |
/// |---|---|
/// | `ok` | [`then_ok`](Self::then_ok) |
/// | `503`, `429 retry-after 3`, `reply {"status":503,"headers":[["a","b"]],"body":"text"}` | [`status`](Self::status), [`reply`](Self::reply) |
/// | `unauthorized`, `redirect 307 /elsewhere` | [`unauthorized`](Self::unauthorized), [`redirect`](Self::redirect) |
/// | `expire credential` | [`expire_credential`](Self::expire_credential) |
/// | `lose request` | [`lose_request`](Self::lose_request) |
/// | `lose reply` | [`commit_then_lose_reply`](Self::commit_then_lose_reply) |
/// | `commit 504`, `commit reply {..}` | [`commit_then_status`](Self::commit_then_status), [`commit_then_reply`](Self::commit_then_reply) |
/// | `commit 503 unstored` | [`commit_then_forget`](Self::commit_then_forget) |
/// | `accepted` | [`accepted`](Self::accepted) |
/// | `late 200ms`, `slow 2s` | [`reply_after`](Self::reply_after), [`slow`](Self::slow) |
/// | `stuck` | [`get_stuck`](Self::get_stuck) |
/// | `refuse`, `store 500`, `store reply {..}` | [`refuse`](Self::refuse), [`store_status`](Self::store_status), [`store_reply`](Self::store_reply) |
/// | `clock +24h`, `clock -5m` | [`turn_clock`](Self::turn_clock) |
///
/// What has spaces or signs in it stands in quotes, as in JSON: `503 retry-after "Wed, 21 Oct 2026 07:28:00 GMT"`. A reply's `"bytes"`, a list of
/// numbers, stand for a body that is no text. `x3` behind a step, or behind a group in parentheses, repeats it. Rules stand before the sequence:
/// `order 3: ..` ([`for_order`](Self::for_order)), `key abc: ..` ([`for_key`](Self::for_key)), `20%: ..` ([`sometimes`](Self::sometimes)) and `seed 42`
/// ([`seed`](Self::seed)), each with one step or a group. A request takes from the first rule that is for it and has something left, else from the
/// sequence. A text may come to 10,000 steps, and groups may nest eight deep.
///
/// A situation is used up by each request that carries an order: the order endpoints that write, and the endpoints you
/// [serve](super::Desk::serve) unless their method is GET or HEAD. Lookups and strays use up none. After the last
/// situation the desk is honest.
///
/// The ledger keeps its word in every situation that reaches it: if the request's key is known already, "commit" means
/// that the stored answer is brought out (or 409, or 422), and only what the client hears of it is the script's.
///
/// What HTTP can't say (see [`Reply::status`]) is played, compared and written as the 500 that the desk answers in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    rules: Vec<Rule>,
    seed: u64,
    sequence: VecDeque<Step>,
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
    /// `times(0)` takes it out, and 10,000 are the most. On an empty script there is nothing to repeat.
    #[must_use]
    pub fn times(mut self, n: u32) -> Self {
        if let Some(last) = self.sequence.pop_back() {
            self.sequence.extend((0..n.min(TIMES_MAX)).map(|_| Arc::clone(&last)));
        }
        self
    }

    /// **Flaps**: this status, then an honest answer, and that `times` times over; 5,000 are the most.
    #[must_use]
    pub fn flapping(self, code: u16, times: u32) -> Self {
        (0..times.min(TIMES_MAX / 2)).fold(self, |script, _| script.status(code).then_ok())
    }

    /// Turns the ledger's clock, forward or back, just before the next request that takes a step. Takes up no request itself.
    #[must_use]
    pub fn turn_clock(self, millis: i64) -> Self {
        self.then(Situation::TurnClock(millis))
    }

    fn then(mut self, situation: Situation) -> Self {
        self.sequence.push_back(Arc::new(situation));
        self
    }
}

/// Rules: steps for some requests only, asked in the order they were added, before the sequence.
///
/// Of the script that a rule is given, the sequence counts; rules inside it are left out, and so is a rule with nothing to do.
impl Script {
    /// The `n`-th distinct key that this script meets, counted from 1, takes these steps in turn, each time it comes.
    #[must_use]
    pub fn for_order(self, n: usize, steps: Script) -> Self {
        match n {
            0 => self,
            _ => self.rule(When::Order(n), steps),
        }
    }

    /// This key takes these steps in turn, each time it comes.
    #[must_use]
    pub fn for_key(self, key: &str, steps: Script) -> Self {
        self.rule(When::Key(key.to_owned()), steps)
    }

    /// Each request takes this step with this probability, in percent, to four decimals. Of several steps, the next one each time, round and round.
    ///
    /// Which requests it are is settled by the [seed](Self::seed): the same ones in every run and on every machine, as long as requests come in the
    /// same order.
    #[must_use]
    pub fn sometimes(self, percent: f64, steps: Script) -> Self {
        // Casting stops at the ends, and makes nought of what is no number.
        let millionths = (percent * 10_000.0).round().clamp(0.0, 1_000_000.0) as u32;
        self.rule(When::Sometimes { millionths }, steps)
    }

    /// Seeds what happens [sometimes](Self::sometimes). Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    fn rule(mut self, when: When, steps: Script) -> Self {
        if !steps.sequence.is_empty() {
            self.rules.push(Rule {
                when,
                steps: steps.sequence,
            });
        }
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
        self.then(Situation::Instead(reply.into().or_unspeakable()))
    }

    /// Answers 401 with `WWW-Authenticate: Bearer`. Nothing is committed; the next request is let in.
    #[must_use]
    pub fn unauthorized(self) -> Self {
        self.reply(unauthorized())
    }

    /// Answers 401, and from now on refuses the very `Authorization` that this request came with: 401 whenever it comes again, lookups too, which
    /// uses up nothing. Other credentials pass and take the next step. Nothing is committed.
    #[must_use]
    pub fn expire_credential(self) -> Self {
        self.then(Situation::ExpireCredential)
    }

    /// Answers with this redirect status (302, 307, …) and `Location`. Nothing is committed.
    #[must_use]
    pub fn redirect(self, code: u16, location: &str) -> Self {
        self.reply(redirection(code, location))
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
        self.then(Situation::CommitThenReply(reply.into().or_unspeakable()))
    }

    /// Commits, answers with this, and stores nothing: the server forgets that it ever saw the key, so that the retry is **a second order**. A server
    /// with that fault can't be helped from the client's side, only found out.
    #[must_use]
    pub fn commit_then_forget(self, reply: impl Into<Reply>) -> Self {
        self.then(Situation::CommitUnstored(reply.into().or_unspeakable()))
    }

    /// Commits, but answers 202 with `{"status":"processing"}` and `Retry-After: 1`, as if the work still went on. By
    /// the next request under the key it is done: that one gets the stored 201 as a replay.
    #[must_use]
    pub fn accepted(self) -> Self {
        self.commit_then_reply(accepted())
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

    /// Works for this long: the key is PROCESSING until then, further requests under it are answered 409 (or [wait](super::DeskBuilder::waits)), and
    /// then the order is placed and stored, and the reply leaves. [`Desk::finish`](super::Desk::finish) ends the work early; the reply stays as late.
    ///
    /// The order's number is given when the request comes. Only new orders stay out of sight until they are due: an amendment, a cancellation and a
    /// handler of your own have their effect at once, and are stored late. Hooks for [after the commit](super::Desk::after_commit) are not called.
    #[must_use]
    pub fn slow(self, work: Duration) -> Self {
        self.then(Situation::Slow(work))
    }

    /// Refuses the order for good: 422 with the code `order_refused`, stored under the key and replayed. No order is
    /// placed; the row is FAILED.
    #[must_use]
    pub fn refuse(self) -> Self {
        self.store_reply(refusal())
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
        self.then(Situation::Store(reply.into().or_unspeakable()))
    }
}
