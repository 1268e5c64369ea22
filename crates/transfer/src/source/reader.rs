//! Records out of a file of any format.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::{Reader, Room, Unreadable};
use crate::error::TransferError;
use crate::records::{Origin, Records};
use crate::shape::Maker;

/// A record that is none, or does not become one.
pub(super) struct Bad {
    pub(super) why: String,
    /// It, as far as it is text.
    pub(super) text: String,
    /// Whether that is all of it, as it was.
    pub(super) exact: bool,
}

impl Bad {
    /// Bytes that are perhaps no text.
    pub(super) fn of(why: String, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let exact = matches!(text, std::borrow::Cow::Borrowed(_));
        Self { why, text: text.into_owned(), exact }
    }
}

/// A record as JSON, and where in the file it begins.
pub(super) type FoundRecord<'t> = (u64, Result<&'t str, Bad>);

/// How records stand in a file that is read.
pub(super) trait FileRecords {
    /// The next record; none at the end.
    fn next(&mut self) -> Result<Option<FoundRecord<'_>>, TransferError>;

    /// What is told of the record that was given last, which is bad.
    fn told(&mut self, bad: Bad) -> Bad {
        bad
    }

    /// Bytes read so far, where the file's own do not tell.
    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// Which file is read, and what becomes of its records.
pub(super) struct FileReading<'a> {
    pub(super) maker: Maker<'a>,
    /// Number of the file.
    pub(super) file: u32,
    /// Bytes of the file that were read.
    pub(super) read: Arc<AtomicU64>,
}

impl<'a> FileReading<'a> {
    /// Reads these.
    pub(super) fn of<F: FileRecords + 'a>(self, records: F) -> Box<dyn Reader + 'a> {
        Box::new(FileReader { records, reading: self })
    }
}

struct FileReader<'a, F> {
    records: F,
    reading: FileReading<'a>,
}

impl<F: FileRecords> Reader for FileReader<'_, F> {
    fn poll_read(
        &mut self,
        _: &mut Context<'_>,
        room: Room,
        into: &mut Records,
        bad: &mut Vec<Unreadable>,
    ) -> Poll<Result<bool, TransferError>> {
        while into.has_room(room) {
            let Some((at, record)) = self.records.next()? else { return Poll::Ready(Ok(false)) };
            let origin = Origin { unit: self.reading.file, at };
            let refused = match record {
                Err(refused) => refused,
                Ok(json) => match self.reading.maker.text(json, origin, into) {
                    Ok(()) => continue,
                    Err(why) => Bad { why, text: json.to_owned(), exact: true },
                },
            };
            let Bad { why, text, exact } = self.records.told(refused);
            bad.push(Unreadable { origin, key: None, why, text, exact });
        }
        Poll::Ready(Ok(true))
    }

    fn bytes(&self) -> u64 {
        self.records.bytes().unwrap_or_else(|| self.reading.read.load(Ordering::Relaxed))
    }
}
