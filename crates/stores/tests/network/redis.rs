//! The `redis` driver against a server.

use crate::server::{Server, conforms};

#[test]
fn redis_conforms() {
    let server = Server::start("redis");
    conforms(&*storebench_stores::open(&server.url).unwrap());
}

#[test]
fn redis_with_an_order_conforms() {
    let server = Server::start("redis");
    conforms(&*storebench_stores::open(&format!("{}?ordered=yes", server.url)).unwrap());
}

#[test]
fn redis_cluster_conforms() {
    let server = Server::start("redis-cluster");
    conforms(&*storebench_stores::open(&server.url).unwrap());
}
