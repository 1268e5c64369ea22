//! Tests whole copies between files and stores, in this process.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod by_record;
mod counted;
mod cut;
mod damage;
mod expiries;
mod faulty;
mod files;
mod formats;
#[cfg(feature = "remote")]
mod http;
mod merges;
mod once;
mod one_by_one;
mod overwrite;
mod own_members;
#[cfg(feature = "remote")]
mod remote;
mod repeated;
mod resume;
mod retries;
mod round;
mod shaped;
mod tasks;
mod types;
mod verified;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use storebench_engine::store::{
    AnyStore, CollectionId, Durability, Op, OpError, OwnedReply, PhaseStart, ReadConsistency, Request, SessionOptions,
};
use storebench_engine::{Caller, RealClock, Stop};
use storebench_transfer::{
    Access, Begin, Columns, CopyReport, CopyRequest, FileSink, FileSinkOptions, FileSource, FileSourceOptions, Format,
    Jq, KEY_FIELD, Packing, Projection, RecordOp, Reject, RetryPolicy, Shape, Sink, Source, StoreSink,
    StoreSinkOptions, StoreSource, StoreSourceOptions, TransferError, copy,
};

/// A folder for files and the logs of copies.
struct Lab {
    folder: tempfile::TempDir,
    begin: Begin,
    parallel: u32,
    stop: Arc<Stop>,
    stop_after: Option<u64>,
    verify: bool,
    keep_log: bool,
}

impl Lab {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            begin: Begin::Fresh,
            parallel: 3,
            stop: Arc::new(Stop::new()),
            stop_after: None,
            verify: false,
            keep_log: false,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn copy(&self, source: &dyn Source, sink: &dyn Sink) -> Result<CopyReport, TransferError> {
        self.copy_shaped(source, sink, &Shape::new(None, "test"))
    }

    fn copy_shaped(&self, source: &dyn Source, sink: &dyn Sink, shape: &Shape) -> Result<CopyReport, TransferError> {
        let request = CopyRequest {
            source,
            sink,
            splits: None,
            shape,
            op: "upsert",
            parallel: self.parallel,
            docs_per_s: None,
            bytes_per_s: None,
            folder: self.path("copy"),
            rejects: self.path("rejects.jsonl"),
            settings: BTreeMap::new(),
            begin: self.begin,
            replace: false,
            verify: self.verify,
            interval: Duration::from_secs(1),
            tasks: None,
            observer: None,
        };
        let outcome = copy(&request, &self.stop, &mut |now| {
            if self.stop_after.is_some_and(|enough| now.documents >= enough) {
                self.stop.ask();
            }
        });
        let report = outcome.map(|outcome| outcome.report);
        if !self.keep_log && report.as_ref().is_ok_and(|report| !report.interrupted) {
            std::fs::remove_file(self.path("copy/log.jsonl")).unwrap();
        }
        report
    }

    fn rejects(&self) -> Vec<Rejected> {
        let Ok(text) = std::fs::read_to_string(self.path("rejects.jsonl")) else { return Vec::new() };
        let read = |line| {
            let reject: Reject = serde_json::from_str(line).unwrap();
            Rejected { record: serde_json::from_str(reject.record.get()).unwrap(), reject }
        };
        text.lines().map(read).collect()
    }
}

/// A reject, and its record as a tree.
#[derive(Debug)]
struct Rejected {
    reject: Reject,
    record: Value,
}

impl std::ops::Deref for Rejected {
    type Target = Reject;

    fn deref(&self) -> &Reject {
        &self.reject
    }
}

fn files(paths: &[&Path]) -> FileSource {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    FileSource::open(&paths, FileSourceOptions::default()).unwrap()
}

fn file_sink(lab: &Lab, name: &str) -> FileSink {
    let path = lab.path(name);
    FileSink::open(FileSinkOptions {
        folder: false,
        parts: lab.path(&format!(".{name}.parts")),
        format: Format::of_name(name),
        columns: Columns::default(),
        packing: Packing::of_name(name),
        key_field: Some(KEY_FIELD.to_owned()),
        fresh: false,
        replace: false,
        place: Some(path.into()),
    })
    .unwrap()
}

fn sink_options(verb: RecordOp) -> StoreSinkOptions {
    StoreSinkOptions {
        verb,
        batch: Some(100),
        in_flight: 4,
        durability: Some(storebench_engine::store::DurabilityRequest::AtLeast(Durability::OS)),
        access: Access {
            retry: RetryPolicy { tries: 16, first: Duration::from_micros(100), ..RetryPolicy::default() },
            ..Access::default()
        },
        ..StoreSinkOptions::new("books")
    }
}

fn store_sink(store: &Arc<dyn AnyStore>, verb: RecordOp) -> StoreSink {
    let durability =
        store.capabilities().durability.first().map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d));
    StoreSink::open(Arc::clone(store), StoreSinkOptions { durability, ..sink_options(verb) }).unwrap()
}

fn shape() -> Shape {
    Shape::new(None, "test")
}

fn jq(expression: &str) -> Jq {
    Jq::of_record(expression).unwrap()
}

/// Sends operations to a store, one at a time.
fn caller(store: &dyn AnyStore) -> impl FnMut(Op<'_>) -> Result<OwnedReply, OpError> + use<> {
    let options = SessionOptions {
        durability: store.capabilities().durability[0].0,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(5),
        in_flight: 1,
        clock: Arc::new(RealClock::new()),
        phase_start: PhaseStart::new(),
    };
    let mut caller = Caller::open(store, &options).unwrap();
    move |op| {
        let request = Request { collection: CollectionId(0), op, contents: true };
        let mut answer = None;
        caller.call(&request, |result| answer = Some(result.map(OwnedReply::from)));
        answer.unwrap()
    }
}

fn store_source(store: &Arc<dyn AnyStore>) -> StoreSource {
    let options = StoreSourceOptions::new("books");
    StoreSource::open(Arc::clone(store), options).unwrap()
}

/// Lines with the keys `k000000`…, each with a text that breaks careless writers.
fn lines(count: usize) -> String {
    (0..count)
        .map(|n| format!("{{\"_id\":\"k{n:06}\",\"n\":{n},\"text\":\"tab\\t, \\\"quote\\\", é漢 \\n{n}\"}}\n"))
        .collect()
}

/// All documents of a store, as sorted lines.
fn contents(store: &Arc<dyn AnyStore>) -> Vec<String> {
    let other = Lab::new();
    let report = other.copy(&store_source(store), &file_sink(&other, "all.jsonl")).unwrap();
    assert_eq!(report.counts.rejected, 0);
    sorted(&std::fs::read_to_string(other.path("all.jsonl")).unwrap())
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

fn memory() -> Arc<dyn AnyStore> {
    storebench_stores::open("memory:").unwrap()
}
