//! Column types of tabular files: CSV, TSV and Parquet.

use std::fmt;
use std::io::Write as _;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Default name of the overflow column: it keeps values that have no column or do not fit their column.
pub const OVERFLOW: &str = "_more";
/// Most members of one object that get columns. Without a limit, a map with one key per user would add columns forever.
const MOST_MEMBERS: usize = 1_000;
/// Most levels of nested lists and objects that get types.
const DEEPEST: usize = 16;
/// Integers beyond this are not exact as doubles.
pub(crate) const EXACT: f64 = 9_007_199_254_740_992.0;

/// The type of a column, found in the fields of JSON documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Only nulls were seen, or no value.
    Unknown,
    /// `true` and `false`.
    Boolean,
    /// 64-bit integers.
    Integer,
    /// Numbers as doubles.
    Number,
    /// Text.
    Text,
    /// Any JSON, kept as its text.
    Json,
    /// Everything without a column: a JSON object, kept as its text.
    Overflow,
    /// Lists of one kind.
    List(Box<Kind>),
    /// Objects. Members are in the order in which they were first seen.
    Object(Vec<(String, Kind)>),
}

/// Kinds that users can name.
const NAMED: [(&str, Kind); 6] = [
    ("text", Kind::Text),
    ("integer", Kind::Integer),
    ("number", Kind::Number),
    ("boolean", Kind::Boolean),
    ("json", Kind::Json),
    ("overflow", Kind::Overflow),
];

impl Kind {
    /// The kind with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind)
    }

    /// The name that users type; empty for a kind without one.
    pub(crate) fn name(&self) -> &'static str {
        NAMED.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name)
    }

    /// The kind of one value.
    fn of(value: &Value, levels: usize) -> Self {
        match value {
            Value::Array(_) | Value::Object(_) if levels == 0 => Self::Unknown,
            Value::Null => Self::Unknown,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_i64() => Self::Integer,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::Text,
            Value::Array(items) => {
                let mut kind = Self::Unknown;
                items.iter().for_each(|item| kind.widen(Self::of(item, levels - 1)));
                Self::List(Box::new(kind))
            }
            Value::Object(members) => {
                let typed = |(name, value): (&String, _)| (name.clone(), Self::of(value, levels - 1));
                Self::Object(members.iter().take(MOST_MEMBERS).map(typed).collect())
            }
        }
    }

    /// Merges in another value's kind. If one column cannot hold both, the first kind stays. Values that do not fit go
    /// into the overflow column on writing; they are never turned into text.
    fn widen(&mut self, other: Self) {
        match (&mut *self, other) {
            (_, Self::Unknown) => {}
            (Self::Unknown, other) => *self = other,
            (Self::Integer, Self::Number) => *self = Self::Number,
            (Self::List(mine), Self::List(theirs)) => mine.widen(*theirs),
            (Self::Object(mine), Self::Object(theirs)) => {
                for (at, (name, kind)) in theirs.into_iter().enumerate() {
                    match position(mine, &name, at) {
                        Some(found) => mine[found].1.widen(kind),
                        None if mine.len() < MOST_MEMBERS => mine.push((name, kind)),
                        None => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Removes what no file can hold. Returns false if nothing is left.
    fn settle(&mut self) -> bool {
        match self {
            // Only nulls were seen, or empty lists.
            Self::Unknown => *self = Self::Text,
            Self::List(of) => return of.settle(),
            Self::Object(members) => {
                members.retain_mut(|(_, kind)| kind.settle());
                return !members.is_empty();
            }
            _ => {}
        }
        true
    }
}

/// The position of a member. Most documents list their members in the same order, so the search starts at `near`.
pub(crate) fn position(members: &[(String, Kind)], name: &str, near: usize) -> Option<usize> {
    let (before, behind) = members.split_at(near.min(members.len()));
    let among = |members: &[(String, Kind)]| members.iter().position(|(known, _)| known == name);
    among(behind).map(|found| before.len() + found).or_else(|| among(before))
}

/// Named columns, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Columns {
    /// The columns that were inferred or given.
    pub list: Vec<(String, Kind)>,
    /// The last column. It keeps, as JSON, values that have no column or do not fit theirs. Without it, a document with
    /// such values is rejected.
    pub overflow: Option<String>,
}

impl Columns {
    /// Adds the fields of a document.
    pub fn see(&mut self, document: &Value) {
        let mut kind = Kind::Object(std::mem::take(&mut self.list));
        kind.widen(Kind::of(document, DEEPEST));
        if let Kind::Object(members) = kind {
            self.list = members;
        }
    }

    /// Turns what was seen into columns. With `as_text`, cells hold lists and objects as JSON text, so these need no
    /// inner types.
    pub(crate) fn settle(&mut self, as_text: bool) {
        let Self { list, overflow } = self;
        list.retain_mut(|(name, kind)| Some(&*name) != overflow.as_ref() && (kind.settle() || as_text));
    }

    /// The names of all columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(name, _)| name.as_str()).chain(self.overflow.as_deref())
    }

    /// The kind of a column.
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.list.iter().find(|(known, _)| known == name).map(|(_, kind)| kind)
    }
}

/// Appends a finite double as Storebench files show it: integral values have no decimal point.
pub(crate) fn write_double(value: f64, out: &mut Vec<u8>) {
    let whole = value.fract() == 0.0 && value.abs() <= EXACT && !(value == 0.0 && value.is_sign_negative());
    // Writing to memory cannot fail.
    let _ =
        if whole { write!(out, "{}", value as i64) } else { serde_json::to_writer(out, &value).map_err(Into::into) };
}

/// Column types as users type them: `price=number,year=integer`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnTypes(pub Vec<(String, Kind)>);

/// Column types that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a column and type; expected NAME=TYPE,… with text, integer, number, boolean, json or overflow")]
pub struct ColumnTypesError(String);

impl FromStr for ColumnTypes {
    type Err = ColumnTypesError;

    fn from_str(text: &str) -> Result<Self, ColumnTypesError> {
        let one = |part: &str| {
            let wrong = || ColumnTypesError(part.to_owned());
            let (name, kind) = part.rsplit_once('=').ok_or_else(wrong)?;
            Ok((name.trim().to_owned(), Kind::named(kind.trim()).ok_or_else(wrong)?))
        };
        text.split(',').map(one).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for ColumnTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(name, kind)| format!("{name}={}", kind.name())).collect();
        f.write_str(&all.join(","))
    }
}

impl Kind {
    /// Appends the text of a CSV field as a JSON value. An empty field is null, except that in a text column it is the
    /// empty string.
    ///
    /// # Errors
    /// The text is not a valid value of this kind.
    pub(crate) fn write_json(&self, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("`{text}` is not a valid {what}"));
        let trimmed = text.trim();
        match self {
            Self::Text | Self::Unknown => storebench_documents::json::push_text(text, out),
            _ if trimmed.is_empty() => out.extend_from_slice(b"null"),
            Self::Integer => match trimmed.parse::<i64>() {
                Ok(value) => out.extend_from_slice(value.to_string().as_bytes()),
                Err(_) => return wrong("64-bit integer"),
            },
            Self::Number => match serde_json::from_str::<serde_json::Number>(trimmed) {
                Ok(_) => out.extend_from_slice(trimmed.as_bytes()),
                Err(_) => return wrong("number"),
            },
            Self::Boolean => match trimmed.to_ascii_lowercase().as_str() {
                "true" | "t" | "1" | "yes" => out.extend_from_slice(b"true"),
                "false" | "f" | "0" | "no" => out.extend_from_slice(b"false"),
                _ => return wrong("boolean"),
            },
            Self::Json | Self::Overflow | Self::List(_) | Self::Object(_) => {
                match serde_json::from_str::<&serde_json::value::RawValue>(trimmed) {
                    Ok(value) => out.extend_from_slice(value.get().as_bytes()),
                    Err(_) => return wrong("JSON"),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_widen_but_never_into_text() {
        let mut columns = Columns::default();
        for document in [
            json!({"a": 1, "b": null, "c": [1, 2.5], "d": {"x": 1}}),
            json!({"a": 2.5, "b": "t", "c": [], "d": {"y": [true]}, "e": []}),
            json!({"a": "text", "b": 7}),
        ] {
            columns.see(&document);
        }
        let kinds: Vec<(&str, &Kind)> = columns.list.iter().map(|(name, kind)| (name.as_str(), kind)).collect();
        let inner = Kind::Object(vec![("x".into(), Kind::Integer), ("y".into(), Kind::List(Box::new(Kind::Boolean)))]);
        assert_eq!(
            kinds,
            [
                ("a", &Kind::Number),
                ("b", &Kind::Text),
                ("c", &Kind::List(Box::new(Kind::Number))),
                ("d", &inner),
                ("e", &Kind::List(Box::new(Kind::Unknown))),
            ]
        );
    }

    #[test]
    fn texts_become_values_of_their_column_or_are_told() {
        let json = |kind: Kind, text: &str| {
            let mut out = Vec::new();
            kind.write_json(text, &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        assert_eq!(json(Kind::Text, "007").unwrap(), "\"007\"");
        assert_eq!(json(Kind::Text, "").unwrap(), "\"\"");
        assert_eq!(json(Kind::Integer, " 007 ").unwrap(), "7");
        assert_eq!(json(Kind::Integer, "").unwrap(), "null");
        assert_eq!(json(Kind::Number, "1.50e3").unwrap(), "1.50e3");
        assert_eq!(json(Kind::Boolean, "Yes").unwrap(), "true");
        assert_eq!(json(Kind::Json, "[1, {\"a\":2}]").unwrap(), "[1, {\"a\":2}]");
        for (kind, text) in [
            (Kind::Integer, "9223372036854775808"),
            (Kind::Integer, "1.0"),
            (Kind::Number, "1,5"),
            (Kind::Number, "NaN"),
            (Kind::Boolean, "2"),
            (Kind::Json, "{"),
        ] {
            assert!(json(kind.clone(), text).unwrap_err().contains(text), "{kind:?} {text}");
        }
    }

    #[test]
    fn types_are_read_as_they_are_shown() {
        let types: ColumnTypes = "price=number, year=integer,a=b=json".parse().unwrap();
        assert_eq!(types.to_string(), "price=number,year=integer,a=b=json");
        assert!("price".parse::<ColumnTypes>().is_err() && "price=int".parse::<ColumnTypes>().is_err());
    }
}
