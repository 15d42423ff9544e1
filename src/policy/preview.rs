//! What a person is shown before they decide: made from the order's own record, nothing else. Pure.

use crate::{
    clock::Timestamp,
    intent::Intent,
    lifecycle::{Stage, State},
    ruling::{Change, Preview, changes},
    visible::{plain_json, visible},
};
use serde_json::{Value, json};
use std::fmt;

/// `None`: the order that it acts on has not been read yet, so there is nothing to be shown.
pub(crate) fn preview(intent: &Intent, state: &State, now: Timestamp) -> Option<Preview> {
    let shown = state.preview(intent)?;
    let (contents, members) = (contents(intent), intent.members());
    let current = shown.current.as_ref().and_then(|answer| answer.json().cloned());
    let nothing = json!({});
    let differences = match (intent.subject(), &current) {
        (Some(subject), Some(current)) => {
            let after = subject.after(current, members.as_ref());
            changes(current, after.as_ref().unwrap_or(&nothing))
        }
        _ => changes(&nothing, members.as_ref().unwrap_or(&nothing)),
    };
    Some(Preview {
        key: intent.key(),
        request: format!("{} {}", intent.route().method().as_str(), intent.route().target()),
        headers: intent.route().headers().to_vec(),
        read_at: intent.subject().map(|subject| subject.at().target()),
        operation: intent.operation().to_owned(),
        api: intent.api().to_owned(),
        origin: intent.origin().clone(),
        actor: intent.actor().clone(),
        expires: match state.at(now) {
            Stage::AwaitingApproval { until } | Stage::Approved { until } => Some(until),
            Stage::Open | Stage::NeedsReview(_) | Stage::Settled(_) => None,
        },
        base: shown.base().map(str::to_owned),
        made_for: header(intent, "if-match"),
        digest: shown.digest,
        because: shown.because,
        current,
        contents,
        changes: differences,
    })
}

fn header(intent: &Intent, name: &str) -> Option<String> {
    let found = intent.route().headers().iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.clone())
}

/// What is sent: JSON, or any other body as text.
fn contents(intent: &Intent) -> Option<Value> {
    let as_text = || std::str::from_utf8(intent.body()).ok().filter(|text| !text.is_empty());
    intent.json().or_else(|| as_text().map(|text| Value::String(text.to_owned())))
}

impl Preview {
    /// As a fragment of HTML: a heading, a list of what it is, and a table of what would change. Everything in it is escaped; the classes are
    /// `preview`, `before` and `after`.
    pub fn to_html(&self) -> String {
        let mut html = format!("<section class=\"preview\">\n<h2>{}</h2>\n<dl>\n", escaped(&self.title()));
        for (name, value) in self.facts() {
            html.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(&value)));
        }
        html.push_str("</dl>\n<table>\n<tr><th>field</th><th>before</th><th>after</th></tr>\n");
        for change in &self.changes {
            html.push_str(&format!(
                "<tr><td>{}</td><td class=\"before\">{}</td><td class=\"after\">{}</td></tr>\n",
                escaped(field(change)),
                escaped(&value(change.before.as_ref())),
                escaped(&value(change.after.as_ref())),
            ));
        }
        html.push_str("</table>\n</section>\n");
        html
    }

    fn title(&self) -> String {
        format!("{}: {} at {}", self.operation, self.request, self.api)
    }

    /// What it is, in the order in which people ask.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let actor = &self.actor;
        let further = [("session", &actor.session), ("user", &actor.user), ("model", &actor.model)];
        let further: String = further
            .iter()
            .filter_map(|(name, value)| Some(format!(", {name} {}", value.as_ref()?)))
            .collect();
        let mut facts = vec![
            ("asked by", format!("{}{further}", actor.agent)),
            ("because of", self.origin.to_string()),
            (
                "a person, since",
                format!(
                    "{} (rule {}, policy {})",
                    self.because.reason,
                    self.because.rules.join(", "),
                    self.because.policy_version
                ),
            ),
        ];
        let versions = match (&self.base, &self.made_for) {
            (Some(base), Some(made_for)) if base != made_for => {
                Some(format!("{base}, but it was made for {made_for}: the server will refuse it"))
            }
            (base, made_for) => base.clone().or_else(|| made_for.clone()),
        };
        // If-Match is told as the version.
        let headers = self.headers.iter().filter(|(name, _)| name != "if-match");
        facts.extend(headers.map(|(name, value)| ("with the header", format!("{name}: {value}"))));
        facts.extend(self.read_at.iter().map(|at| ("acts on", at.clone())));
        facts.extend(versions.map(|versions| ("its version", versions)));
        facts.extend(self.expires.iter().map(|until| ("answer until", format!("{until}; silence is no"))));
        facts.push(("key", self.key.to_string()));
        facts.push(("preview", self.digest.clone()));
        facts
    }
}

/// Text for a terminal.
impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", visible(&self.title()))?;
        for (name, value) in self.facts() {
            writeln!(f, "  {name:<16} {}", visible(&value))?;
        }
        let rows: Vec<[String; 3]> = self
            .changes
            .iter()
            .map(|change| [visible(field(change)), value(change.before.as_ref()), value(change.after.as_ref())])
            .collect();
        let wide = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max();
        let (fields, befores) = (wide(0).unwrap_or(0).min(40), wide(1).unwrap_or(0).min(40));
        for [field, before, after] in &rows {
            writeln!(f, "    {field:<fields$}  {before:<befores$}  ->  {after}")?;
        }
        Ok(())
    }
}

fn field(change: &Change) -> &str {
    match change.field.as_str() {
        "" => "(all of it)",
        field => field,
    }
}

fn value(value: Option<&Value>) -> String {
    match value {
        None => "(nothing)".to_owned(),
        Some(value) => plain_json(&value.to_string()),
    }
}

/// For text and for attributes.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}
