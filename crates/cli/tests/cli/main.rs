//! End-to-end tests of the program. They are one test binary, because each one takes long to link.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../stores/tests/network/server.rs"]
mod server;
#[path = "../../../machine/tests/all/sshd.rs"]
mod sshd;

mod all_stores;
mod bundles;
mod check;
mod choosing;
mod compare;
mod conform;
mod consistency;
mod copies;
#[path = "../copy/mod.rs"]
mod copy;
mod dies;
mod disks;
mod documented;
mod existing;
mod faults;
mod figures;
mod founding;
mod generate;
mod healthy;
mod help;
mod history;
mod indexes;
mod infer;
mod interrupt;
mod measure;
mod metrics;
mod parts;
mod queries;
mod refused;
mod report;
mod secrets;
mod servers;
mod soak;
mod starved_client;
mod studies;
mod traces;
mod transactions;
mod verify;
