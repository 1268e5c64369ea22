//! More workers on a slow store, on which each request takes a fixed time, however many there are.

use super::{Documents, Lab, TOPIC};
use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::rounds::{Side, interleave};

const DOCUMENTS_IN: u64 = 64_000;
/// So many that 8 workers need more than a second: each part of the store ends with a page that is not full.
const DOCUMENTS_OUT: u64 = 256_000;
const WORKERS: [u32; 5] = [1, 2, 4, 8, 16];

pub(super) fn measure(options: &Options, lab: &Lab) -> Result<Vec<Figure>, Failure> {
    let lines = |count| lab.lines(&Documents::new(options.work(count), "1KiB")?);
    let mut figures = Vec::new();
    if options.wants(TOPIC, "parallel into a slow store") {
        let lines = lines(DOCUMENTS_IN)?;
        let into = |workers: u32| {
            let words = format!("--to-collection documents --batch 100 --in-flight 1 --parallel {workers}");
            let done = lab.copy(&lines, "slow+null:?latency=10ms", &words)?;
            Ok([done.documents / done.seconds])
        };
        figures.extend(each("parallel into a slow store: 100 documents in 10 ms", options, &into)?);
    }
    if options.wants(TOPIC, "parallel out of a slow store") {
        let lines = lines(DOCUMENTS_OUT)?;
        let store = lab.path("slow.db").display().to_string();
        lab.copy(&lines, format!("sqlite:{store}"), "--to-collection documents --durability os")?;
        let out_of = |workers: u32| {
            let words = format!("--from-collection documents --to-collection documents --parallel {workers}");
            let done = lab.copy(format!("slow+sqlite:{store}?latency=50ms"), "null:", &words)?;
            Ok([done.documents / done.seconds])
        };
        figures.extend(each("parallel out of a slow store: a page in 50 ms", options, &out_of)?);
    }
    Ok(figures)
}

/// The figures for each number of workers, compared with that many times the rate of one.
fn each(what: &str, options: &Options, run: &dyn Fn(u32) -> Result<[f64; 1], Failure>) -> Result<Vec<Figure>, Failure> {
    let mut sides: Vec<_> = WORKERS.iter().map(|workers| move || run(*workers)).collect();
    let sides = sides.iter_mut().map(|side| side as Side<'_, 1>).collect();
    let all = interleave::<1>(options.rounds, sides)?;
    let one = all.first().map(|[samples]| samples.clone()).unwrap_or_default();
    let figure = |(workers, [samples]): (u32, [Samples; 1])| {
        let ideal = Samples(one.0.iter().map(|value| value * f64::from(workers)).collect());
        let figure = Figure::new(TOPIC, format!("{what}, {workers} workers"), Unit::DocsPerS, samples);
        // With more workers, a small machine may run out of processors.
        if workers == 1 { figure } else { figure.beside(format!("{workers} times one worker"), ideal) }
    };
    let mut figures: Vec<Figure> = WORKERS.into_iter().zip(all).map(figure).collect();
    for (figure, workers) in figures.iter_mut().zip(WORKERS) {
        if (2..=8).contains(&workers) {
            *figure = figure.clone().target(Target::RatioAtLeast(0.8));
        }
    }
    Ok(figures)
}
