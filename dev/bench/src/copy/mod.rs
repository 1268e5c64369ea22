//! `storebench copy` as its users run it, as a separate process, compared with the stores' own tools.

mod couchdb;
mod files;
mod mysql;
mod postgres;
mod redis;
mod scaling;
mod sqlite;
mod stdin;

use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::Failure;
use crate::embedded::folder;
use crate::figure::Figure;
use crate::options::Options;
use crate::program::program;
use crate::servers::child_cpu_us;
use crate::subject::{Subject, head};

const TOPIC: &str = "copy";

pub(crate) const FIGURES: &[&str] = &[
    "jsonl to null",
    "parquet to null",
    "standard input",
    "jsonl to postgres",
    "postgres to jsonl",
    "jsonl to mysql",
    "mysql to jsonl",
    "jsonl to sqlite os",
    "jsonl to sqlite fsync",
    "jsonl to couchdb",
    "csv to redis",
    "parallel into a slow store",
    "parallel out of a slow store",
];

/// What measures some of the figures.
type Measure = fn(&Options, &Lab) -> Result<Vec<Figure>, Failure>;

/// Each with a part that the names of its figures contain.
const MEASURES: [(&str, Measure); 8] = [
    ("null", files::measure),
    ("standard", stdin::measure),
    ("postgres", postgres::measure),
    ("mysql", mysql::measure),
    ("sqlite", sqlite::measure),
    ("couchdb", couchdb::measure),
    ("redis", redis::measure),
    ("parallel", scaling::measure),
];

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let lab = Lab::new(options)?;
    let mut figures = Vec::new();
    for (part, measure) in MEASURES {
        let wanted = |name: &&&str| name.contains(part) && options.wants(TOPIC, name);
        if !FIGURES.iter().any(|name| wanted(&name)) {
            continue;
        }
        match measure(options, &lab) {
            Ok(measured) => figures.extend(measured),
            Err(failure) => {
                let lost = FIGURES.iter().filter(wanted);
                figures.extend(lost.map(|name| Figure::not_measured(TOPIC, name, &failure.to_string())));
            }
        }
    }
    Ok(figures)
}

/// The program that is measured, and a folder on the disk in question.
struct Lab {
    program: PathBuf,
    folder: TempDir,
}

/// What a copy did.
struct Done {
    /// Records that were written.
    documents: f64,
    /// Bytes of their keys and documents.
    bytes: f64,
    /// From its first record to its last, without the start of the process.
    seconds: f64,
    /// The whole process.
    wall_s: f64,
    /// Processor time of the whole process.
    cpu_us: f64,
}

impl Lab {
    fn new(options: &Options) -> Result<Self, Failure> {
        let program = program()?;
        let folder = tempfile::Builder::new().prefix("storebench-bench-").tempdir_in(folder(options)?)?;
        Ok(Self { program, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command<A: AsRef<OsStr>>(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>, more: &[A]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("copy").arg(from).arg(to).args(more).args(["--restart", "--json", "--quiet"]);
        command.arg("--out").arg(self.path("runs")).stdin(Stdio::null());
        command
    }

    /// Copies, with one worker by default. A copy that rejects records is an error.
    fn copy(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>, words: &str) -> Result<Done, Failure> {
        let mut more: Vec<&str> = words.split_whitespace().collect();
        if !more.contains(&"--parallel") {
            more.extend(["--parallel", "1"]);
        }
        let begun = Instant::now();
        let (cpu_us, report) = child_cpu_us(&mut self.command(from, to, &more))?;
        let wall_s = begun.elapsed().as_secs_f64();
        let report: Value = serde_json::from_str(&report)?;
        let count = |name: &str| report["counts"][name].as_f64().unwrap_or(f64::NAN);
        let seconds = report["seconds"].as_f64().unwrap_or(f64::NAN);
        Ok(Done { documents: count("written"), bytes: count("bytes"), seconds, wall_s, cpu_us })
    }

    /// Documents with their keys before a tab, and their backslashes doubled.
    fn tab_text(&self, documents: &Documents) -> Result<PathBuf, Failure> {
        let text = self.path("documents.tab");
        let mut out = BufWriter::new(std::fs::File::create(&text)?);
        documents.each(&mut |key, body| {
            out.write_all(key)?;
            out.write_all(b"\t")?;
            for piece in body.split_inclusive(|byte| *byte == b'\\') {
                out.write_all(piece)?;
                out.write_all(if piece.ends_with(b"\\") { b"\\" } else { b"" })?;
            }
            out.write_all(b"\n")
        })?;
        out.flush()?;
        Ok(text)
    }

    /// Documents as JSON lines with their keys in `_id`, made once.
    fn lines(&self, documents: &Documents) -> Result<PathBuf, Failure> {
        let path = self.path(&format!("{}-{}.jsonl", documents.size, documents.count));
        if !path.exists() {
            let mut out = BufWriter::new(std::fs::File::create(&path)?);
            documents.each(&mut |key, body| {
                out.write_all(b"{\"_id\":\"")?;
                out.write_all(key)?;
                out.write_all(b"\",")?;
                out.write_all(&body[1..])?;
                out.write_all(b"\n")
            })?;
            out.flush()?;
        }
        Ok(path)
    }
}

/// A function that takes a key and a document.
type Take<'a> = dyn FnMut(&[u8], &[u8]) -> std::io::Result<()> + 'a;

/// Synthetic documents of one size.
struct Documents {
    subject: Subject,
    count: u64,
    size: &'static str,
}

impl Documents {
    fn new(count: u64, size: &'static str) -> Result<Self, Failure> {
        let phase = "[[phases]]\nname = \"load\"\nload = [\"documents\"]\n";
        Ok(Self { subject: Subject::new(&(head("Copy", count, size) + phase))?, count, size })
    }

    /// Passes each key, which needs no escapes in JSON, and its document, which has at least one member.
    fn each(&self, write: &mut Take<'_>) -> Result<(), Failure> {
        let (mut key, mut body) = (Vec::new(), Vec::new());
        for index in 0..self.count {
            key.clear();
            body.clear();
            self.subject.documents().write_key(index, &mut key);
            self.subject.documents().write_document(index, 0, &mut body);
            write(&key, &body)?;
        }
        Ok(())
    }
}

/// Bytes of a file.
fn bytes_of(path: &Path) -> Result<f64, Failure> {
    Ok(std::fs::metadata(path)?.len() as f64)
}
