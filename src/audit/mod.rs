//! The audit: who asked for what, who decided, what was sent, what was seen. A view of the journal, not a second book: what it tells is what the
//! orders themselves are decided by, so that the two can't disagree; and if the book can't be written, nothing is sent.
//!
//! Nothing here writes to the journal or decides anything. See the chapter `docs/audit.md`.
//!
//! ```
//! use uketsuke::{Audit, Journal, audit::{Filter, Format}};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let journal = Journal::memory()?;
//! let audit = Audit::of(&journal);
//! let mut rows = audit.rows(&Filter::default().agent("order-agent"));
//! while let Some(row) = rows.next().await? {
//!     println!("{row}");
//! }
//! let mut file = Vec::new();
//! let written = audit.export(Format::JsonLines, &Filter::default(), &mut file).await?;
//! # assert_eq!((written, file.len()), (0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod export;
mod filter;
mod row;
mod text;

pub use export::Format;
pub use filter::Filter;
pub use row::Row;

use crate::{
    ids::IdempotencyKey,
    journal::{Journal, JournalError, Story},
};
use row::{Bodies, Teller};
use std::io::Write;

/// A journal, told row by row: one for everything that was written about an order.
///
/// Orders come one after another, oldest claim first; each with its whole story, in the order in which it was written. What compaction moved to the
/// archive is told like the rest.
///
/// Shown are names, reasons and notes. Not shown unless [asked for](Audit::with_bodies) are bodies: the order's contents, the server's answers,
/// receipts, and the order that a preview was of. Never shown are a URL's query and the values of headers; credentials are not in the journal.
#[derive(Clone, Debug)]
pub struct Audit {
    journal: Journal,
    bodies: Bodies,
}

/// Why an export ended early. What was written up to then is whole rows, as far as the writer took them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The journal could not be read.
    #[error("the audit could not read the journal: {0}")]
    Journal(#[from] JournalError),
    /// A row could not be written to where it was to go.
    #[error("the audit could not be written: {0}")]
    Write(#[from] std::io::Error),
}

impl Audit {
    /// The audit of this journal. Reads nothing yet.
    pub fn of(journal: &Journal) -> Audit {
        Audit {
            journal: journal.clone(),
            bodies: Bodies::Hidden,
        }
    }

    /// With contents and answers ([`Row::contents`], [`Row::answer`]). They hold what the order holds: names, addresses, prices.
    #[must_use]
    pub fn with_bodies(mut self) -> Audit {
        self.bodies = Bodies::Told;
        self
    }

    /// The rows that are wanted, read as they are asked for.
    pub fn rows(&self, filter: &Filter) -> Rows {
        Rows {
            audit: self.clone(),
            filter: filter.clone(),
            orders: None,
            telling: None,
        }
    }

    /// Writes the rows that are wanted, and says how many they were; the header of a CSV is none. Flushes at the end.
    ///
    /// A row is handed over in one call that may block: give a buffer, or a file behind a `BufWriter`.
    ///
    /// # Errors
    /// The journal as a whole can't be read, or `out` takes no more. An order that can't be read is a row, not an error.
    pub async fn export(&self, format: Format, filter: &Filter, out: &mut impl Write) -> Result<u64, AuditError> {
        format.begin(out)?;
        let (mut rows, mut written) = (self.rows(filter), 0_u64);
        while let Some(row) = rows.next().await? {
            format.row(&row, out)?;
            written = written.saturating_add(1);
        }
        out.flush()?;
        Ok(written)
    }
}

/// Rows of an [`Audit`], one at a time. In memory are 16 bytes for each order of the journal, and one order's story.
///
/// Which orders there are is asked once, when the first row is: those that are claimed later are not told. Of an order that is, all is told that was
/// written by the time its first row is.
pub struct Rows {
    audit: Audit,
    filter: Filter,
    orders: Option<std::vec::IntoIter<IdempotencyKey>>,
    telling: Option<(Story, Teller)>,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl Rows {
    /// The next row; `None` at the end. What is told is durable.
    ///
    /// # Errors
    /// The journal as a whole can't be read. An order that can't be (its claim is torn, its archive gone) is a row `unreadable` that says why.
    pub async fn next(&mut self) -> Result<Option<Row>, JournalError> {
        loop {
            if let Some(row) = self.of_this_order() {
                return Ok(Some(row));
            }
            let Some(key) = self.next_order().await? else {
                return Ok(None);
            };
            let story = self.audit.journal.story(key).await?;
            self.telling = Some((story, Teller::new(key, self.audit.bodies)));
        }
    }

    fn of_this_order(&mut self) -> Option<Row> {
        let (story, teller) = self.telling.as_mut()?;
        while let Some(told) = story.next() {
            let row = teller.row(&told, story.state());
            if self.filter.wants(&row, teller.order()) {
                return Some(row);
            }
        }
        None
    }

    async fn next_order(&mut self) -> Result<Option<IdempotencyKey>, JournalError> {
        if self.orders.is_none() {
            let orders = match self.filter.key {
                Some(key) => vec![key],
                None => self.audit.journal.orders().await?,
            };
            self.orders = Some(orders.into_iter());
        }
        Ok(self.orders.as_mut().and_then(Iterator::next))
    }
}

#[cfg(test)]
mod tests;
