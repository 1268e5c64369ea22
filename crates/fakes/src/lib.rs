//! Servers that only pretend, for tests of Storebench's drivers where no real one can be had.
//!
//! A fake enforces what it answers: it checks who logs in, holds documents on the nodes that its map
//! names, and acknowledges a durable write only when its own replicas hold it. What it does not know it
//! refuses. It is test code: nothing here is published or linked into the program.

pub mod couchbase;
