//! Describes what a run would do, trial by trial, without touching anything.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use storebench_documents::schedule::Rate;
use storebench_documents::{Catalog, Documents};
use storebench_engine::store::Description;
use storebench_engine::{PhasePlan, ResolvedPhase};
use storebench_results::human::{count, digits, percent, rate};
use storebench_results::plan::{Estimate, Plan, PlannedCollection, PlannedConfiguration, PlannedPhase, PlannedTrial};
use storebench_results::redact;
use storebench_study::mix64;
use storebench_study::workload::{
    CopyDirection, DEFAULT_SAMPLE, Database, Language, Phase, RateSpec, Speed, Study, collection_of,
};

use crate::run::ConfigurationRequest;

/// The slow and the fast end of what stores on one machine achieve: loaded documents per second, and operations per
/// second of counted phases without a rate.
const LOAD_PER_S: (f64, f64) = (10_000.0, 300_000.0);
const OPERATIONS_PER_S: (f64, f64) = (1_000.0, 200_000.0);
/// Space amplification of a store: keys, half-full pages, logs, old versions.
pub const DISK_FACTOR: f64 = 2.5;
/// Bytes around a key in a line of a file.
const KEY_MEMBER_BYTES: u64 = 20;
/// The size of a secondary index entry, including its key.
const INDEX_ENTRY_BYTES: u64 = 64;

/// A configuration, as the plan needs it.
#[derive(Clone, Copy)]
pub struct Outline<'a> {
    /// The request.
    pub request: &'a ConfigurationRequest,
    /// The description that the store gives of itself.
    pub description: &'a Description,
    /// The phases of the request, resolved for the store.
    pub phases: &'a [ResolvedPhase],
}

/// Plans a run without touching any store. Documents and phases are those of the first configuration. If other
/// configurations differ, their values say so.
pub fn plan_run(study: &Study, all: &[Outline<'_>]) -> Plan {
    // A configuration appears once for each host on which it takes turns.
    let mut names = HashSet::new();
    let mut is_first = |of: &ConfigurationRequest| of.host.is_none() || names.insert(of.name());
    let configurations: &Vec<Outline<'_>> = &all.iter().copied().filter(|of| is_first(of.request)).collect();
    let mut known: HashMap<*const Catalog, Vec<PlannedCollection>> = HashMap::new();
    // Phases and documents are told as the study has them, if some store runs all of it.
    let whole = configurations.iter().position(|of| of.request.left_out.is_empty()).unwrap_or(0);
    let (mut planned, mut first) = (Vec::with_capacity(configurations.len()), None);
    for (position, Outline { request, description, phases }) in configurations.iter().enumerate() {
        let catalog = &request.documents.catalog;
        let planned_collections = || catalog.iter().map(|d| plan_collection(&request.study, d)).collect();
        let collections = known.entry(Arc::as_ptr(catalog)).or_insert_with(planned_collections).clone();
        let phases = request.study.phases.iter().zip(*phases);
        let phases: Vec<PlannedPhase> = phases.map(|phase| plan_phase(request, phase, &collections)).collect();
        planned.push(PlannedConfiguration {
            configuration: request.name(),
            store: request.store_name.clone(),
            url: description.url.clone(),
            values: request.values.clone(),
            control: request.control,
            left_out: request.left_out.clone(),
            documents: sum(phases.iter().filter(|p| p.loads).filter_map(|p| p.documents)),
            estimate: estimate(&request.study, &collections, &phases),
        });
        if position == whole {
            first = Some((collections, phases, request.scale));
        }
    }
    let (collections, phases, scale) = first.unwrap_or_else(|| (Vec::new(), Vec::new(), 1.0));
    let groups = load_groups(study, configurations);
    let mut trials = plan_trials(study, &planned, &groups);
    if !study.hosts.is_empty() {
        take_turns(study, all, &mut trials);
    }
    let mut estimate = estimate_of_run(study, &planned, &groups);
    estimate.files_bytes = files_bytes(configurations);
    Plan {
        title: redact(&study.title),
        seed: study.seed,
        scale,
        repeats: study.repeats.most(),
        until: study.repeats.until(),
        collections,
        phases,
        replaced_stores: study.replaced_stores,
        configurations: planned,
        trials,
        estimate,
    }
}

/// Identifies what a store holds after the loads of a configuration. Configurations with the same key can measure one
/// database.
pub(crate) fn load_key(configuration: &ConfigurationRequest, description: &Description) -> String {
    let study = &configuration.study;
    let loads: Vec<_> = study.phases.iter().filter(|p| p.loads()).collect();
    serde_json::to_string(&(&description.url, &study.collections, study.seed, configuration.scale, loads))
        .unwrap_or_default()
}

/// For each configuration, the index of the first that shares its database. All differ if every trial loads its own.
fn load_groups(study: &Study, configurations: &[Outline<'_>]) -> Vec<usize> {
    if study.database == Database::Fresh {
        return (0..configurations.len()).collect();
    }
    let keys: Vec<String> =
        configurations.iter().map(|configuration| load_key(configuration.request, configuration.description)).collect();
    keys.iter().map(|key| keys.iter().position(|other| other == key).unwrap_or_default()).collect()
}

/// A saturating sum, because a study may name any number.
fn sum(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

fn plan_collection(study: &Study, documents: &Documents) -> PlannedCollection {
    let of = study.collections.get(documents.name());
    let (count, mean_bytes) = (documents.count(), documents.mean_bytes());
    PlannedCollection {
        collection: documents.name().to_owned(),
        count,
        mean_bytes,
        total_bytes: count.saturating_mul(mean_bytes),
        existing: of.and_then(|c| c.existing.as_ref()).map(|existing| existing.name.clone()),
        sample: of.filter(|c| c.existing.is_some()).map(|c| c.sample.unwrap_or(DEFAULT_SAMPLE).0),
        from: of.and_then(|c| c.from.as_ref()).map(|path| path.display().to_string()),
        compress_to: of.and_then(|c| c.compress_to),
        reachable: documents.calibration().map(|c| c.reachable),
        indexes: of.map(|c| c.index.clone()).unwrap_or_default(),
        own_indexes: of
            .iter()
            .flat_map(|c| &c.indexes)
            .map(|(name, texts)| (name.clone(), serde_json::to_value(texts).unwrap_or_default()))
            .collect(),
    }
}

fn plan_phase(
    request: &ConfigurationRequest,
    (phase, resolved): (&Phase, &ResolvedPhase),
    collections: &[PlannedCollection],
) -> PlannedPhase {
    let study = &request.study;
    let plan = resolved.operations().filter(|_| !phase.rests());
    let loaded = || collections.iter().filter(|c| phase.load.contains(&c.collection));
    let copied = phase.copied(study).and_then(|name| collections.iter().find(|c| c.collection == name));
    let (does, documents, bytes) = if let (Some(direction), Some(of)) = (phase.copy, copied) {
        (copies(phase, direction, &of.collection), Some(of.count), Some(of.total_bytes))
    } else if phase.loads() {
        let batches = plan.iter().flat_map(|plan| &plan.recipes).map(|recipe| u64::from(recipe.label.batch));
        let batches: BTreeSet<u64> = batches.collect();
        let how = match (batches.first(), batches.last()) {
            (Some(1), Some(1)) => "one by one".to_owned(),
            (Some(1), Some(most)) => format!("in batches of {}, counters one by one", count(*most)),
            (_, most) => format!("in batches of {}", count(most.copied().unwrap_or(1))),
        };
        (
            format!("load {} {how}", phase.load.join(", ")),
            Some(sum(loaded().map(|c| c.count))),
            Some(sum(loaded().map(|c| c.total_bytes))),
        )
    } else if let Some(trace) = &phase.trace {
        let speed = match phase.speed.unwrap_or(Speed::Times(1.0)) {
            Speed::Times(1.0) => "at its own times".to_owned(),
            Speed::Times(times) => format!("{} times as fast as recorded", digits(times)),
            Speed::Max => "as fast as it goes".to_owned(),
        };
        let compared = if phase.compare_answers { ", and compare the answers" } else { "" };
        (format!("replay {}, {speed}{compared}", trace.display()), None, None)
    } else {
        let all: f64 = phase.mix.values().map(|e| e.weight).sum();
        let parts: Vec<String> = phase
            .mix
            .iter()
            .map(|(name, entry)| {
                let on = match collection_of(study, phase, name) {
                    Some(collection) if study.collections.len() > 1 => format!(" of {collection}"),
                    _ => String::new(),
                };
                let not_on: Vec<&str> = entry.left_out_on().map(Language::name).collect();
                let not_on = if not_on.is_empty() { String::new() } else { format!(" (not on {})", not_on.join(", ")) };
                format!("{name}{on} {}{not_on}", percent(entry.weight / all))
            })
            .collect();
        (parts.join(", "), None, None)
    };
    PlannedPhase {
        name: phase.name.clone(),
        loads: phase.loads(),
        warm_up: phase.warm_up,
        does,
        documents,
        bytes,
        operations: plan.and_then(|plan| plan.operations(&request.documents.catalog)),
        duration_ns: plan.and_then(PhasePlan::duration_ns),
        searched: study.search.as_ref().is_some_and(|search| search.phase == phase.name),
        rate: phase.rate.as_ref().map(|r| match r {
            RateSpec::Constant(per_s) => format!("{}/s", rate(*per_s)),
            RateSpec::Ramp(from, to) => format!("{}/s to {}/s", rate(*from), rate(*to)),
            RateSpec::Steps { steps, each } => {
                let steps: Vec<String> = steps.iter().map(|s| rate(*s)).collect();
                format!("{}/s, each for {each}", steps.join(", "))
            }
        }),
        workers: phase.copy.map_or(phase.workers, |_| phase.copy_tasks()),
        connections: phase.connections,
        in_flight: phase.in_flight,
        pin_workers: phase.pin_workers,
        parts: phase.copy.map(|_| phase.copy_parts()),
        popularity: if phase.trace.is_some() { "as recorded".to_owned() } else { phase.popularity.to_string() },
    }
}

/// Describes a copy in words.
fn copies(phase: &Phase, direction: CopyDirection, collection: &str) -> String {
    match (direction, phase.batch, &phase.view) {
        (CopyDirection::In, Some(batch), _) => {
            format!("copy files into {collection} in batches of {}", count(batch.into()))
        }
        (CopyDirection::In, None, _) => format!("copy files into {collection}"),
        (CopyDirection::Out, _, Some(view)) => format!("copy {collection} into files by the view {view}"),
        (CopyDirection::Out, _, None) => format!("copy {collection} into files"),
    }
}

/// The size of the files of copies. Each file that is read exists once and is kept for all trials. Of written files,
/// only one copy exists at a time.
fn files_bytes(configurations: &[Outline<'_>]) -> u64 {
    let (mut read, mut written) = (BTreeMap::new(), 0);
    for Outline { request, .. } in configurations {
        let catalog = &request.documents.catalog;
        for phase in &request.study.phases {
            let at = phase.copied(&request.study).and_then(|name| catalog.find(name));
            let Some((direction, at)) = phase.copy.zip(at) else { continue };
            let documents = catalog.get(at);
            // Each line also holds the key and its name.
            let each = documents.mean_bytes() + documents.longest_key_bytes() + KEY_MEMBER_BYTES;
            let bytes = documents.count().saturating_mul(each);
            match direction {
                CopyDirection::In => drop(read.insert((Arc::as_ptr(catalog), at), bytes)),
                CopyDirection::Out => written = bytes.max(written),
            }
        }
    }
    read.values().fold(written, |sum, bytes| sum.saturating_add(*bytes))
}

/// Rounds in order. Each holds every configuration once, shuffled by the seed (Fisher–Yates). A single round keeps the
/// study's order. Configurations that share a database stay together, because otherwise another one's load would come
/// between them.
fn plan_trials(study: &Study, configurations: &[PlannedConfiguration], groups: &[usize]) -> Vec<PlannedTrial> {
    let mut trials = Vec::new();
    for round in 1..=study.repeats.most() {
        let mut order: Vec<usize> = (0..configurations.len()).collect();
        if study.repeats.most() > 1 {
            for i in (1..order.len()).rev() {
                let drawn = mix64(study.seed ^ 0x7472_6961_6c73, u64::from(round) << 32 | i as u64);
                order.swap(i, (drawn % (i as u64 + 1)) as usize);
            }
        }
        let first_of = |configuration: usize| order.iter().position(|other| groups[*other] == groups[configuration]);
        let mut together = order.clone();
        together.sort_by_key(|configuration| first_of(*configuration));
        for position in together {
            let of = &configurations[position];
            trials.push(PlannedTrial {
                trial: trials.len() as u32 + 1,
                round,
                configuration: of.configuration.clone(),
                store: of.store.clone(),
                url: of.url.clone(),
                host: None,
            });
        }
    }
    trials
}

/// Assigns each trial to the host whose turn it is.
fn take_turns(study: &Study, configurations: &[Outline<'_>], trials: &mut [PlannedTrial]) {
    let by_host: HashMap<(String, Option<&str>), &str> = configurations
        .iter()
        .map(|configuration| {
            (
                (configuration.request.name(), configuration.request.host.as_deref()),
                configuration.description.url.as_str(),
            )
        })
        .collect();
    for trial in trials {
        let host = study.host_in(&trial.store, trial.round);
        if let Some(url) = host.and_then(|host| by_host.get(&(trial.configuration.clone(), Some(host)))) {
            trial.url = (*url).to_owned();
            trial.host = host.map(str::to_owned);
        }
    }
}

/// The estimate for all trials. If configurations share a database, the first one loads it in each round.
fn estimate_of_run(study: &Study, configurations: &[PlannedConfiguration], groups: &[usize]) -> Estimate {
    let mut all = Estimate::default();
    let (fewest, most) = (f64::from(study.repeats.least()), f64::from(study.repeats.most()));
    for (position, configuration) in configurations.iter().enumerate() {
        let e = &configuration.estimate;
        // A database that no other configuration replaces is loaded once for all rounds.
        let of_store = || configurations.iter().zip(groups).filter(|(other, _)| other.store == configuration.store);
        let alone = study.database == Database::Kept && of_store().all(|(_, group)| *group == groups[position]);
        let loads = |repeats: f64| match groups[position] == position {
            true if alone => 1.0,
            true => repeats,
            false => 0.0,
        };
        all.least_s += (e.least_s - e.least_load_s) * fewest + e.least_load_s * loads(fewest);
        all.most_s += (e.most_s - e.most_load_s) * most + e.most_load_s * loads(most);
        all.least_load_s += e.least_load_s * loads(fewest);
        all.most_load_s += e.most_load_s * loads(most);
        all.written_bytes = all.written_bytes.max(e.written_bytes);
        all.disk_bytes = all.disk_bytes.max(e.disk_bytes);
        all.assumes.clone_from(&e.assumes);
    }
    let mut places: HashMap<&str, u64> = HashMap::new();
    for configuration in configurations {
        let most = places.entry(&configuration.url).or_default();
        *most = configuration.estimate.disk_bytes.max(*most);
    }
    all.all_disk_bytes = sum(places.into_values());
    all
}

/// The estimate for one trial of a configuration.
fn estimate(study: &Study, collections: &[PlannedCollection], phases: &[PlannedPhase]) -> Estimate {
    let (mut least_s, mut most_s) = (0.0, 0.0);
    let (mut least_load_s, mut most_load_s) = (0.0, 0.0);
    for (phase, of) in phases.iter().zip(&study.phases) {
        let known = phase.duration_ns.map(|ns| ns as f64 / 1e9);
        let (fast, slow) = match (known, phase.documents, phase.operations, Rate::of(of)) {
            (Some(s), ..) => (s, s + of.drain.0.as_secs_f64()),
            (None, Some(documents), _, _) => (documents as f64 / LOAD_PER_S.1, documents as f64 / LOAD_PER_S.0),
            (None, None, Some(n), Some(rate)) => {
                let s = rate.scheduled_start_ns(n) as f64 / 1e9;
                (s, s)
            }
            (None, None, Some(n), None) => (n as f64 / OPERATIONS_PER_S.1, n as f64 / OPERATIONS_PER_S.0),
            _ => (0.0, 0.0),
        };
        let searched = study.search.as_ref().filter(|search| search.phase == phase.name);
        let (once, at_most) = searched.map_or((1.0, 1.0), |search| {
            let rest = search.rest.0.as_secs_f64() / fast.max(1e-9);
            // A rate that does not hold for longer is followed by three others that must, and then by those between two
            // of them.
            let hold = f64::from(search.hold);
            let halves = ((search.to / search.from).ln() / search.within.ln_1p()).max(1.0).log2().ceil();
            let most = f64::from(search.most_probes) * (1.0 + rest);
            (f64::from(search.confirm) + 2.0 + hold, most + (4.0 + halves).min(f64::from(search.most_probes)) * hold)
        });
        let slow = slow + of.settle.map_or(0.0, |s| s.0.as_secs_f64());
        least_s += fast * once;
        most_s += slow * at_most;
        if phase.loads {
            least_load_s += fast;
            most_load_s += slow;
        }
    }
    let loaded = |c: &&PlannedCollection| study.phases.iter().any(|p| p.loaded(study).any(|name| name == c.collection));
    let written_bytes = sum(phases.iter().filter(|p| p.loads).filter_map(|p| p.bytes));
    let indexes = |c: &PlannedCollection| c.count.saturating_mul((c.indexes.len() + c.own_indexes.len()) as u64);
    let index_bytes = sum(collections.iter().filter(loaded).map(|c| indexes(c).saturating_mul(INDEX_ENTRY_BYTES)));
    Estimate {
        least_s,
        most_s,
        least_load_s,
        most_load_s,
        assumes: format!(
            "loads{} of {} to {} documents/s, counted phases of {} to {} operations/s",
            if study.phases.iter().any(|p| p.copy.is_some()) { " and copies" } else { "" },
            rate(LOAD_PER_S.0),
            rate(LOAD_PER_S.1),
            rate(OPERATIONS_PER_S.0),
            rate(OPERATIONS_PER_S.1)
        ),
        written_bytes,
        disk_bytes: ((written_bytes as f64 + index_bytes as f64) * DISK_FACTOR) as u64,
        // The rest is computed for all configurations together.
        ..Estimate::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use storebench_engine::Unsupported;
    use storebench_engine::store::{AnyStore, MemoryStore};

    use super::*;

    const STUDY: &str = r#"
title = "Books"
repeats = 3
[collections.books]
count = 1000
size = "1KiB"
fields = { author = { words = 2 }, text = { sentences = [1, 4] } }
index = [["author"]]
[[phases]]
name = "load"
load = ["books"]
batch = 300
[[phases]]
name = "mixed"
mix = { read = 3, update = 1 }
rate = { steps = [100, 300], each = "5s" }
duration = "8s"
popularity = "zipf:0.99"
"#;

    fn plan(repeats: u32) -> Plan {
        plan_of(&STUDY.replace("repeats = 3", &format!("repeats = {repeats}")))
    }

    fn plan_of(text: &str) -> Plan {
        let study = Study::parse(text, Path::new("books.toml"), &[]).unwrap();
        let compiled = crate::run::compile_documents(&study, 2.0, Path::new(".")).unwrap();
        let at = |scheme: &'static str| Description { scheme, url: format!("{scheme}:x"), version: "1".into() };
        let names = ["a", "b", "c", "d"];
        let store = |name: &str| -> (String, Arc<dyn AnyStore>) { (name.to_owned(), Arc::new(MemoryStore::new())) };
        let mut configurations = ConfigurationRequest::of_stores(&study, &compiled, 2.0, names.map(store));
        let fitted = configurations.iter_mut().map(|request| request.fit(Unsupported::Refuse).unwrap());
        let fitted: Vec<Vec<ResolvedPhase>> = fitted.collect();
        let described = names.map(at);
        let outlines: Vec<Outline<'_>> = configurations
            .iter()
            .zip(described.iter().zip(&fitted))
            .map(|(request, (description, phases))| Outline { request, description, phases })
            .collect();
        plan_run(&study, &outlines)
    }

    #[test]
    fn a_plan_says_everything() {
        insta::assert_snapshot!(plan(1));
    }

    #[test]
    fn counters_are_loaded_one_by_one() {
        let text = STUDY.replace(
            "[[phases]]\nname = \"load\"",
            "[collections.hits]\ncount = 50\nbody = \"counter\"\n[[phases]]\nname = \"load\"",
        );
        let text = text.replace("mix = { read = 3, update = 1 }", "mix = { counter = { collection = \"hits\" } }");
        let both = plan_of(&text.replace("load = [\"books\"]", "load = [\"books\", \"hits\"]"));
        assert_eq!(both.phases[0].does, "load books, hits in batches of 300, counters one by one");
        assert_eq!(both.phases[0].operations, Some(2_000u64.div_ceil(300) + 100));
        let alone = plan_of(&text.replace("load = [\"books\"]", "load = [\"hits\"]"));
        assert_eq!(alone.phases[0].does, "load hits one by one");
    }

    #[test]
    fn steps_that_are_cut_off_count_as_far_as_they_last() {
        assert_eq!(plan(1).phases[1].operations, Some(5 * 100 + 3 * 300));
    }

    #[test]
    fn the_last_step_goes_on_where_the_phase_outlasts_it() {
        let longer = plan_of(&STUDY.replace("duration = \"8s\"", "duration = \"20s\""));
        assert_eq!(longer.phases[1].operations, Some(5 * 100 + 15 * 300));
    }

    #[test]
    fn each_round_holds_every_store_once_in_an_order_of_its_own() {
        let plan = plan(40);
        let mut orders = std::collections::BTreeSet::new();
        for round in plan.trials.chunks(4) {
            let order: Vec<&str> = round.iter().map(|t| t.store.as_str()).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, ["a", "b", "c", "d"]);
            assert!(round.iter().all(|t| t.round == round[0].round));
            orders.insert(order);
        }
        assert!(orders.len() > 10, "{} orders of 24 in 40 rounds", orders.len());
        assert_eq!(plan.trials, super::tests::plan(40).trials);
    }
}
