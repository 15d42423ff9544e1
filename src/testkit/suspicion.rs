//! What smells, though the ledger let it pass: a pure judgement over the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tokio::time::Instant;

use super::log::{Entry, Kind};
use super::scope::tenant;
use super::seen::{Did, Seen};

/// Something about the requests that a careful client does not do, even where no harm was done this time.
///
/// `Display` says it in a sentence; the numbers are those of [`Seen::number`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Suspicion {
    /// The same order came under another key while the first key had got no definite answer: the key was minted inside
    /// a retry. On a desk that works, this is how one order becomes two.
    ///
    /// A lost reply, 5xx, a redirect, 202, 401, 403, 408, 409 while processing, 425, 429 and an answer still on its way
    /// are not definite. Two equal orders sent side by side on purpose look the same from here.
    MintedInRetry {
        /// The last request of the earlier key with these contents.
        earlier: usize,
        /// Its key.
        earlier_key: String,
        /// The first request of the later key.
        later: usize,
        /// Its key.
        later_key: String,
    },
    /// One key was used for two different requests.
    KeyReused {
        /// The key.
        key: String,
        /// The first request under it.
        first: usize,
        /// The first one with other contents.
        second: usize,
    },
    /// Two requests had one `X-Request-Id`, which names a single attempt.
    RequestIdReused {
        /// The request id.
        request_id: String,
        /// The first request with it.
        first: usize,
        /// The one after.
        second: usize,
    },
    /// A key is not a version 4 UUID with hyphens, so nobody knows how unlikely a second one like it is.
    NotUuidV4 {
        /// The key.
        key: String,
        /// The first request under it.
        number: usize,
    },
    /// A request that carries an order had no usable key.
    NoKey {
        /// The request.
        number: usize,
    },
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MintedInRetry {
                earlier,
                earlier_key,
                later,
                later_key,
            } => write!(
                f,
                "the key {later_key} of request #{later} was minted inside a retry: #{earlier} is the same order under \
                 the key {earlier_key}, which had no definite answer yet"
            ),
            Self::KeyReused { key, first, second } => {
                write!(f, "the key {key} of request #{first} came again in #{second} with other contents")
            }
            Self::RequestIdReused { request_id, first, second } => {
                write!(f, "the requests #{first} and #{second} have one request id, {request_id}")
            }
            Self::NotUuidV4 { key, number } => {
                write!(f, "the key {key} of request #{number} is no UUID v4")
            }
            Self::NoKey { number } => write!(f, "request #{number} carries an order and has no usable key"),
        }
    }
}

/// All suspicions, by the number of the request that gave rise to them.
pub(crate) fn suspicions(entries: &[Entry]) -> Vec<Suspicion> {
    let orders = || entries.iter().filter(|entry| entry.kind == Kind::Order);
    let mut tenants: BTreeMap<Option<&str>, Vec<&Entry>> = BTreeMap::new();
    for order in orders() {
        tenants.entry(tenant(&order.seen)).or_default().push(order);
    }
    // One tenant's keys and orders are nothing to another's.
    let mut found: Vec<(usize, Suspicion)> = tenants.values().flat_map(|orders| of_one_tenant(orders)).collect();
    let mut request_ids = BTreeMap::new();
    found.extend(orders().filter_map(|entry| Some((entry.seen.number, request_id_reused(&entry.seen, &mut request_ids)?))));
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, suspicion)| suspicion).collect()
}

fn of_one_tenant(orders: &[&Entry]) -> Vec<(usize, Suspicion)> {
    let mut found = Vec::new();
    let (mut keys, mut reused) = (BTreeSet::new(), BTreeSet::new());
    for (place, entry) in orders.iter().enumerate() {
        let (earlier, number) = (orders.split_at(place).0, entry.seen.number);
        let mut suspect = |suspicion: Option<Suspicion>| found.extend(suspicion.map(|suspicion| (number, suspicion)));
        match &entry.seen.key {
            None => suspect(Some(Suspicion::NoKey { number })),
            Some(key) if keys.insert(key.as_str()) => {
                suspect(not_uuid_v4(&entry.seen, key));
                suspect(minted_in_retry(entry, key, earlier));
            }
            Some(key) if !reused.contains(key.as_str()) => {
                let suspicion = key_reused(entry, key, earlier);
                reused.extend(suspicion.is_some().then_some(key.as_str()));
                suspect(suspicion);
            }
            Some(_) => {}
        }
    }
    found
}

fn minted_in_retry(later: &Entry, later_key: &str, earlier: &[&Entry]) -> Option<Suspicion> {
    let contents = later.contents.as_ref()?;
    let same_order = || earlier.iter().filter(|entry| entry.contents.as_ref() == Some(contents));
    let answered = |key: &str| same_order().any(|entry| is_of(entry, key) && is_definite(entry, later.arrived));
    let suspect = same_order()
        .rev()
        .find(|entry| entry.seen.key.as_deref().is_some_and(|key| !answered(key)))?;
    Some(Suspicion::MintedInRetry {
        earlier: suspect.seen.number,
        earlier_key: suspect.seen.key.clone()?,
        later: later.seen.number,
        later_key: later_key.to_owned(),
    })
}

fn key_reused(entry: &Entry, key: &str, earlier: &[&Entry]) -> Option<Suspicion> {
    let first = earlier.iter().find(|entry| is_of(entry, key))?;
    (first.contents != entry.contents).then(|| Suspicion::KeyReused {
        key: key.to_owned(),
        first: first.seen.number,
        second: entry.seen.number,
    })
}

fn request_id_reused<'a>(seen: &'a Seen, known: &mut BTreeMap<&'a str, usize>) -> Option<Suspicion> {
    let request_id = seen.request_id.as_deref()?;
    let first = known.insert(request_id, seen.number)?;
    Some(Suspicion::RequestIdReused {
        request_id: request_id.to_owned(),
        first,
        second: seen.number,
    })
}

fn not_uuid_v4(seen: &Seen, key: &str) -> Option<Suspicion> {
    // The hyphenated form only: the parser takes braces and `urn:uuid:` as well, a server may not.
    let uuid = (key.len() == 36).then(|| uuid::Uuid::try_parse(key).ok()).flatten();
    let is_v4 = uuid.is_some_and(|id| id.get_version_num() == 4 && id.get_variant() == uuid::Variant::RFC4122);
    (!is_v4).then(|| Suspicion::NotUuidV4 {
        key: key.to_owned(),
        number: seen.number,
    })
}

fn is_of(entry: &Entry, key: &str) -> bool {
    entry.seen.key.as_deref() == Some(key)
}

/// Whether the client knew by then what had become of the order.
fn is_definite(entry: &Entry, by: Instant) -> bool {
    let told = entry.answered.is_some_and(|answered| answered <= by);
    // A 200 may say "still running" too.
    told && entry.seen.did != Did::InFlight
        && entry.seen.status.is_some_and(|status| match status {
            202 | 208 => false,
            409 => matches!(entry.seen.did, Did::Claimed | Did::Replayed | Did::Duplicate | Did::Closed),
            401 | 403 | 407 | 408 | 421 | 423 | 425 | 429 => false,
            _ => (200..300).contains(&status) || (400..500).contains(&status),
        })
}
