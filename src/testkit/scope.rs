//! Whose key it is: the ledger's key of a request, out of the tenant and whatever else the server scopes by.

use super::dialect::Facts;
use super::seen::{Seen, hash};

/// The header that names the tenant.
const TENANT_HEADER: &str = "x-tenant";

/// The tenant a request speaks for; most speak for none.
pub(crate) fn tenant(seen: &Seen) -> Option<&str> {
    seen.header(TENANT_HEADER).filter(|tenant| !tenant.is_empty())
}

/// The key under which the ledger has a request. No key holds a semicolon, so that no tenant's key is another's.
pub(crate) fn row_key(facts: &Facts, seen: &Seen, key: &str) -> String {
    let credential = || hash(seen.header("authorization").unwrap_or_default().as_bytes());
    match (tenant(seen), facts.by_credential) {
        (None, false) => key.to_owned(),
        (Some(tenant), false) => format!("{tenant};{key}"),
        (None, true) => format!("{};{key}", credential()),
        (Some(tenant), true) => format!("{tenant};{};{key}", credential()),
    }
}
