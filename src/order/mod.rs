//! The story's own orders: `PlaceOrder`, `AmendOrder` and `CancelOrder` (`change.rs`), `JsonOrder` (shape known only at run time), and
//! `OrderReceipt`.

mod change;

pub use change::{AmendOrder, Base, CancelOrder};

use crate::{
    gate,
    invalid::Invalid,
    operation::{Impact, Operation, Route, Stake, Subject},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// An order for goods: `POST /orders`.
///
/// Refused before anything is written: an empty customer, no items, a quantity of 0, a blank SKU.
///
/// ```
/// use uketsuke::PlaceOrder;
/// let order = PlaceOrder::new("C-100").item("SKU-1", 2).deliver_by("2026-12-01".parse()?);
/// let same = PlaceOrder::from_json(br#"{"customer":"C-100","items":[{"sku":"SKU-1","quantity":2}],"deliver_by":"2026-12-01"}"#)?;
/// assert_eq!(order, same);
/// # Ok::<(), uketsuke::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceOrder {
    customer: String,
    items: Vec<Item>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deliver_by: Option<Date>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    sku: String,
    quantity: u32,
}

impl PlaceOrder {
    /// An order for this customer, still without items.
    pub fn new(customer: impl Into<String>) -> Self {
        PlaceOrder {
            customer: customer.into(),
            items: Vec::new(),
            deliver_by: None,
            note: None,
        }
    }

    /// One more line: a stock-keeping unit and how many, at least 1.
    #[must_use]
    pub fn item(mut self, sku: impl Into<String>, quantity: u32) -> Self {
        let sku = sku.into();
        self.items.push(Item { sku, quantity });
        self
    }

    /// The last day on which it may arrive.
    #[must_use]
    pub fn deliver_by(mut self, date: Date) -> Self {
        self.deliver_by = Some(date);
        self
    }

    /// Free text for the people who pack it. Data, whatever it says.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Reads an order from JSON, as a model's tool call gives it. Unknown and repeated members are refused, and so is what
    /// [`submit`](crate::OrderClient::submit) would refuse.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Invalid> {
        let order: PlaceOrder = gate::read_json("order", bytes)?;
        order.check()?;
        Ok(order)
    }
}

impl Operation for PlaceOrder {
    type Receipt = OrderReceipt;
    const NAME: &'static str = "place_order";

    fn route(&self) -> Route {
        Route::post("orders")
    }

    fn check(&self) -> Result<(), Invalid> {
        if self.customer.trim().is_empty() {
            return Err(Invalid::new("customer", "must not be empty"));
        }
        if self.items.is_empty() {
            return Err(Invalid::new("items", "must hold at least one item"));
        }
        for (at, item) in self.items.iter().enumerate() {
            if item.sku.trim().is_empty() {
                return Err(Invalid::new(format!("items[{at}].sku"), "must not be empty"));
            }
            if item.quantity == 0 {
                return Err(Invalid::new(format!("items[{at}].quantity"), "must be at least 1"));
            }
        }
        Ok(())
    }

    fn stake(&self) -> Stake {
        let quantity = self.items.iter().fold(0_u64, |sum, item| sum.saturating_add(item.quantity.into()));
        Stake::default()
            .quantity(quantity)
            .items(self.items.len() as u64)
            .skus(self.items.iter().map(|item| item.sku.as_str()))
            .customer(self.customer.as_str())
            .free_text(self.note.is_some())
    }
}

/// Shows the order's outline, never who ordered what.
impl fmt::Debug for PlaceOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlaceOrder({} items)", self.items.len())
    }
}

/// A calendar day, written `2026-12-01`. Read with `parse`; a day that does not exist is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(jiff::civil::Date);

impl std::str::FromStr for Date {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let shaped = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        shaped
            .then(|| text.parse().ok())
            .flatten()
            .map(Date)
            .ok_or_else(|| Invalid::new("date", "must be a day of the calendar, written 2026-12-01"))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Date {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a server says of an order it took. Members it does not name stay `None`; others are ignored here and kept in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OrderReceipt {
    /// The server's name for the order.
    #[serde(default, alias = "id")]
    pub order_id: Option<String>,
    /// The server's word for where the order stands.
    #[serde(default)]
    pub status: Option<String>,
}

/// An order whose shape is known only at run time: a tool call's arguments, passed on. `Debug` hides the contents.
///
/// Built from bytes, it refuses repeated members; numbers follow the same rules as everywhere (finite, integers within ±(2^53−1)).
///
/// ```
/// use uketsuke::{JsonOrder, Route};
/// let order = JsonOrder::from_json(Route::post("orders"), br#"{"sku":"A","qty":1.0}"#)?;
/// assert!(JsonOrder::from_json(Route::post("orders"), br#"{"qty":1,"qty":9}"#).is_err());
/// # Ok::<(), uketsuke::Invalid>(())
/// ```
#[derive(Clone)]
pub struct JsonOrder {
    route: Route,
    body: Value,
    impact: Impact,
    stake: Stake,
    subject: Option<Subject>,
}

impl JsonOrder {
    /// An order from a JSON value.
    pub fn new(route: Route, body: Value) -> Self {
        JsonOrder {
            route,
            body,
            impact: Impact::Normal,
            stake: Stake::default(),
            subject: None,
        }
    }

    /// An order from JSON text, with repeated members refused (they are lost once the text is a `Value`).
    pub fn from_json(route: Route, bytes: &[u8]) -> Result<Self, Invalid> {
        Ok(JsonOrder::new(route, gate::parse_json("order", bytes)?))
    }

    /// How much is at stake. Default: normal.
    #[must_use]
    pub fn impact(mut self, impact: Impact) -> Self {
        self.impact = impact;
        self
    }

    /// What is at stake, for limits. Default: nothing is named.
    #[must_use]
    pub fn stake(mut self, stake: Stake) -> Self {
        self.stake = stake;
        self
    }

    /// The order that this one changes or ends. Default: none.
    #[must_use]
    pub fn subject(mut self, subject: Subject) -> Self {
        self.subject = Some(subject);
        self
    }
}

impl Serialize for JsonOrder {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.body.serialize(serializer)
    }
}

impl Operation for JsonOrder {
    type Receipt = Value;
    const NAME: &'static str = "json_order";

    fn route(&self) -> Route {
        self.route.clone()
    }

    fn impact(&self) -> Impact {
        self.impact
    }

    fn stake(&self) -> Stake {
        self.stake.clone()
    }

    fn subject(&self) -> Option<Subject> {
        self.subject.clone()
    }
}

impl fmt::Debug for JsonOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonOrder({:?})", self.route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_can_never_be_right_is_refused_by_name() {
        let field = |order: PlaceOrder| order.check().unwrap_err().field;
        assert_eq!(field(PlaceOrder::new(" ").item("A", 1)), "customer");
        assert_eq!(field(PlaceOrder::new("C")), "items");
        assert_eq!(field(PlaceOrder::new("C").item("A", 1).item("B", 0)), "items[1].quantity");
        assert_eq!(field(PlaceOrder::new("C").item("", 1)), "items[0].sku");
    }

    #[test]
    fn json_with_unknown_or_repeated_members_is_no_order() {
        for json in [
            r#"{"customer":"C","items":[{"sku":"A","quantity":1}],"approved":true}"#,
            r#"{"customer":"C","items":[{"sku":"A","quantity":1,"quantity":9}]}"#,
            r#"{"customer":"C","items":[{"sku":"A","quantity":-1}]}"#,
            r#"{"customer":"C","items":[]}"#,
        ] {
            assert!(PlaceOrder::from_json(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn a_date_is_a_day_that_exists() {
        assert_eq!("2028-02-29".parse::<Date>().unwrap().to_string(), "2028-02-29");
        for text in ["2026-02-29", "2026-13-01", "20261201", "2026-12-01T00:00", "+02026-12-0", ""] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }
}
