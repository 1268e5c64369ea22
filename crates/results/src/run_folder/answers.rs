//! What queries of a study answered, so that stores can be compared.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// What one query answered, for comparison with other stores.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueryAnswers {
    /// Name of its phase.
    pub phase: String,
    /// Its name in the mix.
    pub query: String,
    /// Whether the order of the rows counts.
    pub ordered: bool,
    /// Its answers, with the same values on every store.
    pub answers: Vec<QueryAnswer>,
}

/// What a store answered to the operations of a trace, for comparison with other stores.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayAnswers {
    /// Operations whose answers can be compared.
    pub compared: u64,
    /// Operations that are left out, because several clients use their document and one writes it: their order may differ
    /// from store to store.
    pub left_out: u64,
    /// Hash of all answers that can be compared (hexadecimal).
    pub hash: String,
    /// The configuration with which they were compared: the first with the same documents. Omitted for that one, and if the
    /// run was resumed in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// Operations that the two answered differently.
    pub different: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

/// One answer to a query.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueryAnswer {
    /// The values of its parameters, by name.
    pub values: IndexMap<String, serde_json::Value>,
    /// Its rows.
    pub rows: u64,
    /// Hash of all rows in any order (hexadecimal). Members of objects are sorted, numbers are compared to twelve digits,
    /// and members that belong to the store are left out.
    pub hash: String,
    /// Hash of all rows in their order.
    pub ordered_hash: String,
    /// The first rows, at most 100.
    pub first: Vec<AnswerRow>,
}

/// A row of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerRow {
    /// Its hash.
    pub hash: String,
    /// Its beginning, at most 120 characters.
    pub text: String,
}
