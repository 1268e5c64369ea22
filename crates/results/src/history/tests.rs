//! Histories of made-up runs, as a team would have them.

use super::*;
use crate::stats::simulated::noise;
use crate::summary::Layout;
use crate::validity::{CheckResult, Severity};
use crate::{RunResult, exit, fixture};

/// A run of the nth night, `factor` times as fast as the first.
fn night(nth: usize, factor: f64) -> RunResult {
    let mut run = fixture::run_of(&[fixture::load(), fixture::closed_loop(), fixture::open_loop()]);
    fixture::speed(&mut run.trials[0], factor);
    run.run.began = format!("2026-{:02}-{:02}T02:00:00Z", nth / 28 + 1, nth % 28 + 1);
    run.environment.cpu_model = Some("EPYC 7B13".to_owned());
    run.environment.memory_bytes = Some(25_000_000_000);
    run.run.study = serde_json::json!({ "title": "Books", "phases": [{ "name": "mixed", "workers": 2 }] });
    fixture::concluded(run)
}

fn entry(nth: usize, run: &RunResult) -> HistoryEntry {
    HistoryEntry::of(run, Some(format!("{nth:040x}")), Some("main".to_owned()))
}

/// Nights that differ by 3 %; from the `at`th on the store is `step` times as fast.
fn nights(n: usize, at: usize, step: f64) -> Vec<HistoryEntry> {
    let noise = noise(1, n, 0.0);
    let factor = |nth: usize| (0.03 * noise[nth]).exp() * if nth < at { 1.0 } else { step };
    (0..n).map(|nth| entry(nth, &night(nth, factor(nth)))).collect()
}

fn report_of(entries: &[HistoryEntry], figures: &[&str]) -> Result<HistoryReport, HistoryError> {
    let figures: Vec<String> = figures.iter().map(|figure| (*figure).to_owned()).collect();
    let request = HistoryRequest {
        entries,
        branch: None,
        figures: &figures,
        false_alarm_every: DEFAULT_FALSE_ALARM_EVERY,
        recent: DEFAULT_RECENT,
    };
    history_report(&request)
}

#[test]
fn a_slowdown_is_named_with_its_commits_and_its_size() {
    let entries = nights(60, 52, 0.85);
    let report = report_of(&entries, &[]).unwrap();
    assert_eq!(report.exit_code(), exit::SPOILED);
    let names: Vec<String> = report.lines.iter().map(HistoryLine::name).collect();
    assert_eq!(names, ["sqlite load.documents", "sqlite mixed.throughput", "sqlite steady.response.p99"]);
    for line in &report.lines {
        let [change] = &line.changes[..] else { panic!("{line:?}") };
        assert!(change.worse && (change.first_after.commit.as_deref() == Some(&format!("{:040x}", 52))), "{change:?}");
        let expected = if line.better == "more" { 0.85 } else { 1.0 / 0.85 };
        let (low, high) = (change.ratio.low.unwrap(), change.ratio.high.unwrap());
        assert!(low < expected && expected < high, "{change:?}");
    }
    insta::assert_snapshot!(history_text(&report, Layout::plain()));
    insta::assert_snapshot!("markdown", history_markdown(&report));
    insta::assert_snapshot!("junit", history_junit(&report));
    insta::assert_snapshot!("annotations", history_annotations(&report));
    // What was found long ago fails no check, and is still shown.
    let mut later = nights(60, 30, 0.85);
    let report = report_of(&later, &[]).unwrap();
    assert!(report.exit_code() == exit::FINE && report.lines[0].changes.len() == 1, "{report:?}");
    insta::assert_snapshot!("long_ago", history_text(&report, Layout::plain()));
    // Nor does what became better.
    later.truncate(0);
    let better = report_of(&nights(60, 52, 1.2), &[]).unwrap();
    assert!(better.exit_code() == exit::FINE && !better.lines[1].changes[0].worse, "{better:?}");
}

#[test]
fn nothing_is_found_where_nothing_changed_and_what_would_be_found_is_told() {
    let report = report_of(&nights(60, 60, 1.0), &[]).unwrap();
    assert_eq!(report.exit_code(), exit::FINE);
    insta::assert_snapshot!(history_text(&report, Layout::plain()));
    for line in &report.lines {
        let noise = line.noise.unwrap();
        assert!((0.02..0.04).contains(&noise), "{noise}");
        let change = line.detectable.unwrap();
        assert!(if line.better == "more" { (0.90..0.97).contains(&change) } else { (1.03..1.1).contains(&change) });
    }
}

#[test]
fn few_runs_decide_nothing() {
    let report = report_of(&nights(6, 6, 1.0), &[]).unwrap();
    assert_eq!((report.exit_code(), report.lines[0].runs_missing), (exit::UNDECIDED, 7));
    let answer = history_answer(&report);
    assert!(answer.starts_with("No change can be found yet: that takes 7 runs more."), "{answer}");
    assert!(history_junit(&report).contains("skipped=\"3\""));
}

#[test]
fn another_machine_study_or_branch_is_another_line() {
    let mut entries = nights(40, 40, 1.0);
    let machine = entries[0].machine.clone();
    assert_eq!(machine, "EPYC 7B13, 2 processors, 24 GiB");
    for entry in &mut entries[20..30] {
        entry.machine = "another, 4 processors".to_owned();
    }
    for entry in &mut entries[30..] {
        entry.configurations[0].work = "other".to_owned();
    }
    let report = report_of(&entries, &["mixed.throughput"]).unwrap();
    let lines: Vec<(usize, bool)> = report.lines.iter().map(|line| (line.values.len(), line.current)).collect();
    assert_eq!(lines, [(20, false), (10, false), (10, true)]);
    assert!(history_text(&report, Layout::plain()).contains("They are not compared."));
    entries[39].branch = Some("topic".to_owned());
    let report = report_of(&entries, &[]).unwrap();
    assert_eq!((report.branch.as_deref(), report.runs, report.other_branches), (Some("topic"), 1, 39));
    // A study's title and the stores beside it are no other work, its settings are.
    let work = |run: &RunResult| entry(0, run).configurations[0].work.clone();
    let (one, mut other) = (night(0, 1.0), night(0, 1.0));
    other.run.study["title"] = "Other".into();
    other.run.study["stores"] = serde_json::json!(["redis://h"]);
    other.run.study["servers"] = serde_json::json!({ "redis": { "run": "redis", "cpus": 1 } });
    assert_eq!(work(&one), work(&other));
    let (mut limited, mut kept) = (other.clone(), other.clone());
    limited.run.study["servers"] = serde_json::json!({ "sqlite": { "run": "x", "cpus": 1 } });
    kept.run.study["database"] = "kept".into();
    assert!(work(&limited) != work(&other) && work(&kept) != work(&other));
    other.run.study["phases"][0]["workers"] = 3.into();
    assert_ne!(work(&one), work(&other));
}

#[test]
fn what_a_check_found_invalid_is_left_out_and_counted() {
    let invalid = |nth: usize, phase: Option<&str>| {
        let mut run = night(nth, 3.0);
        run.checks.push(CheckResult {
            check: "client-bound".to_owned(),
            severity: Severity::Invalid,
            observed: String::new(),
            threshold: String::new(),
            advice: String::new(),
            weight: None,
            trial: None,
            store: None,
            configuration: None,
            phase: phase.map(str::to_owned),
        });
        entry(nth, &run)
    };
    let mut entries = nights(30, 30, 1.0);
    entries[28] = invalid(28, Some("mixed"));
    entries[29] = invalid(29, None);
    let report = report_of(&entries, &[]).unwrap();
    let counts: Vec<(usize, u32)> = report.lines.iter().map(|line| (line.values.len(), line.invalid)).collect();
    assert_eq!(counts, [(29, 1), (28, 2), (29, 1)]);
    assert!(history_answer(&report).starts_with("The newest run has no figure that counts"), "{report:?}");
    assert_eq!(report.exit_code(), exit::UNDECIDED);
}

/// A line that its newest run does not continue is not fine, and what was found before is not forgotten.
#[test]
fn a_newest_run_without_a_value_decides_nothing() {
    let mut entries = nights(30, 30, 1.0);
    let without = |entries: &mut Vec<HistoryEntry>| {
        let last = entries.last_mut().unwrap();
        last.configurations[0].figures["steady.response.p99"] = [None; 3];
    };
    without(&mut entries);
    let report = report_of(&entries, &[]).unwrap();
    assert_eq!((report.exit_code(), report.lines.len(), report.lines[2].without), (exit::UNDECIDED, 3, 1));
    let answer = history_answer(&report);
    assert!(answer.contains("no value that counts: sqlite steady.response.p99."), "{answer}");
    let mut slower = nights(40, 34, 0.85);
    without(&mut slower);
    assert_eq!(report_of(&slower, &["steady.response.p99"]).unwrap().exit_code(), exit::SPOILED);
    // A run of which nothing succeeded has no figures at all.
    slower.last_mut().unwrap().configurations[0].figures.clear();
    assert_eq!(report_of(&slower, &["steady.response.p99"]).unwrap().exit_code(), exit::SPOILED);
}

#[test]
fn figures_and_branches_that_are_not_there_are_named() {
    let entries = nights(2, 2, 1.0);
    let wrong = |result: Result<HistoryReport, HistoryError>| result.unwrap_err().to_string();
    let error = wrong(report_of(&entries, &["mixed.throughputs"]));
    assert!(error.contains("did you mean `mixed.throughput`?"), "{error}");
    let request =
        HistoryRequest { entries: &entries, branch: Some("nightly"), figures: &[], false_alarm_every: 200, recent: 10 };
    let error = wrong(history_report(&request));
    assert_eq!(error, "the history has no runs of branch `nightly`; it has: main");
}

#[test]
fn runs_without_a_branch_are_told_apart_from_those_of_other_branches() {
    let mut entries = nights(5, 5, 1.0);
    entries[0].branch = None;
    entries[1].branch = None;
    entries[2].branch = Some("topic".to_owned());
    let report = report_of(&entries, &[]).unwrap();
    assert_eq!((report.runs, report.other_branches, report.without_branch), (2, 1, 2));
    let notes = history_notes(&report).join("\n");
    assert!(notes.contains("Runs of other branches, not looked at: 1."), "{notes}");
    assert!(notes.contains("Runs without a branch, not looked at: 2."), "{notes}");
    let folder = tempfile::tempdir().unwrap();
    entries[..2].iter().for_each(|entry| assert!(add(folder.path(), entry).unwrap().there.is_none()));
    let error = HistoryBaseline::open(folder.path(), "main", 20).unwrap_err().to_string();
    assert_eq!(error, "the history has no runs of branch `main`; it has: 2 runs without a branch");
    let request =
        HistoryRequest { entries: &entries, branch: Some("x"), figures: &[], false_alarm_every: 200, recent: 10 };
    let error = history_report(&request).unwrap_err().to_string();
    assert_eq!(error, "the history has no runs of branch `x`; it has: main, topic, 2 runs without a branch");
}

/// Only hashes may be cut: the end of other names is what tells them apart.
#[test]
fn commits_that_are_no_hashes_are_shown_whole() {
    let mut entries = nights(40, 34, 0.85);
    for (nth, entry) in entries.iter_mut().enumerate() {
        entry.commit = Some(format!("v2026.02.{nth}"));
    }
    let report = report_of(&entries, &["mixed.throughput"]).unwrap();
    let change = &report.lines[0].changes[0];
    let told = report.lines[0].told(change);
    assert!(told.contains("v2026.02.33 (") && change.in_short().ends_with(", v2026.02.33 – v2026.02.34"), "{told}");
    for (nth, entry) in entries.iter_mut().enumerate() {
        entry.commit = Some(format!("{nth:064X}"));
    }
    let report = report_of(&entries, &["mixed.throughput"]).unwrap();
    let short = report.lines[0].changes[0].in_short();
    assert!(short.ends_with(", 0000000000 – 0000000000"), "{short}");
}

#[test]
fn markdown_tells_what_was_taken_back_and_escapes_names() {
    let mut report = report_of(&nights(60, 52, 0.85), &["mixed.throughput"]).unwrap();
    let line = &mut report.lines[0];
    let run = line.values[20].of.clone();
    line.taken_back.push(HistoryTakenBack { first_after: run.clone(), found: run.clone(), taken_back: run });
    line.configuration = "a|b_c<i>".to_owned();
    let markdown = history_markdown(&report);
    for told in history_changes(&report) {
        assert!(markdown.contains(&format!("- {}\n", crate::table::escaped(&told))), "{told}\n{markdown}");
    }
    assert!(markdown.contains("did not last, and was taken back"), "{markdown}");
    assert!(markdown.contains("\n| a\\|b\\_c&lt;i> | mixed.throughput | 60 | "), "{markdown}");
}

#[test]
fn a_figure_that_became_worse_twice_is_one_figure() {
    let mut report = report_of(&nights(60, 52, 0.85), &["mixed.throughput"]).unwrap();
    let again = report.lines[0].changes[0].clone();
    report.lines[0].changes.push(again);
    let answer = history_answer(&report);
    assert!(
        answer.starts_with("One figure became worse 2 times, the first time: sqlite mixed.throughput "),
        "{answer}"
    );
    let other = report.lines[0].clone();
    report.lines.push(other);
    let answer = history_answer(&report);
    assert!(answer.starts_with("2 figures became worse, the first of them: sqlite mixed.throughput "), "{answer}");
}

#[test]
fn a_folder_keeps_each_run_once_and_says_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let entries = nights(3, 3, 1.0);
    assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("history add"));
    assert!(read(folder.path()).unwrap_err().to_string().contains("history add"));
    for entry in entries.iter().rev() {
        let added = add(folder.path(), entry).unwrap();
        assert!(added.there.is_none() && added.file.starts_with(folder.path().join("2026-01")), "{added:?}");
        // Also if another branch of the repository added it.
        let again = HistoryEntry { branch: Some("topic".to_owned()), ..entry.clone() };
        assert_eq!(add(folder.path(), &again).unwrap().there.as_ref(), Some(entry));
    }
    // A time that is none leads to no other folder.
    let elsewhere = HistoryEntry { began: "../../../x".to_owned(), ..entries[0].clone() };
    let strange = add(folder.path(), &elsewhere).unwrap().file;
    assert!(strange.starts_with(folder.path().join("-------")), "{strange:?}");
    std::fs::remove_file(strange).unwrap();
    std::fs::write(folder.path().join("README"), "notes of the team").unwrap();
    assert_eq!(read(folder.path()).unwrap(), entries);
    let file = folder.path().join("2026-01").join("2026-01-09T02-00-00Z-00000000.json");
    std::fs::write(&file, "{\"format\": \"storebench-history/9\", ").unwrap();
    let error = read(folder.path()).unwrap_err().to_string();
    assert!(error.starts_with(&file.display().to_string()) && error.contains("restore it"), "{error}");
    // An entry of a later version is not damaged, whatever else it holds.
    for other in
        [r#"{"format": "storebench-history/9"}"#, r#"{"format": "storebench-history/9", "configurations": {}}"#]
    {
        std::fs::write(&file, other).unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("another version of Storebench") && !error.contains("remove"), "{error}");
    }
}
