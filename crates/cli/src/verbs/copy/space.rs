//! Checks that the output of a copy fits on its disk, as far as that is known beforehand.

use std::path::{Path, PathBuf};

use storebench_lab::plan::DISK_FACTOR;
use storebench_lab::space::{Free, Need, check_space, check_time};
use storebench_transfer::{FileSinkOptions, Format, Packing, RecordOp};

use crate::args::CopyArgs;
use crate::failure::Failure;

/// The size of compressed or columnar output, as a share of the text. It is low, so that few copies are wrongly
/// refused.
const PACKED: f64 = 0.2;
/// The size of the checksums that --verify keeps, as a share of the records.
const SUMS: f64 = 0.1;

/// The target of a copy.
pub(super) enum Target<'a> {
    /// A store, with the path of its data; `None` if they are not on this machine.
    Store(Option<PathBuf>),
    Files(&'a FileSinkOptions),
}

/// Refuses a copy of about `read` bytes that does not fit on its disk. If records are filtered or changed, their size
/// is unknown, and nothing is refused.
///
/// # Errors
/// Names the space that is needed and the space that is free.
pub(super) fn check(
    args: &CopyArgs,
    read: Option<u64>,
    target: &Target<'_>,
    folder: &Path,
    free_at: &dyn Fn(&Path) -> Option<Free>,
) -> Result<(), Failure> {
    let shaped = args.records.filter.is_some() || args.records.map.is_some() || args.records.fields.is_some();
    let Some(read) = read.filter(|_| !args.anyway && !shaped) else { return Ok(()) };
    if let Some(rate) = args.rate_bytes {
        check_time(read as f64 / (rate.bytes() as f64).max(1e-9)).map_err(Failure::bad_input)?;
    }
    let share = |share: f64| (read as f64 * share) as u64;
    let need = |what: &str, path: PathBuf, bytes| Need { what: what.to_owned(), path, bytes };
    let mut needs = Vec::new();
    match target {
        Target::Store(Some(path)) if matches!(args.op, RecordOp::Upsert | RecordOp::Insert) => {
            needs.push(need("the database", path.clone(), share(DISK_FACTOR)));
        }
        Target::Store(_) => {}
        Target::Files(options) => {
            let packed = options.packing != Packing::Plain || matches!(options.format, Format::Parquet | Format::Arrow);
            // The parts of one file exist until the file is complete. Those of a folder are moved or uploaded singly.
            let times = if options.folder { 1.0 } else { 2.0 };
            let bytes = share(times * if packed { PACKED } else { 1.0 });
            let local = options.place.as_ref().and_then(|place| place.path());
            if local.is_some() || options.place.is_some() && !options.folder {
                // On the same disk as its hidden parts, whose name nobody knows.
                needs.push(need("the file and its parts", local.unwrap_or(&options.parts).to_owned(), bytes));
            }
        }
    }
    if args.verify {
        needs.push(need("the checksums of --verify", folder.to_owned(), share(SUMS)));
    }
    check_space(&needs, free_at).map_err(Failure::bad_input)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(flags: &str) -> CopyArgs {
        let words = ["storebench", "copy", "a.jsonl", "sqlite:a.db"].into_iter().chain(flags.split_whitespace());
        match <crate::args::Args as clap::Parser>::parse_from(words).verb {
            crate::args::Verb::Copy(args) => *args,
            _ => unreachable!("the verb is copy"),
        }
    }

    fn checked(flags: &str, read: u64, free: u64) -> Result<(), String> {
        let target = Target::Store(Some("a.db".into()));
        let free_at = |_: &Path| Some(Free { disk: 1, bytes: free });
        check(&args(flags), Some(read), &target, Path::new("runs"), &free_at).map_err(|failure| failure.message)
    }

    #[test]
    fn a_copy_that_does_not_fit_is_refused_with_the_figures() {
        let told = checked("", 4 << 30, 9 << 30).unwrap_err();
        for part in ["10.0 GiB needed", "9.00 GiB free", "--anyway"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(checked("", 3 << 30, 9 << 30), Ok(()));
        // The checksums need space too.
        assert!(checked("--verify", 3 << 30, 77 << 27 /* 9.6 GiB */).is_ok());
        assert!(
            checked("--verify", 3 << 30, 61 << 27 /* 7.6 GiB */).unwrap_err().contains("the checksums of --verify")
        );
        for flags in ["--anyway", "--op delete", "--filter .x"] {
            assert_eq!(checked(flags, 4 << 40, 1), Ok(()), "{flags}");
        }
        assert!(checked("--rate-bytes 1KiB", 1 << 40, u64::MAX).unwrap_err().contains("years"));
    }
}
