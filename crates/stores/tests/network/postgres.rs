//! The `postgres` driver against PostgreSQL.

#[path = "postgres/faults.rs"]
mod faults;
#[path = "postgres/operations.rs"]
mod operations;
#[path = "postgres/promises.rs"]
mod promises;
#[path = "postgres/sacred.rs"]
mod sacred;
#[path = "postgres/talk.rs"]
mod talk;

use crate::server::{Server, conforms};

#[test]
fn conformance() {
    let server = Server::start("postgres");
    conforms(&*storebench_stores::open(&server.url).unwrap());
}

#[test]
fn conformance_with_a_standby() {
    let server = Server::start("postgres-standby");
    conforms(&*storebench_stores::open(&format!("{}?schema=else where&apply=yes", server.url)).unwrap());
}
