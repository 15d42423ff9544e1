//! What goes over the wire, and what is made of what comes back: once, under one key, to one server, within limits.

use crate::{
    bare::{Door, RawDesk},
    kit::{Folder, Tokens, brisk, order},
};
use serde::Serialize;
use serde_json::json;
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;
use uketsuke::{
    Actor, ApiBuilder, Dialect, Effect, Error, ErrorKind, IdempotencyKey, JsonOrder, KeyPlace, NextStep, Operation, OrderClient,
    OrderReceipt, Origin, Outcome, Pacing, PlaceOrder, Receipt, ReviewReason, Route, Timeouts, ToolReply,
    testkit::{Desk, Reply, Script},
    unversioned::{TuneHttp, reqwest::header::HeaderMap},
};

fn mail() -> Origin {
    Origin::mail("<1@example.com>")
}

async fn client_of(folder: &Folder, api: ApiBuilder) -> OrderClient {
    OrderClient::new(folder.journal().await, api.build().unwrap(), Actor::agent("test-agent"))
}

async fn submit(client: &OrderClient) -> Result<Outcome<OrderReceipt>, Error> {
    client.submit(mail(), &order()).await
}

#[track_caller]
fn success<R: std::fmt::Debug>(result: Result<Outcome<R>, Error>) -> Receipt<R> {
    match result {
        Ok(Outcome::Succeeded(receipt)) => receipt,
        other => panic!("no success: {other:?}"),
    }
}

/// The error, its kind and the order's effect; everything that is open can be resumed, so it has a key.
#[track_caller]
fn open<R: std::fmt::Debug>(result: Result<Outcome<R>, Error>, kind: ErrorKind, effect: Effect) -> (Error, IdempotencyKey) {
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{error}");
    let key = error.key().expect("an open order has a key");
    assert!(error.to_string().contains(&key.to_string()), "{error}");
    (error, key)
}

fn is_uuid_v4(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    lengths == [8, 4, 4, 4, 12]
        && groups.concat().bytes().all(hex)
        && groups[2].starts_with('4')
        && groups[3].starts_with(['8', '9', 'a', 'b'])
}

// ---- one order, many attempts ----------------------------------------------------------------------------------------

/// BUG-02: one key, one body and one trace through all attempts; a request id, a number and a span for each.
#[tokio::test]
async fn every_attempt_has_its_own_request_id() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let again = Reply::status(429).retry_after("0");
    desk.script(Script::new().status(503).reply(again).lose_request().then_ok());
    let client = folder.client(&desk).await;
    let receipt = success(submit(&client).await);
    assert_eq!(receipt.attempts, 4);
    let requests = desk.requests();
    assert_eq!(requests.len(), 4);
    let distinct = |of: &dyn Fn(usize) -> String| (0..4).map(of).collect::<BTreeSet<String>>();

    assert!(is_uuid_v4(&receipt.key.to_string()));
    for request in &requests {
        assert_eq!(request.headers_named("idempotency-key"), [receipt.key.to_string()]);
        assert_eq!(request.headers_named("x-request-id").len(), 1);
        assert_eq!(request.headers_named("traceparent").len(), 1);
    }
    let request_ids = distinct(&|n| requests[n].request_id.clone().unwrap());
    assert_eq!(request_ids.len(), 4);
    assert!(
        request_ids.iter().all(|id| is_uuid_v4(id) && *id != receipt.key.to_string()),
        "{request_ids:?}"
    );
    let attempts: Vec<Option<u32>> = requests.iter().map(|request| request.attempt).collect();
    assert_eq!(attempts, [Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(distinct(&|n| String::from_utf8(requests[n].body.clone()).unwrap()).len(), 1);
    let part = |n: usize, of: usize| requests[n].traceparent.as_ref().unwrap().split('-').nth(of).unwrap().to_owned();
    assert_eq!(distinct(&|n| part(n, 1)).len(), 1, "one trace");
    assert_eq!(distinct(&|n| part(n, 2)).len(), 4, "a span each");
    // The journal knows each request by the id it had on the wire.
    let written: BTreeSet<String> = folder
        .events("sent")
        .iter()
        .map(|e| e["data"]["request"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(written, request_ids);
    desk.assert_script_played();
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
}

/// BUG-04: of two lines of one name some servers read the first and some the last: that would be two orders.
#[tokio::test]
async fn the_key_header_stands_once() {
    let mut defaults = HeaderMap::new();
    defaults.insert("idempotency-key", "stray".parse().unwrap());
    defaults.append("idempotency-key", "stray-too".parse().unwrap());
    defaults.insert("order-key", "stray".parse().unwrap());
    for (name, dialect) in [
        ("idempotency-key", Dialect::ietf()),
        ("order-key", Dialect::ietf().key(KeyPlace::RawHeader("Order-Key".to_owned()))),
        (
            "idempotency-key",
            Dialect::ietf().key(KeyPlace::QuotedHeader("Idempotency-Key".to_owned())),
        ),
    ] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let defaults = defaults.clone();
        let api = brisk(&desk.url())
            .dialect(dialect)
            .tune_http(|client| client.default_headers(defaults));
        let client = client_of(&folder, api).await;
        let told = client
            .submit(mail(), &JsonOrder::new(Route::post("orders"), json!({"sku": "A"})))
            .await;
        let key = told.as_ref().map_or_else(|error| error.key().unwrap(), Outcome::key);
        let lines: Vec<String> = desk.requests()[0]
            .headers_named(name)
            .iter()
            .map(|line| (*line).to_owned())
            .collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(lines[0].trim_matches('"'), key.to_string());
    }
    // An order can't even ask for the name, be it the usual one or the dialect's own.
    for (asked, place) in [("Idempotency-Key", "Idempotency-Key"), ("order-key", "Order-Key")] {
        let folder = Folder::new();
        let dialect = Dialect::ietf().key(KeyPlace::RawHeader(place.to_owned()));
        let client = client_of(&folder, brisk("http://127.0.0.1:1").dialect(dialect)).await;
        let route = Route::post("orders").header(asked, "stray");
        let error = client.submit(mail(), &JsonOrder::new(route, json!({}))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

/// However long the trouble lasts: the limit is a limit, and the order stays open under its key.
#[tokio::test]
async fn four_attempts_are_four() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().status(503).times(10));
    let client = folder.client(&desk).await;
    let (error, key) = open(submit(&client).await, ErrorKind::InDoubt, Effect::Possible);
    assert_eq!((error.attempts(), desk.requests().len(), desk.script_left()), (4, 4, 6));
    assert_eq!(folder.events("sent").len(), 4);
    // A later call has four of its own, and counts them over all runs.
    let (error, _) = open(submit(&client).await, ErrorKind::InDoubt, Effect::Possible);
    assert_eq!((error.attempts(), desk.requests().len()), (8, 8));
    assert_eq!(desk.keys(), [key.to_string()]);
    assert_eq!(desk.requests().last().unwrap().attempt, Some(8));
}

// ---- no answer ---------------------------------------------------------------------------------------------------------

/// BUG-77, R15: a connection that is closed before a reply says nothing of what the server did.
#[tokio::test]
async fn closed_before_reply_is_in_doubt_not_unsent() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().times(4));
    let client = folder.client(&desk).await;
    let (error, key) = open(submit(&client).await, ErrorKind::InDoubt, Effect::Possible);
    assert_eq!(error.attempts(), 4);
    assert_eq!(error.next_step(), NextStep::Resume { not_before: None });
    let said = error.to_string();
    assert!(
        said.contains("outcome unknown") && said.contains("resume it under the same key"),
        "{said}"
    );
    assert_eq!(ToolReply::of::<()>(&Err(error)).status, "unknown");
    assert!(folder.events("settled").is_empty());
    assert_eq!((desk.requests().len(), desk.orders().len()), (4, 1));
    let outcome = client.resume(key).await;
    assert!(success(outcome).replayed);
    assert_eq!((desk.requests().len(), desk.orders().len()), (5, 1));
    desk.assert_one_order_per_key();
}

/// BUG-35: a success whose body did not come whole is neither a success nor a refusal: the same key asks again.
#[tokio::test]
async fn a_cut_201_is_retried_not_refused() {
    const WHOLE: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\nidempotent-replayed: true\r\n\
                         content-length: 20\r\n\r\n{\"order_id\":\"ord-1\"}";
    const BY_LENGTH: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"ord";
    const CHUNKED: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"ord\r\n";
    for turns in [&[BY_LENGTH, WHOLE], &[CHUNKED, WHOLE]] {
        let (desk, folder) = (RawDesk::start(turns).await, Folder::new());
        let client = folder.client_at(desk.url()).await;
        let receipt = success(submit(&client).await);
        assert_eq!(receipt.value.order_id.as_deref(), Some("ord-1"));
        assert!(receipt.replayed);
        assert_eq!(desk.keys(), [receipt.key.to_string(), receipt.key.to_string()]);
        let seen = &folder.events("observed")[0]["data"]["seen"];
        assert_eq!(*seen, json!({"half_answer": {"status": 201, "half": "cut"}}));
    }
}

/// BUG-31: a refused connection is the one proof that nothing left; the order waits, and goes out once when the server is there.
#[tokio::test]
async fn a_closed_port_is_not_sent_and_resume_sends_once() {
    let (desk, folder, door) = (Desk::start().await, Folder::new(), Door::closed());
    let client = folder.client_at(&door.url()).await;
    let (error, key) = open(submit(&client).await, ErrorKind::NotSent, Effect::None);
    assert_eq!((error.attempts(), error.next_step()), (4, NextStep::Resume { not_before: None }));
    assert_eq!(ToolReply::of::<()>(&Err(error)).status, "not_sent");
    door.open_to(&desk);
    let resumed = client.resume_pending().await.unwrap().resumed;
    assert_eq!(resumed.len(), 1);
    let receipt = success(resumed[0].result.clone());
    assert_eq!((receipt.key, receipt.replayed, receipt.attempts), (key, false, 5));
    assert_eq!(desk.requests().len(), 1);
    desk.assert_one_order_per_key();
}

// ---- answers that are no outcome -----------------------------------------------------------------------------------------

/// BUG-40, BUG-41: a 302 would turn the order into a GET, a 307 would carry body and key to another host.
#[tokio::test]
async fn redirects_are_never_followed() {
    let other = Desk::start().await;
    for status in [301, 302, 303, 307, 308] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        desk.script(Script::new().redirect(status, &format!("{}/orders", other.url())));
        let client = folder.client(&desk).await;
        let (error, key) = open(submit(&client).await, ErrorKind::UnexpectedRedirect, Effect::Possible);
        assert_eq!((error.attempts(), error.next_step()), (1, NextStep::FixSetup));
        assert!(!error.to_string().contains(&other.url()), "{error}");
        assert_eq!(desk.requests().len(), 1);
        // Open, under the same key: once the address is right again, it is one order.
        assert_eq!(success(client.resume(key).await).key, key);
        desk.assert_one_order_per_key();
    }
    assert!(other.requests().is_empty(), "{}", other.story());
}

/// BUG-29: a loop that refreshed the token and went on with the old one until the limit.
#[tokio::test]
async fn a_401_is_answered_once_with_a_fresh_credential() {
    let tokens = |desk: &Desk| -> Vec<String> {
        let tokens = desk.requests().into_iter().map(|r| r.header("authorization").unwrap().to_owned());
        tokens.collect()
    };
    let (desk, folder, vault) = (Desk::start().await, Folder::new(), Tokens::new(&["t1", "t2"]));
    desk.script(Script::new().unauthorized().then_ok());
    let client = client_of(&folder, brisk(&desk.url()).credentials(vault.clone())).await;
    assert_eq!(success(submit(&client).await).attempts, 2);
    assert_eq!(tokens(&desk), ["Bearer t1", "Bearer t2"]);
    assert_eq!(vault.refreshes(), 1);
    desk.assert_one_order_per_key();

    let (desk, folder, vault) = (Desk::start().await, Folder::new(), Tokens::new(&["t1", "t2", "t3"]));
    desk.script(Script::new().unauthorized().times(2).then_ok());
    let client = client_of(&folder, brisk(&desk.url()).credentials(vault.clone())).await;
    let (error, key) = open(submit(&client).await, ErrorKind::Unauthorized, Effect::None);
    assert_eq!((error.attempts(), error.next_step()), (2, NextStep::FixSetup));
    assert_eq!(tokens(&desk), ["Bearer t1", "Bearer t2"]);
    assert_eq!(vault.refreshes(), 1);
    assert!(desk.orders().is_empty());
    assert_eq!(success(client.resume(key).await).key, key);
    desk.assert_one_order_per_key();

    // Where there is no fresher one, one request is enough to know.
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().unauthorized());
    let client = client_of(&folder, brisk(&desk.url()).bearer("t1")).await;
    open(submit(&client).await, ErrorKind::Unauthorized, Effect::None);
    assert_eq!(desk.requests().len(), 1);
}

/// BUG-14: a 409 that says "still running" was treated as final.
#[tokio::test]
async fn an_order_in_progress_is_waited_for_under_its_key() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let busy = Reply::problem(409, "idempotency_in_flight", "later").retry_after("0");
    desk.script(Script::new().commit_then_reply(busy.clone()).reply(busy.clone()).then_ok());
    let client = folder.client(&desk).await;
    let receipt = success(submit(&client).await);
    assert_eq!((receipt.attempts, desk.keys()), (3, vec![receipt.key.to_string()]));
    assert!(receipt.replayed);
    desk.assert_one_order_per_key();

    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().reply(busy).times(4));
    let client = folder.client(&desk).await;
    let (error, key) = open(submit(&client).await, ErrorKind::StillProcessing, Effect::Possible);
    // The desk names a second with its 409: that is worth saying.
    assert!(
        matches!(error.next_step(), NextStep::Resume { not_before: Some(_) }),
        "{:?}",
        error.next_step()
    );
    success(client.resume(key).await);
    desk.assert_one_order_per_key();
}

/// BUG-19: 202, 102 and 208 have the sound of a success and say "not yet".
#[tokio::test]
async fn a_202_is_no_success() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let body = json!({"order_id": "ord-1", "status": "processing"});
    let not_yet = || Reply::json(202, body.clone());
    desk.script(Script::new().reply(not_yet()).commit_then_reply(not_yet()).then_ok());
    let client = folder.client(&desk).await;
    let receipt = success(submit(&client).await);
    assert_eq!(
        (receipt.value.status.as_deref(), receipt.replayed, receipt.attempts),
        (Some("accepted"), true, 3)
    );
    assert_eq!(desk.keys(), [receipt.key.to_string()]);
    desk.assert_one_order_per_key();

    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().reply(Reply::json(202, body)).times(4));
    let client = folder.client(&desk).await;
    open(submit(&client).await, ErrorKind::StillProcessing, Effect::Possible);
}

/// An operation whose success must name the booking.
#[derive(Serialize)]
struct Book {
    nights: u32,
}

impl Operation for Book {
    type Receipt = serde_json::Value;
    const NAME: &'static str = "book";
    const RECEIPT_HAS: &'static [&'static str] = &["/reference"];

    fn route(&self) -> Route {
        Route::post("bookings")
    }
}

/// BUG-37: a success without a body was reported as an end of file.
#[tokio::test]
async fn a_204_is_a_success_where_the_operation_asks_for_no_receipt() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.serve("POST", "/orders", |_| Reply::status(204));
    desk.serve("POST", "/bookings", |_| Reply::status(204));
    let client = folder.client(&desk).await;
    let receipt = success(submit(&client).await);
    assert_eq!((receipt.value.order_id, receipt.attempts), (None, 1));
    // And where it asks for one, a person has to look: the booking may stand.
    let outcome = client.submit(mail(), &Book { nights: 2 }).await.unwrap();
    let Outcome::NeedsReview(review) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((review.reason, review.effect), (ReviewReason::UnreadableSuccess, Effect::Possible));
    assert_eq!(desk.requests().len(), 2);
    desk.assert_one_order_per_key();
}

/// BUG-36: a 200 with a page in it comes from a wall before the server; it says nothing of the order, and nobody is shown it.
#[tokio::test]
async fn a_sign_in_page_is_no_success_and_is_shown_to_nobody() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let page = Reply::status(200).body("text/html; charset=utf-8", "<html>PAGETEXT sign in</html>");
    desk.script(Script::new().reply(page).then_ok());
    let client = folder.client(&desk).await;
    let (error, key) = open(submit(&client).await, ErrorKind::UnexpectedContent, Effect::Possible);
    assert_eq!((error.attempts(), error.next_step()), (1, NextStep::FixSetup));
    assert!(desk.orders().is_empty());
    let reply = ToolReply::of::<()>(&Err(error.clone()));
    let log = std::fs::read_to_string(folder.log()).unwrap();
    let said = format!("{error} {error:?} {} {reply:?} {log}", error.next_step());
    assert!(!said.contains("PAGETEXT"), "{said}");
    assert_eq!(success(client.resume(key).await).key, key);
    desk.assert_one_order_per_key();
}

/// BUG-15: a 409 that says no was tried again for nothing; and a 409 that says no is none that says "still running".
#[tokio::test]
async fn a_409_that_is_a_refusal_is_one_after_one_attempt() {
    for problem in [
        Reply::problem(409, "order_closed", "closed"),
        Reply::json(
            409,
            json!({"type": "https://shop.example/problems/order_closed", "title": "closed"}),
        ),
    ] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        desk.script(Script::new().reply(problem));
        let client = folder.client(&desk).await;
        let outcome = submit(&client).await.unwrap();
        let Outcome::Rejected(no) = &outcome else { panic!("{outcome:?}") };
        assert_eq!((no.status, outcome.effect(), desk.requests().len()), (Some(409), Effect::None, 1));
        // What kind of problem it was can be read.
        let said = String::from_utf8_lossy(no.answer().unwrap().body());
        assert!(said.contains("order_closed"), "{said}");
        assert!(folder.events("settled")[0]["data"].get("rejected").is_some());
        assert!(desk.orders().is_empty());
    }
}

/// BUG-16: a 500 that does not say it is stored may pass: asked again under one key, and in doubt if it does not.
#[tokio::test]
async fn a_500_without_the_mark_is_doubt_under_one_key() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().status(500).times(4));
    let client = folder.client(&desk).await;
    let (error, key) = open(submit(&client).await, ErrorKind::InDoubt, Effect::Possible);
    assert_eq!((error.attempts(), desk.keys()), (4, vec![key.to_string()]));
    assert!(folder.events("settled").is_empty());
}

/// BUG-17: a 504 says nothing of the order, which was made.
#[tokio::test]
async fn a_504_says_nothing_of_the_order() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_status(504).then_ok());
    let client = folder.client(&desk).await;
    let receipt = success(submit(&client).await);
    assert_eq!((receipt.attempts, receipt.replayed), (2, true));
    assert_eq!(desk.keys(), [receipt.key.to_string()]);
    desk.assert_one_order_per_key();
}

/// BUG-16: a stored server error comes back until the key is forgotten, and then the order executes again.
#[tokio::test]
async fn a_replayed_500_is_for_a_person() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().store_status(500));
    let client = folder.client(&desk).await;
    for _ in 0..2 {
        let outcome = submit(&client).await.unwrap();
        let Outcome::NeedsReview(review) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((review.reason, review.effect), (ReviewReason::StoredServerError, Effect::Possible));
        assert_eq!(desk.requests().len(), 2, "{}", desk.story());
    }
}

/// An answer over the cap is not read to its end; with a larger cap the same order is learnt.
#[tokio::test]
async fn an_answer_over_the_cap_is_too_large() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let small = client_of(&folder, brisk(&desk.url()).answer_cap(40)).await;
    let (error, key) = open(submit(&small).await, ErrorKind::ResponseTooLarge, Effect::Possible);
    assert_eq!((error.attempts(), error.next_step()), (1, NextStep::FixSetup));
    let roomy = folder.client(&desk).await;
    assert!(success(roomy.resume(key).await).replayed);
    assert_eq!(desk.requests().len(), 2);
    desk.assert_one_order_per_key();
}

/// Some servers ignore that a key was used for other contents, and answer with the old order.
#[tokio::test]
async fn another_order_in_the_answer_is_for_a_person() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let other = json!({"order_id": "ord-9", "customer": "C-100", "items": [{"sku": "SKU-1", "quantity": 20}]});
    desk.script(Script::new().reply(Reply::json(201, other)));
    let client = folder.client(&desk).await;
    let outcome = submit(&client).await.unwrap();
    let Outcome::NeedsReview(review) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((review.reason, review.effect), (ReviewReason::OtherOrderReturned, Effect::Possible));
    assert_eq!(desk.requests().len(), 1);
}

// ---- Retry-After -----------------------------------------------------------------------------------------------------------

/// BUG-24: what the server asks for is a lower bound.
#[tokio::test]
async fn the_next_attempt_comes_no_earlier_than_the_server_asked() {
    for patience in [Reply::status(429), Reply::status(503), Reply::json(202, json!({}))] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        desk.script(Script::new().reply(patience.retry_after("1")).then_ok());
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let clock = Arc::clone(&arrivals);
        desk.on_request(move |_| clock.lock().unwrap().push(Instant::now()));
        let client = folder.client(&desk).await;
        success(submit(&client).await);
        let arrivals = arrivals.lock().unwrap();
        assert_eq!(arrivals.len(), 2);
        assert!(arrivals[1] - arrivals[0] >= Duration::from_secs(1), "{arrivals:?}");
    }
}

/// BUG-20, BUG-21: a wait beyond the call's limit is left to whoever resumes, at once and with the time; what is
/// neither a number of seconds nor a date is no wait.
#[tokio::test]
async fn an_absurd_retry_after_neither_hangs_nor_panics() {
    let began = Instant::now();
    let long = [
        "5",
        "86400",
        "31536001",
        "9999999999",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ];
    for wait in long {
        for (reply, kind, effect) in [
            (Reply::status(429), ErrorKind::NotSent, Effect::None),
            (Reply::status(503), ErrorKind::InDoubt, Effect::Possible),
            (
                Reply::problem(409, "idempotency_in_flight", "later"),
                ErrorKind::StillProcessing,
                Effect::Possible,
            ),
            (Reply::json(202, json!({})), ErrorKind::StillProcessing, Effect::Possible),
        ] {
            let (desk, folder) = (Desk::start().await, Folder::new());
            desk.script(Script::new().reply(reply.retry_after(wait)).then_ok());
            let client = folder.client(&desk).await;
            let (error, key) = open(submit(&client).await, kind, effect);
            assert_eq!(error.attempts(), 1, "{wait}");
            let NextStep::Resume { not_before: Some(at) } = error.next_step() else {
                panic!("{wait}: {error}")
            };
            let asked = Duration::from_secs(wait.parse().unwrap_or(u64::MAX).min(31_536_000));
            let sent: uketsuke::Timestamp = folder.events("sent")[0]["at"].as_str().unwrap().parse().unwrap();
            assert!(at.since(sent) >= Some(asked), "{wait}: {at}");
            assert_eq!(ToolReply::of::<()>(&Err(error)).not_before, Some(at));
            // A person who knows better may go on at once.
            success(client.resume(key).await);
            desk.assert_one_order_per_key();
        }
    }
    let nonsense = [
        "",
        "0",
        "-1",
        "+5",
        "1.5",
        "1e9",
        "0x10",
        "soon",
        "\u{b2}",
        "120, 60",
        "Thu, 31 Dec 9999 23:59:59 GMT",
        "9999-12-31T23:59:59Z",
    ];
    for wait in nonsense {
        let (desk, folder) = (Desk::start().await, Folder::new());
        desk.script(Script::new().reply(Reply::status(503).retry_after(wait)).then_ok());
        let client = folder.client(&desk).await;
        assert_eq!(success(submit(&client).await).attempts, 2, "{wait:?}");
        desk.assert_one_order_per_key();
    }
    assert!(began.elapsed() < Duration::from_secs(60), "none of them was waited for");
}

/// The delays between attempts never carry a call past its own limit.
#[tokio::test]
async fn a_call_ends_within_its_limit() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().status(503).times(100));
    let mut pacing = Pacing::default();
    (pacing.base, pacing.cap, pacing.attempts) = (Duration::from_millis(1), Duration::from_millis(20), 1000);
    let mut timeouts = Timeouts::default();
    timeouts.connect = Duration::from_millis(100);
    timeouts.attempt = Duration::from_millis(200);
    timeouts.total = Duration::from_millis(300);
    let client = client_of(&folder, brisk(&desk.url()).pacing(pacing).timeouts(timeouts)).await;
    let (error, _) = open(submit(&client).await, ErrorKind::InDoubt, Effect::Possible);
    assert!(matches!(error.next_step(), NextStep::Resume { not_before: Some(_) }), "{error}");
    assert!(desk.requests().len() < 101, "{}", desk.requests().len());
}

// ---- the environment ---------------------------------------------------------------------------------------------------------

/// BUG-42: a stray variable must not carry orders and keys to whoever it names.
#[tokio::test]
async fn the_environments_proxy_sees_no_order() {
    let (desk, folder, dead) = (Desk::start().await, Folder::new(), Door::closed());
    let child = child_behind(&dead.url(), &desk.url(), &folder.path()).await;
    assert!(child.contains("child: Ok(Succeeded"), "{child}");
    desk.assert_one_order_per_key();
    assert_eq!(desk.requests().len(), 1);
}

/// What a child says that submits, with a proxy in every variable there is.
async fn child_behind(proxy: &str, url: &str, folder: &Path) -> String {
    let mut command = crate::kit::again("child::play");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, proxy);
    }
    for name in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        command.env_remove(name);
    }
    let output = command
        .env("UKETSUKE_CHILD", "submit")
        .env("UKETSUKE_URL", url)
        .env("UKETSUKE_FOLDER", folder)
        .output()
        .await
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// An order of another shape: the receipt that is read is the caller's, and one that can't be read changes nothing.
#[tokio::test]
async fn a_receipt_that_does_not_fit_is_certain_all_the_same() {
    #[derive(Serialize)]
    struct Odd {
        sku: &'static str,
    }
    impl Operation for Odd {
        type Receipt = Vec<u8>;
        const NAME: &'static str = "odd";
        fn route(&self) -> Route {
            Route::post("orders")
        }
    }
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    for _ in 0..2 {
        let error = client.submit(mail(), &Odd { sku: "A" }).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::UnreadableReceipt, Effect::Certain),
            "{error}"
        );
        assert_eq!(error.next_step(), NextStep::Nothing);
        assert_eq!(desk.requests().len(), 1);
    }
    success(client.submit(mail(), &PlaceOrder::new("C").item("A", 1)).await);
    desk.assert_one_order_per_key();
}
