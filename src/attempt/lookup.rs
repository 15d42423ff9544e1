//! What was seen of a lookup, judged. Pure. "Not found" proves nothing (R10), with the one exception that a dialect has to name.

use super::{
    likeness::{Likeness, likeness, repeats_any},
    verdict::{Case, Verdict, again, is_stuck},
};
use crate::{
    answer::{Answer, Half, NeverLeft, Observed},
    dialect::Dialect,
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
    let order = match (answer.json(), case.dialect.list()) {
        (Some(body), None) => Some(body),
        (Some(body), Some(pointer)) => match body.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice) {
            Some([]) => return looked(Found::Absent, None, absent(case, why, provable)),
            Some([order]) => Some(order),
            // More than one under one key: the very thing that must not be.
            Some(_) => {
                return looked(
                    Found::Different,
                    Some(answer.clone()),
                    Verdict::Review(ReviewReason::OtherOrderReturned),
                );
            }
            None => None,
        },
        (None, _) => None,
    };
    let order = order.filter(|order| order.as_object().is_some_and(|members| !members.is_empty()));
    let Some(order) = order else {
        return looked(Found::Unreadable, None, Verdict::Review(why));
    };
    let answer = Answer::new(answer.head().clone(), Bytes::from(order.to_string()));
    let key = order.get("idempotency_key").and_then(Value::as_str);
    // Kept with the draft's quotes, or in capitals, it is this key.
    let other_key = key.is_some_and(|key| !key.trim_matches('"').eq_ignore_ascii_case(&case.intent.key().to_string()));
    let (named, asked) = (key.is_some() || !case.intent.receipt_has().is_empty(), case.intent.json());
    let known = named || asked.is_some_and(|asked| repeats_any(&asked, order));
    match likeness(case.intent, order) {
        Likeness::Unreadable => looked(Found::Unreadable, Some(answer), Verdict::Review(ReviewReason::UnreadableSuccess)),
        // The question was answered, and not a word of it is of this order.
        Likeness::Same | Likeness::Ended if !known => looked(Found::Unreadable, None, Verdict::Review(why)),
        Likeness::Same | Likeness::Ended if other_key => {
            looked(Found::Different, Some(answer), Verdict::Review(ReviewReason::OtherOrderReturned))
        }
        Likeness::Different => looked(Found::Different, Some(answer), Verdict::Review(ReviewReason::OtherOrderReturned)),
        Likeness::Ended => looked(Found::Ended, Some(answer), Verdict::Review(ReviewReason::FoundEnded)),
        Likeness::Same => {
            let settled = Settled::Succeeded {
                answer: answer.clone(),
                replayed: true,
            };
            looked(Found::Same, Some(answer), Verdict::Settle(settled))
        }
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
