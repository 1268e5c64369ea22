//! The contract that every document store fulfils: operations, outcomes, capabilities, sessions.
//!
//! A driver implements [`Store`] and [`Session`], and the conformance suite checks them. Callers hold an [`AnyStore`].

mod account;
mod batch;
mod capabilities;
mod collected;
mod contract;
mod cuts;
pub mod document;
mod erased;
mod first_answer;
mod futures;
mod held;
mod limit;
pub mod location;
mod memory;
mod merge_patch;
mod null;
mod operation;
mod optimistic;
pub mod ordered_map;
mod outcome;
mod own_settings;
mod owned;
mod ownership;
mod place;
mod rows;
mod site;
mod slow;
mod transaction;
mod wakers;

pub use account::{Account, SameKeys};
pub use batch::{Batch, BatchBuf};
pub use capabilities::{Capabilities, Support};
pub use collected::Collected;
pub use contract::{
    BuiltIndex, CollectionLayout, Description, Existing, Explanation, Layout, LocalFuture, NAME_COLUMNS, Namespace,
    PhaseStart, Prepare, Runtime, Session, SessionCounters, SessionOptions, Stats, Store, StoreError, Uses,
};
pub use cuts::{SAMPLES_A_RANGE, evenly};
pub use erased::{AnyStore, Erased};
pub use first_answer::first_answer;
pub use futures::{FutureSession, Respond};
pub use held::{DueTimes, Held, HeldSession};
pub use limit::{Limit, Schedule};
pub use memory::{MemorySession, MemoryStore};
pub use merge_patch::{check_patch, merge_patch};
pub use null::{NullSession, NullStore};
pub use operation::{BulkWrite, CollectionId, Op, Request, Token, ViewRows};
pub use optimistic::{Named, Optimistic};
pub use outcome::{Completions, ErrorKind, OpError, Reject, Reply};
pub use own_settings::{StoreSetting, StoreSettings};
pub use owned::OwnedReply;
pub use ownership::{CopyId, Holdings, Marked, Owner, copied, several};
pub use place::{canonical, place_of, same_file};
pub use rows::{BadRow, RowPage, RowStream, Rows, RowsKind};
pub use site::{Removal, Site, SiteOutcome, Wanted, WantedCollection, at_once, prepare, remove};
pub use slow::{Servers, Slow, SlowOptions};
pub use storebench_study::durability::{
    Acknowledged, Durability, DurabilityRequest, Isolation, Persisted, ReadConsistency,
};
pub use storebench_study::op_kind::OpKind;
pub use transaction::{Step, StepsFound, Transactions};
pub use wakers::{SlotWaker, WokenSlots};
