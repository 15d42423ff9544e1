//! The one atomic step, by threads let go together, apart from any HTTP: wiremock asks one at a time and would hide a race.

use std::fmt;
use std::future::ready;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use uketsuke::BoxFuture;
use uketsuke::testkit::{Ask, Claim, Claimed, Ledger, LedgerError, MemoryLedger, Reply, Row, Terms};

const ROUNDS: usize = 500;
const THREADS: usize = 64;

/// How often each round's key was won: 64 threads ask for it together, in each of 500 rounds.
fn wins(ledger: &dyn Ledger) -> Vec<usize> {
    let start = Barrier::new(THREADS);
    let race = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let win = |round| {
            start.wait();
            match runtime
                .block_on(ledger.claim(Ask::new(format!("round-{round}"), "contents")))
                .unwrap()
            {
                Claimed::New(_) => 1,
                Claimed::InFlight => 0,
                other => panic!("round {round}: {other:?}"),
            }
        };
        (0..ROUNDS).map(win).collect::<Vec<usize>>()
    };
    thread::scope(|scope| {
        let racers: Vec<_> = (0..THREADS).map(|_| scope.spawn(race)).collect();
        let all = racers.into_iter().map(|racer| racer.join().unwrap());
        all.fold(vec![0; ROUNDS], |sum, one| sum.iter().zip(one).map(|(a, b)| a + b).collect())
    })
}

/// The judge: the rounds that were not won exactly once.
fn misjudged(ledger: &dyn Ledger) -> usize {
    wins(ledger).into_iter().filter(|wins| *wins != 1).count()
}

#[test]
fn in_memory_each_of_500_rounds_is_won_once_by_64_threads() {
    assert_eq!(misjudged(&MemoryLedger::new()), 0);
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn in_redis_each_of_500_rounds_is_won_once_by_64_threads() {
    let Some(server) = super::server::shared() else { return };
    // The threads hold this runtime's only thread up all the while: the ledger must not need it.
    assert_eq!(misjudged(&server.ledger("race:").await), 0);
}

#[test]
fn a_split_claim_is_caught() {
    let there = std::sync::Mutex::new(std::collections::HashSet::new());
    let split = Split::new(
        |key| there.lock().unwrap().contains(key),
        |key| {
            there.lock().unwrap().insert(key.to_owned());
        },
    );
    assert_ne!(misjudged(&split), 0);
}

#[cfg(feature = "redis")]
#[test]
fn a_split_claim_in_redis_is_caught() {
    let Some(server) = super::server::shared() else { return };
    let lines = std::sync::Mutex::new(Vec::new());
    let on_a_line = |command: &redis::Cmd| {
        let held = lines.lock().unwrap().pop();
        let mut line = held.unwrap_or_else(|| server.plain());
        let said: bool = command.query(&mut line).unwrap();
        lines.lock().unwrap().push(line);
        said
    };
    let split = Split::new(
        |key| on_a_line(redis::cmd("EXISTS").arg(format!("split:{key}"))),
        |key| {
            on_a_line(redis::cmd("HSET").arg(format!("split:{key}")).arg("state").arg("PROCESSING"));
        },
    );
    assert_ne!(misjudged(&split), 0);
}

/// A ledger whose claim is a look and then a write: what the others must not be.
struct Split<Look, Write> {
    look: Look,
    write: Write,
    claims: AtomicU64,
    inner: MemoryLedger,
}

impl<Look: Fn(&str) -> bool, Write: Fn(&str)> Split<Look, Write> {
    fn new(look: Look, write: Write) -> Self {
        Self {
            look,
            write,
            claims: AtomicU64::new(0),
            inner: MemoryLedger::new(),
        }
    }
}

impl<Look, Write> fmt::Debug for Split<Look, Write> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Split")
    }
}

impl<Look: Fn(&str) -> bool + Send + Sync, Write: Fn(&str) + Send + Sync> Ledger for Split<Look, Write> {
    fn claim(&self, ask: Ask) -> BoxFuture<'_, Result<Claimed, LedgerError>> {
        if (self.look)(&ask.key) {
            return Box::pin(ready(Ok(Claimed::InFlight)));
        }
        // Here they come apart; another thread may go first.
        thread::yield_now();
        (self.write)(&ask.key);
        // Only a ledger makes claims, so one is had from a ledger, under a key of its own.
        let own = format!("{}-{}", ask.key, self.claims.fetch_add(1, Ordering::SeqCst));
        self.inner.claim(Ask::new(own, ask.contents))
    }

    fn begin(&self, claim: &Claim) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.inner.begin(claim)
    }

    fn complete(&self, claim: &Claim, answer: &Reply) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.inner.complete(claim, answer)
    }

    fn release(&self, claim: &Claim) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.inner.release(claim)
    }

    fn read(&self, key: &str) -> BoxFuture<'_, Result<Option<Row>, LedgerError>> {
        self.inner.read(key)
    }

    fn tombstone(&self, key: &str, answer: &Reply, terms: Terms) -> BoxFuture<'_, Result<Option<Row>, LedgerError>> {
        self.inner.tombstone(key, answer, terms)
    }

    fn overrule(&self, key: &str, answer: &Reply) -> BoxFuture<'_, Result<bool, LedgerError>> {
        self.inner.overrule(key, answer)
    }

    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, LedgerError>> {
        self.inner.rows()
    }

    fn turn_clock(&self, millis: i64) {
        self.inner.turn_clock(millis);
    }
}
