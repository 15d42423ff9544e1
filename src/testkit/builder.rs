//! How a desk is to be: which ledger it keeps, where it listens, what it is deaf to.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use super::counter::{Counter, Keys};
use super::desk::Desk;
use super::dialect::{ServerDialect, Unkind};
use super::ledger::{Ledger, MemoryLedger, Terms};
use crate::clock::Clock;

/// A [`Desk`] about to be started; made by [`Desk::builder`]. Default: heeds keys, a [`MemoryLedger`] of its own, a free port of
/// 127.0.0.1.
#[derive(Debug)]
#[must_use = "a desk that is not started serves nobody"]
pub struct DeskBuilder {
    keys: Keys,
    dialect: ServerDialect,
    unkind: Vec<Unkind>,
    ledger: Arc<dyn Ledger>,
    terms: Terms,
    waits: Option<Duration>,
    listen: Option<SocketAddr>,
    dates: Option<Arc<dyn Clock>>,
}

impl DeskBuilder {
    pub(crate) fn new() -> Self {
        Self {
            keys: Keys::Heeded,
            dialect: ServerDialect::default(),
            unkind: Vec::new(),
            ledger: Arc::new(MemoryLedger::new()),
            terms: Terms::default(),
            waits: None,
            listen: None,
            dates: None,
        }
    }

    /// Deaf to keys: see [`Desk::deaf`].
    pub fn deaf(mut self) -> Self {
        self.keys = Keys::Ignored;
        self
    }

    /// Plays this server. Default: [`ServerDialect::Ietf`].
    pub fn dialect(mut self, dialect: ServerDialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Throws a switch that makes the server harder to live with; several add up, and of two on one matter the later counts.
    pub fn unkind(mut self, switch: Unkind) -> Self {
        self.unkind.push(switch);
        self
    }

    /// Keeps this ledger, which may be shared with other desks.
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.ledger = ledger;
        self
    }

    /// How long the ledger keeps what. Default: as long as the dialect does, for ever in the default one, without a lease. A
    /// [`Terms::forget_after`] given here goes before the dialect's and before [`Unkind::ForgetsAfter`].
    pub fn terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }

    /// Lets a request wait while its key's first one is still processed, instead of answering 409 at once: it gets the replay when the work is
    /// done. Where that is later than `at_most`, or never, it gets the 409 after `at_most`.
    ///
    /// How long is decided when the request comes: [`Desk::finish`] does not end a wait.
    pub fn waits(mut self, at_most: Duration) -> Self {
        self.waits = Some(at_most);
        self
    }

    /// Listens there instead of on a free port of 127.0.0.1.
    pub fn listen(mut self, on: SocketAddr) -> Self {
        self.listen = Some(on);
        self
    }

    /// The clock that its answers' `Date` is read from. Default: the machine's. A client that is tested with a clock of its own wants its
    /// server on the same one: two that disagree are a clock in doubt, by which nothing is sent again.
    pub fn dates(mut self, clock: impl Clock + 'static) -> Self {
        self.dates = Some(Arc::new(clock));
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If nothing can listen there.
    pub async fn start(self) -> std::io::Result<Desk> {
        let listener = self.listen.map(TcpListener::bind).transpose()?;
        Ok(self.open(listener).await)
    }

    pub(crate) async fn start_anywhere(self) -> Desk {
        self.open(None).await
    }

    async fn open(self, listener: Option<TcpListener>) -> Desk {
        let mut facts = self.dialect.facts();
        self.unkind.iter().for_each(|switch| switch.change(&mut facts));
        let mut terms = self.terms;
        terms.forget_after = terms.forget_after.or(facts.kept);
        let counter = Counter::new(self.keys, facts, terms, self.waits, self.ledger);
        Desk::open(listener, counter.dated_by(self.dates)).await
    }
}
