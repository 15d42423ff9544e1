//! How an order that a server shows compares with the one that was meant: field by field, where both name the field.

use crate::{
    intent::Intent,
    operation::{Becomes, Impact},
    ruling::same_scalar,
};
use serde_json::{Number, Value};

/// How an order that a server shows compares with the one that was meant.
pub(super) enum Likeness {
    Same,
    Different,
    /// The same, but it has come to nothing.
    Ended,
    /// It does not hold what a success of this operation must hold, or says an error.
    Unreadable,
}

pub(super) fn likeness(intent: &Intent, body: &Value) -> Likeness {
    let holds = |pointer: &String| body.pointer(pointer).is_some_and(|value| !value.is_null());
    if says_error(body) || !intent.receipt_has().iter().all(holds) {
        return Likeness::Unreadable;
    }
    match intent.json() {
        Some(asked) if same_kind(&asked, body) && contradicts(&asked, body) => Likeness::Different,
        asked if has_ended(body) && !is_meant_to_end(intent, asked.as_ref()) => Likeness::Ended,
        _ => Likeness::Same,
    }
}

/// Whether to end an order is what this one is for: it says so of its subject, or its contents do. Where it names no subject, its impact has to
/// tell.
fn is_meant_to_end(intent: &Intent, asked: Option<&Value>) -> bool {
    let is_for_it = match intent.subject() {
        Some(subject) => subject.becomes() == Becomes::Ended,
        None => intent.impact() == Impact::High,
    };
    is_for_it || asked.is_some_and(says_ended)
}

/// Whether an order shows itself as come to nothing.
fn has_ended(order: &Value) -> bool {
    // Many servers keep what they return one level down: `{"payment": {…}}`.
    says_ended(order) || order.as_object().is_some_and(|members| members.values().any(says_ended))
}

fn says_ended(order: &Value) -> bool {
    const ENDED: [&str; 9] = [
        "cancelled",
        "canceled",
        "rejected",
        "expired",
        "failed",
        "declined",
        "voided",
        "refused",
        "denied",
    ];
    let mut words = ["status", "state"].iter().filter_map(|name| order.get(name)?.as_str());
    words.any(|word| ENDED.contains(&word.to_ascii_lowercase().as_str()))
}

/// A list that is answered by an object, or an object by a bare id, names nothing that could be compared.
fn same_kind(asked: &Value, returned: &Value) -> bool {
    asked.is_object() && returned.is_object() || asked.is_array() && returned.is_array()
}

/// Some servers put an error into a 200: `{"error": {…}}`, `{"errors": […]}`, and `userErrors` a few levels down.
fn says_error(body: &Value) -> bool {
    let one = body
        .get("error")
        .is_some_and(|error| !matches!(error, Value::Null | Value::Bool(false)));
    let many = body
        .get("errors")
        .and_then(Value::as_array)
        .is_some_and(|errors| !errors.is_empty());
    one || many || has_user_errors(body, 4)
}

fn has_user_errors(body: &Value, levels: u32) -> bool {
    let Some(members) = body.as_object() else { return false };
    members.iter().any(|(name, value)| match value {
        Value::Array(errors) if name == "userErrors" => !errors.is_empty(),
        Value::Object(_) if levels > 0 => has_user_errors(value, levels.saturating_sub(1)),
        _ => false,
    })
}

/// Whether a returned order repeats anything that was asked for: one value under one name is enough.
pub(super) fn repeats_any(asked: &Value, returned: &Value) -> bool {
    match (asked, returned) {
        (Value::Object(asked), Value::Object(returned)) => asked
            .iter()
            .any(|(name, value)| returned.get(name).is_some_and(|other| repeats_any(value, other))),
        (Value::Array(asked), Value::Array(returned)) => asked.iter().any(|value| returned.iter().any(|other| repeats_any(value, other))),
        (_, Value::Null) => false,
        _ => !contradicts(asked, returned),
    }
}

/// Whether a returned order says something else where both name the same field: some servers ignore that a key was used for other contents
/// and return the old order. A server may add members, and may list items in another order.
fn contradicts(asked: &Value, returned: &Value) -> bool {
    match (asked, returned) {
        (Value::Object(asked), Value::Object(returned)) => asked
            .iter()
            .any(|(name, value)| returned.get(name).is_some_and(|other| contradicts(value, other))),
        (Value::Array(asked), Value::Array(returned)) => {
            if asked.len() != returned.len() {
                return true;
            }
            // Nearly always in the same order: then one pass tells.
            if !asked.iter().zip(returned).any(|(value, other)| contradicts(value, other)) {
                return false;
            }
            let mut left: Vec<&Value> = returned.iter().collect();
            !asked.iter().all(|value| {
                let found = left.iter().position(|other| !contradicts(value, other));
                found.map(|at| left.swap_remove(at)).is_some()
            })
        }
        // A number sent as text, or text as a number, is a difference of spelling.
        (Value::String(text), Value::Number(number)) | (Value::Number(number), Value::String(text)) => !same_number(text, number),
        // A member that the server leaves empty says nothing.
        (_, Value::Null) => false,
        (asked, returned) => !same_scalar(asked, returned),
    }
}

/// To the last digit where both are whole. `0012` is an id, not a number.
fn same_number(text: &str, number: &Number) -> bool {
    let whole = |number: &Number| number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    let Ok(named) = text.parse::<Number>() else { return false };
    match (whole(&named), whole(number)) {
        (Some(named), Some(number)) => named == number,
        _ => named.as_f64() == number.as_f64(),
    }
}
