//! `bench URL`: builds a study from flags and runs it as `run` does.

use storebench_engine::store::NAME_COLUMNS;
use storebench_lab::run::RunRequest;

use super::measure::{measure, metrics, prepare_mode, request_of};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::outputs::{refuse_existing, write_text};
use crate::progress::Progress;
use crate::{bench_flags, bench_study, stores, studies};

pub(crate) fn bench(args: &BenchArgs) -> Result<u8, Failure> {
    if let Some(file) = &args.save_study {
        refuse_existing(file, args.force)?;
    }
    let built = bench_study::build(args)?;
    let mut progress = Progress::new(args.result.show.quiet);
    let metrics = metrics(args.result.metrics.as_ref(), "bench", &progress)?;
    // Before anything else: a typo in the URL should not wait for documents to be compiled.
    let stores = stores::open_all(&built.study)?;
    let documents = studies::compile(&built.study).map_err(bench_flags::of_documents)?;
    if let Some(file) = &args.save_study {
        write_text(file, &built.text, args.force)
            .map_err(|failure| Failure::bad_input(format!("--save-study {}", failure.message)))?;
    }
    for note in &built.notes {
        progress.note(note);
    }
    let request = RunRequest {
        runs_dir: Some(args.result.out.clone()),
        unsupported: args.fit.unsupported(),
        prepare: prepare_mode(&args.result, args.no_load),
        remove_after: args.result.remove_after,
        anyway: args.result.anyway,
        commit: option_env!("STOREBENCH_COMMIT").map(str::to_owned),
        ..request_of("bench", built.study, built.text, &documents, stores)
    };
    measure(&request, &args.result, metrics, &mut progress).map_err(|mut failure| {
        let flags = "name the columns with --existing-key COLUMN and --existing-body COLUMN";
        failure.message = bench_flags::in_flags(&failure.message).replace(NAME_COLUMNS, flags);
        failure
    })
}
