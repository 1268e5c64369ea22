//! `limit-not-met`: were the study's limits met?

use crate::LimitResult;
use crate::human::{duration, percent};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check = Check::new("limit-not-met", "limits were not met", &[Looks::Phase(look)]);

/// Whether every limit on a phase was met.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let limits = &scene.phase.limits;
    let broken: Vec<&LimitResult> = limits.iter().filter(|limit| !limit.met).collect();
    let told = |limit: &&LimitResult| {
        let share = limit
            .share_within
            .map_or_else(String::new, |share| format!("; {} of the attempts were within it", percent(share)));
        format!("{} was {}, above the limit of {}{share}", limit.path, found(limit), shown(limit, limit.limit))
    };
    let (severity, observed) = match broken[..] {
        _ if limits.is_empty() => return None,
        [] => (Severity::Pass, "every limit was met".to_owned()),
        _ => (Severity::Caution, broken.iter().map(told).collect::<Vec<_>>().join("; ")),
    };
    let beyond = |limit: &LimitResult| limit.found.map_or(f64::MAX, |found| found / limit.limit);
    let furthest = limits.iter().filter(|limit| !limit.met).map(beyond).fold(0.0, f64::max);
    let advice = if scene.phase.rate.is_some() {
        "the store does not meet it at this rate: lower `rate`, or let `[search]` find the highest rate that meets it"
    } else {
        "the store does not meet it: in a closed loop fewer workers, smaller batches or a `rate` ask less of it"
    };
    Some(
        Finding::new(severity, observed, "caution if a limit of the study is not met over all attempts", advice)
            .weighing(furthest),
    )
}

fn found(limit: &LimitResult) -> String {
    limit.found.map_or_else(|| "infinite".to_owned(), |found| shown(limit, found))
}

/// The value of a limit: a share for `errors`, otherwise a time.
fn shown(limit: &LimitResult, value: f64) -> String {
    if limit.path.ends_with(".errors") { percent(value) } else { duration(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validity::exit_code;
    use crate::validity::testing::{CAUTION, PASS, all, open, severity};

    fn limit(path: &str, found: Option<f64>, met: bool) -> LimitResult {
        LimitResult { path: path.into(), limit: 2e8, found, share_within: Some(0.93), attempts: 1_000, met }
    }

    #[test]
    fn limits_that_hold_pass_and_others_are_findings() {
        assert_eq!(severity(&open(|_| {}), "limit-not-met"), None);
        let met = open(|p| p.limits = vec![limit("steady.response.p99", Some(1e8), true)]);
        assert_eq!(severity(&met, "limit-not-met"), PASS);
        let broken = open(|p| p.limits = vec![limit("steady.response.p99", None, false)]);
        let said = all(&broken, "limit-not-met");
        assert_eq!(Some(said[0].severity), CAUTION);
        assert!(
            said[0].observed.contains("infinite, above the limit of 200 ms; 93 % of the attempts were within it"),
            "{said:?}"
        );
        assert_eq!(exit_code(&broken), 0, "a finding about the store");
    }
}
