//! Bar 2: many callers at once, as tasks on two workers, against one thread's bare append; and SQLite shared in two ways: a connection each, or
//! one writer that commits together what waits together.

use crate::{
    Place, Result,
    base::{Base, compare, now},
    ours::{Orders, Shared},
    report::{Report, Side::AtLeast},
    sqlite::{self, Batched},
};
use std::{path::Path, sync::Barrier, time::Duration};
use tokio::{runtime::Runtime, task::JoinSet};

/// How many callers, and how many claims each makes: about a tenth of a second's worth.
#[derive(Clone, Copy)]
struct Crowd {
    callers: usize,
    each: usize,
}

/// On a busy machine, connections that wait for each other may take minutes: they stop earlier, and what they did until then counts.
const OWN_FOR: Duration = Duration::from_secs(2);

impl Crowd {
    fn rate(self, took: Duration) -> f64 {
        (self.callers * self.each) as f64 / took.as_secs_f64()
    }
}

pub(crate) fn run(place: &Place, report: &mut Report) -> Result<()> {
    let mut base = Base::new(&place.folder("crowd-base")?, 120)?;
    let runtime = crate::runtime()?;
    let ours = |callers, each| {
        let runtime = &runtime;
        move || place.fresh(|folder| ours(runtime, folder, Crowd { callers, each }))
    };
    let batched = |callers, each| {
        let runtime = &runtime;
        move || place.fresh(|folder| batched(runtime, folder, Crowd { callers, each }))
    };
    let own = |callers, each| move || place.fresh(|folder| own_connections(folder, Crowd { callers, each }));
    let ratios = compare(
        &mut || base.rate(),
        &mut [
            ("64", Box::new(ours(64, 100))),
            ("64_batched", Box::new(batched(64, 50))),
            ("64_own", Box::new(own(64, 20))),
            ("512", Box::new(ours(512, 50))),
            ("512_batched", Box::new(batched(512, 25))),
        ],
        place.patience,
    )?;
    report.control("crowd", ratios.control(), ratios.rounds());
    report.bar_with("64_callers", ratios.times_base("64"), AtLeast, 18.0, "25");
    report.bar("64_callers_per_sqlite_own", ratios.times("64", "64_own"), AtLeast, 60.0);
    report.bar_with(
        "64_callers_per_sqlite_batched",
        ratios.times("64", "64_batched"),
        AtLeast,
        1.2,
        "1.5",
    );
    report.bar("512_callers_per_sqlite_batched", ratios.times("512", "512_batched"), AtLeast, 2.0);
    let base = "x append + fdatasync";
    report.info("512_callers", ratios.times_base("512"), base);
    report.info("sqlite_64_own_connections", ratios.times_base("64_own"), base);
    report.info("sqlite_64_batched", ratios.times_base("64_batched"), base);
    report.info("sqlite_512_batched", ratios.times_base("512_batched"), base);
    Ok(())
}

fn ours(runtime: &Runtime, folder: &Path, crowd: Crowd) -> Result<f64> {
    let shared = runtime.block_on(Shared::open(folder))?;
    runtime.block_on(all(crowd, |mut orders| {
        let shared = shared.clone();
        async move {
            for _ in 0..crowd.each {
                shared.claim(orders.next()).await?;
            }
            Ok(())
        }
    }))
}

fn batched(runtime: &Runtime, folder: &Path, crowd: Crowd) -> Result<f64> {
    let sqlite = Batched::open(folder)?;
    runtime.block_on(all(crowd, |mut orders| {
        let sqlite = sqlite.clone();
        async move {
            for _ in 0..crowd.each {
                sqlite.claim(orders.next()).await?;
            }
            Ok(())
        }
    }))
}

/// Every caller a task of its own; the rate of all of them together.
async fn all<F: Future<Output = Result<()>> + Send + 'static>(crowd: Crowd, caller: impl Fn(Orders) -> F) -> Result<f64> {
    let began = now();
    let mut callers: JoinSet<_> = (0..crowd.callers).map(|_| caller(Orders::new())).collect();
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(crowd.rate(began.elapsed()))
}

/// A thread and a connection for each caller. Who finds the database locked sleeps and asks again, as SQLite's own busy timeout has it.
fn own_connections(folder: &Path, crowd: Crowd) -> Result<f64> {
    let connections: Vec<_> = (0..crowd.callers).map(|_| sqlite::connect(folder)).collect::<Result<_>>()?;
    let start = Barrier::new(connections.len() + 1);
    std::thread::scope(|threads| {
        let mut callers = Vec::new();
        for connection in connections {
            let start = &start;
            callers.push(threads.spawn(move || {
                sqlite::inserting(&connection, |one| {
                    start.wait();
                    let began = now();
                    let mut done = 0;
                    while done < crowd.each && began.elapsed() < OWN_FOR {
                        one()?;
                        done += 1;
                    }
                    Ok(done)
                })
            }));
        }
        start.wait();
        let (began, mut done) = (now(), 0);
        for caller in callers {
            done += caller.join().map_err(|_| "a caller of SQLite panicked")??;
        }
        Ok(done as f64 / began.elapsed().as_secs_f64())
    })
}
