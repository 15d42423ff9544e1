//! One situation: a client and a desk of its own, something that goes wrong, and what came of it.

use serde_json::json;
use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use uketsuke::{
    Actor, Api, Clock, Dialect, Effect, IdempotencyKey, Journal, KeyPlace, OrderClient, OrderReceipt, Origin, Outcome, Pacing, PlaceOrder,
    SystemClock, Timestamp,
    testkit::{Desk, Script, ServerDialect},
};

type Fault = Box<dyn Error>;
type Told = Result<Outcome<OrderReceipt>, uketsuke::Error>;

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Situation {
    /// The first request gets stuck at the server, and is finished later.
    InProgress,
    /// The server knows the key with other contents.
    Mismatch,
    /// The order stands, its reply was lost.
    LostReply,
    /// The server says 500, and stores that if it stores such answers.
    Stored500,
    /// The reply was lost, and the client comes back when the server may have forgotten the key.
    AfterRetention,
}

/// What came of it.
pub(crate) struct Cell {
    pub(crate) situation: Situation,
    /// What the client says in the end.
    pub(crate) said: String,
    effect: Effect,
    /// Requests that carried the order, and those that asked for it.
    pub(crate) sent: usize,
    pub(crate) asked: usize,
    /// The client's orders at the server, once everything there has come to its end.
    pub(crate) orders: usize,
}

impl Cell {
    /// Whether what was said of the order is so.
    pub(crate) fn is_true(&self) -> bool {
        match self.effect {
            Effect::None => self.orders == 0,
            Effect::Certain => self.orders == 1,
            Effect::Possible => true,
        }
    }

    pub(crate) fn to_json(&self, server: ServerDialect) -> serde_json::Value {
        json!({
            "dialect": server.name(), "situation": format!("{:?}", self.situation), "said": self.said, "effect": self.effect,
            "sent": self.sent, "asked": self.asked, "orders": self.orders, "true": self.is_true(),
        })
    }
}

/// A clock that both sides look at, and that can be turned.
#[derive(Clone, Debug, Default)]
struct Turned(Arc<AtomicI64>);

impl Clock for Turned {
    fn now(&self) -> Timestamp {
        SystemClock
            .now()
            .plus(Duration::from_millis(self.0.load(Ordering::SeqCst).unsigned_abs()))
    }
}

/// Longer than any server here keeps a key.
const TEN_DAYS: i64 = 10 * 24 * 60 * 60 * 1000;

impl Situation {
    pub(crate) const ALL: [Situation; 5] = [
        Situation::InProgress,
        Situation::Mismatch,
        Situation::LostReply,
        Situation::Stored500,
        Situation::AfterRetention,
    ];

    pub(crate) async fn play(self, dialect: &Dialect, server: ServerDialect) -> Result<Cell, Fault> {
        let clock = Turned::default();
        let desk = Desk::builder().dialect(server).dates(clock.clone()).start().await?;
        let journal = Journal::builder().clock(clock.clone()).memory()?;
        // Brisk, and one attempt a call, so that there is a moment between two of them in which something can happen.
        let mut pacing = Pacing::default();
        (pacing.base, pacing.cap, pacing.attempts) = (Duration::from_millis(1), Duration::from_millis(2), 1);
        let api = Api::builder(desk.url()).dialect(dialect.clone()).pacing(pacing).build()?;
        let client = OrderClient::new(journal, api, Actor::agent("dialects"));
        let order = PlaceOrder::new("C-100").item("SKU-1", 2);
        let origin = || Origin::mail("<1@example.com>");

        desk.script(match self {
            Situation::InProgress => Script::new().get_stuck(),
            Situation::Mismatch => Script::new().lose_request(),
            Situation::LostReply | Situation::AfterRetention => Script::new().commit_then_lose_reply(),
            Situation::Stored500 => Script::new().store_status(500),
        });
        let first = client.submit(origin(), &order).await;
        let Some(key) = key_of(&first) else {
            return Err("the first call came to its end".into());
        };
        match self {
            Situation::InProgress => {
                drop(client.submit(origin(), &order).await);
                desk.finish(&key.to_string())?;
            }
            Situation::Mismatch => take_the_key(&desk, dialect, server, key).await?,
            Situation::AfterRetention => {
                clock.0.store(TEN_DAYS, Ordering::SeqCst);
                desk.ledger().turn_clock(TEN_DAYS);
            }
            Situation::LostReply | Situation::Stored500 => {}
        }
        let told = client.submit(origin(), &order).await;
        Ok(self.cell(&desk, &told))
    }

    fn cell(self, desk: &Desk, told: &Told) -> Cell {
        let requests = desk.requests();
        let ours = |seen: &&uketsuke::testkit::Seen| seen.header("x-request-id").is_some();
        let asked = requests.iter().filter(ours).filter(|seen| seen.method == "GET").count();
        let (said, effect) = match told {
            Ok(outcome) => (says(outcome), outcome.effect()),
            Err(error) => (format!("{:?}", error.kind()), error.effect()),
        };
        Cell {
            situation: self,
            said,
            effect,
            sent: requests.iter().filter(ours).count() - asked,
            asked,
            orders: desk.orders().iter().filter(|order| order["customer"] == "C-100").count(),
        }
    }
}

fn says(outcome: &Outcome<OrderReceipt>) -> String {
    match outcome {
        Outcome::Succeeded(_) => "placed".to_owned(),
        Outcome::NeedsReview(review) => format!("? {:?}", review.reason),
        Outcome::Rejected(_) => "refused".to_owned(),
        other => format!("{other:?}"),
    }
}

fn key_of(told: &Told) -> Option<IdempotencyKey> {
    match told {
        Ok(Outcome::Succeeded(_)) => None,
        Ok(outcome) => Some(outcome.key()),
        Err(error) => error.key(),
    }
}

/// Somebody else's order under the client's key, where this server looks for one.
#[expect(clippy::disallowed_methods, reason = "a plain client, as a stranger would have")]
async fn take_the_key(desk: &Desk, dialect: &Dialect, server: ServerDialect, key: IdempotencyKey) -> Result<(), Fault> {
    let mut body = serde_json::Map::from_iter([
        ("customer".to_owned(), json!("C-999")),
        ("items".to_owned(), json!([{"sku": "SKU-9", "quantity": 9}])),
    ]);
    let mut request = reqwest::Client::builder()
        .no_proxy()
        .build()?
        .post(format!("{}/orders", desk.url()));
    match dialect.key_place() {
        KeyPlace::BodyMember(pointer) => drop(body.insert(pointer.trim_start_matches('/').to_owned(), json!(key))),
        KeyPlace::RawHeader(name) | KeyPlace::QuotedHeader(name) => request = request.header(name, key.to_string()),
        _ => return Err("a place for a key that this example does not know".into()),
    }
    if server == ServerDialect::Repeatability {
        let first_sent = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT");
        request = request.header("Repeatability-First-Sent", first_sent.to_string());
    }
    let body = serde_json::Value::Object(body).to_string();
    request.header("content-type", "application/json").body(body).send().await?;
    Ok(())
}
