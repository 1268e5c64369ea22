//! Where records go.

mod encode;
mod files;
mod fit;
mod join;
mod lanes;
mod line;
mod merge;
mod order;
mod request;
mod reserved;
mod store;
#[cfg(feature = "tables")]
mod tables;

pub(crate) use files::part_name;
pub use files::{FileSink, FileSinkOptions};
pub(crate) use fit::Rows;
pub use reserved::OwnMembers;
pub use store::{MergeBy, StoreSink, StoreSinkOptions, USUAL_BATCH, Verb};
#[cfg(feature = "tables")]
pub use tables::TableLines;

use std::task::{Context, Poll};

use storebench_engine::store::{AnyStore, CopyId, ErrorKind, LocalFuture};

use crate::error::TransferError;
use crate::measure::{Request, Writes};
use crate::records::Records;
use crate::source::{Room, Split};
use crate::verify::Target;

/// A record that a target did not take.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Its position in the batch.
    pub position: usize,
    /// What it means.
    pub kind: ErrorKind,
    /// What the target said.
    pub why: String,
    /// How often it was tried.
    pub tries: u32,
}

/// A batch that has ended: every record of it is written, refused or left out.
#[derive(Debug, Default)]
pub struct Ended {
    /// The records, also those that were written.
    pub records: Records,
    /// The same as they were sent, where members that the target keeps for itself were left out.
    pub changed: Option<Records>,
    /// Documents of which something was left out so that the target does not know by itself.
    pub without_own: u64,
    /// Which of them were not written, in no order.
    pub refused: Vec<Refusal>,
    /// Positions of those that were left out: they have expired in their source, too.
    pub expired: Vec<usize>,
    /// Records for which nothing was to be done: a delete did not find their keys, a merge changed nothing.
    pub skipped: u64,
    /// Records that an insert found there already, the same: written by an earlier try, or by a copy that was
    /// killed.
    pub there_already: u64,
    /// Tries beyond the first, of the batch or of parts of it.
    pub retries: u64,
}

impl Ended {
    /// The records as they were sent.
    pub fn sent(&self) -> &Records {
        self.changed.as_ref().unwrap_or(&self.records)
    }
}

/// What is sent in place of a document, by its key and text; none where it is sent as it is.
pub type Rewrite<'a> = Box<dyn Fn(&str, &[u8]) -> Option<Vec<u8>> + 'a>;

/// Where records go.
pub trait Sink: Send + Sync {
    /// What it is, in a few words, without secrets.
    fn describe(&self) -> String;

    /// The store that is written, where it is one.
    fn store(&self) -> Option<&dyn AnyStore> {
        None
    }

    /// How its writers write.
    ///
    /// # Errors
    /// The target cannot guarantee what was asked for.
    fn writes(&self) -> Result<Writes, TransferError>;

    /// How much a batch should hold.
    fn room(&self) -> Room;

    /// Opens a writer. Called on the thread, and within the runtime, that writes.
    fn open(&self) -> LocalFuture<'_, Result<Box<dyn Writer + '_>, TransferError>>;

    /// Everything is written: makes it what it is to be.
    ///
    /// # Errors
    /// The target's.
    fn finish(&self, _splits: &[Split]) -> Result<(), TransferError> {
        Ok(())
    }

    /// Nothing more is written or read back, and the log says that everything was finished: takes away what
    /// only a copy that goes on would need.
    ///
    /// # Errors
    /// The target's.
    fn close(&self) -> Result<(), TransferError> {
        Ok(())
    }

    /// Whether some splits of a source can be written without the others.
    fn keeps_parts(&self) -> bool {
        true
    }

    /// What a copy that goes on may write again.
    fn again(&self) -> Again;

    /// Top-level members of documents that are the target's own, and so no part of what was written.
    fn own_members(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a field that is null can be told from one that is not there.
    fn keeps_nulls(&self) -> bool {
        true
    }

    /// What is sent in place of a document, by its key and text; none where it is sent as it is.
    fn rewrites(&self) -> Rewrite<'_> {
        Box::new(|_, _| None)
    }

    /// The number by which a copy that goes on knows the target again; none where the target carries none.
    fn mark(&self) -> Option<CopyId> {
        None
    }

    /// Whether a key that was written must be there when the copy goes on: nothing that the copy does takes it away.
    fn keeps_keys(&self) -> bool {
        false
    }

    /// Those of these keys that are not in the target.
    ///
    /// # Errors
    /// The target's.
    fn missing(&self, _keys: &[&str]) -> Result<Vec<String>, TransferError> {
        Ok(Vec::new())
    }

    /// What reads back what was written.
    ///
    /// # Errors
    /// Why it cannot be told what should be there.
    fn target(&self) -> Result<Box<dyn Target + '_>, TransferError>;
}

/// What a copy that goes on may write again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// A split that did not end: it replaces what was written of it.
    Free,
    /// No record that may have been written.
    Once,
    /// Nothing: what was written is out of reach.
    Never,
}

/// Writes for one worker.
pub trait Writer {
    /// A split begins.
    ///
    /// # Errors
    /// The target's.
    fn begin(&mut self, _split: &Split) -> Result<(), TransferError> {
        Ok(())
    }

    /// Whether a batch can be taken now.
    fn has_room(&self) -> bool;

    /// Takes a batch, which is not empty.
    ///
    /// # Errors
    /// The target's.
    fn put(&mut self, records: Records) -> Result<(), TransferError>;

    /// Moves out what was measured since the last call.
    fn requests(&mut self, into: &mut Vec<Request>);

    /// Hands over batches that have ended. `Ready` when none is under way.
    fn poll(&mut self, cx: &mut Context<'_>, ended: &mut Vec<Ended>) -> Poll<Result<(), TransferError>>;

    /// The split has been written and acknowledged: after this it survives what the sink guarantees.
    ///
    /// # Errors
    /// The target's.
    fn end(&mut self) -> Result<(), TransferError> {
        Ok(())
    }
}
