//! Runs with several configurations: factors, kept databases, searches, and resuming an interrupted run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use storebench_engine::Unsupported;
use storebench_engine::store::{AnyStore, MemoryStore};
use storebench_engine::{Event, Stop};
use storebench_results::cost::PriceSheet;
use storebench_results::{TrialResult, read_run};
use storebench_study::workload::Study;

use super::*;

const STUDY: &str = r#"
title = "Sweep"
seed = 3
repeats = 3
[collections.books]
count = 400
size = 300
fields = { name = { words = 2 }, text = { text = "fill" } }
[[phases]]
name = "load"
load = ["books"]
batch = 100
[[phases]]
name = "mixed"
mix = { read = 1, update = 1 }
operations = 600
check = 1.0
[factors]
"phases.mixed.workers" = [1, 2]
"collections.books.count" = [200, 400]
"#;

fn request(text: &str, names: &[&str], runs_dir: Option<&Path>) -> RunRequest {
    let file = Path::new("sweep.toml");
    let study = Study::parse(text, file, &[]).unwrap();
    let mut configurations = Vec::new();
    for name in names {
        let store: Arc<dyn AnyStore> = Arc::new(MemoryStore::new());
        for at in study.configurations(text, file, &[]).unwrap() {
            let documents = compile_documents(&at.study, 1.0, Path::new(".")).unwrap();
            let values = at.values_of(name);
            let (store_name, store, scale) = ((*name).to_owned(), Arc::clone(&store), 1.0);
            configurations.push(ConfigurationRequest {
                store_name,
                store,
                server: None,
                links: Links::default(),
                host: None,
                values,
                control: false,
                study: at.study,
                documents,
                scale,
                left_out: Vec::new(),
            });
        }
    }
    RunRequest {
        name: "sweep".into(),
        study,
        configurations,
        prices: None,
        part: None,
        resume: None,
        transfers: None,
        study_text: text.into(),
        study_file: None,
        overrides: Vec::new(),
        runs_dir: runs_dir.map(Path::to_owned),
        unsupported: Unsupported::Refuse,
        prepare: PrepareMode::Fresh,
        remove_after: false,
        anyway: false,
        interval: Duration::from_millis(100),
        commit: None,
    }
}

fn quietly(request: &RunRequest) -> RunOutcome {
    run(request, Arc::new(Stop::new()), &mut |_: &Event<'_>| {}).unwrap()
}

#[test]
fn every_round_holds_every_configuration_once_and_configurations_have_intervals() {
    let result = quietly(&request(STUDY, &["a", "b"], None)).result;
    assert_eq!((result.plan.configurations.len(), result.trials.len()), (8, 24));
    let mut rounds: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for trial in &result.trials {
        rounds.entry(trial.round).or_default().push(&trial.configuration);
        assert_eq!(trial.documents["books"], trial.values["collections.books.count"].as_u64().unwrap());
        assert_eq!(u64::from(trial.phases[1].workers), trial.values["phases.mixed.workers"].as_u64().unwrap());
        assert_eq!(trial.phases[0].documents.count, trial.documents["books"]);
        assert!(!trial.database_kept && trial.phases[1].ops["read"].wrong == 0);
    }
    let orders: Vec<Vec<&str>> = rounds.values().cloned().collect();
    for mut order in rounds.into_values() {
        order.sort_unstable();
        order.dedup();
        assert_eq!(order.len(), 8);
    }
    assert!(orders.windows(2).any(|pair| pair[0] != pair[1]), "orders are shuffled");
    assert_eq!(result.configurations[0].configuration, "a workers=1 books.count=200");
    for configuration in &result.configurations {
        let throughput = &configuration.figures["mixed.throughput"];
        assert!(configuration.trials == 3 && throughput.figure.low.is_some(), "{configuration:?}");
        assert_eq!(
            throughput.to_first.is_some(),
            configuration.configuration != result.configurations[0].configuration
        );
    }
    let made: Vec<(u64, usize)> = result.documents.iter().map(|c| (c.count, c.configurations.len())).collect();
    assert_eq!(made, [(200, 4), (400, 4)], "{:?}", result.documents);
    assert!(
        result.documents[1].is_of("b workers=2 books.count=400")
            && !result.documents[1].is_of(&result.configurations[0].configuration)
    );
    let swept: Vec<&str> = result.sweeps.iter().map(|s| s.factor.as_str()).collect();
    assert!(swept.contains(&"phases.mixed.workers") && swept.contains(&"collections.books.count"), "{swept:?}");
}

#[test]
fn a_kept_database_is_loaded_once_for_all_that_share_it() {
    let text = STUDY.replace("title =", "database = \"kept\"\ntitle =");
    let result = quietly(&request(&text, &["a"], None)).result;
    let loads = result.trials.iter().filter(|t| t.phases.iter().any(|p| p.loads)).count();
    // Two sizes alternate, so each round loads each of them at most once.
    assert!((2..=6).contains(&loads), "{loads}");
    let kept: Vec<_> = result.trials.iter().filter(|t| t.database_kept).collect();
    assert_eq!(kept.len(), 12 - loads);
    assert!(kept.iter().all(|t| t.phases.len() == 1 && t.failure.is_none()));
    // Documents that an earlier trial overwrote do not count as wrong.
    assert!(result.trials.iter().flat_map(|t| &t.phases).all(|p| p.ops.values().all(|op| op.wrong == 0)));
}

/// Whatever happened to the documents during a trial, the next one does not measure what is left.
#[test]
fn a_database_that_lost_documents_is_not_kept() {
    let text = STUDY.replace("title =", "database = \"kept\"\ntitle =").replace("[200, 400]", "[200]");
    let of = request(&text, &["a"], None);
    let store = Arc::clone(&of.configurations[0].store);
    let mut removed = false;
    let mut observer = |event: &Event<'_>| {
        if matches!(event, Event::PhaseBegan { phase, .. } if *phase == "mixed")
            && !std::mem::replace(&mut removed, true)
        {
            store.remove().unwrap();
        }
    };
    let result = run(&of, Arc::new(Stop::new()), &mut observer).unwrap().result;
    assert!(removed);
    // Open sessions still see them, so the next trial notices it.
    let wrong = |t: &TrialResult| t.phases.iter().flat_map(|p| p.ops.values()).any(|op| op.errors + op.misses > 0);
    let bad = result.trials.iter().position(wrong).unwrap();
    assert!(bad < 2, "{bad}");
    assert_eq!(storebench_results::validity::exit_code(&result), 1, "loaded documents were missing");
    for (at, trial) in result.trials.iter().enumerate().skip(1) {
        assert_eq!(trial.database_kept, at != bad + 1, "loaded again only after the trial that missed documents");
    }
    // Each trial draws its own keys, because those of the previous one are cached.
    let distinct = |t: &TrialResult| t.phases.last().unwrap().documents.distinct_keys;
    assert!(result.trials[2..].windows(2).any(|pair| distinct(&pair[0]) != distinct(&pair[1])));
}

#[test]
fn a_run_that_broke_off_is_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let whole = request(STUDY, &["a"], Some(dir.path()));
    let stop = Arc::new(Stop::new());
    let mut ended = 0;
    let outcome = run(&whole, Arc::clone(&stop), &mut |event: &Event<'_>| {
        if matches!(event, Event::PhaseEnded { .. }) {
            ended += 1;
            if ended == 9 {
                stop.ask();
            }
        }
    })
    .unwrap();
    let folder = outcome.folder.unwrap();
    assert!(outcome.result.run.interrupted);
    let rows = |name: &str| std::fs::metadata(folder.join(name)).unwrap().len();
    let size = rows("intervals.jsonl.gz");

    let again = RunRequest { resume: Some(folder.clone()), ..whole.clone() };
    let result = quietly(&again).result;
    assert!(!result.run.interrupted && result.run.resumed.len() == 1);
    let numbers: Vec<u32> = result.trials.iter().map(|t| t.trial).collect();
    assert_eq!(numbers, (1..=12).collect::<Vec<u32>>());
    assert_eq!(result.trials[..4], outcome.result.trials[..4], "complete trials are kept");
    assert_eq!(read_run(&folder).unwrap().trials.len(), 12);
    assert!(rows("intervals.jsonl.gz") > size);
    assert_eq!(
        std::fs::read_dir(&folder)
            .unwrap()
            .filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "hlog"))
            .count(),
        24
    );

    // Nothing is left to run, and another study is another run.
    let refused =
        |request: &RunRequest| run(request, Arc::new(Stop::new()), &mut |_: &Event<'_>| {}).unwrap_err().to_string();
    assert!(refused(&again).contains("nothing left to run"), "{}", refused(&again));
    let other = RunRequest { resume: Some(folder), ..request(&STUDY.replace("seed = 3", "seed = 4"), &["a"], None) };
    assert!(refused(&other).contains("the study"), "{}", refused(&other));
}

/// The store's real capacity does not matter here, only what the search makes of it: one limit always holds, another
/// never does.
#[test]
fn a_search_runs_the_phase_at_one_rate_after_another() {
    let study = |limit: &str| {
        format!(
            r#"
title = "Search"
[collections.books]
count = 50
[[phases]]
name = "load"
load = ["books"]
[[phases]]
name = "steady"
mix = {{ read = 1 }}
workers = 1
duration = "60ms"
[limits]
"steady.response.p50" = "{limit}"
[search]
phase = "steady"
from = 200
to = 800
rest = "1ms"
"#
        )
    };
    let searched = |limit: &str| quietly(&request(&study(limit), &["a"], None)).result.trials.remove(0);
    let holds = searched("1h");
    let search = &holds.searches[0];
    assert_eq!((search.rate, search.fails_at), (Some(800.0), None), "{search:?}");
    assert!(search.probes.iter().all(|p| p.met && p.limits.len() == 1 && p.rested == Some(true)));
    assert_eq!(holds.phases[1].rate.as_ref().unwrap().planned, 800.0);
    let never = searched("1ns");
    assert_eq!(never.searches[0].rate, None);
    assert!(never.failure.is_none() && !never.phases[1].limits[0].met);
    assert_eq!(never.phases[1].rate.as_ref().unwrap().planned, 200.0);
}

/// What was measured until then is kept, but the trial is incomplete.
#[test]
fn a_search_that_is_interrupted_is_not_whole() {
    let text = r#"
title = "Search"
[collections.books]
count = 50
[[phases]]
name = "load"
load = ["books"]
[[phases]]
name = "steady"
mix = { read = 1 }
duration = "60ms"
[limits]
"steady.response.p50" = "1h"
[search]
phase = "steady"
from = 200
to = 800
rest = "1ms"
"#;
    let stop = Arc::new(Stop::new());
    let asked = Arc::clone(&stop);
    let mut probes = 0;
    let mut observer = |event: &Event<'_>| {
        if matches!(event, Event::PhaseEnded { phase, .. } if *phase == "steady") {
            probes += 1;
            if probes == 2 {
                asked.ask();
            }
        }
    };
    let result = run(&request(text, &["a"], None), stop, &mut observer).unwrap().result;
    let trial = &result.trials[0];
    assert!(result.run.interrupted && !storebench_results::configurations::is_whole(trial), "{:?}", trial.searches);
    assert_eq!((trial.searches[0].rate, trial.searches[0].complete), (Some(200.0), false));
    assert_eq!(storebench_results::validity::exit_code(&result), 130);
}

/// Documents of another seed are wrong. The run reports that at whatever rate the limits hold.
#[test]
fn what_a_search_finds_wrong_ends_it_and_is_told() {
    let load = "[[phases]]\nname = \"load\"\nload = [\"books\"]\n";
    let read = r#"
[[phases]]
name = "steady"
mix = { read = 1 }
check = 1.0
duration = "60ms"
[limits]
"steady.response.p50" = "1h"
[search]
phase = "steady"
from = 200
to = 800
rest = "1ms"
"#;
    let study = |seed: u64, phases: &str| {
        format!("title = \"Search\"\nseed = {seed}\n[collections.books]\ncount = 50\nsize = 300\n{phases}")
    };
    let loaded = request(&study(1, load), &["a"], None);
    assert_eq!(storebench_results::validity::exit_code(&quietly(&loaded).result) & 1, 0);
    let mut other = request(&study(2, read), &["a"], None);
    other.configurations[0].store = Arc::clone(&loaded.configurations[0].store);
    other.prepare = PrepareMode::Keep;
    let result = quietly(&other).result;
    let trial = &result.trials[0];
    assert_eq!(trial.searches[0].probes.len(), 1, "{:?}", trial.searches[0]);
    assert!(trial.phases[0].ops["read"].wrong > 0);
    assert_eq!(storebench_results::validity::exit_code(&result), 1);
}

#[test]
fn what_configurations_cost_is_in_the_result() {
    let sheet = r#"
currency = "EUR"
source = "made up"
date = "2026-01-01"
[nodes.box]
per_hour = 3.6
[stores.default]
node = "box"
"#;
    let mut request = request(STUDY, &["a"], None);
    request.prices = Some(PriceSheet::parse(sheet, Path::new("prices.toml")).unwrap());
    let result = quietly(&request).result;
    let cost = result.cost.as_ref().unwrap();
    assert_eq!(cost.configurations.len(), 4);
    let per_s = result.configurations[0].figures["mixed.throughput"].figure.value;
    let million = cost.configurations[0].measured.unwrap().per_million.without_clients.value;
    assert!((million - 1e3 / per_s).abs() < 1e-6 * million, "{million} at {per_s}");
    let text = storebench_results::summary::summary(&result, storebench_results::summary::Layout::plain());
    assert!(text.contains("EUR") && text.contains("made up"), "{text}");
}
