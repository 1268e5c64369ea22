//! memcached: the driver compared with `memcaslap`, the load generator in C of libmemcached (Debian's package
//! `libmemcached-tools`). It has one write in flight per connection, and requests several reads together, as one `get`
//! of several keys.

use std::io::Write;
use std::sync::Arc;

use storebench_engine::store::{AnyStore, Prepare};

use super::redis::{generation_us, operations, study};
use super::{Server, TOPIC, child_cpu_us, program, through_the_engine};
use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::subject::Subject;

const CONNECTIONS: u32 = 50;

pub(super) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let server = Server::start("memcached", &["--memory", "1024"])?;
    let subject = Subject::new(&study(|depth| operations(options, depth)))?;
    let ours: Arc<dyn AnyStore> = storebench_stores::open(&server.url)?;
    ours.prepare(&subject.layout(), Prepare::Fresh)?;
    subject.run(&ours, "load")?;
    let mut figures = Vec::new();
    for (test, depth) in [("set", 1), ("get", 1), ("get", 16), ("get", 64)] {
        if !options.wants(TOPIC, &format!("memcached {test} {depth}")) {
            continue;
        }
        let (phase, count) = (format!("{test}-{depth}"), operations(options, depth));
        let mut engine = || through_the_engine(&subject, &ours, &phase).map(|us| [us]);
        let mut by_slap = || memcaslap(&server, test, depth, count).map(|us| [us]);
        let all = interleave::<1>(options.rounds, vec![&mut engine, &mut by_slap])?;
        let [[engine], [by_slap]] = &all[..] else { return Err("two sides give two results".into()) };
        let what = format!("memcached {test} {depth}: CPU of a 1 KiB document");
        let mut figure = Figure::new(TOPIC, what, Unit::Us, engine.clone())
            .beside("memcaslap", by_slap.clone())
            .target(Target::RatioAtMost(1.0));
        if test == "set" {
            figure = figure.note(format!("of ours, {:.2} µs make the document", generation_us(&subject)));
        } else if depth > 1 {
            figure = figure
                .note("memcaslap asks for all keys in one request; ours are separate requests with separate answers");
        }
        figures.push(figure);
    }
    Ok(figures)
}

/// Processor time of an operation, in µs. Before it reads, it writes what it will read. The cost of that is measured by
/// a run with hardly any reads, and subtracted.
fn memcaslap(server: &Server, test: &str, depth: u32, count: u64) -> Result<f64, Failure> {
    let (set, get) = if test == "set" { (1, 0) } else { (0, 1) };
    let mut settings = tempfile::NamedTempFile::new()?;
    writeln!(settings, "key\n20 20 1\nvalue\n1024 1024 1\ncmd\n0 {set}\n1 {get}")?;
    let run = |count: u64| {
        let mut command = program("bench_tools", "memcaslap")?;
        command.args(["-s", &format!("127.0.0.1:{}", server.port), "-T", "1", "-c", &CONNECTIONS.to_string()]);
        command.args(["-w", "1k", "-x", &count.to_string(), "-d", &depth.to_string(), "-F"]).arg(settings.path());
        child_cpu_us(&mut command).map(|(cpu_us, _)| cpu_us)
    };
    let before = u64::from(CONNECTIONS * depth);
    let (all, little) = (run(count + before)?, run(before)?);
    Ok((all - little) / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_side_runs() {
        let server = Server::start("memcached", &["--memory", "256"]).unwrap();
        let subject = Subject::new(&study(|_| 2_000)).unwrap();
        let ours = storebench_stores::open(&server.url).unwrap();
        ours.prepare(&subject.layout(), Prepare::Fresh).unwrap();
        subject.run(&ours, "load").unwrap();
        for phase in ["set-1", "get-1", "get-64"] {
            assert!(through_the_engine(&subject, &ours, phase).unwrap() > 0.0);
        }
    }
}
