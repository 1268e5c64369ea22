//! The rows of a query, through a cursor in a read-only transaction that sees one snapshot.

use storebench_engine::store::{BadRow, LocalFuture, RowPage, RowStream, StoreError};

use super::channel::{Fault, Lost, Row};
use super::existing::AS_TEXT;
use super::login::{Connected, Target};
use super::sql::{identifier, literal};
use super::study_queries;
use super::wire::{self, Bind, ServerError};
use crate::study_queries::check_names;

const DOING: &str = "run the query";
/// The approximate size of a page.
const PAGE_BYTES: usize = 1 << 20;
/// The number of rows in a page: at first, and at most.
const FIRST: usize = 100;
const MOST: usize = 5_000;

/// A cursor that is open in a transaction, on a separate connection.
pub(super) struct Query {
    server: Connected,
    /// Rows that were read.
    number: u64,
    /// Rows of the next page. `None` at the end.
    rows: Option<usize>,
}

impl Query {
    /// Begins the transaction and opens the cursor. Each row is one JSON object.
    pub(super) async fn open(target: &Target, text: &str) -> Result<Self, StoreError> {
        let mut server = target.login().await?;
        let text = text.trim_end().trim_end_matches(';');
        let settings = format!("{AS_TEXT}; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        target.ask(DOING, server.channel.query(&settings)).await?;
        // Prepared, because preparing takes a single statement: no second one can end the transaction. The line break
        // ends a comment at the end of the text.
        let columns = columns(&mut server, text).await?;
        check_names(columns.iter().map(|(name, _)| &**name))?;
        let selected = selected(&columns);
        let sql = format!("DECLARE storebench_rows NO SCROLL CURSOR FOR SELECT {selected} FROM (\n{text}\n) AS q");
        let mut out = Vec::new();
        wire::parse(&mut out, 0, &sql, &[]);
        Bind::new(&mut out, 0, 0).run();
        server.channel.send(&out).await.map_err(|lost| target.broke(DOING, &lost))?;
        // A query has no timeout: it may have to sort everything before its first row.
        server.channel.rows().await.map_err(|failed| fault(target, DOING, &failed))?;
        Ok(Self { server, number: 0, rows: Some(FIRST) })
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        page.clear();
        let Some(wanted) = self.rows else { return Ok(false) };
        let fetch = format!("FETCH {wanted} FROM storebench_rows");
        let fetched = self.server.channel.query(&fetch).await;
        // Another connection would see another snapshot, so the query cannot continue.
        let rows: Vec<Row> =
            fetched.map_err(|failed| match fault(&self.server.target, "read the rows of the query", &failed) {
                writes @ StoreError::NotSupported(_) => writes,
                error => StoreError::Failed(error.to_string()),
            })?;
        let bytes: usize = rows.iter().flatten().flatten().map(String::len).sum();
        let mean = (bytes / rows.len().max(1)).max(1);
        self.rows = (rows.len() == wanted).then(|| (PAGE_BYTES / mean).clamp(1, MOST));
        for row in rows {
            self.number += 1;
            let mut row = row.into_iter().flatten();
            let Some(json) = row.next() else { continue };
            match row.next().filter(|wrong| !wrong.is_empty()) {
                None => page.rows.push("", json.as_bytes()),
                Some(wrong) => {
                    let why = format!("its column {wrong} is NaN or infinite, which JSON cannot express");
                    page.bad.push(BadRow::of(format!("row {}", self.number).as_bytes(), why));
                }
            }
        }
        Ok(true)
    }
}

impl RowStream for Query {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}

/// What a query returns: its columns and their types.
async fn columns(server: &mut Connected, text: &str) -> Result<Vec<(String, u32)>, StoreError> {
    let (target, channel) = (&server.target, &mut server.channel);
    let mut out = Vec::new();
    wire::parse(&mut out, 1, &format!("SELECT * FROM (\n{text}\n) AS q"), &[]);
    wire::describe(&mut out, 1);
    wire::sync(&mut out);
    let broke = |lost: Lost| target.broke(DOING, &lost);
    channel.send(&out).await.map_err(broke)?;
    let mut described = Ok(Vec::new());
    loop {
        match channel.receive().await.map_err(broke)? {
            (b'T', body) => described = study_queries::described(body).map_err(|garbled| broke(garbled.into())),
            (b'E', body) => {
                let error = ServerError::read(body);
                if error.ends_connection() {
                    return Err(fault(target, DOING, &Fault::Server(error)));
                }
                described = Err(fault(target, DOING, &Fault::Server(error)));
            }
            (b'Z', _) => return described,
            _ => {}
        }
    }
}

/// Each row as one JSON object. If there are columns whose values JSON may not be able to express, also the names of those
/// for which that is so.
fn selected(columns: &[(String, u32)]) -> String {
    // float4, float8 and numeric, and arrays of them.
    let may_be_infinite = |oid: u32| matches!(oid, 700 | 701 | 1700 | 1021 | 1022 | 1231);
    let wrong = |name: &str| {
        format!("CASE WHEN q.{}::text ~ '(NaN|Infinity)' THEN {} END", identifier(name), literal(&format!("`{name}`")))
    };
    let names: Vec<String> =
        columns.iter().filter(|(_, oid)| may_be_infinite(*oid)).map(|(name, _)| wrong(name)).collect();
    match names.is_empty() {
        true => "row_to_json(q)::text".to_owned(),
        false => format!("row_to_json(q)::text, concat_ws(', ', {})", names.join(", ")),
    }
}

/// The error of a query. It runs in a transaction that may only read.
fn fault(target: &Target, doing: &str, fault: &Fault) -> StoreError {
    match fault {
        Fault::Server(error) if error.code == "25006" => StoreError::NotSupported(format!(
            "{}: the query writes ({error}), but a query of a copy may only read; use a SELECT that changes nothing",
            target.place()
        )),
        fault => target.fault(doing, fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_columns_that_may_be_infinite_are_looked_at() {
        assert_eq!(selected(&[("a".into(), 25), ("n".into(), 23)]), "row_to_json(q)::text");
        let sql = selected(&[("a\"b".into(), 701), ("n".into(), 23), ("it's".into(), 1022)]);
        assert!(sql.contains(r#"q."a""b"::text"#) && sql.contains("'`it''s`'") && !sql.contains(r#""n""#), "{sql}");
    }
}
