//! What happened to an order, as events; what it comes to, as a pure fold over them. No I/O, no clock of its own.
//!
//! `State::after` is total: every event has a meaning in every state, and nothing that arrives after an end vanishes. What passes by time
//! alone is `State::at(now)`, so that no event has to be written for it. Lost records can only add doubt, never take it away (R15).

use crate::{
    actor::Actor,
    answer::{Answer, Half, Head, NeverLeft, NoAnswer, Observed},
    clock::{Boot, Timestamp},
    ids::{IdempotencyKey, OwnerId, RequestId, TraceId},
    intent::{Draft, Intent, Lineage},
    ruling::{Because, Ruling},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Whether the order, not merely this call, may have been processed by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It was not, and nothing that was sent can still make it so.
    None,
    /// Either; nobody on this side can tell.
    Possible,
    /// It was.
    Certain,
}

/// Why a person has to look. Nothing is sent meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReviewReason {
    /// The server says that the key was used for other contents.
    Mismatch,
    /// The server may have forgotten the key: sending it again could execute again (R8).
    RetentionPassed,
    /// A success that does not hold what the operation says a success must hold.
    UnreadableSuccess,
    /// The server stored a server error under the key and replays it.
    StoredServerError,
    /// The server refused, while an earlier attempt may still have been, or yet be, processed (R1); or two answers disagree.
    Contradicted,
    /// The server answered with an order that differs from this one.
    OtherOrderReturned,
    /// An outcome came in after a person had closed the order (R4).
    LateOutcome,
}

impl ReviewReason {
    /// A sentence for people.
    pub fn sentence(self) -> &'static str {
        match self {
            ReviewReason::Mismatch => "the server says this key was used for other contents",
            ReviewReason::RetentionPassed => "the server may have forgotten the key, so sending it again could order again",
            ReviewReason::UnreadableSuccess => "the server reported success without what a success must hold",
            ReviewReason::StoredServerError => "the server replays a stored server error for this key",
            ReviewReason::Contradicted => "the server refused, but another attempt of this key may have been processed",
            ReviewReason::OtherOrderReturned => "the server answered with an order that differs from this one",
            ReviewReason::LateOutcome => "an outcome came in after a person had closed the order",
        }
    }
}

/// Why a flight ended without an outcome. The order stays open and belongs to nobody; resume goes on under the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rest {
    /// The attempt limit was reached.
    AttemptsSpent {
        /// Not worth trying before.
        retry_at: Option<Timestamp>,
    },
    /// The total time limit would have passed before the next attempt.
    TimeSpent {
        /// Not worth trying before.
        retry_at: Option<Timestamp>,
    },
    /// The server refuses the credential, also after one refresh; or there was none to send.
    Unauthorized {
        /// 401 or 403; `None` where the credential provider failed.
        status: Option<u16>,
    },
    /// A redirect; never followed.
    Redirected {
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// A success status with a body that is no JSON, such as a sign-in page.
    UnexpectedContent {
        /// The status.
        status: u16,
    },
    /// The answer is larger than the cap.
    TooLarge {},
    /// The TLS handshake failed.
    Tls {},
    /// The task ended before its work did: its runtime was dropped, it panicked, or the operating system gave no randomness.
    Interrupted {},
}

/// What an order came to. Cheap to clone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Settled {
    /// The server processed it.
    Succeeded {
        /// The server's answer, stored.
        answer: Answer,
        /// Whether the server says that this answer was stored by it earlier.
        replayed: bool,
    },
    /// The server's definite no: nothing was registered, and nothing that was sent can still be.
    Rejected {
        /// The server's answer; `None` where a person established it.
        answer: Option<Answer>,
    },
    /// Policy's or a person's no: nothing was sent.
    Denied {
        /// Why.
        because: Because,
    },
    /// A person stopped it.
    Abandoned {
        /// Who.
        by: String,
        /// Why.
        why: String,
    },
}

/// What was seen of one attempt, as the journal keeps it: enough to judge doubt, without a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sighting {
    /// No byte left.
    NeverLeft(NeverLeft),
    /// Nothing came back.
    NoAnswer(NoAnswer),
    /// A head without a whole body.
    HalfAnswer {
        /// The status seen.
        status: u16,
        /// What was wrong with the body.
        half: Half,
    },
    /// A whole answer.
    Answered {
        /// Its status.
        status: u16,
        /// Whether it carried the replay marker.
        replayed: bool,
        /// The server's error code, where it is short and plain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
}

impl Sighting {
    pub(crate) fn of(seen: &Observed) -> Self {
        match seen {
            Observed::NeverLeft(why) => Sighting::NeverLeft(*why),
            Observed::NoAnswer(why) => Sighting::NoAnswer(*why),
            Observed::HalfAnswer(head, half) => Sighting::HalfAnswer {
                status: head.status().as_u16(),
                half: *half,
            },
            Observed::Answered(answer) => Sighting::Answered {
                status: answer.status().as_u16(),
                replayed: answer.head().replayed(),
                code: plain_code(answer),
            },
        }
    }

    /// Whether this attempt cannot have had, and cannot yet have, an effect: it never left, or the server answered it in a way that comes
    /// before any execution (R1). A replayed answer tells of an earlier attempt, so it proves nothing.
    pub(crate) fn proves_no_execution(&self) -> bool {
        match self {
            Sighting::NeverLeft(_) => true,
            Sighting::NoAnswer(_) | Sighting::HalfAnswer { .. } => false,
            Sighting::Answered { status, replayed, .. } => !replayed && matches!(status, 401 | 403 | 425 | 429),
        }
    }
}

impl std::fmt::Display for Sighting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Sighting::NeverLeft(NeverLeft::Connect) => "no connection",
            Sighting::NeverLeft(NeverLeft::Dns) => "the server's name does not resolve",
            Sighting::NeverLeft(NeverLeft::Tls) => "no trusted TLS connection",
            Sighting::NoAnswer(NoAnswer::TimedOut) => "no answer in time",
            Sighting::NoAnswer(NoAnswer::Closed) => "connection closed before a reply",
            Sighting::NoAnswer(NoAnswer::Reset) => "connection reset before a reply",
            Sighting::NoAnswer(NoAnswer::Garbage) => "a reply that is not HTTP",
            Sighting::NoAnswer(NoAnswer::NotWritten) => "the process that sent it went away",
            Sighting::HalfAnswer { status, .. } => return write!(f, "status {status} without a whole body"),
            Sighting::Answered {
                status, code: Some(code), ..
            } => return write!(f, "status {status} {code}"),
            Sighting::Answered { status, .. } => return write!(f, "status {status}"),
        };
        f.write_str(text)
    }
}

/// A server's error code, if it looks like one: it is shown and logged, so it must not be able to carry anything else.
fn plain_code(answer: &Answer) -> Option<String> {
    let code = ["/code", "/error/code", "/error/type"].iter().find_map(|p| answer.code(p))?;
    let plain = !code.is_empty() && code.len() <= 64 && code.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    plain.then(|| code.to_owned())
}

/// One thing that happened to an order. All of them stand in record version 1, whoever writes them first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event {
    /// The order has a key; what was ruled of it; whether sending follows.
    Claimed(Box<Claimed>),
    /// A further call met this order.
    Joined {
        /// Who called.
        actor: Actor,
        /// Its own trace.
        trace: TraceId,
        /// Its own tool call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call: Option<String>,
    },
    /// A person said yes, to exactly what was shown.
    Approved {
        /// Who.
        by: String,
        /// Their note.
        note: String,
        /// Digest of the preview they saw.
        shown: String,
        /// Good until.
        until: Timestamp,
    },
    /// A person said no.
    Refused {
        /// Who.
        by: String,
        /// Why.
        why: String,
    },
    /// From here on bytes may leave; an approval is used up by it (R2).
    Cleared {
        /// Whose leave it is.
        because: Because,
        /// For counting the key's age.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<Boot>,
    },
    /// An attempt is about to leave.
    Sent {
        /// Its place among the attempts, over all runs.
        attempt: u32,
        /// Its own request id.
        request: RequestId,
    },
    /// What was seen of an attempt.
    Observed {
        /// Which.
        attempt: u32,
        /// What.
        seen: Sighting,
        /// Milliseconds from sending to knowing.
        took_ms: u64,
    },
    /// A flight ended without an outcome; the order belongs to nobody (R13).
    Rested {
        /// Why.
        why: Rest,
    },
    /// The outcome.
    Settled(Settled),
    /// A person has to look.
    Review {
        /// Why.
        reason: ReviewReason,
        /// The answer that raised it, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Answer>,
    },
    /// A person established what became of it (R19).
    Reconciled {
        /// Who.
        by: String,
        /// How they know.
        evidence: String,
        /// Whether the server has the order.
        applied: bool,
        /// The receipt, where it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Value>,
    },
    /// A person stopped it; its origin stays taken (R4).
    Abandoned {
        /// Who.
        by: String,
        /// Why.
        why: String,
    },
    /// Taken back before anything of it was sent (R16).
    Withdrawn {
        /// Who.
        by: String,
        /// Why.
        why: String,
    },
    /// A person freed its origin for a new order (R4, R19).
    Freed {
        /// Who.
        by: String,
        /// Why.
        why: String,
    },
    /// A flight begins that did not begin with the claim. Durable before its first byte.
    TakenOver {
        /// Whose it is now.
        owner: OwnerId,
    },
}

/// The first event of an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claimed {
    pub(crate) lineage: Lineage,
    pub(crate) ruling: Ruling,
    /// Whether this record alone lets bytes leave: the ruling was Allow.
    pub(crate) sending_follows: bool,
    /// For an Ask: how long a person has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parked_until: Option<Timestamp>,
    pub(crate) owner: OwnerId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boot: Option<Boot>,
    pub(crate) order: Draft,
}

impl Claimed {
    /// The intent this claim made.
    pub(crate) fn intent(&self, key: IdempotencyKey, at: Timestamp) -> Intent {
        Intent::new(key, at, self.lineage, self.order.clone())
    }
}

impl Event {
    /// The event's name in the journal.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Claimed(_) => "claimed",
            Event::Joined { .. } => "joined",
            Event::Approved { .. } => "approved",
            Event::Refused { .. } => "refused",
            Event::Cleared { .. } => "cleared",
            Event::Sent { .. } => "sent",
            Event::Observed { .. } => "observed",
            Event::Rested { .. } => "rested",
            Event::Settled(_) => "settled",
            Event::Review { .. } => "review",
            Event::Reconciled { .. } => "reconciled",
            Event::Abandoned { .. } => "abandoned",
            Event::Withdrawn { .. } => "withdrawn",
            Event::Freed { .. } => "freed",
            Event::TakenOver { .. } => "taken_over",
        }
    }

    /// Whether it must be durable before anyone is told or acts (R7). The rest may be written and synced a little later: if it is lost, resume
    /// repeats the key and the server replays.
    pub(crate) fn must_be_durable(&self) -> bool {
        match self {
            Event::Joined { .. } | Event::Sent { .. } | Event::Observed { .. } | Event::Rested { .. } => false,
            Event::Settled(settled) => !matches!(settled, Settled::Succeeded { .. }),
            Event::Claimed(_)
            | Event::Approved { .. }
            | Event::Refused { .. }
            | Event::Cleared { .. }
            | Event::Review { .. }
            | Event::Reconciled { .. }
            | Event::Abandoned { .. }
            | Event::Withdrawn { .. }
            | Event::Freed { .. }
            | Event::TakenOver { .. } => true,
        }
    }
}

/// Where an order stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Stage {
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

/// The first attempt that may have had an effect: it stays in every later error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Which attempt; 0: an attempt that nobody could write down.
    pub attempt: u32,
    /// What was seen of it.
    pub seen: Sighting,
}

/// An order's events, folded.
#[derive(Clone, Debug)]
pub struct State {
    stage: Stage,
    ruling: Option<Ruling>,
    attempts: u32,
    /// Attempts sent, of which nothing was written down yet.
    unanswered: Vec<u32>,
    doubts: u32,
    first_doubt: Option<Doubt>,
    last_seen: Option<Sighting>,
    first_possible_send: Option<Timestamp>,
    retention: Duration,
    owner: Option<OwnerId>,
    rest: Option<Rest>,
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
            attempts: 0,
            unanswered: Vec::new(),
            doubts: 0,
            first_doubt: None,
            last_seen: None,
            first_possible_send: None,
            retention: Duration::ZERO,
            owner: None,
            rest: None,
            refused_by_person: false,
            closed_by_person: false,
            freed: false,
        }
    }

    /// What the order comes to with one more event. Total and pure.
    #[must_use]
    pub(crate) fn after(mut self, event: &Event, at: Timestamp) -> Self {
        match event {
            Event::Claimed(claimed) => self.claimed(claimed, at),
            Event::Joined { .. } => {}
            Event::Approved { until, .. } => {
                if let Stage::AwaitingApproval { .. } = self.stage {
                    self.stage = Stage::Approved { until: *until };
                }
            }
            Event::Refused { by, why } => {
                // Only what was never cleared can be refused (R2).
                if self.never_cleared() && !self.is_settled() {
                    self.refused_by_person = true;
                    self.stage = denied("refused", format!("{by}: {why}"));
                }
            }
            Event::Cleared { .. } => {
                // Whatever was decided meanwhile, bytes may leave from here on: the doubt has to be counted.
                self.first_possible_send.get_or_insert(at);
                if matches!(self.stage, Stage::AwaitingApproval { .. } | Stage::Approved { .. }) {
                    self.stage = Stage::Open;
                }
            }
            Event::Sent { attempt, .. } => {
                self.first_possible_send.get_or_insert(at);
                self.attempts = self.attempts.max(*attempt);
                self.unanswered.push(*attempt);
                self.rest = None;
            }
            Event::Observed { attempt, seen, .. } => self.observed(*attempt, seen),
            Event::Rested { why } => self.rest = Some(why.clone()),
            Event::Settled(settled) => self.settled(settled),
            Event::Review { reason, .. } => self.review(*reason),
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
                    self.stage = denied("withdrawn", format!("withdrawn by {by}: {why}"));
                }
            }
            Event::Freed { .. } => self.freed = true,
            Event::TakenOver { owner } => self.taken_over(*owner),
        }
        self.unsay_a_no_that_no_longer_holds(event);
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
        self.owner = Some(claimed.owner);
        self.first_possible_send = claimed.sending_follows.then_some(at);
        self.stage = match &claimed.ruling {
            Ruling::Allow(_) => Stage::Open,
            Ruling::Deny(because) => Stage::Settled(Settled::Denied { because: because.clone() }),
            Ruling::Ask(_) => Stage::AwaitingApproval {
                until: claimed.parked_until.unwrap_or(at),
            },
        };
    }

    fn observed(&mut self, attempt: u32, seen: &Sighting) {
        self.unanswered.retain(|open| *open != attempt);
        self.last_seen = Some(seen.clone());
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
            (Stage::Settled(Settled::Succeeded { .. }), Settled::Succeeded { .. }) => return,
            (Stage::Settled(Settled::Succeeded { .. }), _) => return,
            (Stage::Settled(Settled::Rejected { .. }), Settled::Rejected { .. }) => return,
            (Stage::Settled(_), _) => {
                self.doubt(0, Sighting::NoAnswer(NoAnswer::NotWritten));
                Stage::NeedsReview(ReviewReason::Contradicted)
            }
            (Stage::NeedsReview(reason), Settled::Rejected { .. } | Settled::Denied { .. }) => Stage::NeedsReview(*reason),
            (_, new) => Stage::Settled(new.clone()),
        };
    }

    fn review(&mut self, reason: ReviewReason) {
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
    fn taken_over(&mut self, owner: OwnerId) {
        let stranger = self.owner.replace(owner) != Some(owner);
        self.rest = None;
        for attempt in std::mem::take(&mut self.unanswered) {
            self.doubt(attempt, Sighting::NoAnswer(NoAnswer::NotWritten));
        }
        if stranger && self.first_possible_send.is_some() {
            self.doubt(0, Sighting::NoAnswer(NoAnswer::NotWritten));
        }
    }

    /// Where the order stands at a moment: the fold, and what passes by time alone.
    pub fn at(&self, now: Timestamp) -> Stage {
        match &self.stage {
            Stage::AwaitingApproval { until } | Stage::Approved { until } if now >= *until => {
                denied("expired", "nobody answered in time, and silence is no".to_owned())
            }
            Stage::Open if self.may_have_landed() && self.retention_passed(now) => Stage::NeedsReview(ReviewReason::RetentionPassed),
            stage => stage.clone(),
        }
    }

    /// R8: past the server's retention the same key executes again. A clock in doubt counts as passed. The age runs from the first record that
    /// let bytes leave, never from a take-over or a later attempt.
    pub(crate) fn retention_passed(&self, now: Timestamp) -> bool {
        let Some(first) = self.first_possible_send else {
            return false;
        };
        let margin = retention_margin(self.retention);
        match now.since(first) {
            Some(age) => age >= self.retention.saturating_sub(margin),
            // A clock that stands well before a record it wrote is in doubt.
            None => first.since(now).is_some_and(|behind| behind > margin),
        }
    }

    /// Whether the order may have been processed, by everything written down of it (R15).
    pub fn effect(&self) -> Effect {
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
            Effect::Possible if self.doubts == 0 && self.unanswered.is_empty() => Effect::None,
            effect => effect,
        }
    }

    /// Over all runs: some attempt may have reached the server. A flight that is not known to have ended may be sending right now.
    pub(crate) fn may_have_landed(&self) -> bool {
        self.doubts > 0 || !self.unanswered.is_empty() || (self.first_possible_send.is_some() && self.rest.is_none())
    }

    /// R1: whether anything but this attempt may have had, or may yet have, an effect.
    pub(crate) fn others_may_land(&self, attempt: u32) -> bool {
        self.doubts > 0 || self.unanswered.iter().any(|open| *open != attempt)
    }

    fn never_cleared(&self) -> bool {
        self.first_possible_send.is_none()
    }

    /// R16: only what was never sent, or never left, can be taken back; and only while no flight has it.
    pub(crate) fn may_be_withdrawn(&self) -> bool {
        !self.is_settled() && !matches!(self.stage, Stage::NeedsReview(_)) && !self.may_have_landed()
    }

    fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Settled(_))
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

    /// Whether a person freed the origin.
    pub(crate) fn is_freed(&self) -> bool {
        self.freed
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

    /// What was ruled of it.
    pub fn ruling(&self) -> Option<&Ruling> {
        self.ruling.as_ref()
    }

    /// How many attempts were made, over all runs.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The first attempt that may have had an effect.
    pub fn first_doubt(&self) -> Option<&Doubt> {
        self.first_doubt.as_ref()
    }

    /// What was last seen.
    pub fn last_seen(&self) -> Option<&Sighting> {
        self.last_seen.as_ref()
    }

    /// Why the last flight ended without an outcome; `None` while one may be under way.
    pub fn rest(&self) -> Option<&Rest> {
        self.rest.as_ref()
    }

    /// Who had it last.
    pub(crate) fn owner(&self) -> Option<OwnerId> {
        self.owner
    }
}

fn denied(rule: &str, reason: String) -> Stage {
    Stage::Settled(Settled::Denied {
        because: Because::rule("", rule, reason),
    })
}

/// A receipt that a person established, in the form of an answer: whoever reads receipts reads it like any other.
fn answer_of(receipt: Option<&Value>) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let body = receipt.map(|r| Bytes::from(r.to_string())).unwrap_or_default();
    Answer::new(Head::new(StatusCode::OK, headers), body)
}
