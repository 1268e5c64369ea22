//! Random numbers: of documents, of the keys that a worker draws, of times.

use storebench_study::mix64;

const P0: u64 = 0xa076_1d64_78bd_642f;
const P1: u64 = 0xe703_7ed1_a0b4_28db;
const P2: u64 = 0x8ebc_6af0_9c88_c6e3;
const P3: u64 = 0x5899_65cc_7537_4cc3;

/// XOR of the two halves of the 128-bit product (wyhash final 4, Wang Yi, public domain).
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product as u64) ^ (product >> 64) as u64
}

/// Hashes a name and a number to one seed.
pub(crate) fn seed_of(name: &str, seed: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), seed)
}

/// A small, fast, seeded generator: wyrand (Wang Yi, public domain), 64 bits of state, period 2^64. The same seed gives
/// the same numbers on every machine. All generators are at different points of one period, so two of them could overlap:
/// of 64 that draw 2^40 numbers each, with a probability of 1 in 4,000. Not cryptographic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// The generator of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(mix64(seed, 0))
    }

    /// The generator of one stream of this seed, such as a worker.
    pub const fn stream(seed: u64, stream: u64) -> Self {
        Self(mix64(seed ^ 0x7374_7265_616d_0001, stream))
    }

    /// The generator of a field of one document. Nothing depends on what was generated before, so any document can be
    /// generated first.
    #[inline(always)]
    pub(crate) const fn of(seed: u64, index: u64, version: u64) -> Self {
        Self(fold(fold(seed ^ P0, index ^ P1) ^ P2, version ^ P3))
    }

    /// The next 64 random bits.
    #[inline(always)]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(P0);
        fold(self.0, self.0 ^ P1)
    }

    /// A uniform number from `0..n`, without modulo bias; 0 if `n` is 0.
    ///
    /// Source: Lemire, *Fast random integer generation in an interval*, ACM TOMACS 2019.
    #[inline]
    pub const fn below(&mut self, n: u64) -> u64 {
        let mut product = self.next_u64() as u128 * n as u128;
        if (product as u64) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u64) < threshold {
                product = self.next_u64() as u128 * n as u128;
            }
        }
        (product >> 64) as u64
    }

    /// A uniform number from `min` to `max`, both included.
    #[inline]
    pub(crate) const fn within(&mut self, min: u64, max: u64) -> u64 {
        if min >= max { min } else { min + self.below((max - min).saturating_add(1)) }
    }

    /// A uniform number from `[0, 1)`, a multiple of 2^-53.
    #[inline]
    pub const fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::fit::{chi_square_z, even, kolmogorov_smirnov};

    /// Documents and keys depend on these numbers: if one changes, every database that was loaded before differs from
    /// what would be generated now.
    #[test]
    fn the_numbers_never_change() {
        let numbers = |mut rng: Rng| [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(numbers(Rng(0)), [1_233_057_930_238_600_590, 14_892_235_431_655_409_005, 7_060_326_114_132_480_676]);
        let of = [13_882_067_779_290_854_438, 17_995_388_957_143_971_846, 13_599_242_292_231_574_746];
        assert_eq!(numbers(Rng::of(1, 2, 3)), of);
    }

    #[test]
    fn streams_of_neighbours_are_even() {
        // First outputs of consecutive documents: chi-square over 256 cells, 255 degrees of freedom.
        let mut cells = [0u64; 256];
        for index in 0..256_000 {
            cells[(Rng::of(1, index, 0).next_u64() >> 56) as usize] += 1;
        }
        let chi: f64 = cells.iter().map(|&c| (c as f64 - 1000.0).powi(2) / 1000.0).sum();
        assert!((160.0..360.0).contains(&chi), "{chi}");
    }

    #[test]
    fn seeds_and_streams_differ() {
        let first = |mut rng: Rng| rng.next_u64();
        let mut firsts: Vec<u64> = (0..1_000).map(|i| first(Rng::stream(1, i))).collect();
        firsts.extend((0..1_000).map(|i| first(Rng::stream(i, 1))));
        firsts.extend((0..1_000).map(|i| first(Rng::new(i))));
        firsts.sort_unstable();
        firsts.dedup();
        // Stream 1 of seed 1 occurs twice.
        assert_eq!(firsts.len(), 2_999);
        assert_eq!(Rng::stream(7, 3), Rng::stream(7, 3));
    }

    #[test]
    fn below_is_even_and_stays_below() {
        let mut rng = Rng::new(3);
        for n in [2, 3, 7, 100] {
            let mut counts = vec![0; n];
            for _ in 0..100_000 {
                counts[rng.below(n as u64) as usize] += 1;
            }
            assert!(chi_square_z(&counts, &even(n)) < 3.7, "{n}");
        }
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
        // Without rejection, half of the numbers below this one would be multiples of 3.
        let n = 3 << 62;
        let mut counts = [0; 3];
        for _ in 0..100_000 {
            counts[(rng.below(n) % 3) as usize] += 1;
        }
        assert!(chi_square_z(&counts, &even(3)) < 3.7, "{counts:?}");
        assert!((0..1_000).all(|_| rng.below(n) < n));
    }

    #[test]
    fn unit_is_even_and_below_one() {
        let mut rng = Rng::new(4);
        let mut counts = vec![0; 128];
        for _ in 0..200_000 {
            counts[(rng.unit() * 128.0) as usize] += 1;
        }
        assert!(chi_square_z(&counts, &even(128)) < 3.7);
    }

    #[test]
    fn mix64_changes_half_of_the_bits() {
        let mut rng = Rng::new(9);
        let (mut flips_a, mut flips_b) = (0, 0);
        for _ in 0..2_000 {
            let (a, b) = (rng.next_u64(), rng.next_u64());
            let bit = 1 << rng.below(64);
            flips_a += (mix64(a, b) ^ mix64(a ^ bit, b)).count_ones();
            flips_b += (mix64(a, b) ^ mix64(a, b ^ bit)).count_ones();
        }
        for flips in [flips_a, flips_b] {
            let mean = f64::from(flips) / 2_000.0;
            assert!((31.5..32.5).contains(&mean), "{mean}");
        }
        assert_ne!(mix64(1, 2), mix64(2, 1));
    }

    #[test]
    fn the_tests_tell_a_wrong_law_from_a_right_one() {
        let mut rng = Rng::new(5);
        let mut counts = vec![0; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        assert!(chi_square_z(&counts, &even(10)).abs() < 3.7);
        let tilted: Vec<f64> = (0..10).map(|i| 0.1 + (f64::from(i) - 4.5) * 0.002).collect();
        assert!(chi_square_z(&counts, &tilted) > 5.0);
        let mut samples: Vec<f64> = (0..10_000).map(|_| rng.unit()).collect();
        assert!(kolmogorov_smirnov(&mut samples, |x| x) < 1.95);
        assert!(kolmogorov_smirnov(&mut samples, |x| x.powf(1.1)) > 1.95);
    }
}
