//! Documents over ordered maps: what embedded key-value engines have in common.
//!
//! An engine provides ordered tables of byte strings, with reads and writes of them ([`Database`]), and creates and
//! removes tables ([`Engine`]). Everything that turns these into documents is implemented once here: the operations
//! ([`OrderedSession`]), secondary indexes ([`Indexes`]), Storebench's record of its tables ([`Marker`]), and the store
//! itself ([`EmbeddedStore`]).
//!
//! If a database has a separate folder ([`InFolder`]), this module finds, locks, marks and removes it. Otherwise the
//! driver says where it is ([`DatabasePlace`]).
//!
//! A collection is a table of documents by key, and one table for each index with an entry for each document. An entry
//! is written in the same transaction as its document. If the engine keeps no revisions, a revision is the document
//! itself: exact, free to return, and blind to a change that was reverted.

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
