//! What a result is worth: named checks over the data of a run.

mod model;

pub use model::{Level, Verdict};
