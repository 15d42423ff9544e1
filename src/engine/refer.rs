//! An order that acts on another one: which one that is, at the server. Read from the journal, before anything is written.

use super::Engine;
use crate::{
    answer::Answer,
    intent::{Draft, Intent, Referring},
    lifecycle::{Effect, Settled, Stage, State},
    outcome::Error,
};
use serde_json::Value;

/// Where a receipt names its order.
const NAMES_AT: [&str; 2] = ["/order_id", "/id"];

impl Engine {
    /// The draft with the name of the order it acts on. While that one's own outcome is open, nothing acts on it: a cancel never overtakes what it
    /// cancels.
    pub(super) async fn refer(&self, referring: Referring) -> Result<Draft, Error> {
        let found = self.journal.placed(referring.api(), referring.to()).await?;
        let Some((intent, state)) = found else {
            return Err(Error::nothing_placed(referring.to()));
        };
        let (intent, state) = self.that_may_stand(intent, state).await?;
        let now = self.journal.now();
        match state.at(now) {
            Stage::Settled(Settled::Succeeded { answer, .. }) => match name_in(&answer) {
                Some(name) => Ok(referring.resolved(&name)?),
                None => Err(Error::nameless(&intent, &state, now)),
            },
            Stage::Settled(Settled::Rejected { .. } | Settled::Denied { .. }) => Err(Error::not_placed(&intent, &state, now)),
            Stage::Settled(Settled::Abandoned { .. })
            | Stage::Open
            | Stage::AwaitingApproval { .. }
            | Stage::Approved { .. }
            | Stage::NeedsReview(_) => Err(Error::pending(&intent, &state, now)),
        }
    }
}

impl Engine {
    /// The newest order of an origin; where that is a no, the newest before it that may stand at the server: its origin was freed in doubt.
    async fn that_may_stand(&self, newest: Intent, state: State) -> Result<(Intent, State), Error> {
        let is_no = matches!(
            state.at(self.journal.now()),
            Stage::Settled(Settled::Rejected { .. } | Settled::Denied { .. })
        );
        let mut before = newest.supersedes().filter(|_| is_no);
        while let Some(key) = before {
            let Some((intent, state)) = self.journal.order(key).await? else {
                break;
            };
            if state.effect() != Effect::None {
                return Ok((intent, state));
            }
            before = intent.supersedes();
        }
        Ok((newest, state))
    }
}

fn name_in(receipt: &Answer) -> Option<String> {
    let body = receipt.json()?;
    NAMES_AT.iter().find_map(|pointer| match body.pointer(pointer)? {
        Value::String(name) if !name.is_empty() => Some(name.clone()),
        Value::Number(name) if name.is_u64() => Some(name.to_string()),
        _ => None,
    })
}
