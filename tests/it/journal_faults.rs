//! What the machine does to a journal besides dying: no room, read-only, a process that is stopped and not dead, a folder that was copied or has
//! strangers in it. What takes root is skipped by name without it.

use crate::{
    kit::{Folder, brisk, order},
    props::{Hands, Role, actor, finish, journal_kind, mail, read_log, receipt, single},
};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};
use uketsuke::{
    ApiBuilder, ErrorKind, Journal, JsonOrder, OrderClient, Outcome, Route, Timeouts,
    journal::store::StoreErrorKind,
    testkit::{Desk, Reply, Script},
};

/// A file system in memory, of so many KiB; unmounted however the test ends.
#[cfg(target_os = "linux")]
struct Tmpfs(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl Tmpfs {
    /// Or a loud word that there is none.
    fn mount_or_skip(test: &str, kib: u32) -> Option<Tmpfs> {
        let home = tempfile::tempdir().unwrap();
        let options = format!("size={kib}k");
        match run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", home.path().to_str().unwrap()]) {
            Ok(()) => Some(Tmpfs(home)),
            Err(why) => {
                eprintln!("SKIPPED: {test}: no tmpfs can be mounted here, which takes root: {why}");
                None
            }
        }
    }

    fn journal(&self) -> PathBuf {
        self.0.path().join("journal")
    }

    fn become_read_only(&self) -> Result<(), String> {
        run("mount", &["-o", "remount,ro", self.0.path().to_str().unwrap()])
    }
}

#[cfg(target_os = "linux")]
impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: a journal that was dropped takes a moment to close its files.
        drop(run("umount", &["-l", self.0.path().to_str().unwrap()]));
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    match Command::new(program).args(args).stdin(Stdio::null()).output() {
        Ok(said) if said.status.success() => Ok(()),
        Ok(said) => Err(String::from_utf8_lossy(&said.stderr).trim().to_owned()),
        Err(e) => Err(format!("{program}: {e}")),
    }
}

async fn client_of(folder: &Path, url: &str) -> OrderClient {
    let journal = Journal::open(folder).await.unwrap();
    OrderClient::new(journal, brisk(url).build().unwrap(), actor())
}

/// A client whose repeat guard looks back no further than a journal keeps that keeps nothing.
fn forgetful(journal: &Journal, api: ApiBuilder) -> OrderClient {
    let client = OrderClient::builder(journal.clone(), api.build().unwrap(), actor());
    client.repeat_window(Duration::ZERO).build()
}

/// What is settled is older than nothing at all a moment later, and moves.
async fn compact(journal: &Journal, hands: &Hands) {
    hands.turn(1);
    assert!(journal.compact().await.unwrap().moved > 0);
}

/// A disk that is really full, and has room again: the order that did not fit was not sent, those before it are readable, and it goes on.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_system_without_room_sends_nothing_and_goes_on_with_room() {
    let Some(disk) = Tmpfs::mount_or_skip("a_file_system_without_room_sends_nothing_and_goes_on_with_room", 256) else {
        return;
    };
    let desk = Desk::start().await;
    let client = client_of(&disk.journal(), &desk.url()).await;
    let first = receipt(client.submit(mail(1), &order()).await).key;
    let filler = disk.0.path().join("filler");
    fs::write(&filler, vec![0; 1 << 20]).expect_err("it never fills up");

    // More than is left in the log's last page.
    let large = order().note("x".repeat(16 << 10));
    let error = client.submit(mail(2), &large).await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Journal, None), "{error}");
    let error = client.submit(mail(3), &order().note("small")).await.unwrap_err();
    assert_eq!(journal_kind(&error), Some(StoreErrorKind::Poisoned), "{error}");
    assert_eq!(desk.requests().len(), 1, "{}", desk.story());

    fs::remove_file(filler).unwrap();
    let client = client_of(&disk.journal(), &desk.url()).await;
    assert!(matches!(client.known(first).await, Ok(Some(Outcome::Succeeded(_)))));
    receipt(client.submit(mail(2), &large).await);
    receipt(client.submit(mail(3), &order().note("small")).await);
    assert_eq!((desk.requests().len(), desk.orders().len()), (3, 3));
    read_log(&disk.journal().join("log.jsonl"));
}

/// On a read-only file system a journal says so at once, and names the path, whether there was one before or not.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_read_only_file_system_is_told_at_once_and_by_its_path() {
    let Some(disk) = Tmpfs::mount_or_skip("a_read_only_file_system_is_told_at_once_and_by_its_path", 256) else {
        return;
    };
    let desk = Desk::start().await;
    let client = client_of(&disk.journal(), &desk.url()).await;
    receipt(client.submit(mail(1), &order()).await);
    drop(client);
    // As long as its thread has a file open for writing, nothing becomes read-only.
    while disk.become_read_only().is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for path in [disk.journal(), disk.0.path().join("new")] {
        let opened = tokio::time::timeout(Duration::from_secs(5), Journal::open(&path)).await;
        let error = opened.expect("it hangs").expect_err("it opened");
        assert!(
            matches!(error.kind(), StoreErrorKind::BadPath | StoreErrorKind::Io),
            "{:?} {error}",
            error.kind()
        );
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    assert_eq!(desk.requests().len(), 1);
}

fn signal(pid: u32, name: &str) {
    run("kill", &[&format!("-{name}"), &pid.to_string()]).unwrap();
}

/// Each thread of a process stands still. Where nobody tells, it is taken to.
fn has_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    // Behind the name, which stands in parentheses.
    let mut states = stats.filter_map(|stat| stat.rsplit(") ").next()?.chars().next());
    states.all(|state| state == 'T')
}

/// Pitfall 36: a process that hangs is no dead one. It keeps its orders as long as it is there, and nobody else sends them; when it goes on, its
/// outcome is everybody's.
#[tokio::test]
async fn a_process_that_is_stopped_keeps_its_orders() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let victim = Arc::new(Mutex::new(None));
    let (pid, (told, tell), (stopped, stops)) = (Arc::clone(&victim), mpsc::channel::<()>(), mpsc::channel());
    let tell = Mutex::new(tell);
    desk.on_request(move |_| {
        // Its number is written down by then. Only at its first request.
        if tell.lock().unwrap().recv().is_ok()
            && let Some(pid) = pid.lock().unwrap().take()
        {
            signal(pid, "STOP");
            // A thread may run on until the one that was told has its turn: on a busy machine, long enough to read the answer.
            while !has_stopped(pid) {
                std::thread::yield_now();
            }
            stopped.send(pid).unwrap();
        }
    });
    let child = Role::new("submit", &desk.url(), &folder.path()).start();
    *victim.lock().unwrap() = child.id();
    told.send(()).unwrap();
    drop(told);
    let pid = tokio::task::spawn_blocking(move || stops.recv_timeout(Duration::from_secs(20)).unwrap())
        .await
        .unwrap();

    let client = folder.client(&desk).await;
    let error = client
        .submit(mail(1), &order())
        .within(Duration::from_millis(200))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StillProcessing, "{error}");
    // Resuming waits as well; longer than this it need not wait here.
    drop(tokio::time::timeout(Duration::from_millis(200), client.resume_pending()).await);
    assert_eq!(desk.requests().len(), 1, "somebody else sent it: {}", desk.story());

    signal(pid, "CONT");
    let (told, _) = finish(child).await;
    let key = error.key().unwrap();
    assert_eq!(told, [format!("succeeded {key}")], "{}", desk.story());
    assert_eq!(receipt(client.submit(mail(1), &order()).await).key, key);
    assert_eq!((desk.orders().len(), desk.keys().len()), (1, 1), "{}", desk.story());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &copied),
            false => drop(fs::copy(&path, &copied).unwrap()),
        }
    }
}

/// A folder that was copied to another path, as a restored backup is, opens: its orders are known, those that were moved by compaction too, and
/// the one in doubt goes on under its key.
#[tokio::test]
async fn a_folder_that_was_copied_opens_at_its_new_path() {
    let (folder, elsewhere, hands) = (Folder::new(), Folder::new(), Hands::new());
    let desk = hands.desk().await;
    desk.script(Script::new().commit_then_lose_reply().then_ok());
    let journal = Journal::builder()
        .clock(hands.clone())
        .keep(Duration::ZERO)
        .open(folder.path())
        .await
        .unwrap();
    let once = forgetful(&journal, single(&desk.url()));
    let in_doubt = once.submit(mail(1), &order()).await.unwrap_err().key().unwrap();
    let settled = receipt(once.submit(mail(2), &order().note("another")).await).key;
    compact(&journal, &hands).await;
    drop(once);
    journal.close().await.unwrap();

    copy(&folder.path(), &elsewhere.path());
    let journal = Journal::builder().clock(hands).open(elsewhere.path()).await.unwrap();
    let client = forgetful(&journal, brisk(&desk.url()));
    let resumed = client.resume_pending().await.unwrap().resumed;
    assert_eq!(receipt(resumed[0].result.clone()).key, in_doubt);
    assert_eq!(receipt(client.submit(mail(1), &order()).await).key, in_doubt);
    assert_eq!(receipt(client.submit(mail(2), &order().note("another")).await).key, settled);
    assert_eq!((desk.orders().len(), desk.keys().len()), (2, 2), "{}", desk.story());
}

/// What other programs leave in any folder is neither read as truth nor in the way, and neither is what a compaction that was killed left over.
#[tokio::test]
async fn strangers_in_the_folder_do_no_harm() {
    let (folder, hands) = (Folder::new(), Hands::new());
    let desk = hands.desk().await;
    let journal = Journal::builder()
        .clock(hands.clone())
        .keep(Duration::ZERO)
        .open(folder.path())
        .await
        .unwrap();
    let client = forgetful(&journal, brisk(&desk.url()));
    let first = receipt(client.submit(mail(1), &order()).await).key;
    compact(&journal, &hands).await;
    drop(client);
    journal.close().await.unwrap();

    let strangers = [
        ".DS_Store",
        "Thumbs.db",
        "log.jsonl~",
        ".log.jsonl.swp",
        "#log.jsonl#",
        "log.jsonl.bak",
        "lock~",
        "log.compact",
        "log.new",
        "owners/.DS_Store",
        "origins/.DS_Store",
        "origins/notes.txt",
        "archive/.DS_Store",
        "archive/torn-0",
    ];
    for stranger in strangers {
        fs::write(folder.path().join(stranger), "{\"v\":1,\"not\":\"a record\"}\n").unwrap();
    }
    fs::create_dir(folder.path().join("lost+found")).unwrap();
    for n in [2, 3] {
        let journal = Journal::builder()
            .clock(hands.clone())
            .keep(Duration::ZERO)
            .open(folder.path())
            .await
            .unwrap();
        assert!(journal.torn().is_empty(), "{:?}", journal.torn());
        let client = forgetful(&journal, brisk(&desk.url()));
        assert_eq!(receipt(client.submit(mail(1), &order()).await).key, first);
        receipt(client.submit(mail(n), &order().note(n.to_string())).await);
        compact(&journal, &hands).await;
        drop(client);
        journal.close().await.unwrap();
    }
    assert_eq!((desk.orders().len(), desk.keys().len()), (3, 3), "{}", desk.story());
    for stranger in strangers
        .iter()
        .filter(|name| !name.starts_with("log.") && !name.starts_with("owners/"))
    {
        assert!(folder.path().join(stranger).exists(), "{stranger} is not ours to remove");
    }
}

/// A record of a MiB is a record like any other: sent, in doubt, found again byte for byte.
#[tokio::test]
async fn an_order_of_a_mebibyte_is_resumed_byte_for_byte() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    // The desk's own endpoint echoes the order, and so large an answer is none we take.
    desk.serve("POST", "/parcels", |_| Reply::json(201, json!({"order_id": "p-1"})));
    desk.script(Script::new().lose_request());
    let large = JsonOrder::new(Route::post("parcels"), json!({"note": "ü\"\\\n".repeat((1 << 20) / 5)}));
    // So much JSON is compared by the desk in its own time, on a machine that is busy with other things.
    let patient = |api: ApiBuilder| {
        let mut timeouts = Timeouts::default();
        timeouts.attempt = Duration::from_secs(60);
        timeouts.total = Duration::from_secs(120);
        api.timeouts(timeouts).build().unwrap()
    };
    let once = OrderClient::new(folder.journal().await, patient(single(&desk.url())), actor());
    let key = once.submit(mail(1), &large).await.unwrap_err().key().unwrap();
    once.drain(Duration::from_secs(5)).await;
    drop(once);
    let client = OrderClient::new(folder.journal().await, patient(brisk(&desk.url())), actor());
    let resumed = client.resume_pending().await.unwrap().resumed;
    assert_eq!(receipt(resumed[0].result.clone()).key, key);
    let [one, two] = &desk.requests()[..] else {
        panic!("{}", desk.story())
    };
    assert!(one.body == two.body && one.body.len() > 1 << 20);
    read_log(&folder.log());
}

/// Two clients of one process, by two spellings of one path, share one owner and one air: neither takes the other for dead.
#[cfg(unix)]
#[tokio::test]
async fn two_spellings_of_one_folder_are_one_journal() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let one = folder.client(&desk).await;
    let linked = folder.path().with_file_name("linked");
    std::os::unix::fs::symlink(folder.path(), &linked).unwrap();
    let dotted = folder.path().join("..").join("journal").join(".");
    let (two, three) = (client_of(&linked, &desk.url()).await, client_of(&dotted, &desk.url()).await);
    assert_eq!(fs::read_dir(folder.path().join("owners")).unwrap().count(), 1);
    let order = order();
    let (a, b, c) = tokio::join!(
        one.submit(mail(1), &order),
        two.submit(mail(1), &order),
        three.submit(mail(1), &order)
    );
    let keys = [a, b, c].map(|told| receipt(told).key);
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert_eq!((desk.requests().len(), desk.orders().len()), (1, 1), "{}", desk.story());
}
