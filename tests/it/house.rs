//! The house test: reads every file under `src/` as text and holds the one rule of ARCHITECTURE.md.
//! A room uses floors below it and rooms to its left on its own floor, never up, never right. Unit
//! tests inside a room are bound like the room: a word that needs an engine to be tested is no word.
//! What it can't see: paths inside literals (`serde(with = "..")`) and names that a macro glues.

use std::{collections::BTreeMap, fs, io, path::Path};

/// The floors from the ground up, a line each; the rooms on a floor from left to right.
const FLOORS: &str = "\
future invalid ids clock disk actor visible origin answer gate operation order fingerprint ruling intent lifecycle
journal policy audit
dialect attempt api unversioned
outcome engine recovery
client operator";

/// The garden shed beside the house plays the server. It uses our words, but the judge must not
/// think with the engine's brain.
const SHED: &str = "testkit";
const BRAIN: [&str; 2] = ["gate", "fingerprint"];

/// Names, and the only files that may speak them. A name without `::` is a crate's.
const DOORS: [(&str, &str); 7] = [
    ("backoff", "attempt/pace.rs"),
    ("getrandom", "ids.rs"),
    ("IdempotencyKey::mint", "ids.rs journal/claim.rs"), // a key minted elsewhere is a second order
    ("reqwest", "attempt/http.rs unversioned.rs"),
    ("SystemTime::now", "clock.rs"),
    ("Instant::now", "clock.rs"),
    ("uketsuke", "nobody"), // under its own name the crate is its front page once more
];

#[test]
fn the_house_stands_on_its_floors() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = rust_files(&src, "").expect("every file under src/ can be read");
    // The program is a crate of its own, which sees no more of this one than any stranger.
    files.retain(|(path, _)| !path.starts_with("bin/"));
    let lib = files.iter().find(|(path, _)| path == "lib.rs");
    let found = breaches(&files, &lib.expect("src/lib.rs is there").1).join("\n  ");
    assert!(found.is_empty(), "the house rule is broken:\n  {found}\n");
}

/// Every Rust file in `folder`, as its path under `src/` and its text.
pub(crate) fn rust_files(folder: &Path, under: &str) -> io::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = format!("{under}{}", path.file_name().unwrap_or_default().display());
        if path.is_dir() {
            files.extend(rust_files(&path, &format!("{name}/"))?);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            files.push((name, fs::read_to_string(&path)?));
        }
    }
    Ok(files)
}

/// Each breach as `src/file:line`, what stands there, and why it may not.
fn breaches(files: &[(String, String)], lib: &str) -> Vec<String> {
    let front_page = re_exports(&Words::of(lib));
    let mut found = Vec::new();
    for (file, text) in files {
        let words = Words::of(text);
        let mut report = |at, what: &str, why: &str| {
            found.push(format!("src/{file}:{}: `{what}` {why}", words.line(at)));
        };
        for (name, keepers) in DOORS {
            if keepers.split(' ').all(|keeper| keeper != file) {
                let spoken = (0..words.0.len()).filter(|at| words.speak(*at, name));
                spoken.for_each(|at| report(at, name, &format!("is for {keepers} to name")));
            }
        }
        if file == "lib.rs" {
            continue; // the front page names every room; that is its work
        }
        let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let room = module.split('/').next().unwrap_or_default();
        if room != SHED && place(room).is_none() {
            report(0, room, "has no floor: add it here and in ARCHITECTURE.md");
            continue;
        }
        for (at, path, leads_to) in paths_to_the_root(&words, module) {
            if let Err(why) = may_use(room, leads_to, &front_page) {
                report(at, &path, &why);
            }
        }
    }
    found
}

/// The rule. `used` is the first name of a path after the crate's root, empty where it ends there.
fn may_use(room: &str, used: &str, front_page: &BTreeMap<&str, String>) -> Result<(), String> {
    let why = match (place(room), place(used)) {
        _ if used == room => return Ok(()),
        _ if used == SHED => "leads to the shed, which nobody in the house uses".to_owned(),
        (_, None) => match front_page.get(used) {
            Some(path) => format!("goes roundabout through lib.rs: name the room, crate::{path}"),
            None => "leads to no room: name one right after `crate::`".to_owned(),
        },
        (None, Some((0, _))) if !BRAIN.contains(&used) => return Ok(()),
        (None, _) => "is not for the shed: it uses words, and no fingerprint code".to_owned(),
        (Some((ours, _)), Some((theirs, _))) if theirs > ours => {
            format!("goes up, from floor {ours} to {theirs}")
        }
        (ours, theirs) if theirs > ours => format!("goes right of {room} on its own floor"),
        _ => return Ok(()),
    };
    Err(why)
}

/// The floor a room stands on, and its place there.
fn place(room: &str) -> Option<(usize, usize)> {
    let on = |floor: &str| floor.split(' ').position(|name| name == room);
    let mut floors = FLOORS.lines().enumerate();
    floors.find_map(|(floor, rooms)| Some((floor, on(rooms)?)))
}

/// What the front page re-exports: each name, and the path behind it.
fn re_exports<'a>(lib: &Words<'a>) -> BTreeMap<&'a str, String> {
    let uses = (0..lib.0.len()).filter(|at| lib.word(*at) == "use");
    let paths = uses.flat_map(|at| lib.paths(at + 1, &[]).0);
    let named = |path: Vec<&'a str>| Some((*path.last()?, path.join("::")));
    paths.filter_map(named).collect()
}

/// Every path that reaches the crate's root, in imports, bodies and macros alike: where it stands,
/// its text, and the name after the root.
fn paths_to_the_root<'a>(words: &Words<'a>, module: &str) -> Vec<(usize, String, &'a str)> {
    let mut found = Vec::new();
    let (mut at, mut depth) = (0, 0);
    // The modules around us, and how deep in braces each began.
    let mut here: Vec<_> = module.split('/').map(|name| (name, -1)).collect();
    while at < words.0.len() {
        let (start, mut paths) = (at, Vec::new());
        at += 1;
        match [0, 1, 2, 3].map(|n| words.word(start + n)) {
            // Visibility says who may look in; it looks nowhere.
            ["(", "crate" | "super", ")", _] => at += 2,
            ["(", "in", ..] => (_, at) = words.paths(start + 2, &[]),
            ["crate" | "super", ..] | ["self", "::", ..] => {
                (paths, at) = words.paths(start, &[]);
            }
            // A file pulled in from elsewhere has no room: judged as if it came from the root.
            ["[", "path", "=", _] | ["include", "!", ..] => paths.push(vec!["crate"]),
            ["mod", name, "{", _] => here.push((name, depth)),
            ["{", ..] => depth += 1,
            ["}", ..] => {
                depth -= 1;
                here.pop_if(|(_, began)| *began == depth);
            }
            _ => {}
        }
        for path in paths {
            let here = here.iter().map(|(name, _)| *name).collect();
            if let Some(name) = name_after_the_root(here, &path) {
                found.push((start, path.join("::"), name));
            }
        }
    }
    found
}

/// Follows `crate`, `self` and `super` from the module `here`; `None` if the path stays in the room.
fn name_after_the_root<'a>(mut here: Vec<&str>, path: &[&'a str]) -> Option<&'a str> {
    for step in path {
        match *step {
            "crate" => here.clear(),
            "super" => drop(here.pop()),
            "self" => {}
            name => return here.is_empty().then_some(name),
        }
    }
    here.is_empty().then_some("")
}

/// A file as words with their lines: names, `::`, single signs. Comments and literals are silent.
pub(crate) struct Words<'a>(Vec<(&'a str, usize)>);

impl<'a> Words<'a> {
    pub(crate) fn of(mut rest: &'a str) -> Self {
        let (mut words, mut line) = (Vec::new(), 1);
        while let Some(first) = rest.chars().next() {
            let silent = silence(rest);
            let colons = if rest.starts_with("::") { 2 } else { 0 };
            let name = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
            let length = silent.unwrap_or(first.len_utf8().max(colons).max(name));
            let (word, after) = rest.split_at(length);
            if silent.is_none() && !first.is_whitespace() {
                words.push((word, line));
            }
            line += word.matches('\n').count();
            rest = after;
        }
        Words(words)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn word(&self, at: usize) -> &'a str {
        self.0.get(at).map_or("", |(word, _)| word)
    }

    pub(crate) fn line(&self, at: usize) -> usize {
        self.0.get(at).map_or(1, |(_, line)| *line)
    }

    /// One path or `use` tree as whole paths, `a::{b, c::D}` as `a::b` and `a::c::D`; and its end.
    pub(crate) fn paths(&self, mut at: usize, before: &[&'a str]) -> (Vec<Vec<&'a str>>, usize) {
        let mut path = before.to_vec();
        while self.word(at) != "{" {
            path.push(self.word(at));
            let [sign, next] = [1, 2].map(|n| self.word(at + n));
            if sign != "::" || !next.starts_with(|c| is_name_char(c) || "{*".contains(c)) {
                return (vec![path], at + if sign == "as" { 3 } else { 1 });
            }
            at += 2;
        }
        let mut paths = Vec::new();
        at += 1;
        while !["}", ""].contains(&self.word(at)) {
            let (inner, end) = self.paths(at, &path);
            paths.extend(inner);
            at = end + usize::from(self.word(end) == ",");
        }
        (paths, at + 1)
    }

    /// Is `name` spoken here: `Instant::now` as it stands, `backoff` as the crate (not a variable,
    /// not `ours::backoff`)?
    fn speak(&self, at: usize, name: &str) -> bool {
        let before = |n| at.checked_sub(n).map_or("", |at| self.word(at));
        let [here, sign, next] = [0, 1, 2].map(|n| self.word(at + n));
        match name.split_once("::") {
            Some((owner, item)) => [here, sign, next] == [owner, "::", item],
            None if here != name => false,
            None if before(1) == "::" => before(2) == "use" || !before(2).ends_with(is_name_char),
            None => sign == "::" || ["use", "crate"].contains(&before(1)),
        }
    }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment, string or character that starts here. A lifetime is none of them.
fn silence(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return text.lines().next().map(str::len);
    }
    if text.starts_with("/*") {
        // They nest: one ends where as many have ended as begun.
        let ends = text.match_indices("*/").map(|(at, _)| at + 2).enumerate();
        let begun = |end: usize| text[..end].matches("/*").count();
        let mut closed = ends.filter(|(n, end)| *end > 3 && begun(*end) <= n + 1);
        return Some(closed.next().map_or(text.len(), |(_, end)| end));
    }
    let body = text.strip_prefix(['b', 'c']).unwrap_or(text);
    if let Some(raw) = body.strip_prefix('r') {
        let quoted = raw.trim_start_matches('#');
        let fence = format!("\"{}", "#".repeat(raw.len() - quoted.len()));
        if let Some(inner) = quoted.strip_prefix('"') {
            let end = inner.find(&fence).map(|at| at + fence.len());
            return Some(text.len() - inner.len() + end.unwrap_or(inner.len()));
        }
    }
    let inner = body.strip_prefix(['"', '\''])?;
    let quote = if body.starts_with('"') { '"' } else { '\'' };
    if quote == '\'' && !inner.starts_with('\\') && inner.chars().nth(1) != Some('\'') {
        return None;
    }
    let mut escaped = false;
    let end = inner.find(|c| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    Some(text.len() - inner.len() + end.map_or(inner.len(), |at| at + 1))
}

#[test]
fn every_way_out_of_a_room_goes_red() {
    for (file, text, why) in rows(RED) {
        let found = judged(file, &text);
        let one = found.len() == 1 && found.iter().all(|breach| breach.contains(why));
        assert!(one, "{text}\n wanted `{why}`\n got {found:?}");
    }
}

const RED: &str = r#"
order.rs             | //! An order.⏎⏎use crate::api::Api;                   | src/order.rs:3: `crate::api::Api` goes up, from floor 0 to 2
ids.rs               | use crate::clock::Clock;                              | goes right of ids
journal/file/book.rs | use crate::policy::Permit;                            | goes right of journal
origin.rs            | fn f() { let x = crate::engine::go(); }               | goes up, from floor 0 to 3
policy/rules.rs      | fn f() { super::super::engine::go() }                 | goes up, from floor 1 to 3
policy/rules.rs      | use self::super::super::{engine};                     | goes up, from floor 1 to 3
actor.rs             | mod tests { fn f() { super::super::client::new() } }  | goes up, from floor 0 to 4
actor.rs             | mod tests { fn f() { '{' } } use super::client;       | goes up, from floor 0 to 4
api.rs               | pub(crate) use crate::{⏎ ids::{RequestId},⏎ engine,⏎};| `crate::engine` goes up, from floor 2 to 3
api.rs               | macro_rules! m { () => { $crate::client::go() } }     | goes up, from floor 2 to 4
api.rs               | fn f<'a>() -> crate::client::C<'a> { 'x' }            | goes up, from floor 2 to 4
outcome.rs           | use crate::{ids, PlaceOrder};                         | name the room, crate::order::PlaceOrder
outcome.rs           | fn f(x: crate::Desk) {}                               | name the room, crate::testkit::Desk
outcome.rs           | use crate::{self as front, ids};                      | leads to no room
outcome.rs           | use crate as front;                                   | leads to no room
outcome.rs           | extern crate self as front;                           | leads to no room
outcome.rs           | use super::*;                                         | leads to no room
outcome.rs           | #[path = "../shed.rs"] mod shed;                      | leads to no room
outcome.rs           | use uketsuke::Desk;                                   | `uketsuke` is for nobody to name
client.rs            | use crate::testkit::Desk;                             | leads to the shed
testkit/desk.rs      | use crate::fingerprint::Fingerprint;                  | is not for the shed
testkit/desk.rs      | use super::super::{ids, gate};                        | is not for the shed
testkit/desk.rs      | use crate::journal::Journal;                          | is not for the shed
attic.rs             |                                                       | has no floor
attempt/budget.rs    | use backoff as patience;                              | `backoff` is for attempt/pace.rs to name
attempt/mod.rs       | fn f(client: ::reqwest::Client) {}                    | `reqwest` is for attempt/http.rs unversioned.rs to name
lib.rs               | pub use ::reqwest as http_client;                     | `reqwest` is for attempt/http.rs unversioned.rs to name
journal/claim.rs     | fn f() { std::time::Instant::now(); }                 | `Instant::now` is for clock.rs to name
"#;

#[test]
fn what_keeps_the_rule_stays_green() {
    for (file, text, _) in rows(GREEN) {
        let found = judged(file, &text);
        assert!(found.is_empty(), "{text}\n got {found:?}");
    }
}

const GREEN: &str = r##"
engine.rs        | use crate::{attempt::{Wire, pace::*}, journal, outcome::Outcome};
journal/claim.rs | use super::store::Store; use crate::journal::flight; mod tests { use super::*; }
ids.rs           | /// See [`crate::engine`].⏎//! crate::client /*⏎/* crate::api /* crate::api */ crate::api */
ids.rs           | const A: &str = "\" crate::engine"; const B: &str = r#"" crate::engine"#;
ids.rs           | const C: [char; 2] = ['"', '\'']; // crate::engine '"'
policy/permit.rs | pub(in crate::policy) struct P(pub(super) u8, pub(crate) u8, pub(in super::super) u8);
testkit/desk.rs  | use crate::{answer::Answer, ids}; use super::ledger::Ledger;
attempt/pace.rs  | use backoff::backoff::Backoff;
engine.rs        | fn f() { let backoff = self.backoff; crate::attempt::backoff::x(backoff) }
clock.rs         | fn f() { SystemTime::now() }
"##;

/// A row is a file, its text (`⏎` breaks the line), and what the one breach must say.
fn rows(table: &str) -> impl Iterator<Item = (&str, String, &str)> {
    table.lines().filter(|row| !row.is_empty()).map(|row| {
        let mut cells = row.splitn(3, '|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_default();
        (cell(), cell().replace('⏎', "\n"), cell())
    })
}

fn judged(file: &str, text: &str) -> Vec<String> {
    let lib = "mod order;\npub use order::{PlaceOrder, AmendOrder};\npub use testkit::Desk;";
    breaches(&[(file.to_owned(), text.to_owned())], lib)
}
