//! `Filter`: which rows are wanted. Pure.

use super::Row;
use crate::{
    actor::is_same_name,
    clock::Timestamp,
    ids::{IdempotencyKey, TraceId},
    intent::Draft,
    origin::Origin,
};

/// Which rows are wanted: those to which everything that is asked for applies. Default: all.
///
/// It is the row that is asked, not its order. A further call's row (`joined`) has an agent, session, user, model and trace of its own: asked for that
/// agent, the row is shown, and the rest of the order, which another agent claimed, is not. Its key shows the whole of it.
///
/// What can't be read may be anybody's: rows `unreadable` are left out by a key, by the name of another event, and, where they have a time, by a
/// time; by nothing else.
///
/// ```
/// use uketsuke::{Timestamp, audit::Filter};
/// let since: Timestamp = "2026-12-01T00:00:00Z".parse()?;
/// let approvals = Filter::default().event("approved").agent("order-agent").since(since);
/// # Ok::<(), uketsuke::Invalid>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub(super) key: Option<IdempotencyKey>,
    origin: Option<Origin>,
    agent: Option<String>,
    session: Option<String>,
    user: Option<String>,
    model: Option<String>,
    trace: Option<TraceId>,
    event: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Filter {
    /// One order.
    #[must_use]
    pub fn key(mut self, key: IdempotencyKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Orders that came from this, whatever their operation and api; a `line` counts.
    #[must_use]
    pub fn origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// What this agent asked for. Names are compared as people read them: compatibility forms, case, blanks and invisible characters don't count.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// What was asked for in this session; to the letter.
    #[must_use]
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// What was asked for on behalf of this user; to the letter.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// What was asked for with this model; to the letter.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// What belongs to this trace.
    #[must_use]
    pub fn trace(mut self, trace: TraceId) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Rows of this event: see [`Row::event`]. A name that is none shows nothing.
    #[must_use]
    pub fn event(mut self, event: impl Into<String>) -> Self {
        self.event = Some(event.into());
        self
    }

    /// What was written at this moment or later, by the writers' clocks.
    #[must_use]
    pub fn since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }

    /// What was written before this moment, by the writers' clocks.
    #[must_use]
    pub fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// Whether a row of this order is wanted.
    pub(super) fn wants(&self, row: &Row, order: Option<&Draft>) -> bool {
        let is = |wanted: &Option<String>, there: &Option<String>| wanted.is_none() || wanted == there;
        let in_time = row
            .at
            .is_none_or(|at| self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until));
        let placed = self.key.is_none_or(|key| key == row.key) && self.event.as_ref().is_none_or(|event| event == row.event);
        if !in_time || !placed || row.event == "unreadable" {
            return in_time && placed;
        }
        let named = |agent: &String| row.agent.as_ref().is_some_and(|there| is_same_name(agent, there));
        self.agent.as_ref().is_none_or(named)
            && self
                .origin
                .as_ref()
                .is_none_or(|origin| order.is_some_and(|order| order.origin() == origin))
            && self.trace.is_none_or(|trace| row.trace == Some(trace))
            && is(&self.session, &row.session)
            && is(&self.user, &row.user)
            && is(&self.model, &row.model)
    }
}
