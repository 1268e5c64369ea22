//! The samples of a phase: rows of the table `server_resources`, and their summary in `run.json`.

use storebench_machine::{BlockUse, FolderUse, GroupUse, HostUse, NetworkUse, ProcessUse};
use storebench_results::{
    ElsewhereResult, FigureRow, FolderResult, HostResult, LimitedResult, NetworkResult, OpResult, PhaseResult,
    ResourcesResult, StoreUseResult, WatchedProcess,
};

use super::disk::{DiskIdle, DiskSpan};
use super::elsewhere::{self, EndpointSample};

/// One sample of everything.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::run) struct UseSample {
    /// The time from the phase's start, in ns.
    pub(in crate::run) at_ns: u64,
    /// The store's processes; `None` if they are on another machine or unknown.
    pub(in crate::run) store: Option<ProcessUse>,
    /// This machine.
    pub(in crate::run) host: HostUse,
    /// The store's folder; `None` if it has none, or it is unknown.
    pub(in crate::run) folder: Option<FolderUse>,
    /// The disk that holds that folder, including other users of the disk; `None` if it is unknown.
    pub(in crate::run) disk: Option<BlockUse>,
    /// The network of this machine.
    pub(in crate::run) network: NetworkUse,
    /// The metrics of each endpoint, in order.
    pub(in crate::run) told: Vec<EndpointSample>,
}

/// The samples of a phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::run) struct UseSamples {
    /// Which processes `store` covers.
    pub(in crate::run) whose: WatchedProcess,
    /// In order.
    pub(in crate::run) samples: Vec<UseSample>,
    /// Processor time that sampling cost this process, in ns.
    pub(in crate::run) cost_ns: u64,
    /// The name of the disk that holds the store's folder.
    pub(in crate::run) disk: Option<String>,
    /// The activity of that disk before the phase; `None` if it was not observed.
    pub(in crate::run) idle: Option<DiskIdle>,
    /// The speed of this machine's fastest interface in each direction, in bytes per second; `None` if no interface
    /// reports it.
    pub(in crate::run) network_per_s: Option<u64>,
    /// The endpoints: their URLs, how often each failed, and its first error.
    pub(in crate::run) endpoints: Vec<(String, u64, Option<String>)>,
}

/// How the limits of a server took effect between two readings.
pub(in crate::run) fn limits_felt(before: &GroupUse, after: &GroupUse) -> LimitedResult {
    LimitedResult {
        throttled_share: ratio(
            after.throttled_periods.saturating_sub(before.throttled_periods) as f64,
            after.periods.saturating_sub(before.periods) as f64,
        )
        .unwrap_or(0.0),
        throttled_s: after.throttled_ns.saturating_sub(before.throttled_ns) as f64 / 1e9,
        oom_kills: after.oom_kills.saturating_sub(before.oom_kills),
        memory_peak_bytes: after.memory_peak_bytes,
    }
}

/// The work of the phase, to relate resources to.
#[derive(Debug, Clone, Copy, Default)]
struct PhaseWork {
    operations: u64,
    written_bytes: u64,
    /// Number of documents that the store held at the end, and their bytes.
    stored: Option<(u64, f64)>,
}

impl UseSamples {
    /// The summary of a phase; `None` without two samples at different times. `stored` are the number of documents
    /// that the store held at the end, and their bytes, if known.
    pub(in crate::run) fn sum(&self, phase: &PhaseResult, stored: Option<(u64, f64)>) -> Option<ResourcesResult> {
        let sum = |of: fn(&OpResult) -> u64| phase.ops.values().map(of).fold(0, u64::saturating_add);
        let done = PhaseWork { operations: sum(|op| op.count), written_bytes: sum(|op| op.written_bytes), stored };
        let mut found = gather(self, done)?;
        // If client and store are one process, use the client's figures, which are sampled more often.
        if let Some(store) = found.store.as_mut().filter(|store| store.whose == WatchedProcess::ClientAndStore) {
            store.cpu_us_per_op = phase.client.process_cpu_us_per_op;
            store.rss_max_bytes = phase.client.rss_max_bytes;
        }
        Some(found)
    }

    /// Rows of the table `server_resources`.
    pub(in crate::run) fn rows(&self) -> impl Iterator<Item = FigureRow<'static>> + use<'_> {
        self.samples.iter().flat_map(|sample| {
            sample.figures().map(|(figure, value)| FigureRow { at_ns: sample.at_ns, took_ns: None, figure, value })
        })
    }
}

/// Recomputes the space amplification from the size of the store's files after it has settled.
pub(in crate::run) fn settled(used: &mut ResourcesResult, disk_bytes: Option<u64>, stored: Option<(u64, f64)>) {
    if let (Some(folder), Some(disk_bytes)) = (&mut used.folder, disk_bytes) {
        folder.space_amplification = stored.and_then(|(_, documents)| ratio(disk_bytes as f64, documents));
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole).filter(|ratio| ratio.is_finite())
}

fn gather(used: &UseSamples, done: PhaseWork) -> Option<ResourcesResult> {
    let (first, last) = (used.samples.first()?, used.samples.last()?);
    let span_ns = last.at_ns.saturating_sub(first.at_ns);
    if span_ns == 0 {
        return None;
    }
    Some(ResourcesResult {
        span_ns,
        samples: used.samples.len() as u64,
        cost_s: used.cost_ns as f64 / 1e9,
        store: first.store.zip(last.store).map(|(before, after)| store(used, before, after, done)),
        host: host(used, &first.host, &last.host, span_ns),
        folder: first.folder.zip(last.folder).map(|(before, after)| FolderResult {
            begin_bytes: before.disk_bytes,
            end_bytes: after.disk_bytes,
            max_bytes: most(used, |s| s.folder.map(|f| f.disk_bytes)),
            files: after.files,
            space_amplification: done.stored.and_then(|(_, bytes)| ratio(after.disk_bytes as f64, bytes)),
        }),
        disk: first.disk.zip(last.disk).map(|(before, after)| {
            let store = first.store.zip(last.store);
            let span = DiskSpan {
                name: used.disk.clone().unwrap_or_default(),
                before,
                after,
                span_ns,
                idle: used.idle,
                store: store.map(|(before, after)| after.write_bytes.saturating_sub(before.write_bytes)),
            };
            span.result(done.written_bytes)
        }),
        network: NetworkResult {
            received_bytes: last.network.in_bytes.saturating_sub(first.network.in_bytes),
            sent_bytes: last.network.out_bytes.saturating_sub(first.network.out_bytes),
            local_bytes: last.network.lo_out_bytes.saturating_sub(first.network.lo_out_bytes),
            most_per_s: used.network_per_s,
        },
        elsewhere: all_elsewhere(used),
        limited: None,
    })
}

fn all_elsewhere(used: &UseSamples) -> Vec<ElsewhereResult> {
    let of = |(nth, (url, failed, message)): (usize, &(String, u64, Option<String>))| {
        let told = used.samples.iter().map(move |s| (s.at_ns, s.told.get(nth).copied().flatten()));
        ElsewhereResult { failed: *failed, message: message.clone(), ..elsewhere::sum(url, told) }
    };
    used.endpoints.iter().enumerate().map(of).collect()
}

fn most(used: &UseSamples, of: impl Fn(&UseSample) -> Option<u64>) -> u64 {
    used.samples.iter().filter_map(of).max().unwrap_or(0)
}

fn store(used: &UseSamples, before: ProcessUse, after: ProcessUse, done: PhaseWork) -> StoreUseResult {
    let seconds = |of: fn(&ProcessUse) -> u64| of(&after).saturating_sub(of(&before)) as f64 / 1e9;
    let count = |of: fn(&ProcessUse) -> u64| of(&after).saturating_sub(of(&before));
    let most = |of: fn(&ProcessUse) -> u64| most(used, |sample| sample.store.as_ref().map(of));
    let (all, user, system) = (seconds(|p| p.cpu_ns), seconds(|p| p.user_ns), seconds(|p| p.system_ns));
    let write_bytes = count(|p| p.write_bytes);
    let memory = if after.pss_bytes > 0 { after.pss_bytes } else { after.rss_bytes };
    StoreUseResult {
        whose: used.whose,
        cpu_s: all,
        cpu_user_s: user,
        cpu_system_s: system,
        cpu_us_per_op: ratio(all * 1e6, done.operations as f64),
        rss_max_bytes: most(|p| p.rss_bytes),
        pss_bytes: after.pss_bytes,
        memory_per_document_bytes: done.stored.and_then(|(documents, _)| ratio(memory as f64, documents as f64)),
        read_bytes: count(|p| p.read_bytes),
        write_bytes,
        read_calls: count(|p| p.read_calls),
        write_calls: count(|p| p.write_calls),
        minor_faults: count(|p| p.minor_faults),
        major_faults: count(|p| p.major_faults),
        waits: count(|p| p.waits),
        preemptions: count(|p| p.preemptions),
        processes_max: most(|p| p.processes),
        threads_max: most(|p| p.threads),
        open_files_max: most(|p| p.open_files),
    }
}

fn host(used: &UseSamples, before: &HostUse, after: &HostUse, span_ns: u64) -> HostResult {
    let count = |of: fn(&HostUse) -> u64| of(after).saturating_sub(of(before)) as f64;
    let of_processors = |of: fn(&HostUse) -> u64| ratio(count(of), count(|h| h.all_ns)).unwrap_or(0.0).min(1.0);
    let of_time = |of: fn(&HostUse) -> u64| (count(of) / span_ns as f64).min(1.0);
    HostResult {
        cpu_busy_share: of_processors(|h| h.busy_ns),
        disk_wait_share: of_processors(|h| h.disk_wait_ns),
        stolen_share: of_processors(|h| h.stolen_ns),
        cpu_pressure_share: of_time(|h| h.cpu_pressure_ns),
        memory_pressure_share: of_time(|h| h.memory_pressure_ns),
        disk_pressure_share: of_time(|h| h.disk_pressure_ns),
        available_min_bytes: used.samples.iter().map(|s| s.host.available_bytes).min().unwrap_or(0),
    }
}

impl UseSample {
    /// All figures by name. Names of counters end in `_total`.
    fn figures(&self) -> impl Iterator<Item = (&'static str, f64)> + use<'_> {
        let store = self.store.iter().flat_map(|of| {
            [
                ("store.cpu_ns_total", of.cpu_ns),
                ("store.cpu_user_ns_total", of.user_ns),
                ("store.cpu_system_ns_total", of.system_ns),
                ("store.rss_bytes", of.rss_bytes),
                ("store.pss_bytes", of.pss_bytes),
                ("store.read_bytes_total", of.read_bytes),
                ("store.write_bytes_total", of.write_bytes),
                ("store.read_calls_total", of.read_calls),
                ("store.write_calls_total", of.write_calls),
                ("store.minor_faults_total", of.minor_faults),
                ("store.major_faults_total", of.major_faults),
                ("store.waits_total", of.waits),
                ("store.preemptions_total", of.preemptions),
                ("store.processes", of.processes),
                ("store.threads", of.threads),
                ("store.open_files", of.open_files),
            ]
        });
        let host = [
            ("host.cpu_busy_ns_total", self.host.busy_ns),
            ("host.cpu_all_ns_total", self.host.all_ns),
            ("host.disk_wait_ns_total", self.host.disk_wait_ns),
            ("host.stolen_ns_total", self.host.stolen_ns),
            ("host.available_bytes", self.host.available_bytes),
            ("host.cpu_pressure_ns_total", self.host.cpu_pressure_ns),
            ("host.memory_pressure_ns_total", self.host.memory_pressure_ns),
            ("host.disk_pressure_ns_total", self.host.disk_pressure_ns),
        ];
        let folder = self.folder.iter().flat_map(|of| {
            [("folder.disk_bytes", of.disk_bytes), ("folder.file_bytes", of.file_bytes), ("folder.files", of.files)]
        });
        let disk = self.disk.iter().flat_map(|of| {
            [
                ("disk.read_bytes_total", of.read_bytes),
                ("disk.write_bytes_total", of.write_bytes),
                ("disk.flushes_total", of.flushes),
            ]
        });
        let network = [
            ("network.received_bytes_total", self.network.in_bytes),
            ("network.sent_bytes_total", self.network.out_bytes),
            ("network.local_bytes_total", self.network.lo_out_bytes),
        ];
        let all = store.chain(host).chain(folder).chain(disk).chain(network);
        all.map(|(name, value)| (name, value as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: u64, cpu_s: u64, written: u64, disk_bytes: u64) -> UseSample {
        UseSample {
            at_ns: at_s * 1_000_000_000,
            store: Some(ProcessUse {
                cpu_ns: cpu_s * 1_000_000_000 + at_s,
                user_ns: cpu_s * 1_000_000_000,
                write_bytes: written,
                rss_bytes: 1_000 * at_s,
                pss_bytes: 500 * at_s,
                ..ProcessUse::default()
            }),
            host: HostUse {
                all_ns: at_s * 2_000_000_000,
                busy_ns: cpu_s * 1_000_000_000,
                available_bytes: 100 - at_s,
                disk_pressure_ns: at_s * 500_000_000,
                ..HostUse::default()
            },
            folder: Some(FolderUse { disk_bytes, file_bytes: 0, files: 3 }),
            disk: Some(BlockUse { write_bytes: written * 2, ..BlockUse::default() }),
            network: NetworkUse { out_bytes: at_s * 10, ..NetworkUse::default() },
            told: Vec::new(),
        }
    }

    #[test]
    fn a_phase_has_what_lies_between_its_first_and_its_last_sample() {
        let used = UseSamples {
            whose: WatchedProcess::Server,
            samples: vec![sample(1, 10, 1_000, 10), sample(2, 11, 2_000, 900), sample(5, 12, 5_000, 400)],
            cost_ns: 1_000_000,
            disk: Some("loop0".into()),
            idle: None,
            network_per_s: Some(1_000),
            endpoints: Vec::new(),
        };
        let done = PhaseWork { operations: 1_000, written_bytes: 1_000, stored: Some((10, 200.0)) };
        let found = gather(&used, done).unwrap();
        assert_eq!((found.span_ns, found.samples, found.cost_s), (4_000_000_000, 3, 0.001));
        let store = found.store.unwrap();
        assert_eq!((store.cpu_s, store.cpu_user_s, store.cpu_us_per_op), (2.000_000_004, 2.0, Some(2_000.000_004)));
        assert_eq!(store.write_bytes, 4_000);
        assert_eq!((store.rss_max_bytes, store.memory_per_document_bytes), (5_000, Some(250.0)));
        assert_eq!((found.host.cpu_busy_share, found.host.disk_pressure_share), (0.25, 0.5));
        assert_eq!(found.host.available_min_bytes, 95);
        let disk = found.disk.unwrap();
        assert_eq!((disk.name.as_str(), disk.write_bytes, disk.write_amplification), ("loop0", 8_000, Some(8.0)));
        assert_eq!((found.network.sent_bytes, found.network.most_per_s), (40, Some(1_000)));
        let folder = found.folder.unwrap();
        assert_eq!((folder.begin_bytes, folder.max_bytes, folder.end_bytes), (10, 900, 400));
        assert_eq!(folder.space_amplification, Some(2.0));
        assert_eq!(gather(&UseSamples::default(), done), None);
    }
}
