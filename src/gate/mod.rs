//! The gate: every order passes here before it is fingerprinted, as a `Serialize` value on its way to bytes or as bytes on their way to a
//! value. It owns one question: does this JSON mean the same to every reader? It does no I/O, never corrects anything, and never quotes a
//! value in an error, only where the value stood.
//!
//! What it refuses are the places where readers silently disagree, so that two orders could share one fingerprint: NaN written as `null`,
//! integers past 2^53 rounded to a neighbour, the same name twice in one object, and nesting only some parsers survive.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::invalid::Invalid;

/// Writes `value` as compact JSON, the very bytes serde_json would write, or says which part of it JSON cannot carry faithfully.
///
/// `what` names the whole ("order") where there is no member to name.
pub(crate) fn to_json<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<Vec<u8>, Invalid> {
    write::to_bytes(value).map_err(|refused| refused.into_invalid(what))
}

/// Reads JSON that means the same to every reader; the counterpart of [`to_json`] for callers who bring bytes.
pub(crate) fn parse_json(what: &str, bytes: &[u8]) -> Result<Value, Invalid> {
    parse::to_value(bytes).map_err(|refused| refused.into_invalid(what))
}

/// [`parse_json`], then into `T`. Members `T` does not ask for are refused even without `deny_unknown_fields`: a misspelt `quantity` must
/// not become an order for the default. (Inside `#[serde(flatten)]` serde hides them from us; our own types do not flatten.)
pub(crate) fn read_json<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, Invalid> {
    parse::to_value(bytes)
        .and_then(typed::to_type)
        .map_err(|refused| refused.into_invalid(what))
}

/// The RFC 8785 form of a value that came through the gate. Before the gate it would fold 2^53 + 1 into 2^53.
pub(crate) fn canonical(value: &Value) -> Result<Vec<u8>, Invalid> {
    serde_json_canonicalizer::to_vec(value)
        .map_err(|_| Invalid::new("canonical form", "must be JSON that passed the gate: parse it there first"))
}

mod parse;
mod refusal;
mod typed;
mod write;

#[cfg(test)]
mod tests;
