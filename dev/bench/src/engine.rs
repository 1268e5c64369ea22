//! What an operation costs the client: the engine on the store that does nothing, compared with a hand-written loop.

use std::hint::black_box;

use storebench_documents::Documents;
use storebench_documents::keys::{KeyStream, Ownership, Rng};
use storebench_engine::Clock;
use storebench_engine::measure::{histogram, record, thread_cpu_ns};
use storebench_study::workload::Popularity;

use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::pin::pinned;
use crate::rounds::interleave;
use crate::subject::{Subject, pinned_null};

pub(crate) const FIGURES: &[&str] = &["write", "read", "load"];

const TOPIC: &str = "engine";
const KEYS: u64 = 1_000_000_000;
const EXPONENT: f64 = 0.99;

fn study(operations: u64) -> String {
    let phase = |name: &str, op: &str| {
        format!(
            r#"
[[phases]]
name = "{name}"
mix = {{ {op} = 1 }}
popularity = "zipf:{EXPONENT}"
workers = 1
operations = {operations}
"#
        )
    };
    let head = crate::subject::head("The engine by itself", KEYS, "1KiB");
    format!(
        r#"{head}
{}{}"#,
        phase("write", "upsert"),
        phase("read", "read")
    )
}

/// Documents in one bulk write of a load.
const BATCH: u64 = 1_000;

fn load_study(documents: u64) -> String {
    let head = crate::subject::head("A load by itself", documents, "2KiB");
    format!(
        r#"{head}
[[phases]]
name = "load"
load = ["documents"]
batch = {BATCH}
workers = 1
"#
    )
}

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let operations = options.work(2_000_000);
    let subject = Subject::new(&study(operations))?;
    let mut figures = Vec::new();
    for (name, what, at_most) in
        [("write", "CPU per write of a unique 1 KiB document", 500.0), ("read", "CPU per read", 250.0)]
    {
        if !options.wants(TOPIC, name) {
            continue;
        }
        let mut ours = || through_the_engine(&subject, name).map(|ns| [ns]);
        let mut hand = || pinned(|| by_hand(&subject, operations, name == "write")).map(|ns| [ns]);
        let mut all = interleave::<1>(options.rounds, vec![&mut ours, &mut hand])?.into_iter().map(|[s]| s);
        let (ours, hand) = (all.next().unwrap_or_default(), all.next().unwrap_or_default());
        figures.push(
            Figure::new(TOPIC, what, Unit::Ns, ours).beside("loop by hand", hand).target(Target::AtMost(at_most)),
        );
    }
    if options.wants(TOPIC, "load") {
        let subject = Subject::new(&load_study(options.work(1_000_000)))?;
        let mut ours = || through_the_engine(&subject, "load").map(|ns| [ns / BATCH as f64]);
        let mut hand = || pinned(|| Ok([generated_by_hand(subject.documents())]));
        let mut all = interleave::<1>(options.rounds, vec![&mut ours, &mut hand])?.into_iter().map(|[s]| s);
        let (ours, hand) = (all.next().unwrap_or_default(), all.next().unwrap_or_default());
        figures.push(
            Figure::new(TOPIC, "CPU per 2 KiB document of a load, batches of 1,000", Unit::Ns, ours)
                .beside("one by one by hand", hand),
        );
    }
    Ok(figures)
}

/// Generates every key and document into the same two buffers, as a hand-written load does before it writes. Returns
/// the processor time of a document in ns.
fn generated_by_hand(documents: &Documents) -> f64 {
    let (mut key, mut body) = (Vec::with_capacity(64), Vec::with_capacity(4_096));
    let before = thread_cpu_ns();
    for index in 0..documents.count() {
        key.clear();
        body.clear();
        documents.write_key(index, &mut key);
        documents.write_document(index, 0, &mut body);
        black_box((&key, &body));
    }
    (thread_cpu_ns() - before) as f64 / documents.count() as f64
}

/// Processor time of an operation, in ns.
fn through_the_engine(subject: &Subject, phase: &str) -> Result<f64, Failure> {
    let record = subject.run(&pinned_null(), phase)?;
    let cpu: u64 = record.worker_use.iter().map(|u| u.cpu_ns - u.spin_ns).sum();
    Ok(cpu as f64 / record.operations().max(1) as f64)
}

/// The same work without the engine: draw a key, generate key and document, read the clock before and after, record the
/// difference.
fn by_hand(subject: &Subject, operations: u64, write: bool) -> Result<f64, Failure> {
    let (documents, clock) = (subject.documents(), subject.clock());
    let mut stream = KeyStream::new(Popularity::Zipf(EXPONENT), KEYS, Ownership::Independent, 435, 0)?;
    let mut rng = Rng::stream(435, 0);
    let mut times = histogram();
    let (mut key, mut body) = (Vec::with_capacity(64), Vec::with_capacity(2_048));
    let before = thread_cpu_ns();
    for version in 1..=operations {
        let index = stream.next(&mut rng, KEYS);
        key.clear();
        documents.write_key(index, &mut key);
        if write {
            body.clear();
            documents.write_document(index, version, &mut body);
        }
        let sent = clock.now_ns();
        black_box((&key, &body));
        record(&mut times, clock.now_ns() - sent);
    }
    let cpu = thread_cpu_ns() - before;
    black_box(&times);
    Ok(cpu as f64 / operations as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_run() {
        let subject = Subject::new(&study(1_000)).unwrap();
        for phase in ["write", "read"] {
            assert!(through_the_engine(&subject, phase).unwrap() > 0.0);
            assert!(by_hand(&subject, 1_000, phase == "write").unwrap() > 0.0);
        }
        let subject = Subject::new(&load_study(2_500)).unwrap();
        assert!(through_the_engine(&subject, "load").unwrap() > 0.0);
        assert!(generated_by_hand(subject.documents()) > 0.0);
    }
}
