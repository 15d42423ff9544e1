//! What the fold knows of a person who is asked: what they are shown, and their yes.

use super::{Stage, State, Voids};
use crate::{
    answer::Answer,
    intent::Intent,
    ruling::{Because, digest},
};
use std::time::Duration;

/// What a person is shown of an order, and why they are asked.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// The order that this one acts on, as its server showed it.
    pub current: Option<Answer>,
    /// What asked.
    pub because: Because,
    /// What an approval has to name.
    pub digest: String,
}

/// A person's yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Approval {
    /// Whose.
    pub by: String,
    /// Their note.
    pub note: String,
    /// The digest of what they saw.
    pub shown: String,
}

impl Shown {
    /// With the digest that binds an approval to key, contents, the version they are made for, and the policy that asked.
    pub(crate) fn of(intent: &Intent, current: Option<Answer>, because: Because) -> Self {
        let base = current.as_ref().and_then(|answer| answer.header("etag")).unwrap_or_default();
        let body = current.as_ref().map(Answer::body).unwrap_or_default();
        let digest = digest(intent.key(), intent.fingerprint().as_str(), &because, base, body);
        Shown { current, because, digest }
    }

    /// The version of the order it acts on.
    pub(crate) fn base(&self) -> Option<&str> {
        self.current.as_ref()?.header("etag")
    }
}

impl State {
    /// A preview replaces the one before, and ends an approval of that one.
    pub(super) fn previewed(&mut self, shown: Shown, voids: Option<&Voids>) {
        if !self.never_cleared() {
            return;
        }
        let other = |approval: &Approval| approval.shown != shown.digest;
        match (&self.stage, voids) {
            (Stage::AwaitingApproval { .. } | Stage::Approved { .. }, Some(voids)) => {
                self.stage = Stage::AwaitingApproval { until: voids.until };
                self.approval = None;
                (self.owner, self.rest) = (None, None);
            }
            (Stage::Approved { until }, None) if self.approval.as_ref().is_none_or(other) => {
                self.stage = Stage::AwaitingApproval { until: *until };
                self.approval = None;
                (self.owner, self.rest) = (None, None);
            }
            _ => {}
        }
        self.preview = Some(shown);
    }

    /// What a person is shown: what was read last, or, of an order that acts on no other, the order itself. `None`: the order it acts on has not
    /// been read yet.
    pub(crate) fn preview(&self, intent: &Intent) -> Option<Shown> {
        match (&self.preview, intent.subject()) {
            (Some(shown), _) => Some(shown.clone()),
            (None, Some(_)) => None,
            (None, None) => {
                let because = self.ruling.as_ref()?.because().clone();
                Some(Shown::of(intent, None, because))
            }
        }
    }

    /// The approval that stands, or was used.
    pub(crate) fn approval(&self) -> Option<&Approval> {
        self.approval.as_ref()
    }

    /// For how long a person is asked.
    pub(crate) fn asked_for(&self) -> Duration {
        self.asked_for
    }
}
