//! The conformance suite: what every store driver must pass.
//!
//! [`run`] prepares a fresh layout for each named [`Check`] and reports *pass*, *fail* with what was seen, or *not
//! supported*. It accepts *not supported* only if the store's [`Capabilities`](storebench_engine::store::Capabilities)
//! say so, and only after the operation was tried and refused as
//! [`ErrorKind::Refused`](storebench_engine::store::ErrorKind::Refused). A silent success of an operation that the
//! store does not support is a failure.
//!
//! How the suite reads the contract where its text leaves room:
//! - key order is the order of the keys' UTF-8 bytes;
//! - the documents of a page or a bulk read come in any order;
//! - the value of a page equals only a field of the same JSON type: `1`, `"1"` and `true` differ;
//! - [`Reply::bytes`](storebench_engine::store::Reply::bytes) of a read counts the bytes of the bodies, with or without
//!   contents;
//! - top-level members beginning with `_`, `@` or `$` are the store's own and are not compared.

#[cfg(test)]
mod broken;
mod bulk;
mod bytes;
mod client;
mod counters;
mod documents;
mod json;
mod lifecycle;
mod merge;
mod ownership;
mod pages;
mod queries;
mod races;
mod ranges;
mod revisions;
mod sessions;
mod subject;
mod suite;
#[cfg(test)]
mod tests;
mod time;
mod transactions;
mod values;

pub use subject::Subject;
pub use suite::{Check, Progress, Report, Row, Stop, run, run_on_fake_clock, run_telling, suite};
