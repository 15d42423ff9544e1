//! A script as text: read here, with errors that say what would be right; written by `Display`.
//!
//! Whatever is read is bounded: steps after expansion, nesting, and what of a bad text is said back.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::Script;
use super::rules::{Rule, When};
use super::situation::{Situation, Step, accepted, redirection, refusal, unauthorized};
use crate::testkit::reply::{Reply, Written};
use crate::testkit::spelling::distance;

const STEPS_MAX: usize = 10_000;
const NESTING_MAX: usize = 8;
/// Of a word that is not understood, this many letters are compared and said back.
const WORD_MAX: usize = 40;

/// The words a step can begin with, as they are suggested.
const STEPS: [&str; 16] = [
    "ok",
    "503",
    "unauthorized",
    "redirect 307 /elsewhere",
    "lose request",
    "lose reply",
    "commit 504",
    "accepted",
    "late 200ms",
    "slow 2s",
    "stuck",
    "refuse",
    "store 500",
    "clock +24h",
    "expire credential",
    "reply {\"status\":503}",
];

/// A text that is no script: where, why, and what would be right there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the script, line {line}, column {column}: {what}; {right}")]
#[non_exhaustive]
pub struct BadScript {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub right: String,
}

impl FromStr for Script {
    type Err = BadScript;

    fn from_str(text: &str) -> Result<Self, BadScript> {
        Reader { text, at: 0 }.script()
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        if self.seed != 0 {
            write!(f, "seed {}", self.seed)?;
            between = "; ";
        }
        for Rule { when, steps } in &self.rules {
            write!(f, "{between}{when}: (")?;
            write_steps(f, steps)?;
            f.write_str(")")?;
            between = "; ";
        }
        if !self.sequence.is_empty() {
            f.write_str(between)?;
        }
        write_steps(f, &self.sequence)
    }
}

/// Steps that are alike and in a row are written once.
fn write_steps(f: &mut fmt::Formatter<'_>, steps: &VecDeque<Step>) -> fmt::Result {
    let mut rest = steps.iter().peekable();
    while let Some(step) = rest.next() {
        let mut times = 1;
        while rest.next_if_eq(&step).is_some() {
            times += 1;
        }
        write!(f, "{step}")?;
        if times > 1 {
            write!(f, " x{times}")?;
        }
        if rest.peek().is_some() {
            f.write_str("; ")?;
        }
    }
    Ok(())
}

type Read<T> = Result<T, BadScript>;

/// What stands before a rule's colon, or a seed.
enum Head {
    Seed(u64),
    Rule(When),
}

struct Reader<'a> {
    text: &'a str,
    /// In bytes, always between two characters.
    at: usize,
}

/// Steps, groups and rules.
impl Reader<'_> {
    fn script(mut self) -> Read<Script> {
        let mut script = Script::new();
        let mut steps = 0;
        let mut in_sequence = false;
        loop {
            self.skip_separators();
            let start = self.at;
            if self.rest().is_empty() {
                return Ok(script);
            }
            match self.head()? {
                Some(_) if in_sequence => {
                    return Err(self.bad(
                        start,
                        "a rule or a seed behind a step",
                        "rules and the seed stand before the sequence",
                    ));
                }
                Some(Head::Seed(seed)) => script.seed = seed,
                Some(Head::Rule(when)) => {
                    let read = self.item(0)?;
                    steps += read.len();
                    if !read.is_empty() {
                        let steps = read.into();
                        script.rules.push(Rule { when, steps });
                    }
                }
                None => {
                    in_sequence = true;
                    let read = self.item(0)?;
                    steps += read.len();
                    script.sequence.extend(read);
                }
            }
            self.not_too_many(start, steps)?;
            self.end_of_item(false)?;
        }
    }

    fn head(&mut self) -> Read<Option<Head>> {
        let start = self.at;
        let head = match self.word() {
            "seed" => return Ok(Some(Head::Seed(self.whole("a seed", "a whole number, such as `seed 42`")?))),
            "order" => {
                let right = "count the keys from 1, as in `order 3: lose reply`";
                self.skip_blank();
                let place = self.at;
                match self.whole("an order", right)? {
                    0 => return Err(self.bad(place, "`order 0` is nobody's", right)),
                    n => When::Order(usize::try_from(n).unwrap_or(usize::MAX)),
                }
            }
            "key" => When::Key(self.value(
                true,
                "a key",
                "the key as it is sent, as in `key 8e03978e: stuck`, in quotes if it has signs in it",
            )?),
            word => match word.strip_suffix('%').map(millionths) {
                Some(Some(millionths)) => When::Sometimes { millionths },
                Some(None) => {
                    let what = format!("`{}` is no probability", short(word));
                    return Err(self.bad(start, &what, "0% to 100%, with up to four decimals"));
                }
                None => {
                    self.at = start;
                    return Ok(None);
                }
            },
        };
        self.skip_blank();
        if !self.take(":") {
            return Err(self.bad(
                self.at,
                &format!("{} where a rule goes on", self.here()),
                "a `:` and what then happens",
            ));
        }
        Ok(Some(Head::Rule(head)))
    }

    /// One step or a group, as often as it says.
    fn item(&mut self, depth: usize) -> Read<Vec<Step>> {
        self.skip_blank();
        let start = self.at;
        let read = match self.take("(") {
            true if depth >= NESTING_MAX => return Err(self.bad(start, "groups nest too deep", "eight deep at most")),
            true => self.group(start, depth + 1)?,
            false => vec![Arc::new(self.step()?)],
        };
        match self.times()? {
            None => Ok(read),
            Some(n) => {
                self.not_too_many(start, read.len().saturating_mul(n))?;
                Ok((0..n).flat_map(|_| read.iter().cloned()).collect())
            }
        }
    }

    fn group(&mut self, start: usize, depth: usize) -> Read<Vec<Step>> {
        let mut read = Vec::new();
        let mut empty = true;
        loop {
            self.skip_separators();
            if self.rest().is_empty() {
                return Err(self.bad(start, "this group has no end", "a `)` behind its last step"));
            }
            if self.take(")") {
                break;
            }
            empty = false;
            read.extend(self.item(depth)?);
            self.not_too_many(start, read.len())?;
            self.end_of_item(true)?;
        }
        if empty {
            return Err(self.bad(start, "an empty group", "at least one step, as in `(503; ok) x3`"));
        }
        Ok(read)
    }

    fn times(&mut self) -> Read<Option<usize>> {
        self.skip_blank();
        let start = self.at;
        let digits = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let Some(n) = self.word().strip_prefix('x').filter(|n| digits(n)) else {
            self.at = start;
            return Ok(None);
        };
        match n.parse() {
            Ok(n) if n <= STEPS_MAX => Ok(Some(n)),
            _ => Err(self.too_many(start)),
        }
    }

    fn end_of_item(&mut self, in_group: bool) -> Read<()> {
        self.skip_blank();
        match self.rest().chars().next() {
            None | Some(';' | '\n') => Ok(()),
            Some(')') if in_group => Ok(()),
            Some(_) => {
                let what = format!("{} where a step has ended", self.here());
                Err(self.bad(
                    self.at,
                    &what,
                    "a `;` or a new line before the next step, or `x3` to repeat this one",
                ))
            }
        }
    }

    fn not_too_many(&self, at: usize, steps: usize) -> Read<()> {
        if steps > STEPS_MAX { Err(self.too_many(at)) } else { Ok(()) }
    }

    fn too_many(&self, at: usize) -> BadScript {
        self.bad(at, "too many steps", "10,000 in all, with repeats")
    }
}

/// One step, word by word.
impl Reader<'_> {
    fn step(&mut self) -> Read<Situation> {
        let start = self.at;
        Ok(match self.word() {
            "ok" => Situation::Honest,
            "unauthorized" => Situation::Instead(unauthorized()),
            "redirect" => {
                let code = self.status()?;
                let place = self.at;
                let to = self.value(false, "a redirect", "a status and where to, as in `redirect 307 /elsewhere`")?;
                Situation::Instead(self.speakable(place, redirection(code, &to))?)
            }
            "lose" => match self.second(start, &["lose request", "lose reply"])? {
                "lose request" => Situation::LoseRequest,
                _ => Situation::CommitThenLose,
            },
            "expire" => {
                self.second(start, &["expire credential"])?;
                Situation::ExpireCredential
            }
            "commit" => {
                let reply = self.answer("commit")?;
                self.skip_blank();
                let behind = self.at;
                if self.word() == "unstored" {
                    Situation::CommitUnstored(reply)
                } else {
                    self.at = behind;
                    Situation::CommitThenReply(reply)
                }
            }
            "accepted" => Situation::CommitThenReply(accepted()),
            "late" => Situation::Late(self.span()?),
            "slow" => Situation::Slow(self.span()?),
            "stuck" => Situation::Stuck,
            "refuse" => Situation::Store(refusal()),
            "store" => Situation::Store(self.answer("store")?),
            "clock" => Situation::TurnClock(self.turn()?),
            "reply" => Situation::Instead(self.full_reply()?),
            word if word.starts_with(|c: char| c.is_ascii_digit()) => {
                self.at = start;
                Situation::Instead(self.status_line()?)
            }
            word => return Err(self.unknown(start, word)),
        })
    }

    /// The second word of a step that has two.
    fn second(&mut self, start: usize, phrases: &[&'static str]) -> Read<&'static str> {
        let first = self.text.get(start..self.at).unwrap_or_default().to_owned();
        self.skip_blank();
        let second = self.word();
        let said = format!("{first} {second}");
        match phrases.iter().find(|phrase| **phrase == said) {
            Some(phrase) => Ok(phrase),
            None => {
                let right = match nearest(&[&said], phrases) {
                    Some(phrase) => format!("did you mean `{phrase}`?"),
                    None => format!("it can be {}", listed(phrases)),
                };
                Err(self.bad(start, &format!("`{}` is no step", short(said.trim_end())), &right))
            }
        }
    }

    fn unknown(&mut self, start: usize, word: &str) -> BadScript {
        if word.is_empty() {
            let what = format!("{} where a step should stand", self.here());
            return self.bad(start, &what, &format!("a step is one of {}", listed(&STEPS)));
        }
        self.skip_blank();
        let two = format!("{word} {}", self.word());
        let right = match nearest(&[word, two.trim_end()], &STEPS) {
            Some(phrase) => format!("did you mean `{phrase}`? A step is one of {}", listed(&STEPS)),
            None => format!("a step is one of {}", listed(&STEPS)),
        };
        self.bad(start, &format!("`{}` is no step", short(word)), &right)
    }

    /// `503`, `429 retry-after 3` or `reply {..}`.
    fn answer(&mut self, behind: &str) -> Read<Reply> {
        self.skip_blank();
        let start = self.at;
        if self.word() == "reply" {
            return self.full_reply();
        }
        self.at = start;
        if !self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            let what = format!("{} where `{behind}` has its answer", self.here());
            return Err(self.bad(
                start,
                &what,
                &format!("a status or a whole reply, as in `{behind} 504` or `{behind} reply {{\"status\":504}}`"),
            ));
        }
        self.status_line()
    }

    fn status_line(&mut self) -> Read<Reply> {
        let reply = Reply::status(self.status()?);
        self.skip_blank();
        let behind = self.at;
        if self.word() != "retry-after" {
            self.at = behind;
            return Ok(reply);
        }
        let place = self.at;
        let after = self.value(false, "a Retry-After", "seconds, or anything in quotes, as in `429 retry-after 3`")?;
        self.speakable(place, reply.retry_after(&after))
    }

    fn status(&mut self) -> Read<u16> {
        self.skip_blank();
        let start = self.at;
        let word = self.word();
        match word.parse() {
            Ok(code @ 200..=999) if word.len() == 3 => Ok(code),
            _ => {
                let what = match word {
                    "" => format!("{} where a status should stand", self.here()),
                    _ => format!("`{}` is no final HTTP status", short(word)),
                };
                Err(self.bad(start, &what, "200 to 999"))
            }
        }
    }

    fn full_reply(&mut self) -> Read<Reply> {
        let right = r#"JSON such as `{"status":503,"headers":[["a","b"]],"body":"text"}`, or `"bytes":[0,255]` for its body"#;
        self.skip_blank();
        let start = self.at;
        if !self.rest().starts_with('{') {
            return Err(self.bad(start, &format!("{} where a reply should stand", self.here()), right));
        }
        let written: Written = self.json(right)?;
        Reply::try_from(written).map_err(|why| self.bad(start, &why, right))
    }

    fn speakable(&self, at: usize, reply: Reply) -> Read<Reply> {
        match reply.unspeakable() {
            None => Ok(reply),
            Some(why) => Err(self.bad(at, &why, "what can stand in a header line")),
        }
    }

    fn span(&mut self) -> Read<Duration> {
        self.skip_blank();
        let start = self.at;
        let word = self.word();
        span(word).ok_or_else(|| self.no_span(start, word, "a duration in ms, s, m or h, such as `200ms` or `1.5s`"))
    }

    fn turn(&mut self) -> Read<i64> {
        let right = "how far and which way, in whole milliseconds, as in `clock +24h` or `clock -5m`";
        self.skip_blank();
        let start = self.at;
        let word = self.word();
        let (back, rest) = match (word.strip_prefix('+'), word.strip_prefix('-')) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(self.no_span(start, word, right)),
        };
        let whole = span(rest).filter(|span| span.subsec_nanos().is_multiple_of(1_000_000));
        let millis = whole.and_then(|span| i128::try_from(span.as_millis()).ok());
        let turned = millis.map(|millis| if back { -millis } else { millis });
        let turned = turned.and_then(|millis| i64::try_from(millis).ok());
        turned.ok_or_else(|| self.no_span(start, word, right))
    }

    fn no_span(&self, at: usize, word: &str, right: &str) -> BadScript {
        let what = match word {
            "" => "no duration".to_owned(),
            _ => format!("`{}` is no duration", short(word)),
        };
        self.bad(at, &what, right)
    }
}

/// Letters.
impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, sign: &str) -> bool {
        let there = self.rest().starts_with(sign);
        if there {
            self.at += sign.len();
        }
        there
    }

    /// White space within a line, and a comment.
    fn skip_blank(&mut self) {
        self.skip_while(|c| c.is_whitespace() && c != '\n');
        if self.rest().starts_with('#') {
            self.skip_while(|c| c != '\n');
        }
    }

    fn skip_separators(&mut self) {
        let mut before = usize::MAX;
        while before != self.at {
            before = self.at;
            self.skip_blank();
            self.skip_while(|c| c == ';' || c == '\n');
        }
    }

    fn skip_while(&mut self, skipped: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !skipped(c)).unwrap_or(rest.len());
    }

    /// What stands here up to white space or a sign; empty before one.
    fn word(&mut self) -> &'a str {
        self.word_up_to(":")
    }

    fn word_up_to(&mut self, signs: &str) -> &'a str {
        let start = self.at;
        self.skip_while(|c| !c.is_whitespace() && !";()#\"{".contains(c) && !signs.contains(c));
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// A word or something in quotes.
    fn value(&mut self, before_colon: bool, what: &str, right: &str) -> Read<String> {
        self.skip_blank();
        if self.rest().starts_with('"') {
            return self.json(right);
        }
        match self.word_up_to(if before_colon { ":" } else { "" }) {
            "" => Err(self.bad(self.at, &format!("{} where {what} has its value", self.here()), right)),
            word => Ok(word.to_owned()),
        }
    }

    fn whole(&mut self, what: &str, right: &str) -> Read<u64> {
        self.skip_blank();
        let start = self.at;
        let word = self.word();
        match word.parse() {
            Ok(n) if !word.starts_with('+') => Ok(n),
            _ => {
                let said = if word.is_empty() {
                    self.here()
                } else {
                    format!("`{}`", short(word))
                };
                Err(self.bad(start, &format!("{said} where {what} has its number"), right))
            }
        }
    }

    /// One JSON value, wherever it ends.
    fn json<T: DeserializeOwned>(&mut self, right: &str) -> Read<T> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<T>();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) => {
                let line_start: usize = self
                    .rest()
                    .split_inclusive('\n')
                    .take(error.line().saturating_sub(1))
                    .map(str::len)
                    .sum();
                let at = self.at + line_start + error.column().saturating_sub(1);
                // It says where it is by itself, counted from elsewhere.
                let why = error.to_string();
                let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why);
                Err(self.bad(at, why, right))
            }
            None => Err(self.bad(self.at, "nothing", right)),
        }
    }

    /// What stands here, for an error.
    fn here(&self) -> String {
        match self.rest().chars().next() {
            None => "the end".to_owned(),
            Some('\n') => "the end of the line".to_owned(),
            Some(c) => format!("`{}`", c.escape_debug()),
        }
    }

    fn bad(&self, at: usize, what: &str, right: &str) -> BadScript {
        let before = self.text.char_indices().take_while(|(place, _)| *place < at);
        let (line, column) = before.fold((1, 1), |(line, column), (_, c)| match c {
            '\n' => (line + 1, 1),
            _ => (line, column + 1),
        });
        BadScript {
            line,
            column,
            what: what.to_owned(),
            right: right.to_owned(),
        }
    }
}

/// `0.25` percent is 2,500 millionths.
fn millionths(percent: &str) -> Option<u32> {
    let n = decimal(percent, 10_000)?;
    u32::try_from(n).ok().filter(|n| *n <= 1_000_000)
}

fn span(word: &str) -> Option<Duration> {
    const SECOND: u128 = 1_000_000_000;
    let unit_at = word.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = word.split_at(unit_at);
    let unit = match unit {
        "ms" => SECOND / 1000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return None,
    };
    let nanos = decimal(number, unit)?;
    let seconds = u64::try_from(nanos / SECOND).ok()?;
    Some(Duration::new(seconds, u32::try_from(nanos % SECOND).ok()?))
}

/// A decimal number as so many whole parts of a unit; none if it does not come out whole.
fn decimal(number: &str, unit: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |digits: &str| (1..=25).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let tenth = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = part.parse::<u128>().ok()?.checked_mul(unit)?;
    let whole = whole.parse::<u128>().ok()?.checked_mul(unit)?;
    part.is_multiple_of(tenth).then_some(whole.checked_add(part / tenth)?)
}

fn listed(phrases: &[&str]) -> String {
    let quoted: Vec<String> = phrases.iter().map(|phrase| format!("`{phrase}`")).collect();
    quoted.join(", ")
}

/// The phrase that was probably meant: by its own words, without the example behind them.
fn nearest(said: &[&str], phrases: &[&'static str]) -> Option<&'static str> {
    let words = |phrase: &'static str| {
        let end = phrase.find(|c: char| !c.is_ascii_lowercase() && c != ' ');
        phrase.split_at(end.unwrap_or(phrase.len())).0.trim_end()
    };
    let by_distance = phrases.iter().filter(|phrase| !words(phrase).is_empty()).filter_map(|phrase| {
        let distances = said.iter().map(|said| distance(&short(said), words(phrase)));
        Some((distances.min()?, *phrase))
    });
    let (distance, phrase) = by_distance.min_by_key(|(distance, _)| *distance)?;
    (distance <= (words(phrase).len() / 3).clamp(1, 3)).then_some(phrase)
}

fn short(text: &str) -> String {
    text.chars().take(WORD_MAX).collect()
}
