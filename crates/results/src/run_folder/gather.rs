//! Turns the record of a phase into its result.

use hdrhistogram::Histogram;
use indexmap::IndexMap;
use storebench_documents::Compression;
use storebench_engine::measure::{Interval, Label, PhaseRecord, ResourceSample, Tally, WorkerUse};
use storebench_engine::store::{Capabilities, ErrorKind};

use crate::own_delay::{Load, ORDINARY_LATENESS_NS, own_delay, stopped_at};
use crate::stats::{Steadiness, steadiness};

use super::attempts::{self, merged};
use super::model::CollectionResult;
use super::operations::OpResult;
use super::phase::{AllOps, ClientUse, Guarantee, Message, Percentiles, PhaseDocuments, PhaseResult, RateResult};

impl Percentiles {
    /// Reads them from a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            mean: Some(histogram.mean()),
            min: Some(histogram.min()),
            max: Some(histogram.max()),
            ..Self::at(histogram.len(), |quantile| Some(histogram.value_at_quantile(quantile)))
        }
    }

    /// The percentiles of `count` values, from their quantiles.
    pub(super) fn at(count: u64, at: impl Fn(f64) -> Option<u64>) -> Self {
        let (p50, p90, p95, p99) = (at(0.5), at(0.9), at(0.95), at(0.99));
        Self { count, p50, p90, p95, p99, p99_9: at(0.999), p99_99: at(0.9999), ..Self::default() }
    }
}

/// Gathers the result of a phase as far as its record allows; the caller adds the rest. `documents` are those of the
/// study, in its order. `calibrated_ns_per_op` is the client's CPU time per operation on the null store, by label, for
/// embedded stores.
pub fn gather_phase(
    record: &PhaseRecord,
    documents: &[CollectionResult],
    capabilities: &Capabilities,
    calibrated_ns_per_op: Option<&[f64]>,
) -> PhaseResult {
    let consistency = capabilities.consistency.iter().find(|(c, _)| *c == record.consistency);
    let isolations = &capabilities.transactions.isolation;
    let isolation = isolations.iter().find(|(isolation, _)| Some(*isolation) == record.isolation);
    let guarantee =
        |name: String, means: Option<&str>| Guarantee { name, means: means.map(str::to_owned), asked: None };
    let open = record.scheduled.is_some();
    let name_of =
        |position: usize| documents.get(position).map_or_else(|| format!("#{position}"), |c| c.collection.clone());
    let over_ns = answering_ns(record);
    let mut ops = IndexMap::new();
    for (label, tally) in record.labels.iter().zip(&record.total.ops) {
        let mut name = label.name.clone();
        for n in 2.. {
            if !ops.contains_key(&name) {
                break;
            }
            name = format!("{}-{n}", label.name);
        }
        ops.insert(name, gather_op(label, tally, over_ns, open, name_of(label.collection)));
    }
    let client = gather_client(record, capabilities.embedded, calibrated_ns_per_op);
    let mut all = AllOps {
        response_ns: open.then(|| Percentiles::of(&merged(&record.total.ops, |t| &t.response))),
        response_of_attempts_ns: open.then(|| attempts::of_all(record, Tally::answered)).flatten(),
        service_ns: Percentiles::of(&merged(&record.total.ops, |t| &t.service)),
        service_of_attempts_ns: attempts::of_all(record, |t| &t.service),
        client_queueing_ns: open.then(|| Percentiles::of(&merged(&record.total.ops, |t| &t.client_queueing))),
        ..AllOps::default()
    };
    all.own_delay_share = own_delay(&all, &client);
    PhaseResult {
        name: record.name.clone(),
        loads: record.loads,
        warm_up: record.warm_up,
        began: rfc3339(record.began_unix_ns),
        sending_ns: record.sending_ns,
        elapsed_ns: record.elapsed_ns,
        workers: record.workers,
        connections: record.connections,
        in_flight: record.in_flight,
        sessions: record.sessions(),
        in_flight_limit: record.sessions().saturating_mul(record.in_flight.into()),
        connection_events: record.total.connections,
        in_flight_share: in_flight_share(record),
        durability: guarantee(record.durability.to_string(), capabilities.guarantees(record.durability)),
        consistency: guarantee(record.consistency.to_string(), consistency.map(|(_, text)| *text)),
        isolation: record.isolation.map(|name| guarantee(name.to_string(), isolation.map(|(_, text)| *text))),
        rate: record.scheduled.map(|scheduled| gather_rate(record, scheduled)),
        ops,
        all,
        client,
        documents: gather_documents(record, documents, name_of),
        intervals: record.intervals.len() as u64,
        course_per_s: course(record),
        messages: record.messages.iter().map(|(m, n)| Message { message: m.clone(), count: *n }).collect(),
        wrong_examples: record.wrong_examples.clone(),
        ledger: record.ledger.clone(),
        partial: record.partial.as_ref().map(|p| p.why.clone()),
        store_stats: super::store_figures::gather(&record.store_stats),
        unknown_outcomes: record.unknown_outcomes(),
        steadiness: steadiness_of(record, |i| Some(per_second(i.record().answers(), length(i)))),
        response_steadiness: open.then(|| steadiness_of(record, median_response_ns)).flatten(),
        ..PhaseResult::default()
    }
}

/// Whether a figure stayed level over the intervals. A short last interval is left out.
fn steadiness_of(record: &PhaseRecord, of: impl Fn(&Interval) -> Option<f64>) -> Option<Steadiness> {
    let sent = || record.intervals.iter().filter(|i| i.to_ns <= record.sending_ns);
    let longest_ns = sent().map(length).max()?;
    let whole = sent().filter(|i| length(i) >= longest_ns / 10 * 9);
    steadiness(&whole.map(of).collect::<Vec<_>>())
}

/// The most parts in the course of a phase.
const COURSE: usize = 40;
/// The fewest intervals that make a course.
const FEWEST_FOR_COURSE: usize = 3;

/// Answers per second in parts of a phase, each of whole intervals. Counts are divided by times, so that no averages
/// are averaged. A short last part is merged into the one before it.
fn course(record: &PhaseRecord) -> Vec<f64> {
    let intervals: Vec<(u64, u64)> = record.intervals.iter().map(|i| (i.record().answers(), length(i))).collect();
    if intervals.len() < FEWEST_FOR_COURSE {
        return Vec::new();
    }
    let together = intervals.len().div_ceil(COURSE);
    let mut parts: Vec<(u64, u64)> =
        intervals.chunks(together).map(|part| part.iter().fold((0, 0), |sum, i| (sum.0 + i.0, sum.1 + i.1))).collect();
    if let [.., before, last] = &mut parts[..]
        && last.1 * 2 < before.1
    {
        *before = (before.0 + last.0, before.1 + last.1);
        parts.pop();
    }
    parts.into_iter().map(|(count, ns)| per_second(count, ns)).collect()
}

fn length(interval: &Interval) -> u64 {
    interval.to_ns.saturating_sub(interval.from_ns)
}

fn median_response_ns(interval: &Interval) -> Option<f64> {
    let seen = interval.record();
    let all = merged(&seen.ops, |tally| &tally.response);
    (!all.is_empty()).then(|| all.value_at_quantile(0.5) as f64)
}

/// RFC 3339 in UTC from ns since 1970.
pub(crate) fn rfc3339(unix_ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).map_or_else(|_| String::new(), |t| t.to_string())
}

fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

/// A quotient, or 0 if the divisor is 0: JSON has no infinity.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn gather_op(label: &Label, tally: &Tally, over_ns: f64, open: bool, collection: String) -> OpResult {
    let errors_by_kind = ErrorKind::ALL
        .iter()
        .filter(|kind| tally.failed_as(**kind) > 0)
        .map(|kind| (kind.name().to_owned(), tally.failed_as(*kind)))
        .collect();
    OpResult {
        kind: label.kind.name().to_owned(),
        collection,
        batch: label.batch,
        count: tally.ended(),
        succeeded: tally.succeeded,
        misses: tally.missed,
        errors: tally.errors(),
        errors_by_kind,
        timed_out: tally.timed_out,
        unfinished: tally.unfinished,
        retries: tally.retries,
        conflicts: tally.conflicts,
        throughput_per_s: share(tally.succeeded as f64 * 1e9, over_ns),
        documents: tally.documents,
        documents_per_s: share(tally.documents as f64 * 1e9, over_ns),
        written_bytes: tally.bytes_written,
        read_bytes: tally.bytes_read,
        documents_sd: deviation(tally.succeeded, tally.documents, tally.documents_squared),
        written_bytes_sd: deviation(tally.sent, tally.bytes_written, tally.written_squared),
        read_bytes_sd: deviation(tally.succeeded, tally.bytes_read, tally.read_squared),
        checked: tally.checked,
        wrong: tally.wrong,
        wrong_rows: tally.wrong_rows,
        misses_of_new: tally.missed_new,
        query_plan: None,
        response_ns: open.then(|| Percentiles::of(&tally.response)),
        response_of_attempts_ns: open.then(|| attempts::of_op(tally, &tally.answered())).flatten(),
        service_ns: Percentiles::of(&tally.service),
        service_of_attempts_ns: attempts::of_op(tally, &tally.service),
        failed_ns: Percentiles::of(&tally.failed_time),
        client_queueing_ns: open.then(|| Percentiles::of(&tally.client_queueing)),
    }
}

/// The standard deviation of a figure of `count` operations, by the sum over all and the sum of the squares. `None` if there
/// are none, or if bulk operations failed in part: their documents have no squares.
fn deviation(count: u64, sum: u64, squared: u64) -> Option<f64> {
    let n = count as f64;
    let mean = sum as f64 / n;
    (count > 0 && squared >= sum).then(|| (squared as f64 / n - mean * mean).max(0.0).sqrt())
}

fn gather_rate(record: &PhaseRecord, scheduled: u64) -> RateResult {
    let scheduled_over_ns = record.scheduled_over_ns.unwrap_or(record.sending_ns);
    let scheduled_per_s = per_second(scheduled, scheduled_over_ns);
    let achieved_per_s = share(record.total.answers() as f64 * 1e9, answering_ns(record));
    RateResult {
        scheduled,
        scheduled_per_s,
        achieved_per_s,
        sustained_share: share(achieved_per_s, scheduled_per_s).min(1.0),
        planned: serde_json::Value::Null,
    }
}

/// The time that successes and misses took, in ns. In a closed loop it is the whole phase. In an open loop it is the
/// time in which they reach the best rate, taken from the start to the end of any interval that ends after the
/// schedule. Over the whole time, one operation that hangs through the drain would count against all others. The last
/// operation was scheduled at the end of the schedule, so its least service time is not a delay. One operation that is
/// answered after the schedule counts as answered in it, since it may have been due at the very end.
fn answering_ns(record: &PhaseRecord) -> f64 {
    let all = record.total.answers();
    if record.scheduled.is_none() || all == 0 {
        return record.elapsed_ns as f64;
    }
    let scheduled_over_ns = record.scheduled_over_ns.unwrap_or(record.sending_ns);
    let services = record.total.ops.iter().map(|t| &t.service);
    let least_ns = services.filter(|h| !h.is_empty()).map(Histogram::min).min().unwrap_or(0);
    let rate = |count, until_ns: u64| per_second(count, until_ns.saturating_sub(least_ns).max(scheduled_over_ns));
    let mut count = all;
    let mut best = rate(count, record.elapsed_ns);
    for pair in record.intervals.windows(2).rev() {
        let [before, after] = pair else { continue };
        if after.to_ns <= scheduled_over_ns {
            break;
        }
        count = count.saturating_sub(after.record().answers());
        best = best.max(rate((count + 1).min(all), before.to_ns));
    }
    share(all as f64 * 1e9, best)
}

/// Little's law: the time that operations spent at the store, divided by the elapsed time times the in-flight limit.
fn in_flight_share(record: &PhaseRecord) -> f64 {
    let limit = f64::from(record.workers) * f64::from(record.connections) * f64::from(record.in_flight);
    let busy_ns: f64 = record.total.ops.iter().map(|t| t.service.mean() * t.service.len() as f64).sum();
    share(busy_ns, limit * record.elapsed_ns as f64).min(1.0)
}

fn gather_client(record: &PhaseRecord, embedded: bool, calibrated_ns_per_op: Option<&[f64]>) -> ClientUse {
    let operations = record.operations();
    let documents: u64 = record.total.ops.iter().map(|t| t.documents).sum();
    let sum = |pick: fn(&WorkerUse) -> u64| record.worker_use.iter().map(pick).sum::<u64>();
    let (cpu_ns, spin_ns, run_queue_ns) = (sum(|w| w.cpu_ns), sum(|w| w.spin_ns), sum(|w| w.run_queue_ns));
    let process_cpu_ns = process_cpu_ns(&record.resources, record.elapsed_ns);
    let per_op_us = |ns: f64| (operations > 0).then(|| ns / operations as f64 / 1e3);
    let (client_ns, cpu_source) = if embedded {
        let calibrated = calibrated_ns_per_op
            .map(|ns| record.total.ops.iter().zip(ns).map(|(tally, ns)| tally.ended() as f64 * ns).sum::<f64>());
        (calibrated, "calibrated-on-null")
    } else {
        (Some(cpu_ns.saturating_sub(spin_ns) as f64), "measured")
    };
    ClientUse {
        cpu_us_per_op: client_ns.and_then(per_op_us),
        cpu_us_per_document: client_ns.filter(|_| documents > 0).map(|ns| ns / documents as f64 / 1e3),
        cpu_source: cpu_source.to_owned(),
        process_cpu_us_per_op: process_cpu_ns.and_then(|ns| per_op_us((ns - spin_ns as f64).max(0.0))),
        worker_cpu_s: cpu_ns as f64 / 1e9,
        spin_cpu_s: spin_ns as f64 / 1e9,
        run_queue_s: run_queue_ns as f64 / 1e9,
        process_cpu_s: process_cpu_ns.map(|ns| ns / 1e9),
        busiest_worker_share: record
            .worker_use
            .iter()
            .map(|w| share(w.cpu_ns.saturating_sub(w.spin_ns) as f64, w.wall_ns as f64))
            .fold(0.0, f64::max),
        starved_s: stops(record).sum::<u64>() as f64 / 1e9,
        stopped_ns: stopped(record),
        rss_max_bytes: record.resources.iter().map(|s| s.rss_bytes).max().unwrap_or(0),
        send_delay_ns: Percentiles::of(&record.total.send_delay),
        worker_use: record.worker_use.clone(),
    }
}

/// Late wake-ups, in ns. More than normal lateness means that the process wanted to run but did not.
fn stops(record: &PhaseRecord) -> impl Iterator<Item = u64> {
    record.resources.iter().map(|s| s.lateness_ns).filter(|ns| *ns >= ORDINARY_LATENESS_NS)
}

/// How long operations were delayed by that.
fn stopped(record: &PhaseRecord) -> Percentiles {
    let limit = (record.sessions() * u64::from(record.in_flight)) as f64;
    let load = match record.scheduled {
        Some(_) => Load::Open,
        None => Load::Closed { limit, operations: record.operations() as f64 },
    };
    let delay = |quantile| stopped_at(&record.resources, record.elapsed_ns, load, quantile);
    Percentiles::at(stops(record).count() as u64, delay)
}

/// CPU time of the process over the phase. The samples do not quite reach its ends, so their slope is extrapolated.
fn process_cpu_ns(samples: &[ResourceSample], elapsed_ns: u64) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    let span = last.at_ns.saturating_sub(first.at_ns);
    (span > 0).then(|| last.cpu_ns.saturating_sub(first.cpu_ns) as f64 * elapsed_ns as f64 / span as f64)
}

fn gather_documents(
    record: &PhaseRecord,
    documents: &[CollectionResult],
    name_of: impl Fn(usize) -> String,
) -> PhaseDocuments {
    let bytes_of = |tally: &Tally| tally.bytes_written + tally.bytes_read;
    // Ratios of several collections are weighted by their bytes in this phase.
    let weighted = |pick: fn(&Compression) -> f64| {
        let (mut ratio, mut weight) = (0.0, 0.0);
        for (label, tally) in record.labels.iter().zip(&record.total.ops) {
            let Some(found) = documents.get(label.collection).and_then(|c| c.compression.as_ref()) else {
                continue;
            };
            let bytes = bytes_of(tally) as f64;
            ratio += pick(found) * bytes;
            weight += bytes;
        }
        (weight > 0.0).then(|| ratio / weight)
    };
    PhaseDocuments {
        count: record.total.ops.iter().map(|t| t.documents).sum(),
        bytes: record.total.ops.iter().map(bytes_of).sum(),
        distinct_keys: record.distinct_keys.iter().map(|(_, n)| n).sum(),
        compress_page: weighted(|c| c.page_zstd3),
        compress_doc: weighted(|c| c.doc_snappy),
        distinct_keys_by_collection: record.distinct_keys.iter().map(|(c, n)| (name_of(*c), *n)).collect(),
    }
}
