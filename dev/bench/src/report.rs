//! How long `storebench report` takes for a large study, and how large its page is.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::embedded::folder;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::program::program;
use crate::rounds::interleave;
use crate::{Failure, large_study};

pub(crate) const TOPIC: &str = "report";
pub(crate) const FIGURES: &[&str] = &["page of 200 trials"];

const TRIALS: u32 = 200;

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let program = program()?;
    let lab = tempfile::Builder::new().prefix("storebench-bench-").tempdir_in(folder(options)?)?;
    let run = lab.path().join("run");
    std::fs::create_dir(&run)?;
    let trials = options.work(u64::from(TRIALS)).max(20) as u32;
    large_study::write(&run, trials)?;
    let page = lab.path().join("report.html");
    let timed = |what: &mut dyn FnMut() -> Result<(), Failure>| -> Result<f64, Failure> {
        let begun = Instant::now();
        what()?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    };
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
