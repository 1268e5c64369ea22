//! What `run` and `bench` share: measure, then print.

use std::io::IsTerminal as _;
use std::sync::Arc;

use storebench_core::engine::Stop;
use storebench_lab::run::{LabError, PrepareMode, RunRequest, run};
use storebench_lab::summary::summary;

use crate::args::ResultArgs;
use crate::failure::{BAD_INPUT, Failure};
use crate::output::{print, print_json};
use crate::progress::Progress;
use crate::signals::ask_on_interrupt;

/// Runs a request and prints its result; gives the exit code.
pub(super) fn measure(request: &RunRequest, args: &ResultArgs, progress: &mut Progress) -> Result<u8, Failure> {
    let stop = Arc::new(Stop::new());
    ask_on_interrupt(&stop)?;
    let outcome = run(request, stop, progress).map_err(|error| Failure {
        code: match error {
            // Nothing was started: the folder that was named is bad input.
            LabError::Folder(_) => BAD_INPUT,
            ref other => other.exit_code(),
        },
        message: error.to_string(),
    })?;
    if args.json {
        print_json(&outcome.result)?;
    } else {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        print(&summary(&outcome.result, colour))?;
    }
    match &outcome.folder_error {
        Some(error) => Err(Failure { code: outcome.exit_code(), message: error.to_string() }),
        None => Ok(outcome.exit_code()),
    }
}

/// How stores are made ready.
pub(super) fn prepare_mode(into_existing: bool, keep: bool) -> PrepareMode {
    match (into_existing, keep) {
        (true, _) => PrepareMode::IntoExisting,
        (false, true) => PrepareMode::Keep,
        (false, false) => PrepareMode::Fresh,
    }
}
