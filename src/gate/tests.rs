//! The gate's tests, kept together: most of them hold both doors to one rule, or our bytes against serde_json's.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display};

use proptest::prelude::*;
use serde::Serialize;
use serde::ser::{self, SerializeMap as _, SerializeSeq as _, SerializeStruct as _};
use serde_json::{Value, json};

use super::refusal::*;
use super::{canonical, parse_json, read_json, to_json};
use crate::invalid::Invalid;

fn refused<T: Serialize + ?Sized>(value: &T) -> (String, String) {
    let invalid = to_json("order", value).expect_err("the gate let it pass");
    (invalid.field, invalid.cure)
}

fn unread(json: &str) -> (String, String) {
    let invalid = parse_json("order", json.as_bytes()).expect_err(json);
    (invalid.field, invalid.cure)
}

fn at(field: &str, cure: &str) -> (String, String) {
    (field.to_owned(), cure.to_owned())
}

fn same_as_serde_json<T: Serialize + ?Sized>(value: &T) {
    let ours = to_json("order", value).unwrap();
    let theirs = serde_json::to_vec(value).unwrap();
    assert_eq!(String::from_utf8(ours), String::from_utf8(theirs));
}

fn arrays(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

fn nested(depth: usize) -> Value {
    (1..depth).fold(json!([]), |inner, level| match level % 2 {
        0 => json!([inner]),
        _ => json!({ "in": inner }),
    })
}

#[derive(Serialize)]
struct Order {
    sku: &'static str,
    note: Option<String>,
    items: Vec<Item>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gift: Option<Gift>,
}

#[derive(Serialize)]
struct Item {
    price: f64,
    #[serde(rename = "unit price")]
    unit: f32,
}

#[derive(Serialize)]
enum Gift {
    Plain,
    Wrapped(f64),
    Ribbon(u8, u64),
    Card { words: &'static str, size: f32 },
}

fn order(price: f64, unit: f32, gift: Option<Gift>) -> Order {
    Order {
        sku: "tea",
        note: None,
        items: vec![Item { price: 1.5, unit: 0.1 }, Item { price, unit }],
        gift,
    }
}

#[test]
fn nan_is_refused_by_name() {
    assert_eq!(refused(&f64::NAN), at("order", NOT_FINITE));
    assert_eq!(refused(&[f32::INFINITY]), at("order[0]", NOT_FINITE));
    let nan = order(f64::NAN, 0.1, None);
    assert_eq!(refused(&nan), at("items[1].price", NOT_FINITE));
    let infinite = order(1.0, f32::NEG_INFINITY, None);
    assert_eq!(refused(&infinite), at("items[1][\"unit price\"]", NOT_FINITE));
    let wrapped = order(1.0, 0.1, Some(Gift::Wrapped(f64::NAN)));
    assert_eq!(refused(&wrapped), at("gift.Wrapped", NOT_FINITE));
    let card = Gift::Card { words: "", size: f32::NAN };
    assert_eq!(refused(&order(1.0, 0.1, Some(card))), at("gift.Card.size", NOT_FINITE));
    assert_eq!(refused(&Gift::Ribbon(1, u64::MAX)), at("Ribbon[1]", TOO_LARGE));
}

#[test]
fn integers_past_2_53_are_refused() {
    let max = INTEGER_MAX;
    for sound in [0, 1, -1, max, -max] {
        same_as_serde_json(&sound);
        same_as_serde_json(&i128::from(sound));
        same_as_serde_json(&(sound as f64));
        let read = parse_json("order", sound.to_string().as_bytes()).unwrap();
        assert_eq!(read, json!(sound));
    }
    for unsound in [max + 1, max + 2, -max - 1, i64::MAX, i64::MIN] {
        assert_eq!(refused(&unsound), at("order", TOO_LARGE));
        assert_eq!(refused(&json!([unsound])), at("order[0]", TOO_LARGE));
        assert_eq!(refused(&i128::from(unsound)), at("order", TOO_LARGE));
        assert_eq!(refused(&(unsound as f64)), at("order", TOO_LARGE));
        assert_eq!(unread(&unsound.to_string()), at("order", TOO_LARGE));
    }
    assert_eq!(refused(&u64::MAX), at("order", TOO_LARGE));
    assert_eq!(refused(&u128::MAX), at("order", TOO_LARGE));
    assert_eq!(refused(&i128::MIN), at("order", TOO_LARGE));
    assert_eq!(refused(&1e300), at("order", TOO_LARGE));
    assert_eq!(refused(&f32::MAX), at("order", TOO_LARGE));
}

#[test]
fn numbers_the_parser_would_round_are_refused() {
    for unsound in [
        "9007199254740993",
        "9007199254740993.0",
        "9007199254740992e0",
        "0.9007199254740993e16",
        "-9007199254740993",
        "18446744073709551616",
        "12345678901234567890123",
        "-12345678901234567890123",
        "1e300",
    ] {
        assert_eq!(unread(unsound), at("order", TOO_LARGE), "{unsound}");
        let inside = format!(r#"{{"items":[0,{{"n":{unsound}}}]}}"#);
        assert_eq!(unread(&inside), at("items[1].n", TOO_LARGE), "{unsound}");
    }
    for unsound in ["1e400", "-1e400", "[1e999999999999999999999]"] {
        unread(unsound);
    }
    for (sound, value) in [("1.0", 1.0), ("1e0", 1.0), ("-0.0", 0.0), ("1.25e2", 125.0)] {
        let read = parse_json("order", sound.as_bytes()).unwrap();
        assert_eq!(read.as_f64(), Some(value), "{sound}");
    }
}

#[test]
fn a_doubled_member_is_refused_at_both_doors() {
    #[derive(Serialize)]
    struct Extended {
        id: u8,
        size: u8,
        #[serde(flatten)]
        more: BTreeMap<String, u8>,
    }
    let more = BTreeMap::from([("id".to_owned(), 2)]);
    let extended = Extended { id: 1, size: 1, more };
    assert_eq!(refused(&extended), at("id", DOUBLED));
    assert_eq!(refused(&[&extended]), at("order[0].id", DOUBLED));
    // Two keys that differ in Rust and agree in JSON.
    #[derive(Serialize, PartialEq, Eq, Hash)]
    #[serde(untagged)]
    enum Key {
        Number(u8),
        Text(&'static str),
    }
    let keys = HashMap::from([(Key::Number(1), ()), (Key::Text("1"), ())]);
    assert_eq!(refused(&keys), at("1", DOUBLED));

    assert_eq!(unread(r#"{"a":1,"a":1}"#), at("a", DOUBLED));
    assert_eq!(unread(r#"{"a":1,"b":2,"\u0061":1}"#), at("a", DOUBLED));
    assert_eq!(unread(r#"{"a":[{},{"b":{"c d":1,"c d":2}}]}"#), at("a[1].b[\"c d\"]", DOUBLED));
    parse_json("order", br#"{"a":{"a":1},"b":{"a":1}}"#).unwrap();
}

#[test]
fn depth_64_passes_and_65_is_refused() {
    let deepest = nested(64);
    let bytes = to_json("order", &deepest).unwrap();
    assert_eq!(parse_json("order", &bytes).unwrap(), deepest);
    canonical(&deepest).unwrap();
    assert_eq!(refused(&nested(65)).1, TOO_DEEP);
    assert_eq!(refused(&nested(1000)).1, TOO_DEEP);

    parse_json("order", arrays(64).as_bytes()).unwrap();
    for depth in [65, 127, 128, 129, 100_000] {
        assert_eq!(unread(&arrays(depth)).1, TOO_DEEP);
    }
    assert_eq!(unread(&arrays(65)).0, format!("order{}", "[0]".repeat(64)));

    // A scalar takes no level, however it is dressed; bytes and variants do.
    let full = |leaf: Value| (0..64).fold(leaf, |inner, _| json!([inner]));
    for leaf in [json!(1), json!(1.5), json!("x"), json!(null)] {
        let bytes = to_json("order", &full(leaf.clone())).unwrap();
        assert_eq!(parse_json("order", &bytes).unwrap(), full(leaf));
    }
    struct Under<'a, T>(usize, &'a T);
    impl<T: Serialize> Serialize for Under<'_, T> {
        fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self.0 {
                0 => self.1.serialize(serializer),
                more => [Under(more - 1, self.1)].serialize(serializer),
            }
        }
    }
    same_as_serde_json(&Under(63, &Bytes(b"")));
    assert_eq!(refused(&Under(64, &Bytes(b""))).1, TOO_DEEP);
    same_as_serde_json(&Under(64, &Gift::Plain));
    to_json("order", &Under(64, &AnyNumber("1.5"))).unwrap();
    same_as_serde_json(&Under(63, &Gift::Wrapped(1.0)));
    assert_eq!(refused(&Under(64, &Gift::Wrapped(1.0))).1, TOO_DEEP);
    same_as_serde_json(&Under(62, &Gift::Ribbon(1, 1)));
    assert_eq!(refused(&Under(63, &Gift::Ribbon(1, 1))).1, TOO_DEEP);
}

struct Bytes(&'static [u8]);

impl Serialize for Bytes {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

#[test]
fn every_form_serde_knows_is_written_as_serde_json_writes_it() {
    #[derive(Serialize)]
    struct Unit;
    #[derive(Serialize)]
    struct Newtype(i16);
    #[derive(Serialize)]
    struct Pair(u16, &'static str);
    #[derive(Serialize)]
    struct Empty {}

    same_as_serde_json(&order(1.25, 0.1, None));
    for gift in [Gift::Plain, Gift::Wrapped(0.5), Gift::Ribbon(1, 2)] {
        same_as_serde_json(&order(1e-7, 1e6, Some(gift)));
    }
    same_as_serde_json(&Gift::Card {
        words: "a\"\\\n\u{7}\u{2028}é😀",
        size: 1e10,
    });
    same_as_serde_json(&(Unit, Newtype(-3), Pair(7, ""), Empty {}, ()));
    same_as_serde_json(&(true, 'ß', '"', "", Some(1), None::<u8>));
    same_as_serde_json(&(Bytes(b""), Bytes(b"\x00\xff")));
    same_as_serde_json(&(i8::MIN, i16::MIN, i32::MIN, 0_u8, u16::MAX, u32::MAX));
    same_as_serde_json(&(0_i64, 1_u64, 2_i128, 3_u128, -0.0_f64, 1.0_f32));
    same_as_serde_json(&BTreeMap::from([(1_u8, BTreeMap::from([('x', [[0; 0]; 2])]))]));
    same_as_serde_json(&BTreeMap::from([(true, "t"), (false, "f")]));
    same_as_serde_json(&BTreeMap::from([(u64::MAX, 1)]));
    same_as_serde_json(&BTreeMap::<String, u8>::new());
    same_as_serde_json::<str>("");
    same_as_serde_json::<[u8]>(&[]);
    same_as_serde_json(&json!({"z": [], "a": {}, "": {"\u{1F600}": null, "\"": 1.10}}));
}

#[test]
fn text_by_display_is_written_and_a_failing_display_does_not_panic() {
    struct Shown(bool);
    impl Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half \"told")?;
            if self.0 { Ok(()) } else { Err(fmt::Error) }
        }
    }
    impl Serialize for Shown {
        fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }
    same_as_serde_json(&[Shown(true)]);
    assert_eq!(refused(&[Shown(false)]), at("order[0]", OWN_WRITER));
}

#[test]
fn the_gate_calls_itself_human_readable() {
    struct Asks;
    impl Serialize for Asks {
        fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let readable = serializer.is_human_readable();
            serializer.serialize_bool(readable)
        }
    }
    assert_eq!(to_json("order", &Asks).unwrap(), b"true");
}

#[test]
fn keys_that_cannot_be_names_are_refused() {
    let lists = BTreeMap::from([(vec![1], 1)]);
    assert_eq!(refused(&lists), at("order", UNNAMEABLE));
    assert_eq!(refused(&[lists]), at("order[0]", UNNAMEABLE));
    assert_eq!(refused(&BTreeMap::from([((), 1)])), at("order", UNNAMEABLE));
}

#[test]
fn raw_json_is_refused() {
    #[derive(Serialize)]
    struct Holder {
        raw: Box<serde_json::value::RawValue>,
    }
    let raw = serde_json::value::RawValue::from_string("[1]".to_owned()).unwrap();
    assert_eq!(refused(&Holder { raw }), at("raw", UNCHECKED));
}

#[test]
fn names_serde_json_keeps_for_itself_are_refused_at_both_doors() {
    for name in [NUMBER, RAW_VALUE, "$serde_json::private::Next"] {
        let field = format!("order[{name:?}]");
        let members = BTreeMap::from([(name, "5")]);
        assert_eq!(refused(&members), at(&field, RESERVED_NAME));
        let json = serde_json::to_string(&members).unwrap();
        assert_eq!(unread(&json), at(&field, RESERVED_NAME));
        assert_eq!(unread(&json.replace('$', "\\u0024")), at(&field, RESERVED_NAME));
        let second = json.replace('{', r#"{"a":1,"#);
        assert_eq!(unread(&second), at(&field, RESERVED_NAME));
    }
}

/// A `Number` as it comes out of serde_json with `arbitrary_precision`, whichever features this build has.
struct AnyNumber(&'static str);

impl Serialize for AnyNumber {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut number = serializer.serialize_struct(NUMBER, 1)?;
        number.serialize_field(NUMBER, self.0)?;
        number.end()
    }
}

#[test]
fn arbitrary_precision_meets_the_same_rules() {
    for sound in ["0", "-1", "1.10", "9007199254740991", "1e-3"] {
        assert_eq!(to_json("order", &[AnyNumber(sound)]).unwrap(), format!("[{sound}]").as_bytes());
    }
    for unsound in ["9007199254740992", "-9007199254740993.0", "1e300"] {
        assert_eq!(refused(&[AnyNumber(unsound)]), at("order[0]", TOO_LARGE));
    }
    for forged in ["", "true", " 1", "1 ", "1,2", "1]", "\"1\"", "NaN", "1e400", "01", "1-"] {
        assert_eq!(refused(&[AnyNumber(forged)]).0, "order[0]", "{forged}");
    }
    struct NoNumber;
    impl Serialize for NoNumber {
        fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_struct(NUMBER, 0)?.end()
        }
    }
    assert_eq!(refused(&[NoNumber]), at("order[0]", OWN_WRITER));
    for sound in ["0", "-7", "9007199254740991", "1.5", "1e0"] {
        assert!(exact_digits(sound).is_ok(), "{sound}");
    }
    for unsound in ["9007199254740992", "9007199254740993.0", "1e400", "1e20"] {
        assert!(exact_digits(unsound).is_err(), "{unsound}");
    }
}

#[test]
fn a_swallowed_refusal_still_stops_the_order() {
    struct Swallows;
    impl Serialize for Swallows {
        fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut items = serializer.serialize_seq(None)?;
            drop(items.serialize_element(&f64::NAN));
            drop(items.serialize_element(&1));
            items.end()
        }
    }
    struct SwallowsInMap;
    impl Serialize for SwallowsInMap {
        fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut members = serializer.serialize_map(None)?;
            drop(members.serialize_entry("price", &f64::NAN));
            drop(members.serialize_entry("price", &1));
            members.end()
        }
    }
    struct HalfAMember;
    impl Serialize for HalfAMember {
        fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut members = serializer.serialize_map(None)?;
            members.serialize_key("price")?;
            members.end()
        }
    }
    assert_eq!(refused(&[Swallows]), at("order[0]", OWN_WRITER));
    assert_eq!(refused(&[SwallowsInMap]), at("order[0]", OWN_WRITER));
    assert_eq!(refused(&[HalfAMember]), at("order[0]", OWN_WRITER));
}

#[test]
fn a_value_is_asked_only_once() {
    struct Counts(Cell<u8>);
    impl Serialize for Counts {
        fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0.set(self.0.get() + 1);
            serializer.serialize_u8(self.0.get())
        }
    }
    let counts = Counts(Cell::new(0));
    assert_eq!(to_json("order", &[&counts]).unwrap(), b"[1]");
}

#[test]
fn broken_json_is_told_by_place_not_by_content() {
    for broken in [
        "",
        "{\"card\":\"4111\"",
        "{\"card\":4111 1111}",
        "[1,]",
        "[4111] 4111",
        "\u{feff}[]",
        "\"\\ud800\"",
        "{card:4111}",
        "NaN",
        "01",
        "4111e",
        "'4111'",
    ] {
        let (field, cure) = unread(broken);
        assert_eq!(field, "order", "{broken}");
        assert!(cure.contains(" at line 1 column "), "{broken}: {cure}");
        assert!(!cure.contains("4111"), "{broken}: {cure}");
    }
    let not_utf8 = parse_json("order", b"[\"\xff\"]").unwrap_err();
    assert!(not_utf8.cure.contains("line 1"), "{not_utf8}");
    assert!(unread("{\n  \"a\": 1\n  \"b\"}").1.contains("line 3"));
}

#[test]
fn a_name_cannot_pose_as_a_path_or_flood_the_log() {
    assert_eq!(unread(r#"{"a.b\n":1e300}"#).0, r#"order["a.b\n"]"#);
    assert_eq!(unread(r#"{"":1e300}"#).0, r#"order[""]"#);
    assert_eq!(unread(r#"{"größe":1e300}"#).0, "größe");
    let long = format!("{{\"{}\":1e300}}", "n".repeat(100_000));
    assert_eq!(unread(&long).0.len(), "order[\"\"]".len() + 64);
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Wanted {
    sku: String,
    quantity: u32,
    #[serde(default)]
    note: Option<String>,
    #[serde(default)]
    kind: Vec<Kind>,
    #[serde(default)]
    extra: BTreeMap<String, Value>,
    #[serde(default)]
    pair: (i8, f32),
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
enum Kind {
    Plain,
    Sized(u8),
    Cut(u8, u8),
    Printed { text: char },
}

#[test]
fn typed_orders_are_read_whole() {
    let json = r#"{"sku":"tea","quantity":2,"note":null,"pair":[-1,2],
        "kind":["Plain",{"Plain":null},{"Sized":1},{"Cut":[1,2]},{"Printed":{"text":"x"}}],
        "extra":{"a":[1,1.5,null,{"b":true}]}}"#;
    let wanted: Wanted = read_json("order", json.as_bytes()).unwrap();
    let theirs: Wanted = serde_json::from_str(json).unwrap();
    assert_eq!(wanted, theirs);
}

#[test]
fn typed_orders_are_refused_by_path_without_quoting_the_value() {
    let cases = [
        (r#"{"sku":"s3cret","quantity":-5}"#, "quantity", "must be u32"),
        (r#"{"sku":"x","quantity":"s3cret"}"#, "quantity", "must be u32"),
        (r#"{"sku":"x","quantity":1.5}"#, "quantity", "must be u32"),
        (r#"{"sku":1234567,"quantity":1}"#, "sku", "must be a string"),
        (r#"{"sku":"s3cret"}"#, "quantity", "must be given"),
        (r#"{"sku":"x","quantity":1,"quantitee":3}"#, "quantitee", UNASKED),
        (r#"{"sku":"x","sku":"x","quantity":1}"#, "sku", DOUBLED),
        (r#""s3cret""#, "order", "must be struct Wanted"),
        (r#"{"sku":"x","quantity":1,"pair":[1]}"#, "pair", "must be a tuple of size 2"),
        (r#"{"sku":"x","quantity":1,"pair":[1,2,3]}"#, "pair", "must have fewer elements"),
        (r#"{"sku":"x","quantity":1,"pair":[300,2]}"#, "pair[0]", "must be i8"),
        (
            r#"{"sku":"x","quantity":1,"kind":["s3cret"]}"#,
            "kind[0]",
            "must be one of: Plain, Sized, Cut, Printed",
        ),
        (
            r#"{"sku":"x","quantity":1,"kind":[{"Plain":null,"Sized":1}]}"#,
            "kind[0]",
            "must be one of: Plain, Sized, Cut, Printed",
        ),
        (
            r#"{"sku":"x","quantity":1,"kind":["Plain",{"Printed":{"text":"s3cret"}}]}"#,
            "kind[1].Printed.text",
            "must be a character",
        ),
        (
            r#"{"sku":"x","quantity":1,"kind":[{"Printed":{"text":"x","size":1}}]}"#,
            "kind[0].Printed.size",
            "is not known here: check the spelling or leave it out (known are: text)",
        ),
    ];
    for (json, field, cure) in cases {
        let invalid = read_json::<Wanted>("order", json.as_bytes()).expect_err(json);
        assert_eq!(invalid, Invalid::new(field, cure), "{json}");
    }
}

#[test]
fn what_a_type_says_of_itself_is_left_out() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(try_from = "String")]
    struct Fussy;
    impl TryFrom<String> for Fussy {
        type Error = String;
        fn try_from(text: String) -> Result<Self, String> {
            Err(format!("do not like {text}"))
        }
    }
    let invalid = read_json::<Vec<Fussy>>("order", br#"["s3cret"]"#).unwrap_err();
    assert_eq!(invalid, Invalid::new("order[0]", OWN_READER));
    // serde's own types bring words of their own as well, and quote in them.
    let invalid = read_json::<BTreeMap<String, std::net::IpAddr>>("order", br#"{"from":"s3cret"}"#).unwrap_err();
    assert_eq!(invalid, Invalid::new("from", OWN_READER));

    struct Loud;
    impl Serialize for Loud {
        fn serialize<S: ser::Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
            Err(ser::Error::custom("s3cret"))
        }
    }
    assert_eq!(refused(&[Loud]), at("order[0]", OWN_WRITER));
}

#[test]
fn the_canonical_form_forgets_order_and_spelling() {
    let spelt = |json: &str| canonical(&parse_json("order", json.as_bytes()).unwrap()).unwrap();
    assert_eq!(
        spelt(r#" {"b":1.0, "a":[1e0, -0, -0.0, 1.10, "\u0061"]} "#),
        br#"{"a":[1,0,0,1.1,"a"],"b":1}"#
    );
}

fn sound_number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-INTEGER_MAX..=INTEGER_MAX).prop_map(Value::from),
        any::<f64>().prop_filter("exact", |x| exact_float(*x).is_ok()).prop_map(Value::from),
        (-1000.0..1000.0).prop_map(Value::from),
    ]
}

fn sound_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        sound_number(),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn bytes_equal_serde_jsons_for_any_sound_value(value in sound_value()) {
        same_as_serde_json(&value);
    }

    #[test]
    fn bytes_equal_serde_jsons_for_any_sound_type(
        price in -1e15..1e15_f64,
        unit in -1e15..1e15_f32,
        size in -1e15..1e15_f32,
        thickness: u8,
    ) {
        same_as_serde_json(&order(price, unit, Some(Gift::Card { words: "\u{1}/", size })));
        same_as_serde_json(&order(price, unit, Some(Gift::Ribbon(thickness, 7))));
    }

    #[test]
    fn what_the_gate_writes_the_gate_reads(value in sound_value()) {
        let bytes = to_json("order", &value).unwrap();
        let read = parse_json("order", &bytes).unwrap();
        prop_assert_eq!(&read, &value);
        prop_assert_eq!(canonical(&read).unwrap(), canonical(&value).unwrap());
        let typed: Value = read_json("order", &bytes).unwrap();
        prop_assert_eq!(typed, value);
    }

    /// Rests on serde_json's `float_roundtrip`, which serde_json_canonicalizer switches on. Without it the parser may miss by one bit,
    /// and the fingerprint would not be RFC 8785's.
    #[test]
    fn floats_keep_every_bit_through_both_doors(x in -1.0..1.0_f64) {
        let read = parse_json("order", &to_json("order", &x).unwrap()).unwrap();
        prop_assert_eq!(read.as_f64().map(f64::to_bits), Some(x.to_bits()));
    }

    #[test]
    fn no_panic_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(parse_json("order", &bytes));
        drop(read_json::<Wanted>("order", &bytes));
    }

    #[test]
    fn nothing_json_like_panics_or_passes_changed(
        text in r#"([\[\]{}:,"0-9eE.+\-]|true|null|"a"|"b"|\\u0061|\\ud800| ){0,40}"#,
    ) {
        if let Ok(value) = parse_json("order", text.as_bytes()) {
            prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &value);
            to_json("order", &value).unwrap();
            canonical(&value).unwrap();
        }
    }
}

/// Vectors that others published, from beside the project; where they are missing, the test says so and is no proof.
fn published(name: &str) -> Option<std::path::PathBuf> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/vectors")
        .join(name);
    if !path.is_dir() {
        eprintln!("!! SKIPPED: the published vectors {name} are not here; nothing was checked against them");
        return None;
    }
    Some(path)
}

/// RFC 8785: byte for byte, as its author's own test data says.
#[test]
fn the_canonical_form_is_the_published_one() {
    let Some(folder) = published("jcs") else { return };
    let mut checked = 0;
    for entry in std::fs::read_dir(folder.join("input")).unwrap() {
        let name = entry.unwrap().file_name();
        let read = |side: &str| std::fs::read_to_string(folder.join(side).join(&name)).unwrap();
        // By serde_json's own parser: one of them holds 1E30, at which the gate stops.
        let value: Value = serde_json::from_str(&read("input")).unwrap();
        assert_eq!(
            String::from_utf8(canonical(&value).unwrap()).unwrap(),
            read("output"),
            "{}",
            name.display()
        );
        let gated = parse_json("order", read("input").as_bytes());
        assert_eq!(gated.is_ok(), name != "values.json", "{}", name.display());
        if let Ok(gated) = gated {
            assert_eq!(canonical(&gated).unwrap(), read("output").into_bytes());
        }
        checked += 1;
    }
    assert_eq!(checked, 6);
}

/// RFC 8785, section 3.2.2.3: numbers are written as ECMAScript writes them; and the gate takes each of them but those beyond ±(2^53−1).
#[test]
fn numbers_are_written_as_published() {
    let Some(folder) = published("es6-numbers") else { return };
    let mut checked = 0;
    for file in ["first1000.txt", "random2000.txt"] {
        for line in std::fs::read_to_string(folder.join(file)).unwrap().lines() {
            let (bits, text) = line.split_once(',').unwrap();
            let number = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
            let written = canonical(&Value::from(number)).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), text, "{bits}");
            let exact = number.abs() <= INTEGER_MAX as f64;
            assert_eq!(to_json("order", &number).is_ok(), exact, "{bits}");
            let read = parse_json("order", text.as_bytes());
            assert_eq!(read.is_ok(), exact, "{bits}");
            if let Ok(read) = read {
                assert_eq!(String::from_utf8(canonical(&read).unwrap()).unwrap(), text, "{bits}");
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 3000);
}
