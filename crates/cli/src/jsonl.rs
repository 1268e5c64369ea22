//! Documents as JSON lines: several threads generate them, and one writes them in order.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::mpsc::sync_channel;

use storebench_documents::Documents;
use storebench_study::workload::Body;

/// Approximate size of one piece of work, in bytes of documents.
const PIECE_BYTES: u64 = 1 << 20;
/// Maximum number of pieces that a thread may be ahead of the writer.
const AHEAD: usize = 2;

/// Why lines could not be generated or written.
#[derive(Debug)]
pub(crate) enum LinesError {
    /// The writer's error.
    Write(io::Error),
    /// A document from the user's file that can no longer be read.
    Lost(String),
}

impl From<io::Error> for LinesError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Where a line holds the key, if at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Nowhere.
    Left,
    /// In a member `key`, beside the document.
    Beside,
    /// In a member with this name, added as the first of the document. The document must be an object.
    Within(&'static str),
}

/// Writes a range of documents in this version in order, one per line. The output does not depend on `jobs` or on the
/// size of pieces.
///
/// # Errors
/// The writer fails, or a document can no longer be read from the user's file.
pub(crate) fn write_lines(
    documents: &Documents,
    range: Range<u64>,
    version: u64,
    keys: Keys,
    jobs: u32,
    out: &mut impl Write,
) -> Result<(), LinesError> {
    let each = (PIECE_BYTES / documents.mean_bytes().max(1)).clamp(1, 100_000);
    let pieces = range.end.saturating_sub(range.start).div_ceil(each);
    let piece = |number: u64| {
        let start = range.start + number * each;
        start..(start + each).min(range.end)
    };
    let jobs = u64::from(jobs.max(1)).min(pieces.max(1));
    std::thread::scope(|scope| {
        // Thread j generates the pieces j, j + jobs, …. The writer takes one piece from each thread in turn. So nothing
        // needs sorting, and memory stays bounded.
        let mut threads = Vec::new();
        for job in 0..jobs {
            let (give, take) = sync_channel::<Result<Vec<u8>, u64>>(AHEAD);
            let (give_back, spare) = sync_channel::<Vec<u8>>(AHEAD + 2);
            threads.push((take, give_back));
            scope.spawn(move || {
                let mut maker = LineMaker { documents, version, keys, scratch: Vec::new() };
                for number in (job..pieces).step_by(jobs as usize) {
                    let mut lines = spare.try_recv().unwrap_or_default();
                    lines.clear();
                    let lost = piece(number).find(|index| !maker.write(*index, &mut lines));
                    // The send fails if the writer has failed.
                    if give.send(lost.map_or(Ok(lines), Err)).is_err() || lost.is_some() {
                        return;
                    }
                }
            });
        }
        for number in 0..pieces {
            let (take, give_back) = &threads[(number % jobs) as usize];
            let made = take.recv().map_err(|_| io::Error::other("a thread that generates documents has ended"))?;
            let lines = made.map_err(|index| {
                LinesError::Lost(format!(
                    "cannot read document {index} of `{}` from its file; do not change the file while Storebench reads \
                     it",
                    documents.name()
                ))
            })?;
            out.write_all(&lines)?;
            // Returning the buffer only saves an allocation.
            let _ = give_back.try_send(lines);
        }
        // Closes the channels, so that no thread waits to send. The early returns above close them too.
        drop(threads);
        Ok(())
    })
}

struct LineMaker<'a> {
    documents: &'a Documents,
    version: u64,
    keys: Keys,
    scratch: Vec<u8>,
}

impl LineMaker<'_> {
    /// Adds a line. Returns false if the document cannot be read.
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> bool {
        let name = match self.keys {
            Keys::Left => None,
            Keys::Beside => Some("key"),
            Keys::Within(name) => Some(name),
        };
        if let Some(name) = name {
            out.push(b'{');
            json_string(name.as_bytes(), out);
            out.push(b':');
            self.scratch.clear();
            self.documents.write_key(index, &mut self.scratch);
            json_string(&self.scratch, out);
        }
        if let Keys::Within(_) = self.keys {
            return self.write_members(index, out);
        }
        if self.keys == Keys::Beside {
            out.extend_from_slice(b",\"document\":");
        }
        let before = out.len();
        match self.documents.body() {
            Body::Json => self.documents.write_document(index, self.version, out),
            // A load creates counters with the value 0.
            Body::Counter => {
                self.scratch.clear();
                self.documents.write_document(index, self.version, &mut self.scratch);
                out.extend_from_slice(if self.scratch.is_empty() { b"0" } else { &self.scratch });
            }
            // Bytes are written as a JSON string, so that every line is JSON.
            Body::Bytes => {
                self.scratch.clear();
                self.documents.write_document(index, self.version, &mut self.scratch);
                json_string(&self.scratch, out);
            }
        }
        let made = out.len() > before;
        if self.keys == Keys::Beside {
            out.push(b'}');
        }
        out.push(b'\n');
        made
    }

    /// Adds the members of the document to a line that began with `{` and the key. Returns false if the document is not
    /// an object.
    fn write_members(&mut self, index: u64, out: &mut Vec<u8>) -> bool {
        self.scratch.clear();
        self.documents.write_document(index, self.version, &mut self.scratch);
        let object = self.scratch.trim_ascii();
        let Some(members) = object.strip_prefix(b"{") else { return false };
        let members = members.trim_ascii_start();
        if members != b"}" {
            out.push(b',');
        }
        out.extend_from_slice(members);
        out.push(b'\n');
        true
    }
}

fn json_string(text: &[u8], out: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(text);
    serde_json::to_writer(out, &text).expect("writing a string to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use storebench_lab::run::compile_documents;
    use storebench_study::workload::Study;

    use super::*;

    #[test]
    fn a_file_that_is_cut_off_meanwhile_is_an_error_and_no_empty_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.jsonl");
        std::fs::write(&file, "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n").unwrap();
        let text = "title = \"Own\"\n[collections.own]\nfrom = \"own.jsonl\"\nkey = \"{a}\"\n[[phases]]\nname = \"load\"\n\
                    load = [\"own\"]\n";
        let study = Study::parse(text, Path::new("own.toml"), &[]).unwrap();
        let compiled = compile_documents(&study, 1.0, folder.path()).unwrap();
        let documents = compiled.catalog.get(0);
        let mut out = Vec::new();
        write_lines(documents, 0..3, 0, Keys::Left, 2, &mut out).unwrap();
        assert_eq!(out, std::fs::read(&file).unwrap());
        std::fs::write(&file, "{\"a\":1}\n").unwrap();
        let error = write_lines(documents, 0..3, 0, Keys::Left, 2, &mut Vec::new()).unwrap_err();
        assert!(matches!(&error, LinesError::Lost(text) if text.contains("document 1 of `own`")), "{error:?}");
    }

    #[test]
    fn keys_stand_beside_a_document_or_within_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("own.jsonl"), "{\"a\":\"x\\\"\"}\n  { \"a\": \"y\" , \"b\" : {} } \n")
            .unwrap();
        let text = "title = \"Own\"\n[collections.own]\nfrom = \"own.jsonl\"\nkey = \"k/{a}\"\n[[phases]]\nname = \"load\"\n\
                    load = [\"own\"]\n";
        let study = Study::parse(text, Path::new("own.toml"), &[]).unwrap();
        let compiled = compile_documents(&study, 1.0, folder.path()).unwrap();
        let lines = |keys| {
            let mut out = Vec::new();
            write_lines(compiled.catalog.get(0), 0..2, 0, keys, 1, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>()
        };
        let beside = lines(Keys::Beside);
        assert_eq!(beside[0], serde_json::json!({"key": "k/x\"", "document": {"a": "x\""}}));
        let within = lines(Keys::Within("its key"));
        assert_eq!(within[0], serde_json::json!({"its key": "k/x\"", "a": "x\""}));
        assert_eq!(within[1], serde_json::json!({"its key": "k/y", "a": "y", "b": {}}));
    }

    #[test]
    fn a_writer_that_fails_ends_the_threads() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let text = "title = \"Many\"\n[collections.many]\ncount = 200_000\nsize = \"1KiB\"\n[[phases]]\nname = \"load\"\n\
                    load = [\"many\"]\n";
        let study = Study::parse(text, Path::new("many.toml"), &[]).unwrap();
        let compiled = compile_documents(&study, 1.0, Path::new(".")).unwrap();
        let error = write_lines(compiled.catalog.get(0), 0..200_000, 0, Keys::Left, 4, &mut Full).unwrap_err();
        assert!(matches!(error, LinesError::Write(e) if e.kind() == io::ErrorKind::StorageFull));
    }
}
