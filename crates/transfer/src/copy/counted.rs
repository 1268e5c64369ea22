//! What stores count themselves, compared with what was copied. It shows without reading anything back that a target
//! evicts documents, or takes several keys for one, and that a source answered with less than it has.

use std::borrow::Cow;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use storebench_engine::store::{Account, Durability};

use super::{Begin, CopyReport, CopyRequest};

/// What source and target count themselves, compared with what was copied.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StoreCounts {
    /// Documents that the target removed by itself during the copy, to free memory: of this copy, or older ones.
    pub evicted: u64,
    /// How many documents the target has less than were written under different keys. It was empty before.
    pub missing: u64,
    /// How many documents the source has more than were read.
    pub unread: u64,
    /// How often a connection to a target was lost that acknowledges what is not on its disk yet. If the target was
    /// restarted, documents that it had acknowledged may be missing. Zero if they were verified.
    pub disconnects: u64,
    /// What is in the source beside the documents, and was not copied.
    pub left_out: Vec<LeftOut>,
}

/// What a copy leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LeftOut {
    /// How many.
    pub count: u64,
    /// What they are.
    pub what: String,
}

impl StoreCounts {
    /// Whether documents are missing, or may be.
    pub fn is_loss(&self) -> bool {
        self.evicted + self.missing + self.unread + self.disconnects > 0
    }
}

/// What source and target counted before the copy.
pub(super) struct Before {
    source: Option<Account>,
    target: Option<Account>,
}

impl Before {
    pub(super) fn of(request: &CopyRequest<'_>) -> Self {
        Self { source: request.source.account(), target: request.sink.account() }
    }

    /// Counts again at the end of a copy. `None` if there is nothing to say. `disconnects` is how often connections to the
    /// target were lost.
    pub(super) fn compare(
        self,
        request: &CopyRequest<'_>,
        report: &CopyReport,
        disconnects: u64,
    ) -> Option<StoreCounts> {
        let mut counted = StoreCounts::default();
        let forgets = request.sink.writes().is_ok_and(|writes| writes.durability == Durability::MEMORY);
        if forgets && report.verified.as_ref().is_none_or(|verified| !verified.equal) {
            counted.disconnects = disconnects;
        }
        if let Some((before, after)) = self.target.zip(request.sink.account()) {
            // After a restart, a server counts from zero.
            counted.evicted =
                before.evicted.zip(after.evicted).map_or(0, |(before, after)| after.saturating_sub(before));
            let repeats = match &report.repeated_keys {
                None => (request.tasks.is_none()).then_some(0),
                Some(repeated) => (repeated.exact && !repeated.at_least).then_some(repeated.records),
            };
            let expected = repeats.map(|repeats| report.counts.written.saturating_sub(repeats));
            // In a place with other documents, it is not known how many were overwritten.
            let was_empty = before.documents == Some(0) && request.begin != Begin::Resume;
            if let (true, Some(found), Some(expected)) = (was_empty, after.documents, expected) {
                counted.missing = expected.saturating_sub(found);
            }
        }
        if let Some((before, after)) = self.source.zip(request.source.account()) {
            if let (Some(before), Some(after), true) =
                (before.documents, after.documents, request.begin != Begin::Resume && request.splits.is_none())
            {
                counted.unread = before.min(after).saturating_sub(report.counts.read);
            }
            let left_out = |(count, what): &(u64, Cow<'_, str>)| LeftOut { count: *count, what: what.to_string() };
            counted.left_out = before.beside.iter().map(left_out).collect();
        }
        (counted != StoreCounts::default()).then_some(counted)
    }
}
