//! The conformance suite: what every store driver must pass.
//!
//! [`run`] prepares a fresh layout for each named [`Check`] and reports *pass*, *fail* with what was
//! seen, or *not supported*. The last is granted only when the store's
//! [`Capabilities`](storebench_engine::store::Capabilities) say so, and only after the operation was tried and refused
//! as [`ErrorKind::Refused`](storebench_engine::store::ErrorKind::Refused): a silent success of what a store cannot do
//! is a failure.
//!
//! What the suite takes a contract to mean where its text leaves room:
//! - key order is the order of the keys' UTF-8 bytes;
//! - a page's documents come in any order; a bulk read's too;
//! - a value of a page is equal to a field of the same JSON type only: `1`, `"1"` and `true` differ;
//! - [`Reply::bytes`](storebench_engine::store::Reply::bytes) of a read is the bytes of the bodies, with or without contents;
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
mod races;
mod ranges;
mod revisions;
mod sessions;
mod subject;
mod suite;
#[cfg(test)]
mod tests;
mod time;
mod values;

pub use subject::Subject;
pub use suite::{Check, Outcome, Progress, Report, Row, Stop, run, run_on_fake_clock, run_telling, suite};
