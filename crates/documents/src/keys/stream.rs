//! The key indexes that one worker draws.

use storebench_study::mix64;
use storebench_study::workload::Popularity;
use thiserror::Error;

use super::{Permutation, Rng, Zipf};

/// The largest key space: 2^53 keys, because JSON represents integers exactly up to there.
pub const MAX_KEYS: u64 = 1 << 53;

/// Separates the seed of the scattering from other uses of the seed.
const SCATTER: u64 = 0x7363_6174_7465_7200;

/// Why keys cannot be drawn.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum KeyError {
    /// No keys, or more than [`MAX_KEYS`].
    #[error("cannot draw from a key space of {count} keys; use 1 to 9007199254740992 (2^53) keys")]
    Count {
        /// How many keys were asked for.
        count: u64,
    },
    /// A Zipf exponent outside of 0 to 2.
    #[error("the exponent {exponent} of Zipf's law is not within 0 to 2; use 0.99, for example")]
    Exponent {
        /// The exponent asked for.
        exponent: f64,
    },
    /// A share outside of 0 to 1, or no keys at all.
    #[error(
        "invalid shares: {keys} of the keys and {operations} of the operations; \
         use above 0 and at most 1 for keys, and 0 to 1 for operations"
    )]
    Shares {
        /// Share of the keys.
        keys: f64,
        /// Share of the operations.
        operations: f64,
    },
    /// A worker number that is not below the number of workers.
    #[error("worker {worker} of {workers} does not exist; workers are numbered from 0")]
    Worker {
        /// The worker, from 0.
        worker: u64,
        /// How many there are.
        workers: u64,
    },
    /// With disjoint keys, one of the workers would own none.
    #[error(
        "worker {worker} of {workers} (from 0) owns none of the {count} keys; \
         use at most {count} workers, more keys, or independent streams"
    )]
    NothingOwned {
        /// The worker, from 0.
        worker: u64,
        /// How many there are.
        workers: u64,
        /// How many keys there are.
        count: u64,
    },
}

/// The share of a key space that one worker draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// All of it, like every other worker. The workers together follow the popularity exactly, and the hot keys are the
    /// same for all.
    Independent,
    /// The indexes with the remainder `worker` when divided by `workers`. No other worker draws them, so each key has
    /// one writer.
    ///
    /// The popularity applies to the worker's own keys. For uniform, hotspot, working set and sequential, the workers
    /// together still follow it. For Zipf they do so only approximately. Each worker has its own hottest key, so
    /// instead of one key with the share p there are `workers` keys with p / `workers` each (a little more, because
    /// each has fewer keys below it). The same is true for the next ranks, so the top is flatter by that factor. For
    /// latest, an own key stands for itself and the `workers` - 1 keys after it, so the workers together follow the
    /// popularity smoothed over that many ages.
    Disjoint {
        /// This worker, from 0.
        worker: u64,
        /// How many there are.
        workers: u64,
    },
}

impl Ownership {
    /// How many of the keys `0..count` this worker owns.
    pub fn owned(self, count: u64) -> u64 {
        match self {
            Self::Independent => count,
            Self::Disjoint { worker, workers } => count.saturating_sub(worker).div_ceil(workers.max(1)),
        }
    }

    /// The index of the worker's own key number `position` (from 0).
    #[inline]
    pub fn index(self, position: u64) -> u64 {
        match self {
            Self::Independent => position,
            Self::Disjoint { worker, workers } => position * workers + worker,
        }
    }

    /// The nearest own index at or below `index`, or the first own index if there is none.
    #[inline]
    fn floor(self, index: u64) -> u64 {
        match self {
            Self::Independent => index,
            Self::Disjoint { worker, .. } if index < worker => worker,
            Self::Disjoint { worker, workers } => index - (index - worker) % workers,
        }
    }
}

/// The distribution of the draws, over positions in the worker's own share.
#[derive(Debug, Clone)]
enum Law {
    Uniform,
    Zipf { zipf: Zipf, scatter: Permutation },
    Hotspot(Split),
    WorkingSet { split: Split, scatter: Permutation },
    Latest { zipf: Zipf },
    Sequential { next: u64 },
}

/// Two parts, each drawn from uniformly: `0..hot` with the probability `operations`, otherwise the rest.
#[derive(Debug, Clone, Copy)]
struct Split {
    hot: u64,
    count: u64,
    operations: f64,
}

impl Split {
    /// The positions that can be drawn: the first one, and how many.
    fn reach(&self) -> (u64, u64) {
        match self.count - self.hot {
            0 => (0, self.count),
            _ if self.operations >= 1.0 => (0, self.hot),
            others if self.operations <= 0.0 => (self.hot, others),
            _ => (0, self.count),
        }
    }

    fn new(count: u64, keys: f64, operations: f64) -> Result<Self, KeyError> {
        if !(keys > 0.0 && keys <= 1.0 && (0.0..=1.0).contains(&operations)) {
            return Err(KeyError::Shares { keys, operations });
        }
        let hot = ((count as f64 * keys).round() as u64).clamp(1, count);
        Ok(Self { hot, count, operations })
    }

    #[inline]
    fn sample(&self, rng: &mut Rng) -> u64 {
        if self.hot == self.count || rng.unit() < self.operations {
            rng.below(self.hot)
        } else {
            self.hot + rng.below(self.count - self.hot)
        }
    }
}

/// Draws key indexes by a popularity, for one worker.
///
/// | popularity | independent | disjoint |
/// |---|---|---|
/// | uniform | all keys | the own keys |
/// | Zipf | ranks scattered by a permutation of the seed alone: the hot key is the same for all | ranks scattered over the own keys |
/// | hotspot | the first share of the keys (rounded, at least one) | the first share of the own keys |
/// | working set | a scattered share of the keys, the same for all | a scattered share of the own keys |
/// | latest | by age | by age, rounded down to an own key |
/// | sequential | all keys in order, repeatedly | the own keys in order, repeatedly |
///
/// Sequential workers on independent streams would all request the same key at the same time, so each starts at a
/// different place: stream 0 at the first key, 1 in the middle, 2 and 3 at the quarters, and so on (the van der Corput
/// sequence, which is evenly spread for any number of streams).
#[derive(Debug, Clone)]
pub struct KeyStream {
    law: Law,
    ownership: Ownership,
    owned: u64,
}

impl KeyStream {
    /// The draws of one worker from `count` keys (1 to [`MAX_KEYS`]). `seed` decides which keys are popular.
    /// `rng_stream`, the number of the worker's stream, decides where a sequential one starts.
    ///
    /// # Errors
    /// [`KeyError`] for a number outside of its range, and for a worker that would own no key.
    pub fn new(
        popularity: Popularity,
        count: u64,
        ownership: Ownership,
        seed: u64,
        rng_stream: u64,
    ) -> Result<Self, KeyError> {
        if count == 0 || count > MAX_KEYS {
            return Err(KeyError::Count { count });
        }
        let mut scatter_seed = mix64(seed, SCATTER);
        if let Ownership::Disjoint { worker, workers } = ownership {
            if worker >= workers {
                return Err(KeyError::Worker { worker, workers });
            }
            if worker >= count {
                return Err(KeyError::NothingOwned { worker, workers, count });
            }
            // Otherwise the hot keys of all workers would be adjacent.
            scatter_seed = mix64(scatter_seed, worker);
        }
        let owned = ownership.owned(count);
        let scatter = || Permutation::new(owned, scatter_seed);
        let law = match popularity {
            Popularity::Uniform => Law::Uniform,
            Popularity::Zipf(exponent) => Law::Zipf { zipf: Zipf::new(owned, exponent)?, scatter: scatter() },
            Popularity::Hotspot { keys, operations } => Law::Hotspot(Split::new(owned, keys, operations)?),
            Popularity::WorkingSet { keys, operations } => {
                Law::WorkingSet { split: Split::new(owned, keys, operations)?, scatter: scatter() }
            }
            Popularity::Latest(exponent) => Law::Latest { zipf: Zipf::new(count, exponent)? },
            Popularity::Sequential => {
                let next = match ownership {
                    Ownership::Independent => {
                        ((u128::from(rng_stream.reverse_bits()) * u128::from(count)) >> 64) as u64
                    }
                    Ownership::Disjoint { .. } => 0,
                };
                Law::Sequential { next }
            }
        };
        Ok(Self { law, ownership, owned })
    }

    /// How many keys this worker draws from.
    pub fn owned(&self) -> u64 {
        self.owned
    }

    /// The next index. `newest` is how many keys exist now (the newest is `newest - 1`). Only latest uses it; all
    /// others stay within the `count` given to [`Self::new`]. A worker that owns none of `0..newest` still gets its
    /// first own index.
    #[inline]
    pub fn next(&mut self, rng: &mut Rng, newest: u64) -> u64 {
        let place = self.place(rng, newest);
        self.at(place, newest)
    }

    /// Draws a place: the position in the order of popularity (Zipf, working set), by age (latest), or among the
    /// worker's own keys.
    #[inline]
    pub fn place(&mut self, rng: &mut Rng, newest: u64) -> u64 {
        match &mut self.law {
            Law::Uniform => rng.below(self.owned),
            Law::Zipf { zipf, .. } => zipf.sample(rng),
            Law::Hotspot(split) | Law::WorkingSet { split, .. } => split.sample(rng),
            Law::Latest { zipf } => {
                let newest = newest.clamp(1, MAX_KEYS);
                let known = zipf.len();
                // Within 1/64 only the few oldest keys are missed, which are hardly ever drawn. This saves a logarithm
                // and a power at each insert.
                if newest < known || newest - known > known / 64 {
                    zipf.resize(newest);
                }
                zipf.sample(rng)
            }
            Law::Sequential { next } => {
                let position = *next;
                *next = if position + 1 >= self.owned { 0 } else { position + 1 };
                position
            }
        }
    }

    /// The index at a place.
    #[inline]
    pub fn at(&self, place: u64, newest: u64) -> u64 {
        let position = match &self.law {
            Law::Zipf { scatter, .. } | Law::WorkingSet { scatter, .. } => scatter.forward(place),
            Law::Latest { .. } => return self.ownership.floor(newest.clamp(1, MAX_KEYS) - 1 - place),
            Law::Uniform | Law::Hotspot(_) | Law::Sequential { .. } => place,
        };
        self.ownership.index(position)
    }

    /// The places that can be drawn: the first one, and how many. With latest and disjoint keys, several places stand
    /// for one key; otherwise each place stands for a different key.
    pub fn places(&self, newest: u64) -> (u64, u64) {
        match &self.law {
            Law::Hotspot(split) | Law::WorkingSet { split, .. } => split.reach(),
            Law::Latest { .. } => (0, newest.clamp(1, MAX_KEYS)),
            Law::Uniform | Law::Zipf { .. } | Law::Sequential { .. } => (0, self.owned),
        }
    }
}

#[cfg(test)]
mod tests;
