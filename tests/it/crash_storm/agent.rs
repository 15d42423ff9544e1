//! The agent: the process that is killed. It says on its standard output what it is about to do, before it does it, and what it was told. What
//! stands in a pipe outlives the process.

use crate::{
    kit::brisk,
    props::{Fault, Moody},
};
use std::{
    io::BufRead as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Semaphore, task::JoinSet};
use uketsuke::{
    Actor, Api, Error, ErrorKind, IdempotencyKey, Journal, OrderClient, Origin, Outcome, Pacing, PlaceOrder, Raw, Timeouts,
    journal::store::StoreErrorKind,
};

/// How often an agent asks again by itself before it gives a mail up for now.
const ASKS: usize = 3;

/// Who it is and how it behaves, as the environment says.
struct Agent {
    name: String,
    habits: Vec<String>,
}

impl Agent {
    fn does(&self, habit: &str) -> bool {
        self.habits.iter().any(|name| name == habit)
    }

    fn api(&self) -> Api {
        let api = brisk(&std::env::var("UKETSUKE_URL").unwrap()).name("shop");
        // The token tells the judge who sends. It is the same account, so nothing is held back for it.
        let api = api.bearer(&self.name).account("storm");
        let api = match () {
            () if self.does("patient") => {
                let mut timeouts = Timeouts::default();
                timeouts.connect = Duration::from_secs(20);
                timeouts.attempt = Duration::from_secs(60);
                timeouts.total = Duration::from_secs(300);
                api.timeouts(timeouts)
            }
            () if self.does("key_per_attempt") => {
                let mut pacing = Pacing::default();
                pacing.attempts = 1;
                api.pacing(pacing)
            }
            () => api,
        };
        api.build().unwrap()
    }

    async fn journal(&self) -> Journal {
        let folder = PathBuf::from(std::env::var("UKETSUKE_FOLDER").unwrap());
        if self.does("forgets") {
            return Journal::memory().unwrap();
        }
        let builder = Journal::builder().disk(self.disk()).compact_at(u64::MAX).keep(Duration::ZERO);
        let opened = builder.open(folder).await;
        opened.unwrap_or_else(|error| {
            say(&format!("odd the journal does not open: {error}"));
            panic!("{error}");
        })
    }

    /// A real disk that takes its time, so that a kill finds a claim that is written and not yet durable (`slow_disk`), or a record of which
    /// one half is written (`slow_pen`).
    fn disk(&self) -> Moody {
        let (slow_disk, slow_pen, writes) = (self.does("slow_disk"), self.does("slow_pen"), AtomicUsize::new(0));
        Moody::new(move |call| {
            match call.what {
                "file.sync" if slow_disk => std::thread::sleep(Duration::from_millis(15)),
                "file.append" if slow_pen => match writes.fetch_add(1, Ordering::Relaxed) % 4 {
                    2 => return Some(Fault::Short(call.bytes.len() / 2)),
                    3 => std::thread::sleep(Duration::from_millis(12)),
                    _ => {}
                },
                _ => {}
            }
            None
        })
    }

    /// A fresh name for the same mail with each attempt is how a client looks that mints its key inside its retry.
    fn origin(&self, mail: &str, attempt: usize) -> Origin {
        match self.does("key_per_attempt") {
            true => Origin::mail(format!("<{mail}.{}.{attempt}@example.com>", self.name)),
            false => Origin::mail(format!("<{mail}@example.com>")),
        }
    }
}

/// Moves what is settled out of the log, again and again, under everybody's hands. Another that is at it already is no harm.
async fn compact(journal: Journal) {
    loop {
        match journal.compact().await {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), StoreErrorKind::Busy | StoreErrorKind::Closed) => {}
            Err(error) => say(&format!("odd the journal can't be compacted: {error}")),
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Started by the judge only.
#[tokio::test]
async fn play() {
    let Ok(role) = std::env::var("UKETSUKE_STORM_AGENT") else { return };
    let mut words = role.split(' ').map(str::to_owned);
    let agent = Agent {
        name: words.next().unwrap(),
        habits: words.collect(),
    };
    // The test's own name stands on this line already.
    println!();
    let journal = agent.journal().await;
    let compacting = agent.does("compacts").then(|| tokio::spawn(compact(journal.clone())));
    let client = OrderClient::builder(journal, agent.api(), Actor::agent(&agent.name));
    let client = client.repeat_window(Duration::ZERO).build();
    say("ready");
    let mut work = JoinSet::new();
    if agent.does("resumes") {
        work.spawn(resume(client.clone()));
    }
    let (agent, gate, mut orders) = (Arc::new(agent), Arc::new(Semaphore::new(16)), orders());
    while let Some(order) = orders.recv().await {
        let turn = Arc::clone(&gate).acquire_owned().await.unwrap();
        let (agent, client) = (Arc::clone(&agent), client.clone());
        work.spawn(async move {
            match order.split_once(' ').unwrap() {
                ("place", mail) => place(&agent, &client, mail).await,
                ("known", key) => known(&client, key.parse().unwrap()).await,
                _ => panic!("{order}"),
            }
            drop(turn);
        });
    }
    while let Some(ended) = work.join_next().await {
        ended.unwrap();
    }
    compacting.iter().for_each(tokio::task::JoinHandle::abort);
    say("done");
}

/// What the judge wants done, line by line, from a thread that may block.
fn orders() -> tokio::sync::mpsc::UnboundedReceiver<String> {
    let (give, take) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines();
        lines
            .map_while(Result::ok)
            .take_while(|line| give.send(line.clone()).is_ok())
            .for_each(drop);
    });
    take
}

/// One line in one write.
fn say(what: &str) {
    println!("storm {what}");
}

async fn place(agent: &Agent, client: &OrderClient, mail: &str) {
    let order = PlaceOrder::new("C-100").item(mail, 1);
    for attempt in 0..ASKS {
        say(&format!("begin {mail}"));
        let told = client.submit(agent.origin(mail, attempt), &order).await;
        match told {
            Ok(Outcome::Succeeded(receipt)) => {
                let id = receipt.value.order_id.unwrap_or_default();
                return say(&format!("receipt {mail} {} {id}", receipt.key));
            }
            Ok(other) => return say(&format!("odd {mail} {other:?}")),
            Err(error) => say_open(mail, &error),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn resume(client: OrderClient) {
    let mut resuming = match client.resume_each().await {
        Ok(resuming) => resuming,
        Err(error) => return say(&format!("odd resume {error}")),
    };
    while let Some(resumed) = resuming.next().await {
        report(resumed.result);
    }
    for alone in resuming.left_alone() {
        // Nothing here is parked, and no answer of this desk is one that a person has to look at.
        say(&format!("odd {} was left alone: {:?}", alone.key, alone.why));
    }
}

async fn known(client: &OrderClient, key: IdempotencyKey) {
    match client.known(key).await {
        Ok(None) => say(&format!("odd {key} is not known")),
        Ok(Some(outcome)) => report(Ok(outcome)),
        Err(error) => report(Err(error)),
    }
}

fn report(told: Result<Outcome<Raw>, Error>) {
    match told.and_then(Outcome::read::<PlaceOrder>) {
        Ok(Outcome::Succeeded(receipt)) => {
            let id = receipt.value.order_id.unwrap_or_default();
            say(&format!("receipt - {} {id}", receipt.key));
        }
        Ok(other) => say(&format!("odd - {other:?}")),
        Err(error) => say_open("-", &error),
    }
}

/// What may be told of an order that is still open: it has a key, and resume goes on with it.
fn say_open(mail: &str, error: &Error) {
    use ErrorKind::{InDoubt, NotSent, StillProcessing, Unauthorized};
    match (error.kind(), error.key()) {
        (InDoubt | NotSent | StillProcessing | Unauthorized, Some(key)) => say(&format!("open {mail} {key}")),
        (kind, _) => say(&format!("odd {mail} {kind:?} {error}")),
    }
}
