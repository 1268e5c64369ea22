//! HTTP/1.1 for drivers: a [`Client`] for control calls, and an [`HttpSession`] whose operations a driver's [`Dialect`]
//! encodes as requests.
//!
//! The protocol allows one request at a time on a connection. So a session keeps as many connections as operations may
//! be in flight, and uses the most recently used idle one. [`Incoming`](incoming::Incoming) reads answers and
//! [`Wire`](wire::Wire) exchanges them; `httparse` parses heads. The session selects connections, reconnects them, and
//! decides what a lost answer means. It spawns no task: it polls its connections itself.
//!
//! `hyper` did this before. A GET of 1 KiB from a server that answers at once took 5.8, 3.3 and 3.9 µs of processor time
//! outside the kernel on 4, 16 and 64 connections, now 2.2, 1.0 and 1.0 µs (`make bench-peers`, medians of 1 and 5
//! rounds), and 12 to 29 allocations, now none: each request passed through a channel, a task and a map of headers.

mod answer;
#[cfg(feature = "dynamodb")]
pub(crate) mod aws;
mod bodies;
mod client;
mod incoming;
mod link;
mod memory;
mod names;
mod parts;
mod request;
mod session;
mod wire;

pub(crate) use ::http::Method;
pub(crate) use answer::{Answer, status_error, status_error_told};
pub(crate) use bodies::{decode_body, encode_body};
pub(crate) use client::{Client, Download, Response};
pub(crate) use memory::{CONTENDED, Memory, TRIES, senseless};
pub(crate) use names::{check_place, collection_of_name, lower_case_name, name_prefix};
pub(crate) use parts::Bulk;
pub(crate) use request::RequestBuf;
pub(crate) use session::{Dialect, HttpSession, Next, Target};

#[cfg(test)]
pub(crate) mod fuzz_tests;
#[cfg(test)]
mod session_tests;
