//! Memory of a run over a billion keys, in a separate process, because memory of the other topics would count
//! otherwise.

use std::process::Command;

use std::sync::Arc;

use storebench_engine::store::{AnyStore, NullStore};

use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::{CHILD, Options};
use crate::rounds::interleave;
use crate::subject::Subject;

pub(crate) const FIGURES: &[&str] = &["a billion keys"];

const TOPIC: &str = "memory";
const KEYS: u64 = 1_000_000_000;
const FEW_KEYS: u64 = 1_000;

fn study(keys: u64) -> String {
    format!(
        r#"
title = "Memory"
seed = 435
[collections.documents]
count = {keys}
size = "1KiB"
fields = {{ name = {{ words = 2 }}, text = {{ text = "fill" }} }}
[[phases]]
name = "mixed"
mix = {{ read = 50, upsert = 50 }}
popularity = "zipf:0.99"
workers = 2
duration = "2s"
"#
    )
}

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let mut many = || most_mb(KEYS).map(|mb| [mb]);
    let mut few = || most_mb(FEW_KEYS).map(|mb| [mb]);
    // Memory hardly differs from round to round.
    let rounds = options.rounds.min(5);
    let mut all = interleave::<1>(rounds, vec![&mut many, &mut few])?.into_iter().map(|[s]| s);
    let (many, few) = (all.next().unwrap_or_default(), all.next().unwrap_or_default());
    Ok(vec![
        Figure::new(TOPIC, "most resident memory over a billion keys", Unit::Mb, many)
            .beside("over a thousand keys", few)
            .target(Target::AtMost(100.0)),
    ])
}

/// Runs this program as a child, and reads the number that it prints.
fn most_mb(keys: u64) -> Result<f64, Failure> {
    let output = Command::new(std::env::current_exe()?).arg(CHILD).arg(keys.to_string()).output()?;
    let told = String::from_utf8_lossy(&output.stdout).trim().parse::<f64>();
    match told {
        Ok(bytes) if output.status.success() => Ok(bytes / 1e6),
        _ => Err(format!("the child process ended early: {}", String::from_utf8_lossy(&output.stderr).trim()).into()),
    }
}

/// The child: runs the phase and prints its peak memory in bytes.
pub(crate) fn child(keys: u64) -> Result<(), Failure> {
    let subject = Subject::new(&study(keys))?;
    let store: Arc<dyn AnyStore> = Arc::new(NullStore::new());
    let record = subject.run(&store, "mixed")?;
    let sampled = record.resources.iter().map(|sample| sample.rss_bytes).max().unwrap_or(0);
    crate::print(&sampled.max(high_water_bytes(std::process::id())).to_string())
}

/// The kernel's record of the peak memory of a process, which sampling could miss; 0 if the kernel has none.
pub(crate) fn high_water_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_most_memory() {
        assert!(high_water_bytes(std::process::id()) >= 1 << 20);
    }

    #[test]
    fn the_study_is_right() {
        let subject = Subject::new(&study(KEYS)).unwrap();
        assert_eq!(subject.documents().count(), KEYS);
    }
}
