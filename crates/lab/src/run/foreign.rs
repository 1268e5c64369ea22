//! Documents that Storebench did not write: their keys are sampled, some of them are read, and nothing is written.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;
use storebench_documents::{Catalog, Sampled};
use storebench_engine::store::{BatchBuf, CollectionId, ErrorKind, Op, OpKind, Request, SessionOptions, StoreError};
use storebench_engine::{Ask, Caller, PhasePlan, RealClock, Stop};
use storebench_results::SampledResult;
use storebench_study::workload::{DEFAULT_SAMPLE, Study};

use super::runner::Configuration;

/// Number of documents that are read to measure their size.
const READ_FOR_SIZE: usize = 256;
/// Number of documents that are read if operations need values of their fields.
const READ_FOR_VALUES: usize = 10_000;
/// Documents in a bulk read.
const BATCH: usize = 100;

/// The catalog for a store's existing documents, and how it was sampled.
#[derive(Clone)]
pub(super) struct Foreign {
    /// The documents, with the sampled keys.
    pub(super) catalog: Arc<Catalog>,
    /// The samples, by collection.
    pub(super) sampled: IndexMap<String, SampledResult>,
}

/// Samples every existing collection of a prepared store.
///
/// # Errors
/// Fails if a store does not list its keys, holds no documents, or holds none with a field that an operation needs.
pub(super) fn sample(
    configuration: &Configuration,
    study: &Study,
    catalog: &Arc<Catalog>,
    clock: &RealClock,
    stop: &Stop,
) -> Result<Foreign, StoreError> {
    let mut found = Foreign { catalog: Arc::clone(catalog), sampled: IndexMap::new() };
    for (position, (name, collection)) in study.collections.iter().enumerate() {
        let Some(existing) = &collection.existing else { continue };
        let at_most = usize::try_from(collection.sample.unwrap_or(DEFAULT_SAMPLE).0).unwrap_or(usize::MAX);
        let keys = configuration.store.sample_keys(CollectionId(position as u16), at_most, study.seed)?;
        let mut sampled = Sampled::new(keys);
        if sampled.count() == 0 {
            return Err(StoreError::NotSupported(format!(
                "`{}` at {} holds no documents; set collections.{name}.existing to another collection",
                existing.name, configuration.description.url
            )));
        }
        let fields = wanted_fields(configuration, position);
        let documents = read(configuration, position, &sampled, &fields, clock, stop)?;
        for field in &fields {
            let values: Vec<Value> = documents.iter().filter_map(|body| value_of(body, field)).collect();
            if values.is_empty() && !stop.asked() {
                return Err(StoreError::NotSupported(format!(
                    "none of the {} sampled documents of `{}` has a string, number or boolean in `{field}`, which an \
                     operation draws its value from; use another field",
                    documents.len(),
                    existing.name
                )));
            }
            sampled.set_values(field, values);
        }
        let bytes: usize = documents.iter().map(Vec::len).sum();
        sampled.set_mean_bytes((bytes / documents.len().max(1)) as u64);
        found.sampled.insert(
            name.clone(),
            SampledResult {
                existing: existing.name.clone(),
                keys: sampled.count(),
                documents_read: documents.len() as u64,
                mean_bytes: sampled.mean_bytes(),
            },
        );
        found.catalog = Arc::new(found.catalog.with_sampled(position, sampled));
    }
    for plan in configuration.operations() {
        plan.has_documents(&found.catalog, true)?;
    }
    Ok(found)
}

/// The fields whose values pages and queries use, without duplicates.
fn wanted_fields(configuration: &Configuration, collection: usize) -> Vec<String> {
    let mut fields = IndexSet::new();
    for recipe in configuration.operations().flat_map(PhasePlan::acts).filter(|of| of.label.collection == collection) {
        let used: Vec<&str> = match &recipe.ask {
            Ask::Page(field, _) => vec![field],
            Ask::Query(query) => query.parameters.fields().collect(),
            _ => Vec::new(),
        };
        fields.extend(used.into_iter().map(str::to_owned));
    }
    fields.into_iter().collect()
}

/// A value that a page or a query can use. `field` may be a path (`a.b`).
fn value_of(body: &[u8], field: &str) -> Option<Value> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let nested = || field.split('.').try_fold(&document, |value, name| value.get(name));
    let value = document.get(field).or_else(nested)?.clone();
    (value.is_string() || value.is_number() || value.is_boolean()).then_some(value)
}

/// Reads documents spread over the sample. Those removed meanwhile are left out.
fn read(
    configuration: &Configuration,
    collection: usize,
    sampled: &Sampled,
    fields: &[String],
    clock: &RealClock,
    stop: &Stop,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let Some(plan) = configuration.operations().next() else { return Ok(Vec::new()) };
    let options = SessionOptions { in_flight: 1, ..plan.session_options(clock) };
    let mut caller = Caller::open(&*configuration.store, &options)?;
    let wanted = if fields.is_empty() { READ_FOR_SIZE } else { READ_FOR_VALUES };
    let count = usize::try_from(sampled.count()).unwrap_or(usize::MAX);
    let picked: Vec<u64> = (0..wanted.min(count)).map(|n| (n * count / wanted.min(count)) as u64).collect();
    let batch = if configuration.capabilities.supports(OpKind::BulkRead).is_some() { BATCH } else { 1 };
    let collection = CollectionId(collection as u16);
    let (mut bodies, mut keys) = (Vec::new(), BatchBuf::new());
    let mut failed = None;
    for part in picked.chunks(batch) {
        if stop.asked() || failed.is_some() {
            break;
        }
        keys.clear();
        part.iter().for_each(|index| keys.push(sampled.key(*index), &[]));
        let op = match part {
            [index] => Op::Read { key: sampled.key(*index) },
            _ => Op::BulkRead { keys: keys.as_batch() },
        };
        caller.call(&Request { collection, op, contents: true }, |result| match result {
            Ok(reply) => {
                bodies.extend(reply.body.map(<[u8]>::to_vec));
                bodies.extend(reply.rows.iter().flat_map(|rows| rows.iter()).map(|(_, body)| body.to_vec()));
            }
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => failed = Some(error),
        });
    }
    match failed {
        Some(error) => Err(StoreError::Failed(format!("cannot read documents before the measurement: {error}"))),
        None => Ok(bodies),
    }
}
