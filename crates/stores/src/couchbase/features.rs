//! What a server can do of what only some operations need. Both sides agree on it when a connection begins (HELLO). A
//! server that lacks some of it, a mock or one before 7.0, can do the rest.

/// Frames in requests, which the other writes need.
const FRAMES: u16 = 0x10;
const DURABLE: u16 = 0x11;
const COLLECTIONS: u16 = 0x12;
const KEEPS_EXPIRY: u16 = 0x14;

/// What it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features {
    /// Collections besides the default one.
    pub(super) collections: bool,
    /// Writes that wait for copies or disks.
    pub(super) durable_writes: bool,
    /// Writes that keep a document's expiry.
    pub(super) keeps_expiry: bool,
}

pub(super) const NO_COLLECTIONS: &str = "the server lacks collections (Couchbase Server has them since 7.0)";
pub(super) const NO_DURABLE_WRITES: &str = "the server lacks durable writes (Couchbase Server has them since 6.5)";
pub(super) const KEEPS_NO_EXPIRY: &str =
    "the server lacks writes that keep an expiry (Couchbase Server has them since 7.0)";

impl Features {
    /// Everything.
    pub(super) const ALL: Self = Self { collections: true, durable_writes: true, keeps_expiry: true };

    /// The numbers of what has to be agreed on.
    pub(super) fn numbers(self) -> impl Iterator<Item = u16> {
        let all = [
            (self.durable_writes || self.keeps_expiry, FRAMES),
            (self.durable_writes, DURABLE),
            (self.collections, COLLECTIONS),
            (self.keeps_expiry, KEEPS_EXPIRY),
        ];
        all.into_iter().filter(|(wanted, _)| *wanted).map(|(_, number)| number)
    }

    /// What it can do that agreed to these numbers.
    pub(super) fn agreed(numbers: &[u16]) -> Self {
        let all = |needed: &[u16]| needed.iter().all(|number| numbers.contains(number));
        Self {
            collections: all(&[COLLECTIONS]),
            durable_writes: all(&[FRAMES, DURABLE]),
            keeps_expiry: all(&[FRAMES, KEEPS_EXPIRY]),
        }
    }

    /// What it lacks of `wanted`.
    pub(super) fn lacks(self, wanted: Self) -> Option<&'static str> {
        [
            (wanted.collections && !self.collections, NO_COLLECTIONS),
            (wanted.durable_writes && !self.durable_writes, NO_DURABLE_WRITES),
            (wanted.keeps_expiry && !self.keeps_expiry, KEEPS_NO_EXPIRY),
        ]
        .into_iter()
        .find_map(|(lacks, why)| lacks.then_some(why))
    }
}
