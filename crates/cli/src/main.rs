//! `storebench`: loads, measures and checks document stores, and says what each result is worth.

use std::process::ExitCode;

fn main() -> ExitCode {
    storebench_cli::main()
}
