//! Two more that promise durability, as information beside the bars: redb (a copy-on-write B-tree) and okaywal (a log that fills its files
//! ahead, and so writes no metadata).

use crate::{Result, base::RECORD, ours::Orders};
use okaywal::{LogVoid, WriteAheadLog};
use redb::{Database, TableDefinition};
use std::path::Path;

const ORDERS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("orders");

/// A database with one table, and orders to put into it.
pub(crate) struct Redb {
    database: Database,
    orders: Orders,
    row: Vec<u8>,
}

impl Redb {
    pub(crate) fn open(folder: &Path) -> Result<Redb> {
        Ok(Redb {
            database: Database::create(folder.join("orders.redb"))?,
            orders: Orders::new(),
            row: vec![b'x'; RECORD.saturating_sub(32)],
        })
    }

    /// One transaction a claim, durable when it returns (redb's default).
    pub(crate) fn claim(&mut self) -> Result<()> {
        let origin = self.orders.next().hash(0);
        let transaction = self.database.begin_write()?;
        transaction.open_table(ORDERS)?.insert(origin.as_slice(), self.row.as_slice())?;
        transaction.commit()?;
        Ok(())
    }
}

/// A log that keeps nothing from its segments when they are full.
pub(crate) struct Okaywal {
    log: WriteAheadLog,
    record: Vec<u8>,
}

impl Okaywal {
    pub(crate) fn open(folder: &Path) -> Result<Okaywal> {
        Ok(Okaywal {
            log: WriteAheadLog::recover(folder.join("okaywal"), LogVoid)?,
            record: vec![b'x'; RECORD],
        })
    }

    /// One entry, durable when it returns.
    pub(crate) fn append(&mut self) -> Result<()> {
        let mut entry = self.log.begin_entry()?;
        entry.write_chunk(&self.record)?;
        entry.commit()?;
        Ok(())
    }
}
