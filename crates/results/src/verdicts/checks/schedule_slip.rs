//! `schedule-slip`: did the client send late though it could have sent?

use crate::human::{duration, percent};
use crate::times::of_answers;
use crate::verdicts::check::{Check, Finding, Looks, Scene};
use crate::verdicts::model::Level;

pub(super) const CHECK: Check = Check::new("schedule-slip", "the client sent late", &[Looks::Phase(look)]);

/// Lateness below this is no finding, in ns, however large its share of the response is.
pub(super) const LEAST_NS: f64 = 50e3;
/// Lateness from which a smaller share counts, and from which the phase may be invalid, in ns.
pub(super) const MUCH_NS: (f64, f64) = (1e6, 2e6);
/// Slip over response, at the same percentile.
pub(super) const SLIP: (f64, f64) = (0.10, 0.50);
/// Slip over the strictest limit on a time of the phase, below which it cannot decide that.
pub(super) const OF_LIMIT: f64 = 0.10;

/// Whether the client was late though a slot was free: our fault.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    scene.phase.rate.as_ref()?;
    let (slip, response) = (&scene.phase.client.slip_ns, scene.phase.all.response_ns?);
    let at_p99 = (slip.p99? as f64, response.p99? as f64);
    let tail = slip.p99_9.zip(response.p99_9).map(|(slip, response)| (slip as f64, response as f64));
    let times = scene.phase.limits.iter().filter(|limit| limit.share_within.is_some()).map(|limit| limit.limit);
    let touches_limits = times.reduce(f64::min).is_none_or(|strictest| at_p99.0 >= OF_LIMIT * strictest);
    let found = |name, (slip, response): (f64, f64)| {
        let share = slip / response;
        let level = if slip >= MUCH_NS.1 && share >= SLIP.1 && touches_limits && name == "p99" {
            Level::Invalid
        } else if slip >= LEAST_NS && share >= SLIP.1 || slip >= MUCH_NS.0 && share >= SLIP.0 {
            Level::Caution
        } else {
            Level::Pass
        };
        let of = of_answers(&scene.phase.all);
        (level, format!("slip {name} {}, of a response {name} of {}{of}", duration(slip), duration(response)))
    };
    let (mut level, mut saw) = found("p99", at_p99);
    if let Some((beyond, told)) = tail.map(|tail| found("p99.9", tail)).filter(|(beyond, _)| *beyond > level) {
        (level, saw) = (beyond, told);
    }
    Some(Finding::new(
        level,
        saw,
        format!(
            "caution from {} and {} of the response, or {} and {}; invalid from {} and {} at p99",
            duration(LEAST_NS),
            percent(SLIP.1),
            duration(MUCH_NS.0),
            percent(SLIP.0),
            duration(MUCH_NS.1),
            percent(SLIP.1)
        ),
        "the client sent late although it had a free slot: use pacing = \"precise\", fewer workers than processors or a lower rate, and stop other programs",
    ))
}

#[cfg(test)]
mod tests {
    use crate::verdicts::testing::{CAUTION, INVALID, PASS, closed, level, open};
    use crate::{LimitResult, Percentiles};

    #[test]
    fn schedule_slip() {
        for (slip_ns, response_ns, expected) in [
            (49_999, 60_000, PASS),
            (50_000, 100_000, CAUTION),
            (50_000, 100_001, PASS),
            (999_999, 1_000_000, CAUTION),
            (999_999, 9_999_990, PASS),
            (1_000_000, 10_000_001, PASS),
            (1_000_000, 10_000_000, CAUTION),
            (1_999_999, 2_000_000, CAUTION),
            (2_000_000, 4_000_001, CAUTION),
            (2_000_000, 4_000_000, INVALID),
        ] {
            let result = open(|p| {
                p.client.slip_ns = Percentiles { p99: Some(slip_ns), ..Default::default() };
                p.all.response_ns = Some(Percentiles { p99: Some(response_ns), ..Default::default() });
            });
            assert_eq!(level(&result, "schedule-slip"), expected, "{slip_ns} of {response_ns}");
        }
        assert_eq!(level(&closed(|_| ()), "schedule-slip"), None);
    }

    #[test]
    fn a_limit_that_is_far_away_is_not_touched_and_a_tail_is_seen() {
        let with = |limit_ns: f64, p99: u64, p99_9: u64| {
            open(|p| {
                p.client.slip_ns = Percentiles { p99: Some(p99), p99_9: Some(p99_9), ..Default::default() };
                p.all.response_ns =
                    Some(Percentiles { p99: Some(4_000_000), p99_9: Some(300_000_000), ..Default::default() });
                p.limits = vec![LimitResult { limit: limit_ns, share_within: Some(1.0), ..Default::default() }];
            })
        };
        assert_eq!(level(&with(200e6, 3_000_000, 0), "schedule-slip"), CAUTION);
        assert_eq!(level(&with(20e6, 3_000_000, 0), "schedule-slip"), INVALID);
        assert_eq!(level(&with(20e6, 1_000, 240_000_000), "schedule-slip"), CAUTION);
    }
}
