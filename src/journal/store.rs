//! `Store`: where records are kept. A thin seam: decisions are taken to the data, so that the rules stay in `Journal`, a lock can't leak
//! out, and a database can answer by its own transactions.

use crate::{
    clock::Timestamp,
    future::BoxFuture,
    ids::{IdempotencyKey, OwnerId},
    intent::Columns,
    origin::Hash,
};
use bytes::Bytes;
use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

/// A position in the book: everything before it has been written. Larger is later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark(pub u64);

/// Where an order stands after a record: kept with it, so that an index needs no folding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Sending is permitted and no outcome is known.
    Open,
    /// A person is asked.
    Wait,
    /// A person has to look.
    Look,
    /// It has an outcome.
    Done,
}

impl Standing {
    /// As it stands in a record: four letters each, so that what follows has a fixed place.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Open => "open",
            Standing::Wait => "wait",
            Standing::Look => "look",
            Standing::Done => "done",
        }
    }

    /// Reads [`word`](Standing::word).
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "open" => Some(Standing::Open),
            "wait" => Some(Standing::Wait),
            "look" => Some(Standing::Look),
            "done" => Some(Standing::Done),
            _ => None,
        }
    }
}

/// One record as every store keeps it: what it is found by, and its JSON.
#[derive(Clone)]
pub struct Record {
    /// Whose story it belongs to.
    pub key: IdempotencyKey,
    /// The event's name: lower-case letters and underscores.
    pub name: String,
    /// When it was written.
    pub at: Timestamp,
    /// Where the order stands after it.
    pub standing: Standing,
    /// What a claim is found again by; with `claimed` only.
    pub columns: Option<Columns>,
    /// The event as one line of JSON, without a line break.
    pub data: Bytes,
}

/// Shows which record it is, never its contents.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} {} {})", self.at, self.key, self.name)
    }
}

/// What a decision may ask while it holds the turn, and what it may write. What it appends, its own later `story` shows.
pub trait Turn: Send {
    /// The newest claim of this (api, operation, origin); `source` is its (operation, origin), for stores that are sorted by that.
    fn by_origin(&mut self, origin: Hash, source: Hash) -> BoxFuture<'_, Result<Option<IdempotencyKey>, StoreError>>;

    /// All claims of this (operation, origin), whatever their api; newest first.
    fn by_source(&mut self, source: Hash) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>>;

    /// Claims with this (api, fingerprint) that are not done, whatever their age, or were claimed at or after `since`; newest first.
    fn by_repeat(&mut self, repeat: Hash, since: Timestamp) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>>;

    /// Orders that were claimed behind `after`, and whose claims say that they were written at or after `since`; oldest claim first. `after` is an
    /// order that an earlier answer named; where it is `None`, or its claim is no longer where the others are, it is all of them. What was moved
    /// to an archive need not be among them; what this turn appended need not be either.
    ///
    /// Daily limits are counted by it. Default: an error; then every daily limit counts as passed.
    fn claimed_since(&mut self, after: Option<IdempotencyKey>, since: Timestamp) -> BoxFuture<'_, Result<Vec<IdempotencyKey>, StoreError>> {
        let _ = (after, since);
        let error = StoreError::new(StoreErrorKind::Refused, "this store does not list claims by their time");
        Box::pin(std::future::ready(Err(error)))
    }

    /// All records of one order, oldest first; empty where there is none.
    fn story(&mut self, key: IdempotencyKey) -> BoxFuture<'_, Result<Vec<Record>, StoreError>>;

    /// Where the newest record of one order ends: who knows its story up to there need not read it again. `None`: that is not known, read it.
    /// Default: `None`.
    fn known_to(&mut self, key: IdempotencyKey) -> Option<Mark> {
        let _ = key;
        None
    }

    /// Whether the process that opened the book under this name still lives.
    fn alive(&mut self, owner: OwnerId) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Writes one record when the decision ends well; where it ends with an error, nothing of it is written.
    fn append(&mut self, record: Record);
}

/// A decision made inside one turn. Owned and `'static`: once handed over it completes, whoever is dropped.
pub type Decide = Box<dyn for<'t> FnOnce(&'t mut dyn Turn) -> BoxFuture<'t, Result<(), StoreError>> + Send>;

/// Where a journal's records are kept.
///
/// Not for callers of the crate: implement it to keep the journal elsewhere, and hand it to [`JournalBuilder::over`](super::JournalBuilder::over).
pub trait Store: Send + Sync + fmt::Debug {
    /// The book's own name; two paths to one book have one.
    fn id(&self) -> OwnerId;

    /// The name under which this process has the book open; written into claims.
    fn owner(&self) -> OwnerId;

    /// One turn: nobody else writes between the decision's first question and its last append. The decision is handed over when this is
    /// called, not when the future is polled; dropping the future changes nothing. Written, not yet durable.
    fn turn(&self, decide: Decide) -> BoxFuture<'static, Result<Mark, StoreError>>;

    /// Answers once everything before `upto` survives a power cut. Never says so after a failed sync.
    fn durable(&self, upto: Mark) -> BoxFuture<'static, Result<(), StoreError>>;

    /// A turn, and then [`durable`](Store::durable), handed over at once: one journey to the disk. An error: nothing was written.
    fn commit(&self, decide: Decide) -> BoxFuture<'_, Result<Committed, StoreError>> {
        let turn = self.turn(decide);
        Box::pin(async move {
            let mark = turn.await?;
            Ok(Committed {
                mark,
                durable: self.durable(mark).await,
            })
        })
    }

    /// All records of one order, oldest first; empty where there is none.
    fn story(&self, key: IdempotencyKey) -> BoxFuture<'static, Result<Vec<Record>, StoreError>>;

    /// Orders that are not done, in the order of their claims, after `after`, at most `limit`. Pages, so that no stream stands in the trait.
    fn unsettled(&self, after: Option<IdempotencyKey>, limit: usize) -> BoxFuture<'static, Result<Vec<IdempotencyKey>, StoreError>>;

    /// Every order the book knows, wherever its records stand, those that [`compact`](Store::compact) moved away included: each once, oldest claim
    /// first. One snapshot of 16 bytes an order and no pages, so that a compaction between two of them can neither hide nor double an order.
    fn orders(&self) -> BoxFuture<'static, Result<Vec<IdempotencyKey>, StoreError>>;

    /// Returns when something was written after `seen` by this or another process, or `at_most` has passed; with the present mark.
    fn changed(&self, seen: Mark, at_most: Duration) -> BoxFuture<'static, Result<Mark, StoreError>>;

    /// Moves what is settled and old to where it takes no room among what is not. Default: there is nothing to move.
    fn compact(&self) -> BoxFuture<'static, Result<Compaction, StoreError>> {
        Box::pin(std::future::ready(Ok(Compaction::default())))
    }

    /// Somebody's repeat guard looks back this far: [`compact`](Store::compact) leaves settled orders where it finds them for at least as long.
    /// Default: nothing, for stores that move nothing.
    fn keep_at_least(&self, settled: Duration) {
        let _ = settled;
    }

    /// Everything written is durable, and this process no longer counts as an owner. Later calls answer `Closed`.
    fn close(&self) -> BoxFuture<'static, Result<(), StoreError>>;
}

/// Why the journal could not do its work. Cheap to clone: it is told to everyone who waits.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.text)]
pub struct StoreError(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kind: StoreErrorKind,
    text: String,
    source: Option<std::io::Error>,
}

/// What kind of thing went wrong with the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The operating system said no: no space, no permission, a failed sync.
    Io,
    /// An earlier write or sync failed, so nothing here can be called durable. Open the journal anew.
    Poisoned,
    /// A record that was durable can no longer be read. Nothing was changed; nothing is sent.
    Corrupt,
    /// Written by a newer version of this crate. Nothing was changed; nothing is sent.
    UnsupportedVersion,
    /// The folder had a log once, and has none now. Never a fresh start: every key would be minted anew.
    Missing,
    /// The log was replaced, cut or removed while it was open.
    Replaced,
    /// A record larger than the cap; nothing was written.
    TooLarge,
    /// The path can't be a journal.
    BadPath,
    /// The journal was closed.
    Closed,
    /// Another compaction is under way. Nothing was changed.
    Busy,
    /// A decision failed for another reason; nothing of it was written.
    Refused,
}

impl StoreError {
    /// An error of that kind; `text` says what was attempted, where, and what to do.
    pub fn new(kind: StoreErrorKind, text: impl Into<String>) -> Self {
        StoreError(Arc::new(Inner {
            kind,
            text: text.into(),
            source: None,
        }))
    }

    /// An operating system's no.
    pub fn io(doing: &str, path: &std::path::Path, source: std::io::Error) -> Self {
        StoreError(Arc::new(Inner {
            kind: StoreErrorKind::Io,
            text: format!("{doing} {} failed: {source}", path.display()),
            source: Some(source),
        }))
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> StoreErrorKind {
        self.0.kind
    }

    /// The operating system's error, where there was one.
    pub fn io_source(&self) -> Option<&std::io::Error> {
        self.0.source.as_ref()
    }
}

/// What was written by one turn, and whether it became durable.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Everything before it has been written.
    pub mark: Mark,
    /// Whether that survives a power cut. An error says that it may not.
    pub durable: Result<(), StoreError>,
}

/// What a compaction came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compaction {
    /// Bytes of the log before.
    pub before: u64,
    /// Bytes of the log after.
    pub after: u64,
    /// Orders that moved to the archive.
    pub moved: u64,
    /// Where the old log stands now; `None` where there was nothing to do.
    pub archive: Option<PathBuf>,
}

/// What opening a folder found and mended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornReport {
    /// Byte offset in the log at which the unreadable part began.
    pub offset: u64,
    /// How many bytes it had.
    pub bytes: u64,
    /// Where a copy of them is kept.
    pub copy: PathBuf,
}
