//! Files into the null store: what it costs to read, check and batch records.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;
use storebench_engine::measure::thread_cpu_ns;

use super::{Documents, Lab, TOPIC, bytes_of};
use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::pin::pinned;
use crate::rounds::interleave;

/// About a second of work, because the system counts processor time of processes in steps of 10 ms.
const DOCUMENTS: u64 = 400_000;

pub(super) fn measure(options: &Options, lab: &Lab) -> Result<Vec<Figure>, Failure> {
    let documents = Documents::new(options.work(DOCUMENTS), "1KiB")?;
    let lines = lab.lines(&documents)?;
    let mut figures = Vec::new();
    if options.wants(TOPIC, "jsonl to null") {
        let bytes = bytes_of(&lines)?;
        let mut ours = || Ok([bytes / lab.copy(&lines, "null:", "--to-collection documents")?.cpu_us]);
        let mut theirs = || by_hand(&lines).map(|us| [bytes / us]);
        let all = interleave::<1>(options.rounds, vec![&mut ours, &mut theirs])?;
        let [[ours], [theirs]] = &all[..] else { return Err("two sides give two results".into()) };
        figures.push(
            Figure::new(TOPIC, "jsonl to null: a core reads, 1 KiB documents", Unit::MbPerS, ours.clone())
                .beside("serde_json::Value of each line", theirs.clone())
                .target(Target::AtLeast(400.0))
                .note("processor time of the whole process, its start included"),
        );
    }
    if options.wants(TOPIC, "parquet to null") {
        let parquet = lab.path("documents.parquet");
        lab.copy(&lines, &parquet, "--parallel 2")?;
        let mut ours = || {
            let done = lab.copy(&parquet, "null:", "--to-collection documents")?;
            Ok([done.bytes / done.cpu_us])
        };
        let mut theirs = || {
            let done = lab.copy(&lines, "null:", "--to-collection documents")?;
            Ok([done.bytes / done.cpu_us])
        };
        let all = interleave::<1>(options.rounds, vec![&mut ours, &mut theirs])?;
        let [[ours], [theirs]] = &all[..] else { return Err("two sides give two results".into()) };
        figures.push(
            Figure::new(TOPIC, "parquet to null: a core reads, bytes of documents", Unit::MbPerS, ours.clone())
                .beside("the same documents as JSON lines", theirs.clone())
                .target(Target::AtLeast(300.0)),
        );
    }
    Ok(figures)
}

/// A simple program: parses each line into a value, takes the key out, and writes the rest. Returns the processor time
/// in µs.
fn by_hand(lines: &Path) -> Result<f64, Failure> {
    pinned(|| {
        let mut file = BufReader::with_capacity(1 << 20, std::fs::File::open(lines)?);
        let (mut line, mut body) = (Vec::new(), Vec::new());
        let before = thread_cpu_ns();
        loop {
            line.clear();
            if file.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let mut document: Value = serde_json::from_slice(&line)?;
            let key = document.as_object_mut().and_then(|members| members.remove("_id"));
            body.clear();
            serde_json::to_writer(&mut body, &document)?;
            std::hint::black_box((&key, &body));
        }
        Ok((thread_cpu_ns() - before) as f64 / 1e3)
    })
}
