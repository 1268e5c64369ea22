//! `single-run`: is there a spread to see?

use crate::arms::Arm;
use crate::human::count;
use crate::verdicts::check::{Arms, Check, Finding, Looks};
use crate::verdicts::model::Level;

pub(super) const CHECK: Check = Check::new("single-run", "it was measured once", &[Looks::Arms(look)]);

/// Whether there is a spread to see.
fn look(arms: &Arms<'_>) -> Vec<Finding> {
    let whole = |arm: &Arm<'_>| arm.whole().count() as u64;
    let Some(fewest) = arms.arms.iter().map(whole).min() else { return Vec::new() };
    let level = if fewest < 3 { Level::Note } else { Level::Pass };
    let of = if arms.arms.len() > 1 { " of the arm with the fewest" } else { "" };
    vec![Finding::new(
        level,
        format!("{} trial{}{of} completed", count(fewest), if fewest == 1 { "" } else { "s" }),
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
    use crate::verdicts::testing::{NOTE, PASS, closed, level};

    #[test]
    fn trials_that_were_made_count_and_not_those_that_were_asked_for() {
        let mut result = closed(|_| ());
        result.plan.repeats = 3;
        assert_eq!(level(&result, "single-run"), NOTE);
        for n in 2..=3 {
            let trial = crate::TrialResult { trial: n, block: n, ..result.trials[0].clone() };
            result.trials.push(trial);
            assert_eq!(level(&result, "single-run"), if n == 2 { NOTE } else { PASS });
        }
        result.trials[2].failure = Some(crate::Failure::default());
        assert_eq!(level(&result, "single-run"), NOTE);
    }
}
