//! The project's own model of the protocol: a bounded, exhaustive search through everything that can happen.
//!
//! It shares no code with the crate; the judge never shares code with the judged. There is one `World` (two processes that crash and restart,
//! one journal with a synced part and a lock that is given back before the sync, a server whose ledger forgets, a network that loses requests,
//! loses answers and delivers late, power cuts, a clock, a person), one set of moves, and `Rules` that say which of the protocol's rules hold.
//! With all of them, no search may find a second order, a lie, an order nobody allowed, a lost origin, or a waiter that waits for ever.
//! Without any one of them, the search must find the harm, and what it finds first is a shortest way there.
//!
//! `cargo test --test it model:: -- --nocapture` prints what was searched, and every trace. `UKETSUKE_MODEL=long` searches larger worlds too:
//! give it `--release`, a few minutes, and some GiB.
//!
//! What no client can avoid (the protocol's section 3) is in the world where it can be, and excused where it happens: a person frees an origin
//! while a copy is under way; equal orders without an origin after the window; the newest synced record goes bad, and nothing witnesses it.
//! Left out: a request held until after the server forgot its key, a server that runs two requests of one key at once, a clock wrong in a
//! way that nothing shows; and, of the rules, what only adds a way out: `reconcile`, an approval's expiry, a torn record of which the key can
//! still be read (here it never can).

mod around;
mod book;
mod flight;
mod process;
mod search;
mod table;
mod world;
mod worlds;

use search::{ANYTHING, Bad, Model};
use table::CASES;
use world::{ALL, Bounds};
use worlds::{LONG, UNAVOIDABLE, WORLDS};

#[test]
fn the_rules_make_no_second_order() {
    let long = if is_long() { LONG } else { &[] };
    for (name, bounds) in WORLDS.iter().chain(long) {
        println!("{name}: {} states, nothing bad", clean(*bounds));
    }
}

#[test]
fn each_rule_taken_out_brings_its_bad_trace_back() {
    let mut harmless = Vec::new();
    for case in CASES {
        let states = clean(case.bounds);
        let mut rules = ALL;
        (case.take_out)(&mut rules);
        let bounds = case.bounds;
        let found = Model { rules, bounds }.search(&[case.goes_wrong]);
        println!("\n{}, taken out: {}", case.rule, case.says);
        println!("  ({states} states with it, none bad; {} without it until this one)", found.states);
        match found.trace {
            Some(trace) => println!("{trace}"),
            None => harmless.push(format!("{}: {}", case.rule, case.says)),
        }
    }
    assert!(harmless.is_empty(), "taken out, and nothing bad found: {harmless:#?}");
}

#[test]
fn every_rule_from_1_to_18_has_its_case() {
    for rule in 1..=18 {
        let name = format!("R{rule}");
        assert!(CASES.iter().any(|case| case.rule == name), "{name}");
    }
}

/// An excuse that never applies would be a hole in the model, and one that hides more than it says a hole in the protocol.
#[test]
fn what_no_client_can_avoid_is_found_and_excused() {
    for (name, bounds) in UNAVOIDABLE {
        let bounds = *bounds;
        clean(bounds);
        let trace = Model { rules: ALL, bounds }.search(&[Bad::Unavoidable]).trace;
        println!("\n{name}\n{}", trace.expect(name));
    }
}

/// How many states there are, none of them bad.
fn clean(bounds: Bounds) -> usize {
    let found = Model { rules: ALL, bounds }.search(ANYTHING);
    if let Some(trace) = found.trace {
        panic!("with all rules:\n{trace}");
    }
    assert!(found.registered > 0, "a client that never sends does no harm, and no good");
    found.states
}

fn is_long() -> bool {
    std::env::var("UKETSUKE_MODEL").is_ok_and(|how| how == "long")
}
