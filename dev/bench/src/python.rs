//! The Python package and Spark. `dev/bench/python/measure.py` does the measuring in Python.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::Failure;
use crate::embedded::folder;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::program::program;
use crate::rounds::interleave;
use crate::subject::{Subject, head};

pub(crate) const TOPIC: &str = "python";

pub(crate) const FIGURES: &[&str] = &[
    "documents()",
    "read()",
    "spark.copy jsonl to redis",
    "spark.copy parquet to postgres",
    "spark data source: read",
    "spark data source: write",
];

/// Documents of 2 KB.
const DOCUMENTS: u64 = 600_000;

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let lab = Lab::new(options)?;
    let mut figures = Vec::new();
    if options.wants(TOPIC, "documents()") {
        let subject = Subject::new(&(head("Python", lab.documents, "2KB") + LOAD))?;
        let mut ours = || lab.value("documents");
        let mut natively = || {
            let (mut key, mut body) = (Vec::new(), Vec::new());
            let begun = Instant::now();
            for index in 0..lab.documents {
                key.clear();
                body.clear();
                subject.documents().write_key(index, &mut key);
                subject.documents().write_document(index, 0, &mut body);
                std::hint::black_box((&key, &body));
            }
            Ok([lab.documents as f64 / begun.elapsed().as_secs_f64()])
        };
        let all = interleave::<1>(options.rounds, vec![&mut ours, &mut natively])?;
        figures.push(
            Figure::new(TOPIC, "documents(): an Arrow stream", Unit::DocsPerS, all[0][0].clone())
                .beside("the same documents, generated into one buffer", all[1][0].clone())
                .target(Target::RatioAtLeast(0.8)),
        );
    }
    if options.wants(TOPIC, "read()") {
        // Makes the file.
        lab.value("read")?;
        let mut ours = || lab.value("read");
        let mut copied = || lab.copied();
        let all = interleave::<1>(options.rounds, vec![&mut ours, &mut copied])?;
        figures.push(
            Figure::new(TOPIC, "read(): JSON lines as an Arrow stream, 2 threads", Unit::DocsPerS, all[0][0].clone())
                .beside("copy to null:, 2 workers", all[1][0].clone())
                .target(Target::RatioAtLeast(0.8)),
        );
    }
    if FIGURES.iter().any(|name| name.starts_with("spark") && options.wants(TOPIC, name)) {
        let found = lab.python("spark", options.rounds)?;
        for name in ["jsonl to redis", "parquet to postgres"] {
            let what = format!("spark.copy: {name}, two workers");
            figures.push(
                Figure::new(TOPIC, what, Unit::DocsPerS, samples(&found[name]["ours"]))
                    .beside("copy, two workers", samples(&found[name]["reference"]))
                    .target(Target::RatioAtLeast(0.9)),
            );
        }
        for (name, least) in [("read", 100e3), ("write", 50e3)] {
            let what = format!("spark data source: {name}, 2 KB, two workers");
            let figure = Figure::new(TOPIC, what, Unit::DocsPerS, samples(&found[name]["ours"]));
            figures.push(figure.target(Target::AtLeast(least)));
        }
    }
    Ok(figures)
}

const LOAD: &str = "[[phases]]\nname = \"load\"\nload = [\"documents\"]\n";

fn samples(values: &Value) -> Samples {
    Samples(values.as_array().into_iter().flatten().filter_map(Value::as_f64).collect())
}

/// The package as `pip` would install it, and a folder on the disk in question.
struct Lab {
    program: PathBuf,
    folder: TempDir,
    documents: u64,
    /// The folders of Python modules.
    path: String,
    servers: PathBuf,
}

impl Lab {
    fn new(options: &Options) -> Result<Self, Failure> {
        let program = program()?;
        let folder = tempfile::Builder::new().prefix("storebench-bench-").tempdir_in(folder(options)?)?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let servers = root.join("servers");
        let package = folder.path().join("package");
        std::fs::create_dir(&package)?;
        for name in ["storebench", "pyspark_storebench"] {
            Command::new("cp").arg("-r").arg(root.join("crates/python/python").join(name)).arg(&package).status()?;
        }
        let module = program.with_file_name("lib_native.so");
        if !module.exists() {
            return Err(format!("{} does not exist; build it with `make bench`", module.display()).into());
        }
        std::os::unix::fs::symlink(module, package.join("storebench/_native.abi3.so"))?;
        let mut path = package.display().to_string();
        let installed = Command::new(servers.join("where")).arg("spark").output()?;
        if !installed.status.success() {
            return Err(String::from_utf8_lossy(&installed.stderr).into_owned().into());
        }
        path = format!("{path}:{}", String::from_utf8_lossy(&installed.stdout).trim());
        Ok(Self { program, folder, documents: options.work(DOCUMENTS), path, servers })
    }

    /// What a group of the script found.
    fn python(&self, group: &str, rounds: usize) -> Result<Value, Failure> {
        let output = Command::new("python3")
            .arg("-S")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python/measure.py"))
            .args([group, "--rounds", &rounds.to_string(), "--documents", &self.documents.to_string()])
            .arg("--program")
            .arg(&self.program)
            .arg("--servers")
            .arg(&self.servers)
            .arg("--folder")
            .arg(self.folder.path())
            .env("PYTHONPATH", &self.path)
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(said.lines().last().unwrap_or("measure.py failed").to_owned().into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The only value of a group.
    fn value(&self, group: &str) -> Result<[f64; 1], Failure> {
        let found = self.python(group, 1)?;
        Ok([samples(&found[group]["ours"]).median()])
    }

    /// Documents a second of a copy to the null store.
    fn copied(&self) -> Result<[f64; 1], Failure> {
        let mut command = Command::new(&self.program);
        command.arg("copy").arg(self.folder.path().join("documents.jsonl"));
        command.args(["null:", "--to-collection", "documents", "--workers", "2", "--json", "--quiet"]);
        let output = command.arg("--out").arg(self.folder.path().join("runs")).output()?;
        let report: Value = serde_json::from_slice(&output.stdout)?;
        let seconds = report["seconds"].as_f64().ok_or("the copy gave no report")?;
        Ok([self.documents as f64 / seconds])
    }
}
