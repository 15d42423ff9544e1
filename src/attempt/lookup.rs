//! What was seen of a lookup, judged. Pure. "Not found" proves nothing (R10), with the one exception that a dialect has to name.

use super::{
    likeness::{Likeness, likeness, repeats_any},
    verdict::{Case, Verdict, again, is_stuck},
};
use crate::{
    answer::{Answer, Half, NeverLeft, Observed},
    dialect::Dialect,
    intent::Intent,
    lifecycle::{Found, Rest, ReviewReason, Settled},
};
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

/// What a lookup found, in the journal's word; the order itself, where there is one; and what follows.
#[derive(Debug)]
#[must_use]
pub(crate) struct Looked {
    pub(crate) found: Found,
    pub(crate) answer: Option<Answer>,
    pub(crate) verdict: Verdict,
}

/// What was seen of a lookup, judged. `why` is what the order is held back for; `provable`: the clocks can be trusted with an age, and
/// the account that asks is the one that ordered.
pub(crate) fn looked(case: Case<'_>, why: ReviewReason, provable: bool, seen: &Observed) -> Looked {
    let told = |found, verdict| Looked {
        found,
        answer: None,
        verdict,
    };
    let silent = |verdict| told(Found::NoAnswer, verdict);
    match seen {
        Observed::NeverLeft(NeverLeft::Tls) => silent(Verdict::Stop(Rest::Tls {})),
        Observed::NeverLeft(NeverLeft::Connect | NeverLeft::Dns) | Observed::NoAnswer(_) => silent(Verdict::Again { not_before: None }),
        Observed::HalfAnswer(_, Half::TooLarge) => told(Found::Unreadable, Verdict::Stop(Rest::TooLarge {})),
        Observed::HalfAnswer(head, Half::Cut | Half::Stalled | Half::Undecodable) => silent(again(case, head)),
        Observed::Answered(answer) => match answer.status() {
            _ if says_running(case.dialect, answer) => told(
                Found::InProgress,
                match is_stuck(case) {
                    true => Verdict::Review(ReviewReason::StuckProcessing),
                    false => again(case, answer.head()),
                },
            ),
            // It was there, or a gateway knows no way to it: no proof, whatever the dialect says.
            StatusCode::GONE => told(Found::Absent, Verdict::Review(why)),
            StatusCode::NOT_FOUND | StatusCode::NO_CONTENT => {
                let own_word = answer.body().is_empty() || answer.says_json();
                told(Found::Absent, absent(case, why, provable && own_word))
            }
            status if status.is_success() => shown(case, why, provable, answer),
            status if status.is_redirection() => told(Found::Unreadable, Verdict::Stop(Rest::Redirected { status: status.as_u16() })),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                told(Found::Unreadable, Verdict::RefreshCredential { status: status.as_u16() })
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => silent(again(case, answer.head())),
            status if status.is_client_error() => told(Found::Unreadable, Verdict::Review(why)),
            _ => silent(again(case, answer.head())),
        },
    }
}

fn says_running(dialect: &Dialect, answer: &Answer) -> bool {
    dialect.sighting(&Observed::Answered(answer.clone())).says_in_progress()
}

/// A lookup's success: the order, or a list.
fn shown(case: Case<'_>, why: ReviewReason, provable: bool, answer: &Answer) -> Looked {
    let looked = |found, answer, verdict| Looked { found, answer, verdict };
    if !answer.says_json() {
        let status = answer.status().as_u16();
        return looked(Found::Unreadable, None, Verdict::Stop(Rest::UnexpectedContent { status }));
    }
    let order = match orders_in(case.dialect, answer) {
        Some([order]) if order.as_object().is_some_and(|members| !members.is_empty()) => order,
        Some([]) => return looked(Found::Absent, None, absent(case, why, provable)),
        // More than one under one key: the very thing that must not be.
        Some([_, _, ..]) => {
            let all = Some(answer.clone());
            return looked(Found::Different, all, Verdict::Review(ReviewReason::OtherOrderReturned));
        }
        Some([_]) | None => return looked(Found::Unreadable, None, Verdict::Review(why)),
    };
    let answer = Answer::new(answer.head().clone(), Bytes::from(order.to_string()));
    let review = |found, reason| looked(found, Some(answer.clone()), Verdict::Review(reason));
    match (likeness(case.intent, order), whose(case.intent, order)) {
        (Likeness::Unreadable, _) => review(Found::Unreadable, ReviewReason::UnreadableSuccess),
        (Likeness::Different, _) => review(Found::Different, ReviewReason::OtherOrderReturned),
        // The question was answered, and not a word of it is of this order.
        (_, Whose::Unsaid) => looked(Found::Unreadable, None, Verdict::Review(why)),
        (_, Whose::AnothersKey) => review(Found::Different, ReviewReason::OtherOrderReturned),
        (Likeness::Ended, Whose::Ours) => review(Found::Ended, ReviewReason::FoundEnded),
        (Likeness::Same, Whose::Ours) => {
            let settled = Settled::Succeeded {
                answer: answer.clone(),
                replayed: true,
            };
            looked(Found::Same, Some(answer), Verdict::Settle(settled))
        }
    }
}

/// The orders that an answer lists; a dialect without lists answers with one. `None`: it does not read as such.
fn orders_in<'a>(dialect: &Dialect, answer: &'a Answer) -> Option<&'a [Value]> {
    let body = answer.json()?;
    match dialect.list() {
        None => Some(std::slice::from_ref(body)),
        Some(pointer) => Some(body.pointer(pointer)?.as_array()?),
    }
}

/// Whether what is shown is known for the order that was asked for, beyond contradicting nothing of it.
enum Whose {
    Ours,
    AnothersKey,
    Unsaid,
}

fn whose(intent: &Intent, order: &Value) -> Whose {
    let repeats = || intent.json().is_some_and(|asked| repeats_any(&asked, order));
    match order.get("idempotency_key").and_then(Value::as_str) {
        // Kept with the draft's quotes, or in capitals, it is this key.
        Some(key) if key.trim_matches('"').eq_ignore_ascii_case(&intent.key().to_string()) => Whose::Ours,
        Some(_) => Whose::AnothersKey,
        None if !intent.receipt_has().is_empty() || repeats() => Whose::Ours,
        None => Whose::Unsaid,
    }
}

/// R10: "not found" settles nothing and permits nothing; but for a dialect that reads the orders themselves, and an order of which nothing
/// can be under way any more: that may be sent again, under its key, although it was held back for its age.
fn absent(case: Case<'_>, why: ReviewReason, provable: bool) -> Verdict {
    let proven_from = case
        .before
        .last_possible_send()
        .and_then(|last| case.dialect.absence_proven_from(last));
    let proven = provable && proven_from.is_some_and(|from| case.now >= from);
    match why {
        ReviewReason::RetentionPassed if proven => Verdict::Resend,
        why => Verdict::Review(why),
    }
}
