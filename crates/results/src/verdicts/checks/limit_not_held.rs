//! `limit-not-held`: did the study's limits hold?

use crate::LimitResult;
use crate::human::{duration, percent};
use crate::verdicts::check::{Check, Finding, Looks, Scene};
use crate::verdicts::model::Level;

pub(super) const CHECK: Check = Check::new("limit-not-held", "limits were not held", &[Looks::Phase(look)]);

/// Whether every limit on a phase held.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let limits = &scene.phase.limits;
    let broken: Vec<&LimitResult> = limits.iter().filter(|limit| !limit.held).collect();
    let told = |limit: &&LimitResult| {
        let share = limit.share_within.map_or_else(String::new, |share| format!(", {} within it", percent(share)));
        format!("{} was {} of at most {}{share}", limit.path, found(limit), shown(limit, limit.limit))
    };
    let (level, saw) = match broken[..] {
        _ if limits.is_empty() => return None,
        [] => (Level::Pass, "every limit held".to_owned()),
        _ => (Level::Caution, broken.iter().map(told).collect::<Vec<_>>().join("; ")),
    };
    let advice = if scene.phase.rate.is_some() {
        "the store does not hold it at this rate: lower `rate`, or let `[search]` find the highest that holds"
    } else {
        "the store does not hold it: in a closed loop fewer workers, smaller batches or a `rate` ask less of it"
    };
    Some(Finding::new(level, saw, "caution where a limit of the study does not hold over all attempts", advice))
}

fn found(limit: &LimitResult) -> String {
    limit.found.map_or_else(|| "without end".to_owned(), |found| shown(limit, found))
}

/// Times have a share within them, shares have none.
fn shown(limit: &LimitResult, value: f64) -> String {
    if limit.path.ends_with(".errors") { percent(value) } else { duration(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdicts::exit_code;
    use crate::verdicts::testing::{CAUTION, PASS, all, level, open};

    fn limit(path: &str, found: Option<f64>, held: bool) -> LimitResult {
        LimitResult { path: path.into(), limit: 2e8, found, share_within: Some(0.93), attempts: 1_000, held }
    }

    #[test]
    fn limits_that_hold_pass_and_others_are_findings() {
        assert_eq!(level(&open(|_| {}), "limit-not-held"), None);
        let held = open(|p| p.limits = vec![limit("steady.response.p99", Some(1e8), true)]);
        assert_eq!(level(&held, "limit-not-held"), PASS);
        let broken = open(|p| p.limits = vec![limit("steady.response.p99", None, false)]);
        let said = all(&broken, "limit-not-held");
        assert_eq!(Some(said[0].level), CAUTION);
        assert!(said[0].saw.contains("without end of at most 200 ms"), "{said:?}");
        assert_eq!(exit_code(&broken), 0, "a finding about the store");
    }
}
