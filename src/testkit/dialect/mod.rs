//! Which server the desk plays: how real APIs take a key, and what they say about it. The desk's own table, from the vendors' pages; nothing
//! in here may be borrowed from a client.

mod names;
mod presets;
mod shape;
mod unkind;

pub use names::UnknownName;
pub use unkind::Unkind;

use names::choose;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::key::{BadKey, bare_key, key_in};
use super::reply::Reply;
use super::route::json_of;
use super::seen::{Did, Seen};

/// A server that the desk can play, by what its vendor has published.
///
/// The endpoints and the orders stay the desk's; a dialect says where the key is, how long it is kept, and what is answered to a request
/// whose key is known. Where nothing is published (a "?" in the table of `docs/desk.md`) the desk does the strict thing and says so there:
/// no lookup by key; "still running" is 409; other contents under a key are refused with 422; keys are kept for ever. [`Unkind`] plays the
/// other readings. Every write wants a key, and is refused with 400 without one.
///
/// ```
/// use uketsuke::testkit::ServerDialect;
///
/// assert_eq!("alpaca".parse(), Ok(ServerDialect::Alpaca));
/// let error = "strip".parse::<ServerDialect>().unwrap_err();
/// assert!(error.to_string().contains("did you mean stripe?"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerDialect {
    /// The IETF draft's header `Idempotency-Key`, raw or quoted, with problem+json and a vocabulary for what became of an operation.
    #[default]
    Ietf,
    /// Stripe v1. Whatever was executed is stored, a 500 too. Kept for 24 hours. *Not published:* the status of a mismatch (the desk: 400),
    /// when `Stripe-Should-Retry` says what (the desk: `true` while running, `false` for a mismatch and a replayed 5xx).
    Stripe,
    /// GoCardless. A duplicate is 409 `idempotent_creation_conflict` with the id of what exists, whatever its contents. *Not published:*
    /// retention, what is said while the first runs.
    GoCardless,
    /// Increase. Other contents are 409 `idempotency_key_already_used_error` with `resource_id`; found again by a list filter. *Not
    /// published:* what is said while the first runs, and whether errors are stored (the desk: all of them).
    Increase,
    /// Checkout.com. Only successes are stored, for 24 hours; 409 while the first runs, formerly 429 ([`Unkind::InProgressAs`]). *Not
    /// published:* mismatch, marker.
    Checkout,
    /// Square. The key is the body's `idempotency_key`, at most 45 characters; `POST /orders/cancel` with the key in its body cancels by
    /// key. *Not published:* retention, what is said while the first runs, whether errors are stored (the desk: not).
    Square,
    /// PayPal. `PayPal-Request-Id`; a repeat is 200 with the order as it stands now. Kept for 6 hours, as by Orders v2. *Not published:* the
    /// status of a mismatch (the desk: 422), whether errors are stored (the desk: not).
    PayPal,
    /// Adyen. Still running is 422 with code 704 and `transient-error: true`; the key comes back in every answer. Kept for 7 days. *Not
    /// published:* mismatch; what exactly is stored (the desk: everything but 5xx).
    Adyen,
    /// Alpaca's orders. `client_order_id` in the body has to be unique: a duplicate is 422 code 40010001 without the order, which is found
    /// by its id. *Not published:* what is said while the first runs.
    Alpaca,
    /// Coinbase Advanced Trade. `client_order_id` in the body; a repeat gets the original order, whatever its own contents. *Not
    /// published:* retention, what is said while the first runs.
    Coinbase,
    /// Toast. `externalId` in the body; a duplicate fails, and the order is found by that id. *Not published:* the duplicate's status (the
    /// desk: 400), what is said while the first runs.
    Toast,
    /// OASIS repeatable requests, as Azure speaks them: `Repeatability-Request-ID` and `Repeatability-First-Sent`. Outside of five minutes
    /// it is 412 and not run; a 5xx is not stored.
    Repeatability,
    /// Worldpay WPG. A UUID; still running is an XML error with code 9 in a 200; without its store of keys it lets everything through. Kept
    /// for a day, the shortest contract. *Not published:* mismatch (the desk: an XML error in a 200), whether errors are stored (the desk:
    /// all).
    Worldpay,
}

impl ServerDialect {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Ietf,
        Self::Stripe,
        Self::GoCardless,
        Self::Increase,
        Self::Checkout,
        Self::Square,
        Self::PayPal,
        Self::Adyen,
        Self::Alpaca,
        Self::Coinbase,
        Self::Toast,
        Self::Repeatability,
        Self::Worldpay,
    ];

    /// Its name, as it is parsed and displayed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ietf => "ietf",
            Self::Stripe => "stripe",
            Self::GoCardless => "gocardless",
            Self::Increase => "increase",
            Self::Checkout => "checkout",
            Self::Square => "square",
            Self::PayPal => "paypal",
            Self::Adyen => "adyen",
            Self::Alpaca => "alpaca",
            Self::Coinbase => "coinbase",
            Self::Toast => "toast",
            Self::Repeatability => "repeatability",
            Self::Worldpay => "worldpay",
        }
    }
}

impl fmt::Display for ServerDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ServerDialect {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        choose("dialect", name, Self::ALL.map(|dialect| (dialect.name(), dialect)))
    }
}

/// What is so at one server. A preset, after the switches have changed it.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) dialect: ServerDialect,
    pub(crate) place: Place,
    pub(crate) key: KeyRule,
    /// How long a key is kept. `None`: for ever, or nobody knows.
    pub(crate) kept: Option<Duration>,
    pub(crate) in_progress: Said,
    /// `None`: contents are not compared.
    pub(crate) mismatch: Option<Said>,
    pub(crate) stored: Stored,
    /// The header line that tells a replay.
    pub(crate) marker: Option<(&'static str, &'static str)>,
    pub(crate) duplicate: Duplicate,
    pub(crate) by_key: ByKey,
    pub(crate) withdrawal: Withdrawal,
    /// How long after it was first sent a request is still taken.
    pub(crate) window: Option<Duration>,
    pub(crate) fails_open: bool,
    pub(crate) races: bool,
    pub(crate) by_credential: bool,
    pub(crate) validates_first: bool,
}

/// Where the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the header of that name.
    Header(&'static str),
    /// In that member of the JSON body.
    Body(&'static str),
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Header(name) | Self::Body(name) => name,
        }
    }
}

/// What is a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyRule {
    /// Raw or a quoted string, which are one key.
    RawOrQuoted,
    /// Visible ASCII, no quotes, at most so long.
    Raw(usize),
    /// A UUID with hyphens.
    Uuid,
}

/// A status and the word for programs beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
}

/// Which answers are stored. What is not gives its key back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Successes,
    AllBut5xx,
    All,
}

/// What a request hears whose order exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// The stored answer.
    Replay,
    /// 200 and the order as it stands now.
    Current,
    /// An error; some shapes name the order in it.
    Error(Said),
}

/// How an order is found by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByKey {
    Nowhere,
    /// `GET /orders/by-key/{key}`.
    Path,
    /// `GET` of that path, the key in that member of the query.
    Query {
        path: &'static str,
        name: &'static str,
    },
    /// `GET /orders`, the key in that member of the query: a list of none or one.
    List {
        name: &'static str,
    },
}

/// How an order is cancelled by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withdrawal {
    Nowhere,
    /// `POST /orders/by-key/{key}/cancel`.
    Path,
    /// `POST /orders/cancel`, the key in the body.
    Body,
}

impl Facts {
    /// The key, or why there is none that a ledger could use.
    pub(crate) fn key_of(&self, seen: &Seen) -> Result<String, BadKey> {
        let in_body = match self.place {
            Place::Body(name) => json_of(seen).get(name).and_then(|key| key.as_str()).map(str::to_owned),
            Place::Header(_) => None,
        };
        let lines = match self.place {
            Place::Header(name) => seen.headers_named(name),
            Place::Body(_) => in_body.as_deref().into_iter().collect(),
        };
        match self.key {
            KeyRule::RawOrQuoted => key_in(&lines),
            KeyRule::Raw(max) => bare_key(&lines, max),
            KeyRule::Uuid => {
                let key = bare_key(&lines, 36)?;
                let is_uuid = key.len() == 36 && uuid::Uuid::try_parse(&key).is_ok();
                is_uuid.then_some(key).ok_or(BadKey::Invalid("the key is no UUID with hyphens"))
            }
        }
    }

    /// The member of the body that holds the key, which is no part of the order.
    pub(crate) fn key_member(&self) -> Option<&'static str> {
        match self.place {
            Place::Body(name) => Some(name),
            Place::Header(_) => None,
        }
    }

    /// What is wrong with the place of the key.
    pub(crate) fn bad_key(&self, bad: BadKey) -> Reply {
        match bad {
            BadKey::Missing => {
                let why = format!("the request has no {}", self.place.name());
                Reply::problem(400, "idempotency_key_missing", &why)
            }
            BadKey::Invalid(why) => Reply::problem(400, "idempotency_key_invalid", why),
        }
    }

    pub(crate) fn stores(&self, status: u16) -> bool {
        match self.stored {
            Stored::Successes => status < 400,
            Stored::AllBut5xx => status < 500,
            Stored::All => true,
        }
    }

    /// A problem of the desk's in the shape in which this server says no; `order` is the one it is about.
    pub(crate) fn dress(&self, problem: &Reply, order: Option<&str>) -> Reply {
        shape::dress(self.dialect, problem, order)
    }

    /// The header lines that this server adds to an answer which is about a key.
    pub(crate) fn signs(&self, seen: &Seen, did: Did, rejected: bool, reply: Reply) -> Reply {
        let (replayed, running) = (did == Did::Replayed, did == Did::InFlight);
        let status = reply.code();
        match self.dialect {
            ServerDialect::Stripe if running => reply.header("Stripe-Should-Retry", "true"),
            ServerDialect::Stripe if rejected || (replayed && status >= 500) => reply.header("Stripe-Should-Retry", "false"),
            ServerDialect::Adyen => {
                let again = status >= 500 || running;
                let reply = match &seen.key {
                    Some(key) => reply.header("idempotency-key", key),
                    None => reply,
                };
                match (status, again) {
                    (..400, _) => reply,
                    (_, true) => reply.header("transient-error", "true"),
                    (_, false) => reply.header("transient-error", "false"),
                }
            }
            ServerDialect::Repeatability if rejected => reply.header("Repeatability-Result", "rejected"),
            ServerDialect::Repeatability if status < 500 => reply.header("Repeatability-Result", "accepted"),
            _ => reply,
        }
    }
}
