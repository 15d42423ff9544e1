//! Journals of record version 1, as they were written on 2026-11-30: opened for ever, whatever version the crate has by then.
//!
//! `UKETSUKE_WRITE_FIXTURES=1 cargo test --test it journal_fixtures` wrote them, and refuses to write over them.

use crate::kit::{Folder, brisk, order};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use uketsuke::{
    Actor, Journal, OrderClient, Origin, Outcome,
    journal::store::StoreErrorKind,
    testkit::{Desk, Reply, Script},
};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/journals")
}

/// A copy of a fixture, to be opened.
fn copy_of(name: &str) -> Folder {
    let folder = Folder::new();
    copy(&fixtures().join(name), &folder.path());
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &place),
            false => drop(fs::copy(entry.path(), place).unwrap()),
        }
    }
}

/// What opening comes to: which of the three orders are known, and how much is set aside.
type ComesTo = Result<(&'static [u32], usize), StoreErrorKind>;

const FIXTURES: [(&str, ComesTo); 8] = [
    ("good", Ok((&[1, 2, 3], 0))),
    ("compacted", Ok((&[1, 2, 3], 0))),
    ("torn_half_a_line", Ok((&[1, 2], 1))),
    ("torn_half_a_letter", Ok((&[1, 2], 1))),
    ("torn_zero_bytes", Ok((&[1, 2], 1))),
    ("torn_line_break", Ok((&[1, 2, 3], 0))),
    ("damaged_in_the_middle", Err(StoreErrorKind::Corrupt)),
    ("newer_version", Err(StoreErrorKind::UnsupportedVersion)),
];

/// The keys of the fixtures' orders.
fn keys() -> BTreeMap<u32, String> {
    let text = fs::read_to_string(fixtures().join("keys.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn a_journal_of_version_one_opens_for_ever() {
    write_where_asked().await;
    for (name, comes_to) in FIXTURES {
        let folder = copy_of(name);
        let before = fs::read(folder.log()).unwrap();
        match (Journal::open(folder.path()).await, comes_to) {
            (Ok(journal), Ok((known, torn))) => {
                assert_eq!(journal.torn().len(), torn, "{name}");
                is_as_it_was(name, journal, known).await;
            }
            (Err(error), Err(kind)) => {
                assert_eq!(error.kind(), kind, "{name}: {error}");
                assert_eq!(fs::read(folder.log()).unwrap(), before, "{name}: nothing was changed");
            }
            (opened, _) => panic!("{name}: {:?}", opened.map(|journal| journal.torn().len())),
        }
    }
}

/// Its first order succeeded, its second was refused, its third is in doubt.
async fn is_as_it_was(name: &str, journal: Journal, known: &[u32]) {
    let desk = Desk::start().await;
    let api = brisk(&desk.url()).name("shop").build().unwrap();
    let agent = OrderClient::new(journal, api, Actor::agent("another-agent"));
    for n in 1..=3 {
        let key = keys()[&n].parse().unwrap();
        // The third is in doubt, which is told as an error.
        let unknown = matches!(agent.known(key).await, Ok(None));
        assert_eq!(!unknown, known.contains(&n), "{name}: order {n}");
    }
    let again = agent
        .submit(Origin::mail("<1@example.com>"), &order())
        .await
        .unwrap()
        .receipt()
        .unwrap();
    assert_eq!(again.key.to_string(), keys()[&1], "{name}");
    assert!(desk.requests().is_empty(), "{name}: it was known");
}

// ---- how they were written -----------------------------------------------------------------------------------------

async fn write_where_asked() {
    if std::env::var_os("UKETSUKE_WRITE_FIXTURES").is_none() {
        return;
    }
    assert!(!fixtures().exists(), "version 1 is written: its fixtures stay as they are");
    let folder = Folder::new();
    let keys = three_orders(&folder).await;
    fs::create_dir_all(fixtures()).unwrap();
    fs::write(fixtures().join("keys.json"), serde_json::to_string_pretty(&keys).unwrap() + "\n").unwrap();
    let log = fs::read(folder.log()).unwrap();
    let lines: Vec<&[u8]> = log.split_inclusive(|b| *b == b'\n').collect();
    let third = lines.iter().position(|line| is_claim_of(line, &keys[&3])).unwrap();
    let claim = lines[third];
    let before = lines[..third].concat();
    let letter = String::from_utf8_lossy(claim).find('é').expect("a letter of two bytes") + 1;
    let with = |tail: &[u8]| [&before[..], tail].concat();
    put(&folder, "good", &log);
    put(&folder, "torn_half_a_line", &with(&claim[..claim.len() / 2]));
    put(&folder, "torn_half_a_letter", &with(&claim[..letter]));
    put(&folder, "torn_zero_bytes", &with(&vec![0; claim.len()]));
    put(&folder, "torn_line_break", &with(claim.strip_suffix(b"\n").unwrap()));
    let mut damaged = log.clone();
    damaged[before.len() / 2] ^= 4;
    put(&folder, "damaged_in_the_middle", &damaged);
    put(
        &folder,
        "newer_version",
        &with(b"{\"v\":2,\"seq\":\"000000000099\",\"what\":\"nobody knows\"}\n"),
    );
    let book = Journal::builder()
        .keep(Duration::ZERO)
        .compact_at(u64::MAX)
        .open(folder.path())
        .await
        .unwrap();
    book.compact().await.unwrap();
    book.close().await.unwrap();
    let compacted = fixtures().join("compacted");
    copy(&folder.path(), &compacted);
    for sub in ["owners", "lock", "compacting"] {
        let path = compacted.join(sub);
        drop(fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)));
    }
}

fn is_claim_of(line: &[u8], key: &str) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|line| line["ev"] == "claimed" && line["key"] == key)
}

fn put(folder: &Folder, name: &str, log: &[u8]) {
    let place = fixtures().join(name);
    fs::create_dir_all(&place).unwrap();
    fs::copy(folder.path().join("made"), place.join("made")).unwrap();
    fs::write(place.join("log.jsonl"), log).unwrap();
}

async fn three_orders(folder: &Folder) -> BTreeMap<u32, String> {
    let desk = Desk::start().await;
    let book = Journal::builder().compact_at(u64::MAX).open(folder.path()).await.unwrap();
    let api = brisk(&desk.url()).name("shop").build().unwrap();
    let agent = OrderClient::builder(book.clone(), api, Actor::agent("test-agent"))
        .repeat_window(Duration::ZERO)
        .build();
    let mail = |n: u32| Origin::mail(format!("<{n}@example.com>"));
    let refused = Reply::problem(422, "out_of_stock", "none left");
    let first = agent.submit(mail(1), &order()).await.unwrap().receipt().unwrap().key;
    desk.script(Script::new().reply(refused).then_ok());
    let second = match agent.submit(mail(2), &order()).await.unwrap() {
        Outcome::Rejected(refusal) => refusal.key.to_string(),
        other => panic!("{other:?}"),
    };
    desk.script(Script::new().commit_then_lose_reply().times(4));
    let third = agent
        .submit(mail(3), &order().note("bitte an Andrée"))
        .await
        .unwrap_err()
        .key()
        .unwrap();
    drop(agent);
    book.close().await.unwrap();
    [(1, first.to_string()), (2, second), (3, third.to_string())].into()
}
