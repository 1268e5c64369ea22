//! The documents of a range of keys as one stream: a `COPY` of its rows in the order of the key's own index, so
//! that no page has to search for its first row, and keys of every type are read without sorting.
//!
//! The stream sees the moment when it began. Where its connection breaks, it goes on behind the last key that was
//! given, and sees a later one. No time is set to it: a server that sorts says nothing for long, and connections whose
//! other end has gone are ended by the kernel.

use storebench_engine::store::{BadRow, ErrorKind, LocalFuture, RowPage, RowStream, StoreError};

use super::channel::{Fault, Lost};
use super::errors::op_error;
use super::existing::{ALL_ROWS, AS_TEXT};
use super::login::{Connected, Target};
use super::sql::Table;
use super::wire::{self, Columns, Garbled, ServerError};

/// A page is about so large: what comes meanwhile waits in the socket.
const PAGE_BYTES: usize = 256 << 10;
/// What a row that is not a document counts for.
const BAD_BYTES: usize = 256;
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
        let start = self.last.as_deref().or(self.start.as_deref());
        let copy = self.table.copy_out(start, self.end.as_deref());
        let rows = if self.table.theirs.is_some() { ALL_ROWS } else { "" };
        // An index gives the order without all rows being sorted in the server's temporary files.
        let sort = if self.table.unique { "SET enable_sort = off; " } else { "" };
        let mut out = Vec::new();
        // In one message: behind a pooler another may reach another session.
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
        // Where this fails the connection goes, and the next try begins behind the last key on another.
        let mut copy = match self.copy.take() {
            Some(copy) => copy,
            None => self.begin().await?,
        };
        let mut newest = Newest { before: self.last.as_deref(), bad: None };
        let filled = fill(&mut copy, page, &self.table, &mut newest).await;
        let more = filled.map_err(|failure| self.failed(failure))?;
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
            Failure::NoKey => refused("a key is NULL"),
            Failure::Garbled => StoreError::Failed(format!(
                "{}: cannot {DOING}: the server's answer is not PostgreSQL's protocol; is something else between?",
                self.target.place()
            )),
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
    /// A row has no key.
    NoKey,
    /// This is not the protocol.
    Garbled,
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::Fault(lost.into())
    }
}

impl From<Garbled> for Failure {
    fn from(_: Garbled) -> Self {
        Self::Garbled
    }
}

/// The key that was read last.
struct Newest<'a> {
    /// Before this page.
    before: Option<&'a str>,
    /// Of a row that is not a document, and how many documents stood in the page then.
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
    // What is no document takes room, too.
    while page.rows.as_batch().total_bytes() + page.bad.len() * BAD_BYTES < PAGE_BYTES {
        let channel = &mut copy.connected.channel;
        let (tag, body) = channel.receive().await?;
        match tag {
            b'd' => {
                let body = if copy.begun { body } else { behind_head(body)? };
                copy.begun = true;
                // Nothing behind the head, or the mark of the end.
                if body.is_empty() || body == [0xFF, 0xFF] {
                    continue;
                }
                let mut columns = Columns::of(body)?;
                let key = columns.next()?.ok_or(Failure::NoKey)?;
                let key = std::str::from_utf8(key).map_err(|_| Failure::NoText)?;
                if newest.of(page) == Some(key) {
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
            b'E' => return Err(Failure::Fault(Fault::Server(ServerError::read(body)))),
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
