//! `Fingerprint`: whether two orders ask for the same thing.

use crate::{gate, invalid::Invalid, operation::Route, origin::spelt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;

/// `fp1:` and the SHA-256, in hex, of the RFC 8785 form of {operation, method, path, query, the order's headers, contents}.
///
/// Member order, white space and the spelling of a number (`1`, `1.0`, `1e0`) don't count; item order, the path and every value do. Nothing
/// volatile (key, ids, times, actor) is in it. `é` composed and decomposed are two values: nothing is rewritten. The prefix names the rule,
/// so that a later rule compares old fingerprints by the old one.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of an order that is made of these: what a draft's own [`fingerprint`](crate::Draft::fingerprint) is made of.
    ///
    /// For measuring and for auditors: no order is sent by it. `contents` have to be those of an order that was accepted, as
    /// [`Draft::json`](crate::Draft::json) gives them: what never passed those checks (repeated members, numbers beyond ±(2^53−1)) may get the
    /// fingerprint of something else.
    ///
    /// # Errors
    /// A number that has no canonical form.
    pub fn of(operation: &str, route: &Route, contents: &Value) -> Result<Self, Invalid> {
        let whole = json!({
            "operation": operation,
            "method": route.method().as_str(),
            "path": route.path(),
            "query": route.query_pairs(),
            "headers": route.headers(),
            "contents": contents,
        });
        Ok(Fingerprint(spelt("fp1:", Sha256::digest(gate::canonical(&whole)?).into())))
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(route: Route, json: &str) -> Fingerprint {
        let contents = gate::parse_json("order", json.as_bytes()).unwrap();
        Fingerprint::of("place_order", &route, &contents).unwrap()
    }

    #[test]
    fn spelling_does_not_count_and_meaning_does() {
        let orders = || Route::post("orders");
        let base = of(orders(), r#"{"sku":"A","qty":1,"ship":{"zip":"1","city":"X"}}"#);
        assert_eq!(base, of(orders(), r#"{ "ship":{"city":"X","zip":"1"}, "qty":1.0, "sku":"\u0041"}"#));
        assert_ne!(base, of(orders(), r#"{"sku":"A","qty":2,"ship":{"zip":"1","city":"X"}}"#));
        assert_ne!(of(orders(), "[1,2]"), of(orders(), "[2,1]"));
        assert_ne!(of(orders(), r#""Café""#), of(orders(), r#""Cafe\u0301""#));
        assert_ne!(of(orders(), "{}"), of(orders().query("dry", "1"), "{}"));
        assert_ne!(of(orders(), "{}"), of(orders().if_match("\"1\""), "{}"));
        assert_ne!(
            of(Route::post("orders").segment("1").then("cancel"), "{}"),
            of(Route::post("orders").segment("2").then("cancel"), "{}")
        );
    }

    #[test]
    fn the_text_form_never_changes() {
        // A change of this value is a change of the rule: it needs another prefix, or every stored order drifts.
        let fp = of(
            Route::post("orders"),
            r#"{"customer":"C-100","items":[{"sku":"SKU-1","quantity":2}]}"#,
        );
        assert_eq!(fp.as_str().len(), 68);
        assert!(fp.as_str().starts_with("fp1:"));
        assert_eq!(fp.as_str(), PINNED);
    }

    /// Computed outside this crate: SHA-256 of the sorted, compact JSON.
    const PINNED: &str = "fp1:8b9a9d00884b67ab113948ad00a218dcb9bb69c83355d0978a834a6bde47026e";
}
