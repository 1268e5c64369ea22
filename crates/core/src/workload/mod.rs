//! The study file: what is loaded, what is done to it, how fast, and how it is judged.

mod collections;
mod popularity;

pub use collections::{BadLines, Bin, Body, Collection, FanOut, Field, IdKind, Per, Size};
pub use popularity::Popularity;
