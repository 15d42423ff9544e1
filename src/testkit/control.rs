//! The desk's own endpoints, under `/_desk/`: what a test in another language asks and sets. They are not part of the order API, so they are
//! neither numbered nor logged.

use serde_json::{Value, json};

use super::counter::Counter;
use super::reply::Reply;
use super::route::decode;
use super::seen::Seen;
use super::shop::not_found;

/// Where they are. Nothing else of the desk's, and nothing served, is reached below it.
const UNDER: &str = "/_desk/";

/// The answer, if the request is for one of them.
pub(crate) fn answer(counter: &Counter, request: &wiremock::Request) -> Option<Reply> {
    let asked = request.url.path().strip_prefix(UNDER)?;
    Some(match (request.method.as_str(), asked) {
        ("GET", "orders") => Reply::json(200, Value::Array(counter.orders())),
        ("GET", "requests") => Reply::json(200, counter.log.entries().iter().map(|entry| told(&entry.seen)).collect()),
        ("GET", "suspicions") => Reply::json(200, said(counter)),
        ("GET", "summary") => Reply::json(200, summary(counter)),
        ("POST", "script") => play(counter, &request.body),
        ("POST", asked) => match asked.split_once('/') {
            Some(("finish", key)) => finish(counter, &decode(key)),
            Some(("change", order_id)) => change(counter, &decode(order_id), &request.body),
            _ => nothing_there(asked),
        },
        _ => nothing_there(asked),
    })
}

/// A request as it is told; without its headers, since they hold credentials.
pub(crate) fn told(seen: &Seen) -> Value {
    json!({
        "number": seen.number,
        "method": seen.method,
        "path": seen.target(),
        "key": seen.key,
        "request_id": seen.request_id,
        "attempt": seen.attempt,
        "traceparent": seen.traceparent,
        "body": String::from_utf8_lossy(&seen.body),
        "body_hash": seen.body_hash,
        "ledger": seen.did.to_string(),
        "played": seen.played,
        "status": seen.status,
        "replayed": seen.replayed,
    })
}

/// What came of it all, in numbers.
pub(crate) fn summary(counter: &Counter) -> Value {
    let suspicions = counter.suspicions().len();
    let entries = counter.log.entries();
    json!({
        "requests": entries.len(),
        "keys": counter.keys_seen().len(),
        "orders": counter.orders().len(),
        "replayed": entries.iter().filter(|entry| entry.seen.replayed).count(),
        "suspicions": suspicions,
        "script_left": counter.script_left(),
    })
}

fn said(counter: &Counter) -> Value {
    counter
        .suspicions()
        .iter()
        .map(|suspicion| Value::String(suspicion.to_string()))
        .collect()
}

fn play(counter: &Counter, text: &[u8]) -> Reply {
    let Ok(text) = std::str::from_utf8(text) else {
        return Reply::problem(400, "script_invalid", "the script is not UTF-8");
    };
    match text.parse() {
        Ok(script) => {
            counter.play(script);
            Reply::status(204)
        }
        Err(error) => Reply::problem(400, "script_invalid", &error.to_string()),
    }
}

fn finish(counter: &Counter, key: &str) -> Reply {
    match counter.finish(key) {
        Some(()) => Reply::status(204),
        None => Reply::problem(404, "nothing_stuck", &format!("no work is stuck under the key {key}")),
    }
}

fn change(counter: &Counter, order_id: &str, patch: &[u8]) -> Reply {
    let Ok(patch) = serde_json::from_slice(patch) else {
        return Reply::problem(400, "patch_invalid", "a change is a JSON object, merged into the order");
    };
    match counter.change_order(order_id, patch) {
        Some(tag) => Reply::status(204).header("ETag", &tag),
        None => not_found(),
    }
}

fn nothing_there(asked: &str) -> Reply {
    let why = format!(
        "there is no {UNDER}{asked}: ask GET {UNDER}orders, requests, suspicions or summary, or POST {UNDER}script, finish/{{key}} or change/{{order}}"
    );
    Reply::problem(404, "no_such_question", &why)
}
