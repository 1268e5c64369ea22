//! Everything that a trial has acknowledged, carried from phase to phase.

use std::collections::HashMap;
use std::sync::Arc;

use super::fate::FoundAtKey;
use super::state::{Entry, Key, KeyState};
use super::writer::{Ground, Ledger};

/// Default limit on the keys of one ledger. Beyond it, the ledger follows a seeded sample of the key space.
pub const MAX_KEYS: u64 = 1 << 20;

/// Memory per followed key, in bytes: the entry, its key, and the free slots of the hash table.
pub const BYTES_PER_KEY: u64 = 112;

/// The ledger of a trial. A phase borrows it, split into one ledger per writer.
#[derive(Debug, Clone)]
pub struct TrialLedger {
    ground: Arc<Ground>,
    entries: HashMap<Key, Entry>,
    /// Faults so far.
    faults: u32,
}

impl Default for TrialLedger {
    /// An empty ledger that follows every key.
    fn default() -> Self {
        Self::new(0, 0, Some(1.0))
    }
}

impl TrialLedger {
    /// An empty ledger for a study of `documents` documents. It follows a `share` (0 to 1) of the keys. Without a share
    /// it follows all keys, or a sample of about [`MAX_KEYS`].
    pub fn new(seed: u64, documents: u64, share: Option<f64>) -> Self {
        let share = share.unwrap_or(MAX_KEYS as f64 / documents.max(1) as f64);
        let sample = if share >= 1.0 { u64::MAX } else { (u64::MAX as f64 * share.max(0.0)) as u64 };
        Self { ground: Arc::new(Ground { loaded: Vec::new(), seed, sample }), entries: HashMap::new(), faults: 0 }
    }

    /// Records that a load of `count` documents, the whole collection, was acknowledged.
    pub fn loaded(&mut self, collection: usize, count: u64) {
        let ground = Arc::make_mut(&mut self.ground);
        if ground.loaded.len() <= collection {
            ground.loaded.resize(collection + 1, None);
        }
        ground.loaded[collection] = Some(count);
    }

    /// Discards what is known about a collection, because a phase without a ledger wrote to it.
    pub fn forget(&mut self, collection: usize) {
        if let Some(loaded) = Arc::make_mut(&mut self.ground).loaded.get_mut(collection) {
            *loaded = None;
        }
        self.entries.retain(|key, _| key.0 != collection);
    }

    /// Documents of a collection that were loaded and acknowledged; `None` if unknown.
    pub fn documents(&self, collection: usize) -> Option<u64> {
        self.ground.loaded.get(collection).copied().flatten()
    }

    /// Records that `count` faults have happened in the trial so far.
    pub fn faults(&mut self, count: u32) {
        self.faults = self.faults.max(count);
    }

    /// Faults that have happened in the trial.
    pub fn faults_so_far(&self) -> u32 {
        self.faults
    }

    /// Share of the keys that is followed.
    pub fn share(&self) -> f64 {
        if self.ground.sample == u64::MAX { 1.0 } else { self.ground.sample as f64 / u64::MAX as f64 }
    }

    /// Splits off one ledger per writer of a phase. Writer `w` owns the indexes whose remainder modulo `writers` is
    /// `w`. Documents that earlier phases inserted (at or above `counts`) no longer have a writer and stay here.
    pub fn split(&mut self, writers: u64, counts: &[u64]) -> Vec<Ledger> {
        let mut parts: Vec<Ledger> = (0..writers).map(|_| Ledger::new(Arc::clone(&self.ground), self.faults)).collect();
        self.entries.retain(|key, entry| {
            let owned = counts.get(key.0).is_some_and(|count| key.1 < *count);
            if owned {
                parts[(key.1 % writers) as usize].entries.insert(*key, *entry);
            }
            !owned
        });
        parts
    }

    /// Takes the writers' ledgers back. Writes that are still in flight will get no answer any more.
    pub fn take_back(&mut self, parts: impl IntoIterator<Item = Ledger>) {
        for ledger in parts {
            self.entries
                .extend(ledger.entries().map(|(key, entry)| (key, Entry { pending: false, observed: false, ..entry })));
        }
    }

    /// All followed keys that were touched.
    pub fn entries(&self) -> impl Iterator<Item = (Key, Entry)> + '_ {
        self.entries.iter().map(|(key, entry)| (*key, *entry))
    }

    /// The expected state of a key.
    pub fn entry(&self, key: Key) -> Entry {
        self.entries.get(&key).copied().unwrap_or_else(|| Entry::of(self.ground.base(key)))
    }

    /// Whether this key was touched.
    pub fn knows(&self, key: Key) -> bool {
        self.entries.contains_key(&key)
    }

    /// Records what was found at a key. This settles an open write, and keeps a later phase from reporting the same
    /// loss again.
    pub fn found(&mut self, key: Key, found: &FoundAtKey) {
        let entry = self.entry(key);
        let state = match found {
            FoundAtKey::Version(version) => KeyState::version(*version),
            FoundAtKey::Nothing if entry.acknowledged.is_absent() && !entry.deleting() => entry.acknowledged,
            FoundAtKey::Nothing => {
                let known = [Some(entry.acknowledged).filter(|state| *state != KeyState::UNKNOWN), entry.open];
                KeyState::removed(known.into_iter().flatten().map(KeyState::number).max().unwrap_or(0))
            }
            FoundAtKey::Other(_) => return,
        };
        if entry.open.is_some() || entry.acknowledged != state {
            self.entries.insert(key, Entry { acknowledged: state, open: None, ..entry });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fate, Misread};
    use super::*;

    fn ledger_of(documents: u64) -> TrialLedger {
        let mut ledger = TrialLedger::new(7, documents, None);
        ledger.loaded(0, documents);
        ledger
    }

    fn one(ledger: &mut TrialLedger) -> Ledger {
        ledger.split(1, &[1_000]).remove(0)
    }

    const KEY: Key = (0, 7);

    #[test]
    fn what_a_phase_without_a_ledger_wrote_is_not_known_any_more() {
        let mut ledger = ledger_of(10);
        let mut writer = one(&mut ledger);
        writer.sent(KEY, v(3));
        writer.acknowledged(KEY, v(3));
        ledger.take_back([writer]);
        ledger.forget(0);
        assert_eq!((ledger.documents(0), ledger.knows(KEY)), (None, false));
        // Any state is accepted until the key is written again.
        assert!(
            !ledger.entry(KEY).fate(&FoundAtKey::Version(9)).is_broken()
                && !ledger.entry(KEY).fate(&FoundAtKey::Nothing).is_broken()
        );
        ledger.loaded(0, 10);
        assert!(ledger.entry(KEY).fate(&FoundAtKey::Nothing).is_broken(), "a load makes it known again");
    }

    fn v(version: u64) -> KeyState {
        KeyState::version(version)
    }

    #[test]
    fn phases_hand_on_what_was_acknowledged_to_whoever_owns_the_key() {
        let mut ledger = ledger_of(10);
        let mut two = ledger.split(2, &[10]);
        for index in 0..10 {
            let writer = &mut two[(index % 2) as usize];
            writer.sent((0, index), v(5));
            if index < 8 {
                writer.acknowledged((0, index), v(5));
            }
        }
        ledger.take_back(two);
        let three = ledger.split(3, &[10]);
        for index in 0..10 {
            let owner = &three[(index % 3) as usize];
            let entry = owner.entries().find(|(key, _)| key.1 == index).unwrap().1;
            assert_eq!(entry.acknowledged, v(if index < 8 { 5 } else { 0 }));
            assert_eq!(owner.is_open((0, index)), index >= 8, "nothing settles it between phases");
        }
        assert_eq!(ledger.entries().count(), 0);
    }

    #[test]
    fn documents_that_were_inserted_stay_in_the_ledger_of_the_trial() {
        let mut ledger = ledger_of(10);
        let mut parts = ledger.split(1, &[10]);
        parts[0].inserts((0, 10), v(0));
        parts[0].acknowledged((0, 10), v(0));
        ledger.take_back(parts);
        assert_eq!(ledger.split(1, &[10])[0].entries().count(), 0);
        assert_eq!(ledger.entry((0, 10)).fate(&FoundAtKey::Nothing), Fate::Lost);
        assert_eq!(ledger.entry((0, 11)).fate(&FoundAtKey::Nothing), Fate::Unknown);
        assert_eq!(ledger.entry((0, 9)).fate(&FoundAtKey::Nothing), Fate::Lost, "loaded and never written since");
    }

    #[test]
    fn an_unknown_outcome_is_settled_by_finding_it_only() {
        let mut ledger = ledger_of(10);
        let mut ledger = one(&mut ledger);
        ledger.sent(KEY, v(5));
        // The write is in flight: its answer decides.
        let floor = ledger.floor(KEY).unwrap();
        ledger.read(KEY, floor, &FoundAtKey::Version(5));
        assert!(ledger.is_open(KEY));
        ledger.unknown(KEY, v(5));
        // A timed-out write may still be applied later.
        ledger.read(KEY, floor, &FoundAtKey::Version(0));
        assert!(ledger.is_open(KEY));
        ledger.read(KEY, floor, &FoundAtKey::Version(5));
        assert!(!ledger.is_open(KEY));
        assert_eq!(ledger.entries().next().unwrap().1.acknowledged, v(5));
        // A refused write is closed at once.
        ledger.sent(KEY, v(6));
        ledger.refused(KEY, v(6));
        assert_eq!(ledger.entries().next().unwrap().1.fate(&FoundAtKey::Version(6)), Fate::NeverWritten);
    }

    #[test]
    fn reads_find_what_this_writer_wrote_and_never_go_back() {
        let mut ledger = ledger_of(10);
        let mut ledger = one(&mut ledger);
        let floor = ledger.floor(KEY).unwrap();
        assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Version(0)), None);
        assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Nothing), Some(Misread::Stale), "it was loaded");
        ledger.sent(KEY, v(5));
        // The read was sent before the acknowledgement, so it may find either version.
        let before = ledger.floor(KEY).unwrap();
        ledger.acknowledged(KEY, v(5));
        assert_eq!(ledger.read(KEY, before, &FoundAtKey::Version(0)), None);
        assert_eq!(ledger.read(KEY, before, &FoundAtKey::Version(5)), None);
        let after = ledger.floor(KEY).unwrap();
        assert_eq!(ledger.read(KEY, after, &FoundAtKey::Version(0)), Some(Misread::Stale));
        // A write of unknown outcome is seen once and then disappears.
        ledger.sent(KEY, v(6));
        let open = ledger.floor(KEY).unwrap();
        assert_eq!(ledger.read(KEY, open, &FoundAtKey::Version(6)), None);
        let seen = ledger.floor(KEY).unwrap();
        assert_eq!(ledger.read(KEY, seen, &FoundAtKey::Version(5)), Some(Misread::Backwards));
    }

    #[test]
    fn a_deleted_document_stays_deleted() {
        let mut ledger = ledger_of(10);
        let mut ledger = one(&mut ledger);
        let before = ledger.floor(KEY).unwrap();
        ledger.sent(KEY, KeyState::removed(8));
        assert_eq!(ledger.read(KEY, before, &FoundAtKey::Nothing), None, "the delete is under way");
        ledger.acknowledged(KEY, KeyState::removed(8));
        let floor = ledger.floor(KEY).unwrap();
        assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Version(0)), Some(Misread::Stale));
        ledger.sent(KEY, v(9));
        assert_eq!(ledger.read(KEY, floor, &FoundAtKey::Version(9)), None, "written again meanwhile");
    }

    #[test]
    fn after_a_fault_half_of_what_was_written_stays_as_evidence_until_it_was_read() {
        let mut ledger = ledger_of(1_000);
        let mut ledger = one(&mut ledger);
        for index in 0..1_000 {
            ledger.sent((0, index), v(5));
            ledger.acknowledged((0, index), v(5));
        }
        let left = |ledger: &Ledger| (0..1_000).filter(|i| ledger.is_evidence((0, *i))).count();
        assert_eq!(left(&ledger), 0);
        ledger.faults(1);
        assert!((430..570).contains(&left(&ledger)), "{}", left(&ledger));
        for index in 0..1_000 {
            let floor = ledger.floor((0, index)).unwrap();
            ledger.read((0, index), floor, &FoundAtKey::Version(if index < 100 { 4 } else { 5 }));
        }
        let lost = left(&ledger);
        assert!((30..70).contains(&lost), "only what was found wrong is left alone: {lost}");
    }

    #[test]
    fn at_scale_a_sample_is_followed() {
        let mut many = TrialLedger::new(1, MAX_KEYS * 100, None);
        let ledger = one(&mut many);
        let kept = (0..100_000).filter(|i| ledger.keeps((0, *i))).count();
        assert!((800..1_200).contains(&kept), "{kept}");
        let half = TrialLedger::new(1, 10, Some(0.5));
        assert!((half.share() - 0.5).abs() < 1e-9);
        assert_eq!(ledger_of(10).share(), 1.0);
    }
}
