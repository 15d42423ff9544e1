//! `Dialect`: how a server speaks idempotency. One status means many things to many servers; a dialect says what it means to this one.

use crate::{answer::Answer, intent::KeyPlace};
use http::StatusCode;
use std::{fmt, time::Duration};

/// How one server speaks idempotency: where the key stands, how long it is remembered, what the codes of its refusals mean.
///
/// What counts for an order is kept in its intent when it is claimed; changing a dialect changes new orders only.
#[derive(Clone)]
pub struct Dialect {
    name: &'static str,
    key: KeyPlace,
    retention: Duration,
    read: fn(&Answer) -> Reading,
}

/// What a server's answer says, before the order's history is weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reading {
    /// The status code says all there is.
    ByStatus,
    /// The first request of this key is still running.
    InProgress,
    /// The key was used for other contents.
    Mismatch,
    /// Such an order exists already, the server says: perhaps this one, placed by an attempt of which nothing is known.
    Exists,
    /// A refusal of this order.
    Refused,
}

impl Dialect {
    /// The common case, and the default: draft-ietf-httpapi-idempotency-key-header-07 (a draft that expired in April 2026, not an RFC), with
    /// the error codes of the Agentic Commerce Protocol.
    ///
    /// The key stands raw in `Idempotency-Key`: the draft asks for quotes, but most servers document it without, and several refuse quotes. 409
    /// without a code, or with `idempotency_in_flight`, is "still running"; `idempotency_conflict` is a mismatch; any other 4xx is a refusal.
    /// The draft gives no retention; 24 hours is what most servers publish.
    pub fn ietf() -> Self {
        Dialect {
            name: "ietf",
            key: KeyPlace::RawHeader("Idempotency-Key".to_owned()),
            retention: Duration::from_secs(24 * 60 * 60),
            read: read_ietf,
        }
    }

    /// Where the key stands.
    #[must_use]
    pub fn key(mut self, place: KeyPlace) -> Self {
        self.key = place;
        self
    }

    /// How long the server remembers a key, counted from the first request. Past it the same key **executes again**, so an order whose first
    /// request may be older is never sent again by itself. Default: 24 hours.
    #[must_use]
    pub fn retention(mut self, kept: Duration) -> Self {
        self.retention = kept;
        self
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn key_place(&self) -> &KeyPlace {
        &self.key
    }

    pub(crate) fn kept_for(&self) -> Duration {
        self.retention
    }

    pub(crate) fn read(&self, answer: &Answer) -> Reading {
        (self.read)(answer)
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialect")
            .field("name", &self.name)
            .field("key", &self.key)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}

/// Codes by which servers say "still running" and "other contents" (the Agentic Commerce Protocol's first).
const IN_FLIGHT: [&str; 4] = [
    "idempotency_in_flight",
    "idempotency_key_in_use",
    "operation_in_progress",
    "idempotency_concurrent_request",
];
const MISMATCH: [&str; 5] = [
    "idempotency_conflict",
    "idempotency_key_reused",
    "idempotency_error",
    "idempotency_key_already_used_error",
    "idempotency_key_parameter_mismatch",
];

fn read_ietf(answer: &Answer) -> Reading {
    let code = code(answer).map(str::to_ascii_lowercase);
    let code = code.as_deref();
    if code.is_some_and(|code| IN_FLIGHT.contains(&code)) {
        return Reading::InProgress;
    }
    if code.is_some_and(|code| MISMATCH.contains(&code)) {
        return Reading::Mismatch;
    }
    match (answer.status(), code) {
        // The draft's own examples use one type, `…/idempotency`, for every cause: the status decides.
        (StatusCode::CONFLICT, None | Some("idempotency")) => Reading::InProgress,
        (StatusCode::UNPROCESSABLE_ENTITY, Some("idempotency")) => Reading::Mismatch,
        // Also as 400 or 403: told as a no, it would be "corrected" into a second order.
        (status, Some(code)) if status.is_client_error() && (code.contains("already_exists") || code.contains("duplicate")) => {
            Reading::Exists
        }
        (StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY, _) => Reading::Refused,
        _ => Reading::ByStatus,
    }
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
