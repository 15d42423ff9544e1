//! Power cuts on a real file system: ext4 in a file, mounted by a loop device and shut down by its own ioctl, as often as one likes and without
//! a plug to pull. What was promised before the cut is there after it. Linux, and root only; skipped by name where it can't be done.
//!
//! `UKETSUKE_POWER_CUTS=1000` cuts a thousand times instead of ten.

use crate::{
    kit::brisk,
    props::{actor, mail, unsynced},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command as Blocking, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};
use uketsuke::{Journal, OrderClient, Outcome, PlaceOrder, testkit::Desk};

/// `EXT4_IOC_SHUTDOWN`, which is XFS's GOINGDOWN, `_IOR('X', 125, __u32)`, with NOLOGFLUSH (2): what is not on the disk yet never will be. It
/// waits for a line, so that nothing but the ioctl lies between that line and the dark.
const PULL_THE_PLUG: &str = "\
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
print('ready', flush=True)
sys.stdin.readline()
fcntl.ioctl(fd, 0x8004587d, struct.pack('I', 2))
print('dark', flush=True)";

/// Past the wrappers that some machines put in front of it, which take longer than all the rest.
fn python() -> &'static str {
    match Path::new("/usr/bin/python3").exists() {
        true => "/usr/bin/python3",
        false => "python3",
    }
}

// ---- a file system of its own --------------------------------------------------------------------------------------

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let said = Blocking::new(program).args(args).stdin(Stdio::null()).output();
    match said {
        Ok(said) if said.status.success() => Ok(()),
        Ok(said) => Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&said.stderr).trim())),
        Err(e) => Err(format!("{program}: {e}")),
    }
}

/// ext4 in a file. It is unmounted and gone however the test ends.
struct LoopDisk {
    home: TempDir,
    mounted: bool,
}

impl LoopDisk {
    fn make() -> Result<LoopDisk, String> {
        run(python(), &["-c", "import fcntl"])?;
        let home = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut disk = LoopDisk { home, mounted: false };
        std::fs::create_dir(disk.folder()).map_err(|e| e.to_string())?;
        let image = std::fs::File::create(disk.image()).map_err(|e| e.to_string())?;
        image.set_len(32 << 20).map_err(|e| e.to_string())?;
        drop(image);
        run("mkfs.ext4", &["-q", "-F", text(&disk.image())])?;
        disk.mount()?;
        Ok(disk)
    }

    fn image(&self) -> PathBuf {
        self.home.path().join("image")
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("mounted")
    }

    fn journal(&self) -> PathBuf {
        self.folder().join("journal")
    }

    fn mount(&mut self) -> Result<(), String> {
        run("mount", &["-o", "loop", text(&self.image()), text(&self.folder())])?;
        self.mounted = true;
        Ok(())
    }

    /// A journal that was dropped takes a moment to close its files.
    fn unmount(&mut self) -> Result<(), String> {
        let mut last = Ok(());
        for _ in 0..500 {
            last = run("umount", &[text(&self.folder())]);
            if last.is_ok() {
                self.mounted = false;
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        last
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if self.mounted {
            // Lazily: whoever still has a file open must not keep the mount.
            drop(run("umount", &["-l", text(&self.folder())]));
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// The disk, or a loud word that there is none.
fn disk_or_skip(test: &str) -> Option<LoopDisk> {
    LoopDisk::make()
        .inspect_err(|why| eprintln!("SKIPPED: {test}: no loop-mounted ext4 here, which takes root, mkfs.ext4 and python3: {why}"))
        .ok()
}

// ---- a process that works while the power goes ---------------------------------------------------------------------

fn lines(child: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(child.stdout.take().unwrap()).lines()
}

/// This very binary, which submits one order after the other, four at a time, and tells each receipt.
fn worker(url: &str, journal: &Path, round: usize, synced: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "power_cut::work", "--nocapture", "--test-threads", "1"]);
    command.env("UKETSUKE_WORKER", round.to_string()).env("UKETSUKE_URL", url);
    command.env("UKETSUKE_FOLDER", journal).env("UKETSUKE_SYNCED", synced.to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command.spawn().unwrap()
}

fn order_of(n: usize) -> PlaceOrder {
    PlaceOrder::new(format!("C-{n}")).item("SKU-1", 1)
}

/// The other process. Started by hand, it has nothing to do.
#[tokio::test]
async fn work() {
    let env = |name: &str| std::env::var(format!("UKETSUKE_{name}"));
    let Ok(round) = env("WORKER") else { return };
    let first = round.parse::<usize>().unwrap() * 100_000;
    let builder = match env("SYNCED").unwrap() == "true" {
        true => Journal::builder(),
        false => Journal::builder().disk(unsynced()),
    };
    let journal = builder.open(env("FOLDER").unwrap()).await.unwrap();
    let client = OrderClient::new(journal, brisk(&env("URL").unwrap()).build().unwrap(), actor());
    let hands = (0..4).map(|hand| {
        let client = client.clone();
        tokio::spawn(async move {
            for n in (first + hand..).step_by(4) {
                match client.submit(mail(n), &order_of(n)).await {
                    Ok(Outcome::Succeeded(receipt)) => println!("told: {n} {}", receipt.key),
                    // It is dark. Whoever lives on is not believed, and says nothing.
                    _ => break,
                }
            }
        })
    });
    for hand in hands.collect::<Vec<_>>() {
        hand.await.unwrap();
    }
}

/// What had been promised when the plug was pulled.
#[derive(Default)]
struct Promised {
    /// Told to a caller: the mail and its key.
    told: BTreeMap<usize, String>,
    /// Keys that the desk had seen.
    seen: Vec<String>,
}

/// Works until so many orders are told, and pulls the plug. Only what was read before that counts: a process that outlives the power by a moment
/// goes on answering (pitfall 44).
async fn work_until_dark(desk: &Desk, disk: &LoopDisk, round: usize, orders: usize, synced: bool, promised: &mut Promised) {
    let mut plug = Command::new(python());
    plug.args(["-c", PULL_THE_PLUG, text(&disk.folder())]);
    let plug = plug
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut plug = plug.spawn().unwrap();
    let mut worker = worker(&desk.url(), &disk.journal(), round, synced);
    let mut said = lines(&mut plug);
    assert_eq!(said.next_line().await.unwrap().as_deref(), Some("ready"));

    let mut told = lines(&mut worker);
    let before = promised.told.len();
    while promised.told.len() < before + orders {
        let line = told.next_line().await.unwrap().expect("the worker ended before the power did");
        if let Some((_, words)) = line.split_once("told: ") {
            let (n, key) = words.split_once(' ').unwrap();
            promised.told.insert(n.parse().unwrap(), key.to_owned());
        }
    }
    promised.seen = desk.keys();
    plug.stdin.take().unwrap().write_all(b"now\n").await.unwrap();
    assert_eq!(said.next_line().await.unwrap().as_deref(), Some("dark"));
    plug.wait().await.unwrap();
    worker.kill().await.unwrap();
}

/// What of the promises is not there when the power is back.
async fn broken(desk: &Desk, disk: &LoopDisk, promised: &Promised) -> Result<Vec<String>, String> {
    let journal = Journal::open(disk.journal()).await.map_err(|e| format!("it does not open: {e}"))?;
    let client = OrderClient::new(journal.clone(), brisk(&desk.url()).build().unwrap(), actor());
    let mut broken = Vec::new();
    for key in promised.told.values().chain(&promised.seen) {
        if let Ok(None) = client.known(key.parse().unwrap()).await {
            broken.push(format!("{key} is not in the journal"));
        }
    }
    client.resume_pending().await.map_err(|e| format!("nothing is resumed: {e}"))?;
    for (n, key) in &promised.told {
        match client.submit(mail(*n), &order_of(*n)).await {
            Ok(Outcome::Succeeded(receipt)) if receipt.key.to_string() == *key => {}
            other => broken.push(format!("mail {n} was told under {key}, and now: {other:?}")),
        }
    }
    client.drain(Duration::from_secs(5)).await;
    drop(client);
    journal.close().await.map_err(|e| format!("it does not close: {e}"))?;
    Ok(broken)
}

/// So many orders before the dark; other numbers each time.
fn orders(round: usize) -> usize {
    1 + round * 7 % 23
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_promised_before_a_power_cut_is_there_after_it() {
    let Some(mut disk) = disk_or_skip("what_was_promised_before_a_power_cut_is_there_after_it") else {
        return;
    };
    let cuts: usize = std::env::var("UKETSUKE_POWER_CUTS").map_or(10, |n| n.parse().expect("UKETSUKE_POWER_CUTS is a number"));
    let (mut desk, mut promised) = (Desk::start().await, Promised::default());
    for round in 0..cuts {
        work_until_dark(&desk, &disk, round, orders(round), true, &mut promised).await;
        disk.unmount().unwrap();
        disk.mount().unwrap();
        let broken = broken(&desk, &disk, &promised)
            .await
            .unwrap_or_else(|what| panic!("cut {round}: {what}"));
        assert!(broken.is_empty(), "cut {round}: {broken:#?}");
        desk.assert_one_order_per_key();
        // Told, or only seen: no order stands twice.
        let mut customers: Vec<String> = desk.orders().iter().map(|order| order["customer"].to_string()).collect();
        customers.sort();
        let all = customers.len();
        customers.dedup();
        assert_eq!(customers.len(), all, "cut {round}: an order stands twice");
        // One disk for a few cuts: a journal that was cut before is cut again. Not for all, or each opening reads more.
        if round % 10 == 9 && round + 1 < cuts {
            disk.unmount().unwrap();
            disk = LoopDisk::make().unwrap();
            (desk, promised) = (Desk::start().await, Promised::default());
        }
    }
    println!("{cuts} cuts");
}

/// The test above can fail: without the syncs, the same cut takes what was promised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_takes_what_was_not_synced() {
    for round in 0..3 {
        let Some(mut disk) = disk_or_skip("a_power_cut_takes_what_was_not_synced") else {
            return;
        };
        let (desk, mut promised) = (Desk::start().await, Promised::default());
        work_until_dark(&desk, &disk, round, 10, false, &mut promised).await;
        disk.unmount().unwrap();
        disk.mount().unwrap();
        let broken = broken(&desk, &disk, &promised).await;
        drop(disk.unmount());
        match broken {
            Ok(broken) if broken.is_empty() => {}
            Ok(broken) => return println!("after {} promises: {broken:#?}", promised.told.len()),
            Err(what) => return println!("after {} promises: {what}", promised.told.len()),
        }
    }
    panic!("three power cuts without a sync, and nothing was lost: the cut cuts nothing");
}
