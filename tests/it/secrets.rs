//! Nothing that is said of an order holds a secret or its contents: not a log line of any crate, no `Debug`, no error. Contents stand in the
//! journal and on the wire, credentials on the wire only.

use crate::{
    bare::Door,
    kit::{Folder, brisk},
    tape::{Entry, Syncing, Tape},
};
use serde::Serialize;
use std::{
    error::Error as _,
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex, PoisonError},
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};
use uketsuke::{
    Actor, Api, Credential, Error, Operation, OrderClient, OrderReceipt, Origin, Outcome, PlaceOrder, Plain, Route, ToolReply,
    testkit::{Desk, Reply, Script},
};

const TOKEN: &str = "tok_SEKRET";
const CUSTOMER: &str = "anna@example.com";
const QUERY: &str = "query_SEKRET";
const COOKIE: &str = "cookie_SEKRET";
const PAGE: &str = "page_SEKRET";
const SECRETS: [&str; 5] = [TOKEN, CUSTOMER, QUERY, COOKIE, PAGE];

/// Hears every span and event of every crate, at every level; and all of `log`, which reqwest speaks to.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<String>>);

impl Ear {
    fn hear(&self, what: impl FnOnce(&mut String)) {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn heard(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Written<'a>(&'a mut String);

impl Visit for Written<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _written = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.hear(|text| {
            text.push_str(&format!("\nspan {}", span.metadata().name()));
            span.record(&mut Written(text));
        });
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.hear(|text| values.record(&mut Written(text)));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.hear(|text| {
            text.push_str(&format!("\n{} {}", event.metadata().level(), event.metadata().target()));
            event.record(&mut Written(text));
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl log::Log for Ear {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.hear(|text| text.push_str(&format!("\nlog {} {}: {}", record.level(), record.target(), record.args())));
    }

    fn flush(&self) {}
}

/// An order with a secret in its query, as some servers want one.
#[derive(Clone, Debug, Serialize)]
struct Ask {
    customer: &'static str,
}

impl Operation for Ask {
    type Receipt = OrderReceipt;
    const NAME: &'static str = "ask";

    fn route(&self) -> Route {
        Route::post("orders").query("key", QUERY)
    }
}

/// Everything that can be shown of a value that is given out.
fn shown(what: &(impl Debug + ?Sized)) -> String {
    format!("{what:?}\n{what:#?}\n")
}

fn told<R: Debug + Serialize>(result: &Result<Outcome<R>, Error>) -> String {
    let mut text = shown(result);
    let reply = ToolReply::of(result);
    text += &format!("{} {}\n", reply.message, reply.next_step);
    match result {
        Ok(outcome) => text += &format!("{}\n", outcome.next_step()),
        Err(error) => {
            text += &format!("{error} {} {:?} {:?}\n", error.next_step(), error.existing(), error.changes());
            let mut source = error.source();
            while let Some(cause) = source {
                text += &format!("{cause} {cause:?}\n");
                source = cause.source();
            }
        }
    }
    text
}

/// BUG-80: whatever is shown or logged, at every level, by every crate. One ear hears a whole process, so this test is its own child.
#[tokio::test]
async fn debug_and_logs_hold_no_secret() {
    const INSIDE: &str = "UKETSUKE_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "secrets::debug_and_logs_hold_no_secret", "--nocapture"]);
        let output = child.env(INSIDE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let ear = Ear::default();
    tracing::subscriber::set_global_default(ear.clone()).unwrap();
    log::set_logger(Box::leak(Box::new(ear.clone()))).unwrap();
    log::set_max_level(log::LevelFilter::Trace);

    let shown = every_way_to_end().await + &every_way_to_be_refused().await;
    let heard = ear.heard();
    for secret in SECRETS {
        let line = shown.lines().chain(heard.lines()).find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is shown");
    }
    // The ear was no deaf one: it heard us, and the HTTP client below us.
    for sound in [
        "attempt ended",
        "span order",
        "log DEBUG reqwest",
        "the journal could not write down",
    ] {
        assert!(heard.contains(sound), "not heard: {sound}\n{heard}");
    }
}

/// Runs an order to each kind of end, and returns all that was shown of it.
async fn every_way_to_end() -> String {
    let cookie = |reply: Reply| reply.header("Set-Cookie", &format!("session={COOKIE}"));
    let problem = |status| Reply::problem(status, "out_of_stock", &format!("{CUSTOMER} {PAGE}"));
    let page = Reply::status(200).body("text/html", format!("<html>{PAGE} {CUSTOMER}</html>"));
    let other = Reply::json(201, serde_json::json!({"customer": PAGE, "order_id": "ord-1"}));
    let scripts = [
        Script::new().then_ok(),
        Script::new().commit_then_lose_reply().then_ok(),
        Script::new().commit_then_lose_reply().times(4),
        Script::new().reply(cookie(problem(422))),
        Script::new().lose_request().reply(cookie(problem(422))),
        Script::new().reply(cookie(problem(401))),
        Script::new().reply(cookie(problem(500))).times(4),
        Script::new().store_reply(problem(500)),
        Script::new().reply(cookie(page)),
        Script::new().reply(cookie(other)),
        Script::new().reply(cookie(Reply::json(201, serde_json::json!({"order_id": 7})))),
        Script::new().redirect(307, &format!("http://127.0.0.1:1/?{PAGE}")),
        Script::new().reply(Reply::json(202, serde_json::json!({"for": CUSTOMER})).retry_after("9999")),
    ];
    let mut text = String::new();
    for script in scripts {
        let (desk, folder) = (Desk::start().await, Folder::new());
        desk.script(script);
        text += &one_order(&folder, &desk.url()).await;
        assert!(!desk.requests().is_empty(), "every one of these was sent");
        let log = std::fs::read_to_string(folder.log()).unwrap();
        assert!(log.contains(CUSTOMER), "the journal keeps what is sent");
        for secret in [TOKEN, COOKIE] {
            assert!(!log.contains(secret), "{secret} stands in the journal");
        }
        assert_eq!(desk.requests()[0].header("authorization"), Some("Bearer tok_SEKRET"));
    }
    let (folder, door) = (Folder::new(), Door::closed());
    text += &one_order(&folder, &door.url()).await;

    // A disk that fails in the middle.
    let (desk, folder, tape) = (Desk::start().await, Folder::new(), Tape::default());
    desk.script(Script::new().refuse());
    let fails = |list: &[Entry]| match list.iter().any(|e| e.is_record("settled", None)) {
        true => Syncing::Fails,
        false => Syncing::Honest,
    };
    let journal = tape.journal(&folder.path(), fails).await;
    let api = brisk(&desk.url()).bearer(TOKEN).build().unwrap();
    let client = OrderClient::new(journal, api, Actor::agent("test-agent"));
    text += &told(&client.submit(Origin::mail("<1@example.com>"), &Ask { customer: CUSTOMER }).await);
    text
}

/// One order at this address, a further call, one with other contents, one without an origin, and resume.
async fn one_order(folder: &Folder, url: &str) -> String {
    let builder = brisk(url).bearer(TOKEN);
    let mut text = shown(&builder);
    let api = builder.build().unwrap();
    text += &shown(&api);
    let journal = folder.journal().await;
    text += &shown(&journal);
    let client = OrderClient::builder(journal, api, Actor::agent("test-agent"));
    text += &shown(&client);
    let client = client.build();
    text += &shown(&client);

    let order = Ask { customer: CUSTOMER };
    text += &shown(&order.route());
    let submit = client.submit(Origin::mail("<1@example.com>"), &order);
    text += &shown(&submit);
    text += &told(&submit.await);
    text += &told(&client.submit(Origin::mail("<1@example.com>"), &order).await);
    text += &told(&client.submit(Origin::unknown(), &order).await);
    let placed = PlaceOrder::new(CUSTOMER).item("SKU-1", 2).note(PAGE);
    text += &shown(&placed);
    for quantity in [1, 2] {
        let other = PlaceOrder::new(CUSTOMER).item("SKU-1", quantity);
        text += &told(&client.submit(Origin::mail("<2@example.com>"), &other).await);
    }
    let resumption = client.resume_pending().await.unwrap();
    text += &shown(&resumption);
    for resumed in resumption {
        text += &told(&client.known(resumed.key).await.map(|known| known.unwrap()));
    }
    text
}

/// What is refused before it is written, with a secret in the very place that is wrong.
async fn every_way_to_be_refused() -> String {
    let mut text = String::new();
    for url in [
        format!("https://user:{TOKEN}@orders.example.com"),
        format!("http://127.0.0.1:1/?key={QUERY}"),
        format!("http://127.0.0.1:1/#{QUERY}"),
        format!("ftp://{TOKEN}"),
        TOKEN.to_owned(),
    ] {
        let builder = Api::builder(url.as_str()).plain_http(Plain::Anywhere);
        text += &shown(&builder);
        let error = builder.build().unwrap_err();
        text += &format!("{error} {error:?} {:?}\n", error.what());
        text += &told::<()>(&Err(error.into()));
    }
    for token in [format!("{TOKEN}\n"), format!("{TOKEN} {CUSTOMER}"), format!("{TOKEN}\0")] {
        let error = Api::builder("http://127.0.0.1:1").bearer(&token).build().unwrap_err();
        text += &format!("{error} {error:?}\n");
        let error = Credential::header("x-api-key", format!(" {token}")).unwrap_err();
        text += &format!("{error} {error:?}\n");
    }
    text += &shown(&Credential::bearer(TOKEN).unwrap());
    text += &shown(&Credential::header("x-api-key", TOKEN).unwrap());
    for json in [
        format!(r#"{{"customer":"{CUSTOMER}","items":"{PAGE}"}}"#),
        format!(r#"{{"customer":"{CUSTOMER}","items":[{{"sku":"{PAGE}","quantity":"{PAGE}"}}]}}"#),
        format!(r#"{{"customer":"{CUSTOMER}","items":[],"note":"{PAGE}"}}"#),
        format!(r#"{{"customer":"{CUSTOMER} {PAGE}"#),
    ] {
        let error = PlaceOrder::from_json(json.as_bytes()).unwrap_err();
        text += &format!("{error} {error:?}\n");
    }
    text
}
