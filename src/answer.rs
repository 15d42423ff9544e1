//! Facts: what came back from one attempt, or that nothing did. No judgement here; `attempt/verdict.rs` judges.

use crate::clock::Timestamp;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// Status and headers of an answer.
#[derive(Clone)]
pub struct Head {
    status: StatusCode,
    headers: HeaderMap,
}

/// A complete answer: status, headers and the whole body.
///
/// Cheap to clone. `Debug` shows the status and the body's length, never the body: answers hold orders.
#[derive(Clone)]
pub struct Answer(Arc<Whole>);

struct Whole {
    head: Head,
    body: Bytes,
    json: OnceLock<Option<Value>>,
}

/// The headers that may stand in the journal. Everything else may be a secret (`Set-Cookie`) or is noise.
const KEPT: [&str; 8] = [
    "content-type",
    "date",
    "etag",
    "idempotent-replayed",
    "location",
    "retry-after",
    "traceparent",
    "x-request-id",
];

impl Head {
    pub(crate) fn new(status: StatusCode, headers: HeaderMap) -> Self {
        Head { status, headers }
    }

    /// The status code.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The first header of that name (case does not matter), where it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// When the server says that it answered, by its `Date`.
    pub(crate) fn date(&self) -> Option<Timestamp> {
        Timestamp::of_http_date(self.header("date")?)
    }

    /// Whether the server says that it stored this answer earlier: `Idempotent-Replayed: true`.
    pub fn replayed(&self) -> bool {
        self.header("idempotent-replayed")
            .is_some_and(|v| v.trim().eq_ignore_ascii_case("true"))
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Head({})", self.status.as_u16())
    }
}

impl Answer {
    pub(crate) fn new(head: Head, body: Bytes) -> Self {
        Answer(Arc::new(Whole {
            head,
            body,
            json: OnceLock::new(),
        }))
    }

    /// Status and headers.
    pub fn head(&self) -> &Head {
        &self.0.head
    }

    /// The status code.
    pub fn status(&self) -> StatusCode {
        self.0.head.status
    }

    /// The first header of that name (case does not matter), where it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.head.header(name)
    }

    /// The body's bytes, as they came.
    pub fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// The body as JSON; parsed once. `None` where it is none, or there is no body.
    pub fn json(&self) -> Option<&Value> {
        self.0.json.get_or_init(|| serde_json::from_slice(&self.0.body).ok()).as_ref()
    }

    /// The text at a JSON pointer (RFC 6901) of the body.
    pub fn code(&self, pointer: &str) -> Option<&str> {
        self.json()?.pointer(pointer)?.as_str()
    }

    /// Whether the `Content-Type` says JSON: `application/json`, or anything that ends in `+json`.
    pub fn says_json(&self) -> bool {
        let kind = self.header("content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        kind == "application/json" || kind.ends_with("+json")
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, {} bytes)", self.0.head.status.as_u16(), self.0.body.len())
    }
}

/// An answer's form in the journal: the kept headers, and the body as text, or as hex where it is not UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    status: u16,
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Serialize for Answer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let headers = KEPT
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), self.header(name)?.to_owned())))
            .collect();
        let (text, hex) = match std::str::from_utf8(&self.0.body) {
            Ok(text) => (Some(text.to_owned()), None),
            Err(_) => (None, Some(self.0.body.iter().map(|b| format!("{b:02x}")).collect())),
        };
        let status = self.0.head.status.as_u16();
        Written {
            status,
            headers,
            text,
            hex,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let written = Written::deserialize(deserializer)?;
        let status = StatusCode::from_u16(written.status).map_err(D::Error::custom)?;
        let mut headers = HeaderMap::new();
        for (name, value) in written.headers {
            let name = name.parse::<HeaderName>().map_err(D::Error::custom)?;
            headers.append(name, value.parse().map_err(D::Error::custom)?);
        }
        let body = match (written.text, written.hex) {
            (Some(text), None) => Bytes::from(text),
            (None, Some(hex)) => from_hex(&hex).ok_or_else(|| D::Error::custom("body: not hex"))?,
            _ => return Err(D::Error::custom("body: one of text and hex is wanted")),
        };
        Ok(Answer::new(Head::new(status, headers), body))
    }
}

fn from_hex(hex: &str) -> Option<Bytes> {
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect::<Option<Vec<u8>>>()
        .map(Bytes::from)
}

/// Why no byte of the request left for the server. The only proof there is: the connection was never made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NeverLeft {
    /// Refused, or not made in time. (Reset right at accept, it depends on who notices first, and mostly reads as no answer.)
    Connect,
    /// The name does not resolve.
    Dns,
    /// The TLS handshake failed: the certificate is not trusted, or the other side speaks no TLS.
    Tls,
}

/// Why no answer came, although the request, or part of it, may have arrived. **The order may have been processed.**
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NoAnswer {
    /// The attempt's time was up.
    TimedOut,
    /// The connection was closed before a reply.
    Closed,
    /// The connection was reset.
    Reset,
    /// What came was not HTTP.
    Garbage,
    /// The process that sent it went away before it could write down what came (R15).
    NotWritten,
}

/// What was wrong with the body of an answer whose head was seen. **The order may have been processed.**
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Half {
    /// It ended early.
    Cut,
    /// It stopped coming, and the attempt's time was up.
    Stalled,
    /// It is larger than the cap.
    TooLarge,
    /// It could not be decoded.
    Undecodable,
}

/// What was seen of one attempt. A fact, never a `Result`: a lost answer is not "an error", it is an order that may exist.
#[derive(Clone, Debug)]
pub(crate) enum Observed {
    /// No byte left. The server has nothing.
    NeverLeft(NeverLeft),
    /// Nothing came back; the server may have everything.
    NoAnswer(NoAnswer),
    /// A status and headers came, the body did not, or not whole.
    HalfAnswer(Head, Half),
    /// A whole answer.
    Answered(Answer),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &'static [u8]) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/problem+json; charset=utf-8".parse().unwrap());
        headers.insert("set-cookie", "session=SEKRET".parse().unwrap());
        Answer::new(Head::new(StatusCode::CREATED, headers), Bytes::from_static(body))
    }

    #[test]
    fn an_answer_reads_back_byte_for_byte_without_its_cookies() {
        for body in [&b"{\"a\":1}"[..], b"", b"\xff\x00\n", "é".as_bytes()] {
            let written = serde_json::to_string(&answer(body)).unwrap();
            assert!(!written.contains("SEKRET"), "{written}");
            let read: Answer = serde_json::from_str(&written).unwrap();
            assert_eq!(read.body(), body);
            assert_eq!(read.status(), 201);
            assert!(read.says_json());
        }
    }

    #[test]
    fn debug_shows_no_body() {
        let text = format!("{:?}", Observed::Answered(answer(b"SEKRET")));
        assert_eq!(text, "Answered(Answer(201, 6 bytes))");
    }
}
