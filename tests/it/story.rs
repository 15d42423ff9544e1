//! The main job: one order, one key, one result, through a lost reply and a crash.

use crate::kit::{Folder, child, kill, order};
use std::sync::{Arc, Mutex};
use uketsuke::{
    Origin, Outcome,
    testkit::{Desk, Script},
};

#[tokio::test]
async fn response_lost_after_commit_yields_one_order() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().then_ok());
    let client = folder.client(&desk).await;
    let outcome = client.submit(Origin::mail("<1@example.com>"), &order()).await.unwrap();
    let Outcome::Succeeded(receipt) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(receipt.replayed);
    assert_eq!(receipt.attempts, 2);
    assert_eq!(desk.requests().len(), 2);
    desk.assert_one_order(|o| o["customer"] == "C-100");
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
}

/// R15, R18: a new process takes the dead one's order up from its record.
#[tokio::test]
async fn crash_after_commit_resumes_under_the_same_key() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let victim = Arc::new(Mutex::new(None));
    let pid = Arc::clone(&victim);
    desk.after_commit(move |_| {
        if let Some(pid) = pid.lock().unwrap().take() {
            kill(pid);
        }
    });
    let mut process = child("submit", &desk.url(), &folder.path());
    *victim.lock().unwrap() = process.id();
    assert!(!process.wait().await.unwrap().success(), "the child was not killed");
    assert_eq!(desk.requests().len(), 1);

    let client = folder.client(&desk).await;
    let resumed = client.resume_pending().await.unwrap().resumed;
    assert_eq!(resumed.len(), 1);
    let Ok(Outcome::Succeeded(receipt)) = &resumed[0].result else {
        panic!("{resumed:?}")
    };
    assert!(receipt.replayed);
    assert_eq!(desk.keys(), [receipt.key.to_string()]);
    assert_eq!(desk.requests().len(), 2);
    desk.assert_one_order_per_key();
    assert!(
        client.resume_pending().await.unwrap().resumed.is_empty(),
        "nothing is left to resume"
    );
    assert_eq!(desk.requests().len(), 2);
}
