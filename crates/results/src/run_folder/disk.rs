//! What reached the disk of a store's folder.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A disk over a phase, by its own counters: what a file system writes for itself is in them, and what others write.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DiskResult {
    /// Its name in the system.
    pub name: String,
    /// Bytes read, whoever read them.
    pub read_bytes: u64,
    /// Bytes written, whoever wrote them.
    pub write_bytes: u64,
    /// Of them what others wrote, taken to be as many each second as before the phase. Null where that was not looked at.
    #[serde(default)]
    pub others_write_bytes: Option<u64>,
    /// Bytes written to it without those of others, for each byte of documents that was written. Null where none was, and
    /// where others may have written as much.
    pub write_amplification: Option<f64>,
    /// Why there is none though documents were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amplification_unknown: Option<String>,
    /// Times that its own cache was flushed, as for a sync.
    pub flushes: u64,
}
