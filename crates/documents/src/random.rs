//! Seeded random streams and an invertible permutation of indexes.
//!
//! Each (collection, field, document, version) has its own stream. Nothing depends on what was generated before, so any
//! document can be generated first.

const P0: u64 = 0xa076_1d64_78bd_642f;
const P1: u64 = 0xe703_7ed1_a0b4_28db;
const P2: u64 = 0x8ebc_6af0_9c88_c6e3;
const P3: u64 = 0x5899_65cc_7537_4cc3;

/// XOR of the two halves of the 128-bit product (wyhash final 4, Wang Yi, public domain).
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Mixes two numbers into one.
#[inline(always)]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    fold(a ^ P0, b ^ P1)
}

/// Hashes a name and a number to one seed.
pub(crate) fn seed_of(name: &str, seed: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), seed)
}

/// A stream of random numbers: wyrand (Wang Yi), 64 bits of state.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of one document's field.
    #[inline(always)]
    pub(crate) fn new(seed: u64, index: u64, version: u64) -> Self {
        Self(fold(mix(seed, index) ^ P2, version ^ P3))
    }

    /// The next 64 bits.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(P0);
        fold(self.0, self.0 ^ P1)
    }

    /// A number below `n`; 0 if `n` is 0. Uses a multiplication, so the bias is at most n/2^64.
    #[inline(always)]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number from `min` to `max`, both included.
    #[inline(always)]
    pub(crate) fn within(&mut self, min: u64, max: u64) -> u64 {
        if min >= max { min } else { min + self.below((max - min).saturating_add(1)) }
    }

    /// A number from 0 up to, but not including, 1.
    #[inline(always)]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// A seeded permutation of the numbers below `n`, computed in both directions in constant memory. It is an alternating
/// Feistel network over the smallest power of two that holds `n`, with cycle walking (Black and Rogaway 2002) for
/// results outside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    n: u64,
    seed: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
}

const ROUNDS: u64 = 3;

impl Permutation {
    pub(crate) fn new(n: u64, seed: u64) -> Self {
        // At least two bits, so that both halves exist.
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(2);
        let low_bits = bits / 2;
        let high_bits = bits - low_bits;
        Self { n, seed, low_bits, low_mask: (1 << low_bits) - 1, high_mask: (1 << high_bits) - 1 }
    }

    #[inline]
    fn round(&self, half: u64, round: u64) -> u64 {
        // The high bits of the fold are mixed better.
        mix(self.seed.wrapping_add(round.wrapping_mul(P2)), half) >> 24
    }

    /// The image of `i`. Numbers that are not below `n` map to themselves.
    #[inline]
    pub(crate) fn forward(&self, i: u64) -> u64 {
        if i >= self.n {
            return i;
        }
        let mut at = i;
        loop {
            let (mut low, mut high) = (at & self.low_mask, at >> self.low_bits);
            for round in 0..ROUNDS {
                low ^= self.round(high, 2 * round) & self.low_mask;
                high ^= self.round(low, 2 * round + 1) & self.high_mask;
            }
            at = (high << self.low_bits) | low;
            if at < self.n {
                return at;
            }
        }
    }

    /// The number whose image is `i`.
    #[inline]
    pub(crate) fn backward(&self, i: u64) -> u64 {
        if i >= self.n {
            return i;
        }
        let mut at = i;
        loop {
            let (mut low, mut high) = (at & self.low_mask, at >> self.low_bits);
            for round in (0..ROUNDS).rev() {
                high ^= self.round(low, 2 * round + 1) & self.high_mask;
                low ^= self.round(high, 2 * round) & self.low_mask;
            }
            at = (high << self.low_bits) | low;
            if at < self.n {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_permutations_are_bijections() {
        for n in [1u64, 2, 3, 4, 5, 7, 8, 63, 64, 65, 1_000, 4_097] {
            let permutation = Permutation::new(n, 9);
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let to = permutation.forward(i);
                assert!(!std::mem::replace(&mut seen[to as usize], true), "{n}: {to} twice");
            }
        }
    }

    #[test]
    fn a_permutation_scatters() {
        // Neighbours must not stay neighbours: the mean distance of a random permutation is n/3.
        let n = 1_000_000u64;
        let permutation = Permutation::new(n, 7);
        let mean = (0..10_000).map(|i| permutation.forward(i).abs_diff(permutation.forward(i + 1)) as f64).sum::<f64>()
            / 10_000.0;
        assert!((mean / n as f64 - 1.0 / 3.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn streams_of_neighbours_are_even() {
        // First outputs of consecutive documents: chi-square over 256 cells, 255 degrees of freedom.
        let mut cells = [0u64; 256];
        for index in 0..256_000 {
            cells[(Random::new(1, index, 0).next() >> 56) as usize] += 1;
        }
        let chi: f64 = cells.iter().map(|&c| (c as f64 - 1000.0).powi(2) / 1000.0).sum();
        assert!((160.0..360.0).contains(&chi), "{chi}");
    }

    proptest! {
        #[test]
        fn permutations_invert(n in 1u64..=u64::MAX >> 1, seed: u64, pick: u64) {
            let permutation = Permutation::new(n, seed);
            let i = pick % n;
            let to = permutation.forward(i);
            prop_assert!(to < n);
            prop_assert_eq!(permutation.backward(to), i);
        }
    }
}
