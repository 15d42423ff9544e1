//! One binary, a module per story. Names are claims: if one goes red at night, the name is the page.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::field_reassign_with_default,
    reason = "a test says what it expects, and fails where it stands"
)]

mod adversary;
mod adversary_desk;
mod adversary_journal;
mod adversary_person;
mod adversary_wire;
mod amend;
mod approval;
mod approval_crash;
mod audit;
mod bare;
mod case_map;
mod cases;
mod child;
mod claims;
mod compaction;
mod conformance;
mod crash_disk;
#[cfg(unix)]
mod crash_storm;
mod desk;
#[cfg(all(unix, feature = "desk"))]
mod desk_program;
mod dialects;
mod examples;
mod honesty;
mod house;
mod input;
#[cfg(unix)]
mod journal_cases;
mod journal_faults;
mod journal_file;
mod journal_fixtures;
mod kit;
mod ledgers;
mod link;
mod lookup;
mod mail_agent;
#[cfg(target_os = "linux")]
mod memory;
mod model;
mod operator;
mod pace;
#[cfg(target_os = "linux")]
mod power_cut;
mod presets;
mod props;
mod resume;
mod rules;
mod script;
mod secrets;
mod server;
mod shop;
mod story;
#[cfg(target_os = "linux")]
mod strace;
mod tape;
mod transport;
mod vectors;
mod wire;
