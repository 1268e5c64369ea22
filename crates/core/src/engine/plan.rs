//! A phase with every default filled in and every promise checked against the store.

use std::sync::Arc;

use crate::documents::Catalog;
use crate::ledger::first_version;
use crate::measure::Label;
use crate::schedule::{Arrival, Rate};
use crate::store::{Capabilities, Durability, OpKind, ReadConsistency, StoreError, ViewRows};
use crate::workload::{
    ArrivalSpec, Body, Draw, MixEntry, OnDisconnect, OpName, Pacing, Phase, Popularity, RateSpec, Retry, Streams,
    Study, collection_of,
};

use super::copies::{CopyPlan, copy_of};

/// Documents in one bulk operation of a load, where the study does not say.
pub const DEFAULT_LOAD_BATCH: u32 = 1_000;

/// What one label of a mix needs to make its operations.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// What it is in the result.
    pub label: Label,
    /// How often, relative to the others of the mix.
    pub weight: f64,
    /// `page`: the indexed field; `view`: the field that is its key, where one is asked for by it.
    pub field: String,
    /// Whether documents are drawn, or parents that have any.
    pub draw: Draw,
    /// `page`, `prefix`, `scan`, `view`: at most so many documents.
    pub limit: u32,
    /// `prefix`: the placeholder the key is cut before; none for the last one.
    pub upto: Option<String>,
    /// `append`, `prepend`: bytes added.
    pub size_bytes: u64,
    /// `counter`: what is added.
    pub delta: i64,
    /// `touch`: how long the document lives from then on, in ns.
    pub expiry_ns: u64,
    /// `view`: `design/view`.
    pub view: String,
    /// `view`: which rows, where no field tells.
    pub rows: Rows,
    /// Whether what is read can be compared with what it should be: nothing in the study changes
    /// these documents in a way that a generator cannot repeat.
    pub checkable: bool,
}

/// Rows of a view that a study asks for; JSON texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// All.
    All,
    /// Those with one of the keys of this array.
    Keys(String),
    /// From the first to the second key, both included.
    Range(Option<String>, Option<String>),
}

impl Rows {
    fn of(entry: &MixEntry) -> Self {
        let text = |value: &serde_json::Value| value.to_string();
        match (&entry.keys, &entry.start, &entry.end) {
            (Some(keys), ..) => Self::Keys(serde_json::Value::from(keys.clone()).to_string()),
            (None, None, None) => Self::All,
            (None, start, end) => Self::Range(start.as_ref().map(text), end.as_ref().map(text)),
        }
    }

    /// As a store is asked for them.
    pub fn asked(&self) -> ViewRows<'_> {
        match self {
            Self::All => ViewRows::All,
            Self::Keys(keys) => ViewRows::Keys(keys),
            Self::Range(start, end) => ViewRows::Range { start: start.as_deref(), end: end.as_deref() },
        }
    }
}

/// How much a phase does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Every document of the collections, once.
    Load,
    /// So many operations over all workers.
    Operations(u64),
    /// As many as fit into this time, in ns.
    Duration(u64),
    /// Every document of a collection, once, between store and files. The engine runs no such phase.
    Copy,
}

/// A phase as it will run on one store.
#[derive(Debug, Clone)]
pub struct PhasePlan {
    /// The phase's name.
    pub name: String,
    /// Its position in the study: part of the seed of what it draws.
    pub number: u64,
    /// Versions that its writes carry are above this one.
    pub versions_above: u64,
    /// Whether it only warms up.
    pub warm_up: bool,
    /// What it does. Loads have one recipe for each collection, copies one.
    pub recipes: Vec<Recipe>,
    /// What it copies, where it does.
    pub copy: Option<CopyPlan>,
    /// How much.
    pub amount: Amount,
    /// Which keys are asked for more often.
    pub popularity: Popularity,
    /// Whether workers share the key space.
    pub streams: Streams,
    /// Threads.
    pub workers: u32,
    /// Connections of each worker.
    pub connections: u32,
    /// Operations in flight on each connection.
    pub in_flight: u32,
    /// Open loop: when operations are due.
    pub rate: Option<(Rate, Arrival)>,
    /// How workers wait.
    pub pacing: Pacing,
    /// Closed loop: pause between operations, in ns.
    pub think_ns: u64,
    /// What acknowledged writes survive.
    pub durability: Durability,
    /// What the store sets for it, in its own words.
    pub durability_means: &'static str,
    /// How fresh reads are.
    pub consistency: ReadConsistency,
    /// How long one try may take, in ns.
    pub timeout_ns: u64,
    /// What follows a temporary failure.
    pub retry: Retry,
    /// What a lost connection does to the phase.
    pub on_disconnect: OnDisconnect,
    /// How long operations that were due are still sent and awaited after the end, in ns.
    pub drain_ns: u64,
    /// Share of the reads whose contents are compared.
    pub check: f64,
    /// Whether acknowledged versions are kept and read back.
    pub ledger: bool,
}

impl PhasePlan {
    /// Fills in what the study leaves open and refuses what the store cannot do.
    ///
    /// # Errors
    /// [`StoreError::NotSupported`], naming the phase, what cannot be done and what can.
    pub fn resolve(
        study: &Study,
        phase: &Phase,
        catalog: &Catalog,
        capabilities: &Capabilities,
    ) -> Result<Self, StoreError> {
        let refuse = |what: String| Err(StoreError::NotSupported(format!("phase `{}`: {what}", phase.name)));
        let copy = copy_of(study, phase, catalog, capabilities)
            .map_err(|what| StoreError::NotSupported(format!("phase `{}`: {what}", phase.name)))?;
        let recipes = match &copy {
            Some(copy) => Ok(vec![Recipe::plain(copy.label(phase.batch))]),
            None if phase.rests() => Ok(Vec::new()),
            None if phase.loads() => load_recipes(phase, catalog),
            None => mix_recipes(study, phase, catalog),
        }
        .map_err(|what| StoreError::NotSupported(format!("phase `{}`: {what}", phase.name)))?;
        // A copy was looked at as a whole: some stores give it rows by other means than operations.
        for recipe in recipes.iter().filter(|_| copy.is_none()) {
            let kind = recipe.label.kind;
            if capabilities.supports(kind).is_none() {
                let can: Vec<_> = capabilities.operations.iter().map(|(k, _)| k.name()).collect();
                return refuse(format!(
                    "this store cannot do `{kind}` (asked for by `{}`); it can do: {}",
                    recipe.label.name,
                    can.join(", ")
                ));
            }
            if kind == OpKind::CompareAndSwap && capabilities.supports(OpKind::Read).is_none() {
                return refuse("compare-and-swap needs read, which this store cannot do".into());
            }
        }
        if !capabilities.indexes && study.collections.values().any(|c| !c.index.is_empty()) {
            return refuse("the study asks for a secondary index, which this store cannot make; remove `index`".into());
        }
        let promised = |d: Durability| capabilities.promises(d).map(|means| (d, means));
        let (durability, durability_means) = match phase.durability {
            Some(d) => match promised(d) {
                Some(found) => found,
                None => {
                    let can: Vec<_> = capabilities.durability.iter().map(|(d, _)| d.to_string()).collect();
                    return refuse(format!("this store cannot promise durability `{d}`; it can: {}", can.join("; ")));
                }
            },
            None => match capabilities.default_durability() {
                Some(found) => found,
                None => return refuse("this store declares no durability at all".into()),
            },
        };
        let consistency = match phase.consistency {
            Some(c) if capabilities.consistency.iter().any(|(have, _)| *have == c) => c,
            Some(c) => {
                let can: Vec<_> = capabilities.consistency.iter().map(|(c, _)| c.to_string()).collect();
                return refuse(format!("this store cannot promise `{c}` reads; it can: {}", can.join(", ")));
            }
            None => capabilities.default_consistency(),
        };
        let amount = match (phase.loads(), phase.duration, phase.operations) {
            _ if copy.is_some() => Amount::Copy,
            _ if phase.rests() => Amount::Operations(0),
            (true, ..) => Amount::Load,
            (_, Some(duration), _) => Amount::Duration(duration.ns()),
            (_, None, Some(operations)) => Amount::Operations(operations.0),
            (_, None, None) => return refuse("it has neither `duration` nor `operations`".into()),
        };
        let rate = phase.rate.as_ref().map(|spec| {
            let rate = match spec {
                RateSpec::Constant(per_s) => Rate::Constant(*per_s),
                RateSpec::Ramp(from, to) => {
                    Rate::Ramp { from: *from, to: *to, over_ns: phase.duration.unwrap_or_default().ns() }
                }
                RateSpec::Steps { steps, each } => Rate::Steps(steps.iter().map(|r| (each.ns(), *r)).collect()),
            };
            let arrival = match phase.arrival {
                ArrivalSpec::Constant => Arrival::Constant,
                ArrivalSpec::Poisson => Arrival::Poisson,
            };
            (rate, arrival)
        });
        if let Some((rate, _)) = &rate
            && let Err(e) = rate.check()
        {
            return refuse(e.to_string());
        }
        let number = study.phases.iter().position(|p| p.name == phase.name).unwrap_or(0) as u64;
        let plan = Self {
            name: phase.name.clone(),
            number,
            versions_above: first_version(number),
            // Nothing of it is a figure of operations.
            warm_up: phase.warm_up || phase.rests(),
            recipes,
            copy,
            amount,
            popularity: phase.popularity,
            streams: phase.streams,
            workers: phase.copy.map_or(phase.workers, |_| phase.copy_tasks()),
            connections: phase.connections,
            in_flight: phase.in_flight,
            rate,
            pacing: phase.pacing,
            think_ns: phase.think.unwrap_or_default().ns(),
            durability,
            durability_means,
            consistency,
            timeout_ns: phase.timeout.ns(),
            retry: phase.retry,
            on_disconnect: phase.on_disconnect,
            drain_ns: phase.drain.ns(),
            check: phase.check,
            ledger: phase.ledger.is_kept(),
        };
        plan.has_documents(catalog, false)?;
        Ok(plan)
    }

    /// Refuses collections with too few documents to ask for. Documents that are in a store already are
    /// unknown until their keys were `sampled`.
    ///
    /// # Errors
    /// [`StoreError::NotSupported`], naming the phase and the collection.
    pub fn has_documents(&self, catalog: &Catalog, sampled: bool) -> Result<(), StoreError> {
        if matches!(self.amount, Amount::Load | Amount::Copy) {
            return Ok(());
        }
        let least = if self.streams == Streams::Disjoint { u64::from(self.workers) } else { 1 };
        for recipe in self.recipes.iter().filter(|r| !r.label.kind.inserts()) {
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

    /// What the phase's operations are called, in the order of a recorder's tallies.
    pub fn labels(&self) -> Vec<Label> {
        self.recipes.iter().map(|r| r.label.clone()).collect()
    }

    /// Operations over all workers, where it is known before the phase runs.
    pub fn operations(&self, catalog: &Catalog) -> Option<u64> {
        match (self.amount, &self.rate) {
            (Amount::Load, _) => Some(
                self.recipes
                    .iter()
                    .map(|r| catalog.get(r.label.collection).count().div_ceil(u64::from(r.label.batch)))
                    .sum(),
            ),
            (Amount::Operations(n), _) => Some(n),
            (Amount::Duration(ns), Some((rate, _))) => Some(rate.expected(ns).round() as u64),
            (Amount::Duration(_), None) | (Amount::Copy, _) => None,
        }
    }

    /// How long it sends, in ns, where it is known before the phase runs.
    pub fn duration_ns(&self) -> Option<u64> {
        match self.amount {
            Amount::Duration(ns) => Some(ns),
            _ => None,
        }
    }
}

fn load_recipes(phase: &Phase, catalog: &Catalog) -> Result<Vec<Recipe>, String> {
    let batch = phase.batch.unwrap_or(DEFAULT_LOAD_BATCH);
    phase
        .load
        .iter()
        .map(|name| {
            let collection = catalog.find(name).ok_or_else(|| format!("there is no collection `{name}`"))?;
            let kind = match (catalog.get(collection).body(), batch) {
                // Counters begin with their first increment; an insert of the number 0 would do the
                // same on few stores only.
                (Body::Counter, _) => OpKind::Counter,
                (_, 1) => OpKind::Insert,
                _ => OpKind::BulkInsert,
            };
            let batch = if kind == OpKind::BulkInsert { batch } else { 1 };
            Ok(Recipe::plain(Label { name: name.clone(), kind, collection, batch }))
        })
        .collect()
}

impl Recipe {
    fn plain(label: Label) -> Self {
        Self {
            label,
            weight: 1.0,
            field: String::new(),
            draw: Draw::Documents,
            limit: 10,
            upto: None,
            size_bytes: 16,
            delta: 0,
            expiry_ns: 3_600_000_000_000,
            view: String::new(),
            rows: Rows::All,
            checkable: false,
        }
    }
}

fn mix_recipes(study: &Study, phase: &Phase, catalog: &Catalog) -> Result<Vec<Recipe>, String> {
    phase
        .mix
        .iter()
        .map(|(name, entry)| {
            let op = entry.op.or_else(|| OpName::find(name)).ok_or_else(|| format!("`{name}` is no operation"))?;
            let kind = op.kind(entry.batch.is_some()).ok_or_else(|| format!("`{name}` has no bulk form"))?;
            let collection_name =
                collection_of(study, phase, name).ok_or_else(|| format!("`{name}` does not say its collection"))?;
            let collection =
                catalog.find(collection_name).ok_or_else(|| format!("there is no collection `{collection_name}`"))?;
            if let (OpKind::View, Some(field)) = (kind, &entry.field)
                && !catalog.get(collection).knows_value(field)
            {
                return Err(format!(
                    "`{name}` asks for rows by `{field}`, whose value no version of a document of \
                     `{collection_name}` keeps; name a field that is there, and index it so that it stays: \
                     index = [[\"{field}\"]]"
                ));
            }
            let done = |kinds: &[OpKind]| changes(study, collection_name, kinds);
            Ok(Recipe {
                label: Label { name: name.clone(), kind, collection, batch: entry.batch.unwrap_or(1) },
                weight: entry.weight,
                field: entry.field.clone().unwrap_or_default(),
                draw: entry.draw,
                limit: entry.limit.unwrap_or(10),
                upto: entry.upto.clone(),
                size_bytes: entry.size.map_or(16, |s| s.0),
                delta: entry.delta.unwrap_or(1),
                expiry_ns: entry.expiry.map_or(3_600_000_000_000, |e| e.ns()),
                view: entry.view.clone().unwrap_or_default(),
                rows: Rows::of(entry),
                checkable: catalog.get(collection).body() != Body::Counter
                    && !catalog.get(collection).is_existing()
                    && !done(&[OpKind::Append, OpKind::Prepend, OpKind::MergePatch]),
            })
        })
        .collect()
}

/// Whether any phase of the study does one of these to a collection.
fn changes(study: &Study, collection: &str, kinds: &[OpKind]) -> bool {
    study.phases.iter().any(|phase| {
        phase.mix.iter().any(|(name, entry)| {
            let kind = entry.op.or_else(|| OpName::find(name)).and_then(|op| op.kind(entry.batch.is_some()));
            kind.is_some_and(|k| kinds.contains(&k)) && collection_of(study, phase, name) == Some(collection)
        })
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
    /// What is known of this worker's keys, if a ledger is kept.
    pub ledger: Option<crate::ledger::Ledger>,
    /// Length of an interval, in ns.
    pub interval_ns: u64,
    /// Where it meets the others: how the phase begins, and where snapshots go.
    pub team: super::team::Member,
}
