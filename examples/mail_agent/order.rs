//! What a mail asks for, by a few plain lines. What can't be read for certain is for a person: nothing is guessed.
//!
//! | line | in Japanese | |
//! |---|---|---|
//! | `Customer: C-100` | `顧客：Ｃ－１００` | begins an order |
//! | `Order: 2 x SKU-1` | `注文：２×ＳＫＵ－１`, `注文：２個×ＳＫＵ－１` | an item of it; one at least |
//! | `Deliver by: 2026-12-01` | `納期：２０２６年１２月１日` | the last day on which it may arrive; one at most |
//!
//! Capitals before the colon don't matter, and full-width forms are read as the plain ones. Customers and SKUs are letters, digits, `-` and `_`.
//!
//! Only what the sender says now counts. A line that begins with `>` is a quotation, and a line that begins with `--`, `__`, `From:` or `差出人：`
//! is where the signature or an older mail begins. What stands there was asked for in another mail: read again, it would be a second order.

use std::fmt;
use uketsuke::{Date, PlaceOrder};

/// One order that a mail asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    customer: String,
    items: Vec<Item>,
    deliver_by: Option<Date>,
}

#[derive(Debug, PartialEq, Eq)]
struct Item {
    quantity: u32,
    sku: String,
}

impl Wanted {
    /// The order to submit. The note goes with it, and is part of its contents.
    pub(crate) fn to_order(&self, note: &str) -> PlaceOrder {
        let order = PlaceOrder::new(&self.customer).note(note);
        let order = self.items.iter().fold(order, |order, item| order.item(&item.sku, item.quantity));
        match self.deliver_by {
            Some(day) => order.deliver_by(day),
            None => order,
        }
    }
}

/// `C-100: 2 x SKU-1, by 2026-12-01`
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> = self.items.iter().map(|item| format!("{} x {}", item.quantity, item.sku)).collect();
        write!(f, "{}: {}", self.customer, items.join(", "))?;
        self.deliver_by.map_or(Ok(()), |day| write!(f, ", by {day}"))
    }
}

/// The orders a text asks for, in the order they stand there; none if it speaks of none.
///
/// # Errors
/// Why it can't be read for certain. All or nothing: of a mail that is half clear, nothing is ordered.
pub(crate) fn orders_in(text: &str) -> Result<Vec<Wanted>, String> {
    let mut orders: Vec<Wanted> = Vec::new();
    for (line, word, value) in said(text) {
        let unclear = || format!("`{}` can't be read for certain", line.trim());
        match (word, orders.last_mut()) {
            (Word::Customer, _) => orders.push(Wanted {
                customer: name(&value).ok_or_else(unclear)?,
                items: Vec::new(),
                deliver_by: None,
            }),
            (Word::Item, Some(order)) => order.items.push(item(&value).ok_or_else(unclear)?),
            (Word::DeliverBy, Some(order)) if order.deliver_by.is_none() => order.deliver_by = Some(day(&value).ok_or_else(unclear)?),
            (Word::DeliverBy, Some(_)) => return Err("an order has two delivery dates".to_owned()),
            (Word::Item | Word::DeliverBy, None) => return Err(format!("`{}` comes before any customer", line.trim())),
        }
    }
    match orders.iter().find(|order| order.items.is_empty()) {
        Some(order) => Err(format!("nothing is ordered for {}", order.customer)),
        None => Ok(orders),
    }
}

/// Whether a text, or what it quotes, holds a line that belongs to an order.
pub(crate) fn speaks_of_orders(text: &str) -> bool {
    let unquoted = |line: &str| line.trim_start_matches(['>', ' ']).to_owned();
    text.lines().any(|line| word_and_value(&unquoted(&plain(line))).is_some())
}

/// What a line is about.
#[derive(Clone, Copy)]
enum Word {
    Customer,
    Item,
    DeliverBy,
}

/// The lines that belong to an order, as far as the sender speaks now.
fn said(text: &str) -> impl Iterator<Item = (&str, Word, String)> {
    let lines = text.lines().map(|line| (line, plain(line)));
    let now = lines.take_while(|(_, plain)| !begins_an_older_mail(plain));
    now.filter_map(|(line, plain)| word_and_value(&plain).map(|(word, value)| (line, word, value)))
}

fn begins_an_older_mail(line: &str) -> bool {
    let line = line.trim().to_lowercase();
    ["--", "__", "from:", "差出人:"].iter().any(|begin| line.starts_with(begin))
}

fn word_and_value(line: &str) -> Option<(Word, String)> {
    let (word, value) = line.split_once(':')?;
    let word = match word.trim().to_lowercase().as_str() {
        "customer" | "顧客" => Word::Customer,
        "order" | "注文" => Word::Item,
        "deliver by" | "納期" => Word::DeliverBy,
        _ => return None,
    };
    Some((word, value.trim().to_owned()))
}

/// Full-width forms, and the signs that mail programs put in the place of `-`, `x` and a blank, as plain ones.
fn plain(line: &str) -> String {
    let plain = |c: char| match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{3000}' => ' ',
        '×' => 'x',
        c => c,
    };
    line.chars().map(plain).collect()
}

/// `2 x SKU-1`; in Japanese a counter may follow the number.
fn item(text: &str) -> Option<Item> {
    let (quantity, sku) = text.split_once(['x', 'X'])?;
    let quantity = quantity.trim().trim_end_matches('個').trim_end();
    let digits = !quantity.is_empty() && quantity.bytes().all(|b| b.is_ascii_digit());
    let quantity = digits.then(|| quantity.parse().ok()).flatten().filter(|quantity| *quantity > 0)?;
    Some(Item { quantity, sku: name(sku)? })
}

fn name(text: &str) -> Option<String> {
    let text = text.trim();
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!text.is_empty() && text.chars().all(good)).then(|| text.to_owned())
}

/// Year first, so that nobody has to know whether `01/12` is in January.
fn day(text: &str) -> Option<Date> {
    let parts: Vec<&str> = text.trim_end_matches('日').split(['-', '/', '年', '月']).map(str::trim).collect();
    match parts.as_slice() {
        [year, month, day] if year.len() == 4 => format!("{year}-{month:0>2}-{day:0>2}").parse().ok(),
        _ => None,
    }
}
