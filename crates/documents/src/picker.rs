//! Picks the document of another collection that a reference points to, by popularity, in constant memory.

use storebench_study::workload::Popularity;

use super::keys::{Permutation, Zipf};
use super::random::Rng;

/// A popularity over the documents of one collection.
#[derive(Debug, Clone)]
pub(crate) struct Picker {
    popularity: Popularity,
    n: u64,
    scatter: Permutation,
    seed: u64,
    zipf: Zipf,
}

impl Picker {
    /// `seed` scatters the popular documents. It is the same for all references to one collection.
    pub(crate) fn new(popularity: Popularity, n: u64, seed: u64) -> Self {
        Self { popularity, n, scatter: Permutation::new(n, seed), seed, zipf: Zipf::within(n, exponent(popularity)) }
    }

    /// An index below the collection's count. `index` is the referring document.
    #[inline]
    pub(crate) fn pick(&self, index: u64, rng: &mut Rng) -> u64 {
        rank(self.popularity, self.n, |at| self.scatter.forward(at), &self.zipf, index, rng)
    }

    /// An index below `n`, for the siblings of one parent. 0 when `n` is 0.
    pub(crate) fn pick_of(&self, n: u64, index: u64, rng: &mut Rng) -> u64 {
        if n < 2 {
            return 0;
        }
        let zipf = Zipf::within(n, exponent(self.popularity));
        rank(self.popularity, n, |at| Permutation::new(n, self.seed).forward(at), &zipf, index, rng)
    }
}

fn exponent(popularity: Popularity) -> f64 {
    match popularity {
        Popularity::Zipf(s) | Popularity::Latest(s) => s,
        _ => 0.0,
    }
}

fn rank(popularity: Popularity, n: u64, scatter: impl Fn(u64) -> u64, zipf: &Zipf, index: u64, rng: &mut Rng) -> u64 {
    let hot = |keys: f64, operations: f64, rng: &mut Rng| {
        let hot = ((n as f64 * keys) as u64).clamp(1, n);
        if hot == n || rng.unit() < operations { rng.below(hot) } else { hot + rng.below(n - hot) }
    };
    match popularity {
        Popularity::Uniform => rng.below(n),
        Popularity::Sequential => index % n.max(1),
        Popularity::Zipf(_) => scatter(zipf.sample(rng)),
        Popularity::Latest(_) => n.saturating_sub(1) - zipf.sample(rng),
        Popularity::Hotspot { keys, operations } => hot(keys, operations, rng),
        Popularity::WorkingSet { keys, operations } => scatter(hot(keys, operations, rng)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_popularity_stays_within() {
        for text in ["uniform", "zipf:1", "latest:0.99", "sequential", "hotspot:10%:90%", "working-set:20%:80%"] {
            for n in [1u64, 2, 7, 1_000] {
                let picker = Picker::new(text.parse().unwrap(), n, 3);
                let mut rng = Rng::of(1, 2, 3);
                for i in 0..200 {
                    assert!(picker.pick(i, &mut rng) < n);
                    assert!(picker.pick_of(n, i, &mut rng) < n);
                }
            }
        }
    }
}
