//! One figure over the trials of a configuration, and its ratio to that of another configuration.

use indexmap::IndexMap;

use crate::figures::{Figure, of_trial};
use crate::stats::{Estimate, geometric_mean, outlying, paired_ratio, unpaired_ratio};
use crate::{FigureOverTrials, TrialResult};

/// One figure over trials.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// The figure of the first trial.
    pub figure: Figure,
    points: Vec<Point>,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    trial: u32,
    round: u32,
    value: Option<f64>,
    up_to: f64,
}

impl Series {
    /// Every figure of these trials by name, in the order of phases. `further` adds figures that a trial does not hold
    /// itself.
    pub(crate) fn of<'a>(
        trials: impl IntoIterator<Item = &'a TrialResult>,
        further: impl Fn(&TrialResult) -> Vec<Figure>,
    ) -> IndexMap<String, Self> {
        let mut all: IndexMap<String, Self> = IndexMap::new();
        for trial in trials {
            for figure in of_trial(trial).into_iter().chain(further(trial)) {
                let point = Point { trial: trial.trial, round: trial.round, value: figure.value, up_to: figure.up_to };
                let series = all.entry(figure.name()).or_insert_with(|| Self { figure, points: Vec::new() });
                series.points.push(point);
            }
        }
        all
    }

    /// The figure over the trials that have it: the geometric mean, with Student's interval on logarithms. The upper
    /// end is raised by how far the true values may exceed the values. There is no interval if a trial has no value or
    /// only a lower bound. `trials` is 0 if no trial has a value.
    pub(crate) fn over_trials(&self) -> Estimate {
        let values: Vec<f64> = self.points.iter().filter_map(|point| point.value).collect();
        let Some(found) = geometric_mean(&values) else {
            return Estimate { value: 0.0, low: None, high: None, trials: 0 };
        };
        if self.none_in().is_empty() && !self.at_least() {
            Estimate { high: found.high.map(|high| high * self.up_to()), ..found }
        } else {
            Estimate { low: None, high: None, ..found }
        }
    }

    /// How many trials there are, including those without a value.
    pub(crate) fn trials(&self) -> usize {
        self.points.len()
    }

    /// Trials without a value.
    pub(crate) fn none_in(&self) -> Vec<u32> {
        self.points.iter().filter(|point| point.value.is_none()).map(|point| point.trial).collect()
    }

    /// Whether a trial only has a lower bound.
    pub(crate) fn at_least(&self) -> bool {
        self.points.iter().any(|point| point.up_to.is_infinite())
    }

    /// Trials that are outliers.
    pub(crate) fn outlying_trials(&self) -> Vec<u32> {
        let known: Vec<(u32, f64)> = self.points.iter().filter_map(|p| Some((p.trial, p.value?))).collect();
        let values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
        outlying(&values).into_iter().filter_map(|(at, _)| known.get(at).map(|(trial, _)| *trial)).collect()
    }

    /// The ratio of this figure to another: over the rounds that both have if `paired`, otherwise over all trials.
    /// `None` if a trial lacks the figure. Its ends are widened by how far the true values may exceed the values. There
    /// is no interval if a value is a lower bound.
    pub(crate) fn ratio_to(&self, base: &Self, paired: bool) -> Option<Estimate> {
        let values = |points: &[Point]| points.iter().map(|point| point.value).collect::<Option<Vec<f64>>>();
        let ratio = if paired {
            let pair = |point: &Point| {
                let other = base.points.iter().find(|other| other.round == point.round)?;
                Some(point.value.zip(other.value))
            };
            paired_ratio(&self.points.iter().filter_map(pair).collect::<Option<Vec<_>>>()?)?
        } else {
            unpaired_ratio(&values(&self.points)?, &values(&base.points)?)?
        };
        if self.at_least() || base.at_least() {
            return Some(Estimate { low: None, high: None, ..ratio });
        }
        Some(Estimate {
            low: ratio.low.map(|low| low / base.up_to()),
            high: ratio.high.map(|high| high * self.up_to()),
            ..ratio
        })
    }

    /// The geometric mean of the factors by which the true values may exceed the values.
    fn up_to(&self) -> f64 {
        let logs: Vec<f64> = self.points.iter().map(|point| point.up_to.ln()).collect();
        (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
    }

    /// The figure as a result holds it, with its ratio to the first configuration.
    pub(crate) fn result(&self, first: Option<&Self>) -> FigureOverTrials {
        FigureOverTrials {
            figure: self.over_trials(),
            to_first: first.and_then(|first| self.ratio_to(first, true)),
            none_in: self.none_in(),
            at_least: self.at_least(),
            outlying_trials: self.outlying_trials(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{RATE_WITHIN_LIMITS, THROUGHPUT};
    use crate::{SearchResult, fixture};

    /// A figure of one trial in each round.
    fn series(values: &[(Option<f64>, f64)]) -> Series {
        let figure = Figure { phase: "mixed".into(), op: None, measure: THROUGHPUT, value: None, up_to: 1.0 };
        let point = |(at, (value, up_to)): (usize, &(Option<f64>, f64))| Point {
            trial: at as u32 + 1,
            round: at as u32 + 1,
            value: *value,
            up_to: *up_to,
        };
        Series { figure, points: values.iter().enumerate().map(point).collect() }
    }

    fn exactly(values: &[f64]) -> Series {
        series(&values.iter().map(|value| (Some(*value), 1.0)).collect::<Vec<_>>())
    }

    #[test]
    fn a_trial_that_has_none_is_not_left_out_of_a_mean() {
        let some = series(&[(Some(267.0), 1.0), (None, 1.0), (Some(260.0), 1.0)]);
        let found = some.result(Some(&exactly(&[270.0, 265.0, 268.0])));
        assert_eq!((found.figure.trials, found.figure.low, found.figure.high), (2, None, None));
        assert_eq!((found.none_in, found.to_first), (vec![2], None));
        assert_eq!(exactly(&[270.0, 265.0, 268.0]).ratio_to(&some, false), None);
        let none = series(&[(None, 1.0), (None, 1.0)]);
        assert_eq!((none.over_trials().trials, none.over_trials().value), (0, 0.0));
        // A round that only one of them has is in no ratio.
        assert_eq!(exactly(&[1.0, 2.0]).ratio_to(&exactly(&[1.0, 2.0, 3.0]), true).unwrap().trials, 2);
    }

    /// Capacities of 705 and 685 lie between the same two rates of a coarse search. Their ratio may be 1, or anything
    /// else within the steps of the search.
    #[test]
    fn the_steps_of_a_search_are_in_its_interval() {
        let found = |rate: f64, up_to: f64| series(&[(Some(rate), up_to); 3]);
        let (a, b) = (found(600.0, 1.25), found(600.0, 1.25));
        let ratio = b.ratio_to(&a, true).unwrap();
        assert!((ratio.low.unwrap() - 0.8).abs() < 1e-9 && (ratio.high.unwrap() - 1.25).abs() < 1e-9, "{ratio:?}");
        let (low, high) = (a.over_trials().low.unwrap(), a.over_trials().high.unwrap());
        assert!((low - 600.0).abs() < 1e-6 && (high - 750.0).abs() < 1e-6, "{low} {high}");
        let open = found(1_000.0, f64::INFINITY);
        assert!(open.result(None).at_least && open.over_trials().high.is_none());
        let ratio = open.ratio_to(&a, true).unwrap();
        assert_eq!((ratio.low, ratio.high), (None, None));
    }

    #[test]
    fn a_search_that_found_no_rate_has_no_figure() {
        let mut trial = fixture::run_of(&[fixture::open_loop()]).trials.remove(0);
        let search = |rate, fails_at| SearchResult { phase: "x".into(), rate, fails_at, ..SearchResult::default() };
        trial.searches = vec![search(None, Some(100.0))];
        let name = format!("x.{}", RATE_WITHIN_LIMITS.name);
        assert_eq!(Series::of([&trial], |_| Vec::new())[&name].none_in(), [1]);
        trial.searches = vec![search(Some(100.0), None)];
        assert!(Series::of([&trial], |_| Vec::new())[&name].at_least());
    }

    #[test]
    fn outlying_trials_are_told_by_their_number() {
        let values = [1_000.0, 1_001.0, 999.0, 1_000.0, 2_000.0, 1_002.0];
        assert_eq!(exactly(&values).outlying_trials(), [5]);
    }
}
