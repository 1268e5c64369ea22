//! Charts over time: a line for each trial, with aligned phases.
//!
//! Trials take different times for the same load. To be comparable, each phase begins at the same place on the axis for
//! all trials, after the longest run of the phase before it.

use indexmap::{IndexMap, IndexSet};
use storebench_results::stats::SeriesEventKind;
use storebench_results::{PhaseResult, TrialResult, in_documents};

use super::means::means;
use super::work;
use crate::data::{Axis, Chart, Mark, MarkKind, Moment, Scale, Series, Unit};
use crate::recorded::IntervalRow;
use crate::subject::Subject;

/// With more trials than this, a chart shows one round at first.
const MOST_LINES: usize = 12;
/// The most points of a line. Longer lines combine neighbouring intervals.
const MOST_POINTS: usize = 4_000;

/// Where each phase begins on the common axis, in seconds.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    phases: IndexMap<String, Span>,
    /// The gap between two phases, so that their lines do not touch.
    gap_s: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Span {
    from_s: f64,
    length_s: f64,
    warm_up: bool,
    loads: bool,
}

impl Timeline {
    /// The axis of all trials of all runs. Phases are in order of first appearance.
    pub(crate) fn of(subject: &Subject) -> Self {
        let mut phases: IndexMap<String, Span> = IndexMap::new();
        for (_, _, trial) in subject.trials() {
            for phase in &trial.phases {
                let span = phases.entry(phase.name.clone()).or_default();
                span.length_s = span.length_s.max(phase.elapsed_ns as f64 / 1e9);
                span.warm_up |= phase.warm_up;
                span.loads |= phase.loads;
            }
        }
        Self::laid_out(phases)
    }

    /// Places one phase after another.
    fn laid_out(mut phases: IndexMap<String, Span>) -> Self {
        let whole: f64 = phases.values().map(|span| span.length_s).sum();
        let (mut from_s, gap_s) = (0.0, whole / 200.0);
        for span in phases.values_mut() {
            span.from_s = from_s;
            from_s += span.length_s + gap_s;
        }
        Self { phases, gap_s }
    }

    /// A moment of a phase on the axis, in seconds. Samples after the end of the phase stay before the next phase.
    pub(crate) fn at(&self, phase: &str, ns: u64) -> f64 {
        let Some(span) = self.phases.get(phase) else { return 0.0 };
        span.from_s + (ns as f64 / 1e9).min(span.length_s + self.gap_s / 2.0)
    }

    /// The length of the axis, in seconds.
    pub(super) fn length(&self) -> f64 {
        self.phases.values().last().map_or(0.0, |last| last.from_s + last.length_s)
    }

    /// Where phases begin and end.
    fn marks(&self) -> Vec<Mark> {
        self.phases
            .iter()
            .map(|(name, span)| Mark {
                at: Moment(span.from_s),
                to: Some(Moment(span.from_s + span.length_s)),
                label: if span.warm_up && name != "warm-up" { format!("{name} (warm-up)") } else { name.clone() },
                kind: MarkKind::Phase,
                configuration: None,
            })
            .collect()
    }

    /// Where the first measured phase begins; none if that is the first phase. A load counts only if an answer is about it,
    /// or if there is nothing else.
    fn measured_from(&self, answers: &[String]) -> Option<Moment> {
        let measured = || self.phases.iter().filter(|(_, span)| !span.warm_up);
        let asked = measured().find(|(name, span)| !span.loads || answers.contains(name));
        let (_, first) = asked.or_else(|| measured().next())?;
        (first.from_s > 0.0).then_some(Moment(first.from_s))
    }

    /// A chart over this axis, which at first shows what was measured.
    pub(crate) fn chart(&self, subject: &Subject, id: &str, title: &str) -> Chart {
        Chart {
            group: Some("time".to_owned()),
            panels: subject.panels.len() > 1,
            from: self.measured_from(&subject.answers),
            marks: self.marks(),
            ..Chart::lines(id, title, Axis::new("time (phases aligned)", Unit::Seconds, Scale::Linear))
        }
    }
}

/// The label of a trial's line, and its keys.
pub(crate) fn line_of(subject: &Subject, run: usize, trial: &TrialResult) -> (String, IndexMap<String, String>) {
    let label = if is_alone(subject, run, trial) { String::new() } else { format!("trial {}", trial.trial) };
    (label, [("round".to_owned(), trial.round.to_string())].into())
}

/// The round that a chart shows at first; none if it shows all rounds together. Then `round` is removed as a choice.
pub(crate) fn round_at_first(subject: &Subject, chart: &mut Chart) -> Option<String> {
    if subject.trials().count() > MOST_LINES {
        return Some("1".to_owned());
    }
    for series in &mut chart.series {
        series.keys.shift_remove("round");
    }
    None
}

/// The fewest intervals of a phase for charts over time.
const FEWEST_POINTS: usize = 3;

/// Whether some phase is long enough for charts over time.
pub(crate) fn is_long_enough(subject: &Subject) -> bool {
    let phases = subject.trials().flat_map(|(_, _, trial)| &trial.phases);
    phases.into_iter().any(|phase| phase.intervals >= FEWEST_POINTS as u64)
}

/// Throughput, latency percentiles and errors over time; none if all phases are too short.
pub(super) fn charts(subject: &Subject, axis: &Timeline) -> Vec<Chart> {
    if !is_long_enough(subject) {
        return Vec::new();
    }
    let mut throughput = axis.chart(subject, "throughput-over-time", "Throughput over time");
    throughput.about =
        "Completed work per second: one line for each trial, in the colour of its configuration. A line that falls or \
         jumps shows that the store was not in a steady state. Dips to zero are stalls."
            .to_owned();
    let mut times = axis.chart(subject, "latency-over-time", "Latency over time");
    times.about =
        "Latency percentiles of each interval, from its own histogram; none is an average. Open loops show response \
         times, which count from the scheduled start. Closed loops show service times."
            .to_owned();
    let mut errors = axis.chart(subject, "errors-over-time", "Errors over time");
    errors.about = "Failed operations per second.".to_owned();
    let by_documents = by_documents(subject);
    let mut phases = subject.trials().flat_map(|(_, _, trial)| &trial.phases);
    let unit = if by_documents.is_empty() {
        "ops/s"
    } else if phases.all(|phase| by_documents.contains(phase.name.as_str())) {
        "docs/s"
    } else {
        throughput.about += " Loads and bulk operations count documents, other phases operations.";
        "docs/s or ops/s"
    };
    let per_s = throughput.axis(Axis::new(unit, Unit::PerSecond, Scale::Linear));
    let errors_axis = errors.axis(Axis::new("errors/s", Unit::PerSecond, Scale::Linear));
    let time_axis = times.axis(Axis::new("time", Unit::Ns, Scale::Log));
    let done =
        |row: &IntervalRow| if by_documents.contains(row.phase.as_str()) { row.documents } else { row.succeeded };
    let rows_of = |run: usize, trial: &TrialResult| -> Vec<&IntervalRow> {
        subject.runs[run].intervals.iter().filter(|row| row.trial == trial.trial).collect()
    };
    let mut banded = false;
    for (run, configuration, trial) in subject.trials() {
        let (label, keys) = line_of(subject, run, trial);
        let rows = rows_of(run, trial);
        let line = |axis| Series::new(configuration, label.clone(), keys.clone(), axis);
        let (x, y) = rates(&rows, axis, &done);
        throughput.add(line(per_s), x, y);
        let (x, y) = rates(&rows, axis, &|row| row.errors);
        if y.iter().flatten().any(|errors| *errors != 0.0) {
            errors.add(line(errors_axis), x, y);
        }
        for op in operations(&rows) {
            let of: Vec<&IntervalRow> = rows.iter().copied().filter(|row| op.is_none_or(|op| row.op == op)).collect();
            for (nth, percentile) in ["p50", "p99", "p99.9", "max"].into_iter().enumerate() {
                let mut line = line(time_axis);
                line.keys.insert("op".to_owned(), op.unwrap_or(SLOWEST).to_owned());
                line.keys.insert("percentile".to_owned(), percentile.to_owned());
                let (x, y) = worst(&of, axis, nth);
                times.add(line, x, y);
            }
        }
    }
    for (run, configuration, trial) in subject.trials().filter(|(run, _, trial)| is_alone(subject, *run, trial)) {
        if let Some((x, y)) = means(&rows_of(run, trial), axis, &done) {
            let line = Series::new(configuration, "mean of the phase".to_owned(), IndexMap::new(), per_s);
            throughput.add_estimates(line, x, &y);
            banded = true;
        }
    }
    if banded {
        throughput.about += " If a configuration was measured once, the horizontal line is the mean of each phase, and its band is the \
                             uncertainty of the mean within this trial. It says nothing about other trials.";
    }
    let mut events = events(subject, axis);
    let work = work::marks(subject, axis);
    if !work.is_empty() {
        throughput.about += " A strip at the bottom is background work that the store reported: compactions, flushes, saves, \
                             checkpoints.";
    }
    events.extend(work);
    [throughput, times, errors]
        .into_iter()
        .map(|mut chart| {
            chart.marks.extend(events.iter().cloned());
            let round = round_at_first(subject, &mut chart);
            let p99 = Some("p99".to_owned());
            chart.choose(&[("percentile", "percentile", p99), ("op", "operation", None), ("round", "round", round)]);
            chart
        })
        .collect()
}

/// Whether a trial is the only one of its configuration. Such a configuration has no interval over trials.
fn is_alone(subject: &Subject, run: usize, trial: &TrialResult) -> bool {
    let configuration = subject.position(run, &trial.configuration);
    subject.trials().filter(|(_, other, _)| *other == configuration).count() == 1
}

/// The choice that shows the slowest operation of each interval.
const SLOWEST: &str = "the slowest operation";

/// The operations of a trial by name. If there are several, `None` (the slowest) comes first.
fn operations<'a>(rows: &[&'a IntervalRow]) -> Vec<Option<&'a str>> {
    let names: IndexSet<&str> = rows.iter().map(|row| row.op.as_str()).collect();
    let all = names.iter().map(|name| Some(*name));
    if names.len() > 1 { [None].into_iter().chain(all).collect() } else { all.collect() }
}

/// The phases with operations on several documents.
fn by_documents(subject: &Subject) -> IndexSet<&str> {
    let phases = subject.trials().flat_map(|(_, _, trial)| &trial.phases);
    phases.filter(|phase| in_documents([*phase])).map(|phase| phase.name.as_str()).collect()
}

/// Places and values of a line.
pub(crate) type Points = (Vec<Option<f64>>, Vec<Option<f64>>);

/// Counts per second, over all operations of an interval, with a break between phases.
pub(super) fn rates(rows: &[&IntervalRow], axis: &Timeline, counted: &dyn Fn(&IntervalRow) -> u64) -> Points {
    let sum = |of: &[&IntervalRow]| {
        let (from, to) = (of[0].from_ns, of.iter().map(|row| row.to_ns).max().unwrap_or_default());
        let seconds = to.saturating_sub(from) as f64 / 1e9;
        let n: u64 = of.iter().map(|row| counted(row)).sum();
        (seconds > 0.0).then(|| n as f64 / seconds)
    };
    points(rows, axis, &sum)
}

/// The maximum of a percentile over all operations of an interval.
fn worst(rows: &[&IntervalRow], axis: &Timeline, nth: usize) -> Points {
    points(rows, axis, &|of| of.iter().filter_map(|row| row.times()[nth]).max().map(|ns| ns as f64))
}

/// One point for each interval. If there are too many, neighbouring intervals are combined into one point.
fn points(rows: &[&IntervalRow], axis: &Timeline, of: &dyn Fn(&[&IntervalRow]) -> Option<f64>) -> Points {
    let mut intervals: Vec<Vec<&IntervalRow>> = Vec::new();
    for row in rows.iter().filter(|row| row.to_ns > row.from_ns) {
        match intervals.last_mut() {
            Some(last) if last[0].phase == row.phase && last[0].from_ns == row.from_ns => last.push(row),
            _ => intervals.push(vec![row]),
        }
    }
    join_tails(&mut intervals);
    let together = intervals.len().div_ceil(MOST_POINTS).max(1);
    let (mut x, mut y): Points = Default::default();
    let mut at = 0;
    while at < intervals.len() {
        let phase = &intervals[at][0].phase;
        if at > 0 && intervals[at - 1][0].phase != *phase {
            x.push(Some(axis.at(phase, 0)));
            y.push(None);
        }
        let end =
            (at..intervals.len().min(at + together)).take_while(|i| intervals[*i][0].phase == *phase).count() + at;
        let group: Vec<&IntervalRow> = intervals[at..end].iter().flatten().copied().collect();
        // In the middle of its intervals.
        let to = group.iter().map(|row| row.to_ns).max().unwrap_or_default();
        x.push(Some(axis.at(phase, group[0].from_ns.midpoint(to))));
        y.push(of(&group));
        at = end;
    }
    (x, y)
}

/// Joins the last interval of a phase to the one before it if it is less than half as long. A rate of such a short
/// interval is meaningless.
fn join_tails(intervals: &mut Vec<Vec<&IntervalRow>>) {
    let length = |of: &[&IntervalRow]| of[0].to_ns - of[0].from_ns;
    let mut at = 1;
    while at < intervals.len() {
        let same = intervals[at - 1][0].phase == intervals[at][0].phase;
        if same && length(&intervals[at]) * 2 < length(&intervals[at - 1]) {
            let tail = intervals.remove(at);
            intervals[at - 1].extend(tail);
        } else {
            at += 1;
        }
    }
}

/// Events of phases: stalls, changes of level, faults, early ends.
fn events(subject: &Subject, axis: &Timeline) -> Vec<Mark> {
    let mut all = Vec::new();
    for (run, configuration, trial) in subject.trials() {
        for phase in &trial.phases {
            all.extend(of_phase(subject, run, configuration, trial, phase, axis));
        }
    }
    all
}

fn of_phase(
    subject: &Subject,
    run: usize,
    configuration: usize,
    trial: &TrialResult,
    phase: &PhaseResult,
    axis: &Timeline,
) -> Vec<Mark> {
    let row = |number: u64| {
        let mut of = subject.runs[run].intervals.iter().filter(|r| r.trial == trial.trial && r.phase == phase.name);
        let first = of.next()?;
        let mut same = std::iter::once(first).chain(of).filter(|r| r.op == first.op);
        same.nth(usize::try_from(number).ok()?).map(|r| (r.from_ns, r.to_ns))
    };
    let at = |ns| axis.at(&phase.name, ns);
    let mark = |kind, at_ns, to_ns: Option<u64>, what: &str| {
        Mark::new(kind, at(at_ns), to_ns.map(at), format!("{what}, trial {}", trial.trial), configuration)
    };
    let mut marks = Vec::new();
    let found = phase.steadiness.iter().chain(&phase.response_steadiness).flat_map(|s| &s.events);
    for event in found {
        let (Some(from), Some(to)) = (row(event.from), row(event.to.saturating_sub(1).max(event.from))) else {
            continue;
        };
        let (kind, what) = match event.kind {
            SeriesEventKind::Stall => (MarkKind::Stall, "stall"),
            SeriesEventKind::Change => (MarkKind::Change, "change of level"),
            SeriesEventKind::Slope => (MarkKind::Change, "slope"),
        };
        marks.push(mark(kind, from.0, Some(to.1).filter(|_| event.kind != SeriesEventKind::Change), what));
    }
    for fault in &phase.faults {
        let Some(began_ns) = fault.began_ns else { continue };
        // Without an answer after it, the outage lasted to the end.
        let over_ns = match fault.first_answer_ns {
            Some(after) => Some(began_ns + after),
            None if fault.unavailable_ns > 0 => None,
            None => fault.ready_ns.or(fault.mended_ns),
        };
        let over_ns = over_ns.unwrap_or(phase.elapsed_ns);
        marks.push(mark(MarkKind::Fault, began_ns, Some(over_ns), &fault.what.to_string()));
    }
    if let Some(why) = &phase.partial {
        marks.push(mark(MarkKind::End, phase.elapsed_ns, None, &format!("ended early: {why}")));
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A phase with one interval per second, in which as many operations succeed as `counts` says.
    fn rows(phase: &str, counts: impl IntoIterator<Item = u64>) -> Vec<IntervalRow> {
        let row = |(nth, succeeded): (usize, u64)| IntervalRow {
            trial: 1,
            phase: phase.to_owned(),
            from_ns: nth as u64 * 1_000_000_000,
            to_ns: (nth as u64 + 1) * 1_000_000_000,
            op: "read".to_owned(),
            succeeded,
            documents: succeeded,
            errors: 0,
            pass: String::new(),
            times: Default::default(),
        };
        counts.into_iter().enumerate().map(row).collect()
    }

    #[test]
    fn phases_that_are_long_enough_have_a_mean_and_a_band() {
        let span = |length_s| Span { length_s, ..Span::default() };
        let lengths = [("long", 40.0), ("short", 5.0), ("last", 40.0)];
        let axis = Timeline::laid_out(lengths.map(|(name, length)| (name.to_owned(), span(length))).into());
        let mut all = rows("long", (0..40).map(|n| 90 + n / 10 % 2 * 20));
        all.extend(rows("short", [1; 5]));
        all.extend(rows("last", [50; 40]));
        let rows: Vec<&IntervalRow> = all.iter().collect();
        let (x, found) = means(&rows, &axis, &|row| row.succeeded).unwrap();
        let mean: Vec<Option<f64>> = found.iter().map(|mean| Some(mean.as_ref()?.value)).collect();
        assert_eq!(mean, [Some(100.0), Some(100.0), None, Some(50.0), Some(50.0)]);
        let ends = |nth: usize| found[nth].map(|mean| (mean.low.unwrap(), mean.high.unwrap())).unwrap();
        assert!(ends(0).0 < 100.0 && ends(0).1 > 100.0, "{found:?}");
        assert_eq!(ends(3), (50.0, 50.0));
        let at: Vec<f64> = x.iter().copied().flatten().collect();
        assert!(at.len() == 5 && at.is_sorted_by(|a, b| a < b), "places rise, as charts require: {at:?}");
        assert_eq!(at[1], 40.0);
        assert!(means(&rows[40..45], &axis, &|row| row.succeeded).is_none());
    }
}
