//! `uketsuke desk`, run as a stranger runs it: its lines, its questions, its end.

use crate::kit::plain_client;
use serde_json::{Value, json};
use std::process::{ExitStatus, Stdio};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
const ORDER: &str = r#"{"customer":"C-100","items":[{"sku":"SKU-1","quantity":2}]}"#;

/// A desk that runs, and what it has not said yet.
pub(crate) struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) url: String,
}

impl Program {
    pub(crate) async fn start(args: &[&str]) -> Program {
        let mut child = command(args).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let greeting = lines.next_line().await.unwrap().expect("it says where it listens");
        let at = greeting.find("http://").unwrap_or_else(|| panic!("{greeting}"));
        let url = greeting[at..].split([' ', '"', ';']).next().unwrap().to_owned();
        Program { child, lines, url }
    }

    async fn post(&self, path: &str, key: &str, body: &str) -> reqwest::Result<reqwest::Response> {
        let request = plain_client().post(format!("{}{path}", self.url));
        let request = request.header("idempotency-key", key).header("content-type", "application/json");
        request.body(body.to_owned()).send().await
    }

    async fn ask(&self, what: &str) -> Value {
        let answer = plain_client().get(format!("{}/_desk/{what}", self.url)).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json().await.unwrap()
    }

    /// Ctrl-C; everything it still says, and how it ends.
    async fn stop(mut self) -> (Vec<String>, ExitStatus) {
        let pid = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().await.unwrap();
        assert!(sent.success());
        let mut rest = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            rest.push(line);
        }
        (rest, self.child.wait().await.unwrap())
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uketsuke"));
    command.arg("desk").args(args).stdin(Stdio::null());
    command
}

async fn fails(args: &[&str]) -> (Option<i32>, String) {
    let output = command(args).output().await.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn a_lost_reply_is_one_order_and_the_second_post_its_stored_answer() {
    let desk = Program::start(&["--dialect", "stripe", "--script", "lose reply x1"]).await;
    assert!(
        desk.url.starts_with("http://127.0.0.1:"),
        "loopback unless told otherwise: {}",
        desk.url
    );
    assert!(desk.post("/orders", KEY, ORDER).await.is_err(), "the reply was to be lost");
    let second = desk.post("/orders", KEY, ORDER).await.unwrap();
    assert_eq!(second.status(), 201);
    assert_eq!(second.headers()["idempotent-replayed"], "true");

    let orders = desk.ask("orders").await;
    assert_eq!((orders.as_array().unwrap().len(), &orders[0]["customer"]), (1, &json!("C-100")));
    let requests = desk.ask("requests").await;
    assert_eq!(requests.as_array().unwrap().len(), 2, "questions are no requests");
    assert_eq!((&requests[0]["key"], &requests[0]["status"]), (&json!(KEY), &Value::Null));
    assert_eq!((&requests[1]["replayed"], &requests[1]["status"]), (&json!(true), &json!(201)));

    let (lines, status) = desk.stop().await;
    assert!(status.success());
    assert_eq!(lines.len(), 3, "a line a request, and the summary: {lines:#?}");
    assert!(lines[0].contains(" #1 POST /orders | ") && lines[0].contains(KEY), "{}", lines[0]);
    for number in ["requests=2", "keys=1", "orders=1", "replayed=1", "suspicions=0", "script_left=0"] {
        assert!(lines[2].contains(number), "{number} in {}", lines[2]);
    }
}

#[tokio::test]
async fn a_test_in_another_language_sets_the_script_and_ends_what_is_stuck() {
    let desk = Program::start(&["--json"]).await;
    let script = |text: &'static str| plain_client().post(format!("{}/_desk/script", desk.url)).body(text).send();
    assert_eq!(script("stuck; 503").await.unwrap().status(), 204);
    assert!(desk.post("/orders", KEY, ORDER).await.is_err());
    assert_eq!(desk.post("/orders", "another", ORDER).await.unwrap().status(), 503);
    assert_eq!(desk.post("/orders", KEY, ORDER).await.unwrap().status(), 409);
    let finish = |key: &str| plain_client().post(format!("{}/_desk/finish/{key}", desk.url)).send();
    assert_eq!(finish("nobody").await.unwrap().status(), 404);
    assert_eq!(finish(KEY).await.unwrap().status(), 204);
    assert_eq!(desk.post("/orders", KEY, ORDER).await.unwrap().status(), 201);

    let refused = script("lsoe reply").await.unwrap();
    assert_eq!(refused.status(), 400);
    let said: Value = refused.json().await.unwrap();
    assert_eq!(said["code"], "script_invalid");
    assert!(said["detail"].as_str().unwrap().contains("lose reply"), "{said}");
    let nothing = plain_client().get(format!("{}/_desk/order", desk.url)).send().await.unwrap();
    assert_eq!(nothing.status(), 404);
    assert_eq!(
        desk.ask("suspicions").await.as_array().unwrap().len(),
        2,
        "`another` is the same order, and no UUID"
    );

    let (lines, status) = desk.stop().await;
    assert!(status.success());
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5, "four requests and the summary");
    assert_eq!(lines[1]["request"]["status"], 503);
    assert_eq!(lines[4]["event"], "stopped");
    assert_eq!(lines[4]["summary"]["orders"], 1);
}

#[tokio::test]
async fn what_can_not_be_played_is_refused_with_its_cure() {
    let (code, said) = fails(&["--script", "lsoe reply"]).await;
    assert_eq!(code, Some(2));
    assert!(said.contains("lose reply"), "{said}");
    let (code, said) = fails(&["--dialect", "strip"]).await;
    assert_eq!(code, Some(2));
    assert!(said.contains("stripe"), "{said}");
    let (code, said) = fails(&["--ledger", "postgres://x"]).await;
    assert_eq!(code, Some(2));
    assert!(said.contains("redis://"), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, said) = fails(&["--listen", &taken.local_addr().unwrap().to_string()]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("--listen"), "{said}");
    #[cfg(feature = "redis")]
    {
        let address = taken.local_addr().unwrap();
        drop(taken);
        let (code, said) = fails(&["--ledger", &format!("redis://:secret@{address}")]).await;
        assert_eq!(code, Some(1));
        assert!(said.contains("ledger") && !said.contains("secret"), "{said}");
    }
}

#[tokio::test]
async fn its_help_says_what_a_night_looks_like() {
    let output = command(&["--help"]).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for word in [
        "--listen",
        "--dialect",
        "--ledger",
        "--script",
        "--seed",
        "--json",
        "lose reply x1; 503 x2; ok",
        "/_desk/orders",
    ] {
        assert!(said.contains(word), "{word} in {said}");
    }
}
