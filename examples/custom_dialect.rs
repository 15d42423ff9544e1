//! Your own server's way of speaking idempotency, in about twenty lines, tried against a desk that serves it.
//!
//! `cargo run --example custom_dialect`

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{error::Error, time::Duration};
use uketsuke::{
    Actor, Answer, Api, Asked, Dialect, Duplicates, Journal, Operation, OrderClient, Origin, Reading, Route,
    testkit::{Desk, Reply, Script},
};

/// What the parcel service's refusals mean. A code that is not known here is left to its status.
fn reads(answer: &Answer) -> Reading {
    match (answer.status().as_u16(), answer.code("/error")) {
        (409, Some("BUSY")) => Reading::InProgress,
        (409, Some("KNOWN")) => Reading::Exists {
            named: answer.code("/parcel").map(str::to_owned),
        },
        (409, Some("OTHER")) => Reading::Mismatch,
        _ => Reading::ByStatus,
    }
}

/// `GET /parcels/{name}`, where it has told us the name.
fn lookup(asked: &Asked<'_>) -> Option<Route> {
    Some(asked.path().segment(asked.named()?))
}

/// It remembers a key for three days, and refuses a duplicate.
fn parcels() -> Dialect {
    Dialect::new("parcels")
        .retention(Duration::from_secs(3 * 24 * 60 * 60))
        .reads(reads)
        .duplicates(Duplicates::Refused)
        .lookup(lookup)
}

#[derive(Serialize)]
struct SendParcel {
    to: &'static str,
    grams: u32,
}

#[derive(Deserialize)]
struct Parcel {
    parcel: String,
}

impl Operation for SendParcel {
    type Receipt = Parcel;
    const NAME: &'static str = "send_parcel";
    const RECEIPT_HAS: &'static [&'static str] = &["/parcel"];
    fn route(&self) -> Route {
        Route::post("parcels")
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The server's side: the desk keeps keys, these handlers do the work, and the script says what the service says in its own words.
    let desk = Desk::start().await;
    let parcel = || json!({"parcel": "P-1", "to": "C-100", "grams": 900});
    desk.serve("POST", "/parcels", move |_| Reply::json(201, parcel()));
    desk.serve("GET", "/parcels/P-1", move |_| Reply::json(200, parcel()));
    desk.script(
        Script::new()
            .commit_then_lose_reply()
            .commit_then_reply(Reply::json(409, json!({"error": "BUSY"})))
            .commit_then_reply(Reply::json(409, json!({"error": "KNOWN", "parcel": "P-1"}))),
    );

    let api = Api::builder(desk.url()).dialect(parcels()).build()?;
    let client = OrderClient::new(Journal::memory()?, api, Actor::agent("parcel-agent"));
    let order = SendParcel { to: "C-100", grams: 900 };
    let receipt = client.submit(Origin::custom("ticket", "17"), &order).await?.receipt()?;

    println!("sent {}", receipt.value.parcel);
    let requests = desk.requests();
    for seen in &requests {
        let answered = seen.status.map_or("nothing".to_owned(), |status| status.to_string());
        println!("  {} {} -> {answered}", seen.method, seen.path);
    }
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
    let lookups = requests.iter().filter(|seen| seen.method == "GET").count();
    println!(
        "parcels={} keys={} posts={} lookups={lookups}",
        desk.rows().len(),
        desk.keys().len(),
        receipt.attempts
    );
    Ok(())
}
