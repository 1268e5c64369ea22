//! Reads records from a file of any format.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::partitions::Partition;
use super::{Reader, Room, Unreadable};
use crate::error::TransferError;
use crate::records::{Origin, Records};
use crate::shape::Maker;

/// An invalid record.
pub(super) struct Bad {
    pub(super) why: String,
    /// Its content, as far as it is text.
    pub(super) text: String,
    /// Whether `text` is the exact and complete content.
    pub(super) exact: bool,
    /// The content, if it is not UTF-8.
    pub(super) bytes: Option<Box<[u8]>>,
    /// JSON that has the record's key, if the content is not JSON.
    pub(super) with_key: Option<String>,
}

impl Bad {
    /// From bytes that may not be valid UTF-8.
    pub(super) fn of(why: String, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let exact = matches!(text, std::borrow::Cow::Borrowed(_));
        let bytes = (!exact).then(|| bytes.into());
        Self { why, text: text.into_owned(), exact, bytes, with_key: None }
    }
}

/// A record as JSON, and its offset in the file.
pub(super) type FoundRecord<'t> = (u64, Result<&'t str, Bad>);

/// Iterates over the records of a file.
pub(super) trait FileRecords {
    /// The next record; `None` at the end.
    fn next(&mut self) -> Result<Option<FoundRecord<'_>>, TransferError>;

    /// Adjusts the error for the last returned record, which is invalid.
    fn told(&mut self, bad: Bad) -> Bad {
        bad
    }

    /// Bytes read so far, if they differ from those read from the file.
    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// The file to read, and how its records are shaped.
pub(super) struct FileReading<'a> {
    pub(super) maker: Maker<'a>,
    /// The number of the file.
    pub(super) file: u32,
    /// The fields that the file's folders name.
    pub(super) partition: Option<Partition<'a>>,
    /// Bytes of the file that were read.
    pub(super) read: Arc<AtomicU64>,
}

impl<'a> FileReading<'a> {
    /// Creates a reader for these records.
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
                Ok(json) => {
                    let whole =
                        self.reading.partition.map_or(Cow::Borrowed(json), |partition| partition.added_to(json));
                    match self.reading.maker.text(&whole, origin, into) {
                        Ok(()) => continue,
                        Err(why) => Bad { why, text: json.to_owned(), exact: true, bytes: None, with_key: None },
                    }
                }
            };
            let Bad { why, text, exact, bytes, with_key } = self.records.told(refused);
            let key = with_key.and_then(|json| {
                let mut one = Records::default();
                self.reading.maker.text(&json, origin, &mut one).ok()?;
                one.iter().next().map(|(key, ..)| key.to_owned())
            });
            bad.push(Unreadable { origin, key, why, text, exact, key_bytes: None, bytes });
        }
        Poll::Ready(Ok(true))
    }

    fn bytes(&self) -> u64 {
        self.records.bytes().unwrap_or_else(|| self.reading.read.load(Ordering::Relaxed))
    }
}
