//! What a rule set costs an order: one decision of a dozen rules, beside one fingerprint of the same order, which every order pays anyhow. In one run,
//! in turn, as a ratio of medians.
//!
//! `cargo bench --bench policy`; `-- --quick` for fewer rounds. Absolute times are of this machine today; only the ratio travels. The decision against
//! itself is the control: where it is off, the run is void.

use std::{error::Error, hint::black_box, time::Instant};
use uketsuke::{Actor, Draft, Fingerprint, Origin, PlaceOrder, Policy, Proposal, RuleSet, Ruling};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// So many of each kind in a round, whose mean is one figure.
const EACH: u32 = 2_000;
/// The bar: a decision is taken on an async thread.
const AT_MOST_NS: f64 = 5_000.0;
/// Further apart than this, the two halves of the control are not of one machine.
const CONTROL: f64 = 1.1;

/// What somebody who buys for a shop could want: all of them apply to the order, or have to be asked whether they do, and all hold.
const RULES: &str = r#"
version = "bench"
[[rule]]
id = "large"
max_quantity = 100
[[rule]]
id = "many"
max_items = 20
[[rule]]
id = "goods"
only_skus = ["SKU-1", "SKU-2", "SKU-3", "SKU-4", "SKU-5", "SKU-6", "SKU-7", "SKU-8"]
otherwise = "deny"
[[rule]]
id = "customers"
only_customers = ["C-100", "C-101", "C-102", "C-103"]
[[rule]]
id = "agents"
only_agents = ["order-agent", "night-agent"]
otherwise = "deny"
[[rule]]
id = "operations"
only_operations = ["place_order", "amend_order", "cancel_order"]
otherwise = "deny"
[[rule]]
id = "text"
free_text = "none"
[[rule]]
id = "night"
agents = ["night-agent"]
max_quantity = 1
[[rule]]
id = "changes"
operations = ["amend_order", "cancel_order"]
max_quantity = 10
[[rule]]
id = "rooms"
operations = ["book_room"]
max_amount = { minor = 50000, currency = "EUR" }
[[rule]]
id = "goods_of_the_agent"
agents = ["order-agent"]
operations = ["place_order"]
max_quantity = 50
only_skus = ["SKU-1", "SKU-2", "SKU-3"]
[[rule]]
id = "day"
per_day = { orders = 20, quantity = 100 }
otherwise = "deny"
"#;

#[derive(Clone, Copy)]
enum Kind {
    Decision,
    /// The decision again: the control.
    Again,
    Fingerprint,
}

/// Each kind comes after each other as often.
const ORDERS: [[Kind; 3]; 6] = {
    use Kind::{Again, Decision, Fingerprint};
    [
        [Decision, Fingerprint, Again],
        [Again, Fingerprint, Decision],
        [Fingerprint, Decision, Again],
        [Fingerprint, Again, Decision],
        [Decision, Again, Fingerprint],
        [Again, Decision, Fingerprint],
    ]
};

fn main() -> Result<()> {
    let rounds = if std::env::args().any(|arg| arg == "--quick") { 10 } else { 60 };
    let rules = RuleSet::from_toml(RULES)?;
    let order = PlaceOrder::new("C-100")
        .item("SKU-1", 2)
        .item("SKU-2", 5)
        .deliver_by("2026-12-24".parse()?);
    let draft = Draft::sketch(&order, Origin::mail("<1@example.com>"), Actor::agent("order-agent"))?;
    let contents = draft.json().ok_or("the order is no JSON")?;
    if !matches!(rules.judge(&Proposal::of(&draft)), Ruling::Allow(_)) {
        return Err("the rules were to hold".into());
    }
    let once = |kind: Kind| -> Result<()> {
        match kind {
            Kind::Decision | Kind::Again => {
                let proposal = Proposal::of(black_box(&draft));
                black_box((rules.judge(&proposal), rules.daily(&proposal)));
            }
            Kind::Fingerprint => {
                black_box(Fingerprint::of(draft.operation(), draft.route(), black_box(&contents))?);
            }
        }
        Ok(())
    };
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..=rounds {
        for kind in ORDERS.into_iter().flatten() {
            let began = now();
            for _ in 0..EACH {
                once(kind)?;
            }
            let took = began.elapsed().as_nanos() as f64 / f64::from(EACH);
            // The first round warms.
            if let (1.., Some(of)) = (round, times.get_mut(kind as usize)) {
                of.push(took);
            }
        }
    }
    report(times.map(middle));
    Ok(())
}

fn report([decision, again, fingerprint]: [f64; 3]) {
    let (apart, ratio) = (again / decision, decision / fingerprint);
    println!("a decision of a dozen rules, with its limits of the day: {decision:.0} ns");
    println!("a fingerprint of the same order: {fingerprint:.0} ns; a decision is {ratio:.2} of it");
    let sound = (1.0 / CONTROL..=CONTROL).contains(&apart);
    println!("control: {apart:.3} {}", if sound { "ok" } else { "off: this run is void" });
    println!(
        "bar policy_decision {decision:.0} <= {AT_MOST_NS:.0} ns {}",
        if decision <= AT_MOST_NS { "ok" } else { "short" }
    );
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch")]
fn now() -> Instant {
    Instant::now()
}

/// The median; of none, nothing that could pass for a figure.
fn middle(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
