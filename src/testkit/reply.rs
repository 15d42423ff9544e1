//! What is said back to a request: status, headers, body, and the problem+json in which the desk says no.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

/// Headers that belong to the stored answer and come back with every replay. `Date`, cookies and request ids belong to
/// one exchange only.
const KEPT_HEADERS: [&str; 3] = ["content-type", "etag", "location"];

/// An answer: scripted, given by your own handler, or taken from the ledger.
///
/// ```
/// use serde_json::json;
/// use uketsuke::testkit::Reply;
///
/// let limited = Reply::status(429).retry_after("3");
/// let booked = Reply::json(201, json!({"booking": 7})).header("ETag", "\"1\"");
/// # let _ = (limited, booked);
/// ```
///
/// A bare status is a reply too: wherever a method takes `impl Into<Reply>`, `503` will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Reply {
    /// A reply with this status: from 400 upward with a problem+json body whose `code` is `scripted`, below without a
    /// body.
    ///
    /// The status must be between 200 and 999. What cannot be said in HTTP (another status, a header with a line break,
    /// a `Content-Length` of your own) is answered as 500 with the code `unspeakable` instead.
    pub fn status(code: u16) -> Self {
        if code >= 400 {
            Self::problem(code, "scripted", "the script of the test desk says so")
        } else {
            Self {
                status: code,
                headers: Vec::new(),
                body: Vec::new(),
            }
        }
    }

    /// A reply with a JSON body and `Content-Type: application/json`.
    pub fn json(code: u16, body: Value) -> Self {
        Self {
            status: code,
            headers: Vec::new(),
            body: Vec::new(),
        }
        .body("application/json", body.to_string())
    }

    /// A refusal in `application/problem+json`: `{"type", "title", "status", "code", "detail"}`.
    ///
    /// `cause` is what a program branches on and becomes `code`; `detail` is for people.
    pub fn problem(code: u16, cause: &str, detail: &str) -> Self {
        let body = json!({
            "type": format!("urn:problem:{cause}"),
            "title": cause.replace('_', " "),
            "status": code,
            "code": cause,
            "detail": detail,
        });
        Self::json(code, body).content_type("application/problem+json")
    }

    /// Adds a header line. A name may have several lines, except for `Content-Type`, which is replaced.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if name.eq_ignore_ascii_case("content-type") {
            return self.content_type(value);
        }
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds `Retry-After` exactly as given: seconds (`"3"`), an HTTP date, or nonsense for your parser to survive.
    #[must_use]
    pub fn retry_after(self, value: &str) -> Self {
        self.header("Retry-After", value)
    }

    /// Sets the body and its content type.
    #[must_use]
    pub fn body(mut self, content_type: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self.content_type(content_type)
    }

    /// The same with one more member in its JSON body, or another value of it.
    pub(crate) fn member(mut self, name: &str, value: Value) -> Self {
        if let Ok(Value::Object(mut body)) = serde_json::from_slice(&self.body) {
            body.insert(name.to_owned(), value);
            self.body = Value::Object(body).to_string().into_bytes();
        }
        self
    }

    fn content_type(mut self, value: &str) -> Self {
        self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        self.headers.push(("Content-Type".to_owned(), value.to_owned()));
        self
    }

    /// The status.
    pub fn code(&self) -> u16 {
        self.status
    }

    /// The body as it goes over the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// The header lines that a ledger keeps.
    pub(crate) fn kept_headers(&self) -> Vec<(String, String)> {
        let kept = |name: &str| KEPT_HEADERS.iter().any(|kept| name.eq_ignore_ascii_case(kept));
        self.headers.iter().filter(|(name, _)| kept(name)).cloned().collect()
    }

    /// A reply put together again from what a ledger kept.
    pub(crate) fn stored(status: u16, headers: Vec<(String, String)>, body: Vec<u8>) -> Self {
        Self { status, headers, body }
    }

    /// The first header line of that name, spelt just so.
    pub(crate) fn line(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(line, _)| line == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The whole reply as one line of JSON; [`Written`] reads it back.
    pub(crate) fn written(&self) -> String {
        let text = std::str::from_utf8(&self.body).ok();
        let written = Written {
            status: self.status,
            headers: self.headers.clone(),
            body: text.filter(|text| !text.is_empty()).map(str::to_owned),
            bytes: text.is_none().then(|| self.body.clone()),
        };
        // It has nothing in it that JSON could not hold.
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// The same reply, or a 500 that says why this one cannot be said in HTTP.
    pub(crate) fn or_unspeakable(self) -> Self {
        match self.unspeakable() {
            None => self,
            Some(why) => Self::problem(500, "unspeakable", &why),
        }
    }

    /// The reply as wiremock speaks it. Call [`Reply::or_unspeakable`] first: wiremock panics on what it can't say.
    pub(crate) fn template(&self) -> ResponseTemplate {
        let template = ResponseTemplate::new(self.status).set_body_bytes(self.body.as_slice());
        self.headers.iter().fold(template, |template, (name, value)| {
            template.append_header(name.as_str(), value.as_str())
        })
    }

    /// Why HTTP can't say this, if it can't.
    pub(crate) fn unspeakable(&self) -> Option<String> {
        if !(200..=999).contains(&self.status) {
            return Some(format!("{} is no final HTTP status", self.status));
        }
        self.headers.iter().find_map(|(name, value)| unspeakable_header(name, value))
    }
}

/// A reply as it is written down: exactly these headers and this body, as text or as bytes.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    status: u16,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<Vec<u8>>,
}

impl TryFrom<Written> for Reply {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let body = match (written.body, written.bytes) {
            (Some(_), Some(_)) => return Err("a reply has a `body` or `bytes`, not both".to_owned()),
            (Some(text), None) => text.into_bytes(),
            (None, bytes) => bytes.unwrap_or_default(),
        };
        let reply = Self::stored(written.status, written.headers, body);
        reply.unspeakable().map_or(Ok(reply), Err)
    }
}

impl From<u16> for Reply {
    fn from(code: u16) -> Self {
        Self::status(code)
    }
}

fn unspeakable_header(name: &str, value: &str) -> Option<String> {
    // A wrong length trips an assertion inside hyper; the length is the server's to tell.
    if name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding") {
        return Some(format!("{name} is not for a reply to set"));
    }
    let name_ok = http::HeaderName::try_from(name).is_ok();
    let value_ok = http::HeaderValue::try_from(value).is_ok();
    (!name_ok || !value_ok).then(|| format!("{name:?}: {value:?} is no header line"))
}
