//! The connections of sessions, for protocols that answer requests in order, or by their numbers.
//!
//! [`Pipe`] does no I/O. It has a buffer of requests, a buffer of answers, and a queue of awaited answers.
//! [`Link`] drives a pipe over a connection and reconnects when it breaks. The polls of its session drive it, so it
//! needs no task. An operation allocates nothing once the buffers have grown. Requests submitted between two flushes
//! leave in one `write`.

mod answers;
mod bulk;
mod collection;
mod dialog;
mod expiry;
mod link;
mod pipe;
mod pipelined;
mod steps;
mod wake_flag;
mod work;

pub(crate) use answers::{Answers, READS_PER_TURN};
pub(crate) use collection::{Collection, Ready};
pub(crate) use dialog::Dialog;
pub(crate) use expiry::expiry_s;
#[cfg(test)]
pub(crate) use link::Connecting;
pub(crate) use link::{Connect, Link, Read, Turn, again, exchange, write};
pub(crate) use pipe::Pipe;
pub(crate) use pipelined::{Awaited, Dialect, MOST_AGAIN, Pipelined, Role};
pub(crate) use work::{Change, NONE, Work, Works};
