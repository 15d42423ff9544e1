//! The other process: this binary, started again by `kit::child`. Started by hand, it has nothing to do.

use crate::kit::{brisk, order};
use std::path::PathBuf;
use uketsuke::{Actor, Journal, OrderClient, Origin, Outcome};

#[tokio::test]
async fn play() {
    let Ok(role) = std::env::var("UKETSUKE_CHILD") else { return };
    let url = std::env::var("UKETSUKE_URL").unwrap();
    let folder = PathBuf::from(std::env::var("UKETSUKE_FOLDER").unwrap());
    let journal = Journal::open(&folder).await.unwrap();
    let client = OrderClient::new(journal, brisk(&url).build().unwrap(), Actor::agent("child-agent"));
    match role.as_str() {
        "submit" => {
            let outcome = client.submit(Origin::mail("<1@example.com>"), &order()).await;
            println!("child: {outcome:?}");
        }
        // The api by its name, so that its address may change.
        "submit_as_shop" => {
            let api = brisk(&url).name("shop").build().unwrap();
            let client = OrderClient::new(Journal::open(&folder).await.unwrap(), api, Actor::agent("child-agent"));
            match client.submit(Origin::mail("<1@example.com>"), &order()).await {
                Ok(outcome) => println!("child: {outcome:?}"),
                Err(error) => println!("child: {:?} {:?} {}", error.kind(), error.effect(), error.attempts()),
            }
        }
        "resume" => {
            for resumed in client.resume_pending().await.unwrap() {
                match resumed.result {
                    Ok(Outcome::Succeeded(receipt)) => println!("child: succeeded {} {}", receipt.key, receipt.replayed),
                    other => println!("child: {other:?}"),
                }
            }
        }
        other => panic!("no role {other}"),
    }
}
