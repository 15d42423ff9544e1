//! Compaction: what is settled moves out of the log, and nothing of it is forgotten (R5, R6).

use crate::{
    kit::{Folder, brisk, order},
    tape::{Entry, Syncing, Tape},
};
use serde_json::Value;
use std::{fs, path::Path, sync::Arc, time::Duration};
use uketsuke::{
    Actor, Error, ErrorKind, Journal, OrderClient, OrderReceipt, Origin, Outcome, PlaceOrder, Receipt,
    journal::{core::Core, store::StoreErrorKind},
    testkit::{Desk, Reply, Script},
};

/// A journal that keeps nothing that is settled, once it is told to compact.
async fn journal(folder: &Folder) -> Journal {
    let builder = Journal::builder().compact_at(u64::MAX).keep(Duration::ZERO);
    builder.open(folder.path()).await.unwrap()
}

/// A client whose repeat guard keeps nothing in the log either.
async fn client(folder: &Folder, url: &str) -> OrderClient {
    let api = brisk(url).name("shop").build().unwrap();
    let builder = OrderClient::builder(journal(folder).await, api, Actor::agent("test-agent"));
    builder.repeat_window(Duration::ZERO).build()
}

fn mail(n: usize) -> Origin {
    Origin::mail(format!("<{n}@example.com>"))
}

fn receipt(outcome: Result<Outcome<OrderReceipt>, Error>) -> Receipt<OrderReceipt> {
    outcome.unwrap().receipt().unwrap()
}

/// Names of the files in a folder of the journal's, sorted.
fn files(folder: &Folder, under: &str) -> Vec<String> {
    let listed = fs::read_dir(folder.path().join(under)).into_iter().flatten();
    let mut names: Vec<String> = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn lines_of(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// R5: the same mail next month is the same order: same receipt, nothing sent; before and after the journal is opened anew.
#[tokio::test]
async fn a_mail_that_comes_again_finds_its_order_in_the_archive() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    let first = receipt(agent.submit(mail(1), &order()).await);
    let done = journal(&folder).await.compact().await.unwrap();
    assert_eq!(done.moved, 1);
    assert!(done.after < done.before);
    assert!(folder.events("claimed").is_empty(), "it left the log");
    assert_eq!(files(&folder, "archive").len(), 1);

    for _ in 0..2 {
        let again = receipt(agent.submit(mail(1), &order()).await);
        assert_eq!((again.key, &again.value.order_id), (first.key, &first.value.order_id));
        let known = agent.known(first.key).await.unwrap();
        assert!(known.is_some(), "its key is known too");
    }
    drop(agent);
    journal(&folder).await.close().await.unwrap();
    let agent = client(&folder, &desk.url()).await;
    assert_eq!(receipt(agent.submit(mail(1), &order()).await).key, first.key);
    // Changed contents are still another order under the same mail.
    let error = agent
        .submit(mail(1), &PlaceOrder::new("C-100").item("SKU-1", 20))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Drift);
    // R20: another name for the same server is still asked about.
    let api = brisk(&desk.url()).name("other").build().unwrap();
    let other = OrderClient::new(journal(&folder).await, api, Actor::agent("test-agent"));
    assert_eq!(other.submit(mail(1), &order()).await.unwrap_err().kind(), ErrorKind::LikelyRepeat);
    assert_eq!(desk.requests().len(), 1, "one request in all");
}

/// What is not done stays in the log, goes on, and moves when it is done; its story is one, wherever its records stand.
#[tokio::test]
async fn what_is_not_done_stays_and_goes_on() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    desk.script(Script::new().commit_then_lose_reply().times(4).then_ok());
    let error = agent.submit(mail(1), &order()).await.unwrap_err();
    let key = error.key().unwrap();
    receipt(agent.submit(mail(2), &order()).await);
    assert_eq!(journal(&folder).await.compact().await.unwrap().moved, 1);
    let kept: Vec<String> = folder.lines().iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect();
    assert!(kept.contains(&key.to_string()));

    let resumed = agent.resume_pending().await.unwrap().resumed;
    assert_eq!(resumed.len(), 1);
    assert_eq!(journal(&folder).await.compact().await.unwrap().moved, 1);
    assert_eq!(receipt(agent.submit(mail(1), &order()).await).key, key);
    desk.assert_one_order_per_key();
    assert_eq!(desk.keys().len(), 2);
}

/// Records that come late for an order that has moved out stand in the log, and move after it: the archive gives all of them back in order.
#[tokio::test]
async fn an_order_that_is_asked_for_again_and_again_is_moved_again_and_again() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    let first = receipt(agent.submit(mail(1), &order()).await);
    for n in 2..7 {
        receipt(agent.submit(mail(n), &order()).await);
        assert_eq!(receipt(agent.submit(mail(1), &order()).await).key, first.key);
        // The fresh one, and what `joined` wrote about the old.
        let moved = journal(&folder).await.compact().await.unwrap().moved;
        assert_eq!(moved, 2);
    }
    assert_eq!(receipt(agent.submit(mail(1), &order()).await).key, first.key);
    assert_eq!(desk.requests().len(), 6);
    assert!(
        files(&folder, "origins").len() <= 3,
        "small runs melt: {:?}",
        files(&folder, "origins")
    );
    // Every record stands somewhere, once: numbers belong to the archive's file that names them.
    let mut joined = 0;
    for name in files(&folder, "archive") {
        let (first, last) = name.strip_suffix(".jsonl").unwrap().split_once('-').unwrap();
        let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
        let own = lines_of(&folder.path().join("archive").join(&name));
        joined += own
            .iter()
            .filter(|line| (first..=last).contains(&line["seq"].as_str().unwrap().parse().unwrap()))
            .filter(|line| line["ev"] == "joined")
            .count();
    }
    assert_eq!(joined + folder.events("joined").len(), 6);
}

/// R17: an origin means its newest generation, wherever that stands.
#[tokio::test]
async fn a_correction_after_a_refusal_in_the_archive_is_a_new_generation() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    desk.script(Script::new().reply(Reply::status(422)).then_ok());
    let with = |quantity| PlaceOrder::new("C-100").item("SKU-1", quantity);
    let refused = agent.submit(mail(1), &with(1)).await.unwrap();
    assert!(matches!(refused, Outcome::Rejected(_)), "{refused:?}");
    journal(&folder).await.compact().await.unwrap();
    let second = receipt(agent.submit(mail(1), &with(2)).await);
    journal(&folder).await.compact().await.unwrap();
    assert_eq!(receipt(agent.submit(mail(1), &with(2)).await).key, second.key);
    assert_eq!(
        agent.submit(mail(1), &with(1)).await.unwrap_err().kind(),
        ErrorKind::Drift,
        "the newest counts"
    );
    assert_eq!(desk.keys().len(), 2);
}

/// Young orders stay: the repeat guard of an order without an origin looks into the log.
#[tokio::test]
async fn what_the_repeat_guard_asks_for_stays_in_the_log() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    // The window of a day is the client's; the journal was told to keep nothing.
    let api = brisk(&desk.url()).build().unwrap();
    let agent = OrderClient::new(journal(&folder).await, api, Actor::agent("test-agent"));
    receipt(agent.submit(Origin::unknown(), &order()).await);
    assert_eq!(journal(&folder).await.compact().await.unwrap().moved, 0);
    let error = agent.submit(Origin::unknown(), &order()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LikelyRepeat);
}

/// Another process compacts: this one notices by the file at the path, reads on there, and nothing of either's is lost.
#[tokio::test]
async fn another_process_compacts_under_us() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    let mut receipts = Vec::new();
    for n in 0..10 {
        receipts.push(receipt(agent.submit(mail(n), &order()).await));
        // An opening that does not join ours, as another process's.
        let path = folder.path();
        let done = tokio::task::spawn_blocking(move || Core::open(&path).unwrap().compact(Duration::ZERO).unwrap());
        assert_eq!(
            done.await.unwrap().moved,
            1 + n as u64,
            "the fresh one, and what was asked about the old"
        );
        for (n, earlier) in receipts.iter().enumerate() {
            assert_eq!(receipt(agent.submit(mail(n), &order()).await).key, earlier.key);
        }
    }
    assert_eq!(desk.requests().len(), 10);
    desk.assert_one_order_per_key();
}

/// R12: what mending writes is durable before anything goes past it, in a log that was followed too, whose offsets begin anew.
#[tokio::test]
async fn a_torn_end_behind_a_compaction_is_mended_for_good() {
    let (desk, folder, tape) = (Desk::start().await, Folder::new(), Tape::default());
    let book = tape.journal(&folder.path(), |_| Syncing::Honest).await;
    let api = brisk(&desk.url()).name("shop").build().unwrap();
    let agent = OrderClient::new(book, api, Actor::agent("test-agent"));
    for n in 0..5 {
        receipt(agent.submit(mail(n), &order()).await);
    }
    let path = folder.path();
    let done = tokio::task::spawn_blocking(move || Core::open(&path).unwrap().compact(Duration::ZERO).unwrap());
    assert_eq!(done.await.unwrap().moved, 5);
    receipt(agent.submit(mail(5), &order()).await);
    let mut log = fs::OpenOptions::new().append(true).open(folder.log()).unwrap();
    std::io::Write::write_all(&mut log, &[0; 100]).unwrap();
    receipt(agent.submit(mail(6), &order()).await);

    let entries = tape.entries();
    let hole = entries.iter().position(|entry| entry.is_record("hole", None)).unwrap();
    let next = entries[hole + 1..]
        .iter()
        .position(|entry| matches!(entry, Entry::Append { .. }))
        .unwrap();
    let between = &entries[hole + 1..hole + 1 + next];
    assert!(between.iter().any(Entry::is_log_sync), "{between:?}");
    assert_eq!(desk.requests().len(), 7);
}

/// While sixteen tasks submit, the log is compacted again and again: each order once, each receipt the desk's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_while_others_write_loses_nothing() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = Arc::new(client(&folder, &desk.url()).await);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16 {
        let agent = Arc::clone(&agent);
        tasks.spawn(async move {
            for n in 0..10 {
                receipt(agent.submit(mail(task * 10 + n), &order()).await);
            }
        });
    }
    let book = journal(&folder).await;
    let mut compactions = 0;
    while !tasks.is_empty() {
        let before = tasks.len();
        compactions += u32::from(book.compact().await.unwrap().archive.is_some());
        while let Some(done) = tasks.try_join_next() {
            done.unwrap();
        }
        assert!(tasks.len() <= before);
    }
    assert!(compactions > 1, "{compactions}");
    book.compact().await.unwrap();
    assert_eq!(desk.keys().len(), 160);
    desk.assert_one_order_per_key();
    for n in 0..160 {
        receipt(agent.submit(mail(n), &order()).await);
    }
    assert_eq!(desk.requests().len(), 160, "all were found again");
}

/// A log past its size is compacted by itself.
#[tokio::test]
async fn a_log_past_its_size_is_compacted_by_itself() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let builder = Journal::builder().compact_at(16 << 10).keep(Duration::ZERO);
    let book = builder.open(folder.path()).await.unwrap();
    let api = brisk(&desk.url()).name("shop").build().unwrap();
    let agent = OrderClient::builder(book, api, Actor::agent("test-agent"))
        .repeat_window(Duration::ZERO)
        .build();
    let mut n = 0;
    while files(&folder, "origins").is_empty() {
        receipt(agent.submit(mail(n), &order()).await);
        n += 1;
        assert!(n < 1000, "never compacted");
    }
    for earlier in 0..n {
        receipt(agent.submit(mail(earlier), &order()).await);
    }
    assert_eq!(desk.requests().len(), n);
}

/// An archive that was cleared away: the order is known to have been, how it ended is said, and nothing is sent.
#[tokio::test]
async fn an_archive_that_is_gone_sends_nothing() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    let first = receipt(agent.submit(mail(1), &order()).await);
    let archive = journal(&folder).await.compact().await.unwrap().archive.unwrap();
    fs::remove_file(&archive).unwrap();
    let error = agent.submit(mail(1), &order()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Journal);
    let told = error.to_string();
    assert!(told.contains(&first.key.to_string()) && told.contains("it succeeded"), "{told}");
    receipt(agent.submit(mail(2), &order()).await);
    assert_eq!(desk.requests().len(), 2, "other orders go on");
}

/// A run that is gone, or damaged: the journal would not know what it has had.
#[tokio::test]
async fn without_its_origins_a_journal_does_not_open() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    receipt(agent.submit(mail(1), &order()).await);
    let book = journal(&folder).await;
    book.compact().await.unwrap();
    drop(agent);
    book.close().await.unwrap();
    let run = folder.path().join("origins").join(&files(&folder, "origins")[0]);
    let whole = fs::read(&run).unwrap();
    let mut flipped = whole.clone();
    flipped[40] ^= 1;
    fs::write(&run, flipped).unwrap();
    let error = Journal::open(folder.path()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    fs::remove_file(&run).unwrap();
    let error = Journal::open(folder.path()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Missing, "{error}");
    fs::write(&run, whole).unwrap();
    receipt(client(&folder, &desk.url()).await.submit(mail(1), &order()).await);
    assert_eq!(desk.requests().len(), 1);
}

/// What a compaction leaves behind when it is cut short is never read as truth, and cleared away by the next.
#[tokio::test]
async fn left_overs_are_never_read_as_truth() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    receipt(agent.submit(mail(1), &order()).await);
    let stray = |name: &str| folder.path().join(name);
    fs::create_dir_all(stray("origins")).unwrap();
    fs::create_dir_all(stray("archive")).unwrap();
    fs::write(stray("log.compact"), b"{\"v\":1,half a record").unwrap();
    fs::write(stray("origins/000000000099.run"), b"no run").unwrap();
    fs::hard_link(folder.log(), stray("archive/000000000001-000000000003.jsonl")).unwrap();
    receipt(agent.submit(mail(1), &order()).await);
    let done = journal(&folder).await.compact().await.unwrap();
    assert_eq!(done.moved, 1);
    assert_eq!(files(&folder, "archive").len(), 1);
    assert_eq!(files(&folder, "origins").len(), 1);
    assert!(!stray("log.compact").exists());
    receipt(agent.submit(mail(1), &order()).await);
    assert_eq!(desk.requests().len(), 1);
}

/// A log that was put back by hand from before a compaction is not followed: what came after it would be forgotten.
#[tokio::test]
async fn an_older_log_put_in_place_is_not_followed() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    receipt(agent.submit(mail(1), &order()).await);
    let kept = folder.path().join("kept");
    fs::copy(folder.log(), &kept).unwrap();
    let book = journal(&folder).await;
    book.compact().await.unwrap();
    fs::rename(&kept, folder.log()).unwrap();
    let error = agent.submit(mail(2), &order()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Journal, "{error}");
    assert_eq!(desk.requests().len(), 1);
}

/// Damage to what compaction wrote is told as damage, not mended as torn.
#[tokio::test]
async fn what_compaction_wrote_is_witnessed_as_durable() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    desk.script(Script::new().commit_then_lose_reply().times(4));
    agent.submit(mail(1), &order()).await.unwrap_err();
    let book = journal(&folder).await;
    book.compact().await.unwrap();
    drop(agent);
    book.close().await.unwrap();
    let mut bytes = fs::read(folder.log()).unwrap();
    let claim = bytes.windows(9).position(|window| window == b"\"claimed\"").unwrap();
    bytes[claim + 300] ^= 1;
    fs::write(folder.log(), &bytes).unwrap();
    let error = Journal::open(folder.path()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    assert_eq!(fs::read(folder.log()).unwrap(), bytes, "nothing was changed");
}

/// Two at once: one compacts, the other is told so; and a compaction with nothing new does nothing.
#[tokio::test]
async fn one_compaction_at_a_time_and_none_for_nothing() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let agent = client(&folder, &desk.url()).await;
    receipt(agent.submit(mail(1), &order()).await);
    let book = journal(&folder).await;
    let held = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(folder.path().join("compacting"))
        .unwrap();
    held.lock().unwrap();
    assert_eq!(book.compact().await.unwrap_err().kind(), StoreErrorKind::Busy);
    held.unlock().unwrap();
    assert_eq!(book.compact().await.unwrap().moved, 1);
    for _ in 0..2 {
        let done = book.compact().await.unwrap();
        assert_eq!((done.moved, done.archive), (0, None), "nothing is settled there");
    }
    assert_eq!(files(&folder, "archive").len(), 1);
    assert_eq!(desk.requests().len(), 1);
}
