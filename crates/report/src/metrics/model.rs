//! The metrics and what a snapshot of them holds. Every renderer reads this, and nothing else.

use hdrhistogram::Histogram;

/// How the values of a metric behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A sum that only grows during a run.
    Counter,
    /// A value at one moment.
    Gauge,
    /// Times by [`BOUNDS_NS`], which only grow during a run.
    Histogram,
}

impl Kind {
    /// Its name in the text format.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric, named as Prometheus recommends: base units, and `_total` for counters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// In UCUM, as OpenTelemetry writes it; empty if it has none. Prometheus adds it to a pushed name that does not
    /// contain it: `_ratio` to a gauge of the unit `1`.
    pub(super) unit: &'static str,
    pub(super) help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident $kind:ident $name:literal $unit:literal $help:literal;)*) => {
        $(pub(super) const $constant: &Metric =
            &Metric { name: $name, kind: Kind::$kind, unit: $unit, help: $help };)*
        /// All of them.
        #[cfg(test)]
        pub(super) const ALL: &[&Metric] = &[$($constant),*];
    };
}

metrics! {
    OPERATIONS Counter "storebench_operations_total" "{operation}"
        "Operations that ended or were given up, each with one outcome.";
    RETRIES Counter "storebench_retries_total" "{retry}"
        "Retries after temporary failures, and of transactions that the store undid.";
    DOCUMENTS Counter "storebench_documents_total" "{document}" "Documents written, read or found.";
    REFUSED Counter "storebench_refused_documents_total" "{document}"
        "Documents of bulk operations that were refused while others of the same operation were not.";
    WRITTEN Counter "storebench_written_bytes_total" "By" "Bytes of keys and documents sent with writes.";
    READ Counter "storebench_read_bytes_total" "By" "Bytes of documents read.";
    RESPONSE Histogram "storebench_response_time_seconds" "s"
        "Open loop: from the scheduled start to the end, of successes and misses; unfinished operations at their age.";
    SERVICE Histogram "storebench_service_time_seconds" "s" "From the send to the end, of successes and misses.";
    IN_FLIGHT Gauge "storebench_in_flight" "{operation}" "Operations that were sent and not answered.";
    BEHIND Gauge "storebench_behind_schedule_seconds" "s"
        "Open loop: how long ago the next operation was scheduled, of the worker that is furthest behind.";
    DISCONNECTS Counter "storebench_disconnects_total" "{disconnect}" "Connections that were lost.";
    COPIED Counter "storebench_copied_documents_total" "{document}" "Documents that a copy wrote.";
    COPIED_BYTES Counter "storebench_copied_bytes_total" "By" "Bytes of keys and documents that a copy wrote.";
    REJECTED Counter "storebench_rejected_records_total" "{record}" "Records that a copy rejected.";
    PHASE Gauge "storebench_phase_info" "" "The phase that runs now: always 1.";
    CLIENT_CPU Counter "storebench_client_cpu_seconds_total" "s" "Processor time of Storebench, user and system.";
    CLIENT_MEMORY Gauge "storebench_client_memory_bytes" "By" "Resident memory of Storebench.";
    STORE_CPU Counter "storebench_store_cpu_seconds_total" "s"
        "Processor time of the store's processes on this machine, during phases.";
    STORE_MEMORY Gauge "storebench_store_memory_bytes" "By"
        "Resident memory of the store's processes on this machine; shared memory counts for each.";
}

/// Labels with their values. An empty value is as no label.
pub(super) type Labels = Vec<(&'static str, String)>;

/// One series at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) labels: Labels,
    pub(super) value: Value,
}

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(f64),
    /// From [`times`].
    Times(Vec<u128>),
}

/// All metrics at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Snapshot {
    /// What is run: the study's name, or `bench` or `copy`.
    pub(super) study: String,
    /// The name of the run's folder; empty if it is not kept.
    pub(super) run: String,
    /// When counting began, in ns since 1970.
    pub(super) began_unix_ns: u64,
    /// When the snapshot was taken.
    pub(super) at_unix_ns: u64,
    /// Metrics that are known, each with its series.
    pub(super) metrics: Vec<(&'static Metric, Vec<Point>)>,
}

/// The upper bounds of a histogram's buckets, in ns: 1, 1.5, 2, 3, 5 and 7 in each decade from 1 µs to 70 s. A quantile
/// that is interpolated between two of them is wrong by less than the factor between them, 1.67.
pub(super) const BOUNDS_NS: [u64; 48] = bounds();

const fn bounds() -> [u64; 48] {
    let (mut bounds, mut at) = ([0; 48], 0);
    while at < 48 {
        bounds[at] = [10, 15, 20, 30, 50, 70][at % 6] * 100 * 10_u64.pow(at as u32 / 6);
        at += 1;
    }
    bounds
}

/// Length of what [`times`] returns: the buckets, one for longer times, and the sum.
pub(super) const TIMES: usize = BOUNDS_NS.len() + 2;

/// The counts of times by [`BOUNDS_NS`], then of longer ones, then the sum of all in ns.
///
/// Counts are exact sums of the histogram's counts. Its own buckets are 0.1 % wide at most; one that contains a bound
/// counts as longer than the bound, so no time is shown shorter than it was.
pub(super) fn times(of: &Histogram<u64>) -> Vec<u128> {
    let mut found = vec![0; TIMES];
    for step in of.iter_recorded() {
        let (value_ns, count) = (step.value_iterated_to(), u128::from(step.count_at_value()));
        found[BOUNDS_NS.partition_point(|bound| *bound < of.highest_equivalent(value_ns))] += count;
        found[TIMES - 1] += count * u128::from(of.median_equivalent(value_ns));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use storebench_engine::measure::{histogram, record};

    #[test]
    fn times_are_counted_by_bounds() {
        assert_eq!((BOUNDS_NS[0], BOUNDS_NS[1], BOUNDS_NS[6], BOUNDS_NS[47]), (1_000, 1_500, 10_000, 70_000_000_000));
        assert!(BOUNDS_NS.windows(2).all(|pair| pair[0] < pair[1]));
        let mut recorded = histogram();
        for ns in [1, 1_000, 1_001, 4_000_000, 4_000_000, 3_600_000_000_000] {
            record(&mut recorded, ns);
        }
        let found = times(&recorded);
        // 4 ms is between 3 and 5 ms, an hour is longer than every bound.
        let counted: Vec<(usize, u128)> =
            found[..TIMES - 1].iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(0, 2), (1, 1), (22, 2), (48, 1)]);
        let sum = found[TIMES - 1] as f64;
        assert!((sum / 3_600_008_002_002.0 - 1.0).abs() < 0.001, "{sum}");
    }

    /// What a histogram cannot tell from a longer time counts as longer than the bound.
    #[test]
    fn no_time_is_shown_shorter_than_it_was() {
        for bound in BOUNDS_NS {
            for ns in [bound - bound / 5_000, bound, bound + 1] {
                let mut recorded = histogram();
                record(&mut recorded, ns);
                let at = times(&recorded).iter().position(|count| *count > 0).unwrap();
                assert!(ns <= bound || BOUNDS_NS.get(at).is_none_or(|at| *at > bound), "{ns} ns is within {bound} ns");
                assert!(BOUNDS_NS.get(at).is_none_or(|at| ns <= *at), "{ns} ns");
            }
        }
    }

    #[test]
    fn names_are_as_prometheus_recommends() {
        for Metric { name, kind, unit, help } in ALL {
            assert!(name.starts_with("storebench_") && help.ends_with('.'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            assert_eq!(base.ends_with("_seconds"), *unit == "s", "{name}");
            assert_eq!(base.ends_with("_bytes"), *unit == "By", "{name}");
        }
    }
}
