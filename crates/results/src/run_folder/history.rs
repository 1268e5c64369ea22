//! What the workers of a phase saw of some documents, and whether some order explains it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use storebench_consistency::{BrokenKey, History, HistoryError, Report, Staleness};

use crate::human::{count, duration, plural};

/// The most documents that are shown with the operations that no order explains.
const EXAMPLES: usize = 3;

/// What a consistency check found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Of `broken`: those that some order explains if faults took acknowledged writes, as the durability allows, or if the
    /// store evicted documents.
    pub excused: u64,
    /// Whether a fault may have taken acknowledged writes during the phase, as the durability allows.
    pub lossy: bool,
    /// Documents that the store evicted during the phase, by its own statistics.
    pub evicted: u64,
    /// Reads that missed a write of their own connection, or went back, and that no such fault explains.
    pub session_broken: u64,
    /// Documents that several connections used, of which at least one wrote and one read.
    pub shared: u64,
    /// Reads of something that is no version of the document.
    pub foreign: u64,
    /// Documents for which it could not be decided.
    pub undecided: u64,
    /// Whether there were more operations than can be kept. Then nothing was judged.
    pub overflowed: bool,
    /// The history counts the versions that the phase wrote from 1. The version in a document is that number plus this one.
    pub versions_above: u64,
    /// How far reads were behind, over all documents.
    pub staleness: Staleness,
    /// The shortest sequences that no order explains, of at most 3 documents.
    pub examples: Vec<BrokenKey>,
    /// The file of the run folder that holds the operations, for `storebench check`.
    pub file: Option<String>,
}

impl HistoryResult {
    /// From the report on a history, and the keys that are excused: those are shown last.
    pub fn of(report: Report, excused: &BTreeSet<String>) -> Self {
        let Report { keys, operations, unknown, linearizable, mut broken, undecided, staleness, .. } = report;
        let number = broken.len() as u64;
        broken.sort_by_key(|of| excused.contains(&of.key));
        broken.truncate(EXAMPLES);
        Self {
            keys,
            operations,
            unknown,
            linearizable,
            broken: number,
            excused: excused.len() as u64,
            undecided: undecided.len() as u64,
            staleness,
            examples: broken,
            ..Self::default()
        }
    }

    /// Reads of something that nobody wrote.
    pub(crate) fn never_written(&self) -> u64 {
        self.staleness.never_written.max(self.foreign)
    }

    /// Whether some order explains everything, and no read was stale.
    pub(crate) fn is_explained(&self) -> bool {
        let stale = &self.staleness;
        let missed = stale.stale + stale.own_write_missed + stale.went_back + self.never_written();
        !self.overflowed && self.broken + self.undecided + missed == 0
    }

    /// What several phases found. The documents of each are counted.
    pub(crate) fn over<'a>(trials: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for of in trials {
            all.keys += of.keys;
            all.operations += of.operations;
            all.unknown += of.unknown;
            all.broken += of.broken;
            all.excused += of.excused;
            all.lossy |= of.lossy;
            all.shared += of.shared;
            all.evicted += of.evicted;
            all.session_broken += of.session_broken;
            all.foreign += of.foreign;
            all.undecided += of.undecided;
            all.linearizable += of.linearizable;
            all.overflowed |= of.overflowed;
            all.staleness.add(&of.staleness);
        }
        all
    }

    /// What was found, in a line without its end: `some order explains all 3,031 operations on 20 documents`.
    pub(crate) fn in_a_line(&self) -> String {
        if self.overflowed && self.keys == 0 {
            return format!("more than {} operations on the documents that are followed", count(self.operations));
        }
        let of = format!("{} on {}", plural(self.operations, "operation"), plural(self.keys, "document"));
        let mut out = match self.broken {
            0 if self.undecided == 0 => format!("some order explains all {of}"),
            0 => format!("of {of}, some order explains those on {}", plural(self.linearizable, "document")),
            broken => format!("of {of}, no order explains those on {}", plural(broken, "document")),
        };
        if self.excused > 0 {
            let why = if self.lossy { "a fault" } else { "an eviction" };
            out += &format!(", {} of which {why} explains", count(self.excused));
        }
        if self.overflowed {
            out += "; other phases had too many operations to judge";
        }
        if self.never_written() > 0 {
            out += &format!("; {} returned something that nobody wrote", plural(self.never_written(), "read"));
        }
        if self.undecided > 0 {
            out += &format!("; {} undecided", plural(self.undecided, "document"));
        }
        if self.unknown > 0 {
            out += &format!("; {} of unknown outcome", count(self.unknown));
        }
        let stale = &self.staleness;
        if stale.stale > 0 {
            out += &format!(
                "; {} of {} reads returned an overwritten version, at most {} and {} behind",
                count(stale.stale),
                count(stale.reads),
                plural(stale.versions_behind_max, "version"),
                duration(stale.time_behind_max_ns as f64)
            );
        }
        for (number, what) in [
            (stale.own_write_missed, "missed the connection's own write"),
            (stale.went_back, "went back to an older version"),
        ] {
            if number > 0 {
                out += &format!("; {} {what}", plural(number, "read"));
            }
        }
        out
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
