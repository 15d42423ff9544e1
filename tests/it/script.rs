//! Faults as a script: what each step does to a real request, whose step it is, and the one grammar it is read and written in.
//!
//! Nothing here waits for time to pass, except for an answer; where something must not have happened yet, the next request says so.

use crate::kit::plain_client;
use proptest::prelude::*;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use std::time::Duration;
use uketsuke::testkit::*;

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
const OTHER_KEY: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
const THIRD_KEY: &str = "5a2f7c9e-3d54-4c1e-9d7a-0b1c2d3e4f50";
const ORDER: &str = r#"{"customer":"C-100"}"#;
const HOUR: Duration = Duration::from_secs(3600);

// ---- the grammar ---------------------------------------------------------------------------------------------------

#[test]
fn every_word_is_the_builder_call_it_stands_for() {
    let odd = Reply::status(503).header("X-A", "b c").body("text/plain", "hallo");
    let bytes = Reply::json(200, json!(1)).body("application/octet-stream", [0_u8, 255]);
    let new = Script::new;
    for (text, built) in [
        ("", new()),
        (" ; \n# nothing\n;", new()),
        ("ok", new().then_ok()),
        ("503", new().status(503)),
        ("429 retry-after 3", new().reply(Reply::status(429).retry_after("3"))),
        (
            "503 retry-after \"Wed, 21 Oct 2026 07:28:00 GMT\"",
            new().reply(Reply::status(503).retry_after("Wed, 21 Oct 2026 07:28:00 GMT")),
        ),
        ("unauthorized", new().unauthorized()),
        ("redirect 307 /elsewhere", new().redirect(307, "/elsewhere")),
        ("lose request", new().lose_request()),
        ("lose  reply", new().commit_then_lose_reply()),
        ("commit 504", new().commit_then_status(504)),
        ("commit 503 unstored", new().commit_then_forget(503)),
        ("accepted", new().accepted()),
        ("late 200ms", new().reply_after(Duration::from_millis(200))),
        ("late 1.5s", new().reply_after(Duration::from_millis(1500))),
        ("slow 2m", new().slow(Duration::from_secs(120))),
        ("stuck", new().get_stuck()),
        ("refuse", new().refuse()),
        ("store 500", new().store_status(500)),
        ("clock +24h", new().turn_clock(86_400_000)),
        ("clock -5m", new().turn_clock(-300_000)),
        ("expire credential", new().expire_credential()),
        (
            r#"reply {"status":503,"headers":[["X-A","b c"],["Content-Type","text/plain"]],"body":"hallo"}"#,
            new().reply(odd.clone()),
        ),
        (
            "commit reply {\"status\":200,\n\"headers\":[[\"Content-Type\",\"application/octet-stream\"]],\"bytes\":[0,255]}",
            new().commit_then_reply(bytes),
        ),
        ("ok x3", new().then_ok().times(3)),
        ("(503; ok) x2\nok x0 # none", new().flapping(503, 2)),
        ("((ok x2)x2)", new().then_ok().times(4)),
        ("order 3: lose reply", new().for_order(3, new().commit_then_lose_reply())),
        (
            "order 1: (lose reply; 503 x2); ok",
            new().for_order(1, new().commit_then_lose_reply().status(503).times(2)).then_ok(),
        ),
        ("key 8e03: stuck", new().for_key("8e03", new().get_stuck())),
        ("key \"a: b\" : stuck", new().for_key("a: b", new().get_stuck())),
        (
            "seed 42; 20%: lose reply",
            new().sometimes(20.0, new().commit_then_lose_reply()).seed(42),
        ),
        ("0.25%: 503", new().sometimes(0.25, new().status(503))),
    ] {
        assert_eq!(
            text.parse::<Script>().unwrap_or_else(|bad| panic!("{text}: {bad}")),
            built,
            "{text}"
        );
        assert_eq!(built.to_string().parse::<Script>().unwrap(), built, "{text}, as {built}");
    }
}

#[test]
fn a_bad_script_says_what_is_wrong_where_and_what_would_be_right() {
    for (text, line, column, what, right) in [
        ("lsoe reply", 1, 1, "`lsoe` is no step", "did you mean `lose reply`?"),
        ("ok\n lose rpely", 2, 2, "`lose rpely` is no step", "did you mean `lose reply`?"),
        ("stuk", 1, 1, "`stuk`", "did you mean `stuck`?"),
        ("flapping", 1, 1, "`flapping`", "a step is one of `ok`, `503`,"),
        ("99", 1, 1, "`99` is no final HTTP status", "200 to 999"),
        ("ok; commit 100", 1, 12, "`100` is no final HTTP status", "200 to 999"),
        ("5O3", 1, 1, "`5O3` is no final", "200 to 999"),
        ("503 ok", 1, 5, "`o` where a step has ended", "a `;`"),
        ("ok x3 x3", 1, 7, "`x` where a step has ended", "a `;`"),
        ("late soon", 1, 6, "`soon` is no duration", "`200ms`"),
        ("clock 5m", 1, 7, "`5m`", "`clock +24h`"),
        ("clock +0.5ms", 1, 7, "`+0.5ms`", "whole milliseconds"),
        ("(ok", 1, 1, "no end", "a `)`"),
        ("( ) x3", 1, 1, "an empty group", "at least one step"),
        ("ok)", 1, 3, "`)`", "a `;`"),
        ("ok; order 3: ok", 1, 5, "behind a step", "before the sequence"),
        ("order 0: ok", 1, 7, "`order 0`", "from 1"),
        ("order 3 ok", 1, 9, "`o`", "a `:`"),
        ("120%: ok", 1, 1, "`120%`", "0% to 100%"),
        ("ok x10001", 1, 4, "too many steps", "10,000"),
        ("((ok x200) x200) x0", 1, 2, "too many steps", "10,000"),
        ("(((((((((ok)))))))))", 1, 9, "too deep", "eight"),
        ("reply {\"status\":503,\"b\":1}", 1, 23, "unknown field `b`", "\"headers\""),
        ("reply {\"status\":100}", 1, 7, "100 is no final HTTP status", "\"headers\""),
        ("reply 503", 1, 7, "`5`", "JSON"),
        ("redirect 307 \"a\\nb\"", 1, 13, "no header line", "header line"),
        ("commit", 1, 7, "the end", "`commit 504`"),
        ("レ", 1, 1, "`レ`", "a step is one of"),
    ] {
        let bad = text.parse::<Script>().expect_err(text);
        assert_eq!((bad.line, bad.column), (line, column), "{text}: {bad}");
        assert!(bad.what.contains(what) && bad.right.contains(right), "{text}: {bad}");
    }
}

fn steps() -> impl Strategy<Value = Script> {
    let step = (
        0..17_u8,
        any::<u16>(),
        ".{0,6}",
        any::<i64>(),
        any::<Duration>(),
        any::<Vec<u8>>(),
        0..4_u32,
    );
    let step = step.prop_map(|(what, code, text, millis, span, body, times)| {
        let new = Script::new();
        let code = if code % 2 == 0 { code } else { 200 + code % 800 };
        let full = || Reply::status(code).header(&text, "a").body("b", body.clone());
        let one = match what {
            0 => new.then_ok(),
            1 => new.status(code),
            2 => new.reply(Reply::status(code).retry_after(&text)),
            3 => new.unauthorized(),
            4 => new.redirect(code, &text),
            5 => new.lose_request(),
            6 => new.commit_then_lose_reply(),
            7 => new.commit_then_status(code),
            8 => new.commit_then_forget(full()),
            9 => new.accepted(),
            10 => new.reply_after(span),
            11 => new.slow(span),
            12 => new.get_stuck(),
            13 => new.store_reply(full()),
            14 => new.turn_clock(millis),
            15 => new.expire_credential(),
            _ => new.reply(Reply::status(code).header("X-Odd", &text).body("text/plain", text.as_str())),
        };
        (one, times)
    });
    // A list of steps is written through text, since scripts do not append; `every_word_…` holds the words to the builder.
    prop::collection::vec(step, 0..6).prop_map(|steps| {
        let text: Vec<String> = steps.iter().map(|(step, times)| step.clone().times(*times).to_string()).collect();
        for (step, _) in &steps {
            assert_eq!(&step.to_string().parse::<Script>().unwrap(), step, "{step}");
        }
        text.join(";").parse().unwrap()
    })
}

fn scripts() -> impl Strategy<Value = Script> {
    let rules = prop::collection::vec((0..3_u8, 0..5_usize, ".{0,5}", -1.0..101.0_f64, steps()), 0..4);
    (rules, any::<u64>(), steps()).prop_map(|(rules, seed, sequence)| {
        let script: Script = sequence;
        rules
            .into_iter()
            .fold(script.seed(seed), |script, (what, n, key, percent, steps)| match what {
                0 => script.for_order(n, steps),
                1 => script.for_key(&key, steps),
                _ => script.sometimes(percent, steps),
            })
    })
}

proptest! {
    #[test]
    fn every_script_reads_back_as_it_is_written(script in scripts()) {
        let text = script.to_string();
        let read = text.parse::<Script>();
        prop_assert!(read.as_ref().is_ok_and(|read| *read == script), "{text}: {read:?}");
        prop_assert_eq!(read.unwrap().to_string(), text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(?s).{0,60}") {
        if let Ok(script) = text.parse::<Script>() {
            prop_assert_eq!(script.to_string().parse::<Script>().unwrap(), script);
        }
    }

    #[test]
    fn no_text_of_its_own_words_makes_the_reader_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "ok", "503", "(", ")", "x3", "x0", "x9999", ";", "\n", "order", "3", ":", "key", "20%", "seed", "lose", "reply", "commit", "\"", "{",
            "}", "{\"status\":200}", "late", "1.5s", "clock", "+1h", "-", "#", "retry-after", "unstored", "é", "\\",
        ]), 0..14),
        between in prop::sample::select(vec!["", " "]),
    ) {
        let text = words.join(between);
        if let Ok(script) = text.parse::<Script>() {
            prop_assert_eq!(script.to_string().parse::<Script>().unwrap(), script, "{}", text);
        }
    }
}

// ---- each step over HTTP -------------------------------------------------------------------------------------------

#[tokio::test]
async fn steps_before_the_commit_leave_nothing() {
    let desk = playing("503; 429 retry-after 3; unauthorized; redirect 307 /elsewhere; lose request; reply {\"status\":418}").await;
    for expected in [Some(503), Some(429), Some(401), Some(307), None, Some(418)] {
        assert_eq!(status(&desk, KEY).await, expected);
        assert!(desk.orders().is_empty() && desk.rows().is_empty());
    }
    assert_eq!(status(&desk, KEY).await, Some(201));
    desk.assert_script_played();
}

#[tokio::test]
async fn steps_behind_the_commit_leave_an_order_that_the_retry_gets() {
    for (step, heard) in [
        ("lose reply", None),
        ("commit 504", Some(504)),
        ("commit reply {\"status\":204}", Some(204)),
        ("accepted", Some(202)),
        ("late 1ms", Some(201)),
        ("slow 1ms", Some(201)),
    ] {
        let desk = playing(step).await;
        assert_eq!(status(&desk, KEY).await, heard, "{step}");
        desk.assert_exactly_one_order(|order| order["customer"] == "C-100");
        assert_eq!(desk.requests()[0].did, Did::Claimed, "{step}");
        assert!(is_replay(&post(&desk, KEY).await), "{step}");
        desk.assert_one_order_per_key();
    }
}

#[tokio::test]
async fn steps_in_the_ledger_place_nothing_and_are_remembered() {
    for (step, heard, again) in [
        ("refuse", Some(422), 422),
        ("store 500", Some(500), 500),
        ("store reply {\"status\":409}", Some(409), 409),
        ("stuck", None, 409),
    ] {
        let desk = playing(step).await;
        assert_eq!(status(&desk, KEY).await, heard, "{step}");
        assert_eq!(status(&desk, KEY).await, Some(again), "{step}");
        assert!(desk.orders().is_empty(), "{step}");
    }
}

#[tokio::test]
async fn a_commit_that_is_not_stored_makes_the_retry_a_second_order() {
    let desk = playing("commit 503 unstored").await;
    assert_eq!(status(&desk, KEY).await, Some(503));
    assert_eq!((desk.orders().len(), desk.rows().len()), (1, 0), "placed, and forgotten");
    assert_eq!(status(&desk, KEY).await, Some(201));
    assert_eq!(desk.orders().len(), 2);
    let said = failure(|| desk.assert_one_order_per_key());
    assert!(said.contains("took effect 2 times, by #1, #2"), "{said}");
    assert_eq!(desk.requests()[0].did, Did::NotStored);
}

#[tokio::test]
async fn flapping_is_bad_and_good_in_turn() {
    let desk = Desk::start().await;
    desk.script(Script::new().flapping(503, 2));
    let mut heard = Vec::new();
    for key in [KEY, KEY, OTHER_KEY, OTHER_KEY, THIRD_KEY] {
        heard.push(status(&desk, key).await.unwrap());
    }
    assert_eq!(heard, [503, 201, 503, 201, 201]);
}

#[tokio::test]
async fn the_clock_turns_before_the_request_behind_it_and_takes_none() {
    let mut terms = Terms::default();
    terms.forget_after = Some(24 * HOUR);
    let desk = Desk::builder().terms(terms).start().await.unwrap();
    desk.script("ok; ok; clock +23h; clock +61m; ok; ok".parse().unwrap());
    let mut replayed = Vec::new();
    for _ in 0..4 {
        replayed.push(is_replay(&post(&desk, KEY).await));
    }
    assert_eq!(replayed, [false, true, false, true], "forgotten after the second request");
    assert_eq!(desk.requests()[2].played.as_deref(), Some("clock +23h; clock +61m; ok"));
    desk.assert_script_played();
}

#[tokio::test]
async fn an_expired_credential_is_refused_until_another_comes() {
    let desk = playing("expire credential; 503; ok").await;
    let with = |credential: &str| order(&desk, KEY).header("Authorization", credential);
    for _ in 0..3 {
        assert_eq!(sent(with("Bearer old")).await, Some(401));
    }
    let lookup = plain_client().get(format!("{}/orders/ord-1", desk.url()));
    assert_eq!(sent(lookup.header("Authorization", "Bearer old")).await, Some(401));
    assert_eq!(desk.script_left(), 2, "a refusal is no step");
    assert_eq!(sent(with("Bearer new")).await, Some(503));
    assert_eq!(sent(with("Bearer old")).await, Some(401), "it stays expired");
    assert_eq!(sent(with("Bearer new")).await, Some(201));
    desk.assert_script_played();
}

// ---- slow work -----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn slow_work_is_processing_and_unseen_until_it_is_done() {
    let desk = playing("lose request; slow 1h").await;
    assert_eq!(status(&desk, KEY).await, None);
    let first = send_and_wait_for_it(&desk, 2).await;
    assert_eq!(status(&desk, KEY).await, Some(409));
    assert!(desk.orders().is_empty());
    for path in [format!("by-key/{KEY}"), "ord-1".to_owned()] {
        let lookup = plain_client().get(format!("{}/orders/{path}", desk.url()));
        assert_eq!(sent(lookup).await, Some(if path == "ord-1" { 404 } else { 409 }), "{path}");
    }
    assert_eq!(desk.row(KEY).unwrap().state, RowState::Processing);
    assert_eq!(status(&desk, OTHER_KEY).await, Some(201), "others are served meanwhile");
    desk.finish(KEY).unwrap();
    assert_eq!(desk.orders()[0]["order_id"], "ord-1", "its number was given when it came");
    let replay = post(&desk, KEY).await;
    assert!(is_replay(&replay));
    let body: Value = serde_json::from_slice(&replay.bytes().await.unwrap()).unwrap();
    assert_eq!(body["order_id"], "ord-1");
    desk.assert_one_order_per_key();
    assert!(!first.is_finished());
    first.abort();
}

#[tokio::test]
async fn a_desk_that_waits_gives_the_second_caller_the_replay_when_the_first_is_done() {
    // Long enough that the second is there before the first is done; were it not, it would get the replay all the same.
    let desk = Desk::builder().waits(HOUR).start().await.unwrap();
    desk.script("slow 300ms".parse().unwrap());
    let first = send_and_wait_for_it(&desk, 1).await;
    let second = post(&desk, KEY).await;
    assert_eq!((second.status().as_u16(), is_replay(&second)), (201, true));
    let first = first.await.unwrap().unwrap();
    assert_eq!((first.status().as_u16(), is_replay(&first)), (201, false));
    assert_eq!(first.bytes().await.unwrap(), second.bytes().await.unwrap());
    desk.assert_exactly_one_order(|_| true);
}

#[tokio::test]
async fn a_desk_that_waits_says_409_when_it_takes_too_long_or_for_ever() {
    let desk = Desk::builder().waits(Duration::from_millis(1)).start().await.unwrap();
    desk.script(format!("key {KEY}: slow 1h; key {OTHER_KEY}: stuck").parse().unwrap());
    let first = send_and_wait_for_it(&desk, 1).await;
    assert_eq!(status(&desk, KEY).await, Some(409));
    assert_eq!(status(&desk, OTHER_KEY).await, None);
    assert_eq!(status(&desk, OTHER_KEY).await, Some(409));
    first.abort();
}

// ---- rules ---------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_rule_for_an_order_counts_distinct_keys_and_has_a_sequence_of_its_own() {
    let desk = playing("order 2: (503; 502); 500; ok").await;
    let mut heard = Vec::new();
    for key in [KEY, OTHER_KEY, KEY, OTHER_KEY, OTHER_KEY] {
        heard.push(status(&desk, key).await.unwrap());
    }
    assert_eq!(heard, [500, 503, 201, 502, 201]);
    desk.assert_script_played();
}

#[tokio::test]
async fn a_rule_for_a_key_is_for_no_other_and_what_is_left_of_it_counts() {
    let desk = playing(&format!("key {KEY}: 503 x2; 100%: 502")).await;
    assert_eq!(status(&desk, OTHER_KEY).await, Some(502));
    assert_eq!(status(&desk, KEY).await, Some(503));
    assert_eq!(desk.script_left(), 1, "what happens sometimes does not count");
    assert_eq!(status(&desk, KEY).await, Some(503));
    assert_eq!(status(&desk, KEY).await, Some(502), "the next rule that is for it");
    desk.assert_script_played();
}

#[tokio::test]
async fn chance_is_the_same_in_every_run_and_another_with_another_seed() {
    let heard = async |script: &str| {
        let desk = playing(script).await;
        let mut heard = String::new();
        for _ in 0..40 {
            heard.push(if status(&desk, KEY).await == Some(503) { 'x' } else { '.' });
        }
        heard
    };
    let first = heard("25%: 503").await;
    assert_eq!(first, CHANCE, "the series is the same for ever");
    assert_ne!(heard("seed 1; 25%: 503").await, first);
    assert!(!heard("0%: 503").await.contains('x'));
}

// From an independent SplitMix64, that says e220a8397b1dcdaf for 0.
const CHANCE: &str = "xxxxx..xx....xxx.x...x.x...x....x.x...x.";

// ---- the story, and the wire -------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_failed_assertion_tells_each_request_with_the_step_that_was_played_on_it() {
    let desk = playing("lose reply; 429 retry-after 3").await;
    for key in [KEY, KEY, KEY, OTHER_KEY] {
        drop(order(&desk, key).header("X-Request-Id", "r-1").send().await);
    }
    let said = failure(|| desk.assert_exactly_one_order(|_| true));
    assert!(
        said.starts_with("exactly one order: there are 2\n  {\"customer\":\"C-100\""),
        "{said}"
    );
    let hash = &desk.requests()[0].body_hash;
    let line = |n, key, rest| format!("#{n} POST /orders | key {key} | request id r-1 | body {hash} | ledger: {rest}");
    for line in [
        line(1, KEY, "claimed, done and stored | closed without an answer | script: lose reply\n"),
        line(2, KEY, "untouched | answered 429 | script: 429 retry-after 3\n"),
        line(3, KEY, "stored answer replayed | answered 201, replayed\n"),
        line(4, OTHER_KEY, "claimed, done and stored | answered 201"),
    ] {
        assert!(said.contains(&line), "{line} is missing in: {said}");
    }
    let desk = playing("").await;
    assert!(failure(|| desk.assert_exactly_one_order(|_| true)).contains("there are 0"));
    post(&desk, KEY).await;
    assert!(failure(|| desk.assert_exactly_one_order(|_| false)).contains("it is not like that\n  {"));
}

#[tokio::test]
async fn every_break_of_the_wire_composes_with_a_script() {
    let reset = HangUp::Reset;
    for (breaks, reaches) in [
        (Breaks::new().hang_up(reset), false),
        (Breaks::new().hang_up(HangUp::Fin), false),
        (Breaks::new().lose_request(HangUp::Fin), false),
        (Breaks::new().cut_request(60, reset), false),
        (Breaks::new().black_hole(), false),
        (Breaks::new().lose_reply(HangUp::Fin), true),
        (Breaks::new().cut_reply(9, reset), true),
        (Breaks::new().stall_reply(9), true),
    ] {
        let desk = playing("503; ok").await;
        let link = desk.behind(breaks.clone().pass()).await;
        let sent = order_to(&link.url(), KEY).timeout(Duration::from_millis(400)).send().await;
        // A reply that stalls or is cut behind its status is an error of the body, or of the head.
        assert!(sent.is_err(), "{breaks:?}");
        let next = order_to(&link.url(), KEY).send().await.unwrap();
        assert_eq!(next.status(), if reaches { 201 } else { 503 }, "{breaks:?}");
        assert_eq!(desk.orders().len(), usize::from(reaches), "{breaks:?}");
    }
    let desk = playing("503; ok").await;
    let link = desk.behind(Breaks::new().drip_body(Duration::from_millis(1))).await;
    assert_eq!(sent(order_to(&link.url(), KEY)).await, Some(503));
    link.go_down().await;
    assert!(order_to(&link.url(), KEY).send().await.unwrap_err().is_connect(), "refused");
    assert_eq!(desk.script_left(), 1);
}

// ---- helpers -------------------------------------------------------------------------------------------------------

async fn playing(script: &str) -> Desk {
    let desk = Desk::start().await;
    desk.script(script.parse().unwrap());
    desk
}

fn order(desk: &Desk, key: &str) -> RequestBuilder {
    order_to(&desk.url(), key)
}

/// The client is new, so no pooled connection is tried twice behind our back.
fn order_to(url: &str, key: &str) -> RequestBuilder {
    let patience = Duration::from_secs(20); // for a desk that is broken; no test that passes waits so long
    let request = plain_client().post(format!("{url}/orders")).timeout(patience);
    request.header("Idempotency-Key", key).body(ORDER)
}

async fn post(desk: &Desk, key: &str) -> Response {
    order(desk, key).send().await.unwrap()
}

/// The status, or `None` for a connection that was closed.
async fn status(desk: &Desk, key: &str) -> Option<u16> {
    sent(order(desk, key)).await
}

async fn sent(request: RequestBuilder) -> Option<u16> {
    request.send().await.ok().map(|answer| answer.status().as_u16())
}

/// Sends an order whose answer takes its time, and comes back when the desk has it as its `n`-th request. A request is decided before the next
/// one is looked at, so whoever sends now finds its key taken.
async fn send_and_wait_for_it(desk: &Desk, n: usize) -> tokio::task::JoinHandle<reqwest::Result<Response>> {
    let sent = tokio::spawn(order(desk, KEY).send());
    while desk.requests().len() < n {
        tokio::task::yield_now().await;
    }
    sent
}

fn is_replay(answer: &Response) -> bool {
    answer.headers().contains_key("idempotent-replayed")
}

#[track_caller]
fn failure(assertion: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(assertion)).expect_err("the assertion held");
    *panic.downcast::<String>().expect("a story")
}
