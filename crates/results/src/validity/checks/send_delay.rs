//! `send-delay`: did the client send late although it could have sent?

use crate::human::{duration, percent};
use crate::times::of_answers;
use crate::validity::check::{Check, Finding, Looks, Scene};
use crate::validity::model::Severity;

pub(super) const CHECK: Check =
    Check::new("send-delay", "the client sent late", &[Looks::Phase(look)]).of_each_client();

/// A delay below this, in ns, is not a finding, however large its share of the response time.
pub(super) const LEAST_NS: f64 = 50e3;
/// Delays, in ns, from which a smaller share counts, and from which the phase may be invalid.
pub(super) const MUCH_NS: (f64, f64) = (1e6, 2e6);
/// Send delay divided by response time, at the same percentile.
pub(super) const SHARES: (f64, f64) = (0.10, 0.50);
/// Below this share of the phase's strictest limit on a time, the send delay cannot decide whether the limit is met.
pub(super) const OF_LIMIT: f64 = 0.10;

/// Whether the client sent late although the in-flight limit was not reached. That is the client's fault.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    scene.phase.rate.as_ref()?;
    let (delay, response) = (&scene.phase.client.send_delay_ns, scene.phase.all.response_ns?);
    let at_p99 = (delay.p99? as f64, response.p99? as f64);
    let tail = delay.p99_9.zip(response.p99_9).map(|(delay, response)| (delay as f64, response as f64));
    let times = scene.phase.limits.iter().filter(|limit| limit.share_within.is_some()).map(|limit| limit.limit);
    let touches_limits = times.reduce(f64::min).is_none_or(|strictest| at_p99.0 >= OF_LIMIT * strictest);
    let found = |name, (delay, response): (f64, f64)| {
        let share = delay / response;
        let severity = if delay >= MUCH_NS.1 && share >= SHARES.1 && touches_limits && name == "p99" {
            Severity::Invalid
        } else if delay >= LEAST_NS && share >= SHARES.1 || delay >= MUCH_NS.0 && share >= SHARES.0 {
            Severity::Caution
        } else {
            Severity::Pass
        };
        let of = of_answers(&scene.phase.all);
        (severity, format!("send delay {name} {}, of a response {name} of {}{of}", duration(delay), duration(response)))
    };
    let (mut severity, mut observed) = found("p99", at_p99);
    if let Some((beyond, told)) = tail.map(|tail| found("p99.9", tail)).filter(|(beyond, _)| *beyond > severity) {
        (severity, observed) = (beyond, told);
    }
    Some(Finding::new(
        severity,
        observed,
        format!(
            "caution from {} and {} of the response, or {} and {}; invalid from {} and {} at p99",
            duration(LEAST_NS),
            percent(SHARES.1),
            duration(MUCH_NS.0),
            percent(SHARES.0),
            duration(MUCH_NS.1),
            percent(SHARES.1)
        ),
        "the client sent late although the in-flight limit was not reached: use pacing = \"precise\", fewer workers than processors or a lower rate, and stop other programs",
    ))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, INVALID, PASS, closed, open, severity};
    use crate::{LimitResult, Percentiles};

    #[test]
    fn send_delay() {
        for (send_delay_ns, response_ns, expected) in [
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
                p.client.send_delay_ns = Percentiles { p99: Some(send_delay_ns), ..Default::default() };
                p.all.response_ns = Some(Percentiles { p99: Some(response_ns), ..Default::default() });
            });
            assert_eq!(severity(&result, "send-delay"), expected, "{send_delay_ns} of {response_ns}");
        }
        assert_eq!(severity(&closed(|_| ()), "send-delay"), None);
    }

    #[test]
    fn a_limit_that_is_far_away_is_not_touched_and_a_tail_is_seen() {
        let with = |limit_ns: f64, p99: u64, p99_9: u64| {
            open(|p| {
                p.client.send_delay_ns = Percentiles { p99: Some(p99), p99_9: Some(p99_9), ..Default::default() };
                p.all.response_ns =
                    Some(Percentiles { p99: Some(4_000_000), p99_9: Some(300_000_000), ..Default::default() });
                p.limits = vec![LimitResult { limit: limit_ns, share_within: Some(1.0), ..Default::default() }];
            })
        };
        assert_eq!(severity(&with(200e6, 3_000_000, 0), "send-delay"), CAUTION);
        assert_eq!(severity(&with(20e6, 3_000_000, 0), "send-delay"), INVALID);
        assert_eq!(severity(&with(20e6, 1_000, 240_000_000), "send-delay"), CAUTION);
    }
}
