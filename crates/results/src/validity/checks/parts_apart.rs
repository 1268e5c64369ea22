//! `parts-apart`: did the parts of a run send at the same time?

use crate::human::{duration, percent};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity, above};

pub(super) const CHECK: Check = Check::new("parts-apart", "the parts did not run together", &[Looks::Phase(look)]);

/// Caution and invalid above these: the time between the first and the last start, as a share of the phase.
pub(super) const APART: (f64, f64) = (0.01, 0.10);
/// Starts that are at most this far apart, in ns, always pass.
pub(super) const TOGETHER_NS: f64 = 50e6;

/// Checks whether the parts began together, according to their clocks.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let last = scene.phase.generators.iter().max_by_key(|of| of.began_after_ns)?;
    if scene.phase.generators.len() < 2 {
        return None;
    }
    let (unknown, error_ns) = clocks(scene);
    // Clock errors can hide a difference between starts, so add them.
    let apart_ns = last.began_after_ns as f64 + error_ns.unwrap_or(0.0);
    let share = apart_ns / scene.phase.elapsed_ns.max(1) as f64;
    let mut severity = if apart_ns <= TOGETHER_NS { Severity::Pass } else { above(share, APART).0 };
    let told = duration(last.began_after_ns as f64);
    let mut observed = format!("the parts began within {told}; part {} was the last", last.part);
    if severity > Severity::Pass {
        observed += &format!(", {} of the phase after the first", percent(share));
    }
    if let Some(error_ns) = error_ns.filter(|ns| *ns > 0.0) {
        observed += &format!("; their clocks may differ by up to {}", duration(error_ns));
    }
    if !unknown.is_empty() {
        severity = severity.max(Severity::Note);
        observed += &format!("; not synchronised: the clock of part {}", unknown.join(", "));
    }
    Some(Finding::new(
        severity,
        observed,
        format!(
            "caution above {} of the phase and {}, invalid above {}; note if a clock is not synchronised",
            percent(APART.0),
            duration(TOGETHER_NS),
            percent(APART.1)
        ),
        "the load was lower than the study says for part of the phase: start all parts earlier, and synchronise the \
         machines' clocks (chrony, PTP)",
    ))
}

/// The parts whose clocks are not synchronised, and the maximum difference between two of the other clocks, in ns.
/// Parts on one machine share its clock, so neither applies to them.
fn clocks(scene: &Scene<'_>) -> (Vec<String>, Option<f64>) {
    let parts = scene.result.run.parts.iter().flat_map(|parts| &parts.merged);
    let mut machines = parts.clone().map(|part| part.environment.boot.as_deref());
    let first = machines.next().flatten();
    if first.is_some() && machines.all(|other| other == first) {
        return (Vec::new(), None);
    }
    let (mut unknown, mut errors) = (Vec::new(), Vec::new());
    for part in parts {
        match part.environment.clock_error_ns {
            Some(error_ns) => errors.push(error_ns),
            None => unknown.push(part.part.to_string()),
        }
    }
    errors.sort_unstable();
    let most = errors.iter().rev().take(2).sum::<u64>();
    (unknown, (errors.len() > 1).then_some(most as f64))
}

#[cfg(test)]
mod tests {
    use crate::environment::Environment;
    use crate::validity::testing::{CAUTION, INVALID, NOTE, PASS, all, closed, severity};
    use crate::{GeneratorResult, PartResult, PartsResult, RunResult};

    fn apart(ns: u64, clocks: &[(Option<&str>, Option<u64>)]) -> RunResult {
        let mut result = closed(|p| {
            let one = |part, began_after_ns| GeneratorResult { part, began_after_ns, ..GeneratorResult::default() };
            p.elapsed_ns = 12_000_000_000;
            p.generators = vec![one(1, ns), one(2, 0)];
        });
        let merged = clocks.iter().zip(1..).map(|((boot, error), part)| PartResult {
            part,
            environment: Environment {
                boot: boot.map(str::to_owned),
                clock_error_ns: *error,
                ..Environment::default()
            },
            ..PartResult::default()
        });
        result.run.parts = Some(PartsResult { of: 2, missing: Vec::new(), merged: merged.collect() });
        result
    }

    const ONE_MACHINE: [(Option<&str>, Option<u64>); 2] = [(Some("a"), None), (Some("a"), None)];

    #[test]
    fn parts_apart() {
        assert_eq!(severity(&closed(|_| ()), "parts-apart"), None);
        for (ns, expected) in [
            (0, PASS),
            (50_000_000, PASS),
            (120_000_000, PASS),
            (120_000_001, CAUTION),
            (1_200_000_000, CAUTION),
            (1_200_000_001, INVALID),
        ] {
            assert_eq!(severity(&apart(ns, &ONE_MACHINE), "parts-apart"), expected, "{ns}");
        }
        let observed = &all(&apart(2_400_000_000, &ONE_MACHINE), "parts-apart")[0].observed;
        assert_eq!(observed, "the parts began within 2.40 s; part 1 was the last, 20 % of the phase after the first");
    }

    #[test]
    fn clocks_of_different_machines_are_told() {
        let known = apart(0, &[(Some("a"), Some(2_000_000)), (Some("b"), Some(3_000_000))]);
        assert_eq!(severity(&known, "parts-apart"), PASS);
        assert!(all(&known, "parts-apart")[0].observed.ends_with("their clocks may differ by up to 5.00 ms"));
        let unknown = apart(0, &[(Some("a"), Some(2_000_000)), (None, None)]);
        assert_eq!(severity(&unknown, "parts-apart"), NOTE);
        assert!(all(&unknown, "parts-apart")[0].observed.ends_with("not synchronised: the clock of part 2"));
    }
}
