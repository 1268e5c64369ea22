//! The lines of a history: one figure of one configuration, run after run, on one machine.

use indexmap::{IndexMap, IndexSet};

use super::changes::LEAST_BEFORE;
use super::model::{HistoryConfiguration, HistoryEntry};
use crate::figures::{Measure, measure_of};

/// What a phase is judged by whose rate was given, the first choice first.
const TIMES: [&str; 4] = ["response.p99", "response.p95", "response.p90", "response.p50"];

/// One figure of one configuration over runs that can be compared.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) of: LineOf<'a>,
    pub(super) measure: Measure,
    /// The newest run of it, with or without a value.
    pub(super) newest: &'a HistoryEntry,
    pub(super) points: Vec<Point<'a>>,
    /// Runs without a value.
    pub(super) without: u32,
    /// Those since the last that counts or has a lower bound.
    pub(super) without_since: u32,
    /// Runs in which the figure is invalid.
    pub(super) invalid: u32,
}

/// What a line is of. Runs that differ in any of these are not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    let mut alike: IndexMap<LineOf<'a>, (Vec<&'a HistoryEntry>, Vec<&'a HistoryConfiguration>)> = IndexMap::new();
    for entry in entries {
        for configuration in &entry.configurations {
            let of = LineOf {
                configuration: &configuration.configuration,
                figure: "",
                machine: &entry.machine,
                host: configuration.host.as_deref(),
                work: &configuration.work,
            };
            let (entries, configurations) = alike.entry(of).or_default();
            entries.push(entry);
            configurations.push(configuration);
        }
    }
    let line = |(of, (entries, configurations)): (LineOf<'a>, (Vec<&'a HistoryEntry>, Vec<_>))| {
        let figures = figures(&configurations, wanted).into_iter();
        let runs = || entries.iter().copied().zip(configurations.iter().copied());
        figures.filter_map(|(figure, measure)| Line::of(LineOf { figure, ..of }, measure, runs())).collect::<Vec<_>>()
    };
    alike.into_iter().flat_map(line).collect()
}

impl<'a> Line<'a> {
    /// The line of a figure in these runs. `None` without any.
    fn of(
        of: LineOf<'a>,
        measure: Measure,
        runs: impl Iterator<Item = (&'a HistoryEntry, &'a HistoryConfiguration)>,
    ) -> Option<Self> {
        let (mut newest, mut points) = (None, Vec::new());
        let (mut without, mut without_since, mut invalid) = (0, 0, 0);
        for (entry, configuration) in runs {
            newest = Some(entry);
            let [value, low, high] = configuration.figures.get(of.figure).copied().unwrap_or_default();
            match (configuration.value(of.figure), configuration.counted(of.figure)) {
                (_, Some(value)) => {
                    points.push(Point { entry, version: &configuration.version, value, ends: [low, high] });
                    without_since = 0;
                }
                (Some(_), None) => invalid += 1,
                (None, None) => {
                    without += 1;
                    without_since = if value.is_none() && low.is_some() { 0 } else { without_since + 1 };
                }
            }
        }
        Some(Self { of, measure, newest: newest?, points, without, without_since, invalid })
    }
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
        self.value(figure).filter(|_| !self.is_invalid(figure))
    }

    /// The value of a figure, if it has one.
    fn value(&self, figure: &str) -> Option<f64> {
        self.figures.get(figure)?[0].filter(|value| value.is_finite() && *value > 0.0)
    }

    /// Whether a check found this figure invalid.
    fn is_invalid(&self, figure: &str) -> bool {
        let about = |phase: &str| figure.strip_prefix(phase).is_some_and(|rest| rest.starts_with('.'));
        self.invalid.iter().any(|invalid| invalid.phase.as_deref().is_none_or(about))
    }
}

/// The figures that are wanted, of runs that can be compared, if any of these has a value of them. Without a wish, one
/// for each phase.
pub(super) fn figures<'a>(runs: &[&'a HistoryConfiguration], wanted: &[String]) -> Vec<(&'a str, Measure)> {
    let mut known: IndexMap<&'a str, Measure> = IndexMap::new();
    for name in runs.iter().flat_map(|of| of.figures.keys()) {
        if !known.contains_key(name.as_str()) {
            known.extend(measure_of(name).map(|measure| (name.as_str(), measure)));
        }
    }
    let mut found: Vec<&'a str> = known.keys().copied().collect();
    if wanted.is_empty() {
        let place = |(name, measure): (&&'a str, &Measure)| name.strip_suffix(measure.name)?.strip_suffix('.');
        let places: IndexSet<&'a str> = known.iter().filter_map(place).collect();
        let is_op = |place: &str| {
            places.iter().any(|phase| place.strip_prefix(phase).is_some_and(|rest| rest.starts_with('.')))
        };
        let phases = places.iter().filter(|place| !is_op(place));
        found = phases.filter_map(|phase| main_figure(phase, &known, runs)).collect();
    } else {
        found.retain(|name| wanted.iter().any(|path| is_named(name, path)));
    }
    found.retain(|name| runs.iter().any(|of| of.value(name).is_some()));
    found.into_iter().map(|name| (name, known[name])).collect()
}

/// The figure that stands for a phase: the rate within limits if it was searched; else, where operations came at a rate,
/// the highest percentile of the response time that most of the first runs have, up to p99; else documents or operations
/// each second. It is that of all runs together, so that no odd night has another one.
fn main_figure<'a>(phase: &str, known: &IndexMap<&'a str, Measure>, runs: &[&HistoryConfiguration]) -> Option<&'a str> {
    let find = |measure: &str| known.get_key_value(format!("{phase}.{measure}").as_str()).map(|(name, _)| *name);
    let times: Vec<&str> = TIMES.iter().filter_map(|measure| find(measure)).collect();
    let with = |name: &str, of: &HistoryConfiguration| of.value(name).is_some();
    let first = runs.iter().filter(|of| times.iter().any(|name| with(name, of)));
    let first: Vec<&&HistoryConfiguration> = first.take(LEAST_BEFORE).collect();
    let most = |name: &&str| 2 * first.iter().filter(|of| with(name, of)).count() >= first.len();
    let in_documents = runs.iter().any(|of| of.in_documents.iter().any(|name| name == phase));
    let rates = if in_documents { ["documents", "throughput"] } else { ["throughput", "documents"] };
    match (find("rate-within-limits"), times.is_empty()) {
        (Some(searched), _) => Some(searched),
        (None, false) => times.iter().copied().find(most),
        (None, true) => rates.iter().find_map(|measure| find(measure)),
    }
}

/// Whether a path, `[PHASE.][OP.]MEASURE`, names a figure.
pub(super) fn is_named(figure: &str, path: &str) -> bool {
    let ends =
        |name: &str, end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    measure_of(figure).is_some_and(|measure| ends(path, measure.name)) && ends(figure, path)
}
