//! Types of the columns of tables: CSV, TSV and Parquet.

use std::fmt;
use std::io::Write as _;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The column that keeps what has no column, or does not fit its own, unless another name is given.
pub const OVERFLOW: &str = "_more";
/// Members of one object that get columns, at most: maps with a key for each user have no end.
const MOST_MEMBERS: usize = 1_000;
/// Levels of lists and objects that get types, at most.
const DEEPEST: usize = 16;
/// Integers beyond this are not exact as doubles.
pub(crate) const EXACT: f64 = 9_007_199_254_740_992.0;

/// What a field of JSON documents holds, as a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Only nulls, or nothing, were seen.
    Unknown,
    /// `true` and `false`.
    Boolean,
    /// Integers of 64 bits.
    Integer,
    /// Numbers as doubles.
    Number,
    /// Text.
    Text,
    /// Any JSON, kept as its text.
    Json,
    /// What stands in no other column: a JSON object, kept as its text.
    Overflow,
    /// Lists of one kind.
    List(Box<Kind>),
    /// Objects: their members in the order in which they were first seen.
    Object(Vec<(String, Kind)>),
}

/// Kinds that people type.
const NAMED: [(&str, Kind); 6] = [
    ("text", Kind::Text),
    ("integer", Kind::Integer),
    ("number", Kind::Number),
    ("boolean", Kind::Boolean),
    ("json", Kind::Json),
    ("overflow", Kind::Overflow),
];

impl Kind {
    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind)
    }

    /// The name, of those that people type.
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

    /// Takes in another value's kind. Where both cannot be one column the first stays: what does not fit goes into the
    /// overflow when it is written, and is never turned into text.
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

    /// Without what no file can hold: false where nothing is left.
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

/// The position of a member. Most documents have their members in one order, so it is looked for from `near` on.
pub(crate) fn position(members: &[(String, Kind)], name: &str, near: usize) -> Option<usize> {
    let (before, behind) = members.split_at(near.min(members.len()));
    let among = |members: &[(String, Kind)]| members.iter().position(|(known, _)| known == name);
    among(behind).map(|found| before.len() + found).or_else(|| among(before))
}

/// Columns by name, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Columns {
    /// Those that were found or given.
    pub list: Vec<(String, Kind)>,
    /// The one behind them that keeps what has no column, or does not fit its own, as JSON; without it a document that
    /// holds such things is rejected.
    pub overflow: Option<String>,
}

impl Columns {
    /// Takes in the fields of a document.
    pub fn see(&mut self, document: &Value) {
        let mut kind = Kind::Object(std::mem::take(&mut self.list));
        kind.widen(Kind::of(document, DEEPEST));
        if let Kind::Object(members) = kind {
            self.list = members;
        }
    }

    /// Makes columns of what was seen. Lists and objects stand in cells of text as JSON, and so need no types within.
    pub(crate) fn settle(&mut self, as_text: bool) {
        let Self { list, overflow } = self;
        list.retain_mut(|(name, kind)| Some(&*name) != overflow.as_ref() && (kind.settle() || as_text));
    }

    /// Names of all columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(name, _)| name.as_str()).chain(self.overflow.as_deref())
    }

    /// The kind of a column.
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.list.iter().find(|(known, _)| known == name).map(|(_, kind)| kind)
    }
}

/// Appends a finite double as files of Storebench give it back: what is a whole number without a point.
pub(crate) fn write_double(value: f64, out: &mut Vec<u8>) {
    let whole = value.fract() == 0.0 && value.abs() <= EXACT && !(value == 0.0 && value.is_sign_negative());
    // Into memory it cannot fail.
    let _ =
        if whole { write!(out, "{}", value as i64) } else { serde_json::to_writer(out, &value).map_err(Into::into) };
}

/// Types of columns as they are typed: `price=number,year=integer`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnTypes(pub Vec<(String, Kind)>);

/// Types that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no column and type; write NAME=TYPE,… with text, integer, number, boolean, json or overflow")]
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
    /// Appends a text of a CSV field as a JSON value. Nothing is null, but in a column of text the empty text.
    ///
    /// # Errors
    /// It is no value of this kind.
    pub(crate) fn write_json(&self, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("`{text}` is not a valid {what}"));
        let trimmed = text.trim();
        match self {
            Self::Text | Self::Unknown => crate::shape::members::write_string(text, out),
            _ if trimmed.is_empty() => out.extend_from_slice(b"null"),
            Self::Integer => match trimmed.parse::<i64>() {
                Ok(value) => out.extend_from_slice(value.to_string().as_bytes()),
                Err(_) => return wrong("integer of 64 bits"),
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
