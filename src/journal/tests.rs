//! Rules that need a person's word in the book, which no agent can write: tested where it can be written. On both stores.

use super::*;
use crate::{
    actor::Actor,
    answer::{Answer, Head},
    ids::{RequestId, TraceId},
    intent::{KeyPlace, Terms},
    lifecycle::Settled,
    order::PlaceOrder,
    origin::Origin,
    ruling::{Because, Ruling},
};
use http::{HeaderMap, StatusCode};

const TERMS: ClaimTerms = ClaimTerms {
    repeat_window: Duration::from_secs(24 * 3600),
    approval_within: Duration::from_secs(24 * 3600),
};

fn draft(note: &str) -> Draft {
    let terms = Terms {
        api: "api".to_owned(),
        dialect: "ietf".to_owned(),
        key_place: KeyPlace::RawHeader("Idempotency-Key".to_owned()),
        retention: Duration::from_secs(24 * 3600),
        scope: None,
    };
    let order = PlaceOrder::new("C-100").item("SKU-1", 1).note(note);
    Draft::of(&order, Origin::mail("1"), Actor::agent("a"), TraceId::mint().unwrap(), terms).unwrap()
}

fn because() -> Because {
    Because::rule("1", "test", "the test says so")
}

fn allow() -> Ruling {
    Ruling::Allow(because())
}

async fn claim(journal: &Journal, note: &str, ruling: Ruling) -> Claimed {
    journal.claim(draft(note), ruling, TERMS).await.unwrap()
}

/// The key of a fresh claim, and its generation; the flight that would follow is given up at once.
#[track_caller]
fn new(claimed: Claimed) -> (IdempotencyKey, u32) {
    match claimed {
        Claimed::New(claim) => (claim.intent().key(), claim.intent().generation()),
        Claimed::Known { intent, state } if state.attempts() == 0 => (intent.key(), intent.generation()),
        _ => panic!("not a new order"),
    }
}

async fn write(journal: &Journal, key: IdempotencyKey, events: Vec<Event>) -> State {
    let clerk = journal.clerk();
    let asked = journal.ask(move |turn| {
        Box::pin(async move {
            let (_, state) = clerk.read(turn, key).await?;
            clerk.append(turn, key, state, &events)
        })
    });
    asked.await.unwrap().1
}

fn by() -> (String, String) {
    ("carol".to_owned(), "she looked".to_owned())
}

fn freed() -> Event {
    let (by, why) = by();
    Event::Freed { by, why }
}

fn refused() -> Event {
    let (by, why) = by();
    Event::Refused { by, why }
}

fn abandoned() -> Event {
    let (by, why) = by();
    Event::Abandoned { by, why }
}

/// A journal in memory, and one in a folder that goes away with the test.
async fn journals() -> (tempfile::TempDir, [Journal; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let file = Journal::open(folder.path().join("journal")).await.unwrap();
    (folder, [Journal::memory().unwrap(), file])
}

/// R17: after a person's no every correction is asked about, whatever policy allows; after a policy's no it is not.
#[tokio::test]
async fn after_a_persons_no_a_correction_is_asked_about() {
    let (_folder, journals) = journals().await;
    for journal in journals {
        let (key, _) = new(claim(&journal, "a", Ruling::Ask(because())).await);
        let state = write(&journal, key, vec![refused()]).await;
        assert!(state.is_definite_no(journal.now()));
        let Claimed::Known { intent, state } = claim(&journal, "b", allow()).await else {
            panic!("it is not asked about")
        };
        assert!(matches!(state.at(journal.now()), Stage::AwaitingApproval { .. }));
        assert!(!state.sending_permitted());
        assert_eq!(
            (intent.generation(), state.ruling().unwrap().because().rules[0].as_str()),
            (2, "after_a_persons_no")
        );
        // And so is a correction of the correction: what the agent took back itself does not wash the person's no away.
        write(&journal, intent.key(), vec![Event::Withdrawn { by: by().0, why: by().1 }]).await;
        let Claimed::Known { intent, state } = claim(&journal, "c", allow()).await else {
            panic!("it is no longer asked about")
        };
        assert_eq!(intent.generation(), 3);
        assert!(!state.sending_permitted());
    }
}

/// R2: from `cleared` on, neither a refusal nor a withdrawal says that nothing was sent.
#[tokio::test]
async fn never_sent_needs_proof() {
    let (_folder, journals) = journals().await;
    for journal in journals {
        let (key, _) = new(claim(&journal, "a", Ruling::Ask(because())).await);
        let cleared = Event::Cleared {
            because: because(),
            request: None,
            boot: None,
        };
        write(&journal, key, vec![cleared, refused()]).await;
        let (by, why) = by();
        let Acted { state, .. } = journal.act(key, by, Act::Withdraw { why }).await.unwrap().unwrap();
        assert_eq!(state.effect(), Effect::Possible);
        assert!(state.is_open(), "{:?}", state.stage());
        assert!(matches!(claim(&journal, "b", allow()).await, Claimed::Drift { .. }));
        assert_eq!(journal.unsettled(None, 10).await.unwrap(), [key]);
    }
}

/// R4, R19: what a person stopped, or established, keeps its origin until a second act frees it; a server's no is freed for the same contents
/// only by that act.
#[tokio::test]
async fn a_person_frees_an_origin_by_a_second_act() {
    let (_folder, journals) = journals().await;
    for journal in journals {
        let headers = HeaderMap::new();
        let rejected = Event::Settled(Settled::Rejected {
            answer: Some(Answer::new(Head::new(StatusCode::UNPROCESSABLE_ENTITY, headers), Bytes::new())),
        });
        let (by, evidence) = by();
        let reconciled = Event::Reconciled {
            by,
            evidence,
            applied: false,
            receipt: None,
        };
        for (nth, (ending, frees_a_correction)) in [(abandoned(), false), (reconciled, false), (rejected, true)]
            .into_iter()
            .enumerate()
        {
            let (key, generation) = new(claim(&journal, &format!("{nth}"), allow()).await);
            assert_eq!(generation as usize, nth + 1);
            write(&journal, key, vec![ending]).await;
            assert!(matches!(claim(&journal, &format!("{nth}"), allow()).await, Claimed::Known { intent, .. } if intent.key() == key));
            if !frees_a_correction {
                assert!(matches!(claim(&journal, "other", allow()).await, Claimed::Drift { .. }));
            }
            write(&journal, key, vec![freed()]).await;
            if frees_a_correction {
                let (again, generation) = new(claim(&journal, &format!("{nth}"), allow()).await);
                assert!(again != key && generation as usize == nth + 2, "the same contents, once freed");
            }
        }
    }
}

/// R12: a claim that stands twice, as a mended book may have it, is one order, and the first one's.
#[tokio::test]
async fn a_claim_kept_in_excess_is_harmless() {
    let (_folder, journals) = journals().await;
    for journal in journals {
        let (key, _) = new(claim(&journal, "a", allow()).await);
        let story = journal.store.story(key).await.unwrap();
        let first = story.first().unwrap().clone();
        let asked = journal.ask(move |turn| {
            Box::pin(async move {
                turn.append(first);
                Ok(())
            })
        });
        asked.await.unwrap();
        let (intent, state) = journal.order(key).await.unwrap().unwrap();
        assert_eq!((intent.generation(), state.attempts()), (1, 0));
        assert!(state.sending_permitted());
        assert_eq!(journal.unsettled(None, 10).await.unwrap(), [key]);
    }
}

/// Section 5: at most one claim of a key lives in a process, over all openings; the next one is had when it is gone.
#[tokio::test]
async fn one_claim_of_a_key_lives_at_a_time() {
    let (_folder, journals) = journals().await;
    for journal in journals {
        let other = journal.clone();
        let Claimed::New(held) = claim(&journal, "a", allow()).await else {
            panic!("not new")
        };
        let key = held.intent().key();
        assert!(matches!(claim(&other, "a", allow()).await, Claimed::InFlightHere { key: same, .. } if same == key));
        assert!(matches!(other.retake(key).await.unwrap(), Claimed::InFlightHere { .. }));
        drop(held);
        let Claimed::Ours(taken) = other.retake(key).await.unwrap() else {
            panic!("nobody has it, and it can't be had")
        };
        // It was given up by its own process, which knows that nothing was sent.
        assert_eq!(taken.state().effect_in_flight(), Effect::None);
    }
}

/// What a flight writes is decided on the order as it stands, whoever wrote of it since the flight read it: before its first word, and after one.
#[tokio::test]
async fn a_flight_sees_what_others_wrote_of_its_order() {
    for own_words in 0..3 {
        let (_folder, journals) = journals().await;
        for journal in journals {
            let Claimed::New(mut held) = claim(&journal, "a", allow()).await else {
                panic!("not new")
            };
            for attempt in 1..=own_words {
                let request = RequestId::mint().unwrap();
                let before = journal.write(&mut held, move |state, _| {
                    (vec![Event::Sent { attempt, request }], state.attempts())
                });
                assert_eq!(before.await.unwrap(), attempt - 1);
            }
            write(&journal, held.intent().key(), vec![abandoned()]).await;
            let open = journal.write(&mut held, |state, _| (Vec::new(), state.is_open()));
            assert!(!open.await.unwrap(), "a person stopped it after {own_words} words");
        }
    }
}
