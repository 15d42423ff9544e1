//! An adversary's cases against dialects and lookups: each once got a second order out, or had something told that nobody knew.

use crate::{
    kit::{Folder, Tokens, brisk, order},
    lookup::{client, counts, in_doubt, review},
    props::{HOUR, Hands, mail, single},
};
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use uketsuke::{
    Asked, CommitBefore5xx, Concurrent, Dialect, Effect, Error, ErrorKind, Examination, IdempotencyKey, JsonOrder, LookupReads, Outcome,
    ReviewReason, Route,
    testkit::{Desk, Reply, Script, Unkind},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn found(asked: &Asked<'_>) -> Option<Route> {
    Some(Route::get("found").query("key", asked.key().to_string()))
}

/// A dialect by which "not found" can be a proof.
fn proving() -> Dialect {
    Dialect::ietf()
        .lookup(found)
        .lookup_reads(LookupReads::Orders)
        .max_transit(Duration::from_secs(3600))
}

// ---- a proof of absence that is none --------------------------------------------------------------------------------------------

/// R9: another account is shown none of the first one's orders. That none is found there proves nothing, however old the order is.
#[tokio::test]
async fn an_absence_at_another_account_lets_nothing_out() {
    let clock = Hands::new();
    let builder = Desk::builder().dates(clock.clone()).unkind(Unkind::ForgetsAfter(DAY));
    let (desk, folder) = (builder.start().await.unwrap(), Folder::new());
    desk.serve("GET", "/found", |request| match request.seen().header("authorization") {
        Some("Bearer alices") => Reply::json(200, json!({"order_id": "ord-1", "customer": "C-100"})),
        _ => Reply::status(404),
    });
    desk.script(Script::new().commit_then_lose_reply());
    let api = |account, token| {
        let api = single(&desk.url()).dialect(proving()).account(account);
        api.credentials(Tokens::new(&[token]))
    };
    let key = in_doubt(&client(&folder, &clock, api("alice", "alices")).await).await;
    clock.turn(25 * HOUR);
    desk.ledger().turn_clock(25 * HOUR);
    let bob = client(&folder, &clock, api("bob", "bobs")).await;
    let examined = bob.examine(key).await.unwrap();
    let told = bob.resume(key).await;
    assert_eq!((counts(&desk).0, desk.orders().len()), (1, 1), "a second order: {told:?}");
    assert!(matches!(examined, Examination::Unknown(_)), "{examined:?}");
    assert_eq!(review(told).1, Effect::Possible);
}

/// Where two of one key may both be run, one that is still at work shows as absent: it is as if repeats were not recognised at all.
#[tokio::test]
async fn an_absence_lets_nothing_out_where_two_of_one_key_may_both_run() {
    for dialect in [
        proving().concurrent(Concurrent::Races),
        proving().commit_before_5xx(CommitBefore5xx::Possible),
    ] {
        let clock = Hands::new();
        let (desk, folder) = (clock.desk().await, Folder::new());
        desk.serve("GET", "/found", |_| Reply::status(404));
        desk.script(Script::new().lose_request().then_ok());
        let client = client(&folder, &clock, single(&desk.url()).dialect(dialect.clone())).await;
        let told = client.submit(mail(1), &order()).await.unwrap_err();
        let key = told.key().unwrap();
        clock.turn(25 * HOUR);
        let told = client.resume(key).await;
        assert_eq!(counts(&desk).0, 1, "{dialect:?}: {told:?}");
        assert_eq!(review(told).1, Effect::Possible);
    }
}

/// R8: the very answer that says "not found" says that our clock is a day off. Then nobody knows how long ago the last attempt was.
#[tokio::test]
async fn an_absence_told_at_another_time_of_day_lets_nothing_out() {
    let (ours, theirs) = (Hands::new(), Hands::new());
    let (desk, folder) = (theirs.desk().await, Folder::new());
    desk.serve("GET", "/found", |_| Reply::status(404));
    desk.script(Script::new().lose_request().then_ok());
    let key = in_doubt(&client(&folder, &ours, single(&desk.url()).dialect(proving())).await).await;
    // The machine comes up with a wrong clock.
    ours.turn(25 * HOUR);
    let restarted = client(&folder, &ours, single(&desk.url()).dialect(proving())).await;
    let examined = restarted.examine(key).await.unwrap();
    let told = restarted.resume(key).await;
    assert_eq!(counts(&desk).0, 1, "it was sent a moment ago, by the server's clock: {told:?}");
    assert!(matches!(examined, Examination::Unknown(_)), "{examined:?}");
    assert_eq!(review(told), (ReviewReason::RetentionPassed, Effect::Possible));
}

/// A gateway that leads nowhere at the moment, and an order that was there and is gone, are both no proof that it never came.
#[tokio::test]
async fn a_gateways_404_and_a_410_let_nothing_out() {
    for reply in [
        Reply::status(404).body("text/html", "<h1>no such route</h1>"),
        Reply::problem(410, "order_purged", "it was here until last night"),
    ] {
        let clock = Hands::new();
        let builder = Desk::builder().dates(clock.clone()).unkind(Unkind::ForgetsAfter(DAY));
        let (desk, folder) = (builder.start().await.unwrap(), Folder::new());
        let code = reply.code();
        desk.serve("GET", "/found", move |_| reply.clone());
        desk.script(Script::new().commit_then_lose_reply());
        let client = client(&folder, &clock, single(&desk.url()).dialect(proving())).await;
        let key = in_doubt(&client).await;
        clock.turn(25 * HOUR);
        desk.ledger().turn_clock(25 * HOUR);
        let told = client.resume(key).await;
        assert_eq!(
            (counts(&desk).0, desk.orders().len()),
            (1, 1),
            "{code}, and a second order: {told:?}"
        );
        assert_eq!(review(told), (ReviewReason::RetentionPassed, Effect::Possible));
    }
}

/// R9: the provider goes over to another account between the question and the order.
#[tokio::test]
async fn an_absence_at_one_account_lets_nothing_out_at_another() {
    /// Bob's from its nth credential on.
    struct Turns(AtomicUsize, usize);
    impl uketsuke::Credentials for Turns {
        fn current(&self) -> uketsuke::BoxFuture<'_, Result<uketsuke::Credential, uketsuke::CredentialError>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            let token = uketsuke::Credential::bearer("token").map_err(uketsuke::CredentialError::new);
            Box::pin(async { token })
        }
        fn scope(&self) -> Option<String> {
            let alices = self.0.load(Ordering::SeqCst) < self.1;
            Some(if alices { "alice" } else { "bob" }.to_owned())
        }
    }
    let clock = Hands::new();
    let (desk, folder) = (clock.desk().await, Folder::new());
    desk.serve("GET", "/found", |_| Reply::status(404).body("application/json", "{}"));
    desk.script(Script::new().lose_request().then_ok());
    let turns = |nth| Turns(AtomicUsize::new(0), nth);
    let api = |nth| single(&desk.url()).dialect(proving()).credentials(turns(nth));
    let key = in_doubt(&client(&folder, &clock, api(99)).await).await;
    clock.turn(25 * HOUR);
    // One credential for the question, the next for the order.
    let told = client(&folder, &clock, api(2)).await.resume(key).await;
    assert_eq!(counts(&desk).0, 1, "sent at another account: {told:?}");
    assert_eq!(review(told), (ReviewReason::OtherScope, Effect::Possible));
}

// ---- a no that is none ---------------------------------------------------------------------------------------------------------

/// R1's exception speaks of the server's own stored answer to the key. A gateway's page is not that, nor is a conflict of the key.
#[tokio::test]
async fn only_the_servers_own_stored_refusal_speaks_for_the_key() {
    let stored = || Dialect::ietf().refusals_stored(true).key_checked_before_validation(true);
    for reply in [
        Reply::status(404).body("text/html", "<h1>no such route</h1>"),
        Reply::status(413).body("text/plain", "too large"),
        Reply::problem(409, "request_in_progress", "wait"),
    ] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        desk.script(Script::new().commit_then_lose_reply().reply(reply.clone()));
        let client = client(&folder, &clock, brisk(&desk.url()).dialect(stored())).await;
        let told = client.submit(mail(1), &order()).await;
        // Whoever is told "nothing was registered" corrects it.
        let corrected = client.submit(mail(1), &order().note("other")).await;
        assert_eq!(desk.orders().len(), 1, "{}: {told:?}, then {corrected:?}", reply.code());
        assert!(told.is_err() || matches!(told, Ok(Outcome::NeedsReview(_))), "{told:?}");
    }
}

/// A server that says it does not know, or that there is one, has not said "not run", whatever the status it says so with.
#[tokio::test]
async fn a_server_that_does_not_know_has_not_refused_whatever_its_status() {
    for (status, code) in [(429, "operation_uncertain"), (403, "operation_uncertain"), (429, "duplicate_order")] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        desk.serve("GET", "/found", |_| Reply::status(503));
        let unsure = Reply::problem(status, code, "nobody knows");
        desk.script(Script::new().reply(unsure).reply(Reply::problem(422, "out_of_stock", "gone")));
        let client = client(&folder, &clock, single(&desk.url()).dialect(Dialect::ietf().lookup(found))).await;
        let error = client.submit(mail(1), &order()).await.unwrap_err();
        let key = error.key().unwrap();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::InDoubt, Effect::Possible),
            "{status} {code}: {error}"
        );
        let withdrawn = client.withdraw(key, "so it is").await;
        assert!(!matches!(withdrawn, Ok(Outcome::Denied(_))), "{status} {code}: {withdrawn:?}");
        let told = client.resume(key).await;
        assert!(!matches!(told, Ok(Outcome::Rejected(_))), "{status} {code}: {told:?}");
    }
}

/// R4: nothing that arrives after an end vanishes. A refusal was booked while a lookup was under way that then shows the order.
#[tokio::test]
async fn an_order_that_a_lookup_finds_after_its_refusal_is_for_a_person() {
    let (clock, folder) = (Hands::new(), Folder::new());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let api = single(&url).dialect(Dialect::ietf().lookup(found));
    let client = client(&folder, &clock, api).await;
    let other = client.clone();
    let flight = tokio::spawn(async move { client.submit(mail(1), &order()).await });
    let (mut ordering, head) = arrived(&listener).await;
    let key = head.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).unwrap();
    let key: IdempotencyKey = key.parse().unwrap();
    let asking = other.clone();
    let lookup = tokio::spawn(async move { asking.look_up(key).await });
    let (mut asked, _) = arrived(&listener).await;
    say(&mut ordering, "422 Unprocessable Content", r#"{"code":"out_of_stock"}"#).await;
    assert!(matches!(flight.await.unwrap(), Ok(Outcome::Rejected(_))));
    say(&mut asked, "200 OK", r#"{"order_id":"ord-1","customer":"C-100"}"#).await;
    assert_eq!(review(lookup.await.unwrap()), (ReviewReason::Contradicted, Effect::Possible));
    let corrected = other.submit(mail(1), &order().note("other")).await.unwrap_err();
    assert_eq!(corrected.kind(), ErrorKind::Drift);
}

/// A request that has arrived and waits for its answer; its head.
async fn arrived(at: &TcpListener) -> (TcpStream, String) {
    let (mut caller, _) = at.accept().await.unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        caller.read_exact(&mut byte).await.unwrap();
        head.extend(byte);
    }
    (caller, String::from_utf8(head).unwrap())
}

async fn say(caller: &mut TcpStream, status: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    let answer = format!("{head}connection: close\r\n\r\n{body}");
    caller.write_all(answer.as_bytes()).await.unwrap();
}

// ---- a success that is none ------------------------------------------------------------------------------------------------------

fn lax(contents: Value) -> JsonOrder {
    JsonOrder::new(Route::post("orders"), contents)
}

/// What a lookup of such an order, lost on its way, comes to.
async fn shown(asked: Value, shown: impl Fn(&str) -> Value + Send + Sync + 'static) -> Result<Outcome<Value>, Error> {
    let (clock, folder) = (Hands::new(), Folder::new());
    let desk = clock.desk().await;
    desk.serve("GET", "/found", move |request| {
        let query = request.seen().query.clone().unwrap();
        Reply::json(200, shown(query.trim_start_matches("key=")))
    });
    desk.script(Script::new().lose_request());
    let dialect = Dialect::ietf().lookup(found).concurrent(Concurrent::Races);
    let client = client(&folder, &clock, brisk(&desk.url()).dialect(dialect)).await;
    let told = client.submit(mail(1), &lax(asked)).await;
    assert_eq!(counts(&desk), (1, 1));
    told
}

/// A 200 to a question says that the question was answered. Without one word of the order in it, nothing was found.
#[tokio::test]
async fn a_lookup_that_shows_nothing_of_the_order_books_no_success() {
    for body in [
        json!({"found": false}),
        json!({"message": "order not found"}),
        json!({"orders": []}),
        json!({"order": null}),
        json!({"customer": null}),
        json!({"data": [], "has_more": false}),
    ] {
        let answer = body.clone();
        let told = shown(json!({"customer": "C-100", "quantity": 2}), move |_| answer.clone()).await;
        assert!(matches!(told, Ok(Outcome::NeedsReview(_))), "{body}: {told:?}");
    }
    let told = shown(json!({"customer": "C-100"}), |_| json!({"customer": "C-100"})).await;
    assert!(matches!(told, Ok(Outcome::Succeeded(_))), "{told:?}");
    let told = shown(json!({"customer": "C-100"}), |key| json!({"id": "7", "idempotency_key": key})).await;
    assert!(matches!(told, Ok(Outcome::Succeeded(_))), "{told:?}");
}

/// What came to nothing is no success, by whichever word, and one level down as well, where many servers keep what they return.
#[tokio::test]
async fn an_order_that_came_to_nothing_is_no_success_one_level_down_either() {
    let asked = json!({"customer": "C-100"});
    for body in [
        json!({"customer": "C-100", "status": "refused"}),
        json!({"customer": "C-100", "status": "denied"}),
        json!({"customer": "C-100", "payment": {"id": "p-1", "status": "CANCELED"}}),
        json!({"customer": "C-100", "payments": {"id": "p-1", "status": "cancelled"}}),
    ] {
        let answer = body.clone();
        let told = shown(asked.clone(), move |_| answer.clone()).await;
        assert!(matches!(told, Ok(Outcome::NeedsReview(_))), "{body}: {told:?}");
    }
}

/// The same at a repeat, where the server shows what exists now.
#[tokio::test]
async fn a_repeat_that_shows_a_cancelled_payment_is_no_success() {
    let (clock, folder) = (Hands::new(), Folder::new());
    let desk = clock.desk().await;
    let payment = json!({"payment": {"id": "p-1", "status": "CANCELED", "amount_money": {"amount": 5}}});
    desk.script(Script::new().lose_request().reply(Reply::json(200, payment)));
    let client = client(&folder, &clock, brisk(&desk.url()).dialect(Dialect::square().retention(DAY))).await;
    let told = client.submit(mail(1), &lax(json!({"amount_money": {"amount": 5}}))).await;
    assert_eq!(review(told), (ReviewReason::FoundEnded, Effect::Possible));
}

/// Two numbers that differ in their last digit are two numbers, also where one of them is written as text.
#[tokio::test]
async fn a_long_number_in_text_is_compared_to_its_last_digit() {
    for (asked, returned) in [
        (json!("9007199254740993"), json!(9_007_199_254_740_992_u64)),
        (json!("0012"), json!(12)),
    ] {
        let (contents, answer) = (json!({"account": asked}), json!({"id": "o-1", "account": returned}));
        let shown_there = answer.clone();
        let told = shown(contents.clone(), move |_| shown_there.clone()).await;
        assert_eq!(review(told).0, ReviewReason::OtherOrderReturned, "{contents} and {answer}");
    }
    for (asked, returned) in [(json!("12.50"), json!(12.5)), (json!(12), json!("12.00"))] {
        let told = shown(json!({"price": asked}), move |_| json!({"id": "o-1", "price": returned})).await;
        assert!(matches!(told, Ok(Outcome::Succeeded(_))), "{told:?}");
    }
}

/// A server that keeps the key with its quotes, or in capitals, has this order and no other.
#[tokio::test]
async fn a_key_that_comes_back_in_another_spelling_is_this_orders() {
    for spelling in [|key: &str| format!("\"{key}\""), |key: &str| key.to_ascii_uppercase()] {
        let told = shown(
            json!({"customer": "C-100"}),
            move |key| json!({"customer": "C-100", "idempotency_key": spelling(key)}),
        );
        let told = told.await;
        assert!(matches!(told, Ok(Outcome::Succeeded(_))), "{told:?}");
    }
}

/// A server's own name for an order leads below the order's path, or nowhere; and where it leads on from there is not followed.
#[tokio::test]
async fn a_name_in_an_answer_leads_nowhere_else() {
    let long = "x".repeat(20_000);
    for (name, leads) in [
        ("../admin", true),
        ("a?x=1#y", true),
        ("a\r\nX-Evil: 1", true),
        ("//evil.example/", true),
        ("", false),
        ("..", false),
        (&long, false),
    ] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        desk.serve("GET", "/orders/{id}", |_| Reply::status(302).header("Location", "/admin"));
        let links = json!({"conflicting_resource_id": name});
        let errors = json!([{"reason": "idempotent_creation_conflict", "links": links}]);
        desk.script(Script::new().reply(Reply::json(409, json!({"error": {"errors": errors}}))));
        let api = brisk(&desk.url()).dialect(Dialect::gocardless().retention(DAY));
        let told = client(&folder, &clock, api).await.submit(mail(1), &order()).await;
        let sent = desk.requests();
        assert_eq!(sent.len(), if leads { 2 } else { 1 }, "{name}");
        for request in &sent[1..] {
            assert_eq!(request.method, "GET");
            assert!(
                request.path.starts_with("/orders/") && request.path[8..].bytes().all(|b| b != b'/'),
                "{}",
                request.path
            );
            assert!(request.query.is_none() && request.header("x-evil").is_none());
        }
        match told {
            Err(error) if leads => assert_eq!((error.kind(), error.effect()), (ErrorKind::UnexpectedRedirect, Effect::Possible)),
            told if !leads => assert_eq!(review(told), (ReviewReason::AlreadyExists, Effect::Possible)),
            told => panic!("{name}: {told:?}"),
        }
    }
}
