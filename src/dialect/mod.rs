//! `Dialect`: how a server speaks idempotency. One status means many things to many servers; a dialect says what it means to this one, and how
//! far the server's memory can be trusted. Data and pure functions; what follows from it is judged in `attempt/verdict.rs`.

mod ietf;
mod lookup;
mod presets;
mod reading;

pub use lookup::Asked;
pub use reading::Reading;

use crate::{
    answer::{Answer, Head, Observed},
    clock::Timestamp,
    intent::{Intent, KeyPlace},
    lifecycle::Sighting,
    operation::Route,
};
use std::{fmt, time::Duration};

/// How one server speaks idempotency: where the key stands, how long it is remembered, what the codes of its refusals mean, how an order is
/// found again.
///
/// Take the preset of your server, or [`Dialect::ietf`], and change what differs; or write your own from [`Dialect::new`]. What counts for an
/// order (the key's place, the retention) is kept in its intent when it is claimed; changing a dialect changes new orders only.
///
/// ```
/// use std::time::Duration;
/// use uketsuke::{Answer, Asked, Dialect, KeyPlace, Reading, Route};
///
/// fn reads(answer: &Answer) -> Reading {
///     match (answer.status().as_u16(), answer.code("/error")) {
///         (409, Some("BUSY")) => Reading::InProgress,
///         (409, Some("KNOWN")) => Reading::Exists { named: answer.code("/order").map(str::to_owned) },
///         (409, Some("OTHER")) => Reading::Mismatch,
///         _ => Reading::ByStatus,
///     }
/// }
/// fn lookup(asked: &Asked<'_>) -> Option<Route> {
///     Some(asked.path().query("reference", asked.key().to_string()))
/// }
/// let shop = Dialect::new("shop")
///     .key(KeyPlace::RawHeader("X-Shop-Key".to_owned()))
///     .retention(Duration::from_secs(7 * 24 * 60 * 60))
///     .reads(reads)
///     .lookup(lookup);
/// # let _ = shop;
/// ```
#[derive(Clone)]
pub struct Dialect {
    name: &'static str,
    key: KeyPlace,
    first_sent: Option<&'static str>,
    retention: Option<Duration>,
    read: fn(&Answer) -> Reading,
    replayed: fn(&Head) -> bool,
    lookup: fn(&Asked<'_>) -> Option<Route>,
    list_at: Option<&'static str>,
    lookup_reads: LookupReads,
    duplicates: Duplicates,
    refusals_stored: bool,
    key_checked_first: bool,
    key_scope: KeyScope,
    concurrent: Concurrent,
    commit_before_5xx: CommitBefore5xx,
    max_transit: Option<Duration>,
    stuck_after: Duration,
}

/// What a server does with a request whose key it has seen and whose order stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Duplicates {
    /// It answers from its store: the first answer again.
    #[default]
    Replayed,
    /// It answers with the order as it stands now, cancelled since, perhaps.
    CurrentState,
    /// It refuses with an error that means "there is one", which names the order or leads to a lookup.
    Refused,
    /// Nothing: each request is an order. Such an order is **never sent again by itself** once it may have arrived.
    NotRecognised,
}

/// Whose a key is at the server (R9 of the protocol: a key lives in a scope).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyScope {
    /// The credential's: under another API key of the same account it is a new key. The cautious reading, and the default.
    #[default]
    Credential,
    /// The account's: a rotated credential changes nothing. Then let [`Credentials::scope`](crate::Credentials::scope), or
    /// [`ApiBuilder::account`](crate::ApiBuilder::account), name the account.
    Account,
}

/// What a server does with a request whose first one still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Concurrent {
    /// It says so.
    #[default]
    Conflict,
    /// It holds the second one back and answers both alike.
    Waits,
    /// It runs both: two orders under one key. Such an order is never sent again by itself once it may have arrived.
    Races,
}

/// Whether a server may commit, answer 5xx and keep no record of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitBefore5xx {
    /// What it commits it stores with the key, whatever it answers.
    #[default]
    Excluded,
    /// It may. Such an order is never sent again by itself once it may have arrived.
    Possible,
}

/// What a lookup by key looks into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookupReads {
    /// The server's store of keys, or nobody knows. "Not found" proves nothing.
    #[default]
    Keys,
    /// The orders themselves. With [`Dialect::max_transit`], "not found" is then a proof of absence.
    Orders,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Longer than any lease that servers publish for work under a key.
const STUCK_AFTER: Duration = Duration::from_secs(15 * 60);

impl Dialect {
    /// A dialect of your own, to be told what is so: the key raw in `Idempotency-Key`, answers read by their status alone, no lookup, nothing
    /// promised beyond that. Its [`retention`](Self::retention) has to be said before an api is built with it.
    ///
    /// By status alone, 409 and 422 are refusals: a refusal is told as a no only if nothing else of the key can land. If your server says
    /// "still running" by 409, say so by [`reads`](Self::reads).
    pub fn new(name: &'static str) -> Self {
        Dialect {
            name,
            key: KeyPlace::RawHeader("Idempotency-Key".to_owned()),
            first_sent: None,
            retention: None,
            read: |_| Reading::ByStatus,
            replayed: Head::replayed,
            lookup: |_| None,
            list_at: None,
            lookup_reads: LookupReads::default(),
            duplicates: Duplicates::default(),
            refusals_stored: false,
            key_checked_first: false,
            key_scope: KeyScope::default(),
            concurrent: Concurrent::default(),
            commit_before_5xx: CommitBefore5xx::default(),
            max_transit: None,
            stuck_after: STUCK_AFTER,
        }
    }

    /// The common case, and the default: draft-ietf-httpapi-idempotency-key-header-07 (a draft that expired in April 2026, not an RFC), with
    /// the error codes of the Agentic Commerce Protocol (`idempotency_key_required`, `idempotency_in_flight`, `idempotency_conflict`) and of
    /// other servers that follow it.
    ///
    /// The key stands raw in `Idempotency-Key`: the draft asks for quotes, but most servers document it without, and several refuse quotes. 409
    /// without a code, or with `idempotency_in_flight`, is "still running"; `idempotency_conflict` is a mismatch; any other 4xx is a refusal.
    /// The draft gives no retention; 24 hours is what most servers publish. *Not known:* whether errors are stored, and any lookup.
    pub fn ietf() -> Self {
        Dialect::new("ietf").retention(DAY).reads(ietf::read)
    }

    /// Where the key stands. Default: raw in `Idempotency-Key`.
    #[must_use]
    pub fn key(mut self, place: KeyPlace) -> Self {
        self.key = place;
        self
    }

    /// How long the server remembers a key, counted from the first request. Past it the same key **executes again**, so an order whose first
    /// request may be older is never sent again by itself. What no server publishes has to be said here before an api is built.
    #[must_use]
    pub fn retention(mut self, kept: Duration) -> Self {
        self.retention = Some(kept);
        self
    }

    /// What an answer means, before the order's history is weighed. Called with every whole answer to an order, whatever its status, and with
    /// every answer to a lookup that is no success. Pure, and without a default: [`Reading::ByStatus`] leaves an answer to its status.
    #[must_use]
    pub fn reads(mut self, read: fn(&Answer) -> Reading) -> Self {
        self.read = read;
        self
    }

    /// How a stored answer is told from a first one. Default: `Idempotent-Replayed: true`. A replayed 5xx is stored, and is not asked for again.
    #[must_use]
    pub fn replayed(mut self, tells: fn(&Head) -> bool) -> Self {
        self.replayed = tells;
        self
    }

    /// How an order is found: the GET that asks for it, by its key, or by the name that the server gave it ([`Asked::named`]). `None`: not
    /// this way. The answer is the order, or a list with it ([`list_at`](Self::list_at)). Default: no lookup.
    ///
    /// Asked also of an order that changes or ends another one ([`Asked::subject`]), below whose path there is nothing of its own to find: answer
    /// `None` there, as the presets do, unless your server finds such an order by its key.
    ///
    /// What is found is compared with the order field by field, where both name the field. "Not found" proves nothing, unless
    /// [`lookup_reads`](Self::lookup_reads) and [`max_transit`](Self::max_transit) say otherwise.
    #[must_use]
    pub fn lookup(mut self, route: fn(&Asked<'_>) -> Option<Route>) -> Self {
        self.lookup = route;
        self
    }

    /// A lookup answers with a list, at this JSON pointer (`""`: the body itself is the list). Default: it answers with the order.
    #[must_use]
    pub fn list_at(mut self, pointer: &'static str) -> Self {
        self.list_at = Some(pointer);
        self
    }

    /// What a lookup looks into. Default: [`LookupReads::Keys`].
    #[must_use]
    pub fn lookup_reads(mut self, what: LookupReads) -> Self {
        self.lookup_reads = what;
        self
    }

    /// The longest time that a request can be under way and still arrive. If [`lookup_reads`](Self::lookup_reads) says orders, and the last
    /// attempt is older than this, "not found" (an empty list, 204, or a 404 that is empty or JSON) means that there is none, and the same
    /// key may be sent again: at a server that recognises repeats, under the account that ordered. Default: unknown, so never.
    #[must_use]
    pub fn max_transit(mut self, time: Duration) -> Self {
        self.max_transit = Some(time);
        self
    }

    /// What becomes of a duplicate. Default: [`Duplicates::Replayed`].
    #[must_use]
    pub fn duplicates(mut self, how: Duplicates) -> Self {
        self.duplicates = how;
        self
    }

    /// Whether a refusal is stored under the key and comes back, whatever was mended meanwhile. Default: no. Only together with
    /// [`key_checked_before_validation`](Self::key_checked_before_validation) does a refusal that follows a lost attempt prove that nothing
    /// of the key was, or will be, processed (R1): one that is JSON, and no 409. Don't say both where a gateway stands before the server that
    /// refuses in JSON of its own, for its word could not be told from the server's.
    #[must_use]
    pub fn refusals_stored(mut self, stored: bool) -> Self {
        self.refusals_stored = stored;
        self
    }

    /// Whether the key is looked up before the order's contents are judged. Default: no.
    #[must_use]
    pub fn key_checked_before_validation(mut self, first: bool) -> Self {
        self.key_checked_first = first;
        self
    }

    /// Whose a key is. Default: [`KeyScope::Credential`].
    #[must_use]
    pub fn key_scope(mut self, whose: KeyScope) -> Self {
        self.key_scope = whose;
        self
    }

    /// What becomes of a second request while the first runs. Default: [`Concurrent::Conflict`].
    #[must_use]
    pub fn concurrent(mut self, how: Concurrent) -> Self {
        self.concurrent = how;
        self
    }

    /// Whether it may commit, answer 5xx and forget. Default: [`CommitBefore5xx::Excluded`].
    #[must_use]
    pub fn commit_before_5xx(mut self, may: CommitBefore5xx) -> Self {
        self.commit_before_5xx = may;
        self
    }

    /// How long "still running" is believed, from the first time it was said: then a person looks ([`ReviewReason::StuckProcessing`]). Until
    /// then the same key is asked again, and never another one sent. Default: 15 minutes.
    ///
    /// [`ReviewReason::StuckProcessing`]: crate::ReviewReason::StuckProcessing
    #[must_use]
    pub fn stuck_after(mut self, time: Duration) -> Self {
        self.stuck_after = time;
        self
    }

    /// A header that says when the order was first sent, the same on every attempt (IMF-fixdate), as OASIS repeatable requests want it.
    #[must_use]
    pub fn first_sent_header(mut self, name: &'static str) -> Self {
        self.first_sent = Some(name);
        self
    }

    /// Its name, as it stands in claims.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Where the key stands.
    pub fn key_place(&self) -> &KeyPlace {
        &self.key
    }

    /// Name of the header that says when an order was first sent.
    pub(crate) fn first_sent(&self) -> Option<&'static str> {
        self.first_sent
    }

    /// `None`: nobody publishes it.
    pub(crate) fn kept_for(&self) -> Option<Duration> {
        self.retention
    }

    pub(crate) fn read(&self, answer: &Answer) -> Reading {
        (self.read)(answer)
    }

    pub(crate) fn is_replay(&self, head: &Head) -> bool {
        (self.replayed)(head)
    }

    /// The request that asks for an order, by its key or by the server's name for it.
    pub(crate) fn asks_for(&self, intent: &Intent, named: Option<&str>) -> Option<Route> {
        (self.lookup)(&Asked::new(intent, named))
    }

    /// Where in a lookup's answer the orders are listed.
    pub(crate) fn list(&self) -> Option<&'static str> {
        self.list_at
    }

    /// Whether an order that may have arrived may be sent again by itself: the server has to recognise it, also while the first one runs, and
    /// after any of its own troubles (section 3 of the protocol, limit 4).
    pub(crate) fn recognises_repeats(&self) -> bool {
        let races = self.concurrent == Concurrent::Races || self.commit_before_5xx == CommitBefore5xx::Possible;
        self.duplicates != Duplicates::NotRecognised && !races
    }

    /// R1's exception: a refusal is the stored answer of this key, so nothing else of it can have landed, or will.
    pub(crate) fn refusals_speak_for_the_key(&self) -> bool {
        self.refusals_stored && self.key_checked_first
    }

    /// Whether a repeat's success may show what became of the order since.
    pub(crate) fn shows_current_state(&self) -> bool {
        self.duplicates == Duplicates::CurrentState
    }

    /// R10's exception: from when on "not found" is a proof, if the last attempt was at that time.
    pub(crate) fn absence_proven_from(&self, last_attempt: Timestamp) -> Option<Timestamp> {
        let proves = self.lookup_reads == LookupReads::Orders && self.recognises_repeats();
        Some(last_attempt.plus(self.max_transit.filter(|_| proves)?))
    }

    pub(crate) fn transit(&self) -> Option<Duration> {
        self.max_transit
    }

    pub(crate) fn scope_of_keys(&self) -> KeyScope {
        self.key_scope
    }

    pub(crate) fn believes_running_for(&self) -> Duration {
        self.stuck_after
    }

    /// What was seen, in the form the journal keeps, with what only a dialect can tell of it.
    pub(crate) fn sighting(&self, seen: &Observed) -> Sighting {
        match seen {
            Observed::Answered(answer) => {
                let says = reading::says_of_earlier(&self.read(answer), answer.status());
                Sighting::answered(answer, self.is_replay(answer.head()), says)
            }
            _ => Sighting::of(seen),
        }
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialect")
            .field("name", &self.name)
            .field("key", &self.key)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}
