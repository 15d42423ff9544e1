//! What broke for others, by the numbers of docs/cases.md: a key, a fingerprint, a caller who left, an agent that asked twice. Cases that
//! another module covers carry their number there.

use crate::{
    kit::{Folder, order, plain_client},
    props::{HOUR, Hands, NOBODY, Role, actor, mail, order_events, receipt, single},
    resume::killed_at_its_first_request,
    story::claimed_on_disk,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};
use uketsuke::{
    Actor, Dialect, Effect, ErrorKind, IdempotencyKey, Journal, JsonOrder, KeyPlace, Operation, OrderClient, Origin, Outcome, PlaceOrder,
    ReviewReason, Route, ToolReply, TraceId, Why,
    testkit::{Desk, Script, Suspicion},
};

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

/// What a plain client hears that forces a key, as no function of the crate can.
struct Heard {
    status: u16,
    replayed: bool,
    body: Value,
}

async fn forced(desk: &Desk, path: &str, key: &str, body: &str) -> Heard {
    let request = plain_client().post(format!("{}{path}", desk.url())).header("Idempotency-Key", key);
    let request = request.header("Content-Type", "application/json").body(body.to_owned());
    let response = request.send().await.unwrap();
    Heard {
        status: response.status().as_u16(),
        replayed: response.headers().contains_key("idempotent-replayed"),
        body: response.json().await.unwrap(),
    }
}

fn json_order(text: &str) -> JsonOrder {
    JsonOrder::from_json(Route::post("orders"), text.as_bytes()).unwrap()
}

/// The key of each claim in the journal.
fn claimed_keys(folder: &Folder) -> Vec<String> {
    let claims = folder.events("claimed").into_iter();
    claims.map(|claim| claim["key"].as_str().unwrap().to_owned()).collect()
}

/// The fingerprint in each claim of the journal.
fn fingerprints(folder: &Folder) -> Vec<String> {
    let claims = folder.events("claimed").into_iter();
    let print = |claim: Value| claim["data"]["order"]["fingerprint"].as_str().unwrap().to_owned();
    claims.map(print).inspect(|print| assert!(print.starts_with("fp1:"))).collect()
}

// ---- key -------------------------------------------------------------------------------------------------------------

/// BUG-01: one submit has one key through all its attempts, and a request id for each.
#[tokio::test]
async fn a_retry_mints_no_key() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().status(503).times(2).then_ok());
    let receipt = receipt(folder.client(&desk).await.submit(mail(1), &order()).await);
    let requests = desk.requests();
    assert_eq!((requests.len(), receipt.attempts), (3, 3));
    assert_eq!(desk.keys(), [receipt.key.to_string()]);
    let request_ids: BTreeSet<_> = requests.iter().map(|request| request.request_id.clone().unwrap()).collect();
    assert_eq!(request_ids.len(), 3);
    let trace = |line: &str| TraceId::from_traceparent(line).unwrap();
    let traces: BTreeSet<_> = requests
        .iter()
        .map(|request| trace(request.traceparent.as_deref().unwrap()))
        .collect();
    assert_eq!(traces.len(), 1);
    assert_eq!(desk.orders().len(), 1);
    desk.assert_script_played();
    // Among others: the key is a UUID of version 4.
    desk.assert_nothing_suspicious();
}

/// BUG-03: the key on the wire is the one in the book, where and as the dialect says; a plain client's own key reaches the desk as it is.
#[tokio::test]
async fn the_key_on_the_wire_is_the_key_in_the_journal() {
    for (place, quote) in [
        (KeyPlace::RawHeader("Idempotency-Key".to_owned()), ""),
        (KeyPlace::QuotedHeader("Idempotency-Key".to_owned()), "\""),
    ] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let api = single(&desk.url()).dialect(Dialect::ietf().key(place)).build().unwrap();
        let client = OrderClient::new(folder.journal().await, api, actor());
        let keys = [
            receipt(client.submit(mail(1), &order()).await).key,
            receipt(client.submit(mail(2), &order()).await).key,
        ];
        assert_ne!(keys[0], keys[1], "nobody gave a key, so each order has a fresh one");
        let keys = keys.map(|key| key.to_string());
        assert_eq!(claimed_keys(&folder), keys);
        let wire: Vec<String> = desk
            .requests()
            .iter()
            .map(|request| request.headers_named("idempotency-key").concat())
            .collect();
        assert_eq!(wire, keys.map(|key| format!("{quote}{key}{quote}")));
        desk.assert_nothing_suspicious();
    }

    let desk = Desk::start().await;
    assert_eq!(forced(&desk, "/orders", KEY, r#"{"sku":"A"}"#).await.status, 201);
    assert_eq!(desk.requests()[0].headers_named("idempotency-key"), [KEY]);
}

/// An order that its caller can still change.
#[derive(Clone)]
struct Shared(Arc<AtomicU32>);

impl Serialize for Shared {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"sku": "A", "qty": self.0.load(SeqCst)}).serialize(serializer)
    }
}

impl Operation for Shared {
    type Receipt = Value;
    const NAME: &'static str = "shared_order";

    fn route(&self) -> Route {
        Route::post("orders")
    }
}

/// BUG-05: what was submitted is what is sent, whatever becomes of the caller's value: before the first attempt, or between two.
#[tokio::test]
async fn an_order_is_what_it_was_when_it_was_submitted() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let order = Shared(Arc::new(AtomicU32::new(1)));
    let shared = order.clone();
    desk.on_request(move |_| shared.0.store(9, SeqCst));
    desk.script(Script::new().status(503).then_ok());
    let client = folder.client(&desk).await;
    receipt(client.submit(mail(1), &order).await);
    assert_eq!(order.0.load(SeqCst), 9, "the order was changed while it was out");
    let requests = desk.requests();
    let told: Vec<_> = requests.iter().map(|request| request.status).collect();
    assert_eq!(told, [Some(503), Some(201)]);
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(desk.orders()[0]["qty"], 1);

    order.0.store(1, SeqCst);
    let submitted = client.submit(mail(2), &order);
    order.0.store(9, SeqCst);
    receipt(submitted.await);
    assert_eq!(desk.orders()[1]["qty"], 1);
}

/// BUG-06: a server that knows the key with other contents is not asked again, nobody hears the other order's receipt, and a person looks.
#[tokio::test]
async fn a_key_used_for_other_contents_is_for_a_person() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let journal = folder.journal().await;
    let at = |url: &str| OrderClient::new(journal.clone(), single(url).name("shop").build().unwrap(), actor());
    // The crate's order has its key before the desk hears of it, so that a stranger can take the key.
    let unsent = at(NOBODY).submit(mail(1), &order()).await.unwrap_err();
    assert_eq!(unsent.kind(), ErrorKind::NotSent);
    let key = unsent.key().unwrap();
    let strangers = r#"{"customer":"C-999","items":[{"sku":"SKU-9","quantity":9}]}"#;
    assert_eq!(forced(&desk, "/orders", &key.to_string(), strangers).await.status, 201);

    let client = at(&desk.url());
    for _ in 0..2 {
        let outcome = client.submit(mail(1), &order()).await.unwrap();
        let Outcome::NeedsReview(review) = &outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((review.key, review.reason), (key, ReviewReason::Mismatch));
        assert_eq!(desk.requests().len(), 2, "{}", desk.story());
    }
    assert_eq!(desk.requests()[1].status, Some(422));
    let resumption = client.resume_pending().await.unwrap();
    assert!(resumption.resumed.is_empty(), "{resumption:?}");
    assert_eq!(
        (resumption.left_alone[0].key, &resumption.left_alone[0].why),
        (key, &Why::UnderReview)
    );
    assert_eq!(desk.requests().len(), 2);
    desk.assert_one_order(|_| true);
    desk.assert_one_order(|order| order["customer"] == "C-999");
}

/// BUG-07: fifty processes die at the moment their request arrives; each time the key stands in the file by then, and it is the one that
/// resume sends.
#[tokio::test]
async fn fifty_killed_processes_left_their_keys_behind() {
    for run in 0..50 {
        let (desk, folder) = (Desk::start().await, Folder::new());
        if run % 2 == 0 {
            desk.script(Script::new().lose_request());
        }
        let (log, looked) = (folder.log(), Arc::new(AtomicUsize::new(0)));
        let looks = Arc::clone(&looked);
        desk.on_request(move |seen| {
            if looks.fetch_add(1, SeqCst) == 0 {
                assert_eq!(claimed_on_disk(&log), [seen.key.clone().unwrap()]);
            }
        });
        killed_at_its_first_request(&desk, Role::new("submit", &desk.url(), &folder.path())).await;
        let resumed = folder.client(&desk).await.resume_pending().await.unwrap().resumed;
        assert_eq!(resumed.len(), 1, "run {run}\n{}", desk.story());
        let receipt = receipt(resumed[0].result.clone());
        assert_eq!(desk.keys(), [receipt.key.to_string()], "run {run}");
        assert_eq!((desk.orders().len(), looked.load(SeqCst)), (1, 2), "run {run}\n{}", desk.story());
        desk.assert_one_order_per_key();
    }
}

/// BUG-09: what makes two orders two is where they came from; where nobody says, equal contents are asked about.
#[tokio::test]
async fn equal_contents_are_two_orders_if_they_have_two_origins() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let [one, two] = [
        receipt(client.submit(mail(1), &order()).await),
        receipt(client.submit(mail(2), &order()).await),
    ];
    assert_ne!(one.key, two.key);
    assert_ne!(one.value.order_id, two.value.order_id);
    let again = receipt(client.submit(mail(1), &order()).await);
    assert_eq!((again.key, again.value), (one.key, one.value), "one origin is one order");
    assert_eq!((desk.keys().len(), desk.orders().len(), desk.requests().len()), (2, 2, 2));

    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let first = receipt(client.submit(Origin::unknown(), &order()).await);
    let error = client.submit(Origin::unknown(), &order()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::LikelyRepeat, Effect::Possible));
    assert_eq!(error.existing().unwrap().key, first.key);
    assert_eq!((desk.keys().len(), desk.orders().len(), desk.requests().len()), (1, 1, 1));
}

/// BUG-12: blank is nobody's name: no key and no origin can be, and the desk takes no order under it either.
#[tokio::test]
async fn blank_is_no_key_and_no_origin() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    for blank in ["", "   "] {
        assert!(blank.parse::<IdempotencyKey>().is_err());
        for origin in [Origin::mail(blank), Origin::custom("ticket", blank), mail(1).line(blank)] {
            let error = client.submit(origin, &order()).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.effect(), error.key()),
                (ErrorKind::InvalidInput, Effect::None, None)
            );
        }
    }
    assert!(order_events(&folder).is_empty(), "{:?}", order_events(&folder));
    assert!(desk.requests().is_empty(), "{}", desk.story());

    for blank in ["", "   "] {
        let heard = forced(&desk, "/orders", blank, r#"{"sku":"A"}"#).await;
        assert_eq!((heard.status, &heard.body["code"]), (400, &json!("idempotency_key_invalid")));
    }
    assert_eq!((desk.orders().len(), desk.rows().len()), (0, 0));
}

#[derive(Serialize)]
struct Create {
    sku: &'static str,
}

impl Operation for Create {
    type Receipt = Value;
    const NAME: &'static str = "create";

    fn route(&self) -> Route {
        Route::post("orders")
    }
}

#[derive(Serialize)]
struct Cancel {
    id: &'static str,
}

impl Operation for Cancel {
    type Receipt = Value;
    const NAME: &'static str = "cancel";

    fn route(&self) -> Route {
        Route::post("orders").segment(self.id).then("cancel")
    }
}

/// BUG-13: creating and cancelling from one mail are two orders with two keys; under one key, the desk gives neither the other's answer.
#[tokio::test]
async fn two_operations_never_share_a_key() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let created = receipt(client.submit(mail(1), &Create { sku: "A" }).await);
    assert_eq!(created.value["order_id"], "ord-1");
    let cancelled = receipt(client.submit(mail(1), &Cancel { id: "ord-1" }).await);
    assert_ne!(created.key, cancelled.key);
    assert_eq!(cancelled.value["status"], "cancelled");
    assert_eq!(desk.keys(), [created.key.to_string(), cancelled.key.to_string()]);
    desk.assert_one_order(|order| order["status"] == "cancelled");
    desk.assert_nothing_suspicious();

    let desk = Desk::start().await;
    assert_eq!(forced(&desk, "/orders", KEY, r#"{"id":"ord-1"}"#).await.status, 201);
    let heard = forced(&desk, "/orders/ord-1/cancel", KEY, r#"{"id":"ord-1"}"#).await;
    assert_eq!((heard.status, heard.replayed), (422, false));
    assert_eq!(heard.body["code"], "idempotency_conflict");
    desk.assert_one_order(|order| order["status"] == "accepted");
    assert!(
        matches!(desk.suspicions()[..], [Suspicion::KeyReused { .. }]),
        "{:?}",
        desk.suspicions()
    );
}

// ---- fingerprint -----------------------------------------------------------------------------------------------------

/// Whether two texts are one order. The desk and the crate, which share no code for it, must say the same: the desk under one key, the
/// crate for one origin; and the crate's fingerprints are equal just then.
async fn are_one_order(one: &str, two: &str) -> bool {
    let desk = Desk::start().await;
    let heard = forced(&desk, "/orders", KEY, one).await;
    assert_eq!((heard.status, heard.replayed), (201, false));
    let heard = forced(&desk, "/orders", KEY, two).await;
    let to_the_desk = match (heard.status, heard.replayed) {
        (201, true) => true,
        (422, false) => {
            assert_eq!(heard.body["code"], "idempotency_conflict");
            false
        }
        other => panic!("{one} and {two}: {other:?}"),
    };
    assert_eq!(desk.orders().len(), 1);

    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let first = receipt(client.submit(mail(1), &json_order(one)).await);
    let to_us = match client.submit(mail(1), &json_order(two)).await {
        Ok(Outcome::Succeeded(receipt)) => {
            assert_eq!((receipt.key, receipt.value), (first.key, first.value));
            true
        }
        Err(error) if error.kind() == ErrorKind::Drift => false,
        other => panic!("{one} and {two}: {other:?}"),
    };
    assert_eq!((desk.requests().len(), desk.orders().len()), (1, 1));
    receipt(client.submit(mail(2), &json_order(two)).await);
    let prints = fingerprints(&folder);
    assert_eq!(prints[0] == prints[1], to_us, "{one} and {two}: {prints:?}");
    assert_eq!(to_us, to_the_desk, "{one} and {two}");
    to_us
}

/// BUG-44: the order of members is spelling, at every level; the order of items is meaning.
#[tokio::test]
async fn members_may_change_places_and_items_may_not() {
    let base = r#"{"sku":"A","ship":{"zip":"1","city":"X"},"items":[1,2]}"#;
    assert!(are_one_order(base, r#"{"items":[1,2],"ship":{"city":"X","zip":"1"},"sku":"A"}"#).await);
    assert!(!are_one_order(base, r#"{"sku":"A","ship":{"zip":"1","city":"X"},"items":[2,1]}"#).await);
}

/// BUG-45: a number is one value however it is written, to the desk as to the crate.
#[tokio::test]
async fn one_and_one_point_zero_are_one_order() {
    for spelling in [r#"{"qty":1.0}"#, r#"{"qty":1e0}"#, r#"{"qty":10e-1}"#] {
        assert!(are_one_order(r#"{"qty":1}"#, spelling).await, "{spelling}");
    }
    assert!(are_one_order(r#"{"qty":100}"#, r#"{"qty":1e2}"#).await);
    for other in [r#"{"qty":2}"#, r#"{"qty":1.5}"#, r#"{"qty":"1"}"#] {
        assert!(!are_one_order(r#"{"qty":1}"#, other).await, "{other}");
    }
}

/// BUG-46: two neighbours past 2^53 are two customers to the desk, and none that the crate would send: read as text or built as a value.
#[tokio::test]
async fn whole_numbers_past_2_53_are_never_folded_into_one() {
    let order = |customer: &str| format!(r#"{{"customer":{customer},"sku":"A"}}"#);
    let desk = Desk::start().await;
    assert_eq!(forced(&desk, "/orders", KEY, &order("9007199254740992")).await.status, 201);
    let heard = forced(&desk, "/orders", KEY, &order("9007199254740993")).await;
    assert_eq!((heard.status, heard.replayed), (422, false));
    assert_eq!(desk.orders().len(), 1);

    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    for customer in [
        "9007199254740992",
        "9007199254740993",
        "9007199254740993.0",
        "12345678901234567890123",
    ] {
        let refused = JsonOrder::from_json(Route::post("orders"), order(customer).as_bytes()).unwrap_err();
        assert_eq!(refused.field, "customer", "{customer}");
        // One who reads it with another parser meets the same gate later.
        let value: Value = serde_json::from_str(&order(customer)).unwrap();
        let error = client
            .submit(mail(1), &JsonOrder::new(Route::post("orders"), value))
            .await
            .unwrap_err();
        assert_eq!((error.kind(), error.key()), (ErrorKind::InvalidInput, None), "{customer}");
    }
    assert!(desk.requests().is_empty() && order_events(&folder).is_empty(), "{}", desk.story());
    // As a text, digits stay digits.
    assert!(!are_one_order(&order("\"9007199254740992\""), &order("\"9007199254740993\"")).await);
}

/// BUG-48: `é` composed and decomposed are two values on both sides, and neither is rewritten on its way.
#[tokio::test]
async fn two_spellings_of_an_accent_are_two_orders() {
    let (composed, decomposed) = ("Caf\u{e9}", "Cafe\u{301}");
    let order = |name: &str| format!(r#"{{"name":"{name}"}}"#);
    assert!(!are_one_order(&order(composed), &order(decomposed)).await);
    let escaped = ["{\"name\":\"Caf", "u00e9\"}"].join("\\");
    assert!(are_one_order(&order(composed), &escaped).await, "an escape is spelling");

    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    for (n, name) in [composed, decomposed].into_iter().enumerate() {
        receipt(client.submit(mail(n), &json_order(&order(name))).await);
        assert_eq!(desk.requests()[n].body, order(name).into_bytes());
    }
}

/// BUG-49: who asks, when, from where and for the how-many-th time is no part of what is asked for.
#[tokio::test]
async fn nothing_volatile_is_in_the_fingerprint() {
    let (folder, clock) = (Folder::new(), Hands::new());
    let desk = clock.desk().await;
    let journal = Journal::builder().clock(clock.clone()).open(folder.path()).await.unwrap();
    let client = |name: &str| {
        let api = single(&desk.url()).build().unwrap();
        OrderClient::new(journal.clone(), api, Actor::agent(name).session(format!("{name}'s session")))
    };
    let trace = |n: u8| format!("{n:032x}").parse::<TraceId>().unwrap();
    desk.script(Script::new().lose_request().times(2).then_ok());
    let (ann, ben) = (client("ann"), client("ben"));

    // Attempts 1 and 2, and a third by resume: an hour later each time.
    for attempt in 1..=2 {
        let submit = ann.submit(mail(1), &order()).trace(trace(1)).tool_call(format!("call_{attempt}"));
        assert_eq!(submit.await.unwrap_err().attempts(), attempt);
        assert_eq!(fingerprints(&folder).len(), 1);
        clock.turn(HOUR);
    }
    let resumed = ben.resume_pending().await.unwrap().resumed;
    assert_eq!(receipt(resumed[0].result.clone()).attempts, 3);
    let requests = desk.requests();
    assert_eq!(requests.len(), 3);
    let attempts: BTreeSet<_> = requests
        .iter()
        .map(|request| (request.attempt, request.request_id.clone()))
        .collect();
    assert_eq!(attempts.len(), 3, "the volatile did differ");

    clock.turn(HOUR);
    receipt(ben.submit(mail(2), &order()).trace(trace(2)).tool_call("call_9").await);
    let prints = fingerprints(&folder);
    assert_eq!((prints.len(), &prints[0]), (2, &prints[1]));
    assert_eq!(claimed_keys(&folder).iter().collect::<BTreeSet<_>>().len(), 2);
    // Whoever asks for something else asks for something else.
    receipt(ben.submit(mail(3), &order().note("other")).await);
    assert_ne!(fingerprints(&folder)[2], prints[0]);
}

// ---- cancel ----------------------------------------------------------------------------------------------------------

/// BUG-66: a caller who goes away ends the call, not the order: it is open under its key, and resume learns its end. The desk has committed
/// when the caller goes, and answers when the test has looked.
#[tokio::test]
async fn an_order_whose_caller_left_is_open_and_resume_learns_its_end() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let (tell, mut committed) = tokio::sync::mpsc::unbounded_channel();
    let (let_go, go) = mpsc::channel::<()>();
    let go = Mutex::new(go);
    desk.after_commit(move |_| {
        tell.send(()).unwrap();
        go.lock().unwrap().recv_timeout(Duration::from_secs(10)).unwrap_or_default();
    });
    let client = OrderClient::new(folder.journal().await, single(&desk.url()).build().unwrap(), actor());
    tokio::select! {
        told = client.submit(mail(1), &order()).into_future() => panic!("it was answered: {told:?}"),
        seen = committed.recv() => seen.unwrap(),
    }

    assert_eq!(desk.orders().len(), 1);
    assert!(folder.events("settled").is_empty());
    let [key] = claimed_keys(&folder).try_into().unwrap();
    let key: IdempotencyKey = key.parse().unwrap();
    let error = client.known(key).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::StillProcessing, Effect::Possible),
        "{error}"
    );

    let_go.send(()).unwrap();
    assert_eq!(receipt(client.resume(key).await).key, key);
    assert_eq!(desk.keys(), [key.to_string()]);
    assert_eq!(desk.orders().len(), 1);
    assert!(client.resume_pending().await.unwrap().resumed.is_empty());
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
}

// ---- agent -----------------------------------------------------------------------------------------------------------

/// A tool as an agent's framework calls it: JSON out, whatever happened.
async fn tool(client: &OrderClient, call: &str, order: &PlaceOrder) -> Value {
    let result = client.submit(mail(1), order).tool_call(call).await;
    serde_json::to_value(ToolReply::of(&result)).unwrap()
}

/// BUG-72: a run that is played again after its tool had succeeded gets the same order once more, also from a journal opened anew.
#[tokio::test]
async fn a_tool_that_succeeded_and_is_called_again_gives_the_same_order() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let first = tool(&folder.client(&desk).await, "call_1", &order()).await;
    assert_eq!(first["status"], "succeeded");
    assert_eq!(first["order"]["order_id"], "ord-1");
    for _ in 0..2 {
        let again = tool(&folder.client(&desk).await, "call_1", &order()).await;
        assert_eq!(again, first);
    }
    assert_eq!((desk.requests().len(), desk.orders().len(), desk.keys().len()), (1, 1, 1));
    desk.assert_one_order_per_key();
}

/// BUG-73: a model's new call id and a new trace make no new order; the book keeps both calls apart, under one key.
#[tokio::test]
async fn a_new_tool_call_id_makes_no_new_order() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let calls = [("call_1", "1"), ("call_9", "9")].map(|(call, digit)| (call, digit.repeat(32)));
    let mut keys = Vec::new();
    for (call, trace) in &calls {
        let submit = client.submit(mail(1), &order()).tool_call(*call).trace(trace.parse().unwrap());
        keys.push(receipt(submit.await).key.to_string());
    }
    assert_eq!(keys[0], keys[1]);
    assert_eq!(
        (desk.orders().len(), desk.keys(), desk.requests().len()),
        (1, vec![keys[0].clone()], 1)
    );

    let (claimed, joined) = (folder.events("claimed"), folder.events("joined"));
    assert_eq!((claimed.len(), joined.len()), (1, 1));
    let rows = [(&claimed[0], &claimed[0]["data"]["order"]), (&joined[0], &joined[0]["data"])];
    for ((call, trace), (row, told)) in calls.iter().zip(rows) {
        assert_eq!(row["key"], *keys[0]);
        assert_eq!((&told["tool_call"], &told["trace"]), (&json!(call), &json!(trace)));
    }
}
