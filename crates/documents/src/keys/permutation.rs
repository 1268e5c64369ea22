//! A seeded permutation of a range of numbers.

use storebench_study::mix64;

/// Rounds of the network. Four rounds make a Feistel network with random round functions a pseudorandom permutation
/// (Luby and Rackoff 1988). The round functions here are weaker. With four rounds, keys 64 apart scatter unevenly for
/// some seeds at a few thousand keys; with six, no such effect is visible.
const ROUNDS: usize = 6;

/// A seeded bijection of `0..n`.
///
/// A number is split into a left part below `a` and `r` right bits. `2^r` is about the square root of `n`, and `a ·
/// 2^r` is at least `n`, but less than `n + 2^r`. An alternating Feistel network mixes the parts: it adds to the left
/// part modulo `a`, and xors the right part. A result outside of `0..n` goes through the network again (cycle walking).
/// For large `n` this hardly ever happens, unlike with a power of two as the domain, so the cost is the same for every
/// `n`. Memory is constant; `n` is at most 2^63.
///
/// Source: Black and Rogaway, *Ciphers with arbitrary finite domains*, CT-RSA 2002. Here it
/// scatters; it does not encrypt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    /// Left parts are below this.
    lefts: u64,
    right_bits: u32,
    /// For each round: what is added to the other part before the multiplication, and the multiplier (odd).
    keys: [(u64, u64); ROUNDS],
}

impl Permutation {
    /// The permutation of `0..n` that belongs to `seed`. `n` is clamped to 1 to 2^63.
    pub fn new(n: u64, seed: u64) -> Self {
        let n = n.clamp(1, 1 << 63);
        let bits = (64 - (n - 1).leading_zeros()).max(2);
        let right_bits = bits / 2;
        let mut keys = [(0, 0); ROUNDS];
        for (round, key) in (0u64..).zip(&mut keys) {
            *key = (mix64(seed, 2 * round), mix64(seed, 2 * round + 1) | 1);
        }
        Self { n, lefts: n.div_ceil(1 << right_bits), right_bits, keys }
    }

    /// The image of `i`. A number outside of `0..n` maps to itself.
    #[inline]
    pub fn forward(&self, i: u64) -> u64 {
        if i >= self.n {
            return i;
        }
        let mut x = i;
        // This terminates: the network is a bijection, so repeating it leads back to `i < n` at the latest.
        loop {
            let (mut left, mut right) = self.split(x);
            for [even, odd] in self.keys.as_chunks().0 {
                left += self.left_half(right, *even);
                left -= if left >= self.lefts { self.lefts } else { 0 };
                right ^= self.right_half(left, *odd);
            }
            x = (left << self.right_bits) | right;
            if x < self.n {
                return x;
            }
        }
    }

    /// The number whose image is `i`: `inverse(forward(i)) == i`. A number outside of `0..n` maps to itself.
    #[inline]
    pub fn inverse(&self, i: u64) -> u64 {
        if i >= self.n {
            return i;
        }
        let mut x = i;
        loop {
            let (mut left, mut right) = self.split(x);
            for [even, odd] in self.keys.as_chunks().0.iter().rev() {
                right ^= self.right_half(left, *odd);
                let half = self.left_half(right, *even);
                left += if left < half { self.lefts } else { 0 };
                left -= half;
            }
            x = (left << self.right_bits) | right;
            if x < self.n {
                return x;
            }
        }
    }

    #[inline]
    fn split(&self, x: u64) -> (u64, u64) {
        (x >> self.right_bits, x & ((1 << self.right_bits) - 1))
    }

    /// The round function for the left part: a number below `lefts`.
    #[inline]
    fn left_half(&self, right: u64, key: (u64, u64)) -> u64 {
        ((u128::from(product(right, key)) * u128::from(self.lefts)) >> 64) as u64
    }

    /// The round function for the right part: a number of `right_bits` bits.
    #[inline]
    fn right_half(&self, left: u64, key: (u64, u64)) -> u64 {
        product(left, key) >> (64 - self.right_bits)
    }
}

/// Every bit of `x` affects the top bits of the result, which the round functions use. It is quadratic, because linear
/// rounds would combine to a linear function.
#[inline]
fn product(x: u64, key: (u64, u64)) -> u64 {
    let y = x.wrapping_add(key.0);
    y.wrapping_mul(key.1).wrapping_mul(y)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::keys::fit::{chi_square_z, even};

    #[test]
    fn small_ranges_are_permuted_completely() {
        for n in 1..=300 {
            for seed in 0..5 {
                let permutation = Permutation::new(n, seed);
                let mut seen = vec![false; n as usize];
                for i in 0..n {
                    let to = permutation.forward(i);
                    assert!(!std::mem::replace(&mut seen[to as usize], true), "n {n}: {to} twice");
                    assert_eq!(permutation.inverse(to), i);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn inverse_undoes_forward(bits in 0u32..=63, low: u64, at: u64, seed: u64) {
            let n = ((1u64 << bits) | (low & ((1u64 << bits) - 1))).min(1 << 63);
            let permutation = Permutation::new(n, seed);
            let i = at % n;
            let to = permutation.forward(i);
            prop_assert!(to < n);
            prop_assert_eq!(permutation.inverse(to), i);
            prop_assert_eq!(permutation.forward(permutation.inverse(i)), i);
        }
    }

    #[test]
    fn numbers_outside_stay_where_they_are() {
        let permutation = Permutation::new(5, 1);
        for i in [5, 7, u64::MAX] {
            assert_eq!((permutation.forward(i), permutation.inverse(i)), (i, i));
        }
        assert_eq!((Permutation::new(0, 1).n, Permutation::new(u64::MAX, 1).n), (1, 1 << 63));
    }

    #[test]
    fn neighbours_are_scattered_evenly_and_apart() {
        for n in [1_000u64, 1_025, 4_097, 100_000, 1_000_000_000] {
            let bucket = |x: u64| (u128::from(x) * 64 / u128::from(n)) as usize;
            for seed in 0..20 {
                let permutation = Permutation::new(n, seed);
                let draws = (n / 10).min(20_000);
                let (mut places, mut near, mut far) = ([0u64; 64], [0u64; 64], [0u64; 64]);
                for i in 0..draws {
                    let to = permutation.forward(i);
                    places[bucket(to)] += 1;
                    near[bucket((permutation.forward(i + 1) + n - to) % n)] += 1;
                    far[bucket((permutation.forward(i + 64) + n - to) % n)] += 1;
                }
                for (what, counts) in [("places", places), ("next", near), ("64 on", far)] {
                    let z = chi_square_z(&counts, &even(64));
                    assert!(z < 5.0, "n {n}, seed {seed}, {what}: {z}");
                }
            }
        }
    }

    #[test]
    fn the_order_never_changes() {
        let permutation = Permutation::new(1_000_000, 7);
        assert_eq!([0, 1, 2].map(|i| permutation.forward(i)), [471_203, 71_986, 260_600]);
    }

    #[test]
    fn seeds_make_different_permutations() {
        let n = 1_000_000;
        let (one, other) = (Permutation::new(n, 1), Permutation::new(n, 2));
        let same = (0..10_000).filter(|&i| one.forward(i) == other.forward(i)).count();
        assert!(same < 5, "{same} of 10,000 go to the same place");
    }
}
