//! `run STUDY`: runs a study on its stores.

use std::sync::Arc;
use std::time::Duration;

use storebench_lab::run::RunRequest;
use storebench_machine::Leftover;

use super::measure::{measure, prepare_mode};
use crate::allocator::keep_freed_memory;
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::servers::Servers;
use crate::transfers::Copies;
use crate::{stores, studies};

pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let prices = studies::prices(args.prices.as_deref())?;
    let mut opened = studies::open(&args.study)?;
    stores::choose(&mut opened.study, &args.stores)?;
    let mut progress = Progress::new(args.result.quiet);
    let mut servers = Servers::new(args.manage_servers);
    for left in servers.clear_up()? {
        let Leftover { what, processes } = left;
        progress.note(&format!(
            "an earlier run was killed and left {what} behind; {processes} of its processes were stopped"
        ));
    }
    let mut configurations = opened.configurations(&mut servers)?;
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
    let name = args.study.study.file_stem().map_or_else(|| "run".to_owned(), |stem| stem.to_string_lossy().into());
    let request = RunRequest {
        name,
        study: opened.study,
        configurations,
        prices,
        resume: args.resume.clone(),
        study_text: opened.text,
        study_file: Some(opened.named),
        overrides: opened.overrides,
        runs_dir: Some(args.result.out.clone()),
        prepare: prepare_mode(&args.result, args.keep),
        remove_after: args.result.remove_after,
        anyway: args.result.anyway,
        transfers: Some(Arc::new(Copies)),
        interval: Duration::from_secs(1),
        commit: option_env!("STOREBENCH_COMMIT").map(str::to_owned),
    };
    measure(&request, &args.result, &mut progress)
}
