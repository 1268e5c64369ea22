//! Reads every study that comes with Storebench, and generates its documents at a small scale.

use std::path::{Path, PathBuf};

use storebench_documents::{Catalog, CatalogOptions};
use storebench_engine::ResolvedPhase;
use storebench_engine::store::{AnyStore, MemoryStore};
use storebench_study::workload::{Size, Study};

/// Multiplies the documents; small enough that the largest study compiles in a moment.
const SCALE: f64 = 0.01;

fn studies() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let mut files = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "toml") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn compile(study: &Study, file: &Path, scratch: &Path) -> Catalog {
    let options =
        CatalogOptions { seed: study.seed, scale: SCALE, base_dir: file.parent().unwrap(), scratch_dir: scratch };
    Catalog::compile(&study.collections, &options).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

#[test]
fn there_are_a_published_study_and_three_examples() {
    let names: Vec<String> = studies().iter().map(|f| f.file_name().unwrap().to_string_lossy().into_owned()).collect();
    for name in ["bulk-insert.toml", "key-value.toml", "own-documents.toml", "open-loop.toml"] {
        assert!(names.iter().any(|n| n == name), "{name} is not among {names:?}");
    }
}

#[test]
fn every_study_is_read_and_its_documents_can_be_made() {
    for file in studies() {
        let study = Study::read(&file, &[]).unwrap_or_else(|e| panic!("{e}"));
        assert!(!study.stores.is_empty(), "{}: a newcomer should be able to run it as it is", file.display());
        let scratch = tempfile::tempdir().unwrap();
        let catalog = compile(&study, &file, scratch.path());
        let (mut key, mut body, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for documents in catalog.iter() {
            assert!(documents.count() > 0, "{}: {} is empty", file.display(), documents.name());
            for index in [0, documents.count() - 1] {
                key.clear();
                body.clear();
                documents.write_key(index, &mut key);
                documents.write_document(index, 0, &mut body);
                assert!(!key.is_empty());
                let found = documents.check(index, &body, &mut again);
                assert_eq!(found.unwrap_or_else(|e| panic!("{}: {e}", file.display())), 0);
            }
        }
    }
}

/// A phase that no store can run would otherwise be noticed only after the loads before it.
#[test]
fn every_phase_can_be_planned_on_a_store_that_does_everything() {
    let capabilities = MemoryStore::default().capabilities();
    for file in studies() {
        let mut study = Study::read(&file, &[]).unwrap_or_else(|e| panic!("{e}"));
        let scratch = tempfile::tempdir().unwrap();
        let catalog = compile(&study, &file, scratch.path());
        for phase in &mut study.phases {
            // Data in memory survives nothing.
            phase.durability = None;
        }
        for phase in &study.phases {
            ResolvedPhase::of(&study, phase, &catalog, &capabilities)
                .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        }
    }
}

/// The published study took 100,000 documents for each of four bulk sizes and 2 to 16 threads, into a database that
/// grew to 4 million documents of 9.5 GB in all.
#[test]
fn bulk_insert_has_the_published_sizes() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/bulk-insert.toml");
    let study = Study::read(&file, &[]).unwrap_or_else(|e| panic!("{e}"));
    let values = |path: &str| -> Vec<u64> {
        let mut values: Vec<u64> = study.factors[path].iter().map(|value| value.as_u64().unwrap()).collect();
        values.sort_unstable();
        values
    };
    assert_eq!(values("phases.insert.batch"), [10, 100, 1_000, 10_000]);
    assert_eq!(values("phases.insert.workers"), [2, 4, 8, 16]);
    assert_eq!(study.collections["inserted"].count.unwrap().0, 100_000);
    let most = values("collections.stored.count")[3];
    let Some(Size::Uniform(range)) = &study.collections["stored"].size else { panic!("documents of one size") };
    assert_eq!((most, range.min), (4_000_000, range.max));
    let bytes = (range.min.0 * most) as f64;
    assert!((bytes / 9.5e9 - 1.0).abs() < 0.02, "{bytes}");
}

fn reference() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study-file.md")).unwrap()
}

#[test]
fn the_study_in_the_reference_is_a_study() {
    let text = reference();
    let whole: Vec<&str> = text
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .filter(|block| block.starts_with("title"))
        .collect();
    assert!(!whole.is_empty());
    for block in whole {
        Study::parse(block, Path::new("docs/study-file.md"), &[]).unwrap_or_else(|e| panic!("{e}\n{block}"));
    }
}

/// Nobody finds a key that is missing from the reference.
#[cfg(feature = "schema")]
#[test]
fn the_reference_names_every_key() {
    fn keys(schema: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
        match schema {
            serde_json::Value::Object(members) => {
                if let Some(properties) = members.get("properties").and_then(|p| p.as_object()) {
                    found.extend(properties.keys().cloned());
                }
                members.values().for_each(|v| keys(v, found));
            }
            serde_json::Value::Array(items) => items.iter().for_each(|v| keys(v, found)),
            _ => {}
        }
    }
    let mut found = std::collections::BTreeSet::new();
    keys(&storebench_study::workload::schema(), &mut found);
    assert!(found.len() > 60, "the schema names {} keys only", found.len());
    let text = reference();
    // In code: alone (`seed`), or in an example (`{ ramp = [100, 1_000] }`).
    let words: std::collections::BTreeSet<&str> = text
        .split('`')
        .skip(1)
        .step_by(2)
        .chain(text.split("```").skip(1).step_by(2))
        .flat_map(|code| code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .collect();
    let missing: Vec<&String> = found.iter().filter(|key| !words.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "docs/study-file.md does not name {missing:?}");
}
