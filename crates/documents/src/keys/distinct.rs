//! Counts how many different keys were touched.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bits of the hash that choose a register.
const INDEX_BITS: u32 = 14;
const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of the hash whose leading zeros are counted.
const VALUE_BITS: usize = 64 - INDEX_BITS as usize;

/// Counts distinct hashes in 16 KiB: HyperLogLog with 2^14 registers, standard error 0.8 %.
///
/// Hashes must look random ([`mix64`](storebench_study::mix64) of collection and index does). The counters of several
/// workers [merge](Distinct::merge) into what one counter would hold.
///
/// Sources: Flajolet, Fusy, Gandouet and Meunier, *HyperLogLog*, AofA 2007; the estimate follows Ertl, *New cardinality
/// estimation algorithms for HyperLogLog sketches*, arXiv:1702.01284, which becomes linear counting for few keys,
/// without a switch of formulas and its bias.
#[derive(Clone, PartialEq, Eq)]
pub struct Distinct {
    /// The most leading zeros seen in each register, plus one; 0 for none.
    registers: Box<[u8; REGISTERS]>,
}

impl Distinct {
    /// An empty counter.
    pub fn new() -> Self {
        Self { registers: Box::new([0; REGISTERS]) }
    }

    /// Adds a hash. A repeated hash counts once.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        // The bit after the last one counted ends the zeros.
        let zeros = ((hash << INDEX_BITS) | (1 << (INDEX_BITS - 1))).leading_zeros();
        let register = &mut self.registers[(hash >> VALUE_BITS) as usize];
        let value = zeros as u8 + 1;
        if value > *register {
            *register = value;
        }
    }

    /// Adds everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.registers.iter_mut().zip(other.registers.iter()) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.registers.fill(0);
    }

    /// How many distinct hashes were counted, to about 0.8 %; exactly 0 for none.
    pub fn estimate(&self) -> u64 {
        let mut counts = [0u32; VALUE_BITS + 2];
        for &value in self.registers.iter() {
            counts[usize::from(value)] += 1;
        }
        let m = REGISTERS as f64;
        let mut z = m * tau(1.0 - f64::from(counts[VALUE_BITS + 1]) / m);
        for &count in counts[1..=VALUE_BITS].iter().rev() {
            z = 0.5 * (z + f64::from(count));
        }
        z += m * sigma(f64::from(counts[0]) / m);
        (m * m / (2.0 * std::f64::consts::LN_2 * z)).round() as u64
    }
}

impl Serialize for Distinct {
    /// The registers that are not empty, in order: `[register, value, register, value, …]`.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let filled = self.registers.iter().enumerate().filter(|(_, value)| **value > 0);
        to.collect_seq(filled.flat_map(|(at, value)| [at as u16, u16::from(*value)]))
    }
}

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut distinct = Self::new();
        for pair in Vec::<u16>::deserialize(from)?.chunks(2) {
            let register = pair.first().and_then(|at| distinct.registers.get_mut(usize::from(*at)));
            let value = pair.get(1).and_then(|value| u8::try_from(*value).ok());
            match (register, value) {
                (Some(register), Some(value)) if usize::from(value) <= VALUE_BITS + 1 => *register = value,
                _ => return Err(D::Error::custom("damaged counter of distinct keys")),
            }
        }
        Ok(distinct)
    }
}

impl Default for Distinct {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Distinct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Distinct").field("estimate", &self.estimate()).finish()
    }
}

/// Σ x^(2^k) 2^(k−1) from k = 1, plus x: what the empty registers add (Ertl, algorithm 6).
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// What the full registers add (Ertl, algorithm 6).
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storebench_study::mix64;

    #[test]
    fn counts_are_within_three_percent() {
        for collection in 0..3 {
            let mut distinct = Distinct::new();
            assert_eq!(distinct.estimate(), 0);
            let mut next_check = 1;
            for i in 1..=1_000_000u64 {
                distinct.add(mix64(collection, i));
                distinct.add(mix64(collection, i / 2 + 1));
                if i == next_check {
                    let error = distinct.estimate() as f64 / i as f64 - 1.0;
                    assert!(error.abs() < 0.03, "{i} keys: off by {error}");
                    // Covers every size, also those at which the classic estimate changes its formula.
                    next_check = i + i / 8 + 1;
                }
            }
        }
    }

    #[test]
    fn a_billion_is_not_too_many() {
        // Registers as a billion hashes would leave them, without adding a billion. Each of the 2^14 registers gets
        // 2^16 hashes, whose most leading zeros are drawn by inversion.
        let mut distinct = Distinct::new();
        let per_register = 65_536.0;
        let mut rng = crate::keys::Rng::new(1);
        for index in 0..REGISTERS as u64 {
            let largest = rng.unit().powf(1.0 / per_register);
            let zeros = (-(1.0 - largest).log2()).floor() as u32;
            distinct.add((index << VALUE_BITS) | 1 << (VALUE_BITS as u32 - 1 - zeros.min(VALUE_BITS as u32 - 1)));
        }
        let error = distinct.estimate() as f64 / (per_register * REGISTERS as f64) - 1.0;
        assert!(error.abs() < 0.03, "off by {error}");
    }

    #[test]
    fn merged_is_the_union() {
        let (mut left, mut right, mut both) = (Distinct::new(), Distinct::new(), Distinct::new());
        for i in 0..30_000 {
            let hash = mix64(1, i);
            if i < 20_000 {
                left.add(hash);
            }
            if i >= 10_000 {
                right.add(hash);
            }
            both.add(hash);
        }
        left.merge(&right);
        assert!(left == both);
        let text = serde_json::to_string(&left).unwrap();
        assert!(serde_json::from_str::<Distinct>(&text).unwrap() == both);
        for damaged in ["[0]", "[16384, 1]", "[0, 52]", "[0, 999]"] {
            assert!(serde_json::from_str::<Distinct>(damaged).is_err(), "{damaged}");
        }
        left.clear();
        assert_eq!(left.estimate(), 0);
    }

    #[test]
    fn extreme_hashes_are_counted() {
        let mut distinct = Distinct::new();
        for hash in [0, u64::MAX, 1, 1 << 63] {
            distinct.add(hash);
        }
        // 0 and 1 share a register.
        assert_eq!(distinct.estimate(), 3);
        let mut full = Distinct::new();
        full.registers.fill(VALUE_BITS as u8 + 1);
        assert_eq!(full.estimate(), u64::MAX);
    }
}
