//! The table: each rule, the smallest world in which it is needed, and what goes wrong there without it.

use super::{
    search::Bad,
    world::{Bounds, Budget, NOTHING, Rules, Ruling, SMALL},
};

pub(super) struct Case {
    pub(super) rule: &'static str,
    /// What it says, and what is taken out.
    pub(super) says: &'static str,
    pub(super) take_out: fn(&mut Rules),
    pub(super) bounds: Bounds,
    pub(super) goes_wrong: Bad,
}

const MOODY: &[Ruling] = &[Ruling::Allow, Ruling::Deny];

const ASKING: &[Ruling] = &[Ruling::Ask];

pub(super) const CASES: &[Case] = &[
    Case {
        rule: "R1",
        says: "a refusal is a no only if nothing else of its key can land",
        take_out: |rules| rules.refusal_weighs_other_attempts = false,
        bounds: Bounds {
            contents: 2,
            tries: 2,
            may: Budget {
                submits: 2,
                refusals: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R2",
        says: "what may have been sent is read in the claim, not in `sent`",
        take_out: |rules| rules.never_sent_needs_proof = false,
        bounds: Bounds {
            contents: 2,
            rulings: MOODY,
            may: Budget {
                submits: 2,
                resumes: 1,
                power_cuts: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R2",
        says: "the first byte waits until `cleared` is on disk",
        take_out: |rules| rules.cleared_is_synced_before_the_send = false,
        bounds: Bounds {
            rulings: ASKING,
            may: Budget {
                submits: 1,
                resumes: 1,
                power_cuts: 1,
                acts: 2,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::Lie,
    },
    Case {
        rule: "R3",
        says: "policy speaks before the claim",
        take_out: |rules| rules.judged_before_claimed = false,
        bounds: Bounds {
            rulings: MOODY,
            may: Budget {
                submits: 1,
                resumes: 1,
                crashes: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::NotAllowed,
    },
    Case {
        rule: "R4",
        says: "nobody abandons what is in flight",
        take_out: |rules| rules.abandon_takes_the_lease = false,
        bounds: Bounds {
            processes: 2,
            may: Budget {
                submits: 2,
                acts: 2,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R4",
        says: "to abandon frees nothing; a person who looked does",
        take_out: |rules| rules.abandon_frees_nothing = false,
        bounds: Bounds {
            may: Budget {
                submits: 2,
                acts: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R5",
        says: "compaction keeps each origin",
        take_out: |rules| rules.compaction_keeps_origins = false,
        bounds: Bounds {
            may: Budget {
                submits: 2,
                compactions: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R6",
        says: "the log is there at every instant",
        take_out: |rules| rules.log_is_there_at_every_instant = false,
        bounds: Bounds {
            may: Budget {
                submits: 2,
                compactions: 1,
                crashes: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R7",
        says: "a no is on disk before it is told",
        take_out: |rules| rules.no_is_synced_before_it_is_told = false,
        bounds: Bounds {
            may: Budget {
                submits: 1,
                resumes: 1,
                refusals: 1,
                power_cuts: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::Lie,
    },
    Case {
        rule: "R7",
        says: "a no is on disk before a correction is built on it",
        take_out: |rules| rules.no_is_synced_before_it_is_corrected = false,
        bounds: Bounds {
            processes: 2,
            contents: 2,
            each_its_own: true,
            torn: true,
            may: Budget {
                submits: 2,
                resumes: 2,
                refusals: 1,
                power_cuts: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R8",
        says: "a clock in doubt means that retention passed",
        take_out: |rules| rules.clock_in_doubt_means_passed = false,
        bounds: Bounds {
            may: Budget {
                submits: 1,
                resumes: 1,
                ticks: 1,
                clock_steps: 1,
                power_cuts: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R8",
        says: "the age runs from the first possible send",
        take_out: |rules| rules.age_runs_from_the_first_send = false,
        bounds: Bounds {
            retention: 2,
            may: Budget {
                submits: 1,
                resumes: 2,
                ticks: 2,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R8",
        says: "the age is looked at right before the bytes go",
        take_out: |rules| rules.age_is_checked_at_the_hand_over = false,
        bounds: Bounds {
            may: Budget {
                submits: 1,
                resumes: 1,
                ticks: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R9",
        says: "a key stays in its scope",
        take_out: |rules| rules.key_stays_in_its_scope = false,
        bounds: Bounds {
            may: Budget {
                submits: 1,
                resumes: 1,
                rotations: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R10",
        says: "\"not found\" proves nothing",
        take_out: |rules| rules.not_found_proves_nothing = false,
        bounds: Bounds {
            contents: 2,
            tries: 2,
            lookup: true,
            may: Budget {
                submits: 2,
                refusals: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R11",
        says: "the repeat guard counts an order in doubt, however old",
        take_out: |rules| rules.guard_never_forgets_a_doubt = false,
        bounds: Bounds {
            origin_unknown: true,
            may: Budget {
                submits: 2,
                ticks: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R11",
        says: "the repeat guard counts an abandoned order that may have landed, until a person frees it",
        take_out: |rules| rules.guard_counts_the_abandoned = false,
        bounds: Bounds {
            origin_unknown: true,
            may: Budget {
                submits: 2,
                acts: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R12",
        says: "a hole that a later record witnesses as synced stops the journal",
        take_out: |rules| rules.witnessed_hole_stops = false,
        bounds: Bounds {
            torn: true,
            may: Budget {
                submits: 2,
                crashes: 1,
                damages: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R12",
        says: "a hole that nothing witnesses as synced stops nothing",
        take_out: |rules| rules.torn_hole_stops_nothing = false,
        bounds: Bounds {
            torn: true,
            may: Budget {
                submits: 1,
                resumes: 1,
                power_cuts: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::Stopped,
    },
    Case {
        rule: "R13",
        says: "the end of a flight gives the order up",
        take_out: |rules| rules.flight_gives_its_lease_up = false,
        bounds: Bounds {
            processes: 2,
            may: Budget { submits: 2, ..NOTHING },
            ..SMALL
        },
        goes_wrong: Bad::Blocked,
    },
    Case {
        rule: "R14",
        says: "a waiter takes over where nobody is at work any more",
        take_out: |rules| rules.waiter_takes_over = false,
        bounds: Bounds {
            processes: 2,
            may: Budget {
                submits: 2,
                crashes: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::Blocked,
    },
    Case {
        rule: "R15",
        says: "an effect is judged over all runs",
        take_out: |rules| rules.effect_counts_all_runs = false,
        bounds: Bounds {
            may: Budget {
                submits: 1,
                resumes: 1,
                refused_connections: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::Lie,
    },
    Case {
        rule: "R16",
        says: "\"not sent\" is no promise that it never will be",
        take_out: |rules| rules.not_sent_is_no_promise = false,
        bounds: Bounds {
            may: Budget {
                submits: 1,
                resumes: 1,
                failed_syncs: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::Lie,
    },
    Case {
        rule: "R16",
        says: "only what was never sent, or never left, is withdrawn",
        take_out: |rules| rules.withdrawal_needs_proof = false,
        bounds: Bounds {
            may: Budget {
                submits: 1,
                withdrawals: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::Lie,
    },
    Case {
        rule: "R16",
        says: "`rested` says how many attempts there were",
        take_out: |rules| rules.rested_counts_the_attempts = false,
        bounds: Bounds {
            tries: 2,
            torn: true,
            may: Budget {
                submits: 1,
                refused_connections: 1,
                power_cuts: 1,
                withdrawals: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::Lie,
    },
    Case {
        rule: "R17",
        says: "an origin means its newest generation",
        take_out: |rules| rules.newest_generation_counts = false,
        bounds: Bounds {
            contents: 2,
            may: Budget {
                submits: 3,
                refusals: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
    Case {
        rule: "R17",
        says: "after a person's refusal every correction is asked about",
        take_out: |rules| rules.after_a_persons_no_comes_a_question = false,
        bounds: Bounds {
            contents: 2,
            rulings: &[Ruling::Allow, Ruling::Ask],
            may: Budget {
                submits: 2,
                acts: 1,
                ..NOTHING
            },
            ..SMALL
        },
        goes_wrong: Bad::NotAllowed,
    },
    Case {
        rule: "R18",
        says: "a submit that finds an unfinished order goes resume's way",
        take_out: |rules| rules.one_path_for_the_unfinished = false,
        bounds: Bounds {
            contents: 2,
            rulings: MOODY,
            may: Budget { submits: 3, ..NOTHING },
            ..SMALL
        },
        goes_wrong: Bad::SecondOrder,
    },
];
