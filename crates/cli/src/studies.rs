//! Opens a study, its documents and its configurations, from a file or a built-in study.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use storebench_engine::store::DurabilityRequest;
use storebench_lab::run::{Compiled, ConfigurationRequest, LabError, compile_documents};
use storebench_lab::workers::{Workers, workers_for};
use storebench_machine::Processors;
use storebench_results::cost::PriceSheet;
use storebench_study::workload::{
    Override, Study, StudyConfiguration, at_host, automatic_workers, leaves_host_open, read_toml,
};

use crate::args::StudyArgs;
use crate::failure::Failure;
use crate::progress::line;
use crate::servers::{Served, Servers};
use crate::{built_in, stores};

/// A study as it will be run.
pub(crate) struct Opened {
    /// The study, with overrides applied.
    pub(crate) study: Study,
    /// The text as given, without overrides.
    pub(crate) text: String,
    /// The file it came from.
    pub(crate) file: PathBuf,
    /// As the user named it: the file, or the name of a built-in study.
    pub(crate) named: PathBuf,
    /// What the preset and the command line change, as the result keeps it.
    pub(crate) overrides: Vec<String>,
    pub(crate) scale: f64,
    applied: Vec<Override>,
}

/// Reads and checks a study. A name that is not a file is a built-in study. `stores` are those of the command line, which
/// are measured instead of the study's.
pub(crate) fn open(args: &StudyArgs, stores: &[String]) -> Result<Opened, Failure> {
    let (text, file) = source(&args.study)?;
    let typed = Override::parse_all(&args.overrides)?;
    // First parsed without overrides, because a preset is part of the study as written.
    let mut applied = Vec::new();
    let (mut overrides, mut preset_scale) = (Vec::new(), None);
    if let Some(name) = &args.preset {
        let study = Study::parse_with(&text, &file, &[])?;
        let preset = study.preset(name).map_err(|what| Failure::bad_input(format!("--preset {name}: {what}")))?;
        overrides.push(format!("preset={name}"));
        preset_scale = preset.scale;
        applied = preset.overrides(name);
    }
    applied.extend(typed);
    overrides.extend(args.overrides.iter().cloned());
    for chosen in chosen_workers(&text, &file, &applied, stores)? {
        applied.push(Override::parse(&chosen)?);
        overrides.push(chosen);
    }
    let study = Study::parse_with(&text, &file, &applied)?;
    Ok(Opened {
        study,
        text,
        file,
        named: args.study.clone(),
        overrides,
        scale: args.scale.or(preset_scale).unwrap_or(1.0),
        applied,
    })
}

/// Overrides with the number of workers of each phase that leaves it to Storebench. Tells the user.
fn chosen_workers(text: &str, file: &Path, applied: &[Override], typed: &[String]) -> Result<Vec<String>, Failure> {
    let paths = automatic_workers(text, file, applied)?;
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let with = |count: u32| paths.iter().map(|path| format!("{path}={count}")).collect::<Vec<_>>();
    // Any number will do, to read the rest of the study.
    let study = Study::parse_with(text, file, &[applied, &Override::parse_all(&with(1))?].concat())?;
    let stores = if typed.is_empty() { study.stores.clone() } else { stores::typed_stores(typed)? };
    let at_hosts = |url: String| match leaves_host_open(&url) {
        true => study.hosts.iter().map(|host| at_host(&url, host)).collect(),
        false => vec![url],
    };
    let urls: Vec<String> = stores.0.into_values().flat_map(at_hosts).collect();
    let Workers { count, why } =
        workers_for(Processors::look(), urls.iter().map(String::as_str), study.has_faults_of_servers());
    line(&format!("note: workers = \"auto\" is {count}: {why}"));
    Ok(with(count))
}

/// The text of a study, and the file that errors name.
fn source(named: &Path) -> Result<(String, PathBuf), Failure> {
    if let Some(study) = named.to_str().filter(|_| !named.is_file()).and_then(built_in::find) {
        return Ok((study.text.to_owned(), PathBuf::from(format!("{}.toml", study.name))));
    }
    match std::fs::metadata(named) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let remedy = match named.to_str().and_then(built_in::meant) {
                Some(name) => format!("did you mean the built-in study `{name}`?"),
                None => {
                    "give the path of a study file (TOML), or the name of a built-in study (see `storebench studies`)"
                        .to_owned()
                }
            };
            Err(Failure::bad_input(format!("{}: cannot be read: {error}; {remedy}", named.display())))
        }
        _ => Ok((read_toml(named, "a study file")?, named.to_owned())),
    }
}

/// Reads a price sheet, if one is given.
pub(crate) fn prices(file: Option<&Path>) -> Result<Option<PriceSheet>, Failure> {
    Ok(file.map(PriceSheet::read).transpose()?)
}

/// Documents that are compiled already, by all that they depend on but the folder of the study.
pub(crate) type CompiledByStudy = HashMap<String, Compiled>;

impl Opened {
    /// Changes values of the study, as `--set` does.
    pub(crate) fn set(&mut self, overrides: Vec<String>) -> Result<(), Failure> {
        self.applied.extend(Override::parse_all(&overrides)?);
        self.overrides.extend(overrides);
        self.study = Study::parse_with(&self.text, &self.file, &self.applied)?;
        Ok(())
    }

    /// Sets the durability of every phase that writes, and of those that name one.
    pub(crate) fn set_durability(&mut self, asked: Option<DurabilityRequest>) -> Result<(), Failure> {
        let Some(asked) = asked else { return Ok(()) };
        let concerned = self.study.phases.iter().filter(|phase| phase.writes() || phase.durability.is_some());
        self.set(concerned.map(|phase| format!("phases.{}.durability={}", phase.name, asked.written())).collect())
    }

    /// The documents of the study, without its factors.
    pub(crate) fn documents(&self) -> Result<Compiled, Failure> {
        self.compile(&self.study, self.scale)
    }

    /// The documents of the first configuration, which a result describes.
    pub(crate) fn first_documents(&self) -> Result<Compiled, Failure> {
        match self.study.configurations(&self.text, &self.file, &self.applied)?.first() {
            Some(first) => Ok(self.documents_at(first, &mut CompiledByStudy::new())?.0),
            None => self.documents(),
        }
    }

    /// The folder from which relative paths in the study start.
    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Compiles documents. An error points to its line.
    fn compile(&self, study: &Study, scale: f64) -> Result<Compiled, Failure> {
        compile_documents(study, scale, self.folder()).map_err(|error| match error {
            LabError::Documents(error) => {
                Study::error_at(&self.text, &self.file, &self.applied, &error.path, error.message).into()
            }
            error => Failure::bad_input(error),
        })
    }

    /// Every store of the study with every combination of its factors' values. Creates drivers, without accessing the
    /// stores. Configurations share equal drivers and documents.
    pub(crate) fn configurations(&self, servers: &mut Servers) -> Result<Vec<ConfigurationRequest>, Failure> {
        self.configurations_of(servers, &mut CompiledByStudy::new())
    }

    /// The same, with documents that are compiled already.
    pub(crate) fn configurations_of(
        &self,
        servers: &mut Servers,
        compiled: &mut CompiledByStudy,
    ) -> Result<Vec<ConfigurationRequest>, Failure> {
        let at_values = self.study.configurations(&self.text, &self.file, &self.applied)?;
        let mut open: HashMap<String, Served> = HashMap::new();
        let mut configurations: Vec<ConfigurationRequest> = Vec::new();
        for ((name, url), at) in
            self.study.stores.0.iter().flat_map(|store| at_values.iter().map(move |at| (store, at)))
        {
            let open_host = leaves_host_open(url);
            let hosts: Vec<Option<&String>> =
                if open_host { self.study.hosts.iter().map(Some).collect() } else { vec![None] };
            for host in hosts {
                let url = host.map_or_else(|| url.clone(), |host| at_host(url, host));
                let url = stores::with_options(&url, at.options_of(name));
                let Served { store, server, links } = match open.get(&url) {
                    Some(served) => served.clone(),
                    None => {
                        let served = servers.serve(&at.study, name, &url)?;
                        open.insert(url, served.clone());
                        served
                    }
                };
                let (documents, scale) = self.documents_at(at, compiled)?;
                let configuration = ConfigurationRequest {
                    store_name: name.clone(),
                    store,
                    server,
                    links,
                    host: host.cloned(),
                    values: at.values_of(name),
                    control: false,
                    study: at.study.clone(),
                    documents,
                    scale,
                    left_out: Vec::new(),
                };
                // Options of another store do not make a configuration of this one.
                let same =
                    |other: &ConfigurationRequest| (&other.store_name, &other.host) == (name, &configuration.host);
                if !configurations.iter().any(|other| same(other) && other.values == configuration.values) {
                    configurations.push(configuration);
                }
            }
        }
        Ok(if self.study.control { ConfigurationRequest::with_control(configurations) } else { configurations })
    }

    /// The documents at these values of factors, and their scale.
    fn documents_at(
        &self,
        at: &StudyConfiguration,
        compiled: &mut CompiledByStudy,
    ) -> Result<(Compiled, f64), Failure> {
        let scale = self.scale * at.scale.unwrap_or(1.0);
        let key = serde_json::to_string(&(&at.study.collections, at.study.seed, scale)).unwrap_or_default();
        let documents = match compiled.get(&key) {
            Some(documents) => documents.clone(),
            None => compiled.entry(key).or_insert(self.compile(&at.study, scale)?).clone(),
        };
        Ok((documents, scale))
    }
}

/// Compiles the documents of a study that has no file.
pub(crate) fn compile(study: &Study) -> Result<Compiled, Failure> {
    compile_documents(study, 1.0, Path::new(".")).map_err(Failure::bad_input)
}
