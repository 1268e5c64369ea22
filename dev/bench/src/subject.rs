//! A study that is ready to run: its documents, and its phases on a store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use storebench_documents::{Catalog, CatalogOptions, Documents};
use storebench_engine::measure::PhaseRecord;
use storebench_engine::store::{
    AnyStore, Capabilities, CollectionLayout, Description, Layout, Namespace, NullSession, NullStore, Prepare,
    SessionOptions, Store, StoreError,
};
use storebench_engine::{Event, PhaseContext, PhasePlan, RealClock, Stop, Written, run_phase};
use storebench_study::workload::Study;

use crate::{Failure, pin};

/// The head of a study's text: its title, and documents with a name, a rank, and text that fills the size. Phases
/// follow.
pub(crate) fn head(title: &str, count: impl std::fmt::Display, size: &str) -> String {
    format!(
        r#"
title = "{title}"
seed = 435
[collections.documents]
count = {count}
key = "documents/{{index:010}}"
size = "{size}"
fields = {{ name = {{ words = 2 }}, rank = {{ integer = [0, 1_000_000] }}, text = {{ text = "fill" }} }}
"#
    )
}

/// A study and its documents.
pub(crate) struct Subject {
    study: Study,
    catalog: Arc<Catalog>,
    clock: RealClock,
}

impl Subject {
    /// Reads a study and compiles its documents.
    pub(crate) fn new(text: &str) -> Result<Self, Failure> {
        let study = Study::parse(text, Path::new("bench"), &[])?;
        // No study here reads a user's files, so the scratch folder stays empty.
        let scratch = std::env::temp_dir();
        let options = CatalogOptions { seed: study.seed, scale: 1.0, base_dir: Path::new("."), scratch_dir: &scratch };
        let catalog = Arc::new(Catalog::compile(&study.collections, &options)?);
        Ok(Self { study, catalog, clock: RealClock::new() })
    }

    pub(crate) fn clock(&self) -> &RealClock {
        &self.clock
    }

    /// The documents of the only collection.
    pub(crate) fn documents(&self) -> &Documents {
        self.catalog.get(0)
    }

    /// What a store needs to know before it can be written to.
    pub(crate) fn layout(&self) -> Layout {
        let collections = self.study.collections.iter().map(|(name, collection)| CollectionLayout {
            name: name.clone(),
            body: collection.body,
            indexes: collection.index.clone(),
            existing: None,
            uses: storebench_engine::store::Uses::ALL,
        });
        Layout { collections: collections.collect() }
    }

    /// Runs the phase of this name. A phase with failed operations, or one that ends early, is an error.
    pub(crate) fn run(&self, store: &Arc<dyn AnyStore>, phase: &str) -> Result<PhaseRecord, Failure> {
        let phase = self.study.phases.iter().find(|p| p.name == phase).ok_or("the study has no such phase")?;
        let plan = PhasePlan::resolve(&self.study, phase, &self.catalog, &store.capabilities())?;
        let context = PhaseContext {
            catalog: Arc::clone(&self.catalog),
            clock: self.clock.clone(),
            stop: Arc::new(Stop::new()),
            seed: self.study.seed,
            interval: Duration::from_secs(1),
            begin: None,
            written: &mut Written::default(),
            companions: Vec::new(),
            gone: &|| false,
            observer: &mut |_: &Event<'_>| {},
        };
        let record = run_phase(store, &plan, context)?;
        if let Some(partial) = &record.partial {
            return Err(partial.why.clone().into());
        }
        match record.messages.first() {
            Some((message, count)) => Err(format!("{count} operations failed: {message}").into()),
            None => Ok(record),
        }
    }
}

/// The null store, with sessions that pin the worker that opens them to one processor. The session is that of the null
/// store, so the measured loop is the one that users run.
struct PinnedNull(NullStore);

/// A null store whose workers are pinned to one processor.
pub(crate) fn pinned_null() -> Arc<dyn AnyStore> {
    Arc::new(PinnedNull(NullStore::new()))
}

impl Store for PinnedNull {
    type Session = NullSession;

    fn describe(&self) -> Description {
        Store::describe(&self.0)
    }
    fn capabilities(&self) -> Capabilities {
        Store::capabilities(&self.0)
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Store::inspect(&self.0)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        Store::prepare(&self.0, layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<NullSession, StoreError> {
        // Called on the thread that drives the session.
        if !pin::this_thread() {
            return Err(StoreError::Failed("the system does not allow pinning a thread to one processor".into()));
        }
        Store::open(&self.0, options).await
    }
    fn remove(&self) -> Result<(), StoreError> {
        Store::remove(&self.0)
    }
}
