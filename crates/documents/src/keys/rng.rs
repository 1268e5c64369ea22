//! The random numbers of one worker.

use storebench_study::mix64;

/// A small, fast, seedable generator: xoshiro256++ (Blackman and Vigna, *Scrambled linear
/// pseudorandom number generators*, ACM TOMS 2021). 32 bytes, period 2^256 − 1. The same seed gives
/// the same numbers on every machine. Not cryptographic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of this seed.
    pub const fn new(seed: u64) -> Self {
        // Four outputs of SplitMix64, as the authors of xoshiro recommend. Outputs of a bijection at four different
        // points cannot all be zero, which is the only invalid state.
        Self { state: [mix64(seed, 0), mix64(seed, 1), mix64(seed, 2), mix64(seed, 3)] }
    }

    /// The generator of one stream of this seed, such as a worker. Streams start at unrelated points of a period of
    /// 2^256, so in practice they never overlap.
    pub const fn stream(seed: u64, stream: u64) -> Self {
        Self::new(mix64(seed ^ 0x7374_7265_616d_0001, stream))
    }

    /// The next 64 random bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let result = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        let (s2, s3) = (s2 ^ s0, s3 ^ s1);
        self.state = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17), s3.rotate_left(45)];
        result
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

    /// A uniform number from `[0, 1)`, a multiple of 2^-53.
    #[inline]
    pub const fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::fit::{chi_square_z, even};

    #[test]
    fn it_is_xoshiro256_plus_plus() {
        // The first outputs for the state 1, 2, 3, 4, as published with rand_xoshiro.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected = [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205];
        for value in expected {
            assert_eq!(rng.next_u64(), value);
        }
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
}
