//! Worlds in which several rules are needed at once.

use super::world::{Bounds, Budget, NOTHING, Ruling, SMALL};

/// Small enough for a debug build to search all of them in seconds.
pub(super) const WORLDS: &[(&str, Bounds)] = &[
    (
        "a crash, a power cut, a refusal, a correction",
        Bounds {
            processes: 2,
            contents: 2,
            each_its_own: true,
            may: FAULTS,
            ..SMALL
        },
    ),
    (
        "torn records and a withdrawal",
        Bounds {
            contents: 2,
            torn: true,
            may: TORN,
            ..SMALL
        },
    ),
    (
        "a person and a moody policy",
        Bounds {
            contents: 2,
            rulings: ALL_RULINGS,
            may: Budget {
                submits: 2,
                resumes: 1,
                power_cuts: 1,
                acts: 2,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "time and clocks",
        Bounds {
            retention: 2,
            may: Budget {
                submits: 1,
                resumes: 1,
                power_cuts: 1,
                ticks: 2,
                clock_steps: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "another account and a lookup",
        Bounds {
            contents: 2,
            tries: 2,
            lookup: true,
            may: SCOPES,
            ..SMALL
        },
    ),
    (
        "compactions",
        Bounds {
            processes: 2,
            may: Budget {
                submits: 2,
                resumes: 1,
                crashes: 1,
                compactions: 1,
                refusals: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "no origin",
        Bounds {
            processes: 2,
            origin_unknown: true,
            may: Budget {
                submits: 2,
                resumes: 1,
                power_cuts: 1,
                ticks: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "damage",
        Bounds {
            torn: true,
            may: Budget {
                submits: 2,
                resumes: 1,
                power_cuts: 1,
                damages: 1,
                refusals: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "failed syncs",
        Bounds {
            processes: 2,
            may: Budget {
                submits: 2,
                resumes: 1,
                power_cuts: 1,
                failed_syncs: 1,
                withdrawals: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "no origin, and a person",
        Bounds {
            origin_unknown: true,
            rulings: MAY_ASK,
            may: Budget {
                submits: 2,
                resumes: 1,
                acts: 2,
                ticks: 1,
                refusals: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
];

/// The same, larger.
pub(super) const LONG: &[(&str, Bounds)] = &[
    (
        "crashes, a power cut, refusals, corrections",
        Bounds {
            processes: 2,
            contents: 2,
            may: Budget {
                crashes: 2,
                refusals: 2,
                ..FAULTS
            },
            ..SMALL
        },
    ),
    (
        "torn records and a withdrawal, two processes",
        Bounds {
            processes: 2,
            contents: 2,
            torn: true,
            may: TORN,
            ..SMALL
        },
    ),
    (
        "torn records and two power cuts",
        Bounds {
            contents: 2,
            torn: true,
            may: Budget { power_cuts: 2, ..TORN },
            ..SMALL
        },
    ),
    (
        "a person and a moody policy, two processes",
        Bounds {
            processes: 2,
            contents: 2,
            rulings: ALL_RULINGS,
            may: Budget {
                submits: 2,
                resumes: 1,
                power_cuts: 1,
                acts: 2,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "a busy person",
        Bounds {
            contents: 2,
            rulings: ALL_RULINGS,
            may: Budget {
                submits: 2,
                resumes: 2,
                refusals: 1,
                acts: 3,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "time and clocks, two attempts",
        Bounds {
            retention: 2,
            tries: 2,
            may: Budget {
                submits: 1,
                resumes: 2,
                power_cuts: 1,
                ticks: 2,
                clock_steps: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "time and an approval",
        Bounds {
            rulings: &[Ruling::Ask],
            may: Budget {
                submits: 1,
                resumes: 2,
                power_cuts: 1,
                ticks: 2,
                clock_steps: 1,
                acts: 2,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "another account and a lookup, two processes",
        Bounds {
            processes: 2,
            contents: 2,
            tries: 2,
            lookup: true,
            may: SCOPES,
            ..SMALL
        },
    ),
    (
        "compactions and a power cut",
        Bounds {
            processes: 2,
            contents: 2,
            may: Budget { compactions: 2, ..FAULTS },
            ..SMALL
        },
    ),
    (
        "no origin, three submits",
        Bounds {
            processes: 2,
            origin_unknown: true,
            may: Budget {
                submits: 3,
                resumes: 1,
                power_cuts: 1,
                ticks: 1,
                refusals: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "damage, two processes",
        Bounds {
            processes: 2,
            torn: true,
            may: Budget {
                submits: 2,
                resumes: 1,
                power_cuts: 1,
                damages: 1,
                refusals: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "a person, two processes, a crash",
        Bounds {
            processes: 2,
            contents: 2,
            rulings: MAY_ASK,
            may: Budget {
                submits: 2,
                resumes: 1,
                crashes: 1,
                refusals: 1,
                acts: 3,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "a person and torn records",
        Bounds {
            contents: 2,
            rulings: ALL_RULINGS,
            torn: true,
            may: Budget { acts: 2, ..TORN },
            ..SMALL
        },
    ),
    (
        "a person, time and another account",
        Bounds {
            retention: 2,
            lookup: true,
            rulings: MAY_ASK,
            may: Budget {
                submits: 2,
                resumes: 1,
                acts: 2,
                ticks: 2,
                rotations: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "a person and a compaction",
        Bounds {
            contents: 2,
            rulings: MAY_ASK,
            may: Budget {
                submits: 3,
                resumes: 1,
                refusals: 1,
                acts: 2,
                compactions: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "no origin, and a person, two processes",
        Bounds {
            processes: 2,
            origin_unknown: true,
            rulings: MAY_ASK,
            may: Budget {
                submits: 2,
                resumes: 1,
                acts: 2,
                ticks: 1,
                refusals: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "three generations",
        Bounds {
            contents: 2,
            may: Budget {
                submits: 3,
                resumes: 1,
                refusals: 2,
                acts: 2,
                crashes: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "a compaction and torn records",
        Bounds {
            processes: 2,
            contents: 2,
            each_its_own: true,
            torn: true,
            may: Budget {
                submits: 2,
                resumes: 1,
                power_cuts: 1,
                refusals: 1,
                compactions: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "failed syncs and torn records",
        Bounds {
            processes: 2,
            torn: true,
            may: Budget {
                submits: 2,
                resumes: 1,
                power_cuts: 1,
                failed_syncs: 1,
                withdrawals: 1,
                refused_connections: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "torn records, two attempts, two power cuts",
        Bounds {
            contents: 2,
            tries: 2,
            torn: true,
            may: Budget { power_cuts: 2, ..TORN },
            ..SMALL
        },
    ),
];

/// What the protocol names as no client's fault: it is in the world, it is found, and it is excused.
pub(super) const UNAVOIDABLE: &[(&str, Bounds)] = &[
    (
        "a person frees an origin while a copy is under way",
        Bounds {
            may: Budget {
                submits: 2,
                acts: 2,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "equal orders without an origin, after the window",
        Bounds {
            origin_unknown: true,
            may: Budget {
                submits: 2,
                ticks: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
    (
        "the newest synced claim goes bad",
        Bounds {
            torn: true,
            may: Budget {
                submits: 2,
                power_cuts: 1,
                damages: 1,
                ..NOTHING
            },
            ..SMALL
        },
    ),
];

const MAY_ASK: &[Ruling] = &[Ruling::Allow, Ruling::Ask];

const ALL_RULINGS: &[Ruling] = &[Ruling::Allow, Ruling::Ask, Ruling::Deny];

const FAULTS: Budget = Budget {
    submits: 2,
    resumes: 1,
    crashes: 1,
    power_cuts: 1,
    refusals: 1,
    ..NOTHING
};

const TORN: Budget = Budget {
    submits: 2,
    resumes: 1,
    power_cuts: 1,
    refusals: 1,
    refused_connections: 1,
    withdrawals: 1,
    ..NOTHING
};

const SCOPES: Budget = Budget {
    submits: 2,
    resumes: 1,
    crashes: 1,
    refusals: 1,
    rotations: 1,
    ..NOTHING
};
