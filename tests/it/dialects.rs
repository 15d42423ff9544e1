//! The desk plays each server as its vendor describes it. What is expected stands here once more, by hand: a table that was read from the
//! desk's own would agree with it in everything.

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use uketsuke::testkit::*;

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
const OTHER_KEY: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";

/// What one server does, as its row in the study says.
struct Server {
    dialect: ServerDialect,
    /// Header, or `body:` and the member.
    place: &'static str,
    running: Said,
    /// The same request once more.
    again: Said,
    /// Whether that answer has `Idempotent-Replayed: true`.
    marked: bool,
    /// The key with other contents.
    other: Said,
    /// Whether a stored 400 and a stored 500 come back, or are run again.
    keeps: (bool, bool),
    /// Where the order is found by its key.
    lookup: Option<&'static str>,
}

/// A status, and where in the body stands what. `xml` looks for a piece of text.
type Said = (u16, &'static str, &'static str);

const FIRST: Said = (201, "/order_id", "ord-1");
const NOW: Said = (200, "/order_id", "ord-1");

const IETF: Server = Server {
    dialect: ServerDialect::Ietf,
    place: "Idempotency-Key",
    running: (409, "/code", "idempotency_in_flight"),
    again: FIRST,
    marked: true,
    other: (422, "/code", "idempotency_conflict"),
    keeps: (true, true),
    lookup: Some("/orders/by-key/{key}"),
};

const SERVERS: [Server; 13] = [
    IETF,
    Server {
        dialect: ServerDialect::Stripe,
        running: (409, "/error/code", "idempotency_key_in_use"),
        other: (400, "/error/type", "idempotency_error"),
        lookup: None,
        ..IETF
    },
    Server {
        dialect: ServerDialect::GoCardless,
        running: (409, "/error/errors/0/reason", "idempotency_in_flight"),
        again: (409, "/error/errors/0/links/conflicting_resource_id", "ord-1"),
        marked: false,
        other: (409, "/error/errors/0/reason", "idempotent_creation_conflict"),
        keeps: (false, false),
        lookup: None,
        ..IETF
    },
    Server {
        dialect: ServerDialect::Increase,
        running: (409, "/type", "idempotency_in_flight"),
        other: (409, "/resource_id", "ord-1"),
        lookup: Some("/orders?idempotency_key={key}"),
        ..IETF
    },
    Server {
        dialect: ServerDialect::Checkout,
        place: "Cko-Idempotency-Key",
        running: (409, "/error_codes/0", "request_in_progress"),
        marked: false,
        other: (422, "/error_codes/0", "idempotency_conflict"),
        keeps: (false, false),
        lookup: None,
        ..IETF
    },
    Server {
        dialect: ServerDialect::Square,
        place: "body:idempotency_key",
        running: (409, "/errors/0/code", "idempotency_in_flight"),
        again: NOW,
        marked: false,
        other: (400, "/errors/0/code", "IDEMPOTENCY_KEY_REUSED"),
        keeps: (false, false),
        lookup: None,
    },
    Server {
        dialect: ServerDialect::PayPal,
        place: "PayPal-Request-Id",
        running: (409, "/name", "PREVIOUS_REQUEST_IN_PROGRESS"),
        again: NOW,
        marked: false,
        other: (422, "/name", "DUPLICATE_REQUEST_ID"),
        keeps: (false, false),
        lookup: None,
    },
    Server {
        dialect: ServerDialect::Adyen,
        running: (422, "/errorCode", "704"),
        marked: false,
        other: (422, "/errorCode", "idempotency_conflict"),
        keeps: (true, false),
        lookup: None,
        ..IETF
    },
    Server {
        dialect: ServerDialect::Alpaca,
        place: "body:client_order_id",
        running: (409, "/code", "40900000"),
        again: (422, "/code", "40010001"),
        marked: false,
        other: (422, "/message", "client_order_id must be unique"),
        keeps: (false, false),
        lookup: Some("/orders:by_client_order_id?client_order_id={key}"),
    },
    Server {
        dialect: ServerDialect::Coinbase,
        place: "body:client_order_id",
        running: (409, "/error", "idempotency_in_flight"),
        marked: false,
        other: (201, "/customer", "C-100"),
        keeps: (false, false),
        lookup: None,
        ..IETF
    },
    Server {
        dialect: ServerDialect::Toast,
        place: "body:externalId",
        running: (409, "/code", "idempotency_in_flight"),
        again: (400, "/code", "duplicate_external_id"),
        marked: false,
        other: (400, "/code", "duplicate_external_id"),
        keeps: (false, false),
        lookup: Some("/orders?externalId={key}"),
    },
    Server {
        dialect: ServerDialect::Repeatability,
        place: "Repeatability-Request-ID",
        running: (409, "/error/code", "idempotency_in_flight"),
        marked: false,
        other: (400, "/error/code", "RepeatabilityRequestIdReused"),
        keeps: (true, false),
        lookup: None,
        ..IETF
    },
    Server {
        dialect: ServerDialect::Worldpay,
        running: (200, "xml", "<error code=\"9\">"),
        marked: false,
        other: (200, "xml", "<error code=\"other-contents\">"),
        lookup: None,
        ..IETF
    },
];

#[test]
fn every_dialect_is_in_the_table_once() {
    assert_eq!(SERVERS.map(|server| server.dialect), ServerDialect::ALL);
}

#[tokio::test]
async fn a_first_request_is_201_and_the_desk_tells_its_key() {
    for server in &SERVERS {
        let desk = server.start().await;
        let answer = server.order(&desk, KEY, "C-100").send().await.unwrap();
        assert!(!answer.headers().contains_key("idempotent-replayed"), "{}", server.dialect);
        server.expect(answer, FIRST).await;
        assert_eq!(desk.keys(), [KEY], "{}", server.dialect);
        assert_eq!(desk.attempts(KEY).len(), 1, "{}", server.dialect);
        assert_eq!(desk.row(KEY).unwrap().state, RowState::Succeeded, "{}", server.dialect);
        desk.assert_nothing_suspicious();
    }
}

#[tokio::test]
async fn a_duplicate_is_answered_in_each_servers_way_and_orders_nothing() {
    for server in &SERVERS {
        let desk = server.start().await;
        server.place(&desk, KEY).await;
        let answer = server.order(&desk, KEY, "C-100").send().await.unwrap();
        assert_eq!(
            answer.headers().contains_key("idempotent-replayed"),
            server.marked,
            "{}",
            server.dialect
        );
        server.expect(answer, server.again).await;
        desk.assert_one_order_per_key();
        assert_eq!(desk.attempts(KEY)[1].replayed, server.marked);
    }
}

#[tokio::test]
async fn other_contents_under_a_key_never_order_and_never_replace() {
    for server in &SERVERS {
        let desk = server.start().await;
        server.place(&desk, KEY).await;
        let answer = server.order(&desk, KEY, "C-200").send().await.unwrap();
        server.expect(answer, server.other).await;
        desk.assert_one_order(|order| order["customer"] == "C-100");
        assert_eq!(desk.orders().len(), 1, "{}", server.dialect);
    }
}

#[tokio::test]
async fn a_request_beside_one_that_still_runs_hears_so_in_each_servers_words() {
    for server in &SERVERS {
        let desk = server.start().await;
        desk.script(Script::new().get_stuck());
        server.order(&desk, KEY, "C-100").send().await.unwrap_err();
        let answer = server.order(&desk, KEY, "C-100").send().await.unwrap();
        assert_eq!(answer.headers()["retry-after"], "1", "{}", server.dialect);
        server.expect(answer, server.running).await;
        assert!(desk.orders().is_empty());

        desk.finish(KEY).unwrap();
        let answer = server.order(&desk, KEY, "C-100").send().await.unwrap();
        server.expect(answer, server.again).await;
        desk.assert_one_order_per_key();
    }
}

#[tokio::test]
async fn an_error_is_stored_or_run_again_as_each_server_does() {
    for server in &SERVERS {
        for (status, kept) in [(400, server.keeps.0), (500, server.keeps.1)] {
            let desk = server.start().await;
            desk.script(Script::new().store_status(status));
            let answer = server.order(&desk, KEY, "C-100").send().await.unwrap();
            assert_eq!(answer.status(), status, "{}", server.dialect);
            let answer = server.order(&desk, KEY, "C-100").send().await.unwrap();
            let wanted = if kept { status } else { 201 };
            assert_eq!(answer.status(), wanted, "{}: {status}", server.dialect);
            assert_eq!(desk.orders().len(), usize::from(!kept), "{}: {status}", server.dialect);
            assert_eq!(desk.attempts(KEY)[0].did, if kept { Did::Claimed } else { Did::GaveBack });
        }
    }
}

#[tokio::test]
async fn an_order_is_found_by_its_key_where_the_server_has_such_a_lookup_and_nowhere_else() {
    for server in &SERVERS {
        let desk = server.start().await;
        server.place(&desk, KEY).await;
        for other in SERVERS.iter().filter_map(|server| server.lookup) {
            let found = desk.get(&other.replace("{key}", KEY)).await;
            let absent = desk.get(&other.replace("{key}", OTHER_KEY)).await;
            if server.lookup != Some(other) {
                assert_eq!(found.status(), 599, "{} {other}", server.dialect);
                continue;
            }
            assert_eq!(found.status(), 200, "{}", server.dialect);
            let found: Value = found.json().await.unwrap();
            if server.dialect == ServerDialect::Increase {
                assert_eq!(found["data"][0]["order_id"], "ord-1");
                assert_eq!(absent.json::<Value>().await.unwrap(), json!({"data": []}));
            } else {
                assert_eq!(found["order_id"], "ord-1");
                assert_eq!(absent.status(), 404, "{}", server.dialect);
            }
        }
    }
}

#[tokio::test]
async fn no_key_and_a_key_in_quotes_are_400_and_the_draft_alone_reads_quotes() {
    for server in &SERVERS {
        let desk = server.start().await;
        let bare = server.order(&desk, "", "C-100").send().await.unwrap();
        let quoted = server.order(&desk, &format!("\"{KEY}\""), "C-100").send().await.unwrap();
        assert_eq!(bare.status(), 400, "{}", server.dialect);
        let wanted = if server.dialect == ServerDialect::Ietf { 201 } else { 400 };
        assert_eq!(quoted.status(), wanted, "{}", server.dialect);
    }
}

#[tokio::test]
async fn a_key_is_as_long_as_its_server_says_and_no_longer() {
    for (dialect, longest) in [
        (ServerDialect::Stripe, 255),
        (ServerDialect::Increase, 200),
        (ServerDialect::Square, 45),
        (ServerDialect::PayPal, 108),
        (ServerDialect::Adyen, 64),
        (ServerDialect::Alpaca, 48),
    ] {
        let server = SERVERS.iter().find(|server| server.dialect == dialect).unwrap();
        let desk = server.start().await;
        for (length, status) in [(longest + 1, 400), (longest, 201)] {
            let answer = server.order(&desk, &"k".repeat(length), "C-100").send().await.unwrap();
            assert_eq!(answer.status(), status, "{dialect} {length}");
        }
    }
}

#[tokio::test]
async fn a_key_is_forgotten_after_each_servers_time_and_then_orders_again() {
    const HOUR: i64 = 60 * 60 * 1000;
    for (dialect, kept) in [
        (ServerDialect::Stripe, Some(24 * HOUR)),
        (ServerDialect::Checkout, Some(24 * HOUR)),
        (ServerDialect::PayPal, Some(6 * HOUR)),
        (ServerDialect::Adyen, Some(7 * 24 * HOUR)),
        (ServerDialect::Worldpay, Some(24 * HOUR)),
        (ServerDialect::Ietf, None),
        (ServerDialect::Increase, None),
    ] {
        let server = SERVERS.iter().find(|server| server.dialect == dialect).unwrap();
        let desk = server.start().await;
        server.place(&desk, KEY).await;
        desk.ledger().turn_clock(kept.unwrap_or(365 * 24 * HOUR) - 60_000);
        server
            .expect(server.order(&desk, KEY, "C-100").send().await.unwrap(), server.again)
            .await;
        desk.ledger().turn_clock(120_000);
        server.order(&desk, KEY, "C-100").send().await.unwrap();
        assert_eq!(desk.orders().len(), if kept.is_some() { 2 } else { 1 }, "{dialect}");
    }
}

/// Two orders under two keys are one order under suspicion, wherever the key is.
#[tokio::test]
async fn a_key_minted_inside_a_retry_is_seen_in_the_body_too() {
    for server in &SERVERS {
        let desk = server.start().await;
        desk.script(Script::new().commit_then_lose_reply());
        server.order(&desk, KEY, "C-100").send().await.unwrap_err();
        server.place_next(&desk, OTHER_KEY).await;
        let smells = desk.suspicions();
        assert!(
            matches!(smells[..], [Suspicion::MintedInRetry { .. }]),
            "{}: {smells:?}",
            server.dialect
        );
    }
}

#[tokio::test]
async fn paypal_and_square_answer_a_repeat_with_what_the_order_is_now() {
    for dialect in [ServerDialect::PayPal, ServerDialect::Square] {
        let server = SERVERS.iter().find(|server| server.dialect == dialect).unwrap();
        let desk = server.start().await;
        server.place(&desk, KEY).await;
        let cancel = server.request(&desk, "/orders/ord-1/cancel", OTHER_KEY, json!({}));
        assert_eq!(cancel.send().await.unwrap().status(), 200);
        let now: Value = server.order(&desk, KEY, "C-100").send().await.unwrap().json().await.unwrap();
        assert_eq!(now["status"], "cancelled", "{dialect}");
    }
}

#[tokio::test]
async fn stripe_says_whether_to_try_again() {
    let stripe = &SERVERS[1];
    let desk = stripe.start().await;
    desk.script(Script::new().get_stuck().store_status(500));
    stripe.order(&desk, KEY, "C-100").send().await.unwrap_err();
    let running = stripe.order(&desk, KEY, "C-100").send().await.unwrap();
    assert_eq!(running.headers()["stripe-should-retry"], "true");
    let mismatch = stripe.order(&desk, KEY, "C-200").send().await.unwrap();
    assert_eq!(mismatch.headers()["stripe-should-retry"], "false");

    desk.script(Script::new().store_status(500));
    stripe.order(&desk, OTHER_KEY, "C-100").send().await.unwrap();
    let replayed = stripe.order(&desk, OTHER_KEY, "C-100").send().await.unwrap();
    assert_eq!(
        (replayed.status().as_u16(), &replayed.headers()["stripe-should-retry"]),
        (500, &"false".parse().unwrap())
    );
}

#[tokio::test]
async fn adyen_gives_the_key_back_and_says_what_is_transient() {
    let adyen = SERVERS.iter().find(|server| server.dialect == ServerDialect::Adyen).unwrap();
    let desk = adyen.start().await;
    desk.script(Script::new().get_stuck());
    adyen.order(&desk, KEY, "C-100").send().await.unwrap_err();
    let running = adyen.order(&desk, KEY, "C-100").send().await.unwrap();
    assert_eq!(running.headers()["transient-error"], "true");
    assert_eq!(running.headers()["idempotency-key"], KEY);
    let mismatch = adyen.order(&desk, KEY, "C-200").send().await.unwrap();
    assert_eq!(
        (mismatch.status().as_u16(), &mismatch.headers()["transient-error"]),
        (422, &"false".parse().unwrap())
    );

    // The status of "still running" is that of a refusal for good, too, which is not transient.
    desk.script(Script::new().refuse());
    for _ in 0..2 {
        let refused = adyen.order(&desk, OTHER_KEY, "C-100").send().await.unwrap();
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()["transient-error"]),
            (422, &"false".parse().unwrap())
        );
    }
}

#[tokio::test]
async fn a_request_first_sent_outside_of_the_window_is_412_and_not_executed() {
    let azure = SERVERS
        .iter()
        .find(|server| server.dialect == ServerDialect::Repeatability)
        .unwrap();
    let desk = azure.start().await;
    let send = |first: &str| {
        let order = crate::kit::plain_client().post(format!("{}/orders", desk.url()));
        order
            .header("Repeatability-Request-ID", KEY)
            .header("Repeatability-First-Sent", first)
            .body("{}")
            .send()
    };
    for (first, status) in [
        ("yesterday", 400),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 412),
        ("Sun, 6 Nov 1994 08:49:37 +0000", 400),
    ] {
        let answer = send(first).await.unwrap();
        assert_eq!(answer.headers()["repeatability-result"], "rejected");
        assert_eq!(answer.status(), status, "{first}");
    }
    assert!(desk.orders().is_empty() && desk.rows().is_empty());

    let first = now();
    let answer = send(&first).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["repeatability-result"]),
        (201, &"accepted".parse().unwrap())
    );
    assert_eq!(send(&first).await.unwrap().status(), 201);
    // The window is judged by the ledger's clock, and a record that is gone by then is not missed.
    desk.ledger().turn_clock(5 * 60 * 1000);
    assert_eq!(send(&first).await.unwrap().status(), 412);
    desk.assert_one_order_per_key();
}

#[tokio::test]
async fn a_repeatable_request_needs_a_date_and_a_guid() {
    let azure = SERVERS
        .iter()
        .find(|server| server.dialect == ServerDialect::Repeatability)
        .unwrap();
    let desk = azure.start().await;
    let undated = crate::kit::plain_client()
        .post(format!("{}/orders", desk.url()))
        .header("Repeatability-Request-ID", KEY);
    assert_eq!(undated.body("{}").send().await.unwrap().status(), 400);
    for dialect in [ServerDialect::Repeatability, ServerDialect::Worldpay] {
        let server = SERVERS.iter().find(|server| server.dialect == dialect).unwrap();
        let desk = server.start().await;
        let answer = server.order(&desk, "order-7", "C-100").send().await.unwrap();
        assert_eq!(answer.status(), 400, "{dialect}");
    }
}

#[tokio::test]
async fn square_cancels_by_key_what_is_there_and_what_is_still_to_come() {
    let square = SERVERS.iter().find(|server| server.dialect == ServerDialect::Square).unwrap();
    let desk = square.start().await;
    let unknown = square.request(&desk, "/orders/cancel", KEY, json!({})).send().await.unwrap();
    assert_eq!(unknown.status(), 200, "an unknown key is a success");
    let late = square.order(&desk, KEY, "C-100").send().await.unwrap();
    square.expect(late, (409, "/errors/0/code", "operation_not_applied")).await;
    assert!(desk.orders().is_empty());

    square.place(&desk, OTHER_KEY).await;
    let known = square.request(&desk, "/orders/cancel", OTHER_KEY, json!({})).send().await.unwrap();
    assert_eq!(known.json::<Value>().await.unwrap()["status"], "cancelled");
}

#[test]
fn a_dialect_and_a_switch_are_chosen_by_name_and_a_slip_is_told() {
    for dialect in ServerDialect::ALL {
        assert_eq!(dialect.to_string().parse(), Ok(dialect));
    }
    let error = "pay-pal".parse::<ServerDialect>().unwrap_err();
    assert_eq!(error.nearest, Some("paypal"));
    let said = error.to_string();
    assert!(ServerDialect::ALL.iter().all(|dialect| said.contains(dialect.name())), "{said}");
    assert_eq!("xyzzy".parse::<ServerDialect>().unwrap_err().nearest, None);

    let switches = [
        Unkind::Races,
        Unkind::ForgetsAfter(std::time::Duration::from_millis(1500)),
        Unkind::ScopesByCredential,
        Unkind::ValidatesFirst,
        Unkind::FailsOpen,
        Unkind::StoresServerErrors(false),
        Unkind::IgnoresMismatch,
        Unkind::CurrentState,
        Unkind::InProgressAs(208),
    ];
    for switch in switches {
        assert_eq!(switch.to_string().parse(), Ok(switch));
    }
    assert_eq!("race".parse::<Unkind>().unwrap_err().nearest, Some("races"));
    for no_value in ["forgets-after", "forgets-after=soon", "races=1", "in-progress-as"] {
        assert!(no_value.parse::<Unkind>().is_err(), "{no_value}");
    }
}

impl Server {
    async fn start(&self) -> Desk {
        Desk::builder().dialect(self.dialect).start().await.unwrap()
    }

    /// An order of that customer under this key, in this server's way. An empty key is none.
    fn order(&self, desk: &Desk, key: &str, customer: &str) -> RequestBuilder {
        self.request(desk, "/orders", key, json!({"customer": customer}))
    }

    fn request(&self, desk: &Desk, path: &str, key: &str, mut body: Value) -> RequestBuilder {
        let mut request = crate::kit::plain_client().post(format!("{}{path}", desk.url()));
        match self.place.strip_prefix("body:") {
            _ if key.is_empty() => {}
            Some(member) => body[member] = json!(key),
            None => request = request.header(self.place, key),
        }
        if self.dialect == ServerDialect::Repeatability {
            request = request.header("Repeatability-First-Sent", now());
        }
        request.json(&body)
    }

    async fn place(&self, desk: &Desk, key: &str) {
        self.expect(self.order(desk, key, "C-100").send().await.unwrap(), FIRST).await;
    }

    async fn place_next(&self, desk: &Desk, key: &str) {
        self.expect(self.order(desk, key, "C-100").send().await.unwrap(), (201, "/order_id", "ord-2"))
            .await;
    }

    async fn expect(&self, answer: Response, (status, place, wanted): Said) {
        let said = answer.status().as_u16();
        let body = answer.text().await.unwrap();
        let dialect = self.dialect;
        assert_eq!(said, status, "{dialect}: {body}");
        if place == "xml" {
            assert!(body.contains(wanted), "{dialect}: {body}");
            return;
        }
        let body: Value = serde_json::from_str(&body).unwrap();
        let there = match body.pointer(place) {
            Some(Value::String(text)) => text.clone(),
            other => other.map(Value::to_string).unwrap_or_default(),
        };
        assert_eq!(there, wanted, "{dialect}: {body}");
    }
}

trait Get {
    async fn get(&self, path: &str) -> Response;
}

impl Get for Desk {
    async fn get(&self, path: &str) -> Response {
        crate::kit::plain_client()
            .get(format!("{}{path}", self.url()))
            .send()
            .await
            .unwrap()
    }
}

/// This moment as an HTTP date.
fn now() -> String {
    jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
