//! The load that each part generated in a phase, and the combined resource use of all clients.

use storebench_engine::measure::PhaseRecord;

use crate::{ClientUse, GeneratorResult, Percentiles, PhaseResult};

use super::parts::ReadPart;

/// The load that each part generated in a phase, from its result and its record.
pub(super) fn generators(parts: &[(&ReadPart, &PhaseResult)], records: &[PhaseRecord]) -> Vec<GeneratorResult> {
    let first = records.iter().map(|record| record.began_unix_ns).min().unwrap_or(0);
    let one = |((part, phase), record): (&(&ReadPart, &PhaseResult), &PhaseRecord)| {
        let began = record.began_unix_ns;
        let agreed = record.of_part.as_ref().and_then(|of| of.agreed_unix_ns);
        let answered: u64 = phase.ops.values().map(|op| op.succeeded + op.misses).sum();
        GeneratorResult {
            part: part.part.number,
            began_after_ns: began - first,
            late_ns: agreed.map(|agreed| began.saturating_sub(agreed)),
            workers: phase.workers,
            operations: phase.ops.values().map(|op| op.count).sum(),
            answered_per_s: phase
                .rate
                .as_ref()
                .map_or(answered as f64 * 1e9 / phase.elapsed_ns.max(1) as f64, |rate| rate.achieved_per_s),
            all: phase.all.clone(),
            client: phase.client.clone(),
        }
    };
    parts.iter().zip(records).map(one).collect()
}

/// At each percentile, the longest delay of all parts.
fn longest_stops<'a>(parts: impl Iterator<Item = &'a Percentiles> + Clone) -> Percentiles {
    let longest = |pick: fn(&Percentiles) -> Option<u64>| parts.clone().filter_map(pick).max();
    Percentiles {
        count: parts.clone().map(|of| of.count).sum(),
        p50: longest(|of| of.p50),
        p90: longest(|of| of.p90),
        p95: longest(|of| of.p95),
        p99: longest(|of| of.p99),
        p99_9: longest(|of| of.p99_9),
        p99_99: longest(|of| of.p99_99),
        ..Percentiles::default()
    }
}

/// The combined resource use of all clients. CPU times per operation cover all operations. Peaks and shares are the
/// maximum over all parts.
pub(super) fn all_clients(generators: &[GeneratorResult], send_delay_ns: Percentiles) -> ClientUse {
    let clients = || generators.iter().map(|of| &of.client);
    let sum = |pick: fn(&ClientUse) -> f64| clients().map(pick).sum::<f64>();
    let greatest = |pick: fn(&ClientUse) -> f64| clients().map(pick).fold(0.0, f64::max);
    // The mean over all operations, or `None` if a part lacks the value.
    let operations: u64 = generators.iter().map(|of| of.operations).sum();
    let per_op = |pick: fn(&ClientUse) -> Option<f64>| {
        let cost = |of: &GeneratorResult| match of.operations {
            0 => Some(0.0),
            n => Some(pick(&of.client)? * n as f64),
        };
        let total: f64 = generators.iter().map(cost).sum::<Option<f64>>()?;
        (operations > 0).then(|| total / operations as f64)
    };
    let documents = |client: &ClientUse, of: &GeneratorResult| {
        // The part's number of documents, derived from its two costs.
        Some(client.cpu_us_per_op? * of.operations as f64 / client.cpu_us_per_document.filter(|us| *us > 0.0)?)
    };
    let cpu_us_per_op = per_op(|client| client.cpu_us_per_op);
    let all_documents: Option<f64> = generators.iter().map(|of| documents(&of.client, of)).sum();
    ClientUse {
        cpu_us_per_op,
        cpu_us_per_document: cpu_us_per_op
            .zip(all_documents.filter(|n| *n > 0.0))
            .map(|(us, documents)| us * operations as f64 / documents),
        cpu_source: clients().next().map_or_else(String::new, |client| client.cpu_source.clone()),
        process_cpu_us_per_op: per_op(|client| client.process_cpu_us_per_op),
        worker_cpu_s: sum(|client| client.worker_cpu_s),
        spin_cpu_s: sum(|client| client.spin_cpu_s),
        run_queue_s: sum(|client| client.run_queue_s),
        process_cpu_s: clients().map(|client| client.process_cpu_s).sum(),
        busiest_worker_share: greatest(|client| client.busiest_worker_share),
        starved_s: greatest(|client| client.starved_s),
        stopped_ns: longest_stops(clients().map(|client| &client.stopped_ns)),
        rss_max_bytes: clients().map(|client| client.rss_max_bytes).max().unwrap_or(0),
        send_delay_ns,
        worker_use: clients().flat_map(|client| client.worker_use.iter().copied()).collect(),
    }
}
