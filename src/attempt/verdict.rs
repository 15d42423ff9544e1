//! What was seen of an attempt, judged. Pure: the same facts and the same history give the same verdict.
//!
//! The one rule above all: a possible effect is never forgotten (R1). A refusal is a definite no only if nothing else of the key can land.

use super::retry_after;
use crate::{
    answer::{Answer, Half, Head, NeverLeft, Observed},
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

/// `before`: the order with this attempt written as sent, and nothing known of it yet.
pub(crate) fn verdict(intent: &Intent, attempt: u32, seen: &Observed, dialect: &Dialect, before: &State) -> Verdict {
    match seen {
        Observed::NeverLeft(NeverLeft::Tls) => Verdict::Stop(Rest::Tls {}),
        Observed::NeverLeft(NeverLeft::Connect | NeverLeft::Dns) | Observed::NoAnswer(_) => Verdict::Again { not_before: None },
        Observed::HalfAnswer(_, Half::TooLarge) => Verdict::Stop(Rest::TooLarge {}),
        Observed::HalfAnswer(head, Half::Cut | Half::Stalled | Half::Undecodable) => Verdict::Again {
            not_before: retry_after::wait(head),
        },
        Observed::Answered(answer) => answered(intent, attempt, answer, dialect, before),
    }
}

fn answered(intent: &Intent, attempt: u32, answer: &Answer, dialect: &Dialect, before: &State) -> Verdict {
    let again = Verdict::Again {
        not_before: retry_after::wait(answer.head()),
    };
    match dialect.read(answer) {
        Reading::InProgress => return again,
        // Never a new key: the server has something else under this one.
        Reading::Mismatch => return Verdict::Review(ReviewReason::Mismatch),
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
        _ => refused(attempt, answer, before),
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
    let holds = |pointer: &String| body.pointer(pointer).is_some_and(|value| !value.is_null());
    if !intent.receipt_has().iter().all(holds) {
        return Verdict::Review(ReviewReason::UnreadableSuccess);
    }
    match intent.json() {
        Some(asked) if contradicts(&asked, body) => Verdict::Review(ReviewReason::OtherOrderReturned),
        _ => settled,
    }
}

/// Whether a returned order says something else where both name the same field: some servers ignore that a key was used for other contents
/// and return the old order. A server may add members, and may list items in another order.
fn contradicts(asked: &Value, returned: &Value) -> bool {
    match (asked, returned) {
        (Value::Object(asked), Value::Object(returned)) => asked
            .iter()
            .any(|(name, value)| returned.get(name).is_some_and(|other| contradicts(value, other))),
        (Value::Array(asked), Value::Array(returned)) => {
            let mut left: Vec<&Value> = returned.iter().collect();
            asked.len() != returned.len()
                || !asked.iter().all(|value| {
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
