//! Curves of known shapes, with noise that drifts over rounds.

use storebench_documents::keys::Rng;

use super::*;

/// A curve with noise in each trial, over rounds that differ by up to a half.
fn curve(shape: &[(f64, f64)], rounds: u32, noise: f64, seed: u64) -> Vec<Measured> {
    let mut random = Rng::new(seed);
    let drift: Vec<f64> = (0..rounds).map(|_| 1.0 + 0.5 * random.unit()).collect();
    shape
        .iter()
        .map(|(value, figure)| {
            let mut trial = |round: u32| figure * drift[round as usize - 1] * (1.0 + noise * (random.unit() - 0.5));
            (*value, (1..=rounds).map(|round| (round, Observed::exactly(round, trial(round)))).collect())
        })
        .collect()
}

/// Figures by round.
fn by_round(figures: &[(u32, f64)]) -> Vec<(u32, Observed)> {
    figures.iter().map(|(round, value)| (*round, Observed::exactly(*round, *value))).collect()
}

fn more(values: &[Measured]) -> Sweep {
    sweep(Better::More, PRACTICAL, 1, values).unwrap()
}

const SATURATING: [(f64, f64); 6] =
    [(1.0, 1_000.0), (2.0, 1_950.0), (4.0, 3_600.0), (8.0, 5_000.0), (16.0, 5_050.0), (32.0, 5_060.0)];
const PEAKING: [(f64, f64); 5] = [(1.0, 1_000.0), (2.0, 1_900.0), (4.0, 3_000.0), (8.0, 2_980.0), (16.0, 2_000.0)];

#[test]
fn a_saturating_curve_is_best_where_it_bends() {
    let sweep = more(&curve(&SATURATING, 5, 0.01, 1));
    assert_eq!((sweep.sweet_spot, sweep.beyond, sweep.worse_from), (Some(8.0), Some(Beyond::Flat), None));
    assert_eq!(sweep.likely, Some(8.0));
    assert!(sweep.undecided.is_empty());
    let at_4 = &sweep.curve[2];
    assert!((at_4.speed_up.unwrap().value - 3.6).abs() < 0.05, "{at_4:?}");
    assert!((at_4.efficiency.unwrap().value - 0.9).abs() < 0.02, "{at_4:?}");
    // A factor on a whole round is in the interval of the figure, not in that of the speed-up.
    assert!(at_4.figure.unwrap().relative_half_width() > Some(0.05));
    assert!(at_4.speed_up.unwrap().relative_half_width() < Some(0.02));
    assert_eq!(sweep.curve[0].speed_up.unwrap().value, 1.0);
    assert_eq!(sweep.in_words("workers"), "more than workers = 8 makes no difference");
}

#[test]
fn a_peak_is_found_and_what_lies_behind_it_is_worse() {
    let sweep = more(&curve(&PEAKING, 5, 0.01, 2));
    assert_eq!((sweep.sweet_spot, sweep.beyond, sweep.worse_from), (Some(4.0), Some(Beyond::Worse), Some(16.0)));
    assert_eq!(sweep.in_words("workers"), "workers = 4 is enough; more is worse from 16 on");
}

#[test]
fn a_value_that_failed_is_on_the_curve() {
    let mut values = curve(&SATURATING[..3], 5, 0.01, 1);
    values.push((128.0, Vec::new()));
    let sweep = more(&values);
    assert_eq!((sweep.sweet_spot, sweep.beyond), (Some(4.0), Some(Beyond::Failed)));
    assert_eq!((&sweep.failed[..], sweep.curve[3].figure), (&[128.0][..], None));
    assert_eq!(sweep.in_words("workers"), "workers = 4 is enough among the values that completed; 128 failed");
}

#[test]
fn times_are_better_when_they_are_less() {
    let times: Vec<(f64, f64)> = PEAKING.iter().map(|(value, figure)| (*value, 1e9 / figure)).collect();
    let sweep = sweep(Better::Less, PRACTICAL, 1, &curve(&times, 5, 0.01, 3)).unwrap();
    assert_eq!((sweep.sweet_spot, sweep.worse_from), (Some(4.0), Some(16.0)));
    assert!((sweep.curve[2].speed_up.unwrap().value - 3.0).abs() < 0.05);
}

#[test]
fn a_flat_curve_is_best_at_its_first_value() {
    let flat = [1.0, 2.0, 4.0, 8.0].map(|value| (value, 500.0));
    let sweep = more(&curve(&flat, 4, 0.01, 4));
    assert_eq!((sweep.sweet_spot, sweep.beyond), (Some(1.0), Some(Beyond::Flat)));
}

#[test]
fn a_curve_that_rises_to_the_end_asks_for_more_values() {
    let rising = [1.0, 2.0, 4.0, 8.0].map(|value| (value, 100.0 * value));
    let sweep = more(&curve(&rising, 3, 0.01, 5));
    assert_eq!((sweep.sweet_spot, sweep.beyond), (Some(8.0), Some(Beyond::Unseen)));
    assert_eq!(sweep.in_words("workers"), "still rising at workers = 8, the highest value measured");
}

#[test]
fn one_round_decides_nothing_and_still_guesses() {
    let sweep = more(&curve(&PEAKING, 1, 0.01, 6));
    assert_eq!((sweep.sweet_spot, sweep.beyond, sweep.worse_from), (None, None, None));
    assert_eq!(sweep.likely, Some(4.0));
    // Every later value may beat the first.
    assert_eq!(sweep.undecided.len(), 4);
    assert!(sweep.undecided.iter().all(|pair| pair.value == 1.0 && pair.gain.unwrap().low.is_none()));
    let said = sweep.in_words("workers");
    assert_eq!(said, "workers = 4 may be enough, which is not certain; run more rounds to confirm");
}

#[test]
fn noise_leaves_it_undecided_and_rounds_decide_it() {
    let few = more(&curve(&SATURATING, 3, 0.4, 7));
    assert_eq!(few.sweet_spot, None, "{few:?}");
    assert!(!few.undecided.is_empty());
    let many = more(&curve(&SATURATING, 200, 0.2, 7));
    assert_eq!(many.sweet_spot, Some(8.0), "{many:?}");
}

#[test]
fn noise_names_no_wrong_value_more_often_than_an_interval_may() {
    let mut wrong = 0;
    let mut decided = 0;
    for seed in 0..300 {
        let sweep = more(&curve(&SATURATING, 5, 0.06, 100 + seed));
        decided += usize::from(sweep.sweet_spot.is_some());
        wrong += usize::from(sweep.sweet_spot.is_some_and(|value| value != 8.0) || sweep.worse_from.is_some());
    }
    assert!(decided > 150, "{decided} of 300 decided");
    assert!(wrong <= 6, "{wrong} of 300 wrong");
}

#[test]
fn whether_more_hurts_may_stay_open() {
    let shape = [(1.0, 1_000.0), (2.0, 1_000.0 / 1.05)];
    let sweep = more(&curve(&shape, 5, 0.04, 8));
    assert_eq!((sweep.sweet_spot, sweep.beyond, sweep.worse_from), (Some(1.0), Some(Beyond::Open), None));
}

#[test]
fn a_value_whose_trials_failed_stays_in_the_curve() {
    let mut values = curve(&SATURATING, 5, 0.01, 9);
    values[5].1.clear();
    let sweep = more(&values);
    assert_eq!(sweep.sweet_spot, Some(8.0));
    assert_eq!((sweep.curve[5].figure, sweep.curve[5].speed_up), (None, None));
    // Values that share no round cannot be compared.
    let apart = more(&[(1.0, by_round(&[(1, 5.0), (2, 5.0)])), (2.0, by_round(&[(3, 5.0), (4, 5.0)]))]);
    assert_eq!(apart.undecided, [OpenPair { value: 1.0, later: 2.0, gain: None }]);
    // Without measurements there is no result.
    let none = more(&[(1.0, vec![]), (2.0, vec![])]);
    assert_eq!((none.sweet_spot, none.likely, none.beyond), (None, None, None));
}

#[test]
fn the_order_of_values_and_rounds_does_not_matter() {
    let values = curve(&PEAKING, 5, 0.02, 10);
    let mut turned = values.clone();
    turned.reverse();
    turned.iter_mut().for_each(|(_, figures)| figures.reverse());
    assert_eq!(more(&values), more(&turned));
}

#[test]
fn what_has_no_ratio_is_no_sweep() {
    let refused = |values: &[Measured]| assert_eq!(sweep(Better::More, PRACTICAL, 1, values), None, "{values:?}");
    let one = (1.0, by_round(&[(1, 5.0)]));
    refused(std::slice::from_ref(&one));
    refused(&[one.clone(), (0.0, vec![])]);
    refused(&[one.clone(), one.clone()]);
    refused(&[one.clone(), (2.0, by_round(&[(1, 0.0)]))]);
    refused(&[one.clone(), (2.0, by_round(&[(1, 1.0), (1, 2.0)]))]);
    assert_eq!(sweep(Better::More, 1.0, 1, &[one.clone(), (2.0, vec![])]), None);
    assert!(sweep(Better::More, PRACTICAL, 1, &[one, (2.0, vec![])]).is_some());
}

#[test]
fn it_is_read_back_as_it_was_written() {
    let sweep = more(&curve(&PEAKING, 3, 0.2, 11));
    let text = serde_json::to_string(&sweep).unwrap();
    assert_eq!(serde_json::from_str::<Sweep>(&text).unwrap(), sweep);
}
