//! What drivers share for queries of the study: what is prepared by the number of the query, and JSON with parameters.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;
use storebench_documents::json;
use storebench_engine::store::{Batch, Op, OpError, StoreError};
use storebench_study::workload::{COLLECTION, Language, QueryPart, param_name};

use crate::document::prefix_end_text;
use crate::refusals::refused;

/// What a session has prepared for each query, by its number.
#[derive(Debug)]
pub(crate) struct ByNumber<T>(Vec<Option<T>>);

impl<T> Default for ByNumber<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByNumber<T> {
    /// All that was prepared.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// What was prepared for a query; `make` prepares it at the first call.
    #[inline]
    pub(crate) fn get(&mut self, number: u16, make: impl FnOnce() -> Result<T, OpError>) -> Result<&mut T, OpError> {
        let number = usize::from(number);
        if !matches!(self.0.get(number), Some(Some(_))) {
            let made = make()?;
            let length = self.0.len().max(number + 1);
            self.0.resize_with(length, || None);
            self.0[number] = Some(made);
        }
        self.0[number].as_mut().ok_or(OpError::unsupported())
    }
}

/// JSON that is cut at its parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    /// The position of a value.
    Value(usize),
}

impl Template {
    /// Cuts a JSON value at the strings that stand for a parameter (`"$city"`).
    pub(crate) fn of(value: &Value, values: Batch<'_>) -> Self {
        let mut template = Self::default();
        template.add(value, values);
        template
    }

    /// Adds JSON text.
    pub(crate) fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Part::Text(last)) => last.extend_from_slice(text.as_bytes()),
            _ => self.0.push(Part::Text(text.as_bytes().to_vec())),
        }
    }

    /// Adds the place of the value at this position.
    pub(crate) fn value(&mut self, position: usize) {
        self.0.push(Part::Value(position));
    }

    /// The JSON with these values, read again.
    pub(crate) fn filled(&self, values: Batch<'_>) -> Result<Value, StoreError> {
        let mut text = Vec::new();
        self.write(values, &mut text);
        serde_json::from_slice(&text).map_err(|e| StoreError::Failed(format!("the query is not JSON: {e}")))
    }

    fn add(&mut self, value: &Value, values: Batch<'_>) {
        match value {
            Value::String(text) => {
                let named = |name: &str| values.iter().position(|(known, _)| known == name);
                match param_name(text).and_then(named) {
                    Some(position) => self.value(position),
                    None => self.text(&value.to_string()),
                }
            }
            Value::Array(all) => {
                for (position, one) in all.iter().enumerate() {
                    self.text(if position == 0 { "[" } else { "," });
                    self.add(one, values);
                }
                self.text(if all.is_empty() { "[]" } else { "]" });
            }
            Value::Object(all) => {
                for (position, (name, one)) in all.iter().enumerate() {
                    self.text(if position == 0 { "{" } else { "," });
                    self.text(&Value::from(name.as_str()).to_string());
                    self.text(":");
                    self.add(one, values);
                }
                self.text(if all.is_empty() { "{}" } else { "}" });
            }
            other => self.text(&other.to_string()),
        }
    }

    /// Appends the JSON with these values.
    #[inline]
    pub(crate) fn write(&self, values: Batch<'_>, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Value(position) => {
                    out.extend_from_slice(values.get(*position).map_or(b"null", |(_, value)| value))
                }
            }
        }
    }
}

/// The only member of a query that is a table, if it is one of these. `of` is the name of the store.
pub(crate) fn only_member(text: &str, known: &[&str], of: &str) -> Result<(String, Value), OpError> {
    let query: Value = serde_json::from_str(text).map_err(|e| refused(format!("the query is not JSON: {e}")))?;
    let members = query.as_object().filter(|members| members.len() == 1);
    match members.and_then(|members| members.iter().next()) {
        Some((name, value)) if known.contains(&name.as_str()) => Ok((name.clone(), value.clone())),
        _ => Err(refused(format!(
            "a query of {of} is a table with one member: {}; a query may only read",
            known.join(" or ")
        ))),
    }
}

/// The SQL of a query on a table. `param` writes a parameter, given the position of its value.
///
/// # Errors
/// *Refused* if a parameter has no value, or if the text does not end properly.
pub(crate) fn sql(
    language: Language,
    text: &str,
    table: &str,
    values: Batch<'_>,
    mut param: impl FnMut(usize) -> String,
) -> Result<String, OpError> {
    let text = text.trim_end().trim_end_matches(';').replace(COLLECTION, table);
    let mut sql = String::with_capacity(text.len());
    for part in language.parts(&text).map_err(refused)? {
        match part {
            QueryPart::Text(text) => sql.push_str(text),
            QueryPart::Param(name) => {
                let position = values.iter().position(|(known, _)| known == name);
                sql.push_str(&param(position.ok_or_else(|| refused(format!("the parameter ${name} has no value")))?));
            }
        }
    }
    Ok(sql)
}

/// The keys of a prefix or a scan: the first, the end, and how many. `None` for other operations.
pub(crate) fn key_range<'o>(op: &Op<'o>) -> Option<(&'o str, Option<Cow<'o, str>>, u32)> {
    match *op {
        Op::Prefix { prefix, limit } => Some((prefix, prefix_end_text(prefix).map(Cow::Owned), limit)),
        Op::Scan { start, end, limit } => Some((start, end.map(Cow::Borrowed), limit)),
        _ => None,
    }
}

/// How the text of a column becomes JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Bool,
    Number,
    Json,
    Text,
}

/// A column of a query's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its name as JSON, and the colon.
    name: Box<[u8]>,
    pub(crate) shape: Shape,
}

impl Column {
    pub(crate) fn new(text: &str, shape: Shape) -> Self {
        let mut name = Vec::with_capacity(text.len() + 3);
        json::push_text(text, &mut name);
        name.push(b':');
        Self { name: name.into(), shape }
    }

    /// Begins the member of a row, which is an object.
    #[inline]
    pub(crate) fn begin(&self, position: usize, out: &mut Vec<u8>) {
        out.push(if position == 0 { b'{' } else { b',' });
        out.extend_from_slice(&self.name);
    }

    /// Appends the text of a value as JSON.
    #[inline]
    pub(crate) fn push(&self, value: Option<&[u8]>, out: &mut Vec<u8>) {
        let Some(value) = value else { return out.extend_from_slice(b"null") };
        match self.shape {
            Shape::Bool => out.extend_from_slice(if value == b"t" { b"true" } else { b"false" }),
            // Not NaN and Infinity.
            Shape::Number if value.last().is_some_and(u8::is_ascii_digit) => out.extend_from_slice(value),
            Shape::Json => out.extend_from_slice(value),
            Shape::Number | Shape::Text => json::push_text(&String::from_utf8_lossy(value), out),
        }
    }
}

/// Refuses a query of which two columns have one name, since a record has one field with that name.
pub(crate) fn check_names<'n>(mut names: impl Iterator<Item = &'n str>) -> Result<(), StoreError> {
    let mut known = HashSet::new();
    match names.find(|name| !known.insert(*name)) {
        Some(name) => Err(StoreError::NotSupported(format!(
            "two columns of the query are named `{name}`, but a record has only one field with that name; rename one \
             with AS"
        ))),
        None => Ok(()),
    }
}

/// Whether a text is a JSON object. A row that has only this one is that object.
pub(crate) fn is_object(text: &[u8]) -> bool {
    text.starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// Ends a row with these columns.
pub(crate) fn end_row(columns: &[Column], out: &mut Vec<u8>) {
    out.extend_from_slice(if columns.is_empty() { b"{}" } else { b"}" });
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::BatchBuf;

    use super::*;

    #[test]
    fn values_take_the_place_of_their_parameters() {
        let mut values = BatchBuf::new();
        values.push("city", b"\"a\\\"b\"");
        values.push("n", b"7");
        let query =
            serde_json::json!({ "a": ["$n", "$other", "$city!", "x$n"], "b": { "$gt": "$city" }, "c": [], "d": {} });
        let template = Template::of(&query, values.as_batch());
        let mut out = Vec::new();
        template.write(values.as_batch(), &mut out);
        let written: Value = serde_json::from_slice(&out).unwrap();
        let expected = serde_json::json!(
            { "a": [7, "$other", "$city!", "x$n"], "b": { "$gt": "a\"b" }, "c": [], "d": {} }
        );
        assert_eq!(written, expected);
    }

    #[test]
    fn what_was_prepared_is_kept_by_number() {
        let mut all = ByNumber::default();
        assert_eq!(all.get(3, || Ok("three")), Ok(&mut "three"));
        assert_eq!(all.get(0, || Ok("zero")), Ok(&mut "zero"));
        assert_eq!(all.get(3, || Err(OpError::unsupported())), Ok(&mut "three"));
        assert!(all.get(1, || Err(OpError::unsupported())).is_err());
    }

    #[test]
    fn columns_of_one_name_are_refused() {
        assert!(check_names(["a", "b", "A"].into_iter()).is_ok());
        assert!(check_names(["a", "b", "a"].into_iter()).unwrap_err().to_string().contains("`a`"));
    }

    #[test]
    fn a_table_has_one_known_member() {
        assert_eq!(only_member(r#"{"find":{"a":1}}"#, &["find"], "X").unwrap().0, "find");
        for wrong in ["{}", "[]", "nonsense", r#"{"drop":1}"#, r#"{"find":1,"drop":2}"#] {
            assert!(only_member(wrong, &["find"], "X").is_err(), "{wrong}");
        }
    }
}
