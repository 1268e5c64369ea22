//! PostgreSQL: a load compared with `psql \copy` of the same documents into the same table, and queries compared
//! with `pgbench -f` with the same statement, keys and connections.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use storebench_engine::store::{AnyStore, Prepare};

use super::{Server, TOPIC, child_cpu_us, cpu_us_of_one, program};
use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::rounds::interleave;
use crate::subject::Subject;

const BATCH: u64 = 1_000;
/// Keys that queries are spread over.
const KEYS: u64 = 20_000;
const CONNECTIONS: u64 = 8;

/// The query of the study, with pgbench's variable.
const QUERY: &str = "\\set key random(1000000000, LAST)
SELECT doc FROM storebench.documents WHERE key = :key
";

/// Keys are decimal numbers of ten digits, which pgbench can generate too.
fn study(count: u64, operations: u64) -> String {
    format!(
        r#"
title = "Load and queries"
seed = 435
[collections.documents]
count = {count}
key = "1{{index:09}}"
size = "1KiB"
fields = {{ name = {{ words = 2 }}, rank = {{ integer = [0, 1_000_000] }}, text = {{ text = "fill" }} }}
[[phases]]
name = "load"
load = ["documents"]
batch = {BATCH}
workers = 1
in_flight = 2
durability = "fsync"
[[phases]]
name = "query"
popularity = "uniform"
workers = 1
connections = {CONNECTIONS}
operations = {operations}
check = 0
[phases.mix.by-key]
op = "query"
params = {{ key = "{{documents.key}}" }}
text = {{ postgres = "SELECT doc FROM {{collection}} WHERE key = $key" }}
[[phases]]
name = "read"
mix = {{ read = 1 }}
popularity = "uniform"
workers = 1
connections = {CONNECTIONS}
operations = {operations}
check = 0
"#
    )
}

pub(super) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let server = Server::start("postgres", &[])?;
    let mut figures = Vec::new();
    if options.wants(TOPIC, "postgres load") {
        figures.push(load(options, &server)?);
    }
    if options.wants(TOPIC, "postgres query") {
        figures.extend(queries(options, &server)?);
    }
    Ok(figures)
}

fn load(options: &Options, server: &Server) -> Result<Figure, Failure> {
    let count = options.work(100_000);
    let subject = Subject::new(&study(count, 1))?;
    let store = storebench_stores::open(&server.url)?;
    store.inspect()?;
    let folder = tempfile::Builder::new().prefix("storebench-bench-").tempdir()?;
    let file = folder.path().join("documents.copy");
    write_file(&subject, count, &file)?;
    let mut engine = || {
        store.prepare(&subject.layout(), Prepare::Fresh)?;
        let record = subject.run(&store, "load")?;
        let loaded: u64 = record.total.ops.iter().map(|tally| tally.documents).sum();
        if loaded != count {
            return Err(format!("{loaded} of {count} documents were loaded").into());
        }
        Ok([
            count as f64 * 1e9 / record.elapsed_ns as f64,
            cpu_us_of_one(&record) * record.operations() as f64 / count as f64,
        ])
    };
    let mut psql = || {
        // The table that the driver creates, emptied.
        store.prepare(&subject.layout(), Prepare::Fresh)?;
        let text = format!("\\copy storebench.documents (key, doc) FROM '{}'", file.display());
        let mut command = program("postgres", "psql")?;
        command.args(["-X", "-q", "-d", &server.url, "-c", "SET synchronous_commit = local", "-c", &text]);
        let begun = Instant::now();
        let (cpu_us, _) = child_cpu_us(&mut command)?;
        Ok([count as f64 / begun.elapsed().as_secs_f64(), cpu_us / count as f64])
    };
    let all = interleave::<2>(options.rounds, vec![&mut engine, &mut psql])?;
    store.remove()?;
    let [[ours, ours_cpu], [theirs, theirs_cpu]] = &all[..] else { return Err("two sides give two results".into()) };
    Ok(Figure::new(TOPIC, "postgres load: bulk load of 1 KiB documents", Unit::DocsPerS, ours.clone())
        .beside("psql \\copy", theirs.clone())
        .target(Target::RatioAtLeast(1.0))
        .note(format!(
            "client CPU of a document {:.1} µs, including its generation; psql, from a file, {:.1} µs",
            ours_cpu.median(),
            theirs_cpu.median()
        )))
}

/// The documents of a collection in COPY's text format.
fn write_file(subject: &Subject, count: u64, file: &Path) -> Result<(), Failure> {
    let mut out = BufWriter::new(std::fs::File::create(file)?);
    let (mut key, mut body) = (Vec::new(), Vec::new());
    for index in 0..count {
        key.clear();
        body.clear();
        subject.documents().write_key(index, &mut key);
        subject.documents().write_document(index, 0, &mut body);
        out.write_all(&key)?;
        out.write_all(b"\t")?;
        for byte in &body {
            match byte {
                b'\\' => out.write_all(b"\\\\")?,
                byte => out.write_all(&[*byte])?,
            }
        }
        out.write_all(b"\n")?;
    }
    out.flush().map_err(Into::into)
}

/// The documents of single operations, loaded, and the script for pgbench.
struct Loaded {
    subject: Subject,
    store: Arc<dyn AnyStore>,
    script: PathBuf,
    _folder: tempfile::TempDir,
}

impl Loaded {
    fn new(server: &Server, operations: u64) -> Result<Self, Failure> {
        let subject = Subject::new(&study(KEYS, operations))?;
        let store = storebench_stores::open(&server.url)?;
        store.inspect()?;
        store.prepare(&subject.layout(), Prepare::Fresh)?;
        subject.run(&store, "load")?;
        let folder = tempfile::Builder::new().prefix("storebench-bench-").tempdir()?;
        let file = folder.path().join("script.sql");
        std::fs::write(&file, QUERY.replace("LAST", &(1_000_000_000 + KEYS - 1).to_string()))?;
        Ok(Self { subject, store, script: file, _folder: folder })
    }
}

fn queries(options: &Options, server: &Server) -> Result<[Figure; 2], Failure> {
    let count = options.work(160_000);
    let Loaded { subject, store, script, .. } = &Loaded::new(server, count)?;
    let mut query = || through_the_engine(subject, store, "query");
    let mut read = || through_the_engine(subject, store, "read");
    let mut pgbench = || through_pgbench(server, script, count);
    let all = interleave::<2>(options.rounds, vec![&mut query, &mut read, &mut pgbench])?;
    store.remove()?;
    let [[_, query], [_, read], [_, theirs]] = &all[..] else { return Err("three sides give three results".into()) };
    let figure = |reference: &str, theirs: &Samples, target| {
        let what = format!("postgres query: client CPU, {CONNECTIONS} connections");
        Figure::new(TOPIC, what, Unit::Us, query.clone()).beside(reference, theirs.clone()).target(target)
    };
    Ok([
        figure("pgbench -M prepared -f", theirs, Target::RatioAtMost(1.0)),
        figure("our read by key", read, Target::RatioAtMost(1.1)).note("a query also sends its parameter"),
    ])
}

/// Operations per second, and the processor time of one in µs.
fn through_pgbench(server: &Server, script: &Path, count: u64) -> Result<[f64; 2], Failure> {
    // The cost of connecting is not part of the statement.
    let (start_us, _) = run_pgbench(server, script, 1)?;
    let (cpu_us, printed) = run_pgbench(server, script, count / CONNECTIONS)?;
    let rate = printed
        .lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split_whitespace().next()?.parse::<f64>().ok())
        .ok_or_else(|| format!("pgbench printed no rate: {printed}"))?;
    Ok([rate, (cpu_us - start_us) / count as f64])
}

/// The same of a phase of ours.
fn through_the_engine(subject: &Subject, store: &Arc<dyn AnyStore>, phase: &str) -> Result<[f64; 2], Failure> {
    let record = subject.run(store, phase)?;
    Ok([record.operations() as f64 * 1e9 / record.elapsed_ns as f64, cpu_us_of_one(&record)])
}

fn run_pgbench(server: &Server, script: &Path, each: u64) -> Result<(f64, String), Failure> {
    let mut command = program("postgres", "pgbench")?;
    command.env("PGOPTIONS", "-c synchronous_commit=off").args(["-n", "-M", "prepared", "-j", "1"]);
    command.args(["-c", &CONNECTIONS.to_string(), "-t", &each.to_string()]);
    command.arg("-f");
    command.arg(script).arg(&server.url);
    child_cpu_us(&mut command)
}
