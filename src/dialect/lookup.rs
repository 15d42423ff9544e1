//! `Asked`: what a lookup may be made of.

use crate::{ids::IdempotencyKey, intent::Intent, operation::Route};

/// An order that is looked for at its server; see [`Dialect::lookup`](super::Dialect::lookup).
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    intent: &'a Intent,
    named: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(intent: &'a Intent, named: Option<&'a str>) -> Self {
        Asked { intent, named }
    }

    /// The order's key.
    pub fn key(&self) -> IdempotencyKey {
        self.intent.key()
    }

    /// The server's own name for the order, where an answer gave one ([`Reading::Exists`](super::Reading::Exists)).
    pub fn named(&self) -> Option<&'a str> {
        self.named
    }

    /// The order's own route.
    pub fn route(&self) -> &'a Route {
        self.intent.route()
    }

    /// A GET of the path that the order was sent to, without its query and headers: most lookups begin there.
    pub fn path(&self) -> Route {
        self.intent.route().to_get()
    }
}
