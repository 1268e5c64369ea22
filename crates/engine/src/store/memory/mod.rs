//! `memory:`, an ordered store in this process's memory.
//!
//! Each collection is spread over shards by the hash of the key, each an ordered map behind its own
//! lock, so that writers on several threads seldom meet. Ordered reads merge the shards, which all
//! stay locked for reading meanwhile: a page is a snapshot.

mod collection;
mod database;
mod store;
#[cfg(test)]
mod tests;

use database::MemoryDatabase;
pub use database::MemorySession;
pub use store::MemoryStore;
