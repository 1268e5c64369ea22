//! What servers, the machine and a store's folder used over a phase, as `run.json` sums it up.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::disk::DiskResult;
use super::elsewhere::ElsewhereResult;

/// Whose processes were watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WatchedProcess {
    /// Nobody's: the store is on another machine, or its processes could not be told.
    #[default]
    Nobody,
    /// The store's server, with all that it has started.
    Server,
    /// This process: an embedded store, and the client that measures it.
    ClientAndStore,
}

/// What was used over a phase, as far as it could be seen.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ResourcesResult {
    /// The time between the first sample and the last, in ns.
    pub span_ns: u64,
    /// Samples in the table `server_resources`.
    pub samples: u64,
    /// Processor time that taking them cost the client, in seconds.
    pub cost_s: f64,
    /// The store's processes.
    pub store: Option<StoreUseResult>,
    /// The machine that the client ran on.
    pub host: HostResult,
    /// The store's folder.
    pub folder: Option<FolderResult>,
    /// The disk that holds the store's folder, whoever used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskResult>,
    /// The network of the machine that the client ran on.
    #[serde(default)]
    pub network: NetworkResult,
    /// What other machines and the store told of themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<ElsewhereResult>,
    /// How the limits of its server were felt, where it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitedResult>,
}

/// How the limits of a server were felt over a phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LimitedResult {
    /// Of the periods of 100 ms in which it had anything to do, the share in which it had to wait because its share of
    /// processors was used up.
    #[serde(default)]
    pub throttled_share: f64,
    /// Time that it had to wait for that, added up over processors, in seconds.
    pub throttled_s: f64,
    /// Processes that were killed because its memory was used up.
    pub oom_kills: u64,
    /// The most memory that it had since it was limited, in bytes, with the cache of its files.
    pub memory_peak_bytes: u64,
}

/// What a store's processes used. Counts are of the phase alone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StoreUseResult {
    /// Whose they are.
    pub whose: WatchedProcess,
    /// Processor time, in seconds, counted in ns. Null in results of older versions, which have the kernel's ticks only.
    #[serde(default)]
    pub cpu_s: Option<f64>,
    /// Of it in user mode, in seconds, in the kernel's ticks (of 10 ms, mostly).
    pub cpu_user_s: f64,
    /// The same in the kernel.
    pub cpu_system_s: f64,
    /// Processor time of an operation, in µs. Null without operations. Of a store within the client that of the client's
    /// process, without active waiting: `client.process_cpu_us_per_op`.
    pub cpu_us_per_op: Option<f64>,
    /// Resident memory at most, in bytes: what processes share counts for each of them. Of a store within the client that
    /// of the client's process: `client.rss_max_bytes`.
    pub rss_max_bytes: u64,
    /// Their share of resident memory at the end, in bytes: what they share counts once. 0 where it is not told.
    pub pss_bytes: u64,
    /// Resident memory of a document that the store holds, in bytes. Null where their number is not known.
    pub memory_per_document_bytes: Option<f64>,
    /// Bytes that storage had to read.
    pub read_bytes: u64,
    /// Bytes that were sent to storage, as the kernel counts them: whole groups of pages as they become dirty, which may be many
    /// times what was written to them.
    pub write_bytes: u64,
    /// Calls that read.
    pub read_calls: u64,
    /// Calls that write.
    pub write_calls: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
    /// Switches to another process because it waited.
    pub waits: u64,
    /// Switches to another process because its time was over.
    pub preemptions: u64,
    /// Processes, at most.
    pub processes_max: u64,
    /// Threads, at most.
    pub threads_max: u64,
    /// Open files, at most.
    pub open_files_max: u64,
}

impl StoreUseResult {
    /// Processor time in seconds.
    pub fn processor_s(&self) -> f64 {
        self.cpu_s.unwrap_or(self.cpu_user_s + self.cpu_system_s)
    }
}

/// What a machine used, as shares of the time: 1 is all of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct HostResult {
    /// Of all processors: in use.
    pub cpu_busy_share: f64,
    /// Of all processors: idle while something waited for a disk.
    pub disk_wait_share: f64,
    /// Of all processors: taken by the host of a virtual machine.
    pub stolen_share: f64,
    /// Of the time: some task waited for a processor (pressure stall information; 0 where the system does not tell).
    pub cpu_pressure_share: f64,
    /// The same for memory.
    pub memory_pressure_share: f64,
    /// The same for disks.
    pub disk_pressure_share: f64,
    /// Memory that could be had without swapping, at least, in bytes.
    pub available_min_bytes: u64,
}

/// A store's folder.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FolderResult {
    /// Bytes on the disk when the phase began.
    pub begin_bytes: u64,
    /// When it had ended.
    pub end_bytes: u64,
    /// At most.
    pub max_bytes: u64,
    /// Files when it had ended.
    pub files: u64,
    /// Bytes on the disk for each byte of documents, after the phase and what it was waited for (`disk_bytes` of
    /// `store_after`). Null where these are not known.
    pub space_amplification: Option<f64>,
}

/// A machine's network over a phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NetworkResult {
    /// Received from other machines, in bytes.
    pub received_bytes: u64,
    /// Sent to other machines, in bytes.
    pub sent_bytes: u64,
    /// What processes of the machine sent each other, in bytes.
    pub local_bytes: u64,
    /// What its fastest interface carries in each direction, in bytes per second; null where none tells.
    pub most_per_s: Option<u64>,
}
