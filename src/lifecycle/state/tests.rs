//! What must hold of the fold, whatever comes in whatever order.

use super::*;
use crate::lifecycle::{TurnedAway, Verb, Void, Voids};
use crate::{
    actor::Actor,
    answer::NeverLeft,
    ids::{RequestId, TraceId},
    intent::{Draft, KeyPlace, Lineage, Terms},
    order::PlaceOrder,
    origin::Origin,
};
use proptest::prelude::*;

/// A moment like any other.
fn now() -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000)
}

fn draft() -> Draft {
    let terms = Terms {
        api: "api".to_owned(),
        dialect: "ietf".to_owned(),
        key_place: KeyPlace::RawHeader("Idempotency-Key".to_owned()),
        retention: Duration::from_secs(24 * 60 * 60),
        scope: None,
    };
    let order = PlaceOrder::new("C-100").item("SKU-1", 1);
    Draft::of(&order, Origin::mail("1"), Actor::agent("a"), TraceId::mint().unwrap(), terms).unwrap()
}

fn because() -> Because {
    Because::rule("1", "test", "the test says so")
}

fn owner(n: u128) -> OwnerId {
    uuid::Uuid::from_u128(n).to_string().parse().unwrap()
}

fn answer(status: u16) -> Answer {
    Answer::new(Head::new(StatusCode::from_u16(status).unwrap(), HeaderMap::new()), Bytes::new())
}

fn claimed(ruling: Ruling) -> Event {
    Event::Claimed(Box::new(Claimed {
        lineage: Lineage::FIRST,
        sending_follows: matches!(ruling, Ruling::Allow(_)),
        parked_until: matches!(ruling, Ruling::Ask(_)).then(|| now().plus(Duration::from_secs(3600))),
        ruling,
        owner: owner(1),
        boot: None,
        order: draft(),
    }))
}

fn claims() -> [Event; 3] {
    [Ruling::Allow, Ruling::Ask, Ruling::Deny].map(|ruling: fn(Because) -> Ruling| claimed(ruling(because())))
}

fn observed(attempt: u32, seen: Sighting) -> Event {
    Event::Observed { attempt, seen, took_ms: 1 }
}

fn answered(status: u16, replayed: bool) -> Sighting {
    Sighting::Answered {
        status,
        replayed,
        code: None,
        says: None,
    }
}

fn looked_up(found: Found) -> Event {
    Event::LookedUp {
        request: RequestId::mint().unwrap(),
        found,
        took_ms: 1,
    }
}

fn sent(attempt: u32) -> Event {
    Event::Sent {
        attempt,
        request: RequestId::mint().unwrap(),
    }
}

const NOTHING: Sighting = Sighting::NoAnswer(NoAnswer::TimedOut);
const UNLEFT: Sighting = Sighting::NeverLeft(NeverLeft::Connect);

fn succeeded() -> Event {
    Event::Settled(Settled::Succeeded {
        answer: answer(201),
        replayed: false,
    })
}

fn rejected() -> Event {
    Event::Settled(Settled::Rejected { answer: Some(answer(422)) })
}

fn by_whom() -> (String, String) {
    ("carol".to_owned(), "she looked".to_owned())
}

fn abandoned() -> Event {
    let (by, why) = by_whom();
    Event::Abandoned { by, why }
}

fn reconciled(applied: bool) -> Event {
    let (by, evidence) = by_whom();
    Event::Reconciled {
        by,
        evidence,
        applied,
        receipt: applied.then(|| serde_json::json!({"order_id": "ord-1"})),
    }
}

fn previewed(digest: &str, void: Option<Void>) -> Event {
    Event::Previewed {
        request: None,
        current: Some(answer(200)),
        because: because(),
        digest: digest.to_owned(),
        voids: void.map(|why| Voids {
            why,
            until: now().plus(Duration::from_secs(90)),
        }),
    }
}

/// Everything that can be written of an order, in each kind that the fold tells apart.
fn everything() -> Vec<Event> {
    let (by, why) = by_whom();
    let (trace, actor) = (TraceId::mint().unwrap(), Actor::agent("b"));
    let mut all = vec![
        Event::Joined {
            actor,
            trace,
            tool_call: None,
        },
        Event::Approved {
            by: by.clone(),
            note: why.clone(),
            shown: "sha".to_owned(),
            until: now().plus(Duration::from_secs(60)),
        },
        previewed("sha", None),
        previewed("other", None),
        previewed("void", Some(Void::BaseChanged)),
        Event::TurnedAway {
            by: by.clone(),
            verb: Verb::Approve,
            why: TurnedAway::OwnOrder {},
        },
        Event::Refused {
            by: by.clone(),
            why: why.clone(),
        },
        Event::Cleared {
            because: because(),
            request: None,
            boot: None,
        },
        sent(1),
        sent(2),
        observed(1, UNLEFT),
        observed(1, NOTHING),
        observed(1, answered(201, false)),
        observed(1, answered(401, false)),
        observed(1, answered(429, true)),
        observed(2, answered(422, false)),
        observed(2, UNLEFT),
        looked_up(Found::Same),
        looked_up(Found::Absent),
        looked_up(Found::InProgress),
        Event::Rested {
            why: Rest::AttemptsSpent { retry_at: None },
            attempts: 0,
        },
        Event::Rested {
            why: Rest::BudgetSpent { retry_at: Some(now()) },
            attempts: 1,
        },
        Event::Rested {
            why: Rest::Interrupted {},
            attempts: 3,
        },
        succeeded(),
        rejected(),
        Event::Settled(Settled::Denied { because: because() }),
        Event::Review {
            reason: ReviewReason::Mismatch,
            answer: None,
        },
        reconciled(true),
        reconciled(false),
        abandoned(),
        Event::Withdrawn {
            by: by.clone(),
            why: why.clone(),
        },
        Event::Freed { by, why },
        Event::TakenOver { owner: owner(1) },
        Event::TakenOver { owner: owner(2) },
    ];
    all.extend(claims());
    all
}

fn fold<'e>(events: impl IntoIterator<Item = &'e Event>) -> State {
    events.into_iter().fold(State::new(), |state, event| state.after(event, now()))
}

/// What must hold of one more event, whatever came before.
fn check(before: &State, event: &Event, story: &dyn Fn() -> String) -> State {
    let after = before.clone().after(event, now());
    for at in [
        now(),
        now().plus(Duration::from_secs(365 * 24 * 60 * 60)),
        now().minus(Duration::from_secs(3600)),
    ] {
        let _ = (after.at(at), after.is_definite_no(at), after.retention_passed(at));
    }
    assert!(after.doubts >= before.doubts, "a doubt was forgotten: {}", story());
    assert!(
        before.first_doubt.is_none() || after.first_doubt == before.first_doubt,
        "{}",
        story()
    );
    assert!(!before.sending_permitted() || after.sending_permitted(), "R2: {}", story());
    assert!(after.attempts >= before.attempts, "{}", story());
    assert!(!before.freed || after.freed, "{}", story());
    if before.effect() == Effect::Possible && after.effect() == Effect::None {
        // The server's definite no (the verdict guards it, R1), a person's word, or a flight that says itself that nothing of it landed.
        let allowed = match event {
            Event::Settled(Settled::Rejected { .. }) => true,
            Event::Reconciled { applied, .. } => !applied,
            Event::Rested { attempts, .. } => *attempts <= before.attempts && !before.has_doubts(),
            // A flight that rests, and the word that its one open attempt never left.
            Event::Observed { attempt, seen, .. } => {
                let open = before.unanswered.iter().all(|open| open == attempt);
                seen.proves_no_execution() && open && before.doubts == 0 && before.rest.is_some()
            }
            _ => false,
        };
        assert!(allowed, "an effect was forgotten: {}", story());
    }
    if before.effect() == Effect::Certain || matches!(event, Event::Settled(Settled::Succeeded { .. })) {
        let late = matches!(
            after.stage,
            Stage::NeedsReview(ReviewReason::LateOutcome | ReviewReason::Contradicted)
        );
        assert!(
            after.effect() == Effect::Certain || after.effect() == Effect::Possible && late,
            "a success was forgotten: {}",
            story()
        );
    }
    if matches!(event, Event::Withdrawn { .. } | Event::Refused { .. }) && before.may_have_landed() {
        let denied = matches!(after.stage, Stage::Settled(Settled::Denied { .. }));
        let was = matches!(before.stage, Stage::Settled(Settled::Denied { .. }));
        assert!(!denied || was, "taken back although it may have landed: {}", story());
    }
    if let (true, Event::Settled(new)) = (before.closed_by_person, event) {
        let late = matches!(after.stage, Stage::NeedsReview(ReviewReason::LateOutcome));
        assert!(late, "an outcome vanished behind a person's word ({new:?}): {}", story());
    }
    if let (Stage::Settled(Settled::Rejected { .. } | Settled::Denied { .. }), Event::Settled(Settled::Succeeded { .. })) =
        (&before.stage, event)
    {
        assert!(
            matches!(after.stage, Stage::NeedsReview(_)),
            "a success vanished behind a no: {}",
            story()
        );
        assert_ne!(after.effect(), Effect::None, "{}", story());
    }
    if let (Stage::Settled(Settled::Rejected { .. } | Settled::Denied { .. }), Event::Sent { .. } | Event::Cleared { .. }) =
        (&before.stage, event)
    {
        assert!(
            !after.is_definite_no(now()),
            "a no stands although bytes leave after it: {}",
            story()
        );
    }
    if let Stage::Approved { .. } = after.stage {
        let new = matches!((&before.stage, event), (Stage::AwaitingApproval { .. }, Event::Approved { .. }));
        assert!(
            new || matches!(before.stage, Stage::Approved { .. }),
            "a yes came out of nothing: {}",
            story()
        );
        assert!(!after.sending_permitted(), "a yes stands although bytes left: {}", story());
        let given = after.approval.as_ref().map(|approval| &approval.shown);
        let stands = after.preview.as_ref().map(|preview| &preview.digest);
        assert!(
            given.is_some() && stands.is_none_or(|stands| given == Some(stands)),
            "a yes to something else: {}",
            story()
        );
    }
    if matches!(event, Event::TurnedAway { .. }) {
        assert_eq!(format!("{before:?}"), format!("{after:?}"), "{}", story());
    }
    let cleared = |event: &Event| match event {
        Event::Cleared { .. } | Event::Sent { .. } | Event::Observed { .. } => true,
        Event::Claimed(claimed) => claimed.sending_follows,
        _ => false,
    };
    assert!(
        before.sending_permitted() || !after.sending_permitted() || cleared(event),
        "leave to send came out of nothing: {}",
        story()
    );
    after
}

/// R4: the fold is total. Every pair of events behind every stage that can be reached, and then some.
#[test]
fn every_event_has_a_meaning_in_every_state() {
    let all = everything();
    let name = |events: &[&Event]| events.iter().map(|event| format!("{event:?}")).collect::<Vec<_>>().join("\n  ");
    let mut walked = 0;
    for first in &claims() {
        let start = State::new().after(first, now());
        for one in &all {
            let after_one = check(&start, one, &|| name(&[first, one]));
            for two in &all {
                let after_two = check(&after_one, two, &|| name(&[first, one, two]));
                for three in &all {
                    check(&after_two, three, &|| name(&[first, one, two, three]));
                    walked += 1;
                }
            }
        }
    }
    assert!(walked > 50_000);
    // A story whose claim was lost is never sent; folding it says no more, and does not panic.
    for one in &all {
        for two in &all {
            let state = fold([one, two]);
            let _ = (state.at(now()), state.effect());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// R15: whatever is written in whatever order, doubts only grow.
    #[test]
    fn doubts_only_grow(steps in prop::collection::vec(any::<prop::sample::Index>(), 1..40), claim in 0..3_usize) {
        let all = everything();
        let mut events = vec![claims()[claim].clone()];
        let mut state = fold(&events);
        for step in steps {
            events.push(step.get(&all).clone());
            let story = || format!("{events:?}");
            state = check(&state, events.last().unwrap(), &story);
        }
    }

    /// R15: what a power cut can take is what was not synced. A flight's records, with any of those lost, never tell of less doubt than
    /// the whole: neither to whoever reads, nor to whoever takes the order over.
    #[test]
    fn lost_records_only_add_doubt(
        flights in prop::collection::vec(prop::collection::vec((0..4_usize, any::<bool>()), 0..4), 1..4),
        lost in prop::collection::vec(any::<bool>(), 64),
    ) {
        let mut events = vec![claimed(Ruling::Allow(because()))];
        let mut attempt = 0;
        for (n, flight) in flights.iter().enumerate() {
            if n > 0 {
                events.push(Event::TakenOver { owner: owner(1) });
            }
            for (seen, written) in flight {
                attempt += 1;
                events.push(sent(attempt));
                if *written {
                    let seen = [UNLEFT, NOTHING, answered(503, false), answered(429, false)][*seen].clone();
                    events.push(observed(attempt, seen));
                }
            }
            let rested = fold(&events).resting(Rest::AttemptsSpent { retry_at: None });
            events.push(rested);
        }
        let kept = events.iter().zip(&lost).filter(|(event, lost)| event.must_be_durable() || !**lost).map(|(event, _)| event);
        let (whole, rest) = (fold(&events), fold(kept));
        let story = format!("{events:?}\nlost: {lost:?}");
        prop_assert!(whole.effect() != Effect::Possible || rest.effect() == Effect::Possible, "{story}");
        prop_assert!(whole.may_be_withdrawn() || !rest.may_be_withdrawn(), "{story}");
        let over = |state: State| state.after(&Event::TakenOver { owner: owner(9) }, now());
        prop_assert!(over(rest).others_may_land(attempt + 1), "{story}");
    }
}

/// R4: a person closed it, and then the server's word came in.
#[test]
fn an_outcome_after_a_persons_word_is_looked_at() {
    let allow = &claims()[0];
    for close in [abandoned(), reconciled(true), reconciled(false)] {
        for outcome in [succeeded(), rejected()] {
            let state = fold([allow, &sent(1), &close, &outcome]);
            let stage = state.at(now());
            assert!(matches!(stage, Stage::NeedsReview(ReviewReason::LateOutcome)), "{stage:?}");
            assert!(!state.is_definite_no(now()));
            assert_eq!(state.effect(), Effect::Possible);
        }
    }
}

/// R2: an approval is used up by `cleared`; from there on neither a refusal nor the approval's end says that nothing was sent.
#[test]
fn what_was_cleared_is_not_refused_and_does_not_expire() {
    let ask = &claims()[1];
    let all = everything();
    let find = |name: &str| all.iter().find(|event| event.name() == name).unwrap();
    let (approved, cleared, refused) = (find("approved"), find("cleared"), find("refused"));
    let later = now().plus(Duration::from_secs(2 * 3600));

    let parked = fold([ask]);
    assert!(parked.may_be_withdrawn() && !parked.sending_permitted());
    assert!(parked.is_definite_no(later), "silence is no");
    assert!(fold([ask, approved]).is_definite_no(later), "an approval ends");
    assert!(fold([ask, approved, refused]).is_definite_no(now()));
    let cleared = [ask, approved, cleared];
    for story in [fold(cleared), fold(cleared.into_iter().chain([refused]))] {
        assert!(story.is_open() && !story.is_definite_no(later));
        assert!(!story.may_be_withdrawn());
        assert_eq!(story.effect(), Effect::Possible);
    }
    // The leave to send was lost, the sending was not: it was sent.
    for proof in [&sent(1), &observed(1, NOTHING), &observed(1, UNLEFT)] {
        let story = fold([ask, proof, refused]);
        assert!(!matches!(story.stage, Stage::Settled(_)), "{proof:?}");
    }
}

/// A yes is good for what was shown: a later preview ends it, and one that says so gives a person time again.
#[test]
fn a_yes_ends_with_the_preview_it_was_given_to() {
    let ask = &claims()[1];
    let approved = |shown: &str| Event::Approved {
        by: "carol".to_owned(),
        note: String::new(),
        shown: shown.to_owned(),
        until: now().plus(Duration::from_secs(60)),
    };
    let is_approved = |events: &[&Event]| matches!(fold(events.iter().copied()).stage, Stage::Approved { .. });
    let (one, two) = (previewed("one", None), previewed("two", None));
    assert!(is_approved(&[ask, &one, &approved("one")]));
    assert!(is_approved(&[ask, &one, &approved("one"), &one]));
    assert!(!is_approved(&[ask, &one, &approved("two")]));
    assert!(!is_approved(&[ask, &one, &approved("one"), &two]));
    let void = previewed("one", Some(Void::PolicyChanged));
    let state = fold([ask, &one, &approved("one"), &void]);
    assert!(matches!(state.stage, Stage::AwaitingApproval { until } if until == now().plus(Duration::from_secs(90))));
    assert!(state.approval().is_none() && state.owner.is_none());
}

/// R1: what comes before any execution proves that none was; a replayed answer tells of another attempt and proves nothing.
#[test]
fn only_an_answer_before_any_execution_proves_that_there_was_none() {
    for status in 100..600 {
        let proves = matches!(status, 401 | 403 | 425 | 429);
        assert_eq!(answered(status, false).proves_no_execution(), proves, "{status}");
        assert!(!answered(status, true).proves_no_execution(), "{status}, replayed");
    }
    assert!(UNLEFT.proves_no_execution());
    assert!(!NOTHING.proves_no_execution());
}

/// R8: the age runs from the first record that lets bytes leave, never from a take-over or a later attempt.
#[test]
fn the_age_runs_from_the_first_possible_send() {
    let hour = Duration::from_secs(3600);
    let mut state = State::new().after(&claims()[0], now());
    for n in 1..20 {
        let at = now().plus(hour * n);
        state = state.after(&Event::TakenOver { owner: owner(n.into()) }, at);
        state = state.after(&sent(n), at).after(&observed(n, NOTHING), at);
    }
    let margin = Duration::from_secs(600);
    assert!(!state.retention_passed(now().plus(hour * 24 - margin - Duration::from_millis(1))));
    assert!(state.retention_passed(now().plus(hour * 24 - margin)));
    // A small step back is no age at all; a large one is a clock in doubt.
    assert!(!state.retention_passed(now().minus(margin)));
    assert!(state.retention_passed(now().minus(margin + Duration::from_millis(1))));
}

/// R10's exception asks when a byte may last have left. A flight that is not known to have ended may have sent until it was taken over; one that
/// rested, until its last attempt; and an attempt of which only the count is left, until it was counted.
#[test]
fn the_last_possible_send_is_as_late_as_it_can_have_been() {
    let at = |hours: u32| now().plus(Duration::from_secs(3600) * hours);
    let claimed = State::new().after(&claims()[0], at(0));
    assert_eq!(claimed.last_possible_send(), Some(at(0)));
    let over = |state: &State, hours| state.clone().after(&Event::TakenOver { owner: owner(9) }, at(hours));
    assert_eq!(over(&claimed, 5).last_possible_send(), Some(at(5)));
    let lost = claimed.clone().after(&sent(1), at(1)).after(&observed(1, NOTHING), at(2));
    assert_eq!(over(&lost, 5).last_possible_send(), Some(at(5)));
    let rested = |attempts| {
        let rested = Event::Rested {
            why: Rest::Interrupted {},
            attempts,
        };
        lost.clone().after(&rested, at(3))
    };
    assert_eq!(over(&rested(1), 5).last_possible_send(), Some(at(2)));
    assert_eq!(over(&rested(2), 5).last_possible_send(), Some(at(3)));
    assert_eq!(lost.after(&sent(3), at(4)).last_possible_send(), Some(at(4)));
    // Nothing of a parked order can have left.
    assert_eq!(over(&State::new().after(&claims()[1], at(0)), 5).last_possible_send(), None);
}
