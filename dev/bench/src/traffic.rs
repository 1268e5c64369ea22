//! How fast a recorded trace and a sample of documents are read, by one core.

use std::io::Write as _;
use std::path::PathBuf;

use storebench_documents::infer::Profile;
use storebench_documents::trace::Trace;
use storebench_engine::measure::thread_cpu_ns;

use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::pin::pinned;
use crate::subject::{Subject, head};

pub(crate) const TOPIC: &str = "traffic";
pub(crate) const FIGURES: &[&str] = &["trace", "infer"];

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let folder = tempfile::Builder::new().prefix("storebench-bench-").tempdir()?;
    let mut figures = Vec::new();
    if options.wants(TOPIC, "trace") {
        for body in [false, true] {
            let file = folder.path().join("ops.jsonl");
            let count = write_trace(&file, options.work(2_000_000), body)?;
            let what =
                if body { "trace: operations read, half with a document of 100 B" } else { "trace: operations read" };
            let read = samples(options.rounds, || {
                let trace = Trace::read(&file, "bench").map_err(|error| error.to_string())?;
                if trace.ops().len() as u64 == count {
                    Ok(count as f64 * 1e3)
                } else {
                    Err("operations are missing".into())
                }
            })?;
            let target = if body { None } else { Some(Target::AtLeast(1.0)) };
            let figure = Figure::new(TOPIC, what, Unit::MillionsPerS, read);
            figures.push(match target {
                Some(target) => figure.target(target),
                None => figure,
            });
        }
    }
    if options.wants(TOPIC, "infer") {
        for (what, size) in [("1 KiB, two thirds of it one text", "1KiB"), ("180 B of short values", "180B")] {
            let file = folder.path().join("sample.jsonl");
            let bytes = write_sample(&file, options.work(200_000), size)?;
            let files = [PathBuf::from(&file)];
            let read = samples(options.rounds, || {
                Profile::of_files(&files, false, None).map_err(|error| error.to_string())?;
                Ok(bytes as f64 * 1e3)
            })?;
            let what = format!("infer: sample read, documents of {what}");
            figures.push(Figure::new(TOPIC, what, Unit::MbPerS, read).target(Target::AtLeast(200.0)));
        }
    }
    Ok(figures)
}

/// What `work` returns, divided by the processor time in ns that it took, in each round.
fn samples(rounds: usize, mut work: impl FnMut() -> Result<f64, Failure> + Send) -> Result<Samples, Failure> {
    pinned(|| {
        let mut all = Samples::default();
        for _ in 0..rounds {
            let before = thread_cpu_ns();
            let done = work()?;
            all.0.push(done / (thread_cpu_ns() - before).max(1) as f64);
        }
        Ok(all)
    })
}

fn write_trace(file: &PathBuf, count: u64, bodies: bool) -> Result<u64, Failure> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    let text = "x".repeat(80);
    for index in 0..count {
        let key = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000;
        let (op, with) = match index % 2 {
            1 if bodies => ("upsert", format!(",\"body\":{{\"n\":{index},\"text\":\"{text}\"}}")),
            _ => ("read", String::new()),
        };
        let time = index as f64 / 1e4;
        writeln!(out, "{{\"time\":{time:.6},\"op\":\"{op}\",\"key\":\"user:{key}\",\"client\":{}{with}}}", index % 64)?;
    }
    out.flush()?;
    Ok(count)
}

fn write_sample(file: &PathBuf, count: u64, size: &str) -> Result<u64, Failure> {
    let fields = "fields = { name = { words = 2 }, city = { choice = [\"Lima\", \"Oslo\", \"Rome\"] }, rank = { integer = [0, \
                  1_000_000] }, at = { time = [\"2020-01-01\", \"2024-01-01\"] }, price = { decimal = [0, 99.9] }, text = { text = \
                  \"fill\" } }";
    let text = head("Sample", count, size);
    let (begin, _) = text.split_once("fields").ok_or("the head of a study has fields")?;
    let subject = Subject::new(&format!("{begin}{fields}\n[[phases]]\nname = \"load\"\nload = [\"documents\"]\n"))?;
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    let (mut document, mut bytes) = (Vec::new(), 0);
    for index in 0..count {
        document.clear();
        subject.documents().write_document(index, 0, &mut document);
        document.push(b'\n');
        bytes += document.len() as u64;
        out.write_all(&document)?;
    }
    out.flush()?;
    Ok(bytes)
}
