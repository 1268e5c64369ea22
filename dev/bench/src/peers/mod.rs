//! Other load generators as their users meet them: complete processes that do the same work on the same server. With
//! `--keep`, the results become `docs/efficiency.md`.

mod built;
mod cassandra;
mod http;
mod memcached;
mod mysql;
mod page;
mod postgres;
mod process;
mod redis;
mod stub;
mod truth;

use std::process::Command;

use process::Ended;

use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::program;
use crate::rounds::interleave;

pub(crate) use stub::child as stub;

pub(crate) const TOPIC: &str = "peers";

pub(crate) const FIGURES: &[&str] = &[
    "redis set 1",
    "redis get 1",
    "redis set 16",
    "redis get 16",
    "redis set 64",
    "redis get 64",
    "redis ycsb",
    "redis go-ycsb",
    "memcached set 1",
    "memcached get 1",
    "memcached get 16",
    "memcached get 64",
    "memcached get 64 in bulk",
    "postgres upsert",
    "postgres select",
    "mysql upsert",
    "mysql select",
    "cassandra upsert 16",
    "cassandra read 1",
    "cassandra read 16",
    "http get 4",
    "http get 16",
    "http get 64",
    "http get 4 of 1 ms",
    "http get 16 of 1 ms",
    "http get 64 of 1 ms",
    "latency 1000",
    "latency 20000",
];

/// Makes the command of a client that does this many operations.
type ToDo<'a> = Box<dyn Fn(u64) -> Result<Command, Failure> + 'a>;

/// A client and its work.
struct Side<'a> {
    tool: &'static str,
    operations: u64,
    command: ToDo<'a>,
    /// How many operations it did, by what it printed; `None` if as many as it was told.
    done: Option<fn(&str) -> Option<f64>>,
}

/// The same work by several clients. The first one is ours.
struct Contest<'a> {
    /// One of [`FIGURES`].
    name: &'static str,
    /// The work in words, for the page.
    work: String,
    sides: Vec<Side<'a>>,
    /// Of the processor time of an operation, ours over that of the second side.
    target: f64,
    note: Option<&'static str>,
}

/// What one client took, over the rounds.
struct Row {
    tool: &'static str,
    cpu_us: Samples,
    /// Of it outside the kernel.
    user_us: Samples,
    per_s: Samples,
    peak_mb: Samples,
    own_mb: Samples,
    command: String,
}

/// A contest that was measured.
struct Measured {
    name: &'static str,
    work: String,
    rows: Vec<Row>,
    target: f64,
    note: Option<&'static str>,
}

impl Measured {
    fn figures(&self) -> Vec<Figure> {
        let [ours, others @ ..] = &self.rows[..] else { return Vec::new() };
        let figure = |theirs: &Row| {
            let figure = Figure::new(
                TOPIC,
                format!("{}: CPU of an operation", self.name),
                Unit::Us,
                ours.cpu_us.clone(),
            )
            .beside(theirs.tool, theirs.cpu_us.clone())
            .target(Target::RatioAtMost(self.target))
            .note(format!(
                "outside the kernel {:.2} against {:.2} µs; {:.0} against {:.0} a second; {:.0} against {:.0} MB, \
                 of which its own {:.0} against {:.0}",
                ours.user_us.median(),
                theirs.user_us.median(),
                ours.per_s.median(),
                theirs.per_s.median(),
                ours.peak_mb.median(),
                theirs.peak_mb.median(),
                ours.own_mb.median(),
                theirs.own_mb.median()
            ));
            self.note.into_iter().fold(figure, Figure::note)
        };
        others.iter().map(figure).collect()
    }
}

impl Contest<'_> {
    fn measure(&self, options: &Options) -> Result<Measured, Failure> {
        let mut once: Vec<_> = self.sides.iter().map(|side| || side.measure(options)).collect();
        let sides = once.iter_mut().map(|once| once as &mut dyn FnMut() -> Result<[f64; 5], Failure>).collect();
        let all = interleave::<5>(options.rounds.min(5), sides)?;
        let row = |(side, [cpu_us, user_us, per_s, peak_mb, own_mb]): (&Side<'_>, [Samples; 5])| {
            let command = page::shown(&(side.command)(side.operations)?);
            Ok(Row { tool: side.tool, cpu_us, user_us, per_s, peak_mb, own_mb, command })
        };
        let rows = self.sides.iter().zip(all).map(row).collect::<Result<_, Failure>>()?;
        let Self { name, work, target, note, .. } = self;
        Ok(Measured { name, work: work.clone(), rows, target: *target, note: *note })
    }
}

impl Side<'_> {
    /// Processor time of an operation in µs, of which outside the kernel, operations a second, the most memory in MB, and
    /// of which its own.
    /// Start and end of the process are subtracted: they are what a run of a tenth of the operations takes, too.
    fn measure(&self, options: &Options) -> Result<[f64; 5], Failure> {
        let many = options.work(self.operations);
        let run = |count: u64| -> Result<(f64, Ended), Failure> {
            let ended = process::run(&mut (self.command)(count)?, &[0, 4])?;
            let done = self.done.map_or(Some(count as f64), |done| done(&ended.text));
            Ok((done.ok_or_else(|| format!("{} did not say what it did: {}", self.tool, ended.text))?, ended))
        };
        let ((few, few_run), (many, many_run)) = (run(many / 10)?, run(many)?);
        let more = many - few;
        Ok([
            (many_run.cpu_us - few_run.cpu_us) / more,
            (many_run.user_us - few_run.user_us) / more,
            more / (many_run.seconds - few_run.seconds),
            many_run.peak_mb,
            many_run.own_mb,
        ])
    }
}

/// The collection of `storebench bench`.
const COLLECTION: &str = "docs";
/// Documents that reads and writes are spread over.
const KEYS: u64 = 100_000;

/// `storebench bench` on documents that [`load`] has loaded. The peers check no answers, so neither does it.
fn ours(url: &str, more: &[&str], operations: u64) -> Result<Command, Failure> {
    let mut command = bench(url, more)?;
    command.args(["--no-load", "--workers", "1", "--check", "0", "--operations", &operations.to_string()]);
    Ok(command)
}

/// Loads the documents that [`ours`] works on.
fn load(url: &str, more: &[&str]) -> Result<(), Failure> {
    let mut command = bench(url, more)?;
    process::run(command.args(["--mix", "read=1", "--operations", "1"]), &[0, 4]).map(|_| ())
}

fn bench(url: &str, more: &[&str]) -> Result<Command, Failure> {
    let mut command = Command::new(program::program()?);
    command.args(["bench", url, "--docs", &KEYS.to_string(), "--quiet", "--json", "--out"]);
    command.arg(std::env::temp_dir().join(format!("storebench-bench-{}", std::process::id()))).args(more);
    Ok(command)
}

/// Measures the contests of one server.
type Measure = fn(&Options) -> Result<Vec<Measured>, Failure>;

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    const SERVERS: [(&str, Measure); 6] = [
        ("redis", redis::measure),
        ("memcached", memcached::measure),
        ("postgres", postgres::measure),
        ("mysql", mysql::measure),
        ("cassandra", cassandra::measure),
        ("http", http::measure),
    ];
    if options.keep && !FIGURES.iter().all(|name| options.wants(TOPIC, name)) {
        return Err("--keep writes the whole page, so it needs all of it: use --only peers".into());
    }
    let (mut contests, mut figures, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
    for (server, measure) in SERVERS {
        let wanted = |name: &&&str| name.starts_with(server) && options.wants(TOPIC, name);
        let names: Vec<&str> = FIGURES.iter().filter(wanted).copied().collect();
        if names.is_empty() {
            continue;
        }
        match measure(options) {
            Ok(measured) => {
                figures.extend(measured.iter().flat_map(Measured::figures));
                contests.extend(measured);
            }
            Err(failure) => {
                figures.extend(names.iter().map(|name| Figure::not_measured(TOPIC, name, &failure.to_string())));
            }
        }
    }
    for (name, rate) in [("latency 1000", 1_000), ("latency 20000", 20_000)] {
        if !options.wants(TOPIC, name) {
            continue;
        }
        match truth::measure(options, rate) {
            Ok(latency) => {
                figures.extend(latency.figures());
                latencies.push(latency);
            }
            Err(failure) => figures.push(Figure::not_measured(TOPIC, name, &failure.to_string())),
        }
    }
    let _ = std::fs::remove_dir_all(std::env::temp_dir().join(format!("storebench-bench-{}", std::process::id())));
    if options.keep {
        page::write(&contests, &latencies)?;
    }
    Ok(figures)
}

/// Measures those contests that were asked for.
fn all(options: &Options, contests: Vec<Contest<'_>>) -> Result<Vec<Measured>, Failure> {
    contests
        .iter()
        .filter(|contest| options.wants(TOPIC, contest.name))
        .map(|contest| contest.measure(options).map_err(|e| format!("{}: {e}", contest.name).into()))
        .collect()
}
