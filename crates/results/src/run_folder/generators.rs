//! The parts of a merged run, each a generator of load of its own.

use serde::{Deserialize, Serialize};

use crate::environment::Environment;

use super::phase::{AllOps, ClientUse};

/// The parts of a merged run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartsResult {
    /// How many parts the run was divided into.
    pub of: u32,
    /// Parts without a result: nothing of them was merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<u32>,
    /// The parts that were merged, in order.
    pub merged: Vec<PartResult>,
}

/// One part of a merged run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartResult {
    /// Its number, from 1.
    pub part: u32,
    /// Its run folder.
    pub folder: String,
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// When it ended. Null if it did not end by itself.
    pub ended: Option<String>,
    /// Why it is incomplete, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// Its machine.
    pub environment: Environment,
}

/// What one part did in a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GeneratorResult {
    /// Number of the part, from 1.
    pub part: u32,
    /// How long after the first part it began the phase, by the clocks of both machines, in ns.
    pub began_after_ns: u64,
    /// How long after the agreed time it began the phase, by its own clock, in ns. Null if there was no agreement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// Its workers.
    pub workers: u32,
    /// Operations that ended.
    pub operations: u64,
    /// Successes and misses per second.
    pub answered_per_s: f64,
    /// Times of all its operations.
    pub all: AllOps,
    /// What its process used of its machine.
    pub client: ClientUse,
}
