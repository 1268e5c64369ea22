//! Selects the keys of a sample: determined by a seed, and spread over all keys.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A uniform sample of the keys seen: those with the smallest hashes.
pub(crate) struct KeySample {
    seed: u64,
    at_most: usize,
    least: BTreeSet<(u64, String)>,
}

impl KeySample {
    pub(crate) fn new(at_most: usize, seed: u64) -> Self {
        Self { seed, at_most, least: BTreeSet::new() }
    }

    /// Offers a key to the sample. Keys without the prefix, and keys that are not UTF-8, are ignored. Returns whether
    /// the sample is full.
    pub(crate) fn see(&mut self, prefix: &[u8], key: &[u8]) -> bool {
        if let Some(Ok(key)) = key.strip_prefix(prefix).map(std::str::from_utf8) {
            self.least.insert((xxh3_64_with_seed(key.as_bytes(), self.seed), key.to_owned()));
            if self.least.len() > self.at_most {
                self.least.pop_last();
            }
        }
        self.least.len() >= self.at_most
    }

    pub(crate) fn into_keys(self) -> Vec<String> {
        self.least.into_iter().map(|(_, key)| key).collect()
    }
}

/// Random start positions among `total` ordered keys, and how many keys to read from each. The lengths sum to
/// `wanted` (at most `total`), and none exceeds `at_once`. The keys are divided into equal parts, one for each
/// position: at least `least` parts if `wanted` allows it.
pub(crate) fn places(total: u64, wanted: u64, at_once: u64, least: u64, seed: u64) -> Vec<(u64, u64)> {
    let wanted = wanted.min(total);
    let parts = wanted.div_ceil(at_once).max(if wanted < total { least.min(wanted) } else { 0 });
    let mut random = fastrand::Rng::with_seed(seed);
    let part = |n: u64| {
        let (from, to) = (total * n / parts, total * (n + 1) / parts);
        let length = wanted * (n + 1) / parts - wanted * n / parts;
        (random.u64(from..=to - length), length)
    };
    (0..parts).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap_and_give_as_many_as_wanted() {
        for (total, wanted) in [
            (0, 5),
            (5, 0),
            (5, 5),
            (5, 10),
            (7, 6),
            (33, 32),
            (100, 7),
            (1_000, 100),
            (3_000, 3_000),
            (1_000_000, 333),
            (1_000_000, 5_000),
        ] {
            for (seed, at_once) in (0..20).zip([10, 1_024, u64::MAX].into_iter().cycle()) {
                let places = places(total, wanted, at_once, 32, seed);
                let sum: u64 = places.iter().map(|(_, length)| length).sum();
                assert_eq!(sum, wanted.min(total), "{total} {wanted} {seed}");
                let mut end = 0;
                for (start, length) in &places {
                    assert!(*start >= end && *length <= at_once, "{total} {wanted} {seed}: {places:?}");
                    end = start + length;
                }
                assert!(end <= total);
                assert!(wanted >= total || places.len() as u64 >= wanted.min(32), "{places:?}");
            }
        }
        assert_ne!(places(1_000_000, 100, 1_024, 32, 1), places(1_000_000, 100, 1_024, 32, 2));
    }

    #[test]
    fn a_sample_is_even_and_of_keys_with_the_prefix() {
        let sample = |seed| {
            let mut sample = KeySample::new(100, seed);
            let full: Vec<bool> = (0..1_000).map(|n| sample.see(b"a:", format!("a:{n:03}").as_bytes())).collect();
            assert_eq!(full.iter().position(|full| *full), Some(99));
            sample.see(b"a:", b"b:7");
            sample.into_keys()
        };
        let keys = sample(7);
        assert_eq!((keys.len(), sample(7) == keys, sample(8) == keys), (100, true, false));
        let low = keys.iter().filter(|key| key.as_str() < "500").count();
        assert!((25..75).contains(&low), "{low}");
    }
}
