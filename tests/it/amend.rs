//! Orders that change or end another one: one change under one key, of the version that it was made for, at the order that was meant. And
//! while it is not known whether that order stands, nothing acts on it.

use crate::{
    kit::{Folder, brisk, order, plain_client, refused_field},
    lookup::review,
    props::{NOBODY, actor, because, mail, receipt},
};
use serde_json::{Value, json};
use std::{
    fmt,
    sync::{Arc, mpsc},
};
use uketsuke::{
    AmendOrder, ApiBuilder, Base, CancelOrder, Dialect, Duplicates, Effect, Error, ErrorKind, IdempotencyKey, Journal, JsonOrder, NextStep,
    OrderClient, OrderReceipt, OrderRef, Origin, Outcome, PlaceOrder, Proposal, Refusal, ReviewReason, Route, Ruling,
    testkit::{Desk, Reply, Seen, Unkind},
};

// ---- who orders ------------------------------------------------------------------------------------------------------

/// Allows everything but an order whose customer says otherwise.
fn lenient(proposal: &Proposal<'_>) -> Ruling {
    let contents = proposal.draft.json().unwrap_or_default();
    match contents["customer"].as_str() {
        Some("DENIED") => Ruling::Deny(because()),
        Some("ASKED") => Ruling::Ask(because()),
        _ => Ruling::Allow(because()),
    }
}

fn client_of(journal: &Journal, api: ApiBuilder) -> OrderClient {
    let builder = OrderClient::builder(journal.clone(), api.build().unwrap(), actor());
    builder.policy(lenient).build()
}

fn client(desk: &Desk) -> OrderClient {
    client_of(&Journal::memory().unwrap(), brisk(&desk.url()))
}

/// A desk with the order of mail 1, and who placed it.
async fn with_an_order() -> (Desk, OrderClient) {
    let desk = Desk::start().await;
    let client = client(&desk);
    receipt(client.submit(mail(1), &order().note("ring twice")).await);
    (desk, client)
}

/// A change of the order of mail 1, made for this version.
fn amend(version: u64) -> AmendOrder {
    AmendOrder::new(placed(), Base::Version(version)).set("customer", "C-200")
}

/// The end of the order of mail 1.
fn cancel() -> CancelOrder {
    CancelOrder::new(placed(), "not needed any more")
}

fn placed() -> OrderRef {
    OrderRef::PlacedBy(mail(1))
}

/// Whatever acts on another order.
fn acting(desk: &Desk) -> Vec<Seen> {
    let writes = desk.writes().into_iter();
    writes.filter(|seen| seen.method != "POST" || seen.path != "/orders").collect()
}

async fn etag(desk: &Desk) -> String {
    let shown = plain_client().get(format!("{}/orders/ord-1", desk.url())).send().await.unwrap();
    shown.headers()["etag"].to_str().unwrap().to_owned()
}

#[track_caller]
fn refusal<R: fmt::Debug>(told: Result<Outcome<R>, Error>) -> Refusal {
    match told {
        Ok(Outcome::Rejected(refusal)) => refusal,
        other => panic!("not rejected: {other:?}"),
    }
}

/// The order that it acts on has no outcome yet: whose key is told, and what to do about that one.
#[track_caller]
fn pending<R: fmt::Debug>(told: Result<Outcome<R>, Error>, key: IdempotencyKey) -> Error {
    let error = told.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::OrderPending, Some(key)), "{error}");
    assert_eq!(error.existing().unwrap().key, key);
    error
}

#[track_caller]
fn invalid<R: fmt::Debug>(told: Result<Outcome<R>, Error>) -> Error {
    let error = told.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidInput, Effect::None), "{error}");
    assert_eq!((error.key(), error.next_step()), (None, NextStep::FixInput), "{error}");
    error
}

// ---- one change, of the version it was made for ----------------------------------------------------------------------

#[tokio::test]
async fn null_removes_a_member_and_what_is_absent_stays() {
    let (desk, client) = with_an_order().await;
    let kept = AmendOrder::new(OrderRef::id("ord-1"), Base::etag("\"1\"")).set("customer", "C-200");
    assert_eq!(
        receipt(client.submit(mail(2), &kept).await).value.order_id.as_deref(),
        Some("ord-1")
    );
    desk.assert_exactly_one_order(|order| order["note"] == "ring twice" && order["customer"] == "C-200");
    let removed = AmendOrder::from_json(OrderRef::id("ord-1"), Base::etag("\"2\""), br#"{"note":null}"#);
    receipt(client.submit(mail(3), &removed.unwrap()).await);
    desk.assert_exactly_one_order(|order| order.get("note").is_none() && order["customer"] == "C-200");
    let bodies: Vec<Value> = acting(&desk)
        .iter()
        .map(|seen| serde_json::from_slice(&seen.body).unwrap())
        .collect();
    assert_eq!(bodies, [json!({"customer": "C-200"}), json!({"note": null})]);
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn a_changed_base_is_rejected_with_412_and_nothing_is_changed() {
    let (desk, client) = with_an_order().await;
    let now = desk.change_order("ord-1", json!({"note": "ring once"}));
    let before = desk.orders();
    let refused = refusal(client.submit(mail(2), &amend(1)).await);
    assert_eq!((refused.status, refused.code.as_deref()), (Some(412), Some("precondition_failed")));
    let ends = cancel().base(Base::Version(1));
    assert_eq!(refusal(client.submit(mail(3), &ends).await).status, Some(412));
    assert_eq!((desk.orders(), etag(&desk).await), (before, now));
    // The no is final for these contents, and says what to do.
    let told = client.submit(mail(2), &amend(1)).await.unwrap();
    assert_eq!(
        (told.effect(), told.next_step(), told.key()),
        (Effect::None, NextStep::FixInput, refused.key)
    );
    let why = told.receipt().unwrap_err().to_string();
    assert!(why.contains("has changed since"), "{why}");
    assert_eq!(acting(&desk).len(), 2, "an outcome is told from the journal");
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn a_rejected_change_is_made_for_the_version_that_stands_under_a_key_of_its_own() {
    let (desk, client) = with_an_order().await;
    desk.change_order("ord-1", json!({"note": "ring once"}));
    let refused = refusal(client.submit(mail(2), &amend(1)).await);
    let made = receipt(client.submit(mail(2), &amend(2)).await);
    assert_ne!(made.key, refused.key);
    desk.assert_exactly_one_order(|order| order["customer"] == "C-200" && order["note"] == "ring once");
    assert_eq!(etag(&desk).await, "\"3\"");
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn a_change_whose_reply_is_lost_is_one_change_under_one_key() {
    let (desk, client) = with_an_order().await;
    desk.script("lose reply; commit 503; ok".parse().unwrap());
    let made = receipt(client.submit(mail(2), &amend(1)).await);
    assert!(
        made.replayed,
        "the version that it was made for is gone, and it is told as made all the same"
    );
    let attempts = desk.attempts(&made.key.to_string());
    assert_eq!((attempts.len(), made.attempts), (3, 3));
    for attempt in &attempts {
        assert_eq!((attempt.header("if-match"), &attempt.body), (Some("\"1\""), &attempts[0].body));
    }
    assert_eq!(etag(&desk).await, "\"2\"");
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
    desk.assert_script_played();
}

#[tokio::test]
async fn a_cancel_whose_reply_is_lost_is_one_cancel_under_one_key() {
    let (desk, client) = with_an_order().await;
    desk.script("lose reply; ok".parse().unwrap());
    let ended = receipt(client.submit(mail(2), &cancel()).await);
    assert!(ended.replayed);
    assert_eq!(ended.value.status.as_deref(), Some("cancelled"));
    assert_eq!(desk.attempts(&ended.key.to_string()).len(), 2);
    assert_eq!(etag(&desk).await, "\"2\"");
    desk.assert_exactly_one_order(|order| order["status"] == "cancelled");
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
}

/// R1: a server that looks at the version before the key says no to what it has done.
#[tokio::test]
async fn a_412_after_a_lost_reply_is_for_a_person_and_never_a_no() {
    let desk = Desk::builder().unkind(Unkind::ValidatesFirst).start().await.unwrap();
    let client = client(&desk);
    receipt(client.submit(mail(1), &order()).await);
    desk.script("lose reply; ok".parse().unwrap());
    let told = client.submit(mail(2), &amend(1)).await;
    assert_eq!(review(told), (ReviewReason::Contradicted, Effect::Possible));
    assert_eq!(etag(&desk).await, "\"2\"", "it was made");
    assert_eq!(acting(&desk)[1].status, Some(412));
    assert_eq!(desk.keys().len(), 2);
}

/// A server that answers a repeat with what stands now: ended since, a change did not come to what was meant; an end did.
#[tokio::test]
async fn a_change_of_an_order_that_has_ended_since_is_for_a_person_and_an_end_is_not() {
    for ends in [false, true] {
        let desk = Arc::new(Desk::builder().unkind(Unkind::CurrentState).start().await.unwrap());
        let dialect = Dialect::ietf().duplicates(Duplicates::CurrentState);
        let client = client_of(&Journal::memory().unwrap(), brisk(&desk.url()).dialect(dialect));
        receipt(client.submit(mail(1), &order()).await);
        let its_own = Arc::downgrade(&desk);
        desk.after_commit(move |_| {
            if let Some(desk) = its_own.upgrade() {
                desk.change_order("ord-1", json!({"status": "cancelled"}));
            }
        });
        desk.script("lose reply; ok".parse().unwrap());
        if ends {
            receipt(client.submit(mail(2), &cancel()).await);
        } else {
            let told = client.submit(mail(2), &amend(1)).await;
            assert_eq!(review(told), (ReviewReason::FoundEnded, Effect::Possible));
        }
        desk.assert_script_played();
        desk.assert_one_order_per_key();
    }
}

/// Its lookup stands below the path of what was created; below that of an amendment there is nothing.
#[tokio::test]
async fn a_change_in_doubt_is_looked_up_at_no_path_that_means_nothing() {
    let desk = Desk::start().await;
    let dialect = Dialect::increase().retention(std::time::Duration::from_secs(3600));
    let client = client_of(&Journal::memory().unwrap(), brisk(&desk.url()).dialect(dialect));
    receipt(client.submit(mail(1), &order()).await);
    desk.script("lose reply; 422; ok".parse().unwrap());
    let told = client.submit(mail(2), &amend(1)).await;
    let Ok(Outcome::NeedsReview(held)) = &told else {
        panic!("{told:?}")
    };
    let key = held.key;
    assert_eq!(review(told), (ReviewReason::Contradicted, Effect::Possible));
    let error = client.look_up(key).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.next_step()),
        (ErrorKind::InvalidConfig, NextStep::AskHuman),
        "{error}"
    );
    assert!(desk.lookups().is_empty() && desk.strays().is_empty(), "{}", desk.story());
}

// ---- which order it is -----------------------------------------------------------------------------------------------

#[tokio::test]
async fn what_was_placed_for_a_mail_is_acted_on_by_the_servers_own_name_for_it() {
    let desk = Desk::start().await;
    let client = client(&desk);
    receipt(client.submit(mail(7), &PlaceOrder::new("C-700").item("SKU-7", 1)).await);
    receipt(client.submit(mail(1), &order()).await);
    receipt(client.submit(mail(2), &amend(1)).await);
    receipt(client.submit(mail(3), &cancel()).await);
    let paths: Vec<String> = acting(&desk)
        .into_iter()
        .map(|seen| format!("{} {}", seen.method, seen.path))
        .collect();
    assert_eq!(paths, ["PATCH /orders/ord-2", "POST /orders/ord-2/cancel"]);
    desk.assert_one_order(|order| order["customer"] == "C-700" && order["status"] == "accepted");
    desk.assert_one_order(|order| order["customer"] == "C-200" && order["status"] == "cancelled");
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn an_amend_and_a_cancel_of_one_mail_are_two_orders_with_two_keys() {
    let (desk, client) = with_an_order().await;
    let amended = receipt(client.submit(mail(1), &amend(1)).await);
    let cancelled = receipt(client.submit(mail(1), &cancel()).await);
    assert_ne!(amended.key, cancelled.key);
    assert_eq!(desk.keys().len(), 3, "and the order itself is the third");
    // Each is found again by its mail.
    assert_eq!(receipt(client.submit(mail(1), &amend(1)).await).key, amended.key);
    assert_eq!(receipt(client.submit(mail(1), &cancel()).await).key, cancelled.key);
    assert_eq!(desk.writes().len(), 3);
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn the_same_cancel_by_id_and_by_what_was_placed_is_one_order() {
    let (desk, client) = with_an_order().await;
    let by_id = CancelOrder::new(OrderRef::id("ord-1"), "not needed any more");
    let (named, referred) = (client.submit(mail(2), &by_id), cancel());
    let (named, referred) = tokio::join!(named, client.submit(mail(2), &referred));
    assert_eq!(receipt(named).key, receipt(referred).key);
    assert_eq!(acting(&desk).len(), 1);
    // With a version or another reason it is another order of that mail, which is not sent.
    for other in [cancel().base(Base::Version(1)), CancelOrder::new(placed(), "another reason")] {
        let error = client.submit(mail(2), &other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Drift, "{error}");
    }
    assert_eq!(acting(&desk).len(), 1);
}

#[tokio::test]
async fn what_another_operation_placed_is_named_by_that_operation() {
    let desk = Desk::start().await;
    let client = client(&desk);
    let placed = client
        .submit(mail(1), &JsonOrder::new(Route::post("orders"), json!({"sku": "A"})))
        .await;
    receipt(placed);
    invalid(client.submit(mail(2), &cancel()).await);
    let named = OrderRef::PlacedAs {
        operation: "json_order".to_owned(),
        origin: mail(1),
    };
    receipt(client.submit(mail(2), &CancelOrder::new(named, "why")).await);
    desk.assert_exactly_one_order(|order| order["status"] == "cancelled");
}

/// An origin means its newest order.
#[tokio::test]
async fn a_corrected_order_is_the_one_that_is_cancelled() {
    let desk = Desk::start().await;
    let client = client(&desk);
    desk.script("refuse".parse().unwrap());
    refusal(client.submit(mail(1), &PlaceOrder::new("C-999").item("SKU-1", 2)).await);
    invalid(client.submit(mail(2), &cancel()).await);
    receipt(client.submit(mail(1), &order()).await);
    receipt(client.submit(mail(2), &cancel()).await);
    desk.assert_exactly_one_order(|order| order["customer"] == "C-100" && order["status"] == "cancelled");
}

// ---- a cancel never overtakes what it cancels ------------------------------------------------------------------------

#[tokio::test]
async fn while_it_is_not_known_whether_an_order_stands_nothing_acts_on_it() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = client_of(&folder.journal().await, brisk(&desk.url()));
    desk.script("lose reply x4".parse().unwrap());
    let key = client.submit(mail(1), &order()).await.unwrap_err().key().unwrap();
    for _ in 0..2 {
        let error = pending(client.submit(mail(2), &cancel()).await, key);
        assert_eq!((error.effect(), error.attempts()), (Effect::Possible, 4));
        assert!(matches!(error.next_step(), NextStep::Resume { .. }), "{error}");
        pending(client.submit(mail(3), &amend(1)).await, key);
    }
    assert_eq!(acting(&desk).len(), 0);
    assert_eq!(folder.events("claimed").len(), 1, "nor is anything written of it");
    let resumed = client.resume(key).await.unwrap();
    assert_eq!(resumed.effect(), Effect::Certain);
    receipt(client.submit(mail(2), &cancel()).await);
    assert_eq!(acting(&desk).len(), 1);
    desk.assert_exactly_one_order(|order| order["status"] == "cancelled");
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn nothing_acts_on_an_order_that_is_still_in_the_air() {
    let desk = Desk::start().await;
    let client = client(&desk);
    let (arrived, arrives) = mpsc::channel();
    desk.on_request(move |seen| arrived.send(seen.key.clone()).unwrap_or_default());
    desk.script("late 400ms".parse().unwrap());
    let placing = tokio::spawn({
        let client = client.clone();
        async move { client.submit(mail(1), &order()).await }
    });
    let key = tokio::task::spawn_blocking(move || arrives.recv().unwrap()).await.unwrap().unwrap();
    let error = pending(client.submit(mail(2), &cancel()).await, key.parse().unwrap());
    assert!(matches!(error.next_step(), NextStep::Resume { .. }), "{error}");
    assert_eq!(desk.requests().len(), 1);
    receipt(placing.await.unwrap());
    receipt(client.submit(mail(2), &cancel()).await);
    desk.assert_nothing_suspicious();
}

#[tokio::test]
async fn an_order_of_which_nothing_was_sent_is_not_acted_on_either() {
    let client = client_of(&Journal::memory().unwrap(), brisk(NOBODY));
    let error = client.submit(mail(1), &order()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSent);
    let error = pending(client.submit(mail(2), &cancel()).await, error.key().unwrap());
    assert_eq!(error.effect(), Effect::None, "resume would still send it");
    assert!(matches!(error.next_step(), NextStep::Resume { .. }), "{error}");
}

#[tokio::test]
async fn what_came_to_nothing_or_was_never_placed_is_invalid_and_nothing_is_sent() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let journal = folder.journal().await;
    let client = client_of(&journal, brisk(&desk.url()));
    desk.refuse_from_now_on("out_of_stock");
    let rejected = refusal(client.submit(mail(1), &order()).await);
    let error = invalid(client.submit(mail(2), &cancel()).await);
    assert_eq!(error.existing().map(|it| (it.key, it.standing)), Some((rejected.key, "rejected")));
    desk.refuse_no_more();

    let denied = client.submit(mail(11), &PlaceOrder::new("DENIED").item("SKU-1", 2)).await.unwrap();
    assert!(matches!(denied, Outcome::Denied(_)), "{denied:?}");
    let of = |n| CancelOrder::new(OrderRef::PlacedBy(mail(n)), "why");
    assert_eq!(
        invalid(client.submit(mail(12), &of(11)).await).existing().unwrap().standing,
        "denied"
    );
    // Never placed; placed at another api, whose names for orders are other ones.
    assert_eq!(invalid(client.submit(mail(12), &of(99)).await).existing(), None);
    let elsewhere = client_of(&journal, brisk(&desk.url()).name("elsewhere"));
    receipt(elsewhere.submit(mail(21), &order().note("elsewhere")).await);
    assert_eq!(invalid(client.submit(mail(22), &of(21)).await).existing(), None);
    // By nothing that names an order.
    let nowhere = CancelOrder::new(OrderRef::PlacedBy(Origin::unknown()), "why");
    assert_eq!(refused_field(&invalid(client.submit(mail(12), &nowhere).await)), "order");
    assert_eq!(acting(&desk).len(), 0);
    assert_eq!(folder.events("claimed").len(), 3, "of the cancels nothing is written");
}

#[tokio::test]
async fn an_order_that_waits_for_a_person_is_for_that_person() {
    let desk = Desk::start().await;
    let client = client(&desk);
    let parked = client.submit(mail(1), &PlaceOrder::new("ASKED").item("SKU-1", 2)).await.unwrap();
    assert!(matches!(parked, Outcome::AwaitingApproval(_)), "{parked:?}");
    let error = pending(client.submit(mail(2), &cancel()).await, parked.key());
    assert_eq!((error.effect(), error.next_step()), (Effect::None, NextStep::AskHuman));

    desk.script("lose reply; 422".parse().unwrap());
    let doubted = client.submit(mail(11), &order()).await.unwrap();
    let of_it = CancelOrder::new(OrderRef::PlacedBy(mail(11)), "why");
    let error = pending(client.submit(mail(12), &of_it).await, doubted.key());
    assert_eq!(review(Ok(doubted)), (ReviewReason::Contradicted, Effect::Possible));
    assert_eq!((error.effect(), error.next_step()), (Effect::Possible, NextStep::AskHuman));
    assert_eq!(acting(&desk).len(), 0);

    // Taken back, it is none that could be cancelled.
    let withdrawn = client.withdraw(parked.key(), "a mistake").await.unwrap();
    assert!(matches!(withdrawn, Outcome::Denied(_)), "{withdrawn:?}");
    invalid(client.submit(mail(2), &cancel()).await);
    assert_eq!(acting(&desk).len(), 0);
}

// ---- one segment -----------------------------------------------------------------------------------------------------

/// BUG-82: whatever an order is called, the request goes to it and nowhere else: named by the caller, or by a server's receipt.
#[tokio::test]
async fn an_orders_name_leads_nowhere_else_whether_given_or_read_from_a_receipt() {
    let evil = Desk::start().await;
    let host = evil.url().replace("http:", "");
    for name in [
        json!("../admin"),
        json!("a/b"),
        json!("a?x=1"),
        json!("a#f"),
        json!("//evil.test/x"),
        json!(format!("{host}/x")),
        json!("..\\admin"),
        json!("%2e%2e"),
        json!("a;b=c"),
        json!(" "),
        json!("a\r\nX-Evil: 1"),
        json!("ü"),
        json!("..."),
        json!(7),
        json!(u64::MAX),
    ] {
        let desk = Desk::start().await;
        let client = client(&desk);
        let said = name.clone();
        desk.serve("POST", "/orders", move |_| Reply::json(201, json!({"id": said})));
        for (method, path) in [("PATCH", "/orders/{id}"), ("POST", "/orders/{id}/cancel")] {
            desk.serve(method, path, |request| Reply::json(200, json!({"id": request.segment("id")})));
        }
        receipt(
            client
                .submit(mail(1), &JsonOrder::new(Route::post("orders"), json!({"sku": "A"})))
                .await,
        );
        let text = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
        let read = OrderRef::PlacedAs {
            operation: "json_order".to_owned(),
            origin: mail(1),
        };
        for (n, order) in [OrderRef::id(&text), read].into_iter().enumerate() {
            let change = AmendOrder::new(order.clone(), Base::Version(1)).set("a", 1);
            acted_on(client.submit(mail(10 + n), &change).await, &text);
            acted_on(client.submit(mail(20 + n), &CancelOrder::new(order, "why")).await, &text);
        }
        let acting = acting(&desk);
        assert_eq!(acting.len(), 4, "{text}: {}", desk.story());
        for seen in &acting {
            let segments = if seen.method == "PATCH" { 2 } else { 3 };
            assert_eq!(seen.path.split('/').skip(1).count(), segments, "{text}: {seen}");
            assert_eq!((seen.query.as_deref(), seen.header("x-evil")), (None, None), "{text}: {seen}");
        }
        desk.assert_nothing_suspicious();
    }
    assert!(evil.requests().is_empty(), "{}", evil.story());
}

#[track_caller]
fn acted_on(told: Result<Outcome<OrderReceipt>, Error>, name: &str) {
    assert_eq!(receipt(told).value.order_id.as_deref(), Some(name));
}

/// BUG-82: a name that no encoding could keep in its place is refused, and so is a receipt that names nothing.
#[tokio::test]
async fn a_name_that_would_be_another_path_is_refused_and_nothing_is_written_or_sent() {
    for (name, given) in [
        (json!(".."), true),
        (json!("."), true),
        (json!(""), true),
        (json!(null), false),
        (json!(-1), false),
        (json!(1.5), false),
        (json!(["ord-1"]), false),
        (json!({"id": "ord-1"}), false),
        (json!(true), false),
    ] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let client = client_of(&folder.journal().await, brisk(&desk.url()));
        let said = name.clone();
        desk.serve("POST", "/orders", move |_| Reply::json(201, json!({"id": said})));
        receipt(
            client
                .submit(mail(1), &JsonOrder::new(Route::post("orders"), json!({"sku": "A"})))
                .await,
        );
        let read = OrderRef::PlacedAs {
            operation: "json_order".to_owned(),
            origin: mail(1),
        };
        let mut named = vec![read];
        named.extend(given.then(|| OrderRef::id(name.as_str().unwrap())));
        for order in named {
            let change = AmendOrder::new(order.clone(), Base::Version(1)).set("a", 1);
            invalid(client.submit(mail(2), &change).await);
            invalid(client.submit(mail(3), &CancelOrder::new(order, "why")).await);
        }
        assert_eq!((desk.requests().len(), folder.events("claimed").len()), (1, 1), "{name}");
    }
}
