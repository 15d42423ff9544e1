//! Who we are to the server: the credential of one attempt, where it comes from, and one refresh shared by all who need it.
//!
//! Nothing here is written to the journal or shown: `Debug` knows the header's name only. Which answer asks for a refresh is decided
//! elsewhere.

use crate::{future::BoxFuture, invalid::Invalid};
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use std::{error::Error, fmt, future::ready, sync::Arc};
use tokio::sync::Mutex;

/// Headers with a job of their own. A credential in their place would take a key or a length away from the request.
const TAKEN: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "if-match",
    "traceparent",
    "transfer-encoding",
    "x-attempt",
    "x-request-id",
];

/// What shows the server who we are: one header of a request. Its value is never shown.
///
/// Two credentials are equal when they would be sent alike; this tells a refreshed one from the stale.
///
/// ```
/// use uketsuke::Credential;
///
/// let token = Credential::bearer("s3cr3t")?;
/// assert_eq!(format!("{token:?}"), "Credential(authorization: ***)");
/// let key = Credential::header("X-Api-Key", "s3cr3t")?;
/// assert_ne!(key, token);
/// # Ok::<(), uketsuke::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    name: HeaderName,
    value: HeaderValue,
}

impl Credential {
    /// `Authorization: Bearer <token>`.
    pub fn bearer(token: impl AsRef<str>) -> Result<Self, Invalid> {
        let token = token.as_ref();
        if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(refused(
                "must be a token of visible ASCII characters without spaces or line breaks (one read from a file often \
                 ends in a line break)",
            ));
        }
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| refused("must be a header's value"))?;
        value.set_sensitive(true);
        Ok(Credential {
            name: AUTHORIZATION,
            value,
        })
    }

    /// Any other header, such as `X-Api-Key`, or `Authorization` with another scheme.
    pub fn header(name: &str, value: impl AsRef<str>) -> Result<Self, Invalid> {
        let name = name
            .parse::<HeaderName>()
            .map_err(|_| refused("its header's name must be a header name, such as X-Api-Key"))?;
        if TAKEN.contains(&name.as_str()) {
            return Err(refused(
                "its header has another job in the request: take the one that the server's manual names",
            ));
        }
        let value = value.as_ref();
        let visible = value.bytes().all(|b| b.is_ascii_graphic() || b == b' ' || b == b'\t');
        // A blank at an end is no part of a header's value, so that the server would compare another secret.
        if value.is_empty() || !visible || value.trim() != value {
            return Err(refused(
                "must be visible ASCII characters without line breaks, and without a blank at either end",
            ));
        }
        let mut value = HeaderValue::try_from(value).map_err(|_| refused("must be a header's value"))?;
        value.set_sensitive(true);
        Ok(Credential { name, value })
    }

    /// Puts the one line of it into a request, in place of any that stood there.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        headers.insert(self.name.clone(), self.value.clone());
    }
}

fn refused(cure: &str) -> Invalid {
    Invalid::new("credential", cure)
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({}: ***)", self.name)
    }
}

/// No credential could be had, so the attempt was not made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}")]
pub struct CredentialError {
    what: &'static str,
    #[source]
    why: Option<Arc<dyn Error + Send + Sync>>,
}

impl CredentialError {
    /// Says why. Put no secret into it: the reason is shown as this error's source.
    pub fn new(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        CredentialError {
            what: "no credential could be had",
            why: Some(Arc::from(why.into())),
        }
    }
}

/// Where credentials come from: a vault, a token service, a file that somebody renews.
///
/// ```
/// use uketsuke::{BoxFuture, Credential, CredentialError, Credentials};
///
/// struct Renewed; // a file that another program renews
///
/// impl Credentials for Renewed {
///     fn current(&self) -> BoxFuture<'_, Result<Credential, CredentialError>> {
///         Box::pin(async {
///             let token = std::fs::read_to_string("/run/secrets/orders").map_err(CredentialError::new)?;
///             Credential::bearer(token.trim()).map_err(CredentialError::new)
///         })
///     }
/// }
/// ```
pub trait Credentials: Send + Sync {
    /// The credential to use now; asked for before every attempt, so keep it rather than fetch it each time.
    fn current(&self) -> BoxFuture<'_, Result<Credential, CredentialError>>;

    /// A newer one, after the server refused `stale`. Called once for all attempts that saw the same one refused. The default asks
    /// [`current`](Self::current) again. Return `stale` itself where there is no newer one.
    fn refresh<'a>(&'a self, stale: &'a Credential) -> BoxFuture<'a, Result<Credential, CredentialError>> {
        let _ = stale;
        self.current()
    }

    /// A name for the account or key behind the credential: not secret, since it stands in the journal, and not changed by a refresh.
    ///
    /// A server remembers an idempotency key per account. The same key sent under another account is a second order, so an order that may
    /// have landed is only sent again under the scope it was first sent under.
    fn scope(&self) -> Option<String> {
        None
    }
}

/// One token that never changes while the process runs.
pub(crate) struct Bearer(Credential);

impl Bearer {
    pub(crate) fn new(token: impl AsRef<str>) -> Result<Self, Invalid> {
        Credential::bearer(token).map(Bearer)
    }
}

impl Credentials for Bearer {
    fn current(&self) -> BoxFuture<'_, Result<Credential, CredentialError>> {
        Box::pin(ready(Ok(self.0.clone())))
    }
}

/// Asks the provider for each attempt, and once for all attempts that saw one credential refused.
pub(crate) struct Keeper {
    provider: Arc<dyn Credentials>,
    /// Held while a refresh is under way; that is what makes it one. A provider that hangs is cut off by the callers' own deadlines.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// What `current` last gave: while it gives the same, a refreshed one is the newer.
    given: Option<Credential>,
    /// The newest one known.
    newest: Option<Credential>,
}

impl Keeper {
    pub(crate) fn new(provider: Arc<dyn Credentials>) -> Self {
        Keeper {
            provider,
            kept: Mutex::default(),
        }
    }

    /// The credential for one attempt. Waits for a refresh that is under way.
    pub(crate) async fn current(&self) -> Result<Credential, CredentialError> {
        // Asked for outside the lock, so that a slow provider does not send the orders one by one.
        let given = self.provider.current().await?;
        let mut kept = self.kept.lock().await;
        match &kept.newest {
            Some(newest) if kept.given.as_ref() == Some(&given) => Ok(newest.clone()),
            _ => {
                kept.given = Some(given.clone());
                kept.newest = Some(given.clone());
                Ok(given)
            }
        }
    }

    /// A newer credential than the `stale` one, which the server refused. Where the answer equals `stale`, there is none.
    pub(crate) async fn refresh(&self, stale: &Credential) -> Result<Credential, CredentialError> {
        let mut kept = self.kept.lock().await;
        match &kept.newest {
            Some(newest) if newest != stale => return Ok(newest.clone()),
            _ => {}
        }
        let scope = self.provider.scope();
        let fresh = self.provider.refresh(stale).await?;
        if self.provider.scope() != scope {
            return Err(CredentialError {
                what: "the refreshed credential belongs to another account (its scope changed): under that, the key would \
                       be a second order",
                why: None,
            });
        }
        kept.newest = Some(fresh.clone());
        Ok(fresh)
    }

    /// See [`Credentials::scope`].
    pub(crate) fn scope(&self) -> Option<String> {
        self.provider.scope()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Mutex as Lock,
        atomic::{AtomicUsize, Ordering},
    };

    fn token(text: &str) -> Credential {
        Credential::bearer(text).unwrap()
    }

    /// A provider whose `current` is set by the test, and whose refreshes are numbered: r1, r2, …
    #[derive(Default)]
    struct Vault {
        current: Lock<&'static str>,
        refreshes: AtomicUsize,
        fails: bool,
        moves: bool,
    }

    impl Credentials for Vault {
        fn current(&self) -> BoxFuture<'_, Result<Credential, CredentialError>> {
            let current = token(*self.current.lock().unwrap());
            Box::pin(ready(Ok(current)))
        }

        fn refresh<'a>(&'a self, _: &'a Credential) -> BoxFuture<'a, Result<Credential, CredentialError>> {
            Box::pin(async {
                tokio::task::yield_now().await;
                let n = self.refreshes.fetch_add(1, Ordering::SeqCst) + 1;
                if self.fails {
                    return Err(CredentialError::new("the vault is closed"));
                }
                Ok(token(&format!("r{n}")))
            })
        }

        fn scope(&self) -> Option<String> {
            Some(format!(
                "account {}",
                usize::from(self.moves) * self.refreshes.load(Ordering::SeqCst)
            ))
        }
    }

    fn keeper(vault: Vault) -> (Arc<Vault>, Arc<Keeper>) {
        *vault.current.lock().unwrap() = "first";
        let vault = Arc::new(vault);
        (vault.clone(), Arc::new(Keeper::new(vault)))
    }

    #[tokio::test]
    async fn fifty_refused_attempts_share_one_refresh() {
        let (vault, keeper) = keeper(Vault::default());
        let stale = keeper.current().await.unwrap();
        let attempts = (0..50).map(|_| {
            let (keeper, stale) = (keeper.clone(), stale.clone());
            tokio::spawn(async move { keeper.refresh(&stale).await.unwrap() })
        });
        for attempt in attempts.collect::<Vec<_>>() {
            assert_eq!(attempt.await.unwrap(), token("r1"));
        }
        assert_eq!(vault.refreshes.load(Ordering::SeqCst), 1);
        // A straggler that was refused long ago, after the next refresh.
        assert_eq!(keeper.refresh(&token("r1")).await.unwrap(), token("r2"));
        assert_eq!(keeper.refresh(&stale).await.unwrap(), token("r2"));
        assert_eq!(vault.refreshes.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_refreshed_credential_stands_until_the_provider_has_another() {
        let (vault, keeper) = keeper(Vault::default());
        let stale = keeper.current().await.unwrap();
        assert_eq!(keeper.refresh(&stale).await.unwrap(), token("r1"));
        assert_eq!(keeper.current().await.unwrap(), token("r1"));
        *vault.current.lock().unwrap() = "rotated";
        assert_eq!(keeper.current().await.unwrap(), token("rotated"));
        assert_eq!(keeper.refresh(&token("r1")).await.unwrap(), token("rotated"));
        assert_eq!(vault.refreshes.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_fixed_token_has_no_newer_one() {
        let keeper = Keeper::new(Arc::new(Bearer::new("t").unwrap()));
        let stale = keeper.current().await.unwrap();
        assert_eq!(keeper.refresh(&stale).await.unwrap(), stale);
        assert_eq!(keeper.scope(), None);
    }

    #[tokio::test]
    async fn a_refresh_that_fails_or_changes_the_account_changes_nothing() {
        let fails = Vault {
            fails: true,
            ..Vault::default()
        };
        let moves = Vault {
            moves: true,
            ..Vault::default()
        };
        for vault in [fails, moves] {
            let (_, keeper) = keeper(vault);
            let stale = keeper.current().await.unwrap();
            assert!(keeper.refresh(&stale).await.is_err());
            assert_eq!(keeper.current().await.unwrap(), stale);
        }
    }

    #[test]
    fn a_credential_that_would_forge_a_header_is_refused_and_not_shown() {
        let taken = TAKEN.map(|name| Credential::header(name, "SEKRET"));
        let bearers = ["", "SEKRET\r\nX-Evil: 1", "SEKRET\n", "SEKRET\0", "SEKRET x", "SEKRETé"].map(Credential::bearer);
        let values = ["", " SEKRET", "SEKRET\t", "SEKRET\r", "SEKRET\u{7f}", "SEKRETé"].map(|v| Credential::header("x-api-key", v));
        let names = ["", "x api", "x\r\n", "é"].map(|name| Credential::header(name, "SEKRET"));
        for refused in taken.into_iter().chain(bearers).chain(values).chain(names) {
            let refused = refused.unwrap_err();
            assert_eq!(refused.field, "credential");
            assert!(!refused.to_string().contains("SEKRET"), "{refused}");
        }
    }

    #[test]
    fn debug_shows_no_secret_in_any_form() {
        let key = Credential::header("X-Api-Key", "SEKRET").unwrap();
        let mut headers = HeaderMap::new();
        key.put(&mut headers);
        key.put(&mut headers);
        assert_eq!(
            format!("{key:?} {headers:?}"),
            r#"Credential(x-api-key: ***) {"x-api-key": Sensitive}"#
        );
        headers.clear();
        token("SEKRET").put(&mut headers);
        assert_eq!(format!("{headers:?}"), r#"{"authorization": Sensitive}"#);
    }
}
