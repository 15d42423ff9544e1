//! Whether an order may be sent. Judged before the claim, on the draft, so that the one record that says "sending follows" never speaks of
//! something no policy has seen (R3). Pure: no I/O, no clock.

mod permit;

pub(crate) use permit::{Judged, Permit, permit};

use crate::{
    intent::Draft,
    operation::Impact,
    ruling::{Because, Ruling},
};
use std::fmt;

/// What a policy is asked about: an order that would be claimed. Data only, never the caller's type.
///
/// Members of the order that look like instructions (`"approved": true`) are data.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Proposal<'a> {
    /// The order: operation, route, contents, origin, actor, impact.
    pub draft: &'a Draft,
}

impl<'a> Proposal<'a> {
    pub(crate) fn new(draft: &'a Draft) -> Self {
        Proposal { draft }
    }
}

/// Whether an order may be sent. Quick and pure: it is asked on the caller's task, before anything is written. Closures implement it.
///
/// A policy that panics allows nothing: nothing is claimed and nothing is sent.
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
