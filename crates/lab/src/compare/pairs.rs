//! Two arms: their figures, the ratio of each, and what of it is sure.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::error::CompareError;
use super::gate::{Gate, judge_gates};
use super::model::{
    COMPARE_FORMAT, CompareResult, ComparedArm, ComparedFigure, ComparedPair, DifferenceResult, Judgement, VerdictCount,
};
use super::sides::{Arm, Source, matched};
use crate::alike::{Difference, DifferenceKind, differences};
use crate::cost::cost_figure;
use crate::figures::{Better, Figure, of_trial};
use crate::human::bytes;
use crate::results::{RunResult, TrialResult};
use crate::stats::{CONFIDENCE, Estimate, geometric_mean, paired_ratio, unpaired_ratio};
use crate::verdicts::Level;

/// What is compared, and how.
#[derive(Debug, Clone, Copy)]
pub struct CompareRequest<'a> {
    /// The runs. The first is what the others are compared with; one alone has its arms compared.
    pub runs: &'a [Source],
    /// What is within this share of 1 is alike.
    pub threshold: f64,
    /// What must not be.
    pub gates: &'a [Gate],
    /// Whether what is partial or unlike is compared all the same.
    pub anyway: bool,
}

/// Compares runs.
///
/// # Errors
/// There is nothing to compare; what there is is partial or unlike, and `anyway` was not asked for; a gate names no
/// figure.
pub fn compare(request: &CompareRequest<'_>) -> Result<CompareResult, CompareError> {
    let matched = matched(request.runs)?;
    if !request.anyway {
        let mut refused = Vec::new();
        for (a, b) in &matched.pairs {
            for text in partial(a).into_iter().chain(partial(b)) {
                if !refused.contains(&text) {
                    refused.push(text);
                }
            }
        }
        if !refused.is_empty() {
            return Err(CompareError::Partial(refused));
        }
    }
    let mut pairs = Vec::new();
    let mut unlike = Vec::new();
    for (a, b) in &matched.pairs {
        let pair = compare_arms(a, b, request.threshold)?;
        let told = |d: &DifferenceResult| format!("{} and {}: {}", a.label(), b.label(), d.place_and_text());
        unlike.extend(pair.differences.iter().map(told));
        if a.is(b) {
            unlike.push(format!("{} and {}: they are the same trials", a.label(), b.label()));
        }
        pairs.push(pair);
    }
    if !request.anyway && !unlike.is_empty() {
        return Err(CompareError::Unlike(unlike));
    }
    let gates = judge_gates(request.gates, &pairs)?;
    Ok(CompareResult {
        format: COMPARE_FORMAT.to_owned(),
        threshold: request.threshold,
        confidence: CONFIDENCE,
        anyway: request.anyway,
        pairs,
        unmatched: matched.unmatched,
        gates,
    })
}

/// What of an arm, or of its run, is partial.
fn partial(arm: &Arm<'_>) -> Vec<String> {
    let run = arm.source.unfinished().map(|why| format!("{}: {why}", arm.source.label()));
    let (_, left_out) = arm.whole();
    let trials = left_out.into_iter().map(|t| format!("{}, trial {}: {}", arm.label(), t.trial, t.why));
    run.into_iter().chain(trials).collect()
}

fn compare_arms(a: &Arm<'_>, b: &Arm<'_>, threshold: f64) -> Result<ComparedPair, CompareError> {
    let (side_a, trials_a) = side(a)?;
    let (side_b, trials_b) = side(b)?;
    let blocks = |trials: &[&TrialResult]| trials.iter().map(|trial| trial.block).collect::<BTreeSet<_>>();
    let (blocks_a, blocks_b) = (blocks(&trials_a), blocks(&trials_b));
    let paired = a.source.is_run_of(b.source) && !blocks_a.is_disjoint(&blocks_b);
    let (series_a, series_b) = (Series::of(&a.source.run, &trials_a), Series::of(&b.source.run, &trials_b));
    let figures =
        series_a.iter().filter_map(|(name, of_a)| of_a.compare(series_b.get(name)?, paired, threshold)).collect();
    let mut notes = notes(a.source, b.source);
    if a.is(b) {
        notes.push("A and B are the same trials".to_owned());
    }
    if paired && blocks_a != blocks_b {
        let told: Vec<String> = blocks_a.symmetric_difference(&blocks_b).map(u32::to_string).collect();
        notes.push(format!("in no ratio, since one of them lacks it: block {}", told.join(", ")));
    }
    Ok(ComparedPair {
        a: side_a,
        b: side_b,
        paired_by_block: paired,
        differences: differences(&trials_a, &trials_b).into_iter().map(DifferenceResult::from).collect(),
        notes,
        figures,
    })
}

/// An arm as it is told, and its whole trials.
fn side<'a>(arm: &Arm<'a>) -> Result<(ComparedArm, Vec<&'a TrialResult>), CompareError> {
    let (whole, left_out) = arm.whole();
    let Some(first) = whole.first() else {
        return Err(CompareError::Nothing(format!("{} has no whole trial: run it again", arm.label())));
    };
    let run = &arm.source.run;
    let mut verdicts: Vec<VerdictCount> = Vec::new();
    let ours = |trial: Option<u32>| trial.is_none_or(|number| whole.iter().any(|trial| trial.trial == number));
    for v in run.verdicts.iter().filter(|v| v.level >= Level::Caution && ours(v.trial)) {
        match verdicts.iter_mut().find(|found| found.check == v.check && found.level == v.level) {
            Some(found) => found.count += 1,
            None => verdicts.push(VerdictCount { check: v.check.clone(), level: v.level, count: 1 }),
        }
    }
    verdicts.sort_by_key(|found| std::cmp::Reverse(found.level));
    let side = ComparedArm {
        run: arm.source.name.clone(),
        baseline: arm.source.baseline.clone(),
        arm: arm.name.to_owned(),
        title: run.run.title.clone(),
        began: run.run.began.clone(),
        storebench_version: run.run.storebench_version.clone(),
        store_version: first.version.clone(),
        trials: whole.iter().map(|trial| trial.trial).collect(),
        left_out,
        verdicts,
    };
    Ok((side, whole))
}

/// In what two runs differ that takes nothing from the comparison, but may explain it.
fn notes(a: &Source, b: &Source) -> Vec<String> {
    let (of_a, of_b) = (&a.run, &b.run);
    let or =
        |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned());
    let facts = |run: &crate::results::RunResult| {
        let machine = &run.environment;
        [
            ("Storebench", run.run.storebench_version.clone()),
            ("seed", run.run.seed.to_string()),
            ("processor", or(&machine.cpu_model)),
            ("processors", machine.cpus_available.to_string()),
            ("memory", machine.memory_bytes.map_or_else(|| "unknown".to_owned(), |n| bytes(n as f64))),
            ("kernel", or(&Some(machine.kernel.clone()))),
            ("virtualisation", or(&machine.virtualisation)),
        ]
    };
    let told = |((what, a), (_, b)): ((&str, String), (&str, String))| format!("{what}: {a} and {b}");
    let differing: Vec<String> = facts(of_a).into_iter().zip(facts(of_b)).filter(|(a, b)| a != b).map(told).collect();
    if differing.is_empty() { Vec::new() } else { vec![format!("A and B differ in {}", differing.join("; "))] }
}

/// One figure over the trials of an arm.
struct Series {
    figure: Figure,
    also: Option<String>,
    /// By block.
    values: Vec<(u32, f64)>,
}

impl Series {
    /// All of them by name, in the order of phases.
    fn of(run: &RunResult, trials: &[&TrialResult]) -> IndexMap<String, Self> {
        let mut all: IndexMap<String, Self> = IndexMap::new();
        for trial in trials {
            for figure in of_trial(trial).into_iter().chain(cost_figure(run, trial)) {
                let value = (trial.block, figure.value);
                match all.get_mut(&figure.name()) {
                    Some(series) => series.values.push(value),
                    None => {
                        let also = lone_name(trial, &figure);
                        all.insert(figure.name(), Self { figure, also, values: vec![value] });
                    }
                }
            }
        }
        all
    }

    fn values(&self) -> Vec<f64> {
        self.values.iter().map(|(_, value)| *value).collect()
    }

    /// None where the figures have no ratio.
    fn compare(&self, b: &Self, paired: bool, threshold: f64) -> Option<ComparedFigure> {
        let ratio = if paired {
            let pair = |(block, of_a): &(u32, f64)| {
                let (_, of_b) = b.values.iter().find(|(other, _)| other == block)?;
                Some((*of_b, *of_a))
            };
            paired_ratio(&self.values.iter().filter_map(pair).collect::<Vec<_>>())?
        } else {
            unpaired_ratio(&b.values(), &self.values())?
        };
        let measure = self.figure.measure;
        let judgement = judge(&ratio, measure.better, threshold);
        Some(ComparedFigure {
            figure: self.figure.name(),
            phase: self.figure.phase.clone(),
            op: self.figure.op.clone(),
            measure: measure.name.to_owned(),
            unit: measure.unit.to_owned(),
            better: if measure.better == Better::More { "more" } else { "less" }.to_owned(),
            a: geometric_mean(&self.values())?,
            b: geometric_mean(&b.values())?,
            ratio,
            judgement,
            word: judgement.word(measure.unit).to_owned(),
            also: self.also.clone(),
        })
    }
}

/// A phase with one operation has figures for all only; this is what they are called by that operation.
fn lone_name(trial: &TrialResult, figure: &Figure) -> Option<String> {
    let phase = trial.phases.iter().find(|phase| phase.name == figure.phase)?;
    let (op, _) = phase.ops.first().filter(|_| phase.ops.len() == 1)?;
    Some(format!("{}.{op}.{}", figure.phase, figure.measure.name))
}

/// What of a ratio B / A is sure.
pub(super) fn judge(ratio: &Estimate, better: Better, threshold: f64) -> Judgement {
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else { return Judgement::OneTrial };
    if low >= 1.0 - threshold && high <= 1.0 + threshold {
        Judgement::Alike
    } else if ratio.beyond(1.0) && (ratio.value - 1.0).abs() > threshold {
        if (ratio.value > 1.0) == (better == Better::More) { Judgement::Better } else { Judgement::Worse }
    } else {
        Judgement::Unsure
    }
}

impl Judgement {
    /// In a word that fits the unit: sizes are not fast.
    fn word(self, unit: &str) -> &'static str {
        let (better, worse) = match unit {
            "/s" | "ns" => ("faster", "slower"),
            "B" => ("smaller", "larger"),
            _ => ("cheaper", "dearer"),
        };
        match self {
            Self::Better => better,
            Self::Worse => worse,
            Self::Alike => "alike",
            Self::Unsure => "unsure",
            Self::OneTrial => "one trial",
        }
    }
}

impl From<Difference> for DifferenceResult {
    fn from(difference: Difference) -> Self {
        let kind = match difference.kind {
            DifferenceKind::Work => "work",
            DifferenceKind::Durability => "durability",
            DifferenceKind::Replicas => "replicas",
            DifferenceKind::Payload => "payload",
        };
        Self { kind: kind.to_owned(), phase: difference.phase, text: difference.text }
    }
}

impl DifferenceResult {
    /// `work, mixed: …`.
    pub(super) fn place_and_text(&self) -> String {
        match &self.phase {
            Some(phase) => format!("{}, {phase}: {}", self.kind, self.text),
            None => format!("{}: {}", self.kind, self.text),
        }
    }
}
