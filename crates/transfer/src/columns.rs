//! Types of the columns of tables: CSV, TSV and Parquet.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Lists of one kind.
    List(Box<Kind>),
    /// Objects: their members in the order in which they were first seen.
    Object(Vec<(String, Kind)>),
}

impl Kind {
    /// The kind of one value.
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Unknown,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_i64() => Self::Integer,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::Text,
            Value::Array(items) => {
                let mut kind = Self::Unknown;
                items.iter().for_each(|item| kind.widen(Self::of(item)));
                Self::List(Box::new(kind))
            }
            Value::Object(members) => {
                Self::Object(members.iter().map(|(name, value)| (name.clone(), Self::of(value))).collect())
            }
        }
    }

    /// Takes in another value's kind. Where both cannot be one column the first stays: what does not fit is
    /// told when it is written, and never turned into text.
    fn widen(&mut self, other: Self) {
        match (&mut *self, other) {
            (_, Self::Unknown) => {}
            (Self::Unknown, other) => *self = other,
            (Self::Integer, Self::Number) => *self = Self::Number,
            (Self::List(mine), Self::List(theirs)) => mine.widen(*theirs),
            (Self::Object(mine), Self::Object(theirs)) => {
                for (name, kind) in theirs {
                    match mine.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, mine)) => mine.widen(kind),
                        None => mine.push((name, kind)),
                    }
                }
            }
            _ => {}
        }
    }

    fn arrow(&self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Number => DataType::Float64,
            Self::Text | Self::Json | Self::Unknown => DataType::Utf8,
            Self::List(of) => DataType::List(Arc::new(Field::new("item", of.arrow(), true))),
            // Parquet has no groups without fields.
            Self::Object(members) if members.is_empty() => DataType::Utf8,
            Self::Object(members) => DataType::Struct(fields(members)),
        }
    }
}

fn fields(members: &[(String, Kind)]) -> Fields {
    members.iter().map(|(name, kind)| Field::new(name, kind.arrow(), true)).collect()
}

/// Columns by name, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Columns(pub Vec<(String, Kind)>);

impl Columns {
    /// Takes in the fields of a document.
    pub fn see(&mut self, document: &Value) {
        let mut kind = Kind::Object(std::mem::take(&mut self.0));
        kind.widen(Kind::of(document));
        if let Kind::Object(members) = kind {
            self.0 = members;
        }
    }

    /// The kind of a column.
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, kind)| kind)
    }

    /// The schema of a Parquet file: each column may be null.
    pub fn arrow(&self) -> Schema {
        Schema::new(fields(&self.0))
    }
}

/// Types of columns as they are typed: `price=number,year=integer`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnTypes(pub Vec<(String, Kind)>);

/// Types that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no column and type; write NAME=TYPE,… with text, integer, number, boolean or json")]
pub struct ColumnTypesError(String);

impl FromStr for ColumnTypes {
    type Err = ColumnTypesError;

    fn from_str(text: &str) -> Result<Self, ColumnTypesError> {
        let one = |part: &str| {
            let wrong = || ColumnTypesError(part.to_owned());
            let (name, kind) = part.rsplit_once('=').ok_or_else(wrong)?;
            let kind = match kind.trim() {
                "text" => Kind::Text,
                "integer" => Kind::Integer,
                "number" => Kind::Number,
                "boolean" => Kind::Boolean,
                "json" => Kind::Json,
                _ => return Err(wrong()),
            };
            Ok((name.trim().to_owned(), kind))
        };
        text.split(',').map(one).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for ColumnTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> =
            self.0.iter().map(|(name, kind)| format!("{name}={}", format!("{kind:?}").to_lowercase())).collect();
        f.write_str(&all.join(","))
    }
}

impl Kind {
    /// Appends a text of a CSV field as a JSON value. Nothing is null, but in a column of text the empty text.
    ///
    /// # Errors
    /// It is no value of this kind.
    pub(crate) fn write_json(&self, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("`{text}` is no {what}"));
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
            Self::Json | Self::List(_) | Self::Object(_) => {
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
        let kinds: Vec<(&str, &Kind)> = columns.0.iter().map(|(name, kind)| (name.as_str(), kind)).collect();
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
