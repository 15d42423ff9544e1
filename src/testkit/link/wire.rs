//! One connection: two pumps, up from the client to the server and down from the server to the client, and the break that is planned for
//! it. Whatever fails here ends this connection and no other.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::sleep;

use super::breaks::{Break, HangUp, Mark, Then, What};
use super::framing::{Message, Place};
use super::passage::Record;

/// How much is read at once. Small, since orders are, and each connection has two of them.
const BUFFER: usize = 16 * 1024;

/// Carries one connection to its end.
pub(super) async fn carry(mut client: TcpStream, server: &str, planned: Break, record: Record) {
    at_once(&client);
    let asked = Asked::default();
    let mut up = Up::new(&planned, &record, &asked);
    if !planned.needs_server() {
        let stop = match planned.what {
            What::HangUp(how) => {
                record.broken();
                Err(Stop::HangUp(how))
            }
            _ => up.run(client.split().0, None).await,
        };
        if let Err(stop) = stop {
            part(stop, client, None, None).await;
        }
        return record.ended();
    }
    let Ok(mut server) = reach(server).await else {
        record.no_server();
        return reset(client);
    };
    at_once(&server);
    let mut down = Down::new(&planned, &record, &asked);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let carried = try_both(up.run(from_client, Some(to_server)), down.run(from_server, to_client)).await;
    if let Err(stop) = carried {
        part(stop, client, Some(server), down.reply).await;
    }
    record.ended();
}

/// Why the pumps stop before both sides have hung up.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// The break: hang up on the client.
    HangUp(HangUp),
    /// The break: hang up on both.
    HangUpBoth(HangUp),
    /// The break: not a byte more to the client.
    Silence,
    /// One side is gone by a reset. The other shall have one too.
    Gone,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// What the pump down must know of the pump up.
#[derive(Debug, Default)]
struct Asked {
    /// How many whole requests were given to the server.
    requests: AtomicUsize,
    /// Whether the last of them is a HEAD, whose reply has no body.
    head: AtomicBool,
}

/// The pump from the client to the server.
struct Up<'a> {
    planned: &'a Break,
    record: &'a Record,
    asked: &'a Asked,
    request: Option<Message>,
    requests: usize,
    /// How much of the request to be cut has passed.
    passed: u64,
}

impl<'a> Up<'a> {
    fn new(planned: &'a Break, record: &'a Record, asked: &'a Asked) -> Self {
        Self {
            planned,
            record,
            asked,
            request: None,
            requests: 0,
            passed: 0,
        }
    }

    /// Pumps until the client has said its last; what is for nobody is read all the same.
    async fn run(&mut self, mut client: ReadHalf<'_>, mut server: Option<WriteHalf<'_>>) -> Result<(), Stop> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let n = client.read(&mut buffer).await?;
            let mut rest = buffer.get(..n).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            while !rest.is_empty() {
                let request = self.request.get_or_insert_with(Message::request);
                let (piece, later) = rest.split_at(request.read(rest));
                let ends = request.is_done();
                self.asked.head.store(request.is_head(), Ordering::SeqCst);
                self.give(piece, ends, server.as_mut()).await?;
                rest = later;
                if ends {
                    self.request = None;
                    self.requests += 1;
                }
            }
        }
        match self.planned.what {
            // What is no HTTP ends where the client stops.
            What::LoseRequest(how) if self.is_meant() && self.request.is_some() => self.stop(Stop::HangUp(how)),
            _ => match server {
                Some(mut server) => Ok(server.shutdown().await?),
                None => Ok(()),
            },
        }
    }

    async fn give(&mut self, piece: &[u8], ends: bool, server: Option<&mut WriteHalf<'_>>) -> Result<(), Stop> {
        match self.planned.what {
            What::LoseRequest(how) if self.is_meant() => match ends {
                true => self.stop(Stop::HangUp(how)),
                false => Ok(()),
            },
            What::BlackHole if self.is_meant() => {
                self.record.broken();
                Ok(())
            }
            What::CutRequest(n, how) if self.is_meant() => {
                let (before, behind) = cut(piece, n.saturating_sub(self.passed));
                self.passed = self.passed.saturating_add(before.len() as u64);
                self.pass(before, ends && behind.is_empty(), server).await?;
                match behind {
                    [] => Ok(()),
                    _ => self.stop(Stop::HangUpBoth(how)),
                }
            }
            _ => self.pass(piece, ends, server).await,
        }
    }

    async fn pass(&self, bytes: &[u8], ends: bool, server: Option<&mut WriteHalf<'_>>) -> Result<(), Stop> {
        let Some(server) = server else { return Ok(()) };
        self.record.up(bytes.len());
        if ends {
            self.record.whole_request();
            self.asked.requests.fetch_add(1, Ordering::SeqCst);
        }
        Ok(server.write_all(bytes).await?)
    }

    /// Whether the request at hand is the one the break is for.
    fn is_meant(&self) -> bool {
        self.requests == self.planned.spared
    }

    fn stop(&self, stop: Stop) -> Result<(), Stop> {
        self.record.broken();
        Err(stop)
    }
}

/// The pump from the server to the client.
struct Down<'a> {
    planned: &'a Break,
    record: &'a Record,
    asked: &'a Asked,
    reply: Option<Message>,
    replies: usize,
    /// How many of the bytes that the mark counts have passed.
    passed: u64,
    reached: bool,
}

impl<'a> Down<'a> {
    fn new(planned: &'a Break, record: &'a Record, asked: &'a Asked) -> Self {
        Self {
            planned,
            record,
            asked,
            reply: None,
            replies: 0,
            passed: 0,
            reached: false,
        }
    }

    /// Pumps until the server has said its last.
    async fn run(&mut self, mut server: ReadHalf<'_>, mut client: WriteHalf<'_>) -> Result<(), Stop> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let n = server.read(&mut buffer).await?;
            let mut rest = buffer.get(..n).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            while !rest.is_empty() {
                let to_head = || Message::reply(self.asked.head.load(Ordering::SeqCst));
                let reply = self.reply.get_or_insert_with(to_head);
                let place = reply.place();
                let (piece, later) = rest.split_at(reply.read(rest));
                let ends = reply.is_done();
                let given = self.give(place, piece, ends, &mut client).await;
                if given.is_err() {
                    // What is read is read: whoever takes the rest from the server must not wait for it.
                    if let Some(reply) = &mut self.reply {
                        reply.skip(later);
                    }
                }
                given?;
                rest = later;
                if ends {
                    self.reply = None;
                    self.replies += 1;
                    self.after_reply()?;
                }
            }
        }
        match self.planned.what {
            What::LoseReply(how) if self.is_meant() && self.was_asked() => self.stop(Stop::HangUp(how)),
            _ => Ok(client.shutdown().await?),
        }
    }

    async fn give(&mut self, place: Place, piece: &[u8], ends: bool, client: &mut WriteHalf<'_>) -> Result<(), Stop> {
        match self.planned.what {
            What::LoseReply(how) if self.is_meant() => match ends {
                true => self.stop(Stop::HangUp(how)),
                false => Ok(()),
            },
            What::Reply(_, then) if self.is_meant() && self.reached => self.go_on(then, piece, client).await,
            What::Reply(mark, then) if self.is_meant() => {
                let n = match mark {
                    Mark::Body(_) if place == Place::Head => return self.pass(piece, client).await,
                    Mark::Stream(n) | Mark::Body(n) => n,
                };
                let (before, behind) = cut(piece, n.saturating_sub(self.passed));
                self.passed = self.passed.saturating_add(before.len() as u64);
                if behind.is_empty() {
                    return self.pass(before, client).await;
                }
                // Before the last good byte is out: who has read that far may look.
                self.record.broken();
                self.reached = true;
                self.pass(before, client).await?;
                match then {
                    Then::HangUp(how) => return Err(Stop::HangUp(how)),
                    Then::Silence => return Err(Stop::Silence),
                    Then::Delay(delay) => sleep(delay).await,
                    Then::Drip(_) => {}
                }
                self.go_on(then, behind, client).await
            }
            _ => self.pass(piece, client).await,
        }
    }

    /// Passes what is behind the mark.
    async fn go_on(&self, then: Then, piece: &[u8], client: &mut WriteHalf<'_>) -> Result<(), Stop> {
        match then {
            Then::Drip(every) => self.drip(piece, every, client).await,
            _ => self.pass(piece, client).await,
        }
    }

    async fn drip(&self, piece: &[u8], every: Duration, client: &mut WriteHalf<'_>) -> Result<(), Stop> {
        for byte in piece.chunks(1) {
            sleep(every).await;
            self.pass(byte, client).await?;
        }
        Ok(())
    }

    async fn pass(&self, bytes: &[u8], client: &mut WriteHalf<'_>) -> Result<(), Stop> {
        self.record.down(bytes.len());
        Ok(client.write_all(bytes).await?)
    }

    fn after_reply(&self) -> Result<(), Stop> {
        match self.planned.what {
            What::HangUp(how) if self.is_meant() => self.stop(Stop::HangUp(how)),
            _ => Ok(()),
        }
    }

    /// Whether the reply at hand is the one the break is for.
    fn is_meant(&self) -> bool {
        self.replies == self.planned.spared
    }

    /// Whether the server owes a reply.
    fn was_asked(&self) -> bool {
        self.asked.requests.load(Ordering::SeqCst) > self.replies
    }

    fn stop(&self, stop: Stop) -> Result<(), Stop> {
        self.record.broken();
        Err(stop)
    }
}

/// Connects to the server, and to nothing else.
async fn reach(server: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server).await?;
    // Where a server has just died, the system may give its port to the very socket that looks for it, and TCP connects it with itself.
    match stream.local_addr()? == stream.peer_addr()? {
        true => Err(io::ErrorKind::ConnectionRefused.into()),
        false => Ok(stream),
    }
}

/// Ends a connection in the way that was asked for; where the client may stay, waits until it has left.
async fn part(stop: Stop, mut client: TcpStream, server: Option<TcpStream>, reply: Option<Message>) {
    let client_side = async {
        match stop {
            Stop::Gone | Stop::HangUp(HangUp::Reset) | Stop::HangUpBoth(HangUp::Reset) => reset(client),
            Stop::HangUp(HangUp::Fin) | Stop::HangUpBoth(HangUp::Fin) => finish(client).await,
            Stop::Silence => read_out(&mut client).await,
        }
        Ok(())
    };
    let server_side = async {
        match (stop, server) {
            (_, None) => {}
            (Stop::Gone | Stop::HangUpBoth(HangUp::Reset), Some(server)) => reset(server),
            (Stop::HangUpBoth(HangUp::Fin), Some(server)) => finish(server).await,
            (Stop::HangUp(_) | Stop::Silence, Some(server)) => take_rest(server, reply).await,
        }
        Ok(())
    };
    match try_both::<Infallible>(client_side, server_side).await {
        Ok(()) => {}
    }
}

/// Closes with a reset: nothing lingers, and what is unsent is forgotten.
fn reset(stream: TcpStream) {
    // It fails where the socket is broken already, and there a close says all there is to say.
    drop(stream.set_zero_linger());
}

/// Says the last word and listens until the other side has said its own. To close at once would turn into a reset whatever is still sent.
async fn finish(mut stream: TcpStream) {
    if stream.shutdown().await.is_ok() {
        read_out(&mut stream).await;
    }
}

/// Reads and forgets until the other side hangs up.
async fn read_out(stream: &mut TcpStream) {
    let mut buffer = vec![0; BUFFER];
    while stream.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
}

/// Takes from the server what is left of a reply the client does not get. To hang up on it would break the server's side too.
async fn take_rest(mut server: TcpStream, reply: Option<Message>) {
    let Some(mut reply) = reply else { return };
    let mut buffer = vec![0; BUFFER];
    while !reply.is_done() {
        let Ok(n @ 1..) = server.read(&mut buffer).await else { return };
        reply.skip(buffer.get(..n).unwrap_or_default());
    }
}

/// Makes small pieces leave at once.
fn at_once(stream: &TcpStream) {
    // Without it a break is less sharp, and that is all.
    drop(stream.set_nodelay(true));
}

/// The first `n` bytes of a piece, and those behind.
fn cut(piece: &[u8], n: u64) -> (&[u8], &[u8]) {
    piece.split_at(usize::try_from(n).unwrap_or(usize::MAX).min(piece.len()))
}

/// Runs both until both are well done or one is not. tokio has this as a macro, behind a feature that nothing else here needs.
async fn try_both<E>(one: impl Future<Output = Result<(), E>>, other: impl Future<Output = Result<(), E>>) -> Result<(), E> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut one_is_done, mut other_is_done) = (false, false);
    let mut look = move |context: &mut Context<'_>| {
        if !one_is_done && let Poll::Ready(ended) = one.as_mut().poll(context) {
            ended?;
            one_is_done = true;
        }
        if !other_is_done && let Poll::Ready(ended) = other.as_mut().poll(context) {
            ended?;
            other_is_done = true;
        }
        Ok(one_is_done && other_is_done)
    };
    poll_fn(|context| match look(context) {
        Ok(true) => Poll::Ready(Ok(())),
        Ok(false) => Poll::Pending,
        Err(stop) => Poll::Ready(Err(stop)),
    })
    .await
}
