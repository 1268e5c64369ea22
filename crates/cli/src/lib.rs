//! The program `storebench`, as a library for the two that need it: its binary, and `cargo xtask`, which writes
//! its pages. It is not meant for other programs.

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

/// What may be typed.
pub fn command() -> Command {
    args::Args::command()
}

/// The text of `docs/stores.md`.
///
/// # Errors
///
/// If a driver cannot be asked what it does.
pub fn stores_page() -> Result<String, String> {
    stores_page::page().map_err(|failure| failure.message)
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // A reader of the help that has gone away is no failure.
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
