//! `Operation`: one kind of request with an effect; and the words it is made of: where it goes (`route.rs`), what it acts on (`subject.rs`), how
//! much is at stake (`stake.rs`).

mod route;
mod stake;
mod subject;

pub use route::{Method, Route};
pub(crate) use route::{OURS, decoded, push_encoded};
pub use stake::{Amount, Stake};
pub(crate) use subject::Placed;
pub use subject::{Becomes, OrderRef, Subject};

use crate::{answer::Answer, invalid::Invalid};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// One kind of order: what it is called, where it goes, what counts as success. The order's contents are the type's own `Serialize` form.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use uketsuke::{Operation, Route};
///
/// #[derive(Serialize)]
/// struct BookRoom {
///     #[serde(skip)]
///     hotel: String,
///     nights: u32,
/// }
///
/// #[derive(Deserialize)]
/// struct Booking {
///     reference: String,
/// }
///
/// impl Operation for BookRoom {
///     type Receipt = Booking;
///     const NAME: &'static str = "book_room";
///     const RECEIPT_HAS: &'static [&'static str] = &["/reference"];
///     fn route(&self) -> Route {
///         Route::post("hotels").segment(&self.hotel).then("bookings")
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an order uketsuke can submit",
    note = "derive `serde::Serialize` and implement `Operation`: NAME, Receipt, route()"
)]
pub trait Operation: Serialize {
    /// What the caller gets back, read from the stored answer as often as asked.
    type Receipt: DeserializeOwned;

    /// The operation's name: part of the claim, so `cancel_order` and `place_order` from one mail are two orders.
    const NAME: &'static str;

    /// JSON pointers (RFC 6901) that the body of a success must hold. Kept in the intent, so that submit and resume judge one answer alike.
    /// Default: none; then an empty body is a success too.
    const RECEIPT_HAS: &'static [&'static str] = &[];

    /// Method, path, query and the headers that belong to the order.
    fn route(&self) -> Route;

    /// Refuses what can never be right, before anything is written or sent. Default: everything passes.
    fn check(&self) -> Result<(), Invalid> {
        Ok(())
    }

    /// How much is at stake. The default policy asks a person about [`Impact::High`]. Default: normal.
    fn impact(&self) -> Impact {
        Impact::Normal
    }

    /// What is at stake: quantities, items, an amount, for limits to be held against. What it does not name, no limit can allow: an order
    /// that a rule can't be held against waits for a person. Default: nothing is named.
    fn stake(&self) -> Stake {
        Stake::default()
    }

    /// The order that this one changes or ends, and where it can be read: a person who is asked about it is shown what would change. Default:
    /// none, it makes something new.
    fn subject(&self) -> Option<Subject> {
        None
    }

    /// How the contents stand in the body. Default: JSON.
    fn encoding(&self) -> Encoding {
        Encoding::Json
    }

    /// Reads the receipt from a success. Default: the body as JSON, an empty body as `{}`.
    fn receipt(answer: &Answer) -> Result<Self::Receipt, Unreadable> {
        let body = if answer.body().is_empty() { b"{}" } else { answer.body() };
        // serde's message may quote the answer; the place is enough to find it in the journal.
        serde_json::from_slice(body).map_err(|e| Unreadable {
            why: format!("line {}, column {} does not fit the receipt's type", e.line(), e.column()),
        })
    }
}

/// A success whose receipt the caller's type can't read. The order was processed; the journal keeps the answer as it came.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the answer holds no such receipt: {why}")]
pub struct Unreadable {
    /// Where it went wrong; never the answer itself.
    pub why: String,
}

impl Unreadable {
    /// For an own [`Operation::receipt`]. Put nothing of the answer into it.
    pub fn new(why: impl Into<String>) -> Self {
        Unreadable { why: why.into() }
    }
}

/// How much is at stake with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Impact {
    /// An ordinary order.
    Normal,
    /// It changes or ends something that stands: the default policy asks a person.
    High,
}

/// How an order's contents stand in the request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/x-www-form-urlencoded`; the contents must be one flat object of texts, numbers and booleans.
    Form,
    /// No body; the contents still count for the fingerprint.
    Empty,
}
