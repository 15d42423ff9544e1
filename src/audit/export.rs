//! Rows as JSON Lines and as CSV. Nothing in data can end a line or a cell of ours.
//!
//! The CSV is written by hand: a writer for one flat row is the last four lines of `text::cell`, and what takes care in it, escapes that can be seen
//! and cells that a spreadsheet must not run, is what no CSV crate does. A crate would be a dependency for the part that is easy.

use super::{Row, row::COLUMNS, text::cell};
use crate::visible::plain_json;
use std::io::{self, Write};

/// How an audit is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// JSON Lines: one object a line, UTF-8, each line ended by LF. Members that say nothing are left out. Characters that would hide (controls,
    /// line separators, what turns the direction of writing, what shows nothing) are written as `\uXXXX`, so that `less -R` shows what is there.
    JsonLines,
    /// CSV by RFC 4180: UTF-8, a header line with the names of [`Row`]'s fields in their order, comma, CRLF. What a row does not say is an empty
    /// cell; `rules` is a JSON list.
    ///
    /// No cell holds a line break or another character that hides: `\n`, `\t`, `\u{202e}` stand for them, and a backslash is doubled. A cell that a
    /// spreadsheet would run as a formula (it begins with `=`, `+`, `-` or `@`, blanks or not) gets an apostrophe in front, and so does one that
    /// begins with an apostrophe: take one away, then read the escapes, and the text is the one that was written down.
    Csv,
}

impl Format {
    /// What stands before the first row.
    pub(super) fn begin(self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Format::JsonLines => Ok(()),
            Format::Csv => write!(out, "{}\r\n", COLUMNS.join(",")),
        }
    }

    /// One row, in one call: what is cut off by an error is cut off at a line's end, if the writer takes lines whole.
    pub(super) fn row(self, row: &Row, out: &mut impl Write) -> io::Result<()> {
        let mut line = match self {
            Format::JsonLines => plain_json(&serde_json::to_string(row)?),
            Format::Csv => {
                let cells: Vec<String> = row.cells().map(|(_, text)| cell(&text.unwrap_or_default())).collect();
                cells.join(",")
            }
        };
        line.push_str(match self {
            Format::JsonLines => "\n",
            Format::Csv => "\r\n",
        });
        out.write_all(line.as_bytes())
    }
}
