//! A figure of a phase, of every configuration, and how far one is ahead of another.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::words::interval;
use crate::configurations::{Trials, compared_together, configurations_of};
use crate::figures::{Better, DOCUMENTS, Measure, RATE_WITHIN_LIMITS, THROUGHPUT};
use crate::human::{duration, plural, rate};
use crate::series::Series;
use crate::stats::Estimate;
use crate::{PhaseResult, RunResult, TrialResult};

/// The figure that represents an open-loop phase.
pub(super) const RESPONSE_P99: &str = "response.p99";
/// A figure from fewer requests per trial states how many there were.
const FEW_REQUESTS: u64 = 20;
/// A smaller difference does not matter, as in `compare`.
pub(super) const MATTERS: f64 = 0.02;

/// One configuration's figure of a phase.
pub(super) struct Standing {
    pub(super) configuration: String,
    pub(super) store: String,
    pub(super) series: Series,
    /// The values of its factors.
    pub(super) values: IndexMap<String, serde_json::Value>,
    /// The operations behind the figure. Totals of different operations are not compared.
    pub(super) ops: BTreeSet<String>,
    /// The fewest operations of the phase in a trial.
    requests: u64,
    /// How many ratios the run has of this figure.
    pub(super) together: usize,
}

impl Standing {
    pub(super) fn measure(&self) -> Measure {
        self.series.figure.measure
    }

    fn better(&self) -> Better {
        self.measure().better
    }

    pub(super) fn value(&self) -> f64 {
        self.series.over_trials().value
    }

    /// `145 k docs/s`, `p99 1.23 ms`.
    pub(super) fn shown(&self) -> String {
        let least = if self.series.at_least() { "at least " } else { "" };
        let figure = format!("{least}{}", shown(self.measure(), self.value()));
        match self.requests {
            few if few < FEW_REQUESTS => format!("{figure} from {} per trial", plural(few, "request")),
            _ => figure,
        }
    }

    /// The same with its interval.
    pub(super) fn with_interval(&self) -> String {
        let show = number_of(self.measure());
        format!("{}{}", self.shown(), interval(&self.series.over_trials(), show))
    }

    /// Marks a figure that comes from a single trial.
    pub(super) fn once(&self) -> &'static str {
        if self.series.over_trials().trials == 1 { ", measured once" } else { "" }
    }
}

/// A figure with its unit.
pub(super) fn shown(measure: Measure, value: f64) -> String {
    match measure.name {
        name if name == RATE_WITHIN_LIMITS.name => format!("{}/s", rate(value)),
        _ => match unit(measure) {
            Some(unit) => format!("{} {unit}", rate(value)),
            None => format!("p99 {}", duration(value)),
        },
    }
}

/// What is counted each second. `None` for times.
pub(super) fn unit(measure: Measure) -> Option<&'static str> {
    match measure.name {
        name if name == DOCUMENTS.name => Some("docs/s"),
        name if name == THROUGHPUT.name || name == RATE_WITHIN_LIMITS.name => Some("ops/s"),
        _ => None,
    }
}

/// How a figure without its unit is shown.
pub(super) fn number_of(measure: Measure) -> fn(f64) -> String {
    if unit(measure).is_some() { rate } else { duration }
}

/// How one configuration compares with another: a ratio that is above 1 if the first is better.
pub(super) struct Lead {
    pub(super) ratio: Option<Estimate>,
}

impl Lead {
    pub(super) fn of(ahead: &Standing, other: &Standing) -> Self {
        let (more, less) = match ahead.better() {
            Better::More => (ahead, other),
            Better::Less => (other, ahead),
        };
        Self { ratio: ratio(more, less) }
    }

    /// Whether the whole interval is above 1, and the difference large enough to matter.
    pub(super) fn sure(&self) -> bool {
        self.ratio.is_some_and(|r| r.low.is_some_and(|low| low > 1.0) && r.value > 1.0 + MATTERS)
    }

    /// Whether there is no interval, and the difference too small to matter.
    pub(super) fn close(&self) -> bool {
        self.ratio.is_some_and(|r| r.low.is_none() && r.value <= 1.0 + MATTERS)
    }

    /// Whether there is an interval that does not show who is ahead.
    pub(super) fn open(&self) -> bool {
        self.ratio.is_some_and(|r| r.low.is_some()) && !self.sure()
    }

    /// Whether the whole interval is so close to 1 that the difference does not matter.
    pub(super) fn alike(&self) -> bool {
        self.ratio.as_ref().is_some_and(alike)
    }
}

/// The figure of one configuration over that of another, within rounds.
pub(super) fn ratio(of: &Standing, to: &Standing) -> Option<Estimate> {
    of.series.ratio_to(&to.series).map(|ratio| ratio.estimate(of.together))
}

/// Whether the whole interval of a ratio is so close to 1 that the difference does not matter.
pub(super) fn alike(ratio: &Estimate) -> bool {
    ratio.low.zip(ratio.high).is_some_and(|(low, high)| low >= 1.0 - MATTERS && high <= 1.0 + MATTERS)
}

/// Every configuration that is compared, and has the figure in all trials that count. `place` is `PHASE` or `PHASE.OP`. A store whose
/// only operation of the phase it is has the figure under the name of the phase.
pub(super) fn standings(result: &RunResult, place: &str, measure: &str) -> Vec<Standing> {
    let all = configurations_of(&result.plan, &result.trials);
    let together = compared_together(&all);
    let of = |configuration: Trials<'_>| {
        let trials: Vec<&TrialResult> = configuration.counted().filter(|_| !configuration.is_apart()).collect();
        let first = trials.first()?;
        let (phase, op) = phase_of(&trials, place)?;
        let ops: BTreeSet<String> = phases(&trials, phase).flat_map(|phase| phase.ops.keys()).cloned().collect();
        let only = op.is_some_and(|op| ops.iter().eq([op]));
        let name = if only { format!("{phase}.{measure}") } else { format!("{place}.{measure}") };
        let series = Series::of(trials.clone(), |_| Vec::new()).shift_remove(&name)?;
        let requests_of = |phase: &PhaseResult| {
            let counted = phase.ops.iter().filter(|(name, _)| op.is_none_or(|op| op == name.as_str()));
            counted.fold(0, |sum: u64, (_, op)| sum.saturating_add(op.count))
        };
        let requests = phases(&trials, phase).map(requests_of).min().unwrap_or(0);
        (series.none_in().is_empty() && series.over_trials().trials > 0).then(|| Standing {
            configuration: configuration.name.to_owned(),
            store: first.store.clone(),
            values: first.values.clone(),
            ops: op.map_or(ops, |op| BTreeSet::from([op.to_owned()])),
            series,
            requests,
            together,
        })
    };
    all.into_iter().filter_map(of).collect()
}

fn phases<'a>(trials: &[&'a TrialResult], name: &str) -> impl Iterator<Item = &'a PhaseResult> {
    trials.iter().flat_map(|trial| &trial.phases).filter(move |phase| phase.name == name)
}

/// The phase of a place, and its operation if the place is one.
fn phase_of<'p>(trials: &[&TrialResult], place: &'p str) -> Option<(&'p str, Option<&'p str>)> {
    let known = |name: &str| phases(trials, name).next().is_some();
    if known(place) {
        return Some((place, None));
    }
    let (at, _) = place.match_indices('.').find(|(at, _)| known(&place[..*at]))?;
    Some((&place[..at], Some(&place[at + 1..])))
}

/// The best standing.
pub(super) fn best<'a>(of: impl IntoIterator<Item = &'a Standing>) -> Option<&'a Standing> {
    of.into_iter().reduce(|best, next| {
        let ahead = match next.better() {
            Better::More => next.value() > best.value(),
            Better::Less => next.value() < best.value(),
        };
        if ahead { next } else { best }
    })
}

/// The best configuration of each store, the best store first.
pub(super) fn best_of_stores(all: &[Standing]) -> Vec<&Standing> {
    let mut stores: IndexMap<&str, Vec<&Standing>> = IndexMap::new();
    for standing in all {
        stores.entry(&standing.store).or_default().push(standing);
    }
    ranked(stores.into_values().filter_map(best))
}

/// The best first.
pub(super) fn ranked<'a>(all: impl IntoIterator<Item = &'a Standing>) -> Vec<&'a Standing> {
    let mut found: Vec<&Standing> = all.into_iter().collect();
    found.sort_by(|a, b| match a.better() {
        Better::More => b.value().total_cmp(&a.value()),
        Better::Less => a.value().total_cmp(&b.value()),
    });
    found
}
