//! Fuzz inputs for parsers: valid inputs with random changes, and random bytes.
//!
//! `STOREBENCH_FUZZ_INPUTS` sets the number of inputs of a soak test, and `STOREBENCH_FUZZ_SEED` its first seed. The
//! same seed gives the same input.

/// The number of inputs of a soak test: from the environment, or else `usual`.
pub fn inputs(usual: u64) -> u64 {
    number("STOREBENCH_FUZZ_INPUTS").unwrap_or(usual)
}

/// The first seed: from the environment, or else `usual`.
pub fn first_seed(usual: u64) -> u64 {
    number("STOREBENCH_FUZZ_SEED").unwrap_or(usual)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.replace('_', "").parse().ok()
}

/// Numbers at the limits of integer types, for binary formats.
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
/// The same for text formats, to provoke wrong lengths and overflows in a parser.
const NUMBERS: [&str; 10] = [
    "0",
    "-1",
    "00000000000000000000001",
    "2147483647",
    "4294967296",
    "1073741823",
    "9223372036854775807",
    "18446744073709551616",
    "1e400",
    "-0.0",
];
/// Bytes that have a meaning in some format.
const SIGNS: &[u8] = b"\r\n\t \0\"'\\{}[]()<>:;,.=?&%@/#*$+-_~0189aZ\x7f\x80\xc0\xed\xff";

/// Mutates inputs with random numbers from SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub struct Mutator(u64);

impl Mutator {
    /// A mutator that is determined by its seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A random number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.number() % n.max(1) as u64) as usize
    }

    /// A random element of `all`.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// One of the valid inputs with up to eight changes, or with probability 1/30 random bytes. `words` are the tokens
    /// of the format.
    pub fn input(&mut self, good: &[impl AsRef<[u8]>], words: &[&[u8]]) -> Vec<u8> {
        if good.is_empty() || self.below(30) == 0 {
            return (0..self.below(300)).map(|_| self.number() as u8).collect();
        }
        let mut bytes = self.of(good).as_ref().to_vec();
        for _ in 0..self.below(9) {
            let other = self.of(good).as_ref();
            self.change(&mut bytes, other, words);
        }
        bytes
    }

    /// The same as text.
    pub fn text(&mut self, good: &[&str], words: &[&[u8]]) -> String {
        String::from_utf8_lossy(&self.input(good, words)).into_owned()
    }

    /// Changes bytes at one position.
    pub fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8], words: &[&[u8]]) {
        let at = self.below(bytes.len() + 1);
        let near = 1 + self.below(24);
        let until = (at + near).min(bytes.len());
        match self.below(13) {
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
                let end = if self.below(2) == 0 { at } else { until };
                bytes.splice(at..end, piece);
            }
            // A length, in either byte order.
            6 => {
                let edge = self.of(&EDGES).wrapping_add(self.number() % 3);
                let width = [1, 2, 4, 8][self.below(4)].min(bytes.len() - at);
                let (little, big) = (edge.to_le_bytes(), edge.to_be_bytes());
                let edge = if self.below(2) == 0 { &little[..width] } else { &big[8 - width..] };
                bytes[at..at + width].copy_from_slice(edge);
            }
            // Replace a number by another one.
            7 => {
                let begin = bytes[at..].iter().position(u8::is_ascii_digit).map_or(at, |skip| at + skip);
                let end = begin + bytes[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                bytes.splice(begin..end, self.of(&NUMBERS).bytes());
            }
            8 | 9 if !words.is_empty() => {
                let word = self.of(words).to_vec();
                let end = if self.below(2) == 0 { at } else { until };
                bytes.splice(at..end, word);
            }
            // Deep nesting.
            10 if self.below(20) == 0 => {
                let (sign, times) = (*self.of(SIGNS), self.below(3_000));
                bytes.splice(at..at, std::iter::repeat_n(sign, times));
            }
            11 => bytes.insert(at, self.number() as u8),
            _ => bytes.insert(at, *self.of(SIGNS)),
        }
    }
}

/// Runs a parser on the valid inputs and on `inputs` others. If it panics, the printed error contains the input.
///
/// # Panics
/// If the parser panics, or allocates gigabytes of memory.
pub fn run(name: &str, good: &[&[u8]], seed: u64, inputs: u64, mut take: impl FnMut(&[u8])) {
    struct Shown<'a>(&'a str, u64, Vec<u8>);
    impl Drop for Shown<'_> {
        #[allow(clippy::print_stderr, reason = "what failed must be seen")]
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{} failed at input {}: {}", self.0, self.1, self.2.escape_ascii());
            }
        }
    }
    let mut mutator = Mutator::new(seed);
    let before = most_memory_bytes();
    let mut shown = Shown(name, 0, Vec::new());
    for input in good {
        shown.2 = input.to_vec();
        take(input);
    }
    for number in 0..inputs {
        shown.1 = number;
        shown.2 = mutator.input(good, &[]);
        take(&shown.2);
    }
    // Other tests of this process also use some memory.
    let more = most_memory_bytes().saturating_sub(before);
    assert!(more < 4 << 30, "{name}: the parser allocated {more} bytes; it trusts a length in the input");
}

/// The peak size of this process's address space; 0 if the system does not report it.
fn most_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_input_and_seeds_give_many() {
        let good = ["one good input", "another"];
        let input = |seed| Mutator::new(seed).input(&good, &[b"word"]);
        assert_eq!(input(7), input(7));
        let all: std::collections::HashSet<Vec<u8>> = (0..1_000).map(input).collect();
        assert!(all.len() > 800, "{}", all.len());
    }
}
