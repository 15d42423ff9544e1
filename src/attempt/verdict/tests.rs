//! The table of verdicts, which is their documentation; and what a lookup shows.

use super::*;
use crate::attempt::lookup::looked;
use crate::{
    actor::Actor,
    answer::NoAnswer,
    clock::Timestamp,
    ids::OwnerId,
    intent::{Draft, Lineage, Terms},
    lifecycle::{Claimed, Event},
    operation::{Impact, Operation, OrderRef, Route},
    order::{AmendOrder, Base, CancelOrder, JsonOrder, OrderReceipt, PlaceOrder},
    origin::Origin,
    ruling::{Because, Ruling},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

// The facts.

const ORDER: &str = r#"{"order_id":"ord-1","status":"accepted","customer":"C-100","items":[{"sku":"SKU-1","quantity":2}]}"#;

fn head(status: u16, headers: &[(&str, &str)]) -> Head {
    let pairs = headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()));
    Head::new(StatusCode::from_u16(status).unwrap(), HeaderMap::from_iter(pairs))
}

/// A whole answer with more headers than its content type.
fn with(status: u16, headers: &[(&str, &str)], body: &str) -> Observed {
    let mut headers = headers.to_vec();
    headers.push(("content-type", "application/json"));
    Observed::Answered(Answer::new(head(status, &headers), Bytes::copy_from_slice(body.as_bytes())))
}

fn json(status: u16, body: &str) -> Observed {
    with(status, &[], body)
}

fn bare(status: u16) -> Observed {
    Observed::Answered(Answer::new(head(status, &[]), Bytes::new()))
}

fn page(status: u16) -> Observed {
    let html = Bytes::from_static(b"<html>Please sign in</html>");
    Observed::Answered(Answer::new(head(status, &[("content-type", "text/html")]), html))
}

fn code(status: u16, code: &str) -> Observed {
    json(status, &format!(r#"{{"code":"{code}"}}"#))
}

fn half(half: Half) -> Observed {
    Observed::HalfAnswer(head(201, &[]), half)
}

// The history.

const MINE: &str = "11111111-1111-4111-8111-111111111111";
const THEIRS: &str = "22222222-2222-4222-8222-222222222222";

/// An order whose success must name an order.
#[derive(Serialize)]
struct Strict;

impl Operation for Strict {
    type Receipt = OrderReceipt;
    const NAME: &'static str = "strict";
    const RECEIPT_HAS: &'static [&'static str] = &["/order_id"];
    fn route(&self) -> Route {
        Route::post("orders")
    }
}

fn draft(op: &impl Operation) -> Draft {
    let dialect = Dialect::ietf();
    let terms = Terms {
        api: "desk".to_owned(),
        dialect: dialect.name().to_owned(),
        key_place: dialect.key_place().clone(),
        retention: dialect.kept_for().unwrap(),
        scope: None,
    };
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap();
    Draft::of(op, Origin::mail("<1@example.com>"), Actor::agent("a"), trace, terms).unwrap()
}

fn place() -> Draft {
    draft(&PlaceOrder::new("C-100").item("SKU-1", 2))
}

fn amend() -> Draft {
    draft(&AmendOrder::new(OrderRef::id("ord-1"), Base::Version(1)).set("customer", "C-100"))
}

fn cancel() -> Draft {
    draft(&CancelOrder::new(OrderRef::id("ord-1"), "not needed any more"))
}

fn claimed(order: Draft) -> Claimed {
    Claimed {
        lineage: Lineage::FIRST,
        ruling: Ruling::Allow(Because::rule("1", "r", "w")),
        sending_follows: true,
        parked_until: None,
        owner: MINE.parse().unwrap(),
        boot: None,
        order,
    }
}

fn sent(attempt: u32) -> Event {
    let request = "33333333-3333-4333-8333-333333333333".parse().unwrap();
    Event::Sent { attempt, request }
}

fn saw(attempt: u32, seen: &Observed) -> Event {
    Event::Observed {
        attempt,
        seen: ietf().sighting(seen),
        took_ms: 1,
    }
}

fn taken_over(owner: &str) -> Event {
    let owner: OwnerId = owner.parse().unwrap();
    Event::TakenOver { owner }
}

/// The draft's dialect, whose presets' tables stand with the presets.
fn ietf() -> &'static Dialect {
    static IETF: std::sync::LazyLock<Dialect> = std::sync::LazyLock::new(Dialect::ietf);
    &IETF
}

fn case<'a>(intent: &'a Intent, before: &'a State) -> Case<'a> {
    Case {
        intent,
        dialect: ietf(),
        before,
        now: Timestamp::from_millis(0),
    }
}

/// An order after these events, all at the same moment.
fn order(order: Draft, past: &[Event]) -> (Intent, State) {
    let at = Timestamp::from_millis(0);
    let claim = claimed(order);
    let intent = claim.intent("8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap());
    let claimed = State::new().after(&Event::Claimed(Box::new(claim)), at);
    (intent, past.iter().fold(claimed, |state, event| state.after(event, at)))
}

/// The verdict on `seen` as the attempt after these events, in words.
fn judge(draft: Draft, past: &[Event], seen: &Observed) -> String {
    judge_at(ietf(), 0, draft, past, seen)
}

/// The same in another dialect, so many seconds later.
fn judge_at(dialect: &Dialect, seconds: i64, draft: Draft, past: &[Event], seen: &Observed) -> String {
    let (intent, state) = order(draft, past);
    let attempt = state.attempts() + 1;
    let before = state.after(&sent(attempt), Timestamp::from_millis(0));
    let case = Case {
        dialect,
        now: Timestamp::from_millis(seconds * 1000),
        ..case(&intent, &before)
    };
    words(&verdict(case, attempt, seen))
}

fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Settle(Settled::Succeeded { replayed: false, .. }) => "succeeded".to_owned(),
        Verdict::Settle(Settled::Succeeded { replayed: true, .. }) => "succeeded, replayed".to_owned(),
        Verdict::Settle(Settled::Rejected { answer: Some(_) }) => "rejected".to_owned(),
        Verdict::Settle(other) => format!("settled {other:?}"),
        Verdict::Again { not_before: None } => "again".to_owned(),
        Verdict::Again { not_before: Some(wait) } => format!("again after {} s", wait.as_secs()),
        Verdict::RefreshCredential { status } => format!("refresh {status}"),
        Verdict::Lookup { why, named } => format!("look up {why:?} {named:?}"),
        Verdict::Resend => "resend".to_owned(),
        Verdict::Review(reason) => format!("review {reason:?}"),
        Verdict::Stop(Rest::Redirected { status }) => format!("stop redirected {status}"),
        Verdict::Stop(why) => format!("stop {why:?}"),
    }
}

/// Each row: what is seen, what it means where nothing else of the key can land, what it means after a lost attempt (R1). `SAME`: history
/// does not matter. Only a refusal's meaning ever depends on it.
#[test]
fn each_sighting_has_its_verdict() {
    const SAME: &str = "";
    const DOUBT: &str = "review Contradicted";
    let table = [
        // Success: with a body, JSON that names the order; without one, where the operation asks for nothing.
        (json(200, ORDER), "succeeded", SAME),
        (json(201, ORDER), "succeeded", SAME),
        (with(201, &[("idempotent-replayed", "true")], ORDER), "succeeded, replayed", SAME),
        (bare(201), "succeeded", SAME),
        (bare(204), "succeeded", SAME),
        (json(200, r#"{"customer":"C-999"}"#), "review OtherOrderReturned", SAME),
        (json(200, "{\"order_id\""), "review UnreadableSuccess", SAME),
        (page(200), "stop UnexpectedContent { status: 200 }", SAME),
        (page(201), "stop UnexpectedContent { status: 201 }", SAME),
        // "Not yet", in the words of a success.
        (json(202, ORDER), "again", SAME),
        (with(202, &[("retry-after", "3")], "{}"), "again after 3 s", SAME),
        (bare(208), "again", SAME),
        (bare(102), "again", SAME),
        // Redirects are never followed.
        (bare(300), "stop redirected 300", SAME),
        (bare(301), "stop redirected 301", SAME),
        (bare(302), "stop redirected 302", SAME),
        (bare(303), "stop redirected 303", SAME),
        (bare(304), "stop redirected 304", SAME),
        (bare(305), "stop redirected 305", SAME),
        (bare(307), "stop redirected 307", SAME),
        (bare(308), "stop redirected 308", SAME),
        // Who are you?
        (code(401, "unauthorized"), "refresh 401", SAME),
        (page(401), "refresh 401", SAME),
        (code(403, "forbidden"), "refresh 403", SAME),
        // Refusals: a no only if nothing else of the key can land.
        (bare(400), "rejected", DOUBT),
        (code(400, "order_invalid"), "rejected", DOUBT),
        (code(400, "idempotency_key_missing"), "rejected", DOUBT),
        (code(400, "idempotency_error"), "review Mismatch", SAME),
        (code(402, "limit_reached"), "rejected", DOUBT),
        (bare(404), "rejected", DOUBT),
        (code(404, "not_found"), "rejected", DOUBT),
        (bare(405), "rejected", DOUBT),
        (bare(410), "rejected", DOUBT),
        // The order changed since: what was done may be what changed it.
        (bare(412), "rejected", DOUBT),
        (page(412), "rejected", DOUBT),
        (code(412, "precondition_failed"), "rejected", DOUBT),
        (
            with(412, &[("idempotent-replayed", "true")], r#"{"code":"precondition_failed"}"#),
            "rejected",
            DOUBT,
        ),
        (Observed::HalfAnswer(head(412, &[]), Half::Cut), "again", SAME),
        (bare(413), "rejected", DOUBT),
        (bare(422), "rejected", DOUBT),
        (page(422), "rejected", DOUBT),
        (code(422, "out_of_stock"), "rejected", DOUBT),
        (with(422, &[("idempotent-replayed", "true")], r#"{"code":"x"}"#), "rejected", DOUBT),
        (code(422, "idempotency_conflict"), "review Mismatch", SAME),
        (code(422, "idempotency_key_reused"), "review Mismatch", SAME),
        (json(422, r#"{"type":"https://example.com/idempotency"}"#), "review Mismatch", SAME),
        (json(422, r#"{"error":{"type":"idempotency_error"}}"#), "review Mismatch", SAME),
        // 409 by its code: bare, it is "still running".
        (bare(409), "again", SAME),
        (code(409, "idempotency_in_flight"), "again", SAME),
        (
            with(409, &[("retry-after", "1")], r#"{"code":"IDEMPOTENCY_IN_FLIGHT"}"#),
            "again after 1 s",
            SAME,
        ),
        (code(409, "idempotency_key_in_use"), "again", SAME),
        (json(409, r#"{"type":"https://example.com/idempotency"}"#), "again", SAME),
        (code(409, "idempotency_conflict"), "review Mismatch", SAME),
        (code(409, "order_cancelled"), "rejected", DOUBT),
        // A passing trouble.
        (bare(408), "again", SAME),
        (bare(425), "again", SAME),
        (bare(429), "again", SAME),
        (with(429, &[("retry-after", "7")], "{}"), "again after 7 s", SAME),
        (with(429, &[("retry-after", "soon")], "{}"), "again", SAME),
        (code(500, "internal"), "again", SAME),
        (bare(501), "again", SAME),
        (page(502), "again", SAME),
        (bare(503), "again", SAME),
        (with(503, &[("retry-after", "120")], "{}"), "again after 120 s", SAME),
        (
            with(503, &[("retry-after", "Thu, 01 Jan 1970 00:00:09 GMT")], "{}"),
            "again after 9 s",
            SAME,
        ),
        (bare(504), "again", SAME),
        (bare(505), "again", SAME),
        // Unless it is stored: then it comes back until the key is forgotten, and executes again.
        (
            with(500, &[("idempotent-replayed", "true")], "{}"),
            "review StoredServerError",
            SAME,
        ),
        (
            with(503, &[("idempotent-replayed", "TRUE")], "{}"),
            "review StoredServerError",
            SAME,
        ),
        (with(500, &[("idempotent-replayed", "false")], "{}"), "again", SAME),
        // No whole answer.
        (Observed::NeverLeft(NeverLeft::Connect), "again", SAME),
        (Observed::NeverLeft(NeverLeft::Dns), "again", SAME),
        (Observed::NeverLeft(NeverLeft::Tls), "stop Tls", SAME),
        (Observed::NoAnswer(NoAnswer::TimedOut), "again", SAME),
        (Observed::NoAnswer(NoAnswer::Closed), "again", SAME),
        (Observed::NoAnswer(NoAnswer::Reset), "again", SAME),
        (Observed::NoAnswer(NoAnswer::Garbage), "again", SAME),
        (Observed::NoAnswer(NoAnswer::NotWritten), "again", SAME),
        (half(Half::Cut), "again", SAME),
        (half(Half::Stalled), "again", SAME),
        (half(Half::Undecodable), "again", SAME),
        (half(Half::TooLarge), "stop TooLarge", SAME),
        (
            Observed::HalfAnswer(head(503, &[("retry-after", "2")]), Half::Cut),
            "again after 2 s",
            SAME,
        ),
        // A refusal that was cut is no refusal.
        (Observed::HalfAnswer(head(422, &[]), Half::Cut), "again", SAME),
    ];
    let lost = [sent(1), saw(1, &Observed::NoAnswer(NoAnswer::Closed))];
    for (seen, clean, in_doubt) in &table {
        let what = match seen {
            Observed::Answered(answer) => format!("{seen:?} {}", String::from_utf8_lossy(answer.body())),
            _ => format!("{seen:?}"),
        };
        assert_eq!(judge(place(), &[], seen), *clean, "{what}, clean");
        let in_doubt = if in_doubt.is_empty() { clean } else { in_doubt };
        assert_eq!(judge(place(), &lost, seen), *in_doubt, "{what}, after a lost attempt");
    }
}

/// R1: which pasts leave a refusal a definite no, and which make it a matter for a person.
#[test]
fn a_refusal_is_a_no_only_after_a_past_that_proves_no_execution() {
    let past = |seen: &Observed| vec![sent(1), saw(1, seen)];
    let proofs = [
        vec![],
        past(&Observed::NeverLeft(NeverLeft::Connect)),
        past(&Observed::NeverLeft(NeverLeft::Dns)),
        past(&Observed::NeverLeft(NeverLeft::Tls)),
        past(&bare(401)),
        past(&bare(403)),
        past(&bare(425)),
        past(&bare(429)),
        // The same process goes on with what it knows to the end.
        [past(&bare(429)), vec![taken_over(MINE)]].concat(),
    ];
    let doubts = [
        past(&Observed::NoAnswer(NoAnswer::TimedOut)),
        past(&Observed::NoAnswer(NoAnswer::Closed)),
        past(&Observed::NoAnswer(NoAnswer::Reset)),
        past(&Observed::NoAnswer(NoAnswer::Garbage)),
        past(&half(Half::Cut)),
        past(&half(Half::Stalled)),
        past(&half(Half::TooLarge)),
        past(&half(Half::Undecodable)),
        past(&Observed::HalfAnswer(head(429, &[]), Half::Cut)),
        past(&bare(202)),
        past(&bare(302)),
        past(&bare(408)),
        past(&bare(409)),
        past(&bare(500)),
        past(&bare(503)),
        past(&page(200)),
        // A stored answer tells of an earlier attempt.
        past(&with(429, &[("idempotent-replayed", "true")], "{}")),
        // Nobody wrote down what came of it.
        vec![sent(1)],
        vec![sent(1), taken_over(MINE)],
        // Another process had it, and may have sent what it could not write down (R15).
        vec![taken_over(THEIRS)],
        // One doubt is enough, wherever it stands.
        [past(&bare(503)), vec![sent(2), saw(2, &bare(429))]].concat(),
        [past(&bare(429)), vec![sent(2), saw(2, &bare(503))]].concat(),
    ];
    for order in [place, amend, cancel] {
        for refusal in [bare(404), code(422, "out_of_stock"), bare(400), code(412, "precondition_failed")] {
            for past in &proofs {
                assert_eq!(judge(order(), past, &refusal), "rejected", "{refusal:?} after {past:?}");
            }
            for past in &doubts {
                assert_eq!(judge(order(), past, &refusal), "review Contradicted", "{refusal:?} after {past:?}");
            }
        }
    }
}

#[test]
fn a_success_holds_what_the_operation_asks_for() {
    let strict = |seen: &Observed| judge(draft(&Strict), &[], seen);
    assert_eq!(strict(&json(201, ORDER)), "succeeded");
    for empty in [
        bare(201),
        bare(204),
        json(200, "{}"),
        json(200, r#"{"order_id":null}"#),
        json(200, "[]"),
    ] {
        assert_eq!(strict(&empty), "review UnreadableSuccess", "{empty:?}");
    }
    assert_eq!(strict(&page(200)), "stop UnexpectedContent { status: 200 }");
}

/// Some servers ignore that a key was used for other contents and return the old order.
#[test]
fn a_returned_order_may_say_more_and_in_another_order_but_nothing_else() {
    let order = || draft(&PlaceOrder::new("7").item("A", 1).item("B", 2).note("n"));
    for same in [
        r#"{"items":[{"sku":"B","quantity":2,"price":9},{"quantity":1.0,"sku":"A"}],"customer":"7","more":1}"#,
        r#"{"customer":7,"items":[{"sku":"A","quantity":"1"},{"sku":"B","quantity":2}],"note":null}"#,
        r#"{"id":"ord-1"}"#,
        // These name no field at all.
        r#""ord-1""#,
        "17",
        "[]",
    ] {
        assert_eq!(judge(order(), &[], &json(201, same)), "succeeded", "{same}");
    }
    let list = || draft(&JsonOrder::new(Route::post("orders"), serde_json::json!([{"sku": "A"}])));
    assert_eq!(judge(list(), &[], &json(201, ORDER)), "succeeded", "a list answered by an order");
    assert_eq!(judge(list(), &[], &json(201, r#"[{"sku":"B"}]"#)), "review OtherOrderReturned");
    for other in [
        r#"{"customer":"8"}"#,
        r#"{"items":[{"sku":"A","quantity":1}]}"#,
        r#"{"items":[{"sku":"A","quantity":1},{"sku":"A","quantity":1}]}"#,
        r#"{"items":[{"sku":"A","quantity":1},{"sku":"B","quantity":3}]}"#,
        r#"{"items":[{"sku":"A","quantity":1},{"sku":"B","quantity":2},{"sku":"C","quantity":1}]}"#,
        r#"{"items":{}}"#,
        r#"{"note":"another"}"#,
    ] {
        assert_eq!(judge(order(), &[], &json(201, other)), "review OtherOrderReturned", "{other}");
    }
}

/// R1, with two senders of one key: what was a no when it was judged is none when it is written, if another process took the order over
/// or sent it meanwhile. Nothing else depends on it.
#[test]
fn a_no_is_weighed_again_when_it_is_written() {
    let at = Timestamp::from_millis(0);
    let claim = claimed(place());
    let intent = claim.intent("8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap());
    let before = State::new().after(&Event::Claimed(Box::new(claim)), at).after(&sent(1), at);
    let judged = |seen: &Observed| verdict(case(&intent, &before), 1, seen);
    let weighed = |seen: &Observed, meanwhile: &[Event]| {
        let now = meanwhile.iter().fold(before.clone(), |state, event| state.after(event, at));
        words(&confirm(judged(seen), ietf(), 1, &now))
    };
    let no = code(422, "out_of_stock");
    assert_eq!(weighed(&no, &[]), "rejected");
    assert_eq!(weighed(&no, &[taken_over(THEIRS)]), "review Contradicted");
    assert_eq!(weighed(&no, &[sent(2)]), "review Contradicted");
    assert_eq!(weighed(&no, &[sent(2), saw(2, &bare(429))]), "rejected");
    for seen in [json(201, ORDER), bare(503), bare(302), code(409, "idempotency_conflict")] {
        assert_eq!(weighed(&seen, &[taken_over(THEIRS), sent(2)]), words(&judged(&seen)));
    }
}

fn asking() -> Dialect {
    Dialect::ietf().lookup(|asked| Some(asked.path().segment(asked.key().to_string())))
}

/// Where there is a lookup, the server is asked before a person is: about everything but a mismatch, and a success that can't be read.
#[test]
fn what_is_for_a_person_is_asked_about_first_where_there_is_a_lookup() {
    let lost = [sent(1), saw(1, &Observed::NoAnswer(NoAnswer::Closed))];
    let replayed = with(500, &[("idempotent-replayed", "true")], "{}");
    for (seen, alone, asked) in [
        (
            code(409, "order_already_exists"),
            "review AlreadyExists",
            "look up AlreadyExists None",
        ),
        (code(422, "out_of_stock"), "review Contradicted", "look up Contradicted None"),
        (bare(412), "review Contradicted", "look up Contradicted None"),
        (
            code(409, "operation_uncertain"),
            "review ServerUncertain",
            "look up ServerUncertain None",
        ),
        (
            code(409, "operation_result_expired"),
            "review AlreadyExists",
            "look up AlreadyExists None",
        ),
        (replayed, "review StoredServerError", "look up StoredServerError None"),
        (code(422, "idempotency_conflict"), "review Mismatch", "review Mismatch"),
        (json(201, "{"), "review UnreadableSuccess", "review UnreadableSuccess"),
        (
            json(201, r#"{"customer":"X"}"#),
            "review OtherOrderReturned",
            "review OtherOrderReturned",
        ),
        (bare(503), "again", "again"),
        (json(201, ORDER), "succeeded", "succeeded"),
    ] {
        assert_eq!(judge(place(), &lost, &seen), alone, "{seen:?}");
        assert_eq!(judge_at(&asking(), 0, place(), &lost, &seen), asked, "{seen:?}");
    }
    // By the server's own name for it.
    let named = Dialect::new("named")
        .retention(Duration::from_secs(3600))
        .reads(|answer| Reading::Exists {
            named: answer.code("/id").map(str::to_owned),
        })
        .lookup(|asked| Some(asked.path().segment(asked.named()?)));
    let seen = json(409, r#"{"id":"ord-1"}"#);
    assert_eq!(judge_at(&named, 0, place(), &[], &seen), "look up AlreadyExists Some(\"ord-1\")");
    assert_eq!(judge_at(&named, 0, place(), &[], &bare(409)), "review AlreadyExists");
    // A success under another status.
    let odd = Dialect::new("odd").reads(|_| Reading::Succeeded);
    assert_eq!(judge_at(&odd, 0, place(), &lost, &json(409, ORDER)), "succeeded");
}

/// "Still running" is believed for so long, from the first time it was said; another word of the server's in between begins anew, silence
/// does not.
#[test]
fn still_running_is_believed_for_a_time() {
    let running = code(409, "idempotency_in_flight");
    let believes = ietf().believes_running_for().as_secs().try_into().unwrap();
    let said = [sent(1), saw(1, &running)];
    let silent = [&said[..], &[sent(2), saw(2, &Observed::NoAnswer(NoAnswer::TimedOut))]].concat();
    let other = [&said[..], &[sent(2), saw(2, &bare(503))]].concat();
    for (past, at, wanted) in [
        (&[][..], believes * 10, "again"),
        (&said, believes - 1, "again"),
        (&said, believes, "review StuckProcessing"),
        (&silent, believes, "review StuckProcessing"),
        (&other, believes, "again"),
    ] {
        assert_eq!(judge_at(ietf(), at, place(), past, &running), wanted, "{past:?}");
        assert_eq!(judge_at(ietf(), at, place(), past, &bare(202)), wanted, "{past:?}");
    }
    assert_eq!(
        judge_at(&asking(), believes, place(), &said, &running),
        "look up StuckProcessing None"
    );
}

/// A repeat's success that shows the order as it stands now: cancelled since, it is no success. The first answer says how it was taken.
#[test]
fn what_has_been_cancelled_since_is_no_success() {
    let current = Dialect::ietf().duplicates(crate::dialect::Duplicates::CurrentState);
    let cancelled = json(200, r#"{"order_id":"ord-1","status":"Cancelled"}"#);
    let lost = [sent(1), saw(1, &Observed::NoAnswer(NoAnswer::Closed))];
    assert_eq!(judge_at(&current, 0, place(), &lost, &cancelled), "review FoundEnded");
    assert_eq!(judge_at(&current, 0, place(), &[], &cancelled), "succeeded");
    assert_eq!(judge(place(), &lost, &cancelled), "succeeded");
    // To end an order is what an operation of high impact is for.
    let nameless =
        || draft(&JsonOrder::new(Route::post("orders").segment("ord-1").then("cancel"), serde_json::json!({})).impact(Impact::High));
    assert_eq!(judge_at(&current, 0, nameless(), &lost, &cancelled), "succeeded");
    assert_eq!(judge_at(&current, 0, cancel(), &lost, &cancelled), "succeeded");
    // A change is of high impact too, and ends nothing; unless that is the change.
    assert_eq!(judge_at(&current, 0, amend(), &lost, &cancelled), "review FoundEnded");
    assert_eq!(judge_at(&current, 0, amend(), &[], &cancelled), "succeeded");
    assert_eq!(judge(amend(), &lost, &cancelled), "succeeded");
    let ends = || draft(&AmendOrder::new(OrderRef::id("ord-1"), Base::Version(1)).set("status", "Cancelled"));
    assert_eq!(judge_at(&current, 0, ends(), &lost, &cancelled), "succeeded");
}

/// The presets ask below the order's own path: that finds what was created there, and nothing of an order that acts on another one.
#[test]
fn an_order_that_acts_on_another_one_is_looked_up_by_no_preset() {
    let look = |dialect: &Dialect, draft: Draft| {
        let (intent, _) = order(draft, &[]);
        dialect.asks_for(&intent, Some("name")).is_some()
    };
    let presets = [
        (Dialect::ietf(), false),
        (Dialect::stripe(), false),
        (Dialect::gocardless(), true),
        (Dialect::increase(), true),
        (Dialect::checkout(), false),
        (Dialect::square(), false),
        (Dialect::paypal(), false),
        (Dialect::adyen(), false),
        (Dialect::alpaca(), true),
        (Dialect::coinbase(), false),
        (Dialect::toast(), true),
        (Dialect::repeatability(), false),
        (Dialect::worldpay(), false),
    ];
    for (preset, of_creations) in &presets {
        assert_eq!(look(preset, place()), *of_creations, "{preset:?}");
        assert!(!look(preset, amend()) && !look(preset, cancel()), "{preset:?}");
    }
    // So a person looks at once.
    let exists = json(422, r#"{"code":40010001}"#);
    let alpaca = Dialect::alpaca();
    assert_eq!(judge_at(&alpaca, 0, place(), &[], &exists), "look up AlreadyExists None");
    assert_eq!(judge_at(&alpaca, 0, amend(), &[], &exists), "review AlreadyExists");
    // A dialect of one's own sees which it is, and may know a way.
    let own = Dialect::new("own").lookup(|asked| Some(asked.subject()?.at().clone().query("change", asked.key().to_string())));
    let (intent, _) = order(cancel(), &[]);
    let asked = own.asks_for(&intent, None).unwrap();
    assert_eq!((asked.path(), asked.query_pairs().len()), ("/orders/ord-1", 1));
    assert!(!look(&own, place()));
}

/// An error inside of a 200, also as GraphQL servers hide it.
#[test]
fn an_error_in_a_success_is_no_success() {
    for body in [
        r#"{"error":{"code":"x"}}"#,
        r#"{"errors":[{"message":"x"}]}"#,
        r#"{"data":{"orderCreate":{"order":null,"userErrors":[{"code":"IDEMPOTENCY_CONCURRENT_REQUEST"}]}}}"#,
    ] {
        assert_eq!(judge(place(), &[], &json(200, body)), "review UnreadableSuccess", "{body}");
    }
    for body in [r#"{"error":null,"errors":[]}"#, r#"{"data":{"orderCreate":{"userErrors":[]}}}"#] {
        assert_eq!(judge(place(), &[], &json(200, body)), "succeeded", "{body}");
    }
}

/// Each row: what a lookup shows, what was found, and what follows for an order that is held back for its age.
#[test]
fn what_a_lookup_shows_has_its_verdict() {
    let lost = [sent(1), saw(1, &Observed::NoAnswer(NoAnswer::Closed))];
    let (intent, before) = order(place(), &lost);
    let proving = asking()
        .lookup_reads(crate::dialect::LookupReads::Orders)
        .max_transit(Duration::from_secs(60));
    let look = |dialect: &Dialect, seconds: i64, why, agree, seen: &Observed| {
        let case = Case {
            dialect,
            now: Timestamp::from_millis(seconds * 1000),
            ..case(&intent, &before)
        };
        let looked = looked(case, why, agree, seen);
        format!("{:?}: {}", looked.found, words(&looked.verdict))
    };
    let aged = ReviewReason::RetentionPassed;
    for (seen, wanted) in [
        (json(200, ORDER), "Same: succeeded, replayed"),
        (json(200, r#"{"order_id":"ord-1","customer":"C-100"}"#), "Same: succeeded, replayed"),
        (
            json(
                200,
                r#"{"order_id":"ord-1","idempotency_key":"8E03978E-40D5-43DD-BC93-6894A57F9324"}"#,
            ),
            "Same: succeeded, replayed",
        ),
        // The question was answered, and not a word of it is of this order.
        (json(200, r#"{"order_id":"ord-1"}"#), "Unreadable: review RetentionPassed"),
        (
            json(200, r#"{"order_id":"ord-1","customer":"C-999"}"#),
            "Different: review OtherOrderReturned",
        ),
        (
            json(200, r#"{"order_id":"ord-1","idempotency_key":"another"}"#),
            "Different: review OtherOrderReturned",
        ),
        (
            json(200, r#"{"order_id":"ord-1","customer":"C-100","state":"canceled"}"#),
            "Ended: review FoundEnded",
        ),
        (json(200, r#"{"error":"x"}"#), "Unreadable: review UnreadableSuccess"),
        (json(200, "{}"), "Unreadable: review RetentionPassed"),
        (json(200, "[]"), "Unreadable: review RetentionPassed"),
        (json(200, "\"ord-1\""), "Unreadable: review RetentionPassed"),
        (json(200, "{"), "Unreadable: review RetentionPassed"),
        (page(200), "Unreadable: stop UnexpectedContent { status: 200 }"),
        (bare(204), "Absent: review RetentionPassed"),
        (bare(404), "Absent: review RetentionPassed"),
        (code(404, "not_found"), "Absent: review RetentionPassed"),
        (bare(410), "Absent: review RetentionPassed"),
        (bare(202), "InProgress: again"),
        (code(409, "idempotency_in_flight"), "InProgress: again"),
        (bare(302), "Unreadable: stop redirected 302"),
        (bare(401), "Unreadable: refresh 401"),
        (bare(403), "Unreadable: refresh 403"),
        (bare(400), "Unreadable: review RetentionPassed"),
        (bare(405), "Unreadable: review RetentionPassed"),
        (with(429, &[("retry-after", "3")], "{}"), "NoAnswer: again after 3 s"),
        (bare(503), "NoAnswer: again"),
        (Observed::NeverLeft(NeverLeft::Connect), "NoAnswer: again"),
        (Observed::NeverLeft(NeverLeft::Tls), "NoAnswer: stop Tls"),
        (Observed::NoAnswer(NoAnswer::TimedOut), "NoAnswer: again"),
        (half(Half::Cut), "NoAnswer: again"),
        (half(Half::TooLarge), "Unreadable: stop TooLarge"),
    ] {
        assert_eq!(look(&asking(), 0, aged, true, &seen), wanted, "{seen:?}");
    }
    // R10's exception, and everything that it takes.
    assert_eq!(look(&proving, 60, aged, true, &bare(404)), "Absent: resend");
    assert_eq!(look(&proving, 59, aged, true, &bare(404)), "Absent: review RetentionPassed");
    assert_eq!(look(&proving, 60, aged, false, &bare(404)), "Absent: review RetentionPassed");
    assert_eq!(look(&proving, 60, aged, true, &code(404, "not_found")), "Absent: resend");
    assert_eq!(look(&proving, 60, aged, true, &page(404)), "Absent: review RetentionPassed");
    assert_eq!(look(&proving, 60, aged, true, &bare(410)), "Absent: review RetentionPassed");
    let races = proving.clone().concurrent(crate::dialect::Concurrent::Races);
    assert_eq!(look(&races, 60, aged, true, &bare(404)), "Absent: review RetentionPassed");
    let keys = proving.clone().lookup_reads(crate::dialect::LookupReads::Keys);
    assert_eq!(look(&keys, 60, aged, true, &bare(404)), "Absent: review RetentionPassed");
    for why in [
        ReviewReason::Contradicted,
        ReviewReason::AlreadyExists,
        ReviewReason::OtherScope,
        ReviewReason::NotRecognised,
        ReviewReason::StuckProcessing,
        ReviewReason::StoredServerError,
    ] {
        assert_eq!(look(&proving, 60, why, true, &bare(404)), format!("Absent: review {why:?}"));
    }
}

/// R8, R9, and servers that would not recognise a repeat: what may not leave, and what may all the same.
#[test]
fn what_may_have_landed_is_held_back_where_a_repeat_could_be_a_second_order() {
    let lost = [sent(1), saw(1, &Observed::NoAnswer(NoAnswer::Closed))];
    let never_left = [sent(1), saw(1, &Observed::NeverLeft(NeverLeft::Connect))];
    let deaf = Dialect::new("deaf").duplicates(crate::dialect::Duplicates::NotRecognised);
    for (dialect, past, stage, scope, wanted) in [
        (ietf(), &lost, Stage::Open, None, None),
        (ietf(), &lost, Stage::Open, Some("another"), Some(ReviewReason::OtherScope)),
        (&deaf, &lost, Stage::Open, None, Some(ReviewReason::NotRecognised)),
        (&deaf, &never_left, Stage::Open, None, None),
        (
            ietf(),
            &lost,
            Stage::NeedsReview(ReviewReason::RetentionPassed),
            None,
            Some(ReviewReason::RetentionPassed),
        ),
    ] {
        let (intent, before) = order(place(), past);
        let case = Case {
            dialect,
            ..case(&intent, &before)
        };
        assert_eq!(held_back(case, &stage, scope), wanted, "{past:?} {stage:?} {scope:?}");
    }
}
