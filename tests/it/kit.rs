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

/// This very test binary once more, with that one test; it hears nothing, what it tells can be read, and it ends with its handle.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Starts this very test binary again as another process, in which `child::play` does what `role` says.
pub(crate) fn child(role: &str, url: &str, folder: &Path) -> Child {
    again("child::play")
        .env("UKETSUKE_CHILD", role)
        .env("UKETSUKE_URL", url)
        .env("UKETSUKE_FOLDER", folder)
        .spawn()
        .unwrap()
}

/// SIGKILL, by the system's own command.
pub(crate) fn kill(pid: u32) {
    let status = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(status.unwrap().success(), "no process {pid} to kill");
}

/// The one request that was refused for its input: which field, as the error itself and its source name it.
pub(crate) fn refused_field(error: &uketsuke::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let invalid = causes.into_iter().find_map(|cause| cause.downcast_ref::<uketsuke::Invalid>());
    let field = invalid.expect("an invalid input names its field").field.clone();
    assert!(error.to_string().contains(&field), "{error}");
    field
}

/// A provider whose credential is replaced by the next of the list with each refresh; the last one stays.
#[derive(Clone)]
pub(crate) struct Tokens(std::sync::Arc<std::sync::Mutex<(Vec<&'static str>, usize)>>);

impl Tokens {
    pub(crate) fn new(tokens: &[&'static str]) -> Self {
        Tokens(std::sync::Arc::new(std::sync::Mutex::new((tokens.to_vec(), 0))))
    }

    /// How often a refresh was asked for.
    pub(crate) fn refreshes(&self) -> usize {
        self.0.lock().unwrap().1
    }

    fn answer(&self) -> uketsuke::BoxFuture<'_, Result<uketsuke::Credential, uketsuke::CredentialError>> {
        let token = uketsuke::Credential::bearer(self.0.lock().unwrap().0[0]);
        Box::pin(async { token.map_err(uketsuke::CredentialError::new) })
    }
}

impl uketsuke::Credentials for Tokens {
    fn current(&self) -> uketsuke::BoxFuture<'_, Result<uketsuke::Credential, uketsuke::CredentialError>> {
        self.answer()
    }

    fn refresh<'a>(
        &'a self,
        _stale: &'a uketsuke::Credential,
    ) -> uketsuke::BoxFuture<'a, Result<uketsuke::Credential, uketsuke::CredentialError>> {
        {
            let mut tokens = self.0.lock().unwrap();
            tokens.1 += 1;
            if tokens.0.len() > 1 {
                tokens.0.remove(0);
            }
        }
        self.answer()
    }
}
