//! An index of many runs: a table to search and sort, and the figures of each study over its runs.

use std::fmt::Write as _;

use indexmap::{IndexMap, IndexSet};
use maud::{Markup, PreEscaped, html};
use storebench_results::RunResult;
use storebench_results::answer::answer;
use storebench_results::beside::panels;
use storebench_results::human::{duration, plural, rate};

use crate::page::head::badge;
use crate::page::tables::{self, numbered, text};
use crate::page::{Life, document, island};
use crate::subject::Subject;

/// Text that only an index contains. A later index may replace a file with this text.
pub const INDEX_MARK: &str = "<section id=\"runs\">";

/// A folder in an index.
#[derive(Debug)]
pub struct IndexedRun {
    /// Its name.
    pub name: String,
    /// The address of its report, relative to the index; none if it has no report.
    pub report: Option<String>,
    /// Its result, or why it cannot be read.
    pub result: Result<Box<RunResult>, String>,
}

/// The index of these runs, newest first.
pub fn index(title: &str, mut runs: Vec<IndexedRun>) -> String {
    // Times are RFC 3339 in UTC, so they sort as text. Unreadable runs come last.
    runs.sort_by(|a, b| began(b).cmp(began(a)).then_with(|| a.name.cmp(&b.name)));
    let read = runs.iter().filter(|run| run.result.is_ok()).count();
    let body = html! {
        header {
            p.brand { "Storebench" }
            h1 { (title) }
            p.facts {
                (plural(read as u64, "run"))
                @if read < runs.len() { ", and " (plural((runs.len() - read) as u64, "folder")) " that cannot be read" }
            }
        }
        main {
            section #runs {
                figure.table { div.scroll { (table(&runs)) } }
            }
            (over_time(&runs))
        }
        footer { p { "Made by Storebench " (env!("CARGO_PKG_VERSION")) ". This file loads nothing. To compare two runs with intervals: " code { "storebench compare A B" } "." } }
    };
    document(&format!("{title} · Storebench"), &body, &island(&Subject::default(), &[]), Life::Written)
}

fn began(run: &IndexedRun) -> &str {
    run.result.as_ref().map_or("", |of| of.run.began.as_str())
}

fn table(runs: &[IndexedRun]) -> Markup {
    let titles = ["began (UTC)", "run", "study", "stores", "answer", "validity"].map(|name| (name, false));
    let row = |run: &IndexedRun| {
        let name = html! {
            @match &run.report {
                Some(address) => a href=(address) { (run.name) },
                None => (run.name),
            }
        };
        match &run.result {
            Ok(of) => {
                let said = answer(of);
                let stores: IndexSet<&str> = of.configurations.iter().map(|c| c.store.as_str()).collect();
                vec![
                    text(html! { span.whole { (minute(&of.run.began)) } }),
                    text(name),
                    text(html! { div.wide { (of.run.title) } }),
                    text(stores.into_iter().collect::<Vec<_>>().join(", ")),
                    text(html! { div.wide { (said.found) } }),
                    text(badge(said.severity)),
                ]
            }
            Err(why) => vec![
                text(""),
                text(name),
                text(""),
                text(""),
                text(html! { div.wide { "cannot be read: " (why) } }),
                text(""),
            ],
        }
    };
    tables::table("sortable searchable", titles, runs.iter().map(row))
}

/// A time to the minute: `2026-11-25 10:15`.
fn minute(began: &str) -> String {
    began.get(..16).unwrap_or(began).replace('T', " ")
}

/// One figure of one configuration over several runs.
struct Course {
    less: bool,
    /// When each run began, and the figure.
    values: Vec<(String, f64)>,
}

/// A line for each compared figure, by study, if a study has at least two runs.
fn over_time(runs: &[IndexedRun]) -> Markup {
    let mut studies: IndexMap<&str, IndexMap<(String, String), Course>> = IndexMap::new();
    // Oldest first.
    for of in runs.iter().rev().filter_map(|run| run.result.as_ref().ok()) {
        let courses = studies.entry(&of.run.title).or_default();
        for panel in panels(of) {
            for row in panel.rows.iter().filter(|row| row.figure.is_some_and(|figure| figure.value.is_finite())) {
                let Some(figure) = row.figure else { continue };
                let course = courses
                    .entry((panel.title.clone(), row.name.clone()))
                    .or_insert_with(|| Course { less: panel.less, values: Vec::new() });
                course.values.push((minute(&of.run.began), figure.value));
            }
        }
    }
    studies.retain(|_, courses| {
        courses.retain(|_, course| course.values.len() > 1);
        !courses.is_empty()
    });
    let titles = [
        ("figure", false),
        ("configuration", false),
        ("runs", true),
        ("over time", false),
        ("first", true),
        ("last", true),
        ("last / first", true),
    ];
    html! {
        @if !studies.is_empty() {
            section #courses {
                h2 { "Figures over time" }
                p.about { "Each point is one run of the same study. Machines, versions and settings may differ between runs." }
                @for (study, courses) in &studies {
                    figure.table {
                        figcaption { b { (study) } }
                        div.scroll {
                            (tables::table("sortable", titles, courses.iter().map(|((figure, name), course)| {
                                let shown = |value: f64| if course.less { duration(value) } else { rate(value) };
                                let first = course.values.first().map_or(0.0, |(_, value)| *value);
                                let last = course.values.last().map_or(0.0, |(_, value)| *value);
                                vec![
                                    text(figure),
                                    text(name),
                                    numbered(Some(course.values.len() as f64), course.values.len().to_string()),
                                    text(PreEscaped(line(course))),
                                    numbered(Some(first), shown(first)),
                                    numbered(Some(last), shown(last)),
                                    numbered(Some(last / first), format!("×{:.2}", last / first)),
                                ]
                            })))
                        }
                    }
                }
            }
        }
    }
}

/// A small line from zero, with a point for each run.
fn line(course: &Course) -> String {
    let (width, height) = (160.0, 30.0);
    let most = course.values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let step = (width - 8.0) / (course.values.len() - 1).max(1) as f64;
    let place = |nth: usize, value: f64| {
        (4.0 + nth as f64 * step, height - 4.0 - value / most.max(f64::MIN_POSITIVE) * (height - 8.0))
    };
    let mut points = String::new();
    let mut dots = String::new();
    for (nth, (began, value)) in course.values.iter().enumerate() {
        let (x, y) = place(nth, *value);
        let shown = if course.less { duration(*value) } else { rate(*value) };
        let _ = write!(points, "{x:.1},{y:.1} ");
        let _ = write!(
            dots,
            "<circle class=\"c0\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"><title>{began}: {shown}</title></circle>"
        );
    }
    format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{} runs\">\
         <polyline points=\"{}\" style=\"fill:none\" stroke=\"var(--c0)\" stroke-width=\"1.5\"/>{dots}</svg>",
        course.values.len(),
        points.trim_end()
    )
}
