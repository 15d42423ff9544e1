//! What the tests share: a client with short limits, a plain HTTP client that never goes through a proxy, and child processes.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use uketsuke::{Actor, Api, ApiBuilder, Journal, OrderClient, Pacing, PlaceOrder, Timeouts, testkit::Desk};

/// A client that knows nothing of us: no proxy, no redirects.
#[expect(clippy::disallowed_methods, reason = "a plain client, as a stranger would have")]
pub(crate) fn plain_client() -> reqwest::Client {
    let builder = reqwest::Client::builder().no_proxy();
    builder.redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// Limits that let a case of four attempts end in a moment: 4 attempts, delays from 10 ms to 50 ms, 500 ms an attempt, 5 s in all.
pub(crate) fn brisk(url: &str) -> ApiBuilder {
    let mut pacing = Pacing::default();
    pacing.base = Duration::from_millis(10);
    pacing.cap = Duration::from_millis(50);
    pacing.attempts = 4;
    let mut timeouts = Timeouts::default();
    timeouts.connect = Duration::from_millis(250);
    timeouts.attempt = Duration::from_millis(500);
    timeouts.total = Duration::from_secs(5);
    Api::builder(url).pacing(pacing).timeouts(timeouts)
}

pub(crate) fn order() -> PlaceOrder {
    PlaceOrder::new("C-100").item("SKU-1", 2)
}

/// A journal's folder that goes away with the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("journal")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path().join("log.jsonl")
    }

    /// The log's lines, each parsed.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Events of the log by name.
    pub(crate) fn events(&self, name: &str) -> Vec<serde_json::Value> {
        self.lines().into_iter().filter(|line| line["ev"] == name).collect()
    }

    pub(crate) async fn journal(&self) -> Journal {
        Journal::open(self.path()).await.unwrap()
    }

    /// A brisk client of this journal at this desk.
    pub(crate) async fn client(&self, desk: &Desk) -> OrderClient {
        self.client_at(&desk.url()).await
    }

    pub(crate) async fn client_at(&self, url: &str) -> OrderClient {
        let api = brisk(url).build().unwrap();
        OrderClient::new(self.journal().await, api, Actor::agent("test-agent"))
    }
}

/// Starts this very test binary again as another process, in which `child::play` does what `role` says.
pub(crate) fn child(role: &str, url: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::play", "--nocapture", "--test-threads", "1"])
        .env("UKETSUKE_CHILD", role)
        .env("UKETSUKE_URL", url)
        .env("UKETSUKE_FOLDER", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// SIGKILL, by the system's own command.
pub(crate) fn kill(pid: u32) {
    let status = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(status.unwrap().success(), "no process {pid} to kill");
}
