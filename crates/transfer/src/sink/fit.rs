//! Converts documents to rows: decides which fields fit a column, and what goes into the overflow.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use storebench_documents::json::push_text;

use crate::columns::{Columns, EXACT, Kind, position, write_double};
use crate::shape::members::{self, ObjectWriter};

/// How well a value fits its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It is read back exactly as written.
    Exact,
    /// It is read back as the same value in another notation.
    Rewritten,
    /// The column can hold it only in part, or rounded.
    Partly,
    /// The column cannot hold it.
    Not,
}

/// The position of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Field,
    Member,
    Item,
}

/// Converts documents to rows.
pub(crate) struct Rows<'a> {
    columns: &'a Columns,
    key_field: Option<&'a str>,
    index: HashMap<&'a str, usize>,
    /// Whether cells are text, as in CSV, and not typed values.
    as_text: bool,
    /// Whether a value is either in its column or in the overflow, and never in both. Then who changes a column changes
    /// the document. Numbers may come back in another notation. Without an overflow, fields without a column are left
    /// out.
    once: bool,
    // State of the current row.
    overflow: Vec<u8>,
    /// Whether the last row, made or refused, has fields that its columns do not hold.
    pub(crate) overflowed: bool,
}

/// The fields of one row.
struct Row<'d> {
    /// Cells, by column.
    cells: Vec<Option<&'d str>>,
    key: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(columns: &'a Columns, key_field: Option<&'a str>, as_text: bool) -> Self {
        let index = columns.list.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)).collect();
        Self { columns, key_field, index, as_text, once: false, overflow: Vec::new(), overflowed: false }
    }

    /// Puts each value into one place only.
    pub(crate) fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// Appends a document with its key as a JSON object of columns.
    ///
    /// # Errors
    /// Why the document cannot be a row.
    pub(crate) fn object(&mut self, key: &str, body: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let row = self.row(key, body)?;
        let mut object = ObjectWriter::new(out);
        for (at, (column, kind)) in self.columns.list.iter().enumerate() {
            match row.cells[at] {
                _ if at == row.key => push_text(key, object.name(column)),
                Some(json) if *kind == Kind::Json => push_text(json, object.name(column)),
                Some(json) => object.add(column, json),
                None => {}
            }
        }
        if let Some(column) = self.columns.overflow.as_ref().filter(|_| self.overflowed) {
            // It was assembled from UTF-8 strings.
            push_text(&String::from_utf8_lossy(&self.overflow), object.name(column));
        }
        object.end();
        out.push(b'\n');
        Ok(())
    }

    /// Converts a document with its key to the text cells of a row.
    ///
    /// # Errors
    /// Why the document cannot be a row.
    pub(crate) fn cells(&mut self, key: &str, body: &[u8]) -> Result<Vec<String>, String> {
        let row = self.row(key, body)?;
        let text = |(at, cell): (usize, &Option<&str>)| match cell {
            _ if at == row.key => key.to_owned(),
            None | Some("null") => String::new(),
            Some(json) if json.starts_with('"') => serde_json::from_str(json).unwrap_or_default(),
            // Verbatim, but on one line, so that no digit is lost.
            Some(json) => json.replace(['\n', '\r'], ""),
        };
        let mut cells: Vec<String> = row.cells.iter().enumerate().map(text).collect();
        if self.columns.overflow.is_some() {
            let more = if self.overflowed { String::from_utf8_lossy(&self.overflow) } else { Cow::Borrowed("") };
            cells.push(more.replace(['\n', '\r'], ""));
        }
        Ok(cells)
    }

    /// Assigns a document's fields to columns and the overflow.
    fn row<'d>(&mut self, key: &str, body: &'d [u8]) -> Result<Row<'d>, String> {
        let body = std::str::from_utf8(body).map_err(|e| format!("it is not UTF-8: {e}"))?;
        if !body.trim_ascii_start().starts_with('{') {
            serde_json::from_str::<serde::de::IgnoredAny>(body).map_err(|e| format!("it is not JSON: {e}"))?;
            return Err("it is not a JSON object, so it has no columns".into());
        }
        let fields = members::all(body)?;
        let Self { columns, key_field, index, as_text, once, overflow, overflowed } = self;
        let column = |name: &str| index.get(name).copied();
        let mut times = vec![0_u32; columns.list.len()];
        fields.iter().filter_map(|(name, _)| column(name)).for_each(|at| times[at] += 1);
        let mut row =
            Row { cells: vec![None; columns.list.len()], key: key_field.and_then(column).unwrap_or(usize::MAX) };
        overflow.clear();
        *overflowed = false;
        let mut more = ObjectWriter::new(overflow);
        for (name, value) in &fields {
            let json = value.get();
            if *key_field == Some(name) {
                if !members::is_text(value, key) {
                    return Err(format!("its field `{name}` differs from its key; give another --key-field"));
                }
                continue;
            }
            let found = column(name);
            if *once && found.is_none() && columns.overflow.is_none() {
                continue;
            }
            let fit = match found.map(|at| (at, &columns.list[at].1)) {
                None => Fit::Not,
                // A column would keep only the last of several fields with the same name.
                Some((at, _)) if times[at] > 1 && columns.overflow.is_some() => Fit::Not,
                Some((_, kind)) => fit(kind, json, At::Field, *as_text),
            };
            let in_column = if *once { fit <= Fit::Rewritten } else { fit != Fit::Not };
            if let Some(at) = found.filter(|_| in_column) {
                row.cells[at] = Some(json);
            }
            let lost = match fit {
                Fit::Exact => false,
                // Without an overflow, an equal value is good enough.
                Fit::Rewritten => columns.overflow.is_some() && !*once,
                // An empty cell is read back as null.
                Fit::Not if json == "null" && columns.overflow.is_none() => false,
                Fit::Partly | Fit::Not => true,
            };
            if !lost {
                continue;
            }
            *overflowed = true;
            if columns.overflow.is_none() {
                return Err(why(name, found.map(|at| &columns.list[at].1), json));
            }
            more.add(name, json);
        }
        more.end();
        Ok(row)
    }
}

/// How well a value fits a column of this kind.
fn fit(kind: &Kind, json: &str, at: At, as_text: bool) -> Fit {
    let yes = |is: bool| if is { Fit::Exact } else { Fit::Not };
    if json == "null" {
        return match at {
            _ if as_text => Fit::Exact,
            // Only the overflow distinguishes null from a missing field.
            At::Field => Fit::Not,
            At::Member => Fit::Rewritten,
            At::Item => Fit::Exact,
        };
    }
    let first = json.as_bytes().first().copied().unwrap_or_default();
    let number = first == b'-' || first.is_ascii_digit();
    match kind {
        Kind::Unknown | Kind::Overflow => Fit::Not,
        Kind::Json => Fit::Exact,
        Kind::Boolean => yes(matches!(first, b't' | b'f')),
        Kind::Text => {
            yes(first == b'"' && (!json.contains("\\u") || serde_json::from_str::<Cow<'_, str>>(json).is_ok()))
        }
        Kind::Integer => yes(number && json.parse::<i64>().is_ok_and(|value| value.to_string() == json)),
        Kind::Number if as_text => yes(number),
        Kind::Number => match json.parse::<f64>() {
            Ok(value) if number && value.is_finite() => {
                let mut back = Vec::with_capacity(24);
                write_double(value, &mut back);
                match back == json.as_bytes() {
                    true => Fit::Exact,
                    false if json.bytes().all(|b| b == b'-' || b.is_ascii_digit()) && value.abs() > EXACT => {
                        Fit::Partly
                    }
                    false if value.abs() == EXACT => Fit::Partly,
                    false => Fit::Rewritten,
                }
            }
            _ => Fit::Not,
        },
        Kind::List(_) if as_text => yes(first == b'['),
        Kind::Object(_) if as_text => yes(first == b'{'),
        Kind::List(of) if first == b'[' => match serde_json::from_str::<Vec<&RawValue>>(json) {
            Ok(items) => worst(items.iter().map(|item| fit(of, item.get(), At::Item, false))),
            Err(_) => Fit::Not,
        },
        Kind::Object(known) if first == b'{' => object(known, json),
        Kind::List(_) | Kind::Object(_) => Fit::Not,
    }
}

fn object(known: &[(String, Kind)], json: &str) -> Fit {
    let Ok(members) = members::all(json) else { return Fit::Not };
    let mut seen = vec![false; known.len()];
    worst(members.iter().enumerate().map(|(at, (name, value))| {
        match position(known, name, at) {
            None => Fit::Partly,
            // With several members of one name, the result would depend on the reader.
            Some(found) if std::mem::replace(&mut seen[found], true) => Fit::Not,
            Some(found) => fit(&known[found].1, value.get(), At::Member, false),
        }
    }))
}

fn worst(all: impl Iterator<Item = Fit>) -> Fit {
    let mut worst = Fit::Exact;
    for one in all {
        worst = worst.max(one);
        if worst == Fit::Not {
            break;
        }
    }
    worst
}

/// Why a field does not fit its column.
fn why(name: &str, kind: Option<&Kind>, json: &str) -> String {
    let Some(kind) = kind else {
        return format!("no column for its field `{name}`; see --overflow, --infer and --schema");
    };
    let mut shown: String = json.chars().take(60).collect();
    if shown.len() < json.len() {
        shown.push('…');
    }
    let wanted = match kind {
        Kind::Boolean => "true or false",
        Kind::Integer => "an integer that fits in 64 bits",
        Kind::Number => "a number that a double holds exactly",
        Kind::List(_) => "a list of the column's type",
        Kind::Object(_) => "an object with the column's members",
        Kind::Unknown | Kind::Text | Kind::Json | Kind::Overflow => "a string",
    };
    format!("column `{name}`: {shown} is not {wanted}; see --overflow, --infer and --schema")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns {
        let object = Kind::Object(vec![("x".into(), Kind::Integer), ("y".into(), Kind::Text)]);
        let list = |(name, kind): (&str, Kind)| (name.to_owned(), kind);
        let all = [
            ("_id", Kind::Text),
            ("i", Kind::Integer),
            ("n", Kind::Number),
            ("t", Kind::Text),
            ("l", Kind::List(Box::new(Kind::Number))),
            ("o", object),
        ];
        Columns { list: all.into_iter().map(list).collect(), overflow: Some("_more".into()) }
    }

    fn row(columns: &Columns, json: &str) -> Result<String, String> {
        let mut out = Vec::new();
        Rows::new(columns, Some("_id"), false).object("k", json.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).unwrap().trim_end().replace("\"_id\":\"k\"", ""))
    }

    #[test]
    fn what_a_column_gives_back_as_it_is_stands_there_alone() {
        let columns = columns();
        for json in [
            r#"{"i":-9223372036854775808,"n":18,"t":"\u00e9\n","l":[1,2.5,null],"o":{"x":1}}"#,
            r#"{"n":1.5,"l":[],"o":{}}"#,
            r#"{"n":9007199254740992}"#,
            r#"{"n":-0.0}"#,
            r#"{"n":1e+30}"#,
        ] {
            assert_eq!(row(&columns, json).unwrap().replace("{,", "{"), json);
        }
    }

    #[test]
    fn what_it_would_change_stands_in_the_overflow_too() {
        let columns = columns();
        for json in ["18.0", "1E5", "9007199254740993", "18446744073709551615", "0.12345678901234567890", "-0"] {
            let made = row(&columns, &format!("{{\"n\":{json}}}")).unwrap();
            assert_eq!(made, format!(r#"{{,"n":{json},"_more":"{{\"n\":{json}}}"}}"#));
        }
        let made = row(&columns, r#"{"o":{"x":1,"z":2}}"#).unwrap();
        assert_eq!(made, r#"{,"o":{"x":1,"z":2},"_more":"{\"o\":{\"x\":1,\"z\":2}}"}"#);
    }

    #[test]
    fn what_it_cannot_hold_stands_only_there() {
        let columns = columns();
        for json in [
            r#"{"i":1.0}"#,
            r#"{"i":9223372036854775808}"#,
            r#"{"i":null}"#,
            r#"{"n":1e400}"#,
            r#"{"n":"18"}"#,
            r#"{"t":"\ud800"}"#,
            r#"{"t":{}}"#,
            r#"{"l":[1,"x"]}"#,
            r#"{"o":{"x":1,"x":2}}"#,
            r#"{"o":[]}"#,
            r#"{"new":[{}]}"#,
            r#"{"_more":{"a":1}}"#,
            r#"{"i":1,"i":2}"#,
        ] {
            let made: serde_json::Value =
                serde_json::from_str(&row(&columns, json).unwrap().replace("{,", "{")).unwrap();
            assert_eq!(made["_more"], json, "{json}");
            assert_eq!(made.as_object().unwrap().len(), 1, "{json}");
        }
    }

    #[test]
    fn without_an_overflow_it_is_refused_with_its_reason() {
        let columns = Columns { overflow: None, ..columns() };
        assert_eq!(row(&columns, r#"{"i":null,"n":18.0}"#).unwrap(), r#"{,"n":18.0}"#);
        for (json, part) in [
            (r#"{"i":"seven"}"#, "column `i`: \"seven\" is not an integer"),
            (r#"{"n":9007199254740993}"#, "9007199254740993 is not a number that a double holds exactly"),
            (r#"{"l":[18446744073709551615]}"#, "column `l`"),
            (r#"{"later":1}"#, "no column for its field `later`"),
            (r#"{"o":{"z":1}}"#, "column `o`"),
            (r#"{"_id":"other"}"#, "differs from its key"),
            ("[1]", "not a JSON object"),
        ] {
            let told = row(&columns, json).unwrap_err();
            assert!(told.contains(part), "{told}");
        }
    }
}
