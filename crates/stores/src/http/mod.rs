//! HTTP/1.1 for drivers: a [`Client`] for control calls, and an [`HttpSession`] whose operations a driver's [`Dialect`]
//! encodes as requests.
//!
//! The protocol allows one request at a time on a connection. So a session keeps as many connections as operations may
//! be in flight, and uses the most recently used idle one. `hyper` implements the protocol ([`wire`]). This module
//! selects connections, reconnects them, and decides what a lost answer means. It spawns no task: the session polls its
//! connections itself.
//!
//! A custom parser and link of 600 lines used 3.3 to 4.9 µs less client CPU for a GET of 1 KiB on 4 to 64 connections
//! (medians of 7 rounds, both with `opt-level = 3`, on two busy virtual cores). That was 5 % to 7 % of the CPU time of
//! a GET on RavenDB 4.1, client and server together. It was not measured on CouchDB. `make bench` measures this module
//! and `wrk` (`http get`).

mod answer;
mod client;
mod link;
mod parts;
mod request;
mod session;
mod wire;

pub(crate) use answer::{Answer, status_error};
pub(crate) use client::{Client, Download, Response};
pub(crate) use hyper::Method;
pub(crate) use parts::Bulk;
pub(crate) use request::RequestBuf;
pub(crate) use session::{Dialect, HttpSession, Step, Target};

#[cfg(test)]
pub(crate) mod fuzz_tests;
#[cfg(test)]
mod session_tests;
