//! Which document an operation touches: seeded, without tables, at the same cost for a thousand
//! keys and for a billion.
//!
//! * [`Rng`] is the generator of each worker; [`Rng::stream`] makes one for each worker from one seed.
//!   [`mix64`](storebench_study::mix64) is the hash that mixes seeds and keys.
//! * [`Permutation`] scatters `0..n` over itself, so that popular keys are not adjacent.
//! * [`Zipf`] draws ranks by Zipf's law.
//! * [`KeyStream`] combines these: it draws the indexes of one worker by a
//!   [`Popularity`](storebench_study::workload::Popularity) from the share of the key space that the worker
//!   [owns](Ownership).
//! * [`Seen`] detects duplicate keys in one batch.
//! * [`Distinct`] counts how many different keys were actually touched.
//!
//! Memory is constant: nothing here grows with the number of keys.

mod distinct;
#[cfg(test)]
pub(crate) mod fit;
mod permutation;
mod seen;
mod stream;
mod zipf;

pub use crate::random::Rng;
pub use distinct::Distinct;
pub use permutation::Permutation;
pub use seen::Seen;
pub use stream::{KeyError, KeyStream, MAX_KEYS, Ownership};
pub use zipf::Zipf;
