//! `OrderStory`: all there is to see of one order, and what can be done about it.

use super::Entry;
use crate::{
    audit::{Audit, Filter, Row},
    ids::IdempotencyKey,
    intent::Intent,
    journal::{Journal, verbs_for},
    lifecycle::{Stage, State, Verb},
    outcome::Error,
    policy::preview,
    ruling::Preview,
};
use serde::Serialize;
use std::fmt;

/// One order from its claim to now. `Display` is for a terminal: where it stands, what a person is asked, one line for everything that happened,
/// and what can be done; whatever the order's names hold, each line stays one. The rows hold no contents; the preview does.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OrderStory {
    /// Where it stands.
    pub entry: Entry,
    /// What a person is asked; while they are.
    pub preview: Option<Preview>,
    /// Everything that was written of it, oldest first.
    pub rows: Vec<Row>,
    /// The order of the same origin before it, and where that one stands: if it came in late, there may be two.
    pub follows: Option<Entry>,
    /// The order of the same origin after it, where its origin was freed or corrected.
    pub followed_by: Option<IdempotencyKey>,
    /// What a person may do with it as it stands, unless it is in the air.
    pub may: Vec<Verb>,
}

pub(super) async fn story(journal: &Journal, intent: &Intent, state: &State) -> Result<OrderStory, Error> {
    let now = journal.now();
    let mut rows = Vec::new();
    let mut told = Audit::of(journal).rows(&Filter::default().key(intent.key()));
    while let Some(row) = told.next().await? {
        rows.push(row);
    }
    let follows = match intent.supersedes() {
        Some(before) => journal.order(before).await?.map(|(intent, state)| Entry::of(&intent, &state, now)),
        None => None,
    };
    let followed_by = journal.successor(intent).await?;
    let mut may = verbs_for(intent, state);
    // Its origin is its successor's.
    may.retain(|verb| *verb != Verb::FreeOrigin || followed_by.is_none());
    let asked = matches!(state.at(now), Stage::AwaitingApproval { .. } | Stage::Approved { .. });
    Ok(OrderStory {
        entry: Entry::of(intent, state, now),
        preview: preview(intent, state, now).filter(|_| asked),
        rows,
        follows,
        followed_by,
        may,
    })
}

impl fmt::Display for OrderStory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.entry)?;
        if let Some(follows) = &self.follows {
            writeln!(f, "  follows      {follows}")?;
        }
        if let Some(key) = &self.followed_by {
            writeln!(f, "  followed by  {key}")?;
        }
        if let Some(preview) = &self.preview {
            write!(f, "{preview}")?;
        }
        for row in &self.rows {
            writeln!(f, "  {row:#}")?;
        }
        let may: Vec<&str> = self.may.iter().map(|verb| verb.as_str()).collect();
        writeln!(
            f,
            "  a person may: {}",
            if may.is_empty() { "look".to_owned() } else { may.join(", ") }
        )
    }
}
