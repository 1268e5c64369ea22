//! Documents as JSON lines, made by several threads and written in order.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::mpsc::sync_channel;

use storebench_core::documents::Documents;
use storebench_core::workload::Body;

/// About how many bytes of documents one piece of work makes.
const PIECE_BYTES: u64 = 1 << 20;
/// Pieces that a thread may be ahead of the writer.
const AHEAD: usize = 2;

/// What lines hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// Version of the documents.
    pub(crate) version: u64,
    /// Whether each line holds the key too.
    pub(crate) keys: bool,
}

/// Writes a range of documents, one a line, in order. What is written depends neither on `jobs` nor
/// on where pieces begin.
///
/// # Errors
/// The writer's.
pub(crate) fn write_lines(
    documents: &Documents,
    range: Range<u64>,
    form: Form,
    jobs: u32,
    out: &mut impl Write,
) -> io::Result<()> {
    let each = (PIECE_BYTES / documents.mean_bytes().max(1)).clamp(1, 100_000);
    let pieces = range.end.saturating_sub(range.start).div_ceil(each);
    let piece = |number: u64| {
        let start = range.start + number * each;
        start..(start + each).min(range.end)
    };
    let jobs = u64::from(jobs.max(1)).min(pieces.max(1));
    std::thread::scope(|scope| {
        // Thread j makes the pieces j, j + jobs, …; the writer asks them in turn, so order needs no
        // sorting and memory stays bounded.
        let mut threads = Vec::new();
        for job in 0..jobs {
            let (give, take) = sync_channel::<Vec<u8>>(AHEAD);
            let (give_back, spare) = sync_channel::<Vec<u8>>(AHEAD + 2);
            threads.push((take, give_back));
            scope.spawn(move || {
                let mut maker = LineMaker::new(documents, form);
                for number in (job..pieces).step_by(jobs as usize) {
                    let mut lines = spare.try_recv().unwrap_or_default();
                    lines.clear();
                    for index in piece(number) {
                        maker.write(index, &mut lines);
                    }
                    if give.send(lines).is_err() {
                        // The writer has failed.
                        return;
                    }
                }
            });
        }
        for number in 0..pieces {
            let (take, give_back) = &threads[(number % jobs) as usize];
            let lines = take.recv().map_err(|_| io::Error::other("a thread that makes documents has ended"))?;
            out.write_all(&lines)?;
            // Only saves an allocation.
            let _ = give_back.try_send(lines);
        }
        // Dropped here, so that threads which are ahead of a failed writer end.
        drop(threads);
        Ok(())
    })
}

struct LineMaker<'a> {
    documents: &'a Documents,
    form: Form,
    scratch: Vec<u8>,
}

impl<'a> LineMaker<'a> {
    fn new(documents: &'a Documents, form: Form) -> Self {
        Self { documents, form, scratch: Vec::new() }
    }

    fn write(&mut self, index: u64, out: &mut Vec<u8>) {
        if self.form.keys {
            out.extend_from_slice(b"{\"key\":");
            self.scratch.clear();
            self.documents.write_key(index, &mut self.scratch);
            json_string(&self.scratch, out);
            out.extend_from_slice(b",\"document\":");
        }
        match self.documents.body() {
            Body::Json => self.documents.write_document(index, self.form.version, out),
            // A load makes counters at 0.
            Body::Counter => {
                self.scratch.clear();
                self.documents.write_document(index, self.form.version, &mut self.scratch);
                out.extend_from_slice(if self.scratch.is_empty() { b"0" } else { &self.scratch });
            }
            // Bytes are text here, so that every line is JSON.
            Body::Bytes => {
                self.scratch.clear();
                self.documents.write_document(index, self.form.version, &mut self.scratch);
                json_string(&self.scratch, out);
            }
        }
        if self.form.keys {
            out.push(b'}');
        }
        out.push(b'\n');
    }
}

fn json_string(text: &[u8], out: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(text);
    serde_json::to_writer(out, &text).expect("a text into memory cannot fail");
}
