//! `control-differs`: does a configuration differ from itself?

use crate::configurations::control_ratios;
use crate::human::{percent, ratio};
use crate::sweep::PRACTICAL;
use crate::validity::check::{Check, Configurations, Finding, Looks, Severity, some};

pub(super) const CHECK: Check =
    Check::new("control-differs", "a configuration differs from itself", &[Looks::Configurations(look)])
        .for_the_answer();

/// The measures of a phase that a run is for.
const MEASURES: [&str; 4] = [".response.p99", ".throughput", ".documents", ".rate-within-limits"];

/// Whether the control differs from the configuration that it repeats: by more than chance, and by more than matters.
fn look(configurations: &Configurations<'_>) -> Vec<Finding> {
    let Some((first, mut ratios)) = control_ratios(configurations.result) else { return Vec::new() };
    ratios.retain(|name, _| MEASURES.iter().any(|measure| name.ends_with(measure)));
    let together = ratios.len().max(1);
    let estimates = ratios.iter().map(|(name, found)| (name, found.estimate(together)));
    // Without an interval, nothing shows whether they differ.
    let estimates: Vec<_> = estimates.filter(|(_, of)| of.low.is_some()).collect();
    if estimates.is_empty() {
        return Vec::new();
    }
    let told = |(name, of): &(&String, crate::stats::Estimate)| format!("{name} {}", ratio(of));
    let differs: Vec<String> =
        estimates.iter().filter(|(_, of)| of.beyond(1.0) && (of.value - 1.0).abs() > PRACTICAL).map(told).collect();
    let threshold = format!(
        "caution if the interval of the ratio of a configuration to itself excludes 1, for all figures together at 95 % confidence, and the ratio differs from 1 by more than {}",
        percent(PRACTICAL)
    );
    if differs.is_empty() {
        let all: Vec<String> = estimates.iter().map(told).collect();
        let observed = format!("{first} and its control do not differ: {}", some(&all));
        return vec![Finding::new(Severity::Pass, observed, threshold, "")];
    }
    vec![Finding::new(
        Severity::Caution,
        format!("{first} and its control, which is the same, differ: {}", some(&differs)),
        threshold,
        "something other than the configuration changes the figures: what ran before, where its data lies, or a neighbour; differences of this size between configurations mean nothing",
    )]
}

#[cfg(test)]
mod tests {
    use crate::RunResult;
    use crate::validity::testing::{CAUTION, PASS, closed, severity};

    /// Rounds of a configuration and its control, which does `times` as much.
    fn run(times: f64) -> RunResult {
        let mut result = closed(|_| ());
        let trial = result.trials.remove(0);
        for round in 1..=5 {
            for control in [false, true] {
                let mut trial = trial.clone();
                (trial.trial, trial.round, trial.control) = (result.trials.len() as u32 + 1, round, control);
                trial.configuration = if control { "sqlite (control)" } else { "sqlite" }.into();
                let noise = 1.0 + 0.01 * f64::from((round * 2 + u32::from(control)) % 3);
                let times = if control { times } else { 1.0 };
                trial.phases[0].ops.values_mut().for_each(|op| op.throughput_per_s *= times * noise);
                result.trials.push(trial);
            }
        }
        result
    }

    #[test]
    fn a_configuration_that_differs_from_itself() {
        assert_eq!(severity(&closed(|_| ()), "control-differs"), None);
        assert_eq!(severity(&run(1.0), "control-differs"), PASS);
        assert_eq!(severity(&run(1.2), "control-differs"), CAUTION);
        // One round has no interval, and while the configuration itself has not run there is nothing to compare with.
        let mut one = run(1.0);
        one.trials.truncate(2);
        assert_eq!(severity(&one, "control-differs"), None);
        let mut alone = run(1.0);
        alone.trials.iter_mut().filter(|trial| !trial.control).for_each(|trial| trial.configuration = "b".into());
        assert_eq!(severity(&alone, "control-differs"), None);
    }
}
