//! The crash storm: agents that read the same mails are killed by SIGKILL, again and again, while they order at a desk that misbehaves; and
//! whoever comes after them goes on. Then it is counted what was lost and what was ordered twice. A test and a tool in one:
//!
//! ```text
//! UKETSUKE_KILLS=1000 cargo test --release --test it crash_storm -- --nocapture
//! ```
//!
//! `UKETSUKE_SEED` repeats the choices of an earlier run (who is killed when, what the desk does next); what the machine makes of them differs
//! each time. A judge that can't see proves nothing: with `UKETSUKE_BREAK=key_per_attempt` or `UKETSUKE_BREAK=skip_claim` the agents break the
//! promise, and the storm must turn red.
//!
//! The last line that the storm prints:
//!
//! ```text
//! kills=… origins=… orders=… before_send=… between_commit_and_mark=… replayed=… lost=0 doubled=0 receipts_equal=true
//! ```
//!
//! | figure | what is counted |
//! |---|---|
//! | `kills` | processes that ended by signal 9 |
//! | `origins` | mails that an agent ever began to submit; it says so before it does |
//! | `orders` | at the desk, at the end |
//! | `before_send` | keys that were in the log when their process was killed, of which the desk knew nothing, and which another process sent |
//! | `between_commit_and_mark` | keys whose order stood at the desk when the process that sent it was killed, and which the log did not call settled |
//! | `replayed` | requests that the desk answered from its store |
//! | `lost` | keys that came to the desk before they stood in the log, and mails that were claimed, or told to a caller, and are not ordered |
//! | `doubled` | mails with more than one order |
//! | `receipts_equal` | every receipt of every process, and what is told at the end, is the desk's own |
//!
//! `agent.rs` is the process that is killed, `judge.rs` kills and counts, `book.rs` reads the log with eyes of its own.

mod agent;
mod book;
mod judge;

use std::{
    collections::BTreeSet,
    fmt,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::Duration,
};
use uketsuke::testkit::{Breaks, HangUp, Script};

/// How the agents break the promise, from outside: no part of the crate knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// An agent that retries by itself, each time as if the mail were a new one: a fresh key for each attempt.
    KeyPerAttempt,
    /// Every second agent keeps its claims to itself: its journal is in memory, and dies with it.
    SkipClaim,
}

/// What is to be played.
#[derive(Clone, Copy, Debug)]
struct Storm {
    kills: usize,
    seed: u64,
    breaks: Option<Break>,
}

impl Storm {
    /// What the environment asks for.
    fn asked_for() -> Self {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
        };
        // Without optimisation everything takes longer, and the plain suite has to stay quick.
        let usual = if cfg!(debug_assertions) { 20 } else { 60 };
        Storm {
            kills: number("UKETSUKE_KILLS").map_or(usual, |kills| usize::try_from(kills).unwrap()),
            seed: number("UKETSUKE_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish() % 1_000_000),
            breaks: match std::env::var("UKETSUKE_BREAK").as_deref() {
                Err(_) | Ok("") => None,
                Ok("key_per_attempt") => Some(Break::KeyPerAttempt),
                Ok("skip_claim") => Some(Break::SkipClaim),
                Ok(other) => panic!("UKETSUKE_BREAK={other}: there are key_per_attempt and skip_claim"),
            },
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    origins: usize,
    orders: usize,
    before_send: usize,
    between: usize,
    replayed: usize,
    lost: BTreeSet<String>,
    doubled: BTreeSet<String>,
    /// Receipts that are not the desk's.
    unequal: BTreeSet<String>,
    /// What no agent should have been told, and no process should have done.
    odd: Vec<String>,
    /// What else there is to say of the run.
    notes: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kills={} origins={} orders={} before_send={} between_commit_and_mark={} replayed={} lost={} doubled={} receipts_equal={}",
            self.kills,
            self.origins,
            self.orders,
            self.before_send,
            self.between,
            self.replayed,
            self.lost.len(),
            self.doubled.len(),
            self.unequal.is_empty()
        )
    }
}

impl Tally {
    fn print(&self) {
        for note in &self.notes {
            println!("storm: {note}");
        }
        let wrong = [("lost", &self.lost), ("doubled", &self.doubled), ("unequal", &self.unequal)];
        for (what, list) in wrong {
            list.iter().take(10).for_each(|one| println!("storm: {what}: {one}"));
        }
        self.odd.iter().take(10).for_each(|one| println!("storm: odd: {one}"));
        println!("{self}");
    }
}

/// Nothing is lost and nothing is doubled, wherever a process is killed; and the storm was one: it met the moments that hurt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kill_loses_or_doubles_an_order() {
    let storm = Storm::asked_for();
    println!(
        "\nstorm: {} kills, seed {}, {:?}{}",
        storm.kills,
        storm.seed,
        storm.breaks,
        if cfg!(debug_assertions) { ", unoptimised" } else { "" }
    );
    let tally = judge::play(storm).await;
    tally.print();
    assert!(
        tally.lost.is_empty() && tally.doubled.is_empty() && tally.unequal.is_empty(),
        "{tally}"
    );
    assert_eq!(tally.orders, tally.origins, "each mail is one order");
    assert!(tally.odd.is_empty(), "{:?}", tally.odd);
    assert!(tally.kills >= storm.kills, "{tally}");
    assert!(
        tally.before_send > 0 && tally.between > 0 && tally.replayed > 0,
        "too calm: {tally}"
    );
}

/// The test of the test: a client that mints a key for each attempt orders twice, and the judge sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_per_attempt_is_seen_as_doubled() {
    let tally = judge::play(broken(Break::KeyPerAttempt)).await;
    assert!(!tally.doubled.is_empty() && !tally.unequal.is_empty(), "{tally}");
    assert!(tally.orders > tally.origins, "{tally}");
}

/// The test of the test: an order that is sent before its claim is on disk is a key that the log does not know, and the judge sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skipped_claim_is_seen_as_lost() {
    let tally = judge::play(broken(Break::SkipClaim)).await;
    assert!(!tally.lost.is_empty(), "{tally}");
}

fn broken(by: Break) -> Storm {
    Storm {
        kills: 12,
        seed: 1,
        breaks: Some(by),
    }
}

// ---- the choices, all of them drawn from the seed ------------------------------------------------------------------

/// A splitmix64: a few lines, and the same numbers everywhere.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn of(seed: u64, number: usize) -> Self {
        let mut dice = Dice(seed);
        Dice(dice.next() ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn millis(&mut self, below: u64) -> Duration {
        Duration::from_micros(self.below(below * 1000))
    }
}

/// A moment in an order's life at which a process may be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Its claim stands in the log.
    Claimed,
    /// A request has arrived at the desk, and nothing is done about it yet.
    Arrived,
    /// The desk has stored the order, and the answer has not left.
    Committed,
}

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
enum End {
    /// So long after it was started: while it opens the journal, or resumes.
    AfterStart(Duration),
    /// So long after it was given its mails.
    AfterMails(Duration),
    /// When that moment has come so many times for an order of its own.
    At(Moment, usize),
}

/// One process: what it reads, how it behaves, when it is killed.
#[derive(Debug)]
struct Plan {
    agent: String,
    mails: Vec<String>,
    habits: Vec<&'static str>,
    over_link: bool,
    end: End,
}

impl Plan {
    /// The choices for the n-th process.
    fn draw(storm: &Storm, number: usize) -> Self {
        let mut dice = Dice::of(storm.seed, number);
        let end = match dice.below(100) {
            0..10 => End::AfterStart(dice.millis(100)),
            10..45 => End::AfterMails(dice.millis(400)),
            45..65 => End::At(Moment::Claimed, 1 + dice.below(4) as usize),
            65..78 => End::At(Moment::Arrived, 1 + dice.below(4) as usize),
            _ => End::At(Moment::Committed, 1 + dice.below(4) as usize),
        };
        let mut habits = Vec::new();
        let mut habit = |name, has: bool| {
            if has {
                habits.push(name);
            }
        };
        habit("resumes", !dice.one_in(3));
        habit("slow_disk", matches!(end, End::At(Moment::Claimed, _)) || dice.one_in(4));
        habit("slow_pen", dice.one_in(4));
        habit("compacts", dice.one_in(4));
        habit("key_per_attempt", storm.breaks == Some(Break::KeyPerAttempt));
        habit("forgets", storm.breaks == Some(Break::SkipClaim) && number.is_multiple_of(2));
        Plan {
            agent: format!("agent-{number}"),
            mails: mails_for(number, &mut dice),
            habits,
            over_link: dice.one_in(3),
            end,
        }
    }
}

/// Three new mails for each process, and some of those that its neighbours read, before it and at the same time; in any order.
fn mails_for(number: usize, dice: &mut Dice) -> Vec<String> {
    let new = 3 * number;
    let mut mails: Vec<usize> = (new.saturating_sub(6)..new).filter(|_| dice.one_in(2)).collect();
    mails.extend(new..new + 3);
    for at in (1..mails.len()).rev() {
        mails.swap(at, dice.below(at as u64 + 1) as usize);
    }
    mails.into_iter().map(|mail| format!("MAIL-{mail}")).collect()
}

/// What the desk does to so many requests; and of each, whether it is a fault. Nothing in it refuses an order for good.
fn trouble(dice: &mut Dice, requests: usize) -> (Script, Vec<bool>) {
    let (mut script, mut faults) = (Script::new(), Vec::new());
    for _ in 0..requests {
        let chance = dice.below(100);
        script = match chance {
            0..45 => script.then_ok(),
            45..57 => script.commit_then_lose_reply(),
            57..65 => script.lose_request(),
            65..73 => script.status(503),
            73..78 => script.commit_then_status(504),
            78..82 => script.status(429),
            82..84 => script.accepted(),
            84..94 => script.reply_after(dice.millis(60)),
            // Longer than an attempt may take.
            94..96 => script.reply_after(Duration::from_millis(700)),
            96..98 => script.get_stuck(),
            _ => script.unauthorized(),
        };
        faults.push(chance >= 45);
    }
    (script, faults)
}

/// What the wire does to so many connections.
fn breaks(dice: &mut Dice, connections: usize) -> Breaks {
    (0..connections).fold(Breaks::new(), |plan, _| {
        let how = if dice.one_in(2) { HangUp::Reset } else { HangUp::Fin };
        let plan = match dice.below(10) {
            0 => plan.hang_up(how),
            1 => plan.lose_request(how),
            2 => plan.cut_request(40, how),
            3 => plan.lose_reply(how),
            4 => plan.cut_reply(20, how),
            5 => plan.cut_body(10, how),
            6 => plan.stall_body(5),
            7 => plan.delay_reply(dice.millis(80)),
            _ => plan.pass(),
        };
        plan.after_requests(dice.below(3) as usize)
    })
}
