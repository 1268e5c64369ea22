//! Documents of a study, generated in batches.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use storebench_lab::run::{Compiled, compile_documents};
use storebench_study::workload::{Body, Study};

use crate::arrow::Stream;

/// The most documents of one batch.
const ROWS: u64 = 4_096;
/// A batch ends when its documents have so many bytes. Arrow's text columns hold 2 GiB.
const BYTES: usize = 16 << 20;

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
    body: Vec<u8>,
}

impl Generated {
    /// Documents up to one of the limits.
    fn batch(&mut self) -> Result<RecordBatch, ArrowError> {
        let of = self.documents.catalog.get(self.collection);
        let rows = ROWS.min(self.stop - self.next) as usize;
        let mut keys = StringBuilder::with_capacity(rows, rows * 24);
        let bytes = BYTES.min(rows * self.mean_bytes);
        let text = self.schema.field(2).data_type() == &DataType::Utf8;
        let (mut texts, mut binaries) = (StringBuilder::new(), BinaryBuilder::new());
        if text {
            texts = StringBuilder::with_capacity(rows, bytes);
        } else {
            binaries = BinaryBuilder::with_capacity(rows, bytes);
        }
        let (first, mut all_bytes) = (self.next, 0);
        while self.next < self.stop && self.next - first < ROWS && all_bytes < BYTES {
            let index = self.next;
            self.next += 1;
            self.key.clear();
            self.body.clear();
            of.write_key(index, &mut self.key);
            of.write_document(index, self.version, &mut self.body);
            all_bytes += self.body.len();
            let utf8 = |bytes| std::str::from_utf8(bytes).map_err(|e| ArrowError::ExternalError(Box::new(e)));
            keys.append_value(utf8(&self.key)?);
            if text {
                texts.append_value(utf8(&self.body)?);
            } else {
                binaries.append_value(&self.body);
            }
        }
        let indexes = UInt64Array::from_iter_values(first..self.next);
        let bodies: ArrayRef = if text { Arc::new(texts.finish()) } else { Arc::new(binaries.finish()) };
        RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(indexes), Arc::new(keys.finish()), bodies])
    }
}

impl Iterator for Generated {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.next < self.stop).then(|| self.batch())
    }
}

impl RecordBatchReader for Generated {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
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
    let refused = |what: String| PyValueError::new_err(storebench_results::redact(&what));
    let study = Study::parse(text, Path::new(file), &overrides).map_err(|e| refused(e.to_string()))?;
    let compiled = py.detach(|| compile_documents(&study, scale, Path::new(base), None));
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
    let (key, body, mean_bytes) = (Vec::new(), Vec::new(), of.mean_bytes() as usize);
    Ok(Stream::of(Box::new(Generated {
        documents,
        collection: position,
        next: start,
        stop,
        version,
        mean_bytes,
        schema,
        key,
        body,
    })))
}

/// A study in TOML from one in JSON.
#[pyfunction]
pub(crate) fn toml_of(json: &str) -> PyResult<String> {
    let refused = |what: String| PyValueError::new_err(what);
    let value: toml::Value = serde_json::from_str(json).map_err(|e| refused(format!("a study: {e}")))?;
    toml::to_string(&value).map_err(|e| refused(format!("a study: {e}")))
}
