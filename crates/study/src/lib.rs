//! The study file.
//!
//! The [study file](workload), and the types that all other crates share: [units], [kinds of operations](op_kind),
//! [durability].
//!
//! This crate does not depend on any store.

pub mod durability;
mod hash;
pub mod op_kind;
mod part;
mod toml_file;
pub mod units;
pub mod workload;
mod written;

pub use hash::{mix64, scramble};
pub use part::Part;
pub use toml_file::toml_document;
