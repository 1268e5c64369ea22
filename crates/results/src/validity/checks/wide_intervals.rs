//! `wide-intervals`: are intervals as narrow as `repeats = { until = … }` asks for?

use crate::answer::widths;
use crate::human::{count, half_width, percent};
use crate::validity::check::{Check, Configurations, Finding, Looks, Severity, worst_of};

pub(super) const CHECK: Check =
    Check::new("wide-intervals", "intervals are wider than was asked for", &[Looks::Configurations(look)]);

fn look(configurations: &Configurations<'_>) -> Vec<Finding> {
    let result = configurations.result;
    // A run that goes on, or is resumed, may still become as exact.
    let ended = result.run.ended.is_some() && !result.run.interrupted;
    let Some(until) = result.plan.until.filter(|_| ended) else { return Vec::new() };
    let rounds = result.trials.iter().map(|trial| trial.round).max().unwrap_or(0);
    let widths = widths(result);
    let wide: Vec<(f64, String)> = widths
        .iter()
        .filter(|of| of.half.is_none_or(|half| half > until))
        .map(|of| match of.half {
            Some(half) => (half, format!("{} of {} {}", of.figure, of.configuration, half_width(half))),
            None => (f64::MAX, format!("{} of {} has no interval", of.figure, of.configuration)),
        })
        .collect();
    let threshold = format!("caution if an interval is wider than ± {}, as the study asks", percent(until));
    if wide.is_empty() && !widths.is_empty() {
        let observed = format!("after {} rounds every interval is within ± {}", count(rounds.into()), percent(until));
        return vec![Finding::new(Severity::Pass, observed, threshold, "")];
    }
    let observed = match worst_of(wide) {
        None => format!("after {} rounds there is no figure", count(rounds.into())),
        Some(worst) => format!("after {} rounds: {worst}", count(rounds.into())),
    };
    let advice = format!(
        "allow more rounds (`at_most`), lengthen the phases, or ask for less; `plan STUDY --pilot RUN --within {}%` says how many rounds it takes",
        (until * 1e8).round() / 1e6
    );
    vec![Finding::new(Severity::Caution, observed, threshold, advice)]
}

#[cfg(test)]
mod tests {
    use crate::RunResult;
    use crate::validity::testing::{CAUTION, PASS, all, closed, severity};

    fn run(until: Option<f64>) -> RunResult {
        let mut result = closed(|_| ());
        result.plan.until = until;
        result.run.ended = Some("2026-11-26T10:00:00Z".into());
        let trial = result.trials.remove(0);
        for round in 1..=12 {
            let mut trial = trial.clone();
            (trial.trial, trial.round) = (round, round);
            trial.phases[0].ops.values_mut().for_each(|op| op.throughput_per_s *= 1.0 + 0.01 * f64::from(round % 3));
            result.trials.push(trial);
        }
        result
    }

    #[test]
    fn intervals_that_are_wider_than_asked_for() {
        assert_eq!(severity(&run(None), "wide-intervals"), None);
        assert_eq!(severity(&run(Some(0.05)), "wide-intervals"), PASS);
        assert_eq!(severity(&run(Some(0.001)), "wide-intervals"), CAUTION);
        let observed = &all(&run(Some(0.001)), "wide-intervals")[0].observed;
        assert!(observed.starts_with("after 12 rounds: mixed.throughput of "), "{observed}");
    }
}
