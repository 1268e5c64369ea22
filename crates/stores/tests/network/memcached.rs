//! The `memcached` driver against a server.

use crate::server::{Server, conforms};

/// A server that takes the suite's documents of 1 MiB, which with their header are over the usual limit.
fn server() -> Server {
    Server::start_with("memcached", &["--option=-I 4m", "--memory", "128"])
}

#[test]
fn memcached_conforms() {
    let server = server();
    conforms(&*storebench_stores::open(&server.url).unwrap());
}
