//! The charts: a place for each, its text alternative and its table.

use maud::{Markup, html};
use storebench_results::human::{bytes, count, digits, duration, percent, rate};

use super::tables::{self, Cell, number, numbered, text};
use crate::data::{Chart, Heat, Kind, Moment, Numbers, Series, Unit};
use crate::subject::Subject;

/// A table has a row for each x if there are at most this many, otherwise a row for each series.
const MOST_LINES: usize = 40;
/// The most series in a table.
const MOST_SERIES: usize = 60;

/// Charts under a heading; nothing if there are none.
pub(crate) fn section(subject: &Subject, charts: &[Chart], heading: &str) -> Markup {
    html! {
        @if !charts.is_empty() {
            section #charts {
                h2 { (heading) }
                noscript { p.dim { "Charts need JavaScript, which is disabled here. Each chart also has a table." } }
                @for chart in charts { (place(subject, chart)) }
            }
        }
    }
}

fn place(subject: &Subject, chart: &Chart) -> Markup {
    let table = if chart.kind == Kind::Heat { heat(subject, chart) } else { table(subject, chart) };
    figure(chart, &table)
}

/// The place of a chart, with its text alternative and a table.
pub(crate) fn figure(chart: &Chart, table: &Markup) -> Markup {
    html! {
        figure.chart id=(chart.id) {
            figcaption { h3 { (chart.title) } p.about { (chart.about) } }
            div.plot data-chart=(chart.id) role="img" aria-label=(format!("{}: {}", chart.title, chart.about)) {}
            details.data {
                summary { "Table" }
                div.scroll { (table) }
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
    let configuration =
        subject.configurations.get(series.configuration).map_or("", |configuration| configuration.name.as_str());
    let mut parts =
        vec![if series.label.is_empty() || series.label.starts_with("trial") { configuration } else { "" }.to_owned()];
    parts.push(series.label.clone());
    parts.extend(chart.choices.iter().filter_map(|choice| series.keys.get(&choice.key).cloned()));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn table(subject: &Subject, chart: &Chart) -> Markup {
    // If there are too many series, the table has those that the chart shows at first.
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
        listed.iter().filter_map(|s| chart.xs.get(s.x)).flat_map(|x| x.iter().flatten().map(|x| x.0)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    html! {
        @if listed.iter().any(|series| !series.figures.is_empty()) { (by_figures(subject, chart, &listed)) }
        @else if xs.len() <= MOST_LINES { (by_x(subject, chart, &listed, &xs)) } @else { (by_series(subject, chart, &listed)) }
        @if left_out > 0 { p.dim { (left_out) " more lines are in the chart and in the tables of the run folder." } }
    }
}

/// The unit and the label of a series' y axis.
fn axis<'a>(chart: &'a Chart, series: &Series) -> (Unit, &'a str) {
    chart.ys.get(series.axis).map_or((Unit::Plain, ""), |axis| (axis.unit, &axis.label))
}

/// Rows are x values, columns are series.
fn by_x(subject: &Subject, chart: &Chart, listed: &[&Series], xs: &[f64]) -> Markup {
    let at = |series: &Series, x: f64| {
        let nth = chart.xs.get(series.x)?.iter().position(|known| *known == Some(Moment(x)))?;
        let of = |numbers: &Numbers| Some(numbers.get(nth)?.as_ref()?.0);
        Some((of(&series.y)?, series.low.as_ref().and_then(of), series.high.as_ref().and_then(of)))
    };
    let cell = |series: &Series, x: f64| {
        let Some((y, low, high)) = at(series, x) else { return number(None, |_| String::new()) };
        let shown = |value| shown(value, axis(chart, series).0);
        numbered(
            Some(y),
            html! {
                (shown(y))
                @if let (Some(low), Some(high)) = (low, high) { span.dim { " [" (shown(low)) ", " (shown(high)) "]" } }
            },
        )
    };
    let titles =
        std::iter::once(chart.x.label.clone()).chain(listed.iter().map(|series| named(subject, chart, series)));
    let row = |x: &f64| {
        let first = number(Some(*x), |x| shown(x, chart.x.unit));
        std::iter::once(first).chain(listed.iter().map(|series| cell(series, *x))).collect()
    };
    tables::table("sortable", titles.map(|title| (title, true)), xs.iter().map(row))
}

/// A table with a row for each series: its name, its figure and these numbers.
fn by_line(
    subject: &Subject,
    chart: &Chart,
    listed: &[&Series],
    names: &[&str],
    numbers: impl Fn(&Series, Unit) -> Vec<Cell>,
) -> Markup {
    let titles = ["line", "figure"].into_iter().map(|name| (name, false));
    let row = |series: &&Series| {
        let (unit, label) = axis(chart, series);
        [text(named(subject, chart, series)), text(label)].into_iter().chain(numbers(series, unit)).collect()
    };
    tables::table("sortable", titles.chain(names.iter().map(|name| (*name, true))), listed.iter().map(row))
}

/// Rows are series, with the minimum, the median and the maximum of each.
fn by_series(subject: &Subject, chart: &Chart, listed: &[&Series]) -> Markup {
    by_line(subject, chart, listed, &["points", "min", "median", "max"], |series, unit| {
        let mut values: Vec<f64> = series.y.iter().flatten().map(|y| y.0).collect();
        values.sort_by(f64::total_cmp);
        let three = [values.first(), values.get(values.len() / 2), values.last()];
        let points = number(Some(values.len() as f64), |n| n.to_string());
        std::iter::once(points).chain(three.map(|value| number(value.copied(), |v| shown(v, unit)))).collect()
    })
}

/// Rows are series, with the figures that each provides for the table.
fn by_figures(subject: &Subject, chart: &Chart, listed: &[&Series]) -> Markup {
    let names: Vec<&str> = listed.first().map_or_else(Vec::new, |s| s.figures.iter().map(|(name, _)| *name).collect());
    by_line(subject, chart, listed, &names, |series, unit| {
        let cell = |(name, value): &(&str, f64)| {
            number(Some(*value).filter(|value| value.is_finite()), |value| match *name {
                "operations" => count(value as u64),
                _ => shown(value, unit),
            })
        };
        series.figures.iter().map(cell).collect()
    })
}

/// For each configuration and phase: the number of operations, and their fastest, most frequent and slowest time.
fn heat(subject: &Subject, chart: &Chart) -> Markup {
    let titles = ["configuration", "phase"].map(|name| (name, false)).into_iter();
    let numbers = ["operations", "fastest", "most frequent", "slowest"].map(|name| (name, true));
    let row = |of: &Heat| {
        let rows = rows(&of.cells);
        let all: u64 = rows.iter().map(|(_, n)| n).sum();
        let three = [rows.first(), rows.iter().max_by_key(|(_, n)| *n), rows.last()];
        let time = |row: &(u32, u64)| duration(2f64.powf(f64::from(row.0) / 4.0));
        let mut cells = vec![
            text(subject.configurations.get(of.configuration).map_or("", |configuration| configuration.name.as_str())),
            text(of.keys.get("phase").map_or("", String::as_str)),
            number(Some(all as f64), |_| count(all)),
        ];
        cells.extend(three.map(|row| numbered(None, row.map_or_else(|| "n/a".to_owned(), time))));
        cells
    };
    tables::table("sortable", titles.chain(numbers), chart.heat.iter().map(row))
}

/// Counts by row, summed over columns, in order.
fn rows(cells: &[u32]) -> Vec<(u32, u64)> {
    let mut rows = std::collections::BTreeMap::<u32, u64>::new();
    for cell in cells.chunks_exact(3) {
        *rows.entry(cell[1]).or_default() += u64::from(cell[2]);
    }
    rows.into_iter().collect()
}
