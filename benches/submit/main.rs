//! A whole submit beside its floor: one plain POST of the same bytes, and one append of the claim's size with one sync. In one run, in turn, as a
//! ratio of medians; and so the processor's time that each takes.
//!
//! `cargo bench --bench submit`; `-- --quick` for fewer rounds, `-- --phases` for where a submit's time goes, `-- --submits` for a profiler. Absolute times are of this machine
//! today; only the ratios travel. The floor against itself is the control: where it is off, the run is void.

mod floor;
mod phases;
mod server;
mod stopwatch;

use floor::Floor;
use std::{error::Error, time::Duration};
use stopwatch::{Stopwatch, Took, middle};
use uketsuke::{Actor, Api, Journal, OrderClient, Origin, PlaceOrder};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// So many of each kind in a round, whose mean is one figure of the processor's time. Divisible by the six orders in which three can come.
const EACH: usize = 120;

#[derive(Clone, Copy)]
enum Kind {
    Floor,
    /// The floor again: the control.
    Again,
    Submit,
}
use Kind::{Again, Floor as Plain, Submit};

/// What ran before leaves something behind (a disk that is busy still, a warm cache): each kind comes after each other as often.
const ORDERS: [[Kind; 3]; 6] = [
    [Plain, Submit, Again],
    [Again, Submit, Plain],
    [Submit, Plain, Again],
    [Submit, Again, Plain],
    [Plain, Again, Submit],
    [Again, Plain, Submit],
];

fn main() -> Result<()> {
    let told = |word: &str| std::env::args().any(|arg| arg == word);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if told(server::ROLE) {
        return runtime.block_on(server::serve());
    }
    let rounds = if told("--quick") { 6 } else { 24 };
    runtime.block_on(async {
        let server = server::Server::start().await?;
        let folder = tempfile::tempdir()?;
        let mut floor = Floor::of_a_submit(&server.url, folder.path()).await?;
        if told("--phases") {
            return phases::print(&server.url, folder.path(), &mut floor, rounds * EACH / 2).await;
        }
        let journal = Journal::open(folder.path().join("journal")).await?;
        let client = client(journal, &server.url)?;
        if told("--submits") {
            for n in 0..rounds * EACH {
                submit(&client, n).await?;
            }
            return Ok(());
        }
        compare(&client, &mut floor, rounds).await
    })
}

pub(crate) fn client(journal: Journal, url: &str) -> Result<OrderClient> {
    Ok(OrderClient::new(journal, Api::at(url)?, Actor::agent("bench")))
}

/// The order that is measured. Its record has one size, whichever it is.
pub(crate) async fn submit(client: &OrderClient, n: usize) -> Result<()> {
    let order = PlaceOrder::new("C-100").item("SKU-1", 2);
    client.submit(Origin::custom("bench", format!("{n:06}")), &order).await?.receipt()?;
    Ok(())
}

/// All that was measured of one kind.
#[derive(Default)]
struct Times {
    whole: Vec<Duration>,
    /// The processor's time of one, on this thread: a round's mean.
    cpu: Vec<f64>,
}

async fn compare(client: &OrderClient, floor: &mut Floor, rounds: usize) -> Result<()> {
    let mut times: [Times; 3] = Default::default();
    let mut elsewhere = Vec::new();
    // The first round warms up and is thrown away.
    for round in 0..=rounds {
        let mut took: [Vec<Took>; 3] = Default::default();
        let all = Stopwatch::start();
        for n in 0..EACH {
            for kind in ORDERS.iter().cycle().nth(n).copied().unwrap_or([Plain, Submit, Again]) {
                let watch = Stopwatch::start();
                match kind {
                    Submit => submit(client, round * EACH + n).await?,
                    Plain | Again => floor.once().await?,
                }
                let watch = watch.stop();
                let [plain, again, submit] = &mut took;
                match kind {
                    Plain => plain.push(watch),
                    Again => again.push(watch),
                    Submit => submit.push(watch),
                }
            }
        }
        let all = all.stop();
        if round == 0 {
            continue;
        }
        for (times, took) in times.iter_mut().zip(&took) {
            times.whole.extend(took.iter().map(|took| took.whole));
            times.cpu.push(took.iter().map(|took| took.cpu).sum::<f64>() / EACH as f64);
        }
        // What other threads did is the journal's: the floor has none.
        elsewhere.push((all.cpu_of_all - all.cpu) / EACH as f64);
    }
    let [floor, again, submit] = times;
    report(floor, again, submit, &elsewhere);
    Ok(())
}

fn report(floor: Times, again: Times, submit: Times, elsewhere: &[f64]) {
    let us = |times: &[Duration]| middle(times.iter().map(|time| time.as_secs_f64() * 1e6).collect());
    let (p50, p50_again, p50_submit) = (us(&floor.whole), us(&again.whole), us(&submit.whole));
    let p50_floor = us(&[floor.whole, again.whole].concat());
    println!(
        "p50 in us: floor {p50_floor:.0}, submit {p50_submit:.0}: {:.0} more",
        p50_submit - p50_floor
    );
    let sound = control("time", p50_again / p50);
    bar("submit_overhead", p50_submit / p50_floor, 1.15, sound);
    if !stopwatch::KNOWS_THE_PROCESSOR {
        return println!("bar submit_cpu not measured: this platform does not tell the processor's time of one thread");
    }

    let rounds = floor.cpu.iter().zip(&again.cpu).zip(submit.cpu.iter().zip(elsewhere));
    let rounds: Vec<_> = rounds.map(|((f, a), (s, e))| (*f, *a, *s, *e)).collect();
    let of = |figure: fn(&(f64, f64, f64, f64)) -> f64| middle(rounds.iter().map(figure).collect());
    let floor = of(|(f, a, ..)| (f + a) / 2.0);
    let (here, there) = (of(|(_, _, s, _)| *s), of(|(.., e)| *e));
    println!("processor in us: floor {floor:.0}, submit {here:.0} on the caller's thread and {there:.0} on the journal's");
    let sound = control("processor", of(|(f, a, ..)| a / f));
    bar("submit_cpu", of(|(f, a, s, e)| 2.0 * (s + e) / (f + a)), 1.3, sound);
}

/// The floor against itself.
fn control(of: &str, value: f64) -> bool {
    let sound = (0.9..=1.1).contains(&value);
    println!("control {of} {value:.2} (the floor against itself)");
    sound
}

fn bar(name: &str, value: f64, at_most: f64, sound: bool) {
    let word = if value <= at_most { "ok" } else { "short" };
    let void = if sound { "" } else { ": void, the control is off" };
    println!("bar {name} {value:.2} <= {at_most} {word}{void}");
}
