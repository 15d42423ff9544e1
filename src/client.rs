//! `OrderClient`: what an agent holds. It submits, resumes and asks; it can neither approve nor free anything.

use crate::{
    actor::Actor,
    api::Api,
    engine::{Engine, KeyKnown, Watched},
    future::BoxFuture,
    ids::{IdempotencyKey, TraceId},
    intent::Sketch,
    invalid::Invalid,
    journal::{Act, Acted, ClaimTerms, Journal},
    lifecycle::{TurnedAway, Verb},
    operation::Operation,
    origin::Origin,
    outcome::{Error, Outcome, Raw, Ticket, tell},
    policy::{DefaultPolicy, Policy},
    recovery::{self, Examination, Resuming, Resumption},
};
use std::{
    marker::PhantomData,
    num::NonZeroUsize,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// An agent's way to submit orders. Cheap to clone; clones share the journal and what is in flight.
#[derive(Clone, Debug)]
pub struct OrderClient {
    engine: Arc<Engine>,
    actor: Actor,
}

/// How a client is made. Start from [`OrderClient::builder`].
#[derive(Debug)]
#[must_use]
pub struct OrderClientBuilder {
    journal: Journal,
    api: Api,
    actor: Actor,
    policy: Arc<dyn Policy>,
    terms: ClaimTerms,
    resume_at_once: NonZeroUsize,
}

/// Daily limits count what stands in the log: the claims of a day, and of one more, in case the clock is put back.
const DAYS_IN_THE_LOG: Duration = Duration::from_secs(2 * 24 * 60 * 60);

impl OrderClientBuilder {
    /// Whether an order may be sent. Default: [`DefaultPolicy`].
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// How long the same contents without an origin count as a likely repeat of a settled order. Default: 24 hours. An order whose outcome is
    /// open counts whatever its age.
    pub fn repeat_window(mut self, window: Duration) -> Self {
        self.terms.repeat_window = window;
        self
    }

    /// How long a person has to answer, where one is asked; silence is no. Default: 24 hours.
    pub fn approval_within(mut self, within: Duration) -> Self {
        self.terms.approval_within = within;
        self
    }

    /// How many orders are resumed at the same time. Default: 4.
    pub fn resume_at_once(mut self, orders: NonZeroUsize) -> Self {
        self.resume_at_once = orders;
        self
    }

    /// The client. No I/O.
    pub fn build(self) -> OrderClient {
        self.journal.keep_at_least(self.terms.repeat_window);
        if self.policy.has_daily_limits() {
            self.journal.keep_at_least(DAYS_IN_THE_LOG);
        }
        OrderClient {
            engine: Arc::new(Engine {
                journal: self.journal,
                api: self.api,
                policy: Some(self.policy),
                terms: self.terms,
                resume_at_once: self.resume_at_once.get(),
                clock_in_doubt: AtomicBool::new(false),
                watched: Watched::default(),
            }),
            actor: self.actor,
        }
    }
}

impl OrderClient {
    /// A client for one api, writing into one journal, acting as one agent; with defaults for the rest. A blank agent is refused at submit.
    pub fn new(journal: Journal, api: Api, actor: Actor) -> OrderClient {
        OrderClient::builder(journal, api, actor).build()
    }

    /// A client with other settings than the usual ones.
    pub fn builder(journal: Journal, api: Api, actor: Actor) -> OrderClientBuilder {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        OrderClientBuilder {
            journal,
            api,
            actor,
            policy: Arc::new(DefaultPolicy),
            terms: ClaimTerms {
                repeat_window: DAY,
                approval_within: DAY,
            },
            resume_at_once: NonZeroUsize::MIN.saturating_add(3),
        }
    }

    /// The same client for another session, user or model.
    #[must_use]
    pub fn acting_as(&self, actor: Actor) -> OrderClient {
        OrderClient {
            engine: Arc::clone(&self.engine),
            actor,
        }
    }

    /// Submits one order. The order is checked and serialised by this call, and only borrowed; nothing is written or sent until it is awaited.
    ///
    /// Once awaited, it is claimed: the journal knows its origin, or gives it a key and makes both durable before the first byte leaves. Calls
    /// with the same origin and contents, at once, from another agent or next week, meet in the same order and get the same outcome. The work
    /// runs in its own task: dropping the future does not stop it.
    ///
    /// # Errors
    /// [`Error`] says by [`effect`](Error::effect) whether the order may have been processed, and by [`next_step`](Error::next_step) what to
    /// do. A server's, a policy's or a person's no is an [`Outcome`].
    pub fn submit<O: Operation>(&self, origin: Origin, order: &O) -> Submit<O::Receipt> {
        let draft = TraceId::mint()
            .map_err(|_| Invalid::new("trace id", "the operating system gave no randomness to mint one"))
            .and_then(|trace| Sketch::of(order, origin, self.actor.clone(), trace, self.engine.api.terms()));
        Submit {
            engine: Arc::clone(&self.engine),
            draft,
            within: None,
            read: Outcome::read::<O>,
            receipt: PhantomData,
        }
    }

    /// Takes up every order of this api that a crash, a lost reply or a limit left open: the same keys, the same bytes, none of the caller's
    /// types. Orders that wait for a person, or that another living process is sending, are not sent; see [`Resumption::left_alone`].
    ///
    /// # Errors
    /// The journal can't be read. What goes wrong with one order stands in its own result and holds up no other.
    pub async fn resume_pending(&self) -> Result<Resumption, Error> {
        recovery::resume_pending(Arc::clone(&self.engine)).await
    }

    /// [`resume_pending`](OrderClient::resume_pending), one by one as they come to an end.
    ///
    /// # Errors
    /// The journal can't be read.
    pub async fn resume_each(&self) -> Result<Resuming, Error> {
        recovery::resume_each(Arc::clone(&self.engine)).await
    }

    /// Takes up one order by its key.
    ///
    /// # Errors
    /// As [`submit`](OrderClient::submit); `InvalidInput` where the journal does not know the key, `InvalidConfig` where it belongs to another
    /// api.
    pub async fn resume(&self, key: IdempotencyKey) -> Result<Outcome<Raw>, Error> {
        recovery::resume_one(Arc::clone(&self.engine), key).await
    }

    /// What the journal knows of an order, without sending. `None`: it knows no such key.
    ///
    /// # Errors
    /// An order that is still open is told as [`submit`](OrderClient::submit) would: in doubt, not sent, still processing.
    pub async fn known(&self, key: IdempotencyKey) -> Result<Option<Outcome<Raw>>, Error> {
        recovery::known(&self.engine.journal, key).await
    }

    /// Waits for a person to decide, and for what follows: after a yes the order is sent, by this call or by whoever was quicker. Ends when
    /// the ticket expires, at the latest. Dropping it changes nothing.
    ///
    /// # Errors
    /// As [`resume`](OrderClient::resume).
    pub async fn decided(&self, ticket: &Ticket) -> Result<Outcome<Raw>, Error> {
        recovery::decided(Arc::clone(&self.engine), ticket.key).await
    }

    /// Asks the server for an order, by the dialect's [`lookup`](crate::Dialect::lookup), and books it if the server shows it: also one that
    /// a person was to look at. Sends nothing that could order. An order that is not found, differs or can't be read stays in doubt; one of
    /// which nothing was sent, or that has its outcome, is told without asking.
    ///
    /// # Errors
    /// As [`known`](OrderClient::known); `InvalidConfig` where the dialect has no lookup.
    pub async fn look_up(&self, key: IdempotencyKey) -> Result<Outcome<Raw>, Error> {
        recovery::look_up(&self.engine, key).await
    }

    /// Whether [`resume`](OrderClient::resume) can go on with an order that does not come to an end, such as one that its server has called
    /// "still running" for long: from the journal, and where that is not enough, by a lookup. Nothing is deleted or sent that could order.
    ///
    /// # Errors
    /// The journal can't be read or written; no such key; another api's order.
    pub async fn examine(&self, key: IdempotencyKey) -> Result<Examination, Error> {
        recovery::examine(&self.engine, key).await
    }

    /// Takes back an order of which nothing was sent: it becomes `Denied`, and resume leaves it alone. One that may have been sent, or is in
    /// the air, stays as it is, and its present outcome or error is told.
    ///
    /// # Errors
    /// The journal can't be written; no such key; no reason given; or the order is open and can't be taken back.
    pub async fn withdraw(&self, key: IdempotencyKey, why: impl Into<String>) -> Result<Outcome<Raw>, Error> {
        let journal = &self.engine.journal;
        let why = why.into();
        match journal.act(key, self.actor.agent.clone(), Act::Withdraw { why }).await? {
            None => Err(Error::no_such_key(key)),
            Some(Acted {
                intent,
                state,
                turned_away: Some(why @ (TurnedAway::Nameless {} | TurnedAway::NoReason {})),
            }) => Err(Error::not_let(&intent, &state, Verb::Withdraw, why)),
            Some(Acted { intent, state, .. }) => tell(&intent, &state, journal.now()),
        }
    }

    /// Waits, at most so long, for everything in the air in this process; returns how many are still. Call it before the runtime ends.
    pub async fn drain(&self, at_most: Duration) -> usize {
        let flights = self.engine.journal.flights();
        let mut left = flights.len();
        let all = async {
            for flight in flights {
                flight.landing().await;
                left = left.saturating_sub(1);
            }
        };
        drop(tokio::time::timeout(at_most, all).await);
        left
    }
}

/// An order that was checked and waits to be awaited.
#[must_use = "nothing is written or sent until it is awaited"]
#[derive(Debug)]
pub struct Submit<R> {
    engine: Arc<Engine>,
    draft: Result<Sketch, Invalid>,
    within: Option<Duration>,
    read: fn(Outcome<Raw>) -> Result<Outcome<R>, Error>,
    receipt: PhantomData<fn() -> R>,
}

impl<R> Submit<R> {
    /// The trace this call belongs to. Default: a fresh one.
    pub fn trace(mut self, trace: TraceId) -> Self {
        self.draft = self.draft.map(|draft| draft.with_trace(trace));
        self
    }

    /// The tool call this came from: for the record. It is no origin; a model mints a new one each turn.
    pub fn tool_call(mut self, id: impl Into<String>) -> Self {
        self.draft = self.draft.map(|draft| draft.with_tool_call(id.into()));
        self
    }

    /// Answer within this time. If the outcome is not known by then, the error is `StillProcessing`, and the work goes on; resume learns what
    /// came of it.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }
}

impl<R: 'static> IntoFuture for Submit<R> {
    type Output = Result<Outcome<R>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let sketch = self.draft?;
            let known = KeyKnown::default();
            let work = tokio::spawn(Arc::clone(&self.engine).submit(sketch, Arc::clone(&known)));
            let ended = match self.within {
                None => work.await,
                Some(limit) => match tokio::time::timeout(limit, work).await {
                    Ok(ended) => ended,
                    Err(_) => return Err(Error::still_flying(known.get().copied())),
                },
            };
            // The task was lost with its runtime: the order, if it was claimed, lives in the journal.
            let told = ended.unwrap_or_else(|_| Err(Error::still_flying(known.get().copied())));
            (self.read)(told?)
        })
    }
}
