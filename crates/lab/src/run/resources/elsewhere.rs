//! Metrics of other machines and stores over a phase, in the Prometheus text format.

use storebench_machine::HostMetrics;
use storebench_results::ElsewhereResult;

/// The metrics of an endpoint at one moment; `None` if it did not answer.
pub(in crate::run) type EndpointSample = Option<HostMetrics>;

/// Summarizes the samples of an endpoint, each with its time in ns. `failed` and `message` are left to the caller.
pub(super) fn sum(url: &str, told: impl Iterator<Item = (u64, EndpointSample)> + Clone) -> ElsewhereResult {
    let answers = || told.clone().filter_map(|(at_ns, told)| Some((at_ns, told?)));
    let mut out =
        ElsewhereResult { url: url.to_owned(), answers: answers().count() as u64, ..ElsewhereResult::default() };
    let (Some((from_ns, first)), Some((to_ns, last))) = (answers().next(), answers().last()) else { return out };
    out.span_ns = to_ns.saturating_sub(from_ns);
    type Pick = fn(&HostMetrics) -> Option<f64>;
    // A counter that was reset is useless.
    let grown = |pick: Pick| pick(&last).zip(pick(&first)).map(|(to, from)| to - from).filter(|n| *n >= 0.0);
    let most = |pick: Pick| answers().filter_map(|(_, told)| pick(&told)).reduce(f64::max);
    let parts: [Pick; 4] = [|m| m.cpu_busy_s, |m| m.cpu_idle_s, |m| m.cpu_iowait_s, |m| m.cpu_steal_s];
    let all: f64 = parts.iter().filter_map(|part| grown(*part)).sum();
    let of_processors = |pick: Pick| grown(pick).filter(|_| all > 0.0).map(|part| part / all);
    let of_time = |pick: Pick| {
        let span = out.span_ns as f64 / 1e9;
        grown(pick).filter(|_| span > 0.0).map(|part| (part / span).min(1.0))
    };
    out.cpu_busy_share = of_processors(|m| m.cpu_busy_s);
    out.disk_wait_share = of_processors(|m| m.cpu_iowait_s);
    out.memory_pressure_share = of_time(|m| m.memory_waiting_s);
    out.disk_pressure_share = of_time(|m| m.io_waiting_s);
    out.available_min_bytes = answers().filter_map(|(_, told)| told.memory_available_bytes).reduce(f64::min);
    out.disk_read_bytes = grown(|m| m.disk_read_bytes);
    out.disk_write_bytes = grown(|m| m.disk_written_bytes);
    out.network_received_bytes = grown(|m| m.network_received_bytes);
    out.network_sent_bytes = grown(|m| m.network_sent_bytes);
    out.process_cpu_s = grown(|m| m.process_cpu_s);
    out.process_rss_max_bytes = most(|m| m.process_resident_bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_of_the_time_between_the_first_answer_and_the_last() {
        let told = |busy: f64, idle: f64, available: f64, rss: f64| {
            Some(HostMetrics {
                cpu_busy_s: Some(busy),
                cpu_idle_s: Some(idle),
                memory_available_bytes: Some(available),
                process_resident_bytes: Some(rss),
                process_cpu_s: Some(busy),
                io_waiting_s: Some(busy / 2.0),
                ..HostMetrics::default()
            })
        };
        let all = [
            (0, None),
            (1_000_000_000, told(10.0, 10.0, 9.0, 1.0)),
            (5_000_000_000, told(13.0, 11.0, 7.0, 5.0)),
            (6, None),
        ];
        let found = sum("http://x", all.into_iter());
        assert_eq!((found.answers, found.span_ns), (2, 4_000_000_000));
        assert_eq!((found.cpu_busy_share, found.disk_pressure_share), (Some(0.75), Some(0.375)));
        assert_eq!((found.available_min_bytes, found.process_rss_max_bytes), (Some(7.0), Some(5.0)));
        assert_eq!((found.process_cpu_s, found.disk_write_bytes), (Some(3.0), None));
        // It was restarted meanwhile.
        let restarted = [(0, told(10.0, 10.0, 9.0, 1.0)), (1, told(1.0, 1.0, 9.0, 1.0))];
        assert_eq!(sum("http://x", restarted.into_iter()).process_cpu_s, None);
        assert_eq!(sum("http://x", [(0, None)].into_iter()).answers, 0);
    }
}
