//! The last look at an order's age: after its connection stands, before the first byte leaves (R8). Names resolve and handshakes take their time, and
//! on Linux no timer of ours runs while the machine sleeps: an order that was young enough when it was written down may no longer be.
//!
//! It stands where the HTTP client makes a connection. Since each attempt has a connection of its own, that is once an attempt.

use crate::future::BoxFuture;
use std::{
    error::Error,
    sync::Arc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Whether the request may still leave.
pub(super) type MayLeave = Arc<dyn Fn() -> bool + Send + Sync>;

tokio::task_local! {
    /// Of the request that is about to be sent by this task; one that has none may leave.
    static ASKED: MayLeave;
}

/// Sends with this last look.
pub(super) async fn before<F: Future>(may_leave: MayLeave, sending: F) -> F::Output {
    ASKED.scope(may_leave, sending).await
}

/// It was not in time: no byte left.
#[derive(Debug, thiserror::Error)]
#[error("the order grew too old while its connection was made; no byte left")]
struct TooOld;

/// Puts the look behind whatever makes a connection.
#[derive(Clone, Copy)]
pub(super) struct LastLook;

/// A connector with the look behind it.
#[derive(Clone)]
pub(super) struct Looking<S>(S);

impl<S> Layer<S> for LastLook {
    type Service = Looking<S>;

    fn layer(&self, connector: S) -> Looking<S> {
        Looking(connector)
    }
}

impl<S, R> Service<R> for Looking<S>
where
    S: Service<R, Error = Box<dyn Error + Send + Sync>>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: R) -> Self::Future {
        let connecting = self.0.call(to);
        Box::pin(async move {
            let connection = connecting.await?;
            match ASKED.try_with(|may_leave| may_leave()) {
                Ok(false) => Err(TooOld.into()),
                Ok(true) | Err(_) => Ok(connection),
            }
        })
    }
}
