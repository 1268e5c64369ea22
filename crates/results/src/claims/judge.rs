//! Tests each kind of claim against the configurations of a run.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;
use storebench_study::workload::{
    Between, Claim, ClaimTest, FactorValues, PeakTest, RatioTest, ShareTest, did_you_mean,
};

use super::configurations::{Configurations, Key, Picked, WholeTrial, picks, text, value_text};
use super::grid::{Cell, Grid, Sides, group, ratio};
use super::model::{ClaimPart, ClaimResult, ClaimVerdict};
use crate::RunResult;
use crate::figures::Better;
use crate::human::{count, number};
use crate::stats::{Estimate, Observed, mean_of_trials, share_of};
use crate::sweep::PRACTICAL;
use crate::validity::{CheckResult, Severity};

/// What was found for some configurations.
struct Judged {
    verdict: ClaimVerdict,
    found: Estimate,
    why: String,
}

/// What was found for a claim, before the rules for all kinds of claims apply.
struct Outcome {
    verdict: ClaimVerdict,
    found: Estimate,
    why: Vec<String>,
    each: Vec<ClaimPart>,
}

/// Tests claims against a run, in their order. See the [module](super) for the rules.
///
/// Failed and partial trials are ignored. If a check calls the figures invalid, the claim stays undecided, so the
/// checks of the run must come first.
pub(crate) fn judge_claims(claims: &[Claim], result: &RunResult) -> Vec<ClaimResult> {
    let configurations = Configurations::of(result);
    claims.iter().map(|claim| judge(claim, &configurations, result)).collect()
}

fn judge(claim: &Claim, configurations: &Configurations<'_>, result: &RunResult) -> ClaimResult {
    let mut out = ClaimResult {
        says: claim.says.clone(),
        figures: claim.figures.clone(),
        source: claim.source.clone(),
        verdict: ClaimVerdict::NotTestable,
        found: None,
        expected: claim.test.as_ref().map(expected).unwrap_or_default(),
        why: String::new(),
        each: Vec::new(),
    };
    let outcome = testable(claim, result).and_then(|test| match test {
        ClaimTest::Ratio(test) => judge_ratio(configurations, test),
        ClaimTest::Rises(test) => {
            let ladder = Ladder::of(configurations, &test.over, &test.at, test.up_to)?;
            trend(configurations, &test.rises, &ladder, test.between.unwrap_or(RISES), Trend::Up)
        }
        ClaimTest::Falls(test) => {
            let ladder = Ladder::of(configurations, &test.over, &test.at, test.up_to)?;
            trend(configurations, &test.falls, &ladder, test.between.unwrap_or(FALLS), Trend::Down)
        }
        ClaimTest::ShareWithin(test) => share_within(configurations, test),
        ClaimTest::Peak(test) => peak(configurations, test),
    });
    match outcome {
        Err(why) => out.why = why,
        Ok(outcome) => {
            let Outcome { mut verdict, found, mut why, each } = outcome;
            if claim.at_least_trials.is_some_and(|least| found.trials < least) {
                verdict = ClaimVerdict::Undecided;
                let least = claim.at_least_trials.unwrap_or_default();
                why.insert(0, format!("{} of at least {} repeats", count(found.trials.into()), count(least.into())));
            }
            (out.verdict, out.found, out.why, out.each) = (verdict, Some(found), why.join("; "), each);
        }
    }
    out
}

/// The test of a claim, if this run can decide it.
fn testable<'a>(claim: &'a Claim, result: &RunResult) -> Result<&'a ClaimTest, String> {
    if let Some(why) = &claim.not_testable {
        return Err(why.clone());
    }
    if let Some(least) = claim.at_least_scale
        && result.run.scale < least
    {
        return Err(format!(
            "the run's scale of {} is below {least}, the least at which the claim can be tested",
            result.run.scale
        ));
    }
    let other = |v: &&CheckResult| v.check == "data-to-memory-differs" && v.severity > Severity::Pass;
    if let Some(differs) = result.checks.iter().find(other).filter(|_| claim.needs_data_to_memory) {
        return Err(format!("the claim needs the study's data-to-memory ratio: {}", differs.observed));
    }
    claim.test.as_ref().ok_or_else(|| "the study gives no test for it".to_owned())
}

/// The ranges for a rise and a fall if the claim gives none.
const RISES: Between = Between { low: 1.0 + PRACTICAL, high: None };
const FALLS: Between = Between { low: 0.0, high: Some(1.0 / (1.0 + PRACTICAL)) };

/// The range of what a test finds.
fn between(test: &ClaimTest) -> Between {
    match test {
        ClaimTest::Ratio(t) => t.between,
        ClaimTest::Rises(t) => t.between.unwrap_or(RISES),
        ClaimTest::Falls(t) => t.between.unwrap_or(FALLS),
        ClaimTest::ShareWithin(t) => t.between,
        ClaimTest::Peak(t) => t.between,
    }
}

/// On which side of a test's range all of an estimate's interval lies; `Equal` for neither.
pub(crate) fn side_of(test: &ClaimTest, found: &Estimate) -> Ordering {
    let between = between(test);
    match (found.low, found.high) {
        (_, Some(high)) if high < between.low => Ordering::Less,
        (Some(low), _) if between.high.is_some_and(|end| low > end) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// What a test expects, in one line.
fn expected(test: &ClaimTest) -> String {
    let values = |values: &FactorValues| {
        values.iter().map(|(name, value)| format!("{name} = {}", value_text(value))).collect::<Vec<_>>().join(", ")
    };
    let at = |at: &FactorValues| if at.is_empty() { String::new() } else { format!(" at {}", values(at)) };
    let up_to = |value: Option<f64>| value.map_or_else(String::new, |value| format!(" up to {}", number(value)));
    let between = range(&between(test));
    match test {
        ClaimTest::Ratio(t) => format!("{} of {} over {}: {between}", t.ratio, values(&t.of), values(&t.to)),
        ClaimTest::Rises(t) => {
            format!("{} rises over {}{}{}, last over first: {between}", t.rises, t.over, up_to(t.up_to), at(&t.at))
        }
        ClaimTest::Falls(t) => {
            format!("{} falls over {}{}{}, last over first: {between}", t.falls, t.over, up_to(t.up_to), at(&t.at))
        }
        ClaimTest::ShareWithin(t) => format!("share within the limit {}{}: {between}", t.share_within, at(&t.at)),
        ClaimTest::Peak(t) => format!("{} is best over {}{} at {between}", t.peak, t.over, at(&t.at)),
    }
}

fn range(between: &Between) -> String {
    match between.high {
        None => format!("{} or more", number(between.low)),
        Some(high) if between.low == 0.0 => format!("at most {}", number(high)),
        Some(high) => format!("{} to {}", number(between.low), number(high)),
    }
}

/// The logarithms of a figure for the trials on each side, and whether more or less is better.
fn cells(
    configurations: &Configurations<'_>,
    name: &str,
    sides: &[Picked],
    compared: &BTreeSet<Key>,
) -> Result<(Vec<Cell>, Better), String> {
    let mut out = Vec::new();
    let mut way = None;
    for whole in &configurations.whole {
        let mut on = (0..sides.len()).filter(|side| picks(&sides[*side], whole.trial));
        let Some(side) = on.next() else { continue };
        if let Some(other) = on.next() {
            return Err(format!(
                "a configuration is on both sides: {} and {}; add a value that distinguishes them",
                text(&sides[side]),
                text(&sides[other])
            ));
        }
        if let Some((figure, better)) = whole.figure(name) {
            way = Some(better);
            let group = group(whole.trial, compared);
            let trial = whole.trial.trial;
            let found =
                figure.ok_or_else(|| format!("trial {trial} has no `{name}`: nothing succeeded, or too little"))?;
            if found.to.is_infinite() {
                return Err(format!(
                    "`{name}` of trial {trial} is a lower bound: the search ended at its highest rate"
                ));
            }
            let (round, value) = (whole.trial.round, f64::midpoint(found.from.ln(), found.to.ln()));
            out.push(Cell { group, side, round, trial, value, within: (found.to / found.from).ln() / 2.0 });
        }
    }
    let better = way.ok_or_else(|| configurations.no_figure(name))?;
    Ok((out, better))
}

/// Judges all groups together and each by itself, and says what speaks against the verdict.
fn conclude(
    configurations: &Configurations<'_>,
    name: &str,
    picked: &[Picked],
    grid: &Grid,
    judge: impl Fn(&Sides) -> Option<Judged>,
) -> Result<Outcome, String> {
    let all = judge(&grid.all).ok_or("the figures have no ratio")?;
    let several = grid.groups.len() > 1;
    let part = |(configurations, sides): &(String, Sides)| {
        let Judged { verdict, found, .. } = judge(sides)?;
        Some(ClaimPart { configurations: configurations.clone(), verdict, found })
    };
    let each: Vec<ClaimPart> = grid.groups.iter().filter(|_| several).filter_map(part).collect();
    let (mut verdict, mut why) = (all.verdict, vec![all.why]);
    let any = |verdict| each.iter().find(|part| part.verdict == verdict);
    if let (Some(yes), Some(no)) = (any(ClaimVerdict::Matches), any(ClaimVerdict::Differs)) {
        verdict = ClaimVerdict::Undecided;
        why.insert(0, format!("it matches on {} and differs on {}", yes.configurations, no.configurations));
    }
    let invalid = configurations.invalid(name, |trial| picked.iter().any(|picked| picks(picked, trial)));
    if !invalid.is_empty() {
        verdict = ClaimVerdict::Undecided;
        why.insert(0, format!("these figures are invalid: {}", invalid.join(", ")));
    }
    if !grid.rounds_left_out.is_empty() {
        let rounds: Vec<String> = grid.rounds_left_out.iter().map(u32::to_string).collect();
        why.push(format!("left out because a configuration is missing: round {}", rounds.join(", ")));
    }
    if !grid.groups_left_out.is_empty() {
        why.push(format!("left out because a value is missing: {}", grid.groups_left_out.join("; ")));
    }
    Ok(Outcome { verdict, found: all.found, why, each })
}

/// Judges an estimate by where it lies.
fn place(found: Estimate, between: &Between) -> Judged {
    let (verdict, why) = match (found.low, found.high) {
        (Some(low), Some(high)) if between.holds(low, high) => {
            (ClaimVerdict::Matches, "the interval lies within the range")
        }
        (Some(low), Some(high)) if between.misses(low, high) => {
            (ClaimVerdict::Differs, "the interval lies outside the range")
        }
        (Some(_), Some(_)) => (ClaimVerdict::Undecided, "the interval overlaps an end of the range; run more rounds"),
        _ if between.holds(found.value, found.value) => {
            (ClaimVerdict::Undecided, "one round has no interval; its value lies within the range; run more rounds")
        }
        _ => (ClaimVerdict::Undecided, "one round has no interval; its value lies outside the range; run more rounds"),
    };
    Judged { verdict, found, why: why.to_owned() }
}

fn judge_ratio(configurations: &Configurations<'_>, test: &RatioTest) -> Result<Outcome, String> {
    let sides = [configurations.picked(&test.of)?, configurations.picked(&test.to)?];
    let compared = sides.iter().flatten().map(|(key, _)| key.clone()).collect();
    let (cells, _) = cells(configurations, &test.ratio, &sides, &compared)?;
    let grid = Grid::of(sides.len(), &cells)?;
    conclude(configurations, &test.ratio, &sides, &grid, |sides| {
        Some(place(ratio(sides, 0, 1, grid.within)?, &test.between))
    })
}

/// Which way a figure goes over a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trend {
    Up,
    Down,
}

/// A factor's values as sides, ascending.
struct Ladder {
    values: Vec<f64>,
    sides: Vec<Picked>,
    compared: BTreeSet<Key>,
    /// Values without a completed trial.
    failed: Vec<Value>,
}

impl Ladder {
    /// The values up to `highest`.
    fn of(
        configurations: &Configurations<'_>,
        over: &str,
        at: &FactorValues,
        highest: Option<f64>,
    ) -> Result<Self, String> {
        let (key, at) = (configurations.key(over)?, configurations.picked(at)?);
        let mut values = Vec::new();
        for whole in configurations.whole.iter().filter(|whole| picks(&at, whole.trial)) {
            let value =
                key.value(whole.trial).ok_or_else(|| format!("not every configuration has a value of `{over}`"))?;
            values.push(value.as_f64().ok_or_else(|| format!("the values of `{over}` are not numbers"))?);
        }
        values.sort_by(f64::total_cmp);
        values.dedup();
        if values.len() < 2 {
            return Err(format!("`{over}` has fewer than two values with a trial that completed"));
        }
        let is_low = |value: f64| highest.is_none_or(|highest| value <= highest);
        values.retain(|value| is_low(*value));
        if let Some(highest) = highest.filter(|_| values.len() < 2) {
            return Err(format!("fewer than two values up to {} have a trial that completed", number(highest)));
        }
        let side = |value: &f64| {
            let mut picked = at.clone();
            picked.push((key.clone(), Value::from(*value)));
            picked
        };
        let sides = values.iter().map(side).collect();
        let mut failed = configurations.failed_values(&key, &at);
        failed.retain(|value| value.as_f64().is_none_or(is_low));
        let compared = at.into_iter().map(|(key, _)| key).chain([key]).collect();
        Ok(Self { values, sides, compared, failed })
    }

    /// Says which values are missing. A match becomes undecided if one of them lies beyond the measured values, because
    /// it might have changed the outcome.
    fn note(&self, mut outcome: Outcome) -> Outcome {
        if !self.failed.is_empty() {
            let failed: Vec<String> = self.failed.iter().map(value_text).collect();
            outcome.why.push(format!("no trial completed at {}", failed.join(", ")));
        }
        let (first, last) = (self.values.first(), self.values.last());
        let beyond = |value: f64| first.is_some_and(|first| value < *first) || last.is_some_and(|last| value > *last);
        if outcome.verdict == ClaimVerdict::Matches && self.failed.iter().filter_map(Value::as_f64).any(beyond) {
            outcome.verdict = ClaimVerdict::Undecided;
        }
        outcome
    }
}

/// Rises and falls: the ratio of the highest value to the lowest lies in the range, and no step clearly goes the other
/// way by more than the practical threshold. A step need not go the right way: a curve may flatten.
fn trend(
    configurations: &Configurations<'_>,
    name: &str,
    ladder: &Ladder,
    between: Between,
    trend: Trend,
) -> Result<Outcome, String> {
    let (cells, _) = cells(configurations, name, &ladder.sides, &ladder.compared)?;
    let grid = Grid::of(ladder.sides.len(), &cells)?;
    let last = ladder.values.len() - 1;
    let outcome = conclude(configurations, name, &ladder.sides, &grid, |sides| {
        let mut judged = place(ratio(sides, last, 0, grid.within)?, &between);
        let back = (1..=last).find(|to| {
            // The ratio is above 1 if the step goes the wrong way.
            let step = match trend {
                Trend::Up => ratio(sides, to - 1, *to, grid.within),
                Trend::Down => ratio(sides, *to, to - 1, grid.within),
            };
            step.and_then(|step| step.low).is_some_and(|low| low > 1.0 + PRACTICAL)
        });
        if let Some(to) = back {
            let way = if trend == Trend::Up { "falls" } else { "rises" };
            let (from, to) = (number(ladder.values[to - 1]), number(ladder.values[to]));
            judged.verdict = ClaimVerdict::Differs;
            judged.why = format!("it {way} from {from} to {to}");
        }
        Some(judged)
    })?;
    Ok(ladder.note(outcome))
}

/// A peak: all values that may be the best lie in the range. A value may be the best unless the best one clearly beats
/// it.
fn peak(configurations: &Configurations<'_>, test: &PeakTest) -> Result<Outcome, String> {
    let ladder = Ladder::of(configurations, &test.over, &test.at, None)?;
    let inside = |value: &f64| test.between.holds(*value, *value);
    // If all values lie inside the range, any outcome would confirm the claim. If none does, no outcome would.
    if !ladder.values.iter().any(inside) {
        return Err(format!("no value of {} in the range ({}) was run", test.over, range(&test.between)));
    }
    if ladder.values.iter().all(inside) {
        return Err(format!("no value of {} outside the range ({}) was run", test.over, range(&test.between)));
    }
    let (cells, better) = cells(configurations, &test.peak, &ladder.sides, &ladder.compared)?;
    let grid = Grid::of(ladder.sides.len(), &cells)?;
    let outcome = conclude(configurations, &test.peak, &ladder.sides, &grid, |sides| {
        // Sums, since all sides have the same rounds.
        let worth = |side: &usize| {
            let sum: f64 = sides[*side].iter().sum();
            if better == Better::More { sum } else { -sum }
        };
        let best = (0..sides.len()).max_by(|a, b| worth(a).total_cmp(&worth(b)))?;
        let beaten = |side: usize| {
            let (of, to) = if better == Better::More { (best, side) } else { (side, best) };
            let gain = ratio(sides, of, to, grid.within);
            side != best && gain.and_then(|gain| gain.low).is_some_and(|low| low > 1.0)
        };
        let maybe: Vec<f64> = (0..sides.len()).filter(|side| !beaten(*side)).map(|side| ladder.values[side]).collect();
        let rounds = sides[best].len();
        let ends = (rounds > 1).then(|| (maybe.first().copied(), maybe.last().copied()));
        let (low, high) = ends.unwrap_or((None, None));
        let found = Estimate { value: ladder.values[best], low, high, trials: rounds as u32 };
        let (verdict, why) = if rounds < 2 {
            return Some(place(found, &test.between));
        } else if maybe.iter().all(inside) {
            let (lowest, highest) = (ladder.values.first(), ladder.values.last());
            let open = |end: Option<&f64>, at: Option<&f64>, bounded: bool| bounded && end == at;
            // Values beyond those that ran may be better still.
            if open(maybe.last(), highest, test.between.high.is_some()) {
                (ClaimVerdict::Undecided, "the highest value may be the best; run higher ones")
            } else if open(maybe.first(), lowest, test.between.low > 0.0) {
                (ClaimVerdict::Undecided, "the lowest value may be the best; run lower ones")
            } else {
                (ClaimVerdict::Matches, "every value that may be the best lies within the range")
            }
        } else if !maybe.iter().any(inside) {
            (ClaimVerdict::Differs, "every value that may be the best lies outside the range")
        } else {
            (ClaimVerdict::Undecided, "values inside and outside the range may be the best; run more rounds")
        };
        Some(Judged { verdict, found, why: why.to_owned() })
    })?;
    Ok(ladder.note(outcome))
}

/// The share within a limit: the mean over rounds with its interval. It uses the shares themselves, not their
/// logarithms, because a share may be 0.
fn share_within(configurations: &Configurations<'_>, test: &ShareTest) -> Result<Outcome, String> {
    let picked = configurations.picked(&test.at)?;
    let compared = picked.iter().map(|(key, _)| key.clone()).collect();
    let cell = |whole: &WholeTrial<'_>| {
        let (value, _) = whole.share_within(&test.share_within)?;
        let (group, round, trial) = (group(whole.trial, &compared), whole.trial.round, whole.trial.trial);
        Some(Cell { group, side: 0, round, trial, value, within: 0.0 })
    };
    let cells: Vec<Cell> =
        configurations.whole.iter().filter(|whole| picks(&picked, whole.trial)).filter_map(cell).collect();
    if cells.is_empty() {
        return Err(no_limit(configurations, &test.share_within));
    }
    let grid = Grid::of(1, &cells)?;
    let of_all = configurations.whole.iter().filter(|whole| picks(&picked, whole.trial));
    let attempts = of_all.filter_map(|whole| Some(whole.share_within(&test.share_within)?.1)).sum::<u64>() as f64;
    // Those of one group, in the rounds that are kept.
    let rounds = (grid.at.len() + grid.rounds_left_out.len()) * (grid.groups.len() + grid.groups_left_out.len());
    let attempts = attempts * grid.at.len() as f64 / rounds.max(1) as f64;
    conclude(configurations, &test.share_within, &[picked], &grid, |sides| {
        Some(place(at_least_of(mean(&grid.at, &sides[0])?, attempts), &test.between))
    })
}

/// An interval that is never narrower than that of so many independent attempts. Shares that are all 1 have no width, but
/// the next attempt may still fail.
fn at_least_of(share: Estimate, attempts: f64) -> Estimate {
    let (low, high) = share_of(share.value * attempts, attempts);
    if attempts < 1.0 {
        return share;
    }
    Estimate { low: share.low.map(|of| of.min(low)), high: share.high.map(|of| of.max(high)), ..share }
}

fn no_limit(configurations: &Configurations<'_>, path: &str) -> String {
    let paths: BTreeSet<&str> = configurations
        .whole
        .iter()
        .flat_map(|whole| &whole.trial.phases)
        .flat_map(|phase| &phase.limits)
        .map(|limit| limit.path.as_str())
        .collect();
    match did_you_mean(path, paths) {
        Some(near) if near == path => format!("the limit `{path}` is not on a time, so it has no share"),
        Some(near) => format!("no trial of these configurations has the limit `{path}`; did you mean `{near}`?"),
        None => format!("no trial of these configurations has the limit `{path}`"),
    }
}

/// The arithmetic mean of shares with its interval, computed as the logarithm of the geometric mean of their
/// exponentials.
fn mean(at: &[u32], shares: &[f64]) -> Option<Estimate> {
    let raised = |(at, share): (&u32, &f64)| Observed::exactly(*at, share.exp());
    Some(
        mean_of_trials(&at.iter().zip(shares).map(raised).collect::<Vec<_>>())?
            .estimate(1)
            .map(|raised| raised.ln().clamp(0.0, 1.0)),
    )
}
