//! What a run is asked to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use storebench_documents::{Catalog, CatalogOptions, Frozen};
use storebench_engine::store::AnyStore;
use storebench_results::cost::PriceSheet;
use storebench_study::workload::{FactorValues, Study, short_names, shown_value};

use super::error::LabError;
use super::links::Links;
use super::servers::Managed;
use super::transfers::Transfers;

/// How stores are made ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrepareMode {
    /// Begin each trial without documents of an earlier one. A study that loads nothing keeps what
    /// Storebench put there before.
    #[default]
    Fresh,
    /// Keep what Storebench put there before.
    Keep,
    /// As `Fresh`, and where somebody else's data are: write beside them.
    IntoExisting,
    /// As `Keep`, also beside somebody else's data.
    KeepIntoExisting,
    /// As `Fresh`, and delete what copies wrote there too.
    Discard,
}

impl PrepareMode {
    /// Whether what Storebench put there before is to be kept.
    pub fn keeps(self) -> bool {
        matches!(self, Self::Keep | Self::KeepIntoExisting)
    }
}

/// The documents of a study, ready to be made, with the files they need on the way.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The documents.
    pub catalog: Arc<Catalog>,
    /// Holds index files of the user's own documents; removed with the last clone.
    _scratch: Arc<tempfile::TempDir>,
}

/// Compiles the documents of a study. Relative paths in it begin at `base_dir`; `frozen` is what an
/// earlier run found by search.
///
/// # Errors
/// Documents that cannot be made as described; no room for temporary files.
pub fn compile_documents(
    study: &Study,
    scale: f64,
    base_dir: &Path,
    frozen: Option<&Frozen>,
) -> Result<Compiled, LabError> {
    if !(scale.is_finite() && scale > 0.0) {
        return Err(LabError::BadInput(format!("a scale of {scale} makes no documents; use a number above 0")));
    }
    let scratch = tempfile::Builder::new().prefix("storebench-").tempdir().map_err(|e| {
        LabError::BadInput(format!("no folder for temporary files can be made: {e}; set TMPDIR to one with space"))
    })?;
    let options = CatalogOptions { seed: study.seed, scale, base_dir, scratch_dir: scratch.path(), frozen };
    let catalog = Catalog::compile(&study.collections, &options)?;
    Ok(Compiled { catalog: Arc::new(catalog), _scratch: Arc::new(scratch) })
}

/// One configuration of a run: a store, and the study at one combination of its factors' values.
#[derive(Clone)]
pub struct ConfigurationRequest {
    /// Name of the store in the study.
    pub store_name: String,
    /// The store. Configurations that measure one place under the same options share it.
    pub store: Arc<dyn AnyStore>,
    /// Its server, where the run starts and stops it.
    pub server: Option<Managed>,
    /// The links to it, and between servers, that can be broken.
    pub links: Links,
    /// The host that it is on, where the study's stores take turns: the configuration is there once for each host.
    pub host: Option<String>,
    /// The values that concern it, by path.
    pub values: FactorValues,
    /// The study at these values, checked, overrides applied.
    pub study: Study,
    /// Its documents, compiled at `scale`.
    pub documents: Compiled,
    /// Multiplies how many documents there are.
    pub scale: f64,
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
            study: study.clone(),
            documents: documents.clone(),
            scale,
        };
        stores.into_iter().map(configuration).collect()
    }

    /// Its name: the store's, then the values as `name=value` of the factors that have more than one.
    pub fn name(&self) -> String {
        let factors = &self.study.factors;
        let short = short_names(factors.keys().map(String::as_str));
        let mut name = self.store_name.clone();
        for (path, value) in self.values.iter().filter(|(path, _)| factors.get(*path).is_none_or(|all| all.len() > 1)) {
            let shown = short.get(path.as_str()).copied().unwrap_or(path);
            name += &format!(" {shown}={}", shown_value(value));
        }
        name
    }
}

/// A run to be made.
#[derive(Clone)]
pub struct RunRequest {
    /// Name of the run; its folder's name begins with it.
    pub name: String,
    /// The study, checked, overrides applied, its factors at no value.
    pub study: Study,
    /// The study's text as given, kept in the run folder.
    pub study_text: String,
    /// The file it came from, if it came from one.
    pub study_file: Option<PathBuf>,
    /// Overrides that were applied to it.
    pub overrides: Vec<String>,
    /// What is measured, in the order of the study.
    pub configurations: Vec<ConfigurationRequest>,
    /// Prices of what the configurations run on.
    pub prices: Option<PriceSheet>,
    /// A run folder to continue with: its whole trials are kept, the others run.
    pub resume: Option<PathBuf>,
    /// Where run folders are made; none to keep nothing.
    pub runs_dir: Option<PathBuf>,
    /// How stores are made ready.
    pub prepare: PrepareMode,
    /// Remove what was loaded once the last trial of a store has ended.
    pub remove_after: bool,
    /// Begin also where disks are too small or the time is too long by the plan's estimate.
    pub anyway: bool,
    /// Who makes the copies of phases that copy; none where the study has no such phase.
    pub transfers: Option<Arc<dyn Transfers>>,
    /// Length of an interval of the tables.
    pub interval: Duration,
    /// The commit Storebench was built from, where it is known.
    pub commit: Option<String>,
}
