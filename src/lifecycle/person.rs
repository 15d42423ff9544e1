//! What a person wants of an order, and why they may not have it. Words; the journal decides (`journal/person.rs`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a person does with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verb {
    /// Says yes to what was shown.
    Approve,
    /// Says no.
    Refuse,
    /// Takes back what was never sent.
    Withdraw,
    /// Says what became of it.
    Reconcile,
    /// Stops it; its origin stays taken.
    Abandon,
    /// Lets its origin be used for a new order.
    FreeOrigin,
}

impl Verb {
    /// As it stands in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Approve => "approve",
            Verb::Refuse => "refuse",
            Verb::Withdraw => "withdraw",
            Verb::Reconcile => "reconcile",
            Verb::Abandon => "abandon",
            Verb::FreeOrigin => "free_origin",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a person was not let do something. Nothing was changed and nothing was sent; that they wanted to stands in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnedAway {
    /// A decision has a name under it: not a blank one, and none with control characters.
    Nameless {},
    /// A no, a stop and a finding have a reason.
    NoReason {},
    /// Who asked for an order does not approve it. Names are compared as people read them (compatibility forms, case, blanks and invisible
    /// characters don't count). This stops mistakes; it does not stop somebody who gives a false name.
    OwnOrder {},
    /// No person is asked about it: it was never parked, is on its way, or has its end.
    NotAwaiting {},
    /// The time to answer had passed, and silence is no.
    Expired {},
    /// Somebody was first.
    AlreadyApproved {
        /// Who.
        by: String,
    },
    /// There is no preview yet: what would change has not been read from the server.
    NothingShown {},
    /// Another preview than the one that stands was approved: of another order, or before something changed.
    OtherPreview {
        /// The digest that was named.
        named: String,
        /// The digest of the preview that stands.
        stands: String,
    },
    /// It may have been sent.
    MayHaveBeenSent {},
    /// Nothing of it was sent: refuse it, or withdraw it.
    NeverSent {},
    /// It is in the air at the moment.
    InFlight {},
    /// It has its end already.
    Ended {},
    /// It was processed: its origin is what it was placed for.
    Processed {},
    /// It has no end yet: an origin is freed once it has.
    NotEnded {},
    /// The origin was freed before, or there is none to free.
    NothingToFree {},
    /// The receipt lacks what a success of this operation must hold.
    NoSuchReceipt {
        /// A JSON pointer to what is missing.
        lacks: String,
    },
}

impl fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            TurnedAway::Nameless {} => "a decision needs a name: not a blank one, and none with control characters",
            TurnedAway::NoReason {} => "it needs a reason",
            TurnedAway::OwnOrder {} => "who asked for an order does not approve it: another person has to",
            TurnedAway::NotAwaiting {} => "nobody is asked about it: it was never parked, is on its way, or has its end",
            TurnedAway::Expired {} => "the time to answer has passed, and silence is no",
            TurnedAway::AlreadyApproved { by } => return write!(f, "{by:?} has approved it already"),
            TurnedAway::NothingShown {} => "what would change has not been read from the server yet: read it, look at it, then decide",
            TurnedAway::OtherPreview { named, stands } => {
                return write!(f, "the preview {named:?} is not the one that stands ({stands}): look at that one");
            }
            TurnedAway::MayHaveBeenSent {} => "it may have been sent: look it up, reconcile it, or abandon it",
            TurnedAway::NeverSent {} => "nothing of it was sent: refuse it, or withdraw it",
            TurnedAway::InFlight {} => "it is in the air at the moment: wait for it to end or rest",
            TurnedAway::Ended {} => "it has its end already",
            TurnedAway::Processed {} => "it was processed, and its origin is what it was placed for: a second order has a line of its own",
            TurnedAway::NotEnded {} => "it has no end yet: abandon or reconcile it first",
            TurnedAway::NothingToFree {} => "there is nothing to free: it was freed before",
            TurnedAway::NoSuchReceipt { lacks } => return write!(f, "the receipt lacks {lacks:?}, which a success must hold"),
        };
        f.write_str(text)
    }
}
