//! Choosing by name, and the name that was probably meant.

use crate::testkit::spelling::distance;

/// A name that nothing has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} `{name}`{}; there are {known}", .nearest.as_ref().map(|near| format!(", did you mean {near}?")).unwrap_or_default())]
#[non_exhaustive]
pub struct UnknownName {
    /// What was to be chosen.
    pub what: &'static str,
    /// The name that was given.
    pub name: String,
    /// The known name that is nearest to it, if one is near.
    pub nearest: Option<&'static str>,
    /// All names there are.
    pub known: String,
}

pub(super) fn choose<T, const N: usize>(what: &'static str, name: &str, all: [(&'static str, T); N]) -> Result<T, UnknownName> {
    let names = all.each_ref().map(|(known, _)| *known);
    match all.into_iter().find(|(known, _)| *known == name) {
        Some((_, chosen)) => Ok(chosen),
        None => Err(UnknownName {
            what,
            name: name.to_owned(),
            nearest: nearest(name, &names),
            known: names.join(", "),
        }),
    }
}

/// The nearest name, unless most of it would have to be mistyped.
fn nearest(name: &str, names: &[&'static str]) -> Option<&'static str> {
    let near = names
        .iter()
        .map(|known| (distance(&name.to_ascii_lowercase(), known), *known))
        .min()?;
    (near.0 * 2 <= near.1.len()).then_some(near.1)
}
