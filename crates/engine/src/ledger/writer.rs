//! One writer's ledger: what it has written, what it must find when it reads.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fmt;
use std::sync::Arc;

use super::fate::{Fate, FoundAtKey};
use super::state::{Entry, Key, KeyState};
use storebench_study::mix64;

/// What must be known of a key before any write of it is followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ground {
    /// By position of the collection: documents that were all loaded and acknowledged; none where nobody knows.
    pub loaded: Vec<Option<u64>>,
    pub seed: u64,
    /// Keys whose hash is at or below it are followed.
    pub sample: u64,
}

impl Ground {
    pub(super) fn keeps(&self, key: Key) -> bool {
        self.sample == u64::MAX || self.hash(key) <= self.sample
    }

    pub(super) fn hash(&self, key: Key) -> u64 {
        mix64(mix64(self.seed, key.0 as u64), key.1)
    }

    /// What is at a key that no followed write has touched.
    pub(super) fn base(&self, (collection, index): Key) -> KeyState {
        match self.loaded.get(collection).copied().flatten() {
            Some(count) if index < count => KeyState::version(0),
            _ => KeyState::UNKNOWN,
        }
    }
}

/// What was current at a key when a read of it was sent: the read must find that, or what a write left that was under way
/// then or was sent since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    acknowledged: KeyState,
    /// What a write under way leaves, where a read had found it already.
    observed: Option<KeyState>,
    /// The greatest version that a read had found.
    seen: u64,
    /// Deletes sent before, without one under way.
    deletes: u32,
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(observed) = self.observed {
            return write!(f, "{} had been acknowledged, {observed} read before", self.acknowledged);
        }
        match self.acknowledged {
            KeyState::UNKNOWN => write!(f, "version {} had been read before", self.seen),
            acknowledged if acknowledged.as_version().is_some_and(|a| a < self.seen) => {
                write!(f, "{acknowledged} had been acknowledged, version {} read before", self.seen)
            }
            acknowledged => write!(f, "{acknowledged} had been acknowledged before"),
        }
    }
}

/// A read that broke an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Misread {
    /// It did not find what this writer's write, acknowledged before, had left (read your writes).
    Stale,
    /// It found what was there before something that an earlier read had found (monotonic reads).
    Backwards,
}

/// One writer's ledger. Each key has one writer, so its versions have one order.
#[derive(Debug, Clone)]
pub struct Ledger {
    entries: HashMap<Key, Entry>,
    ground: Arc<Ground>,
    /// Faults that this writer has heard of.
    faults: u32,
}

/// A key that was written before a fault stays as it is after it for one key of so many, until a read has found it as it must
/// be: what a later write covers up is no evidence.
const LEFT_ALONE: u64 = 2;

impl Ledger {
    pub(super) fn new(ground: Arc<Ground>, faults: u32) -> Self {
        Self { entries: HashMap::new(), ground, faults }
    }

    pub(super) fn put(&mut self, key: Key, entry: Entry) {
        self.entries.insert(key, entry);
    }

    /// Whether this key is followed.
    pub fn keeps(&self, key: Key) -> bool {
        self.ground.keeps(key)
    }

    /// Whether a write of this key is under way or has an unknown outcome: then nobody could say what a further one leaves.
    pub fn is_open(&self, key: Key) -> bool {
        self.entries.get(&key).is_some_and(|e| e.open.is_some())
    }

    /// Whether this key is left as it is for now, as evidence of what a fault did to it.
    pub fn is_evidence(&self, key: Key) -> bool {
        if self.faults == 0 {
            return false;
        }
        let Some(entry) = self.entries.get(&key) else { return false };
        let since = entry.written.max(entry.verified);
        (since..self.faults).any(|fault| mix64(self.ground.hash(key), u64::from(fault)).is_multiple_of(LEFT_ALONE))
    }

    /// A write of this key is sent, which leaves `state`.
    pub fn sent(&mut self, key: Key, state: KeyState) {
        if !self.keeps(key) {
            return;
        }
        let ground = &self.ground;
        let entry = match self.entries.entry(key) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(new) => new.insert(Entry::of(ground.base(key))),
        };
        // An open write would be forgotten, and whatever it leaves taken for wrong.
        debug_assert!(entry.open.is_none(), "a key with an open write takes no other");
        entry.deletes += u32::from(state.is_absent());
        (entry.open, entry.pending, entry.observed) = (Some(state), true, false);
    }

    /// A document that was never there before is sent.
    pub fn inserts(&mut self, key: Key, state: KeyState) {
        if self.keeps(key) {
            self.entries.insert(key, Entry { open: Some(state), pending: true, ..Entry::of(KeyState::ABSENT) });
        }
    }

    fn opened(&mut self, key: Key, state: KeyState) -> Option<&mut Entry> {
        self.entries.get_mut(&key).filter(|entry| entry.open == Some(state))
    }

    /// The write that left `state` was acknowledged.
    pub fn acknowledged(&mut self, key: Key, state: KeyState) {
        let faults = self.faults;
        if let Some(entry) = self.opened(key, state) {
            (entry.acknowledged, entry.open, entry.written) = (state, None, faults);
        }
    }

    /// The write that would have left `state` was certainly not done.
    pub fn refused(&mut self, key: Key, state: KeyState) {
        if let Some(entry) = self.opened(key, state) {
            entry.deletes -= u32::from(state.is_absent());
            entry.open = None;
        }
    }

    /// Whether the write that leaves `state` was done will not be told any more.
    pub fn unknown(&mut self, key: Key, state: KeyState) {
        if let Some(entry) = self.opened(key, state) {
            entry.pending = false;
            // What a read has seen of it before may be gone with the server that showed it: it was never acknowledged.
            entry.observed = false;
            if state.as_version() == Some(entry.seen) {
                entry.seen = entry.acknowledged.as_version().unwrap_or(0);
            }
        }
    }

    /// What a read of this key that is sent now must find; none where that is not followed, or not known.
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

    /// A read has found this, which was sent at `floor`.
    ///
    /// It may have found any state that was current between its send and its answer: the latest acknowledged before the send,
    /// or what was sent or under way since. Writes of a key are numbered and sent one after the other, so a version is right
    /// if it is not older than the floor, and no document if the floor has none or a delete was sent since.
    ///
    /// An open write that was found is settled. One that was not found stays open: what timed out may still be done later.
    pub fn read(&mut self, key: Key, floor: Floor, found: &FoundAtKey) -> Option<Misread> {
        let version = match found {
            FoundAtKey::Version(version) => Some(*version),
            FoundAtKey::Nothing => None,
            // That is counted as wrong content.
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
            // That nothing is there tells of an open delete only where nothing else explains it.
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
            // What nobody here wrote: what was there before.
            let entry = Entry { seen: version, ..Entry::of(self.ground.base(key)) };
            self.entries.insert(key, entry);
        }
        if stale { Some(Misread::Stale) } else { backwards.then_some(Misread::Backwards) }
    }

    /// Whether a fault has happened since this key was written last: it may have taken with it what was acknowledged.
    pub fn broken_since(&self, key: Key) -> bool {
        self.entries.get(&key).map_or(0, |entry| entry.written) < self.faults
    }

    /// So many faults have happened by now.
    pub fn faults(&mut self, count: u32) {
        self.faults = self.faults.max(count);
    }

    /// Every key that is followed and was touched, with what is known of it.
    pub fn entries(&self) -> impl Iterator<Item = (Key, Entry)> + '_ {
        self.entries.iter().map(|(key, entry)| (*key, *entry))
    }
}
