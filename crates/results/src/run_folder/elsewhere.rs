//! What other machines and stores tell of themselves, in Prometheus' text format, over a phase.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an endpoint told of its machine and its process over a phase: differences of its counters between the first answer and
/// the last. Null where it does not tell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ElsewhereResult {
    /// Its URL.
    pub url: String,
    /// Answers.
    pub answers: u64,
    /// How often it did not answer, or made no sense.
    pub failed: u64,
    /// Why not, the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Between the first answer and the last, in ns.
    pub span_ns: u64,
    /// Of all its processors: in use.
    pub cpu_busy_share: Option<f64>,
    /// Of all its processors: idle while something waited for a disk.
    pub disk_wait_share: Option<f64>,
    /// Of the time: some task waited for memory.
    pub memory_pressure_share: Option<f64>,
    /// Of the time: some task waited for a disk.
    pub disk_pressure_share: Option<f64>,
    /// Memory that could be had without swapping, at least, in bytes.
    pub available_min_bytes: Option<f64>,
    /// Read from its disks, in bytes.
    pub disk_read_bytes: Option<f64>,
    /// Written to its disks, in bytes.
    pub disk_write_bytes: Option<f64>,
    /// Received over its network, in bytes.
    pub network_received_bytes: Option<f64>,
    /// Sent over its network, in bytes.
    pub network_sent_bytes: Option<f64>,
    /// Processor time of the process that answers, in seconds: of the store, or of the exporter.
    pub process_cpu_s: Option<f64>,
    /// Memory of that process at most, in bytes.
    pub process_rss_max_bytes: Option<f64>,
}
