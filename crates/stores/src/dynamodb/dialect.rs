//! Encodes operations as DynamoDB requests.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use storebench_documents::json::{self, push_text};
use storebench_engine::store::{ErrorKind, Op, OpError, OpKind, Reply, Request};

use super::errors::{self, CONDITION, Consumed, fault};
use super::item;
use super::memory::{Awaits, DynamoMemory, More};
use super::table::{BODY, EXPIRES, REVISION, Table, indexed, push_scalar};
use crate::document::{self, CHANGED, EXISTS, OVERFLOW};
use crate::http::aws::{Signer, push};
use crate::http::{Answer, CONTENDED, Dialect, Method, Next, RequestBuf, TRIES, senseless};
use crate::refusals::{check_fits, refused};

/// The conditions of writes. `#k` is the hash key.
pub(super) const IS_NEW: &str = "attribute_not_exists(#k)";
const IS_THERE: &str = "attribute_exists(#k)";

/// What a session knows about its server and tables.
pub(crate) struct DynamoDialect {
    pub(super) tables: Arc<[Table]>,
    pub(super) signer: Signer,
    pub(super) read_only: bool,
    /// Whether reads must see every acknowledged write.
    pub(super) strong: bool,
    pub(super) consumed: Arc<Consumed>,
    pub(super) random: Rng,
    pub(super) scratch: Vec<u8>,
}

impl Dialect for DynamoDialect {
    type State = DynamoMemory;

    fn begin<'a>(&'a mut self, request: &Request<'_>, memory: &'a mut DynamoMemory, out: &mut RequestBuf) -> Next<'a> {
        Ok(if self.first(request, memory, out)? { None } else { Some(memory.reply()) })
    }

    fn answer<'a>(
        &'a mut self,
        memory: &'a mut DynamoMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        match memory.awaits {
            Awaits::BulkRead | Awaits::BulkWrite | Awaits::Each => self.bulk_answer(memory, answer, out),
            Awaits::Transaction | Awaits::Commit => self.transaction_answer(memory, answer, out),
            Awaits::Last => self.last(memory, &answer?, out),
            Awaits::Existence => match self.told(&answer?, false, [b"Item"])? {
                [Some(_)] => Err(CHANGED),
                [None] => Err(OpError::not_found()),
            },
            Awaits::Page => self.page(memory, &answer?, out),
            Awaits::Document => self.change(memory, &answer?, out).map(|()| None),
        }
    }
}

/// Whether the condition of a write was not met. Then nothing was done.
pub(super) fn is_conditional_failure(answer: &Answer<'_>) -> bool {
    answer.status == 400 && errors::name(answer) == CONDITION
}

/// Starts a request, up to the members that depend on the operation.
pub(super) fn open(reads: bool, out: &mut RequestBuf) -> &mut Vec<u8> {
    out.begin(Method::POST).raw("/");
    if reads {
        out.only_reads();
    }
    let body = out.body();
    push(body, &["{\"ReturnConsumedCapacity\":\"TOTAL\","]);
    body
}

/// Appends the name of a table.
pub(super) fn push_table(table: &Table, body: &mut Vec<u8>) {
    push(body, &["\"TableName\":\"", &table.name, "\""]);
}

/// Appends the name of a table and the key of a document.
pub(super) fn push_keyed(table: &Table, key: &str, body: &mut Vec<u8>) -> Result<(), OpError> {
    push_table(table, body);
    push(body, &[",\"Key\":{"]);
    table.push_key(key, body)?;
    body.push(b'}');
    Ok(())
}

/// Starts a request for one document.
fn start_keyed<'o>(table: &Table, key: &str, reads: bool, out: &'o mut RequestBuf) -> Result<&'o mut Vec<u8>, OpError> {
    let body = open(reads, out);
    push_keyed(table, key, body).map(|()| body)
}

/// Appends what `#k` stands for: the hash key.
fn push_key_name(table: &Table, body: &mut Vec<u8>) {
    push(body, &[",\"ExpressionAttributeNames\":{\"#k\":"]);
    push_text(&table.keys[0].name, body);
    body.push(b'}');
}

/// Appends the condition that a document still has this revision.
pub(super) fn push_unchanged(revision: &[u8], body: &mut Vec<u8>) {
    push(body, &[",\"ConditionExpression\":\"", REVISION, " = :e\",\"ExpressionAttributeValues\":{\":e\":"]);
    item::push(body, &[b"{\"S\":\"", revision, b"\"}}"]);
}

/// Appends a condition of a write.
pub(super) fn push_condition(table: &Table, condition: &str, body: &mut Vec<u8>) {
    push(body, &[",\"ConditionExpression\":\"", condition, "\""]);
    push_key_name(table, body);
}

impl DynamoDialect {
    /// Writes the first request of an operation. Returns false if there is nothing to request.
    fn first(
        &mut self,
        request: &Request<'_>,
        memory: &mut DynamoMemory,
        out: &mut RequestBuf,
    ) -> Result<bool, OpError> {
        let table = document::collection_of(request, &self.tables, self.read_only)?;
        memory.begin(request);
        let More { expected, expires, after, .. } = &mut memory.more;
        [expected, expires, after].into_iter().for_each(Vec::clear);
        let kind = request.op.kind();
        check_fits(kind, table.body())?;
        let keeps_revisions = !table.is_theirs();
        match request.op {
            Op::Read { key } | Op::Exists { key } => {
                memory.keep(key, b"");
                self.ask_document(Awaits::Last, memory, out)?;
            }
            Op::Insert { key, body } | Op::Upsert { key, body } | Op::Replace { key, body } => {
                memory.key.push_str(key);
                self.put(memory, body, out)?;
            }
            Op::Delete { key } => {
                memory.key.push_str(key);
                self.delete(memory, out)?;
            }
            Op::CompareAndSwap { key, expected, body } if keeps_revisions => {
                memory.key.push_str(key);
                if std::str::from_utf8(expected).is_ok_and(|expected| expected.parse::<u64>().is_ok()) {
                    memory.more.expected.extend_from_slice(expected);
                    self.put(memory, body, out)?;
                } else {
                    // No revision of this driver.
                    self.ask_document(Awaits::Existence, memory, out)?;
                }
            }
            Op::Append { key, bytes: payload }
            | Op::Prepend { key, bytes: payload }
            | Op::MergePatch { key, patch: payload }
                if keeps_revisions =>
            {
                memory.keep(key, payload);
                self.ask_document(Awaits::Document, memory, out)?;
            }
            Op::Counter { key, delta, initial } if keeps_revisions => {
                memory.key.push_str(key);
                (memory.delta, memory.initial) = (delta, initial);
                self.count(memory, out)?;
            }
            Op::Touch { key, expiry } if keeps_revisions && table.expires.is_some() => {
                memory.key.push_str(key);
                self.touch(memory, expiry, out)?;
            }
            Op::BulkWrite { items, .. } | Op::BulkDelete { keys: items } | Op::BulkRead { keys: items } => {
                return self.begin_bulk(items, memory, out);
            }
            Op::Transaction { steps, rolls_back, .. } if !self.tables.iter().any(Table::is_theirs) => {
                self.begin_transaction((steps, rolls_back), request.contents, memory, out)?;
            }
            Op::Page { field, value, limit } => return self.begin_page(field, value, limit, memory, out),
            _ => return Err(OpError::unsupported()),
        }
        Ok(true)
    }

    /// Requests the document, or whether it exists.
    fn ask_document(&mut self, awaits: Awaits, memory: &mut DynamoMemory, out: &mut RequestBuf) -> Result<(), OpError> {
        memory.awaits = awaits;
        let table = &self.tables[memory.collection];
        let body = start_keyed(table, &memory.key, true, out)?;
        // A change is based on the newest document.
        if self.strong || awaits != Awaits::Last {
            push(body, &[",\"ConsistentRead\":true"]);
        }
        if memory.kind == Some(OpKind::Exists) || awaits == Awaits::Existence {
            push(body, &[",\"ProjectionExpression\":\"#k\""]);
            push_key_name(table, body);
        }
        self.send("GetItem", out);
        Ok(())
    }

    /// Ends a request and signs it.
    pub(super) fn send(&mut self, operation: &str, out: &mut RequestBuf) {
        out.body().push(b'}');
        self.signer.sign(operation, out);
    }

    /// Stores a document, under the condition of its operation. If a revision is expected, only over that.
    pub(super) fn put(
        &mut self,
        memory: &mut DynamoMemory,
        document: &[u8],
        out: &mut RequestBuf,
    ) -> Result<(), OpError> {
        let table = &self.tables[memory.collection];
        draw(&mut self.random, &mut memory.revision);
        let body = open(false, out);
        push_table(table, body);
        push(body, &[",\"Item\":"]);
        table.push_item(&memory.key, &memory.revision, document, body)?;
        let More { expected, expires, .. } = &memory.more;
        if !expires.is_empty() {
            body.pop();
            item::push(body, &[b",\"", EXPIRES.as_bytes(), b"\":", expires, b"}"]);
        }
        match memory.kind {
            _ if !expected.is_empty() => push_unchanged(expected, body),
            Some(OpKind::Insert | OpKind::BulkInsert) => push_condition(table, IS_NEW, body),
            Some(OpKind::Replace) => push_condition(table, IS_THERE, body),
            _ => {}
        }
        self.send("PutItem", out);
        Ok(())
    }

    /// Removes a document, if it exists.
    pub(super) fn delete(&mut self, memory: &DynamoMemory, out: &mut RequestBuf) -> Result<(), OpError> {
        let table = &self.tables[memory.collection];
        push_condition(table, IS_THERE, start_keyed(table, &memory.key, false, out)?);
        self.send("DeleteItem", out);
        Ok(())
    }

    /// Adds to a counter, unless it would leave the range of a 64-bit integer.
    fn count(&mut self, memory: &mut DynamoMemory, out: &mut RequestBuf) -> Result<(), OpError> {
        let body = start_keyed(&self.tables[memory.collection], &memory.key, false, out)?;
        draw(&mut self.random, &mut memory.revision);
        let (delta, initial) = (i128::from(memory.delta), i128::from(memory.initial));
        let (within, end) = if delta < 0 { (">=", i64::MIN) } else { ("<=", i64::MAX) };
        let (before, bound) = (initial - delta, i128::from(end) - delta);
        let revision = String::from_utf8_lossy(&memory.revision);
        let text = format!(
            ",\"UpdateExpression\":\"SET {BODY} = if_not_exists({BODY}, :before) + :delta, {REVISION} = :revision\",\
             \"ConditionExpression\":\"attribute_not_exists({BODY}) OR {BODY} {within} :bound\",\
             \"ReturnValues\":\"ALL_NEW\",\"ExpressionAttributeValues\":{{\":before\":{{\"N\":\"{before}\"}},\
             \":delta\":{{\"N\":\"{delta}\"}},\":revision\":{{\"S\":\"{revision}\"}},\":bound\":{{\"N\":\"{bound}\"}}}}"
        );
        push(body, &[&text]);
        self.send("UpdateItem", out);
        Ok(())
    }

    /// Sets when a document expires.
    fn touch(&mut self, memory: &DynamoMemory, expiry: Duration, out: &mut RequestBuf) -> Result<(), OpError> {
        let table = &self.tables[memory.collection];
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Not before its time.
        let until = now.saturating_add(expiry).as_secs().saturating_add(1);
        let body = start_keyed(table, &memory.key, false, out)?;
        push(body, &[",\"UpdateExpression\":\"SET ", EXPIRES, " = :until\",\"ExpressionAttributeValues\":{"]);
        push(body, &["\":until\":{\"N\":\"", itoa::Buffer::new().format(until), "\"}}"]);
        push_condition(table, IS_THERE, body);
        self.send("UpdateItem", out);
        Ok(())
    }

    /// The members of an answer that have these names. Adds its consumed capacity.
    pub(super) fn told<'a, const N: usize>(
        &self,
        answer: &Answer<'a>,
        writes: bool,
        names: [&[u8]; N],
    ) -> Result<[Option<&'a [u8]>; N], OpError> {
        if !answer.is_success() {
            return Err(fault(answer, writes));
        }
        if !answer.body.starts_with(b"{") {
            return Err(senseless(answer, writes));
        }
        let mut told = [None; N];
        for member in json::members(answer.body) {
            if member.name == b"ConsumedCapacity" {
                self.consumed.add(member.value, writes);
            } else if let Some(number) = names.iter().position(|name| *name == member.name) {
                told[number] = Some(member.value);
            }
        }
        Ok(told)
    }

    /// The document of an item.
    pub(super) fn body_of<'a>(&'a mut self, collection: usize, item: &'a [u8]) -> Result<&'a [u8], OpError> {
        let body = self.tables[collection].body_of(item, &mut self.scratch);
        body.map_err(|why| OpError::new(ErrorKind::Failed, why))
    }

    /// Handles the answer to a request that completes the operation, if it succeeds.
    fn last<'a>(&'a mut self, memory: &'a mut DynamoMemory, answer: &Answer<'a>, out: &mut RequestBuf) -> Next<'a> {
        let kind = memory.kind.unwrap_or(OpKind::Read);
        if is_conditional_failure(answer) {
            memory.tries += 1;
            let next = match kind {
                OpKind::Insert => return Err(EXISTS),
                OpKind::Counter => return Err(OVERFLOW),
                OpKind::CompareAndSwap => Awaits::Existence,
                _ if memory.more.expected.is_empty() => return Err(OpError::not_found()),
                // Another client was faster than the change.
                _ if memory.tries > TRIES => return Err(CONTENDED),
                _ => Awaits::Document,
            };
            return self.ask_document(next, memory, out).map(|()| None);
        }
        let name: &[u8] = if kind == OpKind::Counter { b"Attributes" } else { b"Item" };
        let [found] = self.told(answer, kind.writes(), [name])?;
        if kind == OpKind::Read {
            memory.revision = found.and_then(revision_of).unwrap_or_default();
        }
        let own = !self.tables[memory.collection].is_theirs();
        let revision = Some(memory.revision.as_slice()).filter(|_| own);
        Ok(Some(match kind {
            OpKind::Read => {
                let body = self.body_of(memory.collection, found.ok_or(OpError::not_found())?)?;
                memory.document(body, revision)
            }
            OpKind::Exists => Reply::written(found.is_some().into()),
            OpKind::Counter => {
                let stored = self.body_of(memory.collection, found.ok_or_else(|| senseless(answer, true))?);
                let counter = stored.and_then(document::counter).map_err(|_| senseless(answer, true))?;
                Reply { counter: Some(counter), revision, ..Reply::written(1) }
            }
            OpKind::Delete | OpKind::Touch => Reply::written(1),
            _ => Reply { revision, ..Reply::written(1) },
        }))
    }

    /// Applies the change to the document read, and writes it over its revision.
    fn change(&mut self, memory: &mut DynamoMemory, answer: &Answer<'_>, out: &mut RequestBuf) -> Result<(), OpError> {
        let [found] = self.told(answer, false, [b"Item"])?;
        let item = found.ok_or(OpError::not_found())?;
        memory.more.expected = revision_of(item).ok_or_else(|| senseless(answer, false))?;
        memory.more.expires = json::member(item, EXPIRES).unwrap_or_default().to_vec();
        let kind = self.tables[memory.collection].body();
        let (old, mut changed) = (self.body_of(memory.collection, item)?, Vec::new());
        memory.change(kind, Some(old), &mut changed)?;
        memory.awaits = Awaits::Last;
        self.put(memory, &changed, out)
    }

    /// Starts a page of an index. Returns false if it is certainly empty.
    fn begin_page(
        &mut self,
        field: &str,
        value: &str,
        limit: u32,
        memory: &mut DynamoMemory,
        out: &mut RequestBuf,
    ) -> Result<bool, OpError> {
        let table = &self.tables[memory.collection];
        let Some(index) = table.index_over(field) else {
            return Err(refused(format!("the table `{}` has no index over `{field}` with whole items", table.name)));
        };
        let Some(value) = indexed(&table.indexes[index], table.is_theirs(), value.trim().as_bytes()) else {
            return Ok(false);
        };
        (memory.awaits, memory.more.index, memory.left) = (Awaits::Page, index, limit);
        memory.payload.extend_from_slice(value.as_bytes());
        if limit == 0 || value.is_empty() {
            return Ok(false);
        }
        self.ask_page(memory, out);
        Ok(true)
    }

    fn ask_page(&mut self, memory: &DynamoMemory, out: &mut RequestBuf) {
        let table = &self.tables[memory.collection];
        let index = &table.indexes[memory.more.index];
        let body = open(true, out);
        push_table(table, body);
        match &*index.name {
            "" if self.strong => push(body, &[",\"ConsistentRead\":true"]),
            "" => {}
            name => push(body, &[",\"IndexName\":\"", name, "\""]),
        }
        push(body, &[",\"KeyConditionExpression\":\"#f = :v\",\"ExpressionAttributeNames\":{\"#f\":"]);
        push_text(&index.attribute.name, body);
        push(body, &["},\"ExpressionAttributeValues\":{\":v\":"]);
        push_scalar(index.attribute.kind, &String::from_utf8_lossy(&memory.payload), body);
        push(body, &["},\"Limit\":", itoa::Buffer::new().format(memory.left)]);
        if !memory.more.after.is_empty() {
            item::push(body, &[b",\"ExclusiveStartKey\":", &memory.more.after]);
        }
        self.send("Query", out);
    }

    /// Handles a page, and requests the next one if the page had to end early: at 1 MB.
    fn page<'a>(&mut self, memory: &'a mut DynamoMemory, answer: &Answer<'_>, out: &mut RequestBuf) -> Next<'a> {
        let [items, last] = self.told(answer, false, [b"Items", b"LastEvaluatedKey"])?;
        for item in json::elements(items.ok_or_else(|| senseless(answer, false))?).take(memory.left as usize) {
            memory.left -= 1;
            self.add(memory, item)?;
        }
        let Some(last) = last.filter(|_| memory.left > 0) else { return Ok(Some(memory.found.reply())) };
        memory.more.after = last.to_vec();
        self.ask_page(memory, out);
        Ok(None)
    }

    /// Adds an item to the documents that were found. Returns its key.
    pub(super) fn add<'a>(
        &mut self,
        memory: &mut DynamoMemory,
        item: &'a [u8],
    ) -> Result<Option<Cow<'a, str>>, OpError> {
        let key = self.tables[memory.collection].key_of(item);
        if let Some(key) = &key {
            let body = self.body_of(memory.collection, item)?;
            memory.found.add(key, body);
        }
        Ok(key)
    }
}

/// Draws a revision that no earlier write of the document has.
pub(super) fn draw(random: &mut Rng, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(itoa::Buffer::new().format(random.u64(..)).as_bytes());
}

/// The revision of an item; none if it has none.
pub(super) fn revision_of(item: &[u8]) -> Option<Vec<u8>> {
    let value = json::members(json::member(item, REVISION)?).next()?.value;
    json::text(value).map(|revision| revision.into_owned().into_bytes())
}
