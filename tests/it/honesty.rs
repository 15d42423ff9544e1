//! The honesty table: whatever goes wrong, at whichever vendor, what the client says of an order is true, and nothing it says leads to a second
//! one.
//!
//! Each cell is one order: a call in which something goes wrong, then a resume at a server that is honest again. The desk knows what
//! truly happened, once everything that is due there has come to its end. What a client that knows its business says of each fault is listed by
//! hand: one that answers "possible" to everything lies nowhere, and is caught all the same.

use crate::{
    kit::{Folder, brisk, order},
    presets::{Pair, pairs},
    props::{actor, mail},
};
use serde::Serialize;
use serde_json::json;
use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};
use tokio::task::JoinSet;
use uketsuke::{
    CommitBefore5xx,
    Effect::{self, Certain, None as Nothing, Possible},
    Error, Journal, NextStep, OrderClient, Outcome, Pacing, Timeouts, ToolReply,
    testkit::{Breaks, Desk, HangUp, Reply, RowState, Script, ServerDialect},
};

const LONG: Duration = Duration::from_secs(60);

// ---- the faults ------------------------------------------------------------------------------------------------------

/// Something that goes wrong with one call, and what is to be said of the order.
struct Fault {
    name: &'static str,
    what: What,
    /// The attempt's limit runs out: it is short, and the resume's is not.
    runs_out: bool,
    /// When work that got stuck, or is slow, comes to its end: before the resume, or behind it.
    ends_before_resume: bool,
    /// The server may commit and forget; the client's dialect says so.
    forgets: bool,
    /// What the call may say, where it can know no better; of one vendor. More than one: it depends on who notices first.
    said: fn(ServerDialect) -> &'static [Effect],
    /// What the resume says in the end.
    resumed: fn(&Pair) -> Effect,
    /// Whether the call made an order, once all that was due is done.
    made: bool,
}

/// What goes wrong: at the desk, or on the wire.
enum What {
    Desk(fn() -> Script),
    Wire(fn() -> Breaks),
    Down,
}

fn at_the_desk(name: &'static str, script: fn() -> Script, made: bool) -> Fault {
    Fault {
        name,
        what: What::Desk(script),
        runs_out: false,
        ends_before_resume: true,
        forgets: false,
        said: |_| &[Possible],
        resumed: |_| Certain,
        made,
    }
}

fn on_the_wire(name: &'static str, breaks: fn() -> Breaks, made: bool) -> Fault {
    Fault {
        what: What::Wire(breaks),
        ..at_the_desk(name, Script::new, made)
    }
}

fn bare(status: u16) -> Reply {
    Reply::status(status).body("text/plain", "")
}

fn page() -> Reply {
    Reply::status(200).body("text/html", "<html>Please sign in</html>")
}

fn faults() -> Vec<Fault> {
    use ServerDialect::{Checkout, Ietf, Repeatability};
    let nothing: fn(ServerDialect) -> &'static [Effect] = |_| &[Nothing];
    let refusal = |name, script| Fault {
        said: |_| &[Nothing],
        resumed: |_| Nothing,
        ..at_the_desk(name, script, false)
    };
    vec![
        Fault {
            said: |_| &[Certain],
            ..at_the_desk("nothing", Script::new, true)
        },
        // Lost, either way.
        at_the_desk("the request is lost", || Script::new().lose_request(), false),
        at_the_desk("the reply is lost", || Script::new().commit_then_lose_reply(), true),
        // 5xx.
        at_the_desk("503 before", || Script::new().status(503), false),
        at_the_desk("500 before", || Script::new().status(500), false),
        Fault {
            resumed: |pair| if pair.keeps_500 { Possible } else { Certain },
            ..at_the_desk("500 stored", || Script::new().store_status(500), false)
        },
        at_the_desk("504 behind the commit", || Script::new().commit_then_status(504), true),
        Fault {
            forgets: true,
            resumed: |pair| if pair.is_found_by_key() { Certain } else { Possible },
            ..at_the_desk(
                "503 behind a commit that is forgotten",
                || Script::new().commit_then_forget(503),
                true,
            )
        },
        // Let in, or not.
        Fault {
            said: nothing,
            ..at_the_desk("401", || Script::new().unauthorized(), false)
        },
        Fault {
            said: nothing,
            ..at_the_desk("403", || Script::new().status(403), false)
        },
        at_the_desk("408", || Script::new().status(408), false),
        Fault {
            said: nothing,
            ..at_the_desk("425", || Script::new().status(425), false)
        },
        Fault {
            // Formerly "still running", there.
            said: |server| if server == Checkout { &[Possible] } else { &[Nothing] },
            ..at_the_desk("429", || Script::new().reply(Reply::status(429).retry_after("0")), false)
        },
        // Refused.
        at_the_desk("409 without a word", || Script::new().reply(bare(409)), false),
        Fault {
            // With a code of its own it is a refusal at a server that follows the draft; elsewhere nobody publishes what it may be.
            said: |server| if server == Ietf { &[Nothing] } else { &[Possible] },
            resumed: |pair| if pair.server == Ietf { Nothing } else { Certain },
            ..at_the_desk("409 with a word of its own", || Script::new().status(409), false)
        },
        refusal("400", || Script::new().status(400)),
        refusal("404", || Script::new().status(404)),
        refusal("422", || Script::new().status(422)),
        refusal("422, stored", || Script::new().refuse()),
        Fault {
            said: |server| if server == Repeatability { &[Possible] } else { &[Nothing] },
            resumed: |pair| if pair.server == Repeatability { Possible } else { Nothing },
            ..at_the_desk("412", || Script::new().status(412), false)
        },
        // A refusal behind a doubt is no refusal (R1).
        Fault {
            resumed: |_| Possible,
            ..at_the_desk(
                "the request is lost, and then 422",
                || Script::new().lose_request().status(422),
                false,
            )
        },
        Fault {
            resumed: |pair| if pair.is_found_by_key() { Certain } else { Possible },
            ..at_the_desk(
                "the reply is lost, and then 422",
                || Script::new().commit_then_lose_reply().status(422),
                true,
            )
        },
        // Not yet.
        at_the_desk("202", || Script::new().accepted(), true),
        Fault {
            runs_out: true,
            ..at_the_desk("the reply is late", || Script::new().reply_after(LONG), true)
        },
        at_the_desk("stuck, and then done", || Script::new().get_stuck(), true),
        Fault {
            ends_before_resume: false,
            resumed: |_| Possible,
            ..at_the_desk("stuck", || Script::new().get_stuck(), true)
        },
        Fault {
            runs_out: true,
            ..at_the_desk("slow, and then done", || Script::new().slow(LONG), true)
        },
        Fault {
            runs_out: true,
            ends_before_resume: false,
            resumed: |_| Possible,
            ..at_the_desk("slow", || Script::new().slow(LONG), true)
        },
        // Not what it seems.
        at_the_desk("307", || Script::new().redirect(307, "/elsewhere"), false),
        at_the_desk("302 behind the commit", || Script::new().commit_then_status(302), true),
        at_the_desk("a sign-in page", || Script::new().reply(page()), false),
        at_the_desk("a sign-in page behind the commit", || Script::new().commit_then_reply(page()), true),
        Fault {
            resumed: |_| Possible,
            ..at_the_desk(
                "another order in the answer",
                || Script::new().reply(Reply::json(200, json!({"order_id": "ord-9", "customer": "C-999"}))),
                false,
            )
        },
        // The wire.
        Fault {
            what: What::Down,
            said: nothing,
            ..at_the_desk("refused", Script::new, false)
        },
        Fault {
            // If the reset is there before the connection is, it is a refused one.
            said: |_| &[Nothing, Possible],
            ..on_the_wire("reset at accept", || Breaks::new().hang_up(HangUp::Reset), false)
        },
        on_the_wire("request taken, and reset", || Breaks::new().lose_request(HangUp::Reset), false),
        on_the_wire("request cut", || Breaks::new().cut_request(40, HangUp::Fin), false),
        on_the_wire("reset before the reply", || Breaks::new().lose_reply(HangUp::Reset), true),
        on_the_wire("closed in the reply's head", || Breaks::new().cut_reply(10, HangUp::Fin), true),
        on_the_wire("closed in the body", || Breaks::new().cut_body(10, HangUp::Fin), true),
        on_the_wire("reset in the body", || Breaks::new().cut_body(10, HangUp::Reset), true),
        Fault {
            runs_out: true,
            ..on_the_wire("silence", || Breaks::new().black_hole(), false)
        },
        Fault {
            runs_out: true,
            ..on_the_wire("silence in the body", || Breaks::new().stall_body(10), true)
        },
    ]
}

// ---- a cell ----------------------------------------------------------------------------------------------------------

/// What was said of an order, and what is true of it.
#[derive(Clone, Debug)]
struct Cell {
    fault: &'static str,
    server: ServerDialect,
    /// What a client that knows its business says, after the call and after the resume.
    wanted: [Vec<Effect>; 2],
    said: [Effect; 2],
    /// How many orders there are when all that was due by then is done; twice.
    orders: [usize; 2],
    /// What else was not true.
    untrue: Vec<String>,
}

async fn cell(fault: &Fault, pair: &Pair) -> Cell {
    let (desk, folder) = (pair.desk().await, Folder::new());
    let (link, url) = match &fault.what {
        What::Desk(script) => {
            desk.script(script());
            (None, desk.url())
        }
        What::Wire(breaks) => {
            let link = desk.behind(breaks()).await;
            let url = link.url();
            (Some(link), url)
        }
        What::Down => {
            let link = desk.behind(Breaks::new()).await;
            link.go_down().await;
            let url = link.url();
            (Some(link), url)
        }
    };
    let journal = folder.journal().await;
    let mut untrue = Vec::new();

    let submitted = client(&journal, &url, fault, pair, fault.runs_out).submit(mail(1), &order()).await;
    let key = submitted.as_ref().map_or_else(|error| error.key().unwrap(), Outcome::key);
    let said = look(&submitted, &desk, &journal, &mut untrue).await;
    let done_by_call = desk.orders().len();
    if let (What::Down, Some(link)) = (&fault.what, &link) {
        link.come_up().await;
    }
    if fault.ends_before_resume {
        // Nothing is stuck, mostly.
        drop(desk.finish(&key.to_string()));
    }
    let done = desk.orders().len();

    let resumed = client(&journal, &url, fault, pair, false).resume(key).await;
    let said_again = look(&resumed, &desk, &journal, &mut untrue).await;
    drop(desk.finish(&key.to_string()));
    let in_the_end = desk.orders().len();

    if said == Certain && done_by_call != 1 {
        untrue.push(format!("certain, with {done_by_call} orders"));
    }
    let keys = desk.keys();
    if keys.iter().any(|seen| *seen != key.to_string()) {
        untrue.push(format!("keys {keys:?}"));
    }
    if let Some(link) = link
        && !matches!(fault.what, What::Down)
    {
        link.assert_plan_played();
    }
    // Made by the call: what was due from it, whenever that came to its end.
    let made_by_call = if fault.ends_before_resume { done } else { in_the_end };
    if (made_by_call == 1) != fault.made {
        untrue.push(format!("the fault did not happen: {made_by_call} orders\n{}", desk.story()));
    }
    Cell {
        fault: fault.name,
        server: pair.server,
        wanted: [(fault.said)(pair.server).to_vec(), vec![(fault.resumed)(pair)]],
        said: [said, said_again],
        orders: [made_by_call, in_the_end],
        untrue,
    }
}

/// One attempt a call, and one name whatever the address.
fn client(journal: &Journal, url: &str, fault: &Fault, pair: &Pair, runs_out: bool) -> OrderClient {
    let mut pacing = Pacing::default();
    pacing.attempts = 1;
    let mut timeouts = Timeouts::default();
    timeouts.connect = Duration::from_secs(1);
    timeouts.attempt = Duration::from_secs(if runs_out { 2 } else { 30 });
    let dialect = match fault.forgets {
        true => pair.dialect().commit_before_5xx(CommitBefore5xx::Possible),
        false => pair.dialect(),
    };
    timeouts.total = LONG;
    let api = brisk(url).name("shop").pacing(pacing).timeouts(timeouts).dialect(dialect);
    OrderClient::new(journal.clone(), api.build().unwrap(), actor())
}

/// The effect that was told, if all that was told with it fits: the next step, the stored order, each word.
async fn look<R: Debug + Serialize>(told: &Result<Outcome<R>, Error>, desk: &Desk, journal: &Journal, untrue: &mut Vec<String>) -> Effect {
    let (effect, next, key) = match told {
        Ok(outcome) => (outcome.effect(), outcome.next_step(), outcome.key()),
        Err(error) => (error.effect(), error.next_step(), error.key().unwrap()),
    };
    let mut wrong = |what: &str| untrue.push(format!("{what}: {told:?}"));
    let fits = match next {
        NextStep::Nothing => effect == Certain && desk.orders().len() == 1,
        NextStep::FixInput => effect == Nothing && desk.orders().is_empty() && matches!(told, Ok(Outcome::Rejected(_))),
        // What is open can be resumed; what a person has to look at can't be.
        NextStep::Resume { .. } | NextStep::FixSetup => told.is_err() && effect != Certain,
        NextStep::AskHuman => matches!(told, Ok(Outcome::NeedsReview(_))) && effect != Certain,
        _ => false,
    };
    if !fits {
        wrong("the next step");
    }
    let reply = ToolReply::of(told);
    let mut words = vec![
        next.to_string(),
        serde_json::to_string(&reply).unwrap(),
        reply.message,
        reply.next_step,
    ];
    words.extend(told.as_ref().err().map(Error::to_string));
    if words.iter().any(|words| asks_for_another_order(words)) {
        wrong("it asks for another order");
    }
    if reply.effect != effect || reply.key != Some(key) {
        wrong("the tool's reply");
    }
    // As the journal has it, for whoever asks next.
    let asked = OrderClient::new(journal.clone(), brisk(&desk.url()).name("shop").build().unwrap(), actor());
    let stored = match asked.known(key).await {
        Ok(Some(outcome)) => outcome.effect(),
        Ok(None) => {
            wrong("nothing is stored");
            return effect;
        }
        Err(error) => error.effect(),
    };
    if stored != effect {
        wrong(&format!("stored as {stored:?}"));
    }
    effect
}

/// Whether a text could move anybody to place an order anew. "Do not" is what the crate says of that, and nothing else.
fn asks_for_another_order(words: &str) -> bool {
    let words = words.to_lowercase().replace("do not place it as a new order", "");
    [
        "new order",
        "another order",
        "place it again",
        "new key",
        "another key",
        "submit again",
    ]
    .iter()
    .any(|bad| words.contains(bad))
}

/// Every cell in which something was said that is not so, or that somebody who knows the fault would know better.
fn untruths(cells: &[Cell]) -> Vec<String> {
    let mut found = Vec::new();
    for cell in cells {
        let mut wrong = |what: String| found.push(format!("{} / {}: {what}", cell.fault, cell.server));
        for ((said, wanted), orders) in cell.said.iter().zip(&cell.wanted).zip(cell.orders) {
            let is_so = match said {
                Nothing => orders == 0,
                Possible => orders <= 1,
                Certain => orders == 1,
            };
            if !is_so {
                wrong(format!("{said:?}, with {orders} orders"));
            }
            if !wanted.contains(said) {
                wrong(format!("{said:?}, not {wanted:?}"));
            }
        }
        cell.untrue.iter().for_each(|what| wrong(what.clone()));
    }
    // Each word has to be used where it is the only true one; and doubt, where it can be either, of both.
    for server in ServerDialect::ALL {
        let words: BTreeSet<(String, usize)> = cells
            .iter()
            .filter(|cell| cell.server == server)
            .flat_map(|cell| cell.said.iter().zip(cell.orders))
            .map(|(said, orders)| (format!("{said:?}"), orders))
            .collect();
        for needed in [(Nothing, 0), (Possible, 0), (Possible, 1), (Certain, 1)] {
            if !words.contains(&(format!("{:?}", needed.0), needed.1)) {
                found.push(format!("{server}: nowhere {:?} of {} orders", needed.0, needed.1));
            }
        }
    }
    found
}

// ---- the tests -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn what_is_said_of_an_order_is_true_whatever_went_wrong() {
    let mut cells = Vec::new();
    for fault in faults() {
        let fault = Arc::new(fault);
        // All vendors at once: where a limit has to run out, it does so for all of them.
        let mut row = JoinSet::new();
        for pair in pairs() {
            let fault = Arc::clone(&fault);
            row.spawn(async move { cell(&fault, &pair).await });
        }
        cells.extend(row.join_all().await);
    }
    assert_eq!(cells.len(), faults().len() * ServerDialect::ALL.len());
    let found = untruths(&cells);
    assert!(
        found.is_empty(),
        "{} untruths of {} cells:\n{}",
        found.len(),
        cells.len(),
        found.join("\n")
    );
}

/// One trouble after the other, drawn by lot: what each call says is true at that moment, work that is still to come included.
#[tokio::test]
async fn what_is_said_stays_true_through_calls_that_go_wrong_one_after_the_other() {
    const CALLS: usize = 4;
    let mut lot = Lot(42);
    let (mut untrue, mut words) = (Vec::new(), BTreeSet::new());
    for round in 0..6 {
        for pair in pairs() {
            let (desk, folder) = (pair.desk().await, Folder::new());
            let journal = folder.journal().await;
            let (mut key, mut story) = (None, Vec::new());
            for _ in 0..CALLS {
                let faults: Vec<Fault> = faults()
                    .into_iter()
                    .filter(|fault| matches!(fault.what, What::Desk(_)) && !fault.runs_out && !fault.forgets)
                    .collect();
                let fault = &faults[lot.below(faults.len())];
                let What::Desk(script) = fault.what else { continue };
                desk.script(script());
                let client = client(&journal, &desk.url(), fault, &pair, false);
                story.push(fault.name);
                let mut wrong = Vec::new();
                let said = match key {
                    None => {
                        let told = client.submit(mail(1), &order()).await;
                        key = Some(told.as_ref().map_or_else(|error| error.key().unwrap(), Outcome::key));
                        look(&told, &desk, &journal, &mut wrong).await
                    }
                    Some(key) => look(&client.resume(key).await, &desk, &journal, &mut wrong).await,
                };
                let name = key.unwrap().to_string();
                let running = desk.row(&name).is_some_and(|row| row.state == RowState::Processing);
                let orders = desk.orders().len();
                let is_so = match said {
                    Nothing => orders == 0 && !running,
                    Possible => orders <= 1,
                    Certain => orders == 1,
                };
                if !is_so {
                    wrong.push(format!("{said:?}, with {orders} orders, running: {running}"));
                }
                words.insert((format!("{said:?}"), orders));
                untrue.extend(
                    wrong
                        .iter()
                        .map(|what| format!("round {round}, {}, {story:?}: {what}", pair.server)),
                );
                if lot.below(2) == 0 {
                    drop(desk.finish(&name));
                }
            }
            let name = key.unwrap().to_string();
            drop(desk.finish(&name));
            assert!(desk.orders().len() <= 1, "{}, {story:?}\n{}", pair.server, desk.story());
            assert_eq!(desk.keys(), [name], "{}, {story:?}\n{}", pair.server, desk.story());
        }
    }
    assert!(untrue.is_empty(), "{}", untrue.join("\n"));
    for needed in [(Nothing, 0), (Possible, 0), (Possible, 1), (Certain, 1)] {
        assert!(words.contains(&(format!("{:?}", needed.0), needed.1)), "{words:?}");
    }
}

/// The same lots in every run: a linear congruential generator, by Knuth's numbers.
struct Lot(u64);

impl Lot {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// The counter-proof: the table as it has to be, and clients that say the same of everything.
#[test]
fn a_client_that_says_the_same_of_everything_is_caught() {
    let cells = |says: fn(&Fault, &[Effect]) -> Effect| -> Vec<Cell> {
        let mut cells = Vec::new();
        for fault in faults() {
            for pair in pairs() {
                let wanted = [(fault.said)(pair.server).to_vec(), vec![(fault.resumed)(&pair)]];
                let made = usize::from(fault.made);
                let in_the_end = made.max(usize::from(wanted[1] == [Certain]));
                cells.push(Cell {
                    fault: fault.name,
                    server: pair.server,
                    said: [says(&fault, &wanted[0]), says(&fault, &wanted[1])],
                    wanted,
                    orders: [made, in_the_end],
                    untrue: Vec::new(),
                });
            }
        }
        cells
    };
    assert_eq!(untruths(&cells(|_, wanted| wanted[0])), [""; 0]);
    for same in [
        |_: &Fault, _: &[Effect]| Possible,
        |_: &Fault, _: &[Effect]| Nothing,
        |_: &Fault, _: &[Effect]| Certain,
    ] {
        let found = untruths(&cells(same));
        assert!(found.len() > faults().len(), "{found:?}");
    }
    // One cell is enough, and so is one word.
    let mut one = cells(|_, wanted| wanted[0]);
    one[20].said[0] = Nothing;
    assert!(!untruths(&one).is_empty());
    let mut one = cells(|_, wanted| wanted[0]);
    one[0].untrue.push("it asks for another order".to_owned());
    assert_eq!(untruths(&one).len(), 1);
    let mut one = cells(|_, wanted| wanted[0]);
    one[0].orders = [2, 2];
    assert_eq!(untruths(&one).len(), 2);

    for bad in [
        "try again with a new order",
        "Place a NEW ORDER",
        "do not place it as a new order; submit again",
        "use a new key",
    ] {
        assert!(asks_for_another_order(bad), "{bad}");
    }
    assert!(!asks_for_another_order(
        "resume it under the same key; do not place it as a new order"
    ));
}
