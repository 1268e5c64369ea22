//! What the workers of a phase saw of some documents, and whether some order explains it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use storebench_consistency::{BrokenKey, History, HistoryError, Report, Staleness};

/// The most documents that are shown with the operations that no order explains.
const EXAMPLES: usize = 3;

/// What a consistency check found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct HistoryResult {
    /// Documents that were followed and used.
    pub keys: u64,
    /// Operations on them.
    pub operations: u64,
    /// Of these: operations of unknown outcome.
    pub unknown: u64,
    /// Documents whose operations some order explains.
    pub linearizable: u64,
    /// Documents whose operations no order explains.
    pub broken: u64,
    /// Of `broken`: those where the operations that no order explains were before and after a fault, which may have
    /// taken acknowledged writes with it.
    pub broken_across_fault: u64,
    /// Documents for which it could not be decided.
    pub undecided: u64,
    /// Whether there were more operations than can be kept. Then nothing was judged.
    pub overflowed: bool,
    /// How far reads were behind, over all documents.
    pub staleness: Staleness,
    /// The shortest sequences that no order explains, of at most 3 documents.
    pub examples: Vec<BrokenKey>,
    /// The file of the run folder that holds the operations, for `storebench check`.
    pub file: Option<String>,
}

impl HistoryResult {
    /// From the report on a history, and the times of faults in ns since the phase began.
    pub fn of(report: Report, struck: &[u64]) -> Self {
        let across = |key: &&BrokenKey| {
            let (from, to) = key.span();
            struck.iter().any(|at| (from..=to).contains(at))
        };
        let Report { keys, operations, unknown, linearizable, mut broken, undecided, staleness, .. } = report;
        let number = broken.len() as u64;
        let broken_across_fault = broken.iter().filter(across).count() as u64;
        broken.truncate(EXAMPLES);
        Self {
            keys,
            operations,
            unknown,
            linearizable,
            broken: number,
            broken_across_fault,
            undecided: undecided.len() as u64,
            overflowed: false,
            staleness,
            examples: broken,
            file: None,
        }
    }
}

/// Writes a history as compressed JSON lines.
pub(super) fn write_history(history: &History, out: impl Write) -> std::io::Result<()> {
    let mut packed = GzEncoder::new(std::io::BufWriter::with_capacity(1 << 16, out), Compression::fast());
    history.write(&mut packed)?;
    packed.finish()?.flush()
}

/// Reads a history, which may be compressed with gzip.
///
/// # Errors
/// The file cannot be read, or a line is wrong.
pub fn read_history(path: &Path) -> Result<History, HistoryError> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(HistoryError::Io)?);
    let start = file.fill_buf().map_err(HistoryError::Io)?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return History::read(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file)));
    }
    History::read(file)
}
