//! Each vendor's dialect against the desk that plays the same vendor, situation by situation. The two sides share no table: what each knows of
//! the vendor was written down twice.

use crate::{
    kit::{Folder, order, plain_client},
    props::{HOUR, Hands, NOBODY, actor, mail, single},
};
use serde_json::{Value, json};
use std::time::Duration;
use uketsuke::{
    ApiBuilder, CommitBefore5xx, Dialect, Duplicates, Effect, Error, ErrorKind, Journal, JsonOrder, OrderClient, Outcome, Reading, Route,
    testkit::{Desk, Reply, Script, ServerDialect},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// One vendor, on both sides.
pub(crate) struct Pair {
    pub(crate) server: ServerDialect,
    preset: fn() -> Dialect,
    /// Header, or `body:` and the member, where the vendor looks for a key.
    place: &'static str,
    /// How long the vendor says it keeps a key.
    kept: Option<Duration>,
    repeat: Repeat,
    /// The order is found by its key, by this request.
    lookup: Option<&'static str>,
    /// Whether a 500 is stored.
    pub(crate) keeps_500: bool,
}

/// What a repeat of an order that stands is told.
#[derive(Clone, Copy, PartialEq)]
enum Repeat {
    /// The first answer, and that it is that.
    Marked,
    /// The first answer, or the order as it is now.
    Unmarked { current: bool },
    /// An error.
    Refused,
}

const UNMARKED: Repeat = Repeat::Unmarked { current: false };
const CURRENT: Repeat = Repeat::Unmarked { current: true };

pub(crate) fn pairs() -> Vec<Pair> {
    use ServerDialect::*;
    let pair = |server, preset, place, kept: Option<u32>, repeat| Pair {
        server,
        preset,
        place,
        kept: kept.map(|minutes| Duration::from_secs(60).saturating_mul(minutes)),
        repeat,
        lookup: None,
        keeps_500: false,
    };
    const KEY: &str = "Idempotency-Key";
    let hours = |hours: u32| Some(hours * 60);
    vec![
        Pair {
            keeps_500: true,
            ..pair(Ietf, Dialect::ietf, KEY, hours(24), Repeat::Marked)
        },
        Pair {
            keeps_500: true,
            ..pair(Stripe, Dialect::stripe, KEY, hours(24), Repeat::Marked)
        },
        pair(GoCardless, Dialect::gocardless, KEY, None, Repeat::Refused),
        Pair {
            keeps_500: true,
            lookup: Some("/orders?idempotency_key={key}"),
            ..pair(Increase, Dialect::increase, KEY, None, Repeat::Marked)
        },
        pair(Checkout, Dialect::checkout, "Cko-Idempotency-Key", hours(24), UNMARKED),
        pair(Square, Dialect::square, "body:idempotency_key", None, CURRENT),
        pair(PayPal, Dialect::paypal, "PayPal-Request-Id", hours(6), CURRENT),
        pair(Adyen, Dialect::adyen, KEY, hours(7 * 24), UNMARKED),
        Pair {
            lookup: Some("/orders:by_client_order_id?client_order_id={key}"),
            ..pair(Alpaca, Dialect::alpaca, "body:client_order_id", None, Repeat::Refused)
        },
        pair(Coinbase, Dialect::coinbase, "body:client_order_id", None, UNMARKED),
        Pair {
            lookup: Some("/orders?externalId={key}"),
            ..pair(Toast, Dialect::toast, "body:externalId", None, Repeat::Refused)
        },
        pair(Repeatability, Dialect::repeatability, "Repeatability-Request-ID", Some(5), UNMARKED),
        Pair {
            keeps_500: true,
            ..pair(Worldpay, Dialect::worldpay, KEY, None, UNMARKED)
        },
    ]
}

fn one(server: ServerDialect) -> Pair {
    pairs().into_iter().find(|pair| pair.server == server).unwrap()
}

impl Pair {
    pub(crate) async fn desk(&self) -> Desk {
        Desk::builder().dialect(self.server).start().await.unwrap()
    }

    /// The vendor's preset, with a day where the vendor says nothing.
    pub(crate) fn dialect(&self) -> Dialect {
        let dialect = (self.preset)();
        match self.kept {
            Some(_) => dialect,
            None => dialect.retention(DAY),
        }
    }

    fn client(&self, journal: &Journal, url: &str) -> OrderClient {
        client(journal, single(url).dialect(self.dialect()))
    }

    /// Whether the order is found by its key alone.
    pub(crate) fn is_found_by_key(&self) -> bool {
        self.lookup.is_some()
    }

    /// The requests that a repeat of a lost reply comes to.
    fn repeat_and_lookup(&self) -> usize {
        match self.repeat {
            Repeat::Refused => 3,
            Repeat::Marked | Repeat::Unmarked { .. } => 2,
        }
    }

    /// The key where the vendor has it, with other contents.
    async fn takes_the_key(&self, desk: &Desk, key: &str) -> u16 {
        let mut body = json!({"customer": "C-999", "items": [{"sku": "SKU-9", "quantity": 9}]});
        let mut request = plain_client().post(format!("{}/orders", desk.url()));
        match self.place.strip_prefix("body:") {
            Some(member) => body[member] = json!(key),
            None => request = request.header(self.place, key),
        }
        if self.server == ServerDialect::Repeatability {
            let now = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            request = request.header("Repeatability-First-Sent", now);
        }
        request.json(&body).send().await.unwrap().status().as_u16()
    }
}

/// One attempt a call, and one name whatever the address.
fn client(journal: &Journal, api: ApiBuilder) -> OrderClient {
    OrderClient::new(journal.clone(), api.name("shop").build().unwrap(), actor())
}

/// What was told, in a line: the outcome or the kind of error, and the order's effect.
fn told<R: std::fmt::Debug>(result: &Result<Outcome<R>, Error>) -> String {
    match result {
        Ok(outcome) => {
            let what = match outcome {
                Outcome::Succeeded(receipt) if receipt.replayed => "succeeded, replayed".to_owned(),
                Outcome::Succeeded(_) => "succeeded".to_owned(),
                Outcome::Rejected(_) => "rejected".to_owned(),
                Outcome::NeedsReview(review) => format!("review {:?}", review.reason),
                other => format!("{other:?}"),
            };
            format!("{what}: {:?}", outcome.effect())
        }
        Err(error) => format!("{:?}: {:?}", error.kind(), error.effect()),
    }
}

fn in_doubt(effect: Effect) -> String {
    format!("{:?}: {effect:?}", ErrorKind::InDoubt)
}

/// A clock that is right, until it is turned.
fn clock() -> Hands {
    use uketsuke::Clock as _;
    let hands = Hands::new();
    let wrong_by = jiff::Timestamp::now().as_millisecond() - hands.now().as_millis();
    hands.turn(wrong_by);
    hands
}

#[test]
fn every_vendor_that_the_desk_plays_has_its_preset() {
    let servers: Vec<ServerDialect> = pairs().iter().map(|pair| pair.server).collect();
    assert_eq!(servers, ServerDialect::ALL);
    for pair in pairs() {
        assert_eq!(pair.dialect().name(), pair.server.name());
    }
}

#[tokio::test]
async fn a_preset_without_a_published_retention_asks_for_it() {
    for pair in pairs() {
        let built = single(NOBODY).dialect((pair.preset)()).build();
        assert_eq!(built.is_ok(), pair.kept.is_some(), "{}", pair.server);
        if let Err(error) = built {
            let error = error.to_string();
            assert!(error.contains("dialect.retention") && error.contains(pair.server.name()), "{error}");
        }
    }
}

#[tokio::test]
async fn a_first_order_is_one_order_with_its_key_where_its_server_looks_for_it() {
    for pair in pairs() {
        let (desk, folder) = (pair.desk().await, Folder::new());
        let result = pair.client(&folder.journal().await, &desk.url()).submit(mail(1), &order()).await;
        assert_eq!(told(&result), "succeeded: Certain", "{}\n{}", pair.server, desk.story());
        assert_eq!(desk.keys(), [result.unwrap().key().to_string()], "{}", pair.server);
        assert_eq!((desk.orders().len(), desk.requests().len()), (1, 1), "{}", pair.server);
        let body: Value = serde_json::from_slice(&desk.requests()[0].body).unwrap();
        match pair.place.strip_prefix("body:") {
            Some(member) => assert_eq!(body[member], desk.keys()[0]),
            None => assert_eq!(desk.requests()[0].headers_named(pair.place), [&desk.keys()[0]]),
        }
        desk.assert_one_order_per_key();
        desk.assert_nothing_suspicious();
    }
}

#[tokio::test]
async fn a_lost_reply_is_one_order_and_a_success_at_every_server() {
    for pair in pairs() {
        for by_resume in [false, true] {
            let (desk, folder) = (pair.desk().await, Folder::new());
            let client = pair.client(&folder.journal().await, &desk.url());
            desk.script(Script::new().commit_then_lose_reply().then_ok());
            let lost = client.submit(mail(1), &order()).await;
            assert_eq!(told(&lost), in_doubt(Effect::Possible), "{}", pair.server);
            let key = lost.unwrap_err().key().unwrap();
            let found = match by_resume {
                true => told(&client.resume(key).await),
                false => told(&client.submit(mail(1), &order()).await),
            };
            let wanted = match pair.repeat {
                Repeat::Unmarked { .. } => "succeeded: Certain",
                Repeat::Marked | Repeat::Refused => "succeeded, replayed: Certain",
            };
            assert_eq!(found, wanted, "{}\n{}", pair.server, desk.story());
            assert_eq!(desk.keys(), [key.to_string()]);
            assert_eq!(desk.requests().len(), pair.repeat_and_lookup(), "{}\n{}", pair.server, desk.story());
            assert_eq!(desk.orders().len(), 1, "{}", pair.server);
            desk.assert_one_order_per_key();
            desk.assert_nothing_suspicious();
        }
    }
}

#[tokio::test]
async fn an_order_that_still_runs_is_waited_for_and_is_one_order_when_it_is_done() {
    for pair in pairs() {
        let (desk, folder) = (pair.desk().await, Folder::new());
        let client = pair.client(&folder.journal().await, &desk.url());
        desk.script(Script::new().get_stuck());
        let stuck = client.submit(mail(1), &order()).await;
        assert_eq!(told(&stuck), in_doubt(Effect::Possible), "{}", pair.server);
        for _ in 0..2 {
            let running = client.submit(mail(1), &order()).await;
            assert_eq!(told(&running), "StillProcessing: Possible", "{}\n{}", pair.server, desk.story());
        }
        assert!(desk.orders().is_empty());
        desk.finish(&stuck.unwrap_err().key().unwrap().to_string()).unwrap();
        let done = client.submit(mail(1), &order()).await;
        assert_eq!(
            done.as_ref().map(Outcome::effect).ok(),
            Some(Effect::Certain),
            "{} {done:?}",
            pair.server
        );
        assert_eq!((desk.orders().len(), desk.keys().len()), (1, 1), "{}", pair.server);
        desk.assert_one_order_per_key();
        desk.assert_nothing_suspicious();
    }
}

#[tokio::test]
async fn a_key_with_other_contents_is_for_a_person_at_every_server() {
    use ServerDialect::*;
    for pair in pairs() {
        let (desk, folder) = (pair.desk().await, Folder::new());
        let journal = folder.journal().await;
        // The order has its key before the desk hears of it, so that a stranger can take the key.
        let unsent = pair.client(&journal, NOBODY).submit(mail(1), &order()).await.unwrap_err();
        assert_eq!((unsent.kind(), unsent.effect()), (ErrorKind::NotSent, Effect::None));
        let key = unsent.key().unwrap().to_string();
        assert_eq!(pair.takes_the_key(&desk, &key).await, 201, "{}", pair.server);

        let client = pair.client(&journal, &desk.url());
        let wanted = match pair.server {
            // The other order is shown, or found, and compared.
            GoCardless | Alpaca | Coinbase | Toast => "review OtherOrderReturned: Possible",
            // It says an error, of which nobody publishes the meaning.
            Worldpay => "review ServerUncertain: Possible",
            _ => "review Mismatch: Possible",
        };
        for _ in 0..2 {
            let result = client.submit(mail(1), &order()).await;
            assert_eq!(told(&result), wanted, "{}\n{}", pair.server, desk.story());
        }
        assert_eq!(desk.keys(), [key], "never another key");
        assert_eq!(desk.attempts(&desk.keys()[0]).len(), 2, "{}\n{}", pair.server, desk.story());
        desk.assert_exactly_one_order(|order| order["customer"] == "C-999");
    }
}

#[tokio::test]
async fn a_500_is_tried_again_and_for_a_person_where_its_server_says_that_it_is_stored() {
    for pair in pairs() {
        let (desk, folder) = (pair.desk().await, Folder::new());
        let client = pair.client(&folder.journal().await, &desk.url());
        desk.script(Script::new().store_status(500));
        let first = client.submit(mail(1), &order()).await;
        assert_eq!(told(&first), in_doubt(Effect::Possible), "{}", pair.server);
        let again = client.submit(mail(1), &order()).await;
        let wanted = match (pair.keeps_500, pair.repeat) {
            (false, _) => "succeeded: Certain".to_owned(),
            (true, Repeat::Marked) => "review StoredServerError: Possible".to_owned(),
            // Nothing tells that it is a stored one.
            (true, _) => in_doubt(Effect::Possible),
        };
        assert_eq!(told(&again), wanted, "{}\n{}", pair.server, desk.story());
        assert_eq!(desk.orders().len(), usize::from(!pair.keeps_500), "{}", pair.server);
        assert_eq!(desk.keys().len(), 1);
    }
}

#[tokio::test]
async fn a_500_that_left_nothing_is_one_order_when_it_is_tried_again() {
    for pair in pairs() {
        let (desk, folder) = (pair.desk().await, Folder::new());
        let client = pair.client(&folder.journal().await, &desk.url());
        desk.script(Script::new().status(500).status(503).then_ok());
        for _ in 0..2 {
            assert_eq!(
                told(&client.submit(mail(1), &order()).await),
                in_doubt(Effect::Possible),
                "{}",
                pair.server
            );
        }
        let done = client.submit(mail(1), &order()).await;
        assert_eq!(told(&done), "succeeded: Certain", "{}\n{}", pair.server, desk.story());
        assert_eq!((desk.orders().len(), desk.keys().len()), (1, 1), "{}", pair.server);
        desk.assert_nothing_suspicious();
    }
}

#[tokio::test]
async fn an_order_committed_behind_a_504_is_found_under_its_key() {
    for pair in pairs() {
        let (desk, folder) = (pair.desk().await, Folder::new());
        let client = pair.client(&folder.journal().await, &desk.url());
        desk.script(Script::new().commit_then_status(504));
        assert_eq!(
            told(&client.submit(mail(1), &order()).await),
            in_doubt(Effect::Possible),
            "{}",
            pair.server
        );
        let done = client.submit(mail(1), &order()).await;
        assert_eq!(
            done.as_ref().map(Outcome::effect).ok(),
            Some(Effect::Certain),
            "{} {done:?}",
            pair.server
        );
        assert_eq!(desk.requests().len(), pair.repeat_and_lookup(), "{}", pair.server);
        desk.assert_exactly_one_order(|_| true);
    }
}

/// A server that commits, answers 5xx and forgets the key: the retry would be a second order. Where that may be, there is none.
#[tokio::test]
async fn a_server_that_may_forget_what_it_did_gets_no_second_request_of_itself() {
    for pair in pairs() {
        let (desk, folder) = (pair.desk().await, Folder::new());
        let forgetful = pair.dialect().commit_before_5xx(CommitBefore5xx::Possible);
        let client = client(&folder.journal().await, single(&desk.url()).dialect(forgetful));
        desk.script(Script::new().commit_then_forget(503));
        assert_eq!(
            told(&client.submit(mail(1), &order()).await),
            in_doubt(Effect::Possible),
            "{}",
            pair.server
        );
        let again = client.submit(mail(1), &order()).await;
        let wanted = match pair.lookup {
            Some(_) => "succeeded, replayed: Certain",
            None => "review NotRecognised: Possible",
        };
        assert_eq!(told(&again), wanted, "{}\n{}", pair.server, desk.story());
        assert_eq!(desk.attempts(&desk.keys()[0]).len(), 1, "{}\n{}", pair.server, desk.story());
        desk.assert_exactly_one_order(|_| true);
    }
}

#[tokio::test]
async fn an_order_that_was_cancelled_meanwhile_is_no_success_where_that_shows() {
    for pair in pairs() {
        let (desk, folder) = (pair.desk().await, Folder::new());
        let client = pair.client(&folder.journal().await, &desk.url());
        desk.script(Script::new().commit_then_lose_reply());
        assert_eq!(
            told(&client.submit(mail(1), &order()).await),
            in_doubt(Effect::Possible),
            "{}",
            pair.server
        );
        cancel_the_order(&pair, &desk).await;
        let found = client.submit(mail(1), &order()).await;
        let wanted = match pair.repeat {
            Repeat::Refused | CURRENT => "review FoundEnded: Possible",
            Repeat::Marked => "succeeded, replayed: Certain",
            // The first answer says how the order was taken, not what became of it.
            Repeat::Unmarked { current: false } => "succeeded: Certain",
        };
        assert_eq!(told(&found), wanted, "{}\n{}", pair.server, desk.story());
        desk.assert_exactly_one_order(|order| order["status"] == "cancelled");
    }
}

/// Somebody else cancels the one order, under a key of his own.
async fn cancel_the_order(pair: &Pair, desk: &Desk) {
    const OTHER_KEY: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
    let request = plain_client().post(format!("{}/orders/ord-1/cancel", desk.url()));
    let request = match pair.place.strip_prefix("body:") {
        Some(member) => request.json(&json!({member: OTHER_KEY})),
        None => request.header(pair.place, OTHER_KEY),
    };
    let now = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let answer = request.header("Repeatability-First-Sent", now).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", pair.server);
}

/// Past its retention a server orders again: the same key is asked for where it can be, and never sent.
#[tokio::test]
async fn after_its_retention_an_order_is_looked_up_or_for_a_person_and_never_sent() {
    for pair in pairs() {
        for lost in [Script::new().commit_then_lose_reply(), Script::new().lose_request()] {
            let (desk, folder, clock) = (pair.desk().await, Folder::new(), clock());
            let journal = Journal::builder().clock(clock.clone()).open(folder.path()).await.unwrap();
            let client = pair.client(&journal, &desk.url());
            desk.script(lost);
            assert_eq!(
                told(&client.submit(mail(1), &order()).await),
                in_doubt(Effect::Possible),
                "{}",
                pair.server
            );
            let placed = desk.orders().len();
            let past = i64::try_from(pair.kept.unwrap_or(DAY).as_millis()).unwrap() + HOUR;
            clock.turn(past);
            desk.ledger().turn_clock(past);
            let result = client.submit(mail(1), &order()).await;
            let wanted = match (pair.lookup, placed) {
                (Some(_), 1) => "succeeded, replayed: Certain",
                // That it is not found proves nothing.
                _ => "review RetentionPassed: Possible",
            };
            assert_eq!(told(&result), wanted, "{}\n{}", pair.server, desk.story());
            let requests = desk.requests();
            let asked: Vec<String> = requests
                .iter()
                .skip(1)
                .map(|seen| format!("{} {}?{}", seen.method, seen.path, seen.query.clone().unwrap_or_default()))
                .collect();
            let key = desk.keys()[0].clone();
            let lookups: Vec<String> = pair
                .lookup
                .iter()
                .map(|path| format!("GET {}", path.replace("{key}", &key)))
                .collect();
            assert_eq!(asked, lookups, "{}", pair.server);
            assert_eq!(desk.orders().len(), placed, "{}", pair.server);
        }
    }
}

// ---- a vendor's own ways ---------------------------------------------------------------------------------------------

/// The requests, as method and path.
fn asked(desk: &Desk) -> Vec<String> {
    desk.requests()
        .iter()
        .map(|seen| format!("{} {}", seen.method, seen.path))
        .collect()
}

#[tokio::test]
async fn gocardless_names_what_exists_and_that_is_fetched_and_is_a_success() {
    let pair = one(ServerDialect::GoCardless);
    let (desk, folder) = (pair.desk().await, Folder::new());
    let client = pair.client(&folder.journal().await, &desk.url());
    desk.script(Script::new().commit_then_lose_reply());
    client.submit(mail(1), &order()).await.unwrap_err();
    let receipt = client.submit(mail(1), &order()).await.unwrap().receipt().unwrap();
    assert_eq!(receipt.value.order_id.as_deref(), Some("ord-1"));
    assert_eq!(asked(&desk), ["POST /orders", "POST /orders", "GET /orders/ord-1"]);
    assert_eq!(desk.requests()[1].status, Some(409));
    desk.assert_exactly_one_order(|_| true);
}

#[tokio::test]
async fn alpacas_duplicate_is_looked_up_and_compared() {
    let pair = one(ServerDialect::Alpaca);
    let (desk, folder) = (pair.desk().await, Folder::new());
    let client = pair.client(&folder.journal().await, &desk.url());
    desk.script(Script::new().commit_then_lose_reply());
    client.submit(mail(1), &order()).await.unwrap_err();
    let receipt = client.submit(mail(1), &order()).await.unwrap().receipt().unwrap();
    assert_eq!(receipt.value.order_id.as_deref(), Some("ord-1"));
    assert_eq!(asked(&desk), ["POST /orders", "POST /orders", "GET /orders:by_client_order_id"]);
    assert_eq!(desk.requests()[1].status, Some(422));
    desk.assert_exactly_one_order(|_| true);

    // A stranger's order under that id: found, and another one.
    let unsent = pair
        .client(&folder.journal().await, NOBODY)
        .submit(mail(2), &order())
        .await
        .unwrap_err();
    pair.takes_the_key(&desk, &unsent.key().unwrap().to_string()).await;
    let result = client.submit(mail(2), &order()).await;
    assert_eq!(told(&result), "review OtherOrderReturned: Possible");
    assert_eq!(desk.orders().len(), 2);

    // Refused as a duplicate, and not there: for a person.
    desk.script(Script::new().reply(Reply::json(422, json!({"code": 40_010_001}))));
    let result = client.submit(mail(3), &order()).await;
    assert_eq!(told(&result), "review AlreadyExists: Possible");
    assert_eq!(desk.orders().len(), 2);
}

/// Coinbase gives the original order whatever the repeat says.
#[tokio::test]
async fn coinbases_original_order_with_other_contents_is_for_a_person() {
    let pair = one(ServerDialect::Coinbase);
    let (desk, folder) = (pair.desk().await, Folder::new());
    let journal = folder.journal().await;
    let unsent = pair.client(&journal, NOBODY).submit(mail(1), &order()).await.unwrap_err();
    pair.takes_the_key(&desk, &unsent.key().unwrap().to_string()).await;
    let result = pair.client(&journal, &desk.url()).submit(mail(1), &order()).await;
    assert_eq!(desk.requests()[1].status, Some(201), "a success, by its status");
    assert_eq!(told(&result), "review OtherOrderReturned: Possible");

    let failed = json!({"success": false, "error_response": {"error": "DUPLICATE_CLIENT_ORDER_ID"}});
    desk.script(Script::new().reply(Reply::json(200, failed)));
    let result = pair.client(&journal, &desk.url()).submit(mail(2), &order()).await;
    assert_eq!(told(&result), "review AlreadyExists: Possible");
    desk.assert_exactly_one_order(|order| order["customer"] == "C-999");
}

/// Errors in a 200: Worldpay's XML, and Shopify's lists, deep in an answer.
#[tokio::test]
async fn an_error_in_a_200_is_neither_a_success_nor_a_refusal() {
    let shopify = |code: &str| {
        let errors = json!([{"code": code, "message": "…"}]);
        Reply::json(200, json!({"data": {"orderCreate": {"order": null, "userErrors": errors}}}))
    };
    let worldpay = |code: &str| {
        let text = format!("<paymentService><reply><error code=\"{code}\"><![CDATA[…]]></error></reply></paymentService>");
        Reply::status(200).body("text/xml", text)
    };
    for (dialect, reply, wanted) in [
        (
            Dialect::ietf(),
            shopify("IDEMPOTENCY_CONCURRENT_REQUEST"),
            "review UnreadableSuccess: Possible",
        ),
        (
            Dialect::ietf(),
            shopify("IDEMPOTENCY_KEY_PARAMETER_MISMATCH"),
            "review UnreadableSuccess: Possible",
        ),
        (Dialect::worldpay().retention(DAY), worldpay("9"), "StillProcessing: Possible"),
        (
            Dialect::worldpay().retention(DAY),
            worldpay("7"),
            "review ServerUncertain: Possible",
        ),
    ] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let client = client(&folder.journal().await, single(&desk.url()).dialect(dialect));
        desk.script(Script::new().reply(reply).times(2));
        assert_eq!(told(&client.submit(mail(1), &order()).await), wanted);
        // An operation that wants nothing of a success is told no other thing.
        let lax = JsonOrder::new(Route::post("orders"), json!({"customer": "C-100"}));
        assert_eq!(told(&client.submit(mail(1), &lax).await), wanted);
        assert!(desk.orders().is_empty());
    }
}

/// What only an own dialect can know of a status: here each of them is a success, or leads to one.
#[tokio::test]
async fn a_dialect_says_what_its_servers_refusals_mean() {
    /// Interchecks: 409 with the first answer's body.
    fn original_in_a_409(answer: &uketsuke::Answer) -> Reading {
        match (answer.status().as_u16(), answer.code("/order_id")) {
            (409, Some(_)) => Reading::Succeeded,
            (102 | 409, None) => Reading::InProgress,
            _ => Reading::ByStatus,
        }
    }
    /// Primer: 400 with the id of what exists; BVNK: 400 and no more.
    fn replay_in_a_400(answer: &uketsuke::Answer) -> Reading {
        match answer.status().as_u16() {
            400 => Reading::Exists {
                named: answer.code("/paymentId").map(str::to_owned),
            },
            _ => Reading::ByStatus,
        }
    }
    /// Binance: a number for "the execution is not known", and one for a duplicate.
    fn unknown_by_number(answer: &uketsuke::Answer) -> Reading {
        match answer.json().and_then(|body| body["code"].as_i64()) {
            Some(-1007) => Reading::Uncertain,
            Some(-2010) => Reading::Exists { named: None },
            _ => Reading::ByStatus,
        }
    }
    let binance = Dialect::new("binance").reads(unknown_by_number);
    let named = Dialect::new("primer")
        .reads(replay_in_a_400)
        .lookup(|asked| Some(asked.path().segment(asked.named()?)));
    let placed = json!({"order_id": "ord-1", "status": "accepted"});
    for (dialect, reply, wanted) in [
        (
            Dialect::new("interchecks").reads(original_in_a_409),
            Reply::json(409, placed),
            "succeeded: Certain",
        ),
        (
            Dialect::new("interchecks").reads(original_in_a_409),
            Reply::status(409),
            "StillProcessing: Possible",
        ),
        (Dialect::new("picpay"), Reply::json(208, json!({})), "StillProcessing: Possible"),
        (
            named.clone(),
            Reply::json(400, json!({"paymentId": "ord-1"})),
            "succeeded, replayed: Certain",
        ),
        (named, Reply::json(400, json!({})), "review AlreadyExists: Possible"),
        (
            binance.clone(),
            Reply::json(408, json!({"code": -1007})),
            "review ServerUncertain: Possible",
        ),
        (
            binance.lookup(|asked| Some(Route::get("orders/ord-1").query("origClientOrderId", asked.key().to_string()))),
            Reply::json(400, json!({"code": -2010, "msg": "Duplicate order sent."})),
            "succeeded, replayed: Certain",
        ),
    ] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let api = single(&desk.url()).dialect(dialect.retention(DAY));
        let client = client(&folder.journal().await, api);
        desk.script(Script::new().commit_then_lose_reply().commit_then_reply(reply));
        assert_eq!(told(&client.submit(mail(1), &order()).await), in_doubt(Effect::Possible));
        assert_eq!(told(&client.submit(mail(1), &order()).await), wanted, "{}", desk.story());
        desk.assert_exactly_one_order(|_| true);
    }
}

/// tastytrade, Deribit, Kraken behind a fill: each request is an order.
#[tokio::test]
async fn a_server_that_recognises_no_repeat_gets_no_second_post() {
    let deaf = || Dialect::new("deaf").retention(DAY).duplicates(Duplicates::NotRecognised);
    let asks = || deaf().lookup(|asked| Some(Route::get("found").segment(asked.key().to_string())));
    let placed = json!({"order_id": "ord-1", "status": "accepted", "customer": "C-100"});
    for (dialect, found, wanted) in [
        (deaf(), None, "review NotRecognised: Possible"),
        (asks(), Some(Reply::json(200, placed)), "succeeded, replayed: Certain"),
        (
            asks(),
            Some(Reply::json(200, json!({"order_id": "ord-7", "customer": "C-999"}))),
            "review OtherOrderReturned: Possible",
        ),
        (asks(), Some(Reply::status(404)), "review NotRecognised: Possible"),
    ] {
        let (desk, folder) = (Desk::deaf().await, Folder::new());
        let asked = usize::from(found.is_some());
        if let Some(found) = found {
            desk.serve("GET", "/found/{key}", move |_| found.clone());
        }
        let client = client(&folder.journal().await, crate::kit::brisk(&desk.url()).dialect(dialect));
        desk.script(Script::new().commit_then_lose_reply());
        for _ in 0..2 {
            let result = client.submit(mail(1), &order()).await;
            assert_eq!(told(&result), wanted, "{}", desk.story());
        }
        let posts = desk.requests().iter().filter(|seen| seen.method == "POST").count();
        assert_eq!((posts, desk.requests().len()), (1, 1 + asked), "{}", desk.story());
        desk.assert_exactly_one_order(|_| true);
    }

    // The first byte never left: then it may go.
    let (desk, folder) = (Desk::deaf().await, Folder::new());
    let journal = folder.journal().await;
    let unsent = client(&journal, single(NOBODY).dialect(deaf())).submit(mail(1), &order()).await;
    assert_eq!(told(&unsent), "NotSent: None");
    let sent = client(&journal, single(&desk.url()).dialect(deaf()))
        .submit(mail(1), &order())
        .await;
    assert_eq!(told(&sent), "succeeded: Certain");
    desk.assert_exactly_one_order(|_| true);
}
