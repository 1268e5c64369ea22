//! What each operation sends.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use scylla::deserialize::row::ColumnIterator;
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::prepared::PreparedStatement;
use storebench_engine::store::{
    Batch, BulkWrite, Collected, ErrorKind, Op, OpError, OpKind, OwnedReply, Reject, Request,
};

use super::errors::{Writes, is_disconnected, op_error};
use super::session::{Shared, Target, Verb};
use super::table::term;
use super::values::{Bound, Raw};
use crate::document::{self, CHANGED, EXISTS, Effect, collection_of};
use crate::refusals::{check_fits, refused};
use crate::repeats::{Rounds, Within};

/// How many statements of one bulk operation are in flight.
const BULK_IN_FLIGHT: usize = 64;
/// The longest time that the server keeps a document that expires: 20 years, in seconds.
const LONGEST_EXPIRY_S: u64 = 630_720_000;

impl Shared {
    /// Runs an operation.
    pub(super) async fn start(&self, request: &Request<'_>) -> Result<OwnedReply, OpError> {
        let target = collection_of(request, &self.targets, self.read_only)?;
        match request.op {
            Op::BulkWrite { kind: BulkWrite::Insert, items } => {
                self.bulk_write(target, items, |key, body| Op::Insert { key, body }).await
            }
            Op::BulkWrite { kind: BulkWrite::Upsert, items } => {
                self.bulk_write(target, items, |key, body| Op::Upsert { key, body }).await
            }
            Op::BulkDelete { keys } => self.bulk_write(target, keys, |key, _| Op::Delete { key }).await,
            Op::BulkRead { keys } => self.bulk_read(target, keys, request.contents).await,
            Op::Page { field, value, limit } => self.page(target, field, value, limit, request.contents).await,
            op => self.one(target, op, request.contents).await,
        }
    }

    /// Runs a statement.
    async fn run(
        &self,
        kind: OpKind,
        writes: Writes,
        statement: Option<&PreparedStatement>,
        values: &[Bound<'_>],
    ) -> Result<Option<QueryRowsResult>, OpError> {
        let statement = statement.ok_or(OpError::unsupported())?;
        match self.link.session.execute_unpaged(statement, values).await {
            Ok(answer) => {
                self.connected.set(true);
                Ok(answer.into_rows_result().ok())
            }
            Err(error) => {
                if is_disconnected(&error) && self.connected.replace(false) {
                    self.disconnects.set(self.disconnects.get() + 1);
                }
                Err(op_error(kind, writes, &error))
            }
        }
    }

    /// One operation on one document.
    async fn one(&self, target: &Target, op: Op<'_>, contents: bool) -> Result<OwnedReply, OpError> {
        let (kind, table) = (op.kind(), &target.table);
        check_fits(kind, table.body)?;
        match op {
            Op::Read { key } => {
                let found = self.rows(kind, target, Verb::Read, &table.key(key)?).await?;
                let row = first(&found)?.ok_or(OpError::not_found())?;
                let body = table.document_of(&row).ok_or(NULL)?;
                let reply = OwnedReply::documents(1);
                Ok(match contents {
                    true if table.is_rows() => reply.body(body.into_owned()),
                    true => reply.revision(body.to_vec()).body(body.into_owned()),
                    false => reply.bytes(body.len() as u64),
                })
            }
            Op::Exists { key } => {
                let found = self.rows(kind, target, Verb::Exists, &table.key(key)?).await?;
                Ok(OwnedReply::documents(u32::from(found.rows_num() > 0)))
            }
            Op::Upsert { key, body } | Op::Insert { key, body } | Op::Replace { key, body } => {
                document::check(table.body, body)?;
                let mut values = table.document_values(body, kind == OpKind::Insert);
                values.extend(table.key(key)?);
                let (verb, error) = match kind {
                    OpKind::Insert => (Verb::InsertNew, EXISTS),
                    OpKind::Replace => (Verb::Replace, OpError::not_found()),
                    _ if self.all_lwt => (Verb::Upsert, RESERVED),
                    _ => {
                        self.run(kind, Writes::Plain, target.statements.get(&Verb::Upsert), &values).await?;
                        return Ok(OwnedReply::documents(1));
                    }
                };
                done(self.lwt(kind, target, verb, &values).await?, &error, &error)
            }
            Op::Delete { key } => {
                let applied = self.lwt(kind, target, Verb::Delete, &table.key(key)?).await?;
                done(applied, &OpError::not_found(), &OpError::not_found())
            }
            Op::CompareAndSwap { key, expected, body } => {
                document::check(table.body, body)?;
                done(self.swap(kind, target, key, expected, body, None).await?, &OpError::not_found(), &CHANGED)
            }
            Op::Touch { key, .. }
            | Op::Append { key, .. }
            | Op::Prepend { key, .. }
            | Op::Counter { key, .. }
            | Op::MergePatch { key, .. } => self.change(target, key, &op).await,
            _ => Err(OpError::unsupported()),
        }
    }

    async fn rows(
        &self,
        kind: OpKind,
        target: &Target,
        verb: Verb,
        values: &[Bound<'_>],
    ) -> Result<QueryRowsResult, OpError> {
        self.run(kind, Writes::No, target.statements.get(&verb), values).await?.ok_or(GARBLED)
    }

    /// Runs a lightweight transaction.
    async fn lwt(&self, kind: OpKind, target: &Target, verb: Verb, values: &[Bound<'_>]) -> Result<Applied, OpError> {
        let answer = self.run(kind, Writes::Lwt, target.statements.get(&verb), values).await?;
        let row = answer.as_ref().and_then(|answer| first(answer).ok().flatten());
        match row.as_deref() {
            Some([Raw(Some([1])), ..]) => Ok(Applied::Yes),
            // The values that a condition was compared with follow; all of them are null if there is no row.
            Some([Raw(Some([0])), rest @ ..]) => {
                Ok(if rest.iter().any(|cell| cell.0.is_some()) { Applied::Differs } else { Applied::Missing })
            }
            _ => {
                Err(OpError::fixed(ErrorKind::OutcomeUnknown, "the server does not say whether it wrote the document"))
            }
        }
    }

    /// Replaces a document by another one, which expires in so many seconds.
    async fn swap(
        &self,
        kind: OpKind,
        target: &Target,
        key: &str,
        expected: &[u8],
        body: &[u8],
        expires_in: Option<i32>,
    ) -> Result<Applied, OpError> {
        let verb = if expires_in.is_some() { Verb::SwapWithTtl } else { Verb::Swap };
        let mut values: Vec<Bound<'_>> = expires_in.map(Bound::Int).into_iter().collect();
        values.extend(target.table.document_values(body, false));
        values.extend(target.table.key(key)?);
        values.push(Bound::bytes(expected));
        self.lwt(kind, target, verb, &values).await
    }

    /// The document as it is, and in how many seconds it expires.
    async fn now(&self, kind: OpKind, target: &Target, key: &str) -> Result<Option<(Vec<u8>, Option<i32>)>, OpError> {
        let found = self.rows(kind, target, Verb::ReadWithTtl, &target.table.key(key)?).await?;
        let row = first(&found)?;
        Ok(row.and_then(|row| Some((row.first()?.0?.to_vec(), row.get(1).and_then(|ttl| ttl.int())))))
    }

    /// Reads a document, computes the next one, and swaps them, until no other write comes in between.
    async fn change(&self, target: &Target, key: &str, op: &Op<'_>) -> Result<OwnedReply, OpError> {
        let (kind, mut scratch) = (op.kind(), Vec::new());
        loop {
            let old = self.now(kind, target, key).await?;
            let (body, ttl) = old.as_ref().map_or((None, None), |(body, ttl)| (Some(&**body), *ttl));
            let (next, ttl, counter) = match *op {
                Op::Touch { expiry, .. } => (body.ok_or(OpError::not_found())?, Some(whole_seconds(expiry)), None),
                _ => match document::effect(op, target.table.body, body, &mut scratch)? {
                    Effect::PutScratch { counter } => (&*scratch, ttl, counter),
                    _ => return Err(OpError::unsupported()),
                },
            };
            let applied = match body {
                Some(body) => self.swap(kind, target, key, body, next, ttl).await?,
                None => {
                    let mut values = target.table.document_values(next, true);
                    values.extend(target.table.key(key)?);
                    self.lwt(kind, target, Verb::InsertNew, &values).await?
                }
            };
            if applied == Applied::Yes {
                let reply = OwnedReply::documents(1);
                return Ok(if let Some(value) = counter { reply.counter(value) } else { reply });
            }
        }
    }

    async fn page(
        &self,
        target: &Target,
        field: &str,
        value: &str,
        limit: u32,
        contents: bool,
    ) -> Result<OwnedReply, OpError> {
        let Some(statement) = target.pages.get(field) else {
            return Err(refused(format!("there is no index of `{field}`")));
        };
        let wanted = term(value.as_bytes()).ok_or_else(|| refused("a page needs a text, a number, true or false"))?;
        let values = [Bound::bytes(&wanted), Bound::Int(i32::try_from(limit).unwrap_or(i32::MAX))];
        let found = self.run(OpKind::Page, Writes::No, Some(statement), &values).await?.ok_or(GARBLED)?;
        let mut page = Collected::default();
        page.begin(contents);
        for row in rows_of(&found)? {
            let row = row?;
            let (key, body) = row.split_at_checked(target.table.key_columns()).ok_or(GARBLED)?;
            let key = target.table.key_text(key).ok_or(GARBLED)?;
            page.add(&key, &target.table.document_of(body).ok_or(NULL)?);
        }
        Ok(page.into_reply())
    }

    /// Runs an operation for each item, many at once. Items with the same key run one after the other.
    async fn each<'a>(
        &self,
        target: &Target,
        items: Batch<'a>,
        op: impl Fn(&'a str, &'a [u8]) -> Op<'a>,
    ) -> Vec<(usize, Result<OwnedReply, OpError>)> {
        let mut rounds = Rounds::default();
        rounds.arrange(items, Within::Given);
        let mut all = Vec::with_capacity(items.len());
        for round in rounds.ranges() {
            let started = rounds.order[round].iter().map(|item| {
                let item = *item as usize;
                let (key, body) = items.get(item).unwrap_or_default();
                let op = op(key, body);
                async move { (item, self.one(target, op, true).await) }
            });
            let mut answers = stream::iter(started).buffer_unordered(BULK_IN_FLIGHT);
            while let Some(answer) = answers.next().await {
                all.push(answer);
            }
        }
        all.sort_unstable_by_key(|(item, _)| *item);
        all
    }

    /// Writes or removes documents. What does not exist is left out.
    async fn bulk_write<'a>(
        &self,
        target: &Target,
        items: Batch<'a>,
        op: impl Fn(&'a str, &'a [u8]) -> Op<'a>,
    ) -> Result<OwnedReply, OpError> {
        let (mut done, mut rejects) = (0, Vec::new());
        for (item, answer) in self.each(target, items, op).await {
            match answer {
                Ok(_) => done += 1,
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => rejects.push(Reject { item, error }),
            }
        }
        Ok(OwnedReply::documents(done).rejects(rejects))
    }

    async fn bulk_read(&self, target: &Target, keys: Batch<'_>, contents: bool) -> Result<OwnedReply, OpError> {
        let mut found = Collected::default();
        found.begin(contents);
        for (item, answer) in self.each(target, keys, |key, _| Op::Read { key }).await {
            match answer {
                Ok(reply) => {
                    let (key, _) = keys.get(item).unwrap_or_default();
                    found.add(key, reply.as_reply().body.unwrap_or_default());
                }
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found.into_reply())
    }
}

/// A time as a TTL: whole seconds, as many as the server takes.
fn whole_seconds(expiry: Duration) -> i32 {
    let seconds = expiry.as_secs() + u64::from(expiry.subsec_nanos() > 0);
    i32::try_from(seconds.clamp(1, LONGEST_EXPIRY_S)).unwrap_or(i32::MAX)
}

/// How a condition held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    Yes,
    /// There is a document, but not the expected one.
    Differs,
    Missing,
}

fn done(applied: Applied, missing: &OpError, differs: &OpError) -> Result<OwnedReply, OpError> {
    match applied {
        Applied::Yes => Ok(OwnedReply::documents(1)),
        Applied::Differs => Err(differs.clone()),
        Applied::Missing => Err(missing.clone()),
    }
}

const GARBLED: OpError = OpError::fixed(ErrorKind::Failed, "the server's answer is invalid");
const RESERVED: OpError =
    OpError::fixed(ErrorKind::Refused, "the document that is there has the one body that no document may have");
const NULL: OpError = OpError::fixed(ErrorKind::Failed, "the document is null");

type Cells<'f> = Vec<Raw<'f>>;

/// The rows of an answer.
pub(super) fn rows_of(rows: &QueryRowsResult) -> Result<impl Iterator<Item = Result<Cells<'_>, OpError>>, OpError> {
    let typed = rows.rows::<ColumnIterator<'_, '_>>().map_err(|_| GARBLED)?;
    Ok(typed.map(|columns| {
        let cells = columns.map_err(|_| GARBLED)?;
        cells.map(|cell| Ok(Raw(cell.map_err(|_| GARBLED)?.slice.map(|slice| slice.as_slice())))).collect()
    }))
}

fn first(rows: &QueryRowsResult) -> Result<Option<Cells<'_>>, OpError> {
    rows_of(rows)?.next().transpose()
}
