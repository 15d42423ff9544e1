//! SQLite as careful programs use it: write-ahead log, `synchronous=FULL`, prepared statements, one transaction a promise.

use crate::{Result, base::RECORD, ours::Order, ours::Orders};
use rusqlite::{Connection, Statement, params};
use std::{path::Path, sync::mpsc, time::Duration};
use tokio::sync::oneshot;

/// Older ones have a bug in their write-ahead log: what is compared with has to keep what it promises.
const AT_LEAST: i32 = 3_051_003;

/// The version that is bundled, where it is new enough.
pub(crate) fn version() -> Result<&'static str> {
    match rusqlite::version_number() {
        number if number >= AT_LEAST => Ok(rusqlite::version()),
        number => Err(format!("SQLite {number} is older than {AT_LEAST}").into()),
    }
}

/// A connection of its own to the database in `folder`, which is made where it is not there.
pub(crate) fn connect(folder: &Path) -> Result<Connection> {
    let connection = Connection::open(folder.join("orders.sqlite"))?;
    connection.busy_timeout(Duration::from_secs(60))?;
    let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(format!("SQLite would not keep a write-ahead log but {mode}").into());
    }
    connection.execute_batch(
        "PRAGMA synchronous=FULL;
         CREATE TABLE IF NOT EXISTS orders (origin BLOB PRIMARY KEY, key BLOB NOT NULL, standing TEXT NOT NULL, claimed TEXT, settled TEXT);",
    )?;
    Ok(connection)
}

fn insert(connection: &Connection) -> Result<Statement<'_>> {
    Ok(connection.prepare("INSERT INTO orders (origin, key, standing, claimed) VALUES (?1, ?2, 'open', ?3)")?)
}

fn update(connection: &Connection) -> Result<Statement<'_>> {
    Ok(connection.prepare("UPDATE orders SET standing = 'done', settled = ?2 WHERE origin = ?1")?)
}

/// Rows as long as our records: the keys and what is left of 600 bytes.
fn claim(insert: &mut Statement<'_>, order: Order, text: &str) -> Result<()> {
    let origin = order.hash(0);
    let [high, low, ..] = order.words;
    let key = [high.to_be_bytes(), low.to_be_bytes()].concat();
    insert.execute(params![origin.as_slice(), key, text])?;
    Ok(())
}

fn text() -> String {
    "x".repeat(RECORD.saturating_sub(32 + 16 + 4))
}

/// One commit a claim, as often as `work` says so; the statements live as long as that.
pub(crate) fn inserting<T>(connection: &Connection, work: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<T>) -> Result<T> {
    let (mut insert, text, mut orders) = (insert(connection)?, text(), Orders::new());
    work(&mut || claim(&mut insert, orders.next(), &text))
}

/// Two commits an order: the claim, and its outcome.
pub(crate) fn inserting_and_updating<T>(
    connection: &Connection,
    work: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<T>,
) -> Result<T> {
    let (mut insert, mut update) = (insert(connection)?, update(connection)?);
    let (text, mut orders) = (text(), Orders::new());
    work(&mut || {
        let order = orders.next();
        claim(&mut insert, order, &text)?;
        update.execute(params![order.hash(0).as_slice(), text])?;
        Ok(())
    })
}

type Waiting = (Order, oneshot::Sender<bool>);

/// SQLite behind one writer thread that commits together what waits together: the best that can be made of it.
#[derive(Clone)]
pub(crate) struct Batched(mpsc::Sender<Waiting>);

impl Batched {
    pub(crate) fn open(folder: &Path) -> Result<Batched> {
        let connection = connect(folder)?;
        let (hand_over, waiting) = mpsc::channel();
        std::thread::spawn(move || serve(&connection, &waiting));
        Ok(Batched(hand_over))
    }

    pub(crate) async fn claim(&self, order: Order) -> Result<()> {
        let (tell, told) = oneshot::channel();
        self.0.send((order, tell))?;
        match told.await? {
            true => Ok(()),
            false => Err("SQLite could not commit".into()),
        }
    }
}

/// Ends with the last sender, or with the first error; those who wait then hear that nobody is there.
fn serve(connection: &Connection, waiting: &mpsc::Receiver<Waiting>) -> Result<()> {
    let (mut insert, text) = (insert(connection)?, text());
    while let Ok(first) = waiting.recv() {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut told = Vec::new();
        for (order, tell) in std::iter::once(first).chain(waiting.try_iter()) {
            claim(&mut insert, order, &text)?;
            told.push(tell);
        }
        connection.execute_batch("COMMIT")?;
        for tell in told {
            // Nobody there: a caller who went away, as ours may.
            tell.send(true).ok();
        }
    }
    Ok(())
}
