//! Pages and key ranges, through the query service (SQL++).
//!
//! Values are named parameters, so that a statement is planned once and then executed by its name.

use std::time::Duration;

use couchbase::options::query_options::{QueryOptions, ScanConsistency};
use couchbase::scope::Scope;
use futures_util::TryStreamExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use storebench_engine::store::{Batch, ErrorKind, Explanation, Op, OpError, StoreError};
use storebench_study::workload::COLLECTION;

use super::errors::{query_error, store_error};
use super::link::unwound;
use crate::document::prefix_end_text;

/// A query and its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    statement: String,
    parameters: Map<String, Value>,
}

/// A row: the key, and the document if it was requested.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    #[serde(rename = "k")]
    pub(super) key: String,
    #[serde(rename = "v")]
    pub(super) body: Option<Box<RawValue>>,
}

impl Query {
    /// The query of a page, prefix or scan of a collection. `None` for other operations. `bodies` says whether the
    /// service can return the documents, which it can if they are JSON.
    ///
    /// # Errors
    /// *Refused* for a value that is not JSON.
    pub(super) fn of(op: &Op<'_>, collection: &str, bodies: bool) -> Result<Option<Self>, OpError> {
        let mut parameters = Map::new();
        let (condition, limit) = match *op {
            Op::Page { field, value, limit } => {
                let value = serde_json::from_str(value)
                    .map_err(|e| OpError::new(ErrorKind::Refused, format!("the value of a page is not JSON: {e}")))?;
                parameters.insert("value".into(), value);
                (format!("d.{} = $value", quoted(field)), limit)
            }
            Op::Prefix { prefix, limit } => (range(prefix, prefix_end_text(prefix).as_deref(), &mut parameters), limit),
            Op::Scan { start, end, limit } => (range(start, end, &mut parameters), limit),
            _ => return Ok(None),
        };
        parameters.insert("limit".into(), limit.into());
        let body = if bodies { ", d AS v" } else { "" };
        let from = quoted(collection);
        let statement = format!("SELECT META(d).id AS k{body} FROM {from} AS d WHERE {condition} LIMIT $limit");
        Ok(Some(Self { statement, parameters }))
    }

    /// A query of the study on a collection.
    ///
    /// # Errors
    /// *Refused* for a value that is not JSON.
    pub(super) fn asked(text: &str, values: Batch<'_>, collection: &str) -> Result<Self, OpError> {
        let mut parameters = Map::new();
        for (name, value) in values.iter() {
            let value = serde_json::from_slice(value)
                .map_err(|e| OpError::new(ErrorKind::Refused, format!("the value of ${name} is not JSON: {e}")))?;
            parameters.insert(name.to_owned(), value);
        }
        let statement = text.trim_end().trim_end_matches(';').replace(COLLECTION, &quoted(collection));
        Ok(Self { statement, parameters })
    }

    /// The query of keys from the `offset`-th on, in key order.
    pub(super) fn keys_from(collection: &str, offset: u64, limit: u64) -> Self {
        let from = quoted(collection);
        let mut parameters = Map::new();
        parameters.insert("limit".into(), limit.into());
        parameters.insert("offset".into(), offset.into());
        let order = "WHERE META(d).id >= \"\" ORDER BY META(d).id LIMIT $limit OFFSET $offset";
        Self { statement: format!("SELECT META(d).id AS k FROM {from} AS d {order}"), parameters }
    }

    fn options(&self, fresh: bool, within: Duration) -> Result<(String, QueryOptions), couchbase::error::Error> {
        let consistency = if fresh { ScanConsistency::RequestPlus } else { ScanConsistency::NotBounded };
        let mut options =
            QueryOptions::new().scan_consistency(consistency).read_only(true).metrics(false).server_timeout(within);
        for (name, value) in &self.parameters {
            options = options.add_named_parameter(name, value)?;
        }
        Ok((self.statement.clone(), options))
    }

    /// Runs the query. `fresh` waits for all earlier writes.
    pub(super) async fn run<R: DeserializeOwned + 'static>(
        &self,
        scope: &Scope,
        fresh: bool,
        within: Duration,
    ) -> Result<Vec<R>, OpError> {
        let querying = async {
            let (statement, options) = self.options(fresh, within)?;
            let mut result = scope.query(statement, options.ad_hoc(false)).await?;
            result.rows::<R>().try_collect::<Vec<R>>().await
        };
        match unwound(querying).await {
            Some(result) => result.map_err(|e| query_error(&e)),
            None => Err(OpError::new(ErrorKind::Temporary, "the query service's answer is invalid")),
        }
    }

    /// How the service would answer the query.
    pub(super) async fn explain(self, scope: &Scope, within: Duration) -> Result<Explanation, StoreError> {
        let asking = async {
            let (statement, options) = self.options(false, within)?;
            let mut result = scope.query(format!("EXPLAIN {statement}"), options).await?;
            result.rows::<Value>().try_collect::<Vec<Value>>().await
        };
        let rows =
            unwound(asking).await.unwrap_or_else(|| Ok(Vec::new())).map_err(|e| store_error("explain a query", &e))?;
        let plan = rows.first().map(|row| &row["plan"]).filter(|plan| plan.is_object());
        let plan = plan.ok_or_else(|| StoreError::Failed("EXPLAIN returned no plan".into()))?;
        let text = serde_json::to_string_pretty(plan).unwrap_or_else(|_| plan.to_string());
        Ok(Explanation { full_scan: reads_everything(plan), plan: text })
    }
}

/// Counts the documents of a collection, through an index.
pub(super) async fn count(scope: &Scope, collection: &str, within: Duration) -> Result<u64, StoreError> {
    #[derive(Deserialize)]
    struct Count {
        n: u64,
    }
    let counting = async {
        let options = QueryOptions::new().read_only(true).server_timeout(within);
        let mut result = scope.query(format!("SELECT COUNT(*) AS n FROM {} AS d", quoted(collection)), options).await?;
        result.rows::<Count>().try_collect::<Vec<Count>>().await
    };
    let rows = unwound(counting).await.unwrap_or_else(|| Ok(Vec::new()));
    let rows = rows.map_err(|e| store_error(&format!("count the documents of `{collection}`"), &e))?;
    rows.first()
        .map(|row| row.n)
        .ok_or_else(|| StoreError::Failed(format!("counting `{collection}` returned no number")))
}

/// Quotes a name for SQL++.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn range(start: &str, end: Option<&str>, parameters: &mut Map<String, Value>) -> String {
    parameters.insert("start".into(), start.into());
    let end = end.map_or("", |end| {
        parameters.insert("end".into(), end.into());
        " AND META(d).id < $end"
    });
    format!("META(d).id >= $start{end} ORDER BY META(d).id")
}

/// Whether a plan reads a whole collection: it scans a primary index (or none at all) without bounds.
fn reads_everything(plan: &Value) -> bool {
    match plan {
        Value::Object(members) => {
            let operator = members.get("#operator").and_then(Value::as_str).unwrap_or_default();
            operator.starts_with("PrimaryScan") || members.values().any(reads_everything)
        }
        Value::Array(items) => items.iter().any(reads_everything),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_hold_names_in_quotes_and_values_as_parameters() {
        let op = Op::Page { field: "a`b", value: "\"x'y\"", limit: 3 };
        let query = Query::of(&op, "c", true).unwrap().unwrap();
        let expected = "SELECT META(d).id AS k, d AS v FROM `c` AS d WHERE d.`a``b` = $value LIMIT $limit";
        assert_eq!(query.statement, expected);
        assert_eq!(query.parameters["value"], "x'y");
        assert!(Query::of(&Op::Page { field: "a", value: "x", limit: 3 }, "c", true).is_err());
        assert_eq!(Query::of(&Op::Read { key: "a" }, "c", true).unwrap(), None);
    }

    #[test]
    fn a_scan_without_bounds_reads_everything() {
        let plan =
            |operator: &str| serde_json::json!({ "#operator": "Sequence", "~children": [{ "#operator": operator }] });
        assert!(reads_everything(&plan("PrimaryScan3")));
        assert!(!reads_everything(&plan("IndexScan3")));
    }
}
