//! `storebench` itself, where a figure is of the program as its users run it.

use std::path::PathBuf;

use crate::Failure;

/// The program that lies beside this one.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?.with_file_name("storebench");
    if program.exists() {
        return Ok(program);
    }
    Err(format!(
        "{} is not there: build it with this program, by `make bench` or `cargo build --release -p storebench -p \
         storebench-bench`",
        program.display()
    )
    .into())
}
