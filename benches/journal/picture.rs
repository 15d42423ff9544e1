//! `docs/journal-bench.svg`, drawn from this run's figures: a panel for each question, each with a scale of its own. By hand, since a crate that
//! draws would be larger than what it draws. Middle tones only, so that it reads on a light page and on a dark one.

use crate::{Result, report::Report};
use std::fmt::Write;

/// A question, and who answers it: what is written beside each bar, the figure's name, and whether it is ours.
type Panel = (&'static str, &'static [(&'static str, &'static str, bool)]);

const PANELS: [Panel; 3] = [
    (
        "One caller, one order after the other",
        &[
            ("uketsuke: claim", "claim", true),
            ("uketsuke: claim and outcome", "claim_and_outcome", true),
            ("SQLite: insert", "sqlite_insert", false),
            ("SQLite: insert and update", "sqlite_insert_and_update", false),
            ("redb: one transaction", "redb", false),
            ("okaywal: one entry", "okaywal", false),
        ],
    ),
    (
        "64 callers at once",
        &[
            ("uketsuke", "64_callers", true),
            ("SQLite, one batching writer", "sqlite_64_batched", false),
            ("SQLite, a connection each", "sqlite_64_own_connections", false),
        ],
    ),
    (
        "8 processes, one folder",
        &[("uketsuke", "8_processes", true), ("SQLite", "sqlite_8_processes", false)],
    ),
];

const TITLE: &str = "Durable claims a second, as multiples of one append + fdatasync";
const BASE_ONLY: &str = "Records of 600 bytes. The dashed line is the base: one thread that appends and syncs.";
const NOTE: &str = "Records of 600 bytes. The dashed line is the base: one thread that appends and syncs. cargo bench --bench journal";

const OURS: &str = "#2f81c7";
const OTHERS: &str = "#8b949e";
const TEXT: &str = "#7a838e";

const WIDTH: f64 = 760.0;
/// Where bars begin, and how long the longest is.
const LEFT: f64 = 230.0;
const LONGEST: f64 = 450.0;
const ROW: f64 = 24.0;
const BAR: f64 = 14.0;

/// Behind the note, where it has to be said.
const BUSY: &str = " · The machine was busy: a control was off, these figures are void.";

/// Draws it, where this run has all figures. A picture of a void run says that it is one.
pub(crate) fn draw(report: &Report) -> Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/journal-bench.svg");
    let (mut body, mut y) = (String::new(), 56.0);
    text(&mut body, 20.0, 30.0, "font-size=\"16\" font-weight=\"600\"", TITLE)?;
    for (question, rows) in PANELS {
        y = panel(&mut body, y, question, rows, report)?;
    }
    let note = if report.is_sound() {
        NOTE.to_owned()
    } else {
        BASE_ONLY.to_owned() + BUSY
    };
    text(&mut body, 20.0, y + 12.0, "font-size=\"11\"", &note)?;
    let height = y + 28.0;
    let whole = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif\">\n<title>{TITLE}</title>\n{body}</svg>\n"
    );
    std::fs::write(path, whole)?;
    println!("drawn: docs/journal-bench.svg");
    Ok(())
}

/// One question's bars; where the next one begins.
fn panel(body: &mut String, top: f64, question: &str, rows: &[(&str, &str, bool)], report: &Report) -> Result<f64> {
    let figures: Vec<f64> = rows
        .iter()
        .map(|(_, name, _)| report.figure(name).ok_or_else(|| format!("no figure for {name}")))
        .collect::<std::result::Result<_, _>>()?;
    let scale = LONGEST / figures.iter().copied().fold(1.0, f64::max);
    text(body, 20.0, top + 14.0, "font-size=\"13\" font-weight=\"600\"", question)?;
    let first = top + 26.0;
    for (n, ((label, _, ours), figure)) in rows.iter().zip(&figures).enumerate() {
        let (y, length) = (first + ROW * n as f64, (figure * scale).max(1.0));
        let colour = if *ours { OURS } else { OTHERS };
        let middle = y + BAR - 3.0;
        text(body, LEFT - 10.0, middle, "font-size=\"12\" text-anchor=\"end\"", label)?;
        writeln!(
            body,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"3\" fill=\"{colour}\"/>"
        )?;
        let weight = if *ours {
            "font-size=\"12\" font-weight=\"600\""
        } else {
            "font-size=\"12\""
        };
        // Not across the dashed line.
        let clear = match LEFT + length {
            end if (end..end + 50.0).contains(&(LEFT + scale)) => LEFT + scale,
            end => end,
        };
        text(body, clear + 8.0, middle, weight, &figure_text(*figure))?;
    }
    let (end, base) = (first + ROW * rows.len() as f64, LEFT + scale);
    writeln!(
        body,
        "<line x1=\"{base:.1}\" x2=\"{base:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{TEXT}\" stroke-dasharray=\"3 3\" opacity=\"0.7\"/>",
        first - 4.0,
        end - ROW + BAR + 4.0
    )?;
    Ok(end + 14.0)
}

fn figure_text(figure: f64) -> String {
    match figure {
        large if large >= 10.0 => format!("{large:.0} \u{d7}"),
        small => format!("{small:.2} \u{d7}"),
    }
}

fn text(body: &mut String, x: f64, y: f64, how: &str, what: &str) -> Result<()> {
    writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{TEXT}\" {how}>{what}</text>")?;
    Ok(())
}
