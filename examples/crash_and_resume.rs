//! A process submits an order; after the desk has processed it and before the reply is out, the process is killed (SIGKILL). A new process
//! resumes: same key, same bytes, and the desk answers from its store.
//!
//! `cargo run --example crash_and_resume`; with `-- --deaf-desk` the server ignores keys, and the second order shows.

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::process::{Child, Command};
use uketsuke::{Actor, Api, Journal, OrderClient, Origin, Outcome, PlaceOrder, testkit::Desk};

type Done = Result<(), Box<dyn Error>>;

#[tokio::main]
async fn main() -> Done {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["submit", url, folder] => submit(url, Path::new(folder)).await,
        ["resume", url, folder] => resume(url, Path::new(folder)).await,
        other => story(other.contains(&"--deaf-desk")).await,
    }
}

/// The first process: it will not live to see the reply.
async fn submit(url: &str, folder: &Path) -> Done {
    let client = client(url, folder).await?;
    let order = PlaceOrder::new("C-100").item("SKU-1", 2);
    let outcome = client.submit(Origin::mail("<1@example.com>"), &order).await?;
    Err(format!("the child was not killed, and got {outcome:?}").into())
}

/// The second process: it knows nothing of the order but what the journal says.
async fn resume(url: &str, folder: &Path) -> Done {
    let client = client(url, folder).await?;
    for resumed in client.resume_pending().await? {
        match resumed.result {
            Ok(Outcome::Succeeded(receipt)) => println!("succeeded {} replayed={}", receipt.key, receipt.replayed),
            Ok(other) => println!("{:?} {}", other.effect(), other.next_step()),
            Err(error) => println!("error {error}"),
        }
    }
    Ok(())
}

async fn client(url: &str, folder: &Path) -> Result<OrderClient, Box<dyn Error>> {
    let journal = Journal::open(folder).await?;
    Ok(OrderClient::new(journal, Api::at(url)?, Actor::agent("order-agent")))
}

/// The parent: the desk, and the hand that kills.
async fn story(deaf: bool) -> Done {
    let desk = if deaf { Desk::deaf().await } else { Desk::start().await };
    let temporary = tempfile::tempdir()?;
    let folder = temporary.path().join("journal");

    let victim = Arc::new(Mutex::new(None::<u32>));
    let pid = Arc::clone(&victim);
    desk.after_commit(move |seen| {
        if let Some(pid) = pid.lock().unwrap_or_else(PoisonError::into_inner).take() {
            println!(
                "request {} was processed; the child {pid} is killed before it hears of it",
                seen.number
            );
            kill(pid);
        }
    });

    let mut child = start("submit", &desk, &folder, Stdio::null())?;
    *victim.lock().unwrap_or_else(PoisonError::into_inner) = child.id();
    println!("a child process submits the order");
    println!("the child ended: {}", child.wait().await?);
    let sent_by_child = desk.requests().len();

    println!("a new process opens the journal and resumes");
    let resumed = start("resume", &desk, &folder, Stdio::piped())?.wait_with_output().await?;
    let said = String::from_utf8(resumed.stdout)?;
    println!("it says: {}", said.trim());
    let sent_by_resume = desk.requests().len() - sent_by_child;

    println!(
        "orders={} keys={} sent_by_child={sent_by_child} sent_by_resume={sent_by_resume} outcome={}",
        desk.orders().len(),
        desk.keys().len(),
        said.split_whitespace().next().unwrap_or("none"),
    );
    Ok(())
}

fn start(role: &str, desk: &Desk, folder: &PathBuf, stdout: Stdio) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg(role)
        .arg(desk.url())
        .arg(folder)
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
}

/// By the system's own command: SIGKILL, which nothing can catch. Waits until the process is gone.
fn kill(pid: u32) {
    let killed = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    if !killed.is_ok_and(|status| status.success()) {
        println!("the child {pid} could not be killed");
    }
}
