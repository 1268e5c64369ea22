//! Documents over ordered maps: what embedded key-value engines have in common.
//!
//! An engine gives ordered tables of byte strings, with reads and writes of them ([`Database`]), and makes and removes
//! tables ([`Engine`]). Everything that makes documents of that stands here once: the operations
//! ([`OrderedSession`]), secondary indexes ([`Indexes`]), what Storebench notes of its tables ([`Marker`]), and the
//! store itself ([`EmbeddedStore`]).
//!
//! A database lies in a folder of its own ([`InFolder`]), where all about finding, locking, marking and removing it is
//! done here; or the driver says how it lies elsewhere ([`DatabasePlace`]).
//!
//! A collection is a table of documents by key, and one table for each index with an entry for each document. An
//! entry is written in the same transaction as its document. A revision is the document itself where the engine
//! keeps none: exact, free to give, and blind to a change that was changed back.

mod database;
mod embedded;
mod folder;
mod index;
mod marker;
mod place;
mod session;
mod site;

pub use database::{Collection, Database, Documents, KeyRange, Opened, Reader, Scope, Stored, Writer};
pub use embedded::{EmbeddedStore, durabilities, operations, operations_over, strong_reads};
pub use folder::InFolder;
pub use index::{Entries, Indexes};
pub use marker::Marker;
pub use place::{Change, DatabasePlace, Engine, FoundDatabase, Taken};
pub use session::OrderedSession;
