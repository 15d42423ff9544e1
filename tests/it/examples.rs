//! The examples, run as a reader would run them: their last lines are what README and the build's checks go by.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

/// Beside this binary, where cargo puts them; `cargo test` builds them first.
fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().unwrap().parent().unwrap().join("examples");
    let path = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(
        path.exists(),
        "the example {name} is not built: run `cargo test`, or `cargo build --examples` first"
    );
    path
}

fn last_line(name: &str, args: &[&str]) -> String {
    said(name, args).lines().last().unwrap_or_default().to_owned()
}

fn said(name: &str, args: &[&str]) -> String {
    let output = Command::new(example(name))
        .args(args)
        .stdin(Stdio::null())
        // What is said must not depend on a proxy of the environment.
        .env("http_proxy", "http://127.0.0.1:9")
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{name}: {said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

#[test]
fn quickstart_makes_one_order_of_two_requests() {
    assert_eq!(last_line("quickstart", &[]), "orders=1 keys=1 requests=2 replayed=true");
}

#[test]
fn crash_and_resume_makes_one_order_of_two_processes() {
    let wanted = "orders=1 keys=1 sent_by_child=1 sent_by_resume=1 outcome=succeeded";
    assert_eq!(last_line("crash_and_resume", &[]), wanted);
}

#[test]
fn agent_tool_makes_one_order_of_five_calls() {
    assert_eq!(last_line("agent_tool", &[]), "calls=5 orders=1 keys=1");
}

#[test]
fn custom_dialect_finds_the_one_parcel_that_its_server_says_exists() {
    assert_eq!(last_line("custom_dialect", &[]), "parcels=1 keys=1 posts=3 lookups=1");
}

#[test]
fn dialects_doubles_no_order_and_claims_nothing_false() {
    let wanted = "dialects=13 situations=65 orders_doubled=0 false_claims=0";
    assert_eq!(last_line("dialects", &[]), wanted);
    assert_eq!(last_line("dialects", &["--json"]), wanted);
}

#[test]
fn approval_sends_one_change_for_one_yes() {
    assert_eq!(last_line("approval", &[]), "quantity=20 patches=1 same_key=true second_yes=refused");
}

#[test]
fn five_nights_double_no_order() {
    assert_eq!(last_line("five_nights", &[]), "five_nights passed=5 orders_doubled=0");
    let deaf = last_line("five_nights", &["--deaf-desk"]);
    assert!(deaf.ends_with("orders_doubled=1"), "{deaf}");
}

/// What a reader is shown in docs/audit-example.md is what its command prints, but for ids, times and who of many was first.
#[test]
fn the_audit_in_the_docs_is_the_one_that_its_command_prints() {
    let shape = |text: &str| {
        let blocks = text.split("\n## ").map(|block| {
            let (heading, lines) = block.split_once('\n').unwrap();
            let rows = lines.lines().filter(|line| line.starts_with("20"));
            let mut events: Vec<_> = rows.map(|row| row.split_whitespace().nth(1).unwrap().to_owned()).collect();
            events.sort_unstable();
            (heading.to_owned(), events)
        });
        blocks.collect::<Vec<_>>()
    };
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/audit-example.md")).unwrap();
    let printed = said("five_nights", &["--audit"]);
    assert_eq!(shape(&docs), shape(&printed));
    assert_eq!(shape(&docs).len(), 7);
    assert!(docs.contains("cargo run --quiet --example five_nights -- --audit > docs/audit-example.md"));
}

/// The counter-proof: at a desk that ignores keys, the same runs make two orders. The examples can fail.
#[test]
fn a_deaf_desk_shows_the_second_order() {
    for name in ["quickstart", "crash_and_resume"] {
        let line = last_line(name, &["--deaf-desk"]);
        assert!(line.contains("orders=2 keys=1"), "{name}: {line}");
    }
}
