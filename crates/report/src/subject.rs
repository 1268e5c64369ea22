//! Several runs as one subject: each configuration with its colour, the same everywhere.

use std::collections::HashSet;

use indexmap::IndexSet;
use storebench_results::TrialResult;
use storebench_results::answer::answer;
use storebench_results::configurations::configuration_of;

use crate::recorded::Recorded;

/// Colours that can be told apart, also by those who see fewer; more configurations get dashes too.
pub(crate) const COLOURS: usize = 8;
/// Ways in which a line is broken, the whole one among them.
const DASHES: usize = 4;

/// A configuration of a run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct ConfigurationOf {
    /// Position of its run.
    pub(crate) run: usize,
    /// Its name; with several runs behind that of its run.
    pub(crate) name: String,
    /// Its name in its run.
    #[serde(skip)]
    pub(crate) own: String,
    /// Its colour, from 0.
    pub(crate) colour: usize,
    /// How its line is broken, from 0 (whole).
    pub(crate) dash: usize,
}

/// What a report is about.
#[derive(Debug)]
pub struct Subject {
    /// The runs, in the order given.
    pub runs: Vec<Recorded>,
    pub(crate) configurations: Vec<ConfigurationOf>,
    answers: Vec<String>,
}

impl Subject {
    /// The phases that the answers of the runs are of.
    pub(crate) fn answers(&self) -> &[String] {
        &self.answers
    }

    /// These runs.
    pub fn of(runs: Vec<Recorded>) -> Self {
        let names = run_names(&runs);
        let mut configurations = Vec::new();
        for (run, (recorded, run_name)) in runs.iter().zip(&names).enumerate() {
            let configurations_of_run =
                recorded.result.configurations.iter().map(|configuration| configuration.configuration.as_str());
            let own: IndexSet<&str> =
                configurations_of_run.chain(recorded.result.trials.iter().map(configuration_of)).collect();
            for name in own {
                configurations.push(ConfigurationOf {
                    run,
                    name: if runs.len() > 1 { format!("{run_name}: {name}") } else { name.to_owned() },
                    own: name.to_owned(),
                    colour: 0,
                    dash: 0,
                });
            }
        }
        // The first configuration of each store stands for it where a line is of several configurations: those differ first.
        let store_of = |configuration: &ConfigurationOf| {
            let result = &runs[configuration.run].result;
            let of = result.trials.iter().find(|trial| configuration_of(trial) == configuration.own);
            (configuration.run, of.map_or(configuration.own.clone(), |trial| trial.store.clone()))
        };
        let mut stores = HashSet::new();
        let (mut order, others): (Vec<usize>, Vec<usize>) =
            (0..configurations.len()).partition(|at| stores.insert(store_of(&configurations[*at])));
        order.extend(others);
        for (nth, at) in order.into_iter().enumerate() {
            (configurations[at].colour, configurations[at].dash) = (nth % COLOURS, nth / COLOURS % DASHES);
        }
        let answers = runs.iter().filter_map(|run| answer(&run.result).phase).collect();
        Self { runs, configurations, answers }
    }

    /// The position of a trial's configuration.
    pub(crate) fn configuration(&self, run: usize, trial: &TrialResult) -> usize {
        self.position(run, configuration_of(trial))
    }

    /// The position of a configuration by its name in its run.
    pub(crate) fn position(&self, run: usize, own: &str) -> usize {
        self.configurations
            .iter()
            .position(|configuration| configuration.run == run && configuration.own == own)
            .unwrap_or(0)
    }

    /// Trials with the positions of their runs and configurations.
    pub(crate) fn trials(&self) -> impl Iterator<Item = (usize, usize, &TrialResult)> {
        self.runs.iter().enumerate().flat_map(move |(run, of)| {
            of.result.trials.iter().map(move |trial| (run, self.configuration(run, trial), trial))
        })
    }
}

/// Names of runs that differ: the name, and where two are alike a number behind it.
pub(crate) fn run_names(runs: &[Recorded]) -> Vec<String> {
    let name = |run: &Recorded| {
        let folder = run.folder.file_name().map(|n| n.to_string_lossy().into_owned());
        folder.filter(|n| !n.is_empty() && n != ".").unwrap_or_else(|| run.result.run.name.clone())
    };
    let all: Vec<String> = runs.iter().map(name).collect();
    all.iter()
        .enumerate()
        .map(|(at, name)| match all[..at].iter().filter(|earlier| *earlier == name).count() {
            0 => name.clone(),
            n => format!("{name} ({})", n + 1),
        })
        .collect()
}
