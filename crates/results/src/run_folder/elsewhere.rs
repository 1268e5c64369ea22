//! What other machines and stores report about themselves over a phase, in Prometheus text format.

use serde::{Deserialize, Serialize};

/// What an endpoint reported about its machine and its process over a phase: differences of its counters between the
/// first answer and the last. Null if it does not report a figure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ElsewhereResult {
    /// Its URL.
    pub url: String,
    /// Number of answers.
    pub answers: u64,
    /// How often it did not answer, or gave an invalid answer.
    pub failed: u64,
    /// The message of the first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Between the first answer and the last, in ns.
    pub span_ns: u64,
    /// Share of all its processors that was in use.
    pub cpu_busy_share: Option<f64>,
    /// Share of all its processors that was idle while something waited for a disk.
    pub disk_wait_share: Option<f64>,
    /// Share of the time in which some task waited for memory.
    pub memory_pressure_share: Option<f64>,
    /// Share of the time in which some task waited for a disk.
    pub disk_pressure_share: Option<f64>,
    /// The least memory that was available without swapping, in bytes.
    pub available_min_bytes: Option<f64>,
    /// Read from its disks, in bytes.
    pub disk_read_bytes: Option<f64>,
    /// Written to its disks, in bytes.
    pub disk_write_bytes: Option<f64>,
    /// Received over its network, in bytes.
    pub network_received_bytes: Option<f64>,
    /// Sent over its network, in bytes.
    pub network_sent_bytes: Option<f64>,
    /// CPU time of the process that answers (the store or an exporter), in seconds.
    pub process_cpu_s: Option<f64>,
    /// Peak memory of that process, in bytes.
    pub process_rss_max_bytes: Option<f64>,
}
