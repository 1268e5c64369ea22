//! Reads back files that were written.

use std::path::Path;

use storebench_engine::Stop;

use super::hash::{self, Seen};
use super::{Target, interrupted};
use crate::error::TransferError;
use crate::format::Format;
use crate::place::FileLocation;
use crate::shape::Shape;
use crate::sink::part_name;
use crate::source::{Escapes, FileSource, FileSourceOptions, Room, Source, Split, read_split};

/// Files that a copy wrote.
pub(crate) struct FileTarget {
    pub(crate) place: FileLocation,
    /// Whether each split is a separate file in a folder.
    pub(crate) folder: bool,
    /// The file format.
    pub(crate) format: Format,
    /// Extracts keys.
    pub(crate) shape: Shape,
}

impl Target for FileTarget {
    fn read(
        &self,
        _: &Path,
        split: &Split,
        stop: &Stop,
        wanted: &dyn Fn(&str) -> bool,
        found: &mut dyn FnMut(&str, Seen),
    ) -> Result<(), TransferError> {
        // A single file does not separate splits: read all of it with the first split.
        if !self.folder && split.number != 0 {
            return Ok(());
        }
        let options = FileSourceOptions {
            format: Some(self.format),
            escapes: Some(Escapes::None),
            ..FileSourceOptions::default()
        };
        let name = part_name(split.number, self.format);
        let place = if self.folder { self.place.join(&name) } else { self.place.clone() };
        let source = FileSource::open(&[place], options)?;
        let room = Room { records: 10_000, bytes: 1 << 20 };
        for split in &source.splits(1)? {
            read_split(&source, split, &self.shape, room, &mut |records, bad| {
                if stop.asked() {
                    return Err(interrupted());
                }
                if let Some(bad) = bad.first() {
                    return Err(TransferError::Target(format!("{}: {}", source.place(split, bad.origin), bad.why)));
                }
                for (key, body, _) in records.iter().filter(|(key, _, _)| wanted(key)) {
                    found(key, hash::seen(key, body, &[], self.format.keeps_nulls()));
                }
                Ok(true)
            })?;
        }
        Ok(())
    }

    fn keeps_each(&self) -> bool {
        true
    }
}
