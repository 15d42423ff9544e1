//! `State`: an order's events, folded; and what passes by time alone. Pure: no I/O, no clock of its own.
//!
//! The fold is total: every event has a meaning in every state, and nothing that arrives after an end vanishes. Lost records can only add
//! doubt, never take it away (R15).

mod approval;

pub(crate) use approval::Shown;

use super::{Claimed, Effect, Event, Found, Rest, ReviewReason, Settled, Sighting, Voids};
use crate::{
    answer::{Answer, Head, NoAnswer},
    clock::{Boot, Timestamp},
    ids::OwnerId,
    ruling::{Because, Ruling},
};
use approval::Approval;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use std::time::Duration;

/// Where an order stands.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Sending is permitted: it is in flight, or rests until somebody resumes it.
    Open,
    /// A person is asked; nothing of it was sent.
    AwaitingApproval {
        /// Silence until then is a no.
        until: Timestamp,
    },
    /// A person said yes; nothing of it was sent yet.
    Approved {
        /// Good until.
        until: Timestamp,
    },
    /// A person has to look.
    NeedsReview(ReviewReason),
    /// It has an outcome.
    Settled(Settled),
}

impl Stage {
    /// For lists and exports.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Stage::Open => "open",
            Stage::AwaitingApproval { .. } => "awaiting_approval",
            Stage::Approved { .. } => "approved",
            Stage::NeedsReview(_) => "review",
            Stage::Settled(Settled::Succeeded { .. }) => "succeeded",
            Stage::Settled(Settled::Rejected { .. }) => "rejected",
            Stage::Settled(Settled::Denied { .. }) => "denied",
            Stage::Settled(Settled::Abandoned { .. }) => "abandoned",
        }
    }
}

/// The first attempt that may have had an effect: it stays in every later error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// Which attempt; 0: an attempt that nobody could write down.
    pub attempt: u32,
    /// What was seen of it.
    pub seen: Sighting,
}

/// An order's events, folded.
#[derive(Clone, Debug)]
pub(crate) struct State {
    stage: Stage,
    ruling: Option<Ruling>,
    /// For how long a person is asked.
    asked_for: Duration,
    preview: Option<Shown>,
    approval: Option<Approval>,
    attempts: u32,
    /// Attempts sent, of which nothing was written down yet.
    unanswered: Vec<u32>,
    doubts: u32,
    first_doubt: Option<Doubt>,
    last_seen: Option<Sighting>,
    /// Since when the server has said nothing but "still running".
    running_since: Option<Timestamp>,
    first_possible_send: Option<Timestamp>,
    last_send: Option<Timestamp>,
    retention: Duration,
    owner: Option<OwnerId>,
    /// When it was claimed, by the machine's own count.
    boot: Option<Boot>,
    /// When bytes could first leave, by the machine's own count.
    boot_of_first_send: Option<Boot>,
    claimed_at: Option<Timestamp>,
    rest: Option<Rest>,
    /// What a review was raised by.
    shown: Option<Answer>,
    refused_by_person: bool,
    closed_by_person: bool,
    freed: bool,
}

/// How long before a server's retention ends we stop sending (R8): ten minutes, or a quarter of a retention that is short.
pub(crate) fn retention_margin(retention: Duration) -> Duration {
    Duration::from_secs(10 * 60).min(retention / 4)
}

impl State {
    /// Before any event.
    pub(crate) fn new() -> Self {
        State {
            stage: Stage::Open,
            ruling: None,
            asked_for: Duration::ZERO,
            preview: None,
            approval: None,
            attempts: 0,
            unanswered: Vec::new(),
            doubts: 0,
            first_doubt: None,
            last_seen: None,
            running_since: None,
            first_possible_send: None,
            last_send: None,
            retention: Duration::ZERO,
            owner: None,
            boot: None,
            boot_of_first_send: None,
            claimed_at: None,
            rest: None,
            shown: None,
            refused_by_person: false,
            closed_by_person: false,
            freed: false,
        }
    }

    /// What the order comes to with one more event. Total and pure.
    #[must_use]
    pub(crate) fn after(mut self, event: &Event, at: Timestamp) -> Self {
        let was_certain = self.effect() == Effect::Certain;
        match event {
            Event::Claimed(claimed) => self.claimed(claimed, at),
            Event::Joined { .. } => {}
            Event::Previewed {
                current,
                because,
                digest,
                voids,
                request: _,
            } => {
                let shown = Shown {
                    current: current.clone(),
                    because: because.clone(),
                    digest: digest.clone(),
                };
                self.previewed(shown, voids.as_ref());
            }
            Event::Approved { by, note, shown, until } => {
                let stands = self.preview.as_ref().is_none_or(|preview| preview.digest == *shown);
                if let (Stage::AwaitingApproval { .. }, true) = (&self.stage, stands) {
                    self.stage = Stage::Approved { until: *until };
                    self.approval = Some(Approval {
                        by: by.clone(),
                        note: note.clone(),
                        shown: shown.clone(),
                    });
                    // Approved, it belongs to nobody: whoever comes first sends it (R13).
                    (self.owner, self.rest) = (None, None);
                }
            }
            Event::Refused { by, why } => {
                // Only what was never cleared can be refused (R2).
                if self.never_cleared() && !self.may_have_landed() && !self.is_settled() {
                    self.refused_by_person = true;
                    self.stage = self.denied("refused", format!("{by}: {why}"));
                }
            }
            Event::Cleared { boot, .. } => {
                // Whatever was decided meanwhile, bytes may leave from here on: the doubt has to be counted.
                if self.first_possible_send.is_none() {
                    self.first_possible_send = Some(at);
                    self.boot_of_first_send = boot.clone();
                }
                self.leaves();
            }
            Event::Sent { attempt, .. } => {
                self.first_possible_send.get_or_insert(at);
                self.leaves();
                self.last_send = self.last_send.max(Some(at));
                self.attempts_before(attempt.saturating_sub(1), at);
                self.attempts = self.attempts.max(*attempt);
                self.unanswered.push(*attempt);
                self.rest = None;
            }
            Event::Observed { attempt, seen, .. } => {
                // What was seen was sent, even if no record of the sending is left.
                self.first_possible_send.get_or_insert(at);
                self.leaves();
                self.last_send = self.last_send.max(Some(at));
                self.observed(*attempt, seen, at);
            }
            // It orders nothing, and what it found is acted on by the event behind it. That it is still running is a fact all the same.
            Event::LookedUp { found, .. } => match found {
                Found::InProgress => drop(self.running_since.get_or_insert(at)),
                Found::Same | Found::Different | Found::Ended | Found::Absent | Found::Unreadable | Found::NoAnswer => {}
            },
            Event::Rested { why, attempts } => {
                self.attempts_before(*attempts, at);
                self.rest = Some(why.clone());
            }
            Event::Settled(settled) => self.settled(settled),
            Event::Review { reason, answer } => self.review(*reason, answer.as_ref()),
            Event::Reconciled {
                applied,
                receipt,
                evidence: _,
                by: _,
            } => self.reconciled(*applied, receipt.as_ref()),
            Event::Abandoned { by, why } => {
                if !self.is_settled() {
                    self.closed_by_person = true;
                    self.stage = Stage::Settled(Settled::Abandoned {
                        by: by.clone(),
                        why: why.clone(),
                    });
                }
            }
            Event::Withdrawn { by, why } => {
                if self.may_be_withdrawn() {
                    self.stage = self.denied("withdrawn", format!("withdrawn by {by}: {why}"));
                }
            }
            Event::Freed { .. } => self.freed = true,
            Event::TurnedAway { .. } => {}
            Event::TakenOver { owner } => self.taken_over(*owner, at),
        }
        self.unsay_a_no_that_no_longer_holds(event);
        let certain = was_certain || matches!(event, Event::Settled(Settled::Succeeded { .. }));
        if certain && self.effect() == Effect::None {
            // Somebody knew that it was processed, and somebody else closed it otherwise: nobody can call that nothing.
            self.doubt(0, Sighting::NoAnswer(NoAnswer::NotWritten));
        }
        self
    }

    /// Nothing that arrives after an end vanishes: bytes that leave after a no, or come to an unclear end after it, make it no definite no.
    fn unsay_a_no_that_no_longer_holds(&mut self, event: &Event) {
        let leaving = match event {
            Event::Cleared { .. } | Event::Sent { .. } => true,
            Event::Observed { seen, .. } => !seen.proves_no_execution(),
            _ => false,
        };
        if leaving && matches!(self.stage, Stage::Settled(Settled::Rejected { .. } | Settled::Denied { .. })) {
            self.stage = Stage::NeedsReview(ReviewReason::Contradicted);
        }
    }

    fn claimed(&mut self, claimed: &Claimed, at: Timestamp) {
        if self.ruling.is_some() {
            // A claim kept in excess is harmless (R12): the first one stands.
            return;
        }
        self.ruling = Some(claimed.ruling.clone());
        self.retention = claimed.order.retention();
        // What is parked belongs to nobody (R13).
        self.owner = (!matches!(claimed.ruling, Ruling::Ask(_))).then_some(claimed.owner);
        self.asked_for = claimed.parked_until.and_then(|until| until.since(at)).unwrap_or_default();
        self.boot = claimed.boot.clone();
        self.boot_of_first_send = claimed.boot.clone().filter(|_| claimed.sending_follows);
        self.claimed_at = Some(at);
        self.first_possible_send = claimed.sending_follows.then_some(at);
        self.stage = match &claimed.ruling {
            Ruling::Allow(_) => Stage::Open,
            Ruling::Deny(because) => Stage::Settled(Settled::Denied { because: because.clone() }),
            Ruling::Ask(_) => Stage::AwaitingApproval {
                until: claimed.parked_until.unwrap_or(at),
            },
        };
    }

    /// Bytes leave, so nobody is asked about it any more, whatever record of the leave is left: no silence and no refusal unsays it (R2).
    fn leaves(&mut self) {
        if matches!(self.stage, Stage::AwaitingApproval { .. } | Stage::Approved { .. }) {
            self.stage = Stage::Open;
        }
    }

    /// Lost records can only add doubt: an attempt that was counted and can't be read may have done anything.
    fn attempts_before(&mut self, made: u32, at: Timestamp) {
        if made > self.attempts {
            self.attempts = made;
            // When it was, nobody knows; not after this.
            self.last_send = self.last_send.max(Some(at));
            self.doubt(made, Sighting::NoAnswer(NoAnswer::NotWritten));
        }
    }

    fn observed(&mut self, attempt: u32, seen: &Sighting, at: Timestamp) {
        self.attempts_before(attempt.saturating_sub(1), at);
        self.attempts = self.attempts.max(attempt);
        self.unanswered.retain(|open| *open != attempt);
        self.last_seen = Some(seen.clone());
        match seen {
            _ if seen.says_in_progress() => drop(self.running_since.get_or_insert(at)),
            // Another word of the server's; that none came says nothing.
            Sighting::Answered { .. } => self.running_since = None,
            Sighting::NeverLeft(_) | Sighting::NoAnswer(_) | Sighting::HalfAnswer { .. } => {}
        }
        if !seen.proves_no_execution() {
            self.doubt(attempt, seen.clone());
        }
    }

    fn doubt(&mut self, attempt: u32, seen: Sighting) {
        self.doubts = self.doubts.saturating_add(1);
        self.first_doubt.get_or_insert(Doubt { attempt, seen });
    }

    fn settled(&mut self, new: &Settled) {
        let late = self.closed_by_person;
        self.stage = match (&self.stage, new) {
            _ if late => Stage::NeedsReview(ReviewReason::LateOutcome),
            // Two senders of one key: what the server did stands, whoever heard of it first.
            (Stage::Settled(Settled::Succeeded { .. }), _) => return,
            (Stage::Settled(Settled::Rejected { .. }), Settled::Rejected { .. }) => return,
            (Stage::Settled(_), _) => {
                self.doubt(0, Sighting::NoAnswer(NoAnswer::NotWritten));
                Stage::NeedsReview(ReviewReason::Contradicted)
            }
            (Stage::NeedsReview(reason), Settled::Rejected { .. } | Settled::Denied { .. }) => Stage::NeedsReview(*reason),
            // Denied is only what was never sent (R19).
            (_, Settled::Denied { .. }) if self.may_have_landed() => Stage::NeedsReview(ReviewReason::Contradicted),
            (_, new) => Stage::Settled(new.clone()),
        };
    }

    fn review(&mut self, reason: ReviewReason, answer: Option<&Answer>) {
        if self.shown.is_none() {
            self.shown = answer.cloned();
        }
        self.stage = match &self.stage {
            _ if self.closed_by_person => Stage::NeedsReview(ReviewReason::LateOutcome),
            Stage::Settled(Settled::Succeeded { .. }) => return,
            Stage::NeedsReview(first) => Stage::NeedsReview(*first),
            _ => Stage::NeedsReview(reason),
        };
    }

    fn reconciled(&mut self, applied: bool, receipt: Option<&Value>) {
        if matches!(self.stage, Stage::Settled(Settled::Succeeded { .. })) {
            return;
        }
        self.closed_by_person = true;
        self.stage = Stage::Settled(if applied {
            Settled::Succeeded {
                answer: answer_of(receipt),
                replayed: true,
            }
        } else {
            Settled::Rejected { answer: None }
        });
    }

    /// R15: a record that says sending may have begun counts as one attempt without an answer once another owner takes over, and so does each
    /// attempt of which nothing was written down.
    fn taken_over(&mut self, owner: OwnerId, at: Timestamp) {
        let stranger = self.owner.replace(owner) != Some(owner);
        // The flight before is not known to have ended: it may have sent until now.
        if self.rest.take().is_none() && self.first_possible_send.is_some() {
            self.last_send = self.last_send.max(Some(at));
        }
        for attempt in std::mem::take(&mut self.unanswered) {
            self.doubt(attempt, Sighting::NoAnswer(NoAnswer::NotWritten));
        }
        if stranger && self.first_possible_send.is_some() {
            self.doubt(0, Sighting::NoAnswer(NoAnswer::NotWritten));
        }
    }

    /// Where the order stands at a moment: the fold, and what passes by time alone.
    pub(crate) fn at(&self, now: Timestamp) -> Stage {
        match &self.stage {
            Stage::AwaitingApproval { until } if now >= *until => {
                self.denied("expired", "nobody answered in time, and silence is no".to_owned())
            }
            Stage::Approved { until } if now >= *until => {
                let by = self.approval.as_ref().map_or("somebody", |approval| approval.by.as_str());
                self.denied(
                    "approval_expired",
                    format!("{by} approved it, and the approval was not used in time"),
                )
            }
            Stage::Open if self.may_have_landed() && self.retention_passed(now) => Stage::NeedsReview(ReviewReason::RetentionPassed),
            stage => stage.clone(),
        }
    }

    /// [`at`](State::at), with the machine's own count beside the wall clock: within one boot no step of that makes a key young again (R8).
    pub(crate) fn at_boot(&self, now: Timestamp, boot: Option<&Boot>) -> Stage {
        match (self.at(now), boot, &self.boot_of_first_send) {
            (Stage::Open, Some(here), Some(then)) if self.may_have_landed() && here.id == then.id => {
                let age = Duration::from_millis(here.up_ms.saturating_sub(then.up_ms));
                match self.outlives_retention(age) {
                    true => Stage::NeedsReview(ReviewReason::RetentionPassed),
                    false => Stage::Open,
                }
            }
            (stage, _, _) => stage,
        }
    }

    /// R8: past the server's retention the same key executes again. A clock in doubt counts as passed. The age runs from the first record that
    /// let bytes leave, never from a take-over or a later attempt.
    pub(crate) fn retention_passed(&self, now: Timestamp) -> bool {
        let Some(first) = self.first_possible_send else {
            return false;
        };
        match now.since(first) {
            Some(age) => self.outlives_retention(age),
            // A clock that stands well before a record it wrote is in doubt.
            None => first.since(now).is_some_and(|behind| behind > retention_margin(self.retention)),
        }
    }

    /// Whether wall clock and machine agree on how long ago the claim was, so that an age by the wall clock is an age.
    pub(crate) fn clocks_agree(&self, now: Timestamp, boot: Option<&Boot>) -> bool {
        let Some(by_wall) = self.first_possible_send.and_then(|first| now.since(first)) else {
            return false;
        };
        match (boot, &self.boot_of_first_send) {
            (Some(here), Some(then)) if here.id == then.id => {
                let by_machine = Duration::from_millis(here.up_ms.saturating_sub(then.up_ms));
                by_wall.abs_diff(by_machine) <= retention_margin(self.retention)
            }
            // Another boot, or a machine that does not tell: nothing contradicts the wall clock.
            _ => true,
        }
    }

    fn outlives_retention(&self, age: Duration) -> bool {
        age >= self.retention.saturating_sub(retention_margin(self.retention))
    }

    /// Whether the order may have been processed, by everything written down of it (R15).
    pub(crate) fn effect(&self) -> Effect {
        match &self.stage {
            Stage::Settled(Settled::Succeeded { .. }) => Effect::Certain,
            Stage::Settled(Settled::Rejected { .. } | Settled::Denied { .. }) => Effect::None,
            _ if self.may_have_landed() => Effect::Possible,
            _ => Effect::None,
        }
    }

    /// [`effect`](State::effect), as a flight that writes all it does down knows it: what is not written was not sent.
    pub(crate) fn effect_in_flight(&self) -> Effect {
        match self.effect() {
            Effect::Possible if !self.has_doubts() => Effect::None,
            effect => effect,
        }
    }

    /// Over all runs: some attempt may have reached the server. A flight that is not known to have ended may be sending right now.
    pub(crate) fn may_have_landed(&self) -> bool {
        self.has_doubts() || (self.first_possible_send.is_some() && self.rest.is_none())
    }

    /// Whether a record speaks of an attempt that may have landed.
    fn has_doubts(&self) -> bool {
        self.doubts > 0 || !self.unanswered.is_empty()
    }

    /// The end of a flight without an outcome, with how many attempts were made by then.
    pub(crate) fn resting(&self, why: Rest) -> Event {
        Event::Rested {
            why,
            attempts: self.attempts,
        }
    }

    /// R1: whether anything but this attempt may have had, or may yet have, an effect.
    pub(crate) fn others_may_land(&self, attempt: u32) -> bool {
        self.doubts > 0 || self.unanswered.iter().any(|open| *open != attempt)
    }

    /// Whether an attempt is known that may have had an effect. Unlike [`may_have_landed`](State::may_have_landed) it does not count what a
    /// flight that writes everything down is about to do.
    pub(crate) fn in_doubt(&self) -> bool {
        self.has_doubts()
    }

    /// Since when the server has said nothing but "still running".
    pub(crate) fn running_since(&self) -> Option<Timestamp> {
        self.running_since
    }

    /// The last time that a byte may have left.
    pub(crate) fn last_possible_send(&self) -> Option<Timestamp> {
        self.last_send.max(self.first_possible_send)
    }

    /// When bytes could first leave: the key's age runs from here (R8).
    pub(crate) fn first_possible_send(&self) -> Option<Timestamp> {
        self.first_possible_send
    }

    /// The answer that a review was raised by.
    pub(crate) fn shown(&self) -> Option<&Answer> {
        self.shown.as_ref()
    }

    fn denied(&self, rule: &str, reason: String) -> Stage {
        let version = self.ruling.as_ref().map_or("", |ruling| &ruling.because().policy_version);
        Stage::Settled(Settled::Denied {
            because: Because::rule(version, rule, reason),
        })
    }

    fn never_cleared(&self) -> bool {
        self.first_possible_send.is_none()
    }

    /// R16: only what was never sent, or never left, can be taken back; and only while no flight has it.
    pub(crate) fn may_be_withdrawn(&self) -> bool {
        !self.is_settled() && !matches!(self.stage, Stage::NeedsReview(_)) && !self.may_have_landed()
    }

    /// Whether it has an outcome, by its records alone.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Settled(_))
    }

    /// Who may be sending it, or about to: the owner of a flight that is not known to have ended.
    pub(crate) fn flown_by(&self) -> Option<OwnerId> {
        let may_fly = matches!(self.stage, Stage::Open | Stage::Approved { .. });
        self.owner.filter(|_| may_fly && self.rest.is_none())
    }

    /// A person established that the server has no such order.
    pub(crate) fn was_found_unprocessed(&self) -> bool {
        matches!(self.stage, Stage::Settled(Settled::Rejected { answer: None }))
    }

    /// A person stopped it while it may have been processed, and has not freed its origin: it stays an order in doubt (R11).
    pub(crate) fn was_stopped_in_doubt(&self) -> bool {
        matches!(self.stage, Stage::Settled(Settled::Abandoned { .. })) && self.may_have_landed() && !self.freed
    }

    /// When it was claimed, by the machine's own count.
    pub(crate) fn boot(&self) -> Option<&Boot> {
        self.boot.as_ref()
    }

    /// Whether resume has something to do: sending is permitted and no outcome is known.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// R17: a definite no frees the origin for other contents.
    pub(crate) fn is_definite_no(&self, now: Timestamp) -> bool {
        match self.at(now) {
            Stage::Settled(Settled::Rejected { answer }) => answer.is_some(),
            Stage::Settled(Settled::Denied { .. }) => true,
            _ => false,
        }
    }

    /// Whether a person freed the origin, and nothing has been heard since by which its order may stand after all.
    pub(crate) fn is_freed(&self) -> bool {
        let stands = matches!(self.stage, Stage::Settled(Settled::Succeeded { .. })) || !self.is_settled();
        self.freed && !stands
    }

    /// R17: after a person's refusal every correction is asked about.
    pub(crate) fn refused_by_person(&self) -> bool {
        self.refused_by_person
    }

    /// Where the order stands by its records alone, whatever time it is.
    pub(crate) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// R2: a record says that bytes may leave.
    pub(crate) fn sending_permitted(&self) -> bool {
        self.first_possible_send.is_some()
    }

    /// When it was claimed, by the wall clock of then.
    pub(crate) fn claimed_at(&self) -> Option<Timestamp> {
        self.claimed_at
    }

    /// What was ruled of it.
    pub(crate) fn ruling(&self) -> Option<&Ruling> {
        self.ruling.as_ref()
    }

    /// How many attempts were made, over all runs.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The first attempt that may have had an effect.
    pub(crate) fn first_doubt(&self) -> Option<&Doubt> {
        self.first_doubt.as_ref()
    }

    /// What was last seen.
    pub(crate) fn last_seen(&self) -> Option<&Sighting> {
        self.last_seen.as_ref()
    }

    /// Why the last flight ended without an outcome; `None` while one may be under way.
    pub(crate) fn rest(&self) -> Option<&Rest> {
        self.rest.as_ref()
    }

    /// Who had it last.
    pub(crate) fn owner(&self) -> Option<OwnerId> {
        self.owner
    }
}

/// A receipt that a person established, in the form of an answer: whoever reads receipts reads it like any other.
fn answer_of(receipt: Option<&Value>) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let body = receipt.map(|r| Bytes::from(r.to_string())).unwrap_or_default();
    Answer::new(Head::new(StatusCode::OK, headers), body)
}

#[cfg(test)]
mod tests;
