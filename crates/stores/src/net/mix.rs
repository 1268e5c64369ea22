//! Hashes and pseudo-random numbers.

/// Hashes bytes: FNV-1a, finished by [`finish`].
pub(crate) fn mix(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325 ^ seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3));
    draw(&mut hash)
}

/// A random number, different at each call and in each process.
pub(crate) fn fresh() -> u64 {
    // The hasher's keys are random in each process, and differ at each call.
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)
}

/// The increment of splitmix64's state (Steele, Lea, Flood 2014).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The next number of splitmix64.
pub(crate) fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    finish(*state)
}

/// The output function of splitmix64. It decorrelates adjacent states and maps no two states to the same number.
const fn finish(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut state = 1_234_567;
        let drawn: Vec<u64> = (0..3).map(|_| draw(&mut state)).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
