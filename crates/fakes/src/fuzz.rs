//! Inputs for parsers that nobody has written: good ones with seeded changes, and bytes of nothing.
//!
//! `STOREBENCH_FUZZ_INPUTS` says how many inputs a soak test makes, `STOREBENCH_FUZZ_SEED` from which seed it begins. The
//! same seed gives the same input.

/// Inputs of a soak test: what the environment says, or else so many.
pub fn inputs(usual: u64) -> u64 {
    number("STOREBENCH_FUZZ_INPUTS").unwrap_or(usual)
}

/// The seed to begin with: what the environment says, or else 1.
pub fn first_seed() -> u64 {
    number("STOREBENCH_FUZZ_SEED").unwrap_or(1)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.replace('_', "").parse().ok()
}

/// Numbers that stand at the edges of types.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_fff0,
    u64::MAX,
];

/// Changes inputs. SplitMix64 (Steele, Lea, Flood 2014) says how.
#[derive(Debug, Clone)]
pub struct Mutator(u64);

impl Mutator {
    /// One that always does the same.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below this one, or 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.number() % n.max(1) as u64) as usize
    }

    /// One of the good inputs with up to six changes; of forty one holds bytes of nothing. `words` are what the format
    /// is made of.
    pub fn input(&mut self, good: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
        if good.is_empty() || self.below(40) == 0 {
            return (0..self.below(200)).map(|_| self.number() as u8).collect();
        }
        let mut bytes = good[self.below(good.len())].clone();
        for _ in 0..=self.below(6) {
            let other = &good[self.below(good.len())];
            self.change(&mut bytes, other, words);
        }
        bytes
    }

    /// The same as text.
    pub fn text(&mut self, good: &[&str], words: &[&[u8]]) -> String {
        let good: Vec<Vec<u8>> = good.iter().map(|text| text.as_bytes().to_vec()).collect();
        String::from_utf8_lossy(&self.input(&good, words)).into_owned()
    }

    /// Changes bytes in one place.
    pub fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8], words: &[&[u8]]) {
        let at = self.below(bytes.len() + 1);
        let near = 1 + self.below(16);
        let until = (at + near).min(bytes.len());
        match self.below(11) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.number() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..until)),
            4 => {
                let again = bytes[at..until].to_vec();
                bytes.splice(at..at, again);
            }
            5 => {
                let from = self.below(other.len() + 1);
                let piece = other[from..(from + near * 4).min(other.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            6 => {
                // A length, as binary formats write them.
                let edge = EDGES[self.below(EDGES.len())].wrapping_add(self.number() % 3).to_le_bytes();
                let width = [1, 2, 4, 8][self.below(4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&edge[..width]);
            }
            7 => {
                let edge = EDGES[self.below(EDGES.len())].to_string();
                bytes.splice(at..until, edge.into_bytes());
            }
            8 | 9 if !words.is_empty() => {
                let word = words[self.below(words.len())].to_vec();
                let end = if self.below(2) == 0 { at } else { until };
                bytes.splice(at..end, word);
            }
            _ => bytes.insert(at, self.number() as u8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_input_and_seeds_give_many() {
        let good = [b"one good input".to_vec(), b"another".to_vec()];
        let input = |seed| Mutator::new(seed).input(&good, &[b"word"]);
        assert_eq!(input(7), input(7));
        let all: std::collections::HashSet<Vec<u8>> = (0..1_000).map(input).collect();
        assert!(all.len() > 900, "{}", all.len());
    }
}
