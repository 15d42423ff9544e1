//! Text of others in lines of ours: whatever a name or a note holds, it stays in its place and shows what it is. No I/O.

use crate::visible::visible;

/// A value on a line of `name=value`: in quotes, unless it is one plain word.
pub(super) fn word_or_quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_.:/@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("\"{}\"", visible(text).replace('"', "\\\"")),
    }
}

/// A cell of a table that spreadsheets open. Nothing hides in it, and nothing of it is run.
///
/// Spreadsheets run a cell that begins with one of `= + - @`, or with its full-width twin: it gets an apostrophe in front, which they show as text.
/// A cell that begins with an apostrophe of its own gets one more, so that whoever takes one away has what was there. Where a semicolon is the
/// separator, as it is with half of Europe's settings, quotes in the middle of a line protect nothing: a semicolon before such a sign is written
/// `\u{3b}`.
pub(super) fn cell(text: &str) -> String {
    let mut shown = visible(text);
    for (at, _) in shown.clone().rmatch_indices(';') {
        let behind = shown.get(at..).unwrap_or_default();
        if runs(behind.trim_start_matches(|c: char| c == ';' || c == '"' || c.is_whitespace())) {
            shown.replace_range(at..at.saturating_add(1), "\\u{3b}");
        }
    }
    if shown.starts_with('\'') || runs(shown.trim_start()) {
        shown.insert(0, '\'');
    }
    let bare = shown.chars().all(|c| c.is_alphanumeric() || "-_.:/@%'=+ ".contains(c)) && shown.trim() == shown;
    match bare {
        true => shown,
        false => format!("\"{}\"", shown.replace('"', "\"\"")),
    }
}

fn runs(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_word_or_stands_in_quotes() {
        assert_eq!(word_or_quoted("a b=\"c\"\n"), "\"a b=\\\"c\\\"\\n\"");
        assert_eq!((word_or_quoted("GET"), word_or_quoted("")), ("GET".to_owned(), "\"\"".to_owned()));
    }

    #[test]
    fn a_cell_is_one_cell_and_is_not_run() {
        for (text, right) in [
            ("plain", "plain"),
            ("", ""),
            ("two words", "two words"),
            ("a,b", "\"a,b\""),
            ("say \"no\"", "\"say \"\"no\"\"\""),
            ("a\r\nb", "\"a\\r\\nb\""),
            ("=1+1", "'=1+1"),
            (" =1", "' =1"),
            ("a ", "\"a \""),
            ("+49", "'+49"),
            ("-1", "'-1"),
            ("@x", "'@x"),
            ("\u{ff1d}1", "\"'\u{ff1d}1\""),
            ("\t=1", "\"\\t=1\""),
            ("'=1", "''=1"),
            ("a; b", "\"a; b\""),
            ("a;=1", "\"a\\u{3b}=1\""),
            ("a; \"=1\"", "\"a\\u{3b} \"\"=1\"\"\""),
            ("a;;=1", "\"a;\\u{3b}=1\""),
        ] {
            assert_eq!(cell(text), right, "{text:?}");
        }
    }
}
