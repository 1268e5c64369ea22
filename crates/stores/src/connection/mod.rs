//! The connections of sessions, for protocols that answer in the order they are asked.
//!
//! [`Pipe`] does no I/O: one buffer of requests, one of answers, and a queue of what is awaited.
//! [`Link`] drives a pipe over a connection that comes back by itself when it breaks, from the polls
//! of its session, without a task of its own. An operation costs no allocation once the buffers have
//! grown; what was submitted between two flushes leaves with one `write`.

mod answers;
mod bell;
mod dialog;
mod link;
mod pipe;
#[cfg(any(feature = "memcached", feature = "redis"))]
mod pipelined;
mod work;

pub(crate) use answers::Answers;
pub(crate) use dialog::Dialog;
#[cfg(test)]
pub(crate) use link::Connecting;
pub(crate) use link::{Connect, Link, Turn, again};
pub(crate) use pipe::Pipe;
#[cfg(any(feature = "memcached", feature = "redis"))]
pub(crate) use pipelined::{Awaited, Dialect, MOST_AGAIN, Pipelined, Role};
pub(crate) use work::{NONE, Work, Works};
