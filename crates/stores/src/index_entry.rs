//! Secondary indexes for engines that have ordered keys only: an entry is the indexed values and the
//! document's key in one byte string, so that the entries of a value lie together, in key order.
//!
//! An encoded value is a tag, its text with 0x00 written as `00 FF`, and `00 01`: no encoded value
//! begins another one. Numbers that are equal are encoded alike whatever their spelling (`1`, `1.0`).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use storebench_core::store::{ErrorKind, Explanation, OpError};

const NULL: u8 = 1;
const BOOL: u8 = 2;
const NUMBER: u8 = 3;
const TEXT: u8 = 4;
/// A text too long for an engine's keys: its beginning and its hash.
const LONG_TEXT: u8 = 5;
/// A later field that the document lacks, or that is no scalar.
const MISSING: u8 = 6;
const LONGEST_TEXT: usize = 2_048;

/// One index: the fields it covers, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    /// Top-level field names.
    pub(crate) fields: Vec<String>,
}

impl Index {
    /// Puts a document's entry into the emptied buffer. False where the document has none: its first
    /// indexed field is missing, or an object or a list.
    pub(crate) fn entry(&self, key: &str, document: &[u8], into: &mut Vec<u8>) -> Result<bool, serde_json::Error> {
        into.clear();
        let mut values = vec![None; self.fields.len()];
        let mut reader = serde_json::Deserializer::from_slice(document);
        Pick { fields: &self.fields, values: &mut values }.deserialize(&mut reader)?;
        reader.end()?;
        for (position, value) in values.iter().enumerate() {
            let encoded = value.as_ref().is_some_and(|v| encode(v, into));
            if !encoded {
                if position == 0 {
                    return Ok(false);
                }
                into.extend_from_slice(&[MISSING, 0, 1]);
            }
        }
        into.extend_from_slice(key.as_bytes());
        Ok(true)
    }

    /// The document's key within an entry of this index.
    pub(crate) fn key_of<'e>(&self, entry: &'e [u8]) -> Option<&'e str> {
        let mut rest = entry;
        for _ in &self.fields {
            let end = rest.windows(2).skip(1).position(|pair| pair == [0, 1])?;
            rest = &rest[end + 3..];
        }
        std::str::from_utf8(rest).ok()
    }
}

/// Appends an encoded scalar; false for objects and lists.
pub(crate) fn encode(value: &Value, into: &mut Vec<u8>) -> bool {
    match value {
        Value::Null => into.push(NULL),
        Value::Bool(b) => into.extend_from_slice(&[BOOL, b'0' + u8::from(*b)]),
        Value::Number(n) => {
            into.push(NUMBER);
            // 2^53 bounds the integers that a decimal writes exactly.
            let text = match n.as_f64().filter(|f| n.is_f64() && f.fract() == 0.0 && f.abs() < 9.0e15) {
                Some(0.0) => "0".to_owned(),
                Some(whole) => format!("{whole:.0}"),
                None => n.to_string(),
            };
            into.extend_from_slice(text.as_bytes());
        }
        Value::String(text) if text.len() > LONGEST_TEXT => {
            into.push(LONG_TEXT);
            escape(&text.as_bytes()[..LONGEST_TEXT], into);
            escape(&fnv1a(text.as_bytes()).to_be_bytes(), into);
        }
        Value::String(text) => {
            into.push(TEXT);
            escape(text.as_bytes(), into);
        }
        Value::Array(_) | Value::Object(_) => return false,
    }
    into.extend_from_slice(&[0, 1]);
    true
}

/// Whether a document's field equals a value, as an index would have it.
pub(crate) fn field_equals(document: &[u8], field: &str, encoded: &[u8], scratch: &mut Vec<u8>) -> bool {
    let fields = [field.to_owned()];
    let mut values = [None];
    let mut reader = serde_json::Deserializer::from_slice(document);
    scratch.clear();
    Pick { fields: &fields, values: &mut values }.deserialize(&mut reader).is_ok()
        && values[0].as_ref().is_some_and(|value| encode(value, scratch))
        && scratch == encoded
}

/// How a page by this field is answered.
pub(crate) fn explain<'i>(mut indexes: impl Iterator<Item = &'i Index>, field: &str) -> Explanation {
    match indexes.find(|index| index.fields.first().is_some_and(|first| first == field)) {
        Some(index) => Explanation {
            plan: format!("entries of the value in the index ({}), then each document by key", index.fields.join(", ")),
            full_scan: false,
        },
        None => Explanation {
            plan: format!("every document, in key order, until enough have this `{field}`: no index begins with it"),
            full_scan: true,
        },
    }
}

/// Reads the value of a page query and encodes it.
///
/// # Errors
/// *Refused* where it is no JSON scalar.
pub(crate) fn encode_wanted(value: &str, into: &mut Vec<u8>) -> Result<(), OpError> {
    let value: Value = serde_json::from_str(value)
        .map_err(|e| OpError::new(ErrorKind::Refused, format!("`{value}` is not a JSON value: {e}")))?;
    into.clear();
    if encode(&value, into) {
        return Ok(());
    }
    Err(OpError::new(ErrorKind::Refused, "a page looks for a text, number, bool or null"))
}

fn escape(bytes: &[u8], into: &mut Vec<u8>) {
    for byte in bytes {
        into.push(*byte);
        if *byte == 0 {
            into.push(u8::MAX);
        }
    }
}

/// FNV-1a, 128 bits (<https://datatracker.ietf.org/doc/draft-eastlake-fnv/>): the same in every
/// version of everything, as what is stored on disk must be.
fn fnv1a(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

/// Takes some top-level fields out of a JSON object without building the rest of it.
struct Pick<'a> {
    fields: &'a [String],
    values: &'a mut [Option<Value>],
}

impl<'de> DeserializeSeed<'de> for Pick<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pick<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(position) = map.next_key_seed(Position(self.fields))? {
            match position {
                Some(position) => self.values[position] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Which of the fields a member's name is.
struct Position<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for Position<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Position<'_> {
    type Value = Option<usize>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }
    fn visit_str<E>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|field| field == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(json: &str) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(encode(&serde_json::from_str(json).unwrap(), &mut out));
        out
    }

    #[test]
    fn equal_values_are_encoded_alike_and_others_are_not() {
        assert_eq!(encoded("1"), encoded("1.0"));
        assert_eq!(encoded("0"), encoded("-0.0"));
        assert_eq!(encoded("-10"), encoded("-10.0"));
        assert_eq!(encoded("\"\\u0041\""), encoded("\"A\""));
        let distinct = ["1", "10", "-1", "1.5", "true", "false", "null", "\"1\"", "\"\"", "\"\\u0000\"", "\"true\""];
        for (i, a) in distinct.iter().enumerate() {
            for b in &distinct[i + 1..] {
                assert_ne!(encoded(a), encoded(b), "{a} and {b}");
                assert!(!encoded(a).starts_with(&encoded(b)) && !encoded(b).starts_with(&encoded(a)), "{a} and {b}");
            }
        }
    }

    #[test]
    fn the_key_comes_back_out_of_an_entry() {
        let index = Index { fields: vec!["a".into(), "b".into()] };
        let mut entry = Vec::new();
        for document in [r#"{"b":2,"x":[1,{"a":9}],"a":"u\u0000\u0001z"}"#, r#"{"a":""}"#, r#"{"a":null,"b":{}}"#] {
            for key in ["", "k", "\u{0}\u{1}k"] {
                assert!(index.entry(key, document.as_bytes(), &mut entry).unwrap());
                assert_eq!(index.key_of(&entry), Some(key), "{document}");
            }
        }
        assert!(!index.entry("k", br#"{"b":1}"#, &mut entry).unwrap());
        assert!(index.entry("k", b"{", &mut entry).is_err());
        assert!(index.entry("k", b"7", &mut entry).is_err());
        let long = format!(r#"{{"a":"{}","b":1}}"#, "x".repeat(70_000));
        assert!(index.entry("k", long.as_bytes(), &mut entry).unwrap());
        assert!(entry.len() < 5_000);
        assert_eq!(index.key_of(&entry), Some("k"));
    }
}
