//! Arguments about the parts of a run.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use storebench_study::Part;

use super::{DEFAULT_OUT, EXIT_CODES, ShowArgs};

/// The part of a run.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct PartArgs {
    /// Run only this part of the study, such as 2/8, into the folder --out, which is new for each run
    ///
    /// Start one process for each part, on one machine or many. Workers, rates, operations and documents of the study
    /// are shared between them. Merge the parts with `storebench merge`. See docs/clusters.md.
    #[arg(long, value_name = "I/N", conflicts_with = "resume", help_heading = "Parts")]
    pub(crate) part: Option<Part>,

    /// When the first phase begins, such as 2026-11-26T10:00:00Z or @1795687200; PHASE= for a later phase; repeatable
    ///
    /// Seconds since 1970 are what `date +%s` prints. Without this option, the parts agree by files in the folder --out,
    /// which all of them must share.
    #[arg(long, value_name = "[PHASE=]TIME", requires = "part", help_heading = "Parts")]
    pub(crate) start_at: Vec<StartAt>,
}

/// When a phase begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartAt {
    /// The phase; the first one if `None`.
    pub(crate) phase: Option<String>,
    /// In ns since 1970.
    pub(crate) unix_ns: u64,
}

impl std::str::FromStr for StartAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (phase, time) = text.rsplit_once('=').map_or((None, text), |(phase, time)| (Some(phase.to_owned()), time));
        let unix_ns = match time.strip_prefix('@') {
            Some(seconds) => seconds.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1_000_000_000)),
            None => time.parse::<jiff::Timestamp>().ok().and_then(|at| u64::try_from(at.as_nanosecond()).ok()),
        };
        // Where arithmetic with later phases cannot overflow.
        match unix_ns.filter(|ns| *ns < u64::MAX / 4) {
            Some(unix_ns) => Ok(Self { phase, unix_ns }),
            None => Err(format!(
                "`{time}` is not a time; write it with its offset, such as 2026-11-26T10:00:00Z, or as seconds since 1970, \
                 such as @1795687200"
            )),
        }
    }
}

/// Merge the parts of a run into one run folder
///
/// Adds the histograms of all parts, so that each percentile is over all operations. A part that is missing, failed or
/// began too late is named, and the result is then invalid.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct MergeArgs {
    /// Folders of the parts, or a folder that holds them
    #[arg(required = true, value_name = "FOLDER")]
    pub(crate) folders: Vec<PathBuf>,

    /// Folder in which to create the folder of the merged run
    #[arg(long, value_name = "DIR", default_value = DEFAULT_OUT)]
    pub(crate) out: PathBuf,

    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let at = |phase: Option<&str>, unix_ns| StartAt { phase: phase.map(str::to_owned), unix_ns };
        for (text, wanted) in [
            ("@5", at(None, 5_000_000_000)),
            ("1970-01-01T00:00:05Z", at(None, 5_000_000_000)),
            ("1970-01-01T01:00:05+01:00", at(None, 5_000_000_000)),
            ("mixed=@7", at(Some("mixed"), 7_000_000_000)),
            ("a=b=@7", at(Some("a=b"), 7_000_000_000)),
        ] {
            assert_eq!(text.parse::<StartAt>().unwrap(), wanted, "{text}");
        }
        for text in ["", "10:00", "2026-11-26T10:00:00", "@", "@-1", "@1e9", "1960-01-01T00:00:00Z", "@99999999999999"]
        {
            assert!(text.parse::<StartAt>().unwrap_err().contains("is not a time"), "{text}");
        }
    }
}
