//! What a run would do: every trial spelled out, nothing touched.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run does, in full.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The study's title.
    pub title: String,
    /// Everything random is drawn from it.
    pub seed: u64,
    /// Multiplies how many documents there are.
    pub scale: f64,
    /// How often every store is measured.
    pub repeats: u32,
    /// The documents.
    pub collections: Vec<PlannedCollection>,
    /// What is done in each trial, in this order.
    pub phases: Vec<PlannedPhase>,
    /// Every trial, in the order they run.
    pub trials: Vec<PlannedTrial>,
    /// How long and how large, roughly.
    pub estimate: Estimate,
}

/// The documents of one collection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PlannedCollection {
    /// Its name.
    pub collection: String,
    /// Documents, after scale, relation and file.
    pub count: u64,
    /// Mean size of a document, from a sample.
    pub mean_bytes: u64,
    /// All documents.
    pub total_bytes: u64,
    /// The file they come from, for the user's own.
    pub from: Option<String>,
    /// The wanted ratio of zstd over pages, if one is wanted.
    pub compress_to: Option<f64>,
    /// The least and greatest ratio that the fields can reach.
    pub reachable: Option<(f64, f64)>,
    /// Secondary indexes.
    pub indexes: Vec<Vec<String>>,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PlannedPhase {
    /// Its name.
    pub name: String,
    /// Whether it loads.
    pub loads: bool,
    /// Whether it only warms up.
    pub warm_up: bool,
    /// What it does, in words: `load users`, `read 50 %, update 50 %`.
    pub does: String,
    /// Documents that a load writes.
    pub documents: Option<u64>,
    /// Bytes that a load writes.
    pub bytes: Option<u64>,
    /// Operations, where that is known.
    pub operations: Option<u64>,
    /// How long it sends, where that is known.
    pub duration_ns: Option<u64>,
    /// Operations due per second as the study says it, in words; none in closed loop.
    pub rate: Option<String>,
    /// Threads that send operations.
    pub workers: u32,
    /// Connections of each worker.
    pub connections: u32,
    /// Operations in flight on each connection.
    pub in_flight: u32,
    /// Which keys are asked for more often.
    pub popularity: String,
}

/// One store measured once.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PlannedTrial {
    /// Number in the order they run, from 1.
    pub trial: u32,
    /// The block it belongs to, from 1.
    pub block: u32,
    /// Name of the store.
    pub store: String,
    /// Its URL, without secrets.
    pub url: String,
}

/// How long and how large, roughly.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The shortest it may take: phases of a known length, loads and counted phases at the fast end
    /// of what stores do.
    pub least_s: f64,
    /// The same at the slow end.
    pub most_s: f64,
    /// What these ends are.
    pub assumes: String,
    /// Bytes of documents written by one trial.
    pub written_bytes: u64,
    /// Disk that one store may need: documents, keys, indexes and what a store adds.
    pub disk_bytes: u64,
}
