//! Inputs that no good server sends: mutations of good ones, and noise. Seeded, so that what failed comes again.

/// Makes inputs. Two of the same seed make the same.
#[derive(Debug, Clone)]
pub struct Mutator(u64);

/// Where a parser may count on more, or on less, than there is.
const NUMBERS: [&[u8]; 10] = [
    b"0",
    b"-1",
    b"00000000000000000000001",
    b"2147483647",
    b"4294967296",
    b"1073741823",
    b"9223372036854775807",
    b"18446744073709551616",
    b"1e400",
    b"-0.0",
];
/// What has a meaning somewhere.
const SIGNS: &[u8] = b"\r\n\t \0\"'\\{}[]()<>:;,.=?&%@/#*$+-_~0189aZ\x7f\x80\xc0\xed\xff";

impl Mutator {
    /// Of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The next of its numbers (splitmix64).
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below this one, 0 for 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % (bound.max(1) as u64)) as usize
    }

    /// Writes an input into `out`: one of the good ones with up to eight changes, two of them joined, or noise.
    pub fn fill(&mut self, good: &[&[u8]], out: &mut Vec<u8>) {
        out.clear();
        if good.is_empty() || self.below(20) == 0 {
            let length = self.below(300);
            out.extend((0..length).map(|_| self.draw() as u8));
            return;
        }
        out.extend_from_slice(good[self.below(good.len())]);
        for _ in 0..self.below(9) {
            self.change(good, out);
        }
    }

    fn change(&mut self, good: &[&[u8]], out: &mut Vec<u8>) {
        let at = self.below(out.len());
        let end = (at + self.below(24)).min(out.len());
        match self.below(12) {
            0 if !out.is_empty() => out[at] = self.draw() as u8,
            1 if !out.is_empty() => out[at] ^= 1 << self.below(8),
            2 => out.insert(at, SIGNS[self.below(SIGNS.len())]),
            3 if !out.is_empty() => drop(out.remove(at)),
            4 => out.truncate(at),
            5 => drop(out.drain(at..end)),
            6 => {
                let again = out[at..end].to_vec();
                drop(out.splice(at..at, again));
            }
            // A length in another one's place: as a number of four bytes, either way round, and as digits.
            7 if out.len() >= at + 4 => {
                let value = [0, 1, 5, 0x7FFF_FFFF, 0x8000_0000, u32::MAX, 1 << 20][self.below(7)];
                let bytes = if self.below(2) == 0 { u32::to_be_bytes(value) } else { u32::to_le_bytes(value) };
                out[at..at + 4].copy_from_slice(&bytes);
            }
            8 => {
                let digits = out.iter().skip(at).position(u8::is_ascii_digit).map_or(at, |skip| at + skip);
                let end = digits + out[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                drop(out.splice(digits..end, NUMBERS[self.below(NUMBERS.len())].iter().copied()));
            }
            9 => {
                let other = good[self.below(good.len())];
                let from = self.below(other.len());
                drop(out.splice(at..end, other[from..].iter().copied()));
            }
            // Depth.
            10 if self.below(20) == 0 => {
                let sign = SIGNS[self.below(SIGNS.len())];
                let times = self.below(3_000);
                drop(out.splice(at..at, std::iter::repeat_n(sign, times)));
            }
            _ => out.push(SIGNS[self.below(SIGNS.len())]),
        }
    }
}

/// How many inputs a test makes: what `STOREBENCH_FUZZ_INPUTS` says, or so many.
pub fn inputs(otherwise: u64) -> u64 {
    std::env::var("STOREBENCH_FUZZ_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Runs a parser on so many inputs. Where it panics, the input stands in the error that is printed.
///
/// # Panics
/// Where the parser does, or asks for gigabytes of memory.
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
        shown.2.clear();
        shown.2.extend_from_slice(input);
        take(input);
    }
    for number in 0..inputs {
        mutator.fill(good, &mut shown.2);
        shown.1 = number;
        take(&shown.2);
    }
    // Other tests of the process take some, too.
    let more = most_memory_bytes().saturating_sub(before);
    assert!(more < 4 << 30, "{name}: {more} bytes more were asked for: a length in an input was believed");
}

/// The most address space that this process ever had; 0 where the system does not tell.
fn most_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}
