//! `infer --check --store URL`: loads the sample and the generated documents into a store, and compares the sizes of
//! indexes and the times of reads.

use std::path::Path;

use indexmap::IndexMap;
use serde_json::json;
use storebench_documents::infer::{ERRORS, Likeness, Profile};
use storebench_engine::store::Namespace;
use storebench_lab::run::{RunRequest, run};
use storebench_results::exit::{INVALID, SPOILED};
use storebench_results::validity::Severity;
use storebench_results::{Percentiles, PhaseResult, RunResult};
use storebench_study::toml_document;
use storebench_study::workload::{Collection, Language, QueryTexts, Study};

use super::measure::request_of;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::signals::stop_on_interrupt;
use crate::{stores, studies};

/// Fields that get an index, at most.
const INDEXES: usize = 16;
/// How often the reads are measured.
const ROUNDS: u32 = 5;
/// Reads in a round, half of them of the sample.
const READS: u32 = 10_000;
/// The start of long texts that an index keeps: entries of PostgreSQL's indexes are limited.
const LONGEST: u32 = 200;

/// What a store says of the sample and of generated documents.
pub(super) struct OnStore {
    pub(super) figures: Vec<Likeness>,
    pub(super) notes: Vec<String>,
}

/// Runs the study that [`study_of`] writes, removes what it loaded, and compares.
pub(super) fn on_store(
    url: &str,
    sample: &Path,
    profile: &Profile,
    collection: &Collection,
) -> Result<OnStore, Failure> {
    let (text, fields, mut notes) = study_of(sample, profile, collection)?;
    let mut study = Study::parse(&text, Path::new("infer"), &[])?;
    stores::choose(&mut study, &[url.to_owned()])?;
    let opened = stores::open_all(&study)?;
    for (_, store) in &opened {
        let held = match store.inspect().map_err(|error| Failure::of_store(url, &error))? {
            Namespace::Absent => continue,
            Namespace::Ours => "documents that Storebench loaded, which the check would replace".to_owned(),
            Namespace::Copied(what) | Namespace::Foreign(what) => what,
        };
        return Err(Failure::bad_input(format!(
            "--store {}: it holds {held}; nothing was touched. Use an empty place",
            store.describe().url
        )));
    }
    let named = opened.iter().all(|(_, store)| store.capabilities().language.is_some());
    if !named {
        study.collections.values_mut().for_each(|collection| collection.indexes.clear());
        notes.push("this store has no indexes in a language of its own, so their sizes are not compared".to_owned());
    }
    let documents = studies::compile(&study)?;
    let request = RunRequest { remove_after: true, ..request_of("infer", study, text, &documents, opened) };
    let stop = stop_on_interrupt()?;
    let outcome = run(&request, stop, &mut Progress::new(false))
        .map_err(|error| Failure { code: error.exit_code(), message: error.to_string() })?;
    let (code, result) = (outcome.exit_code(), outcome.result);
    if let Some(failure) = result.trials.iter().find_map(|trial| trial.failure.as_ref()) {
        return Err(Failure { code, message: format!("--store: {}: {}", failure.during, failure.message) });
    }
    // What the run was too short or too small for does not matter here.
    if !matches!(code, 0 | INVALID) {
        let invalid = result.checks.iter().find(|check| check.severity == Severity::Invalid);
        let why = invalid.map_or("interrupted", |check| &check.observed);
        return Err(Failure { code, message: format!("--store: {why}") });
    }
    let reads = result.trials.iter().flat_map(|trial| &trial.phases).filter(|phase| !phase.warm_up && !phase.loads);
    let (mut failed, mut astray) = (0, 0);
    for op in reads.flat_map(|phase| phase.ops.values()) {
        failed += op.errors;
        astray += op.misses + op.wrong;
    }
    if astray > 0 {
        let message = format!("--store: {astray} reads found no document, or another than was loaded");
        return Err(Failure { code: SPOILED, message });
    }
    if failed > 0 {
        notes.push(format!("{failed} reads failed; the times are of the others"));
    }
    let mut figures = indexes(&result, &fields);
    if figures.is_empty() && named {
        notes.push("this store reports no sizes of indexes".to_owned());
    }
    for (what, of) in [("read, p50", (|p| p.p50) as fn(&Percentiles) -> Option<u64>), ("read, p99", |p| p.p99)] {
        figures.extend(times(&result, what, of));
    }
    Ok(OnStore { figures, notes })
}

/// The sizes of the indexes, field by field.
fn indexes(result: &RunResult, fields: &[String]) -> Vec<Likeness> {
    let built = result.trials.iter().flat_map(|trial| &trial.indexes);
    let bytes = |collection: &str, name: &str| {
        built.clone().find(|index| index.collection == collection && index.name == name)?.bytes
    };
    let of = |(position, field): (usize, &String)| {
        let name = index_name(position);
        let (sample, like) = (bytes("sample", &name)? as f64, bytes("generated", &name)? as f64);
        Some(Likeness::new(field, "index bytes", sample, like, 0.0))
    };
    fields.iter().enumerate().filter_map(of).collect()
}

/// A percentile of the reads, in ns: the mean over the rounds. In a round both kinds are read in turns on the same
/// connection, because where the system runs its ends decides more than what is read. So chance is judged by the
/// differences within rounds.
fn times(result: &RunResult, what: &'static str, of: fn(&Percentiles) -> Option<u64>) -> Option<Likeness> {
    let phases = result.trials.iter().flat_map(|trial| &trial.phases).filter(|found| found.name == "read");
    let time = |found: &PhaseResult, name: &str| Some(of(&found.ops.get(name)?.service_ns)? as f64);
    let all: Vec<(f64, f64)> = phases.filter_map(|of| Some((time(of, "sample")?, time(of, "generated")?))).collect();
    let n = all.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / n;
    let (sample, like) = (mean(&|of| of.0), mean(&|of| of.1));
    let variance = mean(&|of| (of.1 - of.0 - (like - sample)).powi(2)) * n / (n - 1.0);
    (n > 1.0).then(|| Likeness::new("", what, sample, like, ERRORS * (variance / n).sqrt()))
}

fn index_name(position: usize) -> String {
    format!("field_{}", position + 1)
}

/// A study with the sample and generated documents beside each other, each with the same indexes. Returns also the fields
/// that have one, and what is left out.
fn study_of(
    sample: &Path,
    profile: &Profile,
    collection: &Collection,
) -> Result<(String, Vec<String>, Vec<String>), Failure> {
    let plain = |name: &String| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let all = profile.scalars();
    let mut fields: Vec<_> = all.iter().filter(|(path, _)| path.iter().all(plain)).collect();
    fields.truncate(INDEXES);
    let left_out = all.len() - fields.len();
    let own = Collection { from: Some(sample.to_owned()), ..Collection::default() };
    let like = Collection { key: None, ..collection.clone() };
    let indexed = |(name, of): (&'static str, Collection)| {
        let index = |(position, (path, is_text)): (usize, &&(Vec<String>, bool))| {
            let in_study = index_name(position);
            let texts = index_texts(&format!("{name}_{in_study}"), path, *is_text);
            (in_study, texts)
        };
        (name, Collection { indexes: fields.iter().enumerate().map(index).collect(), ..of })
    };
    let collections: IndexMap<_, _> = [("sample", own), ("generated", like)].into_iter().map(indexed).collect();
    let collections = toml_document(&IndexMap::from([("collections", collections)]))
        .map_err(|why| Failure::bad_input(format!("cannot write the study: {why}")))?;
    let reads = |name: &str, more: &str| {
        let mix = ["sample", "generated"].map(|name| format!("{name} = {{ op = \"read\", collection = \"{name}\" }}"));
        format!("[[phases]]\nname = \"{name}\"\nmix = {{ {} }}\nworkers = 1\n{more}\n", mix.join(", "))
    };
    let text = format!(
        "title = \"A sample and generated documents\"\ndatabase = \"kept\"\nrepeats = {ROUNDS}\n{collections}\n[[phases]]\n\
         name = \"load\"\nload = [\"sample\", \"generated\"]\n{}{}",
        reads("warm-up", &format!("warm_up = true\noperations = {}", READS / 5)),
        reads("read", &format!("operations = {READS}"))
    );
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} more fields have no index: the first {INDEXES} whose names are letters, digits and _ get one"
        ));
    }
    let fields = fields.iter().map(|(path, _)| path.join(".")).collect();
    Ok((text, fields, notes))
}

/// An index on a field, in the languages of the stores that report its size. `name` is that of the index in SQL.
fn index_texts(name: &str, path: &[String], is_text: bool) -> QueryTexts {
    let (last, objects) = path.split_last().map_or(("", &[][..]), |(last, objects)| (last.as_str(), objects));
    let postgres: String = objects.iter().map(|name| format!("->'{name}'")).collect();
    let postgres = format!("doc{postgres}->>'{last}'");
    let sqlite = format!("body->>'$.{}'", path.join("."));
    let [postgres, sqlite] = match is_text {
        true => [format!("left({postgres}, {LONGEST})"), format!("substr({sqlite}, 1, {LONGEST})")],
        false => [postgres, sqlite],
    };
    let field = &path.join(".");
    IndexMap::from([
        (Language::Postgres, json!(format!("create index {name} on {{collection}} (({postgres}))"))),
        (Language::Sqlite, json!(format!("create index {name} on {{collection}} ({sqlite})"))),
        (Language::Mongodb, json!({ "key": { field: 1 } })),
        (Language::Couchdb, json!({ "fields": [field] })),
        (Language::Ravendb, json!(false)),
        (Language::Couchbase, json!(false)),
        (Language::Redis, json!(false)),
        (Language::Mysql, json!(false)),
        (Language::Cassandra, json!(false)),
        (Language::Opensearch, json!(false)),
    ])
}
