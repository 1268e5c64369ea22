//! What a study file says.
//!
//! The [study file](workload), and the words that everything else shares: [units], [kinds of operations](op_kind),
//! [durability].
//!
//! This crate knows no store.

pub mod durability;
mod mix;
pub mod op_kind;
pub mod units;
pub mod workload;
mod written;

pub use mix::mix64;
