//! Indexes that a study gives in the stores' own words.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An index that a trial built after its load.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct IndexResult {
    /// The collection that it is of.
    pub collection: String,
    /// Its name in the study.
    pub name: String,
    /// How long the store took until queries could use it, in ns. Null if it existed already.
    pub build_ns: Option<u64>,
    /// Its size when it was built, in bytes. Null if the store does not report it.
    pub bytes: Option<u64>,
}
