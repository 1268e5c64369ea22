//! Moves documents in bulk between files and document stores: in parallel, losing nothing.
//!
//! A [`Source`] is cut into [`Split`]s, which workers take in turn. Each worker reads records of its split,
//! shapes them ([`Shape`]: expressions of jq, keys, fields) and writes them in batches into a [`Sink`], several
//! in flight. A split counts as done when all of it is written and acknowledged, and a log that is synced
//! before says so: a copy that was killed continues with what is missing. A record that does not arrive is in the
//! file of rejects, with the reason.
//!
//! ```text
//! source ─ splits ─┬─ worker: reader → shape → writer ─┬─ target
//!                  ├─ worker: …                        │
//!                  └─ …          log, rejects ◄────────┘
//! ```
//!
//! A file is a [`FileLocation`]: a path, or an object elsewhere, which is read ahead and uploaded when it is whole.
//!
//! Stores come in as [`AnyStore`](storebench_engine::store::AnyStore): this crate names no driver.

// Pieces from anywhere in a file are what tables are read by.
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
pub use copy::{Begin, COPY_FORMAT, CopyOutcome, CopyReport, CopyRequest, Progress, RepeatedKeys, copy, name_of};
pub use error::TransferError;
pub use format::{Format, FormatError};
pub use infer::{Infer, infer_columns};
pub use jq::{Jq, JqError};
pub use manifest::{Counts, Damage, abandon, is_unfinished, settings_of, target_of};
pub use measure::{Request, RequestKinds, Writes};
pub use place::FileLocation;
#[cfg(feature = "remote")]
pub use place::{HdfsCluster, OpenHdfs, register_hdfs};
pub use put::put_file;
pub use records::{Origin, Records};
pub use rejects::Reject;
pub use retry::{Access, RetryPolicy};
pub use schema::SchemaError;
pub use shape::{Expiry, Fields, FieldsError, KEY_FIELD, KeyRule, KeyRuleError, Projection, Renames, Shape};
#[cfg(feature = "tables")]
pub use sink::TableLines;
pub use sink::{
    Again, Ended, FileSink, FileSinkOptions, MergeBy, OwnMembers, Refusal, Rewrite, Sink, StoreSink, StoreSinkOptions,
    USUAL_BATCH, Verb, Writer,
};
#[cfg(feature = "tables")]
pub use source::parquet_rows;
pub use source::{
    FileSource, FileSourceOptions, Packing, Part, Reader, Room, Snapshot, Source, Split, StoreSource,
    StoreSourceOptions, TheirExpiry, Unreadable,
};
pub use source::{ViewKeys, ViewKeysError, ViewSource};
pub use verify::{Changed, Differing, Target, Verification};
