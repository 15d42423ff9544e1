//! `Api`: one server as we reach it: address, dialect, credentials, limits. Built once, checked at build; no I/O until an order is sent.

use crate::{
    attempt::{
        budget::{Bucket, RetryBudget},
        credential::{Bearer, Credentials, Keeper},
        http::{Base, HttpWire, Plain, Tune},
        pace::Pacing,
        timeouts::Timeouts,
    },
    dialect::{Dialect, KeyScope},
    intent::Terms,
    invalid::{Invalid, InvalidConfig},
    lifecycle::retention_margin,
};
use std::{fmt, sync::Arc, time::Duration};

/// One server as we reach it. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    name: String,
    dialect: Dialect,
    retention: Duration,
    wire: HttpWire,
    keeper: Option<Keeper>,
    account: Option<String>,
    timeouts: Timeouts,
    pacing: Pacing,
    budget: Bucket,
}

/// What an [`Api`] is made of. Start from [`Api::builder`].
#[must_use]
pub struct ApiBuilder {
    base: String,
    name: Option<String>,
    dialect: Dialect,
    credentials: Option<Arc<dyn Credentials>>,
    account: Option<String>,
    plain: Plain,
    timeouts: Timeouts,
    pacing: Pacing,
    budget: RetryBudget,
    answer_cap: usize,
    tune: Option<Tune>,
    fault: Option<Invalid>,
}

/// An answer to an order is small; a larger one is not read to its end.
const ANSWER_CAP: usize = 1 << 20;
/// What the journal can hold in one record, however much of it has to be escaped.
const ANSWER_CAP_MAX: usize = 2 << 20;
/// Two clocks that agree to this much count as agreeing (R8).
const ALLOWED_SKEW: Duration = Duration::from_secs(30);

impl Api {
    /// An api below this base URL, such as `https://orders.example.com/v1`.
    pub fn builder(base: impl Into<String>) -> ApiBuilder {
        ApiBuilder {
            base: base.into(),
            name: None,
            dialect: Dialect::ietf(),
            credentials: None,
            account: None,
            plain: Plain::default(),
            timeouts: Timeouts::default(),
            pacing: Pacing::default(),
            budget: RetryBudget::default(),
            answer_cap: ANSWER_CAP,
            tune: None,
            fault: None,
        }
    }

    /// An api below this base URL with nothing but defaults: no credential, the `ietf` dialect.
    ///
    /// # Errors
    /// The URL is not one that orders can be sent to.
    pub fn at(base: impl Into<String>) -> Result<Api, InvalidConfig> {
        Api::builder(base).build()
    }

    /// The api's logical name: it stands in every claim, and a client resumes only its own api's orders.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn dialect(&self) -> &Dialect {
        &self.0.dialect
    }

    pub(crate) fn wire(&self) -> &HttpWire {
        &self.0.wire
    }

    pub(crate) fn keeper(&self) -> Option<&Keeper> {
        self.0.keeper.as_ref()
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.0.timeouts
    }

    pub(crate) fn pacing(&self) -> Pacing {
        self.0.pacing
    }

    pub(crate) fn budget(&self) -> &Bucket {
        &self.0.budget
    }

    /// What of all this an order keeps.
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            api: self.0.name.clone(),
            dialect: self.0.dialect.name().to_owned(),
            key_place: self.0.dialect.key_place().clone(),
            retention: self.0.retention,
            scope: self.scope(),
        }
    }

    /// Whose key an order's would be if it went out now, as far as that is named (R9).
    pub(crate) fn scope(&self) -> Option<String> {
        let provided = self.keeper().and_then(Keeper::scope);
        match (self.0.account.clone(), provided, self.0.dialect.scope_of_keys()) {
            (Some(account), Some(credential), KeyScope::Credential) => Some(format!("{account}\t{credential}")),
            (account, provided, KeyScope::Credential | KeyScope::Account) => account.or(provided),
        }
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("name", &self.0.name)
            .field("dialect", &self.0.dialect)
            .finish_non_exhaustive()
    }
}

impl ApiBuilder {
    /// The api's logical name. Default: scheme, host, port and path of the base URL. Give one if the address may change while the server, and
    /// its memory of keys, stays the same: under another name the same mail would be looked for in vain (R20).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How the server speaks idempotency. Default: [`Dialect::ietf`].
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// A fixed bearer token. It appears in no journal, log, `Debug` or error.
    ///
    /// It names no account: where clients of several accounts share a journal, say which one by [`account`](ApiBuilder::account).
    pub fn bearer(mut self, token: impl AsRef<str>) -> Self {
        match Bearer::new(token) {
            Ok(bearer) => self.credentials = Some(Arc::new(bearer)),
            Err(fault) => self.fault = self.fault.or(Some(fault)),
        }
        self
    }

    /// The account that the credential belongs to, as the server tells accounts apart; no secret, it stands in the journal. Most servers keep keys
    /// per account: an order that may have been sent under one is not sent again under another, where its key would be a new order (R9).
    /// Default: what the provider's [`scope`](Credentials::scope) says, or nothing; then nothing is held back. Where both are named, both
    /// count, unless the dialect says [`KeyScope::Account`].
    pub fn account(mut self, name: impl Into<String>) -> Self {
        self.account = Some(name.into());
        self
    }

    /// A provider of credentials, asked for each attempt.
    pub fn credentials(mut self, provider: impl Credentials + 'static) -> Self {
        self.credentials = Some(Arc::new(provider));
        self
    }

    /// Where `http://` may lead. Default: only to this machine.
    pub fn plain_http(mut self, plain: Plain) -> Self {
        self.plain = plain;
        self
    }

    /// Time limits. Default: connect 5 s, attempt 30 s, in all 120 s.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// How often and how fast a flight tries again.
    pub fn pacing(mut self, pacing: Pacing) -> Self {
        self.pacing = pacing;
        self
    }

    /// What all retries over this api, and over its clones, may cost together. Default: 500 tokens, see [`RetryBudget`].
    pub fn retry_budget(mut self, budget: RetryBudget) -> Self {
        self.budget = budget;
        self
    }

    /// The largest answer that is read, in bytes. Default: 1 MiB; at most 2 MiB, since the journal keeps it.
    pub fn answer_cap(mut self, bytes: usize) -> Self {
        self.answer_cap = bytes;
        self
    }

    pub(crate) fn tune(mut self, tune: Tune) -> Self {
        self.tune = Some(tune);
        self
    }

    /// Checks everything. No I/O.
    ///
    /// # Errors
    /// Names the setting and what to do about it; never shows a credential, nor a URL's user or query.
    pub fn build(self) -> Result<Api, InvalidConfig> {
        if let Some(fault) = self.fault {
            return Err(fault.into());
        }
        self.pacing.check()?;
        self.dialect.key_place().check()?;
        if !(1..=ANSWER_CAP_MAX).contains(&self.answer_cap) {
            return Err(Invalid::new("answer cap", "must be between 1 byte and 2 MiB: the journal keeps the answer").into());
        }
        if self
            .account
            .as_ref()
            .is_some_and(|name| name.trim().is_empty() || name.chars().any(char::is_control))
        {
            return Err(Invalid::new("account", "must be a name, without control characters").into());
        }
        let base = Base::parse(&self.base, self.plain)?;
        let name = match self.name {
            Some(name) if name.trim().is_empty() => return Err(Invalid::new("api name", "must not be blank").into()),
            Some(name) => name.trim().to_owned(),
            None => {
                let derived = base.name();
                tracing::info!(api = %derived, "the api's name was taken from its base URL; orders are kept under it");
                derived
            }
        };
        let wire = HttpWire::new(base, self.timeouts, self.answer_cap, self.tune)?;
        let Some(retention) = self.dialect.kept_for() else {
            let cure = format!(
                "has to be said: how long `{}` remembers a key is published nowhere, and past it the same key orders again. Take what you were \
                 told, or the shortest time you can live with, by .retention(..)",
                self.dialect.name()
            );
            return Err(Invalid::new("dialect.retention", cure).into());
        };
        if self.dialect.transit().is_some_and(|time| time < self.timeouts.attempt) {
            let cure = "must be at least the attempt limit: a request may be under way for as long as we wait for its answer";
            return Err(Invalid::new("dialect.max_transit", cure).into());
        }
        let margin = retention_margin(retention);
        if margin < self.timeouts.attempt.saturating_add(ALLOWED_SKEW) {
            let cure = "must be longer: a quarter of it has to cover one attempt and 30 s of clock skew; or shorten the attempt limit";
            return Err(Invalid::new("dialect.retention", cure).into());
        }
        Ok(Api(Arc::new(Inner {
            name,
            dialect: self.dialect,
            retention,
            wire,
            keeper: self.credentials.map(Keeper::new),
            account: self.account,
            timeouts: self.timeouts,
            pacing: self.pacing,
            budget: Bucket::new(self.budget),
        })))
    }
}

impl fmt::Debug for ApiBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The base URL is not checked yet: it may hold a password.
        f.debug_struct("ApiBuilder").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}
