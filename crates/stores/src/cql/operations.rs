//! What each operation sends.

use std::rc::Rc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use scylla::deserialize::row::ColumnIterator;
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::prepared::PreparedStatement;
use storebench_engine::store::{Batch, Collected, ErrorKind, Op, OpError, OpKind, OwnedReply, Reject, Request};

use super::errors::{Writes, is_disconnected, op_error};
use super::session::{Shared, Target};
use super::study_queries::Prepared;
use super::table::{NULL, term};
use super::values::{Bound, Raw};
use crate::document::{self, CHANGED, EXISTS, Effect, collection_of};
use crate::refusals::{check_fits, refused};
use crate::repeats::{Rounds, Within};

/// How many statements of one bulk operation are in flight.
const BULK_IN_FLIGHT: usize = 64;
/// The longest time that the server keeps a document that expires: 20 years, in seconds.
const LONGEST_EXPIRY_S: u64 = 630_720_000;

type Answer = Result<OwnedReply, OpError>;

impl Shared {
    /// Runs an operation. `batch` is that of the request.
    pub(super) async fn start(&self, request: &Request<'_>, batch: Batch<'_>) -> Answer {
        let target = collection_of(request, &self.targets, self.read_only)?;
        let (kind, contents) = (request.op.kind(), request.contents);
        match request.op {
            Op::BulkWrite { .. } | Op::BulkDelete { .. } | Op::BulkRead { .. } => {
                self.bulk(target, kind, batch, contents).await
            }
            Op::Page { field, value, limit } => self.page(target, field, value, limit, contents).await,
            Op::Query { number, text, .. } => self.query(target, number, text, batch, contents).await,
            op => self.one(target, op, contents).await,
        }
    }

    /// Runs a statement.
    async fn run(
        &self,
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
                Err(op_error(writes, &error))
            }
        }
    }

    async fn rows(
        &self,
        statement: Option<&PreparedStatement>,
        values: &[Bound<'_>],
    ) -> Result<QueryRowsResult, OpError> {
        self.run(Writes::No, statement, values).await?.ok_or(GARBLED)
    }

    /// Runs a lightweight transaction, with the errors if there is no document, and if its condition is false.
    async fn lwt(&self, statement: Option<&PreparedStatement>, values: &[Bound<'_>], errors: [OpError; 2]) -> Answer {
        let answer = self.run(Writes::Lwt, statement, values).await?;
        let row = answer.as_ref().and_then(|answer| first(answer).ok().flatten());
        match row.as_deref() {
            Some([Raw(Some([1])), ..]) => Ok(OwnedReply::documents(1)),
            // The values that a condition was compared with follow; all of them are null if there is no row.
            Some([Raw(Some([0])), rest @ ..]) => {
                Err(errors[usize::from(rest.iter().any(|cell| cell.0.is_some()))].clone())
            }
            _ => {
                Err(OpError::fixed(ErrorKind::OutcomeUnknown, "the server does not say whether it wrote the document"))
            }
        }
    }

    /// One operation on one document.
    async fn one(&self, target: &Target, op: Op<'_>, contents: bool) -> Answer {
        let (kind, table) = (op.kind(), &target.table);
        check_fits(kind, table.body)?;
        let statement = target.statements.get(&(kind, false));
        match op {
            Op::Read { key } => {
                let found = self.rows(statement, &table.key(key)?).await?;
                let row = first(&found)?.ok_or(OpError::not_found())?;
                let body = table.document_of(&row)?;
                let reply = OwnedReply::documents(1);
                Ok(match contents {
                    true if table.is_rows() => reply.body(body.into_owned()),
                    true => reply.revision(body.to_vec()).body(body.into_owned()),
                    false => reply.bytes(body.len() as u64),
                })
            }
            Op::Exists { key } => {
                let found = self.rows(statement, &table.key(key)?).await?;
                Ok(OwnedReply::documents(u32::from(found.rows_num() > 0)))
            }
            Op::Upsert { key, body } | Op::Insert { key, body } | Op::Replace { key, body } => {
                document::check(table.body, body)?;
                let mut values = table.document_values(body, kind == OpKind::Insert);
                values.extend(table.key(key)?);
                if kind == OpKind::Upsert && !self.all_lwt {
                    self.run(Writes::Plain, statement, &values).await?;
                    return Ok(OwnedReply::documents(1));
                }
                let error = match kind {
                    OpKind::Insert => EXISTS,
                    OpKind::Replace => OpError::not_found(),
                    _ => RESERVED,
                };
                self.lwt(statement, &values, [error.clone(), error]).await
            }
            Op::Delete { key } => {
                self.lwt(statement, &table.key(key)?, [OpError::not_found(), OpError::not_found()]).await
            }
            Op::CompareAndSwap { key, expected, body } => {
                document::check(table.body, body)?;
                self.swap(target, key, expected, body, None).await
            }
            Op::Append { key, .. } | Op::Prepend { key, .. } => self.change(target, key, &op).await,
            Op::Touch { key, .. } | Op::Counter { key, .. } => self.change(target, key, &op).await,
            Op::MergePatch { key, .. } => self.change(target, key, &op).await,
            _ => Err(OpError::unsupported()),
        }
    }

    /// Replaces a document by another one, which expires in so many seconds.
    async fn swap(&self, target: &Target, key: &str, expected: &[u8], body: &[u8], expires_in: Option<i32>) -> Answer {
        let mut values: Vec<Bound<'_>> = expires_in.map(Bound::Int).into_iter().collect();
        values.extend(target.table.document_values(body, false));
        values.extend(target.table.key(key)?);
        values.push(Bound::bytes(expected));
        let statement = target.statements.get(&(OpKind::CompareAndSwap, expires_in.is_some()));
        self.lwt(statement, &values, [OpError::not_found(), CHANGED]).await
    }

    /// Reads a document, computes the next one, and swaps them, until no other write comes in between.
    async fn change(&self, target: &Target, key: &str, op: &Op<'_>) -> Result<OwnedReply, OpError> {
        let mut scratch = Vec::new();
        loop {
            let found = self.rows(target.statements.get(&(OpKind::Read, true)), &target.table.key(key)?).await?;
            let row = first(&found)?;
            // The document, and in how many seconds it expires.
            let old = row.as_deref().and_then(|row| Some((row.first()?.0?, row.get(1).and_then(|ttl| ttl.int()))));
            let body = old.map(|(body, _)| body);
            if row.is_some() && body.is_none() && target.table.theirs {
                return Err(NULL);
            }
            let (next, ttl, counter) = match *op {
                Op::Touch { expiry, .. } => (body.ok_or(OpError::not_found())?, Some(whole_seconds(expiry)), None),
                _ => match document::effect(op, target.table.body, body, &mut scratch)? {
                    Effect::PutScratch { counter } => (&*scratch, old.and_then(|(_, ttl)| ttl), counter),
                    _ => return Err(OpError::unsupported()),
                },
            };
            let changed = match body {
                Some(body) => self.swap(target, key, body, next, ttl).await,
                None => {
                    let mut values = target.table.document_values(next, true);
                    values.extend(target.table.key(key)?);
                    self.lwt(target.statements.get(&(OpKind::Insert, false)), &values, [EXISTS, EXISTS]).await
                }
            };
            match changed {
                Ok(reply) => return Ok(if let Some(value) = counter { reply.counter(value) } else { reply }),
                Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn page(&self, target: &Target, field: &str, value: &str, limit: u32, contents: bool) -> Answer {
        let statement = target.pages.get(field).ok_or_else(|| refused(format!("there is no index of `{field}`")))?;
        let wanted = term(value.as_bytes()).ok_or_else(|| refused("a page needs a text, a number, true or false"))?;
        let values = [Bound::bytes(&wanted), Bound::Int(i32::try_from(limit).unwrap_or(i32::MAX))];
        let found = self.rows(Some(statement), &values).await?;
        let mut page = Collected::default();
        page.begin(contents);
        for row in rows_of(&found)? {
            let row = row?;
            let (key, body, _) = target.table.read_row(&row).ok_or(GARBLED)?;
            page.add(&key, &body?);
        }
        Ok(page.into_reply())
    }

    async fn query(&self, target: &Target, number: u16, text: &str, values: Batch<'_>, contents: bool) -> Answer {
        let known = target.queries.borrow().get(&number).cloned();
        let query = match known {
            Some(query) => query,
            None => {
                let mut made = Prepared::new(&self.link, &target.table, text, values).await?;
                made.statement.set_consistency(self.reads);
                Rc::clone(target.queries.borrow_mut().entry(number).insert_entry(Rc::new(made)).get())
            }
        };
        query.collect(&self.rows(Some(&query.statement), &query.values(values)?).await?, contents)
    }

    /// Runs an operation for each item, many at once. Items with the same key run one after the other. What does not
    /// exist is left out.
    async fn bulk(&self, target: &Target, kind: OpKind, items: Batch<'_>, contents: bool) -> Answer {
        let mut rounds = Rounds::default();
        rounds.arrange(items, Within::Given);
        let mut answers = Vec::with_capacity(items.len());
        for round in rounds.ranges() {
            let started = rounds.order[round].iter().map(|item| {
                let item = *item as usize;
                let (key, body) = items.get(item).unwrap_or_default();
                let op = match kind {
                    OpKind::BulkInsert => Op::Insert { key, body },
                    OpKind::BulkUpsert => Op::Upsert { key, body },
                    OpKind::BulkDelete => Op::Delete { key },
                    _ => Op::Read { key },
                };
                async move { (item, key, self.one(target, op, true).await) }
            });
            answers.extend(stream::iter(started).buffer_unordered(BULK_IN_FLIGHT).collect::<Vec<_>>().await);
        }
        answers.sort_unstable_by_key(|(item, ..)| *item);
        let (mut done, mut rejects, mut found) = (0, Vec::new(), Collected::default());
        found.begin(contents);
        for (item, key, answer) in answers {
            match answer {
                Ok(reply) if kind == OpKind::BulkRead => found.add(key, reply.as_reply().body.unwrap_or_default()),
                Ok(_) => done += 1,
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) if kind == OpKind::BulkRead => return Err(error),
                Err(error) => rejects.push(Reject { item, error }),
            }
        }
        Ok(if kind == OpKind::BulkRead { found.into_reply() } else { OwnedReply::documents(done).rejects(rejects) })
    }
}

/// A time as a TTL: whole seconds, as many as the server takes.
fn whole_seconds(expiry: Duration) -> i32 {
    let seconds = expiry.as_secs() + u64::from(expiry.subsec_nanos() > 0);
    i32::try_from(seconds.clamp(1, LONGEST_EXPIRY_S)).unwrap_or(i32::MAX)
}

pub(super) const GARBLED: OpError = OpError::fixed(ErrorKind::Failed, "the server's answer is invalid");
const RESERVED: OpError =
    OpError::fixed(ErrorKind::Refused, "the stored document equals a value that the driver reserves");

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
