//! Behind the desk: one request from its arrival to its answer, read top to bottom. Everything the server's thread and
//! the test share lives here.
//!
//! wiremock handles one request at a time under its own lock, so nothing here may wait: a late answer is a delay that
//! wiremock keeps outside that lock.

mod asked;
mod work;

use crate::clock::{Clock, monotonic};
use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::compare::{Contents, Unreadable};
use super::control;
use super::dialect::{Duplicate, Facts};
use super::first_sent;
use super::if_match::IfMatch;
use super::key::{BadKey, could_be_key};
use super::ledger::{Ask, Claim, Claimed, Ledger, LedgerError, RowState, Terms, wait};
use super::log::{Decision, Kind, Log};
use super::operation;
use super::reply::Reply;
use super::route::{Lookup, Route, Served, Work, json_of, route};
use super::scope::{row_key, tenant};
use super::script::{Performance, Script, Situation, Turn, unauthorized};
use super::seen::{Did, Seen};
use super::shop::{Shop, Sight, not_found};
use super::suspicion::{Suspicion, suspicions};
use super::underway::{SlowWork, StuckWork, Underway};

/// Whether the desk looks at keys at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Heeded,
    Ignored,
}

/// Called with a request; see `Desk::on_request` and `Desk::after_commit`.
pub(crate) type Hook = Arc<dyn Fn(&Seen) + Send + Sync>;

/// Work that was done, under which key and by which request.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) key: Option<String>,
    pub(crate) tenant: Option<String>,
    /// The ledger's key of it.
    row_key: Option<String>,
    pub(crate) number: usize,
    pub(crate) order_id: Option<String>,
}

pub(crate) struct Counter {
    keys: Keys,
    facts: Facts,
    terms: Terms,
    /// How long a request waits for the work under its key; `None`: not at all.
    waits: Option<Duration>,
    /// Where `Date` is read from; `None`: left to the HTTP server.
    dates: Option<Arc<dyn Clock>>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) log: Log,
    shop: Mutex<Shop>,
    script: Mutex<Performance>,
    served: Mutex<Vec<Arc<Served>>>,
    on_request: Mutex<Vec<Hook>>,
    after_commit: Mutex<Vec<Hook>>,
    on_answer: Mutex<Vec<Hook>>,
    effects: Mutex<Vec<Effect>>,
    underway: Mutex<Underway>,
    /// The rule of the day by which new orders are refused, as its code.
    refusal: Mutex<Option<String>>,
    /// The ledger's keys whose answer was longer than it keeps.
    too_long: Mutex<BTreeSet<String>>,
    /// What panicked in the test's own code, for the assertions to report.
    panics: Mutex<Vec<String>>,
}

impl Counter {
    pub(crate) fn new(keys: Keys, facts: Facts, terms: Terms, waits: Option<Duration>, ledger: Arc<dyn Ledger>) -> Self {
        Self {
            keys,
            facts,
            terms,
            waits,
            dates: None,
            ledger,
            log: Log::default(),
            shop: Mutex::default(),
            script: Mutex::default(),
            served: Mutex::default(),
            on_request: Mutex::default(),
            after_commit: Mutex::default(),
            on_answer: Mutex::default(),
            effects: Mutex::default(),
            underway: Mutex::default(),
            refusal: Mutex::default(),
            too_long: Mutex::default(),
            panics: Mutex::default(),
        }
    }

    pub(crate) fn dated_by(mut self, clock: Option<Arc<dyn Clock>>) -> Self {
        self.dates = clock;
        self
    }

    /// Receives a request: hooks, then the decision, then the log. The only way in.
    pub(crate) fn receive(&self, request: &wiremock::Request) -> Decision {
        self.do_what_is_due();
        if let Some(reply) = control::answer(self, request) {
            return Decision::answer(Did::Nothing, reply);
        }
        let seen = self.log.arrive(request, &self.facts);
        let mut decision = self
            .call_hooks(&self.on_request, &seen)
            .unwrap_or_else(|| self.decide(&seen))
            .under(&seen);
        if let Some(clock) = &self.dates {
            decision.reply = decision.reply.map(|reply| reply.header("Date", &clock.now().http_date()));
        }
        if let Some(answered) = self.log.settle(seen.number, &decision) {
            // Too late for another answer; a panic in it is told by the assertions.
            drop(self.call_hooks(&self.on_answer, &answered));
        }
        decision
    }

    fn decide(&self, seen: &Seen) -> Decision {
        let served = lock(&self.served).clone();
        match route(seen, &served, &self.facts) {
            Route::Write(work) => self.decide_order(seen, work),
            Route::Read(lookup) => {
                self.log.identify(seen.number, Kind::Lookup, None);
                // Asked first: what is looked up may be the test's own code, which may ask the desk for anything.
                let refused = lock(&self.script).refuses(seen.header("authorization"));
                match refused {
                    true => Decision::answer(Did::Nothing, unauthorized()),
                    false => self.look_up(seen, &lookup),
                }
            }
            Route::Withdraw { key } => {
                self.log.identify(seen.number, Kind::Withdrawal, None);
                self.withdraw(seen, &key)
            }
            Route::Stray => Decision::answer(Did::Nothing, no_such_endpoint(seen)),
        }
    }

    /// The order of things: what the script puts in front, the ledger, what the script puts behind.
    fn decide_order(&self, seen: &Seen, work: Work) -> Decision {
        let contents = Contents::read(&seen.method, &seen.target(), &seen.body);
        let contents = contents.map(|contents| contents.without(self.facts.key_member()));
        self.log.identify(seen.number, Kind::Order, contents.clone().ok());
        let Some(situation) = self.take_turn(seen) else {
            return Decision::answer(Did::Nothing, unauthorized());
        };
        match &*situation {
            Situation::Instead(reply) => return Decision::answer(Did::Nothing, reply.clone()),
            Situation::ExpireCredential => return Decision::answer(Did::Nothing, unauthorized()),
            Situation::LoseRequest => return Decision::lost(Did::Nothing),
            _ => {}
        }
        let honest = self.ask_ledger(seen, contents, work, &situation);
        match &*situation {
            Situation::CommitThenLose => Decision::lost(honest.did),
            Situation::CommitThenReply(reply) | Situation::CommitUnstored(reply) => Decision::answer(honest.did, reply.clone()),
            Situation::Late(delay) => Decision { delay: *delay, ..honest },
            _ => honest,
        }
    }

    /// What the script has for this request, with the ledger's clock turned as it says; none for a credential that it has let expire.
    fn take_turn(&self, seen: &Seen) -> Option<Arc<Situation>> {
        let credential = seen.header("authorization");
        let mut script = lock(&self.script);
        if script.refuses(credential) {
            return None;
        }
        let Turn { situation, clock, played } = script.next(seen.key.as_deref());
        if *situation == Situation::ExpireCredential {
            script.expire(credential);
        }
        drop(script);
        clock.into_iter().for_each(|millis| self.ledger.turn_clock(millis));
        self.log.played(seen.number, played);
        Some(situation)
    }

    /// What the server makes of a request that has reached it.
    fn ask_ledger(&self, seen: &Seen, contents: Result<Contents, Unreadable>, work: Work, situation: &Situation) -> Decision {
        let key = match (self.keys, self.facts.key_of(seen)) {
            (Keys::Ignored, _) => None,
            (Keys::Heeded, Ok(key)) => Some(key),
            (Keys::Heeded, Err(bad)) => return self.refuse(Did::Nothing, self.facts.bad_key(bad)),
        };
        let contents = match contents {
            Ok(contents) => contents,
            Err(why) => return self.refuse(Did::Nothing, unreadable(&why.to_string())),
        };
        let late = self
            .facts
            .window
            .and_then(|window| first_sent::out_of(window, seen, self.ledger.now()));
        let refused_today = || self.refusal_of(&work).or_else(|| self.objection_to(&work, seen));
        let refused_today = self.facts.validates_first.then(refused_today).flatten();
        if let Some(refusal) = unfit(seen, &contents, &work).or(late).or(refused_today) {
            return self.signed(seen, true, self.refuse(Did::Nothing, refusal));
        }
        let Some(key) = key else {
            return self.work_without_ledger(Did::Deaf, seen, &work, situation);
        };
        let row_key = row_key(&self.facts, seen, &key);
        // Who doesn't compare contents has none to compare.
        let contents = self.facts.mismatch.map_or_else(String::new, |_| contents.digest());
        let ask = Ask::new(&row_key, contents).on(self.terms);
        let claimed = match wait(self.ledger.claim(ask)) {
            Ok(claimed) => claimed,
            Err(LedgerError::Unreachable(_)) if self.facts.fails_open => {
                return self.work_without_ledger(Did::RanAnyway, seen, &work, situation);
            }
            Err(error) => return self.refuse(Did::Nothing, no_ledger(&error)),
        };
        let rejected = claimed == Claimed::Conflict;
        let decision = match claimed {
            Claimed::New(claim) => self.work_under(claim, seen, work, situation),
            Claimed::Known(reply) => self.known(&row_key, reply),
            Claimed::InFlight if self.facts.races => return self.work_without_ledger(Did::RanAnyway, seen, &work, situation),
            Claimed::InFlight => self.wait_or_not(&row_key),
            Claimed::Uncertain => self.refuse(Did::InFlight, operation::uncertain(&row_key)),
            Claimed::ResultGone => self.refuse(Did::ResultGone, self.result_gone(&row_key)),
            Claimed::Conflict => self.mismatch(&row_key),
        };
        self.signed(seen, rejected, decision)
    }

    /// What a request hears whose work is done: the stored answer, or what this server says instead.
    fn known(&self, row_key: &str, stored: Reply) -> Decision {
        if operation::is_word(&stored) {
            return self.refuse(Did::Closed, stored);
        }
        let order_id = self.order_of(row_key);
        let told = match (self.facts.duplicate, &order_id) {
            _ if stored.code() >= 400 => stored,
            (Duplicate::Current, Some(order_id)) => lock(&self.shop).show(order_id),
            (Duplicate::Error(said), _) => {
                let problem = Reply::problem(said.status, said.code, "there is an order under this key already");
                return Decision::answer(Did::Duplicate, self.facts.dress(&problem, order_id.as_deref()));
            }
            _ => stored,
        };
        let marked = self.facts.marker.map(|(name, value)| told.clone().header(name, value));
        Decision {
            replayed: marked.is_some(),
            ..Decision::answer(Did::Replayed, marked.unwrap_or(told))
        }
    }

    fn mismatch(&self, row_key: &str) -> Decision {
        let Some(said) = self.facts.mismatch else {
            return self.refuse(Did::Conflict, operation::uncertain(row_key));
        };
        let row = wait(self.ledger.read(row_key)).ok().flatten();
        let problem = operation::mismatch(row_key, operation::State::of(row.as_ref()), said.status, said.code);
        Decision::answer(Did::Conflict, self.facts.dress(&problem, self.order_of(row_key).as_deref()))
    }

    fn in_flight(&self, row_key: &str) -> Reply {
        operation::in_flight(row_key, self.facts.in_progress.status, self.facts.in_progress.code)
    }

    /// Done, and no answer: either its time was over, or it was never kept.
    fn result_gone(&self, row_key: &str) -> Reply {
        if self.terms.result_for.is_none() || lock(&self.too_long).contains(row_key) {
            operation::result_unavailable(row_key)
        } else {
            operation::result_expired(row_key)
        }
    }

    /// A no of the desk's own, in the words of its dialect.
    fn refuse(&self, did: Did, problem: Reply) -> Decision {
        Decision::answer(did, self.facts.dress(&problem, None))
    }

    fn signed(&self, seen: &Seen, rejected: bool, mut decision: Decision) -> Decision {
        let did = decision.did;
        decision.reply = decision.reply.map(|reply| self.facts.signs(seen, did, rejected, reply));
        decision
    }

    /// A request whose key's work goes on: 409, or the replay once it is done, if that is soon enough for a desk that waits.
    fn wait_or_not(&self, row_key: &str) -> Decision {
        let in_flight = self.refuse(Did::InFlight, self.in_flight(row_key));
        let Some(at_most) = self.waits else { return in_flight };
        match lock(&self.underway).coming(row_key, monotonic()) {
            Some((reply, delay)) if delay <= at_most && self.facts.stores(reply.code()) => Decision {
                delay,
                ..self.replay_to_come(row_key, &reply)
            },
            _ => Decision {
                delay: at_most,
                ..in_flight
            },
        }
    }

    /// The replay of what is not stored yet, as the ledger will keep it.
    fn replay_to_come(&self, row_key: &str, reply: &Reply) -> Decision {
        if self.terms.body_max.is_some_and(|max| reply.bytes().len() > max) {
            return self.refuse(Did::ResultGone, operation::result_unavailable(row_key));
        }
        self.known(row_key, Reply::stored(reply.code(), reply.kept_headers(), reply.bytes().to_vec()))
    }

    fn order_of(&self, row_key: &str) -> Option<String> {
        let effects = lock(&self.effects);
        let effect = effects.iter().find(|effect| effect.row_key.as_deref() == Some(row_key))?;
        effect.order_id.clone()
    }

    /// Whether an order is one of those this caller may know of.
    fn is_of_tenant(&self, order_id: &str, seen: &Seen) -> bool {
        let effects = lock(&self.effects);
        let placed = effects.iter().find(|effect| effect.order_id.as_deref() == Some(order_id));
        placed.is_none_or(|effect| effect.tenant.as_deref() == tenant(seen))
    }

    /// Calls the hooks; a decision only if one of them panicked.
    fn call_hooks(&self, hooks: &Mutex<Vec<Hook>>, seen: &Seen) -> Option<Decision> {
        // Cloned out of the lock, because a hook may be busy for long and may add hooks itself.
        let hooks = lock(hooks).clone();
        hooks.iter().find_map(|hook| {
            let panic = catch_unwind(AssertUnwindSafe(|| hook(seen))).err()?;
            Some(self.panicked("hook", seen, panic.as_ref()))
        })
    }

    fn panicked(&self, who: &str, seen: &Seen, panic: &(dyn Any + Send)) -> Decision {
        let said = said(panic);
        lock(&self.panics).push(format!("a {who} panicked at request #{}: {said}", seen.number));
        Decision::answer(Did::Panicked, Reply::problem(500, &format!("{who}_panicked"), &said))
    }

    pub(crate) fn play(&self, script: Script) {
        *lock(&self.script) = Performance::of(script);
    }

    pub(crate) fn script_left(&self) -> usize {
        lock(&self.script).left()
    }

    pub(crate) fn refuse_from_now_on(&self, code: Option<&str>) {
        *lock(&self.refusal) = code.map(str::to_owned);
    }

    /// Changes an order behind its owner's back, and tells its new version.
    pub(crate) fn change_order(&self, order_id: &str, patch: Map<String, Value>) -> Option<String> {
        self.do_what_is_due();
        lock(&self.shop).change_behind(order_id, patch)
    }

    pub(crate) fn serve(&self, served: Served) {
        lock(&self.served).push(Arc::new(served));
    }

    pub(crate) fn on_request(&self, hook: Hook) {
        lock(&self.on_request).push(hook);
    }

    pub(crate) fn after_commit(&self, hook: Hook) {
        lock(&self.after_commit).push(hook);
    }

    pub(crate) fn on_answer(&self, hook: Hook) {
        lock(&self.on_answer).push(hook);
    }

    /// The keys of all requests that carried an order, each once, in the order they were first seen.
    pub(crate) fn keys_seen(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for entry in self.log.entries() {
            if entry.kind == Kind::Order {
                keys.extend(entry.seen.key.filter(|key| !keys.contains(key)));
            }
        }
        keys
    }

    pub(crate) fn orders(&self) -> Vec<Value> {
        self.do_what_is_due();
        lock(&self.shop).orders()
    }

    pub(crate) fn effects(&self) -> Vec<Effect> {
        self.do_what_is_due();
        lock(&self.effects).clone()
    }

    pub(crate) fn suspicions(&self) -> Vec<Suspicion> {
        self.do_what_is_due();
        suspicions(&self.log.entries())
    }

    pub(crate) fn panics(&self) -> Vec<String> {
        lock(&self.panics).clone()
    }
}

impl Sight {
    fn under(situation: &Situation) -> Self {
        match situation {
            Situation::Slow(_) => Self::Hidden,
            _ => Self::Open,
        }
    }
}

impl Decision {
    /// The same decision with a reply that HTTP can carry, under the request id of the request it answers: a replay
    /// belongs to the retry, not to the attempt that placed the order.
    fn under(mut self, seen: &Seen) -> Self {
        self.reply = self.reply.map(|reply| match &seen.request_id {
            Some(request_id) => reply.or_unspeakable().header("X-Request-Id", request_id).or_unspeakable(),
            None => reply.or_unspeakable(),
        });
        self
    }
}

/// Why this request is no order, whatever its key. Judged before the claim, so that a corrected one may use the key.
fn unfit(seen: &Seen, contents: &Contents, work: &Work) -> Option<Reply> {
    let says_json = seen
        .header("content-type")
        .is_some_and(|kind| kind.to_ascii_lowercase().contains("json"));
    if says_json && !contents.is_json() && !contents.is_empty() {
        return Some(unreadable("the body is not the JSON it claims to be"));
    }
    let needs_object = matches!(work, Work::Place | Work::Amend { .. });
    // Else it would be placed without what it says: numbers that no double comes near, and what is nested one level too deep.
    if needs_object && contents.is_json_object() && !json_of(seen).is_object() {
        return Some(unreadable("the shop can't hold what this order says"));
    }
    (needs_object && !contents.is_json_object()).then(|| Reply::problem(400, "order_invalid", "an order is a JSON object"))
}

fn unreadable(why: &str) -> Reply {
    Reply::problem(400, "body_unreadable", why)
}

/// Before the claim nothing was done; after it, whether is unknown. Either way the same key may be sent again.
fn no_ledger(error: &LedgerError) -> Reply {
    Reply::problem(503, "ledger_unavailable", &error.to_string())
}

/// 599, because a 404 would read as an answer about an order.
fn no_such_endpoint(seen: &Seen) -> Reply {
    let why = format!("the test desk has no endpoint for {} {}", seen.method, seen.path);
    Reply::problem(599, "no_such_endpoint", &why)
}

fn fields(seen: &Seen) -> Map<String, Value> {
    match json_of(seen) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(said), _) => (*said).to_owned(),
        (None, Some(said)) => said.clone(),
        (None, None) => "something that is no text".to_owned(),
    }
}

/// Locks, whoever panicked before: each change behind these locks is one push or one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
