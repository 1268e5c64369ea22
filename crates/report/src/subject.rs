//! The subject of a report: runs, and for each configuration its colour and panel, the same in every chart.

use indexmap::{IndexMap, IndexSet};
use storebench_results::TrialResult;
use storebench_results::answer::answer;

use crate::recorded::Recorded;

/// Hues that people with any kind of colour vision can distinguish.
pub(crate) const COLOURS: usize = 8;
/// The lightest value of a factor keeps this share of its store's hue, in percent.
const LIGHTEST: usize = 45;
/// Up to this many configurations share one panel of a chart over time.
const MOST_TOGETHER: usize = 3;
/// Up to this many panels show one configuration each. If there are more, a panel shows a store.
const MOST_PANELS: usize = 16;

/// A configuration of a run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct ConfigurationOf {
    /// Position of its run.
    pub(crate) run: usize,
    /// Its name, after that of its run if there are several runs.
    pub(crate) name: String,
    /// Its name in its run.
    #[serde(skip)]
    pub(crate) own: String,
    /// The hue of its store, from 0.
    pub(crate) colour: usize,
    /// How much of that hue it has, in percent. Each further value of a factor is lighter.
    pub(crate) shade: usize,
    /// The panel that shows it in charts with panels, from 0.
    pub(crate) panel: usize,
}

/// A configuration's colour in SVG: a class for the hue, and a style for its strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hue {
    pub(crate) colour: usize,
    pub(crate) shade: usize,
}

impl Hue {
    /// The class: `bar c2`, with `kind` first.
    pub(crate) fn class(self, kind: &str) -> String {
        format!("{kind} c{}", self.colour)
    }

    /// The style: `--k:70%`; none for the full hue.
    pub(crate) fn style(self) -> Option<String> {
        (self.shade < 100).then(|| format!("--k:{}%", self.shade))
    }
}

/// The runs of a report.
#[derive(Debug, Default)]
pub struct Subject {
    /// The runs, in the order given.
    pub runs: Vec<Recorded>,
    pub(crate) configurations: Vec<ConfigurationOf>,
    /// Names of the panels of charts over time.
    pub(crate) panels: Vec<String>,
    /// Number of columns of panels; by default, as many as fit.
    pub(crate) columns: Option<usize>,
    /// The phases that the answers of the runs are about.
    pub(crate) answers: Vec<String>,
}

impl Subject {
    /// Creates the subject from these runs.
    pub fn of(runs: Vec<Recorded>) -> Self {
        let names = run_names(&runs);
        let mut configurations = Vec::new();
        for (run, (recorded, run_name)) in runs.iter().zip(&names).enumerate() {
            let of = &recorded.result;
            let in_trials = of.trials.iter().map(|trial| trial.configuration.as_str());
            let own: IndexSet<&str> =
                of.configurations.iter().map(|of| of.configuration.as_str()).chain(in_trials).collect();
            for name in own {
                configurations.push(ConfigurationOf {
                    run,
                    name: if runs.len() > 1 { format!("{run_name}: {name}") } else { name.to_owned() },
                    own: name.to_owned(),
                    colour: 0,
                    shade: 100,
                    panel: 0,
                });
            }
        }
        // One hue for each store of each run; lightness for the values of its factors.
        let mut stores: IndexMap<(usize, String), Vec<usize>> = IndexMap::new();
        for (at, configuration) in configurations.iter().enumerate() {
            let trials = &runs[configuration.run].result.trials;
            let of = trials.iter().find(|trial| trial.configuration.as_str() == configuration.own);
            let store = of.map_or_else(|| configuration.own.clone(), |trial| trial.store.clone());
            stores.entry((configuration.run, store)).or_default().push(at);
        }
        let all = configurations.len();
        let mut panels = Vec::new();
        for (nth, ((run, store), of)) in stores.iter().enumerate() {
            for (value, at) in of.iter().enumerate() {
                let configuration = &mut configurations[*at];
                configuration.colour = nth % COLOURS;
                configuration.shade = 100 - (100 - LIGHTEST) * value / of.len().max(2).saturating_sub(1);
                configuration.panel = match all {
                    0..=MOST_TOGETHER => 0,
                    _ if all <= MOST_PANELS => *at,
                    _ => nth,
                };
            }
            if all > MOST_PANELS {
                panels.push(if runs.len() > 1 { format!("{}: {store}", names[*run]) } else { store.clone() });
            }
        }
        if (MOST_TOGETHER + 1..=MOST_PANELS).contains(&all) {
            panels = configurations.iter().map(|configuration| configuration.name.clone()).collect();
        }
        let answers = runs.iter().filter_map(|run| answer(&run.result).phase).collect();
        Self { runs, configurations, panels, columns: None, answers }
    }

    /// Gives each of these configurations its own panel, with this name. The others get none.
    pub(crate) fn in_panels(&mut self, names: &IndexMap<usize, String>) {
        self.panels = names.values().cloned().collect();
        for (at, configuration) in self.configurations.iter_mut().enumerate() {
            // Lines of a configuration without a panel are left out.
            configuration.panel = names.get_index_of(&at).unwrap_or(names.len());
        }
    }

    /// Gives a configuration this hue, in full.
    pub(crate) fn paint(&mut self, at: usize, colour: usize) {
        if let Some(of) = self.configurations.get_mut(at) {
            (of.colour, of.shade) = (colour, 100);
        }
    }

    /// The colour of a configuration.
    pub(crate) fn hue(&self, at: usize) -> Hue {
        self.configurations
            .get(at)
            .map_or(Hue { colour: 0, shade: 100 }, |of| Hue { colour: of.colour, shade: of.shade })
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
            of.result.trials.iter().map(move |trial| (run, self.position(run, &trial.configuration), trial))
        })
    }
}

/// Names of runs. If two have the same name, a number follows.
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
