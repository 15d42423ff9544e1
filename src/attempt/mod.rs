//! One attempt: what is sent, what was seen of it, what that means, how long to wait. Facts (`Observed`), judgement (`Verdict`) and patience
//! (`Pace`) are three things; the loop that joins them is `engine.rs`.

pub(crate) mod budget;
pub(crate) mod credential;
pub(crate) mod http;
mod last_look;
mod likeness;
pub(crate) mod lookup;
pub(crate) mod pace;
mod retry_after;
pub(crate) mod timeouts;
pub(crate) mod verdict;

use crate::{
    attempt::credential::Credential,
    ids::{NoRandomness, RequestId},
    intent::Intent,
    invalid::Invalid,
    operation::Route,
    policy::Permit,
};
use ::http::{HeaderName, HeaderValue, Request, header::CONTENT_TYPE};
use bytes::Bytes;

/// A request that may leave: the only way to an order's leads over a permit.
pub(crate) struct Outgoing(Request<Bytes>);

impl Outgoing {
    /// The order's own bytes, with the key once, a fresh request id, the attempt's number and a fresh span of the order's trace. `first_sent`
    /// names the header that says when the order was first sent, where the dialect has one.
    pub(crate) fn order(
        permit: &Permit,
        request: RequestId,
        attempt: u32,
        credential: Option<&Credential>,
        first_sent: Option<&str>,
    ) -> Result<Self, Unsendable> {
        let intent = permit.claim().intent();
        let route = intent.route();
        let mut head = Request::builder()
            .method(route.method().as_str())
            .uri(route.target())
            .header("x-request-id", request.to_string())
            .header("x-attempt", attempt)
            .header("traceparent", intent.trace().traceparent()?);
        if let Some(kind) = intent.content_type() {
            head = head.header(CONTENT_TYPE, kind);
        }
        for (name, value) in route.headers() {
            head = head.header(name, value);
        }
        let mut out = head.body(Bytes::copy_from_slice(intent.body())).map_err(Unsendable::of)?;
        if let Some(credential) = credential {
            credential.put(out.headers_mut());
        }
        if let (Some(name), Some(at)) = (first_sent, permit.claim().state().first_possible_send()) {
            let name = HeaderName::try_from(name).map_err(Unsendable::of)?;
            let date = HeaderValue::try_from(at.http_date()).map_err(Unsendable::of)?;
            out.headers_mut().insert(name, date);
        }
        // Last, and by `insert`: one key header, whatever came before.
        if let Some((name, key)) = intent.key_place().header(intent.key()) {
            let name = HeaderName::try_from(name).map_err(Unsendable::of)?;
            out.headers_mut().insert(name, HeaderValue::try_from(key).map_err(Unsendable::of)?);
        }
        Ok(Outgoing(out))
    }

    /// A question for an order: a GET, which orders nothing, with no key in its head and a span of the order's trace.
    pub(crate) fn lookup(intent: &Intent, route: &Route, request: RequestId, credential: Option<&Credential>) -> Result<Self, Unsendable> {
        route.check_lookup()?;
        let mut head = Request::builder()
            .method(route.method().as_str())
            .uri(route.target())
            .header("x-request-id", request.to_string())
            .header("traceparent", intent.trace().traceparent()?);
        for (name, value) in route.headers() {
            head = head.header(name, value);
        }
        let mut out = head.body(Bytes::new()).map_err(Unsendable::of)?;
        if let Some(credential) = credential {
            credential.put(out.headers_mut());
        }
        Ok(Outgoing(out))
    }

    pub(crate) fn into_request(self) -> Request<Bytes> {
        self.0
    }
}

/// The request could not even be made. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsendable {
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl Unsendable {
    /// The parts of a request are checked at submit; should one slip through, its value is not shown.
    fn of(_: impl std::error::Error) -> Self {
        Unsendable::Invalid(Invalid::new("order", "must make a request that HTTP can carry"))
    }
}
