//! Servers that only pretend, for tests of Storebench's drivers where no real one can be had.
//!
//! The fake of Couchbase enforces what it answers: it checks who logs in, holds documents on the nodes
//! that its map names, and acknowledges a durable write only when its own replicas hold it. What it does
//! not know it refuses. That of MongoDB answers what a test tells it to, for answers that no server gives
//! when asked. S3 serves a
//! folder and checks signatures. All is test code: nothing here is published or linked into the program.

pub mod certificates;
pub mod couchbase;
pub mod fuzz;
pub mod http;
pub mod mongodb;
pub mod s3;
