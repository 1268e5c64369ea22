//! The fields and the key of one collection, compiled to slots and segments.

use indexmap::IndexMap;

use super::compile::{Context, is_text, key_template};
use super::error::{DocumentError, suggest};
use super::escape::escaped;
use super::numbers::MOMENTS;
use super::picker::Picker;
use super::plan::{MARKER, Maker, Part, Segment, Slot};
use super::random::seed_of;
use super::template::{self, Piece};
use crate::workload::{Body, Collection, Field};

/// Objects and lists go no deeper.
const DEEPEST: usize = 32;

/// What the fields of a collection became.
pub(crate) struct Compiled {
    pub(crate) segments: Vec<Segment>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) key: Vec<Part>,
    pub(crate) needs_text: bool,
    pub(crate) related: bool,
    pub(crate) key_related: bool,
}

struct Builder<'a> {
    context: &'a Context<'a>,
    position: usize,
    path: &'a str,
    /// Every leaf by its path, in the order written; the position is the slot.
    leaves: IndexMap<String, &'a Field>,
    /// Leaves that the key or an index is made of.
    pinned: Vec<usize>,
    needs_text: bool,
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

/// Lists the leaves; objects are seen through, lists are leaves.
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
                "`{MARKER}` is the field in which Storebench writes index and version; give yours another name"
            ));
        }
        if depth > DEEPEST {
            return wrong(format!("objects within objects go {DEEPEST} deep at most"));
        }
        if let Field::Object(inner) = field {
            collect(inner, &place, path, depth + 1, leaves)?;
        } else if leaves.insert(place.clone(), field).is_some() {
            return wrong("there are two fields of this path; rename one".into());
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

/// Appends the fields of an object, each after a comma where something stands before it.
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
    fn collection(&self) -> &'a Collection {
        &self.context.collections[self.position]
    }

    fn wrong<T>(&self, path: &str, message: impl Into<String>) -> Result<T, DocumentError> {
        Err(DocumentError::new(path, message))
    }

    fn field_path(&self, leaf: &str) -> String {
        format!("{}.fields.{leaf}", self.path)
    }

    /// Leaves that the templates within a field name.
    fn named_by(&self, field: &Field) -> Vec<usize> {
        match field {
            Field::Template(text) => template::parse(text, "")
                .unwrap_or_default()
                .iter()
                .filter_map(|piece| match piece {
                    Piece::Name { name, .. } if !is_built_in(name) => self.leaves.get_index_of(name),
                    _ => None,
                })
                .collect(),
            Field::List { of, .. } => self.named_by(of),
            Field::Object(inner) => inner.values().flat_map(|f| self.named_by(f)).collect(),
            _ => Vec::new(),
        }
    }

    /// Refuses fields that name themselves, at once or by way of others.
    fn refuse_cycles(&self) -> Result<(), DocumentError> {
        // 0 not seen, 1 being looked at, 2 done.
        fn visit(builder: &Builder<'_>, at: usize, state: &mut [u8]) -> Result<(), DocumentError> {
            if state[at] == 2 {
                return Ok(());
            }
            let (leaf, field) = builder.leaves.get_index(at).expect("positions of leaves");
            if state[at] == 1 {
                return builder.wrong(
                    &builder.field_path(leaf),
                    format!(
                        "`{leaf}` is made from itself; name {{parent}}, {{parent.key}}, {{index}} or another field"
                    ),
                );
            }
            state[at] = 1;
            for next in builder.named_by(field) {
                visit(builder, next, state)?;
            }
            state[at] = 2;
            Ok(())
        }
        let mut state = vec![0; self.leaves.len()];
        (0..self.leaves.len()).try_for_each(|at| visit(self, at, &mut state))
    }

    fn pin_leaf(&mut self, at: usize) {
        if !self.pinned.contains(&at) {
            self.pinned.push(at);
            for next in self.named_by(self.leaves[at]) {
                self.pin_leaf(next);
            }
        }
    }

    fn pin(&mut self, pieces: &[Piece]) -> Result<(), DocumentError> {
        for piece in pieces {
            if let Piece::Name { name, .. } = piece
                && !is_built_in(name)
                && let Some(at) = self.leaves.get_index_of(name)
            {
                self.pin_leaf(at);
            }
        }
        Ok(())
    }

    fn pin_index(&mut self, fields: &[String], path: &str, all: &IndexMap<String, Field>) -> Result<(), DocumentError> {
        if fields.is_empty() {
            return self.wrong(path, "an index needs at least one field");
        }
        for field in fields {
            let Some(at) = self.leaves.get_index_of(field) else {
                if all.contains_key(field) {
                    return self.wrong(
                        path,
                        format!("`{field}` is an object; index one of its fields, as in \"{field}.name\""),
                    );
                }
                let known = suggest(field, self.leaves.keys().map(String::as_str));
                return self.wrong(path, format!("there is no field `{field}`{known}"));
            };
            if matches!(self.leaves[at], Field::Fill | Field::List { .. }) {
                return self.wrong(path, format!("`{field}` is no single short value; index another field"));
            }
            self.pin_leaf(at);
        }
        Ok(())
    }

    /// Whether a field differs from version to version, unless pinned.
    fn changes(&self, field: &Field) -> bool {
        match field {
            _ if is_text(field) => true,
            Field::List { of, .. } => self.changes(of),
            Field::Object(inner) => inner.values().any(|f| self.changes(f)),
            Field::Template(_) => {
                self.named_by(field).iter().any(|at| !self.pinned.contains(at) && self.changes(self.leaves[*at]))
            }
            _ => false,
        }
    }

    /// Compiles a template.
    fn parts(&self, pieces: &[Piece], path: &str) -> Result<Vec<Part>, DocumentError> {
        let related = self.collection().per.is_some();
        let mut parts = Vec::new();
        for piece in pieces {
            let (name, width) = match piece {
                Piece::Literal(text) => {
                    parts.push(Part::Literal(escaped(text)));
                    continue;
                }
                Piece::Name { name, width } => (name.as_str(), *width),
            };
            if width > 0 && matches!(name, "collection" | "uuid" | "parent.key") {
                return self
                    .wrong(path, format!("`{{{name}}}` is no number and cannot be padded; leave the width out"));
            }
            parts.push(match name {
                "index" => Part::Index(width),
                "collection" => {
                    Part::Literal(escaped(self.context.collections.get_index(self.position).map_or("", |(n, _)| n)))
                }
                "uuid" => Part::Uuid,
                "seq" | "parent" | "parent.key" if !related => {
                    return self.wrong(
                        path,
                        format!(
                            "`{{{name}}}` needs a parent: write `per = {{ users = 3 }}`, or name {{index}} instead"
                        ),
                    );
                }
                "seq" => Part::Seq(width),
                "parent" => Part::Parent(width),
                "parent.key" => Part::ParentKey,
                _ => {
                    let Some(slot) = self.leaves.get_index_of(name) else {
                        let built_in: &[&str] = if related {
                            &["index", "seq", "parent", "parent.key", "uuid", "collection"]
                        } else {
                            &["index", "uuid", "collection"]
                        };
                        let known = built_in.iter().copied().chain(self.leaves.keys().map(String::as_str));
                        return self.wrong(path, format!("`{{{name}}}` names nothing{}", suggest(name, known)));
                    };
                    let field = self.leaves[slot];
                    if matches!(field, Field::List { .. } | Field::Fill) {
                        return self.wrong(path, format!("`{{{name}}}` is no single short value; name another field"));
                    }
                    if width > 0 && !matches!(field, Field::Integer(_)) {
                        return self.wrong(
                            path,
                            format!("`{{{name}}}` is no integer and cannot be padded; leave the width out"),
                        );
                    }
                    Part::Slot { slot, width }
                }
            });
        }
        Ok(parts)
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
            return self.wrong(path, format!("lists within lists go {DEEPEST} deep at most"));
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
                        "`lines` are lines of the collection's text file; write `text_file = \"book.txt\"`, or use `sentences`",
                    );
                }
                self.needs_text = true;
                Maker::Lines(r.min, r.max)
            }
            Field::Fill => {
                if !top {
                    return self.wrong(
                        path,
                        "text that fills cannot stand in a list; give it a size, as in { text = \"200B\" }",
                    );
                }
                if self.collection().size.is_none() {
                    return self
                        .wrong(path, "text that fills needs the collection's `size`, such as `size = \"2KiB\"`");
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
                // Fifteen digits: what a double keeps exactly.
                if min.abs() > 1e15 || max.abs() > 1e15 {
                    return self.wrong(path, format!("{digits} digits after the point of numbers this large are more than JSON readers keep; use fewer"));
                }
                Maker::Decimal { min: min as i64, max: max as i64, digits: *digits }
            }
            Field::Time { from_s, to_s } => {
                if !MOMENTS.contains(from_s) || !MOMENTS.contains(to_s) {
                    return self.wrong(path, "times have years from 0000 to 9999");
                }
                Maker::Moment(*from_s, *to_s)
            }
            Field::Choice(all) => {
                let total: f64 = all.values().sum();
                if all.is_empty() || !(total.is_finite() && total > 0.0) {
                    return self.wrong(path, "a choice needs texts whose weights have a sum above 0");
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
                        .wrong(path, format!("there is no collection `{collection}`{}", suggest(collection, known)));
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

    /// `same_parent` needs a sibling for every document: parents are ranked alike in all relations
    /// to one collection, so it is enough that at least as many parents have such children.
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
                format!("`same_parent` needs both this collection and `{name}` to be `per` the same collection"),
            ),
        }
    }

    /// Refuses key templates under which two documents could have one key.
    fn refuse_equal_keys(&self, pieces: &[Piece], path: &str) -> Result<(), DocumentError> {
        let mut found = Names::default();
        self.unique_names(pieces, &mut found);
        let related = self.collection().per.is_some();
        if !(found.unique || (found.parent && found.seq)) {
            let remedy = if related { "{index}, {uuid}, or {parent} and {seq}" } else { "{index} or {uuid}" };
            return self.wrong(path, format!("two documents could have the same key; add {remedy}"));
        }
        // Digits beside other digits run together: `{parent}{seq}` is 1|23 and 12|3.
        let is_bare = |piece: &Piece| matches!(piece, Piece::Name { name, width: 0 } if !matches!(name.as_str(), "uuid" | "collection"));
        for (i, piece) in pieces.iter().enumerate() {
            let Piece::Name { name, width: 0 } = piece else { continue };
            if !matches!(name.as_str(), "index" | "seq" | "parent") {
                continue;
            }
            let apart = |next: Option<&Piece>, after: Option<&Piece>| match next {
                Some(Piece::Literal(text)) => {
                    text.contains(|c: char| !c.is_ascii_digit()) || !after.is_some_and(is_bare)
                }
                Some(other) => !is_bare(other),
                None => true,
            };
            let before = i.checked_sub(1).and_then(|b| pieces.get(b));
            let before_that = i.checked_sub(2).and_then(|b| pieces.get(b));
            if !apart(before, before_that) || !apart(pieces.get(i + 1), pieces.get(i + 2)) {
                return self.wrong(
                    path,
                    format!("the digits of `{{{name}}}` run into those beside it, so two documents could have the same key; put `/` or `-` between"),
                );
            }
        }
        Ok(())
    }

    fn unique_names(&self, pieces: &[Piece], found: &mut Names) {
        for piece in pieces {
            let Piece::Name { name, .. } = piece else { continue };
            match name.as_str() {
                "index" | "uuid" => found.unique = true,
                "seq" => found.seq = true,
                "parent" | "parent.key" => found.parent = true,
                other => match self.leaves.get(other) {
                    Some(Field::Id(_)) => found.unique = true,
                    Some(Field::Template(text)) => {
                        self.unique_names(&template::parse(text, "").unwrap_or_default(), found);
                    }
                    _ => {}
                },
            }
        }
    }
}

#[derive(Default)]
struct Names {
    unique: bool,
    seq: bool,
    parent: bool,
}

fn is_built_in(name: &str) -> bool {
    matches!(name, "index" | "seq" | "parent" | "parent.key" | "uuid" | "collection")
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
