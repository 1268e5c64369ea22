//! Operations: what each sends, and what its answer means.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use mysql_async::prelude::Queryable;
use mysql_async::{BinaryProtocol, Params, QueryResult, Row, Value};
use storebench_engine::store::{
    Collected, CollectionId, ErrorKind, Isolation, Op, OpError, OpKind, OwnedReply, Request, Step, StepsFound, document,
};

use super::bulk::{self, Bulk};
use super::durability::Facts;
use super::errors::Fault;
use super::session::{Connection, Held, Pool};
use super::sql::{Table, Text};
use super::study_queries::Prepared;
use crate::document::{nothing_written, prefix_end_text};
use crate::net::collection;
use crate::refusals::refused;
use crate::study_queries::ByNumber;

/// What the operations of a session share.
pub(super) struct Client {
    tables: Arc<Vec<Table>>,
    queries: RefCell<Vec<ByNumber<Rc<Prepared>>>>,
    /// The most bytes of a statement.
    pub(super) most_bytes: usize,
    pub(super) pool: RefCell<Pool>,
}

/// What an operation does. It owns what it needs of the request.
pub(super) enum Job {
    One(Plan),
    Bulk(Bulk),
    Transaction { isolation: Isolation, steps: Vec<Step>, rolls_back: bool, contents: bool },
}

/// One statement with its values.
pub(super) struct Plan {
    kind: OpKind,
    collection: u16,
    text: Text,
    values: Vec<Value>,
    contents: bool,
    query: Option<Rc<Prepared>>,
}

/// A key or a document as a value.
pub(super) fn value(bytes: &[u8]) -> Value {
    Value::Bytes(bytes.to_vec())
}

impl Client {
    pub(super) fn new(tables: Arc<Vec<Table>>, facts: &Facts, pool: RefCell<Pool>) -> Self {
        let queries = tables.iter().map(|_| ByNumber::default()).collect();
        // Room for the rest of a packet.
        Self { tables, queries: RefCell::new(queries), most_bytes: facts.max_packet().saturating_sub(1 << 10), pool }
    }

    pub(super) fn table(&self, id: u16) -> Result<&Table, OpError> {
        collection(&self.tables, CollectionId(id)).map_err(|error| refused(error.to_string()))
    }

    /// What a request does.
    ///
    /// # Errors
    /// *Refused* if the collection cannot have it, or if it is too large for the server.
    pub(super) fn job(&self, request: &Request<'_>) -> Result<Job, OpError> {
        let id = request.collection.0;
        let (kind, table) = (request.op.kind(), self.table(id)?);
        match request.op {
            Op::Transaction { isolation, steps, rolls_back } => {
                Ok(Job::Transaction { isolation, steps: steps.to_vec(), rolls_back, contents: request.contents })
            }
            Op::BulkWrite { items, .. } | Op::BulkRead { keys: items } | Op::BulkDelete { keys: items } => {
                table.fits(kind)?;
                Ok(Job::Bulk(Bulk::new(kind, id, items, request.contents, table)?))
            }
            _ => self.plan(request, table).map(Job::One),
        }
    }

    fn plan(&self, request: &Request<'_>, table: &Table) -> Result<Plan, OpError> {
        let kind = request.op.kind();
        table.fits(kind)?;
        let mut query = None;
        let one = Text::One(kind);
        let text = |text: &str| value(text.as_bytes());
        let document = |body: &[u8]| {
            document::check(table.body, body)?;
            Ok::<_, OpError>(value(body))
        };
        let (text, values) = match request.op {
            Op::Insert { key, body } | Op::Upsert { key, body } => (one, vec![text(key), document(body)?]),
            Op::Replace { key, body } => (one, vec![document(body)?, text(key)]),
            Op::Append { key, bytes } | Op::Prepend { key, bytes } => (one, vec![value(bytes), text(key)]),
            Op::Read { key } | Op::Exists { key } | Op::Delete { key } => (one, vec![text(key)]),
            Op::Counter { key, delta, initial } => (one, vec![text(key), Value::Int(initial), Value::Int(delta)]),
            Op::CompareAndSwap { key, expected, body } => (one, vec![document(body)?, text(key), value(expected)]),
            Op::MergePatch { key, patch } => {
                if !patch.trim_ascii_start().starts_with(b"{") {
                    return Err(refused("a merge patch must be a JSON object"));
                }
                (one, vec![value(patch), text(key)])
            }
            Op::Prefix { .. } | Op::Scan { .. } | Op::Page { .. } => {
                ranged(&request.op, table).ok_or(OpError::unsupported())?
            }
            Op::Query { number, text, values } => {
                let mut queries = self.queries.borrow_mut();
                let of_collection = queries.get_mut(request.collection.position()).ok_or(OpError::unsupported())?;
                let prepared = of_collection.get(number, || Prepared::new(table, text, values).map(Rc::new))?;
                let values = prepared.values(values);
                query = Some(Rc::clone(prepared));
                (Text::Query(number), values)
            }
            _ => return Err(OpError::unsupported()),
        };
        let bytes: usize = values.iter().map(size).sum();
        if bytes > self.most_bytes {
            return Err(self.too_large(bytes));
        }
        Ok(Plan { kind, collection: request.collection.0, text, values, contents: request.contents, query })
    }

    /// The error of a document that is too large for the server.
    pub(super) fn too_large(&self, bytes: usize) -> OpError {
        refused(format!(
            "{bytes} bytes are more than one statement may have ({}); raise max_allowed_packet on the server",
            self.most_bytes
        ))
    }
}

/// The statement of an operation that reads several documents, and its values. `None` for others.
pub(super) fn ranged(op: &Op<'_>, table: &Table) -> Option<(Text, Vec<Value>)> {
    let text = |text: &str| value(text.as_bytes());
    Some(match *op {
        Op::Prefix { prefix, limit } => match prefix_end_text(prefix) {
            Some(end) => (Text::Range(true), vec![text(prefix), text(&end), limit.into()]),
            None => (Text::Range(false), vec![text(prefix), limit.into()]),
        },
        Op::Scan { start, end: Some(end), limit } => (Text::Range(true), vec![text(start), text(end), limit.into()]),
        Op::Scan { start, end: None, limit } => (Text::Range(false), vec![text(start), limit.into()]),
        Op::Page { field, value: wanted, limit } => {
            let (sought, twice) = table.sought(field, wanted);
            let mut values = vec![sought; if twice { 2 } else { 1 }];
            values.push(limit.into());
            (Text::Page(field.into(), twice), values)
        }
        _ => return None,
    })
}

/// How many bytes a value has in a statement, about.
pub(super) fn size(value: &Value) -> usize {
    if let Value::Bytes(bytes) = value { bytes.len() + 9 } else { 10 }
}

/// Runs an operation on a connection that it waits for.
pub(super) async fn run(client: &Client, job: Job) -> Result<OwnedReply, OpError> {
    let mut held = Held::take(&client.pool).await?;
    let connection = held.connection()?;
    let mut broke = false;
    let (kind, done) = match job {
        Job::One(plan) => (plan.kind, one(client, connection, plan).await),
        Job::Bulk(bulk) => (bulk.kind, bulk::run(client, connection, bulk, &mut broke).await),
        Job::Transaction { isolation, steps, rolls_back, contents } => {
            (OpKind::Transaction, transaction(client, connection, isolation, &steps, rolls_back, contents).await)
        }
    };
    broke |= done.as_ref().is_err_and(Fault::breaks);
    held.give_back(broke);
    done.map_err(|fault| fault.op_error(kind, kind == OpKind::Transaction))
}

/// The bytes of a column that is text or binary.
pub(super) fn bytes_of(row: &mut Row, column: usize) -> Option<Vec<u8>> {
    match row.take(column)? {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

async fn one(client: &Client, connection: &mut Connection, plan: Plan) -> Result<OwnedReply, Fault> {
    let Plan { kind, collection, text, values, contents, query } = plan;
    let table = client.table(collection)?;
    let key = if kind == OpKind::CompareAndSwap { values.get(1).cloned() } else { None };
    let sql = |text: &Text| match &query {
        Some(prepared) => Ok(prepared.sql.clone()),
        None => table.text(text),
    };
    let statement = connection.prepared(collection, text, sql).await?;
    let mut result = connection.conn.exec_iter(statement, Params::Positional(values)).await?;
    match kind {
        OpKind::Read => {
            let mut row = result.next().await?.ok_or(OpError::not_found())?;
            result.drop_result().await?;
            let body = bytes_of(&mut row, 0).ok_or_else(null_document)?;
            let reply = OwnedReply::documents(1).revision(body.clone());
            Ok(if contents { reply.body(body) } else { reply.bytes(body.len() as u64) })
        }
        OpKind::Exists => {
            let found = result.next().await?.is_some();
            result.drop_result().await?;
            Ok(OwnedReply::documents(u32::from(found)))
        }
        OpKind::Prefix | OpKind::Scan | OpKind::Page => collect(result, contents).await,
        OpKind::Query => {
            let prepared = query.ok_or(OpError::unsupported())?;
            prepared.collect(result, contents).await
        }
        _ => {
            let (affected, last) = (result.affected_rows(), result.last_insert_id());
            result.drop_result().await?;
            if kind == OpKind::Counter {
                return Ok(OwnedReply::documents(1).counter(last.unwrap_or(0).cast_signed()));
            }
            if affected > 0 {
                return Ok(OwnedReply::documents(1));
            }
            // The statement does not say whether the document is missing or changed.
            let Some(key) = key else { return Err(nothing_written(kind).into()) };
            let exists = connection.prepared(collection, Text::One(OpKind::Exists), |text| table.text(text)).await?;
            let there: Option<u8> = connection.conn.exec_first(exists, vec![key]).await?;
            Err(if there.is_some() { document::CHANGED } else { OpError::not_found() }.into())
        }
    }
}

/// The error of a row whose document is NULL.
pub(super) fn null_document() -> OpError {
    OpError::fixed(ErrorKind::Failed, "the document is NULL, or too large for the server's max_allowed_packet")
}

/// Collects rows of key and document.
async fn collect(mut result: QueryResult<'_, '_, BinaryProtocol>, contents: bool) -> Result<OwnedReply, Fault> {
    let mut found = Collected::default();
    found.begin(contents);
    while let Some(mut row) = result.next().await? {
        let key = bytes_of(&mut row, 0).unwrap_or_default();
        let body = bytes_of(&mut row, 1).ok_or_else(null_document)?;
        found.add_measured(&key, body.len() as u64, &body);
    }
    result.drop_result().await?;
    Ok(found.into_reply())
}

/// The isolations, and how. REPEATABLE READ alone does not undo the second of two transactions that write a document.
pub(super) fn isolations(snapshots: bool) -> Vec<(Isolation, &'static str)> {
    let mut all = vec![
        (Isolation::ReadCommitted, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"),
        (Isolation::Serializable, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, where reads lock what they find"),
    ];
    if snapshots {
        all.insert(1, (Isolation::Snapshot, "REPEATABLE READ with innodb_snapshot_isolation=ON (MariaDB only)"));
    }
    all
}

fn begin(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION",
        Isolation::Snapshot => {
            "SET SESSION innodb_snapshot_isolation = ON; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START \
             TRANSACTION WITH CONSISTENT SNAPSHOT"
        }
        Isolation::Serializable => "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION",
    }
}

async fn transaction(
    client: &Client,
    connection: &mut Connection,
    isolation: Isolation,
    steps: &[Step],
    rolls_back: bool,
    contents: bool,
) -> Result<OwnedReply, Fault> {
    // What breaks before the COMMIT is undone by the server.
    let undone = |fault: Fault| {
        let why = fault.op_error(OpKind::Read, true).message;
        Fault::Broken(OpError::new(ErrorKind::Temporary, format!("{why}; the transaction was not committed")))
    };
    let mut found = StepsFound::default();
    found.begin(contents);
    connection.conn.query_drop(begin(isolation)).await.map_err(|error| undone(error.into()))?;
    let mut failed = None;
    for step in steps {
        let done = match step.request(contents).and_then(|request| {
            let table = client.table(request.collection.0)?;
            client.plan(&request, table)
        }) {
            Ok(plan) => one(client, connection, plan).await,
            Err(error) => Err(error.into()),
        };
        let kind = step.kind.unwrap_or(OpKind::Read);
        let added = match done {
            Err(fault) if fault.breaks() => return Err(undone(fault)),
            Err(fault) => found.add(kind, Err(fault.op_error(kind, true))),
            Ok(reply) => found.add(kind, Ok(reply.as_reply())),
        };
        if let Err(error) = added {
            failed = Some(error);
            break;
        }
    }
    if failed.is_none() && !rolls_back {
        // Without an answer, it may have been committed.
        connection.conn.query_drop("COMMIT").await?;
        return Ok(found.reply(false).into());
    }
    match (connection.conn.query_drop("ROLLBACK").await, failed) {
        (Ok(()), None) => Ok(found.reply(true).into()),
        (Ok(()), Some(error)) => Err(error.into()),
        (Err(_), Some(error)) => Err(Fault::Broken(error)),
        (Err(lost), None) => Err(undone(lost.into())),
    }
}
