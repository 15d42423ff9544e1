//! When two requests are the same order: the judge's own eyes, shared with nobody.
//!
//! Method, path, query and contents are compared. JSON contents are compared by value: the order of members, white
//! space, escapes and the spelling of a number (`1`, `1.0`, `1e0`) do not matter; the order of elements does. Numbers
//! are compared as decimals of any length, so `9007199254740992` and `9007199254740993` are two numbers here, whatever
//! a double thinks of them. Nothing in this file may be borrowed from a client: a judge who thinks with the client's
//! code makes the client's mistakes.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// How deep a JSON body may be nested, the limit serde_json keeps as well. It bounds our recursion.
const DEPTH_MAX: usize = 128;

/// A request in the form in which the desk compares it.
///
/// ```
/// use uketsuke::testkit::Contents;
///
/// let one = Contents::read("POST", "/orders", br#"{"sku": "A-1", "qty": 1}"#)?;
/// let same = Contents::read("POST", "/orders", br#"{"qty":1.0,"sku":"\u0041-1"}"#)?;
/// let other = Contents::read("POST", "/orders", br#"{"sku": "A-1", "qty": 2}"#)?;
/// assert_eq!(one, same);
/// assert_ne!(one, other);
/// # Ok::<(), uketsuke::testkit::Unreadable>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    method: String,
    target: String,
    body: Body,
}

impl Contents {
    /// Reads a request. `target` is the path with its query, as on the wire.
    ///
    /// A body that is JSON is compared by value, any other body byte by byte, and no body equals no body only.
    ///
    /// # Errors
    ///
    /// A JSON body whose value is open to dispute is [`Unreadable`]: two servers could read two orders from it.
    pub fn read(method: &str, target: &str, body: &[u8]) -> Result<Self, Unreadable> {
        Ok(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            body: Body::read(body)?,
        })
    }

    /// SHA-256 of the request as it is compared, in hexadecimal: equal for equal contents, on every machine. What a ledger keeps.
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        let mut put = |bytes: &[u8]| {
            // Each piece says how long it is, so that no two sequences of pieces are one sequence of bytes.
            digest.update(bytes.len().to_be_bytes());
            digest.update(bytes);
        };
        put(self.method.as_bytes());
        put(self.target.as_bytes());
        match &self.body {
            Body::Empty => put(b"empty"),
            Body::Bytes(bytes) => {
                put(b"bytes");
                put(bytes);
            }
            Body::Json(json) => {
                put(b"json");
                json.put(&mut put);
            }
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The same without that member of the body: a key that is sent in the body is no part of the order.
    pub(crate) fn without(mut self, member: Option<&str>) -> Self {
        if let (Some(member), Body::Json(Json::Object(members))) = (member, &mut self.body) {
            members.remove(member);
        }
        self
    }

    /// Whether the body was JSON.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.body, Body::Json(_))
    }

    /// Whether the body was a JSON object, the least that an order must be.
    pub(crate) fn is_json_object(&self) -> bool {
        matches!(self.body, Body::Json(Json::Object(_)))
    }

    /// Whether there was no body.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.body, Body::Empty)
    }
}

/// Why the desk refuses to compare a JSON body (and answers 400 to it).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// An object names a member twice. Parsers disagree which of them counts.
    #[error("the member name {0:?} stands twice in one object")]
    NameTwice(String),
    /// The body is nested deeper than 128 levels.
    #[error("the body is nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// A number's exponent does not fit into 64 bits.
    #[error("the number {0} is beyond counting")]
    BeyondCounting(String),
    /// A string holds half a surrogate pair, which is no text.
    #[error("a string holds half a surrogate pair")]
    NotText,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    Empty,
    Json(Json),
    Bytes(Vec<u8>),
}

impl Body {
    fn read(body: &[u8]) -> Result<Self, Unreadable> {
        if body.is_empty() {
            return Ok(Self::Empty);
        }
        match serde_json::from_slice::<&RawValue>(body) {
            Ok(raw) => Json::read(raw.get(), DEPTH_MAX).map(Self::Json),
            Err(_) => Ok(Self::Bytes(body.to_vec())),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Json {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Reads one value from text that is known to be JSON, `levels` being how much deeper it may go.
    ///
    /// It goes through `RawValue` because every number must be seen as it was written: a `serde_json::Value` may
    /// already have rounded it, depending on which features somebody else switched on.
    fn read(text: &str, levels: usize) -> Result<Self, Unreadable> {
        let deeper = levels.checked_sub(1).ok_or(Unreadable::TooDeep);
        match text.as_bytes().first() {
            Some(b'{') => object(text, deeper?),
            Some(b'[') => array(text, deeper?),
            Some(b'"') => serde_json::from_str(text).map(Self::Text).map_err(|_| Unreadable::NotText),
            Some(b't') => Ok(Self::Bool(true)),
            Some(b'f') => Ok(Self::Bool(false)),
            Some(b'n') => Ok(Self::Null),
            _ => Decimal::read(text)
                .map(Self::Number)
                .ok_or_else(|| Unreadable::BeyondCounting(text.to_owned())),
        }
    }
}

impl Json {
    fn put(&self, put: &mut impl FnMut(&[u8])) {
        match self {
            Self::Null => put(b"null"),
            Self::Bool(true) => put(b"true"),
            Self::Bool(false) => put(b"false"),
            Self::Number(number) => {
                put(if number.negative { b"-" } else { b"+" });
                put(number.digits.as_bytes());
                put(&number.exponent.to_be_bytes());
            }
            Self::Text(text) => {
                put(b"\"");
                put(text.as_bytes());
            }
            Self::Array(elements) => {
                put(b"[");
                put(&elements.len().to_be_bytes());
                elements.iter().for_each(|element| element.put(put));
            }
            Self::Object(members) => {
                put(b"{");
                put(&members.len().to_be_bytes());
                for (name, value) in members {
                    put(name.as_bytes());
                    value.put(put);
                }
            }
        }
    }
}

fn object(text: &str, levels: usize) -> Result<Json, Unreadable> {
    let Members(members) = serde_json::from_str(text).map_err(|_| Unreadable::NotText)?;
    let mut object = BTreeMap::new();
    for (name, value) in members {
        let value = Json::read(value.get(), levels)?;
        if object.insert(name.clone(), value).is_some() {
            return Err(Unreadable::NameTwice(name));
        }
    }
    Ok(Json::Object(object))
}

fn array(text: &str, levels: usize) -> Result<Json, Unreadable> {
    let elements: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| Unreadable::NotText)?;
    let elements: Result<_, _> = elements.into_iter().map(|e| Json::read(e.get(), levels)).collect();
    elements.map(Json::Array)
}

/// An object's members in the order they were written, each name as often as it was written.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

/// A number by value: `digits` × 10^`exponent`, the digits without zeros at either end. Zero has no digits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads a JSON number. `None` if the exponent does not fit.
    fn read(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_end_matches('0');
        let zeros = all.len() - digits.len();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Self::zero());
        }
        let exponent = exponent
            .parse::<i64>()
            .ok()?
            .checked_sub(i64::try_from(fraction.len()).ok()?)?
            .checked_add(i64::try_from(zeros).ok()?)?;
        Some(Self {
            negative,
            digits: digits.to_owned(),
            exponent,
        })
    }

    /// Zero, of which there is one: `-0`, `0.00` and `0e9` are the same amount of nothing.
    fn zero() -> Self {
        Self {
            negative: false,
            digits: String::new(),
            exponent: 0,
        }
    }
}
