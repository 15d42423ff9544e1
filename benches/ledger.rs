//! What a claim costs: the ledger in Redis beside a bare `SET NX` on the same server, the ledger in memory beside a map behind a lock.
//!
//! `cargo bench --features redis --bench ledger`; `-- --quick` for fewer rounds. All sides in one run, in turn, as ratios of medians; the base
//! runs against itself too, and how far that is from 1 is what the ratios are worth. Starts a `redis-server` of its own, without persistence.

use std::{
    collections::HashMap,
    error::Error,
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use uketsuke::testkit::{Ask, Claimed, Ledger, MemoryLedger, RedisLedger};

type Failure = Box<dyn Error + Send + Sync>;

#[expect(clippy::disallowed_methods, reason = "a stopwatch")]
fn now() -> Instant {
    Instant::now()
}

fn main() -> Result<(), Failure> {
    let rounds = if std::env::args().any(|arg| arg == "--quick") { 5 } else { 21 };
    let server = Server::start()?;
    for callers in [1, 64] {
        // A single caller shares his thread with the connection: with two, it is luck on which of them either wakes up.
        let workers = callers.min(2);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build()?;
        runtime.block_on(compare_redis(&server, callers, rounds))?;
        runtime.block_on(compare_memory(callers, rounds))?;
    }
    Ok(())
}

async fn compare_redis(server: &Server, callers: usize, rounds: usize) -> Result<(), Failure> {
    let ledger: Arc<dyn Ledger> = Arc::new(RedisLedger::open(&server.url()).await?.under("bench:"));
    let bare = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let total = if callers == 1 { 500 } else { 6400 };
    let mut sides = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for side in order(round) {
            let (ledger, bare) = (Arc::clone(&ledger), bare.clone());
            let rate = rate(callers, total, move |n| {
                let (ledger, mut bare) = (Arc::clone(&ledger), bare.clone());
                async move {
                    let key = format!("{callers}-{round}-{side}-{n}");
                    match side {
                        1 => win(ledger.as_ref(), key).await,
                        _ => {
                            let mut set = redis::cmd("SET");
                            set.arg(format!("bare:{key}")).arg("contents").arg("NX");
                            let set: Option<String> = set.query_async(&mut bare).await?;
                            set.map(drop).ok_or_else(|| Failure::from("the key was there"))
                        }
                    }
                }
            });
            // The first round warms up.
            let rate = rate.await?;
            if round > 0
                && let Some(rates) = sides.get_mut(side)
            {
                rates.push(rate);
            }
        }
        redis::cmd("FLUSHALL").query_async::<()>(&mut bare.clone()).await?;
    }
    report("redis", callers, "bare SET NX", sides);
    Ok(())
}

async fn compare_memory(callers: usize, rounds: usize) -> Result<(), Failure> {
    let total = 64_000;
    let mut sides = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for side in order(round) {
            let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
            let map = Arc::new(Mutex::new(HashMap::new()));
            let rate = rate(callers, total, move |n| {
                let (ledger, map) = (Arc::clone(&ledger), Arc::clone(&map));
                async move {
                    let key = format!("{callers}-{round}-{side}-{n}");
                    match side {
                        1 => win(ledger.as_ref(), key).await,
                        _ => {
                            let before = map
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .insert(key, "contents".to_owned());
                            before.map_or(Ok(()), |_| Err(Failure::from("the key was there")))
                        }
                    }
                }
            });
            let rate = rate.await?;
            if round > 0
                && let Some(rates) = sides.get_mut(side)
            {
                rates.push(rate);
            }
        }
    }
    report("memory", callers, "a map behind a lock", sides);
    Ok(())
}

/// To and fro, so that each of the two bases runs behind the ledger as often as the other: what runs behind it finds memory warm.
fn order(round: usize) -> [usize; 3] {
    match round % 2 {
        0 => [0, 1, 2],
        _ => [2, 1, 0],
    }
}

async fn win(ledger: &dyn Ledger, key: String) -> Result<(), Failure> {
    match ledger.claim(Ask::new(key, "contents")).await? {
        Claimed::New(_) => Ok(()),
        other => Err(format!("not won: {other:?}").into()),
    }
}

/// Calls a second, by as many callers at once, each its share one after the other.
async fn rate<Call, Done>(callers: usize, total: usize, call: Call) -> Result<f64, Failure>
where
    Call: Fn(usize) -> Done + Clone + Send + 'static,
    Done: Future<Output = Result<(), Failure>> + Send,
{
    let share = total / callers;
    let began = now();
    let tasks = (0..callers).map(|caller| {
        let call = call.clone();
        tokio::spawn(async move {
            for n in 0..share {
                call(caller * share + n).await?;
            }
            Ok::<(), Failure>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    #[expect(clippy::cast_precision_loss, reason = "a few thousands")]
    let calls = (share * callers) as f64;
    Ok(calls / began.elapsed().as_secs_f64())
}

/// Sides: the base, the ledger, the base once more.
fn report(name: &str, callers: usize, base: &str, sides: [Vec<f64>; 3]) {
    let [first, ours, second] = sides.map(median);
    let per_second = thousands(ours);
    println!(
        "ledger {name} {callers}: {:.2} of {base} ({per_second}/s)",
        ours / ((first + second) / 2.0)
    );
    let control = second / first;
    let said = if (0.8..1.25).contains(&control) {
        ""
    } else {
        ": void, the machine was busy"
    };
    println!("control {name} {callers}: {control:.2} of itself ({}/s){said}", thousands(first));
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

fn thousands(rate: f64) -> String {
    let digits = format!("{rate:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A Redis that ends when this process does, however it does: its keeper's standard input closes.
struct Server {
    port: u16,
    keeper: Child,
    _folder: tempfile::TempDir,
}

const KEEP: &str = r#"redis-server --bind 127.0.0.1 --port "$1" --dir "$2" --save "" --appendonly no </dev/null >/dev/null 2>&1 &
cat >/dev/null; kill -9 $!"#;

impl Server {
    fn start() -> Result<Self, Failure> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let folder = tempfile::tempdir()?;
        let mut keep = Command::new("sh");
        keep.args(["-c", KEEP, "sh", &port.to_string()])
            .arg(folder.path())
            .stdin(Stdio::piped());
        let server = Server {
            port,
            keeper: keep.spawn()?,
            _folder: folder,
        };
        for _ in 0..250 {
            std::thread::sleep(Duration::from_millis(20));
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
        }
        Err("no redis-server could be started; is it installed?".into())
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        drop(self.keeper.wait());
    }
}
