//! Operations on documents over connections of Storebench's own: one to each node of the map, with many requests in
//! flight. What the server calls them: <https://github.com/couchbase/kv_engine/blob/master/docs/BinaryProtocol.md>.
//!
//! The official crate remains for management and queries. Through it, an operation
//! costs the client several times the CPU time: it wakes tasks, allocates, and copies each document more than once.
//!
//! The server answers in any order (unordered execution), so that a write that waits for its copies, or a read that waits
//! for the disk, does not hold up the others. Answers name their request by a number (opaque). An exception is `exists`
//! (GET_META), which the server does only after all earlier requests of its connection.

mod frame;
#[cfg(test)]
mod fuzz;
mod login;
mod request;
mod route;
mod session;
mod snappy;

pub(super) use login::first_contact;
pub(super) use session::{KvSession, open};
