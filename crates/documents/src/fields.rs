//! The fields and the key of one collection, compiled to slots and segments.

use indexmap::IndexMap;

use super::compile::{Context, key_template};
use super::error::{DocumentError, suggest};
use super::escape::escaped;
use super::numbers::MOMENTS;
use super::picker::Picker;
use super::plan::{MARKER, Maker, Part, Segment, Slot};
use super::random::seed_of;
use super::template;
use storebench_study::workload::{Body, Collection, Field};

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
            .expect("names do not end");
        all.insert(name, Field::Fill);
    }
    let mut leaves = IndexMap::new();
    collect(&all, "", path, 0, &mut leaves)?;
    let mut builder = Builder { context, position, path, leaves, pinned: Vec::new(), needs_text: false };

    let key_path = format!("{path}.key");
    let pieces = template::parse(&key_template(collection), &key_path)?;
    builder.refuse_cycles()?;
    builder.pin(&pieces)?;
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
    let related = |parts: &[Part]| parts_related(parts, &slots);
    let key_related = related(&key);
    Ok(Compiled {
        related: slots.iter().any(|s| maker_related(&s.maker, &slots)),
        key_related,
        needs_text: builder.needs_text,
        segments,
        slots,
        key,
    })
}

fn holds_fill(fields: &IndexMap<String, Field>) -> bool {
    fields.values().any(|field| match field {
        Field::Fill => true,
        Field::Object(inner) => holds_fill(inner),
        _ => false,
    })
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// Collects the leaves. Descends into objects; lists are leaves.
fn collect<'a>(
    fields: &'a IndexMap<String, Field>,
    prefix: &str,
    path: &str,
    depth: usize,
    leaves: &mut IndexMap<String, &'a Field>,
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
        if let Field::Object(inner) = field {
            collect(inner, &place, path, depth + 1, leaves)?;
        } else if leaves.insert(place.clone(), field).is_some() {
            return wrong("two fields have this path; rename one".into());
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
    for (name, field) in fields {
        if std::mem::replace(&mut comma, true) {
            literal(segments, b",");
        }
        literal(segments, &name_of(name));
        let place = join(prefix, name);
        if let Field::Object(inner) = field {
            literal(segments, b"{");
            write_object(inner, &place, builder, slots, false, segments);
            literal(segments, b"}");
        } else if let Some(slot) = builder.leaves.get_index_of(&place) {
            let quote: &[u8] = if slots[slot].quoted { b"\"" } else { b"" };
            literal(segments, quote);
            segments.push(if matches!(field, Field::Fill) { Segment::Fill(slot) } else { Segment::Value(slot) });
            literal(segments, quote);
        }
    }
}

/// Whether a value is a JSON string.
fn is_quoted(field: &Field) -> bool {
    !matches!(field, Field::Integer(_) | Field::Decimal { .. } | Field::Bool(_) | Field::List { .. } | Field::Object(_))
}

impl<'a> Builder<'a> {
    pub(super) fn collection(&self) -> &'a Collection {
        &self.context.collections[self.position]
    }

    pub(super) fn wrong<T>(&self, path: &str, message: impl Into<String>) -> Result<T, DocumentError> {
        Err(DocumentError::new(path, message))
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
                Maker::Text(r.min.bytes(), r.max.bytes())
            }
            Field::Integer(r) => Maker::Integer(r.min, r.max),
            Field::Decimal { range, digits } => {
                let scale = 10f64.powi(i32::from(*digits));
                let (min, max) = ((range.min * scale).round(), (range.max * scale).round());
                // A double represents fifteen digits exactly.
                if min.abs() > 1e15 || max.abs() > 1e15 {
                    return self.wrong(path, format!("{digits} digits after the point are more than JSON parsers preserve for numbers this large; use fewer"));
                }
                Maker::Decimal { min: min as i64, max: max as i64, digits: *digits }
            }
            Field::Time { from_s, to_s } => {
                if !MOMENTS.contains(from_s) || !MOMENTS.contains(to_s) {
                    return self.wrong(path, "use times with a year from 0000 to 9999");
                }
                Maker::Moment(*from_s, *to_s)
            }
            Field::Choice(all) => {
                let total: f64 = all.values().sum();
                if all.is_empty() || !(total.is_finite() && total > 0.0) {
                    return self.wrong(path, "a choice needs texts whose weights add up to more than 0");
                }
                let mut sum = 0.0;
                let mut list: Vec<(Box<[u8]>, u64)> = all
                    .iter()
                    .map(|(text, weight)| {
                        sum += weight;
                        (escaped(text), (sum / total * 18_446_744_073_709_551_616.0) as u64)
                    })
                    .collect();
                if let Some(last) = list.last_mut() {
                    last.1 = u64::MAX;
                }
                Maker::Choice(list)
            }
            Field::Bool(p) => Maker::Bool((p * 9_223_372_036_854_775_808.0) as u64),
            Field::List { of, length } => {
                let quote: Box<[u8]> = if is_quoted(of) { b"\"".as_slice().into() } else { b"".as_slice().into() };
                let of = Box::new(self.maker(of, leaf, path, false, depth + 1)?);
                Maker::List { open: quote.clone(), close: quote, of, min: length.min, max: length.max }
            }
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
        let mut before = b"{".to_vec();
        let mut makers = Vec::new();
        for (i, (name, field)) in inner.iter().enumerate() {
            let quote: &[u8] = if is_quoted(field) { b"\"" } else { b"" };
            if i > 0 {
                before.push(b',');
            }
            before.extend_from_slice(&name_of(name));
            before.extend_from_slice(quote);
            let maker = self.maker(field, &join(leaf, name), &format!("{path}.{name}"), false, depth + 1)?;
            makers.push((std::mem::take(&mut before).into_boxed_slice(), maker));
            before.extend_from_slice(quote);
        }
        before.push(b'}');
        Ok(Maker::Object(makers, before.into_boxed_slice()))
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
        Maker::Object(fields, _) => fields.iter().any(|(_, m)| maker_related(m, slots)),
        Maker::Ref { same_parent, .. } => *same_parent,
        _ => false,
    }
}
