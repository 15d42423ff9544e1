//! The judge: holds the desk, starts the agents, kills them, and counts. It believes the desk's book, the log as it reads it itself, and what
//! the agents said before they died.

use super::{
    Break, Dice, End, Moment, Plan, Storm, Tally,
    book::{Book, mail_of},
    breaks, trouble,
};
use crate::kit::Folder;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::time::Instant;
use uketsuke::testkit::{Breaks, Desk, Fate, Link, RowState, Script, Seen};

/// Processes that live at the same time.
const SLOTS: usize = 4;
/// A look at a process, or at the log.
const GLANCE: Duration = Duration::from_millis(1);
/// A moment that a process waits for in vain: it is killed all the same.
const LONG_ENOUGH: Duration = Duration::from_millis(1500);
/// So is one that does not even get ready. A slow machine is no failure.
const NEVER_READY: Duration = Duration::from_secs(60);
const SIGKILL: i32 = 9;

/// Plays a storm to its end.
pub(super) async fn play(storm: Storm) -> Tally {
    let desk = Desk::start().await;
    let link = Link::to(desk.url()).await;
    let judge = Judge::new(storm, desk, link);
    // What follows is threads that wait for processes; the link lives on the runtime's other thread.
    tokio::task::block_in_place(|| {
        judge.storm();
        judge.heal();
        judge.verdict()
    })
}

// ---- what the desk's thread, the readers and the slots share -------------------------------------------------------

/// A process that is to be killed.
struct Life {
    plan: Plan,
    child: Mutex<Child>,
    ready: AtomicBool,
    /// The moment it is killed at, and how many of them are still to come.
    due: Mutex<Option<(Moment, usize)>>,
    /// Once killed: the keys for which the desk had then stored an order that this process sent.
    struck: Mutex<Option<BTreeSet<String>>>,
}

impl Life {
    fn is_due(&self, now: Moment) -> bool {
        let mut due = self.due.lock().unwrap();
        match due.as_mut() {
            Some((moment, left)) if *moment == now => {
                *left = left.saturating_sub(1);
                *left == 0
            }
            _ => false,
        }
    }

    fn is_struck(&self) -> bool {
        self.struck.lock().unwrap().is_some()
    }

    fn has_ended(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_some()
    }
}

/// No process outlives a judge that panics.
impl Drop for Life {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// What the judge saw and heard.
#[derive(Default)]
struct Notes {
    /// Who sent the first request of each key.
    first: HashMap<String, String>,
    /// Who sent the request that made the desk store an order, by key.
    committed: HashMap<String, String>,
    /// Keys that came before the log had them.
    unwritten: BTreeSet<String>,
    /// Mails that an agent began to submit.
    begun: BTreeSet<String>,
    told: Vec<Told>,
    odd: Vec<String>,
}

/// What a process was told.
#[derive(Clone)]
struct Told {
    agent: String,
    mail: Option<String>,
    key: String,
    /// The order's id, where it was told as processed.
    order: Option<String>,
}

struct Ring {
    lives: Mutex<HashMap<String, Arc<Life>>>,
    book: Mutex<Book>,
    notes: Mutex<Notes>,
}

impl Ring {
    /// Kills a process, once; what the desk had stored for it by then is written down first.
    fn strike(&self, life: &Life) {
        let notes = self.notes.lock().unwrap();
        let stored = notes.committed.iter().filter(|(_, agent)| **agent == life.plan.agent);
        let stored = stored.map(|(key, _)| key.clone()).collect();
        drop(notes);
        let mut struck = life.struck.lock().unwrap();
        if struck.is_none() {
            *struck = Some(stored);
            life.child.lock().unwrap().kill().unwrap();
        }
    }

    fn moment(&self, agent: &str, now: Moment) {
        let life = self.lives.lock().unwrap().get(agent).cloned();
        if let Some(life) = life.filter(|life| life.is_due(now)) {
            self.strike(&life);
        }
    }

    /// Reads the log; whoever waits for a claim of its own to stand there is killed.
    fn read_log(&self) {
        let mut book = self.book.lock().unwrap();
        let fresh = book.catch_up();
        let agents: Vec<String> = fresh.iter().map(|key| book.claims[key].agent.clone()).collect();
        drop(book);
        for agent in agents {
            self.moment(&agent, Moment::Claimed);
        }
    }

    /// On the desk's thread, before anything is done about a request.
    fn arrived(&self, seen: &Seen) {
        let (Some(key), agent) = (&seen.key, agent_of(seen)) else { return };
        self.read_log();
        let written = self.book.lock().unwrap().claims.contains_key(key);
        let mut notes = self.notes.lock().unwrap();
        if !written {
            notes.unwritten.insert(key.clone());
        }
        notes.first.entry(key.clone()).or_insert_with(|| agent.clone());
        drop(notes);
        self.moment(&agent, Moment::Arrived);
    }

    /// On the desk's thread, when an order is stored and the answer has not left.
    fn committed(&self, seen: &Seen) {
        let (Some(key), agent) = (&seen.key, agent_of(seen)) else { return };
        self.notes.lock().unwrap().committed.insert(key.clone(), agent.clone());
        self.moment(&agent, Moment::Committed);
    }

    /// A line that a process said.
    fn heard(&self, agent: &str, line: &str) {
        let Some((_, said)) = line.split_once("storm ") else { return };
        let words: Vec<&str> = said.split(' ').collect();
        let mail = |word: &str| (word != "-").then(|| word.to_owned());
        let mut notes = self.notes.lock().unwrap();
        match words[..] {
            ["begin", mail] => drop(notes.begun.insert(mail.to_owned())),
            ["open", about, key] => notes.told.push(Told {
                agent: agent.to_owned(),
                mail: mail(about),
                key: key.to_owned(),
                order: None,
            }),
            ["receipt", about, key, order] => notes.told.push(Told {
                agent: agent.to_owned(),
                mail: mail(about),
                key: key.to_owned(),
                order: Some(order.to_owned()),
            }),
            ["odd", ..] => notes.odd.push(format!("{agent}: {said}")),
            _ => {}
        }
    }
}

fn agent_of(seen: &Seen) -> String {
    let token = seen.header("authorization").unwrap_or_default();
    token.trim_start_matches("Bearer ").to_owned()
}

// ---- the judge -----------------------------------------------------------------------------------------------------

struct Judge {
    storm: Storm,
    desk: Desk,
    link: Link,
    /// For each situation of the desk's script, whether it is a fault.
    faults: Vec<bool>,
    folder: Folder,
    ring: Arc<Ring>,
    count: Mutex<Count>,
    began: Instant,
}

/// What is counted while it goes on.
#[derive(Default)]
struct Count {
    started: usize,
    kills: usize,
    /// Keys that were claimed by a process and unknown to the desk when it died.
    unsent: BTreeMap<String, String>,
    /// Keys that were stored by the desk and not settled in the log when their sender died.
    unmarked: BTreeSet<String>,
    notes: Vec<String>,
}

impl Judge {
    fn new(storm: Storm, desk: Desk, link: Link) -> Self {
        let folder = Folder::new();
        let ring = Arc::new(Ring {
            lives: Mutex::default(),
            book: Mutex::new(Book::of(&folder.path())),
            notes: Mutex::default(),
        });
        let (arrived, committed) = (Arc::clone(&ring), Arc::clone(&ring));
        desk.on_request(move |seen| arrived.arrived(seen));
        desk.after_commit(move |seen| committed.committed(seen));
        let mut dice = Dice::of(storm.seed, usize::MAX);
        let (script, faults) = trouble(&mut dice, 2000 + 60 * storm.kills);
        desk.script(script);
        link.plan(breaks(&mut dice, 500 + 20 * storm.kills));
        Judge {
            storm,
            desk,
            link,
            faults,
            folder,
            ring,
            count: Mutex::default(),
            began: Instant::now(),
        }
    }

    fn storm(&self) {
        let over = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    self.ring.read_log();
                    thread::sleep(GLANCE);
                }
            });
            let slots: Vec<_> = (0..SLOTS).map(|_| threads.spawn(|| self.slot())).collect();
            let ended: Vec<_> = slots.into_iter().map(|slot| slot.join()).collect();
            over.store(true, Ordering::Release);
            ended.into_iter().for_each(|ended| ended.unwrap());
        });
    }

    fn slot(&self) {
        while let Some(plan) = self.next_plan() {
            self.live(plan);
        }
    }

    /// As many as were asked for; and, since luck with time must turn nothing red, some more if the moments that hurt were not met.
    fn next_plan(&self) -> Option<Plan> {
        let mut count = self.count.lock().unwrap();
        let calm = self.storm.breaks.is_none() && (count.unsent.len() < 3 || count.unmarked.len() < 3);
        let more = count.kills < self.storm.kills || (calm && count.started < 3 * self.storm.kills + 60);
        if !more {
            return None;
        }
        let plan = Plan::draw(&self.storm, count.started);
        count.started += 1;
        Some(plan)
    }

    fn live(&self, plan: Plan) {
        let url = if plan.over_link { self.link.url() } else { self.desk.url() };
        let mut child = self.start(&plan.agent, &plan.habits, &url);
        let (mut orders, mut said) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let life = Arc::new(Life {
            child: Mutex::new(child),
            ready: AtomicBool::new(false),
            due: Mutex::new(match plan.end {
                End::At(moment, times) => Some((moment, times)),
                _ => None,
            }),
            struck: Mutex::default(),
            plan,
        });
        let agent = &life.plan.agent;
        self.ring.lives.lock().unwrap().insert(agent.clone(), Arc::clone(&life));
        thread::scope(|threads| {
            threads.spawn(|| self.listen(&life, &mut said));
            self.until_struck(&life, &mut orders);
        });
        let status = life.child.lock().unwrap().wait().unwrap();
        self.ring.lives.lock().unwrap().remove(agent);
        self.bury(&life, status);
    }

    /// Everything that it said, also what it said last.
    fn listen(&self, life: &Life, said: &mut impl std::io::BufRead) {
        for line in said.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if line.ends_with("storm ready") {
                life.ready.store(true, Ordering::Release);
            }
            self.ring.heard(&life.plan.agent, &line);
        }
    }

    fn until_struck(&self, life: &Life, orders: &mut impl std::io::Write) {
        let started = Instant::now();
        let mut given = None;
        while !life.is_struck() && !life.has_ended() {
            if given.is_none() && life.ready.load(Ordering::Acquire) {
                let list: String = life.plan.mails.iter().map(|mail| format!("place {mail}\n")).collect();
                // It may be gone already.
                drop(orders.write_all(list.as_bytes()));
                given = Some(Instant::now());
            }
            let over = |since: Instant, time: Duration| since.elapsed() >= time;
            let due = match (life.plan.end, given) {
                (End::AfterStart(time), _) => over(started, time),
                (End::AfterMails(time), Some(given)) => over(given, time),
                (End::At(..), Some(given)) => over(given, LONG_ENOUGH),
                (End::AfterMails(_) | End::At(..), None) => over(started, NEVER_READY),
            };
            if due {
                self.ring.strike(life);
            }
            thread::sleep(GLANCE);
        }
    }

    /// What was true when it died.
    fn bury(&self, life: &Life, status: ExitStatus) {
        let agent = &life.plan.agent;
        let stored = life.struck.lock().unwrap().take();
        if status.signal() != Some(SIGKILL) {
            self.ring
                .notes
                .lock()
                .unwrap()
                .odd
                .push(format!("{agent} ended by itself: {status}"));
        }
        self.ring.read_log();
        let book = self.ring.book.lock().unwrap();
        let notes = self.ring.notes.lock().unwrap();
        let mut count = self.count.lock().unwrap();
        let unsent = book
            .claims
            .iter()
            .filter(|(key, claim)| claim.agent == *agent && !notes.first.contains_key(*key));
        count.unsent.extend(unsent.map(|(key, _)| (key.clone(), agent.clone())));
        let unmarked = stored.into_iter().flatten().filter(|key| !book.settled.contains(key));
        count.unmarked.extend(unmarked);
        count.kills += usize::from(status.signal() == Some(SIGKILL));
        let tidy = count.kills.is_multiple_of(8);
        drop((book, notes, count));
        if tidy {
            self.finish_what_is_stuck();
        }
    }

    fn finish_what_is_stuck(&self) {
        let rows = self.desk.rows();
        for row in rows.iter().filter(|row| row.state == RowState::Processing) {
            // Another slot may have been quicker, or the work is not stuck but going on.
            drop(self.desk.finish(&row.key));
        }
    }

    /// This very binary, started again as an agent.
    fn start(&self, agent: &str, habits: &[&str], url: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash_storm::agent::play", "--nocapture", "--test-threads", "1"])
            .env("UKETSUKE_STORM_AGENT", format!("{agent} {}", habits.join(" ")).trim_end())
            .env("UKETSUKE_URL", url)
            .env("UKETSUKE_FOLDER", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(self.last_words())
            .spawn()
            .unwrap()
    }

    /// Beside the journal: why an agent ended that should have been killed.
    fn last_words_path(&self) -> PathBuf {
        self.folder.path().with_file_name("last-words")
    }

    fn last_words(&self) -> File {
        OpenOptions::new().create(true).append(true).open(self.last_words_path()).unwrap()
    }

    // ---- after the storm -------------------------------------------------------------------------------------------

    /// From here on the desk and the wire are honest.
    fn heal(&self) {
        let played = self.faults.len() - self.desk.script_left();
        let faults = self.faults.iter().take(played).filter(|fault| **fault).count();
        let broken = self.link.seen().iter().filter(|passage| passage.fate == Fate::Broken).count();
        self.desk.script(Script::new());
        self.link.plan(Breaks::new());
        self.finish_what_is_stuck();
        let mut count = self.count.lock().unwrap();
        let (started, took) = (count.started, self.began.elapsed());
        count.notes.push(format!(
            "{started} processes in {took:.1?}; desk faults played: {faults} in {played} requests; connections broken: {broken}"
        ));
    }

    /// A fresh process that nobody kills, from its start to its end.
    fn calmly(&self, agent: &str, habits: &[&str], orders: &[String]) {
        let mut child = self.start(agent, habits, &self.desk.url());
        let (mut stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let list: String = orders.iter().map(|order| format!("{order}\n")).collect();
        thread::scope(|threads| {
            threads.spawn(move || drop(stdin.write_all(list.as_bytes())));
            for line in stdout.split(b'\n').map_while(Result::ok) {
                self.ring.heard(agent, &String::from_utf8_lossy(&line));
            }
        });
        let status = child.wait().unwrap();
        if !status.success() {
            self.ring.notes.lock().unwrap().odd.push(format!("{agent} ended badly: {status}"));
        }
    }

    /// The log and the archive, read anew from their first byte.
    fn read_all(&self) -> Book {
        let mut book = Book::of(&self.folder.path());
        book.catch_up();
        book
    }

    fn verdict(&self) -> Tally {
        let mut tally = Tally::default();
        // Whoever comes after them resumes; by then nothing may be missing.
        self.calmly("resumer", &["patient", "resumes"], &[]);
        let book = self.read_all();
        self.find_lost(&book, &mut tally);

        // Then the mailbox is read once more, and every key is asked for: everybody hears the same, and what was claimed is not sent again.
        let before = self.desk.requests().len();
        let mails: Vec<String> = self.ring.notes.lock().unwrap().begun.iter().cloned().collect();
        let mut orders: Vec<String> = book.claims.keys().map(|key| format!("known {key}")).collect();
        if self.storm.breaks != Some(Break::KeyPerAttempt) {
            // Those agents have no name for a mail that lasts; one that has would order everything anew, and no harm done before would show.
            orders.extend(mails.iter().map(|mail| format!("place {mail}")));
        }
        self.calmly("reader", &["patient"], &orders);
        let requests = self.desk.requests();
        let again = requests[before..].iter().filter(|seen| agent_of(seen) == "reader");
        let again: BTreeSet<String> = again.filter_map(|seen| seen.key.clone()).collect();
        let again = again.into_iter().filter(|key| book.claims.contains_key(key));

        self.compare_receipts(&mails, &self.read_all(), &mut tally);
        let notes = self.ring.notes.lock().unwrap();
        tally.odd.extend(notes.odd.iter().cloned());
        tally.odd.extend(again.map(|key| format!("{key} was sent again when all was over")));
        if self.storm.breaks.is_none() {
            let smells = self.desk.suspicions();
            tally.odd.extend(smells.iter().map(ToString::to_string));
            tally.odd.extend(self.desk.strays().iter().map(ToString::to_string));
        }
        let count = self.count.lock().unwrap();
        let sent_by_another = |(key, agent): &(&String, &String)| notes.first.get(*key).is_some_and(|first| first != *agent);
        tally.kills = count.kills;
        tally.origins = mails.len();
        tally.orders = self.desk.orders().len();
        tally.before_send = count.unsent.iter().filter(sent_by_another).count();
        tally.between = count.unmarked.len();
        tally.replayed = requests.iter().filter(|seen| seen.replayed).count();
        tally.notes.extend(count.notes.iter().cloned());
        tally.notes.push(format!(
            "{} records in the log; torn ends set aside: {}; {} requests, {} told outcomes; all in {:.1?}",
            book.records(),
            book.torn(),
            requests.len(),
            notes.told.len(),
            self.began.elapsed()
        ));
        if !tally.odd.is_empty() {
            let words = std::fs::read_to_string(self.last_words_path()).unwrap_or_default();
            tally
                .notes
                .extend(words.lines().take(20).map(|line| format!("an agent's last words: {line}")));
        }
        tally
    }

    /// What was promised by then: by the log, to a caller, or by the desk having seen its key.
    fn find_lost(&self, book: &Book, tally: &mut Tally) {
        let notes = self.ring.notes.lock().unwrap();
        let placed = self.placed();
        let mut promised: BTreeMap<String, String> = BTreeMap::new();
        for (key, claim) in &book.claims {
            promised.insert(claim.mail.clone(), format!("claimed as {key}"));
        }
        for told in &notes.told {
            match (&told.mail, book.claims.contains_key(&told.key)) {
                (Some(mail), _) => drop(promised.insert(mail.clone(), format!("told to {} as {}", told.agent, told.key))),
                (None, true) => {}
                (None, false) => drop(
                    tally
                        .lost
                        .insert(format!("key {}: told to {}, not in the log", told.key, told.agent)),
                ),
            }
        }
        let missing = promised.iter().filter(|(mail, _)| !placed.contains_key(*mail));
        tally
            .lost
            .extend(missing.map(|(mail, how)| format!("{mail}: {how}, and not ordered")));
        for key in self.desk.keys() {
            let why = match (book.claims.contains_key(&key), notes.unwritten.contains(&key)) {
                (false, _) => "the desk saw it, the log does not know it",
                (true, true) => "the desk saw it before the log had it",
                (true, false) => continue,
            };
            tally.lost.insert(format!("key {key}: {why}"));
        }
    }

    /// The ids of the desk's orders, by mail.
    fn placed(&self) -> BTreeMap<String, Vec<String>> {
        let mut placed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for order in self.desk.orders() {
            let id = order["order_id"].as_str().unwrap().to_owned();
            placed.entry(mail_of(&order).unwrap()).or_default().push(id);
        }
        placed
    }

    fn compare_receipts(&self, mails: &[String], book: &Book, tally: &mut Tally) {
        let placed = self.placed();
        let twice = placed.iter().filter(|(_, ids)| ids.len() > 1);
        tally.doubled.extend(twice.map(|(mail, ids)| format!("{mail}: {ids:?}")));

        // The desk's own answer to each key, as it stored it.
        let rows = self.desk.rows();
        let answer = |body: &[u8]| serde_json::from_slice::<serde_json::Value>(body).ok();
        let id_of = |body: &[u8]| Some(answer(body)?["order_id"].as_str()?.to_owned());
        let stored: HashMap<&str, Option<String>> = rows
            .iter()
            .map(|row| (row.key.as_str(), id_of(row.body.as_deref().unwrap_or_default())))
            .collect();

        let notes = self.ring.notes.lock().unwrap();
        let mut heard: BTreeSet<String> = BTreeSet::new();
        for told in notes.told.iter().filter(|told| told.order.is_some()) {
            let mail = told.mail.clone().or_else(|| Some(book.claims.get(&told.key)?.mail.clone()));
            let mail = mail.unwrap_or_default();
            let only = placed.get(&mail).is_some_and(|ids| ids.iter().eq(&told.order));
            let of_the_key = stored.get(told.key.as_str()).is_some_and(|id| *id == told.order);
            if !only || !of_the_key {
                tally
                    .unequal
                    .insert(format!("{} heard {:?} for {mail}, {}", told.agent, told.order, told.key));
            }
            if told.agent == "reader" {
                heard.insert(mail);
            }
        }
        let unheard = mails.iter().filter(|mail| !heard.contains(*mail));
        tally.unequal.extend(unheard.map(|mail| format!("{mail}: no receipt at the end")));
        if self.storm.breaks == Some(Break::SkipClaim) {
            return;
        }
        // Each order that the desk holds is one that the log calls settled.
        let open = rows
            .iter()
            .filter(|row| row.state == RowState::Succeeded && !book.settled.contains(&row.key));
        tally
            .odd
            .extend(open.map(|row| format!("{} is ordered, and not settled in the log", row.key)));
    }
}
