//! `Operation`: one kind of request with an effect; and the words it is made of: `Route`, `Method`, `Encoding`, `Impact`.

use crate::{answer::Answer, invalid::Invalid};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;

/// One kind of order: what it is called, where it goes, what counts as success. The order's contents are the type's own `Serialize` form.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use uketsuke::{Operation, Route};
///
/// #[derive(Serialize)]
/// struct BookRoom {
///     #[serde(skip)]
///     hotel: String,
///     nights: u32,
/// }
///
/// #[derive(Deserialize)]
/// struct Booking {
///     reference: String,
/// }
///
/// impl Operation for BookRoom {
///     type Receipt = Booking;
///     const NAME: &'static str = "book_room";
///     const RECEIPT_HAS: &'static [&'static str] = &["/reference"];
///     fn route(&self) -> Route {
///         Route::post("hotels").segment(&self.hotel).then("bookings")
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an order uketsuke can submit",
    note = "derive `serde::Serialize` and implement `Operation`: NAME, Receipt, route()"
)]
pub trait Operation: Serialize {
    /// What the caller gets back, read from the stored answer as often as asked.
    type Receipt: DeserializeOwned;

    /// The operation's name: part of the claim, so `cancel_order` and `place_order` from one mail are two orders.
    const NAME: &'static str;

    /// JSON pointers (RFC 6901) that the body of a success must hold. Kept in the intent, so that submit and resume judge one answer alike.
    /// Default: none; then an empty body is a success too.
    const RECEIPT_HAS: &'static [&'static str] = &[];

    /// Method, path, query and the headers that belong to the order.
    fn route(&self) -> Route;

    /// Refuses what can never be right, before anything is written or sent. Default: everything passes.
    fn check(&self) -> Result<(), Invalid> {
        Ok(())
    }

    /// How much is at stake. The default policy asks a person about [`Impact::High`]. Default: normal.
    fn impact(&self) -> Impact {
        Impact::Normal
    }

    /// How the contents stand in the body. Default: JSON.
    fn encoding(&self) -> Encoding {
        Encoding::Json
    }

    /// Reads the receipt from a success. Default: the body as JSON, an empty body as `{}`.
    fn receipt(answer: &Answer) -> Result<Self::Receipt, Unreadable> {
        let body = if answer.body().is_empty() { b"{}" } else { answer.body() };
        // serde's message may quote the answer; the place is enough to find it in the journal.
        serde_json::from_slice(body).map_err(|e| Unreadable {
            why: format!("line {}, column {} does not fit the receipt's type", e.line(), e.column()),
        })
    }
}

/// A success whose receipt the caller's type can't read. The order was processed; the journal keeps the answer as it came.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the answer holds no such receipt: {why}")]
pub struct Unreadable {
    /// Where it went wrong; never the answer itself.
    pub why: String,
}

impl Unreadable {
    /// For an own [`Operation::receipt`]. Put nothing of the answer into it.
    pub fn new(why: impl Into<String>) -> Self {
        Unreadable { why: why.into() }
    }
}

/// How much is at stake with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Impact {
    /// An ordinary order.
    Normal,
    /// It changes or ends something that stands: the default policy asks a person.
    High,
}

/// How an order's contents stand in the request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/x-www-form-urlencoded`; the contents must be one flat object of texts, numbers and booleans.
    Form,
    /// No body; the contents still count for the fingerprint.
    Empty,
}

/// An HTTP method. Those with an effect, and `Get` for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// POST
    Post,
    /// PUT
    Put,
    /// PATCH
    Patch,
    /// DELETE
    Delete,
    /// GET
    Get,
}

impl Method {
    /// As it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Get => "GET",
        }
    }
}

/// Where an order goes, below the api's base URL: method, path, query, and headers that belong to the order. All of it is kept in the
/// intent and is part of the fingerprint.
///
/// Fixed text is written by [`then`](Route::then) and may hold slashes; data is written by [`segment`](Route::segment) and becomes exactly
/// one encoded segment, whatever it holds. `Debug` hides the values of query and headers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    method: Method,
    /// Encoded, with a leading slash.
    path: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    query: Vec<(String, String)>,
    /// Lower-case names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    /// The first thing that was wrong, told at submit: a builder that can fail at each step reads badly.
    #[serde(skip)]
    fault: Option<Invalid>,
}

/// Headers that the crate, not the order, decides.
pub(crate) const OURS: [&str; 14] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "idempotency-key",
    "traceparent",
    "transfer-encoding",
    "x-attempt",
    "x-request-id",
];

/// Longer than any server takes, and well within what a URI may hold.
const TARGET_CAP: usize = 16_000;

impl Route {
    /// `POST` to a fixed path below the base URL, such as `orders`.
    pub fn post(path: &'static str) -> Self {
        Route::new(Method::Post, path)
    }

    /// `PUT` to a fixed path below the base URL.
    pub fn put(path: &'static str) -> Self {
        Route::new(Method::Put, path)
    }

    /// `PATCH` to a fixed path below the base URL.
    pub fn patch(path: &'static str) -> Self {
        Route::new(Method::Patch, path)
    }

    /// `DELETE` to a fixed path below the base URL.
    pub fn delete(path: &'static str) -> Self {
        Route::new(Method::Delete, path)
    }

    /// `GET` of a fixed path below the base URL: for lookups. An order whose route is a GET is refused, since a GET orders nothing.
    pub fn get(path: &'static str) -> Self {
        Route::new(Method::Get, path)
    }

    /// A GET of the same path, without query and headers.
    pub(crate) fn to_get(&self) -> Self {
        Route {
            method: Method::Get,
            path: self.path.clone(),
            query: Vec::new(),
            headers: Vec::new(),
            fault: self.fault.clone(),
        }
    }

    fn new(method: Method, path: &'static str) -> Self {
        let empty = Route {
            method,
            path: String::new(),
            query: Vec::new(),
            headers: Vec::new(),
            fault: None,
        };
        empty.then(path)
    }

    /// Further fixed text of the path; may hold slashes.
    #[must_use]
    pub fn then(mut self, fixed: &'static str) -> Self {
        for part in fixed.split('/').filter(|part| !part.is_empty()) {
            self = self.segment(part);
        }
        self
    }

    /// One segment from data, encoded. Empty, `.` and `..` are refused at submit: they would name another path.
    #[must_use]
    pub fn segment(mut self, data: impl AsRef<str>) -> Self {
        let data = data.as_ref();
        if matches!(data, "" | "." | "..") {
            return self.wrong("path segment", "must not be empty, \".\" or \"..\": it would name another path");
        }
        self.path.push('/');
        push_encoded(&mut self.path, data);
        self
    }

    /// Fixed text at the end of the last segment, such as the `:by_client_order_id` of a custom method.
    #[must_use]
    pub fn suffix(mut self, fixed: &'static str) -> Self {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b":-._~".contains(&b);
        if fixed.is_empty() || !fixed.bytes().all(plain) {
            return self.wrong("path suffix", "must be letters, digits and `:-._~`");
        }
        self.path.push_str(fixed);
        self
    }

    /// A query parameter, encoded.
    #[must_use]
    pub fn query(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// `If-Match`: the order acts on this version (ETag, RFC 9110 section 13.1.1) and no other.
    #[must_use]
    pub fn if_match(self, etag: impl Into<String>) -> Self {
        self.header("if-match", etag)
    }

    /// A header that belongs to the order. Line breaks, NUL, a name that was set before and names that the crate decides itself are refused
    /// at submit.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        let name = name.to_ascii_lowercase();
        let value = value.into();
        if OURS.contains(&name.as_str()) || http::HeaderName::try_from(name.as_str()).is_err() {
            return self.wrong(
                "header name",
                "must be a header that belongs to the order, not one the client sets itself",
            );
        }
        if http::HeaderValue::try_from(value.as_str()).is_err() {
            return self.wrong(&format!("header {name}"), "must hold no line break, NUL or other control character");
        }
        if self.headers.iter().any(|(known, _)| *known == name) {
            // Of two lines of one name some servers read the first and some the last: two orders under one fingerprint.
            return self.wrong(&format!("header {name}"), "must be set once");
        }
        self.headers.push((name, value));
        self
    }

    fn wrong(mut self, field: &str, cure: &str) -> Self {
        self.fault.get_or_insert_with(|| Invalid::new(field, cure));
        self
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The encoded path below the base URL, with a leading slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Query parameters in order, not encoded.
    pub fn query_pairs(&self) -> &[(String, String)] {
        &self.query
    }

    /// The order's own headers, names in lower case.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Path and encoded query, as they follow the base URL.
    pub(crate) fn target(&self) -> String {
        let mut target = self.path.clone();
        for (at, (name, value)) in self.query.iter().enumerate() {
            target.push(if at == 0 { '?' } else { '&' });
            push_encoded(&mut target, name);
            target.push('=');
            push_encoded(&mut target, value);
        }
        target
    }

    /// Whether an order can go there.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.method == Method::Get {
            return Err(Invalid::new("route.method", "must be one with an effect: a GET orders nothing"));
        }
        self.check_place()
    }

    /// Whether a lookup can go there. Anything but a GET could be a second order.
    pub(crate) fn check_lookup(&self) -> Result<(), Invalid> {
        if self.method != Method::Get {
            return Err(Invalid::new("lookup.method", "must be GET: anything else could be a second order"));
        }
        self.check_place()
    }

    fn check_place(&self) -> Result<(), Invalid> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if self.path.is_empty() {
            return Err(Invalid::new("route.path", "must name a path below the base URL"));
        }
        // What HTTP can't carry must not be claimed: it could never be sent.
        if self.target().len() > TARGET_CAP {
            return Err(Invalid::new(
                "route",
                "must be at most 16,000 bytes of path and query: the rest belongs into the body",
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Route({} {}", self.method.as_str(), self.path)?;
        if !self.query.is_empty() {
            write!(f, "?<{} hidden>", self.query.len())?;
        }
        f.write_str(")")
    }
}

/// RFC 3986 section 2.3: everything but the unreserved characters is encoded, so that data can't end a segment or start a query.
pub(crate) fn push_encoded(into: &mut String, data: &str) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    for byte in data.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => into.push(char::from(byte)),
            _ => {
                into.push('%');
                into.extend([byte >> 4, byte & 15].iter().filter_map(|n| HEX.get(usize::from(*n))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BUG-82: an order's id leads to no other endpoint.
    #[test]
    fn data_stays_one_segment_whatever_it_holds() {
        for (id, encoded) in [
            ("../admin", "..%2Fadmin"),
            ("a/b", "a%2Fb"),
            ("a?x=1", "a%3Fx%3D1"),
            ("a#f", "a%23f"),
            ("//evil.test/x", "%2F%2Fevil.test%2Fx"),
            ("ü", "%C3%BC"),
        ] {
            let route = Route::post("orders").segment(id).then("cancel");
            assert_eq!(route.path(), format!("/orders/{encoded}/cancel"));
            route.check().unwrap();
        }
        for id in ["", ".", ".."] {
            assert!(Route::post("orders").segment(id).check().is_err(), "{id:?}");
        }
    }

    #[test]
    fn a_header_can_neither_break_the_line_nor_take_the_keys_place() {
        assert!(Route::post("o").header("prefer", "a\r\nX-Evil: 1").check().is_err());
        assert!(Route::post("o").if_match("\"1\"\0").check().is_err());
        assert!(Route::post("o").header("Idempotency-Key", "k").check().is_err());
        assert!(Route::post("o").if_match("\"v1\"").check().is_ok());
    }

    #[test]
    fn debug_hides_the_query() {
        let route = Route::post("orders").query("token", "SEKRET");
        assert!(!format!("{route:?}").contains("SEKRET"));
        assert_eq!(route.target(), "/orders?token=SEKRET");
    }
}
