//! What is tested from outside, but for what needs a process of its own. One binary, since each more takes long to link.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod documents;
mod study_file;
