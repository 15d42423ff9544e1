//! The journal: the rules by which an order gets its one key and keeps it. `Store` below it keeps records and knows no rule.
//!
//! Invariants held here: a key is minted in one place, inside a claim's turn (`claim.rs`); what a process acts on or answers was made durable
//! by its own sync first (R21); a no is durable before it is told (R7); whatever is written about an order is decided on its folded story,
//! read under the same turn.

mod claim;
#[cfg(feature = "testkit")]
pub mod conformance;
mod file;
mod flight;
mod index;
mod memory;
mod person;
pub mod store;
mod story;
mod tally;
/// The crate's stores by themselves, without a journal's rules: for benches, and for the suite of [`conformance`].
#[cfg(feature = "testkit")]
pub mod core {
    pub use super::{
        file::core::{Core, store},
        memory::memory,
    };
}
#[cfg(test)]
mod tests;

/// The few calls that a journal in a folder makes to its file system, for a disk of your own: one that crashes, fails or counts.
pub mod disk {
    pub use crate::disk::{Disk, DiskFile, FileSystem, How, Identity, RealDisk};
}

pub(crate) use claim::{Claim, ClaimTerms, Claimed};
pub(crate) use flight::{Landing, Waiting};
pub use person::Finding;
pub(crate) use person::{Act, Acted, Heard, Parked, verbs_for};
pub(crate) use story::{Story, Told};

use crate::{
    clock::{Boot, Clock, SystemClock, Timestamp},
    future::BoxFuture,
    ids::IdempotencyKey,
    intent::{Draft, Intent},
    lifecycle::{Effect, Event, Settled, Stage, State},
    operation::Placed,
    ruling::Judgement,
};
use bytes::Bytes;
use claim::{Claiming, Clerk};
use disk::{Disk, RealDisk};
use flight::Flights;
use std::{collections::HashSet, path::Path, sync::Arc, time::Duration};
use store::{Compaction, Decide, Mark, Record, Standing, Store, StoreError, StoreErrorKind, TornReport, Turn};
use tally::Tallies;

/// The book of orders: which key each has, what was sent, what came of it.
///
/// A folder on a local disk, shared by every agent process on the machine ([`Journal::open`]). It has to outlive the process: in a container,
/// a volume. Cheap to clone; clones, and further openings of the same folder in one process, are one journal.
///
/// Agents get this handle and no way to write through it: claims and records are the crate's own.
#[derive(Clone, Debug)]
pub struct Journal {
    store: Arc<dyn Store>,
    flights: Arc<Flights>,
    clock: Arc<dyn Clock>,
    durability: Durability,
    torn: Arc<[TornReport]>,
    tallies: Arc<Tallies>,
}

/// What waits for the disk before it is acted on or told.
///
/// | | a killed process loses | a power cut loses |
/// |---|---|---|
/// | `Promises` | nothing | at most the last tenth of a second of what was sent and seen: never a key that was used, never a no that was told. Resume repeats the key and the server answers from its store |
/// | `EveryRecord` | nothing | nothing that was written |
///
/// Everything is handed to the operating system at once, whichever is chosen; the difference is which records wait for a sync (`fdatasync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// One sync an order: its key, its contents and its ruling, before the first byte leaves; and one more for what must not be taken back: a
    /// refusal, a review, a person's word. Attempts and successes are synced within a tenth of a second, or with the next order.
    #[default]
    Promises,
    /// Each record, attempts and successes included: a sync more for each attempt, two for each answer. For books that an auditor wants whole
    /// after a power cut.
    EveryRecord,
}

/// How a journal is opened. Start from [`Journal::builder`].
#[derive(Clone, Debug)]
pub struct JournalBuilder {
    clock: Arc<dyn Clock>,
    disk: Arc<dyn Disk>,
    durability: Durability,
    options: file::Options,
}

/// The journal could not do its work.
///
/// Where it carries a key, the order was written before the failure and lives: it is **not sent yet**, and resume will send it under that key
/// unless it is withdrawn (R16). Without a key nothing was written and nothing is sent.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{source}")]
pub struct JournalError {
    /// What the store said.
    #[source]
    source: StoreError,
    key: Option<IdempotencyKey>,
    effect: Effect,
}

impl JournalError {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> StoreErrorKind {
        self.source.kind()
    }

    /// The order that was written before the failure.
    pub fn key(&self) -> Option<IdempotencyKey> {
        self.key
    }

    /// Whether the order may have been processed. Without a key nobody can tell: an earlier call may have sent it, and the journal that would
    /// know can't be read.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Where it does not say so itself.
    pub(crate) fn about(mut self, key: IdempotencyKey) -> Self {
        self.key.get_or_insert(key);
        self
    }

    fn of(key: IdempotencyKey, effect: Effect) -> impl FnOnce(StoreError) -> JournalError {
        move |source| JournalError {
            source,
            key: Some(key),
            effect,
        }
    }
}

impl From<StoreError> for JournalError {
    fn from(source: StoreError) -> Self {
        JournalError {
            source,
            key: None,
            effect: Effect::Possible,
        }
    }
}

impl JournalBuilder {
    /// Where the time in records comes from. Default: the machine's clocks.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// What files are kept on. Default: the operating system's; another one is for tests of crashes and failing disks.
    #[must_use]
    pub fn disk(mut self, disk: impl Disk + 'static) -> Self {
        self.disk = Arc::new(disk);
        self
    }

    /// What waits for the disk. Default: [`Durability::Promises`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The log's length in bytes from which on it is compacted by itself ([`Journal::compact`]); after that, whenever it has doubled. Default:
    /// 64 MiB. `u64::MAX`: by call only. Where a process opens a folder twice, the first opening decides.
    #[must_use]
    pub fn compact_at(mut self, bytes: u64) -> Self {
        self.options.compact_at = bytes;
        self
    }

    /// How long settled orders stay in the log before compaction moves them to the archive. Default: 30 days. The repeat guard looks into the
    /// log only, so the longest [`repeat_window`](crate::OrderClientBuilder::repeat_window) of this process counts where that is longer; give it
    /// to every process that shares the folder. Where a process opens a folder twice, the first opening decides.
    #[must_use]
    pub fn keep(mut self, settled: Duration) -> Self {
        self.options.keep = file::Keep::of(settled);
        self
    }

    /// Allows a network file system by its name: `nfs`, `smb` or `9p`. There locks may hold on this machine only: two machines on one folder
    /// would each mint a key for one order. Default: none.
    #[must_use]
    pub fn allow_network(mut self, name: impl Into<String>) -> Self {
        self.options.networks.push(name.into());
        self
    }

    /// Opens, or makes, the journal in this folder; see [`Journal::open`].
    pub async fn open(self, folder: impl AsRef<Path>) -> Result<Journal, JournalError> {
        let opened = file::FileStore::open(
            folder.as_ref().to_owned(),
            Arc::clone(&self.disk),
            Arc::clone(&self.clock),
            self.options.clone(),
        )
        .await?;
        let torn = opened.torn();
        for report in torn.iter() {
            tracing::warn!(
                offset = report.offset,
                bytes = report.bytes,
                copy = %report.copy.display(),
                "an unfinished record at the end of the journal was set aside; nothing that was promised is lost"
            );
        }
        Ok(self.on(opened, torn))
    }

    /// A journal that is gone with the process: for tests.
    pub fn memory(self) -> Result<Journal, JournalError> {
        let store = memory::MemoryStore::new().map_err(|e| StoreError::new(StoreErrorKind::Refused, e.to_string()))?;
        Ok(self.on(Arc::new(store), Arc::from([])))
    }

    /// A journal over a store of your own.
    pub fn over(self, store: Arc<dyn Store>) -> Journal {
        self.on(store, Arc::from([]))
    }

    fn on(self, store: Arc<dyn Store>, torn: Arc<[TornReport]>) -> Journal {
        Journal {
            flights: Flights::of(store.id()),
            store,
            clock: self.clock,
            durability: self.durability,
            torn,
            tallies: Arc::default(),
        }
    }
}

impl Journal {
    /// Opens, or makes, the journal in this folder. Missing folders are made (mode 0700; files 0600).
    ///
    /// Every record is checked. An unfinished last record, which a killed process leaves, is copied aside and reported
    /// ([`torn`](Journal::torn)); a record that had been durable and can't be read is an error that names line and offset, and the folder is
    /// left as it is. A folder that had a log and has none is an error, never a fresh start. No request is made.
    ///
    /// # Errors
    /// [`JournalError`] without a key: a path below a file or not writable, damage, a newer version, a missing log.
    pub async fn open(folder: impl AsRef<Path>) -> Result<Journal, JournalError> {
        Journal::builder().open(folder).await
    }

    /// A journal that is gone with the process: for tests.
    ///
    /// # Errors
    /// The operating system gave no randomness.
    pub fn memory() -> Result<Journal, JournalError> {
        Journal::builder().memory()
    }

    /// A journal with other parts than the usual ones.
    pub fn builder() -> JournalBuilder {
        JournalBuilder {
            clock: Arc::new(SystemClock),
            disk: Arc::new(RealDisk),
            durability: Durability::default(),
            options: file::Options::default(),
        }
    }

    /// What opening found unfinished and set aside.
    pub fn torn(&self) -> &[TornReport] {
        &self.torn
    }

    /// Moves orders that are settled and older than [`keep`](JournalBuilder::keep) out of the log: their records stay in `archive/`, their origins
    /// in `origins/`, and a mail that comes again finds its order as before. Others, this process included, go on writing meanwhile. Happens by
    /// itself from [`compact_at`](JournalBuilder::compact_at) on.
    ///
    /// # Errors
    /// [`StoreErrorKind::Busy`]: somebody is at it. Others: no space, no second name for a file on this file system. The journal is as it was
    /// and goes on, unless the disk failed in the very act of changing over: then it is poisoned, and opens anew. Nothing is sent either way.
    pub async fn compact(&self) -> Result<Compaction, JournalError> {
        Ok(self.store.compact().await?)
    }

    /// Makes everything written durable and gives up this process's ownership: clones and further openings in this process are closed with it.
    /// What is in flight can't be written down any more: call [`OrderClient::drain`](crate::OrderClient::drain) first.
    ///
    /// # Errors
    /// The last sync failed: what was told as succeeded may have to be learnt again by resume, under the same keys.
    pub async fn close(self) -> Result<(), JournalError> {
        Ok(self.store.close().await?)
    }

    /// A client's repeat guard looks back this far.
    pub(crate) fn keep_at_least(&self, settled: Duration) {
        self.store.keep_at_least(settled);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The machine's own count, for an age that no step of the wall clock changes.
    pub(crate) fn boot(&self) -> Option<Boot> {
        self.clock.boot()
    }

    /// Where an order stands now, by both clocks.
    pub(crate) fn stage_now(&self, state: &State) -> Stage {
        state.at_boot(self.clock.now(), self.clock.boot().as_ref())
    }

    /// Whether an order's age is one that both clocks agree on.
    pub(crate) fn clocks_agree(&self, state: &State) -> bool {
        state.clocks_agree(self.clock.now(), self.clock.boot().as_ref())
    }

    /// The claim: one turn that asks whether this order is known, and gives it its key if it is not. Durable before it answers.
    ///
    /// A no that an order corrects, or repeats without an origin, is made durable before that order gets its key, by a turn of its own: if power
    /// took the no alone, both would be open, and both would be sent (R7).
    pub(crate) async fn claim(&self, draft: Draft, judgement: impl Into<Judgement>, terms: ClaimTerms) -> Result<Claimed, JournalError> {
        let judgement = judgement.into();
        let mut sure_of = Vec::new();
        loop {
            let clerk = Clerk {
                boot: self.clock.boot(),
                ..self.clerk()
            };
            let (draft, judgement, sure) = (draft.clone(), judgement.clone(), sure_of.clone());
            let (decide, told) = listened_to(move |turn| Box::pin(async move { clerk.claim(turn, draft, judgement, terms, &sure).await }));
            let committed = self.store.commit(decide).await?;
            match told.await.map_err(|_| not_run())? {
                Claiming::Done(claimed) => return claimed.once(committed),
                Claiming::Rumour(noes) => {
                    committed.durable?;
                    sure_of.extend(noes);
                }
            }
        }
    }

    /// Takes up an order that nobody is sending, by its key: what resume does, and submit when it meets one (R18).
    pub(crate) async fn retake(&self, key: IdempotencyKey) -> Result<Claimed, JournalError> {
        let clerk = self.clerk();
        let taken = self
            .answer(move |turn| Box::pin(async move { clerk.retake(turn, key).await }))
            .await;
        taken.map_err(|error| error.about(key))
    }

    /// Runs one of the clerk's decisions and answers once all it saw and wrote is durable: before that, a record of another process, or of
    /// this one, is a rumour (R21).
    async fn answer<F>(&self, decide: F) -> Result<Claimed, JournalError>
    where
        F: for<'t> FnOnce(&'t mut dyn Turn) -> BoxFuture<'t, Result<Claimed, StoreError>> + Send + 'static,
    {
        let (decide, told) = listened_to(decide);
        let committed = self.store.commit(decide).await?;
        told.await.map_err(|_| not_run())?.once(committed)
    }

    /// Hands a decision over and waits for what it found.
    async fn ask<T, F>(&self, decide: F) -> Result<(Mark, T), StoreError>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut dyn Turn) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static,
    {
        let (decide, told) = listened_to(decide);
        let mark = self.store.turn(decide).await?;
        Ok((mark, told.await.map_err(|_| not_run())?))
    }

    /// What a decision found, durable before it is told (R21).
    async fn learn<T, F>(&self, decide: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut dyn Turn) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static,
    {
        let (mark, found) = self.ask(decide).await?;
        self.store.durable(mark).await?;
        Ok(found)
    }

    /// Writes what `decide` makes of the order as it stands under the turn, and answers with the order after it. Events that must be durable
    /// (R7) are, before this answers.
    pub(crate) async fn write<F, T>(&self, claim: &mut Claim, decide: F) -> Result<T, JournalError>
    where
        T: Send + 'static,
        F: FnOnce(&State, Mine) -> (Vec<Event>, T) + Send + 'static,
    {
        let key = claim.intent().key();
        // As it was before: what could not be made durable takes no doubt away (R7).
        let effect = claim.state().effect_in_flight();
        let written = self.write_about(key, effect, claim.known(), decide).await?;
        claim.set_state(written.state, written.known_to);
        Ok(written.told)
    }

    /// Writes facts about an order that nobody here need be sending: what its server was heard to say of it. Answers with the order after it.
    pub(crate) async fn note<F>(&self, key: IdempotencyKey, decide: F) -> Result<State, JournalError>
    where
        F: FnOnce(&State) -> Vec<Event> + Send + 'static,
    {
        let unread = (State::new(), None);
        let written = self.write_about(key, Effect::Possible, unread, move |state, _| (decide(state), ()));
        Ok(written.await?.state)
    }

    /// `known`: what was read of the order before, and up to where.
    async fn write_about<F, T>(
        &self,
        key: IdempotencyKey,
        effect: Effect,
        known: (State, Option<Mark>),
        decide: F,
    ) -> Result<Written<T>, JournalError>
    where
        T: Send + 'static,
        F: FnOnce(&State, Mine) -> (Vec<Event>, T) + Send + 'static,
    {
        let clerk = self.clerk();
        let all = self.durability == Durability::EveryRecord;
        let (mark, (state, hurry, wrote, told)) = self
            .ask(move |turn| {
                Box::pin(async move {
                    let state = clerk.state(turn, key, known).await?;
                    let mine = if state.owner() == Some(clerk.owner) {
                        Mine::Yes
                    } else {
                        Mine::TakenOver
                    };
                    let (events, told) = decide(&state, mine);
                    let (ours, wrote) = (events.iter().any(Event::must_be_durable), !events.is_empty());
                    let state = clerk.append(turn, key, state, &events)?;
                    // An end that somebody else wrote is a rumour until our own sync covers it, and it is about to be told (R21); so is what our
                    // own success came to, where somebody had closed the order (R7).
                    let succeeded = matches!(state.stage(), Stage::Settled(Settled::Succeeded { .. }));
                    let hurry = all || ours || (!state.is_open() && (events.is_empty() || !succeeded));
                    Ok((state, hurry, wrote, told))
                })
            })
            .await
            .map_err(JournalError::of(key, effect))?;
        if hurry {
            self.store.durable(mark).await.map_err(JournalError::of(key, effect))?;
        }
        Ok(Written {
            state,
            known_to: wrote.then_some(mark),
            told,
        })
    }

    /// One order as it stands; `None` where there is no such key. Durable before it answers, as everything that is told.
    pub(crate) async fn order(&self, key: IdempotencyKey) -> Result<Option<(Intent, State)>, JournalError> {
        let clerk = self.clerk();
        self.find(key, move |turn| Box::pin(async move { clerk.find(turn, key).await }))
            .await
    }

    /// What a person wants of an order: done, or not, and written down either way. `None`: there is no such order.
    pub(crate) async fn act(&self, key: IdempotencyKey, by: String, act: Act) -> Result<Option<Acted>, JournalError> {
        let clerk = self.clerk();
        self.find(key, move |turn| Box::pin(async move { clerk.act(turn, key, by, act).await }))
            .await
    }

    /// Whether a flight has it, here or in another living process.
    pub(crate) async fn is_flying(&self, key: IdempotencyKey) -> Result<bool, JournalError> {
        let clerk = self.clerk();
        let flying = self.find(key, move |turn| {
            Box::pin(async move {
                let Some((_, state)) = clerk.find(turn, key).await? else {
                    return Ok(None);
                };
                Ok(Some(clerk.lease(turn, key, &state).await?.is_none()))
            })
        });
        Ok(flying.await?.unwrap_or(false))
    }

    /// The order that followed another one of its origin.
    pub(crate) async fn successor(&self, intent: &Intent) -> Result<Option<IdempotencyKey>, JournalError> {
        let columns = intent.columns();
        let (Some(origin), Some(source)) = (columns.origin, columns.source) else {
            return Ok(None);
        };
        let (key, clerk) = (intent.key(), self.clerk());
        let found = self.learn(move |turn| Box::pin(async move { clerk.successor(turn, key, origin, source).await }));
        Ok(found.await?)
    }

    /// Of parked orders, those of which something was written since they were looked at, or whose time is up. One turn for all of them.
    pub(crate) async fn heard_of(&self, parked: Vec<(IdempotencyKey, Parked)>) -> Result<Vec<Heard>, JournalError> {
        let clerk = self.clerk();
        let heard = self.learn(move |turn| Box::pin(async move { Ok(clerk.heard_of(turn, parked).await) }));
        Ok(heard.await?)
    }

    /// The newest order of this operation and origin at this api; `None` where there is none. Durable before it answers.
    pub(crate) async fn placed(&self, api: &str, placed: &Placed) -> Result<Option<(Intent, State)>, JournalError> {
        let hash = |api| placed.origin.hash(api, &placed.operation);
        let (Some(origin), Some(source)) = (hash(Some(api)), hash(None)) else {
            return Ok(None);
        };
        let clerk = self.clerk();
        let found = self.learn(move |turn| {
            Box::pin(async move {
                match turn.by_origin(origin, source).await? {
                    Some(key) => clerk.find(turn, key).await,
                    None => Ok(None),
                }
            })
        });
        Ok(found.await?)
    }

    /// What a decision finds of one order, durable before it is told. What can't be read may have been processed.
    async fn find<T, F>(&self, key: IdempotencyKey, decide: F) -> Result<Option<T>, JournalError>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut dyn Turn) -> BoxFuture<'t, Result<Option<T>, StoreError>> + Send + 'static,
    {
        self.learn(decide).await.map_err(JournalError::of(key, Effect::Possible))
    }

    /// Keys of orders that are not done, oldest claim first, after `after`.
    pub(crate) async fn unsettled(&self, after: Option<IdempotencyKey>, limit: usize) -> Result<Vec<IdempotencyKey>, JournalError> {
        Ok(self.store.unsettled(after, limit).await?)
    }

    /// Keys of all orders that are not done, oldest claim first, each once.
    pub(crate) async fn all_unsettled(&self) -> Result<Vec<IdempotencyKey>, JournalError> {
        /// Orders are read from the journal in pages.
        const PAGE: usize = 256;
        let (mut found, mut met, mut after) = (Vec::new(), HashSet::new(), None);
        loop {
            let page = self.unsettled(after, PAGE).await?;
            let known = found.len();
            // The order a page ended with may have moved to the archive since: then the list begins anew.
            found.extend(page.iter().filter(|key| met.insert(**key)));
            after = page.last().copied();
            if page.len() < PAGE || found.len() == known {
                return Ok(found);
            }
        }
    }

    /// Waits until somebody, in this process or another, writes something, or the time is up.
    pub(crate) async fn next_word(&self, at_most: Duration) -> Result<(), JournalError> {
        let now = self.store.changed(Mark(0), Duration::ZERO).await?;
        self.store.changed(now, at_most).await?;
        Ok(())
    }

    /// Everyone in the air in this process.
    pub(crate) fn flights(&self) -> Vec<Waiting> {
        self.flights.all()
    }

    fn clerk(&self) -> Clerk {
        Clerk {
            flights: Arc::clone(&self.flights),
            store: Arc::downgrade(&self.store),
            owner: self.store.owner(),
            now: self.clock.now(),
            // Only a claim asks for it, and asking is not free.
            boot: None,
            tallies: Arc::clone(&self.tallies),
        }
    }
}

/// What was written about an order, and what it came to.
struct Written<T> {
    state: State,
    /// The story that `state` was folded from ends here.
    known_to: Option<Mark>,
    told: T,
}

/// Whether an order still belongs to the flight that writes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mine {
    Yes,
    /// Another process took it over: facts are still recorded, nothing more is sent.
    TakenOver,
}

/// A decision, and where what it found can be heard.
fn listened_to<T, F>(decide: F) -> (Decide, tokio::sync::oneshot::Receiver<T>)
where
    T: Send + 'static,
    F: for<'t> FnOnce(&'t mut dyn Turn) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static,
{
    let (tell, told) = tokio::sync::oneshot::channel();
    let decide: Decide = Box::new(move |turn| {
        Box::pin(async move {
            let found = decide(turn).await?;
            // Nobody waits any more: what was decided stands all the same.
            drop(tell.send(found));
            Ok(())
        })
    });
    (decide, told)
}

fn not_run() -> StoreError {
    StoreError::new(StoreErrorKind::Refused, "the store ended a turn without running its decision")
}

/// An event in the form stores keep.
fn record_of(key: IdempotencyKey, event: &Event, at: Timestamp, after: &State) -> Result<Record, StoreError> {
    let unwritable = |why: &str| {
        StoreError::new(
            StoreErrorKind::Refused,
            format!("event {} could not be written: {why}", event.name()),
        )
    };
    let text = serde_json::to_string(event).map_err(|_| unwritable("it has no JSON form"))?;
    // `{"sent":{…}}`: the name stands in the record's head, the rest is its data.
    let data = text
        .strip_prefix(&format!("{{\"{}\":", event.name()))
        .and_then(|rest| rest.strip_suffix('}'))
        .ok_or_else(|| unwritable("its name and its form disagree"))?;
    let columns = match event {
        Event::Claimed(claimed) => Some(claimed.order.columns()),
        _ => None,
    };
    let record = Record {
        key,
        name: event.name().to_owned(),
        at,
        standing: standing(after),
        columns,
        data: Bytes::copy_from_slice(data.as_bytes()),
    };
    // A receipt that a person gives may be nested more deeply than anything that is read.
    if matches!(event, Event::Reconciled { .. }) && event_of(&record).is_err() {
        return Err(unwritable("it could not be read again"));
    }
    Ok(record)
}

fn event_of(record: &Record) -> Result<Event, StoreError> {
    let data = std::str::from_utf8(&record.data).unwrap_or_default();
    let text = format!("{{\"{}\":{data}}}", record.name);
    serde_json::from_str(&text).map_err(|e| {
        let at = format!("line {}, column {} of its data", e.line(), e.column());
        let text = format!(
            "the record {} of {} holds what this version does not know ({at}): nothing was changed; use the version that wrote it",
            record.name, record.key
        );
        StoreError::new(StoreErrorKind::UnsupportedVersion, text)
    })
}

/// What passes by time alone (an approval that expired) is not in it: a record says where the order stood when it was written.
fn standing(state: &State) -> Standing {
    match state.stage() {
        Stage::Open => Standing::Open,
        Stage::AwaitingApproval { .. } | Stage::Approved { .. } => Standing::Wait,
        Stage::NeedsReview(_) => Standing::Look,
        // Found whatever its age, and kept in the log, until a person frees its origin (R11).
        Stage::Settled(_) if state.was_stopped_in_doubt() => Standing::Look,
        Stage::Settled(_) => Standing::Done,
    }
}
