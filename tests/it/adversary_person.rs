//! What an adversary found about the person in the loop: each test is a claim that should hold.

use crate::{
    kit::{Folder, brisk, order},
    props::{actor, asks, mail, receipt},
    shop::{Shop, away, shown, ticket},
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use uketsuke::{
    AmendOrder, Base, CancelOrder, Encoding, ErrorKind, Finding, Impact, Journal, JsonOrder, Operation, Operator, OrderClient, OrderRef,
    Origin, Outcome, Route, Subject, TurnedAway,
    testkit::{Desk, Reply},
};

// ---- where it goes -------------------------------------------------------------------------------------------------

/// `decided` took whatever key it was given: another api's approved order was sent to this client's server.
#[tokio::test]
async fn a_ticket_of_another_api_is_not_sent_to_this_one() {
    let (shop, elsewhere) = (Shop::new().await, Desk::start().await);
    let asked = ticket(shop.asking().submit(mail(1), &order()).await);
    drop(shop.ana().approve(asked.key, &shown(&asked).digest, "").await.unwrap());
    let other = brisk(&elsewhere.url()).name("elsewhere").build().unwrap();
    let other = OrderClient::builder(shop.journal.clone(), other, actor()).policy(asks).build();
    let told = other.decided(&asked).await;
    assert_eq!(elsewhere.writes().len(), 0, "{told:?}");
    assert_eq!(told.unwrap_err().kind(), ErrorKind::InvalidConfig);
}

/// A ticket of another journal was answered with "open the journal anew", as if this one were damaged.
#[tokio::test]
async fn a_ticket_of_another_journal_is_a_key_that_is_not_known() {
    let (shop, other) = (Shop::new().await, Shop::new().await);
    let asked = ticket(shop.asking().submit(mail(1), &order()).await);
    let told = other.asking().decided(&asked).await.unwrap_err();
    assert_eq!(told.kind(), ErrorKind::InvalidInput, "{told}");
}

// ---- two orders out of one -----------------------------------------------------------------------------------------

/// The person frees the origin, then finds the order after all: the mail that comes again was a second order, although the journal knows that
/// the first was processed.
#[tokio::test]
async fn an_origin_that_was_freed_is_taken_again_once_its_order_is_known_to_be_processed() {
    for (n, origin) in [mail(1), Origin::unknown()].into_iter().enumerate() {
        let shop = Shop::new().await;
        shop.desk
            .script(uketsuke::testkit::Script::new().commit_then_lose_reply().times(4).then_ok());
        let error = shop.client().submit(origin.clone(), &order()).await.unwrap_err();
        let key = error.key().unwrap();
        let ana = shop.ana();
        drop(ana.abandon(key, "it seems lost").await.unwrap());
        ana.free_origin(key, "it shall be placed anew").await.unwrap();
        let found = Finding::Applied {
            receipt: Some(json!({"order_id": "ord-1"})),
        };
        drop(receipt(ana.reconcile(key, found, "it is on the server's list").await));
        let again = shop.client().submit(origin, &order()).await;
        match n {
            0 => assert_eq!(again.unwrap().key(), key),
            _ => assert_eq!(again.unwrap_err().kind(), ErrorKind::LikelyRepeat),
        }
        assert_eq!(shop.desk.orders().len(), 1, "{}", shop.desk.story());
    }
}

// ---- something else than was shown ---------------------------------------------------------------------------------

/// What a request asks for by its query or by a header of its own was not shown at all.
#[tokio::test]
async fn a_preview_shows_query_and_headers_too() {
    let shop = Shop::new().await;
    let route = Route::post("orders").query("quantity", "9000").header("x-ship-to", "nowhere");
    let asked = ticket(shop.asking().submit(mail(1), &JsonOrder::new(route, json!({"sku": "A"}))).await);
    let preview = shown(&asked);
    for text in [preview.to_string(), preview.to_html()] {
        assert!(text.contains("quantity=9000"), "{text}");
        assert!(text.contains("x-ship-to") && text.contains("nowhere"), "{text}");
    }
}

/// The order that was read stands elsewhere than where the request goes: the person saw one order and ended another.
#[tokio::test]
async fn a_preview_says_which_order_it_shows() {
    let shop = Shop::new().await;
    for n in 1..3 {
        receipt(shop.client().submit(mail(n), &order()).await);
    }
    let route = Route::post("orders").segment("ord-1").then("cancel");
    let cancel = JsonOrder::new(route, json!({"reason": "x"}))
        .impact(Impact::High)
        .subject(Subject::ended(Route::get("orders").segment("ord-2")));
    let preview = shown(&ticket(shop.client().submit(mail(3), &cancel).await));
    for text in [preview.to_string(), preview.to_html()] {
        assert!(text.contains("/orders/ord-2"), "{text}");
    }
}

/// By an ETag that never changes, a cancel was sent for an order that had become another one since it was shown.
#[tokio::test]
async fn an_end_is_weighed_by_all_that_was_shown_of_what_ends() {
    let shop = Shop::new().await;
    let grown = Arc::new(AtomicBool::new(false));
    let is_grown = Arc::clone(&grown);
    shop.desk.serve("GET", "/orders/{id}", move |_| {
        let quantity = if is_grown.load(Ordering::SeqCst) { 2000 } else { 2 };
        Reply::json(200, json!({"items": [{"sku": "SKU-1", "quantity": quantity}]})).header("ETag", "\"1\"")
    });
    let asked = ticket(shop.client().submit(mail(2), &CancelOrder::new(OrderRef::id("ord-1"), "x")).await);
    drop(shop.ana().approve(asked.key, &shown(&asked).digest, "").await.unwrap());
    grown.store(true, Ordering::SeqCst);
    let again = ticket(shop.client().resume(asked.key).await);
    assert_eq!((again.approved_by, shop.writes()), (None, 0));
}

struct Units(u32);

impl serde::Serialize for Units {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"quantity": self.0}).serialize(serializer)
    }
}

impl Operation for Units {
    type Receipt = Value;
    const NAME: &'static str = "set_units";

    fn route(&self) -> Route {
        Route::post("orders").segment("ord-1")
    }

    fn encoding(&self) -> Encoding {
        Encoding::Form
    }

    fn impact(&self) -> Impact {
        Impact::High
    }

    fn subject(&self) -> Option<Subject> {
        Some(Subject::merged(Route::get("orders").segment("ord-1")))
    }
}

/// A form's contents took the whole order's place in the preview, and what changed since was not noticed under one ETag.
#[tokio::test]
async fn a_change_sent_as_a_form_is_shown_field_by_field() {
    let shop = Shop::new().await;
    shop.desk.serve("GET", "/orders/{id}", |_| {
        Reply::json(200, json!({"quantity": 2, "sku": "A"})).header("ETag", "\"1\"")
    });
    let preview = shown(&ticket(shop.client().submit(mail(2), &Units(3)).await));
    let fields: Vec<&str> = preview.changes.iter().map(|change| change.field.as_str()).collect();
    assert_eq!(fields, ["quantity"], "{preview}");
}

/// One that denies, and panics over its day.
struct Stumbles {
    denies: bool,
}

impl uketsuke::Policy for Stumbles {
    fn judge(&self, proposal: &uketsuke::Proposal<'_>) -> uketsuke::Ruling {
        match self.denies {
            true => crate::props::denies(proposal),
            false => asks(proposal),
        }
    }

    fn daily(&self, _: &uketsuke::Proposal<'_>) -> Vec<uketsuke::DailyLimit> {
        panic!("out of order")
    }
}

/// A panic over the day made a no milder: a person was asked, and what they approved was sent.
#[tokio::test]
async fn a_panic_over_the_day_makes_no_ruling_milder() {
    let shop = Shop::new().await;
    let with = |denies| {
        let api = brisk(&shop.desk.url()).build().unwrap();
        OrderClient::builder(shop.journal.clone(), api, actor())
            .policy(Stumbles { denies })
            .build()
    };
    let told = with(true).submit(mail(1), &order()).await;
    assert!(matches!(told, Ok(Outcome::Denied(_))), "{told:?}");
    assert_eq!(ticket(with(false).submit(mail(2), &order()).await).because.rules, ["policy_failed"]);
    // The day is not weighed again, so nobody asks about it: the yes is good.
    let asked = ticket(shop.asking().submit(mail(3), &order()).await);
    drop(shop.ana().approve(asked.key, &shown(&asked).digest, "").await.unwrap());
    receipt(with(false).resume(asked.key).await);
    assert_eq!(shop.writes(), 1);
}

// ---- what is told --------------------------------------------------------------------------------------------------

/// An order in doubt, stopped and freed by Ana; the desk has it.
async fn freed_in_doubt(shop: &Shop) -> uketsuke::IdempotencyKey {
    shop.desk
        .script(uketsuke::testkit::Script::new().commit_then_lose_reply().times(4).then_ok());
    let key = shop.client().submit(mail(1), &order()).await.unwrap_err().key().unwrap();
    drop(shop.ana().abandon(key, "it seems lost").await.unwrap());
    shop.ana().free_origin(key, "it shall be placed anew").await.unwrap();
    key
}

/// Of an order that a person found not to be there, a caller was told to correct it, which its origin does not let it.
#[tokio::test]
async fn what_a_person_found_unprocessed_is_for_a_person() {
    let shop = Shop::new().await;
    shop.desk
        .script(uketsuke::testkit::Script::new().commit_then_lose_reply().times(4).then_ok());
    let key = shop.client().submit(mail(1), &order()).await.unwrap_err().key().unwrap();
    let told = shop.ana().reconcile(key, Finding::NotApplied, "not on the list").await.unwrap();
    assert_eq!(
        shop.client().submit(mail(1), &order().note("x")).await.unwrap_err().kind(),
        ErrorKind::Drift
    );
    assert_eq!(told.next_step(), uketsuke::NextStep::AskHuman);
}

/// "There is no such order at the server", while one of an earlier generation may be there, and is.
#[tokio::test]
async fn no_earlier_order_of_an_origin_is_said_not_to_be_there_while_nobody_knows() {
    let shop = Shop::new().await;
    let key = freed_in_doubt(&shop).await;
    let second = ticket(shop.asking().submit(mail(1), &order()).await);
    drop(shop.ana().refuse(second.key, "not needed any more").await.unwrap());
    let cancel = || CancelOrder::new(OrderRef::PlacedBy(mail(1)), "not needed any more");
    let error = shop.client().submit(mail(2), &cancel()).await.unwrap_err();
    assert_eq!(shop.desk.orders().len(), 1);
    assert_eq!((error.kind(), error.key()), (ErrorKind::OrderPending, Some(key)), "{error}");
    // Once it is known to stand, it is the one that was placed.
    let found = Finding::Applied {
        receipt: Some(json!({"order_id": "ord-1"})),
    };
    drop(receipt(shop.ana().reconcile(key, found, "it is on the list").await));
    let asked = ticket(shop.client().submit(mail(2), &cancel()).await);
    assert_eq!(shown(&asked).request, "POST /orders/ord-1/cancel");
}

/// The same with a correction: the newest order of the origin is a no, and the one before it, freed in doubt, is known to stand by now.
#[tokio::test]
async fn a_correction_is_no_second_order_beside_an_earlier_one_that_is_known_to_stand() {
    let shop = Shop::new().await;
    let key = freed_in_doubt(&shop).await;
    let api = brisk(&shop.desk.url()).build().unwrap();
    let denying = OrderClient::builder(shop.journal.clone(), api, actor())
        .policy(crate::props::denies)
        .build();
    assert!(matches!(denying.submit(mail(1), &order()).await, Ok(Outcome::Denied(_))));
    let found = Finding::Applied {
        receipt: Some(json!({"order_id": "ord-1"})),
    };
    drop(receipt(shop.ana().reconcile(key, found, "it is on the list").await));
    let error = shop.client().submit(mail(1), &order().note("corrected")).await.unwrap_err();
    assert_eq!((error.kind(), error.existing().unwrap().key), (ErrorKind::LikelyRepeat, key));
    assert_eq!(shop.desk.orders().len(), 1, "{}", shop.desk.story());
}

// ---- what is shown can't pass for something else -------------------------------------------------------------------

/// A member whose name looks like a path was shown under the path of another field.
#[tokio::test]
async fn no_members_name_passes_for_another_field() {
    let shop = Shop::new().await;
    let honest = json!({"items": [{"quantity": 1}], "note": {"text": 1}});
    let plain = shown(&ticket(
        shop.asking().submit(mail(1), &JsonOrder::new(Route::post("orders"), honest)).await,
    ));
    let known: Vec<&str> = plain.changes.iter().map(|change| change.field.as_str()).collect();
    assert_eq!(known, ["items", "note"]);
    for (n, body) in [
        json!({"": {"items": 1}}),
        json!({"": 1}),
        json!({"(all of it)": 1}),
        json!({"a.b": 1}),
        json!({"a[0]": 1}),
        json!({"note  (nothing)  ->  7": 1}),
    ]
    .into_iter()
    .enumerate()
    {
        let name = body.as_object().unwrap().keys().next().unwrap().clone();
        let preview = shown(&ticket(
            shop.asking()
                .submit(mail(10 + n), &JsonOrder::new(Route::post("orders"), body))
                .await,
        ));
        assert_eq!(preview.changes[0].field, format!("[{}]", json!(name)), "{preview}");
    }
}

/// A character that shows nothing made a name of nothing, and one name two.
#[tokio::test]
async fn a_name_of_blank_patterns_is_no_name() {
    let shop = Shop::new().await;
    let asked = ticket(shop.asking().submit(mail(1), &order()).await);
    let digest = shown(&asked).digest;
    let by = |name: &str| Operator::new(shop.journal.clone(), name);
    assert_eq!(away(by("\u{2800}").approve(asked.key, &digest, "").await), TurnedAway::Nameless {});
    assert_eq!(
        away(by("test-agent\u{2800}").approve(asked.key, &digest, "").await),
        TurnedAway::OwnOrder {}
    );
}

// ---- what held -----------------------------------------------------------------------------------------------------

/// The longest time there is to answer leaves a journal that can be read.
#[tokio::test]
async fn a_person_may_be_given_all_the_time_there_is() {
    let shop = Shop::new().await;
    let api = brisk(&shop.desk.url()).build().unwrap();
    let client = OrderClient::builder(shop.journal.clone(), api, actor())
        .policy(asks)
        .approval_within(Duration::MAX)
        .build();
    let asked = ticket(client.submit(mail(1), &order()).await);
    drop(shop.ana().approve(asked.key, &shown(&asked).digest, "").await.unwrap());
    receipt(client.resume(asked.key).await);
    assert_eq!(shop.writes(), 1);
}

/// What was compacted is turned away, freed, and placed anew; and compaction behind it forgets none of it.
#[tokio::test]
async fn an_origin_that_is_freed_after_compaction_has_one_new_order() {
    let shop = Shop::new().await;
    let api = brisk(&shop.desk.url()).build().unwrap();
    let client = OrderClient::builder(shop.journal.clone(), api, actor())
        .policy(asks)
        .repeat_window(Duration::ZERO)
        .build();
    let first = ticket(client.submit(mail(1), &order()).await);
    drop(shop.ana().refuse(first.key, "no").await.unwrap());
    shop.clock.turn(1000);
    assert!(shop.journal.compact().await.unwrap().moved > 0);
    assert_eq!(away(shop.ana().approve(first.key, "x", "").await), TurnedAway::Ended {});
    assert_eq!(client.submit(mail(1), &order()).await.unwrap().key(), first.key);
    drop(shop.journal.compact().await.unwrap());
    shop.ana().free_origin(first.key, "needed after all").await.unwrap();
    drop(shop.journal.compact().await.unwrap());
    let second = ticket(client.submit(mail(1), &order()).await);
    assert_ne!(second.key, first.key);
    drop(shop.ana().approve(second.key, &shown(&second).digest, "").await.unwrap());
    receipt(client.resume(second.key).await);
    shop.clock.turn(1000);
    drop(shop.journal.compact().await.unwrap());
    assert_eq!(receipt(client.submit(mail(1), &order()).await).key, second.key);
    assert_eq!((shop.writes(), shop.folder.log().exists()), (1, true));
}

/// Refused while the order it acts on is being read for the last time: nothing is sent.
#[tokio::test]
async fn a_no_between_the_last_look_and_the_leave_stands() {
    for stop in ["refuse", "abandon", "withdraw"] {
        let shop = Shop::new().await;
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        shop.desk.serve("GET", "/orders/{id}", move |_| {
            let reply = Reply::json(200, json!({"items": [{"sku": "SKU-1", "quantity": 2}]})).header("ETag", "\"1\"");
            if counted.fetch_add(1, Ordering::SeqCst) > 0 {
                std::thread::sleep(Duration::from_millis(300));
            }
            reply
        });
        let amend = AmendOrder::new(OrderRef::id("ord-1"), Base::Version(1)).set("note", "x");
        let asked = ticket(shop.client().submit(mail(2), &amend).await);
        drop(shop.ana().approve(asked.key, &shown(&asked).digest, "").await.unwrap());
        let (client, key) = (shop.client(), asked.key);
        let flight = tokio::spawn(async move { client.resume(key).await });
        while reads.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let told = match stop {
            "refuse" => shop.ana().refuse(key, "no").await,
            "abandon" => shop.ana().abandon(key, "no").await,
            _ => shop.ana().withdraw(key, "no").await,
        };
        let flown = flight.await.unwrap();
        match told {
            Ok(_) => assert_eq!(shop.writes(), 0, "{stop}: {flown:?}"),
            Err(error) => assert!(
                error.turned_away() == Some(&TurnedAway::InFlight {}) && shop.writes() == 1,
                "{stop}: {error}"
            ),
        }
    }
}

/// A receipt that was nested too deeply was written, and could never be read again: its order was lost to everybody.
#[tokio::test]
async fn no_receipt_of_a_person_makes_an_order_unreadable() {
    let shop = Shop::new().await;
    shop.desk
        .script(uketsuke::testkit::Script::new().commit_then_lose_reply().times(4).then_ok());
    let key = shop.client().submit(mail(1), &order()).await.unwrap_err().key().unwrap();
    for depth in [400, 200, 128, 127, 126, 125, 124, 123, 122, 121, 120, 100] {
        let deep = (0..depth).fold(json!({"order_id": "ord-1"}), |inner, _| json!([inner]));
        let found = Finding::Applied {
            receipt: Some(json!({"order_id": "ord-1", "deep": deep})),
        };
        drop(shop.ana().reconcile(key, found, "it is on the list").await);
        let known = shop.client().known(key).await;
        let readable = match &known {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::InDoubt,
        };
        assert!(readable, "{depth}: {known:?}");
        if let Ok(Some(Outcome::Succeeded(_))) = known {
            let error = shop.ana().abandon(key, "to try again").await.unwrap_err();
            assert_eq!(error.turned_away(), Some(&TurnedAway::Ended {}));
            assert_eq!(shop.ana().show(key).await.unwrap().entry.standing, "succeeded");
            let receipt = receipt(shop.client().submit(mail(1), &order()).await);
            assert_eq!(receipt.value.order_id.as_deref(), Some("ord-1"), "{depth}");
            return;
        }
    }
}

/// Whatever the order's own GET answers at the last look, nothing is sent unseen, and the yes is kept or void.
#[tokio::test]
async fn nothing_is_sent_on_a_last_look_that_shows_nothing() {
    let order_now = || json!({"items": [{"sku": "SKU-1", "quantity": 2}]});
    let replies: Vec<(&str, Reply, bool)> = vec![
        ("404", Reply::json(404, json!({"items": []})), true),
        ("401", Reply::json(401, order_now()), true),
        ("redirect", Reply::json(302, order_now()).header("Location", "/orders"), true),
        ("page", Reply::status(200).body("text/html", "<p>sign in</p>"), true),
        ("cut", Reply::status(200).body("application/json", "{\"items\":"), true),
        ("huge", Reply::json(200, json!({"note": "x".repeat(2 << 20)})), true),
        ("list", Reply::json(200, json!([order_now()])), true),
        ("empty", Reply::status(204), true),
        ("weak", Reply::json(200, order_now()).header("ETag", "W/\"1\""), false),
        ("without", Reply::json(200, order_now()), false),
        ("other", Reply::json(200, json!({"items": []})).header("ETag", "\"1\""), false),
    ];
    for (what, reply, kept) in replies {
        let shop = Shop::new().await;
        let last = Arc::new(AtomicBool::new(false));
        let is_last = Arc::clone(&last);
        shop.desk
            .serve("GET", "/orders/{id}", move |_| match is_last.load(Ordering::SeqCst) {
                true => reply.clone(),
                false => Reply::json(200, json!({"items": [{"sku": "SKU-1", "quantity": 2}]})).header("ETag", "\"1\""),
            });
        let amend = AmendOrder::new(OrderRef::id("ord-1"), Base::Version(1)).set("items", json!([]));
        let asked = ticket(shop.client().submit(mail(2), &amend).await);
        drop(shop.ana().approve(asked.key, &shown(&asked).digest, "").await.unwrap());
        last.store(true, Ordering::SeqCst);
        let told = ticket(shop.client().resume(asked.key).await);
        assert_eq!((told.approved_by.is_some(), shop.writes()), (kept, 0), "{what}");
    }
}

/// Where the key stands in the body, the preview shows the body that is sent.
#[tokio::test]
async fn a_preview_shows_the_key_in_the_body_too() {
    let shop = Shop::new().await;
    shop.desk.serve("GET", "/orders/{id}", |_| {
        Reply::json(200, json!({"note": "a"})).header("ETag", "\"1\"")
    });
    let dialect = uketsuke::Dialect::ietf().key(uketsuke::KeyPlace::BodyMember("/meta/key".to_owned()));
    let api = brisk(&shop.desk.url()).dialect(dialect).build().unwrap();
    let client = OrderClient::new(shop.journal.clone(), api, actor());
    let amend = AmendOrder::new(OrderRef::id("ord-1"), Base::Version(1)).set("note", "b");
    let asked = ticket(client.submit(mail(2), &amend).await);
    let preview = shown(&asked);
    assert_eq!(preview.contents, Some(json!({"note": "b", "meta": {"key": asked.key.to_string()}})));
    let fields: Vec<&str> = preview.changes.iter().map(|change| change.field.as_str()).collect();
    assert_eq!(fields, ["note", "meta"]);
    for name in ["meta", "idempotency_key"] {
        let taken = AmendOrder::new(OrderRef::id("ord-1"), Base::Version(1)).set(name, json!({"key": "mine"}));
        let told = client.submit(mail(3), &taken).await;
        assert_eq!(told.is_err(), name == "meta", "{told:?}");
    }
}

/// R7: a word that is told is on the disk, whatever the disk does while it is given; and what was not told changes nothing that was.
#[tokio::test]
async fn a_word_that_is_told_stands_whatever_the_disk_does() {
    use crate::props::{EIO, ENOSPC, Moody};
    for fault in [EIO, ENOSPC] {
        for act in ["approve", "refuse", "free"] {
            for nth in 0..12 {
                let (desk, folder) = (Desk::start().await, Folder::new());
                let from = Arc::new(AtomicUsize::new(usize::MAX));
                let (armed, calls) = (Arc::clone(&from), Arc::new(AtomicUsize::new(0)));
                let made = Arc::clone(&calls);
                let disk = Moody::new(move |call| {
                    made.store(call.nth, Ordering::SeqCst);
                    (call.nth == armed.load(Ordering::SeqCst)).then_some(fault)
                });
                let journal = Journal::builder().disk(disk).open(folder.path()).await.unwrap();
                let api = || brisk(&desk.url()).name("shop").build().unwrap();
                let client = OrderClient::builder(journal.clone(), api(), actor()).policy(asks).build();
                let ana = Operator::new(journal.clone(), "Ana");
                let asked = ticket(client.submit(mail(1), &order()).await);
                if act == "free" {
                    drop(ana.refuse(asked.key, "no").await.unwrap());
                }
                from.store(calls.load(Ordering::SeqCst) + 1 + nth, Ordering::SeqCst);
                let told = match act {
                    "approve" => ana.approve(asked.key, &shown(&asked).digest, "").await.is_ok(),
                    "refuse" => ana.refuse(asked.key, "no").await.is_ok(),
                    _ => ana.free_origin(asked.key, "again").await.is_ok(),
                };
                from.store(usize::MAX, Ordering::SeqCst);
                drop((client, ana, journal));
                let journal = folder.journal().await;
                let client = OrderClient::builder(journal.clone(), api(), actor()).policy(asks).build();
                let stands = match (act, client.known(asked.key).await.unwrap().unwrap()) {
                    ("approve", Outcome::AwaitingApproval(ticket)) => ticket.approved_by.is_some(),
                    ("refuse", outcome) => matches!(outcome, Outcome::Denied(_)),
                    (_, outcome) => {
                        assert!(matches!(outcome, Outcome::Denied(_)));
                        matches!(client.submit(mail(1), &order()).await, Ok(it) if it.key() != asked.key)
                    }
                };
                assert!(stands || !told, "{act} at {nth} under {fault:?} was told and is gone");
                assert_eq!(desk.writes().len(), 0, "{act} at {nth}");
            }
        }
    }
}

/// A digest, a note and a reason of any size are a no or an error, and the journal goes on.
#[tokio::test]
async fn a_word_of_any_size_stops_no_journal() {
    let shop = Shop::new().await;
    let asked = ticket(shop.asking().submit(mail(1), &order()).await);
    let huge = "x".repeat(17 << 20);
    assert!(shop.ana().approve(asked.key, &huge, "").await.is_err());
    assert!(shop.ana().approve(asked.key, &shown(&asked).digest, huge.clone()).await.is_err());
    assert!(shop.ana().refuse(asked.key, huge).await.is_err());
    drop(shop.ana().approve(asked.key, &shown(&asked).digest, "").await.unwrap());
    receipt(shop.asking().resume(asked.key).await);
    assert_eq!(shop.writes(), 1);
}

/// On a journal that is closed nothing is told, and nothing is sent.
#[tokio::test]
async fn a_person_at_a_closed_journal_is_told_so() {
    let shop = Shop::new().await;
    let client = shop.asking();
    let asked = ticket(client.submit(mail(1), &order()).await);
    let ana = shop.ana();
    shop.journal.clone().close().await.unwrap();
    assert!(ana.approve(asked.key, &shown(&asked).digest, "").await.is_err());
    assert!(ana.list(uketsuke::Shelf::Unsettled).await.is_err() && ana.show(asked.key).await.is_err());
    assert!(ana.resume_safe().await.is_err());
    assert!(
        tokio::time::timeout(Duration::from_secs(5), client.decided(&asked))
            .await
            .unwrap()
            .is_err()
    );
    assert_eq!(shop.writes(), 0);
}

/// A client that is used in one runtime after another never watched an order again that the first one had met.
#[test]
fn an_order_is_watched_again_once_its_watcher_is_gone() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };
    // The desk, and the journal's own tasks, outlive the runtime that parks the order.
    let outer = runtime();
    let shop = outer.block_on(Shop::new());
    let client = shop.asking();
    let first = runtime();
    let asked = first.block_on(async { ticket(client.submit(mail(1), &order()).await) });
    drop(first);
    outer.block_on(async {
        assert_eq!(ticket(client.submit(mail(1), &order()).await).key, asked.key);
        drop(shop.ana().approve(asked.key, &shown(&asked).digest, "").await.unwrap());
        for _ in 0..200 {
            if shop.writes() > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(shop.writes(), 1);
    });
}

/// An order's story offered to free an origin that its newest order holds, which is always turned away.
#[tokio::test]
async fn a_story_offers_no_verb_that_is_always_turned_away() {
    let shop = Shop::new().await;
    let first = ticket(shop.asking().submit(mail(1), &order()).await);
    drop(shop.ana().refuse(first.key, "no").await.unwrap());
    assert_eq!(shop.ana().show(first.key).await.unwrap().may, [uketsuke::Verb::FreeOrigin]);
    let second = ticket(shop.asking().submit(mail(1), &order().note("corrected")).await);
    let story = shop.ana().show(first.key).await.unwrap();
    assert_eq!(story.followed_by, Some(second.key));
    assert_eq!(
        away(shop.ana().free_origin(first.key, "why not").await),
        TurnedAway::NothingToFree {}
    );
    assert_eq!(story.may, []);
}

/// A note that is no plain text passed a rule that lets no note pass.
#[tokio::test]
async fn a_note_in_any_form_is_free_text() {
    let shop = Shop::new().await;
    let rules = "version = \"1\"\nhigh_impact = \"allow\"\n[[rule]]\nid = \"no_text\"\nfree_text = \"none\"";
    let api = brisk(&shop.desk.url()).build().unwrap();
    let rules = uketsuke::RuleSet::from_toml(rules).unwrap();
    let client = OrderClient::builder(shop.journal.clone(), api, actor()).policy(rules).build();
    for (n, note) in [json!("text"), json!(["text"]), json!({"text": "text"})].into_iter().enumerate() {
        let amend = AmendOrder::new(OrderRef::id("ord-1"), Base::Version(1)).set("note", note);
        ticket(client.submit(mail(1 + n), &amend).await);
    }
    assert_eq!(shop.writes(), 0);
}
