//! From a run to its entry in a history.

use xxhash_rust::xxh3::xxh3_64;

use super::model::{HISTORY_FORMAT, HistoryConfiguration, HistoryEntry, Invalid};
use crate::configurations::configurations_of;
use crate::environment::{Environment, host_of};
use crate::human::{bytes, plural};
use crate::validity::Severity;
use crate::{ConfigurationResult, RunResult, TrialResult};

/// Parts of a study that change nothing of what is done: what it is called, what was published, and what else is measured.
/// Stores and values of factors are those of the configuration.
const NOT_WORK: [&str; 15] = [
    "title",
    "question",
    "repeats",
    "control",
    "seed",
    "stores",
    "replaced_stores",
    "hosts",
    "factors",
    "design",
    "database",
    "data_to_memory",
    "presets",
    "published",
    "flaws",
];

/// Percentiles that a history does not keep: nothing that so few operations decide shows a change.
const NOT_KEPT: [&str; 2] = [".p99.99", ".max"];

impl HistoryEntry {
    /// The entry of a run.
    pub fn of(run: &RunResult, commit: Option<String>, branch: Option<String>) -> Self {
        let info = &run.run;
        let version = &info.storebench_version;
        let names: Vec<_> = configurations_of(&run.plan, &run.trials);
        let of = |configuration: &ConfigurationResult| {
            let trials = &names.iter().find(|of| of.name == configuration.configuration)?.trials;
            Some(HistoryConfiguration::of(run, configuration, trials.first()?))
        };
        Self {
            format: HISTORY_FORMAT.to_owned(),
            run: info.name.clone(),
            title: info.title.clone(),
            began: info.began.clone(),
            commit,
            branch,
            storebench: match &info.storebench_commit {
                Some(commit) => format!("{version} ({commit})"),
                None => version.clone(),
            },
            machine: machine(&run.environment),
            environment: run.environment.clone(),
            configurations: run.configurations.iter().filter(|of| !of.control).filter_map(of).collect(),
        }
    }
}

impl HistoryConfiguration {
    fn of(run: &RunResult, of: &ConfigurationResult, trial: &TrialResult) -> Self {
        let kept = |name: &str| !NOT_KEPT.iter().any(|end| name.ends_with(end));
        let figures = of.figures.iter().filter(|(name, of)| kept(name) && of.figure.trials > 0 && !of.at_least);
        let figure = |of: &crate::FigureOverTrials| [Some(of.figure.value), of.figure.low, of.figure.high];
        let elsewhere = !trial.embedded && trial.here != Some(true);
        Self {
            configuration: of.configuration.clone(),
            version: trial.version.clone(),
            host: host_of(&trial.url).filter(|_| elsewhere).map(str::to_owned),
            work: work(run, trial),
            invalid: invalid(run, of),
            figures: figures.map(|(name, of)| (name.clone(), figure(of))).collect(),
        }
    }
}

/// What makes figures of a configuration count for nothing.
fn invalid(run: &RunResult, of: &ConfigurationResult) -> Vec<Invalid> {
    let here = |name: &Option<String>| name.as_ref().is_none_or(|name| *name == of.configuration);
    let checks = run.checks.iter().filter(|check| check.severity == Severity::Invalid && here(&check.configuration));
    let mut all: Vec<Invalid> = checks
        .map(|check| Invalid { check: check.check.clone(), phase: check.phase.clone() })
        .chain((of.failed > 0).then(|| Invalid { check: "partial".to_owned(), phase: None }))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// A number for what a configuration was asked to do.
fn work(run: &RunResult, trial: &TrialResult) -> String {
    let mut study = run.run.study.clone();
    if let Some(study) = study.as_object_mut() {
        study.retain(|key, _| !NOT_WORK.contains(&key.as_str()));
    }
    let options = trial.url.split_once('?').map(|(_, options)| options);
    let all = serde_json::json!([
        study,
        run.run.frozen,
        run.run.seed,
        run.run.scale,
        trial.values,
        trial.scheme,
        options,
        trial.database_kept
    ]);
    format!("{:016x}", xxh3_64(all.to_string().as_bytes()))
}

/// `AMD EPYC 7B13, 2 processors, 23.5 GiB`.
fn machine(of: &Environment) -> String {
    let model = of.cpu_model.as_deref().unwrap_or("unknown processor");
    let memory = of.memory_limit_bytes.or(of.memory_bytes);
    // What firmware and kernel keep for themselves differs from boot to boot.
    let memory = memory.map(|size| bytes((size as f64 / 1e9).round() * 1e9));
    let processors = plural(of.cpus_available, "processor");
    [Some(model.to_owned()), Some(processors), memory].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
