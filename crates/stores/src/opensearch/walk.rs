//! Streams all documents of one shard of an index, from a point in time.
//!
//! Within one shard of a point in time, documents have a fixed order (`_doc`), so each page continues after the one
//! before. Over several shards this would leave documents out. A point in time that the server has lost begins again.
//! Two indexes of an alias may hold the same key. A reader that sees a key again takes it for the same document, so each
//! walk is of one index.

use serde_json::{Value, json};
use storebench_engine::store::{BadRow, LocalFuture, RowPage, RowStream, StoreError};
use storebench_study::workload::Body;

use super::errors;
use super::json::{self, decode, elements, member, member_text};
use super::server::{Server, path};
use crate::http::{Method, Response};

/// The approximate size of a page.
const PAGE_BYTES: usize = 4 << 20;
/// The most documents in a page, and the number of the first one.
pub(super) const MOST: usize = 5_000;
const FIRST: usize = 100;
/// How long the server keeps a point in time after the last page.
const KEPT: &str = "10m";
/// A point in time that is lost this often is given up.
const MOST_LOST: u32 = 5;

/// A walk over one shard.
pub(super) struct Shard {
    pub(super) server: Server,
    pub(super) elastic: bool,
    pub(super) body: Body,
    pub(super) keyed: bool,
    /// Its index, until all was read.
    pub(super) index: Option<String>,
    pub(super) number: u32,
    /// The most documents of a page (at most the `index.max_result_window` of the index).
    pub(super) most: usize,
    pub(super) point: Option<Point>,
    pub(super) lost: u32,
}

/// A point in time of one shard.
pub(super) struct Point {
    id: Value,
    /// Where the last row was, as JSON text.
    last: Option<Value>,
    size: usize,
}

impl Shard {
    async fn begin(&self, index: &str) -> Result<Point, StoreError> {
        let what = if self.elastic { "_pit" } else { "_search/point_in_time" };
        let path = path(index, &format!("{what}?keep_alive={KEPT}&preference=_shards%3A{}", self.number));
        let told = self.server.done(Method::POST, &path, None, &format!("begin to read `{index}`")).await?;
        if told["_shards"]["failed"].as_u64().is_some_and(|failed| failed > 0) {
            let (host, number) = (&self.server.host, self.number);
            return Err(StoreError::Failed(format!(
                "{host}: cannot read shard {number} of `{index}`; repair it first"
            )));
        }
        let id = told[if self.elastic { "id" } else { "pit_id" }].clone();
        Ok(Point { id, last: None, size: FIRST.min(self.most) })
    }

    async fn end(&self, point: Point) {
        let (path, body) = match self.elastic {
            true => ("/_pit", json!({ "id": point.id })),
            false => ("/_search/point_in_time", json!({ "pit_id": [point.id] })),
        };
        // Otherwise the server ends it later.
        let _ = self.server.call(Method::DELETE, path, Some(&body)).await;
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        page.clear();
        let Some(index) = self.index.clone() else { return Ok(false) };
        if self.point.is_none() {
            self.point = Some(self.begin(&index).await?);
        }
        let Some(point) = &mut self.point else { return Ok(false) };
        let mut search = json!({
            "size": point.size,
            "track_total_hits": false,
            "sort": ["_doc"],
            "pit": { "id": point.id, "keep_alive": KEPT },
        });
        if let Some(last) = &point.last {
            search["search_after"] = last.clone();
        }
        let search_path = "/_search?allow_partial_search_results=false";
        let response = self.server.call(Method::POST, search_path, Some(&search)).await?;
        if !response.is_success() {
            let lost = errors::said(response.answer().body).is_some_and(|said| said.contains("search_context_missing"));
            if (lost || response.status == 404) && self.lost < MOST_LOST {
                // The rows before come again.
                self.lost += 1;
                self.point = None;
                return Ok(true);
            }
            return Err(self.server.unexpected(&format!("read `{index}`"), &response));
        }
        let rows = take_rows(&response, point, self.body, self.keyed, page);
        let rows = rows.ok_or_else(|| {
            StoreError::Failed(format!("{}: unexpected answer: {}", self.server.host, response.answer().shown()))
        })?;
        if rows < point.size {
            self.index = None;
            if let Some(point) = self.point.take() {
                self.end(point).await;
            }
        } else {
            let each = (response.answer().body.len() / rows.max(1)).max(1);
            point.size = (PAGE_BYTES / each).clamp(1, self.most);
        }
        Ok(true)
    }
}

/// Adds the rows of an answer to a page. Returns how many there were; `None` if the answer makes no sense.
fn take_rows(response: &Response, point: &mut Point, kind: Body, keyed: bool, page: &mut RowPage) -> Option<usize> {
    let answer = response.answer().body;
    if let Some(id) = member_text(answer, "pit_id") {
        point.id = Value::from(id.into_owned());
    }
    let hits = member(member(answer, "hits")?, "hits").filter(|hits| json::is_array(hits))?;
    let (mut rows, mut scratch, mut last) = (0, Vec::new(), None);
    for hit in elements(hits) {
        rows += 1;
        let id = member_text(hit, "_id")?;
        last = Some(member(hit, "sort")?);
        let body = match member(hit, "_source") {
            Some(source) => decode(kind, keyed, source, &mut scratch).map_err(|error| error.message.into_owned()),
            None => Err("its index does not keep it as it was written (`_source`)".to_owned()),
        };
        match body {
            Ok(body) => page.rows.push(&id, body),
            Err(why) => page.bad.push(BadRow::of(id.as_bytes(), why)),
        }
    }
    if let Some(last) = last {
        point.last = Some(serde_json::from_slice(last).ok()?);
    }
    Some(rows)
}

impl RowStream for Shard {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}
