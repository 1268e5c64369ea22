//! Histogram logs: HdrHistogram's interval log, V2 compressed, which other tools can read.
//!
//! One file holds one phase of one trial. Each line is one histogram of one interval, tagged `OPERATION.response`,
//! `OPERATION.service`, `OPERATION.failed`, `OPERATION.client-queueing` or `send-delay`. Values are in ns; the
//! plain-text maximum is in ms.

use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
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

/// A name without the characters that a tag must not contain.
fn tag_name(name: &str) -> String {
    name.chars().map(|c| if c == ',' || c.is_whitespace() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

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
                    let packed = base64_decode(line.encoded_histogram());
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
    }

    /// Standard base64 with padding, for the test only.
    fn base64_decode(text: &str) -> Vec<u8> {
        let value = |c: u8| match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            other => panic!("{other} is not base64"),
        };
        let mut out = Vec::new();
        for four in text.trim_end_matches('=').as_bytes().chunks(4) {
            let bits = four.iter().fold(0u32, |bits, c| bits << 6 | u32::from(value(*c))) << (6 * (4 - four.len()));
            out.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
        }
        out
    }
}
