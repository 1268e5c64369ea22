//! Tests of the public interface, except those that need a separate process. They are one binary, because linking each
//! is slow.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these are tests; their helpers are not marked as tests"
)]

mod link;
mod link_cost;
mod ssh;
mod sshd;
