//! How many runs a gate needs, from how much the runs of a line differ.

use serde::Serialize;

use super::baseline::last_change;
use super::lines::lines;
use super::model::HistoryEntry;
use crate::human::{count, percent};
use crate::stats::{MOST_TRIALS, Observed, mean_of_runs};

/// The share of cases in which a gate shall decide.
const POWER: f64 = 0.9;

/// How many runs a gate needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunsNeeded {
    /// The change that the gate allows, as a share: 0.05 for 5 %.
    pub gate: f64,
    /// The share of builds without a change that then pass it, and of builds with this change that a gate of 0 % finds.
    pub power: f64,
    /// The figures that stand for the phases.
    pub figures: Vec<FigureRuns>,
}

/// How many runs a gate on a figure needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureRuns {
    /// The configuration.
    pub configuration: String,
    /// The figure: `PHASE.MEASURE`.
    pub figure: String,
    /// The standard deviation between runs, as a share. Null with one run.
    pub spread: Option<f64>,
    /// The runs that it comes from: those since the last change.
    pub of_runs: u32,
    /// Runs that each side needs. Null if 1,000 are not enough, or with one run.
    pub runs: Option<u32>,
}

/// How many runs on each side a gate of this change needs, for each line that the newest of these runs belongs to. The runs
/// are in order of time.
pub fn runs_needed(entries: &[HistoryEntry], gate: f64) -> RunsNeeded {
    let all: Vec<&HistoryEntry> = entries.iter().collect();
    let mut figures = Vec::new();
    for line in lines(&all, &[]).into_iter().filter(|line| entries.last().is_some_and(|newest| line.has(newest))) {
        let values: Vec<f64> = line.points.iter().map(|point| point.value).collect();
        let since: Vec<Observed> =
            values[last_change(&values)..].iter().map(|value| Observed::exactly(0, *value)).collect();
        let mean = mean_of_runs(&since);
        figures.push(FigureRuns {
            configuration: line.of.configuration.to_owned(),
            figure: line.of.figure.to_owned(),
            spread: mean.and_then(|mean| mean.of_one()).map(f64::exp_m1),
            of_runs: since.len() as u32,
            runs: mean.and_then(|mean| mean.trials_of_each_side(gate, POWER)),
        });
    }
    RunsNeeded { gate, power: POWER, figures }
}

impl RunsNeeded {
    /// A sentence for each figure.
    pub fn in_words(&self) -> String {
        let mut out = String::new();
        for FigureRuns { configuration, figure, spread, of_runs, runs } in &self.figures {
            let needs = match (spread, runs) {
                (None, _) => "is not known: it takes two runs that differ by themselves".to_owned(),
                (_, Some(runs)) => format!("needs {runs} runs on each side"),
                (_, None) => format!("needs more than {} runs on each side", count(MOST_TRIALS.into())),
            };
            let from = spread.map(|spread| format!(" (spread between runs: {}, from {of_runs} runs)", percent(spread)));
            let from = from.unwrap_or_default();
            out += &format!("A gate of {} on {configuration} {figure} {needs}{from}\n", percent(self.gate));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::HistoryConfiguration;
    use crate::stats::simulated::noise;

    fn entries(values: &[f64]) -> Vec<HistoryEntry> {
        let entry = |value: &f64| HistoryEntry {
            configurations: vec![HistoryConfiguration {
                configuration: "sqlite".to_owned(),
                figures: [("steady.response.p99".to_owned(), [Some(*value), None, None])].into(),
                ..HistoryConfiguration::default()
            }],
            ..HistoryEntry::default()
        };
        values.iter().map(entry).collect()
    }

    /// Cohen, *Statistical Power Analysis*, 1988, table 2.4.1: 22 on each side find a difference of one standard deviation
    /// in 9 of 10 cases.
    #[test]
    fn as_many_runs_as_the_tables_of_power_say() {
        let deviation = 1.05_f64.ln();
        let noise = noise(3, 100, 0.0);
        let mean = noise.iter().sum::<f64>() / 100.0;
        let own = (noise.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 99.0).sqrt();
        let values: Vec<f64> = noise.iter().map(|value| (value / own * deviation).exp()).collect();
        let needed = runs_needed(&entries(&values[..]), 0.05);
        let of = &needed.figures[0];
        assert!(of.of_runs == 100 && (21..=24).contains(&of.runs.unwrap()), "{of:?}");
        // Half of the noise is a quarter of the runs, and a few more for their degrees of freedom.
        let half: Vec<f64> = values.iter().map(|value| value.sqrt()).collect();
        assert!((6..=8).contains(&runs_needed(&entries(&half), 0.05).figures[0].runs.unwrap()));
        assert!(needed.in_words().starts_with("A gate of 5 % on sqlite steady.response.p99 needs 2"), "{needed:?}");
    }

    #[test]
    fn a_change_is_no_noise_and_one_run_tells_nothing() {
        let mut values: Vec<f64> = noise(4, 40, 0.0).into_iter().map(|noise| (0.02 * noise).exp()).collect();
        values[25..].iter_mut().for_each(|value| *value *= 1.5);
        let of = &runs_needed(&entries(&values), 0.05).figures[0];
        assert!(of.of_runs == 15 && of.spread.unwrap() < 0.04, "{of:?}");
        let one = runs_needed(&entries(&[1.0]), 0.05);
        assert_eq!((one.figures[0].spread, one.figures[0].runs), (None, None));
        assert!(one.in_words().contains("is not known"), "{}", one.in_words());
        let wild = runs_needed(&entries(&[1.0, 9.0, 0.1]), 0.001);
        assert!(wild.in_words().contains("more than 1,000 runs"), "{}", wild.in_words());
    }
}
