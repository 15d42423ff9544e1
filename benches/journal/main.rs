//! The journal beside what it stands on: appends and syncs of the same size in the same run, and the peers one could have used instead.
//!
//! `cargo bench --bench journal` measures all bars; `-- --quick` the first three, in under a minute; `-- --picture` draws
//! `docs/journal-bench.svg` from this run, as a full run does where its controls are sound; `-- open` one bar alone. Each figure is a ratio to a base measured beside
//! it, in turn; absolute times are of this machine today. A control that is off says that the machine was too busy to measure anything.

mod base;
mod child;
mod compact;
mod crowd;
mod log;
mod one;
mod open;
mod ours;
mod peers;
mod picture;
mod processes;
mod report;
mod sqlite;

use base::Patience;
use report::Report;
use std::{
    cell::Cell,
    path::{Path, PathBuf},
    time::Duration,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    if let Some(done) = child::role() {
        return done;
    }
    let asked = |flag: &str| std::env::args().any(|arg| arg == flag);
    let quick = asked("--quick");
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let place = Place::new(if quick { QUICK } else { FULL })?;
    println!(
        "in {}; SQLite {} (bundled, WAL, synchronous=FULL)",
        place.kind(),
        sqlite::version()?
    );
    busy();
    let mut report = Report::default();
    for (name, bar) in BARS {
        let wanted = match named.is_empty() {
            true => !(quick && SLOW.contains(&name)),
            false => named.iter().any(|known| known == name),
        };
        if wanted {
            bar(&place, &mut report)?;
        }
    }
    report.close();
    if asked("--picture") || !quick && named.is_empty() && report.is_sound() {
        picture::draw(&report)?;
    }
    Ok(())
}

/// A control that is sound says that the disk was ours; what needs the processor is short all the same where others use it.
fn busy() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if let Some(load) = load.split(' ').next().and_then(|load| load.parse::<f64>().ok()) {
        let word = if load > 0.5 * cores as f64 {
            ": busy, so these figures are not the machine's"
        } else {
            ""
        };
        println!("load {load} on {cores} cores{word}");
    }
}

type Bar = fn(&Place, &mut Report) -> Result<()>;

/// By their names they can be asked for alone: `-- open`.
const BARS: [(&str, Bar); 5] = [
    ("one", one::run),
    ("crowd", crowd::run),
    ("processes", processes::run),
    ("open", open::run),
    ("compact", compact::run),
];
/// Minutes, not seconds.
const SLOW: [&str; 2] = ["open", "compact"];

const QUICK: Patience = Patience {
    rounds: 9,
    at_most: Duration::from_secs(12),
};
const FULL: Patience = Patience {
    rounds: 25,
    at_most: Duration::from_secs(60),
};

/// Two workers, as a small agent has them.
fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Where the files are: in the target folder, which lies on a real disk; and how long there is for it.
struct Place {
    root: tempfile::TempDir,
    made: Cell<usize>,
    patience: Patience,
}

impl Place {
    fn new(patience: Patience) -> Result<Place> {
        let root = tempfile::Builder::new()
            .prefix("journal-bench-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let place = Place {
            root,
            made: Cell::new(0),
            patience,
        };
        match place.kind().as_str() {
            "tmpfs" | "ramfs" => Err("the target folder lies in memory, where a sync costs nothing: set CARGO_TARGET_DIR".into()),
            _ => Ok(place),
        }
    }

    /// A folder of that name.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.path().join(name);
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// A folder that nobody has used.
    fn fresh<T>(&self, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        self.made.set(self.made.get() + 1);
        work(&self.folder(&format!("fresh-{}", self.made.get()))?)
    }

    /// The kind of file system, as Linux names it.
    fn kind(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mut best = (0, "an unknown file system");
        for line in mounts.lines() {
            let mut words = line.split(' ').skip(1);
            if let (Some(at), Some(kind)) = (words.next(), words.next())
                && self.root.path().starts_with(at)
                && at.len() >= best.0
            {
                best = (at.len(), kind);
            }
        }
        best.1.to_owned()
    }
}
