//! Prints a result, writes its report, and explains its exit code.

use std::path::Path;

use storebench_results::exit::{FINE, INTERRUPTED, INVALID};
use storebench_results::summary::{brief, summary};
use storebench_results::validity::{CheckResult, Severity, data_trouble};
use storebench_results::{RunResult, TrialResult};

use super::report::{index_is_older, write_page};
use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::output::{layout, print, print_json};
use crate::progress::Progress;

/// Prints a result, writes the report into its folder, and returns the exit code.
pub(super) fn publish(
    result: &RunResult,
    folder: Option<&Path>,
    code: u8,
    show: &ShowArgs,
    progress: &mut Progress,
) -> Result<u8, Failure> {
    match (show.json, show.full) {
        (true, _) => print_json(result)?,
        (false, true) => print(&summary(result, layout()))?,
        (false, false) => print(&brief(result, layout()))?,
    }
    if let Some(folder) = folder {
        match write_page(folder) {
            Ok(file) if show.json => progress.note(&format!("the report is {}", file.display())),
            Ok(file) => {
                let more = format!("details  storebench report {} --full\n", folder.display());
                let more = if show.full { "" } else { &more };
                print(&format!("\nreport   {}\n{more}", file.display()))?;
            }
            // The results are saved anyway.
            Err(why) => {
                let told = format!("no report: {why}; to create it, run `storebench report {}`", folder.display());
                if code == 0 {
                    return Err(Failure::spoiled(told));
                }
                progress.tell(&told);
            }
        }
        if let Some(older) = index_is_older(folder) {
            progress.note(&older);
        }
    }
    match trouble(&result.trials, &result.checks, code) {
        Some(message) => Err(Failure { code, message }),
        None => Ok(code),
    }
}

/// The message for the exit code of a failed run.
pub(super) fn trouble(trials: &[TrialResult], checks: &[CheckResult], code: u8) -> Option<String> {
    let failed = trials.iter().find_map(|trial| {
        let failure = trial.failure.as_ref()?;
        Some(format!("store `{}` ended early, in {}: {}", trial.store, failure.during, failure.message))
    });
    let invalid = || {
        let mut checks: Vec<&str> =
            checks.iter().filter(|v| v.severity == Severity::Invalid).map(|v| v.check.as_str()).collect();
        checks.dedup();
        checks.join(", ")
    };
    // Lost data is more than a store that ended early, which may be why it was lost.
    if let Some(what) = data_trouble(trials) {
        let more = failed.map_or_else(String::new, |failed| format!("; {failed}"));
        return Some(format!("{what}: {}{more}", invalid()));
    }
    match code {
        INVALID if failed.is_none() => Some(format!("the measurement is invalid: {}", invalid())),
        FINE | INTERRUPTED => None,
        _ => failed,
    }
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::LedgerReport;
    use storebench_results::{Failure as Ended, PhaseResult};

    use super::*;

    #[test]
    fn a_run_that_was_cut_short_says_why_and_blames_no_verdict() {
        let failure = Ended {
            kind: storebench_results::FailureKind::CutShort,
            during: "steady".into(),
            message: "no key was left".into(),
        };
        let trial = TrialResult { store: "redis".into(), failure: Some(failure), ..TrialResult::default() };
        let mut trials = [trial];
        assert_eq!(trouble(&trials, &[], INVALID).unwrap(), "store `redis` ended early, in steady: no key was left");
        // Keys that could not be read back are not lost, and come before the reason.
        let ledger = LedgerReport { keys: 3, confirmed: 1, unverifiable: 2, ..LedgerReport::default() };
        trials[0].phases = vec![PhaseResult { ledger: Some(ledger), ..PhaseResult::default() }];
        let told = trouble(&trials, &[], 1).unwrap();
        assert!(told.starts_with("acknowledged data could not be read back, so it is unknown"), "{told}");
        assert!(told.ends_with("; store `redis` ended early, in steady: no key was left"), "{told}");
    }
}
