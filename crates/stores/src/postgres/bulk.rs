//! Bulk writes in progress, and their binary forms.
//!
//! A bulk insert is a binary COPY. COPY writes all of its rows or none. If it meets a key that already exists, it is
//! repeated as `INSERT … SELECT unnest(…) ON CONFLICT DO NOTHING RETURNING key`, which reports the new keys. A bulk
//! upsert is the same with `DO UPDATE`. If the server refuses a statement because of one of its items, the statement is
//! halved repeatedly until that item stands alone.
//!
//! Within a statement the rows are ordered by key, so that statements of several sessions lock common rows in the same
//! order and do not deadlock (40P01). A repeated key is written by a later statement: one `DO UPDATE` cannot update a
//! row twice, and of two items with the same key the later one wins.

use std::collections::HashSet;
use std::ops::Range;

use storebench_engine::store::{BatchBuf, BulkWrite, ErrorKind, OpError, OpKind, Reject, Token};

use super::wire::{self, ServerError};
use crate::document::EXISTS;
use crate::repeats::{Rounds, Within};

/// The most bytes in one statement. The server rejects messages of 1 GiB.
const PART_BYTES: usize = if cfg!(test) { 4 << 10 } else { 256 << 20 };

/// A bulk write in progress.
#[derive(Default)]
pub(super) struct Bulk {
    /// `None` once it was abandoned.
    pub(super) token: Option<Token>,
    /// Whether it inserts, and does not overwrite.
    inserts: bool,
    pub(super) collection: usize,
    pub(super) items: BatchBuf,
    pub(super) written: u32,
    pub(super) rejects: Vec<Reject>,
    /// The items, in the order in which they are written.
    rounds: Rounds,
    /// Parts of that order still to be done, in reverse. No part holds a key twice.
    todo: Vec<Range<usize>>,
    /// The part in flight.
    pub(super) now: Range<usize>,
    /// Keys that the server reports as new.
    new_keys: HashSet<String>,
    /// Whether the part in flight is a COPY.
    pub(super) copying: bool,
    /// Whether a part has been written, or an item rejected.
    pub(super) begun: bool,
}

impl Bulk {
    /// Begins a bulk write of the current items.
    pub(super) fn begin(&mut self, token: Token, kind: BulkWrite, collection: usize) {
        self.token = Some(token);
        self.inserts = kind == BulkWrite::Insert;
        self.collection = collection;
        self.written = 0;
        self.rejects.clear();
        self.todo.clear();
        self.rounds.arrange(self.items.as_batch(), Within::Key);
        self.todo.extend(self.rounds.ranges().rev());
        self.new_keys.clear();
        self.copying = self.inserts;
        self.begun = false;
    }

    pub(super) fn op(&self) -> OpKind {
        if self.inserts { OpKind::BulkInsert } else { OpKind::BulkUpsert }
    }

    /// The keys and documents of a part, in its order.
    pub(super) fn part(&self, part: &Range<usize>) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        let batch = self.items.as_batch();
        self.rounds.order[part.clone()].iter().filter_map(move |item| batch.get(*item as usize))
    }

    fn bytes_of(&self, part: &Range<usize>) -> usize {
        self.part(part).map(|(key, body)| key.len() + body.len()).sum()
    }

    fn cut(&mut self, part: Range<usize>) {
        let middle = part.start + part.len() / 2;
        self.todo.pop();
        self.todo.push(middle..part.end);
        self.todo.push(part.start..middle);
    }

    /// The next part, if there is one and the operation was not abandoned. A part that is too large for one statement
    /// is cut first, which `cuts` counts.
    pub(super) fn next_part(&mut self, cuts: &mut u64) -> Option<Range<usize>> {
        if self.token.is_none() {
            self.todo.clear();
        }
        while let Some(last) = self.todo.last().cloned() {
            if last.len() > 1 && !self.copying && self.bytes_of(&last) > PART_BYTES {
                self.cut(last);
                *cuts += 1;
                continue;
            }
            self.todo.pop();
            self.now = last.clone();
            return Some(last);
        }
        None
    }

    /// Records that a key of the part in flight was new.
    pub(super) fn is_new(&mut self, key: &[u8]) {
        self.new_keys.insert(String::from_utf8_lossy(key).into_owned());
    }

    /// The part in flight was written: `affected` rows.
    pub(super) fn part_done(&mut self, affected: u64) {
        self.begun = true;
        self.written += u32::try_from(affected).unwrap_or(u32::MAX);
        if self.inserts && !self.copying {
            for item in &self.rounds.order[self.now.clone()] {
                let item = *item as usize;
                let Some((key, _)) = self.items.as_batch().get(item) else { continue };
                if !self.new_keys.remove(key) {
                    self.rejects.push(Reject { item, error: EXISTS });
                }
            }
            self.new_keys.clear();
        }
        self.copying = false;
    }

    /// The part in flight was refused, so nothing of it was written. Returns the error if it ends the bulk write.
    /// Otherwise the next part is to be sent.
    pub(super) fn part_failed(&mut self, error: &ServerError, meaning: OpError, cuts: &mut u64) -> Option<OpError> {
        let part = self.now.clone();
        self.new_keys.clear();
        if self.copying && matches!(meaning.kind, ErrorKind::Conflict | ErrorKind::Refused) {
            self.copying = false;
            self.todo.push(part);
            return None;
        }
        // 21000: two keys of an upsert are equal in another program's table, as `7` and `007` are.
        // 42501 also says that a policy of the table refuses a row.
        let for_an_item = matches!(error.code.get(..2), Some("22" | "23" | "54"))
            || error.code == "21000"
            || error.code == "42501" && error.message.contains("new row violates row-level security");
        if !for_an_item {
            // The refusal is not due to one item, so the bulk write ends. Earlier parts may be written.
            return Some(if self.begun { unknown(&meaning) } else { meaning });
        }
        if part.len() <= 1 {
            let kind = if meaning.kind == ErrorKind::Failed { ErrorKind::Refused } else { meaning.kind };
            let item = self.rounds.order.get(part.start).map_or(part.start, |item| *item as usize);
            self.rejects.push(Reject { item, error: OpError { kind, ..meaning } });
            self.begun = true;
            return None;
        }
        if error.code.starts_with("54") {
            *cuts += 1;
        }
        self.todo.push(part.clone());
        self.cut(part);
        None
    }
}

/// The error of a bulk write of which only a part was written.
fn unknown(meaning: &OpError) -> OpError {
    OpError::new(ErrorKind::OutcomeUnknown, format!("a part of the documents was already written: {}", meaning.message))
}

/// Appends the rows of a COPY in binary form, complete
/// (<https://www.postgresql.org/docs/current/sql-copy.html>, binary format).
pub(super) fn copy_rows<'a>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = (&'a str, &'a [u8])>,
    mut put_body: impl FnMut(&mut Vec<u8>, &[u8]) -> Result<(), OpError>,
) -> Result<(), OpError> {
    const HEAD: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let mut items = items.peekable();
    let mut result = Ok(());
    let mut first = true;
    loop {
        wire::copy_data(out, |out| {
            let begin = out.len();
            if std::mem::take(&mut first) {
                out.extend_from_slice(HEAD);
            }
            while result.is_ok()
                && out.len() - begin < PART_BYTES
                && let Some((key, body)) = items.next()
            {
                out.extend_from_slice(&2u16.to_be_bytes());
                wire::put(out, key.as_bytes());
                result = put_body(out, body);
            }
            if items.peek().is_none() {
                out.extend_from_slice(&u16::MAX.to_be_bytes());
            }
        });
        if result.is_err() || items.peek().is_none() {
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(kind: BulkWrite, keys: &[&str]) -> Bulk {
        let mut bulk = Bulk::default();
        for key in keys {
            bulk.items.push(key, b"{}");
        }
        bulk.begin(Token(1), kind, 0);
        bulk
    }

    fn refused(code: &str) -> (ServerError, OpError) {
        let error = ServerError { code: code.into(), ..ServerError::default() };
        let meaning = super::super::errors::op_error(&error);
        (error, meaning)
    }

    #[test]
    fn a_bad_item_is_found_by_halves_in_order() {
        let mut bulk = bulk(BulkWrite::Upsert, &["a", "b", "c", "d", "e"]);
        let (error, meaning) = refused("22P02");
        let (mut cuts, mut sent) = (0, Vec::new());
        while let Some(part) = bulk.next_part(&mut cuts) {
            sent.push(part.clone());
            if part.contains(&3) {
                assert_eq!(bulk.part_failed(&error, meaning.clone(), &mut cuts), None);
            } else {
                bulk.part_done(part.len() as u64);
            }
        }
        assert_eq!(sent, [0..5, 0..2, 2..5, 2..3, 3..5, 3..4, 4..5]);
        assert_eq!((bulk.written, bulk.rejects.len(), bulk.rejects[0].item, cuts), (4, 1, 3, 0));
    }

    #[test]
    fn after_a_copy_that_conflicts_the_server_tells_what_is_new() {
        let mut bulk = bulk(BulkWrite::Insert, &["b", "a", "c"]);
        let mut cuts = 0;
        assert_eq!(bulk.next_part(&mut cuts), Some(0..3));
        let (error, meaning) = refused("23505");
        assert_eq!(bulk.part_failed(&error, meaning, &mut cuts), None);
        assert_eq!(bulk.next_part(&mut cuts), Some(0..3));
        bulk.is_new(b"a");
        bulk.part_done(1);
        let mut rejected: Vec<usize> = bulk.rejects.iter().map(|reject| reject.item).collect();
        rejected.sort_unstable();
        assert_eq!((bulk.written, rejected), (1, vec![0, 2]));
        assert_eq!(bulk.next_part(&mut cuts), None);
    }

    #[test]
    fn rows_are_in_the_order_of_their_keys_and_a_repeated_key_comes_later() {
        let mut bulk = bulk(BulkWrite::Upsert, &["c", "a", "c", "b", "c"]);
        let mut sent = Vec::new();
        while let Some(part) = bulk.next_part(&mut 0) {
            sent.push(bulk.part(&part).map(|(key, _)| key.to_owned()).collect::<String>());
            if sent.len() == 2 {
                let (error, meaning) = refused("22P02");
                assert_eq!(bulk.part_failed(&error, meaning, &mut 0), None);
            } else {
                bulk.part_done(part.len() as u64);
            }
        }
        assert_eq!(sent, ["abc", "c", "c"]);
        // The position of the item, not its position in the order of keys.
        assert_eq!((bulk.written, bulk.rejects.len(), bulk.rejects[0].item), (4, 1, 2));
    }

    #[test]
    fn what_is_no_items_fault_ends_the_whole() {
        let mut bulk = bulk(BulkWrite::Upsert, &["a", "b"]);
        let mut cuts = 0;
        bulk.next_part(&mut cuts);
        let (error, meaning) = refused("40P01");
        assert_eq!(bulk.part_failed(&error, meaning, &mut cuts).unwrap().kind, ErrorKind::Temporary);
        bulk.begun = true;
        let (error, meaning) = refused("53100");
        assert_eq!(bulk.part_failed(&error, meaning, &mut cuts).unwrap().kind, ErrorKind::OutcomeUnknown);
    }

    #[test]
    fn what_is_too_large_for_one_statement_is_cut_and_counted() {
        let mut bulk = Bulk::default();
        for key in ["a", "b", "c", "d", "e"] {
            bulk.items.push(key, &[b'x'; PART_BYTES / 2 - 1]);
        }
        bulk.begin(Token(1), BulkWrite::Upsert, 0);
        let (mut cuts, mut sent) = (0, Vec::new());
        while let Some(part) = bulk.next_part(&mut cuts) {
            sent.push(part.clone());
            bulk.part_done(part.len() as u64);
        }
        assert_eq!((sent, cuts), (vec![0..2, 2..3, 3..5], 2));
        // COPY takes any number of messages.
        bulk.begin(Token(1), BulkWrite::Insert, 0);
        assert_eq!(bulk.next_part(&mut cuts), Some(0..5));
        let mut out = Vec::new();
        copy_rows(&mut out, bulk.items.as_batch().iter(), |out, body| {
            wire::put(out, body);
            Ok(())
        })
        .unwrap();
        let (mut at, mut messages) = (0, 0);
        while let Ok(Some((b'd', bytes))) = wire::look(&out[at..]) {
            at += bytes;
            messages += 1;
        }
        assert_eq!((at, messages, &out[at - 2..]), (out.len(), 3, &[0xFF, 0xFF][..]));
    }

    #[test]
    fn an_abandoned_one_sends_nothing_more() {
        let mut bulk = bulk(BulkWrite::Upsert, &["a", "b"]);
        bulk.token = None;
        assert_eq!(bulk.next_part(&mut 0), None);
    }
}
