//! The `postgres` driver against PostgreSQL.

use crate::server::{Server, conforms};

#[test]
fn conformance() {
    let server = Server::start("postgres");
    let store = storebench_stores::open(&server.url).unwrap();
    conforms(&*store);
}
