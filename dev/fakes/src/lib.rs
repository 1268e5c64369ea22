//! Fake servers, for tests of Storebench's drivers where no real server is available.
//!
//! The fake Couchbase behaves consistently: it checks logins, holds documents on the nodes that its map names, and
//! acknowledges a durable write only when its own replicas hold it. It refuses unknown requests. The fake MongoDB gives
//! the answers that a test specifies, including those that a real server cannot be made to give. The fake S3 serves a
//! folder and checks signatures. All this is test code: nothing here is published or linked into the program.

pub mod certificates;
pub mod couchbase;
pub mod fuzz;
pub mod http;
pub mod mongodb;
pub mod s3;
