//! Names in templates: what they refer to, which fields they pin, and whether keys are unique.

use indexmap::IndexMap;

use super::compile::is_text;
use super::error::{DocumentError, suggest};
use super::escape::escaped;
use super::fields::Builder;
use super::plan::Part;
use super::template::{self, Piece};
use storebench_study::workload::Field;

impl Builder<'_> {
    /// Leaf fields that the templates within a field refer to.
    fn named_by(&self, field: &Field) -> Vec<usize> {
        match field.kind() {
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
            Field::Any(all) => all.iter().flat_map(|(_, f)| self.named_by(f)).collect(),
            _ => Vec::new(),
        }
    }

    /// Rejects fields that refer to themselves, directly or through other fields.
    pub(super) fn refuse_cycles(&self) -> Result<(), DocumentError> {
        // 0: not visited, 1: in progress, 2: done.
        fn visit(builder: &Builder<'_>, at: usize, state: &mut [u8]) -> Result<(), DocumentError> {
            if state[at] == 2 {
                return Ok(());
            }
            let (leaf, field) = builder.leaves.get_index(at).expect("positions of leaves");
            if state[at] == 1 {
                return builder.wrong(
                    &builder.field_path(leaf),
                    format!("`{leaf}` depends on itself; use {{parent}}, {{parent.key}}, {{index}} or another field"),
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

    pub(super) fn pin(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            if let Piece::Name { name, .. } = piece
                && !is_built_in(name)
                && let Some(at) = self.leaves.get_index_of(name)
            {
                self.pin_leaf(at);
            }
        }
    }

    pub(super) fn pin_index(
        &mut self,
        fields: &[String],
        path: &str,
        all: &IndexMap<String, Field>,
    ) -> Result<(), DocumentError> {
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
                return self.wrong(path, format!("unknown field `{field}`{known}"));
            };
            if !is_short(self.leaves[at]) {
                return self.wrong(path, format!("`{field}` is not a single short value; index another field"));
            }
            if !self.is_in_all(field) {
                return self.wrong(path, format!("not every document has a value in `{field}`; index another field"));
            }
            self.pin_leaf(at);
        }
        Ok(())
    }

    /// Whether a field changes with the version, unless it is pinned.
    pub(super) fn changes(&self, field: &Field) -> bool {
        match field.kind() {
            _ if field.vary().is_some_and(|vary| vary.distinct.is_some()) => false,
            kind if is_text(kind) => true,
            Field::Any(all) => all.iter().any(|(_, f)| self.changes(f)),
            Field::List { of, .. } => self.changes(of),
            Field::Object(inner) => inner.values().any(|f| self.changes(f)),
            Field::Template(_) => {
                self.named_by(field).iter().any(|at| !self.pinned.contains(at) && self.changes(self.leaves[*at]))
            }
            _ => false,
        }
    }

    /// Compiles a template.
    pub(super) fn parts(&self, pieces: &[Piece], path: &str) -> Result<Vec<Part>, DocumentError> {
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
                    .wrong(path, format!("`{{{name}}}` is not a number and cannot be padded; remove the width"));
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
                        format!("`{{{name}}}` needs a parent; add `per = {{ users = 3 }}`, or use {{index}} instead"),
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
                        return self.wrong(path, format!("unknown name `{{{name}}}`{}", suggest(name, known)));
                    };
                    let field = self.leaves[slot];
                    if matches!(field.kind(), Field::List { .. } | Field::Fill | Field::Any(_)) {
                        return self
                            .wrong(path, format!("`{{{name}}}` is not a single short value; use another field"));
                    }
                    if !self.is_in_all(name) {
                        return self
                            .wrong(path, format!("not every document has a value in `{name}`; use another field"));
                    }
                    if width > 0 && !matches!(field.kind(), Field::Integer(_)) {
                        return self.wrong(
                            path,
                            format!("`{{{name}}}` is not an integer and cannot be padded; remove the width"),
                        );
                    }
                    Part::Slot { slot, width }
                }
            });
        }
        Ok(merged(parts))
    }

    /// Rejects key templates that could give two documents the same key, as far as the template alone shows.
    pub(super) fn refuse_equal_keys(&self, pieces: &[Piece], path: &str) -> Result<(), DocumentError> {
        let mut found = Names::default();
        self.unique_names(pieces, &mut found);
        let related = self.collection().per.is_some();
        if !(found.unique || (found.parent && found.seq)) {
            let remedy = if related { "{index}, {uuid}, or {parent} and {seq}" } else { "{index} or {uuid}" };
            return self.wrong(path, format!("two documents could have the same key; add {remedy}"));
        }
        // Adjacent digits are ambiguous: `{parent}{seq}` gives 123 for both 1|23 and 12|3.
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
                    format!("the digits of `{{{name}}}` run into adjacent digits, so two documents could have the same key; put `/` or `-` between them"),
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

/// Whether an index can be over a field.
fn is_short(field: &Field) -> bool {
    match field.kind() {
        Field::Fill | Field::List { .. } | Field::Object(_) => false,
        Field::Any(all) => all.iter().all(|(_, field)| is_short(field)),
        _ => true,
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

/// Merges adjacent literals.
fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match (all.last_mut(), part) {
            (Some(Part::Literal(before)), Part::Literal(text)) => *before = [&before[..], &text[..]].concat().into(),
            (_, part) => all.push(part),
        }
    }
    all
}
