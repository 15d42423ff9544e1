//! From a `Value` to a type: what serde_json's `from_value` does, but with paths, without quoting what it found, and without passing on
//! what the type's own `Deserialize` says of it, since that may quote the value.

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::refusal::{Checked, OWN_READER, Refused, Step, UNASKED, refuse};

pub(super) fn to_type<T: DeserializeOwned>(value: Value) -> Checked<T> {
    T::deserialize(Node(value))
}

struct Node(Value);

impl<'de> de::Deserializer<'de> for Node {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Checked<V::Value> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => {
                if let Some(n) = number.as_u64() {
                    visitor.visit_u64(n)
                } else if let Some(n) = number.as_i64() {
                    visitor.visit_i64(n)
                } else {
                    visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN))
                }
            }
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => {
                let mut items = Items(items.into_iter().enumerate());
                let value = visitor.visit_seq(&mut items)?;
                match items.0.next() {
                    None => Ok(value),
                    Some(_) => refuse("must have fewer elements"),
                }
            }
            Value::Object(members) => visitor.visit_map(Members::of(members)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Checked<V::Value> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Checked<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(self, name: &'static str, known: &'static [&'static str], visitor: V) -> Checked<V::Value> {
        match self.0 {
            Value::String(variant) => variant.into_deserializer().deserialize_enum(name, known, visitor),
            Value::Object(members) if members.len() == 1 => {
                MapAccessDeserializer::new(Members::of(members)).deserialize_enum(name, known, visitor)
            }
            _ => Err(Refused::unknown_variant("", known)),
        }
    }

    /// Nobody asks for this member. See [`read_json`](super::read_json).
    fn deserialize_ignored_any<V: Visitor<'de>>(self, _visitor: V) -> Checked<V::Value> {
        refuse(UNASKED)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier
    }
}

struct Items(std::iter::Enumerate<std::vec::IntoIter<Value>>);

impl<'de> SeqAccess<'de> for Items {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Checked<Option<S::Value>> {
        let next = self.0.next();
        next.map(|(index, item)| seed.deserialize(Node(item)).map_err(|refused| refused.under(Step::Index(index))))
            .transpose()
    }
}

struct Members {
    rest: serde_json::map::IntoIter,
    /// The member whose name is read and whose value is due.
    current: Option<(String, Value)>,
}

impl Members {
    fn of(members: Map<String, Value>) -> Self {
        Members {
            rest: members.into_iter(),
            current: None,
        }
    }
}

impl<'de> MapAccess<'de> for Members {
    type Error = Refused;

    /// Names are read as text: a map keyed by numbers is not among the orders we read.
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Checked<Option<S::Value>> {
        self.current = self.rest.next();
        self.current
            .as_ref()
            .map(|(name, _)| seed.deserialize(name.as_str().into_deserializer()))
            .transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Checked<S::Value> {
        match self.current.take() {
            Some((name, value)) => seed.deserialize(Node(value)).map_err(|refused| refused.named(name)),
            None => refuse(OWN_READER),
        }
    }
}
