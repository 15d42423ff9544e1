//! The desk against itself: where a judge of other people's orders could be wrong, deaf or dead.

use crate::kit::plain_client;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use uketsuke::testkit::{Desk, Script, ServerDialect};

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

fn post(desk: &Desk, path: &str, key: &str) -> RequestBuilder {
    let post = plain_client().post(format!("{}{path}", desk.url()));
    post.header("Idempotency-Key", key).json(&json!({"customer": "C-100"}))
}

async fn ask(desk: &Desk, path: &str) -> u16 {
    let asked = plain_client().get(format!("{}{path}", desk.url())).send().await;
    asked.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_lookups_handler_may_set_the_script() {
    let desk = Arc::new(Desk::start().await);
    let its_own = Arc::downgrade(&desk);
    desk.serve("GET", "/weather", move |_| {
        let its_own = its_own.clone();
        // On a thread of its own, so that a desk that waits for itself is seen and not waited for.
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let Some(desk) = its_own.upgrade() else { return };
            desk.script(Script::new().status(503));
            done.send(()).unwrap_or_default();
        });
        match is_done.recv_timeout(Duration::from_secs(5)) {
            Ok(()) => 200.into(),
            Err(_) => 504.into(),
        }
    });
    assert_eq!(ask(&desk, "/weather").await, 200);
    assert_eq!(post(&desk, "/orders", KEY).send().await.unwrap().status(), 503);
}

#[tokio::test]
async fn no_spelling_of_a_key_reaches_another_tenants_order() {
    let desk = Desk::start().await;
    let placed = post(&desk, "/orders", KEY).header("X-Tenant", "acme").send().await.unwrap();
    assert_eq!(placed.status(), 201);
    assert_eq!(ask(&desk, &format!("/orders/by-key/acme;{KEY}")).await, 404);
    assert_eq!(ask(&desk, &format!("/orders/by-key/acme%3B{KEY}")).await, 404);
    let cancel = plain_client().post(format!("{}/orders/by-key/acme%3B{KEY}/cancel", desk.url()));
    assert_eq!(cancel.send().await.unwrap().status(), 400);
    desk.assert_exactly_one_order(|order| order["status"] == "accepted");
}

#[tokio::test]
async fn a_handler_that_panics_when_it_is_finished_gives_the_key_free_and_fails_the_assertions() {
    let desk = Desk::start().await;
    desk.serve("POST", "/rooms", |_| panic!("no rooms"));
    desk.script(Script::new().get_stuck());
    post(&desk, "/rooms", KEY).send().await.unwrap_err();
    let finish = plain_client().post(format!("{}/_desk/finish/{KEY}", desk.url())).send().await;
    assert_eq!(finish.expect("the desk answers").status(), 204);
    assert!(desk.row(KEY).is_none(), "the key is free");
    let failed = catch_unwind(AssertUnwindSafe(|| desk.assert_script_played())).unwrap_err();
    assert!(failed.downcast_ref::<String>().unwrap().contains("no rooms"));
}

#[tokio::test]
async fn a_server_that_stores_successes_alone_stores_no_refusal_of_late_work() {
    for script in ["slow 1h", "stuck"] {
        let desk = Desk::builder().dialect(ServerDialect::Checkout).start().await.unwrap();
        desk.serve("POST", "/rooms", |_| 422.into());
        desk.script(script.parse().unwrap());
        let rooms = post(&desk, "/rooms", KEY)
            .header("Cko-Idempotency-Key", KEY)
            .timeout(Duration::from_millis(200));
        rooms.send().await.unwrap_err();
        desk.finish(KEY).unwrap();
        assert!(desk.row(KEY).is_none(), "{script}: {:?}", desk.row(KEY));
    }
}

#[tokio::test]
async fn an_order_that_the_shop_cannot_hold_is_400_and_not_an_empty_order() {
    let desk = Desk::start().await;
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(127), "]".repeat(127));
    for body in [r#"{"quantity":1e400}"#, deep.as_str()] {
        let posted = post(&desk, "/orders", KEY).body(body.to_owned()).send().await.unwrap();
        assert_eq!(posted.status(), 400, "{body}: {:?}", desk.orders());
    }
    assert_eq!(desk.orders(), Vec::<Value>::new());
}

#[tokio::test]
async fn work_is_finished_by_its_key_as_a_url_spells_it() {
    let desk = Desk::start().await;
    desk.script(Script::new().get_stuck());
    post(&desk, "/orders", "night{1}#2").send().await.unwrap_err();
    let finish = plain_client().post(format!("{}/_desk/finish/night%7B1%7D%232", desk.url()));
    assert_eq!(finish.send().await.unwrap().status(), 204);
}

#[cfg(feature = "desk")]
#[test]
fn a_ledgers_password_is_in_no_complaint_about_its_address() {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_uketsuke"));
    let output = program
        .args(["desk", "--ledger", "rediss://:hunter2@127.0.0.1:1"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains("redis://HOST:PORT"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
