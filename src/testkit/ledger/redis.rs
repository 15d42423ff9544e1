//! The ledger that servers share: a hash per key in Redis, and one Lua script that does every step whole.
//!
//! The connection lives on a thread with a runtime of its own. Calls come from threads that are parked while they wait (wiremock's) and from
//! runtimes that are busy; a connection driven by either would wait for itself.

use super::turned::Turned;
use super::{Ask, Claim, Claimed, Ledger, LedgerError, Row, RowState, Terms};
use crate::clock::Timestamp;
use crate::future::BoxFuture;
use crate::ids::OwnerId;
use crate::testkit::reply::Reply;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, Script, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, oneshot};

/// How long a call may take in all, its one repetition included.
const CALL_LIMIT: Duration = Duration::from_secs(5);
/// How long one answer may take, or one connection; two of each fit into a call.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
const CONNECT_LIMIT: Duration = Duration::from_millis(500);

/// A ledger in Redis, for as many desks and processes as like. Needs Redis 7 or newer, one server or one primary.
///
/// A claim whose answer was lost with the connection is asked for once more under its own token, and is then the same claim. PROCESSING
/// never expires; what is finished and forgotten is dropped by Redis itself a day and more later, so that memory is bounded.
///
/// A ledger is as durable as its Redis: one that is not persisted, or whose replica took over too early, forgets keys.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use uketsuke::testkit::{Desk, RedisLedger};
///
/// let ledger = RedisLedger::open("redis://127.0.0.1:6379").await?.under("shop:");
/// let desk = Desk::builder().ledger(Arc::new(ledger)).start().await?;
/// # Ok(())
/// # }
/// ```
pub struct RedisLedger {
    line: Arc<Line>,
    /// Where the connection is driven.
    driver: Driver,
    prefix: String,
    clock: Turned,
}

/// The way to the server: one connection for all calls, opened anew when it has died.
struct Line {
    client: Client,
    script: Script,
    held: Mutex<Held>,
}

/// The connection, and which one it is, so that a call that lost it does not hang up another's new one.
#[derive(Default)]
struct Held {
    number: u64,
    connection: Option<MultiplexedConnection>,
}

/// A thread with a runtime; it ends with the ledger.
struct Driver {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl RedisLedger {
    /// Opens the ledger of a server, such as `redis://127.0.0.1:6379/0`.
    ///
    /// # Errors
    /// [`LedgerError::Unreachable`] if nobody answers there. A server that goes away later is come back to.
    pub async fn open(url: &str) -> Result<Self, LedgerError> {
        let ledger = Self {
            line: Arc::new(Line {
                client: Client::open(url).map_err(unreachable)?,
                script: Script::new(include_str!("redis.lua")),
                held: Mutex::default(),
            }),
            driver: Driver::start()?,
            prefix: String::new(),
            clock: Turned::default(),
        };
        ledger.ask(Question::Plain(redis::cmd("PING"))).await?;
        Ok(ledger)
    }

    /// Puts this in front of every name in Redis, so that several ledgers share one server.
    #[must_use]
    pub fn under(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// One call of the script. The answer is a word and what belongs to it.
    async fn step(&self, verb: &str, key: &str, args: Vec<Vec<u8>>) -> Result<(String, Vec<Value>), LedgerError> {
        let prefix = &self.prefix;
        let names = ["idem:", "fence:"].map(|kind| format!("{prefix}{kind}{key}"));
        let names = [names.as_slice(), &[format!("{prefix}rows"), format!("{prefix}rejected")]].concat();
        let turned = self.clock.by().to_string();
        let args = [vec![verb.as_bytes().to_vec(), turned.into_bytes()], args].concat();
        let answer = self.ask(Question::Step { names, args }).await?;
        let corrupt = |why: String| LedgerError::Corrupt { key: key.to_owned(), why };
        let Value::Array(answer) = answer else {
            return Err(corrupt(format!("the script said {answer:?}")));
        };
        let mut answer = answer.into_iter();
        let word = answer.next().and_then(text).unwrap_or_default();
        match word.as_str() {
            "CORRUPT" => Err(corrupt(answer.next().and_then(text).unwrap_or_default())),
            _ => Ok((word, answer.collect())),
        }
    }

    /// A step on a claim of ours: done, or fenced out.
    async fn step_on(&self, verb: &str, claim: &Claim, answer: Option<&Reply>) -> Result<(), LedgerError> {
        let mut args = vec![claim.owner.clone().into_bytes(), claim.fence.to_string().into_bytes()];
        args.extend(answer.into_iter().flat_map(said));
        match self.step(verb, &claim.key, args).await?.0.as_str() {
            "OK" => Ok(()),
            "FENCED" => Err(LedgerError::fenced(claim)),
            other => Err(strange(&claim.key, other)),
        }
    }

    async fn ask(&self, question: Question) -> Result<Value, LedgerError> {
        let line = Arc::clone(&self.line);
        let asked = self.driver.handle.spawn(async move {
            let asked = tokio::time::timeout(CALL_LIMIT, line.ask(&question)).await;
            asked.unwrap_or_else(|_| Err(LedgerError::Unreachable(format!("no answer within {CALL_LIMIT:?}"))))
        });
        let gone = |error| LedgerError::Unreachable(format!("the ledger's own thread is gone: {error}"));
        asked.await.map_err(gone)?
    }

    async fn claim_now(&self, ask: Ask) -> Result<Claimed, LedgerError> {
        let owner = mint()?;
        let terms = [ask.terms.forget_after, ask.terms.result_for, ask.terms.lease].map(millis);
        let mut args = vec![owner.clone().into_bytes(), ask.contents.into_bytes()];
        args.extend(terms);
        args.push(size(ask.terms.body_max));
        args.push(ask.key.clone().into_bytes());
        let (word, rest) = self.step("claim", &ask.key, args).await?;
        let mut rest = rest.into_iter();
        let mut next = || rest.next();
        Ok(match word.as_str() {
            "NEW" => {
                let fence = next().and_then(number).ok_or_else(|| strange(&ask.key, "NEW without a fence"))?;
                Claimed::New(Claim {
                    key: ask.key,
                    owner,
                    fence,
                })
            }
            "KNOWN" => {
                let (status, headers, body) = (next().and_then(number), next(), next().and_then(bytes));
                let stored = status.zip(headers.and_then(lines)).zip(body);
                let ((status, headers), body) = stored.ok_or_else(|| strange(&ask.key, "an answer that is none"))?;
                Claimed::Known(Reply::stored(status, headers, body))
            }
            "INFLIGHT" => Claimed::InFlight,
            "UNCERTAIN" => Claimed::Uncertain,
            "GONE" => Claimed::ResultGone,
            "CONFLICT" => Claimed::Conflict,
            other => return Err(strange(&ask.key, other)),
        })
    }

    async fn row(&self, verb: &str, key: &str, args: Vec<Vec<u8>>) -> Result<Option<(u64, Row)>, LedgerError> {
        let (word, rest) = self.step(verb, key, args).await?;
        match word.as_str() {
            "NONE" => Ok(None),
            "ROW" => read_row(key, rest).map(Some).ok_or_else(|| strange(key, "a row that is none")),
            other => Err(strange(key, other)),
        }
    }

    /// The keys of all rows, without holding Redis up: some may come twice, none of those that stay is left out.
    async fn keys(&self) -> Result<Vec<String>, LedgerError> {
        let prefix = format!("{}idem:", self.prefix);
        let pattern: String = prefix
            .chars()
            .flat_map(|c| if r"*?[]\".contains(c) { vec!['\\', c] } else { vec![c] })
            .collect();
        let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(format!("{pattern}*")).arg("COUNT").arg(500);
            let page = redis::from_redis_value::<(String, Vec<Vec<u8>>)>(self.ask(Question::Plain(scan)).await?);
            let (next, page) = page.map_err(|error| LedgerError::Unreachable(error.to_string()))?;
            let names = page.into_iter().filter_map(|name| String::from_utf8(name).ok());
            keys.extend(names.filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned)));
            if next == "0" {
                keys.sort_unstable();
                keys.dedup();
                return Ok(keys);
            }
            cursor = next;
        }
    }

    async fn all_rows(&self) -> Result<Vec<Row>, LedgerError> {
        let mut rows = Vec::new();
        for key in self.keys().await? {
            rows.extend(self.row("read", &key, Vec::new()).await?);
        }
        let mut range = redis::cmd("LRANGE");
        range.arg(format!("{}rejected", self.prefix)).arg(0).arg(-1);
        let Value::Array(rejected) = self.ask(Question::Plain(range)).await? else {
            return Err(strange("", "the rejected are no list"));
        };
        for one in rejected {
            rows.push(read_rejected(one).ok_or_else(|| strange("", "a rejected row that is none"))?);
        }
        rows.sort_by_key(|(place, _)| *place);
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }
}

/// What is asked of Redis; kept, so that it can be asked once more.
enum Question {
    Step { names: Vec<String>, args: Vec<Vec<u8>> },
    Plain(Cmd),
}

impl Line {
    /// Asks, and once more on a new connection if the first gave no answer: each step knows its own repetition.
    async fn ask(&self, question: &Question) -> Result<Value, LedgerError> {
        match self.ask_once(question).await {
            Err(error) if lost(&error) => self.ask_once(question).await.map_err(unreachable),
            answered => answered.map_err(unreachable),
        }
    }

    async fn ask_once(&self, question: &Question) -> RedisResult<Value> {
        let (number, mut connection) = self.connection().await?;
        let asked = match question {
            Question::Step { names, args } => {
                let mut step = self.script.prepare_invoke();
                for name in names {
                    step.key(name);
                }
                for arg in args {
                    step.arg(arg);
                }
                step.invoke_async(&mut connection).await
            }
            Question::Plain(command) => command.query_async(&mut connection).await,
        };
        if asked.as_ref().is_err_and(lost) {
            self.hang_up(number).await;
        }
        asked
    }

    async fn connection(&self) -> RedisResult<(u64, MultiplexedConnection)> {
        let mut held = self.held.lock().await;
        if let Some(connection) = &held.connection {
            return Ok((held.number, connection.clone()));
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_LIMIT))
            .set_response_timeout(Some(ANSWER_LIMIT));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        held.number += 1;
        held.connection = Some(connection.clone());
        Ok((held.number, connection))
    }

    /// Leaves a connection behind, unless another call did so and has a new one already.
    async fn hang_up(&self, number: u64) {
        let mut held = self.held.lock().await;
        if held.number == number {
            held.connection = None;
        }
    }
}

impl Driver {
    fn start() -> Result<Self, LedgerError> {
        let failed = |error: std::io::Error| LedgerError::Unreachable(format!("no thread for the ledger: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let drive = move || drop(runtime.block_on(stopped));
        thread::Builder::new()
            .name("redis-ledger".to_owned())
            .spawn(drive)
            .map_err(failed)?;
        Ok(Self { handle, _stop: stop })
    }
}

/// No answer, or none that came in time: the question may have been heard.
fn lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_timeout() || error.is_unrecoverable_error()
}

fn unreachable(error: RedisError) -> LedgerError {
    LedgerError::Unreachable(error.to_string())
}

fn strange(key: &str, why: &str) -> LedgerError {
    LedgerError::Corrupt {
        key: key.to_owned(),
        why: why.to_owned(),
    }
}

fn mint() -> Result<String, LedgerError> {
    let owner = OwnerId::mint().map_err(|error| LedgerError::Unreachable(error.to_string()))?;
    Ok(owner.to_string())
}

/// A length of time for the script, which counts in numbers that are exact up to 2^53.
fn millis(kept: Option<Duration>) -> Vec<u8> {
    const FOR_EVER: u128 = 1_000_000_000_000_000;
    let text = kept.map(|kept| kept.as_millis().min(FOR_EVER).to_string());
    text.unwrap_or_default().into_bytes()
}

fn size(max: Option<usize>) -> Vec<u8> {
    max.map(|max| max.to_string()).unwrap_or_default().into_bytes()
}

/// Status, headers and body as the script takes them.
fn said(answer: &Reply) -> [Vec<u8>; 3] {
    let headers = serde_json::json!(answer.kept_headers()).to_string();
    [
        answer.code().to_string().into_bytes(),
        headers.into_bytes(),
        answer.bytes().to_vec(),
    ]
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

fn text(value: Value) -> Option<String> {
    String::from_utf8(bytes(value)?).ok()
}

fn number<N: std::str::FromStr>(value: Value) -> Option<N> {
    text(value)?.parse().ok()
}

fn lines(value: Value) -> Option<Vec<(String, String)>> {
    serde_json::from_slice(&bytes(value)?).ok()
}

fn read_row(key: &str, flat: Vec<Value>) -> Option<(u64, Row)> {
    let mut fields = HashMap::new();
    let mut flat = flat.into_iter();
    while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
        fields.insert(text(name)?, value);
    }
    let mut take = |name: &str| fields.remove(name);
    let time = |value: Option<Value>| value.and_then(number).map(Timestamp::from_millis);
    let row = Row {
        key: key.to_owned(),
        contents: take("contents").and_then(text),
        state: match take("state").and_then(text)?.as_str() {
            "PROCESSING" => RowState::Processing,
            "SUCCEEDED" => RowState::Succeeded,
            "FAILED" => RowState::Failed,
            _ => return None,
        },
        begun: take("begun").and_then(text)? == "1",
        status: match take("status") {
            Some(status) => Some(number(status)?),
            None => None,
        },
        body: take("body").and_then(bytes),
        headers: match take("headers") {
            Some(headers) => lines(headers)?,
            None => Vec::new(),
        },
        fence: take("fence").and_then(number)?,
        created: time(take("created"))?,
        updated: time(take("updated"))?,
    };
    Some((take("seq").and_then(number)?, row))
}

fn read_rejected(stored: Value) -> Option<(u64, Row)> {
    let mut fields: HashMap<String, String> = serde_json::from_slice(&bytes(stored)?).ok()?;
    let at = Timestamp::from_millis(fields.get("at")?.parse().ok()?);
    let row = Row::new(&fields.remove("key")?, fields.remove("contents"), RowState::Rejected, 0, at);
    Some((fields.get("seq")?.parse().ok()?, row))
}

impl Ledger for RedisLedger {
    fn claim(&self, ask: Ask) -> BoxFuture<'_, Result<Claimed, LedgerError>> {
        Box::pin(self.claim_now(ask))
    }

    fn begin(&self, claim: &Claim) -> BoxFuture<'_, Result<(), LedgerError>> {
        let claim = claim.clone();
        Box::pin(async move { self.step_on("begin", &claim, None).await })
    }

    fn complete(&self, claim: &Claim, answer: &Reply) -> BoxFuture<'_, Result<(), LedgerError>> {
        let (claim, answer) = (claim.clone(), answer.clone());
        Box::pin(async move { self.step_on("complete", &claim, Some(&answer)).await })
    }

    fn release(&self, claim: &Claim) -> BoxFuture<'_, Result<(), LedgerError>> {
        let claim = claim.clone();
        Box::pin(async move { self.step_on("release", &claim, None).await })
    }

    fn read(&self, key: &str) -> BoxFuture<'_, Result<Option<Row>, LedgerError>> {
        let key = key.to_owned();
        Box::pin(async move { Ok(self.row("read", &key, Vec::new()).await?.map(|(_, row)| row)) })
    }

    fn tombstone(&self, key: &str, answer: &Reply, terms: Terms) -> BoxFuture<'_, Result<Option<Row>, LedgerError>> {
        let (key, mut args) = (key.to_owned(), said(answer).to_vec());
        args.extend([millis(terms.forget_after), millis(terms.result_for), size(terms.body_max)]);
        Box::pin(async move {
            args.push(mint()?.into_bytes());
            Ok(self.row("tombstone", &key, args).await?.map(|(_, row)| row))
        })
    }

    fn overrule(&self, key: &str, answer: &Reply) -> BoxFuture<'_, Result<bool, LedgerError>> {
        let (key, mut args) = (key.to_owned(), said(answer).to_vec());
        Box::pin(async move {
            args.push(mint()?.into_bytes());
            match self.step("overrule", &key, args).await?.0.as_str() {
                "OK" => Ok(true),
                "NONE" => Ok(false),
                other => Err(strange(&key, other)),
            }
        })
    }

    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, LedgerError>> {
        Box::pin(self.all_rows())
    }

    /// This machine's clock, turned as the ledger's is. The steps themselves ask the server's.
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn turn_clock(&self, millis: i64) {
        self.clock.turn(millis);
    }
}

impl fmt::Debug for RedisLedger {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLedger").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
