//! What the gate refuses and how it says so: `Refused` with its path, every wording, and the rules both doors share. Names may be shown,
//! values never.

use std::fmt::{self, Display};

use serde::{de, ser};
use serde_json::Number;

use crate::invalid::Invalid;

pub(super) const TOO_LARGE: &str = "integers beyond ±(2^53−1) are not exact in JSON everywhere: send it as a string";
pub(super) const NOT_FINITE: &str = "must be a finite number: JSON knows no NaN and no infinity, and would say null instead";
pub(super) const TOO_DEEP: &str = "must not be nested deeper than 64 levels: flatten it";
pub(super) const DOUBLED: &str = "must be named only once in its object: readers disagree on which of the two counts";
pub(super) const UNNAMEABLE: &str = "map keys must be strings, integers, booleans or characters";
pub(super) const UNCHECKED: &str = "raw JSON can't be checked here: pass the parsed value";
pub(super) const RESERVED_NAME: &str = "must be renamed: this name has a meaning of its own to serde_json";
pub(super) const UNASKED: &str = "is not known here: check the spelling or leave it out";
pub(super) const OWN_WRITER: &str =
    "its own Serialize refused to write it (the reason is left out because it may quote the value): check it there";
pub(super) const OWN_READER: &str =
    "its own Deserialize refused to read it (the reason is left out because it may quote the value): check it there";

pub(super) type Checked<T> = Result<T, Refused>;

/// A refusal on its way out. Each container it passes adds one step, so that the path costs nothing as long as all goes well.
#[derive(Debug)]
pub(super) struct Refused {
    /// Innermost first.
    steps: Vec<Step>,
    cure: String,
}

#[derive(Debug)]
pub(super) enum Step {
    Name(String),
    Index(usize),
}

pub(super) fn refuse<T>(cure: &str) -> Checked<T> {
    Err(Refused::here(cure))
}

impl Refused {
    pub(super) fn here(cure: impl Into<String>) -> Self {
        Refused {
            steps: Vec::new(),
            cure: cure.into(),
        }
    }

    pub(super) fn under(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    pub(super) fn named(self, name: impl Into<String>) -> Self {
        self.under(Step::Name(name.into()))
    }

    pub(super) fn into_invalid(self, what: &str) -> Invalid {
        let mut field = String::new();
        for step in self.steps.iter().rev() {
            field += &match step {
                Step::Index(index) => format!("[{index}]"),
                Step::Name(name) if !is_plain(name) => format!("[{:?}]", clipped(name)),
                Step::Name(name) if field.is_empty() => name.clone(),
                Step::Name(name) => format!(".{name}"),
            };
        }
        if field.is_empty() || field.starts_with('[') {
            field.insert_str(0, what);
        }
        Invalid::new(field, self.cure)
    }
}

/// Whether a name can stand in a path as it is. Others are quoted, so that a name with dots or line breaks cannot pose as a path.
fn is_plain(name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    (1..=NAME_SHOWN_MAX).contains(&name.len()) && name.chars().all(word)
}

/// Names come from outside and end in logs: a megabyte of name helps nobody there.
const NAME_SHOWN_MAX: usize = 64;

fn clipped(name: &str) -> String {
    name.chars().take(NAME_SHOWN_MAX).collect()
}

impl Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cure)
    }
}

impl std::error::Error for Refused {}

impl ser::Error for Refused {
    /// The message may quote the value, so it goes no further.
    fn custom<T: Display>(_message: T) -> Self {
        Refused::here(OWN_WRITER)
    }
}

/// serde's defaults would quote what was found (invalid value: integer -5); ours say only what is asked for.
impl de::Error for Refused {
    /// The message may quote the value, so it goes no further.
    fn custom<T: Display>(_message: T) -> Self {
        Refused::here(OWN_READER)
    }

    fn invalid_type(_found: de::Unexpected<'_>, asked: &dyn de::Expected) -> Self {
        Refused::here(format!("must be {asked}"))
    }

    fn invalid_value(_found: de::Unexpected<'_>, asked: &dyn de::Expected) -> Self {
        Refused::here(format!("must be {asked}"))
    }

    fn invalid_length(_found: usize, asked: &dyn de::Expected) -> Self {
        Refused::here(format!("must be {asked}"))
    }

    fn unknown_variant(_found: &str, known: &'static [&'static str]) -> Self {
        Refused::here(format!("must be one of: {}", known.join(", ")))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        let cure = match known {
            [] => UNASKED.to_owned(),
            known => format!("{UNASKED} (known are: {})", known.join(", ")),
        };
        Refused::here(cure).named(name)
    }

    fn missing_field(name: &'static str) -> Self {
        Refused::here("must be given").named(name)
    }

    fn duplicate_field(name: &'static str) -> Self {
        Refused::here(DOUBLED).named(name)
    }
}

/// Containers may be nested this deep. Well under the 128 at which serde_json's own parser stops, and far from any stack's end.
const DEPTH_MAX: usize = 64;

pub(super) fn one_deeper(depth: usize) -> Checked<usize> {
    if depth < DEPTH_MAX { Ok(depth + 1) } else { refuse(TOO_DEEP) }
}

/// 2^53 − 1, the largest integer whose neighbours an IEEE double can still tell apart (RFC 7493, section 2.2).
pub(super) const INTEGER_MAX: i64 = (1 << 53) - 1;

pub(super) fn exact_integer(n: impl TryInto<i64>) -> Checked<i64> {
    match n.try_into() {
        Ok(n) if (-INTEGER_MAX..=INTEGER_MAX).contains(&n) => Ok(n),
        _ => refuse(TOO_LARGE),
    }
}

pub(super) fn exact_float(x: f64) -> Checked<f64> {
    if !x.is_finite() {
        refuse(NOT_FINITE)
    } else if x.abs() > INTEGER_MAX as f64 {
        // Doubles this large have no fraction left: each one is an integer, and stands for its neighbours too.
        refuse(TOO_LARGE)
    } else {
        Ok(x)
    }
}

/// The same two rules for a number that `arbitrary_precision` kept as text; the text must follow JSON's grammar for numbers.
pub(super) fn exact_digits(digits: &str) -> Checked<Number> {
    if digits.contains(['.', 'e', 'E']) {
        let x = exact_float(digits.parse().unwrap_or(f64::NAN))?;
        Number::from_f64(x).ok_or_else(|| Refused::here(NOT_FINITE))
    } else {
        exact_integer(digits.parse().unwrap_or(i64::MAX)).map(Number::from)
    }
}

/// How serde_json smuggles its own types through serde. Real members may not carry such names: some readers would take them for the type.
const RESERVED: &str = "$serde_json::private::";
/// A `serde_json::Number` when someone in the build has switched on `arbitrary_precision`.
pub(super) const NUMBER: &str = "$serde_json::private::Number";
/// A `serde_json::value::RawValue`.
pub(super) const RAW_VALUE: &str = "$serde_json::private::RawValue";

pub(super) fn is_reserved(name: &[u8]) -> bool {
    name.starts_with(RESERVED.as_bytes())
}
