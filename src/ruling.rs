//! What a policy or a person decided, and what a person is shown first, as data. Nothing here decides.

use crate::{
    actor::Actor,
    clock::Timestamp,
    ids::IdempotencyKey,
    operation::Amount,
    origin::{Origin, hash_of, spelt},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a policy says of a proposed order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It may be sent.
    Allow(Because),
    /// It may not; nothing is sent.
    Deny(Because),
    /// A person decides; until then it is parked.
    Ask(Because),
}

impl Ruling {
    /// Why.
    pub fn because(&self) -> &Because {
        match self {
            Ruling::Allow(because) | Ruling::Deny(because) | Ruling::Ask(because) => because,
        }
    }
}

/// Why something was ruled: the rules that decided, the policy's version, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Because {
    /// Names of the rules that decided.
    pub rules: Vec<String>,
    /// Which policy said so.
    pub policy_version: String,
    /// A sentence for people; shown to agents too, so it names no secret.
    pub reason: String,
}

impl Because {
    /// One rule's reason.
    pub fn rule(policy_version: impl Into<String>, rule: impl Into<String>, reason: impl Into<String>) -> Self {
        Because {
            rules: vec![rule.into()],
            policy_version: policy_version.into(),
            reason: reason.into(),
        }
    }
}

/// What happens where a limit does not hold. The later, the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Otherwise {
    /// A person is asked.
    Ask,
    /// It may not be sent.
    Deny,
}

/// How much one agent may order at one api on one day, in UTC. Weighed against what was claimed that day in the one turn that claims the order, so
/// that it holds to the order, however many processes order at once.
///
/// What counts: every claim of an agent of that name (names that read alike are one), at the same api, of the same operations, at or after the
/// beginning of the day, that was not denied when it was claimed. Nothing is taken off again, whatever becomes of an order: it limits what an agent
/// tries. An order that does not name what is limited makes the day's sum unknown, and a sum that is not known is over any limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DailyLimit {
    /// Who says so, and a few words for people; by how much it is passed is put behind them.
    pub because: Because,
    /// What becomes of an order that would pass it.
    pub otherwise: Otherwise,
    /// The operations that count, by name; empty: every operation.
    pub operations: Vec<String>,
    /// At most so many orders.
    pub orders: Option<u64>,
    /// At most so many units in all.
    pub quantity: Option<u64>,
    /// At most so many items in all.
    pub items: Option<u64>,
    /// At most so much money in all; another currency is over it.
    pub amount: Option<Amount>,
}

impl DailyLimit {
    /// A limit that limits nothing yet, of every operation.
    pub fn new(because: Because, otherwise: Otherwise) -> Self {
        DailyLimit {
            because,
            otherwise,
            operations: Vec::new(),
            orders: None,
            quantity: None,
            items: None,
            amount: None,
        }
    }
}

/// A ruling, and the limits of the day that the claim has to weigh with it.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) ruling: Ruling,
    pub(crate) daily: Vec<DailyLimit>,
}

impl From<Ruling> for Judgement {
    fn from(ruling: Ruling) -> Self {
        Judgement { ruling, daily: Vec::new() }
    }
}

/// What a person sees before they decide about an order. As [`Display`](std::fmt::Display) it is text for a terminal, by
/// [`to_html`](Preview::to_html) a fragment for a page, and it serialises for everything else; whatever the order holds, it can break out of none
/// of them.
///
/// These are contents of orders: not for logs. `Debug` shows which order it is.
#[derive(Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Preview {
    /// The order's key.
    pub key: IdempotencyKey,
    /// What an approval has to name: it stands for this key, these contents, the version they are made for, and the policy that asked.
    pub digest: String,
    /// Method, path and query: `PATCH /orders/ord-1`.
    pub request: String,
    /// The order's own headers.
    pub headers: Vec<(String, String)>,
    /// Path and query by which the order that it acts on was read.
    pub read_at: Option<String>,
    /// The operation's name.
    pub operation: String,
    /// The logical name of the server it goes to.
    pub api: String,
    /// What it came from.
    pub origin: Origin,
    /// Who asked for it.
    pub actor: Actor,
    /// Why a person is asked.
    pub because: Because,
    /// Silence until then is a no; `None`: no answer is awaited.
    pub expires: Option<Timestamp>,
    /// The version of the order it acts on, by the server's ETag.
    pub base: Option<String>,
    /// The version that the agent made it for, by its If-Match. Where another one stands, the server will refuse it.
    pub made_for: Option<String>,
    /// The order it acts on, as its server showed it.
    pub current: Option<Value>,
    /// The contents that are sent.
    pub contents: Option<Value>,
    /// Field by field, what would be otherwise. For an order that makes something new: all it holds.
    pub changes: Vec<Change>,
}

impl std::fmt::Debug for Preview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Preview({} {})", self.key, self.digest)
    }
}

/// What binds an approval to what was shown: `pv1:` and a SHA-256 over length-prefixed parts.
pub(crate) fn digest(key: IdempotencyKey, fingerprint: &str, because: &Because, base: &str, current: &[u8]) -> String {
    let key = key.to_string();
    let texts = ["preview 1", &key, fingerprint, &because.policy_version, &because.reason, base];
    let mut parts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    parts.push(current);
    parts.extend(because.rules.iter().map(String::as_bytes));
    spelt("pv1:", hash_of(&parts))
}

/// One field that differs between two versions of an order. `Debug` shows where, not what.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Where: `items[0].quantity`; a member whose name could pass for a path as `meta["a.b"]`.
    pub field: String,
    /// What stood there; `None`: nothing.
    pub before: Option<Value>,
    /// What would stand there; `None`: nothing.
    pub after: Option<Value>,
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Change({})", self.field)
    }
}

/// Field by field, what differs between two JSON values; nothing where they are equal.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(String::new(), Some(before), Some(after), &mut found);
    found
}

fn compare(field: String, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Change>) {
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            // A name that could pass for a path stands in brackets and quotes.
            let plain = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
            let dotted = |name: &str| match (field.is_empty(), plain(name)) {
                (true, true) => name.to_owned(),
                (false, true) => format!("{field}.{name}"),
                (_, false) => format!("{field}[{}]", Value::from(name)),
            };
            for (name, value) in old {
                compare(dotted(name), Some(value), new.get(name), found);
            }
            for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
                compare(dotted(name), None, Some(value), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for at in 0..old.len().max(new.len()) {
                compare(format!("{field}[{at}]"), old.get(at), new.get(at), found);
            }
        }
        (Some(old), Some(new)) if same_scalar(old, new) => {}
        (before, after) => found.push(Change {
            field,
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

/// Numbers by value: `1` and `1.0` are the same number.
pub(crate) fn same_scalar(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64().is_some_and(|a| Some(a) == b.as_f64()),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_names_its_field_and_shows_no_value_in_debug() {
        let found = changes(
            &json!({"items":[{"sku":"A","qty":1}],"note":"SEKRET"}),
            &json!({"items":[{"sku":"A","qty":2},{"sku":"B"}],"note":"SEKRET","x":1.0}),
        );
        let fields: Vec<_> = found.iter().map(|c| c.field.as_str()).collect();
        assert_eq!(fields, ["items[0].qty", "items[1]", "x"]);
        assert!(!format!("{found:?}").contains("SKU"));
        assert!(changes(&json!({"a":1}), &json!({"a":1.0})).is_empty());
    }
}
