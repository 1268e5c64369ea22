//! What an operation costs the client: the engine on the store that does nothing, beside a loop
//! written by hand.

use std::hint::black_box;

use storebench_core::engine::Clock;
use storebench_core::keys::{KeyStream, Ownership, Rng};
use storebench_core::measure::{histogram, record, thread_cpu_ns};
use storebench_core::workload::Popularity;

use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::pin::pinned;
use crate::rounds::interleave;
use crate::subject::{Subject, pinned_null};

pub(crate) const FIGURES: &[&str] = &["write", "read"];

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
    format!(
        r#"
title = "The engine by itself"
seed = 435
[collections.documents]
count = {KEYS}
key = "documents/{{index:010}}"
size = "1KiB"
fields = {{ name = {{ words = 2 }}, rank = {{ integer = [0, 1_000_000] }}, text = {{ text = "fill" }} }}
{}{}"#,
        phase("write", "upsert"),
        phase("read", "read")
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
    Ok(figures)
}

/// Processor time of an operation, in ns.
fn through_the_engine(subject: &Subject, phase: &str) -> Result<f64, Failure> {
    let record = subject.run(&pinned_null(), phase)?;
    let cpu: u64 = record.worker_use.iter().map(|u| u.cpu_ns - u.spin_ns).sum();
    Ok(cpu as f64 / record.operations().max(1) as f64)
}

/// The same work without the engine: draw a key, make key and document, read the clock before and
/// after, record the difference.
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
    }
}
