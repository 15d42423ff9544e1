//! What is **not** covered by semantic versioning: the door to reqwest's own builder. It changes whenever reqwest does.

use crate::api::ApiBuilder;

pub use reqwest;

/// Tunes the HTTP client below an [`Api`](crate::Api): an explicit proxy, own root certificates, a user agent.
///
/// The crate's own settings go on top: no redirects, no retries, HTTP/1.1, no decompression, one connection per attempt. A ready
/// `reqwest::Client` is not taken, since nobody could read back whether it retries.
pub trait TuneHttp {
    /// Changes the client's builder.
    #[must_use]
    fn tune_http(self, tune: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + 'static) -> Self;
}

impl TuneHttp for ApiBuilder {
    fn tune_http(self, tune: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + 'static) -> Self {
        self.tune(Box::new(tune))
    }
}
