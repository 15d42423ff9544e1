//! Switches that make a server unkind: what no client can change and some servers do.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::names::{UnknownName, choose};
use super::{Duplicate, Facts, Stored};

/// One way in which a server is harder to live with than it need be; see [`DeskBuilder::unkind`](crate::testkit::DeskBuilder::unkind).
///
/// ```
/// use std::time::Duration;
/// use uketsuke::testkit::Unkind;
///
/// assert_eq!("races".parse(), Ok(Unkind::Races));
/// assert_eq!("forgets-after=60".parse(), Ok(Unkind::ForgetsAfter(Duration::from_secs(60))));
/// assert_eq!(Unkind::StoresServerErrors(false).to_string(), "stores-server-errors=false");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unkind {
    /// `races`: a second request whose key is still processing runs too.
    Races,
    /// `forgets-after=SECONDS`: a finished key is forgotten after this time, and the next request under it is a new order.
    ForgetsAfter(Duration),
    /// `scopes-by-credential`: a key belongs to the `Authorization` it came with. A retry under a new token is a new order.
    ScopesByCredential,
    /// `validates-first`: judges the order by the rules of the day, and a change by the order as it stands, before it looks at the key; see
    /// [`Desk::refuse_from_now_on`](crate::testkit::Desk::refuse_from_now_on). The repeat of a change that was made is refused with 412 or 409.
    ValidatesFirst,
    /// `fails-open`: does the work if the ledger can't be reached.
    FailsOpen,
    /// `stores-server-errors=true|false`: whether a 5xx is stored and replayed, or gives its key back and is run again.
    StoresServerErrors(bool),
    /// `ignores-mismatch`: other contents under a known key get the first one's answer.
    IgnoresMismatch,
    /// `current-state`: a repeat is answered 200 with the order as it stands now, not with the stored answer.
    CurrentState,
    /// `in-progress-as=STATUS`: while the first runs, says this status: 429 as Checkout.com once did, 208 as PicPay does.
    InProgressAs(u16),
}

impl Unkind {
    pub(crate) fn change(self, facts: &mut Facts) {
        match self {
            Self::Races => facts.races = true,
            Self::ForgetsAfter(time) => facts.kept = Some(time),
            Self::ScopesByCredential => facts.by_credential = true,
            Self::ValidatesFirst => facts.validates_first = true,
            Self::FailsOpen => facts.fails_open = true,
            Self::StoresServerErrors(true) => facts.stored = Stored::All,
            Self::StoresServerErrors(false) if facts.stored == Stored::All => facts.stored = Stored::AllBut5xx,
            Self::StoresServerErrors(false) => {}
            Self::IgnoresMismatch => facts.mismatch = None,
            Self::CurrentState => facts.duplicate = Duplicate::Current,
            Self::InProgressAs(status) => facts.in_progress.status = status,
        }
    }
}

impl fmt::Display for Unkind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Races => f.write_str("races"),
            Self::ForgetsAfter(time) => write!(f, "forgets-after={}", time.as_secs_f64()),
            Self::ScopesByCredential => f.write_str("scopes-by-credential"),
            Self::ValidatesFirst => f.write_str("validates-first"),
            Self::FailsOpen => f.write_str("fails-open"),
            Self::StoresServerErrors(stored) => write!(f, "stores-server-errors={stored}"),
            Self::IgnoresMismatch => f.write_str("ignores-mismatch"),
            Self::CurrentState => f.write_str("current-state"),
            Self::InProgressAs(status) => write!(f, "in-progress-as={status}"),
        }
    }
}

impl FromStr for Unkind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let plain = |switch| value.is_none().then_some(switch);
        let seconds = value.and_then(|value| Duration::try_from_secs_f64(value.parse().ok()?).ok());
        let stored = value.map_or(Some(true), |value| value.parse().ok());
        let status = value.and_then(|value| value.parse().ok());
        let switch = choose(
            "switch",
            name,
            [
                ("races", plain(Self::Races)),
                ("forgets-after", seconds.map(Self::ForgetsAfter)),
                ("scopes-by-credential", plain(Self::ScopesByCredential)),
                ("validates-first", plain(Self::ValidatesFirst)),
                ("fails-open", plain(Self::FailsOpen)),
                ("stores-server-errors", stored.map(Self::StoresServerErrors)),
                ("ignores-mismatch", plain(Self::IgnoresMismatch)),
                ("current-state", plain(Self::CurrentState)),
                ("in-progress-as", status.map(Self::InProgressAs)),
            ],
        )?;
        switch.ok_or_else(|| UnknownName {
            what: "switch",
            name: text.to_owned(),
            nearest: None,
            known: "forgets-after=SECONDS, stores-server-errors=true|false, in-progress-as=STATUS, and the others without a value"
                .to_owned(),
        })
    }
}
