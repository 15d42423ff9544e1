//! The sum at the end: the orders that the mails ask for, told by the folder's own list, against the orders that the desk has.

use serde_json::Value;
use std::{fs, io, path::Path};

/// Written by whoever wrote the mails. A line is `order <- the mails that ask for it`; `no order <- …` names the others, `#` begins a comment.
const LIST: &str = "distinct.txt";

/// The orders of the folder's list; `None` if it has none, as a real mailbox.
pub(crate) fn listed(folder: &Path) -> io::Result<Option<Vec<String>>> {
    let text = match fs::read_to_string(folder.join(LIST)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let orders = lines.map(|line| match line.split_once("<-") {
        Some((order, _mails)) => Ok(order.trim().to_owned()),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{LIST}: `{line}` names no mails"),
        )),
    });
    let mut orders = orders.collect::<io::Result<Vec<_>>>()?;
    orders.retain(|order| order != "no order");
    Ok(Some(orders))
}

/// An order of the desk as the list writes it: `C-100: 2 x SKU-1, by 2026-12-01`.
pub(crate) fn as_listed(order: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let items = order.get("items").and_then(Value::as_array).into_iter().flatten();
    let items: Vec<String> = items
        .map(|item| {
            let quantity = item.get("quantity").and_then(Value::as_u64).unwrap_or_default();
            format!("{quantity} x {}", item.get("sku").map_or_else(String::new, text))
        })
        .collect();
    let customer = order.get("customer").map_or_else(String::new, text);
    let day = order.get("deliver_by").map(|day| format!(", by {}", text(day)));
    format!("{customer}: {}{}", items.join(", "), day.unwrap_or_default())
}

/// What is in `these` and not in `those`; an order that stands there twice has to be found twice.
pub(crate) fn only_in<'a>(these: &'a [String], those: &[String]) -> Vec<&'a str> {
    let mut left: Vec<&String> = those.iter().collect();
    let missing = |order: &&String| match left.iter().position(|other| other == order) {
        Some(at) => {
            left.swap_remove(at);
            false
        }
        None => true,
    };
    these.iter().filter(missing).map(String::as_str).collect()
}
