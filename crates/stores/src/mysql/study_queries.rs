//! Queries of the study: their statements, the values of their parameters, and their rows as JSON.

use std::cell::RefCell;

use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{BinaryProtocol, Column, Params, QueryResult, Row, Value};
use serde_json::Value as Json;
use storebench_documents::json;
use storebench_engine::store::{Batch, Collected, Explanation, OpError, OwnedReply, StoreError};
use storebench_study::workload::{COLLECTION, Language, QueryPart, tokens};

use super::errors::Fault;
use super::figures::explanation;
use super::login::Server;
use super::sql::Table;
use crate::refusals::{not_supported, refused, refused_by_server};

/// A query as a statement.
pub(super) struct Prepared {
    pub(super) sql: String,
    /// The positions of the values, in the order in which the statement takes them.
    order: Vec<usize>,
    columns: RefCell<Vec<Named>>,
}

impl Prepared {
    /// # Errors
    /// *Refused* if it may do anything but read.
    pub(super) fn new(table: &Table, text: &str, values: Batch<'_>) -> Result<Self, OpError> {
        let text = text.trim_end().trim_end_matches(';').replace(COLLECTION, &table.place);
        only_reads(&text).map_err(refused)?;
        let (mut sql, mut order) = (String::with_capacity(text.len()), Vec::new());
        for part in Language::Mysql.parts(&text).map_err(refused)? {
            match part {
                QueryPart::Text(text) => sql.push_str(text),
                QueryPart::Param(name) => {
                    let position = values.iter().position(|(known, _)| known == name);
                    order.push(position.ok_or_else(|| refused(format!("the parameter ${name} has no value")))?);
                    sql.push('?');
                }
            }
        }
        Ok(Self { sql, order, columns: RefCell::default() })
    }

    /// The values of its parameters.
    pub(super) fn values(&self, values: Batch<'_>) -> Vec<Value> {
        let value = |position: &usize| values.get(*position).map_or(Value::NULL, |(_, value)| parameter(value));
        self.order.iter().map(value).collect()
    }

    /// Collects its rows.
    pub(super) async fn collect(
        &self,
        mut result: QueryResult<'_, '_, BinaryProtocol>,
        contents: bool,
    ) -> Result<OwnedReply, Fault> {
        if self.columns.borrow().is_empty() {
            *self.columns.borrow_mut() = named(result.columns_ref());
        }
        let (mut found, mut out) = (Collected::default(), Vec::new());
        found.begin(contents);
        while let Some(row) = result.next().await? {
            out.clear();
            push_row(&self.columns.borrow(), row, &mut out);
            found.add("", &out);
        }
        result.drop_result().await?;
        Ok(found.into_reply())
    }
}

/// Refuses a statement that may write, set, lock or call. A read-only transaction would not stop statements that commit by
/// themselves, as those that make or remove tables do.
pub(super) fn only_reads(sql: &str) -> Result<(), String> {
    const WRITES: [&str; 5] = ["into", "get_lock", "release_lock", "release_all_locks", ";"];
    let tokens = tokens(Language::Mysql, sql)?;
    let is = |token: &str, words: &[&str]| words.iter().any(|word| token.eq_ignore_ascii_case(word));
    let first = tokens.iter().find(|token| **token != "(").copied().unwrap_or_default();
    if !is(first, &["select", "with", "values", "table"]) {
        return Err(format!("a query may only read, and begins with SELECT, WITH or VALUES; found `{first}`"));
    }
    let sets = tokens.windows(2).any(|two| two == [":", "="]);
    match tokens.iter().find(|token| is(token, &WRITES)).copied().or(sets.then_some(":=")) {
        Some(token) => Err(format!("a query is one statement that may only read; remove `{token}`")),
        None => Ok(()),
    }
}

/// The value of a parameter, given as JSON.
pub(super) fn parameter(value: &[u8]) -> Value {
    match serde_json::from_slice::<Json>(value) {
        Ok(Json::Null) => Value::NULL,
        Ok(Json::Bool(is)) => Value::Int(i64::from(is)),
        Ok(Json::Number(number)) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => Value::Int(number),
            (_, Some(number), _) => Value::UInt(number),
            (.., Some(number)) => Value::Double(number),
            _ => Value::Bytes(value.to_vec()),
        },
        Ok(Json::String(text)) => Value::Bytes(text.into_bytes()),
        _ => Value::Bytes(value.to_vec()),
    }
}

/// How the value of a column becomes JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Number,
    Json,
    Text,
}

/// A column of a query's rows.
#[derive(Debug, Clone)]
pub(super) struct Named {
    /// Its name as JSON, and the colon.
    name: Box<[u8]>,
    shape: Shape,
}

/// The columns of rows.
pub(super) fn named(columns: &[Column]) -> Vec<Named> {
    let column = |column: &Column| {
        let mut name = Vec::new();
        json::push_text(&column.name_str(), &mut name);
        name.push(b':');
        let shape = match column.column_type() {
            ColumnType::MYSQL_TYPE_JSON => Shape::Json,
            ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL => Shape::Number,
            _ => Shape::Text,
        };
        Named { name: name.into(), shape }
    };
    columns.iter().map(column).collect()
}

/// Appends a row as JSON. A row with a single column whose text is a JSON object is that object, because MariaDB has no
/// type for JSON; any other row is an object.
pub(super) fn push_row(columns: &[Named], row: Row, out: &mut Vec<u8>) {
    let values = row.unwrap();
    if let [Value::Bytes(text)] = &values[..]
        && text.starts_with(b"{")
        && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
    {
        return out.extend_from_slice(text);
    }
    for (position, (column, value)) in columns.iter().zip(values).enumerate() {
        out.push(if position == 0 { b'{' } else { b',' });
        out.extend_from_slice(&column.name);
        match value {
            Value::NULL => out.extend_from_slice(b"null"),
            Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::UInt(number) => out.extend_from_slice(number.to_string().as_bytes()),
            // As the server rounds it.
            Value::Float(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Double(number) => out.extend_from_slice(Json::from(number).to_string().as_bytes()),
            Value::Bytes(bytes) => match column.shape {
                Shape::Number | Shape::Json => out.extend_from_slice(&bytes),
                Shape::Text => json::push_text(&String::from_utf8_lossy(&bytes), out),
            },
            other => json::push_text(other.as_sql(true).trim_matches('\''), out),
        }
    }
    out.extend_from_slice(if columns.is_empty() { b"{}" } else { b"}" });
}

/// Tries a query in a transaction that may only read.
pub(super) async fn try_it(
    server: &mut Server,
    table: &Table,
    text: &str,
    values: Batch<'_>,
) -> Result<(), StoreError> {
    let prepared = Prepared::new(table, text, values).map_err(not_supported)?;
    let parameters = Params::Positional(prepared.values(values));
    server.query::<Row>("try a query", "START TRANSACTION READ ONLY").await?;
    let tried = server.conn.exec_drop(prepared.sql.as_str(), parameters).await;
    server.query::<Row>("try a query", "ROLLBACK").await?;
    tried.map_err(|error| refused_by_server(server.target.fault("try a query", &error)))
}

/// The plan of a query, which is not executed.
pub(super) async fn explain(
    server: &mut Server,
    table: &Table,
    text: &str,
    values: Batch<'_>,
) -> Result<Explanation, StoreError> {
    let prepared = Prepared::new(table, text, values).map_err(not_supported)?;
    explanation(server, &prepared.sql, prepared.values(values)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use storebench_engine::store::BatchBuf;
    use storebench_study::workload::Body;

    #[test]
    fn parameters_become_values_in_their_order() {
        let table = Table::ours("s", "docs", Body::Json, false, Vec::new());
        let mut values = BatchBuf::new();
        values.push("city", b"\"Lima\"");
        values.push("stars", b"4");
        let text = "select body from {collection} where a->>'$.stars' = $city and n >= $stars or c = $city;";
        let prepared = Prepared::new(&table, text, values.as_batch()).unwrap();
        assert_eq!(prepared.sql, "select body from `s`.`docs` where a->>'$.stars' = ? and n >= ? or c = ?");
        let lima = Value::Bytes(b"Lima".to_vec());
        assert_eq!(prepared.values(values.as_batch()), [lima.clone(), Value::Int(4), lima]);
        assert!(Prepared::new(&table, "select $other", values.as_batch()).is_err());
    }

    #[test]
    fn what_may_write_is_refused() {
        for text in [
            "delete from t",
            "drop table t",
            "select 1 into outfile '/tmp/x'",
            "select @a := 1",
            "select get_lock('x', 1)",
            "/*! drop table t */ select 1",
            "select /*M!100100 1 */ 1",
            "-- select\ninsert into t values (1)",
            "/* select */ set global read_only = 1",
            "",
        ] {
            assert!(only_reads(text).is_err(), "{text}");
        }
        for text in [
            "select 'into', \"drop\", `into`, 'it''s into', 'a\\' into' from t",
            "-- into\nselect 1",
            "# into\n with x as (select 1) select * from x",
            "(select 1) /* into */",
            "select a--1 from t",
        ] {
            assert_eq!(only_reads(text), Ok(()), "{text}");
        }
    }
}
