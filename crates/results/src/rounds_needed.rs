//! How many rounds a study needs, from how much the rounds of an earlier run differ.

use serde::Serialize;

use crate::RunResult;
use crate::configurations::{compared_together, configurations_of};
use crate::series::Series;
use crate::stats::Uncertain;

/// How many rounds the figures of a study need.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoundsNeeded {
    /// Rounds of the earlier run.
    pub rounds: u32,
    /// How long each took, in s; 0 if it is not known.
    pub round_s: f64,
    /// The half width that intervals should have, as a share: 0.03 for ± 3 %.
    pub within: f64,
    /// The figures.
    pub figures: Vec<FigureNeeds>,
}

/// How many rounds a figure needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureNeeds {
    /// The figure: `PHASE.OP.MEASURE`.
    pub figure: String,
    /// The configuration.
    pub configuration: String,
    /// The configuration that it is compared with. Null for a figure alone, in a run of one configuration.
    pub to: Option<String>,
    /// Half the width of its interval in the earlier run, as a share. Null without an interval.
    pub now: Option<f64>,
    /// Rounds after which half of all studies have an interval that is as narrow as asked for. Null if 1,000 rounds are
    /// not enough, or if it is not known.
    pub rounds: Option<u32>,
}

/// The measures that studies are run for.
const MEASURES: [&str; 5] = [".response.p99", ".response.p50", ".throughput", ".documents", ".rate-within-limits"];

/// How many rounds the figures of this study need, for intervals of at most ± `within`. With several configurations it is
/// about ratios to the first one, which hold together; with one, about its figures.
pub fn rounds_needed(run: &RunResult, within: f64) -> RoundsNeeded {
    let configurations = configurations_of(&run.plan, &run.trials);
    let series: Vec<_> = configurations.iter().map(|of| (of.name, Series::of(of.counted(), |_| Vec::new()))).collect();
    let rounds = run.trials.iter().map(|trial| trial.round).max().unwrap_or(0);
    let mut figures = Vec::new();
    let mut add = |figure: &str, configuration: &str, to: Option<&str>, found: Option<Uncertain>, together: usize| {
        let estimate = found.map(|found| found.estimate(together));
        figures.push(FigureNeeds {
            figure: figure.to_owned(),
            configuration: configuration.to_owned(),
            to: to.map(str::to_owned),
            now: estimate.and_then(|estimate| estimate.relative_half_width()).filter(|half| half.is_finite()),
            rounds: found.and_then(|found| found.trials_for(within, together)),
        });
    };
    let is_shown = |name: &&String| MEASURES.iter().any(|measure| name.ends_with(measure));
    if let Some(((first, base), others)) = series.split_first() {
        let together = compared_together(&configurations);
        for (name, of_first) in base.iter().filter(|(name, _)| is_shown(name)) {
            if others.is_empty() {
                add(name, first, None, of_first.mean(), 1);
            }
            for (other, of) in others {
                let Some(of) = of.get(name) else { continue };
                add(name, other, Some(first), of.ratio_to(of_first), together);
            }
        }
    }
    RoundsNeeded { rounds, round_s: seconds(run) / f64::from(rounds.max(1)), within, figures }
}

/// How long the run took, in s.
fn seconds(run: &RunResult) -> f64 {
    let at = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let ended = run.run.ended.as_deref().and_then(at);
    at(&run.run.began).zip(ended).map_or(0.0, |(began, ended)| (ended - began).total(jiff::Unit::Second).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// Two configurations in so many rounds, of which one is a little faster in each round than in the one before.
    fn run(rounds: u32) -> RunResult {
        let mut result = fixture::run_of(&[fixture::closed_loop()]);
        let trial = result.trials.remove(0);
        for round in 1..=rounds {
            for (configuration, times) in [("a", 1.0), ("b", 1.0 + 0.02 * f64::from(round % 3))] {
                let mut trial = trial.clone();
                (trial.round, trial.trial) = (round, result.trials.len() as u32 + 1);
                trial.configuration = configuration.into();
                trial.phases[0].ops.values_mut().for_each(|op| op.throughput_per_s *= times);
                result.trials.push(trial);
            }
        }
        (result.run.began, result.run.ended) = ("2026-11-26T10:00:00Z".into(), Some("2026-11-26T10:10:00Z".into()));
        result
    }

    #[test]
    fn rounds_for_a_width() {
        let found = rounds_needed(&run(5), 0.01);
        assert_eq!((found.rounds, found.round_s), (5, 120.0));
        let read = found.figures.iter().find(|of| of.figure == "mixed.read.throughput").unwrap();
        assert_eq!((read.configuration.as_str(), read.to.as_deref()), ("b", Some("a")));
        let (now, rounds) = (read.now.unwrap(), read.rounds.unwrap());
        assert!(now > 0.01 && rounds > 5, "{read:?}");
        // A width that it has already needs no more, and one that cannot be reached is said to be so.
        let wide = rounds_needed(&run(5), 0.5);
        assert!(wide.figures.iter().all(|of| of.rounds.is_none_or(|rounds| rounds <= 5)), "{wide:?}");
        assert!(rounds_needed(&run(5), 1e-6).figures.iter().any(|of| of.rounds.is_none()));
        // One round says nothing about how much rounds differ.
        assert!(rounds_needed(&run(1), 0.01).figures.iter().all(|of| of.now.is_none() && of.rounds.is_none()));
    }
}
