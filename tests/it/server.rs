//! What a server of orders owes its clients, case by case (docs/desk.md), and what the unkind ones withhold.

use crate::kit::{Folder, brisk, order};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use uketsuke::testkit::*;
use uketsuke::{Actor, BoxFuture, OrderClient, Outcome};

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
const OTHER_KEY: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
const MINUTE: i64 = 60_000;

// ---- what is said of an operation ------------------------------------------------------------------------------------

#[tokio::test]
async fn a_refusal_about_an_operation_says_its_state_and_whether_another_key_is_safe() {
    let desk = Desk::start().await;
    desk.script(Script::new().get_stuck());
    post(&desk, KEY, "C-100").send().await.unwrap_err();
    let running = problem(post(&desk, KEY, "C-100"), 409, "idempotency_in_flight").await;
    assert_eq!(
        (&running["operation_state"], &running["safe_new_key"]),
        (&json!("started"), &json!(false))
    );
    let other = problem(post(&desk, KEY, "C-200"), 422, "idempotency_conflict").await;
    assert_eq!(
        (&other["operation_state"], &other["safe_new_key"]),
        (&json!("started"), &json!(false))
    );
    desk.finish(KEY).unwrap();
    let other = problem(post(&desk, KEY, "C-200"), 422, "idempotency_conflict").await;
    assert_eq!(
        (&other["operation_state"], &other["safe_new_key"]),
        (&json!("completed"), &json!(false))
    );
    assert_eq!(other["operation_ref"], running["operation_ref"], "one operation has one reference");
    assert!(!other["operation_ref"].as_str().unwrap().contains(KEY));
    let missing = problem(post(&desk, "", "C-100"), 400, "idempotency_key_missing").await;
    assert_eq!(missing.get("operation_ref"), None, "no operation is involved");
}

#[tokio::test]
async fn an_answer_that_expired_and_one_that_was_never_kept_are_told_apart_and_run_nothing() {
    let mut terms = Terms::default();
    terms.result_for = Some(Duration::from_secs(60));
    terms.body_max = Some(300);
    let desk = Desk::builder().terms(terms).start().await.unwrap();
    for (key, customer) in [(KEY, "C-100".to_owned()), (OTHER_KEY, "long ".repeat(100))] {
        assert_eq!(post(&desk, key, &customer).send().await.unwrap().status(), 201);
    }
    assert_eq!(post(&desk, KEY, "C-100").send().await.unwrap().status(), 201);
    let long = problem(post(&desk, OTHER_KEY, &"long ".repeat(100)), 409, "operation_result_unavailable").await;
    desk.ledger().turn_clock(2 * MINUTE);
    let gone = problem(post(&desk, KEY, "C-100"), 409, "operation_result_expired").await;
    for said in [long, gone] {
        assert_eq!(
            (&said["operation_state"], &said["safe_new_key"]),
            (&json!("completed"), &json!(false))
        );
    }
    desk.assert_one_order_per_key();
}

#[tokio::test]
async fn an_operators_word_says_whether_a_new_key_is_safe() {
    for (applied, code, safe) in [(false, "operation_not_applied", true), (true, "operation_abandoned", false)] {
        let desk = Desk::start().await;
        desk.script(Script::new().get_stuck());
        post(&desk, KEY, "C-100").send().await.unwrap_err();
        if applied { desk.abandon(KEY) } else { desk.not_applied(KEY) }.unwrap();
        for _ in 0..2 {
            let answer = post(&desk, KEY, "C-100").send().await.unwrap();
            assert!(!answer.headers().contains_key("idempotent-replayed"), "a word is no replay");
            let said: Value = answer.json().await.unwrap();
            assert_eq!((&said["code"], &said["safe_new_key"]), (&json!(code), &json!(safe)));
        }
        desk.abandon(KEY).unwrap_err();
        desk.not_applied(OTHER_KEY).unwrap_err();
        assert!(desk.orders().is_empty());
        assert_eq!(desk.attempts(KEY)[1].did, Did::Closed);
    }
}

// ---- cancelling by key -----------------------------------------------------------------------------------------------

#[tokio::test]
async fn cancelling_an_unknown_key_refuses_the_late_original() {
    let desk = Desk::start().await;
    for _ in 0..2 {
        let cancelled = cancel(&desk, KEY).send().await.unwrap();
        assert_eq!(cancelled.status(), 200);
        assert_eq!(cancelled.json::<Value>().await.unwrap()["status"], "cancelled");
    }
    let late = problem(post(&desk, KEY, "C-100"), 409, "operation_not_applied").await;
    assert_eq!(late["safe_new_key"], true);
    assert!(desk.orders().is_empty());
    assert!(desk.suspicions().is_empty(), "a cancellation by key needs no key of its own");
}

#[tokio::test]
async fn cancelling_a_known_key_cancels_its_order_and_its_replay_stays() {
    let desk = Desk::start().await;
    post(&desk, KEY, "C-100").send().await.unwrap();
    for _ in 0..2 {
        let cancelled: Value = cancel(&desk, KEY).send().await.unwrap().json().await.unwrap();
        assert_eq!(
            (&cancelled["order_id"], &cancelled["status"]),
            (&json!("ord-1"), &json!("cancelled"))
        );
    }
    let replay: Value = post(&desk, KEY, "C-100").send().await.unwrap().json().await.unwrap();
    assert_eq!(replay["status"], "accepted");
    desk.assert_one_order(|order| order["status"] == "cancelled");
}

#[tokio::test]
async fn a_key_that_is_processing_is_not_cancelled() {
    let desk = Desk::start().await;
    desk.script(Script::new().get_stuck());
    post(&desk, KEY, "C-100").send().await.unwrap_err();
    problem(cancel(&desk, KEY), 409, "idempotency_in_flight").await;
    desk.finish(KEY).unwrap();
    assert_eq!(post(&desk, KEY, "C-100").send().await.unwrap().status(), 201);
}

// ---- whose key it is -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn another_tenants_key_is_another_key_and_its_orders_are_not_there() {
    let desk = Desk::start().await;
    let mine = post(&desk, KEY, "C-100").header("X-Tenant", "mine").send().await.unwrap();
    assert_eq!(mine.status(), 201);
    let theirs = |request: RequestBuilder| request.header("X-Tenant", "theirs");
    let by_key = format!("/orders/by-key/{KEY}");
    for path in ["/orders/ord-1", &by_key] {
        assert_eq!(theirs(get(&desk, path)).send().await.unwrap().status(), 404, "{path}");
        assert_eq!(get(&desk, path).send().await.unwrap().status(), 404, "{path}");
        assert_eq!(
            get(&desk, path).header("X-Tenant", "mine").send().await.unwrap().status(),
            200,
            "{path}"
        );
    }
    let request = crate::kit::plain_client().post(format!("{}/orders/ord-1/cancel", desk.url()));
    let cancel_of_theirs = theirs(request.header("Idempotency-Key", OTHER_KEY)).send().await.unwrap();
    assert_eq!(cancel_of_theirs.status(), 404);

    // Other contents, and neither a conflict nor a replay: whether there is such a key is not theirs to learn.
    let answer = theirs(post(&desk, KEY, "C-200")).send().await.unwrap();
    assert_eq!(answer.status(), 201);
    assert!(!answer.headers().contains_key("idempotent-replayed"));
    assert_eq!(answer.json::<Value>().await.unwrap()["order_id"], "ord-2");
    desk.assert_one_order_per_key();
}

#[tokio::test]
async fn a_rotated_credential_is_the_same_record_unless_keys_are_scoped_by_it() {
    for unkind in [false, true] {
        let desk = match unkind {
            true => with([Unkind::ScopesByCredential]).await,
            false => Desk::start().await,
        };
        for token in ["Bearer old", "Bearer new"] {
            let answer = post(&desk, KEY, "C-100").header("Authorization", token).send().await.unwrap();
            assert_eq!(answer.status(), 201);
        }
        assert_eq!(desk.orders().len(), if unkind { 2 } else { 1 });
        assert!(
            !desk.rows().iter().any(|row| row.key.contains("old")),
            "a ledger holds no credential"
        );
    }
}

// ---- unkind servers --------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_racing_server_runs_both() {
    let desk = with([Unkind::Races]).await;
    desk.script(Script::new().get_stuck());
    post(&desk, KEY, "C-100").send().await.unwrap_err();
    assert_eq!(post(&desk, KEY, "C-100").send().await.unwrap().status(), 201);
    desk.finish(KEY).unwrap();
    assert_eq!(desk.orders().len(), 2);
    assert_eq!(desk.attempts(KEY)[1].did, Did::RanAnyway);
}

#[tokio::test]
async fn a_forgetful_server_orders_again() {
    let desk = with([Unkind::ForgetsAfter(Duration::from_secs(60))]).await;
    post(&desk, KEY, "C-100").send().await.unwrap();
    desk.ledger().turn_clock(MINUTE - 5_000);
    assert!(
        post(&desk, KEY, "C-100")
            .send()
            .await
            .unwrap()
            .headers()
            .contains_key("idempotent-replayed")
    );
    desk.ledger().turn_clock(10_000);
    post(&desk, KEY, "C-100").send().await.unwrap();
    assert_eq!(desk.orders().len(), 2);
}

#[tokio::test]
async fn a_server_that_validates_first_refuses_the_retry_of_an_order_that_stands() {
    for unkind in [false, true] {
        let desk = match unkind {
            true => with([Unkind::ValidatesFirst]).await,
            false => Desk::start().await,
        };
        desk.script(Script::new().commit_then_lose_reply());
        post(&desk, KEY, "C-100").send().await.unwrap_err();
        desk.refuse_from_now_on("sku_discontinued");
        let retry = post(&desk, KEY, "C-100").send().await.unwrap();
        assert_eq!(retry.status(), if unkind { 422 } else { 201 });
        desk.assert_one_order(|order| order["customer"] == "C-100");
        problem(post(&desk, OTHER_KEY, "C-200"), 422, "sku_discontinued").await;
        desk.refuse_no_more();
        // A kind server has stored its refusal; this one never saw the key.
        let later = post(&desk, OTHER_KEY, "C-200").send().await.unwrap();
        assert_eq!(later.status(), if unkind { 201 } else { 422 });
    }
}

#[tokio::test]
async fn a_server_error_is_stored_or_run_again_as_the_switch_says() {
    for stored in [true, false] {
        let desk = with([Unkind::StoresServerErrors(stored)]).await;
        desk.script(Script::new().store_status(500));
        assert_eq!(post(&desk, KEY, "C-100").send().await.unwrap().status(), 500);
        let again = post(&desk, KEY, "C-100").send().await.unwrap();
        assert_eq!(again.status(), if stored { 500 } else { 201 });
        assert_eq!(again.headers().contains_key("idempotent-replayed"), stored);
    }
}

#[tokio::test]
async fn a_server_that_ignores_a_mismatch_gives_the_old_order() {
    let desk = with([Unkind::IgnoresMismatch]).await;
    post(&desk, KEY, "C-100").send().await.unwrap();
    let answer: Value = post(&desk, KEY, "C-200").send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["customer"], "C-100");
    assert_eq!(desk.orders().len(), 1);
}

#[tokio::test]
async fn a_repeat_gets_the_original_or_the_current_state() {
    for current in [false, true] {
        let desk = match current {
            true => with([Unkind::CurrentState]).await,
            false => Desk::start().await,
        };
        post(&desk, KEY, "C-100").send().await.unwrap();
        cancel(&desk, KEY).send().await.unwrap();
        let repeat = post(&desk, KEY, "C-100").send().await.unwrap();
        assert_eq!(repeat.status(), if current { 200 } else { 201 });
        let order: Value = repeat.json().await.unwrap();
        assert_eq!(order["status"], if current { "cancelled" } else { "accepted" });
    }
}

#[tokio::test]
async fn still_running_is_said_with_the_status_of_the_switch() {
    let desk = Desk::builder().dialect(ServerDialect::Checkout).unkind(Unkind::InProgressAs(429));
    let desk = desk.start().await.unwrap();
    desk.script(Script::new().get_stuck());
    let send = || {
        let request = crate::kit::plain_client().post(format!("{}/orders", desk.url()));
        request
            .header("Cko-Idempotency-Key", KEY)
            .json(&json!({"customer": "C-100"}))
            .send()
    };
    send().await.unwrap_err();
    assert_eq!(send().await.unwrap().status(), 429);
}

// ---- a ledger with faults --------------------------------------------------------------------------------------------

#[tokio::test]
async fn without_its_ledger_the_desk_runs_nothing_and_one_that_fails_open_orders_twice() {
    for (dialect, unkind, orders) in [
        (ServerDialect::Ietf, None, 0),
        (ServerDialect::Ietf, Some(Unkind::FailsOpen), 2),
        (ServerDialect::Worldpay, None, 2),
    ] {
        let ledger = Arc::new(Flaky::default());
        ledger.down.store(true, Ordering::SeqCst);
        let desk = Desk::builder().dialect(dialect).ledger(ledger);
        let desk = match unkind {
            Some(switch) => desk.unkind(switch),
            None => desk,
        };
        let desk = desk.start().await.unwrap();
        for _ in 0..2 {
            let answer = post(&desk, KEY, "C-100").send().await.unwrap();
            assert_eq!(answer.status(), if orders == 0 { 503 } else { 201 }, "{dialect}");
        }
        assert_eq!(desk.orders().len(), orders, "{dialect}");
    }
}

#[tokio::test]
async fn work_that_could_not_be_stored_is_never_done_again() {
    let mut terms = Terms::default();
    terms.lease = Some(Duration::from_secs(60));
    let ledger = Arc::new(Flaky::default());
    let desk = Desk::builder().ledger(ledger.clone()).terms(terms).start().await.unwrap();
    ledger.forgetful.store(true, Ordering::SeqCst);
    assert_eq!(post(&desk, KEY, "C-100").send().await.unwrap().status(), 503);
    ledger.forgetful.store(false, Ordering::SeqCst);
    problem(post(&desk, KEY, "C-100"), 409, "idempotency_in_flight").await;
    desk.ledger().turn_clock(2 * MINUTE);
    let said = problem(post(&desk, KEY, "C-100"), 409, "operation_uncertain").await;
    assert_eq!(
        (&said["operation_state"], &said["safe_new_key"]),
        (&json!("uncertain"), &json!(false))
    );
    desk.assert_one_order_per_key();
}

#[tokio::test]
async fn a_record_that_cannot_be_read_runs_nothing_even_if_the_desk_fails_open() {
    let ledger = Arc::new(Flaky::default());
    ledger.corrupt.store(true, Ordering::SeqCst);
    let desk = Desk::builder().unkind(Unkind::FailsOpen).ledger(ledger).start().await.unwrap();
    assert_eq!(post(&desk, KEY, "C-100").send().await.unwrap().status(), 503);
    assert!(desk.orders().is_empty());
}

#[tokio::test]
async fn a_claim_left_before_its_effect_is_run_once_after_the_lease() {
    let mut terms = Terms::default();
    terms.lease = Some(Duration::from_secs(60));
    let desk = Desk::builder().terms(terms).start().await.unwrap();
    desk.script(Script::new().get_stuck());
    post(&desk, KEY, "C-100").send().await.unwrap_err();
    problem(post(&desk, KEY, "C-100"), 409, "idempotency_in_flight").await;
    desk.ledger().turn_clock(2 * MINUTE);
    for _ in 0..2 {
        assert_eq!(post(&desk, KEY, "C-100").send().await.unwrap().status(), 201);
    }
    desk.assert_one_order_per_key();
}

#[tokio::test]
async fn two_desks_on_one_ledger_are_one_server() {
    let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
    let [one, two] = [Desk::builder().ledger(ledger.clone()), Desk::builder().ledger(ledger)];
    let (one, two) = (one.start().await.unwrap(), two.start().await.unwrap());
    one.script(Script::new().get_stuck());
    post(&one, KEY, "C-100").send().await.unwrap_err();
    problem(post(&two, KEY, "C-100"), 409, "idempotency_in_flight").await;
    one.finish(KEY).unwrap();
    let replay = post(&two, KEY, "C-100").send().await.unwrap();
    assert_eq!(
        (replay.status().as_u16(), &replay.headers()["idempotent-replayed"]),
        (201, &"true".parse().unwrap())
    );
    assert_eq!((one.orders().len(), two.orders().len()), (1, 0));
}

#[tokio::test]
async fn without_a_lease_a_key_stays_processing_for_ever() {
    let desk = with([Unkind::ForgetsAfter(Duration::from_secs(60))]).await;
    desk.script(Script::new().get_stuck());
    post(&desk, KEY, "C-100").send().await.unwrap_err();
    desk.ledger().turn_clock(365 * 24 * 60 * MINUTE);
    problem(post(&desk, KEY, "C-100"), 409, "idempotency_in_flight").await;
    assert!(desk.orders().is_empty());
}

// ---- today's client against such servers -----------------------------------------------------------------------------

#[tokio::test]
async fn a_502_and_a_silence_are_retried_under_one_key_and_a_new_order_has_a_new_one() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    desk.script(Script::new().status(502).commit_then_lose_reply());
    for origin in ["mail-1", "mail-2"] {
        let outcome = client.submit(origin_of(origin), &order()).await.unwrap();
        assert!(matches!(outcome, Outcome::Succeeded(_)), "{outcome:?}");
    }
    assert_eq!(desk.keys().len(), 2);
    assert_eq!(desk.attempts(&desk.keys()[0]).len(), 3);
    desk.assert_one_order_per_key();
}

/// Worldpay's 200 with an error in it, PicPay's 208 and Checkout's 429 say "still running".
#[tokio::test]
async fn still_running_in_whatever_words_is_never_booked_as_success_or_failure() {
    for (dialect, unkind) in [
        (ServerDialect::Worldpay, None),
        (ServerDialect::Ietf, Some(Unkind::InProgressAs(208))),
        (ServerDialect::Ietf, Some(Unkind::InProgressAs(429))),
        (ServerDialect::Stripe, None),
    ] {
        let desk = Desk::builder().dialect(dialect);
        let desk = match unkind {
            Some(switch) => desk.unkind(switch),
            None => desk,
        };
        let (desk, folder) = (desk.start().await.unwrap(), Folder::new());
        let mut timeouts = uketsuke::Timeouts::default();
        timeouts.connect = Duration::from_millis(250);
        timeouts.attempt = Duration::from_millis(500);
        timeouts.total = Duration::from_millis(1500);
        let api = brisk(&desk.url()).timeouts(timeouts).build().unwrap();
        let client = OrderClient::new(folder.journal().await, api, Actor::agent("test-agent"));
        desk.script(Script::new().get_stuck());
        let outcome = client.submit(origin_of("mail-1"), &order()).await;
        assert!(
            !matches!(outcome, Ok(Outcome::Succeeded(_) | Outcome::Rejected(_))),
            "{dialect} {unkind:?}: {outcome:?}"
        );
        assert_eq!(desk.keys().len(), 1, "{dialect} {unkind:?}");
        assert!(
            desk.attempts(&desk.keys()[0]).len() >= 2,
            "{dialect} {unkind:?}: the second heard it"
        );
    }
}

#[tokio::test]
async fn the_advice_to_use_a_new_key_is_not_followed() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let advice = Reply::problem(409, "EC_QLDB_OCC_ERROR_RETRY", "please retry with a new idempotency key");
    desk.script(Script::new().commit_then_lose_reply().reply(advice));
    let outcome = client.submit(origin_of("mail-1"), &order()).await;
    assert!(
        !matches!(outcome, Ok(Outcome::Rejected(_))),
        "an earlier attempt may have landed: {outcome:?}"
    );
    assert_eq!(desk.keys().len(), 1);
    desk.assert_one_order_per_key();
}

fn origin_of(mail: &str) -> uketsuke::Origin {
    uketsuke::Origin::custom("mail", mail)
}

// ---- the table of cases ----------------------------------------------------------------------------------------------

/// Two tenants may have one key, or one order, without either being careless.
#[tokio::test]
async fn another_tenants_requests_make_nobody_suspicious() {
    let desk = Desk::start().await;
    desk.script("lose reply; lose reply; ok x2".parse().unwrap());
    for (tenant, key, customer) in [
        ("acme", KEY, "C-1"),
        ("umbrella", KEY, "C-2"),
        ("umbrella", KEY, "C-2"),
        ("initech", OTHER_KEY, "C-1"),
    ] {
        drop(post(&desk, key, customer).header("X-Tenant", tenant).send().await);
    }
    assert_eq!(desk.orders().len(), 3);
    desk.assert_nothing_suspicious();
    drop(post(&desk, OTHER_KEY, "C-1").header("X-Tenant", "acme").send().await);
    assert!(matches!(
        desk.suspicions()[..],
        [Suspicion::MintedInRetry { earlier: 1, later: 5, .. }]
    ));
}

/// The network held half of it back until the retry was answered.
#[tokio::test]
async fn a_first_request_that_comes_after_its_retry_is_replayed() {
    let desk = Desk::start().await;
    let body = br#"{"customer":"C-100","items":[]}"#;
    let (early, late) = body.split_at(body.len() / 2);
    let head = format!(
        "POST /orders HTTP/1.1\r\nhost: desk\r\nidempotency-key: {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    let mut held = tokio::net::TcpStream::connect(desk.url().trim_start_matches("http://"))
        .await
        .unwrap();
    held.write_all(&[head.as_bytes(), early].concat()).await.unwrap();
    let retry = crate::kit::plain_client().post(format!("{}/orders", desk.url()));
    let retry = retry.header("idempotency-key", KEY).header("content-type", "application/json");
    assert_eq!(retry.body(&body[..]).send().await.unwrap().status(), 201);
    held.write_all(late).await.unwrap();
    let mut answer = String::new();
    held.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("idempotent-replayed: true"), "{answer}");
    assert_eq!(desk.orders().len(), 1);
}

/// Every row of the table in docs/desk.md: its number, and its last cell.
#[test]
fn every_case_has_its_test() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let found = untruths(&read("docs/desk.md"), |module| {
        let module = module.replace("::", "/");
        std::fs::read_to_string(root.join(format!("tests/it/{module}.rs"))).ok()
    });
    assert!(found.is_empty(), "docs/desk.md:\n  {}", found.join("\n  "));
}

#[test]
fn every_untruth_about_a_case_goes_red() {
    let row = |n: u32| format!("| {n} | it holds | `a::it_holds` |\n");
    let table: String = (1..=65).map(row).collect();
    let judge = |table: &str| {
        let source = "#[test]\nfn it_holds() {}\nfn helper() {}\n";
        untruths(table, |module| (module == "a").then(|| source.to_owned()))
    };
    assert_eq!(judge(&table), [""; 0]);
    for (new, said) in [
        (String::new(), "65: stands there 0 times"),
        (row(65) + &row(65), "65: stands there 2 times"),
        (row(65) + &row(66), "66: is no case"),
        (row(65).replace("it_holds`", "helper`"), "65: a::helper is no test"),
        (row(65).replace("a::", "b::"), "65: b::it_holds is no test"),
        ("| 65 | it holds |  |\n".to_owned(), "65: neither a test nor a reason"),
        ("| 65 |  | `a::it_holds` |\n".to_owned(), "65: claims nothing"),
    ] {
        let found = judge(&table.replace(&row(65), &new));
        assert!(found.iter().any(|untruth| untruth == said), "wanted {said}, found {found:?}");
    }
}

fn untruths(table: &str, source: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let (mut found, mut times) = (Vec::new(), BTreeMap::<u32, usize>::new());
    for line in table.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (Some(Ok(number)), [_, _, claim, held, _]) = (cells.get(1).map(|cell| cell.parse::<u32>()), &cells[..]) else {
            continue;
        };
        *times.entry(number).or_default() += 1;
        if !(1..=65).contains(&number) {
            found.push(format!("{number}: is no case"));
        }
        if claim.is_empty() {
            found.push(format!("{number}: claims nothing"));
        }
        if held.is_empty() {
            found.push(format!("{number}: neither a test nor a reason"));
        }
        for test in held.split('`').skip(1).step_by(2) {
            if !is_test(test, &source) {
                found.push(format!("{number}: {test} is no test"));
            }
        }
    }
    let wrong = (1..=65)
        .map(|n| (n, times.get(&n).copied().unwrap_or_default()))
        .filter(|(_, times)| *times != 1);
    found.extend(wrong.map(|(n, times)| format!("{n}: stands there {times} times")));
    found
}

/// Whether the sources have a function of that name under `#[test]` or `#[tokio::test]`, which is not ignored.
fn is_test(path: &str, source: &impl Fn(&str) -> Option<String>) -> bool {
    let Some((module, name)) = path.rsplit_once("::") else {
        return false;
    };
    // Those that run on each ledger are made from a list.
    if let ("ledgers::on_memory" | "ledgers::on_redis", Some(text)) = (module, source("ledgers")) {
        return text.lines().any(|line| line.trim() == name);
    }
    let Some(text) = source(module) else { return false };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let Some(at) = lines.iter().position(|line| line.contains(&format!("fn {name}("))) else {
        return false;
    };
    let above: Vec<&str> = lines[..at]
        .iter()
        .rev()
        .take_while(|line| line.starts_with('#') || line.starts_with("//"))
        .copied()
        .collect();
    let is_test = above
        .iter()
        .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
    is_test && !above.iter().any(|line| line.starts_with("#[ignore"))
}

// ---- helpers ---------------------------------------------------------------------------------------------------------

async fn with<const N: usize>(switches: [Unkind; N]) -> Desk {
    let desk = switches.into_iter().fold(Desk::builder(), DeskBuilder::unkind);
    desk.start().await.unwrap()
}

/// An order of that customer. An empty key is none.
fn post(desk: &Desk, key: &str, customer: &str) -> RequestBuilder {
    let request = crate::kit::plain_client().post(format!("{}/orders", desk.url()));
    let request = if key.is_empty() {
        request
    } else {
        request.header("Idempotency-Key", key)
    };
    request.json(&json!({"customer": customer}))
}

fn cancel(desk: &Desk, key: &str) -> RequestBuilder {
    crate::kit::plain_client().post(format!("{}/orders/by-key/{key}/cancel", desk.url()))
}

fn get(desk: &Desk, path: &str) -> RequestBuilder {
    crate::kit::plain_client().get(format!("{}{path}", desk.url()))
}

/// Sends it, and wants that refusal.
async fn problem(request: RequestBuilder, status: u16, code: &str) -> Value {
    let answer: Response = request.send().await.unwrap();
    let said = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    assert_eq!((said, &body["code"]), (status, &json!(code)), "{body}");
    body
}

/// A ledger that can be down, lose what it is to store, and find its records spoilt.
#[derive(Debug, Default)]
struct Flaky {
    inner: MemoryLedger,
    down: AtomicBool,
    forgetful: AtomicBool,
    corrupt: AtomicBool,
}

impl Ledger for Flaky {
    fn claim(&self, ask: Ask) -> BoxFuture<'_, Result<Claimed, LedgerError>> {
        let (key, why) = (ask.key.clone(), "no record".to_owned());
        match (self.down.load(Ordering::SeqCst), self.corrupt.load(Ordering::SeqCst)) {
            (true, _) => Box::pin(std::future::ready(Err(LedgerError::Unreachable("down".to_owned())))),
            (_, true) => Box::pin(std::future::ready(Err(corrupt(key, why)))),
            _ => self.inner.claim(ask),
        }
    }

    fn begin(&self, claim: &Claim) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.inner.begin(claim)
    }

    fn complete(&self, claim: &Claim, answer: &Reply) -> BoxFuture<'_, Result<(), LedgerError>> {
        if self.forgetful.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(LedgerError::Unreachable("down".to_owned()))));
        }
        self.inner.complete(claim, answer)
    }

    fn release(&self, claim: &Claim) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.inner.release(claim)
    }

    fn read(&self, key: &str) -> BoxFuture<'_, Result<Option<Row>, LedgerError>> {
        self.inner.read(key)
    }

    fn tombstone(&self, key: &str, answer: &Reply, terms: Terms) -> BoxFuture<'_, Result<Option<Row>, LedgerError>> {
        self.inner.tombstone(key, answer, terms)
    }

    fn overrule(&self, key: &str, answer: &Reply) -> BoxFuture<'_, Result<bool, LedgerError>> {
        self.inner.overrule(key, answer)
    }

    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, LedgerError>> {
        self.inner.rows()
    }

    fn now(&self) -> uketsuke::Timestamp {
        Ledger::now(&self.inner)
    }

    fn turn_clock(&self, millis: i64) {
        self.inner.turn_clock(millis);
    }
}

fn corrupt(key: String, why: String) -> LedgerError {
    LedgerError::Corrupt { key, why }
}
