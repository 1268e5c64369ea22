//! One writer's ledger: what it has written, what it must find when it reads.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fmt;
use std::sync::Arc;

use super::fate::{Fate, Found};
use super::state::{Entry, Key, State};
use crate::keys::mix64;

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
    pub(super) fn base(&self, (collection, index): Key) -> State {
        match self.loaded.get(collection).copied().flatten() {
            Some(count) if index < count => State::version(0),
            _ => State::UNKNOWN,
        }
    }
}

/// What a read must find, remembered from when it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    acknowledged: State,
    seen: u64,
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.acknowledged {
            State::UNKNOWN => write!(f, "version {} had been read before", self.seen),
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
    /// It found an older version than an earlier read of it (monotonic reads).
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
    pub fn sent(&mut self, key: Key, state: State) {
        if !self.keeps(key) {
            return;
        }
        let ground = &self.ground;
        let entry = match self.entries.entry(key) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(new) => new.insert(Entry::of(ground.base(key))),
        };
        (entry.open, entry.pending) = (Some(state), true);
    }

    /// A document that was never there before is sent.
    pub fn inserts(&mut self, key: Key, state: State) {
        if self.keeps(key) {
            self.entries.insert(key, Entry { open: Some(state), pending: true, ..Entry::of(State::ABSENT) });
        }
    }

    /// The write that left `state` was acknowledged.
    pub fn acknowledged(&mut self, key: Key, state: State) {
        let faults = self.faults;
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.open == Some(state)
        {
            (entry.acknowledged, entry.open, entry.written) = (state, None, faults);
        }
    }

    /// The write that would have left `state` was certainly not done.
    pub fn refused(&mut self, key: Key, state: State) {
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.open == Some(state)
        {
            entry.open = None;
        }
    }

    /// Whether the write that leaves `state` was done will not be told any more.
    pub fn unknown(&mut self, key: Key, state: State) {
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.open == Some(state)
        {
            entry.pending = false;
        }
    }

    /// What a read of this key that is sent now must find; none where that is not followed, or not known.
    pub fn floor(&self, key: Key) -> Option<Floor> {
        if !self.keeps(key) {
            return None;
        }
        let (acknowledged, seen) = match self.entries.get(&key) {
            Some(entry) => (entry.acknowledged, entry.seen),
            None => (self.ground.base(key), 0),
        };
        (acknowledged != State::UNKNOWN || seen > 0).then_some(Floor { acknowledged, seen })
    }

    /// A read has found this, which `floor` said it must.
    ///
    /// An open write that was found is settled. One that was not found stays open: what timed out may still be done later.
    pub fn read(&mut self, key: Key, floor: Floor, found: &Found) -> Option<Misread> {
        let version = match found {
            Found::Version(version) => Some(*version),
            Found::Nothing => None,
            // That is counted as wrong content.
            Found::Other(_) => return None,
        };
        let stale = match (floor.acknowledged, version) {
            (State::UNKNOWN, _) => false,
            // A delete was acknowledged; that it is open again, or written again since, is not in `floor`.
            (State::ABSENT, Some(_)) => {
                !self.entries.get(&key).is_some_and(|e| e.open.is_some() || e.acknowledged != State::ABSENT)
            }
            (State::ABSENT, None) => false,
            // Only a delete that was sent meanwhile explains that nothing is there.
            (_, None) => !self
                .entries
                .get(&key)
                .is_some_and(|e| e.open == Some(State::ABSENT) || e.acknowledged == State::ABSENT),
            (acknowledged, Some(version)) => acknowledged.as_version().is_some_and(|a| version < a),
        };
        let backwards = version.is_some_and(|version| version < floor.seen);
        let faults = self.faults;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.seen = entry.seen.max(version.unwrap_or(0));
            let there = version.map_or(State::ABSENT, State::version);
            if entry.open == Some(there) && !entry.pending {
                (entry.acknowledged, entry.open, entry.written) = (there, None, faults);
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

    /// So many faults have happened by now.
    pub fn faults(&mut self, count: u32) {
        self.faults = self.faults.max(count);
    }

    /// Every key that is followed and was touched, with what is known of it.
    pub fn entries(&self) -> impl Iterator<Item = (Key, Entry)> + '_ {
        self.entries.iter().map(|(key, entry)| (*key, *entry))
    }
}
