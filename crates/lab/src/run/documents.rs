//! The documents of a run, as its result describes them.

use std::collections::{BTreeMap, BTreeSet};

use storebench_documents::{Compression, Documents};
use storebench_results::CollectionResult;
use storebench_study::workload::{Body, Collection};

use super::runner::Configuration;

/// Size of the documents that are compressed page by page and one by one to measure compressibility, in bytes.
const COMPRESSION_SAMPLE_BYTES: u64 = 4 << 20;
/// Size of the documents that are compressed with a long window, to find distant repetitions, in bytes.
const LONG_WINDOW_BYTES: u64 = 16 << 20;
/// Maximum length of a sample document, in characters.
const SAMPLE_CHARS: usize = 400;

/// The documents of every configuration. Compressibility is measured once for each definition.
pub(super) fn describe_all(configurations: &[Configuration]) -> Vec<Vec<CollectionResult>> {
    let mut measured: BTreeMap<String, Option<Compression>> = BTreeMap::new();
    configurations
        .iter()
        .map(|configuration| {
            configuration.request.documents.catalog.iter().map(|d| describe(configuration, d, &mut measured)).collect()
        })
        .collect()
}

/// The documents of all configurations, without duplicates.
pub(super) fn distinct(configurations: &[Configuration], documents: &[Vec<CollectionResult>]) -> Vec<CollectionResult> {
    let mut out: Vec<(CollectionResult, Vec<String>)> = Vec::new();
    for (configuration, of_configuration) in configurations.iter().zip(documents) {
        for made in of_configuration {
            match out.iter_mut().find(|(known, _)| known == made) {
                Some((_, known)) if known.contains(&configuration.name) => {}
                Some((_, known)) => known.push(configuration.name.clone()),
                None => out.push((made.clone(), vec![configuration.name.clone()])),
            }
        }
    }
    let first = documents.first().map_or(&[][..], Vec::as_slice);
    let position = |made: &CollectionResult| first.iter().position(|c| c.collection == made.collection);
    out.sort_by_key(|(made, _)| position(made));
    let names: BTreeSet<&str> = configurations.iter().map(|configuration| configuration.name.as_str()).collect();
    let whole = |of: Vec<String>| if of.len() == names.len() { Vec::new() } else { of };
    out.into_iter().map(|(made, of)| CollectionResult { configurations: whole(of), ..made }).collect()
}

fn describe(
    configuration: &Configuration,
    documents: &Documents,
    measured: &mut BTreeMap<String, Option<Compression>>,
) -> CollectionResult {
    let study = configuration.study();
    let of = study.collections.get(documents.name());
    let measure = || {
        (documents.body() != Body::Counter && documents.count() > 0)
            .then(|| documents.measure_compression(COMPRESSION_SAMPLE_BYTES, LONG_WINDOW_BYTES))
    };
    // Without the number of documents: a larger scale produces more of the same.
    let definition = of.map(|c| Collection { count: None, ..c.clone() });
    let key = serde_json::to_string(&(documents.name(), definition, study.seed)).unwrap_or_default();
    CollectionResult {
        collection: documents.name().to_owned(),
        configurations: Vec::new(),
        count: documents.count(),
        mean_bytes: documents.mean_bytes(),
        existing: of.and_then(|c| c.existing.as_ref()).map(|existing| existing.name.clone()),
        own: of.is_some_and(|c| c.from.is_some()),
        body: documents.body().name().to_owned(),
        skipped_lines: documents.skipped_lines(),
        compress_to: of.and_then(|c| c.compress_to),
        compression: measured.entry(key).or_insert_with(measure).clone(),
        sample: of.filter(|c| c.from.is_none() && c.existing.is_none()).and_then(|_| sample(documents)),
    }
}

/// The first document as text, truncated if it is long.
fn sample(documents: &Documents) -> Option<String> {
    if documents.body() != Body::Json || documents.count() == 0 {
        return None;
    }
    let mut body = Vec::new();
    documents.write_document(0, 0, &mut body);
    let text = String::from_utf8(body).ok()?;
    let mut cut: String = text.chars().take(SAMPLE_CHARS).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    Some(cut)
}
