//! The hash that mixes seeds.

/// 2^64 divided by the golden ratio, the odd step of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64-bit numbers in which every input bit affects every output bit, so that distinct numbers stay
/// distinct: the finaliser of SplitMix64 (Stafford's variant 13; Steele, Lea and Flood, *Fast splittable pseudorandom
/// number generators*, OOPSLA 2014).
#[inline]
pub const fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Mixes two numbers into one that looks random: a seed with a purpose, a collection with an index.
///
/// For a fixed `a` it is a bijection in `b` and vice versa, so two keys of one collection never collide. Not symmetric:
/// `mix64(a, b)` and `mix64(b, a)` are unrelated. Not cryptographic.
#[inline]
pub const fn mix64(a: u64, b: u64) -> u64 {
    scramble(scramble(a.wrapping_add(GOLDEN)).wrapping_add(b.wrapping_mul(GOLDEN)))
}
