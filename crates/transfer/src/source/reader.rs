//! Reads records from a file of any format.

use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::partitions::Partition;
use super::{ReadCounts, Reader, Room, Unreadable};
use crate::error::TransferError;
use crate::records::{Origin, Records};
use crate::shape::Maker;

/// Reads once, again if a signal interrupts it. Returns the number of bytes; 0 at the end.
pub(super) fn read_some(input: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// A record as JSON, and its offset in the file. An invalid one gets its origin and its key from the reader.
pub(super) type FoundRecord<'t> = (u64, Result<&'t str, Unreadable>);

/// Iterates over the records of a file.
pub(super) trait FileRecords {
    /// The next record; `None` at the end.
    fn next(&mut self) -> Result<Option<FoundRecord<'_>>, TransferError>;

    /// Adjusts the error for the last returned record, which is invalid.
    fn told(&mut self, bad: Unreadable) -> Unreadable {
        bad
    }

    /// JSON that has the key of an invalid record whose content is not JSON.
    fn with_key(&self, _bad: &Unreadable) -> Option<String> {
        None
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
    fn poll_read(&mut self, _: &mut Context<'_>, room: Room, into: &mut Records) -> Poll<Result<bool, TransferError>> {
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
                        Err(why) => Unreadable::of(why, json.as_bytes()),
                    }
                }
            };
            let key = self.records.with_key(&refused).and_then(|json| {
                let mut one = Records::default();
                self.reading.maker.text(&json, origin, &mut one).ok()?;
                one.iter().next().map(|(key, ..)| key.to_owned())
            });
            into.bad.push(Unreadable { origin, key, ..self.records.told(refused) });
        }
        Poll::Ready(Ok(true))
    }

    fn counted(&self) -> ReadCounts {
        let bytes = self.records.bytes().unwrap_or_else(|| self.reading.read.load(Ordering::Relaxed));
        ReadCounts { bytes, ..ReadCounts::default() }
    }
}
