//! Arms beside each other: one table a phase, each figure over its trials.

use crate::figures;
use crate::human::{bytes, digits, duration, percent, rate};
use crate::lines::{Align, Table};
use crate::results::{ArmResult, FigureOverTrials, RunResult};
use crate::stats::Estimate;

/// Columns of a name that is longer are cut.
const LONGEST_NAME: usize = 48;

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
    let find = |arm: &ArmResult, measure: &str| arm.figures.get(&format!("{phase}.{measure}")).cloned();
    let any = |measure: &str| arms.iter().any(|arm| find(arm, measure).is_some());
    let documents = any(figures::DOCUMENTS.name);
    let what = if documents { figures::DOCUMENTS.name } else { figures::THROUGHPUT.name };
    let time = if any("response.p99") { "response" } else { "service" };
    let limited = result.trials.iter().flat_map(|t| &t.phases).any(|p| p.name == phase && !p.limits.is_empty());
    let several = arms.len() > 1;
    let disk = any(figures::DISK.name);
    let mut columns = vec![("arm", Align::Left), ("trials", Align::Right)];
    columns.push((if documents { "docs/s" } else { "ops/s" }, Align::Right));
    if several {
        columns.push(("to the first", Align::Left));
    }
    let (p50, p99, p99_9) = (format!("{time} p50"), "p99".to_owned(), "p99.9".to_owned());
    columns.extend([(p50.as_str(), Align::Right), (&p99, Align::Right), (&p99_9, Align::Right)]);
    if disk {
        columns.push(("on disk", Align::Right));
    }
    if limited {
        columns.push(("limits", Align::Left));
    }
    let mut table = Table::new(&columns);
    for arm in arms {
        let trials = if arm.failed > 0 {
            format!("{} of {}", arm.trials, arm.trials + arm.failed)
        } else {
            arm.trials.to_string()
        };
        let mut line = vec![cut(&arm.arm), trials];
        let main = find(arm, what);
        line.push(main.as_ref().map_or_else(|| "-".into(), |f| with_width(rate(f.figure.value), &f.figure)));
        if several {
            line.push(main.as_ref().and_then(|f| f.to_first).map_or_else(String::new, |ratio| shown_ratio(&ratio)));
        }
        for percentile in ["p50", "p99", "p99.9"] {
            let figure = find(arm, &format!("{time}.{percentile}"));
            line.push(
                figure
                    .map_or_else(|| "-".into(), |f: FigureOverTrials| with_width(duration(f.figure.value), &f.figure)),
            );
        }
        if disk {
            line.push(find(arm, figures::DISK.name).map_or_else(|| "-".into(), |f| bytes(f.figure.value)));
        }
        if limited {
            line.push(limits(result, arm, phase));
        }
        table.row(line);
    }
    table.print(2)
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

fn cut(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    let start: String = name.chars().take(LONGEST_NAME - 1).collect();
    format!("{start}…")
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
