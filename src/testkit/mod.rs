//! The test desk: an order API that behaves as a good idempotent server, and plays ugly ones on command.
//!
//! It stands on the other side of the wire and judges with its own eyes: nothing in here knows how a client mints its
//! keys or compares its orders.
//!
//! ```
//! use uketsuke::testkit::{Desk, Script};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let desk = Desk::start().await;
//! desk.script(Script::new().commit_then_lose_reply().status(503).times(2).then_ok());
//!
//! // Put the client you test here. This one sends four attempts under one key, as it should.
//! let http = reqwest::Client::builder().no_proxy().build()?;
//! for _ in 0..4 {
//!     let sent = http
//!         .post(format!("{}/orders", desk.url()))
//!         .header("Idempotency-Key", "8e03978e-40d5-43dd-bc93-6894a57f9324")
//!         .body(r#"{"customer":"C-100","items":[{"sku":"SKU-1","qty":2}]}"#);
//!     let _ = sent.send().await;
//! }
//!
//! desk.assert_one_order_per_key();
//! desk.assert_one_order(|order| order["customer"] == "C-100");
//! desk.assert_nothing_suspicious();
//! desk.assert_script_played();
//! # Ok(())
//! # }
//! ```
//!
//! The rooms: [`Desk`] is what a test holds; [`Script`] says what goes wrong and when; [`Reply`] is an answer; [`ServerDialect`] says which
//! server it plays and [`Unkind`] in which way it is worse;
//! [`Ledger`] is the book of keys, apart from HTTP; [`Contents`] is what makes two requests the same order;
//! [`Seen`] is one request with what became of it; [`Suspicion`] is what smells. [`Link`] is a wire that breaks, in front of a desk or of any
//! server; [`CrashDisk`] is a disk that does, under a journal.
//!
//! wiremock handles one request at a time, so a race in a server never shows through it. The ledger's own atomicity is
//! a matter of threads on [`MemoryLedger`], not of parallel requests. Desks that share a book share a `RedisLedger` (feature `redis`), and race
//! for real.

mod builder;
mod compare;
mod control;
mod counter;
mod crash_disk;
mod desk;
mod dialect;
mod first_sent;
mod if_match;
mod key;
mod ledger;
mod link;
mod log;
mod operation;
mod reply;
mod route;
mod scope;
mod script;
mod seen;
mod shop;
mod spelling;
mod suspicion;
mod underway;

pub use builder::DeskBuilder;
pub use compare::{Contents, Unreadable};
pub use crash_disk::{CrashDisk, EveryCall, Fault, Kept};
pub use desk::{Desk, NothingStuck};
pub use dialect::{ServerDialect, Unkind, UnknownName};
#[cfg(feature = "redis")]
pub use ledger::RedisLedger;
pub use ledger::{Ask, Claim, Claimed, Ledger, LedgerError, MemoryLedger, Row, RowState, Terms};
pub use link::{Breaks, Fate, HangUp, Link, Passage};
pub use reply::Reply;
pub use route::Request;
pub use script::{BadScript, Script};
pub use seen::{Did, Seen};
pub use suspicion::Suspicion;
