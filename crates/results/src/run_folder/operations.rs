//! What happened to the operations of one label.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use storebench_study::op_kind::OpKind;

use super::phase::Percentiles;

/// Whether a number is left out.
pub(crate) fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// What happened to the operations of one label.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpResult {
    /// The operation: `read`, `upsert`, `bulk-insert`, `copy-in`, …
    pub kind: String,
    /// The collection.
    pub collection: String,
    /// Documents per operation (1 except for bulk operations).
    pub batch: u32,
    /// Operations that ended: succeeded, missed or failed.
    pub count: u64,
    /// Operations that did what was asked.
    pub succeeded: u64,
    /// Operations that found no document; inserts of a trace that found their document there already.
    pub misses: u64,
    /// Of these, what a trace explains: misses of documents that did not exist before the trace, and inserts of those that
    /// did, or that other operations create, too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub misses_of_new: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Failed operations by kind. Kinds that did not occur are left out.
    pub errors_by_kind: IndexMap<String, u64>,
    /// Failed operations that were given up at the timeout.
    pub timed_out: u64,
    /// Operations that were scheduled, but unfinished when the phase ended.
    pub unfinished: u64,
    /// Retries after temporary failures, and after a transaction was undone.
    pub retries: u64,
    /// Tries of transactions that the store undid because of another one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conflicts: u64,
    /// Successes divided by the elapsed time of the phase. In an open loop the divisor is the time in which they reach
    /// the achieved rate, so that one late answer in the drain does not distort the figure.
    pub throughput_per_s: f64,
    /// Documents written, read or found.
    pub documents: u64,
    /// `documents` divided by the same time.
    pub documents_per_s: f64,
    /// Bytes of keys and documents sent with writes.
    pub written_bytes: u64,
    /// Bytes of documents read.
    pub read_bytes: u64,
    /// Standard deviation of the documents of an operation that succeeded. Null without any.
    pub documents_sd: Option<f64>,
    /// The same of the bytes sent, over all tries.
    pub written_bytes_sd: Option<f64>,
    /// The same of the bytes read.
    pub read_bytes_sd: Option<f64>,
    /// Documents whose contents were compared with the expected ones.
    pub checked: u64,
    /// Checked documents that differed.
    pub wrong: u64,
    /// Queries in transactions with a number of rows that the study does not expect.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wrong_rows: u64,
    /// How the store said that it would answer, if it reports that for page, prefix, scan, view and query.
    pub query_plan: Option<QueryPlanResult>,
    /// Open loop: from the scheduled start to the end, for successes, misses and unfinished operations (the latter with
    /// their age at the end, a lower bound). Null in a closed loop.
    pub response_ns: Option<Percentiles>,
    /// The same over all attempts, if some failed or were not answered when the phase ended. Those count as infinitely
    /// slow, and a percentile that falls among them is null. Limits, and the figures that configurations are compared
    /// by, are over all attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_of_attempts_ns: Option<Percentiles>,
    /// From the send to the end, for successes and misses.
    pub service_ns: Percentiles,
    /// The same over all attempts, as for the response times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_of_attempts_ns: Option<Percentiles>,
    /// From the scheduled start (closed loop: the send) to the end, for failed operations.
    pub failed_ns: Percentiles,
    /// Open loop: how long a scheduled operation waited because the in-flight limit was reached. Null in a closed loop.
    pub client_queueing_ns: Option<Percentiles>,
}

impl OpResult {
    /// Its kind; `None` for a copy, and in results of another version that has other operations.
    pub fn op_kind(&self) -> Option<OpKind> {
        OpKind::ALL.into_iter().find(|kind| kind.name() == self.kind)
    }
}

/// How a store would answer a query.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueryPlanResult {
    /// The field that a page queries.
    pub field: Option<String>,
    /// The plan as the store prints it, at most 8,000 characters.
    pub plan: String,
    /// Whether it reads the whole collection.
    pub full_scan: bool,
}
