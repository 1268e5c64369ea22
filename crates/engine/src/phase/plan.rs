//! A phase with every default filled in and every guarantee checked against the store.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::first_version;
use crate::measure::Label;
use crate::store::{Capabilities, OpKind, PhaseStart, SessionOptions, StoreError};
use storebench_documents::Catalog;
use storebench_documents::schedule::Rate;
use storebench_documents::trace::Trace;
use storebench_study::Part;
use storebench_study::workload::{ArrivalSpec, Draw, Phase, PhaseKind, Speed, Streams, Study};

use super::answers::ComparedAnswers;
use super::clock::RealClock;
use super::copies::CopyPlan;
use super::fit::lacks_of_phase;
use super::followed::Followed;
use super::guarantees::Guarantees;
use super::recipes::{Ask, Recipe, Transaction, recipes};

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
    pub rate: Option<(Rate, ArrivalSpec)>,
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
        if let Some(lack) = lacks_of_phase(phase, capabilities).into_iter().next() {
            return Err(lack.refusal());
        }
        let amount = match (phase.kind(), phase.duration, phase.operations) {
            (Some(PhaseKind::Rest), ..) => Amount::Operations(0),
            (Some(PhaseKind::Load(_)), ..) => Amount::Load,
            (Some(PhaseKind::Mix(_)), Some(for_so_long), _) => Amount::Duration(for_so_long.ns()),
            (Some(PhaseKind::Mix(_)), None, Some(n)) => Amount::Operations(n.0),
            (Some(PhaseKind::Mix(_)), None, None) => {
                return Err(refused(phase, "it has neither `duration` nor `operations`; set one of them"));
            }
            (Some(PhaseKind::Trace(_)), ..) => Amount::Trace,
            (Some(PhaseKind::Copy(_)) | None, ..) => return Err(refused(phase, "it runs no operations")),
        };
        let (recipes, steps) = recipes(study, phase, catalog, capabilities).map_err(|why| refused(phase, why))?;
        let guarantees = Guarantees::resolve(phase, capabilities)?;
        let recorded =
            |recipe: &Recipe| catalog.get(recipe.label.collection).trace().is_some_and(|trace| trace.has_bodies());
        if phase.consistency_check.is_done() && recipes.iter().any(recorded) {
            return Err(refused(
                phase,
                "a trace writes recorded documents, whose versions are not known; remove `consistency_check`, or leave \
                 `body` out of the trace",
            ));
        }
        for recipe in &recipes {
            if capabilities.supports(recipe.label.kind).is_none() {
                return Err(refused(phase, format!("this store {}", capabilities.lacks(recipe.label.kind))));
            }
        }
        let rate = Rate::of(phase);
        if let Some(Err(error)) = rate.as_ref().map(Rate::check) {
            return Err(refused(phase, error));
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
            rate: rate.map(|rate| (rate, phase.arrival)),
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
            let one_at_a_time = plan.workers == 1 && plan.connections == 1 && plan.in_flight == 1;
            let compared = ComparedAnswers::of(trace, one_at_a_time, capabilities.own_members);
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
            let too_few = |count: u64, of: &str, what: &str| {
                let (name, workers) = (documents.name(), self.workers);
                let why = format!("`{name}` has {of}{count} {what}, too few to give each of {workers} workers a share");
                refused(self, format!("{why}; use more {what} or fewer workers"))
            };
            if recipe.draw == Draw::Parents && documents.parents() < least {
                return Err(too_few(documents.parents(), "documents of ", "parents"));
            }
            if documents.count() < least && (sampled || !documents.is_existing()) {
                return Err(too_few(documents.count(), "", "documents"));
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
                    let why = format!(
                        "the steps of `{}` draw different documents, so {} workers need {needed} of `{}`, which has {}; \
                         use more documents or fewer workers",
                        recipe.label.name,
                        self.workers,
                        documents.name(),
                        documents.count()
                    );
                    return Err(refused(self, why));
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
            return Err(refused(
                &self,
                "the consistency check needs all operations on one clock, and each part has its own; remove \
                 `consistency_check`, or run the study without --part",
            ));
        }
        if self.compare_answers && !part.is_whole() {
            return Err(refused(
                &self,
                "one part does not see all answers, so it cannot compare them; remove `compare_answers`, or run the study \
                 without --part",
            ));
        }
        if !part.is_whole()
            && let Some((name, _)) = self.mix.iter().find(|(_, entry)| entry.same_on.is_some())
        {
            let why = format!(
                "one part does not know when all documents are loaded, so it cannot compare answers; remove `same_on` of \
                 `{name}`, or run the study without --part"
            );
            return Err(refused(&self, why));
        }
        if self.workers.is_multiple_of(part.of) || self.recipes.is_empty() {
            return Ok(Self { part, ..self });
        }
        let why = format!(
            "{0} workers cannot be shared equally by {1} parts; `workers` counts all parts together, so set it to a \
             multiple of {1}: --set phases.{2}.workers={3}",
            self.workers,
            part.of,
            self.name,
            self.workers.next_multiple_of(part.of)
        );
        Err(refused(&self, why))
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
                    // A study may name any number.
                    .fold(0, u64::saturating_add),
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

/// The error of a phase that cannot run on a store as it is.
pub(super) fn refused(phase: &Phase, why: impl fmt::Display) -> StoreError {
    StoreError::NotSupported(format!("phase `{}`: {why}", phase.name))
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
