//! `too-few-connections`: did scheduled operations wait because the in-flight limit was reached?

use crate::human::{count, duration, percent};
use crate::in_flight::FULL;
use crate::own_delay::OWN;
use crate::times::of_answers;
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check =
    Check::new("too-few-connections", "there were too few connections for the rate", &[Looks::Phase(look)])
        .for_the_answer();

/// Client queueing below this, in ns, is not a finding.
pub(super) const LEAST_NS: f64 = 1e6;
/// Share of the in-flight limit in use from which it counts as reached.
pub(super) const BUSY: f64 = 0.50;
/// For this check, a rate that is sustained to this share counts as sustained.
pub(super) const NEARLY_SUSTAINED: f64 = 0.95;

/// Whether scheduled operations waited in the client while the store had no trouble with the rate.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let rate = scene.phase.rate.as_ref()?;
    let wait = scene.phase.all.client_queueing_ns?.p99? as f64;
    let response = scene.phase.all.response_ns?.p99? as f64;
    let waits = wait >= LEAST_NS && wait > OWN * response;
    let sustained = rate.sustained_share >= NEARLY_SUSTAINED;
    let busy = scene.phase.in_flight_share;
    let (severity, advice) = match (waits, sustained, busy >= BUSY) {
        // A rate that is not sustained reaches any in-flight limit in the end, which does not show whose fault it is.
        (true, false, _) if busy >= FULL => (
            Severity::Note,
            "the rate was not sustained and the in-flight limit was reached: raise `connections` or `in_flight` to see which of the two, store or limit, was the bottleneck",
        ),
        (false, ..) | (_, false, _) => (Severity::Pass, ""),
        (true, true, true) => (
            Severity::Caution,
            "operations waited in the client: raise `connections` or `in_flight`; if they still wait, the store is the cause",
        ),
        // A limit that is mostly not reached is not too low: something used all of it for a while.
        (true, true, false) => (
            Severity::Note,
            "the in-flight limit was mostly not reached, so the store stalled or arrivals came in bursts: look at the slowest intervals",
        ),
    };
    let limit = f64::from(scene.phase.workers) * f64::from(scene.phase.connections) * f64::from(scene.phase.in_flight);
    Some(Finding::new(
        severity,
        format!(
            "client queueing p99 {} of a response p99 of {}{}; in-flight limit {}, {} of it in use",
            duration(wait),
            duration(response),
            of_answers(&scene.phase.all),
            count(limit as u64),
            percent(busy)
        ),
        format!(
            "caution from 1 ms and above {} of the response p99 if the rate is sustained and {} of the in-flight limit is in use, otherwise note",
            percent(OWN),
            percent(BUSY)
        ),
        advice,
    ).weighing(wait / response))
}

#[cfg(test)]
mod tests {
    use crate::Percentiles;
    use crate::validity::testing::{CAUTION, NOTE, PASS, closed, open, severity};

    #[test]
    fn too_few_connections() {
        for (wait_ns, sustained, busy, expected) in [
            (999_999, 1.0, 1.0, PASS),
            (1_000_000, 1.0, 0.5, CAUTION),
            (1_000_000, 1.0, 0.49, NOTE),
            (1_000_000, 0.95, 1.0, CAUTION),
            (1_000_000, 0.94, 0.89, PASS),
            (1_000_000, 0.94, 0.90, NOTE),
        ] {
            let result = open(|p| {
                p.in_flight_share = busy;
                p.all.client_queueing_ns = Some(Percentiles { p99: Some(wait_ns), ..Default::default() });
                p.all.response_ns = Some(Percentiles { p99: Some(2_000_000), ..Default::default() });
                p.rate.as_mut().unwrap().sustained_share = sustained;
            });
            assert_eq!(severity(&result, "too-few-connections"), expected, "{wait_ns} {sustained} {busy}");
        }
        assert_eq!(severity(&closed(|_| ()), "too-few-connections"), None);
        let small = open(|p| {
            p.in_flight_share = 1.0;
            p.all.client_queueing_ns = Some(Percentiles { p99: Some(1_000_000), ..Default::default() });
            p.all.response_ns = Some(Percentiles { p99: Some(10_000_000), ..Default::default() });
        });
        assert_eq!(severity(&small, "too-few-connections"), PASS);
    }
}
