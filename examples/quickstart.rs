//! The main job: an order whose reply is lost, retried under one key. One order at the desk.
//!
//! `cargo run --example quickstart`; with `-- --deaf-desk` the server ignores keys, and the second order shows.

use std::error::Error;
use uketsuke::{
    Actor, Api, Journal, OrderClient, Origin, Outcome, PlaceOrder,
    testkit::{Desk, Script},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let deaf = std::env::args().any(|arg| arg == "--deaf-desk");
    let desk = if deaf { Desk::deaf().await } else { Desk::start().await };
    desk.script(Script::new().commit_then_lose_reply().then_ok());
    println!(
        "A desk takes orders at {}{}.",
        desk.url(),
        if deaf { "; it ignores keys" } else { "" }
    );
    println!("It will process the first request and lose the reply.\n");

    let folder = tempfile::tempdir()?;
    let journal = Journal::open(folder.path().join("journal")).await?;
    let client = OrderClient::new(journal, Api::at(desk.url())?, Actor::agent("order-agent"));

    let order = PlaceOrder::new("C-100").item("SKU-1", 2).deliver_by("2026-12-01".parse()?);
    let outcome = client.submit(Origin::mail("<1@example.com>"), &order).await?;

    for seen in desk.requests() {
        let key = seen.key.as_deref().unwrap_or("no key");
        let request = seen.request_id.as_deref().unwrap_or("no request id");
        let answer = match seen.status {
            None => "processed, and the reply was lost".to_owned(),
            Some(status) if seen.replayed => format!("{status}, from the desk's store"),
            Some(status) => format!("{status}"),
        };
        println!("request {}  key {key}  request id {request}\n           {answer}", seen.number);
    }
    let replayed = match &outcome {
        Outcome::Succeeded(receipt) => {
            let id = receipt.value.order_id.as_deref().unwrap_or("without a number");
            println!("\nThe agent has its receipt: order {id}, after {} attempts.\n", receipt.attempts);
            receipt.replayed
        }
        other => {
            println!("\nThe agent has no receipt: {}\n", other.next_step());
            false
        }
    };

    println!(
        "orders={} keys={} requests={} replayed={replayed}",
        desk.orders().len(),
        desk.keys().len(),
        desk.requests().len()
    );
    Ok(())
}
