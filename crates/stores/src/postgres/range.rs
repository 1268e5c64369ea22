//! Streams the documents of a range of keys: a `COPY` of its rows in the order of the key's own index. Pages need not
//! search for their first row, and keys of every type are read without sorting.
//!
//! The stream sees a snapshot of the moment when it began. If its connection breaks, it continues after the last key
//! that it returned, and sees a later snapshot. It has no timeout: a server that sorts is silent for long, and the
//! kernel ends connections whose other end has gone.

use storebench_engine::store::{BadRow, ErrorKind, LocalFuture, RowPage, RowStream, StoreError};

use super::errors::{op_error, store_error};
use super::existing::{ALL_ROWS, AS_TEXT};
use super::login::{Connected, Target};
use super::sql::Table;
use super::wire::{self, Columns, Garbled, ServerError};
use crate::existing::not_copied;

/// The approximate size of a page. What arrives meanwhile waits in the socket.
const PAGE_BYTES: usize = 256 << 10;
/// The size that a row without a document counts as.
const BAD_BYTES: usize = 256;
/// The start of binary COPY data, before its flags and the length of its header extension
/// (<https://www.postgresql.org/docs/current/sql-copy.html>).
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

const DOING: &str = "read its rows";

/// The rows from one key to another.
pub(super) struct Range {
    target: Target,
    table: Table,
    start: Option<String>,
    end: Option<String>,
    /// The last key that was returned.
    last: Option<String>,
    /// The COPY in progress.
    copy: Option<Copy>,
    ended: bool,
}

struct Copy {
    connected: Connected,
    /// Whether the header of the data has been read.
    begun: bool,
    /// Whether the first row may repeat the last key that was returned.
    again: bool,
}

impl Range {
    pub(super) fn new(target: Target, table: Table, start: Option<&str>, end: Option<&str>) -> Self {
        let (start, end) = (start.map(str::to_owned), end.map(str::to_owned));
        Self { target, table, start, end, last: None, copy: None, ended: false }
    }

    async fn begin(&self) -> Result<Copy, StoreError> {
        let mut connected = self.target.login().await?;
        let start = self.last.as_deref().or(self.start.as_deref());
        let copy = self.table.copy_out(start, self.end.as_deref());
        let rows = if self.table.theirs.is_some() { ALL_ROWS } else { "" };
        // With an index, the server need not sort all rows in temporary files.
        let sort = if self.table.unique { "SET enable_sort = off; " } else { "" };
        let mut out = Vec::new();
        // In one message: behind a pooler, a second message may reach another session.
        wire::query(
            &mut out,
            &format!("{AS_TEXT}; SET statement_timeout = 0; SET lock_timeout = 0; {rows}{sort}{copy}"),
        );
        connected.channel.send(&out).await.map_err(|lost| self.target.broke(DOING, &lost))?;
        Ok(Copy { connected, begun: false, again: self.last.is_some() })
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        page.clear();
        if self.ended {
            return Ok(false);
        }
        // If this fails, the connection is dropped, and the next try begins after the last key on another one.
        let mut copy = match self.copy.take() {
            Some(copy) => copy,
            None => self.begin().await?,
        };
        let mut newest = Newest { before: self.last.as_deref(), bad: None };
        let more = fill(&mut copy, page, &self.table, &mut newest).await?;
        self.last = newest.of(page).map(str::to_owned);
        if more {
            self.copy = Some(copy);
        } else {
            self.ended = true;
        }
        Ok(true)
    }
}

impl RowStream for Range {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}

/// The last key that was read.
struct Newest<'a> {
    /// The last key before this page.
    before: Option<&'a str>,
    /// The key of the last row without a document, and how many documents the page held at that point.
    bad: Option<(usize, String)>,
}

impl Newest<'_> {
    fn of<'p>(&'p self, page: &'p RowPage) -> Option<&'p str> {
        let rows = page.rows.len();
        match &self.bad {
            Some((before, key)) if *before == rows => Some(key),
            _ => {
                rows.checked_sub(1).and_then(|last| page.rows.as_batch().get(last)).map(|(key, _)| key).or(self.before)
            }
        }
    }
}

/// Reads rows until the page is full. Returns false at the end of the range.
async fn fill(copy: &mut Copy, page: &mut RowPage, table: &Table, newest: &mut Newest<'_>) -> Result<bool, StoreError> {
    let Connected { target, channel, .. } = &mut copy.connected;
    let refused = |why: &str| not_copied(&target.place(), &table.place, why);
    let garbled = |_: Garbled| {
        StoreError::Failed(format!(
            "{}: cannot {DOING}: the server's answer is not PostgreSQL's protocol; check for a proxy in between",
            target.place()
        ))
    };
    // Rows without a document also take room.
    while page.rows.as_batch().total_bytes() + page.bad.len() * BAD_BYTES < PAGE_BYTES {
        let (tag, body) = channel.receive().await.map_err(|lost| target.broke(DOING, &lost))?;
        match tag {
            b'd' => {
                let body = if copy.begun { body } else { behind_head(body).map_err(garbled)? };
                copy.begun = true;
                // Nothing after the header, or the end marker.
                if body.is_empty() || body == [0xFF, 0xFF] {
                    continue;
                }
                let mut columns = Columns::of(body).map_err(garbled)?;
                let key = columns.next().map_err(garbled)?.ok_or_else(|| refused("a key is NULL"))?;
                let key = std::str::from_utf8(key).map_err(|_| refused("a key is not UTF-8"))?;
                if newest.of(page) == Some(key) {
                    if std::mem::take(&mut copy.again) {
                        continue;
                    }
                    return Err(refused(&format!("the key `{key}` is in two rows")));
                }
                copy.again = false;
                match columns.next().map_err(garbled)? {
                    Some(value) if table.jsonb => page.rows.push(key, wire::json_text(value).map_err(garbled)?),
                    Some(value) => page.rows.push(key, value),
                    None => {
                        newest.bad = Some((page.rows.len(), key.to_owned()));
                        page.bad.push(BadRow::of(key.as_bytes(), "its document is NULL".into()));
                    }
                }
            }
            b'E' => {
                let error = ServerError::read(body);
                let told = store_error(&target.place(), DOING, &error);
                let temporary = op_error(&error).kind == ErrorKind::Temporary;
                return Err(if temporary { StoreError::Unreachable(told.to_string()) } else { told });
            }
            b'Z' => return Ok(false),
            b'H' | b'c' | b'C' | b'N' | b'S' | b'A' => {}
            _ => return Err(garbled(Garbled)),
        }
    }
    Ok(true)
}

/// What follows the header of binary COPY data.
fn behind_head(data: &[u8]) -> Result<&[u8], Garbled> {
    // Flags, and the length of the header extension.
    let rest = data.strip_prefix(SIGNATURE).and_then(|rest| rest.get(4..)).ok_or(Garbled)?;
    let (extension, rest) = rest.split_first_chunk::<4>().ok_or(Garbled)?;
    rest.get(u32::from_be_bytes(*extension) as usize..).ok_or(Garbled)
}
