//! Stores the measurement of a copy like a run with one phase, in the same files, so that it can be reported and
//! compared.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indexmap::IndexMap;
use storebench_engine::measure::PhaseRecord;
use storebench_engine::store::{AnyStore, Capabilities, Support};
use storebench_results::plan::{Plan, PlannedCollection, PlannedPhase, PlannedTrial};
use storebench_results::validity::judge;
use storebench_results::{
    CollectionResult, FORMAT, FolderError, Pass, RunFolder, RunInfo, RunResult, Secrets, TrialResult, gather_phase,
};

use crate::environment::this_machine;
use crate::wall;

/// The checks that apply to a copy. The others check how well a store was measured; a copy draws no keys and verifies
/// documents differently.
const JUDGED: &[&str] = &["single-run", "client-shares-host", "client-saturated", "parallelism-not-reached", "errors"];

/// A copy that has ended or was interrupted.
#[derive(Clone, Copy)]
pub struct Copied<'a> {
    /// The source, without secrets.
    pub from: &'a str,
    /// The target, without secrets.
    pub to: &'a str,
    /// The store whose requests were measured: the target, or the source of a copy into files. `None` for a copy
    /// between files.
    pub store: Option<&'a dyn AnyStore>,
    /// Name of the collection that was written or read.
    pub collection: &'a str,
    /// Number of documents that this process has written.
    pub documents: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Documents written before this process continued the copy.
    pub before: u64,
    /// The measurement.
    pub record: &'a PhaseRecord,
    /// All settings, by flag.
    pub settings: &'a serde_json::Value,
    /// The commit that Storebench was built from, if known.
    pub commit: Option<&'a str>,
}

/// Writes `run.json` and its tables into the folder of a copy. A process that continues a copy writes its own part to a
/// subfolder `resumed-N`. Returns what was written.
///
/// # Errors
/// The folder cannot be written.
pub fn keep_copy(folder: &Path, copied: &Copied<'_>, secrets: &Secrets) -> Result<RunResult, FolderError> {
    let path = place(folder)?;
    let result = result(&path, copied);
    let mut out = RunFolder::at(path, secrets.clone())?;
    out.add_event(&serde_json::json!({ "event": "copy-began", "at": result.run.began }))?;
    out.add_phase(1, "copy", Pass::Measured, copied.record, [])?;
    out.write_result(&result)?;
    out.add_event(&serde_json::json!({ "event": "copy-ended", "at": result.run.ended }))?;
    out.finish().map(|_| result)
}

fn place(folder: &Path) -> Result<PathBuf, FolderError> {
    if !folder.join(storebench_results::RESULT_FILE).exists() {
        return Ok(folder.to_owned());
    }
    let resumed = (1..).map(|n| folder.join(format!("resumed-{n}"))).find(|path| !path.exists());
    let path = resumed.unwrap_or_else(|| folder.to_owned());
    match std::fs::create_dir(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(FolderError::Write { path, source }),
    }
}

fn result(folder: &Path, copied: &Copied<'_>) -> RunResult {
    let Copied { record, documents, bytes, .. } = *copied;
    let title = format!("copy {} → {}", copied.from, copied.to);
    let mean_bytes = bytes.checked_div(documents).unwrap_or(0);
    let capabilities = copied.store.map_or_else(of_files, |store| store.capabilities());
    let description = copied.store.map(|store| store.describe());
    let url = description.as_ref().map_or_else(|| copied.to.to_owned(), |d| d.url.clone());
    let collections = vec![CollectionResult {
        collection: copied.collection.to_owned(),
        count: documents,
        mean_bytes,
        own: true,
        body: "json".to_owned(),
        ..CollectionResult::default()
    }];
    let phase = gather_phase(record, &collections, &capabilities, None);
    let began = phase.began.clone();
    let (ended, set_back) = wall::ended(&began, Duration::from_nanos(phase.elapsed_ns), jiff::Timestamp::now());
    let mut notes: Vec<String> = capabilities.notes.iter().map(|note| (*note).to_owned()).collect();
    notes.extend(set_back);
    if copied.before > 0 {
        notes.push(format!("an earlier process wrote {} documents of this copy", copied.before));
    }
    let approximated: IndexMap<String, String> = record
        .labels
        .iter()
        .filter_map(|label| match capabilities.supports(label.kind) {
            Some(Support::Approximated(how)) => Some((label.name.clone(), how.to_owned())),
            _ => None,
        })
        .collect();
    let trial = TrialResult {
        trial: 1,
        round: 1,
        store: "copy".to_owned(),
        scheme: description.as_ref().map_or("file", |d| d.scheme).to_owned(),
        url: url.clone(),
        version: description.map(|d| d.version).unwrap_or_default(),
        embedded: capabilities.embedded,
        notes,
        approximated,
        began: began.clone(),
        phases: vec![phase],
        ..TrialResult::default()
    };
    let mut result = RunResult {
        format: FORMAT.to_owned(),
        run: RunInfo {
            name: "copy".to_owned(),
            title: title.clone(),
            began,
            ended: Some(ended),
            storebench_version: env!("CARGO_PKG_VERSION").to_owned(),
            storebench_commit: copied.commit.map(str::to_owned),
            scale: 1.0,
            study: copied.settings.clone(),
            interrupted: record.partial.is_some(),
            folder: Some(folder.display().to_string()),
            ..RunInfo::default()
        },
        plan: Plan {
            title,
            scale: 1.0,
            repeats: 1,
            collections: vec![PlannedCollection {
                collection: copied.collection.to_owned(),
                count: documents,
                mean_bytes,
                total_bytes: bytes,
                from: Some(copied.from.to_owned()),
                ..PlannedCollection::default()
            }],
            phases: vec![PlannedPhase {
                name: record.name.clone(),
                does: format!("copy {} to {}", copied.from, copied.to),
                documents: Some(documents),
                bytes: Some(bytes),
                workers: record.workers,
                connections: record.connections,
                in_flight: record.in_flight,
                ..PlannedPhase::default()
            }],
            trials: vec![PlannedTrial {
                trial: 1,
                round: 1,
                configuration: "copy".to_owned(),
                store: "copy".to_owned(),
                url,
                host: None,
            }],
            ..Plan::default()
        },
        environment: this_machine(&[folder.to_owned()]),
        documents: collections,
        trials: vec![trial],
        ..RunResult::default()
    };
    result.checks = judge(&result).into_iter().filter(|check| JUDGED.contains(&check.check.as_str())).collect();
    result
}

/// The guarantees of files.
fn of_files() -> Capabilities {
    use storebench_engine::store::{Durability, ReadConsistency};
    Capabilities {
        durability: vec![(Durability::FSYNC, "each part of a file is synced before it counts as done")],
        shipped_durability: Durability::FSYNC,
        consistency: vec![(ReadConsistency::Strong, "files")],
        embedded: true,
        ..Capabilities::default()
    }
}

#[cfg(test)]
mod tests {
    use storebench_results::read_run;

    use super::*;
    use crate::testing::copy_record;

    #[test]
    fn each_process_of_a_copy_keeps_a_run_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let settings = serde_json::json!({"--op": "upsert"});
        let record = copy_record();
        let copied = Copied {
            from: "a.jsonl",
            to: "out.jsonl",
            store: None,
            collection: "books",
            documents: 1_000,
            bytes: 5_000,
            before: 0,
            record: &record,
            settings: &settings,
            commit: None,
        };
        let first = keep_copy(dir.path(), &copied, &Secrets::default()).unwrap();
        let second = keep_copy(dir.path(), &Copied { before: 7, ..copied }, &Secrets::default()).unwrap();
        assert_eq!(read_run(dir.path()).unwrap(), first);
        assert_eq!(read_run(&dir.path().join("resumed-1")).unwrap(), second);
        assert!(second.trials[0].notes.iter().any(|note| note.contains("7 documents")), "{second:?}");
        assert_eq!((first.documents[0].mean_bytes, first.trials[0].scheme.as_str()), (5, "file"));
        assert!(first.checks.iter().all(|check| JUDGED.contains(&check.check.as_str())));
        for file in ["intervals.jsonl.gz", "events.jsonl", "resources.jsonl.gz"] {
            assert!(dir.path().join(file).exists(), "{file}");
        }
    }
}
