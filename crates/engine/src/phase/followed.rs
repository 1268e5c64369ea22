//! The documents that a consistency check follows, and what one worker saw of them.

use std::collections::HashSet;

use super::plan::PhasePlan;
use crate::measure::HistoryOperation;
use crate::store::OpKind;
use storebench_documents::keys::{KeyStream, Ownership};
use storebench_documents::{Catalog, Documents};
use storebench_study::mix64;
use storebench_study::workload::{ConsistencyCheck, KeyShare, PopularKeys};

/// The most operations that a phase keeps, over all workers. Each takes up to 200 bytes until it is judged.
const MOST: usize = 10_000_000;

/// The documents that are followed.
#[derive(Debug, Clone, PartialEq)]
pub struct Followed {
    /// Documents of each collection that the phase reads and writes; 0 for others. Documents that are inserted later are
    /// not followed.
    counts: Vec<u64>,
    seed: u64,
    which: Which,
}

#[derive(Debug, Clone, PartialEq)]
enum Which {
    /// Those whose hash is at most this.
    Hash(u64),
    Listed(HashSet<(usize, u64)>),
}

impl Followed {
    /// The documents that a phase follows, if it does. `seed` is the one that decides which documents are popular.
    pub(super) fn of(plan: &PhasePlan, catalog: &Catalog, seed: u64) -> Option<Self> {
        let which = match plan.consistency_check {
            ConsistencyCheck::Of(false) => return None,
            ConsistencyCheck::Of(true) => Which::Hash(u64::MAX),
            ConsistencyCheck::Share(KeyShare { share }) => Which::Hash((share * u64::MAX as f64) as u64),
            ConsistencyCheck::Popular(PopularKeys { keys }) => {
                let popular = |collection: usize| {
                    let count = catalog.get(collection).count();
                    let seed = mix64(seed, collection as u64);
                    let stream = KeyStream::new(plan.popularity, count, Ownership::Independent, seed, 0).ok();
                    let at = move |stream: KeyStream| {
                        let (first, places) = stream.places(count);
                        (first..first + keys.min(places)).map(move |place| (collection, stream.at(place, count)))
                    };
                    stream.into_iter().flat_map(at)
                };
                Which::Listed((0..catalog.iter().count()).flat_map(popular).collect())
            }
        };
        let any = |at: usize, fits: fn(OpKind) -> bool| {
            plan.recipes.iter().any(|of| of.label.collection == at && fits(of.label.kind))
        };
        let reads = |kind| matches!(kind, OpKind::Read | OpKind::CompareAndSwap);
        let writes = |kind: OpKind| kind.writes() && kind != OpKind::Insert;
        let count = |(at, of): (usize, &Documents)| if any(at, reads) && any(at, writes) { of.count() } else { 0 };
        Some(Self { counts: catalog.iter().enumerate().map(count).collect(), seed, which })
    }

    /// Whether a document is followed.
    #[inline]
    pub(super) fn has(&self, collection: usize, index: u64) -> bool {
        index < self.counts[collection]
            && match &self.which {
                Which::Hash(most) => *most == u64::MAX || mix64(mix64(self.seed, collection as u64), index) <= *most,
                Which::Listed(listed) => listed.contains(&(collection, index)),
            }
    }
}

/// What one worker saw of the documents that are followed.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) operations: Vec<HistoryOperation>,
    /// Operations that it may keep.
    room: usize,
    pub(super) overflowed: bool,
}

impl Seen {
    pub(super) fn of(plan: &PhasePlan) -> Self {
        Self { room: MOST / plan.workers.max(1) as usize, ..Self::default() }
    }

    #[inline]
    pub(super) fn add(&mut self, operation: HistoryOperation) {
        if self.operations.len() < self.room {
            self.operations.push(operation);
        } else {
            self.overflowed = true;
        }
    }
}
