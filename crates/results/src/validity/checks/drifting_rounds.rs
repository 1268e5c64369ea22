//! `drifting-rounds`: did the machine become slower or faster over the rounds?

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::noisy_rounds::judged;
use crate::human::percent;
use crate::stats::{LEAST_ROUNDS, trend};
use crate::validity::check::{Check, Configurations, Finding, Looks, Severity, some};

pub(super) const CHECK: Check =
    Check::new("drifting-rounds", "figures rise or fall over the rounds", &[Looks::Configurations(look)]);

/// A phase: for each round, the logarithms of figures over the means of their configurations.
type Rounds = BTreeMap<u32, Vec<f64>>;

/// Whether the figure of a phase rises or falls from round to round, over all configurations.
fn look(configurations: &Configurations<'_>) -> Vec<Finding> {
    // With what it is, and how large a change matters.
    let mut phases: IndexMap<&str, (&str, f64, Rounds)> = IndexMap::new();
    for configuration in &configurations.configurations {
        for (phase, judged) in judged(configuration) {
            let logarithms: Vec<(u32, f64)> = judged
                .values
                .iter()
                .filter(|(_, value)| *value > 0.0)
                .filter_map(|(number, value)| {
                    let trial = configuration.trials.iter().find(|trial| trial.trial == *number)?;
                    Some((trial.round, value.ln()))
                })
                .collect();
            let mean = logarithms.iter().map(|(_, log)| log).sum::<f64>() / logarithms.len().max(1) as f64;
            let (.., rounds) = phases.entry(phase).or_insert_with(|| (judged.what, judged.wide, Rounds::new()));
            for (round, log) in logarithms {
                rounds.entry(round).or_default().push(log - mean);
            }
        }
    }
    if phases.values().all(|(.., rounds)| rounds.len() < LEAST_ROUNDS) {
        return Vec::new();
    }
    let mut told = Vec::new();
    for (phase, (what, wide, rounds)) in &phases {
        let means: Vec<f64> = rounds.values().map(|of| of.iter().sum::<f64>() / of.len() as f64).collect();
        let Some(change) = trend(&means).map(|ratio| ratio - 1.0).filter(|change| change.abs() > *wide) else {
            continue;
        };
        let direction = if change < 0.0 { "falls" } else { "rises" };
        told.push(format!("{what} of {phase} {direction} by {} over {} rounds", percent(change.abs()), means.len()));
    }
    let threshold = format!(
        "caution from {LEAST_ROUNDS} rounds on, for a trend at 99 % confidence that is larger than what `noisy-rounds` calls wide"
    );
    if told.is_empty() {
        return vec![Finding::new(Severity::Pass, "no figure rises or falls over the rounds", threshold, "")];
    }
    let advice = "find out what runs out or builds up (burst credits, heat, a growing database, a filling disk): ratios \
                  within rounds hold, but the figures themselves depend on when they were measured";
    vec![Finding::new(Severity::Caution, some(&told), threshold, advice)]
}

#[cfg(test)]
mod tests {
    use crate::RunResult;
    use crate::validity::testing::{CAUTION, PASS, all, closed, severity};

    fn rounds(per_s: &[f64]) -> RunResult {
        let mut result = closed(|_| ());
        let trial = result.trials.remove(0);
        for (at, per_s) in per_s.iter().enumerate() {
            let mut trial = trial.clone();
            (trial.trial, trial.round) = (at as u32 + 1, at as u32 + 1);
            trial.phases[0].ops.values_mut().for_each(|op| op.throughput_per_s = per_s / 2.0);
            result.trials.push(trial);
        }
        result
    }

    #[test]
    fn burst_credits_that_run_out_are_named() {
        let falling = rounds(&[1_000.0, 961.0, 940.0, 900.0, 860.0, 842.0]);
        assert_eq!(severity(&falling, "drifting-rounds"), CAUTION);
        let observed = &all(&falling, "drifting-rounds")[0].observed;
        assert_eq!(observed, "throughput of mixed falls by 16.2 % over 6 rounds");
        assert_eq!(severity(&rounds(&[1_000.0, 990.0, 1_004.0, 996.0, 1_001.0]), "drifting-rounds"), PASS);
        // Certain, but too small to matter.
        assert_eq!(severity(&rounds(&[1_000.0, 995.0, 990.0, 985.0, 980.0]), "drifting-rounds"), PASS);
        assert_eq!(severity(&rounds(&[1_000.0, 900.0, 800.0, 700.0]), "drifting-rounds"), None);
    }
}
