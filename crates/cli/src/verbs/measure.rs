//! The part that `run` and `bench` share: measures, then prints.

use std::net::SocketAddr;
use std::sync::Arc;

use storebench_engine::{Event, Observer, Stop};
use storebench_lab::run::{LabError, PrepareMode, RunRequest, run};
use storebench_report::Live;
use storebench_results::TrialResult;
use storebench_results::configurations::is_whole;
use storebench_results::summary::{brief, summary};
use storebench_results::validity::{CheckResult, Severity};

use super::report::write_page;
use crate::args::ResultArgs;
use crate::failure::{BAD_INPUT, Failure, INVALID};
use crate::output::{layout, print, print_json};
use crate::progress::Progress;
use crate::signals::{INTERRUPTED, ask_on_interrupt};

/// Runs a request, prints its result, and returns the exit code.
pub(super) fn measure(request: &RunRequest, args: &ResultArgs, progress: &mut Progress) -> Result<u8, Failure> {
    let stop = Arc::new(Stop::new());
    ask_on_interrupt(&stop)?;
    let mut live = args.live.map(|at| serve(at, progress)).transpose()?;
    let outcome = run(request, stop, &mut Both { progress, live: live.as_mut() });
    if let Some(live) = live {
        live.end();
    }
    let outcome = outcome.map_err(|error| Failure {
        code: match error {
            // Nothing was started: the given folder is bad input.
            LabError::Folder(_) => BAD_INPUT,
            ref other => other.exit_code(),
        },
        message: error.to_string(),
    })?;
    if args.json {
        print_json(&outcome.result)?;
    } else {
        let text = if args.full { summary } else { brief };
        print(&text(&outcome.result, layout()))?;
    }
    if let Some(folder) = outcome.folder.as_deref().filter(|_| outcome.folder_error.is_none()) {
        match write_page(folder) {
            Ok(file) if args.json => progress.note(&format!("the report is {}", file.display())),
            Ok(file) => {
                let more = format!("details  storebench report {} --full\n", folder.display());
                print(&format!("\nreport   {}\n{}", file.display(), if args.full { "" } else { &more }))?;
            }
            // The results are saved anyway.
            Err(why) => {
                progress.tell(&format!("no report: {why}; to create it, run `storebench report {}`", folder.display()));
            }
        }
    }
    let code = outcome.exit_code();
    let result = &outcome.result;
    let missing = result.trials.len() < result.plan.trials.len() || result.trials.iter().any(|t| !is_whole(t));
    if let (true, true, Some(folder), true) =
        (result.run.interrupted, missing, &outcome.folder, request.study_file.is_some())
    {
        progress.note(&format!("to continue, repeat the command with --resume {}", folder.display()));
    }
    match (&outcome.folder_error, trouble(&outcome.result.trials, &outcome.result.checks, code)) {
        (Some(error), None) => Err(Failure { code, message: error.to_string() }),
        (_, Some(message)) => Err(Failure { code, message }),
        (None, None) => Ok(code),
    }
}

/// Starts to serve the report of the run.
fn serve(at: SocketAddr, progress: &Progress) -> Result<Live, Failure> {
    let live = Live::start(at).map_err(|e| {
        Failure::bad_input(format!("--live {at}: cannot listen there: {e}; use a free port of this machine"))
    })?;
    progress.note(&format!("live report at {}", live.url()));
    if !at.ip().is_loopback() {
        progress.note("--live: anyone who can reach this address can read the report");
    }
    Ok(live)
}

/// Forwards events to the terminal and, if it is served, to the page.
struct Both<'a> {
    progress: &'a mut Progress,
    live: Option<&'a mut Live>,
}

impl Observer for Both<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.progress.event(event);
        if let Some(live) = &mut self.live {
            live.event(event);
        }
    }
}

/// The message for the exit code of a failed run.
fn trouble(trials: &[TrialResult], checks: &[CheckResult], code: u8) -> Option<String> {
    let failed = trials.iter().find_map(|trial| {
        let failure = trial.failure.as_ref()?;
        Some(format!("store `{}` ended early, in {}: {}", trial.store, failure.during, failure.message))
    });
    let invalid = || {
        let mut checks: Vec<&str> =
            checks.iter().filter(|v| v.severity == Severity::Invalid).map(|v| v.check.as_str()).collect();
        checks.dedup();
        checks.join(", ")
    };
    match code {
        INVALID if failed.is_none() => Some(format!("the measurement is invalid: {}", invalid())),
        0 | INTERRUPTED => None,
        _ => failed.or_else(|| {
            let checks = invalid();
            (!checks.is_empty()).then(|| format!("data are wrong or lost: {checks}"))
        }),
    }
}

/// How to prepare the stores.
pub(super) fn prepare_mode(args: &ResultArgs, keep: bool) -> PrepareMode {
    match (args.into_existing, keep) {
        _ if args.discard_existing => PrepareMode::Discard,
        (true, true) => PrepareMode::KeepIntoExisting,
        (true, false) => PrepareMode::IntoExisting,
        (false, true) => PrepareMode::Keep,
        (false, false) => PrepareMode::Fresh,
    }
}

#[cfg(test)]
mod tests {
    use storebench_results::Failure as Ended;

    use super::*;

    #[test]
    fn a_run_that_was_cut_short_says_why_and_blames_no_verdict() {
        let failure = Ended {
            kind: storebench_results::FailureKind::CutShort,
            during: "steady".into(),
            message: "no key was left".into(),
        };
        let trial = TrialResult { store: "redis".into(), failure: Some(failure), ..TrialResult::default() };
        assert_eq!(trouble(&[trial], &[], INVALID).unwrap(), "store `redis` ended early, in steady: no key was left");
    }
}
