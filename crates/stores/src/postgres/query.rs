//! The rows of a query, through a cursor in a read-only transaction that sees one snapshot.

use std::collections::HashSet;

use storebench_engine::store::{LocalFuture, RowPage, RowStream, StoreError};

use super::channel::Row;
use super::existing::AS_TEXT;
use super::login::{Connected, Target};
use super::wire::{self, Bind};

/// The approximate size of a page.
const PAGE_BYTES: usize = 1 << 20;
/// The number of rows in a page: at first, and at most.
const FIRST: usize = 100;
const MOST: usize = 5_000;

/// A cursor that is open in a transaction, on a separate connection.
pub(super) struct Query {
    target: Target,
    connected: Connected,
    first: bool,
    /// Rows of the next page. `None` at the end.
    rows: Option<usize>,
}

impl Query {
    /// Begins the transaction and opens the cursor. Each row is one JSON object.
    pub(super) async fn open(target: &Target, text: &str) -> Result<Self, StoreError> {
        let mut connected = target.login().await?;
        let text = text.trim_end().trim_end_matches(';');
        let doing = "run the query";
        let settings = format!("{AS_TEXT}; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        target.ask(doing, connected.channel.query(&settings)).await?;
        // Prepared, because preparing takes a single statement: no second one can end the transaction. The line break
        // ends a comment at the end of the text.
        let sql =
            format!("DECLARE storebench_rows NO SCROLL CURSOR FOR SELECT row_to_json(q)::text FROM (\n{text}\n) AS q");
        let mut out = Vec::new();
        wire::parse(&mut out, 0, &sql, &[]);
        Bind::new(&mut out, 0, 0).run();
        let channel = &mut connected.channel;
        channel.send(&out).await.map_err(|lost| target.broke(doing, &lost))?;
        // A query has no timeout: it may have to sort everything before its first row.
        channel.rows().await.map_err(|fault| target.fault(doing, &fault))?;
        Ok(Self { target: target.clone(), connected, first: true, rows: Some(FIRST) })
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        page.clear();
        let Some(wanted) = self.rows else { return Ok(false) };
        let fetch = format!("FETCH {wanted} FROM storebench_rows");
        let fetched = self.connected.channel.query(&fetch).await;
        // Another connection would see another snapshot, so the query cannot continue.
        let broken = |error: StoreError| StoreError::Failed(error.to_string());
        let rows: Vec<Row> =
            fetched.map_err(|fault| broken(self.target.fault("read the rows of the query", &fault)))?;
        let bytes: usize = rows.iter().flatten().flatten().map(String::len).sum();
        let mean = (bytes / rows.len().max(1)).max(1);
        self.rows = (rows.len() == wanted).then(|| (PAGE_BYTES / mean).clamp(1, MOST));
        for json in rows.into_iter().filter_map(|mut row| row.pop().flatten()) {
            if std::mem::take(&mut self.first) {
                check_names(&json)?;
            }
            page.rows.push("", json.as_bytes());
        }
        Ok(true)
    }
}

impl RowStream for Query {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}

/// Refuses two columns with the same name, since a record has only one field with that name.
fn check_names(json: &str) -> Result<(), StoreError> {
    struct Names(HashSet<String>);
    impl<'de> serde::de::Visitor<'de> for Names {
        type Value = Option<String>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(mut self, mut map: A) -> Result<Option<String>, A::Error> {
            let mut twice = None;
            while let Some(name) = map.next_key::<String>()? {
                map.next_value::<serde::de::IgnoredAny>()?;
                if !self.0.insert(name.clone()) {
                    twice.get_or_insert(name);
                }
            }
            Ok(twice)
        }
    }
    let mut parser = serde_json::Deserializer::from_str(json);
    match serde::Deserializer::deserialize_map(&mut parser, Names(HashSet::new())) {
        Ok(Some(name)) => Err(StoreError::NotSupported(format!(
            "two columns of the query are named `{name}`, but a record has only one field with that name; rename one \
             with AS"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_one_name_are_refused() {
        assert!(check_names(r#"{"a":1,"b":{"a":2},"A":3}"#).is_ok());
        assert!(check_names(r#"{"a":1,"b":2,"a":3}"#).unwrap_err().to_string().contains("`a`"));
    }
}
