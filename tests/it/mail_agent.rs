//! The example `mail_agent`, run as a user runs it: processes that share a journal folder, and real mails.

use crate::kit::Folder;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::SystemTime,
};
use tokio::process::Command;
use uketsuke::testkit::{Desk, Script};

/// The rules by which it reads an order, from where they stand.
#[path = "../../examples/mail_agent/order.rs"]
mod order;

/// BUG-75: both take the mail as new. 20 runs, since a race that is lost once in ten shows in nearly nine of ten such tests.
#[tokio::test(flavor = "multi_thread")]
async fn two_agents_one_mail_one_order() {
    for run in 0..20 {
        let (desk, folder, mails) = (Desk::start().await, Folder::new(), tempfile::tempdir().unwrap());
        fs::copy(fixtures().join("01-plain.eml"), mails.path().join("only.eml")).unwrap();
        desk.script(match run % 4 {
            0 => Script::new(),
            1 => Script::new().commit_then_lose_reply(),
            2 => Script::new().status(503),
            _ => Script::new().commit_then_status(504).lose_request(),
        });
        let agent = |name| {
            mail_agent([
                Path::new("agent"),
                Path::new(name),
                Path::new(&desk.url()),
                &folder.path(),
                mails.path(),
            ])
        };
        let (ann, ben) = tokio::join!(agent("ann").output(), agent("ben").output());
        let said = [said(&ann.unwrap()), said(&ben.unwrap())];
        for said in &said {
            assert!(
                said.contains("only.eml \"Two for December\": ordered as ord-1 ("),
                "run {run}: {said:#?}"
            );
        }
        assert_eq!(desk.orders().len(), 1, "run {run}\n{}", desk.story());
        assert_eq!(desk.keys().len(), 1, "run {run}\n{}", desk.story());
        assert_eq!(folder.events("claimed").len(), 1, "run {run}: one claim, by whoever came first");
        desk.assert_one_order_per_key();
        desk.assert_nothing_suspicious();
        desk.assert_script_played();
    }
}

#[tokio::test]
async fn the_mail_agents_last_line_adds_up() {
    let output = mail_agent([fixtures()]).output().await.unwrap();
    let said = said(&output);
    let (mails, list) = (mails_in_the_folder(), List::read());
    let wanted = format!("mails={} distinct={n} orders={n} keys={n}", mails.len(), n = list.orders.len());
    assert_eq!(said.lines().last(), Some(wanted.as_str()), "{said}");
    assert_eq!(mails, list.mails, "the list speaks of every mail, and of no other");

    let told = |file: &str, what: &str| said.lines().filter(|line| line.contains(file) && line.contains(what)).count();
    for file in ["10-known-id-other-sender.eml", "11-known-id-one-order-more.eml"] {
        assert_eq!(
            told(file, "a person has to look: "),
            2,
            "both agents leave {file} to a person\n{said}"
        );
    }
    assert_eq!(
        told("06-japanese.eml \"部品のご注文（十二月分）\"", "(C-200: 3 x SKU-7, "),
        2,
        "{said}"
    );
}

/// The counter-proof: where the server ignores keys, the example says so and fails.
#[tokio::test]
async fn at_a_deaf_desk_the_mail_agents_last_line_does_not_add_up() {
    let output = mail_agent([Path::new("--deaf-desk"), &fixtures()]).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("Ordered, and not asked for: C-100: 2 x SKU-1, by 2026-12-01\n"),
        "{said}"
    );
}

#[test]
fn a_mail_orders_what_it_says_for_certain_and_nothing_else() {
    for (text, wanted) in READ {
        let note = "by mail";
        let read = order::orders_in(text).map(|orders| {
            orders
                .iter()
                .map(|order| (order.to_string(), order.to_order(note)))
                .collect::<Vec<_>>()
        });
        let told = match &read {
            Ok(orders) => orders.iter().map(|(told, _)| told.as_str()).collect::<Vec<_>>().join("; "),
            Err(why) => format!("unclear: {why}"),
        };
        assert_eq!(told, *wanted, "{text}");
        assert!(order::speaks_of_orders(text), "{text}");
    }
    assert!(!order::speaks_of_orders("In order: to be, or not to be.\nReorder: 2 x SKU-1"));
}

const READ: &[(&str, &str)] = &[
    (
        "Customer: C-1\nOrder: 2 x A\nOrder: 1xB_2\nDeliver by: 2026-12-01",
        "C-1: 2 x A, 1 x B_2, by 2026-12-01",
    ),
    ("  customer : C-1\nORDER: 2 X A", "C-1: 2 x A"),
    (
        "顧客：Ｃ－１\n注文：２個×Ａ\n納期：２０２６年１２月３日",
        "C-1: 2 x A, by 2026-12-03",
    ),
    ("Customer: C-1\nOrder: 2 x A\nCustomer: C-1\nOrder: 3 x A", "C-1: 2 x A; C-1: 3 x A"),
    // What was said in an older mail is not said again.
    ("Customer: C-1\nOrder: 2 x A\n> Order: 3 x B\n-- \nOrder: 4 x C", "C-1: 2 x A"),
    ("Thanks!\n\nFrom: C\nSent: Monday\n\nCustomer: C-1\nOrder: 2 x A", ""),
    ("ありがとうございます。\n差出人：受付\n顧客：C-1\n注文：2 x A", ""),
    // Nothing is guessed.
    ("Customer: C-1", "unclear: nothing is ordered for C-1"),
    ("Order: 2 x A", "unclear: `Order: 2 x A` comes before any customer"),
    ("Customer: C-1\nOrder: 0 x A", "unclear: `Order: 0 x A` can't be read for certain"),
    ("Customer: C-1\nOrder: -2 x A", "unclear: `Order: -2 x A` can't be read for certain"),
    (
        "Customer: C-1\nOrder: 1,000 x A",
        "unclear: `Order: 1,000 x A` can't be read for certain",
    ),
    (
        "Customer: C-1\nOrder: 5000000000 x A",
        "unclear: `Order: 5000000000 x A` can't be read for certain",
    ),
    (
        "Customer: C-1\nOrder: 2 x A and one B",
        "unclear: `Order: 2 x A and one B` can't be read for certain",
    ),
    (
        "Customer: Mika Tanaka\nOrder: 2 x A",
        "unclear: `Customer: Mika Tanaka` can't be read for certain",
    ),
    (
        "Customer: C-1\nOrder: 2 x A\nDeliver by: 01/12/2026",
        "unclear: `Deliver by: 01/12/2026` can't be read for certain",
    ),
    (
        "Customer: C-1\nOrder: 2 x A\nDeliver by: 2026-02-30",
        "unclear: `Deliver by: 2026-02-30` can't be read for certain",
    ),
    (
        "Customer: C-1\nOrder: 2 x A\nDeliver by: 2026-12-1\nDeliver by: 2026-12-2",
        "unclear: an order has two delivery dates",
    ),
    (
        "Customer: C-1\nOrder: 2 x A\nCustomer: C-2\nOrder: some x B",
        "unclear: `Order: some x B` can't be read for certain",
    ),
];

/// The folder's own list, read here once more: not with the example's eyes.
struct List {
    orders: Vec<String>,
    mails: BTreeSet<String>,
}

impl List {
    fn read() -> List {
        let mut list = List {
            orders: Vec::new(),
            mails: BTreeSet::new(),
        };
        let text = fs::read_to_string(fixtures().join("distinct.txt")).unwrap();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
            let (order, mails) = line.split_once(" <- ").unwrap_or_else(|| panic!("{line}"));
            if order != "no order" {
                list.orders.push(order.to_owned());
            }
            list.mails.extend(mails.split(' ').map(str::to_owned));
        }
        list
    }
}

fn mails_in_the_folder() -> BTreeSet<String> {
    let files = fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    files.filter(|file| file.ends_with(".eml")).collect()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mails")
}

/// The example, which `cargo test` builds and puts beside the folder of the tests. `cargo test --test it` does not build it: an older one would
/// be judged by today's tests.
fn mail_agent<P: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = P>) -> Command {
    let tests = std::env::current_exe().unwrap();
    let name = format!("mail_agent{}", std::env::consts::EXE_SUFFIX);
    let program = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
    let built = fs::metadata(&program).and_then(|program| program.modified()).ok();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let written = newest_file(&root.join("src")).max(newest_file(&root.join("examples/mail_agent")));
    assert!(
        built.is_some_and(|built| built >= written),
        "the example is not built, or is older than its source: run `cargo test` as a whole, or `cargo build --example mail_agent` first"
    );
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn newest_file(folder: &Path) -> SystemTime {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let written = entries.map(|path| match path.is_dir() {
        true => newest_file(&path),
        false => fs::metadata(&path).unwrap().modified().unwrap(),
    });
    written.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// What a program said that ended well.
fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{out}\n{err}");
    out
}
