//! How many runs a gate needs, from how much the runs of a line differ.

use serde::Serialize;

use super::baseline::{OfRun, difference, last_change};
use super::lines::{Line, lines};
use super::model::{HistoryEntry, Invalid};
use crate::human::{count, percent};
use crate::plan::Plan;
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
    /// The figure: `PHASE.MEASURE`. Only the phase, if no run has a figure of it.
    pub figure: String,
    /// The standard deviation between runs, as a share. Null with one run.
    pub spread: Option<f64>,
    /// The runs that it comes from: those since the last change.
    pub of_runs: u32,
    /// The other runs.
    pub left_out: Vec<RunsLeftOut>,
    /// Runs that each side needs. Null if 1,000 are not enough, or with one run.
    pub runs: Option<u32>,
}

/// Runs that say nothing about a figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunsLeftOut {
    /// How many.
    pub runs: u32,
    /// Why: `invalid`, `without a value`.
    pub why: &'static str,
}

/// How many runs on each side a gate of this change needs, for each phase of the plan on each configuration. The runs are
/// in order of time. Those count that did the same work on the same machine as the newest that has the configuration.
pub fn runs_needed(entries: &[HistoryEntry], gate: f64, plan: &Plan) -> RunsNeeded {
    let all: Vec<&HistoryEntry> = entries.iter().collect();
    let lines = lines(&all, &[]);
    let mut figures = Vec::new();
    for name in plan.configurations.iter().filter(|of| !of.control).map(|of| &of.configuration) {
        let having: Vec<OfRun<'_>> = all.iter().filter_map(|run| Some((*run, run.configuration(name)?))).collect();
        let newest = having.last().copied();
        let alike = |of: &&OfRun<'_>| newest.is_some_and(|newest| difference(**of, newest).is_none());
        let same: Vec<OfRun<'_>> = having.iter().filter(alike).copied().collect();
        let of_newest =
            |line: &&Line<'_>| line.of.configuration == name && newest.is_some_and(|(newest, _)| line.has(newest));
        for phase in plan.phases_of(name).filter(|phase| !phase.warm_up).map(|phase| &phase.name) {
            let stands = |line: &&Line<'_>| line.of.figure == format!("{phase}.{}", line.measure.name);
            let line = lines.iter().filter(of_newest).filter(stands).max_by_key(|line| line.points.len());
            let values: Vec<f64> = line.iter().flat_map(|line| &line.points).map(|point| point.value).collect();
            let since: Vec<Observed> =
                values[last_change(&values)..].iter().map(|value| Observed::exactly(0, *value)).collect();
            let mean = mean_of_runs(&since);
            let about = |invalid: &Invalid| invalid.phase.as_ref().is_none_or(|about| about == phase);
            let invalid = same.iter().filter(|(_, of)| of.invalid.iter().any(about)).count();
            let left_out = [
                (all.len() - having.len(), "without the configuration"),
                (having.len() - same.len(), "of other work or another machine"),
                (invalid, "invalid"),
                (same.len().saturating_sub(invalid + values.len()), "without a value"),
                (values.len() - since.len(), "before a change"),
            ];
            let left_out = left_out.into_iter().filter(|(runs, _)| *runs > 0);
            figures.push(FigureRuns {
                configuration: name.clone(),
                figure: line.map_or(phase.as_str(), |line| line.of.figure).to_owned(),
                spread: mean.and_then(|mean| mean.of_one()).map(f64::exp_m1),
                of_runs: since.len() as u32,
                left_out: left_out.map(|(runs, why)| RunsLeftOut { runs: runs as u32, why }).collect(),
                runs: mean.and_then(|mean| mean.trials_of_each_side(gate, POWER)),
            });
        }
    }
    RunsNeeded { gate, power: POWER, figures }
}

impl RunsNeeded {
    /// A sentence for each figure.
    pub fn in_words(&self) -> String {
        let mut out = String::new();
        for FigureRuns { configuration, figure, spread, of_runs, left_out, runs } in &self.figures {
            let needs = match (spread, runs, of_runs) {
                (None, _, 0) => "is not known: it takes two runs that count, and there is none".to_owned(),
                (None, _, _) => "is not known: it takes two runs that count, and there is one".to_owned(),
                (_, Some(runs), _) => format!("needs {runs} runs on each side"),
                (_, None, _) => format!("needs more than {} runs on each side", count(MOST_TRIALS.into())),
            };
            let from = spread.map(|spread| format!("spread between runs: {}, from {of_runs} runs", percent(spread)));
            let left: Vec<String> = left_out.iter().map(|of| format!("{} {}", count(of.runs.into()), of.why)).collect();
            let left = (!left.is_empty()).then(|| format!("left out: {}", left.join(", ")));
            let about: Vec<String> = from.into_iter().chain(left).collect();
            let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join("; ")) };
            out += &format!("A gate of {} on {configuration} {figure} {needs}{about}\n", percent(self.gate));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::HistoryConfiguration;
    use crate::plan::{PlannedConfiguration, PlannedPhase};
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

    fn needed(entries: &[HistoryEntry], gate: f64) -> RunsNeeded {
        runs_needed(entries, gate, &plan("sqlite", &["steady"]))
    }

    fn plan(configuration: &str, phases: &[&str]) -> Plan {
        let phase = |name: &&str| PlannedPhase { name: (*name).to_owned(), ..PlannedPhase::default() };
        let of = PlannedConfiguration { configuration: configuration.to_owned(), ..PlannedConfiguration::default() };
        Plan { configurations: vec![of], phases: phases.iter().map(phase).collect(), ..Plan::default() }
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
        let found = needed(&entries(&values[..]), 0.05);
        let of = &found.figures[0];
        assert!(of.of_runs == 100 && (21..=24).contains(&of.runs.unwrap()), "{of:?}");
        // Half of the noise is a quarter of the runs, and a few more for their degrees of freedom.
        let half: Vec<f64> = values.iter().map(|value| value.sqrt()).collect();
        assert!((6..=8).contains(&needed(&entries(&half), 0.05).figures[0].runs.unwrap()));
        assert!(found.in_words().starts_with("A gate of 5 % on sqlite steady.response.p99 needs 2"), "{found:?}");
    }

    #[test]
    fn a_change_is_no_noise_and_one_run_tells_nothing() {
        let mut values: Vec<f64> = noise(4, 40, 0.0).into_iter().map(|noise| (0.02 * noise).exp()).collect();
        values[25..].iter_mut().for_each(|value| *value *= 1.5);
        let of = &needed(&entries(&values), 0.05).figures[0];
        assert!(of.of_runs == 15 && of.spread.unwrap() < 0.04, "{of:?}");
        assert_eq!(of.left_out, [RunsLeftOut { runs: 25, why: "before a change" }]);
        let one = needed(&entries(&[1.0]), 0.05);
        assert_eq!((one.figures[0].spread, one.figures[0].runs), (None, None));
        assert!(one.in_words().contains("is not known"), "{}", one.in_words());
        let wild = needed(&entries(&[1.0, 9.0, 0.1]), 0.001);
        assert!(wild.in_words().contains("more than 1,000 runs"), "{}", wild.in_words());
    }

    #[test]
    fn runs_that_do_not_count_are_told_with_the_reason() {
        let words = |entries: &[HistoryEntry]| needed(entries, 0.05).in_words();
        let six = entries(&[1.0, 1.1, 0.9, 1.0, 1.1, 0.9]);
        let from = |words: &str, from: &str| assert!(words.ends_with(&format!(", {from})\n")), "{words}");
        from(&words(&six), "from 6 runs");
        let mut scaled = six.clone();
        scaled[4..].iter_mut().for_each(|entry| entry.configurations[0].work = "other".to_owned());
        from(&words(&scaled), "from 2 runs; left out: 4 of other work or another machine");
        let mut moved = six.clone();
        moved[5].machine = "another".to_owned();
        let told = words(&moved);
        assert!(told.contains("two runs that count, and there is one (left out: 5 of other work or an"), "{told}");
        let mut invalid = six.clone();
        for entry in &mut invalid {
            let about = Invalid { check: "client-bound".to_owned(), phase: Some("steady".to_owned()) };
            entry.configurations[0].invalid.push(about);
        }
        let told = words(&invalid);
        assert!(
            told.ends_with(" is not known: it takes two runs that count, and there is none (left out: 6 invalid)\n")
        );
        invalid[..4].iter_mut().for_each(|entry| entry.configurations[0].invalid.clear());
        invalid[0].configurations.clear();
        from(&words(&invalid), "from 3 runs; left out: 1 without the configuration, 2 invalid");
    }

    /// What the runs measured is no advice on what the study measures now.
    #[test]
    fn each_phase_and_configuration_of_the_plan_is_told_and_no_other() {
        let runs = entries(&[1.0, 1.1, 0.9]);
        let told = runs_needed(&runs, 0.05, &plan("sqlite", &["other", "steady"])).in_words();
        let lines: Vec<&str> = told.lines().collect();
        assert!(
            lines.len() == 2 && lines[1].starts_with("A gate of 5 % on sqlite steady.response.p99 needs"),
            "{told}"
        );
        assert!(
            lines[0].starts_with("A gate of 5 % on sqlite other is not known") && lines[0].contains("3 without a v")
        );
        let told = runs_needed(&runs, 0.05, &plan("redb", &["steady"])).in_words();
        assert!(told.starts_with("A gate of 5 % on redb steady is not known"), "{told}");
        assert!(told.ends_with("(left out: 3 without the configuration)\n"), "{told}");
    }
}
