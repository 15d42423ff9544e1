//! `Row`: what the audit tells of one record; and how a record becomes one. Pure: no I/O.

use super::text::word_or_quoted;
use crate::{
    actor::Actor,
    answer::Answer,
    clock::Timestamp,
    ids::{IdempotencyKey, RequestId, TraceId},
    intent::Draft,
    journal::Told,
    lifecycle::{Claimed, Effect, Event, Found, Rest, Settled, Sighting, State, Void, Voids},
    ruling::{Because, Ruling},
};
use serde::Serialize;
use serde_json::Value;
use std::{collections::HashMap, fmt};

/// One thing that happened to an order, with whom it concerns and what the order came to by it.
///
/// `Display` is one line for a terminal, time first; whatever names and notes hold, it stays one line, and nothing in it hides. `{row:#}` leaves out the
/// key, and behind an order's claim all that is the same in each of its rows: for one order after another, under its name. Serialised, members
/// that say nothing are left out. `Debug` shows which row it is.
///
/// Who asked ([`agent`](Row::agent) to [`trace`](Row::trace)) is who claimed the order; in a row `joined` it is who made that further call.
#[derive(Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// When it was written down, by the clock of whoever wrote it. For people: the order of rows is the order of writing, whatever clocks said.
    /// `None` where nothing of an order can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The order's key.
    pub key: IdempotencyKey,
    /// What happened: `claimed`, `joined`, `previewed`, `approved`, `refused`, `cleared`, `sent`, `observed`, `looked_up`, `rested`, `settled`,
    /// `review`, `reconciled`, `abandoned`, `withdrawn`, `freed`, `turned_away`, `taken_over`; or `unreadable`.
    pub event: &'static str,
    /// Where the order stood after it, by its records: `open`, `awaiting_approval`, `approved`, `review`, `succeeded`, `rejected`, `denied`,
    /// `abandoned`; `unreadable` from a record on that can't be read.
    pub standing: &'static str,
    /// Whether the order may have been processed, by what stood in the book then. What can't be read may have been.
    pub effect: Effect,
    /// The operation's name, such as `place_order`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The logical name of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// What is called: method and path, `POST /orders`. Never the query, never a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What the order came from: `mail 1@example.com line 2`, `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The agent that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its conversation or run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The person or account it works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its language model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tool call that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// The trace that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceId>,
    /// The id of the HTTP request: of an attempt (`sent`, `observed`), a lookup, or the reading for a preview.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Which attempt, over all runs, from 1. In `rested`: how many were made by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The HTTP status that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What was seen, in words: `status 201`, `connection closed before a reply`; of a lookup, what it found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// The server's error code, where it is short and plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Milliseconds from sending to knowing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Whether the server said that it had stored this answer earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
    /// What policy ruled of the order when it was claimed: `allow`, `deny` or `ask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ruling: Option<&'static str>,
    /// The rules that decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Which policy they belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<String>,
    /// Why, in the words of a policy or of this crate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who decided, or wanted to: an approver, a refuser, whoever stopped it or said what became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Their words. In `claimed`: why this is another order, where somebody vouched for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Digest of the preview that was put together, or approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The order of the same origin that this one follows; with `claimed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<IdempotencyKey>,
    /// The order's body, as it is sent; with `claimed`, and only when bodies are asked for ([`Audit::with_bodies`](super::Audit::with_bodies)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// The server's answer: its body, or the receipt that a person gave. Only when bodies are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

impl Row {
    /// A row of which only what the order came to is known.
    fn of(key: IdempotencyKey, event: &'static str, at: Option<Timestamp>, state: Option<&State>) -> Row {
        Row {
            at,
            key,
            event,
            standing: state.map_or("unreadable", |state| state.stage().word()),
            // Lost records only add doubt (R15).
            effect: state.map_or(Effect::Possible, State::effect),
            operation: None,
            api: None,
            call: None,
            origin: None,
            agent: None,
            session: None,
            user: None,
            model: None,
            tool_call: None,
            trace: None,
            request: None,
            attempt: None,
            status: None,
            seen: None,
            code: None,
            took_ms: None,
            replayed: None,
            ruling: None,
            rules: Vec::new(),
            policy_version: None,
            reason: None,
            by: None,
            note: None,
            digest: None,
            supersedes: None,
            contents: None,
            answer: None,
        }
    }

    /// Each column's text; `None` where the row says nothing of it.
    pub(super) fn cells(&self) -> impl Iterator<Item = (&'static str, Option<String>)> {
        let members = match serde_json::to_value(self) {
            Ok(Value::Object(members)) => members,
            // Unreachable: a row is names and texts.
            _ => serde_json::Map::new(),
        };
        COLUMNS.into_iter().map(move |name| {
            let cell = members.get(name).map(|value| match value {
                Value::String(text) => text.clone(),
                // Numbers and booleans; and the rules, whose names may hold anything, so that only JSON keeps them apart.
                other => other.to_string(),
            });
            (name, cell)
        })
    }
}

/// The row's fields, in the order of the struct.
pub(super) const COLUMNS: [&str; 32] = [
    "at",
    "key",
    "event",
    "standing",
    "effect",
    "operation",
    "api",
    "call",
    "origin",
    "agent",
    "session",
    "user",
    "model",
    "tool_call",
    "trace",
    "request",
    "attempt",
    "status",
    "seen",
    "code",
    "took_ms",
    "replayed",
    "ruling",
    "rules",
    "policy_version",
    "reason",
    "by",
    "note",
    "digest",
    "supersedes",
    "contents",
    "answer",
];

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = [24, 36, 11, 17, 8].into_iter().chain(std::iter::repeat(0));
        for (n, ((name, cell), width)) in self.cells().zip(widths).enumerate() {
            match (n, width, cell) {
                _ if f.alternate() && self.is_said_before(name) => {}
                (0, _, cell) => write!(f, "{:<width$}", cell.as_deref().unwrap_or("-"))?,
                // The first five are words of ours.
                (_, 1.., Some(cell)) => write!(f, "  {cell:<width$}")?,
                (_, 0, Some(cell)) => write!(f, "  {name}={}", word_or_quoted(&cell))?,
                (_, _, None) => {}
            }
        }
        Ok(())
    }
}

impl Row {
    /// What is the same in all rows of an order, once its claim was told; in a further call, who made it is not.
    fn is_said_before(&self, name: &str) -> bool {
        match (self.event, name) {
            (_, "key") => true,
            ("claimed" | "unreadable", _) => false,
            (_, "operation" | "api" | "call" | "origin") => true,
            ("joined", _) => false,
            (_, "agent" | "session" | "user" | "model" | "tool_call" | "trace") => true,
            _ => false,
        }
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Row({} {})", self.key, self.event)
    }
}

/// Makes rows of one order's story.
pub(super) struct Teller {
    key: IdempotencyKey,
    bodies: Bodies,
    /// The order, once its claim was told.
    order: Option<Draft>,
    requests: HashMap<u32, RequestId>,
}

/// Whether contents of orders and answers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bodies {
    Hidden,
    Told,
}

impl Teller {
    pub(super) fn new(key: IdempotencyKey, bodies: Bodies) -> Self {
        Teller {
            key,
            bodies,
            order: None,
            requests: HashMap::new(),
        }
    }

    /// The order that the rows so far were about; `None` where its claim can't be read.
    pub(super) fn order(&self) -> Option<&Draft> {
        self.order.as_ref()
    }

    /// The row of what a story told, and of where the order stood after it; `None`: nobody can say.
    pub(super) fn row(&mut self, told: &Told, after: Option<&State>) -> Row {
        if let (Ok(Event::Claimed(claimed)), None) = (&told.event, &self.order) {
            self.order = Some(claimed.order.clone());
        }
        let name = told.event.as_ref().map_or("unreadable", Event::name);
        let mut row = Row::of(self.key, name, told.at, after);
        if let Some(order) = &self.order {
            row.is_about(order);
        }
        match &told.event {
            Ok(event) => self.tell(&mut row, event),
            Err(why) => row.reason = Some(why.to_string()),
        }
        row
    }

    /// Total: an event that is added has to say here what the audit tells of it.
    fn tell(&mut self, row: &mut Row, event: &Event) {
        match event {
            Event::Claimed(claimed) => self.claimed(row, claimed),
            Event::Joined { actor, trace, tool_call } => row.asked_by(actor, *trace, tool_call.as_deref()),
            Event::Previewed {
                request,
                current,
                because,
                digest,
                voids,
            } => {
                row.request = request.map(|id| id.to_string());
                self.answered(row, current.as_ref());
                row.because(because);
                row.reason = Some(with_voids(&because.reason, voids.as_ref()));
                row.digest = Some(digest.clone());
            }
            Event::Approved { by, note, shown, until } => {
                row.decided(by, note);
                row.digest = Some(shown.clone());
                row.reason = Some(format!("good until {until}"));
            }
            Event::Refused { by, why } | Event::Abandoned { by, why } | Event::Withdrawn { by, why } | Event::Freed { by, why } => {
                row.decided(by, why);
            }
            Event::Cleared { because, request, boot: _ } => {
                row.request = request.map(|id| id.to_string());
                row.because(because);
            }
            Event::Sent { attempt, request } => {
                self.requests.insert(*attempt, *request);
                row.attempt(*attempt, Some(request));
            }
            Event::Observed { attempt, seen, took_ms } => {
                row.attempt(*attempt, self.requests.get(attempt));
                row.seen(seen);
                row.took_ms = Some(*took_ms);
            }
            Event::LookedUp { request, found, took_ms } => {
                row.request = Some(request.to_string());
                row.seen = Some(found_words(*found).to_owned());
                row.took_ms = Some(*took_ms);
            }
            Event::Rested { why, attempts } => row.rested(why, *attempts),
            Event::Settled(settled) => self.settled(row, settled),
            Event::Review { reason, answer } => {
                self.answered(row, answer.as_ref());
                row.reason = Some(reason.sentence().to_owned());
            }
            Event::Reconciled {
                by,
                evidence,
                applied,
                receipt,
            } => {
                row.decided(by, evidence);
                row.reason = Some(
                    if *applied {
                        "the server has it"
                    } else {
                        "the server has no such order"
                    }
                    .to_owned(),
                );
                row.answer = receipt.as_ref().filter(|_| self.bodies == Bodies::Told).map(Value::to_string);
            }
            Event::TurnedAway { by, verb, why } => {
                row.by = Some(by.clone());
                row.reason = Some(format!("{verb}: {why}"));
            }
            Event::TakenOver { owner } => row.reason = Some(format!("taken up by the process that has the journal open as {owner}")),
        }
    }

    fn claimed(&self, row: &mut Row, claimed: &Claimed) {
        row.ruling = Some(match &claimed.ruling {
            Ruling::Allow(_) => "allow",
            Ruling::Deny(_) => "deny",
            Ruling::Ask(_) => "ask",
        });
        row.because(claimed.ruling.because());
        row.note = claimed.order.origin().vouched().map(str::to_owned);
        row.supersedes = claimed.lineage.supersedes;
        if self.bodies == Bodies::Told {
            row.contents = Some(String::from_utf8_lossy(claimed.order.body()).into_owned());
        }
    }

    fn settled(&self, row: &mut Row, settled: &Settled) {
        match settled {
            Settled::Succeeded { answer, replayed } => {
                self.answered(row, Some(answer));
                row.replayed = Some(*replayed);
            }
            Settled::Rejected { answer } => self.answered(row, answer.as_ref()),
            Settled::Denied { because } => row.because(because),
            Settled::Abandoned { by, why } => row.decided(by, why),
        }
    }

    /// What of an answer is no body; and the body, where it was asked for.
    fn answered(&self, row: &mut Row, answer: Option<&Answer>) {
        let Some(answer) = answer else { return };
        if let Sighting::Answered { status, code, .. } = Sighting::answered(answer, false, None) {
            (row.status, row.code) = (Some(status), code);
        }
        if self.bodies == Bodies::Told {
            row.answer = Some(String::from_utf8_lossy(answer.body()).into_owned());
        }
    }
}

impl Row {
    fn is_about(&mut self, order: &Draft) {
        self.operation = Some(order.operation().to_owned());
        self.api = Some(order.api().to_owned());
        self.call = Some(format!("{} {}", order.route().method().as_str(), order.route().path()));
        self.origin = Some(order.origin().to_string());
        self.asked_by(order.actor(), order.trace(), order.tool_call());
    }

    fn asked_by(&mut self, actor: &Actor, trace: TraceId, tool_call: Option<&str>) {
        self.agent = Some(actor.agent.clone());
        self.session = actor.session.clone();
        self.user = actor.user.clone();
        self.model = actor.model.clone();
        self.trace = Some(trace);
        self.tool_call = tool_call.map(str::to_owned);
    }

    fn because(&mut self, because: &Because) {
        self.rules = because.rules.clone();
        self.policy_version = Some(because.policy_version.clone());
        self.reason = Some(because.reason.clone());
    }

    fn decided(&mut self, by: &str, note: &str) {
        self.by = Some(by.to_owned());
        self.note = (!note.is_empty()).then(|| note.to_owned());
    }

    fn attempt(&mut self, attempt: u32, request: Option<&RequestId>) {
        self.attempt = Some(attempt);
        self.request = request.map(|id| id.to_string());
    }

    fn seen(&mut self, seen: &Sighting) {
        self.seen = Some(seen.to_string());
        match seen {
            Sighting::Answered {
                status, replayed, code, ..
            } => {
                (self.status, self.replayed) = (Some(*status), Some(*replayed));
                self.code = code.clone();
            }
            Sighting::HalfAnswer { status, .. } => self.status = Some(*status),
            Sighting::NeverLeft(_) | Sighting::NoAnswer(_) => {}
        }
    }

    fn rested(&mut self, why: &Rest, attempts: u32) {
        self.attempt = Some(attempts);
        let (words, retry_at) = match why {
            Rest::AttemptsSpent { retry_at } => ("the limit of attempts was reached", *retry_at),
            Rest::TimeSpent { retry_at } => ("the time limit would have passed before a further attempt", *retry_at),
            Rest::BudgetSpent { retry_at } => ("no retry is left to all orders of the api together", *retry_at),
            Rest::Unauthorized { status } => {
                self.status = *status;
                ("the server refuses the credential, or there was none", None)
            }
            Rest::Redirected { status } => {
                self.status = Some(*status);
                ("the server redirects, and that is never followed", None)
            }
            Rest::UnexpectedContent { status } => {
                self.status = Some(*status);
                ("a success status with a body that is no JSON", None)
            }
            Rest::TooLarge {} => ("the answer is larger than the cap", None),
            Rest::Unseen {} => (
                "the order it acts on could not be read, to see that it is as it was when it was shown",
                None,
            ),
            Rest::Tls {} => ("no trusted TLS connection", None),
            Rest::Interrupted {} => ("its task ended before its work did", None),
        };
        self.reason = Some(match retry_at {
            Some(at) => format!("{words}; not worth trying before {at}"),
            None => words.to_owned(),
        });
    }
}

fn with_voids(reason: &str, voids: Option<&Voids>) -> String {
    let why = match voids.map(|voids| voids.why) {
        None => return reason.to_owned(),
        Some(Void::BaseChanged) => "the order it acts on has changed",
        Some(Void::PolicyChanged) => "the policy has changed",
    };
    format!("{reason}; an approval given before is void, since {why}")
}

fn found_words(found: Found) -> &'static str {
    match found {
        Found::Same => "this order",
        Found::Different => "an order that differs from this one",
        Found::Ended => "this order, cancelled, rejected or expired",
        Found::Absent => "no such order",
        Found::InProgress => "still running",
        Found::Unreadable => "an answer that says nothing of an order",
        Found::NoAnswer => "no answer",
    }
}
