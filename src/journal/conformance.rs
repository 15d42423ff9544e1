//! What every [`Store`] must do, as a suite that runs on any: on the crate's own, and on yours.
//!
//! ```
//! use std::sync::Arc;
//! use uketsuke::{Journal, journal::{conformance::{self, Keeps}, store::Store}};
//! # use uketsuke::journal::core;
//!
//! # #[tokio::main]
//! # async fn main() {
//! // Each name is a book of its own. The same name again, after a `close`, is the same book: or it is gone with the process.
//! # let books = tempfile::tempdir().unwrap();
//! let open = async |name: &str| -> Arc<dyn Store> { core::store(&books.path().join(name)).await.unwrap() };
//! if let Err(broken) = conformance::check(open, Keeps::ForGood).await {
//!     panic!("{broken}");
//! }
//! # }
//! ```
//!
//! It says nothing about power cuts: what [`durable`](super::store::Store::durable) promises only a disk that loses things can show.

use super::{
    memory::ready,
    store::{Decide, Mark, Record, Standing, Store, StoreError, StoreErrorKind, Turn},
};
use crate::{
    clock::Timestamp,
    future::BoxFuture,
    ids::{IdempotencyKey, OwnerId},
    intent::Columns,
    origin::Hash,
};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Whether a book outlives its closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Opened again under the same name, it is the same book.
    ForGood,
    /// It is gone with the process.
    WhileOpen,
}

/// A rule that a store breaks.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the store breaks the rule `{rule}`: {what}")]
#[non_exhaustive]
pub struct Broken {
    /// Its name; see [`RULES`].
    pub rule: &'static str,
    /// What was seen, and what should have been.
    pub what: String,
}

/// The rules, in the order in which they are tried.
pub const RULES: [&str; 14] = [
    "what is appended is read back, byte for byte and in order",
    "a decision that ends with an error writes nothing",
    "a turn sees what it appended itself, and everything before it",
    "claims are found by origin, by source and by repeat",
    "of many at once one claims",
    "a turn that was handed over completes, whoever is dropped",
    "what is not done is listed in the order of the claims, page by page",
    "marks grow, and what they stand for can be made durable",
    "whoever waits for news hears of it, and hears in time that there is none",
    "this owner lives, and nobody else does",
    "compaction forgets nothing",
    "every order is listed once, oldest claim first, wherever it stands",
    "a closed book says so, and a kept one is the same when it is opened again",
    "claims are listed by their time, behind any one of them",
];

/// Runs every rule, each on a book of its own, and says which is broken first.
///
/// # Errors
/// The first rule that does not hold.
pub async fn check(open: impl AsyncFn(&str) -> Arc<dyn Store>, keeps: Keeps) -> Result<(), Broken> {
    for (n, rule) in RULES.into_iter().enumerate() {
        let name = format!("book-{n}");
        let store = open(&name).await;
        let seen = match n {
            0 => read_back(&*store).await,
            1 => an_error_writes_nothing(&*store).await,
            2 => a_turn_sees(&*store).await,
            3 => found(&*store).await,
            4 => one_of_many(&store).await,
            5 => dropped(&*store).await,
            6 => listed(&*store).await,
            7 => marks(&*store).await,
            8 => news(&*store).await,
            9 => alive(&*store).await,
            10 => compacted(&*store).await,
            11 => all_listed(&*store).await,
            12 => closed(&store, &open, &name, keeps).await,
            _ => dated(&*store).await,
        };
        seen.map_err(|what| Broken { rule, what: what.0 })?;
    }
    Ok(())
}

/// What was seen instead.
struct Seen(String);

impl From<StoreError> for Seen {
    fn from(error: StoreError) -> Self {
        Seen(format!("it answers {:?}: {error}", error.kind()))
    }
}

type Held = Result<(), Seen>;

fn same<T: PartialEq + fmt::Debug>(what: &str, seen: T, right: T) -> Held {
    match seen == right {
        true => Ok(()),
        false => Err(Seen(format!("{what}: {seen:?} instead of {right:?}"))),
    }
}

/// From 1 on: all zero says that there is none.
fn hash(n: u8) -> Hash {
    [n; 32]
}

/// The n-th key: all different, none of them minted.
fn key(n: u32) -> Result<IdempotencyKey, Seen> {
    let text = format!("{:08x}-0000-4000-8000-{n:012x}", n.wrapping_mul(0x9e37_79b9));
    text.parse().map_err(|_| Seen("a key of the suite's own is no key".to_owned()))
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_millis(1_796_083_200_000 + minute * 60_000)
}

fn columns(origin: u8, source: u8, repeat: u8) -> Columns {
    Columns {
        origin: Some(hash(origin)),
        source: Some(hash(source)),
        repeat: hash(repeat),
    }
}

fn record(key: IdempotencyKey, name: &str, minute: i64, standing: Standing, columns: Option<Columns>) -> Record {
    Record {
        key,
        name: name.to_owned(),
        at: at(minute),
        standing,
        columns,
        data: Bytes::from(format!(r#"{{"minute":{minute},"text":"é \" \\ \u2028 受付 }}"}}"#)),
    }
}

fn claimed(key: IdempotencyKey, minute: i64, columns: Columns) -> Record {
    record(key, "claimed", minute, Standing::Open, Some(columns))
}

fn settled(key: IdempotencyKey, minute: i64) -> Record {
    record(key, "settled", minute, Standing::Done, None)
}

fn appending(records: Vec<Record>) -> Decide {
    Box::new(move |turn| {
        records.into_iter().for_each(|record| turn.append(record));
        ready(())
    })
}

async fn append(store: &dyn Store, records: Vec<Record>) -> Result<Mark, StoreError> {
    store.turn(appending(records)).await
}

/// Asks under a turn, and says what was answered.
async fn ask<T: Send + 'static>(
    store: &dyn Store,
    question: impl for<'t> FnOnce(&'t mut dyn Turn) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static,
) -> Result<T, Seen> {
    let answer = Arc::new(Mutex::new(None));
    let told = Arc::clone(&answer);
    let decide: Decide = Box::new(move |turn| {
        Box::pin(async move {
            let answer = question(turn).await?;
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            Ok(())
        })
    });
    store.turn(decide).await?;
    let told = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
    told.ok_or_else(|| Seen("a turn ended well without running its decision".to_owned()))
}

fn shape(story: &[Record]) -> Vec<(String, Timestamp, Standing, Option<Columns>, Bytes)> {
    let parts = |r: &Record| (r.name.clone(), r.at, r.standing, r.columns, r.data.clone());
    story.iter().map(parts).collect()
}

async fn read_back(store: &dyn Store) -> Held {
    let (a, b) = (key(1)?, key(2)?);
    let mut large = record(a, "observed", 2, Standing::Open, None);
    large.data = Bytes::from(format!("\"{}\"", "x".repeat(1 << 20)));
    let of_a = vec![claimed(a, 1, columns(1, 1, 1)), large, settled(a, 4)];
    let of_b = vec![claimed(b, 3, columns(2, 2, 2))];
    append(store, of_a.get(..2).unwrap_or_default().to_vec()).await?;
    append(store, of_b.clone()).await?;
    append(store, of_a.get(2..).unwrap_or_default().to_vec()).await?;
    same("a story", shape(&store.story(a).await?), shape(&of_a))?;
    same("the other story", shape(&store.story(b).await?), shape(&of_b))?;
    same("the story of an unknown key", store.story(key(3)?).await?.len(), 0)
}

async fn an_error_writes_nothing(store: &dyn Store) -> Held {
    let a = key(1)?;
    let failing: Decide = Box::new(move |turn| {
        turn.append(claimed(a, 1, columns(1, 1, 1)));
        Box::pin(async { Err(StoreError::new(StoreErrorKind::Refused, "no")) })
    });
    match store.turn(failing).await {
        Ok(_) => return Err(Seen("a decision that ended with an error was told as written".to_owned())),
        Err(error) => same("its error", error.kind(), StoreErrorKind::Refused)?,
    }
    same("its story", store.story(a).await?.len(), 0)?;
    let found = ask(store, |turn| turn.by_origin(hash(1), hash(1))).await?;
    same("its origin", found, None)?;
    same("what is not done", store.unsettled(None, 10).await?.len(), 0)
}

async fn a_turn_sees(store: &dyn Store) -> Held {
    let a = key(1)?;
    append(store, vec![claimed(a, 1, columns(1, 1, 1))]).await?;
    let seen = ask(store, move |turn| {
        Box::pin(async move {
            let before = turn.story(a).await?.len();
            turn.append(settled(a, 2));
            Ok((before, turn.story(a).await?.len()))
        })
    });
    same("records before and after an append", seen.await?, (1, 2))?;
    same("records after the turn", ask(store, move |turn| turn.story(a)).await?.len(), 2)
}

async fn found(store: &dyn Store) -> Held {
    let (old, new, other, lone) = (key(1)?, key(2)?, key(3)?, key(4)?);
    append(store, vec![claimed(old, 1, columns(1, 9, 5)), settled(old, 1)]).await?;
    append(store, vec![claimed(other, 2, columns(2, 9, 5))]).await?;
    append(store, vec![claimed(new, 3, columns(1, 9, 5)), settled(new, 3)]).await?;
    let without = Columns {
        origin: None,
        source: None,
        repeat: hash(6),
    };
    append(store, vec![claimed(lone, 4, without)]).await?;
    let origin = ask(store, |turn| turn.by_origin(hash(1), hash(9))).await?;
    same("the newest claim of an origin", origin, Some(new))?;
    let unknown = ask(store, |turn| turn.by_origin(hash(3), hash(9))).await?;
    same("the claim of an unknown origin", unknown, None)?;
    let sources = ask(store, |turn| turn.by_source(hash(9))).await?;
    same("claims of a source, newest first", sources, vec![new, other, old])?;
    let near = ask(store, |turn| turn.by_repeat(hash(5), at(3))).await?;
    same("equal claims since minute 3, or not done", near, vec![new, other])?;
    let all = ask(store, |turn| turn.by_repeat(hash(5), at(-1_000_000))).await?;
    same("all equal claims", all, vec![new, other, old])?;
    let lonely = ask(store, |turn| turn.by_repeat(hash(6), at(100))).await?;
    same("a claim without an origin, not done", lonely, vec![lone])
}

async fn one_of_many(store: &Arc<dyn Store>) -> Held {
    let mut waiting = Vec::new();
    for n in 0..64 {
        let mine = key(n)?;
        let decide: Decide = Box::new(move |turn| {
            Box::pin(async move {
                if turn.by_origin(hash(1), hash(1)).await?.is_none() {
                    turn.append(claimed(mine, 1, columns(1, 1, 1)));
                }
                Ok(())
            })
        });
        let store = Arc::clone(store);
        waiting.push(tokio::spawn(async move { store.commit(decide).await }));
    }
    for turn in waiting {
        let turn = turn.await.map_err(|_| Seen("a turn panicked".to_owned()))?;
        turn?.durable?;
    }
    let claims = ask(&**store, |turn| turn.by_source(hash(1))).await?;
    same("claims of one origin by 64 at once", claims.len(), 1)
}

async fn dropped(store: &dyn Store) -> Held {
    let a = key(1)?;
    drop(store.turn(appending(vec![claimed(a, 1, columns(1, 1, 1))])));
    drop(store.commit(appending(vec![settled(a, 2)])));
    same(
        "records of two turns that nobody waited for",
        ask(store, move |turn| turn.story(a)).await?.len(),
        2,
    )
}

async fn listed(store: &dyn Store) -> Held {
    for n in 0..10_u8 {
        append(store, vec![claimed(key(n.into())?, n.into(), columns(n + 1, n + 1, 1))]).await?;
    }
    append(store, vec![settled(key(0)?, 20), settled(key(3)?, 20), settled(key(4)?, 20)]).await?;
    // Looked at again: it is not done any more.
    append(store, vec![record(key(4)?, "observed", 21, Standing::Look, None)]).await?;
    let open: Result<Vec<IdempotencyKey>, Seen> = [1, 2, 4, 5, 6, 7, 8, 9].into_iter().map(key).collect();
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = store.unsettled(after, 3).await?;
        after = page.last().copied().or(after);
        if page.is_empty() {
            break;
        }
        pages.extend(page);
    }
    same("pages of three", pages, open?)
}

async fn marks(store: &dyn Store) -> Held {
    let mut last = None;
    for n in 0..5_u8 {
        let mark = append(store, vec![claimed(key(n.into())?, 1, columns(n + 1, 1, 1))]).await?;
        same("whether a later mark is larger", Some(mark) > last, true)?;
        store.durable(mark).await?;
        last = Some(mark);
    }
    let committed = store.commit(appending(vec![settled(key(0)?, 2)])).await?;
    committed.durable?;
    same("whether a commit's mark is larger", Some(committed.mark) > last, true)
}

async fn news(store: &dyn Store) -> Held {
    let now = store.changed(Mark(0), Duration::ZERO).await?;
    same(
        "the mark where nothing was written",
        store.changed(now, Duration::from_millis(20)).await?,
        now,
    )?;
    let waiting = store.changed(now, Duration::from_secs(60));
    let written = append(store, vec![claimed(key(1)?, 1, columns(1, 1, 1))]).await?;
    same("the news", waiting.await?, written)
}

async fn alive(store: &dyn Store) -> Held {
    let stranger: OwnerId = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
        .parse()
        .map_err(|_| Seen("an owner of the suite's own is none".to_owned()))?;
    let own = store.owner();
    same("whether this owner lives", ask(store, move |turn| turn.alive(own)).await?, true)?;
    same(
        "whether a stranger lives",
        ask(store, move |turn| turn.alive(stranger)).await?,
        false,
    )
}

/// Three times, with records for what moved out in between; against a list that forgets nothing by being one.
async fn compacted(store: &dyn Store) -> Held {
    let mut right: BTreeMap<IdempotencyKey, Vec<Record>> = BTreeMap::new();
    for round in 0..3_u8 {
        for n in 0..20_u8 {
            let a = key(u32::from(round) * 20 + u32::from(n))?;
            let mut records = vec![claimed(a, i64::from(round), columns(n + 1, n + 1, round * 20 + n + 1))];
            if n % 5 > 0 {
                records.push(settled(a, i64::from(round)));
            }
            right.entry(a).or_default().extend(records.clone());
            append(store, records).await?;
        }
        let late = record(key(u32::from(round))?, "joined", 9, Standing::Done, None);
        right.entry(late.key).or_default().push(late.clone());
        append(store, vec![late]).await?;
        let before = store.unsettled(None, 1000).await?;
        store.compact().await?;
        same("what is not done", store.unsettled(None, 1000).await?, before)?;
        for (key, records) in &right {
            same("a story after compaction", shape(&store.story(*key).await?), shape(records))?;
        }
        for n in 0..20_u8 {
            let newest = key(u32::from(round) * 20 + u32::from(n))?;
            let found = ask(store, move |turn| turn.by_origin(hash(n + 1), hash(n + 1))).await?;
            same("the newest claim of an origin after compaction", found, Some(newest))?;
            let sources = ask(store, move |turn| turn.by_source(hash(n + 1))).await?;
            same("claims of a source after compaction", sources.len(), usize::from(round) + 1)?;
        }
    }
    Ok(())
}

/// Orders with an origin and without, done and not, moved in several rounds, with records for what moved out in between; and one that has no claim.
async fn all_listed(store: &dyn Store) -> Held {
    same("the orders of an empty book", store.orders().await?.len(), 0)?;
    let mut right = Vec::new();
    for round in 0..3_u8 {
        for n in 0..10_u8 {
            let a = key(u32::from(round) * 10 + u32::from(n))?;
            let named = columns(round * 10 + n + 1, round * 10 + n + 1, 1);
            let without = Columns {
                origin: None,
                source: None,
                ..named
            };
            let columns = if n % 3 == 0 { without } else { named };
            append(store, vec![claimed(a, i64::from(round), columns)]).await?;
            right.push(a);
            if n % 4 > 0 {
                append(store, vec![settled(a, i64::from(round))]).await?;
            }
        }
        // What was not done is, and moves after what was claimed behind it.
        append(store, vec![settled(key(u32::from(round) * 10)?, 9)]).await?;
        append(store, vec![record(key(1)?, "joined", 9, Standing::Done, None)]).await?;
        let torn = key(100 + u32::from(round))?;
        append(store, vec![record(torn, "sent", 9, Standing::Open, None), settled(torn, 9)]).await?;
        right.push(torn);
        same("all orders", store.orders().await?, right.clone())?;
        store.compact().await?;
        same("all orders after compaction", store.orders().await?, right.clone())?;
        append(store, vec![record(key(2)?, "joined", 9, Standing::Done, None)]).await?;
        append(store, vec![settled(key(u32::from(round) * 10 + 4)?, 9)]).await?;
        same("all orders, one of which stands in both", store.orders().await?, right.clone())?;
    }
    Ok(())
}

async fn closed(store: &Arc<dyn Store>, open: &impl AsyncFn(&str) -> Arc<dyn Store>, name: &str, keeps: Keeps) -> Held {
    let a = key(1)?;
    append(&**store, vec![claimed(a, 1, columns(1, 1, 1))]).await?;
    let (id, owner) = (store.id(), store.owner());
    store.close().await?;
    match store.turn(appending(vec![settled(a, 2)])).await {
        Ok(_) => return Err(Seen("a closed book took a turn".to_owned())),
        Err(error) => same("the error of a turn", error.kind(), StoreErrorKind::Closed)?,
    }
    if keeps == Keeps::WhileOpen {
        return Ok(());
    }
    let again = open(name).await;
    same("the book's name", again.id(), id)?;
    same("whether its owner is another", again.owner() != owner, true)?;
    same("the story", again.story(a).await?.len(), 1)?;
    same("what is not done", again.unsettled(None, 10).await?, vec![a])?;
    same("all orders", again.orders().await?, vec![a])?;
    let lives = ask(&*again, move |turn| turn.alive(owner)).await?;
    same("whether the former owner lives", lives, false)
}

async fn dated(store: &dyn Store) -> Held {
    // Long ago, so that compaction moves what it may.
    let long_ago = |minute: i64| minute - 10_000_000;
    for (n, minute) in [(1_u8, 5), (2, 9), (3, 4), (4, 7), (5, 5)] {
        let (a, at) = (key(n.into())?, long_ago(minute));
        append(store, vec![claimed(a, at, columns(n, n, 1)), settled(a, at)]).await?;
        append(store, vec![record(key(1)?, "joined", at, Standing::Done, None)]).await?;
    }
    let since = async |after: Option<u32>, minute: i64| {
        let after = after.map(key).transpose()?;
        ask(store, move |turn| turn.claimed_since(after, at(long_ago(minute)))).await
    };
    let keys = |of: &[u32]| of.iter().map(|n| key(*n)).collect::<Result<Vec<_>, _>>();
    same("claims since minute 5", since(None, 5).await?, keys(&[1, 2, 4, 5])?)?;
    same("claims since minute 5, behind the second", since(Some(2), 5).await?, keys(&[4, 5])?)?;
    same(
        "claims behind the first, which was joined since",
        since(Some(1), 4).await?,
        keys(&[2, 3, 4, 5])?,
    )?;
    same("claims behind the last", since(Some(5), 1).await?, Vec::new())?;
    same("claims behind one that nobody knows", since(Some(9), 7).await?, keys(&[2, 4])?)?;
    // What is moved out need not be listed; what is listed behind it must be all that was claimed since.
    store.compact().await?;
    append(store, vec![claimed(key(6)?, long_ago(9), columns(6, 6, 1))]).await?;
    append(store, vec![record(key(5)?, "joined", long_ago(9), Standing::Done, None)]).await?;
    let behind = since(Some(5), 1).await?;
    same("whether a claim after compaction is listed", behind.contains(&key(6)?), true)
}
