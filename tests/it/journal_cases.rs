//! What broke for others when several processes, or a restart, met one journal; by the numbers of docs/cases.md. The processes are real: this
//! binary, started again, and killed by SIGKILL where the case asks for it.

use crate::{
    child::{memory_peak, program_in_memory},
    kit::{Folder, order, plain_client},
    props::{Line, Moody, NOBODY, actor, folder_with, has, mail, read_log, receipt, single, unsynced, write_log},
    story::claimed_on_disk,
};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, BufRead as _},
    num::NonZeroUsize,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdout},
    task::JoinSet,
    time::{Instant, timeout},
};
use uketsuke::{
    Api, ErrorKind, IdempotencyKey, Journal, OrderClient, Outcome, PlaceOrder, ReviewReason, Timeouts, Why,
    testkit::{Desk, Script},
};

const SIGKILL: i32 = 9;

/// The cases say one second, and a loaded machine gets more: what others met was hours, or never.
async fn soon<T>(what: impl IntoFuture<Output = T>) -> T {
    timeout(Duration::from_secs(20), what).await.expect("it waited for something")
}

/// One attempt, and time for it on any machine: what is counted here is who sends, not how fast. The name is the same at every address.
fn patient(url: &str) -> Api {
    let mut timeouts = Timeouts::default();
    timeouts.connect = Duration::from_secs(20);
    timeouts.attempt = Duration::from_secs(60);
    timeouts.total = Duration::from_secs(120);
    single(url).name("shop").timeouts(timeouts).build().unwrap()
}

/// Waits for nobody longer than a moment.
fn hasty(url: &str) -> Api {
    let mut timeouts = Timeouts::default();
    timeouts.connect = Duration::from_millis(100);
    timeouts.attempt = Duration::from_millis(150);
    timeouts.total = Duration::from_millis(200);
    single(url).name("shop").timeouts(timeouts).build().unwrap()
}

fn numbered(n: usize) -> PlaceOrder {
    PlaceOrder::new(format!("C-{n}")).item("SKU-1", 1)
}

// ---- the other process ---------------------------------------------------------------------------------------------

/// A process that plays a role, and what it tells.
struct Player {
    process: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Player {
    fn start(role: &str, url: &str, folder: &Folder) -> Self {
        let mut process = crate::kit::again("journal_cases::play")
            .env("UKETSUKE_CASE", role)
            .env("UKETSUKE_URL", url)
            .env("UKETSUKE_FOLDER", folder.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stdout.take().unwrap()).lines();
        Player { process, says }
    }

    /// The next thing it tells.
    async fn tells(&mut self) -> String {
        loop {
            let line = self.says.next_line().await.unwrap().expect("it ended before it told anything");
            if let Some((_, told)) = line.split_once("told: ") {
                return told.to_owned();
            }
        }
    }

    async fn go_on(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"go\n").await.unwrap();
    }

    async fn kill(&mut self) {
        self.process.start_kill().unwrap();
        assert_eq!(self.process.wait().await.unwrap().signal(), Some(SIGKILL));
    }

    async fn ends_well(mut self) {
        assert!(self.process.wait().await.unwrap().success());
    }
}

/// The other process. Started by hand, it has nothing to do.
#[tokio::test]
async fn play() {
    let Ok(role) = std::env::var("UKETSUKE_CASE") else { return };
    let url = std::env::var("UKETSUKE_URL").unwrap();
    let folder = PathBuf::from(std::env::var("UKETSUKE_FOLDER").unwrap());
    let client = |journal| OrderClient::new(journal, patient(&url), actor());
    match role.split_once(": ").unwrap_or((&role, "")) {
        ("submits", _) => {
            let journal = Journal::open(&folder).await.unwrap();
            receipt(client(journal).submit(mail(1), &order()).await);
        }
        ("stops in its turn", _) => {
            let journal = Journal::builder().disk(stops_at_the_claim()).open(&folder).await.unwrap();
            receipt(client(journal).submit(mail(1), &order()).await);
        }
        ("orders from", first) => {
            let client = resuming(Journal::open(&folder).await.unwrap(), &url, A_ROUND);
            for round in 0..ROUNDS {
                println!("told: ready");
                io::stdin().lock().read_line(&mut String::new()).unwrap();
                orders_and_resumes(&client, first.parse::<usize>().unwrap() + round * A_ROUND).await;
            }
        }
        ("opens", _) => println!("told: {}", opened_and_measured(&folder).await.1),
        ("compacts", _) => {
            let journal = opened_and_measured(&folder).await.0;
            println!("told: moved {}", journal.compact().await.unwrap().moved);
        }
        other => panic!("no role {other:?}"),
    }
}

/// A disk that stands still where a claim is to be written: in its process's turn, under the folder's lock.
fn stops_at_the_claim() -> Moody {
    Moody::new(|call| {
        if call.what == "file.append" && has(call.bytes, b"\"ev\":\"claimed\"") {
            println!("told: in its turn");
            loop {
                std::thread::park();
            }
        }
        None
    })
}

const ROUNDS: usize = 4;
const A_ROUND: usize = 50;

/// Submits a round of orders, and meanwhile resumes again and again whatever it finds open: its own, and those of the other living process.
async fn orders_and_resumes(client: &OrderClient, first: usize) {
    let mut submits = JoinSet::new();
    for n in first..first + A_ROUND {
        let client = client.clone();
        submits.spawn(async move { receipt(client.submit(mail(n), &numbered(n)).await) });
    }
    while !submits.is_empty() {
        for resumed in client.resume_pending().await.unwrap() {
            receipt(resumed.result);
        }
        while let Some(submitted) = submits.try_join_next() {
            submitted.unwrap();
        }
    }
}

/// A journal that compacts when it is told to and then keeps nothing that is settled; and by how many KiB the process's memory grew at its peak,
/// its own program apart, which grows with every test; and to how many in all (both 0 where the system does not say).
async fn opened_and_measured(folder: &Path) -> (Journal, String) {
    let linux = cfg!(target_os = "linux");
    let own = || {
        if linux {
            memory_peak().saturating_sub(program_in_memory())
        } else {
            0
        }
    };
    let before = own();
    let builder = Journal::builder().compact_at(u64::MAX).keep(Duration::ZERO);
    let journal = builder.open(folder).await.unwrap();
    let grew = own().saturating_sub(before);
    (journal, format!("{grew} {}", if linux { memory_peak() } else { 0 }))
}

/// A process whose one order is in the air: its first byte has arrived, and nobody answers as long as the wire is held.
async fn in_the_air(folder: &Folder) -> (Player, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut agent = Player::start("submits", &url, folder);
    let mut wire = tokio::select! {
        accepted = listener.accept() => accepted.unwrap().0,
        ended = agent.process.wait() => panic!("it sent nothing: {ended:?}"),
    };
    wire.read_exact(&mut [0]).await.unwrap();
    (agent, wire)
}

// ---- journal -------------------------------------------------------------------------------------------------------

/// BUG-54: a record that was handed to a writer and not written was gone with its process. Each of these processes is killed when the first byte
/// of its request arrives; each time the key on the wire stands in the file.
#[tokio::test]
async fn three_hundred_processes_killed_at_their_first_byte_left_their_keys() {
    const PROCESSES: usize = 300;
    const AT_ONCE: usize = 6;
    let (mut runs, mut started, mut keys) = (JoinSet::new(), 0, BTreeSet::new());
    while keys.len() < PROCESSES {
        while started < PROCESSES && runs.len() < AT_ONCE {
            runs.spawn(killed_at_its_first_byte());
            started += 1;
        }
        let key = runs.join_next().await.expect("a key was seen twice").unwrap();
        keys.insert(key);
    }
}

/// The key that such a process left, on the wire and in its journal.
async fn killed_at_its_first_byte() -> String {
    let folder = Folder::new();
    let (mut agent, mut wire) = in_the_air(&folder).await;
    agent.kill().await;
    // What the system had taken over before the kill still arrives; how the wire ends then is no matter.
    let mut rest = Vec::new();
    drop(wire.read_to_end(&mut rest).await);
    let request = String::from_utf8(rest).unwrap().to_ascii_lowercase();
    let lines: Vec<_> = request.lines().filter_map(|line| line.strip_prefix("idempotency-key: ")).collect();
    let [key] = lines[..] else { panic!("no key: {request}") };
    assert_eq!(claimed_on_disk(&folder.log()), [key]);
    key.to_owned()
}

/// BUG-56: two writers tore each other's lines. Here both write at once, round by round, and resume at the same time whatever is open: each record
/// can be read, and neither sends what the other, alive, is sending.
#[tokio::test]
async fn two_processes_write_four_hundred_orders_into_one_journal() {
    const ORDERS: usize = 2 * ROUNDS * A_ROUND;
    let (desk, folder) = (Desk::start().await, Folder::new());
    // So long is an order open for the other's resume to find.
    desk.script(Script::new().reply_after(Duration::from_millis(250)).times(ORDERS as u32));
    let mut both = [0, ORDERS / 2].map(|first| Player::start(&format!("orders from: {first}"), &desk.url(), &folder));
    for _ in 0..ROUNDS {
        for player in &mut both {
            assert_eq!(player.tells().await, "ready");
        }
        for player in &mut both {
            player.go_on().await;
        }
    }
    for player in both {
        player.ends_well().await;
    }
    let log = read_log(&folder.log());
    let count = |event: &str| log.iter().filter(|line| line.says(event)).count();
    assert_eq!(["claimed", "sent", "settled", "taken_over"].map(count), [ORDERS, ORDERS, ORDERS, 0]);
    let owners: BTreeSet<_> = folder
        .events("claimed")
        .iter()
        .map(|claim| claim["data"]["owner"].to_string())
        .collect();
    assert_eq!(owners.len(), 2, "both wrote");
    assert_eq!(
        (desk.requests().len(), desk.orders().len(), desk.keys().len()),
        (ORDERS, ORDERS, ORDERS)
    );
    desk.assert_one_order_per_key();
    desk.assert_script_played();
}

/// BUG-57: a lock file named a process that was dead, and whose number was another's by then: nothing started for hours. Ours is the system's
/// lock: it holds nobody up but for what its owner, alive, is sending; it dies with its process; no number is written, and none is read.
#[tokio::test]
async fn a_lock_dies_with_its_process_whatever_number_it_had() {
    for number in [None, Some(1), Some(std::process::id())] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let (mut holder, _wire) = in_the_air(&folder).await;
        let key: IdempotencyKey = claimed_on_disk(&folder.log())[0].parse().unwrap();
        for file in locks(&folder) {
            assert!(fs::read(&file).unwrap().is_empty(), "there is no number in {}", file.display());
        }

        let journal = soon(folder.journal()).await;
        let client = OrderClient::new(journal.clone(), patient(&desk.url()), actor());
        receipt(soon(client.submit(mail(2), &order())).await);
        let hasty = OrderClient::new(journal.clone(), hasty(&desk.url()), actor());
        let error = soon(hasty.resume(key)).await.unwrap_err();
        assert_eq!((error.kind(), error.key()), (ErrorKind::StillProcessing, Some(key)), "{error}");
        assert_eq!(desk.requests().len(), 1, "what is in the air was sent again");
        journal.close().await.unwrap();

        holder.kill().await;
        assert_eq!(locks(&folder).len(), 2, "the folder's, and the one that the dead process left");
        if let Some(number) = number {
            let strays = ["lock.pid", "log.jsonl.lock"].map(|name| folder.path().join(name));
            for file in locks(&folder).into_iter().chain(strays) {
                fs::write(file, format!("{number}\n")).unwrap();
            }
        }
        let client = OrderClient::new(soon(folder.journal()).await, patient(&desk.url()), actor());
        let resumed = soon(client.resume_pending()).await.unwrap().resumed;
        assert_eq!(resumed.iter().map(|one| one.key).collect::<Vec<_>>(), [key], "number {number:?}");
        receipt(resumed[0].result.clone());
        assert_eq!(desk.requests().len(), 2);
        desk.assert_one_order_per_key();
    }
}

/// The files that processes lock: the folder's, and one for each that owns orders.
fn locks(folder: &Folder) -> Vec<PathBuf> {
    let owners = fs::read_dir(folder.path().join("owners")).unwrap();
    let owners = owners.map(|entry| entry.unwrap().path());
    owners.chain([folder.path().join("lock")]).collect()
}

/// BUG-57: the folder's own lock, held by a process that stands still in its turn: who comes waits for it while it lives, and not a moment longer.
#[tokio::test]
async fn a_process_killed_in_its_turn_lets_the_next_one_in() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let mut holder = Player::start("stops in its turn", NOBODY, &folder);
    assert_eq!(holder.tells().await, "in its turn");
    fs::write(folder.path().join("lock"), "1\n").unwrap();
    let path = folder.path();
    let mut opening = tokio::spawn(async move { Journal::open(path).await.unwrap() });
    let early = timeout(Duration::from_millis(100), &mut opening).await;
    assert!(early.is_err(), "a turn was broken into");
    holder.kill().await;
    let client = OrderClient::new(soon(opening).await.unwrap(), patient(&desk.url()), actor());
    assert!(
        soon(client.resume_pending()).await.unwrap().resumed.is_empty(),
        "its claim was never written"
    );
    receipt(soon(client.submit(mail(1), &order())).await);
    assert_eq!((desk.requests().len(), folder.events("claimed").len()), (1, 1));
}

/// BUG-60: a journal of a gigabyte took all memory at each start. Ten thousand orders leave the file when it is compacted and the three that are
/// open stay; opening costs memory for neither, before or after.
#[tokio::test]
async fn what_is_settled_does_not_fill_the_file_for_ever() {
    const SETTLED: usize = 10_000;
    const MIB: u64 = 1 << 20;
    let desk = Desk::start().await;
    let (folder, mut open, done) = three_open_and_settled(SETTLED, &desk).await;
    let before = fs::metadata(folder.log()).unwrap().len();
    assert!(before > 24 * MIB, "{before}");
    opens_in_little_memory(&folder).await;

    let mut compacting = Player::start("compacts", NOBODY, &folder);
    assert_eq!(compacting.tells().await, format!("moved {SETTLED}"));
    compacting.ends_well().await;
    let after = fs::metadata(folder.log()).unwrap().len();
    assert!(after < before / 100, "{after} of {before}");
    opens_in_little_memory(&folder).await;

    let client = OrderClient::new(soon(folder.journal()).await, patient(&desk.url()), actor());
    let resumed = client.resume_pending().await.unwrap().resumed;
    let mut keys: Vec<_> = resumed.into_iter().map(|one| receipt(one.result).key).collect();
    keys.sort();
    open.sort();
    assert_eq!(keys, open, "the open ones are the same");
    // What moved out is known as before.
    assert_eq!(receipt(client.submit(mail(9), &weighty()).await).key, done);
    assert_eq!(desk.requests().len(), 4, "one before, three now");
}

/// Its comment stands in its record twice: as it was sent, and in the answer.
fn weighty() -> PlaceOrder {
    order().note("x".repeat(512))
}

/// A journal of three open orders and so many settled ones, told apart by what a real one has of its own; the keys of the open, and of the real.
async fn three_open_and_settled(settled: usize, desk: &Desk) -> (Folder, Vec<IdempotencyKey>, IdempotencyKey) {
    let folder = Folder::new();
    let open = left_open(&folder, 3).await;
    let journal = folder.journal().await;
    let client = OrderClient::new(journal.clone(), patient(&desk.url()), actor());
    let done = receipt(client.submit(mail(9), &weighty()).await).key;
    journal.close().await.unwrap();
    let mut lines = read_log(&folder.log());
    lines.retain(|line| !line.says("witness"));
    let key = done.to_string();
    let real: Vec<_> = lines.iter().filter(|line| has(&line.front, key.as_bytes())).cloned().collect();
    let real: Vec<_> = real.iter().map(|line| String::from_utf8(line.front.clone()).unwrap()).collect();
    for n in 1..settled {
        lines.extend(real.iter().map(|front| renamed(front, &key, n)));
    }
    let mut written = 0;
    for (line, seq) in lines.iter_mut().zip(1..) {
        const NUMBER: std::ops::Range<usize> = r#"{"v":1,"seq":""#.len()..r#"{"v":1,"seq":"000000000001"#.len();
        line.front.splice(NUMBER, format!("{seq:012}").into_bytes());
        // As they were written one after another, each knows those before it to be durable.
        line.synced = written;
        written += (line.front.len() + r#","synced":"000000000000","prev":"00000000","crc":"00000000"}"#.len() + 1) as u64;
    }
    (folder_with(&write_log(&lines).0), open, done)
}

/// The same record of another order: its key, its origin and the hashes of its claim begin with other digits, spread as those of hashes are.
fn renamed(front: &str, key: &str, n: usize) -> Line {
    let digits = format!("{:08x}", (n as u32).wrapping_mul(0x9e37_79b9));
    let other = format!("{digits}{}", &key[digits.len()..]);
    let mut front = front.replace(key, &other).replace("9@example.com", &format!("9-{n}@example.com"));
    for column in ["\"origin\":\"", "\"source\":\"", "\"repeat\":\""] {
        if let Some(at) = front.find(column) {
            let at = at + column.len();
            front.replace_range(at..at + digits.len(), &digits);
        }
    }
    Line {
        front: front.into_bytes(),
        synced: 0,
    }
}

/// Opens the journal in a process of its own. The case asks for less than 64 MiB in all. The program has some of that before it
/// opens anything, so what opening adds is looked at too: the log of ten thousand orders is more than thrice as large.
async fn opens_in_little_memory(folder: &Folder) {
    let mut opening = Player::start("opens", NOBODY, folder);
    let told = soon(opening.tells()).await;
    opening.ends_well().await;
    let kib: Vec<u64> = told.split(' ').map(|word| word.parse().unwrap()).collect();
    assert!(kib[0] < 4 << 10 && kib[1] < 64 << 10, "grew by, and to, so many KiB: {told}");
}

// ---- resume --------------------------------------------------------------------------------------------------------

/// So many orders that could not be sent, each open under its key; the journal is closed, as after a crash.
async fn left_open(folder: &Folder, orders: usize) -> Vec<IdempotencyKey> {
    let journal = Journal::builder().disk(unsynced()).open(folder.path()).await.unwrap();
    let keys = unsent(&journal, orders).await;
    journal.close().await.unwrap();
    keys
}

async fn unsent(journal: &Journal, orders: usize) -> Vec<IdempotencyKey> {
    let client = OrderClient::new(journal.clone(), single(NOBODY).name("shop").build().unwrap(), actor());
    let submits = (0..orders).map(|n| {
        let client = client.clone();
        tokio::spawn(async move { client.submit(mail(n), &numbered(n)).await.unwrap_err() })
    });
    let mut keys = Vec::new();
    for submit in submits.collect::<Vec<_>>() {
        let error = submit.await.unwrap();
        assert_eq!(error.kind(), ErrorKind::NotSent, "{error}");
        keys.extend(error.key());
    }
    keys
}

/// A client that resumes so many at once.
fn resuming(journal: Journal, url: &str, at_once: usize) -> OrderClient {
    let builder = OrderClient::builder(journal, patient(url), actor());
    builder.resume_at_once(NonZeroUsize::new(at_once).unwrap()).build()
}

/// BUG-62: the order that failed stood first in every batch, and no other was sent. Here the first key is a stranger's at the server: that order
/// is for a person, the two others are sent, and a second resume sends nothing.
#[tokio::test]
async fn an_order_that_is_refused_holds_up_no_other() {
    for at_once in [1, 4] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let keys = left_open(&folder, 3).await;
        let stranger = plain_client().post(format!("{}/orders", desk.url()));
        let stranger = stranger.header("Idempotency-Key", keys[0].to_string());
        let stranger = stranger.header("Content-Type", "application/json").body(r#"{"customer":"C-999"}"#);
        assert_eq!(stranger.send().await.unwrap().status(), 201);

        let client = resuming(folder.journal().await, &desk.url(), at_once);
        let resumed = client.resume_pending().await.unwrap().resumed;
        assert_eq!(resumed.len(), 3);
        for one in resumed {
            match one.result.unwrap() {
                Outcome::NeedsReview(review) => assert_eq!((one.key, review.reason), (keys[0], ReviewReason::Mismatch)),
                Outcome::Succeeded(receipt) => assert!(keys[1..].contains(&receipt.key)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            (desk.requests().len(), desk.orders().len()),
            (4, 3),
            "one of each is the stranger's"
        );
        let second = client.resume_pending().await.unwrap();
        assert!(second.resumed.is_empty(), "{second:?}");
        assert_eq!((second.left_alone[0].key, &second.left_alone[0].why), (keys[0], &Why::UnderReview));
        assert_eq!(desk.requests().len(), 4, "{}", desk.story());
        desk.assert_one_order_per_key();
    }
}

/// BUG-62: nor does one that the server refuses for what it says: it is over, and the two others are sent. One process all through, so that the
/// refusal is a definite no.
#[tokio::test]
async fn an_order_that_is_rejected_holds_up_no_other() {
    for at_once in [1, 4] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let journal = folder.journal().await;
        unsent(&journal, 3).await;
        desk.script(Script::new().refuse());
        let client = resuming(journal, &desk.url(), at_once);
        let resumed = client.resume_pending().await.unwrap().resumed;
        let outcomes: Vec<_> = resumed.into_iter().map(|one| one.result.unwrap()).collect();
        let count = |which: fn(&Outcome<_>) -> bool| outcomes.iter().filter(|outcome| which(outcome)).count();
        assert_eq!(count(|outcome| matches!(outcome, Outcome::Rejected(_))), 1, "{outcomes:?}");
        assert_eq!(count(|outcome| matches!(outcome, Outcome::Succeeded(_))), 2, "{outcomes:?}");
        assert!(client.resume_pending().await.unwrap().resumed.is_empty());
        assert_eq!((desk.requests().len(), desk.orders().len()), (3, 2));
    }
}

/// BUG-63: after a restart all that was open went out in one instant. Here at most four are at the server at any time, which it counts itself.
#[tokio::test]
async fn two_hundred_orders_go_out_a_few_at_a_time() {
    const AT_ONCE: usize = 4;
    let folder = Folder::new();
    let open: BTreeSet<_> = left_open(&folder, 200).await.iter().map(IdempotencyKey::to_string).collect();
    let (url, till) = till().await;
    let client = resuming(folder.journal().await, &url, AT_ONCE);
    for resumed in client.resume_pending().await.unwrap() {
        receipt(resumed.result);
    }
    let till = till.lock().unwrap();
    assert!((2..=AT_ONCE).contains(&till.most), "{} at once", till.most);
    assert_eq!((till.begun.len(), &till.keys), (200, &open), "each once");
    assert!(till.begun[199] - till.begun[0] >= Duration::from_secs(1), "they were not spread");
}

/// A server that takes its time over each order, and counts how many it has before it.
#[derive(Default)]
struct Till {
    inside: usize,
    most: usize,
    begun: Vec<Instant>,
    keys: BTreeSet<String>,
}

async fn till() -> (String, Arc<Mutex<Till>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let till = Arc::<Mutex<Till>>::default();
    let shared = Arc::clone(&till);
    tokio::spawn(async move {
        while let Ok((wire, _)) = listener.accept().await {
            tokio::spawn(serve(BufReader::new(wire), Arc::clone(&shared)));
        }
    });
    (url, till)
}

/// One connection, request after request, each held for a moment.
async fn serve(mut wire: BufReader<TcpStream>, till: Arc<Mutex<Till>>) -> io::Result<()> {
    const CREATED: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n{\"order_id\":\"ord-1\"}";
    while let Some(key) = request(&mut wire).await? {
        {
            let mut till = till.lock().unwrap();
            till.inside += 1;
            till.most = till.most.max(till.inside);
            till.begun.push(Instant::now());
            till.keys.insert(key);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        till.lock().unwrap().inside -= 1;
        wire.write_all(CREATED).await?;
    }
    Ok(())
}

/// Reads a request whole, and gives its key; `None` at the end of the connection.
async fn request(wire: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let (mut key, mut length, mut line) = (String::new(), 0, String::new());
    loop {
        line.clear();
        if wire.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("idempotency-key", value)) => key = value.to_owned(),
            Some(("content-length", value)) => length = value.parse().unwrap(),
            None if line == "\r\n" => break,
            _ => {}
        }
    }
    wire.read_exact(&mut vec![0; length]).await?;
    Ok(Some(key))
}
