//! Histogram logs: HdrHistogram's interval log, V2 compressed, which other tools can read.
//!
//! One file holds one phase of one trial. Each line is one histogram of one interval, tagged `OPERATION.response`,
//! `OPERATION.service`, `OPERATION.failed`, `OPERATION.client-queueing` or `send-delay`. Values are in ns; the
//! plain-text maximum is in ms.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, IntervalLogWriterError, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use storebench_engine::measure::PhaseRecord;

/// The log of a phase as bytes.
///
/// # Errors
/// A histogram cannot be serialized.
pub fn histogram_log(record: &PhaseRecord, title: &str) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let began = std::time::UNIX_EPOCH + Duration::from_nanos(record.began_unix_ns);
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(&format!("[Storebench: {}; values in ns]", title.replace(['\r', '\n'], " ")))
        .with_start_time(began)
        // Without a base time, readers guess whether times are relative to the start.
        .with_base_time(began)
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut out, &mut serializer)?;
    // The format has this legend of columns without a comment sign. A Java reader skips it, but the hdrhistogram crate
    // would take it for a histogram, so it is written as a comment.
    log.write_comment("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"")?;
    for interval in &record.intervals {
        let seen = interval.record();
        let from = Duration::from_nanos(interval.from_ns);
        let length = Duration::from_nanos(interval.to_ns.saturating_sub(interval.from_ns));
        let mut write = |histogram: &Histogram<u64>, tag: &str| -> std::io::Result<()> {
            if histogram.is_empty() {
                return Ok(());
            }
            log.write_histogram(histogram, from, length, Tag::new(tag)).map_err(|e| match e {
                IntervalLogWriterError::IoError(e) => e,
                IntervalLogWriterError::SerializeError(e) => std::io::Error::other(e.to_string()),
            })
        };
        for (label, tally) in record.labels.iter().zip(&seen.ops) {
            let name = tag_name(&label.name);
            for (histogram, series) in [
                (&tally.response, "response"),
                (&tally.service, "service"),
                (&tally.failed_time, "failed"),
                (&tally.client_queueing, "client-queueing"),
            ] {
                write(histogram, &format!("{name}.{series}"))?;
            }
        }
        write(&seen.send_delay, "send-delay")?;
    }
    Ok(out)
}

/// The times of an operation over all intervals of a log: `series` is `response`, `service`, `failed` or
/// `client-queueing`.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn merged_log(path: &Path, operation: &str, series: &str) -> std::io::Result<Histogram<u64>> {
    let bytes = std::fs::read(path)?;
    let wanted = format!("{}.{series}", tag_name(operation));
    let damaged = |what: String| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    let mut merged = storebench_engine::measure::histogram();
    for entry in IntervalLogIterator::new(&bytes) {
        let LogEntry::Interval(line) = entry.map_err(|e| damaged(format!("a damaged line: {e:?}")))? else { continue };
        if line.tag().is_some_and(|tag| tag.as_str() == wanted) {
            let packed = STANDARD.decode(line.encoded_histogram()).map_err(|e| damaged(e.to_string()))?;
            let read: Result<Histogram<u64>, _> = Deserializer::new().deserialize(&mut &packed[..]);
            let read = read.map_err(|e| damaged(format!("a damaged histogram: {e}")))?;
            merged.add(&read).map_err(|e| damaged(e.to_string()))?;
        }
    }
    Ok(merged)
}

/// A name without the characters that a tag must not contain.
fn tag_name(name: &str) -> String {
    name.chars().map(|c| if c == ',' || c.is_whitespace() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_log_reads_back_with_every_count() {
        let record = fixture::open_loop();
        let bytes = histogram_log(&record, "a title\nof two lines").unwrap();
        let mut counts = indexmap::IndexMap::<String, u64>::new();
        let mut merged = storebench_engine::measure::histogram();
        let (mut start, mut base) = (false, false);
        for entry in IntervalLogIterator::new(&bytes) {
            match entry.unwrap() {
                LogEntry::StartTime(_) => start = true,
                LogEntry::BaseTime(_) => base = true,
                LogEntry::Interval(line) => {
                    let packed = STANDARD.decode(line.encoded_histogram()).unwrap();
                    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &packed[..]).unwrap();
                    let tag = line.tag().unwrap().as_str().to_owned();
                    if tag == "read.response" {
                        merged.add(&histogram).unwrap();
                    }
                    *counts.entry(tag).or_default() += histogram.len();
                }
            }
        }
        assert!(start && base);
        let read = &record.total.ops[0];
        assert_eq!(counts["read.response"], read.response.len());
        assert_eq!(counts["read.service"], read.service.len());
        assert_eq!(counts["send-delay"], record.total.send_delay.len());
        assert_eq!(merged.value_at_quantile(0.99), read.response.value_at_quantile(0.99));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        assert_eq!(merged_log(file.path(), "read", "response").unwrap(), read.response);
        assert!(merged_log(file.path(), "read", "no-such-series").unwrap().is_empty());
        std::fs::write(file.path(), &bytes[..bytes.len() / 2]).unwrap();
        assert!(merged_log(file.path(), "read", "response").is_err());
    }
}
