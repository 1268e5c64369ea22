//! The fields and the key of one collection, compiled to slots and segments.

use indexmap::IndexMap;

use super::compile::{Context, key_template};
use super::error::{DocumentError, suggest};
use super::escape::escaped;
use super::numbers::MOMENTS;
use super::picker::Picker;
use super::plan::{Code, Distinct, Json, MARKER, Maker, Member, Numbers, Part, Presence, Segment, Slot, bound_of};
use super::random::seed_of;
use super::template;
use storebench_study::workload::{Body, Collection, Field, TimeForm, Vary};

/// The deepest nesting of objects and lists.
const DEEPEST: usize = 32;

/// The compiled fields of a collection.
pub(crate) struct Compiled {
    pub(crate) segments: Vec<Segment>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) key: Vec<Part>,
    pub(crate) needs_text: bool,
    pub(crate) related: bool,
    pub(crate) key_related: bool,
}

pub(super) struct Builder<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) position: usize,
    pub(super) path: &'a str,
    /// Every leaf by its path, in the order of the study; the position is the slot.
    pub(super) leaves: IndexMap<String, &'a Field>,
    /// What a document must have in order to have a leaf, for leaves that not all have.
    presences: IndexMap<String, Vec<Presence>>,
    /// Leaves that the key or an index uses.
    pub(super) pinned: Vec<usize>,
    pub(super) needs_text: bool,
}

/// Compiles the fields and the key of the collection at `position`.
pub(crate) fn compile(context: &Context<'_>, position: usize, path: &str) -> Result<Compiled, DocumentError> {
    let (_, collection) = context.collections.get_index(position).expect("one plan for each collection");
    let mut all = collection.fields.clone();
    if collection.size.is_some() && !holds_fill(&all) {
        let name = (1..)
            .map(|n| if n == 1 { "text".to_owned() } else { format!("text_{n}") })
            .find(|name| !all.contains_key(name))
            .expect("there is always an unused name");
        all.insert(name, Field::Fill);
    }
    let mut found = Leaves::default();
    collect(&all, "", path, &[], 0, &mut found)?;
    let Leaves { leaves, presences } = found;
    let mut builder = Builder { context, position, path, leaves, presences, pinned: Vec::new(), needs_text: false };

    let key_path = format!("{path}.key");
    let pieces = template::parse(&key_template(collection), &key_path)?;
    builder.refuse_cycles()?;
    builder.pin(&pieces);
    for (i, fields) in collection.index.iter().enumerate() {
        builder.pin_index(fields, &format!("{path}.index.{i}"), &all)?;
    }
    let key = builder.parts(&pieces, &key_path)?;
    builder.refuse_equal_keys(&pieces, &key_path)?;

    let mut slots = Vec::with_capacity(builder.leaves.len());
    for at in 0..builder.leaves.len() {
        slots.push(builder.slot(at)?);
    }
    let mut segments = Vec::new();
    match collection.body {
        Body::Json => {
            literal(&mut segments, format!("{{\"{MARKER}\":[").as_bytes());
            segments.push(Segment::Index);
            literal(&mut segments, b",");
            segments.push(Segment::Version);
            literal(&mut segments, b"]");
            write_object(&all, "", &builder, &slots, true, &mut segments);
            literal(&mut segments, b"}");
        }
        Body::Bytes => {
            literal(&mut segments, format!("{MARKER}:").as_bytes());
            segments.push(Segment::Index);
            literal(&mut segments, b":");
            segments.push(Segment::Version);
            literal(&mut segments, b";");
            segments.push(Segment::Fill(0));
        }
        Body::Counter => literal(&mut segments, b"0"),
    }
    Ok(Compiled {
        related: slots.iter().any(|s| maker_related(&s.maker, &slots)),
        key_related: parts_related(&key, &slots),
        needs_text: builder.needs_text,
        segments,
        slots,
        key,
    })
}

fn holds_fill(fields: &IndexMap<String, Field>) -> bool {
    fields.values().any(|field| match field.kind() {
        Field::Fill => true,
        Field::Object(inner) => holds_fill(inner),
        _ => false,
    })
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// What [`collect`] finds.
#[derive(Default)]
struct Leaves<'a> {
    leaves: IndexMap<String, &'a Field>,
    presences: IndexMap<String, Vec<Presence>>,
}

/// Collects the leaves. Descends into objects; lists are leaves. `above` is what a document must have in order to have
/// these fields.
fn collect<'a>(
    fields: &'a IndexMap<String, Field>,
    prefix: &str,
    path: &str,
    above: &[Presence],
    depth: usize,
    found: &mut Leaves<'a>,
) -> Result<(), DocumentError> {
    for (name, field) in fields {
        let place = join(prefix, name);
        let wrong = |message: String| Err(DocumentError::new(format!("{path}.fields.{place}"), message));
        if prefix.is_empty() && name == MARKER {
            return wrong(format!(
                "`{MARKER}` is the field in which Storebench stores index and version; use another name"
            ));
        }
        if depth > DEEPEST {
            return wrong(format!("objects can be nested at most {DEEPEST} deep"));
        }
        let mut presences: Vec<Presence> = above.iter().copied().chain(presence(&place, field)).collect();
        if let Field::Object(inner) = field.kind() {
            if !field.is_always_there() && holds_fill(inner) {
                return wrong("fill text must be in every document; move it out of this object".into());
            }
            presences.extend(null(&place, field).map(Presence::opposite));
            collect(inner, &place, path, &presences, depth + 1, found)?;
        } else if found.leaves.insert(place.clone(), field).is_some() {
            return wrong("two fields have this path; rename one".into());
        } else if !presences.is_empty() {
            found.presences.insert(place, presences);
        }
    }
    Ok(())
}

fn literal(segments: &mut Vec<Segment>, text: &[u8]) {
    if let Some(Segment::Literal(last)) = segments.last_mut() {
        *last = [last, text].concat().into_boxed_slice();
    } else {
        segments.push(Segment::Literal(text.into()));
    }
}

fn name_of(name: &str) -> Vec<u8> {
    [b"\"", &escaped(name)[..], b"\":"].concat()
}

/// Appends the fields of an object. `comma` says whether a comma must precede the first field.
fn write_object(
    fields: &IndexMap<String, Field>,
    prefix: &str,
    builder: &Builder<'_>,
    slots: &[Slot],
    mut comma: bool,
    segments: &mut Vec<Segment>,
) {
    let mut written = comma;
    for (name, field) in fields {
        let place = join(prefix, name);
        let presence = presence(&place, field);
        let mut own = Vec::new();
        // After a field that may be missing, only the document shows whether a comma is needed.
        if comma {
            literal(&mut own, b",");
        } else if written {
            own.push(Segment::Comma);
        }
        (comma, written) = (comma || presence.is_none(), true);
        literal(&mut own, &name_of(name));
        if let Field::Object(inner) = field.kind() {
            let mut object = Vec::new();
            literal(&mut object, b"{");
            write_object(inner, &place, builder, slots, false, &mut object);
            literal(&mut object, b"}");
            match null(&place, field) {
                None => append(&mut own, object),
                Some(null) => own.push(Segment::If(null, vec![Segment::Literal(b"null".as_slice().into())], object)),
            }
        } else if let Some(slot) = builder.leaves.get_index_of(&place) {
            let quote: &[u8] = if slots[slot].quoted { b"\"" } else { b"" };
            literal(&mut own, quote);
            own.push(if matches!(field, Field::Fill) { Segment::Fill(slot) } else { Segment::Value(slot) });
            literal(&mut own, quote);
        }
        match presence {
            None => append(segments, own),
            Some(presence) => segments.push(Segment::If(presence, own, Vec::new())),
        }
    }
}

/// Appends segments, and merges literals.
fn append(segments: &mut Vec<Segment>, more: Vec<Segment>) {
    for segment in more {
        match segment {
            Segment::Literal(text) => literal(segments, &text),
            other => segments.push(other),
        }
    }
}

/// Whether a document has a field, if not all have it.
fn presence(place: &str, field: &Field) -> Option<Presence> {
    let vary = field.vary().filter(|vary| vary.present < 1.0)?;
    let salt = match &vary.with {
        Some(group) => seed_of(&format!("with {group}"), 2),
        None => seed_of(place, 2),
    };
    Some(Presence { salt, below: bound_of(vary.present), turned: false })
}

/// Whether an object is null in a document, if it ever is.
fn null(place: &str, field: &Field) -> Option<Presence> {
    let vary = field.vary().filter(|vary| vary.null > 0.0)?;
    Some(Presence { salt: seed_of(place, 3), below: bound_of(vary.null), turned: false })
}

/// Whether a value is a JSON string in every document.
fn is_quoted(field: &Field) -> bool {
    !matches!(
        field.kind(),
        Field::Integer(_)
            | Field::Decimal { .. }
            | Field::Bool(_)
            | Field::List { .. }
            | Field::Object(_)
            | Field::Any(_)
    ) && field.vary().is_none_or(|vary| vary.null == 0.0)
}

impl<'a> Builder<'a> {
    pub(super) fn collection(&self) -> &'a Collection {
        &self.context.collections[self.position]
    }

    pub(super) fn wrong<T>(&self, path: &str, message: impl Into<String>) -> Result<T, DocumentError> {
        Err(DocumentError::new(path, message))
    }

    /// Whether every document has a value in the leaf at this path.
    pub(super) fn is_in_all(&self, leaf: &str) -> bool {
        !self.presences.contains_key(leaf) && self.leaves.get(leaf).is_none_or(|field| field.is_always_there())
    }

    pub(super) fn field_path(&self, leaf: &str) -> String {
        format!("{}.fields.{leaf}", self.path)
    }

    fn slot(&mut self, at: usize) -> Result<Slot, DocumentError> {
        let (path, field) = self.leaves.get_index(at).map(|(p, f)| (p.clone(), *f)).expect("positions of leaves");
        let maker = self.maker(field, &path, &self.field_path(&path), true, 0)?;
        Ok(Slot {
            salt: seed_of(&path, 0),
            versioned: !self.pinned.contains(&at) && self.changes(field),
            quoted: is_quoted(field),
            presence: self.presences.get(&path).cloned().unwrap_or_default(),
            maker,
            path,
        })
    }

    fn maker(
        &mut self,
        field: &Field,
        leaf: &str,
        path: &str,
        top: bool,
        depth: usize,
    ) -> Result<Maker, DocumentError> {
        if depth > DEEPEST {
            return self.wrong(path, format!("lists can be nested at most {DEEPEST} deep"));
        }
        Ok(match field {
            Field::Template(text) => {
                let pieces = template::parse(text, path)?;
                Maker::Template(self.parts(&pieces, path)?)
            }
            Field::Words(r) => {
                self.needs_text = true;
                Maker::Words(r.min, r.max)
            }
            Field::Sentences(r) => {
                self.needs_text = true;
                Maker::Sentences(r.min, r.max)
            }
            Field::Lines(r) => {
                if self.collection().text_file.is_none() {
                    return self.wrong(
                        path,
                        "`lines` needs the collection's text file; add `text_file = \"book.txt\"`, or use `sentences`",
                    );
                }
                self.needs_text = true;
                Maker::Lines(r.min, r.max)
            }
            Field::Fill => {
                if !top {
                    return self.wrong(
                        path,
                        "fill text is not allowed in a list; give it a size, such as { text = \"200B\" }",
                    );
                }
                if self.collection().size.is_none() {
                    return self.wrong(path, "fill text needs the collection's `size`, such as `size = \"2KiB\"`");
                }
                self.needs_text = true;
                Maker::Fill
            }
            Field::Text(r) => {
                self.needs_text = true;
                Maker::Text(Numbers::through(r.points().iter().map(|size| size.bytes() as i64)))
            }
            Field::Integer(r) => Maker::Integer(Numbers::through(r.points().iter().copied())),
            Field::Decimal { range, digits } => {
                let scale = 10f64.powi(i32::from(*digits));
                let points: Vec<f64> = range.points().iter().map(|point| (point * scale).round()).collect();
                // A double represents fifteen digits exactly.
                if points.iter().any(|point| point.abs() > 1e15) {
                    return self.wrong(path, format!("{digits} digits after the point are more than JSON parsers preserve for numbers this large; use fewer"));
                }
                let of = Numbers::through(points.into_iter().map(|point| point as i64));
                Maker::Decimal { of, digits: *digits }
            }
            Field::Time { at_s, form } => {
                if !at_s.points().iter().all(|second| MOMENTS.contains(second)) {
                    return self.wrong(path, "use times with a year from 0000 to 9999");
                }
                let unit = if *form == TimeForm::Date { 86_400 } else { 1 };
                Maker::Time(Numbers::through(at_s.points().iter().map(|second| second.div_euclid(unit))), *form)
            }
            Field::Choice(all) => {
                let total: f64 = all.values().sum();
                if all.is_empty() || !(total.is_finite() && total > 0.0) {
                    return self.wrong(path, "a choice needs texts whose weights add up to more than 0");
                }
                Maker::Choice(with_shares(all.iter().map(|(text, weight)| (escaped(text), *weight)).collect(), total))
            }
            Field::Bool(p) => Maker::Bool(bound_of(*p)),
            Field::List { of, length } => {
                let quote: Box<[u8]> = if is_quoted(of) { b"\"".as_slice().into() } else { b"".as_slice().into() };
                if of.vary().is_some_and(|vary| vary.present < 1.0) {
                    return self.wrong(path, "a value of a list is always present; set `length` instead of `present`");
                }
                let of = Box::new(self.maker(of, leaf, path, false, depth + 1)?);
                let length = Numbers::through(length.points().iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)));
                Maker::List { open: quote.clone(), close: quote, of, length }
            }
            Field::Any(all) => {
                let total = all.iter().map(|(weight, _)| weight).sum();
                let mut kinds = Vec::new();
                for (weight, field) in all {
                    if matches!(field, Field::Template(_) | Field::Fill) || !field.is_always_there() {
                        return self.wrong(
                            path,
                            "`any` cannot contain a template, fill text, or a value with `present` or `null`",
                        );
                    }
                    kinds.push((self.json(field, leaf, path, depth + 1)?, *weight));
                }
                Maker::Any(with_shares(kinds, total))
            }
            Field::Varied { of, vary } => self.varied(of, vary, leaf, path, depth)?,
            Field::Object(inner) => self.object(inner, leaf, path, depth)?,
            Field::Ref { collection, popularity, same_parent } => {
                let Some(target) = self.context.collections.get_index_of(collection) else {
                    let known = self.context.collections.keys().map(String::as_str);
                    return self
                        .wrong(path, format!("unknown collection `{collection}`{}", suggest(collection, known)));
                };
                let plan = &self.context.plans[target];
                if *same_parent {
                    self.refuse_missing_siblings(collection, target, path)?;
                }
                Maker::Ref {
                    target,
                    picker: Picker::new(*popularity, plan.count, seed_of("popular", plan.seed)),
                    same_parent: *same_parent,
                }
            }
            Field::Bytes(r) => Maker::Bytes(r.min.bytes(), r.max.bytes()),
            Field::Id(kind) => Maker::Id(*kind, seed_of(leaf, 1)),
        })
    }

    /// An object within a list.
    fn object(
        &mut self,
        inner: &IndexMap<String, Field>,
        leaf: &str,
        path: &str,
        depth: usize,
    ) -> Result<Maker, DocumentError> {
        let mut members = Vec::new();
        for (name, field) in inner {
            let path = format!("{path}.{name}");
            let vary = field.vary();
            if vary.is_some_and(|vary| vary.with.is_some()) {
                return self.wrong(&path, "`with` groups fields of a document, not of an object in a list; remove it");
            }
            let below = vary.filter(|vary| vary.present < 1.0).map(|vary| bound_of(vary.present));
            let of = self.json(field, &join(leaf, name), &path, depth + 1)?;
            members.push(Member { name: name_of(name).into(), below, of });
        }
        Ok(Maker::Object(members))
    }

    /// A value within another one.
    fn json(&mut self, field: &Field, leaf: &str, path: &str, depth: usize) -> Result<Json, DocumentError> {
        Ok(Json { quoted: is_quoted(field), of: self.maker(field, leaf, path, false, depth)? })
    }

    /// A value that may be null, repeats or rises.
    fn varied(
        &mut self,
        of: &Field,
        vary: &Vary,
        leaf: &str,
        path: &str,
        depth: usize,
    ) -> Result<Maker, DocumentError> {
        let mut maker = self.maker(of, leaf, path, false, depth)?;
        if let Some(within) = vary.rising {
            maker = match maker {
                Maker::Integer(of) => Maker::Integer(of.rising(within)),
                Maker::Decimal { of, digits } => Maker::Decimal { of: of.rising(within), digits },
                Maker::Time(of, form) => Maker::Time(of.rising(within), form),
                _ => return self.wrong(path, "`rising` needs integer, decimal or time"),
            };
        }
        if let Some(count) = vary.distinct {
            let salt = seed_of(leaf, 4);
            let code = matches!(maker, Maker::Text(_)).then(|| Code::new(count, salt));
            let picker = Picker::new(vary.popularity, count, salt);
            maker = Maker::Distinct(Box::new(Distinct { count, picker, salt, code, of: maker }));
        }
        if vary.null > 0.0 {
            maker = Maker::Nullable(bound_of(vary.null), Box::new(Json { quoted: is_quoted(of), of: maker }));
        }
        Ok(maker)
    }

    /// `same_parent` needs a sibling for every document. All relations to one collection rank its parents in the same
    /// order, so it is enough that at least as many parents have children in the target.
    fn refuse_missing_siblings(&self, name: &str, target: usize, path: &str) -> Result<(), DocumentError> {
        let (own, other) = (&self.context.plans[self.position].relation, &self.context.plans[target].relation);
        match (own, other) {
            (Some(own), Some(other)) if own.parent_collection == other.parent_collection => {
                if other.parents < own.parents {
                    return self.wrong(
                        path,
                        format!(
                            "{} parents have documents here but only {} have documents in `{name}`, so some have none to refer to; give more parents children there",
                            own.parents, other.parents
                        ),
                    );
                }
                Ok(())
            }
            _ => self.wrong(
                path,
                format!("`same_parent` needs this collection and `{name}` to have the same collection in `per`"),
            ),
        }
    }
}

/// Each with the upper end of its share of the 64-bit range.
fn with_shares<T>(all: Vec<(T, f64)>, total: f64) -> Vec<(T, u64)> {
    let mut sum = 0.0;
    let mut list: Vec<(T, u64)> = all
        .into_iter()
        .map(|(one, weight)| {
            sum += weight;
            (one, (sum / total * 18_446_744_073_709_551_616.0) as u64)
        })
        .collect();
    if let Some(last) = list.last_mut() {
        last.1 = u64::MAX;
    }
    list
}

fn parts_related(parts: &[Part], slots: &[Slot]) -> bool {
    parts.iter().any(|part| match part {
        Part::Seq(_) | Part::Parent(_) | Part::ParentKey => true,
        Part::Slot { slot, .. } => maker_related(&slots[*slot].maker, slots),
        _ => false,
    })
}

fn maker_related(maker: &Maker, slots: &[Slot]) -> bool {
    match maker {
        Maker::Template(parts) => parts_related(parts, slots),
        Maker::List { of, .. } => maker_related(of, slots),
        Maker::Object(members) => members.iter().any(|member| maker_related(&member.of.of, slots)),
        Maker::Any(all) => all.iter().any(|(json, _)| maker_related(&json.of, slots)),
        Maker::Nullable(_, json) => maker_related(&json.of, slots),
        Maker::Ref { same_parent, .. } => *same_parent,
        _ => false,
    }
}
