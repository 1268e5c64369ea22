//! The native module of the Python package `storebench`: verbs called in this process, and tables as Arrow streams.
//!
//! The package in `python/` makes the public interface of it.

mod arrow;
mod documents;
mod provided;
mod reader;
mod runs;
mod store;
mod verbs;

#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::arrow::{Stream, Table};
    #[pymodule_export]
    use super::documents::{documents, toml_of};
    #[pymodule_export]
    use super::reader::{Reader, check_server};
    #[pymodule_export]
    use super::runs::{Histogram, generators, histogram, read_run, said, table, trials};
    #[pymodule_export]
    use super::store::provide;
    #[pymodule_export]
    use super::verbs::{call, main, options};
}
