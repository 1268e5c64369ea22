//! What a study and its seed make: documents, keys, and when operations are scheduled.
//!
//! Documents are a pure function of (seed, collection, index, version). Any worker, machine or verifier can make any document
//! again without making those before it, and nothing grows with how many there are. [`Catalog::compile`] turns the
//! collections of a study into flat lists of literal bytes and makers; [`Documents::write_document`] runs one of them.
//!
//! - `random`: seeded streams and the scattering permutation
//! - `corpus`, `mixture`: text, plain and of calibrated compressibility
//! - `template`, `naming`, `fields`, `compile`, `bounds`: from the study to a plan
//! - `plan`, `numbers`, `escape`, `picker`, `size`: making a document
//! - `relation`, `shares`: children to parents and back by arithmetic, and how many belong to whom
//! - `own`, `reader`: the user's own documents
//! - `sampled`: keys of documents that are in a store already
//! - `calibrate`, `check`: measuring and comparing what was made
//! - [`keys`]: which document an operation touches
//! - [`schedule`]: when it is scheduled
//! - [`json`]: members of a document, found without reading all of it
//!
//! It is a crate of its own, apart from the study file, because all of it is on the way of every operation and is optimised
//! also where the rest is not.

mod bounds;
mod calibrate;
mod catalog;
mod check;
mod compile;
mod corpus;
mod error;
mod escape;
mod fields;
pub mod json;
pub mod keys;
mod mixture;
mod naming;
mod numbers;
mod own;
mod picker;
mod plan;
mod random;
mod reader;
mod relation;
mod sampled;
pub mod schedule;
mod shares;
mod size;
mod template;

pub use catalog::{Calibration, Catalog, CatalogOptions, Compression, Documents, FileFacts, Frozen, FrozenCollection};
pub use error::{DocumentError, Mismatch};
pub use sampled::Sampled;
