//! What a policy or a person decided, as data. It stands in the journal; nothing here decides.

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

/// One field that differs between two versions of an order. `Debug` shows where, not what.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Where: `items[0].quantity`.
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
            let dotted = |name: &str| {
                if field.is_empty() {
                    name.to_owned()
                } else {
                    format!("{field}.{name}")
                }
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
