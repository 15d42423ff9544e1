//! What was seen of an attempt, judged. Pure: the same facts and the same history give the same verdict. (Of a lookup: `lookup.rs`.)
//!
//! The one rule above all: a possible effect is never forgotten (R1). A refusal is a definite no only if nothing else of the key can land.

use super::{
    likeness::{Likeness, likeness},
    retry_after,
};
use crate::{
    answer::{Answer, Half, Head, NeverLeft, Observed},
    clock::Timestamp,
    dialect::{Dialect, Reading},
    intent::Intent,
    lifecycle::{Rest, ReviewReason, Settled, Stage, State},
};
use http::StatusCode;
use std::time::Duration;

/// What to do next.
#[derive(Clone, Debug)]
#[must_use]
pub(crate) enum Verdict {
    /// It has an outcome.
    Settle(Settled),
    /// The same once more, same key, same bytes; not before the server's wait.
    Again { not_before: Option<Duration> },
    /// The same once more, at once, if a refresh brings another credential.
    RefreshCredential { status: u16 },
    /// The server is asked for the order. If that settles nothing, a person has to look, for this reason.
    Lookup { why: ReviewReason, named: Option<String> },
    /// A lookup proved that there is no such order: the same key may be sent although the order was held back (R10's exception).
    Resend,
    /// A person has to look.
    Review(ReviewReason),
    /// No further attempt helps; the order stays open.
    Stop(Rest),
}

/// What is judged: an order, its story so far, and how its server speaks.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) intent: &'a Intent,
    pub(crate) dialect: &'a Dialect,
    /// Of an attempt: with it written as sent, and nothing known of it yet.
    pub(crate) before: &'a State,
    pub(crate) now: Timestamp,
}

/// R1 once more, under the turn in which it is written: the order's story may have grown since it was judged.
pub(crate) fn confirm(verdict: Verdict, dialect: &Dialect, attempt: u32, now: &State) -> Verdict {
    match verdict {
        Verdict::Settle(Settled::Rejected { answer }) if now.others_may_land(attempt) && !speaks_for_the_key(dialect, answer.as_ref()) => {
            Verdict::Review(ReviewReason::Contradicted)
        }
        verdict => verdict,
    }
}

/// Why the next attempt may not leave as things are; `None`: it may. `stage` is where the order stands now, by the clocks; `scope` whose
/// credential it would go out under. An age comes last: it is the one reason that a lookup can take away, and only a lookup under the order's own
/// account, at a server that recognises repeats.
pub(crate) fn held_back(case: Case<'_>, stage: &Stage, scope: Option<&str>) -> Option<ReviewReason> {
    // Under another account the key is another one (R9).
    if case.before.may_have_landed() && case.intent.scope() != scope {
        return Some(ReviewReason::OtherScope);
    }
    if case.before.in_doubt() && !case.dialect.recognises_repeats() {
        return Some(ReviewReason::NotRecognised);
    }
    match stage {
        // Past the server's retention the same key executes again (R8).
        Stage::NeedsReview(reason) => Some(*reason),
        Stage::Open | Stage::AwaitingApproval { .. } | Stage::Approved { .. } | Stage::Settled(_) => None,
    }
}

/// Where there is a lookup, the server is asked before a person is.
pub(crate) fn ask_first(case: Case<'_>, why: ReviewReason, named: Option<String>) -> Verdict {
    match case.dialect.asks_for(case.intent, named.as_deref()) {
        Some(_) => Verdict::Lookup { why, named },
        None => Verdict::Review(why),
    }
}

/// What was seen of an attempt, judged.
pub(crate) fn verdict(case: Case<'_>, attempt: u32, seen: &Observed) -> Verdict {
    match seen {
        Observed::NeverLeft(NeverLeft::Tls) => Verdict::Stop(Rest::Tls {}),
        Observed::NeverLeft(NeverLeft::Connect | NeverLeft::Dns) | Observed::NoAnswer(_) => Verdict::Again { not_before: None },
        Observed::HalfAnswer(_, Half::TooLarge) => Verdict::Stop(Rest::TooLarge {}),
        Observed::HalfAnswer(head, Half::Cut | Half::Stalled | Half::Undecodable) => again(case, head),
        Observed::Answered(answer) => answered(case, attempt, answer),
    }
}

fn answered(case: Case<'_>, attempt: u32, answer: &Answer) -> Verdict {
    match case.dialect.read(answer) {
        Reading::InProgress => return running(case, answer),
        Reading::Succeeded => return success(case, attempt, answer),
        // Never a new key: the server has something else under this one.
        Reading::Mismatch => return Verdict::Review(ReviewReason::Mismatch),
        // Told as a no it would be "corrected" into a second order.
        Reading::Exists { named } => return ask_first(case, ReviewReason::AlreadyExists, named),
        Reading::Uncertain => return ask_first(case, ReviewReason::ServerUncertain, None),
        Reading::OutOfWindow => return ask_first(case, ReviewReason::RetentionPassed, None),
        Reading::Refused => return refused(case, attempt, answer),
        Reading::ByStatus => {}
    }
    let status = answer.status();
    match status {
        // 202 and 208 are success codes that say "not yet" (dialects differ; none of them means done).
        StatusCode::PROCESSING | StatusCode::ACCEPTED | StatusCode::ALREADY_REPORTED => running(case, answer),
        _ if status.is_success() => success(case, attempt, answer),
        _ if status.is_redirection() => Verdict::Stop(Rest::Redirected { status: status.as_u16() }),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Verdict::RefreshCredential { status: status.as_u16() },
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => again(case, answer.head()),
        _ if status.is_server_error() => server_error(case, answer.head()),
        // Made up by proxies for a client that went away: no word of the server's.
        _ if matches!(status.as_u16(), 460 | 499) => again(case, answer.head()),
        _ if status.is_client_error() => refused(case, attempt, answer),
        // 101, or a number that HTTP does not know: it says nothing of the order, least of all no.
        _ => again(case, answer.head()),
    }
}

pub(super) fn again(case: Case<'_>, head: &Head) -> Verdict {
    Verdict::Again {
        not_before: retry_after::wait(head, case.now),
    }
}

/// "Still running" is waited for, but not for ever: a server that died at its work says so until it forgets the key.
fn running(case: Case<'_>, answer: &Answer) -> Verdict {
    match is_stuck(case) {
        true => ask_first(case, ReviewReason::StuckProcessing, None),
        false => again(case, answer.head()),
    }
}

pub(super) fn is_stuck(case: Case<'_>) -> bool {
    let since = case.before.running_since().unwrap_or(case.now);
    let running_for = case.now.since(since).unwrap_or_default();
    running_for >= case.dialect.believes_running_for()
}

/// A stored 5xx comes back for as long as the server remembers the key; after that, the key executes again. Repeating it helps nobody.
fn server_error(case: Case<'_>, head: &Head) -> Verdict {
    match case.dialect.is_replay(head) {
        true => ask_first(case, ReviewReason::StoredServerError, None),
        false => again(case, head),
    }
}

/// R1: a definite no only if every other attempt of the key is known to have had no effect; or at a server whose refusal is its stored answer
/// to this very key.
fn refused(case: Case<'_>, attempt: u32, answer: &Answer) -> Verdict {
    match case.before.others_may_land(attempt) && !speaks_for_the_key(case.dialect, Some(answer)) {
        true => ask_first(case, ReviewReason::Contradicted, None),
        false => Verdict::Settle(Settled::Rejected {
            answer: Some(answer.clone()),
        }),
    }
}

/// R1's exception: the server's own refusal, stored under the key. A gateway's page never reached the store of keys, and a conflict may be one
/// with the first request.
fn speaks_for_the_key(dialect: &Dialect, refusal: Option<&Answer>) -> bool {
    let stored = |refusal: &Answer| refusal.says_json() && refusal.status() != StatusCode::CONFLICT;
    dialect.refusals_speak_for_the_key() && refusal.is_some_and(stored)
}

fn success(case: Case<'_>, attempt: u32, answer: &Answer) -> Verdict {
    let intent = case.intent;
    let settled = Verdict::Settle(Settled::Succeeded {
        answer: answer.clone(),
        replayed: case.dialect.is_replay(answer.head()),
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
    let repeats = case.dialect.shows_current_state() && case.before.others_may_land(attempt);
    match answer.json().map_or(Likeness::Unreadable, |body| likeness(intent, body)) {
        Likeness::Unreadable => Verdict::Review(ReviewReason::UnreadableSuccess),
        Likeness::Different => Verdict::Review(ReviewReason::OtherOrderReturned),
        // The first answer to an order says how it was taken; a later one, what has become of it.
        Likeness::Ended if repeats => Verdict::Review(ReviewReason::FoundEnded),
        Likeness::Ended | Likeness::Same => settled,
    }
}

#[cfg(test)]
mod tests;
