//! Writes of a session. Only one session of a store writes at a time.

use std::sync::Arc;

use storebench_engine::store::{
    Batch, BulkWrite, Completions, ErrorKind, Op, OpError, OpKind, Reject, Reply, SameKeys, Token,
};

use super::{BUSY, Collection, SqliteSession, bind, text};
use crate::document::{self, CHANGED, EXISTS, OVERFLOW, nothing_written, wrong_collection};
use crate::refusals::refused;
use crate::sqlite::errors::op_error;
use crate::sqlite::sql::{Format, Kind};
use crate::sqlite::statements::Bound;

/// Refuses a key of which the column would make another one: `1.0`, or a number of too many digits.
fn check_key(same: SameKeys, key: &str) -> Result<(), OpError> {
    let whole = || key.trim().parse::<i64>();
    let (fits, wanted) = match same {
        SameKeys::Integer => (whole().is_ok(), "a whole number of 64 bits"),
        SameKeys::Number => {
            // A column of reals keeps these, too.
            let exact = whole().is_ok_and(|whole| whole.unsigned_abs() < 1 << 53 && whole.to_string() == key);
            let number = key.trim().parse::<f64>().is_ok();
            (exact || !number, "no number, or a whole one of at most 15 digits, without zeros before it")
        }
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(refused(format!("the key `{key}` does not fit the column: a key must be {wanted}"))) }
}

impl SqliteSession {
    /// Writes once it is this session's turn, which lasts until the operation has completed.
    pub(super) fn write(
        &mut self,
        collection: usize,
        op: &Op<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        if matches!(op, Op::Counter { .. }) && self.collections[collection].format != Format::Counter {
            return Err(wrong_collection("counter works on collections of counters only"));
        }
        let writer = Arc::clone(&self.writer);
        let _turn = writer.acquire(self.timeout).ok_or(BUSY)?;
        let reply = match *op {
            Op::BulkWrite { kind, items } => self.bulk_write(collection, kind, items)?,
            Op::BulkDelete { keys } => self.bulk_delete(collection, keys)?,
            Op::Counter { key, delta, initial } => self.counter(collection, key, delta, initial)?,
            _ => self.write_now(collection, op)?,
        };
        out.complete(token, Ok(reply));
        Ok(())
    }

    /// Writes one document with one statement. The caller has the lock for writers.
    pub(in crate::sqlite) fn write_now<'r>(&mut self, collection: usize, op: &Op<'r>) -> Result<Reply<'r>, OpError> {
        let Collection { format, same, .. } = self.collections[collection];
        let mut put = |statement, key, body| {
            check_key(same, key)?;
            let body = bound(format, body)?;
            Ok::<_, OpError>((self.execute(collection, statement, &[text(key), body])?, Some(body)))
        };
        let (changed, revision) = match *op {
            Op::Insert { key, body } => put(Kind::Insert, key, body)?,
            Op::Upsert { key, body } => put(Kind::Upsert, key, body)?,
            Op::Replace { key, body } => put(Kind::Replace, key, body)?,
            Op::Append { key, bytes } if format == Format::Bytes => {
                (self.execute(collection, Kind::Append, &[text(key), Bound::Blob(bytes)])?, None)
            }
            Op::Prepend { key, bytes } if format == Format::Bytes => {
                (self.execute(collection, Kind::Prepend, &[text(key), Bound::Blob(bytes)])?, None)
            }
            Op::Append { .. } | Op::Prepend { .. } => {
                return Err(wrong_collection("append and prepend work on collections of bytes only"));
            }
            Op::Delete { key } => (self.execute(collection, Kind::Delete, &[text(key)])?, None),
            Op::CompareAndSwap { key, expected, body } => {
                let (body, expected) = (bound(format, body)?, bound(format, expected)?);
                let changed = self.execute(collection, Kind::CompareAndSwap, &[text(key), body, expected])?;
                if changed == 0 {
                    return Err(if self.exists(collection, key)? { CHANGED } else { OpError::not_found() });
                }
                (changed, Some(body))
            }
            Op::MergePatch { key, patch } if matches!(format, Format::Text | Format::Jsonb) => {
                (self.execute(collection, Kind::Merge, &[text(key), Bound::Text(patch)])?, None)
            }
            Op::MergePatch { .. } => return Err(wrong_collection("merge works on collections of JSON only")),
            _ => return Err(OpError::unsupported()),
        };
        if changed == 0 {
            return Err(if matches!(op, Op::Insert { .. }) { EXISTS } else { nothing_written(op.kind()) });
        }
        // The revision that a read would return. Binary JSON is formatted differently when it is read back.
        let revision = match revision {
            Some(Bound::Text(bytes) | Bound::Blob(bytes)) if format != Format::Jsonb => Some(bytes),
            _ => None,
        };
        Ok(Reply { revision, ..Reply::written(1) })
    }

    fn execute(&mut self, collection: usize, kind: Kind, values: &[Bound<'_>]) -> Result<usize, OpError> {
        let statement = self.statement(collection, kind)?;
        bind(statement, values)?;
        statement.raw_execute().map_err(|e| op_error(&e))
    }

    fn counter(&mut self, collection: usize, key: &str, delta: i64, initial: i64) -> Result<Reply<'_>, OpError> {
        check_key(self.collections[collection].same, key)?;
        let statement = self.statement(collection, Kind::Counter)?;
        bind(statement, &[text(key), Bound::Integer(delta), Bound::Integer(initial)])?;
        let mut rows = statement.raw_query();
        // A sum beyond 64 bits becomes a real, which the strict table rejects.
        let overflow = |e: rusqlite::Error| match op_error(&e) {
            error if error.kind == ErrorKind::Refused => OVERFLOW,
            error => error,
        };
        let row = rows.next().map_err(overflow)?;
        let value = row.and_then(|row| row.get_ref(0).ok()?.as_i64().ok());
        // The transaction ends with the statement's last step, not with its first row.
        rows.next().map_err(overflow)?;
        drop(rows);
        if value.is_none() {
            return Err(nothing_written(OpKind::Counter));
        }
        Ok(Reply { counter: value, ..Reply::written(1) })
    }

    fn bulk_write(&mut self, collection: usize, kind: BulkWrite, items: Batch<'_>) -> Result<Reply<'_>, OpError> {
        let Collection { format, same, .. } = self.collections[collection];
        let mut rejects = std::mem::take(&mut self.rejects);
        rejects.clear();
        let written = self.transaction(true, true, |session| {
            let mut written = 0;
            let which = match kind {
                BulkWrite::Insert => Kind::Insert,
                BulkWrite::Upsert => Kind::Upsert,
            };
            let statement = session.statement(collection, which)?;
            for (item, (key, body)) in items.iter().enumerate() {
                let body = match check_key(same, key).and_then(|()| bound(format, body)) {
                    Ok(body) => body,
                    Err(error) => {
                        rejects.push(Reject { item, error });
                        continue;
                    }
                };
                bind(statement, &[text(key), body])?;
                match statement.raw_execute().map_err(|e| op_error(&e)) {
                    Ok(0) if kind == BulkWrite::Insert => rejects.push(Reject { item, error: EXISTS }),
                    // A trigger of a user's own table may ignore an upsert, which the count then shows.
                    Ok(changed) => written += changed.min(1),
                    // Only this statement is rolled back, such as for a body that the table rejects.
                    Err(error) if matches!(error.kind, ErrorKind::Refused | ErrorKind::Conflict) => {
                        rejects.push(Reject { item, error });
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(written)
        });
        self.rejects = rejects;
        Ok(Reply { rejects: &self.rejects, ..Reply::written(written?) })
    }

    fn bulk_delete(&mut self, collection: usize, keys: Batch<'_>) -> Result<Reply<'_>, OpError> {
        let removed = self.transaction(true, true, |session| {
            let mut removed = 0;
            for (key, _) in keys.iter() {
                removed += session.execute(collection, Kind::Delete, &[text(key)])?;
            }
            Ok(removed)
        })?;
        Ok(Reply::written(removed))
    }
}

/// A body in the form of its column.
#[inline]
fn bound(format: Format, body: &[u8]) -> Result<Bound<'_>, OpError> {
    Ok(match format {
        Format::Text | Format::Jsonb => Bound::Text(body),
        Format::Bytes => Bound::Blob(body),
        Format::Counter => Bound::Integer(document::counter(body)?),
    })
}
