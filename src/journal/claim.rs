//! `Claim`: the proof that an order is written down and ours to send; and the clerk, whose decisions are the only place that makes one, and
//! the only place that mints a key. A leaf with private fields: nobody can forge a claim.

use super::{
    StoreError, StoreErrorKind, Turn, event_of,
    flight::{Flights, Landing, Seat, Waiting},
    record_of,
    store::{Committed, Decide, Mark, Store},
    tally::Tallies,
};
use crate::{
    clock::{Boot, Timestamp},
    ids::{IdempotencyKey, OwnerId},
    intent::{Draft, Intent, Lineage},
    lifecycle::{self, Effect, Event, Rest, Stage, State},
    ruling::{Because, Change, Judgement, Ruling, changes},
};
use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

/// An order that is durable in the journal and that this process, and in it this holder alone, may send. Not `Clone`.
///
/// Dropped before its flight came to an end (a panic, a runtime that went away), it writes down that the order rests, so that nobody waits
/// for it (R13).
pub(crate) struct Claim {
    intent: Intent,
    state: State,
    /// The story that `state` was folded from ends here; `None` where that is not known.
    known_to: Option<Mark>,
    waiting: Waiting,
    /// `None` once landed.
    seat: Option<Seat>,
    store: Weak<dyn Store>,
    now: Timestamp,
}

/// What became of a claim.
#[must_use]
pub(crate) enum Claimed {
    /// The order is new: it has its key.
    New(Claim),
    /// The order is known, open, and nobody is sending it: go on where its story ends.
    Ours(Claim),
    /// Somebody in this process is sending it: wait for them.
    InFlightHere { key: IdempotencyKey, waiting: Waiting },
    /// A living process has it: wait for it.
    Elsewhere { key: IdempotencyKey },
    /// It has an outcome, is parked, or a person has to look.
    Known { intent: Intent, state: State },
    /// The origin is known with other contents.
    Drift {
        existing: Intent,
        state: State,
        changes: Vec<Change>,
    },
    /// It looks like an order that is known under another origin, or under another api's name.
    LikelyRepeat { existing: Intent, state: State },
}

impl Claimed {
    /// The order it is about.
    pub(super) fn key(&self) -> Option<IdempotencyKey> {
        Some(match self {
            Claimed::New(claim) | Claimed::Ours(claim) => claim.intent.key(),
            Claimed::InFlightHere { key, .. } | Claimed::Elsewhere { key } => *key,
            Claimed::Known { intent, .. } => intent.key(),
            // Another order: nothing of the one that was asked about is written.
            Claimed::Drift { .. } | Claimed::LikelyRepeat { .. } => return None,
        })
    }
}

impl Claimed {
    /// The answer, once it is known whether what it rests on is durable.
    pub(super) fn once(mut self, committed: Committed) -> Result<Claimed, super::JournalError> {
        match committed.durable {
            Ok(()) => {
                // Its turn's last record was this order's.
                if let Claimed::New(claim) | Claimed::Ours(claim) = &mut self {
                    claim.known_to = Some(committed.mark);
                }
                Ok(self)
            }
            Err(source) => Err(super::JournalError {
                source,
                key: self.key(),
                effect: self.effect(),
            }),
        }
    }

    /// Whether the order it is about may have been processed.
    pub(super) fn effect(&self) -> Effect {
        match self {
            Claimed::New(claim) => claim.state.effect_in_flight(),
            Claimed::Ours(claim) => claim.state.effect(),
            Claimed::Known { state, .. } => state.effect(),
            Claimed::InFlightHere { .. } | Claimed::Elsewhere { .. } => Effect::Possible,
            Claimed::Drift { .. } | Claimed::LikelyRepeat { .. } => Effect::None,
        }
    }
}

/// What a claim's turn came to.
pub(super) enum Claiming {
    Done(Box<Claimed>),
    /// It would correct, follow or repeat these orders, whose ends may not be durable yet: nothing was written. To be asked again once they are.
    Rumour(Vec<IdempotencyKey>),
}

impl Claiming {
    fn done(claimed: Claimed) -> Self {
        Claiming::Done(Box::new(claimed))
    }
}

/// What the client, not the order, decides of a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimTerms {
    /// How long the same contents without an origin count as a likely repeat.
    pub(crate) repeat_window: Duration,
    /// How long a person has, where one is asked.
    pub(crate) approval_within: Duration,
}

impl Claim {
    pub(crate) fn intent(&self) -> &Intent {
        &self.intent
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn set_state(&mut self, state: State, known_to: Option<Mark>) {
        (self.state, self.known_to) = (state, known_to);
    }

    /// What is known of the order, and up to where.
    pub(super) fn known(&self) -> (State, Option<Mark>) {
        (self.state.clone(), self.known_to)
    }

    /// For those who wait for this flight.
    pub(crate) fn waiting(&self) -> Waiting {
        self.waiting.clone()
    }

    /// The flight's end: the order as it stands now, or a journal that could not write it down.
    pub(crate) fn land(mut self, failed: Option<super::JournalError>) {
        match failed {
            Some(error) => self.leave(Some(error)),
            None => {
                let landing = Landing::Written(self.intent.clone(), Box::new(self.state.clone()));
                if let Some(seat) = self.seat.take() {
                    seat.land(landing);
                }
            }
        }
    }

    /// The flight ends without its end being written down. Has it written that the order rests, if the journal still can, so that no process
    /// waits for this one to die (R13). The seat is kept until then: whoever boards next must not find a rest written under its feet.
    fn leave(&mut self, failed: Option<super::JournalError>) {
        let Some(seat) = self.seat.take() else { return };
        let leaving = Leaving(Some((seat, failed)));
        let Some(store) = self.store.upgrade() else { return };
        let (key, at, owner) = (self.intent.key(), self.now, store.owner());
        let decide: Decide = Box::new(move |turn| {
            Box::pin(async move {
                let state = fold(&turn.story(key).await?)?.1;
                if state.flown_by() == Some(owner) {
                    let event = state.resting(Rest::Interrupted {});
                    let after = state.after(&event, at);
                    turn.append(record_of(key, &event, at, &after)?);
                }
                drop(leaving);
                Ok(())
            })
        });
        // Handed over by the call itself; there is nobody to wait for it.
        drop(store.turn(decide));
    }
}

/// Leaves the seat however it is dropped, also where the store never runs the decision that holds it.
struct Leaving(Option<(Seat, Option<super::JournalError>)>);

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some((seat, Some(error))) = self.0.take() {
            seat.land(Landing::Unwritten(error));
        }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim({})", self.intent.key())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.leave(None);
    }
}

/// Decides on what is found under a turn. Made per call, so that it knows who asks and when.
pub(super) struct Clerk {
    pub(super) flights: Arc<Flights>,
    pub(super) store: Weak<dyn Store>,
    pub(super) owner: OwnerId,
    pub(super) now: Timestamp,
    pub(super) boot: Option<Boot>,
    pub(super) tallies: Arc<Tallies>,
}

impl Clerk {
    /// `sure_of`: these orders' ends are known to be durable.
    pub(super) async fn claim(
        &self,
        turn: &mut dyn Turn,
        draft: Draft,
        judgement: Judgement,
        terms: ClaimTerms,
        sure_of: &[IdempotencyKey],
    ) -> Result<Claiming, StoreError> {
        let columns = draft.columns();
        let mut lineage = Lineage::FIRST;
        let Judgement { mut ruling, daily } = judgement;
        if let (Some(origin), Some(source)) = (columns.origin, columns.source) {
            if let Some(key) = turn.by_origin(origin, source).await? {
                let (intent, state) = self.read(turn, key).await?;
                match self.met(&intent, &state, &draft) {
                    Met::Same => return self.join(turn, intent, state, &draft).await.map(Claiming::done),
                    Met::Drift => return Ok(Claiming::done(drift(intent, state, &draft))),
                    Met::Freed | Met::Corrects if !sure_of.contains(&key) => return Ok(Claiming::Rumour(vec![key])),
                    Met::Freed | Met::Corrects if let Some(known) = self.stands_before(turn, &intent).await? => {
                        return Ok(Claiming::done(known));
                    }
                    Met::Freed => lineage = next_generation(&intent),
                    Met::Corrects => {
                        lineage = next_generation(&intent);
                        if self.a_person_refused(turn, &intent, &state).await? {
                            ruling = after_a_persons_no(ruling);
                        }
                        self.write_down_silence(turn, key, state)?;
                    }
                }
            } else if let Some(known) = self.under_another_api(turn, &columns, &draft).await? {
                return Ok(Claiming::done(known));
            }
        } else {
            match self.likely_repeat(turn, &columns, &draft, terms.repeat_window).await? {
                Repeats::Known(known) => return Ok(Claiming::done(*known)),
                // A no that power could still take would leave both open (R7).
                Repeats::Ended(noes) if noes.iter().any(|no| !sure_of.contains(no)) => return Ok(Claiming::Rumour(noes)),
                Repeats::Ended(_) => {}
            }
        }
        // Only what is new is weighed: a further call costs the day nothing.
        let ruling = self.weigh_the_day(turn, &draft, ruling, &daily).await;
        self.mint(turn, draft, ruling, lineage, terms).await.map(Claiming::done)
    }

    /// R17: an origin means its newest generation; only that one is consulted.
    fn met(&self, intent: &Intent, state: &State, draft: &Draft) -> Met {
        let same = intent.fingerprint() == draft.fingerprint();
        if state.is_freed() {
            Met::Freed
        } else if same {
            Met::Same
        } else if state.is_definite_no(self.now) {
            Met::Corrects
        } else {
            Met::Drift
        }
    }

    /// An origin means its newest order (R17), which is a no or was freed. One before it was freed in doubt, and has been heard of since: it stands, or
    /// may, so what would follow is no correction but a second order, and a person says whether it shall be one.
    async fn stands_before(&self, turn: &mut dyn Turn, newest: &Intent) -> Result<Option<Claimed>, StoreError> {
        let mut before = newest.supersedes();
        while let Some(key) = before {
            let (existing, state) = self.read(turn, key).await?;
            if state.effect() != Effect::None && !state.is_freed() {
                return Ok(Some(Claimed::LikelyRepeat { existing, state }));
            }
            before = existing.supersedes();
        }
        Ok(None)
    }

    /// R17: a person refused one of the orders that this one would correct, however many corrections lie between.
    async fn a_person_refused(&self, turn: &mut dyn Turn, newest: &Intent, state: &State) -> Result<bool, StoreError> {
        let (mut refused, mut before) = (state.refused_by_person(), newest.supersedes());
        while let (false, Some(key)) = (refused, before) {
            let (intent, state) = self.read(turn, key).await?;
            (refused, before) = (state.refused_by_person(), intent.supersedes());
        }
        Ok(refused)
    }

    /// R7: a no by silence that is about to be told or acted on is written down first, or a clock that is put back would open the order again.
    fn write_down_silence(&self, turn: &mut dyn Turn, key: IdempotencyKey, state: State) -> Result<State, StoreError> {
        match (state.stage(), state.at(self.now)) {
            (Stage::AwaitingApproval { .. } | Stage::Approved { .. }, Stage::Settled(settled)) => {
                self.append(turn, key, state, &[Event::Settled(settled)])
            }
            _ => Ok(state),
        }
    }

    /// A further call met a known order.
    async fn join(&self, turn: &mut dyn Turn, intent: Intent, state: State, draft: &Draft) -> Result<Claimed, StoreError> {
        let joined = Event::Joined {
            actor: draft.actor().clone(),
            trace: draft.trace(),
            tool_call: draft.tool_call().map(str::to_owned),
        };
        let state = self.append(turn, intent.key(), state, &[joined])?;
        self.take_up(turn, intent, state).await
    }

    pub(super) async fn retake(&self, turn: &mut dyn Turn, key: IdempotencyKey) -> Result<Claimed, StoreError> {
        let (intent, state) = self.read(turn, key).await?;
        self.take_up(turn, intent, state).await
    }

    /// Who may go on with a known order. A lease is courtesy, the key is what keeps it one order.
    async fn take_up(&self, turn: &mut dyn Turn, intent: Intent, state: State) -> Result<Claimed, StoreError> {
        let key = intent.key();
        let state = self.write_down_silence(turn, key, state)?;
        // What passes by time alone is the flight's to find: it may ask the server first, and writes down what it is told (R8).
        if !state.is_open() && !matches!(state.stage(), Stage::Approved { .. }) {
            return Ok(Claimed::Known { intent, state });
        }
        let seat = match self.flights.take(key) {
            Ok(seat) => seat,
            Err(waiting) => return Ok(Claimed::InFlightHere { key, waiting }),
        };
        if let Some(owner) = state.flown_by().filter(|owner| *owner != self.owner)
            && turn.alive(owner).await?
        {
            return Ok(Claimed::Elsewhere { key });
        }
        let state = self.append(turn, key, state, &[Event::TakenOver { owner: self.owner }])?;
        Ok(Claimed::Ours(self.hold(intent, state, seat)))
    }

    /// The one place where an order gets its key.
    async fn mint(
        &self,
        turn: &mut dyn Turn,
        draft: Draft,
        ruling: Ruling,
        lineage: Lineage,
        terms: ClaimTerms,
    ) -> Result<Claimed, StoreError> {
        let key = IdempotencyKey::mint().map_err(|e| StoreError::new(StoreErrorKind::Refused, e.to_string()))?;
        let claimed = lifecycle::Claimed {
            lineage,
            sending_follows: matches!(ruling, Ruling::Allow(_)),
            parked_until: matches!(ruling, Ruling::Ask(_)).then(|| self.now.plus(terms.approval_within)),
            ruling,
            owner: self.owner,
            boot: self.boot.clone(),
            order: draft
                .complete(key)
                .map_err(|e| StoreError::new(StoreErrorKind::Refused, e.to_string()))?,
        };
        let intent = claimed.intent(key);
        let state = self.append(turn, key, State::new(), &[Event::Claimed(Box::new(claimed))])?;
        if !state.is_open() {
            return Ok(Claimed::Known { intent, state });
        }
        // A key that was minted a moment ago is in nobody's seat.
        match self.flights.take(key) {
            Ok(seat) => Ok(Claimed::New(self.hold(intent, state, seat))),
            Err(waiting) => Ok(Claimed::InFlightHere { key, waiting }),
        }
    }

    fn hold(&self, intent: Intent, state: State, seat: Seat) -> Claim {
        Claim {
            intent,
            state,
            known_to: None,
            waiting: seat.waiting(),
            seat: Some(seat),
            store: Weak::clone(&self.store),
            now: self.now,
        }
    }

    /// R20: the same order of the same origin stands under another api's name.
    async fn under_another_api(
        &self,
        turn: &mut dyn Turn,
        columns: &crate::intent::Columns,
        draft: &Draft,
    ) -> Result<Option<Claimed>, StoreError> {
        let Some(source) = columns.source else { return Ok(None) };
        for key in turn.by_source(source).await? {
            let (existing, state) = self.read(turn, key).await?;
            if existing.api() != draft.api() && !state.is_freed() {
                return Ok(Some(Claimed::LikelyRepeat { existing, state }));
            }
        }
        Ok(None)
    }

    /// R11: the repeat guard. An order in doubt counts whatever its age, also one that a person stopped in doubt, until they free it; a clock that
    /// stands before the record counts as inside the window; a definite no doesn't count. An order that was vouched for as distinct passes, once: the same words about the same
    /// contents are a further call.
    async fn likely_repeat(
        &self,
        turn: &mut dyn Turn,
        columns: &crate::intent::Columns,
        draft: &Draft,
        window: Duration,
    ) -> Result<Repeats, StoreError> {
        let mut noes = Vec::new();
        let near: HashSet<IdempotencyKey> = turn.by_repeat(columns.repeat, self.now.minus(window)).await?.into_iter().collect();
        // A wall clock that leapt within this boot makes the near look far. Claims stand in their true order, so the first that the machine's own
        // count calls far, or can't date, ends the search among those.
        let mut leapt = true;
        for key in turn.by_repeat(columns.repeat, Timestamp::from_millis(i64::MIN)).await? {
            let far = !near.contains(&key);
            if far && !leapt {
                continue;
            }
            let (existing, state) = self.read(turn, key).await?;
            if far && !self.within_by_boot(window, &state) {
                leapt = false;
                continue;
            }
            let state = self.write_down_silence(turn, key, state)?;
            let counts = match state.at(self.now) {
                Stage::Settled(lifecycle::Settled::Succeeded { .. }) => true,
                // What a person closed by their own word counts until they free it, as it would with an origin (R4, R19).
                Stage::Settled(lifecycle::Settled::Abandoned { .. }) => state.was_stopped_in_doubt(),
                Stage::Settled(lifecycle::Settled::Rejected { answer }) => answer.is_none(),
                Stage::Settled(lifecycle::Settled::Denied { .. }) => false,
                Stage::Open | Stage::AwaitingApproval { .. } | Stage::Approved { .. } | Stage::NeedsReview(_) => true,
            };
            let asked_about = draft.origin().is_unknown() || existing.origin() == draft.origin();
            match (counts && !state.is_freed(), asked_about) {
                (true, true) => return Ok(Repeats::Known(Box::new(Claimed::LikelyRepeat { existing, state }))),
                (false, true) => noes.push(key),
                (_, false) => {}
            }
        }
        Ok(Repeats::Ended(noes))
    }

    /// Whether it was claimed within that time of this boot, whatever the wall clock says.
    fn within_by_boot(&self, window: Duration, state: &State) -> bool {
        match (&self.boot, state.boot()) {
            (Some(now), Some(then)) => now.id == then.id && Duration::from_millis(now.up_ms.saturating_sub(then.up_ms)) <= window,
            _ => false,
        }
    }

    /// Appends events, and says where the order stands after them.
    pub(super) fn append(&self, turn: &mut dyn Turn, key: IdempotencyKey, mut state: State, events: &[Event]) -> Result<State, StoreError> {
        for event in events {
            state = state.after(event, self.now);
            turn.append(record_of(key, event, self.now, &state)?);
        }
        Ok(state)
    }

    pub(super) async fn find(&self, turn: &mut dyn Turn, key: IdempotencyKey) -> Result<Option<(Intent, State)>, StoreError> {
        let story = turn.story(key).await?;
        if story.is_empty() {
            return Ok(None);
        }
        let (intent, state) = fold(&story)?;
        Ok(Some((intent, self.write_down_silence(turn, key, state)?)))
    }

    /// The order as it stands, by a story that was read before where nobody has written of it since.
    pub(super) async fn state(&self, turn: &mut dyn Turn, key: IdempotencyKey, known: (State, Option<Mark>)) -> Result<State, StoreError> {
        match known {
            (state, Some(upto)) if turn.known_to(key) == Some(upto) => Ok(state),
            _ => Ok(self.read(turn, key).await?.1),
        }
    }

    pub(super) async fn read(&self, turn: &mut dyn Turn, key: IdempotencyKey) -> Result<(Intent, State), StoreError> {
        fold(&turn.story(key).await?)
    }
}

/// What the repeat guard found.
enum Repeats {
    /// An order that this one looks like.
    Known(Box<Claimed>),
    /// None that counts, since these ended without success.
    Ended(Vec<IdempotencyKey>),
}

/// How a draft stands to the newest order of its origin.
enum Met {
    Same,
    Drift,
    /// A correction after a definite no.
    Corrects,
    /// A person freed the origin.
    Freed,
}

fn drift(existing: Intent, state: State, draft: &Draft) -> Claimed {
    // The key that a dialect wants in the body is no content.
    let keyed = draft.clone().complete(existing.key()).ok();
    let contents = |order: &Draft| order.json().unwrap_or_default();
    let mut differing = changes(&contents(&existing), &contents(keyed.as_ref().unwrap_or(draft)));
    // Two cancels differ by their path alone.
    let route = |order: &Draft| serde_json::json!({ "route": order.route() });
    differing.extend(changes(&route(&existing), &route(draft)));
    Claimed::Drift {
        existing,
        state,
        changes: differing,
    }
}

fn next_generation(of: &Intent) -> Lineage {
    Lineage {
        generation: of.generation().saturating_add(1),
        supersedes: Some(of.key()),
    }
}

/// R17: a correction after a person's no is asked about, whatever policy allows.
fn after_a_persons_no(ruling: Ruling) -> Ruling {
    match ruling {
        Ruling::Allow(because) => Ruling::Ask(Because::rule(
            because.policy_version,
            "after_a_persons_no",
            "a person refused an earlier order of this origin, so its correction is asked about",
        )),
        ruling => ruling,
    }
}

/// A story's intent and state. A story that does not begin with a claim is one whose claim was torn: it can't be sent.
pub(super) fn fold(story: &[super::Record]) -> Result<(Intent, State), StoreError> {
    let mut state = State::new();
    let mut intent = None;
    for record in story {
        let event = event_of(record)?;
        if let (Event::Claimed(claimed), None) = (&event, &intent) {
            intent = Some(claimed.intent(record.key));
        }
        state = state.after(&event, record.at);
    }
    match intent {
        Some(intent) => Ok((intent, state)),
        None => Err(StoreError::new(
            StoreErrorKind::Corrupt,
            match story.first() {
                Some(record) => format!(
                    "the claim of {} can't be read: nothing is sent under it; a person must look",
                    record.key
                ),
                None => "an order of the index has no records: nothing is sent; open the journal anew".to_owned(),
            },
        )),
    }
}
