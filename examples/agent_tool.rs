//! A tool-call handler for an agent: JSON in, JSON out. The model calls it four times at once, then once more under another tool-call id: one
//! order, five equal answers.
//!
//! `cargo run --example agent_tool`

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::error::Error;
use uketsuke::{Actor, Api, Journal, OrderClient, Origin, PlaceOrder, ToolReply, testkit::Desk};

/// What the model gives. `origin` is the id of what asked for this: the same value on every retry; a new value is a new order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    origin: String,
    #[serde(borrow)]
    order: &'a RawValue,
}

/// The handler. It never fails: a framework that sees an error tries again by itself, and with a new call id.
async fn place_order(client: &OrderClient, call_id: &str, arguments: &str) -> Value {
    let reply = match read(arguments) {
        Err(why) => return json!({ "status": "invalid", "effect": "none", "message": why, "next_step": "correct the arguments" }),
        Ok((origin, order)) => {
            let result = client
                .submit(origin, &order)
                .tool_call(call_id)
                .within(std::time::Duration::from_secs(3))
                .await;
            ToolReply::of(&result)
        }
    };
    serde_json::to_value(reply).unwrap_or(Value::Null)
}

fn read(arguments: &str) -> Result<(Origin, PlaceOrder), String> {
    let arguments: Arguments<'_> = serde_json::from_str(arguments).map_err(|e| format!("the arguments can't be read: {e}"))?;
    let order = PlaceOrder::from_json(arguments.order.get().as_bytes()).map_err(|e| e.to_string())?;
    Ok((Origin::mail(arguments.origin), order))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let desk = Desk::start().await;
    let folder = tempfile::tempdir()?;
    let journal = Journal::open(folder.path().join("journal")).await?;
    let agent = Actor::agent("order-agent").session("s-42").user("u-7").model("m-1");
    let client = OrderClient::new(journal, Api::at(desk.url())?, agent);

    let arguments = r#"{"origin":"<1@example.com>","order":{"customer":"C-100","items":[{"sku":"SKU-1","quantity":2}]}}"#;
    let (a, b, c, d) = tokio::join!(
        place_order(&client, "call_1", arguments),
        place_order(&client, "call_2", arguments),
        place_order(&client, "call_3", arguments),
        place_order(&client, "call_4", arguments),
    );
    let later = place_order(&client, "call_9", arguments).await;

    println!("The model is told, each time:\n{}\n", serde_json::to_string_pretty(&a)?);
    let replies = [a, b, c, d, later];
    let equal = replies.iter().filter(|reply| **reply == replies[0]).count();
    println!(
        "{equal} of {} answers are equal; the server saw {} request(s).",
        replies.len(),
        desk.requests().len()
    );
    println!("calls={equal} orders={} keys={}", desk.orders().len(), desk.keys().len());
    Ok(())
}
