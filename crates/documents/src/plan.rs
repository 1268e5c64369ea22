//! A compiled collection: a flat list of literal bytes and makers, run once for each document.

use std::sync::Arc;

use super::corpus::Corpus;
use super::escape;
use super::mixture::{self, Mixture};
use super::numbers::{write_decimal, write_hex_id, write_i64, write_moment, write_u64, write_uuid};
use super::own::OwnFile;
use super::picker::Picker;
use super::random::Random;
use super::relation::Relation;
use super::size::Sizes;
use storebench_study::workload::{Body, IdKind};

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
    pub(crate) corpus: Option<Arc<Corpus>>,
    pub(crate) mixture: Option<Mixture>,
    pub(crate) relation: Option<Relation>,
    pub(crate) own: Option<OwnFile>,
    /// Maximum length of a key in bytes.
    pub(crate) key_bound: u64,
    /// Whether the documents were already in the store and are only read.
    pub(crate) existing: bool,
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
}

/// One step of writing a document.
#[derive(Debug)]
pub(crate) enum Segment {
    Literal(Box<[u8]>),
    Index,
    Version,
    Value(usize),
    Fill(usize),
}

/// How a value is generated. Text is generated escaped and without quotes.
#[derive(Debug)]
pub(crate) enum Maker {
    Template(Vec<Part>),
    Words(u64, u64),
    Sentences(u64, u64),
    Lines(u64, u64),
    Text(u64, u64),
    /// Text whose length depends on the document's size.
    Fill,
    Integer(i64, i64),
    Decimal {
        min: i64,
        max: i64,
        digits: u8,
    },
    Moment(i64, i64),
    /// Escaped texts, each with the upper end of its share of the 64-bit range.
    Choice(Vec<(Box<[u8]>, u64)>),
    Bool(u64),
    List {
        open: Box<[u8]>,
        close: Box<[u8]>,
        of: Box<Maker>,
        min: u64,
        max: u64,
    },
    Object(Vec<(Box<[u8]>, Maker)>, Box<[u8]>),
    Ref {
        target: usize,
        picker: Picker,
        same_parent: bool,
    },
    Bytes(u64, u64),
    Id(IdKind, u64),
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
    fn stream(&self, slot: &Slot) -> Random {
        Random::new(self.plan.seed ^ slot.salt, self.index, 0)
    }

    /// The random stream of one text. Takes exactly one number from `rng` for any version, so that values generated
    /// after the text stay the same.
    #[inline]
    fn text_stream(&self, versioned: bool, rng: &mut Random) -> Random {
        Random::new(rng.next(), if versioned { self.version } else { 0 }, 0)
    }

    /// Appends the value of a slot: text escaped and without quotes.
    pub(crate) fn write_slot(&self, slot: usize, out: &mut Vec<u8>) {
        let slot = &self.plan.slots[slot];
        self.make(&slot.maker, slot.versioned, &mut self.stream(slot), out);
    }

    /// Appends the value of a slot as JSON.
    #[inline]
    pub(crate) fn write_value(&self, slot: usize, out: &mut Vec<u8>) {
        let quote: &[u8] = if self.plan.slots[slot].quoted { b"\"" } else { b"" };
        out.extend_from_slice(quote);
        self.write_slot(slot, out);
        out.extend_from_slice(quote);
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
    pub(crate) fn write_text(&self, n: usize, versioned: bool, rng: &mut Random, out: &mut Vec<u8>) {
        let Some(corpus) = &self.plan.corpus else { return };
        match self.calibrated(versioned) {
            Some(mixture) => mixture.write_text(corpus, n, rng, out),
            None => corpus.write_text(n, rng, out),
        }
    }

    /// Appends one value. Only `versioned` text is calibrated; text of keys and indexes is not.
    fn make(&self, maker: &Maker, versioned: bool, rng: &mut Random, out: &mut Vec<u8>) {
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
            Maker::Text(least, most) => {
                let rng = &mut self.text_stream(versioned, rng);
                let n = rng.within(*least, *most) as usize;
                self.write_text(n, versioned, rng, out);
            }
            Maker::Fill => {}
            Maker::Integer(min, max) => {
                let n = min.wrapping_add_unsigned(rng.within(0, max.abs_diff(*min)));
                write_i64(n, 0, out);
            }
            Maker::Decimal { min, max, digits } => {
                let n = min.wrapping_add_unsigned(rng.within(0, max.abs_diff(*min)));
                write_decimal(n, *digits, out);
            }
            Maker::Moment(from, to) => {
                write_moment(from.wrapping_add_unsigned(rng.within(0, to.abs_diff(*from))), out);
            }
            Maker::Choice(all) => {
                let draw = rng.next();
                let at = all.partition_point(|(_, end)| *end < draw).min(all.len() - 1);
                out.extend_from_slice(&all[at].0);
            }
            Maker::Bool(below) => {
                let yes = rng.next() >> 1 < *below;
                out.extend_from_slice(if yes { b"true" } else { b"false" });
            }
            Maker::List { open, close, of, min, max } => {
                out.push(b'[');
                for i in 0..rng.within(*min, *max) {
                    if i > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(open);
                    self.make(of, versioned, rng, out);
                    out.extend_from_slice(close);
                }
                out.push(b']');
            }
            Maker::Object(fields, close) => {
                for (before, field) in fields {
                    out.extend_from_slice(before);
                    self.make(field, versioned, rng, out);
                }
                out.extend_from_slice(close);
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
    fn write_bytes(&self, n: usize, versioned: bool, rng: &mut Random, out: &mut Vec<u8>) {
        let whole = n / 3 * 4;
        match self.calibrated(versioned) {
            Some(mixture) => mixture.write_base64(whole, rng, out),
            None => mixture::write_base64(whole, rng, out),
        }
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let draw = rng.next() as usize;
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
        let size = sizes.of(&mut Random::new(plan.seed ^ super::size::SALT, self.index, 0)) as usize;
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

    fn write_segments(&self, segments: &[Segment], rest: Option<usize>, out: &mut Vec<u8>) {
        let mut rest = rest.unwrap_or(0);
        let mut fills = self.plan.fills.max(1) as usize;
        for segment in segments {
            match segment {
                Segment::Literal(text) => out.extend_from_slice(text),
                Segment::Index => write_u64(self.index, 0, out),
                Segment::Version => write_u64(self.version, 0, out),
                Segment::Value(slot) => self.write_slot(*slot, out),
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

/// Appends a key, escaped for JSON.
pub(crate) fn write_key_escaped(all: &[Plan], position: usize, index: u64, out: &mut Vec<u8>) {
    let plan = &all[position];
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
    if let Some(own) = plan.own.as_ref().filter(|own| own.holds_keys()) {
        return own.write_key(index, out);
    }
    let begin = out.len();
    Scope::new(all, position, index, 0, plan.key_related).write_parts(&plan.key, out);
    if !plan.key_plain {
        escape::unescape_tail(begin, out);
    }
}
