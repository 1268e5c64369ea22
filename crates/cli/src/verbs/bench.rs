//! `bench URL`: builds a study from flags and runs it as `run` does.

use std::path::Path;
use std::time::Duration;

use storebench_engine::store::NAME_COLUMNS;
use storebench_lab::run::{ConfigurationRequest, RunRequest};

use super::measure::{measure, prepare_mode};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::outputs::{refuse_existing, write_text};
use crate::progress::Progress;
use crate::{bench_flags, bench_study};
use crate::{stores, studies};

pub(crate) fn bench(args: &BenchArgs) -> Result<u8, Failure> {
    if let Some(file) = &args.save_study {
        refuse_existing(file, args.force)?;
    }
    let built = bench_study::build(args)?;
    // Before anything else: a typo in the URL should not wait for documents to be compiled.
    let stores = stores::open_all(&built.study)?;
    let documents = studies::compile(&built.study, 1.0, Path::new("."), None).map_err(bench_flags::of_documents)?;
    if let Some(file) = &args.save_study {
        write_text(file, &built.text, args.force)
            .map_err(|failure| Failure::bad_input(format!("--save-study {}", failure.message)))?;
    }
    let mut progress = Progress::new(args.result.quiet);
    for note in &built.notes {
        progress.note(note);
    }
    let request = RunRequest {
        name: "bench".to_owned(),
        configurations: ConfigurationRequest::of_stores(&built.study, &documents, 1.0, stores),
        study: built.study,
        prices: None,
        part: None,
        resume: None,
        study_text: built.text,
        study_file: None,
        overrides: Vec::new(),
        runs_dir: Some(args.result.out.clone()),
        unsupported: args.fit.unsupported(),
        prepare: prepare_mode(&args.result, args.no_load),
        remove_after: args.result.remove_after,
        anyway: args.result.anyway,
        // No flag of `bench` asks for a copy.
        transfers: None,
        interval: Duration::from_secs(1),
        commit: option_env!("STOREBENCH_COMMIT").map(str::to_owned),
    };
    measure(&request, &args.result, &mut progress).map_err(|mut failure| {
        let flags = "name the columns with --existing-key COLUMN and --existing-body COLUMN";
        failure.message = bench_flags::in_flags(&failure.message).replace(NAME_COLUMNS, flags);
        failure
    })
}
