//! The table of facts, a row per server. What a vendor has not published is marked `// ?`, and the desk does the strict thing there.

use std::time::Duration;

use super::{ByKey, Duplicate, Facts, KeyRule, Place, Said, ServerDialect, Stored, Withdrawal};
use crate::testkit::key::KEY_HEADER;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const REPLAYED: Option<(&str, &str)> = Some(("Idempotent-Replayed", "true"));

const fn said(status: u16, code: &'static str) -> Said {
    Said { status, code }
}

/// What the desk says where a vendor has published nothing.
const RUNNING: Said = said(409, "idempotency_in_flight");
const OTHER_CONTENTS: Said = said(422, "idempotency_conflict");

impl ServerDialect {
    pub(crate) fn facts(self) -> Facts {
        match self {
            Self::Ietf => Facts {
                by_key: ByKey::Path,
                withdrawal: Withdrawal::Path,
                ..plain(self)
            },
            Self::Stripe => Facts {
                key: KeyRule::Raw(255),
                kept: Some(DAY),
                in_progress: said(409, "idempotency_key_in_use"),
                mismatch: Some(said(400, "idempotency_error")), // ? the status
                ..plain(self)
            },
            Self::GoCardless => Facts {
                key: KeyRule::Raw(255), // ?
                mismatch: None,
                stored: Stored::Successes,
                marker: None,
                duplicate: Duplicate::Error(said(409, "idempotent_creation_conflict")),
                ..plain(self)
            },
            Self::Increase => Facts {
                key: KeyRule::Raw(200),
                mismatch: Some(said(409, "idempotency_key_already_used_error")),
                by_key: ByKey::List { name: "idempotency_key" },
                ..plain(self)
            },
            Self::Checkout => Facts {
                place: Place::Header("cko-idempotency-key"),
                key: KeyRule::Raw(255), // ?
                kept: Some(DAY),
                in_progress: said(409, "request_in_progress"),
                stored: Stored::Successes,
                marker: None, // ?
                ..plain(self)
            },
            Self::Square => Facts {
                place: Place::Body("idempotency_key"),
                key: KeyRule::Raw(45),
                mismatch: Some(said(400, "IDEMPOTENCY_KEY_REUSED")),
                stored: Stored::Successes,     // ?
                marker: None,                  // ?
                duplicate: Duplicate::Current, // 200 and what exists
                withdrawal: Withdrawal::Body,
                ..plain(self)
            },
            Self::PayPal => Facts {
                place: Place::Header("paypal-request-id"),
                key: KeyRule::Raw(108),
                kept: Some(HOUR.saturating_mul(6)),
                in_progress: said(409, "PREVIOUS_REQUEST_IN_PROGRESS"),
                mismatch: Some(said(422, "DUPLICATE_REQUEST_ID")), // ? the status
                stored: Stored::Successes,                         // ?
                marker: None,
                duplicate: Duplicate::Current,
                ..plain(self)
            },
            Self::Adyen => Facts {
                key: KeyRule::Raw(64),
                kept: Some(DAY.saturating_mul(7)),
                in_progress: said(422, "704"),
                stored: Stored::AllBut5xx, // ?
                marker: None,
                ..plain(self)
            },
            Self::Alpaca => Facts {
                place: Place::Body("client_order_id"),
                key: KeyRule::Raw(48),
                mismatch: None,
                stored: Stored::Successes,
                marker: None,
                duplicate: Duplicate::Error(said(422, "40010001")),
                by_key: ByKey::Query {
                    path: "/orders:by_client_order_id",
                    name: "client_order_id",
                },
                ..plain(self)
            },
            Self::Coinbase => Facts {
                place: Place::Body("client_order_id"),
                key: KeyRule::Raw(255), // ?
                mismatch: None,
                stored: Stored::Successes,
                marker: None,
                ..plain(self)
            },
            Self::Toast => Facts {
                place: Place::Body("externalId"),
                key: KeyRule::Raw(255), // ?
                mismatch: None,
                stored: Stored::Successes,
                marker: None,
                duplicate: Duplicate::Error(said(400, "duplicate_external_id")), // ? status and code
                by_key: ByKey::Query {
                    path: "/orders",
                    name: "externalId",
                },
                ..plain(self)
            },
            Self::Repeatability => Facts {
                place: Place::Header("repeatability-request-id"),
                key: KeyRule::Uuid,
                kept: Some(MINUTE.saturating_mul(5)),
                mismatch: Some(said(400, "RepeatabilityRequestIdReused")),
                stored: Stored::AllBut5xx,
                marker: None,
                window: Some(MINUTE.saturating_mul(5)),
                ..plain(self)
            },
            Self::Worldpay => Facts {
                key: KeyRule::Uuid,
                kept: Some(DAY),
                in_progress: said(200, "9"),
                mismatch: Some(said(200, "other-contents")), // ?
                marker: None,                                // ?
                fails_open: true,
                ..plain(self)
            },
        }
    }
}

/// The draft's header, everything stored and replayed with the marker, nothing found by its key: what the others differ from.
fn plain(dialect: ServerDialect) -> Facts {
    Facts {
        dialect,
        place: Place::Header(KEY_HEADER),
        key: KeyRule::RawOrQuoted,
        kept: None,
        in_progress: RUNNING,
        mismatch: Some(OTHER_CONTENTS),
        stored: Stored::All,
        marker: REPLAYED,
        duplicate: Duplicate::Replay,
        by_key: ByKey::Nowhere,
        withdrawal: Withdrawal::Nowhere,
        window: None,
        fails_open: false,
        races: false,
        by_credential: false,
        validates_first: false,
    }
}
