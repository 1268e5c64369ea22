//! `send-delay`: did the client send late although it could have sent?

use crate::Percentiles;
use crate::human::{duration, percent};
use crate::own_delay::{self, OWN, Percentile, SHOWN};
use crate::times::of_answers;
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check =
    Check::new("send-delay", "the client sent late", &[Looks::Phase(look)]).of_each_client();

/// A delay below this, in ns, is not a finding, however large its share of the response time.
pub(super) const LEAST_NS: f64 = 50e3;
/// From this delay, in ns, and from this share of the response time, both at p99, the phase may be invalid.
pub(super) const MUCH_NS: f64 = 2e6;
pub(super) const MUCH: f64 = 0.50;
/// Below this share of the phase's strictest limit on a time, the send delay cannot decide whether the limit is met.
pub(super) const OF_LIMIT: f64 = 0.10;

type Pick = fn(&Percentiles) -> Option<u64>;
/// In the order of the percentiles that are shown.
const TIMES: [Pick; SHOWN.len()] = [|of| of.p50, |of| of.p99, |of| of.p99_9];

/// Whether the client sent late although the in-flight limit was not reached. That is the client's fault.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    scene.phase.rate.as_ref()?;
    let (delay, response) = (&scene.phase.client.send_delay_ns, scene.phase.all.response_ns?);
    let mut client = scene.phase.client.clone();
    // What did not run at all is found by `client-saturated`.
    client.stopped_ns = Percentiles::default();
    let shares = own_delay::own_delay(&scene.phase.all, &client);
    let times = scene.phase.limits.iter().filter(|limit| limit.share_within.is_some()).map(|limit| limit.limit);
    let strictest = times.reduce(f64::min);
    let of = of_answers(&scene.phase.all);
    let at = |((name, share), time): (&Percentile, &Pick)| {
        let (delay, response, share) = (time(delay)? as f64, time(&response)? as f64, share(&shares)?);
        let touches_limits = strictest.is_none_or(|strictest| delay >= OF_LIMIT * strictest);
        let severity = match share {
            _ if delay < LEAST_NS => Severity::Pass,
            _ if *name == "p99" && delay >= MUCH_NS && share >= MUCH && touches_limits => Severity::Invalid,
            _ if share > OWN => Severity::Caution,
            _ => Severity::Pass,
        };
        let observed = format!(
            "send delay {name} {}; the client's own delay is {} of the response {name} of {}{of}",
            duration(delay),
            percent(share),
            duration(response)
        );
        Some((severity, observed))
    };
    let mut found: Vec<(Severity, String)> = SHOWN.iter().zip(&TIMES).filter_map(at).collect();
    // Of equals the first, except that the p99 stands for all if nothing is found.
    let worst = found.iter().map(|(severity, _)| *severity).max()?;
    let shown = match worst {
        Severity::Pass => found.len().min(2) - 1,
        _ => found.iter().position(|(severity, _)| *severity == worst)?,
    };
    let (severity, observed) = found.swap_remove(shown);
    Some(Finding::new(
        severity,
        observed,
        format!(
            "caution from {} and above {} of the response; invalid from {} and {} at p99",
            duration(LEAST_NS),
            percent(OWN),
            duration(MUCH_NS),
            percent(MUCH)
        ),
        "the client sent late although the in-flight limit was not reached: use pacing = \"precise\", fewer workers than processors or a lower rate, and stop other programs",
    ).weighing(shares.p99.unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, INVALID, PASS, all, closed, open, severity};
    use crate::{LimitResult, Percentiles};

    /// Response times at p99 that consist of a send delay and a service time.
    fn times(delay: u64, service: u64) -> (Percentiles, Percentiles, Percentiles) {
        let p99 = |ns| Percentiles { p99: Some(ns), ..Percentiles::default() };
        (p99(delay), p99(service), p99(delay + service))
    }

    #[test]
    fn send_delay() {
        for (delay, service, expected) in [
            (49_999, 1, PASS),
            (50_000, 450_000, PASS),
            (50_001, 450_000, CAUTION),
            (1_000_000, 9_000_000, PASS),
            (1_000_001, 9_000_000, CAUTION),
            (1_999_999, 1, CAUTION),
            (2_000_000, 2_000_001, CAUTION),
            (2_000_000, 2_000_000, INVALID),
        ] {
            let result = open(|p| {
                (p.client.send_delay_ns, p.all.service_ns) = (times(delay, service).0, times(delay, service).1);
                (p.all.response_ns, p.all.client_queueing_ns) = (Some(times(delay, service).2), None);
                (p.all.response_of_attempts_ns, p.all.service_of_attempts_ns) = (None, None);
            });
            assert_eq!(severity(&result, "send-delay"), expected, "{delay} and {service}");
        }
        assert_eq!(severity(&closed(|_| ()), "send-delay"), None);
    }

    /// The operations that were sent late are not those that were slow.
    #[test]
    fn a_delay_that_does_not_reach_the_response_time_is_none() {
        let result = open(|p| {
            let (delay, service, _) = times(1_000_000, 9_000_000);
            (p.client.send_delay_ns, p.all.service_ns, p.all.response_ns) = (delay, service, Some(service));
            (p.all.response_of_attempts_ns, p.all.service_of_attempts_ns) = (None, None);
        });
        let found = all(&result, "send-delay").pop().unwrap();
        assert_eq!(
            found.observed,
            "send delay p99 1.00 ms; the client's own delay is 0 % of the response p99 of 9.00 ms"
        );
    }

    #[test]
    fn a_limit_that_is_far_away_is_not_touched_and_a_tail_is_seen() {
        let with = |limit_ns: f64, p99: u64, p99_9: u64| {
            open(|p| {
                p.client.send_delay_ns = Percentiles { p99: Some(p99), p99_9: Some(p99_9), ..Default::default() };
                p.all.response_ns =
                    Some(Percentiles { p99: Some(4_000_000), p99_9: Some(300_000_000), ..Default::default() });
                p.all.service_ns = Percentiles { p99: Some(1_000_000), p99_9: Some(60_000_000), ..Default::default() };
                (p.all.response_of_attempts_ns, p.all.service_of_attempts_ns) = (None, None);
                p.all.client_queueing_ns = None;
                p.limits = vec![LimitResult { limit: limit_ns, share_within: Some(1.0), ..Default::default() }];
            })
        };
        assert_eq!(severity(&with(200e6, 3_000_000, 0), "send-delay"), CAUTION);
        assert_eq!(severity(&with(20e6, 3_000_000, 0), "send-delay"), INVALID);
        assert_eq!(severity(&with(20e6, 1_000, 240_000_000), "send-delay"), CAUTION);
    }
}
