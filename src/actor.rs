//! `Actor`: on whose behalf a call was made. For the record and the audit; it never decides anything by itself.

use crate::invalid::Invalid;
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

/// Who acts: an agent, and where known the session, the user it works for and the model it thinks with.
///
/// Stands in the journal with every order and every further call that met it. It is neither part of the fingerprint nor sent to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Actor {
    /// The agent's name; never blank.
    pub agent: String,
    /// The conversation or run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The person or account the agent works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The language model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Actor {
    /// An agent by name. A blank name is refused when the client is built.
    pub fn agent(name: impl Into<String>) -> Self {
        Actor {
            agent: name.into(),
            session: None,
            user: None,
            model: None,
        }
    }

    /// The conversation or run this agent is in.
    #[must_use]
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// The person or account the agent works for.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The model the agent thinks with.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.agent.trim().is_empty() {
            return Err(Invalid::new("actor.agent", "must name the agent"));
        }
        Ok(())
    }
}

/// Whether a name can stand under a decision: something of it can be read, and it holds no control characters, with which it could pass for
/// something else where it is shown.
pub(crate) fn is_name(text: &str) -> bool {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    !text.chars().any(breaks) && says_something(text)
}

/// Whether anything is left without blanks and invisible characters.
pub(crate) fn says_something(text: &str) -> bool {
    text.chars().any(|c| !c.is_whitespace() && !c.is_control() && !is_invisible(c))
}

/// Whether two names are one to whoever reads them: after NFKC, case folding, and without blanks and invisible characters. That stops mistakes, not
/// liars: `O` and `0` differ.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    folded(one) == folded(other)
}

/// What two names that read alike have in common.
pub(crate) fn folded(name: &str) -> String {
    // Most names, and policies compare them with each order: what follows comes to the same.
    if name.is_ascii() {
        return name
            .chars()
            .filter(|c| !c.is_whitespace())
            .map(|c| c.to_ascii_lowercase())
            .collect();
    }
    folded_in_full(name)
}

fn folded_in_full(name: &str) -> String {
    let compatible: String = name.nfkc().filter(|c| !c.is_whitespace() && !is_invisible(*c)).collect();
    // Up and down again folds what one way alone keeps apart, such as the sharp s and SS.
    compatible.to_uppercase().to_lowercase().nfkc().collect()
}

/// What Unicode calls default ignorable, and the braille pattern of no dots: it shows nothing, so it tells no two names apart.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_however_it_is_written() {
        for other in [
            "Order-Agent",
            " order-agent ",
            "ORDER-AGENT",
            "order-\u{200b}agent",
            "\u{ff4f}rder-agent",
            "order - agent",
        ] {
            assert!(is_same_name("order-agent", other), "{other:?}");
        }
        assert!(is_same_name("Stra\u{df}e", "STRASSE") && is_same_name("\u{fb01}x", "FIX") && is_same_name("e\u{301}", "\u{e9}"));
        assert!(!is_same_name("order-agent", "order-agent-2") && !is_same_name("Anna", "Anne"));
    }

    #[test]
    fn the_short_way_to_fold_comes_to_the_same() {
        for first in '\0'..='\u{7f}' {
            for second in '\0'..='\u{7f}' {
                let name = format!("a{first}{second}B");
                assert_eq!(folded(&name), folded_in_full(&name), "{name:?}");
            }
        }
    }

    #[test]
    fn what_shows_nothing_is_no_name() {
        for blank in ["", " ", "\u{200b}", "\u{3000}\u{feff}", "a\nb", "a\u{7}", "a\u{2028}b", "\u{1b}[2K"] {
            assert!(!is_name(blank), "{blank:?}");
        }
        assert!(is_name("Ana M\u{fc}ller-\u{141}ukasz \u{7530}\u{4e2d}"));
    }
}
