//! Bar 1: one caller. The blocking core against the bare append; one async caller against the same hand-off around a bare append.

use crate::{
    Place, Result,
    base::{Base, compare, now, p50_ms, rate, rate_and_times},
    ours::{Orders, Ours, Shared},
    peers::{Okaywal, Redb},
    report::{Report, Side::AtLeast},
    sqlite,
};
use std::sync::mpsc;
use tokio::sync::oneshot;

/// So many in a block, between two blocks of the base.
const BLOCK: usize = 60;

pub(crate) fn run(place: &Place, report: &mut Report) -> Result<()> {
    let mut base = Base::new(&place.folder("one-base")?, BLOCK)?;
    let [mut claims, mut orders] = [Ours::open(&place.folder("one-claim")?)?, Ours::open(&place.folder("one-outcome")?)?];
    let (inserts, updates) = (
        sqlite::connect(&place.folder("one-insert")?)?,
        sqlite::connect(&place.folder("one-update")?)?,
    );
    let mut redb = Redb::open(&place.folder("one-redb")?)?;
    let mut okaywal = Okaywal::open(&place.folder("one-okaywal")?)?;
    let runtime = crate::runtime()?;
    let shared = runtime.block_on(Shared::open(&place.folder("one-async")?))?;
    let mut handed = HandOff::to(Base::new(&place.folder("one-hand-off")?, BLOCK)?);
    let (mut claim_times, mut order_times, mut more_orders) = (Vec::new(), Vec::new(), Orders::new());

    let ratios = compare(
        &mut || base.rate(),
        &mut [
            (
                "claim",
                Box::new(|| rate_and_times(BLOCK, &mut claim_times, || claims.claim().map(drop))),
            ),
            (
                "claim_outcome",
                Box::new(|| rate_and_times(BLOCK, &mut order_times, || orders.claim_and_outcome())),
            ),
            ("insert", Box::new(|| sqlite::inserting(&inserts, |one| rate(BLOCK, one)))),
            (
                "insert_update",
                Box::new(|| sqlite::inserting_and_updating(&updates, |one| rate(BLOCK, one))),
            ),
            ("redb", Box::new(|| rate(BLOCK, || redb.claim()))),
            ("okaywal", Box::new(|| rate(BLOCK, || okaywal.append()))),
            ("hand_off", Box::new(|| runtime.block_on(handed.rate()))),
            ("async", Box::new(|| runtime.block_on(one_async(&shared, &mut more_orders)))),
        ],
        place.patience,
    )?;

    report.control("one_caller", ratios.control(), ratios.rounds());
    println!(
        "p50 in ms: append + fdatasync {:.3}, claim {:.3}, claim + outcome {:.3}",
        p50_ms(&base.times),
        p50_ms(&claim_times),
        p50_ms(&order_times)
    );
    report.info("base_p50_ms", p50_ms(&base.times), "ms");
    report.bar_with("claim", ratios.times_base("claim"), AtLeast, 0.9, "1.35, blocks filled ahead");
    report.bar("claim_and_outcome", ratios.times_base("claim_outcome"), AtLeast, 0.85);
    report.bar(
        "claim_and_outcome_per_sqlite",
        ratios.times("claim_outcome", "insert_update"),
        AtLeast,
        1.5,
    );
    report.bar("one_async_per_hand_off", ratios.times("async", "hand_off"), AtLeast, 0.9);
    let base = "x append + fdatasync";
    report.info("sqlite_insert", ratios.times_base("insert"), base);
    report.info("sqlite_insert_and_update", ratios.times_base("insert_update"), base);
    report.info("redb", ratios.times_base("redb"), base);
    report.info("okaywal", ratios.times_base("okaywal"), base);
    report.info("bare_hand_off", ratios.times_base("hand_off"), base);
    report.info("one_async", ratios.times_base("async"), base);
    Ok(())
}

async fn one_async(shared: &Shared, orders: &mut Orders) -> Result<f64> {
    let began = now();
    for _ in 0..BLOCK {
        shared.claim(orders.next()).await?;
    }
    Ok(BLOCK as f64 / began.elapsed().as_secs_f64())
}

/// A thread that does the bare append for whoever asks, and answers when it is durable: what a hand-off costs without a journal.
struct HandOff(mpsc::Sender<oneshot::Sender<bool>>);

impl HandOff {
    fn to(mut base: Base) -> HandOff {
        let (ask, asked) = mpsc::channel::<oneshot::Sender<bool>>();
        std::thread::spawn(move || {
            while let Ok(answer) = asked.recv() {
                // Who asked hears of an error too.
                answer.send(base.one().is_ok()).ok();
            }
        });
        HandOff(ask)
    }

    async fn rate(&mut self) -> Result<f64> {
        let began = now();
        for _ in 0..BLOCK {
            let (tell, told) = oneshot::channel();
            self.0.send(tell)?;
            if !told.await? {
                return Err("the bare append failed".into());
            }
        }
        Ok(BLOCK as f64 / began.elapsed().as_secs_f64())
    }
}
