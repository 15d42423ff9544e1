//! `Asked`: what a lookup may be made of.

use crate::{
    ids::IdempotencyKey,
    intent::Intent,
    operation::{Route, Subject},
};

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

    /// The order that this one acts on, where it changes or ends another: then below its path there is no order of its own, and what
    /// [`Subject::at`] shows is that other one, whoever changed it. Answer `None` unless your server finds changes by their key: so a person
    /// looks, and not a lookup at a path that means nothing.
    pub fn subject(&self) -> Option<&'a Subject> {
        self.intent.subject()
    }

    /// A GET of the path that the order was sent to, without its query and headers: most lookups begin there.
    pub fn path(&self) -> Route {
        self.intent.route().to_get()
    }

    /// The same for an order that is a creation: `None` for what acts on another one.
    pub(super) fn created_at(&self) -> Option<Route> {
        self.subject().is_none().then(|| self.path())
    }
}
