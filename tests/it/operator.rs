//! What a person may do with orders that may have been sent: nothing over a flight's head, nothing without a reason, and no origin is let go by
//! the way (R4, R11, R16, R19).

use crate::{
    kit::{Folder, order},
    props::{HOUR, MINUTE, NOBODY, Role, actor, asks, mail, receipt, single},
    shop::{Shop, away},
};
use serde_json::json;
use std::{sync::mpsc, time::Duration};
use uketsuke::{
    Effect, ErrorKind, Examination, Finding, IdempotencyKey, Operator, OrderClient, Origin, Outcome, PlaceOrder, ReviewReason, Shelf, Skip,
    TurnedAway, Verb,
    testkit::{Desk, Script},
};

impl Shop {
    /// An order whose one reply was lost, or whose request was.
    async fn in_doubt(&self, n: usize, origin: Origin, processed: bool) -> IdempotencyKey {
        let script = Script::new();
        self.desk.script(if processed {
            script.commit_then_lose_reply().then_ok()
        } else {
            script.lose_request().then_ok()
        });
        let error = self.hasty().submit(origin, &of(n)).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::InDoubt, Effect::Possible));
        error.key().unwrap()
    }
}

fn of(n: usize) -> PlaceOrder {
    PlaceOrder::new(format!("C-{n}")).item("SKU-1", 2)
}

/// R4: stopping an order is one act, letting its origin go another; what is let go may still land, and that is said.
#[tokio::test]
async fn stopping_an_order_keeps_its_origin_until_a_second_act() {
    let shop = Shop::new().await;
    let key = shop.in_doubt(1, mail(1), false).await;
    let ana = shop.able_ana();
    match ana.abandon(key, "the customer gave up").await.unwrap() {
        Outcome::Abandoned(it) => assert_eq!((it.by.as_str(), it.effect), ("Ana", Effect::Possible)),
        other => panic!("{other:?}"),
    }
    let sent = shop.desk.requests().len();
    assert!(shop.hasty().resume_pending().await.unwrap().resumed.is_empty());
    assert!(matches!(shop.hasty().submit(mail(1), &of(1)).await.unwrap(), Outcome::Abandoned(_)));
    assert_eq!(shop.hasty().submit(mail(1), &of(2)).await.unwrap_err().kind(), ErrorKind::Drift);
    assert_eq!(shop.desk.requests().len(), sent);

    let freed = ana.free_origin(key, "looked at the shop: nothing there").await.unwrap();
    assert_eq!((freed.key, freed.effect), (key, Effect::Possible));
    assert!(freed.may_land_until.is_some(), "{freed:?}");
    let second = receipt(shop.hasty().submit(mail(1), &of(1)).await).key;
    assert_ne!(second, key);
    let story = ana.show(key).await.unwrap();
    assert_eq!(story.followed_by, Some(second));
    assert_eq!(ana.show(second).await.unwrap().follows.map(|before| before.key), Some(key));
}

/// R11 against R4: without an origin the repeat guard is all there is, so an order that was stopped in doubt counts, whatever its age, until a
/// second act.
#[tokio::test]
async fn an_order_that_was_stopped_in_doubt_still_counts_as_a_repeat() {
    let shop = Shop::new().await;
    let key = shop.in_doubt(1, Origin::unknown(), false).await;
    drop(shop.able_ana().abandon(key, "the customer gave up").await.unwrap());
    for _ in 0..2 {
        let error = shop.hasty().submit(Origin::unknown(), &of(1)).await.unwrap_err();
        assert_eq!((error.kind(), error.existing().unwrap().key), (ErrorKind::LikelyRepeat, key));
        shop.clock.turn(40 * 24 * HOUR);
        shop.journal.compact().await.unwrap();
    }
    shop.able_ana().free_origin(key, "nothing there").await.unwrap();
    assert_ne!(receipt(shop.hasty().submit(Origin::unknown(), &of(1)).await).key, key);
}

/// R19: what a person found unprocessed lets nothing go by itself either.
#[tokio::test]
async fn what_was_found_unprocessed_lets_nothing_go_by_itself() {
    for origin in [mail(1), Origin::unknown()] {
        let shop = Shop::new().await;
        let key = shop.in_doubt(1, origin.clone(), false).await;
        match shop
            .ana()
            .reconcile(key, Finding::NotApplied, "asked the shop by phone")
            .await
            .unwrap()
        {
            Outcome::Rejected(no) => assert_eq!(no.status, None),
            other => panic!("{other:?}"),
        }
        let sent = shop.desk.requests().len();
        match shop.hasty().submit(origin.clone(), &of(1)).await {
            Ok(Outcome::Rejected(_)) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::LikelyRepeat),
            other => panic!("{other:?}"),
        }
        // Other contents of the same mail are a correction of nothing that the server refused.
        if origin == mail(1) {
            assert_eq!(
                shop.hasty().submit(origin.clone(), &of(2)).await.unwrap_err().kind(),
                ErrorKind::Drift
            );
        }
        assert_eq!(shop.desk.requests().len(), sent);
        shop.able_ana().free_origin(key, "once more, then").await.unwrap();
        assert_ne!(receipt(shop.hasty().submit(origin, &of(1)).await).key, key);
    }
}

#[tokio::test]
async fn what_was_found_processed_has_its_receipt() {
    let shop = Shop::new().await;
    let key = shop.in_doubt(1, mail(1), true).await;
    let found = shop.desk.orders()[0].clone();
    let finding = Finding::Applied {
        receipt: Some(found.clone()),
    };
    let told = shop.able_ana().reconcile(key, finding, "it is in the shop's list").await.unwrap();
    assert_eq!(told.effect(), Effect::Certain);
    let again = receipt(shop.hasty().submit(mail(1), &of(1)).await);
    assert_eq!((again.key, again.value.order_id.as_deref()), (key, found["order_id"].as_str()));
    // An order that acts on it finds it by its mail.
    let cancel = uketsuke::CancelOrder::new(uketsuke::OrderRef::PlacedBy(mail(1)), "why not");
    assert!(matches!(
        shop.hasty().submit(mail(2), &cancel).await.unwrap(),
        Outcome::AwaitingApproval(_)
    ));
    assert_eq!(shop.desk.orders().len(), 1);
    // Found otherwise later: the server's word, or a person's "yes", is not unsaid by a person's "no".
    assert_eq!(
        away(shop.able_ana().reconcile(key, Finding::NotApplied, "no").await),
        TurnedAway::Processed {}
    );
}

/// A receipt without what a success must hold would be read as one by nobody.
#[tokio::test]
async fn a_receipt_has_to_hold_what_a_success_must() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.serve("POST", "/hotels/{hotel}/bookings", |_| uketsuke::testkit::Reply::status(200));
    desk.script(Script::new().lose_request().then_ok());
    let told = Role::new("book", &desk.url(), &folder.path()).play().await;
    drop(told);
    let key: IdempotencyKey = folder.events("claimed")[0]["key"].as_str().unwrap().parse().unwrap();
    let ana = Operator::new(folder.journal().await, "Ana");
    for receipt in [None, Some(json!({})), Some(json!({"reference": null}))] {
        let lacks = away(ana.reconcile(key, Finding::Applied { receipt }, "seen").await);
        assert_eq!(
            lacks,
            TurnedAway::NoSuchReceipt {
                lacks: "/reference".to_owned()
            }
        );
    }
    let receipt = Some(json!({"reference": "R-1"}));
    assert_eq!(
        ana.reconcile(key, Finding::Applied { receipt }, "seen").await.unwrap().effect(),
        Effect::Certain
    );
}

/// R4: what is in the air, here or in another process, is not closed over its flight's head.
#[tokio::test]
async fn no_order_is_closed_while_a_flight_has_it() {
    for elsewhere in [false, true] {
        let shop = Shop::new().await;
        shop.desk.script(Script::new().reply_after(Duration::from_millis(400)));
        let (arrived, arrival) = mpsc::channel();
        shop.desk.on_request(move |_| arrived.send(()).unwrap_or_default());
        let flight = match elsewhere {
            true => {
                let child = Role::new("submit", &shop.desk.url(), &shop.folder.path());
                tokio::spawn(async move { drop(child.play().await) })
            }
            false => {
                let client = shop.hasty();
                tokio::spawn(async move { drop(client.submit(mail(1), &order()).await) })
            }
        };
        tokio::task::spawn_blocking(move || arrival.recv_timeout(Duration::from_secs(20)).unwrap())
            .await
            .unwrap();
        let key: IdempotencyKey = shop.folder.events("claimed")[0]["key"].as_str().unwrap().parse().unwrap();
        let ana = shop.able_ana();
        assert_eq!(away(ana.abandon(key, "stop").await), TurnedAway::InFlight {}, "{elsewhere}");
        assert_eq!(away(ana.reconcile(key, Finding::NotApplied, "no").await), TurnedAway::InFlight {});
        assert_eq!(away(ana.withdraw(key, "no").await), TurnedAway::InFlight {});
        assert_eq!(away(ana.refuse(key, "no").await), TurnedAway::MayHaveBeenSent {});
        assert_eq!(away(ana.free_origin(key, "no").await), TurnedAway::NotEnded {});
        let dry = ana.resume_dry().await.unwrap();
        assert_eq!((dry.due.len(), &dry.skipped[0].why), (0, &Skip::InFlight));
        flight.await.unwrap();
        assert_eq!(shop.desk.orders().len(), 1);
        assert!(shop.folder.events("abandoned").is_empty());
    }
}

/// R4: what the server says after a person closed an order comes back for review; it is not lost, and there is a way on.
#[tokio::test]
async fn an_outcome_that_comes_in_late_is_looked_at() {
    let shop = Shop::new().await;
    let api = || single(&shop.desk.url()).dialect(by_key()).build().unwrap();
    let client = OrderClient::new(shop.journal.clone(), api(), actor());
    let key = shop.in_doubt(1, mail(1), true).await;
    let ana = Operator::new(shop.journal.clone(), "Ana").with_api(api());
    // Found by the server's own word, booked behind a person's: that is for a person.
    let state = ana.abandon(key, "nobody knows").await.unwrap();
    assert_eq!(state.effect(), Effect::Possible);
    drop(client);
    let told = ana.look_up(key).await.unwrap();
    assert!(
        matches!(told, Outcome::Abandoned(_)),
        "an order with its end is told without asking: {told:?}"
    );
    assert_eq!(ana.show(key).await.unwrap().may, [Verb::Reconcile, Verb::FreeOrigin]);
    let receipt = Some(shop.desk.orders()[0].clone());
    let told = ana
        .reconcile(key, Finding::Applied { receipt }, "it is there after all")
        .await
        .unwrap();
    assert_eq!(told.effect(), Effect::Certain);
}

fn by_key() -> uketsuke::Dialect {
    uketsuke::Dialect::ietf().lookup(|asked| Some(uketsuke::Route::get("orders").then("by-key").segment(asked.key().to_string())))
}

/// What can be resumed without a second thought is, and what is left out is named with its reason; a dry run sends nothing.
#[tokio::test]
async fn a_sweep_says_what_it_would_do_before_it_does_it() {
    let shop = Shop::new().await;
    let old = shop.in_doubt(1, mail(1), false).await;
    shop.clock.turn(25 * HOUR);
    let young = shop.in_doubt(2, mail(2), true).await;
    let asking = OrderClient::builder(shop.journal.clone(), single(&shop.desk.url()).build().unwrap(), actor()).policy(asks);
    let asking = asking.build();
    let parked = asking.submit(mail(3), &of(3)).await.unwrap().key();
    let Outcome::AwaitingApproval(ticket) = asking.submit(mail(4), &of(4)).await.unwrap() else {
        panic!("not asked about")
    };
    drop(
        shop.able_ana()
            .approve(ticket.key, &ticket.preview.unwrap().digest, "")
            .await
            .unwrap(),
    );
    let elsewhere = OrderClient::new(shop.journal.clone(), single(NOBODY).name("other").build().unwrap(), actor());
    let other = elsewhere.submit(mail(5), &of(5)).await.unwrap_err().key().unwrap();

    let sent = shop.desk.requests().len();
    let dry = shop.able_ana().resume_dry().await.unwrap();
    let due: Vec<_> = dry.due.iter().map(|entry| entry.key).collect();
    let skipped: Vec<_> = dry.skipped.iter().map(|one| (one.entry.key, one.why.clone())).collect();
    assert_eq!(due, [young]);
    assert_eq!(
        skipped,
        [
            (old, Skip::HeldBack(ReviewReason::RetentionPassed)),
            (parked, Skip::AwaitingApproval),
            (ticket.key, Skip::NoPolicy),
            (other, Skip::UnknownApi("other".to_owned())),
        ]
    );
    assert!(skipped.iter().all(|(_, why)| !why.to_string().is_empty()));
    assert_eq!(shop.desk.requests().len(), sent, "a dry run sends nothing");

    let swept = shop.able_ana().with_policy(asks).resume_safe().await.unwrap();
    let mut resumed: Vec<_> = swept.resumed.iter().map(|(key, told)| (*key, told.is_ok())).collect();
    resumed.sort_unstable_by_key(|(key, _)| *key != young);
    assert_eq!(resumed, [(young, true), (ticket.key, true)]);
    assert_eq!(shop.desk.orders().len(), 2, "{}", shop.desk.story());
    assert!(matches!(shop.able_ana().resume(old).await.unwrap(), Outcome::NeedsReview(_)));
    assert_eq!(shop.able_ana().resume(other).await.unwrap_err().kind(), ErrorKind::InvalidConfig);
}

#[tokio::test]
async fn lists_and_stories_say_where_an_order_stands_and_what_can_be_done() {
    let shop = Shop::new().await;
    let evil = "x\n{\"event\":\"approved\"}\u{202e}";
    let asking = OrderClient::builder(
        shop.journal.clone(),
        single(&shop.desk.url()).build().unwrap(),
        uketsuke::Actor::agent(evil),
    );
    let asking = asking.policy(asks).build();
    let parked = asking.submit(mail(1), &of(1)).await.unwrap().key();
    let doubt = shop.in_doubt(2, mail(2), true).await;
    let placed = receipt(shop.hasty().submit(mail(3), &of(3)).await).key;
    let ana = shop.able_ana();
    let keys = async |shelf| {
        let entries = ana.list(shelf).await.unwrap();
        entries.iter().map(|entry| entry.key).collect::<Vec<_>>()
    };
    assert_eq!(keys(Shelf::NeedsYou).await, [parked]);
    assert_eq!(keys(Shelf::AwaitingApproval).await, [parked]);
    assert_eq!(keys(Shelf::Open).await, [doubt]);
    assert_eq!(keys(Shelf::Unsettled).await, [parked, doubt]);
    assert!(keys(Shelf::Approved).await.is_empty() && keys(Shelf::Review).await.is_empty());
    assert_eq!(
        (keys(Shelf::Ended).await, keys(Shelf::All).await),
        (vec![placed], vec![parked, doubt, placed])
    );
    for entry in ana.list(Shelf::Unsettled).await.unwrap() {
        let line = entry.to_string();
        assert!(!line.contains('\n') && !line.contains('\u{202e}'), "{line}");
    }

    let may = async |key| ana.show(key).await.unwrap().may;
    assert_eq!(may(parked).await, [Verb::Approve, Verb::Refuse, Verb::Withdraw, Verb::Abandon]);
    assert_eq!(may(doubt).await, [Verb::Reconcile, Verb::Abandon]);
    assert_eq!(may(placed).await, []);
    let story = ana.show(parked).await.unwrap();
    assert!(story.preview.is_some() && story.rows.len() == 1);
    let text = story.to_string();
    assert!(
        text.contains("a person may: approve, refuse") && !text.contains('\u{202e}'),
        "{text}"
    );
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("\"event\"") && line.trim_start().starts_with('{'))
            .count(),
        0,
        "{text}"
    );
    // One line for each thing that happened, with the request's own id.
    let story = ana.show(doubt).await.unwrap();
    let events: Vec<_> = story.rows.iter().map(|row| row.event).collect();
    assert_eq!(events, ["claimed", "sent", "observed", "rested"]);
    assert_eq!(story.rows[1].request, shop.desk.requests()[0].request_id);
    assert!(serde_json::to_value(&story).unwrap()["rows"].is_array());

    let unknown: IdempotencyKey = "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap();
    assert_eq!(ana.show(unknown).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(ana.abandon(unknown, "why").await.unwrap_err().kind(), ErrorKind::InvalidInput);
    shop.clock.turn(25 * HOUR);
    assert_eq!(keys(Shelf::Review).await, [doubt], "its retention has passed");
}

#[tokio::test]
async fn an_operator_examines_and_looks_up_by_its_own_way_to_the_server() {
    let shop = Shop::new().await;
    let key = shop.in_doubt(1, mail(1), true).await;
    let blind = Operator::new(shop.journal.clone(), "Ana");
    for error in [
        blind.examine(key).await.unwrap_err(),
        blind.look_up(key).await.unwrap_err(),
        blind.resume(key).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.key()), (ErrorKind::InvalidConfig, Some(key)), "{error}");
    }
    let able = blind.with_api(single(&shop.desk.url()).dialect(by_key()).build().unwrap());
    assert!(matches!(able.examine(key).await.unwrap(), Examination::SafeToResume));
    assert_eq!(able.look_up(key).await.unwrap().effect(), Effect::Certain);
    assert_eq!(shop.desk.writes().len(), 1);
}

/// R8: the key's age runs from the leave to send, not from the claim that parked it.
#[tokio::test]
async fn a_parked_orders_age_runs_from_its_leave_to_be_sent() {
    let shop = Shop::new().await;
    let api = || single(&shop.desk.url()).build().unwrap();
    let builder = OrderClient::builder(shop.journal.clone(), api(), actor()).policy(asks);
    let client = builder.approval_within(Duration::from_secs(30 * 24 * 3600)).build();
    let Outcome::AwaitingApproval(ticket) = client.submit(mail(1), &of(1)).await.unwrap() else {
        panic!("not asked about")
    };
    shop.clock.turn(20 * 24 * HOUR);
    drop(
        shop.able_ana()
            .approve(ticket.key, &ticket.preview.unwrap().digest, "")
            .await
            .unwrap(),
    );
    shop.desk.script(Script::new().commit_then_lose_reply().then_ok());
    assert_eq!(client.resume(ticket.key).await.unwrap_err().kind(), ErrorKind::InDoubt);
    shop.clock.turn(23 * HOUR);
    let told = client.resume(ticket.key).await.unwrap();
    assert!(matches!(&told, Outcome::Succeeded(it) if it.replayed), "{told:?}");
    shop.clock.turn(MINUTE);
    assert_eq!(shop.desk.orders().len(), 1);
}
