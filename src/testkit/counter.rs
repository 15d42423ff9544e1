//! Behind the desk: one request from its arrival to its answer, read top to bottom. Everything the server's thread and
//! the test share lives here.
//!
//! wiremock handles one request at a time under its own lock, so nothing here may wait: a late answer is a delay that
//! wiremock keeps outside that lock.

use crate::clock::monotonic;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

use super::compare::{Contents, Unreadable};
use super::key::BadKey;
use super::ledger::{Ask, Claim, Claimed, Ledger, LedgerError, RowState, Terms, wait};
use super::log::{Decision, Kind, Log};
use super::reply::Reply;
use super::route::{Lookup, Route, Served, Work, json_of, route};
use super::script::{Performance, Script, Situation, Turn, unauthorized};
use super::seen::{Did, Seen};
use super::shop::{Shop, Sight, not_found};
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
    pub(crate) number: usize,
    pub(crate) order_id: Option<String>,
}

pub(crate) struct Counter {
    keys: Keys,
    terms: Terms,
    /// How long a request waits for the work under its key; `None`: not at all.
    waits: Option<Duration>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) log: Log,
    shop: Mutex<Shop>,
    script: Mutex<Performance>,
    served: Mutex<Vec<Arc<Served>>>,
    on_request: Mutex<Vec<Hook>>,
    after_commit: Mutex<Vec<Hook>>,
    effects: Mutex<Vec<Effect>>,
    underway: Mutex<Underway>,
    /// What panicked in the test's own code, for the assertions to report.
    panics: Mutex<Vec<String>>,
}

impl Counter {
    pub(crate) fn new(keys: Keys, terms: Terms, waits: Option<Duration>, ledger: Arc<dyn Ledger>) -> Self {
        Self {
            keys,
            terms,
            waits,
            ledger,
            log: Log::default(),
            shop: Mutex::default(),
            script: Mutex::default(),
            served: Mutex::default(),
            on_request: Mutex::default(),
            after_commit: Mutex::default(),
            effects: Mutex::default(),
            underway: Mutex::default(),
            panics: Mutex::default(),
        }
    }

    /// Receives a request: hooks, then the decision, then the log. The only way in.
    pub(crate) fn receive(&self, request: &wiremock::Request) -> Decision {
        self.do_what_is_due();
        let seen = self.log.arrive(request);
        let decision = self
            .call_hooks(&self.on_request, &seen)
            .unwrap_or_else(|| self.decide(&seen))
            .under(&seen);
        self.log.settle(seen.number, &decision);
        decision
    }

    fn decide(&self, seen: &Seen) -> Decision {
        let served = lock(&self.served).clone();
        match route(seen, &served) {
            Route::Write(work) => self.decide_order(seen, work),
            Route::Read(lookup) => {
                self.log.identify(seen.number, Kind::Lookup, None);
                match lock(&self.script).refuses(seen.header("authorization")) {
                    true => Decision::answer(Did::Nothing, unauthorized()),
                    false => self.look_up(&lookup),
                }
            }
            Route::Stray => Decision::answer(Did::Nothing, no_such_endpoint(seen)),
        }
    }

    /// The order of things: what the script puts in front, the ledger, what the script puts behind.
    fn decide_order(&self, seen: &Seen, work: Work) -> Decision {
        let contents = Contents::read(&seen.method, &seen.target(), &seen.body);
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

    fn ask_ledger(&self, seen: &Seen, contents: Result<Contents, Unreadable>, work: Work, situation: &Situation) -> Decision {
        let key = match (self.keys, seen.usable_key()) {
            (Keys::Ignored, _) => None,
            (Keys::Heeded, Ok(key)) => Some(key),
            (Keys::Heeded, Err(bad)) => return Decision::answer(Did::Nothing, bad_key(bad)),
        };
        let contents = match contents {
            Ok(contents) => contents,
            Err(why) => return Decision::answer(Did::Nothing, unreadable(&why.to_string())),
        };
        if let Some(refusal) = unfit(seen, &contents, &work) {
            return Decision::answer(Did::Nothing, refusal);
        }
        let Some(key) = key else {
            return self.work_deaf(seen, &work, situation);
        };
        let ask = Ask::new(&key, contents.digest()).on(self.terms);
        match wait(self.ledger.claim(ask)) {
            Ok(Claimed::New(claim)) => self.work_under(claim, seen, work, situation),
            Ok(Claimed::Known(reply)) => Decision {
                replayed: true,
                ..Decision::answer(Did::Replayed, reply.header("Idempotent-Replayed", "true"))
            },
            Ok(Claimed::InFlight) => self.wait_or_not(&key),
            Ok(Claimed::Uncertain) => Decision::answer(Did::InFlight, uncertain()),
            Ok(Claimed::ResultGone) => Decision::answer(Did::ResultGone, result_gone()),
            Ok(Claimed::Conflict) => Decision::answer(Did::Conflict, conflict()),
            Err(error) => Decision::answer(Did::Nothing, no_ledger(&error)),
        }
    }

    fn work_under(&self, claim: Claim, seen: &Seen, work: Work, situation: &Situation) -> Decision {
        match situation {
            Situation::Stuck => {
                let seen = seen.clone();
                lock(&self.underway).stick(StuckWork { claim, seen, work });
                return Decision::lost(Did::Stuck);
            }
            Situation::Store(reply) => {
                let reply = reply.clone().or_unspeakable();
                return self.complete(&claim, seen, reply);
            }
            _ => {}
        }
        if let Err(error) = wait(self.ledger.begin(&claim)) {
            return Decision::answer(Did::Nothing, no_ledger(&error));
        }
        match catch_unwind(AssertUnwindSafe(|| self.perform(&work, seen, Sight::under(situation)))) {
            Ok((reply, effect)) => match situation {
                Situation::Slow(time) => self.work_slowly(Some(claim), seen, reply, effect, *time),
                Situation::CommitUnstored(_) => {
                    self.took_effect(effect);
                    drop(wait(self.ledger.release(&claim)));
                    self.committed(seen, Did::NotStored, reply)
                }
                _ => {
                    self.took_effect(effect);
                    self.complete(&claim, seen, reply)
                }
            },
            Err(panic) => {
                // A ledger that can't be reached keeps the key processing, which orders nothing twice.
                drop(wait(self.ledger.release(&claim)));
                self.panicked("handler", seen, panic.as_ref())
            }
        }
    }

    /// A request whose key's work goes on: 409, or the replay once it is done, if that is soon enough for a desk that waits.
    fn wait_or_not(&self, key: &str) -> Decision {
        let Some(at_most) = self.waits else {
            return Decision::answer(Did::InFlight, in_flight());
        };
        match lock(&self.underway).coming(key, monotonic()) {
            Some((reply, delay)) if delay <= at_most => Decision {
                delay,
                ..self.replay_to_come(&reply)
            },
            _ => Decision {
                delay: at_most,
                ..Decision::answer(Did::InFlight, in_flight())
            },
        }
    }

    /// The replay of what is not stored yet, as the ledger will keep it.
    fn replay_to_come(&self, reply: &Reply) -> Decision {
        if self.terms.body_max.is_some_and(|max| reply.bytes().len() > max) {
            return Decision::answer(Did::ResultGone, result_gone());
        }
        let stored = Reply::stored(reply.code(), reply.kept_headers(), reply.bytes().to_vec());
        Decision {
            replayed: true,
            ..Decision::answer(Did::Replayed, stored.header("Idempotent-Replayed", "true"))
        }
    }

    /// Keeps the work under way until it is due; only its answer is settled already, since it has to be given before the delay.
    fn work_slowly(&self, claim: Option<Claim>, seen: &Seen, reply: Reply, effect: Option<Effect>, time: Duration) -> Decision {
        lock(&self.underway).slow_down(SlowWork {
            claim,
            number: seen.number,
            reply: reply.clone(),
            effect,
            due: monotonic().checked_add(time),
        });
        Decision {
            delay: time,
            ..Decision::answer(Did::Stuck, reply)
        }
    }

    /// Does what should have been done by now. To be called before anybody looks.
    pub(crate) fn do_what_is_due(&self) {
        let due = lock(&self.underway).take_due(monotonic());
        due.into_iter().for_each(|work| self.end_slow(work));
    }

    fn end_slow(&self, work: SlowWork) {
        if let Some(order_id) = work.effect.as_ref().and_then(|effect| effect.order_id.as_ref()) {
            lock(&self.shop).unhide(order_id);
        }
        self.took_effect(work.effect);
        let did = match work.claim.map(|claim| wait(self.ledger.complete(&claim, &work.reply))) {
            None => Did::Deaf,
            Some(Ok(())) => Did::Claimed,
            // Fenced out meanwhile, it is late work: done, and never heard of again.
            Some(Err(_)) => Did::NotStored,
        };
        self.log.did(work.number, did);
    }

    /// The work is done. What could not be stored is not told as done: the key is processing until an operator looks.
    fn complete(&self, claim: &Claim, seen: &Seen, reply: Reply) -> Decision {
        match wait(self.ledger.complete(claim, &reply)) {
            Ok(()) => self.committed(seen, Did::Claimed, reply),
            Err(error) => Decision::answer(Did::NotStored, no_ledger(&error)),
        }
    }

    /// What a server without a ledger does: the work, every time.
    fn work_deaf(&self, seen: &Seen, work: &Work, situation: &Situation) -> Decision {
        match situation {
            Situation::Stuck => return Decision::lost(Did::Deaf),
            Situation::Store(reply) => return Decision::answer(Did::Deaf, reply.clone()),
            _ => {}
        }
        match catch_unwind(AssertUnwindSafe(|| self.perform(work, seen, Sight::under(situation)))) {
            Ok((reply, effect)) => match situation {
                Situation::Slow(time) => self.work_slowly(None, seen, reply, effect, *time),
                _ => {
                    self.took_effect(effect);
                    self.committed(seen, Did::Deaf, reply)
                }
            },
            Err(panic) => self.panicked("handler", seen, panic.as_ref()),
        }
    }

    /// Does the work. What is answered below 400 takes effect.
    fn perform(&self, work: &Work, seen: &Seen, sight: Sight) -> (Reply, Option<Effect>) {
        let (reply, order_id) = match work {
            Work::Place => {
                let (reply, id) = lock(&self.shop).place(fields(seen), sight);
                (reply, Some(id))
            }
            Work::Amend { order_id } => (lock(&self.shop).amend(order_id, fields(seen)), Some(order_id.clone())),
            Work::Cancel { order_id } => (lock(&self.shop).cancel(order_id), Some(order_id.clone())),
            Work::Serve(served, request) => (served.call(request).or_unspeakable(), None),
        };
        let effect = (reply.code() < 400).then(|| Effect {
            key: seen.key.clone(),
            number: seen.number,
            order_id,
        });
        (reply, effect)
    }

    fn took_effect(&self, effect: Option<Effect>) {
        lock(&self.effects).extend(effect);
    }

    fn committed(&self, seen: &Seen, did: Did, reply: Reply) -> Decision {
        let mut seen = seen.clone();
        seen.did = did;
        self.call_hooks(&self.after_commit, &seen)
            .unwrap_or_else(|| Decision::answer(did, reply))
    }

    fn look_up(&self, lookup: &Lookup) -> Decision {
        let reply = match lookup {
            Lookup::Order { order_id } => lock(&self.shop).show(order_id),
            Lookup::ByKey { key } => self.look_up_key(key),
            Lookup::Serve(served, request) => match catch_unwind(AssertUnwindSafe(|| served.call(request))) {
                Ok(reply) => reply,
                Err(panic) => return self.panicked("handler", request.seen(), panic.as_ref()),
            },
        };
        Decision::answer(Did::Nothing, reply)
    }

    fn look_up_key(&self, key: &str) -> Reply {
        let row = match wait(self.ledger.read(key)) {
            Ok(Some(row)) => row,
            Ok(None) => return not_found(),
            Err(error) => return no_ledger(&error),
        };
        match row.state {
            RowState::Processing => in_flight(),
            RowState::Succeeded => match self.order_of(key) {
                Some(order_id) => lock(&self.shop).show(&order_id),
                None => row.answer().unwrap_or_else(result_gone),
            },
            RowState::Failed | RowState::Rejected => not_found(),
        }
    }

    fn order_of(&self, key: &str) -> Option<String> {
        let effects = lock(&self.effects);
        let effect = effects.iter().find(|effect| effect.key.as_deref() == Some(key))?;
        effect.order_id.clone()
    }

    /// Ends the work stuck under a key, or slow. Says whether there was any.
    pub(crate) fn finish(&self, key: &str) -> Option<()> {
        let stuck = lock(&self.underway).take_stuck(key);
        let Some(StuckWork { claim, seen, work }) = stuck else {
            let slow = lock(&self.underway).take_slow(key)?;
            self.end_slow(slow);
            return Some(());
        };
        let (reply, effect) = self.perform(&work, &seen, Sight::Open);
        self.took_effect(effect);
        // Fenced out meanwhile, it is late work: done, and never heard of again.
        drop(wait(self.ledger.complete(&claim, &reply)));
        Some(())
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

    pub(crate) fn serve(&self, served: Served) {
        lock(&self.served).push(Arc::new(served));
    }

    pub(crate) fn on_request(&self, hook: Hook) {
        lock(&self.on_request).push(hook);
    }

    pub(crate) fn after_commit(&self, hook: Hook) {
        lock(&self.after_commit).push(hook);
    }

    pub(crate) fn orders(&self) -> Vec<Value> {
        self.do_what_is_due();
        lock(&self.shop).orders()
    }

    pub(crate) fn effects(&self) -> Vec<Effect> {
        self.do_what_is_due();
        lock(&self.effects).clone()
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
    (needs_object && !contents.is_json_object()).then(|| Reply::problem(400, "order_invalid", "an order is a JSON object"))
}

fn bad_key(bad: BadKey) -> Reply {
    match bad {
        BadKey::Missing => Reply::problem(400, "idempotency_key_missing", "the request has no Idempotency-Key"),
        BadKey::Invalid(why) => Reply::problem(400, "idempotency_key_invalid", why),
    }
}

fn unreadable(why: &str) -> Reply {
    Reply::problem(400, "body_unreadable", why)
}

fn in_flight() -> Reply {
    let why = "the first request under this key is still being processed; ask again under the same key";
    Reply::problem(409, "idempotency_in_flight", why).retry_after("1")
}

fn uncertain() -> Reply {
    let why = "the work under this key was begun and not heard of again; neither this key nor another is safe to send";
    Reply::problem(409, "operation_uncertain", why)
}

fn result_gone() -> Reply {
    let why = "the work under this key was done; its answer is not kept any more";
    Reply::problem(409, "operation_result_expired", why)
}

/// Before the claim nothing was done; after it, whether is unknown. Either way the same key may be sent again.
fn no_ledger(error: &LedgerError) -> Reply {
    Reply::problem(503, "ledger_unavailable", &error.to_string())
}

fn conflict() -> Reply {
    let why = "this key was used for other contents; the order placed under it stands";
    Reply::problem(422, "idempotency_conflict", why)
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
