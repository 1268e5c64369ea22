//! Pipelined sessions over one connection, for protocols that answer in the order they are asked.
//!
//! [`Pipe`] does no I/O: one buffer of requests, one of answers, and a queue of what is awaited.
//! [`Link`] drives a pipe over a connection that comes back by itself when it breaks, from the polls
//! of its session, without a task of its own. An operation costs no allocation once the buffers have
//! grown; what was submitted between two flushes leaves with one `write`.

mod bell;
mod link;
mod pipe;
mod work;

pub(crate) use link::{Connect, Connecting, Link, Turn};
pub(crate) use pipe::Pipe;
pub(crate) use work::{NONE, Work, Works};
