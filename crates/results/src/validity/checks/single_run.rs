//! `single-run`: are there enough trials to see a spread?

use crate::configurations::Trials;
use crate::human::plural;
use crate::validity::check::{Check, Configurations, Finding, Looks, Severity};

pub(super) const CHECK: Check = Check::new("single-run", "it was measured once", &[Looks::Configurations(look)]);

/// Whether there are enough trials to see a spread.
fn look(configurations: &Configurations<'_>) -> Vec<Finding> {
    let whole = |configuration: &Trials<'_>| configuration.whole().count() as u64;
    let Some(fewest) = configurations.configurations.iter().map(whole).min() else { return Vec::new() };
    let severity = if fewest < 3 { Severity::Note } else { Severity::Pass };
    let of = if configurations.configurations.len() > 1 { " of the configuration with the fewest" } else { "" };
    vec![Finding::new(
        severity,
        format!("{}{of} completed", plural(fewest, "trial")),
        "note below 3 trials that completed",
        if fewest == 2 {
            "two say almost nothing about variation: set `repeats` to 3 or more before you call a difference real"
        } else {
            "one says nothing about variation: set `repeats` to 3 or more before you call a difference real"
        },
    )]
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{NOTE, PASS, closed, severity};

    #[test]
    fn trials_that_were_made_count_and_not_those_that_were_asked_for() {
        let mut result = closed(|_| ());
        result.plan.repeats = 3;
        assert_eq!(severity(&result, "single-run"), NOTE);
        for n in 2..=3 {
            let trial = crate::TrialResult { trial: n, round: n, ..result.trials[0].clone() };
            result.trials.push(trial);
            assert_eq!(severity(&result, "single-run"), if n == 2 { NOTE } else { PASS });
        }
        result.trials[2].failure = Some(crate::Failure::default());
        assert_eq!(severity(&result, "single-run"), NOTE);
    }
}
