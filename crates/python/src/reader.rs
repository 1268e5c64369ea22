//! Documents of a store or of files, read by several threads as Arrow batches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use storebench_cli::{Outcome, Reading};
use storebench_transfer::{Columns, RecordBatches, Records, Room, Split, TransferError, read_split};

use crate::arrow::{Stream, bad_input, refused};

/// The most documents of one batch.
const ROWS: usize = 4_096;
/// A batch ends when its documents have so many bytes. Arrow's text columns hold 2 GiB.
const BYTES: usize = 8 << 20;
/// Stack size of a thread: jq expressions recurse into documents. Only the used part costs memory.
const STACK_BYTES: usize = 64 << 20;

const _: () = assert!(ROWS <= RecordBatches::ROWS, "a chunk of records fits a batch");

/// A source that is open.
#[pyclass(frozen, module = "storebench")]
pub(crate) struct Reader(Arc<Reading>);

/// What a batch holds.
enum Kind {
    /// Key and document.
    Documents { key: String, document: String, binary: bool },
    /// Typed columns.
    Columns { columns: Columns, key_field: Option<String> },
}

impl Kind {
    fn schema(&self) -> Schema {
        match self {
            Self::Documents { key, document, binary } => Schema::new(vec![
                Field::new(key, DataType::Utf8, false),
                Field::new(document, if *binary { DataType::Binary } else { DataType::Utf8 }, false),
            ]),
            Self::Columns { columns, .. } => columns.arrow(),
        }
    }
}

/// Checks that several processes can write to the store at this URL.
#[pyfunction]
pub(crate) fn check_server(py: Python<'_>, url: &str) -> PyResult<()> {
    py.detach(|| storebench_cli::check_server(url)).map_err(failed)
}

/// The error of a verb: its exit code and its message.
fn failed(outcome: Outcome) -> PyErr {
    refused(outcome.code, &outcome.to_string())
}

#[pymethods]
impl Reader {
    /// Opens the source. `options` are those of `copy`.
    #[new]
    fn new(py: Python<'_>, source: &str, options: Vec<String>) -> PyResult<Self> {
        py.detach(|| Reading::open(source, &options)).map(|reading| Self(Arc::new(reading))).map_err(failed)
    }

    /// Changes when the source changes.
    fn fingerprint(&self) -> String {
        self.0.source().fingerprint()
    }

    /// The collection that is read, if the source has collections.
    fn collection(&self) -> Option<&str> {
        self.0.collection()
    }

    /// The parts of the source, each as a text.
    fn splits(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let splits = py.detach(|| self.0.splits()).map_err(failed)?;
        Ok(splits.iter().map(|split| serde_json::json!(split).to_string()).collect())
    }

    /// The columns of the documents as a text, and whether some documents have fields outside them or were not seen.
    fn columns(&self, py: Python<'_>) -> PyResult<(String, bool)> {
        let columns = py.detach(|| self.0.columns()).map_err(failed)?;
        Ok((serde_json::json!(columns).to_string(), columns.overflow.is_some()))
    }

    /// Starts to read these parts, or all. Without `columns`, rows are the key and the document, under these names.
    #[pyo3(signature = (splits, columns, names, binary))]
    fn stream(
        &self,
        py: Python<'_>,
        splits: Option<Vec<String>>,
        columns: Option<&str>,
        names: (String, String),
        binary: bool,
    ) -> PyResult<Stream> {
        let unreadable = |e: serde_json::Error| bad_input(format!("a part or columns: {e}"));
        let splits: Vec<Split> = match splits {
            None => py.detach(|| self.0.splits()).map_err(failed)?,
            Some(texts) => {
                texts.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>().map_err(unreadable)?
            }
        };
        let kind = match columns {
            None => Kind::Documents { key: names.0, document: names.1, binary },
            Some(text) => {
                let columns = serde_json::from_str(text).map_err(unreadable)?;
                Kind::Columns { columns, key_field: self.0.key_field() }
            }
        };
        let batches = Batches::start(Arc::clone(&self.0), splits, kind);
        Ok(Stream::of(Box::new(batches.map_err(crate::arrow::failed)?)))
    }
}

/// What all threads share.
struct Work {
    reading: Arc<Reading>,
    splits: Vec<Split>,
    next: AtomicUsize,
    kind: Kind,
}

impl Work {
    /// Reads parts until none is left or nobody takes batches any more.
    fn run(&self, send: &SyncSender<Result<RecordBatch, ArrowError>>) {
        while let Some(split) = self.splits.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            match self.read(split, send) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let failed = self.reading.failed(error);
                    // The others stop, too.
                    self.next.store(self.splits.len(), Ordering::Relaxed);
                    let _ = send.send(Err(ArrowError::ExternalError(Box::new(failed))));
                    return;
                }
            }
        }
    }

    /// Reads one part. Returns false if nobody takes batches any more.
    fn read(&self, split: &Split, send: &SyncSender<Result<RecordBatch, ArrowError>>) -> Result<bool, TransferError> {
        let (source, shape) = (self.reading.source(), self.reading.shape());
        let schema: SchemaRef = Arc::new(self.kind.schema());
        let of_arrow = |e: ArrowError| TransferError::Source(format!("{}: {}", source.describe(), text_of(&e)));
        let mut typed = match &self.kind {
            Kind::Documents { .. } => None,
            Kind::Columns { columns, key_field } => {
                Some(RecordBatches::new(columns, key_field.as_deref()).map_err(of_arrow)?)
            }
        };
        let mut taken = true;
        let room = Room { records: ROWS, bytes: BYTES };
        read_split(source, split, shape, room, &mut |records, bad| {
            if let Some(bad) = bad.first() {
                let place = source.place(split, bad.origin);
                return Err(TransferError::Source(format!(
                    "{place}: {}; to skip such records, use `copy` with max_errors",
                    bad.why
                )));
            }
            if records.is_empty() {
                return Ok(true);
            }
            let batch = match &mut typed {
                Some(typed) => typed.of(records).map_err(of_arrow)?,
                None => documents(records, &schema)?,
            };
            taken = send.send(Ok(batch)).is_ok();
            Ok(taken)
        })?;
        Ok(taken)
    }
}

/// The text of an error, without Arrow's prefix.
fn text_of(error: &ArrowError) -> String {
    match error {
        ArrowError::InvalidArgumentError(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Keys and documents as two columns.
fn documents(records: &Records, schema: &SchemaRef) -> Result<RecordBatch, TransferError> {
    let (rows, bytes) = (records.len(), records.bytes());
    let mut keys = StringBuilder::with_capacity(rows, rows * 24);
    records.iter().for_each(|(key, ..)| keys.append_value(key));
    let bodies: ArrayRef = if schema.field(1).data_type() == &DataType::Utf8 {
        let mut bodies = StringBuilder::with_capacity(rows, bytes);
        for (key, body, _) in records.iter() {
            bodies.append_value(simdutf8::compat::from_utf8(body).map_err(|e| {
                TransferError::Source(format!("document `{key}` is not valid UTF-8 ({e}); use read(…, binary=True)"))
            })?);
        }
        Arc::new(bodies.finish())
    } else {
        let mut bodies = BinaryBuilder::with_capacity(rows, bytes);
        records.iter().for_each(|(_, body, _)| bodies.append_value(body));
        Arc::new(bodies.finish())
    };
    RecordBatch::try_new(Arc::clone(schema), vec![Arc::new(keys.finish()), bodies])
        .map_err(|e| TransferError::Source(e.to_string()))
}

/// Batches in the order in which threads read them.
struct Batches(Mutex<Receiver<Result<RecordBatch, ArrowError>>>);

impl Batches {
    fn start(reading: Arc<Reading>, splits: Vec<Split>, kind: Kind) -> std::io::Result<RecordBatchIterator<Self>> {
        let schema = Arc::new(kind.schema());
        let threads = (reading.parallel().max(1) as usize).min(splits.len());
        let work = Arc::new(Work { reading, splits, next: AtomicUsize::new(0), kind });
        let (send, batches) = mpsc::sync_channel(2 * threads.max(1));
        for number in 0..threads {
            let (work, send) = (Arc::clone(&work), send.clone());
            let thread = std::thread::Builder::new().name(format!("read-{number}")).stack_size(STACK_BYTES);
            thread.spawn(move || {
                let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work.run(&send)));
                if ran.is_err() {
                    // The end of the stream would look like the end of the documents.
                    let bug = "a reader panicked; please report it";
                    let _ = send.send(Err(ArrowError::ExternalError(bug.into())));
                }
            })?;
        }
        Ok(RecordBatchIterator::new(Self(Mutex::new(batches)), schema))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = &self.0;
        let next = move || batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        // A consumer may hold Python's lock, which the readers need if the store is in Python. Fails when all threads
        // have ended.
        match Python::try_attach(|py| py.detach(next)) {
            Some(next) => next.ok(),
            None => next().ok(),
        }
    }
}
