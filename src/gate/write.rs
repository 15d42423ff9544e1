//! The way out, from values to bytes: a serde `Serializer` that writes what serde_json would write and stops at what the rules refuse.

use std::fmt::{self, Display, Write as _};
use std::ops::Range;

use serde::Serialize;
use serde::ser::{self, SerializeMap as _, Serializer as _};
use serde_json::Value;

use super::parse;
use super::refusal::{
    Checked, DOUBLED, NUMBER, OWN_WRITER, RAW_VALUE, RESERVED_NAME, Refused, Step, UNCHECKED, UNNAMEABLE, exact_float, exact_integer,
    is_reserved, one_deeper, refuse,
};

pub(super) fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Checked<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    let Written = value.serialize(Writer { out: &mut out, depth: 0 })?;
    Ok(out)
}

/// Writes one value at one depth. Text, numbers and names are formatted by serde_json; only the brackets between them are ours.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    depth: usize,
}

/// Proof that a value was written whole. Only this file can make one, so no `Serialize` can swallow a refusal and report success.
struct Written;

impl<'a> Writer<'a> {
    fn plain(self, value: impl Serialize) -> Checked<Written> {
        match serde_json::to_writer(self.out, &value) {
            Ok(()) => Ok(Written),
            Err(_) => refuse(OWN_WRITER),
        }
    }

    fn integer(self, n: impl TryInto<i64>) -> Checked<Written> {
        let n = exact_integer(n)?;
        self.plain(n)
    }

    fn float(self, x: impl Into<f64> + Serialize + Copy) -> Checked<Written> {
        exact_float(x.into())?;
        self.plain(x)
    }

    /// An array of numbers, as serde_json has it.
    fn bytes(self, bytes: &[u8]) -> Checked<Written> {
        one_deeper(self.depth)?;
        self.plain(bytes)
    }

    fn open(self, shape: Shape) -> Checked<Compound<'a>> {
        let depth = one_deeper(self.depth)?;
        if shape == Shape::Array {
            self.out.push(b'[');
        }
        Ok(Compound {
            out: self.out,
            depth,
            shape,
            variant: None,
            items: 0,
            names: Vec::new(),
            stage: Stage::Ready,
        })
    }

    fn open_struct(self, name: &str) -> Checked<Compound<'a>> {
        match name {
            RAW_VALUE => refuse(UNCHECKED),
            // A number is no container, so it takes no level of depth.
            NUMBER => Writer { depth: 0, ..self }.open(Shape::Digits),
            _ => self.open(Shape::Object),
        }
    }

    /// An enum's variant with content: an object of one member around the content.
    fn open_variant(self, variant: &'static str, shape: Shape) -> Checked<Compound<'a>> {
        let mut outer = self.open(Shape::Object)?;
        outer.name(variant)?;
        let content = Writer {
            out: outer.out,
            depth: outer.depth,
        };
        let inner = content.open(shape).map_err(|refused| refused.named(variant))?;
        Ok(Compound {
            variant: Some(variant),
            ..inner
        })
    }
}

/// `what we do(with what) -> what comes of it: the methods that do so(what serde gives)`
macro_rules! serialize {
    ($($rule:ident $taken:tt -> $out:ty: $($method:ident($($given:ident: $type:ty),*)),*;)*) => {
        $($(fn $method(self, $($given: $type),*) -> Checked<$out> {
            self.$rule $taken
        })*)*
    };
}

impl<'a> ser::Serializer for Writer<'a> {
    type Ok = Written;
    type Error = Refused;
    type SerializeSeq = Compound<'a>;
    type SerializeTuple = Compound<'a>;
    type SerializeTupleStruct = Compound<'a>;
    type SerializeTupleVariant = Compound<'a>;
    type SerializeMap = Compound<'a>;
    type SerializeStruct = Compound<'a>;
    type SerializeStructVariant = Compound<'a>;

    serialize! {
        plain(()) -> Written: serialize_unit(), serialize_none(), serialize_unit_struct(_name: &'static str);
        plain(value) -> Written: serialize_bool(value: bool), serialize_char(value: char), serialize_str(value: &str);
        plain(variant) -> Written: serialize_unit_variant(_name: &'static str, _index: u32, variant: &'static str);
        bytes(bytes) -> Written: serialize_bytes(bytes: &[u8]);
        integer(n) -> Written:
            serialize_i8(n: i8), serialize_i16(n: i16), serialize_i32(n: i32), serialize_i64(n: i64), serialize_i128(n: i128),
            serialize_u8(n: u8), serialize_u16(n: u16), serialize_u32(n: u32), serialize_u64(n: u64), serialize_u128(n: u128);
        float(x) -> Written: serialize_f32(x: f32), serialize_f64(x: f64);

        open(Shape::Array) -> Compound<'a>:
            serialize_seq(_len: Option<usize>), serialize_tuple(_len: usize), serialize_tuple_struct(_name: &'static str, _len: usize);
        open(Shape::Object) -> Compound<'a>: serialize_map(_len: Option<usize>);
        open_struct(name) -> Compound<'a>: serialize_struct(name: &'static str, _len: usize);
        open_variant(variant, Shape::Array) -> Compound<'a>:
            serialize_tuple_variant(_name: &'static str, _index: u32, variant: &'static str, _len: usize);
        open_variant(variant, Shape::Object) -> Compound<'a>:
            serialize_struct_variant(_name: &'static str, _index: u32, variant: &'static str, _len: usize);
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Checked<Written> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Checked<Written> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T>(self, _name: &'static str, _index: u32, variant: &'static str, value: &T) -> Checked<Written>
    where
        T: Serialize + ?Sized,
    {
        let mut object = self.open(Shape::Object)?;
        object.member(variant, value)?;
        object.close()
    }

    /// serde's default panics when a `Display` fails.
    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Checked<Written> {
        let mut text = String::new();
        match write!(text, "{value}") {
            Ok(()) => self.plain(text),
            Err(fmt::Error) => refuse(OWN_WRITER),
        }
    }
}

/// An array or object that is still open.
struct Compound<'a> {
    out: &'a mut Vec<u8>,
    /// The depth of what stands inside.
    depth: usize,
    shape: Shape,
    /// The enum variant around it, which is closed together with it.
    variant: Option<&'static str>,
    items: usize,
    /// Where in `out` each member's name stands, quotes included: equal names have equal bytes there.
    names: Vec<Range<usize>>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Array,
    Object,
    /// Not a container at all: the number of `arbitrary_precision`, dressed as a struct.
    Digits,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Ready,
    /// A name is written, its value is not.
    Named,
    /// Something was refused. A `Serialize` that carries on regardless is stopped when it closes.
    Spoilt,
}

impl Compound<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked<()> {
        if self.items > 0 {
            self.out.push(b',');
        }
        let index = self.items;
        self.items += 1;
        self.content(Stage::Ready, value, |_| Step::Index(index))
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Checked<()> {
        if self.shape == Shape::Digits {
            return self.digits(value);
        }
        self.name(name)?;
        self.value(value)
    }

    fn name<K: Serialize + ?Sized>(&mut self, key: &K) -> Checked<()> {
        self.begin(Stage::Ready)?;
        // serde_json knows which keys can be names. It writes each as the first of an object, `{"name"`; from our second on, that brace
        // becomes the comma.
        let start = self.out.len();
        let named = serde_json::Serializer::new(&mut *self.out)
            .serialize_map(None)
            .and_then(|mut object| object.serialize_key(key));
        if named.is_err() {
            return self.refuse(Refused::here(UNNAMEABLE));
        }
        if let Some(brace) = self.out.get_mut(start)
            && !self.names.is_empty()
        {
            *brace = b',';
        }
        let name = start + 1..self.out.len();
        if self.quoted(&name).get(1..).is_some_and(is_reserved) {
            return self.refuse(Refused::here(RESERVED_NAME).under(self.step(&name)));
        }
        self.names.push(name);
        self.out.push(b':');
        self.stage = Stage::Named;
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked<()> {
        self.content(Stage::Named, value, |object| {
            object.step(&object.names.last().cloned().unwrap_or_default())
        })
    }

    fn content<T: Serialize + ?Sized>(&mut self, due: Stage, value: &T, step: impl FnOnce(&Self) -> Step) -> Checked<()> {
        self.begin(due)?;
        match value.serialize(Writer {
            out: &mut *self.out,
            depth: self.depth,
        }) {
            Ok(Written) => {
                self.stage = Stage::Ready;
                Ok(())
            }
            Err(refused) => self.refuse(refused.under(step(self))),
        }
    }

    /// Whoever is named like a `Number` has to hold one: the byte door reads the text before it goes out as it is.
    fn digits<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked<()> {
        let stage = self.spoil();
        let Ok(Value::String(digits)) = serde_json::to_value(value) else {
            return refuse(OWN_WRITER);
        };
        let is_bare = digits.trim().len() == digits.len();
        match parse::to_value(digits.as_bytes())? {
            Value::Number(_) if is_bare && stage == Stage::Ready && self.items == 0 => {
                self.out.extend_from_slice(digits.as_bytes());
                self.items = 1;
                self.stage = Stage::Ready;
                Ok(())
            }
            _ => refuse(OWN_WRITER),
        }
    }

    fn close(mut self) -> Checked<Written> {
        let is_empty_number = self.shape == Shape::Digits && self.items == 0;
        if self.stage != Stage::Ready || is_empty_number {
            return self.refuse(Refused::here(OWN_WRITER));
        }
        // Sorted once at the end rather than asked at each name: no allocation per member, and a million names stay cheap.
        let mut names = std::mem::take(&mut self.names);
        names.sort_unstable_by_key(|name| self.quoted(name));
        for pair in names.windows(2) {
            if let [a, b] = pair
                && self.quoted(a) == self.quoted(b)
            {
                return self.refuse(Refused::here(DOUBLED).under(self.step(b)));
            }
        }
        self.out.extend_from_slice(match self.shape {
            Shape::Array => b"]",
            Shape::Object if names.is_empty() => b"{}",
            Shape::Object => b"}",
            Shape::Digits => b"",
        });
        if self.variant.is_some() {
            self.out.push(b'}');
        }
        Ok(Written)
    }

    /// Begins a step that is due now. Whoever does not get to its end leaves the whole spoilt.
    fn begin(&mut self, due: Stage) -> Checked<()> {
        if self.spoil() == due {
            Ok(())
        } else {
            self.refuse(Refused::here(OWN_WRITER))
        }
    }

    fn spoil(&mut self) -> Stage {
        std::mem::replace(&mut self.stage, Stage::Spoilt)
    }

    fn quoted(&self, name: &Range<usize>) -> &[u8] {
        self.out.get(name.clone()).unwrap_or_default()
    }

    fn step(&self, name: &Range<usize>) -> Step {
        Step::Name(serde_json::from_slice(self.quoted(name)).unwrap_or_default())
    }

    /// A variant has no `Compound` of its own to add its step.
    fn refuse<T>(&self, refused: Refused) -> Checked<T> {
        Err(match self.variant {
            Some(variant) => refused.named(variant),
            None => refused,
        })
    }
}

/// `Trait: method(what serde gives) = what we do with it`
macro_rules! compounds {
    ($($trait:ident: $($method:ident($($given:ident: $type:ty),*) = $rule:ident),*;)*) => {
        $(impl ser::$trait for Compound<'_> {
            type Ok = Written;
            type Error = Refused;

            $(fn $method<T: Serialize + ?Sized>(&mut self, $($given: $type),*) -> Checked<()> {
                self.$rule($($given),*)
            })*

            fn end(self) -> Checked<Written> {
                self.close()
            }
        })*
    };
}

compounds! {
    SerializeSeq: serialize_element(value: &T) = item;
    SerializeTuple: serialize_element(value: &T) = item;
    SerializeTupleStruct: serialize_field(value: &T) = item;
    SerializeTupleVariant: serialize_field(value: &T) = item;
    SerializeMap: serialize_key(key: &T) = name, serialize_value(value: &T) = value;
    SerializeStruct: serialize_field(name: &'static str, value: &T) = member;
    SerializeStructVariant: serialize_field(name: &'static str, value: &T) = member;
}
