//! Each kind of event fills what it must, and hides what it must; also those that only a person makes.

use super::{row::COLUMNS, *};
use crate::{
    actor::Actor,
    answer::{Answer, Half, Head, NoAnswer},
    clock::Timestamp,
    ids::RequestId,
    intent::{Draft, KeyPlace, Lineage, Sketch, Terms},
    journal::{Act, Told, store::StoreErrorKind},
    lifecycle::{Claimed, Event, Found, Rest, ReviewReason, Settled, Sighting, State, TurnedAway, Verb, Void, Voids},
    operation::Route,
    order::JsonOrder,
    origin::Origin,
    ruling::{Because, Ruling},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
const REQUEST: &str = "6f9619ff-8b86-4011-b42d-00c04fc964ff";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn at() -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000)
}

fn request() -> RequestId {
    REQUEST.parse().unwrap()
}

fn draft() -> Draft {
    let terms = Terms {
        api: "shop".to_owned(),
        dialect: "ietf".to_owned(),
        key_place: KeyPlace::RawHeader("Idempotency-Key".to_owned()),
        retention: Duration::from_secs(24 * 3600),
        scope: Some("scope".to_owned()),
    };
    let actor = Actor::agent("agent").session("session").user("user").model("model");
    let route = Route::post("orders").query("q", "SEKRET").header("X-Shop", "SEKRET");
    let order = JsonOrder::new(route, json!({"note": "SEKRET"}));
    let sketch = Sketch::of(&order, Origin::distinct("two boxes"), actor, TRACE.parse().unwrap(), terms).unwrap();
    match sketch.with_tool_call("call".to_owned()) {
        Sketch::Ready(draft) => *draft,
        Sketch::Refers(_) => panic!("it names no other order"),
    }
}

fn because() -> Because {
    Because::rule("v1", "rule", "reason")
}

fn answer() -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("location", HeaderValue::from_static("SEKRET"));
    let body = Bytes::from_static(br#"{"code":"refused","id":"SEKRET"}"#);
    Answer::new(Head::new(StatusCode::CREATED, headers), body)
}

fn claimed(ruling: Ruling) -> Event {
    Event::Claimed(Box::new(Claimed {
        lineage: Lineage {
            generation: 2,
            supersedes: Some(KEY.parse().unwrap()),
        },
        sending_follows: matches!(ruling, Ruling::Allow(_)),
        parked_until: matches!(ruling, Ruling::Ask(_)).then(|| at().plus(Duration::from_secs(3600))),
        ruling,
        owner: REQUEST.parse().unwrap(),
        boot: None,
        order: draft(),
    }))
}

fn by(event: fn(String, String) -> Event) -> Event {
    event("carol".to_owned(), "note".to_owned())
}

/// Every kind of event, each with what its row says beside who asked for the order; as JSON would.
fn kinds() -> Vec<(Event, Value)> {
    let words = json!({"by": "carol", "note": "note"});
    let why = json!({"rules": ["rule"], "policy_version": "v1", "reason": "reason"});
    let joined = Event::Joined {
        actor: Actor::agent("other"),
        trace: "00f067aa0ba902b7a3ce929d0e0e4736".parse().unwrap(),
        tool_call: Some("call-2".to_owned()),
    };
    let previewed = Event::Previewed {
        request: Some(request()),
        current: Some(answer()),
        because: because(),
        digest: "pv1:1".to_owned(),
        voids: Some(Voids {
            why: Void::BaseChanged,
            until: at(),
        }),
    };
    let approved = Event::Approved {
        by: "carol".to_owned(),
        note: "note".to_owned(),
        shown: "pv1:1".to_owned(),
        until: at(),
    };
    let seen = Sighting::Answered {
        status: 422,
        replayed: true,
        code: Some("refused".to_owned()),
        says: None,
    };
    let reconciled = Event::Reconciled {
        by: "carol".to_owned(),
        evidence: "note".to_owned(),
        applied: true,
        receipt: Some(json!({"id": "SEKRET"})),
    };
    let turned_away = Event::TurnedAway {
        by: "carol".to_owned(),
        verb: Verb::Approve,
        why: TurnedAway::OtherPreview {
            named: "pv1:0".to_owned(),
            stands: "pv1:1".to_owned(),
        },
    };
    let told_away = "approve: the preview \"pv1:0\" is not the one that stands (pv1:1): look at that one";
    let succeeded = Settled::Succeeded {
        answer: answer(),
        replayed: true,
    };
    let abandoned = Settled::Abandoned {
        by: "carol".to_owned(),
        why: "note".to_owned(),
    };
    let rested = |why| Event::Rested { why, attempts: 3 };
    let observed = |seen| Event::Observed {
        attempt: 1,
        seen,
        took_ms: 7,
    };
    vec![
        (
            claimed(Ruling::Allow(because())),
            json!({"ruling": "allow", "rules": ["rule"], "policy_version": "v1", "reason": "reason", "note": "two boxes", "supersedes": KEY}),
        ),
        (
            joined,
            json!({"agent": "other", "session": null, "user": null, "model": null, "trace": "00f067aa0ba902b7a3ce929d0e0e4736", "tool_call": "call-2"}),
        ),
        (
            previewed,
            json!({"request": REQUEST, "status": 201, "digest": "pv1:1", "rules": ["rule"], "policy_version": "v1", "code": "refused",
                "reason": "reason; an approval given before is void, since the order it acts on has changed"}),
        ),
        (
            approved,
            json!({"by": "carol", "note": "note", "digest": "pv1:1", "reason": "good until 2026-12-01T09:00:00.000Z"}),
        ),
        (by(|by, why| Event::Refused { by, why }), words.clone()),
        (
            Event::Cleared {
                because: because(),
                request: None,
                boot: None,
            },
            why.clone(),
        ),
        (
            Event::Sent {
                attempt: 1,
                request: request(),
            },
            json!({"attempt": 1, "request": REQUEST}),
        ),
        (
            observed(seen),
            json!({"attempt": 1, "request": REQUEST, "status": 422, "seen": "status 422 refused", "code": "refused", "replayed": true, "took_ms": 7}),
        ),
        (
            observed(Sighting::NoAnswer(NoAnswer::Closed)),
            json!({"attempt": 1, "request": REQUEST, "seen": "connection closed before a reply", "took_ms": 7}),
        ),
        (
            observed(Sighting::HalfAnswer {
                status: 200,
                half: Half::Cut,
            }),
            json!({"attempt": 1, "request": REQUEST, "status": 200, "seen": "status 200 without a whole body", "took_ms": 7}),
        ),
        (
            Event::LookedUp {
                request: request(),
                found: Found::Absent,
                took_ms: 7,
            },
            json!({"request": REQUEST, "seen": "no such order", "took_ms": 7}),
        ),
        (
            rested(Rest::AttemptsSpent { retry_at: Some(at()) }),
            json!({"attempt": 3, "reason": "the limit of attempts was reached; not worth trying before 2026-12-01T09:00:00.000Z"}),
        ),
        (
            rested(Rest::Unauthorized { status: Some(401) }),
            json!({"attempt": 3, "status": 401, "reason": "the server refuses the credential, or there was none"}),
        ),
        (
            Event::Review {
                reason: ReviewReason::Mismatch,
                answer: Some(answer()),
            },
            json!({"status": 201, "code": "refused", "reason": ReviewReason::Mismatch.sentence()}),
        ),
        (
            Event::Settled(succeeded),
            json!({"status": 201, "code": "refused", "replayed": true}),
        ),
        (
            Event::Settled(Settled::Rejected { answer: Some(answer()) }),
            json!({"status": 201, "code": "refused"}),
        ),
        (Event::Settled(Settled::Denied { because: because() }), why),
        (Event::Settled(abandoned), words.clone()),
        (reconciled, json!({"by": "carol", "note": "note", "reason": "the server has it"})),
        (by(|by, why| Event::Abandoned { by, why }), words.clone()),
        (by(|by, why| Event::Withdrawn { by, why }), words.clone()),
        (by(|by, why| Event::Freed { by, why }), words),
        (turned_away, json!({"by": "carol", "reason": told_away})),
        (
            Event::TakenOver {
                owner: REQUEST.parse().unwrap(),
            },
            json!({"reason": format!("taken up by the process that has the journal open as {REQUEST}")}),
        ),
    ]
}

/// The rows of all kinds, one after another as one order's.
fn rows(bodies: Bodies) -> Vec<(Row, Value)> {
    let mut teller = Teller::new(KEY.parse().unwrap(), bodies);
    let mut state = State::new();
    let mut row = |event: Event, says| {
        state = state.clone().after(&event, at());
        let told = Told {
            at: Some(at()),
            event: Ok(event),
        };
        (teller.row(&told, Some(&state)), says)
    };
    kinds().into_iter().map(|(event, says)| row(event, says)).collect()
}

#[test]
fn every_kind_fills_what_it_must_and_nothing_else() {
    let mut names = Vec::new();
    for (row, says) in rows(Bodies::Hidden) {
        let mut right = json!({
            "at": "2026-12-01T09:00:00.000Z", "key": KEY, "event": row.event, "standing": row.standing, "effect": row.effect,
            "operation": draft().operation(), "api": "shop", "call": "POST /orders", "origin": "unknown, vouched for as distinct",
            "agent": "agent", "session": "session", "user": "user", "model": "model", "tool_call": "call", "trace": TRACE,
        });
        for (name, value) in says.as_object().unwrap() {
            right[name] = value.clone();
        }
        right.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let told = serde_json::to_value(&row).unwrap();
        assert_eq!(told, right, "{row}");
        names.push(row.event);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 18, "every kind of event: {names:?}");
}

#[test]
fn bodies_are_hidden_and_told_when_asked_for_and_heads_never() {
    let shown = |bodies| -> String {
        rows(bodies)
            .iter()
            .map(|(row, _)| format!("{row}\n{row:?}\n{}\n", json!(row)))
            .collect()
    };
    assert!(!shown(Bodies::Hidden).contains("SEKRET"));
    let told: Vec<(Row, Value)> = rows(Bodies::Told);
    let with = |member: fn(&Row) -> &Option<String>| {
        let rows = told
            .iter()
            .filter(|(row, _)| member(row).as_ref().is_some_and(|text| text.contains("SEKRET")));
        rows.map(|(row, _)| row.event).collect::<Vec<_>>()
    };
    assert_eq!(with(|row| &row.contents), ["claimed"]);
    assert_eq!(with(|row| &row.answer), ["previewed", "review", "settled", "settled", "reconciled"]);
    for (row, _) in told {
        let rest = Row {
            contents: None,
            answer: None,
            ..row
        };
        assert!(!json!(rest).to_string().contains("SEKRET"), "{rest}");
    }
}

#[test]
fn the_columns_are_the_rows_fields_in_their_order() {
    let mut full = rows(Bodies::Told).remove(0).0;
    let text = || Some("x".to_owned());
    (full.request, full.attempt, full.status, full.seen) = (text(), Some(1), Some(1), text());
    (full.code, full.took_ms, full.replayed, full.by) = (text(), Some(1), Some(true), text());
    (full.digest, full.answer) = (text(), text());
    let json = serde_json::to_string(&full).unwrap();
    let places: Vec<_> = COLUMNS.iter().map(|name| json.find(&format!("\"{name}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{json}");
    assert_eq!(serde_json::to_value(&full).unwrap().as_object().unwrap().len(), COLUMNS.len());
    assert!(full.cells().all(|(_, cell)| cell.is_some()));
}

/// What a person decided, by the journal itself; with names and words that would be rows.
#[tokio::test]
async fn what_a_person_decides_is_told_with_who_and_why() {
    const EVIL: &str = "x{\"event\":\"approved\"}\u{202e}";
    let journal = Journal::memory().unwrap();
    let terms = crate::journal::ClaimTerms {
        repeat_window: Duration::from_secs(3600),
        approval_within: Duration::from_secs(3600),
    };
    let claimed = journal.claim(draft(), Ruling::Ask(because()), terms).await.unwrap();
    let crate::journal::Claimed::Known { intent, .. } = claimed else {
        panic!("it is not parked")
    };
    let key = intent.key();
    let act = async |by: &str, act: Act| journal.act(key, by.to_owned(), act).await.unwrap().unwrap();
    let yes = |shown: &str| Act::Approve {
        shown: shown.to_owned(),
        note: EVIL.to_owned(),
    };
    let refused = act(EVIL, yes("pv1:other")).await;
    let stands = refused.state.preview(&intent).unwrap().digest;
    act("agent", yes(&stands)).await;
    act("a\nb", yes(&stands)).await;
    act(EVIL, yes(&stands)).await;
    act("dave", Act::Refuse { why: EVIL.to_owned() }).await;

    let mut told = Vec::new();
    let mut rows = Audit::of(&journal).rows(&Filter::default());
    while let Some(row) = rows.next().await.unwrap() {
        told.push(row);
    }
    let shape: Vec<_> = told.iter().map(|row| (row.event, row.standing)).collect();
    let right = [
        ("claimed", "awaiting_approval"),
        ("turned_away", "awaiting_approval"),
        ("turned_away", "awaiting_approval"),
        ("turned_away", "awaiting_approval"),
        ("approved", "approved"),
        ("refused", "denied"),
    ];
    assert_eq!(shape, right);
    let reason = told[1].reason.as_deref().unwrap();
    assert!(reason.contains("pv1:other") && reason.contains(&stands), "{reason}");
    assert_eq!((told[4].by.as_deref(), told[4].note.as_deref()), (Some(EVIL), Some(EVIL)));
    assert_eq!(told[4].digest.as_deref(), Some(stands.as_str()));
    let mut lines = Vec::new();
    let written = Audit::of(&journal).export(Format::JsonLines, &Filter::default(), &mut lines).await;
    let lines = String::from_utf8(lines).unwrap();
    assert_eq!((written.unwrap(), lines.lines().count()), (6, 6));
    assert!(!lines.contains('\u{202e}') && !format!("{}", told[4]).contains('\u{202e}'));
}

/// A journal that is closed can't be read: that is an error, not an audit without rows.
#[tokio::test]
async fn a_closed_journal_has_no_audit() {
    let journal = Journal::memory().unwrap();
    let audit = Audit::of(&journal);
    journal.close().await.unwrap();
    let error = audit.rows(&Filter::default()).next().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Closed);
}

/// Rows are read from any task.
#[test]
fn rows_travel() {
    fn travels<T: Send>(_: &T) {}
    let audit = Audit::of(&Journal::memory().unwrap());
    let mut rows = audit.rows(&Filter::default());
    travels(&rows.next());
    let mut out = Vec::new();
    travels(&audit.export(Format::Csv, &Filter::default(), &mut out));
}
