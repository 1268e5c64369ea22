//! Runs every check, and determines the exit code of a run.

use super::check::{Configurations, Finding, Looks, Scene};
use super::checks::CHECKS;
use super::guarantee::{broken_promises, forbidden};
use super::lost::loaded_and_gone;
use super::model::{CheckResult, Severity};
use crate::exit;
use crate::{FailureKind, PhaseResult, RunResult, TrialResult};

/// Runs all checks: first those of the whole run, then trial by trial, phase by phase. Warm-ups are checked only for
/// wrong or lost data, for faults, and for ending early.
pub fn judge(result: &RunResult) -> Vec<CheckResult> {
    let mut checks = Vec::new();
    let configurations = Configurations::of(result);
    let looks = || CHECKS.iter().flat_map(|check| check.looks.iter().map(move |looks| (check, looks)));
    for (check, looks) in looks() {
        if let Looks::Configurations(look) = looks {
            checks.extend(look(&configurations).into_iter().map(|found| found.at(check.name, None, None)));
        }
    }
    for trial in &result.trials {
        for (check, looks) in looks() {
            if let Looks::Trial(look) = looks {
                checks.extend(look(result, trial).map(|found| found.at(check.name, Some(trial), None)));
            }
        }
        for phase in &trial.phases {
            let scene = Scene { result, trial, phase, environment: &result.environment };
            if scene.loads_nothing() {
                continue;
            }
            for (check, looks) in looks().filter(|(check, _)| check.warm_ups || !phase.warm_up) {
                if let Looks::Phase(look) = looks {
                    let found = if check.of_each_client { of_each_client(*look, &scene) } else { look(&scene) };
                    checks.extend(found.map(|found| found.at(check.name, Some(trial), Some(phase))));
                }
            }
        }
    }
    checks
}

/// The worst finding about a client. In a merged run, each part has one, and the finding names the part.
fn of_each_client(look: fn(&Scene<'_>) -> Option<Finding>, scene: &Scene<'_>) -> Option<Finding> {
    let generators = &scene.phase.generators;
    if generators.is_empty() {
        return look(scene);
    }
    let machine = |number| {
        let mut parts = scene.result.run.parts.iter().flat_map(|parts| &parts.merged);
        parts.find(|part| part.part == number).map_or(scene.environment, |part| &part.environment)
    };
    let found = generators.iter().filter_map(|of| {
        let mut phase = scene.phase.clone();
        phase.client.clone_from(&of.client);
        phase.all.clone_from(&of.all);
        let found = look(&Scene { phase: &phase, environment: machine(of.part), ..*scene })?;
        Some(Finding { observed: format!("part {}: {}", of.part, found.observed), ..found })
    });
    // Of equals, the first.
    found.reduce(|worst, other| if other.severity > worst.severity { other } else { worst })
}

/// Whether a phase lost data against its guarantee, or returned wrong or unverifiable data. It need not be among the
/// trial's own phases yet.
pub fn spoiled(trial: &TrialResult, phase: &PhaseResult) -> bool {
    spoiled_by(trial, phase) != Spoiled::default()
}

/// How data of a phase is not as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Spoiled {
    /// Acknowledged data is not there any more, although its guarantee covers what happened.
    lost: bool,
    /// The store returned data that is wrong: torn, never written, or older than its reads may be.
    wrong: bool,
    /// Acknowledged data could not be read back. Nothing is known about it.
    unread: bool,
}

impl Spoiled {
    fn or(self, other: Self) -> Self {
        Self { lost: self.lost || other.lost, wrong: self.wrong || other.wrong, unread: self.unread || other.unread }
    }
}

/// How data of a phase is not as it must be. The phase need not be among the trial's own phases yet.
fn spoiled_by(trial: &TrialResult, phase: &PhaseResult) -> Spoiled {
    let ledger = phase.ledger.as_ref();
    let (lost, misread) = forbidden(trial, phase);
    // Of `lost`, keys that hold something that nobody wrote.
    let worse = ledger.map_or(0, |ledger| ledger.torn + ledger.never_written);
    Spoiled {
        lost: lost > worse || loaded_and_gone(trial, phase) > 0,
        wrong: worse > 0 || misread > 0 || broken_promises(phase) > 0 || phase.ops.values().any(|op| op.wrong > 0),
        unread: ledger.is_some_and(|ledger| ledger.unverifiable > 0),
    }
}

/// What is wrong with the data of a run, as the begin of a sentence; `None` if nothing is. The exit code does not say it: a
/// store that failed ends a run with 1, too.
pub fn data_trouble(trials: &[TrialResult]) -> Option<String> {
    let phases = trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    let of = phases.map(|(trial, phase)| spoiled_by(trial, phase)).fold(Spoiled::default(), Spoiled::or);
    let unread = match of.lost {
        true => "other acknowledged data could not be read back",
        false => "acknowledged data could not be read back, so it is unknown whether it is still there",
    };
    let what = [(of.lost, "acknowledged data was lost"), (of.wrong, "wrong data was returned"), (of.unread, unread)];
    let what: Vec<&str> = what.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect();
    (!what.is_empty()).then(|| what.join(", and "))
}

/// What a trial was doing before its first phase, as its failure says.
pub const PREPARE: &str = "prepare";

/// The exit code of a run. The first of these that applies:
/// 1. Data was lost against the guarantee, wrong, or could not be verified: 1.
/// 2. A store refused: 2. A store could not be reached, or failed before anything was written: 3. A store failed: 1. A
///    phase had no key left to write, or another part of the run is incomplete: 4.
/// 3. The run was interrupted: 130.
/// 4. A check is invalid: 4.
/// 5. None of these: 0.
pub fn exit_code(result: &RunResult) -> u8 {
    if result.trials.iter().any(|t| t.phases.iter().any(|p| spoiled(t, p))) {
        return exit::SPOILED;
    }
    if let Some(failure) = result.trials.iter().find_map(|t| t.failure.as_ref()) {
        return match failure.kind {
            FailureKind::BadUrl | FailureKind::NotOurs | FailureKind::NotSupported => exit::BAD_INPUT,
            FailureKind::Unreachable => exit::UNREACHABLE,
            // Nothing was written yet.
            FailureKind::Failed if failure.during == PREPARE => exit::UNREACHABLE,
            FailureKind::CutShort | FailureKind::OtherPart => exit::INVALID,
            FailureKind::Failed => exit::SPOILED,
        };
    }
    if result.run.interrupted {
        return exit::INTERRUPTED;
    }
    if result.checks.iter().any(|v| v.severity == Severity::Invalid) { exit::INVALID } else { exit::FINE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validity::testing::{NOTE, closed, severity};
    use crate::{Failure, fixture};

    #[test]
    fn warm_ups_are_judged_only_for_what_they_lost() {
        let result = closed(|p| {
            p.warm_up = true;
            p.ops[0].errors = p.ops[0].count;
            p.ops[0].wrong = 1;
        });
        let phase: Vec<String> = judge(&result).into_iter().filter(|v| v.phase.is_some()).map(|v| v.check).collect();
        assert_eq!(phase, ["wrong-content"]);
    }

    #[test]
    fn exit_codes_in_order_of_weight() {
        let mut result = closed(|_| ());
        result.checks = judge(&result);
        assert_eq!(exit_code(&result), 0);
        result.checks[0].severity = Severity::Invalid;
        assert_eq!(exit_code(&result), 4);
        result.run.interrupted = true;
        assert_eq!(exit_code(&result), 130);
        let codes = [
            (FailureKind::Failed, 1),
            (FailureKind::Unreachable, 3),
            (FailureKind::CutShort, 4),
            (FailureKind::NotOurs, 2),
            (FailureKind::BadUrl, 2),
            (FailureKind::NotSupported, 2),
        ];
        for (kind, code) in codes {
            result.trials[0].failure = Some(Failure { kind, ..Default::default() });
            assert_eq!(exit_code(&result), code, "{kind:?}");
        }
        result.trials[0].failure = Some(Failure { during: PREPARE.to_owned(), ..Default::default() });
        assert_eq!(exit_code(&result), 3, "nothing was written");
        result.trials[0].failure = Some(Failure { kind: FailureKind::Unreachable, ..Default::default() });
        result.trials[0].phases[0].ops[0].wrong = 1;
        assert_eq!(exit_code(&result), 1);
    }

    /// What the demo measures on two cores: closed loop, both workers busy, taking turns with the
    /// store's own threads.
    #[test]
    fn a_saturating_embedded_run_is_not_invalid() {
        let mut result = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
        for phase in &mut result.trials[0].phases {
            let client = &mut phase.client;
            client.busiest_worker_share = 0.97;
            client.cpu_us_per_op = Some(0.5);
            client.process_cpu_us_per_op = Some(8.0);
            client.worker_cpu_s = phase.elapsed_ns as f64 / 1e9 * 1.4;
            client.run_queue_s = phase.elapsed_ns as f64 / 1e9 * 0.6;
            client.process_cpu_s = Some(phase.elapsed_ns as f64 / 1e9 * 1.9);
        }
        result.checks = judge(&result);
        assert_eq!(exit_code(&result), 0, "{:#?}", result.checks);
        assert_eq!(severity(&result, "client-shares-host"), NOTE);
    }

    /// A run of one configuration has nothing to compare.
    #[test]
    fn one_configuration_is_not_compared() {
        let names: Vec<String> = judge(&closed(|_| ())).into_iter().map(|v| v.check).collect();
        for check in ["durability-differs", "replicas-differ", "work-differs", "noisy-rounds"] {
            assert!(!names.iter().any(|name| name == check), "{check}");
        }
    }
}
