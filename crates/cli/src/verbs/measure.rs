//! The part that `run` and `bench` share: measures, then prints.

use std::net::SocketAddr;
use std::time::Duration;

use storebench_engine::{Event, Observer, Unsupported};
use storebench_lab::run::{Compiled, ConfigurationRequest, LabError, PrepareMode, RunOutcome, RunRequest, run};
use storebench_report::Live;
use storebench_report::metrics::{Destination, Metrics};
use storebench_results::configurations::is_whole;
use storebench_results::exit::BAD_INPUT;
use storebench_study::workload::Study;

use super::publish::publish;
use crate::args::ResultArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::signals::stop_on_interrupt;
use crate::stores::Named;

/// A request to run a study that has no file, on stores that were opened.
pub(super) fn request_of(
    name: &str,
    study: Study,
    study_text: String,
    documents: &Compiled,
    stores: Named,
) -> RunRequest {
    RunRequest {
        name: name.to_owned(),
        configurations: ConfigurationRequest::of_stores(&study, documents, 1.0, stores),
        study,
        prices: None,
        part: None,
        resume: None,
        study_text,
        study_file: None,
        overrides: Vec::new(),
        runs_dir: None,
        unsupported: Unsupported::Refuse,
        prepare: PrepareMode::Fresh,
        remove_after: false,
        anyway: false,
        // Such a study copies nothing.
        transfers: None,
        interval: Duration::from_secs(1),
        commit: None,
    }
}

/// Runs a request, prints its result, and returns the exit code.
pub(super) fn measure(
    request: &RunRequest,
    args: &ResultArgs,
    metrics: Option<Metrics>,
    progress: &mut Progress,
) -> Result<u8, Failure> {
    let outcome = measured(request, args, metrics, progress)?;
    let folder = outcome.folder.as_deref().filter(|_| outcome.folder_error.is_none());
    let code = outcome.exit_code();
    let result = &outcome.result;
    let missing = result.trials.len() < result.plan.trials.len() || result.trials.iter().any(|t| !is_whole(t));
    let published = publish(result, folder, code, &args.show, progress);
    if let (true, true, Some(folder), true) =
        (result.run.interrupted, missing, &outcome.folder, request.study_file.is_some() && request.part.is_none())
    {
        progress.note(&format!("to continue, repeat the command with --resume {}", folder.display()));
    }
    match (&outcome.folder_error, published) {
        (Some(error), Ok(code)) => Err(Failure { code, message: error.to_string() }),
        (_, published) => published,
    }
}

/// Runs a request, and prints nothing.
pub(super) fn measured(
    request: &RunRequest,
    args: &ResultArgs,
    mut metrics: Option<Metrics>,
    progress: &mut Progress,
) -> Result<RunOutcome, Failure> {
    let stop = stop_on_interrupt()?;
    let mut live = args.live.map(|at| serve(at, progress)).transpose()?;
    let outcome = run(request, stop, &mut Observers { progress, live: live.as_mut(), metrics: metrics.as_mut() });
    if let Some(live) = live {
        live.end();
    }
    if let Some(failed) = metrics.and_then(|mut metrics| metrics.end()) {
        progress.tell(&failed);
    }
    outcome.map_err(|error| Failure {
        code: match error {
            // Nothing was started: the given folder is bad input.
            LabError::Folder(_) => BAD_INPUT,
            ref other => other.exit_code(),
        },
        message: error.to_string(),
    })
}

/// Starts to serve or to push metrics, if that is asked for. `what` is the name of what is run.
pub(super) fn metrics(to: Option<&Destination>, what: &str, progress: &Progress) -> Result<Option<Metrics>, Failure> {
    let Some(to) = to else { return Ok(None) };
    let metrics = Metrics::start(to, what).map_err(|e| match to {
        Destination::Serve(at) => {
            Failure::bad_input(format!("--metrics {at}: cannot listen there: {e}; use a free port of this machine"))
        }
        Destination::Push(_) => Failure::bad_input(format!("--metrics: cannot begin: {e}")),
    })?;
    if let Destination::Serve(at) = to {
        tell_place(*at, &format!("metrics at {}", metrics.destination()), progress);
        if !at.ip().is_loopback() {
            progress.tell("--metrics: anyone who can reach this address can read the metrics");
        }
    }
    Ok(Some(metrics))
}

/// Says where something is served. With `--quiet`, only if the user cannot know it: port 0 stands for any free one.
fn tell_place(at: SocketAddr, text: &str, progress: &Progress) {
    if at.port() == 0 { progress.tell(text) } else { progress.note(text) }
}

/// Starts to serve the report of the run.
fn serve(at: SocketAddr, progress: &Progress) -> Result<Live, Failure> {
    let live = Live::start(at).map_err(|e| {
        Failure::bad_input(format!("--live {at}: cannot listen there: {e}; use a free port of this machine"))
    })?;
    tell_place(at, &format!("live report at {}", live.url()), progress);
    if !at.ip().is_loopback() {
        progress.tell("--live: anyone who can reach this address can read the report");
    }
    Ok(live)
}

/// Forwards events to the terminal and, if there are any, to the live page and the metrics.
struct Observers<'a> {
    progress: &'a mut Progress,
    live: Option<&'a mut Live>,
    metrics: Option<&'a mut Metrics>,
}

impl Observer for Observers<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.progress.event(event);
        if let Some(live) = &mut self.live {
            live.event(event);
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.event(event);
            if let Some(complaint) = metrics.complaint() {
                self.progress.tell(&complaint);
            }
        }
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
