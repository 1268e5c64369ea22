//! PostgreSQL compared with `psql \copy`, in and out, with the same documents in the same table.

use std::process::Command;
use std::time::Instant;

use super::{Documents, Lab, TOPIC};
use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::servers::{Server, child_cpu_us, program};

const DOCUMENTS: u64 = 200_000;
const TABLE: &str = "storebench.documents";

pub(super) fn measure(options: &Options, lab: &Lab) -> Result<Vec<Figure>, Failure> {
    let server = Server::start("postgres", &[])?;
    let documents = Documents::new(options.work(DOCUMENTS), "1KiB")?;
    let lines = lab.lines(&documents)?;
    // COPY's text format.
    let text = lab.tab_text(&documents)?;
    let psql = |statements: &[&str]| -> Result<Command, Failure> {
        let mut command = program("postgres", "psql")?;
        command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &server.url]);
        command.args(statements.iter().flat_map(|statement| ["-c", statement]));
        Ok(command)
    };
    // Creates the table.
    lab.copy(&lines, &server.url, "--to-collection documents --durability fsync")?;
    let count = documents.count as f64;
    let empty = || child_cpu_us(&mut psql(&[&format!("TRUNCATE {TABLE}")])?).map(drop);
    let run = |statements: &[&str]| {
        let mut command = psql(statements)?;
        let begun = Instant::now();
        let (cpu_us, _) = child_cpu_us(&mut command)?;
        Ok([count / begun.elapsed().as_secs_f64(), cpu_us / count])
    };
    let mut figures = Vec::new();
    if options.wants(TOPIC, "jsonl to postgres") {
        let mut ours = || {
            empty()?;
            let done = lab.copy(&lines, &server.url, "--to-collection documents --durability fsync")?;
            Ok([done.documents / done.wall_s, done.cpu_us / count])
        };
        let mut theirs = || {
            empty()?;
            run(&["SET synchronous_commit = local", &format!("\\copy {TABLE} (key, doc) FROM '{}'", text.display())])
        };
        let all = interleave::<2>(options.rounds, vec![&mut ours, &mut theirs])?;
        let what = "jsonl to postgres: 1 KiB documents, one connection";
        figures.push(figure(what, &all, "psql \\copy of its own format", 1.0)?);
    }
    if options.wants(TOPIC, "postgres to jsonl") {
        let (mine, their) = (lab.path("out.jsonl"), lab.path("out.copy"));
        let ours = |workers: u32| {
            let words = format!("--from-collection documents --force --parallel {workers}");
            let done = lab.copy(&server.url, &mine, &words)?;
            Ok([done.documents / done.wall_s, done.cpu_us / count])
        };
        let (mut one, mut two) = (|| ours(1), || ours(2));
        let mut theirs = || run(&[&format!("\\copy {TABLE} (key, doc) TO '{}'", their.display())]);
        let all = interleave::<2>(options.rounds, vec![&mut one, &mut two, &mut theirs])?;
        let [one, two, theirs] = &all[..] else { return Err("three sides give three results".into()) };
        for (ours, what) in [(one, "one connection"), (two, "two, as without a flag on two cores")] {
            let what = format!("postgres to jsonl: 1 KiB documents, {what}");
            figures.push(figure(&what, &[ours.clone(), theirs.clone()], "psql \\copy to a file", 1.0)?);
        }
    }
    Ok(figures)
}

/// Documents per second of both sides. The target is the least ratio.
pub(super) fn figure(what: &str, all: &[[Samples; 2]], beside: &str, target: f64) -> Result<Figure, Failure> {
    let [[ours, our_cpu], [theirs, their_cpu]] = all else { return Err("two sides give two results".into()) };
    let (our_cpu, their_cpu) = (our_cpu.median(), their_cpu.median());
    Ok(Figure::new(TOPIC, what, Unit::DocsPerS, ours.clone())
        .beside(beside, theirs.clone())
        .target(Target::RatioAtLeast(target))
        .note(format!("client CPU of a document {our_cpu:.1} µs, theirs {their_cpu:.1} µs")))
}
