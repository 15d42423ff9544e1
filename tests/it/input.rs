//! What can never be right is refused by name, before anything is written or sent.

use crate::kit::{Folder, brisk, order, refused_field};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;
use uketsuke::{
    Actor, Api, ApiBuilder, Credential, Date, Dialect, Effect, ErrorKind, IdempotencyKey, Invalid, Journal, JsonOrder, KeyPlace, NextStep,
    Operation, OrderClient, Origin, Pacing, PlaceOrder, Route, Timeouts, TraceId, journal::store::StoreErrorKind, testkit::Desk,
};

/// Header breakers, each of which would forge a line or end one early.
const BREAKS: [&str; 5] = ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "a\u{7f}"];

/// An order of any shape, at any route.
struct Any<T>(Route, T);

impl<T: Serialize> Serialize for Any<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.1.serialize(serializer)
    }
}

impl<T: Serialize> Operation for Any<T> {
    type Receipt = Value;
    const NAME: &'static str = "any";

    fn route(&self) -> Route {
        self.0.clone()
    }
}

#[derive(Serialize)]
struct Priced {
    lines: Vec<f64>,
}

fn orders() -> Route {
    Route::post("orders")
}

fn nested(levels: usize) -> Value {
    (1..levels).fold(json!([]), |inner, _| json!([inner]))
}

/// BUG-47, BUG-81: the whole table: each of them names its field, costs no request and leaves the journal as it is, byte for byte.
#[tokio::test]
async fn all_bad_input_writes_and_sends_nothing() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let before = settled_log(&folder).await;
    let mail = || Origin::mail("<1@example.com>");

    bad(&client, mail(), &PlaceOrder::new("").item("A", 1), "customer").await;
    bad(&client, mail(), &PlaceOrder::new(" \t").item("A", 1), "customer").await;
    bad(&client, mail(), &PlaceOrder::new("C-100"), "items").await;
    bad(&client, mail(), &order().item("B", 0), "items[1].quantity").await;
    bad(&client, mail(), &order().item(" ", 1), "items[1].sku").await;

    // Numbers that readers disagree on, and nesting that only some survive.
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 9_007_199_254_740_993.0, 1e300] {
        let lines = vec![1.0, number];
        bad(&client, mail(), &Any(orders(), Priced { lines }), "lines[1]").await;
    }
    for number in [
        json!(9_007_199_254_740_992_u64),
        json!(-9_007_199_254_740_992_i64),
        json!(u64::MAX),
        json!(i64::MIN),
    ] {
        bad(&client, mail(), &JsonOrder::new(orders(), json!({"qty": number})), "qty").await;
    }
    bad(
        &client,
        mail(),
        &Any(orders(), json!({"a": {"b": u128::from(u64::MAX) as f64}})),
        "a.b",
    )
    .await;
    let deep = refused_at_submit(&client, mail(), &JsonOrder::new(orders(), nested(65))).await;
    assert!(deep.starts_with("order[0][0]"), "{deep}");

    // Whatever becomes a header, a path or a name of an order.
    for text in BREAKS {
        bad(&client, mail(), &Any(orders().header("prefer", text), 1), "header prefer").await;
        bad(&client, mail(), &Any(orders().if_match(text), 1), "header if-match").await;
        bad(&client, mail(), &Any(orders().header(text, "v"), 1), "header name").await;
        bad(&client, Origin::mail(text), &order(), "origin.id").await;
        bad(&client, Origin::custom(text, "1"), &order(), "origin.scheme").await;
        bad(&client, mail().line(text), &order(), "origin.line").await;
        bad(&client, Origin::distinct(text), &order(), "origin.why").await;
    }
    for name in [
        "Idempotency-Key",
        "authorization",
        "X-Request-Id",
        "x-attempt",
        "traceparent",
        "Content-Length",
        "host",
        "",
        "é",
        "a b",
    ] {
        bad(&client, mail(), &Any(orders().header(name, "v"), 1), "header name").await;
    }
    // Twice the same name: some servers read the first line, some the last.
    bad(
        &client,
        mail(),
        &Any(orders().header("prefer", "a").header("Prefer", "b"), 1),
        "header prefer",
    )
    .await;
    for segment in ["", ".", ".."] {
        bad(&client, mail(), &Any(orders().segment(segment), 1), "path segment").await;
    }
    bad(&client, mail(), &Any(Route::post(""), 1), "route.path").await;

    for long in [orders().query("q", "x".repeat(70_000)), orders().segment("x".repeat(70_000))] {
        bad(&client, mail(), &Any(long, 1), "route").await;
    }

    // Blank names.
    for blank in ["", " ", "<>", " < > "] {
        bad(&client, Origin::mail(blank), &order(), "origin.id").await;
    }
    bad(&client, Origin::custom("ticket", " "), &order(), "origin.id").await;
    bad(&client, Origin::custom("", "1"), &order(), "origin.scheme").await;
    bad(&client, Origin::distinct(" "), &order(), "origin.why").await;
    bad(&client, mail().line(""), &order(), "origin.line").await;
    for blank in ["", " ", "\t\n"] {
        bad(&client.acting_as(Actor::agent(blank)), mail(), &order(), "actor.agent").await;
    }

    // A key that nobody knows is asked about in vain.
    let stranger: IdempotencyKey = "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap();
    let error = client.resume(stranger).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::InvalidInput, Effect::Possible),
        "{error}"
    );
    assert!(client.known(stranger).await.unwrap().is_none());

    assert!(desk.requests().is_empty(), "{}", desk.story());
    assert_eq!(std::fs::read(folder.log()).unwrap(), before, "the journal changed");
    // Nothing of all this is held against the mail: its right order goes out.
    assert_eq!(client.submit(mail(), &order()).await.unwrap().effect(), Effect::Certain);
    desk.assert_one_order_per_key();
}

/// The log once its writer has nothing more to say of its own accord.
async fn settled_log(folder: &Folder) -> Vec<u8> {
    for _ in 0..1000 {
        if !folder.events("witness").is_empty() {
            return std::fs::read(folder.log()).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("an idle journal leaves a witness: {:?}", folder.lines());
}

async fn bad<O: Operation<Receipt: 'static>>(client: &OrderClient, origin: Origin, order: &O, field: &str) {
    let found = refused_at_submit(client, origin, order).await;
    assert_eq!(found, field);
}

async fn refused_at_submit<O: Operation<Receipt: 'static>>(client: &OrderClient, origin: Origin, order: &O) -> String {
    let Err(error) = client.submit(origin, order).await else {
        panic!("{} was not refused", O::NAME)
    };
    assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidInput, Effect::None), "{error}");
    assert_eq!((error.key(), error.next_step()), (None, NextStep::FixInput), "{error}");
    refused_field(&error)
}

/// Text that is no order is refused where it is read.
#[test]
fn bytes_that_are_no_order_are_refused_by_field() {
    let place = |json: &str| PlaceOrder::from_json(json.as_bytes()).unwrap_err().field;
    let item = r#"{"sku":"A","quantity":1}"#;
    for (json, field) in [
        (format!(r#"{{"customer":"","items":[{item}]}}"#), "customer"),
        (r#"{"customer":"C","items":[]}"#.to_owned(), "items"),
        (
            r#"{"customer":"C","items":[{"sku":"A","quantity":0}]}"#.to_owned(),
            "items[0].quantity",
        ),
        (
            r#"{"customer":"C","items":[{"sku":"A","quantity":-1}]}"#.to_owned(),
            "items[0].quantity",
        ),
        (
            r#"{"customer":"C","items":[{"sku":"A","quantity":1.5}]}"#.to_owned(),
            "items[0].quantity",
        ),
        (
            r#"{"customer":"C","items":[{"sku":"A","quantity":4294967296}]}"#.to_owned(),
            "items[0].quantity",
        ),
        (format!(r#"{{"customer":"C","items":[{item}],"approved":true}}"#), "approved"),
        (
            r#"{"customer":"C","items":[{"sku":"A","quantity":1,"qty":2}]}"#.to_owned(),
            "items[0].qty",
        ),
        (format!(r#"{{"customer":"C","customer":"D","items":[{item}]}}"#), "customer"),
        (
            r#"{"customer":"C","items":[{"sku":"A","quantity":1,"quantity":9}]}"#.to_owned(),
            "items[0].quantity",
        ),
        (format!(r#"{{"items":[{item}]}}"#), "customer"),
        (
            format!(r#"{{"customer":"C","items":[{item}],"deliver_by":"2026-02-30"}}"#),
            "deliver_by",
        ),
        (format!(r#"{{"customer":"C","items":[{item}]}} {{}}"#), "order"),
        (String::new(), "order"),
        (r#"{"customer":"C""#.to_owned(), "order"),
    ] {
        assert_eq!(place(&json), field, "{json}");
    }
    let any = |json: &str| JsonOrder::from_json(orders(), json.as_bytes()).map(drop).map_err(|e| e.field);
    assert_eq!(any(r#"{"qty":1,"qty":9}"#), Err("qty".to_owned()));
    assert_eq!(any(r#"{"a":[{"qty":9007199254740992}]}"#), Err("a[0].qty".to_owned()));
    assert_eq!(any(r#"{"qty":-9007199254740992}"#), Err("qty".to_owned()));
    assert_eq!(
        any(r#"{"qty":1e400}"#),
        Err("order".to_owned()),
        "no reader agrees on it, so it is no JSON"
    );
    assert_eq!(any(r#"{"qty":NaN}"#), Err("order".to_owned()));
    assert!(any(&"[".repeat(65)).is_err());
    assert!(
        any(&format!("{}{}", "[".repeat(65), "]".repeat(65)))
            .unwrap_err()
            .starts_with("order[0][0]")
    );
    // The edges that are still right.
    assert_eq!(any(r#"{"qty":9007199254740991,"min":-9007199254740991}"#), Ok(()));
    assert_eq!(any(&format!("{}{}", "[".repeat(64), "]".repeat(64))), Ok(()));
    assert!("2026-02-30".parse::<Date>().is_err());
    for text in BREAKS {
        assert!(text.parse::<IdempotencyKey>().is_err(), "{text:?}");
        assert!(text.parse::<TraceId>().is_err(), "{text:?}");
        assert!(TraceId::from_traceparent(text).is_err(), "{text:?}");
    }
}

/// BUG-32: a setting that can never be right is refused when the api is built, by name, and without being shown.
#[test]
fn a_setting_that_can_never_be_right_is_refused_when_the_api_is_built() {
    let refused = |builder: ApiBuilder| -> Invalid {
        let error = builder.build().unwrap_err();
        let told = uketsuke::Error::from(error.clone());
        assert_eq!(
            (told.kind(), told.effect(), told.next_step()),
            (ErrorKind::InvalidConfig, Effect::None, NextStep::FixSetup)
        );
        assert_eq!(refused_field(&told), error.what().field);
        assert!(!format!("{error} {error:?} {told} {told:?}").contains("SEKRET"), "{error}");
        error.what().clone()
    };
    for url in [
        "",
        "orders.example.com",
        "ftp://127.0.0.1/",
        "file:///orders",
        "http://",
        "http://orders.example.com/v1",
        "http://10.0.0.1",
        "http://0.0.0.0",
        "http://127.0.0.1.example.com",
        "http://SEKRET@127.0.0.1",
        "http://user:SEKRET@127.0.0.1",
        "http://127.0.0.1/?key=SEKRET",
        "http://127.0.0.1/#SEKRET",
    ] {
        assert_eq!(refused(Api::builder(url)).field, "base URL", "{url}");
    }
    let here = || brisk("http://127.0.0.1:1");
    let limits = |connect: u64, attempt: u64, total: u64| {
        let mut timeouts = Timeouts::default();
        [timeouts.connect, timeouts.attempt, timeouts.total] = [connect, attempt, total].map(Duration::from_millis);
        here().timeouts(timeouts)
    };
    assert_eq!(refused(limits(500, 500, 5000)).field, "timeouts.connect");
    assert_eq!(refused(limits(501, 500, 5000)).field, "timeouts.connect");
    assert_eq!(refused(limits(0, 500, 5000)).field, "timeouts.connect");
    assert_eq!(refused(limits(100, 500, 400)).field, "timeouts.attempt");
    let pacing = |change: fn(&mut Pacing)| {
        let mut pacing = Pacing::default();
        change(&mut pacing);
        here().pacing(pacing)
    };
    assert_eq!(refused(pacing(|p| p.attempts = 0)).field, "pacing.attempts");
    assert_eq!(refused(pacing(|p| p.base = Duration::ZERO)).field, "pacing.base");
    assert_eq!(refused(pacing(|p| p.cap = p.base / 2)).field, "pacing.base");
    assert_eq!(refused(here().name(" ")).field, "api name");
    assert_eq!(
        refused(here().dialect(Dialect::ietf().max_transit(Duration::from_millis(1)))).field,
        "dialect.max_transit"
    );
    assert_eq!(
        refused(here().dialect(Dialect::ietf().retention(Duration::from_secs(60)))).field,
        "dialect.retention"
    );
    for text in BREAKS.into_iter().chain(["", " "]) {
        let token = format!("SEKRET{text} ");
        assert_eq!(refused(here().bearer(&token)).field, "credential");
        assert_eq!(Credential::header("x-api-key", token).unwrap_err().field, "credential");
        assert_eq!(Credential::header(text, "SEKRET").unwrap_err().field, "credential");
        // The key's own header is a header too.
        for place in [KeyPlace::RawHeader(text.to_owned()), KeyPlace::QuotedHeader(text.to_owned())] {
            assert_eq!(refused(here().dialect(Dialect::ietf().key(place))).field, "dialect.key", "{text:?}");
        }
    }
    // Nor may the key take the place of a header that has another job.
    for taken in ["Authorization", "content-length", "Host", "X-Request-Id", "traceparent"] {
        let place = KeyPlace::RawHeader(taken.to_owned());
        assert_eq!(refused(here().dialect(Dialect::ietf().key(place))).field, "dialect.key", "{taken}");
    }
}

/// BUG-61: a journal can't be where a file is, and says so; what stands there is left as it is.
#[tokio::test]
async fn a_journal_below_a_file_is_refused_and_leaves_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-file");
    std::fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("journal"), file.join("deeper/journal")] {
        let error = Journal::open(&path).await.unwrap_err();
        assert_eq!((error.kind(), error.key()), (StoreErrorKind::BadPath, None), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        let told = uketsuke::Error::from(error);
        assert_eq!((told.kind(), told.next_step()), (ErrorKind::Journal, NextStep::FixSetup), "{told}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}
