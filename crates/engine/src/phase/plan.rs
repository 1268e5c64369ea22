//! A phase with every default filled in and every guarantee checked against the store.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::first_version;
use crate::measure::Label;
use crate::store::{Capabilities, OpKind, PhaseStart, SessionOptions, StoreError, ViewRows};
use storebench_documents::Catalog;
use storebench_documents::schedule::{Arrival, Rate};
use storebench_documents::trace::Trace;
use storebench_study::Part;
use storebench_study::workload::{
    ArrivalSpec, Body, Draw, MixEntry, Operation, Phase, PhaseKind, RowCount, Speed, Streams, Study, does,
};

use super::answers::ComparedAnswers;
use super::clock::RealClock;
use super::copies::CopyPlan;
use super::fit::lacks_of_phase;
use super::followed::Followed;
use super::guarantees::Guarantees;
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
    /// Their positions in [`PhasePlan::steps`].
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

/// How much a phase does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Every document of the collections, once.
    Load,
    /// This many operations over all workers.
    Operations(u64),
    /// As many as fit into this time, in ns.
    Duration(u64),
    /// Every operation of a trace, once.
    Trace,
}

/// A phase of a study, resolved for one store.
#[derive(Debug, Clone)]
pub enum ResolvedPhase {
    /// Operations, which the engine runs. A phase that rests has none.
    Operations(PhasePlan),
    /// A copy, which the engine does not run.
    Copy(CopyPlan),
}

impl ResolvedPhase {
    /// Fills in defaults and refuses what the store cannot do.
    ///
    /// # Errors
    /// [`StoreError::NotSupported`], naming the phase, what the store cannot do and what it can.
    pub fn of(study: &Study, phase: &Phase, catalog: &Catalog, can: &Capabilities) -> Result<Self, StoreError> {
        match phase.copy {
            Some(direction) => CopyPlan::resolve(study, phase, direction, catalog, can).map(Self::Copy),
            None => PhasePlan::resolve(study, phase, catalog, can).map(Self::Operations),
        }
    }

    /// Its operations, unless it is a copy.
    pub fn operations(&self) -> Option<&PhasePlan> {
        match self {
            Self::Operations(plan) => Some(plan),
            Self::Copy(_) => None,
        }
    }

    /// Its copy, if it is one.
    pub fn copy(&self) -> Option<&CopyPlan> {
        match self {
            Self::Copy(plan) => Some(plan),
            Self::Operations(_) => None,
        }
    }

    /// What the store guarantees it.
    pub fn guarantees(&self) -> Guarantees {
        match self {
            Self::Operations(plan) => plan.guarantees,
            Self::Copy(plan) => plan.guarantees,
        }
    }
}

/// The operations of a phase as they will run on one store: the phase, with its defaults filled in.
#[derive(Debug, Clone)]
pub struct PhasePlan {
    /// The phase. A phase that rests is marked as a warm-up, because it has no operations to report.
    pub phase: Phase,
    /// Its position in the study, which is part of the seed of its draws.
    pub number: u64,
    /// Versions that its writes carry are above this one.
    pub versions_above: u64,
    /// What it does. Loads have one recipe for each collection.
    pub recipes: Vec<Recipe>,
    /// The steps of its transactions. They have no figures of their own.
    pub steps: Vec<Recipe>,
    /// How much it does.
    pub amount: Amount,
    /// Open loop: when operations are scheduled.
    pub rate: Option<(Rate, Arrival)>,
    /// The recorded traffic that it replays, and how fast.
    pub trace: Option<(Arc<Trace>, Speed)>,
    /// Closed loop: pause between operations, in ns.
    pub think_ns: u64,
    /// What the store guarantees it.
    pub guarantees: Guarantees,
    /// How long one try may take, in ns.
    pub timeout_ns: u64,
    /// How long after the end scheduled operations are still sent and awaited, in ns.
    pub drain_ns: u64,
    /// Whether acknowledged versions are recorded and read back.
    pub ledger: bool,
    /// For a trace whose answers are compared between stores: which of them.
    pub answers: Option<Arc<ComparedAnswers>>,
    /// The documents whose operations are recorded, set when the phase begins.
    pub followed: Option<Arc<Followed>>,
    /// The processors that the workers of this process are pinned to, in their order. None if they are not pinned.
    pub processors: Vec<u32>,
    /// The part of it that this process runs. Everything else here is about all parts together.
    pub part: Part,
}

impl Deref for PhasePlan {
    type Target = Phase;

    fn deref(&self) -> &Phase {
        &self.phase
    }
}

impl PhasePlan {
    /// What its sessions are opened with. `phase_start` is not shared: a worker of a measured phase sets its team's.
    pub fn session_options(&self, clock: &RealClock) -> SessionOptions {
        SessionOptions {
            durability: self.guarantees.durability,
            consistency: self.guarantees.consistency,
            timeout: Duration::from_nanos(self.timeout_ns),
            in_flight: self.in_flight,
            clock: Arc::new(clock.clone()),
            phase_start: PhaseStart::new(),
        }
    }

    /// Fills in defaults and refuses what the store cannot do. For a phase that copies, use [`ResolvedPhase::of`].
    ///
    /// # Errors
    /// [`StoreError::NotSupported`], naming the phase, what the store cannot do and what it can.
    pub fn resolve(
        study: &Study,
        phase: &Phase,
        catalog: &Catalog,
        capabilities: &Capabilities,
    ) -> Result<Self, StoreError> {
        let refused = |what: String| StoreError::NotSupported(format!("phase `{}`: {what}", phase.name));
        let refuse = |what: String| Err(refused(what));
        if let Some(lack) = lacks_of_phase(phase, capabilities).into_iter().next() {
            return Err(lack.refusal());
        }
        let none = |recipes| (recipes, Vec::new());
        let (recipes, amount) = match (phase.kind(), phase.duration, phase.operations) {
            (Some(PhaseKind::Rest), ..) => (Ok(none(Vec::new())), Amount::Operations(0)),
            (Some(PhaseKind::Load(_)), ..) => (load_recipes(phase, catalog).map(none), Amount::Load),
            (Some(PhaseKind::Mix(_)), Some(for_so_long), _) => {
                (mix_recipes(study, phase, catalog, capabilities), Amount::Duration(for_so_long.ns()))
            }
            (Some(PhaseKind::Mix(_)), None, Some(n)) => {
                (mix_recipes(study, phase, catalog, capabilities), Amount::Operations(n.0))
            }
            (Some(PhaseKind::Mix(_)), None, None) => {
                return refuse("it has neither `duration` nor `operations`; set one of them".into());
            }
            (Some(PhaseKind::Trace(_)), ..) => (trace_recipes(study, phase, catalog).map(none), Amount::Trace),
            (Some(PhaseKind::Copy(_)) | None, ..) => return refuse("it runs no operations".into()),
        };
        let (recipes, steps) = recipes.map_err(refused)?;
        let guarantees = Guarantees::resolve(phase, capabilities)?;
        let recorded =
            |recipe: &Recipe| catalog.get(recipe.label.collection).trace().is_some_and(|trace| trace.has_bodies());
        if phase.consistency_check.is_done() && recipes.iter().any(recorded) {
            return refuse(
                "a trace writes recorded documents, whose versions are not known; remove `consistency_check`, or leave \
                 `body` out of the trace"
                    .into(),
            );
        }
        for recipe in &recipes {
            if capabilities.supports(recipe.label.kind).is_none() {
                return refuse(format!("this store {}", capabilities.lacks(recipe.label.kind)));
            }
        }
        let arrival = match phase.arrival {
            ArrivalSpec::Constant => Arrival::Constant,
            ArrivalSpec::Poisson => Arrival::Poisson,
        };
        let rate = Rate::of(phase);
        if let Some(Err(error)) = rate.as_ref().map(Rate::check) {
            return refuse(error.to_string());
        }
        let number = study.phases.iter().position(|p| p.name == phase.name).unwrap_or(0) as u64;
        let trace = match (amount, recipes.first()) {
            (Amount::Trace, Some(recipe)) => catalog.get(recipe.label.collection).trace().cloned(),
            _ => None,
        };
        let mut plan = Self {
            phase: Phase { warm_up: phase.warm_up || phase.rests(), ..phase.clone() },
            number,
            versions_above: first_version(number),
            recipes,
            steps,
            amount,
            rate: rate.map(|rate| (rate, arrival)),
            trace: trace.map(|trace| (trace, phase.speed.unwrap_or(Speed::Times(1.0)))),
            think_ns: phase.think.unwrap_or_default().ns(),
            guarantees,
            timeout_ns: phase.timeout.ns(),
            drain_ns: phase.drain.ns(),
            ledger: phase.ledger.is_kept(),
            answers: None,
            followed: None,
            processors: Vec::new(),
            part: Part::WHOLE,
        };
        if let Some((trace, _)) = plan.trace.as_ref().filter(|_| phase.compare_answers) {
            let compared = ComparedAnswers::of(trace, plan.is_one_at_a_time(), capabilities.own_members);
            plan.answers = Some(Arc::new(compared));
        }
        plan.has_documents(catalog, false)?;
        Ok(plan)
    }

    /// Refuses collections with too few documents. How many documents a store already has is unknown until their keys
    /// were `sampled`.
    ///
    /// # Errors
    /// [`StoreError::NotSupported`], naming the phase and the collection.
    pub fn has_documents(&self, catalog: &Catalog, sampled: bool) -> Result<(), StoreError> {
        if matches!(self.amount, Amount::Load | Amount::Trace) {
            return Ok(());
        }
        let least = if self.streams == Streams::Disjoint { u64::from(self.workers) } else { 1 };
        self.have_documents_for_steps(catalog, sampled)?;
        let drawn = |r: &&Recipe| !r.label.kind.inserts() && r.label.kind != OpKind::Transaction;
        for recipe in self.recipes.iter().chain(&self.steps).filter(drawn) {
            let documents = catalog.get(recipe.label.collection);
            if recipe.draw == Draw::Parents && documents.parents() < least {
                return Err(StoreError::NotSupported(format!(
                    "phase `{}`: `{}` has documents of {} parents, too few to give each of {} workers a share; use more \
                     parents or fewer workers",
                    self.name,
                    documents.name(),
                    documents.parents(),
                    self.workers
                )));
            }
            if documents.count() < least && (sampled || !documents.is_existing()) {
                return Err(StoreError::NotSupported(format!(
                    "phase `{}`: `{}` has {} documents, too few to give each of {} workers a share; use more documents or \
                     fewer workers",
                    self.name,
                    documents.name(),
                    documents.count(),
                    self.workers
                )));
            }
        }
        Ok(())
    }

    /// Refuses collections with fewer documents than the steps of a transaction need, with a ledger.
    fn have_documents_for_steps(&self, catalog: &Catalog, sampled: bool) -> Result<(), StoreError> {
        for recipe in self.recipes.iter().filter(|_| self.ledger) {
            let Ask::Transaction(Transaction { steps, same_as, .. }) = &recipe.ask else { continue };
            let drawing = || {
                let steps = self.steps[steps.clone()].iter().zip(same_as);
                steps.filter(|(step, same_as)| same_as.is_none() && !step.label.kind.inserts())
            };
            for (step, _) in drawing() {
                let documents = catalog.get(step.label.collection);
                let same = drawing().filter(|(other, _)| other.label.collection == step.label.collection);
                let needed = same.count() as u64 * u64::from(self.workers);
                if documents.count() < needed && (sampled || !documents.is_existing()) {
                    return Err(StoreError::NotSupported(format!(
                        "phase `{}`: the steps of `{}` draw different documents, so {} workers need {needed} of `{}`, which \
                         has {}; use more documents or fewer workers",
                        self.name,
                        recipe.label.name,
                        self.workers,
                        documents.name(),
                        documents.count()
                    )));
                }
            }
        }
        Ok(())
    }

    /// The plan of one part of the run.
    ///
    /// # Errors
    /// [`StoreError::NotSupported`] if the parts cannot have equal shares of the workers. Each key must belong to the
    /// same part in every phase, and that is so if every number of workers is a multiple of the number of parts.
    pub fn of_part(self, part: Part) -> Result<Self, StoreError> {
        if self.consistency_check.is_done() && !part.is_whole() {
            return Err(StoreError::NotSupported(format!(
                "phase `{}`: the consistency check needs all operations on one clock, and each part has its own; remove \
                 `consistency_check`, or run the study without --part",
                self.name
            )));
        }
        if self.compare_answers && !part.is_whole() {
            return Err(StoreError::NotSupported(format!(
                "phase `{}`: one part does not see all answers, so it cannot compare them; remove `compare_answers`, or run \
                 the study without --part",
                self.name
            )));
        }
        if !part.is_whole()
            && let Some((name, _)) = self.mix.iter().find(|(_, entry)| entry.same_on.is_some())
        {
            return Err(StoreError::NotSupported(format!(
                "phase `{}`: one part does not know when all documents are loaded, so it cannot compare answers; remove \
                 `same_on` of `{name}`, or run the study without --part",
                self.name
            )));
        }
        if self.workers.is_multiple_of(part.of) || self.recipes.is_empty() {
            return Ok(Self { part, ..self });
        }
        Err(StoreError::NotSupported(format!(
            "phase `{0}`: {1} workers cannot be shared equally by {2} parts; `workers` counts all parts together, so set \
             it to a multiple of {2}: --set phases.{0}.workers={3}",
            self.name,
            self.workers,
            part.of,
            self.workers.next_multiple_of(part.of)
        )))
    }

    /// The recipe at a position: those of the mix, then those of the steps of its transactions.
    #[inline]
    pub fn recipe(&self, at: usize) -> &Recipe {
        self.recipes.get(at).unwrap_or_else(|| &self.steps[at - self.recipes.len()])
    }

    /// The position of the transaction that has the step at this position, if it is a step.
    pub fn of_step(&self, at: usize) -> Option<usize> {
        let step = at.checked_sub(self.recipes.len())?;
        self.recipes.iter().position(|recipe| match &recipe.ask {
            Ask::Transaction(transaction) => transaction.steps.contains(&step),
            _ => false,
        })
    }

    /// How many positions [`recipe`](Self::recipe) has.
    pub fn all_recipes(&self) -> usize {
        self.recipes.len() + self.steps.len()
    }

    /// What it does to documents: the recipes of the mix, with the steps of transactions instead of the transactions.
    pub fn acts(&self) -> impl Iterator<Item = &Recipe> {
        self.recipes.iter().filter(|recipe| recipe.label.kind != OpKind::Transaction).chain(&self.steps)
    }

    /// The labels of the phase's operations, in the order of a recorder's tallies.
    pub fn labels(&self) -> Vec<Label> {
        self.recipes.iter().map(|r| r.label.clone()).collect()
    }

    /// Operations over all workers, if known before the phase runs.
    pub fn operations(&self, catalog: &Catalog) -> Option<u64> {
        match (self.amount, &self.rate) {
            (Amount::Load, _) => Some(
                self.recipes
                    .iter()
                    .map(|r| catalog.get(r.label.collection).count().div_ceil(u64::from(r.label.batch)))
                    .sum(),
            ),
            (Amount::Operations(n), _) => Some(n),
            (Amount::Trace, _) => self.trace.as_ref().map(|(trace, _)| trace.ops().len() as u64),
            (Amount::Duration(ns), Some((rate, _))) => Some(rate.expected(ns).round() as u64),
            (Amount::Duration(_), None) => None,
        }
    }

    /// How long it sends, in ns, if known before the phase runs.
    pub fn duration_ns(&self) -> Option<u64> {
        match self.amount {
            Amount::Duration(ns) => Some(ns),
            _ => self.replay_ns(),
        }
    }

    /// From the first to the last operation of its trace as they are scheduled, in ns; `None` at full speed.
    pub(super) fn replay_ns(&self) -> Option<u64> {
        match &self.trace {
            Some((trace, Speed::Times(times))) => Some(super::replay::scheduled_ns(trace.span_ns(), *times)),
            _ => None,
        }
    }

    /// Whether operations are scheduled, whether or not earlier ones have ended.
    pub fn is_open_loop(&self) -> bool {
        self.rate.is_some() || self.replay_ns().is_some()
    }
}

fn load_recipes(phase: &Phase, catalog: &Catalog) -> Result<Vec<Recipe>, String> {
    let batch = phase.batch.unwrap_or(DEFAULT_LOAD_BATCH);
    phase
        .load
        .iter()
        .map(|name| {
            let collection = catalog.find(name).ok_or_else(|| format!("unknown collection `{name}`"))?;
            let kind = match (catalog.get(collection).body(), batch) {
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
        })
        .collect()
}

/// A recipe for each kind of operation of a trace.
fn trace_recipes(study: &Study, phase: &Phase, catalog: &Catalog) -> Result<Vec<Recipe>, String> {
    let named = phase.collection.as_deref().or_else(|| study.collections.keys().next().map(String::as_str));
    let name = named.ok_or("the study has no collection")?;
    let collection = catalog.find(name).ok_or_else(|| format!("unknown collection `{name}`"))?;
    let documents = catalog.get(collection);
    let trace = documents.trace().ok_or_else(|| format!("`{name}` does not have the keys of the trace"))?;
    let kinds = trace.kinds();
    if let Some(kind) = kinds.iter().find(|kind| kind.writes()) {
        if documents.is_existing() {
            return Err(format!(
                "the trace has `{kind}`, but a study only reads documents that Storebench did not make; leave the writes \
                 out of the trace, or copy the documents into a collection of the study's own"
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
            && study.database == storebench_study::workload::Database::Kept
        {
            return Err(format!(
                "the trace has `{kind}`, but with database = \"kept\" other trials measure what this phase leaves; use \
                 database = \"fresh\""
            ));
        }
    }
    let changes = [OpKind::Append, OpKind::Prepend, OpKind::MergePatch];
    let made = !documents.is_existing() && !trace.has_bodies() && !does(study, &study.phases, &changes, name);
    Ok(trace
        .kinds()
        .into_iter()
        .map(|kind| Recipe {
            label: Label { name: kind.name().to_owned(), kind, collection, batch: 1 },
            weight: 1.0,
            draw: Draw::Documents,
            checkable: made,
            ask: Ask::Document,
        })
        .collect())
}

/// The recipes of a mix, and those of the steps of its transactions.
fn mix_recipes(
    study: &Study,
    phase: &Phase,
    catalog: &Catalog,
    capabilities: &Capabilities,
) -> Result<(Vec<Recipe>, Vec<Recipe>), String> {
    let mix: Vec<_> = phase.mix.iter().filter(|(_, entry)| !entry.is_left_out_on(capabilities.language)).collect();
    if mix.is_empty() {
        return Err(
            "every operation is left out on this store; give one of its queries a text for it, or remove `not_on`"
                .into(),
        );
    }
    let recipe = |of: Operation<'_>, named: String| recipe_of(study, phase, catalog, capabilities, of, named);
    let (mut recipes, mut all_steps) = (Vec::new(), Vec::new());
    for (name, entry) in mix {
        let mut made = recipe(Operation { name, entry, within: None }, name.clone())?;
        if made.label.kind == OpKind::Transaction {
            let first = all_steps.len();
            for (step, of) in &entry.steps {
                let within = Some((name.as_str(), entry));
                all_steps.push(recipe(Operation { name: step, entry: of, within }, format!("{name}.steps.{step}"))?);
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
fn recipe_of(
    study: &Study,
    phase: &Phase,
    catalog: &Catalog,
    capabilities: &Capabilities,
    operation: Operation<'_>,
    name: String,
) -> Result<Recipe, String> {
    let entry = operation.entry;
    let kind = operation.kind().ok_or_else(|| format!("unknown operation `{name}`, or it has no bulk form"))?;
    let collection_name =
        operation.collection(study, phase).ok_or_else(|| format!("`{name}` has no collection; set `collection`"))?;
    let collection = catalog.find(collection_name).ok_or_else(|| format!("unknown collection `{collection_name}`"))?;
    if let (OpKind::View, Some(field)) = (kind, &entry.field)
        && !catalog.get(collection).knows_value(field)
    {
        return Err(format!(
            "`{name}` selects rows by `{field}`, but documents of `{collection_name}` have no such field, or its value \
             changes between versions; name an existing field, and index it so that its value stays: index = \
             [[\"{field}\"]]"
        ));
    }
    let changes = [OpKind::Append, OpKind::Prepend, OpKind::MergePatch];
    Ok(Recipe {
        weight: entry.weight,
        draw: entry.draw,
        ask: match kind {
            OpKind::Query => {
                Ask::Query(AskedQuery::of(&name, entry, catalog.get(collection), study.seed, capabilities)?)
            }
            _ => Ask::of(kind, entry),
        },
        // A row of a query may have the marker of a document and differ from it.
        checkable: kind != OpKind::Query
            && catalog.get(collection).body() != Body::Counter
            && !catalog.get(collection).is_existing()
            // A trace may have left recorded documents.
            && !catalog.get(collection).trace().is_some_and(|trace| trace.has_bodies())
            && !does(study, &study.phases, &changes, collection_name),
        label: Label { name, kind, collection, batch: entry.batch.unwrap_or(1) },
    })
}

/// One worker's part of a phase.
pub struct WorkerJob {
    /// The phase.
    pub plan: Arc<PhasePlan>,
    /// The documents.
    pub catalog: Arc<Catalog>,
    /// Number of this worker, from 0.
    pub worker: u32,
    /// The study's seed.
    pub seed: u64,
    /// New documents of earlier phases, by position of the collection: their numbers are taken.
    pub base: Vec<u64>,
    /// What is known about this worker's keys, if a ledger is kept.
    pub ledger: Option<crate::ledger::Ledger>,
    /// Length of an interval, in ns.
    pub interval_ns: u64,
    /// Its connection to the other workers: how the phase begins, and where snapshots go.
    pub team: super::team::Member,
}
