//! `copy` when things break: disks that are full, servers that die, records that a store does not take, files that
//! are damaged.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod disk;
mod killed_server;
mod limits;
#[path = "../../../stores/tests/network/server.rs"]
mod server;
