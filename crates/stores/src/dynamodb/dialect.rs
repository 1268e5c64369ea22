//! Encodes operations as DynamoDB requests.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use storebench_documents::json::{self, push_text};
use storebench_engine::store::{ErrorKind, Op, OpError, OpKind, Reply, Request};

use super::errors::{self, CONDITION, Consumed, fault, senseless};
use super::memory::{Awaits, DynamoMemory};
use super::sign::{Signer, push};
use super::table::{BODY, EXPIRES, REVISION, Table, indexed, push_scalar};
use crate::document::{self, CHANGED, EXISTS, Effect, OVERFLOW};
use crate::http::{Answer, Dialect, Method, Next, RequestBuf};
use crate::refusals::{check_fits, refused};

/// The maximum number of retries of a write after another client changed the document in between.
const TRIES: u32 = 20;

/// The conditions of writes. `#k` is the hash key.
pub(super) const IS_NEW: &str = "attribute_not_exists(#k)";
const IS_THERE: &str = "attribute_exists(#k)";

/// The error of a write that lost every race against other clients.
const CONTENDED: OpError = OpError::fixed(
    ErrorKind::Temporary,
    "other clients kept changing the document between read and write; nothing was written",
);

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

/// The parts of an answer.
#[derive(Default)]
pub(super) struct Told<'a> {
    /// `Item` of a read, `Attributes` of an update, `Responses` of a bulk read.
    pub(super) found: Option<&'a [u8]>,
    /// `Items` of a page.
    pub(super) items: Option<&'a [u8]>,
    pub(super) last_key: Option<&'a [u8]>,
    /// `UnprocessedKeys` or `UnprocessedItems`.
    pub(super) unprocessed: Option<&'a [u8]>,
}

impl Dialect for DynamoDialect {
    type State = DynamoMemory;

    fn begin<'a>(&'a mut self, request: &Request<'_>, memory: &'a mut DynamoMemory, out: &mut RequestBuf) -> Next<'a> {
        Ok(match self.first(request, memory, out)? {
            true => None,
            false if memory.kind.is_some_and(OpKind::writes) => Some(memory.bulk.reply()),
            false => Some(memory.found.reply()),
        })
    }

    fn answer<'a>(
        &'a mut self,
        memory: &'a mut DynamoMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        match memory.awaits {
            Awaits::BulkRead | Awaits::BulkWrite | Awaits::Each => self.bulk_answer(memory, answer, out),
            Awaits::Last => self.last(memory, &answer?, out),
            Awaits::Existence => match self.told(&answer?, false)?.found {
                Some(_) => Err(CHANGED),
                None => Err(OpError::not_found()),
            },
            Awaits::Page => self.page(memory, &answer?, out),
            Awaits::Document => self.change(memory, &answer?, out).map(|()| None),
            Awaits::Write => {
                let answer = answer?;
                if is_conditional_failure(&answer) {
                    memory.tries += 1;
                    if memory.tries > TRIES {
                        return Err(CONTENDED);
                    }
                    self.ask_document(Awaits::Document, memory, out)?;
                    return Ok(None);
                }
                self.told(&answer, true)?;
                Ok(Some(Reply { revision: Some(memory.revision.as_bytes()), ..Reply::written(1) }))
            }
        }
    }
}

/// Whether the condition of a write was not met. Then nothing was done.
pub(super) fn is_conditional_failure(answer: &Answer<'_>) -> bool {
    answer.status == 400 && errors::name(answer) == CONDITION
}

/// Starts a request to a table, up to the members that depend on the operation.
fn start<'o>(table: &Table, reads: bool, out: &'o mut RequestBuf) -> &'o mut Vec<u8> {
    out.begin(Method::POST).raw("/");
    if reads {
        out.only_reads();
    }
    let body = out.body();
    push(body, &["{\"ReturnConsumedCapacity\":\"TOTAL\",\"TableName\":\"", &table.name, "\""]);
    body
}

/// The same for one document.
fn start_keyed<'o>(table: &Table, key: &str, reads: bool, out: &'o mut RequestBuf) -> Result<&'o mut Vec<u8>, OpError> {
    let body = start(table, reads, out);
    push(body, &[",\"Key\":{"]);
    table.push_key(key, body)?;
    body.push(b'}');
    Ok(body)
}

/// Appends what `#k` stands for: the hash key.
fn push_key_name(table: &Table, body: &mut Vec<u8>) {
    push(body, &[",\"ExpressionAttributeNames\":{\"#k\":"]);
    push_text(&table.keys[0].name, body);
    body.push(b'}');
}

/// Appends a condition of a write.
fn push_condition(table: &Table, condition: &str, body: &mut Vec<u8>) {
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
        let kind = request.op.kind();
        check_fits(kind, table.body())?;
        let keeps_revisions = !table.is_theirs();
        match request.op {
            Op::Read { key } | Op::Exists { key } => {
                memory.keep(key, b"");
                self.ask_document(Awaits::Last, memory, out)?;
            }
            Op::Insert { key, body } | Op::Upsert { key, body } | Op::Replace { key, body } => {
                let condition = match kind {
                    OpKind::Insert => IS_NEW,
                    OpKind::Replace => IS_THERE,
                    _ => "",
                };
                memory.key.push_str(key);
                self.put(memory, body, condition, out)?;
            }
            Op::Delete { key } => {
                memory.key.push_str(key);
                self.delete(memory, out)?;
            }
            Op::CompareAndSwap { key, expected, body } if keeps_revisions => {
                memory.key.push_str(key);
                document::check(table.body(), body)?;
                match std::str::from_utf8(expected) {
                    Ok(expected) if expected.parse::<u64>().is_ok() => {
                        memory.expected.push_str(expected);
                        self.put(memory, body, "", out)?;
                    }
                    // No revision of this driver.
                    _ => self.ask_document(Awaits::Existence, memory, out)?,
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

    /// Stores a document. If a revision is expected, only over that.
    pub(super) fn put(
        &mut self,
        memory: &mut DynamoMemory,
        document: &[u8],
        condition: &str,
        out: &mut RequestBuf,
    ) -> Result<(), OpError> {
        let table = &self.tables[memory.collection];
        draw(&mut self.random, &mut memory.revision);
        let body = start(table, false, out);
        push(body, &[",\"Item\":"]);
        table.push_item(&memory.key, &memory.revision, document, body)?;
        if !memory.expires.is_empty() {
            body.pop();
            push(body, &[",\"", EXPIRES, "\":", &memory.expires, "}"]);
        }
        let expected = &memory.expected;
        if !expected.is_empty() {
            push(body, &[",\"ConditionExpression\":\"", REVISION, " = :e\",\"ExpressionAttributeValues\":{\":e\":"]);
            push(body, &["{\"S\":\"", expected, "\"}}"]);
        } else if !condition.is_empty() {
            push_condition(table, condition, body);
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
        let least = (i128::from(i64::MIN) - delta).max(i64::MIN.into());
        let greatest = (i128::from(i64::MAX) - delta).min(i64::MAX.into());
        let text = format!(
            ",\"UpdateExpression\":\"SET {BODY} = if_not_exists({BODY}, :before) + :delta, {REVISION} = :revision\",\
             \"ConditionExpression\":\"attribute_not_exists({BODY}) OR {BODY} BETWEEN :least AND :greatest\",\
             \"ReturnValues\":\"ALL_NEW\",\"ExpressionAttributeValues\":{{\":before\":{{\"N\":\"{}\"}},\
             \":delta\":{{\"N\":\"{delta}\"}},\":revision\":{{\"S\":\"{}\"}},\":least\":{{\"N\":\"{least}\"}},\
             \":greatest\":{{\"N\":\"{greatest}\"}}}}",
            initial - delta,
            memory.revision
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
        push(
            body,
            &[",\"UpdateExpression\":\"SET ", EXPIRES, " = :until\",\"ExpressionAttributeValues\":{\":until\":"],
        );
        push(body, &["{\"N\":\"", itoa::Buffer::new().format(until), "\"}}"]);
        push_condition(table, IS_THERE, body);
        self.send("UpdateItem", out);
        Ok(())
    }

    /// The parts of an answer, whose consumed capacity is added.
    pub(super) fn told<'a>(&self, answer: &Answer<'a>, writes: bool) -> Result<Told<'a>, OpError> {
        if !answer.is_success() {
            return Err(fault(answer, writes));
        }
        if !answer.body.starts_with(b"{") {
            return Err(senseless(answer, writes));
        }
        let mut told = Told::default();
        for member in json::members(answer.body) {
            match member.name {
                b"ConsumedCapacity" => self.consumed.add(member.value, writes),
                b"Item" | b"Attributes" | b"Responses" => told.found = Some(member.value),
                b"Items" => told.items = Some(member.value),
                b"LastEvaluatedKey" => told.last_key = Some(member.value),
                b"UnprocessedKeys" | b"UnprocessedItems" => told.unprocessed = Some(member.value),
                _ => {}
            }
        }
        Ok(told)
    }

    /// Handles the answer to an operation with a single request.
    fn last<'a>(&'a mut self, memory: &'a mut DynamoMemory, answer: &Answer<'a>, out: &mut RequestBuf) -> Next<'a> {
        let kind = memory.kind.unwrap_or(OpKind::Read);
        if is_conditional_failure(answer) {
            return Err(match kind {
                OpKind::Insert => EXISTS,
                OpKind::Counter => OVERFLOW,
                OpKind::CompareAndSwap => {
                    self.ask_document(Awaits::Existence, memory, out)?;
                    return Ok(None);
                }
                _ => OpError::not_found(),
            });
        }
        let told = self.told(answer, kind.writes())?;
        let table = &self.tables[memory.collection];
        let own = !table.is_theirs();
        if let Some(item) = told.found.filter(|_| kind == OpKind::Read) {
            memory.revision.clear();
            memory.revision.extend(revision_of(item));
        }
        let revision = Some(memory.revision.as_bytes()).filter(|_| own);
        match (kind, told.found) {
            (OpKind::Read, None) => Err(OpError::not_found()),
            (OpKind::Read, Some(item)) => {
                let body = table.body_of(item, &mut self.scratch);
                let body = body.map_err(|why| OpError::new(ErrorKind::Failed, why))?;
                Ok(Some(Reply {
                    documents: 1,
                    bytes: body.len() as u64,
                    body: memory.found.contents().then_some(body),
                    revision,
                    ..Reply::default()
                }))
            }
            (OpKind::Exists, found) => Ok(Some(Reply::written(found.is_some().into()))),
            (OpKind::Counter, found) => {
                let counter = || {
                    let bytes = table.body_of(found?, &mut self.scratch).ok()?;
                    std::str::from_utf8(bytes).ok()?.parse().ok()
                };
                let counter: i64 = { counter }().ok_or_else(|| senseless(answer, true))?;
                Ok(Some(Reply { counter: Some(counter), revision, ..Reply::written(1) }))
            }
            (OpKind::Delete | OpKind::Touch, _) => Ok(Some(Reply::written(1))),
            _ => Ok(Some(Reply { revision, ..Reply::written(1) })),
        }
    }

    /// Applies the change to the document read, and writes it over its revision.
    fn change(&mut self, memory: &mut DynamoMemory, answer: &Answer<'_>, out: &mut RequestBuf) -> Result<(), OpError> {
        let told = self.told(answer, false)?;
        let item = told.found.ok_or(OpError::not_found())?;
        let table = &self.tables[memory.collection];
        let old = table.body_of(item, &mut self.scratch);
        let old = old.map_err(|why| OpError::new(ErrorKind::Failed, why))?.to_vec();
        memory.expected = revision_of(item).ok_or_else(|| senseless(answer, false))?;
        let op = memory.op().ok_or(OpError::unsupported())?;
        let mut changed = Vec::new();
        match document::effect(&op, table.body(), Some(&old), &mut changed)? {
            Effect::PutScratch { .. } => {}
            Effect::Put(_) | Effect::Remove => return Err(OpError::unsupported()),
        }
        memory.awaits = Awaits::Write;
        memory.expires.clear();
        memory.expires.push_str(&String::from_utf8_lossy(json::member(item, EXPIRES).unwrap_or_default()));
        self.put(memory, &changed, "", out)
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
        let Some(index) = table.indexes.iter().position(|index| index.field == field) else {
            return Err(refused(format!("the table `{}` has no index over `{field}` with whole items", table.name)));
        };
        let Some(value) = indexed(&table.indexes[index], table.is_theirs(), value.trim().as_bytes()) else {
            return Ok(false);
        };
        (memory.awaits, memory.index, memory.left) = (Awaits::Page, index, limit);
        memory.payload.extend_from_slice(value.as_bytes());
        if limit == 0 || value.is_empty() {
            return Ok(false);
        }
        self.ask_page(memory, out);
        Ok(true)
    }

    fn ask_page(&mut self, memory: &DynamoMemory, out: &mut RequestBuf) {
        let table = &self.tables[memory.collection];
        let index = &table.indexes[memory.index];
        let body = start(table, true, out);
        push(body, &[",\"IndexName\":\"", &index.name, "\",\"KeyConditionExpression\":\"#f = :v\""]);
        push(body, &[",\"ExpressionAttributeNames\":{\"#f\":"]);
        push_text(&index.attribute.name, body);
        push(body, &["},\"ExpressionAttributeValues\":{\":v\":"]);
        push_scalar(index.attribute.kind, &String::from_utf8_lossy(&memory.payload), body);
        push(body, &["},\"Limit\":", itoa::Buffer::new().format(memory.left)]);
        if !memory.after.is_empty() {
            push(body, &[",\"ExclusiveStartKey\":"]);
            body.extend_from_slice(&memory.after);
        }
        self.send("Query", out);
    }

    /// Handles a page, and requests the next one if the page had to end early: at 1 MB.
    fn page<'a>(&mut self, memory: &'a mut DynamoMemory, answer: &Answer<'_>, out: &mut RequestBuf) -> Next<'a> {
        let told = self.told(answer, false)?;
        let table = &self.tables[memory.collection];
        for item in json::elements(told.items.ok_or_else(|| senseless(answer, false))?).take(memory.left as usize) {
            memory.left -= 1;
            let Some(key) = table.key_of(item) else { continue };
            let body = table.body_of(item, &mut self.scratch);
            memory.found.add(&key, body.map_err(|why| OpError::new(ErrorKind::Failed, why))?);
        }
        match told.last_key.filter(|_| memory.left > 0) {
            Some(last) => {
                memory.after.clear();
                memory.after.extend_from_slice(last);
                self.ask_page(memory, out);
                Ok(None)
            }
            None => Ok(Some(memory.found.reply())),
        }
    }
}

/// Draws a revision that no earlier write of the document has.
fn draw(random: &mut Rng, into: &mut String) {
    into.clear();
    // Writing into a String cannot fail.
    let _ = write!(into, "{}", random.u64(..));
}

/// The revision of an item; none if it has none.
fn revision_of(item: &[u8]) -> Option<String> {
    let value = json::members(json::member(item, REVISION)?).next()?.value;
    json::text(value).map(std::borrow::Cow::into_owned)
}
