//! What a history keeps of a run.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// The format of an entry.
pub const HISTORY_FORMAT: &str = "storebench-history/1";

/// A run in a history: its figures, its machine and the commit that it measured. Each entry is a file of its own, which
/// is never changed, so that branches of a repository can add entries and be merged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryEntry {
    /// Always `storebench-history/1`.
    pub format: String,
    /// Name of the run.
    pub run: String,
    /// The study's title.
    pub title: String,
    /// When it began (RFC 3339, UTC). Entries are ordered by it.
    pub began: String,
    /// The commit that was measured. Null if it is not known.
    pub commit: Option<String>,
    /// The branch of the commit. Null if it is not known.
    pub branch: Option<String>,
    /// Version of Storebench, with its commit if known.
    pub storebench: String,
    /// The machine of the client in words: processor, processors that it could use, memory. Runs on different machines are
    /// not compared.
    pub machine: String,
    /// The system of the client, as far as it may explain a change.
    pub system: HistorySystem,
    /// What was measured.
    pub configurations: Vec<HistoryConfiguration>,
}

/// The system of the client.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistorySystem {
    /// Kernel and its release.
    pub kernel: String,
    /// Operating system, as it names itself.
    pub os: Option<String>,
    /// Frequency governor of the first processor.
    pub governor: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
}

/// A configuration of a run in a history.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryConfiguration {
    /// Its name.
    pub configuration: String,
    /// Name and version of the store's engine or server.
    pub version: String,
    /// The host of the store, if it is another machine: runs on different ones are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A number for the work: documents, phases, limits, search, links and kept databases of the study with its overrides,
    /// seed, scale, what was found for the documents, the options in the store's URL, and what the study limits its server
    /// to. Runs in which it differs are not compared.
    pub work: String,
    /// Why figures of it do not count. Empty if all of them do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<Invalid>,
    /// The phases that documents each second describe, rather than operations each second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_documents: Vec<String>,
    /// Its figures by name (`PHASE.OP.MEASURE`), without percentiles beyond p99.9: the value, and the lower and upper end
    /// of its 95 % interval over the run's trials, which are null without one. The value is null if a trial has none:
    /// nothing succeeded, or too few operations for a percentile. Of a value that is a lower bound only the lower end is
    /// kept.
    pub figures: IndexMap<String, [Option<f64>; 3]>,
}

/// Why figures of a run do not count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Invalid {
    /// The check that found them invalid, or `partial`.
    pub check: String,
    /// The phase that it is about. Null if it is about all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}
