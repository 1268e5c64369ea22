//! Order, figures, factors and intervals of a run come from the same rounds, whatever trials are missing.

use proptest::prelude::*;

use crate::answer::answer;
use crate::compare::{CompareRequest, OneRun, Source, compare};
use crate::side_by_side::{brief_table, panels};
use crate::{ConfigurationResult, Failure, RunResult, fixture};

const MAIN: &str = "mixed.throughput";

/// Configurations `a`, `b`, … with their rates in each round; a trial without one failed.
fn run(rates: &[Vec<Option<f64>>]) -> RunResult {
    let mut result = fixture::run_of(&[fixture::closed_loop()]);
    let trial = result.trials.remove(0);
    result.plan.trials.clear();
    for round in 0..rates.iter().map(Vec::len).max().unwrap() {
        for (name, rates) in ["a", "b", "c", "d"].iter().zip(rates) {
            let Some(rate) = rates.get(round) else { continue };
            let mut trial = trial.clone();
            (trial.trial, trial.round) = (result.trials.len() as u32 + 1, round as u32 + 1);
            (trial.store, trial.configuration) = ((*name).into(), (*name).into());
            match rate {
                Some(rate) => fixture::speed(&mut trial, rate / 1_000.0),
                None => trial.failure = Some(Failure { during: "mixed".into(), ..Failure::default() }),
            }
            result.trials.push(trial);
        }
    }
    fixture::concluded(result)
}

fn value(of: &ConfigurationResult) -> f64 {
    of.figures[MAIN].figure.value
}

/// The slower one was "ahead" by ×0.537: ranked by all rounds, with the factor of the common one.
#[test]
fn the_faster_of_the_common_rounds_is_ahead() {
    let result = run(&[vec![Some(27_500.0), None], vec![Some(51_200.0), Some(5_700.0)]]);
    let told = answer(&result).found;
    assert!(told.starts_with("b came out ahead") && told.contains("1.86 times as many as a"), "{told}");
    assert!(told.contains("51.2 k") && told.contains("27.5 k") && !told.contains("17.1 k"), "{told}");
    assert!(told.contains("Round 2 is in no figure: not every configuration completed it."), "{told}");
}

#[test]
fn without_enough_rounds_nothing_is_ahead() {
    // One that failed early takes no rounds from the others.
    let full = vec![Some(100.0); 5];
    let result = run(&[full.clone(), full.clone(), vec![Some(900.0), None, None, None, None]]);
    assert_eq!(result.configurations[0].figures[MAIN].figure.trials, 5);
    assert!(result.configurations[2].apart && result.configurations[2].figures[MAIN].to_first.is_none());
    let told = answer(&result).found;
    assert!(told.contains("c is not compared: not enough rounds in common with the others."), "{told}");
    assert!(!told.contains("has no figure") && !told.contains("c is ahead"), "{told}");
    let table = brief_table(&result).unwrap().table;
    let last = table.rows.last().unwrap();
    assert!(last[0].text == "c" && last.iter().any(|cell| cell.text == "not enough rounds"), "{last:?}");
    // No round has both.
    let told = answer(&run(&[vec![Some(100.0), None], vec![None, Some(300.0)]])).found;
    assert!(!told.contains("ahead") && told.contains("b is not compared: not enough rounds"), "{told}");
}

fn some_rates() -> impl Strategy<Value = Vec<Vec<Option<f64>>>> {
    let rate = proptest::option::weighted(0.7, 1_000.0_f64..60_000.0);
    (1_usize..6)
        .prop_flat_map(move |rounds| proptest::collection::vec(proptest::collection::vec(rate.clone(), rounds), 2..=4))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn order_factor_and_figures_agree(rates in some_rates()) {
        let result = run(&rates);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        // The result.
        let first = &result.configurations[0];
        for of in &result.configurations[1..] {
            for (name, figure) in &of.figures {
                let Some(ratio) = figure.to_first else { continue };
                let base = &first.figures[name].figure;
                prop_assert!(near(ratio.value, figure.figure.value / base.value), "{} {name}: {figure:?} {base:?}", of.configuration);
                prop_assert_eq!((ratio.trials, ratio.trials), (figure.figure.trials, base.trials));
                prop_assert!(ratio.low.is_none_or(|low| low <= ratio.value) && ratio.high.is_none_or(|high| high >= ratio.value));
            }
        }
        // The table and the picture of the page: the best first, with its factor.
        let measured: Vec<&ConfigurationResult> = result.configurations.iter().filter(|of| of.trials > 0).collect();
        let compared: Vec<&ConfigurationResult> = measured.iter().copied().filter(|of| !of.apart).collect();
        let best = compared.iter().map(|of| value(of)).fold(f64::MIN, f64::max);
        if result.configurations.len() > 1 && !compared.is_empty() {
            let table = brief_table(&result).unwrap().table;
            let column = table.columns.iter().position(|column| column.title == "vs best").unwrap();
            let mut last = f64::INFINITY;
            for row in &table.rows {
                let Some(of) = compared.iter().find(|of| of.store == row[0].text) else { continue };
                prop_assert!(value(of) <= last, "{table:?}");
                last = value(of);
                let factor: f64 = row[column].text.trim_start_matches('×').split(' ').next().unwrap().parse().unwrap();
                prop_assert!(factor <= 1.0 && (factor - value(of) / best).abs() < 6e-3, "{table:?}");
            }
            let panels = panels(&result);
            let shown = panels[0].rows.iter().filter_map(|row| compared.iter().find(|of| of.store == row.store));
            let shown: Vec<f64> = shown.map(|of| value(of)).collect();
            prop_assert!(shown.is_sorted_by(|a, b| a >= b), "{panels:?}");
        }
        // The sentence.
        let told = answer(&result).found;
        for of in &measured {
            let ahead = ["is ahead", "came out ahead"].iter().any(|words| told.contains(&format!("{} {words}", of.store)));
            prop_assert!(!ahead || (!of.apart && near(value(of), best)), "{told}");
        }
        // A comparison of two.
        let side = |name: &str| {
            let one = OneRun { name: "r".into(), file: "r/run.json".into(), run: result.clone() };
            Source { name: "r".into(), baseline: None, configuration: Some(name.into()), runs: vec![one] }
        };
        let sides = [side("a"), side("b")];
        let request = CompareRequest { sides: &sides, history: None, threshold: 0.02, gates: &[], must_detect: None, undecided_passes: false, anyway: true };
        if let Ok(compared) = compare(&request) {
            for figure in compared.pairs[0].figures.iter().filter(|_| compared.pairs[0].paired_by_round) {
                let Some(ratio) = figure.ratio else { continue };
                prop_assert!(near(ratio.value, figure.b.value / figure.a.value), "{figure:?}");
                prop_assert_eq!((ratio.trials, ratio.trials), (figure.a.trials, figure.b.trials));
            }
        }
    }
}
