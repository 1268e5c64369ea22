//! The `storebench` program, for figures of the program as its users run it.

use std::path::PathBuf;

use crate::Failure;

/// The program that `make bench` builds before this one. This one is in `target/bench/release`.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    let this = std::env::current_exe()?;
    let target = this.ancestors().nth(3).ok_or("this program is not where `make bench` puts it")?;
    let program = target.join("release/storebench");
    if program.exists() {
        return Ok(program);
    }
    Err(format!(
        "{} does not exist; build it with `make bench`, or `cargo build --release -p storebench`",
        program.display()
    )
    .into())
}
