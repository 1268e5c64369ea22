//! Operations: what each sends, and what its answer means.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use mysql_async::prelude::Queryable;
use mysql_async::{Row, Value};
use storebench_engine::store::{
    Collected, CollectionId, ErrorKind, Isolation, Op, OpError, OpKind, OwnedReply, Request, Step, StepsFound, document,
};

use super::bulk::{self, Bulk};
use super::durability::Facts;
use super::errors::Fault;
use super::session::{Connection, Pool};
use super::sql::{Table, Text};
use super::study_queries::{self, Prepared};
use crate::document::nothing_written;
use crate::net::collection;
use crate::refusals::refused;
use crate::study_queries::{ByNumber, key_range};

/// What the operations of a session share.
pub(super) struct Client {
    tables: Arc<Vec<Table>>,
    queries: RefCell<Vec<ByNumber<Rc<Prepared>>>>,
    /// The most bytes of a statement.
    pub(super) most_bytes: usize,
    pub(super) pool: Pool,
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
    pub(super) fn new(tables: Arc<Vec<Table>>, facts: &Facts, pool: Pool) -> Self {
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
        let table = self.table(request.collection.0)?;
        match request.op {
            Op::Transaction { isolation, steps, rolls_back } => {
                Ok(Job::Transaction { isolation, steps: steps.to_vec(), rolls_back, contents: request.contents })
            }
            Op::BulkWrite { items, .. } | Op::BulkRead { keys: items } | Op::BulkDelete { keys: items } => {
                table.fits(request.op.kind())?;
                Ok(Job::Bulk(Bulk::new(self, table, request, items)?))
            }
            _ => self.plan(request, table).map(Job::One),
        }
    }

    fn plan(&self, request: &Request<'_>, table: &Table) -> Result<Plan, OpError> {
        let kind = request.op.kind();
        table.fits(kind)?;
        let mut query = None;
        let one = Text::One(kind);
        let text = |key: &str| table.key_value(kind, key);
        let document = |body: &[u8]| {
            document::check(table.body, body)?;
            Ok::<_, OpError>(value(body))
        };
        let (text, values) = match request.op {
            Op::Insert { key, body } | Op::Upsert { key, body } => (one, vec![text(key)?, document(body)?]),
            Op::Replace { key, body } => (one, vec![document(body)?, text(key)?]),
            Op::Append { key, bytes } | Op::Prepend { key, bytes } => (one, vec![value(bytes), text(key)?]),
            Op::Read { key } | Op::Exists { key } | Op::Delete { key } => (one, vec![text(key)?]),
            Op::Counter { key, delta, initial } => (one, vec![text(key)?, Value::Int(initial), Value::Int(delta)]),
            Op::CompareAndSwap { key, expected, body } => (one, vec![document(body)?, text(key)?, value(expected)]),
            Op::MergePatch { key, patch } => {
                if !patch.trim_ascii_start().starts_with(b"{") {
                    return Err(refused("a merge patch must be a JSON object"));
                }
                (one, vec![value(patch), text(key)?])
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
    if let Op::Page { field, value: wanted, limit } = *op {
        let (sought, twice) = table.sought(field, wanted);
        let mut values = vec![sought; 1 + usize::from(twice)];
        values.push(limit.into());
        return Some((Text::Page(field.into(), twice), values));
    }
    let (start, end, limit) = key_range(op)?;
    let bounds = [Some(start), end.as_deref()].into_iter().flatten().map(|key| value(key.as_bytes()));
    Some((Text::Range(end.is_some()), bounds.chain([limit.into()]).collect()))
}

/// How many bytes a value has in a statement, about.
pub(super) fn size(value: &Value) -> usize {
    if let Value::Bytes(bytes) = value { bytes.len() + 9 } else { 10 }
}

/// Runs an operation on a connection that it waits for.
pub(super) async fn run(client: &Client, job: Job) -> Result<OwnedReply, OpError> {
    let (_permit, mut connection) = client.pool.take().await?;
    let mut broke = false;
    let (kind, done) = match job {
        Job::One(plan) => (plan.kind, one(client, &mut connection, plan).await),
        Job::Bulk(bulk) => (bulk.kind, bulk::run(client, &mut connection, bulk, &mut broke).await),
        Job::Transaction { isolation, steps, rolls_back, contents } => {
            (OpKind::Transaction, transaction(client, &mut connection, isolation, &steps, rolls_back, contents).await)
        }
    };
    broke |= done.as_ref().is_err_and(Fault::breaks);
    client.pool.give_back(connection, broke);
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
    let sql = |text: &Text| query.as_ref().map_or_else(|| table.text(text), |prepared| Ok(prepared.sql.clone()));
    let done = connection.execute(collection, text, sql, values).await?;
    let mut found = Collected::default();
    found.begin(contents);
    match (kind, key) {
        (OpKind::Read, _) => {
            let mut row = done.rows.into_iter().next().ok_or(OpError::not_found())?;
            let body = bytes_of(&mut row, 0).ok_or(NULL)?;
            let reply = OwnedReply::documents(1).revision(body.clone());
            Ok(if contents { reply.body(body) } else { reply.bytes(body.len() as u64) })
        }
        (OpKind::Exists, _) => Ok(OwnedReply::documents(u32::from(!done.rows.is_empty()))),
        (OpKind::Prefix | OpKind::Scan | OpKind::Page, _) => {
            collect(&mut found, done.rows)?;
            Ok(found.into_reply())
        }
        (OpKind::Query, _) => {
            study_queries::collect(&mut found, done);
            Ok(found.into_reply())
        }
        (OpKind::Counter, _) => Ok(OwnedReply::documents(1).counter(done.last_id.unwrap_or(0).cast_signed())),
        _ if done.affected > 0 => Ok(OwnedReply::documents(1)),
        (_, None) => Err(nothing_written(kind).into()),
        // The statement does not say whether the document is missing or changed.
        (_, Some(key)) => {
            let exists = Text::One(OpKind::Exists);
            let asked = connection.execute(collection, exists, |text| table.text(text), vec![key]).await?;
            Err(if asked.rows.is_empty() { OpError::not_found() } else { document::CHANGED }.into())
        }
    }
}

/// The error of a row whose document is NULL.
const NULL: OpError =
    OpError::fixed(ErrorKind::Failed, "the document is NULL, or too large for the server's max_allowed_packet");

/// Collects rows of key and document.
pub(super) fn collect(found: &mut Collected, rows: Vec<Row>) -> Result<(), OpError> {
    for mut row in rows {
        let key = bytes_of(&mut row, 0).unwrap_or_default();
        let body = bytes_of(&mut row, 1).ok_or(NULL)?;
        found.add_measured(&key, body.len() as u64, &body);
    }
    Ok(())
}

/// The isolations, and the statements that begin a transaction. REPEATABLE READ alone does not undo the second of two
/// transactions that write a document. Reads of SERIALIZABLE lock what they find.
const ISOLATIONS: [(Isolation, &str); 3] = [
    (Isolation::ReadCommitted, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION"),
    (
        Isolation::Snapshot,
        "SET SESSION innodb_snapshot_isolation = ON; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION \
         WITH CONSISTENT SNAPSHOT",
    ),
    (Isolation::Serializable, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION"),
];

/// The isolations of a server. `snapshots`: whether it has `innodb_snapshot_isolation`.
pub(super) fn isolations(snapshots: bool) -> Vec<(Isolation, &'static str)> {
    ISOLATIONS.into_iter().filter(|(isolation, _)| snapshots || *isolation != Isolation::Snapshot).collect()
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
    let begin = ISOLATIONS.into_iter().find(|(known, _)| *known == isolation).ok_or(OpError::unsupported())?.1;
    connection.conn.query_drop(begin).await.map_err(|error| undone(error.into()))?;
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
        let committed = connection.conn.query_drop("COMMIT").await.map_err(Fault::from);
        // After an error, the transaction may still be open.
        committed.map_err(|fault| Fault::Broken(fault.op_error(OpKind::Transaction, true)))?;
        return Ok(found.reply(false).into());
    }
    match (connection.conn.query_drop("ROLLBACK").await, failed) {
        (Ok(()), None) => Ok(found.reply(true).into()),
        (Ok(()), Some(error)) => Err(error.into()),
        (Err(_), Some(error)) => Err(Fault::Broken(error)),
        (Err(lost), None) => Err(undone(lost.into())),
    }
}
