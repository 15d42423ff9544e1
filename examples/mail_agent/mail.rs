//! Mails as they lie in a folder: who sent them, what they say, and which mail they are, so that a copy is known for a copy.

use crate::order::{self, Wanted};
use mail_parser::{HeaderName, Message, MessageParser, PartType, decoders::html::html_to_text};
use sha2::{Digest, Sha256};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use uketsuke::{Origin, PlaceOrder};

/// A mail, as far as an order needs it.
pub(crate) struct Mail {
    /// Its subject, decoded and shown so that it can do nothing to a terminal.
    pub(crate) subject: String,
    /// What it asks for, or why a person has to read it.
    pub(crate) asks: Result<Asks, String>,
}

/// What a mail asks for.
pub(crate) enum Asks {
    /// These orders, ready to submit.
    Orders(Vec<Ready>),
    /// Nothing.
    Nothing {
        /// Why it looks as if it did.
        but: Option<&'static str>,
    },
}

/// An order, and what it came from.
pub(crate) struct Ready {
    pub(crate) origin: Origin,
    pub(crate) order: PlaceOrder,
    pub(crate) wanted: Wanted,
}

/// The `.eml` files of a folder by name. Who reads them in one order always meets the first mail of a Message-ID first.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let unreadable = |why: io::Error| io::Error::new(why.kind(), format!("the folder {} can't be read: {why}", folder.display()));
    let entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(unreadable)?;
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind.eq_ignore_ascii_case("eml")));
    files.sort();
    Ok(files)
}

impl Mail {
    /// Reads a mail's bytes. Never fails: what can't be read is for a person too.
    pub(crate) fn read(bytes: &[u8]) -> Mail {
        let Some(message) = MessageParser::default().parse(bytes) else {
            return Mail {
                subject: String::new(),
                asks: Err("it is no mail: it has no headers".to_owned()),
            };
        };
        Mail {
            subject: message.subject().unwrap_or_default().escape_debug().to_string(),
            asks: asks(&message),
        }
    }
}

fn asks(message: &Message<'_>) -> Result<Asks, String> {
    let texts = [text_of(message), html_of(message)];
    let Some(text) = texts.iter().find(|text| order::speaks_of_orders(text)) else {
        return Ok(Asks::Nothing { but: None });
    };
    let wanted = order::orders_in(text)?;
    if wanted.is_empty() {
        let but = Some("only what it quotes speaks of one");
        return Ok(Asks::Nothing { but });
    }
    let sender = sender(message).ok_or("nobody is named as its sender")?;
    let origin = match message_id(message)? {
        Some(id) => Origin::mail(id),
        None => without_an_id(&sender, message, &wanted)?,
    };
    let of = wanted.len();
    let ready = wanted.into_iter().zip(1..).map(|(wanted, n)| Ready {
        // The first order is the mail's own, however many follow, so that two mails under one Message-ID always meet there.
        origin: if n == 1 { origin.clone() } else { origin.clone().line(n) },
        // And meeting there, they are told apart by it: another sender, or one order more, is not the mail that we know.
        order: wanted.to_order(&format!("by mail from {sender}, order {n} of {of}")),
        wanted,
    });
    Ok(Asks::Orders(ready.collect()))
}

fn sender(message: &Message<'_>) -> Option<String> {
    let address = message.from()?.first()?.address()?.trim().to_lowercase();
    (!address.is_empty()).then_some(address)
}

/// The one Message-ID. A header without an id in it is as good as none; of several, which one would a copy have?
fn message_id<'a>(message: &'a Message<'_>) -> Result<Option<&'a str>, String> {
    let headers = message.header_values(HeaderName::MessageId);
    let mut ids: Vec<&str> = headers
        .flat_map(|header| header.as_text_list().unwrap_or_default())
        .map(|id| id.trim())
        .collect();
    ids.retain(|id| !id.is_empty());
    ids.dedup();
    match ids.as_slice() {
        [] => Ok(None),
        [id] => Ok(Some(id)),
        _ => Err("it has several Message-IDs".to_owned()),
    }
}

/// What is the same in every copy of a mail without an id: its sender, the second it was written, and what it asks for. Not the bytes: a relay
/// may change the encoding, and put a word before the subject or a line below the text.
fn without_an_id(sender: &str, message: &Message<'_>, wanted: &[Wanted]) -> Result<Origin, String> {
    let date = message.date().filter(|date| date.is_valid());
    let written = date.ok_or("it has neither a Message-ID nor a date, so nothing tells a copy from another order")?;
    // A line each. None of them can hold a line break, so no two mails run together.
    let mut hash = Sha256::new();
    hash.update(format!("{}\n{}\n", sender.escape_debug(), written.to_timestamp()));
    wanted.iter().for_each(|wanted| hash.update(format!("{wanted}\n")));
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Origin::custom("mail-without-id", hex))
}

fn text_of(message: &Message<'_>) -> String {
    let texts = message.text_bodies().filter_map(|part| match &part.body {
        PartType::Text(text) => Some(text.as_ref()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn html_of(message: &Message<'_>) -> String {
    let pages = message.html_bodies().filter_map(|part| match &part.body {
        PartType::Html(page) => Some(html_to_text(&with_breaks(page))),
        _ => None,
    });
    pages.collect::<Vec<_>>().join("\n")
}

/// A page with a break wherever a reader sees a new line, since the library knows only `<br>` and `</p>`; and with a line of dashes where it
/// quotes an older mail.
fn with_breaks(page: &str) -> String {
    const NEW_LINE: [&str; 12] = ["div", "p", "li", "ul", "ol", "table", "tr", "h1", "h2", "h3", "h4", "body"];
    let mut pieces = page.split('<');
    let mut broken = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let tag = piece.strip_prefix('/').unwrap_or(piece);
        let tag = tag
            .split(|c: char| !c.is_ascii_alphanumeric())
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        match tag.as_str() {
            "blockquote" | "hr" => broken.push_str("<br>--<br>"),
            tag if NEW_LINE.contains(&tag) => broken.push_str("<br>"),
            _ => {}
        }
        broken.push('<');
        broken.push_str(piece);
    }
    broken
}
