//! Parses arbitrary bytes as metrics.

use super::text::parse;

// A shared file, not a crate: a dependency would bring the fakes' servers into this crate's tests.
#[path = "../../../../dev/fakes/src/fuzz.rs"]
#[allow(unreachable_pub, dead_code, reason = "public in its own crate")]
mod inputs;

const GOOD: &[&[u8]] = &[
    b"# HELP requests_total Requests.\n# TYPE requests_total counter\nrequests_total{code=\"200\",path=\"/a\\\"b\"} 12 1395066363000\n",
    b"up 1\nbytes 1.5e+09\nnothing NaN\nmost +Inf\nleast -Inf\n",
    b"latency_bucket{le=\"0.5\",} 7\nlatency_bucket{le=\"+Inf\"} 9\nlatency_sum 3.25\nlatency_count 9\n# EOF\n",
    b"a:b{x=\"\\n\\\\\"} 0x10\n\n\tspaced 1\n",
];

fn take(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(samples) = parse(&text) {
        assert!(samples.len() <= text.lines().count(), "{} samples", samples.len());
    }
}

#[test]
fn any_bytes_are_taken() {
    inputs::run("Prometheus", GOOD, 1, 5_000, take);
}

#[test]
#[ignore = "takes minutes; run by `make soak`"]
fn soak_any_bytes_are_taken() {
    inputs::run("Prometheus", GOOD, 2, inputs::inputs(500_000), take);
}
