//! The lines of a history: one figure of one configuration, run after run, on one machine.

use indexmap::IndexMap;

use super::model::{HistoryConfiguration, HistoryEntry};
use crate::figures::{Measure, measure_of};

/// One figure of one configuration over runs that can be compared.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) of: LineOf<'a>,
    pub(super) measure: Measure,
    pub(super) points: Vec<Point<'a>>,
    /// Runs without a value.
    pub(super) without: u32,
    /// Runs in which the figure is invalid.
    pub(super) invalid: u32,
}

/// What a line is of. Runs that differ in any of these are not compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LineOf<'a> {
    pub(super) configuration: &'a str,
    pub(super) figure: &'a str,
    pub(super) machine: &'a str,
    pub(super) host: Option<&'a str>,
    pub(super) work: &'a str,
}

/// The figure of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point<'a> {
    pub(super) entry: &'a HistoryEntry,
    pub(super) version: &'a str,
    pub(super) value: f64,
    /// The ends of its interval over the run's trials.
    pub(super) ends: [Option<f64>; 2],
}

/// The lines of these entries, oldest first: figures that `wanted` names, or those that stand for their phase.
pub(super) fn lines<'a>(entries: &[&'a HistoryEntry], wanted: &[String]) -> Vec<Line<'a>> {
    let mut lines: IndexMap<LineOf<'a>, Line<'a>> = IndexMap::new();
    for entry in entries {
        for configuration in &entry.configurations {
            for (figure, measure) in figures(configuration, wanted) {
                let of = LineOf {
                    configuration: &configuration.configuration,
                    figure,
                    machine: &entry.machine,
                    host: configuration.host.as_deref(),
                    work: &configuration.work,
                };
                let line = lines.entry(of.clone()).or_insert_with(|| Line {
                    of,
                    measure,
                    points: Vec::new(),
                    without: 0,
                    invalid: 0,
                });
                match configuration.counted(figure) {
                    Some(value) => {
                        let [_, low, high] = configuration.figures[figure];
                        let version = &configuration.version;
                        line.points.push(Point { entry, version, value, ends: [low, high] });
                    }
                    None if configuration.is_invalid(figure) => line.invalid += 1,
                    None => line.without += 1,
                }
            }
        }
    }
    lines.into_values().collect()
}

impl Line<'_> {
    /// Whether this run belongs to it, with or without a value.
    pub(super) fn has(&self, entry: &HistoryEntry) -> bool {
        let is_it = |of: &HistoryConfiguration| {
            of.configuration == self.of.configuration && of.host.as_deref() == self.of.host && of.work == self.of.work
        };
        entry.machine == self.of.machine && entry.configurations.iter().any(is_it)
    }
}

impl HistoryConfiguration {
    /// The value of a figure, if it has one and no check found it invalid.
    pub(super) fn counted(&self, figure: &str) -> Option<f64> {
        let value = self.figures.get(figure)?[0].filter(|value| value.is_finite() && *value > 0.0);
        value.filter(|_| !self.is_invalid(figure))
    }

    /// Whether a check found this figure invalid.
    fn is_invalid(&self, figure: &str) -> bool {
        let about = |phase: &str| figure.strip_prefix(phase).is_some_and(|rest| rest.starts_with('.'));
        self.invalid.iter().any(|invalid| invalid.phase.as_deref().is_none_or(about))
    }
}

/// The figures of a configuration that are wanted. Without a wish, one for each phase: the rate within limits if it was
/// searched, else p99 of the response time where operations came at a rate, else documents or operations each second.
pub(super) fn figures<'a>(of: &'a HistoryConfiguration, wanted: &[String]) -> Vec<(&'a str, Measure)> {
    let known = of.figures.keys().filter_map(|name| Some((name.as_str(), measure_of(name)?)));
    if !wanted.is_empty() {
        return known.filter(|(name, _)| wanted.iter().any(|path| is_named(name, path))).collect();
    }
    let mut places: IndexMap<&str, IndexMap<&str, (&str, Measure)>> = IndexMap::new();
    for (name, measure) in known {
        let place = name.strip_suffix(measure.name).and_then(|place| place.strip_suffix('.')).unwrap_or_default();
        places.entry(place).or_default().insert(measure.name, (name, measure));
    }
    let is_op =
        |place: &str| places.keys().any(|phase| place.strip_prefix(phase).is_some_and(|rest| rest.starts_with('.')));
    let stands = |(place, figures): (&&'a str, &IndexMap<&'a str, (&'a str, Measure)>)| {
        let many = of.figures.get(&format!("{place}.documents")) != of.figures.get(&format!("{place}.throughput"));
        let rate = if many { "documents" } else { "throughput" };
        ["rate-within-limits", "response.p99", rate, "throughput"].iter().find_map(|name| figures.get(*name).copied())
    };
    places.iter().filter(|(place, _)| !is_op(place)).filter_map(stands).collect()
}

/// Whether a path, `[PHASE.][OP.]MEASURE`, names a figure.
pub(super) fn is_named(figure: &str, path: &str) -> bool {
    let ends =
        |name: &str, end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    measure_of(figure).is_some_and(|measure| ends(path, measure.name)) && ends(figure, path)
}
