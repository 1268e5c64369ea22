//! Two parts of a run on one machine, compared with one process that has as many workers.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::Failure;
use crate::embedded::folder;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::program::program;
use crate::rounds::interleave;
use crate::servers::Server;
use crate::subject::head;

pub(crate) const TOPIC: &str = "parts";

pub(crate) const FIGURES: &[&str] = &["throughput", "p50", "p99"];

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let server = Server::start("redis", &[])?;
    let lab = tempfile::Builder::new().prefix("storebench-bench-").tempdir_in(folder(options)?)?;
    let program = program()?;
    let study = lab.path().join("parts.toml");
    let duration_ms = options.work(10_000).max(1_000);
    std::fs::write(
        &study,
        format!(
            "stores = [\"{}\"]\n{}\n[[phases]]\nname = \"load\"\nload = [\"documents\"]\nworkers = 2\nbatch = 100\n\
             [[phases]]\nname = \"mixed\"\nmix = {{ read = 1, upsert = 1 }}\nworkers = 2\nin_flight = 8\n\
             duration = \"{duration_ms}ms\"\n",
            server.url,
            head("Parts", 20_000, "1KiB")
        ),
    )?;
    let mut nth = 0;
    let mut out = || {
        nth += 1;
        lab.path().join(format!("out-{nth}"))
    };
    let start = |more: &[&str], out: &Path| -> Result<Child, Failure> {
        let mut command = Command::new(&program);
        command.arg("run").arg(&study).args(more).args(["--json", "--quiet", "--out"]).arg(out);
        Ok(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
    };
    let places: Vec<_> = (0..2 * options.rounds).map(|_| out()).collect();
    let (mut halves, mut wholes) = (places.iter(), places.iter().rev());
    let mut parts = || {
        let out = halves.next().ok_or("too many rounds")?;
        let both = [start(&["--part", "1/2"], out)?, start(&["--part", "2/2"], out)?];
        for part in both {
            part.wait_with_output()?;
        }
        let mut merge = Command::new(&program);
        merge.arg("merge").arg(out).args(["--json", "--quiet", "--out"]).arg(out.join("merged"));
        figures_of(&merge.output()?.stdout)
    };
    let mut whole = || figures_of(&start(&[], wholes.next().ok_or("too many rounds")?)?.wait_with_output()?.stdout);
    let all = interleave::<3>(options.rounds, vec![&mut parts, &mut whole])?;
    let figure = |at: usize, what: &str, unit| {
        Figure::new(TOPIC, format!("{what} of two parts with one worker each"), unit, all[0][at].clone())
            .beside("one process with two workers", all[1][at].clone())
    };
    let near = |figure: Figure| {
        let ratio = figure.ratio().unwrap_or_default();
        let (least, greatest) = (ratio.least(), ratio.greatest());
        figure.note(format!("the ratios lie from {least:.3} to {greatest:.3}: they agree if 1 is among them"))
    };
    Ok(vec![
        near(figure(0, "throughput", Unit::DocsPerS).target(Target::RatioAtLeast(0.9))),
        near(figure(1, "p50 of reads", Unit::Us)),
        near(figure(2, "p99 of reads", Unit::Us)),
    ])
}

/// Throughput, and p50 and p99 of reads in µs.
fn figures_of(stdout: &[u8]) -> Result<[f64; 3], Failure> {
    let result: Value = serde_json::from_slice(stdout)?;
    let phases = result["trials"][0]["phases"].as_array().ok_or("the run has no trial")?;
    let mixed = phases.iter().find(|phase| phase["name"] == "mixed").ok_or("the run has no phase")?;
    let ops = mixed["ops"].as_object().ok_or("the phase has no operations")?;
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let throughput = ops.values().map(|op| number(&op["throughput_per_s"])).sum();
    let times = &mixed["ops"]["read"]["service_ns"];
    Ok([throughput, number(&times["p50"]) / 1e3, number(&times["p99"]) / 1e3])
}
