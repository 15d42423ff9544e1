//! `Route`: where an order goes, below the api's base URL.

use super::subject::{OrderRef, Placed};
use crate::invalid::Invalid;
use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// The order whose name still has to be put into the path. Never in a journal: it is known before anything is claimed.
    #[serde(skip)]
    refers: Option<Refers>,
    /// The first thing that was wrong, told at submit: a builder that can fail at each step reads badly.
    #[serde(skip)]
    fault: Option<Invalid>,
}

/// Where in a path an order's name belongs, and whose.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refers {
    at: usize,
    to: Placed,
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
            refers: self.refers.clone(),
            fault: self.fault.clone(),
        }
    }

    fn new(method: Method, path: &'static str) -> Self {
        let empty = Route {
            method,
            path: String::new(),
            query: Vec::new(),
            headers: Vec::new(),
            refers: None,
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

    /// One segment: the server's name for an order. Named by what it was placed for, it is put there once it is known.
    #[must_use]
    pub fn order(mut self, order: &OrderRef) -> Self {
        let to = match (order, order.placed()) {
            (OrderRef::Id(id), _) => return self.segment(id),
            (_, Some(to)) => to,
            (_, None) => return self.wrong("order", "must be named by its id or by what it was placed for"),
        };
        if let Err(fault) = to.check() {
            self.fault.get_or_insert(fault);
        } else if self.refers.is_some() {
            return self.wrong("route", "must name one order, not two");
        }
        self.refers = Some(Refers { at: self.path.len(), to });
        self
    }

    /// The order whose name is not known yet.
    pub(crate) fn placed(&self) -> Option<&Placed> {
        self.refers.as_ref().map(|refers| &refers.to)
    }

    /// Puts the order's name into its place. A name that would lead to another path is a fault, as everywhere.
    pub(crate) fn resolve(&mut self, id: &str) {
        let Some(Refers { at, .. }) = self.refers.take() else { return };
        let end = self.path.split_off(at);
        let mut whole = std::mem::replace(self, Route::new(self.method, "")).segment(id);
        whole.path.push_str(&end);
        *self = whole;
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
        if self.path.is_empty() && self.refers.is_none() {
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

/// What [`push_encoded`] wrote.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(high << 4 | low);
                rest = ahead;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
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

    /// BUG-82: nor does one that is read from a receipt.
    #[test]
    fn an_order_that_is_named_later_stands_in_its_place() {
        let placed = OrderRef::PlacedBy(crate::origin::Origin::mail("1"));
        for (id, path) in [("7", "/orders/7/cancel"), ("../admin", "/orders/..%2Fadmin/cancel")] {
            let mut route = Route::post("orders").order(&placed).then("cancel").if_match("\"1\"");
            route.resolve(id);
            route.check().unwrap();
            assert_eq!((route.path(), route.placed(), route.headers().len()), (path, None, 1));
            assert_eq!(route, Route::post("orders").segment(id).then("cancel").if_match("\"1\""));
        }
        let mut nowhere = Route::post("orders").order(&placed);
        nowhere.resolve("..");
        assert!(nowhere.check().is_err());
        assert!(Route::post("orders").order(&placed).order(&placed).check().is_err());
        let unknown = OrderRef::PlacedBy(crate::origin::Origin::unknown());
        assert!(Route::post("orders").order(&unknown).check().is_err());
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
