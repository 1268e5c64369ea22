//! `merge FOLDER…`: merges the parts of a run.

use storebench_results::merge::{MergeError, merge as merge_parts};
use storebench_results::validity::exit_code;

use super::publish::{Shown, publish};
use crate::args::MergeArgs;
use crate::failure::Failure;
use crate::progress::Progress;

pub(crate) fn merge(args: &MergeArgs) -> Result<u8, Failure> {
    let mut progress = Progress::new(args.quiet);
    let (result, folder) = merge_parts(&args.folders, &args.out, None).map_err(|error| match error {
        MergeError::BadInput(_) | MergeError::Folder(_) => Failure::bad_input(error),
    })?;
    let shown = if args.json {
        Shown::Json
    } else if args.full {
        Shown::Full
    } else {
        Shown::Brief
    };
    let code = exit_code(&result);
    publish(&result, Some(&folder), code, shown, &mut progress)
}
