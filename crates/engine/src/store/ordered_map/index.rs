//! Secondary indexes for engines that only have ordered keys. An entry is the indexed values and the document's key in
//! one byte string, so that the entries of a value are adjacent, in key order.
//!
//! An encoded value is a tag, its text with 0x00 written as `00 FF`, and `00 01`. No encoded value is the beginning of
//! another one. Equal numbers are encoded alike, whatever their spelling (`1`, `1.0`).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::store::{ErrorKind, Explanation, OpError};

const NULL: u8 = 1;
const BOOL: u8 = 2;
const NUMBER: u8 = 3;
const TEXT: u8 = 4;
/// A text too long for an engine's keys: its beginning and its hash.
const LONG_TEXT: u8 = 5;
/// A later field that the document lacks, or that is not a scalar.
const MISSING: u8 = 6;
const LONGEST_TEXT: usize = 2_048;

/// The indexes of a collection, each over one or more top-level fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes {
    /// Every indexed field once.
    fields: Vec<String>,
    /// The fields of each index, by their positions in `fields`.
    of: Vec<Vec<usize>>,
}

impl Indexes {
    /// Indexes over these fields.
    pub fn new(indexes: &[Vec<String>]) -> Self {
        let mut fields: Vec<String> = Vec::new();
        let mut position = |field: &String| {
            fields.iter().position(|known| known == field).unwrap_or_else(|| {
                fields.push(field.clone());
                fields.len() - 1
            })
        };
        let of = indexes.iter().map(|index| index.iter().map(&mut position).collect()).collect();
        Self { fields, of }
    }

    /// The number of indexes.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether there are no indexes.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The first index that begins with this field.
    pub fn starting_with(&self, field: &str) -> Option<usize> {
        self.of.iter().position(|of| of.first().is_some_and(|first| self.fields[*first] == field))
    }

    /// The document's key within an entry of an index.
    pub fn key_of<'e>(&self, index: usize, entry: &'e [u8]) -> Option<&'e str> {
        let mut rest = entry;
        for _ in self.of.get(index)? {
            let end = rest.windows(2).skip(1).position(|pair| pair == [0, 1])?;
            rest = &rest[end + 3..];
        }
        std::str::from_utf8(rest).ok()
    }

    /// How a page by this field is answered.
    pub fn explain(&self, field: &str) -> Explanation {
        match self.starting_with(field) {
            Some(index) => {
                let fields: Vec<&str> = self.of[index].iter().map(|field| self.fields[*field].as_str()).collect();
                let plan =
                    format!("entries of the value in the index ({}), then each document by key", fields.join(", "));
                Explanation { plan, full_scan: false }
            }
            None => Explanation {
                plan: format!(
                    "every document, in key order, until enough have this `{field}`: no index begins with it"
                ),
                full_scan: true,
            },
        }
    }
}

/// The index entries of one document. When it is reused, it keeps its memory.
#[derive(Debug, Default)]
pub struct Entries {
    bytes: Vec<u8>,
    /// Where the entry of each index ends. The entry is empty if the document has none.
    ends: Vec<usize>,
    values: Vec<Option<Value>>,
}

impl Entries {
    /// Removes the entries but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Makes the entries of a document, reading it once. An index gets no entry if the document lacks its first field,
    /// or has an object or a list there.
    ///
    /// # Errors
    /// *Refused* if the document is not a JSON object.
    pub fn fill(&mut self, indexes: &Indexes, key: &str, document: &[u8]) -> Result<(), OpError> {
        self.clear();
        if indexes.is_empty() {
            return Ok(());
        }
        self.values.clear();
        self.values.resize(indexes.fields.len(), None);
        let mut reader = serde_json::Deserializer::from_slice(document);
        let picked = Pick { fields: &indexes.fields, values: &mut self.values }.deserialize(&mut reader);
        picked.and_then(|()| reader.end()).map_err(|e| {
            OpError::new(
                ErrorKind::Refused,
                format!("the document cannot be indexed because it is not a JSON object: {e}"),
            )
        })?;
        for of in &indexes.of {
            let begin = self.bytes.len();
            for (nth, field) in of.iter().enumerate() {
                if !self.values[*field].as_ref().is_some_and(|value| encode(value, &mut self.bytes)) {
                    if nth == 0 {
                        break;
                    }
                    self.bytes.extend_from_slice(&[MISSING, 0, 1]);
                }
            }
            if self.bytes.len() > begin {
                self.bytes.extend_from_slice(key.as_bytes());
            }
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    /// The entry in an index, if there is one.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        (begin < end).then(|| &self.bytes[begin..end])
    }
}

/// Appends an encoded scalar; returns false for objects and lists.
fn encode(value: &Value, into: &mut Vec<u8>) -> bool {
    match value {
        Value::Null => into.push(NULL),
        Value::Bool(b) => into.extend_from_slice(&[BOOL, b'0' + u8::from(*b)]),
        Value::Number(n) => {
            into.push(NUMBER);
            // Below 2^53, every integer has an exact float.
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

/// Whether the first of the fields equals a value in the document, as an index would compare them.
pub(super) fn field_equals(fields: &Indexes, document: &[u8], encoded: &[u8], scratch: &mut Entries) -> bool {
    scratch.fill(fields, "", document).is_ok() && scratch.get(0) == Some(encoded)
}

/// Reads the value of a page query and encodes it.
///
/// # Errors
/// *Refused* if it is not a JSON scalar.
pub(super) fn encode_wanted(value: &str, into: &mut Vec<u8>) -> Result<(), OpError> {
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

/// FNV-1a, 128 bits (<https://datatracker.ietf.org/doc/draft-eastlake-fnv/>). It is stored on disk, so it must be the
/// same in every version.
fn fnv1a(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

/// Extracts some top-level fields from a JSON object without building the rest of it.
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

/// Finds which of the fields a member's name is.
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
        let indexes = Indexes::new(&[vec!["b".into()], vec!["a".into(), "b".into()]]);
        let mut entries = Entries::default();
        for document in [r#"{"b":2,"x":[1,{"a":9}],"a":"u\u0000\u0001z"}"#, r#"{"a":""}"#, r#"{"a":null,"b":{}}"#] {
            for key in ["", "k", "\u{0}\u{1}k"] {
                entries.fill(&indexes, key, document.as_bytes()).unwrap();
                assert_eq!(indexes.key_of(1, entries.get(1).unwrap()), Some(key), "{document}");
                let first = entries.get(0).map(|entry| indexes.key_of(0, entry));
                assert_eq!(first, document.contains("\"b\":2").then_some(Some(key)), "{document}");
            }
        }
        entries.fill(&indexes, "k", br#"{"b":1}"#).unwrap();
        assert_eq!((entries.get(0).is_some(), entries.get(1)), (true, None));
        for refused in ["", "{", "7", "[]", r#"{"a":1} x"#] {
            assert!(entries.fill(&indexes, "k", refused.as_bytes()).is_err(), "{refused}");
            assert_eq!((entries.get(0), entries.get(1)), (None, None), "{refused}");
        }
        let long = format!(r#"{{"a":"{}","b":1}}"#, "x".repeat(70_000));
        entries.fill(&indexes, "k", long.as_bytes()).unwrap();
        assert!(entries.get(1).unwrap().len() < 5_000);
        assert_eq!(indexes.key_of(1, entries.get(1).unwrap()), Some("k"));
    }

    #[test]
    fn equal_documents_have_equal_entries_and_others_do_not() {
        let one = |body: &str| {
            let mut entries = Entries::default();
            entries.fill(&Indexes::new(&[vec!["n".to_owned()]]), "k", body.as_bytes()).unwrap();
            entries.get(0).map(<[u8]>::to_vec)
        };
        assert_eq!(one(r#"{"n":7}"#), one(r#"{"a":[1,{"n":2}],"n":7.0}"#));
        assert_eq!(one(r#"{"n":"a\u0062"}"#), one(r#"{"n":"ab"}"#));
        assert_ne!(one(r#"{"n":7}"#), one(r#"{"n":"7"}"#));
        assert_ne!(one(r#"{"n":9007199254740993}"#), one(r#"{"n":9007199254740992}"#));
        assert_eq!(one(r#"{"m":7}"#), None);
        assert_eq!(one(r#"{"n":[7]}"#), None);
        assert_eq!(one(r#"{"n":1,"n":2}"#), one(r#"{"n":2}"#), "the last of two wins, as in most parsers");
    }
}
