//! The documents of a range of keys as one stream, a `COPY` of its rows, so that no page has to search for its first
//! row, and keys of every type are read as the server finds them.
//!
//! The stream sees the moment when it began. Where its connection breaks, it begins anew and sees a later one: rows come
//! again, which who reads knows by their keys. Keys that need not be unique are sorted: so that two rows of one key are
//! seen to be two, and the stream goes on behind the last.

use std::time::Duration;

use storebench_core::store::{BadRow, ErrorKind, LocalFuture, RowPage, RowStream, StoreError};

use super::channel::Fault;
use super::errors::op_error;
use super::existing::ALL_ROWS;
use super::login::{Connected, Target};
use super::sql::Table;
use super::wire::{self, Columns, Garbled, ServerError};

/// A page is about so large: what comes meanwhile waits in the socket.
const PAGE_BYTES: usize = 256 << 10;
/// How long rows may be missing once some have come: the server sorts nothing any more.
const STALLED: Duration = Duration::from_secs(120);
/// The server's own limits are for those who wait for an answer, not for who reads all there is, as pg_dump says.
const NO_LIMITS: &str = "SET statement_timeout = 0; SET lock_timeout = 0";
/// What binary COPY begins with, before its flags and the length of what extends them
/// (<https://www.postgresql.org/docs/current/sql-copy.html>).
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

const DOING: &str = "read its rows";

/// The rows from one key up to another.
pub(super) struct Range {
    target: Target,
    table: Table,
    start: Option<String>,
    end: Option<String>,
    /// The key that was given last.
    last: Option<String>,
    /// A COPY that is under way.
    copy: Option<Copy>,
    ended: bool,
}

struct Copy {
    connected: Connected,
    /// Whether the head of the data has been read.
    begun: bool,
    /// Whether rows have come.
    flows: bool,
    /// The first row may be the one that was given last, again.
    again: bool,
}

impl Range {
    pub(super) fn new(target: Target, table: Table, start: Option<&str>, end: Option<&str>) -> Self {
        let (start, end) = (start.map(str::to_owned), end.map(str::to_owned));
        Self { target, table, start, end, last: None, copy: None, ended: false }
    }

    async fn begin(&self) -> Result<Copy, StoreError> {
        let mut connected = self.target.login().await?;
        let first = if self.table.theirs.is_some() { format!("{ALL_ROWS}; {NO_LIMITS}") } else { NO_LIMITS.to_owned() };
        self.target.ask(DOING, connected.channel.query(&first)).await?;
        let start = self.last.as_deref().filter(|_| !self.table.unique).or(self.start.as_deref());
        let mut out = Vec::new();
        wire::query(&mut out, &self.table.copy_out(start, self.end.as_deref()));
        connected.channel.send(&out).await.map_err(|lost| self.target.broke(DOING, &lost))?;
        Ok(Copy { connected, begun: false, flows: false, again: self.last.is_some() })
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        page.clear();
        if self.ended {
            return Ok(false);
        }
        // Where this fails the connection goes, and the next try begins on another.
        let mut copy = match self.copy.take() {
            Some(copy) => copy,
            None => self.begin().await?,
        };
        let copy_flows = copy.flows;
        let mut newest = Newest { before: self.last.as_deref(), bad: None };
        let filled = fill(&mut copy, page, &self.table, &mut newest);
        let more = if copy_flows {
            tokio::time::timeout(STALLED, filled).await.map_err(|_| self.target.silent(DOING, STALLED))?
        } else {
            filled.await
        };
        let more = more.map_err(|failure| self.failed(failure))?;
        self.last = newest.of(page).map(str::to_owned);
        if more {
            self.copy = Some(copy);
        } else {
            self.ended = true;
        }
        Ok(true)
    }

    fn failed(&self, failure: Failure) -> StoreError {
        let refused = |why: &str| {
            let (place, table) = (self.target.place(), &self.table.place);
            StoreError::NotSupported(format!("{place}: {table} cannot be copied: {why}, or copy by --query"))
        };
        match failure {
            Failure::Twice(key) => refused(&format!("the key `{key}` is in two rows; name another column")),
            Failure::NoText => refused("a key is not UTF-8"),
            Failure::Fault(Fault::Server(error)) if op_error(&error).kind == ErrorKind::Temporary => {
                StoreError::Unreachable(self.target.fault(DOING, &Fault::Server(error)).to_string())
            }
            Failure::Fault(fault) => self.target.fault(DOING, &fault),
        }
    }
}

impl RowStream for Range {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}

enum Failure {
    Fault(Fault),
    /// Two rows have this key.
    Twice(String),
    /// A key is no text.
    NoText,
}

impl<E: Into<Fault>> From<E> for Failure {
    fn from(fault: E) -> Self {
        Self::Fault(fault.into())
    }
}

/// The key that was read last.
struct Newest<'a> {
    /// Before this page.
    before: Option<&'a str>,
    /// Of a row that is no document, and how many documents stood in the page then.
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

/// Reads rows until the page is full; false at the end of all.
async fn fill(copy: &mut Copy, page: &mut RowPage, table: &Table, newest: &mut Newest<'_>) -> Result<bool, Failure> {
    while page.rows.as_batch().total_bytes() < PAGE_BYTES {
        let channel = &mut copy.connected.channel;
        let (tag, range) = channel.receive().await?;
        let body = channel.body(range);
        match tag {
            b'd' => {
                let body = if copy.begun { body } else { behind_head(body)? };
                copy.begun = true;
                // Nothing behind the head, or the mark of the end.
                if body.is_empty() || body == [0xFF, 0xFF] {
                    continue;
                }
                copy.flows = true;
                let mut columns = Columns::of(body)?;
                let key = std::str::from_utf8(columns.value()?).map_err(|_| Failure::NoText)?;
                if !table.unique && newest.of(page) == Some(key) {
                    if std::mem::take(&mut copy.again) {
                        continue;
                    }
                    return Err(Failure::Twice(key.to_owned()));
                }
                copy.again = false;
                match columns.next()? {
                    Some(value) => page.rows.push(key, if table.jsonb { wire::json_text(value)? } else { value }),
                    None => {
                        newest.bad = Some((page.rows.len(), key.to_owned()));
                        page.bad.push(BadRow { key: key.to_owned(), why: "its document is NULL".into() });
                    }
                }
            }
            b'E' => return Err(Fault::Server(ServerError::read(body)).into()),
            b'Z' => return Ok(false),
            b'H' | b'c' | b'C' | b'N' | b'S' | b'A' => {}
            _ => return Err(Garbled.into()),
        }
    }
    Ok(true)
}

/// What stands behind the head of binary COPY data.
fn behind_head(data: &[u8]) -> Result<&[u8], Garbled> {
    // Flags, and how long what extends the head is.
    let rest = data.strip_prefix(SIGNATURE).and_then(|rest| rest.get(4..)).ok_or(Garbled)?;
    let (extension, rest) = rest.split_first_chunk::<4>().ok_or(Garbled)?;
    rest.get(u32::from_be_bytes(*extension) as usize..).ok_or(Garbled)
}
