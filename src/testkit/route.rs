//! Which endpoint a request is for, and what a served endpoint's handler gets to see.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::dialect::{ByKey, Facts, Withdrawal};
use super::reply::Reply;
use super::seen::Seen;

/// A request as the handler of a [served](super::Desk::serve) endpoint gets it.
#[derive(Clone, Debug)]
pub struct Request {
    seen: Seen,
    segments: BTreeMap<String, String>,
    json: Value,
}

impl Request {
    fn new(seen: &Seen, segments: BTreeMap<String, String>) -> Self {
        Self {
            json: json_of(seen),
            seen: seen.clone(),
            segments,
        }
    }

    /// What stood in the place of `{name}` in the path, percent-decoded.
    pub fn segment(&self, name: &str) -> Option<&str> {
        self.segments.get(name).map(String::as_str)
    }

    /// The body as JSON; `Null` if it was empty or something else.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The request as the desk records it: key, headers, bytes. Not answered yet.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }
}

/// What a request wants.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// Something to be done once per key.
    Write(Work),
    /// The key of an order to be cancelled, or of one that shall never come.
    Withdraw { key: String },
    /// Something to be looked up, by whoever and however often.
    Read(Lookup),
    /// Nothing that the desk has.
    Stray,
}

/// The work behind a key.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Place,
    Amend { order_id: String },
    Cancel { order_id: String },
    Serve(Arc<Served>, Box<Request>),
}

#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    Order {
        order_id: String,
    },
    ByKey {
        key: String,
    },
    /// The orders themselves, by their key: one or 404, or a list of none or one.
    Found {
        key: String,
        as_list: bool,
    },
    Serve(Arc<Served>, Box<Request>),
}

/// An endpoint of the user's own.
pub(crate) struct Served {
    method: String,
    pattern: Vec<Segment>,
    handler: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
}

impl Served {
    pub(crate) fn new(method: &str, path: &str, handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            method: method.to_ascii_uppercase(),
            pattern: segments(path).map(Segment::read).collect(),
            handler: Box::new(handler),
        }
    }

    pub(crate) fn call(&self, request: &Request) -> Reply {
        (self.handler)(request)
    }

    /// GET and HEAD promise not to change anything, so they have no key and no ledger.
    fn is_lookup(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }

    fn matches(&self, seen: &Seen) -> Option<BTreeMap<String, String>> {
        if self.method != seen.method || self.pattern.len() != segments(&seen.path).count() {
            return None;
        }
        let mut named = BTreeMap::new();
        for (segment, actual) in self.pattern.iter().zip(segments(&seen.path)) {
            let actual = decode(actual);
            match segment {
                Segment::Exactly(expected) if *expected == actual => {}
                Segment::Exactly(_) => return None,
                Segment::Named(name) => {
                    named.insert(name.clone(), actual);
                }
            }
        }
        Some(named)
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served")
            .field("method", &self.method)
            .field("pattern", &self.pattern)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Segment {
    Exactly(String),
    Named(String),
}

impl Segment {
    fn read(text: &str) -> Self {
        match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            Some(name) => Self::Named(name.to_owned()),
            None => Self::Exactly(decode(text)),
        }
    }
}

/// Finds the endpoint: the user's own before the desk's, the first one served before later ones.
pub(crate) fn route(seen: &Seen, served: &[Arc<Served>], facts: &Facts) -> Route {
    let own = served.iter().find_map(|s| s.matches(seen).map(|segments| (s, segments)));
    match own {
        Some((served, segments)) => {
            let request = Box::new(Request::new(seen, segments));
            if served.is_lookup() {
                Route::Read(Lookup::Serve(Arc::clone(served), request))
            } else {
                Route::Write(Work::Serve(Arc::clone(served), request))
            }
        }
        None => key_route(seen, facts).unwrap_or_else(|| order_route(seen)),
    }
}

/// The endpoints that know an order by its key; which there are is the dialect's.
fn key_route(seen: &Seen, facts: &Facts) -> Option<Route> {
    let found = |name, as_list| {
        let key = parameter(seen.query.as_deref()?, name)?;
        Some(Route::Read(Lookup::Found { key, as_list }))
    };
    match (seen.method.as_str(), facts.by_key, facts.withdrawal) {
        ("GET", ByKey::Path, _) => path_key(seen, None).map(|key| Route::Read(Lookup::ByKey { key })),
        ("GET", ByKey::Query { path, name }, _) if seen.path == path => found(name, false),
        ("GET", ByKey::List { name }, _) if seen.path == "/orders" => found(name, true),
        ("POST", _, Withdrawal::Path) => path_key(seen, Some("cancel")).map(|key| Route::Withdraw { key }),
        ("POST", _, Withdrawal::Body) if seen.path == "/orders/cancel" => {
            // Without a key in its body it is an order without a key, and is refused as such.
            Some(seen.key.clone().map_or(Route::Write(Work::Place), |key| Route::Withdraw { key }))
        }
        _ => None,
    }
}

/// The key in `/orders/by-key/{key}`, with or without a word behind it.
fn path_key(seen: &Seen, word: Option<&str>) -> Option<String> {
    let path: Vec<String> = segments(&seen.path).map(decode).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match (path.as_slice(), word) {
        (["orders", "by-key", key], None) => Some((*key).to_owned()),
        (["orders", "by-key", key, last], Some(word)) if *last == word => Some((*key).to_owned()),
        _ => None,
    }
}

/// A member of a query.
fn parameter(query: &str, name: &str) -> Option<String> {
    let members = query.split('&').filter_map(|member| member.split_once('='));
    members
        .map(|(name, value)| (decode(name), decode(value)))
        .find_map(|(known, value)| (known == name).then_some(value))
}

fn order_route(seen: &Seen) -> Route {
    let path: Vec<String> = segments(&seen.path).map(decode).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match (seen.method.as_str(), path.as_slice()) {
        ("POST", ["orders"]) => Route::Write(Work::Place),
        ("PATCH", ["orders", id]) => Route::Write(Work::Amend {
            order_id: (*id).to_owned(),
        }),
        ("POST", ["orders", id, "cancel"]) => Route::Write(Work::Cancel {
            order_id: (*id).to_owned(),
        }),
        ("GET", ["orders", id]) => Route::Read(Lookup::Order {
            order_id: (*id).to_owned(),
        }),
        _ => Route::Stray,
    }
}

/// The segments between the slashes; the leading slash opens none.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}

/// Percent-decoding; a `%` that encodes nothing stands for itself.
pub(crate) fn decode(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let decoded = match (first, after) {
            (b'%', [high, low, after @ ..]) => hex(*high, *low).map(|byte| (byte, after)),
            _ => None,
        };
        let (byte, after) = decoded.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? * 16 + digit(low)?)
}

/// The body as JSON, or `Null`.
pub(crate) fn json_of(seen: &Seen) -> Value {
    serde_json::from_slice(&seen.body).unwrap_or(Value::Null)
}
