//! The request for a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use storebench_documents::{Catalog, CatalogOptions};
use storebench_engine::store::{AnyStore, StoreError};
use storebench_engine::{Fit, Lack, ResolvedPhase, StudyPart, Unsupported};
use storebench_results::configurations::CONTROL;
use storebench_results::cost::PriceSheet;
use storebench_results::plan::LeftOut;
use storebench_study::workload::{FactorValues, Study, short_names, shown_value};

use super::error::LabError;
use super::links::Links;
use super::parts::PartRequest;
use super::servers::Managed;
use super::transfers::Transfers;

/// How stores are prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrepareMode {
    /// Start each trial without documents of an earlier one. A study that loads nothing keeps what Storebench wrote
    /// before.
    #[default]
    Fresh,
    /// Keep what Storebench wrote before.
    Keep,
    /// Like `Fresh`, but write beside foreign data.
    IntoExisting,
    /// Like `Keep`, also beside foreign data.
    KeepIntoExisting,
    /// Like `Fresh`, but also delete what copies wrote there.
    Discard,
}

impl PrepareMode {
    /// Whether it keeps what Storebench wrote before.
    pub fn keeps(self) -> bool {
        matches!(self, Self::Keep | Self::KeepIntoExisting)
    }
}

/// The documents of a study, ready to be generated, with the temporary files they need.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The documents.
    pub catalog: Arc<Catalog>,
    /// Holds index files of the user's own documents. It is removed with the last clone.
    _scratch: Arc<tempfile::TempDir>,
}

/// Compiles the documents of a study. Relative paths in it start at `base_dir`.
///
/// # Errors
/// Fails if documents cannot be generated as described, or if there is no room for temporary files.
pub fn compile_documents(study: &Study, scale: f64, base_dir: &Path) -> Result<Compiled, LabError> {
    if !(scale.is_finite() && scale > 0.0) {
        return Err(LabError::BadInput(format!("a scale of {scale} makes no documents; use a number above 0")));
    }
    let scratch = tempfile::Builder::new().prefix("storebench-").tempdir().map_err(|e| {
        LabError::BadInput(format!("cannot create a temporary folder: {e}; set TMPDIR to a folder with space"))
    })?;
    let options = CatalogOptions { seed: study.seed, scale, base_dir, scratch_dir: scratch.path() };
    let catalog = Catalog::compile(&study.collections, &options)?;
    Ok(Compiled { catalog: Arc::new(catalog), _scratch: Arc::new(scratch) })
}

/// One configuration of a run: a store, and the study with one combination of its factors' values.
#[derive(Clone)]
pub struct ConfigurationRequest {
    /// Name of the store in the study.
    pub store_name: String,
    /// The store. Configurations that measure the same place with the same options share it.
    pub store: Arc<dyn AnyStore>,
    /// Its server, if the run starts and stops it.
    pub server: Option<Managed>,
    /// The links to it, and between servers, that can be broken.
    pub links: Links,
    /// Its host, if the study's stores take turns on hosts. The configuration then appears once for each host.
    pub host: Option<String>,
    /// The factor values that apply to it, by path.
    pub values: FactorValues,
    /// Whether it repeats the first configuration, to show how much two like configurations differ.
    pub control: bool,
    /// The study with these values, checked, with overrides applied.
    pub study: Study,
    /// Its documents, compiled at `scale`.
    pub documents: Compiled,
    /// Multiplies the number of documents.
    pub scale: f64,
    /// What the store does not support, and was therefore left out of `study`.
    pub left_out: Vec<LeftOut>,
}

impl ConfigurationRequest {
    /// The configurations of a study without factors: one for each store.
    pub fn of_stores(
        study: &Study,
        documents: &Compiled,
        scale: f64,
        stores: impl IntoIterator<Item = (String, Arc<dyn AnyStore>)>,
    ) -> Vec<Self> {
        let configuration = |(store_name, store)| Self {
            store_name,
            store,
            server: None,
            links: Links::default(),
            host: None,
            values: FactorValues::new(),
            control: false,
            study: study.clone(),
            documents: documents.clone(),
            scale,
            left_out: Vec::new(),
        };
        stores.into_iter().map(configuration).collect()
    }

    /// Resolves every phase for the store, as far as it is known what the store can do. Parts of the study that it does
    /// not support are refused or left out.
    ///
    /// # Errors
    /// `NotSupported` with all that the store does not support, or with why a phase cannot run.
    pub fn fit(&mut self, unsupported: Unsupported) -> Result<Vec<ResolvedPhase>, StoreError> {
        let Fit { study, phases, left_out } =
            Fit::of(&self.study, &self.documents.catalog, &self.store.capabilities(), unsupported)?;
        self.study = study;
        self.left_out = left_out.into_iter().map(told).collect();
        Ok(phases)
    }

    /// The same configurations, followed by the control of the first one.
    pub fn with_control(mut all: Vec<Self>) -> Vec<Self> {
        let Some(first) = all.first().map(Self::name) else { return all };
        // It appears once for each of its hosts.
        let controls = all.iter().filter(|of| of.name() == first).map(|of| Self { control: true, ..of.clone() });
        let controls: Vec<Self> = controls.collect();
        all.extend(controls);
        all
    }

    /// Its name: that of the store, then `name=value` for each factor with more than one value.
    pub fn name(&self) -> String {
        let factors = &self.study.factors;
        let short = short_names(factors.keys().map(String::as_str));
        let mut name = self.store_name.clone();
        for (path, value) in self.values.iter().filter(|(path, _)| factors.get(*path).is_none_or(|all| all.len() > 1)) {
            let shown = short.get(path.as_str()).copied().unwrap_or(path);
            name += &format!(" {shown}={}", shown_value(value));
        }
        if self.control {
            name += CONTROL;
        }
        name
    }
}

fn told(lack: Lack) -> LeftOut {
    let what = lack.part.to_string();
    let (phase, operation) = match lack.part {
        StudyPart::Indexes(_) => (None, None),
        StudyPart::Phase(phase) => (Some(phase), None),
        StudyPart::Operation(phase, operation) => (Some(phase), Some(operation)),
    };
    LeftOut { phase, operation, what, why: lack.why }
}

/// A requested run.
#[derive(Clone)]
pub struct RunRequest {
    /// Name of the run; its folder's name begins with it.
    pub name: String,
    /// The study, checked, with overrides applied and without factor values.
    pub study: Study,
    /// The study's text as given, kept in the run folder.
    pub study_text: String,
    /// The study file, if there is one.
    pub study_file: Option<PathBuf>,
    /// The overrides applied to it.
    pub overrides: Vec<String>,
    /// The configurations to measure, in the order of the study.
    pub configurations: Vec<ConfigurationRequest>,
    /// Prices of the machines that the configurations run on.
    pub prices: Option<PriceSheet>,
    /// The part of the run that this process runs; `None` if it runs all of it.
    pub part: Option<PartRequest>,
    /// A run folder to resume: its complete trials are kept, the others run.
    pub resume: Option<PathBuf>,
    /// The parent of run folders; `None` saves nothing.
    pub runs_dir: Option<PathBuf>,
    /// What happens to parts of the study that a store does not support.
    pub unsupported: Unsupported,
    /// How stores are prepared.
    pub prepare: PrepareMode,
    /// Remove loaded data after the last trial of a store.
    pub remove_after: bool,
    /// Start even if, by the plan's estimate, disks are too small or the run takes too long.
    pub anyway: bool,
    /// The implementation of copies; `None` if the study has no phase that copies.
    pub transfers: Option<Arc<dyn Transfers>>,
    /// Length of an interval in the tables.
    pub interval: Duration,
    /// The commit that Storebench was built from, if known.
    pub commit: Option<String>,
}
