//! Which document an operation touches: seeded, without tables, at the same cost for a thousand
//! keys and for a billion.
//!
//! * [`Rng`] is the generator every worker owns; [`Rng::stream`] makes as many independent ones of
//!   one seed as there are workers. [`mix64`](storebench_study::mix64) is the hash seeds and keys are mixed with.
//! * [`Permutation`] scatters `0..n` over itself, so that popular keys do not lie side by side.
//! * [`Zipf`] draws ranks by Zipf's law.
//! * [`KeyStream`] puts these together: the indexes one worker draws by a
//!   [`Popularity`](storebench_study::workload::Popularity) from the share of the key space it
//!   [owns](Ownership).
//! * [`Seen`] keeps the keys of one batch apart.
//! * [`Distinct`] counts how many different keys were really touched.
//!
//! Memory is constant: nothing here grows with the number of keys.

mod distinct;
#[doc(hidden)]
pub mod fit;
mod permutation;
mod rng;
mod seen;
mod stream;
mod zipf;

pub use distinct::Distinct;
pub use permutation::Permutation;
pub use rng::Rng;
pub use seen::Seen;
pub use stream::{KeyError, KeyStream, MAX_KEYS, Ownership};
pub use zipf::Zipf;
