//! A rule file as a tree in which each value knows where it stands, whichever way it was written. Pure.

use super::reading::Flaw;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::fmt;
use toml::{Spanned, de::DeTable, de::DeValue};

/// Deeper than any rule goes, and shallow enough to walk.
const DEPTH: usize = 16;

/// A value, and the byte of the file at which it begins.
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) value: Value,
}

pub(super) enum Value {
    Table(Vec<Member>),
    List(Vec<Node>),
    Text(String),
    /// A whole number, not negative.
    Number(u64),
    /// What no rule holds: a date, a truth value, a number with a fraction, nothing.
    Other,
}

pub(super) struct Member {
    pub(super) name: String,
    pub(super) at: usize,
    pub(super) value: Node,
}

pub(super) fn of_toml(text: &str) -> Result<Node, Flaw> {
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        // A key that stands twice is pointed at by its own letters.
        let field = match error.message().contains("duplicate") {
            true => text.get(span.clone()).unwrap_or_default().trim_matches(['[', ']', ' ', '"']),
            false => "",
        };
        Flaw::new(span.start, field, format!("must be TOML: {}", error.message()))
    })?;
    let at = table.span().start;
    let value = toml_table(table.get_ref(), 0)?;
    Ok(Node { at, value })
}

fn toml_table(table: &DeTable<'_>, depth: usize) -> Result<Value, Flaw> {
    let member = |(name, value): (&Spanned<_>, _)| {
        Ok(Member {
            name: toml_name(name),
            at: name.span().start,
            value: toml_value(value, depth)?,
        })
    };
    table.iter().map(member).collect::<Result<_, Flaw>>().map(Value::Table)
}

fn toml_name(name: &Spanned<std::borrow::Cow<'_, str>>) -> String {
    name.get_ref().to_string()
}

fn toml_value(value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, Flaw> {
    let at = value.span().start;
    if depth > DEPTH {
        return Err(too_deep(at));
    }
    let value = match value.get_ref() {
        DeValue::Table(table) => toml_table(table, depth.saturating_add(1))?,
        DeValue::Array(list) => {
            let nodes = list.iter().map(|value| toml_value(value, depth.saturating_add(1)));
            Value::List(nodes.collect::<Result<_, _>>()?)
        }
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Other, Value::Number),
        DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => Value::Other,
    };
    Ok(Node { at, value })
}

fn too_deep(at: usize) -> Flaw {
    Flaw::new(at, "", "must not be nested so deeply")
}

pub(super) fn of_json(text: &str) -> Result<Node, Flaw> {
    let whole: &RawValue = serde_json::from_str(text).map_err(|error| not_json(text, 0, &error))?;
    json_value(text, whole, 0, "")
}

/// `from`: where the text that was read begins in the file.
fn not_json(text: &str, from: usize, error: &serde_json::Error) -> Flaw {
    let lines = text.get(from..).unwrap_or_default().split_inclusive('\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = from.saturating_add(before).saturating_add(error.column().saturating_sub(1));
    // Without its own line and column, which count from where the value begins.
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    Flaw::new(at, "", format!("must be JSON: {said}"))
}

fn json_value(text: &str, raw: &RawValue, depth: usize, path: &str) -> Result<Node, Flaw> {
    let written = raw.get();
    // A raw value is a piece of the text itself.
    let at = written.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    if depth > DEPTH {
        return Err(too_deep(at));
    }
    let depth = depth.saturating_add(1);
    let broken = |error: serde_json::Error| not_json(text, at, &error);
    let value = match written.bytes().next() {
        Some(b'{') => {
            let Members(members) = serde_json::from_str(written).map_err(broken)?;
            json_table(text, members, depth, path)?
        }
        Some(b'[') => {
            let list: Vec<&RawValue> = serde_json::from_str(written).map_err(broken)?;
            let nodes = list.into_iter().enumerate();
            let nodes = nodes.map(|(n, value)| json_value(text, value, depth, &format!("{path}[{n}]")));
            Value::List(nodes.collect::<Result<_, _>>()?)
        }
        Some(b'"') => Value::Text(serde_json::from_str(written).map_err(broken)?),
        _ => written.parse().map_or(Value::Other, Value::Number),
    };
    Ok(Node { at, value })
}

fn json_table(text: &str, members: Vec<(String, &RawValue)>, depth: usize, path: &str) -> Result<Value, Flaw> {
    let mut table: Vec<Member> = Vec::new();
    for (name, raw) in members {
        let path = dotted(path, &name);
        let value = json_value(text, raw, depth, &path)?;
        if table.iter().any(|member| member.name == name) {
            return Err(Flaw::new(value.at, path, "must stand there once"));
        }
        let at = value.at;
        table.push(Member { name, at, value });
    }
    Ok(Value::Table(table))
}

/// A member's path, with a name of the file's own shown so that it breaks no line.
pub(super) fn dotted(path: &str, name: &str) -> String {
    let name = name.escape_debug();
    match path {
        "" => name.to_string(),
        path => format!("{path}.{name}"),
    }
}

/// An object's members as they stand, repeated ones included.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = map.next_entry()? {
                    all.push(member);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_map(All).map(Members)
    }
}
