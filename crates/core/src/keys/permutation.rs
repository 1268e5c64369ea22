//! Scatters a range of numbers over itself.

use super::mix64;

/// Rounds of the network. Four make a Feistel network of good round functions a pseudorandom
/// permutation (Luby and Rackoff 1988); these round functions are one multiplication, so there are
/// two more.
const ROUNDS: usize = 6;

/// A seeded bijection of `0..n`: every number to one other, no two to the same.
///
/// An alternating Feistel network over the smallest power of two not below `n` (at least 4), with
/// cycle walking: a result outside of `0..n` goes through the network again, on average less than
/// once. Memory is constant, `n` up to 2^63.
///
/// Source: Black and Rogaway, *Ciphers with arbitrary finite domains*, CT-RSA 2002. Here it
/// scatters; it does not encrypt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    /// Bits of the right (low) half, mixed into the left by the even rounds.
    right_bits: u32,
    /// Down-shifts that leave as many bits as the left and the right half have.
    left_shift: u32,
    right_shift: u32,
    right_mask: u64,
    /// Of each round: what is added to the half before it is multiplied, and by what (odd).
    keys: [(u64, u64); ROUNDS],
}

impl Permutation {
    /// The permutation of `0..n` that belongs to `seed`. An `n` of 0 is taken as 1, one above 2^63
    /// as 2^63.
    pub fn new(n: u64, seed: u64) -> Self {
        let n = n.clamp(1, 1 << 63);
        let bits = (64 - (n - 1).leading_zeros()).max(2);
        let right_bits = bits.div_ceil(2);
        let mut keys = [(0, 0); ROUNDS];
        for (round, key) in (0u64..).zip(&mut keys) {
            *key = (mix64(seed, 2 * round), mix64(seed, 2 * round + 1) | 1);
        }
        Self {
            n,
            right_bits,
            left_shift: 64 - (bits - right_bits),
            right_shift: 64 - right_bits,
            right_mask: (1 << right_bits) - 1,
            keys,
        }
    }

    /// How many numbers are permuted.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Never: at least one number is permuted.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Where `i` goes. A number outside of `0..n` stays where it is.
    #[inline]
    pub fn forward(&self, i: u64) -> u64 {
        if i >= self.n {
            return i;
        }
        let mut x = i;
        // Ends: the network is a bijection, so repeating it leads back to `i < n` at the latest.
        loop {
            let (mut left, mut right) = (x >> self.right_bits, x & self.right_mask);
            for [even, odd] in self.keys.as_chunks().0 {
                left ^= half(right, *even, self.left_shift);
                right ^= half(left, *odd, self.right_shift);
            }
            x = left << self.right_bits | right;
            if x < self.n {
                return x;
            }
        }
    }

    /// What went to `i`: `inverse(forward(i)) == i`. A number outside of `0..n` stays where it is.
    #[inline]
    pub fn inverse(&self, i: u64) -> u64 {
        if i >= self.n {
            return i;
        }
        let mut x = i;
        loop {
            let (mut left, mut right) = (x >> self.right_bits, x & self.right_mask);
            for [even, odd] in self.keys.as_chunks().0.iter().rev() {
                right ^= half(left, *odd, self.right_shift);
                left ^= half(right, *even, self.left_shift);
            }
            x = left << self.right_bits | right;
            if x < self.n {
                return x;
            }
        }
    }
}

/// The round function: the top bits of a product, where every bit of `x` below them counts.
#[inline]
fn half(x: u64, key: (u64, u64), shift: u32) -> u64 {
    (x.wrapping_add(key.0)).wrapping_mul(key.1) >> shift
}
