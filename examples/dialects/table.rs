//! The table on the terminal.

use crate::situation::{Cell, Situation};
use uketsuke::testkit::ServerDialect;

const NAME: usize = 14;
const WIDE: usize = 29;

pub(crate) fn head() {
    println!("What the client says in the end; requests sent + lookups; orders at the server. `?`: a person has to look.\n");
    let titles = Situation::ALL.map(|situation| {
        format!(
            "{:<WIDE$}",
            match situation {
                Situation::InProgress => "stuck, then finished",
                Situation::Mismatch => "key of another order",
                Situation::LostReply => "lost reply",
                Situation::Stored500 => "stored 500",
                Situation::AfterRetention => "back after retention",
            }
        )
    });
    println!("{:<NAME$}{}", "", titles.concat().trim_end());
}

pub(crate) fn row(server: ServerDialect, cells: &[Cell]) {
    let cells = cells.iter().map(|cell| {
        let mark = if cell.is_true() && cell.orders <= 1 { "" } else { " !!" };
        let text = format!("{} {}+{} ·{}{mark}", cell.said, cell.sent, cell.asked, cell.orders);
        format!("{text:<WIDE$}")
    });
    println!("{:<NAME$}{}", server.name(), cells.collect::<String>().trim_end());
}
