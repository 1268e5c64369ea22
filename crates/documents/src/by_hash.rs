//! Maps and sets of 64-bit hashes, which are not hashed again.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Takes a hash as it is. It must be evenly distributed, as those of xxHash are.
#[derive(Debug, Clone, Copy, Default)]
pub struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }
    fn write_u64(&mut self, hash: u64) {
        // A table looks at the highest and the lowest bits, which are all zero in a sample of the lowest hashes.
        self.0 = hash.rotate_left(32);
    }
}

/// A map from hashes.
pub type ByHash<T> = HashMap<u64, T, BuildHasherDefault<AsIs>>;

/// A set of hashes.
pub type Hashes = HashSet<u64, BuildHasherDefault<AsIs>>;
