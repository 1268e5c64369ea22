//! Decides what a worker does next: a pure function of the study's seed, the worker, and the number of operations it has
//! made.

use std::sync::Arc;

use super::plan::{Amount, PhasePlan};
use super::recipes::Recipe;
use super::replay::Replay;
use super::steps::owned;
use crate::ledger::{Floor, KeyState, Ledger};
use crate::store::{BatchBuf, OpKind, Step};
use storebench_documents::Catalog;
use storebench_documents::keys::{Distinct, KeyError, KeyStream, Ownership, Rng, Seen};
use storebench_documents::trace::TraceOp;
use storebench_study::mix64;
use storebench_study::workload::{Draw, Popularity, Streams};

/// How many draws in a row may repeat keys of the batch. This limit is reached if the keys that are left get less than
/// about a tenth of the operations.
pub(super) const TRIES: u64 = 64;

/// One operation to do.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Task {
    /// Position of its recipe in the plan.
    pub recipe: usize,
    /// Index of its document, or of the first one of a load's batch.
    pub index: u64,
    /// Version that its writes carry.
    pub version: u64,
    /// Documents of its batch; 1 for single operations.
    pub documents: u32,
    /// Whether its result is compared with the expected document.
    pub check: bool,
    /// The number for values that are generated for this operation.
    pub number: u64,
    /// Whether it is a transaction that is rolled back.
    pub rolls_back: bool,
    /// Its position in the trace plus one; 0 if it belongs to none.
    pub recorded: u32,
}

/// What a task has beyond its first document.
#[derive(Debug, Default)]
pub(super) struct More {
    /// The documents of a batch that is not a run of neighbours.
    pub indexes: Vec<u64>,
    /// The steps of a transaction.
    pub steps: Vec<Task>,
}

impl More {
    fn clear(&mut self) {
        self.indexes.clear();
        self.steps.clear();
    }
}

impl Task {
    /// Indexes of its documents: the listed ones, or else a run of neighbours.
    pub(super) fn indexes<'a>(&self, listed: &'a [u64]) -> impl Iterator<Item = u64> + use<'a> {
        let run = if listed.is_empty() { self.index..self.index + u64::from(self.documents.max(1)) } else { 0..0 };
        run.chain(listed.iter().copied())
    }
}

/// The step of an operation that takes two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// The only request of the operation.
    #[default]
    Whole,
    /// Compare-and-swap: reads the revision.
    Look,
    /// Compare-and-swap: writes if the revision has not changed.
    Swap,
}

/// The part of a recipe that drawing needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Brief {
    pub(super) collection: usize,
    /// Documents of the collection when it is loaded.
    pub(super) count: u64,
    pub(super) batch: u32,
    pub(super) kind: OpKind,
    pub(super) writes: bool,
    /// Whether its document is written, by itself or by a later step of its transaction.
    pub(super) owns: bool,
    pub(super) inserts: bool,
    pub(super) checkable: bool,
    /// Parents that have documents, if parents are drawn instead of documents.
    pub(super) parents: Option<u64>,
}

/// Draws tasks and writes their requests into its own buffers.
pub(super) struct Maker {
    pub(super) plan: Arc<PhasePlan>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) worker: u64,
    pub(super) workers: u64,
    /// Part of the numbers for generated values.
    phase_seed: u64,
    rng: Rng,
    pub(super) briefs: Vec<Brief>,
    /// Cumulative weights of the recipes of the mix, up to 1.
    weights: Vec<f64>,
    latest: bool,
    streams: Vec<Option<KeyStream>>,
    ownership: Ownership,
    /// The keys of the current batch.
    seen: Seen,
    /// New documents of earlier phases, by position of the collection: their numbers are taken.
    base: Vec<u64>,
    /// Documents this worker has inserted, by position of the collection.
    inserted: Vec<u64>,
    /// Whether the last draw found no key, because every key that its write could use has an open write.
    pub exhausted: bool,
    /// The recipe of that write. Its key is drawn again.
    waiting: Option<usize>,
    /// The next batch of a load: recipe, and number of the batch in it.
    load: (usize, u64),
    pub(super) made: u64,
    distinct: Vec<Option<Box<Distinct>>>,
    pub(super) key: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) value: String,
    pub(super) batch: BatchBuf,
    /// The steps of a transaction, reused.
    pub(super) steps: Vec<Step>,
    /// The documents that its steps have drawn so far.
    pub(super) drawn: Vec<Option<u64>>,
    /// This worker's part of a trace, until the worker takes it. It is made before the phase begins.
    pub replay: Option<Replay>,
    /// What is acknowledged, and so must be found at the end.
    pub ledger: Option<Ledger>,
}

impl Maker {
    /// # Errors
    /// When a worker would own no key of a collection.
    pub(super) fn new(
        plan: Arc<PhasePlan>,
        catalog: Arc<Catalog>,
        worker: u32,
        seed: u64,
        base: Vec<u64>,
        ledger: Option<Ledger>,
    ) -> Result<Self, KeyError> {
        let (worker, workers) = (u64::from(worker), u64::from(plan.workers));
        let ownership = match plan.streams {
            Streams::Independent => Ownership::Independent,
            Streams::Disjoint => Ownership::Disjoint { worker, workers },
        };
        let phase_seed = mix64(seed, plan.number);
        let parents_of =
            |recipe: &Recipe| (recipe.draw == Draw::Parents).then(|| catalog.get(recipe.label.collection).parents());
        let all = || (0..plan.all_recipes()).map(|at| plan.recipe(at));
        let streams = all()
            .map(|recipe| {
                let draws_none = recipe.label.kind.inserts() || recipe.label.kind == OpKind::Transaction;
                if matches!(plan.amount, Amount::Load | Amount::Trace) || draws_none {
                    return Ok(None);
                }
                let collection = recipe.label.collection;
                let count = parents_of(recipe).unwrap_or_else(|| catalog.get(collection).count());
                // The popular keys of a collection are the same in every phase.
                KeyStream::new(plan.popularity, count, ownership, mix64(seed, collection as u64), worker).map(Some)
            })
            .collect::<Result<_, _>>()?;
        let owned = owned(&plan);
        let briefs = all()
            .enumerate()
            .map(|(at, r)| Brief {
                collection: r.label.collection,
                count: catalog.get(r.label.collection).count(),
                batch: r.label.batch,
                kind: r.label.kind,
                writes: r.label.kind.writes(),
                owns: owned[at],
                inserts: r.label.kind.inserts(),
                checkable: r.checkable && (!r.label.kind.writes() || r.label.kind == OpKind::Transaction),
                parents: parents_of(r),
            })
            .collect();
        let total: f64 = plan.recipes.iter().map(|r| r.weight).sum();
        let mut sum = 0.0;
        let weights = plan
            .recipes
            .iter()
            .map(|r| {
                sum += r.weight / total;
                sum
            })
            .collect();
        let collections = catalog.iter().count();
        let slots = plan.connections as usize * plan.in_flight as usize;
        let replay = plan
            .trace
            .as_ref()
            .map(|(trace, speed)| Replay::new(Arc::clone(trace), *speed, worker as u32, workers as u32, slots));
        Ok(Self {
            replay,
            worker,
            workers,
            phase_seed,
            rng: Rng::stream(phase_seed, worker),
            briefs,
            weights,
            latest: matches!(plan.popularity, Popularity::Latest(_)),
            streams,
            ownership,
            seen: Seen::default(),
            base,
            inserted: vec![0; collections],
            exhausted: false,
            waiting: None,
            load: (0, worker),
            made: 0,
            distinct: (0..collections).map(|_| None).collect(),
            key: Vec::with_capacity(256),
            body: Vec::with_capacity(4_096),
            value: String::new(),
            batch: BatchBuf::new(),
            steps: Vec::new(),
            drawn: Vec::new(),
            ledger,
            plan,
            catalog,
        })
    }

    /// The next operation. `None` when a load is done, and while a write has to wait for a key ([`Self::exhausted`]).
    #[inline]
    pub(super) fn next(&mut self, more: &mut More) -> Option<Task> {
        more.clear();
        let task = if self.plan.amount == Amount::Load {
            self.next_load()?
        } else {
            let at = self.next_recipe();
            let task = self.mixed(at, more);
            if task.is_none() {
                self.waiting = Some(at);
            }
            task?
        };
        self.made += 1;
        Some(task)
    }

    fn next_load(&mut self) -> Option<Task> {
        loop {
            let (at, number) = self.load;
            let recipe = self.plan.recipes.get(at)?;
            let count = self.catalog.get(recipe.label.collection).count();
            let batch = u64::from(recipe.label.batch);
            let batches = count.div_ceil(batch);
            if number >= batches {
                // The next collection continues where the last round of this one ended, so that all workers get equal
                // shares.
                self.load = (at + 1, number - batches);
                continue;
            }
            self.load.1 += self.workers;
            let index = number * batch;
            self.touch(recipe.label.collection, index, batch.min(count - index));
            return Some(Task { recipe: at, index, documents: batch.min(count - index) as u32, ..Task::default() });
        }
    }

    /// The recipe of a kind of operation.
    pub(super) fn recipe_of(&self, kind: OpKind) -> usize {
        self.briefs.iter().position(|brief| brief.kind == kind).unwrap_or(0)
    }

    /// The operation at a position of the trace.
    pub(super) fn recorded(&mut self, position: u32, op: &TraceOp) -> Task {
        let at = self.recipe_of(op.kind());
        let brief = self.briefs[at];
        let index = u64::from(op.key);
        self.touch(brief.collection, index, 1);
        let mut task = self.numbered(at, brief, index, &[]);
        task.check = brief.checkable && self.of_share(self.plan.check);
        task.recorded = position + 1;
        if task.version > 0 {
            // Whichever worker sends it, the document is the same.
            task.version = self.plan.versions_above + u64::from(task.recorded);
        }
        self.made += 1;
        task
    }

    /// One operation of a recipe, as the mix might draw it.
    pub(super) fn example(&mut self, recipe: usize, more: &mut More) -> Task {
        more.clear();
        // An operation waits only if there is a ledger, and no examples are drawn with one.
        let task = self.mixed(recipe, more).unwrap_or_default();
        self.made += 1;
        task
    }

    /// One operation of a recipe; `None` if no key is left for it.
    #[inline]
    fn mixed(&mut self, at: usize, more: &mut More) -> Option<Task> {
        let brief = self.briefs[at];
        if brief.kind == OpKind::Transaction {
            return self.transaction(at, more);
        }
        let index = if brief.batch > 1 {
            self.draw_batch(at, brief, &mut more.indexes);
            *more.indexes.first()?
        } else {
            self.draw(at, brief)?
        };
        let mut task = self.numbered(at, brief, index, &more.indexes);
        task.check = brief.checkable && self.of_share(self.plan.check);
        Some(task)
    }

    /// Whether the next one belongs to a share. Compares 24 random bits, so that a share of 0 never does and a share of 1
    /// always does.
    #[inline]
    pub(super) fn of_share(&mut self, share: f64) -> bool {
        share > 0.0 && (self.rng.next_u64() >> 40) as f64 / ((1u64 << 24) as f64) < share
    }

    /// The task that works on this document, or on these of a batch. The ledger learns of its write.
    #[inline]
    pub(super) fn numbered(&mut self, at: usize, brief: Brief, index: u64, indexes: &[u64]) -> Task {
        let documents = indexes.len().max(1) as u32;
        // Inserted documents are new: they have the version of loaded documents.
        let numbered = brief.writes && !brief.inserts;
        let version = if numbered { self.highest_version() + 1 } else { 0 };
        let mut task = Task { recipe: at, index, version, documents, ..Task::default() };
        if brief.kind == OpKind::Query {
            task.number = mix64(self.phase_seed, self.made * self.workers + self.worker);
        }
        if let Some(ledger) = &mut self.ledger
            && brief.writes
        {
            for index in task.indexes(indexes) {
                let (key, state) = ((brief.collection, index), leaves(brief.kind, version));
                if brief.inserts { ledger.inserts(key, state) } else { ledger.sent(key, state) }
            }
        }
        task
    }

    /// Draws the keys of a batch, each once, in ascending order, so that all batches lock in the same order. If fewer
    /// keys can be drawn than the batch should have, it gets all of them.
    ///
    /// A key that is already in the batch is drawn again, so that the others follow the popularity among the keys that
    /// are left. After [`TRIES`] draws in a row without a new key, the batch takes the next new key after a draw, in
    /// the order of popularity, because drawing might never end. If a ledger leaves fewer keys to write, the batch
    /// consists of those.
    fn draw_batch(&mut self, at: usize, brief: Brief, indexes: &mut Vec<u64>) {
        let batch = u64::from(brief.batch);
        let newest = brief.parents.unwrap_or_else(|| self.newest(brief));
        let Some((first, places)) = self.streams[at].as_ref().map(|stream| stream.places(newest)) else {
            // New documents: each key is new, and they ascend.
            indexes.extend((0..batch).map_while(|_| self.draw(at, brief)));
            return;
        };
        let keys = match brief.parents {
            _ if !self.latest => places,
            Some(parents) => self.ownership.owned(parents),
            None => {
                let own = self.inserted[brief.collection];
                self.ownership.owned(brief.count + self.base[brief.collection]) + own
            }
        };
        let wanted = batch.min(keys.max(1));
        self.seen.clear(wanted as usize);
        // The place from which to look for new keys in order. If all keys are wanted, all are taken like this.
        let mut walk = (wanted == keys).then_some(first);
        let mut repeats = 0;
        while (indexes.len() as u64) < wanted && repeats <= places.saturating_add(TRIES) {
            let drawn = match (walk, &self.streams[at]) {
                (Some(place), Some(stream)) => Some(self.key_at(brief, stream.at(place, newest))),
                _ => self.draw(at, brief),
            };
            walk = walk.map(|place| if place + 1 < first + places { place + 1 } else { first });
            let Some(index) = drawn else { break };
            if self.may_take(brief, index) && self.seen.insert(index) {
                if walk.is_some() {
                    self.touch(brief.collection, index, 1);
                }
                indexes.push(index);
                walk = walk.filter(|_| wanted == keys);
                repeats = 0;
            } else {
                repeats += 1;
                if repeats == TRIES && walk.is_none() {
                    walk = self.streams[at].as_mut().map(|stream| stream.place(&mut self.rng, newest));
                }
            }
        }
        indexes.sort_unstable();
        self.exhausted = indexes.is_empty();
    }

    /// Whether a batch may have this key: a write takes no key with an open write.
    #[inline]
    pub(super) fn may_take(&self, brief: Brief, index: u64) -> bool {
        !brief.owns || self.ledger.as_ref().is_none_or(|ledger| !ledger.is_open((brief.collection, index)))
    }

    /// How many documents this worker can draw from.
    #[inline]
    fn newest(&self, brief: Brief) -> u64 {
        let count = brief.count + self.base[brief.collection];
        // With a ledger, documents that other workers inserted have one writer: the worker that inserted them.
        let own_only = self.ledger.is_some() && !self.latest;
        if own_only { count } else { count + self.inserted[brief.collection] * self.workers }
    }

    /// The document that a number drawn from a stream stands for.
    #[inline]
    fn key_at(&self, brief: Brief, drawn: u64) -> u64 {
        if brief.parents.is_some() {
            return self.catalog.get(brief.collection).first_child(drawn);
        }
        let count = brief.count + self.base[brief.collection];
        if self.latest { surely_there(drawn, count, self.worker, self.workers) } else { drawn }
    }

    /// One index by popularity, or a new one for an insert; `None` if a ledger leaves no key to write.
    #[inline]
    pub(super) fn draw(&mut self, at: usize, brief: Brief) -> Option<u64> {
        let Brief { collection, count: loaded, .. } = brief;
        let count = loaded + self.base[collection];
        let newest = self.newest(brief);
        let index = match (&mut self.streams[at], brief.parents) {
            // New documents are numbered so that no two workers create the same one.
            (None, _) => {
                let number = self.inserted[collection];
                self.inserted[collection] += 1;
                count + number * self.workers + self.worker
            }
            // No phase adds parents, and a ledger follows no writes that draw parents.
            (Some(stream), Some(parents)) => {
                self.catalog.get(collection).first_child(stream.next(&mut self.rng, parents))
            }
            (Some(stream), None) => {
                let (latest, worker, workers) = (self.latest, self.worker, self.workers);
                let mut next = || {
                    let index = stream.next(&mut self.rng, newest);
                    if latest { surely_there(index, count, worker, workers) } else { index }
                };
                let mut index = next();
                if let Some(ledger) = &self.ledger
                    && brief.owns
                {
                    // A key with an open write takes no write. Evidence takes none while there are other keys.
                    let mut evidence = None;
                    for _ in 0..64 {
                        if !ledger.is_open((collection, index)) {
                            if !ledger.is_evidence((collection, index)) {
                                evidence = None;
                                break;
                            }
                            evidence = Some(index);
                        }
                        index = next();
                    }
                    index = evidence.unwrap_or(index);
                    if ledger.is_open((collection, index)) {
                        // Few keys are left: look through the worker's own keys in order.
                        let mut own = (0..loaded.div_ceil(workers)).map(|n| n * workers + worker);
                        let closed = own.find(|i| *i < loaded && !ledger.is_open((collection, *i)));
                        self.exhausted = closed.is_none();
                        index = closed?;
                    }
                }
                index
            }
        };
        self.touch(collection, index, 1);
        Some(index)
    }

    #[inline]
    pub(super) fn touch(&mut self, collection: usize, index: u64, documents: u64) {
        let distinct = self.distinct[collection].get_or_insert_with(|| Box::new(Distinct::new()));
        for index in index..index + documents {
            distinct.add(mix64(collection as u64, index));
        }
    }

    /// The kind of the next operation: the one that waits for a key, or else a drawn one.
    #[inline]
    pub(super) fn next_recipe(&mut self) -> usize {
        if self.plan.amount == Amount::Load {
            return self.load.0.min(self.plan.recipes.len() - 1);
        }
        if let Some(waiting) = self.waiting.take() {
            return waiting;
        }
        if self.weights.len() == 1 {
            return 0;
        }
        let draw = self.rng.unit();
        self.weights.iter().position(|w| draw < *w).unwrap_or(self.weights.len() - 1)
    }

    /// Withdraws a task that was drawn but is not sent.
    pub(super) fn unmake(&mut self, task: &Task, more: &More) {
        let Some(ledger) = &mut self.ledger else { return };
        let tasks = if more.steps.is_empty() { std::slice::from_ref(task) } else { &more.steps[..] };
        for task in tasks {
            let brief = self.briefs[task.recipe];
            for index in task.indexes(&more.indexes).filter(|_| brief.writes) {
                ledger.refused((brief.collection, index), leaves(brief.kind, task.version));
            }
        }
    }

    /// What a read must find if it is sent now; `None` if the ledger does not know.
    #[inline]
    pub(super) fn floor(&self, task: &Task) -> Option<Floor> {
        let ledger = self.ledger.as_ref()?;
        let brief = &self.briefs[task.recipe];
        if brief.kind == OpKind::Read { ledger.floor((brief.collection, task.index)) } else { None }
    }

    /// The same for each document of a bulk read.
    pub(super) fn floors(&self, task: &Task, indexes: &[u64], floors: &mut Vec<(u64, Floor)>) {
        floors.clear();
        let brief = &self.briefs[task.recipe];
        if let Some(ledger) = &self.ledger
            && brief.kind == OpKind::BulkRead
        {
            let of = |index: u64| Some((index, ledger.floor((brief.collection, index))?));
            floors.extend(task.indexes(indexes).filter_map(of));
        }
    }

    /// No version above this one was written so far.
    pub(super) fn highest_version(&self) -> u64 {
        if let Some((trace, _)) = &self.plan.trace {
            return self.plan.versions_above + trace.ops().len() as u64;
        }
        self.plan.versions_above + self.made * self.workers + self.worker
    }

    /// Numbers that new documents have taken so far, by position of the collection, in rounds of all workers.
    pub(super) fn taken(&self) -> Vec<u64> {
        self.base.iter().zip(&self.inserted).map(|(base, own)| base + own * self.workers).collect()
    }

    /// Distinct keys touched, by position of the collection.
    pub(super) fn take_distinct(&mut self) -> Vec<(usize, Distinct)> {
        let taken = self.distinct.iter_mut().map(Option::take).enumerate();
        taken.filter_map(|(collection, d)| d.map(|d| (collection, *d))).collect()
    }
}

/// The drawn document. Of the new documents, which lie above `count`, only those that this worker inserted are sure to
/// exist, so it returns the worker's own one of the same round.
#[inline]
fn surely_there(drawn: u64, count: u64, worker: u64, workers: u64) -> u64 {
    if drawn < count { drawn } else { drawn - (drawn - count) % workers + worker }
}

/// The state that a write of this kind and version leaves at its key.
pub(super) fn leaves(kind: OpKind, version: u64) -> KeyState {
    if matches!(kind, OpKind::Delete | OpKind::BulkDelete) {
        KeyState::removed(version)
    } else {
        KeyState::version(version)
    }
}
