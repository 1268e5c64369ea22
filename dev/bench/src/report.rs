//! How long `storebench report` takes for a large study, and how large its page is; how long `storebench history` takes for
//! the nights of many years.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::embedded::folder;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::program::program;
use crate::rounds::interleave;
use crate::{Failure, large_study};
use storebench_results::history::{HISTORY_FORMAT, HistoryConfiguration, HistoryEntry};

pub(crate) const TOPIC: &str = "report";
pub(crate) const FIGURES: &[&str] = &["page of 200 trials", "history of 10,000 runs"];

const TRIALS: u32 = 200;
const NIGHTS: u64 = 10_000;

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    if options.wants(TOPIC, FIGURES[0]) {
        figures.extend(page(options)?);
    }
    if options.wants(TOPIC, FIGURES[1]) {
        figures.push(history(options)?);
    }
    Ok(figures)
}

fn timed(what: &mut dyn FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let begun = Instant::now();
    what()?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

/// Two configurations of three figures each, every night.
fn history(options: &Options) -> Result<Figure, Failure> {
    let program = program()?;
    let lab = tempfile::Builder::new().prefix("storebench-bench-").tempdir_in(folder(options)?)?;
    let nights = options.work(NIGHTS).max(100);
    for night in 0..nights {
        let (year, month, day) = (2026 + night / 336, night / 28 % 12 + 1, night % 28 + 1);
        let wobble = 1.0 + 0.03 * ((night * 7_919 % 101) as f64 / 50.0 - 1.0);
        let configuration = |name: &str| HistoryConfiguration {
            configuration: name.to_owned(),
            version: "1.0".to_owned(),
            work: "0123456789abcdef".to_owned(),
            figures: ["load.documents", "mixed.throughput", "steady.response.p99"]
                .map(|figure| (figure.to_owned(), [Some(1e5 * wobble), Some(9e4 * wobble), Some(1.1e5 * wobble)]))
                .into(),
            ..HistoryConfiguration::default()
        };
        let entry = HistoryEntry {
            format: HISTORY_FORMAT.to_owned(),
            run: "nightly".to_owned(),
            began: format!("{year}-{month:02}-{day:02}T02:00:00Z"),
            commit: Some(format!("{night:040x}")),
            branch: Some("main".to_owned()),
            machine: "a machine".to_owned(),
            configurations: ["a", "b"].map(configuration).into(),
            ..HistoryEntry::default()
        };
        storebench_results::history::add(lab.path(), &entry)?;
    }
    let mut ours = || {
        timed(&mut || {
            let mut command = Command::new(&program);
            let ended =
                command.args(["history", "check", "--history"]).arg(lab.path()).stdout(Stdio::null()).status()?;
            if ended.success() { Ok(()) } else { Err(format!("history ended with {ended}").into()) }
        })
        .map(|ms| [ms])
    };
    let mut read =
        || timed(&mut || std::fs::read_dir(lab.path())?.try_for_each(|month| read_all(&month?.path()))).map(|ms| [ms]);
    let all = interleave::<1>(options.rounds, vec![&mut ours, &mut read])?;
    let [[ours], [read]] = &all[..] else { return Err("two sides give two results".into()) };
    Ok(Figure::new(TOPIC, format!("history of {nights} runs: read and checked"), Unit::Ms, ours.clone())
        .beside("reading its files into serde_json::Values", read.clone())
        .target(Target::AtMost(1_000.0)))
}

fn page(options: &Options) -> Result<Vec<Figure>, Failure> {
    let program = program()?;
    let lab = tempfile::Builder::new().prefix("storebench-bench-").tempdir_in(folder(options)?)?;
    let run = lab.path().join("run");
    std::fs::create_dir(&run)?;
    let trials = options.work(u64::from(TRIALS)).max(20) as u32;
    large_study::write(&run, trials)?;
    let page = lab.path().join("report.html");
    let mut ours = || {
        timed(&mut || {
            let mut command = Command::new(&program);
            let ended = command.arg("report").arg(&run).arg("-o").arg(&page).stdout(Stdio::null()).status()?;
            if ended.success() { Ok(()) } else { Err(format!("report ended with {ended}").into()) }
        })
        .map(|ms| [ms])
    };
    let mut read = || timed(&mut || read_all(&run)).map(|ms| [ms]);
    let all = interleave::<1>(options.rounds, vec![&mut ours, &mut read])?;
    let [[ours], [read]] = &all[..] else { return Err("two sides give two results".into()) };
    let seconds = u64::from(trials) * large_study::SECONDS;
    let what = format!("page of {trials} trials, {} min of one-second intervals", seconds / 60);
    let megabytes = std::fs::metadata(&page)?.len() as f64 / 1e6;
    Ok(vec![
        Figure::new(TOPIC, format!("{what}: written"), Unit::Ms, ours.clone())
            .beside("reading its files, and run.json into a serde_json::Value", read.clone())
            .target(Target::AtMost(3_000.0)),
        Figure::new(TOPIC, format!("{what}: its size"), Unit::Mb, Samples(vec![megabytes])).target(Target::AtMost(5.0)),
    ])
}

/// Reads every file of the run once, and parses what is JSON.
fn read_all(run: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(run)? {
        let bytes = std::fs::read(entry?.path())?;
        if bytes.first() == Some(&b'{') {
            std::hint::black_box(serde_json::from_slice::<serde_json::Value>(&bytes)?);
        }
        std::hint::black_box(bytes);
    }
    Ok(())
}
