//! The main job: one order, one key, one result, through a lost reply and a crash.

use crate::{
    bare::Door,
    kit::{Folder, Tokens, brisk, child, kill, order},
    tape::{
        Entry, Syncing, Tape, attempts_are_written_before_they_leave, claims_are_durable_before_they_leave,
        outcomes_are_durable_before_they_are_told,
    },
};
use serde_json::json;
use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use uketsuke::{
    Actor, Effect, ErrorKind, NextStep, OrderClient, Origin, Outcome, ReviewReason, Why,
    testkit::{Desk, Reply, Script},
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

/// BUG-08, R15, R18: a new process takes the dead one's order up from its record.
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
    desk.assert_one_order(|o| Some(&o["order_id"]) == receipt.value.answer().json().map(|body| &body["order_id"]));
    assert_eq!(desk.keys(), [receipt.key.to_string()]);
    assert_eq!(desk.requests().len(), 2);
    desk.assert_one_order_per_key();
    assert!(
        client.resume_pending().await.unwrap().resumed.is_empty(),
        "nothing is left to resume"
    );
    assert_eq!(desk.requests().len(), 2);
}

/// The keys that the log on disk holds in a `claimed` record, read as any other program would read the file.
pub(crate) fn claimed_on_disk(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap();
    // A line that is being written right now has no end yet.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let records = whole.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let claims = records.filter(|record| record["ev"] == "claimed");
    claims.map(|record| record["key"].as_str().unwrap().to_owned()).collect()
}

/// The promise's first half: when a request arrives, its key stands in the journal's file. Fifty orders.
#[tokio::test]
async fn key_is_readable_before_the_first_byte() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let (log, looked) = (folder.log(), Arc::new(AtomicUsize::new(0)));
    let looks = Arc::clone(&looked);
    desk.on_request(move |seen| {
        let key = seen.key.as_ref().expect("a request has a key");
        assert!(claimed_on_disk(&log).contains(key), "{key} arrived and is in no claim");
        looks.fetch_add(1, SeqCst);
    });
    let client = folder.client(&desk).await;
    for mail in 0..50 {
        let outcome = client
            .submit(Origin::mail(format!("<{mail}@example.com>")), &order())
            .await
            .unwrap();
        assert!(matches!(outcome, Outcome::Succeeded(_)), "{outcome:?}");
    }
    assert_eq!(looked.load(SeqCst), 50);
    assert_eq!(desk.keys().len(), 50);
    desk.assert_one_order_per_key();
}

/// The promise's second half: before a request arrives, its claim is durable, and so is the log's place in its folder (R6, R21). The check is
/// shown to be able to fail, and a disk that can't sync lets nothing leave at all (R16).
#[tokio::test]
async fn key_is_synced_before_the_first_byte() {
    let tape = taped_orders(|_| Syncing::Honest).await;
    assert_eq!(claims_are_durable_before_they_leave(&tape), Ok(10));

    // The check is no rubber stamp: without the log's syncs, or the folder's, or with the claim too late, it is red.
    let without = |gone: &dyn Fn(&Entry) -> bool| tape.iter().filter(|entry| !gone(entry)).cloned().collect::<Vec<_>>();
    let red = |list: &[Entry], wanted: &str| {
        let said = claims_are_durable_before_they_leave(list).unwrap_err();
        assert!(said.contains(wanted), "{said}");
    };
    red(&without(&Entry::is_log_sync), "before its claim was synced");
    red(&without(&|e| e.is_record("claimed", None)), "before its claim was written");
    red(&without(&|e| matches!(e, Entry::SyncDir { .. })), "before the log's place");
    let arrival = tape.iter().position(|e| matches!(e, Entry::Arrived { .. })).unwrap();
    let mut early = tape.clone();
    let moved = early.remove(arrival);
    early.insert(early.iter().position(|e| e.is_record("claimed", None)).unwrap() + 1, moved);
    red(&early, "before its claim was synced");

    // The same with a disk that skips the sync after a claim.
    let skips = |list: &[Entry]| match list.iter().any(|e| e.is_record("claimed", None)) {
        true => Syncing::Skipped,
        false => Syncing::Honest,
    };
    red(&taped_orders(skips).await, "before its claim was synced");

    // And the client does not merely happen to sync first: where the sync fails, nothing arrives.
    let (desk, folder, tape) = (Desk::start().await, Folder::new(), Tape::default());
    tape.listen_at(&desk);
    let fails = |list: &[Entry]| match list.iter().any(|e| e.is_record("claimed", None)) {
        true => Syncing::Fails,
        false => Syncing::Honest,
    };
    let journal = tape.journal(&folder.path(), fails).await;
    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), Actor::agent("test-agent"));
    let error = client.submit(Origin::mail("<1@example.com>"), &order()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Journal, Effect::None), "{error}");
    assert_eq!(error.next_step(), NextStep::Resume { not_before: None });
    let key = error.key().expect("the claim was written, so the order has a key");
    assert!(desk.requests().is_empty(), "{}", desk.story());
    // The journal is poisoned: nothing leaves, whatever else is asked for.
    let error = client.submit(Origin::mail("<2@example.com>"), &order()).await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Journal, None), "{error}");
    assert!(desk.requests().is_empty(), "{}", desk.story());
    // On a sound disk, the order goes out under the key it was told by.
    let resumed = folder.client(&desk).await.resume_pending().await.unwrap().resumed;
    assert_eq!(resumed.len(), 1);
    assert!(matches!(resumed[0].result, Ok(Outcome::Succeeded(_))), "{resumed:?}");
    assert_eq!(desk.keys(), [key.to_string()]);
    desk.assert_one_order_per_key();
}

/// Each attempt is written down before its first byte: with each request that arrives, the log holds one more `sent`. Also where attempts repeat.
#[tokio::test]
async fn an_attempt_is_written_before_it_leaves() {
    let (desk, folder, tape) = (Desk::start().await, Folder::new(), Tape::default());
    tape.listen_at(&desk);
    desk.script(Script::new().status(503).status(503));
    let journal = tape.journal(&folder.path(), |_| Syncing::Honest).await;
    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), Actor::agent("test-agent"));
    for mail in 0..5 {
        let order = client.submit(Origin::mail(format!("<{mail}@example.com>")), &order());
        order.await.unwrap().receipt().unwrap();
    }
    let tape = tape.entries();
    assert_eq!(attempts_are_written_before_they_leave(&tape), Ok(7));
    // The check is able to fail: with any one of them gone, or a byte too early.
    for (at, _) in tape.iter().enumerate().filter(|(_, entry)| entry.is_record("sent", None)) {
        let mut without = tape.clone();
        without.remove(at);
        attempts_are_written_before_they_leave(&without).unwrap_err();
        let arrival = tape[at..].iter().position(|entry| matches!(entry, Entry::Arrived { .. })).unwrap() + at;
        let mut early = tape.clone();
        let moved = early.remove(arrival);
        early.insert(at, moved);
        attempts_are_written_before_they_leave(&early).unwrap_err();
    }
}

/// What nobody waits for is durable soon all the same, also where the journal's thread slept when it was written: the answer came so late that all
/// before it was durable already.
#[tokio::test]
async fn what_nobody_waits_for_is_durable_soon() {
    let (desk, folder, tape) = (Desk::start().await, Folder::new(), Tape::default());
    desk.script(Script::new().reply_after(Duration::from_millis(400)));
    let journal = tape.journal(&folder.path(), |_| Syncing::Honest).await;
    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), Actor::agent("test-agent"));
    client
        .submit(Origin::mail("<1@example.com>"), &order())
        .await
        .unwrap()
        .receipt()
        .unwrap();
    let durable = async {
        loop {
            let tape = tape.entries();
            let settled = tape.iter().position(|entry| entry.is_record("settled", None)).unwrap();
            if tape[settled..].iter().any(Entry::is_log_sync) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let soon = tokio::time::timeout(Duration::from_secs(5), durable).await;
    soon.expect("nobody looks after what was written");
}

/// Ten orders on a disk that syncs the log like that; what happened, in one list.
async fn taped_orders(syncing: impl Fn(&[Entry]) -> Syncing + Send + Sync + 'static) -> Vec<Entry> {
    let (desk, folder, tape) = (Desk::start().await, Folder::new(), Tape::default());
    tape.listen_at(&desk);
    let journal = tape.journal(&folder.path(), syncing).await;
    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), Actor::agent("test-agent"));
    for mail in 0..10 {
        let outcome = client
            .submit(Origin::mail(format!("<{mail}@example.com>")), &order())
            .await
            .unwrap();
        assert!(matches!(outcome, Outcome::Succeeded(_)), "{outcome:?}");
    }
    desk.assert_one_order_per_key();
    tape.entries()
}

/// R7: a refusal is written and durable before the caller hears of it; and where it can't be made durable, nobody hears of it.
#[tokio::test]
async fn a_no_is_on_disk_before_it_is_told() {
    let (desk, folder, tape) = (Desk::start().await, Folder::new(), Tape::default());
    desk.script(Script::new().refuse().refuse().refuse());
    let journal = tape.journal(&folder.path(), |_| Syncing::Honest).await;
    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), Actor::agent("test-agent"));
    for mail in 0..3 {
        let outcome = client
            .submit(Origin::mail(format!("<{mail}@example.com>")), &order())
            .await
            .unwrap();
        let Outcome::Rejected(no) = outcome else { panic!("{outcome:?}") };
        tape.push(Entry::Told { key: no.key.to_string() });
    }
    let list = tape.entries();
    assert_eq!(outcomes_are_durable_before_they_are_told(&list), Ok(3));
    let unsynced: Vec<Entry> = list.into_iter().filter(|entry| !entry.is_log_sync()).collect();
    assert!(outcomes_are_durable_before_they_are_told(&unsynced).is_err());

    // The sync fails at that very moment. By the record that may be lost with it, the order may yet be processed: resume would send it again.
    let (desk, folder, tape) = (Desk::start().await, Folder::new(), Tape::default());
    desk.script(Script::new().refuse());
    let fails = |list: &[Entry]| match list.iter().any(|e| e.is_record("settled", None)) {
        true => Syncing::Fails,
        false => Syncing::Honest,
    };
    let journal = tape.journal(&folder.path(), fails).await;
    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), Actor::agent("test-agent"));
    let error = client.submit(Origin::mail("<1@example.com>"), &order()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Journal, Effect::Possible), "{error}");
    assert_eq!(error.key().unwrap().to_string(), desk.keys()[0]);
    assert_eq!(error.next_step(), NextStep::Resume { not_before: None });
    assert!(!error.to_string().contains("not sent"), "it was sent: {error}");
    assert_eq!(desk.requests().len(), 1);
}

/// A refusal as a server words it that looked at the order.
fn refusals() -> [Reply; 2] {
    [
        Reply::problem(422, "out_of_stock", "there is none left"),
        Reply::problem(404, "not_found", "there is no such thing"),
    ]
}

/// R1: after an attempt that may have landed, a refusal is a matter for a person; nothing more is sent, and no correction gets a new key.
#[tokio::test]
async fn a_later_refusal_never_hides_a_possible_effect() {
    for refusal in refusals() {
        let (desk, folder) = (Desk::start().await, Folder::new());
        desk.script(Script::new().commit_then_lose_reply().reply(refusal));
        let client = folder.client(&desk).await;
        refused_after_a_doubt(&client, &desk, 2).await;
        // What nobody on this side could know: the order stands in the server's book.
        assert_eq!(desk.orders().len(), 1);
        desk.assert_one_order_per_key();
    }
}

/// R1, seen from the other side: it makes no difference that the lost attempt had no effect, since nothing on this side can tell.
#[tokio::test]
async fn a_refusal_after_a_lost_attempt_is_not_rejected() {
    for refusal in refusals() {
        let doubts = [
            Script::new().lose_request(),
            Script::new().status(503),
            Script::new().status(408),
            Script::new().reply(Reply::json(202, json!({}))),
            Script::new().reply(Reply::problem(409, "idempotency_in_flight", "later")),
            // The doubt comes first, and an attempt that proves nothing about it after.
            Script::new().lose_request().status(429),
        ];
        for doubt in doubts {
            let (desk, folder) = (Desk::start().await, Folder::new());
            desk.script(doubt.reply(refusal.clone()));
            let attempts = desk.script_left();
            let client = folder.client(&desk).await;
            refused_after_a_doubt(&client, &desk, attempts).await;
            assert!(desk.orders().is_empty());
        }
        // What proves no execution leaves the no a no, and the origin free for a correction.
        for proof in [Script::new().status(429), Script::new().status(425), Script::new().unauthorized()] {
            let (desk, folder) = (Desk::start().await, Folder::new());
            desk.script(proof.reply(refusal.clone()));
            let api = brisk(&desk.url()).credentials(Tokens::new(&["t1", "t2"])).build().unwrap();
            let client = OrderClient::new(folder.journal().await, api, Actor::agent("test-agent"));
            refused_for_good(&client, &desk, 2).await;
        }
        // So does a connection that was refused.
        let (desk, folder, door) = (Desk::start().await, Folder::new(), Door::closed());
        desk.script(Script::new().reply(refusal));
        let client = folder.client_at(&door.url()).await;
        let error = client.submit(Origin::mail("<1@example.com>"), &order()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSent, "{error}");
        door.open_to(&desk);
        refused_for_good(&client, &desk, 1).await;
    }
}

/// Submits the mail's order, whose refusal must not be believed.
async fn refused_after_a_doubt(client: &OrderClient, desk: &Desk, attempts: usize) {
    let mail = || Origin::mail("<1@example.com>");
    let contradicted = |outcome: Outcome<_>| match outcome {
        Outcome::NeedsReview(review) => {
            assert_eq!((review.reason, review.effect), (ReviewReason::Contradicted, Effect::Possible));
            review.key
        }
        other => panic!("{other:?}\n{}", desk.story()),
    };
    let key = contradicted(client.submit(mail(), &order()).await.unwrap());
    assert_eq!(desk.requests().len(), attempts, "{}", desk.story());
    // From here on nothing leaves, whoever asks for what.
    let error = client.submit(mail(), &order().note("corrected")).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Drift, Effect::None), "{error}");
    let existing = error.existing().unwrap();
    assert_eq!(
        (existing.key, existing.standing, existing.effect),
        (key, "under review", Effect::Possible)
    );
    assert_eq!(contradicted(client.submit(mail(), &order()).await.unwrap()), key);
    let resumption = client.resume_pending().await.unwrap();
    assert!(resumption.resumed.is_empty(), "{resumption:?}");
    assert_eq!(resumption.left_alone[0].why, Why::UnderReview);
    assert_eq!(desk.requests().len(), attempts, "{}", desk.story());
    assert_eq!(desk.keys(), [key.to_string()]);
}

/// Submits the mail's order, whose refusal is a definite no, and then its correction.
async fn refused_for_good(client: &OrderClient, desk: &Desk, attempts: usize) {
    let mail = || Origin::mail("<1@example.com>");
    let outcome = client.submit(mail(), &order()).await.unwrap();
    let Outcome::Rejected(no) = &outcome else {
        panic!("{outcome:?}\n{}", desk.story())
    };
    assert_eq!(outcome.effect(), Effect::None);
    assert_eq!(desk.requests().len(), attempts, "{}", desk.story());
    let outcome = client.submit(mail(), &order().note("corrected")).await.unwrap();
    let Outcome::Succeeded(receipt) = outcome else {
        panic!("{outcome:?}")
    };
    assert_ne!(receipt.key, no.key);
    desk.assert_one_order_per_key();
}

/// R15: what a caller is told of the effect is about the order over all runs, not about the attempts of this call.
#[tokio::test]
async fn effect_is_about_the_order_not_the_call() {
    let mail = || Origin::mail("<1@example.com>");
    // An order that never left: nothing can have been processed, also in the second call.
    let (folder, door) = (Folder::new(), Door::closed());
    let client = folder.client_at(&door.url()).await;
    for attempts in [4, 8] {
        let error = client.submit(mail(), &order()).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::NotSent, Effect::None), "{error}");
        assert_eq!(error.attempts(), attempts);
    }

    // In doubt after the first call; the second call, in another process, is a stranger to that and sends nothing at all.
    let (desk, folder, door) = (Desk::start().await, Folder::new(), Door::closed());
    let named = |url: &str| brisk(url).name("shop").build().unwrap();
    desk.script(Script::new().lose_request().times(4));
    let client = OrderClient::new(folder.journal().await, named(&desk.url()), Actor::agent("test-agent"));
    let first = client.submit(mail(), &order()).await.unwrap_err();
    assert_eq!((first.kind(), first.effect()), (ErrorKind::InDoubt, Effect::Possible), "{first}");
    let stranger = child("submit_as_shop", &door.url(), &folder.path())
        .wait_with_output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&stranger.stdout);
    assert!(said.contains("child: InDoubt Possible 8"), "{said}");
    assert_eq!(desk.requests().len(), 4);
    // The first process hears the same, although all that it sends from now on never leaves either.
    let away = OrderClient::new(folder.journal().await, named(&door.url()), Actor::agent("test-agent"));
    let second = away.resume(first.key().unwrap()).await.unwrap_err();
    assert_eq!((second.kind(), second.effect()), (ErrorKind::InDoubt, Effect::Possible), "{second}");
    assert_eq!((second.key(), second.attempts()), (first.key(), 12));
    assert!(second.to_string().contains("attempt 1 may have been processed"), "{second}");
    // Neither does the limit of a call, nor asking without sending, change what is true of the order.
    let asked = client.known(first.key().unwrap()).await.unwrap_err();
    assert_eq!((asked.kind(), asked.effect()), (ErrorKind::InDoubt, Effect::Possible), "{asked}");
    let drifted = client.submit(mail(), &order().note("other")).await.unwrap_err();
    assert_eq!(drifted.existing().unwrap().effect, Effect::Possible);
    // And the end is told as it is, in the call that learns it and in the next.
    door.open_to(&desk);
    for _ in 0..2 {
        let outcome = away.submit(mail(), &order()).await.unwrap();
        assert_eq!(outcome.effect(), Effect::Certain);
    }
    desk.assert_one_order_per_key();
    assert_eq!(desk.requests().len(), 5);
}
