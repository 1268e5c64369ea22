//! What a study file says, and what follows from it alone.
//!
//! The [study file](workload), the [documents] and [keys] it asks for, the [schedule] of its arrivals, and the words
//! that everything else shares: [units], [kinds of operations](op_kind), [durability].
//!
//! This crate knows no store.

pub mod documents;
pub mod durability;
pub mod json;
pub mod keys;
pub mod op_kind;
pub mod schedule;
pub mod units;
pub mod workload;
mod written;
