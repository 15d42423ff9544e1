//! `AmendOrder` and `CancelOrder`: what changes or ends an order that stands. Both are of high impact: the default policy asks a person.

use crate::{
    gate,
    invalid::Invalid,
    operation::{Impact, Operation, OrderRef, Route, Stake, Subject},
    order::OrderReceipt,
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt;

/// The version of an order that a change was made for. Sent as `If-Match` (RFC 9110 section 13.1.1), so that a server which knows it changes that
/// version and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Base {
    /// An entity tag as the server gave it, quotes included: `"7"`.
    ETag(String),
    /// A version number, for servers whose entity tag is that number in quotes.
    Version(u64),
}

impl Base {
    /// The entity tag of an answer's `ETag` header, quotes included.
    pub fn etag(tag: impl Into<String>) -> Self {
        Base::ETag(tag.into())
    }

    fn tag(&self) -> String {
        match self {
            Base::ETag(tag) => tag.trim().to_owned(),
            Base::Version(version) => format!("\"{version}\""),
        }
    }

    fn check(&self) -> Result<(), Invalid> {
        let tag = self.tag();
        // RFC 9110 section 8.8.3; a weak one matches nothing in If-Match (section 13.1.1).
        let inner = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let opaque = |inner: &str| inner.bytes().all(|b| b == 0x21 || (0x23..=0x7e).contains(&b) || b >= 0x80);
        match tag.len() > 1 && inner.is_some_and(opaque) {
            true => Ok(()),
            false => Err(Invalid::new(
                "base",
                "must be a strong entity tag in its quotes, such as \"7\", as the server's ETag header gave it",
            )),
        }
    }
}

/// A change of an order that stands: `PATCH /orders/{id}` with `If-Match`; the contents are merged into it (RFC 7396: `null` removes a member,
/// what is absent stays as it is).
///
/// Refused before anything is written: no changes, a weak or malformed base, an order named by nothing.
///
/// ```
/// use uketsuke::{AmendOrder, Base, OrderRef, Origin};
/// let more = AmendOrder::new(OrderRef::PlacedBy(Origin::mail("<1@example.com>")), Base::etag("\"1\""))
///     .set("items", serde_json::json!([{"sku": "SKU-1", "quantity": 20}]))
///     .remove("note");
/// let same = AmendOrder::from_json(
///     OrderRef::PlacedBy(Origin::mail("<1@example.com>")),
///     Base::Version(1),
///     br#"{"items":[{"sku":"SKU-1","quantity":20}],"note":null}"#,
/// )?;
/// # Ok::<(), uketsuke::Invalid>(())
/// ```
#[derive(Clone)]
pub struct AmendOrder {
    order: OrderRef,
    base: Base,
    changes: Map<String, Value>,
}

impl AmendOrder {
    /// A change, still without changes, of the version `base` of an order.
    pub fn new(order: OrderRef, base: Base) -> Self {
        let changes = Map::new();
        AmendOrder { order, base, changes }
    }

    /// A member's new value. `Value::Null` removes it, as [`remove`](AmendOrder::remove) does.
    #[must_use]
    pub fn set(mut self, member: impl Into<String>, value: impl Into<Value>) -> Self {
        self.changes.insert(member.into(), value.into());
        self
    }

    /// Removes a member.
    #[must_use]
    pub fn remove(self, member: impl Into<String>) -> Self {
        self.set(member, Value::Null)
    }

    /// Reads the changes from JSON, as a model's tool call gives them. Repeated members are refused.
    pub fn from_json(order: OrderRef, base: Base, changes: &[u8]) -> Result<Self, Invalid> {
        let Value::Object(changes) = gate::parse_json("changes", changes)? else {
            return Err(Invalid::new("changes", "must be an object: the members that change"));
        };
        let amend = AmendOrder { order, base, changes };
        amend.check()?;
        Ok(amend)
    }

    fn at(&self, route: Route) -> Route {
        route.order(&self.order)
    }
}

impl Serialize for AmendOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.changes.serialize(serializer)
    }
}

impl Operation for AmendOrder {
    type Receipt = OrderReceipt;
    const NAME: &'static str = "amend_order";

    fn route(&self) -> Route {
        self.at(Route::patch("orders")).if_match(self.base.tag())
    }

    fn check(&self) -> Result<(), Invalid> {
        self.base.check()?;
        match self.changes.is_empty() {
            true => Err(Invalid::new("changes", "must hold at least one member that changes")),
            false => Ok(()),
        }
    }

    fn impact(&self) -> Impact {
        Impact::High
    }

    /// What the changes name. A quantity is that of the items as they would stand.
    fn stake(&self) -> Stake {
        let items = self.changes.get("items").and_then(Value::as_array);
        let mut stake = Stake::default().free_text(self.changes.get("note").is_some_and(|note| !note.is_null()));
        if let Some(items) = items {
            let quantity = |item: &Value| item.get("quantity").and_then(Value::as_u64);
            let sku = |item: &Value| Some(item.get("sku")?.as_str()?.to_owned());
            stake.items = Some(items.len() as u64);
            // One item that names none, and the sum is not known.
            stake.quantity = items.iter().map(quantity).try_fold(0_u64, |sum, q| sum.checked_add(q?));
            stake.skus = items.iter().map(sku).collect();
        }
        stake.customer = self.changes.get("customer").and_then(Value::as_str).map(str::to_owned);
        stake
    }

    fn subject(&self) -> Option<Subject> {
        Some(Subject::merged(self.at(Route::get("orders"))))
    }
}

/// Shows which members change, never to what.
impl fmt::Debug for AmendOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AmendOrder({} members)", self.changes.len())
    }
}

/// The end of an order that stands: `POST /orders/{id}/cancel` with the reason.
///
/// The reason is part of the contents: a second cancel of the same origin with another reason is another order, and is answered by
/// [`Drift`](crate::ErrorKind::Drift). Refused before anything is written: a blank reason, a malformed base, an order named by nothing.
#[derive(Clone)]
pub struct CancelOrder {
    order: OrderRef,
    base: Option<Base>,
    reason: String,
}

impl CancelOrder {
    /// The end of an order, and why.
    pub fn new(order: OrderRef, reason: impl Into<String>) -> Self {
        CancelOrder {
            order,
            base: None,
            reason: reason.into(),
        }
    }

    /// Ends this version of it and no other (`If-Match`). Default: whichever stands.
    #[must_use]
    pub fn base(mut self, base: Base) -> Self {
        self.base = Some(base);
        self
    }
}

impl Serialize for CancelOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Contents<'a> {
            reason: &'a str,
        }
        Contents { reason: &self.reason }.serialize(serializer)
    }
}

impl Operation for CancelOrder {
    type Receipt = OrderReceipt;
    const NAME: &'static str = "cancel_order";

    fn route(&self) -> Route {
        let route = Route::post("orders").order(&self.order).then("cancel");
        match &self.base {
            Some(base) => route.if_match(base.tag()),
            None => route,
        }
    }

    fn check(&self) -> Result<(), Invalid> {
        if self.reason.trim().is_empty() {
            return Err(Invalid::new(
                "reason",
                "must not be empty: it says to whoever looks why the order was ended",
            ));
        }
        self.base.as_ref().map_or(Ok(()), Base::check)
    }

    fn impact(&self) -> Impact {
        Impact::High
    }

    fn stake(&self) -> Stake {
        Stake::default().free_text(true)
    }

    fn subject(&self) -> Option<Subject> {
        Some(Subject::ended(Route::get("orders").order(&self.order)))
    }
}

/// Shows that there is a reason, never which.
impl fmt::Debug for CancelOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CancelOrder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Origin;
    use serde_json::json;

    #[test]
    fn null_and_absent_differ() {
        let change = |json: &[u8]| AmendOrder::from_json(OrderRef::id("1"), Base::Version(1), json).unwrap();
        let removed = serde_json::to_value(change(br#"{"a":1,"note":null}"#)).unwrap();
        assert_eq!(removed, json!({"a":1,"note":null}));
        assert_ne!(removed, serde_json::to_value(change(br#"{"a":1}"#)).unwrap());
    }

    #[test]
    fn what_can_never_change_an_order_is_refused_by_name() {
        let base = || Base::Version(1);
        let field = |made: Result<AmendOrder, Invalid>| made.unwrap_err().field;
        let of = |base: Base, json: &[u8]| AmendOrder::from_json(OrderRef::id("1"), base, json);
        assert_eq!(field(of(base(), b"{}")), "changes");
        assert_eq!(field(of(base(), b"[]")), "changes");
        assert!(of(base(), br#"{"a":1,"a":2}"#).is_err());
        for tag in ["7", "W/\"7\"", "\"", "\"a\"b\"", "", "\"a\r\nX: 1\""] {
            assert_eq!(field(of(Base::etag(tag), br#"{"a":1}"#)), "base", "{tag:?}");
        }
        assert!(CancelOrder::new(OrderRef::id("1"), " ").check().is_err());
        assert!(CancelOrder::new(OrderRef::id("1"), "why").base(Base::etag("x")).check().is_err());
    }

    #[test]
    fn both_name_the_order_and_where_it_can_be_read() {
        let order = OrderRef::id("a/b");
        let amend = AmendOrder::new(order.clone(), Base::Version(3)).set("a", 1);
        assert_eq!(amend.route(), Route::patch("orders").segment("a/b").if_match("\"3\""));
        assert_eq!(amend.subject().unwrap().at().path(), "/orders/a%2Fb");
        let cancel = CancelOrder::new(order, "why");
        assert_eq!(cancel.route(), Route::post("orders").segment("a/b").then("cancel"));
        let placed = OrderRef::PlacedBy(Origin::mail("1"));
        assert!(CancelOrder::new(placed, "why").route().placed().is_some());
    }

    #[test]
    fn an_item_without_a_quantity_makes_the_sum_unknown() {
        let stake = |items: Value| AmendOrder::new(OrderRef::id("1"), Base::Version(1)).set("items", items).stake();
        let known = stake(json!([{"sku":"A","quantity":2},{"sku":"B","quantity":3}]));
        assert_eq!((known.quantity, known.items, known.skus.unwrap().len()), (Some(5), Some(2), 2));
        for items in [
            json!([{"sku":"A"}]),
            json!([{"quantity":1.5}]),
            json!([{"quantity":-1}]),
            json!("all"),
        ] {
            assert_eq!(stake(items).quantity, None);
        }
    }
}
