//! What a phase does, label by label, as the study says it.

use std::time::Duration;

use crate::measure::Label;
use crate::store::{Capabilities, OpKind, ViewRows};
use storebench_documents::{Catalog, Documents};
use storebench_study::workload::{Body, Database, Draw, MixEntry, Operation, Phase, PhaseKind, RowCount, Study, does};

use super::queries::AskedQuery;

/// Documents in one bulk operation of a load, by default.
pub const DEFAULT_LOAD_BATCH: u32 = 1_000;

/// What one label of a mix needs to make its operations.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Its label in the result.
    pub label: Label,
    /// Its frequency, relative to the others of the mix.
    pub weight: f64,
    /// Whether documents are drawn, or parents that have documents.
    pub draw: Draw,
    /// Whether documents that were read can be compared with the expected ones. They can if nothing in the study
    /// changes them in a way that the generator cannot repeat.
    pub checkable: bool,
    /// What the operation asks beyond a document.
    pub ask: Ask,
}

/// What an operation asks beyond a document, by its kind.
#[derive(Debug, Clone)]
pub enum Ask {
    /// Nothing beyond its key and contents.
    Document,
    /// `append`, `prepend`: how many bytes are added.
    Grow(u64),
    /// `counter`: the number that is added.
    Count(i64),
    /// `touch`: how long the document lives from then on.
    Live(Duration),
    /// `page`: the indexed field, and the maximum number of documents.
    Page(String, u32),
    /// `prefix`: the placeholder before which the key is cut (`None` for the last one), and the maximum number of
    /// documents.
    Prefix(Option<String>, u32),
    /// `scan`: the maximum number of documents.
    Scan(u32),
    /// `view`: `design/view`, which of its rows, and the maximum number of rows.
    View(String, Rows, u32),
    /// `query`: its text and its parameters.
    Query(AskedQuery),
    /// `transaction`: its steps.
    Transaction(Transaction),
}

/// The steps of a transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction {
    /// Their positions in [`PhasePlan::steps`](super::PhasePlan::steps).
    pub steps: std::ops::Range<usize>,
    /// For each step, the earlier step whose document it uses, by its position among the steps.
    pub same_as: Vec<Option<usize>>,
    /// The share that is rolled back.
    pub rollback: f64,
}

impl Ask {
    fn of(kind: OpKind, entry: &MixEntry) -> Self {
        let limit = entry.limit.unwrap_or(10);
        match kind {
            OpKind::Append | OpKind::Prepend => Self::Grow(entry.size.map_or(16, |s| s.0)),
            OpKind::Counter => Self::Count(entry.delta.unwrap_or(1)),
            OpKind::Touch => Self::Live(entry.expiry.map_or(Duration::from_secs(3_600), |e| e.0)),
            OpKind::Page => Self::Page(entry.field.clone().unwrap_or_default(), limit),
            OpKind::Prefix => Self::Prefix(entry.upto.clone(), limit),
            OpKind::Scan => Self::Scan(limit),
            OpKind::View => Self::View(entry.view.clone().unwrap_or_default(), Rows::of(entry), limit),
            _ => Self::Document,
        }
    }

    /// How many rows an answer to a query must have, if the study says so.
    #[inline]
    pub(super) fn rows(&self) -> Option<RowCount> {
        match self {
            Self::Query(query) => query.rows,
            _ => None,
        }
    }

    /// The field whose value is asked for, if any.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Page(field, _) | Self::View(_, Rows::By(field), _) => Some(field),
            _ => None,
        }
    }
}

/// The rows of a view that a study asks for, as JSON texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// All.
    All,
    /// Those with one of the keys of this array.
    Keys(String),
    /// From the first to the second key, both included.
    Range(Option<String>, Option<String>),
    /// Those whose key is the value of this field in a drawn document.
    By(String),
}

impl Rows {
    fn of(entry: &MixEntry) -> Self {
        let text = |value: &serde_json::Value| value.to_string();
        match (&entry.field, &entry.keys, &entry.start, &entry.end) {
            (Some(field), ..) => Self::By(field.clone()),
            (None, Some(keys), ..) => Self::Keys(serde_json::Value::from(keys.clone()).to_string()),
            (None, None, None, None) => Self::All,
            (None, None, start, end) => Self::Range(start.as_ref().map(text), end.as_ref().map(text)),
        }
    }

    /// The rows in the form that a store expects. `drawn` holds the keys of a drawn document.
    pub fn asked<'a>(&'a self, drawn: &'a str) -> ViewRows<'a> {
        match self {
            Self::All => ViewRows::All,
            Self::Keys(keys) => ViewRows::Keys(keys),
            Self::Range(start, end) => ViewRows::Range { start: start.as_deref(), end: end.as_deref() },
            Self::By(_) => ViewRows::Keys(drawn),
        }
    }
}

/// The recipes of a phase, and those of the steps of its transactions. Loads have one for each collection, and traces one
/// for each kind of operation.
pub(super) fn recipes(
    study: &Study,
    phase: &Phase,
    catalog: &Catalog,
    can: &Capabilities,
) -> Result<(Vec<Recipe>, Vec<Recipe>), String> {
    let source = Source { study, phase, catalog, can };
    match phase.kind() {
        Some(PhaseKind::Load(_)) => Ok((source.load()?, Vec::new())),
        Some(PhaseKind::Mix(_)) => source.mix(),
        Some(PhaseKind::Trace(_)) => Ok((source.trace()?, Vec::new())),
        Some(PhaseKind::Copy(_) | PhaseKind::Rest) | None => Ok((Vec::new(), Vec::new())),
    }
}

/// What recipes are made from.
struct Source<'a> {
    study: &'a Study,
    phase: &'a Phase,
    catalog: &'a Catalog,
    can: &'a Capabilities,
}

impl Source<'_> {
    fn collection(&self, name: &str) -> Result<usize, String> {
        self.catalog.find(name).ok_or_else(|| format!("unknown collection `{name}`"))
    }

    /// Whether the generator can repeat the documents of a collection, because nothing in the study changes them.
    fn is_repeatable(&self, documents: &Documents, name: &str) -> bool {
        const CHANGES: [OpKind; 3] = [OpKind::Append, OpKind::Prepend, OpKind::MergePatch];
        !documents.is_existing()
            // A trace may have left recorded documents.
            && !documents.trace().is_some_and(|trace| trace.has_bodies())
            && !does(self.study, &self.study.phases, &CHANGES, name)
    }

    fn load(&self) -> Result<Vec<Recipe>, String> {
        let batch = self.phase.batch.unwrap_or(DEFAULT_LOAD_BATCH);
        let recipe = |name: &String| {
            let collection = self.collection(name)?;
            let kind = match (self.catalog.get(collection).body(), batch) {
                // A counter begins with its first increment. Inserting the number 0 instead would work on few stores.
                (Body::Counter, _) => OpKind::Counter,
                (_, 1) => OpKind::Insert,
                _ => OpKind::BulkInsert,
            };
            let batch = if kind == OpKind::BulkInsert { batch } else { 1 };
            Ok(Recipe {
                label: Label { name: name.clone(), kind, collection, batch },
                weight: 1.0,
                draw: Draw::Documents,
                checkable: false,
                ask: if kind == OpKind::Counter { Ask::Count(0) } else { Ask::Document },
            })
        };
        self.phase.load.iter().map(recipe).collect()
    }

    fn trace(&self) -> Result<Vec<Recipe>, String> {
        let Self { study, phase, .. } = *self;
        let named = phase.collection.as_deref().or_else(|| study.collections.keys().next().map(String::as_str));
        let name = named.ok_or("the study has no collection")?;
        let collection = self.collection(name)?;
        let documents = self.catalog.get(collection);
        let trace = documents.trace().ok_or_else(|| format!("`{name}` does not have the keys of the trace"))?;
        let kinds = trace.kinds();
        if let Some(kind) = kinds.iter().find(|kind| kind.writes()) {
            if documents.is_existing() {
                return Err(format!(
                    "the trace has `{kind}`, but a study only reads documents that Storebench did not make; leave the \
                     writes out of the trace, or copy the documents into a collection of the study's own"
                ));
            }
            let changes = kinds.iter().find(|kind| matches!(kind, OpKind::Insert | OpKind::Delete));
            let at = study.phases.iter().position(|other| std::ptr::eq(other, phase) || other.name == phase.name);
            let earlier = &study.phases[..at.unwrap_or(0)];
            if let (Some(kind), Some(first)) = (changes, earlier.iter().find(|other| other.trace == phase.trace)) {
                return Err(format!(
                    "the trace has `{kind}`, and `{}` has replayed it already, so it would find other documents the second \
                     time; remove one of the two phases, or use `repeats`",
                    first.name
                ));
            }
            if let Some(kind) = changes
                && study.database == Database::Kept
            {
                return Err(format!(
                    "the trace has `{kind}`, but with database = \"kept\" other trials measure what this phase leaves; use \
                     database = \"fresh\""
                ));
            }
        }
        let checkable = self.is_repeatable(documents, name);
        let recipe = |kind: OpKind| Recipe {
            label: Label { name: kind.name().to_owned(), kind, collection, batch: 1 },
            weight: 1.0,
            draw: Draw::Documents,
            checkable,
            ask: Ask::Document,
        };
        Ok(kinds.into_iter().map(recipe).collect())
    }

    /// The recipes of the mix, and those of the steps of its transactions.
    fn mix(&self) -> Result<(Vec<Recipe>, Vec<Recipe>), String> {
        let mix: Vec<_> = self.phase.mix.iter().filter(|(_, entry)| !entry.is_left_out_on(self.can.language)).collect();
        if mix.is_empty() {
            return Err(
                "every operation is left out on this store; give one of its queries a text for it, or remove `not_on`"
                    .into(),
            );
        }
        let (mut recipes, mut all_steps) = (Vec::new(), Vec::new());
        for (name, entry) in mix {
            let mut made = self.operation(Operation { name, entry, within: None }, name.clone())?;
            if made.label.kind == OpKind::Transaction {
                let first = all_steps.len();
                for (step, of) in &entry.steps {
                    let within = Some((name.as_str(), entry));
                    let operation = Operation { name: step, entry: of, within };
                    all_steps.push(self.operation(operation, format!("{name}.steps.{step}"))?);
                }
                made.ask = Ask::Transaction(Transaction {
                    steps: first..all_steps.len(),
                    same_as: entry
                        .steps
                        .values()
                        .map(|step| step.same_as.as_ref().and_then(|same| entry.steps.get_index_of(same.as_str())))
                        .collect(),
                    rollback: entry.rollback,
                });
                let read = |step: &Recipe| step.label.kind == OpKind::Read && step.checkable;
                made.checkable = all_steps[first..].iter().any(read);
            }
            recipes.push(made);
        }
        Ok((recipes, all_steps))
    }

    /// The recipe of an operation of a mix or a step. `name` is its name in the result and in errors.
    fn operation(&self, operation: Operation<'_>, name: String) -> Result<Recipe, String> {
        let entry = operation.entry;
        let kind = operation.kind().ok_or_else(|| format!("unknown operation `{name}`, or it has no bulk form"))?;
        let collection_name = operation
            .collection(self.study, self.phase)
            .ok_or_else(|| format!("`{name}` has no collection; set `collection`"))?;
        let collection = self.collection(collection_name)?;
        let documents = self.catalog.get(collection);
        if let (OpKind::View, Some(field)) = (kind, &entry.field)
            && !documents.knows_value(field)
        {
            return Err(format!(
                "`{name}` selects rows by `{field}`, but documents of `{collection_name}` have no such field, or its value \
                 changes between versions; name an existing field, and index it so that its value stays: index = \
                 [[\"{field}\"]]"
            ));
        }
        Ok(Recipe {
            weight: entry.weight,
            draw: entry.draw,
            ask: match kind {
                OpKind::Query => Ask::Query(AskedQuery::of(&name, entry, documents, self.study.seed, self.can)?),
                _ => Ask::of(kind, entry),
            },
            // A row of a query may have the marker of a document and differ from it.
            checkable: kind != OpKind::Query
                && documents.body() != Body::Counter
                && self.is_repeatable(documents, collection_name),
            label: Label { name, kind, collection, batch: entry.batch.unwrap_or(1) },
        })
    }
}
