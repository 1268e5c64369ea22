//! Tests of embedded stores. They start no other processes.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod bulk_insert;
mod common;
mod conformance;
mod foreign_data;
mod report;
mod together;
