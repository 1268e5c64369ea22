//! What was done to a store's server.

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use storebench_study::workload::FaultKind;

/// A fault: what was done to the store's server while a phase ran, and what clients saw of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FaultResult {
    /// What was done.
    pub what: FaultKind,
    /// Nodes of the store that it was done to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nodes: u32,
    /// Nodes of the store that the run controls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub of_nodes: u32,
    /// What more is to be said of it, such as by how much a link was slower.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// When, in ns from the phase's start; null where the phase was over before.
    pub began_ns: Option<u64>,
    /// When the server was told to run again, in ns from the phase's start.
    pub mended_ns: Option<u64>,
    /// When somebody listened on the server's port again, in ns from the phase's start; null where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listening_ns: Option<u64>,
    /// When the store answered control calls again, in ns from the phase's start.
    pub ready_ns: Option<u64>,
    /// Clients: the longest time around it in which none was answered, in ns; 0 where none was as long as an interval.
    pub unavailable_ns: u64,
    /// The same of each operation that had such a time, by name.
    pub unavailable_by_op_ns: IndexMap<String, u64>,
    /// Clients: from the fault until an answer ended that time, in ns; null where none did.
    pub first_answer_ns: Option<u64>,
    /// Clients: the same of each operation that had such a time and was answered again, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub first_answer_by_op_ns: IndexMap<String, u64>,
    /// How much later the first client was answered than the store had answered control calls (`ready_ns`), in ns; so much at
    /// least where `first_answer_ns` is null. Null where clients were answered throughout. So long the outage may be the
    /// client's, and not the store's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients_late_ns: Option<u64>,
    /// Clients: from the fault until 95 % of the rate before were answered, and for a second on; null where that was not
    /// reached, or no rate before is known.
    pub recovered_ns: Option<u64>,
    /// Of a power cut: what the disk forgot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<ForgottenResult>,
    /// Of a cold start: what was dropped from the system's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
    /// Why it could not be done, or mended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What a disk forgot when its power was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ForgottenResult {
    /// Files whose content is older than it was.
    pub files: u64,
    /// Bytes of pages that had not been synced.
    pub bytes: u64,
    /// Operations on names that had not been: files made, renamed, removed.
    pub names: u64,
}

/// How a server was started again before a phase.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RestartedResult {
    /// How long it took to stop in order, in ns.
    pub stop_ns: u64,
    /// What was dropped from the system's cache meanwhile; null where nothing was to be.
    pub dropped: Option<String>,
    /// From its start until somebody listened on its port, in ns; null where that is not known.
    pub listening_ns: Option<u64>,
    /// From its start until it and the store answered, in ns.
    pub ready_ns: u64,
}
