//! Finds what limited a phase, as far as that is visible from outside. The first of these that applies is reported:
//!
//! 1. *Nothing*: an open loop sustained its rate, so the store was not asked for more.
//! 2. *Client*: its busiest worker was busy nearly all the time.
//! 3. *Processors*: the server often used up its CPU quota, or nearly all processors of the machine that it shares with
//!    the client were in use.
//! 4. *Memory*: tasks waited for it, by the kernel's pressure stall information (PSI).
//! 5. *Disk*: tasks waited for it a good part of the time, by the same.
//! 6. *Network*: the machine's fastest interface was close to its capacity.
//! 7. *One processor of the store*: its processes kept just one processor busy, as single-threaded work does.
//! 8. *Waiting*: the in-flight limit was reached, and nothing above applies. The time goes to locks, syncs and round
//!    trips, so more operations in flight may raise the throughput.
//!
//! For a store on another machine, the figures of its `metrics` endpoints are judged in the same way.
//!
//! The result is a hint with its evidence, not a proof.

use serde::{Deserialize, Serialize};

use crate::human::{digits, percent, rate};
use crate::{DiskResult, PhaseResult, ResourcesResult, StoreUseResult, WatchedProcess};

/// What was at its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The given rate was sustained.
    Nothing,
    /// The client's own processor time.
    Client,
    /// All processors of the machine.
    Processors,
    /// Memory of the machine.
    Memory,
    /// Its disk.
    Disk,
    /// The network of the machine.
    Network,
    /// One processor of the store.
    StoreThread,
    /// No resource was used up: operations waited.
    Waiting,
}

impl Limit {
    /// In a word or two.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Nothing => "none: the rate was sustained",
            Self::Client => "the client",
            Self::Processors => "processors",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::StoreThread => "one thread of the store",
            Self::Waiting => "waiting",
        }
    }
}

/// What limited a phase, and the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// The limit.
    pub limit: Limit,
    /// The evidence, in a clause.
    pub evidence: String,
}

/// Phases shorter than this, in ns, are not judged: their shares mean little.
const TELLING_NS: u64 = 1_000_000_000;
/// From this share of the rate on, the rate counts as sustained.
const HELD: f64 = 0.99;
/// From this share on, a thread, all processors, or the network count as fully used.
const FULL: f64 = 0.90;
/// From this share of time spent waiting for the disk on, the disk is the limit.
const DISK: f64 = 0.30;
/// The same for memory, where even short waits hurt.
const MEMORY: f64 = 0.10;
/// The same for threads that waited for their CPU quota.
const THROTTLED: f64 = 0.30;
/// How many processors a single-threaded store keeps busy; helper threads use a little.
const ONE: (f64, f64) = (0.90, 1.15);

impl Bottleneck {
    /// The bottleneck of a phase. `None` if too little is known. `processors` is their number on this machine.
    pub fn of(phase: &PhaseResult, embedded: bool, processors: f64) -> Option<Self> {
        if phase.elapsed_ns < TELLING_NS || phase.ops.values().all(|op| op.count == 0) {
            return None;
        }
        let limit = |limit, evidence| Some(Self { limit, evidence });
        if let Some(given) = phase.rate.as_ref().filter(|given| given.sustained_share >= HELD) {
            return limit(Limit::Nothing, format!("{}/s were scheduled and answered", rate(given.scheduled_per_s)));
        }
        let client = &phase.client;
        if !embedded && client.busiest_worker_share >= FULL {
            let busy = percent(client.busiest_worker_share);
            return limit(Limit::Client, format!("its busiest worker was busy {busy} of the time"));
        }
        let used = phase.resources.as_ref()?;
        let of_store = in_use(used);
        let host = &used.host;
        let throttled = used.limited.map_or(0.0, |limited| limited.throttled_share);
        if throttled >= THROTTLED {
            let evidence = format!("the server used up its CPU quota in {} of the 100 ms periods", percent(throttled));
            return limit(Limit::Processors, evidence);
        }
        if host.cpu_busy_share + host.stolen_share >= FULL {
            let busy = percent((host.cpu_busy_share + host.stolen_share).min(1.0));
            let store = of_store.map_or_else(String::new, |(_, cpu)| format!(", {} of them by the store", digits(cpu)));
            return limit(Limit::Processors, format!("{busy} of {} processors were in use{store}", digits(processors)));
        }
        if host.memory_pressure_share >= MEMORY {
            let share = percent(host.memory_pressure_share);
            return limit(Limit::Memory, format!("at least one task waited {share} of the time"));
        }
        if host.disk_pressure_share >= DISK {
            let share = percent(host.disk_pressure_share);
            let moved = used.disk.as_ref().map_or_else(String::new, |of| moved(of, used.span_ns));
            return limit(Limit::Disk, format!("at least one task waited {share} of the time{moved}"));
        }
        if let Some((limit, evidence)) = network(used).or_else(|| elsewhere(used)) {
            return Some(Self { limit, evidence });
        }
        if let Some((store, cpu)) = of_store
            && (ONE.0..ONE.1).contains(&cpu)
            && processors >= 2.0
        {
            let threads = if store.whose == WatchedProcess::Server { "the store" } else { "the store and its client" };
            return limit(Limit::StoreThread, format!("{threads} kept {} processors busy", digits(cpu)));
        }
        (phase.rate.is_none() && phase.in_flight_share >= FULL).then(|| Self {
            limit: Limit::Waiting,
            evidence: format!(
                "processors were {} busy, tasks waited for the disk {} of the time, and the in-flight limit of {} was reached",
                percent(host.cpu_busy_share),
                percent(host.disk_pressure_share),
                phase.in_flight_limit
            ),
        })
    }
}

/// Whether this machine's network was at its capacity.
fn network(used: &ResourcesResult) -> Option<(Limit, String)> {
    let most = used.network.most_per_s.filter(|most| *most > 0)? as f64;
    let per_s = |bytes: u64| bytes as f64 * 1e9 / used.span_ns.max(1) as f64;
    let (way, carried) = match (per_s(used.network.received_bytes), per_s(used.network.sent_bytes)) {
        (received, sent) if received > sent => ("received", received),
        (_, sent) => ("sent", sent),
    };
    let evidence = || {
        let bytes = crate::human::bytes;
        format!("{}/s were {way} of the {}/s that its interface carries", bytes(carried), bytes(most))
    };
    (carried / most >= FULL).then(|| (Limit::Network, evidence()))
}

/// What was at its limit on another machine, by its metrics endpoint.
fn elsewhere(used: &ResourcesResult) -> Option<(Limit, String)> {
    used.elsewhere.iter().find_map(|of| {
        let at_least = |share: Option<f64>, least: f64| share.filter(|share| *share >= least).map(percent);
        let waited = |share: String| format!("at least one task on {} waited {share} of the time", of.url);
        at_least(of.cpu_busy_share, FULL)
            .map(|busy| (Limit::Processors, format!("{busy} of the processors of {} were in use", of.url)))
            .or_else(|| at_least(of.memory_pressure_share, MEMORY).map(|share| (Limit::Memory, waited(share))))
            .or_else(|| at_least(of.disk_pressure_share, DISK).map(|share| (Limit::Disk, waited(share))))
    })
}

/// Processors that a store's processes kept busy.
fn in_use(used: &ResourcesResult) -> Option<(&StoreUseResult, f64)> {
    let store = used.store.as_ref()?;
    (used.span_ns > 0).then(|| (store, store.cpu_s * 1e9 / used.span_ns as f64))
}

/// Bytes written to and read from a disk each second.
fn moved(disk: &DiskResult, span_ns: u64) -> String {
    let per_s = |bytes: u64| crate::human::bytes(bytes as f64 * 1e9 / span_ns.max(1) as f64);
    format!("; {}/s were written and {}/s read", per_s(disk.write_bytes), per_s(disk.read_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElsewhereResult, HostResult, LimitedResult, NetworkResult, OpResult, RateResult};

    fn phase(host: HostResult, cpu_s: f64) -> PhaseResult {
        let store = StoreUseResult { whose: WatchedProcess::Server, cpu_s, ..StoreUseResult::default() };
        PhaseResult {
            elapsed_ns: 10_000_000_000,
            in_flight_limit: 4,
            in_flight_share: 0.99,
            ops: [("read".to_owned(), OpResult { count: 10, ..OpResult::default() })].into(),
            resources: Some(ResourcesResult {
                span_ns: 10_000_000_000,
                host,
                store: Some(store),
                disk: Some(DiskResult { read_bytes: 1_000, ..DiskResult::default() }),
                ..ResourcesResult::default()
            }),
            ..PhaseResult::default()
        }
    }

    fn limit(phase: &PhaseResult) -> Option<Limit> {
        Bottleneck::of(phase, false, 2.0).map(|found| found.limit)
    }

    #[test]
    fn each_limit_has_its_sign() {
        let idle = HostResult { cpu_busy_share: 0.3, ..HostResult::default() };
        assert_eq!(limit(&phase(idle.clone(), 1.0)), Some(Limit::Waiting));
        assert_eq!(limit(&phase(idle.clone(), 9.8)), Some(Limit::StoreThread));
        let disk = HostResult { disk_pressure_share: 0.62, ..idle.clone() };
        let found = Bottleneck::of(&phase(disk, 9.8), false, 2.0).unwrap();
        assert_eq!(found.limit, Limit::Disk);
        assert_eq!(found.evidence, "at least one task waited 62 % of the time; 0 B/s were written and 100 B/s read");
        let memory = HostResult { memory_pressure_share: 0.2, ..idle.clone() };
        assert_eq!(limit(&phase(memory, 1.0)), Some(Limit::Memory));
        let full = HostResult { cpu_busy_share: 0.85, stolen_share: 0.1, ..HostResult::default() };
        assert_eq!(limit(&phase(full, 15.0)), Some(Limit::Processors));
        let mut limited = phase(idle.clone(), 1.0);
        let throttled = LimitedResult { throttled_share: 0.6, ..LimitedResult::default() };
        limited.resources.as_mut().unwrap().limited = Some(throttled);
        assert_eq!(limit(&limited), Some(Limit::Processors));
        let mut sends = phase(idle.clone(), 1.0);
        let carried = NetworkResult { sent_bytes: 9_500, most_per_s: Some(1_000), ..NetworkResult::default() };
        sends.resources.as_mut().unwrap().network = carried;
        let found = Bottleneck::of(&sends, false, 2.0).unwrap();
        assert_eq!(
            (found.limit, &*found.evidence),
            (Limit::Network, "950 B/s were sent of the 1000 B/s that its interface carries")
        );
        let mut far = phase(idle.clone(), 1.0);
        let there =
            ElsewhereResult { url: "http://x".into(), cpu_busy_share: Some(0.95), ..ElsewhereResult::default() };
        far.resources.as_mut().unwrap().elsewhere = vec![there];
        let found = Bottleneck::of(&far, false, 2.0).unwrap();
        assert_eq!(
            (found.limit, &*found.evidence),
            (Limit::Processors, "95 % of the processors of http://x were in use")
        );
        let mut client = phase(idle.clone(), 1.0);
        client.client.busiest_worker_share = 0.97;
        assert_eq!(limit(&client), Some(Limit::Client));
        // With an embedded store, the worker does the store's work.
        assert_eq!(Bottleneck::of(&client, true, 2.0).map(|found| found.limit), Some(Limit::Waiting));
        let mut asked = phase(idle.clone(), 1.0);
        asked.rate = Some(RateResult { sustained_share: 1.0, ..RateResult::default() });
        assert_eq!(limit(&asked), Some(Limit::Nothing));
        asked.rate = Some(RateResult { sustained_share: 0.8, ..RateResult::default() });
        assert_eq!(limit(&asked), None, "the rate was not sustained, and nothing says why");
    }

    #[test]
    fn too_little_says_nothing() {
        let mut short = phase(HostResult::default(), 1.0);
        short.elapsed_ns = 500_000_000;
        assert_eq!(limit(&short), None);
        let mut unseen = phase(HostResult::default(), 1.0);
        unseen.resources = None;
        assert_eq!(limit(&unseen), None);
    }
}
