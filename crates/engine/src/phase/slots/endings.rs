//! What the ledger and the consistency check learn of operations that have ended.

use super::{EXAMPLES, Ending, Operations};
use crate::ledger::{Floor, FoundAtKey, Misread};
use crate::measure::{Content, Did, HistoryOperation, LedgerReads};
use crate::phase::checked::key_text;
use crate::phase::clock::Clock;
use crate::phase::maker::{Maker, Task, leaves};
use crate::store::{ErrorKind, OpKind, Reject, Reply};

impl LedgerReads {
    fn note(&mut self, misread: Misread, example: impl FnOnce() -> String) {
        match misread {
            Misread::Stale => self.stale += 1,
            Misread::Backwards => self.backwards += 1,
        }
        if self.examples.len() < EXAMPLES {
            self.examples.push(example());
        }
    }
}

impl<C: Clock> Operations<C> {
    /// Records what a request of a followed document did. A write may have taken effect at its first try, a read was
    /// answered at its last one.
    pub(super) fn see(&mut self, slot: usize, did: Did, answered: bool) {
        let s = &self.slots[slot];
        let sent_ns = if let Did::Read(_) = did { s.tried_ns } else { s.requested_ns };
        self.seen.add(HistoryOperation {
            collection: self.plan.recipes[s.task.recipe].label.collection as u32,
            client: self.first_client + s.session as u32,
            index: s.task.index,
            sent_ns: sent_ns.saturating_sub(self.start_ns),
            answered_ns: answered.then(|| self.last_ns.saturating_sub(self.start_ns)),
            did,
        });
    }

    /// Whether the document of a single operation is followed.
    #[inline]
    pub(super) fn is_followed(&self, slot: usize) -> bool {
        let Some(followed) = &self.plan.followed else { return false };
        let task = &self.slots[slot].task;
        task.documents <= 1 && followed.has(self.plan.recipes[task.recipe].label.collection, task.index)
    }

    /// Records how a write of a followed document ended, unless it was not done.
    fn see_write(&mut self, slot: usize, done: Option<bool>) {
        if done == Some(false) || !self.is_followed(slot) {
            return;
        }
        let s = &self.slots[slot];
        let version = s.task.version;
        let did = match self.plan.recipes[s.task.recipe].label.kind {
            OpKind::Upsert | OpKind::Replace => Did::Wrote(version),
            OpKind::CompareAndSwap => match s.looked {
                Some(Content::Version(found)) => Did::Swapped(found, version),
                _ => Did::Wrote(version),
            },
            OpKind::Delete => Did::Deleted,
            _ => return,
        };
        self.see(slot, did, done.is_some());
    }

    /// Records which version a read of a followed document found.
    pub(super) fn see_read(&mut self, slot: usize, reply: &Reply<'_>) {
        let Some(body) = reply.body.filter(|_| self.is_followed(slot)) else { return };
        let task = self.slots[slot].task;
        let documents = self.catalog.get(self.plan.recipes[task.recipe].label.collection);
        let found = match documents.version_of(task.index, body, &mut self.scratch) {
            Ok(version) => Content::Version(version),
            Err(_) => Content::Foreign,
        };
        self.slots[slot].looked = Some(found);
        self.see(slot, Did::Read(found), true);
    }

    /// Tells the ledger how a write ended, which is the same for all documents of its batch.
    #[inline]
    pub(super) fn end_write(&mut self, slot: usize, done: Option<bool>) {
        if self.plan.followed.is_some() {
            self.see_write(slot, done);
        }
        let s = &self.slots[slot];
        if !self.plan.ledger || !self.plan.recipes[s.task.recipe].label.kind.writes() {
            return;
        }
        let of = |index| Ending::Write(Task { index, documents: 1, ..s.task }, done);
        if !s.more.steps.is_empty() {
            return self.end_steps(slot, done, &[]);
        }
        match s.task.documents {
            1 => self.endings.push(of(s.task.index)),
            _ => self.endings.extend(s.more.indexes.iter().map(|index| of(*index))),
        }
    }

    /// Tells the ledger how the writes of a transaction ended. `found`: the documents of each step, if it was answered; a
    /// write that found none has changed nothing.
    pub(super) fn end_steps(&mut self, slot: usize, done: Option<bool>, found: &[u32]) {
        let s = &self.slots[slot];
        let done = if s.task.rolls_back { Some(false) } else { done };
        for (at, step) in s.more.steps.iter().enumerate() {
            if self.plan.recipe(step.recipe).label.kind.writes() {
                let done = if found.get(at) == Some(&0) { Some(false) } else { done };
                self.endings.push(Ending::Write(*step, done));
            }
        }
    }

    /// Tells the ledger which version a read found.
    pub(super) fn follow(&mut self, slot: usize, floor: Floor, reply: &Reply<'_>) {
        let task = self.slots[slot].task;
        let documents = self.catalog.get(self.plan.recipes[task.recipe].label.collection);
        let Some(body) = reply.body else { return };
        let found = match documents.version_of(task.index, body, &mut self.scratch) {
            Ok(version) => FoundAtKey::Version(version),
            Err(mismatch) => FoundAtKey::Other(mismatch.to_string()),
        };
        self.endings.push(Ending::Read(task, floor, found));
    }

    /// Tells the ledger which versions a bulk read found. Each document was read between the send and the answer.
    pub(super) fn follow_bulk(&mut self, slot: usize, reply: &Reply<'_>) {
        let s = &self.slots[slot];
        let documents = self.catalog.get(self.plan.recipes[s.task.recipe].label.collection);
        let Some(rows) = reply.rows else { return };
        self.rows.clear();
        for (_, body) in rows.iter() {
            // A document without a marker may be any of them.
            let Some(row) = documents.read_marker(body) else { return };
            self.rows.push(row);
        }
        self.rows.sort_unstable();
        for (index, floor) in &s.floors {
            let at = self.rows.binary_search_by_key(index, |row| row.0);
            let found = at.map_or(FoundAtKey::Nothing, |at| FoundAtKey::Version(self.rows[at].1));
            self.endings.push(Ending::Read(Task { index: *index, documents: 1, ..s.task }, *floor, found));
        }
    }

    /// Tells the ledger how each document of a bulk write ended, when some of them failed.
    pub(super) fn end_items(&mut self, slot: usize, rejects: &[Reject], retries: bool) {
        let s = &self.slots[slot];
        if !self.plan.ledger || !self.plan.recipes[s.task.recipe].label.kind.writes() {
            return;
        }
        for (item, index) in s.more.indexes.iter().enumerate() {
            let done = match rejects.iter().find(|reject| reject.item == item).map(|reject| reject.error.kind) {
                None => Some(true),
                Some(ErrorKind::Temporary) if retries => continue,
                Some(ErrorKind::OutcomeUnknown) => None,
                Some(_) => Some(false),
            };
            self.endings.push(Ending::Write(Task { index: *index, documents: 1, ..s.task }, done));
        }
    }

    /// Tells the ledger how operations have ended.
    pub(in crate::phase) fn settle(&mut self, maker: &mut Maker) {
        let Some(ledger) = &mut maker.ledger else {
            self.endings.clear();
            return;
        };
        for ending in self.endings.drain(..) {
            match ending {
                Ending::Write(task, done) => {
                    let label = &self.plan.recipe(task.recipe).label;
                    let (key, state) = ((label.collection, task.index), leaves(label.kind, task.version));
                    match done {
                        Some(true) => ledger.acknowledged(key, state),
                        Some(false) => ledger.refused(key, state),
                        None => ledger.unknown(key, state),
                    }
                }
                Ending::Read(task, floor, found) => {
                    let collection = self.plan.recipes[task.recipe].label.collection;
                    self.reads.followed += 1;
                    let after_fault = ledger.broken_since((collection, task.index));
                    if let Some(misread) = ledger.read((collection, task.index), floor, &found) {
                        self.reads.after_fault += u64::from(after_fault);
                        self.reads.note(misread, || {
                            let key = key_text(self.catalog.get(collection), task.index);
                            let found = match &found {
                                FoundAtKey::Nothing => "no document".to_owned(),
                                FoundAtKey::Version(version) => format!("version {version}"),
                                FoundAtKey::Other(what) => what.clone(),
                            };
                            format!("{key}: {found} was read, but {floor}")
                        });
                    }
                }
            }
        }
    }
}
