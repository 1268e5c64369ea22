//! Queries of the study: their statements, the values of their parameters, and their rows as JSON.

use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{Column as Described, Params, Row, Value};
use serde_json::Value as Json;
use storebench_documents::json;
use storebench_engine::store::{Batch, Collected, Explanation, OpError, StoreError};
use storebench_study::workload::{Language, tokens};

use super::figures::explanation;
use super::login::Server;
use super::session::Done;
use super::sql::Table;
use crate::refusals::{not_supported, refused, refused_by_server};
use crate::study_queries::{Column, Shape, end_row, is_object, sql};

/// A query as a statement.
pub(super) struct Prepared {
    pub(super) sql: String,
    /// The positions of the values, in the order in which the statement takes them.
    order: Vec<usize>,
}

impl Prepared {
    /// # Errors
    /// *Refused* if it may do anything but read.
    pub(super) fn new(table: &Table, text: &str, values: Batch<'_>) -> Result<Self, OpError> {
        let mut order = Vec::new();
        let sql = sql(Language::Mysql, text, &table.place, values, |position| {
            order.push(position);
            "?".into()
        })?;
        only_reads(&sql).map_err(refused)?;
        Ok(Self { sql, order })
    }

    /// The values of its parameters.
    pub(super) fn values(&self, values: Batch<'_>) -> Vec<Value> {
        let value = |position: &usize| values.get(*position).map_or(Value::NULL, |(_, value)| parameter(value));
        self.order.iter().map(value).collect()
    }
}

/// Collects the rows of a query.
pub(super) fn collect(found: &mut Collected, done: Done) {
    let (columns, mut out) = (columns(done.columns.as_deref().unwrap_or_default()), Vec::new());
    for row in done.rows {
        out.clear();
        push_row(&columns, row, &mut out);
        found.add("", &out);
    }
}

/// Refuses a statement that may write, set, lock or call. A read-only transaction would not stop statements that commit by
/// themselves, as those that make or remove tables do.
pub(super) fn only_reads(sql: &str) -> Result<(), String> {
    const WRITES: [&str; 7] = ["into", "get_lock", "release_lock", "release_all_locks", "nextval", "setval", ";"];
    const PAIRS: [[&str; 2]; 5] =
        [[":", "="], ["next", "value"], ["for", "update"], ["for", "share"], ["share", "mode"]];
    let tokens = tokens(Language::Mysql, sql)?;
    let is = |token: &str, words: &[&str]| words.iter().any(|word| token.eq_ignore_ascii_case(word));
    let first = tokens.iter().find(|token| **token != "(").copied().unwrap_or_default();
    if !is(first, &["select", "with", "values", "table"]) {
        return Err(format!("a query may only read, and begins with SELECT, WITH or VALUES; found `{first}`"));
    }
    let word = tokens.iter().find(|token| is(token, &WRITES)).map(|token| (*token).to_owned());
    let writes = |two: &&[&str]| PAIRS.iter().any(|pair| is(two[0], &pair[..1]) && is(two[1], &pair[1..]));
    match word.or_else(|| tokens.windows(2).find(writes).map(|two| two.join(" "))) {
        Some(word) => Err(format!("a query is one statement that may only read; remove `{word}`")),
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

/// The columns of rows.
pub(super) fn columns(described: &[Described]) -> Vec<Column> {
    let shape = |column: &Described| match column.column_type() {
        ColumnType::MYSQL_TYPE_JSON => Shape::Json,
        ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL => Shape::Number,
        _ => Shape::Text,
    };
    described.iter().map(|column| Column::new(&column.name_str(), shape(column))).collect()
}

/// Appends a row as JSON. A row with a single column whose text is a JSON object is that object, because MariaDB has no
/// type for JSON; any other row is an object.
pub(super) fn push_row(columns: &[Column], row: Row, out: &mut Vec<u8>) {
    let (described, values) = (row.columns(), row.unwrap());
    if let [Value::Bytes(text)] = &values[..]
        && is_object(text)
    {
        return out.extend_from_slice(text);
    }
    for (position, (column, value)) in columns.iter().zip(values).enumerate() {
        column.begin(position, out);
        match value {
            Value::NULL => column.push(None, out),
            Value::Bytes(bytes) => column.push(Some(&bytes), out),
            // As the server rounds it.
            Value::Float(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Double(number) => out.extend_from_slice(Json::from(number).to_string().as_bytes()),
            Value::Int(_) | Value::UInt(_) => out.extend_from_slice(value.as_sql(true).as_bytes()),
            Value::Date(..) | Value::Time(..) => json::push_text(&time_text(&value, &described[position]), out),
        }
    }
    end_row(columns, out);
}

/// A date or a time as the server writes it as text.
fn time_text(value: &Value, column: &Described) -> String {
    let (text, micros) = match *value {
        Value::Date(year, month, day, ..) if column.column_type() == ColumnType::MYSQL_TYPE_DATE => {
            return format!("{year:04}-{month:02}-{day:02}");
        }
        Value::Date(year, month, day, hour, minute, second, micros) => {
            (format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}"), micros)
        }
        Value::Time(negative, days, hours, minutes, seconds, micros) => {
            let (sign, hours) = (if negative { "-" } else { "" }, days * 24 + u32::from(hours));
            (format!("{sign}{hours:02}:{minutes:02}:{seconds:02}.{micros:06}"), micros)
        }
        _ => return value.as_sql(true),
    };
    let cut = match column.decimals() {
        known @ 1..=6 => 6 - usize::from(known),
        // More than 6 stand for as many as there are.
        7.. if micros > 0 => 0,
        _ => ".000000".len(),
    };
    text[..text.len() - cut].to_owned()
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
            "select nextval(s)",
            "select SetVal(s, 7)",
            "select next value for s",
            "select * from t for update",
            "select * from t lock in share mode",
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
            "select lastval(s), `nextval`, value as next from t",
        ] {
            assert_eq!(only_reads(text), Ok(()), "{text}");
        }
    }
}
