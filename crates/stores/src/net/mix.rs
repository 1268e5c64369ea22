//! Numbers drawn for things.

/// splitmix64 (Steele, Lea, Flood 2014): the next number, and the next state.
pub(crate) fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number drawn for some bytes: FNV-1a, finished by splitmix64.
pub(crate) fn mix(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325 ^ seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3));
    splitmix64(&mut hash)
}
