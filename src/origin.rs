//! `Origin`: what an order came from. It is what lets a second tool call, a second agent and next week's restart meet in one order.

use crate::invalid::Invalid;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// What the order came from. The journal keeps one key per (api, operation, origin).
///
/// Give the id of the thing that *asked* for the order: a mail's Message-ID, a ticket number, a slot of a schedule. Give the same value on
/// every retry; a new value is a new order. A model's tool-call id is no origin: it changes each turn.
///
/// Two orders asked for in one mail are told apart by [`line`](Origin::line). With no origin at all, the repeat guard decides
/// ([`Origin::unknown`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Kind {
    Named {
        scheme: String,
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<String>,
    },
    Unknown,
    Distinct {
        why: String,
    },
}

/// SHA-256 over length-prefixed parts: no two lists of parts run together.
pub(crate) type Hash = [u8; 32];

pub(crate) fn hash_of<P: AsRef<[u8]>>(parts: &[P]) -> Hash {
    let mut sha = Sha256::new();
    for part in parts.iter().map(AsRef::as_ref) {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part);
    }
    sha.finalize().into()
}

/// A hash as text: which rule made it, and hex.
pub(crate) fn spelt(rule: &str, hash: Hash) -> String {
    let digits = hash.into_iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    let hex = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
    rule.chars().chain(hex).collect()
}

impl Origin {
    /// A mail, by its Message-ID. Surrounding blanks and angle brackets don't matter: `<1@x>` and `1@x` are one origin.
    pub fn mail(message_id: impl Into<String>) -> Self {
        let id = message_id.into();
        let id = id.trim();
        let bare = id.strip_prefix('<').and_then(|id| id.strip_suffix('>')).unwrap_or(id);
        Origin::custom("mail", bare.trim())
    }

    /// Anything else with an id that stays the same: `Origin::custom("ticket", "T-1017")`.
    pub fn custom(scheme: impl Into<String>, id: impl Into<String>) -> Self {
        // Blanks at the ends are how one thing gets two names.
        Origin(Kind::Named {
            scheme: scheme.into().trim().to_owned(),
            id: id.into().trim().to_owned(),
            line: None,
        })
    }

    /// Which of several orders from the same source this is. Means nothing where there is no source.
    #[must_use]
    pub fn line(mut self, line: impl fmt::Display) -> Self {
        if let Kind::Named { line: place, .. } = &mut self.0 {
            *place = Some(line.to_string().trim().to_owned());
        }
        self
    }

    /// No origin is known. The repeat guard decides: the same contents for the same api within its window (default 24 h), or an order with
    /// the same contents whose outcome is still open, is answered by an error of kind `LikelyRepeat` and nothing is sent.
    pub fn unknown() -> Self {
        Origin(Kind::Unknown)
    }

    /// No origin is known, and the caller vouches that this is another order. Passes the repeat guard; the journal keeps the why.
    pub fn distinct(why: impl Into<String>) -> Self {
        Origin(Kind::Distinct { why: why.into() })
    }

    /// Identity within one api (`Some(api)`) or over all of them (`None`); nothing where no source is named.
    pub(crate) fn hash(&self, api: Option<&str>, operation: &str) -> Option<Hash> {
        let Kind::Named { scheme, id, line } = &self.0 else {
            return None;
        };
        let line = line.as_deref().map(|l| format!("line {l}")).unwrap_or_default();
        Some(match api {
            Some(api) => hash_of(&["origin", api, operation, scheme, id, &line]),
            None => hash_of(&["source", operation, scheme, id, &line]),
        })
    }

    /// Why it is another order, in the words of whoever vouched for that.
    pub(crate) fn vouched(&self) -> Option<&str> {
        match &self.0 {
            Kind::Distinct { why } => Some(why),
            Kind::Named { .. } | Kind::Unknown => None,
        }
    }

    /// Whether the repeat guard has to be asked.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.0, Kind::Unknown)
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let texts: &[(&str, &str)] = match &self.0 {
            Kind::Named { scheme, id, line } => &[
                ("origin.scheme", scheme),
                ("origin.id", id),
                ("origin.line", line.as_deref().unwrap_or("-")),
            ],
            Kind::Distinct { why } => &[("origin.why", why)],
            Kind::Unknown => &[],
        };
        for (field, text) in texts {
            if text.trim().is_empty() {
                return Err(Invalid::new(
                    *field,
                    "must not be blank: a blank origin would make every order without one the same order; use Origin::unknown()",
                ));
            }
            if text.chars().any(char::is_control) {
                return Err(Invalid::new(*field, "must hold no control characters"));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Named { scheme, id, line: None } => write!(f, "{scheme} {id}"),
            Kind::Named {
                scheme,
                id,
                line: Some(line),
            } => write!(f, "{scheme} {id} line {line}"),
            Kind::Unknown => f.write_str("unknown"),
            Kind::Distinct { .. } => f.write_str("unknown, vouched for as distinct"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_and_blanks_around_a_message_id_make_no_second_origin() {
        assert_eq!(Origin::mail(" <1@example.com> "), Origin::mail("1@example.com"));
        assert_ne!(Origin::mail("<1@example.com>"), Origin::mail("<2@example.com>"));
    }

    #[test]
    fn parts_never_run_together() {
        let hash = |o: Origin| o.hash(Some("api"), "place_order");
        assert_ne!(hash(Origin::custom("a", "bc")), hash(Origin::custom("ab", "c")));
        assert_ne!(hash(Origin::custom("a", "b")), hash(Origin::custom("a", "b").line("")));
        assert_ne!(hash(Origin::custom("a", "b").line(1)), hash(Origin::custom("a", "b").line(2)));
        assert_eq!(hash(Origin::unknown()), None);
    }

    #[test]
    fn a_blank_origin_is_refused() {
        for blank in [Origin::mail(""), Origin::mail("<>"), Origin::custom("x", " "), Origin::distinct("")] {
            assert!(blank.check().is_err(), "{blank:?}");
        }
        assert!(Origin::custom("x", "a\nb").check().is_err());
    }
}
