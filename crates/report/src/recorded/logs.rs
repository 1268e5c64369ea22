//! Histogram logs: one file for each phase of a trial.

use std::path::Path;

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::ReportError;

/// One histogram of an interval.
#[derive(Debug)]
pub(crate) struct HistogramOf {
    /// The operation.
    pub(crate) op: String,
    /// `response` or `service`.
    pub(crate) series: String,
    /// Since the phase began.
    pub(crate) from_s: f64,
    /// Values in ns.
    pub(crate) histogram: Histogram<u64>,
}

/// The histograms of a phase, in order of time.
pub(crate) type Histograms = Vec<HistogramOf>;

/// Reads the response and service times of a log.
pub(super) fn read(path: &Path) -> Result<Histograms, ReportError> {
    let damaged = |what: String| ReportError::Damaged { path: path.to_owned(), what };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(damaged(format!("cannot be read: {error}"))),
    };
    let mut all = Vec::new();
    let mut deserializer = Deserializer::new();
    for entry in IntervalLogIterator::new(&bytes) {
        let LogEntry::Interval(line) = entry.map_err(|e| damaged(format!("invalid histogram log: {e:?}")))? else {
            continue;
        };
        let Some((op, series)) = line.tag().and_then(|tag| tag.as_str().rsplit_once('.')) else { continue };
        if !matches!(series, "response" | "service") {
            continue;
        }
        let packed = base64::engine::general_purpose::STANDARD
            .decode(line.encoded_histogram())
            .map_err(|e| damaged(format!("contains a line that is not base64: {e}")))?;
        let histogram = deserializer
            .deserialize(&mut packed.as_slice())
            .map_err(|e| damaged(format!("contains a histogram that cannot be decoded: {e}")))?;
        all.push(HistogramOf {
            op: op.to_owned(),
            series: series.to_owned(),
            from_s: line.start_timestamp().as_secs_f64(),
            histogram,
        });
    }
    Ok(all)
}
