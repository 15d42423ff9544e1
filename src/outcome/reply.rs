//! `ToolReply`: what a language model is told.

use super::{Error, ErrorKind, NextStep, Outcome};
use crate::{clock::Timestamp, ids::IdempotencyKey, lifecycle::Effect};
use serde::Serialize;
use serde_json::Value;

/// What a language model is told: one shape for every end, errors too, so that no framework retries on its own.
///
/// `next_step` is an imperative sentence; none of them asks for a new order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolReply {
    /// `succeeded`, `rejected`, `denied`, `needs_approval`, `needs_review`, `abandoned`, `in_progress`, `unknown`, `not_sent`, `conflict`,
    /// `order_pending`, `invalid` or `failed`.
    pub status: &'static str,
    /// `none`, `possible` or `certain`: may the order have been processed?
    pub effect: Effect,
    /// The order's key.
    pub key: Option<IdempotencyKey>,
    /// What happened.
    pub message: String,
    /// What to do now.
    pub next_step: String,
    /// When resuming is worth trying.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The receipt of a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Value>,
}

impl ToolReply {
    /// The reply for what `submit` or `resume` gave.
    pub fn of<R: Serialize>(result: &Result<Outcome<R>, Error>) -> Self {
        match result {
            Ok(outcome) => ToolReply {
                status: match outcome {
                    Outcome::Succeeded(_) => "succeeded",
                    Outcome::Rejected(_) => "rejected",
                    Outcome::Denied(_) => "denied",
                    Outcome::AwaitingApproval(_) => "needs_approval",
                    Outcome::NeedsReview(_) => "needs_review",
                    Outcome::Abandoned(_) => "abandoned",
                },
                effect: outcome.effect(),
                key: Some(outcome.key()),
                message: outcome.sentence(),
                next_step: outcome.next_step().to_string(),
                not_before: None,
                order: match outcome {
                    Outcome::Succeeded(receipt) => serde_json::to_value(&receipt.value).ok(),
                    _ => None,
                },
            },
            Err(error) => ToolReply {
                status: match error.kind() {
                    ErrorKind::InvalidInput => "invalid",
                    ErrorKind::Drift | ErrorKind::LikelyRepeat => "conflict",
                    ErrorKind::OrderPending => "order_pending",
                    ErrorKind::NotSent => "not_sent",
                    ErrorKind::StillProcessing => "in_progress",
                    ErrorKind::InDoubt => "unknown",
                    ErrorKind::UnreadableReceipt => "succeeded",
                    _ if error.effect() == Effect::Possible => "unknown",
                    _ => "failed",
                },
                effect: error.effect(),
                key: error.key(),
                message: error.to_string(),
                next_step: error.next_step().to_string(),
                not_before: match error.next_step() {
                    NextStep::Resume { not_before } => not_before,
                    _ => None,
                },
                order: None,
            },
        }
    }
}
