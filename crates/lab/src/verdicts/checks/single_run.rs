//! `single-run`: is there a spread to see?

use crate::human::count;
use crate::results::RunResult;
use crate::verdicts::check::{Check, Finding, Group, Looks};
use crate::verdicts::model::Level;

pub(super) const CHECK: Check =
    Check { name: "single-run", group: Group::Enough, page, looks: &[Looks::Run(look)], warm_ups: false };

fn page() -> String {
    "A note at `repeats = 1`: there is no spread to see. Set it to 3 or more before you call a difference
real."
        .to_owned()
}

/// Whether there is a spread to see.
fn look(result: &RunResult) -> Vec<Finding> {
    let repeats = result.plan.repeats.max(1);
    let level = if repeats == 1 { Level::Note } else { Level::Pass };
    vec![Finding::new(
        level,
        format!("{} repeat{}", count(repeats.into()), if repeats == 1 { "" } else { "s" }),
        "note at 1 repeat",
        "one run shows no spread: set `repeats` to 3 or more before you call a difference real",
    )]
}

#[cfg(test)]
mod tests {
    use crate::verdicts::testing::{NOTE, PASS, closed, level};

    #[test]
    fn one_repeat_has_no_spread() {
        let mut result = closed(|_| ());
        assert_eq!(level(&result, "single-run"), NOTE);
        result.plan.repeats = 2;
        assert_eq!(level(&result, "single-run"), PASS);
    }
}
