//! `Operator`: what a person holds. It shows every order, decides what waits for a person, and closes what nobody else can. It is opened on the
//! journal, apart from any client, and is never handed to an agent.

mod entry;
mod story;
mod sweep;

pub use entry::{Entry, Shelf};
pub use story::OrderStory;
pub use sweep::{Skip, Skipped, Sweep};

use crate::{
    api::Api,
    clock::Timestamp,
    engine::{Engine, Watched},
    ids::IdempotencyKey,
    intent::Intent,
    journal::{Act, Acted, ClaimTerms, Finding, Journal},
    lifecycle::{Effect, Stage, State},
    outcome::{Error, Outcome, Raw, tell},
    policy::Policy,
    recovery::{self, Examination},
    ruling::Preview,
};
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// A person, and all that a person may do with orders. Every act is written down under their name before it is told, and so is every act that was
/// not let ([`TurnedAway`](crate::TurnedAway)).
///
/// A yes is good for exactly what was shown: for this key, these contents, the version of the order they act on, and the policy that asked. It
/// is used once, by whoever sends first, and it has a time limit. Names are claims: that nobody approves what they asked for themselves
/// stops mistakes, not a liar who holds the journal's folder.
///
/// ```no_run
/// use uketsuke::{Journal, Operator, Shelf};
///
/// # async fn decide() -> Result<(), Box<dyn std::error::Error>> {
/// let operator = Operator::new(Journal::open("./journal").await?, "Ana");
/// for entry in operator.list(Shelf::AwaitingApproval).await? {
///     if let Some(preview) = operator.preview(entry.key).await? {
///         println!("{preview}"); // who, why, and field by field what would change
///         let approved = operator.approve(entry.key, &preview.digest, "as agreed on the phone").await?;
///         println!("{}", approved.next_step());
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Operator {
    journal: Journal,
    by: String,
    apis: Vec<Api>,
    policy: Option<Arc<dyn Policy>>,
}

/// An origin that was freed, and what may still happen to the order that stood for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Freed {
    /// The order that stood for it.
    pub key: IdempotencyKey,
    /// Whether that order may have been processed.
    pub effect: Effect,
    /// Its last attempt can't be called back: it may land until then, as far as this operator knows the limits of its api; `None`: nothing of it
    /// is under way, or nobody knows until when.
    pub may_land_until: Option<Timestamp>,
}

impl Operator {
    /// A person by name. A blank name can look at everything; whatever it decides is turned away.
    pub fn new(journal: Journal, by: impl Into<String>) -> Operator {
        Operator {
            journal,
            by: by.into(),
            apis: Vec::new(),
            policy: None,
        }
    }

    /// A way to the server of an api: for reading what would change, looking orders up, examining and resuming them. May be given for several apis.
    #[must_use]
    pub fn with_api(mut self, api: Api) -> Operator {
        self.apis.push(api);
        self
    }

    /// The policy of the clients, by which what was approved is weighed once more before it is sent. Without it an operator leaves the sending
    /// of approved orders to the clients.
    #[must_use]
    pub fn with_policy(mut self, policy: impl Policy + 'static) -> Operator {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// Orders by where they stand, oldest first.
    ///
    /// # Errors
    /// The journal can't be read. An order that can't be read is left out of the list, and said so in the log.
    pub async fn list(&self, shelf: Shelf) -> Result<Vec<Entry>, Error> {
        entry::list(&self.journal, shelf).await
    }

    /// All there is to see of one order: what was ruled, who decided, each attempt with its request id, what was seen, and what can be done now.
    ///
    /// # Errors
    /// The journal can't be read; no such key.
    pub async fn show(&self, key: IdempotencyKey) -> Result<OrderStory, Error> {
        let (intent, state) = self.order(key).await?;
        story::story(&self.journal, &intent, &state).await
    }

    /// What a person has to see before they decide: for a change, with the order as it stands at the server, which is read where it has not been
    /// and the api is known here. `None`: it could not be read.
    ///
    /// # Errors
    /// The journal can't be read or written; no such key.
    pub async fn preview(&self, key: IdempotencyKey) -> Result<Option<Preview>, Error> {
        let (intent, mut state) = self.order(key).await?;
        if let Some(engine) = self.engine(&intent) {
            state = engine.put_before_a_person(&intent, state).await?;
        }
        Ok(crate::policy::preview(&intent, &state, self.journal.now()))
    }

    /// A yes to exactly what was shown: `shown` is the [`digest`](Preview::digest) of the preview that the person saw. It is recorded, not sent:
    /// the next resume of a client of its api sends it, as does every open client that has met the order, within about a second; it is good for
    /// as long as the person was given to answer.
    ///
    /// # Errors
    /// `TurnedAway`: a blank name; their own order; another preview; nothing shown yet; too late; not the first. Nothing was sent. The journal
    /// can't be written.
    pub async fn approve(&self, key: IdempotencyKey, shown: &str, note: impl Into<String>) -> Result<Outcome<Raw>, Error> {
        let (shown, note) = (shown.to_owned(), note.into());
        self.act(key, Act::Approve { shown, note }).await
    }

    /// A no to what waits for a person, also after somebody's yes as long as nothing was sent. The order becomes `Denied`; a correction from the
    /// same origin is asked about, whatever policy allows.
    ///
    /// # Errors
    /// `TurnedAway`: a blank name or reason; it may have been sent, has its end, or nobody was asked. The journal can't be written.
    pub async fn refuse(&self, key: IdempotencyKey, why: impl Into<String>) -> Result<Outcome<Raw>, Error> {
        self.act(key, Act::Refuse { why: why.into() }).await
    }

    /// Takes back an order of which nothing was sent. It becomes `Denied`.
    ///
    /// # Errors
    /// `TurnedAway`: a blank name or reason; it may have been sent, is in the air, or has its end. The journal can't be written.
    pub async fn withdraw(&self, key: IdempotencyKey, why: impl Into<String>) -> Result<Outcome<Raw>, Error> {
        self.act(key, Act::Withdraw { why: why.into() }).await
    }

    /// What a person found out about an order that may have been sent: it becomes `Succeeded` with the receipt, or `Rejected` with none. Its
    /// origin stays taken either way. What they found stands until the server is heard to say otherwise: then a person has to look again.
    ///
    /// # Errors
    /// `TurnedAway`: a blank name or no evidence; it is in the air; nothing of it was sent; the server's own word stands; the receipt lacks
    /// what a success must hold. The journal can't be written.
    pub async fn reconcile(&self, key: IdempotencyKey, finding: Finding, evidence: impl Into<String>) -> Result<Outcome<Raw>, Error> {
        let evidence = evidence.into();
        self.act(key, Act::Reconcile { finding, evidence }).await
    }

    /// Stops an order: nothing more of it is sent. What was sent can't be called back, and its origin stays taken.
    ///
    /// # Errors
    /// `TurnedAway`: a blank name or reason; it is in the air, or has its end. The journal can't be written.
    pub async fn abandon(&self, key: IdempotencyKey, why: impl Into<String>) -> Result<Outcome<Raw>, Error> {
        self.act(key, Act::Abandon { why: why.into() }).await
    }

    /// Lets the origin of an order that was refused, denied, abandoned or found unprocessed be used for a new order, under a new key. Says
    /// what may still come of the old one: if that lands too, there are two orders, and no one but this person stands for it.
    ///
    /// # Errors
    /// `TurnedAway`: a blank name or reason; the order has no end, was processed, or is not its origin's newest. The journal can't be written.
    pub async fn free_origin(&self, key: IdempotencyKey, why: impl Into<String>) -> Result<Freed, Error> {
        let Acted { intent, state, .. } = self.acted(key, Act::FreeOrigin { why: why.into() }).await?;
        let limit = self.api_of(&intent).map(|api| api.timeouts().total);
        let under_way = state.last_possible_send().filter(|_| state.may_have_landed());
        Ok(Freed {
            key,
            effect: state.effect(),
            may_land_until: under_way.zip(limit).map(|(last, limit)| last.plus(limit)),
        })
    }

    /// Asks the order's server for it, and books it if the server shows it; see [`OrderClient::look_up`](crate::OrderClient::look_up).
    ///
    /// # Errors
    /// As there; `InvalidConfig` where its api is not known here.
    pub async fn look_up(&self, key: IdempotencyKey) -> Result<Outcome<Raw>, Error> {
        recovery::look_up(&*self.engine_for(key).await?, key).await
    }

    /// Whether an order can be resumed; see [`OrderClient::examine`](crate::OrderClient::examine).
    ///
    /// # Errors
    /// As there; `InvalidConfig` where its api is not known here.
    pub async fn examine(&self, key: IdempotencyKey) -> Result<Examination, Error> {
        recovery::examine(&*self.engine_for(key).await?, key).await
    }

    /// Takes up one order under its own key; see [`OrderClient::resume`](crate::OrderClient::resume).
    ///
    /// # Errors
    /// As there; `InvalidConfig` where its api is not known here, or it is approved and the policy is not.
    pub async fn resume(&self, key: IdempotencyKey) -> Result<Outcome<Raw>, Error> {
        let (intent, state) = self.order(key).await?;
        let engine = self.engine(&intent).ok_or_else(|| Error::unreachable_api(&intent, &state))?;
        if matches!(state.stage(), Stage::Approved { .. }) && self.policy.is_none() {
            return Err(Error::no_policy(&intent, &state));
        }
        engine.resume(key).await
    }

    /// Takes up every order that can be resumed without a second thought, one after another, and says which were left out and why.
    ///
    /// # Errors
    /// The journal can't be read. What goes wrong with one order stands in its own result.
    pub async fn resume_safe(&self) -> Result<Sweep, Error> {
        let mut sweep = self.resume_dry().await?;
        for due in &sweep.due {
            let result = self.resume(due.key).await;
            sweep.resumed.push((due.key, result));
        }
        Ok(sweep)
    }

    /// What [`resume_safe`](Operator::resume_safe) would take up, and what it would leave out and why. Sends nothing.
    ///
    /// # Errors
    /// The journal can't be read.
    pub async fn resume_dry(&self) -> Result<Sweep, Error> {
        sweep::survey(self).await
    }

    async fn act(&self, key: IdempotencyKey, act: Act) -> Result<Outcome<Raw>, Error> {
        let Acted { intent, state, .. } = self.acted(key, act).await?;
        tell(&intent, &state, self.journal.now())
    }

    async fn acted(&self, key: IdempotencyKey, act: Act) -> Result<Acted, Error> {
        let verb = act.verb();
        let Some(acted) = self.journal.act(key, self.by.clone(), act).await? else {
            return Err(Error::no_such_key(key));
        };
        match acted.turned_away.clone() {
            None => Ok(acted),
            Some(why) => Err(Error::not_let(&acted.intent, &acted.state, verb, why)),
        }
    }

    async fn order(&self, key: IdempotencyKey) -> Result<(Intent, State), Error> {
        self.journal.order(key).await?.ok_or_else(|| Error::no_such_key(key))
    }

    fn api_of(&self, intent: &Intent) -> Option<&Api> {
        self.apis.iter().find(|api| api.name() == intent.api())
    }

    async fn engine_for(&self, key: IdempotencyKey) -> Result<Arc<Engine>, Error> {
        let (intent, state) = self.order(key).await?;
        self.engine(&intent).ok_or_else(|| Error::unreachable_api(&intent, &state))
    }

    fn engine(&self, intent: &Intent) -> Option<Arc<Engine>> {
        let api = self.api_of(intent)?.clone();
        Some(Arc::new(Engine {
            journal: self.journal.clone(),
            api,
            policy: self.policy.clone(),
            // It claims nothing.
            terms: ClaimTerms {
                repeat_window: Duration::ZERO,
                approval_within: Duration::ZERO,
            },
            resume_at_once: 1,
            clock_in_doubt: AtomicBool::new(false),
            watched: Watched::default(),
        }))
    }
}
