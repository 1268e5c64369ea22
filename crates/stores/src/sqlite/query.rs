//! Reads the rows of a query in a separate thread, because a running statement borrows its connection.

use std::path::Path;

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, Row};
use storebench_documents::json;
use storebench_engine::store::{BadRow, LocalFuture, RowPage, RowStream, StoreError};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::errors::{is_of_sql, store_error};
use super::open::Still;

/// The maximum number of rows and bytes in a page.
const ROWS: usize = 1_000;
const BYTES: usize = 1 << 20;
/// The number of pages in the queue.
const WAITING: usize = 2;

/// A page, the end, or an error.
type Page = Result<Option<RowPage>, StoreError>;

/// The receiving side of the thread's pages. Dropping it ends the thread.
pub(super) struct Query {
    place: String,
    pages: Receiver<Page>,
}

impl Query {
    /// Runs a query on a connection that only reads.
    pub(super) fn open(
        place: String,
        connection: Connection,
        still: Option<Still>,
        text: &str,
    ) -> Result<Self, StoreError> {
        let (out, pages) = channel(WAITING);
        let text = text.to_owned();
        let from = place.clone();
        let run = move || {
            let end = run(&connection, &from, &text, &out);
            // Check for changes first, because a concurrent write looks like damage.
            let end = still.map_or(Ok(()), |still| still.check().map_err(StoreError::Failed)).and(end);
            // The receiver may be gone.
            let _ = out.blocking_send(end.map(|()| None));
        };
        std::thread::Builder::new()
            .name("sqlite-query".to_owned())
            .spawn(run)
            .map_err(|e| StoreError::Failed(format!("{place}: cannot create a thread for the query: {e}")))?;
        Ok(Self { place, pages })
    }
}

impl RowStream for Query {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            page.clear();
            match self.pages.recv().await {
                Some(Ok(Some(came))) => {
                    *page = came;
                    Ok(true)
                }
                Some(Ok(None)) => Ok(false),
                Some(Err(error)) => Err(error),
                None => Err(StoreError::Failed(format!("{}: the query ended unexpectedly", self.place))),
            }
        })
    }
}

fn run(connection: &Connection, place: &str, text: &str, out: &Sender<Page>) -> Result<(), StoreError> {
    let refused = |why: String| StoreError::NotSupported(format!("{place}: the query failed: {why}"));
    let broken = |e: rusqlite::Error| store_error(Path::new(place), "read the rows of the query", &e);
    let said = |e: rusqlite::Error| if is_of_sql(&e) { refused(e.to_string()) } else { broken(e) };
    let mut batch = Batch::new(connection, text);
    let mut statement = batch.next().map_err(said)?.ok_or_else(|| refused("it is empty".to_owned()))?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(refused("it returns no rows or writes; use a SELECT".to_owned()));
    }
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    if let Some((_, name)) = names.iter().enumerate().find(|(number, name)| names[..*number].contains(name)) {
        return Err(refused(format!(
            "two columns are named `{name}`, but a record has only one field of that name; rename one with AS"
        )));
    }
    let columns: Vec<Vec<u8>> = names.iter().map(|name| serde_json::to_vec(name).unwrap_or_default()).collect();
    if batch.next().map_err(said)?.is_some() {
        return Err(refused("it has more than one statement; use only one".to_owned()));
    }
    let mut rows = statement.query([]).map_err(said)?;
    let mut page = RowPage::default();
    let mut json = Vec::new();
    let (mut bytes, mut number) = (0, 0_u64);
    while let Some(row) = rows.next().map_err(broken)? {
        number += 1;
        json.clear();
        match push_row(row, &columns, &mut json) {
            Ok(()) => page.rows.push("", &json),
            Err(why) => page.bad.push(BadRow::of(format!("row {number}").as_bytes(), why)),
        }
        bytes += json.len();
        if page.rows.len() + page.bad.len() >= ROWS || bytes >= BYTES {
            bytes = 0;
            if out.blocking_send(Ok(Some(std::mem::take(&mut page)))).is_err() {
                return Ok(());
            }
        }
    }
    let _ = out.blocking_send(Ok(Some(page)));
    Ok(())
}

pub(super) fn push_row(row: &Row<'_>, columns: &[Vec<u8>], out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'{');
    for (number, column) in columns.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        out.extend_from_slice(column);
        out.push(b':');
        let value = row.get_ref(number).map_err(|e| e.to_string())?;
        push_value(value, out).map_err(|why| format!("its column {} {why}", String::from_utf8_lossy(column)))?;
    }
    out.push(b'}');
    Ok(())
}

fn push_value(value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
    use std::io::Write as _;

    let written = match value {
        ValueRef::Null => out.write_all(b"null"),
        ValueRef::Integer(number) => write!(out, "{number}"),
        ValueRef::Real(number) => match serde_json::Number::from_f64(number) {
            Some(number) => write!(out, "{number}"),
            None => return Err("is infinite, which JSON cannot express"),
        },
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|_| "is not UTF-8")?;
            json::push_text(text, out);
            Ok(())
        }
        ValueRef::Blob(bytes) => {
            out.push(b'"');
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")).and_then(|()| out.write_all(b"\""))
        }
    };
    written.map_err(|_| "cannot be written")
}
