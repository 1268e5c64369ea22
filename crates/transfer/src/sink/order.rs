//! Applies records with the same key one at a time, in their original order.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use storebench_documents::by_hash::{ByHash, Hashes};
use storebench_engine::store::SameKeys;
use xxhash_rust::xxh3::xxh3_64;

use super::store::RecordOp;
use super::write_session::WriteSession;
use super::{Ended, Writer};
use crate::error::TransferError;
use crate::measure::Request;
use crate::records::Records;

/// Passes batches to a session in groups with one operation each. No group holds a key twice, and it is sent only if no
/// record in flight has one of its keys: what is tried again, or takes another connection, could otherwise overtake.
/// Groups stay in order. Two keys with the same 64-bit hash count as one, which only delays a group.
pub(super) struct InOrder<'a> {
    write_session: WriteSession<'a>,
    same: SameKeys,
    /// The operation and the records of each group.
    groups: VecDeque<(RecordOp, Records)>,
    /// Hashes of the keys in flight.
    keys: Hashes,
}

/// Most groups to send in one poll, as far as they are answered at once.
const AT_ONCE: usize = 16;

impl<'a> InOrder<'a> {
    /// `same` says which keys the store takes for one.
    pub(super) fn new(write_session: WriteSession<'a>, same: SameKeys) -> Self {
        Self { write_session, same, groups: VecDeque::new(), keys: Hashes::default() }
    }

    /// Passes on the groups that may be sent. Returns whether there were any.
    fn hand_over(&mut self) -> bool {
        let mut went = false;
        while self.write_session.has_room() {
            let Some((_, first)) = self.groups.front() else { break };
            if first.iter().any(|(key, _, _)| self.keys.contains(&hash(self.same, key))) {
                break;
            }
            let Some((verb, records)) = self.groups.pop_front() else { break };
            self.keys.extend(records.iter().map(|(key, _, _)| hash(self.same, key)));
            self.write_session.put_as(verb, records);
            went = true;
        }
        went
    }
}

fn hash(same: SameKeys, key: &str) -> u64 {
    xxh3_64(same.fold(key).as_bytes())
}

/// Groups records by position: those with the same operation that repeat their keys equally often. So a key is in each
/// group at most once, in the order of its records.
fn groups(records: &Records, usual: RecordOp, same: SameKeys) -> Vec<(RecordOp, Vec<usize>)> {
    let mut all: Vec<Vec<(RecordOp, Vec<usize>)>> = Vec::new();
    let mut seen: ByHash<usize> = ByHash::default();
    for (position, (key, _, _)) in records.iter().enumerate() {
        let times = seen.entry(hash(same, key)).or_default();
        if all.len() == *times {
            all.push(Vec::new());
        }
        let verb = records.mark_of(position).verb.unwrap_or(usual);
        match all[*times].iter_mut().find(|(known, _)| *known == verb) {
            Some((_, positions)) => positions.push(position),
            None => all[*times].push((verb, vec![position])),
        }
        *times += 1;
    }
    all.into_iter().flatten().collect()
}

impl Writer for InOrder<'_> {
    fn end(&mut self) -> Result<(), TransferError> {
        self.write_session.end()
    }

    fn has_room(&self) -> bool {
        self.groups.is_empty() && self.write_session.has_room()
    }

    fn put(&mut self, records: Records) -> Result<(), TransferError> {
        let groups = groups(&records, self.write_session.options.verb, self.same);
        if let [(verb, _)] = groups[..] {
            self.groups.push_back((verb, records));
        } else {
            for (verb, positions) in groups {
                let mut group = Records::new();
                records.pick(positions.into_iter(), &mut group);
                self.groups.push_back((verb, group));
            }
        }
        self.hand_over();
        Ok(())
    }

    fn disconnects(&self) -> u64 {
        self.write_session.disconnects()
    }

    fn requests(&mut self, into: &mut Vec<Request>) {
        self.write_session.requests(into);
    }

    fn poll(&mut self, cx: &mut Context<'_>, ended: &mut Vec<Ended>) -> Poll<Result<(), TransferError>> {
        for _ in 0..AT_ONCE {
            let known = ended.len();
            let polled = self.write_session.poll(cx, ended);
            for batch in &ended[known..] {
                for (key, _, _) in batch.records.iter() {
                    self.keys.remove(&hash(self.same, key));
                }
            }
            if matches!(polled, Poll::Ready(Err(_))) || !self.hand_over() {
                return polled;
            }
        }
        // Stores in this process answer at once. The thread has other work, too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Mark, Origin};

    fn grouped(records: &[(&str, Option<RecordOp>)]) -> Vec<(RecordOp, Vec<usize>)> {
        let mut all = Records::new();
        for (key, verb) in records {
            all.push(key, b"{}", Origin::default());
            all.mark(Mark { verb: *verb, expiry: None });
        }
        groups(&all, RecordOp::Merge, SameKeys::Exact)
    }

    #[test]
    fn a_key_that_comes_again_is_in_a_later_group() {
        use RecordOp::{Delete, Insert, Upsert};
        let of = |key, verb| (key, Some(verb));
        assert_eq!(
            grouped(&[of("a", Upsert), of("b", Delete), of("c", Upsert)]),
            [(Upsert, vec![0, 2]), (Delete, vec![1])]
        );
        assert_eq!(
            grouped(&[of("a", Upsert), of("b", Delete), of("a", Delete), of("c", Delete), of("a", Insert)]),
            [(Upsert, vec![0]), (Delete, vec![1, 3]), (Delete, vec![2]), (Insert, vec![4])]
        );
        assert_eq!(
            grouped(&[("a", None), ("a", None), ("b", None)]),
            [(RecordOp::Merge, vec![0, 2]), (RecordOp::Merge, vec![1])]
        );
    }
}
