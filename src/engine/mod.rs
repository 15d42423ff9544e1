//! The story, read top to bottom: judge, claim, permit, send, weigh, wait, settle. One loop.
//!
//! Invariants: judging comes before the claim (R3); nothing leaves without a permit, and a permit owns a claim; the key is never touched here;
//! each attempt is written down before it leaves and after it is known; what a caller is told is read from the order's folded story, never
//! from this call alone (R15).

mod approval;
mod refer;
mod watch;

pub(crate) use watch::Watched;

use crate::{
    answer::{Answer, Observed},
    api::Api,
    attempt::{
        Outgoing, Unsendable, budget,
        credential::Credential,
        http::Ready,
        lookup::{Looked, looked},
        pace::Patience,
        verdict::{Case, Verdict, ask_first, confirm, held_back, verdict},
    },
    clock::monotonic,
    ids::{IdempotencyKey, RequestId},
    intent::{Draft, Intent, Sketch},
    journal::{Claim, ClaimTerms, Claimed, Journal, JournalError, Landing, Mine},
    lifecycle::{Event, Rest, ReviewReason, Settled, Stage, State, retention_margin},
    outcome::{Error, Outcome, Raw, tell},
    policy::{Judged, Permit, Policy, Proposal, permit},
    ruling::{Because, Judgement, Ruling},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use tracing::Instrument;

/// How long a waiter looks away from another process's flight.
const WATCH_FOR: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) journal: Journal,
    pub(crate) api: Api,
    /// `None`: an operator's, who claims nothing and leaves it to clients to send what was approved.
    pub(crate) policy: Option<Arc<dyn Policy>>,
    pub(crate) terms: ClaimTerms,
    pub(crate) resume_at_once: usize,
    /// The last answer's `Date` was too far from our wall clock.
    pub(crate) clock_in_doubt: AtomicBool,
    /// Parked orders that this client has met.
    pub(crate) watched: Watched,
}

/// What is told of an order.
pub(crate) type Told = Result<Outcome<Raw>, Error>;

/// The key of the order a call is about, as soon as it has one: for a caller who stops waiting.
pub(crate) type KeyKnown = Arc<OnceLock<IdempotencyKey>>;

impl Engine {
    /// What policy says of a draft. One that fails to (a panic) allows nothing: a person decides.
    fn judge(&self, draft: &Draft) -> Ruling {
        self.judge_again(draft).unwrap_or_else(policy_failed)
    }

    /// `None`: there is no policy here to ask.
    fn judge_again(&self, draft: &Draft) -> Option<Ruling> {
        let (policy, proposal) = (self.policy.as_ref()?, Proposal::of(draft));
        let judged = catch_unwind(AssertUnwindSafe(|| policy.judge(&proposal)));
        Some(judged.unwrap_or_else(|_| policy_failed()))
    }

    /// The same with its day, for an order that would be new. A day that can't be asked about makes no ruling milder.
    fn judge_with_its_day(&self, draft: &Draft) -> Judgement {
        let (ruling, proposal) = (self.judge(draft), Proposal::of(draft));
        let daily = || self.policy.as_ref().map(|policy| policy.daily(&proposal)).unwrap_or_default();
        match (catch_unwind(AssertUnwindSafe(daily)), ruling) {
            (Ok(daily), ruling) => Judgement { ruling, daily },
            (Err(_), Ruling::Deny(because)) => Judgement::from(Ruling::Deny(because)),
            (Err(_), Ruling::Allow(_) | Ruling::Ask(_)) => Judgement::from(policy_failed()),
        }
    }

    /// One order, from draft to outcome. Runs in a task of its own: a caller who goes away strands nothing.
    pub(crate) async fn submit(self: Arc<Self>, sketch: Sketch, known: KeyKnown) -> Told {
        let until = monotonic() + self.patience();
        let draft = match sketch {
            Sketch::Ready(draft) => *draft,
            Sketch::Refers(referring) => self.refer(*referring).await?,
        };
        let judgement = self.judge_with_its_day(&draft);
        loop {
            // Once it has met an order, a call hears of that order: asked by its origin again, it could make a new one of what happened since.
            let claimed = match known.get() {
                None => self.journal.claim(draft.clone(), judgement.clone(), self.terms).await?,
                Some(key) => self.journal.retake(*key).await?,
            };
            if let Some(told) = self.go_on(claimed, until, &known).await? {
                return told;
            }
        }
    }

    /// One order from the journal, to its outcome: what resume does with each (R18).
    pub(crate) async fn resume(self: Arc<Self>, key: IdempotencyKey) -> Told {
        let until = monotonic() + self.patience();
        loop {
            let claimed = self.journal.retake(key).await?;
            if let Some(told) = self.go_on(claimed, until, &KeyKnown::default()).await? {
                return told;
            }
        }
    }

    /// Goes on from a claim; `None`: what was waited for ended without a word, look at the journal again.
    async fn go_on(self: &Arc<Self>, claimed: Claimed, until: Instant, known: &KeyKnown) -> Result<Option<Told>, Error> {
        let now = self.journal.now();
        let key = match claimed {
            Claimed::New(claim) | Claimed::Ours(claim) => {
                let key = claim.intent().key();
                known.get_or_init(|| key);
                return self.board(claim, key).await.map(Some);
            }
            Claimed::InFlightHere { key, waiting } => {
                known.get_or_init(|| key);
                let landing = tokio::time::timeout_at(until, waiting.landing()).await;
                return match landing {
                    Ok(landing) => Ok(landing.map(|landing| self.landed(landing))),
                    Err(_) => Err(Error::still_flying(Some(key))),
                };
            }
            Claimed::Elsewhere { key } => key,
            Claimed::Known { intent, state } => {
                let state = self.parked(&intent, state).await?;
                return Ok(Some(tell(&intent, &state, now)));
            }
            Claimed::Drift { existing, state, changes } => return Err(Error::drift(&existing, &state, now, changes)),
            Claimed::LikelyRepeat { existing, state } => return Err(Error::likely_repeat(&existing, &state, now)),
        };
        // Another process has it: wait for a word of it, then ask again. A dead owner is found by asking.
        known.get_or_init(|| key);
        if monotonic() >= until {
            return Err(Error::still_flying(Some(key)));
        }
        self.journal.next_word(WATCH_FOR).await.map_err(|error| error.about(key))?;
        Ok(None)
    }

    /// Starts the flight in its own task and waits for it without owning it.
    async fn board(self: &Arc<Self>, claim: Claim, key: IdempotencyKey) -> Result<Told, Error> {
        let waiting = claim.waiting();
        let span = order_span(claim.intent());
        tokio::spawn(Arc::clone(self).fly(claim).instrument(span));
        match waiting.landing().await {
            Some(landing) => Ok(self.landed(landing)),
            // It was lost (a panic in a credential provider, say). Not boarded again: what panics once may panic after each send.
            None => match self.journal.order(key).await? {
                Some((intent, state)) => Ok(tell(&intent, &state, self.journal.now())),
                None => Err(Error::still_flying(Some(key))),
            },
        }
    }

    fn landed(&self, landing: Landing) -> Told {
        match landing {
            Landing::Written(intent, state) => tell(&intent, &state, self.journal.now()),
            Landing::Unwritten(error) => Err(Error::journal(&error)),
        }
    }

    /// A flight: the claim lands, however it ends.
    async fn fly(self: Arc<Self>, mut claim: Claim) {
        if let Err(error) = self.redeem(&mut claim).await {
            claim.land(Some(error));
            return;
        }
        let (claim, failed) = match permit(claim) {
            Judged::Permit(mut permit) => {
                let failed = self.settle(&mut permit).await.err();
                (permit.into_claim(), failed)
            }
            Judged::Held(claim) => (claim, None),
        };
        // Its yes was void: there will be another, or a no.
        if let Stage::AwaitingApproval { until } = claim.state().stage() {
            self.watch(claim.intent().key(), *until);
        }
        if let Some(error) = &failed {
            tracing::error!(%error, "the journal could not write down what was done; nothing more is sent");
        }
        claim.land(failed);
    }

    /// The loop. Ends when the order has an outcome, a person has to look, or no further attempt is due; always with that written down.
    async fn settle(&self, permit: &mut Permit) -> Result<(), JournalError> {
        let mut to_send = Patience::new(self.api.pacing(), self.api.budget());
        let mut to_ask = Patience::new(self.api.pacing(), self.api.budget());
        let until = monotonic() + self.api.timeouts().total;
        let mut refresh = Refresh::Left;
        let (mut step, mut sent) = (Step::Send(Leave::Ask), false);
        loop {
            if let Step::Send(leave) = step
                && let Some(held) = self.hold_back(permit, leave).await?
            {
                let Verdict::Lookup { why, named } = held else { return Ok(()) };
                step = Step::LookUp { why, named };
            }
            let (done, patience) = match &step {
                Step::Send(leave) => (self.attempt(permit, *leave, until).await?, &mut to_send),
                Step::LookUp { why, named } => (self.look_up(permit, *why, named.as_deref(), until).await?, &mut to_ask),
            };
            let Some(Done { verdict, used, cost }) = done else {
                to_send.not_made();
                return Ok(());
            };
            if let Step::Send(_) = step {
                (step, sent) = (Step::Send(Leave::Ask), true);
            }
            let left = || until.saturating_duration_since(monotonic());
            let next = match verdict {
                Verdict::Settle(Settled::Succeeded { .. }) => {
                    to_send.succeeded();
                    return Ok(());
                }
                Verdict::Settle(_) | Verdict::Review(_) | Verdict::Stop(_) => return Ok(()),
                Verdict::Lookup { why, named } => {
                    step = Step::LookUp { why, named };
                    Ok(Duration::ZERO)
                }
                Verdict::Resend => {
                    step = Step::Send(Leave::Given);
                    // The first attempt of a flight is no retry.
                    if sent { to_send.at_once(cost, left()) } else { Ok(Duration::ZERO) }
                }
                Verdict::RefreshCredential { status } => match self.refresh(&mut refresh, used, until).await {
                    true => patience.at_once(cost, left()),
                    false => return self.rest(permit, Rest::Unauthorized { status: Some(status) }).await,
                },
                Verdict::Again { not_before } => patience.next(not_before, cost, left()),
            };
            match next {
                Ok(wait) => tokio::time::sleep(wait).await,
                Err(spent) => return self.rest(permit, spent.rest(self.journal.now())).await,
            }
        }
    }

    /// One attempt: written down, sent, written down. `None`: it was not made, since the order no longer waits for one.
    async fn attempt(&self, permit: &mut Permit, leave: Leave, until: Instant) -> Result<Option<Done>, JournalError> {
        let Ok(credential) = self.credential(until).await else {
            self.rest(permit, Rest::Unauthorized { status: None }).await?;
            return Ok(None);
        };
        // The provider may have taken its time, and may have gone over to another account meanwhile.
        if credential.is_some()
            && let Some(held) = self.hold_back(permit, leave).await?
        {
            return Ok(Some(Done {
                verdict: held,
                used: None,
                cost: 0,
            }));
        }
        let number = permit.claim().state().attempts().saturating_add(1);
        let first_sent = self.api.dialect().first_sent();
        let ready = self.ready(|request| Outgoing::order(permit, request, number, credential.as_ref(), first_sent));
        let Some((request, ready)) = ready else {
            self.rest(permit, Rest::Interrupted {}).await?;
            return Ok(None);
        };
        if !self.write_sent(permit, leave, number, request).await? {
            return Ok(None);
        }
        let span = tracing::info_span!("attempt", attempt = number, request_id = %request);
        let began = monotonic();
        let still_young = self.still_young(permit, leave);
        let seen = self.api.wire().send_if(ready, still_young).instrument(span.clone()).await;
        let took_ms = millis_since(began);
        let sighting = self.api.dialect().sighting(&seen);
        span.in_scope(|| tracing::info!(seen = %sighting, took_ms, "attempt ended"));
        self.notice_clock(permit.claim().intent(), &seen);
        let cost = budget::cost(&seen);

        // Judged here, off the journal's thread; weighed once more against the story as it stands when it is written.
        let judged = verdict(self.case(permit), number, &seen);
        let dialect = self.api.dialect().clone();
        let verdict = self
            .journal
            .write(permit.claim_mut(), move |state, mine| {
                let verdict = confirm(judged, &dialect, number, state);
                let observed = Event::Observed {
                    attempt: number,
                    seen: sighting,
                    took_ms,
                };
                let answer = match seen {
                    Observed::Answered(answer) => Some(answer),
                    Observed::NeverLeft(_) | Observed::NoAnswer(_) | Observed::HalfAnswer(..) => None,
                };
                let mut events = vec![observed];
                events.extend(ending(&verdict, answer, state, mine));
                (events, verdict)
            })
            .await?;
        Ok(Some(Done {
            verdict,
            used: credential,
            cost,
        }))
    }

    /// Asks the server for the order, and writes down what that comes to. Orders nothing.
    async fn look_up(
        &self,
        permit: &mut Permit,
        why: ReviewReason,
        named: Option<&str>,
        until: Instant,
    ) -> Result<Option<Done>, JournalError> {
        let Ok(credential) = self.credential(until).await else {
            self.rest(permit, Rest::Unauthorized { status: None }).await?;
            return Ok(None);
        };
        let Some(asked) = self.ask(self.case(permit), why, named, credential.as_ref()).await else {
            // It can't be asked for: a person looks.
            return self.review(permit, why).await.map(|()| None);
        };
        let cost = asked.cost;
        let verdict = self
            .journal
            .write(permit.claim_mut(), move |state, mine| {
                let mut events = vec![asked.event()];
                // Whatever is settled meanwhile stands, unless the order is there: then the fold weighs the two (R4).
                let shown = matches!(asked.looked.verdict, Verdict::Settle(_));
                events.extend(ending(&asked.looked.verdict, asked.looked.answer, state, mine).filter(|_| shown || !state.is_settled()));
                (events, asked.looked.verdict)
            })
            .await?;
        Ok(Some(Done {
            verdict,
            used: credential,
            cost,
        }))
    }

    /// One lookup: the request, and what it found. `None`: there is no way to ask.
    pub(crate) async fn ask(
        &self,
        case: Case<'_>,
        why: ReviewReason,
        named: Option<&str>,
        credential: Option<&Credential>,
    ) -> Option<Asked> {
        let route = case.dialect.asks_for(case.intent, named)?;
        let (request, ready) = self.ready(|request| Outgoing::lookup(case.intent, &route, request, credential))?;
        let span = tracing::info_span!("lookup", request_id = %request);
        let began = monotonic();
        let seen = self.api.wire().send(ready).instrument(span.clone()).await;
        let took_ms = millis_since(began);
        self.notice_clock(case.intent, &seen);
        // Another account is shown none of the first one's orders (R9).
        let ours = case.intent.scope() == self.api.scope().as_deref();
        let looked = looked(case, why, ours && self.clocks_agree(case.before), &seen);
        span.in_scope(|| tracing::info!(found = ?looked.found, took_ms, "lookup ended"));
        Some(Asked {
            request,
            took_ms,
            cost: budget::cost(&seen),
            looked,
        })
    }

    /// A request that is complete, under a fresh request id.
    fn ready(&self, out: impl FnOnce(RequestId) -> Result<Outgoing, Unsendable>) -> Option<(RequestId, Ready)> {
        let ready = RequestId::mint().map_err(Unsendable::from).and_then(|request| {
            let out = out(request)?;
            Ok((request, self.api.wire().prepare(out.into_request())?))
        });
        ready
            .inspect_err(|error| tracing::error!(%error, "the request could not be made"))
            .ok()
    }

    fn case<'a>(&'a self, permit: &'a Permit) -> Case<'a> {
        let claim = permit.claim();
        self.case_of(claim.intent(), claim.state())
    }

    pub(crate) fn case_of<'a>(&'a self, intent: &'a Intent, before: &'a State) -> Case<'a> {
        Case {
            intent,
            dialect: self.api.dialect(),
            before,
            now: self.journal.now(),
        }
    }

    /// Why an order would be held back now.
    pub(crate) fn held_back(&self, intent: &Intent, state: &State) -> Option<ReviewReason> {
        let stage = match self.journal.stage_now(state) {
            // The server's clock and ours disagree: how old the key is, nobody knows (R8).
            Stage::Open if state.in_doubt() && self.clock_in_doubt.load(Ordering::Relaxed) => {
                Stage::NeedsReview(ReviewReason::RetentionPassed)
            }
            stage => stage,
        };
        held_back(self.case_of(intent, state), &stage, self.api.scope().as_deref())
    }

    /// Asked once more when the connection stands: an order's age passes by itself, whatever else is so.
    fn still_young(&self, permit: &Permit, leave: Leave) -> impl Fn() -> bool + Send + Sync + 'static {
        let (journal, state) = (self.journal.clone(), permit.claim().state().clone());
        move || leave == Leave::Given || !matches!(journal.stage_now(&state), Stage::NeedsReview(_))
    }

    /// Whether an order's age, by our clocks, is an age.
    fn clocks_agree(&self, state: &State) -> bool {
        !self.clock_in_doubt.load(Ordering::Relaxed) && self.journal.clocks_agree(state)
    }

    /// A server whose `Date` is further from our wall clock than the retention's margin puts both in doubt (R8).
    fn notice_clock(&self, intent: &Intent, seen: &Observed) {
        let head = match seen {
            Observed::Answered(answer) => answer.head(),
            Observed::HalfAnswer(head, _) => head,
            Observed::NeverLeft(_) | Observed::NoAnswer(_) => return,
        };
        if let Some(date) = head.date() {
            let now = self.journal.now();
            let apart = now.since(date).or_else(|| date.since(now)).unwrap_or_default();
            let doubtful = apart > retention_margin(intent.retention());
            let before = self.clock_in_doubt.swap(doubtful, Ordering::Relaxed);
            if doubtful && !before {
                tracing::warn!(%date, %now, "the server's clock and this machine's disagree: no order in doubt is sent again meanwhile");
            }
        }
    }

    /// The credential of this attempt. The provider has as long as the flight: a hung one must not hold an order for ever.
    pub(crate) async fn credential(&self, until: Instant) -> Result<Option<Credential>, ()> {
        let Some(keeper) = self.api.keeper() else { return Ok(None) };
        match tokio::time::timeout_at(until, keeper.current()).await {
            Ok(Ok(credential)) => return Ok(Some(credential)),
            Ok(Err(error)) => tracing::warn!(%error, "no credential to send with"),
            Err(_) => tracing::warn!("the credential provider did not answer in time"),
        }
        Err(())
    }

    /// Under the journal's turn: the order still waits for this attempt, and it is written down before it leaves.
    async fn write_sent(&self, permit: &mut Permit, leave: Leave, number: u32, request: RequestId) -> Result<bool, JournalError> {
        let journal = self.journal.clone();
        self.journal
            .write(permit.claim_mut(), move |state, mine| {
                let due = mine == Mine::Yes && state.is_open() && state.attempts().saturating_add(1) == number;
                // The turn may have been long in coming.
                match journal.stage_now(state) {
                    Stage::NeedsReview(reason) if due && leave == Leave::Ask => (vec![Event::Review { reason, answer: None }], false),
                    _ if due => (vec![Event::Sent { attempt: number, request }], true),
                    _ => (Vec::new(), false),
                }
            })
            .await
    }

    /// Looked at before every attempt: past the server's retention the same key executes again (R8), so it does under another account (R9), and
    /// where repeats are not recognised. `None`: it may leave. What is held back is asked for at the server, or is for a person: that is
    /// written down here.
    async fn hold_back(&self, permit: &mut Permit, leave: Leave) -> Result<Option<Verdict>, JournalError> {
        let (intent, state) = (permit.claim().intent(), permit.claim().state());
        let waived = |why: &ReviewReason| leave == Leave::Given && *why == ReviewReason::RetentionPassed;
        let Some(why) = self.held_back(intent, state).filter(|why| !waived(why)) else {
            return Ok(None);
        };
        let verdict = ask_first(self.case(permit), why, None);
        if let Verdict::Review(reason) = &verdict {
            self.review(permit, *reason).await?;
        }
        Ok(Some(verdict))
    }

    /// For a person, unless it came to its end meanwhile.
    async fn review(&self, permit: &mut Permit, reason: ReviewReason) -> Result<(), JournalError> {
        self.journal
            .write(permit.claim_mut(), move |state, _| {
                let review = Event::Review { reason, answer: None };
                (if state.is_open() { vec![review] } else { Vec::new() }, ())
            })
            .await
    }

    /// One refresh a flight, shared by all flights that were refused the same credential. Whether there is another one to try.
    async fn refresh(&self, refresh: &mut Refresh, used: Option<Credential>, until: Instant) -> bool {
        let (Refresh::Left, Some(keeper), Some(used)) = (&refresh, self.api.keeper(), used) else {
            return false;
        };
        *refresh = Refresh::Spent;
        match tokio::time::timeout_at(until, keeper.refresh(&used)).await {
            Ok(Ok(fresh)) => fresh != used,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the credential could not be refreshed");
                false
            }
            Err(_) => {
                tracing::warn!("the credential provider did not answer in time");
                false
            }
        }
    }

    /// The flight ends without an outcome: written down, so that nobody waits for it (R13).
    async fn rest(&self, permit: &mut Permit, why: Rest) -> Result<(), JournalError> {
        self.journal
            .write(permit.claim_mut(), move |state, mine| {
                // Whoever took the order over says himself when it rests.
                let ours = mine == Mine::Yes && state.is_open();
                (if ours { vec![state.resting(why)] } else { Vec::new() }, ())
            })
            .await
    }

    /// How long a call waits for a flight that is not its own: as long as a flight may take, and one attempt more.
    fn patience(&self) -> Duration {
        let limits = self.api.timeouts();
        limits.total.saturating_add(limits.attempt)
    }
}

fn policy_failed() -> Ruling {
    tracing::error!("the policy could not be asked: a person is");
    Ruling::Ask(Because::rule(
        "",
        "policy_failed",
        "the policy could not be asked, so a person decides",
    ))
}

/// The event that a verdict ends a flight with.
fn ending(verdict: &Verdict, answer: Option<Answer>, state: &State, mine: Mine) -> Option<Event> {
    match verdict {
        Verdict::Settle(settled) => Some(Event::Settled(settled.clone())),
        Verdict::Review(reason) => Some(Event::Review { reason: *reason, answer }),
        Verdict::Stop(why) => (mine == Mine::Yes).then(|| state.resting(why.clone())),
        Verdict::Again { .. } | Verdict::RefreshCredential { .. } | Verdict::Lookup { .. } | Verdict::Resend => None,
    }
}

/// What an attempt or a lookup came to, the credential it went out with, and what doing it again would cost of the budget.
struct Done {
    verdict: Verdict,
    used: Option<Credential>,
    cost: u32,
}

/// What a flight does next.
enum Step {
    Send(Leave),
    LookUp { why: ReviewReason, named: Option<String> },
}

/// Whether an order's age has to be looked at before an attempt leaves; or was, and a lookup proved that it does not matter to this one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Ask,
    Given,
}

/// A lookup that was made.
pub(crate) struct Asked {
    request: RequestId,
    took_ms: u64,
    cost: u32,
    pub(crate) looked: Looked,
}

impl Asked {
    /// Its record.
    pub(crate) fn event(&self) -> Event {
        Event::LookedUp {
            request: self.request,
            found: self.looked.found,
            took_ms: self.took_ms,
        }
    }
}

/// Whether this flight may still ask for another credential.
enum Refresh {
    Left,
    Spent,
}

fn millis_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn order_span(intent: &Intent) -> tracing::Span {
    tracing::info_span!(
        "order",
        key = %intent.key(),
        operation = intent.operation(),
        api = intent.api(),
        trace_id = %intent.trace(),
    )
}
