//! HTTP/1.1 for drivers: a [`Client`] for control calls, and an [`HttpSession`] whose operations a
//! driver's [`Dialect`] puts into requests.
//!
//! The protocol allows one request at a time on a connection, so a session keeps as many
//! connections as operations may be in flight, and takes the idle one that was used last. The head
//! of an answer is read by `httparse`; the rest (framing, keep-alive, limits) is in [`parser`].
//! Nothing is allocated for an operation once the buffers have grown: a request is written into the
//! buffer of its place, an answer is lent to the driver out of the buffer of its connection.
//!
//! Why not `hyper`: GETs of a 1 KiB document from one local server, µs of the client's processor for
//! each, medians of three turns within one run on a busy machine of two virtual cores (the crates
//! themselves built with `opt-level = 1`; ours at the rate of `wrk` or somewhat less, `hyper` at half to a
//! third of it):
//!
//! | connections | this client | `wrk` | `hyper` 1.12, `client::conn::http1` |
//! |---|---|---|---|
//! | 4 | 5.5 | 6.2 | 10.2 |
//! | 16 | 6.9 | 6.6 | 11.3 |
//! | 64 | 9.0 | 7.9 | 19.6 |
//!
//! The aim is 1.5 times `wrk`; `hyper` needs 1.7 to 2.5 times, for a request, a response and a body
//! made of shared parts for each operation, and two tasks that wake each other. `make bench` measures
//! ours and `wrk` again (`http get`).

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
pub(crate) mod fuzz_tests;
#[cfg(test)]
mod session_tests;
