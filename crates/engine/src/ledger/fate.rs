//! What became of a key: compares the ledger's entry with what was read back.

use super::state::{Entry, KeyState};
use storebench_study::names;

/// What a read found at a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundAtKey {
    /// No document.
    Nothing,
    /// Exactly this version of the document.
    Version(u64),
    /// Something else: another document, part of a document, or one whose fields differ. Described in words.
    Other(String),
}

/// What became of an acknowledged write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The state acknowledged last is there.
    Kept,
    /// A write of unknown outcome was applied.
    Happened,
    /// A write of unknown outcome was not applied: the state acknowledged before it is there.
    NotHappened,
    /// A document was acknowledged but is missing.
    Lost,
    /// An older version than the acknowledged one is there.
    Stale,
    /// The content is not a version of this document: torn, foreign or changed.
    Torn,
    /// A document is still there although its delete was acknowledged.
    Resurrected,
    /// A document or version is there that was refused or never written.
    NeverWritten,
    /// Not judged: the earlier state is unknown, and nothing was acknowledged since.
    Unknown,
}

names! { Fate:
    Kept "kept", Happened "of unknown outcome, done", NotHappened "of unknown outcome, not done",
    Lost "acknowledged, then lost", Stale "an older version than the acknowledged one", Torn "torn or foreign content",
    Resurrected "deleted, but still there", NeverWritten "never written or refused, but there",
    Unknown "earlier state unknown",
}

impl Fate {
    /// Whether a guarantee was broken.
    pub fn is_broken(self) -> bool {
        matches!(self, Self::Lost | Self::Stale | Self::Torn | Self::Resurrected | Self::NeverWritten)
    }
}

impl Entry {
    /// What became of this key.
    pub fn fate(&self, found: &FoundAtKey) -> Fate {
        let version = match found {
            FoundAtKey::Other(_) => return Fate::Torn,
            FoundAtKey::Nothing => None,
            FoundAtKey::Version(version) => Some(*version),
        };
        let is_there = |state: KeyState| match version {
            Some(_) => state.as_version() == version,
            None => state.is_absent(),
        };
        if self.open.is_some_and(is_there) && !is_there(self.acknowledged) {
            return Fate::Happened;
        }
        let unsettled = if self.open.is_some() { Fate::NotHappened } else { Fate::Kept };
        match (self.acknowledged, version) {
            (KeyState::UNKNOWN, _) => match self.open {
                Some(_) => Fate::NotHappened,
                None => Fate::Unknown,
            },
            (acknowledged, _) if is_there(acknowledged) => unsettled,
            (_, None) => Fate::Lost,
            (acknowledged, Some(version)) if version >= acknowledged.number() => Fate::NeverWritten,
            (acknowledged, _) if acknowledged.is_absent() => Fate::Resurrected,
            _ => Fate::Stale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(acknowledged: KeyState, open: Option<KeyState>) -> Entry {
        Entry { open, ..Entry::of(acknowledged) }
    }

    #[test]
    fn every_state_and_every_finding_has_one_fate() {
        let v = KeyState::version;
        let (gone, torn) = (FoundAtKey::Nothing, FoundAtKey::Other("half of it".into()));
        for (acknowledged, open, found, fate) in [
            (v(5), None, FoundAtKey::Version(5), Fate::Kept),
            (v(5), None, FoundAtKey::Version(3), Fate::Stale),
            (v(5), None, FoundAtKey::Version(6), Fate::NeverWritten),
            (v(5), None, gone.clone(), Fate::Lost),
            (v(5), None, torn.clone(), Fate::Torn),
            (v(5), Some(v(7)), FoundAtKey::Version(7), Fate::Happened),
            (v(5), Some(v(7)), FoundAtKey::Version(5), Fate::NotHappened),
            (v(5), Some(v(7)), FoundAtKey::Version(4), Fate::Stale),
            (v(5), Some(v(7)), FoundAtKey::Version(6), Fate::NeverWritten),
            (v(5), Some(v(7)), gone.clone(), Fate::Lost),
            (v(5), Some(KeyState::ABSENT), gone.clone(), Fate::Happened),
            (v(5), Some(KeyState::ABSENT), FoundAtKey::Version(5), Fate::NotHappened),
            (v(0), None, FoundAtKey::Version(0), Fate::Kept),
            (v(0), None, gone.clone(), Fate::Lost),
            (KeyState::ABSENT, None, gone.clone(), Fate::Kept),
            (KeyState::ABSENT, None, FoundAtKey::Version(5), Fate::NeverWritten),
            (KeyState::removed(6), None, FoundAtKey::Version(5), Fate::Resurrected),
            (KeyState::removed(6), None, FoundAtKey::Version(7), Fate::NeverWritten),
            (KeyState::removed(6), Some(v(7)), FoundAtKey::Version(5), Fate::Resurrected),
            (KeyState::removed(6), Some(KeyState::removed(7)), gone.clone(), Fate::NotHappened),
            (v(5), Some(KeyState::removed(6)), gone.clone(), Fate::Happened),
            (KeyState::ABSENT, Some(v(1)), FoundAtKey::Version(1), Fate::Happened),
            (KeyState::ABSENT, Some(v(1)), gone.clone(), Fate::NotHappened),
            (KeyState::ABSENT, Some(v(1)), FoundAtKey::Version(2), Fate::NeverWritten),
            // An earlier run may have left any version, but never torn content.
            (KeyState::UNKNOWN, None, FoundAtKey::Version(3), Fate::Unknown),
            (KeyState::UNKNOWN, None, gone.clone(), Fate::Unknown),
            (KeyState::UNKNOWN, Some(v(9)), FoundAtKey::Version(9), Fate::Happened),
            (KeyState::UNKNOWN, Some(v(9)), FoundAtKey::Version(3), Fate::NotHappened),
            (KeyState::UNKNOWN, None, torn, Fate::Torn),
        ] {
            assert_eq!(entry(acknowledged, open).fate(&found), fate, "{acknowledged} {open:?} {found:?}");
        }
    }
}
