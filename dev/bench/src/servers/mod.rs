//! Drivers of servers, compared with official crates on the same server by the processor time of their thread for an
//! operation. `peers` compares complete programs. The scripts in `servers/` start the servers.

mod by_crate;
mod couchbase;
pub(crate) mod http;
mod mongodb;
mod postgres;
mod redis;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use storebench_engine::measure::PhaseRecord;
use storebench_engine::store::AnyStore;

use crate::Failure;
use crate::figure::Figure;
use crate::options::Options;
use crate::subject::Subject;

pub(crate) const TOPIC: &str = "servers";

pub(crate) const FIGURES: &[&str] = &[
    "postgres load",
    "postgres query",
    "redis set 1",
    "redis get 1",
    "redis set 16",
    "redis get 16",
    "redis set 64",
    "redis get 64",
    "mongodb load",
    "mongodb get 1",
    "mongodb get 16",
    "couchbase set 1",
    "couchbase get 1",
    "couchbase set 100",
    "couchbase get 100",
];

/// Measures the figures of one server.
type Measure = fn(&Options) -> Result<Vec<Figure>, Failure>;

const MEASURES: [(&str, Measure); 4] = [
    ("postgres", postgres::measure),
    ("redis", redis::measure),
    ("mongodb", mongodb::measure),
    ("couchbase", couchbase::measure),
];

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for (server, measure) in MEASURES {
        let wanted = |name: &&&str| name.starts_with(server) && options.wants(TOPIC, name);
        if !FIGURES.iter().any(|name| wanted(&name)) {
            continue;
        }
        match measure(options) {
            Ok(measured) => figures.extend(measured),
            Err(failure) => {
                let lost = FIGURES.iter().filter(wanted);
                figures.extend(lost.map(|name| Figure::not_measured(TOPIC, name, &failure.to_string())));
            }
        }
    }
    Ok(figures)
}

/// A server that runs until this value is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) port: u16,
    name: &'static str,
    folder: tempfile::TempDir,
}

/// A port that the system does not give to clients, which get ports from 32,768 on.
fn free_port() -> Option<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id() as u16 % 200 * 100;
    (0..1_000)
        .map(|_| 12_000 + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000)
        .find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok())
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers").join(name)
}

impl Server {
    pub(crate) fn start(name: &'static str, arguments: &[&str]) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("storebench-bench-").tempdir()?;
        let port = free_port().ok_or("no port below the range of clients is free")?;
        let mut start = Command::new(script("start"));
        start.args([name, "--port", &port.to_string(), "--data"]).arg(folder.path()).args(arguments);
        let output = start.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let url = String::from_utf8(output.stdout)?.trim().to_owned();
        if !output.status.success() || url.is_empty() {
            return Err(format!("servers/start {name} did not start it; see above").into());
        }
        Ok(Self { url, port, name, folder })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = Command::new(script("stop"));
        // The script reports on stderr what it cannot stop.
        let _ = stop.args([self.name, "--kill", "--data"]).arg(self.folder.path()).stdin(Stdio::null()).status();
    }
}

/// A program of a package that a module of `servers/lib` installs. Not the machine's program of that name, which may be
/// a wrapper (such as Debian's `psql`) that would be measured too.
pub(crate) fn program(module: &str, name: &str) -> Result<Command, Failure> {
    const WHERE_IS_IT: &str = "import importlib, sys\n\
        sys.dont_write_bytecode = True\n\
        sys.path.insert(0, sys.argv[1])\n\
        from lib import debian\n\
        module = importlib.import_module('lib.' + sys.argv[2])\n\
        root = module.install()\n\
        print(root / getattr(module, 'BINARIES', 'usr/bin'))\n\
        print(debian.environment(root)['LD_LIBRARY_PATH'])";
    let found = Command::new("python3").args(["-c", WHERE_IS_IT]).arg(script("")).arg(module).output()?;
    let text = String::from_utf8(found.stdout)?;
    let mut lines = text.lines();
    let folder = lines
        .next()
        .ok_or_else(|| format!("{name} could not be installed: {}", String::from_utf8_lossy(&found.stderr)))?;
    let mut command = Command::new(Path::new(folder).join(name));
    command.env("LD_LIBRARY_PATH", lines.next().unwrap_or_default());
    Ok(command)
}

/// Runs a program to its end. Returns its processor time in µs, and what it printed.
///
/// The system counts the time of ended children in steps of 10 ms, so let the program run for about a second.
pub(crate) fn child_cpu_us(command: &mut Command) -> Result<(f64, String), Failure> {
    let before = children_ticks()?;
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{name} cannot be run: {e}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let ticks = children_ticks()? - before;
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Ok((ticks as f64 * 1e6 / per_second, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Processor time of the workers of a phase, in µs for each operation, without the time that pacing spins.
pub(crate) fn cpu_us_of_one(record: &PhaseRecord) -> f64 {
    let cpu_ns: u64 = record.worker_use.iter().map(|u| u.cpu_ns - u.spin_ns).sum();
    cpu_ns as f64 / 1e3 / record.operations().max(1) as f64
}

/// Runs a phase and returns the processor time of an operation in µs.
pub(crate) fn through_the_engine(subject: &Subject, store: &Arc<dyn AnyStore>, phase: &str) -> Result<f64, Failure> {
    subject.run(store, phase).map(|record| cpu_us_of_one(&record))
}

/// `cutime` and `cstime` of proc_pid_stat(5).
fn children_ticks() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let mut ticks = fields.split_ascii_whitespace().skip(13).map(str::parse::<u64>);
    match (ticks.next(), ticks.next()) {
        (Some(Ok(user)), Some(Ok(system))) => Ok(user + system),
        _ => Err("/proc/self/stat does not have the time of children".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_child_is_counted() {
        let mut busy = Command::new("sh");
        busy.args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done"]);
        let (cpu_us, printed) = child_cpu_us(&mut busy).unwrap();
        assert!(cpu_us > 0.0 && printed == "done\n");
        assert!(child_cpu_us(&mut Command::new("no-such-program")).is_err());
    }
}
