//! The reader of records against everything that is no log: it never panics, and never returns a record that was not written.

use super::{
    frame::{self, Body},
    lines::Lines,
    recover::{self, Chain},
};
use crate::{
    clock::Timestamp,
    disk::{Disk, How, RealDisk},
    intent::Columns,
    journal::store::{Record, Standing, StoreErrorKind},
};
use bytes::Bytes;
use proptest::prelude::*;
use std::{collections::HashSet, path::Path};

/// One record as a writer makes it; the text may hold whatever JSON can.
fn record() -> impl Strategy<Value = Body> {
    let names = prop_oneof![Just("claimed"), Just("sent"), Just("observed"), Just("settled")];
    let text = prop_oneof![
        any::<String>(),
        Just(r#""crc":"00000000"}"#.to_owned()),
        Just("{\"v\":1,\"seq\":\"".to_owned())
    ];
    (any::<u64>(), names, text, 0..1_000_000_i64, any::<bool>()).prop_map(|(n, name, text, minute, done)| {
        let columns = (name == "claimed").then_some(Columns {
            origin: Some([n as u8 | 1; 32]),
            source: None,
            repeat: [3; 32],
        });
        Body::Order(Record {
            key: format!("{:08x}-0000-4000-8000-{:012x}", n >> 32, n & 0xffff).parse().unwrap(),
            name: name.to_owned(),
            at: Timestamp::from_millis(minute * 60_000),
            standing: if done { Standing::Done } else { Standing::Open },
            columns,
            data: Bytes::from(serde_json::to_string(&text).unwrap()),
        })
    })
}

/// A log, and each of its lines.
fn log() -> impl Strategy<Value = (Vec<u8>, HashSet<Vec<u8>>)> {
    (prop::collection::vec(record(), 1..12), any::<bool>()).prop_map(|(bodies, synced)| {
        let (mut bytes, mut lines, mut prev) = (Vec::new(), HashSet::new(), 0);
        for (n, body) in bodies.iter().enumerate() {
            let (from, durable) = (bytes.len(), if synced { bytes.len() as u64 } else { 0 });
            prev = frame::encode(&mut bytes, n as u64 + 1, body, durable, prev);
            lines.insert(bytes[from..bytes.len() - 1].to_vec());
        }
        (bytes, lines)
    })
}

/// What a disk, an editor or a stranger does to a log.
#[derive(Clone, Debug)]
enum Harm {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Zeros(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Twice(prop::sample::Index, prop::sample::Index),
}

fn harm() -> impl Strategy<Value = Harm> {
    use any as a;
    prop_oneof![
        (a::<prop::sample::Index>(), 0..8_u8).prop_map(|(at, bit)| Harm::Flip(at, bit)),
        a::<prop::sample::Index>().prop_map(Harm::Cut),
        (a::<prop::sample::Index>(), 1..700_usize).prop_map(|(at, len)| Harm::Zeros(at, len)),
        (a::<prop::sample::Index>(), prop::collection::vec(a::<u8>(), 1..40)).prop_map(|(at, bytes)| Harm::Insert(at, bytes)),
        (a::<prop::sample::Index>(), 1..400_usize).prop_map(|(at, len)| Harm::Remove(at, len)),
        (a::<prop::sample::Index>(), a::<prop::sample::Index>()).prop_map(|(from, to)| Harm::Twice(from, to)),
    ]
}

fn apply(bytes: &mut Vec<u8>, harm: &Harm) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    let reach = |at: usize, many: usize| at..(at + many).min(len);
    match harm {
        Harm::Flip(at, bit) => bytes[at.index(len)] ^= 1 << bit,
        Harm::Cut(at) => bytes.truncate(at.index(len)),
        Harm::Zeros(at, many) => bytes[reach(at.index(len), *many)].fill(0),
        Harm::Insert(at, new) => drop(bytes.splice(at.index(len)..at.index(len), new.iter().copied())),
        Harm::Remove(at, many) => drop(bytes.drain(reach(at.index(len), *many))),
        Harm::Twice(a, b) => {
            let (from, to) = (a.index(len).min(b.index(len)), a.index(len).max(b.index(len)));
            let again = bytes[from..to].to_vec();
            bytes.extend(again);
        }
    }
}

/// Both ways of reading: the plain one, which stops at whatever is not plainly the next record, and the one that looks closer.
fn read(bytes: &[u8], written: &HashSet<Vec<u8>>) {
    let known = |place: std::ops::Range<usize>| {
        let line = bytes[place]
            .strip_suffix(b"\n")
            .map_or_else(|| bytes[bytes.len()..].to_vec(), <[u8]>::to_vec);
        line.is_empty() || written.contains(&line)
    };
    match recover::scan(Path::new("log.jsonl"), bytes, 0, Chain::START) {
        Ok(found) => {
            for placed in &found.records {
                let (from, to) = (placed.at as usize, placed.at as usize + placed.len);
                assert!(
                    known(from..to) || written.contains(&bytes[from..to]),
                    "a record that nobody wrote, at {from}"
                );
            }
            let holes = found.holes.iter().chain(&found.tail).map(|hole| hole.len).sum::<u64>();
            let records = found.records.iter().map(|placed| placed.len as u64).sum::<u64>();
            assert_eq!(holes + records, bytes.len() as u64, "every byte is a record's or a hole's");
        }
        Err(error) => assert!(
            matches!(error.kind(), StoreErrorKind::Corrupt | StoreErrorKind::UnsupportedVersion),
            "{error}"
        ),
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let mut disk = RealDisk.open(file.path(), How::Append).unwrap();
    let (mut lines, mut chain) = (Lines::from(0), Chain::START);
    while let Some((_, line)) = lines.next(disk.as_mut()).unwrap() {
        match chain.step(line) {
            Some(_) => assert!(written.contains(line), "a record that nobody wrote"),
            None => break,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_harm_to_a_log_makes_a_record_that_was_not_written((mut bytes, written) in log(), harms in prop::collection::vec(harm(), 0..4)) {
        harms.iter().for_each(|harm| apply(&mut bytes, harm));
        read(&bytes, &written);
    }

    #[test]
    fn random_bytes_are_no_records(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        read(&bytes, &HashSet::new());
    }

    #[test]
    fn an_unharmed_log_is_read_whole((bytes, written) in log()) {
        let found = recover::scan(Path::new("log.jsonl"), &bytes, 0, Chain::START).unwrap();
        prop_assert!(found.holes.is_empty() && found.tail.is_none());
        prop_assert!(found.records.len() >= written.len());
    }
}
