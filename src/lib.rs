//! **Uketsuke** (受付, reception desk): the client side of never ordering twice.
//!
//! One logical order gets one `Idempotency-Key`, minted once, outside every retry, and written durably to a local journal before the first
//! byte leaves. Whatever happens after (a lost reply, a crash, a second agent reading the same mail, a restart next week), the same order is
//! only ever spoken of under that key, with the same bytes, until its outcome is known or a person decides.
//!
//! ```no_run
//! use uketsuke::{Actor, Api, Journal, OrderClient, Origin, Outcome, PlaceOrder};
//!
//! # async fn agent(token: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let journal = Journal::open("./journal").await?;
//! let api = Api::builder("https://orders.example.com/v1").bearer(token).build()?;
//! let client = OrderClient::new(journal, api, Actor::agent("order-agent"));
//! client.resume_pending().await?; // first, whatever a crash left open
//!
//! let order = PlaceOrder::new("C-100").item("SKU-1", 2).deliver_by("2026-12-01".parse()?);
//! match client.submit(Origin::mail("<1@example.com>"), &order).await? {
//!     Outcome::Succeeded(receipt) => println!("order {:?} under {}", receipt.value.order_id, receipt.key),
//!     other => println!("{}: {}", other.key(), other.next_step()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # It is not
//!
//! - a queue: it sends now, in your process;
//! - an exactly-once network: the server must honour the key, for as long as it says it does;
//! - a secret store: credentials never enter the journal;
//! - a workflow engine, nor a wrapper for a vendor's SDK: it sends the HTTP itself, or it could promise nothing.
//!
//! # Where to start
//!
//! [`OrderClient::submit`] submits; [`Error::effect`] says whether an order may have been processed, [`Error::next_step`] what to do;
//! [`OrderClient::resume_pending`] goes on after a crash. Your own endpoint is an [`Operation`]; [`AmendOrder`] and [`CancelOrder`] wait for a person,
//! who holds an [`Operator`]. With the feature `testkit`, the module
//! `testkit` has a desk that plays ugly servers, for tests of your own agent.

// floor 0: words
mod future;
mod invalid;

mod actor;
mod answer;
mod clock;
mod disk;
mod fingerprint;
mod gate;
mod ids;
mod intent;
mod lifecycle;
mod operation;
mod order;
mod origin;
mod ruling;
mod visible;
// floor 1: books and judges
pub mod audit;
pub mod journal;
mod policy;
// floor 2: one attempt
mod api;
mod attempt;
mod dialect;
pub mod unversioned;
// floor 3: the stories
mod engine;
mod outcome;
mod recovery;
// floor 4: the front door
mod client;
mod operator;
// the garden shed: the server's side only
#[cfg(feature = "testkit")]
pub mod testkit;

pub use actor::Actor;
pub use answer::{Answer, Head};
pub use api::{Api, ApiBuilder};
pub use attempt::{
    budget::RetryBudget,
    credential::{Credential, CredentialError, Credentials},
    http::Plain,
    pace::Pacing,
    timeouts::Timeouts,
};
pub use audit::Audit;
pub use client::{OrderClient, OrderClientBuilder, Submit};
pub use clock::{Boot, Clock, SystemClock, Timestamp};
pub use dialect::{Asked, CommitBefore5xx, Concurrent, Dialect, Duplicates, KeyScope, LookupReads, Reading};
pub use fingerprint::Fingerprint;
pub use future::BoxFuture;
pub use ids::{IdempotencyKey, OwnerId, TraceId};
pub use intent::{Columns, Draft, KeyPlace};
pub use invalid::{Invalid, InvalidConfig};
pub use journal::{Finding, Journal, JournalBuilder, JournalError};
pub use lifecycle::{Effect, ReviewReason, TurnedAway, Verb};
pub use operation::{Amount, Becomes, Encoding, Impact, Method, Operation, OrderRef, Route, Stake, Subject, Unreadable};
pub use operator::{Entry, Freed, Operator, OrderStory, Shelf, Skip, Skipped, Sweep};
pub use order::{AmendOrder, Base, CancelOrder, Date, JsonOrder, OrderReceipt, PlaceOrder};
pub use origin::Origin;
pub use outcome::{
    Denial, Error, ErrorKind, Existing, NextStep, NotPlaced, Outcome, Raw, Receipt, Refusal, Review, Stopped, Ticket, ToolReply,
};
pub use policy::{DefaultPolicy, Policy, Proposal, RuleError, RuleSet};
pub use recovery::{Examination, LeftAlone, Resumed, Resuming, Resumption, Why};
pub use ruling::{Because, Change, DailyLimit, Otherwise, Preview, Ruling};

/// README's programs are compiled, and the chapters'.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/testing-your-agent.md")]
#[doc = include_str!("../docs/dialects.md")]
#[doc = include_str!("../docs/approval.md")]
#[doc = include_str!("../docs/policy.md")]
#[doc = include_str!("../docs/audit.md")]
struct Readme;
