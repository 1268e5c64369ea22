//! HTTP/1.1 for drivers: a [`Client`] for control calls, and an [`HttpSession`] whose operations a
//! driver's [`Dialect`] puts into requests.
//!
//! The protocol allows one request at a time on a connection, so a session keeps as many
//! connections as operations may be in flight, and takes the idle one that was used last. The head
//! of an answer is read by `httparse`; the rest (framing, keep-alive, limits) is in [`parser`].
//! Nothing is allocated for an operation once the buffers have grown: a request is written into the
//! buffer of its place, an answer is lent to the driver out of the buffer of its connection.

mod answer;
mod client;
mod input;
mod link;
mod parser;
mod request;
mod session;

pub(crate) use answer::{Answer, status_error};
pub(crate) use client::{Client, Response};
pub(crate) use request::{Method, RequestBuf, common_headers};
pub(crate) use session::{Dialect, HttpSession, Step, Target};

#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod session_tests;
