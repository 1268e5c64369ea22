//! `copy` as a user meets it: between files and real servers, killed, interrupted, resumed, and when things break.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../stores/tests/network/server.rs"]
mod server;

mod damaged;
mod disk;
mod ends;
mod guards;
mod input;
mod killed_server;
mod limits;
mod nasty;
mod orders;
mod owners;
mod places;
mod real_data;
mod records;
mod remote;
mod rows;
mod sqlite;
mod yours;
