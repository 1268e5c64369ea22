//! Tests of documents from outside, through the text of study files.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod any;
mod compress;
mod made;
mod own;
mod parameters;
mod refused;
mod related;
mod varied;

use std::path::Path;

use indexmap::IndexMap;
use serde::Deserialize;
use storebench_documents::{Catalog, CatalogOptions, DocumentError, Documents};
use storebench_study::workload::Collection;

#[derive(Deserialize)]
struct Study {
    collections: IndexMap<String, Collection>,
}

/// Compiles the collections of a study text.
fn try_catalog(study: &str, scale: f64, dir: &Path) -> Result<Catalog, DocumentError> {
    let study: Study = toml_edit::de::from_str(study).unwrap();
    let options = CatalogOptions { seed: 435, scale, base_dir: dir, scratch_dir: dir };
    Catalog::compile(&study.collections, &options)
}

fn catalog(study: &str) -> Catalog {
    let dir = tempfile::tempdir().unwrap();
    try_catalog(study, 1.0, dir.path()).unwrap()
}

fn refusal(study: &str) -> DocumentError {
    let dir = tempfile::tempdir().unwrap();
    try_catalog(study, 1.0, dir.path()).unwrap_err()
}

fn document(documents: &Documents, index: u64, version: u64) -> Vec<u8> {
    let mut out = Vec::new();
    documents.write_document(index, version, &mut out);
    out
}

fn value(documents: &Documents, index: u64, version: u64) -> serde_json::Value {
    let text = document(documents, index, version);
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&text)))
}

fn key(documents: &Documents, index: u64) -> String {
    let mut out = Vec::new();
    documents.write_key(index, &mut out);
    String::from_utf8(out).unwrap()
}
