//! Describes the outages that injected faults caused, and whether acknowledged writes survived.

use indexmap::IndexSet;
use storebench_study::workload::FaultKind;

use crate::configurations::configurations_of;
use crate::human::{count, duration, listed};
use crate::validity::{answered, ledger_allowed, lost_writes, unread};
use crate::{PhaseResult, RunResult, TrialResult};

/// The most configurations that are described.
const MOST: usize = 3;

/// One sentence for each configuration that had a fault: the longest outage, and whether anything was lost.
pub(super) fn broken(result: &RunResult) -> Vec<String> {
    let mut all = Vec::new();
    for configuration in configurations_of(&result.plan, &result.trials) {
        let phases =
            || configuration.trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (*trial, phase)));
        let done = || phases().flat_map(|(_, phase)| &phase.faults).filter(|fault| fault.began_ns.is_some());
        if done().next().is_none() {
            continue;
        }
        // In the order in which they were done.
        let what: IndexSet<&str> = done().map(|fault| in_words(fault.what)).collect();
        let longest = done().map(|fault| fault.unavailable_ns).max().unwrap_or(0);
        // An outage that no answer ended counts more than a longer one that is over.
        let lasting = done().filter(|fault| fault.first_answer_ns.is_none()).map(|fault| fault.unavailable_ns).max();
        let silent = match (lasting.filter(|ns| *ns > 0), longest) {
            (Some(ns), _) => {
                format!("no answer came back before the end of a phase, for at least {}", duration(ns as f64))
            }
            (None, 0) => {
                let faulty = phases().filter(|(_, phase)| !phase.faults.is_empty());
                answered(faulty.map(|(_, phase)| phase.failed_operations()).sum())
            }
            (None, ns) => format!("the longest time without an answer was {}", duration(ns as f64)),
        };
        let kept = phases().filter_map(|(trial, phase)| of_ledger(trial, phase)).max_by_key(|(lost, _)| *lost);
        let kept = kept.map_or_else(String::new, |(_, text)| format!("; {text}"));
        let ended: IndexSet<&str> =
            done().filter(|fault| fault.server_ended.is_some()).map(|fault| in_words(fault.what)).collect();
        let ended = match ended.is_empty() {
            true => String::new(),
            false => format!("; its server ended by itself during {}, and was started again", listed(ended)),
        };
        all.push(format!("{} after {}: {silent}{ended}{kept}.", configuration.name, listed(what)));
    }
    all.truncate(MOST);
    all
}

/// The everyday name of a fault.
fn in_words(what: FaultKind) -> &'static str {
    match what {
        FaultKind::Kill => "a kill",
        FaultKind::Restart => "a restart",
        FaultKind::Pause => "a pause",
        FaultKind::PowerCut => "a power cut",
        FaultKind::DiskFull => "a full disk",
        FaultKind::RollingRestart => "a rolling restart",
        FaultKind::Limit => "a resource limit",
        FaultKind::Link => "a bad link",
        FaultKind::Reset => "a reset of connections",
        FaultKind::Partition => "a partition",
        FaultKind::Run => "a command",
    }
}

/// How many keys were lost or could not be read, as a number and as text. The two are different: nothing is known about a
/// key that could not be read.
fn of_ledger(trial: &TrialResult, phase: &PhaseResult) -> Option<(u64, String)> {
    let ledger = phase.ledger.as_ref()?;
    let lost = match ledger.lost {
        0 => None,
        lost if lost == lost_writes(ledger) && ledger_allowed(trial, phase).is_some() => {
            let why = ledger_allowed(trial, phase).map_or_else(String::new, |allowed| allowed.in_words());
            Some(format!("{} of {} keys lost their latest write, {why}", count(lost), count(ledger.keys)))
        }
        lost => Some(format!("{} of {} keys are not as acknowledged", count(lost), count(ledger.keys))),
    };
    let unread = unread(ledger).map(|unread| format!("{unread}, so it is unknown what they hold"));
    let told = match (lost, unread) {
        (None, None) => format!("no acknowledged write was lost in {} keys", count(ledger.keys)),
        (Some(lost), Some(unread)) => format!("{lost}; {unread}"),
        (Some(told), None) | (None, Some(told)) => told,
    };
    Some((ledger.lost.saturating_add(ledger.unread()), told))
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::LedgerReport;

    use super::*;
    use crate::{FaultResult, fixture};

    #[test]
    fn the_longest_outage_and_what_was_lost_are_told() {
        let mut run = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
        assert!(broken(&run).is_empty());
        let phase = &mut run.trials[0].phases[1];
        let fault = FaultResult {
            what: FaultKind::Kill,
            began_ns: Some(1),
            unavailable_ns: 700_000_000,
            first_answer_ns: Some(700_000_000),
            ..FaultResult::default()
        };
        phase.faults = vec![fault, FaultResult { what: FaultKind::Pause, began_ns: Some(2), ..FaultResult::default() }];
        phase.ledger = Some(LedgerReport { keys: 1_200, confirmed: 1_200, ..LedgerReport::default() });
        let text = broken(&run);
        assert_eq!(
            text,
            [
                "sqlite after a kill and a pause: the longest time without an answer was 700 ms; no acknowledged write was lost in 1,200 keys."
            ]
        );
        let phase = &mut run.trials[0].phases[1];
        phase.faults.push(FaultResult {
            unavailable_ns: 300_000_000,
            first_answer_ns: None,
            ..phase.faults[0].clone()
        });
        let told = &broken(&run)[0];
        assert!(told.contains("no answer came back before the end of a phase, for at least 300 ms;"), "{told}");
        run.trials[0].phases[1].faults.pop();
        let ledger = run.trials[0].phases[1].ledger.as_mut().unwrap();
        (ledger.lost, ledger.unverifiable) = (7, 1);
        let told = &broken(&run)[0];
        assert!(
            told.ends_with(
                "7 of 1,200 keys are not as acknowledged; 1 of 1,200 keys could not be read back, so it is unknown what \
                 they hold."
            ),
            "{told}"
        );
        run.trials[0].phases[1].ledger.as_mut().unwrap().lost = 0;
        let told = &broken(&run)[0];
        assert!(
            told.ends_with("ms; 1 of 1,200 keys could not be read back, so it is unknown what they hold."),
            "{told}"
        );

        let phase = &mut run.trials[0].phases[1];
        phase.faults[1].what = FaultKind::DiskFull;
        phase.faults[1].server_ended = Some("exit status: 1".into());
        let told = &broken(&run)[0];
        assert!(
            told.contains("700 ms; its server ended by itself during a full disk, and was started again; "),
            "{told}"
        );

        let phase = &mut run.trials[0].phases[1];
        phase.durability.name = "none".into();
        let ledger = phase.ledger.as_mut().unwrap();
        (ledger.lost, ledger.gone, ledger.unverifiable) = (7, 7, 0);
        let told = &broken(&run)[0];
        assert!(
            told.ends_with("7 of 1,200 keys lost their latest write, as durability `none` allows after `kill`."),
            "{told}"
        );
    }
}
