//! The named runs, their configurations, and which configurations are compared with each other.

use std::path::{Path, PathBuf};

use super::error::CompareError;
use super::model::{LeftOutTrial, UnmatchedConfiguration};
use crate::configurations::configurations_of;
use crate::{RESULT_FILE, RunResult, TrialResult, read_run};

/// One side of a comparison: a run, or several runs of the same study.
#[derive(Debug, Clone)]
pub struct Source {
    /// The runs as they were named.
    pub name: String,
    /// The baseline's name, if it is one.
    pub baseline: Option<String>,
    /// The only configuration to compare: its name or a part of it.
    pub configuration: Option<String>,
    /// The runs; at least one.
    pub runs: Vec<OneRun>,
}

/// A run that was read.
#[derive(Debug, Clone)]
pub struct OneRun {
    /// The run as it was named.
    pub name: String,
    /// Its `run.json`.
    pub file: PathBuf,
    /// Its result.
    pub run: RunResult,
}

impl Source {
    /// Reads `PATH` or `PATH#CONFIGURATION`; a path is a run folder or its `run.json`. A `#` may be part of the path.
    /// Several runs of one side are separated by commas.
    ///
    /// # Errors
    /// A run cannot be read, is named twice, or two of them select different configurations.
    pub fn open(text: &str) -> Result<Self, CompareError> {
        let named: Vec<(&str, Option<&str>)> = text.split(',').map(str::trim).map(parts).collect();
        // Names of folders and configurations may contain a comma.
        if named.len() == 1 || Path::new(text).exists() || !named.iter().all(|(path, _)| Path::new(path).exists()) {
            let (path, configuration) = parts(text);
            return Ok(Self::of(text, None, configuration, vec![OneRun::read(path)?]));
        }
        let configuration = named.iter().find_map(|(_, configuration)| *configuration);
        if named.iter().any(|(_, other)| other.is_some() && *other != configuration) {
            return Err(CompareError::Nothing(format!("{text}: runs of one side must have the same configuration")));
        }
        let runs = named.iter().map(|(path, _)| OneRun::read(path)).collect::<Result<Vec<_>, _>>()?;
        different(&runs)?;
        Ok(Self::of(text, None, configuration, runs))
    }

    pub(super) fn of(name: &str, baseline: Option<&str>, configuration: Option<&str>, runs: Vec<OneRun>) -> Self {
        let name = match (&runs[..], baseline) {
            ([run], None) => run.name.clone(),
            _ => name.to_owned(),
        };
        Self { name, baseline: baseline.map(str::to_owned), configuration: configuration.map(str::to_owned), runs }
    }

    /// Its name for the user.
    pub(super) fn label(&self) -> String {
        self.baseline.as_ref().map_or_else(|| self.name.clone(), |name| format!("baseline {name}"))
    }

    /// Whether both are the same single run; a copy counts as the same.
    pub(super) fn is_run_of(&self, other: &Self) -> bool {
        matches!((&self.runs[..], &other.runs[..]), ([a], [b]) if a.is(b))
    }

    /// Its configurations in the order they were first measured; with `#CONFIGURATION` that one only.
    pub(super) fn configurations(&self) -> Result<Vec<SideConfiguration<'_>>, CompareError> {
        let all = self.all_configurations();
        let Some(wanted) = &self.configuration else {
            return if all.is_empty() {
                let none = if self.runs.len() > 1 { "configuration that all of its runs have" } else { "trials" };
                Err(CompareError::Nothing(format!("{} has no {none}; run it again", self.label())))
            } else {
                Ok(all)
            };
        };
        type Rule = fn(&str, &str) -> bool;
        let rules: [Rule; 3] =
            [|name, part| name == part, |name, part| name.starts_with(part), |name, part| name.contains(part)];
        for rule in rules {
            let found: Vec<&SideConfiguration<'_>> =
                all.iter().filter(|configuration| rule(configuration.name, wanted)).collect();
            match found.as_slice() {
                [] => {}
                [one] => return Ok(vec![(*one).clone()]),
                _ => return Err(self.no_configuration(wanted, true, &all)),
            }
        }
        Err(self.no_configuration(wanted, false, &all))
    }

    /// All configurations that all of its runs have, regardless of `#CONFIGURATION`.
    pub(super) fn all_configurations(&self) -> Vec<SideConfiguration<'_>> {
        fn of(run: &OneRun) -> Vec<crate::configurations::Trials<'_>> {
            configurations_of(&run.run.plan, &run.run.trials)
        }
        let Some((first, others)) = self.runs.split_first() else { return Vec::new() };
        let others: Vec<_> = others.iter().map(|run| (run, of(run))).collect();
        let mut all = Vec::new();
        for crate::configurations::Trials { name, trials, .. } in of(first) {
            let in_others = others.iter().map(|(run, all)| {
                let trials = all.iter().find(|of| of.name == name)?.trials.clone();
                Some(RunOfConfiguration { run, trials })
            });
            let runs = std::iter::once(Some(RunOfConfiguration { run: first, trials })).chain(in_others);
            all.extend(runs.collect::<Option<Vec<_>>>().map(|runs| SideConfiguration { source: self, name, runs }));
        }
        all
    }

    /// Configurations that only some of its runs have.
    pub(super) fn incomplete(&self) -> Vec<UnmatchedConfiguration> {
        let all = self.all_configurations();
        let mut left: Vec<UnmatchedConfiguration> = Vec::new();
        for of in &self.runs {
            let here = configurations_of(&of.run.plan, &of.run.trials);
            left.extend(
                here.iter()
                    .filter(|here| all.iter().all(|of| of.name != here.name))
                    .map(|here| UnmatchedConfiguration::of(&of.name, here.name)),
            );
        }
        left
    }

    fn no_configuration(&self, wanted: &str, several: bool, configurations: &[SideConfiguration<'_>]) -> CompareError {
        let there = configurations.iter().map(|configuration| configuration.name.to_owned()).collect();
        CompareError::Configuration { run: self.label(), wanted: wanted.to_owned(), several, there }
    }
}

/// Refuses runs of which two are the same: they would count twice.
///
/// # Errors
/// Two are the same; a copy counts as the same.
pub fn different(runs: &[OneRun]) -> Result<(), CompareError> {
    for (nth, run) in runs.iter().enumerate() {
        if let Some(same) = runs[..nth].iter().find(|other| other.is(run)) {
            return Err(CompareError::Nothing(format!(
                "{} and {} are the same run; one run must not count twice",
                same.name, run.name
            )));
        }
    }
    Ok(())
}

/// The path and the configuration of `PATH` or `PATH#CONFIGURATION`.
fn parts(text: &str) -> (&str, Option<&str>) {
    let splits = text.match_indices('#').map(|(at, _)| (&text[..at], Some(&text[at + 1..])));
    std::iter::once((text, None))
        .chain(splits)
        .find(|(path, _)| Path::new(path).exists())
        .or_else(|| text.rsplit_once('#').map(|(path, configuration)| (path, Some(configuration))))
        .unwrap_or((text, None))
}

impl OneRun {
    /// Reads a run folder or its `run.json`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &str) -> Result<Self, CompareError> {
        let run = read_run(Path::new(path))?;
        let file = if Path::new(path).is_dir() { Path::new(path).join(RESULT_FILE) } else { PathBuf::from(path) };
        // Shells complete folders with a slash.
        let name = Some(path.trim_end_matches('/')).filter(|name| !name.is_empty()).unwrap_or(path);
        Ok(Self { name: name.to_owned(), file, run })
    }

    /// Whether both are the same run; a copy counts as the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.run.run == other.run.run
    }
}

/// One configuration of a side.
#[derive(Debug, Clone)]
pub(super) struct SideConfiguration<'a> {
    pub(super) source: &'a Source,
    pub(super) name: &'a str,
    /// One for each run of the side.
    pub(super) runs: Vec<RunOfConfiguration<'a>>,
}

/// The trials of a configuration in one run.
#[derive(Debug, Clone)]
pub(super) struct RunOfConfiguration<'a> {
    pub(super) run: &'a OneRun,
    pub(super) trials: Vec<&'a TrialResult>,
}

impl SideConfiguration<'_> {
    /// Its name for the user.
    pub(super) fn label(&self) -> String {
        format!("{}#{}", self.source.label(), self.name)
    }

    /// Whether both are the same trials, or have some in common.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.runs.iter().any(|a| other.runs.iter().any(|b| a.run.is(b.run)))
    }

    /// The reasons why the configuration or its runs are partial.
    pub(super) fn partial(&self) -> Vec<String> {
        let mut out = Vec::new();
        for of in &self.runs {
            let run = if self.runs.len() > 1 { of.run.name.clone() } else { self.source.label() };
            out.extend(of.run.run.run.unfinished().map(|why| format!("{run}: {why}")));
            let (_, left_out) = of.whole();
            out.extend(left_out.into_iter().map(|t| format!("{run}#{}, trial {}: {}", self.name, t.trial, t.why)));
        }
        out
    }
}

impl<'a> RunOfConfiguration<'a> {
    /// Trials that completed, and the others with the reason.
    pub(super) fn whole(&self) -> (Vec<&'a TrialResult>, Vec<LeftOutTrial>) {
        let (mut whole, mut left_out) = (Vec::new(), Vec::new());
        for trial in &self.trials {
            match self.not_whole(trial) {
                Some(why) => left_out.push(LeftOutTrial { trial: trial.trial, why }),
                None => whole.push(*trial),
            }
        }
        (whole, left_out)
    }

    fn not_whole(&self, trial: &TrialResult) -> Option<String> {
        if let Some(failure) = &trial.failure {
            return Some(format!("ended early, in {}: {}", failure.during, failure.message));
        }
        let partial = |phase: &crate::PhaseResult| Some((phase.name.clone(), phase.partial.clone()?));
        if let Some((phase, why)) = trial.phases.iter().find_map(partial) {
            return Some(format!("phase {phase} ended early: {why}"));
        }
        let run = &self.run.run;
        let last = run.trials.last().is_some_and(|last| last.trial == trial.trial);
        // If the run ended between two phases, only the missing phases show it.
        let planned = run.plan.phases_of(trial.configuration.as_str()).count();
        (last && run.run.unfinished().is_some() && trial.phases.len() < planned)
            .then(|| "phases are missing".to_owned())
    }
}

/// Pairs of configurations, and those without a counterpart.
pub(super) struct Matched<'a> {
    pub(super) pairs: Vec<(SideConfiguration<'a>, SideConfiguration<'a>)>,
    pub(super) unmatched: Vec<UnmatchedConfiguration>,
}

/// The pairs to compare. Within one run: its first configuration (or the selected one) with each other one. Of several
/// runs: each run with the first, configurations of the same name.
pub(super) fn matched(sides: &[Source]) -> Result<Matched<'_>, CompareError> {
    let mut found = Matched { pairs: Vec::new(), unmatched: Vec::new() };
    let Some((first, others)) = sides.split_first() else {
        return Err(CompareError::Nothing("give a run to compare".to_owned()));
    };
    let bases = first.configurations()?;
    if others.is_empty() {
        let Some(base) = bases.first() else { return Ok(found) };
        let others = first.all_configurations().into_iter().filter(|configuration| configuration.name != base.name);
        found.pairs = others.map(|configuration| (base.clone(), configuration)).collect();
        if found.pairs.is_empty() {
            return Err(CompareError::Nothing(format!(
                "{} has one configuration, `{}`: give another run to compare it with, or a --baseline",
                first.label(),
                base.name
            )));
        }
        return Ok(found);
    }
    for other in others {
        let configurations = other.configurations()?;
        if let ([a], [b]) = (bases.as_slice(), configurations.as_slice()) {
            found.pairs.push((a.clone(), b.clone()));
            continue;
        }
        let before = found.pairs.len();
        for a in &bases {
            match configurations.iter().find(|b| b.name == a.name) {
                Some(b) => found.pairs.push((a.clone(), b.clone())),
                None if other.configuration.is_none() => found.leave(a),
                None => {}
            }
        }
        if found.pairs.len() == before {
            let names = |configurations: &[SideConfiguration<'_>]| {
                super::error::list(&configurations.iter().map(|configuration| configuration.name).collect::<Vec<_>>())
            };
            return Err(CompareError::Nothing(format!(
                "{} and {} have no configuration in common: {} and {}; choose one of each with RUN#CONFIGURATION",
                first.label(),
                other.label(),
                names(&bases),
                names(&configurations)
            )));
        }
        if first.configuration.is_none() {
            configurations.iter().filter(|b| bases.iter().all(|a| a.name != b.name)).for_each(|b| found.leave(b));
        }
    }
    Ok(found)
}

impl UnmatchedConfiguration {
    fn of(run: &str, configuration: &str) -> Self {
        Self { run: run.to_owned(), configuration: configuration.to_owned(), why: None }
    }
}

impl Matched<'_> {
    fn leave(&mut self, configuration: &SideConfiguration<'_>) {
        let left = UnmatchedConfiguration::of(&configuration.source.label(), configuration.name);
        if !self.unmatched.contains(&left) {
            self.unmatched.push(left);
        }
    }
}
