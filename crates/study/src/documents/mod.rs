//! Documents as a pure function of (seed, collection, index, version).
//!
//! Any worker, machine or verifier can make any document again without making those before it, and
//! nothing grows with how many there are. [`Catalog::compile`] turns the collections of a study
//! into flat lists of literal bytes and makers; [`Documents::write_document`] runs one of them.
//!
//! - `random`: seeded streams and the scattering permutation
//! - `corpus`, `mixture`: text, plain and of calibrated compressibility
//! - `template`, `naming`, `fields`, `compile`, `bounds`: from the study to a plan
//! - `plan`, `numbers`, `escape`, `picker`, `size`: making a document
//! - `relation`, `shares`: children to parents and back by arithmetic, and how many belong to whom
//! - `own`, `reader`: the user's own documents
//! - `sampled`: keys of documents that are in a store already
//! - `calibrate`, `check`: measuring and comparing what was made

mod bounds;
mod calibrate;
mod catalog;
mod check;
mod compile;
mod corpus;
mod error;
mod escape;
mod fields;
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
mod shares;
mod size;
mod template;

pub use catalog::{Calibration, Catalog, CatalogOptions, Compression, Documents, FileFacts, Frozen, FrozenCollection};
pub use error::{DocumentError, Mismatch};
pub use sampled::Sampled;
