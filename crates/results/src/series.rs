//! One figure over the trials of a configuration, and its ratio to that of another configuration.

use indexmap::IndexMap;

use crate::figures::{Figure, RATE_WITHIN_LIMITS, of_trial};
use crate::stats::{
    Estimate, Observed, Uncertain, mean_of_runs, mean_of_trials, outlying, paired_ratio, ratio_of_runs, ratio_to_known,
};
use crate::{FigureOverTrials, TrialResult};

/// Fewer searches have no interval: each ends at one of the few rates that it tries.
const LEAST_SEARCHES: usize = 3;

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
    found: Option<Observed>,
    too_few: bool,
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
                let (found, too_few) = (figure.observed(trial.trial), figure.too_few);
                let point = Point { trial: trial.trial, round: trial.round, found, too_few };
                let series = all.entry(figure.name()).or_insert_with(|| Self { figure, points: Vec::new() });
                series.points.push(point);
            }
        }
        all
    }

    /// The figure over the trials that have it: the geometric mean, with its interval. There is no interval if a trial
    /// has no value or only a lower bound. `trials` is 0 if no trial has a value.
    pub(crate) fn over_trials(&self) -> Estimate {
        let none = Estimate { value: 0.0, low: None, high: None, trials: 0 };
        self.mean().map_or(none, |mean| mean.estimate(1))
    }

    /// The same before it gets an interval. `None` if no trial has a value.
    pub(crate) fn mean(&self) -> Option<Uncertain> {
        let found: Vec<Observed> = self.points.iter().filter_map(|point| point.found).collect();
        Some(self.certain(mean_of_trials(&found)?, found.len(), self.none_in().is_empty()))
    }

    /// Removes the interval of what cannot have one.
    fn certain(&self, found: Uncertain, trials: usize, whole: bool) -> Uncertain {
        let searched = self.figure.measure == RATE_WITHIN_LIMITS && trials < LEAST_SEARCHES;
        if whole && !searched { found } else { found.without_interval() }
    }

    /// How many trials there are, including those without a value.
    pub(crate) fn trials(&self) -> usize {
        self.points.len()
    }

    /// Trials without a value.
    pub(crate) fn none_in(&self) -> Vec<u32> {
        self.points.iter().filter(|point| point.found.is_none()).map(|point| point.trial).collect()
    }

    /// The trials without a value in which too few attempts were answered.
    pub(crate) fn too_few_in(&self) -> Vec<u32> {
        self.points.iter().filter(|point| point.too_few).map(|point| point.trial).collect()
    }

    /// Whether each trial has too few attempts for this percentile.
    pub(crate) fn always_too_few(&self) -> bool {
        self.points.iter().all(|point| point.too_few)
    }

    /// From the least to the greatest value that trials may have had, by their ranges. `None` if a trial has no upper end.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let found: Vec<Observed> = self.points.iter().filter_map(|point| point.found).collect();
        let low = found.iter().map(|found| found.from).reduce(f64::min)?;
        let high = found.iter().map(|found| found.to).reduce(f64::max)?;
        high.is_finite().then_some((low, high))
    }

    /// Whether a trial only has a lower bound.
    pub(crate) fn at_least(&self) -> bool {
        self.points.iter().filter_map(|point| point.found).any(|found| found.to.is_infinite())
    }

    /// Trials that are outliers.
    pub(crate) fn outlying_trials(&self) -> Vec<u32> {
        let known: Vec<Observed> = self.points.iter().filter_map(|point| point.found).collect();
        let values: Vec<f64> = known.iter().map(|found| found.value).collect();
        outlying(&values).into_iter().filter_map(|(at, _)| Some(known.get(at)?.at)).collect()
    }

    /// The ratio of this figure to another of the same run, by rounds. `None` if a trial lacks the figure, or if they are
    /// not of the same rounds: the ratio would not be that of the figures. There is no interval if a value is a lower
    /// bound.
    pub(crate) fn ratio_to(&self, base: &Self) -> Option<Uncertain> {
        let pair = |point: &Point| {
            let other = base.points.iter().find(|other| other.round == point.round)?;
            point.found.zip(other.found)
        };
        let pairs = self.points.iter().map(pair).collect::<Option<Vec<_>>>()?;
        let ratio = paired_ratio(&pairs).filter(|_| pairs.len() == base.points.len())?;
        Some(self.certain(ratio, pairs.len(), true))
    }

    /// The figure of a run: the mean over its trials. `None` if a trial lacks it.
    fn of_run(&self) -> Option<Observed> {
        let found = self.points.iter().map(|point| point.found).collect::<Option<Vec<_>>>()?;
        let mean = |pick: fn(&Observed) -> f64| {
            (found.iter().map(|found| pick(found).ln()).sum::<f64>() / found.len() as f64).exp()
        };
        let (value, from, to) = (mean(|found| found.value), mean(|found| found.from), mean(|found| found.to));
        (!found.is_empty()).then_some(Observed { at: 0, value, from, to })
    }

    /// The same figure of another run, of which only the value is known. It is rounded as this one is.
    pub(crate) fn known(&self, value: f64) -> Self {
        let found = self.points.iter().find_map(|point| point.found);
        let (from, to) = found.map_or((1.0, 1.0), |found| (found.from / found.value, found.to / found.value));
        let found = Some(Observed { at: 0, value, from: value * from, to: value * to });
        let points = vec![Point { trial: 0, round: 0, found, too_few: false }];
        Self { figure: self.figure.clone(), points }
    }

    /// The figure as a result holds it, with its ratio to the first configuration, one of so many ratios.
    pub(crate) fn result(&self, first: Option<&Self>, together: usize) -> FigureOverTrials {
        FigureOverTrials {
            figure: self.over_trials(),
            to_first: first.and_then(|first| Some(self.ratio_to(first)?.estimate(together))),
            none_in: self.none_in(),
            too_few_in: self.too_few_in(),
            at_least: self.at_least(),
            outlying_trials: self.outlying_trials(),
        }
    }
}

/// The ratio of a figure to another, each of several runs: the runs are the unit. `None` if a trial lacks the figure.
/// There is no interval with one run on a side.
pub(crate) fn ratio_of(runs: &[&Series], base: &[&Series]) -> Option<Uncertain> {
    let ratio = ratio_of_runs(&of_runs(runs)?, &of_runs(base)?)?;
    Some(runs.first()?.certain(ratio, runs.len().min(base.len()), true))
}

/// Fewer known runs do not show how much runs differ.
pub(crate) const LEAST_KNOWN: usize = 5;

/// The same with known runs as the base, whose differences are also those of one run alone. There is no interval with
/// fewer than [`LEAST_KNOWN`] of them.
pub(crate) fn ratio_to_known_runs(runs: &[&Series], known: &[&Series]) -> Option<Uncertain> {
    let ratio = ratio_to_known(&of_runs(runs)?, &of_runs(known)?)?;
    Some(runs.first()?.certain(ratio, known.len(), known.len() >= LEAST_KNOWN))
}

/// The standard deviation between runs, as a share.
pub(crate) fn spread_of_runs(runs: &[&Series]) -> Option<f64> {
    mean_of_runs(&of_runs(runs)?)?.of_one().map(f64::exp_m1)
}

/// The figure over several runs. Of a single run, over its trials.
pub(crate) fn over_runs(runs: &[&Series]) -> Estimate {
    match (runs, of_runs(runs).and_then(|figures| mean_of_runs(&figures))) {
        ([], _) => Estimate { value: 0.0, low: None, high: None, trials: 0 },
        ([one], _) => one.over_trials(),
        ([first, ..], Some(mean)) => first.certain(mean, runs.len(), true).estimate(1),
        // A trial lacks the figure, so there is no interval.
        (runs, None) => {
            let found: Vec<Observed> =
                runs.iter().flat_map(|run| &run.points).filter_map(|point| point.found).collect();
            let mean = mean_of_runs(&found).map(|mean| mean.without_interval().estimate(1));
            mean.unwrap_or(Estimate { value: 0.0, low: None, high: None, trials: 0 })
        }
    }
}

fn of_runs(runs: &[&Series]) -> Option<Vec<Observed>> {
    runs.iter().map(|run| run.of_run()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{RATE_WITHIN_LIMITS, THROUGHPUT};
    use crate::{SearchResult, fixture};

    /// A figure of one trial in each round.
    fn series(values: &[(Option<f64>, f64)]) -> Series {
        let figure = Figure {
            phase: "mixed".into(),
            op: None,
            measure: THROUGHPUT,
            value: None,
            up_to: 1.0,
            rounded: 0.0,
            too_few: false,
        };
        let point = |(at, (value, up_to)): (usize, &(Option<f64>, f64))| {
            let at = at as u32 + 1;
            let found = Figure { value: *value, up_to: *up_to, ..figure.clone() }.observed(at);
            Point { trial: at, round: at, found, too_few: false }
        };
        let points = values.iter().enumerate().map(point).collect();
        Series { figure, points }
    }

    fn exactly(values: &[f64]) -> Series {
        series(&values.iter().map(|value| (Some(*value), 1.0)).collect::<Vec<_>>())
    }

    #[test]
    fn a_trial_that_has_none_is_not_left_out_of_a_mean() {
        let some = series(&[(Some(267.0), 1.0), (None, 1.0), (Some(260.0), 1.0)]);
        let found = some.result(Some(&exactly(&[270.0, 265.0, 268.0])), 1);
        assert_eq!((found.figure.trials, found.figure.low, found.figure.high), (2, None, None));
        assert_eq!((found.none_in, found.to_first), (vec![2], None));
        assert_eq!(exactly(&[270.0, 265.0, 268.0]).ratio_to(&some), None);
        let none = series(&[(None, 1.0), (None, 1.0)]);
        assert_eq!((none.over_trials().trials, none.over_trials().value), (0, 0.0));
        // Figures of different rounds have no ratio.
        assert_eq!(exactly(&[1.0, 2.0]).ratio_to(&exactly(&[1.0, 2.0, 3.0])), None);
        assert_eq!(exactly(&[1.0, 2.0, 3.0]).ratio_to(&exactly(&[1.0, 2.0])), None);
    }

    /// Capacities of 705 and 685 lie between the same two rates of a coarse search. Their ratio may be 1, or anything
    /// else within the steps of the search.
    #[test]
    fn the_steps_of_a_search_are_in_its_interval() {
        let found = |rate: f64, up_to: f64| series(&[(Some(rate), up_to); 3]);
        let (a, b) = (found(600.0, 1.25), found(600.0, 1.25));
        let ratio = b.ratio_to(&a).unwrap().estimate(1);
        assert!((ratio.low.unwrap() - 0.8).abs() < 1e-9 && (ratio.high.unwrap() - 1.25).abs() < 1e-9, "{ratio:?}");
        let (low, high) = (a.over_trials().low.unwrap(), a.over_trials().high.unwrap());
        assert!((low - 600.0).abs() < 1e-6 && (high - 750.0).abs() < 1e-6, "{low} {high}");
        let open = found(1_000.0, f64::INFINITY);
        assert!(open.result(None, 1).at_least && open.over_trials().high.is_none());
        let ratio = open.ratio_to(&a).unwrap().estimate(1);
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
