//! The other process: this binary, started again by `kit::child`. Started by hand, it has nothing to do.

use crate::kit::{brisk, order};
use std::{path::PathBuf, time::Duration};
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
        // With time enough to read the largest answer, so that only its size can end it.
        "submit_and_measure" => {
            let mut timeouts = uketsuke::Timeouts::default();
            (timeouts.attempt, timeouts.total) = (Duration::from_secs(300), Duration::from_secs(300));
            let api = brisk(&url).name("shop").timeouts(timeouts).build().unwrap();
            let client = OrderClient::new(Journal::open(&folder).await.unwrap(), api, Actor::agent("child-agent"));
            let before = memory_peak();
            let error = client.submit(Origin::mail("<1@example.com>"), &order()).await.unwrap_err();
            let grew = memory_peak() - before;
            println!(
                "child: {:?} {:?} {}, grew by {grew} KiB",
                error.kind(),
                error.effect(),
                error.attempts()
            );
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

/// The most memory that this process ever held, in KiB. Linux only.
pub(crate) fn memory_peak() -> u64 {
    kib_of("VmHWM:")
}

/// What of its program, and of other files, this process holds in memory, in KiB. Linux only.
pub(crate) fn program_in_memory() -> u64 {
    kib_of("RssFile:")
}

fn kib_of(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let found = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    found.trim().trim_end_matches(" kB").parse().unwrap()
}
