//! What a claim promises: one key per origin, whoever asks, however often, from wherever; and what becomes of other contents.

use crate::{
    kit::{Folder, brisk, order},
    props::{HOUR, Hands, Role, actor, finish, journal_kind, mail, order_events, read_log, receipt, single, sync_fails_once_after},
    tape::{Entry, Syncing, Tape},
};
use serde::Serialize;
use serde_json::json;
use std::{sync::mpsc, time::Duration};
use tokio::time::timeout;
use uketsuke::{
    Api, Effect, ErrorKind, Journal, JsonOrder, NextStep, OrderClient, OrderReceipt, Origin, Outcome, PlaceOrder, ReviewReason, Route,
    journal::store::StoreErrorKind,
    testkit::{Desk, Script, Suspicion},
};

/// A cancellation whose body says nothing of which order it cancels.
#[derive(Serialize)]
struct Cancel {
    #[serde(skip)]
    id: String,
    reason: &'static str,
}

impl uketsuke::Operation for Cancel {
    type Receipt = OrderReceipt;
    const NAME: &'static str = "cancel_order";
    const RECEIPT_HAS: &'static [&'static str] = &["/status"];

    fn route(&self) -> Route {
        Route::post("orders").segment(&self.id).then("cancel")
    }
}

fn cancel(id: &str) -> Cancel {
    Cancel {
        id: id.to_owned(),
        reason: "mistake",
    }
}

// ---- the same origin -----------------------------------------------------------------------------------------------

/// R17: an origin that is taken is not free for other contents, and the difference is named without showing it.
#[tokio::test]
async fn same_origin_other_contents_is_drift_and_sends_nothing() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let first = receipt(client.submit(mail(1), &order().note("SEKRET-ONE")).await);
    let before = order_events(&folder);

    let other = PlaceOrder::new("C-100").item("SKU-1", 20).note("SEKRET-TWO");
    let error = client.submit(mail(1), &other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Drift);
    assert_eq!((error.effect(), error.next_step()), (Effect::None, NextStep::AskHuman));
    let existing = error.existing().unwrap();
    assert_eq!(
        (existing.key, existing.standing, existing.effect),
        (first.key, "succeeded", Effect::Certain)
    );
    let fields: Vec<&str> = error.changes().iter().map(|change| change.field.as_str()).collect();
    assert_eq!(fields, ["items[0].quantity", "note"]);
    for text in [error.to_string(), format!("{error:?}"), format!("{:?}", error.changes())] {
        assert!(text.contains("items[0].quantity") && text.contains("note"), "{text}");
        assert!(!text.contains("SEKRET"), "{text}");
    }
    assert_eq!(desk.requests().len(), 1);
    assert_eq!(order_events(&folder), before, "nothing was written of what was not taken");
}

/// Section 5 of the design: without the path in the fingerprint, two cancels from one mail would be one, and the second order would stand.
#[tokio::test]
async fn two_cancels_from_one_mail_are_not_one() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    for n in [1, 2] {
        receipt(client.submit(mail(n), &order()).await);
    }

    receipt(client.submit(mail(9), &cancel("ord-1")).await);
    let error = client.submit(mail(9), &cancel("ord-2")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Drift, "never the first one's receipt: {error}");
    assert_eq!(desk.requests().len(), 3);

    let one = receipt(client.submit(mail(8).line(1), &cancel("ord-2")).await);
    receipt(client.submit(mail(7), &order()).await);
    let two = receipt(client.submit(mail(8).line(2), &cancel("ord-3")).await);
    assert_ne!(one.key, two.key);
    let cancelled = desk.orders().iter().filter(|order| order["status"] == "cancelled").count();
    assert_eq!((desk.orders().len(), cancelled), (3, 3));
    desk.assert_one_order_per_key();
}

/// R17: a definite no frees the origin for a correction, under a key that names the one it follows; the same again is answered from the book.
#[tokio::test]
async fn a_correction_after_a_refusal_gets_a_new_key() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    desk.script(Script::new().refuse().then_ok());
    let Ok(Outcome::Rejected(no)) = client.submit(mail(1), &order()).await else {
        panic!("{}", desk.story())
    };
    assert_eq!((no.status, no.code.as_deref()), (Some(422), Some("order_refused")));
    assert_eq!(desk.requests().len(), 1);

    let Ok(Outcome::Rejected(again)) = client.submit(mail(1), &order()).await else {
        panic!("{}", desk.story())
    };
    assert_eq!((again.key, again.status), (no.key, no.status));
    assert_eq!(desk.requests().len(), 1, "the stored no was sent for again");

    let corrected = receipt(client.submit(mail(1), &order().note("corrected")).await);
    assert_ne!(corrected.key, no.key);
    let lineage = folder.events("claimed").pop().unwrap()["data"]["lineage"].clone();
    assert_eq!(lineage, json!({"generation": 2, "supersedes": no.key}));
    assert_eq!(desk.requests().len(), 2);
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
}

/// R17: A refused, B refused, A again is a third order with a third key; A's first no is not its answer.
#[tokio::test]
async fn an_origin_means_its_newest_generation() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    desk.script(Script::new().refuse().refuse().then_ok());
    let (a, b) = (order(), order().note("B"));
    let mut keys = Vec::new();
    for contents in [&a, &b] {
        let outcome = client.submit(mail(1), contents).await.unwrap();
        assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
        keys.push(outcome.key());
    }
    keys.push(receipt(client.submit(mail(1), &a).await).key);
    let claimed = folder.events("claimed");
    let generations: Vec<_> = claimed.iter().map(|line| line["data"]["lineage"]["generation"].as_u64()).collect();
    assert_eq!(generations, [Some(1), Some(2), Some(3)]);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3);
    assert_eq!(client.submit(mail(1), &b).await.unwrap_err().kind(), ErrorKind::Drift);
    assert_eq!((desk.requests().len(), desk.orders().len()), (3, 1));
}

// ---- at once -------------------------------------------------------------------------------------------------------

/// BUG-74: whoever comes while it is in the air joins it; two clients and two openings of one folder share the air.
#[tokio::test]
async fn four_identical_calls_at_once_make_one_order() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().reply_after(Duration::from_millis(200)));
    let one = folder.client(&desk).await;
    let two = OrderClient::new(folder.journal().await, brisk(&desk.url()).build().unwrap(), actor());
    let order = order();
    let (a, b, c, d) = tokio::join!(
        one.submit(mail(1), &order),
        one.submit(mail(1), &order).tool_call("call_2"),
        two.submit(mail(1), &order),
        two.submit(mail(1), &order),
    );
    let receipts = [a, b, c, d].map(receipt);
    assert!(
        receipts
            .iter()
            .all(|other| other.key == receipts[0].key && other.value == receipts[0].value)
    );
    assert_eq!((desk.requests().len(), desk.orders().len()), (1, 1));
    assert_eq!(folder.events("claimed").len(), 1);
    assert_eq!(folder.events("joined").len(), 3, "further calls are in the book");
}

/// Two processes that submit one origin at once: one order, and both get its receipt.
#[tokio::test]
async fn two_processes_share_the_folder() {
    for run in 1..=10 {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let children = [0, 1].map(|_| Role::new("submit", &desk.url(), &folder.path()).with("WAITS", 1).start());
        let [one, two] = children.map(finish);
        let ((one, _), (two, _)) = tokio::join!(one, two);
        assert!(
            one.len() == 1 && one[0].starts_with("succeeded"),
            "run {run}: {one:?}\n{}",
            desk.story()
        );
        assert_eq!(one, two, "run {run}");
        assert_eq!((desk.orders().len(), desk.keys().len()), (1, 1), "run {run}\n{}", desk.story());
    }

    let (desk, folder) = (Desk::start().await, Folder::new());
    let many = |from| {
        Role::new("many", &desk.url(), &folder.path())
            .with("WAITS", 1)
            .with("FROM", from)
            .start()
    };
    let [one, two] = [many(100), many(200)].map(finish);
    let ((one, _), (two, _)) = tokio::join!(one, two);
    let succeeded = one.iter().chain(&two).filter(|told| told.starts_with("succeeded")).count();
    assert_eq!(succeeded, 80, "{one:?} {two:?}");
    assert_eq!((desk.orders().len(), desk.keys().len()), (80, 80));
    desk.assert_one_order_per_key();
    let log = read_log(&folder.log());
    assert_eq!(log.iter().filter(|line| line.says("claimed")).count(), 80);
    assert_eq!(log.iter().filter(|line| line.says("settled")).count(), 80);
}

/// BUG-67: the attempt runs in its own task, so a caller who goes away strands nothing, and holds nobody up.
#[tokio::test]
async fn a_dropped_future_strands_nothing() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().reply_after(Duration::from_millis(1500)).then_ok());
    let client = OrderClient::new(folder.journal().await, single(&desk.url()).build().unwrap(), actor());
    let (tell, mut arrived) = tokio::sync::mpsc::unbounded_channel();
    desk.on_request(move |_| tell.send(()).unwrap_or_default());
    tokio::select! {
        told = client.submit(mail(1), &order()).into_future() => panic!("it was answered before it could be dropped: {told:?}"),
        seen = arrived.recv() => seen.unwrap(),
    }

    let other = receipt(client.submit(mail(2), &order()).await);
    assert_eq!(client.drain(Duration::from_secs(10)).await, 0);
    let settled: Vec<_> = folder.events("settled").iter().map(|line| line["key"].clone()).collect();
    assert_eq!(settled.len(), 2);
    assert_eq!(settled[0], json!(other.key), "the other order had to wait for the dropped one");

    let again = receipt(client.submit(mail(1), &order()).await);
    assert_eq!(settled[1], json!(again.key));
    assert_eq!(again.attempts, 1);
    assert_eq!((desk.requests().len(), desk.orders().len()), (2, 2));
    desk.assert_one_order_per_key();
}

/// Section 5: a seat is left when its runtime is dropped; who waits beside it, and who comes later, finds it empty and boards under the same
/// key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_runtime_leaves_no_empty_seat() {
    for waits_beside in [false, true] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        desk.script(Script::new().reply_after(Duration::from_secs(8)).then_ok());
        let (arrived, arrival) = mpsc::channel();
        desk.on_request(move |_| arrived.send(()).unwrap_or_default());
        let client = OrderClient::new(folder.journal().await, single(&desk.url()).build().unwrap(), actor());

        let second = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let doomed = client.clone();
        second.spawn(async move { doomed.submit(mail(1), &order()).await });
        tokio::task::block_in_place(|| arrival.recv_timeout(Duration::from_secs(10)).unwrap());
        let beside = waits_beside.then(|| {
            let client = client.clone();
            tokio::spawn(async move { client.submit(mail(1), &order()).await })
        });
        while waits_beside && folder.events("joined").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        second.shutdown_background();

        let told = match beside {
            Some(beside) => timeout(Duration::from_secs(6), beside)
                .await
                .expect("the one beside hangs")
                .unwrap(),
            None => timeout(Duration::from_secs(6), client.submit(mail(1), &order()).into_future())
                .await
                .expect("the next call hangs"),
        };
        let receipt = receipt(told);
        assert_eq!(desk.keys(), [receipt.key.to_string()]);
        assert!(receipt.replayed);
        assert_eq!(desk.orders().len(), 1);
    }
}

// ---- the same contents ---------------------------------------------------------------------------------------------

/// Section 5: the order of members and the spelling of a number don't make another order; a value does.
#[tokio::test]
async fn field_order_and_number_spelling_share_a_fingerprint() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let json = |text: &str| JsonOrder::from_json(Route::post("orders"), text.as_bytes()).unwrap();
    let first = receipt(
        client
            .submit(mail(1), &json(r#"{"sku":"A","qty":1,"ship":{"zip":"1","city":"X"}}"#))
            .await,
    );
    for spelling in [
        r#"{ "ship" : {"city":"X","zip":"1"}, "qty":1.0, "sku":"\u0041" }"#,
        r#"{"qty":10e-1,"sku":"A","ship":{"zip":"1","city":"X"}}"#,
    ] {
        let same = receipt(client.submit(mail(1), &json(spelling)).await);
        assert_eq!(same.key, first.key, "{spelling}");
    }
    for other in [
        r#"{"sku":"A","qty":1.5,"ship":{"zip":"1","city":"X"}}"#,
        r#"{"sku":"A","qty":"1","ship":{"zip":"1","city":"X"}}"#,
        r#"{"sku":"A","qty":1,"ship":{"zip":"1","city":"X"},"gift":null}"#,
    ] {
        assert_eq!(
            client.submit(mail(1), &json(other)).await.unwrap_err().kind(),
            ErrorKind::Drift,
            "{other}"
        );
    }
    assert_eq!(desk.requests().len(), 1);
}

/// The gate: public canonicalisers fold 2^53 + 1 into 2^53, so that two orders would have one fingerprint.
#[tokio::test]
async fn integers_past_2_53_are_refused() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    for number in [
        "9007199254740992",
        "9007199254740993",
        "-9007199254740992",
        "1e20",
        "18446744073709551616",
    ] {
        let text = format!(r#"{{"items":[{{"amount":{number}}}]}}"#);
        let refused = JsonOrder::from_json(Route::post("orders"), text.as_bytes()).unwrap_err();
        assert_eq!(refused.field, "items[0].amount", "{number}");
        assert!(!refused.to_string().contains(number), "{refused}");
    }
    // A value that never was text meets the same gate at submit.
    for number in [json!(u64::MAX), json!(9_007_199_254_740_992_i64), json!(1e300)] {
        let error = client
            .submit(mail(1), &JsonOrder::new(Route::post("orders"), json!({ "amount": number })))
            .await;
        let error = error.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect(), error.key()),
            (ErrorKind::InvalidInput, Effect::None, None)
        );
    }
    assert!(order_events(&folder).is_empty(), "a refused order stands in the journal");
    let edge = json!({"amount": 9_007_199_254_740_991_i64});
    receipt(client.submit(mail(1), &JsonOrder::new(Route::post("orders"), edge)).await);
    assert_eq!(desk.requests().len(), 1);
}

// ---- no origin, or another name ------------------------------------------------------------------------------------

/// R11: an order whose outcome is unknown counts whatever its age; a settled one within the window; a clock that stands before it counts as
/// inside; a definite no does not count; a caller who vouches passes.
#[tokio::test]
async fn the_repeat_guard_never_forgets_an_order_in_doubt() {
    let (folder, clock) = (Folder::new(), Hands::new());
    let desk = clock.desk().await;
    let journal = Journal::builder().clock(clock.clone()).open(folder.path()).await.unwrap();
    let client = OrderClient::new(journal, single(&desk.url()).build().unwrap(), actor());
    let submit = |origin, customer: &str| {
        let order = PlaceOrder::new(customer).item("SKU-1", 1);
        client.submit(origin, &order).into_future()
    };
    let repeat_of = |told: Result<Outcome<OrderReceipt>, uketsuke::Error>| {
        let error = told.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::LikelyRepeat, Effect::Possible));
        error.existing().unwrap().clone()
    };

    desk.script(Script::new().lose_request().refuse().then_ok());
    let doubtful = submit(Origin::unknown(), "doubtful").await.unwrap_err();
    assert_eq!(doubtful.kind(), ErrorKind::InDoubt);
    let refused = submit(Origin::unknown(), "refused").await.unwrap();
    assert!(matches!(refused, Outcome::Rejected(_)));
    let settled = receipt(submit(Origin::unknown(), "settled").await);
    assert_eq!(desk.requests().len(), 3);

    let inside = repeat_of(submit(Origin::unknown(), "settled").await);
    assert_eq!((inside.key, inside.standing), (settled.key, "succeeded"));
    let vouched = receipt(submit(Origin::distinct("the cook wants another"), "settled").await);
    assert_ne!(vouched.key, settled.key);
    assert!(
        std::fs::read_to_string(folder.log()).unwrap().contains("the cook wants another"),
        "the why is kept"
    );
    let corrected = receipt(submit(Origin::unknown(), "refused").await);
    assert_ne!(corrected.key, refused.key());
    assert_eq!(desk.requests().len(), 5);

    // Clocks that go back: a record from the future is inside the window.
    clock.turn(-48 * HOUR);
    assert_eq!(repeat_of(submit(Origin::unknown(), "settled").await).standing, "succeeded");
    clock.turn((48 + 23) * HOUR);
    repeat_of(submit(Origin::unknown(), "settled").await);
    clock.turn(2 * HOUR);
    receipt(submit(Origin::unknown(), "settled").await);
    assert_eq!(desk.requests().len(), 6);

    clock.turn(30 * 24 * HOUR);
    let old = repeat_of(submit(Origin::unknown(), "doubtful").await);
    assert_eq!(Some(old.key), doubtful.key());
    assert_eq!(old.effect, Effect::Possible);
    assert_eq!(desk.requests().len(), 6);
}

/// R20: the address is one name however it is written; under a truly other name the same mail would be looked for in vain, so a person is
/// asked.
#[tokio::test]
async fn another_name_for_the_same_server_is_a_likely_repeat() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let first = receipt(client.submit(mail(1), &order()).await);

    let spelled = desk.url().replace("http://", "HTTP://") + "/";
    let same = folder.client_at(&spelled).await;
    assert_eq!(receipt(same.submit(mail(1), &order()).await).key, first.key);

    let other = folder.client_at(&desk.url().replace("127.0.0.1", "localhost")).await;
    let error = other.submit(mail(1), &order()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::LikelyRepeat, Effect::Possible));
    let existing = error.existing().unwrap();
    assert_eq!((existing.key, existing.api.as_str()), (first.key, desk.url().as_str()));
    assert_eq!(error.next_step(), NextStep::AskHuman);

    // A name of one's own holds while the address changes.
    let [one, two] = ["127.0.0.1", "localhost"].map(|host| {
        let url = desk.url().replace("127.0.0.1", host);
        brisk(&url).name("shop").build().unwrap()
    });
    let journal = folder.journal().await;
    let key = receipt(OrderClient::new(journal.clone(), one, actor()).submit(mail(2), &order()).await).key;
    assert_eq!(
        receipt(OrderClient::new(journal, two, actor()).submit(mail(2), &order()).await).key,
        key
    );
    assert_eq!(desk.requests().len(), 2);
}

/// Two mails with the same contents are two orders: nobody is asked, and nothing is folded together.
#[tokio::test]
async fn two_mails_with_the_same_contents_are_two_orders() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let (one, two) = (mail(1), mail(2));
    let keys = [one, two].map(|origin| client.submit(origin, &order()).into_future());
    let [a, b] = keys;
    assert_ne!(receipt(a.await).key, receipt(b.await).key);
    assert_eq!(desk.orders().len(), 2);
    assert!(!desk.suspicions().iter().any(|s| matches!(s, Suspicion::KeyReused { .. })));
}

// ---- a journal that fails ------------------------------------------------------------------------------------------

/// BUG-55, R16: the claim may be on the disk or not; the error carries its key, the handle sends nothing any more, and a fresh opening sends it
/// once.
#[tokio::test]
async fn a_journal_error_after_the_claim_carries_the_key() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let journal = Journal::builder()
        .disk(sync_fails_once_after("claimed"))
        .open(folder.path())
        .await
        .unwrap();
    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), actor());

    let error = client.submit(mail(1), &order()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Journal, Effect::None));
    assert_eq!(error.next_step(), NextStep::Resume { not_before: None });
    let key = error.key().expect("the claim was written, so its key is told");
    assert!(error.to_string().contains("not sent yet"), "{error}");

    for n in [1, 2] {
        let later = client.submit(mail(n), &order()).await.unwrap_err();
        assert_eq!(later.kind(), ErrorKind::Journal);
        assert_eq!(journal_kind(&later), Some(StoreErrorKind::Poisoned));
        assert!(later.to_string().contains("opened anew"), "{later}");
    }
    assert_eq!(desk.requests().len(), 0, "{}", desk.story());

    // The poisoned handle is still held: the fresh opening does not join it.
    let fresh = folder.client(&desk).await;
    let resumed = fresh.resume_pending().await.unwrap().resumed;
    assert_eq!(resumed.len(), 1);
    assert_eq!(receipt(resumed[0].result.clone()).key, key);
    assert_eq!(receipt(fresh.submit(mail(1), &order()).await).key, key);
    receipt(fresh.submit(mail(2), &order()).await);
    assert_eq!(desk.requests().len(), 2);
    desk.assert_one_order_per_key();
}

/// R7: a no that is not on the disk is not told: after a power cut a retry of the same key might be accepted.
#[tokio::test]
async fn a_no_is_told_only_when_it_is_on_disk() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().refuse());
    let journal = Journal::builder()
        .disk(sync_fails_once_after("settled"))
        .open(folder.path())
        .await
        .unwrap();
    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), actor());
    let error = client.submit(mail(1), &order()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Journal);
    assert_eq!(error.effect(), Effect::Possible, "that is the no, told: {error}");
    assert!(!error.to_string().contains("not sent"), "{error}");
    let key = error.key().unwrap();
    drop(client);

    // The power cut: what was not synced is gone.
    let lines = read_log(&folder.log());
    let cut = lines.iter().position(|line| line.says("sent")).unwrap();
    std::fs::write(folder.log(), crate::props::write_log(&lines[..cut]).0).unwrap();
    let client = folder.client(&desk).await;
    let outcome = client.submit(mail(1), &order()).await.unwrap();
    assert_eq!(desk.keys(), [key.to_string()], "{outcome:?}");
    // R15: of the first run only the claim is left, and it says that sending followed. The refusal that is replayed is no definite no.
    let Outcome::NeedsReview(review) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((review.reason, review.effect), (ReviewReason::Contradicted, Effect::Possible));
    assert_eq!((desk.requests().len(), desk.orders().len()), (2, 0));
}

/// R21: a record of another process is a rumour until a sync of our own covered it.
#[tokio::test]
async fn a_foreign_record_is_a_rumour_until_our_own_sync() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let journal = Journal::builder()
        .disk(sync_fails_once_after("joined"))
        .open(folder.path())
        .await
        .unwrap();
    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), actor());
    let (told, _) = Role::new("submit", &desk.url(), &folder.path()).play().await;
    assert!(told[0].starts_with("succeeded"), "{told:?}");

    let error = client.submit(mail(1), &order()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Journal, Effect::Certain));
    let key = error.key().unwrap();
    assert_eq!(told[0], format!("succeeded {key}"));

    let fresh = folder.client(&desk).await;
    assert_eq!(receipt(fresh.submit(mail(1), &order()).await).key, key);
    assert_eq!(desk.requests().len(), 1);
}

/// R7: a no that another process wrote, and had not synced, is made durable before a correction of it gets its key. If power took the no alone,
/// both orders would be open, and both would be sent. (The protocol's model found this one.) Without an origin, that is so of the same contents.
#[tokio::test]
async fn a_correction_gets_its_key_when_the_no_is_on_disk() {
    a_claim_waits_for_the_no(mail(1), &PlaceOrder::new("C-100").item("SKU-1", 3)).await;
    a_claim_waits_for_the_no(Origin::unknown(), &order()).await;
}

async fn a_claim_waits_for_the_no(origin: Origin, next: &PlaceOrder) {
    let (desk, folder, tape) = (Desk::start().await, Folder::new(), Tape::default());
    let journal = tape.journal(&folder.path(), |_| Syncing::Honest).await;
    let at = |url: &str| OrderClient::new(journal.clone(), brisk(url).name("shop").build().unwrap(), actor());
    let client = at(&desk.url());
    // Nobody listens on port 9: nothing leaves.
    let first = at("http://127.0.0.1:9").submit(origin.clone(), &order()).await;
    let first = first.unwrap_err().key().unwrap();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/journals/good/log.jsonl");
    let lines = std::fs::read_to_string(fixture).unwrap();
    let mut lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let rejected = lines.find(|line| !line["data"]["rejected"].is_null()).unwrap()["data"].to_string();
    let path = folder.path();
    let foreign = tokio::task::spawn_blocking(move || {
        let mut other = uketsuke::journal::core::Core::open(&path).unwrap();
        let no = uketsuke::journal::store::Record {
            key: first,
            name: "settled".to_owned(),
            at: uketsuke::Timestamp::from_millis(1_796_083_200_000),
            standing: uketsuke::journal::store::Standing::Done,
            columns: None,
            data: rejected.into(),
        };
        other
            .turn(Box::new(|turn| {
                turn.append(no);
                Box::pin(async { Ok(()) })
            }))
            .unwrap();
        other
    });
    let other = foreign.await.unwrap();
    let before = tape.entries().len();
    let second = receipt(client.submit(origin, next).await).key;
    assert_ne!(second, first);
    let since = &tape.entries()[before..];
    let claim = since
        .iter()
        .position(|entry| entry.is_record("claimed", Some(&second.to_string())))
        .unwrap();
    assert!(since[..claim].iter().any(Entry::is_log_sync), "{since:?}");
    drop(other);
}

/// A provider or a runtime that breaks a flight breaks this flight: the call ends, the order lives, and the next call sends it.
#[tokio::test]
async fn a_flight_that_panics_ends_its_call() {
    struct Broken;
    impl uketsuke::Credentials for Broken {
        fn current(&self) -> uketsuke::BoxFuture<'_, Result<uketsuke::Credential, uketsuke::CredentialError>> {
            panic!("the vault is broken")
        }
    }
    let (desk, folder) = (Desk::start().await, Folder::new());
    let broken: Api = brisk(&desk.url()).credentials(Broken).build().unwrap();
    let client = OrderClient::new(folder.journal().await, broken, actor());
    let told = timeout(Duration::from_secs(20), client.submit(mail(1), &order()).into_future()).await;
    let error = told.expect("the call spins").unwrap_err();
    assert!(error.key().is_some(), "{error}");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::NotSent, Effect::None));
    assert_eq!(error.next_step(), NextStep::Resume { not_before: None });
    assert!(order_events(&folder).len() < 50, "the journal fills with the same failure");
    drop(client);

    let client = folder.client(&desk).await;
    receipt(client.submit(mail(1), &order()).await);
    assert_eq!((desk.orders().len(), folder.events("claimed").len()), (1, 1));
}
