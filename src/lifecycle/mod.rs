//! What happened to an order, as events; and what they come to: `State`, a pure fold (`state.rs`). Words only: no I/O.

mod person;
mod sighting;
mod state;

pub use person::{TurnedAway, Verb};
pub(crate) use sighting::{Says, Sighting};
pub(crate) use state::{Shown, Stage, State, retention_margin};

use crate::{
    actor::Actor,
    answer::Answer,
    clock::{Boot, Timestamp},
    ids::{IdempotencyKey, OwnerId, RequestId, TraceId},
    intent::{Draft, Intent, Lineage},
    ruling::{Because, Ruling},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// The server says that such an order exists already.
    AlreadyExists,
    /// It may have been sent under another account or credential, where this key means nothing (R9).
    OtherScope,
    /// An outcome came in after a person had closed the order (R4).
    LateOutcome,
    /// The server has said "still running" for longer than its work can take.
    StuckProcessing,
    /// It may have arrived at a server that would not recognise a repeat.
    NotRecognised,
    /// The server has the order, but cancelled, rejected or expired.
    FoundEnded,
    /// The server itself does not know what became of it.
    ServerUncertain,
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
            ReviewReason::AlreadyExists => "the server says that such an order exists already",
            ReviewReason::OtherScope => "it may have been sent under another account, where its key would be a new one",
            ReviewReason::LateOutcome => "an outcome came in after a person had closed the order",
            ReviewReason::StuckProcessing => "the server has said \"still running\" for longer than its work can take",
            ReviewReason::NotRecognised => "it may have arrived, and the server would not recognise a repeat",
            ReviewReason::FoundEnded => "the server has the order, but cancelled, rejected or expired",
            ReviewReason::ServerUncertain => "the server itself does not know what became of it",
        }
    }
}

/// Why a flight ended without an outcome. The order stays open and belongs to nobody; resume goes on under the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rest {
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
    /// A further attempt was due, and the budget of all retries over the api did not allow it.
    BudgetSpent {
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
    /// Approved, and not sent: the order that it acts on could not be read, to see that it is as it was when it was shown.
    Unseen {},
    /// The task ended before its work did: its runtime was dropped, it panicked, or the operating system gave no randomness.
    Interrupted {},
}

/// What an order came to. Cheap to clone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Settled {
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

/// One thing that happened to an order. All of them stand in record version 1, whoever writes them first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Event {
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
    /// What a person is to be shown was put together: the order that this one acts on, as it stood, and why a person is asked.
    Previewed {
        /// The request by which it was read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// The order it acts on, as its server showed it; `None` where it acts on none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        current: Option<Answer>,
        /// What asked for a person, by the policy of then.
        because: Because,
        /// What an approval has to name.
        digest: String,
        /// The approval of another preview ends with this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        voids: Option<Voids>,
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
        /// The request by which the order that it acts on was looked at last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
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
    /// The server was asked for the order, by a request that orders nothing.
    LookedUp {
        /// The lookup's own request id.
        request: RequestId,
        /// What it found.
        found: Found,
        /// Milliseconds from asking to knowing.
        took_ms: u64,
    },
    /// A flight ended without an outcome; the order belongs to nobody (R13).
    Rested {
        /// Why.
        why: Rest,
        /// How many attempts were made by then, over all runs: if fewer can be read, a record of one was lost, and nobody knows what came
        /// of it (R2, R15).
        attempts: u32,
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
    /// Somebody wanted to decide, and was not let; nothing came of it.
    TurnedAway {
        /// Who, as they named themselves.
        by: String,
        /// What they wanted.
        verb: Verb,
        /// Why not.
        why: TurnedAway,
    },
    /// A flight begins that did not begin with the claim. Durable before its first byte.
    TakenOver {
        /// Whose it is now.
        owner: OwnerId,
    },
}

/// Why an approval is void, and how long a person has to give another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Voids {
    pub(crate) why: Void,
    pub(crate) until: Timestamp,
}

/// Why an approval is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Void {
    /// The order it acts on is not as it was when it was shown.
    BaseChanged,
    /// The policy is another than the one that asked.
    PolicyChanged,
}

/// What a lookup found. Only [`Found::Same`] settles an order; nothing here proves that there is none (R10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Found {
    /// This order: nothing that both name differs.
    Same,
    /// An order that differs from this one.
    Different,
    /// This order, cancelled, rejected or expired.
    Ended,
    /// None.
    Absent,
    /// None yet: the first request still runs.
    InProgress,
    /// An answer that says nothing of an order.
    Unreadable,
    /// No answer.
    NoAnswer,
}

/// The first event of an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claimed {
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
    pub(crate) fn intent(&self, key: IdempotencyKey) -> Intent {
        Intent::new(key, self.lineage, self.order.clone())
    }
}

impl Event {
    /// The event's name in the journal.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Event::Claimed(_) => "claimed",
            Event::Joined { .. } => "joined",
            Event::Previewed { .. } => "previewed",
            Event::Approved { .. } => "approved",
            Event::Refused { .. } => "refused",
            Event::Cleared { .. } => "cleared",
            Event::Sent { .. } => "sent",
            Event::Observed { .. } => "observed",
            Event::LookedUp { .. } => "looked_up",
            Event::Rested { .. } => "rested",
            Event::Settled(_) => "settled",
            Event::Review { .. } => "review",
            Event::Reconciled { .. } => "reconciled",
            Event::Abandoned { .. } => "abandoned",
            Event::Withdrawn { .. } => "withdrawn",
            Event::Freed { .. } => "freed",
            Event::TurnedAway { .. } => "turned_away",
            Event::TakenOver { .. } => "taken_over",
        }
    }

    /// Whether it must be durable before anyone is told or acts (R7). The rest may be written and synced a little later: if it is lost, resume
    /// repeats the key and the server replays.
    pub(crate) fn must_be_durable(&self) -> bool {
        match self {
            Event::Joined { .. } | Event::Sent { .. } | Event::Observed { .. } | Event::LookedUp { .. } | Event::Rested { .. } => false,
            Event::Settled(settled) => !matches!(settled, Settled::Succeeded { .. }),
            Event::Claimed(_)
            | Event::Previewed { .. }
            | Event::Approved { .. }
            | Event::Refused { .. }
            | Event::Cleared { .. }
            | Event::Review { .. }
            | Event::Reconciled { .. }
            | Event::Abandoned { .. }
            | Event::Withdrawn { .. }
            | Event::Freed { .. }
            | Event::TurnedAway { .. }
            | Event::TakenOver { .. } => true,
        }
    }
}
