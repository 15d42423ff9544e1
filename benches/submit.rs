//! A whole submit beside its floor: one plain POST, and one append with one sync, of the same sizes. In one run, in turn, as a ratio of medians.
//!
//! `cargo bench --bench submit`; `-- --quick` for fewer rounds. Absolute times are of this machine today; only the ratios travel.

use std::{
    error::Error,
    fs::File,
    io::Write,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use uketsuke::{Actor, Api, Journal, OrderClient, Origin, PlaceOrder};

/// About what a claim takes in the log.
const RECORD: [u8; 1_300] = [b'x'; 1_300];
const BODY: &str = r#"{"customer":"C-100","items":[{"sku":"SKU-1","quantity":2}]}"#;
const ANSWER: &[u8] =
    b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 20\r\nconnection: close\r\n\r\n{\"order_id\":\"ord-1\"}";

#[expect(clippy::disallowed_methods, reason = "a stopwatch")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the plain client is what we compare ourselves with")]
fn plain() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build()
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = if std::env::args().any(|arg| arg == "--quick") { 3 } else { 10 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(compare(rounds, 100))
}

async fn compare(rounds: u32, each: u32) -> Result<(), Box<dyn Error>> {
    let url = bare_server().await?;
    let folder = tempfile::tempdir()?;
    let mut log = File::create(folder.path().join("floor"))?;
    let journal = Journal::open(folder.path().join("journal")).await?;
    let client = OrderClient::new(journal, Api::at(&url)?, Actor::agent("bench"));
    let plain = plain()?;

    let (mut floor, mut again, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        for n in 0..each {
            floor.push(one_floor(&plain, &url, &mut log).await?);
            let order = PlaceOrder::new("C-100").item("SKU-1", 2);
            let began = now();
            client
                .submit(Origin::custom("bench", format!("{round}-{n}")), &order)
                .await?
                .receipt()?;
            whole.push(began.elapsed());
            again.push(one_floor(&plain, &url, &mut log).await?);
        }
    }
    let (floor, again, whole) = (median(floor), median(again), median(whole));
    println!("floor p50 {floor:?}, once more {again:?}; submit p50 {whole:?}");
    let control = again.as_secs_f64() / floor.as_secs_f64();
    let ratio = whole.as_secs_f64() / floor.as_secs_f64();
    println!(
        "control {control:.2} (the floor against itself{})",
        if (0.9..=1.1).contains(&control) { "" } else { ": this run is void" }
    );
    println!(
        "bar submit_overhead {ratio:.2} <= 1.15 {}",
        if ratio <= 1.15 { "ok" } else { "short" }
    );
    Ok(())
}

async fn one_floor(plain: &reqwest::Client, url: &str, log: &mut File) -> Result<Duration, Box<dyn Error>> {
    let began = now();
    log.write_all(&RECORD)?;
    log.sync_data()?;
    let answer = plain
        .post(format!("{url}/orders"))
        .header("content-type", "application/json")
        .body(BODY)
        .send()
        .await?;
    answer.bytes().await?;
    Ok(began.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Answers every request alike, on a thread of its own, and remembers nothing: the network's part and no more.
async fn bare_server() -> Result<String, Box<dyn Error>> {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            tell.send(listener.local_addr()?).ok();
            loop {
                let (mut stream, _) = listener.accept().await?;
                tokio::spawn(async move {
                    let mut request: Vec<u8> = Vec::new();
                    let mut part = [0_u8; 4096];
                    while !request.windows(BODY.len()).any(|w| w == BODY.as_bytes()) {
                        match stream.read(&mut part).await {
                            Ok(n) if n > 0 => request.extend(part.iter().take(n)),
                            _ => return,
                        }
                    }
                    drop(stream.write_all(ANSWER).await);
                });
            }
        })
    });
    Ok(format!("http://{}", told.await?))
}
