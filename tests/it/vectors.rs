//! Vectors that others published, read from beside the project; they are not ours to carry along. Where they are missing, a test says so and
//! is no proof.

use crate::{
    kit::{Folder, order},
    props::{actor, because, mail, receipt},
};
use serde_json::Value;
use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};
use uketsuke::{Api, ErrorKind, Fingerprint, Journal, JsonOrder, OrderClient, Outcome, Proposal, Route, Ruling, TraceId, testkit::Desk};

fn vectors(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/vectors").join(name);
    if !path.is_dir() {
        eprintln!("!! SKIPPED: the published vectors {name} are not here; nothing was checked against them");
        return None;
    }
    Some(path)
}

/// A client that denies everything and shows what the policy saw of it.
struct Judge {
    client: OrderClient,
    seen: Arc<Mutex<Option<Fingerprint>>>,
    asked: usize,
}

impl Judge {
    fn new() -> Self {
        let seen = Arc::new(Mutex::new(None));
        let show = Arc::clone(&seen);
        let policy = move |proposal: &Proposal<'_>| {
            *show.lock().unwrap() = Some(proposal.draft.fingerprint().clone());
            Ruling::Deny(because())
        };
        let api = Api::at("http://127.0.0.1:9").unwrap();
        let client = OrderClient::builder(Journal::memory().unwrap(), api, actor())
            .policy(policy)
            .build();
        Judge { client, seen, asked: 0 }
    }

    /// The fingerprint of an order with these contents, or the field that the gate refuses.
    async fn fingerprint(&mut self, json: &[u8]) -> Result<Fingerprint, String> {
        let order = JsonOrder::from_json(Route::post("orders"), json).map_err(|refused| refused.field)?;
        self.asked += 1;
        let outcome = self.client.submit(mail(self.asked), &order).await;
        assert!(matches!(outcome, Ok(Outcome::Denied(_))), "{outcome:?}");
        Ok(self.seen.lock().unwrap().take().unwrap())
    }
}

/// RFC 8785: an input and its canonical form are one order.
#[tokio::test]
async fn a_document_and_its_canonical_form_share_a_fingerprint() {
    let Some(folder) = vectors("jcs") else { return };
    let mut judge = Judge::new();
    let mut prints = Vec::new();
    for entry in fs::read_dir(folder.join("input")).unwrap() {
        let name = entry.unwrap().file_name();
        let [input, output] = ["input", "output"].map(|side| fs::read(folder.join(side).join(&name)).unwrap());
        let [input, output] = [judge.fingerprint(&input).await, judge.fingerprint(&output).await];
        assert_eq!(input, output, "{}", name.display());
        if name == "values.json" {
            // It holds 1E30, which no reader can tell from its neighbours: the gate refuses it, in both spellings.
            assert_eq!(input, Err("numbers[1]".to_owned()));
            continue;
        }
        prints.push(input.unwrap().as_str().to_owned());
    }
    prints.sort();
    prints.dedup();
    assert_eq!(prints.len(), 5, "different documents share a fingerprint");
}

/// The gate takes every double but those beyond ±(2^53−1), and its spelling does not matter.
#[tokio::test]
async fn a_number_is_itself_in_every_spelling_or_it_is_refused() {
    let Some(folder) = vectors("es6-numbers") else { return };
    let mut judge = Judge::new();
    let (mut taken, mut refused) = (0, 0);
    for file in ["first1000.txt", "random2000.txt"] {
        for line in fs::read_to_string(folder.join(file)).unwrap().lines().step_by(7) {
            let (bits, text) = line.split_once(',').unwrap();
            let number = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
            let ours = judge.fingerprint(format!("[{number:e}]").as_bytes()).await;
            let theirs = judge.fingerprint(format!("[{text}]").as_bytes()).await;
            assert_eq!(ours, theirs, "{line}");
            assert_eq!(ours.is_err(), number.abs() > 9_007_199_254_740_991.0, "{line}");
            *(if ours.is_err() { &mut refused } else { &mut taken }) += 1;
        }
    }
    assert!(taken > 100 && refused > 100, "{taken} and {refused}");
    // The way in by a value meets the same gate.
    let huge = JsonOrder::new(Route::post("orders"), Value::from(1e30));
    assert_eq!(
        judge.client.submit(mail(0), &huge).await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

/// W3C Trace Context: which `traceparent` values name a trace. Its parser's own tests; we read any version, and refuse zero ids always.
#[test]
fn a_traceparent_is_read_as_the_recommendation_says() {
    let Some(folder) = vectors("trace-context") else { return };
    let cases: Vec<Value> = serde_json::from_slice(&fs::read(folder.join("traceparent_parse.json")).unwrap()).unwrap();
    assert!(cases.len() > 30);
    for case in cases {
        let (class, text) = (case["class"].as_str().unwrap(), case["value"].as_str().unwrap());
        let zero = text.contains(&"0".repeat(32)) || text.contains("-0000000000000000-");
        // `TraceparentTest` reads version 00 only; the recommendation (4.3) asks to read a later one by its first four fields.
        let later = class == "TraceparentTest" && matches!(text.get(..2), Some("01" | "02" | "cc"));
        let wanted = (case["ok"] == true || later) && !zero;
        let read = TraceId::from_traceparent(text);
        assert_eq!(read.is_ok(), wanted, "{class} {text}: {read:?}");
        if let Ok(trace) = read {
            assert_eq!(trace.to_string(), text[3..35]);
        }
    }
}

/// W3C Trace Context, its requests: a program that was called like this submits an order, under its caller's trace where that is one. One valid
/// `traceparent` goes out each time, with a span of its own.
#[tokio::test]
async fn a_callers_trace_goes_on_over_the_wire_as_the_recommendation_says() {
    let Some(folder) = vectors("trace-context") else { return };
    let cases: Vec<Value> = serde_json::from_slice(&fs::read(folder.join("http_cases.json")).unwrap()).unwrap();
    assert!(cases.len() > 70);
    let (desk, journal) = (Desk::start().await, Folder::new());
    let client = journal.client(&desk).await;
    for (n, case) in cases.iter().enumerate() {
        // What a server library hands over: names in any case, blanks at the ends gone.
        let lines = case["headers"].as_array().unwrap().iter();
        let lines = lines.map(|line| (line[0].as_str().unwrap(), line[1].as_str().unwrap().trim_matches([' ', '\t'])));
        let named: Vec<&str> = lines
            .filter(|(name, _)| name.eq_ignore_ascii_case("traceparent"))
            .map(|(_, value)| value)
            .collect();
        let trace = match named[..] {
            [one] => TraceId::from_traceparent(one).ok(),
            _ => None,
        };
        let order = order();
        let submit = client.submit(mail(n), &order);
        receipt(match trace {
            Some(trace) => submit.trace(trace).await,
            None => submit.await,
        });
        let request = desk.requests().pop().unwrap();
        let [sent] = request.headers_named("traceparent")[..] else {
            panic!("{case}")
        };
        let (id, fields) = (
            TraceId::from_traceparent(sent).unwrap().to_string(),
            sent.split('-').collect::<Vec<_>>(),
        );
        assert_eq!((fields[0], fields.len()), ("00", 4), "{case}");
        if let Some(kept) = case["keep_trace_id"].as_str() {
            assert_eq!(id, kept, "{case}");
        }
        let is_none_of = |name: &str, ours: &str| case[name].as_array().unwrap().iter().all(|theirs| theirs != ours);
        assert!(
            is_none_of("new_trace_id_not", &id) && is_none_of("new_parent_id_not", fields[2]),
            "{case}: {sent}"
        );
    }
    assert_eq!(desk.requests().len(), cases.len());
    desk.assert_one_order_per_key();
}
