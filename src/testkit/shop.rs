//! The shop behind the desk: it places, amends and cancels orders, and knows nothing of keys.

use serde_json::{Map, Value, json};

use super::if_match::IfMatch;
use super::reply::Reply;

/// The orders, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Shop {
    orders: Vec<Order>,
}

/// Whether an order can be seen from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    Open,
    /// Its number is given, and it is nobody's to see until [`Shop::unhide`].
    Hidden,
}

#[derive(Debug)]
struct Order {
    sight: Sight,
    id: String,
    version: u64,
    body: Map<String, Value>,
}

impl Shop {
    /// Places an order: the posted fields plus `order_id` and `status`, which are the shop's to say.
    pub(crate) fn place(&mut self, fields: Map<String, Value>, sight: Sight) -> (Reply, String) {
        let id = format!("ord-{}", self.orders.len() + 1);
        let mut body = fields;
        body.insert("order_id".to_owned(), json!(id));
        body.insert("status".to_owned(), json!("accepted"));
        let order = Order {
            sight,
            id: id.clone(),
            version: 1,
            body,
        };
        let reply = order.reply(201).header("Location", &format!("/orders/{id}"));
        self.orders.push(order);
        (reply, id)
    }

    /// Changes an order by a JSON merge patch (RFC 7396); `order_id` and `status` stay the shop's.
    pub(crate) fn amend(&mut self, id: &str, if_match: &IfMatch, patch: Map<String, Value>) -> Reply {
        self.change(id, if_match, |order| {
            let ours = [order.body.get("order_id").cloned(), order.body.get("status").cloned()];
            merge(&mut order.body, patch);
            for (name, value) in ["order_id", "status"].into_iter().zip(ours) {
                order.body.insert(name.to_owned(), value.unwrap_or(Value::Null));
            }
        })
    }

    /// Cancels an order.
    pub(crate) fn cancel(&mut self, id: &str, if_match: &IfMatch) -> Reply {
        self.change(id, if_match, |order| {
            order.body.insert("status".to_owned(), json!("cancelled"));
        })
    }

    /// Changes an order behind everybody's back: by a JSON merge patch that may set its status too. Tells its new version; none if there is
    /// no such order.
    pub(crate) fn change_behind(&mut self, id: &str, patch: Map<String, Value>) -> Option<String> {
        let order = self.orders.iter_mut().find(|order| order.id == id && order.sight == Sight::Open)?;
        merge(&mut order.body, patch);
        order.body.insert("order_id".to_owned(), json!(id));
        order.version += 1;
        Some(order.tag())
    }

    /// Why a change would be refused as the order stands; none if it would be made.
    pub(crate) fn refusal(&self, id: &str, if_match: &IfMatch) -> Option<Reply> {
        match self.in_sight().find(|order| order.id == id) {
            Some(order) => order.refuses(if_match),
            None => Some(not_found()),
        }
    }

    /// The order as it stands, or 404.
    pub(crate) fn show(&self, id: &str) -> Reply {
        match self.in_sight().find(|order| order.id == id) {
            Some(order) => order.reply(200),
            None => not_found(),
        }
    }

    /// All orders as they stand, oldest first.
    pub(crate) fn orders(&self) -> Vec<Value> {
        self.in_sight().map(|order| Value::Object(order.body.clone())).collect()
    }

    /// The order is placed now.
    pub(crate) fn unhide(&mut self, id: &str) {
        if let Some(order) = self.orders.iter_mut().find(|order| order.id == id) {
            order.sight = Sight::Open;
        }
    }

    fn in_sight(&self) -> impl Iterator<Item = &Order> {
        self.orders.iter().filter(|order| order.sight == Sight::Open)
    }

    fn change(&mut self, id: &str, if_match: &IfMatch, change: impl FnOnce(&mut Order)) -> Reply {
        let Some(order) = self.orders.iter_mut().find(|order| order.id == id && order.sight == Sight::Open) else {
            return not_found();
        };
        if let Some(refusal) = order.refuses(if_match) {
            return refusal;
        }
        change(order);
        order.version += 1;
        order.reply(200)
    }
}

impl Order {
    fn is_cancelled(&self) -> bool {
        self.body.get("status").and_then(Value::as_str) == Some("cancelled")
    }

    /// A precondition is looked at where there would be a success without it, and nowhere else (RFC 9110, section 13.2.1).
    fn refuses(&self, if_match: &IfMatch) -> Option<Reply> {
        if self.is_cancelled() {
            let why = "the order is cancelled and does not change any more";
            return Some(Reply::problem(409, "order_cancelled", why));
        }
        let why = "the order has changed since: it is not the version that this was made for, and nothing was done";
        (!if_match.holds_for(&self.tag())).then(|| Reply::problem(412, "precondition_failed", why))
    }

    /// Its version as a strong entity tag: each change has another.
    fn tag(&self) -> String {
        format!("\"{}\"", self.version)
    }

    fn reply(&self, code: u16) -> Reply {
        Reply::json(code, Value::Object(self.body.clone())).header("ETag", &self.tag())
    }
}

pub(crate) fn not_found() -> Reply {
    Reply::problem(404, "order_not_found", "the shop knows no such order")
}

fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.remove(&name);
            }
            Value::Object(inner) => {
                let mut merged = match target.remove(&name) {
                    Some(Value::Object(old)) => old,
                    _ => Map::new(),
                };
                merge(&mut merged, inner);
                target.insert(name, Value::Object(merged));
            }
            plain => {
                target.insert(name, plain);
            }
        }
    }
}
