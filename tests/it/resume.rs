//! After a crash: what is sent again, what never is, and what is told of it.

use crate::{
    kit::{Folder, brisk, kill, order},
    props::{Booking, HOUR, Hands, MINUTE, NOBODY, Role, actor, asks, denies, mail, order_events, read_log, receipt, single},
};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};
use tokio::time::Instant;
use uketsuke::{
    Effect, ErrorKind, Journal, NextStep, OrderClient, Outcome, PlaceOrder, Resumed, ReviewReason, Route, TraceId, Why,
    testkit::{Desk, Reply, Script, Seen},
};

/// Starts a child in a role and kills it when its first request has arrived, before anything is done about it. `Script` says what is done.
pub(crate) async fn killed_at_its_first_request(desk: &Desk, role: Role) {
    let victim = Arc::new(Mutex::new(None));
    let pid = Arc::clone(&victim);
    let (told, tell) = mpsc::channel::<()>();
    let tell = Mutex::new(tell);
    desk.on_request(move |_| {
        // The parent writes the child's number down first.
        if tell.lock().unwrap().recv().is_ok()
            && let Some(pid) = pid.lock().unwrap().take()
        {
            kill(pid);
        }
    });
    let mut child = role.start();
    *victim.lock().unwrap() = child.id();
    told.send(()).unwrap();
    drop(told);
    assert!(!child.wait().await.unwrap().success(), "the child was not killed");
    assert_eq!(desk.requests().len(), 1);
}

/// What must be the same in every attempt at one order, and what must differ.
fn assert_same_request(one: &Seen, two: &Seen) {
    let kept = |seen: &Seen| {
        let headers = ["content-type", "idempotency-key", "if-match", "prefer"].map(|name| {
            let lines = seen.headers_named(name);
            lines.into_iter().map(str::to_owned).collect::<Vec<_>>()
        });
        (
            seen.method.clone(),
            seen.path.clone(),
            seen.query.clone(),
            headers,
            seen.body.clone(),
        )
    };
    assert_eq!(kept(one), kept(two));
    assert_ne!(one.request_id, two.request_id);
    assert_eq!((one.attempt, two.attempt), (Some(1), Some(2)));
    let trace = |seen: &Seen| TraceId::from_traceparent(seen.traceparent.as_deref().unwrap()).unwrap();
    assert_eq!(trace(one), trace(two));
    assert_ne!(one.traceparent, two.traceparent, "each attempt is a span of its own");
}

/// BUG-65: the crate's promise after a crash: the same key, the same bytes.
#[tokio::test]
async fn resume_resends_the_same_bytes() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().lose_request().then_ok());
    killed_at_its_first_request(&desk, Role::new("submit", &desk.url(), &folder.path())).await;

    let client = folder.client(&desk).await;
    let resumed = client.resume_pending().await.unwrap().resumed;
    assert_eq!(resumed.len(), 1);
    assert_eq!((resumed[0].operation.as_str(), &resumed[0].origin), ("place_order", &mail(1)));
    let receipt = receipt(resumed[0].result.clone());
    assert_eq!((receipt.attempts, receipt.replayed), (2, false));
    let requests = desk.requests();
    assert_eq!(requests.len(), 2);
    assert_same_request(&requests[0], &requests[1]);
    assert_eq!(desk.keys(), [receipt.key.to_string()]);
    assert!(!requests[0].body.is_empty() && requests[0].header("content-type") == Some("application/json"));
    desk.assert_one_order_per_key();
    desk.assert_nothing_suspicious();
}

/// Only data crosses the crash: this process has no such type, and sends what that one would have sent.
#[tokio::test]
async fn resume_needs_no_types() {
    for form in [false, true] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        desk.serve("POST", "/hotels/{hotel}/bookings", |request| {
            Reply::json(
                201,
                serde_json::json!({ "reference": format!("at {}", request.segment("hotel").unwrap()) }),
            )
        });
        desk.script(Script::new().lose_request().then_ok());
        let mut role = Role::new("book", &desk.url(), &folder.path());
        if form {
            role = role.with("FORM", 1);
        }
        killed_at_its_first_request(&desk, role).await;

        let client = folder.client(&desk).await;
        let resumed = client.resume_pending().await.unwrap().resumed.remove(0);
        assert_eq!(resumed.operation, "book_room");
        let requests = desk.requests();
        assert_eq!(requests.len(), 2);
        assert_same_request(&requests[0], &requests[1]);
        let sent = &requests[1];
        assert_eq!(sent.path, "/hotels/Grand%20H%C3%B4tel%2F2/bookings");
        assert_eq!(sent.query.as_deref(), Some("dry%20run=no%20%26%20never&lang=fr"));
        assert_eq!(
            (sent.header("if-match"), sent.header("prefer")),
            (Some("\"v7\""), Some("return=representation"))
        );
        let body = std::str::from_utf8(&sent.body).unwrap();
        if form {
            assert_eq!(sent.header("content-type"), Some("application/x-www-form-urlencoded"));
            let mut members: Vec<_> = body.split('&').collect();
            members.sort_unstable();
            assert_eq!(members, ["guest=Zo%C3%AB%20%26%20Co", "nights=2", "rate=99.5"]);
        } else {
            assert_eq!(sent.header("content-type"), Some("application/json"));
            assert_eq!(body, r#"{"nights":2,"guest":"Zoë & Co","rate":99.5}"#);
        }

        let outcome = resumed.result.unwrap();
        let Outcome::Succeeded(raw) = &outcome else { panic!("{outcome:?}") };
        assert_eq!(raw.value.operation(), "book_room");
        let typed = receipt(outcome.clone().read::<Lookalike>());
        assert_eq!(typed.value.reference, "at Grand Hôtel/2");

        // A type that does not fit is told as such: the order was processed.
        let error = outcome.read::<Misfit>().unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::UnreadableReceipt, Effect::Certain));
        assert!(matches!(client.known(typed.key).await, Ok(Some(Outcome::Succeeded(_)))));
    }
}

/// Whoever reads the receipt later names a type then; it need not be the one that was submitted.
#[derive(serde::Serialize)]
struct Lookalike;

impl uketsuke::Operation for Lookalike {
    type Receipt = Booking;
    const NAME: &'static str = "book_room";

    fn route(&self) -> Route {
        Route::post("hotels")
    }
}

#[derive(serde::Serialize)]
struct Misfit;

#[derive(Debug, Deserialize)]
struct Number {
    #[expect(dead_code, reason = "it can't be read, which is the point")]
    reference: u32,
}

impl uketsuke::Operation for Misfit {
    type Receipt = Number;
    const NAME: &'static str = "book_room";

    fn route(&self) -> Route {
        Route::post("hotels")
    }
}

// ---- wherever it dies ----------------------------------------------------------------------------------------------

/// R3: judging comes before the claim, and the claim says what was ruled. A process that dies at any call of its disk leaves no record by
/// which a later one, under whatever policy, would send what was denied, or what a person was to be asked about.
#[tokio::test]
async fn a_crash_carries_no_order_past_the_policy() {
    for ruling in ["deny", "ask"] {
        let mut claims = 0;
        for nth in 1.. {
            let (desk, folder) = (Desk::start().await, Folder::new());
            let role = Role::new("submit", &desk.url(), &folder.path()).with("RULING", ruling);
            let (_, lived) = role.with("DIES_AT", nth).play().await;

            let client = folder.client(&desk).await;
            let resumption = client.resume_pending().await.unwrap();
            assert!(resumption.resumed.is_empty(), "{ruling}, call {nth}: {resumption:?}");
            let text = std::fs::read_to_string(folder.log()).unwrap();
            assert!(!text.contains(r#""sending_follows":true"#), "{ruling}, call {nth}: {text}");
            if !folder.events("claimed").is_empty() {
                claims += 1;
                match (ruling, client.submit(mail(1), &order()).await) {
                    ("deny", Ok(Outcome::Denied(_))) => assert!(resumption.left_alone.is_empty()),
                    ("ask", Ok(Outcome::AwaitingApproval(_))) => assert_eq!(resumption.left_alone[0].why, Why::AwaitingApproval),
                    (_, told) => panic!("{ruling}, call {nth}: {told:?}"),
                }
            }
            assert_eq!(desk.requests().len(), 0, "{ruling}, call {nth}: {}", desk.story());
            if lived {
                assert!(nth > 30 && claims >= 2, "{nth} calls, {claims} of them behind the claim");
                break;
            }
        }
    }
}

/// R2, R15, R18: a process that dies at any call of its disk leaves an order that was sent or was not; nobody says which without proof, nobody
/// takes it back, and it is sent under its key.
#[tokio::test]
async fn wherever_a_process_dies_one_origin_is_one_order() {
    for nth in 1.. {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let (_, lived) = Role::new("submit", &desk.url(), &folder.path()).with("DIES_AT", nth).play().await;
        let client = folder.client(&desk).await;
        let story = format!("call {nth}\n{}", desk.story());
        let claimed = folder.events("claimed").pop();
        assert!(claimed.is_some() || desk.requests().is_empty(), "{story}");
        if let Some(claimed) = claimed {
            let key = claimed["key"].as_str().unwrap().parse().unwrap();
            let settled = !folder.events("settled").is_empty();
            match client.withdraw(key, "a second thought").await {
                Err(error) => assert!(!settled && error.effect() == Effect::Possible, "{error}, {story}"),
                Ok(Outcome::Succeeded(_)) => assert!(settled, "{story}"),
                Ok(other) => panic!("{other:?}, {story}"),
            }
        }
        client.resume_pending().await.unwrap();
        let key = receipt(client.submit(mail(1), &order()).await).key;
        assert_eq!(desk.keys(), [key.to_string()], "{story}");
        assert_eq!((desk.orders().len(), folder.events("claimed").len()), (1, 1), "{story}");
        read_log(&folder.log());
        if lived {
            assert!(nth > 40, "only {nth} calls were made");
            break;
        }
    }
}

/// R18, R15: a submit that meets an unfinished order goes on where its record ends. What policy says of it now changes nothing, and the doubt
/// of the dead run stays: its refusal is no definite no.
#[tokio::test]
async fn a_second_submit_runs_resumes_code() {
    for refused in [false, true] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let script = Script::new().lose_request();
        desk.script(if refused { script.refuse() } else { script.then_ok() });
        killed_at_its_first_request(&desk, Role::new("submit", &desk.url(), &folder.path())).await;

        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let policy = move |proposal: &uketsuke::Proposal<'_>| {
            counted.fetch_add(1, Ordering::SeqCst);
            denies(proposal)
        };
        let api = brisk(&desk.url()).build().unwrap();
        let client = OrderClient::builder(folder.journal().await, api, actor()).policy(policy).build();
        let outcome = client.submit(mail(1), &order()).await.unwrap();
        assert!(asked.load(Ordering::SeqCst) <= 1);
        let requests = desk.requests();
        assert_eq!(requests.len(), 2, "{}", desk.story());
        assert_same_request(&requests[0], &requests[1]);
        assert_eq!(folder.events("claimed").len(), 1);
        assert_eq!(folder.events("taken_over").len(), 1);
        match (refused, &outcome) {
            (false, Outcome::Succeeded(receipt)) => assert_eq!(receipt.attempts, 2),
            (true, Outcome::NeedsReview(review)) => {
                assert_eq!((review.reason, review.effect), (ReviewReason::Contradicted, Effect::Possible));
                // Nothing frees the origin while nobody knows.
                let error = client.submit(mail(1), &order().note("corrected")).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Drift);
            }
            _ => panic!("{outcome:?}"),
        }
        // A new order meets the policy.
        let new = client.submit(mail(2), &order()).await.unwrap();
        assert!(matches!(new, Outcome::Denied(_)), "{new:?}");
        assert_eq!(desk.requests().len(), 2);
    }
}

/// BUG-64, R13, R14: what a living process is sending is waited for, not sent: its receipt is everybody's.
#[tokio::test]
async fn what_another_living_process_sends_is_waited_for() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().reply_after(Duration::from_millis(300)));
    let (arrived, arrival) = mpsc::channel();
    desk.on_request(move |_| arrived.send(()).unwrap_or_default());
    let client = OrderClient::new(folder.journal().await, single(&desk.url()).build().unwrap(), actor());
    let child = tokio::spawn(Role::new("submit", &desk.url(), &folder.path()).play());
    tokio::task::spawn_blocking(move || arrival.recv_timeout(Duration::from_secs(20)).unwrap())
        .await
        .unwrap();
    let (order, resume) = (order(), client.resume_pending());
    let (submitted, resumption, child) = tokio::join!(client.submit(mail(1), &order), resume, child);
    let key = receipt(submitted).key;
    assert_eq!(child.unwrap().0, [format!("succeeded {key}")]);
    for resumed in resumption.unwrap() {
        assert_eq!(receipt(resumed.result).key, key);
    }
    assert_eq!(desk.requests().len(), 1, "{}", desk.story());
}

// ---- taken back, left alone ----------------------------------------------------------------------------------------

/// R2, R16: only what was never cleared, or never left, is taken back; what may have been sent stays, and so does what is in the air.
#[tokio::test]
async fn never_sent_needs_proof() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let journal = folder.journal().await;
    let client = |url: &str, asking: bool| {
        let client = OrderClient::builder(journal.clone(), single(url).name("shop").build().unwrap(), actor());
        if asking { client.policy(asks).build() } else { client.build() }
    };
    let here = client(&desk.url(), false);

    // Parked: nothing of it was sent.
    let parked = client(&desk.url(), true).submit(mail(1), &order()).await.unwrap();
    assert!(matches!(parked, Outcome::AwaitingApproval(_)), "{parked:?}");
    let withdrawn = here.withdraw(parked.key(), "not needed").await.unwrap();
    assert!(
        matches!(&withdrawn, Outcome::Denied(no) if no.because.reason.contains("not needed")),
        "{withdrawn:?}"
    );

    // Never left.
    let unsent = client(NOBODY, false).submit(mail(2), &order()).await.unwrap_err();
    assert_eq!((unsent.kind(), unsent.effect()), (ErrorKind::NotSent, Effect::None));
    assert_eq!(unsent.next_step(), NextStep::Resume { not_before: None });
    let withdrawn = here.withdraw(unsent.key().unwrap(), "not needed").await.unwrap();
    assert!(matches!(withdrawn, Outcome::Denied(_)), "{withdrawn:?}");

    // In doubt.
    desk.script(Script::new().lose_request().reply_after(Duration::from_millis(700)).then_ok());
    let doubtful = here.submit(mail(3), &order()).await.unwrap_err();
    let error = here.withdraw(doubtful.key().unwrap(), "not needed").await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::InDoubt, Effect::Possible));

    // In the air.
    let flying = here.submit(mail(4), &order()).within(Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(flying.kind(), ErrorKind::StillProcessing);
    let flying = flying.key().expect("the order has its key before it is sent");
    let error = here.withdraw(flying, "not needed").await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::StillProcessing, Effect::Possible));
    assert_eq!(here.drain(Duration::from_secs(10)).await, 0);

    let resumption = here.resume_pending().await.unwrap();
    assert!(resumption.left_alone.is_empty(), "{resumption:?}");
    let [resumed] = &resumption.resumed[..] else {
        panic!("{resumption:?}")
    };
    assert_eq!(Some(resumed.key), doubtful.key());
    assert_eq!(desk.orders().len(), 2);
    assert_eq!(folder.events("withdrawn").len(), 2);

    // What was taken back is a definite no: other contents are a new order; the same are answered from the book.
    let again = here.submit(mail(1), &order()).await.unwrap();
    assert!(matches!(again, Outcome::Denied(_)), "{again:?}");
    assert_ne!(receipt(here.submit(mail(1), &order().note("other")).await).key, parked.key());
    let nobodys = "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap();
    assert_eq!(here.withdraw(nobodys, "?").await.unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// R20: a client resumes its own api's orders and names the others.
#[tokio::test]
async fn resume_leaves_other_apis_alone() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let journal = folder.journal().await;
    let client = |url: &str, name: &str| OrderClient::new(journal.clone(), single(url).name(name).build().unwrap(), actor());
    for (n, name) in [(1, "ours"), (2, "theirs"), (3, "ours")] {
        let error = client(NOBODY, name).submit(mail(n), &order()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSent);
    }
    let ours = client(&desk.url(), "ours");
    let resumption = ours.resume_pending().await.unwrap();
    let [left] = &resumption.left_alone[..] else {
        panic!("{resumption:?}")
    };
    assert_eq!(left.why, Why::OtherApi("theirs".to_owned()));
    let origins: Vec<_> = resumption.resumed.iter().map(|one| one.origin.clone()).collect();
    assert_eq!(origins.len(), 2);
    assert!(origins.contains(&mail(1)) && origins.contains(&mail(3)));
    assert!(resumption.resumed.iter().all(|one| matches!(one.result, Ok(Outcome::Succeeded(_)))));
    assert_eq!(desk.requests().len(), 2);

    let error = ours.resume(left.key).await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::InvalidConfig, Some(left.key)));
    assert!(error.to_string().contains("theirs"), "{error}");
    assert_eq!(desk.requests().len(), 2);
}

/// BUG-10, R8: past the server's retention the same key executes again, so it is not sent: not by resume, not by a second submit, not with a
/// clock that went back. The age runs from the first possible send, whatever was tried since.
#[tokio::test]
async fn an_order_past_the_servers_retention_is_not_sent_again() {
    let (folder, clock) = (Folder::new(), Hands::new());
    let desk = clock.desk().await;
    let journal = Journal::builder().clock(clock.clone()).open(folder.path()).await.unwrap();
    let client = OrderClient::new(journal, single(&desk.url()).build().unwrap(), actor());
    desk.script(Script::new().commit_then_lose_reply().times(2).lose_request());
    let young = client.submit(mail(1), &order()).await.unwrap_err().key().unwrap();
    let old = client.submit(mail(2), &order()).await.unwrap_err().key().unwrap();
    assert_eq!(desk.requests().len(), 2);

    clock.turn(61 * MINUTE);
    desk.script(Script::new().then_ok().lose_request());
    assert!(receipt(client.resume(young).await).replayed);
    assert_eq!(client.resume(old).await.unwrap_err().kind(), ErrorKind::InDoubt);
    assert_eq!(desk.requests().len(), 4);

    // 23 h 51 min after the first send: inside the ten minutes' margin, although the last attempt is younger by an hour.
    clock.turn(23 * HOUR - 10 * MINUTE);
    for round in ["late", "back"] {
        let resumption = client.resume_pending().await.unwrap();
        match round {
            // Taken up once: what has only become old could be asked for at another server.
            "late" => assert!(
                matches!(
                    resumption.resumed[..],
                    [Resumed {
                        result: Ok(Outcome::NeedsReview(_)),
                        ..
                    }]
                ),
                "{resumption:?}"
            ),
            _ => assert_eq!(resumption.left_alone[0].why, Why::UnderReview, "{resumption:?}"),
        }
        for told in [client.resume(old).await, client.known(old).await.map(Option::unwrap)] {
            let Ok(Outcome::NeedsReview(review)) = told else {
                panic!("{round}: {told:?}")
            };
            assert_eq!((review.reason, review.effect), (ReviewReason::RetentionPassed, Effect::Possible));
        }
        let outcome = client.submit(mail(2), &order()).await.unwrap();
        assert!(matches!(outcome, Outcome::NeedsReview(_)), "{round}: {outcome:?}");
        assert_eq!(
            client.submit(mail(2), &order().note("other")).await.unwrap_err().kind(),
            ErrorKind::Drift
        );
        // A clock well before the record it wrote is in doubt, and doubt counts as passed.
        clock.turn(-26 * HOUR);
    }
    assert_eq!(desk.requests().len(), 4, "{}", desk.story());
    assert_eq!(desk.orders().len(), 2);
}

/// Silence is no: a ticket that nobody answered is a definite no, which a later approval can't wake.
#[tokio::test]
async fn a_ticket_nobody_answered_is_a_no() {
    let (folder, clock) = (Folder::new(), Hands::new());
    let desk = clock.desk().await;
    let journal = Journal::builder().clock(clock.clone()).open(folder.path()).await.unwrap();
    let api = single(&desk.url()).build().unwrap();
    let client = OrderClient::builder(journal, api, actor()).policy(asks).build();
    let parked = client.submit(mail(1), &order()).await.unwrap();
    clock.turn(24 * HOUR);
    let outcome = client.submit(mail(1), &order()).await.unwrap();
    assert!(matches!(&outcome, Outcome::Denied(no) if no.key == parked.key()), "{outcome:?}");
    let corrected = client.submit(mail(1), &order().note("again")).await.unwrap();
    assert!(matches!(&corrected, Outcome::AwaitingApproval(ticket) if ticket.key != parked.key()));
    assert_eq!(desk.requests().len(), 0);
}

/// A fleet that restarts must not knock all at once: a turn is given on only when the order before it came to its end.
#[tokio::test]
async fn resume_takes_up_at_most_four_at_once() {
    const LATE: Duration = Duration::from_millis(150);
    for (limit, orders) in [(None, 10), (NonZeroUsize::new(2), 6)] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let journal = folder.journal().await;
        let away = OrderClient::new(journal.clone(), single(NOBODY).name("shop").build().unwrap(), actor());
        for n in 0..orders {
            let error = away.submit(mail(n), &PlaceOrder::new("C-1").item("SKU-1", 1)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSent);
        }
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&arrivals);
        desk.on_request(move |_| noted.lock().unwrap().push(Instant::now()));
        desk.script(Script::new().reply_after(LATE).times(orders as u32));
        let api = single(&desk.url()).name("shop").build().unwrap();
        let mut builder = OrderClient::builder(journal, api, actor());
        if let Some(limit) = limit {
            builder = builder.resume_at_once(limit);
        }
        let mut resuming = builder.build().resume_each().await.unwrap();
        let mut ended = BTreeSet::new();
        while let Some(resumed) = resuming.next().await {
            receipt(resumed.result);
            ended.insert(resumed.key);
        }
        assert_eq!((ended.len(), desk.orders().len()), (orders, orders));
        // Every answer is late by that much, so whoever takes the turn of one of `limit` others comes no earlier.
        let (arrivals, limit) = (arrivals.lock().unwrap(), limit.map_or(4, NonZeroUsize::get));
        for (early, late) in arrivals.iter().zip(&arrivals[limit..]) {
            assert!(*late - *early >= LATE, "more than {limit} were in the air");
        }
    }
}

/// Resuming by a key, and asking without sending, are about that order only.
#[tokio::test]
async fn one_order_is_resumed_by_its_key() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let journal = folder.journal().await;
    let away = OrderClient::new(journal.clone(), single(NOBODY).name("shop").build().unwrap(), actor());
    let mut keys = Vec::new();
    for n in [1, 2] {
        keys.push(away.submit(mail(n), &order()).await.unwrap_err().key().unwrap());
    }
    let here = OrderClient::new(journal, single(&desk.url()).name("shop").build().unwrap(), actor());
    assert_eq!(here.known(keys[0]).await.unwrap_err().kind(), ErrorKind::NotSent);
    assert_eq!(desk.requests().len(), 0);
    receipt(here.resume(keys[0]).await);
    receipt(here.resume(keys[0]).await);
    assert_eq!(desk.keys(), [keys[0].to_string()]);
    assert_eq!(desk.requests().len(), 1);
    assert!(
        here.known("8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap())
            .await
            .unwrap()
            .is_none()
    );
    assert!(order_events(&folder).iter().filter(|name| *name == "claimed").count() == 2);
}
