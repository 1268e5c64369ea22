//! `storebench`: loads, measures and checks document stores, and says how far to trust each result.

use std::process::ExitCode;

fn main() -> ExitCode {
    storebench_cli::main()
}
