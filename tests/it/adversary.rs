//! What an adversary tried: each name is a claim that should hold.

use crate::kit::{Folder, brisk, child, order};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write as _,
    num::NonZeroUsize,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};
use uketsuke::{
    Actor, Api, BoxFuture, Clock, Credential, CredentialError, Credentials, Dialect, Effect, ErrorKind, Impact, Journal, JsonOrder,
    KeyPlace, OrderClient, Origin, Outcome, PlaceOrder, Route, Timestamp, ToolReply,
    testkit::{Desk, Reply, Script},
};

// ---- forging what another process would write ------------------------------------------------------------------------

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, b| {
        (0..8).fold(crc ^ u32::from(*b), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 })
    })
}

struct Rec {
    key: String,
    now: &'static str,
    ev: &'static str,
    columns: String,
    data: String,
}

fn rec(key: &str, now: &'static str, ev: &'static str, data: Value) -> Rec {
    Rec {
        key: key.to_owned(),
        now,
        ev,
        columns: String::new(),
        data: data.to_string(),
    }
}

/// Appends under the folder's lock, as another process does.
fn append(folder: &Path, records: &[Rec]) {
    let lock = fs::OpenOptions::new().append(true).open(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let text = fs::read_to_string(folder.join("log.jsonl")).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let mut seq: u64 = last["seq"].as_str().unwrap().parse().unwrap();
    let mut prev = last["crc"].as_str().unwrap().to_owned();
    let at = last["at"].as_str().unwrap();
    let mut all = String::new();
    for r in records {
        seq += 1;
        let body = format!(
            "{{\"v\":1,\"seq\":\"{seq:012}\",\"at\":\"{at}\",\"key\":\"{}\",\"now\":\"{}\",\"ev\":\"{}\"{},\"data\":{},\"synced\":\"{:012}\",\"prev\":\"{prev}\",\"crc\":\"",
            r.key, r.now, r.ev, r.columns, r.data, 0
        );
        let crc = format!("{:08x}", crc32(body.as_bytes()));
        all.push_str(&body);
        all.push_str(&crc);
        all.push_str("\"}\n");
        prev = crc;
    }
    let mut log = fs::OpenOptions::new().append(true).open(folder.join("log.jsonl")).unwrap();
    log.write_all(all.as_bytes()).unwrap();
    log.sync_all().unwrap();
    lock.unlock().unwrap();
}

/// The `claimed` record that a submit of this order writes, told by another process.
async fn claim_of(order: &PlaceOrder, url: &str, key: &str, owner: &str, lineage: Option<(u32, &str)>) -> Rec {
    let scratch = Folder::new();
    let client = scratch.client_at(url).await;
    drop(
        client
            .submit(Origin::mail("<1@example.com>"), order)
            .within(Duration::from_millis(300))
            .await,
    );
    let text = fs::read_to_string(scratch.log()).unwrap();
    let line = text.lines().find(|l| l.contains("\"ev\":\"claimed\"")).unwrap();
    let from = line.find(",\"origin\":\"").unwrap();
    let data_at = line.find(",\"data\":").unwrap();
    let end = line.find(",\"synced\":").unwrap();
    let mut data: Value = serde_json::from_str(&line[data_at + 8..end]).unwrap();
    data["owner"] = json!(owner);
    if let Some((generation, before)) = lineage {
        data["lineage"] = json!({"generation": generation, "supersedes": before});
    }
    Rec {
        key: key.to_owned(),
        now: "open",
        ev: "claimed",
        columns: line[from..data_at].to_owned(),
        data: data.to_string(),
    }
}

fn refusal() -> Value {
    json!({"rejected": {"answer": {"status": 422, "headers": [], "text": "{}"}}})
}

const K0: &str = "10000000-0000-4000-8000-000000000000";
const K1: &str = "20000000-0000-4000-8000-000000000000";
const THEM: &str = "30000000-0000-4000-8000-000000000000";

// ---- clocks ----------------------------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
struct Hand(Arc<AtomicI64>, Option<Arc<AtomicI64>>);

impl Hand {
    fn new() -> Self {
        Hand(Arc::new(AtomicI64::new(1_800_000_000_000)), None)
    }
    fn step(&self, hours: i64) {
        self.0.fetch_add(hours * 3_600_000, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
    fn boot(&self) -> Option<uketsuke::Boot> {
        let up = self.1.as_ref()?.load(Ordering::SeqCst);
        Some(uketsuke::Boot {
            id: "this-boot".to_owned(),
            up_ms: up.try_into().unwrap(),
        })
    }
}

async fn client_with_clock(folder: &Folder, url: &str, clock: Hand) -> OrderClient {
    let journal = Journal::builder().clock(clock).open(folder.path()).await.unwrap();
    OrderClient::new(journal, brisk(url).build().unwrap(), Actor::agent("test-agent"))
}

fn high() -> JsonOrder {
    JsonOrder::from_json(Route::post("orders"), br#"{"sku":"A","qty":1}"#)
        .unwrap()
        .impact(Impact::High)
}

fn json_order(text: &str) -> JsonOrder {
    JsonOrder::from_json(Route::post("orders"), text.as_bytes()).unwrap()
}

fn mail() -> Origin {
    Origin::mail("<1@example.com>")
}

// ---- flights that go wrong --------------------------------------------------------------------------------------------

#[derive(Debug)]
struct Panics;
impl Credentials for Panics {
    fn current(&self) -> BoxFuture<'_, Result<Credential, CredentialError>> {
        Box::pin(async { panic!("a vault that panics") })
    }
}

#[derive(Debug)]
struct Hangs;
impl Credentials for Hangs {
    fn current(&self) -> BoxFuture<'_, Result<Credential, CredentialError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flight_that_panics_answers_its_caller_and_does_not_fly_for_ever() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let api = brisk(&desk.url()).credentials(Panics).build().unwrap();
    let client = OrderClient::new(folder.journal().await, api, Actor::agent("a"));
    let told = tokio::time::timeout(Duration::from_secs(2), client.submit(mail(), &order()).into_future()).await;
    let flights = folder.events("taken_over").len();
    assert!(told.is_ok(), "the caller hangs; {flights} flights so far");
    assert!(flights <= 1, "{flights}");
}

#[tokio::test]
async fn a_credential_provider_that_hangs_does_not_hang_the_caller_past_the_total_limit() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let mut limits = uketsuke::Timeouts::default();
    limits.connect = Duration::from_millis(100);
    limits.attempt = Duration::from_millis(200);
    limits.total = Duration::from_millis(500);
    let api = brisk(&desk.url()).timeouts(limits).credentials(Hangs).build().unwrap();
    let client = OrderClient::new(folder.journal().await, api, Actor::agent("a"));
    let told = tokio::time::timeout(Duration::from_secs(3), client.submit(mail(), &order()).into_future()).await;
    assert!(told.is_ok(), "the caller hangs");
}

/// R13: an answer that could not be written down would leave an order that never settles; so none is read that could not.
#[tokio::test]
async fn the_largest_answer_with_the_worst_escapes_still_fits_into_the_journal() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    assert!(Api::builder(desk.url()).answer_cap((2 << 20) + 1).build().is_err());
    assert!(Api::builder(desk.url()).answer_cap(0).build().is_err());
    let worst = vec![1; 2 << 20];
    desk.script(Script::new().store_reply(Reply::status(201).body("application/json", worst)));
    let api = Api::builder(desk.url()).answer_cap(2 << 20).build().unwrap();
    let client = OrderClient::new(folder.journal().await, api, Actor::agent("a"));
    let outcome = client.submit(mail(), &order()).await.unwrap();
    assert!(matches!(outcome, Outcome::NeedsReview(_)), "{outcome:?}");
    assert_eq!(folder.events("review").len(), 1);
}

// ---- setups that strand ------------------------------------------------------------------------------------------------

#[tokio::test]
async fn an_order_that_can_never_be_sent_is_refused_before_it_is_claimed() {
    let desk = Desk::start().await;
    let long: String = "a".repeat(70_000);
    for route in [
        Route::post("orders").header("prefer", "a").header("prefer", "b"),
        Route::post("orders").segment(&long),
        Route::post("orders").query("q", &long),
    ] {
        let folder = Folder::new();
        let client = folder.client(&desk).await;
        let told = client.submit(mail(), &JsonOrder::new(route, json!({"a":1}))).await;
        let error = told.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(folder.events("claimed").is_empty());
    }
}

#[tokio::test]
async fn a_key_place_that_no_request_can_carry_is_refused_at_build() {
    for name in ["bad header", "", "x\r\ny", "content-length", "host", "transfer-encoding"] {
        let dialect = Dialect::ietf().key(KeyPlace::RawHeader(name.to_owned()));
        assert!(brisk("http://127.0.0.1:9").dialect(dialect).build().is_err(), "{name:?}");
    }
}

#[tokio::test]
async fn any_number_of_resumes_at_once_is_no_panic() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let api = brisk(&desk.url()).build().unwrap();
    let client = OrderClient::builder(folder.journal().await, api, Actor::agent("a"))
        .resume_at_once(NonZeroUsize::MAX)
        .build();
    client.resume_pending().await.unwrap();
}

#[tokio::test]
async fn an_order_cannot_ask_for_an_encoding_that_we_do_not_undo() {
    let order = JsonOrder::new(Route::post("orders").header("Accept-Encoding", "gzip"), json!({}));
    let (desk, folder) = (Desk::start().await, Folder::new());
    let error = folder.client(&desk).await.submit(mail(), &order).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

// ---- verdicts ----------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_status_outside_http_is_no_definite_no() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_status(600).times(4));
    let told = folder.client(&desk).await.submit(mail(), &order()).await;
    assert_eq!(desk.orders().len(), 1);
    assert!(!matches!(told, Ok(Outcome::Rejected(_))), "told {told:?} of an order that stands");
}

#[tokio::test]
async fn already_exists_is_not_told_as_nothing_was_registered() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_reply(Reply::problem(409, "order_already_exists", "it stands as ord-7")));
    let told = folder.client(&desk).await.submit(mail(), &order()).await;
    assert!(!matches!(told, Ok(Outcome::Rejected(_))), "told {told:?}");
}

#[tokio::test]
async fn a_success_status_around_an_error_is_not_told_as_succeeded() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().store_reply(Reply::json(200, json!({"error": {"code": "out_of_stock"}}))));
    let told = folder.client(&desk).await.submit(mail(), &order()).await;
    assert!(!matches!(told, Ok(Outcome::Succeeded(_))), "told {told:?}");
}

// ---- what is told --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn who_does_as_a_still_processing_error_says_makes_no_second_order() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().reply_after(Duration::from_millis(300)));
    let client = folder.client(&desk).await;
    let origin = Origin::distinct("the customer wants two of them");
    let error = client
        .submit(origin.clone(), &order())
        .within(Duration::from_millis(100))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StillProcessing);
    let again = client.submit(origin, &order()).await;
    client.drain(Duration::from_secs(2)).await;
    assert_eq!(desk.orders().len(), 1, "{again:?}");
}

#[tokio::test]
async fn a_likely_repeat_of_an_order_that_stands_is_not_told_with_effect_none() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    drop(client.submit(Origin::unknown(), &order()).await.unwrap());
    let again = client.submit(Origin::unknown(), &order()).await;
    assert_eq!(again.as_ref().unwrap_err().kind(), ErrorKind::LikelyRepeat);
    let reply = ToolReply::of(&again);
    assert_ne!(reply.effect, Effect::None, "{reply:?}");
}

#[tokio::test]
async fn a_drift_error_shows_nothing_of_the_order() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    drop(
        client
            .submit(mail(), &json_order(r#"{"for":{"alice@example.com":1}}"#))
            .await
            .unwrap(),
    );
    let error = client
        .submit(mail(), &json_order(r#"{"for":{"alice@example.com":2}}"#))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Drift);
    assert!(!error.to_string().contains("alice"), "{error}");
}

// ---- origins, corrections, clocks --------------------------------------------------------------------------------------

#[tokio::test]
async fn blanks_around_an_origin_make_no_second_order() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    drop(client.submit(Origin::custom("ticket", "T-1").line("1"), &order()).await.unwrap());
    drop(client.submit(Origin::custom("ticket", "T-1 ").line(" 1"), &order()).await.unwrap());
    assert_eq!(desk.orders().len(), 1);
}

/// R17: also when a correction between them was withdrawn or expired.
#[tokio::test]
async fn after_a_persons_no_every_later_correction_is_asked_about() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let parked = client.submit(mail(), &high()).await.unwrap();
    append(
        &folder.path(),
        &[rec(&parked.key().to_string(), "done", "refused", json!({"by":"boss","why":"no"}))],
    );
    let second = client.submit(mail(), &json_order(r#"{"sku":"A","qty":2}"#)).await.unwrap();
    assert!(matches!(second, Outcome::AwaitingApproval(_)), "{second:?}");
    assert!(matches!(
        client.withdraw(second.key(), "changed my mind").await,
        Ok(Outcome::Denied(_))
    ));
    let third = client.submit(mail(), &json_order(r#"{"sku":"A","qty":3}"#)).await.unwrap();
    assert!(matches!(third, Outcome::AwaitingApproval(_)), "sent past the person: {third:?}");
}

/// R7, R2: silence was told as a no, and a correction was placed for it; a clock that is put back must not revive it.
#[tokio::test]
async fn an_order_that_was_corrected_never_waits_for_a_yes_again() {
    let clock = Hand::new();
    let (desk, folder) = (Desk::builder().dates(clock.clone()).start().await.unwrap(), Folder::new());
    let client = client_with_clock(&folder, &desk.url(), clock.clone()).await;
    let parked = client.submit(mail(), &high()).await.unwrap();
    clock.step(25);
    assert!(matches!(client.known(parked.key()).await, Ok(Some(Outcome::Denied(_)))));
    let corrected = client.submit(mail(), &json_order(r#"{"sku":"A","qty":2}"#)).await.unwrap();
    assert!(matches!(corrected, Outcome::Succeeded(_)));
    clock.step(-25);
    let now = client.known(parked.key()).await.unwrap().unwrap();
    assert!(!matches!(now, Outcome::AwaitingApproval(_)), "{now:?}: a yes now would order twice");
}

/// R11: clock doubt counts as inside.
#[tokio::test]
async fn a_wall_clock_that_leaps_within_one_boot_does_not_open_the_repeat_window() {
    let up = Arc::new(AtomicI64::new(1_000_000));
    let clock = Hand(Arc::new(AtomicI64::new(1_800_000_000_000)), Some(Arc::clone(&up)));
    let (desk, folder) = (Desk::builder().dates(clock.clone()).start().await.unwrap(), Folder::new());
    let client = client_with_clock(&folder, &desk.url(), clock.clone()).await;
    drop(client.submit(Origin::unknown(), &order()).await.unwrap());
    clock.step(48);
    up.fetch_add(60_000, Ordering::SeqCst);
    let again = client.submit(Origin::unknown(), &order()).await;
    assert_eq!(desk.orders().len(), 1, "{again:?}");
}

/// R8: it was told that the server may have forgotten the key; a clock that is put back must not have it sent again.
#[tokio::test]
async fn an_order_whose_retention_passed_once_is_not_sent_when_the_clock_goes_back() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().times(4));
    let clock = Hand::new();
    let client = client_with_clock(&folder, &desk.url(), clock.clone()).await;
    let key = client.submit(mail(), &order()).await.unwrap_err().key().unwrap();
    clock.step(30);
    assert!(matches!(client.resume(key).await, Ok(Outcome::NeedsReview(_))));
    clock.step(-20);
    let sent = desk.requests().len();
    let told = client.resume(key).await;
    assert_eq!(desk.requests().len(), sent, "sent again after 30 hours: {told:?}");
}

/// R9: a server remembers a key per account.
#[tokio::test]
async fn an_order_that_may_have_landed_is_not_sent_again_under_another_account() {
    #[derive(Debug)]
    struct Account(&'static str);
    impl Credentials for Account {
        fn current(&self) -> BoxFuture<'_, Result<Credential, CredentialError>> {
            Box::pin(async { Ok(Credential::bearer(self.0).unwrap()) })
        }
        fn scope(&self) -> Option<String> {
            Some(self.0.to_owned())
        }
    }
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().times(4));
    let client = |account| {
        let api = brisk(&desk.url()).credentials(Account(account)).build().unwrap();
        let journal = folder.journal();
        async { OrderClient::new(journal.await, api, Actor::agent("a")) }
    };
    let key = client("one").await.submit(mail(), &order()).await.unwrap_err().key().unwrap();
    let sent = desk.requests().len();
    let told = client("two").await.resume(key).await;
    assert_eq!(desk.requests().len(), sent, "the key went out under a second account: {told:?}");
}

/// Three waiters of a flight that panics, in one process, all hear of it.
#[tokio::test(flavor = "multi_thread")]
async fn everyone_who_waits_for_a_flight_that_panics_is_answered() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let api = brisk(&desk.url()).credentials(Panics).build().unwrap();
    let client = OrderClient::new(folder.journal().await, api, Actor::agent("a"));
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.submit(mail(), &order()).await.map(drop) })
        })
        .collect();
    for call in calls {
        let told = tokio::time::timeout(Duration::from_secs(5), call).await.expect("hangs").unwrap();
        let error = told.unwrap_err();
        assert!(error.key().is_some(), "{error:?}");
    }
    assert_eq!(folder.events("claimed").len(), 1);
}

/// A call that waits for an order hears of that order; it never makes a new one out of what happened since.
#[tokio::test]
async fn a_waiter_is_told_of_the_order_it_waited_for() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let b = PlaceOrder::new("C-100").item("SKU-1", 3);
    let a = order();
    let ours = claim_of(&a, &desk.url(), K0, THEM, None).await;
    let correction = claim_of(&b, &desk.url(), K1, THEM, Some((2, K0))).await;
    let before = desk.requests().len();
    let owner = fs::File::create_new(folder.path().join("owners").join(THEM)).unwrap();
    owner.lock().unwrap();
    append(&folder.path(), &[ours]);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.submit(mail(), &order()).await }
    });
    // It has met the order and written that down: from here on it waits.
    while folder.events("joined").is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    append(
        &folder.path(),
        &[
            rec(K0, "done", "settled", refusal()),
            correction,
            rec(K1, "done", "settled", refusal()),
        ],
    );
    let told = tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
    assert_eq!(desk.requests().len(), before, "a third order was sent: {told:?}");
    assert!(matches!(&told, Ok(Outcome::Rejected(no)) if no.key.to_string() == K0), "{told:?}");
}

// ---- the file ----------------------------------------------------------------------------------------------------------

/// A log that a power cut left with a hole: `torn(lines)` picks the range of bytes that read as zeros. With the desk that has its order.
async fn log_with_a_hole(torn: impl Fn(&[(usize, usize, Value)]) -> (usize, usize)) -> (Desk, Folder, uketsuke::IdempotencyKey) {
    // A machine that is slow lets the journal's background leave a witness between the records: then it is tried once more.
    for _ in 0..50 {
        let (desk, folder, after) = (Desk::start().await, Folder::new(), Folder::new());
        let mut pacing = uketsuke::Pacing::default();
        pacing.base = Duration::from_millis(5);
        pacing.cap = Duration::from_millis(10);
        pacing.attempts = 2;
        desk.script(Script::new().status(429).commit_then_lose_reply());
        let api = brisk(&desk.url()).pacing(pacing).build().unwrap();
        let client = OrderClient::new(folder.journal().await, api, Actor::agent("a"));
        let error = client.submit(mail(), &order()).await.unwrap_err();
        assert_eq!(error.effect(), Effect::Possible);
        let mut bytes = fs::read(folder.log()).unwrap();
        let mut lines = Vec::new();
        let mut at = 0;
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            lines.push((at, line.len(), serde_json::from_slice::<Value>(line).unwrap()));
            at += line.len();
        }
        // Nothing was synced since the claim: no witness.
        let witness = lines.iter().find(|(_, _, l)| l["ev"] == "witness" && l["seq"] != "000000000002");
        if let Some((at, _, _)) = witness {
            bytes.truncate(*at);
        }
        let (from, to) = torn(&lines);
        if to > bytes.len() {
            continue;
        }
        bytes[from..to].fill(0);
        fs::create_dir_all(after.path()).unwrap();
        fs::write(after.log(), bytes).unwrap();
        return (desk, after, error.key().unwrap());
    }
    panic!("a witness stood between the records fifty times");
}

fn of<'a>(lines: &'a [(usize, usize, Value)], ev: &str, attempt: u64) -> &'a (usize, usize, Value) {
    lines
        .iter()
        .find(|(_, _, l)| l["ev"] == ev && l["data"]["attempt"] == attempt)
        .unwrap()
}

/// R2, R12, R15: lost records can only add doubt.
#[tokio::test]
async fn records_lost_in_a_hole_never_turn_doubt_into_proof() {
    let (desk, folder, key) = log_with_a_hole(|lines| {
        let (from, _, _) = of(lines, "sent", 2);
        let (at, len, _) = of(lines, "observed", 2);
        (*from, at + len)
    })
    .await;
    assert_eq!(desk.orders().len(), 1);
    let client = folder.client(&desk).await;
    let known = client.known(key).await;
    let withdrawn = client.withdraw(key, "it was never sent, I am told").await;
    let corrected = client.submit(mail(), &PlaceOrder::new("C-100").item("SKU-1", 3)).await;
    println!("known {known:?}\nwithdrawn {withdrawn:?}\ncorrected {corrected:?}");
    assert_eq!(desk.orders().len(), 1, "two orders of one mail: {}", desk.story());
    assert_eq!(known.unwrap_err().effect(), Effect::Possible);
}

/// R12: a mere power cut does not stop the journal.
#[tokio::test]
async fn a_single_short_record_lost_in_a_power_cut_does_not_stop_the_journal() {
    let (desk, folder, key) = log_with_a_hole(|lines| {
        let (at, len, _) = of(lines, "sent", 2);
        (*at, at + len)
    })
    .await;
    let opened = Journal::open(folder.path()).await;
    assert!(opened.is_ok(), "{:?}", opened.err());
    drop(opened);
    let client = folder.client(&desk).await;
    assert!(matches!(client.resume(key).await, Ok(Outcome::Succeeded(_))));
}

/// R12, R15: whichever sectors of what was not synced a power cut loses, the journal opens, and an order that stands is never told as none.
#[tokio::test]
async fn whatever_sectors_a_power_cut_loses_no_doubt_is_lost() {
    const SECTOR: usize = 512;
    let claim_end = Arc::new(std::sync::Mutex::new(0));
    let told = Arc::clone(&claim_end);
    let (desk, whole, key) = log_with_a_hole(move |lines| {
        let (at, len, _) = lines.iter().find(|(_, _, l)| l["ev"] == "claimed").unwrap();
        *told.lock().unwrap() = at + len;
        (0, 0)
    })
    .await;
    let bytes = fs::read(whole.log()).unwrap();
    let synced = *claim_end.lock().unwrap();
    let first = synced / SECTOR;
    let sectors = bytes.len().div_ceil(SECTOR) - first;
    let mut wrong = Vec::new();
    for lost in 0..1u32 << sectors {
        for cut in [false, true] {
            let mut bytes = bytes.clone();
            for sector in (0..sectors).filter(|s| lost >> s & 1 == 1) {
                let from = ((first + sector) * SECTOR).max(synced);
                let to = ((first + sector + 1) * SECTOR).min(bytes.len());
                bytes[from..to].fill(0);
            }
            if cut {
                let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
                bytes.truncate(end);
            }
            let folder = Folder::new();
            fs::create_dir_all(folder.path()).unwrap();
            fs::write(folder.log(), &bytes).unwrap();
            match Journal::open(folder.path()).await {
                Err(error) => wrong.push(format!("{lost:b} {cut}: {error}")),
                Ok(journal) => {
                    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), Actor::agent("a"));
                    match client.known(key).await {
                        Err(error) if error.effect() == Effect::Possible => {}
                        other => wrong.push(format!("{lost:b} {cut}: {other:?}")),
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "of {sectors} sectors: {wrong:#?}");
}

/// A crash in the middle of mending, at every byte of it: the next opening mends again.
#[tokio::test]
async fn mending_that_is_cut_short_anywhere_is_mended_again() {
    let (desk, torn, key) = log_with_a_hole(|lines| {
        let (from, _, _) = of(lines, "sent", 2);
        let (at, len, _) = of(lines, "observed", 2);
        (*from, at + len)
    })
    .await;
    let before = fs::read(torn.log()).unwrap();
    drop(torn.journal().await);
    let mended = fs::read(torn.log()).unwrap();
    let differs: Vec<usize> = (0..before.len()).filter(|at| before[*at] != mended[*at]).collect();
    let (from, to) = (differs[0], differs[differs.len() - 1] + 1);
    let mut wrong = Vec::new();
    for cut in (from..to).step_by(7).chain([to - 2, to - 1, to]) {
        let mut bytes = before.clone();
        bytes[from..cut].copy_from_slice(&mended[from..cut]);
        let folder = Folder::new();
        fs::create_dir_all(folder.path()).unwrap();
        fs::write(folder.log(), &bytes).unwrap();
        match Journal::open(folder.path()).await {
            Err(error) => wrong.push(format!("{cut}: {error}")),
            Ok(journal) => {
                let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), Actor::agent("a"));
                match client.known(key).await {
                    Err(error) if error.effect() == Effect::Possible => {}
                    other => wrong.push(format!("{cut}: {other:?}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{from}..{to}: {wrong:#?}");
}

/// The journal's thread asks the caller's clock; a clock that panics must not leave a folder that can't be opened again.
#[tokio::test]
async fn a_clock_that_panics_on_the_journals_thread_does_not_close_the_folder_for_good() {
    #[derive(Debug, Clone, Default)]
    struct Dies(Arc<AtomicBool>);
    impl Clock for Dies {
        fn now(&self) -> Timestamp {
            let there = std::thread::current().name() == Some("uketsuke-journal");
            assert!(!(there && self.0.load(Ordering::SeqCst)), "a clock that panics");
            Timestamp::from_millis(1_800_000_000_000)
        }
    }
    let (desk, folder, clock) = (Desk::start().await, Folder::new(), Dies::default());
    let journal = Journal::builder().clock(clock.clone()).open(folder.path()).await.unwrap();
    let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), Actor::agent("a"));
    let key = client.submit(mail(), &order()).await.unwrap().key();
    clock.0.store(true, Ordering::SeqCst);
    // In its peace and quiet it writes a witness, and asks the clock: after one more record, if it had all its peace before.
    let gone = async {
        loop {
            if let Err(error) = client.submit(mail(), &order()).await {
                return error.kind();
            }
            // Asking too often would leave it no peace.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(60), gone).await;
    assert_eq!(gone, Ok(ErrorKind::Journal));
    let again = folder.client(&desk).await.submit(mail(), &order()).await.unwrap();
    assert!(matches!(again, Outcome::Succeeded(_)), "{again:?}");
    assert_eq!((again.key(), desk.keys().len()), (key, 1));
}

/// Two lock files are no lock: whoever cleans old files out of a folder must not make two writers.
#[tokio::test]
async fn a_lock_file_that_was_removed_is_noticed_before_anything_is_sent() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    fs::remove_file(folder.path().join("lock")).unwrap();
    // Another process, which opened the folder since, holds its lock and decides on the same mail.
    let other = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.path().join("lock"))
        .unwrap();
    other.lock().unwrap();
    let told = client.submit(mail(), &order()).within(Duration::from_millis(700)).await;
    assert!(
        desk.requests().is_empty(),
        "sent although another process holds the folder's lock: {told:?}"
    );
}

#[tokio::test]
async fn a_closed_journal_gives_up_its_orders() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let journal = folder.journal().await;
    journal.close().await.unwrap();
    let owned = fs::read_dir(folder.path().join("owners")).unwrap().any(|file| {
        let file = fs::OpenOptions::new().append(true).open(file.unwrap().path()).unwrap();
        file.try_lock().is_err()
    });
    assert!(!owned, "a closed journal still owns what it had in flight");
    drop(client);
}

// ---- what held ---------------------------------------------------------------------------------------------------------

#[test]
fn a_runtime_that_goes_away_in_mid_flight_strands_nothing() {
    let folder = Folder::new();
    let server = tokio::runtime::Runtime::new().unwrap();
    let desk = server.block_on(Desk::start());
    desk.script(Script::new().reply_after(Duration::from_millis(400)));
    let first = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let key = first.block_on(async {
        let client = folder.client(&desk).await;
        let error = client
            .submit(mail(), &order())
            .within(Duration::from_millis(200))
            .await
            .unwrap_err();
        error.key().unwrap()
    });
    drop(first);
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    second.block_on(async {
        let client = folder.client(&desk).await;
        let resumed = client.resume(key).await.unwrap();
        assert!(matches!(resumed, Outcome::Succeeded(_)));
    });
    assert_eq!(desk.orders().len(), 1);
    desk.assert_one_order_per_key();
}

#[tokio::test]
async fn six_processes_with_one_mail_make_one_order() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().reply_after(Duration::from_millis(100)).times(6));
    let children: Vec<_> = (0..6).map(|_| child("submit", &desk.url(), &folder.path())).collect();
    for one in children {
        let output = one.wait_with_output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("Succeeded"), "{text}");
    }
    assert_eq!(desk.keys().len(), 1);
    assert_eq!(desk.orders().len(), 1);
}

// ---- a disk whose n-th call fails ----------------------------------------------------------------------------------------

use std::{io, path::PathBuf, sync::atomic::AtomicUsize};
use uketsuke::journal::disk::{Disk, DiskFile, How, Identity, RealDisk};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    /// Nothing is done.
    Before,
    /// It is done, and an error told all the same; a write is done in part.
    After,
}

#[derive(Clone, Debug)]
struct Bad {
    calls: Arc<AtomicUsize>,
    /// 1-based; 0: never.
    at: Arc<AtomicUsize>,
    fails: Fails,
    what: Arc<std::sync::Mutex<String>>,
}

impl Bad {
    fn new(at: usize, fails: Fails) -> Self {
        Bad {
            calls: Arc::default(),
            at: Arc::new(AtomicUsize::new(at)),
            fails,
            what: Arc::default(),
        }
    }

    fn hit(&self, what: &str) -> bool {
        let n = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let hit = n == self.at.load(Ordering::SeqCst);
        if hit {
            *self.what.lock().unwrap() = what.to_owned();
        }
        hit
    }

    fn fired(&self) -> bool {
        !self.what.lock().unwrap().is_empty()
    }

    fn call<T>(&self, what: &str, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if !self.hit(what) {
            return work();
        }
        if self.fails == Fails::After {
            drop(work());
        }
        Err(io::Error::from_raw_os_error(5))
    }
}

impl Disk for Bad {
    fn make_dir(&self, folder: &Path) -> io::Result<()> {
        self.call("make_dir", || RealDisk.make_dir(folder))
    }
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = self.call(&format!("open {name} {how:?}"), || RealDisk.open(path, how))?;
        Ok(Box::new(BadFile(self.clone(), name, file)))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", || RealDisk.rename(from, to))
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("link", || RealDisk.link(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove", || RealDisk.remove(path))
    }
    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        self.call("sync_dir", || RealDisk.sync_dir(folder))
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.call("list", || RealDisk.list(folder))
    }
    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.call(&format!("identity {path:?}"), || RealDisk.identity(path))
    }
}

#[derive(Debug)]
struct BadFile(Bad, String, Box<dyn DiskFile>);

impl DiskFile for BadFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = &mut self.2;
        // In part, where it fails afterwards.
        let half = bytes.len() / 2;
        let whole = self.0.at.load(Ordering::SeqCst) != self.0.calls.load(Ordering::SeqCst) + 1;
        self.0.call(&format!("append {}", self.1), || {
            file.append(if whole { bytes } else { &bytes[..half] })
        })
    }
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.call("write_at", || self.2.write_at(at, bytes))
    }
    fn read_from(&mut self, at: u64) -> io::Result<Vec<u8>> {
        self.0.call("read_from", || self.2.read_from(at))
    }
    fn read_at(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        self.0.call("read_at", || self.2.read_at(at, len))
    }
    fn read_some(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.call("read_some", || self.2.read_some(at, into))
    }
    fn size(&self) -> io::Result<u64> {
        self.0.call("size", || self.2.size())
    }
    fn truncate(&mut self, to: u64) -> io::Result<()> {
        self.0.call("truncate", || self.2.truncate(to))
    }
    fn sync(&mut self) -> io::Result<()> {
        self.0.call(&format!("sync {}", self.1), || self.2.sync())
    }
    fn identity(&self) -> io::Result<Identity> {
        self.0.call("file identity", || self.2.identity())
    }
    fn lock(&mut self) -> io::Result<()> {
        self.0.call("lock", || self.2.lock())
    }
    fn try_lock(&mut self) -> io::Result<bool> {
        self.0.call("try_lock", || self.2.try_lock())
    }
    fn unlock(&mut self) -> io::Result<()> {
        self.0.call(&format!("unlock {}", self.1), || self.2.unlock())
    }
}

/// Whichever call to the disk fails: nobody is told what is not so, one order comes of it, and a journal opened anew goes on.
#[tokio::test(flavor = "multi_thread")]
async fn whichever_call_to_the_disk_fails_there_is_one_order_and_no_lie() {
    let mut wrong = Vec::new();
    for fails in [Fails::Before, Fails::After] {
        for at in 1.. {
            let (desk, folder, disk) = (Desk::start().await, Folder::new(), Bad::new(at, fails));
            desk.script(Script::new().status(429).commit_then_lose_reply().then_ok());
            let api = brisk(&desk.url()).build().unwrap();
            let mut told = None;
            if let Ok(journal) = Journal::builder().disk(disk.clone()).open(folder.path()).await {
                let client = OrderClient::new(journal, api.clone(), Actor::agent("a"));
                let first = tokio::time::timeout(Duration::from_secs(10), client.submit(mail(), &order()).into_future()).await;
                let Ok(first) = first else {
                    wrong.push(format!("{at} {fails:?} {}: hangs", disk.what.lock().unwrap()));
                    continue;
                };
                // A word to nobody: the book's own peace and quiet.
                if at % 4 == 0 {
                    tokio::time::sleep(Duration::from_millis(120)).await;
                }
                let effect = match &first {
                    Ok(outcome) => outcome.effect(),
                    Err(error) => error.effect(),
                };
                if effect == Effect::None && !desk.orders().is_empty() {
                    wrong.push(format!(
                        "{at} {fails:?} {}: told {first:?} of an order that stands",
                        disk.what.lock().unwrap()
                    ));
                }
                told = Some(first);
            }
            let fired = disk.fired();
            let what = disk.what.lock().unwrap().clone();
            disk.at.store(0, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            let again = async {
                let journal = Journal::builder()
                    .disk(disk.clone())
                    .open(folder.path())
                    .await
                    .map_err(|e| e.to_string())?;
                let client = OrderClient::new(journal, api, Actor::agent("a"));
                client.resume_pending().await.map_err(|e| e.to_string())?;
                client.submit(mail(), &order()).await.map_err(|e| e.to_string())
            };
            let again = tokio::time::timeout(Duration::from_secs(15), again).await;
            if !matches!(again, Ok(Ok(Outcome::Succeeded(_)))) {
                wrong.push(format!("{at} {fails:?} {what}: then {again:?} (first told {told:?})"));
            }
            if desk.keys().len() > 1 || desk.orders().len() != 1 {
                wrong.push(format!(
                    "{at} {fails:?} {what}: keys {:?}, {} orders",
                    desk.keys(),
                    desk.orders().len()
                ));
            }
            if !fired {
                println!("{fails:?}: {at} calls");
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// ---- a second look -------------------------------------------------------------------------------------------------------

/// R7: silence that was told as a no is a no for good, also where it was only told.
#[tokio::test]
async fn silence_that_was_told_as_a_no_never_waits_for_a_yes_again() {
    let clock = Hand::new();
    let (desk, folder) = (Desk::builder().dates(clock.clone()).start().await.unwrap(), Folder::new());
    let client = client_with_clock(&folder, &desk.url(), clock.clone()).await;
    let parked = client.submit(mail(), &high()).await.unwrap();
    clock.step(25);
    assert!(matches!(client.submit(mail(), &high()).await, Ok(Outcome::Denied(_))));
    clock.step(-25);
    let now = client.known(parked.key()).await.unwrap().unwrap();
    assert!(matches!(now, Outcome::Denied(_)), "told as denied, and now {now:?}");
}

#[tokio::test]
async fn silence_that_was_asked_about_stays_a_no() {
    let clock = Hand::new();
    let (desk, folder) = (Desk::builder().dates(clock.clone()).start().await.unwrap(), Folder::new());
    let client = client_with_clock(&folder, &desk.url(), clock.clone()).await;
    let parked = client.submit(mail(), &high()).await.unwrap();
    clock.step(25);
    assert!(matches!(client.known(parked.key()).await, Ok(Some(Outcome::Denied(_)))));
    clock.step(-25);
    let now = client.known(parked.key()).await.unwrap().unwrap();
    assert!(matches!(now, Outcome::Denied(_)), "told as denied, and now {now:?}");
}

/// R7, R11: the repeat guard let a second order pass because the first had expired; a clock that is put back must not have both wait for a yes.
#[tokio::test]
async fn an_expired_order_without_origin_that_was_placed_anew_never_waits_for_a_yes_again() {
    let clock = Hand::new();
    let (desk, folder) = (Desk::builder().dates(clock.clone()).start().await.unwrap(), Folder::new());
    let client = client_with_clock(&folder, &desk.url(), clock.clone()).await;
    let first = client.submit(Origin::unknown(), &high()).await.unwrap();
    clock.step(25);
    let second = client.submit(Origin::unknown(), &high()).await.unwrap();
    assert_ne!(first.key(), second.key());
    clock.step(-25);
    let now = client.known(first.key()).await.unwrap().unwrap();
    assert!(matches!(now, Outcome::Denied(_)), "two orders wait for a yes: {now:?}");
}

/// A provider that takes its time with the second credential: `slow` happens meanwhile.
#[derive(Clone)]
struct Slow {
    asked: Arc<AtomicI64>,
    slow: Arc<dyn Fn() + Send + Sync>,
    moved: Arc<AtomicBool>,
}

impl Slow {
    fn new(slow: impl Fn() + Send + Sync + 'static) -> Self {
        Slow {
            asked: Arc::default(),
            slow: Arc::new(slow),
            moved: Arc::default(),
        }
    }
}

impl Credentials for Slow {
    fn current(&self) -> BoxFuture<'_, Result<Credential, CredentialError>> {
        Box::pin(async {
            if self.asked.fetch_add(1, Ordering::SeqCst) == 1 {
                (self.slow)();
            }
            Ok(Credential::bearer("t").unwrap())
        })
    }
    fn scope(&self) -> Option<String> {
        Some(if self.moved.load(Ordering::SeqCst) { "two" } else { "one" }.to_owned())
    }
}

/// R8: the age is looked at right before the request, not before a provider that may take its time.
#[tokio::test]
async fn a_credential_that_takes_longer_than_the_retention_has_nothing_sent() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().times(4));
    let clock = Hand::new();
    let time = clock.clone();
    let api = brisk(&desk.url()).credentials(Slow::new(move || time.step(30))).build().unwrap();
    let journal = Journal::builder().clock(clock).open(folder.path()).await.unwrap();
    let client = OrderClient::new(journal, api, Actor::agent("a"));
    let told = client.submit(mail(), &order()).await;
    assert_eq!(desk.requests().len(), 1, "sent again after 30 hours: {told:?}");
    assert!(matches!(told, Ok(Outcome::NeedsReview(_))), "{told:?}");
}

/// R9: the account is looked at after the credential was given, too.
#[tokio::test]
async fn a_credential_that_comes_from_another_account_has_nothing_sent() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().times(4));
    let moved = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&moved);
    let mut provider = Slow::new(move || switch.store(true, Ordering::SeqCst));
    provider.moved = moved;
    let api = brisk(&desk.url()).credentials(provider).build().unwrap();
    let client = OrderClient::new(folder.journal().await, api, Actor::agent("a"));
    let told = client.submit(mail(), &order()).await;
    assert_eq!(desk.requests().len(), 1, "the key went out under a second account: {told:?}");
}

/// R8: the turn in which an attempt is written down may have been long in coming.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_was_locked_for_longer_than_the_retention_has_nothing_sent() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().times(4));
    let clock = Hand::new();
    let (time, lock) = (clock.clone(), folder.path().join("lock"));
    let slow = move || {
        let other = fs::OpenOptions::new().append(true).open(&lock).unwrap();
        other.lock().unwrap();
        let time = time.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            time.step(30);
            other.unlock().unwrap();
        });
    };
    let api = brisk(&desk.url()).credentials(Slow::new(slow)).build().unwrap();
    let journal = Journal::builder().clock(clock).open(folder.path()).await.unwrap();
    let client = OrderClient::new(journal, api, Actor::agent("a"));
    let told = client.submit(mail(), &order()).await;
    assert_eq!(desk.requests().len(), 1, "sent again after 30 hours: {told:?}");
    assert!(matches!(told, Ok(Outcome::NeedsReview(_))), "{told:?}");
}

/// A key that was mistyped, or asked for in another journal, is not told as an order that was never placed.
#[tokio::test]
async fn an_unknown_key_is_not_told_as_nothing_happened() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let told = folder.client(&desk).await.resume(K0.parse().unwrap()).await;
    let reply = ToolReply::of(&told);
    assert_ne!(reply.effect, Effect::None, "{reply:?}");
    assert!(!reply.next_step.contains("submit"), "{reply:?}");
}

#[tokio::test]
async fn exists_already_is_not_told_as_nothing_was_registered_whatever_the_status() {
    for (status, code) in [(400, "duplicate_order"), (403, "order_already_exists"), (412, "duplicate_order")] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        desk.script(Script::new().commit_then_reply(Reply::problem(status, code, "it stands as ord-7")));
        let told = folder.client(&desk).await.submit(mail(), &order()).await;
        assert!(matches!(told, Ok(Outcome::NeedsReview(_))), "{status}: told {told:?}");
    }
}

#[tokio::test]
async fn a_drift_does_not_name_the_key_that_the_dialect_wants_in_the_body() {
    let folder = Folder::new();
    let dialect = Dialect::ietf().key(KeyPlace::BodyMember("/client_order_id".to_owned()));
    let api = brisk("http://127.0.0.1:9").dialect(dialect).build().unwrap();
    let client = OrderClient::new(folder.journal().await, api, Actor::agent("a"));
    drop(client.submit(mail(), &json_order(r#"{"sku":"A","qty":1}"#)).await);
    let error = client
        .submit(mail(), &json_order(r#"{"sku":"A","qty":2}"#))
        .await
        .map(drop)
        .unwrap_err();
    let fields: Vec<_> = error.changes().iter().map(|c| c.field.as_str()).collect();
    assert_eq!(fields, ["qty"], "{error}");
}

/// R12: an origin that was closed because its claim was torn stays closed, whatever call of the mending was the last.
#[tokio::test]
async fn an_origin_whose_claim_was_torn_stays_closed_however_mending_ends() {
    let desk = Desk::start().await;
    let claim = || claim_of_at(&desk);
    let mut wrong = Vec::new();
    for behind in [false, true] {
        let torn = Folder::new();
        drop(torn.journal().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
        append(&torn.path(), &[claim().await]);
        let end = fs::metadata(torn.log()).unwrap().len() as usize;
        if behind {
            append(&torn.path(), &[rec(K1, "open", "taken_over", json!({ "owner": THEM }))]);
        }
        let mut bytes = fs::read(torn.log()).unwrap();
        // A sector in the claim's middle is lost; its origin can be read.
        bytes[end - 300..end - 200].fill(0);
        let prepared = |bytes: &[u8]| {
            let folder = Folder::new();
            fs::create_dir_all(folder.path()).unwrap();
            fs::write(folder.log(), bytes).unwrap();
            folder
        };
        let sends = |folder: Folder, what: String| {
            let desk = &desk;
            async move {
                let before = desk.requests().len();
                let told = match Journal::open(folder.path()).await {
                    Err(error) => format!("{error}"),
                    Ok(journal) => {
                        let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), Actor::agent("a"));
                        format!("{:?}", client.submit(mail(), &order()).await)
                    }
                };
                (desk.requests().len() != before).then(|| format!("{what}: {told}"))
            }
        };
        // Killed, or refused by the disk, at any call.
        for fails in [Fails::Before, Fails::After] {
            for at in 1.. {
                let (folder, disk) = (prepared(&bytes), Bad::new(at, fails));
                drop(Journal::builder().disk(disk.clone()).open(folder.path()).await);
                tokio::time::sleep(Duration::from_millis(2)).await;
                let what = format!("{behind} {fails:?} {at} {}", disk.what.lock().unwrap());
                wrong.extend(sends(folder, what).await);
                if !disk.fired() {
                    break;
                }
            }
        }
        // A power cut in the middle of what it writes.
        let whole = prepared(&bytes);
        drop(whole.journal().await);
        let mended = fs::read(whole.log()).unwrap();
        let copy = fs::read_dir(whole.path().join("archive")).unwrap().next().unwrap().unwrap().path();
        let from = (0..bytes.len()).find(|at| bytes.get(*at) != mended.get(*at)).unwrap();
        for cut in (from..mended.len().min(end)).step_by(11) {
            let mut mixed = mended[..cut].to_vec();
            mixed.extend_from_slice(bytes.get(cut..).unwrap_or_default());
            let folder = prepared(&mixed);
            fs::create_dir_all(folder.path().join("archive")).unwrap();
            fs::copy(&copy, folder.path().join("archive").join(copy.file_name().unwrap())).unwrap();
            wrong.extend(sends(folder, format!("{behind} cut at {cut}")).await);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn claim_of_at(desk: &Desk) -> Rec {
    claim_of(&order(), &desk.url(), K0, THEM, None).await
}

/// R9: two users' clients of one api share a journal; neither sends what may have landed under the other's account.
#[tokio::test]
async fn an_order_that_may_have_landed_is_not_sent_again_under_another_accounts_bearer() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().times(4));
    let journal = folder.journal().await;
    let user = |account: Option<&str>, token| {
        let api = brisk(&desk.url()).bearer(token);
        let api = account.map_or_else(|| brisk(&desk.url()).bearer(token), |account| api.account(account));
        OrderClient::new(journal.clone(), api.build().unwrap(), Actor::agent("a"))
    };
    let key = user(Some("alice"), "t1").submit(mail(), &order()).await.unwrap_err().key().unwrap();
    let sent = desk.requests().len();
    // Neither another account, nor a client that names none.
    for stranger in [user(Some("bob"), "t2"), user(None, "t3")] {
        let told = stranger.resume(key).await.unwrap();
        assert!(matches!(told, Outcome::NeedsReview(_)), "{told:?}");
        assert_eq!(desk.requests().len(), sent, "alice's order went out under another's token");
    }
    assert!(brisk(&desk.url()).account(" ").build().is_err());
}

/// R9: a new token of the same account is no other account.
#[tokio::test]
async fn a_new_token_of_the_same_account_goes_on() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().times(4));
    let journal = folder.journal().await;
    let with = |token| {
        let api = brisk(&desk.url()).bearer(token).account("alice").build().unwrap();
        OrderClient::new(journal.clone(), api, Actor::agent("a"))
    };
    let key = with("old").submit(mail(), &order()).await.unwrap_err().key().unwrap();
    assert!(matches!(with("new").resume(key).await, Ok(Outcome::Succeeded(_))));
    desk.assert_one_order_per_key();
}

/// R6: a log that can't be looked at is not missing, and never replaced by a new one.
#[tokio::test]
async fn a_log_that_cannot_be_looked_at_is_not_made_anew() {
    let (desk, whole) = (Desk::start().await, Folder::new());
    drop(whole.client(&desk).await.submit(mail(), &order()).await.unwrap());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let log = fs::read(whole.log()).unwrap();
    for at in 1..12 {
        // Restored from a backup: the log alone.
        let folder = Folder::new();
        fs::create_dir_all(folder.path()).unwrap();
        fs::write(folder.log(), &log).unwrap();
        drop(Journal::builder().disk(Bad::new(at, Fails::Before)).open(folder.path()).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(
            fs::read(folder.log()).unwrap().starts_with(&log),
            "call {at} failed, and the log is gone"
        );
    }
}

/// R8: a wall clock that was put back within one boot makes no key young again.
#[tokio::test]
async fn a_wall_clock_put_back_within_one_boot_makes_no_key_young_again() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().times(4));
    let up = Arc::new(AtomicI64::new(1_000_000));
    let clock = Hand(Arc::new(AtomicI64::new(1_800_000_000_000)), Some(Arc::clone(&up)));
    let client = client_with_clock(&folder, &desk.url(), clock.clone()).await;
    let key = client.submit(mail(), &order()).await.unwrap_err().key().unwrap();
    let sent = desk.requests().len();
    // 30 hours, of which the wall clock was put back 20.
    up.fetch_add(30 * 3_600_000, Ordering::SeqCst);
    clock.step(10);
    let told = client.resume(key).await;
    assert_eq!(desk.requests().len(), sent, "sent again after 30 hours: {told:?}");
    assert!(matches!(told, Ok(Outcome::NeedsReview(_))), "{told:?}");
}
