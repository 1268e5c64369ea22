//! What is tested from outside, but for what needs a process of its own. One binary, since each more takes long to link.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these are tests; what they share is not marked as one"
)]

mod link;
mod link_cost;
mod ssh;
