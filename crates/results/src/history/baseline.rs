//! The last runs of a history, which a new run is compared with.

use std::collections::BTreeSet;
use std::path::Path;

use super::changes::{Change, FalseAlarms, changes};
use super::folder::{HistoryError, read};
use super::lines::{Point, figures};
use super::model::{HistoryConfiguration, HistoryEntry};
use super::report::also_changed;
use crate::RunResult;
use crate::human::plural;

/// The runs of a history that a new run is compared with, unless another number is given.
pub const DEFAULT_LAST: u16 = 20;

/// For each run and direction, how often a change may be found where none is.
const RARELY: f64 = 1.0 / 2_000.0;

/// The runs of a branch, as the baseline of a comparison.
#[derive(Debug, Clone)]
pub struct HistoryBaseline {
    name: String,
    /// Oldest first.
    entries: Vec<HistoryEntry>,
    last: usize,
}

impl HistoryBaseline {
    /// Reads the history in a folder: the runs of this branch, or of any if it is empty. Of those that can be compared, at
    /// most the last so many count.
    ///
    /// # Errors
    /// As [`read`], and if the branch has no runs.
    pub fn open(folder: &Path, branch: &str, last: usize) -> Result<Self, HistoryError> {
        let mut entries = read(folder)?;
        let wanted = |entry: &HistoryEntry| branch.is_empty() || entry.branch.as_deref() == Some(branch);
        if !entries.iter().any(wanted) {
            return Err(no_runs_of(branch, &entries));
        }
        entries.retain(wanted);
        Ok(Self::of(branch, entries, last))
    }

    pub(crate) fn of(branch: &str, entries: Vec<HistoryEntry>, last: usize) -> Self {
        Self { name: format!("history:{branch}"), entries, last }
    }

    /// Its runs, oldest first.
    pub fn into_entries(self) -> Vec<HistoryEntry> {
        self.entries
    }

    /// `history:main`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The runs that did the same work as this configuration of these runs, on the same machine, and began before them.
    ///
    /// # Errors
    /// There are none: with what differs.
    pub(crate) fn runs_of(&self, runs: &[&RunResult], configuration: &str) -> Result<KnownRuns<'_>, HistoryError> {
        let none = |why: String| {
            Err(HistoryError::Nothing(format!("{} has no run to compare {configuration} with: {why}", self.name)))
        };
        let mut of: Vec<HistoryEntry> = runs.iter().map(|run| HistoryEntry::of(run, None, None)).collect();
        of.sort_by(|a, b| a.began.cmp(&b.began));
        let began = of.first().map(|of| of.began.clone()).unwrap_or_default();
        let Some(newest) = of.pop() else { return none("no run is given".to_owned()) };
        let Some(own) = newest.configuration(configuration) else { return none("it has no complete trial".to_owned()) };
        for entry in &of {
            let differs = |other| difference((entry, other), (&newest, own));
            let other = entry.configuration(configuration);
            if let Some(why) = other.map_or(Some("only some of its runs have it".to_owned()), differs) {
                return none(why);
            }
        }
        let mut why = "none began before it".to_owned();
        let mut found = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.began < began) {
            "none has a configuration of that name".clone_into(&mut why);
            let Some(other) = entry.configuration(configuration) else { continue };
            match difference((entry, other), (&newest, own)) {
                Some(differs) => why = differs,
                None => found.push((entry, other)),
            }
        }
        let Some((last, known)) = found.last().copied() else { return none(why) };
        let all: Vec<&HistoryConfiguration> = found.iter().map(|(_, of)| *of).chain([own]).collect();
        let point = |entry, of| Point { entry, version: of, value: 1.0, ends: [None; 2] };
        Ok(KnownRuns {
            also_changed: also_changed(&point(last, known.version.as_str()), &point(&newest, own.version.as_str())),
            main: figures(&all, &[]).into_iter().map(|(name, _)| name.to_owned()).collect(),
            runs: found,
            last: self.last,
        })
    }
}

/// The error about a branch that has no runs: it names those that have some.
pub(super) fn no_runs_of(branch: &str, entries: &[HistoryEntry]) -> HistoryError {
    let branches: BTreeSet<&str> = entries.iter().filter_map(|entry| entry.branch.as_deref()).collect();
    let without = entries.iter().filter(|entry| entry.branch.is_none()).count() as u64;
    let without = (without > 0).then(|| format!("{} without a branch", plural(without, "run")));
    let all: Vec<String> = branches.into_iter().map(str::to_owned).chain(without).collect();
    HistoryError::Nothing(format!("the history has no runs of branch `{branch}`; it has: {}", all.join(", ")))
}

impl HistoryEntry {
    /// Its configuration of this name.
    pub(super) fn configuration(&self, name: &str) -> Option<&HistoryConfiguration> {
        self.configurations.iter().find(|of| of.configuration == name)
    }
}

/// A configuration of a run.
pub(super) type OfRun<'a> = (&'a HistoryEntry, &'a HistoryConfiguration);

/// The first that differs, of those that a line is of. `None` if both can be compared.
pub(super) fn difference((entry, a): OfRun<'_>, (newest, b): OfRun<'_>) -> Option<String> {
    let host = |host: &Option<String>| host.clone().unwrap_or_else(|| "this machine".to_owned());
    [
        ("machine", entry.machine.clone(), newest.machine.clone()),
        ("host of the store", host(&a.host), host(&b.host)),
        ("number of the work (study, seed, scale, options)", a.work.clone(), b.work.clone()),
    ]
    .into_iter()
    .find(|(_, a, b)| a != b)
    .map(|(what, a, b)| format!("the {what} differs: {a}, and {b} here"))
}

/// Runs of a history that can be compared with a configuration.
#[derive(Debug)]
pub(crate) struct KnownRuns<'a> {
    /// All of its line, oldest first.
    pub(crate) runs: Vec<OfRun<'a>>,
    last: usize,
    /// The figures that stand for the phases.
    pub(crate) main: Vec<String>,
    /// What else differs between the newest of them and the configuration: versions, kernel.
    pub(crate) also_changed: Vec<String>,
}

impl KnownRuns<'_> {
    /// Whether one of them keeps this figure, with or without a value that counts.
    pub(crate) fn have(&self, figure: &str) -> bool {
        self.runs.iter().any(|(_, of)| of.figures.contains_key(figure))
    }

    /// The values of a figure in the last runs that have one that counts, each with the place of its run among all, and
    /// whether earlier ones were left out because the figure changed there: those say nothing about the level of today.
    pub(crate) fn values(&self, figure: &str) -> (Vec<(usize, f64)>, bool) {
        let of = |(place, (_, of)): (usize, &(_, &HistoryConfiguration))| Some((place, of.counted(figure)?));
        let all: Vec<(usize, f64)> = self.runs.iter().enumerate().filter_map(of).collect();
        let begin = all.len().saturating_sub(self.last);
        let since = last_change(&all.iter().map(|(_, value)| *value).collect::<Vec<_>>());
        (all[begin.max(since)..].to_vec(), since > begin)
    }
}

/// Where the level of these values begins: at their last change. Only a large one is sure enough to leave out what was
/// before it.
pub(super) fn last_change(values: &[f64]) -> usize {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    changes(&logs, FalseAlarms { up: RARELY, down: RARELY }).changes.last().map_or(0, Change::today)
}
