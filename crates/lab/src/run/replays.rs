//! What stores answer to the operations of a trace, compared operation by operation.

use storebench_engine::PhasePlan;
use storebench_engine::measure::{Answer, PhaseRecord};
use storebench_results::{ReplayAnswers, RunResult, TrialResult, replayed_before};
use xxhash_rust::xxh3::Xxh3;

use super::observe::Journal;
use super::runner::RunState;

/// Differing operations that are named.
const EXAMPLES: usize = 5;

/// The answers of one replay, kept to compare later ones with.
pub(super) struct Replayed {
    trial: u32,
    phase: String,
    answers: Vec<Answer>,
}

impl RunState<'_> {
    /// Compares what a store answered to the operations of a trace with what the first store answered. `None` if answers
    /// are not compared, or if this configuration had its turn before.
    pub(super) fn compare_answers(
        &mut self,
        plan: &PhasePlan,
        record: &mut PhaseRecord,
        at: usize,
        result: &RunResult,
        journal: &mut Journal<'_>,
    ) -> Option<ReplayAnswers> {
        let (compared, (trace, _)) = (plan.answers.as_ref()?, plan.trace.as_ref()?);
        let answers = std::mem::take(&mut record.answers);
        let trial = &result.trials[at];
        let again = |earlier: &TrialResult| {
            earlier.configuration == trial.configuration && earlier.phases.iter().any(|of| of.answers.is_some())
        };
        // Documents that an earlier trial has changed are not those of the trace.
        if trial.database_kept || result.trials[..at].iter().any(again) {
            return None;
        }
        let missing = answers.iter().filter(|answer| answer.is_none()).count();
        let answers: Vec<Answer> = answers.into_iter().flatten().collect();
        if missing > 0 {
            let name = &trial.configuration;
            journal.note(format!(
                "the answers of {name} cannot be compared: {missing} operations of {} have none",
                plan.name
            ));
            return None;
        }
        let included = || trace.ops().iter().zip(&answers).enumerate().filter(|(_, (op, _))| compared.includes(op));
        let mut hash = Xxh3::new();
        included().for_each(|(_, (op, answer))| hash.update(answer.of(op.kind()).to_string().as_bytes()));
        let number = included().count() as u64;
        let mut found = ReplayAnswers {
            compared: number,
            left_out: answers.len() as u64 - number,
            hash: format!("{:016x}", hash.digest()),
            ..ReplayAnswers::default()
        };
        let Some((first, _)) = replayed_before(&result.trials, trial, &plan.name) else {
            self.replayed.push(Replayed { trial: trial.trial, phase: plan.name.clone(), answers });
            return Some(found);
        };
        let known =
            |of: &&Replayed| of.trial == first.trial && of.phase == plan.name && of.answers.len() == answers.len();
        let Some(others) = self.replayed.iter().find(known) else { return Some(found) };
        found.with = Some(first.configuration.clone());
        for (position, (op, answer)) in included() {
            let other = others.answers[position];
            if other == *answer {
                continue;
            }
            found.different += 1;
            if found.examples.len() < EXAMPLES {
                let kind = op.kind();
                found.examples.push(format!(
                    "operation {}, {kind} of {}: {} {}, {} {}",
                    position + 1,
                    String::from_utf8_lossy(trace.key(op.key)),
                    first.configuration,
                    other.of(kind),
                    trial.configuration,
                    answer.of(kind)
                ));
            }
        }
        if found.different > 0 {
            journal.note(format!(
                "{} answered {} of {} operations of {} otherwise than {}: {}",
                trial.configuration,
                found.different,
                found.compared,
                plan.name,
                first.configuration,
                found.examples.join("; ")
            ));
        }
        Some(found)
    }
}
