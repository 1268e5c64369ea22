//! Queries of the study: prepared once, with values bound by name, and rows as JSON.

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::types::ValueRef;
use rusqlite::{Batch as Statements, Connection, Row, Statement};
use storebench_documents::json;
use storebench_engine::store::{Batch, Collected, ErrorKind, OpError};
use storebench_study::workload::COLLECTION;

use super::errors::{is_of_sql, op_error};
use super::query;
use super::sql::Table;
use super::statements::{Bound, Prepared};
use crate::refusals::refused;

/// A query that a session has prepared.
pub(super) struct Asked {
    /// The position of its statement.
    pub(super) statement: usize,
    /// For each parameter of the statement, the position of its value.
    pub(super) values: Vec<usize>,
    /// The names of its columns as JSON.
    pub(super) columns: Vec<Vec<u8>>,
}

/// The SQL of a query.
pub(super) fn sql(table: &Table, text: &str) -> String {
    text.replace(COLLECTION, &table.name)
}

/// The error of a query. One that SQLite cannot compile is refused.
pub(super) fn error(error: &rusqlite::Error) -> OpError {
    let meaning = op_error(error);
    if is_of_sql(error) { refused(meaning.message.into_owned()) } else { meaning }
}

/// Prepares a query. Refuses one that writes.
pub(super) fn prepare(prepared: &mut Prepared, table: &Table, text: &str, values: Batch<'_>) -> Result<Asked, OpError> {
    let sql = sql(table, text);
    // Some pragmas and other statements have an effect as soon as they are prepared.
    if !matches!(first_word(&sql).as_str(), "select" | "with" | "values") {
        return Err(refused(
            "the query does not begin with SELECT, WITH or VALUES, but it may only read; use a SELECT",
        ));
    }
    check_single(prepared.connection(), &sql)?;
    let position = prepared.reserve(1);
    let statement = prepared.get(position, || sql).map_err(|e| error(&e))?;
    read(position, statement, values)
}

/// The first word, in lower case, after any comments.
fn first_word(sql: &str) -> String {
    let mut rest = sql.trim_start();
    loop {
        let end = match rest.get(..2) {
            Some("--") => rest.find('\n'),
            Some("/*") => rest.find("*/").map(|end| end + 1),
            _ => break,
        };
        rest = end.map_or("", |end| &rest[end + 1..]).trim_start();
    }
    rest.chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase()
}

/// Refuses a text that is not exactly one statement.
pub(super) fn check_single(connection: &Connection, sql: &str) -> Result<(), OpError> {
    let mut statements = Statements::new(connection, sql);
    if statements.next().map_err(|e| error(&e))?.is_none() {
        return Err(refused("the query is empty"));
    }
    match statements.next() {
        Ok(None) => Ok(()),
        _ => Err(refused("the query has more than one statement; use only one")),
    }
}

/// Refuses a statement that writes or returns no rows, and finds the value of each of its parameters.
fn read(position: usize, statement: &Statement<'_>, values: Batch<'_>) -> Result<Asked, OpError> {
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(refused("the query writes or returns no rows, but it may only read; use a SELECT"));
    }
    let mut places = Vec::new();
    for number in 1..=statement.parameter_count() {
        let name = statement.parameter_name(number).unwrap_or("?");
        let place = values.iter().position(|(known, _)| name.strip_prefix('$') == Some(known));
        places.push(place.ok_or_else(|| refused(format!("the parameter {name} has no value")))?);
    }
    let columns = statement.column_names().map(|name| serde_json::to_vec(name).unwrap_or_default()).collect();
    Ok(Asked { statement: position, values: places, columns })
}

/// Binds a value, which is given as JSON.
pub(super) fn bind(statement: &mut Statement<'static>, position: usize, value: &[u8]) -> Result<(), OpError> {
    let decoded;
    let bound = match value {
        b"null" => Bound::Null,
        b"true" => Bound::Integer(1),
        b"false" => Bound::Integer(0),
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => Bound::Text(inner),
        [b'"', ..] => {
            decoded = json::text(value).unwrap_or_default();
            Bound::Text(decoded.as_bytes())
        }
        number => {
            let text = std::str::from_utf8(number).unwrap_or_default();
            match (text.parse(), text.parse()) {
                (Ok(whole), _) => Bound::Integer(whole),
                (_, Ok(real)) => Bound::Real(real),
                _ => Bound::Text(value),
            }
        }
    };
    statement.raw_bind_parameter(position, bound).map_err(|e| error(&e))
}

/// Steps through the rows of a query.
pub(super) fn collect(
    statement: &mut Statement<'static>,
    columns: &[Vec<u8>],
    found: &mut Collected,
    scratch: &mut Vec<u8>,
) -> Result<(), OpError> {
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|e| error(&e))? {
        scratch.clear();
        if found.contents() {
            push_row(row, columns, scratch)?;
        }
        found.add_measured(b"", bytes(row, columns.len()), scratch);
    }
    Ok(())
}

/// The bytes of a row's values.
fn bytes(row: &Row<'_>, columns: usize) -> u64 {
    let of = |column| match row.get_ref(column) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.len() as u64,
        Ok(ValueRef::Integer(_) | ValueRef::Real(_)) => 8,
        _ => 0,
    };
    (0..columns).map(of).sum()
}

/// Appends a row as JSON. A single column that looks like JSON is the row; any other row is an object.
fn push_row(row: &Row<'_>, columns: &[Vec<u8>], out: &mut Vec<u8>) -> Result<(), OpError> {
    if let ([_], Ok(ValueRef::Text(text))) = (columns, row.get_ref(0))
        && (text.starts_with(b"{") || text.starts_with(b"["))
    {
        out.extend_from_slice(text);
        return Ok(());
    }
    query::push_row(row, columns, out).map_err(|why| OpError::new(ErrorKind::Failed, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_found_behind_comments() {
        for text in ["SELECT 1", " -- a\n/* b */ select 1", "/* */--\n\nSelect(1)"] {
            assert_eq!(first_word(text), "select", "{text}");
        }
        for text in ["pragma x", "-- select", "/* select", "", "é"] {
            assert_ne!(first_word(text), "select", "{text}");
        }
    }
}
