//! What a ledger promises, whichever it is.

use std::sync::Arc;
use std::time::Duration;
use uketsuke::testkit::{Ask, Claim, Claimed, Ledger, LedgerError, MemoryLedger, Reply, RowState, Terms};

type Book = Arc<dyn Ledger>;

const HOUR: i64 = 3_600_000;

fn terms(set: impl FnOnce(&mut Terms)) -> Terms {
    let mut terms = Terms::default();
    set(&mut terms);
    terms
}

fn leased() -> Terms {
    terms(|terms| terms.lease = Some(Duration::from_secs(3600)))
}

fn forgetful() -> Terms {
    terms(|terms| terms.forget_after = Some(Duration::from_secs(3600)))
}

fn ask() -> Ask {
    Ask::new("key", "contents")
}

fn done() -> Reply {
    Reply::status(201).body("text/plain", "done")
}

async fn won(book: &Book, ask: Ask) -> Claim {
    match book.claim(ask).await.unwrap() {
        Claimed::New(claim) => claim,
        other => panic!("not won: {other:?}"),
    }
}

async fn said(book: &Book, ask: Ask) -> Claimed {
    book.claim(ask).await.unwrap()
}

fn is_fenced<T: std::fmt::Debug>(result: Result<T, LedgerError>) -> bool {
    matches!(result, Err(LedgerError::Fenced { .. }))
}

// case 1
pub(super) async fn a_new_key_runs_once(book: Book) {
    let claim = won(&book, ask()).await;
    assert_eq!(book.read("key").await.unwrap().unwrap().state, RowState::Processing);
    book.begin(&claim).await.unwrap();
    book.complete(&claim, &done()).await.unwrap();
    assert_eq!(said(&book, ask()).await, Claimed::Known(done()));
    let row = book.read("key").await.unwrap().unwrap();
    assert_eq!(
        (row.state, row.fence, row.contents.as_deref()),
        (RowState::Succeeded, 1, Some("contents"))
    );
}

// case 3
pub(super) async fn a_live_lease_is_in_flight_and_leaves_its_row_alone(book: Book) {
    let _claim = won(&book, ask().on(leased())).await;
    let before = book.read("key").await.unwrap();
    book.turn_clock(HOUR - 60_000);
    assert_eq!(said(&book, ask().on(leased())).await, Claimed::InFlight);
    assert_eq!(book.read("key").await.unwrap(), before);
}

// case 6
pub(super) async fn of_two_claims_on_an_expired_lease_one_takes_over(book: Book) {
    let _left = won(&book, ask().on(leased())).await;
    book.turn_clock(HOUR);
    let claims = (0..8).map(|_| {
        let book = Arc::clone(&book);
        tokio::spawn(async move { said(&book, ask().on(leased())).await })
    });
    let mut new = 0;
    for claim in claims.collect::<Vec<_>>() {
        match claim.await.unwrap() {
            Claimed::New(claim) => {
                assert_eq!(claim.fence(), 2);
                new += 1;
            }
            other => assert_eq!(other, Claimed::InFlight),
        }
    }
    assert_eq!(new, 1);
}

// case 7
pub(super) async fn processing_without_a_lease_stays_locked(book: Book) {
    let claim = won(&book, ask()).await;
    book.turn_clock(10_000 * 24 * HOUR);
    assert_eq!(said(&book, ask().on(leased())).await, Claimed::InFlight);
    book.complete(&claim, &done()).await.unwrap();
}

// case 8
pub(super) async fn who_was_taken_over_is_fenced_out(book: Book) {
    let late = won(&book, ask().on(leased())).await;
    book.turn_clock(HOUR);
    let owner = won(&book, ask().on(leased())).await;
    assert!(owner.fence() > late.fence());
    assert!(is_fenced(book.begin(&late).await));
    assert!(is_fenced(book.complete(&late, &Reply::status(202)).await));
    assert!(is_fenced(book.release(&late).await));
    book.complete(&owner, &done()).await.unwrap();
    assert!(is_fenced(book.complete(&late, &Reply::status(202)).await));
    assert!(is_fenced(book.complete(&owner, &Reply::status(202)).await), "an answer stands");
    assert_eq!(said(&book, ask()).await, Claimed::Known(done()));
}

// case 9
pub(super) async fn a_crash_before_the_effect_runs_once_after_the_lease(book: Book) {
    drop(won(&book, ask().on(leased())).await);
    assert_eq!(said(&book, ask().on(leased())).await, Claimed::InFlight);
    book.turn_clock(HOUR);
    let claim = won(&book, ask().on(leased())).await;
    book.complete(&claim, &done()).await.unwrap();
    assert_eq!(said(&book, ask().on(leased())).await, Claimed::Known(done()));
}

// case 10
pub(super) async fn a_crash_in_the_effect_is_uncertain_and_never_runs_again(book: Book) {
    let claim = won(&book, ask().on(leased())).await;
    book.begin(&claim).await.unwrap();
    assert_eq!(said(&book, ask().on(leased())).await, Claimed::InFlight);
    for _ in 0..3 {
        book.turn_clock(100 * HOUR);
        assert_eq!(said(&book, ask().on(leased())).await, Claimed::Uncertain);
    }
    // Whoever did it may be heard of after all.
    book.complete(&claim, &done()).await.unwrap();
    assert_eq!(said(&book, ask()).await, Claimed::Known(done()));
}

// case 11: a lease of no time ends in the moment it begins, and in that moment it is over.
pub(super) async fn at_its_very_end_a_lease_is_over(book: Book) {
    let moment = terms(|terms| terms.lease = Some(Duration::ZERO));
    for fence in 1..20 {
        assert_eq!(won(&book, ask().on(moment)).await.fence(), fence);
    }
}

// case 12
pub(super) async fn a_release_frees_the_key_at_once(book: Book) {
    let claim = won(&book, ask()).await;
    book.release(&claim).await.unwrap();
    assert_eq!(book.read("key").await.unwrap(), None);
    assert_eq!(book.rows().await.unwrap(), []);
    // Nothing was done under it, so other contents are no conflict.
    let next = won(&book, Ask::new("key", "other")).await;
    assert!(is_fenced(book.complete(&claim, &done()).await));
    book.complete(&next, &done()).await.unwrap();
}

// case 13
pub(super) async fn a_replay_is_the_same_bytes(book: Book) {
    let all: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    for (n, body) in [Vec::new(), b"null".to_vec(), vec![0xff, 0xfe, 0, b'\r', b'\n'], all]
        .into_iter()
        .enumerate()
    {
        let ask = Ask::new(format!("key-{n}"), "contents");
        let claim = won(&book, ask.clone()).await;
        let answer = Reply::status(201).body("application/octet-stream", body.clone());
        book.complete(&claim, &answer).await.unwrap();
        assert_eq!(said(&book, ask).await, Claimed::Known(answer), "{n}");
        assert_eq!(book.read(&format!("key-{n}")).await.unwrap().unwrap().body, Some(body));
    }
    let claim = won(&book, ask()).await;
    book.complete(&claim, &Reply::status(204)).await.unwrap();
    assert_eq!(said(&book, ask()).await, Claimed::Known(Reply::status(204)));
}

// case 14
pub(super) async fn only_location_etag_and_content_type_are_kept(book: Book) {
    let claim = won(&book, ask()).await;
    let kept = done().header("Location", "/orders/1").header("ETag", "\"ä\\1\"");
    let given = kept
        .clone()
        .header("Set-Cookie", "a=b")
        .header("Date", "now")
        .header("X-Request-Id", "1");
    book.complete(&claim, &given).await.unwrap();
    assert_eq!(said(&book, ask()).await, Claimed::Known(kept));
}

// case 25
pub(super) async fn a_body_that_is_too_large_is_gone_and_never_runs_again(book: Book) {
    let small = terms(|terms| terms.body_max = Some(4));
    for (key, body, kept) in [("fits", "four", true), ("does not", "fives", false)] {
        let ask = Ask::new(key, "contents").on(small);
        let claim = won(&book, ask.clone()).await;
        let answer = Reply::status(201).body("text/plain", body);
        book.complete(&claim, &answer).await.unwrap();
        let wanted = if kept { Claimed::Known(answer) } else { Claimed::ResultGone };
        assert_eq!(said(&book, ask.clone()).await, wanted);
        assert_eq!(said(&book, ask).await, wanted);
    }
}

// case 28
pub(super) async fn other_contents_conflict_and_leave_the_row_alone(book: Book) {
    let claim = won(&book, ask()).await;
    book.complete(&claim, &done()).await.unwrap();
    let before = book.read("key").await.unwrap();
    assert_eq!(said(&book, Ask::new("key", "other")).await, Claimed::Conflict);
    assert_eq!(book.read("key").await.unwrap(), before);
    assert_eq!(said(&book, ask()).await, Claimed::Known(done()));
    let states: Vec<_> = book.rows().await.unwrap().into_iter().map(|row| row.state).collect();
    assert_eq!(states, [RowState::Succeeded, RowState::Rejected]);
}

// case 29
pub(super) async fn other_contents_conflict_while_processing(book: Book) {
    let claim = won(&book, ask().on(leased())).await;
    assert_eq!(said(&book, Ask::new("key", "other")).await, Claimed::Conflict);
    book.turn_clock(2 * HOUR);
    assert_eq!(
        said(&book, Ask::new("key", "other")).await,
        Claimed::Conflict,
        "no take-over by other contents"
    );
    book.complete(&claim, &done()).await.unwrap();
}

// case 43
pub(super) async fn keys_differ_by_case(book: Book) {
    for key in ["abc", "ABC", "Abc", "ab*c", "ab?", "[a]bc", "a b:c", "é"] {
        assert_eq!(won(&book, Ask::new(key, key)).await.key(), key);
    }
    assert_eq!(book.rows().await.unwrap().len(), 8);
    assert_eq!(book.read("aBC").await.unwrap(), None);
}

// case 45
pub(super) async fn a_finished_key_is_forgotten_by_the_ledgers_clock(book: Book) {
    for status in [201, 422] {
        let key = format!("key-{status}");
        let ask = Ask::new(&key, "contents").on(forgetful());
        let claim = won(&book, ask.clone()).await;
        // From the claim, not from its end.
        book.turn_clock(HOUR - 60_000);
        book.complete(&claim, &Reply::status(status)).await.unwrap();
        assert_eq!(said(&book, ask.clone()).await, Claimed::Known(Reply::status(status)));
        book.turn_clock(60_000);
        assert_eq!(book.read(&key).await.unwrap(), None);
        drop(won(&book, Ask::new(&key, "other")).await);
    }
}

// case 46
pub(super) async fn what_a_read_still_saw_may_be_forgotten_by_the_claim(book: Book) {
    let claim = won(&book, ask().on(forgetful())).await;
    book.complete(&claim, &done()).await.unwrap();
    assert!(book.read("key").await.unwrap().is_some());
    book.turn_clock(HOUR);
    let again = won(&book, ask().on(forgetful())).await;
    assert_eq!(again.fence(), 2);
    assert!(is_fenced(book.complete(&claim, &done()).await));
}

// case 47
pub(super) async fn processing_never_ages(book: Book) {
    let all = terms(|terms| {
        terms.forget_after = Some(Duration::from_secs(1));
        terms.result_for = Some(Duration::from_secs(1));
    });
    let _claim = won(&book, ask().on(all)).await;
    let begun = Ask::new("begun", "contents").on(terms(|terms| {
        terms.forget_after = Some(Duration::from_secs(1));
        terms.lease = Some(Duration::from_secs(1));
    }));
    book.begin(&won(&book, begun.clone()).await).await.unwrap();
    for millis in [24 * HOUR, 10_000 * 24 * HOUR, i64::MAX / 4] {
        book.turn_clock(millis);
        assert_eq!(said(&book, ask().on(all)).await, Claimed::InFlight);
        assert_eq!(said(&book, begun.clone()).await, Claimed::Uncertain);
        assert_eq!(book.rows().await.unwrap().len(), 2);
    }
}

// case 48
pub(super) async fn the_result_is_gone_before_the_key(book: Book) {
    let terms = terms(|terms| {
        terms.result_for = Some(Duration::from_secs(3600));
        terms.forget_after = Some(Duration::from_secs(7200));
    });
    let claim = won(&book, ask().on(terms)).await;
    book.complete(&claim, &done()).await.unwrap();
    book.turn_clock(HOUR);
    assert_eq!(said(&book, ask()).await, Claimed::ResultGone);
    let row = book.read("key").await.unwrap().unwrap();
    assert_eq!((row.status, row.body, row.headers.len()), (Some(201), None, 1));
    assert_eq!(said(&book, Ask::new("key", "other")).await, Claimed::Conflict);
    book.turn_clock(-HOUR);
    assert_eq!(said(&book, ask()).await, Claimed::ResultGone, "gone stays gone");
    book.turn_clock(2 * HOUR);
    drop(won(&book, ask()).await);
}

// case 50
pub(super) async fn a_clock_that_jumps_back_runs_nothing_twice(book: Book) {
    let finished = won(&book, Ask::new("finished", "contents").on(forgetful())).await;
    book.complete(&finished, &done()).await.unwrap();
    let late = won(&book, ask().on(leased())).await;
    book.turn_clock(-1000 * HOUR);
    assert_eq!(said(&book, Ask::new("finished", "contents")).await, Claimed::Known(done()));
    assert_eq!(said(&book, ask().on(leased())).await, Claimed::InFlight);
    // There and back again: what was taken over meanwhile stays so.
    book.turn_clock(1001 * HOUR - 60_000);
    assert_eq!(said(&book, ask().on(leased())).await, Claimed::InFlight);
    book.turn_clock(HOUR);
    let owner = won(&book, ask().on(leased())).await;
    book.turn_clock(-2 * HOUR);
    assert_eq!(said(&book, ask().on(leased())).await, Claimed::InFlight);
    assert!(is_fenced(book.complete(&late, &done()).await));
    book.complete(&owner, &done()).await.unwrap();
}

// case 50, the other way about
pub(super) async fn what_was_forgotten_stays_so_when_the_clock_goes_back(book: Book) {
    for key in ["read", "listed"] {
        let claim = won(&book, Ask::new(key, "contents").on(forgetful())).await;
        book.complete(&claim, &done()).await.unwrap();
    }
    book.turn_clock(HOUR);
    assert_eq!(book.read("read").await.unwrap(), None);
    assert_eq!(book.rows().await.unwrap(), []);
    book.turn_clock(-HOUR);
    for key in ["read", "listed"] {
        assert_eq!(won(&book, Ask::new(key, "contents").on(forgetful())).await.fence(), 2);
    }
}

// case 56
pub(super) async fn an_operator_overrules_what_is_uncertain(book: Book) {
    let abandoned = Reply::problem(410, "operation_abandoned", "an operator looked");
    assert!(!book.overrule("key", &abandoned).await.unwrap(), "nothing there");
    let claim = won(&book, ask().on(leased())).await;
    book.begin(&claim).await.unwrap();
    book.turn_clock(HOUR);
    assert!(book.overrule("key", &abandoned).await.unwrap());
    assert!(is_fenced(book.complete(&claim, &done()).await));
    assert_eq!(said(&book, ask()).await, Claimed::Known(abandoned.clone()));
    assert!(!book.overrule("key", &done()).await.unwrap(), "finished is finished");
    assert_eq!(said(&book, ask()).await, Claimed::Known(abandoned));
    assert_eq!(book.read("key").await.unwrap().unwrap().state, RowState::Failed);
}

// case 57
pub(super) async fn a_tombstone_answers_the_late_request(book: Book) {
    let cancelled = Reply::problem(409, "operation_cancelled", "cancelled before it came");
    assert_eq!(book.tombstone("key", &cancelled, forgetful()).await.unwrap(), None);
    for contents in ["contents", "other"] {
        assert_eq!(said(&book, Ask::new("key", contents)).await, Claimed::Known(cancelled.clone()));
    }
    let row = book.tombstone("key", &done(), forgetful()).await.unwrap().unwrap();
    assert_eq!((row.fence, row.contents, row.status), (0, None, Some(409)), "the first one stands");
    // What has a row already keeps it.
    let claim = won(&book, Ask::new("taken", "contents")).await;
    let row = book.tombstone("taken", &cancelled, forgetful()).await.unwrap().unwrap();
    assert_eq!(row.state, RowState::Processing);
    book.complete(&claim, &done()).await.unwrap();
    book.turn_clock(HOUR);
    drop(won(&book, ask()).await);
}

pub(super) async fn a_fence_grows_over_release_and_forgetting(book: Book) {
    let mut last = 0;
    for round in 0..6 {
        let claim = won(&book, ask().on(forgetful())).await;
        assert!(claim.fence() > last, "{round}: {} after {last}", claim.fence());
        last = claim.fence();
        if round % 2 == 0 {
            book.release(&claim).await.unwrap();
        } else {
            book.complete(&claim, &done()).await.unwrap();
            book.turn_clock(HOUR);
        }
    }
}

pub(super) async fn a_claim_of_another_ledger_is_nobodys(book: Book) {
    let other: Book = Arc::new(MemoryLedger::new());
    let (ours, theirs) = (won(&book, ask()).await, won(&other, ask()).await);
    assert_eq!(ours.fence(), theirs.fence());
    assert!(is_fenced(book.complete(&theirs, &done()).await));
    assert!(is_fenced(book.release(&theirs).await));
    book.complete(&ours, &done()).await.unwrap();
}

pub(super) async fn rows_come_oldest_first(book: Book) {
    let keys: Vec<String> = (0..40).map(|n| format!("key-{}", (n * 7) % 40)).collect();
    for key in &keys {
        drop(won(&book, Ask::new(key, "contents")).await);
        assert_eq!(said(&book, Ask::new(key, "other")).await, Claimed::Conflict);
    }
    let rows = book.rows().await.unwrap();
    let found: Vec<_> = rows.iter().map(|row| (row.key.clone(), row.state)).collect();
    let pair = |key: &String| [(key.clone(), RowState::Processing), (key.clone(), RowState::Rejected)];
    assert_eq!(found, keys.iter().flat_map(pair).collect::<Vec<_>>());
}

pub(super) async fn rejected_rows_are_bounded(book: Book) {
    let _claim = won(&book, ask()).await;
    for n in 0..1010 {
        assert_eq!(said(&book, Ask::new("key", format!("other-{n}"))).await, Claimed::Conflict);
    }
    let rows = book.rows().await.unwrap();
    assert_eq!(rows.len(), 1001);
    assert_eq!(rows[0].state, RowState::Processing);
    assert_eq!(rows[1].contents.as_deref(), Some("other-10"), "the oldest go");
}
