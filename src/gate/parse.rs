//! The way in, from bytes to a `Value`: serde_json's parser, with our visitor watching numbers, names and depth.

use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::refusal::{
    Checked, DOUBLED, NUMBER, RESERVED_NAME, Refused, Step, exact_digits, exact_float, exact_integer, is_reserved, one_deeper,
};

pub(super) fn to_value(bytes: &[u8]) -> Checked<Value> {
    let mut refused = None;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let reader = Reader {
        refused: &mut refused,
        depth: 0,
    };
    let value = reader.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    // What serde_json says of bad syntax is fixed text and a position, never content. Words of its own for types it would quote do not
    // arise here: the reader takes every type there is.
    value.map_err(|err| refused.unwrap_or_else(|| Refused::here(format!("must be JSON every reader can take: {err}"))))
}

/// Reads one value at one depth. serde_json's error type has no room for a path, so a refusal waits beside it in `refused`.
struct Reader<'r> {
    refused: &'r mut Option<Refused>,
    depth: usize,
}

impl Reader<'_> {
    fn checked<T, E: de::Error>(&mut self, result: Checked<T>) -> Result<T, E> {
        result.map_err(|refused| {
            *self.refused = Some(refused);
            E::custom("refused")
        })
    }

    fn inside(&mut self) -> Reader<'_> {
        Reader {
            refused: &mut *self.refused,
            depth: self.depth,
        }
    }

    fn came_through<T, E>(&mut self, step: Step, err: E) -> Result<T, E> {
        *self.refused = self.refused.take().map(|refused| refused.under(step));
        Err(err)
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_i64<E: de::Error>(mut self, n: i64) -> Result<Value, E> {
        self.checked(exact_integer(n).map(Value::from))
    }

    fn visit_u64<E: de::Error>(mut self, n: u64) -> Result<Value, E> {
        self.checked(exact_integer(n).map(Value::from))
    }

    /// Integers too long for 64 bits arrive here as well, already rounded; the rule for floats catches them by their size.
    fn visit_f64<E: de::Error>(mut self, x: f64) -> Result<Value, E> {
        self.checked(exact_float(x).map(Value::from))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        self.depth = self.checked(one_deeper(self.depth))?;
        let mut items = Vec::new();
        loop {
            match access.next_element_seed(self.inside()) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => return Ok(Value::Array(items)),
                Err(err) => return self.came_through(Step::Index(items.len()), err),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut next = access.next_key::<String>()?;
        if next.as_deref() == Some(NUMBER)
            && let Ok(digits) = access.next_value_seed(Digits)
        {
            return self.checked(exact_digits(&digits).map(Value::Number));
        }
        self.depth = self.checked(one_deeper(self.depth))?;
        let mut members = Map::new();
        while let Some(name) = next {
            if is_reserved(name.as_bytes()) {
                return self.checked(Err(Refused::here(RESERVED_NAME).named(name)));
            }
            if members.contains_key(&name) {
                return self.checked(Err(Refused::here(DOUBLED).named(name)));
            }
            match access.next_value_seed(self.inside()) {
                Ok(value) => members.insert(name, value),
                Err(err) => return self.came_through(Step::Name(name), err),
            };
            next = access.next_key()?;
        }
        Ok(Value::Object(members))
    }
}

/// Takes a number as `arbitrary_precision` hands it over: as an owned string. A string in the JSON itself comes borrowed, so an object that
/// only looks like a number does not pass for one.
struct Digits;

impl<'de> DeserializeSeed<'de> for Digits {
    type Value = String;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_string(self)
    }
}

impl Visitor<'_> for Digits {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_str<E: de::Error>(self, _text: &str) -> Result<String, E> {
        Err(E::custom("not a number"))
    }

    fn visit_string<E>(self, digits: String) -> Result<String, E> {
        Ok(digits)
    }
}
