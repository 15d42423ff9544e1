//! The link: a small TCP proxy in front of a server, for all that an HTTP server cannot do to a connection. It changes no byte that it lets
//! through.
//!
//! `breaks.rs` says what goes wrong, `wire.rs` does it to one connection, `framing.rs` knows where HTTP messages end, `passage.rs` keeps the
//! record. This file owns the port.

mod breaks;
mod framing;
mod passage;
mod wire;

pub use breaks::{Breaks, HangUp};
pub use passage::{Fate, Passage};

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io, mem};

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use breaks::What;
use passage::Log;

/// How many connections may wait at the port before they are accepted.
const BACKLOG: u32 = 1024;

/// How long to wait when no connection can be accepted: then the process is out of file descriptors, and asking on would only burn the CPU.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// A cable to a server, for tests: put it between a client and a [`Desk`](super::Desk) or any other server that speaks HTTP/1.1 without TLS,
/// and break the wire in every way a TCP connection can break.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use uketsuke::testkit::{Breaks, HangUp, Link};
///
/// let link = Link::to("http://127.0.0.1:8080").await;
/// link.plan(Breaks::new().lose_reply(HangUp::Reset).cut_body(10, HangUp::Fin).times(2).pass());
///
/// // The client you test talks to `link.url()` now.
/// let url = format!("{}/orders", link.url());
///
/// link.assert_plan_played();
/// assert_eq!(link.connections(), 4);
/// # Ok(())
/// # }
/// ```
///
/// Each connection uses up one break of the plan, in the order they arrive; after the last one everything passes. [`Breaks`] has them all,
/// with what each end sees.
///
/// It runs on the tokio runtime it was made on, in real time: on a paused clock its delays end at once. Dropped, it closes its port and all
/// its connections as soon as that runtime gets to it.
pub struct Link {
    address: SocketAddr,
    path: String,
    shared: Arc<Shared>,
    door: tokio::sync::Mutex<Door>,
}

/// What the link and its connections share.
struct Shared {
    server: String,
    plan: Mutex<Breaks>,
    log: Arc<Log>,
    carried: Mutex<JoinSet<()>>,
}

/// The port: either somebody accepts connections there, or it is kept from others while nobody listens.
enum Door {
    Open(JoinHandle<()>),
    Shut(TcpSocket),
    /// Between the two, and for good where the way from one to the other failed.
    Lost,
}

/// Opening.
impl Link {
    /// Opens a link to a server, on a free port of 127.0.0.1.
    ///
    /// The server is an `http://` URL, or a host and a port: `desk.url()`, `"localhost:8080"`, a
    /// [`SocketAddr`]. It need not be there yet. A path stays in [`Link::url`]; nothing else changes on the way, the
    /// `Host` header included.
    ///
    /// # Panics
    ///
    /// If that is not the address of a server that speaks plain HTTP, or no port can be opened.
    pub async fn to(server: impl fmt::Display) -> Self {
        let server = server.to_string();
        let (server, path) = read_address(&server).unwrap_or_else(|why| fail(&format!("no link to {server}: {why}")));
        let shared = Arc::new(Shared {
            server,
            plan: Mutex::new(Breaks::new()),
            log: Arc::new(Log::default()),
            carried: Mutex::new(JoinSet::new()),
        });
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let opened = keep_port(anywhere).and_then(|port| port.listen(BACKLOG));
        let (address, listener) = opened
            .and_then(|listener| Ok((listener.local_addr()?, listener)))
            .unwrap_or_else(|why| fail(&format!("no port for a link: {why}")));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            address,
            path,
            shared,
            door: tokio::sync::Mutex::new(Door::Open(accepting)),
        }
    }

    /// The base URL of this side, such as `http://127.0.0.1:49152`, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// The address of this side.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Arranging.
impl Link {
    /// Plays this plan from the next connection on. What was left of an earlier plan is forgotten; connections that are open keep theirs.
    pub fn plan(&self, plan: Breaks) {
        *lock(&self.shared.plan) = plan;
    }

    /// Takes the link down, like a server whose process dies: once this returns, **connections are refused**, and those that were open are
    /// gone, closed or reset as the operating system sees fit. Refused connections are not counted and use up no break.
    ///
    /// The port is kept from others until [`Link::come_up`]. On a link that is down it does nothing.
    ///
    /// # Panics
    ///
    /// If the port cannot be kept.
    pub async fn go_down(&self) {
        let mut door = self.door.lock().await;
        match mem::replace(&mut *door, Door::Lost) {
            Door::Open(accepting) => {
                accepting.abort();
                // The listener is closed when the task is gone, not when it is told to go.
                drop(accepting.await);
                let mut carried = mem::take(&mut *lock(&self.shared.carried));
                carried.shutdown().await;
                let port = keep_port(self.address);
                *door = Door::Shut(port.unwrap_or_else(|why| fail(&format!("the port of {} got lost: {why}", self.url()))));
            }
            other => *door = other,
        }
    }

    /// Brings a link that [went down](Link::go_down) up again, on the same port. The plan goes on where it was.
    ///
    /// # Panics
    ///
    /// If the port is gone.
    pub async fn come_up(&self) {
        let mut door = self.door.lock().await;
        match mem::replace(&mut *door, Door::Lost) {
            Door::Shut(port) => {
                let listener = port.listen(BACKLOG);
                let listener = listener.unwrap_or_else(|why| fail(&format!("{} cannot come up again: {why}", self.url())));
                *door = Door::Open(tokio::spawn(accept(listener, Arc::clone(&self.shared))));
            }
            other => *door = other,
        }
    }
}

/// Telling.
impl Link {
    /// How many connections have been accepted.
    pub fn connections(&self) -> usize {
        self.seen().len()
    }

    /// Every connection in the order they came, those that are still open included.
    pub fn seen(&self) -> Vec<Passage> {
        self.shared.log.passages()
    }

    /// How many connections the plan still speaks of.
    pub fn plan_left(&self) -> usize {
        lock(&self.shared.plan).left()
    }

    /// The whole story, one line per connection; what a failed assertion prints.
    pub fn story(&self) -> String {
        let seen = self.seen();
        if seen.is_empty() {
            return "  no connection came".to_owned();
        }
        let lines: Vec<String> = seen.iter().map(|passage| format!("  {passage}")).collect();
        lines.join("\n")
    }
}

/// Asserting.
impl Link {
    /// Asserts that every connection of the plan came, and that each break was done to its connection. A fault that never happened proves
    /// nothing.
    ///
    /// # Panics
    ///
    /// If connections are missing; or if one went without its break, because it brought no request or because there was nothing left to
    /// cut. It prints the [story](Link::story).
    #[track_caller]
    pub fn assert_plan_played(&self) {
        let left = self.plan_left();
        if left > 0 {
            self.fail(&format!("the plan was played: {left} of its connections never came"));
        }
        let unharmed = |passage: &&Passage| passage.planned().what != What::Pass && passage.fate != Fate::Broken;
        if let Some(passage) = self.seen().iter().find(unharmed) {
            self.fail(&format!(
                "the plan was played: connection #{} went without its break",
                passage.number
            ));
        }
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        fail(&format!("{what}\nthe connections:\n{}", self.story()))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("url", &self.url())
            .field("server", &self.shared.server)
            .field("connections", &self.connections())
            .field("plan_left", &self.plan_left())
            .finish_non_exhaustive()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Door::Open(accepting) = self.door.get_mut() {
            accepting.abort();
        }
        lock(&self.shared.carried).abort_all();
    }
}

/// Accepts until it is aborted.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let planned = lock(&shared.plan).next();
        let record = shared.log.arrive(planned.clone());
        let server = shared.server.clone();
        let mut carried = lock(&shared.carried);
        while carried.try_join_next().is_some() {}
        carried.spawn(async move { wire::carry(client, &server, planned, record).await });
    }
}

/// Takes a port without listening on it: whoever connects is refused, and whoever wants a free port gets another.
fn keep_port(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Connections that have just ended still hold the port for a minute. On Windows the option means something else, and is not needed.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Reads a URL or an address as host and port, and path.
fn read_address(text: &str) -> Result<(String, String), &'static str> {
    let rest = text.strip_prefix("http://").unwrap_or(text);
    if rest.contains("://") {
        return Err("only http:// can be broken, since only there it is known where a message ends");
    }
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if authority.contains('@') || path.contains(['?', '#']) {
        return Err("it must hold no user, query or fragment");
    }
    let colon = authority.rfind(':').filter(|_| !authority.ends_with(']'));
    let (host, port) = colon.map_or((authority, ":80"), |at| authority.split_at(at));
    if host.is_empty() || port.trim_start_matches(':').parse::<u16>().is_err() {
        return Err("it must be an http:// URL, or a host and a port");
    }
    Ok((format!("{host}{port}"), path.trim_end_matches('/').to_owned()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[track_caller]
#[expect(
    clippy::panic,
    reason = "this is where a test fails; everything else in the link ends one connection instead"
)]
fn fail(what: &str) -> ! {
    panic!("{what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_read_from_a_url_or_an_address() {
        let read = |text| read_address(text).map(|(server, path)| format!("{server} {path}"));
        assert_eq!(read("http://127.0.0.1:49152").unwrap(), "127.0.0.1:49152 ");
        assert_eq!(read("http://127.0.0.1:49152/").unwrap(), "127.0.0.1:49152 ");
        assert_eq!(read("http://orders.test/v1/").unwrap(), "orders.test:80 /v1");
        assert_eq!(read("localhost:8080").unwrap(), "localhost:8080 ");
        assert_eq!(read("http://[::1]/v1").unwrap(), "[::1]:80 /v1");
        assert_eq!(read("[::1]:8080").unwrap(), "[::1]:8080 ");
        for bad in [
            "https://a",
            "",
            "http://",
            "http://user@a",
            "http://a/?x",
            "a:port",
            "a:99999",
            ":80",
            "http://a:",
        ] {
            assert!(read(bad).is_err(), "{bad:?} is no server");
        }
    }
}
