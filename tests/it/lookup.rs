//! An order that can't be sent again by itself is asked for first: where there is a lookup, and what is made of what it shows. What is not
//! shown proves nothing, and nothing that is asked orders anything.

use crate::{
    kit::{Folder, Tokens, brisk, order},
    props::{HOUR, Hands, MINUTE, mail, single},
};
use serde_json::json;
use std::time::Duration;
use uketsuke::{
    Actor, ApiBuilder, Asked, CommitBefore5xx, Concurrent, Dialect, Duplicates, Effect, Error, ErrorKind, Examination, IdempotencyKey,
    Journal, KeyScope, LookupReads, NextStep, OrderClient, Outcome, Pacing, Raw, ReviewReason, Route, Why,
    testkit::{Desk, Reply, Script, Unkind},
    unversioned::TuneHttp as _,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The desk's own lookup, which tells "still running" from "none".
fn by_key(asked: &Asked<'_>) -> Option<Route> {
    Some(asked.path().then("by-key").segment(asked.key().to_string()))
}

fn asking() -> Dialect {
    Dialect::ietf().lookup(by_key)
}

pub(crate) async fn client(folder: &Folder, clock: &Hands, api: ApiBuilder) -> OrderClient {
    let journal = Journal::builder().clock(clock.clone()).open(folder.path()).await.unwrap();
    OrderClient::new(journal, api.build().unwrap(), Actor::agent("test-agent"))
}

/// Orders that were sent, and lookups that were made.
pub(crate) fn counts(desk: &Desk) -> (usize, usize) {
    let lookups = desk.requests().iter().filter(|request| request.method == "GET").count();
    (desk.requests().len() - lookups, lookups)
}

#[track_caller]
pub(crate) fn review<R: std::fmt::Debug>(told: Result<Outcome<R>, Error>) -> (ReviewReason, Effect) {
    match told {
        Ok(Outcome::NeedsReview(review)) => (review.reason, review.effect),
        other => panic!("no review: {other:?}"),
    }
}

#[track_caller]
fn placed(told: Result<Outcome<Raw>, Error>) -> String {
    match told {
        Ok(Outcome::Succeeded(receipt)) => receipt.value.answer().code("/order_id").unwrap().to_owned(),
        other => panic!("not placed: {other:?}"),
    }
}

/// An order that is in doubt, and its key.
pub(crate) async fn in_doubt(client: &OrderClient) -> IdempotencyKey {
    let error = client.submit(mail(1), &order()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::InDoubt, Effect::Possible), "{error}");
    error.key().unwrap()
}

// ---- retention ---------------------------------------------------------------------------------------------------------

/// BUG-11: past the retention the key would execute again, so nothing is sent; the order itself may be asked for, and is booked if it is there.
#[tokio::test]
async fn past_the_retention_the_server_is_asked_and_nothing_is_sent() {
    let clock = Hands::new();
    let (desk, folder) = (
        Desk::builder()
            .dates(clock.clone())
            .unkind(Unkind::ForgetsAfter(DAY))
            .start()
            .await
            .unwrap(),
        Folder::new(),
    );
    desk.script(Script::new().commit_then_lose_reply());
    let mute = client(&folder, &clock, single(&desk.url())).await;
    let key = in_doubt(&mute).await;
    clock.turn(25 * HOUR);
    desk.ledger().turn_clock(25 * HOUR);

    // Without a lookup it is for a person.
    let other = Folder::new();
    desk.script(Script::new().commit_then_lose_reply());
    let alone = client(&other, &clock, single(&desk.url())).await;
    let theirs = in_doubt(&alone).await;
    clock.turn(25 * HOUR);
    assert_eq!(
        review(alone.resume(theirs).await),
        (ReviewReason::RetentionPassed, Effect::Possible)
    );
    assert_eq!((counts(&desk), desk.orders().len()), ((2, 0), 2));

    // The orders themselves are asked for by another way than the forgotten key.
    fn by_customer(asked: &Asked<'_>) -> Option<Route> {
        Some(asked.path().segment("ord-1"))
    }
    let api = single(&desk.url()).dialect(Dialect::ietf().lookup(by_customer));
    let asking = client(&folder, &clock, api).await;
    let resumed = asking.resume_pending().await.unwrap().resumed;
    assert_eq!(resumed.len(), 1);
    assert_eq!(placed(resumed.into_iter().next().unwrap().result), "ord-1");
    assert_eq!(counts(&desk), (2, 1), "nothing was sent");
    assert_eq!(placed(asking.known(key).await.map(Option::unwrap)), "ord-1");
    assert_eq!(folder.events("looked_up").len(), 1);
}

/// R10: "not found" settles nothing, frees nothing, and has nothing sent.
#[tokio::test]
async fn what_is_not_found_stays_in_doubt() {
    let clock = Hands::new();
    let (desk, folder) = (clock.desk().await, Folder::new());
    desk.script(Script::new().lose_request());
    let client = client(&folder, &clock, single(&desk.url()).dialect(asking())).await;
    let key = in_doubt(&client).await;
    clock.turn(25 * HOUR);
    assert_eq!(review(client.resume(key).await), (ReviewReason::RetentionPassed, Effect::Possible));
    assert_eq!(counts(&desk), (1, 1));
    // Nor does it free the origin for other contents.
    let corrected = client.submit(mail(1), &order().note("other")).await.unwrap_err();
    assert_eq!(corrected.kind(), ErrorKind::Drift);
    assert_eq!(client.resume_pending().await.unwrap().left_alone[0].why, Why::UnderReview);
    assert_eq!(counts(&desk), (1, 1));
}

/// R10's exception: a lookup that reads the orders themselves, and nothing that can be under way any more: then absence is a fact, and the same
/// key goes out again, once.
#[tokio::test]
async fn a_proven_absence_lets_the_same_key_go_out_again() {
    let clock = Hands::new();
    let (desk, folder) = (clock.desk().await, Folder::new());
    desk.script(Script::new().lose_request().lose_request().then_ok());
    let dialect = asking().lookup_reads(LookupReads::Orders).max_transit(Duration::from_secs(3600));
    let client = client(&folder, &clock, single(&desk.url()).dialect(dialect)).await;
    let key = in_doubt(&client).await;
    clock.turn(25 * HOUR);
    // Lost once more: that attempt may be under way for an hour.
    let lost = review(client.resume(key).await);
    assert_eq!((lost, counts(&desk)), ((ReviewReason::RetentionPassed, Effect::Possible), (2, 1)));
    clock.turn(30 * MINUTE);
    let young = review(client.resume(key).await);
    assert_eq!((young, counts(&desk)), ((ReviewReason::RetentionPassed, Effect::Possible), (2, 2)));
    assert!(desk.orders().is_empty());
    assert_eq!(desk.keys(), [key.to_string()]);
}

/// The same, to its end.
#[tokio::test]
async fn an_order_that_never_arrived_arrives_after_its_absence_was_proven() {
    let clock = Hands::new();
    let (desk, folder) = (clock.desk().await, Folder::new());
    desk.script(Script::new().lose_request().then_ok());
    let dialect = asking().lookup_reads(LookupReads::Orders).max_transit(Duration::from_secs(3600));
    let client = client(&folder, &clock, single(&desk.url()).dialect(dialect)).await;
    let key = in_doubt(&client).await;
    clock.turn(25 * HOUR);
    assert_eq!(client.examine(key).await.unwrap(), Examination::SafeToResume);
    assert_eq!(placed(client.resume(key).await), "ord-1");
    assert_eq!((counts(&desk), desk.keys()), ((2, 2), vec![key.to_string()]));
    desk.assert_one_order_per_key();
}

/// R8: an order that was young when it was written down, and grew too old while its connection was made, does not leave.
#[tokio::test]
async fn an_order_that_grew_too_old_while_connecting_does_not_leave() {
    /// Answers with the desk's address, a day later.
    struct Slow(Hands, std::net::SocketAddr);
    impl uketsuke::unversioned::reqwest::dns::Resolve for Slow {
        fn resolve(&self, _: uketsuke::unversioned::reqwest::dns::Name) -> uketsuke::unversioned::reqwest::dns::Resolving {
            self.0.turn(25 * HOUR);
            let found: uketsuke::unversioned::reqwest::dns::Addrs = Box::new(std::iter::once(self.1));
            Box::pin(async { Ok(found) })
        }
    }
    let (clock, folder) = (Hands::new(), Folder::new());
    let desk = clock.desk().await;
    let address = desk.url().trim_start_matches("http://").parse().unwrap();
    let resolver = std::sync::Arc::new(Slow(clock.clone(), address));
    let api = brisk("http://slow.invalid").plain_http(uketsuke::Plain::Anywhere);
    let api = api.tune_http(|client| client.dns_resolver(resolver));
    let client = client(&folder, &clock, api).await;
    let told = client.submit(mail(1), &order()).await;
    assert_eq!(review(told).0, ReviewReason::RetentionPassed);
    assert!(desk.requests().is_empty(), "{}", desk.story());
    assert_eq!(folder.events("observed")[0]["data"]["seen"]["never_left"], "connect");
}

/// R8: a server whose `Date` is hours away from our clock puts the age of every key in doubt, and doubt counts as passed.
#[tokio::test]
async fn a_server_on_another_clock_puts_the_keys_age_in_doubt() {
    let (ours, theirs) = (Hands::new(), Hands::new());
    theirs.turn(HOUR);
    let (desk, folder) = (theirs.desk().await, Folder::new());
    desk.script(Script::new().status(503).times(4));
    let client = client(&folder, &ours, brisk(&desk.url())).await;
    let told = client.submit(mail(1), &order()).await;
    assert_eq!(review(told), (ReviewReason::RetentionPassed, Effect::Possible));
    assert_eq!(desk.requests().len(), 1, "it was sent again by a clock that nobody can trust");
    // Ten minutes, the margin of a day's retention, are allowed.
    let (ours, theirs, folder) = (Hands::new(), Hands::new(), Folder::new());
    theirs.turn(-9 * MINUTE);
    let desk = theirs.desk().await;
    desk.script(Script::new().status(503).then_ok());
    let client = self::client(&folder, &ours, brisk(&desk.url())).await;
    assert!(matches!(client.submit(mail(1), &order()).await, Ok(Outcome::Succeeded(_))));
}

// ---- servers that would not recognise a repeat --------------------------------------------------------------------------------

/// Where a repeat is a second order, the first byte is the last that leaves by itself: also where the server only races, or commits and forgets.
#[tokio::test]
async fn where_repeats_are_not_recognised_nothing_is_sent_twice() {
    let deaf = Dialect::new("deaf").retention(DAY).duplicates(Duplicates::NotRecognised);
    let races = Dialect::ietf().concurrent(Concurrent::Races);
    let forgets = Dialect::ietf().commit_before_5xx(CommitBefore5xx::Possible);
    for dialect in [deaf, races, forgets] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        desk.script(Script::new().commit_then_lose_reply().then_ok());
        let client = client(&folder, &clock, brisk(&desk.url()).dialect(dialect.clone())).await;
        let told = client.submit(mail(1), &order()).await;
        assert_eq!(review(told), (ReviewReason::NotRecognised, Effect::Possible), "{dialect:?}");
        assert_eq!((desk.requests().len(), desk.orders().len()), (1, 1));
        // What never left is sent again: nothing of it can have arrived.
        let (folder, door) = (Folder::new(), crate::bare::Door::closed());
        let client = self::client(&folder, &clock, brisk(&door.url()).dialect(dialect)).await;
        let error = client.submit(mail(2), &order()).await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::NotSent, 4));
        door.open_to(&desk);
        assert!(matches!(client.resume(error.key().unwrap()).await, Ok(Outcome::Succeeded(_))));
    }
}

/// With a lookup, the server is asked first, and what is there is booked.
#[tokio::test]
async fn where_repeats_are_not_recognised_the_server_is_asked() {
    for (lost, orders) in [(Script::new().commit_then_lose_reply(), 1), (Script::new().lose_request(), 0)] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        desk.script(lost.then_ok());
        let client = client(&folder, &clock, brisk(&desk.url()).dialect(asking().concurrent(Concurrent::Races))).await;
        let told = client.submit(mail(1), &order()).await;
        match orders {
            1 => assert!(matches!(told, Ok(Outcome::Succeeded(ref receipt)) if receipt.replayed), "{told:?}"),
            _ => assert_eq!(review(told), (ReviewReason::NotRecognised, Effect::Possible)),
        }
        assert_eq!((counts(&desk), desk.orders().len()), ((1, 1), orders));
    }
}

// ---- what a lookup shows ---------------------------------------------------------------------------------------------------------

/// A refusal behind a lost attempt is asked about: the order that stands is a success, whatever was said of its repeat.
#[tokio::test]
async fn a_refusal_behind_a_lost_attempt_is_looked_up() {
    for (lost, orders) in [(Script::new().commit_then_lose_reply(), 1), (Script::new().lose_request(), 0)] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        desk.script(lost.reply(Reply::problem(422, "out_of_stock", "gone")));
        let client = client(&folder, &clock, brisk(&desk.url()).dialect(asking())).await;
        let told = client.submit(mail(1), &order()).await;
        match orders {
            1 => assert!(matches!(told, Ok(Outcome::Succeeded(_))), "{told:?}"),
            _ => assert_eq!(review(told), (ReviewReason::Contradicted, Effect::Possible)),
        }
        assert_eq!((counts(&desk), desk.orders().len()), ((2, 1), orders));
    }
}

/// R1's exception: at a server that stores its refusals and looks at the key first, the refusal is the key's own answer, and a no.
#[tokio::test]
async fn a_stored_refusal_is_a_no_although_an_attempt_was_lost() {
    let stored = || Dialect::ietf().refusals_stored(true).key_checked_before_validation(true);
    for (dialect, no) in [
        (Dialect::ietf(), false),
        (Dialect::ietf().refusals_stored(true), false),
        (Dialect::ietf().key_checked_before_validation(true), false),
        (stored(), true),
    ] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        // The refusal is stored, and its first answer lost.
        desk.script(Script::new().commit_then_lose_reply());
        desk.refuse_from_now_on("out_of_stock");
        let client = client(&folder, &clock, brisk(&desk.url()).dialect(dialect)).await;
        let told = client.submit(mail(1), &order()).await;
        match (no, told) {
            (true, Ok(outcome @ Outcome::Rejected(_))) => assert_eq!(outcome.effect(), Effect::None),
            (false, told) => assert_eq!(review(told), (ReviewReason::Contradicted, Effect::Possible)),
            (true, told) => panic!("{told:?}"),
        }
        assert!(desk.orders().is_empty());
    }
}

/// An order that is shown and differs is for a person, with what differs; one that was cancelled since is no success.
#[tokio::test]
async fn an_order_that_is_shown_and_differs_is_for_a_person_with_the_difference() {
    let shown = [
        (
            json!({"order_id": "ord-9", "customer": "C-100", "items": [{"sku": "SKU-1", "quantity": 3}]}),
            ReviewReason::OtherOrderReturned,
            vec!["items[0].quantity"],
        ),
        (
            json!({"order_id": "ord-9", "idempotency_key": "another"}),
            ReviewReason::OtherOrderReturned,
            vec![],
        ),
        (
            json!({"order_id": "ord-9", "customer": "C-100", "status": "cancelled"}),
            ReviewReason::FoundEnded,
            vec![],
        ),
        (json!({"error": "no idea"}), ReviewReason::UnreadableSuccess, vec![]),
        (json!({}), ReviewReason::NotRecognised, vec![]),
        (json!([]), ReviewReason::NotRecognised, vec![]),
    ];
    fn found(_: &Asked<'_>) -> Option<Route> {
        Some(Route::get("found"))
    }
    for (order_shown, reason, fields) in shown {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        let answer = order_shown.clone();
        desk.serve("GET", "/found", move |_| Reply::json(200, answer.clone()));
        desk.script(Script::new().commit_then_lose_reply());
        let dialect = Dialect::ietf().lookup(found).concurrent(Concurrent::Races);
        let client = client(&folder, &clock, brisk(&desk.url()).dialect(dialect)).await;
        let Ok(Outcome::NeedsReview(review)) = client.submit(mail(1), &order()).await else {
            panic!("{order_shown}")
        };
        assert_eq!((review.reason, review.effect), (reason, Effect::Possible), "{order_shown}");
        let named: Vec<&str> = review.changes.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(named, fields, "{order_shown}");
        assert!(!format!("{review:?}").contains("SKU"), "{review:?}");
        assert_eq!(counts(&desk), (1, 1));
    }
}

/// A lookup that answers with a list: none, one, or more than there may be.
#[tokio::test]
async fn a_list_of_one_is_the_order_and_a_list_of_two_is_for_a_person() {
    fn found(asked: &Asked<'_>) -> Option<Route> {
        Some(Route::get("found").query("key", asked.key().to_string()))
    }
    let one = json!({"order_id": "ord-1", "customer": "C-100"});
    for (list, wanted) in [
        (json!({"data": [one]}), None),
        (json!({"data": []}), Some(ReviewReason::NotRecognised)),
        (json!({"data": [one, one]}), Some(ReviewReason::OtherOrderReturned)),
        (json!({"data": {"order_id": "ord-1"}}), Some(ReviewReason::NotRecognised)),
        (one.clone(), Some(ReviewReason::NotRecognised)),
    ] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        let answer = list.clone();
        desk.serve("GET", "/found", move |_| Reply::json(200, answer.clone()));
        desk.script(Script::new().commit_then_lose_reply());
        let dialect = Dialect::ietf().lookup(found).list_at("/data").concurrent(Concurrent::Races);
        let client = client(&folder, &clock, brisk(&desk.url()).dialect(dialect)).await;
        let told = client.submit(mail(1), &order()).await;
        match wanted {
            None => assert_eq!(told.unwrap().receipt().unwrap().value.order_id.as_deref(), Some("ord-1")),
            Some(reason) => assert_eq!(review(told), (reason, Effect::Possible), "{list}"),
        }
    }
}

/// A lookup is asked again while its server has trouble of its own, within the flight's limits; the order rests in doubt if that stays so.
#[tokio::test]
async fn a_lookup_that_is_not_answered_leaves_the_order_in_doubt() {
    fn found(_: &Asked<'_>) -> Option<Route> {
        Some(Route::get("found"))
    }
    let (clock, folder) = (Hands::new(), Folder::new());
    let desk = clock.desk().await;
    desk.serve("GET", "/found", |_| Reply::status(503));
    desk.script(Script::new().commit_then_lose_reply());
    let dialect = Dialect::ietf().lookup(found).concurrent(Concurrent::Races);
    let client = client(&folder, &clock, brisk(&desk.url()).dialect(dialect)).await;
    let error = client.submit(mail(1), &order()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::InDoubt, 1), "{error}");
    assert_eq!(error.next_step(), NextStep::Resume { not_before: None });
    assert_eq!(counts(&desk), (1, 4));
    // The same once more: asked, not sent.
    assert_eq!(client.resume(error.key().unwrap()).await.unwrap_err().kind(), ErrorKind::InDoubt);
    assert_eq!(counts(&desk).0, 1);
    let Examination::Unknown(text) = client.examine(error.key().unwrap()).await.unwrap() else {
        panic!("nobody knows")
    };
    assert!(
        text.contains("did not answer") && text.contains("do not place it as a new order"),
        "{text}"
    );
}

/// Anything but a GET could be a second order: a dialect that asks by another method is not followed.
#[tokio::test]
async fn a_lookup_that_is_no_get_is_not_made() {
    fn posts(_: &Asked<'_>) -> Option<Route> {
        Some(Route::post("orders"))
    }
    let (clock, folder) = (Hands::new(), Folder::new());
    let desk = clock.desk().await;
    desk.script(Script::new().commit_then_lose_reply());
    let dialect = Dialect::ietf().lookup(posts).concurrent(Concurrent::Races);
    let client = client(&folder, &clock, brisk(&desk.url()).dialect(dialect)).await;
    assert_eq!(
        review(client.submit(mail(1), &order()).await),
        (ReviewReason::NotRecognised, Effect::Possible)
    );
    assert_eq!((desk.requests().len(), desk.orders().len()), (1, 1));
}

/// A lookup goes out under the credential, refreshed once like an order's, with a request id and the trace, and with no key.
#[tokio::test]
async fn a_lookup_carries_the_credential_and_no_key() {
    fn found(_: &Asked<'_>) -> Option<Route> {
        Some(Route::get("found"))
    }
    let (clock, folder) = (Hands::new(), Folder::new());
    let desk = clock.desk().await;
    desk.serve("GET", "/found", |request| match request.seen().header("authorization") {
        Some("Bearer t2") => Reply::json(200, json!({"order_id": "ord-1", "customer": "C-100"})),
        _ => Reply::status(401),
    });
    desk.script(Script::new().commit_then_lose_reply());
    let tokens = Tokens::new(&["t1", "t2"]);
    let dialect = Dialect::ietf().lookup(found).concurrent(Concurrent::Races);
    let client = client(&folder, &clock, brisk(&desk.url()).credentials(tokens.clone()).dialect(dialect)).await;
    let receipt = client.submit(mail(1), &order()).await.unwrap().receipt().unwrap();
    assert_eq!(
        (receipt.value.order_id.as_deref(), receipt.attempts, tokens.refreshes()),
        (Some("ord-1"), 1, 1)
    );
    let requests = desk.requests();
    let lookups: Vec<_> = requests.iter().filter(|request| request.method == "GET").collect();
    assert_eq!(lookups.len(), 2);
    for lookup in lookups {
        assert!(lookup.header("idempotency-key").is_none() && lookup.header("x-attempt").is_none());
        assert!(lookup.request_id.is_some() && lookup.request_id != requests[0].request_id);
        let trace = |seen: &uketsuke::testkit::Seen| seen.traceparent.as_ref().unwrap()[..35].to_owned();
        assert_eq!(trace(lookup), trace(&requests[0]));
    }
}

// ---- accounts -------------------------------------------------------------------------------------------------------------------------

/// R9: under another account the key would be a new one. The server is asked; what it does not show to that account proves nothing.
#[tokio::test]
async fn under_another_account_the_server_is_asked_and_nothing_is_sent() {
    for (lost, orders) in [(Script::new().commit_then_lose_reply(), 1), (Script::new().lose_request(), 0)] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        desk.script(lost);
        let api = |account| single(&desk.url()).dialect(asking()).account(account);
        let key = in_doubt(&client(&folder, &clock, api("alice")).await).await;
        let told = client(&folder, &clock, api("bob")).await.resume(key).await;
        match orders {
            1 => assert_eq!(placed(told), "ord-1"),
            _ => assert_eq!(review(told), (ReviewReason::OtherScope, Effect::Possible)),
        }
        assert_eq!(counts(&desk), (1, 1));
    }
}

/// R9 before R10: an absence that another account was shown proves nothing, and neither does one at a server that would run both.
#[tokio::test]
async fn an_absence_that_another_account_was_shown_proves_nothing() {
    let proving = || asking().lookup_reads(LookupReads::Orders).max_transit(Duration::from_secs(60));
    for (account, dialect, reason) in [
        ("bob", proving(), ReviewReason::OtherScope),
        ("alice", proving().concurrent(Concurrent::Races), ReviewReason::NotRecognised),
    ] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        desk.script(Script::new().lose_request());
        let key = in_doubt(&client(&folder, &clock, single(&desk.url()).dialect(proving()).account("alice")).await).await;
        clock.turn(25 * HOUR);
        let api = single(&desk.url()).dialect(dialect).account(account);
        let told = client(&folder, &clock, api).await.resume(key).await;
        assert_eq!(review(told), (reason, Effect::Possible));
        assert_eq!((counts(&desk), desk.orders().len()), ((1, 1), 0));
    }
}

/// R9: whether a rotated credential is another scope is the dialect's to say; the cautious reading is that it is.
#[tokio::test]
async fn a_rotated_credential_is_another_scope_unless_keys_are_the_accounts() {
    struct Rotated(&'static str);
    impl uketsuke::Credentials for Rotated {
        fn current(&self) -> uketsuke::BoxFuture<'_, Result<uketsuke::Credential, uketsuke::CredentialError>> {
            let token = uketsuke::Credential::bearer("token").map_err(uketsuke::CredentialError::new);
            Box::pin(async { token })
        }
        fn scope(&self) -> Option<String> {
            Some(self.0.to_owned())
        }
    }
    for (whose, goes_on) in [(KeyScope::Credential, false), (KeyScope::Account, true)] {
        let (clock, folder) = (Hands::new(), Folder::new());
        let desk = clock.desk().await;
        desk.script(Script::new().commit_then_lose_reply());
        let api = |key_id| {
            let api = single(&desk.url()).dialect(Dialect::ietf().key_scope(whose));
            api.account("alice").credentials(Rotated(key_id))
        };
        let key = in_doubt(&client(&folder, &clock, api("key-1")).await).await;
        let told = client(&folder, &clock, api("key-2")).await.resume(key).await;
        match goes_on {
            true => assert_eq!(placed(told), "ord-1"),
            false => assert_eq!(review(told), (ReviewReason::OtherScope, Effect::Possible)),
        }
    }
}

// ---- stuck, examined, looked up by hand --------------------------------------------------------------------------------------------------

/// BUG-18: a key that stays in progress is asked again under the same key, told as still processing, and after its own time limit is a person's;
/// no other key is ever used.
#[tokio::test]
async fn a_key_that_stays_in_progress_is_a_persons_after_its_own_limit() {
    let clock = Hands::new();
    let (desk, folder) = (clock.desk().await, Folder::new());
    desk.script(Script::new().get_stuck());
    let api = brisk(&desk.url()).dialect(Dialect::ietf().stuck_after(Duration::from_secs(15 * 60)));
    let client = client(&folder, &clock, pace_of(api, 4)).await;
    let error = client.submit(mail(1), &order()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::StillProcessing, Effect::Possible),
        "{error}"
    );
    let key = error.key().unwrap();
    assert_eq!(desk.requests().len(), 4);
    assert_eq!(client.examine(key).await.unwrap(), Examination::SafeToResume);

    clock.turn(14 * MINUTE);
    assert_eq!(client.resume(key).await.unwrap_err().kind(), ErrorKind::StillProcessing);
    assert_eq!(desk.requests().len(), 8);
    clock.turn(2 * MINUTE);
    assert_eq!(review(client.resume(key).await), (ReviewReason::StuckProcessing, Effect::Possible));
    assert_eq!(desk.requests().len(), 9);
    assert_eq!(desk.keys(), [key.to_string()]);

    let Examination::Unknown(text) = client.examine(key).await.unwrap() else {
        panic!("nobody can tell")
    };
    assert!(
        text.contains(&key.to_string()) && text.contains("do not place it as a new order"),
        "{text}"
    );
    let error = client.look_up(key).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect(), error.next_step()),
        (ErrorKind::InvalidConfig, Effect::Possible, NextStep::AskHuman),
        "{error}"
    );
    assert_eq!(desk.requests().len(), 9);
}

fn pace_of(api: ApiBuilder, attempts: u32) -> ApiBuilder {
    let mut pacing = Pacing::default();
    (pacing.base, pacing.cap, pacing.attempts) = (Duration::from_millis(1), Duration::from_millis(5), attempts);
    api.pacing(pacing)
}

/// What a person was to look at is booked when the server shows it: by a lookup, which sends nothing.
#[tokio::test]
async fn a_stuck_order_that_was_finished_is_booked_by_a_lookup() {
    let clock = Hands::new();
    let (desk, folder) = (clock.desk().await, Folder::new());
    desk.script(Script::new().get_stuck());
    let api = single(&desk.url()).dialect(asking().stuck_after(Duration::from_secs(60)));
    let client = client(&folder, &clock, api).await;
    let key = in_doubt(&client).await;
    assert_eq!(client.resume(key).await.unwrap_err().kind(), ErrorKind::StillProcessing);
    clock.turn(2 * MINUTE);
    assert_eq!(review(client.resume(key).await).0, ReviewReason::StuckProcessing);
    let sent = counts(&desk).0;
    // While it runs, nobody can tell.
    assert!(matches!(client.examine(key).await.unwrap(), Examination::Unknown(text) if text.contains("still at work")));
    assert_eq!(review(client.look_up(key).await).0, ReviewReason::StuckProcessing);
    desk.finish(&key.to_string()).unwrap();
    assert!(matches!(client.examine(key).await.unwrap(), Examination::NotSafe(why) if why.contains("the server has it")));
    assert_eq!(placed(client.look_up(key).await), "ord-1");
    assert_eq!(placed(client.known(key).await.map(Option::unwrap)), "ord-1");
    assert!(matches!(client.examine(key).await.unwrap(), Examination::NotSafe(why) if why.contains("has its outcome")));
    assert_eq!(counts(&desk).0, sent, "a lookup orders nothing");
    desk.assert_one_order_per_key();
}

/// What was never sent, or waits for a person, has nothing to be asked for.
#[tokio::test]
async fn what_was_never_sent_is_not_asked_for() {
    let clock = Hands::new();
    let (desk, folder) = (clock.desk().await, Folder::new());
    let journal = Journal::builder().clock(clock.clone()).open(folder.path()).await.unwrap();
    let api = single(&desk.url()).dialect(asking()).build().unwrap();
    let builder = OrderClient::builder(journal, api, Actor::agent("a")).policy(crate::props::asks);
    let client = builder.build();
    let parked = client.submit(mail(1), &order()).await.unwrap();
    assert!(matches!(client.look_up(parked.key()).await, Ok(Outcome::AwaitingApproval(_))));
    assert!(matches!(client.examine(parked.key()).await.unwrap(), Examination::NotSafe(why) if why.contains("a person decides")));
    let stranger: IdempotencyKey = "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap();
    assert_eq!(client.look_up(stranger).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(client.examine(stranger).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(desk.requests().is_empty());
}

// ---- late news ------------------------------------------------------------------------------------------------------------------------------

/// Before every attempt the journal is read again: what another has booked meanwhile ends the loop, whoever it was.
#[tokio::test]
async fn what_another_booked_between_two_attempts_ends_the_loop() {
    let clock = Hands::new();
    let (desk, folder) = (clock.desk().await, Folder::new());
    let sent = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&sent);
    desk.on_request(move |request| {
        if request.method == "POST" {
            seen.lock().unwrap().push(request.key.clone().unwrap());
        }
    });
    desk.script(Script::new().commit_then_status(503).commit_then_status(503).then_ok());
    let mut pacing = Pacing::default();
    (pacing.base, pacing.cap) = (Duration::from_secs(20), Duration::from_secs(20));
    let api = brisk(&desk.url()).dialect(asking()).pacing(pacing);
    let waiting = client(&folder, &clock, api).await;
    let other = waiting.clone();
    let flight = tokio::spawn(async move { waiting.submit(mail(1), &order()).within(Duration::from_secs(60)).await });
    let key = loop {
        if let Some(key) = sent.lock().unwrap().first() {
            break key.parse::<IdempotencyKey>().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    // The flight waits up to twenty seconds, or has given up for want of time; either way it has one attempt.
    let booked = loop {
        match other.look_up(key).await {
            Ok(Outcome::Succeeded(receipt)) => break receipt,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!(booked.key, key);
    let told = flight.await.unwrap();
    assert!(
        matches!(told, Ok(Outcome::Succeeded(_))) || matches!(told, Err(ref error) if error.attempts() == 1),
        "{told:?}"
    );
    assert_eq!(placed(other.resume(key).await), "ord-1");
    assert_eq!(sent.lock().unwrap().len(), 1, "it was sent although its outcome was known");
    desk.assert_one_order_per_key();
}
