//! A session has one connection. Each operation is one prepared statement. A bulk operation is one transaction.

mod writes;

use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement};
use serde_json::Value;
use storebench_engine::store::{
    Batch, Collected, Completions, Durability, ErrorKind, Op, OpError, Reject, Reply, Request, SameKeys, Session,
    StepsFound, Token,
};

use super::errors::op_error;
use super::open::Still;
use super::sql::{self, Format, KINDS, Kind, Table};
use super::statements::{Bound, Prepared};
use super::study_queries::{self, Asked};
use super::theirs::same_keys;
use crate::document;
use crate::fair::FairLock;
use crate::study_queries::ByNumber;

/// A collection, as a session uses it.
pub(super) struct Collection {
    table: Table,
    format: Format,
    /// Which keys the column takes for one.
    same: SameKeys,
    /// The position of its first statement.
    first: usize,
    /// The page queries so far: field, whether the type is compared, and the position of the statement.
    pages: Vec<(String, bool, usize)>,
}

/// One connection to an SQLite database.
pub(crate) struct SqliteSession {
    prepared: Prepared,
    pub(super) collections: Vec<Collection>,
    /// The queries so far, by number.
    queries: ByNumber<Asked>,
    begin_read: usize,
    pub(super) writer: Arc<FairLock>,
    pub(super) timeout: Duration,
    /// What the steps of a transaction found.
    pub(super) steps: StepsFound,
    found: Collected,
    rejects: Vec<Reject>,
    scratch: Vec<u8>,
    /// The state of the file, if it is read without locks.
    still: Option<Still>,
}

/// Sets what an acknowledged write survives.
pub(super) fn set_durability(connection: &Connection, durability: Durability, ours: bool) -> rusqlite::Result<()> {
    let wal = connection.query_row("PRAGMA journal_mode", [], |row| Ok(row.get_ref(0)?.as_str() == Ok("wal")))?;
    connection.execute_batch(&format!("PRAGMA synchronous = {}", synchronous(durability, wal, ours)))
}

/// What `synchronous` is set to for a durability level.
pub(super) fn synchronous(durability: Durability, wal: bool, ours: bool) -> &'static str {
    match durability {
        Durability::FSYNC => "FULL",
        _ if wal || !ours => "NORMAL",
        _ => "OFF",
    }
}

impl SqliteSession {
    pub(super) fn new(
        connection: Connection,
        collections: &[(Table, Format)],
        writer: Arc<FairLock>,
        timeout: Duration,
        still: Option<Still>,
    ) -> Self {
        let mut prepared = Prepared::new(connection);
        let begin_read = prepared.reserve(4);
        let collections = collections
            .iter()
            .map(|(table, format)| Collection {
                table: table.clone(),
                format: *format,
                same: if table.theirs { same_keys(prepared.connection(), table) } else { SameKeys::Exact },
                first: prepared.reserve(KINDS),
                pages: Vec::new(),
            })
            .collect();
        Self {
            prepared,
            collections,
            queries: ByNumber::default(),
            begin_read,
            writer,
            timeout,
            steps: StepsFound::default(),
            found: Collected::default(),
            rejects: Vec::new(),
            scratch: Vec::new(),
            still,
        }
    }

    pub(super) fn run(
        &mut self,
        request: &Request<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let (collection, contents) = (request.collection.position(), request.contents);
        document::collection_of(request, &self.collections, false)?;
        let reply = match request.op {
            // This reply borrows from its statement.
            Op::Read { key } => return self.read(collection, key, contents, token, out),
            Op::Exists { key } => Reply::written(usize::from(self.exists(collection, key)?)),
            Op::BulkRead { keys } => self.bulk_read(collection, keys, contents)?,
            Op::Prefix { prefix, limit } => {
                let mut end = std::mem::take(&mut self.scratch);
                let bounded = document::prefix_end(prefix.as_bytes(), &mut end);
                let read = self.range(collection, prefix, bounded.then_some(&end[..]), limit, contents).map(|_| ());
                self.scratch = end;
                read?;
                Reply { rejects: &self.rejects, ..self.found.reply() }
            }
            Op::Scan { start, end, limit } => self.range(collection, start, end.map(str::as_bytes), limit, contents)?,
            Op::Page { field, value, limit } => self.page(collection, field, value, limit, contents)?,
            Op::Query { number, text, values } => self.query(collection, number, text, values, contents)?,
            Op::Transaction { steps, rolls_back, .. } => return self.steps(steps, rolls_back, contents, token, out),
            op => return self.write(collection, &op, token, out),
        };
        out.complete(token, Ok(reply));
        Ok(())
    }

    fn statement(&mut self, collection: usize, kind: Kind) -> Result<&mut Statement<'static>, OpError> {
        let Collection { table, format, first, .. } = &self.collections[collection];
        self.prepared.get(first + kind as usize, || sql::statement(table, *format, kind)).map_err(|e| op_error(&e))
    }

    fn exists(&mut self, collection: usize, key: &str) -> Result<bool, OpError> {
        let statement = self.statement(collection, Kind::Exists)?;
        bind(statement, &[text(key)])?;
        Ok(statement.raw_query().next().map_err(|e| op_error(&e))?.is_some())
    }

    fn read(
        &mut self,
        collection: usize,
        key: &str,
        contents: bool,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let Collection { table, format, first, .. } = &self.collections[collection];
        let statement = self
            .prepared
            .get(first + Kind::Read as usize, || sql::statement(table, *format, Kind::Read))
            .map_err(|e| op_error(&e))?;
        bind(statement, &[text(key)])?;
        let mut rows = statement.raw_query();
        let row = rows.next().map_err(|e| op_error(&e))?.ok_or(OpError::not_found())?;
        let body = bytes_of(row.get_ref(0).map_err(|e| op_error(&e))?, &mut self.scratch)?;
        let reply = Reply {
            documents: 1,
            bytes: body.len() as u64,
            body: contents.then_some(body),
            revision: Some(body),
            ..Reply::default()
        };
        out.complete(token, Ok(reply));
        Ok(())
    }

    /// Runs `work` in a transaction, which is rolled back if it fails, or if it is not to be committed.
    pub(super) fn transaction<T>(
        &mut self,
        write: bool,
        commits: bool,
        work: impl FnOnce(&mut Self) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        let begin = if write { 1 } else { 0 };
        self.control(begin, if write { "BEGIN IMMEDIATE" } else { "BEGIN" })?;
        let end =
            |session: &mut Self| if commits { session.control(2, "COMMIT") } else { session.control(3, "ROLLBACK") };
        let result = work(self).and_then(|value| end(self).map(|()| value));
        if result.is_err() {
            // SQLite may have rolled back already. Then this fails harmlessly.
            let _ = self.control(3, "ROLLBACK");
        }
        result
    }

    fn control(&mut self, which: usize, text: &str) -> Result<(), OpError> {
        let statement = self.prepared.get(self.begin_read + which, || text.to_owned()).map_err(|e| op_error(&e))?;
        statement.raw_execute().map(drop).map_err(|e| op_error(&e))
    }

    fn bulk_read(&mut self, collection: usize, keys: Batch<'_>, contents: bool) -> Result<Reply<'_>, OpError> {
        let mut found = std::mem::take(&mut self.found);
        let mut scratch = std::mem::take(&mut self.scratch);
        found.begin(contents);
        let done = self.transaction(false, true, |session| {
            let statement = session.statement(collection, Kind::Read)?;
            for (key, _) in keys.iter() {
                bind(statement, &[text(key)])?;
                let mut rows = statement.raw_query();
                let Some(row) = rows.next().map_err(|e| op_error(&e))? else { continue };
                found.add(key, bytes_of(row.get_ref(0).map_err(|e| op_error(&e))?, &mut scratch)?);
            }
            Ok(())
        });
        (self.found, self.scratch) = (found, scratch);
        done.map(|()| self.found.reply())
    }

    fn range(
        &mut self,
        collection: usize,
        start: &str,
        end: Option<&[u8]>,
        limit: u32,
        contents: bool,
    ) -> Result<Reply<'_>, OpError> {
        let Collection { table, format, first, .. } = &self.collections[collection];
        let kind = table.range(start, end.is_some());
        let statement = self
            .prepared
            .get(first + kind as usize, || sql::statement(table, *format, kind))
            .map_err(|e| op_error(&e))?;
        bind(statement, &[text(start), Bound::Integer(i64::from(limit))])?;
        if let Some(end) = end {
            statement.raw_bind_parameter(3, Bound::Text(end)).map_err(|e| op_error(&e))?;
        }
        unchanged(self.still.as_ref(), collect(statement, self.found.begin(contents), &mut self.rejects))
    }

    fn page(
        &mut self,
        collection: usize,
        field: &str,
        value: &str,
        limit: u32,
        contents: bool,
    ) -> Result<Reply<'_>, OpError> {
        // Most values are texts without escapes, which are bound as they are.
        let plain = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .filter(|inner| !inner.contains(['\\', '"']) && !inner.starts_with(['{', '[']));
        let owned;
        let (wanted, json_type) = match plain {
            Some(inner) => (Bound::Text(inner.as_bytes()), None),
            None => {
                owned = scalar(value)?;
                (owned.bound(), owned.json_type)
            }
        };
        let Collection { table, format, pages, .. } = &mut self.collections[collection];
        let typed = json_type.is_some();
        let position = match pages.iter().find(|(name, with_type, _)| name == field && *with_type == typed) {
            Some((_, _, position)) => *position,
            None => {
                let text = sql::page(table, *format, field, typed)
                    .map_err(|e| OpError::new(ErrorKind::Refused, e.to_string()))?;
                let position = self.prepared.reserve(1);
                self.prepared.get(position, || text).map_err(|e| op_error(&e))?;
                pages.push((field.to_owned(), typed, position));
                position
            }
        };
        let statement = self.prepared.get(position, String::new).map_err(|e| op_error(&e))?;
        bind(statement, &[wanted, Bound::Integer(i64::from(limit))])?;
        if let Some(json_type) = json_type {
            statement.raw_bind_parameter(3, json_type).map_err(|e| op_error(&e))?;
        }
        collect(statement, self.found.begin(contents), &mut self.rejects)
    }

    fn query(
        &mut self,
        collection: usize,
        number: u16,
        text: &str,
        values: Batch<'_>,
        contents: bool,
    ) -> Result<Reply<'_>, OpError> {
        let Self { queries, prepared, collections, .. } = self;
        let make = || study_queries::prepare(prepared, &collections[collection].table, text, values);
        let Asked { statement, values: places, columns } = queries.get(number, make)?;
        let statement = self.prepared.get(*statement, String::new).map_err(|e| op_error(&e))?;
        for (position, place) in places.iter().enumerate() {
            let (_, value) = values.get(*place).ok_or(OpError::unsupported())?;
            study_queries::bind(statement, position + 1, value)?;
        }
        let read = study_queries::collect(statement, columns, self.found.begin(contents), &mut self.scratch);
        unchanged(self.still.as_ref(), read)?;
        Ok(self.found.reply())
    }

    /// Tries a query.
    pub(super) fn try_query(&mut self, request: &Request<'_>) -> Result<(), OpError> {
        let mut result = Ok(());
        let mut done = |_: Token, ended: Result<Reply<'_>, OpError>| result = ended.map(drop);
        self.submit(request, Token(0), &mut done);
        result
    }

    /// The plan of a read or write, from `EXPLAIN QUERY PLAN`.
    pub(super) fn explain(&mut self, request: &Request<'_>) -> Result<Option<Vec<String>>, OpError> {
        let position = request.collection.position();
        let Some(Collection { table, format, .. }) = self.collections.get(position) else { return Ok(None) };
        let statement = |kind| sql::statement(table, *format, kind);
        let text = match request.op {
            Op::Page { field, value, .. } => {
                let typed = !value.starts_with('"') && scalar(value)?.json_type.is_some();
                sql::page(table, *format, field, typed).map_err(|e| OpError::new(ErrorKind::Refused, e.to_string()))?
            }
            Op::Prefix { prefix, .. } => statement(table.range(prefix, !prefix.is_empty())),
            Op::Scan { start, end, .. } => statement(table.range(start, end.is_some())),
            Op::Read { .. } | Op::BulkRead { .. } => statement(Kind::Read),
            Op::Exists { .. } => statement(Kind::Exists),
            Op::Query { text, .. } => study_queries::sql(table, text),
            Op::Delete { .. } | Op::BulkDelete { .. } => statement(Kind::Delete),
            Op::Replace { .. } => statement(Kind::Replace),
            Op::MergePatch { .. } => statement(Kind::Merge),
            Op::CompareAndSwap { .. } => statement(Kind::CompareAndSwap),
            _ => return Ok(None),
        };
        let run = || {
            let mut statement = self.prepared.connection().prepare(&format!("EXPLAIN QUERY PLAN {text}"))?;
            let mut rows = statement.raw_query();
            let mut lines = Vec::new();
            while let Some(row) = rows.next()? {
                lines.push(row.get(3)?);
            }
            Ok(lines)
        };
        run().map(Some).map_err(|e| op_error(&e))
    }
}

impl Session for SqliteSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        // `run` completes the operation last, so an error means that it has not.
        if let Err(error) = self.run(request, token, out) {
            out.complete(token, Err(error));
        }
    }
}

pub(super) const BUSY: OpError = OpError {
    kind: ErrorKind::Temporary,
    message: std::borrow::Cow::Borrowed("other sessions held the write lock until the timeout"),
};

fn text(key: &str) -> Bound<'_> {
    Bound::Text(key.as_bytes())
}

#[inline]
fn bind(statement: &mut Statement<'static>, values: &[Bound<'_>]) -> Result<(), OpError> {
    for (position, value) in values.iter().enumerate() {
        statement.raw_bind_parameter(position + 1, *value).map_err(|e| op_error(&e))?;
    }
    Ok(())
}

/// A column's bytes. An integer is formatted into the scratch buffer.
#[inline]
fn bytes_of<'a>(value: ValueRef<'a>, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], OpError> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes),
        ValueRef::Integer(number) => {
            document::write_counter(number, scratch);
            Ok(scratch)
        }
        ValueRef::Real(_) | ValueRef::Null => {
            Err(OpError::new(ErrorKind::Failed, "the stored body is neither text, bytes nor an integer"))
        }
    }
}

/// The result of a read, unless the file changed meanwhile: a concurrent write looks like damage.
fn unchanged<T>(still: Option<&Still>, read: Result<T, OpError>) -> Result<T, OpError> {
    still.map_or(Ok(()), Still::check).map_err(|why| OpError::new(ErrorKind::Failed, why))?;
    read
}

/// Steps through the rows of `key, body`. A row without a document, in a table that Storebench did not create, is returned
/// with an empty one and rejected.
fn collect<'r>(
    statement: &mut Statement<'static>,
    found: &'r mut Collected,
    rejects: &'r mut Vec<Reject>,
) -> Result<Reply<'r>, OpError> {
    let mut number = Vec::new();
    rejects.clear();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|e| op_error(&e))? {
        let value = row.get_ref(1).map_err(|e| op_error(&e))?;
        let body = match value {
            ValueRef::Null | ValueRef::Real(_) => {
                let why = if value == ValueRef::Null { "its document is NULL" } else { "its document is a number" };
                rejects.push(Reject { item: found.documents() as usize, error: OpError::new(ErrorKind::Refused, why) });
                &[]
            }
            value => bytes_of(value, &mut number)?,
        };
        if !found.contents() {
            found.add("", body);
            continue;
        }
        let key = row.get_ref(0).map_err(|e| op_error(&e))?;
        let key =
            key.as_str().map_err(|e| OpError::new(ErrorKind::Failed, format!("a stored key is not text: {e}")))?;
        found.add(key, body);
    }
    Ok(Reply { rejects, ..found.reply() })
}

/// A JSON scalar to search for, and its JSON type if SQLite could confuse it with another value.
struct Scalar {
    value: Value,
    json_type: Option<&'static str>,
}

impl Scalar {
    fn bound(&self) -> Bound<'_> {
        match &self.value {
            Value::Bool(b) => Bound::Integer(i64::from(*b)),
            Value::Number(n) => match n.as_i64() {
                Some(whole) => Bound::Integer(whole),
                None => n.as_f64().map_or(Bound::Null, Bound::Real),
            },
            Value::String(text) => Bound::Text(text.as_bytes()),
            _ => Bound::Null,
        }
    }
}

fn scalar(text: &str) -> Result<Scalar, OpError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|e| OpError::new(ErrorKind::Refused, format!("`{text}` is not a JSON value: {e}")))?;
    let json_type = match &value {
        Value::Null => Some("null"),
        Value::Bool(true) => Some("true"),
        Value::Bool(false) => Some("false"),
        Value::Number(n) if n.as_i64().is_some_and(|n| n == 0 || n == 1) => Some("integer"),
        Value::String(text) if text.starts_with(['{', '[']) => Some("text"),
        Value::Number(_) | Value::String(_) => None,
        Value::Array(_) | Value::Object(_) => {
            return Err(OpError::new(ErrorKind::Refused, "a page looks for a text, number, bool or null"));
        }
    };
    Ok(Scalar { value, json_type })
}
