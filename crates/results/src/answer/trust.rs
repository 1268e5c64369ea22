//! How far a run can be trusted, in a sentence.

use std::collections::BTreeSet;

use indexmap::IndexSet;

use super::words::capital;
use crate::RunResult;
use crate::human::{count, plural, some_of};
use crate::validity::{Severity, data_trouble, in_short, is_of_the_answer, rank};

/// The most checks that are named: the worst. The others are counted.
const MOST_NAMED: usize = 2;

/// The sentence, and the worst severity.
pub(super) fn trust(result: &RunResult) -> (String, Severity) {
    // The worst first: what puts the answer in doubt, then in the order of the checks.
    let of = |severity: Severity| -> Vec<String> {
        let checks = result.checks.iter().filter(|v| v.severity == severity).map(|v| &v.check);
        let mut checks: Vec<String> = checks.collect::<IndexSet<_>>().into_iter().cloned().collect();
        checks.sort_by_key(|check| (!is_of_the_answer(check), rank(check)));
        checks
    };
    // A check counts once, at its worst severity.
    let invalid = of(Severity::Invalid);
    let mut cautions = of(Severity::Caution);
    cautions.retain(|check| !invalid.contains(check));
    let mut notes = of(Severity::Note);
    notes.retain(|check| !invalid.contains(check) && !cautions.contains(check));
    let checks: BTreeSet<&str> = result.checks.iter().map(|v| v.check.as_str()).collect();
    let also = |names: &[String], what: &str| match names.len() {
        0 => String::new(),
        n => format!(", and {}", plural(n as u64, what)),
    };
    let (text, severity) = if checks.is_empty() {
        ("No check has run yet.".to_owned(), Severity::Pass)
    } else if !invalid.is_empty() {
        let what = data_trouble(&result.trials).unwrap_or_else(|| "the measurement is invalid".to_owned());
        let checks = named(&invalid, MOST_NAMED);
        (format!("{}: {checks}{}.", capital(&what), also(&cautions, "caution")), Severity::Invalid)
    } else if !cautions.is_empty() {
        let grave = cautions.iter().filter(|check| is_of_the_answer(check)).count().min(MOST_NAMED);
        let (grave, other) = cautions.split_at(grave);
        let doubts = grave.iter().map(|check| doubt(result, check) + " ").collect::<String>();
        let text = match other.is_empty() {
            true if notes.is_empty() => doubts.trim_end().to_owned(),
            true => format!("{doubts}There {}.", are(notes.len(), "note")),
            false if grave.len() == MOST_NAMED => {
                format!("{doubts}There {}{}.", are(other.len(), "more caution"), also(&notes, "note"))
            }
            false => {
                let other = named(other, MOST_NAMED - grave.len());
                format!("{doubts}With cautions: {other}{}.", also(&notes, "note"))
            }
        };
        (text, Severity::Caution)
    } else {
        let passed = checks.len() - notes.len();
        let passed = format!("{} passed{}", plural(passed as u64, "check"), also(&notes, "note"));
        let severity = if notes.is_empty() { Severity::Pass } else { Severity::Note };
        // A run that was cut short has not been checked as a whole.
        match result.run.interrupted {
            true => return (format!("Interrupted: of what was measured until then, {passed}."), severity),
            false => (format!("Valid: {passed}."), severity),
        }
    };
    let cut = if result.run.interrupted { " The run was interrupted." } else { "" };
    (text + cut, severity)
}

/// What a check observed that puts the answer in doubt: `Doubtful: configurations did different work (work-differs; one
/// and other, load: …).`
fn doubt(result: &RunResult, check: &str) -> String {
    let mut found = result.checks.iter().filter(|v| v.check == check && v.severity == Severity::Caution);
    let Some(first) = found.next() else { return String::new() };
    let place = first.configuration.as_ref().map_or_else(String::new, |configuration| format!("{configuration}: "));
    let others: BTreeSet<&str> =
        found.map(|other| other.observed.as_str()).filter(|observed| *observed != first.observed).collect();
    let more = match others.len() {
        0 => String::new(),
        n => format!("; and {} more", count(n as u64)),
    };
    let short = in_short(check).unwrap_or(check);
    format!("Doubtful: {short} ({check}; {place}{}{more}).", first.observed)
}

fn are(n: usize, what: &str) -> String {
    format!("{} {}", if n == 1 { "is" } else { "are" }, plural(n as u64, what))
}

fn named(checks: &[String], most: usize) -> String {
    let name = |check: &String| match in_short(check) {
        Some(short) => format!("{short} ({check})"),
        None => check.clone(),
    };
    some_of(checks.iter().map(name), most)
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::LedgerReport;
    use storebench_study::workload::FaultKind;

    use super::*;
    use crate::validity::{CheckResult, exit_code, judge};
    use crate::{Failure, FailureKind, FaultResult, PhaseResult, fixture};

    fn run(change: impl FnOnce(&mut PhaseResult)) -> RunResult {
        let mut result = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
        let phase = &mut result.trials[0].phases[1];
        phase.ledger = Some(LedgerReport { keys: 9, confirmed: 9, ..LedgerReport::default() });
        change(phase);
        result.checks = judge(&result);
        result
    }

    #[test]
    fn an_interrupted_run_is_not_called_valid() {
        let mut result = run(|_| ());
        result.checks.retain(|check| check.severity == Severity::Pass);
        assert!(trust(&result).0.starts_with("Valid: "), "{}", trust(&result).0);
        result.run.interrupted = true;
        let told = trust(&result).0;
        assert!(
            told.starts_with("Interrupted: of what was measured until then, ") && told.ends_with(" passed."),
            "{told}"
        );
    }

    #[test]
    fn lost_wrong_and_unread_data_are_told_apart() {
        let told = |change: fn(&mut PhaseResult)| {
            let result = run(change);
            assert_eq!(exit_code(&result), 1);
            trust(&result).0
        };
        let lost = told(|p| p.ledger = Some(LedgerReport { keys: 9, lost: 1, gone: 1, ..LedgerReport::default() }));
        assert!(lost.starts_with("Acknowledged data was lost: "), "{lost}");
        let torn = told(|p| p.ledger = Some(LedgerReport { keys: 9, lost: 1, torn: 1, ..LedgerReport::default() }));
        assert!(torn.starts_with("Wrong data was returned: "), "{torn}");
        let wrong = told(|p| p.ops[0].wrong = 1);
        assert!(wrong.starts_with("Wrong data was returned: "), "{wrong}");
        let unread = told(|p| p.ledger = Some(LedgerReport { keys: 9, unverifiable: 9, ..LedgerReport::default() }));
        assert!(unread.contains("(unread-writes)") && !unread.contains("lost"), "{unread}");
        let both = LedgerReport { keys: 9, lost: 1, gone: 1, unverifiable: 8, ..LedgerReport::default() };
        let mut result = run(|_| ());
        result.trials[0].phases[1].ledger = Some(both);
        result.checks = judge(&result);
        let both = trust(&result).0;
        let told = "Acknowledged data was lost, and other acknowledged data could not be read back: ";
        assert!(both.starts_with(told) && both.contains("(unread-writes)"), "{both}");
        assert!(unread.starts_with("Acknowledged data could not be read back, so it is unknown"), "{unread}");
    }

    #[test]
    fn the_two_worst_cautions_are_named_and_the_others_counted() {
        let mut result = run(|_| ());
        let one = result.checks[0].clone();
        let told = |result: &mut RunResult, names: &[(&str, usize)]| {
            let all = names.iter().flat_map(|(name, times)| vec![*name; *times]);
            let check = |name: &str| CheckResult { check: name.into(), severity: Severity::Caution, ..one.clone() };
            result.checks = all.map(check).collect();
            trust(result).0
        };
        let text = told(&mut result, &[("too-short", 9), ("not-steady", 1), ("misses", 1), ("noisy-rounds", 1)]);
        let expected =
            "With cautions: rounds differ widely (noisy-rounds), documents were not found (misses) and 2 more.";
        assert_eq!(text, expected);
        // Those that put the answer in doubt come first.
        let text = told(&mut result, &[("misses", 9), ("errors", 2), ("work-differs", 1)]);
        assert!(text.starts_with("Doubtful: "), "{text}");
        assert!(text.ends_with("With cautions: operations failed (errors) and 1 more."), "{text}");
        let text = told(&mut result, &[("misses", 9), ("work-differs", 1), ("control-differs", 1)]);
        assert!(text.matches("Doubtful: ").count() == 2 && text.ends_with("There is 1 more caution."), "{text}");
    }

    /// A store that fails ends a run with the same exit code as one that loses data.
    #[test]
    fn a_store_that_failed_and_kept_everything_is_not_accused() {
        let mut result = run(|p| {
            let problem = Some("server `redis` ended unexpectedly".into());
            let fault = FaultResult { what: FaultKind::Restart, began_ns: Some(1), ..FaultResult::default() };
            p.faults = vec![FaultResult { problem, ..fault }];
        });
        result.trials[0].failure = Some(Failure { kind: FailureKind::Failed, ..Failure::default() });
        result.checks = judge(&result);
        assert_eq!(exit_code(&result), 1);
        let told = trust(&result).0;
        assert!(told.starts_with("The measurement is invalid: ") && told.contains("(faults)"), "{told}");
        assert!(!told.contains("lost") && !told.contains("wrong"), "{told}");
    }
}
