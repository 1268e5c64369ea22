//! The tests from outside. They share one binary, because each binary takes long to link.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod engine;
mod store_stats;
mod studies;
