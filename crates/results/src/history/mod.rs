//! Runs over months: their figures in plain files, and the run with which one changed.

mod baseline;
mod changes;
mod entry;
mod folder;
#[cfg(test)]
mod line_tests;
mod lines;
mod model;
mod needed;
mod report;
#[cfg(test)]
mod tests;
mod text;

pub use baseline::{DEFAULT_LAST, HistoryBaseline};
pub use folder::{Added, HistoryError, add, read};
pub use model::{HISTORY_FORMAT, HistoryConfiguration, HistoryEntry, Invalid};
pub use needed::{FigureRuns, RunsLeftOut, RunsNeeded, runs_needed};
pub use report::{
    DEFAULT_FALSE_ALARM_EVERY, DEFAULT_RECENT, HISTORY_REPORT_FORMAT, HistoryChange, HistoryLine, HistoryReport,
    HistoryRequest, HistoryRun, HistoryTakenBack, HistoryValue, history_report,
};
pub use text::{
    history_annotations, history_answer, history_changes, history_junit, history_markdown, history_notes,
    history_table, history_text,
};

/// The JSON Schema of the output of `history check --json`.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(HistoryReport).to_value()
}
