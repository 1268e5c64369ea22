//! A compiled collection: a flat list of literal bytes and makers, run once for each document.

use std::sync::Arc;

use super::corpus::Corpus;
use super::escape;
use super::keys::Permutation;
use super::mixture::{self, Mixture};
use super::numbers::{write_decimal, write_hex_id, write_i64, write_time, write_u64, write_uuid};
use super::own::OwnFile;
use super::picker::Picker;
use super::random::Rng;
use super::relation::Relation;
use super::size::Sizes;
use super::trace::Trace;
use storebench_study::workload::{Body, IdKind, TimeForm};

/// Name of the field that holds the index and version of a document.
pub(crate) const MARKER: &str = "sb";

/// One collection, compiled.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) count: u64,
    pub(crate) body: Body,
    pub(crate) key: Vec<Part>,
    /// Whether keys need the relation.
    pub(crate) key_related: bool,
    /// Whether keys hold nothing that JSON would escape.
    pub(crate) key_plain: bool,
    /// Whether documents need the relation.
    pub(crate) related: bool,
    pub(crate) segments: Vec<Segment>,
    pub(crate) slots: Vec<Slot>,
    /// Number of fill segments.
    pub(crate) fills: u64,
    /// Bytes after the first fill, if they are the same in every document.
    pub(crate) fixed_tail: Option<usize>,
    pub(crate) sizes: Option<Sizes>,
    /// Recorded traffic, whose keys its documents have.
    pub(crate) trace: Option<Arc<Trace>>,
    pub(crate) corpus: Option<Arc<Corpus>>,
    pub(crate) mixture: Option<Mixture>,
    pub(crate) relation: Option<Relation>,
    pub(crate) own: Option<OwnFile>,
    /// Maximum length of a key in bytes.
    pub(crate) key_bound: u64,
    /// Whether the documents were already in the store and are only read.
    pub(crate) existing: bool,
}

impl Plan {
    /// The key of a document that has those of a trace.
    #[inline]
    pub(crate) fn recorded_key(&self, index: u64) -> Option<&[u8]> {
        self.trace.as_ref().map(|trace| trace.key(u32::try_from(index).unwrap_or(u32::MAX)))
    }
}

/// A part of a template.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// Text, escaped for JSON.
    Literal(Box<[u8]>),
    Index(usize),
    Seq(usize),
    Parent(usize),
    ParentKey,
    Uuid,
    /// Value of a field of the same document.
    Slot {
        slot: usize,
        width: usize,
    },
    /// Value of a field of the user's own document, stored with its key.
    Own(String),
}

/// A field, or a value within one, generated from its own random stream.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Path of the field: `address.city`.
    pub(crate) path: String,
    pub(crate) salt: u64,
    pub(crate) maker: Maker,
    /// Whether it changes with the version.
    pub(crate) versioned: bool,
    /// Whether it is a JSON string.
    pub(crate) quoted: bool,
    /// The document has it only if it has all of these.
    pub(crate) presence: Vec<Presence>,
}

/// Whether a document has something, drawn by the document's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Presence {
    pub(crate) salt: u64,
    /// Present if a draw of 63 bits is below this.
    pub(crate) below: u64,
    /// Present if it is not.
    pub(crate) turned: bool,
}

impl Presence {
    /// Present where this is not.
    pub(crate) fn opposite(self) -> Self {
        Self { turned: !self.turned, ..self }
    }
}

/// A share as the bound of a draw of 63 bits.
pub(crate) fn bound_of(share: f64) -> u64 {
    (share * 9_223_372_036_854_775_808.0) as u64
}

/// Whole numbers: between each two neighbouring points there are equally many.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    points: Box<[i64]>,
    /// The numbers rise with the index; each is off by up to this share of the documents.
    rising: Option<f64>,
}

impl Numbers {
    /// Through these points, of which there is at least one.
    pub(crate) fn through(points: impl IntoIterator<Item = i64>) -> Self {
        let mut points: Vec<i64> = points.into_iter().collect();
        if let [one] = points[..] {
            points.push(one);
        }
        Self { points: points.into(), rising: None }
    }

    pub(crate) fn rising(self, within: f64) -> Self {
        Self { rising: Some(within), ..self }
    }

    pub(crate) fn min(&self) -> i64 {
        self.points[0]
    }

    pub(crate) fn max(&self) -> i64 {
        self.points[self.points.len() - 1]
    }

    /// The number below which this share of all is.
    fn at(&self, share: f64) -> i64 {
        let pieces = self.points.len() - 1;
        let at = share.clamp(0.0, 1.0) * pieces as f64;
        let piece = (at as usize).min(pieces - 1);
        let (from, to) = (self.points[piece], self.points[piece + 1]);
        from.wrapping_add_unsigned((to.abs_diff(from) as f64 * (at - piece as f64)).round() as u64)
    }

    /// Draws a number for document `index` of `count`.
    #[inline]
    fn draw(&self, index: u64, count: u64, rng: &mut Rng) -> i64 {
        if let Some(within) = self.rising {
            // Documents that are inserted later have the last numbers.
            let index = index.min(count.saturating_sub(1));
            let place = (index as f64 + 0.5) / count.max(1) as f64 + (rng.unit() - 0.5) * 2.0 * within;
            // Turned back at the ends, so that none has more than its share.
            return self.at(if place > 1.0 { 2.0 - place } else { place.abs() });
        }
        let pieces = self.points.len() - 1;
        let piece = if pieces > 1 { rng.below(pieces as u64) as usize } else { 0 };
        let (from, to) = (self.points[piece], self.points[piece + 1]);
        from.wrapping_add_unsigned(rng.within(0, to.abs_diff(from)))
    }
}

/// One step of writing a document.
#[derive(Debug)]
pub(crate) enum Segment {
    Literal(Box<[u8]>),
    Index,
    Version,
    Value(usize),
    Fill(usize),
    /// A comma, unless nothing was written into the object yet.
    Comma,
    /// The first segments if the document has this, otherwise the second ones.
    If(Presence, Vec<Segment>, Vec<Segment>),
}

/// How a value is generated. Text is generated escaped and without quotes.
#[derive(Debug)]
pub(crate) enum Maker {
    Template(Vec<Part>),
    Words(u64, u64),
    Sentences(u64, u64),
    Lines(u64, u64),
    Text(Numbers),
    /// Text whose length depends on the document's size.
    Fill,
    Integer(Numbers),
    Decimal {
        of: Numbers,
        digits: u8,
    },
    /// Seconds since 1970; for dates, days.
    Time(Numbers, TimeForm),
    /// Escaped texts, each with the upper end of its share of the 64-bit range.
    Choice(Vec<(Box<[u8]>, u64)>),
    Bool(u64),
    List {
        open: Box<[u8]>,
        close: Box<[u8]>,
        of: Box<Maker>,
        length: Numbers,
    },
    Object(Vec<Member>),
    /// One of these, each with the upper end of its share of the 64-bit range.
    Any(Vec<(Json, u64)>),
    /// Null if a draw of 63 bits is below this.
    Nullable(u64, Box<Json>),
    /// One of a number of values.
    Distinct(Box<Distinct>),
    Ref {
        target: usize,
        picker: Picker,
        same_parent: bool,
    },
    Bytes(u64, u64),
    Id(IdKind, u64),
}

/// A value that is written as JSON, with its quotes if it has some.
#[derive(Debug)]
pub(crate) struct Json {
    pub(crate) quoted: bool,
    pub(crate) of: Maker,
}

/// A member of an object in a list.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its name as JSON, with the colon.
    pub(crate) name: Box<[u8]>,
    /// It is there if a draw of 63 bits is below this.
    pub(crate) below: Option<u64>,
    pub(crate) of: Json,
}

/// Values that repeat.
#[derive(Debug)]
pub(crate) struct Distinct {
    pub(crate) count: u64,
    /// Which one a document has.
    pub(crate) picker: Picker,
    /// Separates the values from other streams.
    pub(crate) salt: u64,
    /// What makes short texts differ: letters, the same for no two values. `None` if nothing needs to.
    pub(crate) code: Option<Code>,
    pub(crate) of: Maker,
}

/// Different letters for each number.
#[derive(Debug)]
pub(crate) struct Code {
    letters: usize,
    scatter: Permutation,
}

impl Code {
    /// As few letters as tell `count` numbers apart.
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        let (mut letters, mut all) = (1, 26u64);
        while all < count && letters < 13 {
            letters += 1;
            all = all.saturating_mul(26);
        }
        Self { letters, scatter: Permutation::new(all, seed) }
    }

    pub(crate) fn letters(&self) -> usize {
        self.letters
    }

    /// The letters of a number.
    pub(crate) fn text(&self, number: u64) -> String {
        let mut out = Vec::new();
        self.write(number, &mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    fn write(&self, number: u64, out: &mut Vec<u8>) {
        let mut rest = self.scatter.forward(number);
        for _ in 0..self.letters {
            out.push(b'a' + (rest % 26) as u8);
            rest /= 26;
        }
    }
}

/// What a document is generated from.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) all: &'a [Plan],
    pub(crate) plan: &'a Plan,
    pub(crate) index: u64,
    pub(crate) version: u64,
    pub(crate) parent: u64,
    pub(crate) seq: u64,
}

impl<'a> Scope<'a> {
    #[inline]
    pub(crate) fn new(all: &'a [Plan], position: usize, index: u64, version: u64, related: bool) -> Self {
        let plan = &all[position];
        let (parent, seq) = match (&plan.relation, related) {
            (Some(relation), true) => relation.parent_of(index),
            _ => (0, 0),
        };
        Self { all, plan, index, version, parent, seq }
    }

    /// The random stream of a field. It depends only on the index. Text that changes with the version uses a
    /// [`Self::text_stream`] derived from it.
    #[inline]
    fn stream(&self, slot: &Slot) -> Rng {
        Rng::of(self.plan.seed ^ slot.salt, self.index, 0)
    }

    /// The random stream of one text. Takes exactly one number from `rng` for any version, so that values generated
    /// after the text stay the same.
    #[inline]
    fn text_stream(&self, versioned: bool, rng: &mut Rng) -> Rng {
        Rng::of(rng.next_u64(), if versioned { self.version } else { 0 }, 0)
    }

    #[inline]
    fn has(&self, presence: &Presence) -> bool {
        (Rng::of(self.plan.seed ^ presence.salt, self.index, 0).next_u64() >> 1 < presence.below) != presence.turned
    }

    /// Appends the value of a slot: text escaped and without quotes.
    pub(crate) fn write_slot(&self, slot: usize, out: &mut Vec<u8>) {
        let slot = &self.plan.slots[slot];
        self.make(&slot.maker, slot.versioned, &mut self.stream(slot), out);
    }

    /// Appends the value of a slot as JSON; `null` if the document does not have it.
    #[inline]
    pub(crate) fn write_value(&self, slot: usize, out: &mut Vec<u8>) {
        if !self.plan.slots[slot].presence.iter().all(|presence| self.has(presence)) {
            return out.extend_from_slice(b"null");
        }
        let quote: &[u8] = if self.plan.slots[slot].quoted { b"\"" } else { b"" };
        out.extend_from_slice(quote);
        self.write_slot(slot, out);
        out.extend_from_slice(quote);
    }

    /// Whether a slot is text or a number in every document, so that [`Self::write_slot`] writes it as text.
    pub(crate) fn is_plain(&self, slot: usize) -> bool {
        let slot = &self.plan.slots[slot];
        slot.presence.is_empty() && !matches!(slot.maker, Maker::Any(_) | Maker::Nullable(..))
    }

    /// The value of a slot as JSON.
    pub(crate) fn slot_value(&self, slot: usize) -> Option<serde_json::Value> {
        let mut out = Vec::new();
        self.write_value(slot, &mut out);
        serde_json::from_slice(&out).ok()
    }

    /// Appends the parts, escaped.
    #[inline]
    pub(crate) fn write_parts(&self, parts: &[Part], out: &mut Vec<u8>) {
        for part in parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Index(width) => write_u64(self.index, *width, out),
                Part::Seq(width) => write_u64(self.seq, *width, out),
                Part::Parent(width) => write_u64(self.parent, *width, out),
                Part::ParentKey => {
                    if let Some(relation) = &self.plan.relation {
                        write_key_escaped(self.all, relation.parent_collection, self.parent, out);
                    }
                }
                Part::Uuid => write_uuid(self.plan.seed, self.index, out),
                Part::Slot { slot, width: 0 } => self.write_slot(*slot, out),
                Part::Slot { slot, width } => {
                    let begin = out.len();
                    self.write_slot(*slot, out);
                    // Only integer fields are padded: insert the missing zeros.
                    let begin = begin + usize::from(out.get(begin) == Some(&b'-'));
                    let missing = width.saturating_sub(out.len() - begin);
                    out.splice(begin..begin, std::iter::repeat_n(b'0', missing));
                }
                Part::Own(path) => {
                    if let Some(own) = &self.plan.own {
                        own.write_field(self.index, path, out);
                    }
                }
            }
        }
    }

    fn calibrated(&self, versioned: bool) -> Option<&'a Mixture> {
        if versioned { self.plan.mixture.as_ref() } else { None }
    }

    /// Appends `n` bytes of text.
    #[inline]
    pub(crate) fn write_text(&self, n: usize, versioned: bool, rng: &mut Rng, out: &mut Vec<u8>) {
        let Some(corpus) = &self.plan.corpus else { return };
        match self.calibrated(versioned) {
            Some(mixture) => mixture.write_text(corpus, n, rng, out),
            None => corpus.write_text(n, rng, out),
        }
    }

    /// Appends one value as JSON.
    fn make_json(&self, json: &Json, versioned: bool, rng: &mut Rng, out: &mut Vec<u8>) {
        let quote: &[u8] = if json.quoted { b"\"" } else { b"" };
        out.extend_from_slice(quote);
        self.make(&json.of, versioned, rng, out);
        out.extend_from_slice(quote);
    }

    /// Appends one value. Only `versioned` text is calibrated; text of keys and indexes is not.
    fn make(&self, maker: &Maker, versioned: bool, rng: &mut Rng, out: &mut Vec<u8>) {
        match maker {
            Maker::Template(parts) => self.write_parts(parts, out),
            Maker::Words(least, most) | Maker::Sentences(least, most) | Maker::Lines(least, most) => {
                let Some(corpus) = &self.plan.corpus else { return };
                let rng = &mut self.text_stream(versioned, rng);
                let count = rng.within(*least, *most);
                match (self.calibrated(versioned), maker) {
                    (None, Maker::Words(..)) => corpus.write_words(count, rng, out),
                    (None, Maker::Sentences(..)) => corpus.write_sentences(count, rng, out),
                    (None, _) => corpus.write_lines(count, rng, out),
                    (Some(mixture), kind) => {
                        let n = match kind {
                            Maker::Words(..) => corpus.words_len(count, rng),
                            Maker::Sentences(..) => corpus.sentences_len(count, rng),
                            _ => corpus.lines_len(count, rng),
                        };
                        mixture.write_text(corpus, n, rng, out);
                    }
                }
            }
            Maker::Text(lengths) => {
                let rng = &mut self.text_stream(versioned, rng);
                let n = self.draw(lengths, rng) as usize;
                self.write_text(n, versioned, rng, out);
            }
            Maker::Fill => {}
            Maker::Integer(of) | Maker::Decimal { of, .. } | Maker::Time(of, _) => {
                let number = self.draw(of, rng);
                write_number(maker, number, rng, out);
            }
            Maker::Choice(all) => {
                let draw = rng.next_u64();
                let at = all.partition_point(|(_, end)| *end < draw).min(all.len() - 1);
                out.extend_from_slice(&all[at].0);
            }
            Maker::Bool(below) => {
                let yes = rng.next_u64() >> 1 < *below;
                out.extend_from_slice(if yes { b"true" } else { b"false" });
            }
            Maker::List { open, close, of, length } => {
                out.push(b'[');
                for i in 0..self.draw(length, rng) {
                    if i > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(open);
                    self.make(of, versioned, rng, out);
                    out.extend_from_slice(close);
                }
                out.push(b']');
            }
            Maker::Object(members) => {
                out.push(b'{');
                for member in members {
                    if member.below.is_some_and(|below| rng.next_u64() >> 1 >= below) {
                        continue;
                    }
                    comma(out);
                    out.extend_from_slice(&member.name);
                    self.make_json(&member.of, versioned, rng, out);
                }
                out.push(b'}');
            }
            Maker::Any(all) => {
                let draw = rng.next_u64();
                let at = all.partition_point(|(_, end)| *end < draw).min(all.len() - 1);
                self.make_json(&all[at].0, versioned, rng, out);
            }
            Maker::Nullable(below, json) => {
                if rng.next_u64() >> 1 < *below {
                    return out.extend_from_slice(b"null");
                }
                self.make_json(json, versioned, rng, out);
            }
            Maker::Distinct(distinct) => {
                let number = distinct.picker.pick(self.index, rng);
                let rng = &mut Rng::of(self.plan.seed ^ distinct.salt, number, 0);
                match (&distinct.of, &distinct.code) {
                    // Evenly spread, so that they differ as far as there are enough.
                    (of @ (Maker::Integer(all) | Maker::Decimal { of: all, .. } | Maker::Time(all, _)), _) => {
                        let share = (number as f64 + 0.5) / distinct.count as f64;
                        write_number(of, all.at(share), rng, out);
                    }
                    (Maker::Text(lengths), Some(code)) => {
                        code.write(number, out);
                        let length = self.draw(lengths, rng) as usize;
                        self.write_text(length.saturating_sub(code.letters), false, rng, out);
                    }
                    (of, _) => self.make(of, false, rng, out),
                }
            }
            Maker::Ref { target, picker, same_parent } => {
                let index = if *same_parent {
                    let siblings = match &self.all[*target].relation {
                        Some(relation) => relation.children_of(self.parent),
                        None => 0..0,
                    };
                    // Compilation has rejected collections in which a parent could lack such children.
                    siblings.start + picker.pick_of(siblings.end - siblings.start, self.index, rng)
                } else {
                    picker.pick(self.index, rng)
                };
                write_key_escaped(self.all, *target, index, out);
            }
            Maker::Bytes(least, most) => {
                let rng = &mut self.text_stream(versioned, rng);
                let n = rng.within(*least, *most) as usize;
                self.write_bytes(n, versioned, rng, out);
            }
            Maker::Id(IdKind::Uuid, salt) => write_uuid(self.plan.seed ^ salt, self.index, out),
            Maker::Id(IdKind::Hex, salt) => write_hex_id(self.plan.seed ^ salt, self.index, out),
        }
    }

    /// Appends `n` random bytes as base64 (RFC 4648, padded; the unused bits of the last group are 0).
    fn write_bytes(&self, n: usize, versioned: bool, rng: &mut Rng, out: &mut Vec<u8>) {
        let whole = n / 3 * 4;
        match self.calibrated(versioned) {
            Some(mixture) => mixture.write_base64(whole, rng, out),
            None => mixture::write_base64(whole, rng, out),
        }
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let draw = rng.next_u64() as usize;
        let six = |shift: u32, mask: usize| ALPHABET[draw >> shift & mask];
        match n % 3 {
            1 => out.extend_from_slice(&[six(0, 63), six(6, 48), b'=', b'=']),
            2 => out.extend_from_slice(&[six(0, 63), six(6, 63), six(12, 60), b'=']),
            _ => {}
        }
    }

    /// Appends the document.
    pub(crate) fn write_document(&self, out: &mut Vec<u8>) {
        let plan = self.plan;
        if let Some(own) = &plan.own {
            return own.write_document(self.index, self.version, out);
        }
        let begin = out.len();
        let Some(sizes) = plan.sizes.as_ref().filter(|_| plan.fills > 0) else {
            return self.write_segments(&plan.segments, None, out);
        };
        let mut rng = Rng::of(plan.seed ^ super::size::SALT, self.index, 0);
        let size = sizes.of(self.index, &mut rng) as usize;
        let first = plan.segments.iter().position(|s| matches!(s, Segment::Fill(_))).unwrap_or(0);
        let (head, tail) = plan.segments.split_at(first);
        self.write_segments(head, None, out);
        let tail_len = plan.fixed_tail.unwrap_or_else(|| {
            // Makers are pure, so the rest can be written once to learn its length.
            let mark = out.len();
            self.write_segments(tail, Some(0), out);
            let len = out.len() - mark;
            out.truncate(mark);
            len
        });
        let rest = (begin + size).saturating_sub(out.len() + tail_len);
        out.reserve(rest + tail_len);
        self.write_segments(tail, Some(rest), out);
    }

    #[inline]
    fn draw(&self, numbers: &Numbers, rng: &mut Rng) -> i64 {
        numbers.draw(self.index, self.plan.count, rng)
    }

    fn write_segments(&self, segments: &[Segment], rest: Option<usize>, out: &mut Vec<u8>) {
        let mut rest = rest.unwrap_or(0);
        let mut fills = self.plan.fills.max(1) as usize;
        for segment in segments {
            match segment {
                Segment::Literal(text) => out.extend_from_slice(text),
                Segment::Index => write_u64(self.index, 0, out),
                Segment::Version => write_u64(self.version, 0, out),
                Segment::Value(slot) => self.write_slot(*slot, out),
                Segment::Comma => comma(out),
                Segment::If(presence, then, otherwise) => {
                    self.write_segments(if self.has(presence) { then } else { otherwise }, None, out);
                }
                Segment::Fill(slot) => {
                    let take = rest / fills;
                    let slot = &self.plan.slots[*slot];
                    let rng = &mut self.text_stream(slot.versioned, &mut self.stream(slot));
                    self.write_text(take, slot.versioned, rng, out);
                    rest -= take;
                    fills = (fills - 1).max(1);
                }
            }
        }
    }
}

/// Appends a number or a time as its maker writes it.
#[inline]
fn write_number(maker: &Maker, number: i64, rng: &mut Rng, out: &mut Vec<u8>) {
    match maker {
        Maker::Decimal { digits, .. } => write_decimal(number, *digits, out),
        Maker::Time(_, TimeForm::Date) => write_time(number.saturating_mul(86_400), TimeForm::Date, rng, out),
        Maker::Time(_, form) => write_time(number, *form, rng, out),
        _ => write_i64(number, 0, out),
    }
}

/// Appends a comma, unless an object was just opened.
#[inline]
fn comma(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

/// Appends a key, escaped for JSON.
pub(crate) fn write_key_escaped(all: &[Plan], position: usize, index: u64, out: &mut Vec<u8>) {
    let plan = &all[position];
    if let Some(key) = plan.recorded_key(index) {
        let begin = out.len();
        out.extend_from_slice(key);
        escape::escape_tail(begin, out);
        return;
    }
    if let Some(own) = plan.own.as_ref().filter(|own| own.holds_keys()) {
        let begin = out.len();
        own.write_key(index, out);
        escape::escape_tail(begin, out);
        return;
    }
    Scope::new(all, position, index, 0, plan.key_related).write_parts(&plan.key, out);
}

/// Appends a key.
pub(crate) fn write_key(all: &[Plan], position: usize, index: u64, out: &mut Vec<u8>) {
    let plan = &all[position];
    if let Some(key) = plan.recorded_key(index) {
        return out.extend_from_slice(key);
    }
    if let Some(own) = plan.own.as_ref().filter(|own| own.holds_keys()) {
        return own.write_key(index, out);
    }
    let begin = out.len();
    match &plan.key[..] {
        // Most keys are like this.
        [Part::Literal(text), Part::Index(width)] => {
            out.extend_from_slice(text);
            write_u64(index, *width, out);
        }
        parts => Scope::new(all, position, index, 0, plan.key_related).write_parts(parts, out),
    }
    if !plan.key_plain {
        escape::unescape_tail(begin, out);
    }
}
