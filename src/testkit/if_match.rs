//! `If-Match` (RFC 9110, section 13.1.1): the version of an order that a change was made for.

use super::seen::Seen;

/// What a request asks of the version that stands. Without the header: nothing.
#[derive(Debug, Default)]
pub(crate) struct IfMatch(Option<String>);

impl IfMatch {
    /// Several lines are one list.
    pub(crate) fn of(seen: &Seen) -> Self {
        let lines = seen.headers_named("if-match");
        Self((!lines.is_empty()).then(|| lines.join(", ")))
    }

    /// Whether it holds for an order that is there, with this strong tag. What can't be read holds for none: nothing is done, and nobody is
    /// hurt.
    pub(crate) fn holds_for(&self, tag: &str) -> bool {
        match self.0.as_deref().map(str::trim) {
            None | Some("*") => true,
            Some(list) => strong_tags(list).is_some_and(|tags| tags.contains(&tag)),
        }
    }
}

/// The strong tags of a list, quotes included. A weak one is equal to none by the strong comparison (section 8.8.3.2), and is passed over.
fn strong_tags(list: &str) -> Option<Vec<&str>> {
    let mut tags = Vec::new();
    let mut rest = list.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let (quoted, weak) = match rest.strip_prefix("W/") {
            Some(quoted) => (quoted, true),
            None => (rest, false),
        };
        // A comma may stand within the quotes, a quote may not.
        let (inner, after) = quoted.strip_prefix('"')?.split_once('"')?;
        if !weak {
            tags.push(quoted.get(..inner.len() + 2)?);
        }
        let after = after.trim_start_matches([' ', '\t']);
        if !after.is_empty() && !after.starts_with(',') {
            return None;
        }
        rest = after.trim_start_matches([' ', '\t', ',']);
    }
    Some(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_for_the_tags_that_it_names_and_for_no_weak_or_unreadable_one() {
        let holds = |line: &str| IfMatch(Some(line.to_owned())).holds_for("\"7\"");
        for line in [
            "\"7\"",
            " \"7\" ",
            "*",
            "\"6\", \"7\"",
            "\"6\",\"7\",",
            "\"a,b\" , \"7\"",
            "W/\"7\", \"7\"",
        ] {
            assert!(holds(line), "{line}");
        }
        for line in [
            "",
            "7",
            "\"6\"",
            "\"70\"",
            "W/\"7\"",
            "w/\"7\"",
            "\"a,\"7\"",
            "\"7",
            "\"7\" \"6\"",
            "*, \"7\"",
            "\"7\"x",
            "\"6,\"7\"\"",
        ] {
            assert!(!holds(line), "{line}");
        }
        assert!(IfMatch::default().holds_for("\"7\""));
    }
}
