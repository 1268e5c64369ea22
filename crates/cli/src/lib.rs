//! The program `storebench` as a library, for its binary and for `cargo xtask`, which generates its documentation. It
//! is not meant for other programs.

mod allocator;
mod args;
mod bench_study;
mod built_in;
mod endpoints;
mod failure;
mod jsonl;
mod listing;
mod output;
mod outputs;
mod process_title;
mod progress;
mod servers;
mod signals;
mod stores;
mod stores_page;
mod studies;
mod transfers;
mod verbs;

use std::process::ExitCode;

use clap::{Command, CommandFactory as _, Parser as _};

/// The command line, as a `clap` command.
pub fn command() -> Command {
    args::Args::command()
}

/// The text of `docs/stores.md`.
///
/// # Errors
///
/// If a driver for the list cannot be created.
pub fn stores_page() -> Result<String, String> {
    stores_page::page().map_err(|failure| failure.message)
}

/// Parses the command line, runs its verb, and returns the exit code.
pub fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // A closed pipe while printing help is not a failure.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    process_title::hide_secrets();
    match verbs::perform(&args.verb) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.tell(),
    }
}
