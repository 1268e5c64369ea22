//! Values of a query's parameters: parts of a drawn document, or values of their own. Each is written as JSON.

use std::sync::Arc;

use indexmap::IndexMap;

use super::catalog::Documents;
use super::compile::{Context, empty_plan};
use super::corpus::Corpus;
use super::error::DocumentError;
use super::escape::escape_tail;
use super::fields;
use super::generate::Scope;
use super::own::write_plain;
use super::plan::Plan;
use super::random::seed_of;
use super::template::{self, Piece};
use storebench_study::workload::{Collection, Field};

/// The compiled parameters of one query, in the order of the study.
#[derive(Debug, Clone)]
pub struct Parameters {
    all: Arc<[(String, Source)]>,
    /// One plan, whose fields are the generated parameters.
    generated: Arc<[Plan]>,
}

/// Where a value comes from.
#[derive(Debug)]
enum Source {
    /// A value of the drawn document, with its own type.
    Value(Place),
    /// Text that contains values of the drawn document.
    Text(Vec<Part>),
    /// The generated field in this slot.
    Generated(usize),
}

#[derive(Debug)]
enum Part {
    /// Escaped for JSON.
    Literal(Box<[u8]>),
    Value(Place),
}

/// A place in a document.
#[derive(Debug)]
enum Place {
    Key,
    /// The generated field in this slot.
    Slot(usize),
    /// A field of the user's own document, by path.
    Field(String),
}

impl Parameters {
    /// Compiles the parameters of a query over these documents. `seed` is that of the study, `path` the place of the
    /// parameters in it.
    ///
    /// # Errors
    /// A field that documents do not have or whose value changes between versions, and what is wrong with a generated
    /// value. Names the parameter.
    pub fn compile(
        params: &IndexMap<String, Field>,
        of: &Documents,
        seed: u64,
        path: &str,
    ) -> Result<Self, DocumentError> {
        let mut fields = IndexMap::new();
        let mut all = Vec::new();
        for (name, field) in params {
            let source = match field {
                Field::Template(text) => drawn(text, of, &format!("{path}.{name}"))?,
                generated => {
                    fields.insert(name.clone(), generated.clone());
                    // Objects are not leaves, so slots are counted only when everything is compiled.
                    Source::Generated(usize::MAX)
                }
            };
            all.push((name.clone(), source));
        }
        let collections = IndexMap::from([("params".to_owned(), Collection { fields, ..Collection::default() })]);
        let mut plan = empty_plan("params", &collections["params"], seed_of("parameters of queries", seed));
        let made = fields::compile(&Context { collections: &collections, plans: &[] }, 0, path)?;
        plan.corpus = made.needs_text.then(|| Arc::new(Corpus::sentences(seed)));
        plan.slots = made.slots;
        for (name, source) in &mut all {
            if let Source::Generated(slot) = source {
                *slot = plan.slots.iter().position(|slot| slot.path == *name).ok_or_else(|| {
                    DocumentError::new(
                        format!("{path}.{name}"),
                        "a parameter cannot be an object; use one for each value",
                    )
                })?;
            }
        }
        Ok(Self { all: all.into(), generated: vec![plan].into() })
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|(name, _)| name.as_str())
    }

    /// The fields that are drawn from documents which Storebench does not generate.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let places = self.all.iter().flat_map(|(_, source)| match source {
            Source::Value(place) => vec![place],
            Source::Text(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    Part::Value(place) => Some(place),
                    Part::Literal(_) => None,
                })
                .collect(),
            Source::Generated(_) => Vec::new(),
        });
        places.filter_map(|place| match place {
            Place::Field(path) => Some(path.as_str()),
            _ => None,
        })
    }

    /// Appends the value of the parameter at this position, as JSON. Drawn values are those of document `index`;
    /// generated values depend on `number`. A field that the document does not have, or that is a list or an object, is
    /// `null`.
    pub fn write(&self, position: usize, of: &Documents, index: u64, number: u64, out: &mut Vec<u8>) {
        let Some((_, source)) = self.all.get(position) else { return };
        match source {
            Source::Generated(slot) => Scope::new(&self.generated, 0, number, 0, false).write_value(*slot, out),
            Source::Value(Place::Slot(slot)) => of.scope_of(index).write_value(*slot, out),
            Source::Value(Place::Field(path)) => match of.index_value(index, path) {
                Some(value) if !value.is_array() && !value.is_object() => {
                    out.extend_from_slice(value.to_string().as_bytes());
                }
                _ => out.extend_from_slice(b"null"),
            },
            Source::Value(place @ Place::Key) => {
                out.push(b'"');
                place.write_text(of, index, out);
                out.push(b'"');
            }
            Source::Text(parts) => {
                out.push(b'"');
                for part in parts {
                    match part {
                        Part::Literal(text) => out.extend_from_slice(text),
                        Part::Value(place) => place.write_text(of, index, out),
                    }
                }
                out.push(b'"');
            }
        }
    }
}

impl Place {
    /// Appends the value as text, escaped for JSON and without quotes.
    fn write_text(&self, of: &Documents, index: u64, out: &mut Vec<u8>) {
        let begin = out.len();
        match self {
            Place::Slot(slot) => {
                let scope = of.scope_of(index);
                if scope.is_plain(*slot) {
                    return scope.write_slot(*slot, out);
                }
                if let Some(value) = scope.slot_value(*slot) {
                    write_plain(&value, out);
                }
            }
            Place::Key => of.write_key(index, out),
            Place::Field(path) => {
                if let Some(value) = of.index_value(index, path) {
                    write_plain(&value, out);
                }
            }
        }
        escape_tail(begin, out);
    }
}

/// A value that is drawn from a document: `{docs.city}`, or text around such names.
fn drawn(text: &str, of: &Documents, path: &str) -> Result<Source, DocumentError> {
    let mut parts = Vec::new();
    for piece in template::parse(text, path)? {
        parts.push(match piece {
            Piece::Literal(text) => Part::Literal(super::escape::escaped(&text)),
            Piece::Name { name, width: 0 } => Part::Value(place(&name, of, path)?),
            Piece::Name { name, .. } => {
                return Err(DocumentError::new(
                    path,
                    format!("`{name}`: a parameter cannot be padded; remove the width"),
                ));
            }
        });
    }
    Ok(match parts.pop() {
        Some(Part::Value(place)) if parts.is_empty() => Source::Value(place),
        last => {
            parts.extend(last);
            Source::Text(parts)
        }
    })
}

fn place(name: &str, of: &Documents, path: &str) -> Result<Place, DocumentError> {
    let collection = of.name();
    let Some(field) = name.strip_prefix(collection).and_then(|rest| rest.strip_prefix('.')) else {
        return Err(DocumentError::new(
            path,
            format!(
                "`{{{name}}}`: write {{{collection}.key}} or {{{collection}.FIELD}}, for a drawn document of `{collection}`"
            ),
        ));
    };
    if field == "key" {
        return Ok(Place::Key);
    }
    if of.is_own() || of.is_existing() {
        return Ok(Place::Field(field.to_owned()));
    }
    if of.is_composite(field) {
        return Err(DocumentError::new(path, format!("`{field}` is a list or an object; a parameter is one value")));
    }
    of.slot_of(field).map(Place::Slot).ok_or_else(|| {
        DocumentError::new(
            path,
            format!(
                "documents of `{collection}` have no field `{field}` with one value, or its value changes between versions; \
                 index it so that its value stays: index = [[\"{field}\"]]"
            ),
        )
    })
}
