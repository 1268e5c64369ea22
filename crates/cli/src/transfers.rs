//! Phases of a study that copy. They work like the verb `copy`.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use storebench_documents::Documents;
use storebench_engine::Stop;
use storebench_engine::store::{DurabilityRequest, SAMPLES_A_RANGE, StoreError};
use storebench_lab::run::{TransferProgress, TransferRequest, Transferred, Transfers};
use storebench_results::TasksResult;
use storebench_study::workload::CopyDirection;
use storebench_transfer::{
    Access, Begin, Columns, CopyOutcome, CopyRequest, FileSink, FileSinkOptions, FileSource, FileSourceOptions, Format,
    Packing, RecordOp, Shape, Sink, Source, Split, StoreSink, StoreSinkOptions, StoreSource, StoreSourceOptions,
    TransferError, ViewSource, copy,
};

use crate::jsonl::{Keys, LinesError, write_lines};
use crate::processors;
use crate::verbs::copy::losses;

/// The field with the key in files. It is not `_id`, because the user's documents may have that field.
const KEY_MEMBER: &str = "storebench-key";

/// Runs copies as the verb `copy` does.
#[derive(Debug)]
pub(crate) struct Copies;

impl Transfers for Copies {
    fn write_files(&self, documents: &Documents, folder: &Path, files: u32, stop: &Stop) -> Result<(), StoreError> {
        let keys = Keys::Within(KEY_MEMBER);
        let jobs = processors();
        let (files, all) = (u64::from(files.max(1)), u128::from(documents.count()));
        let begins = |file: u64| (all * u128::from(file) / u128::from(files)) as u64;
        for number in (0..files).take_while(|_| !stop.asked()) {
            let path = file(folder, number);
            let failed = |e: std::io::Error| {
                let remedy = "free space, or set TMPDIR to a folder with more space";
                StoreError::Failed(format!("{}: cannot be written: {e}; {remedy}", path.display()))
            };
            let mut out = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(failed)?);
            write_lines(documents, begins(number)..begins(number + 1), 0, keys, jobs, &mut out).map_err(|error| {
                match error {
                    LinesError::Write(e) => failed(e),
                    LinesError::Lost(text) => StoreError::Failed(text),
                }
            })?;
            // Synced before the measurement, so that writeback does not slow the store down.
            out.flush().and_then(|()| out.get_ref().sync_data()).map_err(failed)?;
        }
        Ok(())
    }

    fn transfer(
        &self,
        request: &TransferRequest<'_>,
        progress: &mut dyn FnMut(TransferProgress),
    ) -> Result<Transferred, StoreError> {
        match request.copy.direction {
            CopyDirection::In => copy_in(request, progress),
            CopyDirection::Out => copy_out(request, progress),
        }
        .map_err(of_store)
    }
}

fn file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("documents-{number:02}.jsonl"))
}

fn copy_in(
    request: &TransferRequest<'_>,
    progress: &mut dyn FnMut(TransferProgress),
) -> Result<Transferred, TransferError> {
    let files: Vec<PathBuf> =
        (0..).map(|number| file(request.files, number)).take_while(|path| path.exists()).collect();
    let source = FileSource::open(&files, FileSourceOptions { format: Some(Format::Jsonl), ..Default::default() })?;
    let options = StoreSinkOptions {
        prepared: Some(request.collection),
        batch: request.copy.batch.map(|n| n as usize),
        in_flight: request.copy.in_flight,
        durability: Some(DurabilityRequest::Exactly(request.copy.guarantees.durability)),
        access: Access { timeout: request.copy.timeout.0, ..Access::default() },
        ..StoreSinkOptions::new(request.documents.name())
    };
    let sink = StoreSink::open(request.store.clone(), options)?;
    let splits = source.cut(request.copy.copy_parts())?;
    perform(request, &source, &sink, &splits, progress)
}

fn copy_out(
    request: &TransferRequest<'_>,
    progress: &mut dyn FnMut(TransferProgress),
) -> Result<Transferred, TransferError> {
    let options = StoreSourceOptions {
        prepared: Some(request.collection),
        view: request.copy.view.clone().map(|view| ViewSource { view, keys: None }),
        access: Access { timeout: request.copy.timeout.0, ..Access::default() },
        ..StoreSourceOptions::new(request.documents.name())
    };
    let source = StoreSource::open(request.store.clone(), options)?;
    let sink = FileSink::open(FileSinkOptions {
        place: Some(request.files.to_path_buf().into()),
        folder: true,
        parts: request.files.join(".parts"),
        format: Format::Jsonl,
        columns: Columns::default(),
        packing: Packing::Plain,
        key_field: Some(KEY_MEMBER.to_owned()),
        fresh: true,
        replace: true,
    })?;
    let (documents, parts) = (request.documents, request.copy.copy_parts());
    let splits = source.cut(parts, documents.count(), &mut || some_keys(documents, parts))?;
    perform(request, &source, &sink, &splits, progress)
}

/// The keys at evenly spaced indexes of documents, so that about as many documents lie between any two neighbours.
fn some_keys(documents: &Documents, parts: u32) -> Vec<String> {
    let wanted = (u64::from(parts) * SAMPLES_A_RANGE as u64).min(documents.count());
    let key = |n: u64| {
        let mut key = Vec::new();
        let index = u128::from(documents.count()) * u128::from(n) / u128::from(wanted);
        documents.write_key(index as u64, &mut key);
        String::from_utf8_lossy(&key).into_owned()
    };
    (0..wanted).map(key).collect()
}

fn perform(
    request: &TransferRequest<'_>,
    source: &dyn Source,
    sink: &dyn Sink,
    splits: &[Split],
    progress: &mut dyn FnMut(TransferProgress),
) -> Result<Transferred, TransferError> {
    let asked = CopyRequest {
        source,
        sink,
        splits: Some(splits),
        shape: &Shape::carried_by(KEY_MEMBER),
        op: RecordOp::Upsert.name(),
        parallel: request.copy.copy_tasks(),
        docs_per_s: None,
        bytes_per_s: None,
        folder: request.scratch.to_path_buf(),
        rejects: request.scratch.join("rejects.jsonl"),
        settings: std::collections::BTreeMap::new(),
        begin: Begin::Fresh,
        replace: false,
        verify: false,
        interval: request.interval,
        tasks: None,
        observer: None,
    };
    let outcome = copy(&asked, request.stop, &mut |now| {
        progress(TransferProgress { documents: now.documents, bytes: now.bytes });
    })?;
    let CopyOutcome { report, record, at_once } = outcome;
    if let Some(damage) = report.damaged.first() {
        return Err(TransferError::Damaged(damage.what.clone()));
    }
    Ok(Transferred {
        record,
        tasks: TasksResult { asked: request.copy.copy_tasks(), at_once, parts: report.splits },
        documents: report.counts.written,
        rejected: report.counts.rejected,
        first_reject: report.first_reject,
        lost: report.counted.map(|counted| losses(&counted).join("; ")).filter(|lost| !lost.is_empty()),
    })
}

/// Converts the error that ended a copy into the error of a trial.
fn of_store(error: TransferError) -> StoreError {
    match error {
        TransferError::Store { error, .. } => error,
        TransferError::BadInput(text) => StoreError::NotSupported(text),
        TransferError::Source(text) | TransferError::Damaged(text) | TransferError::Target(text) => {
            StoreError::Failed(text)
        }
    }
}
