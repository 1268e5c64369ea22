//! Queries of the study: their statements, the values of their parameters, and their rows as JSON.

use storebench_documents::json;
use storebench_engine::store::{Batch, ErrorKind, Explanation, OpError, StoreError};
use storebench_study::workload::Language;

use super::channel::Fault;
use super::errors::op_error;
use super::figures::explanation;
use super::login::{Connected, Target};
use super::sql::{Table, literal};
use super::wire::{self, Bind, Columns, Garbled};
use crate::refusals::not_supported;
use crate::study_queries::{self, Column, Shape, end_row};

/// The statement of a query. Its parameters are numbered in the order of their values.
pub(super) fn statement(table: &Table, text: &str, values: Batch<'_>) -> Result<String, OpError> {
    study_queries::sql(Language::Postgres, text, &table.place, values, |position| format!("${}", position + 1))
}

/// Adds the value of a parameter, given as JSON, as text that the server reads as the type that it has inferred.
pub(super) fn bind<'o>(bind: Bind<'o>, value: &[u8]) -> Bind<'o> {
    match value {
        b"null" => bind.null(),
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => bind.bytes(inner),
        [b'"', ..] => bind.bytes(json::text(value).unwrap_or_default().as_bytes()),
        other => bind.bytes(other),
    }
}

/// Reads the names and types of a RowDescription.
pub(super) fn described(body: &[u8]) -> Result<Vec<(String, u32)>, Garbled> {
    let (count, mut rest) = body.split_first_chunk::<2>().ok_or(Garbled)?;
    let mut all = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let end = rest.iter().position(|byte| *byte == 0).ok_or(Garbled)?;
        // Of the 18 bytes after the name, the type is at 6.
        let facts = rest.get(end + 1..end + 19).ok_or(Garbled)?;
        let oid = u32::from_be_bytes([facts[6], facts[7], facts[8], facts[9]]);
        all.push((String::from_utf8_lossy(&rest[..end]).into_owned(), oid));
        rest = &rest[end + 19..];
    }
    Ok(all)
}

/// Reads a RowDescription.
pub(super) fn columns(body: &[u8]) -> Result<Vec<Column>, Garbled> {
    let column = |(text, oid): (String, u32)| {
        let shape = match oid {
            16 => Shape::Bool,
            // int8, int2, int4, oid, float4, float8, numeric
            20 | 21 | 23 | 26 | 700 | 701 | 1700 => Shape::Number,
            114 | wire::oid::JSONB => Shape::Json,
            _ => Shape::Text,
        };
        Column::new(&text, shape)
    };
    Ok(described(body)?.into_iter().map(column).collect())
}

/// Appends a row as JSON. A row with a single JSON column is that value; any other row is an object.
pub(super) fn push_row(columns: &[Column], mut values: Columns<'_>, out: &mut Vec<u8>) -> Result<(), Garbled> {
    if let [Column { shape: Shape::Json, .. }] = columns {
        out.extend_from_slice(values.next()?.unwrap_or(b"null"));
        return Ok(());
    }
    for (position, column) in columns.iter().enumerate() {
        column.begin(position, out);
        column.push(values.next()?, out);
    }
    end_row(columns, out);
    Ok(())
}

/// Tries a query in a transaction that may only read.
pub(super) async fn try_it(
    server: &mut Connected,
    table: &Table,
    text: &str,
    values: Batch<'_>,
) -> Result<(), StoreError> {
    let refused = |target: &Target, fault: Fault| match fault {
        Fault::Server(error) if error.code == "25006" => {
            StoreError::NotSupported(format!("{error}; a query may only read: use another operation to write"))
        }
        Fault::Server(error) if op_error(&error).kind == ErrorKind::Refused => {
            StoreError::NotSupported(error.to_string())
        }
        fault => target.fault("try a query", &fault),
    };
    let (prepare, given) = prepared(server, table, text, values, refused).await?;
    // A query that changes the session's settings would change what is measured afterwards.
    if text.to_ascii_lowercase().contains("set_config") {
        return Err(StoreError::NotSupported("a query may not change settings; remove set_config".into()));
    }
    let execute = format!("EXECUTE storebench_tried{given}");
    for sql in ["BEGIN TRANSACTION READ ONLY", &prepare, &execute, "ROLLBACK; DEALLOCATE storebench_tried"] {
        server.channel.query(sql).await.map_err(|fault| refused(&server.target, fault))?;
    }
    Ok(())
}

/// The plan of a query, which is not executed.
pub(super) async fn explain(
    server: &mut Connected,
    table: &Table,
    text: &str,
    values: Batch<'_>,
) -> Result<Explanation, StoreError> {
    let doing = "explain a query";
    let fault = |target: &Target, fault: Fault| target.fault(doing, &fault);
    let (prepare, given) = prepared(server, table, text, values, fault).await?;
    server.query(doing, &prepare).await?;
    let rows = server.query(doing, &format!("EXPLAIN EXECUTE storebench_tried{given}")).await?;
    server.query(doing, "DEALLOCATE storebench_tried").await?;
    Ok(explanation(rows))
}

/// The texts that prepare a query and give its values. Refuses more than one statement, since a second one could end
/// the transaction.
async fn prepared(
    server: &mut Connected,
    table: &Table,
    text: &str,
    values: Batch<'_>,
    fault: impl Fn(&Target, Fault) -> StoreError,
) -> Result<(String, String), StoreError> {
    let sql = statement(table, text, values).map_err(not_supported)?;
    let (target, channel) = (&server.target, &mut server.channel);
    // The protocol prepares a single statement only.
    let mut out = Vec::new();
    wire::parse(&mut out, 0, &sql, &[]);
    wire::sync(&mut out);
    channel.send(&out).await.map_err(|lost| target.broke("try a query", &lost))?;
    channel.rows().await.map_err(|failed| fault(target, failed))?;
    let given: Vec<String> = values.iter().map(|(_, value)| shown(value)).collect();
    let given = if given.is_empty() { String::new() } else { format!(" ({})", given.join(", ")) };
    // The line break ends a comment at the end of the text.
    Ok((format!("PREPARE storebench_tried AS {sql}\n"), given))
}

/// A value as an SQL literal.
fn shown(value: &[u8]) -> String {
    match value {
        b"null" => "NULL".into(),
        [b'"', ..] => literal(&json::text(value).unwrap_or_default()),
        other => literal(&String::from_utf8_lossy(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storebench_engine::store::BatchBuf;
    use storebench_study::workload::Body;

    #[test]
    fn parameters_become_positions_and_the_collection_its_table() {
        let table = Table::ours("s", "docs", Body::Json, false);
        let mut values = BatchBuf::new();
        values.push("city", b"\"Lima\"");
        values.push("stars", b"4");
        let sql = "select doc from {collection} where doc->>'$stars' = $city and n >= $stars or c = $city;";
        let sql = statement(&table, sql, values.as_batch()).unwrap();
        assert_eq!(sql, "select doc from \"s\".\"docs\" where doc->>'$stars' = $1 and n >= $2 or c = $1");
        assert!(statement(&table, "select $other", values.as_batch()).is_err());
    }

    #[test]
    fn rows_become_json() {
        let described = |columns: &[(&str, u32)]| {
            let mut body = (columns.len() as u16).to_be_bytes().to_vec();
            for (name, oid) in columns {
                body.extend_from_slice(name.as_bytes());
                body.extend_from_slice(&[0; 7]);
                body.extend_from_slice(&oid.to_be_bytes());
                body.extend_from_slice(&[0; 8]);
            }
            super::columns(&body).unwrap()
        };
        let row = |columns: &[Column], values: &[Option<&str>]| {
            let mut body = (values.len() as u16).to_be_bytes().to_vec();
            for value in values {
                match value {
                    Some(text) => wire::put(&mut body, text.as_bytes()),
                    None => body.extend_from_slice(&(-1i32).to_be_bytes()),
                }
            }
            let mut out = Vec::new();
            push_row(columns, Columns::of(&body).unwrap(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let document = described(&[("doc", wire::oid::JSONB)]);
        assert_eq!(row(&document, &[Some("{\"a\": 1}")]), "{\"a\": 1}");
        assert_eq!(row(&document, &[None]), "null");
        let several = described(&[("city", 25), ("n", 20), ("mean", 1700), ("ok", 16), ("doc", 114)]);
        assert_eq!(
            row(&several, &[Some("a\"b"), Some("-7"), Some("NaN"), Some("t"), Some("[1]")]),
            r#"{"city":"a\"b","n":-7,"mean":"NaN","ok":true,"doc":[1]}"#
        );
        assert_eq!(row(&several[..2], &[None, None]), r#"{"city":null,"n":null}"#);
        assert!(super::columns(b"\0\x01a").is_err() && super::columns(b"\0\x01a\0abc").is_err());
    }
}
