//! The four identifiers' three random ones: `IdempotencyKey`, `RequestId`, `TraceId`; and the house's only door to randomness.
//!
//! Three types without a conversion between them: swapping two of them does not compile. Nothing here calls `Uuid::new_v4`: as soon as any
//! crate in the build enables uuid's `fast-rng`, a process and its forked child mint the same UUID, and two orders share one key. Bytes
//! come from the operating system instead, and a failure to get them is an error, not a panic.

use crate::invalid::Invalid;
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// The operating system gave no randomness, so nothing could be minted. Nothing was written or sent.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the operating system gave no randomness ({0}): no key was minted and nothing was sent")]
pub(crate) struct NoRandomness(String);

/// Sixteen bytes from the operating system.
#[expect(clippy::disallowed_methods, reason = "the one place that asks for randomness")]
fn random_16() -> Result<[u8; 16], NoRandomness> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| NoRandomness(e.to_string()))?;
    Ok(bytes)
}

/// A number below `ceiling` for jitter, where "no randomness" may quietly mean "no jitter".
pub(crate) fn dice(ceiling: u64) -> u64 {
    let Ok(bytes) = random_16() else { return 0 };
    let wide = u128::from_le_bytes(bytes);
    // The bias of a 128-bit modulus over a 64-bit ceiling is below 2^-64.
    u64::try_from(wide.checked_rem(u128::from(ceiling)).unwrap_or(0)).unwrap_or(0)
}

fn random_v4() -> Result<Uuid, NoRandomness> {
    Ok(uuid::Builder::from_random_bytes(random_16()?).into_uuid())
}

/// The name of one logical order: a version 4 UUID, minted once inside the journal's claim, kept through every retry, crash and restart.
///
/// On the wire it is the value of `Idempotency-Key`; its text form is always lower case with hyphens. There is no public way to make one
/// for a new order: a key given by a caller would be a key made outside the claim, and two callers would give two.
///
/// ```
/// let key: uketsuke::IdempotencyKey = "8E03978E-40D5-43DD-BC93-6894A57F9324".parse()?;
/// assert_eq!(key.to_string(), "8e03978e-40d5-43dd-bc93-6894a57f9324");
/// # Ok::<(), uketsuke::Invalid>(())
/// ```
///
/// A parsed key can be asked about ([`OrderClient::known`](crate::OrderClient::known)); it can't be submitted:
///
/// ```compile_fail
/// # async fn f(client: uketsuke::OrderClient, order: uketsuke::PlaceOrder) {
/// let key: uketsuke::IdempotencyKey = "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap();
/// client.submit(uketsuke::Origin::unknown(), &order).key(key).await;
/// # }
/// ```
///
/// ```compile_fail
/// let key = uketsuke::IdempotencyKey::mint(); // private: only the claim mints
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Uuid);

impl IdempotencyKey {
    /// Called in one place only, inside the claim's turn (`journal/claim.rs`); a test holds that.
    pub(crate) fn mint() -> Result<Self, NoRandomness> {
        random_v4().map(IdempotencyKey)
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        *self.0.as_bytes()
    }

    /// The way back; `None` where they are no key's.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        Some(Uuid::from_bytes(bytes)).filter(|id| !id.is_nil()).map(IdempotencyKey)
    }
}

/// Reads a UUID in any of its usual spellings; anything else is refused, blank text and the nil UUID above all.
impl FromStr for IdempotencyKey {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        parse_uuid("idempotency key", text).map(IdempotencyKey)
    }
}

/// Names one HTTP attempt; fresh for each. On the wire: `X-Request-Id`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestId(Uuid);

impl RequestId {
    pub(crate) fn mint() -> Result<Self, NoRandomness> {
        random_v4().map(RequestId)
    }
}

impl FromStr for RequestId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        parse_uuid("request id", text).map(RequestId)
    }
}

/// Names one opening of a journal by one process, or a journal itself. Never on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(Uuid);

impl OwnerId {
    pub(crate) fn mint() -> Result<Self, NoRandomness> {
        random_v4().map(OwnerId)
    }
}

impl FromStr for OwnerId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        parse_uuid("owner", text).map(OwnerId)
    }
}

fn parse_uuid(field: &str, text: &str) -> Result<Uuid, Invalid> {
    match Uuid::try_parse(text) {
        Ok(uuid) if !uuid.is_nil() => Ok(uuid),
        _ => Err(Invalid::new(field, "must be a UUID, such as 8e03978e-40d5-43dd-bc93-6894a57f9324")),
    }
}

/// Names the whole path from the mail to the warehouse: the trace id of W3C Trace Context, 32 lower-case hex digits, never all zero.
///
/// Given by the caller or minted per submit, and kept in the intent, so that a resume next week continues the same trace. On the wire it is
/// part of `traceparent`, with a fresh span id per attempt and the sampled flag set: an order is rare and worth its trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(u128);

impl TraceId {
    pub(crate) fn mint() -> Result<Self, NoRandomness> {
        // A v4 UUID is never zero: its version bits stand.
        random_v4().map(|uuid| TraceId(uuid.as_u128()))
    }

    /// The trace id of a `traceparent` header value (W3C Trace Context, section 3.2.2), so that the order continues the caller's trace.
    ///
    /// Refuses what the recommendation refuses: version `ff`, upper-case digits, zero ids, a version `00` value that is not exactly 55
    /// characters. A later version is read by its first four fields.
    pub fn from_traceparent(text: &str) -> Result<Self, Invalid> {
        traceparent_fields(text).ok_or_else(|| {
            Invalid::new(
                "traceparent",
                "must be 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, lower case, ids not all zero",
            )
        })
    }

    /// A `traceparent` value for one attempt, with a fresh span id.
    pub(crate) fn traceparent(self) -> Result<String, NoRandomness> {
        let [a, b, c, d, e, f, g, h, ..] = random_16()?;
        // A span id of zero is invalid; the set bit costs one bit of randomness.
        let span = u64::from_be_bytes([a, b, c, d, e, f, g, h]) | 1;
        Ok(format!("00-{:032x}-{span:016x}-01", self.0))
    }
}

/// Reads 32 lower-case hex digits, not all zero.
impl FromStr for TraceId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match lower_hex(text, 32) {
            Some(id) if id != 0 => Ok(TraceId(id)),
            _ => Err(Invalid::new("trace id", "must be 32 lower-case hex digits, not all zero")),
        }
    }
}

fn traceparent_fields(text: &str) -> Option<TraceId> {
    let mut fields = text.splitn(5, '-');
    let version = lower_hex(fields.next()?, 2)?;
    let trace = lower_hex(fields.next()?, 32)?;
    let span = lower_hex(fields.next()?, 16)?;
    let _flags = lower_hex(fields.next()?, 2)?;
    let more = fields.next();
    let sound = version != 0xff && trace != 0 && span != 0 && (version != 0 || more.is_none());
    sound.then_some(TraceId(trace))
}

fn lower_hex(text: &str, digits: usize) -> Option<u128> {
    let sound = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    sound.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// Each id's text form is its only form: shown, logged, journalled and sent alike.
macro_rules! textual {
    ($($id:ident => $form:literal),+) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $form, self.0)
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($id), "(", $form, ")"), self.0)
            }
        }

        impl serde::Serialize for $id {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $id {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

textual!(IdempotencyKey => "{}", RequestId => "{}", OwnerId => "{}", TraceId => "{:032x}");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_key_is_a_version_4_uuid_in_canonical_form() {
        let key = IdempotencyKey::mint().unwrap();
        let text = key.to_string();
        assert_eq!(key.0.get_version_num(), 4, "{text}");
        assert_eq!(text, text.to_lowercase());
        assert_eq!(text.parse::<IdempotencyKey>().unwrap(), key);
    }

    #[test]
    fn blank_nil_and_other_text_is_no_key() {
        for text in ["", "   ", "k\r\nX-Evil: 1", "00000000-0000-0000-0000-000000000000", "8e03978e"] {
            assert!(text.parse::<IdempotencyKey>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_traceparent_gives_its_trace_id_and_takes_a_fresh_span_each_time() {
        let trace = TraceId::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        let (one, two) = (trace.traceparent().unwrap(), trace.traceparent().unwrap());
        assert_ne!(one, two);
        assert_eq!(TraceId::from_traceparent(&one).unwrap(), trace);
        assert_eq!(TraceId::from_traceparent(&two).unwrap(), trace);
    }

    #[test]
    fn dice_stays_below_its_ceiling_and_a_ceiling_of_zero_is_zero() {
        assert_eq!(dice(0), 0);
        assert!((0..1000).all(|_| dice(7) < 7));
    }
}
