//! One numeric factor swept over its values (workers, batch, rate, tasks): the curve, and where more of it stops
//! helping.
//!
//! # The rule
//! Values are compared in pairs within rounds (`paired_ratio`). `gain` is the ratio of a later value to an earlier one,
//! in the direction that is better. The practical threshold t is 5 % unless the caller sets another:
//! - the later value *clearly beats* the earlier one if the whole interval of its gain lies above 1 + t;
//! - it *clearly does not* if the whole interval lies at or below 1 + t;
//! - otherwise the pair is *open*.
//!
//! The sweet spot is the smallest value that no later value clearly beats, if every later value clearly does not. If a
//! pair is open, the sweep is undecided and names the pairs that it depends on. There are two conditions because "not
//! shown to be better" is not "shown not to be better". With few rounds nothing is shown, and the smallest value would
//! always win.
//!
//! The threshold also covers the many pairs. Of two equal values, one is called clearly better only if its interval
//! misses the truth by more than t. Near t itself, where that happens in one of 40 pairs, either answer is harmless.
//! There is no further correction.
//!
//! A later value is *clearly worse* if the whole interval of its inverse gain lies above 1 + t. It is *flat* if the
//! interval lies between 1 / (1 + t) and 1 + t.

mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::figures::Better;
use crate::stats::{Estimate, Observed, mean_of_trials, paired_ratio};

pub(crate) use words::{is_parallel, is_spent, value_in_words};

/// Differences up to this share do not matter in practice.
pub(crate) const PRACTICAL: f64 = 0.05;

/// One value of a factor as it was measured: the value, and a figure for each round.
pub(crate) type Measured = (f64, Vec<(u32, Observed)>);

/// One value of the curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweptValue {
    /// The value.
    pub value: f64,
    /// The figure over its trials, in its own unit. Null if no trial of the value completed.
    pub figure: Option<Estimate>,
    /// How many times better it is than the first value, paired by rounds. Above 1 is better, also for times. Null if
    /// the two share no round.
    pub speed_up: Option<Estimate>,
    /// The speed-up divided by the growth of the factor: 1 is linear. Null if `speed_up` is null.
    pub efficiency: Option<Estimate>,
}

/// Two values whose interval leaves open whether the greater one is better by more than the threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenPair {
    /// The smaller value.
    pub value: f64,
    /// The greater value, which may or may not be better.
    pub later: f64,
    /// How many times better the greater value is. Null if the two share no round. It has no interval if they share
    /// only one.
    pub gain: Option<Estimate>,
}

/// What lies beyond the sweet spot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// No value: the last one is the best by more than the threshold. Higher values may be better still.
    Unseen,
    /// Every later value is equal within the threshold: more neither helps nor hurts.
    Flat,
    /// A later value is clearly worse: see `worse_from`.
    Worse,
    /// No later value is better, but the intervals leave open whether one is worse.
    Open,
    /// A later value ran, but none of its trials completed: see `failed`.
    Failed,
}

/// A factor's curve and its sweet spot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sweep {
    /// The practical threshold, as a share: 0.05 for 5 %.
    pub threshold: f64,
    /// The values, ascending.
    pub curve: Vec<SweptValue>,
    /// The smallest value that no later one clearly beats by more than the threshold. Null while undecided.
    pub sweet_spot: Option<f64>,
    /// The same by the figures alone, without their intervals. A guess while undecided.
    pub likely: Option<f64>,
    /// What lies beyond the sweet spot. Null while undecided.
    pub beyond: Option<Beyond>,
    /// The first later value that is clearly worse than the sweet spot by more than the threshold.
    pub worse_from: Option<f64>,
    /// Values that ran, but without a completed trial, or with a trial that lacks the figure. They take no part in the
    /// rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<f64>,
    /// The pairs that the sweep depends on while it is undecided: more rounds would decide them. Empty once it is
    /// decided.
    pub undecided: Vec<OpenPair>,
}

/// A pair of values, judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    Above,
    NotAbove,
    Open,
}

/// The curve over the values of one factor, and its sweet spot. Values and rounds may come in any order. A value
/// without figures (all its trials failed) stays in the curve and takes part in nothing. `better` says whether more or
/// less of the figure is better. `threshold` says which differences count, as a share ([`PRACTICAL`]). `None` for fewer
/// than two values, and for values, figures and thresholds that have no ratios. `together` is the number of speed-ups that
/// are looked at together.
pub(crate) fn sweep(better: Better, threshold: f64, together: usize, values: &[Measured]) -> Option<Sweep> {
    let values = checked(values).filter(|_| (0.0..1.0).contains(&threshold))?;
    // The later figure divided by the earlier one, inverted if less is better, so that above 1 is better.
    let gain_of = |together: usize, earlier: usize, later: usize| {
        let (from, to) = (&values[earlier].1, &values[later].1);
        let pairs: Vec<(Observed, Observed)> =
            to.iter().filter_map(|(round, to)| from.get(round).map(|from| (*to, *from))).collect();
        let ratio = paired_ratio(&pairs)?.estimate(together);
        Some(if better == Better::More { ratio } else { ratio.inverse() })
    };
    // The threshold makes up for the many pairs.
    let gain = |earlier: usize, later: usize| gain_of(1, earlier, later);
    let curve = values
        .iter()
        .enumerate()
        .map(|(at, (value, figures))| {
            let speed_up = gain_of(together, 0, at);
            let grown = value / values[0].0;
            SweptValue {
                value: *value,
                figure: mean_of_trials(&figures.values().copied().collect::<Vec<_>>()).map(|mean| mean.estimate(1)),
                speed_up,
                efficiency: speed_up.map(|speed_up| speed_up.map(|times| times / grown)),
            }
        })
        .collect();

    let measured: Vec<usize> = (0..values.len()).filter(|at| !values[*at].1.is_empty()).collect();
    let later = |at: usize| measured.iter().copied().filter(move |later| *later > at);
    let line = 1.0 + threshold;
    let mut out = Sweep {
        threshold,
        curve,
        sweet_spot: None,
        likely: measured
            .iter()
            .find(|at| later(**at).all(|later| gain(**at, later).is_none_or(|gain| gain.value <= line)))
            .map(|at| values[*at].0),
        beyond: None,
        worse_from: None,
        failed: values.iter().filter(|(_, figures)| figures.is_empty()).map(|(value, _)| *value).collect(),
        undecided: Vec::new(),
    };
    for at in measured.iter().copied() {
        let gains: Vec<(usize, Option<Estimate>)> = later(at).map(|later| (later, gain(at, later))).collect();
        let judged = |gain: &Option<Estimate>| gain.map_or(Judged::Open, |gain| judge(gain, line));
        if gains.iter().any(|(_, gain)| judged(gain) == Judged::Above) {
            continue;
        }
        out.undecided = gains
            .iter()
            .filter(|(_, gain)| judged(gain) == Judged::Open)
            .map(|(later, gain)| OpenPair { value: values[at].0, later: values[*later].0, gain: *gain })
            .collect();
        if out.undecided.is_empty() {
            let losses: Vec<(usize, Judged)> = gains
                .iter()
                .map(|(later, gain)| (*later, gain.map_or(Judged::Open, |gain| judge(gain.inverse(), line))))
                .collect();
            out.sweet_spot = Some(values[at].0);
            out.worse_from = losses.iter().find(|(_, loss)| *loss == Judged::Above).map(|(later, _)| values[*later].0);
            out.beyond = Some(if out.worse_from.is_some() {
                Beyond::Worse
            } else if out.failed.iter().any(|failed| *failed > values[at].0) {
                Beyond::Failed
            } else if losses.is_empty() {
                Beyond::Unseen
            } else if losses.iter().all(|(_, loss)| *loss == Judged::NotAbove) {
                Beyond::Flat
            } else {
                Beyond::Open
            });
        }
        break;
    }
    Some(out)
}

/// A value and its figures by round.
type ByRound = (f64, BTreeMap<u32, Observed>);

/// The values in ascending order, with their figures by round. `None` if a value or a round of it occurs twice, or if a
/// number is not positive and finite.
fn checked(values: &[Measured]) -> Option<Vec<ByRound>> {
    let sound = |number: &f64| number.is_finite() && *number > 0.0;
    let by_round = |(value, figures): &Measured| {
        let rounds: BTreeMap<u32, Observed> = figures.iter().copied().collect();
        (sound(value) && rounds.len() == figures.len() && rounds.values().all(|figure| sound(&figure.value)))
            .then_some((*value, rounds))
    };
    let mut out: Vec<ByRound> = values.iter().map(by_round).collect::<Option<_>>()?;
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    (out.len() > 1 && out.windows(2).all(|pair| pair[0].0 != pair[1].0)).then_some(out)
}

fn judge(gain: Estimate, line: f64) -> Judged {
    match (gain.low, gain.high) {
        (Some(low), _) if low > line => Judged::Above,
        (_, Some(high)) if high <= line => Judged::NotAbove,
        _ => Judged::Open,
    }
}

#[cfg(test)]
mod tests;
