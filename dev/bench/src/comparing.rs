//! Whether studies find a difference if there is one, and none if there is none. Runs complete studies repeatedly.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::AnyStore;
use storebench_engine::{Event, Stop, Unsupported};
use storebench_lab::run::{ConfigurationRequest, PrepareMode, RunRequest, compile_documents, run};
use storebench_results::stats::Estimate;
use storebench_study::workload::Study;

use crate::Failure;
use crate::figure::{Figure, Samples, Unit};
use crate::options::Options;
use crate::subject::head;

pub(crate) const FIGURES: &[&str] = &["A/A", "A/B"];

const TOPIC: &str = "comparing";
/// Rounds of each study.
const ROUNDS: u32 = 5;

/// The throughput of the second store divided by that of the first, in one study of five rounds.
fn ratio(nth: u64, urls: [&str; 2], duration_ms: u64) -> Result<Estimate, Failure> {
    let text = format!(
        "repeats = {ROUNDS}\n{}\n[[phases]]\nname = \"load\"\nload = [\"documents\"]\n[[phases]]\nname = \"mixed\"\n\
         mix = {{ read = 1, upsert = 1 }}\nworkers = 1\nduration = \"{duration_ms}ms\"\n",
        head("comparing", 1_000, "300B").replace("seed = 435", &format!("seed = {}", 435 + nth))
    );
    let study = Study::parse(&text, Path::new("comparing"), &[])?;
    let documents = compile_documents(&study, 1.0, Path::new("."))?;
    let open = |(name, url): (&str, &str)| -> Result<(String, Arc<dyn AnyStore>), Failure> {
        Ok((name.to_owned(), storebench_stores::open(url)?))
    };
    let stores = ["a", "b"].into_iter().zip(urls).map(open).collect::<Result<Vec<_>, _>>()?;
    let request = RunRequest {
        anyway: true,
        name: "comparing".into(),
        configurations: ConfigurationRequest::of_stores(&study, &documents, 1.0, stores),
        study,
        study_text: text,
        study_file: None,
        overrides: Vec::new(),
        prices: None,
        part: None,
        resume: None,
        runs_dir: None,
        transfers: None,
        unsupported: Unsupported::Refuse,
        prepare: PrepareMode::Fresh,
        remove_after: true,
        interval: Duration::from_secs(1),
        commit: None,
    };
    let outcome = run(&request, Arc::new(Stop::new()), &mut |_: &Event<'_>| {})?;
    let figure =
        outcome.result.configurations.get(1).and_then(|configuration| configuration.figures.get("mixed.throughput"));
    figure.and_then(|figure| figure.to_first).ok_or_else(|| "a study gave no ratio".into())
}

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let duration_ms = options.work(400).max(40);
    let mut figures = Vec::new();
    if options.wants(TOPIC, "A/A") {
        let all = (0..20).map(|nth| ratio(nth, ["memory:", "memory:"], duration_ms)).collect::<Result<Vec<_>, _>>()?;
        figures.push(
            Figure::new(TOPIC, "A/A: intervals of 20 studies that contain 1", Unit::Percent, covering(&all, 1.0))
                .note(format!("{ROUNDS} rounds each; 95 expected, 80 or less in 1 of 400 cases"))
                .note(format!("the 20 ratios lie from {:.3} to {:.3}", ends(&all).0, ends(&all).1)),
        );
        figures.push(
            Figure::new(TOPIC, "A/A: half of an interval's width, of the ratio", Unit::Percent, widths(&all))
                .note("the smallest difference that can be seen"),
        );
    }
    if options.wants(TOPIC, "A/B") {
        // 10 % more service time means 1 / 1.1 of the operations.
        let urls = ["slow+memory:?latency=1ms", "slow+memory:?latency=1100us"];
        let all = (0..20).map(|nth| ratio(nth, urls, duration_ms)).collect::<Result<Vec<_>, _>>()?;
        let share = |of: &Estimate| of.value * 100.0;
        figures.push(
            Figure::new(
                TOPIC,
                "A/B: throughput at 1.1 ms of service over that at 1 ms",
                Unit::Percent,
                Samples(all.iter().map(share).collect()),
            )
            .beside("1 / 1.1", Samples(vec![100.0 / 1.1; all.len()])),
        );
        figures.push(Figure::new(
            TOPIC,
            "A/B: intervals of 20 studies that lie below 1",
            Unit::Percent,
            Samples(vec![all.iter().filter(|of| of.beyond(1.0)).count() as f64 / all.len() as f64 * 100.0]),
        ));
        figures.push(
            Figure::new(
                TOPIC,
                "A/B: intervals of 20 studies that contain 1 / 1.1",
                Unit::Percent,
                covering(&all, 1.0 / 1.1),
            )
            .note("the store sleeps; its timer adds time to both service times, which brings their ratio closer to 1"),
        );
    }
    Ok(figures)
}

fn covering(all: &[Estimate], truth: f64) -> Samples {
    let holds = |of: &&Estimate| of.low.is_some_and(|low| low <= truth) && of.high.is_some_and(|high| truth <= high);
    Samples(vec![all.iter().filter(holds).count() as f64 / all.len() as f64 * 100.0])
}

fn widths(all: &[Estimate]) -> Samples {
    Samples(all.iter().filter_map(Estimate::relative_half_width).map(|half| half * 100.0).collect())
}

fn ends(all: &[Estimate]) -> (f64, f64) {
    let values = || all.iter().map(|of| of.value);
    (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
}
