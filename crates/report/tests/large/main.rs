//! A large study: its page stays of a size that can be mailed, and leaves nothing out.
//!
//! `REPORT_LARGE=FOLDER cargo test -p storebench-report --test large` makes one of 200 trials and two hours of one-second
//! intervals and keeps the run there, to look at its page (`report/tests/look.mjs large`). Without it there are 40 trials,
//! which take a fifth of the time to make. How long the page of 200 takes is a figure of `make bench`.
#![allow(missing_docs, clippy::unwrap_used)]

mod study;

use std::path::PathBuf;

use storebench_report::{Life, Recorded, Subject, page};
use study::{CONFIGURATIONS, SECONDS};

const TRIALS: u32 = 40;
const MANY_TRIALS: u32 = 200;

#[test]
fn many_trials_of_half_a_minute() {
    let own = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("REPORT_LARGE").map(PathBuf::from);
    let count = if kept.is_some() { MANY_TRIALS } else { TRIALS };
    let folder = kept.unwrap_or_else(|| own.path().to_owned());
    std::fs::create_dir_all(&folder).unwrap();
    study::write(&folder, count).unwrap();
    let subject = Subject::of(vec![Recorded::open(&folder).unwrap()]);
    let text = page(&subject, Life::Written).unwrap();
    // 5 MB for 200 trials.
    assert!(text.len() < 25_000 * count as usize, "{} bytes", text.len());
    // Nobody can tell so many lines apart: rounds are there to choose from.
    let (_, data) = text.split_once("id=\"data\">").unwrap();
    let data: serde_json::Value = serde_json::Deserializer::from_str(data).into_iter().next().unwrap().unwrap();
    let charts = data["charts"].as_array().unwrap();
    let chart = charts.iter().find(|c| c["id"] == "throughput-over-time").unwrap();
    assert_eq!(chart["series"].as_array().unwrap().len(), count as usize);
    assert_eq!(chart["choices"][0]["values"].as_array().unwrap().len(), (count / CONFIGURATIONS) as usize);
    let points: usize = chart["series"].as_array().unwrap().iter().map(|s| s["y"].as_array().unwrap().len()).sum();
    assert_eq!(points, (u64::from(count) * SECONDS) as usize, "no interval is left out");
}
