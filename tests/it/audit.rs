//! The audit: everything that was written about an order is told, once, and nothing in data can tell anything else.

use crate::{
    kit::{Folder, brisk, order},
    props::{ENOSPC, Hands, Moody, actor, because, journal_kind, mail, receipt},
};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use uketsuke::{
    Actor, AmendOrder, Audit, Base, Because, CancelOrder, Effect, Encoding, ErrorKind, IdempotencyKey, Journal, Operation, OrderClient,
    OrderReceipt, OrderRef, Origin, Outcome, PlaceOrder, Proposal, Route, Ruling, Timestamp, TraceId,
    audit::{Filter, Format, Row},
    journal::{
        core,
        store::{Decide, Record, Standing},
    },
    testkit::{Desk, Script},
};

const TRACES: [&str; 2] = ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7a3ce929d0e0e4736"];

fn trace(n: usize) -> TraceId {
    TRACES[n].parse().unwrap()
}

async fn rows(journal: &Journal, filter: Filter) -> Vec<Row> {
    let (mut told, mut rows) = (Vec::new(), Audit::of(journal).rows(&filter));
    while let Some(row) = rows.next().await.unwrap() {
        told.push(row);
    }
    told
}

fn events(rows: &[Row]) -> Vec<&'static str> {
    rows.iter().map(|row| row.event).collect()
}

async fn export(audit: &Audit, format: Format) -> (u64, String) {
    let mut out = Vec::new();
    let written = audit.export(format, &Filter::default(), &mut out).await.unwrap();
    (written, String::from_utf8(out).unwrap())
}

/// Rows as JSON Lines: every line is one.
async fn json_lines(audit: &Audit) -> Vec<Value> {
    let (written, text) = export(audit, Format::JsonLines).await;
    let lines: Vec<Value> = text
        .split_terminator('\n')
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(written, lines.len() as u64);
    lines
}

/// A CSV by RFC 4180, read by code of our own: records of cells, as they stand in the file.
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {
                assert_eq!(chars.next(), Some('\n'), "a bare CR");
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            c => cell.push(c),
        }
    }
    assert!(record.is_empty() && cell.is_empty(), "the last line is not ended");
    records
}

/// What was written down, from what a cell shows: the chapter says how.
fn unescaped(cell: &str) -> String {
    let mut chars = cell.strip_prefix('\'').unwrap_or(cell).chars();
    let mut text = String::new();
    while let Some(c) = chars.next() {
        text.push(match (c, c == '\\') {
            (c, false) => c,
            _ => match chars.next().unwrap() {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let digits: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).unwrap()).unwrap()
                }
                other => other,
            },
        });
    }
    text
}

/// How many records of orders the log holds: read as any other program would.
fn records(folder: &Folder) -> usize {
    folder.lines().iter().filter(|line| line["now"] != "none").count()
}

fn shows_what_is_there(text: &str) {
    let hidden = |c: char| c.is_control() && !"\r\n".contains(c) || "\u{2028}\u{2029}\u{202e}\u{2066}\u{200b}\u{feff}".contains(c);
    assert!(!text.contains(hidden), "{text:?}");
}

// ---- nothing in data forges a row ----------------------------------------------------------------------------------

const EVIL: [&str; 9] = [
    "x\n{\"event\":\"approved\"}",
    "x\r\n2026-12-01T09:00:00.000Z,8e03978e-40d5-43dd-bc93-6894a57f9324,approved",
    "x\u{2028}{\"event\":\"approved\"}\u{2029}",
    "x\",\"event\":\"approved\"",
    "\u{202e}devorppa\u{2066}\u{200b}",
    "\u{1b}[2K\u{1b}[1Gapproved\u{7}\u{9b}1G",
    "=HYPERLINK(\"http://example.com\";\"approved\")",
    "a;=1+1;\" @x\"",
    "\\n'\\u{41}",
];

/// A client of an agent all of whose names are that, and whose policy speaks so too.
async fn evil_client(folder: &Folder, desk: &Desk, evil: &'static str, ask: bool) -> OrderClient {
    let named = Actor::agent(evil).session(evil).user(evil).model(evil);
    let api = brisk(&desk.url()).build().unwrap();
    let policy = move |_: &Proposal<'_>| match ask {
        true => Ruling::Ask(Because::rule(evil, evil, evil)),
        false => Ruling::Allow(Because::rule(evil, evil, evil)),
    };
    OrderClient::builder(folder.journal().await, api, named).policy(policy).build()
}

/// An order under each of the names, with a further call; one that is parked, and taken back with such words.
async fn evil_orders(folder: &Folder, desk: &Desk) {
    for (n, evil) in EVIL.into_iter().enumerate() {
        // An origin with a control character is refused before anything is written.
        let line: String = evil.chars().map(|c| if c.is_control() { '\u{2028}' } else { c }).collect();
        let origin = || mail(n).line(&line);
        let client = evil_client(folder, desk, evil, false).await;
        for _ in 0..2 {
            receipt(client.submit(origin(), &order().note(evil)).tool_call(evil).await);
        }
        let parks = evil_client(folder, desk, evil, true).await;
        let Ok(Outcome::AwaitingApproval(ticket)) = parks.submit(mail(100 + n), &order().note(evil)).await else {
            panic!("it is not parked")
        };
        let taken_back = parks.withdraw(ticket.key, evil).await.unwrap();
        assert!(matches!(taken_back, Outcome::Denied(_)));
    }
}

/// BUG-83: the audit grows by exactly the true number of rows whatever names and words hold, each line parses, and none says "approved".
#[tokio::test]
async fn no_name_forges_a_row() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    evil_orders(&folder, &desk).await;
    let audit = Audit::of(&folder.journal().await);

    let lines = json_lines(&audit).await;
    assert_eq!(lines.len(), records(&folder));
    assert_eq!(lines.iter().filter(|row| row["event"] == "approved").count(), 0);
    for evil in EVIL {
        let of = lines.iter().filter(|row| row["agent"] == evil);
        let of: Vec<&Value> = of
            .filter(|row| row["session"] == evil && row["user"] == evil && row["model"] == evil)
            .collect();
        let of_event = |event: &str| of.iter().filter(|row| row["event"] == event).copied().collect::<Vec<_>>();
        assert_eq!(of_event("claimed").len(), 2, "{evil:?}");
        assert_eq!(of_event("claimed")[0]["reason"], evil);
        assert_eq!(of_event("claimed")[0]["rules"][0], evil);
        assert_eq!(of_event("joined")[0]["tool_call"], evil);
        assert_eq!(of_event("withdrawn")[0]["note"], evil);
    }
    let (_, text) = export(&audit, Format::JsonLines).await;
    shows_what_is_there(&text);
    assert!(!text.contains('\r'));
}

/// BUG-83, in a table and on a terminal: as many lines as rows, every cell in its column, and no cell that a spreadsheet would run.
#[tokio::test]
async fn no_name_forges_a_cell_or_a_line() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    evil_orders(&folder, &desk).await;
    let audit = Audit::of(&folder.journal().await).with_bodies();

    let (written, text) = export(&audit, Format::Csv).await;
    assert_eq!(text.lines().count() as u64, written + 1, "no line break but those between rows");
    shows_what_is_there(&text);
    let table = csv(&text);
    assert_eq!((table.len() as u64, written), (written + 1, records(&folder) as u64));
    let column = |name: &str| table[0].iter().position(|column| column == name).unwrap();
    let json = json_lines(&audit).await;
    for (cells, row) in table[1..].iter().zip(&json) {
        assert_eq!(cells.len(), table[0].len());
        for name in [
            "event",
            "agent",
            "session",
            "user",
            "model",
            "tool_call",
            "reason",
            "note",
            "origin",
            "contents",
        ] {
            let (cell, there) = (&cells[column(name)], row[name].as_str().unwrap_or_default());
            assert_eq!(unescaped(cell), there, "{name}");
            assert!(!cell.trim_start().starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell:?}");
        }
        assert_ne!(cells[column("event")], "approved");
    }
    // Read with semicolons, as much of Europe's spreadsheets do, no cell begins a formula either.
    for line in text.lines() {
        let runs = |cell: &str| cell.trim_start_matches(['"', ' ']).starts_with(['=', '+', '-', '@']);
        assert!(!line.split(';').any(runs), "{line}");
    }
    for row in rows(&folder.journal().await, Filter::default()).await {
        let line = row.to_string();
        assert!(!line.contains(['\n', '\r']), "{line:?}");
        shows_what_is_there(&line);
        assert!(
            line.starts_with("20") && line.find("  claimed").is_none_or(|at| at == 62),
            "aligned: {line}"
        );
    }
}

// ---- what happened is told -----------------------------------------------------------------------------------------

/// Every request that the desk saw has its row, under the same id; and no row speaks of a request that it did not see.
#[tokio::test]
async fn every_request_has_its_row_and_every_row_its_request() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(
        Script::new()
            .status(503)
            .commit_then_lose_reply()
            .then_ok()
            .refuse()
            .status(429)
            .then_ok(),
    );
    let client = folder.client(&desk).await;
    for n in 0..5 {
        drop(client.submit(mail(n), &order()).await);
    }
    let told = rows(&folder.journal().await, Filter::default()).await;
    let ids = |event: &str| -> BTreeSet<String> {
        let rows = told.iter().filter(|row| row.event == event);
        rows.map(|row| row.request.clone().expect("a request has its id")).collect()
    };
    let seen: BTreeSet<String> = desk.requests().iter().map(|seen| seen.request_id.clone().unwrap()).collect();
    assert!(seen.len() > 6, "{}", desk.story());
    assert_eq!(ids("sent"), seen);
    assert_eq!(ids("observed"), seen, "what was seen is told under the id of its request");
    for seen in desk.requests() {
        let row = told
            .iter()
            .find(|row| row.event == "sent" && row.request == seen.request_id)
            .unwrap();
        assert_eq!((Some(row.key.to_string()), row.attempt), (seen.key, seen.attempt));
        assert_eq!(row.call.as_deref(), Some("POST /orders"));
    }
}

#[tokio::test]
async fn a_lost_reply_a_retry_and_a_replay_are_told_as_such() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().commit_then_lose_reply().then_ok());
    let key = receipt(folder.client(&desk).await.submit(mail(1), &order()).await).key;
    let told = rows(&folder.journal().await, Filter::default()).await;
    assert_eq!(events(&told), ["claimed", "sent", "observed", "sent", "observed", "settled"]);
    let [claimed, _, lost, retry, replay, settled] = &told[..] else {
        panic!()
    };
    assert!(told.iter().all(|row| row.key == key && row.at.is_some()));
    assert_eq!((claimed.ruling, claimed.attempt), (Some("allow"), None));
    assert_eq!((lost.attempt, lost.status, lost.replayed), (Some(1), None, None));
    let words = lost.seen.as_deref().unwrap();
    assert!(words.contains("before a reply"), "{words}");
    assert_eq!((lost.effect, lost.standing), (Effect::Possible, "open"));
    assert_eq!((retry.attempt, replay.attempt), (Some(2), Some(2)));
    assert_ne!(retry.request, lost.request);
    assert_eq!((replay.status, replay.replayed), (Some(201), Some(true)));
    assert!(replay.took_ms.is_some());
    assert_eq!((settled.status, settled.replayed), (Some(201), Some(true)));
    assert_eq!((settled.effect, settled.standing), (Effect::Certain, "succeeded"));
}

/// A call that met an order that was known is told with what asked for it, not with what the order was claimed by.
#[tokio::test]
async fn a_further_call_is_a_row_with_a_tool_call_and_a_trace_of_its_own() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    receipt(client.submit(mail(1), &order()).tool_call("call-1").trace(trace(0)).await);
    let other = client.acting_as(Actor::agent("other").session("s-2"));
    receipt(other.submit(mail(1), &order()).tool_call("call-2").trace(trace(1)).await);
    let told = rows(&folder.journal().await, Filter::default()).await;
    let by_call = |row: &Row| (row.event, row.tool_call.clone().unwrap(), row.trace, row.agent.clone().unwrap());
    let (joined, rest): (Vec<&Row>, Vec<&Row>) = told.iter().partition(|row| row.event == "joined");
    assert_eq!(joined.len(), 1);
    assert_eq!(
        by_call(joined[0]),
        ("joined", "call-2".to_owned(), Some(trace(1)), "other".to_owned())
    );
    assert_eq!(joined[0].session.as_deref(), Some("s-2"));
    for row in rest {
        assert_eq!(
            by_call(row),
            (row.event, "call-1".to_owned(), Some(trace(0)), "test-agent".to_owned())
        );
    }
    assert_eq!(desk.requests().len(), 1);
}

// ---- what is hidden ------------------------------------------------------------------------------------------------

/// An order with something to hide everywhere.
#[derive(Serialize)]
struct Hiding {
    note: &'static str,
}

impl Operation for Hiding {
    type Receipt = OrderReceipt;
    const NAME: &'static str = "place_order";

    fn route(&self) -> Route {
        Route::post("orders").query("q", "SEKRET-QUERY").header("X-Shop", "SEKRET-HEADER")
    }

    fn encoding(&self) -> Encoding {
        Encoding::Json
    }
}

/// Contents and answers are shown when they are asked for; a query and a header's value never.
#[tokio::test]
async fn bodies_are_hidden_unless_they_are_asked_for() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    receipt(client.submit(mail(1), &Hiding { note: "SEKRET-NOTE" }).await);
    let shown = async |audit: &Audit| {
        let (_, json) = export(audit, Format::JsonLines).await;
        let (_, csv) = export(audit, Format::Csv).await;
        let (mut lines, mut rows) = (String::new(), audit.rows(&Filter::default()));
        while let Some(row) = rows.next().await.unwrap() {
            lines += &format!("{row}\n");
        }
        [json, csv, lines]
    };
    let audit = Audit::of(&folder.journal().await);
    for text in shown(&audit).await {
        assert!(!text.contains("SEKRET"), "{text}");
        assert!(text.contains("POST /orders"));
    }
    let log = fs::read_to_string(folder.log()).unwrap();
    for text in shown(&audit.with_bodies()).await {
        assert_eq!(text.matches("SEKRET-NOTE").count(), 2, "the order's and the receipt's: {text}");
        for never in ["SEKRET-QUERY", "SEKRET-HEADER"] {
            assert!(log.contains(never) && !text.contains(never), "{text}");
        }
    }
}

// ---- what is asked for ---------------------------------------------------------------------------------------------

/// Two orders of two agents, an hour apart; the second agent also met the first one's order.
async fn two_orders(folder: &Folder, desk: &Desk) -> (Journal, [IdempotencyKey; 2]) {
    let hands = Hands::new();
    let journal = Journal::builder().clock(hands.clone()).open(folder.path()).await.unwrap();
    let client = OrderClient::new(journal.clone(), brisk(&desk.url()).build().unwrap(), actor());
    let ana = client.acting_as(Actor::agent("Ana Bot").session("s-1").user("u-1").model("m-1"));
    let bob = client.acting_as(Actor::agent("bob").session("s-2").user("u-2").model("m-2"));
    let one = receipt(ana.submit(mail(1), &order()).trace(trace(0)).await).key;
    hands.turn(3_600_000);
    let two = receipt(bob.submit(mail(2), &order()).trace(trace(1)).await).key;
    receipt(bob.submit(mail(1), &order()).trace(trace(1)).await);
    (journal, [one, two])
}

#[tokio::test]
async fn each_filter_shows_its_rows_and_no_others() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let (journal, [one, two]) = two_orders(&folder, &desk).await;
    let count = async |filter: Filter| {
        let rows = rows(&journal, filter).await;
        let of = |key| rows.iter().filter(|row| row.key == key).count();
        (of(one), of(two))
    };
    // Each order: claimed, sent, observed, settled; and the first one's further call, which is bob's.
    assert_eq!(count(Filter::default()).await, (5, 4));
    assert_eq!(count(Filter::default().key(one)).await, (5, 0));
    assert_eq!(
        count(Filter::default().key("11111111-2222-4333-8444-555555555555".parse().unwrap())).await,
        (0, 0)
    );
    assert_eq!(count(Filter::default().origin(mail(2))).await, (0, 4));
    assert_eq!(count(Filter::default().origin(mail(1).line(1))).await, (0, 0));
    assert_eq!(count(Filter::default().agent("ana-bot")).await, (0, 0));
    assert_eq!(count(Filter::default().agent("ANABOT\u{200b}")).await, (4, 0), "as people read it");
    assert_eq!(count(Filter::default().agent("bob")).await, (1, 4));
    assert_eq!(count(Filter::default().session("s-1")).await, (4, 0));
    assert_eq!(count(Filter::default().session("S-1")).await, (0, 0));
    assert_eq!(count(Filter::default().user("u-2")).await, (1, 4));
    assert_eq!(count(Filter::default().model("m-1")).await, (4, 0));
    assert_eq!(count(Filter::default().trace(trace(1))).await, (1, 4));
    assert_eq!(count(Filter::default().event("sent")).await, (1, 1));
    assert_eq!(count(Filter::default().event("nothing")).await, (0, 0));
    let later: Timestamp = Timestamp::from_millis(1_796_115_600_000 + 3_600_000);
    assert_eq!(count(Filter::default().since(later)).await, (1, 4));
    assert_eq!(count(Filter::default().until(later)).await, (4, 0));
    assert_eq!(count(Filter::default().since(later).agent("bob").event("joined")).await, (1, 0));
    assert_eq!(count(Filter::default().agent("bob").session("s-1")).await, (0, 0));
}

// ---- where it stands -----------------------------------------------------------------------------------------------

/// A journal that keeps nothing that is settled, once it is told to compact.
async fn forgetful(folder: &Folder) -> Journal {
    let builder = Journal::builder().compact_at(u64::MAX).keep(Duration::ZERO);
    builder.open(folder.path()).await.unwrap()
}

/// R5: what compaction moved is told as before, once and in its place: orders with an origin and without, those that went on afterwards, and those
/// that are not done.
#[tokio::test]
async fn after_compaction_all_is_told_once_and_in_its_place() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let journal = forgetful(&folder).await;
    let api = brisk(&desk.url()).build().unwrap();
    let client = OrderClient::builder(journal.clone(), api, actor())
        .repeat_window(Duration::ZERO)
        .build();
    desk.script(Script::new().commit_then_lose_reply().times(4).then_ok());
    let mut before = 0;
    for round in 0..3 {
        drop(client.submit(mail(10 * round), &order()).await);
        receipt(client.submit(Origin::distinct(format!("box {round}")), &order()).await);
        receipt(client.submit(mail(10 * round + 1), &order()).await);
        receipt(client.submit(mail(1), &order()).await);
        let audit = Audit::of(&journal);
        let there = json_lines(&audit).await;
        assert!(there.len() > before + 10);
        before = there.len();
        assert!(journal.compact().await.unwrap().moved > 0);
        assert_eq!(json_lines(&audit).await, there, "round {round}");
        client.resume_pending().await.unwrap();
    }
    let told = rows(&journal, Filter::default().event("claimed")).await;
    let origins: Vec<&str> = told.iter().map(|row| row.origin.as_deref().unwrap()).collect();
    let box_ = "unknown, vouched for as distinct";
    let right = [
        "mail 0@example.com",
        box_,
        "mail 1@example.com",
        "mail 10@example.com",
        box_,
        "mail 11@example.com",
    ];
    assert_eq!(origins[..6], right);
    assert_eq!((told.len(), told[1].note.as_deref()), (9, Some("box 0")));
}

/// An archive that is gone is told as what it is, for each order in it; and the rest is told.
#[tokio::test]
async fn an_order_whose_archive_is_gone_is_a_row_that_says_so() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let journal = forgetful(&folder).await;
    let api = brisk(&desk.url()).build().unwrap();
    let client = OrderClient::builder(journal.clone(), api, actor())
        .repeat_window(Duration::ZERO)
        .build();
    let gone = receipt(client.submit(mail(1), &order()).await).key;
    let nameless = receipt(client.submit(Origin::distinct("a box"), &order()).await).key;
    journal.compact().await.unwrap();
    let archive = fs::read_dir(folder.path().join("archive")).unwrap().next().unwrap().unwrap();
    fs::remove_file(archive.path()).unwrap();
    let there = receipt(client.submit(mail(2), &order()).await).key;

    let told = rows(&journal, Filter::default()).await;
    assert_eq!(
        events(&told),
        ["unreadable", "unreadable", "claimed", "sent", "observed", "settled"]
    );
    let keys: BTreeSet<_> = told[..2].iter().map(|row| row.key).collect();
    assert_eq!((keys, told[2].key), (BTreeSet::from([gone, nameless]), there));
    for row in &told[..2] {
        assert_eq!((row.at, row.effect, row.standing), (None, Effect::Possible, "unreadable"));
        assert!(row.reason.as_deref().unwrap().contains("it succeeded"), "{row}");
        assert!(row.to_string().starts_with("-   "), "{row}");
    }
    // What can't be read may be anybody's.
    assert_eq!(
        events(&rows(&journal, Filter::default().agent("nobody")).await),
        ["unreadable", "unreadable"]
    );
    assert_eq!(rows(&journal, Filter::default().key(there).agent("nobody")).await.len(), 0);
}

fn record(key: IdempotencyKey, name: &str, data: &str) -> Record {
    Record {
        key,
        name: name.to_owned(),
        at: Timestamp::from_millis(1_796_115_600_000),
        standing: Standing::Open,
        columns: None,
        data: data.to_owned().into(),
    }
}

/// A claim that was torn, and a record of a newer version: each is a row, with what can be read around it.
#[tokio::test]
async fn what_cant_be_read_is_a_row_and_never_a_failed_export() {
    let desk = Desk::start().await;
    let store = core::memory().unwrap();
    let journal = Journal::builder().over(Arc::clone(&store));
    let client = OrderClient::new(journal.clone(), brisk(&desk.url()).build().unwrap(), actor());
    let known = receipt(client.submit(mail(1), &order()).await).key;
    let torn: IdempotencyKey = "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap();
    let late = [
        record(torn, "sent", r#"{"attempt":1,"request":"6f9619ff-8b86-4011-b42d-00c04fc964ff"}"#),
        record(torn, "abandoned", r#"{"by":"carol","why":"x"}"#),
        record(known, "blessed", r#"{"by":"carol"}"#),
        record(known, "freed", r#"{"by":"carol","why":"x"}"#),
    ];
    let decide: Decide = Box::new(move |turn| {
        late.into_iter().for_each(|record| turn.append(record));
        Box::pin(async { Ok(()) })
    });
    store.turn(decide).await.unwrap();

    let told = rows(&journal, Filter::default()).await;
    let right = [
        "claimed",
        "sent",
        "observed",
        "settled",
        "unreadable",
        "freed",
        "unreadable",
        "sent",
        "abandoned",
    ];
    assert_eq!(events(&told), right);
    assert!(told[4].reason.as_deref().unwrap().contains("blessed"), "{}", told[4]);
    assert!(told[6].reason.as_deref().unwrap().contains("the claim of 8e03978e"), "{}", told[6]);
    for row in &told[4..] {
        assert_eq!((row.standing, row.effect), ("unreadable", Effect::Possible), "{row}");
        assert!(row.at.is_some());
    }
    assert_eq!((told[8].by.as_deref(), told[8].agent.as_deref()), (Some("carol"), None));
    assert_eq!(json_lines(&Audit::of(&journal)).await.len(), right.len());
}

// ---- no row, no request --------------------------------------------------------------------------------------------

/// BUG-84: where the book can't be written, because its disk is full, nothing is sent: no order, no change of one, no end of one.
#[tokio::test]
async fn a_journal_without_room_lets_nothing_be_sent() {
    async fn refused<O: Operation<Receipt = OrderReceipt>>(what: &str, order: O) {
        let (desk, folder, full) = (Desk::start().await, Folder::new(), Arc::new(AtomicBool::new(false)));
        let is_full = Arc::clone(&full);
        let disk = Moody::new(move |call| (call.what == "file.append" && is_full.load(Ordering::SeqCst)).then_some(ENOSPC));
        let journal = Journal::builder().disk(disk).open(folder.path()).await.unwrap();
        let allow = |_: &Proposal<'_>| Ruling::Allow(because());
        let api = brisk(&desk.url()).build().unwrap();
        let client = OrderClient::builder(journal, api, actor()).policy(allow).build();
        full.store(true, Ordering::SeqCst);
        for n in 0..2 {
            let error = client.submit(mail(n), &order).await.map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Journal, "{what}: {error}");
            assert!(journal_kind(&error).is_some());
        }
        assert_eq!(desk.requests().len(), 0, "{what}: {}", desk.story());
    }
    refused("place", PlaceOrder::new("C-100").item("SKU-1", 2)).await;
    refused("amend", AmendOrder::new(OrderRef::id("ord-1"), Base::Version(1)).set("note", "x")).await;
    refused("cancel", CancelOrder::new(OrderRef::id("ord-1"), "a mistake")).await;
}

/// An export that can't be written says so, and what was written are whole lines.
#[tokio::test]
async fn an_export_that_fails_ends_at_a_rows_end() {
    struct Narrow(Vec<u8>, usize);
    impl std::io::Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0.len() + bytes.len() > self.1 {
                return Err(std::io::Error::from_raw_os_error(28));
            }
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (desk, folder) = (Desk::start().await, Folder::new());
    receipt(folder.client(&desk).await.submit(mail(1), &order()).await);
    let mut out = Narrow(Vec::new(), 1000);
    let audit = Audit::of(&folder.journal().await);
    let error = audit.export(Format::JsonLines, &Filter::default(), &mut out).await.unwrap_err();
    assert!(matches!(error, uketsuke::audit::AuditError::Write(_)), "{error}");
    let text = String::from_utf8(out.0).unwrap();
    assert!(text.ends_with("}\n") && text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}
