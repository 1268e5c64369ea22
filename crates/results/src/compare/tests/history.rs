//! A history as the baseline: its runs are the unit, and their spread is that of a new run.

use super::*;
use crate::history::{HistoryBaseline, HistoryEntry, Invalid};
use crate::stats::simulated::noise;

fn night(nth: usize, speed: f64) -> RunResult {
    fixture::concluded(run(&format!("2026-01-{:02}T02:00:00Z", nth + 1), &[("sqlite", &[speed])]))
}

fn history(speeds: &[f64]) -> HistoryBaseline {
    let entry = |(nth, speed): (usize, &f64)| {
        HistoryEntry::of(&night(nth, *speed), Some(format!("c{nth}")), Some("main".to_owned()))
    };
    HistoryBaseline::of("main", speeds.iter().enumerate().map(entry).collect(), 20)
}

/// Speeds that differ by 3 %.
fn speeds(n: usize) -> Vec<f64> {
    noise(5, n, 0.0).into_iter().map(|noise| (0.03 * noise).exp()).collect()
}

fn beside(history: &HistoryBaseline, sides: &[Source], gate: &str) -> Result<CompareResult, CompareError> {
    let gates: [Gate; 1] = [gate.parse().unwrap()];
    compare(&CompareRequest { history: Some(history), gates: &gates, ..plain(sides) })
}

fn new(speed: f64) -> Source {
    source("new", night(29, speed))
}

#[test]
fn a_run_is_judged_by_how_much_the_runs_of_the_history_differ() {
    let speeds = speeds(20);
    let history = history(&speeds);
    let result = beside(&history, &[new(1.0)], "steady.throughput < -15%").unwrap();
    let pair = &result.pairs[0];
    assert!(pair.from_history && !pair.paired_by_round);
    assert_eq!((pair.a.label().as_str(), pair.a.more_runs.len()), ("baseline history:main#sqlite", 19));
    let throughput = figure(&result, "steady.throughput");
    assert_eq!((throughput.a.trials, throughput.b.trials), (20, 1));
    // Student's t of 19 degrees of freedom; one value beside 20.
    let logs: Vec<f64> = speeds.iter().map(|speed| speed.ln()).collect();
    let mean = logs.iter().sum::<f64>() / 20.0;
    let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 19.0).sqrt();
    let ratio = throughput.ratio.unwrap();
    let half = 2.093 * deviation * 1.05_f64.sqrt();
    assert!((ratio.high.unwrap().ln() - (-mean + half)).abs() < 1e-3, "{ratio:?}, {half}");
    let outcome = |speed: f64, gate: &str| {
        let result = beside(&history, &[new(speed)], gate).unwrap();
        (result.gates[0].outcome, result.exit_code())
    };
    assert_eq!(outcome(1.0, "steady.throughput < -15%"), (GateOutcome::Passed, 0));
    assert_eq!(outcome(0.7, "steady.throughput < -15%"), (GateOutcome::Failed, 1));
    assert_eq!(outcome(0.9, "steady.throughput < -10%"), (GateOutcome::Undecided, 5));
    let undecided = beside(&history, &[new(0.88)], "steady.throughput < -15%").unwrap();
    let gate = &undecided.gates[0];
    assert!(gate.why.as_deref().unwrap().contains(" runs of B would decide it"), "{gate:?}");
    assert!(gate.detectable.unwrap() < 0.85, "{gate:?}");
    // What it would detect is told without a gate, too.
    let plain = compare(&CompareRequest { history: Some(&history), ..plain(&[new(1.0)]) }).unwrap();
    let notes = plain.pairs[0].notes.join("\n");
    assert!(notes.starts_with("would detect, in 8 of 10 such comparisons: "), "{notes}");
    assert!(notes.contains(" in steady.response.p99 (runs differ by "), "{notes}");
    let shown = text(&plain, false, Layout::plain());
    assert!(shown.contains("how much they differ is the noise of a run of B, too"), "{shown}");
    assert!(shown.contains("baseline history:main, 20 runs") && !shown.contains("0 trials"), "{shown}");
}

#[test]
fn the_level_since_the_last_change_counts_and_never_the_run_itself() {
    let mut speeds = speeds(25);
    speeds[15..].iter_mut().for_each(|speed| *speed *= 0.7);
    let changed = history(&speeds);
    let result = beside(&changed, &[new(0.7)], "steady.throughput < -15%").unwrap();
    assert_eq!((figure(&result, "steady.throughput").a.trials, result.exit_code()), (10, 0));
    let notes = result.pairs[0].notes.join("\n");
    assert!(notes.contains("runs before a change of the figure are left out of A: "), "{notes}");
    let steady = history(&self::speeds(10));
    let itself = source("new", night(9, self::speeds(10)[9]));
    let result = beside(&steady, &[itself], "steady.throughput < -50%").unwrap();
    assert_eq!(figure(&result, "steady.throughput").a.trials, 9);
}

#[test]
fn few_runs_decide_nothing_and_none_that_fit_are_an_error() {
    let few = beside(&history(&speeds(4)), &[new(0.5)], "steady.throughput < -5%").unwrap();
    assert_eq!((figure(&few, "steady.throughput").judgement, few.exit_code()), (Judgement::OneRun, 5));
    assert!(few.trouble().unwrap().contains("the history has 4 runs of it"), "{:?}", few.trouble());
    let mut elsewhere = night(29, 1.0);
    elsewhere.environment.cpu_model = Some("another".to_owned());
    let refused = |run: RunResult| beside(&history(&speeds(8)), &[source("new", run)], "disk > +5%").unwrap_err();
    let error = refused(elsewhere).to_string();
    assert!(error.starts_with("history:main has no run to compare sqlite with: the machine differs: "), "{error}");
    let mut other = night(29, 1.0);
    other.run.seed += 1;
    assert!(refused(other).to_string().contains("the number of the work"));
    let other = fixture::concluded(run("2026-01-30T02:00:00Z", &[("redb", &[1.0])]));
    assert!(refused(other).to_string().contains("none has a configuration of that name"));
    // A partial run is refused as with any baseline.
    let mut partial = night(29, 1.0);
    partial.run.interrupted = true;
    assert!(matches!(refused(partial), CompareError::Partial(_)));
}

/// What came later says nothing about what was known when a run was made.
#[test]
fn only_runs_that_began_before_a_run_are_its_baseline() {
    let history = history(&speeds(20));
    let result = beside(&history, &[source("new", night(8, 1.0))], "steady.throughput < -50%").unwrap();
    let a = &result.pairs[0].a;
    assert_eq!((figure(&result, "steady.throughput").a.trials, a.more_runs.len()), (8, 7));
    assert_eq!(a.first.began, "2026-01-08T02:00:00Z");
    let error = beside(&history, &[source("new", night(0, 1.0))], "disk > +5%").unwrap_err().to_string();
    assert!(error.ends_with("none began before it"), "{error}");
}

#[test]
fn the_runs_of_a_are_those_that_a_figure_is_of() {
    let speeds = speeds(23);
    let mut entries = history(&speeds).into_entries();
    // The newest has no figure at all, and the one before lacks a single one.
    entries[22].configurations[0].figures.values_mut().for_each(|figure| *figure = [None; 3]);
    entries[21].configurations[0].figures["steady.throughput"] = [None; 3];
    let history = HistoryBaseline::of("main", entries, 20);
    let result = beside(&history, &[new(1.0)], "steady.throughput < -50%").unwrap();
    let a = &result.pairs[0].a;
    let began: Vec<&str> = std::iter::once(&a.first).chain(&a.more_runs).map(|run| run.began.as_str()).collect();
    // Of 1 to 20 is the throughput, of 2 to 21 are the others.
    assert_eq!((began[0], *began.last().unwrap()), ("2026-01-22T02:00:00Z", "2026-01-02T02:00:00Z"), "{began:?}");
    assert_eq!(began.len(), 21);
    let notes = result.pairs[0].notes.join("\n");
    assert!(
        notes.contains("of the 21 runs of A, fewer count for: ") && notes.contains("steady.throughput 20"),
        "{notes}"
    );
}

/// A figure that no run of the history has is not known to be fine.
#[test]
fn a_figure_of_which_no_run_of_the_history_counts_passes_no_gate() {
    let mut entries = history(&speeds(20)).into_entries();
    for entry in &mut entries {
        let invalid = Invalid { check: "client-bound".to_owned(), phase: Some("steady".to_owned()) };
        entry.configurations[0].invalid.push(invalid);
    }
    let known = HistoryBaseline::of("main", entries.clone(), 20);
    let result = beside(&known, &[new(0.5)], "throughput < -70%").unwrap();
    let undecided: Vec<_> = result.gates.iter().filter(|gate| gate.outcome == GateOutcome::Undecided).collect();
    assert!(result.gates.len() == undecided.len() + 1 && result.gates[0].figure == "load.throughput", "{result:?}");
    assert!(undecided.iter().all(|gate| gate.why.as_deref() == Some("no run of A counts")), "{undecided:?}");
    assert_eq!((undecided[0].figure.as_str(), result.exit_code()), ("steady.throughput", 5));
    let fewer = |result: &CompareResult| {
        let notes = &result.pairs[0].notes;
        notes.iter().find(|note| note.contains("fewer count for: ")).unwrap_or_else(|| panic!("{notes:?}")).clone()
    };
    let note = fewer(&result);
    assert!(note.starts_with("of the 20 runs of A, fewer count for: steady.throughput 0, "), "{note}");
    assert!(!note.contains("load.") && !note.contains("p99.99"), "{note}");
    let shown = text(&result, true, Layout::plain());
    assert!(shown.contains("cannot be compared in") && shown.contains("no run of A counts"), "{shown}");
    assert!(!shown.contains('∞'), "{shown}");
    let alone = beside(&known, &[new(1.0)], "steady.response.p99 > +5%").unwrap();
    assert_eq!((alone.gates.len(), alone.exit_code()), (1, 5));
    // What a history never keeps is still no figure.
    assert!(beside(&known, &[new(1.0)], "steady.response.p99.99 > +5%").is_err());
    // Nor is anything known if no figure counts.
    for entry in &mut entries {
        entry.configurations[0].invalid[0].phase = None;
    }
    let known = HistoryBaseline::of("main", entries, 20);
    let result = beside(&known, &[new(1.0)], "throughput < -70%").unwrap();
    assert!(result.gates.iter().all(|gate| gate.outcome == GateOutcome::Undecided), "{:?}", result.gates);
    let note = fewer(&result);
    assert!(note.starts_with("of the 20 runs of A, fewer count for: load.throughput 0, "), "{note}");
}

#[test]
fn a_configuration_that_the_history_cannot_be_compared_with_is_named_with_the_reason() {
    let of = |nth: usize| {
        let began = format!("2026-01-{:02}T02:00:00Z", nth + 1);
        fixture::concluded(run(&began, &[("sqlite", &[1.0]), ("redb", &[1.0])]))
    };
    let entry = |nth| {
        let mut entry = HistoryEntry::of(&of(nth), None, Some("main".to_owned()));
        entry.configurations[1].work = "other".to_owned();
        entry
    };
    let history = HistoryBaseline::of("main", (0..8).map(entry).collect(), 20);
    let result = beside(&history, &[source("new", of(29))], "steady.throughput < -50%").unwrap();
    assert_eq!(result.pairs.len(), 1);
    let shown = text(&result, false, Layout::plain()).replace('\n', " ");
    let reason = "new#redb is not compared: history:main has no run to compare redb with: the number of the work";
    assert!(shown.contains(reason) && !shown.contains("only new has"), "{shown}");
}
