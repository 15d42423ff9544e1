//! The plan: what is done to which connection, in the order connections arrive. Words only; `wire.rs` does it.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// What a [`Link`](super::Link) does to the connections to come, one break per connection.
///
/// ```
/// use std::time::Duration;
/// use uketsuke::testkit::{Breaks, HangUp};
///
/// let bad_cable = Breaks::new()
///     .hang_up(HangUp::Reset)
///     .lose_reply(HangUp::Fin).times(2)
///     .cut_body(10, HangUp::Reset)
///     .drip_body(Duration::from_millis(20))
///     .pass();
/// # let _ = bad_cable;
/// ```
///
/// What each end sees, and whether the server has the whole request and so may have placed the order:
///
/// | break | the client sees | the server sees | whole request? |
/// |---|---|---|---|
/// | [`Link::go_down`](super::Link::go_down) | connection refused | nothing | **no** |
/// | [`hang_up`](Self::hang_up) | the connection closed or reset before any reply | nothing, not even a connection | **no** |
/// | [`black_hole`](Self::black_hole) | its request taken, and silence | nothing, not even a connection | **no** |
/// | [`lose_request`](Self::lose_request) | its request taken, then closed or reset without a reply | nothing, not even a connection | **no** |
/// | [`cut_request`](Self::cut_request) | closed or reset without a reply | `n` bytes, then closed or reset | **no** |
/// | [`lose_reply`](Self::lose_reply) | its request taken, then closed or reset without a reply | a request, answered | yes |
/// | [`cut_reply`](Self::cut_reply) | `n` bytes of a reply, then closed or reset | a request, answered | yes |
/// | [`cut_body`](Self::cut_body) | the head, `n` bytes of the body, then closed or reset | a request, answered | yes |
/// | [`stall_reply`](Self::stall_reply) | `n` bytes of a reply, then silence | a request, answered | yes |
/// | [`stall_body`](Self::stall_body) | the head, `n` bytes of the body, then silence | a request, answered | yes |
/// | [`drip_reply`](Self::drip_reply), [`drip_body`](Self::drip_body) | the whole reply, slowly | a request, answered | yes |
/// | [`delay_reply`](Self::delay_reply) | the whole reply, late | a request, answered | yes |
///
/// The client cannot tell the rows apart that look alike in its column: that is what the breaks are for.
///
/// A break is for the first request on its connection, or for a later one by
/// [`after_requests`](Self::after_requests). What a connection survives, it survives for good: all that follows on it passes. So a client
/// that keeps connections open uses up fewer breaks than it sends requests;
/// [`Link::assert_plan_played`](super::Link::assert_plan_played) tells.
///
/// "Answered" means that the link had the reply's first byte in hand (for `lose_reply`, its last) before it broke anything. A server that
/// answers before it has read the whole request is believed.
#[derive(Clone, Debug, Default)]
pub struct Breaks {
    breaks: VecDeque<Break>,
}

/// How the link ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HangUp {
    /// In good order: the other side reads an end of stream after the last byte. The link goes on reading what is still sent to it, since
    /// an operating system turns a close with unread bytes into a reset.
    Fin,
    /// By RST: the other side's next read or write fails with "connection reset" (or, for a write, "broken pipe").
    ///
    /// A reset may overtake bytes that are still under way. On Linux the other side reads what has reached it and then the error; bytes
    /// that did not fit into the sockets' buffers, some hundred KiB, are lost.
    Reset,
}

/// Breaks that you can string together.
impl Breaks {
    /// An empty plan: every connection passes.
    pub fn new() -> Self {
        Self::default()
    }

    /// **Passes everything** both ways, byte for byte, ends and resets included. Also a good last word: it says that the trouble is over.
    #[must_use]
    pub fn pass(self) -> Self {
        self.then(What::Pass)
    }

    /// Makes the break before it happen to `n` connections in all: `.lose_reply(HangUp::Fin).times(2)` is two of them.
    ///
    /// `times(0)` takes it out. On an empty plan there is nothing to repeat.
    #[must_use]
    pub fn times(mut self, n: u32) -> Self {
        if let Some(last) = self.breaks.pop_back() {
            self.breaks.extend((0..n).map(|_| last.clone()));
        }
        self
    }

    /// Lets `n` requests of the connection pass before the break before it: `.lose_request(HangUp::Reset).after_requests(1)` is the
    /// kept-alive connection that looks good and is dead.
    ///
    /// On an empty plan, and after [`pass`](Self::pass), it does nothing. It counts requests that follow on each other's replies; it does
    /// not understand pipelining.
    #[must_use]
    pub fn after_requests(mut self, n: usize) -> Self {
        if let Some(last) = self.breaks.back_mut() {
            last.spared = n;
        }
        self
    }

    fn then(mut self, what: What) -> Self {
        self.breaks.push_back(Break { what, spared: 0 });
        self
    }
}

/// Breaks before the server: **it never has the whole request**, so no order can be placed.
impl Breaks {
    /// Hangs up as soon as the connection is accepted, before a byte is read. The server hears nothing.
    ///
    /// The client has a connection for a moment. A reset may find it still connecting, about to send, or sending, and it reports the one or
    /// the other: reqwest's `is_connect()` is true in the first case only. Where a test must see a connection that never was, take the link
    /// down by [`Link::go_down`](super::Link::go_down).
    ///
    /// With [`after_requests`](Self::after_requests) it hangs up behind the whole reply to the last of them, as a server that is tired of an
    /// idle connection.
    #[must_use]
    pub fn hang_up(self, how: HangUp) -> Self {
        self.then(What::HangUp(how))
    }

    /// Reads the whole request, gives it to nobody and hangs up without a reply. The server hears nothing.
    ///
    /// To the client it looks exactly like [`lose_reply`](Self::lose_reply).
    #[must_use]
    pub fn lose_request(self, how: HangUp) -> Self {
        self.then(What::LoseRequest(how))
    }

    /// Reads whatever the client sends, gives it to nobody, never replies and never hangs up. The server hears nothing.
    ///
    /// To the client it looks exactly like [`stall_reply(0)`](Self::stall_reply), where the order was placed.
    #[must_use]
    pub fn black_hole(self) -> Self {
        self.then(What::BlackHole)
    }

    /// Gives the server the first `n` bytes of the request (head included), then hangs up on both sides, without a reply.
    ///
    /// A request of `n` bytes or fewer is not cut: it passes, and the break counts as not played.
    #[must_use]
    pub fn cut_request(self, n: u64, how: HangUp) -> Self {
        self.then(What::CutRequest(n, how))
    }
}

/// Breaks behind the server: **it has answered, and so it had the request**; the client hears less, or late, or nothing.
///
/// Where `n` counts bytes of the reply's stream, an interim reply (100 Continue) counts too; where it counts bytes of the body, the chunk
/// sizes of a chunked one do. A reply of `n` bytes or fewer has nothing to break: it passes, and the break counts as not played.
/// The link reads the rest of a broken reply itself, so that the server sees its work taken.
impl Breaks {
    /// Waits until the server has given its whole reply (or has hung up), lets none of it through and hangs up.
    ///
    /// Over a server that never answers, the client waits as long as it likes.
    #[must_use]
    pub fn lose_reply(self, how: HangUp) -> Self {
        self.then(What::LoseReply(how))
    }

    /// Lets `n` bytes of the reply through, from the first byte of its status line, and hangs up: 4 leave `HTTP`, half a status line.
    #[must_use]
    pub fn cut_reply(self, n: u64, how: HangUp) -> Self {
        self.then(What::Reply(Mark::Stream(n), Then::HangUp(how)))
    }

    /// Lets the reply's head and `n` bytes of its body through, and hangs up: the client has a status and no whole body.
    ///
    /// A reply with neither a length nor chunks ends where the connection ends. Cut by [`HangUp::Fin`] it looks whole to any client; only a
    /// [`HangUp::Reset`] shows.
    #[must_use]
    pub fn cut_body(self, n: u64, how: HangUp) -> Self {
        self.then(What::Reply(Mark::Body(n), Then::HangUp(how)))
    }

    /// Lets `n` bytes of the reply through and falls silent, with the connection open until the client leaves. `stall_reply(0)` is a reply
    /// that never begins.
    #[must_use]
    pub fn stall_reply(self, n: u64) -> Self {
        self.then(What::Reply(Mark::Stream(n), Then::Silence))
    }

    /// Lets the reply's head and `n` bytes of its body through and falls silent, with the connection open until the client leaves.
    #[must_use]
    pub fn stall_body(self, n: u64) -> Self {
        self.then(What::Reply(Mark::Body(n), Then::Silence))
    }

    /// Lets the whole reply through, but one byte per interval, from its first byte on.
    ///
    /// A head alone is some hundred bytes; at 20 ms each, it takes the client seconds to learn a status.
    #[must_use]
    pub fn drip_reply(self, every: Duration) -> Self {
        self.then(What::Reply(Mark::Stream(0), Then::Drip(every)))
    }

    /// Lets the reply's head through at once, and its body one byte per interval.
    #[must_use]
    pub fn drip_body(self, every: Duration) -> Self {
        self.then(What::Reply(Mark::Body(0), Then::Drip(every)))
    }

    /// Lets the whole reply through, but only `delay` after its first byte came from the server.
    ///
    /// A client that leaves meanwhile changes nothing on the server: it has answered.
    #[must_use]
    pub fn delay_reply(self, delay: Duration) -> Self {
        self.then(What::Reply(Mark::Stream(0), Then::Delay(delay)))
    }
}

impl Breaks {
    /// The break for the next connection; none when the plan is over.
    pub(super) fn next(&mut self) -> Break {
        self.breaks.pop_front().unwrap_or(Break {
            what: What::Pass,
            spared: 0,
        })
    }

    /// How many connections the plan still speaks of.
    pub(super) fn left(&self) -> usize {
        self.breaks.len()
    }
}

/// What is done to one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Break {
    pub(super) what: What,
    /// How many requests of the connection pass before it.
    pub(super) spared: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Pass,
    HangUp(HangUp),
    LoseRequest(HangUp),
    BlackHole,
    CutRequest(u64, HangUp),
    LoseReply(HangUp),
    Reply(Mark, Then),
}

/// A point in a reply: so many bytes have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Stream(u64),
    Body(u64),
}

/// What happens at a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    HangUp(HangUp),
    Silence,
    Drip(Duration),
    Delay(Duration),
}

impl Break {
    /// Whether the server gets to know of the connection.
    pub(super) fn needs_server(&self) -> bool {
        self.spared > 0 || !matches!(self.what, What::HangUp(_) | What::LoseRequest(_) | What::BlackHole)
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Pass => return f.write_str("pass"),
            What::HangUp(how) => write!(f, "hang up by {how}")?,
            What::LoseRequest(how) => write!(f, "lose the request and hang up by {how}")?,
            What::BlackHole => f.write_str("swallow everything")?,
            What::CutRequest(n, how) => write!(f, "cut the request after {n} bytes by {how}")?,
            What::LoseReply(how) => write!(f, "lose the reply and hang up by {how}")?,
            What::Reply(mark, Then::HangUp(how)) => write!(f, "cut the {mark} by {how}")?,
            What::Reply(mark, Then::Silence) => write!(f, "stall the {mark}")?,
            What::Reply(mark, Then::Drip(every)) => write!(f, "drip the {mark}, one each {every:?}")?,
            What::Reply(mark, Then::Delay(delay)) => write!(f, "delay the {mark} by {delay:?}")?,
        }
        match self.spared {
            0 => Ok(()),
            n => write!(f, ", after {n} requests"),
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(n) => write!(f, "reply after {n} bytes"),
            Self::Body(n) => write!(f, "reply after {n} bytes of its body"),
        }
    }
}

impl fmt::Display for HangUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fin => "FIN",
            Self::Reset => "RST",
        })
    }
}
