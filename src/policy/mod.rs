//! Whether an order may be sent. Judged before the claim, on the draft, so that the one record that says "sending follows" never speaks of
//! something no policy has seen (R3). Pure: no I/O, no clock.

mod permit;
mod preview;
mod rules;

pub(crate) use permit::{Judged, Permit, permit};
pub(crate) use preview::preview;
pub use rules::{RuleError, RuleSet};

use crate::{
    intent::Draft,
    operation::Impact,
    ruling::{Because, DailyLimit, Ruling},
};
use std::fmt;

/// What a policy is asked about: an order that would be claimed. Data only, never the caller's type.
///
/// Members of the order that look like instructions (`"approved": true`) are data.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Proposal<'a> {
    /// The order: operation, route, contents, origin, actor, impact, what is at stake.
    pub draft: &'a Draft,
}

impl<'a> Proposal<'a> {
    /// About this order: for tests of a policy of your own, with [`Draft::sketch`].
    pub fn of(draft: &'a Draft) -> Self {
        Proposal { draft }
    }
}

/// Whether an order may be sent. Quick and pure: it is asked on an async thread, before anything is written, and once more of what a person
/// approved, before it is sent. Closures implement it.
///
/// A policy that panics allows nothing: a person is asked, under the rule `policy_failed`.
///
/// ```
/// use uketsuke::{Because, Proposal, Ruling};
/// let policy = |proposal: &Proposal<'_>| match proposal.draft.actor().agent.as_str() {
///     "order-agent" => Ruling::Allow(Because::rule("1", "known_agent", "the order agent may order")),
///     _ => Ruling::Ask(Because::rule("1", "unknown_agent", "a person decides about other agents")),
/// };
/// # fn takes(_: impl uketsuke::Policy) {}
/// # takes(policy);
/// ```
pub trait Policy: Send + Sync {
    /// What is ruled of this order.
    fn judge(&self, proposal: &Proposal<'_>) -> Ruling;

    /// How much its agent may order in a day. Weighed where the order is claimed, against what was claimed before, and only if the order is new: a
    /// limit that it would pass makes the ruling stricter, never milder. An order that a person approved is not weighed again. Default: no limits.
    ///
    /// A policy that answers with any says so by [`has_daily_limits`](Policy::has_daily_limits).
    fn daily(&self, proposal: &Proposal<'_>) -> Vec<DailyLimit> {
        let _ = proposal;
        Vec::new()
    }

    /// Whether [`daily`](Policy::daily) ever answers with a limit: then the claims of the last two days stay in the journal's log, whatever
    /// [`keep`](crate::JournalBuilder::keep) says. Asked once, when the client is built. Default: no.
    fn has_daily_limits(&self) -> bool {
        false
    }
}

impl<F: Fn(&Proposal<'_>) -> Ruling + Send + Sync> Policy for F {
    fn judge(&self, proposal: &Proposal<'_>) -> Ruling {
        self(proposal)
    }
}

/// The policy where none is given: an ordinary order is allowed, one of high impact waits for a person.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultPolicy;

impl Policy for DefaultPolicy {
    fn judge(&self, proposal: &Proposal<'_>) -> Ruling {
        const VERSION: &str = "default-1";
        match proposal.draft.impact() {
            Impact::Normal => Ruling::Allow(Because::rule(VERSION, "ordinary", "an ordinary order may be sent")),
            Impact::High => Ruling::Ask(Because::rule(VERSION, "high_impact", "an order of high impact waits for a person")),
        }
    }
}

impl fmt::Debug for dyn Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Policy")
    }
}
