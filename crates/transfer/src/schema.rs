//! Schemas that users write: a JSON document for `--schema`, as printed by `--dry-run`.

use serde_json::{Map, Value, json};

use crate::columns::{Columns, Kind, OVERFLOW};

/// Most levels of nested lists and objects.
const DEEPEST: usize = 32;

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; expected {{\"columns\": {{\"title\": \"text\", \"tags\": [\"text\"], \"by\": {{\"born\": \"integer\"}}}}}} with types \
     text, integer, number, boolean or json"
)]
pub struct SchemaError(String);

impl Columns {
    /// Parses a schema. Also accepts the full output of `--dry-run`, which has other lines around the schema.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn of_schema(text: &str) -> Result<Self, SchemaError> {
        let wrong = |what: &str| SchemaError(what.to_owned());
        let lines: Vec<&str> = text.lines().collect();
        let begin = lines.iter().position(|line| line.trim_end() == "{");
        let end = lines.iter().rposition(|line| line.trim_end() == "}");
        let printed = match (begin, end) {
            (Some(begin), Some(end)) if begin < end => lines[begin..=end].join("\n"),
            _ => text.to_owned(),
        };
        let schema: Value =
            serde_json::from_str(&printed).map_err(|e| SchemaError(format!("the schema is not JSON: {e}")))?;
        let Value::Object(mut schema) = schema else { return Err(wrong("the schema is not a JSON object")) };
        let Some(Value::Object(columns)) = schema.shift_remove("columns") else {
            return Err(wrong("the member `columns` is missing or not an object"));
        };
        let overflow = match schema.shift_remove("overflow") {
            None => Some(OVERFLOW.to_owned()),
            Some(Value::Null) => None,
            Some(Value::String(name)) if !name.is_empty() => Some(name),
            Some(_) => return Err(wrong("`overflow` must be a column name or null")),
        };
        if let Some((other, _)) = schema.iter().next() {
            return Err(SchemaError(format!("unknown member `{other}`; expected columns and overflow")));
        }
        if let Some(name) = overflow.as_ref().filter(|name| columns.contains_key(*name)) {
            return Err(SchemaError(format!("`{name}` is both a column and the overflow column; rename one of them")));
        }
        let list = kinds(&columns, "columns", DEEPEST)?;
        Ok(Self { list, overflow })
    }

    /// The schema as `--dry-run` prints it.
    pub fn schema(&self) -> String {
        let columns: Map<String, Value> = self.list.iter().map(|(name, kind)| (name.clone(), of_kind(kind))).collect();
        let schema = json!({"columns": columns, "overflow": self.overflow});
        serde_json::to_string_pretty(&schema).unwrap_or_default()
    }
}

fn kinds(members: &Map<String, Value>, at: &str, levels: usize) -> Result<Vec<(String, Kind)>, SchemaError> {
    members.iter().map(|(name, value)| Ok((name.clone(), kind(value, &format!("{at}.{name}"), levels)?))).collect()
}

fn kind(value: &Value, at: &str, levels: usize) -> Result<Kind, SchemaError> {
    let wrong = |what: String| Err(SchemaError(format!("{at}: {what}")));
    if levels == 0 {
        return wrong(format!("more than {DEEPEST} levels of nesting"));
    }
    match value {
        Value::String(name) => match Kind::named(name) {
            None | Some(Kind::Overflow) => wrong(format!("unknown type `{name}`")),
            Some(Kind::Json) if levels < DEEPEST => wrong("`json` is allowed only for a whole column".into()),
            Some(kind) => Ok(kind),
        },
        Value::Array(items) => match items.as_slice() {
            [item] => Ok(Kind::List(Box::new(kind(item, &format!("{at}[0]"), levels - 1)?))),
            _ => wrong("a list must contain exactly one type, that of its items".into()),
        },
        Value::Object(members) if members.is_empty() => wrong("an object without members cannot be a column".into()),
        Value::Object(members) => Ok(Kind::Object(kinds(members, at, levels - 1)?)),
        _ => wrong("expected the name of a type, a list or an object".into()),
    }
}

fn of_kind(kind: &Kind) -> Value {
    match kind {
        Kind::Unknown | Kind::Overflow => Kind::Text.name().into(),
        Kind::List(of) => json!([of_kind(of)]),
        Kind::Object(members) => members.iter().map(|(name, kind)| (name.clone(), of_kind(kind))).collect(),
        simple => simple.name().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again_with_lines_around_it() {
        let text = r#"{"columns": {"_id": "text", "n": "number", "raw": "json", "tags": [["integer"]],
            "by": {"name": "text", "old": "boolean"}}}"#;
        let columns = Columns::of_schema(text).unwrap();
        assert_eq!(columns.overflow.as_deref(), Some("_more"));
        assert_eq!(columns.list.len(), 5);
        let printed = format!("from  a\nto    b\nschema:\n{}\nnothing was written (--dry-run)\n", columns.schema());
        assert_eq!(Columns::of_schema(&printed).unwrap(), columns);
        let none = Columns { overflow: None, ..columns };
        assert_eq!(Columns::of_schema(&none.schema()).unwrap(), none);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, part) in [
            ("", "not JSON"),
            ("[]", "not a JSON object"),
            ("{}", "`columns` is missing"),
            (r#"{"columns":{"a":"int"}}"#, "columns.a: unknown type `int`"),
            (r#"{"columns":{"a":{"b":["text","text"]}}}"#, "columns.a.b: a list must"),
            (r#"{"columns":{"a":{"b":"json"}}}"#, "columns.a.b: `json` is"),
            (r#"{"columns":{"a":{}}}"#, "columns.a: an object without"),
            (r#"{"columns":{"a":7}}"#, "columns.a: expected the name"),
            (r#"{"columns":{"_more":"text"}}"#, "`_more` is both a column and the overflow column"),
            (r#"{"columns":{},"overflow":7}"#, "`overflow`"),
            (r#"{"columns":{},"key":"a"}"#, "unknown member `key`"),
        ] {
            let told = Columns::of_schema(text).unwrap_err().to_string();
            assert!(told.contains(part), "{text}: {told}");
        }
    }
}
