//! From a run to its entry in a history.

use indexmap::IndexSet;
use xxhash_rust::xxh3::xxh3_64;

use super::model::{HISTORY_FORMAT, HistoryConfiguration, HistoryEntry, HistorySystem, Invalid};
use crate::configurations::configurations_of;
use crate::environment::{Environment, host_of};
use crate::figures::in_documents;
use crate::human::plural;
use crate::validity::Severity;
use crate::{ConfigurationResult, RunResult, TrialResult};

/// Parts of a study that say what is done. Stores and values of factors are those of the configuration.
const WORK: [&str; 6] = ["collections", "phases", "limits", "search", "links", "database"];
/// What of a server that the study starts is part of the work. How it is started is what one may want to see.
const OF_A_SERVER: [&str; 3] = ["cpus", "memory", "namespace"];

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
            HistoryConfiguration::of(run, configuration, trials)
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
            system: HistorySystem {
                kernel: run.environment.kernel.clone(),
                os: run.environment.os.clone(),
                governor: run.environment.governor.clone(),
                clock_source: run.environment.clock_source.clone(),
            },
            configurations: run.configurations.iter().filter(|of| !of.control).filter_map(of).collect(),
        }
    }
}

impl HistoryConfiguration {
    fn of(run: &RunResult, of: &ConfigurationResult, trials: &[&TrialResult]) -> Option<Self> {
        let trial = trials.first()?;
        let kept = |name: &str| !NOT_KEPT.iter().any(|end| name.ends_with(end));
        let figure = |of: &crate::FigureOverTrials| match (of.none_in.is_empty(), of.at_least) {
            (true, false) => [Some(of.figure.value), of.figure.low, of.figure.high],
            (true, true) => [None, Some(of.figure.value), None],
            (false, _) => [None; 3],
        };
        let phases = trials.iter().flat_map(|trial| &trial.phases);
        let in_documents: IndexSet<&String> =
            phases.filter(|phase| in_documents([*phase])).map(|phase| &phase.name).collect();
        let elsewhere = !trial.embedded && trial.here != Some(true);
        Some(Self {
            configuration: of.configuration.clone(),
            version: trial.version.clone(),
            host: host_of(&trial.url).filter(|_| elsewhere).map(str::to_owned),
            work: work(run, trial),
            invalid: invalid(run, of),
            in_documents: in_documents.into_iter().cloned().collect(),
            figures: of
                .figures
                .iter()
                .filter(|(name, _)| kept(name))
                .map(|(name, of)| (name.clone(), figure(of)))
                .collect(),
        })
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
    let study = &run.run.study;
    let servers = &study["servers"];
    let server = [&trial.store, &trial.scheme].into_iter().find_map(|name| servers.get(name.as_str()));
    let options = trial.url.split_once('?').map(|(_, options)| options);
    let all = serde_json::json!([
        WORK.map(|part| &study[part]),
        OF_A_SERVER.map(|part| server.map(|server| &server[part])),
        run.run.frozen,
        run.run.seed,
        run.run.scale,
        trial.values,
        trial.scheme,
        options
    ]);
    format!("{:016x}", xxh3_64(all.to_string().as_bytes()))
}

/// `AMD EPYC 7B13, 2 processors, 24 GiB`. Firmware and kernel keep some of the memory for themselves, now more, now less,
/// so the size is rounded up to an even number of GiB.
fn machine(of: &Environment) -> String {
    let model = of.cpu_model.as_deref().unwrap_or("unknown processor");
    let memory = of.memory_limit_bytes.or(of.memory_bytes);
    let memory = memory.map(|size| format!("{} GiB", size.div_ceil(2 << 30) * 2));
    let processors = plural(of.cpus_available, "processor");
    [Some(model.to_owned()), Some(processors), memory].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
