//! What servers, the machine and a store's folder used over a phase, as `run.json` summarises it.

use serde::{Deserialize, Serialize};

use super::disk::DiskResult;
use super::elsewhere::ElsewhereResult;

/// Which processes were watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WatchedProcess {
    /// None: the store is on another machine, or its processes could not be identified.
    #[default]
    Nobody,
    /// The store's server, with all processes that it started.
    Server,
    /// This process: an embedded store, and the client that measures it.
    ClientAndStore,
}

/// What was used over a phase, as far as known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourcesResult {
    /// The time between the first sample and the last, in ns.
    pub span_ns: u64,
    /// Number of samples in the table `server_resources`.
    pub samples: u64,
    /// CPU time that sampling cost the client, in seconds.
    pub cost_s: f64,
    /// The store's processes.
    pub store: Option<StoreUseResult>,
    /// The machine that the client ran on.
    pub host: HostResult,
    /// The store's folder.
    pub folder: Option<FolderResult>,
    /// The disk that holds the store's folder, with use by any process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskResult>,
    /// The network of the machine that the client ran on.
    pub network: NetworkResult,
    /// What other machines and the store reported about themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<ElsewhereResult>,
    /// The effect of the server's resource limits, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitedResult>,
}

/// The effect of a server's resource limits over a phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitedResult {
    /// Of the periods of 100 ms in which it had work, the share in which it had to wait because its CPU quota was used
    /// up.
    pub throttled_share: f64,
    /// Time that it waited for that reason, summed over processors, in seconds.
    pub throttled_s: f64,
    /// Processes that were killed because its memory was used up.
    pub oom_kills: u64,
    /// Peak memory since the limits were set, in bytes, including the cache of its files.
    pub memory_peak_bytes: u64,
}

/// What a store's processes used. Counts cover the phase only.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreUseResult {
    /// Which processes these are.
    pub whose: WatchedProcess,
    /// CPU time, in seconds, counted in ns.
    pub cpu_s: f64,
    /// The part of it in user mode, in seconds, in the kernel's ticks (usually of 10 ms).
    pub cpu_user_s: f64,
    /// The same in kernel mode.
    pub cpu_system_s: f64,
    /// CPU time per operation, in µs. Null without operations. For an embedded store it is that of the client's process
    /// without active waiting: `client.process_cpu_us_per_op`.
    pub cpu_us_per_op: Option<f64>,
    /// Peak resident memory, in bytes. Memory that processes share counts for each of them. For an embedded store it is
    /// that of the client's process: `client.rss_max_bytes`.
    pub rss_max_bytes: u64,
    /// Proportional set size at the end, in bytes: memory that processes share counts once. 0 if the system does not
    /// report it.
    pub pss_bytes: u64,
    /// Resident memory per document in the store, in bytes. Null if the number of documents is unknown.
    pub memory_per_document_bytes: Option<f64>,
    /// Bytes that were read from storage.
    pub read_bytes: u64,
    /// Bytes that were sent to storage, as the kernel counts them: whole groups of pages when they become dirty. This
    /// may be many times what was written to them.
    pub write_bytes: u64,
    /// Read calls.
    pub read_calls: u64,
    /// Write calls.
    pub write_calls: u64,
    /// Page faults without a read from disk.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
    /// Voluntary context switches: the process waited.
    pub waits: u64,
    /// Involuntary context switches: the process had used up its time slice.
    pub preemptions: u64,
    /// The most processes at once.
    pub processes_max: u64,
    /// The most threads at once.
    pub threads_max: u64,
    /// The most open files at once.
    pub open_files_max: u64,
}

/// What a machine used, as shares from 0 to 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostResult {
    /// Share of all processors that was in use.
    pub cpu_busy_share: f64,
    /// Share of all processors that was idle while something waited for a disk.
    pub disk_wait_share: f64,
    /// Share of all processors that was taken by the host of a virtual machine.
    pub stolen_share: f64,
    /// Share of the time in which some task waited for a processor (pressure stall information). 0 if the system does
    /// not report it.
    pub cpu_pressure_share: f64,
    /// The same for memory.
    pub memory_pressure_share: f64,
    /// The same for disks.
    pub disk_pressure_share: f64,
    /// The least memory that was available without swapping, in bytes.
    pub available_min_bytes: u64,
}

/// A store's folder.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FolderResult {
    /// Bytes on the disk when the phase began.
    pub begin_bytes: u64,
    /// Bytes on the disk when the phase had ended.
    pub end_bytes: u64,
    /// The most bytes on the disk.
    pub max_bytes: u64,
    /// Number of files when the phase had ended.
    pub files: u64,
    /// Bytes on the disk for each byte of documents, after the phase and settling (`disk_bytes` of `store_after`). Null
    /// if these are unknown.
    pub space_amplification: Option<f64>,
}

/// A machine's network over a phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkResult {
    /// Received from other machines, in bytes.
    pub received_bytes: u64,
    /// Sent to other machines, in bytes.
    pub sent_bytes: u64,
    /// Sent between processes of the machine, in bytes.
    pub local_bytes: u64,
    /// Capacity of its fastest interface in each direction, in bytes per second. Null if no interface reports it.
    pub most_per_s: Option<u64>,
}
