//! How to test your own agent's retries, whatever it is written with: let the desk lose a reply, and ask the desk what it thinks.
//!
//! Two agents that do not use this crate's client. One mints its key once, outside its retry: it passes. The other mints the key inside its
//! retry, as a closure around the request invites to: it is caught, and told why.
//!
//! `cargo run --example retry_against_wiremock`

use std::error::Error;
use uketsuke::testkit::{Desk, Script};

type Done = Result<(), Box<dyn Error>>;

const ORDER: &str = r#"{"customer":"C-100","items":[{"sku":"SKU-1","quantity":2}]}"#;

/// Mints its key once.
async fn honest(url: &str) -> Done {
    let key = mint()?;
    for _ in 0..3 {
        if send(url, &key).await.is_ok() {
            return Ok(());
        }
    }
    Err("no answer".into())
}

/// Mints a key for each try: the server can't see that the requests are one.
async fn hasty(url: &str) -> Done {
    for _ in 0..3 {
        let key = mint()?;
        if send(url, &key).await.is_ok() {
            return Ok(());
        }
    }
    Err("no answer".into())
}

#[expect(clippy::disallowed_methods, reason = "a stranger's agent mints as it likes; ours never would here")]
fn mint() -> Result<String, Box<dyn Error>> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}

#[expect(clippy::disallowed_methods, reason = "a stranger's plain client")]
async fn send(url: &str, key: &str) -> Result<(), Box<dyn Error>> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let request = client.post(format!("{url}/orders")).header("idempotency-key", key);
    let request = request.header("x-request-id", mint()?).header("content-type", "application/json");
    request.body(ORDER).send().await?.error_for_status()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Done {
    let honest_passes = passes("the honest agent", async |url| honest(&url).await).await?;
    let hasty_passes = passes("the agent that mints the key in its retry", async |url| hasty(&url).await).await?;
    println!(
        "honest={} key_minted_in_retry={}",
        if honest_passes { "pass" } else { "FAIL" },
        if hasty_passes { "MISSED" } else { "caught" }
    );
    Ok(())
}

/// What a test of yours would do, in five lines: start a desk, let it lose a reply, run the agent, let the desk speak.
async fn passes(name: &str, agent: impl AsyncFn(String) -> Done) -> Result<bool, Box<dyn Error>> {
    let desk = Desk::start().await;
    desk.script(Script::new().commit_then_lose_reply().then_ok());
    agent(desk.url()).await?;
    println!("{name}: {} request(s), {} order(s)", desk.requests().len(), desk.orders().len());

    // In a test: desk.assert_one_order(|order| order["customer"] == "C-100"); desk.assert_nothing_suspicious();
    let suspicions = desk.suspicions();
    for suspicion in &suspicions {
        println!("  the desk says: {suspicion}");
    }
    println!();
    Ok(suspicions.is_empty() && desk.orders().len() == 1)
}
