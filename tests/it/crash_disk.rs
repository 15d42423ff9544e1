//! The machine goes dark, or the disk says no, at every single call that a journal makes to it: section 8 of the journal's plan. What was
//! promised before is true after.
//!
//! By default a sample is run: each call after which the disk is another one, with a seed and one of the named cuts; every other call, with one
//! error, in turn. `UKETSUKE_CUTS=20` runs every call with all named cuts, twenty seeds, and every error.

use crate::{
    kit::brisk,
    props::{Hands, actor, journal_kind, mail, receipt, single},
};
use std::{collections::BTreeSet, fmt, sync::Mutex, time::Duration};
use tokio::task::JoinSet;
use uketsuke::{
    ApiBuilder, ErrorKind, IdempotencyKey, Journal, OrderClient, Outcome, PlaceOrder,
    journal::store::StoreErrorKind,
    testkit::{CrashDisk, Desk, Fault, Kept, Script},
};

const FOLDER: &str = "/journal";

// ---- the scenes ----------------------------------------------------------------------------------------------------

/// What is going on when it happens. A new one needs a name here, and what it does in `prepare` and `act`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// The first order of a journal that is not there yet.
    First,
    /// The reply is lost, and the order sent again.
    LostReply,
    /// The shop says no.
    Refused,
    /// An order whose outcome another process never learnt.
    Resume,
    /// An order in a journal that has one already.
    Another,
    /// Closed, opened again, asked again.
    Reopened,
    /// Four orders at once: their records stand in one unsynced stretch.
    Several,
    /// A journal that an earlier power cut has torn.
    Torn,
    /// Two old orders move into the archive, one in doubt stays; the old ones come again, and a new one.
    Compacted,
    /// The same, in a journal that was compacted before.
    CompactedTwice,
}

const SCENES: [Scene; 10] = [
    Scene::First,
    Scene::LostReply,
    Scene::Refused,
    Scene::Resume,
    Scene::Another,
    Scene::Reopened,
    Scene::Several,
    Scene::Torn,
    Scene::Compacted,
    Scene::CompactedTwice,
];

impl Scene {
    fn script(self) -> Script {
        match self {
            Scene::LostReply => Script::new().commit_then_lose_reply().then_ok(),
            Scene::Refused => Script::new().refuse(),
            Scene::Resume => Script::new().commit_then_lose_reply().then_ok(),
            Scene::Compacted => Script::new().commit_then_lose_reply().then_ok(),
            Scene::First | Scene::Another | Scene::Reopened | Scene::Several | Scene::Torn | Scene::CompactedTwice => Script::new(),
        }
    }

    /// What was before; on a disk on which nothing goes wrong yet.
    async fn prepare(self, world: &mut World, variant: usize) {
        match self {
            Scene::First | Scene::LostReply | Scene::Refused | Scene::Reopened => return,
            Scene::Resume => {
                let journal = world.journal().await.unwrap();
                let client = world.client_of(journal, single(&world.desk.url()));
                assert_eq!(world.submit(&client, 1).await.unwrap_err().kind(), ErrorKind::InDoubt);
            }
            Scene::Another => {
                let client = world.client().await.unwrap();
                world.submit(&client, 1).await.unwrap();
            }
            Scene::Several => drop(world.client().await.unwrap()),
            Scene::Compacted => {
                let journal = world.journal().await.unwrap();
                let client = world.client_of(journal, single(&world.desk.url()));
                assert_eq!(world.submit(&client, 1).await.unwrap_err().kind(), ErrorKind::InDoubt);
                for n in [2, 3] {
                    world.submit(&client, n).await.unwrap();
                }
            }
            Scene::CompactedTwice => {
                let client = world.client().await.unwrap();
                world.submit(&client, 1).await.unwrap();
                world.compact().await;
                for n in [2, 3] {
                    world.submit(&client, n).await.unwrap();
                }
            }
            Scene::Torn => {
                let client = world.client().await.unwrap();
                world.disk.dies_at(world.disk.calls() + 6 + variant % 24);
                world.submit_several(&client).await;
                client.drain(Duration::from_secs(5)).await;
                world.disk = world.disk.after_power_cut(variant as u64);
                return;
            }
        }
        world.disk = world.disk.after_kill();
    }

    /// What it happens to. Whatever is told while the disk lives is noted as told.
    async fn act(self, world: &World) -> Option<OrderClient> {
        let client = world.client().await.ok()?;
        match self {
            Scene::First | Scene::LostReply | Scene::Refused => drop(world.submit(&client, 1).await),
            Scene::Resume => {
                drop(client.resume_pending().await);
                drop(world.submit(&client, 1).await);
            }
            Scene::Another => {
                drop(world.submit(&client, 2).await);
                drop(world.submit(&client, 1).await);
            }
            Scene::Reopened => {
                drop(world.submit(&client, 1).await);
                client.drain(Duration::from_secs(5)).await;
                drop(client.clone());
                let reopened = world.closed_and_reopened().await?;
                drop(world.submit(&reopened, 1).await);
                return Some(reopened);
            }
            Scene::Several => world.submit_several(&client).await,
            Scene::Compacted | Scene::CompactedTwice => {
                world.compact().await;
                drop(world.submit(&client, 2).await);
                drop(world.submit(&client, 4).await);
            }
            Scene::Torn => {
                drop(client.resume_pending().await);
                world.submit_several(&client).await;
            }
        }
        Some(client)
    }
}

/// A desk, a disk, and what callers were told.
struct World {
    scene: Scene,
    desk: Desk,
    disk: CrashDisk,
    told: Mutex<Vec<Told>>,
    asked: Mutex<BTreeSet<usize>>,
    journal: Mutex<Option<Journal>>,
    hands: Hands,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    mail: usize,
    key: IdempotencyKey,
    yes: bool,
}

fn order_of(mail: usize) -> PlaceOrder {
    PlaceOrder::new(format!("C-{mail}")).item("SKU-1", 2)
}

impl World {
    async fn new(scene: Scene) -> World {
        let hands = Hands::new();
        let desk = hands.desk().await;
        desk.script(scene.script());
        World {
            scene,
            desk,
            disk: CrashDisk::new(),
            told: Mutex::default(),
            // Also where no journal opened and nobody could ask: the next process does.
            asked: Mutex::new(BTreeSet::from([1])),
            journal: Mutex::default(),
            hands,
        }
    }

    /// What is settled is old a moment later.
    async fn journal(&self) -> Result<Journal, uketsuke::JournalError> {
        let builder = Journal::builder().disk(self.disk.clone()).clock(self.hands.clone());
        builder.keep(Duration::ZERO).open(FOLDER).await
    }

    /// Whether it comes to an end is not the question here, only what is found afterwards.
    async fn compact(&self) {
        let journal = self.journal.lock().unwrap().clone();
        if let Some(journal) = journal {
            self.hands.turn(1);
            let moved = journal.compact().await.map_or(0, |done| done.moved);
            assert!(moved > 0 || !self.disk.struck().is_empty(), "nothing was compacted");
        }
    }

    async fn client(&self) -> Result<OrderClient, uketsuke::JournalError> {
        let journal = self.journal().await?;
        *self.journal.lock().unwrap() = Some(journal.clone());
        Ok(self.client_of(journal, brisk(&self.desk.url())))
    }

    /// The repeat guard looks back no further than the journal keeps.
    fn client_of(&self, journal: Journal, api: ApiBuilder) -> OrderClient {
        let client = OrderClient::builder(journal, api.build().unwrap(), actor());
        client.repeat_window(Duration::ZERO).build()
    }

    async fn closed_and_reopened(&self) -> Option<OrderClient> {
        let journal = self.journal.lock().unwrap().take()?;
        drop(journal.close().await);
        self.client().await.ok()
    }

    /// Submits the order of that mail, and notes an outcome that was told while the disk lived.
    async fn submit(&self, client: &OrderClient, n: usize) -> Result<(), uketsuke::Error> {
        self.asked.lock().unwrap().insert(n);
        let outcome = client.submit(mail(n), &order_of(n)).await?;
        let yes = match outcome {
            Outcome::Succeeded(_) => true,
            Outcome::Rejected(_) => false,
            _ => return Ok(()),
        };
        if !self.disk.is_dead() {
            let key = outcome.key();
            self.told.lock().unwrap().push(Told { mail: n, key, yes });
        }
        Ok(())
    }

    async fn submit_several(&self, client: &OrderClient) {
        let all = (1..=4).map(|n| self.submit(client, n));
        drop(join_all(all).await);
    }

    /// The keys under which the desk has seen that mail's order.
    fn keys_of(&self, mail: usize) -> BTreeSet<String> {
        let customer = format!("\"C-{mail}\"");
        let requests = self.desk.requests().into_iter();
        let of_it = requests.filter(|seen| String::from_utf8_lossy(&seen.body).contains(&customer));
        of_it.filter_map(|seen| seen.key).collect()
    }

    fn orders_of(&self, mail: usize) -> usize {
        let customer = format!("C-{mail}");
        self.desk.orders().iter().filter(|order| order["customer"] == *customer).count()
    }
}

/// Polls all of them in turn; tokio's own `join!` wants to know how many.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut open: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in &mut open {
            if done.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(cx)
            {
                *done = Some(output);
            }
        }
        match open.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    open.into_iter().filter_map(|(_, done)| done).collect()
}

// ---- the judge -----------------------------------------------------------------------------------------------------

/// Opens what is left, and holds it against what was told and what the desk has seen: nothing lost, nothing doubled, no answer taken back.
/// `torn`: whether an order of which nobody heard may stay closed until a person looks, as a power cut may leave it (R12).
async fn judge(world: &World, torn: bool) -> Result<(), String> {
    let client = world.client().await.map_err(|e| format!("it does not open: {e}"))?;
    let sent = world.desk.requests().len();
    for key in world.desk.keys() {
        if let Ok(None) = client.known(key.parse().unwrap()).await {
            return Err(format!("{key} was at the desk and is not in the journal"));
        }
    }
    let told = world.told.lock().unwrap().clone();
    for no in told.iter().filter(|told| !told.yes) {
        still(&client, no).await?;
    }
    if world.desk.requests().len() != sent {
        return Err("opening and asking sent something".to_owned());
    }
    client.resume_pending().await.map_err(|e| format!("nothing is resumed: {e}"))?;
    for one in &told {
        still(&client, one).await?;
    }
    let asked = world.asked.lock().unwrap().clone();
    for n in asked {
        let heard = !world.keys_of(n).is_empty() || told.iter().any(|one| one.mail == n);
        let again = world.submit(&client, n).await;
        let closed = again
            .as_ref()
            .is_err_and(|error| journal_kind(error) == Some(StoreErrorKind::Corrupt));
        match again {
            Err(error) if !(closed && torn && !heard) => return Err(format!("mail {n} gets no answer: {error}")),
            _ => {}
        }
        let (keys, orders) = (world.keys_of(n), world.orders_of(n));
        let wanted = usize::from(!closed && (world.scene, n) != (Scene::Refused, 1));
        if keys.len() > 1 || orders != wanted {
            return Err(format!("mail {n} has {orders} orders under {keys:?}"));
        }
    }
    client.drain(Duration::from_secs(5)).await;
    Ok(())
}

/// What was told once is what the journal says now.
async fn still(client: &OrderClient, told: &Told) -> Result<(), String> {
    let known = client.known(told.key).await;
    let same = match &known {
        Ok(Some(Outcome::Succeeded(_))) => told.yes,
        Ok(Some(Outcome::Rejected(_))) => !told.yes,
        _ => false,
    };
    let word = if told.yes { "placed" } else { "refused" };
    same.then_some(())
        .ok_or_else(|| format!("{} was told {word}, and now: {known:?}", told.key))
}

// ---- the runs ------------------------------------------------------------------------------------------------------

/// How a run goes wrong, and what is found after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The process is killed at the call.
    Kill,
    /// The power goes at the call.
    Cut(Kept),
    /// The power goes at the call, and the disk's syncs of files, or of folders, were lies.
    Lied { files: bool },
    /// The call goes wrong, once or for good; then a new process, and after that a power cut.
    Fails { fault: Fault, for_good: bool },
}

impl fmt::Debug for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Kill => f.write_str("killed"),
            Trouble::Cut(kept) => write!(f, "cut, kept {kept:?}"),
            Trouble::Lied { files: true } => f.write_str("cut, syncs of files lied"),
            Trouble::Lied { files: false } => f.write_str("cut, syncs of folders lied"),
            Trouble::Fails { fault, for_good } => write!(f, "{fault:?}{}", if *for_good { " for good" } else { "" }),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Run {
    scene: Scene,
    n: usize,
    trouble: Trouble,
}

impl Run {
    async fn play(self) -> Result<(), String> {
        let mut world = World::new(self.scene).await;
        match self.trouble {
            Trouble::Lied { files: true } => world.disk.lie_about_files(),
            Trouble::Lied { files: false } => world.disk.lie_about_folders(),
            _ => {}
        }
        self.scene.prepare(&mut world, self.n).await;
        let troubled = world.disk.clone();
        let played = tokio::time::timeout(Duration::from_secs(60), self.trouble_at(&mut world)).await;
        let judged = played.unwrap_or_else(|_| Err("it hangs".to_owned()));
        judged.map_err(|what| {
            let (call, desk) = (troubled.nth(self.n).unwrap_or_default(), world.desk.story());
            format!("{:?}, call {} ({call}), {:?}: {what}\n{desk}", self.scene, self.n, self.trouble)
        })
    }

    async fn trouble_at(self, world: &mut World) -> Result<(), String> {
        match self.trouble {
            Trouble::Fails { fault, for_good } => self.fails(world, fault, for_good).await,
            Trouble::Kill => {
                self.dies(world).await;
                world.disk = world.disk.after_kill();
                judge(world, self.scene == Scene::Torn).await
            }
            Trouble::Cut(kept) => {
                self.dies(world).await;
                world.disk = world.disk.after_power_cut(kept);
                judge(world, true).await
            }
            Trouble::Lied { .. } => {
                self.dies(world).await;
                world.disk = world.disk.after_power_cut(Kept::Nothing);
                judge(world, true).await
            }
        }
    }

    async fn dies(self, world: &World) {
        world.disk.dies_at(self.n);
        if let Some(client) = self.scene.act(world).await {
            client.drain(Duration::from_secs(5)).await;
        }
    }

    /// A process that lives on after the error; then another one, with the disk in order again; then a power cut, which shows whether what
    /// either of them told was durable.
    async fn fails(self, world: &mut World, fault: Fault, for_good: bool) -> Result<(), String> {
        match for_good {
            true => world.disk.fail_from(self.n, fault),
            false => world.disk.fail_once(self.n, fault),
        }
        let client = self.scene.act(world).await;
        if let Some(client) = &client {
            self.is_poisoned(world, client, fault).await?;
            client.drain(Duration::from_secs(5)).await;
        }
        drop(client);
        world.journal.lock().unwrap().take();
        world.disk.heal();
        let torn = self.scene == Scene::Torn;
        // Every other time in the same process, in which the old journal may still be about.
        if self.n.is_multiple_of(2) {
            world.disk = world.disk.after_kill();
        }
        judge(world, torn).await.map_err(|what| format!("opened anew: {what}"))?;
        world.disk = world.disk.after_power_cut(Kept::Nothing);
        judge(world, true).await.map_err(|what| format!("opened anew, then cut: {what}"))
    }

    /// After a write or sync of the log that failed, nothing is told and nothing sent until the journal is opened anew.
    async fn is_poisoned(self, world: &World, client: &OrderClient, fault: Fault) -> Result<(), String> {
        let struck = world.disk.struck().first().and_then(|n| world.disk.nth(*n));
        let write = struck.as_deref() == Some("append log.jsonl") && !matches!(fault, Fault::Short(_) | Fault::Os(EINTR));
        let sync = struck.as_deref() == Some("sync log.jsonl") && !matches!(fault, Fault::Short(_));
        if !(write || sync) || self.scene == Scene::Reopened {
            return Ok(());
        }
        let sent = world.desk.requests().len();
        match world.submit(client, 50).await {
            Err(error) if journal_kind(&error) == Some(StoreErrorKind::Poisoned) && world.desk.requests().len() == sent => Ok(()),
            other => Err(format!("it goes on after {struck:?}: {other:?}")),
        }
    }
}

/// Plays them, a few at a time; answers with what went wrong.
async fn play(runs: Vec<Run>) -> Vec<String> {
    let (mut playing, mut wrong) = (JoinSet::new(), Vec::new());
    let mut runs = runs.into_iter();
    loop {
        while playing.len() < 6
            && let Some(run) = runs.next()
        {
            playing.spawn(async move { tokio::spawn(run.play()).await.unwrap_or_else(|e| Err(format!("{run:?}: {e}"))) });
        }
        match playing.join_next().await {
            None => return wrong,
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(what))) => wrong.push(what),
            Some(Err(e)) => wrong.push(e.to_string()),
        }
    }
}

/// The calls of a scene in which nothing goes wrong, and a few more that have no name, since the thread that syncs in the background makes
/// their number vary.
async fn calls(scene: Scene) -> Vec<String> {
    let mut world = World::new(scene).await;
    scene.prepare(&mut world, 1).await;
    let client = scene.act(&world).await.expect("nothing went wrong");
    client.drain(Duration::from_secs(5)).await;
    let calls = (1..=world.disk.calls() + 5).map(|n| world.disk.nth(n).unwrap_or_default());
    let calls = calls.collect();
    world.disk = world.disk.after_power_cut(Kept::Nothing);
    judge(&world, true)
        .await
        .unwrap_or_else(|what| panic!("{scene:?}, cut at its end: {what}"));
    calls
}

/// Each call of each scene, with the troubles that `of` gives for it.
async fn every_call(of: impl Fn(Place<'_>) -> Vec<Trouble>) -> Vec<Run> {
    let (mut runs, mut nth) = (Vec::new(), 0);
    for scene in SCENES {
        for (at, call) in calls(scene).await.iter().enumerate() {
            let n = at + 1;
            let troubles = of(Place { scene, call, nth });
            nth += 1;
            runs.extend(troubles.into_iter().map(|trouble| Run { scene, n, trouble }));
        }
    }
    runs
}

/// One call of a scene, and how many were before it, over all scenes.
struct Place<'a> {
    scene: Scene,
    call: &'a str,
    nth: usize,
}

impl Place<'_> {
    /// Whether the disk is another one after it. Dying at a call that only looks leaves the disk as dying at the next that does not.
    fn changes(&self) -> bool {
        let looks = [
            "file_system",
            "identity",
            "size",
            "read",
            "list",
            "lock",
            "try_lock",
            "uncache",
            "unlock",
        ];
        !looks.iter().any(|look| self.call.starts_with(look)) && !self.call.ends_with(" Append")
    }
}

/// `UKETSUKE_CUTS`: how many seeds at each call; 0 if it is not set.
fn cuts() -> usize {
    std::env::var("UKETSUKE_CUTS").map_or(0, |cuts| cuts.parse().expect("UKETSUKE_CUTS is a number"))
}

#[track_caller]
fn assert_all_is_well(runs: usize, wrong: &[String]) {
    println!("{runs} runs");
    assert!(wrong.is_empty(), "{} of {runs} runs went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

/// All that can go wrong with a call short of death, once and for good.
fn faults() -> Vec<Trouble> {
    let errors = [EIO, ENOSPC, EFBIG, EINTR, EROFS].map(Fault::Os);
    let all = errors.into_iter().chain([Fault::Short(1), Fault::Short(300)]);
    let both = all.flat_map(|fault| [false, true].map(|for_good| Trouble::Fails { fault, for_good }));
    // A signal does not come for ever, and a write that goes on a byte at a time is only slow.
    let odd = |one: &Trouble| {
        let Trouble::Fails { fault, for_good } = one else { return false };
        *for_good && matches!(fault, Fault::Os(EINTR) | Fault::Short(1))
    };
    both.filter(|one| !odd(one)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_the_power_goes_nothing_is_lost_and_nothing_doubled() {
    let runs = every_call(|place| {
        let named = [Trouble::Cut(Kept::Nothing), Trouble::Cut(Kept::Everything), Trouble::Kill];
        let seed = |k: usize| Trouble::Cut(Kept::Some((place.nth + 1000 * k) as u64));
        match cuts() {
            0 if place.changes() => vec![named[place.nth / 2 % 3], seed(0)],
            0 => Vec::new(),
            cuts => named.into_iter().chain((0..cuts).map(seed)).collect(),
        }
    });
    let runs = runs.await;
    assert_all_is_well(runs.len(), &play(runs).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_call_fails_nothing_is_told_that_is_not_durable() {
    let faults = faults();
    let runs = every_call(|place| match cuts() {
        0 if place.nth.is_multiple_of(2) => vec![faults[place.nth / 2 % faults.len()]],
        0 => Vec::new(),
        _ => faults.clone(),
    });
    let runs = runs.await;
    assert_all_is_well(runs.len(), &play(runs).await);
}

/// The two tests above can fail: a disk that says it synced, and did not, has to lose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_lies_about_its_syncs_is_found_out() {
    for files in [true, false] {
        let runs = every_call(|place| match place.scene == Scene::First && place.changes() {
            true => vec![Trouble::Lied { files }],
            false => Vec::new(),
        });
        let runs = runs.await;
        let (all, wrong) = (runs.len(), play(runs).await);
        println!(
            "lies about {}: {} of {all} runs lost something",
            if files { "files" } else { "folders" },
            wrong.len()
        );
        assert!(!wrong.is_empty(), "none of {all} runs lost anything");
    }
}

/// A lock that could not be given up goes with its file, while those who had the journal open are still there: in their own process too.
#[tokio::test]
async fn a_lock_that_can_not_be_given_up_keeps_nobody_out() {
    let whole = CrashDisk::new();
    used_and_reopened(&whole).await;
    let unlocks: Vec<_> = (1..=whole.calls())
        .filter(|n| whole.nth(*n).is_some_and(|call| call == "unlock lock"))
        .collect();
    assert!(unlocks.len() > 2, "{unlocks:?}");
    for n in unlocks {
        let disk = CrashDisk::new();
        disk.fail_once(n, Fault::Os(EIO));
        let used = tokio::time::timeout(Duration::from_secs(60), used_and_reopened(&disk)).await;
        assert!(used.is_ok(), "with call {n} gone wrong nobody gets in any more");
    }
}

/// An order, and a second opening while the first is still held; how either ends is not the question.
async fn used_and_reopened(disk: &CrashDisk) {
    let desk = Desk::start().await;
    let mut held = Vec::new();
    for n in 1..=2 {
        if let Ok(journal) = Journal::builder().disk(disk.clone()).open(FOLDER).await {
            let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), actor());
            drop(client.submit(mail(n), &order_of(n)).await);
            held.push(client);
        }
    }
    assert!(!held.is_empty());
}

/// R6: nothing was promised yet, so whatever is left of a first opening, the next one finishes it.
#[tokio::test]
async fn a_first_opening_that_is_cut_anywhere_can_be_done_again() {
    for seed in 0..20 {
        for disk in CrashDisk::new().every_call(Fault::Dies) {
            let opened = Journal::builder().disk(disk.clone()).open(FOLDER).await;
            let after = disk.after_power_cut(seed);
            drop(opened);
            if let Err(error) = Journal::builder().disk(after).open(FOLDER).await {
                panic!("seed {seed}, {disk:?}: {error}");
            }
        }
    }
}

/// Wherever the folder is, and however much of its path was made with it, it is there after a power cut.
#[tokio::test]
async fn a_folder_is_durable_with_all_that_was_made_above_it() {
    for folder in [FOLDER, "/agents/orders/journal", "journal", "./agents/journal"] {
        let (desk, disk) = (Desk::start().await, CrashDisk::new());
        let client = |journal| OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), actor());
        let journal = Journal::builder().disk(disk.clone()).open(folder).await.unwrap();
        let told = receipt(client(journal).submit(mail(1), &order_of(1)).await);
        let journal = Journal::builder()
            .disk(disk.after_power_cut(Kept::Nothing))
            .open(folder)
            .await
            .unwrap();
        let again = receipt(client(journal).submit(mail(1), &order_of(1)).await);
        assert_eq!((again.key, desk.orders().len()), (told.key, 1), "{folder}");
    }
}
