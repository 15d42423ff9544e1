//! `BoxFuture`: the one spelling of a boxed, sendable future in traits that are used as objects.

/// A boxed, sendable future.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
