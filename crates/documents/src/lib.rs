//! Generates documents, keys and operation schedules from a study and its seed.
//!
//! Documents are a pure function of (seed, collection, index, version). Any worker, machine or verifier can regenerate
//! any document without generating the ones before it. Memory does not grow with the number of generated documents.
//! [`Catalog::compile`] turns the collections of a study into flat lists of literal bytes and makers;
//! [`Documents::write_document`] runs one of these lists.
//!
//! - `random`: seeded streams and the scattering permutation
//! - `corpus`, `mixture`: text, plain and of calibrated compressibility
//! - `template`, `naming`, `fields`, `compile`, `bounds`: from the study to a plan
//! - `plan`, `generate`, `numbers`, `escape`, `picker`, `size`: generating a document
//! - `relation`, `shares`: maps children to parents and back by arithmetic, and says how many children each parent has
//! - `own`, `reader`: the user's own documents
//! - `parameters`: values of a query's parameters
//! - [`trace`]: recorded traffic
//! - `sampled`: keys of documents that are already in a store
//! - `calibrate`, `check`: measure and verify documents
//! - [`infer`]: reads a sample, and describes a collection that generates documents like it
//! - [`keys`]: which document an operation touches
//! - [`schedule`]: when an operation is scheduled
//! - [`by_hash`]: maps and sets of hashes
//! - [`json`]: finds members of a document without reading all of it
//!
//! It is a separate crate from the study file because every operation runs through it. Build profiles that do not
//! optimise most other crates still optimise this one.

mod bounds;
pub mod by_hash;
mod calibrate;
mod catalog;
mod check;
mod compile;
mod corpus;
mod error;
mod escape;
mod fields;
pub mod foreign;
mod generate;
pub mod infer;
pub mod json;
pub mod keys;
mod mixture;
mod naming;
mod numbers;
mod own;
mod parameters;
mod picker;
mod plan;
mod random;
mod reader;
mod relation;
pub mod same;
mod sampled;
pub mod schedule;
mod shares;
mod size;
mod template;
pub mod trace;
pub mod unpack;

pub use catalog::{Calibration, Catalog, CatalogOptions, Compression, Documents, FileFacts, Frozen, FrozenCollection};
pub use error::{DocumentError, Mismatch};
pub use parameters::Parameters;
pub use sampled::Sampled;
