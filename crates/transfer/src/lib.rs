//! Moves documents in bulk between files and document stores, in parallel and without losing any.
//!
//! A [`Source`] is divided into [`Split`]s, which workers take in turn. A worker reads the records of its split and
//! shapes them ([`Shape`]: jq expressions, keys, fields). It writes them to a [`Sink`] in batches, several in flight. A
//! split is done when all its records are written and acknowledged. A log, synced first, says so. A copy that was
//! killed continues with the splits that are missing. A record that does not arrive goes to the file of rejects, with
//! the reason.
//!
//! ```text
//! source ─ splits ─┬─ worker: reader → shape → writer ─┬─ target
//!                  ├─ worker: …                        │
//!                  └─ …          log, rejects ◄────────┘
//! ```
//!
//! A file is a [`FileLocation`]: a path, or a remote object. Remote objects are read ahead, and uploaded when complete.
//!
//! Stores are passed in as [`AnyStore`](storebench_engine::store::AnyStore): this crate names no driver.

// Only tables read a file at arbitrary offsets.
#![cfg_attr(not(feature = "tables"), allow(dead_code))]

mod columns;
#[cfg(feature = "tables")]
mod columns_arrow;
mod copy;
mod error;
mod format;
mod infer;
mod jq;
mod manifest;
mod measure;
mod pace;
mod place;
mod put;
mod records;
mod rejects;
mod retry;
mod runtime;
mod schema;
mod session;
mod shape;
mod sink;
mod source;
mod timer;
mod verify;

pub use columns::{ColumnTypes, ColumnTypesError, Columns, Kind, OVERFLOW};
#[cfg(feature = "schema")]
pub use copy::schema;
pub use copy::{
    Begin, COPY_FORMAT, CopyOutcome, CopyReport, CopyRequest, LeftOut, Progress, RepeatedKeys, StoreCounts, Task,
    TaskReport, Tasks, check_tasks, copy, name_of, perform,
};
pub use error::TransferError;
pub use format::{Format, FormatError};
pub use infer::{Infer, infer_columns};
pub use jq::{Jq, JqError};
pub use manifest::{Counts, Damage, abandon, finish, is_finished, is_unfinished, settings_of, target_of};
pub use measure::{Request, RequestKinds, Writes};
pub use place::FileLocation;
#[cfg(feature = "remote")]
pub use place::{HdfsCluster, OpenHdfs, register_hdfs};
pub use put::put_file;
pub use records::{Origin, Records};
pub use rejects::{Reject, RejectReason, refuse_rejects};
pub use retry::{Access, RetryPolicy};
pub use schema::SchemaError;
pub use shape::{Expiry, Fields, FieldsError, KEY_FIELD, KeyRule, KeyRuleError, Projection, Renames, Shape};
pub use sink::{
    Again, Ended, FileSink, FileSinkOptions, MergeBy, OwnMembers, RecordOp, Refusal, Rewrite, Sink, StoreSink,
    StoreSinkOptions, TargetState, USUAL_BATCH, Writer,
};
#[cfg(feature = "tables")]
pub use sink::{RecordBatches, TableLines};
#[cfg(feature = "tables")]
pub use source::parquet_rows;
pub use source::{
    Escapes, FileSource, FileSourceOptions, Opened, Packing, Part, ReadCounts, Reader, Room, Snapshot, Source, Split,
    StoreSource, StoreSourceOptions, TakeRecords, TheirExpiry, Unreadable, read_split,
};
pub use source::{ViewKeys, ViewKeysError, ViewSource};
pub use verify::{Changed, Differing, Target, Verification};
