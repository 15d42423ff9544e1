//! `Sketch` (an order, checked; it may act on one whose name is still to be found), `Draft` (ready but for its key) and `Intent` (with its key):
//! everything a later process needs to send and judge an order without any of the caller's types. It never holds a credential.

use crate::{
    actor::Actor,
    fingerprint::Fingerprint,
    gate,
    ids::{IdempotencyKey, TraceId},
    invalid::Invalid,
    operation::{Encoding, Impact, OURS, Operation, Placed, Route, Stake, Subject, decoded, push_encoded},
    origin::{Hash, Origin, hash_of},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use std::{fmt, sync::Arc, time::Duration};

/// Where the key stands on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KeyPlace {
    /// A header with the bare UUID, as most servers document it: `Idempotency-Key: 8e03…`.
    RawHeader(String),
    /// A header with the UUID in quotes: the Structured Field string that draft-ietf-httpapi-idempotency-key-header (section 2.1) asks for.
    QuotedHeader(String),
    /// A member of the JSON body, by JSON pointer (RFC 6901): `/idempotency_key`, `/meta/client_order_id`. The claim puts it there, so that the
    /// journal has the bytes as they are sent; objects on the way are made. The order must not have the member itself.
    BodyMember(String),
}

impl KeyPlace {
    /// Header name and value for a key, where it stands in a header.
    pub(crate) fn header(&self, key: IdempotencyKey) -> Option<(&str, String)> {
        match self {
            KeyPlace::RawHeader(name) => Some((name, key.to_string())),
            KeyPlace::QuotedHeader(name) => Some((name, format!("\"{key}\""))),
            KeyPlace::BodyMember(_) => None,
        }
    }

    /// A place that no request could carry, or that has another job in it, would only be found out once the order is claimed.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let (sound, cure) = match self {
            KeyPlace::RawHeader(name) | KeyPlace::QuotedHeader(name) => {
                let lower = name.to_ascii_lowercase();
                let taken = OURS.contains(&lower.as_str()) && lower != "idempotency-key";
                let sound = !taken && http::HeaderName::try_from(lower).is_ok();
                (sound, "must be a header of the key's own, such as Idempotency-Key")
            }
            KeyPlace::BodyMember(pointer) => {
                let sound = pointer.len() > 1 && pointer.starts_with('/');
                (sound, "must be a JSON pointer to a member, such as /idempotency_key")
            }
        };
        if sound { Ok(()) } else { Err(Invalid::new("dialect.key", cure)) }
    }

    /// The header's name in lower case, where the key stands in one.
    fn header_name(&self) -> Option<String> {
        match self {
            KeyPlace::RawHeader(name) | KeyPlace::QuotedHeader(name) => Some(name.to_ascii_lowercase()),
            KeyPlace::BodyMember(_) => None,
        }
    }
}

/// What the api, not the order, decides of an intent. Kept at claim time: a later process with other settings judges by these.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) api: String,
    pub(crate) dialect: String,
    pub(crate) key_place: KeyPlace,
    pub(crate) retention: Duration,
    pub(crate) scope: Option<String>,
}

/// Everything of an order but its key. Made in one synchronous step, so that nothing typed lives past it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    api: String,
    operation: String,
    origin: Origin,
    actor: Actor,
    trace: TraceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call: Option<String>,
    route: Route,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    /// A JSON body, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    json: Option<Box<RawValue>>,
    /// Any other body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    fingerprint: Fingerprint,
    impact: Impact,
    #[serde(default, skip_serializing_if = "is_unnamed")]
    stake: Stake,
    /// The order it acts on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<Subject>,
    receipt_has: Vec<String>,
    dialect: String,
    key_place: KeyPlace,
    retention_ms: u64,
    /// The account or credential the key lives under at the server (R9); never the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

/// The three hashes by which a claim is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Hash of (api, operation, origin): the claim itself. `None` where no origin is known.
    pub origin: Option<Hash>,
    /// Hash of (operation, origin), whatever the api: finds the same order under another api's name (R20).
    pub source: Option<Hash>,
    /// Hash of (api, fingerprint): the repeat guard's question (R11).
    pub repeat: Hash,
}

fn is_unnamed(stake: &Stake) -> bool {
    *stake == Stake::default()
}

/// An order that was checked and serialised: ready to be claimed, or acting on another one whose name at the server is not known yet.
#[derive(Clone, Debug)]
pub(crate) enum Sketch {
    Ready(Box<Draft>),
    Refers(Box<Referring>),
}

/// A draft whose route lacks an order's name. It can't be claimed.
#[derive(Clone, Debug)]
pub(crate) struct Referring {
    draft: Draft,
    contents: Value,
    to: Placed,
}

impl Referring {
    /// The order it acts on.
    pub(crate) fn to(&self) -> &Placed {
        &self.to
    }

    /// The logical name of the server both go to.
    pub(crate) fn api(&self) -> &str {
        self.draft.api()
    }

    /// The draft, once the server's name for the order is known: what it would have been, had it been named by that.
    pub(crate) fn resolved(self, id: &str) -> Result<Draft, Invalid> {
        let Referring { mut draft, contents, .. } = self;
        draft.route.resolve(id);
        if let Some(subject) = &mut draft.subject {
            subject.resolve(id);
            subject.check()?;
        }
        draft.route.check()?;
        draft.fingerprint = Fingerprint::of(&draft.operation, &draft.route, &contents)?;
        Ok(draft)
    }
}

impl Sketch {
    /// Checks, serialises and fingerprints an order. No I/O.
    pub(crate) fn of<O: Operation>(op: &O, origin: Origin, actor: Actor, trace: TraceId, terms: Terms) -> Result<Sketch, Invalid> {
        op.check()?;
        origin.check()?;
        actor.check()?;
        let (route, subject) = (op.route(), op.subject());
        route.check()?;
        if let Some(subject) = &subject {
            subject.check()?;
            if subject.at().placed() != route.placed() {
                return Err(Invalid::new("subject", "must be the order that the route names"));
            }
        }
        if let Some(name) = terms.key_place.header_name()
            && route.headers().iter().any(|(known, _)| *known == name)
        {
            return Err(Invalid::new(format!("header {name}"), "must be left to the idempotency key"));
        }
        let bytes = gate::to_json("order", op)?;
        let contents: Value = gate::parse_json("order", &bytes)?;
        let fingerprint = Fingerprint::of(O::NAME, &route, &contents)?;
        let (content_type, json, text) = match op.encoding() {
            Encoding::Json => (Some("application/json"), Some(raw(bytes)?), None),
            Encoding::Form => (Some("application/x-www-form-urlencoded"), None, Some(form(&contents)?)),
            Encoding::Empty => (None, None, None),
        };
        let draft = Draft {
            api: terms.api,
            operation: O::NAME.to_owned(),
            origin,
            actor,
            trace,
            tool_call: None,
            route,
            content_type: content_type.map(str::to_owned),
            json,
            text,
            fingerprint,
            impact: op.impact(),
            stake: op.stake(),
            subject,
            receipt_has: O::RECEIPT_HAS.iter().map(|p| (*p).to_owned()).collect(),
            dialect: terms.dialect,
            key_place: terms.key_place,
            retention_ms: u64::try_from(terms.retention.as_millis()).unwrap_or(u64::MAX),
            scope: terms.scope,
        };
        // Whether the key will find its place is known before there is a key.
        draft.with_key("")?;
        Ok(match draft.route.placed().cloned() {
            None => Sketch::Ready(Box::new(draft)),
            Some(to) => Sketch::Refers(Box::new(Referring { draft, contents, to })),
        })
    }

    fn map(self, change: impl FnOnce(&mut Draft)) -> Self {
        let mut sketch = self;
        match &mut sketch {
            Sketch::Ready(draft) => change(draft),
            Sketch::Refers(referring) => change(&mut referring.draft),
        }
        sketch
    }

    pub(crate) fn with_trace(self, trace: TraceId) -> Self {
        self.map(|draft| draft.trace = trace)
    }

    pub(crate) fn with_tool_call(self, id: String) -> Self {
        self.map(|draft| draft.tool_call = Some(id))
    }
}

impl Draft {
    /// An order as no server would be sent it, for tests of a policy: see [`Proposal::of`](crate::Proposal::of).
    ///
    /// # Errors
    /// The order is one that [`submit`](crate::OrderClient::submit) would refuse, or names the order it acts on by what that was placed for.
    pub fn sketch<O: Operation>(op: &O, origin: Origin, actor: Actor) -> Result<Draft, Invalid> {
        let terms = Terms {
            api: "sketch".to_owned(),
            dialect: "sketch".to_owned(),
            key_place: KeyPlace::RawHeader("idempotency-key".to_owned()),
            retention: Duration::from_secs(24 * 60 * 60),
            scope: None,
        };
        let trace = TraceId::mint().map_err(|_| Invalid::new("trace id", "the operating system gave no randomness to mint one"))?;
        Draft::of(op, origin, actor, trace, terms)
    }

    /// An order that names whatever it acts on by the server's name for it.
    pub(crate) fn of<O: Operation>(op: &O, origin: Origin, actor: Actor, trace: TraceId, terms: Terms) -> Result<Draft, Invalid> {
        match Sketch::of(op, origin, actor, trace, terms)? {
            Sketch::Ready(draft) => Ok(*draft),
            Sketch::Refers(_) => Err(Invalid::new("order", "must be named by its id here")),
        }
    }

    /// The draft as it is claimed: with the key in the body, where the dialect wants it there.
    pub(crate) fn complete(mut self, key: IdempotencyKey) -> Result<Self, Invalid> {
        if let Some(json) = self.with_key(&key.to_string())? {
            self.json = Some(json);
        }
        Ok(self)
    }

    fn with_key(&self, key: &str) -> Result<Option<Box<RawValue>>, Invalid> {
        let KeyPlace::BodyMember(pointer) = &self.key_place else {
            return Ok(None);
        };
        let refuse = || {
            Invalid::new(
                "order",
                format!("must be JSON with room for the key at {pointer}: objects on the way, and no such member yet"),
            )
        };
        let mut body = self.json().ok_or_else(refuse)?;
        let mut place = &mut body;
        for name in pointer.split('/').skip(1) {
            let name = name.replace("~1", "/").replace("~0", "~");
            let object = match place {
                Value::Null => {
                    *place = Value::Object(serde_json::Map::new());
                    place.as_object_mut()
                }
                other => other.as_object_mut(),
            };
            place = object.ok_or_else(refuse)?.entry(name).or_insert(Value::Null);
        }
        if !place.is_null() {
            return Err(refuse());
        }
        *place = Value::String(key.to_owned());
        raw(serde_json::to_vec(&body).map_err(|_| refuse())?).map(Some)
    }

    pub(crate) fn columns(&self) -> Columns {
        Columns {
            origin: self.origin.hash(Some(&self.api), &self.operation),
            source: self.origin.hash(None, &self.operation),
            repeat: hash_of(&["repeat", &self.api, self.fingerprint.as_str()]),
        }
    }

    /// The logical name of the server it goes to.
    pub fn api(&self) -> &str {
        &self.api
    }

    /// The operation's name, such as `place_order`.
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// What the order came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Who asked for it.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The trace it belongs to.
    pub fn trace(&self) -> TraceId {
        self.trace
    }

    /// The tool call that asked for it, where one did.
    pub fn tool_call(&self) -> Option<&str> {
        self.tool_call.as_deref()
    }

    /// Method, path, query and the order's own headers.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// What the order asks for, comparable.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// How much is at stake.
    pub fn impact(&self) -> Impact {
        self.impact
    }

    /// What is at stake, as far as the operation names it.
    pub fn stake(&self) -> &Stake {
        &self.stake
    }

    /// The order that it changes or ends, where it does.
    pub fn subject(&self) -> Option<&Subject> {
        self.subject.as_ref()
    }

    /// The body, byte for byte as it is sent; empty where there is none.
    pub fn body(&self) -> &[u8] {
        match (&self.json, &self.text) {
            (Some(json), _) => json.get().as_bytes(),
            (None, Some(text)) => text.as_bytes(),
            (None, None) => b"",
        }
    }

    /// The body as JSON; `None` where it is not JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_str(self.json.as_ref()?.get()).ok()
    }

    /// What the body says, member by member: JSON, or a form, whose values are texts. `None` where there is nothing to tell apart.
    pub(crate) fn members(&self) -> Option<Value> {
        self.json().or_else(|| self.text.as_deref().map(read_form))
    }

    pub(crate) fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// JSON pointers that a success must hold.
    pub(crate) fn receipt_has(&self) -> &[String] {
        &self.receipt_has
    }

    pub(crate) fn key_place(&self) -> &KeyPlace {
        &self.key_place
    }

    /// The dialect's name at claim time.
    pub fn dialect(&self) -> &str {
        &self.dialect
    }

    /// For how long the server promised, at claim time, to remember the key.
    pub(crate) fn retention(&self) -> Duration {
        Duration::from_millis(self.retention_ms)
    }

    /// The account or credential the key lives under at the server; never the credential.
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }
}

/// Shows which order it is, never its contents.
impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("api", &self.api)
            .field("operation", &self.operation)
            .field("route", &self.route)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

fn raw(bytes: Vec<u8>) -> Result<Box<RawValue>, Invalid> {
    String::from_utf8(bytes)
        .ok()
        .and_then(|text| RawValue::from_string(text).ok())
        .ok_or_else(|| Invalid::new("order", "must serialise to JSON"))
}

/// `application/x-www-form-urlencoded` of one flat object; `null` members are left out.
fn form(contents: &Value) -> Result<String, Invalid> {
    let Value::Object(members) = contents else {
        return Err(Invalid::new("order", "must be one flat object to be sent as a form"));
    };
    let mut text = String::new();
    for (name, value) in members {
        let value = match value {
            Value::Null => continue,
            Value::Bool(b) => b.to_string(),
            Value::Number(n) => n.to_string(),
            Value::String(s) => s.clone(),
            Value::Array(_) | Value::Object(_) => {
                return Err(Invalid::new(name, "must be a text, a number or a boolean to be sent as a form"));
            }
        };
        if !text.is_empty() {
            text.push('&');
        }
        push_encoded(&mut text, name);
        text.push('=');
        push_encoded(&mut text, &value);
    }
    Ok(text)
}

/// What [`form`] wrote. Each name stands in it once.
fn read_form(text: &str) -> Value {
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), Value::String(decoded(value)))
    });
    Value::Object(pairs.collect())
}

/// An order with its key: what the journal keeps and what is sent, on the first attempt and on every other. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Intent(Arc<Inner>);

struct Inner {
    key: IdempotencyKey,
    lineage: Lineage,
    draft: Draft,
}

/// Which order of its origin this is. An origin means its newest generation (R17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lineage {
    pub(crate) generation: u32,
    pub(crate) supersedes: Option<IdempotencyKey>,
}

impl Lineage {
    pub(crate) const FIRST: Lineage = Lineage {
        generation: 1,
        supersedes: None,
    };
}

impl Intent {
    pub(crate) fn new(key: IdempotencyKey, lineage: Lineage, draft: Draft) -> Self {
        Intent(Arc::new(Inner { key, lineage, draft }))
    }

    /// The order's key.
    pub(crate) fn key(&self) -> IdempotencyKey {
        self.0.key
    }

    /// The order of the same origin that this one followed.
    pub(crate) fn supersedes(&self) -> Option<IdempotencyKey> {
        self.0.lineage.supersedes
    }

    /// 1 for an origin's first order, one more for each that followed a definite no.
    pub(crate) fn generation(&self) -> u32 {
        self.0.lineage.generation
    }
}

/// An intent answers everything its draft does.
impl std::ops::Deref for Intent {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.0.draft
    }
}

impl fmt::Debug for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Intent({}, {:?})", self.key(), self.0.draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::JsonOrder;
    use serde_json::json;

    fn draft(place: &str, body: Value) -> Result<Draft, Invalid> {
        let terms = Terms {
            api: "api".to_owned(),
            dialect: "test".to_owned(),
            key_place: KeyPlace::BodyMember(place.to_owned()),
            retention: Duration::from_secs(86_400),
            scope: None,
        };
        let order = JsonOrder::new(Route::post("orders"), body);
        Draft::of(&order, Origin::unknown(), Actor::agent("a"), TraceId::mint().unwrap(), terms)
    }

    #[test]
    fn a_key_in_the_body_stands_where_the_dialect_says_and_not_in_the_fingerprint() {
        let key: IdempotencyKey = "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap();
        let bare = draft("/meta/client_order_id", json!({"sku": "A"})).unwrap();
        let fingerprint = bare.fingerprint().clone();
        let whole = bare.complete(key).unwrap();
        assert_eq!(
            whole.json().unwrap(),
            json!({"sku": "A", "meta": {"client_order_id": key.to_string()}})
        );
        assert_eq!(*whole.fingerprint(), fingerprint);
    }

    #[test]
    fn an_order_without_room_for_the_key_is_refused_before_there_is_one() {
        assert!(draft("/key", json!({"key": "mine"})).is_err());
        assert!(draft("/meta/key", json!({"meta": "text"})).is_err());
        assert!(draft("/key", json!(["a"])).is_err());
    }
}
