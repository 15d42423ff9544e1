//! The desk itself: what a test starts, scripts, asks and asserts on. HTTP is wiremock's; what is said behind the desk
//! is decided in `counter.rs`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use wiremock::{Match, Mock, MockServer, ResponseTemplate, matchers};

use super::builder::DeskBuilder;
use super::control;
use super::counter::{Counter, Hook};
use super::ledger::{Ledger, Row, wait};
use super::link::{Breaks, Link};
use super::log::{Decision, Kind};
use super::operation;
use super::reply::Reply;
use super::route::{Request, Served};
use super::script::Script;
use super::seen::Seen;
use super::suspicion::Suspicion;

/// An order API on a port of its own, for tests: a good idempotent server that plays ugly ones on command.
///
/// | endpoint | answers |
/// |---|---|
/// | `POST /orders` | 201 with the order, `Location` and `ETag` |
/// | `PATCH /orders/{id}` | 200 with the order after a JSON merge patch; 404; 409 once cancelled; 412 |
/// | `POST /orders/{id}/cancel` | 200 with the order, `"status":"cancelled"`; 404; 409 once cancelled; 412 |
/// | `GET /orders/{id}` | 200 with the order as it stands; 404 |
/// | `GET /orders/by-key/{key}` | the same, found by the key; 409 while processing |
/// | `POST /orders/by-key/{key}/cancel` | 200, and the order of this key is cancelled, or will never be; 409 while processing; wants no key of its own |
/// | anything else | 599, and it counts as a [stray](Desk::strays) |
///
/// An order is the posted JSON object plus `order_id` (`"ord-1"`, `"ord-2"`, …) and `status`. The three that write
/// want an `Idempotency-Key`, raw or in quotes, and answer in `application/problem+json` if something is wrong with it:
///
/// | status | `code` | when |
/// |---|---|---|
/// | 400 | `idempotency_key_missing` | there is no key |
/// | 400 | `idempotency_key_invalid` | it is empty, a list, two lines, over 255 bytes, not visible ASCII |
/// | 400 | `body_unreadable` | a member name stands twice, or the body is not the JSON it claims to be |
/// | 400 | `order_invalid` | the order is not a JSON object |
/// | 409 | `idempotency_in_flight` | the key's first request is still processed; with `Retry-After: 1` |
/// | 412 | `precondition_failed` | `If-Match` names another version than the one that stands (RFC 9110, section 13.1.1); nothing is done |
/// | 422 | `idempotency_conflict` | the key is known with another method, path, query or contents |
/// | 409 | `operation_uncertain` | the work was begun, and its lease ended before it did |
/// | 409 | `operation_result_expired` | the work was done, and its answer is not kept any more |
/// | 409 | `operation_result_unavailable` | the work was done, and its answer was too long to be kept |
/// | 409 | `operation_not_applied` | it is proven that nothing was done and nothing will be: [cancelled](Desk) before it came, or an [operator's word](Desk::not_applied) |
/// | 409 | `operation_abandoned` | an operator [gave it up](Desk::abandon), and nobody knows |
///
/// Where an operation is involved the problem says `operation_state` (`started`, `completed`, `failed`, `uncertain`), `operation_ref` and
/// `safe_new_key`, which is true only if nothing was done. A key belongs to the tenant in `X-Tenant`, whatever the credential; orders of
/// another tenant are not there.
///
/// All this is the default dialect; a [`ServerDialect`](super::ServerDialect) says the same in another server's words.
///
/// A known key gets the stored status and body back, byte for byte, with `Idempotent-Replayed: true`. Every answer
/// carries the `X-Request-Id` of the request it answers.
///
/// The key goes first, and `If-Match` is looked at when the work is done: a change whose reply was lost gets its stored success, whatever version
/// stands by then, and a 412 is stored like any other refusal. `ETag` is another one after each change.
///
/// Under `/_desk/` are questions for tests in other languages: `GET /_desk/orders`, `requests`, `suspicions`, `summary`, and
/// `POST /_desk/script` (the text of a [`Script`]), `finish/{key}` and `change/{order}` (a JSON merge patch; see [`Desk::change_order`]). They
/// are neither numbered nor logged.
///
/// The server ends when the desk is dropped.
pub struct Desk {
    server: MockServer,
    counter: Arc<Counter>,
}

/// Opening.
impl Desk {
    /// Starts a desk that honours keys, on a free port of 127.0.0.1. Nothing is shared with any other desk.
    pub async fn start() -> Self {
        Self::builder().start_anywhere().await
    }

    /// Starts a desk that is deaf to keys: every request is a new order, with or without a key.
    ///
    /// For tests of your tests: on a deaf desk, a client that retries must make
    /// [`assert_one_order_per_key`](Desk::assert_one_order_per_key) fail.
    pub async fn deaf() -> Self {
        Self::builder().deaf().start_anywhere().await
    }

    /// A desk of another kind: another ledger, another port.
    pub fn builder() -> DeskBuilder {
        DeskBuilder::new()
    }

    pub(crate) async fn open(listener: Option<std::net::TcpListener>, counter: Counter) -> Self {
        // Through the builder, because `MockServer::start` lends servers from a pool.
        let server = MockServer::builder().disable_request_recording();
        let server = match listener {
            Some(listener) => server.listener(listener),
            None => server,
        };
        let (server, counter) = (server.start().await, Arc::new(counter));
        mount(&server, &counter).await;
        Self { server, counter }
    }

    /// A wire to this desk that breaks: the client under test talks to [`Link::url`] instead of [`Desk::url`].
    ///
    /// # Panics
    ///
    /// If no port can be opened.
    pub async fn behind(&self, breaks: Breaks) -> Link {
        let link = Link::to(self.url()).await;
        link.plan(breaks);
        link
    }

    /// The base URL, such as `http://127.0.0.1:49152`, without a slash at its end.
    pub fn url(&self) -> String {
        self.server.uri()
    }
}

/// Arranging.
impl Desk {
    /// Plays this script from the next order on. What was left of an earlier script is forgotten, and so are the keys it had met and the
    /// credentials it let expire.
    ///
    /// As text: `desk.script("lose reply; 503 x2; ok".parse()?)`.
    pub fn script(&self, script: Script) {
        self.counter.play(script);
    }

    /// Puts the desk's idempotency around an endpoint of your own.
    ///
    /// `path` may hold `{name}` segments, each of which stands for one segment of the path. The handler is called once
    /// per key; its reply is stored and replayed. With `GET` or `HEAD` there is no key and the handler is called every
    /// time. Your endpoints come before the desk's own, so `POST /orders` can be yours too.
    ///
    /// A handler that panics is answered with 500 `handler_panicked`, gives the key free, and makes every assertion of
    /// the desk fail.
    ///
    /// ```no_run
    /// # async fn f() {
    /// use serde_json::json;
    /// use uketsuke::testkit::{Desk, Reply};
    ///
    /// let desk = Desk::start().await;
    /// desk.serve("POST", "/rooms/{room}/bookings", |request| {
    ///     Reply::json(201, json!({"room": request.segment("room"), "nights": request.json()["nights"]}))
    /// });
    /// # }
    /// ```
    pub fn serve(&self, method: &str, path: &str, handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
        self.counter.serve(Served::new(method, path, handler));
    }

    /// Calls `hook` when a request has arrived, before the script, the ledger and everything else.
    ///
    /// This is the moment to look whether the client's journal already holds the key on disk. The hook runs on the
    /// server's thread and holds up every other request, so it may read a file or kill a process, but must not send to
    /// this desk. Hooks are called in the order they were added.
    ///
    /// An `assert!` in a hook is not lost: the request is answered with 500 `hook_panicked`, and every assertion of the
    /// desk fails with what the hook said.
    pub fn on_request(&self, hook: impl Fn(&Seen) + Send + Sync + 'static) {
        let hook: Hook = Arc::new(hook);
        self.counter.on_request(hook);
    }

    /// Calls `hook` when the work of a request is done and stored, before its answer leaves: the moment at which a
    /// crash of the client hurts most.
    ///
    /// Not called for replays, nor for work that gets stuck or is slow. Otherwise like [`Desk::on_request`].
    pub fn after_commit(&self, hook: impl Fn(&Seen) + Send + Sync + 'static) {
        let hook: Hook = Arc::new(hook);
        self.counter.after_commit(hook);
    }

    /// Calls `hook` when a request's answer is decided, and the request known whole; also for replays, lookups and strays. Otherwise like
    /// [`Desk::on_request`].
    pub fn on_answer(&self, hook: impl Fn(&Seen) + Send + Sync + 'static) {
        let hook: Hook = Arc::new(hook);
        self.counter.on_answer(hook);
    }

    /// Lets the work end that [`Script::get_stuck`] or [`Script::slow`] left under this key: now it is done, and the next request under
    /// the key gets the stored answer as a replay. It is done on the thread that calls this; hooks are not called.
    ///
    /// # Errors
    ///
    /// [`NothingStuck`] if no work is stuck or slow under this key.
    pub fn finish(&self, key: &str) -> Result<(), NothingStuck> {
        self.counter.finish(key).ok_or_else(|| NothingStuck { key: key.to_owned() })
    }
}

/// An operator's words, and the shop's.
impl Desk {
    /// Says of a key that is processing: it is proven that nothing was done. Its requests hear 409 `operation_not_applied` with
    /// `safe_new_key: true`, and whoever still works on it is fenced out. A tenant's key is `{tenant};{key}`, as in [`Row::key`].
    ///
    /// # Errors
    ///
    /// [`NothingStuck`] if the key is not processing.
    ///
    /// # Panics
    ///
    /// If the ledger can't be reached.
    #[track_caller]
    pub fn not_applied(&self, key: &str) -> Result<(), NothingStuck> {
        self.overrule(key, |key| {
            operation::not_applied(key, "an operator has looked: nothing was done under this key")
        })
    }

    /// Gives up on a key that is processing, without knowing what became of it: its requests hear 409 `operation_abandoned` with
    /// `safe_new_key: false`. Otherwise like [`Desk::not_applied`].
    ///
    /// # Errors
    ///
    /// [`NothingStuck`] if the key is not processing.
    ///
    /// # Panics
    ///
    /// If the ledger can't be reached.
    #[track_caller]
    pub fn abandon(&self, key: &str) -> Result<(), NothingStuck> {
        self.overrule(key, operation::abandoned)
    }

    #[track_caller]
    fn overrule(&self, key: &str, word: impl Fn(&str) -> Reply) -> Result<(), NothingStuck> {
        match self.counter.overrule(key, word) {
            Ok(true) => Ok(()),
            Ok(false) => Err(NothingStuck { key: key.to_owned() }),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// From now on the shop refuses every new order for good, with 422 and this code. A retry of one that was placed before still gets its
    /// answer, except from a server that [validates first](super::Unkind::ValidatesFirst).
    pub fn refuse_from_now_on(&self, code: &str) {
        self.counter.refuse_from_now_on(Some(code));
    }

    /// The shop takes orders again.
    pub fn refuse_no_more(&self) {
        self.counter.refuse_from_now_on(None);
    }

    /// Somebody else changes an order, by a JSON merge patch (RFC 7396), behind the back of whoever placed it. Tells its new version, as `ETag`
    /// has it; whoever acts on an older one by `If-Match` hears 412 from now on. `{"status": "cancelled"}` ends it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use serde_json::json;
    /// # let desk = uketsuke::testkit::Desk::start().await;
    /// # let http = reqwest::Client::builder().no_proxy().build()?;
    /// # http.post(format!("{}/orders", desk.url())).header("Idempotency-Key", "k").body("{}").send().await?;
    /// assert_eq!(desk.change_order("ord-1", json!({"note": "ring twice"})), "\"2\"");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such order, or the patch is no JSON object.
    #[track_caller]
    pub fn change_order(&self, order_id: &str, patch: Value) -> String {
        let Value::Object(patch) = patch else {
            self.fail(&format!("change an order: the patch is no JSON object: {patch}"));
        };
        match self.counter.change_order(order_id, patch) {
            Some(tag) => tag,
            None => self.fail(&format!("change an order: there is no {order_id}{}", listed(&self.orders()))),
        }
    }
}

/// Telling.
impl Desk {
    /// The orders as they stand now, oldest first.
    pub fn orders(&self) -> Vec<Value> {
        self.counter.orders()
    }

    /// Every request in the order they came, lookups and strays included.
    pub fn requests(&self) -> Vec<Seen> {
        self.seen(|_, _| true)
    }

    /// The requests that carried an order under this key.
    pub fn attempts(&self, key: &str) -> Vec<Seen> {
        self.seen(|kind, seen| kind == Kind::Order && seen.key.as_deref() == Some(key))
    }

    /// The requests that asked for something to be done, whatever became of them: orders, changes, cancellations, your own endpoints but for
    /// GET and HEAD.
    pub fn writes(&self) -> Vec<Seen> {
        self.seen(|kind, _| matches!(kind, Kind::Order | Kind::Withdrawal))
    }

    /// The requests that asked for something to be told: an order by its id or its key, a GET or HEAD of your own.
    pub fn lookups(&self) -> Vec<Seen> {
        self.seen(|kind, _| kind == Kind::Lookup)
    }

    /// The keys of all requests that carried an order, each once, in the order they were first seen.
    pub fn keys(&self) -> Vec<String> {
        self.counter.keys_seen()
    }

    /// The requests for no endpoint of the desk. A test that expects none should say so:
    /// [`Desk::assert_nothing_suspicious`] does.
    pub fn strays(&self) -> Vec<Seen> {
        self.seen(|kind, _| kind == Kind::Stray)
    }

    /// What a careful client would not have done, in the order it happened. Empty for a good one.
    pub fn suspicions(&self) -> Vec<Suspicion> {
        self.counter.suspicions()
    }

    /// How many steps of the script are still to come: of its sequence and of the rules that are used up. What happens sometimes counts 0.
    pub fn script_left(&self) -> usize {
        self.counter.script_left()
    }

    /// The ledger.
    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        self.counter.do_what_is_due();
        &self.counter.ledger
    }

    /// The ledger's row of a key; see [`Ledger::read`]. Holds the thread up while a ledger elsewhere is asked.
    ///
    /// # Panics
    ///
    /// If the ledger can't be read.
    #[track_caller]
    pub fn row(&self, key: &str) -> Option<Row> {
        self.counter.do_what_is_due();
        match wait(self.counter.ledger.read(key)) {
            Ok(row) => row,
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// All rows of the ledger; see [`Ledger::rows`]. Holds the thread up while a ledger elsewhere is asked.
    ///
    /// # Panics
    ///
    /// If the ledger can't be read.
    #[track_caller]
    pub fn rows(&self) -> Vec<Row> {
        self.counter.do_what_is_due();
        match wait(self.counter.ledger.rows()) {
            Ok(rows) => rows,
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// What came of it all, in numbers: `requests`, `keys`, `orders`, `replayed`, `suspicions`, `script_left`.
    pub fn summary(&self) -> Value {
        control::summary(&self.counter)
    }

    /// The whole story, one line per request; what every failed assertion prints.
    pub fn story(&self) -> String {
        let requests = self.requests();
        if requests.is_empty() {
            return "  no request came".to_owned();
        }
        let lines: Vec<String> = requests.iter().map(|seen| format!("  {seen}")).collect();
        lines.join("\n")
    }

    fn seen(&self, wanted: impl Fn(Kind, &Seen) -> bool) -> Vec<Seen> {
        self.counter.do_what_is_due();
        let entries = self.counter.log.entries();
        let wanted = entries.into_iter().filter(|entry| wanted(entry.kind, &entry.seen));
        wanted.map(|entry| entry.seen).collect()
    }
}

/// Asserting. A failed assertion panics with the whole [story](Desk::story), and each of them fails too if a hook or a
/// handler panicked earlier.
impl Desk {
    /// Asserts that something took effect, and nothing twice: every order, amendment, cancellation and served request
    /// has a key, and no key has two.
    ///
    /// It cannot see that one order came under two keys; [`Desk::assert_nothing_suspicious`] and
    /// [`Desk::assert_one_order`] can.
    ///
    /// # Panics
    ///
    /// If that is not so.
    #[track_caller]
    pub fn assert_one_order_per_key(&self) {
        self.assert_no_panics();
        let effects = self.counter.effects();
        if effects.is_empty() {
            self.fail("one order per key: nothing was ordered at all");
        }
        for effect in &effects {
            let Some(key) = &effect.key else {
                self.fail(&format!("one order per key: request #{} took effect without a key", effect.number));
            };
            let same: Vec<String> = effects
                .iter()
                .filter(|other| other.key.as_ref() == Some(key) && other.tenant == effect.tenant)
                .map(|other| format!("#{}", other.number))
                .collect();
            if same.len() > 1 {
                let (times, requests) = (same.len(), same.join(", "));
                self.fail(&format!("one order per key: {key} took effect {times} times, by {requests}"));
            }
        }
    }

    /// Asserts that exactly one order, as it stands now, is like that.
    ///
    /// # Panics
    ///
    /// If none is, or more than one.
    #[track_caller]
    pub fn assert_one_order(&self, which: impl Fn(&Value) -> bool) {
        self.assert_no_panics();
        let orders = self.orders();
        let like_that = orders.iter().filter(|order| which(order)).count();
        if like_that != 1 {
            let all = orders.len();
            self.fail(&format!("one order: {like_that} of {all} orders are like that{}", listed(&orders)));
        }
    }

    /// Asserts that there is exactly one order in all, as it stands now, and that it is like that.
    ///
    /// # Panics
    ///
    /// If there is none, or more than one, or it is not like that.
    #[track_caller]
    pub fn assert_exactly_one_order(&self, which: impl Fn(&Value) -> bool) {
        self.assert_no_panics();
        let orders = self.orders();
        match orders.as_slice() {
            [order] if which(order) => {}
            [_] => self.fail(&format!("exactly one order: it is not like that{}", listed(&orders))),
            _ => self.fail(&format!("exactly one order: there are {}{}", orders.len(), listed(&orders))),
        }
    }

    /// Asserts that there are no [suspicions](Desk::suspicions) and no [strays](Desk::strays).
    ///
    /// # Panics
    ///
    /// If there are.
    #[track_caller]
    pub fn assert_nothing_suspicious(&self) {
        self.assert_no_panics();
        let mut smells: Vec<String> = self.suspicions().iter().map(|suspicion| format!("\n  {suspicion}")).collect();
        smells.extend(self.strays().iter().map(|stray| format!("\n  a stray: {stray}")));
        if !smells.is_empty() {
            self.fail(&format!("nothing suspicious: {}", smells.concat()));
        }
    }

    /// Asserts that every step of the script came up that is [counted](Desk::script_left). A fault that never happened proves nothing.
    ///
    /// # Panics
    ///
    /// If some are left.
    #[track_caller]
    pub fn assert_script_played(&self) {
        self.assert_no_panics();
        let left = self.script_left();
        if left > 0 {
            self.fail(&format!("the script was played: {left} of its situations never came up"));
        }
    }

    #[track_caller]
    fn assert_no_panics(&self) {
        let panics = self.counter.panics();
        if !panics.is_empty() {
            self.fail(&panics.join("\n"));
        }
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "this is where a test fails; everything else in the desk answers instead")]
    fn fail(&self, what: &str) -> ! {
        panic!("{what}\nthe requests:\n{}", self.story());
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("url", &self.url())
            .field("requests", &self.counter.log.entries().len())
            .field("orders", &self.orders().len())
            .finish_non_exhaustive()
    }
}

/// Orders for a failed assertion, a line each.
fn listed(orders: &[Value]) -> String {
    orders.iter().map(|order| format!("\n  {order}")).collect()
}

/// There was no work to finish under a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no work is stuck under the key {key}")]
#[non_exhaustive]
pub struct NothingStuck {
    /// The key.
    pub key: String,
}

/// Mounts two mocks that are one: the first decides and, if the connection is to be closed, closes it; the second
/// speaks what was decided.
///
/// wiremock fixes at mounting time whether a mock answers or hangs up, and asks matchers in order of priority, each
/// once per request, under the same lock that it responds under. So the decision may be made in the matcher, and the
/// slot between the two holds the decision of the request at hand and no other.
async fn mount(server: &MockServer, counter: &Arc<Counter>) {
    let slot = Arc::new(Mutex::new(None));
    Mock::given(HangsUp {
        counter: Arc::clone(counter),
        slot: Arc::clone(&slot),
    })
    .respond_with_err(|_: &wiremock::Request| std::io::Error::other("the desk hangs up"))
    .with_priority(1)
    .mount(server)
    .await;
    Mock::given(matchers::any())
        .respond_with(move |_: &wiremock::Request| speak(&slot))
        .with_priority(2)
        .mount(server)
        .await;
}

type Slot = Arc<Mutex<Option<Decision>>>;

struct HangsUp {
    counter: Arc<Counter>,
    slot: Slot,
}

impl Match for HangsUp {
    fn matches(&self, request: &wiremock::Request) -> bool {
        let decision = self.counter.receive(request);
        let hangs_up = decision.reply.is_none();
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(decision);
        hangs_up
    }
}

fn speak(slot: &Slot) -> ResponseTemplate {
    let decision = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    match decision {
        Some(Decision {
            reply: Some(reply), delay, ..
        }) if delay.is_zero() => reply.template(),
        Some(Decision {
            reply: Some(reply), delay, ..
        }) => reply.template().set_delay(delay),
        _ => Reply::problem(599, "nothing_decided", "the test desk has nothing to say").template(),
    }
}
