//! Thirteen servers, each played by a desk and met by a client with that server's preset: what the client did in five situations, and how many
//! orders the server had in the end.
//!
//! `cargo run --example dialects`; `-- --json` for a pipe.

mod situation;
mod table;

use situation::{Cell, Situation};
use std::{error::Error, time::Duration};
use uketsuke::{Dialect, testkit::ServerDialect};

/// What no vendor publishes has to be said: a day, here.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A preset, and the desk's name for the same server.
type Pair = (Dialect, ServerDialect);

fn pairs() -> [Pair; 13] {
    use ServerDialect::*;
    [
        (Dialect::ietf(), Ietf),
        (Dialect::stripe(), Stripe),
        (Dialect::gocardless().retention(DAY), GoCardless),
        (Dialect::increase().retention(DAY), Increase),
        (Dialect::checkout(), Checkout),
        (Dialect::square().retention(DAY), Square),
        (Dialect::paypal(), PayPal),
        (Dialect::adyen(), Adyen),
        (Dialect::alpaca().retention(DAY), Alpaca),
        (Dialect::coinbase().retention(DAY), Coinbase),
        (Dialect::toast().retention(DAY), Toast),
        (Dialect::repeatability(), Repeatability),
        (Dialect::worldpay().retention(DAY), Worldpay),
    ]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let json = std::env::args().any(|arg| arg == "--json");
    if !json {
        table::head();
    }
    let mut cells: Vec<Cell> = Vec::new();
    for (dialect, server) in pairs() {
        let mut row = Vec::new();
        for situation in Situation::ALL {
            row.push(situation.play(&dialect, server).await?);
        }
        match json {
            true => row.iter().for_each(|cell| println!("{}", cell.to_json(server))),
            false => table::row(server, &row),
        }
        cells.extend(row);
    }
    let doubled = cells.iter().filter(|cell| cell.orders > 1).count();
    let false_claims = cells.iter().filter(|cell| !cell.is_true()).count();
    println!(
        "dialects={} situations={} orders_doubled={doubled} false_claims={false_claims}",
        pairs().len(),
        cells.len()
    );
    match doubled + false_claims {
        0 => Ok(()),
        _ => Err("an order was doubled, or something was claimed that is not so".into()),
    }
}
