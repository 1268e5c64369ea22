//! Instructions that a worker spends on one operation, counted by callgrind. Times vary from run to run and from machine
//! to machine; these counts hardly do, so a change that costs a few percent is seen.
//!
//! This program runs itself as a child under callgrind, once with few and once with many operations. The difference is
//! what the further operations took. Only the worker's thread is counted, and only what runs outside the kernel. An
//! embedded store works on the worker's thread, so its own instructions are part of the count.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use storebench_engine::store::Prepare;
use storebench_fakes::couchbase::{Fake, FakeOptions};

use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::{COUNTED, Options};
use crate::servers::{Server, http, program};
use crate::subject::Subject;

pub(crate) const TOPIC: &str = "instructions";

/// Store, kind of operation, and how many of them each connection has in flight.
pub(crate) const FIGURES: &[&str] = &[
    "null write 1",
    "null read 1",
    "sqlite write 1",
    "sqlite read 1",
    "fjall write 1",
    "fjall read 1",
    "redis write 1",
    "redis read 1",
    "redis write 16",
    "redis read 16",
    "memcached write 1",
    "memcached read 1",
    "memcached read 16",
    "postgres write 1",
    "postgres read 1",
    "http read 16",
    "couchbase write 16",
    "couchbase read 16",
];

/// How much a count may exceed the kept one. Servers answer now sooner, now later, so the client waits more or less
/// often; two runs on one quiet machine differ by up to 1 %. Beside a compiler, a server with one request in flight finds
/// fewer of them waiting, and the client's count was up to 7 % higher.
const TOLERANCE: f64 = 1.03;
const KEYS: u64 = 20_000;
/// Operations of the two runs.
const FEW: u64 = 10_000;
const MANY: u64 = 40_000;
/// The function that a worker's thread spends the phase in, as callgrind names it.
const WORKER: &str = "<S as storebench_engine::store::erased::AnyStore>::drive";

fn study(operations: u64, url: &str) -> String {
    let connections = if is_embedded(url) { 1 } else { 4 };
    // The weakest that the store has. The server for HTTP is only read.
    let durability = match url.split(':').next() {
        Some("sqlite") => "durability = \"os\"",
        Some("couchdb") => "",
        _ => "durability = \"none\"",
    };
    let phases: String = [("write", "upsert"), ("read", "read")]
        .into_iter()
        .flat_map(|(name, op)| [1, 16].map(|depth| (name, op, depth)))
        .map(|(name, op, depth)| {
            format!(
                r#"
[[phases]]
name = "{name}-{depth}"
mix = {{ {op} = 1 }}
popularity = "uniform"
workers = 1
connections = {connections}
in_flight = {depth}
operations = {operations}
{durability}
timeout = "60s"
"#
            )
        })
        .collect();
    let head = crate::subject::head("Instructions of an operation", KEYS, "1KiB");
    format!(
        r#"{head}
[[phases]]
name = "load"
load = ["documents"]
batch = 1_000
workers = 1
{durability}
{phases}"#
    )
}

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let mut kept = Kept::read()?;
    let wanted = FIGURES.iter().filter(|name| options.wants(TOPIC, name));
    let figures = wanted
        .map(|name| match count(options, name) {
            Ok(counts) => kept.figure(name, counts, options.keep),
            Err(failure) => Figure::not_measured(TOPIC, name, &failure.to_string()),
        })
        .collect();
    if options.keep {
        kept.write()?;
    }
    Ok(figures)
}

/// The counts of all rounds of a figure, on a store of its own: what reads of an LSM tree cost depends on what was written
/// before, and on how much of it was merged meanwhile.
fn count(options: &Options, name: &'static str) -> Result<Samples, Failure> {
    let (store, phase) = name.split_once(' ').unwrap_or((name, ""));
    let place = Place::start(store)?;
    let subject = Subject::new(&study(FEW, place.url()))?;
    // The server for HTTP only answers reads.
    if store != "http" {
        let opened = storebench_stores::open(place.url())?;
        opened.prepare(&subject.layout(), Prepare::Fresh)?;
        subject.run(&opened, "load")?;
        opened.close()?;
    }
    // The counts of a few rounds show how far they differ; more would not change their median.
    let rounds = options.rounds.min(3);
    (0..rounds)
        .map(|_| instructions_of_one(place.url(), &phase.replace(' ', "-")))
        .collect::<Result<Vec<_>, _>>()
        .map(Samples)
}

/// A store that lives until this value is dropped.
enum Place {
    Embedded { url: String, _folder: tempfile::TempDir },
    Server(Server),
    Http { url: String },
    Couchbase { url: String, _fake: Fake },
}

impl Place {
    fn start(store: &'static str) -> Result<Self, Failure> {
        Ok(match store {
            "null" | "sqlite" | "fjall" => {
                let folder = tempfile::Builder::new().prefix("storebench-bench-").tempdir()?;
                let path =
                    if store == "null" { String::new() } else { folder.path().join("store").display().to_string() };
                Self::Embedded { url: format!("{store}:{path}"), _folder: folder }
            }
            "http" => {
                let mut body = Vec::new();
                Subject::new(&study(FEW, "couchdb:"))?.documents().write_document(0, 0, &mut body);
                Self::Http {
                    url: format!(
                        "couchdb://127.0.0.1:{}",
                        http::serve("documents", &String::from_utf8(body)?, Duration::ZERO)?
                    ),
                }
            }
            "couchbase" => {
                let fake = Fake::start(FakeOptions::default())?;
                Self::Couchbase { url: fake.url(), _fake: fake }
            }
            server => Self::Server(Server::start(server, &[])?),
        })
    }

    fn url(&self) -> &str {
        match self {
            Self::Embedded { url, .. } | Self::Http { url } | Self::Couchbase { url, .. } => url,
            Self::Server(server) => &server.url,
        }
    }
}

/// Whether a worker does the store's work itself.
fn is_embedded(url: &str) -> bool {
    ["null:", "sqlite:", "fjall:"].iter().any(|scheme| url.starts_with(scheme))
}

/// Instructions of one operation of a phase: those of a long run less those of a short one.
fn instructions_of_one(url: &str, phase: &str) -> Result<f64, Failure> {
    let [few, many] = [FEW, MANY].map(|operations| instructions(url, phase, operations));
    Ok((many? - few?) / (MANY - FEW) as f64)
}

/// Runs this program as a child under callgrind, and reads how many instructions its worker took.
fn instructions(url: &str, phase: &str, operations: u64) -> Result<f64, Failure> {
    let folder = tempfile::Builder::new().prefix("storebench-bench-").tempdir()?;
    let counts = folder.path().join("counts");
    let mut callgrind = program("bench_tools", "valgrind.bin")?;
    let tools = Path::new(callgrind.get_program()).parent().map(|bin| bin.join("../libexec/valgrind"));
    callgrind.env("VALGRIND_LIB", tools.unwrap_or_default());
    callgrind.args(["-q", "--tool=callgrind", "--collect-atstart=no"]);
    callgrind.arg(format!("--toggle-collect={WORKER}"));
    callgrind.arg(format!("--callgrind-out-file={}", counts.display()));
    callgrind.arg(std::env::current_exe()?).args([COUNTED, url, phase, &operations.to_string()]);
    let output = callgrind.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{phase} under callgrind failed: {}", why.trim()).into());
    }
    let counts = std::fs::read_to_string(&counts)?;
    total(&counts).ok_or_else(|| format!("callgrind counted no instruction of `{WORKER}`").into())
}

/// The total in what callgrind wrote.
fn total(counts: &str) -> Option<f64> {
    let line = counts.lines().find_map(|line| line.strip_prefix("totals: "))?;
    line.trim().parse().ok().filter(|total| *total > 0.0)
}

/// The child: runs a phase on a store that the parent has loaded.
pub(crate) fn child(url: &str, phase: &str, operations: u64) -> Result<(), Failure> {
    let subject = Subject::new(&study(operations, url))?;
    let store = storebench_stores::open(url)?;
    store.inspect()?;
    store.prepare(&subject.layout(), if phase.starts_with("read") { Prepare::ReadOnly } else { Prepare::Keep })?;
    subject.run(&store, phase)?;
    Ok(())
}

/// The counts that are kept in the repository.
struct Kept(BTreeMap<String, u64>);

/// The head of the kept file.
const HEAD: &str = "\
# Instructions of a worker for one operation, outside the kernel, counted by callgrind. `make check-speed` compares with
# these. After a change that is meant to cost or save some: storebench-bench --only instructions --keep
#
# store, kind of operation, in flight on each connection, instructions
";

impl Kept {
    fn file() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt")
    }

    fn read() -> Result<Self, Failure> {
        let file = Self::file();
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        Self::parse(&text).map_err(|line| format!("{}: `{line}` is no name and count", file.display()).into())
    }

    fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let entry = |line: &str| {
            let (name, count) = line.trim().rsplit_once(' ')?;
            Some((name.trim().to_owned(), count.parse().ok()?))
        };
        lines.map(|line| entry(line).ok_or_else(|| line.to_owned())).collect::<Result<_, _>>().map(Self)
    }

    fn text(&self) -> String {
        let lines = FIGURES.iter().filter_map(|name| self.0.get(*name).map(|count| format!("{name:<24}{count:>8}\n")));
        format!("{HEAD}{}", lines.collect::<String>())
    }

    fn write(&self) -> Result<(), Failure> {
        Ok(std::fs::write(Self::file(), self.text())?)
    }

    /// A count next to the kept one; `keep` replaces that.
    fn figure(&mut self, name: &str, counts: Samples, keep: bool) -> Figure {
        if keep {
            self.0.insert(name.to_owned(), counts.median().round() as u64);
        }
        let Some(kept) = self.0.get(name) else {
            return Figure::not_measured(TOPIC, name, "no count of it is kept; keep one with --keep");
        };
        let same = Samples(vec![*kept as f64; counts.0.len()]);
        let saved = counts.median() * TOLERANCE < *kept as f64;
        let figure = Figure::new(TOPIC, name, Unit::Instructions, counts)
            .beside("kept", same)
            .target(Target::RatioAtMost(TOLERANCE));
        if saved { figure.note("fewer than kept: keep the new count with --keep") } else { figure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Outcome;

    #[test]
    fn counts_are_read_and_kept() {
        assert_eq!(total("version: 1\nevents: Ir\n\nfn=(0)\n0 5\n\ntotals: 12345\n"), Some(12_345.0));
        assert_eq!((total("events: Ir\ntotals: 0\n"), total("")), (None, None));
        let mut kept = Kept::parse("# a head\n\nnull write 1     400\nnull read 1 100\n").unwrap();
        let mut outcome = |name: &str, count: f64, keep| {
            let figure = kept.figure(name, Samples(vec![count; 3]), keep);
            (figure.outcome(), figure.notes.len())
        };
        assert_eq!(outcome("null write 1", 411.0, false), (Outcome::Met, 0));
        assert_eq!(outcome("null write 1", 413.0, false), (Outcome::Missed, 0));
        assert_eq!(outcome("null write 1", 380.0, false), (Outcome::Met, 1));
        assert!(matches!(outcome("sqlite write 1", 9.0, false).0, Outcome::NotMeasured(_)));
        assert_eq!(outcome("null write 1", 420.4, true), (Outcome::Met, 0));
        assert_eq!(kept.0["null write 1"], 420);
        assert_eq!(Kept::parse(&kept.text()).unwrap().0, kept.0);
        assert_eq!(Kept::parse("null write\n").err(), Some("null write".into()));
    }

    #[test]
    fn every_figure_has_its_phase_and_is_kept() {
        let kept = Kept::read().unwrap();
        assert_eq!(kept.text(), std::fs::read_to_string(Kept::file()).unwrap());
        for name in FIGURES {
            let (store, phase) = name.split_once(' ').unwrap();
            let study = study(FEW, &format!("{store}:"));
            assert!(study.contains(&format!("name = \"{}\"", phase.replace(' ', "-"))), "{name}");
            assert!(kept.0.contains_key(*name), "{name}");
        }
    }

    #[test]
    fn a_child_runs() {
        let place = Place::start("sqlite").unwrap();
        let subject = Subject::new(&study(FEW, place.url())).unwrap();
        let store = storebench_stores::open(place.url()).unwrap();
        store.prepare(&subject.layout(), Prepare::Fresh).unwrap();
        subject.run(&store, "load").unwrap();
        store.close().unwrap();
        for phase in ["write-1", "read-1"] {
            child(place.url(), phase, 1_000).unwrap();
        }
    }
}
