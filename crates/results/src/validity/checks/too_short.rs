//! `too-short`: was the phase long enough for its figures?

use crate::human::{count, duration, plural};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check = Check::new("too-short", "phases were short", &[Looks::Phase(look)]);

/// The least length of a measured phase, in ns.
pub(super) const LONG_ENOUGH_NS: f64 = 10e9;
pub(super) const ENOUGH_OPERATIONS: f64 = 1_000.0;
/// The least length of a load or a copy, in ns.
pub(super) const LOAD_NS: f64 = 1e9;
/// Values that a percentile should have beyond it.
pub(super) const ENOUGH_BEYOND: f64 = 100.0;

/// Whether the phase was long enough for its figures.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    if scene.phase.loads || scene.phase.tasks.is_some() {
        return of_load(scene);
    }
    if !scene.measures() {
        return None;
    }
    let (sent_ns, operations) = (scene.phase.sending_ns as f64, scene.operations());
    let mut observed = format!("{}, {} operations", duration(sent_ns), count(operations as u64));
    // The kind with the fewest values has the weakest tail.
    let rarest = scene
        .phase
        .ops
        .iter()
        .map(|(name, op)| (op.response_ns.unwrap_or(op.service_ns).count as f64 / 1_000.0, name))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let weak_tail = rarest.filter(|(beyond, _)| *beyond < ENOUGH_BEYOND);
    if let Some((beyond, name)) = &weak_tail {
        observed += &format!("; {:.0} values of {name} lie beyond its p99.9", beyond.floor());
    }
    let (severity, advice) = if sent_ns < LONG_ENOUGH_NS - 1e6 || operations < ENOUGH_OPERATIONS {
        (
            Severity::Caution,
            "caches, flushes and compactions have barely begun: lengthen the phase, to minutes if the store writes",
        )
    } else if weak_tail.is_some() {
        (Severity::Note, "p99.9 and above rest on few values: lengthen the phase before you compare them")
    } else {
        (Severity::Pass, "")
    };
    Some(
        Finding::new(
            severity,
            observed,
            format!(
                "caution below 10 s or {} operations; note below {} values beyond p99.9",
                count(ENOUGH_OPERATIONS as u64),
                count(ENOUGH_BEYOND as u64)
            ),
            advice,
        )
        .weighing(-sent_ns),
    )
}

/// A load or copy ends when everything is moved, however soon.
fn of_load(scene: &Scene<'_>) -> Option<Finding> {
    let (took_ns, requests) = (scene.phase.elapsed_ns as f64, scene.operations());
    let limit = scene.phase.in_flight_limit.max(1) as f64;
    let short = scene.phase.tasks.is_none() && requests < limit || took_ns < LOAD_NS;
    Some(
        Finding::new(
            if short { Severity::Caution } else { Severity::Pass },
            format!(
                "{}, {}, in-flight limit {}",
                duration(took_ns),
                plural(requests as u64, "request"),
                count(scene.phase.in_flight_limit)
            ),
            format!(
                "caution for a load or copy below {} or with fewer requests than the in-flight limit",
                duration(LOAD_NS)
            ),
            "there is too little to load for a rate: use more documents or smaller batches",
        )
        .weighing(-took_ns),
    )
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, NOTE, PASS, closed, load, severity};

    #[test]
    fn too_short() {
        for (sent_ns, count, expected) in [
            (10_000_000_000, 100_000, PASS),
            (9_998_000_000, 100_000, CAUTION),
            (10_000_000_000, 99_999, NOTE),
            (10_000_000_000, 1_000, NOTE),
            (10_000_000_000, 999, CAUTION),
        ] {
            let result = closed(|p| {
                p.sending_ns = sent_ns;
                p.ops.shift_remove("update");
                p.ops[0].count = count;
                p.ops[0].service_ns.count = count;
            });
            assert_eq!(severity(&result, "too-short"), expected, "{sent_ns} ns, {count}");
        }
        for (elapsed_ns, count, expected) in
            [(1_000_000_000, 8, PASS), (999_999_999, 8, CAUTION), (1_000_000_000, 7, CAUTION)]
        {
            let result = load(|p| {
                (p.elapsed_ns, p.in_flight_limit) = (elapsed_ns, 8);
                p.ops[0].count = count;
            });
            assert_eq!(severity(&result, "too-short"), expected, "{elapsed_ns} ns, {count}");
        }
        assert_eq!(severity(&closed(|p| p.warm_up = true), "too-short"), None);
    }
}
