//! `Invalid`: what was wrong with an input, where, and what to do about it. A word; it does no I/O and never holds the value itself, since
//! values may be secrets.

/// An input that can never be right as it stands.
///
/// Returned before anything is written or sent: nothing is in the journal, no request was made, and correcting the input is safe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {cure}")]
pub struct Invalid {
    /// What was wrong, as the caller would spell it: `items[0].quantity`, `origin`, `base URL`.
    pub field: String,
    /// What is asked for, as an instruction: "must be at least 1".
    pub cure: String,
}

impl Invalid {
    /// Names the field and the cure. Put no value into either: both are shown in errors and logs.
    pub fn new(field: impl Into<String>, cure: impl Into<String>) -> Self {
        Invalid {
            field: field.into(),
            cure: cure.into(),
        }
    }
}

/// A setting that can never be right as it stands: what, and what to do about it. Returned when something is built; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidConfig(#[source] Invalid);

impl InvalidConfig {
    /// What was wrong with which setting.
    pub fn what(&self) -> &Invalid {
        &self.0
    }
}

impl From<Invalid> for InvalidConfig {
    fn from(what: Invalid) -> Self {
        InvalidConfig(what)
    }
}
