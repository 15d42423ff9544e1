//! `uketsuke desk`: starts a desk, tells a line per request, and sums up when it is stopped.

use clap::Args;
use serde_json::json;
use std::{
    fmt,
    io::{self, Write as _},
    net::SocketAddr,
    sync::Arc,
};
use uketsuke::{
    Clock as _, SystemClock,
    testkit::{Desk, DeskBuilder, Ledger, MemoryLedger, Script, Seen, ServerDialect, Unkind},
};

const EXAMPLES: &str = "\
Examples:
  uketsuke desk --script \"lose reply x1; 503 x2; ok\"
  uketsuke desk --listen 127.0.0.1:8080 --dialect stripe
  uketsuke desk --ledger redis://127.0.0.1:6379 --json

While it runs, a test in any language asks GET /_desk/orders, /_desk/requests, /_desk/suspicions or
/_desk/summary, and sets POST /_desk/script; POST /_desk/change/ORDER is somebody else who changes
an order. Ctrl-C stops it and prints a summary.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Where to listen; port 0 is a free one. Anywhere but on loopback, whoever reaches it can order and read.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How it speaks: ietf, stripe, gocardless, increase, checkout, square, paypal, adyen, alpaca, coinbase, toast, repeatability, worldpay
    #[arg(long, value_name = "NAME", default_value = "ietf")]
    dialect: ServerDialect,
    /// Where it keeps its keys: memory, or redis://HOST:PORT to share them with other desks.
    #[arg(long, value_name = "LEDGER", default_value = "memory")]
    ledger: Shelf,
    /// What goes wrong, in order, such as "lose reply x1; 503 x2; ok".
    #[arg(long, value_name = "SCRIPT")]
    script: Option<Script>,
    /// For what the script leaves to chance.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// In what way the server is no good one; may be given several times.
    #[arg(long, value_name = "HOW")]
    unkind: Vec<Unkind>,
    /// Heeds no keys at all: every request is an order.
    #[arg(long)]
    deaf: bool,
    /// One JSON object a line, instead of lines to read.
    #[arg(long)]
    json: bool,
}

const UNKNOWN_LEDGER: &str = "--ledger: a ledger is `memory` or `redis://HOST:PORT`";
const NO_REDIS: &str = "--ledger: this program was built without a ledger in Redis: build it with --features desk,redis";

/// Where the ledger is.
#[derive(Clone, Debug)]
enum Shelf {
    Memory,
    Redis(String),
    /// Something else. Refused later than other arguments are: a complaint of the parser's would repeat it, and it may hold a password.
    Unknown,
}

impl std::str::FromStr for Shelf {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "memory" => Shelf::Memory,
            url if url.starts_with("redis://") => Shelf::Redis(url.to_owned()),
            _ => Shelf::Unknown,
        })
    }
}

impl fmt::Display for Shelf {
    /// Without the address: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shelf::Memory => "memory",
            Shelf::Redis(_) => "redis",
            Shelf::Unknown => "unknown",
        })
    }
}

impl Shelf {
    async fn ledger(&self) -> Result<Arc<dyn Ledger>, String> {
        match self {
            Shelf::Memory => Ok(Arc::new(MemoryLedger::new())),
            Shelf::Redis(url) => in_redis(url).await,
            Shelf::Unknown => Err(UNKNOWN_LEDGER.to_owned()),
        }
    }
}

#[cfg(feature = "redis")]
async fn in_redis(url: &str) -> Result<Arc<dyn Ledger>, String> {
    match uketsuke::testkit::RedisLedger::open(url).await {
        Ok(ledger) => Ok(Arc::new(ledger)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(not(feature = "redis"))]
async fn in_redis(_: &str) -> Result<Arc<dyn Ledger>, String> {
    Err(NO_REDIS.to_owned())
}

pub(crate) async fn run(options: Options) -> Result<(), String> {
    // Before anybody is told that it runs, so that no signal is missed.
    let stopped = stopped().map_err(|e| format!("can't listen for Ctrl-C: {e}"))?;
    let desk = options.desk().await?;
    let json = options.json;
    // Before anybody is told where it listens, so that no request goes untold.
    desk.on_answer(move |seen| tell(seen, json));
    options.greet(&desk);
    stopped.await;
    options.farewell(&desk);
    Ok(())
}

impl Options {
    /// What is refused without being repeated.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self.ledger {
            Shelf::Unknown => Err(UNKNOWN_LEDGER),
            Shelf::Redis(_) if cfg!(not(feature = "redis")) => Err(NO_REDIS),
            Shelf::Memory | Shelf::Redis(_) => Ok(()),
        }
    }

    async fn desk(&self) -> Result<Desk, String> {
        let mut builder: DeskBuilder = Desk::builder().listen(self.listen).dialect(self.dialect);
        builder = builder.ledger(self.ledger.ledger().await?);
        for unkind in &self.unkind {
            builder = builder.unkind(*unkind);
        }
        if self.deaf {
            builder = builder.deaf();
        }
        let desk = builder.start().await;
        let desk = desk.map_err(|e| format!("can't listen on {}: {e}; give another --listen", self.listen))?;
        let script = self.script.clone().unwrap_or_default();
        desk.script(match self.seed {
            Some(seed) => script.seed(seed),
            None => script,
        });
        Ok(desk)
    }

    fn greet(&self, desk: &Desk) {
        let (url, dialect, ledger) = (desk.url(), self.dialect, &self.ledger);
        if !self.listen.ip().is_loopback() {
            eprintln!(
                "warning: {} is not this machine alone: whoever reaches it can order and read",
                self.listen
            );
        }
        say(&match self.json {
            true => json!({"event": "listening", "url": url, "dialect": dialect.to_string(), "ledger": ledger.to_string()}).to_string(),
            false => format!("the desk listens on {url} (dialect {dialect}, ledger {ledger}); Ctrl-C stops it"),
        });
    }

    fn farewell(&self, desk: &Desk) {
        let summary = desk.summary();
        if self.json {
            return say(&json!({"event": "stopped", "summary": summary}).to_string());
        }
        for suspicion in desk.suspicions() {
            say(&format!("suspicious: {suspicion}"));
        }
        let numbers = summary.as_object().into_iter().flatten();
        let numbers: Vec<String> = numbers.map(|(name, number)| format!("{name}={number}")).collect();
        say(&numbers.join(" "));
    }
}

fn tell(seen: &Seen, json: bool) {
    let at = SystemClock.now();
    say(&match json {
        true => json!({"event": "answered", "at": at, "request": seen.to_json()}).to_string(),
        false => format!("{at} {seen}"),
    });
}

/// A line. Whoever closed the other end of a pipe has seen enough; the desk goes on.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// Ctrl-C, or what a supervisor sends.
#[cfg(unix)]
fn stopped() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn stopped() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        drop(tokio::signal::ctrl_c().await);
    })
}
