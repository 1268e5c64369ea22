//! Tests of the files of embedded stores: reopened, damaged, on full disks.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod common;
mod drivers;
mod faults;
