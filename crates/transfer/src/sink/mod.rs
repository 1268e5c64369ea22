//! Targets of a copy.

mod encode;
mod files;
mod fit;
mod join;
mod line;
mod merge;
mod order;
mod request;
mod reserved;
mod store;
#[cfg(feature = "tables")]
mod tables;
mod untaken;
mod write_session;

pub(crate) use files::part_name;
pub use files::{FileSink, FileSinkOptions};
pub(crate) use fit::Rows;
pub use reserved::OwnMembers;
pub use store::{MergeBy, RecordOp, StoreSink, StoreSinkOptions, USUAL_BATCH};
#[cfg(feature = "tables")]
pub use tables::{RecordBatches, TableLines};

use std::path::PathBuf;
use std::task::{Context, Poll};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storebench_engine::store::{Account, AnyStore, CopyId, ErrorKind, LocalFuture, SameKeys};

use crate::columns::Columns;
use crate::error::TransferError;
use crate::measure::{Request, Writes};
use crate::records::Records;
use crate::shape::Expiry;
use crate::source::{Room, Split};
use crate::verify::Target;

/// A record that the target refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Its position in the batch.
    pub position: usize,
    /// The kind of error.
    pub kind: ErrorKind,
    /// The error message.
    pub why: String,
    /// Number of attempts.
    pub tries: u32,
}

/// A finished batch: every record is written, refused or skipped.
#[derive(Debug, Default)]
pub struct Ended {
    /// All records, including those that were written.
    pub records: Records,
    /// The records as they were sent, if members that the target reserves for itself were removed.
    pub changed: Option<Records>,
    /// Documents that lost members which the target does not know from elsewhere.
    pub without_own: u64,
    /// The records that were not written, in any order.
    pub refused: Vec<Refusal>,
    /// Positions of records that were skipped because they have expired, in their source too.
    pub expired: Vec<usize>,
    /// When each record may be gone from the target again, by position; empty if none of them expires.
    pub gone: Vec<Option<Timestamp>>,
    /// Records that needed no write: a delete did not find their keys, or a merge changed nothing.
    pub skipped: u64,
    /// Records that an insert found in the target with the same content, written by an earlier attempt or by a copy
    /// that was killed.
    pub there_already: u64,
    /// Attempts after the first, of the batch or of parts of it.
    pub retries: u64,
}

impl Ended {
    /// The records in the form in which they were sent.
    pub fn sent(&self) -> &Records {
        self.changed.as_ref().unwrap_or(&self.records)
    }
}

/// Gives the body that is sent in place of a document, from its key and body; `None` if it is sent unchanged.
pub type Rewrite<'a> = Box<dyn Fn(&str, &[u8]) -> Option<Vec<u8>> + 'a>;

/// A target of a copy.
pub trait Sink: Send + Sync {
    /// A short description, without secrets.
    fn describe(&self) -> String;

    /// The store that is written to, if the target is a store.
    fn store(&self) -> Option<&dyn AnyStore> {
        None
    }

    /// How the writers write.
    ///
    /// # Errors
    /// The target cannot guarantee the requested durability.
    fn writes(&self) -> Result<Writes, TransferError>;

    /// How large a batch should be.
    fn room(&self) -> Room;

    /// Opens a writer. Must be called on the thread, and inside the runtime, that writes. If a key may come more than
    /// once, the writer applies its records one at a time.
    fn open(&self, may_repeat: bool) -> LocalFuture<'_, Result<Box<dyn Writer + '_>, TransferError>>;

    /// Completes the target after all records were written.
    ///
    /// # Errors
    /// Errors of the target.
    fn finish(&self, _splits: &[Split]) -> Result<(), TransferError> {
        Ok(())
    }

    /// Deletes what only a resume would need. Called when nothing more is written or read back, and the log says that
    /// the copy is finished.
    ///
    /// # Errors
    /// Errors of the target.
    fn close(&self) -> Result<(), TransferError> {
        Ok(())
    }

    /// Whether some splits of a source can be written without the others.
    fn keeps_parts(&self) -> bool {
        true
    }

    /// What a resumed copy may write again.
    fn again(&self) -> Again;

    /// Top-level members of documents that the target adds itself, so that they are not part of what was written.
    fn own_members(&self) -> Vec<String> {
        Vec::new()
    }

    /// Which keys the target takes for one.
    fn same_keys(&self) -> SameKeys {
        SameKeys::Exact
    }

    /// What the target itself counts, if each record that is written adds a document, unless its key is repeated.
    fn account(&self) -> Option<Account> {
        None
    }

    /// When documents expire that have no expiry of their own.
    fn expiry(&self) -> Option<Expiry> {
        None
    }

    /// Whether the target distinguishes null from a missing field.
    fn keeps_nulls(&self) -> bool {
        true
    }

    /// Gives the body that is sent in place of a document, from its key and body; `None` if it is sent unchanged.
    fn rewrites(&self) -> Rewrite<'_> {
        Box::new(|_, _| None)
    }

    /// The number by which a resumed copy recognizes the target; `None` if the target has no marker.
    fn mark(&self) -> Option<CopyId> {
        None
    }

    /// Whether a written key must still exist when the copy is resumed, because no step of the copy removes it.
    fn keeps_keys(&self) -> bool {
        false
    }

    /// Those of the given keys that are missing in the target.
    ///
    /// # Errors
    /// Errors of the target.
    fn missing(&self, _keys: &[&str]) -> Result<Vec<String>, TransferError> {
        Ok(Vec::new())
    }

    /// What tasks in other processes must know of this target; see [`Tasks`](crate::Tasks).
    ///
    /// # Errors
    /// Why other processes cannot write to it.
    fn state(&self) -> Result<TargetState, TransferError>;

    /// Reads back what was written.
    ///
    /// # Errors
    /// Why the expected content is not known.
    fn target(&self) -> Result<Box<dyn Target + '_>, TransferError>;
}

/// What a task in another process must know of the target.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TargetState {
    /// The number in the marker of the store's collection.
    pub copy: Option<CopyId>,
    /// Whether upserts are tried as inserts first.
    pub inserts_first: bool,
    /// The columns of files.
    pub columns: Columns,
    /// The folder of a local file's parts, as an absolute path.
    pub parts: Option<PathBuf>,
}

/// What a resumed copy may write again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// A split that was not finished. Writing it again replaces what was written of it.
    Free,
    /// No record that may have been written.
    Once,
    /// Nothing, because what was written cannot be replaced.
    Never,
}

/// Writes for one worker.
pub trait Writer {
    /// Starts a split.
    ///
    /// # Errors
    /// Errors of the target.
    fn begin(&mut self, _split: &Split) -> Result<(), TransferError> {
        Ok(())
    }

    /// Whether the writer can accept a batch now.
    fn has_room(&self) -> bool;

    /// Accepts a batch, which must not be empty.
    ///
    /// # Errors
    /// Errors of the target.
    fn put(&mut self, records: Records) -> Result<(), TransferError>;

    /// Moves the measured requests since the last call to `into`.
    fn requests(&mut self, into: &mut Vec<Request>);

    /// How often a connection to the target was lost.
    fn disconnects(&self) -> u64 {
        0
    }

    /// Moves finished batches to `ended`. `Ready` if none is in progress.
    fn poll(&mut self, cx: &mut Context<'_>, ended: &mut Vec<Ended>) -> Poll<Result<(), TransferError>>;

    /// Ends a split after all its batches are acknowledged. When this returns, the split has the durability that the
    /// sink guarantees.
    ///
    /// # Errors
    /// Errors of the target.
    fn end(&mut self) -> Result<(), TransferError> {
        Ok(())
    }
}
