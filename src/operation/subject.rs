//! `OrderRef` and `Subject`: the order that another one acts on.

use super::Route;
use crate::{invalid::Invalid, origin::Origin};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An order that stands at the server: by the server's name for it, or by what it was placed for.
///
/// By what it was placed for, the server's name is read from this journal when the order that acts on it is submitted, before anything is
/// written. While the outcome of the placing is not known, nothing acts on it: submit answers with an error of kind
/// [`OrderPending`](crate::ErrorKind::OrderPending), which carries the pending order's key, so that a cancel never overtakes what it cancels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderRef {
    /// The server's name for it, as its receipt says. It stays one segment of the path, whatever it holds.
    Id(String),
    /// What it was placed for, by [`PlaceOrder`](crate::PlaceOrder).
    PlacedBy(Origin),
    /// What it was placed for, by an operation of another name.
    PlacedAs {
        /// [`Operation::NAME`](crate::Operation::NAME) of what placed it.
        operation: String,
        /// What it was placed for.
        origin: Origin,
    },
}

impl OrderRef {
    /// By the server's name for it.
    pub fn id(id: impl Into<String>) -> Self {
        OrderRef::Id(id.into())
    }

    /// Which order of this journal it is, where it is named by that.
    pub(crate) fn placed(&self) -> Option<Placed> {
        match self {
            OrderRef::Id(_) => None,
            OrderRef::PlacedBy(origin) => Some(Placed {
                operation: "place_order".to_owned(),
                origin: origin.clone(),
            }),
            OrderRef::PlacedAs { operation, origin } => Some(Placed {
                operation: operation.clone(),
                origin: origin.clone(),
            }),
        }
    }
}

/// An order of this journal, by what it was placed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) operation: String,
    pub(crate) origin: Origin,
}

impl Placed {
    /// An unknown origin names no order.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        self.origin.check()?;
        match self.origin.hash(None, &self.operation) {
            Some(_) => Ok(()),
            None => Err(Invalid::new(
                "order",
                "must be named by its id, or by an origin that names a source: an unknown origin leads to no order",
            )),
        }
    }
}

/// The order that an operation acts on: where it can be read as it stands, and what would become of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    at: Route,
    becomes: Becomes,
}

/// What becomes of an order that another one acts on: how a preview is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Becomes {
    /// The contents are merged into it, as RFC 7396 says: `null` removes, what is absent stays.
    Merged,
    /// The contents take its place.
    Replaced,
    /// It comes to its end.
    Ended,
}

impl Subject {
    /// The contents are merged into the order that `at`, a GET, shows.
    pub fn merged(at: Route) -> Self {
        Subject {
            at,
            becomes: Becomes::Merged,
        }
    }

    /// The contents take the place of the order that `at`, a GET, shows.
    pub fn replaced(at: Route) -> Self {
        Subject {
            at,
            becomes: Becomes::Replaced,
        }
    }

    /// The order that `at`, a GET, shows comes to its end.
    pub fn ended(at: Route) -> Self {
        Subject {
            at,
            becomes: Becomes::Ended,
        }
    }

    /// Where it can be read.
    pub fn at(&self) -> &Route {
        &self.at
    }

    /// What becomes of it.
    pub fn becomes(&self) -> Becomes {
        self.becomes
    }

    /// The order as it would stand: `None` where nothing is left of it.
    pub(crate) fn after(&self, current: &Value, contents: Option<&Value>) -> Option<Value> {
        match (self.becomes, contents) {
            (Becomes::Ended, _) => None,
            (Becomes::Replaced, contents) => contents.cloned(),
            (Becomes::Merged, Some(patch)) => Some(merged(current.clone(), patch)),
            (Becomes::Merged, None) => Some(current.clone()),
        }
    }

    pub(crate) fn resolve(&mut self, id: &str) {
        self.at.resolve(id);
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        self.at.check_lookup()
    }
}

/// RFC 7396, section 2.
fn merged(target: Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut members = match target {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    for (name, change) in changes {
        match change {
            Value::Null => drop(members.remove(name)),
            change => {
                let before = members.remove(name).unwrap_or(Value::Null);
                members.insert(name.clone(), merged(before, change));
            }
        }
    }
    Value::Object(members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn a_merge_is_the_one_of_the_rfc() {
        for (target, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            assert_eq!(merged(target, &patch), result, "{patch}");
        }
    }
}
