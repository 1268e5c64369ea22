//! How much of each percentile is the client's own delay.
//!
//! The client delays an operation in two ways that are its own fault:
//! - It sends late, although the in-flight limit was not reached (open loop). Without the send delay, the response time
//!   of an operation is its service time and the time it waited because the limit was reached.
//! - It does not run while an answer is there, or while something is to be sent, because the process is stopped,
//!   throttled or crowded out. A thread that only sleeps tells when.
//!
//! Both delays can be the same one, so the larger counts. Time that an operation waited because the in-flight limit was
//! reached is looked at by the check `too-few-connections`, because it may be the store's.

use storebench_engine::measure::{ResourceSample, SAMPLE_EVERY};

use crate::{AllOps, ClientUse, OwnDelay};

/// Lateness of a thread that only sleeps below this, in ns, is normal timer inaccuracy.
pub(crate) const ORDINARY_LATENESS_NS: u64 = 5_000_000;

/// A share of a percentile above which the percentile is not the store's alone.
pub(crate) const OWN: f64 = 0.10;

/// How far an estimated delay may exceed the percentile that contains it.
const TOLERANCE: f64 = 1.1;

/// A percentile, and how to get it.
pub(crate) type Percentile = (&'static str, fn(&OwnDelay) -> Option<f64>);

/// The percentiles that results stand by. The others tell how far a delay reaches.
pub(crate) const SHOWN: [Percentile; 3] = [("p50", |of| of.p50), ("p99", |of| of.p99), ("p99.9", |of| of.p99_9)];

/// The share of each percentile that is the client's own delay, from 0 to 1: of the response time, or in closed loop of
/// the service time. `None` for percentiles that are unknown.
pub fn own_delay(all: &AllOps, client: &ClientUse) -> OwnDelay {
    let (late, stopped) = (&client.send_delay_ns, &client.stopped_ns);
    // Attempts that failed or were not answered are in both, or in neither.
    let (response, service) = match (&all.response_of_attempts_ns, &all.service_of_attempts_ns) {
        (Some(response), Some(service)) => (Some(*response), *service),
        _ => (all.response_ns, all.service_ns),
    };
    let queueing = all.client_queueing_ns.unwrap_or_default();
    let share = |pick: fn(&crate::Percentiles) -> Option<u64>| {
        let at = |of: &crate::Percentiles| pick(of).map(|ns| ns as f64);
        let (figure, service) = (at(response.as_ref().unwrap_or(&service))?, at(&service)?);
        let (late, queued) = (at(late).unwrap_or(0.0), at(&queueing).unwrap_or(0.0));
        // What is not service is the client's, or the in-flight limit's.
        let of_client = if late + queued > 0.0 { late / (late + queued) } else { 0.0 };
        let sent_late = ((figure - service).max(0.0) * of_client).min(late);
        // A percentile is never below what delays as many operations. If it is, other threads did run.
        let stopped = at(stopped).filter(|stopped| *stopped <= figure * TOLERANCE).unwrap_or(0.0);
        (figure > 0.0).then(|| (sent_late.max(stopped) / figure).min(1.0))
    };
    OwnDelay {
        p50: share(|of| of.p50),
        p90: share(|of| of.p90),
        p95: share(|of| of.p95),
        p99: share(|of| of.p99),
        p99_9: share(|of| of.p99_9),
    }
}

/// What decides how many operations a stop of the client delays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Load {
    /// Operations are scheduled at all times.
    Open,
    /// Those in flight are delayed, and no others are sent meanwhile: the in-flight limit, and how many operations there
    /// were.
    Closed { limit: f64, operations: f64 },
}

/// How long an operation of the phase was delayed because the process did not run, in ns, at a quantile. `None` without
/// samples.
///
/// The thread that only sleeps wakes at moments that the scheduler does not know of. A lateness shorter than its period
/// is thus what any moment of the phase sees, as often as it is found among the samples. A longer one is a stop, seen
/// once, that began at most a period before.
pub(crate) fn stopped_at(samples: &[ResourceSample], elapsed_ns: u64, load: Load, quantile: f64) -> Option<u64> {
    if samples.len() < 2 || elapsed_ns == 0 {
        return None;
    }
    let stops: Vec<f64> =
        samples.iter().map(|s| s.lateness_ns).filter(|ns| *ns >= ORDINARY_LATENESS_NS).map(|ns| ns as f64).collect();
    let every = SAMPLE_EVERY.as_nanos() as f64;
    // The time that a sample stands for.
    let of_sample = elapsed_ns as f64 / samples.len() as f64;
    // How much is delayed by more than this: time in an open loop, operations in a closed one.
    let beyond = |delay: f64| -> f64 {
        let of = |late: f64| match load {
            Load::Open if late < every => {
                if late > delay {
                    of_sample
                } else {
                    0.0
                }
            }
            // An operation sees what is left of the stop when it is scheduled.
            Load::Open => (late + every / 2.0 - delay).max(0.0),
            Load::Closed { .. } if late <= delay => 0.0,
            Load::Closed { limit, .. } => limit * (of_sample / late).max(1.0),
        };
        stops.iter().copied().map(of).sum()
    };
    let all = match load {
        Load::Open => elapsed_ns as f64,
        Load::Closed { operations, .. } => operations,
    };
    let rest = (1.0 - quantile) * all;
    if beyond(0.0) <= rest {
        return Some(0);
    }
    let (mut low, mut high) = (0.0, stops.iter().copied().fold(0.0, f64::max) + every);
    while high - low > 1e3 {
        let middle = f64::midpoint(low, high);
        if beyond(middle) > rest { low = middle } else { high = middle }
    }
    Some(low as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Percentiles;

    const SECOND: u64 = 1_000_000_000;

    fn samples(late: &[u64], ordinary: usize) -> Vec<ResourceSample> {
        let late = late.iter().copied().chain(std::iter::repeat_n(60_000, ordinary));
        late.map(|lateness_ns| ResourceSample { lateness_ns, ..ResourceSample::default() }).collect()
    }

    /// Within 1 %, or 50 µs.
    #[track_caller]
    fn near(found: Option<u64>, expected: f64) {
        let found = found.unwrap() as f64;
        assert!((found - expected).abs() <= (expected * 0.01).max(50e3), "{found}, expected {expected}");
    }

    #[test]
    fn what_an_operation_sees_of_stops() {
        // A stop of a tenth of the time delays a tenth of the operations, on average by half of it.
        let one = samples(&[SECOND], 500);
        let open =
            |samples: &[ResourceSample], elapsed_ns, quantile| stopped_at(samples, elapsed_ns, Load::Open, quantile);
        near(open(&one, 10 * SECOND, 0.5), 0.0);
        near(open(&one, 10 * SECOND, 0.95), 0.5085e9);
        near(open(&one, 10 * SECOND, 0.99), 0.9085e9);
        // Short waits, as often as they are seen.
        let short = samples(&[6_000_000; 20], 980);
        near(open(&short, 17 * SECOND, 0.979), 0.0);
        near(open(&short, 17 * SECOND, 0.99), 6e6);
        near(open(&samples(&[10_000_000; 600], 400), 23 * SECOND, 0.5), 10e6);
        // 45 of each 50 ms.
        let starved = samples(&[45_000_000; 100], 0);
        assert!(open(&starved, 5 * SECOND, 0.5).unwrap() > 20_000_000);
        assert_eq!(open(&samples(&[], 500), SECOND, 0.99), Some(0));
        assert_eq!(open(&[], SECOND, 0.99), None);
    }

    /// In a closed loop a stop delays what is in flight, and nothing else is sent meanwhile.
    #[test]
    fn a_stop_in_a_closed_loop_delays_few_operations() {
        let one = samples(&[SECOND / 2], 700);
        let load = |operations| Load::Closed { limit: 4.0, operations };
        assert_eq!(stopped_at(&one, 12 * SECOND, load(240_000.0), 0.999), Some(0));
        near(stopped_at(&one, 12 * SECOND, load(240_000.0), 0.99999), 0.5e9);
        // A slow store, of whose operations one in a hundred is delayed.
        near(stopped_at(&one, 12 * SECOND, load(300.0), 0.99), 0.5e9);
        assert_eq!(stopped_at(&one, 12 * SECOND, load(500.0), 0.99), Some(0));
    }

    fn times(p50: u64, p99: u64) -> Percentiles {
        Percentiles { p50: Some(p50), p99: Some(p99), ..Percentiles::default() }
    }

    #[test]
    fn shares_of_response_and_service_times() {
        let mut client = ClientUse { send_delay_ns: times(60, 100), ..ClientUse::default() };
        let mut all = AllOps {
            response_ns: Some(times(100, 1_000)),
            service_ns: times(40, 900),
            client_queueing_ns: Some(times(0, 0)),
            ..AllOps::default()
        };
        let found = own_delay(&all, &client);
        assert_eq!((found.p50, found.p99, found.p90), (Some(0.6), Some(0.1), None));
        // Operations that were sent late are not the slow ones.
        all.service_ns = times(40, 1_000);
        assert_eq!(own_delay(&all, &client).p99, Some(0.0));
        // The in-flight limit made them wait for seven times as long.
        all.service_ns = times(40, 200);
        all.client_queueing_ns = Some(times(0, 700));
        assert_eq!(own_delay(&all, &client).p99, Some(0.1));
        all.service_ns = times(40, 600);
        assert_eq!(own_delay(&all, &client).p99, Some(0.05));
        // A stop is longer.
        client.stopped_ns = times(0, 500);
        assert_eq!(own_delay(&all, &client).p99, Some(0.5));
        all.response_ns = None;
        client.send_delay_ns = Percentiles::default();
        let found = own_delay(&all, &client);
        assert_eq!((found.p50, found.p99), (Some(0.0), Some(500.0 / 600.0)));
        // Longer than the percentile: the operations were not delayed by it.
        client.stopped_ns = times(0, 5_000);
        assert_eq!(own_delay(&all, &client).p99, Some(0.0));
    }
}
