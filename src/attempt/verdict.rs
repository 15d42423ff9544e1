//! What was seen of an attempt, judged. Pure: the same facts and the same history give the same verdict.
//!
//! The one rule above all: a possible effect is never forgotten (R1). A refusal is a definite no only if nothing else of the key can land.

use super::retry_after;
use crate::{
    answer::{Answer, Half, Head, NeverLeft, Observed},
    clock::Timestamp,
    dialect::{Dialect, Reading},
    intent::Intent,
    lifecycle::{Rest, ReviewReason, Settled, State},
    ruling::same_scalar,
};
use http::StatusCode;
use serde_json::Value;
use std::time::Duration;

/// What to do next.
#[derive(Clone, Debug)]
#[must_use]
pub(crate) enum Verdict {
    /// It has an outcome.
    Settle(Settled),
    /// Another attempt, same key, same bytes; not before the server's wait.
    Again { not_before: Option<Duration> },
    /// Another attempt at once, if a refresh brings another credential.
    RefreshCredential { status: u16 },
    /// A person has to look.
    Review(ReviewReason),
    /// No further attempt helps; the order stays open.
    Stop(Rest),
}

/// R1 once more, under the turn in which it is written: the order's story may have grown since it was judged.
pub(crate) fn confirm(verdict: Verdict, attempt: u32, now: &State) -> Verdict {
    match verdict {
        Verdict::Settle(Settled::Rejected { .. }) if now.others_may_land(attempt) => Verdict::Review(ReviewReason::Contradicted),
        verdict => verdict,
    }
}

/// `before`: the order with this attempt written as sent, and nothing known of it yet. `now`: when it was seen.
pub(crate) fn verdict(intent: &Intent, attempt: u32, seen: &Observed, dialect: &Dialect, before: &State, now: Timestamp) -> Verdict {
    match seen {
        Observed::NeverLeft(NeverLeft::Tls) => Verdict::Stop(Rest::Tls {}),
        Observed::NeverLeft(NeverLeft::Connect | NeverLeft::Dns) | Observed::NoAnswer(_) => Verdict::Again { not_before: None },
        Observed::HalfAnswer(_, Half::TooLarge) => Verdict::Stop(Rest::TooLarge {}),
        Observed::HalfAnswer(head, Half::Cut | Half::Stalled | Half::Undecodable) => Verdict::Again {
            not_before: retry_after::wait(head, now),
        },
        Observed::Answered(answer) => answered(intent, attempt, answer, dialect, before, now),
    }
}

fn answered(intent: &Intent, attempt: u32, answer: &Answer, dialect: &Dialect, before: &State, now: Timestamp) -> Verdict {
    let again = Verdict::Again {
        not_before: retry_after::wait(answer.head(), now),
    };
    match dialect.read(answer) {
        Reading::InProgress => return again,
        // Never a new key: the server has something else under this one.
        Reading::Mismatch => return Verdict::Review(ReviewReason::Mismatch),
        // Told as a no it would be "corrected" into a second order.
        Reading::Exists => return Verdict::Review(ReviewReason::AlreadyExists),
        Reading::Refused => return refused(attempt, answer, before),
        Reading::ByStatus => {}
    }
    let status = answer.status();
    match status {
        // 202 and 208 are success codes that say "not yet" (dialects differ; none of them means done).
        StatusCode::PROCESSING | StatusCode::ACCEPTED | StatusCode::ALREADY_REPORTED => again,
        _ if status.is_success() => success(intent, answer),
        _ if status.is_redirection() => Verdict::Stop(Rest::Redirected { status: status.as_u16() }),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Verdict::RefreshCredential { status: status.as_u16() },
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => again,
        _ if status.is_server_error() => server_error(answer.head(), again),
        // Made up by proxies for a client that went away: no word of the server's.
        _ if matches!(status.as_u16(), 460 | 499) => again,
        _ if status.is_client_error() => refused(attempt, answer, before),
        // 101, or a number that HTTP does not know: it says nothing of the order, least of all no.
        _ => again,
    }
}

/// A stored 5xx comes back for as long as the server remembers the key; after that, the key executes again. Repeating it helps nobody.
fn server_error(head: &Head, again: Verdict) -> Verdict {
    if head.replayed() {
        Verdict::Review(ReviewReason::StoredServerError)
    } else {
        again
    }
}

/// R1: a definite no only if every other attempt of the key is known to have had no effect.
fn refused(attempt: u32, answer: &Answer, before: &State) -> Verdict {
    if before.others_may_land(attempt) {
        Verdict::Review(ReviewReason::Contradicted)
    } else {
        Verdict::Settle(Settled::Rejected {
            answer: Some(answer.clone()),
        })
    }
}

fn success(intent: &Intent, answer: &Answer) -> Verdict {
    let settled = Verdict::Settle(Settled::Succeeded {
        answer: answer.clone(),
        replayed: answer.head().replayed(),
    });
    if answer.body().is_empty() {
        return match intent.receipt_has().is_empty() {
            true => settled,
            false => Verdict::Review(ReviewReason::UnreadableSuccess),
        };
    }
    if !answer.says_json() {
        // A sign-in page, most likely: it says nothing of the order.
        return Verdict::Stop(Rest::UnexpectedContent {
            status: answer.status().as_u16(),
        });
    }
    let Some(body) = answer.json() else {
        return Verdict::Review(ReviewReason::UnreadableSuccess);
    };
    if says_error(body) {
        return Verdict::Review(ReviewReason::UnreadableSuccess);
    }
    let holds = |pointer: &String| body.pointer(pointer).is_some_and(|value| !value.is_null());
    if !intent.receipt_has().iter().all(holds) {
        return Verdict::Review(ReviewReason::UnreadableSuccess);
    }
    match intent.json() {
        Some(asked) if same_kind(&asked, body) && contradicts(&asked, body) => Verdict::Review(ReviewReason::OtherOrderReturned),
        _ => settled,
    }
}

/// A list that is answered by an object, or an object by a bare id, names nothing that could be compared.
fn same_kind(asked: &Value, returned: &Value) -> bool {
    asked.is_object() && returned.is_object() || asked.is_array() && returned.is_array()
}

/// Some servers put an error into a 200: `{"error": {…}}`, `{"errors": […]}`.
fn says_error(body: &Value) -> bool {
    let one = body
        .get("error")
        .is_some_and(|error| !matches!(error, Value::Null | Value::Bool(false)));
    let many = body
        .get("errors")
        .and_then(Value::as_array)
        .is_some_and(|errors| !errors.is_empty());
    one || many
}

/// Whether a returned order says something else where both name the same field: some servers ignore that a key was used for other contents
/// and return the old order. A server may add members, and may list items in another order.
fn contradicts(asked: &Value, returned: &Value) -> bool {
    match (asked, returned) {
        (Value::Object(asked), Value::Object(returned)) => asked
            .iter()
            .any(|(name, value)| returned.get(name).is_some_and(|other| contradicts(value, other))),
        (Value::Array(asked), Value::Array(returned)) => {
            if asked.len() != returned.len() {
                return true;
            }
            // Nearly always in the same order: then one pass tells.
            if !asked.iter().zip(returned).any(|(value, other)| contradicts(value, other)) {
                return false;
            }
            let mut left: Vec<&Value> = returned.iter().collect();
            !asked.iter().all(|value| {
                let found = left.iter().position(|other| !contradicts(value, other));
                found.map(|at| left.swap_remove(at)).is_some()
            })
        }
        // A number sent as text, or text as a number, is a difference of spelling.
        (Value::String(text), Value::Number(number)) | (Value::Number(number), Value::String(text)) => {
            text.parse::<f64>().ok() != number.as_f64()
        }
        // A member that the server leaves empty says nothing.
        (_, Value::Null) => false,
        (asked, returned) => !same_scalar(asked, returned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        actor::Actor,
        answer::NoAnswer,
        ids::OwnerId,
        intent::{Draft, Lineage, Terms},
        lifecycle::{Claimed, Event, Sighting},
        operation::{Operation, Route},
        order::{JsonOrder, OrderReceipt, PlaceOrder},
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
            retention: dialect.kept_for(),
            scope: None,
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap();
        Draft::of(op, Origin::mail("<1@example.com>"), Actor::agent("a"), trace, terms).unwrap()
    }

    fn place() -> Draft {
        draft(&PlaceOrder::new("C-100").item("SKU-1", 2))
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
            seen: Sighting::of(seen),
            took_ms: 1,
        }
    }

    fn taken_over(owner: &str) -> Event {
        let owner: OwnerId = owner.parse().unwrap();
        Event::TakenOver { owner }
    }

    /// The verdict on `seen` as the attempt after these events, in words.
    fn judge(order: Draft, past: &[Event], seen: &Observed) -> String {
        let at = Timestamp::from_millis(0);
        let claim = claimed(order);
        let intent = claim.intent("8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap());
        let mut state = State::new().after(&Event::Claimed(Box::new(claim)), at);
        for event in past {
            state = state.after(event, at);
        }
        let attempt = state.attempts() + 1;
        let before = state.after(&sent(attempt), at);
        words(&verdict(&intent, attempt, seen, &Dialect::ietf(), &before, at))
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
        for refusal in [bare(404), code(422, "out_of_stock"), bare(400)] {
            for past in &proofs {
                assert_eq!(judge(place(), past, &refusal), "rejected", "{refusal:?} after {past:?}");
            }
            for past in &doubts {
                assert_eq!(judge(place(), past, &refusal), "review Contradicted", "{refusal:?} after {past:?}");
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
        let judged = |seen: &Observed| verdict(&intent, 1, seen, &Dialect::ietf(), &before, at);
        let weighed = |seen: &Observed, meanwhile: &[Event]| {
            let now = meanwhile.iter().fold(before.clone(), |state, event| state.after(event, at));
            words(&confirm(judged(seen), 1, &now))
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
}
