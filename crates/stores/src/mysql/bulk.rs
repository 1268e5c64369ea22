//! Bulk operations: statements with many rows or keys. A statement is done as a whole or not at all, so items that the
//! server refuses are found by cutting the statement in two.

use std::collections::{HashSet, VecDeque};

use mysql_async::prelude::Queryable;
use mysql_async::{Params, Value};
use storebench_engine::store::{Batch, Collected, ErrorKind, OpError, OpKind, OwnedReply, Reject, SameKeys, document};

use super::errors::{DUPLICATE, Fault};
use super::job::{Client, bytes_of, null_document, size, value};
use super::session::Connection;
use super::sql::{Table, Text};
use crate::document::{EXISTS, NOT_SENT};
use crate::repeats::{Rounds, Within};

/// The most rows of a statement. A statement has at most 65,535 values.
const MOST_ROWS: usize = 16_384;

/// A bulk operation. It owns what it needs of the request.
pub(super) struct Bulk {
    pub(super) kind: OpKind,
    collection: u16,
    items: Vec<Item>,
    /// Items that one statement may have: each key once, in their order.
    rounds: Vec<Vec<usize>>,
    contents: bool,
}

struct Item {
    key: Value,
    body: Value,
}

impl Bulk {
    pub(super) fn new(
        kind: OpKind,
        collection: u16,
        batch: Batch<'_>,
        contents: bool,
        table: &Table,
    ) -> Result<Self, OpError> {
        let mut items = Vec::with_capacity(batch.len());
        for (key, body) in batch.iter() {
            if kind.writes() && kind != OpKind::BulkDelete {
                document::check(table.body, body)?;
            }
            items.push(Item { key: value(key.as_bytes()), body: value(body) });
        }
        let mut rounds = Rounds::default();
        // Statements with common keys lock them in the same order.
        rounds.arrange(batch, Within::Key);
        let rounds = rounds.ranges().map(|round| rounds.order[round].iter().map(|item| *item as usize).collect());
        Ok(Self { kind, collection, rounds: rounds.collect(), items, contents })
    }

    fn bytes(&self, item: usize) -> usize {
        size(&self.items[item].key) + size(&self.items[item].body)
    }

    /// Cuts the rounds into statements that the server takes. Items that are too large are rejected.
    fn pieces(&self, client: &Client, rejects: &mut Vec<Reject>) -> VecDeque<Vec<usize>> {
        let mut pieces = VecDeque::new();
        for round in &self.rounds {
            let (mut piece, mut total) = (Vec::new(), 0);
            for &item in round {
                let bytes = self.bytes(item);
                if bytes > client.most_bytes {
                    rejects.push(Reject { item, error: client.too_large(bytes) });
                    continue;
                }
                if total + bytes > client.most_bytes || piece.len() == MOST_ROWS {
                    pieces.push_back(std::mem::take(&mut piece));
                    total = 0;
                }
                total += bytes;
                piece.push(item);
            }
            if !piece.is_empty() {
                pieces.push_back(piece);
            }
        }
        let rounds = self.rounds.len();
        client.pool.borrow_mut().counters.splits += pieces.len().saturating_sub(rounds) as u64;
        pieces
    }

    /// The statement of a piece, and its values.
    fn statement(&self, table: &Table, piece: &[usize]) -> (Text, Vec<Value>) {
        let keys = |most: usize| {
            // So many different statements are not needed: a key that is repeated is found once.
            let last = piece.last().copied();
            piece.iter().copied().chain(last.into_iter().cycle()).take(most).map(|item| self.items[item].key.clone())
        };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let padded = piece.len().next_power_of_two();
        match self.kind {
            OpKind::BulkRead if table.same != SameKeys::Exact => {
                let twice = keys(piece.len()).flat_map(|key| [key.clone(), key]).collect();
                (Text::Many(self.kind, count(piece.len())), twice)
            }
            OpKind::BulkRead | OpKind::BulkDelete => (Text::Many(self.kind, count(padded)), keys(padded).collect()),
            _ => {
                let both = |item: &usize| [self.items[*item].key.clone(), self.items[*item].body.clone()];
                (Text::Many(self.kind, count(piece.len())), piece.iter().flat_map(both).collect())
            }
        }
    }

    /// The items of a piece whose keys exist.
    async fn known(&self, table: &Table, connection: &mut Connection, piece: &[usize]) -> Result<Vec<usize>, Fault> {
        let padded = piece.len().next_power_of_two();
        let text = Text::Known(u32::try_from(padded).unwrap_or(u32::MAX));
        let statement = connection.prepared(self.collection, text, |text| table.text(text)).await?;
        let key = |item: &usize| self.items[*item].key.clone();
        let mut keys: Vec<Value> = piece.iter().map(key).collect();
        keys.resize(padded, keys[0].clone());
        let found: HashSet<Vec<u8>> =
            connection.conn.exec(statement, Params::Positional(keys)).await?.into_iter().collect();
        let is_known = |item: &&usize| matches!(&self.items[**item].key, Value::Bytes(key) if found.contains(key));
        Ok(piece.iter().filter(is_known).copied().collect())
    }
}

/// Runs the statements of a bulk operation one after another. `broke` becomes true if the connection broke after a part
/// was done.
pub(super) async fn run(
    client: &Client,
    connection: &mut Connection,
    bulk: Bulk,
    broke: &mut bool,
) -> Result<OwnedReply, Fault> {
    let table = client.table(bulk.collection)?;
    let (mut rejects, mut documents) = (Vec::new(), 0);
    let mut found = Collected::default();
    found.begin(bulk.contents);
    let mut pieces = bulk.pieces(client, &mut rejects);
    while let Some(piece) = pieces.pop_front() {
        let fault = match run_piece(&bulk, table, connection, &piece, &mut found).await {
            Ok(done) => {
                documents += done;
                continue;
            }
            Err(fault) => fault,
        };
        if fault.code() == Some(DUPLICATE) && table.same == SameKeys::Exact {
            let known = bulk.known(table, connection, &piece).await?;
            if !known.is_empty() {
                let rest: Vec<usize> = piece.into_iter().filter(|item| !known.contains(item)).collect();
                rejects.extend(known.into_iter().map(|item| Reject { item, error: EXISTS }));
                if !rest.is_empty() {
                    pieces.push_front(rest);
                }
                continue;
            }
        }
        *broke = fault.breaks();
        let error = fault.op_error(bulk.kind, false);
        if matches!(error.kind, ErrorKind::Refused | ErrorKind::Conflict) && !*broke {
            if let (first, second @ [_, ..]) = piece.split_at(piece.len() / 2)
                && !first.is_empty()
            {
                pieces.push_front(second.to_vec());
                pieces.push_front(first.to_vec());
            } else {
                rejects.extend(piece.into_iter().map(|item| Reject { item, error: error.clone() }));
            }
            continue;
        }
        if documents == 0 && found.documents() == 0 && rejects.is_empty() {
            return Err(if *broke { Fault::Broken(error) } else { error.into() });
        }
        rejects.extend(piece.into_iter().map(|item| Reject { item, error: error.clone() }));
        rejects.extend(pieces.drain(..).flatten().map(|item| Reject { item, error: NOT_SENT }));
    }
    if bulk.kind == OpKind::BulkRead {
        return Ok(found.into_reply().rejects(rejects));
    }
    match rejects.first() {
        // An operation that is refused as a whole.
        Some(reject) if rejects.len() == bulk.items.len() && reject.error.kind == ErrorKind::Refused => {
            Err(reject.error.clone().into())
        }
        _ => {
            rejects.sort_by_key(|reject| reject.item);
            Ok(OwnedReply::documents(documents).rejects(rejects))
        }
    }
}

/// Runs one statement. Returns how many documents it wrote or removed.
async fn run_piece(
    bulk: &Bulk,
    table: &Table,
    connection: &mut Connection,
    piece: &[usize],
    found: &mut Collected,
) -> Result<u32, Fault> {
    let (text, values) = bulk.statement(table, piece);
    let statement = connection.prepared(bulk.collection, text, |text| table.text(text)).await?;
    let mut result = connection.conn.exec_iter(statement, Params::Positional(values)).await?;
    if bulk.kind == OpKind::BulkRead {
        while let Some(mut row) = result.next().await? {
            let key = bytes_of(&mut row, 0).unwrap_or_default();
            let body = bytes_of(&mut row, 1).ok_or_else(null_document)?;
            found.add_measured(&key, body.len() as u64, &body);
        }
        result.drop_result().await?;
        return Ok(0);
    }
    let affected = result.affected_rows();
    result.drop_result().await?;
    let written = if bulk.kind == OpKind::BulkDelete { affected } else { piece.len() as u64 };
    Ok(u32::try_from(written).unwrap_or(u32::MAX))
}
