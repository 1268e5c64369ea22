//! Secondary indexes: which bytes stand for a field's value.
//!
//! An index entry is `field number, value tag, value length, value, key`. With the length in front
//! of the value, all entries of one value share a prefix that no other value's entries have, and
//! within it they are in key order.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Number, Value};

/// Collects, for one document, the entry prefix of each indexed field that holds a string, number,
/// boolean or null. Arrays, objects and absent fields have no entry.
///
/// # Errors
/// When `body` is no JSON object.
pub(super) fn entries(fields: &[String], body: &[u8], out: &mut Vec<Vec<u8>>) -> Result<(), serde_json::Error> {
    out.clear();
    if fields.is_empty() {
        return Ok(());
    }
    let mut values = vec![None; fields.len()];
    let mut reader = serde_json::Deserializer::from_slice(body);
    reader.deserialize_map(Fields { fields, values: &mut values })?;
    reader.end()?;
    for (number, value) in values.iter().enumerate() {
        let mut entry = Vec::new();
        if let Some(value) = value
            && prefix(number, value, &mut entry)
        {
            out.push(entry);
        }
    }
    Ok(())
}

/// Writes the entry prefix of a field's value; false for a value that is not indexed.
pub(super) fn prefix(field: usize, value: &Value, out: &mut Vec<u8>) -> bool {
    out.clear();
    out.extend_from_slice(&u16::try_from(field).unwrap_or(u16::MAX).to_be_bytes());
    match value {
        Value::Null => out.push(b'0'),
        Value::Bool(true) => out.push(b't'),
        Value::Bool(false) => out.push(b'f'),
        Value::Number(number) => push(out, b'n', &number_text(number)),
        Value::String(text) => push(out, b's', text),
        Value::Array(_) | Value::Object(_) => return false,
    }
    true
}

fn push(out: &mut Vec<u8>, tag: u8, text: &str) {
    out.push(tag);
    out.extend_from_slice(&(text.len() as u64).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// One text for every way to write a number: `7`, `7.0` and `70e-1` are the same value.
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if !number.is_i64() && !number.is_u64() => {
            if float.fract() == 0.0 && float.abs() < 1e18 {
                let whole = float as i64;
                whole.to_string()
            } else {
                format!("{float:e}")
            }
        }
        _ => number.to_string(),
    }
}

struct Fields<'a> {
    fields: &'a [String],
    values: &'a mut [Option<Value>],
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(FieldNumber(self.fields))? {
            match field {
                Some(number) => self.values[number] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Which of the indexed fields a name is, without keeping the name.
struct FieldNumber<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for FieldNumber<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldNumber<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|field| field == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(field: &str, body: &str) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        entries(&[field.to_owned()], body.as_bytes(), &mut out).unwrap();
        out
    }

    #[test]
    fn equal_values_have_equal_entries_and_others_do_not() {
        assert_eq!(one("n", r#"{"n":7}"#), one("n", r#"{"a":[1,{"n":2}],"n":7.0}"#));
        assert_eq!(one("n", r#"{"n":"a\u0062"}"#), one("n", r#"{"n":"ab"}"#));
        assert_ne!(one("n", r#"{"n":7}"#), one("n", r#"{"n":"7"}"#));
        assert_ne!(one("n", r#"{"n":9007199254740993}"#), one("n", r#"{"n":9007199254740992}"#));
        assert!(one("n", r#"{"m":7}"#).is_empty());
        assert!(one("n", r#"{"n":[7]}"#).is_empty());
        assert_eq!(one("n", r#"{"n":1,"n":2}"#), one("n", r#"{"n":2}"#), "the last of two wins, as in most parsers");
    }

    #[test]
    fn no_value_is_the_prefix_of_another() {
        let (short, long) = (one("n", r#"{"n":"a"}"#), one("n", r#"{"n":"ab"}"#));
        assert!(!long[0].starts_with(&short[0]));
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for body in ["", "7", "[]", "{", r#"{"n":1} x"#] {
            assert!(entries(&["n".to_owned()], body.as_bytes(), &mut Vec::new()).is_err(), "{body}");
        }
    }
}
