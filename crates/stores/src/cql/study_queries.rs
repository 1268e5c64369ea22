//! Queries of the study: their statements, the values of their parameters, and their rows as JSON.

use std::borrow::Cow;

use scylla::frame::response::result::ColumnType::{self, Native};
use scylla::frame::response::result::{ColumnSpec, NativeType as Type};
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::prepared::PreparedStatement;
use serde_json::Value;
use storebench_engine::store::{Batch, Collected, ErrorKind, OpError, OwnedReply, StoreError};
use storebench_study::workload::{Language, tokens};

use super::errors::{Writes, of_preparing, op_error};
use super::link::Link;
use super::operations::rows_of;
use super::table::{Table, column_of, term};
use super::values::Bound;
use crate::refusals::{not_supported, refused};
use crate::study_queries::{Column, Shape, check_names, end_row, is_object, sql};

/// A query as a statement whose rows have one column, a text.
pub(super) struct Prepared {
    pub(super) statement: PreparedStatement,
    /// For each marker, the position of its value, and as what it is sent.
    markers: Vec<(usize, Sent)>,
    column: Column,
}

/// As what the value of a parameter is sent.
#[derive(Debug)]
enum Sent {
    /// What the column of an indexed field has.
    Term,
    /// The argument of `from_json()`.
    Json,
    As(ColumnType<'static>),
}

impl Prepared {
    /// # Errors
    /// *Refused* if it may do anything but read, or if the server refuses it.
    pub(super) async fn new(link: &Link, table: &Table, text: &str, values: Batch<'_>) -> Result<Self, OpError> {
        let mut order = Vec::new();
        let mut cql = sql(Language::Cassandra, text, &table.place(), values, |position| {
            order.push(position);
            "?".into()
        })?;
        // A comment at the end needs the end of its line.
        cql.push('\n');
        let selected = after_select(&cql)?;
        let prepare = async |cql: &str| {
            let prepared = link.session.prepare(cql).await;
            prepared.map_err(|error| op_error(Writes::No, &of_preparing(error)))
        };
        let mut statement = prepare(&cql).await?;
        // The server makes JSON of any other columns.
        let is_text = |column: &ColumnSpec<'_>| matches!(column.typ(), Native(Type::Text | Type::Ascii));
        if !matches!(statement.get_current_result_set_col_specs().get().as_slice(), [only] if is_text(only)) {
            check_columns(statement.get_current_result_set_col_specs().get().as_slice())?;
            statement = prepare(&format!("SELECT JSON{selected}")).await?;
        }
        let columns = statement.get_current_result_set_col_specs();
        let column = Column::new(columns.get().iter().next().map_or("", ColumnSpec::name), Shape::Text);
        let sent = statement.get_variable_col_specs().iter().map(|marker| sent(marker, table));
        let markers = order.into_iter().zip(sent).collect();
        Ok(Self { statement, markers, column })
    }

    /// The values of its parameters.
    pub(super) fn values(&self, values: Batch<'_>) -> Result<Vec<Bound<'static>>, OpError> {
        let value = |position: usize| values.get(position).map_or(&b"null"[..], |(_, value)| value);
        self.markers.iter().map(|(position, sent)| bound(value(*position), sent)).collect()
    }

    /// The reply with these rows.
    pub(super) fn collect(&self, rows: &QueryRowsResult, contents: bool) -> Result<OwnedReply, OpError> {
        let (mut found, mut out) = (Collected::default(), Vec::new());
        found.begin(contents);
        for row in rows_of(rows)? {
            match row?.first().and_then(|cell| cell.0) {
                Some(text) if is_object(text) => found.add("", text),
                text => {
                    out.clear();
                    self.column.begin(0, &mut out);
                    self.column.push(text, &mut out);
                    end_row(std::slice::from_ref(&self.column), &mut out);
                    found.add("", &out);
                }
            }
        }
        Ok(found.into_reply())
    }
}

/// Refuses names of columns that the server's JSON would not have as they are.
fn check_columns(columns: &[ColumnSpec<'_>]) -> Result<(), OpError> {
    check_names(columns.iter().map(ColumnSpec::name)).map_err(|error| refused(error.to_string()))?;
    match columns.iter().map(ColumnSpec::name).find(|name| name.bytes().any(|byte| byte.is_ascii_uppercase())) {
        None => Ok(()),
        Some(name) => Err(refused(format!(
            "Cassandra writes a name with capitals into JSON with quotes in it; rename the column `{name}` with AS, such as \
             AS {}",
            name.to_ascii_lowercase()
        ))),
    }
}

/// What follows the `SELECT` of a query. CQL has no other statement that reads, and a statement cannot contain another.
fn after_select(cql: &str) -> Result<&str, OpError> {
    let first = tokens(Language::Cassandra, cql).map_err(refused)?.first().copied().unwrap_or_default();
    if !first.eq_ignore_ascii_case("select") {
        return Err(refused(format!("a query may only read, and begins with SELECT; found `{first}`")));
    }
    Ok(&cql[first.as_ptr() as usize - cql.as_ptr() as usize + first.len()..])
}

/// As what a marker takes its value.
fn sent(marker: &ColumnSpec<'static>, table: &Table) -> Sent {
    let name = marker.name();
    // Cassandra names it `arg0(system.from_json)`.
    if name.starts_with("arg0(") && name.contains("json") {
        return Sent::Json;
    }
    let is_field = table.fields.iter().any(|field| column_of(field) == name);
    if is_field { Sent::Term } else { Sent::As(marker.typ().clone()) }
}

/// A value, given as JSON.
fn bound(value: &[u8], sent: &Sent) -> Result<Bound<'static>, OpError> {
    fn whole<T: TryFrom<i64>, const N: usize>(json: &Value, bytes: fn(T) -> [u8; N]) -> Option<Vec<u8>> {
        Some(bytes(T::try_from(json.as_i64()?).ok()?).to_vec())
    }
    let json: Value = serde_json::from_slice(value).unwrap_or_default();
    let bytes = match sent {
        Sent::Json => Some(value.to_vec()),
        Sent::Term => term(value),
        Sent::As(_) if json.is_null() => return Ok(Bound::Null),
        Sent::As(Native(Type::Text | Type::Ascii)) => json.as_str().map(|text| text.as_bytes().to_vec()),
        Sent::As(Native(Type::Boolean)) => json.as_bool().map(|is| vec![u8::from(is)]),
        Sent::As(Native(Type::TinyInt)) => whole(&json, i8::to_be_bytes),
        Sent::As(Native(Type::SmallInt)) => whole(&json, i16::to_be_bytes),
        Sent::As(Native(Type::Int)) => whole(&json, i32::to_be_bytes),
        Sent::As(Native(Type::BigInt | Type::Counter)) => whole(&json, i64::to_be_bytes),
        Sent::As(Native(Type::Float)) => json.as_f64().map(|number| (number as f32).to_be_bytes().to_vec()),
        Sent::As(Native(Type::Double)) => json.as_f64().map(|number| number.to_be_bytes().to_vec()),
        Sent::As(_) => None,
    };
    bytes.map(|bytes| Bound::Bytes(Cow::Owned(bytes))).ok_or_else(|| {
        refused(format!(
            "the value {json} of a parameter cannot be sent as {sent:?}; texts, numbers and booleans can, and other \
             types as from_json($…)"
        ))
    })
}

/// Tries a query.
pub(super) async fn try_it(link: &Link, table: &Table, text: &str, values: Batch<'_>) -> Result<(), StoreError> {
    let tried = async {
        let query = Prepared::new(link, table, text, values).await?;
        let answer = link.session.execute_unpaged(&query.statement, query.values(values)?.as_slice()).await;
        answer.map(drop).map_err(|error| op_error(Writes::No, &error))
    };
    tried.await.map_err(|error: OpError| match error.kind {
        ErrorKind::Refused => not_supported(error),
        _ => StoreError::Unreachable(format!("{}: cannot try a query: {error}", link.place)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_select_is_refused() {
        for cql in ["delete from t", "-- select\ndelete from t", "// select\nuse x", "begin batch", ""] {
            assert!(after_select(cql).is_err(), "{cql}");
        }
        assert_eq!(after_select("/* select */ SELECT* from t").unwrap(), "* from t");
    }

    #[test]
    fn values_have_the_width_of_their_type() {
        let of = |value: &[u8], native| match bound(value, &Sent::As(Native(native))) {
            Ok(Bound::Bytes(bytes)) => Some(bytes.into_owned()),
            _ => None,
        };
        assert_eq!(of(b"-2", Type::Int).unwrap(), [255, 255, 255, 254]);
        assert_eq!(of(b"-128", Type::TinyInt).unwrap(), [128]);
        assert_eq!(of(b"128", Type::TinyInt), None);
        assert_eq!(of(b"1", Type::BigInt).unwrap(), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(of(b"1.5", Type::Int), None);
        assert_eq!(of(b"1", Type::Text), None);
        assert_eq!(of(b"1.5", Type::Float).unwrap(), 1.5_f32.to_be_bytes());
        assert_eq!(of(b"true", Type::Boolean).unwrap(), [1]);
        assert!(matches!(bound(b"null", &Sent::As(Native(Type::Int))), Ok(Bound::Null)));
        assert!(bound(b"{}", &Sent::Term).is_err());
    }
}
