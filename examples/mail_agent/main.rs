//! Two agents in two processes read one folder of mails at once and order what the mails ask for, over a wire that loses replies. One
//! journal folder is all they share, and each order is placed once.
//!
//! `cargo run --example mail_agent -- tests/fixtures/mails`, or a folder of your own `.eml` files (how an order is written in a mail is in
//! `order.rs`); with `--deaf-desk` as well, the server ignores keys, and the orders that come twice show.

mod agent;
mod mail;
mod order;
mod tally;

use std::{error::Error, path::Path, process::ExitCode};
use tokio::process::{Child, Command};
use uketsuke::testkit::{Breaks, Desk, HangUp, Script};

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["agent", name, url, journal, folder] => {
            agent::run(name, url, Path::new(journal), Path::new(folder)).await?;
            Ok(ExitCode::SUCCESS)
        }
        [folder, "--deaf-desk"] | ["--deaf-desk", folder] => story(Path::new(folder), Desk::deaf().await).await,
        [folder] => story(Path::new(folder), Desk::start().await).await,
        _ => Err("which folder of mails? Try: cargo run --example mail_agent -- tests/fixtures/mails".into()),
    }
}

/// Every kind of trouble early, so that it comes up however few the orders are. No order meets so much of it that it is given up.
fn rough_start() -> Script {
    Script::new()
        .then_ok()
        .times(2)
        .status(503)
        .then_ok()
        .times(2)
        .commit_then_status(504)
        .then_ok()
}

/// Replies that are lost on the way: the desk has the order, and the agent hears nothing, or half of it.
fn worn_wire() -> Breaks {
    Breaks::new()
        .lose_reply(HangUp::Reset)
        .pass()
        .times(2)
        .lose_reply(HangUp::Fin)
        .pass()
        .times(2)
        .lose_request(HangUp::Fin)
        .pass()
        .cut_body(7, HangUp::Fin)
        .pass()
}

/// The parent: the desk, and the sum at the end.
async fn story(folder: &Path, desk: Desk) -> Result<ExitCode, Box<dyn Error>> {
    let mails = mail::files(folder)?.len();
    let temporary = tempfile::tempdir()?;
    let journal = temporary.path().join("journal");
    desk.script(rough_start());

    // The agents know no other address than that of a wire which loses replies.
    let link = desk.behind(worn_wire()).await;
    let url = link.url();
    println!("Two agents read {mails} mails. The wire loses replies, and the desk is out of order now and then.\n");
    let (mut ann, mut ben) = (start("ann", &url, &journal, folder)?, start("ben", &url, &journal, folder)?);
    let (ann, ben) = tokio::try_join!(ann.wait(), ben.wait())?;

    let rows = desk.orders();
    let at_the_desk: Vec<String> = rows.iter().map(tally::as_listed).collect();
    println!("\nThe desk has:");
    for (order, row) in at_the_desk.iter().zip(&rows) {
        println!("  {:<7} {order}", row["order_id"].as_str().unwrap_or("?"));
    }
    let requests = desk.requests();
    let trouble = requests
        .iter()
        .filter(|seen| seen.status.is_none_or(|status| status >= 500))
        .count();
    println!(
        "It saw {} requests, and gave {trouble} of them no answer, or one that was of no use.",
        requests.len()
    );

    let listed = tally::listed(folder)?;
    let mut right = ann.success() && ben.success();
    if let Some(listed) = &listed {
        for order in tally::only_in(listed, &at_the_desk) {
            println!("Asked for, and not ordered: {order}");
            right = false;
        }
        for order in tally::only_in(&at_the_desk, listed) {
            println!("Ordered, and not asked for: {order}");
            right = false;
        }
    }
    let (orders, keys) = (at_the_desk.len(), desk.keys().len());
    let distinct = listed.map_or_else(|| "unknown".to_owned(), |listed| listed.len().to_string());
    println!("\nmails={mails} distinct={distinct} orders={orders} keys={keys}");
    right &= orders == keys;
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// This program again, as an agent.
fn start(name: &str, url: &str, journal: &Path, folder: &Path) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["agent", name, url])
        .args([journal, folder])
        .kill_on_drop(true)
        .spawn()
}
