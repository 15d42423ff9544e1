//! What a person is asked about: what they are shown first, and what follows their yes. An approval is good for exactly what was shown: what
//! is not so any more is shown anew.

use super::{Engine, Refresh, Told};
use crate::{
    answer::{Answer, Observed},
    attempt::{Outgoing, budget, pace::Patience},
    clock::{Boot, monotonic},
    ids::{IdempotencyKey, RequestId},
    intent::Intent,
    journal::{Claim, Claimed, JournalError, Mine},
    lifecycle::{Event, Rest, Settled, Shown, Stage, State, Void, Voids},
    ruling::{Because, Ruling, changes},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How long somebody who waits for a person goes without looking at the journal.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often somebody who waits for a person tries to read what that person has to be shown.
const READ_EVERY: Duration = Duration::from_secs(30);

/// An order that another one acts on, as its server showed it.
struct Read {
    request: RequestId,
    answer: Answer,
}

impl Engine {
    /// A parked order: what a person is to be shown is put together, if it has not been, and a yes is watched for.
    pub(super) async fn parked(self: &Arc<Self>, intent: &Intent, state: State) -> Result<State, JournalError> {
        let Stage::AwaitingApproval { until } = state.at(self.journal.now()) else {
            return Ok(state);
        };
        if intent.api() != self.api.name() {
            return Ok(state);
        }
        self.watch(intent.key(), until);
        self.put_before_a_person(intent, state).await
    }

    /// The order that it acts on is read and kept beside it, while a person is asked and has nothing to be shown. What can't be read now is read by
    /// whoever meets the order next; until then nobody can approve it.
    pub(crate) async fn put_before_a_person(&self, intent: &Intent, state: State) -> Result<State, JournalError> {
        let is_asked = matches!(state.at(self.journal.now()), Stage::AwaitingApproval { .. });
        if !is_asked || state.preview(intent).is_some() {
            return Ok(state);
        }
        let (Some(ruling), Some(read)) = (state.ruling(), self.read_subject(intent).await) else {
            return Ok(state);
        };
        let (of, because) = (intent.clone(), ruling.because().clone());
        self.journal
            .note(intent.key(), move |state| {
                let wanted = matches!(state.stage(), Stage::AwaitingApproval { .. }) && state.preview(&of).is_none();
                let shown = Shown::of(&of, Some(read.answer), because);
                wanted.then(|| previewed(Some(read.request), shown, None)).into_iter().collect()
            })
            .await
    }

    /// What follows a yes: the order is weighed once more, and if all is as it was when it was shown, it is cleared, by which the yes is used up
    /// (R2). Otherwise a person is shown what has changed. Never for what was sent (R18).
    pub(super) async fn redeem(&self, claim: &mut Claim) -> Result<(), JournalError> {
        if !matches!(claim.state().stage(), Stage::Approved { .. }) {
            return Ok(());
        }
        let intent = claim.intent().clone();
        let unseen = |state: &State| vec![state.resting(Rest::Unseen {})];
        let Some(stood) = claim.state().preview(&intent) else {
            return self.while_approved(claim, unseen).await;
        };
        let Some(ruling) = self.judge_again(&intent) else {
            return self.while_approved(claim, |state| vec![state.resting(Rest::Interrupted {})]).await;
        };
        if let Ruling::Deny(because) = ruling {
            return self
                .while_approved(claim, move |_| vec![Event::Settled(Settled::Denied { because })])
                .await;
        }
        let read = match intent.subject() {
            None => None,
            Some(_) => match self.read_subject(&intent).await {
                Some(read) => Some(read),
                None => return self.while_approved(claim, unseen).await,
            },
        };
        let Some((why, shown)) = otherwise_now(&intent, &stood, ruling.because(), read.as_ref()) else {
            let (boot, request) = (self.journal.boot(), read.map(|read| read.request));
            return self
                .while_approved(claim, move |state| vec![cleared(state, &stood.because, request, boot)])
                .await;
        };
        let (now, request) = (self.journal.now(), read.map(|read| read.request));
        self.while_approved(claim, move |state| {
            let until = now.plus(state.asked_for());
            vec![previewed(request, shown, Some(Voids { why, until }))]
        })
        .await
    }

    /// Writes what follows a yes, if it still stands: somebody may have said no meanwhile, and its time may have passed.
    async fn while_approved<F>(&self, claim: &mut Claim, follows: F) -> Result<(), JournalError>
    where
        F: FnOnce(&State) -> Vec<Event> + Send + 'static,
    {
        let journal = self.journal.clone();
        let given = claim.state().approval().cloned();
        self.journal
            .write(claim, move |state, mine| {
                let stands = mine == Mine::Yes && state.approval() == given.as_ref();
                let events = match (state.stage(), state.at(journal.now())) {
                    (Stage::Approved { .. }, Stage::Approved { .. }) if stands => follows(state),
                    (Stage::Approved { .. }, Stage::Settled(expired)) => vec![Event::Settled(expired)],
                    _ => Vec::new(),
                };
                (events, ())
            })
            .await
    }

    /// The order that this one acts on, as it stands. Orders nothing. `None`: it could not be read, and why is logged.
    async fn read_subject(&self, intent: &Intent) -> Option<Read> {
        let subject = intent.subject()?;
        // A question, to which an agent waits: no longer than for one attempt, whatever happens.
        let until = monotonic() + self.api.timeouts().attempt;
        let mut patience = Patience::new(self.api.pacing(), self.api.budget());
        let mut refresh = Refresh::Left;
        loop {
            let credential = self.credential(until).await.ok()?;
            let (request, ready) = self.ready(|request| Outgoing::lookup(intent, subject.at(), request, credential.as_ref()))?;
            let seen = self.api.wire().send(ready).await;
            self.notice_clock(intent, &seen);
            let (cost, left) = (budget::cost(&seen), until.saturating_duration_since(monotonic()));
            let wait = match seen {
                Observed::Answered(answer) if answer.status().is_success() => {
                    let is_order = answer.says_json() && answer.json().is_some_and(|order| order.is_object());
                    return is_order.then_some(Read { request, answer });
                }
                Observed::Answered(answer) if matches!(answer.status().as_u16(), 401 | 403) => {
                    match self.refresh(&mut refresh, credential, until).await {
                        true => patience.at_once(cost, left),
                        false => return None,
                    }
                }
                Observed::Answered(answer) if !is_passing(answer.status().as_u16()) => {
                    tracing::warn!(key = %intent.key(), status = answer.status().as_u16(), "the order it acts on can't be read");
                    return None;
                }
                _ => patience.next(None, cost, left),
            };
            tokio::time::sleep(wait.ok()?).await;
        }
    }

    /// Waits for a person, and for what follows their word.
    pub(crate) async fn decided(self: Arc<Self>, key: IdempotencyKey) -> Told {
        let mut read_at = monotonic();
        loop {
            match self.journal.retake(key).await? {
                Claimed::Known { intent, state } if matches!(state.at(self.journal.now()), Stage::AwaitingApproval { .. }) => {
                    // What can't be read now may be later; the journal's words come more often than that.
                    if monotonic() >= read_at {
                        self.parked(&intent, state).await?;
                        read_at = monotonic() + READ_EVERY;
                    }
                    self.journal.next_word(LOOK_EVERY).await.map_err(|error| error.about(key))?;
                }
                claimed => {
                    let until = monotonic() + self.patience();
                    if let Some(told) = self.go_on(claimed, until, &super::KeyKnown::default()).await? {
                        return told;
                    }
                }
            }
        }
    }
}

/// What is not as it was when it was shown; `None`: all is.
fn otherwise_now(intent: &Intent, stood: &Shown, because: &Because, read: Option<&Read>) -> Option<(Void, Shown)> {
    let current = read.map(|read| read.answer.clone()).or_else(|| stood.current.clone());
    if because.policy_version != stood.because.policy_version {
        let reason = format!("the policy has changed since somebody approved it: {}", because.reason);
        let because = Because::rule(because.policy_version.clone(), "policy_changed", reason);
        return Some((Void::PolicyChanged, Shown::of(intent, current, because)));
    }
    let same = match (read, &stood.current) {
        (None, _) => true,
        (Some(read), Some(then)) => is_same_version(intent, &read.answer, then),
        (Some(_), None) => false,
    };
    (!same).then(|| (Void::BaseChanged, Shown::of(intent, current, stood.because.clone())))
}

/// By the server's word for a version, and by what would change of it; where it has no such word, by all that it shows.
fn is_same_version(intent: &Intent, now: &Answer, then: &Answer) -> bool {
    let (Some(now_shows), Some(then_shows)) = (now.json(), then.json()) else {
        return false;
    };
    let would_change = |current: &Value| {
        let after = intent
            .subject()
            .and_then(|subject| subject.after(current, intent.members().as_ref()));
        // As it was shown: of what ends, all of it.
        changes(current, &after.unwrap_or_else(|| json!({})))
    };
    match (now.header("etag"), then.header("etag")) {
        (Some(now), Some(then)) => now == then && would_change(now_shows) == would_change(then_shows),
        (None, None) => now_shows == then_shows,
        _ => false,
    }
}

/// A status that says "not now".
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..)
}

fn previewed(request: Option<RequestId>, shown: Shown, voids: Option<Voids>) -> Event {
    let Shown { current, because, digest } = shown;
    Event::Previewed {
        request,
        current,
        because,
        digest,
        voids,
    }
}

/// From here on bytes may leave, and the yes is used up by the same record (R2).
fn cleared(state: &State, asked: &Because, request: Option<RequestId>, boot: Option<Boot>) -> Event {
    let by = state.approval().map(|approval| approval.by.clone()).unwrap_or_default();
    Event::Cleared {
        because: Because::rule(asked.policy_version.clone(), "approved", format!("approved by {by}")),
        request,
        boot,
    }
}
