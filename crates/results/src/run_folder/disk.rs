//! What reached the disk of a store's folder.

use serde::{Deserialize, Serialize};

/// A disk over a phase, by its own counters. They include what the file system writes for itself, and what other
/// processes write.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskResult {
    /// Its name in the system.
    pub name: String,
    /// Bytes read, by any process.
    pub read_bytes: u64,
    /// Bytes written, by any process.
    pub write_bytes: u64,
    /// The part of them that other processes wrote, assuming the same rate as before the phase. Null if that was not
    /// measured.
    pub others_write_bytes: Option<u64>,
    /// Bytes written to it, without those of other processes, for each byte of documents written. Null if no documents
    /// were written, or other processes may have written as much.
    pub write_amplification: Option<f64>,
    /// Why there is no write amplification although documents were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amplification_unknown: Option<String>,
    /// How often its own cache was flushed, as for a sync.
    pub flushes: u64,
}
