//! The records of one part of a run, which merging needs: `part.jsonl.gz`.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storebench_engine::measure::PhaseRecord;

use super::pass::Pass;
use super::secrets::Secrets;
use super::tables::{packed, rows_of};

/// The file, in the folder of a part.
pub(super) const PART_FILE: &str = "part.jsonl.gz";

/// One pass of a phase.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PartRow {
    pub(crate) trial: u32,
    pub(crate) phase: String,
    pub(crate) pass: String,
    record: Box<RawValue>,
}

impl PartRow {
    /// Its record; `None` if it is damaged.
    pub(crate) fn record(&self) -> Option<PhaseRecord> {
        PhaseRecord::from_json(self.record.get().as_bytes()).ok()
    }
}

/// A row as a member of the file, without secrets.
pub(super) fn part_row(trial: u32, pass: Pass, record: &PhaseRecord, secrets: &Secrets) -> io::Result<Vec<u8>> {
    let mut record = record.clone();
    record.messages.iter_mut().for_each(|(message, _)| *message = secrets.hide(message));
    record.wrong_examples.iter_mut().for_each(|example| *example = secrets.hide(example));
    for text in [record.partial.as_mut().map(|partial| &mut partial.why), record.store_stats.message.as_mut()] {
        text.into_iter().for_each(|text| *text = secrets.hide(text));
    }
    if let Some(ledger) = &mut record.ledger {
        let examples = ledger.examples.iter_mut().chain(&mut ledger.reads.examples);
        examples.for_each(|example| *example = secrets.hide(example));
    }
    let phase = record.name.clone();
    let json = String::from_utf8(record.to_json()?).map_err(io::Error::other)?;
    let record = RawValue::from_string(json)?;
    packed(std::iter::once(PartRow { trial, phase, pass: pass.to_string(), record }))
}

/// The rows of a part.
///
/// # Errors
/// The file cannot be read, or is damaged before its end.
pub(crate) fn part_rows(folder: &Path) -> io::Result<Vec<PartRow>> {
    rows_of(&folder.join(PART_FILE))
}
