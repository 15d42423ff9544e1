//! One attempt: one request on the wire, and what was seen of it as a fact. The only file of the house that names `reqwest`, but for the
//! re-export behind `unversioned`.
//!
//! Nothing here retries, follows, remembers or judges. Nothing here is logged either: URLs, headers and bodies hold orders and credentials.

use super::{
    last_look::{self, LastLook},
    timeouts::Timeouts,
};
use crate::{
    answer::{Answer, Half, Head, NeverLeft, NoAnswer, Observed},
    invalid::Invalid,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Version,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING},
};
use reqwest::{Client, ClientBuilder, Request, Response, Url, redirect, retry};
use std::{error::Error, fmt, io, iter, mem, net::IpAddr, sync::Arc};

/// Where `http://` may lead. Such a connection is neither private nor proven: whoever stands on the way reads the order and the
/// credential, and can answer in the server's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plain {
    /// Only to this machine: `localhost`, `127.0.0.0/8`, `[::1]`.
    #[default]
    LoopbackOnly,
    /// Anywhere, because something else guards the way (a mesh, a tunnel).
    Anywhere,
}

/// What a caller may do to the HTTP client before our own settings go on top.
pub(crate) type Tune = Box<dyn FnOnce(ClientBuilder) -> ClientBuilder + Send>;

/// An API's address, checked: http or https, a host, perhaps a path; no user, query or fragment in it.
#[derive(Clone)]
pub(crate) struct Base(Url);

impl Base {
    /// Reads and checks an address. The refusal never repeats it: what is wrong with it may be a password.
    pub(crate) fn parse(text: &str, plain: Plain) -> Result<Base, Invalid> {
        let refuse = |cure| Err(Invalid::new("base URL", cure));
        let Ok(url) = text.parse::<Url>() else {
            return refuse("must be a URL, such as https://orders.example.com/v1");
        };
        if !["http", "https"].contains(&url.scheme()) {
            return refuse("must begin with https://, or http:// for this machine");
        }
        let Some(host) = url.host_str() else {
            return refuse("must name a host");
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("must hold no user or password: give the credential by .bearer(..)");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refuse("must hold no `?` or `#`: the operation's route says the query");
        }
        if url.scheme() == "http" && plain == Plain::LoopbackOnly && !is_loopback(host) {
            return refuse("must be https:// (http:// is for this machine only, or anywhere by Plain::Anywhere)");
        }
        if url.scheme() == "https" && !cfg!(any(feature = "rustls", feature = "native-tls")) {
            return refuse("https:// needs TLS, which this build has not: build with the feature rustls (or native-tls)");
        }
        Ok(Base(url))
    }

    /// The address as a name, by which orders are told apart for good: however `:443`, a slash at the end or capitals were written, it is
    /// one API.
    pub(crate) fn name(&self) -> String {
        // The parser has lowered the host's case and dropped a default port.
        let host = self.0.host_str().unwrap_or_default().trim_end_matches('.');
        let port = self.0.port().map(|port| format!(":{port}")).unwrap_or_default();
        let path = self.0.path().trim_end_matches('/');
        format!("{}://{host}{port}{path}", self.0.scheme())
    }

    /// The URL of a target, such as `/orders?x=1`. It must be written as it is sent: what a URL parser would bend (`..`, a space, a `#`)
    /// is refused, since the journal says what was sent.
    pub(crate) fn join(&self, target: &str) -> Result<Url, Invalid> {
        let text = format!("{}{target}", self.0.as_str().trim_end_matches('/'));
        match text.parse::<Url>() {
            Ok(url) if target.starts_with('/') && url.as_str() == text && url.fragment().is_none() => Ok(url),
            _ => Err(Invalid::new(
                "route",
                "must begin with `/`, with every segment and query value percent-encoded, and no segment `.` or `..`",
            )),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base({})", self.name())
    }
}

/// A request that is complete and can be sent as it stands. Making one is where a request can be wrong; sending it no longer can.
pub(crate) struct Ready(Request);

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ready({})", self.0.method())
    }
}

/// The way to one API.
pub(crate) struct HttpWire {
    base: Base,
    client: Client,
    answer_cap: usize,
}

impl HttpWire {
    /// An answer whose body is longer than `answer_cap` bytes is not read to its end.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that builds a client, with everything switched off that sends twice or elsewhere"
    )]
    pub(crate) fn new(base: Base, timeouts: Timeouts, answer_cap: usize, tune: Option<Tune>) -> Result<HttpWire, Invalid> {
        timeouts.check()?;
        // Courtesies first: a caller may rename us, and may name a proxy. The environment's proxy is never used; it would carry orders and
        // keys to wherever a stray variable points.
        let ours = Client::builder()
            .user_agent(concat!("uketsuke/", env!("CARGO_PKG_VERSION")))
            .no_proxy();
        // The promise last. All of it is said, although most is off in our build: another crate can switch reqwest's features on for us.
        let promised = match tune {
            Some(tune) => tune(ours),
            None => ours,
        };
        let promised = promised
            // A 302 would turn the order into a GET whose 200 looks like success; a 307 carries body and key to another host.
            .redirect(redirect::Policy::none())
            .referer(false)
            // One request id is one request. HTTP/2 re-sends what a server says it has not looked at.
            .retry(retry::never())
            .http1_only()
            // Bodies are kept byte for byte, and a small answer can't unpack into a large one.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            // A connection of its own for each attempt. What comes back on it can only be this attempt's answer; a connection that the
            // server tired of meanwhile makes no doubt; nothing is handed to a second connection after the first fell. It costs a
            // handshake, and an order is worth one.
            .pool_max_idle_per_host(0)
            // Behind everything that makes a connection, a tuning's own layers too.
            .connector_layer(LastLook)
            // Shorter than the attempt's limit (checked), so that "no connection" is seen as that. Covers name, TCP and TLS.
            .connect_timeout(timeouts.connect)
            // From the first step to the last byte of the body; there is no second timer above it that could lose what was seen.
            .timeout(timeouts.attempt)
            // So that no request can fail for its scheme alone, after it was found ready.
            .https_only(base.0.scheme() == "https")
            // This would log every byte.
            .connection_verbose(false);
        let client = promised.build().map_err(|e| {
            let why = causes(&e).last().map(ToString::to_string).unwrap_or_default();
            Invalid::new("HTTP client", format!("could not be built: {why}"))
        })?;
        Ok(HttpWire { base, client, answer_cap })
    }

    /// Checks what is about to be sent. The request's URI is its target (path and query), its headers are complete.
    pub(crate) fn prepare(&self, out: http::Request<Bytes>) -> Result<Ready, Invalid> {
        let (parts, body) = out.into_parts();
        let target = parts.uri.path_and_query().filter(|_| parts.uri.authority().is_none());
        let url = self.base.join(target.map_or("", |target| target.as_str()))?;
        // Of two lines of one name, some servers read the first and some the last; for the key's that would be two orders.
        if parts.headers.len() != parts.headers.keys_len() {
            return Err(Invalid::new("headers", "must each stand once"));
        }
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        // Left to itself hyper says no length here, and some servers answer 411 to that.
        if body.is_empty() && [Method::POST, Method::PUT, Method::PATCH].contains(request.method()) {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        *request.body_mut() = Some(body.into());
        Ok(Ready(request))
    }

    /// [`send`](HttpWire::send), if `may_leave` still says so when the connection stands. Otherwise no byte left.
    pub(crate) async fn send_if(&self, ready: Ready, may_leave: impl Fn() -> bool + Send + Sync + 'static) -> Observed {
        last_look::before(Arc::new(may_leave), self.send(ready)).await
    }

    /// Sends one request, once, and tells what was seen, at the latest when the attempt's time is up.
    pub(crate) async fn send(&self, ready: Ready) -> Observed {
        let mut response = match self.client.execute(ready.0).await {
            Ok(response) => response,
            Err(error) => return nothing_seen(&error),
        };
        // HTTP/0.9 has no status, so anything at all would be a 200.
        if response.version() < Version::HTTP_10 {
            return Observed::NoAnswer(NoAnswer::Garbage);
        }
        let headers = mem::take(response.headers_mut());
        let encoded = is_encoded(&headers);
        let framed = headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
        let head = Head::new(response.status(), headers);
        match self.read(&mut response).await {
            Ok(body) if encoded && !body.is_empty() => Observed::HalfAnswer(head, Half::Undecodable),
            Ok(body) => {
                let answer = Answer::new(head, body);
                // Without a length, the end of a body and a cut look alike: JSON that is not whole was cut.
                match !framed && answer.says_json() && answer.json().is_none() {
                    true => Observed::HalfAnswer(answer.head().clone(), Half::Cut),
                    false => Observed::Answered(answer),
                }
            }
            Err(half) => Observed::HalfAnswer(head, half),
        }
    }

    async fn read(&self, response: &mut Response) -> Result<Bytes, Half> {
        let cap = u64::try_from(self.answer_cap).unwrap_or(u64::MAX);
        if response.content_length().is_some_and(|announced| announced > cap) {
            return Err(Half::TooLarge);
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| why_half(&e))? {
            if chunk.len() > self.answer_cap.saturating_sub(body.len()) {
                return Err(Half::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }
}

/// We asked for no encoding and undo none.
fn is_encoded(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    lines.into_iter().any(|line| {
        let line = line.to_str().unwrap_or("?");
        line.split(',')
            .map(str::trim)
            .any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
    })
}

/// No status came. Only a connection that was never made proves that nothing left; all else is doubt, whatever it looks like.
fn nothing_seen(error: &reqwest::Error) -> Observed {
    if error.is_connect() {
        return Observed::NeverLeft(if error.is_dns() {
            NeverLeft::Dns
        } else if is_tls(error) {
            NeverLeft::Tls
        } else {
            NeverLeft::Connect
        });
    }
    let reset = [
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::BrokenPipe,
    ];
    Observed::NoAnswer(if error.is_timeout() {
        NoAnswer::TimedOut
    } else if kinds(error).any(|kind| reset.contains(&kind)) {
        NoAnswer::Reset
    } else if causes(error).any(is_no_http) {
        NoAnswer::Garbage
    } else {
        NoAnswer::Closed
    })
}

/// A status came, the body did not.
fn why_half(error: &reqwest::Error) -> Half {
    let broken = [io::ErrorKind::InvalidInput, io::ErrorKind::InvalidData];
    if error.is_timeout() {
        Half::Stalled
    } else if kinds(error).any(|kind| broken.contains(&kind)) {
        Half::Undecodable
    } else {
        Half::Cut
    }
}

/// Whether a connection failed over who is at the other end, or over what it speaks; not over its going away meanwhile, which may pass.
/// `rustls` reports as invalid data; the system's libraries have types of their own, so that their words must do. What is not recognised
/// counts as an ordinary failure to connect: it is asked again instead of given up.
fn is_tls(error: &reqwest::Error) -> bool {
    let words = ["certificate", "ssl routines"];
    let says_so = |cause: &(dyn Error + 'static)| {
        let text = cause.to_string().to_ascii_lowercase();
        words.iter().any(|word| text.contains(word))
    };
    kinds(error).any(|kind| kind == io::ErrorKind::InvalidData) || causes(error).any(says_so)
}

/// `hyper`'s words for what is not HTTP; its types are not ours to name. A test holds them.
fn is_no_http(cause: &(dyn Error + 'static)) -> bool {
    let text = cause.to_string();
    text.contains(" parsed") || text.contains("message head is too large")
}

/// What stands behind an error, from the outside in. The error itself is left out: its text holds the URL. An I/O error's `source` skips
/// what it wraps, so that is stepped into.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    iter::successors(error.source(), |&cause| {
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match wrapped {
            Some(inner) => Some(inner),
            None => cause.source(),
        }
    })
}

fn kinds(error: &reqwest::Error) -> impl Iterator<Item = io::ErrorKind> {
    causes(error).filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Uri;
    use std::{
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    // The desk on the other side: raw sockets, since the faults are below HTTP.

    /// What a server does with one request: say these bytes, then end so.
    type Turn = (&'static str, End);

    #[derive(Clone, Copy)]
    enum End {
        /// Keep the connection and wait for a request more.
        Stay,
        Close,
        Reset,
    }
    use End::{Close, Reset, Stay};

    struct Server {
        port: u16,
        connections: Arc<AtomicUsize>,
        requests: Arc<Mutex<Vec<String>>>,
    }

    impl Server {
        /// Reads each request whole before its turn. The last turn repeats.
        async fn new(turns: &'static [Turn]) -> Server {
            Server::start(turns, true).await
        }

        /// Takes its turn as soon as the connection stands.
        async fn deaf(turns: &'static [Turn]) -> Server {
            Server::start(turns, false).await
        }

        async fn start(turns: &'static [Turn], reads: bool) -> Server {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let server = Server {
                port: listener.local_addr().unwrap().port(),
                connections: Arc::default(),
                requests: Arc::default(),
            };
            let (connections, requests) = (server.connections.clone(), server.requests.clone());
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    connections.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(stream, turns, reads, requests.clone()));
                }
            });
            server
        }

        fn url(&self) -> String {
            format!("http://127.0.0.1:{}/v1/", self.port)
        }

        fn connections(&self) -> usize {
            self.connections.load(Ordering::SeqCst)
        }

        fn requests(&self) -> Vec<String> {
            self.requests.lock().unwrap().clone()
        }

        async fn post(&self) -> Observed {
            post(&wire(&self.url(), patient(), None)).await
        }
    }

    async fn serve(mut stream: TcpStream, turns: &[Turn], reads: bool, requests: Arc<Mutex<Vec<String>>>) {
        loop {
            if reads {
                let Some(request) = whole_request(&mut stream).await else {
                    return;
                };
                requests.lock().unwrap().push(request);
            }
            let turn = requests.lock().unwrap().len().saturating_sub(1).min(turns.len() - 1);
            let (says, end) = turns[turn];
            // The other side may be gone; that is its right.
            drop(stream.write_all(says.as_bytes()).await);
            match end {
                Stay if reads => {}
                Stay => return drop(stream.read_to_end(&mut Vec::new()).await),
                Close => return,
                Reset => return stream.set_zero_linger().unwrap(),
            }
        }
    }

    async fn whole_request(stream: &mut TcpStream) -> Option<String> {
        let mut text = String::new();
        loop {
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                    return Some(text);
                }
            }
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).await.ok().filter(|read| *read > 0)?;
            text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        }
    }

    fn patient() -> Timeouts {
        Timeouts::default()
    }

    /// Enough to connect on this machine, even a busy one.
    fn hasty() -> Timeouts {
        Timeouts {
            connect: Duration::from_millis(500),
            attempt: Duration::from_millis(600),
            ..Timeouts::default()
        }
    }

    const CAP: usize = 100;

    fn wire(url: &str, timeouts: Timeouts, tune: Option<Tune>) -> HttpWire {
        let base = Base::parse(url, Plain::Anywhere).unwrap();
        HttpWire::new(base, timeouts, CAP, tune).unwrap()
    }

    fn order() -> http::Request<Bytes> {
        http::Request::post("/orders?x=1")
            .header("idempotency-key", "K0")
            .header("content-type", "application/json")
            .body(Bytes::from_static(b"{\"sku\":\"SKU-1\"}"))
            .unwrap()
    }

    async fn post(wire: &HttpWire) -> Observed {
        let sending = wire.send(wire.prepare(order()).unwrap());
        // Twice the longest limit of any wire here.
        let sent = tokio::time::timeout(Duration::from_secs(60), sending).await;
        sent.expect("an attempt ends by itself when its time is up")
    }

    fn never_left(why: NeverLeft) -> impl Fn(&Observed) -> bool {
        move |seen| matches!(seen, Observed::NeverLeft(found) if *found == why)
    }

    fn no_answer(why: NoAnswer) -> impl Fn(&Observed) -> bool {
        move |seen| matches!(seen, Observed::NoAnswer(found) if *found == why)
    }

    fn half(status: u16, why: Half) -> impl Fn(&Observed) -> bool {
        move |seen| matches!(seen, Observed::HalfAnswer(head, found) if head.status() == status && *found == why)
    }

    fn answered(status: u16, body: &str) -> impl Fn(&Observed) -> bool {
        move |seen| matches!(seen, Observed::Answered(answer) if answer.status() == status && answer.body() == body.as_bytes())
    }

    #[track_caller]
    fn check(seen: Observed, wanted: impl Fn(&Observed) -> bool) {
        assert!(wanted(&seen), "saw {seen:?}");
    }

    // The table of facts, row by row.

    #[tokio::test]
    async fn a_whole_answer_is_an_answer_and_the_request_is_the_one_given() {
        let server = Server::new(&[("HTTP/1.1 201 Created\r\netag: \"7\"\r\ncontent-length: 8\r\n\r\n{\"id\":1}", Stay)]).await;
        let seen = server.post().await;
        assert!(matches!(&seen, Observed::Answered(answer) if answer.header("ETag") == Some("\"7\"")));
        check(seen, answered(201, "{\"id\":1}"));
        let requests = server.requests();
        let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
        let (first, headers) = head.split_once("\r\n").unwrap();
        let mut headers = headers.split("\r\n").collect::<Vec<_>>();
        headers.sort_unstable();
        assert_eq!((requests.len(), body), (1, "{\"sku\":\"SKU-1\"}"));
        assert_eq!(first, "POST /v1/orders?x=1 HTTP/1.1");
        // Every line is ours or one that HTTP asks for.
        let (agent, host) = (
            concat!("user-agent: uketsuke/", env!("CARGO_PKG_VERSION")),
            format!("host: 127.0.0.1:{}", server.port),
        );
        let lines = [
            "accept: */*",
            "content-length: 15",
            "content-type: application/json",
            &host,
            "idempotency-key: K0",
            agent,
        ];
        assert_eq!(headers, lines);
    }

    #[tokio::test]
    async fn a_body_in_chunks_is_whole_at_its_last_chunk_and_an_early_hint_is_no_answer() {
        let says = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        let server = Server::new(Box::leak(Box::new([(says, Stay)]))).await;
        check(server.post().await, answered(201, "{}"));
    }

    #[tokio::test]
    async fn a_refused_port_never_left() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        check(post(&wire(&url, patient(), None)).await, never_left(NeverLeft::Connect));
    }

    #[tokio::test]
    async fn a_name_that_does_not_resolve_never_left() {
        struct Nowhere;
        impl reqwest::dns::Resolve for Nowhere {
            fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
                Box::pin(async { Err("no such name".into()) })
            }
        }
        let tune: Tune = Box::new(|client| client.dns_resolver(Arc::new(Nowhere)));
        check(
            post(&wire("http://certificate.invalid", patient(), Some(tune))).await,
            never_left(NeverLeft::Dns),
        );
    }

    #[tokio::test]
    async fn a_connection_that_is_not_made_in_time_never_left() {
        // A name that takes for ever: nothing on this machine leaves a connection hanging the same way everywhere.
        struct Slow;
        impl reqwest::dns::Resolve for Slow {
            fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
                Box::pin(std::future::pending())
            }
        }
        let tune: Tune = Box::new(|client| client.dns_resolver(Arc::new(Slow)));
        check(
            post(&wire("http://slow.invalid", hasty(), Some(tune))).await,
            never_left(NeverLeft::Connect),
        );
    }

    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    #[tokio::test]
    async fn an_order_never_left_for_a_server_that_speaks_no_tls() {
        let server = Server::deaf(&[("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", Stay)]).await;
        let url = server.url().replace("http:", "https:");
        check(post(&wire(&url, patient(), None)).await, never_left(NeverLeft::Tls));
    }

    #[tokio::test]
    async fn closed_before_reply_is_in_doubt_not_unsent() {
        let server = Server::new(&[("", Close)]).await;
        check(server.post().await, no_answer(NoAnswer::Closed));
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn closed_without_reading_is_in_doubt_too() {
        let server = Server::deaf(&[("", Close)]).await;
        check(server.post().await, |seen| matches!(seen, Observed::NoAnswer(_)));
    }

    #[tokio::test]
    async fn closed_within_the_head_is_in_doubt() {
        let server = Server::new(&[("HTTP/1.1 201 Created\r\ncontent-le", Close)]).await;
        check(server.post().await, no_answer(NoAnswer::Closed));
    }

    #[tokio::test]
    async fn a_reset_after_reading_is_in_doubt() {
        let server = Server::new(&[("", Reset)]).await;
        check(server.post().await, no_answer(NoAnswer::Reset));
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn silence_is_in_doubt_when_the_attempts_time_is_up() {
        let server = Server::new(&[("", Stay)]).await;
        check(post(&wire(&server.url(), hasty(), None)).await, no_answer(NoAnswer::TimedOut));
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn what_is_no_http_is_in_doubt() {
        let server = Server::new(&[("220 mail.example.com ESMTP\r\n\r\n", Close)]).await;
        check(server.post().await, no_answer(NoAnswer::Garbage));
        let server = Server::new(&[("HTTP/1.1 2O1 Created\r\n\r\n", Close)]).await;
        check(server.post().await, no_answer(NoAnswer::Garbage));
        let server = Server::new(&[("HTTP/1.1 201 Created\r\ncontent-length: many\r\n\r\n", Close)]).await;
        check(server.post().await, no_answer(NoAnswer::Garbage));
    }

    #[tokio::test]
    async fn a_caller_who_allows_http_0_9_does_not_turn_noise_into_success() {
        let server = Server::new(&[("220 mail.example.com ESMTP\r\n\r\n", Close)]).await;
        let tune: Tune = Box::new(ClientBuilder::http09_responses);
        check(
            post(&wire(&server.url(), patient(), Some(tune))).await,
            no_answer(NoAnswer::Garbage),
        );
    }

    #[tokio::test]
    async fn a_cut_201_is_half_an_answer() {
        for turn in [
            ("HTTP/1.1 201 Created\r\ncontent-length: 8\r\n\r\n{\"id\"", Close),
            ("HTTP/1.1 201 Created\r\ncontent-length: 8\r\n\r\n{\"id\"", Reset),
            ("HTTP/1.1 201 Created\r\ncontent-length: 8\r\n\r\n", Close),
            ("HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n", Close),
            ("HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"", Close),
            (
                "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n0\r\n",
                Close,
            ),
        ] {
            let server = Server::new(Box::leak(Box::new([turn]))).await;
            check(server.post().await, half(201, Half::Cut));
        }
    }

    #[tokio::test]
    async fn a_body_without_a_length_ends_where_the_connection_does() {
        let server = Server::new(&[("HTTP/1.1 201 Created\r\n\r\n{\"id\"", Close)]).await;
        check(server.post().await, answered(201, "{\"id\""));
        let server = Server::new(&[("HTTP/1.1 201 Created\r\n\r\n{\"id\"", Reset)]).await;
        check(server.post().await, half(201, Half::Cut));
        // What calls itself JSON must read as whole.
        const CUT: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\r\n{\"id\"";
        let server = Server::new(&[(CUT, Close)]).await;
        check(server.post().await, half(201, Half::Cut));
        const WHOLE: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\r\n{\"id\":1}";
        let server = Server::new(&[(WHOLE, Close)]).await;
        check(server.post().await, answered(201, "{\"id\":1}"));
    }

    #[tokio::test]
    async fn a_stalled_body_is_half_an_answer() {
        let server = Server::new(&[("HTTP/1.1 201 Created\r\ncontent-length: 8\r\n\r\n{\"id\"", Stay)]).await;
        check(post(&wire(&server.url(), hasty(), None)).await, half(201, Half::Stalled));
    }

    #[tokio::test]
    async fn a_body_over_the_cap_is_half_an_answer() {
        let announced = format!("HTTP/1.1 201 Created\r\ncontent-length: {}\r\n\r\n", CAP + 1);
        let chunk = format!("{:x}\r\n{}\r\n", CAP / 2, "x".repeat(CAP / 2));
        let chunked = format!("HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}");
        let whole = "x".repeat(CAP);
        for (says, wanted) in [
            // Refused by its announcement: no byte of it ever comes.
            (announced, half(201, Half::TooLarge)),
            (format!("{chunked}1\r\nx\r\n"), half(201, Half::TooLarge)),
        ] {
            let server = Server::new(Box::leak(Box::new([(&*says.leak(), Stay)]))).await;
            check(server.post().await, wanted);
        }
        let server = Server::new(Box::leak(Box::new([(&*format!("{chunked}0\r\n\r\n").leak(), Stay)]))).await;
        check(server.post().await, answered(201, &whole));
    }

    #[tokio::test]
    async fn an_encoded_body_is_half_an_answer_and_no_encoding_was_asked_for() {
        for (says, wanted) in [
            (
                "content-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x08",
                half(201, Half::Undecodable),
            ),
            (
                "content-encoding: identity, BR\r\ncontent-length: 2\r\n\r\n{}",
                half(201, Half::Undecodable),
            ),
            ("transfer-encoding: chunked\r\n\r\nxyz\r\n", half(201, Half::Undecodable)),
        ] {
            let server = Server::new(Box::leak(Box::new([(&*format!("HTTP/1.1 201 Created\r\n{says}").leak(), Stay)]))).await;
            check(server.post().await, wanted);
            assert!(!server.requests()[0].contains("accept-encoding"));
        }
        for (says, body) in [
            ("content-encoding: Identity\r\ncontent-length: 2\r\n\r\n{}", "{}"),
            ("content-encoding: gzip\r\ncontent-length: 0\r\n\r\n", ""),
        ] {
            let server = Server::new(Box::leak(Box::new([(&*format!("HTTP/1.1 201 Created\r\n{says}").leak(), Stay)]))).await;
            check(server.post().await, answered(201, body));
        }
    }

    #[tokio::test]
    async fn redirects_are_not_followed() {
        let other = Server::new(&[("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", Stay)]).await;
        for status in [301, 302, 303, 307, 308] {
            let says = format!("HTTP/1.1 {status} X\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", other.url());
            let server = Server::new(Box::leak(Box::new([(&*says.leak(), Stay)]))).await;
            // Nor where the caller asked for it.
            let tune: Tune = Box::new(|client| client.redirect(redirect::Policy::limited(9)));
            check(post(&wire(&server.url(), patient(), Some(tune))).await, answered(status, ""));
            assert_eq!(server.requests().len(), 1);
        }
        assert_eq!(other.connections(), 0);
    }

    #[tokio::test]
    async fn one_send_is_one_request() {
        // The second one meets a server that tired of us: the worst moment for a client that keeps connections.
        let server = Server::new(&[("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Stay), ("", Reset)]).await;
        let tune: Tune = Box::new(|client| client.pool_max_idle_per_host(9));
        let wire = wire(&server.url(), patient(), Some(tune));
        check(post(&wire).await, answered(200, ""));
        check(post(&wire).await, no_answer(NoAnswer::Reset));
        check(post(&wire).await, no_answer(NoAnswer::Reset));
        assert_eq!((server.requests().len(), server.connections()), (3, 3));
    }

    #[tokio::test]
    async fn an_answer_too_many_is_not_taken_for_the_next_orders() {
        let twice = "HTTP/1.1 201 Created\r\ncontent-length: 1\r\n\r\n1HTTP/1.1 201 Created\r\ncontent-length: 1\r\n\r\n2";
        let server = Server::new(Box::leak(Box::new([(twice, Stay)]))).await;
        let wire = wire(&server.url(), patient(), None);
        check(post(&wire).await, answered(201, "1"));
        check(post(&wire).await, answered(201, "1"));
        assert_eq!(server.connections(), 2);
    }

    #[tokio::test]
    async fn the_environments_proxy_is_not_used() {
        const INSIDE: &str = "UKETSUKE_TEST_INSIDE";
        if std::env::var_os(INSIDE).is_none() {
            // An environment belongs to a process, so this test is its own child.
            let (_, module) = module_path!().split_once("::").unwrap();
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", &format!("{module}::the_environments_proxy_is_not_used")]);
            for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
                child.env(name, "http://127.0.0.1:1");
            }
            for name in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
                child.env_remove(name);
            }
            let output = child.env(INSIDE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let server = Server::new(&[("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Stay)]).await;
        check(server.post().await, answered(200, ""));
    }

    #[tokio::test]
    async fn the_key_header_stands_once_even_if_the_clients_defaults_hold_one() {
        let server = Server::new(&[("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Stay)]).await;
        let tune: Tune = Box::new(|client| {
            let mut defaults = HeaderMap::new();
            defaults.insert("idempotency-key", HeaderValue::from_static("stray"));
            defaults.append("idempotency-key", HeaderValue::from_static("stray too"));
            client.default_headers(defaults).user_agent("shop/1")
        });
        check(post(&wire(&server.url(), patient(), Some(tune))).await, answered(200, ""));
        let request = &server.requests()[0];
        assert!(request.contains("\r\nidempotency-key: K0\r\n") && request.contains("\r\nuser-agent: shop/1\r\n"));
        assert!(!request.contains("stray"), "{request}");
    }

    #[tokio::test]
    async fn a_request_that_was_found_ready_does_not_fail_for_its_scheme() {
        let server = Server::new(&[("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Stay)]).await;
        let tune: Tune = Box::new(|client| client.https_only(true));
        check(post(&wire(&server.url(), patient(), Some(tune))).await, answered(200, ""));
    }

    #[tokio::test]
    async fn a_body_of_nothing_has_a_length_where_the_method_has_a_body() {
        let server = Server::new(&[("HTTP/1.1 204 No Content\r\n\r\n", Stay)]).await;
        let wire = wire(&server.url(), patient(), None);
        for method in [Method::POST, Method::GET] {
            let request = http::Request::builder().method(method).uri("/orders/7").body(Bytes::new()).unwrap();
            check(wire.send(wire.prepare(request).unwrap()).await, answered(204, ""));
        }
        let requests = server.requests();
        assert!(requests[0].contains("\r\ncontent-length: 0\r\n"), "{}", requests[0]);
        assert!(!requests[1].contains("content-length"), "{}", requests[1]);
    }

    // Words: addresses and requests.

    #[test]
    fn a_header_that_stands_twice_is_no_request() {
        let wire = wire("http://localhost", patient(), None);
        let mut twice = order();
        twice.headers_mut().append("idempotency-key", HeaderValue::from_static("K1"));
        assert_eq!(wire.prepare(twice).unwrap_err().field, "headers");
        let mut elsewhere = order();
        *elsewhere.uri_mut() = Uri::from_static("http://elsewhere.example.com/orders");
        assert_eq!(wire.prepare(elsewhere).unwrap_err().field, "route");
    }

    #[test]
    fn one_api_has_one_name_however_its_address_is_written() {
        let name = |text: &str| Base::parse(text, Plain::Anywhere).unwrap().name();
        for text in [
            "http://localhost/v1",
            "http://localhost/v1/",
            "http://LOCALHOST:80/v1",
            "HTTP://localhost./v1//",
            "http://localhost:080/a/../v1",
        ] {
            assert_eq!(name(text), "http://localhost/v1", "{text}");
        }
        for (text, wanted) in [
            ("http://localhost", "http://localhost"),
            ("http://localhost/", "http://localhost"),
            ("http://localhost:8080/V1", "http://localhost:8080/V1"),
            ("http://127.1", "http://127.0.0.1"),
            ("http://[0:0::1]:99", "http://[::1]:99"),
            ("http://bücher.example", "http://xn--bcher-kva.example"),
        ] {
            assert_eq!(name(text), wanted);
        }
    }

    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    #[test]
    fn the_default_port_of_https_is_no_other_api() {
        let name = |text: &str| Base::parse(text, Plain::LoopbackOnly).unwrap().name();
        assert_eq!(name("https://Orders.Example.com:443/v1/"), "https://orders.example.com/v1");
        assert_eq!(name("https://orders.example.com:80"), "https://orders.example.com:80");
    }

    #[cfg(not(any(feature = "rustls", feature = "native-tls")))]
    #[test]
    fn https_on_a_build_without_tls_names_the_feature() {
        let refused = Base::parse("https://orders.example.com", Plain::Anywhere).unwrap_err();
        assert!(refused.cure.contains("feature rustls"), "{refused}");
    }

    #[test]
    fn an_address_that_can_not_be_right_is_refused_and_not_repeated() {
        for text in [
            "",
            "SEKRET",
            "/SEKRET",
            "SEKRET.example.com/v1",
            "localhost:8080/SEKRET",
            "ftp://SEKRET@localhost",
            "file:///SEKRET",
            "data:SEKRET",
            "http://",
            "http://:80/SEKRET",
            "http://local host/SEKRET",
            "http://localhost:99999/SEKRET",
            "http://SEKRET@localhost",
            "http://user:SEKRET@localhost",
            "http://:SEKRET@localhost",
            "http://localhost/v1?api_key=SEKRET",
            "http://localhost/v1?",
            "http://localhost/v1#SEKRET",
        ] {
            let refused = Base::parse(text, Plain::Anywhere).unwrap_err();
            assert_eq!(refused.field, "base URL");
            assert!(!refused.to_string().contains("SEKRET"), "{refused}");
        }
    }

    #[test]
    fn plain_http_stays_on_this_machine_unless_allowed_by_name() {
        for here in ["localhost", "LocalHost:80", "127.0.0.1", "127.8.9.1:1", "[::1]", "[::1]:8080"] {
            assert!(Base::parse(&format!("http://{here}/v1"), Plain::LoopbackOnly).is_ok(), "{here}");
        }
        for away in [
            "10.0.0.1",
            "0.0.0.0",
            "[::]",
            "[::ffff:127.0.0.1]",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "xlocalhost",
            "desk",
        ] {
            let url = format!("http://{away}/v1");
            assert!(Base::parse(&url, Plain::LoopbackOnly).is_err(), "{away}");
            assert!(Base::parse(&url, Plain::Anywhere).is_ok(), "{away}");
        }
    }

    #[test]
    fn a_target_is_sent_as_it_is_written_or_refused() {
        for base in ["http://localhost/v1", "http://localhost/v1/", "http://localhost/v1//"] {
            let base = Base::parse(base, Plain::LoopbackOnly).unwrap();
            for target in [
                "/orders",
                "/orders?x=1&y=%26",
                "/orders/a%2Fb/lines",
                "/orders/",
                "/",
                "/orders//1",
                "/o?",
            ] {
                assert_eq!(base.join(target).unwrap().as_str(), format!("http://localhost/v1{target}"));
            }
            for target in [
                "",
                "orders",
                "?x=1",
                "@evil.example.com/",
                ".evil.example.com/",
                ":81/",
                "/../admin",
                "/orders/./1",
                "/orders/%2e%2E/admin",
                "/orders/..",
                "/a b",
                "/a#b",
                "/a?b#c",
                "/a\\b",
                "/a\tb",
                "/a\n",
                " /a",
                "/ä",
                "/a?q=\"",
                "/a?q='x'",
            ] {
                assert_eq!(base.join(target).map_err(|e| e.field), Err("route".into()), "{target:?}");
            }
        }
    }

    #[test]
    fn limits_are_checked_where_the_wire_is_made_and_debug_shows_no_header() {
        let base = Base::parse("http://localhost", Plain::LoopbackOnly).unwrap();
        let backwards = Timeouts {
            connect: patient().attempt,
            ..patient()
        };
        assert!(HttpWire::new(base.clone(), backwards, CAP, None).is_err());
        let wire = HttpWire::new(base, patient(), CAP, None).unwrap();
        assert_eq!(
            format!("{:?} {:?}", wire.base, wire.prepare(order()).unwrap()),
            "Base(http://localhost) Ready(POST)"
        );
    }
}
