//! Streams the documents of a range of keys, and the rows of a query.
//!
//! A range is read in pages, each a statement that begins after the last key of the one before, in the order of the
//! key's own index. So a broken connection costs no more than a page, and the server holds no old versions of rows for
//! hours. A page sees what was committed before it began.

use futures_util::StreamExt;
use mysql_async::consts::ColumnType;
use mysql_async::prelude::{Query as _, Queryable, WithParams};
use mysql_async::{BinaryProtocol, Conn, Params, ResultSetStream, Row, Value};
use storebench_engine::store::{BadRow, LocalFuture, RowPage, RowStream, StoreError};

use super::job::{bytes_of, value};
use super::login::{READ_ONLY, Target, WITHIN};
use super::sql::{Table, identifier};
use super::study_queries::{columns, only_reads, push_row};
use crate::existing::not_copied;
use crate::refusals::refused_by_server;
use crate::study_queries::{Column, check_names};

/// The approximate size of a page.
const PAGE_BYTES: usize = 1 << 20;
/// The number of rows in a page: at first, and at most.
const FIRST: u32 = 100;
const MOST: u32 = 5_000;

const DOING: &str = "read its rows";

/// The rows from one key to another.
pub(super) struct Range {
    target: Target,
    table: Table,
    start: Option<String>,
    end: Option<String>,
    conn: Option<Conn>,
    /// Whether `start` was read already.
    begun: bool,
    /// Rows of the next page. `None` at the end.
    rows: Option<u32>,
}

impl Range {
    /// # Errors
    /// `NotSupported` for a key without a unique index: a page would not know where the one before has ended.
    pub(super) fn new(
        target: Target,
        table: Table,
        start: Option<&str>,
        end: Option<&str>,
    ) -> Result<Self, StoreError> {
        let unique = table.index.is_some();
        let (start, end) = (start.map(str::to_owned), end.map(str::to_owned));
        let range = Self { target, table, start, end, conn: None, begun: false, rows: Some(FIRST) };
        if unique { Ok(range) } else { Err(range.refused("its key has no unique index with an order")) }
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        page.clear();
        let Some(wanted) = self.rows else { return Ok(false) };
        // If this fails, the next try uses another connection.
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.target.login(READ_ONLY, WITHIN).await?,
        };
        let from = self.start.as_ref().map(|_| if self.begun { ">" } else { ">=" });
        let sql = self.table.stream(from, self.end.is_some(), wanted);
        let bounds: Vec<Value> =
            [&self.start, &self.end].into_iter().flatten().map(|key| value(key.as_bytes())).collect();
        let rows: Vec<Row> =
            conn.exec(sql, Params::Positional(bounds)).await.map_err(|error| self.target.fault(DOING, &error))?;
        let read = rows.len();
        for mut row in rows {
            let key = bytes_of(&mut row, 0).ok_or_else(|| self.refused("a key is NULL"))?;
            match (bytes_of(&mut row, 1), std::str::from_utf8(&key)) {
                (_, Err(_)) => return Err(self.refused("a key is not UTF-8")),
                (Some(body), Ok(text)) => page.rows.push(text, &body),
                (None, _) => {
                    page.bad.push(BadRow::of(&key, "its document is NULL, or larger than max_allowed_packet".into()))
                }
            }
            self.start = Some(String::from_utf8_lossy(&key).into_owned());
            self.begun = true;
        }
        let mean = (page.rows.as_batch().total_bytes() / read.max(1)).max(1);
        let next = u32::try_from(PAGE_BYTES / mean).unwrap_or(MOST).clamp(1, MOST);
        self.rows = (read == wanted as usize).then_some(next);
        self.conn = Some(conn);
        Ok(true)
    }

    fn refused(&self, why: &str) -> StoreError {
        not_copied(&self.target.place(), &self.table.place, why)
    }
}

impl RowStream for Range {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}

/// The rows of a query, which the server sends as it finds them: of one moment.
pub(super) struct Query {
    target: Target,
    rows: ResultSetStream<'static, 'static, 'static, Row, BinaryProtocol>,
    columns: Vec<Column>,
}

impl Query {
    pub(super) async fn open(target: &Target, text: &str) -> Result<Self, StoreError> {
        let text = text.trim_end().trim_end_matches(';').to_owned();
        only_reads(&text).map_err(StoreError::NotSupported)?;
        let mut conn = target.login(READ_ONLY, WITHIN).await?;
        let database = format!("USE {}", identifier(&target.database));
        conn.query_drop(database).await.map_err(|error| target.fault(DOING, &error))?;
        let rows = text.with(()).stream::<Row, Conn>(conn).await;
        let rows = rows.map_err(|error| refused_by_server(target.fault("run the query", &error)))?;
        let names: Vec<_> = rows.columns_ref().iter().map(|column| column.name_str()).collect();
        check_names(names.iter().map(|name| &**name))?;
        let columns = columns(rows.columns_ref());
        Ok(Self { target: target.clone(), rows, columns })
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        page.clear();
        let mut out = Vec::new();
        while page.rows.as_batch().total_bytes() < PAGE_BYTES {
            let Some(row) = self.rows.next().await else { return Ok(!page.rows.is_empty()) };
            // Another connection would see another moment, so the query cannot continue.
            let row = row.map_err(|error| StoreError::Failed(self.target.fault(DOING, &error).to_string()))?;
            let no_text = |at: &usize| {
                row.columns_ref()[*at].column_type() == ColumnType::MYSQL_TYPE_BIT
                    || matches!(row.as_ref(*at), Some(Value::Bytes(bytes)) if std::str::from_utf8(bytes).is_err())
            };
            if let Some(at) = (0..row.len()).find(no_text) {
                let name = row.columns_ref()[at].name_str();
                let why = format!(
                    "the column `{name}` of the query has bytes that are no text; select TO_BASE64(…) or … + 0"
                );
                return Err(StoreError::NotSupported(why));
            }
            out.clear();
            push_row(&self.columns, row, &mut out);
            page.rows.push("", &out);
        }
        Ok(true)
    }
}

impl RowStream for Query {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}
