//! Text that other people wrote, made safe to show: what can't be seen, or changes what can, is spelt out.

use crate::actor::is_invisible;
use std::fmt::Write as _;

/// Whether a character could make what is shown another than what is there: controls (line breaks and a terminal's escapes are among them), the
/// separators that some readers take for line breaks, what turns the direction of writing, and whatever shows nothing at all.
fn hides(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}') || is_invisible(c)
}

/// JSON in which nothing hides: such characters can only stand inside its strings, where `\uXXXX` means the same.
pub(crate) fn plain_json(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        match hides(c) {
            true => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| put(&mut plain, format_args!("\\u{unit:04x}"))),
            false => plain.push(c),
        }
    }
    plain
}

/// Text in which nothing hides: `\n`, `\r`, `\t` and `\u{202e}` stand for what would. A backslash is doubled, so that an escape and a text that
/// looks like one differ.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => shown.push_str("\\\\"),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if hides(c) => put(&mut shown, format_args!("\\u{{{:x}}}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown
}

fn put(into: &mut String, what: std::fmt::Arguments<'_>) {
    // A String takes whatever is written to it.
    let _written = into.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line breaks of every reader, a terminal's commands, what turns writing around, and what shows nothing.
    const HIDDEN: &str =
        "\n\r\t\u{0}\u{7}\u{1b}[2K\u{7f}\u{85}\u{9b}\u{61c}\u{200b}\u{200e}\u{2028}\u{2029}\u{202e}\u{2066}\u{feff}\u{fffb}\u{e0041}";

    #[test]
    fn nothing_hides_in_json_and_it_means_the_same() {
        let json = serde_json::to_string(HIDDEN).unwrap();
        let plain = plain_json(&json);
        assert!(plain.bytes().all(|b| (0x20..0x7f).contains(&b)), "{plain}");
        assert_eq!(serde_json::from_str::<String>(&plain).unwrap(), HIDDEN);
        assert_eq!(plain_json("\"M\u{fc}ller \u{7530}\u{4e2d}\""), "\"M\u{fc}ller \u{7530}\u{4e2d}\"");
    }

    #[test]
    fn an_escape_and_a_text_that_looks_like_one_differ() {
        assert_eq!(visible("a\nb"), "a\\nb");
        assert_eq!(visible("a\\nb"), "a\\\\nb");
        assert_eq!(visible("\u{202e}\u{e0041}"), "\\u{202e}\\u{e0041}");
        assert!(visible(HIDDEN).bytes().all(|b| (0x20..0x7f).contains(&b)));
    }
}
