//! What a sample of documents is made of: one pass over it, in bounded memory.

use std::path::PathBuf;

use indexmap::IndexMap;
use serde::de::IgnoredAny;
use storebench_study::workload::TimeForm;
use storebench_study::{mix64, scramble};
use xxhash_rust::xxh3::xxh3_64;

use super::sketch::{Reservoir, Trend, Values};
use crate::error::DocumentError;
use crate::json::{self, Walk};
use crate::reader::LineReader;

/// The deepest nesting that documents of a study can have.
const DEEPEST: usize = 30;
/// The most members of one object that are told apart.
const MOST_MEMBERS: usize = 1_000;
/// From this many values on, only some texts are read as times and identifiers, unless all were times.
const ALL_READ: u64 = 4_096;
const EVERY: u64 = 16;
/// How much of the sample is kept for measuring compression.
const PAGES_BYTES: usize = 4 << 20;
const PAGE: usize = 32 << 10;
/// The most bytes of values that are kept.
const KEPT_BYTES: usize = 1 << 16;

/// What documents are made of.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    pub(super) documents: u64,
    pub(super) bytes: u64,
    pub(super) sizes: Reservoir,
    pub(super) root: Members,
    /// Documents from all over the sample, one after the other.
    pages: Vec<u8>,
    /// One of so many documents is in `pages`.
    every: u64,
    /// Whether the texts of values are kept.
    keeps: bool,
}

/// The members of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    /// How many such objects there were.
    pub(super) objects: u64,
    pub(super) all: IndexMap<Box<[u8]>, Node>,
    /// How often a member was left out because there are too many different names.
    pub(super) left_out: u64,
    /// Where the last member was found: the next one is usually behind it.
    at: usize,
}

/// A field, or the values of a list.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// In how many objects it was, or how many values the lists had.
    pub(super) present: u64,
    /// The same for fields that are in the same documents.
    pub(super) signature: u64,
    pub(super) nulls: u64,
    /// False and true.
    pub(super) bools: [u64; 2],
    pub(super) numbers: Option<Box<Numbers>>,
    pub(super) texts: Option<Box<Texts>>,
    pub(super) lists: Option<Box<Lists>>,
    pub(super) members: Option<Box<Members>>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Numbers {
    pub(super) sample: Reservoir,
    pub(super) values: Values,
    pub(super) trend: Trend,
    /// How many had this many digits after the point; the last is for all with more.
    pub(super) digits: [u64; 11],
    /// Numbers that no study can have: beyond ±2^53, or in exponential form.
    pub(super) beyond: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    pub(super) lengths: Reservoir,
    pub(super) values: Values,
    /// The texts of values by hash, if they are kept.
    pub(super) kept: IndexMap<u64, Box<[u8]>>,
    kept_bytes: usize,
    /// How many were read as one of the following.
    pub(super) read: u64,
    pub(super) uuids: u64,
    pub(super) hex: u64,
    /// By form: seconds, milliseconds, dates.
    pub(super) times: [u64; 3],
    pub(super) seconds: Reservoir,
    /// Those that are times, by their seconds.
    pub(super) moments: Values,
    pub(super) trend: Trend,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Lists {
    pub(super) lengths: Reservoir,
    pub(super) of: Node,
}

/// A random part of the documents. The same seed draws the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomPart {
    /// About one of so many documents is in it.
    pub one_of: u64,
    /// The seed of the draw.
    pub seed: u64,
}

impl RandomPart {
    /// Whether the document with this number is in it.
    fn has(self, number: u64) -> bool {
        mix64(self.seed, number).is_multiple_of(self.one_of.max(1))
    }
}

impl Profile {
    /// Reads the documents of these files: JSONL, plain, gzip or zstd. `keeps` keeps texts of values, as far as they
    /// repeat. `part` reads only some documents.
    ///
    /// # Errors
    /// A file that cannot be read, and a line that is not a JSON object. Names the file and the line.
    pub fn of_files(files: &[PathBuf], keeps: bool, part: Option<RandomPart>) -> Result<Self, DocumentError> {
        let mut profile = Self { keeps, every: 1, ..Self::default() };
        let mut line = Vec::new();
        let mut number = 0u64;
        for file in files {
            let wrong = |line, why: &str| DocumentError::in_file("the sample", file.clone(), line, why);
            let mut reader =
                LineReader::open(file).map_err(|e| wrong(None, &format!("cannot be opened: {e}; check the path")))?;
            while reader.next(&mut line).map_err(|e| wrong(Some(reader.line()), &format!("cannot be read: {e}")))? {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                number += 1;
                if part.is_some_and(|part| !part.has(number)) {
                    continue;
                }
                profile.add_line(&line, number - 1).map_err(|why| wrong(Some(reader.line()), &why))?;
            }
        }
        profile.finish();
        Ok(profile)
    }

    /// Counts what came last. Nothing is added afterwards.
    pub(super) fn finish(&mut self) {
        self.root.finish();
    }

    /// An empty profile that keeps texts of values.
    #[cfg(test)]
    pub(super) fn kept() -> Self {
        Self { keeps: true, ..Self::default() }
    }

    /// Adds a document, which is valid JSON.
    pub(super) fn add_generated(&mut self, document: &[u8]) {
        self.every = self.every.max(1);
        let _ = self.add(document, self.documents);
    }

    fn add_line(&mut self, line: &[u8], position: u64) -> Result<(), String> {
        let json: Result<IgnoredAny, _> = serde_json::from_slice(line);
        if let Err(error) = json {
            let column = error.column();
            return Err(format!("is not JSON (at byte {column}); a line of a sample is one JSON object"));
        }
        self.add(line, position)
    }

    /// Adds the document with this number in the sample, of which only a part may be read.
    fn add(&mut self, document: &[u8], position: u64) -> Result<(), String> {
        let mut walk = Walk::new(document);
        if walk.take(b'{').is_none() {
            return Err("is not a JSON object; a line of a sample is one JSON object".into());
        }
        let number = self.documents;
        self.documents += 1;
        self.bytes += document.len() as u64;
        self.sizes.add(document.len() as f64);
        if number.is_multiple_of(self.every) {
            self.pages.extend_from_slice(document);
            if self.pages.len() > PAGES_BYTES {
                // Thinned out, so that what is kept comes from the whole sample.
                let half: Vec<u8> = self.pages.chunks(PAGE).step_by(2).flatten().copied().collect();
                (self.pages, self.every) = (half, self.every * 2);
            }
        }
        let scan = Scan { position: position as f64, mark: scramble(position + 1), keeps: self.keeps };
        self.root
            .read(&mut walk, &scan, 0)
            .ok_or_else(|| format!("is nested more than {DEEPEST} deep; documents of a study are not"))
    }

    /// How many documents it is of.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The fields with single values, by their paths, and whether those are texts.
    pub fn scalars(&self) -> Vec<(Vec<String>, bool)> {
        fn add(members: &Members, path: &[String], all: &mut Vec<(Vec<String>, bool)>) {
            for (name, node) in &members.all {
                let path = [path, &[decoded(name)]].concat();
                match &node.members {
                    Some(inner) => add(inner, &path, all),
                    None if node.lists.is_none() => all.push((path, node.texts.is_some())),
                    None => {}
                }
            }
        }
        let mut all = Vec::new();
        add(&self.root, &[], &mut all);
        all
    }

    /// The share of the bytes that remains after zstd level 3 over pages of 32 KiB. `None` without a whole page.
    pub(super) fn compressed(&self) -> Option<f64> {
        let mut compressor = zstd::bulk::Compressor::new(3).ok()?;
        let (mut raw, mut packed) = (0, 0);
        for page in self.pages.chunks_exact(PAGE) {
            raw += page.len();
            packed += compressor.compress(page).ok()?.len();
        }
        (raw > 0).then(|| packed as f64 / raw as f64)
    }
}

/// The document that is read.
struct Scan {
    position: f64,
    /// A number for the document, from which signatures are added up.
    mark: u64,
    keeps: bool,
}

impl Members {
    /// Reads an object whose `{` is consumed.
    fn read(&mut self, walk: &mut Walk<'_>, scan: &Scan, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        self.objects += 1;
        self.at = 0;
        while let Some(name) = walk.name()? {
            let next = self.all.get_index(self.at).is_some_and(|(known, _)| **known == *name);
            let at = if next { Some(self.at) } else { self.all.get_index_of(name) };
            let at = match at {
                Some(at) => at,
                None if self.all.len() < MOST_MEMBERS => self.all.insert_full(name.into(), Node::default()).0,
                None => {
                    self.left_out += 1;
                    walk.value()?;
                    continue;
                }
            };
            self.at = at + 1;
            let node = &mut self.all[at];
            node.present += 1;
            node.signature = node.signature.wrapping_add(scan.mark);
            node.read(walk, scan, depth)?;
        }
        Some(())
    }

    fn finish(&mut self) {
        self.all.values_mut().for_each(Node::finish);
    }
}

impl Node {
    fn finish(&mut self) {
        if let Some(numbers) = &mut self.numbers {
            numbers.values.finish();
        }
        if let Some(texts) = &mut self.texts {
            texts.values.finish();
            texts.moments.finish();
        }
        if let Some(lists) = &mut self.lists {
            lists.of.finish();
        }
        if let Some(members) = &mut self.members {
            members.finish();
        }
    }

    /// How many values were neither missing nor null.
    pub(super) fn values(&self) -> u64 {
        self.present - self.nulls
    }

    fn read(&mut self, walk: &mut Walk<'_>, scan: &Scan, depth: usize) -> Option<()> {
        match walk.peek()? {
            b'{' => {
                walk.take(b'{')?;
                self.members.get_or_insert_default().read(walk, scan, depth + 1)?;
            }
            b'[' => {
                walk.take(b'[')?;
                if depth > DEEPEST {
                    return None;
                }
                let lists = self.lists.get_or_insert_default();
                let mut length = 0u64;
                while walk.element()? {
                    length += 1;
                    lists.of.present += 1;
                    lists.of.read(walk, scan, depth + 1)?;
                }
                lists.lengths.add(length as f64);
            }
            b'"' => {
                let value = walk.value()?;
                self.texts.get_or_insert_default().add(&value[1..value.len() - 1], scan);
            }
            b'n' => {
                walk.value()?;
                self.nulls += 1;
            }
            first @ (b't' | b'f') => {
                walk.value()?;
                self.bools[usize::from(first == b't')] += 1;
            }
            _ => {
                let value = walk.value()?;
                self.numbers.get_or_insert_default().add(value, scan);
            }
        }
        Some(())
    }
}

impl Numbers {
    fn add(&mut self, text: &[u8], scan: &Scan) {
        let parsed = || std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        let Some(number) = whole(text).or_else(parsed) else { return };
        let exponential = text.iter().any(|byte| matches!(byte, b'e' | b'E'));
        if exponential || number.abs() > (1u64 << 53) as f64 {
            self.beyond += 1;
        }
        let point = text.iter().position(|byte| *byte == b'.');
        // `1.0` is a whole number.
        let fraction = point.map_or(&[][..], |at| &text[at + 1..]);
        let whole = fraction.iter().all(|byte| *byte == b'0');
        let digits = if whole { 0 } else { fraction.len().min(self.digits.len() - 1) };
        self.digits[digits] += 1;
        self.sample.add(number);
        self.values.add(scramble(number.to_bits()), number);
        self.trend.add(scan.position, number);
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.values.total()
    }
}

/// A whole number of at most fifteen digits, which a double holds exactly.
fn whole(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    let number =
        digits.iter().try_fold(0i64, |n, byte| byte.is_ascii_digit().then(|| n * 10 + i64::from(byte - b'0')))?;
    Some(if digits.len() < text.len() { -(number as f64) } else { number as f64 })
}

impl Texts {
    fn add(&mut self, text: &[u8], scan: &Scan) {
        let hash = xxh3_64(text);
        let count = self.values.total();
        self.lengths.add(text.len() as f64);
        self.values.add(hash, text.len() as f64);
        if scan.keeps && self.kept_bytes < KEPT_BYTES && !self.kept.contains_key(&hash) {
            self.kept_bytes += text.len();
            self.kept.insert(hash, text.into());
        }
        // Of times all are read: a sample that favours the first ones would shift them.
        let is_time = self.times.iter().sum::<u64>() == self.read;
        if count >= ALL_READ && !is_time && !count.is_multiple_of(EVERY) {
            return;
        }
        self.read += 1;
        if let Some((seconds, form)) = time_of(text) {
            self.times[form as usize] += 1;
            self.seconds.add(seconds as f64);
            self.moments.add(scramble(seconds as u64), seconds as f64);
            self.trend.add(scan.position, seconds as f64);
        } else if text.len() == 36 {
            self.uuids += u64::from(is_uuid(text));
        } else if text.len() == 24 {
            self.hex += u64::from(text.iter().all(u8::is_ascii_hexdigit));
        }
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.values.total()
    }

    /// The form of all texts, if they are times of one form.
    pub(super) fn form(&self) -> Option<TimeForm> {
        let forms = [TimeForm::Seconds, TimeForm::Milliseconds, TimeForm::Date];
        forms.into_iter().find(|form| self.read > 0 && self.times[*form as usize] == self.read)
    }
}

fn is_uuid(text: &[u8]) -> bool {
    text.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Reads a time in one of the forms that a study can have: seconds since 1970, and the form.
fn time_of(text: &[u8]) -> Option<(i64, TimeForm)> {
    let form = match text.len() {
        10 => TimeForm::Date,
        20 if text[19] == b'Z' => TimeForm::Seconds,
        24 if text[23] == b'Z' && text[19] == b'.' => TimeForm::Milliseconds,
        _ => return None,
    };
    let digits = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0i64, |n, byte| byte.is_ascii_digit().then(|| n * 10 + i64::from(byte - b'0')))
    };
    let signs = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !signs.iter().all(|(at, sign)| text.get(*at).is_none_or(|byte| byte == sign)) {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let date = jiff::civil::Date::new(year as i16, month as i8, day as i8).ok()?;
    let epoch = jiff::civil::Date::constant(1970, 1, 1);
    let days = i64::from(epoch.until(date).ok()?.get_days());
    if form == TimeForm::Date {
        return Some((days * 86_400, form));
    }
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    if form == TimeForm::Milliseconds {
        digits(20, 23)?;
    }
    (hour < 24 && minute < 60 && second < 60).then_some((days * 86_400 + hour * 3_600 + minute * 60 + second, form))
}

/// A name as it is in a document, decoded.
pub(super) fn decoded(name: &[u8]) -> String {
    json::name(name).map_or_else(|| String::from_utf8_lossy(name).into_owned(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_forms() {
        for (text, expected) in [
            ("2018-01-31", Some((1_517_356_800, TimeForm::Date))),
            ("2018-01-31T12:00:01Z", Some((1_517_400_001, TimeForm::Seconds))),
            ("2018-01-31T12:00:01.250Z", Some((1_517_400_001, TimeForm::Milliseconds))),
            ("1969-12-31", Some((-86_400, TimeForm::Date))),
            ("2018-02-30", None),
            ("2018/01/31", None),
            ("2018-01-31T25:00:00Z", None),
            ("2018-01-31 12:00:01Z", None),
            ("20180131ab", None),
            ("ключключключ", None),
        ] {
            assert_eq!(time_of(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_part_is_drawn_at_random() {
        let part = |seed| -> Vec<u64> { (1..=100_000).filter(|n| RandomPart { one_of: 10, seed }.has(*n)).collect() };
        let (one, other) = (part(1), part(2));
        assert!((9_500..10_500).contains(&one.len()) && one == part(1) && one != other, "{}", one.len());
        // Not one residue is preferred.
        for residue in 0..10 {
            let share = one.iter().filter(|n| **n % 10 == residue).count() as f64 / one.len() as f64;
            assert!((0.08..0.12).contains(&share), "{residue}: {share}");
        }
    }

    #[test]
    fn lines_that_are_no_documents_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sample.jsonl");
        let deep = format!("{}1{}", "{\"a\":".repeat(40), "}".repeat(40));
        for (text, why) in [
            ("{\"a\":1}\n\n{\"a\":", "3: is not JSON"),
            ("{\"a\":1}\n[1]", "2: is not a JSON object"),
            ("{\"a\":1} {\"a\":1}", "1: is not JSON"),
            (&deep, "nested more than 30 deep"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = Profile::of_files(std::slice::from_ref(&file), false, None).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let error = Profile::of_files(&[folder.path().join("no.jsonl")], false, None).unwrap_err().to_string();
        assert!(error.contains("cannot be opened"), "{error}");
    }

    #[test]
    fn members_and_lists_are_counted() {
        let mut profile = Profile::default();
        for document in [
            r#"{"a":1,"b":{"c":"x","d":null},"e":[1,2,"x"]}"#,
            r#"{"b":{"d":true},"a":2.50,"e":[]}"#,
            r#"{"é":"\u00e9","a":1e3}"#,
        ] {
            profile.add_generated(document.as_bytes());
        }
        profile.finish();
        let node = |name: &str| &profile.root.all[name.as_bytes()];
        assert_eq!((profile.documents(), node("a").present, node("b").present), (3, 3, 2));
        let a = node("a").numbers.as_ref().unwrap();
        assert_eq!((a.count(), a.digits[2], a.beyond), (3, 1, 1));
        let inner = &node("b").members.as_ref().unwrap().all;
        assert_eq!((inner[b"d".as_slice()].nulls, inner[b"d".as_slice()].bools), (1, [0, 1]));
        let list = node("e").lists.as_ref().unwrap();
        assert_eq!((list.lengths.sorted(), list.of.present), (vec![0.0, 3.0], 3));
        assert!(node("é").texts.is_some());
        assert_eq!(node("b").signature, node("e").signature);
        assert_ne!(node("a").signature, node("b").signature);
    }
}
