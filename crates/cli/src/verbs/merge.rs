//! `merge FOLDER…`: merges the parts of a run.

use storebench_results::merge::merge as merge_parts;
use storebench_results::validity::exit_code;

use super::publish::publish;
use crate::args::MergeArgs;
use crate::failure::Failure;
use crate::progress::Progress;

pub(crate) fn merge(args: &MergeArgs) -> Result<u8, Failure> {
    let mut progress = Progress::new(args.show.quiet);
    let (result, folder) = merge_parts(&args.folders, &args.out).map_err(Failure::bad_input)?;
    publish(&result, Some(&folder), exit_code(&result), &args.show, &mut progress)
}
