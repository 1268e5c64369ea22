//! Documents over ordered maps: what embedded key-value engines have in common.
//!
//! An engine gives ordered tables of byte strings, reads and writes of them, and says what its place holds
//! ([`Database`], [`Engine`]). Everything that makes documents of that stands here once: the operations
//! ([`OrderedSession`]), secondary indexes ([`Indexes`]), what Storebench notes of its tables ([`Marker`]), and the
//! store itself ([`EmbeddedStore`]).
//!
//! A collection is a table of documents by key, and one table for each index with an entry for each document. An
//! entry is written in the same transaction as its document. A revision is the document itself where the engine
//! keeps none: exact, free to give, and blind to a change that was changed back.

mod database;
mod embedded;
mod found;
mod index;
mod marker;
mod session;

pub use database::{Collection, Database, Documents, KeyRange, Opened, Reader, Scope, Stored, Writer};
pub use embedded::{EmbeddedStore, Engine, durabilities, operations, strong_reads, tables_of};
pub use index::{Entries, Indexes};
pub use marker::{Made, Marker};
pub use session::OrderedSession;
