//! What a person decides of an order, weighed on its story under the turn. Whoever is not let is written down with the reason: the audit has
//! refused decisions too.

use super::{StoreError, Turn, claim::Clerk, event_of, flight::Seat, store::Mark};
use crate::{
    actor::{is_name, is_same_name, says_something},
    clock::Timestamp,
    ids::IdempotencyKey,
    intent::Intent,
    lifecycle::{Effect, Event, ReviewReason, Settled, Stage, State, TurnedAway, Verb},
    origin::Hash,
};
use serde_json::Value;

/// What a person wants of an order.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Approve { shown: String, note: String },
    Refuse { why: String },
    Withdraw { why: String },
    Reconcile { finding: Finding, evidence: String },
    Abandon { why: String },
    FreeOrigin { why: String },
}

/// What a person found out about an order.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// The server has it: with its receipt, which has to hold what a success of the operation must hold.
    Applied {
        /// What the server says of the order.
        receipt: Option<Value>,
    },
    /// The server has no such order.
    NotApplied,
}

impl Act {
    pub(crate) fn verb(&self) -> Verb {
        match self {
            Act::Approve { .. } => Verb::Approve,
            Act::Refuse { .. } => Verb::Refuse,
            Act::Withdraw { .. } => Verb::Withdraw,
            Act::Reconcile { .. } => Verb::Reconcile,
            Act::Abandon { .. } => Verb::Abandon,
            Act::FreeOrigin { .. } => Verb::FreeOrigin,
        }
    }

    /// Taking back what was never sent is an agent's too, and its name is what it is called; a person who decides has one that can be read.
    fn takes_name(&self, by: &str) -> bool {
        match self {
            Act::Withdraw { .. } => says_something(by),
            Act::Approve { .. } | Act::Refuse { .. } | Act::Reconcile { .. } | Act::Abandon { .. } | Act::FreeOrigin { .. } => is_name(by),
        }
    }

    /// A yes may go without words; everything else may not.
    fn has_reason(&self) -> bool {
        match self {
            Act::Approve { .. } => true,
            Act::Refuse { why } | Act::Withdraw { why } | Act::Abandon { why } | Act::FreeOrigin { why } => says_something(why),
            Act::Reconcile { evidence, .. } => says_something(evidence),
        }
    }
}

/// A parked order that somebody looks at: until when a person has, and up to where its story was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    pub(crate) until: Timestamp,
    pub(crate) known_to: Option<Mark>,
}

/// A parked order of which there is news; `stage`: where it stands now, as far as it can be read.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) key: IdempotencyKey,
    pub(crate) stage: Option<Stage>,
    pub(crate) known_to: Option<Mark>,
}

/// An order after a person's act, and why it was not done, where it was not.
#[derive(Debug)]
pub(crate) struct Acted {
    pub(crate) intent: Intent,
    pub(crate) state: State,
    pub(crate) turned_away: Option<TurnedAway>,
}

impl Clerk {
    /// One act, or why not; either is written down. `None`: there is no such order.
    pub(super) async fn act(&self, turn: &mut dyn Turn, key: IdempotencyKey, by: String, act: Act) -> Result<Option<Acted>, StoreError> {
        let Some((intent, state)) = self.find(turn, key).await? else {
            return Ok(None);
        };
        let verb = act.verb();
        let weighed = match (act.takes_name(&by), act.has_reason()) {
            (false, _) => Err(TurnedAway::Nameless {}),
            (_, false) => Err(TurnedAway::NoReason {}),
            _ => self.weigh(turn, &intent, &state, &by, act).await?,
        };
        let (event, turned_away) = match weighed {
            Ok(event) => (event, None),
            Err(why) => (
                Event::TurnedAway {
                    by,
                    verb,
                    why: why.clone(),
                },
                Some(why),
            ),
        };
        let state = self.append(turn, key, state, &[event])?;
        Ok(Some(Acted {
            intent,
            state,
            turned_away,
        }))
    }

    async fn weigh(
        &self,
        turn: &mut dyn Turn,
        intent: &Intent,
        state: &State,
        by: &str,
        act: Act,
    ) -> Result<Result<Event, TurnedAway>, StoreError> {
        let by_name = by.to_owned();
        Ok(match act {
            Act::Approve { shown, note } => match self.may_approve(turn, intent, state, by, &shown).await? {
                Some(why) => Err(why),
                None => Ok(Event::Approved {
                    by: by_name,
                    note,
                    shown,
                    until: self.now.plus(state.asked_for()),
                }),
            },
            Act::Refuse { why } => may_refuse(state).map(|()| Event::Refused { by: by_name, why }),
            Act::Withdraw { why } => match self.lease(turn, intent.key(), state).await? {
                None => Err(TurnedAway::InFlight {}),
                Some(_seat) => may_withdraw(state).map(|()| Event::Withdrawn { by: by_name, why }),
            },
            Act::Abandon { why } => match self.lease(turn, intent.key(), state).await? {
                None => Err(TurnedAway::InFlight {}),
                Some(_seat) if state.is_settled() => Err(TurnedAway::Ended {}),
                Some(_seat) => Ok(Event::Abandoned { by: by_name, why }),
            },
            Act::Reconcile { finding, evidence } => match self.lease(turn, intent.key(), state).await? {
                None => Err(TurnedAway::InFlight {}),
                Some(_seat) => may_reconcile(intent, state, &finding).map(|()| Event::Reconciled {
                    by: by_name,
                    evidence,
                    applied: matches!(finding, Finding::Applied { .. }),
                    receipt: match finding {
                        Finding::Applied { receipt } => receipt,
                        Finding::NotApplied => None,
                    },
                }),
            },
            Act::FreeOrigin { why } => match self.may_free(turn, intent, state).await? {
                Some(why) => Err(why),
                None => Ok(Event::Freed { by: by_name, why }),
            },
        })
    }

    /// Why this yes does not count.
    async fn may_approve(
        &self,
        turn: &mut dyn Turn,
        intent: &Intent,
        state: &State,
        by: &str,
        shown: &str,
    ) -> Result<Option<TurnedAway>, StoreError> {
        match (state.stage(), state.approval()) {
            (Stage::AwaitingApproval { .. }, _) => {}
            (Stage::Approved { .. }, Some(first)) => return Ok(Some(TurnedAway::AlreadyApproved { by: first.by.clone() })),
            // The yes was used.
            (_, Some(first)) if state.sending_permitted() => return Ok(Some(TurnedAway::AlreadyApproved { by: first.by.clone() })),
            (Stage::Settled(_), _) if has_expired(state) => return Ok(Some(TurnedAway::Expired {})),
            (Stage::Settled(_), _) => return Ok(Some(TurnedAway::Ended {})),
            _ => return Ok(Some(TurnedAway::NotAwaiting {})),
        }
        if self.asked_for_it(turn, intent, by).await? {
            return Ok(Some(TurnedAway::OwnOrder {}));
        }
        Ok(match state.preview(intent) {
            None => Some(TurnedAway::NothingShown {}),
            Some(stands) if stands.digest != shown => Some(TurnedAway::OtherPreview {
                named: shown.to_owned(),
                stands: stands.digest,
            }),
            Some(_) => None,
        })
    }

    /// Whether somebody of that name asked for the order, first or later.
    async fn asked_for_it(&self, turn: &mut dyn Turn, intent: &Intent, by: &str) -> Result<bool, StoreError> {
        if is_same_name(&intent.actor().agent, by) {
            return Ok(true);
        }
        for record in turn.story(intent.key()).await? {
            if let Event::Joined { actor, .. } = event_of(&record)?
                && is_same_name(&actor.agent, by)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// R4: while a flight has it, nobody closes it over its head. Nobody boards under this turn either.
    pub(super) async fn lease(&self, turn: &mut dyn Turn, key: IdempotencyKey, state: &State) -> Result<Option<Seat>, StoreError> {
        let Ok(seat) = self.flights.take(key) else { return Ok(None) };
        let elsewhere = match state.flown_by().filter(|owner| *owner != self.owner) {
            Some(owner) => turn.alive(owner).await?,
            None => false,
        };
        Ok((!elsewhere).then_some(seat))
    }

    /// R4, R19: an origin is freed by an act of its own, once its order has an end; and only its newest order stands for it (R17).
    async fn may_free(&self, turn: &mut dyn Turn, intent: &Intent, state: &State) -> Result<Option<TurnedAway>, StoreError> {
        let columns = intent.columns();
        let newest = match (columns.origin, columns.source) {
            (Some(origin), Some(source)) => turn.by_origin(origin, source).await?,
            _ => Some(intent.key()),
        };
        Ok(match state.stage() {
            Stage::Settled(Settled::Succeeded { .. }) => Some(TurnedAway::Processed {}),
            Stage::Settled(_) if state.is_freed() || newest != Some(intent.key()) => Some(TurnedAway::NothingToFree {}),
            Stage::Settled(_) => None,
            _ => Some(TurnedAway::NotEnded {}),
        })
    }
}

impl Clerk {
    /// What can't be read has no news that anybody could act on.
    pub(super) async fn heard_of(&self, turn: &mut dyn Turn, parked: Vec<(IdempotencyKey, Parked)>) -> Vec<Heard> {
        let mut heard = Vec::new();
        for (key, parked) in parked {
            let known_to = turn.known_to(key);
            if self.now < parked.until && known_to.is_some() && known_to == parked.known_to {
                continue;
            }
            let found = self.find(turn, key).await.ok().flatten();
            let stage = found.map(|(_, state)| state.at(self.now));
            heard.push(Heard { key, stage, known_to });
        }
        heard
    }

    /// From an origin's newest order back to the one that followed this.
    pub(super) async fn successor(
        &self,
        turn: &mut dyn Turn,
        of: IdempotencyKey,
        origin: Hash,
        source: Hash,
    ) -> Result<Option<IdempotencyKey>, StoreError> {
        let mut newer = turn.by_origin(origin, source).await?;
        while let Some(key) = newer {
            let before = self.read(turn, key).await?.0.supersedes();
            if before == Some(of) {
                return Ok(Some(key));
            }
            newer = before.filter(|before| *before != of);
        }
        Ok(None)
    }
}

/// Silence was written down as a no.
fn has_expired(state: &State) -> bool {
    match state.stage() {
        Stage::Settled(Settled::Denied { because }) => because.rules.iter().any(|rule| rule == "expired" || rule == "approval_expired"),
        _ => false,
    }
}

/// R2: only what was never cleared can be refused.
fn may_refuse(state: &State) -> Result<(), TurnedAway> {
    match state.stage() {
        Stage::AwaitingApproval { .. } | Stage::Approved { .. } => Ok(()),
        Stage::Settled(_) if has_expired(state) => Err(TurnedAway::Expired {}),
        Stage::Settled(_) => Err(TurnedAway::Ended {}),
        Stage::Open | Stage::NeedsReview(_) if state.effect() == Effect::None => Err(TurnedAway::NotAwaiting {}),
        Stage::Open | Stage::NeedsReview(_) => Err(TurnedAway::MayHaveBeenSent {}),
    }
}

/// What a person may do with an order as it stands, unless a flight has it.
pub(crate) fn verbs_for(intent: &Intent, state: &State) -> Vec<Verb> {
    let ended = matches!(state.stage(), Stage::Settled(_));
    let processed = matches!(state.stage(), Stage::Settled(Settled::Succeeded { .. }));
    let asked = matches!(state.stage(), Stage::AwaitingApproval { .. }) && state.preview(intent).is_some();
    let all = [
        (Verb::Approve, asked),
        (Verb::Refuse, may_refuse(state).is_ok()),
        (Verb::Withdraw, may_withdraw(state).is_ok()),
        (Verb::Reconcile, may_reconcile(intent, state, &Finding::NotApplied).is_ok()),
        (Verb::Abandon, !ended),
        (Verb::FreeOrigin, ended && !processed && !state.is_freed()),
    ];
    all.into_iter().filter_map(|(verb, may)| may.then_some(verb)).collect()
}

fn may_withdraw(state: &State) -> Result<(), TurnedAway> {
    match state.may_be_withdrawn() {
        true => Ok(()),
        false if state.is_settled() => Err(TurnedAway::Ended {}),
        false => Err(TurnedAway::MayHaveBeenSent {}),
    }
}

/// A person says what became of what may have been sent; also of what a person had closed in another way.
fn may_reconcile(intent: &Intent, state: &State, finding: &Finding) -> Result<(), TurnedAway> {
    match state.stage() {
        Stage::Settled(Settled::Succeeded { .. }) => return Err(TurnedAway::Processed {}),
        Stage::Settled(Settled::Denied { .. } | Settled::Rejected { answer: Some(_) }) => return Err(TurnedAway::Ended {}),
        Stage::NeedsReview(ReviewReason::LateOutcome) => {}
        _ if state.effect() == Effect::None && !state.was_found_unprocessed() => return Err(TurnedAway::NeverSent {}),
        _ => {}
    }
    let Finding::Applied { receipt } = finding else { return Ok(()) };
    let holds = |pointer: &String| {
        let receipt = receipt.as_ref().and_then(|receipt| receipt.pointer(pointer));
        receipt.is_some_and(|value| !value.is_null())
    };
    match intent.receipt_has().iter().find(|pointer| !holds(pointer)) {
        Some(lacks) => Err(TurnedAway::NoSuchReceipt { lacks: lacks.clone() }),
        None => Ok(()),
    }
}
