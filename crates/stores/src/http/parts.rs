//! The state that bulk operations keep between their requests.

use std::collections::HashSet;
use std::ops::Range;

use storebench_documents::json::push_text;
use storebench_engine::store::document::NOT_SENT;
use storebench_engine::store::{BatchBuf, ErrorKind, OpError, Reject, Reply};

use crate::repeats::{Rounds, Within};

/// A bulk operation, split into parts.
#[derive(Debug, Default)]
pub(crate) struct Bulk {
    /// Keys and bodies of all items.
    pub(crate) items: BatchBuf,
    /// The items of the request in flight.
    pub(crate) part: Vec<u32>,
    /// Their revisions in the same order, as bodies, empty where there is no document. Either for all items or for none.
    pub(crate) revisions: BatchBuf,
    /// The parts that were not sent yet.
    pub(crate) waiting: Vec<Vec<u32>>,
    pub(crate) written: usize,
    pub(crate) rejects: Vec<Reject>,
}

impl Bulk {
    /// Resets all state.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.part.clear();
        self.revisions.clear();
        self.waiting.clear();
        self.written = 0;
        self.rejects.clear();
    }

    /// Keeps one item of each key in the part, and moves repeated keys to later parts. How a server handles a request
    /// that names a document twice depends on the documents.
    pub(crate) fn part_repeated(&mut self) {
        let mut rounds = Rounds::default();
        rounds.arrange(self.items.as_batch(), Within::Given);
        if rounds.ends.len() < 2 {
            return;
        }
        let sent: HashSet<u32> = self.part.drain(..).collect();
        let of = |round: Range<usize>| rounds.order[round].iter().copied().filter(|n| sent.contains(n)).collect();
        self.waiting.extend(rounds.ranges().rev().map(of));
        self.next_part();
    }

    /// The key and body of an item.
    pub(crate) fn item(&self, number: u32) -> (&str, &[u8]) {
        self.items.as_batch().get(number as usize).unwrap_or_default()
    }

    /// Appends the keys of the request in flight as a JSON array.
    pub(crate) fn push_part_keys(&self, into: &mut Vec<u8>) {
        into.push(b'[');
        for (position, key) in self.part_keys().enumerate() {
            if position > 0 {
                into.push(b',');
            }
            push_text(key, into);
        }
        into.push(b']');
    }

    /// The keys of the request in flight.
    pub(crate) fn part_keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.part.iter().map(|number| self.item(*number).0)
    }

    /// Fails one item.
    pub(crate) fn reject(&mut self, number: u32, error: OpError) {
        self.rejects.push(Reject { item: number as usize, error });
    }

    /// Fails all items of the request in flight.
    pub(crate) fn reject_part(&mut self, error: &OpError) {
        for number in std::mem::take(&mut self.part) {
            self.reject(number, error.clone());
        }
    }

    /// Takes the error of the request in flight.
    ///
    /// # Errors
    /// That error, if it is the outcome of the whole operation: of a read, or of a write without another request.
    pub(crate) fn fail(&mut self, error: OpError, reads: bool) -> Result<(), OpError> {
        let alone = self.written == 0 && self.waiting.is_empty() && self.rejects.is_empty();
        if alone || reads {
            return Err(error);
        }
        // The outcome of other documents is known, so report each document separately.
        self.reject_part(&error);
        if error.kind != ErrorKind::Refused {
            while self.next_part() {
                self.reject_part(&NOT_SENT);
            }
        }
        Ok(())
    }

    /// The reply of a write, at its end.
    pub(crate) fn reply(&self) -> Reply<'_> {
        Reply { rejects: &self.rejects, ..Reply::written(self.written) }
    }

    /// Keeps the first half of the part and queues the second. Returns false if the part has fewer than two documents.
    pub(crate) fn cut(&mut self) -> bool {
        if self.part.len() < 2 {
            return false;
        }
        let second = self.part.split_off(self.part.len() / 2);
        self.waiting.push(second);
        // The remaining items are sent or requested again.
        self.revisions.clear();
        true
    }

    /// Takes the next waiting part, if there is one.
    pub(crate) fn next_part(&mut self) -> bool {
        self.revisions.clear();
        let Some(part) = self.waiting.pop() else { return false };
        self.part = part;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_keep_their_places() {
        let mut bulk = Bulk::default();
        for _ in 0..2 {
            for text in ["1-a", "", "22-bc"] {
                bulk.revisions.push("", text.as_bytes());
            }
            let get = |position| bulk.revisions.as_batch().get(position).map(|(_, revision)| revision);
            assert_eq!(get(0), Some(&b"1-a"[..]));
            assert_eq!(get(1), Some(&b""[..]));
            assert_eq!(get(2), Some(&b"22-bc"[..]));
            assert_eq!(get(3), None);
            bulk.clear();
            assert!(bulk.revisions.is_empty());
        }
    }
}
