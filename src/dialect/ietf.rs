//! The draft's answers, and those of servers that follow it: read by their codes, and by their status where there is none.

use super::Reading;
use crate::answer::Answer;
use http::StatusCode;

/// Codes by which servers say "still running" and "other contents" (the Agentic Commerce Protocol's first), with underscores.
const IN_FLIGHT: [&str; 6] = [
    "idempotency_in_flight",
    "idempotency_key_in_use",
    "operation_in_progress",
    "idempotency_concurrent_request",
    "idempotent_request_processing",
    // Beside a plain "concurrency-conflict", which speaks of the resource: TrueLayer.
    "idempotency_key_concurrency_conflict",
];
const MISMATCH: [&str; 6] = [
    "idempotency_conflict",
    "idempotency_key_conflict",
    "idempotency_key_reused",
    "idempotency_error",
    "idempotency_key_already_used_error",
    "idempotency_key_parameter_mismatch",
];

pub(super) fn read(answer: &Answer) -> Reading {
    let code = code(answer).map(|code| code.to_ascii_lowercase().replace('-', "_"));
    let code = code.as_deref();
    if code.is_some_and(|code| IN_FLIGHT.contains(&code)) {
        return Reading::InProgress;
    }
    if code.is_some_and(|code| MISMATCH.contains(&code)) {
        return Reading::Mismatch;
    }
    match code {
        // Its work is done, only the answer is not there any more.
        Some("operation_result_expired" | "operation_result_unavailable") => return Reading::Exists { named: None },
        Some("operation_uncertain" | "operation_abandoned") => return Reading::Uncertain,
        // Proven, the server says; but only with its word is another key safe.
        Some("operation_not_applied") if !new_key_is_safe(answer) => return Reading::Uncertain,
        _ => {}
    }
    match (answer.status(), code) {
        // The draft's own examples use one type, `…/idempotency`, for every cause: the status decides.
        (StatusCode::CONFLICT, None | Some("idempotency")) => Reading::InProgress,
        (StatusCode::UNPROCESSABLE_ENTITY, Some("idempotency")) => Reading::Mismatch,
        // Also as 400 or 403: told as a no, it would be "corrected" into a second order.
        (status, Some(code)) if status.is_client_error() && (code.contains("already_exists") || code.contains("duplicate")) => {
            Reading::Exists { named: None }
        }
        (StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY, _) => Reading::Refused,
        _ => Reading::ByStatus,
    }
}

fn new_key_is_safe(answer: &Answer) -> bool {
    answer.json().and_then(|body| body.get("safe_new_key")?.as_bool()) == Some(true)
}

/// The server's error code: a `code` member, or the last part of a problem type (RFC 9457).
fn code(answer: &Answer) -> Option<&str> {
    let named = ["/code", "/error/code", "/error/type"].iter().find_map(|at| answer.code(at));
    named.or_else(|| {
        let kind = answer.code("/type")?.trim_end_matches('/');
        let last = kind.rsplit(['/', '#', ':']).next()?;
        (last != "blank").then_some(last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{answer::Head, dialect::Dialect};
    use bytes::Bytes;
    use http::HeaderMap;

    /// The study's table "one status, many meanings", as far as a code tells them apart.
    #[test]
    fn one_status_means_what_its_code_says() {
        let exists = Reading::Exists { named: None };
        let table = [
            (409, "{}", Reading::InProgress),
            (409, r#"{"code":"idempotency_in_flight"}"#, Reading::InProgress),
            (409, r#"{"code":"IDEMPOTENT_REQUEST_PROCESSING"}"#, Reading::InProgress),
            (
                409,
                r#"{"type":"https://docs.example.com/errors#idempotency-key-concurrency-conflict"}"#,
                Reading::InProgress,
            ),
            (
                409,
                r#"{"type":"https://docs.example.com/errors#concurrency-conflict"}"#,
                Reading::Refused,
            ),
            (409, r#"{"code":"idempotency_key_already_used_error"}"#, Reading::Mismatch),
            (409, r#"{"code":"idempotency_key_conflict"}"#, Reading::Mismatch),
            (409, r#"{"code":"order_already_exists"}"#, exists.clone()),
            (409, r#"{"code":"operation_uncertain"}"#, Reading::Uncertain),
            (409, r#"{"code":"operation_abandoned","safe_new_key":false}"#, Reading::Uncertain),
            (409, r#"{"code":"operation_result_expired"}"#, exists.clone()),
            (409, r#"{"code":"operation_not_applied","safe_new_key":true}"#, Reading::Refused),
            (409, r#"{"code":"operation_not_applied","safe_new_key":false}"#, Reading::Uncertain),
            (409, r#"{"code":"operation_not_applied"}"#, Reading::Uncertain),
            (409, r#"{"code":"order_cancelled"}"#, Reading::Refused),
            (422, r#"{"type":"https://example.com/idempotency"}"#, Reading::Mismatch),
            (422, r#"{"code":"duplicate_client_order_id"}"#, exists.clone()),
            (422, r#"{"code":"out_of_stock"}"#, Reading::Refused),
            (422, "{}", Reading::Refused),
            (400, r#"{"code":"idempotency_key_missing"}"#, Reading::ByStatus),
            (400, r#"{"code":"idempotency_key_reused"}"#, Reading::Mismatch),
            (400, r#"{"code":"payment_already_exists"}"#, exists),
            (412, "{}", Reading::ByStatus),
            (429, "{}", Reading::ByStatus),
            (500, "{}", Reading::ByStatus),
            (208, "{}", Reading::ByStatus),
        ];
        for (status, body, reading) in table {
            let head = Head::new(StatusCode::from_u16(status).unwrap(), HeaderMap::new());
            let answer = Answer::new(head, Bytes::from_static(body.as_bytes()));
            assert_eq!(Dialect::ietf().read(&answer), reading, "{status} {body}");
        }
    }
}
