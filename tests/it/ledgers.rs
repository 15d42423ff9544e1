//! The books of keys, each claim of theirs on both: in memory and in Redis. The numbers are the cases of the server's test plan.
//!
//! Nothing waits for time: the ledger's clock is turned. Where no `redis-server` is installed, the tests of Redis say so and pass.

mod claims;
#[cfg(feature = "redis")]
mod desks;
#[cfg(feature = "redis")]
mod outage;
mod race;
#[cfg(feature = "redis")]
mod server;

/// Each claim on each ledger, a test of its own.
macro_rules! on_both {
    ($($claim:ident)+) => {
        mod on_memory {
            $(#[tokio::test]
            async fn $claim() {
                super::claims::$claim(std::sync::Arc::new(uketsuke::testkit::MemoryLedger::new())).await;
            })+
        }

        #[cfg(feature = "redis")]
        mod on_redis {
            $(#[tokio::test]
            async fn $claim() {
                let Some(server) = super::server::shared() else { return };
                super::claims::$claim(std::sync::Arc::new(server.ledger(concat!(stringify!($claim), ":")).await)).await;
            })+
        }
    };
}

on_both! {
    a_new_key_runs_once
    a_live_lease_is_in_flight_and_leaves_its_row_alone
    of_two_claims_on_an_expired_lease_one_takes_over
    processing_without_a_lease_stays_locked
    who_was_taken_over_is_fenced_out
    a_crash_before_the_effect_runs_once_after_the_lease
    a_crash_in_the_effect_is_uncertain_and_never_runs_again
    at_its_very_end_a_lease_is_over
    a_release_frees_the_key_at_once
    a_replay_is_the_same_bytes
    only_location_etag_and_content_type_are_kept
    a_body_that_is_too_large_is_gone_and_never_runs_again
    other_contents_conflict_and_leave_the_row_alone
    other_contents_conflict_while_processing
    keys_differ_by_case
    a_finished_key_is_forgotten_by_the_ledgers_clock
    what_a_read_still_saw_may_be_forgotten_by_the_claim
    processing_never_ages
    the_result_is_gone_before_the_key
    a_clock_that_jumps_back_runs_nothing_twice
    what_was_forgotten_stays_so_when_the_clock_goes_back
    an_operator_overrules_what_is_uncertain
    a_tombstone_answers_the_late_request
    a_fence_grows_over_release_and_forgetting
    a_claim_of_another_ledger_is_nobodys
    rows_come_oldest_first
    rejected_rows_are_bounded
}
