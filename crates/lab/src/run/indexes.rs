//! Indexes that a study gives in the stores' own words: built after the load, and tried before it.

use storebench_engine::OwnIndex;
use storebench_engine::store::{BuiltIndex, Prepare, StoreError};
use storebench_results::{IndexResult, RunResult};
use storebench_study::workload::Study;

use super::observe::Journal;
use super::runner::{Configuration, RunState};

/// The error of an index, with its name.
fn named(index: &OwnIndex, error: StoreError) -> StoreError {
    error.map_text(|why| format!("the index `{}` of `{}`: {why}", index.name, index.of))
}

/// The position of the phase before which indexes are built: the first one with a mix after the last load of a
/// collection that has some. `None` if there is none; they are then built after the last phase.
pub(super) fn before_which(study: &Study) -> Option<usize> {
    let indexed = |name: &str| study.collections.get(name).is_some_and(|of| !of.indexes.is_empty());
    let loaded = study.phases.iter().rposition(|phase| phase.loaded(study).any(indexed));
    (loaded.map_or(0, |at| at + 1)..study.phases.len()).find(|at| study.phases[*at].asks())
}

impl RunState<'_> {
    /// Tries the queries and the indexes of a study before its load, so that a mistake is found at once. What it builds
    /// on the empty collections, it removes.
    pub(super) fn try_in_own_words(&self, configuration: &Configuration, kept: bool) -> Result<(), StoreError> {
        let indexes = configuration.indexes()?;
        if indexes.is_empty() {
            return self.try_queries(configuration);
        }
        let empty = matches!(configuration.prepare, Prepare::Fresh | Prepare::Discard) && !kept;
        if !empty || !self.parts.leads() {
            // A query may need an index that does not exist yet. Queries are tried again before the first mix.
            return Ok(());
        }
        let mut built = Vec::new();
        let mut tried = Ok(());
        for index in &indexes {
            tried = match configuration.store.build_index(index.collection, &index.name, &index.text) {
                Ok(made) if made.took.is_none() => Err(StoreError::NotSupported(
                    "the collection already has an index with this name; choose another name".into(),
                )),
                other => other.map(drop),
            };
            if let Err(error) = tried {
                tried = Err(named(index, error));
                break;
            }
            built.push(index);
        }
        let tried = tried.and_then(|()| self.try_queries(configuration));
        for index in built {
            let dropped = configuration.store.drop_index(index.collection, &index.name, &index.text);
            if tried.is_ok() {
                dropped.map_err(|error| named(index, error))?;
            }
        }
        tried
    }

    /// Builds the indexes of a study on the loaded documents, and records their time and size. Of several parts, the
    /// first one builds them while the others wait.
    pub(super) fn build_indexes(
        &mut self,
        configuration: &Configuration,
        at: usize,
        result: &mut RunResult,
        journal: &mut Journal<'_>,
    ) -> Result<(), StoreError> {
        let indexes = configuration.indexes()?;
        if indexes.is_empty() {
            return Ok(());
        }
        self.parts.all_at("loaded", journal)?;
        for index in indexes.iter().filter(|_| self.parts.leads()) {
            if self.stop.asked() {
                result.run.interrupted = true;
                return Ok(());
            }
            let BuiltIndex { took, bytes } = self.build_index(configuration, index)?;
            let (collection, name) = (index.of.clone(), index.name.clone());
            let found = IndexResult { collection, name, build_ns: took.map(|took| took.as_nanos() as u64), bytes };
            let (what, name, of) = (found.in_words(), &index.name, &index.of);
            journal.note(format!("{}: index `{name}` of `{of}`: {what}", configuration.name));
            result.trials[at].indexes.push(found);
        }
        self.parts.all_at("indexed", journal)?;
        // A driver may need to know of them.
        for index in indexes.iter().filter(|_| !self.parts.leads()) {
            self.build_index(configuration, index)?;
        }
        Ok(())
    }

    fn build_index(&self, configuration: &Configuration, index: &OwnIndex) -> Result<BuiltIndex, StoreError> {
        let built = configuration.store.build_index(index.collection, &index.name, &index.text);
        built.map_err(|error| named(index, error))
    }
}
