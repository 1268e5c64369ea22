//! Generates documents and keys: runs the makers of a plan for one document.

use super::escape;
use super::mixture::{self, BASE64, Mixture};
use super::numbers::{write_decimal, write_hex_id, write_i64, write_time, write_u64, write_uuid};
use super::plan::{Json, Maker, Numbers, Part, Plan, Presence, Segment, Slot};
use super::random::Rng;
use storebench_study::workload::{IdKind, TimeForm};

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
            Maker::Choice(all) => out.extend_from_slice(chosen::<Box<[u8]>>(all, rng)),
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
            Maker::Any(all) => self.make_json(chosen(all, rng), versioned, rng, out),
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
                        self.write_text(length.saturating_sub(code.letters()), false, rng, out);
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
        let draw = rng.next_u64() as usize;
        let six = |shift: u32, mask: usize| BASE64[draw >> shift & mask];
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

/// Draws one of these, each with the upper end of its share of the 64-bit range.
#[inline]
fn chosen<'a, T>(all: &'a [(T, u64)], rng: &mut Rng) -> &'a T {
    let draw = rng.next_u64();
    let at = all.partition_point(|(_, end)| *end < draw).min(all.len() - 1);
    &all[at].0
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
fn write_key_escaped(all: &[Plan], position: usize, index: u64, out: &mut Vec<u8>) {
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
