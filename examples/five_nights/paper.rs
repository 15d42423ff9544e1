//! The audit of the five nights: as a chapter to read, or as rows for a pipe.

use crate::Done;
use std::io::{ErrorKind, Write, stdout};
use uketsuke::{
    Audit, Journal,
    audit::{AuditError, Filter, Format},
};

const HEAD: &str = "\
# An audit, from top to bottom

What the journal of `cargo run --example five_nights` has to say in the morning, made by

```sh
cargo run --quiet --example five_nights -- --audit > docs/audit-example.md
```

Keys, ids and times are another run's each time. Each order is one block under its key, oldest first; each line is when, what happened, where the
order stood after it, and whether it may have been processed by then. Who asked, for what and what was ruled stands in the claim; what is the same in
the lines below is left out. [audit.md](audit.md) says what stands in a row, and how to have it as JSON Lines or CSV (`-- --jsonl`, `-- --csv`).
";

/// What each night's order shows, in the order of their claims.
const NIGHTS: [&str; 6] = [
    "Night 1: the reply was lost, and the second attempt under the same key got it from the server's store",
    "Night 2: the mail was read again with other contents, of which nothing is here: nothing was written, and nothing sent",
    "Night 3: eight agents, one order; seven of them joined it",
    "Night 4: the server said \"still running\" until somebody mended it; resumed under the same key",
    "Night 5: the order that was to be changed",
    "Night 5: the change, which somebody had to approve; the agent's own yes was turned away, and so was a second use of Ana's",
];

pub(crate) async fn chapter(journal: &Journal) -> Done {
    let mut out = stdout().lock();
    writeln!(out, "{HEAD}")?;
    let mut rows = Audit::of(journal).rows(&Filter::default());
    let (mut nights, mut order) = (NIGHTS.into_iter(), None);
    while let Some(row) = rows.next().await? {
        if order.replace(row.key) != Some(row.key) {
            if nights.len() < NIGHTS.len() {
                writeln!(out, "```\n")?;
            }
            let night = nights.next().unwrap_or("Another order");
            writeln!(out, "## {night}\n\n`{}`\n\n```text", row.key)?;
        }
        writeln!(out, "{row:#}")?;
    }
    writeln!(out, "```")?;
    Ok(())
}

pub(crate) async fn rows(journal: &Journal, format: Format) -> Done {
    match Audit::of(journal).export(format, &Filter::default(), &mut stdout().lock()).await {
        // Whoever reads has seen enough.
        Err(AuditError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written.map(drop)?),
    }
}
