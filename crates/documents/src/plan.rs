//! A compiled collection: a flat list of literal bytes and makers, run once for each document.

use std::sync::Arc;

use super::corpus::Corpus;
use super::keys::Permutation;
use super::mixture::Mixture;
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
#[derive(Debug, Default)]
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
    #[inline]
    pub(super) fn at(&self, share: f64) -> i64 {
        let pieces = self.points.len() - 1;
        let at = share.clamp(0.0, 1.0) * pieces as f64;
        let piece = (at as usize).min(pieces - 1);
        let (from, to) = (self.points[piece], self.points[piece + 1]);
        from.wrapping_add_unsigned((to.abs_diff(from) as f64 * (at - piece as f64)).round() as u64)
    }

    /// Draws a number for document `index` of `count`.
    #[inline]
    pub(super) fn draw(&self, index: u64, count: u64, rng: &mut Rng) -> i64 {
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

    /// Appends the letters of a number.
    #[inline]
    pub(super) fn write(&self, number: u64, out: &mut Vec<u8>) {
        let mut rest = self.scatter.forward(number);
        for _ in 0..self.letters {
            out.push(b'a' + (rest % 26) as u8);
            rest /= 26;
        }
    }
}
