//! The test desk, tested: it is honest where it must be and ugly where it is told to be.
//!
//! Nothing here waits for time to pass; where something must not have happened yet, a channel says so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should stop"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use uketsuke::testkit::*;

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
const OTHER_KEY: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
const ORDER: &str = r#"{"customer":"C-100","items":[{"sku":"SKU-1","qty":2}]}"#;

// ---- claim and states ----------------------------------------------------------------------------------------------

#[test]
fn a_hundred_threads_claiming_one_key_make_one_row() {
    // One key is over before most threads are awake, so they race down the same row of keys: wherever a check and its
    // claim come apart, some of the twenty thousand claims fall between them.
    let keys: Vec<String> = (0..200).map(|n| format!("key-{n}")).collect();
    let ledger = MemoryLedger::new();
    let order = contents(ORDER);
    let start = Barrier::new(100);
    let claim_all = || {
        start.wait();
        keys.iter().filter(|key| claim_and_complete(&ledger, key, &order)).count()
    };
    let won: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..100).map(|_| scope.spawn(claim_all)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(won, keys.len(), "each key is won once");
    assert_eq!(at_once(ledger.rows()).unwrap().len(), keys.len());
    for key in &keys {
        let row = at_once(ledger.read(key)).unwrap().unwrap();
        assert_eq!(row.state, RowState::Succeeded);
    }
}

#[test]
fn two_threads_in_step_never_both_win_a_key() {
    // The same race where it is tightest: both threads are let go at once, on a fresh ledger each time.
    let ledgers: Vec<MemoryLedger> = (0..10_000).map(|_| MemoryLedger::new()).collect();
    let order = contents(ORDER);
    let arrived = AtomicUsize::new(0);
    let claim_in_step = || {
        let rounds = ledgers.iter().enumerate().filter(|(round, ledger)| {
            arrived.fetch_add(1, Ordering::SeqCst);
            let mut looks = 0;
            while arrived.load(Ordering::SeqCst) < 2 * (round + 1) {
                // Whoever sleeps while waiting comes too late to race; who never does starves the other on one core.
                looks += 1;
                if looks % 500 == 0 {
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
            }
            claim_and_complete(ledger, KEY, &order)
        });
        rounds.count()
    };
    let won: usize = std::thread::scope(|scope| {
        let (one, other) = (scope.spawn(claim_in_step), scope.spawn(claim_in_step));
        one.join().unwrap() + other.join().unwrap()
    });
    assert_eq!(won, ledgers.len(), "each key is won once");
}

/// A ledger in memory never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

/// Says whether the claim was won.
fn claim_and_complete(ledger: &MemoryLedger, key: &str, order: &Contents) -> bool {
    match at_once(ledger.claim(Ask::new(key, order.digest()))).unwrap() {
        Claimed::New(claim) => {
            at_once(ledger.complete(&claim, &Reply::status(201))).unwrap();
            true
        }
        Claimed::InFlight | Claimed::Known(_) => false,
        other => panic!("equal contents, and {other:?}"),
    }
}

#[tokio::test]
async fn a_new_key_places_an_order_without_the_marker() {
    let desk = Desk::start().await;
    let answer = post(&desk, KEY, ORDER).await;
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.headers()["location"], "/orders/ord-1");
    assert_eq!(answer.headers()["etag"], "\"1\"");
    assert!(!answer.headers().contains_key("idempotent-replayed"));
    let order: Value = json_of(answer).await;
    assert_eq!(
        order,
        json!({"order_id": "ord-1", "status": "accepted", "customer": "C-100", "items": [{"sku": "SKU-1", "qty": 2}]})
    );
    assert_eq!(desk.orders(), [order]);
    let row = desk.row(KEY).unwrap();
    assert_eq!((row.state, row.status), (RowState::Succeeded, Some(201)));
    assert_eq!(row.state.to_string(), "SUCCEEDED");
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn fifty_parallel_posts_of_one_key_make_one_order() {
    let desk = Desk::start().await;
    let posts: Vec<_> = (0..50).map(|_| tokio::spawn(order(&desk, KEY, ORDER).send())).collect();
    for post in posts {
        assert_eq!(post.await.unwrap().unwrap().status(), 201);
    }
    let replayed = desk.attempts(KEY).iter().filter(|seen| seen.replayed).count();
    assert_eq!(replayed, 49);
    assert_eq!(desk.orders().len(), 1);
    desk.assert_one_order_per_key();
}

#[tokio::test]
async fn a_stuck_order_is_409_until_it_is_finished() {
    let desk = Desk::start().await;
    desk.script(Script::new().get_stuck());
    order(&desk, KEY, ORDER).send().await.unwrap_err();
    for _ in 0..2 {
        let answer = post(&desk, KEY, ORDER).await;
        assert_eq!(answer.headers()["retry-after"], "1");
        assert_problem(answer, 409, "idempotency_in_flight").await;
    }
    assert_problem(get(&desk, &format!("/orders/by-key/{KEY}")).await, 409, "idempotency_in_flight").await;
    assert!(desk.orders().is_empty());
    assert_eq!(desk.row(KEY).unwrap().state, RowState::Processing);
    assert_eq!(did(&desk), [Did::Stuck, Did::InFlight, Did::InFlight, Did::Nothing]);

    desk.finish(KEY).unwrap();
    assert_eq!(
        desk.finish(KEY).unwrap_err().to_string(),
        format!("no work is stuck under the key {KEY}")
    );
    let answer = post(&desk, KEY, ORDER).await;
    assert_eq!((answer.status().as_u16(), is_replay(&answer)), (201, true));
    desk.assert_one_order_per_key();
}

#[test]
fn a_released_claim_gives_the_key_free() {
    let ledger = MemoryLedger::new();
    let order = contents(ORDER);
    let Claimed::New(claim) = at_once(ledger.claim(Ask::new(KEY, order.digest()))).unwrap() else {
        panic!("nobody had the key")
    };
    assert_eq!(claim.key(), KEY);
    at_once(ledger.release(&claim)).unwrap();
    let again = at_once(ledger.claim(Ask::new(KEY, order.digest()))).unwrap();
    assert!(matches!(again, Claimed::New(_)));
}

// ---- replay --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn the_same_key_is_replayed_byte_for_byte_with_the_marker() {
    let desk = Desk::start().await;
    let first = order(&desk, KEY, ORDER).header("X-Request-Id", "r-1").send().await.unwrap();
    let again = order(&desk, KEY, ORDER).header("X-Request-Id", "r-2").send().await.unwrap();
    assert_eq!(again.status(), first.status());
    assert!(is_replay(&again) && !is_replay(&first));
    assert_eq!(again.headers()["x-request-id"], "r-2", "a replay belongs to the retry");
    for kept in ["location", "etag", "content-type"] {
        assert_eq!(again.headers()[kept], first.headers()[kept]);
    }
    assert_eq!(again.bytes().await.unwrap(), first.bytes().await.unwrap());
    assert_eq!(desk.orders().len(), 1);
    assert_eq!(did(&desk), [Did::Claimed, Did::Replayed]);
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn a_replay_keeps_no_cookie() {
    let desk = Desk::start().await;
    let with_cookie = Reply::json(201, json!({})).header("Set-Cookie", "a=b").header("ETag", "\"7\"");
    desk.script(Script::new().store_reply(with_cookie));
    let first = post(&desk, KEY, ORDER).await;
    assert_eq!(first.headers()["set-cookie"], "a=b");
    let again = post(&desk, KEY, ORDER).await;
    assert_eq!(again.headers()["etag"], "\"7\"");
    assert!(!again.headers().contains_key("set-cookie"));
}

#[tokio::test]
async fn a_replay_is_the_first_answer_even_if_the_order_has_changed() {
    let desk = Desk::start().await;
    post(&desk, KEY, ORDER).await;
    send(&desk, "POST", "/orders/ord-1/cancel", OTHER_KEY, "").await;
    let again: Value = json_of(post(&desk, KEY, ORDER).await).await;
    assert_eq!(again["status"], "accepted");
    let now: Value = json_of(get(&desk, "/orders/ord-1").await).await;
    assert_eq!(now["status"], "cancelled");
}

#[tokio::test]
async fn a_refusal_is_stored_and_replayed() {
    let desk = Desk::start().await;
    desk.script(Script::new().refuse());
    assert_problem(post(&desk, KEY, ORDER).await, 422, "order_refused").await;
    let again = post(&desk, KEY, ORDER).await;
    assert!(is_replay(&again));
    assert_problem(again, 422, "order_refused").await;
    assert_eq!(desk.row(KEY).unwrap().state, RowState::Failed);
    assert_problem(get(&desk, &format!("/orders/by-key/{KEY}")).await, 404, "order_not_found").await;
    assert!(desk.orders().is_empty());
}

#[tokio::test]
async fn a_stored_500_is_replayed_with_the_marker() {
    let desk = Desk::start().await;
    desk.script(Script::new().store_status(500));
    let first = post(&desk, KEY, ORDER).await;
    assert_eq!((first.status().as_u16(), is_replay(&first)), (500, false));
    let again = post(&desk, KEY, ORDER).await;
    assert_eq!((again.status().as_u16(), is_replay(&again)), (500, true));
    assert!(desk.orders().is_empty());
}

#[tokio::test]
async fn an_empty_answer_is_replayed_as_such() {
    let desk = Desk::start().await;
    desk.serve("DELETE", "/carts/{cart}", |_| Reply::status(204));
    for replayed in [false, true] {
        let answer = send(&desk, "DELETE", "/carts/7", KEY, "").await;
        assert_eq!((answer.status().as_u16(), is_replay(&answer)), (204, replayed));
        assert!(answer.bytes().await.unwrap().is_empty());
    }
}

// ---- mismatch ------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_mismatch_is_422_and_the_original_still_replays() {
    let desk = Desk::start().await;
    post(&desk, KEY, ORDER).await;
    let before = desk.row(KEY).unwrap();
    assert_problem(post(&desk, KEY, r#"{"customer":"C-200"}"#).await, 422, "idempotency_conflict").await;
    assert_eq!(desk.row(KEY).unwrap(), before);
    let states: Vec<RowState> = desk.rows().iter().map(|row| row.state).collect();
    assert_eq!(states, [RowState::Succeeded, RowState::Rejected]);
    assert!(is_replay(&post(&desk, KEY, ORDER).await));
    assert_eq!(desk.orders().len(), 1);
    let reused = Suspicion::KeyReused {
        key: KEY.to_owned(),
        first: 1,
        second: 2,
    };
    assert_eq!(desk.suspicions(), [reused]);
}

#[tokio::test]
async fn a_mismatch_is_422_even_while_processing_and_leaves_the_row() {
    let desk = Desk::start().await;
    desk.script(Script::new().get_stuck());
    order(&desk, KEY, ORDER).send().await.unwrap_err();
    let before = desk.row(KEY).unwrap();
    assert_problem(post(&desk, KEY, r#"{"customer":"C-200"}"#).await, 422, "idempotency_conflict").await;
    assert_eq!(desk.row(KEY).unwrap(), before);
    assert_problem(post(&desk, KEY, ORDER).await, 409, "idempotency_in_flight").await;
}

#[tokio::test]
async fn another_path_method_or_query_under_the_key_is_a_mismatch() {
    let desk = Desk::start().await;
    desk.serve("POST", "/returns", |_| Reply::status(201));
    desk.serve("PUT", "/returns", |_| Reply::status(200));
    assert_eq!(send(&desk, "POST", "/returns", KEY, ORDER).await.status(), 201);
    for (method, path) in [("POST", "/orders"), ("PUT", "/returns"), ("POST", "/returns?rush=1")] {
        let answer = send(&desk, method, path, KEY, ORDER).await;
        assert_problem(answer, 422, "idempotency_conflict").await;
    }
}

#[tokio::test]
async fn two_spellings_of_one_order_replay_and_a_nested_change_does_not() {
    let desk = Desk::start().await;
    post(&desk, KEY, r#"{"customer":"Ä","items":[{"sku":"A","qty":2}]}"#).await;
    let spelled = "{ \"items\" : [ {\"qty\":2.0, \"sku\":\"\\u0041\"} ],\n \"customer\":\"\\u00c4\" }";
    assert!(is_replay(&post(&desk, KEY, spelled).await));
    let changed = r#"{"customer":"Ä","items":[{"sku":"A","qty":3}]}"#;
    assert_eq!(post(&desk, KEY, changed).await.status(), 422);
}

#[test]
fn numbers_are_compared_by_value() {
    let number = |text: &str| contents(&format!("[{text}]"));
    for (one, same) in [
        ("1", "1.0"),
        ("1", "1e0"),
        ("100", "1E+2"),
        ("0.01", "1e-2"),
        ("-0.0", "0e9"),
        ("12.50", "1.25e1"),
        ("9007199254740993", "9007199254740993.0"),
        ("1e400", "10e399"),
    ] {
        assert_eq!(number(one), number(same), "{one} and {same} are one number");
    }
    for (one, other) in [
        ("9007199254740992", "9007199254740993"),
        ("18446744073709551616", "18446744073709551617"),
        ("0.1", "0.10000000000000000001"),
        ("1", "-1"),
        ("1", "10"),
        ("1", "\"1\""),
        ("0", "null"),
    ] {
        assert_ne!(number(one), number(other), "{one} and {other} are two");
    }
}

#[test]
fn the_order_of_elements_matters_and_that_of_members_does_not() {
    assert_eq!(contents(r#"{"a":1,"b":[1,2]}"#), contents(r#"{"b":[1,2],"a":1}"#));
    assert_ne!(contents(r#"{"a":[1,2]}"#), contents(r#"{"a":[2,1]}"#));
    assert_ne!(contents(r#"{"a":null}"#), contents("{}"));
    assert_ne!(contents(""), contents("{}"));
    assert_eq!(contents("a=1&b=2"), contents("a=1&b=2"));
    assert_ne!(
        contents("a=1&b=2"),
        contents("b=2&a=1"),
        "what is not JSON is compared byte by byte"
    );
}

#[test]
fn contents_open_to_dispute_are_not_compared() {
    let read = |body: &str| Contents::read("POST", "/orders", body.as_bytes()).unwrap_err();
    assert_eq!(read(r#"{"a":[{"qty":1,"q\u0074y":2}]}"#), Unreadable::NameTwice("qty".to_owned()));
    assert_eq!(read(r#"{"a":"\ud800"}"#), Unreadable::NotText);
    assert_eq!(read(r#"{"\ud800":1}"#), Unreadable::NotText);
    assert_eq!(
        read("1e99999999999999999999"),
        Unreadable::BeyondCounting("1e99999999999999999999".to_owned())
    );
    assert_eq!(read(&format!("{}{}", "[".repeat(129), "]".repeat(129))), Unreadable::TooDeep);
    contents(&format!("{}{}", "[".repeat(128), "]".repeat(128)));
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_400_and_leaves_the_key_free() {
    let desk = Desk::start().await;
    for (body, code) in [
        (r#"{"customer":"C-1","customer":"C-2"}"#, "body_unreadable"),
        (r#"{"customer":"#, "body_unreadable"),
        (r#"["no order"]"#, "order_invalid"),
        ("", "order_invalid"),
    ] {
        assert_problem(post(&desk, KEY, body).await, 400, code).await;
    }
    assert!(desk.rows().is_empty());
    assert_eq!(post(&desk, KEY, ORDER).await.status(), 201, "the corrected order may use the key");
}

// ---- the key header ------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_missing_key_is_400() {
    let desk = Desk::start().await;
    let answer = client().post(format!("{}/orders", desk.url())).body(ORDER).send().await.unwrap();
    assert_problem(answer, 400, "idempotency_key_missing").await;
    assert!(desk.rows().is_empty() && desk.orders().is_empty());
    assert_eq!(desk.suspicions(), [Suspicion::NoKey { number: 1 }]);
}

#[tokio::test]
async fn a_key_that_is_not_one_key_is_400() {
    let desk = Desk::start().await;
    let too_long = "k".repeat(256);
    let invalid: [&[u8]; 11] = [
        b"",
        b"\"\"",
        b" ",
        b"a, b",
        b"a;p=1",
        b"\"a\";p=1",
        b"\"a",
        b"a b",
        b"\"a\\b\"",
        b"caf\xc3\xa9",
        too_long.as_bytes(),
    ];
    for key in invalid {
        let key = reqwest::header::HeaderValue::from_bytes(key).unwrap();
        let request = client().post(format!("{}/orders", desk.url())).header("Idempotency-Key", key);
        let answer = request.body(ORDER).send().await.unwrap();
        assert_problem(answer, 400, "idempotency_key_invalid").await;
    }
    assert!(desk.rows().is_empty() && desk.keys().is_empty());
}

#[tokio::test]
async fn two_key_lines_are_400() {
    let desk = Desk::start().await;
    let answer = order(&desk, KEY, ORDER).header("Idempotency-Key", OTHER_KEY).send().await.unwrap();
    assert_problem(answer, 400, "idempotency_key_invalid").await;
    let requests = desk.requests();
    assert_eq!(requests[0].headers_named("idempotency-key"), [KEY, OTHER_KEY]);
    assert_eq!(requests[0].key, None);
}

#[tokio::test]
async fn a_quoted_and_a_raw_key_are_one() {
    let desk = Desk::start().await;
    post(&desk, KEY, ORDER).await;
    assert!(is_replay(&post(&desk, &format!("\"{KEY}\""), ORDER).await));
    assert_eq!(desk.keys(), [KEY]);
}

#[tokio::test]
async fn keys_are_case_sensitive() {
    let desk = Desk::start().await;
    post(&desk, KEY, ORDER).await;
    post(&desk, &KEY.to_uppercase(), ORDER).await;
    assert_eq!(desk.orders().len(), 2);
}

#[tokio::test]
async fn a_lookup_ignores_a_key() {
    let desk = Desk::start().await;
    post(&desk, KEY, ORDER).await;
    let request = client()
        .get(format!("{}/orders/ord-1", desk.url()))
        .header("Idempotency-Key", OTHER_KEY);
    assert_eq!(request.send().await.unwrap().status(), 200);
    assert_eq!(desk.keys(), [KEY]);
    assert_eq!(desk.rows().len(), 1);
    desk.assert_nothing_suspicious();
}

// ---- the shop ------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn an_order_is_amended_cancelled_and_found() {
    let desk = Desk::start().await;
    post(&desk, KEY, ORDER).await;
    let patch = r#"{"note":"ring twice","customer":null,"order_id":"mine","deliver":{"by":"noon"}}"#;
    let amended = send(&desk, "PATCH", "/orders/ord-1", OTHER_KEY, patch).await;
    assert_eq!(amended.headers()["etag"], "\"2\"");
    assert_eq!(
        json_of(amended).await,
        json!({"order_id": "ord-1", "status": "accepted", "items": [{"sku": "SKU-1", "qty": 2}],
               "note": "ring twice", "deliver": {"by": "noon"}})
    );
    let cancel = |key| send(&desk, "POST", "/orders/ord-1/cancel", key, "");
    assert_eq!(json_of(cancel("cancel-1").await).await["status"], "cancelled");
    assert!(is_replay(&cancel("cancel-1").await));
    assert_problem(cancel("cancel-2").await, 409, "order_cancelled").await;

    let found = get(&desk, &format!("/orders/by-key/{KEY}")).await;
    assert_eq!(found.headers()["etag"], "\"3\"");
    assert_eq!(json_of(found).await, desk.orders()[0]);
    assert_problem(get(&desk, "/orders/ord-9").await, 404, "order_not_found").await;
    assert_problem(get(&desk, "/orders/by-key/unheard-of").await, 404, "order_not_found").await;
    let nobody = send(&desk, "PATCH", "/orders/ord-9", "patch-2", "{}").await;
    assert_problem(nobody, 404, "order_not_found").await;
    desk.assert_one_order_per_key();
}

/// RFC 9110, section 13.1.1: only the version that stands is changed or cancelled.
#[tokio::test]
async fn a_change_of_another_version_than_the_one_that_stands_is_412_and_does_nothing() {
    let desk = Desk::start().await;
    post(&desk, KEY, ORDER).await;
    assert_eq!(desk.change_order("ord-1", json!({"note": "ring twice"})), "\"2\"");
    let before = desk.orders();
    for (n, tag) in ["\"1\"", "W/\"2\"", "\"1\", \"3\"", "2", ""].iter().enumerate() {
        for (what, answer) in [
            ("PATCH", on(&desk, "PATCH", "/orders/ord-1", &format!("amend-{n}"), tag).await),
            (
                "cancel",
                on(&desk, "POST", "/orders/ord-1/cancel", &format!("cancel-{n}"), tag).await,
            ),
        ] {
            assert_eq!(answer.status(), 412, "{what} {tag}");
            assert_problem(answer, 412, "precondition_failed").await;
        }
    }
    assert_eq!(desk.orders(), before);
    for (n, tag) in ["\"2\"", "*", "\"9\", \"4\""].iter().enumerate() {
        let amended = on(&desk, "PATCH", "/orders/ord-1", &format!("fits-{n}"), tag).await;
        assert_eq!(amended.headers()["etag"], format!("\"{}\"", n + 3), "{tag}");
    }
    assert_eq!(on(&desk, "POST", "/orders/ord-1/cancel", "ends", "\"5\"").await.status(), 200);
    // A precondition is looked at where there would be a success without it.
    assert_problem(on(&desk, "PATCH", "/orders/ord-1", "late", "\"1\"").await, 409, "order_cancelled").await;
    assert_problem(on(&desk, "PATCH", "/orders/ord-9", "none", "*").await, 404, "order_not_found").await;
    assert_eq!((desk.writes().len(), desk.lookups().len()), (17, 0));
    get(&desk, "/orders/ord-1").await;
    assert_eq!(desk.lookups().len(), 1);
}

/// The key goes first: what was done is told as done, and what was refused stays refused, whatever version stands by then.
#[tokio::test]
async fn a_repeat_of_a_change_gets_its_stored_answer_whatever_version_stands_now() {
    let desk = Desk::start().await;
    post(&desk, KEY, ORDER).await;
    let amend = |key| on(&desk, "PATCH", "/orders/ord-1", key, "\"1\"");
    desk.script("lose reply".parse().unwrap());
    let lost = of_version(&desk, "PATCH", "/orders/ord-1", "amend-1", "\"1\"").send().await;
    lost.unwrap_err();
    let replayed = amend("amend-1").await;
    assert!(is_replay(&replayed));
    assert_eq!(
        (replayed.status().as_u16(), &replayed.headers()["etag"]),
        (200, &"\"2\"".parse().unwrap())
    );
    let refused = amend("amend-2").await;
    assert!(!is_replay(&refused));
    assert_problem(refused, 412, "precondition_failed").await;
    // The order is again what it was: another version all the same.
    assert_eq!(desk.change_order("ord-1", json!({"note": null})), "\"3\"");
    let again = amend("amend-2").await;
    assert!(is_replay(&again));
    assert_problem(again, 412, "precondition_failed").await;
    assert_eq!(desk.orders()[0].get("note"), None);
    desk.assert_one_order_per_key();
}

/// The unkind order of things, which no client can prevent and each has to survive.
#[tokio::test]
async fn a_server_that_validates_first_answers_412_to_the_repeat_of_a_change_that_stands() {
    let desk = Desk::builder().unkind(Unkind::ValidatesFirst).start().await.unwrap();
    post(&desk, KEY, ORDER).await;
    assert_eq!(on(&desk, "PATCH", "/orders/ord-1", "amend-1", "\"1\"").await.status(), 200);
    assert_problem(
        on(&desk, "PATCH", "/orders/ord-1", "amend-1", "\"1\"").await,
        412,
        "precondition_failed",
    )
    .await;
    assert_eq!(get(&desk, "/orders/ord-1").await.headers()["etag"], "\"2\"");
}

#[tokio::test]
async fn somebody_else_changes_an_order_from_any_language() {
    let desk = Desk::start().await;
    post(&desk, KEY, ORDER).await;
    let change = |id: &str, patch: &'static str| client().post(format!("{}/_desk/change/{id}", desk.url())).body(patch).send();
    let changed = change("ord-1", r#"{"status":"cancelled","order_id":"x"}"#).await.unwrap();
    assert_eq!(
        (changed.status().as_u16(), &changed.headers()["etag"]),
        (204, &"\"2\"".parse().unwrap())
    );
    assert_eq!(
        (&desk.orders()[0]["status"], &desk.orders()[0]["order_id"]),
        (&json!("cancelled"), &json!("ord-1"))
    );
    assert_eq!(change("ord-9", "{}").await.unwrap().status(), 404);
    assert_eq!(change("ord-1", "[]").await.unwrap().status(), 400);
    assert!(failure(|| drop(desk.change_order("ord-9", json!({})))).contains("there is no ord-9"));
    assert!(failure(|| drop(desk.change_order("ord-1", json!(null)))).contains("no JSON object"));
    assert_eq!(desk.requests().len(), 1, "it is no request of the order API");
}

#[tokio::test]
async fn a_stray_is_599_and_counted() {
    let desk = Desk::start().await;
    assert_problem(send(&desk, "POST", "/order", KEY, ORDER).await, 599, "no_such_endpoint").await;
    assert_problem(send(&desk, "PUT", "/orders", KEY, ORDER).await, 599, "no_such_endpoint").await;
    assert_eq!(desk.strays().len(), 2);
    assert!(desk.keys().is_empty());
    let said = failure(|| desk.assert_nothing_suspicious());
    assert!(said.contains("a stray: #1 POST /order "), "{said}");
}

// ---- your own endpoint ---------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_served_handler_is_called_once_per_key() {
    let desk = Desk::start().await;
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    desk.serve("post", "/rooms/{room}/bookings", move |request| {
        *counted.lock().unwrap() += 1;
        let room = request.segment("room");
        Reply::json(
            201,
            json!({"room": room, "nights": request.json()["nights"], "key": request.seen().key}),
        )
    });
    for _ in 0..3 {
        let answer = send(&desk, "POST", "/rooms/blue%20one/bookings", KEY, r#"{"nights":2}"#).await;
        assert_eq!(json_of(answer).await, json!({"room": "blue one", "nights": 2, "key": KEY}));
    }
    assert_eq!(*calls.lock().unwrap(), 1);
    let found: Value = json_of(get(&desk, &format!("/orders/by-key/{KEY}")).await).await;
    assert_eq!(found["room"], "blue one");
    desk.assert_one_order_per_key();
}

#[tokio::test]
async fn a_served_lookup_has_no_key_and_no_script() {
    let desk = Desk::start().await;
    desk.serve("GET", "/rooms", |_| Reply::json(200, json!(["blue"])));
    desk.script(Script::new().status(503));
    assert_eq!(json_of(get(&desk, "/rooms").await).await, json!(["blue"]));
    assert_eq!(desk.script_left(), 1);
}

#[tokio::test]
async fn a_panicking_handler_gives_the_key_free_and_fails_the_assertions() {
    let desk = Desk::start().await;
    let first = Mutex::new(true);
    desk.serve("POST", "/rooms", move |_| {
        let panics = std::mem::replace(&mut *first.lock().unwrap(), false);
        if panics { panic!("no such room") } else { Reply::status(201) }
    });
    assert_problem(send(&desk, "POST", "/rooms", KEY, "{}").await, 500, "handler_panicked").await;
    assert_eq!(send(&desk, "POST", "/rooms", KEY, "{}").await.status(), 201);
    let said = failure(|| desk.assert_one_order_per_key());
    assert!(said.starts_with("a handler panicked at request #1: no such room"), "{said}");
}

#[tokio::test]
async fn a_reply_that_cannot_be_said_is_500_and_says_so() {
    let desk = Desk::start().await;
    let unspeakable = [
        Reply::status(42),
        Reply::status(100),
        Reply::status(200).header("Content-Length", "7"),
        Reply::status(200).header("X-Bad", "a\r\nb"),
        Reply::status(200).header("bad name", "a"),
    ];
    for reply in unspeakable {
        desk.script(Script::new().reply(reply));
        assert_problem(post(&desk, KEY, ORDER).await, 500, "unspeakable").await;
    }
}

// ---- faults --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_reply_lost_after_the_commit_leaves_one_order_to_replay() {
    let desk = Desk::start().await;
    desk.script(Script::new().commit_then_lose_reply());
    order(&desk, KEY, ORDER).send().await.unwrap_err();
    assert_eq!(desk.orders().len(), 1);
    assert!(is_replay(&post(&desk, KEY, ORDER).await));
    let statuses: Vec<_> = desk.attempts(KEY).iter().map(|seen| seen.status).collect();
    assert_eq!(statuses, [None, Some(201)]);
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn a_lost_request_leaves_nothing() {
    let desk = Desk::start().await;
    desk.script(Script::new().lose_request());
    order(&desk, KEY, ORDER).send().await.unwrap_err();
    assert!(desk.orders().is_empty() && desk.rows().is_empty());
    let answer = post(&desk, KEY, ORDER).await;
    assert_eq!((answer.status().as_u16(), is_replay(&answer)), (201, false));
    assert_eq!(did(&desk), [Did::Nothing, Did::Claimed]);
}

#[tokio::test]
async fn statuses_before_the_commit_leave_nothing() {
    let desk = Desk::start().await;
    let limited = Reply::status(429).retry_after("3");
    desk.script(
        Script::new()
            .status(503)
            .times(2)
            .reply(limited)
            .unauthorized()
            .redirect(307, "/elsewhere")
            .then_ok(),
    );
    for expected in [503, 503, 429, 401, 307] {
        let answer = post(&desk, KEY, ORDER).await;
        assert_eq!(answer.status(), expected);
        match expected {
            429 => assert_eq!(answer.headers()["retry-after"], "3"),
            401 => assert_eq!(answer.headers()["www-authenticate"], "Bearer"),
            307 => assert_eq!(answer.headers()["location"], "/elsewhere"),
            _ => assert_eq!(answer.headers()["content-type"], "application/problem+json"),
        }
        assert!(desk.orders().is_empty() && desk.rows().is_empty());
    }
    assert_eq!(post(&desk, KEY, ORDER).await.status(), 201);
    desk.assert_script_played();
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn a_504_after_the_commit_hides_an_order() {
    let desk = Desk::start().await;
    desk.script(Script::new().commit_then_status(504));
    let hidden = post(&desk, KEY, ORDER).await;
    assert_eq!((hidden.status().as_u16(), is_replay(&hidden)), (504, false));
    assert_eq!(desk.orders().len(), 1);
    let answer = post(&desk, KEY, ORDER).await;
    assert_eq!((answer.status().as_u16(), is_replay(&answer)), (201, true));
}

#[tokio::test]
async fn a_202_is_followed_by_the_stored_201() {
    let desk = Desk::start().await;
    desk.script(Script::new().accepted());
    let accepted = post(&desk, KEY, ORDER).await;
    assert_eq!(
        (accepted.status().as_u16(), &accepted.headers()["retry-after"]),
        (202, &"1".parse().unwrap())
    );
    assert_eq!(post(&desk, KEY, ORDER).await.status(), 201);
    desk.assert_one_order_per_key();
}

#[tokio::test]
async fn a_late_reply_is_committed_at_once_and_holds_up_nobody() {
    let desk = Desk::start().await;
    desk.script(Script::new().reply_after(Duration::from_secs(3600)));
    let (told, committed) = mpsc::channel();
    desk.after_commit(move |seen| told.send(seen.number).unwrap());
    let late = tokio::spawn(order(&desk, KEY, ORDER).send());
    tokio::task::spawn_blocking(move || committed.recv().unwrap()).await.unwrap();
    assert_eq!(desk.orders().len(), 1, "committed before the answer is due");
    assert!(is_replay(&post(&desk, KEY, ORDER).await), "the retry is served meanwhile");
    assert!(!late.is_finished());
    late.abort();
}

/// Whatever the test's own code is called for, it may ask the desk, and set it.
#[tokio::test]
async fn handlers_and_hooks_may_ask_the_desk_they_are_called_from() {
    let desk = Arc::new(Desk::start().await);
    let all = |desk: &Desk| {
        desk.script(Script::new());
        (desk.orders().len(), desk.rows().len(), desk.script_left(), desk.suspicions().len())
    };
    let weak = Arc::downgrade(&desk);
    let ask = move || weak.upgrade().map(|desk| all(&desk)).unwrap();
    for (method, path) in [("GET", "/mirror"), ("POST", "/mirror")] {
        let ask = ask.clone();
        desk.serve(method, path, move |_| Reply::json(200, json!(ask())));
    }
    let hook = || {
        let ask = ask.clone();
        move |_: &Seen| {
            ask();
        }
    };
    desk.on_request(hook());
    desk.after_commit(hook());
    desk.on_answer(hook());
    let asked = async {
        assert_eq!(get(&desk, "/mirror").await.status(), 200);
        assert_eq!(send(&desk, "POST", "/mirror", KEY, "{}").await.status(), 200);
        assert_eq!(post(&desk, OTHER_KEY, ORDER).await.status(), 201);
    };
    tokio::time::timeout(Duration::from_secs(60), asked)
        .await
        .expect("nobody waits for himself");
    desk.assert_one_order_per_key();
}

#[tokio::test]
async fn a_script_is_not_used_up_by_lookups_and_strays() {
    let desk = Desk::start().await;
    desk.script(Script::new().status(503));
    assert_eq!(get(&desk, "/orders/ord-1").await.status(), 404);
    assert_eq!(get(&desk, "/nowhere").await.status(), 599);
    let said = failure(|| desk.assert_script_played());
    assert!(
        said.starts_with("the script was played: 1 of its situations never came up"),
        "{said}"
    );
    assert_eq!(post(&desk, KEY, ORDER).await.status(), 503);
    desk.assert_script_played();
}

#[tokio::test]
async fn times_repeats_the_situation_before_it_only() {
    let desk = Desk::start().await;
    desk.script(Script::new().times(3).status(500).status(503).times(2).status(502).times(0));
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(post(&desk, KEY, ORDER).await.status().as_u16());
    }
    assert_eq!(statuses, [500, 503, 503, 201]);
}

// ---- hooks ---------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn hooks_see_the_request_before_anything_and_after_the_commit() {
    let desk = Desk::start().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let (before, after) = (Arc::clone(&told), Arc::clone(&told));
    desk.on_request(move |seen| before.lock().unwrap().push(("arrived", seen.did, seen.key.clone())));
    desk.after_commit(move |seen| after.lock().unwrap().push(("committed", seen.did, seen.key.clone())));
    desk.script(Script::new().status(503).commit_then_lose_reply());
    let key = || Some(KEY.to_owned());
    post(&desk, KEY, ORDER).await;
    order(&desk, KEY, ORDER).send().await.unwrap_err();
    post(&desk, KEY, ORDER).await;
    assert_eq!(
        *told.lock().unwrap(),
        [
            ("arrived", Did::Nothing, key()),
            ("arrived", Did::Nothing, key()),
            ("committed", Did::Claimed, key()),
            ("arrived", Did::Nothing, key()),
        ]
    );
}

#[tokio::test]
async fn an_assertion_in_a_hook_is_not_lost() {
    let desk = Desk::start().await;
    desk.on_request(|seen| assert_eq!(seen.attempt, Some(1), "the journal says otherwise"));
    let answer = order(&desk, KEY, ORDER).header("X-Attempt", "2").send().await.unwrap();
    assert_problem(answer, 500, "hook_panicked").await;
    assert!(desk.orders().is_empty());
    let said = failure(|| desk.assert_nothing_suspicious());
    assert!(
        said.contains("a hook panicked at request #1") && said.contains("the journal says otherwise"),
        "{said}"
    );
}

// ---- telling and asserting -----------------------------------------------------------------------------------------

#[tokio::test]
async fn a_request_is_recorded_as_it_came() {
    let desk = Desk::start().await;
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request = client().post(format!("{}/orders?a=1", desk.url())).header("Idempotency-Key", KEY);
    let request = request
        .header("X-Request-Id", "r-1")
        .header("X-Attempt", "3")
        .header("traceparent", traceparent);
    request.body(ORDER).send().await.unwrap();
    let seen = desk.requests().remove(0);
    assert_eq!((seen.number, seen.method.as_str(), seen.path.as_str()), (1, "POST", "/orders"));
    assert_eq!((seen.query.as_deref(), seen.key.as_deref()), (Some("a=1"), Some(KEY)));
    assert_eq!((seen.request_id.as_deref(), seen.attempt), (Some("r-1"), Some(3)));
    assert_eq!(seen.traceparent.as_deref(), Some(traceparent));
    assert_eq!(seen.header("X-REQUEST-ID"), Some("r-1"));
    assert_eq!((seen.body.as_slice(), seen.body_hash.len()), (ORDER.as_bytes(), 16));
    assert_eq!(
        seen.to_string(),
        format!(
            "#1 POST /orders?a=1 | key {KEY} | request id r-1 | body {} | ledger: claimed, done and stored | answered 201",
            seen.body_hash
        )
    );
}

#[tokio::test]
async fn a_deaf_desk_makes_two_orders() {
    let desk = Desk::deaf().await;
    desk.script(Script::new().commit_then_lose_reply());
    order(&desk, KEY, ORDER).send().await.unwrap_err();
    assert_eq!(post(&desk, KEY, ORDER).await.status(), 201);
    assert_eq!(desk.orders().len(), 2);
    assert!(desk.rows().is_empty());
    let said = failure(|| desk.assert_one_order_per_key());
    assert!(said.contains(&format!("{KEY} took effect 2 times, by #1, #2")), "{said}");
    for told in [
        "#1 POST /orders",
        "#2 POST /orders",
        "none (deaf)",
        "closed without an answer",
        "answered 201",
    ] {
        assert!(said.contains(told), "{told} is missing in: {said}");
    }
    let said = failure(|| desk.assert_one_order(|order| order["customer"] == "C-100"));
    assert!(said.contains("2 of 2 orders"), "{said}");
}

#[tokio::test]
async fn an_assertion_over_nothing_fails() {
    let desk = Desk::start().await;
    assert!(failure(|| desk.assert_one_order_per_key()).contains("no request came"));
    assert!(failure(|| desk.assert_one_order(|_| true)).contains("0 of 0"));
    let deaf = Desk::deaf().await;
    client().post(format!("{}/orders", deaf.url())).body(ORDER).send().await.unwrap();
    assert!(failure(|| deaf.assert_one_order_per_key()).contains("without a key"));
}

// ---- suspicions ----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_key_minted_in_the_retry_is_suspicious() {
    let unclear = [
        Script::new().commit_then_lose_reply(),
        Script::new().lose_request(),
        Script::new().status(503),
        Script::new().commit_then_status(504),
        Script::new().store_status(500),
        Script::new().accepted(),
        Script::new().get_stuck(),
        Script::new().status(429),
        Script::new().unauthorized(),
        Script::new().redirect(302, "/"),
    ];
    for script in unclear {
        let desk = Desk::start().await;
        desk.script(script.clone());
        drop(order(&desk, KEY, ORDER).send().await);
        post(&desk, OTHER_KEY, ORDER).await;
        let minted = Suspicion::MintedInRetry {
            earlier: 1,
            earlier_key: KEY.to_owned(),
            later: 2,
            later_key: OTHER_KEY.to_owned(),
        };
        assert_eq!(desk.suspicions(), [minted], "{script:?}");
        let said = failure(|| desk.assert_nothing_suspicious());
        assert!(said.contains("was minted inside a retry"), "{said}");
    }
}

#[tokio::test]
async fn a_key_minted_while_the_answer_is_late_is_suspicious() {
    let desk = Desk::start().await;
    desk.script(Script::new().reply_after(Duration::from_secs(3600)));
    let (told, committed) = mpsc::channel();
    desk.after_commit(move |seen| told.send(seen.number).unwrap());
    let late = tokio::spawn(order(&desk, KEY, ORDER).send());
    tokio::task::spawn_blocking(move || committed.recv().unwrap()).await.unwrap();
    post(&desk, OTHER_KEY, ORDER).await;
    late.abort();
    assert!(matches!(
        desk.suspicions().as_slice(),
        [Suspicion::MintedInRetry { earlier: 1, later: 2, .. }]
    ));
}

#[tokio::test]
async fn two_honest_equal_orders_are_not_suspicious() {
    let desk = Desk::start().await;
    post(&desk, KEY, ORDER).await;
    post(&desk, OTHER_KEY, ORDER).await;
    assert_eq!(desk.orders().len(), 2);
    assert_eq!(desk.suspicions(), []);
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn an_equal_order_after_a_retry_that_was_answered_is_not_suspicious() {
    let desk = Desk::start().await;
    desk.script(Script::new().commit_then_lose_reply().status(503).then_ok());
    order(&desk, KEY, ORDER).send().await.unwrap_err();
    post(&desk, KEY, ORDER).await;
    post(&desk, KEY, ORDER).await;
    post(&desk, OTHER_KEY, ORDER).await;
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn a_new_key_after_a_definite_refusal_is_not_suspicious() {
    let desk = Desk::start().await;
    desk.script(Script::new().refuse());
    post(&desk, KEY, ORDER).await;
    post(&desk, OTHER_KEY, ORDER).await;
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn other_contents_after_a_lost_reply_are_not_suspicious() {
    let desk = Desk::start().await;
    desk.script(Script::new().commit_then_lose_reply());
    order(&desk, KEY, ORDER).send().await.unwrap_err();
    post(&desk, OTHER_KEY, r#"{"customer":"C-200"}"#).await;
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn a_request_id_used_twice_is_suspicious() {
    let desk = Desk::start().await;
    for _ in 0..2 {
        order(&desk, KEY, ORDER).header("X-Request-Id", "r-1").send().await.unwrap();
    }
    let reused = Suspicion::RequestIdReused {
        request_id: "r-1".to_owned(),
        first: 1,
        second: 2,
    };
    assert_eq!(reused.to_string(), "the requests #1 and #2 have one request id, r-1");
    assert_eq!(desk.suspicions(), [reused]);
}

#[tokio::test]
async fn a_key_that_is_no_uuid_v4_is_suspicious() {
    let desk = Desk::start().await;
    let version_1 = "c232ab00-9414-11ec-b3c8-9f6bdeced846";
    for key in ["order-17", version_1, "8e03978e40d543ddbc936894a57f9324"] {
        post(&desk, key, ORDER).await;
        post(&desk, key, ORDER).await;
    }
    let flagged: Vec<usize> = desk
        .suspicions()
        .iter()
        .map(|suspicion| match suspicion {
            Suspicion::NotUuidV4 { number, .. } => *number,
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(flagged, [1, 3, 5], "each key once");
}

// ---- helpers -------------------------------------------------------------------------------------------------------

fn client() -> Client {
    crate::kit::plain_client()
}

/// An order ready to be sent. The client is new, so no pooled connection is tried twice behind our back.
fn order(desk: &Desk, key: &str, body: &str) -> RequestBuilder {
    request(desk, "POST", "/orders", key, body)
}

fn request(desk: &Desk, method: &str, path: &str, key: &str, body: &str) -> RequestBuilder {
    client()
        .request(method.parse().unwrap(), format!("{}{path}", desk.url()))
        .header("Idempotency-Key", key)
        .header("Content-Type", "application/json")
        .body(body.to_owned())
}

async fn post(desk: &Desk, key: &str, body: &str) -> Response {
    order(desk, key, body).send().await.unwrap()
}

async fn send(desk: &Desk, method: &str, path: &str, key: &str, body: &str) -> Response {
    request(desk, method, path, key, body).send().await.unwrap()
}

/// A change of the version that the tag names.
fn of_version(desk: &Desk, method: &str, path: &str, key: &str, tag: &str) -> RequestBuilder {
    request(desk, method, path, key, r#"{"note":"n"}"#).header("If-Match", tag)
}

async fn on(desk: &Desk, method: &str, path: &str, key: &str, tag: &str) -> Response {
    of_version(desk, method, path, key, tag).send().await.unwrap()
}

async fn get(desk: &Desk, path: &str) -> Response {
    client().get(format!("{}{path}", desk.url())).send().await.unwrap()
}

async fn json_of(answer: Response) -> Value {
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

#[track_caller]
fn is_replay(answer: &Response) -> bool {
    answer.headers().get("idempotent-replayed").is_some_and(|marker| marker == "true")
}

async fn assert_problem(answer: Response, status: u16, code: &str) {
    assert_eq!(answer.status(), status);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    let problem = json_of(answer).await;
    assert_eq!((&problem["status"], &problem["code"]), (&json!(status), &json!(code)));
}

fn contents(body: &str) -> Contents {
    Contents::read("POST", "/orders", body.as_bytes()).unwrap()
}

fn did(desk: &Desk) -> Vec<Did> {
    desk.requests().iter().map(|seen| seen.did).collect()
}

/// What the assertion said when it failed.
#[track_caller]
fn failure(assertion: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(assertion)).expect_err("the assertion held");
    *panic.downcast::<String>().expect("a story")
}
