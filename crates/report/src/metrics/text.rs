//! A snapshot in the Prometheus text format 0.0.4.

use std::fmt::Write as _;

use super::model::{BOUNDS_NS, Labels, Snapshot, TIMES, Value};

/// The media type of the format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics as text.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    for (metric, points) in &snapshot.metrics {
        let name = metric.name;
        // Writing into a string cannot fail.
        let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {}", metric.help, metric.kind.name());
        for point in points {
            match &point.value {
                Value::Number(number) => {
                    let _ = writeln!(out, "{name}{} {number}", braced(&point.labels, None));
                }
                Value::Times(times) => {
                    let mut count: u128 = 0;
                    let bounds = BOUNDS_NS.iter().map(|ns| (*ns as f64 / 1e9).to_string());
                    for (bound, more) in bounds.chain(["+Inf".to_owned()]).zip(times) {
                        count += more;
                        let _ = writeln!(out, "{name}_bucket{} {count}", braced(&point.labels, Some(&bound)));
                    }
                    let (labels, sum) = (braced(&point.labels, None), times[TIMES - 1] as f64 / 1e9);
                    let _ = writeln!(out, "{name}_sum{labels} {sum}\n{name}_count{labels} {count}");
                }
            }
        }
    }
    out
}

/// Labels in braces, with the bound of a bucket; nothing if there are none.
fn braced(labels: &Labels, bound: Option<&str>) -> String {
    let known = labels.iter().map(|(name, value)| (*name, value.as_str())).filter(|(_, value)| !value.is_empty());
    let escaped = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let all = known.chain(bound.map(|bound| ("le", bound)));
    let all: Vec<String> = all.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::series::{Series, tests::running};

    #[test]
    fn the_text_is_as_the_format_says() {
        let text = text(&running().snapshot(0));
        let of = r#"{store="a \"quoted\" store",phase="mixed",operation="update",kind="upsert""#;
        for line in [
            "# TYPE storebench_operations_total counter".to_owned(),
            format!("storebench_operations_total{of},outcome=\"succeeded\"}} 10"),
            format!("storebench_operations_total{of},outcome=\"failed\",error=\"temporary\"}} 1"),
            format!("storebench_documents_total{of}}} 10"),
            "# TYPE storebench_service_time_seconds histogram".to_owned(),
            format!("storebench_service_time_seconds_bucket{of},le=\"0.000001\"}} 0"),
            format!("storebench_service_time_seconds_bucket{of},le=\"0.003\"}} 0"),
            format!("storebench_service_time_seconds_bucket{of},le=\"0.005\"}} 1"),
            format!("storebench_service_time_seconds_bucket{of},le=\"+Inf\"}} 1"),
            format!("storebench_service_time_seconds_count{of}}} 1"),
            "storebench_in_flight{store=\"a \\\"quoted\\\" store\",phase=\"mixed\"} 7".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "no line `{line}` in\n{text}");
        }
        assert!(!text.contains("response_time"), "a closed loop has none");
        for (at, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("# TYPE")) {
            let name = line.split(' ').nth(2).unwrap();
            assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "line {at}");
        }
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn a_run_that_has_not_begun_shows_the_client() {
        let text = text(&Series::default().snapshot(0));
        assert!(text.contains("\nstorebench_client_memory_bytes ") && !text.contains("operations"), "{text}");
    }
}
