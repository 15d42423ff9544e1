//! What the desk saw: one [`Seen`] per request, with what became of it.

use std::fmt;

use super::dialect::Facts;

/// One request as the desk saw it, and what became of it.
///
/// Its `Display` is one line of the desk's story.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// Its place among all requests, from 1.
    pub number: usize,
    /// The method, in capitals.
    pub method: String,
    /// The path as it stood on the wire, without the query.
    pub path: String,
    /// The query as it stood on the wire, without the `?`.
    pub query: Option<String>,
    /// The idempotency key without quotes, from where the desk's [dialect](super::ServerDialect) has it, if there was exactly one usable
    /// one.
    pub key: Option<String>,
    /// `X-Request-Id`.
    pub request_id: Option<String>,
    /// `X-Attempt`, if it was a number.
    pub attempt: Option<u32>,
    /// `traceparent`.
    pub traceparent: Option<String>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// A short hash of the body's bytes (FNV-1a, 16 hexadecimal digits): the same in every run and on every machine,
    /// good for telling bodies apart by eye and for nothing else.
    pub body_hash: String,
    /// What the ledger did about it.
    pub did: Did,
    /// The status that was answered, or `None` if the connection was closed without an answer. While a hook runs
    /// nothing is answered yet.
    pub status: Option<u16>,
    /// Whether the answer was the stored one and said so, as by `Idempotent-Replayed: true`.
    pub replayed: bool,
    /// The steps of the script that were played on it, as they are written; `None` if it was served by no step.
    pub played: Option<String>,
    headers: Vec<(String, String)>,
}

impl Seen {
    /// Reads a request that has just arrived; nothing is decided yet.
    pub(crate) fn arrived(number: usize, request: &wiremock::Request, facts: &Facts) -> Self {
        let mut seen = Self {
            number,
            method: request.method.to_string(),
            path: request.url.path().to_owned(),
            query: request.url.query().map(str::to_owned),
            key: None,
            request_id: None,
            attempt: None,
            traceparent: None,
            body: request.body.clone(),
            body_hash: hash(&request.body),
            did: Did::Nothing,
            status: None,
            replayed: false,
            played: None,
            headers: header_lines(request),
        };
        seen.key = facts.key_of(&seen).ok();
        seen.request_id = seen.header("x-request-id").map(str::to_owned);
        seen.attempt = seen.header("x-attempt").and_then(|n| n.parse().ok());
        seen.traceparent = seen.header("traceparent").map(str::to_owned);
        seen
    }

    /// The first header line of that name, in whatever case; bytes that are not UTF-8 show as `�`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.lines(name).next()
    }

    /// All header lines of that name, in the order they came.
    pub fn headers_named(&self, name: &str) -> Vec<&str> {
        self.lines(name).collect()
    }

    /// The request as a JSON object, as `GET /_desk/requests` tells it; without its headers, since they hold credentials.
    pub fn to_json(&self) -> serde_json::Value {
        super::control::told(self)
    }

    /// Path and query, as on the wire.
    pub(crate) fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    fn lines<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        self.headers
            .iter()
            .filter(move |(line, _)| line.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        write!(
            f,
            "#{} {} {} | key {} | request id {} | body {} | ledger: {} | ",
            self.number,
            self.method,
            self.target(),
            or_none(&self.key),
            or_none(&self.request_id),
            self.body_hash,
            self.did,
        )?;
        match self.status {
            Some(status) if self.replayed => write!(f, "answered {status}, replayed")?,
            Some(status) => write!(f, "answered {status}")?,
            None => f.write_str("closed without an answer")?,
        }
        match &self.played {
            Some(played) => write!(f, " | script: {played}"),
            None => Ok(()),
        }
    }
}

/// What the ledger did about a request.
///
/// Not what was answered: a lost or a scripted reply can stand in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Did {
    /// Nothing; it never heard of it: a lookup, a stray, a request without a usable key, or a fault before the ledger.
    Nothing,
    /// Took the key, did the work (or refused it for good) and stored the answer.
    Claimed,
    /// Took the key; the work never ended (or not before [`Desk::finish`](super::Desk::finish)), or is [slow](super::Script::slow) and not
    /// done yet.
    Stuck,
    /// Knew the key and brought out the stored answer.
    Replayed,
    /// Knew the key and found its work still going on.
    InFlight,
    /// Knew the key and found other contents under it.
    Conflict,
    /// Knew the key, and had no answer to bring out any more.
    ResultGone,
    /// Took the key, and the work was done; its answer could not be stored, or the script [forgot](super::Script::commit_then_forget) it.
    NotStored,
    /// Knew the key, and said that there is an order under it.
    Duplicate,
    /// Knew the key as closed: withdrawn before it came, or by an operator's word.
    Closed,
    /// Took the key, did not store the answer and gave the key back.
    GaveBack,
    /// Did not stand in the way: an [unkind](super::Unkind) server ran the work beside it.
    RanAnyway,
    /// There is none: a deaf desk does the work without looking at the key.
    Deaf,
    /// A hook or a handler of the test panicked.
    Panicked,
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "untouched",
            Self::Claimed => "claimed, done and stored",
            Self::Stuck => "claimed, not finished",
            Self::Replayed => "stored answer replayed",
            Self::InFlight => "still processing",
            Self::Conflict => "other contents under this key",
            Self::ResultGone => "done before, answer not kept",
            Self::NotStored => "claimed and done, not stored",
            Self::Duplicate => "known, its order exists",
            Self::Closed => "closed, nothing will be done",
            Self::GaveBack => "claimed and given back",
            Self::RanAnyway => "passed by",
            Self::Deaf => "none (deaf)",
            Self::Panicked => "the test's own code panicked",
        })
    }
}

fn header_lines(request: &wiremock::Request) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect()
}

/// FNV-1a, 64 bits: no dependency, no seed, the same for ever.
pub(crate) fn hash(bytes: &[u8]) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = bytes
        .iter()
        .fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}
