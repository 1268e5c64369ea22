//! The verbs, one file each. A verb returns its exit code, or a failure that has one.

mod bench;
mod check;
mod compare;
mod completions;
mod conform;
pub(crate) mod copy;
mod doctor;
mod gallery;
mod generate;
mod history;
mod host;
mod infer;
mod infer_store;
mod init;
mod measure;
mod merge;
mod pack;
mod plan;
mod plan_parts;
mod publish;
mod report;
mod rerun;
mod run;
mod stores;
mod studies;
mod trace;
mod verify;

use storebench_lab::space::{OPEN_FILES_OF_ITSELF, check_open_files, open_files_limit};

use crate::args::Verb;
use crate::failure::Failure;

/// Runs a verb and returns the exit code.
pub(crate) fn perform(verb: &Verb) -> Result<u8, Failure> {
    #[cfg(feature = "tables")]
    storebench_documents::trace::read_tables_with(storebench_transfer::parquet_rows);
    check_open_files("Storebench", OPEN_FILES_OF_ITSELF, open_files_limit(), "").map_err(Failure::bad_input)?;
    match verb {
        Verb::Init(args) => init::init(args),
        Verb::Run(args) => run::run(args),
        Verb::Bench(args) => bench::bench(args),
        Verb::Merge(args) => merge::merge(args),
        Verb::Compare(args) => compare::compare(args),
        Verb::History(args) => history::history(args),
        Verb::Report(args) => report::report(args),
        Verb::Pack(args) => pack::pack(args),
        Verb::Rerun(args) => rerun::rerun(args),
        Verb::Gallery(args) => gallery::gallery_of(args),
        Verb::Copy(args) => copy::copy(args),
        Verb::Generate(args) => generate::generate(args),
        Verb::Infer(args) => infer::infer(args),
        Verb::Trace(args) => trace::trace(args),
        Verb::Verify(args) => verify::verify(args),
        Verb::Check(args) => check::check(args),
        Verb::Plan(args) => plan::plan(args),
        Verb::Stores(args) => stores::stores(args),
        Verb::Studies(args) => studies::studies(args),
        Verb::Conform(args) => conform::conform(args),
        Verb::Doctor(args) => doctor::doctor(args),
        Verb::Host(args) => host::host(args),
        Verb::Completions(args) => completions::completions(args),
    }
}
