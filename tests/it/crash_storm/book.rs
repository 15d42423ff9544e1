//! The judge's own reader of a journal's folder. It knows lines of JSON and some of their members, and nothing of the code that wrote them.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::{self, File},
    io::{ErrorKind, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// A claim as it stands in the log.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// Which mail asked for the order: it stands in the order itself, whatever origin the agent gave.
    pub(super) mail: String,
    /// Who wrote it.
    pub(super) agent: String,
}

/// What stands in the log and in the archive.
#[derive(Debug)]
pub(super) struct Book {
    folder: PathBuf,
    /// The file that was read last, and how far.
    inode: u64,
    read: u64,
    /// Key, event and number of each record: after a compaction, one may stand in two files.
    known: HashSet<[String; 3]>,
    pub(super) claims: BTreeMap<String, Claim>,
    pub(super) settled: BTreeSet<String>,
}

impl Book {
    pub(super) fn of(folder: &Path) -> Self {
        Book {
            folder: folder.to_owned(),
            inode: 0,
            read: 0,
            known: HashSet::new(),
            claims: BTreeMap::new(),
            settled: BTreeSet::new(),
        }
    }

    pub(super) fn records(&self) -> usize {
        self.known.len()
    }

    /// Reads what is new; the keys of the claims among it. A line without its end is still being written, or was left by a process that died.
    pub(super) fn catch_up(&mut self) -> Vec<String> {
        let mut log = match File::open(self.folder.join("log.jsonl")) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Vec::new(),
            opened => opened.unwrap(),
        };
        let meta = log.metadata().unwrap();
        let mut fresh = Vec::new();
        if meta.ino() != self.inode || meta.len() < self.read {
            // Another file stands in its place: what stood in the old one is in the archive, or here again.
            (self.inode, self.read) = (meta.ino(), 0);
            fresh.extend(self.read_archive());
        }
        if meta.len() == self.read {
            return fresh;
        }
        let mut bytes = Vec::new();
        log.seek(SeekFrom::Start(self.read)).unwrap();
        log.read_to_end(&mut bytes).unwrap();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.read += whole as u64;
        fresh.extend(self.learn(&bytes[..whole]));
        fresh
    }

    fn read_archive(&mut self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.folder.join("archive")) else {
            return Vec::new();
        };
        let paths = entries.map(|entry| entry.unwrap().path());
        let logs: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl")).collect();
        logs.iter().flat_map(|path| self.learn(&fs::read(path).unwrap())).collect()
    }

    /// How many torn ends were set aside by those who came after.
    pub(super) fn torn(&self) -> usize {
        let entries = fs::read_dir(self.folder.join("archive"));
        let names = entries.into_iter().flatten().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("torn-")).count()
    }

    fn learn(&mut self, lines: &[u8]) -> Vec<String> {
        let mut fresh = Vec::new();
        for line in lines.split(|byte| *byte == b'\n') {
            // What is no JSON is torn: whoever opens the journal next has to see to it, and what it may have held is not in the log.
            let Ok(record) = serde_json::from_slice::<Value>(line) else {
                continue;
            };
            let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
            let (key, event) = (text("key"), text("ev"));
            if !self.known.insert([key.clone(), event.clone(), text("seq")]) {
                continue;
            }
            match event.as_str() {
                "claimed" => {
                    let order = &record["data"]["order"];
                    let claim = Claim {
                        mail: mail_of(&order["json"]).unwrap_or_default(),
                        agent: order["actor"]["agent"].as_str().unwrap_or_default().to_owned(),
                    };
                    self.claims.insert(key.clone(), claim);
                    fresh.push(key);
                }
                "settled" => drop(self.settled.insert(key)),
                _ => {}
            }
        }
        fresh
    }
}

/// Which mail an order is for: its one item says so.
pub(super) fn mail_of(order: &Value) -> Option<String> {
    order["items"][0]["sku"].as_str().map(str::to_owned)
}
