//! `Actor`: on whose behalf a call was made. For the record and the audit; it never decides anything by itself.

use crate::invalid::Invalid;
use serde::{Deserialize, Serialize};

/// Who acts: an agent, and where known the session, the user it works for and the model it thinks with.
///
/// Stands in the journal with every order and every further call that met it. It is neither part of the fingerprint nor sent to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Actor {
    /// The agent's name; never blank.
    pub agent: String,
    /// The conversation or run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The person or account the agent works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The language model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Actor {
    /// An agent by name. A blank name is refused when the client is built.
    pub fn agent(name: impl Into<String>) -> Self {
        Actor {
            agent: name.into(),
            session: None,
            user: None,
            model: None,
        }
    }

    /// The conversation or run this agent is in.
    #[must_use]
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// The person or account the agent works for.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The model the agent thinks with.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.agent.trim().is_empty() {
            return Err(Invalid::new("actor.agent", "must name the agent"));
        }
        Ok(())
    }
}
