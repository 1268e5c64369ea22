//! Arms beside each other: one table a phase, each figure over its trials.

use super::WIDTH;
use crate::figures::{DISK, DOCUMENTS, RATE_WITHIN_LIMITS, THROUGHPUT};
use crate::human::{bytes, digits, duration, percent, rate};
use crate::lines::{Align, Table, paragraph};
use crate::results::{ArmResult, FigureOverTrials, RunResult};
use crate::stats::Estimate;

/// Columns of a name that is longer are cut, between two levels.
const LONGEST_NAME: usize = 64;

/// The tables of all measured phases; nothing where there is one arm that was measured once.
pub(super) fn tables(result: &RunResult) -> Vec<(String, String)> {
    let arms: Vec<&ArmResult> = result.arms.iter().filter(|arm| arm.trials + arm.failed > 0).collect();
    if arms.len() < 2 && result.plan.repeats < 2 {
        return Vec::new();
    }
    let mut phases: Vec<&str> = Vec::new();
    for phase in result.trials.iter().flat_map(|t| &t.phases).filter(|p| !p.warm_up) {
        if !phases.contains(&phase.name.as_str()) {
            phases.push(&phase.name);
        }
    }
    phases.into_iter().map(|phase| (phase.to_owned(), table(result, &arms, phase))).collect()
}

fn table(result: &RunResult, arms: &[&ArmResult], phase: &str) -> String {
    let any = |measure: &str| arms.iter().any(|arm| find(arm, phase, measure).is_some());
    let (what, unit) = if any(RATE_WITHIN_LIMITS.name) {
        (RATE_WITHIN_LIMITS.name, "ops/s in limits")
    } else if arms
        .iter()
        .any(|arm| find(arm, phase, DOCUMENTS.name).is_some_and(|docs| !same(docs, find(arm, phase, THROUGHPUT.name))))
    {
        (DOCUMENTS.name, "docs/s")
    } else {
        (THROUGHPUT.name, "ops/s")
    };
    let time = if any("response.p99") { "response" } else { "service" };
    let limited = result.trials.iter().flat_map(|t| &t.phases).any(|p| p.name == phase && !p.limits.is_empty());
    let several = arms.len() > 1;
    let disk = any(DISK.name);
    let percentiles = ["p50", "p99", "p99.9"].map(|percentile| format!("{time}.{percentile}"));
    // What an open loop answers each second is its schedule: arms differ in how fast they answer.
    let given = time == "response" && what != RATE_WITHIN_LIMITS.name;
    let compared = if given { percentiles[1].as_str() } else { what };
    let ratio_after = |measure: &str| (several && measure == compared).then_some(("to the first", Align::Left));
    let mut columns = vec![("arm", Align::Left), ("trials", Align::Right), (unit, Align::Right)];
    columns.extend(ratio_after(what));
    let p50 = format!("{time} p50");
    for (measure, title) in percentiles.iter().zip([p50.as_str(), "p99", "p99.9"]) {
        columns.push((title, Align::Right));
        columns.extend(ratio_after(measure));
    }
    if disk {
        columns.push(("on disk", Align::Right));
    }
    if limited {
        columns.push(("limits", Align::Left));
    }
    let mut table = Table::new(&columns);
    let mut notes = Vec::new();
    for arm in arms {
        let trials = if arm.failed > 0 {
            format!("{} of {}", arm.trials, arm.trials + arm.failed)
        } else {
            arm.trials.to_string()
        };
        let mut line = vec![cut(&arm.arm), trials];
        let shown = |measure: &str, text: fn(f64) -> String| {
            find(arm, phase, measure).map_or_else(|| "-".into(), |f| over(f, text))
        };
        let units = [rate as fn(f64) -> String, duration, duration, duration];
        for (measure, text) in [what].into_iter().chain(percentiles.iter().map(String::as_str)).zip(units) {
            line.push(shown(measure, text));
            if ratio_after(measure).is_some() {
                let to_first = find(arm, phase, measure).and_then(|f| f.to_first);
                line.push(to_first.map_or_else(String::new, |ratio| shown_ratio(&ratio)));
            }
        }
        if disk {
            line.push(find(arm, phase, DISK.name).map_or_else(|| "-".into(), |f| bytes(f.figure.value)));
        }
        if limited {
            line.push(limits(result, arm, phase));
        }
        table.row(line);
        for measure in percentiles.iter().map(String::as_str).chain([what]) {
            let Some(figure) = find(arm, phase, measure).filter(|f| !f.outlying_trials.is_empty()) else { continue };
            let trials: Vec<String> = figure.outlying_trials.iter().map(u32::to_string).collect();
            let trials = trials.join(", ");
            notes.push(format!("trial {trials} of {} is unlike the others in {measure}, and in the figure", arm.arm));
        }
    }
    let mut out = table.print(2);
    notes.iter().for_each(|note| out.push_str(&paragraph("  ", "    ", note, WIDTH)));
    out
}

fn find<'a>(arm: &'a ArmResult, phase: &str, measure: &str) -> Option<&'a FigureOverTrials> {
    arm.figures.get(&format!("{phase}.{measure}"))
}

/// Whether a figure says what another says already.
fn same(figure: &FigureOverTrials, other: Option<&FigureOverTrials>) -> bool {
    other.is_some_and(|other| (figure.figure.value - other.figure.value).abs() <= 1e-9 * other.figure.value)
}

/// A figure over its trials: `264 k ±5 %`, `≥ 800`, `264 k, none in 1`, `none`.
fn over(figure: &FigureOverTrials, text: fn(f64) -> String) -> String {
    let none = figure.none_in.len();
    match (figure.figure.trials, figure.at_least) {
        (0, _) => "none".to_owned(),
        _ if none > 0 => format!("{}, none in {none}", text(figure.figure.value)),
        (_, true) => format!("≥ {}", text(figure.figure.value)),
        _ => with_width(text(figure.figure.value), &figure.figure),
    }
}

/// How often the limits of a phase held over the arm's trials, and the least share within a limit of time.
fn limits(result: &RunResult, arm: &ArmResult, phase: &str) -> String {
    let of_arm = result.trials.iter().filter(|t| crate::arms::arm_of(t) == arm.arm);
    let judged: Vec<_> =
        of_arm.flat_map(|t| &t.phases).filter(|p| p.name == phase && !p.limits.is_empty()).map(|p| &p.limits).collect();
    if judged.is_empty() {
        return "-".to_owned();
    }
    let held = judged.iter().filter(|limits| limits.iter().all(|l| l.held)).count();
    let least = judged.iter().flat_map(|limits| limits.iter()).filter_map(|l| l.share_within).reduce(f64::min);
    let within = least.map_or_else(String::new, |share| format!(", {} within", percent(share)));
    match (held, judged.len()) {
        (1, 1) => format!("held{within}"),
        (0, 1) => format!("not held{within}"),
        (held, of) => format!("held {held} of {of}{within}"),
    }
}

/// A long name without its first levels, so that those which are varied last, and a whole level each, are seen.
fn cut(name: &str) -> String {
    let length = name.chars().count();
    if length <= LONGEST_NAME {
        return name.to_owned();
    }
    let (store, levels) = name.split_once(' ').unwrap_or((name, ""));
    let mut kept: &str = levels;
    while store.chars().count() + kept.chars().count() + 3 > LONGEST_NAME {
        let Some((_, rest)) = kept.split_once(' ') else { break };
        kept = rest;
    }
    format!("{store} … {kept}")
}

/// A figure, ± half of its interval where there is one.
pub(super) fn with_width(text: String, estimate: &Estimate) -> String {
    match estimate.relative_half_width() {
        // Beyond its own size a width says one thing only.
        Some(half) if half > 1.0 => format!("{text} ±>100 %"),
        Some(half) if half.is_finite() => format!("{text} ±{}", percent(half)),
        _ => text,
    }
}

/// `×1.23 [1.20, 1.26]`.
pub(super) fn shown_ratio(ratio: &Estimate) -> String {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => format!("×{} [{}, {}]", digits(ratio.value), digits(low), digits(high)),
        _ => format!("×{}", digits(ratio.value)),
    }
}
