//! The text that documents are cut from. It is escaped for JSON once and then only copied.

use std::path::Path;

use super::error::DocumentError;
use super::random::{Rng, seed_of};
use super::reader::LineReader;

/// Bytes of seeded sentences: large enough to vary, small enough to stay in a core's cache.
const SENTENCES_BYTES: usize = 1 << 20;
/// Bytes read from a user's text file. Lines beyond this limit are ignored.
const FILE_BYTES: usize = 8 << 20;
const VOCABULARY: usize = 2_048;
/// Plain text is copied in pieces of at most this many bytes.
const PIECE: usize = 1_024;
/// Length of the filler that all calibrated text shares.
pub(crate) const FILLER_BYTES: usize = 512;

/// Text in JSON-escaped form with the places where it may be cut.
#[derive(Debug)]
pub(crate) struct Corpus {
    text: Vec<u8>,
    /// Offset of the first byte of each sentence or line, and the end of the text.
    starts: Vec<u32>,
    /// One bit per byte: whether text may begin there. `None` when every byte is a complete character.
    cuts: Option<Vec<u64>>,
    words: Vec<Box<str>>,
    longest_word: usize,
    longest_unit: usize,
    lines: bool,
}

impl Corpus {
    /// Sentences of random words from a seeded vocabulary. Earlier words of the vocabulary occur more often.
    pub(crate) fn sentences(seed: u64) -> Self {
        let words = vocabulary(seed);
        let mut rng = Rng::of(seed_of("sentences", seed), 0, 0);
        let mut text = Vec::with_capacity(SENTENCES_BYTES + 256);
        let mut starts = vec![0];
        while text.len() < SENTENCES_BYTES {
            let begin = text.len();
            let count = rng.within(5, 14);
            for i in 0..count {
                if i > 0 {
                    text.extend_from_slice(if rng.below(16) == 0 { b", " } else { b" " });
                }
                text.extend_from_slice(pick(&words, &mut rng).as_bytes());
            }
            text[begin].make_ascii_uppercase();
            text.extend_from_slice(b". ");
            starts.push(text.len() as u32);
        }
        Self::finish(text, starts, None, words, false)
    }

    /// The lines of a text file, without blank lines.
    pub(crate) fn file(file: &Path, path: &str, seed: u64) -> Result<Self, DocumentError> {
        let wrong = |line: Option<u64>, message: &str| DocumentError::in_file(path, file.to_owned(), line, message);
        let mut reader =
            LineReader::open(file).map_err(|e| wrong(None, &format!("cannot be opened: {e}; check the path")))?;
        let (mut text, mut starts) = (Vec::new(), vec![0]);
        let mut line = Vec::new();
        while reader.next(&mut line).map_err(|e| wrong(Some(reader.line()), &format!("cannot be read: {e}")))? {
            let content = std::str::from_utf8(&line).map_err(|_| {
                wrong(Some(reader.line()), "is not UTF-8; convert the file, for example with `iconv -t UTF-8`")
            })?;
            let content = content.trim();
            if content.is_empty() {
                continue;
            }
            if text.len() + content.len() > FILE_BYTES {
                break;
            }
            escape_simply(content, &mut text);
            starts.push(text.len() as u32);
        }
        if text.len() < 2 * PIECE {
            let why = format!(
                "has {} bytes of text; at least {} are needed to generate different documents",
                text.len(),
                2 * PIECE
            );
            return Err(wrong(None, &why));
        }
        let cuts = (!text.is_ascii() || text.contains(&b'\\')).then(|| cut_places(&text));
        Ok(Self::finish(text, starts, cuts, vocabulary(seed), true))
    }

    fn finish(text: Vec<u8>, starts: Vec<u32>, cuts: Option<Vec<u64>>, words: Vec<Box<str>>, lines: bool) -> Self {
        let longest_word = words.iter().map(|w| w.len()).max().unwrap_or(0);
        let longest_unit = starts.windows(2).map(|w| (w[1] - w[0]) as usize).max().unwrap_or(0);
        Self { text, starts, cuts, words, longest_word, longest_unit, lines }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    pub(crate) fn hash(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&self.text)
    }

    #[inline]
    fn may_cut(cuts: &[u64], at: usize) -> bool {
        cuts[at >> 6] >> (at & 63) & 1 == 1
    }

    /// Appends the longest text within `at..at + n` that splits no character, then pads with spaces to exactly `n`
    /// bytes.
    #[inline]
    pub(crate) fn copy_exactly(&self, at: usize, n: usize, out: &mut Vec<u8>) {
        let Some(cuts) = &self.cuts else {
            out.extend_from_slice(&self.text[at..at + n]);
            return;
        };
        let (mut begin, mut end) = (at, at + n);
        while begin < end && !Self::may_cut(cuts, begin) {
            begin += 1;
        }
        while end > begin && !Self::may_cut(cuts, end) {
            end -= 1;
        }
        out.extend_from_slice(&self.text[begin..end]);
        // At most six: a character or an escape has at most four bytes, so each end moves by at most three.
        out.extend_from_slice(&b"        "[..n - (end - begin)]);
    }

    /// Appends exactly `n` bytes of text.
    #[inline]
    pub(crate) fn write_text(&self, n: usize, rng: &mut Rng, out: &mut Vec<u8>) {
        let mut rest = n;
        while rest > 0 {
            let take = rest.min(PIECE);
            let at = rng.below((self.text.len() - take) as u64 + 1) as usize;
            self.copy_exactly(at, take, out);
            rest -= take;
        }
    }

    /// Appends the first `n` bytes (at most [`FILLER_BYTES`]) of the filler that all calibrated text shares.
    #[inline]
    pub(crate) fn write_filler(&self, n: usize, out: &mut Vec<u8>) {
        self.copy_exactly(0, n.min(FILLER_BYTES), out);
    }

    /// A random range of `count` consecutive sentences or lines.
    #[inline]
    fn run(&self, count: u64, rng: &mut Rng) -> std::ops::Range<usize> {
        let units = self.starts.len() - 1;
        let count = (count as usize).min(units);
        let first = rng.below((units - count) as u64 + 1) as usize;
        let (from, to) = (self.starts[first] as usize, self.starts[first + count] as usize);
        // A sentence ends with a space that separates it from the next one.
        from..if self.lines || to == from { to } else { to - 1 }
    }

    /// Bytes that [`Self::write_sentences`] appends.
    pub(crate) fn sentences_len(&self, count: u64, rng: &mut Rng) -> usize {
        if self.lines { self.lines_len(count, rng) } else { self.run(count, rng).len() }
    }

    /// Appends `count` consecutive sentences; with a text file, `count` random lines.
    pub(crate) fn write_sentences(&self, count: u64, rng: &mut Rng, out: &mut Vec<u8>) {
        if self.lines {
            self.write_lines(count, rng, out);
        } else {
            let range = self.run(count, rng);
            out.extend_from_slice(&self.text[range]);
        }
    }

    /// Bytes that [`Self::write_lines`] appends.
    pub(crate) fn lines_len(&self, count: u64, rng: &mut Rng) -> usize {
        (0..count).map(|_| self.run(1, rng).len()).sum::<usize>() + 2 * count.saturating_sub(1) as usize
    }

    /// Appends `count` random lines, joined by an escaped line feed.
    pub(crate) fn write_lines(&self, count: u64, rng: &mut Rng, out: &mut Vec<u8>) {
        for i in 0..count {
            if i > 0 {
                out.extend_from_slice(b"\\n");
            }
            let range = self.run(1, rng);
            out.extend_from_slice(&self.text[range]);
        }
    }

    /// Bytes that [`Self::write_words`] appends.
    pub(crate) fn words_len(&self, count: u64, rng: &mut Rng) -> usize {
        (0..count).map(|_| pick(&self.words, rng).len()).sum::<usize>() + count.saturating_sub(1) as usize
    }

    /// Appends `count` words, separated by spaces.
    pub(crate) fn write_words(&self, count: u64, rng: &mut Rng, out: &mut Vec<u8>) {
        for i in 0..count {
            if i > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(pick(&self.words, rng).as_bytes());
        }
    }

    /// The maximum length of `count` words in bytes.
    pub(crate) fn words_bound(&self, count: u64) -> u64 {
        count.saturating_mul(self.longest_word as u64 + 1)
    }

    /// The maximum length of `count` sentences or lines in bytes.
    pub(crate) fn units_bound(&self, count: u64) -> u64 {
        count.saturating_mul(self.longest_unit as u64 + 2)
    }
}

/// Draws a word; earlier words of the vocabulary are more likely. Two nested draws give rank k a probability of about
/// ln(n / k) / n.
#[inline(always)]
fn pick<'a>(words: &'a [Box<str>], rng: &mut Rng) -> &'a str {
    let cap = rng.below(words.len() as u64) + 1;
    &words[rng.below(cap) as usize]
}

fn vocabulary(seed: u64) -> Vec<Box<str>> {
    const ONSETS: &[&str] = &[
        "b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pl", "qu", "r", "s",
        "sh", "st", "t", "th", "tr", "v", "w", "",
    ];
    const VOWELS: &[&str] = &["a", "e", "i", "o", "u", "ea", "ai", "ou", "ie"];
    const CODAS: &[&str] = &["", "", "", "n", "r", "s", "t", "l", "nd", "st", "ck", "m", "ng"];
    let mut rng = Rng::of(seed_of("vocabulary", seed), 0, 0);
    let mut seen = std::collections::HashSet::new();
    let mut words = Vec::with_capacity(VOCABULARY);
    while words.len() < VOCABULARY {
        // Frequent words are short, as in natural language.
        let syllables = match words.len() {
            0..64 => 1,
            64..768 => rng.within(1, 2),
            _ => rng.within(2, 3),
        };
        let word: String = (0..syllables)
            .flat_map(|_| [ONSETS, VOWELS, CODAS].map(|table| table[rng.below(table.len() as u64) as usize]))
            .collect();
        if word.len() > 1 && seen.insert(word.clone()) {
            words.push(word.into_boxed_str());
        }
    }
    words
}

/// Escapes for JSON. An escape takes two bytes; control characters other than tab become spaces.
fn escape_simply(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.push(b' '),
            _ => out.push(byte),
        }
    }
}

/// One bit per byte of escaped text, plus one for its end. A bit is set where a character begins.
fn cut_places(text: &[u8]) -> Vec<u64> {
    let mut cuts = vec![0u64; text.len() / 64 + 1];
    let mut at = 0;
    while at < text.len() {
        cuts[at >> 6] |= 1 << (at & 63);
        at += match text[at] {
            b'\\' => 2,
            0..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
    }
    cuts[text.len() >> 6] |= 1 << (text.len() & 63);
    cuts
}
