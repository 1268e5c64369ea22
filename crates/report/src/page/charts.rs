//! The charts: a place for each, its text alternative and its table.

use maud::{Markup, html};
use storebench_lab::human::{bytes, digits, duration, percent, rate};

use crate::data::{Axis, Chart, Kind, Series, Unit};
use crate::subject::Subject;

/// A table with a line for each x, where there are at most so many; else a line for each series.
const MOST_LINES: usize = 40;
/// Columns, or lines, of a table.
const MOST_SERIES: usize = 60;

pub(super) fn section(subject: &Subject, charts: &[Chart]) -> Markup {
    let left_out = subject.runs.iter().any(|run| run.old_tables_left_out);
    html! {
        @if !charts.is_empty() || left_out {
            section #charts {
                h2 { "Charts" }
                @if left_out {
                    p.dim {
                        "An older version kept the tables of this run as Parquet, which this build of Storebench does not \
                         read: charts over time are left out. A build with the feature `tables` has them."
                    }
                }
                noscript { p.dim { "Charts are drawn by a script of this page, which does not run here; each has a table." } }
                @for chart in charts { (place(subject, chart)) }
            }
        }
    }
}

fn place(subject: &Subject, chart: &Chart) -> Markup {
    html! {
        figure.chart id=(chart.id) {
            figcaption { h3 { (chart.title) } p.about { (chart.about) } }
            div.plot data-chart=(chart.id) role="img" aria-label=(format!("{}: {}", chart.title, chart.about)) {}
            @if chart.kind != Kind::Heat {
                details.data {
                    summary { "Table" }
                    div.scroll { (table(subject, chart)) }
                }
            } @else {
                details.data { summary { "Table" } div.scroll { (heat(subject, chart)) } }
            }
        }
    }
}

/// A number as it is shown.
fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => duration(value),
        Unit::Seconds => duration(value * 1e9),
        Unit::PerSecond => rate(value),
        Unit::Bytes => bytes(value),
        Unit::Share => percent(value),
        Unit::Ratio => format!("×{}", digits(value)),
        Unit::Quantile => percent(1.0 - 1.0 / value),
        Unit::Money | Unit::Plain if value.abs() < 0.001 && value != 0.0 => format!("{value:.3e}"),
        // A level, or a count.
        Unit::Plain if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value}"),
        Unit::Money | Unit::Plain => digits(value),
    }
}

fn named(subject: &Subject, chart: &Chart, series: &Series) -> String {
    let arm = subject.arms.get(series.arm).map_or("", |arm| arm.name.as_str());
    let mut parts =
        vec![if series.label.is_empty() || series.label.starts_with("trial") { arm } else { "" }.to_owned()];
    parts.push(series.label.clone());
    parts.extend(chart.choices.iter().filter_map(|choice| series.keys.get(&choice.key).cloned()));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn table(subject: &Subject, chart: &Chart) -> Markup {
    // Of what there is to choose from, what is shown at first; the rest is in the chart.
    let first = |series: &&Series| {
        chart.choices.iter().all(|choice| series.keys.get(&choice.key).is_none_or(|value| *value == choice.chosen))
    };
    let listed: Vec<&Series> = if chart.series.len() <= MOST_SERIES {
        chart.series.iter().collect()
    } else {
        chart.series.iter().filter(first).take(MOST_SERIES).collect()
    };
    let left_out = chart.series.len() - listed.len();
    let mut xs: Vec<f64> =
        listed.iter().filter_map(|s| chart.xs.get(s.x)).flat_map(|x| x.0.iter().flatten().copied()).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    html! {
        @if listed.iter().any(|series| !series.figures.is_empty()) { (by_figures(subject, chart, &listed)) }
        @else if xs.len() <= MOST_LINES { (by_x(subject, chart, &listed, &xs)) } @else { (by_series(subject, chart, &listed)) }
        @if left_out > 0 { p.dim { (left_out) " further lines are in the chart, and in the tables of the run folder." } }
    }
}

fn axis<'a>(chart: &'a Chart, series: &Series) -> Option<&'a Axis> {
    chart.ys.get(series.axis)
}

/// Lines are x values, columns series.
fn by_x(subject: &Subject, chart: &Chart, listed: &[&Series], xs: &[f64]) -> Markup {
    let at = |series: &Series, x: f64| {
        let known = &chart.xs.get(series.x)?.0;
        let nth = known.iter().position(|value| *value == Some(x))?;
        let of = |numbers: &crate::data::Numbers| numbers.0.get(nth).copied().flatten();
        Some((of(&series.y)?, series.low.as_ref().and_then(of), series.high.as_ref().and_then(of)))
    };
    html! {
        table.sortable {
            thead { tr {
                th.number scope="col" { (chart.x.label) }
                @for series in listed { th.number scope="col" { (named(subject, chart, series)) } }
            } }
            tbody { @for x in xs { tr {
                td.number data-value=(x) { (shown(*x, chart.x.unit)) }
                @for series in listed {
                    @let unit = axis(chart, series).map_or(Unit::Plain, |axis| axis.unit);
                    @match at(series, *x) {
                        Some((y, low, high)) => td.number data-value=(y) {
                            (shown(y, unit))
                            @if let (Some(low), Some(high)) = (low, high) { span.dim { " [" (shown(low, unit)) ", " (shown(high, unit)) "]" } }
                        },
                        None => td.number { "-" },
                    }
                }
            } } }
        }
    }
}

/// Lines are series: the least, the middle and the greatest of each.
fn by_series(subject: &Subject, chart: &Chart, listed: &[&Series]) -> Markup {
    let row = |series: &&Series| {
        let mut values: Vec<f64> = series.y.0.iter().flatten().copied().collect();
        values.sort_by(f64::total_cmp);
        let unit = axis(chart, series).map_or(Unit::Plain, |axis| axis.unit);
        html! {
            tr {
                td { (named(subject, chart, series)) }
                td { (axis(chart, series).map_or("", |axis| axis.label.as_str())) }
                td.number data-value=(values.len()) { (values.len()) }
                @for value in [values.first(), values.get(values.len() / 2), values.last()] {
                    td.number data-value=[value] { (value.map_or("-".to_owned(), |v| shown(*v, unit))) }
                }
            }
        }
    };
    html! {
        table.sortable {
            thead { tr {
                th scope="col" { "line" } th scope="col" { "figure" }
                @for name in ["points", "least", "median", "greatest"] { th.number scope="col" { (name) } }
            } }
            tbody { @for series in listed { (row(series)) } }
        }
    }
}

/// Lines are series that say themselves what they come to.
fn by_figures(subject: &Subject, chart: &Chart, listed: &[&Series]) -> Markup {
    let names: Vec<&str> = listed.first().map_or_else(Vec::new, |s| s.figures.iter().map(|(name, _)| *name).collect());
    html! {
        table.sortable {
            thead { tr {
                th scope="col" { "line" } th scope="col" { "figure" }
                @for name in &names { th.number scope="col" { (name) } }
            } }
            tbody { @for series in listed { tr {
                @let unit = axis(chart, series).map_or(Unit::Plain, |axis| axis.unit);
                td { (named(subject, chart, series)) }
                td { (axis(chart, series).map_or("", |axis| axis.label.as_str())) }
                @for (name, value) in &series.figures {
                    @match (*name, value.is_finite()) {
                        (_, false) => td.number { "-" },
                        ("operations", _) => td.number data-value=(value) { (storebench_lab::human::count(*value as u64)) },
                        _ => td.number data-value=(value) { (shown(*value, unit)) },
                    }
                }
            } } }
        }
    }
}

/// How many operations there are in each cell's row, over all of time.
fn heat(subject: &Subject, chart: &Chart) -> Markup {
    html! {
        table.sortable {
            thead { tr {
                th scope="col" { "arm" } th scope="col" { "phase" }
                @for name in ["operations", "fastest", "most often", "slowest"] { th.number scope="col" { (name) } }
            } }
            tbody { @for of in &chart.heat {
                @let rows = rows(&of.cells);
                @let all: u64 = rows.iter().map(|(_, n)| n).sum();
                @let often = rows.iter().max_by_key(|(_, n)| *n);
                tr {
                    td { (subject.arms.get(of.arm).map_or("", |arm| arm.name.as_str())) }
                    td { (of.keys.get("phase").map_or("", String::as_str)) }
                    td.number data-value=(all) { (storebench_lab::human::count(all)) }
                    @for row in [rows.first(), often, rows.last()] {
                        td.number { (row.map_or("-".to_owned(), |(row, _)| duration(2f64.powf(f64::from(*row) / 4.0)))) }
                    }
                }
            } }
        }
    }
}

/// Counts by row, in order.
fn rows(cells: &[u32]) -> Vec<(u32, u64)> {
    let mut rows = std::collections::BTreeMap::<u32, u64>::new();
    for cell in cells.chunks_exact(3) {
        *rows.entry(cell[1]).or_default() += u64::from(cell[2]);
    }
    rows.into_iter().collect()
}
