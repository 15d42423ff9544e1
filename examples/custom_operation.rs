//! Your own endpoint: an operation in about twelve lines, tried against a desk that serves it.
//!
//! `cargo run --example custom_operation`

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::error::Error;
use uketsuke::{
    Actor, Api, Journal, Operation, OrderClient, Origin, Route,
    testkit::{Desk, Reply, Script},
};

#[derive(Serialize)]
struct BookRoom {
    #[serde(skip)]
    hotel: String,
    nights: u32,
}

#[derive(Deserialize)]
struct Booking {
    reference: String,
}

impl Operation for BookRoom {
    type Receipt = Booking;
    const NAME: &'static str = "book_room";
    const RECEIPT_HAS: &'static [&'static str] = &["/reference"];
    fn route(&self) -> Route {
        Route::post("hotels").segment(&self.hotel).then("bookings")
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The server's side: the desk keeps keys; this handler is called once per key.
    let desk = Desk::start().await;
    desk.serve("POST", "/hotels/{hotel}/bookings", |request| {
        let hotel = request.segment("hotel").unwrap_or("?");
        Reply::json(
            201,
            json!({ "reference": format!("{hotel}-0001"), "nights": request.json()["nights"] }),
        )
    });
    desk.script(Script::new().commit_then_lose_reply().then_ok());

    let client = OrderClient::new(Journal::memory()?, Api::at(desk.url())?, Actor::agent("travel-agent"));
    let room = BookRoom {
        hotel: "H 1/2".to_owned(),
        nights: 2,
    };
    let receipt = client.submit(Origin::custom("chat", "turn-7"), &room).await?.receipt()?;

    println!("booked {} after {} attempts", receipt.value.reference, receipt.attempts);
    for seen in desk.requests() {
        println!("  {} {}", seen.method, seen.path);
    }
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
    println!(
        "bookings={} keys={} replayed={}",
        desk.rows().len(),
        desk.keys().len(),
        receipt.replayed
    );
    Ok(())
}
