//! Streams the rows of a range of tokens, page by page. The server's own mark of where a page ended continues on any
//! connection, so a stream that broke goes on where it was.
//!
//! Cassandra keeps rows by the tokens of their keys. So what cuts a table into ranges are tokens, as texts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use scylla::response::PagingState;
use scylla::statement::prepared::PreparedStatement;
use storebench_engine::store::{BadRow, LocalFuture, RowPage, RowStream, StoreError};
use xxhash_rust::xxh3::xxh3_64;

use super::errors::store_error;
use super::link::Link;
use super::operations::rows_of;
use super::settings::Settings;
use super::table::Table;
use super::values::Bound;

/// The target size of a page, and the number of rows that it may have: at first, at least and at most.
const PAGE_BYTES: usize = 1 << 20;
const FIRST: usize = 100;
const FEWEST: usize = 10;
const MOST: usize = 5_000;

/// The order of ranges.
pub(super) const ORDER: &str = "Murmur3 tokens";

/// The rows between two tokens.
pub(super) struct Range {
    settings: Arc<Settings>,
    table: Table,
    bounds: Vec<i64>,
    statement: String,
    open: Option<(Link, PreparedStatement)>,
    /// Where the next page begins; `None` at the end.
    state: Option<PagingState>,
    count: usize,
}

impl Range {
    pub(super) fn new(
        settings: Arc<Settings>,
        table: Table,
        start: Option<&str>,
        end: Option<&str>,
    ) -> Result<Self, StoreError> {
        let token = |text: &str| {
            text.parse::<i64>()
                .map_err(|_| StoreError::Failed(format!("`{text}` is not a token; tables are cut by tokens")))
        };
        let bounds = [start, end].into_iter().flatten().map(token).collect::<Result<Vec<_>, _>>()?;
        let statement = table.select_range(start.is_some(), end.is_some());
        Ok(Self { settings, table, bounds, statement, open: None, state: Some(PagingState::start()), count: FIRST })
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        page.clear();
        let Some(state) = self.state.clone() else { return Ok(false) };
        // If this fails, the connection is dropped, and the next try begins where this page did.
        let (link, mut statement) = match self.open.take() {
            Some(open) => open,
            None => {
                let link = Link::control(&self.settings).await?;
                let statement = link.prepare(&self.statement).await?;
                (link, statement)
            }
        };
        statement.set_page_size(i32::try_from(self.count).unwrap_or(i32::MAX));
        let values: Vec<Bound<'_>> = self.bounds.iter().copied().map(Bound::Long).collect();
        let doing = format!("read the rows of {}", self.table.place());
        let answer = link.session.execute_single_page(&statement, values.as_slice(), state).await;
        let (rows, next) = answer.map_err(|error| store_error(&link.place, &doing, &error))?;
        let garbled = || link.garbled(&doing);
        let rows = rows.into_rows_result().map_err(|_| garbled())?;
        let mut bytes = 0;
        for row in rows_of(&rows).map_err(|_| garbled())? {
            let row = row.map_err(|_| garbled())?;
            let Some((key, body, left_s)) = self.table.read_row(&row) else {
                let why = "a column of its key is null, because its partition has only static columns, or is NaN or \
                           infinite";
                page.bad.push(BadRow::of(b"", why.into()));
                continue;
            };
            let body = match body {
                Ok(body) => body,
                Err(error) => {
                    page.bad.push(BadRow::of(key.as_bytes(), error.message.into_owned()));
                    continue;
                }
            };
            if let Some(left_s) = left_s {
                let left = Duration::from_secs(u64::try_from(left_s).unwrap_or(0));
                page.expiring.push((page.rows.len(), left));
            }
            bytes += body.len();
            page.rows.push(&key, &body);
        }
        self.count = (PAGE_BYTES / (bytes / page.rows.len().max(1)).max(1)).clamp(FEWEST, MOST);
        self.state = next.into_paging_control_flow().continue_value();
        drop(rows);
        self.open = Some((link, statement));
        Ok(true)
    }
}

impl RowStream for Range {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}

/// Tokens that cut all tokens into ranges of equal size. Keys are spread evenly over tokens.
pub(super) fn cuts(ranges: usize) -> Vec<String> {
    let ranges = ranges.max(1) as u64;
    let width = u64::MAX / ranges;
    (1..ranges).map(|range| i64::MIN.wrapping_add_unsigned(width * range).to_string()).collect()
}

/// The keys of a sample: a few from each of several places, which are spread evenly over the tokens.
pub(super) async fn sample(link: &Link, table: &Table, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
    const PLACES: usize = 128;
    let garbled = || link.garbled("list keys");
    let statement = link.prepare(&table.select_keys()).await?;
    let places = at_most.clamp(1, PLACES);
    let width = u64::MAX / places as u64;
    // Within its part of the tokens, each place is another one for each seed.
    let shift = xxh3_64(&seed.to_le_bytes()) % width;
    let limit = Bound::Int(i32::try_from(at_most.div_ceil(places)).unwrap_or(i32::MAX));
    let mut keys = BTreeSet::new();
    for place in 0..places as u64 {
        let values = [Bound::Long(i64::MIN.wrapping_add_unsigned(width * place + shift)), limit.clone()];
        let answer = link.session.execute_unpaged(&statement, values.as_slice()).await;
        let answer = answer.map_err(|error| store_error(&link.place, "list keys", &error))?;
        let rows = answer.into_rows_result().map_err(|_| garbled())?;
        for row in rows_of(&rows).map_err(|_| garbled())? {
            let row = row.map_err(|_| garbled())?;
            keys.extend(table.key_text(&row));
        }
    }
    Ok(keys.into_iter().take(at_most).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_cut_evenly_and_in_order() {
        let tokens: Vec<i64> = cuts(4).iter().map(|token| token.parse().unwrap()).collect();
        assert_eq!(tokens, [i64::MIN / 2 - 1, -2, i64::MAX / 2 - 2].map(|token: i64| token));
        assert!(cuts(1).is_empty() && cuts(0).is_empty());
        let many: Vec<i64> = cuts(1_000).iter().map(|token| token.parse().unwrap()).collect();
        assert!(many.is_sorted() && many.len() == 999);
    }
}
