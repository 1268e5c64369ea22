//! Faults and restarts of a store's server.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use storebench_study::workload::FaultKind;

/// A fault: what was done to the store's server during a phase, and what clients saw of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultResult {
    /// What was done.
    pub what: FaultKind,
    /// How many nodes of the store it was done to.
    #[serde(default, skip_serializing_if = "super::operations::is_zero")]
    pub nodes: u32,
    /// How many nodes of the store the run controls.
    #[serde(default, skip_serializing_if = "super::operations::is_zero")]
    pub of_nodes: u32,
    /// Further details, such as by how much a link was slowed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// When it began, in ns from the phase's start. Null if the phase was over before.
    pub began_ns: Option<u64>,
    /// When the server was told to run again, in ns from the phase's start.
    pub mended_ns: Option<u64>,
    /// When a process listened on the server's port again, in ns from the phase's start. Null if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listening_ns: Option<u64>,
    /// When the store answered control calls again, in ns from the phase's start.
    pub ready_ns: Option<u64>,
    /// The longest time around the fault in which no client got an answer, in ns. 0 if it was shorter than an interval.
    pub unavailable_ns: u64,
    /// The same for each operation that had such an outage, by name.
    pub unavailable_by_op_ns: IndexMap<String, u64>,
    /// From the fault until an answer ended that outage, in ns. Null if none did.
    pub first_answer_ns: Option<u64>,
    /// The same for each operation that had such an outage and got answers again, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub first_answer_by_op_ns: IndexMap<String, u64>,
    /// How much later than the store's first answer to control calls (`ready_ns`) the first client got an answer, in
    /// ns. A lower bound if `first_answer_ns` is null. Null if clients got answers throughout. For this time the outage
    /// may be the client's, not the store's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients_late_ns: Option<u64>,
    /// From the fault until clients got answers at 95 % of the earlier rate for a second. Null if that was not reached,
    /// or the earlier rate is unknown.
    pub recovered_ns: Option<u64>,
    /// For a power cut: what the disk lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<ForgottenResult>,
    /// For a cold start: what was dropped from the operating system's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
    /// How a server that had to do without disk space or other resources ended by itself, although nothing had asked it
    /// to. A later fault of the phase started it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_ended: Option<String>,
    /// Why the fault could not be injected, or undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a disk lost in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForgottenResult {
    /// Files whose content went back to an older state.
    pub files: u64,
    /// Bytes of pages that had not been synced.
    pub bytes: u64,
    /// Operations on names that had not been synced: files created, renamed, removed.
    pub names: u64,
}

/// How a server was restarted before a phase.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestartedResult {
    /// How long an orderly stop took, in ns.
    pub stop_ns: u64,
    /// What was dropped from the operating system's cache meanwhile. Null if nothing was to be dropped.
    pub dropped: Option<String>,
    /// From its start until a process listened on its port, in ns. Null if unknown.
    pub listening_ns: Option<u64>,
    /// From its start until it and the store answered, in ns.
    pub ready_ns: u64,
}
