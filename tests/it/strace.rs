//! The promise as the operating system saw it: a first order into a new folder, under `strace`. What the crate says of its own calls is the
//! matter of `story.rs`; here nobody but the kernel is believed.

use crate::{kit::Folder, props::mail};
use std::{collections::HashMap, path::Path, process::Stdio};
use tokio::process::Command;
use uketsuke::testkit::Desk;

const CALLS: &str = "trace=openat,fsync,fdatasync,rename,renameat,renameat2,write,pwrite64,writev,sendto,sendmsg";

/// R6, R21: the claim stands in the log, the log is synced, the folder knows the log by its name for good; only then does the first byte go to a
/// socket. The check is shown to be able to fail.
#[tokio::test]
async fn the_first_byte_leaves_after_the_claim_is_on_disk() {
    if !strace_works().await {
        println!("SKIPPED: the_first_byte_leaves_after_the_claim_is_on_disk: no strace on the path that may trace");
        return;
    }
    let (desk, folder) = (Desk::start().await, Folder::new());
    let trace = traced_submit(&desk, &folder).await;
    assert_eq!(desk.requests().len(), 1, "{}", desk.story());
    assert_eq!(
        folder.events("claimed")[0]["data"]["order"]["origin"],
        serde_json::to_value(mail(1)).unwrap()
    );
    let folder = folder.path().canonicalize().unwrap();
    assert_eq!(claim_is_on_disk_before_it_leaves(&trace, &folder), Ok(()), "{}", trace.join("\n"));
    every_other_order_goes_red(&trace, &folder);
}

async fn strace_works() -> bool {
    let probe = Command::new("strace").args(["-f", "-yy", "-o", "/dev/null", "true"]).output().await;
    probe.is_ok_and(|output| output.status.success())
}

/// What a process did that made a journal in this folder and submitted one order at this desk: a line a call.
async fn traced_submit(desk: &Desk, folder: &Folder) -> Vec<String> {
    let trace = folder.path().with_file_name("trace");
    let output = Command::new("strace")
        .args(["-f", "-yy", "-s", "65536", "-e", CALLS, "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "props::play", "--nocapture", "--test-threads", "1"])
        .env("UKETSUKE_ROLE", "submit")
        .env("UKETSUKE_URL", desk.url())
        .env("UKETSUKE_FOLDER", folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("told: succeeded"), "{told}");
    let text = String::from_utf8_lossy(&std::fs::read(&trace).unwrap()).into_owned();
    text.lines().map(str::to_owned).collect()
}

// ---- the check -----------------------------------------------------------------------------------------------------

/// One call to the system. A call that others got in between has two lines.
struct Call<'a> {
    name: &'a str,
    args: &'a str,
    /// The line at which it began.
    begun: usize,
    /// The line at which it came back well.
    done: Option<usize>,
}

impl Call<'_> {
    /// What its descriptor stands for: `-yy` writes it behind the number.
    fn is_on(&self, what: &str) -> bool {
        self.args.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(what)
    }

    fn writes(&self) -> bool {
        matches!(self.name, "write" | "pwrite64" | "writev" | "sendto" | "sendmsg")
    }

    fn syncs(&self, path: &Path) -> bool {
        matches!(self.name, "fsync" | "fdatasync") && self.is_on(&format!("<{}>", path.display()))
    }

    /// Without help from the system, `strace` calls a TCP socket a socket.
    fn leaves(&self) -> bool {
        self.writes() && (self.is_on("<TCP") || self.is_on("<socket:"))
    }
}

/// `4711 fsync(9</a/journal>) = 0`, or `4711 fsync(9</a/journal> <unfinished ...>` and later `4711 <... fsync resumed>) = 0`.
fn calls(trace: &[String]) -> Vec<Call<'_>> {
    let (mut calls, mut unfinished) = (Vec::<Call<'_>>::new(), HashMap::new());
    for (at, line) in trace.iter().enumerate() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        let came_back_well = rest.rsplit_once(" = ").is_some_and(|(_, result)| !result.starts_with(['-', '?']));
        let done = came_back_well.then_some(at);
        if rest.starts_with("<... ") {
            if let Some(nth) = unfinished.remove(process) {
                let call: &mut Call<'_> = &mut calls[nth];
                call.done = done;
            }
        } else if let Some((name, args)) = rest.split_once('(') {
            if rest.ends_with("<unfinished ...>") {
                unfinished.insert(process, calls.len());
            }
            let done = done.filter(|_| !rest.ends_with("<unfinished ...>"));
            calls.push(Call {
                name,
                args,
                begun: at,
                done,
            });
        }
    }
    calls
}

/// The four steps, each over before the next begins.
fn claim_is_on_disk_before_it_leaves(trace: &[String], folder: &Path) -> Result<(), &'static str> {
    let (calls, log) = (calls(trace), folder.join("log.jsonl"));
    let left = calls.iter().find(|call| call.leaves()).ok_or("nothing left")?.begun;
    let over = |call: &Call<'_>| call.done.filter(|done| *done < left);
    let first = |which: &dyn Fn(&Call<'_>) -> bool| calls.iter().filter(|call| which(call)).find_map(over);
    let claims = |call: &Call<'_>| {
        let on_log = call.writes() && call.is_on(&format!("<{}>", log.display()));
        on_log && call.args.contains(r#"\"ev\":\"claimed\""#)
    };
    let claimed = first(&claims).ok_or("it left before its claim was written")?;
    first(&|call| call.syncs(&log) && call.begun > claimed).ok_or("it left before its claim was synced")?;
    let places = |call: &Call<'_>| call.name.starts_with("rename") && call.args.contains(&format!("\"{}\"", log.display()));
    let placed = first(&places).ok_or("it left before the log had its name")?;
    first(&|call| call.syncs(folder) && call.begun > placed).ok_or("it left before the log's name was synced")?;
    Ok(())
}

/// The same trace with a call taken out, put elsewhere or failing, and what is said of it.
#[track_caller]
fn every_other_order_goes_red(trace: &[String], folder: &Path) {
    let log = folder.join("log.jsonl");
    let red = |trace: &[String], said: &'static str| assert_eq!(claim_is_on_disk_before_it_leaves(trace, folder), Err(said));
    let lines = |which: &dyn Fn(&Call<'_>) -> bool| -> Vec<usize> {
        let calls = calls(trace).into_iter().filter(|call| which(call));
        calls.map(|call| call.begun).collect()
    };
    let without = |gone: &[usize]| -> Vec<String> {
        let kept = trace.iter().enumerate().filter(|(at, _)| !gone.contains(at));
        kept.map(|(_, line)| line.clone()).collect()
    };
    let left = lines(&|call| call.leaves())[0];
    let claim = lines(&|call| call.writes() && call.args.contains(r#"\"ev\":\"claimed\""#))[0];
    let (syncs, folders) = (lines(&|call| call.syncs(&log)), lines(&|call| call.syncs(folder)));
    let sync = *syncs.iter().find(|at| **at > claim).unwrap();
    let name = lines(&|call| call.name.starts_with("rename"))[0];

    red(&without(&lines(&|call| call.leaves())), "nothing left");
    red(&without(&[claim]), "it left before its claim was written");
    red(&without(&syncs), "it left before its claim was synced");
    red(&without(&[name]), "it left before the log had its name");
    let late: Vec<_> = folders.iter().copied().filter(|at| *at > name).collect();
    red(&without(&late), "it left before the log's name was synced");
    // A byte too early, by one step or two.
    for (before, said) in [
        (claim, "it left before its claim was written"),
        (sync, "it left before its claim was synced"),
        (name, "it left before its claim was written"),
    ] {
        let mut early = trace.to_vec();
        let byte = early.remove(left);
        early.insert(before, byte);
        red(&early, said);
    }
    // A sync that failed, and one that was not over yet.
    let failing = |at: usize| {
        let mut failing = trace.to_vec();
        failing[at] = failing[at].replace(" = 0", " = -1 EIO (Input/output error)");
        failing
    };
    red(&failing(sync), "it left before its claim was synced");
    let mut halfway = trace.to_vec();
    let (process, call) = halfway[sync].split_once(' ').unwrap();
    let (begun, ended) = (
        format!("{process} {} <unfinished ...>", call.rsplit_once(')').unwrap().0),
        format!("{process} <... fdatasync resumed>) = 0"),
    );
    halfway[sync] = begun;
    let mut overtaken = halfway.clone();
    overtaken.insert(left + 1, ended.clone());
    red(&overtaken, "it left before its claim was synced");
    halfway.insert(sync + 1, ended);
    assert_eq!(
        claim_is_on_disk_before_it_leaves(&halfway, folder),
        Ok(()),
        "in two lines, it is the same sync"
    );
}
