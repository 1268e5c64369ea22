//! What is in files that were written.

use std::future::poll_fn;
use std::path::Path;

use super::Target;
use super::hash::{self, Seen};
use crate::error::TransferError;
use crate::format::Format;
use crate::place::Place;
use crate::records::Records;
use crate::shape::Shape;
use crate::sink::part_name;
use crate::source::{FileSource, FileSourceOptions, Room, Source, Split};

/// Files that a copy has made.
pub(crate) struct FileTarget {
    pub(crate) place: Place,
    /// Whether each split is a file of its own in a folder.
    pub(crate) folder: bool,
    /// How records stand in them.
    pub(crate) format: Format,
    /// Finds keys.
    pub(crate) shape: Shape,
}

impl Target for FileTarget {
    fn read(
        &self,
        _: &Path,
        split: &Split,
        wanted: &dyn Fn(&str) -> bool,
        found: &mut dyn FnMut(&str, Seen),
    ) -> Result<(), TransferError> {
        // In one file splits are not told apart: all of it is read with the first.
        if !self.folder && split.number != 0 {
            return Ok(());
        }
        let options = FileSourceOptions { format: Some(self.format), ..FileSourceOptions::default() };
        let part = || self.place.join(&part_name(split.number, self.format));
        let place = if self.folder { part() } else { self.place.clone() };
        let source = FileSource::open(&[place], options)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|e| TransferError::Target(format!("the system gives no event loop: {e}")))?;
        let splits = source.splits(1)?;
        runtime.block_on(async {
            let (mut records, mut bad) = (Records::new(), Vec::new());
            for split in &splits {
                let mut reader = source.open(split, &self.shape).await?;
                loop {
                    records.clear();
                    let room = Room { records: 10_000, bytes: 1 << 20 };
                    let more = poll_fn(|cx| reader.poll_read(cx, room, &mut records, &mut bad)).await?;
                    if let Some(bad) = bad.first() {
                        return Err(TransferError::Target(format!("{}: {}", source.place(split, bad.origin), bad.why)));
                    }
                    for (key, body, _) in records.iter().filter(|(key, _, _)| wanted(key)) {
                        found(key, hash::seen(key, body, &[], self.format.keeps_nulls()));
                    }
                    if !more {
                        break;
                    }
                }
            }
            Ok(())
        })
    }

    fn keeps_each(&self) -> bool {
        true
    }
}
