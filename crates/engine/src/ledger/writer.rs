//! The ledger of one writer: what it has written, and what its reads must find.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fmt;
use std::sync::Arc;

use super::fate::{Fate, FoundAtKey};
use super::state::{Entry, Key, KeyState};
use storebench_study::mix64;

/// What is known about keys before any followed write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ground {
    /// By position of the collection: documents that were all loaded and acknowledged; `None` if unknown.
    pub loaded: Vec<Option<u64>>,
    pub seed: u64,
    /// Keys whose hash is at most this are followed.
    pub sample: u64,
}

impl Ground {
    pub(super) fn keeps(&self, key: Key) -> bool {
        self.sample == u64::MAX || self.hash(key) <= self.sample
    }

    pub(super) fn hash(&self, key: Key) -> u64 {
        mix64(mix64(self.seed, key.0 as u64), key.1)
    }

    /// The state of a key that no followed write has touched.
    pub(super) fn base(&self, (collection, index): Key) -> KeyState {
        match self.loaded.get(collection).copied().flatten() {
            Some(count) if index < count => KeyState::version(0),
            _ => KeyState::UNKNOWN,
        }
    }
}

/// The state of a key when a read of it is sent. The read must find this state, or the result of a write that is in
/// flight then or is sent later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    acknowledged: KeyState,
    /// The state that an in-flight write leaves, if a read had already found it.
    observed: Option<KeyState>,
    /// The greatest version that a read had found.
    seen: u64,
    /// Deletes sent before, without an open one.
    deletes: u32,
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(observed) = self.observed {
            return write!(f, "{} had been acknowledged before, and {observed} had been read", self.acknowledged);
        }
        match self.acknowledged {
            KeyState::UNKNOWN => write!(f, "version {} had been read before", self.seen),
            acknowledged if acknowledged.as_version().is_some_and(|a| a < self.seen) => {
                write!(f, "{acknowledged} had been acknowledged before, and version {} had been read", self.seen)
            }
            acknowledged => write!(f, "{acknowledged} had been acknowledged before"),
        }
    }
}

/// A read that broke an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Misread {
    /// It did not find the state left by an earlier acknowledged write of this writer (read your writes).
    Stale,
    /// It found an older state than an earlier read did (monotonic reads).
    Backwards,
}

/// The ledger of one writer. Each key has one writer, so its versions are totally ordered.
#[derive(Debug, Clone)]
pub struct Ledger {
    pub(super) entries: HashMap<Key, Entry>,
    ground: Arc<Ground>,
    /// Faults that this writer knows of.
    faults: u32,
}

/// After a fault, one in this many keys written before it takes no write until a read finds it in its expected state: a
/// later write would cover up the evidence.
const LEFT_ALONE: u64 = 2;

impl Ledger {
    pub(super) fn new(ground: Arc<Ground>, faults: u32) -> Self {
        Self { entries: HashMap::new(), ground, faults }
    }

    /// Whether this key is followed.
    pub fn keeps(&self, key: Key) -> bool {
        self.ground.keeps(key)
    }

    /// Whether a write of this key is in flight or has an unknown outcome. The result of another write would be
    /// ambiguous.
    pub fn is_open(&self, key: Key) -> bool {
        self.entries.get(&key).is_some_and(|e| e.open.is_some())
    }

    /// Whether this key takes no write for now, as evidence of what a fault did to it.
    pub fn is_evidence(&self, key: Key) -> bool {
        if self.faults == 0 {
            return false;
        }
        let Some(entry) = self.entries.get(&key) else { return false };
        let since = entry.written.max(entry.verified);
        (since..self.faults).any(|fault| mix64(self.ground.hash(key), u64::from(fault)).is_multiple_of(LEFT_ALONE))
    }

    /// Records that a write that leaves `state` is sent.
    pub fn sent(&mut self, key: Key, state: KeyState) {
        if !self.keeps(key) {
            return;
        }
        let ground = &self.ground;
        let entry = match self.entries.entry(key) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(new) => new.insert(Entry::of(ground.base(key))),
        };
        // Otherwise the open write would be forgotten, and its result reported as wrong.
        debug_assert!(entry.open.is_none(), "a key with an open write takes no other");
        entry.deletes += u32::from(state.is_absent());
        (entry.open, entry.pending, entry.observed) = (Some(state), true, false);
    }

    /// Records the send of a document whose key was never used before.
    pub fn inserts(&mut self, key: Key, state: KeyState) {
        if self.keeps(key) {
            self.entries.insert(key, Entry { open: Some(state), pending: true, ..Entry::of(KeyState::ABSENT) });
        }
    }

    fn opened(&mut self, key: Key, state: KeyState) -> Option<&mut Entry> {
        self.entries.get_mut(&key).filter(|entry| entry.open == Some(state))
    }

    /// Records that the write that left `state` was acknowledged.
    pub fn acknowledged(&mut self, key: Key, state: KeyState) {
        let faults = self.faults;
        if let Some(entry) = self.opened(key, state) {
            (entry.acknowledged, entry.open, entry.written) = (state, None, faults);
        }
    }

    /// Records that the write that would have left `state` was certainly not applied.
    pub fn refused(&mut self, key: Key, state: KeyState) {
        if let Some(entry) = self.opened(key, state) {
            entry.deletes -= u32::from(state.is_absent());
            entry.open = None;
        }
    }

    /// Records that the outcome of the write that leaves `state` will remain unknown.
    pub fn unknown(&mut self, key: Key, state: KeyState) {
        if let Some(entry) = self.opened(key, state) {
            entry.pending = false;
            // A read may have seen the write on a server that crashed later. It was never acknowledged, so it may be
            // gone.
            entry.observed = false;
            if state.as_version() == Some(entry.seen) {
                entry.seen = entry.acknowledged.as_version().unwrap_or(0);
            }
        }
    }

    /// What a read of this key that is sent now must find; `None` if the key is not followed or its state is unknown.
    pub fn floor(&self, key: Key) -> Option<Floor> {
        if !self.keeps(key) {
            return None;
        }
        let entry = self.entries.get(&key).copied().unwrap_or_else(|| Entry::of(self.ground.base(key)));
        let Entry { acknowledged, seen, .. } = entry;
        let observed = entry.open.filter(|_| entry.observed);
        let deletes = entry.deletes - u32::from(entry.deleting());
        let known = acknowledged != KeyState::UNKNOWN || seen > 0 || observed.is_some();
        known.then_some(Floor { acknowledged, observed, seen, deletes })
    }

    /// Judges the result of a read that was sent at `floor`.
    ///
    /// The read may find any state that was current between its send and its answer: the latest one acknowledged before
    /// the send, or the result of a write that was in flight or sent since. Writes of a key are numbered and sent one
    /// after the other. So a version is right if it is not older than the floor. A missing document is right if the
    /// floor has none or a delete was sent since.
    ///
    /// A read that finds an open write settles it. Otherwise the write stays open: a timed-out write may still be
    /// applied later.
    pub fn read(&mut self, key: Key, floor: Floor, found: &FoundAtKey) -> Option<Misread> {
        let version = match found {
            FoundAtKey::Version(version) => Some(*version),
            FoundAtKey::Nothing => None,
            // The content check counts it as wrong.
            FoundAtKey::Other(_) => return None,
        };
        let deleted = self.entries.get(&key).map_or(0, |entry| entry.deletes.saturating_sub(floor.deletes));
        let is_behind = |state: KeyState| match version {
            _ if state == KeyState::UNKNOWN => false,
            Some(version) => version < state.number(),
            None => !state.is_absent() && deleted == 0,
        };
        let stale = is_behind(floor.acknowledged);
        let backwards = floor.observed.is_some_and(is_behind) || version.is_some_and(|version| version < floor.seen);
        let faults = self.faults;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.seen = entry.seen.max(version.unwrap_or(0));
            // A missing document is evidence of an open delete only if nothing else explains it.
            let is_open = match version {
                Some(_) => entry.open.is_some_and(|open| open.as_version() == version),
                None => entry.deleting() && deleted == 1 && floor.acknowledged.as_version().is_some(),
            };
            if let Some(open) = entry.open.filter(|_| is_open) {
                entry.observed = entry.pending;
                if !entry.pending {
                    (entry.acknowledged, entry.open, entry.written) = (open, None, faults);
                }
            }
            if matches!(entry.fate(found), Fate::Kept | Fate::NotHappened) {
                entry.verified = faults;
            }
        } else if let Some(version) = version.filter(|version| *version > 0) {
            // This run did not write it: it was there before.
            let entry = Entry { seen: version, ..Entry::of(self.ground.base(key)) };
            self.entries.insert(key, entry);
        }
        if stale { Some(Misread::Stale) } else { backwards.then_some(Misread::Backwards) }
    }

    /// Whether a fault has happened since this key was last written. It may have destroyed what was acknowledged.
    pub fn broken_since(&self, key: Key) -> bool {
        self.entries.get(&key).map_or(0, |entry| entry.written) < self.faults
    }

    /// Records that `count` faults have happened so far.
    pub fn faults(&mut self, count: u32) {
        self.faults = self.faults.max(count);
    }

    /// All followed keys that were touched, with what is known about them.
    pub fn entries(&self) -> impl Iterator<Item = (Key, Entry)> + '_ {
        self.entries.iter().map(|(key, entry)| (*key, *entry))
    }
}
