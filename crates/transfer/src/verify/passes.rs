//! The passes of a verification over all splits: first sums, then single keys where sums differ.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use storebench_engine::Stop;

use super::hash::{Odd, Seen};
use super::spool::Spooled;
use super::sums::{Bucket, Sums, bucket};
use super::{Target, in_parallel};
use crate::error::TransferError;
use crate::source::Split;

/// The sums of one split: what was written, and what the target holds of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Compared {
    pub(crate) split: u32,
    /// Records written.
    pub(crate) written: u64,
    /// Records found.
    pub(crate) found: u64,
    /// Values that the target changed, in the buckets that are equal.
    pub(crate) changed: Odd,
    /// The buckets that differ, with both sides.
    pub(crate) unequal: Vec<(usize, Bucket, Bucket)>,
}

/// The keys of one split that are in given buckets, on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub(crate) split: u32,
    /// With when each may have expired, in seconds since 1970.
    pub(crate) written: Vec<(String, Seen, Option<i64>)>,
    pub(crate) found: Vec<(String, Seen)>,
}

/// Reads all splits, once for each call.
pub(crate) trait Passes {
    /// Passes the sums of each split to `take`.
    fn compare(&self, take: &mut dyn FnMut(Compared)) -> Result<(), TransferError>;

    /// Passes the keys of each split that are in these buckets to `take`.
    fn list(&self, buckets: &BTreeSet<usize>, take: &mut dyn FnMut(Listed)) -> Result<(), TransferError>;
}

/// Passes in this process. Every split has its spool.
pub(crate) struct Here<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) splits: &'a [Split],
    pub(crate) target: &'a dyn Target,
    pub(crate) parallel: u32,
    pub(crate) stop: &'a Stop,
}

impl Here<'_> {
    fn compared(&self, split: &Split) -> Result<Compared, TransferError> {
        let (mut ours, mut theirs) = (Sums::new(), Sums::new());
        let mut spooled = Spooled::open(self.folder, split.number)?;
        while let Some(written) = spooled.next()? {
            ours.add(written.key, written.seen);
        }
        self.target.read(self.folder, split, self.stop, &|_| true, &mut |key, seen| theirs.add(key, seen))?;
        let (written, found) = (ours.count(), theirs.count());
        if self.target.deleted() {
            ours = Sums::new();
        }
        let unequal = ours.unequal(&theirs);
        let unequal = unequal.into_iter().map(|at| (at, ours.bucket(at), theirs.bucket(at))).collect();
        Ok(Compared { split: split.number, written, found, changed: ours.changed(&theirs), unequal })
    }

    fn listed(&self, split: &Split, buckets: &BTreeSet<usize>) -> Result<Listed, TransferError> {
        let wanted = |key: &str| buckets.contains(&bucket(key));
        let (mut written, mut found) = (Vec::new(), Vec::new());
        let mut spooled = Spooled::open(self.folder, split.number)?;
        while let Some(one) = spooled.next()? {
            if wanted(one.key) {
                written.push((one.key.to_owned(), one.seen, one.gone_s));
            }
        }
        self.target
            .read(self.folder, split, self.stop, &wanted, &mut |key, seen| found.push((key.to_owned(), seen)))?;
        Ok(Listed { split: split.number, written, found })
    }
}

impl Passes for Here<'_> {
    fn compare(&self, take: &mut dyn FnMut(Compared)) -> Result<(), TransferError> {
        in_parallel(self.splits, self.parallel, self.stop, |split| self.compared(split), take)
    }

    fn list(&self, buckets: &BTreeSet<usize>, take: &mut dyn FnMut(Listed)) -> Result<(), TransferError> {
        // One split at a time, because all keys of the buckets are held in memory.
        self.splits.iter().try_for_each(|split| self.listed(split, buckets).map(&mut *take))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_keys_pass_between_processes() {
        let mut sums = Sums::new();
        let seen = Seen { hash: u128::MAX - 1, odd: Odd([1, 0, 0, 7, 0, u32::MAX]) };
        sums.add("a", seen);
        let one = sums.bucket(bucket("a"));
        let (written, found) = (u64::MAX, 0);
        let unequal = vec![(bucket("a"), one, Bucket::default())];
        let compared = Compared { split: 7, written, found, changed: seen.odd, unequal };
        let listed = Listed { split: 0, written: vec![("a\n\"".to_owned(), seen, Some(-1))], found: Vec::new() };
        let text = serde_json::to_string(&(&compared, &listed)).unwrap();
        assert_eq!(serde_json::from_str::<(Compared, Listed)>(&text).unwrap(), (compared, listed));
    }
}
