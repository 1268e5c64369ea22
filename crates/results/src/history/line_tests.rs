//! Which figures are lines, which of them go on, and which have no value any more.

use super::*;
use crate::stats::simulated::noise;
use crate::{RunResult, exit, fixture};

/// A night of a study on a machine, with these figures of one configuration.
fn night(nth: usize, figures: &[(&str, Option<f64>)]) -> HistoryEntry {
    HistoryEntry {
        run: format!("night-{nth}"),
        title: "Books".to_owned(),
        began: format!("2026-{:02}-{:02}T02:00:00Z", nth / 28 + 1, nth % 28 + 1),
        machine: "EPYC".to_owned(),
        configurations: vec![configuration("sqlite", figures)],
        ..HistoryEntry::default()
    }
}

fn configuration(name: &str, figures: &[(&str, Option<f64>)]) -> HistoryConfiguration {
    HistoryConfiguration {
        configuration: name.to_owned(),
        figures: figures.iter().map(|(name, value)| ((*name).to_owned(), [*value, None, None])).collect(),
        ..HistoryConfiguration::default()
    }
}

/// Nights that differ by 2 %, with this figure times what is said of each.
fn nights(n: usize, figure: &str, times: impl Fn(usize) -> Option<f64>) -> Vec<HistoryEntry> {
    let noise = noise(2, n, 0.0);
    let value = |nth: usize| times(nth).map(|times| 1e6 * times * (0.02 * noise[nth]).exp());
    (0..n).map(|nth| night(nth, &[(figure, value(nth))])).collect()
}

fn asked(entries: &[HistoryEntry], figures: &[String]) -> Result<HistoryReport, HistoryError> {
    history_report(&HistoryRequest {
        entries,
        branch: None,
        figures,
        false_alarm_every: DEFAULT_FALSE_ALARM_EVERY,
        recent: DEFAULT_RECENT,
    })
}

fn report_of(entries: &[HistoryEntry]) -> HistoryReport {
    asked(entries, &[]).unwrap()
}

fn names(report: &HistoryReport) -> Vec<String> {
    report.lines.iter().map(HistoryLine::name).collect()
}

/// A night of a load and a closed loop, whose operations are of this kind and have ten documents each.
fn bulk_night(nth: usize, kind: &str, succeeds: bool) -> HistoryEntry {
    let mut run: RunResult = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
    run.run.began = night(nth, &[]).began;
    fixture::speed(&mut run.trials[0], (0.02 * noise(2, 40, 0.0)[nth]).exp());
    for op in run.trials[0].phases[1].ops.values_mut() {
        op.kind = kind.to_owned();
        (op.documents, op.documents_per_s) = (10 * op.succeeded, 10.0 * op.throughput_per_s);
        if !succeeds {
            (op.succeeded, op.documents, op.throughput_per_s, op.documents_per_s) = (0, 0, 0.0, 0.0);
        }
    }
    HistoryEntry::of(&fixture::concluded(run), None, None)
}

#[test]
fn a_phase_has_one_line_also_if_nothing_succeeded_in_a_night() {
    for (kind, figure) in [("upsert", "mixed.documents"), ("query", "mixed.throughput")] {
        for bad in [0, 20] {
            let entries: Vec<HistoryEntry> = (0..30).map(|nth| bulk_night(nth, kind, nth != bad)).collect();
            let report = report_of(&entries);
            assert_eq!(names(&report), ["sqlite load.documents".to_owned(), format!("sqlite {figure}")]);
            assert_eq!((report.lines[1].values.len(), report.lines[1].without), (29, 1));
            assert_eq!(report.exit_code(), exit::FINE, "{report:?}");
        }
    }
}

/// What all failed in one night may have had documents, so that only this night has the figure, without a value.
#[test]
fn a_figure_without_any_value_is_no_line() {
    let mut entries = nights(30, "mixed.throughput", |_| Some(1.0));
    entries[20].configurations[0].figures.insert("mixed.documents".to_owned(), [None; 3]);
    assert_eq!(names(&report_of(&entries)), ["sqlite mixed.throughput"]);
    let error = asked(&entries, &["documents".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("no run of the history has a value of it; mixed.throughput"), "{error}");
    // One that a check found invalid every night is not forgotten.
    for entry in &mut entries {
        let invalid = Invalid { check: "client-bound".to_owned(), phase: Some("peak".to_owned()) };
        entry.configurations[0].invalid = vec![invalid];
        entry.configurations[0].figures.insert("peak.throughput".to_owned(), [Some(1.0), None, None]);
    }
    let report = report_of(&entries);
    assert_eq!((report.lines[1].invalid, report.exit_code()), (30, exit::UNDECIDED), "{report:?}");
}

/// The rate is given, so it cannot become worse.
#[test]
fn a_phase_at_a_rate_is_judged_by_the_highest_percentile_that_it_has() {
    let mut entries = nights(30, "steady.response.p50", |nth| Some(if nth < 20 { 1.0 } else { 3.0 }));
    for (nth, entry) in entries.iter_mut().enumerate() {
        let figures = &mut entry.configurations[0].figures;
        let p50 = figures["steady.response.p50"];
        // Nights are odd in either way.
        figures.insert("steady.response.p90".to_owned(), p50.map(|p50| p50.filter(|_| nth != 3)));
        figures.insert("steady.response.p99".to_owned(), p50.map(|p50| p50.filter(|_| nth == 5)));
        figures.insert("steady.throughput".to_owned(), [Some(1_000.0), None, None]);
    }
    let report = report_of(&entries);
    assert_eq!((names(&report), report.exit_code()), (vec!["sqlite steady.response.p90".to_owned()], exit::SPOILED));
    // What its first runs had stays its figure, also if it is lost for longer than it was there.
    let mut entries = nights(40, "steady.response.p99", |nth| (nth < 14).then_some(1.0));
    for entry in &mut entries {
        entry.configurations[0].figures.insert("steady.response.p50".to_owned(), [Some(1e5), None, None]);
    }
    let report = report_of(&entries);
    assert_eq!((names(&report), report.exit_code()), (vec!["sqlite steady.response.p99".to_owned()], exit::SPOILED));
}

#[test]
fn studies_and_machines_that_take_turns_are_all_judged() {
    type Other = fn(&mut HistoryEntry);
    let others: [Other; 2] = [
        |entry| entry.machine = "Xeon".to_owned(),
        |entry| {
            entry.title = "Users".to_owned();
            entry.configurations[0].work = "other".to_owned();
        },
    ];
    for other in others {
        let slower = |nth: usize| if nth.is_multiple_of(2) && nth >= 70 { 1.3 } else { 1.0 };
        let mut entries = nights(80, "steady.response.p99", |nth| Some(slower(nth)));
        entries.iter_mut().skip(1).step_by(2).for_each(other);
        let report = report_of(&entries);
        assert!(report.lines.iter().all(|line| line.current) && report.lines.len() == 2, "{report:?}");
        assert_eq!(report.exit_code(), exit::SPOILED);
        // One that is not measured any more ends.
        let kept: Vec<HistoryEntry> =
            entries.iter().enumerate().filter(|(nth, _)| nth % 2 == 1 || *nth < 60).map(|(_, of)| of.clone()).collect();
        let report = report_of(&kept);
        let current: Vec<bool> = report.lines.iter().map(|line| line.current).collect();
        assert_eq!((current, report.exit_code()), (vec![false, true], exit::FINE));
    }
}

#[test]
fn a_configuration_that_the_newest_run_lacks_keeps_its_alarm() {
    let mut entries = nights(50, "steady.response.p99", |nth| Some(if nth < 34 { 1.0 } else { 1.3 }));
    let steady = nights(50, "steady.response.p99", |_| Some(1.0));
    for (nth, entry) in entries.iter_mut().enumerate() {
        let mut other = steady[nth].configurations[0].clone();
        "fjall".clone_into(&mut other.configuration);
        entry.configurations.push(other);
        if nth >= 39 {
            entry.configurations.remove(0);
        }
    }
    for (nights, code) in [(39, exit::SPOILED), (40, exit::SPOILED), (48, exit::SPOILED), (49, exit::FINE)] {
        assert_eq!(report_of(&entries[..nights]).exit_code(), code, "{nights} nights");
    }
    let notes = history_notes(&report_of(&entries[..40])).join("\n");
    assert!(notes.contains("or it lacks them): sqlite steady.response.p99."), "{notes}");
    // A run of nothing tells nothing.
    let mut entries = nights(30, "steady.response.p99", |_| Some(1.0));
    entries[29].configurations.clear();
    assert_eq!(report_of(&entries).exit_code(), exit::UNDECIDED);
}

#[test]
fn a_figure_without_a_value_in_the_newest_runs_fails_the_check() {
    let there = |runs: std::ops::Range<usize>| {
        nights(40, "steady.response.p99", move |nth| (!runs.contains(&nth)).then_some(1.0))
    };
    let mut entries = there(30..40);
    for (nth, of) in nights(40, "peak.throughput", |_| Some(1.0)).into_iter().enumerate() {
        entries[nth].configurations[0].figures.extend(of.configurations[0].figures.clone());
    }
    let report = report_of(&entries);
    assert_eq!(report.exit_code(), exit::SPOILED);
    let told = "sqlite steady.response.p99 had no value in the last 10 runs, since that of 2026-02-02 02:00";
    let answer = history_answer(&report);
    assert!(answer.starts_with(&format!("One figure has no value any more: {told}. ")), "{answer}");
    assert!(answer.contains("No other change for the worse was found by the last 10 of 40 runs. "), "{answer}");
    assert!(!answer.contains("counts") && answer.matches("p99").count() == 1, "{answer}");
    let junit = history_junit(&report);
    assert!(junit.contains("failures=\"1\" skipped=\"0\"") && junit.contains(&format!("<failure message=\"{told}")));
    let github = history_annotations(&report);
    assert_eq!(github, format!("::error title=steady.response.p99 has no value any more::{told}\n"));
    for entry in &mut entries[36..] {
        entry.configurations[0].figures["peak.throughput"] = [None; 3];
    }
    let answer = history_answer(&report_of(&entries));
    let told = "peak.throughput had no value in the last 4 runs, since that of 2026-02-08 02:00.";
    assert!(
        answer.starts_with("2 figures have no value any more: sqlite steady") && answer.ends_with(told),
        "{answer}"
    );
    // A night or two may be odd, and what is there again is not lost.
    let code = |entries: &[HistoryEntry]| report_of(entries).exit_code();
    assert_eq!(code(&there(38..40)), exit::UNDECIDED);
    assert_eq!(code(&there(30..39)), exit::FINE);
    // Nor is what a check found invalid, or what is higher than the search looked.
    let mut invalid = there(40..40);
    let mut above = nights(40, "steady.rate-within-limits", |_| Some(1.0));
    for nth in 30..40 {
        invalid[nth].configurations[0].invalid = vec![Invalid { check: "noisy".to_owned(), phase: None }];
        above[nth].configurations[0].figures[0] = [None, Some(1e6), None];
    }
    assert_eq!((code(&invalid), code(&above)), (exit::UNDECIDED, exit::UNDECIDED));
}
