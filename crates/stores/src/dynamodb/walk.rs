//! Reads all documents of a table: `Scan`, in segments that are read in parallel.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use storebench_documents::json as text;
use storebench_engine::store::{BadRow, LocalFuture, RowPage, RowStream, StoreError};

use super::errors::{self, Consumed};
use super::server::Server;
use super::table::Table;
use crate::http::Response;
use crate::net::KeySample;

/// The segments of a copy. A worker takes one after another.
pub(super) const SEGMENTS: usize = 32;

/// A walk over one segment.
pub(super) struct Walk {
    server: Server,
    table: Table,
    scan: Value,
    consumed: Arc<Consumed>,
    ended: bool,
    scratch: Vec<u8>,
}

impl Walk {
    /// Starts at the first item of a segment.
    pub(super) fn new(server: Server, table: Table, segment: usize, consumed: Arc<Consumed>) -> Self {
        let scan = json!({
            "TableName": table.name, "Segment": segment, "TotalSegments": SEGMENTS, "ConsistentRead": true,
            "ReturnConsumedCapacity": "TOTAL",
        });
        Self { server, table, scan, consumed, ended: false, scratch: Vec::new() }
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        if self.ended {
            return Ok(false);
        }
        let (response, goes_on) = scan(&self.server, &mut self.scan).await?;
        let body = response.answer().body;
        if let Some(units) = text::member(body, "ConsumedCapacity") {
            self.consumed.add(units, false);
        }
        page.clear();
        for item in text::elements(text::member(body, "Items").unwrap_or_default()) {
            let Some(key) = self.table.key_of(item) else { continue };
            match self.table.body_of(item, &mut self.scratch) {
                Ok(body) => {
                    if let Some(left) = self.table.expires.as_deref().and_then(|name| left(text::member(item, name)?)) {
                        page.expiring.push((page.rows.len(), left));
                    }
                    page.rows.push(&key, body);
                }
                Err(why) => page.bad.push(BadRow::of(key.as_bytes(), why.into_owned())),
            }
        }
        self.ended = !goes_on;
        Ok(true)
    }
}

/// Reads a page of items, and prepares for the next one. Returns whether there is one.
async fn scan(server: &Server, scan: &mut Value) -> Result<(Response, bool), StoreError> {
    let response = server.call("Scan", scan).await?;
    let answer = response.answer();
    if !response.is_success() || text::member(answer.body, "Items").is_none() {
        let said = errors::message(&answer);
        return Err(StoreError::Failed(format!("{}: cannot read a table: {said}", server.host)));
    }
    let last = text::member(answer.body, "LastEvaluatedKey");
    if let Some(last) = last {
        scan["ExclusiveStartKey"] = serde_json::from_slice(last)
            .map_err(|e| StoreError::Failed(format!("the server sent a last key that is not JSON: {e}")))?;
    }
    let goes_on = last.is_some();
    Ok((response, goes_on))
}

/// How long an item has left, whose time to live is this value: seconds since 1970.
fn left(value: &[u8]) -> Option<Duration> {
    let seconds = text::text(text::member(value, "N")?)?.parse::<f64>().ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // DynamoDB does not heed a time that is more than five years ago.
    let heeded = seconds > now.as_secs_f64() - 5.0 * 365.0 * 86_400.0;
    heeded.then(|| Duration::try_from_secs_f64((seconds - now.as_secs_f64()).max(0.0)).unwrap_or(Duration::MAX))
}

impl RowStream for Walk {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}

/// Keys spread over a table: some from the beginning of each of many segments, which are ranges of hashes.
pub(super) async fn sample(
    server: &Server,
    table: &Table,
    at_most: usize,
    seed: u64,
) -> Result<Vec<String>, StoreError> {
    let mut sample = KeySample::new(at_most, seed);
    let names: serde_json::Map<String, Value> =
        table.keys.iter().enumerate().map(|(number, key)| (format!("#k{number}"), json!(key.name))).collect();
    let shown: Vec<&str> = names.keys().map(String::as_str).collect();
    // Twice as many as wanted, so that the seed decides.
    let of_each = (2 * at_most).div_ceil(SEGMENTS).max(2);
    for segment in 0..SEGMENTS {
        let mut next = json!({
            "TableName": table.name, "Segment": segment, "TotalSegments": SEGMENTS,
            "ProjectionExpression": shown.join(","), "ExpressionAttributeNames": names,
        });
        let mut seen = 0;
        while seen < of_each {
            next["Limit"] = json!(of_each - seen);
            let (response, goes_on) = scan(server, &mut next).await?;
            let items = text::member(response.answer().body, "Items").unwrap_or_default();
            for key in text::elements(items).filter_map(|item| table.key_of(item)) {
                sample.see(b"", key.as_bytes());
                seen += 1;
            }
            if !goes_on {
                break;
            }
        }
    }
    Ok(sample.into_keys())
}
