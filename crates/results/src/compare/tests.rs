use std::path::{Path, PathBuf};

use proptest::prelude::*;

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
    CompareRequest { sides, threshold: 0.02, gates: &[], must_detect: None, undecided_passes: false, anyway: false }
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
fn runs_of_earlier_versions_have_their_stores_for_configurations() {
    let mut old = run(DAY_1, &[("a", EVEN), ("b", EVEN)]);
    old.trials.iter_mut().for_each(|trial| trial.configuration.clear());
    assert_eq!(compared(&[source("old", old)], &[]).unwrap().pairs[0].b.configuration, "b");
}

#[test]
fn gates_pass_fail_or_are_undecided() {
    let outcome = |by: f64, gate: &str| compared(&two(by), &[gate]).unwrap().gates[0].outcome;
    // The whole interval is beyond the line.
    assert_eq!(outcome(0.9, "steady.throughput < -5%"), GateOutcome::Failed);
    assert_eq!(outcome(0.9, "steady.read.response.p99 > +5%"), GateOutcome::Failed);
    assert_eq!(outcome(0.9, "steady.read.response.p99 > x1.05"), GateOutcome::Failed);
    // It straddles the line: the point beyond, and not.
    assert_eq!(outcome(0.945, "steady.throughput < -5%"), GateOutcome::Undecided);
    assert_eq!(outcome(0.955, "steady.throughput < -5%"), GateOutcome::Undecided);
    assert_eq!(outcome(1.0, "steady.throughput < -5%"), GateOutcome::Passed);
    assert_eq!(outcome(1.2, "steady.throughput < -5%"), GateOutcome::Passed);
    // To become better may be demanded.
    assert_eq!(outcome(1.0, "steady.throughput < +5%"), GateOutcome::Failed);
    for (by, code) in [(0.9, 1), (0.945, 5), (0.955, 5), (1.0, 0)] {
        assert_eq!(compared(&two(by), &["steady.throughput < -5%"]).unwrap().exit_code(), code);
    }
}

/// Two noisy configurations in five rounds: `passed` beside an interval from 0.4 to 1.1 said nothing.
#[test]
fn an_undecided_gate_says_how_many_rounds_would_decide_it() {
    let gates: [Gate; 2] = ["steady.throughput < -20%", "steady.throughput < -5%"].map(|gate| gate.parse().unwrap());
    let judged = |speeds: &[f64], gates: &[Gate], undecided_passes| {
        let sides = [source("r", run(DAY_1, &[("a", EVEN), ("b", speeds)]))];
        compare(&CompareRequest { gates, undecided_passes, ..plain(&sides) }).unwrap()
    };
    let noisy = [1.0, 0.5, 0.9, 0.6, 0.8];
    let result = judged(&noisy, &gates[..1], false);
    let gate = &result.gates[0];
    assert_eq!((gate.outcome, result.exit_code()), (GateOutcome::Undecided, 5));
    let rounds = gate.rounds.unwrap();
    assert!(rounds > 5, "{rounds}");
    let told = result.trouble().unwrap();
    let expected = format!("the limit is inside the interval; about {rounds} rounds would decide it");
    assert!(told.starts_with("gate undecided: ") && told.contains(&expected), "{told}");
    let shown = text(&result, false, Layout::plain()).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&expected), "{shown}");
    let passing = judged(&noisy, &gates[..1], true);
    assert_eq!((passing.gates[0].outcome, passing.exit_code()), (GateOutcome::Undecided, 0));
    assert_eq!(passing.trouble(), None);
    // The same noise in as many rounds as it said decides in most cases.
    let more: Vec<f64> = noisy.iter().copied().cycle().take(2 * rounds as usize).collect();
    let times = more.len();
    let sides = [source("r", run(DAY_1, &[("a", &[1.0].repeat(times)), ("b", &more)]))];
    let later = compare(&CompareRequest { gates: &gates[..1], ..plain(&sides) }).unwrap();
    assert_ne!(later.gates[0].outcome, GateOutcome::Undecided, "{:?}", later.gates[0]);
    // A limit at the measured ratio can never be decided.
    let ratio = gate.ratio.unwrap().value;
    let there: Gate = format!("steady.throughput < x{ratio}").parse().unwrap();
    let never = judged(&noisy, &[there], false);
    assert_eq!(never.gates[0].rounds, None);
    assert!(never.trouble().unwrap().contains("1,000 rounds would not decide it"), "{:?}", never.trouble());
}

proptest! {
    /// The outcome follows from the interval that is shown beside it.
    #[test]
    fn the_outcome_of_a_gate_is_where_its_interval_is(
        speeds in proptest::collection::vec(0.3_f64..2.0, 2..8), line in 0.5_f64..1.6, above: bool,
    ) {
        let even = vec![1.0; speeds.len()];
        let sides = [source("r", run(DAY_1, &[("a", &even), ("b", &speeds)]))];
        let sign = if above { '>' } else { '<' };
        let result = compared(&sides, &[&format!("steady.throughput {sign} x{line:.3}")]).unwrap();
        let gate = &result.gates[0];
        let (low, high) = (gate.ratio.unwrap().low.unwrap(), gate.ratio.unwrap().high.unwrap());
        let beyond = |ratio: f64| if above { ratio > gate.line } else { ratio < gate.line };
        let (outcome, code) = match (beyond(low), beyond(high)) {
            (true, true) => (GateOutcome::Failed, 1),
            (false, false) => (GateOutcome::Passed, 0),
            _ => (GateOutcome::Undecided, 5),
        };
        prop_assert_eq!((gate.outcome, result.exit_code()), (outcome, code));
        prop_assert_eq!(gate.why.is_some(), outcome == GateOutcome::Undecided);
        prop_assert!(gate.rounds.is_none_or(|rounds| rounds as usize > speeds.len()));
    }
}

#[test]
fn a_gate_judges_every_figure_that_it_names() {
    let judged = |gate: &str| -> Vec<String> {
        compared(&two(1.0), &[gate]).unwrap().gates.into_iter().map(|gate| gate.figure).collect()
    };
    assert_eq!(judged("read.response.p99 > +5%"), ["steady.read.response.p99"]);
    assert_eq!(
        judged("response.p99 > +5%"),
        ["steady.response.p99", "steady.read.response.p99", "steady.update.response.p99"]
    );
    // The load has one operation, `books`, and its figures no operation in their name.
    assert_eq!(judged("books.service.p50 > +5%"), ["load.service.p50"]);
    assert_eq!(judged("load.documents < -5%"), ["load.documents"]);
}

#[test]
fn a_gate_that_names_nothing_is_told_what_there_is() {
    let refusal = |gate: &str| compared(&two(1.0), &[gate]).unwrap_err().to_string();
    assert!(refusal("raed.response.p99 > +5%").ends_with("did you mean `read.response.p99`?"));
    assert!(refusal("load.response.p50 > +5%").contains("use `load.service.p50`"));
    assert!(refusal("cost > +5%").contains("have no costs"));
    // Not a whole measure.
    // The load comes first, and has service times only: they say nothing of what clients of the open loop waited.
    let told = refusal("p99 > +5%");
    assert!(
        told.contains("in common; use `response.p99` for what clients wait (open loops), or `service.p99`"),
        "{told}"
    );
    let told = refusal("steady.read.p99.9 > +5%");
    assert!(
        told.contains("; use `steady.read.response.p99.9` for what") && told.contains("`steady.read.service.p99.9`")
    );
    assert!(refusal("load.p50 > +5%").ends_with("use `load.service.p50`"), "{}", refusal("load.p50 > +5%"));
    assert!(refusal("9 > +5%").contains("there are `throughput`, `documents`"), "{}", refusal("9 > +5%"));
    assert!(refusal("9 > +5%").ends_with("of `load`, `steady`, `steady.read`, `steady.update`"));
}

#[test]
fn gates_that_cannot_be_read_say_where() {
    let wrong = |text: &str| text.parse::<Gate>().unwrap_err().to_string();
    insta::assert_snapshot!(
        [
            "read.response.p99",
            "read.response.p99 = +5%",
            "read.response.p99 >= +5%",
            "> +5%",
            "read p99 > +5%",
            "throughput < 5%",
            "throughput < -5",
            "throughput < -fast%",
            "throughput < -100%",
            "disk > x0",
            "Größe > +inf%",
            "",
        ]
        .map(wrong)
        .join("\n\n")
    );
    let gate: Gate = " a.throughput<−2.5 %".parse().unwrap();
    assert_eq!((gate.path.as_str(), gate.above, gate.line), ("a.throughput", false, 0.975));
    assert_eq!("disk > ×1.5".parse::<Gate>().unwrap().line, 1.5);
    assert_eq!(parse_threshold("2.5 %"), Ok(0.025));
    assert_eq!(parse_threshold(DEFAULT_THRESHOLD), Ok(0.02));
    for text in ["2", "-1%", "100%", "x%", ""] {
        assert!(parse_threshold(text).is_err(), "{text}");
    }
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

fn kept(dir: &Path, name: &str, run: &RunResult) -> Source {
    let folder = dir.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("run.json"), serde_json::to_vec(run).unwrap()).unwrap();
    Source::open(folder.to_str().unwrap()).unwrap()
}

#[test]
fn a_baseline_is_a_set_of_runs_that_are_kept_whole() {
    let dir = tempfile::tempdir().unwrap();
    let baselines = dir.path().join("deep/baselines");
    let mains: Vec<Source> =
        runs_of(DAY_1, "x", EVEN).iter().zip(["a", "b", "c"]).map(|(r, n)| kept(dir.path(), n, r)).collect();
    let missing = |name: &str| Source::baseline(&baselines, name).unwrap_err().to_string();
    assert!(missing("main").contains("--save-baseline main"));
    for (of, runs) in mains.iter().zip(1..) {
        let saved = save_baseline(of, &baselines, "main", Keep::All).unwrap();
        assert_eq!((saved.runs, saved.removed.len()), (runs, 0));
        assert_eq!(std::fs::read(&saved.path).unwrap(), std::fs::read(&of.runs[0].file).unwrap());
    }
    let again = save_baseline(&mains[0], &baselines, "main", Keep::None).unwrap_err().to_string();
    assert!(again.contains("has this run already"), "{again}");
    let topic = several("topic", runs_of(DAY_2, "x", &faster(1.2)));
    let result = compared(&[Source::baseline(&baselines, "main").unwrap(), topic.clone()], &[]).unwrap();
    assert_eq!(result.pairs[0].a.label(), "baseline main#x");
    assert_eq!((result.pairs[0].a.more_runs.len(), figure(&result, "steady.throughput").a.trials), (2, 3));
    assert_eq!(figure(&result, "steady.throughput").word, "faster");
    // Only the newest are kept if that is said.
    let next = kept(dir.path(), "d", &run(DAY_2, &[("x", EVEN)]));
    let saved = save_baseline(&next, &baselines, "main", Keep::Newest(2)).unwrap();
    assert_eq!((saved.runs, saved.removed.len()), (2, 2));
    let days = |name: &str| -> Vec<String> {
        Source::baseline(&baselines, name).unwrap().runs.iter().map(|of| of.run.run.began.clone()).collect()
    };
    assert_eq!(days("main"), ["2026-01-01T02:00:00Z", DAY_2]);
    let other = kept(dir.path(), "e", &run("2026-01-03T00:00:00Z", &[("x", EVEN)]));
    assert_eq!(save_baseline(&other, &baselines, "main", Keep::None).unwrap().removed.len(), 2);
    assert_eq!(std::fs::read_dir(baselines.join("main")).unwrap().count(), 1, "nothing else is left there");
    assert!(Source::baseline(&baselines, "main#x").unwrap().configuration.is_some());
    assert!(missing("mian").contains("did you mean `main`"));
    assert!(missing("../main").contains("names no baseline"));
    let mut cut = run(DAY_2, &[("x", EVEN)]);
    cut.run.interrupted = true;
    let cut = kept(dir.path(), "cut", &cut);
    assert!(save_baseline(&cut, &baselines, "cut", Keep::All).unwrap_err().to_string().contains("interrupted"));
}

#[test]
fn several_runs_of_one_side_are_named_with_commas() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<String> = runs_of(DAY_1, "x", EVEN)
        .iter()
        .zip(["a", "b", "c"])
        .map(|(run, name)| kept(dir.path(), name, run).runs[0].name.clone())
        .collect();
    let three = Source::open(&paths.join(",")).unwrap();
    assert_eq!((three.runs.len(), three.name.as_str()), (3, paths.join(",").as_str()));
    let one = Source::open(&format!("{}#x, {}", paths[0], paths[1])).unwrap();
    assert_eq!((one.runs.len(), one.configuration.as_deref()), (2, Some("x")));
    let refusal = |text: String| Source::open(&text).unwrap_err().to_string();
    assert!(refusal(format!("{0},{1},{0}", paths[0], paths[1])).contains("are the same run"));
    assert!(refusal(format!("{}#x,{}#y", paths[0], paths[1])).contains("must have the same configuration"));
    // A run that measured something else does not belong to them.
    let mut odd = run(DAY_2, &[("x", EVEN)]);
    odd.trials.iter_mut().flat_map(|trial| &mut trial.phases).for_each(|phase| phase.durability.name = "fsync".into());
    let sides = [several("a", runs_of(DAY_1, "x", EVEN)), several("b", [run(DAY_2, &[("x", EVEN)]), odd])];
    let told = compared(&sides, &[]).unwrap_err().to_string();
    assert!(told.contains("b and b-2: durability"), "{told}");
}

/// A percentile that a trial cannot reach is no reason to leave the trial out, nor the gate.
#[test]
fn a_trial_with_too_few_attempts_for_a_percentile_stays_and_no_gate_on_it_passes() {
    let gate = ["steady.read.response.p99.9 > +5%"];
    let outcome = |few: &[usize]| {
        let mut of = run(DAY_1, &[("a", EVEN), ("b", EVEN)]);
        for at in few {
            for op in of.trials[*at].phases[1].ops.values_mut() {
                let times = [op.response_ns.as_mut(), Some(&mut op.service_ns)].into_iter().flatten();
                times
                    .chain(&mut op.response_of_attempts_ns)
                    .chain(&mut op.service_of_attempts_ns)
                    .for_each(|of| of.count = 500);
            }
        }
        let result = compared(&[source("r", of)], &gate).unwrap();
        (figure(&result, "steady.read.response.p99.9").word.clone(), result.gates[0].outcome, result.exit_code())
    };
    assert_eq!(outcome(&[]).1, GateOutcome::Passed);
    assert_eq!(outcome(&[3]), ("too few attempts in 1 of 5 trials of B".into(), GateOutcome::Undecided, 5));
    assert_eq!(outcome(&[2]), ("too few attempts in 1 of 5 trials of A".into(), GateOutcome::Undecided, 5));
    assert_eq!(outcome(&[2, 3]).0, "too few attempts in trials of A and B");
    let all: Vec<usize> = (0..10).collect();
    assert_eq!((outcome(&all).1, outcome(&all).2), (GateOutcome::Undecided, 5));
}

#[test]
fn a_gate_that_could_not_have_seen_enough_does_not_pass() {
    let noisy = [1.0, 1.1, 0.9, 1.05, 0.95];
    let judged = |speeds: &[f64], must_detect: Option<f64>| {
        let sides = [source("r", run(DAY_1, &[("a", EVEN), ("b", speeds)]))];
        let gates = ["steady.throughput < -2%".parse().unwrap()];
        let request = CompareRequest { gates: &gates, must_detect, ..plain(&sides) };
        compare(&request).unwrap()
    };
    let quiet = judged(&faster(1.0), Some(0.1));
    assert_eq!((quiet.gates[0].outcome, quiet.exit_code()), (GateOutcome::Passed, 0));
    assert!((0.9..0.98).contains(&quiet.gates[0].detectable.unwrap()), "{quiet:?}");
    assert_eq!(judged(&noisy, None).gates[0].outcome, GateOutcome::Undecided);
    let weak = judged(&noisy, Some(0.1));
    assert_eq!((weak.gates[0].outcome, weak.exit_code()), (GateOutcome::TooWeak, 4));
    assert!(weak.gates[0].detectable.unwrap() < 1.0 / 1.1);
    let shown = text(&weak, false, Layout::plain());
    assert!(shown.contains("TOO WEAK") && shown.contains("would detect −"), "{shown}");
    // What is seen is seen, however noisy.
    let slow = noisy.map(|speed| speed * 0.4);
    assert_eq!(judged(&slow, Some(0.1)).exit_code(), 1);
}

/// One interval in twenty misses. Twenty gates on like stores must not fail one build in two.
#[test]
fn gates_on_many_figures_have_wider_intervals_than_one() {
    let sides = [source("r", run(DAY_1, &[("a", EVEN), ("b", &faster(1.0))]))];
    let width =
        |gates: &[&str]| compared(&sides, gates).unwrap().gates[0].ratio.unwrap().relative_half_width().unwrap();
    let (one, many) =
        (width(&["steady.read.response.p99 > +5%"]), width(&["steady.read.response.p99 > +5%", "service.p50 > +5%"]));
    assert!(many > 1.3 * one, "{one} {many}");
    let twice = width(&["steady.read.response.p99 > +5%", "steady.read.response.p99 < -5%"]);
    assert!((twice / one - 1.0).abs() < 1e-9, "two limits on one figure share an interval");
}

#[test]
fn a_path_may_hold_the_sign_of_an_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let odd = kept(dir.path(), "issue#7", &run(DAY_1, &[("x", EVEN)]));
    assert_eq!(odd.configuration, None);
    let text = dir.path().join("issue#7#x");
    assert_eq!(Source::open(text.to_str().unwrap()).unwrap().configuration.as_deref(), Some("x"));
    let slash = format!("{}/", dir.path().join("issue#7").display());
    assert_eq!(format!("{}/", Source::open(&slash).unwrap().name), slash);
    let error = Source::open("nowhere#x").unwrap_err().to_string();
    assert!(error.starts_with("nowhere: cannot be read"), "{error}");
}
