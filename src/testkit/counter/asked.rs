//! What is asked of the desk beside its orders: lookups, cancelling by key, and an operator's word.

use super::*;

impl Counter {
    pub(super) fn look_up(&self, seen: &Seen, lookup: &Lookup) -> Decision {
        let reply = match lookup {
            Lookup::Order { order_id } if self.is_of_tenant(order_id, seen) => lock(&self.shop).show(order_id),
            Lookup::Order { .. } => not_found(),
            Lookup::ByKey { key } => self.sought(seen, key).map_or_else(not_found, |row_key| self.look_up_key(&row_key)),
            Lookup::Found { key, as_list } => self.find(self.sought(seen, key).as_deref(), *as_list),
            Lookup::Serve(served, request) => match catch_unwind(AssertUnwindSafe(|| served.call(request))) {
                Ok(reply) => return Decision::answer(Did::Nothing, reply),
                Err(panic) => return self.panicked("handler", request.seen(), panic.as_ref()),
            },
        };
        match reply.code() {
            ..400 => Decision::answer(Did::Nothing, reply),
            _ => self.refuse(Did::Nothing, reply),
        }
    }

    /// The ledger's key of what is looked up. None for what no request can have as its key: it could spell another tenant's.
    pub(super) fn sought(&self, seen: &Seen, key: &str) -> Option<String> {
        could_be_key(key).then(|| row_key(&self.facts, seen, key))
    }

    pub(super) fn look_up_key(&self, row_key: &str) -> Reply {
        let row = match wait(self.ledger.read(row_key)) {
            Ok(Some(row)) => row,
            Ok(None) => return not_found(),
            Err(error) => return no_ledger(&error),
        };
        match row.state {
            RowState::Processing => self.in_flight(row_key),
            RowState::Succeeded => match self.order_of(row_key) {
                Some(order_id) => lock(&self.shop).show(&order_id),
                None => row.answer().unwrap_or_else(|| self.result_gone(row_key)),
            },
            RowState::Failed | RowState::Rejected => not_found(),
        }
    }

    /// A lookup among the orders themselves, to which what is still processing is nothing.
    pub(super) fn find(&self, row_key: Option<&str>, as_list: bool) -> Reply {
        let order_id = row_key.and_then(|row_key| self.order_of(row_key));
        let order = order_id.map(|order_id| lock(&self.shop).show(&order_id));
        match (order, as_list) {
            (None, false) => not_found(),
            (Some(order), false) => order,
            (order, true) => {
                let orders: Vec<Value> = order
                    .iter()
                    .filter_map(|order| serde_json::from_slice(order.bytes()).ok())
                    .collect();
                Reply::json(200, json!({"data": orders}))
            }
        }
    }

    /// Cancels by key: an order that is there, or one that is still to come.
    pub(super) fn withdraw(&self, seen: &Seen, key: &str) -> Decision {
        let Some(row_key) = self.sought(seen, key) else {
            let bad = BadKey::Invalid("the key in the path is none that an order can have");
            return self.refuse(Did::Nothing, self.facts.bad_key(bad));
        };
        let word = operation::not_applied(&row_key, "this key was cancelled before its order came; nothing was done under it");
        let there = match wait(self.ledger.tombstone(&row_key, &word, self.terms)) {
            Ok(there) => there,
            Err(error) => return self.refuse(Did::Nothing, no_ledger(&error)),
        };
        let nothing_stands = || {
            let told = json!({"status": "cancelled", "operation_state": "failed", "operation_ref": operation::reference(&row_key)});
            Decision::answer(Did::Closed, Reply::json(200, told))
        };
        match (there.map(|row| row.state), self.order_of(&row_key)) {
            (None | Some(RowState::Failed | RowState::Rejected), _) => nothing_stands(),
            (Some(RowState::Processing), _) => self.refuse(Did::InFlight, self.in_flight(&row_key)),
            (Some(RowState::Succeeded), Some(order_id)) => {
                let cancelled = lock(&self.shop).cancel(&order_id, &IfMatch::default());
                // Cancelled before: that is what was asked for.
                let told = if cancelled.code() < 400 {
                    cancelled
                } else {
                    lock(&self.shop).show(&order_id)
                };
                Decision::answer(Did::Closed, told)
            }
            (Some(RowState::Succeeded), None) => {
                let why = "what was done under this key is no order of this desk";
                self.refuse(Did::Nothing, Reply::problem(409, "not_cancellable", why))
            }
        }
    }

    /// An operator's word on a key that is processing. Says whether there was any.
    pub(crate) fn overrule(&self, key: &str, word: impl Fn(&str) -> Reply) -> Result<bool, LedgerError> {
        wait(self.ledger.overrule(key, &word(key)))
    }
}
