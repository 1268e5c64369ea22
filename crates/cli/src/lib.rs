//! The program `storebench` as a library, for its binary and for `cargo xtask`, which generates its documentation. It
//! is not meant for other programs.

mod allocator;
mod args;
mod bench_flags;
mod bench_study;
mod built_in;
mod bundles;
mod endpoints;
mod failure;
mod in_process;
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
mod studies_table;
mod transfers;
mod verbs;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Command, CommandFactory as _, Parser as _};

use storebench_lab::space::raise_open_files;
use storebench_results::redact;

pub use in_process::{CallEvent, Interrupter, Outcome, Provided, call};
pub use verbs::copy::{Reading, check_server};

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

/// The table of studies by stores of `docs/studies.md`, in Markdown. `examples` is the folder of example studies.
///
/// # Errors
///
/// If a study cannot be read, or a driver cannot be created.
pub fn studies_table(examples: &Path) -> Result<String, String> {
    studies_table::table(examples).map_err(|failure| failure.message)
}

/// How this program is started, if not by the file that runs.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Says by which file other processes start this program, if another program, such as Python, contains it. Only the
/// first call counts.
pub fn is_started_by(program: PathBuf) {
    let _ = PROGRAM.set(program);
}

/// The file that starts this program.
pub(crate) fn program() -> std::io::Result<PathBuf> {
    PROGRAM.get().cloned().map_or_else(std::env::current_exe, Ok)
}

/// The number of processors that this process may use; 1 if it is not known.
pub(crate) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1))
}

/// Parses the command line, runs its verb, and returns the exit code.
pub fn main() -> ExitCode {
    main_of(std::env::args_os())
}

/// The same with given arguments, of which the first is the program's name.
pub fn main_of(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match args::Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => {
            let text = error.to_string();
            let shown = redact(&text);
            // What is wrong may be a URL with a password. Help has none, and goes to stdout.
            let as_it_is = shown == text || !error.use_stderr();
            // A closed pipe while printing help is not a failure.
            let _ = if as_it_is { error.print() } else { write!(std::io::stderr(), "{shown}") };
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    process_title::hide_secrets();
    raise_open_files();
    match verbs::perform(&args.verb) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.tell(),
    }
}
