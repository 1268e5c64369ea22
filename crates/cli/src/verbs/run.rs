//! `run STUDY`: runs a study on its stores.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use storebench_lab::run::{Agreement, ConfigurationRequest, PartRequest, RunRequest, SharedFolder, StartTimes};
use storebench_machine::Leftover;
use storebench_report::metrics::Metrics;

use super::measure::{measure, metrics, prepare_mode};
use crate::allocator::keep_freed_memory;
use crate::args::{DEFAULT_OUT, RunArgs};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::servers::Servers;
use crate::transfers::Copies;
use crate::{in_process, stores, studies};

pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let mut progress = Progress::new(args.result.show.quiet);
    let (request, _servers, metrics) = request(args, &mut progress)?;
    measure(&request, &args.result, metrics, &mut progress)
}

/// What to run, the servers, which must live as long as it runs, and where metrics go. No store has been touched.
pub(super) fn request(
    args: &RunArgs,
    progress: &mut Progress,
) -> Result<(RunRequest, Servers, Option<Metrics>), Failure> {
    let prices = studies::prices(args.prices.as_deref())?;
    let mut opened = studies::open(&args.study, &args.stores)?;
    if args.compare_answers {
        let replays = opened.study.phases.iter().filter(|phase| phase.trace.is_some());
        let set: Vec<String> = replays.map(|phase| format!("phases.{}.compare_answers=true", phase.name)).collect();
        if set.is_empty() {
            return Err(Failure::bad_input(
                "--compare-answers compares what stores answer to a trace, and the study replays none; add a phase with \
                 `trace` (see docs/traces.md)",
            ));
        }
        opened.set(set)?;
    }
    opened.set_durability(args.fit.durability)?;
    stores::choose(&mut opened.study, &args.stores)?;
    let stem = args.study.study.file_stem().unwrap_or("run".as_ref()).to_string_lossy();
    // The Python package hides the file of a study that has none.
    let name = stem.trim_start_matches('.').to_owned();
    let metrics = metrics(args.result.metrics.as_ref(), &name, progress)?;
    let mut servers = Servers::new(args.manage_servers);
    for left in servers.clear_up()? {
        let Leftover { what, processes } = left;
        progress.note(&format!(
            "an earlier run was killed and left {what} behind; {processes} of its processes were stopped"
        ));
    }
    let mut configurations = opened.configurations(&mut servers)?;
    let alike =
        |(at, one): (usize, &ConfigurationRequest)| configurations[..at].iter().any(|other| other.values == one.values);
    if args.compare_answers && !configurations.iter().enumerate().any(alike) {
        return Err(Failure::bad_input(
            "--compare-answers needs two stores with the same values of factors: add --store URL for each",
        ));
    }
    if opened.study.phases.iter().any(|phase| phase.copy.is_some()) {
        // As the verb `copy` does.
        keep_freed_memory();
    }
    if args.keep {
        let before = opened.study.phases.len();
        for study in configurations.iter_mut().map(|configuration| &mut configuration.study).chain([&mut opened.study])
        {
            study.phases.retain(|phase| !phase.loads());
        }
        if opened.study.phases.is_empty() {
            return Err(Failure::bad_input("--keep leaves nothing to do: every phase of this study loads documents"));
        }
        if opened.study.phases.len() < before {
            progress.note("--keep: measuring the documents already in the store; phases that load are skipped");
        }
    }
    let request = RunRequest {
        name,
        study: opened.study,
        configurations,
        prices,
        part: part(args)?,
        resume: args.resume.clone(),
        study_text: opened.text,
        study_file: Some(opened.named),
        overrides: opened.overrides,
        runs_dir: Some(args.result.out.clone()),
        unsupported: args.fit.unsupported(),
        prepare: prepare_mode(&args.result, args.keep),
        remove_after: args.result.remove_after,
        anyway: args.result.anyway,
        transfers: Some(Arc::new(Copies)),
        interval: Duration::from_secs(1),
        commit: option_env!("STOREBENCH_COMMIT").map(str::to_owned),
    };
    Ok((request, servers, metrics))
}

/// The part of the run to run, and how it agrees with the others.
fn part(args: &RunArgs) -> Result<Option<PartRequest>, Failure> {
    let Some(part) = args.parts.part else { return Ok(None) };
    let out = &args.result.out;
    if out == Path::new(DEFAULT_OUT) {
        return Err(Failure::bad_input(
            "--part needs --out with a new folder for the parts of this run, such as --out parts/monday",
        ));
    }
    let mut times = StartTimes::default();
    for given in &args.parts.start_at {
        match &given.phase {
            None => times.first_unix_ns = given.unix_ns,
            Some(phase) => {
                times.later_unix_ns.insert(phase.clone(), given.unix_ns);
            }
        }
    }
    if times.first_unix_ns > 0 {
        return Ok(Some(PartRequest { part, agreement: Agreement::Times(times) }));
    }
    if let Some(meeting) = in_process::provided(|provided| provided.meeting.take()) {
        return Ok(Some(PartRequest { part, agreement: Agreement::Meeting(meeting) }));
    }
    if let Some((phase, _)) = times.later_unix_ns.first() {
        return Err(Failure::bad_input(format!(
            "--start-at {phase}=…: the first phase needs a time, too: add --start-at TIME"
        )));
    }
    let meeting = out.join(format!("meeting-of-{}", part.of));
    let folder = SharedFolder::join(&meeting, part).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::bad_input(format!(
            "{}: part {part} has joined this run before; give all parts a new folder with --out",
            meeting.display()
        )),
        _ => Failure::bad_input(format!("{}: cannot be written: {error}", meeting.display())),
    })?;
    Ok(Some(PartRequest { part, agreement: Agreement::Meeting(Arc::new(folder)) }))
}
