//! Documents of a study, generated in batches.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use storebench_lab::run::{Compiled, compile_documents};
use storebench_study::toml_document;
use storebench_study::workload::{Body, Study};

use crate::arrow::{Stream, bad_input};

/// The most documents of one batch.
const ROWS: u64 = 4_096;
/// A batch ends when its documents have so many bytes: it then stays in the processor's cache until it is read, and the
/// next one gets its memory.
const BYTES: usize = 1 << 20;

/// Generates documents on the thread that reads them.
struct Generated {
    documents: Compiled,
    collection: usize,
    next: u64,
    stop: u64,
    version: u64,
    mean_bytes: usize,
    schema: SchemaRef,
    key: Vec<u8>,
}

impl Generated {
    /// Documents up to one of the limits.
    fn batch(&mut self) -> Result<RecordBatch, ArrowError> {
        let of = self.documents.catalog.get(self.collection);
        let rows = ROWS.min(self.stop - self.next) as usize;
        let mut keys = StringBuilder::with_capacity(rows, rows * 24);
        let largest = BYTES + self.mean_bytes;
        let mut bodies = Vec::with_capacity(largest.min(rows * (self.mean_bytes + self.mean_bytes / 8)));
        let mut lengths = Vec::with_capacity(rows.min(BYTES / self.mean_bytes.max(1) + 1));
        let first = self.next;
        while self.next < self.stop && self.next - first < ROWS && bodies.len() < BYTES {
            let index = self.next;
            self.next += 1;
            self.key.clear();
            of.write_key(index, &mut self.key);
            let begun = bodies.len();
            // Into the column itself, without a copy.
            of.write_document(index, self.version, &mut bodies);
            lengths.push(bodies.len() - begun);
            keys.append_value(std::str::from_utf8(&self.key).map_err(|e| ArrowError::ExternalError(Box::new(e)))?);
        }
        let indexes = UInt64Array::from_iter_values(first..self.next);
        let (offsets, bodies) = (OffsetBuffer::from_lengths(lengths), Buffer::from_vec(bodies));
        let bodies: ArrayRef = match self.schema.field(2).data_type() {
            DataType::Utf8 => Arc::new(StringArray::try_new(offsets, bodies, None)?),
            _ => Arc::new(BinaryArray::try_new(offsets, bodies, None)?),
        };
        RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(indexes), Arc::new(keys.finish()), bodies])
    }
}

impl Iterator for Generated {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.next < self.stop).then(|| self.batch())
    }
}

/// The documents of a collection from index `start` to below `stop` (default: all), at this version. Columns: `index`,
/// `key`, `document`. `text` is a study in TOML, `base` the folder in which its relative paths begin.
#[pyfunction]
#[pyo3(signature = (text, file, base, overrides, scale, collection, start, stop, version))]
#[allow(clippy::too_many_arguments, reason = "only the package calls it, with all of them")]
pub(crate) fn documents(
    py: Python<'_>,
    text: &str,
    file: &str,
    base: &str,
    overrides: Vec<String>,
    scale: f64,
    collection: &str,
    start: u64,
    stop: Option<u64>,
    version: u64,
) -> PyResult<Stream> {
    // An error quotes its line, which may have a password.
    let refused = |what: String| bad_input(storebench_results::redact(&what));
    let study = Study::parse(text, Path::new(file), &overrides).map_err(|e| refused(e.to_string()))?;
    let compiled = py.detach(|| compile_documents(&study, scale, Path::new(base)));
    let documents = compiled.map_err(|e| refused(e.to_string()))?;
    let Some(position) = documents.catalog.find(collection) else {
        let known: Vec<&str> = study.collections.keys().map(String::as_str).collect();
        return Err(refused(format!("unknown collection `{collection}`; the study has {}", known.join(", "))));
    };
    let of = documents.catalog.get(position);
    let stop = stop.unwrap_or(of.count());
    if stop > of.count() || start > stop {
        return Err(refused(format!(
            "documents {start} to {stop} of `{collection}`: it has {} documents, numbered from 0",
            of.count()
        )));
    }
    let body = if of.body() == Body::Bytes { DataType::Binary } else { DataType::Utf8 };
    let schema = Arc::new(Schema::new(vec![
        Field::new("index", DataType::UInt64, false),
        Field::new("key", DataType::Utf8, false),
        Field::new("document", body, false),
    ]));
    let (key, mean_bytes, schema_of) = (Vec::new(), of.mean_bytes() as usize, Arc::clone(&schema));
    let (collection, next) = (position, start);
    let generated = Generated { documents, collection, next, stop, version, mean_bytes, schema, key };
    Ok(Stream::of(Box::new(RecordBatchIterator::new(generated, schema_of))))
}

/// A study in TOML from one in JSON.
#[pyfunction]
pub(crate) fn toml_of(json: &str) -> PyResult<String> {
    let value: serde_json::Value = serde_json::from_str(json).map_err(|e| bad_input(format!("a study: {e}")))?;
    let document = toml_document(&value).map_err(|e| bad_input(format!("a study: {e}")))?;
    Ok(document.to_string())
}
