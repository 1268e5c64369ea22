//! Indexes that a study gives in the stores' own words.

use serde::{Deserialize, Serialize};

use crate::human::{bytes, duration};

/// An index that a trial built after its load.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

impl IndexResult {
    /// How long it took to build, and its size: `built in 1.23 s, 4.56 MiB`.
    pub fn in_words(&self) -> String {
        let built = self.build_ns.map(|ns| format!("built in {}", duration(ns as f64)));
        let size = self.bytes.map(|size| bytes(size as f64));
        format!("{}, {}", built.as_deref().unwrap_or("already existed"), size.as_deref().unwrap_or("size unknown"))
    }
}
