//! Two servers, two processes, one book: whichever of them a request reaches, an order is placed once.

use super::server;
use crate::kit::plain_client;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use uketsuke::testkit::{Desk, RedisLedger};

const ROUNDS: usize = 200;
/// Requests a round to each of the two desks.
const EACH: usize = 3;
const PREFIX: &str = "two-desks:";

#[tokio::test]
async fn two_desks_one_redis_one_order() {
    let Some(server) = server::shared() else { return };
    let mut desks = [OtherDesk::open(&server.url()).await, OtherDesk::open(&server.url()).await];
    let urls = desks.each_ref().map(|desk| desk.url.clone());
    let client = plain_client();
    for round in 0..ROUNDS {
        let key = format!("round-{round:03}-8e03978e-40d5-43dd-bc93-6894a57f9324");
        let posts = urls.iter().cycle().take(2 * EACH).map(|url| {
            let post = client.post(format!("{url}/orders")).header("Idempotency-Key", &key);
            let post = post
                .header("Content-Type", "application/json")
                .body(format!(r#"{{"customer":"{key}"}}"#));
            tokio::spawn(async move {
                let answer = post.send().await.unwrap();
                (answer.status().as_u16(), answer.headers().contains_key("Idempotent-Replayed"))
            })
        });
        let mut first = 0;
        for post in posts.collect::<Vec<_>>() {
            match post.await.unwrap() {
                (201, false) => first += 1,
                (201, true) | (409, false) => {}
                other => panic!("round {round}: {other:?}"),
            }
        }
        assert_eq!(first, 1, "round {round}");
    }
    let mut orders = BTreeMap::<String, usize>::new();
    let mut each = Vec::new();
    for desk in &mut desks {
        let placed = desk.close().await;
        each.push(placed.len());
        placed.into_iter().for_each(|key| *orders.entry(key).or_default() += 1);
    }
    assert_eq!(orders.len(), ROUNDS);
    assert!(orders.values().all(|placed| *placed == 1), "{orders:?}");
    assert!(
        each.iter().all(|placed| *placed > 0),
        "one desk won all, so there was no race: {each:?}"
    );
}

/// The other process: this binary once more, with a desk in it. Started by hand, it has nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn play_desk() {
    let Ok(redis) = std::env::var("UKETSUKE_DESK_REDIS") else { return };
    let ledger = RedisLedger::open(&redis).await.unwrap().under(PREFIX);
    let desk = Desk::builder().ledger(Arc::new(ledger)).start().await.unwrap();
    println!("\ndesk: {}", desk.url());
    // Until our parent closes it, or is gone.
    tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()))
        .await
        .unwrap()
        .unwrap();
    for order in desk.orders() {
        println!("\nplaced: {}", order["customer"].as_str().unwrap());
    }
}

struct OtherDesk {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl OtherDesk {
    async fn open(redis: &str) -> Self {
        let mut process = crate::kit::again("ledgers::desks::play_desk")
            .env("UKETSUKE_DESK_REDIS", redis)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = loop {
            let line = lines.next_line().await.unwrap().expect("the desk says where it is");
            if let Some(url) = line.strip_prefix("desk: ") {
                break url.to_owned();
            }
        };
        Self { process, lines, url }
    }

    /// Ends it; the orders it placed, by their customers.
    async fn close(&mut self) -> Vec<String> {
        drop(self.process.stdin.take());
        let mut placed = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            placed.extend(line.strip_prefix("placed: ").map(str::to_owned));
        }
        assert!(self.process.wait().await.unwrap().success());
        placed
    }
}
