//! Bulk operations: statements with many rows or keys. A statement is done as a whole or not at all, so items that the
//! server refuses are found by cutting the statement in two.

use std::collections::HashSet;

use mysql_async::Value;
use storebench_engine::store::{
    Batch, Collected, ErrorKind, OpError, OpKind, OwnedReply, Reject, Request, SameKeys, document,
};

use super::errors::{DUPLICATE, Fault};
use super::job::{Client, bytes_of, collect, size, value};
use super::session::{Connection, Done};
use super::sql::{Table, Text};
use crate::document::{EXISTS, NOT_SENT};
use crate::repeats::{Rounds, Within};

/// The most rows of a statement. A statement has at most 65,535 values.
const MOST_ROWS: usize = 16_384;

/// A bulk operation. It owns what it needs of the request.
pub(super) struct Bulk {
    pub(super) kind: OpKind,
    collection: u16,
    /// Keys and documents.
    items: Vec<[Value; 2]>,
    /// Items of statements that are still to be done, in reverse. No statement has a key twice.
    todo: Vec<Vec<usize>>,
    rejects: Vec<Reject>,
    contents: bool,
}

impl Bulk {
    pub(super) fn new(
        client: &Client,
        table: &Table,
        request: &Request<'_>,
        batch: Batch<'_>,
    ) -> Result<Self, OpError> {
        let (kind, collection) = (request.op.kind(), request.collection.0);
        let (mut items, mut rejects) = (Vec::with_capacity(batch.len()), Vec::new());
        for (item, (key, body)) in batch.iter().enumerate() {
            if matches!(kind, OpKind::BulkInsert | OpKind::BulkUpsert) {
                document::check(table.body, body)?;
            }
            let key = table.key_value(kind, key).unwrap_or_else(|error| {
                rejects.push(Reject { item, error });
                Value::NULL
            });
            items.push([key, value(body)]);
            let bytes = bytes(&items[item]);
            if bytes > client.most_bytes && rejects.last().is_none_or(|reject| reject.item != item) {
                rejects.push(Reject { item, error: client.too_large(bytes) });
            }
        }
        let mut rounds = Rounds::default();
        // Statements with common keys lock them in the same order.
        rounds.arrange(batch, Within::Key);
        let fits = |item: &usize| rejects.iter().all(|reject| reject.item != *item);
        let round = |round: std::ops::Range<usize>| rounds.order[round].iter().map(|item| *item as usize);
        let todo = rounds.ranges().rev().map(|range| round(range).filter(fits).collect()).collect();
        Ok(Self { kind, collection, items, todo, rejects, contents: request.contents })
    }

    fn cut(&mut self, mut piece: Vec<usize>) {
        let second = piece.split_off(piece.len() / 2);
        self.todo.extend([second, piece]);
    }

    fn reject(&mut self, piece: Vec<usize>, error: &OpError) {
        self.rejects.extend(piece.into_iter().map(|item| Reject { item, error: error.clone() }));
    }

    /// Runs the statement of a kind on the items of a piece.
    async fn execute(
        &self,
        kind: OpKind,
        table: &Table,
        connection: &mut Connection,
        piece: &[usize],
    ) -> Result<Done, Fault> {
        let items = piece.iter().map(|item| &self.items[*item]);
        let values = match kind {
            OpKind::BulkInsert | OpKind::BulkUpsert => items.flatten().cloned().collect(),
            OpKind::BulkRead if table.same != SameKeys::Exact => {
                items.flat_map(|[key, _]| [key.clone(), key.clone()]).collect()
            }
            _ => items.map(|[key, _]| key.clone()).collect(),
        };
        let text = Text::Many(kind, u32::try_from(piece.len()).unwrap_or(u32::MAX));
        connection.execute(self.collection, text, |text| table.text(text), values).await
    }
}

fn bytes([key, body]: &[Value; 2]) -> usize {
    size(key) + size(body)
}

/// Runs the statements of a bulk operation one after another. `broke` becomes true if the connection broke after a part
/// was done.
pub(super) async fn run(
    client: &Client,
    connection: &mut Connection,
    mut bulk: Bulk,
    broke: &mut bool,
) -> Result<OwnedReply, Fault> {
    let table = client.table(bulk.collection)?;
    let mut documents = 0;
    let mut found = Collected::default();
    found.begin(bulk.contents);
    while let Some(piece) = bulk.todo.pop() {
        if piece.is_empty() {
            continue;
        }
        let total: usize = piece.iter().map(|item| bytes(&bulk.items[*item])).sum();
        if piece.len() > MOST_ROWS || total > client.most_bytes {
            client.pool.count(|counters| counters.splits += 1);
            bulk.cut(piece);
            continue;
        }
        let (mut kind, mut fault) = match bulk.execute(bulk.kind, table, connection, &piece).await {
            Ok(done) if bulk.kind == OpKind::BulkRead => {
                collect(&mut found, done.rows)?;
                continue;
            }
            Ok(done) => {
                let written = if bulk.kind == OpKind::BulkDelete { done.affected } else { piece.len() as u64 };
                documents += u32::try_from(written).unwrap_or(u32::MAX);
                continue;
            }
            Err(fault) => (bulk.kind, fault),
        };
        if fault.code() == Some(DUPLICATE) && table.same == SameKeys::Exact {
            match bulk.execute(OpKind::Exists, table, connection, &piece).await {
                Ok(mut done) => {
                    let known: HashSet<Vec<u8>> = done.rows.iter_mut().filter_map(|row| bytes_of(row, 0)).collect();
                    let is_known =
                        |item: &usize| matches!(&bulk.items[*item][0], Value::Bytes(key) if known.contains(key));
                    let (known, rest): (Vec<_>, Vec<_>) = piece.iter().copied().partition(is_known);
                    if !known.is_empty() {
                        bulk.reject(known, &EXISTS);
                        bulk.todo.push(rest);
                        continue;
                    }
                }
                // The statement wrote nothing, but those before it did.
                Err(failed) => (kind, fault) = (OpKind::Exists, failed),
            }
        }
        *broke = fault.breaks();
        let error = fault.op_error(kind, false);
        if matches!(error.kind, ErrorKind::Refused | ErrorKind::Conflict) && !*broke {
            if piece.len() > 1 {
                bulk.cut(piece)
            } else {
                bulk.reject(piece, &error)
            }
            continue;
        }
        if documents == 0 && found.documents() == 0 && bulk.rejects.is_empty() {
            return Err(if *broke { Fault::Broken(error) } else { error.into() });
        }
        bulk.reject(piece, &error);
        let rest = std::mem::take(&mut bulk.todo).into_iter().flatten().collect();
        bulk.reject(rest, &NOT_SENT);
    }
    if bulk.kind == OpKind::BulkRead {
        return Ok(found.into_reply().rejects(bulk.rejects));
    }
    match bulk.rejects.first() {
        // An operation that is refused as a whole.
        Some(reject) if bulk.rejects.len() == bulk.items.len() && reject.error.kind == ErrorKind::Refused => {
            Err(reject.error.clone().into())
        }
        _ => {
            bulk.rejects.sort_by_key(|reject| reject.item);
            Ok(OwnedReply::documents(documents).rejects(bulk.rejects))
        }
    }
}
