//! Resuming what a crash, a lost reply or a closed laptop left open: which orders, how many at once. What is done with each is `engine.rs`.

use crate::{
    attempt::{lookup::Looked, verdict::Verdict},
    clock::monotonic,
    engine::{Asked, Engine},
    ids::{IdempotencyKey, dice},
    intent::Intent,
    journal::Journal,
    lifecycle::{Event, Found, ReviewReason, Stage, State},
    origin::Origin,
    outcome::{Error, Outcome, Raw, tell},
};

use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

/// Each start is put off by up to this much, so that a fleet that restarts together does not knock together.
const JITTER_MS: u64 = 100;

/// One order that was open, and what it came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resumed {
    /// Its key.
    pub key: IdempotencyKey,
    /// Its operation's name.
    pub operation: String,
    /// What it came from.
    pub origin: Origin,
    /// What it came to.
    pub result: Result<Outcome<Raw>, Error>,
}

/// One order that resume did not touch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeftAlone {
    /// Its key.
    pub key: IdempotencyKey,
    /// Why not.
    pub why: Why,
}

/// Why resume leaves an order alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It goes to another api than this client's.
    OtherApi(String),
    /// It waits for a person's yes or no.
    AwaitingApproval,
    /// A person has to look.
    UnderReview,
    /// Its record can't be read; nothing is sent under it.
    Unreadable(String),
}

/// What resuming found: the orders it took up, with what they came to, and those it left alone. Iterates over the former.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Resumption {
    /// Taken up.
    pub resumed: Vec<Resumed>,
    /// Left alone.
    pub left_alone: Vec<LeftAlone>,
}

impl IntoIterator for Resumption {
    type Item = Resumed;
    type IntoIter = std::vec::IntoIter<Resumed>;

    fn into_iter(self) -> Self::IntoIter {
        self.resumed.into_iter()
    }
}

/// Open orders as they come to an end, one by one. Dropping it stops nothing that is in flight.
#[derive(Debug)]
pub struct Resuming {
    ended: mpsc::Receiver<Resumed>,
    left_alone: Vec<LeftAlone>,
}

impl Resuming {
    /// The next order to come to an end; `None` after the last.
    pub async fn next(&mut self) -> Option<Resumed> {
        self.ended.recv().await
    }

    /// The orders that were left alone.
    pub fn left_alone(&self) -> &[LeftAlone] {
        &self.left_alone
    }
}

/// What is to be resumed, and who it is.
struct Due {
    key: IdempotencyKey,
    operation: String,
    origin: Origin,
}

/// Starts resuming everything of the engine's api that is open. One order that fails never holds up another.
pub(crate) async fn resume_each(engine: Arc<Engine>) -> Result<Resuming, Error> {
    let (found, left_alone) = survey(&engine).await?;
    let (tell, ended) = mpsc::channel(found.len().max(1));
    let gate = Arc::new(Semaphore::new(engine.resume_at_once.min(Semaphore::MAX_PERMITS)));
    tokio::spawn(async move {
        let mut tasks = JoinSet::new();
        for Due { key, operation, origin } in found {
            // Waits here, not in a task each: an order nobody has begun costs nothing.
            let Ok(turn) = Arc::clone(&gate).acquire_owned().await else {
                return;
            };
            let (engine, tell) = (Arc::clone(&engine), tell.clone());
            tasks.spawn(async move {
                tokio::time::sleep(Duration::from_millis(dice(JITTER_MS))).await;
                let result = engine.resume(key).await;
                drop(turn);
                let resumed = Resumed {
                    key,
                    operation,
                    origin,
                    result,
                };
                // Nobody listens any more: the journal has it.
                drop(tell.send(resumed).await);
            });
        }
        while tasks.join_next().await.is_some() {}
    });
    Ok(Resuming { ended, left_alone })
}

pub(crate) async fn resume_pending(engine: Arc<Engine>) -> Result<Resumption, Error> {
    let mut resuming = resume_each(engine).await?;
    let mut resumed = Vec::new();
    while let Some(one) = resuming.next().await {
        resumed.push(one);
    }
    Ok(Resumption {
        resumed,
        left_alone: resuming.left_alone,
    })
}

/// One order by its key.
pub(crate) async fn resume_one(engine: Arc<Engine>, key: IdempotencyKey) -> Result<Outcome<Raw>, Error> {
    of_this_api(&engine, key).await?;
    engine.resume(key).await
}

/// What a person decides of one order, and what follows.
pub(crate) async fn decided(engine: Arc<Engine>, key: IdempotencyKey) -> Result<Outcome<Raw>, Error> {
    of_this_api(&engine, key).await?;
    engine.decided(key).await
}

async fn of_this_api(engine: &Engine, key: IdempotencyKey) -> Result<(Intent, State), Error> {
    let Some((intent, state)) = engine.journal.order(key).await? else {
        return Err(Error::no_such_key(key));
    };
    match intent.api() == engine.api.name() {
        true => Ok((intent, state)),
        false => Err(Error::other_api(&intent, &state)),
    }
}

/// Asks the server for one order, and books what it shows. Sends nothing that could order.
pub(crate) async fn look_up(engine: &Engine, key: IdempotencyKey) -> Result<Outcome<Raw>, Error> {
    let (intent, state) = of_this_api(engine, key).await?;
    if !state.may_have_landed() || state.is_settled() {
        return tell(&intent, &state, engine.journal.now());
    }
    let Some(asked) = ask(engine, &intent, &state).await else {
        return Err(Error::no_lookup(&intent, &state, engine.api.dialect().name()));
    };
    let state = engine.journal.note(key, move |state| booked(state, asked)).await?;
    tell(&intent, &state, engine.journal.now())
}

/// A lookup's record, and what of its verdict stands by itself: an order that is there is there, whoever sends it at the moment; what is not
/// found, or can't be read, changes nothing.
fn booked(state: &State, asked: Asked) -> Vec<Event> {
    let mut events = vec![asked.event()];
    let Looked { found, answer, verdict } = asked.looked;
    events.extend(match (verdict, found) {
        // Also against a no that was booked meanwhile: the fold weighs the two (R4).
        (Verdict::Settle(settled), _) => Some(Event::Settled(settled)),
        _ if state.is_settled() => None,
        (Verdict::Review(reason), Found::Different | Found::Ended) => Some(Event::Review { reason, answer }),
        _ => None,
    });
    events
}

/// One lookup of an order by its key; `None`: there is no way to ask.
async fn ask(engine: &Engine, intent: &Intent, state: &State) -> Option<Asked> {
    let why = match state.stage() {
        Stage::NeedsReview(reason) => *reason,
        _ => engine.held_back(intent, state).unwrap_or(ReviewReason::RetentionPassed),
    };
    let until = monotonic() + engine.api.timeouts().total;
    let credential = engine.credential(until).await.ok()?;
    engine.ask(engine.case_of(intent, state), why, None, credential.as_ref()).await
}

/// Whether an order can be resumed, and if that can't be told, what a person has to look at; see
/// [`OrderClient::examine`](crate::OrderClient::examine).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Examination {
    /// Resume goes on: it repeats the key within the time in which the server knows it, or books what the server shows.
    SafeToResume,
    /// There is nothing that resume could do, and this is why.
    NotSafe(String),
    /// Neither journal nor server can tell; this is where to look.
    Unknown(String),
}

/// From the journal, and where that is not enough, by a lookup. Nothing is deleted, and nothing sent that could order.
pub(crate) async fn examine(engine: &Engine, key: IdempotencyKey) -> Result<Examination, Error> {
    let (intent, state) = of_this_api(engine, key).await?;
    let not_safe = |why: &str| Ok(Examination::NotSafe(why.to_owned()));
    let held = match state.stage() {
        Stage::Settled(_) => return not_safe("it has its outcome: there is nothing to resume"),
        Stage::AwaitingApproval { .. } | Stage::Approved { .. } => return not_safe("a person decides first; nothing of it was sent"),
        Stage::NeedsReview(reason) => *reason,
        Stage::Open => match engine.held_back(&intent, &state) {
            Some(reason) => reason,
            None => return Ok(Examination::SafeToResume),
        },
    };
    let where_to_look = |what: &str| {
        let since = state.first_possible_send().map(|at| format!(" from {at} on")).unwrap_or_default();
        let text = format!(
            "{}; {what}: look at {} for a {} of {}{since}, under the key {key}; do not place it as a new order",
            held.sentence(),
            intent.api(),
            intent.operation(),
            intent.origin(),
        );
        Ok(Examination::Unknown(text))
    };
    let Some(asked) = ask(engine, &intent, &state).await else {
        return where_to_look("the server can't be asked for it from here");
    };
    let (found, verdict, event) = (asked.looked.found, asked.looked.verdict.clone(), asked.event());
    engine.journal.note(key, move |_| vec![event]).await?;
    match (found, verdict, state.is_open()) {
        (Found::Same, _, true) | (Found::Absent, Verdict::Resend, true) => Ok(Examination::SafeToResume),
        (Found::Same, ..) => not_safe("the server has it, so nothing needs to be sent: a lookup books it"),
        (Found::Different, ..) => not_safe("the server has another order under this key: ask a person; do not place it as a new order"),
        (Found::Ended, ..) => {
            not_safe("the server has it, but cancelled, rejected or expired: ask a person; do not place it as a new order")
        }
        (Found::Absent, ..) => where_to_look("the server shows no such order, which proves nothing"),
        (Found::InProgress, ..) => where_to_look("the server says that it is still at work on it"),
        (Found::Unreadable, ..) => where_to_look("the server's answer to a lookup says nothing of an order"),
        (Found::NoAnswer, ..) => where_to_look("the server did not answer the lookup"),
    }
}

/// One order as the journal has it, without sending.
pub(crate) async fn known(journal: &Journal, key: IdempotencyKey) -> Result<Option<Outcome<Raw>>, Error> {
    let found = journal.order(key).await?;
    found.map(|(intent, state)| tell(&intent, &state, journal.now())).transpose()
}

async fn survey(engine: &Engine) -> Result<(Vec<Due>, Vec<LeftAlone>), Error> {
    let (mut found, mut left_alone) = (Vec::new(), Vec::new());
    for key in engine.journal.all_unsettled().await? {
        match look(engine, key).await {
            Ok(one) => found.extend(one),
            Err(why) => left_alone.push(LeftAlone { key, why }),
        }
    }
    Ok((found, left_alone))
}

fn due(key: IdempotencyKey, intent: &Intent) -> Due {
    Due {
        key,
        operation: intent.operation().to_owned(),
        origin: intent.origin().clone(),
    }
}

/// `Ok(None)`: settled meanwhile.
async fn look(engine: &Engine, key: IdempotencyKey) -> Result<Option<Due>, Why> {
    let order = engine.journal.order(key).await.map_err(|e| Why::Unreadable(e.to_string()))?;
    let Some((intent, state)) = order else { return Ok(None) };
    if intent.api() != engine.api.name() {
        return Err(Why::OtherApi(intent.api().to_owned()));
    }
    match state.at(engine.journal.now()) {
        // What has only become old is taken up: its server may be asked for it, and what is not found is written down for a person.
        _ if state.is_open() => Ok(Some(due(key, &intent))),
        // A yes waits to be used.
        Stage::Approved { .. } => Ok(Some(due(key, &intent))),
        Stage::AwaitingApproval { .. } => {
            // What a person is to be shown may have been impossible to read before.
            let shown = engine.put_before_a_person(&intent, state).await;
            shown.map_err(|e| Why::Unreadable(e.to_string()))?;
            Err(Why::AwaitingApproval)
        }
        Stage::NeedsReview(_) => Err(Why::UnderReview),
        Stage::Settled(_) | Stage::Open => Ok(None),
    }
}
