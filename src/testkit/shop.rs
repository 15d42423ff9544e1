//! The shop behind the desk: it places, amends and cancels orders, and knows nothing of keys.

use serde_json::{Map, Value, json};

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
    pub(crate) fn amend(&mut self, id: &str, patch: Map<String, Value>) -> Reply {
        self.change(id, |order| {
            let ours = [order.body.get("order_id").cloned(), order.body.get("status").cloned()];
            merge(&mut order.body, patch);
            for (name, value) in ["order_id", "status"].into_iter().zip(ours) {
                order.body.insert(name.to_owned(), value.unwrap_or(Value::Null));
            }
        })
    }

    /// Cancels an order.
    pub(crate) fn cancel(&mut self, id: &str) -> Reply {
        self.change(id, |order| {
            order.body.insert("status".to_owned(), json!("cancelled"));
        })
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

    fn change(&mut self, id: &str, change: impl FnOnce(&mut Order)) -> Reply {
        let Some(order) = self.orders.iter_mut().find(|order| order.id == id && order.sight == Sight::Open) else {
            return not_found();
        };
        if order.is_cancelled() {
            return Reply::problem(409, "order_cancelled", "the order is cancelled and does not change any more");
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

    fn reply(&self, code: u16) -> Reply {
        Reply::json(code, Value::Object(self.body.clone())).header("ETag", &format!("\"{}\"", self.version))
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
