//! `Permit`: leave to send one claim. It owns the claim, so that a permit for another order is unsayable, not merely checked. A leaf with
//! private fields.

use crate::{journal::Claim, lifecycle::Stage};

/// Leave to send exactly this order.
#[derive(Debug)]
pub(crate) struct Permit {
    claim: Claim,
}

impl Permit {
    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn claim_mut(&mut self) -> &mut Claim {
        &mut self.claim
    }

    pub(crate) fn into_claim(self) -> Claim {
        self.claim
    }
}

/// What a claim may do.
#[must_use]
pub(crate) enum Judged {
    Permit(Permit),
    /// Its story does not let bytes leave.
    Held(Claim),
}

/// Reads the leave from the order's own story: the ruling in its claim, or a person's yes that was cleared. Never a fresh judgement of
/// something that may have been sent (R18).
pub(crate) fn permit(claim: Claim) -> Judged {
    let may_leave = matches!(claim.state().stage(), Stage::Open) && claim.state().sending_permitted();
    match may_leave {
        true => Judged::Permit(Permit { claim }),
        false => Judged::Held(claim),
    }
}
