//! Text of a chosen compressibility: pieces of random characters and one common filler.
//!
//! A compressor must store the entropy of random characters, but needs only a few bytes for a filler that it has seen.
//! So the share of random characters sets the ratio. They come from the document's random stream, never from a table of
//! texts. A compressor with a window of gigabytes therefore finds no more repetition than one with 32 KiB.

use super::corpus::{Corpus, FILLER_BYTES};
use super::random::Rng;

/// Number of printable ASCII characters that JSON does not escape: 95 without `"` and `\`.
pub(crate) const ASCII: usize = 93;
const PAIRS: usize = 8_192;
/// The alphabet of base64 (RFC 4648).
pub(crate) const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The characters that random text is made of.
#[derive(Debug, Clone)]
pub(crate) enum Characters {
    /// Printable ASCII.
    Ascii,
    /// Two bytes at a time: two printable ASCII characters or one two-byte UTF-8 character. Their shares make the bytes
    /// as evenly distributed as UTF-8 allows.
    Utf8Pairs(Box<[[u8; 2]; PAIRS]>),
}

impl Characters {
    /// The table of pairs. An ASCII byte has 93 values, a two-byte character 30 × 64. The entropy of single bytes is
    /// highest when ASCII pairs and two-byte characters have the weights 93 : 2 √(30 · 64).
    pub(crate) fn utf8_pairs() -> Self {
        let weight = 2.0 * (30.0f64 * 64.0).sqrt();
        let ascii = (PAIRS as f64 * ASCII as f64 / (ASCII as f64 + weight)) as usize;
        let mut table = Box::new([[0u8; 2]; PAIRS]);
        for (i, pair) in table.iter_mut().enumerate() {
            *pair = if i < ascii {
                let n = i * (ASCII * ASCII) / ascii;
                [ascii_character((n / ASCII) as u8), ascii_character((n % ASCII) as u8)]
            } else {
                // U+00A0 to U+07FF. The two-byte characters below are control characters.
                let code = 0xa0 + (i - ascii) * (0x800 - 0xa0) / (PAIRS - ascii);
                [0xc0 | (code >> 6) as u8, 0x80 | (code & 63) as u8]
            };
        }
        Self::Utf8Pairs(table)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ascii => "ascii-93",
            Self::Utf8Pairs(_) => "utf8-pairs",
        }
    }
}

/// Character number `v`, below 93.
#[inline(always)]
fn ascii_character(v: u8) -> u8 {
    let c = v + b' ' + u8::from(v >= 2);
    c + u8::from(c >= b'\\')
}

/// Calibrated text: `share` of it is random, the rest is filler.
#[derive(Debug, Clone)]
pub(crate) struct Mixture {
    pub(crate) share: f64,
    pub(crate) characters: Characters,
}

const BLOCK: usize = 64;

#[inline(always)]
fn random_block(rng: &mut Rng) -> [u8; BLOCK] {
    let mut block = [0u8; BLOCK];
    for word in block.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes());
    }
    block
}

#[inline]
fn write_blocks(mut n: usize, out: &mut Vec<u8>, mut block: impl FnMut() -> [u8; BLOCK]) {
    while n >= BLOCK {
        out.extend_from_slice(&block());
        n -= BLOCK;
    }
    if n > 0 {
        out.extend_from_slice(&block()[..n]);
    }
}

/// Appends `n` random bytes, each made into a character.
#[inline]
fn write_characters(n: usize, rng: &mut Rng, out: &mut Vec<u8>, character: impl Fn(u8) -> u8) {
    write_blocks(n, out, || {
        let mut block = random_block(rng);
        for byte in &mut block {
            *byte = character(*byte);
        }
        block
    });
}

#[inline]
fn write_ascii(n: usize, rng: &mut Rng, out: &mut Vec<u8>) {
    write_characters(n, rng, out, |byte| ascii_character(((u16::from(byte) * ASCII as u16) >> 8) as u8));
}

#[inline]
fn write_pairs(table: &[[u8; 2]; PAIRS], n: usize, rng: &mut Rng, out: &mut Vec<u8>) {
    write_blocks(n, out, || {
        let mut block = random_block(rng);
        for pair in block.chunks_exact_mut(2) {
            let at = usize::from(u16::from_le_bytes([pair[0], pair[1]])) % PAIRS;
            pair.copy_from_slice(&table[at]);
        }
        block
    });
}

/// Appends `n` random characters of the base64 alphabet.
#[inline]
pub(crate) fn write_base64(n: usize, rng: &mut Rng, out: &mut Vec<u8>) {
    write_characters(n, rng, out, |byte| BASE64[usize::from(byte & 63)]);
}

impl Mixture {
    /// How many of `n` bytes are random. The share is rounded up or down at random, so that the mean is exact for short
    /// texts too.
    #[inline]
    fn random_part(&self, n: usize, rng: &mut Rng) -> usize {
        ((self.share * n as f64 + rng.unit()) as usize).min(n)
    }

    /// Appends exactly `n` bytes of text.
    #[inline]
    pub(crate) fn write_text(&self, corpus: &Corpus, n: usize, rng: &mut Rng, out: &mut Vec<u8>) {
        let mut rest = n;
        while rest > 0 {
            let take = rest.min(FILLER_BYTES);
            let random = match &self.characters {
                Characters::Ascii => {
                    let random = self.random_part(take, rng);
                    write_ascii(random, rng, out);
                    random
                }
                Characters::Utf8Pairs(table) => {
                    let random = 2 * self.random_part(take / 2, rng);
                    write_pairs(table, random, rng, out);
                    random
                }
            };
            corpus.write_filler(take - random, out);
            rest -= take;
        }
    }

    /// Appends `n` characters of the base64 alphabet.
    pub(crate) fn write_base64(&self, n: usize, rng: &mut Rng, out: &mut Vec<u8>) {
        let mut rest = n;
        while rest > 0 {
            let take = rest.min(FILLER_BYTES);
            let random = self.random_part(take, rng);
            write_base64(random, rng, out);
            out.resize(out.len() + take - random, b'A');
            rest -= take;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_need_no_escape_and_all_occur() {
        let all: Vec<u8> = (0..ASCII as u8).map(ascii_character).collect();
        assert_eq!((all[0], all[ASCII - 1]), (b' ', b'~'));
        assert!(all.windows(2).all(|w| w[0] < w[1]));
        assert!(!all.contains(&b'"') && !all.contains(&b'\\'));
        let Characters::Utf8Pairs(table) = Characters::utf8_pairs() else { panic!("a table") };
        for pair in table.iter() {
            let text = std::str::from_utf8(pair).unwrap();
            assert!(!text.contains(['"', '\\']) && !text.chars().any(char::is_control), "{text:?}");
        }
    }

    #[test]
    fn mixtures_have_their_length_and_are_text() {
        let corpus = Corpus::sentences(1);
        for characters in [Characters::Ascii, Characters::utf8_pairs()] {
            for share in [0.0, 0.013, 0.5, 1.0] {
                let mixture = Mixture { share, characters: characters.clone() };
                for n in [0, 1, 2, 3, 511, 512, 513, 5_000] {
                    let mut out = Vec::new();
                    mixture.write_text(&corpus, n, &mut Rng::of(n as u64, 0, 0), &mut out);
                    assert_eq!(out.len(), n);
                    std::str::from_utf8(&out).unwrap();
                }
            }
        }
    }
}
