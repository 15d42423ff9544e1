//! What the desk says about an operation that it knows: its state, a reference to it, and whether another key would be safe.

use serde_json::{Value, json};

use super::ledger::{Row, RowState};
use super::reply::Reply;
use super::seen::hash;

/// How far an operation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Started,
    Completed,
    Failed,
    Uncertain,
}

impl State {
    pub(crate) fn of(row: Option<&Row>) -> Self {
        match row.map(|row| row.state) {
            Some(RowState::Succeeded) => Self::Completed,
            Some(RowState::Failed | RowState::Rejected) => Self::Failed,
            Some(RowState::Processing) => Self::Started,
            // It was there a moment ago.
            None => Self::Uncertain,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Uncertain => "uncertain",
        }
    }
}

/// A refusal about the operation under a row's key.
fn about(row_key: &str, state: State, refusal: Reply) -> Reply {
    refusal
        .member("operation_state", json!(state.word()))
        .member("operation_ref", json!(reference(row_key)))
        .member("safe_new_key", json!(false))
}

/// The same for everybody who has the key, and says nothing of it to those who have not.
pub(crate) fn reference(row_key: &str) -> String {
    format!("op-{}", hash(row_key.as_bytes()))
}

pub(crate) fn in_flight(row_key: &str, status: u16, code: &str) -> Reply {
    let why = "the first request under this key is still being processed; ask again under the same key";
    about(row_key, State::Started, Reply::problem(status, code, why)).retry_after("1")
}

pub(crate) fn uncertain(row_key: &str) -> Reply {
    let why = "the work under this key was begun and not heard of again; neither this key nor another is safe to send";
    about(row_key, State::Uncertain, Reply::problem(409, "operation_uncertain", why))
}

pub(crate) fn result_expired(row_key: &str) -> Reply {
    let why = "the work under this key was done; its answer is not kept any more";
    about(row_key, State::Completed, Reply::problem(409, "operation_result_expired", why))
}

pub(crate) fn result_unavailable(row_key: &str) -> Reply {
    let why = "the work under this key was done; its answer was too long to be kept";
    about(row_key, State::Completed, Reply::problem(409, "operation_result_unavailable", why))
}

pub(crate) fn mismatch(row_key: &str, state: State, status: u16, code: &str) -> Reply {
    let why = "this key was used for other contents; the order placed under it stands";
    about(row_key, state, Reply::problem(status, code, why))
}

/// Proven: there was no effect, and there will be none.
pub(crate) fn not_applied(row_key: &str, why: &str) -> Reply {
    about(row_key, State::Failed, Reply::problem(409, "operation_not_applied", why)).member("safe_new_key", json!(true))
}

/// Given up without knowing whether there was an effect.
pub(crate) fn abandoned(row_key: &str) -> Reply {
    let why = "an operator gave this operation up; whether it took effect is not known, and another key is not safe";
    about(row_key, State::Uncertain, Reply::problem(409, "operation_abandoned", why))
}

/// Whether a stored answer is a word about the operation, and no answer of its own.
pub(crate) fn is_word(reply: &Reply) -> bool {
    let body: Value = serde_json::from_slice(reply.bytes()).unwrap_or_default();
    let code = body.get("code").and_then(Value::as_str);
    reply.code() == 409 && body.get("operation_ref").is_some() && matches!(code, Some("operation_not_applied" | "operation_abandoned"))
}
