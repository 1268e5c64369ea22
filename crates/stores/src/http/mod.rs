//! HTTP/1.1 for drivers: a [`Client`] for control calls, and an [`HttpSession`] whose operations a
//! driver's [`Dialect`] puts into requests.
//!
//! The protocol allows one request at a time on a connection, so a session keeps as many
//! connections as operations may be in flight, and takes the idle one that was used last. `hyper` speaks the protocol
//! ([`wire`]); which connection is taken, how one is made again, and what a lost answer means is decided here. No task
//! is spawned: the session polls its connections itself.
//!
//! A parser and link of our own, of 600 lines, took 3.3 to 4.9 µs less of the client's processor for a GET of 1 KiB
//! on 4 to 64 connections (medians of 7 rounds, both with `opt-level = 3`, on two busy virtual cores). Of what a GET
//! takes on RavenDB 4.1, client and server together, that was 5 % to 7 %. On CouchDB it was not measured. `make bench` measures
//! ours and `wrk` (`http get`).

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
