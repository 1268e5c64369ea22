//! Gates: what passes, fails or stays undecided, and how they are read.

use proptest::prelude::*;

use super::*;

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
    #![proptest_config(ProptestConfig::with_cases(64))]

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
