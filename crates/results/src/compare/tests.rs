mod gates;
mod history;
mod sources;

use std::path::{Path, PathBuf};

use super::pairs::judge;
use super::*;
use crate::configurations::over_trials;
use crate::cost::{PriceSheet, cost_of_run};
use crate::figures::Better;
use crate::stats::Estimate;
use crate::summary::{Layout, WIDTH};
use crate::validity::{CheckResult, Severity};
use crate::{Failure, Percentiles, RunResult, SearchResult, TrialResult, fixture};

/// A run of these configurations: for each its speed in each round.
fn run(began: &str, configurations: &[(&str, &[f64])]) -> RunResult {
    let mut run = fixture::run_of(&[fixture::load(), fixture::open_loop()]);
    let trial = run.trials.remove(0);
    run.run.began = began.into();
    let rounds = configurations.iter().map(|(_, speeds)| speeds.len()).max().unwrap();
    for round in 0..rounds {
        for (configuration, speeds) in configurations {
            let Some(factor) = speeds.get(round) else { continue };
            let number = run.trials.len() as u32 + 1;
            let mut trial = TrialResult {
                trial: number,
                round: round as u32 + 1,
                configuration: (*configuration).into(),
                store: (*configuration).into(),
                ..trial.clone()
            };
            fixture::speed(&mut trial, *factor);
            run.trials.push(trial);
        }
    }
    run
}

fn source(name: &str, run: RunResult) -> Source {
    several(name, [run])
}

/// Several runs of one side.
fn several(name: &str, runs: impl IntoIterator<Item = RunResult>) -> Source {
    let of = |(nth, run): (usize, RunResult)| {
        let name = if nth == 0 { name.to_owned() } else { format!("{name}-{}", nth + 1) };
        OneRun { file: PathBuf::from(&name).join("run.json"), name, run }
    };
    let runs = runs.into_iter().enumerate().map(of).collect();
    Source { name: name.into(), baseline: None, configuration: None, runs }
}

/// Three runs of a day, which differ by 1 %.
fn runs_of(day: &str, configuration: &str, speeds: &[f64]) -> Vec<RunResult> {
    let of = |(nth, by): (usize, f64)| {
        let speeds: Vec<f64> = speeds.iter().map(|speed| speed * by).collect();
        run(&day.replace("T00", &format!("T0{nth}")), &[(configuration, &speeds)])
    };
    [0.99, 1.0, 1.01].into_iter().enumerate().map(of).collect()
}

fn with_configuration(name: &str, run: RunResult, configuration: &str) -> Source {
    Source { configuration: Some(configuration.into()), ..source(name, run) }
}

const EVEN: &[f64] = &[1.0, 1.01, 0.99, 1.005, 0.995];
const DAY_1: &str = "2026-01-01T00:00:00Z";
const DAY_2: &str = "2026-01-02T00:00:00Z";

fn faster(by: f64) -> Vec<f64> {
    EVEN.iter().rev().map(|factor| factor * by).collect()
}

fn plain(sides: &[Source]) -> CompareRequest<'_> {
    CompareRequest {
        sides,
        history: None,
        threshold: 0.02,
        gates: &[],
        must_detect: None,
        undecided_passes: false,
        anyway: false,
    }
}

fn compared(sides: &[Source], gates: &[&str]) -> Result<CompareResult, CompareError> {
    let gates: Vec<Gate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
    compare(&CompareRequest { gates: &gates, ..plain(sides) })
}

fn anyway(sides: &[Source]) -> CompareResult {
    compare(&CompareRequest { anyway: true, ..plain(sides) }).unwrap()
}

fn figure<'a>(result: &'a CompareResult, name: &str) -> &'a ComparedFigure {
    result.pairs[0].figures.iter().find(|figure| figure.figure == name).unwrap()
}

fn two(by: f64) -> [Source; 2] {
    [several("runs/a", runs_of(DAY_1, "sqlite", EVEN)), several("runs/b", runs_of(DAY_2, "sqlite", &faster(by)))]
}

#[test]
fn configurations_of_a_run_are_paired_by_round_and_drift_cancels() {
    let drift = [1.0, 1.3, 1.6, 1.9, 2.2];
    let b: Vec<f64> = drift.iter().map(|base| base * 1.1).collect();
    let result = compared(&[source("runs/a", run(DAY_1, &[("old", &drift), ("new", &b)]))], &[]).unwrap();
    let pair = &result.pairs[0];
    assert!(pair.paired_by_round && pair.a.configuration == "old" && pair.b.configuration == "new");
    let throughput = figure(&result, "steady.throughput");
    assert!((throughput.ratio.unwrap().value - 1.1).abs() < 1e-9, "{throughput:?}");
    assert_eq!((throughput.judgement, throughput.word.as_str()), (Judgement::Better, "faster"));
    let p99 = figure(&result, "steady.read.response.p99");
    assert!((p99.ratio.unwrap().value - 1.0 / 1.1).abs() < 1e-3 && p99.word == "faster", "{p99:?}");
    // The same as two runs: nothing tells the drift from a difference.
    let apart = [source("a", run(DAY_1, &[("old", &drift)])), source("b", run(DAY_2, &[("new", &b)]))];
    let result = compared(&apart, &["steady.throughput < -5%"]).unwrap();
    assert!(!result.pairs[0].paired_by_round);
    let throughput = figure(&result, "steady.throughput");
    assert_eq!((throughput.judgement, throughput.word.as_str()), (Judgement::OneRun, "cannot tell run-to-run noise"));
    assert_eq!((throughput.ratio.unwrap().low, result.gates[0].outcome), (None, GateOutcome::Undecided));
    assert!(result.trouble().unwrap().contains("compare several runs on each side"));
}

#[test]
fn a_round_that_one_configuration_lacks_is_in_no_ratio() {
    let mut of = run(DAY_1, &[("a", EVEN), ("b", EVEN)]);
    of.trials.remove(3);
    fixture::speed(&mut of.trials[2], 9.0);
    let result = compared(&[source("r", of)], &[]).unwrap();
    let throughput = figure(&result, "steady.throughput");
    assert_eq!((throughput.a.trials, throughput.b.trials, throughput.ratio.unwrap().trials), (4, 4, 4));
    assert!((throughput.ratio.unwrap().value - 1.0).abs() < 1e-9, "{throughput:?}");
    assert!(result.pairs[0].notes[0].contains("round 2"), "{:?}", result.pairs[0].notes);
}

/// Nothing is slower than what does not happen, and its mean is no figure.
#[test]
fn what_only_one_of_two_has_is_no_ratio_and_passes_no_gate() {
    let gates = ["steady.throughput < -50%", "steady.throughput > +50%", "steady.read.response.p99 > +900%"];
    let outcomes = |change: &dyn Fn(&mut RunResult), swapped: bool| {
        let mut of = two(1.0);
        change(&mut of[1].runs[0].run);
        if swapped {
            of.reverse();
        }
        let gates: Vec<Gate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
        let request = CompareRequest { gates: &gates, anyway: true, ..plain(&of) };
        let result = compare(&request).unwrap();
        let words = ["steady.throughput", "steady.read.response.p99"].map(|name| figure(&result, name).word.clone());
        (result.gates.iter().map(|gate| gate.outcome).collect::<Vec<_>>(), words, result.exit_code())
    };
    let idle = |run: &mut RunResult| {
        run.trials[1].phases[1].ops.values_mut().for_each(|op| (op.succeeded, op.throughput_per_s) = (0, 0.0));
    };
    let (gates_of, words, code) = outcomes(&idle, false);
    assert_eq!(gates_of, [GateOutcome::Failed, GateOutcome::Undecided, GateOutcome::Passed]);
    assert_eq!((words[0].as_str(), code), ("missing in 1 of 15 trials of B", 1));
    let (gates_of, words, code) = outcomes(&idle, true);
    assert_eq!(gates_of[..2], [GateOutcome::Undecided, GateOutcome::Undecided]);
    assert_eq!((words[0].as_str(), code), ("missing in 1 of 15 trials of A", 5));
    // More than 1 % of its attempts fail: its 99th percentile is among them, however fast the others are.
    let failing = |run: &mut RunResult| {
        for trial in &mut run.trials {
            let read = &mut trial.phases[1].ops["read"];
            let of_attempts =
                Percentiles { p99: None, p99_9: None, p99_99: None, max: None, ..read.response_ns.unwrap() };
            read.response_of_attempts_ns = Some(of_attempts);
        }
    };
    let (gates_of, words, code) = outcomes(&failing, false);
    assert_eq!((gates_of[2], code), (GateOutcome::Failed, 1));
    assert_eq!(words[1], "missing in 5 of 15 trials of B");
}

#[test]
fn a_phase_that_was_searched_is_compared_by_its_rate_alone() {
    let mut of = two(1.0);
    for (n, source) in of.iter_mut().enumerate() {
        for trial in source.runs.iter_mut().flat_map(|of| &mut of.run.trials) {
            let fails_at = (n == 0).then_some(1_100.0);
            let found =
                SearchResult { phase: "steady".into(), rate: Some(1_000.0), fails_at, ..SearchResult::default() };
            trial.searches.push(found);
        }
    }
    let result = compared(&of, &["rate-within-limits < -50%"]).unwrap();
    let steady: Vec<&str> =
        result.pairs[0].figures.iter().filter(|f| f.phase == "steady").map(|f| f.measure.as_str()).collect();
    assert_eq!(steady, ["rate-within-limits"]);
    assert_eq!(figure(&result, "steady.rate-within-limits").judgement, Judgement::AtLeast);
    assert_eq!((result.gates[0].outcome, result.exit_code()), (GateOutcome::Undecided, 5));
    assert!(
        result.pairs[0].notes.iter().any(|note| note.contains("searched for its rate")),
        "{:?}",
        result.pairs[0].notes
    );
}

#[test]
fn money_of_two_currencies_is_not_compared_and_of_two_sheets_is_told() {
    let notes = |currency: &str, per_hour: f64| {
        let sheet = |currency: &str, per_hour: f64| {
            let text = format!(
                "currency = \"{currency}\"\nsource = \"a list\"\ndate = \"2026-01-31\"\n[nodes.n]\nper_hour = {per_hour}\n\
                 [stores]\ndefault = {{ node = \"n\" }}"
            );
            PriceSheet::parse(&text, Path::new("prices.toml")).unwrap()
        };
        let mut of = two(1.0);
        for (source, sheet) in of.iter_mut().zip([sheet("USD", 1.0), sheet(currency, per_hour)]) {
            for of in &mut source.runs {
                let run = &mut of.run;
                run.configurations = over_trials(&run.plan, &run.trials);
                run.cost = Some(cost_of_run(&sheet, run));
            }
        }
        let result = compared(&of, &[]).unwrap();
        let pair = &result.pairs[0];
        for figure in pair.figures.iter().filter(|f| f.measure == "cost") {
            // Three decimals would show nothing.
            let shown = format::value(figure, &Estimate { value: 0.000_421_8, ..figure.a });
            assert_eq!(shown, "0.0004218 a million");
        }
        (pair.figures.iter().any(|f| f.measure == "cost"), pair.notes.iter().any(|note| note.contains("cost")))
    };
    assert_eq!(notes("USD", 1.0), (true, false));
    assert_eq!(notes("USD", 2.0), (true, true));
    assert_eq!(notes("EUR", 1.0), (false, true));
}

#[test]
fn settings_of_the_same_kind_of_store_that_differ_are_told() {
    let notes = |other: &str| {
        let mut of = two(1.0);
        for (source, value) in of.iter_mut().zip(["4MB", other]) {
            let trial = &mut source.runs[0].run.trials[0];
            trial.settings = Some(fixture::settings(None, &[("same", "1", None), ("work_mem", value, None)]));
        }
        compared(&of, &[]).unwrap().pairs.remove(0).notes
    };
    assert!(notes("64MB").contains(&"settings differ: work_mem 4MB → 64MB".to_owned()));
    assert!(notes("4MB").iter().all(|note| !note.contains("settings")));
}

#[test]
fn what_was_lost_is_told_of_trials_that_are_in_no_figure_too() {
    let mut of = two(1.0);
    of[1].runs[0].run.trials[1].failure = Some(Failure::default());
    let of_trial_2 = |name: &str| check(name, Severity::Invalid, Some(2));
    of[1].runs[0].run.checks = vec![of_trial_2("lost-writes"), of_trial_2("too-short")];
    let result = anyway(&of);
    let told: Vec<&str> = result.pairs[0].b.checks.iter().map(|v| v.check.as_str()).collect();
    assert_eq!(told, ["lost-writes"]);
}

#[test]
fn what_is_sure_of_a_ratio() {
    let word = |value: f64, low: f64, high: f64, better| {
        judge(&Estimate { value, low: Some(low), high: Some(high), trials: 5 }, better, 0.02)
    };
    assert_eq!(word(1.0, 0.98, 1.02, Better::More), Judgement::Unchanged);
    // Surely different, but too little to matter.
    assert_eq!(word(1.01, 1.005, 1.015, Better::More), Judgement::Unchanged);
    assert_eq!(word(1.015, 1.005, 1.025, Better::More), Judgement::Inconclusive);
    assert_eq!(word(1.1, 0.99, 1.2, Better::More), Judgement::Inconclusive);
    assert_eq!(word(1.1, 1.05, 1.2, Better::More), Judgement::Better);
    assert_eq!(word(1.1, 1.05, 1.2, Better::Less), Judgement::Worse);
    assert_eq!(word(0.9, 0.85, 0.95, Better::Less), Judgement::Better);
    let one = Estimate { value: 3.0, low: None, high: None, trials: 1 };
    assert_eq!(judge(&one, Better::More, 0.02), Judgement::OneTrial);
}

#[test]
fn runs_are_matched_by_configuration_and_the_first_is_the_base() {
    let a = run(DAY_1, &[("x", EVEN), ("y", EVEN), ("only-a", EVEN)]);
    let b = run(DAY_2, &[("y", EVEN), ("x", EVEN), ("only-b", EVEN)]);
    let names = |result: &CompareResult| -> Vec<(String, String)> {
        result.pairs.iter().map(|pair| (pair.a.label(), pair.b.label())).collect()
    };
    let pairs = |of: &[(&str, &str)]| -> Vec<(String, String)> {
        of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    };
    let result = compared(&[source("a", a.clone()), source("b", b.clone())], &[]).unwrap();
    assert_eq!(names(&result), pairs(&[("a#x", "b#x"), ("a#y", "b#y")]));
    let left: Vec<&str> = result.unmatched.iter().map(|left| left.configuration.as_str()).collect();
    assert_eq!(left, ["only-a", "only-b"]);
    // One alone: its configurations with its first, or with the one that was asked for.
    assert_eq!(
        names(&compared(&[source("a", a.clone())], &[]).unwrap()),
        pairs(&[("a#x", "a#y"), ("a#x", "a#only-a")])
    );
    assert_eq!(
        names(&compared(&[with_configuration("a", a.clone(), "y")], &[]).unwrap()),
        pairs(&[("a#y", "a#x"), ("a#y", "a#only-a")])
    );
    // Configurations that were asked for belong together whatever they are called, and the others are nobody's concern.
    let result =
        compared(&[with_configuration("a", a.clone(), "x"), with_configuration("b", b.clone(), "y")], &[]).unwrap();
    assert_eq!((names(&result), result.unmatched.len()), (pairs(&[("a#x", "b#y")]), 0));
    let result =
        compared(&[with_configuration("a", a.clone(), "on"), with_configuration("a", a.clone(), "y")], &[]).unwrap();
    assert!(result.pairs[0].paired_by_round);
    let result = compared(&[with_configuration("a", a.clone(), "y"), source("b", b.clone())], &[]).unwrap();
    assert_eq!((names(&result), result.unmatched.len()), (pairs(&[("a#y", "b#y")]), 0));

    let refusal = |runs: &[Source]| compared(runs, &[]).unwrap_err().to_string();
    let text = refusal(&[with_configuration("a", a.clone(), "z")]);
    assert!(text.contains("no configuration called `z`") && text.contains("`x`, `y`, `only-a`"), "{text}");
    let twins = run(DAY_1, &[("p=1", EVEN), ("p=2", EVEN)]);
    assert!(refusal(&[with_configuration("a", twins, "p=")]).contains("several configurations"));
    assert!(
        refusal(&[with_configuration("a", a.clone(), "only"), source("b", b)]).contains("no configuration in common")
    );
    assert!(refusal(&[source("a", run(DAY_1, &[("x", EVEN)]))]).contains("one configuration, `x`"));
    let same = [with_configuration("a", a.clone(), "x"), with_configuration("copy", a, "x")];
    assert!(refusal(&same).contains("the same trials"));
}

#[test]
fn one_trial_is_shown_and_cannot_be_judged() {
    let runs = [source("a", run(DAY_1, &[("x", &[1.0]), ("y", &[0.5])]))];
    let result = compared(&runs, &["steady.throughput < -5%"]).unwrap();
    assert_eq!(figure(&result, "steady.throughput").word, "one trial");
    assert_eq!(result.gates[0].outcome, GateOutcome::Undecided);
    assert_eq!(result.exit_code(), 5);
    assert!(result.trouble().unwrap().contains("use repeats"));
    assert_eq!(compared(&runs, &[]).unwrap().exit_code(), 0);
}

#[test]
fn what_is_partial_is_refused_by_name() {
    let mut b = run(DAY_2, &[("x", EVEN)]);
    b.trials[1].failure =
        Some(Failure { kind: crate::FailureKind::Failed, during: "load".into(), message: "disk full".into() });
    b.trials[4].phases[1].partial = Some("interrupted".into());
    b.run.interrupted = true;
    let runs = [source("a", run(DAY_1, &[("x", EVEN)])), source("b", b)];
    let text = compared(&runs, &[]).unwrap_err().to_string();
    insta::assert_snapshot!(text);
    let result = anyway(&runs);
    assert_eq!(result.pairs[0].b.first.trials, [1, 3, 4]);
    assert_eq!(result.pairs[0].b.first.left_out.len(), 2);
    assert_eq!(figure(&result, "steady.throughput").b.trials, 3);

    let mut killed = run(DAY_2, &[("x", EVEN)]);
    killed.run.ended = None;
    killed.plan.phases = vec![crate::plan::PlannedPhase::default(); 2];
    killed.trials[4].phases.pop();
    let runs = [source("a", run(DAY_1, &[("x", EVEN)])), source("b", killed)];
    assert!(compared(&runs, &[]).unwrap_err().to_string().contains("it is still running"));
    assert_eq!(anyway(&runs).pairs[0].b.first.trials, [1, 2, 3, 4]);
}

#[test]
fn what_is_unlike_is_refused_and_stands_on_top_if_not() {
    let mut b = run(DAY_2, &[("x", EVEN)]);
    for trial in &mut b.trials {
        trial.phases.iter_mut().for_each(|phase| phase.durability.name = "fsync".into());
    }
    let runs = [source("a", run(DAY_1, &[("x", EVEN)])), source("b", b)];
    let text = compared(&runs, &[]).unwrap_err().to_string();
    assert!(text.contains("a#x and b#x: durability") && text.contains("fsync") && text.contains("--anyway"), "{text}");
    let result = anyway(&runs);
    let shown = super::text(&result, false, Layout::plain());
    assert!(shown.starts_with("Compared anyway\n  a#x and b#x differ: durability"), "{shown}");
    assert!(markdown(&result, false).starts_with("**Compared anyway**"));
}

fn check(name: &str, severity: Severity, trial: Option<u32>) -> CheckResult {
    let text = String::new;
    CheckResult {
        check: name.into(),
        severity,
        observed: text(),
        threshold: text(),
        advice: text(),
        weight: None,
        trial,
        store: None,
        configuration: None,
        phase: None,
    }
}

#[test]
fn an_invalid_run_ends_with_4_before_any_gate() {
    let [a, mut b] = two(0.5);
    b.runs[0].run.checks =
        vec![check("client-saturated", Severity::Invalid, Some(1)), check("noisy", Severity::Caution, None)];
    let runs = [a, b];
    let result = compared(&runs, &["steady.throughput < -5%"]).unwrap();
    assert_eq!((result.exit_code(), result.pairs[0].b.checks.len()), (4, 2));
    assert!(result.trouble().unwrap().contains("runs/b,runs/b-2,runs/b-3#sqlite (client-saturated)"));
    assert_eq!(anyway(&runs).exit_code(), 0);
    // Of a configuration that is not compared: no concern.
    let mut other = run(DAY_1, &[("x", EVEN), ("y", EVEN), ("z", EVEN)]);
    other.checks = vec![check("client-saturated", Severity::Invalid, Some(3))];
    assert_eq!(
        compared(&[with_configuration("r", other.clone(), "x"), with_configuration("r", other, "y")], &[])
            .unwrap()
            .exit_code(),
        0
    );
}

/// A comparison with something of everything.
fn rich() -> CompareResult {
    let with_disk = |mut runs: Vec<RunResult>, bytes: u64| {
        for (at, trial) in runs.iter_mut().flat_map(|run| &mut run.trials).enumerate() {
            let after = crate::StoreAfter { disk_bytes: Some(bytes + at as u64), ..Default::default() };
            trial.phases[0].store_after = Some(after);
        }
        runs
    };
    let mut b = with_disk(runs_of(DAY_2, "sqlite", &faster(0.93)), 70_000_000);
    for run in &mut b {
        let also = run.trials[0].clone();
        run.trials.push(TrialResult { trial: 6, configuration: "redb".into(), store: "redb".into(), ..also });
    }
    b[0].environment.kernel = "6.2".into();
    b[0].checks = vec![
        check("too-short", Severity::Caution, Some(1)),
        check("too-short", Severity::Caution, Some(3)),
        check("client-shares-host", Severity::Caution, None),
        check("single-run", Severity::Note, None),
    ];
    let a = with_disk(runs_of(DAY_1, "sqlite", EVEN), 64_000_000);
    let gates = ["read.response.p99 > +2%", "steady.throughput < -7%", "disk > +20%"];
    compared(&[several("runs/base", a), several("runs/cand", b)], &gates).unwrap()
}

#[test]
fn one_run_on_a_side_as_text() {
    let sides =
        [source("runs/base", run(DAY_1, &[("x", EVEN)])), source("runs/cand", run(DAY_2, &[("x", &faster(0.8))]))];
    let shown = text(&compared(&sides, &["read.response.p99 > +5%"]).unwrap(), false, Layout::plain());
    assert!(!shown.contains("slower") && !shown.contains("faster"), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn as_text() {
    let result = rich();
    let plain = text(&result, false, Layout::plain());
    insta::assert_snapshot!(plain);
    for all in [false, true] {
        let wide = text(&result, all, Layout::plain());
        assert!(wide.lines().all(|line| line.chars().count() <= 120), "{wide}");
    }
    assert!(text(&result, true, Layout::plain()).contains("response.p99.99"));
    let coloured = text(&result, false, Layout::new(WIDTH, true));
    let mut parts = coloured.split('\u{1b}');
    let mut stripped = parts.next().unwrap().to_owned();
    parts.for_each(|part| stripped.push_str(part.split_once('m').unwrap().1));
    let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(&stripped), trimmed(&plain));
}

#[test]
fn as_markdown() {
    insta::assert_snapshot!(markdown(&rich(), false));
}

#[test]
fn several_pairs_as_text() {
    let configurations: &[(&str, &[f64])] = &[("old", EVEN), ("new", &faster(1.2)), ("one", &[1.0])];
    let result = compared(&[source("runs/a", run(DAY_1, configurations))], &["steady.throughput < -5%"]).unwrap();
    insta::assert_snapshot!(text(&result, false, Layout::plain()));
}

#[test]
fn long_names_stay_within_the_width() {
    let configuration = "couchbase phases.by-user.rate=15000 collections.highlights.count=497030000";
    let name = format!("storebench-runs/{}", "a-long-name-".repeat(5));
    let runs = [source(&name, run(DAY_1, &[(configuration, EVEN)])), source("b", run(DAY_2, &[(configuration, EVEN)]))];
    let result = compared(&runs, &["read.response.p99 > +5%"]).unwrap();
    let shown = text(&result, true, Layout::plain());
    assert!(shown.lines().all(|line| line.chars().count() <= 120), "{shown}");
}

#[cfg(feature = "schema")]
#[test]
fn the_document_fits_its_schema() {
    let document = serde_json::to_value(rich()).unwrap();
    assert_eq!(storebench_schema::faults(&schema(), &document), Vec::<String>::new());
    assert_eq!(document["format"], COMPARE_FORMAT);
    let back: CompareResult = serde_json::from_value(document).unwrap();
    assert_eq!(back.exit_code(), rich().exit_code());
}
