//! Runs every check, and says what a run's exit code is.

use super::model::{Level, Verdict};
use super::{client, design, outcome, payload, queries, schedule};
use crate::results::{PhaseResult, RunResult, TrialResult};

/// What a check of a phase looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) result: &'a RunResult,
    pub(super) trial: &'a TrialResult,
    pub(super) phase: &'a PhaseResult,
}

impl Scene<'_> {
    /// The phase is what the study wants to know of operations: no load, no warm-up, and no copy, which asks for
    /// each document once and ends when all are moved.
    pub(super) fn measures(&self) -> bool {
        !self.phase.loads && !self.phase.warm_up && self.phase.tasks.is_none()
    }

    /// The store's own scheme, without decorators.
    pub(super) fn scheme(&self) -> &str {
        let scheme = self.trial.url.split(':').next().unwrap_or_default();
        scheme.rsplit('+').next().unwrap_or_default()
    }

    pub(super) fn operations(&self) -> f64 {
        self.phase.ops.values().map(|op| op.count as f64).sum()
    }
}

/// What a check found, before it is known where.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) saw: String,
    pub(super) threshold: String,
    pub(super) advice: String,
}

impl Finding {
    /// The advice goes with every level but *pass*.
    pub(super) fn new(
        level: Level,
        saw: impl Into<String>,
        threshold: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = if level == Level::Pass { String::new() } else { advice.into() };
        Self { level, saw: saw.into(), threshold: threshold.into(), advice }
    }

    fn at(self, check: &str, trial: Option<&TrialResult>, phase: Option<&PhaseResult>) -> Verdict {
        Verdict {
            check: check.to_owned(),
            level: self.level,
            saw: self.saw,
            threshold: self.threshold,
            advice: self.advice,
            trial: trial.map(|t| t.trial),
            store: trial.map(|t| t.store.clone()),
            phase: phase.map(|p| p.name.clone()),
        }
    }
}

/// A check of one phase: none where it has no meaning.
type PhaseCheck = fn(&Scene<'_>) -> Option<Finding>;

const PHASE_CHECKS: [(&str, PhaseCheck); 13] = [
    ("partial-run", outcome::partial_run),
    ("lost-writes", outcome::lost_writes),
    ("wrong-content", outcome::wrong_content),
    ("errors", outcome::errors),
    ("misses", outcome::misses),
    ("client-saturated", client::client_saturated),
    ("schedule-slip", schedule::schedule_slip),
    ("too-few-connections", schedule::too_few_connections),
    ("rate-not-held", schedule::rate_not_held),
    ("closed-loop-latency", schedule::closed_loop_latency),
    ("full-scan", queries::full_scan),
    ("few-distinct-keys", payload::few_distinct_keys),
    ("too-short", design::too_short),
];

/// Judges a run: first what concerns all of it, then trial by trial, phase by phase. Warm-ups are
/// judged only for what they lost or found wrong.
pub fn judge(result: &RunResult) -> Vec<Verdict> {
    let mut verdicts = vec![design::single_run(result).at("single-run", None, None)];
    verdicts.extend(
        payload::compressible_payload(result).into_iter().map(|found| found.at("compressible-payload", None, None)),
    );
    for trial in &result.trials {
        verdicts.push(client::client_shares_host(trial).at("client-shares-host", Some(trial), None));
        if let Some(found) = outcome::failed_trial(trial) {
            verdicts.push(found.at("partial-run", Some(trial), None));
        }
        for phase in &trial.phases {
            let scene = Scene { result, trial, phase };
            for (name, check) in PHASE_CHECKS {
                if phase.warm_up && !matches!(name, "lost-writes" | "wrong-content" | "partial-run") {
                    continue;
                }
                if let Some(found) = check(&scene) {
                    verdicts.push(found.at(name, Some(trial), Some(phase)));
                }
            }
        }
    }
    verdicts
}

/// The exit code of a run: 1 when data were lost, wrong or could not be verified; 2 or 3 when a store
/// refused or could not be reached, 1 when it failed; 130 when interrupted; 4 when the measurement
/// is invalid by its own verdicts; otherwise 0. The first that holds counts.
pub fn exit_code(result: &RunResult) -> u8 {
    let phases = || result.trials.iter().flat_map(|t| &t.phases);
    let spoiled = phases().any(|p| {
        p.ops.values().any(|op| op.wrong > 0) || p.ledger.as_ref().is_some_and(|l| l.lost > 0 || l.unverifiable > 0)
    });
    if spoiled {
        return 1;
    }
    if let Some(failure) = result.trials.iter().find_map(|t| t.failure.as_ref()) {
        return match failure.kind.as_str() {
            "bad-url" | "not-ours" | "not-supported" => 2,
            "unreachable" => 3,
            _ => 1,
        };
    }
    if result.run.interrupted {
        return 130;
    }
    if result.verdicts.iter().any(|v| v.level == Level::Invalid) { 4 } else { 0 }
}
